/* @kernel sum */
/* Neumaier's compensated sum: do not compile with -ffast-math, which would undo it. */
static double sum_of(const double *x, size_t n) {
    double sum = 0.0, lost = 0.0;
    for (size_t i = 0; i < n; i++) {
        double next = sum + x[i];
        lost += fabs(sum) >= fabs(x[i]) ? (sum - next) + x[i] : (x[i] - next) + sum;
        sum = next;
    }
    return isfinite(sum) ? sum + lost : sum;
}
/* @kernel clip */
/* lower and upper have one number for all values (step 0) or one per value (step 1). */
static void clip(double *f, size_t n, const double *lower, size_t low_step, const double *upper,
                 size_t up_step) {
    for (size_t i = 0; i < n; i++) {
        f[i] = fmin(fmax(f[i], lower[i * low_step]), upper[i * up_step]);
    }
}
/* @kernel support */
static int support(const double *f, size_t n, const double *lower, size_t low_step,
                   const double *upper, size_t up_step) {
    (void)upper, (void)up_step;
    for (size_t i = 0; i < n; i++) {
        if (!(f[i] > 0) && lower[i * low_step] > 0) return 3;
    }
    return 0;
}
/* @kernel shift: sum */
static int shift(double *f, size_t n, double total) {
    double move = (total - sum_of(f, n)) / (double)n;
    for (size_t i = 0; i < n; i++) f[i] += move;
    return 0;
}
/* @kernel scale: sum */
static int scale(double *f, size_t n, double total) {
    double sum = sum_of(f, n);
    if (sum > 0) {
        double factor = total / sum;
        for (size_t i = 0; i < n; i++) f[i] *= factor;
    }
    return 0;
}
/* @kernel response level */
static double response_level(double x, double price, const double *protocol) {
    (void)protocol;
    return x - price;
}
/* @kernel response KL */
static double response_kl(double x, double price, const double *protocol) {
    (void)protocol;
    return x > 0 ? exp(log(x) - price) : 0.0;
}
/* @kernel response weighted */
/* The minimiser of (f - x)^2/(1 + kappa f) + price f, inside the domain 1 + kappa f > 0. */
static double response_weighted(double x, double price, const double *protocol) {
    double kappa = protocol[0];
    double inside = 1 + kappa * price;
    double ratio = -price / (1 + sqrt(fmax(inside, 0.0)));
    double f = inside > 0 ? (x + ratio) / (1 - kappa * ratio) : copysign(INFINITY, kappa);
    double end = -(1 - 1e-9) / kappa;
    if (kappa > 0) return fmax(f, end);
    return kappa < 0 ? fmin(f, end) : f;
}
/* @kernel response binomial */
/* m P^2 - (1 + m) P + c/n = 0 with m = price/(p - q), by the root that does not cancel. */
static double response_binomial(double x, double price, const double *protocol) {
    double q = protocol[0], slope = protocol[1] - protocol[0];
    double share = fmin(fmax(q + slope * x, 0.0), 1.0);
    double m = price / slope, both = 1 + m;
    double root = sqrt(fmax(both * both - 4 * m * share, 0.0));
    double probability = both >= 0 ? 2 * share / (both + root) : (both - root) / (2 * m);
    if (isnan(probability)) probability = 0.0;
    double near_end = 1 - 1e-9;
    return fmin(fmax((probability - q) / slope, -near_end * q / slope), near_end * (1 - q) / slope);
}
/* @kernel response multinomial */
static double response_multinomial(double x, double price, const double *protocol) {
    double q = protocol[0], slope = protocol[1] - protocol[0];
    double share = fmin(fmax(q + slope * x, 0.0), 1.0);
    return price > 0 ? share / price - q / slope : INFINITY;
}
/* @kernel level: sum */
typedef double (*response)(double x, double price, const double *protocol);

typedef struct {
    const double *x, *lower, *upper, *protocol;
    size_t n, low_step, up_step;
    response of;
} levelled;

static double at_price(const levelled *p, double price, double *f) {
    for (size_t i = 0; i < p->n; i++) {
        double free = p->of(p->x[i], price, p->protocol);
        f[i] = fmin(fmax(free, p->lower[i * p->low_step]), p->upper[i * p->up_step]);
    }
    return sum_of(f, p->n);
}

/* f_v = response(x_v, price) between its bounds, at the price at which they sum to the total. */
static int level(double *f, size_t n, const double *lower, size_t low_step, const double *upper,
                 size_t up_step, double total, response of, const double *protocol) {
    double size = fmax(1.0, fabs(total)), slack = 1e-12 * size;
    double a = -1.0, b = 1.0, price = 0.0, best = INFINITY;
    int side = 0;
    double *x = malloc(n * sizeof *x);
    if (!x) return 4;
    memcpy(x, f, n * sizeof *x);
    levelled p = {x, lower, upper, protocol, n, low_step, up_step, of};
    double above = at_price(&p, a, f) - total, below = at_price(&p, b, f) - total;
    for (int k = 0; !(above >= -slack) && k < 500; k++) above = at_price(&p, a *= 4, f) - total;
    for (int k = 0; !(below <= slack) && k < 500; k++) below = at_price(&p, b *= 4, f) - total;
    if (!(above >= -slack) || !(below <= slack)) {
        free(x);
        return 3;
    }
    if (fabs(above) < best) best = fabs(above), price = a;
    if (fabs(below) < best) best = fabs(below), price = b;
    /* Regula falsi, with a bisection at every third step. */
    for (int k = 0; k < 300 && best > 1e-16 * size; k++) {
        double middle = b - below * (b - a) / (below - above);
        if (k % 3 == 2 || !(middle > a && middle < b)) middle = a + (b - a) / 2;
        if (!(middle > a && middle < b)) break;
        double excess = at_price(&p, middle, f) - total;
        if (fabs(excess) < best) best = fabs(excess), price = middle;
        if (excess > 0) {
            a = middle, above = excess;
            if (side == 1) below /= 2;
            side = 1;
        } else {
            b = middle, below = excess;
            if (side == -1) above /= 2;
            side = -1;
        }
    }
    /* The last bit of the price may be worth more than that of the sum. */
    double rest = total - at_price(&p, price, f), room = fabs(rest);
    size_t inside = 0;
    for (size_t i = 0; i < n; i++)
        inside += lower[i * low_step] + room < f[i] && f[i] + room < upper[i * up_step];
    for (size_t i = 0; inside && i < n; i++)
        if (lower[i * low_step] + room < f[i] && f[i] + room < upper[i * up_step])
            f[i] += rest / (double)inside;
    free(x);
    return 0;
}
/* @kernel priced: clip, level */
typedef struct {
    double *f, *x, *work;
    const double *lower, *upper, *weights;
    size_t n, low_step, up_step;
    double total, limit, sign;
} priced;

/* The minimiser between the bounds, with the total unless that is not a number. */
static int between(const priced *p, const double *x, response of, const double *protocol) {
    for (size_t i = 0; i < p->n; i++) p->f[i] = isnan(p->total) ? of(x[i], 0.0, protocol) : x[i];
    if (!isnan(p->total))
        return level(p->f, p->n, p->lower, p->low_step, p->upper, p->up_step, p->total, of,
                     protocol);
    clip(p->f, p->n, p->lower, p->low_step, p->upper, p->up_step);
    return 0;
}

/* Ends at the price >= 0 at which an excess that falls with it is 0. */
static int at_the_price(int (*excess_at)(const priced *, double, double *), const priced *p) {
    double size = fmax(1.0, fabs(p->limit)), slack = 1e-12 * size;
    double a = 0.0, b = 1.0, above, below, excess;
    int side = 0, status = excess_at(p, a, &above);
    if (status || above <= 0) return status;
    status = excess_at(p, b, &below);
    for (int k = 0; !status && !(below <= slack) && k < 500; k++) {
        a = b, above = below;
        status = excess_at(p, b *= 4, &below);
    }
    if (status) return status;
    if (!(below <= slack)) return 3;
    double price = fabs(above) < fabs(below) ? a : b, best = fmin(fabs(above), fabs(below));
    /* Regula falsi, with a bisection at every third step. */
    for (int k = 0; k < 300 && best > 1e-16 * size; k++) {
        double middle = b - below * (b - a) / (below - above);
        if (k % 3 == 2 || !(middle > a && middle < b)) middle = a + (b - a) / 2;
        if (!(middle > a && middle < b)) break;
        status = excess_at(p, middle, &excess);
        if (status) return status;
        if (fabs(excess) < best) best = fabs(excess), price = middle;
        if (excess > 0) {
            a = middle, above = excess;
            if (side == 1) below /= 2;
            side = 1;
        } else {
            b = middle, below = excess;
            if (side == -1) above /= 2;
            side = -1;
        }
    }
    return excess_at(p, price, &excess);
}
/* @kernel row: sum, priced, response level */
static int excess_of_row(const priced *p, double price, double *excess) {
    for (size_t i = 0; i < p->n; i++) p->work[i] = p->x[i] - p->sign * price * p->weights[i];
    int status = between(p, p->work, response_level, NULL);
    for (size_t i = 0; i < p->n; i++) p->work[i] = p->weights[i] * p->f[i];
    *excess = p->sign * (sum_of(p->work, p->n) - p->limit);
    return status;
}

/* The nearest values between the bounds, with the total, and low <= weights · f <= high. */
static int row(double *f, size_t n, const double *lower, size_t low_step, const double *upper,
               size_t up_step, double total, const double *weights, double low, double high) {
    double *x = malloc(n * sizeof *x), *work = malloc(n * sizeof *work), value = 0.0;
    int status = x && work ? 0 : 4;
    if (!status) {
        memcpy(x, f, n * sizeof *x);
        priced p = {f, x, work, lower, upper, weights, n, low_step, up_step, total, 0.0, 1.0};
        /* At the limit 0 the excess is the value of the row itself. */
        status = excess_of_row(&p, 0.0, &value);
        p.sign = value > high ? 1.0 : -1.0;
        p.limit = value > high ? high : low;
        if (!status && (value > high || value < low)) status = at_the_price(excess_of_row, &p);
    }
    free(x);
    free(work);
    return status;
}
/* @kernel priced ball: priced */
/* The nearest values that the excess allows, where x is f less a centre: bounds and total too are
   those of the differences. A centre NULL is 0. */
static int priced_ball(int (*excess_at)(const priced *, double, double *), double *f, size_t n,
                       const double *lower, size_t low_step, const double *upper, size_t up_step,
                       double total, const double *centre, const double *weights, double radius) {
    double *x = malloc(n * sizeof *x), *work = malloc(n * sizeof *work);
    int status = x && work ? 0 : 4;
    if (!status) {
        for (size_t i = 0; i < n; i++) x[i] = centre ? f[i] - centre[i] : f[i];
        priced p = {f, x, work, lower, upper, weights, n, low_step, up_step, total, radius, 1.0};
        status = at_the_price(excess_at, &p);
        for (size_t i = 0; centre && i < n; i++) f[i] += centre[i];
    }
    free(x);
    free(work);
    return status;
}
/* @kernel ball: sum, priced ball */
/* Deviations are drawn towards 0, by no more than they have. */
static double response_soft(double x, double price, const double *protocol) {
    return copysign(fmax(fabs(x - price) - protocol[0], 0.0), x - price);
}

static int excess_of_ball(const priced *p, double price, double *excess) {
    int status = between(p, p->x, response_soft, &price);
    for (size_t i = 0; i < p->n; i++) p->work[i] = fabs(p->f[i]);
    *excess = sum_of(p->work, p->n) - p->limit;
    return status;
}

/* The nearest values with |f - reference| summing to the radius at most. Bounds and total are those
   of the deviations f - reference. */
static int ball(double *f, size_t n, const double *lower, size_t low_step, const double *upper,
                size_t up_step, double total, const double *reference, double radius) {
    return priced_ball(excess_of_ball, f, n, lower, low_step, upper, up_step, total, reference,
                       NULL, radius);
}
/* @kernel round ball: sum, priced ball, response level */
static int excess_of_round_ball(const priced *p, double price, double *excess) {
    for (size_t i = 0; i < p->n; i++) p->work[i] = p->x[i] / (1 + price);
    int status = between(p, p->work, response_level, NULL);
    for (size_t i = 0; i < p->n; i++) p->work[i] = p->f[i] * p->f[i];
    *excess = sqrt(sum_of(p->work, p->n)) - p->limit;
    return status;
}

/* The nearest values within the radius of the reference. Bounds and total are those of the
   deviations f - reference. */
static int round_ball(double *f, size_t n, const double *lower, size_t low_step,
                      const double *upper, size_t up_step, double total, const double *reference,
                      double radius) {
    return priced_ball(excess_of_round_ball, f, n, lower, low_step, upper, up_step, total,
                       reference, NULL, radius);
}
/* @kernel divergence ball: sum, priced ball */
/* The minimiser of (f - x)^2/2 + s (f log f - f) + price f, s w(z) with w + log w = z. */
static double response_divergence(double x, double price, const double *protocol) {
    double s = protocol[0];
    if (!(s > 0)) return fmax(x - price, 0.0);
    double z = (x - price) / s - log(s);
    /* Below the smallest double. */
    if (z < -700) return 0.0;
    /* Newton's steps from below stay below, and double their digits each. */
    double w = z > 1 ? z - log(z) : exp(z) / (1 + exp(z));
    for (int k = 0; k < 6; k++) w *= (1 + z - log(w)) / (1 + w);
    return s * w;
}

/* The weights are the reference, where it is 0 f is 0. */
static int excess_of_divergence_ball(const priced *p, double price, double *excess) {
    for (size_t i = 0; i < p->n; i++)
        p->work[i] = p->weights[i] > 0 ? p->x[i] + price * log(p->weights[i]) : -INFINITY;
    int status = between(p, p->work, response_divergence, &price);
    for (size_t i = 0; i < p->n; i++) {
        double f = p->f[i], r = p->weights[i];
        p->work[i] = f > 0 && r > 0 ? f * log(f / r) - f + r : r;
    }
    *excess = sum_of(p->work, p->n) - p->limit;
    return status;
}

/* The nearest values whose divergence from the reference is the radius at most. */
static int divergence_ball(double *f, size_t n, const double *lower, size_t low_step, const double *upper,
                   size_t up_step, double total, const double *reference, double radius) {
    return priced_ball(excess_of_divergence_ball, f, n, lower, low_step, upper, up_step, total, NULL,
                       reference, radius);
}
/* @kernel highest: level, response level */
typedef struct {
    double value;
    size_t place;
} ranked;

static int by_rank(const void *left, const void *right) {
    const ranked *a = left, *b = right;
    if (a->value != b->value) return a->value > b->value ? -1 : 1;
    return a->place < b->place ? -1 : 1;
}

/* The k highest values, of equal ones the first, on the simplex; all others 0. */
static int highest(double *f, size_t n, size_t k, double total) {
    const double zero = 0.0, infinite = INFINITY;
    ranked *order = malloc(n * sizeof *order);
    double *top = malloc(n * sizeof *top);
    int status = order && top ? 0 : 4;
    if (k > n) k = n;
    for (size_t i = 0; !status && i < n; i++) order[i] = (ranked){f[i], i};
    if (!status) {
        qsort(order, n, sizeof *order, by_rank);
        for (size_t i = 0; i < k; i++) top[i] = order[i].value;
        status = level(top, k, &zero, 0, &infinite, 0, total, response_level, NULL);
        for (size_t i = 0; i < n; i++) f[order[i].place] = i < k ? top[i] : 0.0;
    }
    free(order);
    free(top);
    return status;
}
/* @kernel by group */
typedef int (*of_group)(double *f, size_t n, const size_t *members, double total,
                        const double *protocol);

/* Values in no group have the number of groups as theirs. */
static int by_group(double *f, size_t n, const size_t *group, size_t groups, const double *totals,
                    of_group kernel, const double *protocol) {
    double *part = malloc(n * sizeof *part);
    size_t *members = malloc(n * sizeof *members);
    int status = part && members ? 0 : 4;
    for (size_t g = 0; !status && g < groups; g++) {
        size_t count = 0;
        for (size_t i = 0; i < n; i++) {
            if (group[i] == g) {
                members[count] = i;
                part[count++] = f[i];
            }
        }
        if (count) status = kernel(part, count, members, totals[g], protocol);
        for (size_t i = 0; i < count; i++) f[members[i]] = part[i];
    }
    free(part);
    free(members);
    return status;
}
/* @kernel pool */
/* The nearest values in which no node of a forest is above its parent. The parent of a node comes
   before it (n for a root); parent NULL is the chain 0, 1, 2, ...; mass NULL is 1 for each node. */
static int pool(double *f, size_t n, const size_t *parent, const double *mass) {
    size_t *first = malloc(n * sizeof *first), *last = malloc(n * sizeof *last);
    size_t *next = malloc(n * sizeof *next), *into = malloc(n * sizeof *into);
    double *sum = malloc(n * sizeof *sum), *weight = malloc(n * sizeof *weight);
    int status = first && last && next && into && sum && weight ? 0 : 4;
    for (size_t i = 0; !status && i < n; i++) {
        first[i] = last[i] = next[i] = into[i] = n;
        weight[i] = mass ? mass[i] : 1.0;
        sum[i] = weight[i] * f[i];
    }
    for (size_t i = n; !status && i-- > 0;) {
        for (;;) {
            size_t top = n, before = n, previous = n;
            for (size_t c = first[i]; c < n; previous = c, c = next[c]) {
                if (top == n || f[c] > f[top]) {
                    top = c;
                    before = previous;
                }
            }
            if (top == n || !(f[top] > f[i])) break;
            /* The highest child joins the block, and its children become the block's. */
            if (before == n) first[i] = next[top];
            else next[before] = next[top];
            if (last[i] == top) last[i] = before;
            if (first[top] < n) {
                if (first[i] == n) first[i] = first[top];
                else next[last[i]] = first[top];
                last[i] = last[top];
            }
            into[top] = i;
            sum[i] += sum[top];
            weight[i] += weight[top];
            f[i] = sum[i] / weight[i];
        }
        size_t above = parent ? parent[i] : (i ? i - 1 : n);
        if (above < n) {
            next[i] = first[above];
            if (first[above] == n) last[above] = i;
            first[above] = i;
        }
    }
    for (size_t i = 0; !status && i < n; i++) if (into[i] < n) f[i] = f[into[i]];
    free(first), free(last), free(next), free(into), free(sum), free(weight);
    return status;
}
/* @kernel pool values: pool */
/* Pools values whose nodes are given; sign -1 where roots are the lowest of their trees. */
static int pool_values(double *f, size_t n, const size_t *node, size_t nodes, const size_t *parent,
                       double sign) {
    double *mean = calloc(nodes, sizeof *mean), *mass = calloc(nodes, sizeof *mass);
    int status = mean && mass ? 0 : 4;
    for (size_t i = 0; !status && i < n; i++) {
        mean[node ? node[i] : i] += sign * f[i];
        mass[node ? node[i] : i] += 1.0;
    }
    for (size_t i = 0; !status && i < nodes; i++) mean[i] /= mass[i];
    if (!status) status = pool(mean, nodes, parent, mass);
    for (size_t i = 0; !status && i < n; i++) f[i] = sign * mean[node ? node[i] : i];
    free(mean);
    free(mass);
    return status;
}
/* @kernel variance mean */
static void to_variance(double *f, size_t n, double kappa) {
    for (size_t i = 0; i < n; i++) f[i] += kappa / 2 * f[i] * f[i];
}

static void from_variance(double *f, size_t n, double kappa) {
    for (size_t i = 0; i < n; i++) f[i] = 2 * f[i] / (1 + sqrt(fmax(1 + 2 * kappa * f[i], 0.0)));
}
/* @kernel top set */
/* Members below a level rise to it and others above it fall to it, as much as the members rise: the
   level is halved in until the same values move, and is then their mean. */
static int top_set(double *f, size_t n, const size_t *member) {
    double low = f[0], high = f[0];
    for (size_t i = 1; i < n; i++) {
        low = fmin(low, f[i]);
        high = fmax(high, f[i]);
    }
    for (;;) {
        double level = low + (high - low) / 2, rise = 0.0;
        if (!(low < level && level < high)) break;
        for (size_t i = 0; i < n; i++) {
            if (member[i] ? f[i] < level : f[i] > level) rise += level - f[i];
        }
        if (rise <= 0) low = level;
        else high = level;
    }
    double sum = 0.0, count = 0.0;
    for (size_t i = 0; i < n; i++) {
        if (member[i] ? f[i] <= low : f[i] >= high) {
            sum += f[i];
            count += 1.0;
        }
    }
    double level = count > 0 ? sum / count : low;
    for (size_t i = 0; i < n; i++) f[i] = member[i] ? fmax(f[i], level) : fmin(f[i], level);
    return 0;
}
/* @kernel ties */
static int ties(double *f, size_t n, const size_t *group, size_t groups) {
    double *sum = calloc(groups, sizeof *sum), *count = calloc(groups, sizeof *count);
    int status = sum && count ? 0 : 4;
    for (size_t i = 0; !status && i < n; i++) {
        sum[group[i]] += f[i];
        count[group[i]] += 1.0;
    }
    for (size_t i = 0; !status && i < n; i++) f[i] = sum[group[i]] / count[group[i]];
    free(sum);
    free(count);
    return status;
}
/* @kernel tree */
/* Two passes: node by node the best estimate from below, then what the parent has, shared. Nodes
   are listed in order, parents first; the parent of a root is n, and total NaN leaves it free. */
static int tree(double *f, size_t n, const size_t *parent, const size_t *order, double total) {
    double *sum = calloc(n + 1, sizeof *sum), *variances = calloc(n + 1, sizeof *variances);
    double *variance = malloc(n * sizeof *variance);
    int status = sum && variances && variance ? 0 : 4;
    for (size_t k = n; !status && k-- > 0;) {
        size_t v = order[k];
        variance[v] = 1.0;
        if (variances[v] > 0) {
            f[v] = (f[v] * variances[v] + sum[v]) / (variances[v] + 1);
            variance[v] = variances[v] / (variances[v] + 1);
        }
        sum[parent[v]] += f[v];
        variances[parent[v]] += variance[v];
    }
    for (size_t k = 0; !status && k < n; k++) {
        size_t v = order[k], above = parent[v];
        double has = above < n ? f[above] : (isnan(total) ? sum[n] : total);
        f[v] += (has - sum[above]) * (variance[v] / variances[above]);
    }
    free(sum);
    free(variances);
    free(variance);
    return status;
}

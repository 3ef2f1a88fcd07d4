// @kernel sum
// Neumaier's compensated sum.
function sumOf(x) {
  let sum = 0;
  let lost = 0;
  for (let i = 0; i < x.length; i++) {
    const next = sum + x[i];
    lost += Math.abs(sum) >= Math.abs(x[i]) ? sum - next + x[i] : x[i] - next + sum;
    sum = next;
  }
  return Number.isFinite(sum) ? sum + lost : sum;
}
// @kernel clip
// lower and upper are one number for all values, or have one per value.
const boundOf = (bound, i) => (typeof bound === "number" ? bound : bound[i]);

function clip(f, lower, upper) {
  for (let i = 0; i < f.length; i++) {
    f[i] = Math.min(Math.max(f[i], boundOf(lower, i)), boundOf(upper, i));
  }
}
// @kernel support: clip
function support(f, lower, upper) {
  if (f.some((x, i) => !(x > 0) && boundOf(lower, i) > 0)) {
    throw new RangeError("a value whose estimate is not positive has a lower bound above 0");
  }
}
// @kernel shift: sum
function shift(f, total) {
  const move = (total - sumOf(f)) / f.length;
  for (let i = 0; i < f.length; i++) f[i] += move;
}
// @kernel scale: sum
function scale(f, total) {
  const sum = sumOf(f);
  if (sum > 0) for (let i = 0; i < f.length; i++) f[i] *= total / sum;
}
// @kernel response level
const responseLevel = (x, price) => x - price;
// @kernel response KL
const responseKl = (x, price) => (x > 0 ? Math.exp(Math.log(x) - price) : 0);
// @kernel response weighted
// The minimiser of (f - x)^2/(1 + kappa f) + price f, inside the domain 1 + kappa f > 0.
function responseWeighted(x, price, [kappa]) {
  const inside = 1 + kappa * price;
  const ratio = -price / (1 + Math.sqrt(Math.max(inside, 0)));
  const f = inside > 0 ? (x + ratio) / (1 - kappa * ratio) : Math.sign(kappa) * Infinity;
  const end = -(1 - 1e-9) / kappa;
  if (kappa > 0) return Math.max(f, end);
  return kappa < 0 ? Math.min(f, end) : f;
}
// @kernel response binomial
// m P^2 - (1 + m) P + c/n = 0 with m = price/(p - q), by the root that does not cancel.
function responseBinomial(x, price, [q, p]) {
  const slope = p - q;
  const share = Math.min(Math.max(q + slope * x, 0), 1);
  const m = price / slope;
  const both = 1 + m;
  const root = Math.sqrt(Math.max(both * both - 4 * m * share, 0));
  let probability = both >= 0 ? (2 * share) / (both + root) : (both - root) / (2 * m);
  if (Number.isNaN(probability)) probability = 0;
  const lowest = (-(1 - 1e-9) * q) / slope;
  return Math.min(Math.max((probability - q) / slope, lowest), ((1 - 1e-9) * (1 - q)) / slope);
}
// @kernel response multinomial
function responseMultinomial(x, price, [q, p]) {
  const share = Math.min(Math.max(q + (p - q) * x, 0), 1);
  return price > 0 ? share / price - q / (p - q) : Infinity;
}
// @kernel level: sum, clip
// f_v = response(x_v, price) between its bounds, at the price at which they sum to the total.
function level(f, lower, upper, total, response, protocol) {
  const x = Float64Array.from(f);
  const size = Math.max(1, Math.abs(total));
  const slack = 1e-12 * size;
  const excessAt = (price) => {
    for (let i = 0; i < x.length; i++) f[i] = response(x[i], price, protocol);
    clip(f, lower, upper);
    return sumOf(f) - total;
  };
  let a = -1;
  let b = 1;
  let above = excessAt(a);
  let below = excessAt(b);
  for (let k = 0; !(above >= -slack) && k < 500; k++) above = excessAt((a *= 4));
  for (let k = 0; !(below <= slack) && k < 500; k++) below = excessAt((b *= 4));
  if (!(above >= -slack) || !(below <= slack)) {
    throw new RangeError(`the bounds do not allow a sum of ${total}`);
  }
  let price = Math.abs(above) < Math.abs(below) ? a : b;
  let best = Math.min(Math.abs(above), Math.abs(below));
  let side = 0;
  // Regula falsi, with a bisection at every third step.
  for (let k = 0; k < 300 && best > 1e-16 * size; k++) {
    let middle = b - (below * (b - a)) / (below - above);
    if (k % 3 === 2 || !(middle > a && middle < b)) middle = a + (b - a) / 2;
    if (!(middle > a && middle < b)) break;
    const excess = excessAt(middle);
    if (Math.abs(excess) < best) {
      best = Math.abs(excess);
      price = middle;
    }
    if (excess > 0) {
      a = middle;
      above = excess;
      if (side === 1) below /= 2;
      side = 1;
    } else {
      b = middle;
      below = excess;
      if (side === -1) above /= 2;
      side = -1;
    }
  }
  // The last bit of the price may be worth more than that of the sum.
  const rest = -excessAt(price);
  const room = Math.abs(rest);
  const isInside = (v, i) => boundOf(lower, i) + room < v && v + room < boundOf(upper, i);
  const inside = f.reduce((count, v, i) => count + isInside(v, i), 0);
  if (inside) for (let i = 0; i < f.length; i++) if (isInside(f[i], i)) f[i] += rest / inside;
}
// @kernel priced: clip, level
// The minimiser between the bounds, with the total unless that is not a number.
function between(f, x, lower, upper, total, response, protocol) {
  for (let i = 0; i < f.length; i++) f[i] = Number.isNaN(total) ? response(x[i], 0, protocol) : x[i];
  if (Number.isNaN(total)) clip(f, lower, upper);
  else level(f, lower, upper, total, response, protocol);
}

// Ends at the price >= 0 at which an excess that falls with it is 0.
function atThePrice(excessAt, size) {
  const slack = 1e-12 * size;
  let a = 0;
  let b = 1;
  let above = excessAt(a);
  if (above <= 0) return;
  let below = excessAt(b);
  for (let k = 0; !(below <= slack) && k < 500; k++) {
    a = b;
    above = below;
    below = excessAt((b *= 4));
  }
  if (!(below <= slack)) throw new RangeError("the bounds do not allow the limit");
  let price = Math.abs(above) < Math.abs(below) ? a : b;
  let best = Math.min(Math.abs(above), Math.abs(below));
  let side = 0;
  // Regula falsi, with a bisection at every third step.
  for (let k = 0; k < 300 && best > 1e-16 * size; k++) {
    let middle = b - (below * (b - a)) / (below - above);
    if (k % 3 === 2 || !(middle > a && middle < b)) middle = a + (b - a) / 2;
    if (!(middle > a && middle < b)) break;
    const excess = excessAt(middle);
    if (Math.abs(excess) < best) {
      best = Math.abs(excess);
      price = middle;
    }
    if (excess > 0) {
      a = middle;
      above = excess;
      if (side === 1) below /= 2;
      side = 1;
    } else {
      b = middle;
      below = excess;
      if (side === -1) above /= 2;
      side = -1;
    }
  }
  excessAt(price);
}
// @kernel row: sum, priced, response level
// The nearest values between the bounds, with the total, and low <= weights · f <= high.
function row(f, lower, upper, total, weights, low, high) {
  const x = Float64Array.from(f);
  const valueAt = (price) => {
    const tilted = x.map((v, i) => v - price * weights[i]);
    between(f, tilted, lower, upper, total, responseLevel, []);
    return sumOf(f.map((v, i) => v * weights[i]));
  };
  const value = valueAt(0);
  if (value > high) atThePrice((price) => valueAt(price) - high, Math.max(1, Math.abs(high)));
  else if (value < low) atThePrice((price) => low - valueAt(-price), Math.max(1, Math.abs(low)));
}
// @kernel ball: sum, priced
// Deviations are drawn towards 0, by no more than they have.
function responseSoft(x, price, [draw]) {
  const moved = x - price;
  return Math.sign(moved) * Math.max(Math.abs(moved) - draw, 0);
}

// The nearest values with |f - reference| summing to the radius at most. Bounds and total are those
// of the deviations f - reference.
function ball(f, lower, upper, total, reference, radius) {
  for (let i = 0; i < f.length; i++) f[i] -= reference[i];
  const x = Float64Array.from(f);
  const excessAt = (price) => {
    between(f, x, lower, upper, total, responseSoft, [price]);
    return sumOf(f.map(Math.abs)) - radius;
  };
  atThePrice(excessAt, Math.max(1, radius));
  for (let i = 0; i < f.length; i++) f[i] += reference[i];
}
// @kernel round ball: sum, priced, response level
// The nearest values within the radius of the reference. Bounds and total are those of the
// deviations f - reference.
function roundBall(f, lower, upper, total, reference, radius) {
  for (let i = 0; i < f.length; i++) f[i] -= reference[i];
  const x = Float64Array.from(f);
  const excessAt = (price) => {
    const drawn = x.map((v) => v / (1 + price));
    between(f, drawn, lower, upper, total, responseLevel, []);
    return Math.sqrt(sumOf(f.map((v) => v * v))) - radius;
  };
  atThePrice(excessAt, Math.max(1, radius));
  for (let i = 0; i < f.length; i++) f[i] += reference[i];
}
// @kernel divergence ball: sum, priced
// The minimiser of (f - x)^2/2 + s (f log f - f) + price f, s w(z) with w + log w = z.
function responseDivergence(x, price, [s]) {
  if (!(s > 0)) return Math.max(x - price, 0);
  const z = (x - price) / s - Math.log(s);
  // Below the smallest double.
  if (z < -700) return 0;
  // Newton's steps from below stay below, and double their digits each.
  let w = z > 1 ? z - Math.log(z) : Math.exp(z) / (1 + Math.exp(z));
  for (let k = 0; k < 6; k++) w *= (1 + z - Math.log(w)) / (1 + w);
  return s * w;
}

// The nearest values whose divergence from the reference is the radius at most. Where the reference
// is 0, f is 0.
function divergenceBall(f, lower, upper, total, reference, radius) {
  const x = Float64Array.from(f);
  const excessAt = (price) => {
    const drawn = x.map((v, i) => {
      return reference[i] > 0 ? v + price * Math.log(reference[i]) : -Infinity;
    });
    between(f, drawn, lower, upper, total, responseDivergence, [price]);
    const terms = f.map((v, i) => {
      const r = reference[i];
      return v > 0 && r > 0 ? v * Math.log(v / r) - v + r : r;
    });
    return sumOf(terms) - radius;
  };
  atThePrice(excessAt, Math.max(1, radius));
}
// @kernel highest: level, response level
// The k highest values, of equal ones the first, on the simplex; all others 0.
function highest(f, k, total) {
  const order = Array.from(f.keys()).sort((i, j) => f[j] - f[i] || i - j);
  const top = Float64Array.from(order.slice(0, k), (i) => f[i]);
  level(top, 0, Infinity, total, responseLevel, []);
  order.forEach((place, i) => (f[place] = i < k ? top[i] : 0));
}
// @kernel by group
// Values in no group have the number of groups as theirs.
function byGroup(f, group, totals, kernel) {
  totals.forEach((total, g) => {
    const members = [];
    group.forEach((number, i) => number === g && members.push(i));
    const part = Float64Array.from(members, (i) => f[i]);
    if (members.length) kernel(part, members, total);
    members.forEach((member, i) => (f[member] = part[i]));
  });
}
// @kernel pool
// The nearest values in which no node of a forest is above its parent. The parent of a node comes
// before it (n for a root); parent null is the chain 0, 1, 2, ...; mass null is 1 for each node.
function pool(f, parent, mass) {
  const n = f.length;
  const first = new Array(n).fill(n);
  const last = new Array(n).fill(n);
  const next = new Array(n).fill(n);
  const into = new Array(n).fill(n);
  const weight = mass ? Float64Array.from(mass) : new Float64Array(n).fill(1);
  const sum = f.map((value, i) => weight[i] * value);
  for (let i = n - 1; i >= 0; i--) {
    for (;;) {
      let top = n;
      let before = n;
      let previous = n;
      for (let c = first[i]; c < n; previous = c, c = next[c]) {
        if (top === n || f[c] > f[top]) {
          top = c;
          before = previous;
        }
      }
      if (top === n || !(f[top] > f[i])) break;
      // The highest child joins the block, and its children become the block's.
      if (before === n) first[i] = next[top];
      else next[before] = next[top];
      if (last[i] === top) last[i] = before;
      if (first[top] < n) {
        if (first[i] === n) first[i] = first[top];
        else next[last[i]] = first[top];
        last[i] = last[top];
      }
      into[top] = i;
      sum[i] += sum[top];
      weight[i] += weight[top];
      f[i] = sum[i] / weight[i];
    }
    const above = parent ? parent[i] : i ? i - 1 : n;
    if (above < n) {
      next[i] = first[above];
      if (first[above] === n) last[above] = i;
      first[above] = i;
    }
  }
  for (let i = 0; i < n; i++) if (into[i] < n) f[i] = f[into[i]];
}
// @kernel pool values: pool
// Pools values whose nodes are given; sign -1 where roots are the lowest of their trees.
function poolValues(f, node, nodes, parent, sign) {
  const mean = new Float64Array(nodes);
  const mass = new Float64Array(nodes);
  for (let i = 0; i < f.length; i++) {
    mean[node ? node[i] : i] += sign * f[i];
    mass[node ? node[i] : i] += 1;
  }
  for (let i = 0; i < nodes; i++) mean[i] /= mass[i];
  pool(mean, parent, mass);
  for (let i = 0; i < f.length; i++) f[i] = sign * mean[node ? node[i] : i];
}
// @kernel variance mean
function toVariance(f, kappa) {
  for (let i = 0; i < f.length; i++) f[i] += (kappa / 2) * f[i] * f[i];
}

function fromVariance(f, kappa) {
  for (let i = 0; i < f.length; i++) {
    f[i] = (2 * f[i]) / (1 + Math.sqrt(Math.max(1 + 2 * kappa * f[i], 0)));
  }
}
// @kernel top set
// Members below a level rise to it and others above it fall to it, as much as the members rise: the
// level is halved in until the same values move, and is then their mean.
function topSet(f, member) {
  let low = Infinity;
  let high = -Infinity;
  for (let i = 0; i < f.length; i++) {
    low = Math.min(low, f[i]);
    high = Math.max(high, f[i]);
  }
  for (;;) {
    const level = low + (high - low) / 2;
    if (!(low < level && level < high)) break;
    let rise = 0;
    for (let i = 0; i < f.length; i++) {
      if (member[i] ? f[i] < level : f[i] > level) rise += level - f[i];
    }
    if (rise <= 0) low = level;
    else high = level;
  }
  let sum = 0;
  let count = 0;
  for (let i = 0; i < f.length; i++) {
    if (member[i] ? f[i] <= low : f[i] >= high) {
      sum += f[i];
      count += 1;
    }
  }
  const level = count > 0 ? sum / count : low;
  for (let i = 0; i < f.length; i++) {
    f[i] = member[i] ? Math.max(f[i], level) : Math.min(f[i], level);
  }
}
// @kernel ties
function ties(f, group, groups) {
  const sum = new Float64Array(groups);
  const count = new Float64Array(groups);
  for (let i = 0; i < f.length; i++) {
    sum[group[i]] += f[i];
    count[group[i]] += 1;
  }
  for (let i = 0; i < f.length; i++) f[i] = sum[group[i]] / count[group[i]];
}
// @kernel tree
// Two passes: node by node the best estimate from below, then what the parent has, shared. Nodes
// are listed in order, parents first; the parent of a root is n, and total NaN leaves it free.
function tree(f, parent, order, total) {
  const n = f.length;
  const sum = new Float64Array(n + 1);
  const variances = new Float64Array(n + 1);
  const variance = new Float64Array(n);
  for (let k = n - 1; k >= 0; k--) {
    const v = order[k];
    variance[v] = 1;
    if (variances[v] > 0) {
      f[v] = (f[v] * variances[v] + sum[v]) / (variances[v] + 1);
      variance[v] = variances[v] / (variances[v] + 1);
    }
    sum[parent[v]] += f[v];
    variances[parent[v]] += variance[v];
  }
  for (const v of order) {
    const above = parent[v];
    const ofRoots = Number.isNaN(total) ? sum[n] : total;
    const has = above < n ? f[above] : ofRoots;
    f[v] += (has - sum[above]) * (variance[v] / variances[above]);
  }
}

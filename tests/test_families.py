"""Families of closed forms: every cell of the matrix is certified, wrong forms are refuted."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from ldpopt import FrequencyEstimate, Problem, certify, closed_form, losses, oracles, priors
from ldpopt.closed_form import Groups, group_roots
from ldpopt.constraints import (
    Bounds,
    Fixed,
    GroupTotals,
    Linear,
    Margins,
    Monotone,
    NonNegative,
    Smooth,
    SumsTo,
    TopSet,
    Unimodal,
)
from ldpopt.constraints.isotonic import order_of
from ldpopt.errors import InfeasibleError, InvalidInputError
from ldpopt.solve import feasibility
from tests.tolerances import CERTIFIED, ROUNDING, SOLVER

D = 6
N = 1_000
LOSSES = {
    "least squares": losses.LeastSquares(),
    "weighted": losses.WeightedLeastSquares(np.arange(1.0, D + 1)),
    "absolute": losses.LeastAbsolute(),
    "gaussian": losses.GaussianMLE(),
    "binomial": losses.BinomialMLE(),
    "multinomial": losses.MultinomialMLE(),
    "kullback-leibler": losses.KullbackLeibler(),
    "posterior mean": losses.PosteriorMean(priors.PowerLaw(1.5, N)),
}
CAPS = np.array([0.6, 0.5, 0.4, 0.3, 0.3, 0.3])
CONSTRAINTS = [
    NonNegative(),
    Bounds(0.0, CAPS),
    Fixed([5], [0.04]),
    SumsTo(1.0),
    GroupTotals([[0, 1], [2, 3, 4, 5]], [0.65, 0.35]),
    Monotone(np.arange(D)),
    Unimodal(1),
    Smooth(total_variation=0.6),
    Linear([[1, -2, 0, 0, 0, 0]], [-1], [1]),
]
ADVERSARIAL = [
    [0, 0, 0, 0, 0, 1],
    [1, 0, 0, 0, 0, 0],
    [1 / 6] * 6,
    [0, 0.2, 0.2, 0.2, 0.2, 0.2],
    [0.5, 0, 0.5, 0, 0, 0],
    [0, 0, 0, 0, 0.5, 0.5],
    [1, 0.4, 0.3, 0.2, -0.1, -0.8],
    [-0.05, -0.05, 0.5, 0.5, 0.1, 0],
    [0.1, 0.1, 0.1, 0.1, 0.3, 0.3],
    [0.9, -0.1, 0.1, 0, 0.05, 0.05],
]
CELLS = {
    # Four more with totals that overlap: Newton's method on multipliers.
    "least squares": 68,
    "weighted": 64,
    "absolute": 53,
    "gaussian": 58,
    "binomial": 58,
    # Without a total or upper bounds the multinomial likelihood grows for ever.
    "multinomial": 58 - 15,
    "kullback-leibler": 60,
    "posterior mean": 68,
}


def inputs(oracle, seed=1):
    """Twenty random estimates and ten adversarial ones: ties, zeros, orders upside down."""
    rng = np.random.default_rng(seed)
    laws = [rng.dirichlet(np.full(D, spread)) for spread in np.repeat([0.2, 1, 5, 20], 5)]
    random = [oracle.simulate_counts(rng.multinomial(N, law), rng) for law in laws]
    shares = oracle.q + (oracle.p - oracle.q) * np.array(ADVERSARIAL)
    adversarial = np.clip(np.round(N * shares), 1, N).astype(int)
    if isinstance(oracle, oracles.GRR):
        # Each report supports one value.
        adversarial[:, 0] += N - adversarial.sum(axis=1)
        is_short = adversarial.min(axis=1) < 1
        adversarial[is_short] = [N - 5, 1, 1, 1, 1, 1]
    return oracle.estimate(np.concatenate([random, adversarial]), N)


OUE = oracles.OUE(1.0, D)
ESTIMATES = {
    "multinomial": inputs(oracles.GRR(1.0, D)),
    # Where estimates are <= 0 the divergence keeps values at 0, which contradicts some cells.
    "kullback-leibler": FrequencyEstimate(
        np.maximum(inputs(OUE).frequencies, 1e-4), n=N, oracle=OUE
    ),
}
DEFAULT = inputs(OUE)


def certified(problem, estimate, f):
    """The certificate; on unbounded sets the one within a box around the point.

    A convex function that is least near a point is least everywhere.
    """
    region = problem.region(D)
    is_bounded = np.isfinite(region.lower).all() and np.isfinite(region.upper).all()
    if is_bounded or (region.total is not None and np.isfinite(region.lower).all()):
        return certify(problem, estimate, f)
    start, end = problem.loss.domain(problem.loss.constants(estimate))
    near = Bounds(max(float(f.min()) - 0.25, start + 1e-6), min(float(f.max()) + 0.25, end - 1e-6))
    return certify(Problem(problem.loss, [*problem.constraints, near]), estimate, f)


def has_no_minimum(problem):
    """Whether the multinomial likelihood grows for ever, as nothing bounds its values."""
    region = problem.region(D)
    is_bounded = region.total is not None or np.isfinite(region.upper).all()
    has_groups = any(isinstance(c, GroupTotals) for c in problem.constraints)
    return isinstance(problem.loss, losses.MultinomialMLE) and not (is_bounded or has_groups)


@pytest.mark.parametrize("name", LOSSES)
def test_every_closed_form_up_to_three_constraints_is_certified(name):
    solved = 0
    for count in range(4):
        for number, chosen in enumerate(itertools.combinations(CONSTRAINTS, count)):
            # Pairs of constraints take thirds of the thirty inputs in turns, and triples fifths:
            # most pairs meet 18 inputs or more, alone and within triples.
            step = {0: 1, 1: 1, 2: 3, 3: 5}[count]
            estimate = ESTIMATES.get(name, DEFAULT)[number % step :: step]
            problem = Problem(LOSSES[name], chosen)
            if problem.plan(estimate).path != "closed-form":
                continue
            if has_no_minimum(problem):
                with pytest.raises(InvalidInputError, match="unbounded below"):
                    problem.solve(estimate)
                continue
            # Without the judgement of solve, which would certify everything twice.
            f = problem.minimise(estimate)
            certificate = certified(problem, estimate, f)
            worst = int(np.argmax(certificate.gap))
            # A stack gets a bound that is sufficient, a single vector the better one of two.
            if certificate.gap[worst] > CERTIFIED:
                certificate = certified(problem, estimate[worst], f[worst])
            assert certificate.gap.max() <= CERTIFIED, problem
            assert certificate.violation.max() <= CERTIFIED, problem
            solved += 1
    assert solved == CELLS[name]


# --- pool first -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("least squares", "pava, norm-sub"),
        ("gaussian", "pava, mle-apx"),
        ("binomial", "pava, one root"),
        ("multinomial", "pava, water-filling"),
        ("kullback-leibler", "pava, norm-mul"),
        ("posterior mean", "pava, norm-sub of the posterior mean"),
    ],
)
def test_an_order_is_imposed_on_the_data_first(name, expected):
    simplex = [NonNegative(), SumsTo(1.0)]
    problem = Problem(LOSSES[name], [*simplex, Monotone(np.arange(D))])
    estimate = ESTIMATES.get(name, DEFAULT)
    assert problem.plan(estimate).name == expected
    assert problem.solve(estimate).solver == expected


@pytest.mark.parametrize("name", ["gaussian", "binomial"])
def test_a_known_top_set_is_pooled_first_too(name):
    problem = Problem(LOSSES[name], [TopSet([2, 3]), NonNegative(), SumsTo(1.0)])
    solution = problem.solve(DEFAULT)
    assert solution.solver.startswith("top set, ")
    assert solution.certificate.is_optimal(CERTIFIED)


@pytest.mark.parametrize("kappa_of", [oracles.OUE, oracles.SUE, oracles.HadamardResponse])
def test_pooling_of_the_weighted_likelihood_holds_for_all_signs_of_kappa(kappa_of):
    estimate = inputs(kappa_of(1.0, D))
    for others in ([Bounds(0.0, 0.5)], [Bounds(0.0, CAPS), SumsTo(1.0)], [SumsTo(1.0)]):
        problem = Problem(losses.GaussianMLE(), [Unimodal(2), *others])
        f = problem.solve(estimate, path="closed-form").frequencies
        certificate = certified(problem, estimate, f)
        assert certificate.gap.max() <= CERTIFIED
        assert certificate.violation.max() <= CERTIFIED


def test_a_million_reports_take_the_closed_form_where_solvers_fail():
    d = 256
    oracle = oracles.OUE(1.0, d)
    law = 1 / np.arange(1.0, d + 1)
    rng = np.random.default_rng(0)
    counts = oracle.simulate_counts(rng.multinomial(10**6, law / law.sum()), rng)
    problem = Problem(losses.BinomialMLE(), [NonNegative(), SumsTo(1.0), Monotone(np.arange(d))])
    solution = problem.solve(oracle.estimate(counts, 10**6))
    assert solution.solver == "pava, one root"
    assert solution.certificate.is_optimal(CERTIFIED)


def test_slopes_at_the_end_of_a_domain_leave_the_total_its_digits():
    """Without lower bounds they are 1e18 there, and the multiplier of the total is of order 1."""
    loss = losses.GaussianMLE() + 0.1 * losses.L1To([0.3, 0.5, 0.2])
    problem = Problem(loss, [SumsTo(1.0), Unimodal(1)])
    estimate = oracles.OUE(1.0, 3).estimate([300, 500, 400], N)
    assert problem.plan(estimate).name == "split by slopes, one root"
    f = problem.minimise(estimate)
    best = problem.solve(estimate, path="conic")
    assert problem.loss.value(f, estimate) <= best.objective + 1e-9
    assert_allclose(f.sum(), 1.0, atol=ROUNDING)


# --- wrong forms, each with a counterexample ------------------------------------------------------

FIRST_ABOVE_SECOND = Monotone([(0, 1)])


def refuted(problem, estimate, wrong):
    """Whether a point is in the set and far from optimal, while the closed form is optimal."""
    right = problem.solve(estimate, path="closed-form")
    assert right.certificate.is_optimal(CERTIFIED)
    certificate = certify(problem, estimate, wrong)
    assert certificate.violation <= CERTIFIED
    assert problem.loss.value(wrong, estimate) > right.objective + 1e-3
    return certificate.gap > 1e-3


def test_clipping_before_pooling_is_refuted():
    estimate = FrequencyEstimate([-0.25, 0.5])
    problem = Problem(losses.LeastSquares(), [FIRST_ABOVE_SECOND, Bounds(0.0, 1.0)])
    clipped = closed_form.base_pos(estimate.frequencies)
    assert refuted(problem, estimate, closed_form.monotone(clipped, np.arange(2)))


def test_pooling_of_means_before_scaling_is_refuted():
    estimate = FrequencyEstimate([0.1, 0.6, 0.3])
    problem = Problem(losses.KullbackLeibler(), [FIRST_ABOVE_SECOND, SumsTo(1.0)])
    pooled = closed_form.isotonic(estimate.frequencies, np.array([-1, 0, -1]))
    assert refuted(problem, estimate, closed_form.norm_mul(pooled))
    # Geometric means are right.
    right = np.array([np.sqrt(0.06), np.sqrt(0.06), 0.3])
    solution = problem.solve(estimate)
    assert_allclose(solution.frequencies, right / right.sum(), rtol=0, atol=ROUNDING)


def test_pooling_of_means_for_the_weighted_likelihood_is_refuted():
    oracle = oracles.OUE(4.0, 3)  # of large kappa, so that variances differ
    estimate = oracle.estimate(oracle.simulate_counts([0, 900, 100], rng=0), 1_000)
    problem = Problem(losses.GaussianMLE(), [FIRST_ABOVE_SECOND, NonNegative(), SumsTo(1.0)])
    pooled = closed_form.isotonic(estimate.frequencies, np.array([-1, 0, -1]))
    assert refuted(problem, estimate, closed_form.mle_apx(pooled, oracle.kappa))
    # Quadratic means of the standard deviations are right.
    spread = 1 + oracle.kappa * estimate.frequencies
    spread[:2] = np.sqrt(np.mean(spread[:2] ** 2))
    right = closed_form.mle_apx((spread - 1) / oracle.kappa, oracle.kappa)
    assert_allclose(problem.solve(estimate).frequencies, right, rtol=0, atol=8 * ROUNDING)


def test_clipping_a_pooled_chain_to_bounds_of_each_value_is_refuted():
    estimate = FrequencyEstimate([0.0, 1.0])
    problem = Problem(losses.LeastSquares(), [FIRST_ABOVE_SECOND, Bounds(0.0, [1.0, 0.25])])
    pooled = closed_form.monotone(estimate.frequencies, np.arange(2))
    assert refuted(problem, estimate, np.clip(pooled, 0.0, [1.0, 0.25]))


@pytest.fixture
def without_programs(monkeypatch):
    """No program looks for conflicts, as on problems of more than 2,048 values."""
    monkeypatch.setattr(feasibility, "LARGEST", 0)


# --- bounds of each value -------------------------------------------------------------------------


def least_of_all_partitions(target, weights, lower, upper):
    """The best non-increasing vector between bounds, of all vectors of blocks of equal values."""
    d = len(target)
    best = (np.inf, target)
    for cuts in itertools.product([False, True], repeat=d - 1):
        block = np.concatenate([[0], np.cumsum(cuts)])
        f = np.empty(d)
        for number in range(block[-1] + 1):
            inside = block == number
            low = lower[inside].max()
            high = upper[inside].min()
            mean = np.average(target[inside], weights=weights[inside])
            f[inside] = min(max(mean, low), high) if low <= high else np.nan
        if np.all(f[1:] <= f[:-1]):
            value = np.sum(weights * (f - target) ** 2)
            best = min(best, (value, f), key=lambda pair: pair[0])
    return best[1]


@pytest.mark.parametrize("seed", range(12))
def test_pooling_between_bounds_is_the_best_of_all_block_partitions(seed):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 9))
    target = rng.normal(0.3, 0.5, d).round(1 if seed % 2 else 15)  # rounded ones have ties
    weights = rng.uniform(0.2, 5, d)
    bounds = np.sort(rng.uniform(-0.5, 1.5, (2, d)), axis=0)
    bounds[0] = np.minimum(bounds[0], bounds[1].min())  # no bound contradicts the order
    problem = Problem(
        losses.WeightedLeastSquares(weights), [Monotone(np.arange(d)), Bounds(*bounds)]
    )
    expected = least_of_all_partitions(target, weights, *bounds)
    solution = problem.solve(target)
    assert solution.solver == "pava between bounds"
    assert_allclose(solution.frequencies, expected, rtol=0, atol=10 * ROUNDING)


@pytest.mark.parametrize("seed", range(8))
def test_a_chain_and_a_tree_pool_alike_between_bounds(seed):
    rng = np.random.default_rng(seed)
    d = 40
    f = rng.normal(0, 1, (3, d))
    weights = rng.uniform(0.2, 5, d)
    chain = np.arange(-1, d - 1)
    low, high = closed_form.bounds_along_forest(
        rng.normal(-1.5, 0.5, d), rng.normal(1.5, 0.5, d), chain
    )
    # A leaf of its own takes the other kernel, and changes nothing on the chain.
    forest = np.append(chain, -1)
    both = [np.append(x, np.zeros((*x.shape[:-1], 1)), axis=-1) for x in (f, low, high)]
    tree = closed_form.isotonic(both[0], forest, np.append(weights, 1.0), both[1], both[2])
    alone = closed_form.isotonic(f, chain, weights, low, high)
    assert_allclose(tree[:, :d], alone, rtol=0, atol=10 * ROUNDING)


@pytest.mark.parametrize("name", ["weighted", "gaussian", "binomial", "kullback-leibler"])
@pytest.mark.parametrize(
    "order",
    [
        Monotone([(0, 1), (0, 2), (2, 3)]),
        Monotone([(1, 0), (2, 0), (3, 2)]),  # roots are the lowest
        Monotone([3, 0, 5]),
        Unimodal(3),
    ],
    ids=["roots high", "roots low", "part of a chain", "mode"],
)
def test_trees_of_any_kind_are_pooled_between_bounds(name, order):
    estimate = ESTIMATES.get(name, DEFAULT)
    problem = Problem(LOSSES[name], [order, Bounds(0.0, CAPS[::-1]), SumsTo(1.0)])
    solution = problem.solve(estimate)
    assert solution.solver == "pava between bounds, one root"
    assert solution.certificate.gap.max() <= CERTIFIED
    assert solution.certificate.violation.max() <= CERTIFIED


def test_a_stack_is_pooled_trial_by_trial():
    problem = Problem(losses.BinomialMLE(), [Unimodal(2), Bounds(0.0, CAPS), SumsTo(1.0)])
    stacked = problem.solve(DEFAULT).frequencies
    for trial in (0, 7, 26):
        alone = problem.solve(DEFAULT[trial]).frequencies
        assert_allclose(stacked[trial], alone, rtol=0, atol=1e-11)


@pytest.mark.parametrize(
    ("order", "lower", "upper", "message"),
    [
        (
            Monotone([2, 0, 1]),
            [0, 0.5, 0],
            [1, 1, 0.25],
            r"f\[2\] >= f\[0\] >= f\[1\], but f\[2\] <= 0.25",
        ),
        (Monotone([(0, 1), (2, 1)]), [0, 0.75, 0], [0.5, 1, 1], r"f\[0\] >= f\[1\], but"),
        (Unimodal(0), [0, 0, 0.5], [1, 0.25, 1], r"f\[1\] >= f\[2\], but f\[1\] <= 0.25 and"),
    ],
    ids=["chain", "roots low", "mode"],
)
def test_bounds_that_contradict_a_long_order_are_named_by_the_chain(
    monkeypatch, order, lower, upper, message
):
    problem = Problem(losses.LeastSquares(), [order, Bounds(lower, upper)])
    with pytest.raises(InfeasibleError, match="no vector satisfies the constraints; these confl"):
        problem.solve([0.2, 0.3, 0.5])
    # Beyond some size no program looks for all rows of the conflict.
    monkeypatch.setattr(feasibility, "LARGEST", 0)
    with pytest.raises(InfeasibleError, match=message):
        problem.solve([0.2, 0.3, 0.5])


@pytest.mark.usefixtures("without_programs")
def test_a_total_that_bounds_and_order_do_not_allow_is_named():
    problem = Problem(
        losses.LeastSquares(), [Monotone([0, 1, 2]), Bounds(0.0, [0.25, 1, 1]), SumsTo(1.0)]
    )
    with pytest.raises(InfeasibleError, match=r"allow sums from 0 to 0\.75"):
        problem.solve([0.2, 0.3, 0.5])


@pytest.mark.usefixtures("without_programs")
def test_the_divergence_keeps_what_is_below_a_zero_at_zero():
    estimate = FrequencyEstimate([0.4, -0.1, 0.3, 0.2])
    chain = Monotone([0, 1, 2])
    f = Problem(losses.KullbackLeibler(), [chain, SumsTo(1.0)]).solve(estimate).frequencies
    assert_allclose(f, [2 / 3, 0, 0, 1 / 3], rtol=0, atol=ROUNDING)
    for bounds, message in (
        (Bounds([0, 0, 0.1, 0], 1), r"f\[1\] = 0"),
        (Bounds(0, [0.5, 1, 1, 0.25]), "keeps values at zero"),
    ):
        with pytest.raises(InfeasibleError, match=message):
            Problem(losses.KullbackLeibler(), [chain, bounds, SumsTo(1.0)]).solve(estimate)


# --- losses that no mean tells --------------------------------------------------------------------

SPLIT = {
    "absolute": losses.LeastAbsolute(),
    "huber": losses.Huber(0.05),
    "a sum": losses.LeastSquares() + 0.1 * losses.L1To(np.full(D, 1 / D)),
}


@pytest.mark.parametrize("name", SPLIT)
@pytest.mark.parametrize(
    "others",
    [[], [SumsTo(1.0)], [Bounds(0.0, CAPS), SumsTo(1.0)]],
    ids=["alone", "total", "caps and total"],
)
def test_any_sum_over_values_is_split_by_its_slopes(name, others):
    estimate = DEFAULT[[3, 17, 26]]
    problem = Problem(SPLIT[name], [Monotone([(0, 1), (0, 2), (2, 3)]), *others])
    solution = problem.solve(estimate)
    assert solution.solver.startswith("split by slopes")
    certificate = certified(problem, estimate, solution.frequencies)
    assert certificate.gap.max() <= CERTIFIED
    assert certificate.violation.max() <= CERTIFIED


@pytest.mark.parametrize("loss", [losses.LeastAbsolute(), losses.Huber(0.05)], ids=repr)
@pytest.mark.parametrize(
    ("estimate", "lower", "upper"),
    [
        ([5e-4, 2e-4], [0.01, 0.0], np.inf),
        ([0.3, 0.2], [2.0, -np.inf], 3.0),
        ([0.3, 0.2], [-np.inf, 1e3], np.inf),
        ([0.3, 0.2], -np.inf, [-2.0, np.inf]),
    ],
)
def test_bounds_beyond_all_estimates_are_met(loss, estimate, lower, upper):
    solution = Problem(loss, [Monotone([0, 1]), Bounds(lower, upper)]).solve(estimate)
    assert solution.solver == "split by slopes"
    assert_allclose(solution.frequencies, np.clip(estimate, *ordered(lower, upper)), rtol=ROUNDING)


def ordered(lower, upper):
    """Return bounds of two values of which the first is not lower, with what each says of both."""
    low, high = (np.broadcast_to(end, 2) for end in (lower, upper))
    return [max(low), low[1]], [high[0], min(high)]


def test_values_with_variances_of_their_own_are_split_too():
    estimate = FrequencyEstimate([0.2, 0.5, 0.3], noise=[0.01, 0.02, 0.03])
    problem = Problem(losses.GaussianMLE(), [Unimodal(0), NonNegative(), SumsTo(1.0)])
    solution = problem.solve(estimate)
    assert solution.solver == "split by slopes, one root"
    assert solution.certificate.is_optimal(1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_blocks_of_absolute_deviations_take_medians(seed):
    rng = np.random.default_rng(seed)
    target = rng.normal(0, 1, 9)
    f = Problem(losses.LeastAbsolute(), [Monotone(np.arange(9))]).solve(target).frequencies
    assert (np.diff(f) <= 0).all()
    for value in np.unique(f):
        block = target[f == value]
        smallest = np.abs(block - np.median(block)).sum()
        assert_allclose(np.abs(block - value).sum(), smallest, rtol=0, atol=10 * ROUNDING)


def test_slopes_that_never_rise_have_no_minimum():
    with pytest.raises(InvalidInputError, match=r"unbounded below.*NonNegative\(\) and SumsTo"):
        Problem(Falling(), [Monotone([0, 1])]).solve([0.5, 0.5])


class Falling(losses.Huber):
    """A slope of -1 everywhere."""

    adds_over_values = True

    def __init__(self):
        super().__init__(1.0)

    def value(self, f, estimate):
        return -f.sum(axis=-1)

    def gradient(self, f, estimate):
        return np.full(f.shape, -1.0)


# --- a price on variation -------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_the_fused_lasso_meets_its_conditions(seed):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 40))
    target = rng.normal(0, 1, (2, d)).round(1 if seed % 2 else 15)
    price = float(rng.choice([0.0, 0.05, 0.3, 1.0, 5.0]))
    f = closed_form.fused(target, price)
    # What flows from each value to the next is at most the price, and all of it where f jumps.
    flow = np.cumsum(target - f, axis=-1)
    assert np.abs(flow[:, -1]).max() <= CERTIFIED
    assert np.abs(flow[:, :-1]).max(initial=0.0) <= price + CERTIFIED
    step = np.diff(f, axis=-1)
    jumps = np.abs(step) > 1e-9
    expected = -price * np.sign(step[jumps])
    assert_allclose(flow[:, :-1][jumps], expected, rtol=0, atol=CERTIFIED)


@pytest.mark.parametrize(
    ("others", "name"),
    [
        ([], "fused lasso"),
        ([SumsTo(1.0)], "fused lasso, norm"),
        ([NonNegative(), SumsTo(1.0)], "fused lasso, norm-sub"),
        ([Bounds(0.0, 0.4), SumsTo(1.0)], "fused lasso, one root"),
    ],
    ids=["alone", "total", "simplex", "caps and total"],
)
def test_a_price_on_variation_comes_first(others, name):
    loss = 2 * losses.LeastSquares() + 0.1 * losses.TotalVariation([4, 0, 2, 1, 3])
    problem = Problem(loss, others)
    target = DEFAULT[22]
    solution = problem.solve(target)
    assert solution.solver == name
    numeric = problem.solve(target, path="conic")
    assert_allclose(solution.frequencies, numeric.frequencies, rtol=0, atol=SOLVER["CLARABEL"])
    assert solution.objective <= numeric.objective + CERTIFIED
    near = certified(problem, target, solution.frequencies)
    assert near.gap <= 1e-8
    assert near.violation <= CERTIFIED


def test_variation_between_caps_of_each_value_goes_to_a_solver():
    loss = losses.LeastSquares() + 0.1 * losses.TotalVariation()
    problem = Problem(loss, [Bounds(0.0, CAPS), SumsTo(1.0)])
    assert problem.explain(DEFAULT).startswith("conic")


# --- several orders -------------------------------------------------------------------------------


def test_values_that_two_orders_tie_are_one():
    problem = Problem(losses.BinomialMLE(), [Monotone(np.arange(D)), Unimodal(2), SumsTo(1.0)])
    f = problem.solve(DEFAULT).frequencies
    assert_array_equal(f[:, 0], f[:, 1])
    assert_array_equal(f[:, 1], f[:, 2])


def test_a_pair_that_follows_from_others_changes_nothing():
    order = order_of(np.array([(0, 1), (1, 2), (0, 2), (0, 3)]), 5)
    plain = order_of(np.array([(0, 1), (1, 2), (0, 3)]), 5)
    values = np.array([0.1, 0.2, 0.5, 0.4, 0.3])
    assert_array_equal(order.project(values), plain.project(values))
    diamond = np.array([(0, 1), (0, 2), (1, 3), (2, 3)])
    pooled = order_of(diamond, 4).project(np.array([0.1, 0.5, 0.2, 0.4]))
    assert_allclose(pooled, 0.3, rtol=0, atol=ROUNDING)
    assert order_of(np.empty((0, 2), dtype=int), 3).project(values[:3]).tolist() == [0.1, 0.2, 0.5]


@pytest.mark.parametrize("seed", range(5))
def test_orders_that_overlap_agree_with_the_solver(seed):
    rng = np.random.default_rng(seed)
    chains = [Monotone(rng.permutation(D)[:3]), Monotone(rng.permutation(D)[:2])]
    problem = Problem(losses.LeastSquares(), [*chains, NonNegative(), SumsTo(1.0)])
    estimate = rng.normal(0.2, 0.3, D)
    if problem.plan(estimate).path == "closed-form":
        numeric = problem.solve(estimate, path="conic").frequencies
        exact = problem.solve(estimate).frequencies
        assert_allclose(exact, numeric, rtol=0, atol=SOLVER["CLARABEL"])


# --- groups ---------------------------------------------------------------------------------------


def test_each_group_has_a_root_of_its_own():
    target = np.array([[0.75, 0.5, 0.5, 0.25, 2.0]])
    groups = Groups(np.array([0, 0, 1, 1, 2]), np.array([0.5, 1.0]))
    box = (np.full(5, -np.inf), np.full(5, np.inf))
    f = group_roots(lambda mu: target - mu, None, box, groups, 1)
    assert_allclose(f, [[0.375, 0.125, 0.625, 0.375, 2.0]], rtol=0, atol=ROUNDING)


def test_margins_have_one_root_per_sum():
    ages = Margins((2, 3), 0, [0.25, 0.75])
    problem = Problem(losses.BinomialMLE(), [ages, Bounds(0.0, CAPS)])
    solution = problem.solve(DEFAULT)
    assert solution.solver == "one root per group"
    assert solution.certificate.gap.max() <= CERTIFIED


@pytest.mark.usefixtures("without_programs")
@pytest.mark.parametrize(
    ("bounds", "total", "message"),
    [
        (Bounds(0, 0.2), 1.0, r"group 0 of 2 values sums to 0\.65, but its bounds allow sums from"),
        (NonNegative(), 2.5, r"the values in no group sum to"),
    ],
)
def test_a_group_that_its_bounds_do_not_allow_is_named(bounds, total, message):
    upper = Bounds(-np.inf, 0.7)
    groups = GroupTotals([[0, 1], [2, 3]], [0.65, 0.3])
    problem = Problem(losses.BinomialMLE(), [groups, bounds, upper, SumsTo(total)])
    with pytest.raises(InfeasibleError, match=message):
        problem.solve(DEFAULT[0])


def test_a_total_needs_no_bounds():
    problem = Problem(losses.WeightedLeastSquares([1, 2, 4]), [SumsTo(1.0)])
    solution = problem.solve([0.5, 0.5, 0.5])
    # What is too much is shared in proportion to 1/w.
    assert_allclose(solution.frequencies, 0.5 - np.array([4, 2, 1]) / 14, rtol=0, atol=ROUNDING)


def test_a_loss_that_falls_for_ever_has_no_multiplier():
    with pytest.raises(InvalidInputError, match="no multiplier brings the sum"):
        closed_form.doubled_bracket(lambda mu, _: np.zeros((1, 3)) * mu, 1.0, 1)
    halves = Groups(np.array([0, 0, 1]), np.array([0.5, 0.5]))
    box = (np.zeros(3), np.full(3, np.inf))
    with pytest.raises(InvalidInputError, match="no multiplier brings group 0"):
        group_roots(lambda mu: 0 * mu, None, box, halves, 1)

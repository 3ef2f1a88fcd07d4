"""The derivative of solutions in their estimates, against differences."""

import itertools

import numpy as np
import pytest
from scipy import sparse

from ldpopt import FrequencyEstimate, Problem, Source, Sources, constraints, losses, oracles, priors
from ldpopt.errors import InfeasibleError, InvalidInputError, NoDerivativeError
from ldpopt.losses.normalised import TiltedGaussianMLE
from ldpopt.solve.face import face_of
from ldpopt.solve.jacobian import _basis, jacobian

D = 6
N = 1_000
POINT = np.array([0.325, 0.325, 0.12, 0.1, 0.09, 0.04])
SIMPLEX = [constraints.NonNegative(), constraints.SumsTo(1.0)]
LOSSES = {
    "squares": losses.LeastSquares(),
    "weighted": losses.WeightedLeastSquares(np.arange(1.0, D + 1)),
    "gaussian": losses.GaussianMLE(),
    "binomial": losses.BinomialMLE(),
    "divergence": losses.KullbackLeibler(),
    "posterior": losses.PosteriorMean(priors.PowerLaw(1.5, N)),
    "posterior of a known sum": losses.PosteriorMean(priors.PowerLaw(1.5, N), total=1.0),
    "kinks": 3 * losses.LeastSquares() + 0.05 * losses.L1To(POINT),
    "two terms": losses.LeastSquares() + 0.1 * losses.KLTo(POINT),
    "entropy": 2 * losses.LeastSquares() + 0.01 * losses.Entropy(),
    "variation": 2 * losses.LeastSquares() + 0.02 * losses.TotalVariation(),
}
SETS = {
    "sign": constraints.NonNegative(),
    "bounds": constraints.Bounds(0.0, [0.6, 0.5, 0.4, 0.3, 0.3, 0.3]),
    "known": constraints.Fixed([5], [0.04]),
    "total": constraints.SumsTo(1.0),
    "groups": constraints.GroupTotals([[0, 1], [2, 3, 4, 5]], [0.65, 0.35]),
    "order": constraints.Monotone(np.arange(D)),
    "mode": constraints.Unimodal(1),
    "variation": constraints.Smooth(total_variation=0.5),
}
OUE = oracles.OUE(1.0, D)


class WithoutFace(constraints.Near):
    """A set of which nobody states rows in f alone around a point."""

    def face(self, f, near):
        return None


def estimate_of(frequencies):
    return FrequencyEstimate(frequencies, n=N, oracle=OUE, is_raw=True)


def central(problem, raw, step=1e-6):
    """Return the Jacobian by central differences."""
    moves = step * np.concatenate([np.eye(D), -np.eye(D)])
    # As one stack: a problem that is solved vector by vector costs six times as much.
    moved = problem.minimise(estimate_of(raw.frequencies + moves))
    return (moved[:D] - moved[D:]).T / (2 * step)


def cells():
    """Return the losses and sets of up to three constraints in an order that mixes them."""
    sets = [names for size in range(4) for names in itertools.combinations(SETS, size)]
    stated = list(itertools.product(LOSSES, sets))
    return [stated[i] for i in np.random.default_rng(3).permutation(len(stated))]


def test_jacobians_are_central_differences_on_200_problems():
    rng = np.random.default_rng(3)
    checked = 0
    for name, names in cells():
        problem = Problem(LOSSES[name], [SETS[kind] for kind in names])
        raw = OUE.estimate(OUE.simulate_counts([270, 260, 150, 120, 110, 90], rng), N)
        # These two take seconds under orders: their form there is a search in a search.
        is_slow = name in ("two terms", "entropy") and not {"order", "mode"}.isdisjoint(names)
        if is_slow or problem.plan(raw).path != "closed-form":
            continue
        derivative = jacobian_of(problem, raw)
        # By accident a solution is at a kink of the loss.
        if derivative is None or derivative.is_one_sided:
            continue
        differences = central(problem, raw)
        label = (name, *names)
        assert np.abs(differences - derivative.dense()).max() < 1e-6, label
        assert derivative.trace == pytest.approx(np.trace(differences), abs=1e-6)
        assert derivative.diagonal == pytest.approx(np.diag(differences), abs=1e-6)
        moved = np.stack([derivative.vjp(g) for g in np.eye(D)])
        assert moved == pytest.approx(derivative.dense(), abs=1e-12)
        checked += 1
        if checked == 200:
            return
    raise AssertionError(f"only {checked} problems")


def jacobian_of(problem, raw):
    """Return the Jacobian of a minimiser; None where nothing satisfies the constraints."""
    try:
        return jacobian(problem, raw, problem.minimise(raw))
    except InfeasibleError:
        return None


@pytest.mark.parametrize("weights", [None, [1, 4, 2, 3, 1, 5]], ids=["even", "weighted"])
@pytest.mark.parametrize("kind", ["squares", "gaussian", "binomial"])
def test_a_ball_of_the_1_norm_has_a_jacobian(kind, weights):
    ball = constraints.Near(POINT, 0.1, 1, weights=weights)
    problem = Problem(LOSSES[kind], [*SIMPLEX, ball])
    raw = estimate_of([0.45, 0.21, 0.14, 0.15, 0.06, 0.05])
    solution = problem.solve(raw)
    # The ball holds, and some values are at the reference, others are not.
    assert ball.violation(solution.frequencies) > -1e-9
    assert abs(solution.frequencies - POINT).max() > 0.01
    assert abs(solution.frequencies - POINT).min() < 1e-12
    derivative = solution.jacobian()
    assert not derivative.is_one_sided
    assert central(problem, raw) == pytest.approx(derivative.dense(), abs=1e-6)


@pytest.mark.parametrize(
    "order", [constraints.Monotone([2, 3]), constraints.TopSet([0, 1, 2])], ids=repr
)
def test_a_point_of_a_solver_has_a_jacobian_too(order):
    rows = constraints.Linear([[1, -2, 0, 0, 0, 0]], [-0.3], [0.05])
    problem = Problem(losses.LeastSquares(), [*SIMPLEX, order, rows])
    raw = estimate_of([0.5, 0.1, 0.2, 0.25, -0.1, 0.05])
    solution = problem.solve(raw)
    assert solution.path == "conic"
    assert central(problem, raw, 1e-3) == pytest.approx(solution.jacobian().dense(), abs=1e-6)


ALL = [[0, 1], [2, 3], [4, 5]]
OVERLAPPING = [[0, 1, 2], [2, 3], [5]]


@pytest.mark.parametrize(
    ("loss", "stated", "groups"),
    [
        (losses.LeastSquares(), [], ALL),
        (losses.LeastSquares(), SIMPLEX, ALL),
        (losses.LeastSquares(), [*SIMPLEX, constraints.Monotone(np.arange(D))], OVERLAPPING),
        (losses.LeastSquares(), [*SIMPLEX, SETS["groups"]], OVERLAPPING),
        (losses.BinomialMLE(), SIMPLEX, None),
    ],
)
def test_a_solution_for_several_measurements_moves_as_they_do_together(loss, stated, groups):
    values = [OUE.estimate([400, 390, 320, 330, 300, 280], N), estimate_of(POINT[::-1])]
    if groups is not None:
        totals = FrequencyEstimate([0.6, 0.25, 0.1], noise=np.full(3, 1e-4), is_raw=True)
        values.append(Source(totals, groups=groups))
    sources = Sources(values)
    problem = Problem(loss, stated)
    solution = problem.solve(sources)
    derivative = solution.jacobian()
    # Squares move along a line; a longer step then divides what a solver leaves over.
    step = 1e-4 if groups is None else 1e-3
    sides = [
        np.stack([problem.minimise(sources.moved(sign * step * unit)) for unit in np.eye(D)])
        for sign in (1, -1)
    ]
    differences = (sides[0] - sides[1]).T / (2 * step)
    # Points of a solver are right to some 1e-9, over the step.
    assert derivative.dense() == pytest.approx(differences, abs=1e-5)
    assert derivative.diagonal == pytest.approx(np.diag(derivative.dense()), abs=1e-12)
    moved = derivative.vjp(np.eye(D)).T
    assert moved == pytest.approx(derivative.dense(), abs=1e-12)
    assert derivative.shape == (D, D)
    # The combination itself moves by as much.
    combined = sources.combined().frequencies
    assert sources.moved(POINT).combined().frequencies - combined == pytest.approx(POINT)


def most_likely(parts, f):
    """Return the minimiser of a likelihood of counts with Σf = 1 by Newton's method, from f.

    Each part is (A, frequencies, n, oracle), the frequencies those of A f.
    """
    d = len(f)
    while True:
        gradient = np.zeros(d)
        hessian = np.zeros((d, d))
        for members, y, n, oracle in parts:
            gap = oracle.p - oracle.q
            chance = oracle.q + gap * (members @ f)
            count = oracle.q + gap * y
            slope = n * gap * ((1 - count) / (1 - chance) - count / chance)
            bend = n * gap**2 * (count / chance**2 + (1 - count) / (1 - chance) ** 2)
            gradient += members.T @ slope
            hessian += members.T @ (bend[:, None] * members)
        ones = np.ones((d, 1))
        matrix = np.block([[hessian, ones], [ones.T, np.zeros((1, 1))]])
        step = np.linalg.solve(matrix, np.append(-gradient, 1 - f.sum()))[:d]
        f = f + step
        if np.abs(step).max() < 1e-14:
            return f


def test_a_likelihood_of_values_and_totals_moves_as_newtons_solution_does():
    # Differences of a solver's points are too coarse for its likelihood: these are right to 1e-7.
    of_groups = oracles.OUE(1.0, 3)
    values = OUE.estimate([400, 390, 320, 330, 300, 280], N)
    totals = of_groups.estimate([500, 330, 350], N)
    solution = Problem(losses.BinomialMLE(), SIMPLEX).solve(
        Sources([values, Source(totals, groups=ALL)])
    )
    members = np.kron(np.eye(3), [1.0, 1.0])

    def moved(by):
        parts = [
            (np.eye(D), values.frequencies + by, N, OUE),
            (members, totals.frequencies + members @ by, N, of_groups),
        ]
        return most_likely(parts, solution.frequencies)

    assert solution.frequencies == pytest.approx(moved(np.zeros(D)), abs=1e-6)
    step = 1e-5
    differences = np.stack([(moved(step * u) - moved(-step * u)) / (2 * step) for u in np.eye(D)]).T
    assert solution.jacobian().dense() == pytest.approx(differences, abs=1e-6)


def test_the_side_of_a_kink_counts_for_several_measurements_too():
    totals = FrequencyEstimate([0.75, 0.25], noise=np.full(2, 1e-4), is_raw=True)
    values = FrequencyEstimate([0.5, 0.25, 0.0, 0.25], noise=np.full(4, 1e-4), is_raw=True)
    sources = Sources([values, Source(totals, groups=[[0, 1], [2, 3]])])
    problem = Problem(losses.LeastSquares(), SIMPLEX)
    solution = problem.solve(sources)
    assert solution.jacobian().is_one_sided
    for move in ([0.0, 0.0, 1.0, 0.0], [0.0, 0.0, -1.0, 0.0]):
        ahead = problem.minimise(sources.moved(1e-6 * np.array(move)))
        derivative = solution.jacobian(towards=move)
        assert derivative @ move == pytest.approx((ahead - solution.frequencies) / 1e-6, abs=1e-6)


@pytest.mark.parametrize("name", ["squares", "gaussian", "posterior of a known sum"])
def test_where_values_meet_in_few_rows_the_matrix_is_a_diagonal_and_these(name):
    stated = [constraints.NonNegative(), constraints.GroupTotals([[0, 1], [1, 2, 3]], [0.65, 0.4])]
    for feasible in (SIMPLEX, stated):
        jacobian = Problem(LOSSES[name], feasible).solve(estimate_of(POINT)).jacobian()
        gain, left, right = jacobian.low_rank
        np.testing.assert_allclose(np.diag(gain) - left @ right.T, jacobian.dense(), atol=1e-12)


def test_moves_and_gradients_must_be_finite():
    derivative = Problem(losses.LeastSquares(), SIMPLEX).solve(estimate_of(POINT)).jacobian()
    with pytest.raises(InvalidInputError, match="gradient must be finite, found nan at index 1"):
        derivative.vjp([0.0, np.nan, 0.0, 0.0, 0.0, 0.0])
    with pytest.raises(InvalidInputError, match="moves must be finite, found inf"):
        derivative @ np.full(D, np.inf)


def test_degrees_of_freedom_count_what_moves():
    d = 2_000
    f = np.random.default_rng(0).normal(0, 0.01, d)
    positive = Problem(losses.LeastSquares(), SIMPLEX).solve(f)
    assert positive.degrees_of_freedom == pytest.approx(np.sum(positive.frequencies > 0) - 1)
    blocks = Problem(losses.LeastSquares(), [constraints.Monotone(np.arange(d))]).solve(f)
    assert blocks.degrees_of_freedom == pytest.approx(len(np.unique(blocks.frequencies)))
    groups = constraints.GroupTotals(np.split(np.arange(d), 500), np.full(500, 1 / 500))
    grouped = Problem(losses.LeastSquares(), [groups]).solve(f)
    assert grouped.degrees_of_freedom == pytest.approx(d - 500)


KINKS = {
    "a value at 0": (Problem(losses.LeastSquares(), SIMPLEX), [0.5, 0.3, 0.2, 0.0, 0.0, -0.2]),
    "an order": (
        Problem(losses.LeastSquares(), [constraints.Monotone([0, 1, 2])]),
        [0.4, 0.2, 0.2, 0.1, 0.05, 0.05],
    ),
    "an order at 0": (
        Problem(losses.LeastSquares(), [*SIMPLEX, constraints.Monotone([0, 1, 2, 3])]),
        [0.6, 0.4, 0.0, 0.0, 0.0, -0.3],
    ),
    "bounds": (
        Problem(losses.WeightedLeastSquares([1, 2, 3, 4, 5, 6]), [constraints.Bounds(0.0, 0.3)]),
        [0.3, 0.2, 0.0, 0.3, -0.1, 0.1],
    ),
}


@pytest.mark.parametrize("name", KINKS)
def test_at_a_kink_the_derivative_is_that_of_one_side(name):
    problem, f = KINKS[name]
    raw = estimate_of(f)
    solution = problem.solve(raw)
    assert solution.jacobian().is_one_sided
    assert "one-sided" in repr(solution.jacobian())
    rng = np.random.default_rng(1)
    seen = set()
    for _ in range(8):
        move = rng.normal(size=D)
        ahead = problem.minimise(estimate_of(raw.frequencies + 1e-6 * move))
        difference = (ahead - solution.frequencies) / 1e-6
        derivative = solution.jacobian(towards=move)
        assert derivative @ move == pytest.approx(difference, abs=1e-6)
        seen.add(round(derivative.trace, 9))
    # Several sides, and so several derivatives: no single matrix would have passed.
    assert len(seen) > 1


@pytest.mark.parametrize(
    ("loss", "f"),
    [
        # The smallest move away from the reference costs as much as it gains.
        (losses.LeastSquares() + 0.1 * losses.L1To(POINT), POINT + 0.1),
        (losses.LeastSquares() + 0.1 * losses.TotalVariation(), [0.3, 0.6, 0, 0, 0, 0]),
    ],
)
def test_a_kink_of_the_loss_is_stated(loss, f):
    derivative = Problem(loss).solve(estimate_of(f)).jacobian()
    assert derivative.is_one_sided
    assert "kink" in derivative.kinks[0] or "price" in derivative.kinks[0]


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (Problem(losses.PosteriorMean(priors.PowerLaw), SIMPLEX), "a fitted prior moves"),
        (Problem(losses.LeastAbsolute(), SIMPLEX), "second derivatives"),
        (Problem(losses.LeastSquares() + 0.1 * losses.GroupNorm([[0, 1]])), "values share"),
        (Problem(losses.LeastSquares(), [constraints.Near(POINT, 0.01, 2)]), "is curved"),
        (Problem(losses.LeastSquares(), [WithoutFace(POINT, 0.01, 1)]), "further variables"),
    ],
)
def test_what_has_no_exact_derivative_says_why(problem, message):
    raw = OUE.estimate(OUE.simulate_counts([300, 280, 150, 120, 90, 60], 0), N)
    with pytest.raises(NoDerivativeError, match=message):
        problem.solve(raw).jacobian()


def test_a_point_that_is_no_minimiser_has_no_derivative():
    problem = Problem(losses.LeastSquares(), [*SIMPLEX, constraints.Linear(np.eye(1, 6), 0.0, 0.3)])
    start = FrequencyEstimate([0.4, 0.3, 0.1, 0.1, 0.05, 0.05])
    best = problem.solve(start).frequencies
    assert face_of(problem, start, best).fixed.sum() == 0
    moved = best + np.array([0.0, 0.02, -0.02, 0.0, 0.0, 0.0])
    with pytest.raises(NoDerivativeError, match="do not explain the slope at the solution"):
        face_of(problem, start, moved)


def test_rows_that_take_a_larger_basis_than_memory_holds_are_refused():
    """Each row shares a block with the next one; 6,400² entries are more than 4·10⁷."""
    count = 6_400
    rows = sparse.diags_array([1.0, 1.0], offsets=[0, 1], shape=(count, count))
    with pytest.raises(NoDerivativeError, match="6,400 rows of 6,400 blocks are too many"):
        _basis(rows, np.ones(count))


def test_bad_arguments_are_refused():
    problem = Problem(losses.LeastSquares(), SIMPLEX)
    with pytest.raises(InvalidInputError, match="of one vector"):
        problem.solve(np.full((2, 3), 0.3)).jacobian()
    solution = problem.solve([0.5, 0.2, 0.1])
    with pytest.raises(InvalidInputError, match="a domain of 3"):
        solution.jacobian(towards=[1.0, 2.0])
    with pytest.raises(InvalidInputError, match=r"\(3,\) or \(3, m\)"):
        solution.vjp([1.0, 2.0])


def test_half_a_loss_has_half_its_sensitivity():
    raw = estimate_of(POINT)
    half = TiltedGaussianMLE(np.zeros(D)).sensitivity(POINT, raw)
    assert 2 * half == pytest.approx(losses.GaussianMLE().sensitivity(POINT, raw))

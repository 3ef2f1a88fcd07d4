"""Certificates of prices on what values share: from prefix sums and norms, without a program."""

from unittest import mock

import numpy as np
import pytest
from mpmath import mp, mpf

from ldpopt import FrequencyEstimate, Problem, certify, losses
from ldpopt.constraints import Bounds, Linear, Near, NonNegative, SumsTo
from ldpopt.solve.certificate.bounds import shared_kinks
from ldpopt.solve.certificate.bounds.intervals import Box
from ldpopt.solve.certificate.bounds.minorant import minorant
from ldpopt.solve.certificate.box import box
from ldpopt.solve.certificate.polyhedra import polyhedron
from tests.test_certificate_soundness import as_if_long

D = 60

GROUPS = [np.arange(start, start + 5) for start in range(0, D, 5)]

LOSSES = {
    "variation": losses.LeastSquares() + 0.1 / D * losses.TotalVariation(np.arange(D)[::-1]),
    "groups": losses.LeastSquares() + 2.5 / D * losses.GroupNorm(GROUPS),
    "largest": losses.MaxAbsolute(),
}

SETS = {
    "simplex": [NonNegative(), SumsTo(1.0)],
    "nonnegative": [NonNegative()],
    "plane": [SumsTo(1.0)],
    "nothing": [],
}


def estimate_of(seed):
    generator = np.random.default_rng(seed)
    return generator.dirichlet(np.ones(D)) + generator.normal(0, 0.3 / D, D)


def no_program(*_):
    raise AssertionError("a program was solved")


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("constraints", SETS)
def test_closed_forms_are_proved_without_a_program(name, constraints):
    if (name, constraints) == ("largest", "plane"):
        pytest.skip("without curvature and bounds rounding alone has no bound")
    problem = Problem(LOSSES[name], SETS[constraints])
    estimates = FrequencyEstimate(np.array([estimate_of(seed) for seed in range(3)]))
    with mock.patch.object(polyhedron, "evidence", no_program):
        solution = problem.solve(estimates)
        certificate = solution.certificate
        assert problem.plan(estimates).path == "closed-form"
        assert certificate.is_optimal(1e-12, relative=True)
        # The multipliers are those that prove it, of the total among them.
        assert np.all(certificate.stationarity <= 1e-12)


@pytest.mark.parametrize("name", LOSSES)
def test_a_moved_point_is_above_the_minimum_by_at_most_its_gap(name):
    problem = Problem(LOSSES[name] + 0.2 * losses.LeastSquares(), SETS["simplex"])
    y = estimate_of(5)
    solution = problem.solve(y)
    point = solution.frequencies.copy()
    giver = int(np.argmax(point))
    point[giver] -= 1e-3
    point[(giver + 7) % D] += 1e-3
    rise = float(problem.loss.value(point, FrequencyEstimate(y))) - solution.objective
    gap = float(certify(problem, y, point).gap)
    assert rise > 1e-7
    assert rise <= gap <= 1e3 * rise


@pytest.mark.parametrize("name", LOSSES)
def test_the_minimum_at_a_higher_price_is_not_proved(name):
    term = losses.MaxAbsolute() if name == "largest" else LOSSES[name].terms[1]
    # Under equal weights, or with the total right, the largest deviation has the same minimiser at
    # every price.
    y = estimate_of(3) + 1 / D
    squares = losses.WeightedLeastSquares(1.0 + np.arange(D) % 3)
    cheap = Problem(squares + 0.5 / D * term, SETS["simplex"])
    dear = Problem(squares + 3.0 / D * term, SETS["simplex"])
    lowest = cheap.solve(y)
    point = dear.solve(y).frequencies
    rise = float(cheap.loss.value(point, FrequencyEstimate(y))) - lowest.objective
    assert rise > 1e-6
    assert float(certify(cheap, y, point).gap) >= rise - 1e-9


def test_a_second_look_at_the_same_deviations_is_none():
    """One value is nearly the largest, and another one is far from it: two choices, not three."""
    f = np.array([[0.5, 0.5 - 1e-10, 0.2]])
    limits = Box(np.zeros(1), np.full(1, np.inf))
    estimate = FrequencyEstimate(np.zeros((1, 3)))
    (kinks,) = shared_kinks.shared_kinks_of(losses.MaxAbsolute(), estimate, f, limits)
    first, second = kinks._candidates(np.full((1, 3), 0.5))
    assert first.slope[0] == pytest.approx([0.5, 0.0, 0.0])
    assert second.slope[0] == pytest.approx([0.5, 0.5, 0.0])


TERMS = [losses.TotalVariation(), LOSSES["groups"].terms[1], losses.MaxAbsolute()]


@pytest.mark.parametrize("term", TERMS)
@pytest.mark.parametrize("seed", range(5))
def test_whatever_is_wanted_slopes_bound_the_function(term, seed):
    generator = np.random.default_rng(seed)
    # Numbers of one digit: several values are equal, or nearly, and several are the largest.
    f = np.maximum(np.round(generator.normal(size=(2, D)), 1), 0.0)
    f *= 1 + 1e-7 * (seed % 2) * generator.normal(size=f.shape)
    limits = Box(np.zeros(1), np.full(1, np.inf))
    estimate = FrequencyEstimate(np.zeros((2, D)))
    (kinks,) = shared_kinks.shared_kinks_of(0.7 * term, estimate, f, limits)
    wanted = generator.normal(size=(2, D)) * 10 ** generator.uniform(-3, 3, (2, D))
    slope, error, cost = kinks.slopes(wanted)
    for s in f + generator.normal(size=(20, 2, D)) * 10 ** generator.uniform(-3, 1, (20, 1, 1)):
        drop = 0.7 * (term.value(f, estimate) - term.value(s, estimate))
        allowed = np.sum(slope * (f - s) + error * np.abs(f - s), axis=-1) + cost
        assert np.all(drop <= allowed + 1e-12)


def test_directions_of_groups_whose_squares_underflow_are_not_too_long():
    limits = Box(np.zeros(1), np.full(1, np.inf))
    estimate = FrequencyEstimate(np.zeros(2))
    for f in (np.array([2.4e-162, 0.0]), np.array([0.5, 0.25])):
        loss = losses.GroupNorm([[0, 1]])
        (kinks,) = shared_kinks.shared_kinks_of(loss, estimate, f, limits)
        for wanted in (np.zeros((1, 2)), np.full((1, 2), 2.4e-162), np.ones((1, 2))):
            assert np.linalg.norm(kinks.slopes(wanted).slope) <= 1


def test_losses_that_are_not_known_here_are_left_to_programs():
    class OwnVariation(losses.TotalVariation):
        """It may be another function."""

    assert shared_kinks.are_known(LOSSES["variation"])
    assert shared_kinks.are_known(losses.LeastSquares())
    assert not shared_kinks.are_known(losses.LeastSquares() + OwnVariation())
    assert not shared_kinks.are_known(losses.GroupNorm([[0, 1], [1, 2]]))


def test_several_prices_in_one_sum_are_still_proved():
    loss = LOSSES["variation"] + 0.2 / D * losses.L1To(np.full(D, 1 / D))
    problem = Problem(loss, [Bounds(0.0, 0.2), SumsTo(1.0)])
    certificate = problem.solve(estimate_of(0)).certificate
    assert certificate.is_optimal(1e-8, relative=True)
    assert np.isfinite(certificate.stationarity)


SUMS = [
    LOSSES["variation"] + 2.5 / D * losses.GroupNorm(GROUPS),
    LOSSES["groups"] + 0.2 / D * losses.L1To(np.full(D, 1 / D)),
]


@pytest.mark.parametrize("loss", SUMS)
def test_several_prices_leave_each_other_what_they_explain(loss):
    problem = Problem(loss, SETS["simplex"])
    solution = problem.solve(estimate_of(0))
    quick = box.gap(problem, FrequencyEstimate(estimate_of(0)), solution.frequencies)
    # Points of solvers are right to about 1e-8.
    assert np.all(quick <= 1e-6 * solution.certificate.scale)


@pytest.fixture
def looks(monkeypatch):
    """Return a list to which every price of a total adds an entry."""
    looks = []
    settled = box.settled_multiplier

    def counted(*arguments):
        looks.append(1)
        return settled(*arguments)

    monkeypatch.setattr(box, "settled_multiplier", counted)
    return looks


FAR_BELOW = FrequencyEstimate([0.5, 0.4, 0.3, -0.6])
AROUND_UNIFORM = (Near(np.full(4, 0.25), 0.3, 1),)


@pytest.mark.parametrize(
    ("around", "minimiser", "raised", "number"),
    [
        ((), [0.4, 0.35, 0.25, 0.0], 0.0, 1),
        ((), [0.4, 0.35, 0.25, 0.0], 5e-12, 2),
        ((), [0.4, 0.35, 0.25, 0.0], 1e-6, 4),
        # The third value, beside a kink of the ball, counts as on it from the second look on.
        (AROUND_UNIFORM, [0.4, 0.25, 0.25, 0.1], 0.0, 1),
        (AROUND_UNIFORM, [0.4, 0.25, 0.25, 0.1], 5e-12, 3),
        (AROUND_UNIFORM, [0.4, 0.25, 0.25, 0.1], 1e-6, 4),
    ],
)
def test_looks_at_kinks_end_where_the_next_one_gains_nothing(
    around, minimiser, raised, number, looks
):
    problem = Problem(losses.MaxAbsolute(), [NonNegative(), SumsTo(1.0), *around])
    # The last value has the largest deviation, and is as low as it may be: to raise it costs that.
    point = minimiser + raised * np.array([0.0, 0.0, -1.0, 1.0])
    gap = certify(problem, FAR_BELOW, point).gap
    assert raised * 0.9 <= gap <= raised * 1.1 + 1e-13
    assert len(looks) == number


def test_of_a_long_vector_one_look_is_enough_where_the_terms_vanish(looks):
    problem = Problem(losses.MaxAbsolute(), [NonNegative(), SumsTo(1.0)])
    # The gap is far below what a status promises, and above rounding.
    point = problem.minimise(FAR_BELOW) + 1e-10 * np.array([0.0, 0.0, -1.0, 1.0])
    alone = certify(problem, FAR_BELOW, point)
    number = len(looks)
    with as_if_long():
        quick = certify(problem, FAR_BELOW, point)
    assert len(looks) - number == 1 < number
    assert quick.gap <= 1e-8 * alone.scale


# A divergence is steeper at tiny frequencies than any price. These have several at the minimum.
AT_STEEP_ENDS = [[0.15, 0.02, 0.0, 0.07, 0.06, 0.7], [0.05, 0.01, 0.05, 0.46, 0.0, 0.43]]


@pytest.mark.parametrize("estimate", AT_STEEP_ENDS)
@pytest.mark.parametrize("tiny", [0.0, 5e-324, 1e-200, 1e-60, 1e-30])
def test_zeros_of_a_divergence_are_proved_beside_a_price_on_the_largest_deviation(estimate, tiny):
    loss = 0.0165 * losses.KLTo(np.full(6, 1 / 6)) + 4.25 * losses.MaxAbsolute()
    problem = Problem(loss, [NonNegative(), SumsTo(1.0), Linear(np.arange(6.0), upper=2.0)])
    solution = problem.solve(estimate)
    assert solution.status == "optimal"
    moved = np.maximum(solution.frequencies, tiny)
    certificate = certify(problem, estimate, moved)
    assert certificate.is_optimal(1e-8, relative=True)
    assert certificate.gap > 0


@pytest.mark.parametrize("seed", range(20))
def test_raised_tangents_are_below_a_divergence(seed):
    generator = np.random.default_rng(seed)
    reference = generator.dirichlet(np.ones(6))
    loss = losses.KLTo(reference) + losses.MaxAbsolute()
    f = generator.dirichlet(np.ones(6)) * 10.0 ** generator.uniform(-5, 5)
    f[1:4] = f[0] * 10.0 ** -generator.uniform(15, 320, 3)
    f[4] = 0.0
    ends = np.zeros(6), np.full(6, 1e6)
    with np.errstate(all="ignore"):
        whole = minorant(loss, FrequencyEstimate(np.full(6, 1 / 6)), f, *ends)
    raised = whole.raised
    assert raised is not None
    assert raised.cost <= 1e-14 * np.max(f)
    weights = list(map(mpf, reference))

    def value(s):
        return mp.fsum(x * mp.log(x / r) for x, r in zip(s, weights, strict=True) if x)

    tangent = raised.tangent
    with mp.workdps(60):
        at = value(map(mpf, f))
        others = [generator.dirichlet(np.ones(6)) * 10.0**p for p in generator.uniform(-20, 5, 20)]
        # Nothing but the cost stands between the two at the tangent's point.
        for s in [tangent.f, *others]:
            steps = [mpf(x) - mpf(y) for x, y in zip(s, f, strict=True)]
            slopes = [mpf(x) - mpf(y) for x, y in zip(tangent.slope, tangent.error, strict=True)]
            fall = -mp.fsum(map(mp.fmul, slopes, steps)) + mpf(raised.cost)
            assert at - value(map(mpf, s)) <= fall

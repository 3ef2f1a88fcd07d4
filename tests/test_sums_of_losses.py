"""Penalties, references and sums of losses: by their formulas, by solvers, and certified."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from ldpopt import FrequencyEstimate, Parameter, Problem, certify, losses, oracles, priors
from ldpopt.constraints import Bounds, GroupTotals, Monotone, NonNegative, SumsTo, TopSet
from ldpopt.errors import InvalidInputError, InvalidTypeError
from ldpopt.losses.base import Loss
from tests.tolerances import CERTIFIED, FINITE_DIFFERENCE, SOLVER, SUM, UNPOLISHED

D = 6
N = 400
ORACLE = oracles.GRR(epsilon=1.0, d=D)
ESTIMATE = ORACLE.estimate([100, 75, 60, 56, 55, 54], N)
SIMPLEX = [NonNegative(), SumsTo(1.0)]
REFERENCE = [0.3, 0.2, 0.2, 0.1, 0.1, 0.1]
GROUPS = [[0, 1], [2, 3, 4], [5]]

NEW = {
    "huber": losses.Huber(0.05),
    "entropy": losses.Entropy(),
    "variation": losses.TotalVariation(),
    "variation along an order": losses.TotalVariation([5, 0, 3, 2]),
    "groups": losses.GroupNorm(GROUPS, weights=[1.0, 0.0, 2.0]),
    "largest": losses.MaxAbsolute(),
    "l1 to": losses.L1To(REFERENCE),
    "kl to": losses.KLTo(REFERENCE),
}
SUMS = {
    "fused": losses.LeastSquares() + 0.1 * losses.TotalVariation(),
    "shrunk": losses.LeastSquares() + 0.1 * losses.L1To(REFERENCE),
    "shrunk weights": losses.WeightedLeastSquares([1.0, 2, 3, 4, 5, 6])
    + 0.1 * losses.L1To(REFERENCE),
    "shrunk twice": 0.5 * losses.GaussianMLE()
    + 0.2 * losses.L1To(REFERENCE)
    + 0.1 * losses.LeastAbsolute(),
    "even": losses.LeastSquares() + 0.05 * losses.Entropy(),
    "even and near": losses.WeightedLeastSquares([1.0, 2, 3, 4, 5, 6])
    + 0.5 * losses.LeastSquares()
    + 0.02 * losses.KLTo(REFERENCE)
    + 0.01 * losses.Entropy()
    + 0.02 * losses.L1To(REFERENCE),
    "two divergences": losses.KLTo(REFERENCE) + 2 * losses.Entropy(),
    "likely": losses.BinomialMLE() + 0.1 * losses.KLTo(REFERENCE),
    "divergence": losses.KullbackLeibler() + 0.1 * losses.GroupNorm(GROUPS),
    "robust": losses.Huber(0.02) + 0.1 * losses.TotalVariation(),
    "three": sum([losses.LeastSquares(), losses.MaxAbsolute(), 0.5 * losses.LeastAbsolute()]),
}
EVERY = {**NEW, **SUMS}


@pytest.mark.parametrize("name", EVERY)
def test_the_gradient_equals_central_differences(name):
    loss = EVERY[name]
    f = np.random.default_rng(5).dirichlet(np.ones(D)) * 0.8 + 0.1 / D
    gradient = loss.gradient(f, ESTIMATE)
    step = 1e-6
    for v, change in enumerate(np.eye(D) * step):
        rise = loss.value(f + change, ESTIMATE) - loss.value(f - change, ESTIMATE)
        assert_allclose(gradient[v], rise / (2 * step), rtol=1e-5, atol=FINITE_DIFFERENCE)


@pytest.mark.parametrize("name", EVERY)
def test_values_and_gradients_of_a_stack_are_those_of_its_rows(name):
    loss = EVERY[name]
    other = ORACLE.estimate([20, 120, 60, 100, 90, 10], N)
    stack = FrequencyEstimate([ESTIMATE.frequencies, other.frequencies], n=N, oracle=ORACLE)
    f = np.random.default_rng(6).dirichlet(np.ones(D), 2)
    loss.validate_for(stack)
    for i, estimate in enumerate([ESTIMATE, other]):
        assert_allclose(loss.value(f, stack)[i], loss.value(f[i], estimate), rtol=SUM)
        assert_allclose(loss.gradient(f, stack)[i], loss.gradient(f[i], estimate), rtol=SUM)


@pytest.mark.parametrize("name", EVERY)
def test_the_tangent_and_the_curvature_bound_the_loss_from_below(name):
    loss = EVERY[name]
    f, g = np.random.default_rng(7).dirichlet(np.ones(D), (2, 40))
    slope = np.sum(loss.gradient(f, ESTIMATE) * (g - f), axis=-1)
    bend = np.sum(loss.curvature(ESTIMATE, 0.0, 1.0) / 2 * (g - f) ** 2, axis=-1)
    rise = loss.value(g, ESTIMATE) - loss.value(f, ESTIMATE)
    assert np.all(rise >= slope + bend - CERTIFIED)


def test_penalties_by_hand():
    f = np.array([0.5, 0.1, 0.2, 0.0, 0.2, 0.0])
    assert_allclose(NEW["variation"].value(f, ESTIMATE), 0.4 + 0.1 + 0.2 + 0.2 + 0.2)
    assert_allclose(NEW["variation along an order"].value(f, ESTIMATE), 0.5 + 0.5 + 0.2)
    assert_allclose(NEW["groups"].value(f, ESTIMATE), np.hypot(0.5, 0.1))
    assert_allclose(NEW["l1 to"].value(f, ESTIMATE), 0.2 + 0.1 + 0 + 0.1 + 0.1 + 0.1)
    y = FrequencyEstimate([0.4, 0.13])
    assert_allclose(losses.Huber(0.05).value(np.array([0.5, 0.1]), y), 0.05 * 0.1 - 0.05**2 / 2
                    + 0.03**2 / 2)  # fmt: skip
    assert_allclose(losses.MaxAbsolute().value(np.array([0.5, 0.1]), y), 0.1)


# --- what solvers get -----------------------------------------------------------------------------

ADDENDS = {
    **EVERY,
    "squares": losses.LeastSquares(),
    "weighted": losses.WeightedLeastSquares([1.0, 2, 3, 4, 5, 6]),
    "gaussian": losses.GaussianMLE(),
    "binomial": losses.BinomialMLE(),
    "multinomial": losses.MultinomialMLE(),
    "divergence": losses.KullbackLeibler(),
    "deviations": losses.LeastAbsolute(),
    "posterior": losses.PosteriorMean(priors.PowerLaw(1.2, N)),
    "tilted": losses.NormalisedGaussianMLE().majorant(np.full(D, 1 / D), ESTIMATE),
    "reports": losses.PerReportMLE(ORACLE, np.repeat(np.arange(D), [100, 75, 60, 56, 55, 54])),
}


@pytest.mark.parametrize("name", ADDENDS)
def test_the_cone_form_is_the_loss_times_its_factor_up_to_a_constant(name):
    loss = ADDENDS[name]
    constants = loss.constants(ESTIMATE)
    place = cp.Parameter(D)
    f = cp.Variable(D)
    objective, cones = loss.cone_form(f, loss.data(ESTIMATE), constants)
    held = cp.Problem(cp.Minimize(objective), [*cones, f == place])
    values = []
    for point in ([0.3, 0.2, 0.1, 0.2, 0.1, 0.1], [0.1, 0.15, 0.25, 0.2, 0.1, 0.2]):
        place.value = np.array(point)
        held.solve(solver="CLARABEL")
        values.append((held.value, float(loss.value(place.value, ESTIMATE))))
    (form, value), (other_form, other_value) = values
    assert_allclose(
        form - other_form,
        loss.cone_factor(D, constants) * (value - other_value),
        rtol=1e-5,
        atol=1e-6,
    )


def test_a_loss_that_does_not_state_its_factor_is_named():
    class Own(Loss):
        def value(self, f, estimate):
            return np.sum(f**2, axis=-1)

        def gradient(self, f, estimate):
            return 2 * f

        def data(self, estimate):
            return (estimate.frequencies,)

        def cone_form(self, f, data, constants):
            return cp.sum_squares(f), []

    problem = Problem(Own() + losses.LeastSquares(), SIMPLEX)
    with pytest.raises(InvalidInputError, match=r"Own\(\) cannot be a part of a sum.*cone_factor"):
        problem.solve(ESTIMATE, path="conic")


# --- solved and certified -------------------------------------------------------------------------

BOXES = {
    "simplex": SIMPLEX,
    "capped": [Bounds(0.02, 0.3), SumsTo(1.0)],
    "box": [Bounds(0.05, [0.2, 0.2, 0.3, 0.3, 0.3, 0.3])],
}
BY_FORM = ("huber", "entropy", "largest", "l1 to", "kl to", "shrunk", "shrunk weights",
           "even", "even and near", "two divergences",
           "shrunk twice")  # fmt: skip


@UNPOLISHED
@pytest.mark.parametrize("box", BOXES)
@pytest.mark.parametrize("name", BY_FORM)
def test_closed_forms_are_certified_and_as_good_as_a_solver(name, box):
    problem = Problem(EVERY[name], BOXES[box])
    solution = problem.solve(ESTIMATE)
    assert solution.path == "closed-form"
    # At its reference a loss is 0, and so is the scale.
    assert solution.certificate.gap <= 1e-9 * (1e-3 + solution.certificate.scale)
    numeric = problem.solve(ESTIMATE, path="conic")
    assert_allclose(solution.objective, numeric.objective, rtol=0, atol=1e-6)
    assert numeric.certificate.gap <= 1e-5 * (1e-3 + numeric.certificate.scale)


def moved(f, size=1e-2):
    """Points at which one value has given ``size`` to another, inside the simplex."""
    for up in range(len(f)):
        for down in np.flatnonzero(f >= size):
            if down != up:
                step = np.zeros(len(f))
                step[[up, down]] = size, -size
                yield f + step


@pytest.mark.parametrize("more", [[], [Monotone([0, 1, 2])]], ids=["simplex", "order"])
@pytest.mark.parametrize("name", SUMS)
def test_sums_are_certified_and_moved_points_are_not(name, more):
    problem = Problem(SUMS[name], [*SIMPLEX, *more])
    solution = problem.solve(ESTIMATE)
    assert solution.certificate.is_optimal(1e-6, relative=True)
    lowest = solution.objective
    refused = 0
    for point in list(moved(solution.frequencies))[::29]:
        rise = float(problem.loss.value(point, ESTIMATE)) - lowest
        certificate = certify(problem, ESTIMATE, point)
        # Absolute deviations have many minimisers: only where the loss rises is a point worse.
        if rise > 2e-6 * certificate.scale and problem.violation(point) <= 1e-9:
            assert not certificate.is_optimal(1e-6, relative=True)
            assert certificate.gap >= rise - 1e-9
            refused += 1
    assert refused


def test_a_factor_changes_the_units_and_no_minimiser():
    plain = Problem(losses.LeastSquares(), SIMPLEX).solve(ESTIMATE)
    scaled = Problem(3 * losses.LeastSquares(), SIMPLEX).solve(ESTIMATE)
    assert scaled.solver == plain.solver == "norm-sub"
    assert_allclose(scaled.frequencies, plain.frequencies, rtol=0, atol=0)
    assert scaled.objective == pytest.approx(3 * plain.objective, rel=1e-12)
    posterior = 2 * losses.PosteriorMean(priors.PowerLaw(1.2, N))
    assert Problem(posterior, SIMPLEX).plan(ESTIMATE).name == "norm-sub of the posterior mean"


def test_a_point_as_far_from_its_kinks_as_solvers_stop_has_a_small_gap():
    loss = losses.LeastSquares() + 0.1 * losses.L1To(REFERENCE)
    problem = Problem(loss, SIMPLEX)
    best = problem.solve(ESTIMATE).frequencies
    beside = best + 2e-6 * np.array([1, -1, 1, -1, 1, -1])
    certificate = certify(problem, ESTIMATE, beside)
    rise = float(loss.value(beside, ESTIMATE) - loss.value(best, ESTIMATE))
    assert rise <= certificate.gap <= 1e-5


def test_soft_thresholding_is_the_closed_form_of_squares_and_a_reference():
    y = np.array([0.9, 0.28, 0.2, 0.1, -0.2, 0.1])
    loss = losses.LeastSquares() + 0.1 * losses.L1To(REFERENCE)
    result = Problem(loss).solve(y).frequencies
    step = y - REFERENCE
    expected = REFERENCE + np.sign(step) * np.maximum(np.abs(step) - 0.1, 0)
    assert_allclose(result, expected, rtol=0, atol=SUM)


def test_a_sum_with_the_weight_zero_is_the_loss_without_the_term():
    loss = losses.LeastSquares() + 0.0 * losses.TotalVariation()
    solution = Problem(loss, SIMPLEX).solve(ESTIMATE)
    plain = Problem(losses.LeastSquares(), SIMPLEX).solve(ESTIMATE)
    assert_allclose(solution.frequencies, plain.frequencies, rtol=0, atol=SOLVER["CLARABEL"])
    assert solution.certificate.is_optimal(1e-6, relative=True)


def test_a_sum_of_losses_that_are_not_convex_is_solved_step_by_step():
    loss = losses.NormalisedGaussianMLE() + 0.01 * losses.L1To(REFERENCE)
    solution = Problem(loss, SIMPLEX).solve(ESTIMATE)
    assert solution.solver == "convex-concave"
    assert solution.certificate.scope == "the last convexified step"
    assert solution.certificate.gap <= 1e-6


def test_sums_flatten_and_read_as_they_are_written():
    loss = losses.LeastSquares() + 2 * (losses.Entropy() + 0.5 * losses.Huber(0.25))
    assert repr(loss) == "LeastSquares() + 2 * Entropy() + Huber(0.25)"
    assert loss.weights == (1.0, 2.0, 1.0)
    assert repr(losses.LeastSquares() * 0.5) == "0.5 * LeastSquares()"


BAD = {
    "negative factor": (lambda: -1 * losses.LeastSquares(), "factor of a loss must be .* >= 0"),
    "no number": (lambda: losses.WeightedSum([losses.Entropy()], ["2"]), "must be a number"),
    "no terms": (lambda: losses.WeightedSum([], []), "a sum takes losses"),
    "no losses": (lambda: losses.WeightedSum([1.0], [1.0]), "a sum takes losses"),
    "fewer weights": (
        lambda: losses.WeightedSum([losses.Entropy()], []),
        "0 weights for 1 losses",
    ),
    "delta of 0": (lambda: losses.Huber(0), "delta must be .* > 0"),
    "order of one": (lambda: losses.TotalVariation([3]), "at least 2 indices"),
    "repeated index": (lambda: losses.TotalVariation([3, 1, 3]), "found 3 again at position 2"),
    "empty group": (lambda: losses.GroupNorm([[0], []]), "group 1 is empty"),
    "no groups": (lambda: losses.GroupNorm(3), "groups must be a sequence"),
    "negative weight": (lambda: losses.GroupNorm([[0]], [-1.0]), "weights must be 1 numbers >= 0"),
    "matrix": (lambda: losses.L1To([[0.5, 0.5]]), r"reference must have shape \(d,\)"),
    "NaN": (lambda: losses.L1To([0.5, np.nan]), "reference must be finite, found nan at index 1"),
    "negative": (lambda: losses.KLTo([0.5, -0.5]), "reference must be >= 0, found -0.5 at index 1"),
    "all zero": (lambda: losses.KLTo([0.0, 0.0]), "must have a positive value"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_when_the_loss_is_made(case):
    make, match = BAD[case]
    with pytest.raises((InvalidInputError, InvalidTypeError), match=match):
        make()


@pytest.mark.parametrize(
    ("loss", "match"),
    [
        (losses.L1To([0.5, 0.5]), "reference of L1To has 2 values for a domain of 6"),
        (losses.LeastSquares() + losses.KLTo([0.5, 0.5]), "reference of KLTo has 2 values"),
        (losses.TotalVariation([0, 7]), r"order of TotalVariation must lie in 0 \.\. 5, found 7"),
        (losses.GroupNorm([[0], [9]]), r"group 1 of GroupNorm must lie in 0 \.\. 5, found 9"),
    ],
    ids=repr,
)
def test_a_loss_that_does_not_fit_the_domain_is_refused_before_any_solve(loss, match):
    with pytest.raises(InvalidInputError, match=match):
        Problem(loss, SIMPLEX).solve(ESTIMATE)


def test_what_is_no_loss_cannot_be_added():
    # With any other of its expressions, cvxpy asks the loss only once a Parameter has been made.
    lam = Parameter("lam", 1.0)
    for add in (lambda loss: loss + 1, lambda loss: 1 + loss, lambda loss: 2 * lam + loss):
        with pytest.raises(InvalidTypeError, match=r"a number moves no minimum.*losses\.Custom"):
            add(losses.LeastSquares())
    for subtract in (
        lambda loss: loss - losses.Entropy(),
        lambda loss: 1 - loss,
        lambda loss: -loss,
    ):
        with pytest.raises(InvalidInputError, match=r"not convex.*losses\.Custom"):
            subtract(losses.LeastSquares())
    with pytest.raises(InvalidInputError, match="needs at least 2 values"):
        Problem(losses.TotalVariation()).solve([0.5])


ZEROS = [0.5, 0.3, 0.2, 0.0, 0.0, 0.0]


def test_values_that_a_reference_keeps_at_zero_stay_there_under_an_order():
    # Some of them are above a value that may be positive, which is 0 then as well.
    order = Monotone([0, 1, 3, 4, 2, 5])
    problem = Problem(losses.LeastSquares() + 0.1 * losses.KLTo(ZEROS), [*SIMPLEX, order])
    solution = problem.solve(ESTIMATE)
    assert solution.path == "closed-form"
    assert solution.certificate.is_optimal(CERTIFIED)
    assert_allclose(solution.frequencies[2:], 0.0, atol=0)
    # Of a stack each trial keeps its own values at zero.
    stack = np.array([[0.6, 0.5, 0.2, -0.1, 0.1, 0.0], [0.6, -0.1, 0.2, 0.3, 0.1, 0.2]])
    summed = losses.KullbackLeibler() + losses.LeastSquares()
    both = Problem(summed, [*SIMPLEX, Monotone(np.arange(D))]).solve(stack)
    assert both.certificate.is_optimal(CERTIFIED)
    assert np.count_nonzero(both.frequencies, axis=-1).tolist() == [3, 1]


@pytest.mark.parametrize("further", [[], [GroupTotals([[0, 3], [1, 2, 4, 5]], [0.6, 0.4])]])
def test_the_slope_of_a_heavy_logarithm_is_no_end_of_the_search(further):
    heavy = losses.KullbackLeibler() + 1e6 * losses.KLTo(ZEROS)
    solution = Problem(heavy, [*SIMPLEX, *further]).solve([0.4, 0.3, 0.1, 0.2, 0.01, 0.01])
    assert solution.path == "closed-form"
    assert solution.certificate.is_optimal(1e-9, relative=True)


@pytest.mark.parametrize("factor", [1e-100, 1e-20, 1e-6, 1e12])
def test_a_factor_before_a_whole_loss_changes_no_minimum(factor):
    constraints = [*SIMPLEX, Bounds(0.0, 0.3)]
    estimate = ESTIMATE.frequencies
    distance = losses.Custom(lambda f, target: cp.sum_squares(f - target))
    solution = Problem(factor * distance, constraints).solve(estimate)
    assert solution.status == "optimal"
    expected = Problem(losses.LeastSquares(), constraints).minimise(estimate)
    assert_allclose(solution.frequencies, expected, atol=SOLVER["CLARABEL"])


@pytest.mark.parametrize("kind", ["number", "parameter", "number before a sum"])
@pytest.mark.parametrize("factor", [1e-9, 0.01, 1e9])
def test_a_factor_before_the_whole_loss_changes_no_answer_of_a_solver(kind, factor):
    loss = losses.Huber(0.02)
    if kind == "number before a sum":
        loss = loss + 0.1 * losses.TotalVariation()
    factored = (Parameter("factor", factor) if kind == "parameter" else factor) * loss
    sets = [NonNegative(), SumsTo(1.0), TopSet([1, 4])]
    start = np.random.default_rng(1).normal(0.1, 0.1, 10)
    plain = Problem(loss, sets).solve(start)
    other = Problem(factored, sets).solve(start)
    assert (plain.path, plain.status, other.status) == ("conic", "optimal", "optimal")
    assert_allclose(other.frequencies, plain.frequencies, rtol=0, atol=1e-7)
    assert_allclose(other.objective, factor * plain.objective, rtol=1e-6)


def test_a_factor_before_a_divergence_leaves_its_certificate_without_a_total():
    falling = [NonNegative(), Monotone(range(6)[::-1])]
    for loss in (losses.KullbackLeibler(), losses.Entropy(), losses.KLTo(np.full(6, 1 / 6))):
        problem = Problem(1000 * loss, falling)
        assert problem.solve([0.3, 0.2, -0.05, 0.1, 0.02, 0.4]).status == "optimal"

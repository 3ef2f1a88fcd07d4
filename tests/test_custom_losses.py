"""Own losses in one line: what they may be, their certificates, and what is refused in words."""

import pickle

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from ldpopt import FrequencyEstimate, Parameter, Problem, certify, losses, oracles
from ldpopt.constraints import Bounds, Near, NonNegative, SumsTo
from ldpopt.constraints import Custom as CustomConstraint
from ldpopt.errors import InvalidInputError, InvalidTypeError, LdpoptWarning
from ldpopt.expressions import bases_of, with_bases_in_units
from ldpopt.solve.paths import conic
from ldpopt.solve.programs.solver_data import reduced_problem
from ldpopt.solve.status import Status
from tests.every_two import every_two
from tests.tolerances import ROUNDING, SOLVER, SUM

D = 6
SIMPLEX = [NonNegative(), SumsTo(1.0)]
ORACLE = oracles.GRR(epsilon=1.0, d=D)
ESTIMATE = ORACLE.estimate([100, 75, 60, 56, 55, 54], 400)
F = np.array([0.3, 0.25, 0.15, 0.1, 0.15, 0.05])

SAYABLE = {
    "huber": lambda f, y: cp.sum(cp.huber(f - y, 0.01)),
    "fused": lambda f, y: cp.sum_squares(f - y) + 0.1 * cp.tv(f),
    "minimax": lambda f, y: cp.norm_inf(f - y),
    "noise": lambda f, y, noise: cp.sum(cp.abs(f - y)) / noise.sd,
    "numbers": lambda f, y: cp.sum(cp.multiply(1 / (0.01 + np.abs(y)), cp.abs(f - y))),
    "estimate alone": lambda f: cp.sum_squares(f),
    "a shape of one": lambda f, y: cp.reshape(cp.norm(f - y), (1,), order="C"),
    "a form of a column": lambda f, y: cp.quad_form((f - y)[:, None], np.eye(D)),
    "default argument": lambda f, y, weight=2.0: weight * cp.norm(f - y, 1),
    "logarithms": lambda f, y: -cp.sum(cp.log(f + 0.1)) + cp.kl_div(f[0], 0.3),
}


@pytest.mark.parametrize("with_parameters", [True, False])
def test_atoms_that_take_no_bare_numbers_are_compiled_with_and_without_parameters(
    with_parameters, monkeypatch
):
    # From this many values on the estimate is compiled in.
    monkeypatch.setattr(conic, "_ONCE", np.inf if with_parameters else 1)
    stacked = losses.Custom(lambda f, y: cp.sum(cp.log_sum_exp(cp.vstack([f - y, y - f]), axis=0)))
    solution = Problem(stacked, SIMPLEX).solve(ESTIMATE)
    assert solution.status is Status.OPTIMAL


@pytest.mark.parametrize("name", SAYABLE)
def test_the_value_is_the_expression_s_and_the_slope_bounds_it_from_below(name):
    loss = losses.Custom(SAYABLE[name], name=name)
    noise = (ESTIMATE.noise,) if name == "noise" else ()
    arguments = (ESTIMATE.frequencies, *noise) if name != "estimate alone" else ()
    at = np.array([0.1, 0.2, 0.3, 0.1, 0.2, 0.1])
    expected = [SAYABLE[name](cp.Constant(f), *arguments).value.item() for f in (F, at)]
    values = loss.value(np.stack([F, at]), FrequencyEstimate(
        [ESTIMATE.frequencies] * 2, n=400, oracle=ORACLE
    ))  # fmt: skip
    assert_allclose(values, expected, rtol=SUM)
    slope = loss.gradient(F, ESTIMATE)
    assert values[1] >= values[0] + slope @ (at - F) - 1e-9


@pytest.mark.parametrize("name", SAYABLE)
def test_what_can_be_stated_is_solved_and_certified_and_a_moved_point_is_not(name):
    problem = Problem(losses.Custom(SAYABLE[name], name=name), SIMPLEX)
    solution = problem.solve(ESTIMATE)
    assert solution.certificate.is_optimal(1e-6, relative=True)
    worse = solution.frequencies.copy()
    worse[0] += 1e-2
    worse[np.argmax(worse[1:]) + 1] -= 1e-2
    rise = float(problem.loss.value(worse, ESTIMATE)) - solution.objective
    certificate = certify(problem, ESTIMATE, worse)
    assert rise - 1e-9 <= certificate.gap
    if rise > 1e-6 * certificate.scale:
        assert not certificate.is_optimal(1e-6, relative=True)


def test_the_same_loss_in_cvxpy_and_ready_made_has_the_same_minimum():
    pairs = [
        (lambda f, y: cp.sum(cp.huber(f - y, 0.02)) / 2, losses.Huber(0.02)),
        (lambda f, y: 0.5 * cp.sum_squares(f - y) + 0.1 * cp.tv(f),
         losses.LeastSquares() + 0.1 * losses.TotalVariation()),
    ]  # fmt: skip
    for build, ready in pairs:
        by_cvxpy = Problem(losses.Custom(build), SIMPLEX).solve(ESTIMATE)
        named = Problem(ready, SIMPLEX).solve(ESTIMATE)
        assert by_cvxpy.objective == pytest.approx(named.objective, rel=1e-6)


def test_a_stack_is_solved_trial_by_trial_with_one_compilation_where_numbers_stay_open():
    stack = np.stack([F, F[::-1], np.roll(F, 2)]) * 1.1
    for name, compiled in (("huber", 1), ("numbers", 0)):
        problem = Problem(losses.Custom(SAYABLE[name]), SIMPLEX)
        together = problem.solve(stack)
        assert len(problem._planner.conic.compiled) == compiled
        for trial, y in enumerate(stack):
            alone = problem.solve(y)
            assert alone.objective == pytest.approx(together.objective[trial], abs=1e-8)
        assert len(problem._planner.conic.compiled) == compiled


def test_a_loss_without_a_gradient_of_cvxpy_takes_a_solver_s():
    loss = losses.Custom(lambda f, y: cp.sum_largest(f - y, 2) + cp.normNuc(cp.diag(f)))
    slope = loss.gradient(F, ESTIMATE)
    assert np.isfinite(slope).all()
    for other in np.random.default_rng(0).dirichlet(np.ones(D), 5):
        rise = loss.value(other, ESTIMATE) - loss.value(F, ESTIMATE)
        assert rise >= slope @ (other - F) - 1e-6


def test_it_adds_to_other_losses():
    loss = losses.LeastSquares() + 0.1 * losses.Custom(lambda f: cp.tv(f), name="tv")
    assert repr(loss) == "LeastSquares() + 0.1 * Custom(tv)"
    ready = losses.LeastSquares() + 0.1 * losses.TotalVariation()
    solution = Problem(loss, SIMPLEX).solve(ESTIMATE)
    assert solution.objective == pytest.approx(Problem(ready, SIMPLEX).solve(ESTIMATE).objective)
    assert solution.certificate.is_optimal(1e-6, relative=True)


# --- refused in words -----------------------------------------------------------------------------

NOT_CONVEX = {
    "concave": (lambda f, y: cp.sum(cp.sqrt(f)), "is concave, which has no lowest point"),
    "product": (lambda f, y: cp.sum(f[0] * f[1]), "is a product of functions of f"),
    "weights of both signs": (
        lambda f, y: cp.sum(cp.multiply(0.1 - y, cp.abs(f))),
        r"weighs by numbers of either sign: .* take np\.maximum\(y, 0\)",
    ),
    "a parameter of either sign": (
        lambda f, y: cp.Parameter(name="t", value=0.5) * cp.norm1(f - y),
        r"t \* norm1.* of either sign: .* of a parameter state nonneg=True",
    ),
    "an inverse of what has none": (
        lambda f, y: cp.quad_form(f - y, np.diag([-1.0, *np.ones(f.size - 1)])),
        r"no eigenvalue below 0: .* take np\.linalg\.pinv",
    ),
    "quotient": (lambda f, y: f[0] / f[1], "divides by a function of f"),
    "mixed sum": (lambda f, y: cp.sum_squares(f) - cp.norm(f - y), "adds a concave part, -"),
    "composition": (lambda f, y: cp.sqrt(cp.sum_squares(f - y)), "is a function of .* neither"),
}


@pytest.mark.parametrize("case", NOT_CONVEX)
def test_what_is_not_convex_is_refused_at_once_with_the_reason(case):
    build, reason = NOT_CONVEX[case]
    with pytest.raises(InvalidInputError, match=rf"mine: .* is not convex.*{reason}"):
        losses.Custom(build, name="mine")


def test_what_depends_on_the_number_of_values_is_looked_at_before_the_solve():
    centre = np.full(3, 1 / 3)
    loss = losses.Custom(lambda f: cp.norm(f - centre) - cp.norm(f))
    with pytest.raises(InvalidInputError, match=r"not convex.*adds a concave part"):
        Problem(loss, SIMPLEX).solve([0.5, 0.3, 0.2])
    with pytest.raises(
        InvalidInputError, match=r"the function of Custom failed on 4 values .*: state it with"
    ):
        Problem(loss, SIMPLEX).solve([0.5, 0.3, 0.2, 0.0])


def test_a_name_that_the_noise_does_not_have_is_answered_by_those_that_it_has():
    loss = losses.Custom(lambda f, y, noise: cp.norm(f - y) / noise.sigma)
    with pytest.raises(InvalidInputError, match=r"'sigma' .*: noise\.sd is .* noise\.variance"):
        Problem(loss, SIMPLEX).solve(ESTIMATE)


def test_the_sign_of_the_estimate_may_decide_whether_it_is_convex():
    loss = losses.Custom(lambda f, y: cp.sum(cp.multiply(y, cp.abs(f))), name="weighted")
    assert Problem(loss, SIMPLEX).solve(F).certificate.is_optimal(1e-6)
    with pytest.raises(InvalidInputError, match=r"weighted: .* is not convex"):
        Problem(loss, SIMPLEX).solve(F - 0.2)


REFUSED = {
    "vector": (lambda f, y: cp.abs(f - y), r"shape \(6,\), a loss is one number: use cp.sum"),
    "complex": (lambda f, y: cp.sum(f) * 1j, "is complex: minimise cp.abs or cp.real"),
    "number": (lambda f, y: 3.0, "must return a cvxpy expression of f, got 3.0"),
    "nothing": (lambda f, y: None, "must return a cvxpy expression of f, got None: does it end"),
    "objective": (lambda f, y: cp.Minimize(cp.norm(f - y)), "return the expression itself"),
    "problem": (lambda f, y: cp.Problem(cp.Minimize(cp.norm(f - y))), "return the expression"),
    "maximum": (lambda f, y: cp.Maximize(-cp.norm(f - y)), "return minus the expression"),
    "constraint": (lambda f, y: f >= y, "state constraints by constraints.Custom"),
    "other variable": (
        lambda f, y: cp.norm(f - cp.Variable(6, name="t")),
        "has the variable t besides f",
    ),
    "no value": (lambda f, y: Parameter("lam") * cp.norm(f), "the parameter lam in .* no value"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_real_number_of_f_is_refused_before_any_solve(case):
    build, match = REFUSED[case]
    with pytest.raises((InvalidInputError, InvalidTypeError), match=match):
        Problem(losses.Custom(build), SIMPLEX).solve(F)


def test_what_is_no_function_of_f_is_refused():
    for build in (3, None, lambda: 1, lambda f, y, noise, more: 1):
        with pytest.raises(InvalidTypeError, match=r"Custom takes|this one takes"):
            losses.Custom(build)
    with pytest.raises(InvalidTypeError, match="name of a Custom loss must be a text"):
        losses.Custom(SAYABLE["huber"], name="")
    with pytest.raises(InvalidInputError, match="noise level"):
        Problem(losses.Custom(SAYABLE["noise"]), SIMPLEX).solve(F)


@pytest.mark.parametrize("f", [[0.5, 0.7, -0.1], np.array([0.5, 0.7, -0.1])])
def test_constraints_are_compared_without_what_the_loss_needs(f):
    problem = Problem(losses.Custom(SAYABLE["noise"]), SIMPLEX)
    assert problem.violation(f) == pytest.approx(0.1)


# --- own constraints ------------------------------------------------------------------------------


def one_constraint(f):
    return cp.norm(f) <= 0.5


def test_a_constraint_may_be_a_single_one_has_a_name_and_pickles():
    single = CustomConstraint(one_constraint, name="ball")
    restored = pickle.loads(pickle.dumps(single))
    for constraint in (single, restored, CustomConstraint(lambda f: [one_constraint(f)], "ball")):
        solution = Problem(losses.LeastSquares(), [*SIMPLEX, constraint]).solve(F)
        assert np.linalg.norm(solution.frequencies) <= 0.5 + 1e-6
        assert list(solution.duals) == ["NonNegative", "SumsTo", "ball"]
    assert pickle.loads(pickle.dumps(losses.Custom(squares))).value(F, ESTIMATE) > 0


def squares(f, y):
    return cp.sum_squares(f - y)


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (
            lambda f: cp.norm(f) >= 0.1,
            "not convex by cvxpy's rules.*larger side, .* must be",
        ),
        (lambda f: cp.norm(f) == 0.1, "both sides of == must be linear"),
        (lambda f: f[0] * f[1] <= 0.1, "is a product of functions of f"),
        (lambda f: f[0] / f[1] <= 2, r"divides by .*: bound a ratio as f\[0\] <= 2 \* f\[1\]"),
        (lambda f: cp.sqrt(f[0]) <= 0.1, "the smaller side, .* must be convex"),
        (lambda f: 1j * f == 0.1, r"is complex: constrain cp\.abs"),
        (lambda f: f <= np.nan, "a number in .* is NaN"),
    ],
)
def test_what_states_no_convex_set_is_refused_with_the_reason(build, reason):
    with pytest.raises(InvalidInputError, match=reason):
        Problem(losses.LeastSquares(), [CustomConstraint(build)]).solve(F)


def test_a_function_that_returns_the_same_again_compiles_nothing_anew():
    limits = [0.4]
    problem = Problem(
        losses.LeastSquares(), [*SIMPLEX, CustomConstraint(lambda f: f[0] <= limits[0])]
    )
    assert problem.solve([0.5, 0.4, 0.3]).compile_seconds > 0
    assert problem.solve([0.6, 0.4, 0.3]).compile_seconds == 0
    kept = problem.solve([0.6, 0.4, 0.3])
    limits[0] = 0.3
    assert problem.solve([0.6, 0.4, 0.3]).frequencies[0] == pytest.approx(0.3, abs=1e-6)
    # The certificate is about the limit that the solution was computed with.
    assert kept.certificate.is_optimal(1e-6)
    assert kept.certificate.violation <= 1e-6


def test_a_function_is_compiled_by_what_it_returns():
    centre = [np.array([0.2, 0.4, 0.4])]
    near = CustomConstraint(lambda f: cp.norm(f - centre[0]) <= 0.1)
    loss = losses.Custom(lambda f, y: cp.norm(f - y + centre[0]))
    start = FrequencyEstimate([0.5, 0.4, 0.1])

    def keys():
        return near.at(start, {}).compiled_key(3), loss.at(start, {}).compiled_key

    before = keys()
    assert keys() == before
    centre[0] = np.array([0.2, 0.4, 0.5])
    assert not set(keys()) & set(before)


NOTHING_AT_STAKE = {
    "no loss": lambda f: 0 * cp.sum(f),
    "kinks elsewhere": lambda f: cp.pos(cp.max(f) - 2),
}


@pytest.mark.parametrize("name", NOTHING_AT_STAKE)
def test_a_loss_that_vanishes_on_the_set_is_optimal_everywhere(name):
    further = CustomConstraint(lambda f: [f[0] >= 0.2])
    solution = Problem(losses.Custom(NOTHING_AT_STAKE[name]), [*SIMPLEX, further]).solve(F)
    assert solution.status == "optimal"
    assert solution.certificate.is_optimal(1e-9, relative=True)
    assert solution.certificate.scale < 1e-200


POWERS = {
    "fourth": lambda f, y: cp.sum((f - y) ** 4),
    "third": lambda f, y: cp.sum(cp.abs(f - y) ** 3),
    "of a power": lambda f, y: cp.sum((1e3 + (512 * (f - y)) ** 4) ** 1.5),
    "two": lambda f, y: cp.sum((f - y) ** 4) + 512.0**-4 * cp.sum((512 * f + 4) ** 4),
    "with others": lambda f, y: 1e-3 * cp.sum_squares(f - y) - 1e-9 * cp.sum(cp.sqrt(f)),
}


@pytest.mark.parametrize("name", POWERS)
def test_powers_of_small_deviations_are_solved_in_units_of_their_bases(name):
    """In units of 1 a fourth power of 1/512 is lost below the tolerances of all solvers."""
    d = 512
    y = np.random.default_rng(0).dirichlet(np.ones(d))
    y = y + np.random.default_rng(1).normal(0, 1 / d, d)
    ball = CustomConstraint(lambda f: [cp.norm(f - 1 / d) <= 0.4 / d**0.5])
    solution = Problem(losses.Custom(POWERS[name]), [*SIMPLEX, ball]).solve(y)
    assert solution.status is Status.OPTIMAL
    # By the first solver alone.
    assert solution.solver == "CLARABEL"


@pytest.mark.parametrize("name", POWERS)
def test_a_loss_with_bases_in_units_is_the_same(name):
    f = cp.Variable(4)
    y = np.array([0.5, -0.25, 0.125, 0.75])
    stated = POWERS[name](f, y)
    bases = bases_of(stated)
    units = [2.0**-8, 2.0**4][: len(bases)]
    scaled = with_bases_in_units(stated, iter(units))
    assert scaled.is_convex()
    f.value = np.array([0.25, 0.5, 1.0, 0.125])
    assert_allclose(scaled.value, stated.value, rtol=ROUNDING)
    for base, in_unit, unit in zip(bases, bases_of(scaled), units, strict=True):
        assert_allclose(in_unit.value, base.value / unit, rtol=ROUNDING)
    assert scaled.curvature == stated.curvature
    # What is in the unit 1 stays the same object.
    assert with_bases_in_units(stated, iter([1.0, 1.0])) is stated


@pytest.mark.filterwarnings("ignore:pnorm with p=3 is being approximated")  # exactly
def test_norms_are_stated_by_power_cones_to_solvers_that_have_them():
    d = 256
    y = np.random.default_rng(0).dirichlet(np.ones(d))
    y = y + np.random.default_rng(1).normal(0, 5 / d, d)
    problem = Problem(losses.Custom(lambda f, y: cp.norm(f - y, 3)), SIMPLEX)
    solution = problem.solve(y)
    assert (solution.status, solution.solver) == (Status.OPTIMAL, "CLARABEL")
    stated = cp.Problem(cp.Minimize(cp.norm(cp.Variable(4) - y[:4], 3)))
    for solver, count in (("CLARABEL", 4), ("QOCO", 0)):
        _, program, _ = reduced_problem(stated, solver)
        assert len(program.cone_dims.p3d) == count
    # cvxpy's own way stays as it is.
    data, _, _ = stated.get_problem_data("CLARABEL")
    assert len(data["dims"].p3d) == 0


@pytest.mark.parametrize(
    ("exponent", "count"), [(1.5, 4), (3, 4), (8, 4), (-1, 0), (-2, 0), (4, 0)]
)
def test_powers_take_power_cones_unless_few_others_state_them(exponent, count):
    stated = cp.Problem(cp.Minimize(cp.sum(cp.power(cp.Variable(4), exponent))))
    _, program, _ = reduced_problem(stated, "CLARABEL")
    assert len(program.cone_dims.p3d) == count


def test_eighth_powers_have_a_point_by_the_first_solver():
    d = 256
    rng = np.random.default_rng(0)
    y = rng.dirichlet(np.ones(d))
    y = y + rng.normal(0, 1.28 / d, d)
    solution = Problem(losses.Custom(lambda f, y: cp.sum(cp.power(f - y, 8))), SIMPLEX).solve(y)
    assert (solution.status, solution.solver) == (Status.OPTIMAL, "CLARABEL")


@pytest.mark.parametrize("weight", [1e-1, 1e-4, 1e-6])
def test_geometric_means_are_solved_and_print_nothing(weight, capfd):
    y = np.random.default_rng(0).dirichlet(np.ones(37)) + np.linspace(-0.01, 0.01, 37)
    loss = losses.Custom(lambda f, y: cp.sum_squares(f - y) - weight * cp.geo_mean(f))
    assert Problem(loss, SIMPLEX).solve(y).status is Status.OPTIMAL
    # Clarabel is written in Rust, which prints where it gives up.
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("constraints", [SIMPLEX, [NonNegative()], []], ids=repr)
def test_a_loss_that_is_infinite_at_zero_has_a_scale_where_its_minimum_is_zero(constraints):
    y = np.array([0.5, 0.3, 0.2])
    problem = Problem(losses.Custom(lambda f, y: cp.sum(cp.kl_div(y, f))), constraints)
    # All of its slopes vanish at y, and half of y is Σ y log 2 - y/2 above it.
    scale = certify(problem, y, y).scale
    assert_allclose(scale, np.log(2) - 0.5, rtol=SUM)
    assert problem.solve(y).status is Status.OPTIMAL


ENDING = {
    "entropy": lambda f: -cp.sum(cp.entr(f)),
    "entropy of what is left": lambda f: -cp.sum(cp.entr(0.4 - f)),
    "divergence": lambda f: cp.sum(cp.kl_div(f, 1 / 16)),
    "power": lambda f: cp.sum(cp.power(f, 1.5)),
}


@every_two(
    constraints={
        "total": [SumsTo(1.0)],
        "simplex": SIMPLEX,
        "caps": [Bounds(0.0, 0.4), SumsTo(1.0)],
        "nothing": [],
    },
    name=[*ENDING],
    weight=[1e-3, 1e-4, 1e-6],
)
def test_a_solver_s_point_is_inside_the_domain_of_a_loss_that_ends_there(weight, name, constraints):
    """Values below exp(-100) are nothing to a solver, which may leave them below 0."""
    y = np.linspace(-0.3, 0.6, 16)
    y = np.stack([y - y.mean() + 1 / 16, np.full(16, 1 / 16)])
    loss = losses.Custom(lambda f, y: cp.sum_squares(f - y) + weight * ENDING[name](f))
    solution = Problem(loss, constraints).solve(y)
    assert solution.status is Status.OPTIMAL
    f = solution.frequencies
    assert np.isfinite(loss.value(f, solution.start)).all()
    assert (f > 0).all() or "power" in name or "left" in name


@pytest.mark.parametrize("approx", [True, False])
@pytest.mark.parametrize("exponent", [6, 10])
def test_even_powers_that_are_no_powers_of_2_are_of_numbers_from_0_on(exponent, approx):
    # As cvxpy defines them, though cones take numbers below 0 to these powers.
    def power(f):
        return cp.power(f[3] - 0.05, exponent, approx=approx)

    raw = [0.5, 0.3, 0.1, -0.1]
    # The last value is held at 0.05, where the power has no slope, and the others share the rest.
    expected = np.array([0.5, 0.3, 0.1, 0.05]) + np.array([0.05, 0.05, 0.05, 0.0]) / 3
    ball = CustomConstraint(lambda f: [power(f) <= 1.0])
    loss = losses.Custom(lambda f, y: cp.sum_squares(f - y) + power(f))
    for problem in (Problem(losses.LeastSquares(), [SumsTo(1.0), ball]), Problem(loss, SIMPLEX)):
        solution = problem.solve(raw)
        assert solution.status is Status.OPTIMAL
        assert_allclose(solution.frequencies, expected, atol=SOLVER["CLARABEL"])


@pytest.mark.parametrize("exponent", [2.5001, np.pi, 1.9999])
def test_solvers_and_certificates_take_the_exponent_that_is_stated(exponent):
    # Of two values with a total one number is left, which the bound holds at 0.7: cvxpy's fraction
    # near the exponent has another bound.
    bound = 0.7**exponent + 0.3**exponent
    ball = CustomConstraint(lambda f: [cp.sum(cp.power(f, exponent)) <= bound])
    solution = Problem(losses.LeastSquares(), [*SIMPLEX, ball]).solve([0.9, 0.1])
    assert solution.status is Status.OPTIMAL
    assert_allclose(solution.frequencies, [0.7, 0.3], rtol=0, atol=1e-8)


@pytest.mark.parametrize("exponent", [2.0001, 1.9999, 2.5001])
def test_losses_with_an_exponent_beside_2_are_no_squares(exponent):
    # cvxpy takes the first two for squares, and then refuses them.
    loss = losses.Custom(lambda f, y: cp.sum(cp.power(cp.abs(f - y), exponent)))
    for more in (0.0, 0.1):
        both = loss + more * losses.Custom(lambda f, y: cp.max(f - y)) if more else loss
        # Proved by programs too.
        solution = Problem(both, SIMPLEX).solve([0.6, 0.4, 0.2])
        assert solution.status is Status.OPTIMAL
        assert_allclose(solution.frequencies, np.array([8, 5, 2]) / 15, atol=SOLVER["CLARABEL"])


@pytest.mark.parametrize("exponent", [1, 2.0001])
def test_the_sum_of_all_values_as_the_largest_ones_has_a_certificate(exponent):
    # cvxpy states no gradient of such sums, and its program of one fails beside a square.
    def build(f, y):
        apart = cp.abs(f - y)
        return cp.norm_inf(f - y) + cp.sum_largest(cp.power(apart, exponent), 2)

    ball = CustomConstraint(lambda f: cp.norm(f - 0.5) <= 0.4)
    solution = Problem(losses.Custom(build), [*SIMPLEX, ball]).solve([0.7, 0.2])
    assert solution.status is Status.OPTIMAL
    assert_allclose(solution.frequencies, [0.75, 0.25], atol=SOLVER["CLARABEL"])
    assert_allclose(solution.objective, 0.05 + 2 * 0.05**exponent, rtol=1e-6)


def test_powers_beyond_the_range_of_numbers_have_no_unit():
    # (10⁶)⁶⁰ is no number: such an estimate is no reason to fail.
    loss = losses.Custom(lambda f, y: cp.sum(cp.power(f, 60)))
    solution = Problem(loss, SIMPLEX).solve([1e6 + 0.5, -3e5, 1.0])
    assert solution.status is Status.OPTIMAL
    assert_allclose(solution.frequencies, 1 / 3, atol=SOLVER["CLARABEL"])


@pytest.mark.parametrize(
    "build",
    [
        lambda f: cp.power(1 + cp.sum_squares(f), 1.5),
        lambda f: cp.power(cp.quad_over_lin(f, 2.0) + 1, 3),
        lambda f: cp.power(cp.square(cp.norm(f)), 1.5),
    ],
)
def test_powers_of_sums_of_squares_are_least_where_these_are(build):
    problem = Problem(losses.Custom(lambda f, y: build(f - y)), SIMPLEX)
    solution = problem.solve([0.5, 0.3, 0.1, -0.1])
    assert solution.status is Status.OPTIMAL
    expected = [0.5 + 0.1 / 3, 0.3 + 0.1 / 3, 0.1 + 0.1 / 3, 0]
    assert_allclose(solution.frequencies, expected, atol=SOLVER["CLARABEL"])


def test_geometric_means_of_many_values_are_accurate():
    d = 33
    rng = np.random.default_rng(0)
    y = rng.dirichlet(np.ones(d)) + rng.normal(0, 0.1 / np.sqrt(d), d)
    mean = CustomConstraint(lambda f: cp.geo_mean(f) >= 0.8 / d)
    solution = Problem(losses.LeastSquares(), [*SIMPLEX, mean]).solve(y)
    assert solution.status is Status.OPTIMAL
    f = solution.frequencies
    assert_allclose(np.exp(np.mean(np.log(f))), 0.8 / d, rtol=1e-6)
    # f - y is a number and a multiple of 1/f: the gradients of total and mean.
    (total, price) = np.linalg.lstsq(np.stack([np.ones(d), 1 / f], axis=1), f - y)[0]
    assert price > 0
    assert_allclose(f - y, total + price / f, atol=1e-4)


def test_bases_that_vanish_where_values_are_equal_have_the_unit_of_the_estimate():
    start = FrequencyEstimate(0.25 + 2.0**-12 * np.array([1.0, -1.0, 1.0, -1.0]))
    loss = losses.Custom(lambda f, y: cp.sum(cp.power(cp.abs(f - 0.25), 3)))
    assert loss.at(start, {}).constants(start)[1:] == (2.0**-12,)
    # And one that vanishes at the estimate has that of equal values.
    loss = losses.Custom(lambda f, y: cp.sum(cp.power(cp.abs(f - y), 3)))
    assert loss.at(start, {}).constants(start)[1:] == (2.0**-12,)


def test_losses_without_powers_have_no_units_of_bases():
    f = cp.Variable(3)
    powers = [cp.sum_squares(f), cp.sum(f**2), cp.sum(f**1), cp.sum(cp.Constant(2) ** 3)]
    for stated in (*powers, cp.sum(cp.exp(f))):
        assert bases_of(stated) == []


@pytest.mark.parametrize("unit", [1e-12, 1e12])
def test_the_unit_of_a_loss_decides_nothing(unit):
    # Squares in counts of a million users are 1e12 times those in frequencies.
    loss = losses.Custom(lambda f, y: unit * cp.sum_squares(f - y))
    solution = Problem(loss, SIMPLEX).solve([0.4, 0.3, 0.2, 0.15, -0.05])
    assert solution.status is Status.OPTIMAL
    assert solution.certificate.is_optimal(1e-9, relative=True)
    assert_allclose(
        solution.frequencies, [0.3875, 0.2875, 0.1875, 0.1375, 0.0], atol=SOLVER["CLARABEL"]
    )


def test_a_constant_in_a_loss_makes_no_gap_small():
    start = [0.4, 0.3, 0.2, 0.15, -0.05]
    squares = losses.Custom(lambda f, y: cp.sum_squares(f - y) + (1e9 + y[0]))
    for loss in (squares, losses.TotalVariation() + 0.5 * squares):
        problem = Problem(loss, SIMPLEX)
        solution = problem.solve(start)
        assert solution.status is Status.OPTIMAL
        assert float(solution.certificate.scale) < 10
        # Doubles near 1e9 are 1e-7 apart: the constant is a part of the value alone.
        assert float(solution.certificate.gap) < 1e-9
        assert float(solution.objective) == pytest.approx(1e9 * (0.5 + 0.5 * (loss is squares)))
        uniform = certify(problem, start, np.full(5, 0.2))
        assert uniform.is_optimal(1e-6, relative=True) == (loss is not squares)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda f, y: cp.sum_squares(f - y) + np.nan, "a number in .* is NaN: state another one"),
        (lambda f, y: cp.norm1(cp.multiply([np.inf, *y[1:]], f)), "is infinite: state a finite"),
        (
            lambda f, y: y.sort() or cp.norm(f - y),
            r"let it begin with y = y.copy\(\)",
        ),
    ],
)
def test_numbers_of_a_loss_are_looked_at_before_any_solve(function, message):
    with pytest.raises(InvalidInputError, match=message):
        Problem(losses.Custom(function), SIMPLEX).plan(ESTIMATE)


OUTSIDE = {
    "inverse": lambda f: cp.sum(cp.inv_pos(f)),
    "inverse square": lambda f: cp.sum(cp.power(f, -2)),
    "odd power": lambda f: cp.sum(cp.power(f, 3)),
    "sixth power": lambda f: cp.sum(cp.power(f, 6)),
    "quotient": lambda f: cp.quad_over_lin(f, f[0]),
}


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize("more", [[], [Near(np.zeros(3), 10.0)]])
def test_a_point_outside_the_domain_of_a_function_is_never_certified(name, more):
    """numpy goes on there: the inverse square of -1 is 1, which is the least inside this box."""
    problem = Problem(losses.Custom(OUTSIDE[name]), [Bounds(-1.0, 1.0), *more])
    certificate = certify(problem, np.full(3, 0.2), np.full(3, -1.0))
    assert certificate.violation == 0
    assert certificate.gap == np.inf
    assert certificate.reason == "the loss is infinite at the point"


def test_rounding_beside_the_end_of_a_domain_is_no_reason():
    slopes = np.array([1.0, -3.0, -2.0])
    loss = losses.Custom(lambda f: cp.sum(cp.power(f, 3)) + slopes @ f)
    point = np.array([-1e-13, 2 / 3, 1 / 3])
    assert certify(Problem(loss, [SumsTo(1.0)]), F[:3], point).is_optimal(1e-8)


REGIONS = {
    "inverse": lambda f: cp.inv_pos(f[0]) <= 5,
    "inverse square": lambda f: cp.power(f[0], -2) <= 25,
    "quotient": lambda f: cp.quad_over_lin(1.0, f[0]) <= 5,
    "logarithm": lambda f: cp.log(f[0]) >= np.log(0.2),
    "logarithm after another": lambda f: [f[1] <= 5, cp.log(f[0]) >= np.log(0.2)],
}


@pytest.mark.parametrize("name", REGIONS)
def test_a_point_outside_the_domain_of_a_constraint_is_no_answer(name):
    """All of these state f_0 >= 0.2, and numpy's numbers at -1 are below their limits, or NaN."""
    far = np.array([-1.0, 2.0])
    problem = Problem(losses.LeastSquares(), [CustomConstraint(REGIONS[name]), SumsTo(1.0)])
    assert problem.constraints[0].violation(far) == np.inf
    assert_allclose(problem.solve(far).frequencies, [0.2, 0.8], atol=SOLVER["CLARABEL"])
    x = cp.Variable(2)
    forms = CustomConstraint(REGIONS[name]).forms(x, {})
    objective = cp.Minimize(cp.sum(x))
    program = certify(cp.Problem(objective, [*forms, cp.sum(x) == 1]), {x: far})
    assert program.violation == np.inf


def test_an_odd_power_of_a_negative_number_violates_by_its_distance():
    cube = CustomConstraint(lambda f: cp.power(f[0], 3) <= 0.5)
    assert cube.violation(np.array([[-0.25, 1.0], [0.5, 1.0]])).tolist() == [0.25, 0.0]


def test_a_program_is_not_certified_outside_the_domain_of_its_objective():
    x = cp.Variable(3)
    program = cp.Problem(cp.Minimize(cp.sum(cp.power(x, -2))), [x >= -1, x <= 1])
    certificate = certify(program, {x: np.full(3, -1.0)})
    assert certificate.gap == np.inf
    assert "outside the domain" in certificate.reason
    assert certify(program, {x: np.ones(3)}).is_optimal(1e-8)


@pytest.mark.parametrize(
    ("build", "sides"),
    [
        (lambda f, column: cp.sum_squares(f - column), r"f of shape \(4,\) and .*\(4, 1\)"),
        (lambda f, column: cp.sum(cp.kl_div(column, f)), r"of shape \(4, 1\) and f of"),
        (lambda f, column: cp.norm1(f[:3] - column[:3]), r"\(3, 1\) make a table of 3 x 3 pairs"),
        (lambda f, column: cp.norm1(f[:, None] - column.ravel()), r"and .* of shape \(4,\)"),
    ],
)
def test_a_column_beside_frequencies_has_a_warning(build, sides):
    # As of a DataFrame with one column: cvxpy makes a table of all pairs, and nothing fails.
    column = np.array([[0.5], [0.3], [0.25], [0.05]])
    loss = losses.Custom(lambda f: build(f, column), name="near")
    with pytest.warns(LdpoptWarning, match=f"near: .*{sides}.*"):
        Problem(loss, []).plan([0.5, 0.3, 0.25, -0.05])
    bound = CustomConstraint(lambda f: build(f, column) <= 10, name="ball")
    with pytest.warns(LdpoptWarning, match=r"Custom\(ball\): .* as y\.ravel\(\) does"):
        Problem(losses.LeastSquares(), [bound]).plan([0.5, 0.3, 0.25, -0.05])


def test_a_column_as_a_bound_has_a_warning():
    column = np.array([[0.6], [0.5], [0.4], [0.3]])
    capped = CustomConstraint(lambda f: f <= column)
    with pytest.warns(LdpoptWarning, match="make a table of 4 x 4 pairs"):
        Problem(losses.LeastSquares(), [capped]).plan([0.5, 0.3, 0.25, -0.05])


@pytest.mark.parametrize(
    "build",
    [
        lambda f, y: cp.sum_squares(f - y),
        lambda f, y: cp.sum_squares(f - y[None, :]),  # one row
        lambda f, y: cp.sum_squares(f[:, None] - y[:, None]),
        lambda f, y: cp.norm1(f[:, None] - f),  # pairs of values
        lambda f, y: cp.sum_squares(y[:, None] @ f[None, :]),  # a product of matrices
        lambda f, y: cp.sum(cp.abs(f - np.array([[0.0], [0.5], [1.0]]))),  # three knots
        lambda f, y: cp.sum_squares(f[:1] - y[:1, None]),
    ],
)
def test_other_shapes_have_no_warning(build, recwarn):
    y = np.array([0.5, 0.3, 0.25, -0.05])
    Problem(losses.Custom(lambda f: build(f, y)), []).plan(y)
    within = CustomConstraint(lambda f: build(f, y) <= 10)
    Problem(losses.LeastSquares(), [within]).plan(y)
    assert not recwarn.list


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (lambda f, y: cp.sum_squares(f - y.frequencies), "second argument is the array of freq"),
        (lambda f, y: cp.square(f["cat"]), r"goes by numbers from 0, such as f\[estimate\.labels"),
    ],
)
def test_a_function_that_fails_has_its_own_remedy(loss, message):
    with pytest.raises(InvalidInputError, match=message):
        Problem(losses.Custom(loss), SIMPLEX).solve(ESTIMATE)


def test_a_generator_of_constraints_has_a_remedy():
    falling = CustomConstraint(lambda f: (f[i] >= f[i + 1] for i in range(3)))
    with pytest.raises(InvalidTypeError, match=r"make a list of it, \[\.\.\. for \.\.\.\]$"):
        Problem(losses.LeastSquares(), [falling]).solve(ESTIMATE)


def test_a_function_in_place_of_a_loss_has_a_remedy():
    with pytest.raises(InvalidTypeError, match=r"is stated by Custom\(\.\.\.\)$"):
        Problem(lambda f, y: cp.sum_squares(f - y), SIMPLEX)
    with pytest.raises(InvalidTypeError, match=r"got <class .*LeastSquares'>$"):
        Problem(losses.LeastSquares, SIMPLEX)


@every_two(
    loss={
        "ridge": lambda f, _: 0.5 * cp.sum_squares(f),
        "quartic": lambda f, _: cp.sum(cp.power(f, 4)),
        "norm": lambda f, _: cp.norm(f),
        "kinks": lambda f, _: cp.tv(f) + cp.norm1(f),
    },
    constraints={
        "bounds": [NonNegative()],
        "row": [CustomConstraint(lambda f: [f[0] + f[1] <= 0.6])],
        "ball": [NonNegative(), CustomConstraint(lambda f: [cp.norm(f) <= 2])],
    },
    unit=[1e-4, 1.0, 1e4],
)
def test_a_minimum_of_zero_at_zero_is_exact(loss, constraints, unit):
    # Nothing near it has a size that a gap could be relative to.
    estimate = unit * np.array([0.45, 0.3, 0.2, 0.12, -0.02, -0.05])
    solution = Problem(losses.Custom(loss), constraints).solve(estimate)
    assert solution.status == "optimal"
    assert not solution.frequencies.any()
    assert solution.certificate.is_optimal(1e-12, relative=True)

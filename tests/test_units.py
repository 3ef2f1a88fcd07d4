"""What solvers are given: units that fit, and the same numbers as cvxpy's for every estimate."""

import warnings

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from ldpopt import FrequencyEstimate, Problem, certify, losses, oracles
from ldpopt.constraints import Bounds, Custom, Linear, Near, NonNegative, Smooth, SumsTo, TopSet
from ldpopt.errors import InvalidInputError, LdpoptWarning
from ldpopt.expressions import with_squares_in_units
from ldpopt.losses import GaussianMLE, GroupNorm, KLTo, KullbackLeibler, L1To, LeastSquares
from ldpopt.solve.certificate.cones.compiled_problem import compiled_problem
from ldpopt.solve.certificate.cones.conic_program import ConicProgram
from ldpopt.solve.formulation import Formulation, stated_size
from ldpopt.solve.paths import conic
from ldpopt.solve.programs import solver_data
from ldpopt.solve.programs.program import ConeProgram
from ldpopt.solve.programs.solver_data import SolverData
from ldpopt.solve.programs.solvers import COLD
from ldpopt.solve.programs.units import Coefficients, balanced, row_groups, unit_of_size
from ldpopt.solve.status import Status
from tests.tolerances import SOLVER, UNPOLISHED

SIMPLEX = [NonNegative(), SumsTo(1.0)]
D = 300


@pytest.fixture(scope="module")
def zipf():
    truth = 1 / np.arange(1.0, D + 1)
    return truth / truth.sum()


@pytest.fixture(scope="module")
def raw(zipf):
    rng = np.random.default_rng(7)
    return zipf + rng.normal(0, 2e-3, D), rng.permutation(D)


# --- units ----------------------------------------------------------------------------------------


def entries(matrix, sizes=(), costs=0.0):
    matrix = np.asarray(matrix, dtype=float)
    groups = row_groups(len(matrix) - sum(sizes), list(sizes))
    return Coefficients.of(sparse.csr_array(matrix), groups, np.asarray(costs))


def test_auxiliary_variables_count_in_the_units_that_the_frequencies_imply():
    d = 2.0**12
    # x/d - t >= 0 for two values, and the sum of both t: all in units of 1/d.
    matrix = [[1 / d, 0, -1, 0], [0, 1 / d, 0, -1], [0, 0, 1, 1]]
    units = balanced(entries(matrix), np.array([True, True, False, False]), with_objective=False)
    assert_array_equal(units.columns, [1, 1, 1 / d, 1 / d])
    assert_array_equal(units.rows, [d, d, d])
    assert units.objective == 1


def test_the_rows_of_a_cone_share_a_unit():
    matrix = [[0, 2.0**-8], [2.0**-10, 0], [2.0**-10, 0]]
    units = balanced(entries(matrix, [3]), np.array([True, True]), with_objective=False)
    assert len(set(units.rows)) == 1


def test_what_the_loss_has_chosen_is_left_alone_unless_the_objective_is_to_change():
    matrix = [[2.0**-12, -1.0]]
    anchored = np.array([True, False])
    cost = np.array([0.0, 2.0**-20])
    assert balanced(entries(matrix, costs=cost), anchored, with_objective=False) is None
    units = balanced(entries(matrix, costs=cost), anchored, with_objective=True)
    assert_array_equal(units.columns, [1, 2.0**-12])
    assert units.objective == 2.0**32


def test_a_quadratic_objective_counts_the_units_of_its_variables_twice():
    # t = 2⁴⁰ x, and t² is minimised.
    stated = Coefficients.of(
        sparse.csr_array([[2.0**40, -1.0]]), np.zeros(1, dtype=np.int64), 0.0, np.array([0.0, 1.0])
    )
    units = balanced(stated, np.array([True, False]), with_objective=True)
    assert_array_equal(units.columns, [1, 2.0**40])
    assert units.objective == 2.0**-80


def test_coefficients_near_one_are_left_as_they_are():
    matrix = [[1.0, -3.0], [1.0, 0.2]]
    assert balanced(entries(matrix), np.array([True, False]), with_objective=False) is None


@pytest.mark.parametrize("solver", ["CLARABEL", "QOCO", "SCS", "OSQP"])
def test_units_do_not_change_the_point(solver):
    x = cp.Variable(4)
    forms = [1e-4 * x >= 1e-5, cp.sum(x) == 1, cp.norm1(1e-5 * x) <= 1e-4]
    if solver in ("CLARABEL", "SCS"):
        forms.append(cp.norm(1e-6 * x) <= 0.9e-6)
    target = np.array([0.9, 0.4, -0.2, 0.1])
    objective = cp.sum_squares(x - target)
    other = cp.Problem(cp.Minimize(objective), forms)
    other.solve(solver="CLARABEL")
    scaled = ConeProgram(objective, forms, solver, anchor=x).solve()
    assert_allclose(scaled.at(x), other.variables()[0].value, rtol=0, atol=1e-5)


@pytest.mark.parametrize("solver", ["CLARABEL", "QOCO"])
def test_a_variation_in_units_of_frequency_is_solved(raw, solver):
    estimate, order = raw
    smooth = Custom(lambda f: [cp.tv(f[order]) <= 0.06])
    solution = Problem(LeastSquares(), [*SIMPLEX, smooth]).solve(estimate, solver=solver)
    assert solution.status == "optimal"
    assert solution.certificate.violation <= 1e-9
    assert solution.certificate.is_optimal(1e-7, relative=True)


def test_the_unit_in_which_a_divergence_is_stated_does_not_matter(raw, zipf):
    estimate, _ = raw
    points = []
    for unit in (1, D):
        near = Custom(lambda f, unit=unit: [cp.sum(cp.kl_div(unit * f, unit * zipf)) <= unit / 200])
        solution = Problem(LeastSquares(), [*SIMPLEX, near]).solve(estimate)
        assert solution.status == "optimal"
        assert solution.certificate.is_optimal(1e-6, relative=True)
        points.append(solution.frequencies)
    assert_allclose(points[0], points[1], rtol=0, atol=1e-6)


@pytest.mark.parametrize("solver", ["CLARABEL", "SCS"])
@pytest.mark.parametrize("norm", [1, 2, "kl", "variation"])
def test_balls_are_solved_by_solvers_of_both_kinds(solver, norm):
    """SCS does not settle at a variation whose absolute values may be negative on the way."""
    rng = np.random.default_rng(4)
    last = rng.permutation(1.0 / np.arange(1, 65))
    last /= last.sum()
    f = last * rng.uniform(0.8, 1.2, 64) + 0.001 * rng.standard_normal(64)
    distance = {1: 0.02, 2: 0.01, "kl": 1e-4, "variation": np.abs(np.diff(last)).sum() / 100}[norm]
    ball = Smooth(distance) if norm == "variation" else Near(last, distance, norm)
    problem = Problem(LeastSquares(), [*SIMPLEX, ball])
    solution = problem.solve(f, path="conic", solver=solver)
    assert solution.status == "optimal"
    # SCS is given 50,000. Under the divergence it takes 2,400 to 2,800, by the processor.
    assert solution.iterations < 10_000


def test_constraints_that_are_in_units_keep_them():
    last = np.arange(1.0, 65) ** -2
    near = Near(last / last.sum(), 0.01, "kl")
    for more, is_rescaled in (([], False), ([Linear(1e-6 * np.eye(1, 64), 0.0)], True)):
        problem = Problem(LeastSquares(), [*SIMPLEX, near, *more])
        units = compiled_for(problem, last, "CLARABEL")._program._data.units
        assert (units is not None) is is_rescaled


# --- compiled once --------------------------------------------------------------------------------

LOSSES = [LeastSquares(), GaussianMLE(), KullbackLeibler()]


def compiled_for(problem, estimate, solver):
    problem.solve(estimate, path="conic", solver=solver)
    (compiled,) = problem._planner.conic.compiled.values()
    return compiled


def programs_of_other_cones():
    """Problems whose rows need other orders, two of each shape with other numbers."""
    x = cp.Variable(4)
    for number in (1.0, 2.0):
        yield [x >= number, cp.sum(x) == 10]
        yield [cp.sum(x) == 10, x >= number]
        yield [cp.norm(x - number) <= 3]
        yield [cp.SOC(np.full(2, number), cp.reshape(x, (2, 2), order="F"))]
        yield [cp.SOC(np.full(1, number), cp.reshape(x, (4, 1), order="F"))]
        yield [cp.exp(x[:3]) <= 9 * number, x[3] == 0]
        yield [cp.PowCone3D(x[0], x[1], x[2], 0.25 * number), x[3] == 0, x <= 9]
        yield [cp.diag(x) >> number * np.eye(4), x <= 9]


def test_an_order_of_rows_that_is_kept_is_the_one_that_cvxpy_finds(monkeypatch):
    monkeypatch.setattr(solver_data, "_orders", {})
    searches = []
    find = solver_data._found_order
    monkeypatch.setattr(
        solver_data, "_found_order", lambda *given: searches.append(given) or find(*given)
    )
    for forms in programs_of_other_cones():
        x = forms[0].variables()[0]
        for solver in ("CLARABEL", "SCS"):
            problem = cp.Problem(cp.Minimize(cp.sum(x)), forms)
            ours = SolverData(problem, solver)._data
            theirs, _, _ = problem.get_problem_data(solver)
            assert_array_equal(ours["A"].toarray(), theirs["A"].toarray())
            assert_array_equal(ours["b"], theirs["b"])
    # Of powers and matrices none is kept. cvxpy puts equations first: the first two are one shape.
    assert len(solver_data._orders) == 2 * 5
    assert len(searches) == 2 * 5 + 2 * 2 * 2


def test_a_program_for_a_certificate_has_the_bits_that_cvxpy_would_compile():
    for forms in programs_of_other_cones():
        x = forms[0].variables()[0]
        problem = cp.Problem(cp.Minimize(cp.sum(x)), forms)
        ours = compiled_problem(problem)
        data, _, inverse = problem.get_problem_data("CLARABEL")
        theirs = ConicProgram.of(data)
        for name in ("data", "indices", "indptr"):
            bits = getattr(ours.program.matrix, name).tobytes()
            assert bits == getattr(theirs.matrix, name).tobytes()
        assert ours.program.right.tobytes() == theirs.right.tobytes()
        assert ours.program.linear.tobytes() == theirs.linear.tobytes()
        assert ours.program.cones == theirs.cones
        assert ours.offset == inverse[-1]["offset"]
    assert compiled_problem(cp.Problem(cp.Minimize(1.0))) is None


def test_only_the_latest_orders_of_rows_are_kept(monkeypatch):
    monkeypatch.setattr(solver_data, "_orders", {})
    monkeypatch.setattr(solver_data, "_KEPT_ORDERS", 2)
    for d in (2, 3, 4):
        x = cp.Variable(d)
        SolverData(cp.Problem(cp.Minimize(cp.sum(x)), [x >= 1]), "CLARABEL")
    assert len(solver_data._orders) == 2


@UNPOLISHED
@pytest.mark.parametrize("d", [6, 300])  # below and above the size from which cvxpy's other way is
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_another_estimate_gets_the_numbers_that_cvxpy_would_compile(loss, d):
    oracle = oracles.OUE(epsilon=1.0, d=d)
    counts = 30_000 + np.random.default_rng(d).integers(0, 20_000, (2, d))
    stack = oracle.estimate(counts, 100_000)
    first, second = stack[0], stack[1]
    problem = Problem(loss, SIMPLEX)
    compiled = compiled_for(problem, first, "CLARABEL")
    problem.solve(second, path="conic")
    ours = compiled._program._data
    theirs, _, _ = cp.Problem(
        compiled._program.problem.objective, compiled._program.problem.constraints
    ).get_problem_data("CLARABEL")
    assert ours.units is None
    for name in ("A", "P"):
        if name in theirs:
            assert_allclose(ours._data[name].toarray(), theirs[name].toarray(), rtol=1e-14)
    for name in ("b", "c"):
        assert_allclose(ours._data[name], theirs[name], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("solver", ["CLARABEL", "QOCO", "OSQP", "PIQP", "HIGHS"])
def test_a_new_estimate_builds_no_matrix(solver, monkeypatch):
    problem = Problem(LeastSquares(), SIMPLEX)
    first = [0.5, 0.3, 0.25, -0.05]
    try:
        interface = type(compiled_for(problem, first, solver)._program._data.chain.solver)
    except InvalidInputError:
        pytest.skip(f"{solver} is not installed")

    def refuse(*_):
        raise AssertionError("cvxpy builds the solver's matrices again")

    monkeypatch.setattr(interface, "apply", refuse)
    point = problem.solve([0.1, 0.05, 0.6, 0.4], path="conic", solver=solver).frequencies
    assert_allclose(point, [0.0625, 0.0125, 0.5625, 0.3625], rtol=0, atol=1e-6)


def test_a_parameter_of_the_matrix_is_put_in_as_well():
    x = cp.Variable(2)
    weight = cp.Parameter(nonneg=True, value=1.0)
    program = ConeProgram(cp.sum_squares(x - np.array([1.0, 3.0])), [weight * x[1] <= x[0]])
    for value in (1.0, 2.0):
        weight.value = value
        # The projection of (1, 3) on {w x₁ <= x₀}.
        along = (value * 1 + 3) / (value**2 + 1)
        assert_allclose(program.solve().at(x), [value * along, along], rtol=0, atol=1e-7)


def test_the_compiled_rows_of_cones_are_in_the_solvers_order():
    x = cp.Variable(3)
    forms = [cp.norm(x) <= 2, cp.sum(cp.exp(x)) <= 4, x >= -1, cp.sum(x) == 0.5]
    problem = cp.Problem(cp.Minimize(cp.sum(x)), forms)
    ours = SolverData(problem, "CLARABEL")._data
    theirs, _, _ = cp.Problem(problem.objective, forms).get_problem_data("CLARABEL")
    assert_array_equal(ours["A"].toarray(), theirs["A"].toarray())
    assert_array_equal(ours["b"], theirs["b"])


@pytest.mark.parametrize("solver", ["CLARABEL", "OSQP", "SCS"])
def test_numbers_without_parameters_are_those_of_cvxpy(solver):
    """Read from the only column of cvxpy's map, in place of applying the map."""
    x = cp.Variable(4)
    objective = cp.sum_squares(3 * x - np.arange(4.0)) + cp.sum(x) + 2.5
    rows = [x >= np.arange(4.0) / 7, cp.sum(x) == 1, cp.max(x) <= 0.8]
    if solver != "OSQP":
        rows.append(cp.norm(x[:2]) <= 0.7)
    problem = cp.Problem(cp.Minimize(objective), rows)
    ours = SolverData(problem, solver)._data
    theirs = problem.get_problem_data(solver)[0]
    compared = 0
    for name, numbers in theirs.items():
        if sparse.issparse(numbers):
            assert_array_equal(ours[name].toarray(), numbers.toarray())
            compared += 1
        elif isinstance(numbers, np.ndarray):
            assert_array_equal(ours[name], numbers)
            compared += 1
    # Of P, c, A and b all that the solver takes.
    assert compared >= 3


# --- small frequencies ----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(9))
def test_prices_on_small_frequencies_are_certified_in_their_own_units(seed):
    rng = np.random.default_rng(seed)
    point = 1e-6 * rng.dirichlet(np.ones(8))
    smooth = Smooth(total_variation=1.5 * float(np.abs(np.diff(point)).sum()))
    loss = LeastSquares() + 1e-8 * L1To(point)
    problem = Problem(loss, [SumsTo(float(point.sum())), smooth])
    assert problem.solve(point + rng.normal(0, 5e-6, 8)).status is Status.OPTIMAL


@pytest.mark.parametrize("seed", range(4))
def test_a_minimum_at_0_is_certified_in_the_units_of_the_estimate(seed):
    raw = 4e-4 * np.random.default_rng(seed).random(5)
    # So high a price holds both groups at 0.
    loss = LeastSquares() + 2e-3 * GroupNorm([[0, 1], [2, 3, 4]])
    solution = Problem(loss, [TopSet([int(raw.argmax())])]).solve(raw)
    assert np.max(np.abs(solution.frequencies)) < 1e-9
    assert solution.status is Status.OPTIMAL


PUSHED_TO_0 = {
    "smooth": losses.Custom(lambda f, y: cp.sum(cp.logistic(3 * (f - y)))),
    "straight": losses.Custom(lambda f, y: cp.sum(cp.pos(cp.abs(f - y) - 0.01)) + 5 * cp.sum(f)),
    "largest deviation": losses.MaxAbsolute() + 5 * L1To(np.zeros(4)),
}


@pytest.mark.parametrize("name", PUSHED_TO_0)
def test_values_that_bounds_hold_at_0_say_nothing_about_the_unit_of_a_loss(name):
    """A solver ends beside 0, where the loss is made of an estimate near 1."""
    problem = Problem(PUSHED_TO_0[name], [NonNegative(), Linear(np.ones(4), -np.inf, 1.0)])
    for size in (1e-14, 1e-12, 1e-11):
        certificate = certify(problem, [0.63, 0.21, 0.09, 0.21], np.full(4, size))
        assert certificate.is_optimal(1e-8, relative=True), size
    beside = certify(problem, [0.63, 0.21, 0.09, 0.21], np.full(4, 1e-6))
    assert not beside.is_optimal(1e-8, relative=True)


def test_what_steep_rows_are_compared_with_says_nothing_about_units():
    rng = np.random.default_rng(1)
    point = 3e-4 * rng.dirichlet(np.ones(8))
    steep = 30 * rng.normal(size=(1, 8))
    row = Linear(steep, -np.inf, steep @ point)
    loss = LeastSquares() + 1e-4 * L1To(point)
    stack = conic._Stack.of(
        Formulation(loss, (row,)), FrequencyEstimate(point), "CLARABEL", {}, {}, COLD
    )
    assert stack.unit == 2.0 ** np.round(np.log2(point.max()))


def test_a_point_that_the_usual_tolerances_leave_too_far_gets_tighter_ones():
    rng = np.random.default_rng(3)
    point = 0.15 * rng.dirichlet(np.ones(24))
    raw = point + rng.normal(0, 0.05, 24)
    loss = LeastSquares() + 1e-4 * KLTo(0.15 * rng.dirichlet(np.full(24, 2.0)))
    smooth = Smooth(total_variation=float(np.abs(np.diff(point)).sum()))
    problem = Problem(loss, [smooth])
    with pytest.warns(LdpoptWarning, match="inaccurate"):
        named = problem.solve(raw, solver="CLARABEL")
    assert named.status is Status.INACCURATE
    solution = problem.solve(raw)
    assert solution.status is Status.OPTIMAL
    # By the same solver: no other one is named.
    assert solution.solver == "CLARABEL"


# --- own curved sets in any unit ------------------------------------------------------------------

# By the total t, and by how much a form is multiplied where its frequencies are.
CURVED = {
    "norm": (lambda f, t: cp.norm(f - t / 7), lambda t: 0.2 * t),
    "absolute": (lambda f, t: cp.norm1(f - t / 7), lambda t: 0.4 * t),
    "squares": (lambda f, t: cp.sum_squares(f - t / 7), lambda t: 0.04 * t**2),
    "square of each": (lambda f, t: cp.sum((f - t / 7) ** 2), lambda t: 0.04 * t**2),
    "fourth powers": (lambda f, t: cp.sum((f - t / 7) ** 4), lambda t: 1e-3 * t**4),
    "squares over the total": (lambda f, t: cp.quad_over_lin(f - t / 7, t), lambda t: 0.04 * t),
    "squares over a value": (lambda f, t: cp.quad_over_lin(f[:3], f[3]), lambda t: 2.0 * t),
    "powers of shares": (
        lambda f, t: cp.sum(cp.abs(7 * f / t - 1) ** 1.5),
        lambda t: 2.0,
    ),
    "squares of shares": (lambda f, t: cp.sum_squares(7 * f / t - 1), lambda t: 2.0),
    "square of each share": (lambda f, t: cp.sum((7 * f / t - 1) ** 2), lambda t: 2.0),
    "inverse shares": (lambda f, t: cp.sum(cp.inv_pos(f / t + 0.05)), lambda t: 60.0),
    "largest square of shares": (lambda f, t: cp.max(cp.square(f / t - 1 / 7)), lambda t: 0.02),
}


@pytest.mark.parametrize("name", CURVED)
def test_own_curved_sets_have_the_same_answers_in_any_unit(name):
    raw = np.array([0.5, 0.3, 0.2, 0.1, -0.05, -0.05, 0.0])
    build, bound = CURVED[name]
    answers = []
    # Violations count in the function's own unit: small fourth powers are below all tolerances.
    exponents = (0, 5, 10, 20) if name == "fourth powers" else (0, -10, -20, 20)
    for exponent in exponents:
        t = 2.0**exponent
        ball = Custom(lambda f, t=t: [build(f, t) <= bound(t)])
        problem = Problem(LeastSquares(), [NonNegative(), SumsTo(t), ball])
        solution = problem.solve(t * raw)
        assert solution.status is Status.OPTIMAL
        assert solution.certificate.is_optimal(1e-8, relative=True)
        answers.append(solution.frequencies / t)
    assert_allclose(answers, np.tile(answers[0], (len(answers), 1)), atol=SOLVER["CLARABEL"])


@pytest.mark.parametrize("part", [0.25, 0.5, 0.8])
def test_squares_over_a_frequency_are_certified_among_many_values(part):
    z = 1 / np.arange(1.0, 1025.0) ** 1.5
    z /= z.sum()
    raw = z + 0.01 * np.random.default_rng(1).standard_normal(1024)
    bound = part * float(z[:8] @ z[:8] / z[8])
    quotient = Custom(lambda f: [cp.quad_over_lin(f[:8], f[8]) <= bound])
    solution = Problem(LeastSquares(), [NonNegative(), SumsTo(1.0), quotient]).solve(raw)
    assert solution.status is Status.OPTIMAL
    assert solution.certificate.is_optimal(1e-8, relative=True)
    f = solution.frequencies
    assert f[:8] @ f[:8] / f[8] == pytest.approx(bound, rel=1e-6)


@pytest.mark.parametrize("t", [2.0**-12, 2.0**12])
def test_own_curved_sets_with_parameters_have_the_same_answers_in_any_unit(t):
    centre = cp.Parameter(2)
    ball = Custom(lambda f: [cp.sum(cp.power((f - centre) / t, 4)) <= 2 * 0.1**4])
    problem = Problem(LeastSquares(), [NonNegative(), SumsTo(t), ball])
    for share in (0.5, 0.25):
        centre.value = t * np.array([share, 1 - share])
        solution = problem.solve(t * np.array([0.9, 0.1]))
        assert solution.status is Status.OPTIMAL
        # On the line of two values with this total the ball has an end at the share + 0.1.
        expected = [share + 0.1, 0.9 - share]
        assert_allclose(solution.frequencies / t, expected, atol=SOLVER["CLARABEL"])


def test_the_divisor_of_squares_may_be_a_parameter():
    divisor = cp.Parameter(pos=True)
    ball = Custom(lambda f: [cp.quad_over_lin(f - 0.25, divisor) <= 0.02])
    problem = Problem(LeastSquares(), [*SIMPLEX, ball])
    for value in (2.0, 0.5):
        divisor.value = value
        solution = problem.solve([0.7, 0.3, 0.1, -0.1])
        assert solution.status is Status.OPTIMAL
        length = np.sum((solution.frequencies - 0.25) ** 2)
        assert_allclose(length, 0.02 * value, atol=SOLVER["CLARABEL"])


@pytest.mark.parametrize("divisor", [2.0, np.array([2.0]), np.array([[2.0]])])
def test_the_divisor_of_squares_may_be_an_array_of_one_number(divisor):
    ball = Custom(lambda f: [cp.quad_over_lin(f - 0.25, divisor) <= 0.01])
    solution = Problem(LeastSquares(), [*SIMPLEX, ball]).solve([0.7, 0.3, 0.1, -0.1])
    assert solution.status is Status.OPTIMAL
    length = np.sum((solution.frequencies - 0.25) ** 2)
    assert_allclose(length, 0.02, atol=SOLVER["CLARABEL"])


@pytest.mark.parametrize("exponent", [-10, -20, 10, 20])
def test_own_losses_of_shares_have_the_same_answers_in_any_unit(exponent):
    t = 2.0**exponent
    raw = np.array([0.5, 0.3, 0.2, 0.1, -0.05, -0.05, 0.0])
    powers = losses.Custom(lambda f, y: cp.sum(cp.power(cp.abs((f - y) / t), 3)))
    solution = Problem(powers, [NonNegative(), SumsTo(t)]).solve(t * raw)
    assert solution.status is Status.OPTIMAL
    # The four values that stay are each as far from their estimates.
    assert_allclose(solution.frequencies / t, [0.475, 0.275, 0.175, 0.075, 0, 0, 0], atol=2e-4)


@pytest.mark.parametrize(("exponent", "size"), [(60, 2.0**20), (60, 2.0**-20), (52, 2.0**20)])
def test_a_unit_whose_power_is_no_number_is_left_out(exponent, size):
    f = cp.Variable(3)
    stated = cp.sum(cp.power(f, exponent)) <= 1
    assert with_squares_in_units([stated], f, size) == [stated]


@pytest.mark.parametrize("size", [2.0**-12, 1.0, 2.0**12])
def test_squares_in_units_are_the_same_to_the_last_bit(size):
    x = cp.Variable(3)
    f = 4 * x
    y = size * np.array([0.5, 0.1, -0.3])
    weight = cp.Parameter(nonneg=True)
    forms = [
        cp.sum_squares(f - y) <= 2,
        cp.sum((f - y) ** 4) + cp.quad_over_lin(f, 0.5) <= 3,
        cp.sum_squares(64 * f / size - 1) <= 3,
        cp.sum_squares(f - weight) <= 4,
    ]
    plain = [cp.norm(f - y) <= 2, cp.sum(f) == 1, cp.sum(cp.abs(f) ** 1.5) <= 2]
    plain.append(cp.norm(f) <= cp.Constant(7) ** 2)
    scaled = with_squares_in_units((*forms, *plain), f, size)
    assert x.value is None
    weight.value = 0.5 * size
    x.value = size * np.array([0.3, 0.2, 0.7]) / 4
    for before, after in zip(forms, scaled, strict=False):
        assert after.args[0].value == before.args[0].value
        (power,) = [part for part in nodes_of(after) if type(part).__name__ == "quad_over_lin"][:1]
        # The unit of each is near it: of shares too, whatever the frequencies are.
        assert 0.3 <= np.abs(power.args[0].value).max() <= 3
    # What has no whole power, or is homogeneous, stays the same object.
    assert all(after is before for before, after in zip(plain, scaled[4:], strict=True))


def nodes_of(node):
    return [node, *(part for argument in node.args for part in nodes_of(argument))]


@pytest.mark.parametrize(
    ("constraints", "size"),
    [
        ([SumsTo(1e-3), NonNegative()], 1e-3),
        # A constraint that states no numbers of frequencies counts as 1, unless none exceeds a
        # total.
        ([SumsTo(1e-3), NonNegative(), Custom(lambda f: [cp.norm(f) <= 1])], 1e-3),
        ([SumsTo(1e-3), Custom(lambda f: [cp.norm(f) <= 1])], 1.0),
        ([NonNegative(), Custom(lambda f: [cp.norm(f) <= 1])], 1.0),
    ],
)
def test_the_size_of_a_set_is_the_largest_number_that_it_states(constraints, size):
    stated = Problem(LeastSquares(), constraints).at(np.zeros(3))
    assert stated_size(stated.constraints, 3) == size


@pytest.mark.parametrize(
    ("constraints", "size"),
    [
        (SIMPLEX, 1 / 64),
        ([SumsTo(-192.0)], 2.0),
        ([NonNegative()], 2.0**-4),
        ([SumsTo(0.0)], 2.0**-4),
    ],
)
def test_usual_frequencies_are_a_part_of_the_total(constraints, size):
    assert Problem(LeastSquares(), constraints).usual_size(64, 4.5) == size


def test_few_small_values_have_a_unit_of_their_own():
    # Of seven values 2⁻⁴ is below 2⁻¹/d; of ten it is a usual frequency.
    assert (unit_of_size(2.0**-4, 7), unit_of_size(1.5 * 2.0**-10, 7)) == (2.0**-4, 2.0**-10)
    assert (unit_of_size(2.0**-4, 10), unit_of_size(0.0, 7), unit_of_size(0.5, 7)) == (1, 1, 1)


@pytest.mark.parametrize("exponent", [-154, -157, -160])
def test_totals_whose_squares_vanish_are_no_error(exponent):
    total = 10.0**exponent
    problem = Problem(losses.LeastSquares(), [NonNegative(), SumsTo(total)])
    with warnings.catch_warnings():
        # Squares of such numbers are none: the status may say so.
        warnings.simplefilter("ignore", LdpoptWarning)
        solution = problem.solve([0.5 * total, 0.3 * total, 0.25 * total])
    assert np.isfinite(solution.frequencies).all()
    assert_allclose(solution.frequencies.sum(), total, rtol=1e-12)


@pytest.mark.parametrize("unit", [1e-5, 1e-4, 2e-4, 1e-3, 1.0])
def test_a_price_on_a_norm_beside_loose_bounds_is_certified_in_any_unit(unit):
    """The largest number is a bound: solvers see the squares of frequencies a tenth as large."""
    rng = np.random.default_rng(2)
    raw = np.where(np.arange(12) % 3, 1.2, 0.0) + 5e-4 * rng.standard_normal(12)
    loss = LeastSquares() + 0.0086 * unit * GroupNorm([[1, 4, 6, 9, 11]])
    upper = np.where(np.arange(12) % 2, np.inf, 15.0) * unit
    solution = Problem(loss, [Bounds(upper=upper), NonNegative()]).solve(unit * raw)
    assert solution.status is Status.OPTIMAL

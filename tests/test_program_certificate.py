"""Certificates of any convex program: bounds hold for all multipliers, and close for good ones.

Every problem here has a minimum that is known in closed form, computed with 40 digits from the
doubles that state it; their compiled forms hold the same doubles.
"""

from fractions import Fraction
from functools import cache
from types import SimpleNamespace
from typing import NamedTuple

import clarabel
import cvxpy as cp
import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from ldpopt import FrequencyEstimate, certify
from ldpopt.errors import InvalidInputError, InvalidTypeError, UnsupportedProblemError
from ldpopt.solve.certificate.bounds import exact_sums
from ldpopt.solve.certificate.bounds.exact_sums import column_totals, product_totals
from ldpopt.solve.certificate.bounds.intervals import Box, Empty
from ldpopt.solve.certificate.cones import convex_program, multipliers
from ldpopt.solve.certificate.cones.compiled_problem import compiled_problem, compiled_set
from ldpopt.solve.certificate.cones.cone_gap import ConeSet
from ldpopt.solve.certificate.cones.cone_ranges import contract
from ldpopt.solve.certificate.cones.conic_program import ConicProgram, Multipliers, Rise
from ldpopt.solve.certificate.cones.convex_program import certify_program
from ldpopt.solve.certificate.cones.dual_cones import (
    Cones,
    project,
    surely_positive,
    triangle_to_matrix,
)
from ldpopt.solve.certificate.cones.open_variables import ranges_below
from ldpopt.solve.certificate.cones.ranges import Cut, _System, propagate
from tests.tolerances import CERTIFIED

DIGITS = 40
exact = mpmath.mpf


class Known(NamedTuple):
    """A problem, its only variable, its solution, and the optimal value with 40 digits."""

    problem: cp.Problem
    variable: cp.Variable
    solution: np.ndarray
    optimum: mpmath.mpf


def dyadic(generator, size, low=-4.0, high=4.0):
    """Return random numbers with few bits, so that sums of them are exact."""
    return np.round(generator.uniform(low, high, size) * 256) / 256


def linear_on_simplex(generator, n):
    x = cp.Variable(n)
    cost = dyadic(generator, n)
    problem = cp.Problem(cp.Minimize(cost @ x), [x >= 0, cp.sum(x) == 1])
    return Known(problem, x, np.eye(n)[np.argmin(cost)], exact(cost.min()))


def linear_on_box(generator, n):
    x = cp.Variable(n, bounds=[-1.0, 2.0])
    gain = dyadic(generator, n)
    solution = np.where(gain > 0, 2.0, -1.0)
    return Known(cp.Problem(cp.Maximize(gain @ x)), x, solution, exact(float(gain @ solution)))


def nearest_in_box(generator, n):
    x = cp.Variable(n)
    centre = dyadic(generator, n)
    solution = np.clip(centre, -1.0, 1.0)
    optimum = exact(float(np.sum((solution - centre) ** 2)))
    return Known(
        cp.Problem(cp.Minimize(cp.sum_squares(x - centre)), [cp.abs(x) <= 1]), x, solution, optimum
    )


def least_absolute(generator, n):
    x = cp.Variable(n)
    centre = dyadic(generator, n)
    optimum = exact(float(np.sum(np.maximum(np.abs(centre) - 1, 0))))
    problem = cp.Problem(cp.Minimize(cp.norm1(x - centre)), [cp.norm_inf(x) <= 1])
    return Known(problem, x, np.clip(centre, -1.0, 1.0), optimum)


def linear_on_ball(generator, n, squared=False):
    x = cp.Variable(n)
    cost = dyadic(generator, n)
    centre = dyadic(generator, n)
    cost[0] += 16
    length = mpmath.sqrt(sum(exact(c) ** 2 for c in cost))
    optimum = sum(exact(c) * exact(a) for c, a in zip(cost, centre, strict=True)) - 2 * length
    # The same set in a plain cone and in a rotated one.
    plain = cp.norm(x - centre) <= 2
    ball = cp.sum_squares(x - centre) <= 4 if squared else plain
    problem = cp.Problem(cp.Minimize(cost @ x), [ball])
    return Known(problem, x, centre - 2 * cost / float(length), optimum)


def linear_on_squares(generator, n):
    return linear_on_ball(generator, n, squared=True)


def distance_to_plane(generator, n):
    x = cp.Variable(n)
    centre = dyadic(generator, n)
    excess = float(centre.sum()) - 40
    problem = cp.Problem(cp.Minimize(cp.norm(x - centre)), [cp.sum(x) == 40])
    return Known(problem, x, centre - excess / n, abs(exact(excess)) / mpmath.sqrt(n))


def most_entropy(generator, n):
    x = cp.Variable(n)
    gain = dyadic(generator, n)
    weights = [mpmath.exp(exact(g)) for g in gain]
    total = sum(weights)
    solution = np.array([float(w / total) for w in weights])
    problem = cp.Problem(cp.Maximize(cp.sum(cp.entr(x)) + gain @ x), [cp.sum(x) == 1])
    return Known(problem, x, solution, mpmath.log(total))


def exponentials(generator, n):
    x = cp.Variable(n)
    gain = dyadic(generator, n, 0.5, 8.0)
    optimum = sum(exact(g) - exact(g) * mpmath.log(exact(g)) for g in gain)
    problem = cp.Problem(cp.Minimize(cp.sum(cp.exp(x)) - gain @ x))
    return Known(problem, x, np.log(gain), optimum)


def weighted_logarithms(generator, n):
    x = cp.Variable(n)
    weights = dyadic(generator, n, 0.5, 8.0)
    total = exact(float(weights.sum()))
    optimum = -sum(exact(w) * mpmath.log(exact(w) / total) for w in weights)
    problem = cp.Problem(cp.Minimize(-weights @ cp.log(x)), [cp.sum(x) == 1])
    return Known(problem, x, weights / weights.sum(), optimum)


def smallest_eigenvalue(generator, n):
    order = min(n, 5)
    matrix = dyadic(generator, (order, order))
    matrix = matrix + matrix.T
    x = cp.Variable((order, order), symmetric=True)
    eigenvalues, vectors = mpmath.eigsy(mpmath.matrix(matrix.tolist()))
    first = min(range(order), key=lambda i: eigenvalues[i])
    vector = np.array([float(vectors[i, first]) for i in range(order)])
    problem = cp.Problem(cp.Minimize(cp.trace(matrix @ x)), [x >> 0, cp.trace(x) == 1])
    return Known(problem, x, np.outer(vector, vector), eigenvalues[first])


def fourth_powers(generator, n):
    x = cp.Variable(n)
    gain = dyadic(generator, n)
    roots = [mpmath.cbrt(exact(abs(g)) / 4) for g in gain]
    solution = np.sign(gain) * np.array([float(root) for root in roots])
    problem = cp.Problem(cp.Minimize(cp.sum(cp.power(x, 4)) - gain @ x))
    return Known(problem, x, solution, -3 * sum(root**4 for root in roots))


def geometric_mean(generator, n):
    x = cp.Variable(n)
    prices = dyadic(generator, n, 0.5, 8.0)
    amounts = [1 / (n * exact(price)) for price in prices]
    optimum = mpmath.exp(sum(mpmath.log(amount) for amount in amounts) / n)
    problem = cp.Problem(cp.Maximize(cp.geo_mean(x)), [prices @ x <= 1])
    return Known(problem, x, np.array([float(amount) for amount in amounts]), optimum)


def largest_determinant(generator, n):
    order = min(n, 4)
    x = cp.Variable((order, order), symmetric=True)
    prices = dyadic(generator, order, 0.5, 8.0)
    amounts = [1 / (order * exact(price)) for price in prices]
    optimum = sum(mpmath.log(amount) for amount in amounts)
    problem = cp.Problem(cp.Maximize(cp.log_det(x)), [cp.trace(np.diag(prices) @ x) <= 1])
    return Known(problem, x, np.diag([float(amount) for amount in amounts]), optimum)


FAMILIES = [
    linear_on_simplex,
    linear_on_box,
    nearest_in_box,
    least_absolute,
    linear_on_ball,
    distance_to_plane,
    most_entropy,
    exponentials,
    weighted_logarithms,
    smallest_eigenvalue,
    linear_on_squares,
    fourth_powers,
    geometric_mean,
    largest_determinant,
]


def generated(family, count, seed=0):
    """Yield problems of a family in several sizes."""
    generator = np.random.default_rng([seed, FAMILIES.index(family)])
    with mpmath.workdps(DIGITS):
        for _ in range(count):
            yield family(generator, int(generator.integers(2, 9)))


def rise_of(case, value):
    """Return how far a value is from the optimum, on the side that is worse."""
    with mpmath.workdps(DIGITS):
        distance = exact(value) - case.optimum
        return -distance if isinstance(case.problem.objective, cp.Maximize) else distance


@pytest.mark.parametrize("family", FAMILIES)
def test_solutions_are_certified(family):
    for case in generated(family, 3):
        certificate = certify_program(case.problem, {case.variable: case.solution})
        assert certificate.is_optimal(1e-8), certificate
        # The bound itself is on the right side of the optimum.
        assert rise_of(case, certificate.bound) <= 1e-13 * certificate.scale


@pytest.mark.parametrize("family", FAMILIES)
def test_other_points_are_never_certified(family):
    generator = np.random.default_rng(5)
    for case in generated(family, 2, seed=1):
        for size in (1e-6, 1e-3, 1.0):
            step = size * generator.normal(size=case.solution.shape)
            point = case.solution + step * (1 + np.abs(case.solution)) / 2
            if case.solution.ndim == 2:
                point = (point + point.T) / 2
            certificate = certify_program(case.problem, {case.variable: point})
            if certificate.gap == np.inf:
                assert certificate.reason
                continue
            # What is far from the minimum says so.
            assert bool(certificate.reason) == (certificate.gap > 1e-8 * certificate.scale)
            assert certificate.gap >= rise_of(case, certificate.value) - 1e-13 * certificate.scale


def planted(generator, z):
    """Yield multipliers that nobody should believe, some of them near the right ones."""
    yield np.zeros_like(z)
    yield -z
    yield z * 1e3
    yield np.where(generator.random(len(z)) < 0.3, 0.0, z)
    yield np.where(generator.random(len(z)) < 0.1, np.nan, z)
    yield np.where(generator.random(len(z)) < 0.1, 1e300, z)
    for exponent in (-15, -9, -3, 0, 6):
        yield z + 10.0**exponent * generator.normal(size=len(z))


@pytest.mark.parametrize("family", FAMILIES)
def test_no_multipliers_prove_too_much(family):
    generator = np.random.default_rng(7)
    for case in generated(family, 1, seed=2):
        compiled = compiled_problem(case.problem)
        program = compiled.program
        offset = compiled.offset
        sign = -1 if isinstance(case.problem.objective, cp.Maximize) else 1
        size = len(program.linear)
        solved = program.solve(1e-12)
        value = program.value(solved.x)[0]
        box = ranges_below(program, value, 1 + abs(value))
        assert np.isfinite([box.lower, box.upper]).all()
        for z in planted(generator, solved.z):
            x = np.clip(solved.x + generator.normal(size=size) * 1e-6, box.lower, box.upper)
            bound = program.value(x)[0] - program.rise(Multipliers(x, z), box).value
            scale = 1 + abs(value) + abs(offset)
            assert rise_of(case, sign * (bound + offset)) <= 1e-15 * scale
        x = np.clip(solved.x, box.lower, box.upper)
        good = program.value(x)[0] - program.rise(solved._replace(x=x), box).value
        assert good >= value - 1e-8 * (1 + abs(value))


ALL_CONES = Cones(2, 3, (4, 2), (3,), 2, ((0.25, 0.75), (0.5, 0.25, 0.25)))


def test_the_rows_of_cones_are_numbered_once_per_program(monkeypatch):
    numbered = []
    sizes = Cones.sizes.fget
    monkeypatch.setattr(Cones, "sizes", property(lambda self: numbered.append(1) or sizes(self)))
    cones = Cones(0, 0, exponential=5)
    for _ in range(3):
        project(np.ones(15), cones)
        contract(cones, np.zeros(15), np.ones(15))
    # Once for the numbers; ``project`` compares the number of rows each time.
    assert len(numbered) == 4


def in_cones(generator, cones):
    """Return a random point of the cones, on their boundary half the time."""
    s = np.zeros(cones.rows)
    s[cones.zero : cones.soc_start] = generator.exponential(size=cones.nonneg)
    inner = float(generator.integers(2))
    for kind, parameter, rows in cones.groups:
        for block in rows:
            free = generator.normal(size=len(block))
            if kind == "soc":
                free[0] = np.linalg.norm(free[1:]) + inner
            elif kind == "psd":
                factor = generator.normal(size=(parameter, 1 + int(inner) * parameter))
                matrix = factor @ factor.T
                columns, lines = np.tril_indices(parameter)
                free = np.where(lines == columns, 1, np.sqrt(2)) * matrix[lines, columns]
            elif kind == "exp":
                free[1] = 0.1 + abs(free[1])
                free[2] = free[1] * np.exp(free[0] / free[1]) + inner
            else:
                free[:-1] = np.abs(free[:-1])
                free[-1] = np.sign(free[-1]) * np.prod(free[:-1] ** np.array(parameter))
            s[block] = free
    return s


def test_a_printed_certificate_has_short_numbers_and_its_reason():
    x = cp.Variable(2)
    certificate = certify(cp.Problem(cp.Minimize(cp.sum_squares(x - 1)), [x >= 0]), [1 / 3, 0.0])
    assert repr(certificate).startswith("ProgramCertificate(gap=1.44, violation=0, value=1.44, ")
    assert certificate.reason in repr(certificate)
    assert type(certificate.gap) is type(certificate.bound) is float


def test_a_point_beyond_the_doubles_is_no_number():
    x = cp.Variable(2)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(x)), [x >= 0])
    with pytest.raises(InvalidTypeError, match=r"the value of variable .* must be numbers"):
        certify(problem, [10**400, 0])


def test_projections_are_in_the_dual_cones():
    generator = np.random.default_rng(3)
    for _ in range(60):
        size = 10.0 ** generator.integers(-6, 7)
        z = project(size * generator.normal(size=ALL_CONES.rows), ALL_CONES)
        assert np.array_equal(project(z, ALL_CONES)[:9], z[:9])
        for _ in range(20):
            s = in_cones(generator, ALL_CONES)
            assert z @ s >= -1e-13 * (np.abs(z) @ np.abs(s))


def test_projections_of_multipliers_at_the_edge():
    # On the boundary itself, and where exponentials overflow or vanish.
    rows = Cones(0, 0, (3,), (), 1)
    assert project(np.array([5.0, 3.0, 4.0, -1.0, 1.0, 1.0]), rows)[0] >= 5
    for u, v, w in [(-1e-200, -5.0, 1.0), (-1.0, 900.0, 0.0), (-3.0, -1e5, 2.0), (2.0, -1.0, -1.0)]:
        z = project(np.array([0.0, 0.0, 0.0, u, v, w]), rows)[3:]
        assert np.isfinite(z).all()
        assert z[0] <= 0
        with mpmath.workdps(DIGITS):
            first, second, third = map(exact, z)
            if first == 0:
                assert min(second, third) >= 0
            else:
                assert -first * mpmath.exp(second / first - 1) <= third


def test_positive_definiteness_is_not_claimed_at_the_edge():
    assert surely_positive(np.eye(3))
    assert not surely_positive(np.ones((3, 3)))
    assert not surely_positive(np.diag([1.0, 1.0, -1e-9]))
    raised = project(np.array([1.0, np.sqrt(2), 1.0]), Cones(0, 0, (), (2,)))
    assert np.linalg.eigvalsh(triangle_to_matrix(raised, 2))[0] > 0
    # Numbers near the ends of the doubles end somewhere inside too.
    wild = np.array([1.0, 1e300, -1.0, -1e300, 1e-300, 1e308])
    inside = triangle_to_matrix(project(wild, Cones(0, 0, (), (3,))), 3)
    assert np.linalg.eigvalsh(inside / max(1.0, np.abs(inside).max()))[0] >= -1e-15


@pytest.fixture(params=["as lists", "as arrays"])
def either_way(request, monkeypatch):
    """Let the sums of columns be those of a few products, or of many."""
    monkeypatch.setattr(exact_sums, "_FEW", 1 << 20 if request.param == "as lists" else 0)


def test_sums_are_rounded_once(either_way):
    big = np.array([1e16, 1.0, -1e16])
    value, error = product_totals(big, np.ones(3))
    assert value == 1.0
    assert error < 1e-15
    values, errors = column_totals(sparse.csc_array(big[:, None]), np.full(3, 1 / 3), np.zeros(1))
    assert values[0] == 1 / 3
    assert errors[0] < 1e-15
    assert np.isnan(product_totals(np.array([1e300]), np.array([1e300]))[0])


def test_rows_whose_sums_are_exact_and_shorter_are_added():
    matrix = np.array(
        [
            [1.0, -1.0, 0.0],
            [1.0, 1.0, 0.0],  # its sum with the row above is 2x
            [0.1, 0.0, -1.0],
            [0.1, 0.0, 1.0],
            [1.0, 0.0, 0.5],  # s₀ and s₁ of a cone: the sum and the difference
            [1.0, 0.0, -0.5],
            [0.0, 3.0, 0.0],
            [0.1, 1.0, 0.0],  # of another cone, where 0.1 + 0.3 is rounded
            [0.3, -1.0, 0.0],
        ]
    )
    right = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0])
    csr = sparse.csr_array(matrix)
    rows = _System(csr, right, Cones(zero=0, nonneg=4, soc=(3, 2))).rows
    added = [[2.0, 0.0, 0.0], [0.2, 0.0, 0.0], [2.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    dense = np.zeros((len(rows.right), 3))
    dense[rows.entries.rows, rows.entries.columns] = rows.entries.data
    assert dense.tolist() == [*matrix.tolist(), *added]
    assert rows.right.tolist() == [*right, 3.0, 7.0, 11.0, -1.0]
    assert rows.entries.data.all()


def test_ranges_contain_feasible_points():
    generator = np.random.default_rng(11)
    x = cp.Variable(4)
    sets = [
        [cp.norm(x) <= 1, cp.sum(x) == 0.5],
        [cp.norm1(x) <= 1],
        [cp.sum(cp.kl_div(x, 0.25)) <= 0.3, cp.sum(x) == 1],
        [cp.sum(cp.exp(x)) <= 5, x >= -2],
        [cp.geo_mean(x) >= 0.2, cp.sum(x) <= 1.5],
        [cp.sum_squares(x - [0.1, 0.2, 0.3, 0.4]) <= 0.01],
        [cp.quad_over_lin(x[:2], x[2]) <= x[3], cp.sum(x) <= 2],
        [cp.power(x, 4) <= 2],
        [cp.bmat([[x[0], x[1]], [x[1], x[2]]]) >> 0, cp.sum(x) == 1, cp.abs(x[3]) <= 1, x[2] <= 2],
    ]
    for forms in sets:
        cost = generator.normal(size=4)
        data, *_ = cp.Problem(cp.Minimize(cost @ x), forms).get_problem_data("CLARABEL")
        program = ConicProgram.of(data)
        free = Box(np.full(len(program.linear), -np.inf), np.full(len(program.linear), np.inf))
        box = propagate(program.matrix, program.right, program.cones, free)
        for _ in range(5):
            linear = np.zeros(len(program.linear))
            linear[data["param_prob"].var_id_to_col[x.id] + np.arange(4)] = generator.normal(size=4)
            point = ConicProgram(None, linear, program.matrix, program.right, program.cones)
            inside = point.solve(1e-9).x
            assert (inside >= box.lower - 1e-7).all()
            assert (inside <= box.upper + 1e-7).all()


def random_program(generator):
    """Return a program of all cones with pairs of rows in which entries cancel, and a point."""
    cones = Cones(1, 4, (3, 5, 2), (2,), 1, ((0.5, 0.5),))
    variables = 5
    matrix = generator.choice([-2.0, -1.0, 0.0, 0.0, 1.0], size=(cones.rows, variables))
    # |y| <= t, and the sum and the difference at the head of rotated cones.
    matrix[2, :-1] = -matrix[1, :-1]
    matrix[2, -1] = matrix[1, -1]
    for start in (cones.soc_start, cones.soc_start + 3):
        matrix[start + 1] = matrix[start] * generator.choice([-1.0, 1.0], size=variables)
    x = np.round(generator.normal(size=variables) * 4) / 4
    right = matrix @ x + in_cones(generator, cones)
    return sparse.csc_array(matrix), right, cones, x


def test_ranges_never_lose_a_feasible_point():
    generator = np.random.default_rng(19)
    for _ in range(150):
        matrix, right, cones, x = random_program(generator)
        is_bounded = generator.random(len(x)) < 0.5
        box = Box(
            np.where(is_bounded, x - generator.exponential(size=len(x)), -np.inf),
            np.where(is_bounded, x + generator.exponential(size=len(x)), np.inf),
        )
        slope = generator.normal(size=len(x))
        curvature = generator.choice([0.0, 1.0], size=len(x))
        if generator.random() < 0.5:
            # The lowest point of a bowl: a level there cuts all others off.
            slope = -curvature * x
        level = float(slope @ x + curvature @ x**2 / 2 + generator.choice([0.0, 1e-9, 1.0]))
        ranges = propagate(matrix, right, cones, box, Cut(slope, curvature, level))
        # The point is feasible up to the rounding of its right side.
        rounding = 1e-14 * (1 + np.abs(x))
        assert (x >= ranges.lower - rounding).all()
        assert (x <= ranges.upper + rounding).all()


def test_ranges_of_nothing():
    x = cp.Variable(2)
    data, *_ = cp.Problem(cp.Minimize(x[0]), [x >= 1, cp.sum(x) <= 1]).get_problem_data("CLARABEL")
    program = ConicProgram.of(data)
    free = Box(np.full(2, -np.inf), np.full(2, np.inf))
    with pytest.raises(Empty):
        propagate(program.matrix, program.right, program.cones, free)


def test_ranges_of_what_is_tied_are_as_narrow_as_those_beside_it():
    """Two equations tie two free variables x and y to 0 <= t <= 1/2: x + y + t = 1, x - y = t."""
    x = cp.Variable(3)
    equations = [cp.sum(x) == 1, x[0] - x[1] == x[2], x[2] >= 0, x[2] <= 0.5]
    data, *_ = cp.Problem(cp.Minimize(x[0]), equations).get_problem_data("CLARABEL")
    program = ConicProgram.of(data)
    free = Box(np.full(3, -np.inf), np.full(3, np.inf))
    ranges = propagate(program.matrix, program.right, program.cones, free)
    # x = 1/2 and y = 1/2 - t, by the inverse of the equations: no range by range would say so.
    narrow = np.sort(ranges.upper - ranges.lower)
    assert_allclose(narrow, [0.5, 0.5, 0.5], atol=CERTIFIED)


@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9])
def test_grids_are_relative_to_the_largest_multiplier(size):
    z = size * np.array([1.0, -1 / 3, 1e-5, 0.0])
    point = Multipliers(np.zeros(4), z)
    for step in multipliers.GRIDS:
        error = np.abs(multipliers.on_grid(point, step).z - z)
        # The unit is the power of two above the largest.
        assert 0 < error.max() <= step * size


def test_the_multipliers_that_a_tighter_tolerance_gives_are_the_ones_polished(monkeypatch):
    polished = []
    monkeypatch.setattr(multipliers, "polished", lambda _, point, __: polished.append(point.z[0]))
    tries = iter([5.0, 3.0, 2.0])
    x = np.zeros(1)

    def solve(_):
        return Multipliers(x, np.array([next(tries)]))

    # The multiplier of x >= 0 that explains the slope 1 is 1.
    matrix = sparse.csc_array(np.array([[-1.0]]))
    cones = Cones(zero=0, nonneg=1)
    program = ConicProgram(None, np.ones(1), matrix, np.zeros(1), cones)
    multipliers.explaining(program, solve, Box(x, np.array([np.inf])))
    assert polished == [5.0, 3.0, 2.0]


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit])
def test_an_interruption_of_clarabel_is_none_of_its_failures(interruption, monkeypatch):
    s = cp.Variable(2)
    program = compiled_set(s, [s >= 0, cp.sum(s) == 1]).program

    def interrupted(*_):
        raise interruption

    monkeypatch.setattr(clarabel, "DefaultSolver", interrupted)
    with pytest.raises(interruption):
        program.solve(1e-9)


def test_a_value_that_can_only_be_one_number_has_no_part_in_what_a_solver_gets():
    s = cp.Variable(3)
    f = np.array([1e9, 0.25, 0.75])
    compiled = compiled_set(s, [cp.sum(s[1:]) == 1])
    held = ConeSet.of(compiled, s, np.array([1e9, 0, 0]), np.array([1e9, 1, 1]))
    tangent = held._tangent(np.ones(3), 0.0)
    solvable = held._solvable(tangent, f, np.full(3, 2.0))
    first = held.columns.start
    assert (solvable.linear[first], solvable.quadratic.diagonal()[first]) == (0.0, 0.0)
    assert solvable.quadratic.diagonal()[first + 1] == 2.0


STEEP = np.array([1e9, 1.0, 1.0, 1.0])
START = np.array([0.5, 0.6, 0.1, -0.2])


@pytest.mark.parametrize(
    ("f", "largest"), [([0.3, 0.4315, 0.1767, 0.0918], 0.0398), ([0.3, 0.6, 0.1, 0.0], 1e-9)]
)
def test_a_steep_coordinate_hides_nothing(f, largest):
    f = np.array(f)
    s = cp.Variable(4)
    forms = [s >= 0, cp.sum(s) == 1.0, s[0] == 0.3]
    gradient = STEEP * (f - START)
    error = np.abs(gradient) * 2.0**-52
    stated = ConeSet.of(compiled_set(s, forms), s, np.zeros(4), np.ones(4))
    gap = stated.gap(gradient, error, f, 1.0)
    best = np.array([0.3, 0.6, 0.1, 0.0])
    true = np.sum(STEEP * (f - best) * (f + best - 2 * START)) / 2
    assert true - 1e-15 <= gap.gap <= largest
    # Values come one per constraint, as cvxpy's own dual_value.
    assert set(gap.multipliers()) == {form.id for form in forms}


def test_of_a_value_that_is_held_the_modulus_may_be_infinite():
    s = cp.Variable(4)
    forms = [s >= 0, cp.sum(s) == 1.0, s[3] == 0.0]
    stated = ConeSet.of(compiled_set(s, forms), s, np.zeros(4), np.ones(4))
    f = np.array([0.5, 0.3, 0.2, 0.0])
    gradient = f - START
    best = np.append(START[:3] - 1 / 15, 0.0)
    true = np.sum((f - best) * (f + best - 2 * START)) / 2
    result = stated.gap(gradient, 1e-16, f, np.array([1.0, 1.0, 1.0, np.inf]))
    assert result.gap == pytest.approx(true, rel=1e-9)


def searched(monkeypatch, claimed, sufficient=0.0):
    """Return the tolerances and proofs of a search in which every try proves the same rise of 1."""
    monkeypatch.setattr(multipliers, "repaired", lambda *_: None)
    monkeypatch.setattr(multipliers, "polished", lambda *_: None)
    monkeypatch.setattr(multipliers, "_careful", lambda *_: [])
    tolerances = []
    proofs = []
    rise = Rise(1.0, np.zeros(1), np.zeros(1), np.zeros(0, dtype=np.int64))
    program = SimpleNamespace(rise=lambda *_: proofs.append(1) or rise)

    def solve(tolerance):
        tolerances.append(tolerance)
        return claimed

    box = Box(np.zeros(1), np.ones(1))
    best = multipliers.best(program, box, np.zeros(1), 1e-9, solve, sufficient)
    assert best.rise is rise
    return tolerances, proofs


@pytest.mark.parametrize(
    ("attained", "is_last", "tries"),
    [
        # A solver's point that is half as much better as what is proved leaves little to look for.
        (0.5, False, 1),
        (0.4, False, 3),
        # One that gave up has to be better by just what is proved: beyond it, it is out of the set.
        (1.0, True, 1),
        (0.5, True, 2),
        (1.1, True, 2),
    ],
)
def test_a_search_ends_where_a_solver_s_point_is_better_by_what_is_proved(
    attained, is_last, tries, monkeypatch
):
    claimed = Multipliers(np.zeros(1), np.zeros(1), is_last, attained)
    tolerances, proofs = searched(monkeypatch, claimed)
    assert len(tolerances) == tries
    # Simpler multipliers are a last resort.
    is_resort = tries > 1
    assert len(proofs) == tries + is_resort * (len(multipliers.GRIDS) + 1)


@pytest.mark.parametrize(
    ("attained", "missed", "tries"),
    [
        # The solver's own point is better by 0.75 of what is proved, for multipliers of size 1.
        (0.75, 0.0, 1),
        (0.75, 0.01, 1),
        # It misses the constraints by so much that it need not be better at all.
        (0.75, 0.1, 2),
        (0.25, 0.0, 4),
    ],
)
def test_a_rough_try_ends_the_search_where_its_point_is_better_in_any_case(
    attained, missed, tries, monkeypatch
):
    claimed = Multipliers(np.zeros(1), np.ones(1), False, attained, missed)
    tolerances, _ = searched(monkeypatch, claimed, sufficient=1e-6)
    assert len(tolerances) == tries


@pytest.mark.parametrize(
    ("sufficient", "is_last", "good", "steps"),
    [
        (1e-7, False, "solve 1e-09", ["solve 1e-09"]),
        (1e-7, False, "repaired", ["solve 1e-09", "repaired"]),
        # A polish takes about as long as a tighter tolerance.
        (1e-7, False, "solve 1e-12", ["solve 1e-09", "repaired", "solve 1e-12"]),
        # Which a solver that gave up does not reach.
        (1e-7, True, "polished", ["solve 1e-09", "repaired", "polished"]),
        (1e-6, False, "solve 1e-08", ["solve 1e-08"]),
        # Near the next tolerance the first one is left out.
        (5e-9, False, "solve 1e-12", ["solve 1e-12"]),
        (1e-12, False, "solve 1e-12", ["solve 1e-12", "repaired", "polished"]),
    ],
)
def test_what_costs_least_is_tried_first_where_little_is_sufficient(
    sufficient, is_last, good, steps, monkeypatch
):
    taken = []

    def step(name):
        taken.append(name)
        value = 0.5 if name == good else 2.0
        return Multipliers(np.zeros(1), np.array([value]), is_last)

    monkeypatch.setattr(multipliers, "repaired", lambda *_: step("repaired"))
    monkeypatch.setattr(multipliers, "polished", lambda *_: step("polished"))
    proofs = []

    def rise(point, *_):
        proofs.append(float(point.z[0]))
        return Rise(proofs[-1], np.zeros(1), np.zeros(1), np.zeros(0, dtype=np.int64))

    best = multipliers.best(
        SimpleNamespace(rise=rise),
        Box(np.zeros(1), np.ones(1)),
        np.zeros(1),
        1.0,
        lambda tolerance: step(f"solve {tolerance:.0e}"),
        sufficient,
    )
    assert best.rise.value == 0.5
    assert taken == steps
    # No multipliers are proved twice.
    assert len(proofs) == len(steps)


@pytest.mark.filterwarnings("ignore:pnorm with p=3 is being approximated")  # exactly
@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")  # the gap shows that it is not
@pytest.mark.parametrize(
    "build",
    [
        lambda s: [cp.norm(s[:3]) <= 5],
        lambda s: [cp.norm(s[:3]) <= 0.2],
        lambda s: [cp.sum(cp.kl_div(s, 1 / 6)) <= 0.05],
        lambda s: [cp.tv(s) <= 0.2],
        lambda s: [cp.pnorm(s - 1 / 6, 3) <= 0.1],
        lambda s: [cp.diag(s) + 0.02 >> 0.03 * np.eye(6)],
    ],
)
def test_gaps_on_cones_are_small_at_the_minimum(build):
    start = np.array([0.5, 0.3, 0.2, 0.1, -0.05, -0.05])
    s = cp.Variable(6)
    forms = [s >= 0, cp.sum(s) == 1, *build(s)]
    nearest = cp.Problem(cp.Minimize(cp.sum_squares(s - start)), forms)
    nearest.solve(solver="CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    f = s.value
    stated = ConeSet.of(compiled_set(s, forms), s, np.zeros(6), np.ones(6))
    result = stated.gap(f - start, 1e-16, f, 1.0)
    assert 0 <= result.gap <= 1e-9
    assert result.reason == ""


def test_gaps_without_bounds_say_why():
    s = cp.Variable(2)
    free = (np.full(2, -np.inf), np.full(2, np.inf))
    half = compiled_set(s, [s[0] + s[1] <= 1])
    result = ConeSet.of(half, s, *free).gap(np.array([1.0, 0.0]), 0.0, np.zeros(2), 0.0)
    assert result.gap == np.inf
    assert "frequency" in result.reason
    nothing = compiled_set(s, [s[0] >= 1, s[0] <= 0])
    empty = ConeSet.of(nothing, s, *free).gap(np.ones(2), 0.0, np.zeros(2), 0.0)
    assert "contradict" in empty.reason


def test_variables_that_go_on_for_ever_do_no_harm():
    matrix = np.array([[1.0, 2.0], [-1.5, 0.5], [0.25, -1.0]])
    x = cp.Variable(2)
    free = cp.Variable(2)
    above = cp.Variable()
    objectives = [
        cp.norm(x - 1),
        cp.sum_squares(matrix @ x - 1),
        cp.log_sum_exp(matrix @ x) + cp.norm(x),
        cp.dotsort(x - 1, np.array([0.0, 1.0])) + cp.norm1(x),
    ]
    for objective in objectives:
        problem = cp.Problem(cp.Minimize(objective + 1), [free >= x, cp.sum(cp.exp(x)) <= above])
        problem.solve(solver="CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
        certificate = certify_program(problem)
        assert certificate.is_optimal(), (objective, certificate)
        wrong = {x: x.value + 0.1, free: free.value + 0.1, above: above.value + 10}
        assert not certify_program(problem, wrong).is_optimal()


@pytest.mark.parametrize("matrix", [np.diag([1.0, -1e-11]), np.diag([1.0, -1.0])])
@pytest.mark.parametrize("is_turned", [False, True])
def test_a_saddle_is_no_minimum_whatever_cvxpy_believes(matrix, is_turned):
    turn = np.array([[0.6, 0.8], [-0.8, 0.6]]) if is_turned else np.eye(2)
    w = cp.Variable(2)
    form = cp.quad_form(w, cp.psd_wrap(turn @ matrix @ turn.T))
    saddle = cp.Problem(cp.Minimize(form), [w >= -1e6, w <= 1e6])
    certificate = certify_program(saddle, {w: [0.0, 0.0]})
    assert certificate.gap == np.inf
    assert "nothing proves a quadratic form" in certificate.reason
    assert not certificate.is_optimal(1.0)


@pytest.mark.parametrize("rank", [1, 3, 6])
def test_a_product_of_matrices_is_semidefinite_but_for_rounding(rank):
    rng = np.random.default_rng(rank)
    factor = rng.normal(size=(6, rank))
    w = cp.Variable(6)
    covariance = cp.psd_wrap(factor @ factor.T)
    problem = cp.Problem(cp.Minimize(cp.quad_form(w, covariance)), [w >= 0, cp.sum(w) == 1])
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    # Of rank 1 the minimum is nearly 0, and no gap is small beside it.
    assert certify_program(problem).gap < CERTIFIED


def test_refusals_say_why():
    x = cp.Variable(2, name="x")
    unbounded = certify_program(cp.Problem(cp.Minimize(x[0] - x[1])), {x: [0.0, 0.0]})
    assert unbounded.gap == np.inf
    assert "entry 0 of x" in unbounded.reason
    assert not unbounded.is_optimal(1.0)
    logarithm = certify_program(cp.Problem(cp.Maximize(cp.sum(cp.log(x)))), {x: [-1.0, 1.0]})
    assert "the objective is nan" in logarithm.reason
    third = certify_program(cp.Problem(cp.Minimize(cp.norm(x - 1, np.pi))), {x: [0.5, 1.0]})
    assert "approx=False" in third.reason


@pytest.mark.parametrize("exponent", [np.pi, 2.0001])
def test_powers_are_proved_with_the_exponent_that_is_stated(exponent):
    # On the line x + y = 1 powers of both are least where they are equal.
    x = cp.Variable(2, nonneg=True)
    problem = cp.Problem(cp.Minimize(cp.sum(cp.power(x, exponent))), [cp.sum(x) == 1])
    certificate = certify_program(problem, {x: [0.5, 0.5]})
    assert certificate.is_optimal()
    assert certificate.bound == pytest.approx(2 * 0.5**exponent, rel=1e-8)
    assert not certify_program(problem, {x: [0.51, 0.49]}).is_optimal()


HIGHEST = cp.Parameter(nonneg=True, value=2.0)


@pytest.mark.parametrize(
    ("attributes", "inside", "outside", "distance"),
    [
        ({"nonneg": True, "bounds": [0, 2]}, [[1, 0], [0, 1]], [[1, -5], [0, 1]], 5.0),
        ({"PSD": True, "nonneg": True}, [[1, 0], [0, 1]], [[1, -3], [-3, 9]], 3.0),
        ({"symmetric": True, "nonneg": True}, [[1, 0], [0, 1]], [[1, 2], [0, 1]], 1.0),
        ({"bounds": [0, HIGHEST]}, [[1, 0], [0, 2]], [[1, 0], [0, 3]], 1.0),
        ({"diag": True}, [[1, 0], [0, 1]], [[1, 4], [0, 1]], 4.0),
    ],
)
def test_a_point_outside_an_attribute_of_its_variable_violates_it(
    attributes, inside, outside, distance
):
    # The objective does not look at what is outside.
    variable = cp.Variable((2, 2), **attributes)
    problem = cp.Problem(cp.Minimize(cp.square(variable[0, 0] - 1)))
    assert certify_program(problem, {variable: inside}).is_optimal()
    certificate = certify_program(problem, {variable: outside})
    assert certificate.violation == distance
    assert not certificate.is_optimal()


def test_a_quadrature_proves_nothing():
    # The entropy that cvxpy compiles is 0.02 lower than the true one.
    state = cp.Variable((2, 2), symmetric=True)
    entropy = cp.von_neumann_entr(state, (1, 1))
    constraints = [cp.trace(state) == 1, state[0, 0] == 0.9, state <= 2, state >= -2]
    problem = cp.Problem(cp.Minimize(-entropy), constraints)
    point = [[0.9, 0.0898773], [0.0898773, 0.1]]
    certificate = certify_program(problem, {state: point})
    assert certificate.gap == np.inf
    assert "quadrature" in certificate.reason


def test_finite_sets_are_refused():
    variable = cp.Variable(2)
    chosen = cp.FiniteSet(variable, [0, 1])
    problem = cp.Problem(cp.Minimize(cp.sum_squares(variable - 0.4)), [chosen])
    with pytest.raises(UnsupportedProblemError, match="finite sets"):
        certify_program(problem, {variable: [0, 0]})


def test_arguments_are_checked():
    x = cp.Variable(2, name="x")
    p = cp.Parameter(name="p")
    with pytest.raises(InvalidInputError, match="DCP"):
        certify_program(cp.Problem(cp.Minimize(cp.sqrt(x[0]))), {x: [0, 0]})
    with pytest.raises(InvalidInputError, match="parameter p has no value"):
        certify_program(cp.Problem(cp.Minimize(cp.abs(x[0] - p))), {x: [0, 0]})
    with pytest.raises(InvalidInputError, match="variable x has no value: add it"):
        certify_program(cp.Problem(cp.Minimize(cp.norm(x))), {})
    with pytest.raises(InvalidInputError, match=r"set its \.value"):
        certify_program(cp.Problem(cp.Minimize(cp.norm(x))))
    with pytest.raises(InvalidInputError, match="shape"):
        certify_program(cp.Problem(cp.Minimize(cp.norm(x))), {x: [1, 2, 3]})
    with pytest.raises(InvalidInputError, match="not finite"):
        certify_program(cp.Problem(cp.Minimize(cp.norm(x))), {x: [np.nan, 0]})
    with pytest.raises(InvalidTypeError, match=r"cvxpy\.Problem"):
        certify_program("norm", {x: [0, 0]})
    y = cp.Variable(name="y")
    both = cp.Problem(cp.Minimize(cp.norm(x) + cp.abs(y)))
    with pytest.raises(InvalidTypeError, match=r"map variables .* has 2 variables \(x, y\), "):
        certify_program(both, [0, 0])


@pytest.mark.parametrize("point", [[0.5, 0.5], np.array([0.5, 0.5]), FrequencyEstimate([0.5, 0.5])])
def test_the_value_of_the_only_variable_is_a_point(point):
    x = cp.Variable(2)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(x - [1.0, 0.0])), [x[0] <= x[1]])
    assert certify(problem, point).is_optimal()
    assert certify(problem, point).gap == certify(problem, {x: [0.5, 0.5]}).gap
    assert not certify(problem, [0.25, 0.25]).is_optimal()
    number = cp.Variable()
    assert certify(cp.Problem(cp.Minimize(cp.abs(number - 2))), 2.0).is_optimal()
    with pytest.raises(InvalidInputError, match=r"has shape \(2,\), its value has shape \(3,\)"):
        certify(problem, [0.5, 0.5, 0.0])


@pytest.mark.parametrize("value", ["norm-sub", ["a", "b"], [[0.5], [0.5, 0.5]], object()])
def test_values_that_are_no_numbers_are_refused_by_name(value):
    x = cp.Variable(2, name="x")
    problem = cp.Problem(cp.Minimize(cp.norm(x)))
    for point in (value, {x: value}):
        with pytest.raises(InvalidTypeError, match="value of variable x must be numbers"):
            certify(problem, point)
    whole = cp.Variable(2, integer=True)
    with pytest.raises(UnsupportedProblemError, match="integers"):
        certify_program(cp.Problem(cp.Minimize(cp.norm(whole))), {whole: [0, 0]})


def test_points_keep_their_place():
    x = cp.Variable(2, nonneg=True)
    problem = cp.Problem(cp.Minimize(cp.sum(x)))
    x.value = [1.0, 2.0]
    certificate = certify_program(problem, {x: [-1.0, 0.0]})
    assert certificate.violation == 1.0
    assert certificate.gap == 0.0
    assert not certificate.is_optimal()
    assert x.value.tolist() == [1.0, 2.0]
    assert certify_program(problem).gap >= 3.0
    assert certify_program(problem, {x: [0.0, 0.0]}).is_optimal(1e-12, relative=False)


def test_multipliers_come_by_constraint():
    x = cp.Variable(2)
    rows = [x[0] + x[1] == 1, x[0] <= 0.25]
    problem = cp.Problem(cp.Minimize(cp.sum_squares(x)), rows)
    problem.solve(solver="CLARABEL")
    certificate = certify_program(problem)
    for row in rows:
        assert certificate.duals[row] == pytest.approx(row.dual_value, abs=1e-6)


def test_a_value_that_cannot_be_is_no_proof():
    # At the minimum the matrix is singular, and numpy's inverse of it loses half of all digits.
    matrix = cp.Variable((2, 2), PSD=True)
    vector = np.array([1.0, 2.0])
    problem = cp.Problem(cp.Minimize(cp.matrix_frac(vector, matrix) + cp.trace(matrix)))
    almost = np.outer(vector, vector) / np.sqrt(5.0) + 1e-13 * np.eye(2)
    certificate = certify_program(problem, {matrix: almost})
    if certificate.value < 2 * np.sqrt(5.0) * (1 - 1e-9):
        assert "numpy's value" in certificate.reason
    assert certify_program(problem, {matrix: almost + 0.1 * np.eye(2)}).gap > 0.01


def test_no_objective_is_optimal_anywhere():
    x = cp.Variable(3)
    problem = cp.Problem(cp.Minimize(0), [cp.norm(x) <= 1])
    assert certify_program(problem, {x: np.zeros(3)}).is_optimal()
    assert not certify_program(problem, {x: np.ones(3)}).is_optimal()


def test_nothing_to_choose():
    assert certify_program(cp.Problem(cp.Minimize(cp.Constant(3.0))), {}).gap == 0.0


@pytest.mark.parametrize("numbers", [[1e-200], [1e-200, 3.0], [5e-324, 1e-10, -1e-200]])
def test_the_error_of_a_sum_covers_products_below_the_doubles(numbers):
    exact = sum(Fraction(number) ** 2 for number in numbers)
    value, error = product_totals(np.array(numbers), np.array(numbers))
    assert abs(Fraction(float(value)) - exact) <= Fraction(float(error))


@pytest.mark.parametrize(("turned", "is_replaced"), [(1e-3, True), (0.1, False)])
def test_a_multiplier_of_nearly_the_normal_direction_becomes_the_normal(turned, is_replaced):
    # At s = (5, 3, 4), on the boundary of the cone, the normal is (1, -3/5, -4/5).
    normal = np.array([1.0, -0.6, -0.8]) / np.sqrt(2)
    # At right angles to it: the cosine of the angle is 1 - turned²/2.
    across = np.array([0.0, 0.8, -0.6])
    multiplier = 7.0 * (normal + turned * across)
    direction = multipliers._normal("soc", np.array([5.0, 3.0, 4.0]), multiplier)
    expected = normal if is_replaced else multiplier / np.linalg.norm(multiplier)
    assert_allclose(direction, expected, rtol=1e-12, atol=1e-15)


def test_sums_of_products_are_rounded_once_however_much_cancels(either_way):
    generator = np.random.default_rng(6)
    rows = 40
    counts = generator.integers(0, 24, 300)
    matrix = np.zeros((rows, 300))
    for column, count in enumerate(counts):
        chosen = generator.choice(rows, count, replace=False)
        sizes = 10 ** generator.uniform(-9, 9, count)
        matrix[chosen, column] = generator.normal(size=count) * sizes
    weights = generator.normal(size=rows) * 10 ** generator.uniform(-9, 9, rows)
    exact = [
        sum((Fraction(a) * Fraction(w) for a, w in zip(column, weights, strict=True)), Fraction(0))
        for column in matrix.T
    ]
    # Beside the base: nothing, what the products cancel to a few digits, or all of them.
    base = np.array(
        [-float(value) * kind for value, kind in zip(exact, np.arange(300) % 3 / 2, strict=True)]
    )
    values, errors = column_totals(sparse.csc_array(matrix), weights, base)
    for value, error, products, start in zip(values, errors, exact, base, strict=True):
        assert abs(Fraction(value) - products - Fraction(start)) <= Fraction(error)
        assert error <= 2.3e-16 * abs(value) + 1e-290


def test_an_exact_zero_has_no_error(either_way):
    # The lower halves of the products cancel too.
    matrix = sparse.csc_array(np.array([[0.1, 1.0], [-0.1, 1.0], [0.0, -2.0]]))
    values, errors = column_totals(matrix, np.array([0.3, 0.3, 0.3]), np.zeros(2))
    assert values.tolist() == errors.tolist() == [0.0, 0.0]


def test_totals_of_several_vectors_and_further_products_are_rounded_once(either_way):
    generator = np.random.default_rng(5)
    matrix = generator.normal(size=(3, 4)) * (generator.random((3, 4)) < 0.7)
    weights = generator.normal(size=(2, 5, 3)) * 10 ** generator.uniform(-9, 9, (2, 5, 3))
    base, first, second = generator.normal(size=(3, 2, 5, 4))
    pairs = [(first, second), (first, first)]
    values, errors = column_totals(sparse.csc_array(matrix), weights, base, pairs)
    sums, of_sums = product_totals(first, second)
    for trial in np.ndindex(2, 5):
        products = [
            Fraction(a) * Fraction(b) for a, b in zip(first[trial], second[trial], strict=True)
        ]
        for v, product in enumerate(products):
            of_column = zip(matrix[:, v], weights[trial], strict=True)
            total = Fraction(base[trial][v]) + product + Fraction(first[trial][v]) ** 2
            total += sum(Fraction(a) * Fraction(w) for a, w in of_column)
            assert abs(Fraction(values[trial][v]) - total) <= Fraction(errors[trial][v])
        assert abs(Fraction(sums[trial]) - sum(products)) <= Fraction(of_sums[trial])
    assert np.all(errors <= 2.3e-16 * np.abs(values) + 1e-290)
    assert np.all(of_sums <= 2.3e-16 * np.abs(sums) + 1e-290)


AT_ZERO = {
    "logarithms": lambda x: (cp.Maximize(cp.sum(cp.log(x))), [cp.sum(x) == 3], np.ones(3)),
    "a fit": lambda x: (
        cp.Minimize(cp.sum_squares(HILBERT @ x - HILBERT @ np.ones(3))),
        [x <= 5],
        np.ones(3),
    ),
    "nothing": lambda x: (cp.Minimize(cp.sum_squares(x)), [], np.zeros(3)),
}
HILBERT = 1 / (1 + np.add.outer(np.arange(3.0), np.arange(3.0)))


@pytest.mark.parametrize("name", AT_ZERO)
def test_an_optimal_value_of_zero_is_relative_to_what_is_at_stake(name):
    x = cp.Variable(3)
    objective, constraints, solution = AT_ZERO[name](x)
    problem = cp.Problem(objective, constraints)
    certificate = certify_program(problem, {x: solution})
    assert certificate.value == pytest.approx(0.0, abs=1e-15)
    assert certificate.is_optimal()
    beside = solution + np.array([1e-2, 0.0, -1e-2])
    assert not certify_program(problem, {x: beside}).is_optimal()


OBJECTIVES = {
    "squares": lambda x: cp.sum_squares(x - 1),
    "norm": cp.norm,
    "logarithms": lambda x: -cp.sum(cp.log(x)) + cp.sum(x**2),
}


@cache
def certificate_of(name, point):
    """Return the certificate of an objective without a constant, for values of at least 2."""
    x = cp.Variable(2)
    return certify_program(cp.Problem(cp.Minimize(OBJECTIVES[name](x)), [x >= 2]), {x: point})


@pytest.mark.parametrize("constant", [5.0, -1e8, 1e12, 1e16])
@pytest.mark.parametrize("sense", [cp.Minimize, cp.Maximize])
def test_a_constant_of_the_objective_makes_no_point_better_or_worse(sense, constant):
    x = cp.Variable(2)
    number = cp.Parameter(value=constant)
    sign = 1.0 if sense is cp.Minimize else -1.0
    for name, objective in OBJECTIVES.items():
        beside = cp.Problem(sense(2 * number + sign * objective(x) - number), [x >= 2])
        for point, is_optimal in (((2.0, 2.0), True), ((2.0, 2.001), False)):
            expected = certificate_of(name, point)
            certificate = certify_program(beside, {x: point})
            assert certificate.is_optimal() is expected.is_optimal() is is_optimal
            assert (certificate.gap, certificate.scale) == (expected.gap, expected.scale)
            assert certificate.value == sign * expected.value + constant
            exact_bound = Fraction(sign * expected.bound) + Fraction(constant)
            assert sign * Fraction(certificate.bound) <= sign * exact_bound


def test_an_infinite_constant_is_no_value():
    x = cp.Variable(2)
    infinite = cp.Problem(cp.Minimize(cp.sum(x) + cp.Parameter(value=np.inf)), [x >= 2])
    assert "inf at the point" in certify_program(infinite, {x: [2, 2]}).reason


def test_an_optimal_value_of_zero_at_the_end_of_a_logarithm_is_certified():
    """The objective has no gradient there, and no value at 0: half-way to 0 it has one."""
    x = cp.Variable(3, nonneg=True)
    shares = np.array([0.5, 0.5, 0.0])
    problem = cp.Problem(cp.Minimize(cp.sum(cp.rel_entr(shares, x))), [cp.sum(x) == 1])
    certificate = certify_program(problem, {x: shares})
    assert certificate.scale == pytest.approx(np.log(2))
    assert certificate.is_optimal()
    assert not certify_program(problem, {x: [0.501, 0.499, 0.0]}).is_optimal()


SYMMETRIC = cp.Variable((2, 2), symmetric=True)
SEMIDEFINITE = cp.Variable((2, 2), PSD=True)


@pytest.mark.parametrize(
    ("objective", "variable", "point", "reason"),
    [
        (cp.matrix_frac(np.array([1.0, 0.0]), SEMIDEFINITE), SEMIDEFINITE, [[1, 0], [0, 0]], "Sin"),
        (cp.lambda_max(SYMMETRIC), SYMMETRIC, [[1, 1], [0, 1]], "not Hermitian"),
    ],
)
def test_what_numpy_cannot_calculate_is_a_reason_and_no_error(objective, variable, point, reason):
    within = [cp.trace(variable) == 2]
    certificate = certify_program(
        cp.Problem(cp.Minimize(objective), within), {variable: np.array(point)}
    )
    assert certificate.gap == np.inf
    assert "no value at the point" in certificate.reason
    assert reason in certificate.reason
    # What has no value is not below a bound either.
    in_set = cp.Problem(cp.Minimize(cp.trace(variable)), [*within, objective <= 3])
    assert not certify_program(in_set, {variable: np.array(point)}).is_optimal()


@pytest.mark.parametrize("power", [-250, -290, -310])
@pytest.mark.parametrize("kind", ["costs", "priced squares", "squares"])
def test_costs_that_nearly_vanish_prove_no_wrong_point(kind, power):
    """What is below the smallest scale would be nothing beside it."""
    x = cp.Variable(3)
    unit = 10.0**power
    objective = {
        "costs": unit * ([1.0, 2.0, 3.0] @ x),
        "priced squares": unit * cp.sum_squares(x - [2, 0, 0]),
        "squares": cp.sum_squares(10.0 ** (power / 2) * (x - [1, 0, 0])),
    }[kind]
    problem = cp.Problem(cp.Minimize(objective), [x >= 0, cp.sum(x) == 1])
    certificate = certify_program(problem, {x: [0, 0, 1]})
    assert not certificate.is_optimal()
    # Costs have a unit of their own as long as doubles have all their digits there.
    if power == -310 or (kind, power) == ("squares", -290):
        assert "vanish below the smallest doubles" in certificate.reason
    else:
        assert certify_program(problem, {x: [1, 0, 0]}).is_optimal()


def test_a_complex_value_of_a_real_variable_is_refused():
    x = cp.Variable(2, name="x")
    problem = cp.Problem(cp.Minimize(cp.sum_squares(x)), [x >= 1])
    with pytest.raises(InvalidInputError, match="variable x is real, and its value has an imag"):
        certify_program(problem, {x: [1, 1 + 1j]})
    assert certify_program(problem, {x: [1, 1 + 0j]}).is_optimal()
    both = cp.Variable(2, complex=True)
    whole = cp.Problem(cp.Minimize(cp.norm(both - [1j, 1])))
    assert certify_program(whole, {both: [1j, 1]}).gap < 1e-9


def test_what_is_at_stake_is_looked_at_where_the_scale_or_a_reason_needs_it(monkeypatch):
    looked_at = []
    at_stake = convex_program._at_stake
    monkeypatch.setattr(
        convex_program, "_at_stake", lambda *given: looked_at.append(given) or at_stake(*given)
    )
    x = cp.Variable(2)
    nearest = cp.Problem(cp.Minimize(cp.sum_squares(x - [1.0, 0.0])), [x[0] <= x[1]])
    # At the minimum, and beside it by so much that the scale decides whether that is near.
    for moved, is_needed in ((0.0, False), (1e-4, True), (0.1, True)):
        point = {x: np.array([0.5, 0.5 + moved])}
        whole = certify_program(nearest, point)
        assert looked_at.pop()
        bare = certify_program(nearest, point, with_scale=False)
        assert bool(looked_at) is is_needed
        looked_at.clear()
        assert (bare.gap, bare.reason, bare.bound) == (whole.gap, whole.reason, whole.bound)
        assert bare.stationarity == whole.stationarity
        assert (bare.scale == whole.scale) is is_needed


@pytest.mark.parametrize("apart", [1e-8, 1e-9, 1e-10, 1e-11, 1e-12])
def test_the_only_point_of_nearly_dependent_equations_is_certified(apart):
    x = cp.Variable(2)
    rows = [x[0] + x[1] == 1, x[0] + (1 + apart) * x[1] == 1]
    for objective in (cp.sum_squares(x - np.array([3.0, 1.0])), cp.norm1(x - np.array([3.0, 1.0]))):
        certificate = certify_program(cp.Problem(cp.Minimize(objective), rows), [1.0, 0.0])
        assert certificate.is_optimal(), apart
        assert certificate.reason == ""


@pytest.mark.parametrize("apart", [1e-8, 1e-9, 1e-10, 1e-11, 1e-12])
def test_no_reason_denies_the_only_point_of_nearly_dependent_equations(apart):
    # A solver's point that misses the equations by 1e-9 is far better than the only one inside.
    x = cp.Variable(2)
    rows = [x[0] + x[1] == 1, x[0] + (1 + apart) * x[1] == 1]
    problem = cp.Problem(cp.Minimize(cp.sum(cp.exp(x))), rows)
    certificate = certify_program(problem, [1.0, 0.0])
    assert certificate.is_optimal() or "nearly dependent" in certificate.reason
    # Multipliers of the minimum are about (e - 1) / apart.
    if not certificate.is_optimal():
        claim = certificate.reason.split("multipliers exceed ")[1].split(",")[0]
        assert float(claim) <= 2 / apart


def test_values_that_rounding_hides_are_in_the_reason_of_a_point_that_is_too_good():
    x = cp.Variable(2)
    rows = [x[0] + x[1] == 1, x[0] + (1 + 1e-12) * x[1] == 1]
    problem = cp.Problem(cp.Minimize(cp.sum_squares(x - np.array([3.0, 1.0]))), rows)
    # Outside by 1e-17, which numpy takes for 0.
    certificate = certify_program(problem, [1 + 1e-5, -1e-5])
    assert certificate.gap == np.inf
    assert "nearly dependent constraints" in certificate.reason


@pytest.mark.parametrize("large", [1e100, 1e200, 1e300])
def test_rows_with_numbers_near_the_end_of_the_doubles_raise_no_warning(large):
    x = cp.Variable(3)
    rows = [large * (x[0] - x[1]) == 0, x[0] + x[1] <= 1e-5 * large]
    certificate = certify_program(cp.Problem(cp.Minimize(cp.sum_squares(x - 1)), rows), [0, 1, 0])
    assert certificate.gap >= 2
    assert certificate.reason


def test_an_objective_with_a_sign_is_no_further_from_its_optimum_than_from_zero():
    x = cp.Variable(3)
    rows = [x >= 0, x[0] + x[1] <= 1]
    for objective in (cp.Minimize(cp.norm(x)), cp.Maximize(-cp.sum(cp.power(x, 4)))):
        problem = cp.Problem(objective, rows)
        assert certify_program(problem, np.zeros(3)).is_optimal()
        near = certify_program(problem, np.array([0.0, 1e-9, 0.0]))
        assert near.gap <= abs(near.value) * (1 + 1e-12)
        assert near.gap >= abs(near.value)

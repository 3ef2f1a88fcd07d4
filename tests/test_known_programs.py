"""Certificates of cvxpy problems whose answers are planted, or printed: never a wrong one.

    python -m tests.test_known_programs      # 200 planted problems and ten printed ones: a minute

All numbers of a planted problem have few bits, so that its conditions hold exactly at its answer,
and the rise of every other point is known in fractions.
"""

from fractions import Fraction
from typing import NamedTuple

import cvxpy as cp
import numpy as np
import pytest

from ldpopt import certify

ROUNDING = 1e-13
"""Part of the scale by which numpy's value of an objective may be off."""

TOLERANCE = 1e-8
"""What certified means: the default of ``is_optimal``, relative to the scale."""

OF_TABLE = 3e-10
"""Error of an optimum that is written with ten digits or more, and of a solver's value of it."""

WHOLE = 50
"""Problems of each family, of which the suite takes two."""


class Planted(NamedTuple):
    """½ ‖M x‖² + c·x on a set, and the point at which it is least."""

    problem: cp.Problem
    variable: cp.Variable
    answer: np.ndarray
    root: np.ndarray
    slope: np.ndarray

    def value(self, x):
        """Return the objective at doubles, in fractions."""
        point = [Fraction(float(number)) for number in x]

        def product(numbers):
            return sum(Fraction(float(a)) * b for a, b in zip(numbers, point, strict=True))

        return product(self.slope) + sum(product(row) ** 2 for row in self.root) / 2


class Parts(NamedTuple):
    """A variable in a box, rows that hold with equality at a point and others, and their pull."""

    variable: cp.Variable
    answer: np.ndarray
    forms: list
    pull: np.ndarray


def polyhedron(generator):
    """Return a random set whose rows pull with known multipliers at a point of it."""
    n = int(generator.integers(2, 9))
    x = cp.Variable(n)
    answer = generator.integers(-12, 13, n) / 4
    matrix = generator.integers(-3, 4, (n + 2, n)).astype(float)
    holds = generator.random(n + 2) < 0.5
    slack = np.where(holds, 0.0, generator.integers(1, 9, n + 2) / 2)
    multipliers = np.where(holds, generator.integers(0, 9, n + 2) / 4, 0.0)
    forms = [matrix @ x <= matrix @ answer + slack, x >= -8, x <= 8]
    return Parts(x, answer, forms, matrix.T @ multipliers)


def planted(parts, root, more=()):
    """Return the problem whose slope at the answer balances the pull."""
    slope = -root.T @ (root @ parts.answer) - parts.pull
    curved = cp.sum_squares(root @ parts.variable) / 2 if root.any() else 0
    objective = cp.Minimize(curved + slope @ parts.variable)
    problem = cp.Problem(objective, [*parts.forms, *more])
    return Planted(problem, parts.variable, parts.answer, root, slope)


def linear(generator):
    parts = polyhedron(generator)
    return planted(parts, np.zeros((1, len(parts.answer))))


def quadratic(generator):
    parts = polyhedron(generator)
    n = len(parts.answer)
    # Of fewer rows than values: flat in some directions.
    rows = int(generator.integers(1, n + 1))
    return planted(parts, generator.integers(-3, 4, (rows, n)).astype(float))


def second_order(generator):
    parts = polyhedron(generator)
    n = len(parts.answer)
    matrix = generator.integers(-3, 4, (2, n)).astype(float)
    # ‖(3, 4)‖ is 5, and the normal there has the direction (3, 4).
    normal = np.array([3.0, 4.0])
    ball = cp.norm(matrix @ parts.variable + (normal - matrix @ parts.answer)) <= 5.0
    price = int(generator.integers(0, 5)) / 2
    return planted(
        parts._replace(pull=parts.pull + price * matrix.T @ normal), np.zeros((1, n)), [ball]
    )


def exponential(generator):
    parts = polyhedron(generator)
    n = len(parts.answer)
    matrix = generator.integers(-4, 5, (3, n)) / 4
    weights = generator.integers(1, 5, 3).astype(float)
    # Every exponent vanishes at the answer.
    powers = cp.exp(matrix @ parts.variable - matrix @ parts.answer)
    price = int(generator.integers(0, 5)) / 2
    return planted(
        parts._replace(pull=parts.pull + price * matrix.T @ weights),
        np.zeros((1, n)),
        [weights @ powers <= weights.sum()],
    )


FAMILIES = {
    "linear": linear,
    "quadratic": quadratic,
    "second-order cone": second_order,
    "exponential cone": exponential,
}


def generated(family, count):
    """Yield planted problems of a family."""
    generator = np.random.default_rng([3, list(FAMILIES).index(family)])
    for _ in range(count):
        yield FAMILIES[family](generator)


def points_of(case, generator):
    """Yield the answer, a solver's own point, and others: three of them near, one far."""
    yield case.answer
    case.problem.solve(solver="CLARABEL")
    yield case.variable.value
    for size in (1e-7, 1e-4, 1e-1, 1.0):
        yield case.answer + size * generator.normal(size=len(case.answer))


def outcome(case, generator):
    """Return whether the answer and the solver's point are certified, and check all points."""
    lowest = case.value(case.answer)
    certified = []
    for point in points_of(case, generator):
        certificate = certify(case.problem, {case.variable: point})
        certified.append(certificate.is_optimal(TOLERANCE))
        assert np.isfinite(certificate.gap) or certificate.reason
        rise = case.value(point) - lowest
        if np.isfinite(certificate.gap):
            allowed = Fraction(certificate.gap) + Fraction(ROUNDING * certificate.scale)
            assert rise <= allowed
        if certified[-1]:
            assert rise <= Fraction(2 * TOLERANCE * certificate.scale)
        else:
            # A reason speaks of the gap: that a point is outside the violation says.
            is_outside = certificate.violation > TOLERANCE * certificate.size
            assert certificate.reason or is_outside
    return certified[:2]


@pytest.mark.parametrize("family", FAMILIES)
def test_planted_answers_are_certified_and_no_other_point_wrongly(family):
    generator = np.random.default_rng(1)
    for case in generated(family, 2):
        answer, _ = outcome(case, generator)
        assert answer


class Printed(NamedTuple):
    """A problem of the set of Maros and Mészáros (1999), and the optimal value in its table."""

    problem: cp.Problem
    optimum: float


def hock_schittkowski(first, right):
    """Return problems 51 to 53 of Hock and Schittkowski (1981), which differ in two numbers."""
    x = cp.Variable(5)
    terms = [first * x[0] - x[1], x[1] + x[2] - 2, x[3] - 1, x[4] - 1]
    rows = [x[0] + 3 * x[1] == right, x[2] + x[3] == 2 * x[4], x[1] == x[4]]
    return x, cp.Minimize(sum(map(cp.square, terms))), rows


def printed():
    """Return the smallest problems of the set, by name."""
    x = cp.Variable(2)
    y = cp.Variable(3)
    z = cp.Variable(4)
    u = cp.Variable(10)
    three = np.array([[2, 1, 1], [1, 2, 0], [1, 0, 1.0]])
    of_35 = cp.Minimize(9 - y @ [8.0, 6.0, 4.0] + cp.quad_form(y, three))
    set_35 = [y >= 0, y @ [1.0, 1.0, 2.0] <= 3]
    four = np.array([[2, 0, -1, 0], [0, 1, 0, 0], [-1, 0, 2, 1], [0, 0, 1, 1.0]])
    of_76 = cp.Minimize(cp.quad_form(z, four) / 2 - z @ [1.0, 3.0, -1.0, 1.0])
    rows_76 = [z @ [1.0, 2, 1, 1] <= 5, z @ [3.0, 1, 2, -1] <= 4, z[1] + 4 * z[2] >= 1.5, z >= 0]
    of_21 = cp.Minimize(0.01 * cp.square(x[0]) + cp.square(x[1]) - 100)
    set_21 = [10 * x[0] - x[1] >= 10, x >= [2, -50], x <= 50]
    of_zecevic = cp.Minimize(2 * cp.square(x[1]) - x @ [2.0, 3.0])
    set_zecevic = [cp.sum(x) <= 2, x @ [1.0, 4.0] <= 4, x >= 0, x <= 10]
    rows_28 = u[:-2] + 2 * u[1:-1] + 3 * u[2:] == 1
    _, of_51, rows_51 = hock_schittkowski(1, 4)
    _, of_52, rows_52 = hock_schittkowski(4, 0)
    v, of_53, rows_53 = hock_schittkowski(1, 0)
    return {
        "HS21": Printed(cp.Problem(of_21, set_21), -99.96),
        "HS35": Printed(cp.Problem(of_35, set_35), 1 / 9),
        "HS35MOD": Printed(cp.Problem(of_35, [*set_35, y[1] == 0.5]), 0.25),
        "HS51": Printed(cp.Problem(of_51, rows_51), 0.0),
        "HS52": Printed(cp.Problem(of_52, rows_52), 1859 / 349),
        "HS53": Printed(cp.Problem(of_53, [*rows_53, v >= -10, v <= 10]), 176 / 43),
        "HS76": Printed(cp.Problem(of_76, rows_76), -103 / 22),
        "TAME": Printed(
            cp.Problem(cp.Minimize(cp.square(x[0] - x[1])), [cp.sum(x) == 1, x >= 0]), 0.0
        ),
        "ZECEVIC2": Printed(cp.Problem(of_zecevic, set_zecevic), -4.125),
        "GENHS28": Printed(
            cp.Problem(cp.Minimize(cp.sum_squares(u[:-1] + u[1:])), [rows_28]), 0.9271736937664
        ),
    }


PRINTED = printed()


@pytest.mark.parametrize("name", PRINTED)
def test_bounds_of_printed_problems_are_not_above_the_printed_optimum(name):
    problem, optimum = PRINTED[name]
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    certificate = certify(problem)
    assert certificate.bound <= optimum + OF_TABLE
    assert certificate.is_optimal(1e-6) or certificate.reason
    assert certificate.value == pytest.approx(optimum, abs=OF_TABLE)


def main():
    """Print how many of the planted answers, and of solvers' points, are certified."""
    generator = np.random.default_rng(2)
    for family in FAMILIES:
        outcomes = [outcome(case, generator) for case in generated(family, WHOLE)]
        answers, solved = np.sum(outcomes, axis=0)
        print(f"{family:18} {len(outcomes)} problems: {answers} answers and {solved} points of a "
              "solver certified, none wrongly", flush=True)  # fmt: skip
    for name, (problem, optimum) in PRINTED.items():
        problem.solve(solver="CLARABEL")
        certificate = certify(problem)
        print(f"{name:18} optimum {optimum:.10g}, bound {certificate.bound:.10g}, "
              f"gap {certificate.gap:.1e} {certificate.reason}")  # fmt: skip


if __name__ == "__main__":
    main()

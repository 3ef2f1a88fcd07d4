"""Values and gradients of expressions as ranges: the numbers of exact arithmetic lie in them."""

from fractions import Fraction

import cvxpy as cp
import mpmath
import numpy as np
import pytest

from ldpopt.losses.enclosure import enclosure, enclosures, is_positive_definite
from tests.tolerances import ENCLOSED

D = 5
DIGITS = 250
C = np.array([0.3, 0.1, 0.7, 0.2, 0.45])
MATRIX = np.array([[1.0, -2.0, 0.5, 0.0, 3.0], [0.1, 0.2, -0.3, 0.4, 1.7]])

# Positive definite, and nearly not so: 1 + 2⁻²⁰ in place of 1 on the diagonal of ones.
FORM = np.ones((D, D)) + np.diag([2.0**-20, 0.25, 0.5, 1.0, 2.0])

# What a form does not feel: the entries (i, j) and (j, i) cancel.
SKEW = np.triu(np.full((D, D), 0.25), 1) - np.tril(np.full((D, D), 0.25), -1)


def total(function):
    return lambda f, c: mpmath.fsum(map(function, f, c))


def logistic(x):
    return mpmath.log1p(mpmath.exp(x))


def log_sum(numbers):
    return mpmath.log(mpmath.fsum(map(mpmath.exp, numbers)))


def huber(x, bend):
    return x * x if abs(x) <= bend else 2 * bend * abs(x) - bend * bend


def mapped(f):
    return [mpmath.fsum(mpmath.mpf(float(a)) * x for a, x in zip(row, f, strict=True))
            for row in MATRIX]  # fmt: skip


def form(f, c):
    away = [a - b for a, b in zip(f, c, strict=True)]
    rows = [mpmath.fsum(float(p) * x for p, x in zip(row, away, strict=True)) for row in FORM]
    return mpmath.fsum(x * y for x, y in zip(away, rows, strict=True))


# Each with cvxpy, and with mpmath's numbers.
FUNCTIONS = {
    "exp": (lambda f: cp.sum(cp.exp(3 * f)), total(lambda f, c: mpmath.exp(3 * f))),
    "log": (lambda f: -cp.sum(cp.log(f)), total(lambda f, c: -mpmath.log(f))),
    "entr": (lambda f: -cp.sum(cp.entr(f)), total(lambda f, c: f * mpmath.log(f))),
    "logistic": (
        lambda f: cp.sum(cp.logistic(64 * (f - C)) - 32 * (f - C)),
        total(lambda f, c: logistic(64 * (f - c)) - 32 * (f - c)),
    ),
    "columns": (
        lambda f: cp.sum(cp.log_sum_exp(cp.vstack([50 * (f - C), 50 * (C - f)]), axis=0)),
        total(lambda f, c: log_sum([50 * (f - c), 50 * (c - f)])),
    ),
    "rows": (
        lambda f: cp.sum(cp.log_sum_exp(cp.vstack([9 * f, -9 * f]).T, axis=1, keepdims=True)),
        total(lambda f, c: log_sum([9 * f, -9 * f])),
    ),
    "one sum": (
        lambda f: cp.log_sum_exp(800 * (f - C)),
        lambda f, c: log_sum([800 * (a - b) for a, b in zip(f, c, strict=True)]),
    ),
    "kl_div": (
        lambda f: cp.sum(cp.kl_div(f, C)),
        total(lambda f, c: f * mpmath.log(f / c) - f + c),
    ),
    "kl_div of both": (
        lambda f: cp.sum(cp.kl_div(f, 2 * f + C)),
        total(lambda f, c: f * mpmath.log(f / (2 * f + c)) - f + 2 * f + c),
    ),
    "rel_entr": (
        lambda f: cp.sum(cp.rel_entr(C, f)),
        total(lambda f, c: c * mpmath.log(c / f)),
    ),
    "huber": (
        lambda f: cp.sum(cp.huber(f - C, 0.125)),
        total(lambda f, c: huber(f - c, 0.125)),
    ),
    "abs": (
        lambda f: cp.sum(cp.power(cp.abs(f - C), 1.5)),
        total(lambda f, c: abs(f - c) ** mpmath.mpf(1.5)),
    ),
    "square": (lambda f: cp.sum(cp.square(f - C)), total(lambda f, c: (f - c) ** 2)),
    "fourth power": (lambda f: cp.sum((f - C) ** 4), total(lambda f, c: (f - c) ** 4)),
    "inverse": (lambda f: cp.sum(cp.inv_pos(f)), total(lambda f, c: 1 / f)),
    "root": (lambda f: -cp.sum(cp.sqrt(f)), total(lambda f, c: -mpmath.sqrt(f))),
    "squares": (lambda f: cp.sum_squares((f - C) / 0.1), total(
        lambda f, c: ((f - c) / mpmath.mpf(0.1)) ** 2
    )),
    "quotient": (
        lambda f: cp.quad_over_lin(f[:3] - C[:3], 2 * f[3] + f[4]),
        lambda f, c: mpmath.fsum((a - b) ** 2 for a, b in zip(f[:3], c[:3], strict=True))
        / (2 * f[3] + f[4]),
    ),
    "norm": (
        lambda f: cp.norm(MATRIX @ f) + cp.norm(f - C),
        lambda f, c: mpmath.sqrt(mpmath.fsum(x * x for x in mapped(f)))
        + mpmath.sqrt(mpmath.fsum((a - b) ** 2 for a, b in zip(f, c, strict=True))),
    ),
    "quadratic form": (lambda f: cp.quad_form(f - C, FORM), lambda f, c: form(f, c)),
    "believed to be convex": (
        lambda f: cp.quad_form(f - C, cp.psd_wrap(FORM)) / 3, lambda f, c: form(f, c) / 3
    ),
    "form that is not symmetric": (
        lambda f: cp.quad_form(f - C, cp.psd_wrap(FORM + SKEW)), lambda f, c: form(f, c)
    ),
    "negative form": (lambda f: -cp.quad_form(f - C, -FORM), lambda f, c: form(f, c)),
    "weights": (lambda f: C @ cp.exp(f), total(lambda f, c: c * mpmath.exp(f))),
    "rows of a matrix": (
        lambda f: cp.sum(cp.exp(MATRIX @ f)),
        lambda f, c: mpmath.fsum(map(mpmath.exp, mapped(f))),
    ),
    "columns of a matrix": (
        lambda f: cp.sum(cp.exp(f @ MATRIX.T)),
        lambda f, c: mpmath.fsum(map(mpmath.exp, mapped(f))),
    ),
    "differences": (
        lambda f: cp.sum(cp.square(cp.diff(f))) + cp.exp(f[0]),
        lambda f, c: mpmath.fsum((a - b) ** 2 for a, b in zip(f[1:], f, strict=False))
        + mpmath.exp(f[0]),
    ),
    "some of them": (
        lambda f: cp.sum(cp.exp(cp.hstack([f[[3, 0]], 2 * f[1:3], f[3]]))),
        lambda f, c: mpmath.fsum(map(mpmath.exp, [f[3], f[0], 2 * f[1], 2 * f[2], f[3]])),
    ),
    "table": (
        lambda f: cp.sum(cp.exp(cp.sum(cp.reshape(f[:4], (2, 2), order="C"), axis=0))),
        lambda f, c: mpmath.exp(f[0] + f[2]) + mpmath.exp(f[1] + f[3]),
    ),
}  # fmt: skip

POINTS = {
    "usual": np.array([0.2, 0.15, 0.5, 0.1, 0.05]),
    "close to the estimate": C * (1 + np.array([1, -2, 3, 4, -5]) * 2.0**-45),
    "tiny and huge": np.array([1e-12, 3e-7, 40.0, 1.0, 0.45000001]),
}


def exact_numbers(function, point):
    """Return value and gradient with so many digits that a difference keeps forty."""
    numbers = [mpmath.mpf(float(x)) for x in point]
    fixed = [mpmath.mpf(float(x)) for x in C]

    def along(i, x):
        return function([*numbers[:i], x, *numbers[i + 1 :]], fixed)

    gradient = []
    for i, x in enumerate(numbers):
        step = x * mpmath.mpf(10) ** -20
        gradient.append((along(i, x + step) - along(i, x - step)) / (2 * step))
    return function(numbers, fixed), gradient


@pytest.mark.parametrize("where", POINTS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_exact_value_and_gradient_lie_in_the_ranges(name, where):
    build, function = FUNCTIONS[name]
    f = cp.Variable(D)
    point = POINTS[where]
    ranges = enclosure(build(f), f, point)
    assert ranges is not None
    with mpmath.workdps(DIGITS):
        value, gradient = exact_numbers(function, point)
        assert abs(value - ranges.value) <= ranges.value_error
        for exact, middle, radius in zip(
            gradient, ranges.gradient, ranges.gradient_error, strict=True
        ):
            assert abs(exact - mpmath.mpf(float(middle))) <= mpmath.mpf(float(radius))


def test_entries_of_a_table_have_their_own_values_and_gradients():
    f = cp.Variable(D)
    table = cp.reshape(cp.square(f[:4] - 1), (2, 2), order="F") + f[4]
    point = POINTS["usual"]
    # Along the lines of [[f0, f2], [f1, f3]].
    for place, one in zip((1, 2), enclosures(table, f, point, [1, 2]), strict=True):
        value = (2, 1)[place - 1]
        assert one.value == pytest.approx((point[value] - 1) ** 2 + point[4], abs=ENCLOSED)
        expected = np.zeros(D)
        expected[value] = 2 * (point[value] - 1)
        expected[4] = 1.0
        np.testing.assert_allclose(one.gradient, expected, atol=ENCLOSED)
    assert enclosures(table, f, point, []) == []
    assert enclosures(cp.abs(f), f, np.append(point[:4], 0.0), [0]) is None


@pytest.mark.parametrize("name", FUNCTIONS)
def test_ranges_are_a_few_roundings_wide(name):
    f = cp.Variable(D)
    ranges = enclosure(FUNCTIONS[name][0](f), f, POINTS["usual"])
    steepest = np.abs(ranges.gradient).max()
    assert ranges.gradient_error.max() <= ENCLOSED * steepest


@pytest.mark.parametrize(
    "build",
    [
        lambda f: cp.sum(cp.abs(f - C)),  # not differentiable where f is C
        lambda f: -cp.sum(cp.log(f - C)),  # nor defined
        lambda f: -cp.sum(cp.entr(f - C)),
        lambda f: cp.sum(cp.inv_pos(f - C)),
        lambda f: cp.sum(cp.kl_div(f - C, 1)),
        lambda f: cp.norm(f - C),
        lambda f: cp.quad_over_lin(f, f[0] - C[0]),
        lambda f: cp.norm_inf(f),  # without a rule
        lambda f: cp.pnorm(f, 3),
        lambda f: cp.quad_over_lin(f, -1.0),  # with nothing in its domain
        lambda f: cp.quad_over_lin(1e154 * f, f[0]),  # with sums beyond the doubles
        lambda f: cp.sum(1.5e308 * cp.square(f + 0.6)),
        lambda f: cp.sum(cp.norm(cp.vstack([f, f]), 2, axis=0)),
        lambda f: cp.sum(cp.exp(cp.cumsum(f))),
        lambda f: cp.sum(cp.exp(710 * (f + 1))),  # beyond the doubles
        lambda f: cp.sum(C),  # without f
        # Nowhere known to be convex, whatever cvxpy is made to believe.
        lambda f: cp.quad_form(f, cp.psd_wrap(np.diag([1.0, 1.0, 1.0, 1.0, -1e-9]))),
        lambda f: cp.quad_form(f, cp.psd_wrap(-np.eye(D))),
        lambda f: cp.quad_form(f, np.ones((D, D))),
    ],
)
def test_what_has_no_gradient_here_is_unknown(build):
    f = cp.Variable(D)
    assert enclosure(build(f), f, C) is None


def is_exactly_definite(matrix):
    """Return whether all pivots of a symmetric matrix are positive, in fractions."""
    rows = [[Fraction(float(number)) for number in row] for row in matrix]
    for i, row in enumerate(rows):
        if row[i] <= 0:
            return False
        for other in rows[i + 1 :]:
            share = other[i] / row[i]
            for j in range(i, len(rows)):
                other[j] -= share * row[j]
    return True


def test_a_matrix_that_is_proved_definite_is_definite_in_fractions():
    generator = np.random.default_rng(0)
    proved = 0
    for _ in range(400):
        size = int(generator.integers(1, 7))
        factor = generator.integers(-3, 4, (size, max(1, size - 1)))
        # One eigenvalue is 0 but for what the diagonal gets, of either sign.
        shift = generator.choice([-1, 1]) * 2.0 ** -generator.integers(20, 55)
        matrix = (factor @ factor.T + shift * np.eye(size)) * 10.0 ** generator.integers(-90, 90)
        if is_positive_definite(matrix):
            proved += 1
            assert is_exactly_definite((matrix + matrix.T) / 2)
    assert proved > 100


def test_what_is_clearly_definite_is_proved_so_in_any_unit():
    generator = np.random.default_rng(1)
    for size in (1, 3, 40, 200):
        factor = generator.normal(size=(size, size))
        matrix = factor @ factor.T + 1e-3 * np.eye(size)
        for unit in (1e-200, 1.0, 1e200):
            assert is_positive_definite(unit * matrix)
            assert not is_positive_definite(-unit * matrix)
    assert not is_positive_definite(np.array([[1.0, np.nan], [np.nan, 1.0]]))
    # Either triangle alone looks definite, and their mean is not.
    one_sided = np.array([[1.0, 3.0], [0.5, 1.0]])
    assert not is_positive_definite(one_sided)
    assert not is_positive_definite(one_sided.T)


def test_a_form_that_changes_is_proved_anew():
    matrix = np.eye(D)
    f = cp.Variable(D)
    assert enclosure(cp.quad_form(f, cp.psd_wrap(matrix)), f, C) is not None
    matrix[0, 0] = -1.0
    # What was refused is refused again.
    for _ in range(2):
        assert enclosure(cp.quad_form(f, cp.psd_wrap(matrix)), f, C) is None


def test_a_form_whose_parameter_is_written_to_is_proved_anew():
    # A matrix that no other test proves.
    matrix = cp.Parameter((D, D), PSD=True, value=7 * np.eye(D))
    f = cp.Variable(D)
    expression = cp.quad_form(f, matrix)
    assert enclosure(expression, f, C) is not None
    # cvxpy does not look at what is written to a value.
    matrix.value[0, 0] = -1.0
    assert enclosure(expression, f, C) is None

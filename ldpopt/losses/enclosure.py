"""Values and gradients of cvxpy's expressions as ranges that contain the exact numbers.

A number x is known as ``middle`` ± ``radius``. The values of all parts of an expression follow from
those of their arguments (forwards), and the derivatives of the whole by its parts from those of the
parts that use them (backwards), by rules for each of cvxpy's functions here. Every derivative of a
convex or concave function of one number is monotone: it lies between those at the two ends.

What is taken for granted: numpy's functions are within a few units in the last place, and a part
without variables is the number that cvxpy computes, as in what it compiles.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.expressions import exponent_of, takes_negative_numbers

if TYPE_CHECKING:
    import cvxpy as cp

Array = NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)

# exp, log and powers of numpy are within a few units in the last place; 32 leave room for the
# operations between them.
_FUNCTION = 32 * EPS

# Above what underflow may take.
_TINY = 1e-300

# Radii are sums of few products: so much covers their own rounding.
_OUTWARD = 1 + 16 * EPS


class Enclosure(NamedTuple):
    """A convex function at a point: numbers, and how far the exact ones may be from them.

    Attributes
    ----------
    value, value_error
        The function.
    gradient, gradient_error
        Its gradient, of the point's shape.
    """

    value: float
    value_error: float
    gradient: Array
    gradient_error: Array


class Ranges(NamedTuple):
    """Numbers of any shape, each within a radius of a middle."""

    middle: Array
    radius: Array

    @classmethod
    def exact(cls, numbers: Any) -> Ranges:
        """Return ranges of one number each."""
        middle = np.asarray(numbers, dtype=np.float64)
        return cls(middle, np.zeros(middle.shape))

    @classmethod
    def between(cls, ends: Sequence[Array], size: Array) -> Ranges:
        """Return what contains all ends, each of which is wrong by a few roundings of a size."""
        low = np.minimum(*ends)
        high = np.maximum(*ends)
        middle = low + (high - low) / 2
        radius = np.maximum(high - middle, middle - low) + _FUNCTION * size
        return cls(middle, radius * _OUTWARD + _TINY)

    @property
    def ends(self) -> tuple[Array, Array]:
        """The smallest and the largest numbers, rounded outward."""
        reach = self.radius * _OUTWARD + EPS * np.abs(self.middle) * (self.radius > 0)
        return self.middle - reach, self.middle + reach

    @property
    def largest(self) -> Array:
        """The largest sizes."""
        return (np.abs(self.middle) + self.radius) * _OUTWARD

    def plus(self, other: Ranges) -> Ranges:
        """Return the ranges of sums."""
        middle = self.middle + other.middle
        return Ranges(middle, (self.radius + other.radius + EPS * np.abs(middle)) * _OUTWARD)

    def times(self, other: Ranges) -> Ranges:
        """Return the ranges of products."""
        middle = self.middle * other.middle
        radius = np.abs(self.middle) * other.radius + self.radius * other.largest
        return Ranges(middle, (radius + EPS * np.abs(middle) + _TINY) * _OUTWARD)

    def over(self, divisor: Array) -> Ranges:
        """Return the ranges of quotients by exact numbers."""
        middle = self.middle / divisor
        radius = self.radius / np.abs(divisor) + EPS * np.abs(middle)
        return Ranges(middle, (radius + _TINY) * _OUTWARD)

    def summed(self, axis: Any = None, *, keepdims: bool = False) -> Ranges:
        """Return the ranges of sums along axes, of everything by default."""
        count = self.middle.size
        if axis is None and not keepdims:
            middle = np.asarray(_exact_sum(self.middle))
            radius = self.radius.sum() * (1 + count * EPS) + EPS * np.abs(middle)
            return Ranges(middle, np.asarray(radius * _OUTWARD))
        middle = self.middle.sum(axis=axis, keepdims=keepdims)
        terms = (self.radius + count * EPS * np.abs(self.middle)).sum(axis=axis, keepdims=keepdims)
        return Ranges(np.asarray(middle), np.asarray(terms * (1 + count * EPS) * _OUTWARD))

    def mapped(self, matrix: Any, *, from_right: bool = False) -> Ranges:
        """Return the ranges of products by an exact matrix, from the left or from the right."""
        size = abs(matrix)
        error = self.radius + (self.middle.size + 2) * EPS * np.abs(self.middle)
        middle = self.middle @ matrix if from_right else matrix @ self.middle
        radius = error @ size if from_right else size @ error
        margin = (1 + self.middle.size * EPS) * _OUTWARD
        return Ranges(np.asarray(middle), np.asarray(radius) * margin + _TINY)

    def reshaped(self, shape: tuple[int, ...]) -> Ranges:
        """Return the same ranges in another shape."""
        return Ranges(self.middle.reshape(shape), self.radius.reshape(shape))

    def spread(self, shape: tuple[int, ...]) -> Ranges:
        """Return the same ranges, repeated as numpy does."""
        return Ranges(np.broadcast_to(self.middle, shape), np.broadcast_to(self.radius, shape))

    def gathered(self, shape: tuple[int, ...]) -> Ranges:
        """Return the sums over what numpy repeats ranges of a shape for: the adjoint of spread."""
        if self.middle.shape == shape:
            return self
        extra = self.middle.ndim - len(shape)
        repeated = [i + extra for i, size in enumerate(shape) if size == 1]
        axes = (*range(extra), *repeated)
        return self.summed(axes).reshaped(shape) if axes else self.reshaped(shape)


def _exact_sum(numbers: Array) -> float:
    """Return the sum, rounded once; infinity where a part of it is beyond the doubles."""
    try:
        return math.fsum(numbers.ravel())
    except OverflowError:
        return math.inf


Pull = Callable[[Ranges], list[Ranges]]
"""From the derivatives by a part's numbers to those by the numbers of its arguments."""

Rule = Callable[[Any, list[Ranges]], tuple[Ranges, Pull]]
"""From a part of an expression and its arguments to its numbers and its derivatives."""


class _UnknownError(Exception):
    """A part has no rule, or no derivative at the point."""


def enclosure(expression: cp.Expression, variable: cp.Variable, point: Array) -> Enclosure | None:
    """Return the value and the gradient of an expression of one variable, which is one number.

    None where a part has no rule here, or the expression is not differentiable at the point. Cost:
    a few operations of numpy per function in the expression.
    """
    result = enclosures(expression, variable, point, [0])
    return None if result is None else result[0]


def enclosures(
    expression: cp.Expression, variable: cp.Variable, point: Array, entries: Sequence[int]
) -> list[Enclosure] | None:
    """Return value and gradient of some entries of an expression, by their places in C order.

    None where one of them is unknown, as in ``enclosure``. Cost: the values once, and the
    derivatives, which take as long, once per entry.
    """
    rules = _rules()
    places: dict[int, int] = {}
    values: list[Ranges] = []
    steps: list[tuple[list[int], Pull] | None] = []

    def place_of(node: Any) -> int:
        """Return the number of a part, after those of its arguments."""
        if id(node) in places:
            return places[id(node)]
        step: tuple[list[int], Pull] | None = None
        if node is variable:
            numbers = Ranges.exact(point)
        elif node.is_constant():
            numbers = _constant(node)
        else:
            rule = rules.get(type(node))
            if rule is None or node.is_complex():
                raise _UnknownError
            arguments = [place_of(argument) for argument in node.args]
            numbers, pull = rule(node, [values[i] for i in arguments])
            step = (arguments, pull)
        places[id(node)] = len(values)
        values.append(numbers)
        steps.append(step)
        return places[id(node)]

    with np.errstate(all="ignore"):
        try:
            last = place_of(expression)
        except _UnknownError:
            return None
        if id(variable) not in places:
            return None
        value = values[last]
        result = []
        for entry in entries:
            gradient = _slopes_of_entry(values, steps, entry)[places[id(variable)]]
            if gradient is None:
                return None
            middle, radius = (float(part.flat[entry]) for part in value)
            result.append(Enclosure(middle, radius, *gradient))
    is_known = all(np.isfinite(part).all() for one in result for part in one)
    return result if is_known else None


def _slopes_of_entry(
    values: Sequence[Ranges], steps: Sequence[tuple[list[int], Pull] | None], entry: int
) -> list[Ranges | None]:
    """Return the derivatives of an entry of the last part by all parts, None for those without any.

    ``steps`` has the arguments of each part, by their places before it, and its derivatives.
    """
    seed = np.zeros(values[-1].middle.shape)
    seed.flat[entry] = 1.0
    slopes: list[Ranges | None] = [None] * len(values)
    slopes[-1] = Ranges.exact(seed)
    for place in reversed(range(len(values))):
        step = steps[place]
        slope = slopes[place]
        if step is None or slope is None:
            continue
        arguments, pull = step
        for argument, part in zip(arguments, pull(slope), strict=True):
            before = slopes[argument]
            slopes[argument] = part if before is None else before.plus(part)
    return slopes


Enclosed = Callable[[Array], Enclosure | None]
"""From f to value and gradient of a loss there, None where no gradient is known."""


def weighted_enclosure(parts: Sequence[tuple[float, Enclosed]], f: Array) -> Enclosure | None:
    """Return value and gradient of Σ weight · loss; None where one of them has no gradient."""
    values = Ranges.exact(0.0)
    slopes = Ranges.exact(np.zeros(f.shape))
    for weight, enclosed in parts:
        part = enclosed(f)
        if part is None:
            return None
        factor = Ranges.exact(weight)
        value = Ranges(np.asarray(part.value), np.asarray(part.value_error))
        values = values.plus(factor.times(value))
        slopes = slopes.plus(factor.times(Ranges(part.gradient, part.gradient_error)))
    return Enclosure(float(values.middle), float(values.radius), *slopes)


def squares_enclosure(target: Array, weights: Array | float, f: Array) -> Enclosure:
    """Return value and gradient of ½ Σ weight (f - target)²."""
    away = Ranges.exact(f).plus(Ranges.exact(-target))
    slopes = Ranges.exact(weights).times(away)
    twice = slopes.times(away).summed()
    return Enclosure(float(twice.middle) / 2, float(twice.radius) / 2, *slopes)


def _constant(node: Any) -> Ranges:
    """Return the numbers of a part without variables."""
    value = node.value
    if value is None or np.iscomplexobj(value):
        raise _UnknownError
    dense = value.toarray() if hasattr(value, "toarray") else value
    return Ranges.exact(dense).reshaped(node.shape)


@cache
def _rules() -> Mapping[type, Rule]:
    """Return the rules by the type of an expression: cvxpy is slow to import."""
    import cvxpy as cp
    from cvxpy.atoms.affine import add_expr, binary_operators, index, promote, unary_operators
    from cvxpy.atoms.affine.hstack import Hstack
    from cvxpy.atoms.affine.sum import Sum
    from cvxpy.atoms.affine.vstack import Vstack
    from cvxpy.atoms.elementwise.power import Power, PowerApprox
    from cvxpy.atoms.pnorm import Pnorm, PnormApprox
    from cvxpy.atoms.quad_form import QuadForm
    from cvxpy.atoms.quad_over_lin import quad_over_lin

    moves = (
        cp.reshape,
        cp.transpose,
        Hstack,
        Vstack,
        promote.Promote,
        index.index,
        index.special_index,
    )
    return {
        **dict.fromkeys(moves, _moved),
        add_expr.AddExpression: _sum_of_parts,
        unary_operators.NegExpression: _negative,
        Sum: _sum_of_entries,
        cp.multiply: _product,
        binary_operators.MulExpression: _matrix_product,
        binary_operators.DivExpression: _quotient,
        cp.exp: _of_one(_exp, _exp),
        cp.log: _of_one(_log, _inverse, is_inside=_is_positive),
        cp.logistic: _of_one(_logistic, _sigmoid),
        cp.entr: _of_one(_entropy, _entropy_slope, is_inside=_is_positive),
        cp.huber: _huber,
        cp.abs: _of_one(_size, _sign, is_inside=_is_off_zero),
        **dict.fromkeys((Power, PowerApprox), _power),
        cp.kl_div: _relative_entropy,
        cp.rel_entr: _relative_entropy,
        cp.log_sum_exp: _log_sum_exp,
        **dict.fromkeys((Pnorm, PnormApprox), _norm),
        quad_over_lin: _squares_over,
        QuadForm: _quadratic_form,
    }


# --- functions that are linear in their arguments -------------------------------------------------


def _moved(node: Any, arguments: list[Ranges]) -> tuple[Ranges, Pull]:
    """Return the rule of moves: entries may be repeated or left out, as numbers tell."""
    shapes = [argument.middle.shape for argument in arguments]
    sizes = [argument.middle.size for argument in arguments]
    ends = np.cumsum([0, *sizes])
    numbered = [
        np.arange(first, last, dtype=np.float64).reshape(shape)
        for first, last, shape in zip(ends[:-1], ends[1:], shapes, strict=True)
    ]
    places = np.asarray(node.numeric(numbered)).astype(np.int64).reshape(node.shape)
    middle = np.concatenate([argument.middle.ravel() for argument in arguments])[places]
    radius = np.concatenate([argument.radius.ravel() for argument in arguments])[places]

    def pull(slope: Ranges) -> list[Ranges]:
        flat = places.ravel()
        count = int(ends[-1])
        # bincount of nothing returns integers.
        sums = np.bincount(flat, slope.middle.ravel(), count).astype(np.float64)
        uses = int(np.bincount(flat, minlength=count).max(initial=0))
        # A single entry is not rounded.
        rounding = uses * EPS * np.abs(slope.middle.ravel()) if uses > 1 else 0.0
        errors = np.bincount(flat, slope.radius.ravel() + rounding, count).astype(np.float64)
        errors *= 1 + uses * EPS
        return [
            Ranges(sums[first:last].reshape(shape), errors[first:last].reshape(shape))
            for first, last, shape in zip(ends[:-1], ends[1:], shapes, strict=True)
        ]

    return Ranges(middle, radius), pull


def _sum_of_parts(node: Any, arguments: list[Ranges]) -> tuple[Ranges, Pull]:
    total = arguments[0].spread(node.shape)
    for argument in arguments[1:]:
        total = total.plus(argument)
    return total, lambda slope: [slope.gathered(part.middle.shape) for part in arguments]


def _negative(_: Any, arguments: list[Ranges]) -> tuple[Ranges, Pull]:
    (x,) = arguments
    return Ranges(-x.middle, x.radius), lambda slope: [Ranges(-slope.middle, slope.radius)]


def _sum_of_entries(node: Any, arguments: list[Ranges]) -> tuple[Ranges, Pull]:
    (x,) = arguments
    total = x.summed(node.axis, keepdims=node.keepdims).reshaped(node.shape)
    return total, lambda slope: [_along(node, slope, x.middle.shape)]


def _along(node: Any, slope: Ranges, shape: tuple[int, ...]) -> Ranges:
    """Return the derivatives by an atom's numbers for each entry that went into them."""
    if node.axis is None:
        return slope.reshaped(()).spread(shape)
    axes = np.atleast_1d(node.axis) % len(shape)
    kept = tuple(1 if i in axes else size for i, size in enumerate(shape))
    return slope.reshaped(kept).spread(shape)


def _product(_: Any, arguments: list[Ranges]) -> tuple[Ranges, Pull]:
    x, y = arguments

    def pull(slope: Ranges) -> list[Ranges]:
        return [
            slope.times(y).gathered(x.middle.shape),
            slope.times(x).gathered(y.middle.shape),
        ]

    return x.times(y), pull


def _quotient(node: Any, arguments: list[Ranges]) -> tuple[Ranges, Pull]:
    x, y = arguments
    if not node.args[1].is_constant():
        raise _UnknownError

    def pull(slope: Ranges) -> list[Ranges]:
        return [slope.over(y.middle).gathered(x.middle.shape), _none(y)]

    return x.over(y.middle), pull


def _none(argument: Ranges) -> Ranges:
    """Return the derivatives by numbers that no variable moves."""
    return Ranges.exact(np.zeros(argument.middle.shape))


def _matrix_product(node: Any, arguments: list[Ranges]) -> tuple[Ranges, Pull]:
    x, y = arguments
    if node.args[0].is_constant():
        matrix = _matrix_of(node.args[0])
        if y.middle.ndim != 1:
            raise _UnknownError
        if matrix.ndim == 1:
            return y.mapped(matrix), lambda slope: [_none(x), slope.times(x)]
        return y.mapped(matrix), lambda slope: [_none(x), slope.mapped(matrix.T)]
    if not node.args[1].is_constant() or x.middle.ndim != 1:
        raise _UnknownError
    matrix = _matrix_of(node.args[1])
    if matrix.ndim == 1:
        return x.mapped(matrix), lambda slope: [slope.times(y), _none(y)]
    return x.mapped(matrix, from_right=True), lambda slope: [slope.mapped(matrix), _none(y)]


def _matrix_of(node: Any) -> Any:
    """Return the matrix that a part without variables is; a sparse one stays sparse."""
    value = node.value
    return value if hasattr(value, "toarray") else np.asarray(value)


# --- functions of one number ----------------------------------------------------------------------

Sized = tuple[Array, Array]
"""Numbers, and the sizes of which they may be a few roundings off."""


def _of_one(
    function: Callable[[Array], Sized],
    derivative: Callable[[Array], Sized],
    is_inside: Callable[[Ranges], bool] | None = None,
) -> Rule:
    """Return the rule of a function of each entry whose derivative is monotone."""

    def rule(_: Any, arguments: list[Ranges]) -> tuple[Ranges, Pull]:
        (x,) = arguments
        if is_inside is not None and not is_inside(x):
            raise _UnknownError
        low, high = x.ends
        first, size = derivative(low)
        last, further = derivative(high)
        slopes = Ranges.between((first, last), np.maximum(size, further))
        middle, size = function(x.middle)
        radius = slopes.largest * x.radius + _FUNCTION * size
        return Ranges(middle, radius * _OUTWARD + _TINY), lambda slope: [slope.times(slopes)]

    return rule


def _is_positive(x: Ranges) -> bool:
    return bool((x.ends[0] > 0).all())


def _is_off_zero(x: Ranges) -> bool:
    low, high = x.ends
    return bool(((low > 0) | (high < 0)).all())


def _exp(x: Array) -> Sized:
    result = np.exp(x)
    return result, result


def _log(x: Array) -> Sized:
    result = np.log(x)
    return result, np.abs(result)


def _inverse(x: Array) -> Sized:
    result = 1 / x
    return result, np.abs(result)


def _logistic(x: Array) -> Sized:
    result = np.logaddexp(0.0, x)
    return result, result


def _sigmoid(x: Array) -> Sized:
    result = 1 / (1 + np.exp(-x))
    return result, result


def _entropy(x: Array) -> Sized:
    result = -x * np.log(x)
    return result, np.abs(result)


def _entropy_slope(x: Array) -> Sized:
    logarithm = np.log(x)
    return -logarithm - 1, np.abs(logarithm) + 1


def _size(x: Array) -> Sized:
    return np.abs(x), np.zeros(x.shape)


def _sign(x: Array) -> Sized:
    return np.sign(x), np.zeros(x.shape)


def _huber(node: Any, arguments: list[Ranges]) -> tuple[Ranges, Pull]:
    bend = float(node.M.value)

    def function(x: Array) -> Sized:
        size = np.abs(x)
        result = np.where(size <= bend, size * size, bend * (2 * size - bend))
        return result, result + bend * bend

    def derivative(x: Array) -> Sized:
        result = 2 * np.clip(x, -bend, bend)
        return result, np.abs(result)

    return _of_one(function, derivative)(node, arguments)


def _power(node: Any, arguments: list[Ranges]) -> tuple[Ranges, Pull]:
    exponent = exponent_of(node)
    # Of other exponents cvxpy's function is infinite or without slope where a base is not positive.
    is_even = exponent > 1 and takes_negative_numbers(exponent)

    def raised(x: Array, to: float) -> Array:
        # numpy's power of numbers takes forty times as long as this.
        return x if to == 1 else x * x if to == 2 else np.asarray(np.power(x, to))

    def function(x: Array) -> Sized:
        result = raised(x, exponent)
        return result, np.abs(result)

    def derivative(x: Array) -> Sized:
        # The exponent less 1 is rounded.
        result = exponent * raised(x, exponent - 1)
        size = np.abs(result) * (1 + np.abs(np.log(np.abs(x) + _TINY)))
        return result, size

    return _of_one(function, derivative, None if is_even else _is_positive)(node, arguments)


# --- functions of several numbers -----------------------------------------------------------------


def _relative_entropy(node: Any, arguments: list[Ranges]) -> tuple[Ranges, Pull]:
    """Return the rule of x log(x/y), and of x log(x/y) - x + y, which is cvxpy's kl_div."""
    x, y = arguments
    if not (_is_positive(x) and _is_positive(y)):
        raise _UnknownError
    x_low, x_high = x.ends
    y_low, y_high = y.ends
    is_divergence = type(node).__name__ == "kl_div"
    ratios = (x_low / y_high, x_high / y_low)
    logarithms = [np.log(ratio) for ratio in ratios]
    sizes = np.maximum(*map(np.abs, logarithms)) + 1
    by_x = Ranges.between(logarithms, sizes)
    by_y = Ranges.between((-ratios[0], -ratios[1]), ratios[1])
    one = Ranges.exact(1.0)
    if is_divergence:
        by_y = by_y.plus(one)
    else:
        by_x = by_x.plus(one)
    logarithm = np.log(x.middle / y.middle)
    middle = x.middle * logarithm
    size = np.abs(middle) + x.middle
    if is_divergence:
        middle = middle - x.middle + y.middle
        size = size + y.middle
    radius = by_x.largest * x.radius + by_y.largest * y.radius + _FUNCTION * size

    def pull(slope: Ranges) -> list[Ranges]:
        return [
            slope.times(by_x).gathered(x.middle.shape),
            slope.times(by_y).gathered(y.middle.shape),
        ]

    return Ranges(middle, radius * _OUTWARD + _TINY), pull


def _log_sum_exp(node: Any, arguments: list[Ranges]) -> tuple[Ranges, Pull]:
    (x,) = arguments
    shape = x.middle.shape
    largest = np.max(x.middle, axis=node.axis, keepdims=True)
    away = x.middle - largest
    shares = np.exp(away)
    total = np.sum(shares, axis=node.axis, keepdims=True)
    middle = largest + np.log(total)
    # No value changes by more than the largest change of an entry. Shares of entries far below the
    # largest one may be wrong by more, and count by as much less.
    of_entries = np.max(x.radius, axis=node.axis, keepdims=True)
    count = x.middle.size // middle.size
    rounding = EPS * np.abs(middle) + _FUNCTION * (1 + np.log(total)) + 2 * count * EPS
    radius = (of_entries + rounding) * _OUTWARD
    slopes = shares / total
    reach = x.radius + of_entries + EPS * np.abs(away)
    # Of each share, and of the total as of shares that all are wrong: |away| exp(away) < 1.
    errors = slopes * (np.expm1(reach) * _OUTWARD + _FUNCTION + 2 * count * EPS)
    derivative = Ranges(slopes, errors * _OUTWARD + _TINY)

    def pull(slope: Ranges) -> list[Ranges]:
        return [_along(node, slope, shape).times(derivative)]

    return Ranges(middle, radius).reshaped(node.shape), pull


def _squares_over(node: Any, arguments: list[Ranges]) -> tuple[Ranges, Pull]:
    """Return the rule of Σ x²/y."""
    x, y = arguments
    # With a divisor below 0 nothing is in the domain.
    if getattr(node, "axis", None) is not None or not _is_positive(y):
        raise _UnknownError
    is_constant = node.args[1].is_constant()
    quotients = x.over(y.middle) if is_constant else x.times(_inverse_of(y))
    total = x.times(quotients).summed().reshaped(node.shape)
    twice = Ranges(2 * quotients.middle, 2 * quotients.radius)

    def pull(slope: Ranges) -> list[Ranges]:
        one = slope.reshaped(())
        if is_constant:
            return [one.times(twice), _none(y)]
        squares = quotients.times(quotients).summed()
        falling = Ranges(-squares.middle, squares.radius)
        return [one.times(twice), one.times(falling).reshaped(y.middle.shape)]

    return total, pull


def _norm(node: Any, arguments: list[Ranges]) -> tuple[Ranges, Pull]:
    """Return the rule of √Σ x²."""
    (x,) = arguments
    if node.p != 2 or node.axis is not None:
        raise _UnknownError
    squares = x.times(x).summed()
    low, high = squares.ends
    if not low > 0:
        raise _UnknownError
    roots = (np.sqrt(low), np.sqrt(high))
    size = Ranges.between(roots, roots[1])
    directions = x.times(_inverse_of(size))
    return size.reshaped(node.shape), lambda slope: [slope.reshaped(()).times(directions)]


def _inverse_of(x: Ranges) -> Ranges:
    """Return the ranges of 1/x of positive numbers."""
    if not _is_positive(x):
        raise _UnknownError
    ends = [1 / end for end in x.ends]
    return Ranges.between(ends, ends[0])


def _quadratic_form(node: Any, arguments: list[Ranges]) -> tuple[Ranges, Pull]:
    """Return the rule of xᵀ P x.

    cvxpy believes that P is semidefinite where its eigenvalues are nearly so, or where the user
    says so. Here a sum with a wrong curvature would bound nothing, so that P must be definite as
    a theorem.
    """
    x, weights = arguments
    matrix = weights.middle
    if not node.args[1].is_constant():
        raise _UnknownError
    if not _is_proved_definite(matrix if node.is_atom_convex() else -matrix):
        raise _UnknownError
    flat = x.reshaped((x.middle.size,))
    products = flat.mapped(matrix)
    # cvxpy takes matrices that are symmetric but for rounding, too.
    others = products if np.array_equal(matrix, matrix.T) else flat.mapped(matrix.T)
    total = flat.times(products).summed().reshaped(node.shape)

    def pull(slope: Ranges) -> list[Ranges]:
        slopes = slope.reshaped(()).times(products.plus(others))
        return [slopes.reshaped(x.middle.shape), _none(weights)]

    return total, pull


_PROVED: list[Array] = []
"""The two matrices that were proved definite last: a Newton step asks for many gradients."""


def _is_proved_definite(matrix: Array) -> bool:
    """Return ``is_positive_definite``, from memory if the matrix has the same numbers as before."""
    # A copy of the list: another thread may prove one in between.
    if any(np.array_equal(matrix, before) for before in tuple(_PROVED)):
        return True
    if not is_positive_definite(matrix):
        return False
    _PROVED[:] = [matrix.copy(), *_PROVED[:1]]
    return True


def is_positive_definite(matrix: Array) -> bool:
    """Return whether the symmetric part of a matrix is positive definite; False is no proof.

    Rump (2006, Theorem 2.3): so it is if Cholesky's decomposition succeeds in floating point after
    what its rounding can be has been taken from the diagonal, γ trace with γ = (n + 1) u/(1 - 2(n +
    1) u). Here n + 5 in place of n + 1 covers the rounding of the symmetric part, of the trace and
    of the differences. Cost: n³/3 operations.
    """
    size = len(matrix)
    symmetric = (matrix + matrix.T) / 2
    diagonal = symmetric.diagonal()
    if not (np.isfinite(symmetric).all() and (diagonal > 0).all()):
        return False
    unit = EPS / 2
    roundings = (size + 5) * unit
    margin = roundings / (1 - 2 * roundings) * float(diagonal.sum()) * _OUTWARD + size * _TINY
    shifted = symmetric.copy()
    np.fill_diagonal(shifted, diagonal - margin)
    try:
        np.linalg.cholesky(shifted)
    except np.linalg.LinAlgError:
        return False
    return True

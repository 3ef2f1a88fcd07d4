"""A look at losses and constraints of classes outside this package, before anything is solved.

Such a class states one function several times: as a value, as a gradient, and for solvers. Closed
forms and certificates take the gradient's word for the value, so that a wrong one would prove what
is not true. At two points what a convex function promises is seen to hold: it is nowhere below its
tangents.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ldpopt.adjustable import is_from_outside
from ldpopt.constraints import Constraint
from ldpopt.constraints.base import LinearInequalities
from ldpopt.errors import InvalidInputError, users_code
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import Loss
from ldpopt.losses.base import SeparableLoss

Array = NDArray[np.float64]

# Steps around a point, relative to its smallest frequency: short, so that slopes decide.
_STEP = 2.0**-10

# What rounding and the curvature along a step may hide, relative to the terms of the comparison.
_HIDDEN = 1e-6


def check_own_classes(
    loss: Loss, constraints: Sequence[Constraint], start: FrequencyEstimate
) -> None:
    """Raise an error if what a user's class states at a few points does not fit together.

    Raises
    ------
    InvalidInputError
        If something has another shape, a bound is NaN, a value near a point is below the tangent
        there, or a response is not the minimiser at its price.
    FunctionError
        If the code of a class raises an error.
    """
    for _, leaf in loss.leaves():
        if is_from_outside(type(leaf)):
            _check_loss(leaf, start)
    for constraint in constraints:
        if is_from_outside(type(constraint)):
            _check_constraint(constraint, start.d)


def _check_loss(loss: Loss, start: FrequencyEstimate) -> None:
    """Raise an error unless value, gradient and response of a user's class are of one function."""
    one = start[(0,) * (start.frequencies.ndim - 1)]
    d = one.d
    rng = np.random.default_rng(0)
    separable = loss.separable
    for point in (np.full(d, 1 / d), rng.dirichlet(np.full(d, 4.0))):
        # Of different lengths, so that no two parts of a slope cancel along it.
        step = _STEP * point.min() * rng.choice((-1.0, 1.0), d) * rng.uniform(0.5, 1.0, d)
        value = _number(loss, point, one)
        with users_code(f"the gradient of {loss!r}"):
            slope = np.asarray(loss.gradient(point, one))
        _require_numbers(loss, "gradient", slope, (d,))
        # Outside its domain a loss may be anything.
        if not loss.convex or not (np.isfinite(value) and np.isfinite(slope).all()):
            continue
        for move in (step, -step):
            above = _number(loss, point + move, one) - value
            tangent = float(slope @ move)
            terms = abs(value) * 2**-20 + float(np.abs(slope) @ np.abs(move))
            if above < tangent - _HIDDEN * terms:
                raise InvalidInputError(
                    f"the gradient of {loss!r} is not that of its value, or the value is not "
                    f"convex: a step along which it promises {tangent:.3g} adds {above:.3g}"
                )
        if separable is not None:
            # At these prices the minimisers are about as large as the point.
            _check_response(separable, one, (-slope.max(), -slope.min()), (point, step))


def _check_response(
    loss: SeparableLoss,
    one: FrequencyEstimate,
    prices: tuple[float, float],
    beside: tuple[Array, Array],
) -> None:
    """Raise an error unless the response of a user's class minimises its value at some prices.

    Parameters
    ----------
    loss, one
        The loss, and one vector that it is of.
    prices
        The lower one first.
    beside
        A point that may not be better than the response, and a step from the response to others.
    """
    shape = (1, one.d)
    data = tuple(np.broadcast_to(array, shape) for array in loss.data(one))
    constants = loss.constants(one)
    responses = []
    for price in prices:
        with users_code(f"the response of {loss!r}"):
            response = np.array(loss.response(np.full((1, 1), price), data, constants))
        if response.shape != shape or np.isnan(response).any():
            raise InvalidInputError(
                f"the response of {loss!r} to prices of shape (m, 1), with data of shape (m, d), "
                f"must be numbers of shape (m, d), none of them NaN; for m = 1 and d = {one.d} it "
                f"is {np.array2string(response, threshold=8)}"
            )
        responses.append(response[0])
    is_rising = (responses[1] > responses[0]).any()
    cause = ": it rises with μ, so that its sign of μ is wrong" if is_rising else ""
    point, step = beside
    for price, f in zip(prices, responses, strict=True):
        value = _number(loss, f, one) if np.isfinite(f).all() else np.inf
        # Without a minimum on the line there is nothing to compare.
        if not np.isfinite(value):
            continue
        for other in (point, f + step, f - step):
            gain = value - _number(loss, other, one) + price * float((f - other).sum())
            terms = abs(value) + abs(price) * float(np.abs(f - other).sum())
            if gain > _HIDDEN * terms:
                raise InvalidInputError(
                    f"the response of {loss!r} is not the minimiser of its value + μ Σf: at μ = "
                    f"{price:.3g} another point is lower by {gain:.3g}{cause}"
                )


def _check_constraint(constraint: Constraint, d: int) -> None:
    """Raise an error unless what a user's class states is of the right kind and shape."""
    constraint.require_definition(d)
    # First the rows: the violation may be theirs.
    with users_code(f"the rows of {constraint!r}"):
        rows = constraint.rows(d)
    if rows is not None:
        _require_rows(constraint, rows, d)
    with users_code(f"the violation of {constraint!r}"):
        violation = np.asarray(constraint.violation(np.full(d, 1 / d)))
    _require_numbers(constraint, "violation", violation, ())


def _require_rows(constraint: Constraint, rows: LinearInequalities, d: int) -> None:
    """Raise an error unless rows and their bounds have their shapes, and no bound is NaN."""
    sides = [np.shape(rows.lower), np.shape(rows.upper)]
    if rows.matrix.shape[1] != d or sides != [rows.matrix.shape[:1]] * 2:
        raise InvalidInputError(
            f"the rows of {constraint!r} have a matrix of shape {rows.matrix.shape} and bounds of "
            f"the shapes {sides[0]} and {sides[1]}: of m rows on {d} values they are (m, {d}) and "
            "(m,)"
        )
    if np.isnan([rows.lower, rows.upper]).any():
        raise InvalidInputError(
            f"the rows of {constraint!r} have a bound that is NaN: where there is no bound it is "
            "-inf or inf"
        )


def _number(loss: Loss, point: Array, estimate: FrequencyEstimate) -> float:
    """Return the value of a loss at a point."""
    with users_code(f"the value of {loss!r}"):
        value = np.asarray(loss.value(point, estimate))
    _require_numbers(loss, "value", value, ())
    return float(value)


def _require_numbers(
    part: Loss | Constraint, what: str, numbers: Array, shape: tuple[int, ...]
) -> None:
    """Raise an error unless numbers at one vector have a shape, and none is NaN."""
    if numbers.shape != shape or numbers.dtype.kind not in "fiu" or np.isnan(numbers).any():
        raise InvalidInputError(
            f"the {what} of {part!r} at f of shape (..., d) must be numbers of shape "
            f"{'(..., d)' if shape else '(...)'}, none of them NaN; at one vector it is "
            f"{np.array2string(numbers, threshold=8)}"
        )

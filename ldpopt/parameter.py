"""Numbers that change from solve to solve, while what was compiled stays."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.errors import InvalidInputError, InvalidTypeError
from ldpopt.frames import labels_of
from ldpopt.immutable import Immutable

Array = NDArray[np.float64]


class Parameter(cp.Parameter):  # type: ignore[misc]  # cvxpy states no types
    """A number, or an array, that stands in a loss or a constraint and may change between solves.

    It is a ``cvxpy.Parameter`` too, for the functions of ``Custom``. Losses and constraints take it
    wherever they take a number. Every solve and every certificate is about the value of that
    moment: a solution that is kept is not affected by a later change.

    Parameters
    ----------
    name
        What messages and ``Problem.path`` call it.
    value
        A finite number or array, which also states the shape; None for a value that is set later.
    nonneg
        Whether it can never be negative, which cvxpy's rules need where it multiplies a convex
        function. By default that is so if the value is not negative, or there is none yet.
    shape
        The shape of a parameter without a value: a single number by default.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the name is empty, or the value is not finite or, with ``nonneg``, negative.

    Examples
    --------
    >>> from ldpopt import Problem, constraints, losses
    >>> total = Parameter("total", 1.0)
    >>> problem = Problem(losses.LeastSquares(), [constraints.SumsTo(total)])
    >>> first = problem.solve([0.5, 0.25])
    >>> total.value = 2.0
    >>> problem.solve([0.5, 0.25]).frequencies, first.frequencies
    (array([1.125, 0.875]), array([0.625, 0.375]))
    """

    def __init__(
        self,
        name: str,
        value: ArrayLike | None = None,
        *,
        nonneg: bool | None = None,
        shape: tuple[int, ...] = (),
    ) -> None:
        if not isinstance(name, str) or not name:
            raise InvalidTypeError(f"the name of a parameter must be a text, got {name!r}")
        if nonneg is not None:
            nonneg = validate.flag(f"nonneg of the parameter {name}", nonneg)
        # Checked before cvxpy sees it, whose own message would name neither remedy nor index.
        number = None if value is None else _finite(name, value)
        # cvxpy's rules need the sign: a weight of unknown sign would make no problem convex.
        if nonneg is None:
            nonneg = number is None or bool(np.all(number >= 0))
        if number is not None:
            shape = number.shape
        super().__init__(shape, name=name, nonneg=nonneg)
        # Last: cvxpy compares a value with the shape and the sign.
        if number is not None:
            self.value = number

    @property
    def value(self) -> Any:
        """The present value: a number or an array, None before the first one is set."""
        return super().value

    @value.setter
    def value(self, value: ArrayLike | None) -> None:
        self.save_value(None if value is None else self.checked(value))

    def checked(self, value: ArrayLike) -> Array:
        """Return a value of this parameter as an array.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If it is not finite, of another shape, or of the wrong sign.
        """
        number = _finite(self.name(), value)
        if number.shape != self.shape:
            raise InvalidInputError(
                f"the parameter {self.name()} has shape {self.shape}, "
                f"its value has shape {number.shape}"
            )
        if self.is_nonneg() and np.any(number < 0):
            at = validate.first(np.asarray(number < 0))
            raise InvalidInputError(
                f"the parameter {self.name()} must be >= 0, got {number[at]:g}"
                f"{validate.placed(at)}: make it with nonneg=False if it may be negative"
            )
        return number

    def __reduce__(self) -> tuple[Any, ...]:
        # By the constructor: a copy is another parameter, with an id of its own.
        state = (self.name(), self.value, self.is_nonneg(), self.shape)
        return _restored, state

    def __repr__(self) -> str:
        value = "" if self.value is None else f", {np.asarray(self.value).tolist()!r}"
        return f"Parameter({self.name()!r}{value})"


def _leaving_losses(combine: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return cvxpy's product or sum, which leaves that with a loss to the loss."""

    @wraps(combine)
    def combined(self: cp.Expression, other: Any) -> Any:
        return NotImplemented if isinstance(other, Immutable) else combine(self, other)

    return combined


# cvxpy makes a constant of whatever it multiplies or adds, and fails on a loss before Python can
# ask the loss. In the base class, since 2 * lam is an expression, and no parameter.
for _operator in ("__mul__", "__add__", "__sub__"):
    setattr(cp.Expression, _operator, _leaving_losses(getattr(cp.Expression, _operator)))


def _restored(name: str, value: Any, nonneg: bool, shape: tuple[int, ...]) -> Parameter:
    """Return the parameter of a pickle."""
    return Parameter(name, value, nonneg=nonneg, shape=shape)


def _finite(name: str, value: ArrayLike) -> Array:
    """Return a finite float64 array."""
    if labels_of(value) is not None:
        raise InvalidInputError(
            f"the parameter {name} holds numbers without labels: bring them into the order of the "
            "estimate, and pass them as an array (to_numpy)"
        )
    number = validate.array(f"the parameter {name}", value).astype(np.float64)
    wrong = ~np.isfinite(number)
    if wrong.any():
        at = validate.first(wrong)
        raise InvalidInputError(
            f"the parameter {name} must be finite, got {number[at]}{validate.placed(at)}"
        )
    return number

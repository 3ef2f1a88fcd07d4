"""Bounds value by value."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.constraints.base import Constraint, LinearInequalities, distinct
from ldpopt.errors import InvalidInputError

if TYPE_CHECKING:
    import cvxpy as cp

Array = NDArray[np.float64]


class _Box(Constraint):
    """Bounds value by value, in whichever way they are said."""

    @abstractmethod
    def box(self, d: int) -> tuple[Array, Array]:
        """Return (lower, upper) of shape (d,)."""

    def violation(self, f: Array) -> Array:
        """Return the largest distance of a value from its bounds."""
        lower, upper = self.box(f.shape[-1])
        return np.asarray(np.max(np.maximum(lower - f, f - upper), axis=-1).clip(min=0.0))

    def rows(self, d: int) -> LinearInequalities:
        """Return the bounds as rows."""
        from scipy import sparse

        return LinearInequalities(sparse.eye_array(d, format="csr"), *self.box(d))

    def row_name(self, row: int, d: int) -> str:
        """Return the bounds of one value."""
        lower, upper = (bound[row] for bound in self.box(d))
        if lower == upper:
            return f"f[{row}] = {lower:g}"
        least, most = (
            (f"{lower:g} <= " if np.isfinite(lower) else ""),
            (f" <= {upper:g}" if np.isfinite(upper) else ""),
        )
        return f"{least}f[{row}]{most}"

    def cone_form(self, f: cp.Expression) -> list[cp.Constraint]:
        """Return the finite bounds, with coefficients of order 1 for the solver's variable, which counts in units of 1/d."""
        d = f.size
        lower, upper = self.box(d)
        forms = []
        for bound, sign in ((lower, 1), (upper, -1)):
            finite = np.flatnonzero(np.isfinite(bound))
            if len(finite):
                forms.append(
                    sign * d * (f[finite] if len(finite) < d else f) >= sign * d * bound[finite]
                )
        return forms


class NonNegative(_Box):
    """f_v >= 0 for every value.

    Examples
    --------
    >>> float(NonNegative().violation(np.array([0.5, -0.25])))
    0.25
    """

    def box(self, d: int) -> tuple[Array, Array]:
        """Return 0 and infinity."""
        return np.zeros(d), np.full(d, np.inf)


class Bounds(_Box):
    """lower <= f_v <= upper.

    Parameters
    ----------
    lower, upper
        A number for all values, or one a value; -inf and inf stand for no bound.

    Raises
    ------
    InvalidInputError
        If a lower bound is above its upper bound (the first index is named), or one is NaN.

    Examples
    --------
    >>> float(Bounds(0.0, 0.4).violation(np.array([0.5, 0.25])))
    0.09999999999999998
    """

    def __init__(self, lower: ArrayLike, upper: ArrayLike) -> None:
        self.lower = validate.array("lower", lower).astype(np.float64)
        self.upper = validate.array("upper", upper).astype(np.float64)
        try:
            crossed = ~np.atleast_1d(
                (self.lower <= self.upper) & (self.lower < np.inf) & (self.upper > -np.inf)
            )
        except ValueError:
            raise InvalidInputError(
                f"lower and upper must be numbers or of one shape, got {self.lower.shape} and {self.upper.shape}"
            ) from None
        if crossed.any():
            at = int(np.argmax(crossed))
            low, high = (np.broadcast_to(x, crossed.shape)[at] for x in (self.lower, self.upper))
            raise InvalidInputError(
                f"lower must be <= upper, found {low} and {high} at index {at}: no number lies between"
            )

    def validate_for(self, d: int) -> None:
        """Raise an error unless the bounds are numbers or d of them."""
        for name, bound in (("lower", self.lower), ("upper", self.upper)):
            if bound.shape not in ((), (d,)):
                raise InvalidInputError(
                    f"{name} must be a number or have shape ({d},), got {bound.shape}"
                )

    def box(self, d: int) -> tuple[Array, Array]:
        """Return the bounds, one a value."""
        return np.broadcast_to(self.lower, (d,)).copy(), np.broadcast_to(self.upper, (d,)).copy()

    def __repr__(self) -> str:
        said = (f"{x:g}" if x.ndim == 0 else f"<{len(x)} values>" for x in (self.lower, self.upper))
        return f"Bounds({', '.join(said)})"


class Fixed(_Box):
    """f_v = value for some values: they are known.

    Parameters
    ----------
    indices
        Distinct indices of the domain.
    values
        One finite number an index.

    Examples
    --------
    >>> float(Fixed([1], [0.25]).violation(np.array([0.5, 0.5])))
    0.25
    """

    def __init__(self, indices: ArrayLike, values: ArrayLike) -> None:
        self.indices = distinct("indices", indices)
        self.values = np.atleast_1d(validate.array("values", values).astype(np.float64))
        if self.values.shape != self.indices.shape or not np.isfinite(self.values).all():
            raise InvalidInputError(
                f"values must be {len(self.indices)} finite numbers, one an index, got {self.values}"
            )

    def validate_for(self, d: int) -> None:
        """Raise an error if an index is outside the domain."""
        validate.whole_numbers("indices", self.indices, low=0, high=d - 1)

    def box(self, d: int) -> tuple[Array, Array]:
        """Return the fixed values as both bounds, and no bounds elsewhere."""
        lower, upper = np.full(d, -np.inf), np.full(d, np.inf)
        lower[self.indices] = upper[self.indices] = self.values
        return lower, upper

    def __repr__(self) -> str:
        return f"Fixed(<{len(self.indices)} values>)"

"""Few values that are not zero."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from ldpopt import validate
from ldpopt.constraints.base import Constraint
from ldpopt.constraints.bounds import Bounds
from ldpopt.errors import InvalidInputError

if TYPE_CHECKING:
    import cvxpy as cp

Array = NDArray[np.float64]


class AtMost(Constraint):
    """At most k values are not zero: not convex, yet exact for least squares on the simplex.

    Parameters
    ----------
    k
        Largest number of values that are not zero, >= 1.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If k is not a whole number >= 1.

    Examples
    --------
    >>> float(AtMost(1).violation(np.array([0.75, 0.25])))
    0.25
    """

    convex: ClassVar[bool] = False
    remedy: ClassVar[str] = (
        "it has a closed form with LeastSquares() under NonNegative() and SumsTo(...)"
    )

    def __init__(self, k: int) -> None:
        # With k = 0 only the zero vector would be left, which is no distribution.
        self.k = validate.integer("k", k, minimum=1)

    @property
    def latex(self) -> str:
        """The set in LaTeX."""
        return rf"\lVert f \rVert_0 \le {self.k}"

    def violation(self, f: Array) -> Array:
        """Return the (k+1)-th largest absolute value, which must become zero."""
        # Mostly no look at sizes is needed. A partition at k needs k + 1 values.
        if np.count_nonzero(f, axis=-1).max(initial=0) <= self.k:
            return np.zeros(f.shape[:-1])
        # A partition of the negated sizes puts the k largest first.
        sizes = -np.abs(f)
        return np.asarray(-np.partition(sizes, self.k, axis=-1)[..., self.k])

    @property
    def largest_support(self) -> int:  # type: ignore[override]
        """The number k."""
        return self.k

    def restricted_to(self, f: Array) -> Bounds:
        """Return the bounds that hold all other values at 0; none while more may differ from it."""
        is_kept = f != 0
        is_kept |= np.count_nonzero(is_kept) < self.k
        return Bounds(np.where(is_kept, -np.inf, 0.0), np.where(is_kept, np.inf, 0.0))

    def cone_form(self, f: cp.Expression) -> list[cp.Constraint]:
        """Raise an error, since a cone program is convex."""
        raise InvalidInputError(
            f"AtMost({self.k}) is not convex, so no cone solver takes it: {self.remedy}"
        )

    def __repr__(self) -> str:
        return f"AtMost({self.k})"

"""Where the minimum is sought: each constraint knows its violation and the form that a solver sees."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ldpopt import validate

if TYPE_CHECKING:
    import cvxpy as cp

Array = NDArray[np.float64]


class Constraint(ABC):
    """A convex set of frequency vectors."""

    @abstractmethod
    def violation(self, f: Array) -> Array:
        """Return how far f of shape (..., d) is outside, in units of frequency, 0 inside: shape (...)."""

    @abstractmethod
    def cone_form(self, f: cp.Expression) -> list[cp.Constraint]:
        """Return the constraint on a cvxpy expression of shape (d,)."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class NonNegative(Constraint):
    """f_v >= 0 for every value.

    Examples
    --------
    >>> float(NonNegative().violation(np.array([0.5, -0.25])))
    0.25
    """

    def violation(self, f: Array) -> Array:
        """Return the largest negative part."""
        return np.asarray(np.maximum(-np.min(f, axis=-1), 0.0))

    def cone_form(self, f: cp.Expression) -> list[cp.Constraint]:
        """Return d f >= 0: coefficients of order 1 for the solver's variable, which counts in units of 1/d."""
        return [f.size * f >= 0]


class SumsTo(Constraint):
    """Σ f_v = total.

    Parameters
    ----------
    total
        A finite number; 1 for a distribution.

    Examples
    --------
    >>> float(SumsTo(1.0).violation(np.array([0.5, 0.25])))
    0.25
    """

    def __init__(self, total: float = 1.0) -> None:
        self.total = validate.real("total", total)

    def violation(self, f: Array) -> Array:
        """Return abs(Σ f - total)."""
        return np.asarray(np.abs(np.sum(f, axis=-1) - self.total))

    def cone_form(self, f: cp.Expression) -> list[cp.Constraint]:
        """Return sum(d f) == d total: coefficients of order 1 for the solver's variable."""
        import cvxpy as cp

        return [cp.sum(f.size * f) == f.size * self.total]

    def __repr__(self) -> str:
        return f"SumsTo({self.total:g})"

"""What every loss tells the paths and the certificate.

Shapes: f and the estimate's frequencies are (..., d); values are (...); gradients are (..., d).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.estimate import FrequencyEstimate
from ldpopt.immutable import Immutable

if TYPE_CHECKING:
    import cvxpy as cp
    from scipy.sparse.linalg import LinearOperator

Array = NDArray[np.float64]
_AT_KINK = 1e-7  # distance from a kink that counts as none: solvers leave up to this much


class Kinks(NamedTuple):
    """A separable loss whose slope in each value is one number below a kink and another above: arrays of shape (..., d)."""

    place: Array
    below: Array
    above: Array

    def subgradient(self, f: Array, target: Array) -> Array:
        """Return the subgradient at f that is nearest to ``target``, each of shape (..., d)."""
        step = f - self.place
        slope = np.where(step < 0, self.below, self.above)
        return np.where(np.abs(step) <= _AT_KINK, np.clip(target, self.below, self.above), slope)


class Loss(Immutable):
    """A function of the frequencies f, given an estimate: convex, but for those that say they are not."""

    convex: ClassVar[bool] = True
    """Whether it is convex. One that is not is solved through its ``majorant``, and certified by its last one."""

    nonnegative_data: ClassVar[int] = 0
    """How many of the first arrays of ``data`` are never negative, which the cone form may need."""

    nonnegative_domain: ClassVar[bool] = False
    """Whether the loss is infinite as soon as a value is negative."""

    scope: ClassVar[str] = "the problem"
    """What a certificate of the loss covers."""

    solved_for: ClassVar[str] = ""
    """What the family's closed forms are applied to instead of f̃, for their name; empty for f̃."""

    @property
    def family(self) -> type[Loss]:
        """The loss whose closed forms solve this one too: its own type, unless it moves nothing but ``target``."""
        return type(self)

    @property
    def compiled_key(self) -> Hashable:
        """Equal for losses whose cone forms differ by ``data`` and ``constants`` alone: itself."""
        return self

    @property
    def channel(self) -> LinearOperator | None:
        """For a loss -mean log (W f): W, so that mixture weights solve it on the simplex; None for any other."""
        return None

    def validate_for(self, estimate: FrequencyEstimate) -> None:
        """Raise an error if the loss is not defined for this estimate."""

    @abstractmethod
    def value(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return the loss of f, in its own units."""

    @abstractmethod
    def gradient(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return the gradient at f; ``inf`` where a value must be zero."""

    def kinks(self, estimate: FrequencyEstimate) -> Kinks | None:
        """Return the kinks of a loss that is linear in each value up to one kink and beyond it; None for any other."""
        return None

    def majorant(self, f: Array, estimate: FrequencyEstimate) -> Loss:
        """Return a convex loss that is nowhere smaller up to a constant and touches this one at f; itself, if convex."""
        return self

    @abstractmethod
    def data(self, estimate: FrequencyEstimate) -> tuple[Array, ...]:
        """Return the arrays of shape (..., d) by which one estimate differs from another: the solver's parameters."""

    def constants(self, estimate: FrequencyEstimate) -> tuple[float, ...]:
        """Return the numbers that are compiled into the solver's problem."""
        return ()

    @abstractmethod
    def cone_form(
        self, f: cp.Expression, data: tuple[Any, ...], constants: tuple[float, ...]
    ) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Return an expression with the same minimiser over f, in units of order 1, and the constraints it needs."""

    def support(self, estimate: FrequencyEstimate) -> NDArray[np.bool_] | None:
        """Return where the loss lets a value be non-zero, shape (..., d); None is everywhere."""
        return None

    def response(
        self, mu: Array, data: tuple[Array, ...], constants: tuple[float, ...]
    ) -> Array | None:
        """Return, value by value, the minimiser of ℓ_v(f) + μ f over the line, ±inf where it escapes.

        Parameters
        ----------
        mu
            Multipliers, shape (m, 1).
        data, constants
            As ``data`` and ``constants`` return them, the arrays of shape (m, d).

        Returns
        -------
        Shape (m, d), not increasing in μ; None if the loss is not separable or has no such formula.
        """
        return None

    @property
    def separable(self) -> bool:
        """Whether values interact through the constraints only, and each has a ``response``."""
        return type(self).response is not Loss.response

    def domain(self, constants: tuple[float, ...]) -> tuple[float, float]:
        """Return between which values of f_v the loss is finite."""
        return -math.inf, math.inf

    def strong_convexity(self) -> float:
        """Return m such that the loss minus m/2 ‖f‖² is convex; 0 if there is none."""
        return 0.0

    def curvature(self, estimate: FrequencyEstimate, largest: float) -> Array:
        """Return m such that it is convex on 0 <= f <= ``largest``, shape (...): what turns a gap into a distance."""
        return np.full(estimate.frequencies.shape[:-1], self.strong_convexity())

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

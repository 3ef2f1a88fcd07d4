"""What every loss states: four things that all have, and three groups of what few need to state.

Each optional member has a default that is right for a loss that is finite everywhere and has no
special structure. A loss that overrides one of them opens a faster path, or a certificate where
there was none. Shapes: f and the estimate's frequencies are (..., d); values are (...); gradients
are (..., d).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt.estimate import FrequencyEstimate
from ldpopt.immutable import Immutable

if TYPE_CHECKING:
    import cvxpy as cp
    from scipy.sparse.linalg import LinearOperator

Array = NDArray[np.float64]
# Distance from a kink that counts as none: solvers leave up to this much.
_AT_KINK = 1e-7

# Error of a gradient relative to its size: 64 operations, each rounded by half of eps.
_ROUNDINGS = 32 * float(np.finfo(np.float64).eps)

_ONE = np.ones(1).tobytes()


def ones(shape: tuple[int, ...]) -> Array:
    """Return ``np.broadcast_to(1.0, shape)``, in a tenth of its time: every solve asks for it."""
    return np.ndarray(shape, np.float64, buffer=_ONE, strides=(0,) * len(shape))


class Kinks(NamedTuple):
    """Kinks of a loss whose slope in each value is one number below and another above its kink.

    All arrays have shape (..., d).
    """

    place: Array
    below: Array
    above: Array

    def subgradient(self, f: Array, target: Array) -> Array:
        """Return the subgradient at f that is nearest to ``target``, each of shape (..., d)."""
        # Solvers stop near a kink, where the slope on one side would be far from the target.
        step = f - self.place
        slope = np.where(step < 0, self.below, self.above)
        nearest = np.clip(target, self.below, self.above)
        return np.where(np.abs(step) <= _AT_KINK, nearest, slope)


class EffectiveDomain:
    """Where the loss is finite: everywhere, unless stated here."""

    nonnegative_domain: ClassVar[bool] = False
    """Whether the loss is infinite as soon as a value is negative."""

    def domain(self, constants: tuple[float, ...]) -> tuple[float, float]:
        """Return the ends of the interval of f_v in which the loss is finite."""
        return -math.inf, math.inf

    def support(self, estimate: FrequencyEstimate) -> NDArray[np.bool_] | None:
        """Return where values may be non-zero, shape (..., d); None stands for everywhere."""
        return None


class Structure:
    """What else is known of the loss as a function: convex, nothing more, unless stated here."""

    convex: ClassVar[bool] = True
    """Whether the loss is convex; if not, paths minimise its ``majorant`` step by step."""

    scope: ClassVar[str] = "the problem"
    """What a certificate of the loss covers."""

    @property
    def separable(self) -> SeparableLoss | None:
        """The loss itself if it is a ``SeparableLoss``, else None."""
        return None

    def majorant(self, f: Array, estimate: FrequencyEstimate) -> Loss:
        """Return a convex loss that touches this one at f and, but for a constant, is never below.

        Only losses that are not convex have one; on any other the call raises an error.
        """
        raise NotImplementedError(f"{self!r} has no majorant")

    def convexified(self, f: Array, estimate: FrequencyEstimate) -> Loss:
        """Return the loss itself if it is convex, else its majorant at f."""
        if self.convex:
            return self  # type: ignore[return-value]  # a part of Loss alone
        return self.majorant(f, estimate)

    def kinks(self, estimate: FrequencyEstimate) -> Kinks | None:
        """Return the kinks of a loss that is linear in each value but for one kink, else None."""
        return None

    def curvature(
        self, estimate: FrequencyEstimate, lower: ArrayLike = -math.inf, upper: ArrayLike = math.inf
    ) -> Array:
        """Return m such that the loss minus ½ Σ m_v f_v² is convex where lower <= f <= upper.

        Bounds and result broadcast with (..., d). Of a sum over values it is the smallest second
        derivative between the bounds: the second derivative itself where these are equal.
        """
        return np.zeros(estimate.frequencies.shape)

    def gradient_error(self, f: Array, gradient: Array, estimate: FrequencyEstimate) -> Array:
        """Return what rounding may have changed in a gradient that was computed, shape (..., d).

        Certificates add it to what they cannot explain. By default a gradient is taken to be
        right to 64 roundings of its own size; a loss whose gradient cancels states its own error.
        """
        return _ROUNDINGS * np.abs(gradient)


class Equivalence:
    """Which other loss or form has the same minimiser: none, unless stated here."""

    formula: ClassVar[str] = ""
    """The loss in the papers' letters, for tables; empty where it has none that is short."""

    @property
    def uses_noise(self) -> bool:
        """Whether it models the noise of raw estimates: processed ones then deserve a warning."""
        return False

    @property
    def family(self) -> type[Loss]:
        """The loss whose closed forms solve this one too, from another ``target``; or its type."""
        return type(self)  # type: ignore[return-value]  # a part of Loss alone

    solved_for: ClassVar[str] = ""
    """Name of what the family's closed forms are applied to; empty where that is f̃."""

    @property
    def channel(self) -> LinearOperator | None:
        """For a loss -mean log (W f): W, whose mixture weights minimise it on the simplex."""
        return None

    @property
    def compiled_key(self) -> Hashable:
        """Equal for losses whose cone forms differ by ``data`` and ``constants`` alone: itself."""
        return self


class Loss(EffectiveDomain, Structure, Equivalence, Immutable):
    """A function of the frequencies f, given an estimate.

    A new loss states ``value``, ``gradient``, ``data`` and ``cone_form``, and derives from
    ``SeparableLoss`` if it is a sum over values with a formula for its ``response``. What it may
    state besides is grouped in the classes above.
    """

    nonnegative_data: ClassVar[int] = 0
    """How many of the first arrays of ``data`` are never negative: cvxpy's rules may need it."""

    def validate_for(self, estimate: FrequencyEstimate) -> None:
        """Raise an error if the loss is not defined for this estimate."""

    @abstractmethod
    def value(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return the loss of f, in its own units."""

    @abstractmethod
    def gradient(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return the gradient at f; ``inf`` where a value must be zero."""

    @abstractmethod
    def data(self, estimate: FrequencyEstimate) -> tuple[Array, ...]:
        """Return the estimate-dependent arrays (..., d), which become the solver's parameters."""

    def constants(self, estimate: FrequencyEstimate) -> tuple[float, ...]:
        """Return the numbers that are compiled into the solver's problem."""
        return ()

    def finer_constants(
        self,
        f: Array,
        estimate: FrequencyEstimate,
        constants: tuple[float, ...],
    ) -> tuple[float, ...] | None:
        """Return the constants for a second solve, or None where those of the first one fit.

        ``f`` is the point of the first solve, shape (d,): a loss whose ``constants`` hold its units
        sees there how large its terms are.
        """
        return None

    @abstractmethod
    def cone_form(
        self,
        f: cp.Expression,
        data: tuple[Any, ...],
        constants: tuple[float, ...],
    ) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Return an expression with the same minimiser over f, and the constraints it needs.

        It is in units of order 1, for which solvers' tolerances are made.

        Parameters
        ----------
        f
            Frequencies, shape (d,).
        data, constants
            As ``data`` and ``constants`` return them for one trial: arrays, or cvxpy parameters of
            shape (d,) in their place.
        """

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class SeparableLoss(Loss):
    """A loss Σ ℓ_v(f_v) with a formula for the minimiser of ℓ_v(f) + μ f.

    On a box with at most one total its values interact through the multiplier μ alone, so that one
    root solves the problem (``closed_form.one_root``).
    """

    @property
    def separable(self) -> SeparableLoss:
        """The loss itself."""
        return self

    @abstractmethod
    def response(
        self,
        mu: Array,
        data: tuple[Array, ...],
        constants: tuple[float, ...],
    ) -> Array:
        """Return the minimiser of ℓ_v(f) + μ f over the line, ±inf if it has none.

        Parameters
        ----------
        mu
            Multipliers, shape (m, 1).
        data, constants
            As ``data`` and ``constants`` return them, the arrays of shape (m, d).

        Returns
        -------
        Minimisers of shape (m, d), not increasing in μ.
        """

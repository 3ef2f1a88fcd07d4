"""The point from which a loss measures: the estimate, or a reference that the user states."""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses.base import Loss
from ldpopt.printable import counted

Array = NDArray[np.float64]

# By how much a computed loss is raised for a level that is surely above it.
_LOOSE = 1e-6

_EPS = float(np.finfo(np.float64).eps)


class Deviation(Loss):
    """Base class of losses of the deviations f - f̃, whose only data is f̃.

    Their cone forms are in units of the uniform frequency 1/d, since solvers' tolerances are
    absolute and frequencies are of order 1/d.
    """

    is_nonnegative = True

    degree: ClassVar[int] = 1
    """The power with which the loss grows in the deviations, and so its cone form in d."""

    def target(self, estimate: FrequencyEstimate) -> Array:
        """Return the point from which the deviations are measured, shape (..., d): f̃."""
        return estimate.frequencies

    def sublevel(self, level: Array, estimate: FrequencyEstimate) -> tuple[Array, Array] | None:
        """Return f̃ ± t: no deviation is above the level t."""
        return around(self.target(estimate), np.asarray(level)[..., None])

    def data(self, estimate: FrequencyEstimate) -> tuple[Array, ...]:
        """Return that point."""
        return (self.target(estimate),)

    def cone_factor(self, d: int, constants: tuple[object, ...]) -> float:
        """Return d to the power of the degree."""
        return float(d) ** self.degree


class FromReference(Loss):
    """Base class of losses that measure from a reference r of their own instead of f̃.

    Parameters
    ----------
    reference
        Finite numbers, shape (d,).

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the reference is not a vector of finite numbers.
    """

    is_penalty = True
    _per_value = frozenset({"reference", "weights"})

    def __init__(self, reference: ArrayLike) -> None:
        self.reference = validate.vector("reference", reference)

    @property
    def compiled_key(self) -> Hashable:
        """The parameters that it was built with: the reference is data."""
        return self._recipe_or_self

    def validate_for(self, estimate: FrequencyEstimate) -> None:
        """Raise an error unless the reference has one number per value."""
        what = f"reference of {type(self).__name__}"
        validate.one_per_value(what, self.reference, estimate.d)

    def target(self, estimate: FrequencyEstimate) -> Array:
        """Return the reference, of the frequencies' shape."""
        shape = estimate.frequencies.shape
        # Of short vectors, broadcasting takes longer than the sums around it.
        if self.reference.shape == shape:
            return self.reference
        return np.broadcast_to(self.reference, shape)

    def sensitivity(self, f: Array, estimate: FrequencyEstimate) -> Array | None:
        """Return 0: the loss does not look at the estimate."""
        return np.zeros(f.shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(<{counted(len(self.reference), 'value')}>)"


def around(target: Array, width: Array) -> tuple[Array, Array]:
    """Return f̃ ± width, surely outside of it: a sum of d terms >= 0 is right to d roundings."""
    wider = width * (1 + _LOOSE) + 8 * _EPS * np.abs(target)
    return target - wider, target + wider

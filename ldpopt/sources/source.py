"""One measurement: an estimate of the frequencies, or of the totals of groups of values."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.errors import InvalidInputError, InvalidTypeError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.estimate.noise import Noise
from ldpopt.estimate.sets import NamedSets, Sets
from ldpopt.immutable import Immutable
from ldpopt.printable import printable

Array = NDArray[np.float64]

_NAMELESS = "a source"

# Beyond it the products of precisions with each other would leave the range of doubles.
_LEAST_VARIANCE = 1e-100


class Source(Immutable):
    """A raw estimate of A f: of the frequencies f themselves, or of totals of groups of values.

    Parameters
    ----------
    estimate
        One raw estimate with its noise: of another budget, oracle, service or time.
    groups
        Which values each number of the estimate counts: sets of indices or labels, a mapping of
        named sets, or a boolean array (m, d), for an estimate of m numbers. None where it estimates
        the values themselves.
    drift
        Standard deviation, in units of frequency, by which what was measured has moved since then:
        one number >= 0, or one for each number of the estimate. Its square adds to the variance.
    name
        What messages call it.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the estimate has no noise or one without a usable inverse, is processed or a stack, the
        drift is negative or not finite, or there are not as many groups as numbers in the estimate.

    Examples
    --------
    >>> from ldpopt import oracles
    >>> counts = oracles.GRR(1.0, d=2).estimate([700, 300], 1_000)
    >>> Source(counts, groups=[[0, 1], [2]], name="by category")
    Source(by category: GRR, ε = 1, n = 1,000, 2 groups)
    """

    def __init__(
        self,
        estimate: FrequencyEstimate,
        groups: Sets | NamedSets | None = None,
        *,
        drift: ArrayLike = 0.0,
        name: str = "",
    ) -> None:
        if not isinstance(name, str):
            raise InvalidTypeError(f"the name of a source must be a text, got {name!r}")
        # Messages need a name from the first check on; ``Sources`` gives the nameless a number.
        self.name = name or _NAMELESS
        self.estimate = _checked(self.name, estimate)
        # Counted here, and read where the domain is known: labels need that of the values.
        if isinstance(groups, str) or (groups is not None and not np.iterable(groups)):
            raise InvalidTypeError(
                f"the groups of {self.name} must be a list of sets, a mapping or an array, got "
                f"{groups!r}"
            )
        self.groups: Any = groups
        if groups is not None and len(groups) != self.estimate.d:
            raise InvalidInputError(
                f"{self.name} has {len(groups)} groups for an estimate of {self.estimate.d} "
                "numbers: pass one group for each"
            )
        self.drift = _checked_drift(self.name, drift, self.estimate.d)

    @classmethod
    def named(cls, source: Source | FrequencyEstimate, name: str) -> Source:
        """Return a source as it is, under this name if it has none; an estimate as a source."""
        if not isinstance(source, Source):
            return cls(source, name=name)
        # A name that was given stays.
        if source.name != _NAMELESS:
            return source
        return cls(source.estimate, source.groups, drift=source.drift, name=name)

    def moved(self, by: Array) -> Source:
        """Return the same measurement with other numbers, higher by ``by`` of shape (size,)."""
        before = self.estimate
        noise = before.noise
        stated: dict[str, Any] = {"noise": noise}
        if noise.protocol is not None:
            stated = {"n": noise.n, "oracle": noise.protocol}
        estimate = FrequencyEstimate(before.frequencies + by, labels=before.labels, **stated)
        return Source(estimate, self.groups, drift=self.drift, name=self.name)

    @property
    def size(self) -> int:
        """How many numbers were estimated."""
        return self.estimate.d

    def variance(self, frequencies: ArrayLike, *, sampled: bool = False) -> Array:
        """Return the variance of each number about its present value, the drift included.

        Parameters
        ----------
        frequencies
            Frequencies of the values or groups, of a shape that broadcasts with the estimate's.
        sampled
            Whether it is about the frequencies of a population of which the users are a sample.
        """
        f = np.asarray(frequencies, dtype=np.float64)
        noise = self.estimate.noise
        return noise.constant + noise.slope * f + self.besides(f, sampled=sampled)

    def besides(self, frequencies: Array, *, sampled: bool) -> Array:
        """Return the part of the variance that is not the reports': of the drift and the sample."""
        # f (1 - f)/n is at most f/n: linear, as the rest of the noise is.
        drawn = frequencies * self._sample_share if sampled else 0.0
        return np.broadcast_to(self.drift**2 + drawn, self.size)

    def slope(self, *, sampled: bool) -> Array:
        """Return the growth of each variance with the frequency."""
        share = self._sample_share if sampled else 0.0
        return np.broadcast_to(self.estimate.noise.slope + share, self.size)

    @property
    def _sample_share(self) -> float:
        """1/n, which bounds f (1 - f)/n over f; 0 where the number of users is not known."""
        return 0.0 if self.estimate.n is None else 1 / self.estimate.n

    def __repr__(self) -> str:
        parts = self.estimate._origin or [f"{self.size} numbers"]
        if self.groups is not None:
            parts.append(f"{self.size} groups")
        if np.any(self.drift):
            parts.append(f"drift {np.max(self.drift):.3g}")
        prefix = "" if self.name == _NAMELESS else f"{printable(self.name)}: "
        return f"Source({prefix}{', '.join(parts)})"


def _checked(name: str, estimate: object) -> FrequencyEstimate:
    """Return a raw estimate with noise, of one collection."""
    if not isinstance(estimate, FrequencyEstimate):
        # A path is the likely slip of someone who has files of counts.
        is_path = isinstance(estimate, str | PathLike)
        remedy = "; ldpopt.collection.read_counts(path).estimate is one" if is_path else ""
        raise InvalidTypeError(
            f"{name} must be a FrequencyEstimate, got {type(estimate).__name__}: its noise decides "
            f"how much it counts{remedy}"
        )
    # Frequencies changed in place would have another noise than the one stated.
    estimate.require_unchanged()
    if estimate.frequencies.ndim > 1:
        raise InvalidInputError(f"{name} is a stack of trials: pass one collection, estimate[0]")
    if estimate._noise is None:
        raise InvalidInputError(
            f"{name} has no noise, which decides how much it counts: build its estimate as "
            "FrequencyEstimate(frequencies, n=..., oracle=...), or with noise=..."
        )
    _check_variances(name, estimate.noise)
    # Where nothing shows what it is, None, the caller's word stands.
    if estimate.is_raw is False:
        raise InvalidInputError(
            f"{name} is processed by {estimate.method!r}, and its noise is that of raw estimates: "
            "pass estimate.raw"
        )
    return estimate


def _check_variances(name: str, noise: Noise) -> None:
    """Raise an error if the inverse of a variance, by which numbers count, is no usable number."""
    # A variance is linear in the frequency: it is within the range if both ends are.
    for variance in map(np.asarray, (noise.constant, noise.constant + noise.slope)):
        is_wrong = ~((variance >= _LEAST_VARIANCE) & (variance <= 1 / _LEAST_VARIANCE))
        if is_wrong.any():
            at = validate.first(is_wrong)
            raise InvalidInputError(
                f"{name} has a variance of {variance[at]:.3g}{validate.placed(at)}, whose inverse "
                f"cannot be computed with: variances must lie in {_LEAST_VARIANCE:g} .. "
                f"{1 / _LEAST_VARIANCE:g}; state what is known exactly as a constraint"
            )


def _checked_drift(name: str, drift: ArrayLike, size: int) -> Array | float:
    """Return a drift as one number, or as a vector of the estimate's size."""
    values = np.asarray(validate.array(f"the drift of {name}", drift), dtype=np.float64)
    if values.shape not in {(), (size,)}:
        raise InvalidInputError(
            f"the drift of {name} must be one number or {size}, got shape {values.shape}"
        )
    # Frequencies lie in 0 .. 1.
    is_wrong = ~((values >= 0) & (values <= 1))
    if is_wrong.any():
        at = validate.first(is_wrong)
        raise InvalidInputError(
            f"the drift of {name} must lie in 0 .. 1, found {values[at]:g}{validate.placed(at)}"
        )
    return float(values) if values.ndim == 0 else values

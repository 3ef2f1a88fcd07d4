"""The noise of an estimate: the variance of each value and the covariance of them all."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.covariance import Covariance
from ldpopt.errors import InvalidInputError, InvalidTypeError
from ldpopt.frames import labels_of
from ldpopt.immutable import Immutable
from ldpopt.protocol import PureProtocol

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Array = NDArray[np.float64]

# By how much ratios of slope to constant may differ, relative to the largest: a slope computed as a
# multiple of the constants rounds.
_SAME_RATIO = 4 * float(np.finfo(np.float64).eps)

_OF_COVARIANCE = (
    "of a covariance matrix pass its diagonal, np.diag(covariance); noise given by hand is that of "
    "independent errors, and how those of reports vary together is known from n=... and oracle=..."
)


@dataclass(frozen=True, eq=False, repr=False)
class Noise(Immutable):
    """The variance of unbiased estimates f̃ about true frequencies f: constant + slope f.

    ``Noise.of_reports(n, protocol)`` derives it from the reports. Noise given by hand is a vector
    of variances; the errors of different values are then independent.

    Parameters
    ----------
    constant
        Variance of a value that nobody has, > 0: one number for all values, or shape (d,).
    slope
        Growth of the variance with the true frequency, one number or shape (d,), with
        ``constant + slope`` > 0: the variance must be positive for all frequencies in 0 .. 1.
    n
        Number of reports, if the estimate has one: priors need it, since they are about counts.

    Attributes
    ----------
    protocol
        The protocol of the reports; None if the noise is given by hand.
    origins
        What identifies the collections behind an estimate that has numbers of its own, as one of
        several collections has: none of them may be counted again.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a variance is not finite and positive (the first index is named), or n < 1.

    Examples
    --------
    >>> from ldpopt.oracles import OUE
    >>> noise = Noise.of_reports(10_000, OUE(epsilon=1.0, d=3))
    >>> noise.variance([0.0, 0.5, 1.0]).round(6)
    array([0.000368, 0.000418, 0.000468])
    >>> Noise([0.01, 0.04]).sd
    array([0.1, 0.2])
    """

    constant: NDArray[np.float64] | float
    slope: NDArray[np.float64] | float = 0.0
    n: int | None = None
    protocol: PureProtocol | None = field(default=None, init=False)
    origins: frozenset[Any] = field(default=frozenset(), init=False)

    def __post_init__(self) -> None:
        constant = _number_or_vector("the noise's variances", self.constant)
        slope = _number_or_vector("the noise's slope", self.slope)
        variances = np.size(constant)
        slopes = np.size(slope)
        # One number stands for all values.
        if 1 not in (variances, slopes) and variances != slopes:
            raise InvalidInputError(
                f"the noise has {variances} variances and {slopes} slopes: "
                "pass as many slopes as variances, or one for all"
            )
        # An affine function is positive on 0 .. 1 if it is at both ends.
        for frequency in (0.0, 1.0):
            variance = np.asarray(constant + slope * frequency)
            wrong = ~(variance > 0)
            if wrong.any():
                at = validate.first(wrong)
                raise InvalidInputError(
                    f"the noise's variance must be positive, found {variance[at]:g}"
                    f"{validate.placed(at)} for a frequency of {frequency:g}"
                )
        object.__setattr__(self, "constant", constant)
        object.__setattr__(self, "slope", slope)
        if self.n is not None:
            n = validate.integer("n (the number of reports)", self.n, minimum=1)
            object.__setattr__(self, "n", n)

    @property
    def collected_by(self) -> PureProtocol | None:
        """The protocol that the reports were collected by; None if that is not known."""
        return self.protocol

    @classmethod
    def of_reports(cls, n: int, protocol: PureProtocol) -> Noise:
        """Return the noise of n reports of a protocol, Var[f̃_v] = (a + b f_v)/n (N Eq. 5).

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If n is not a whole number >= 1, or ``protocol`` is not a protocol.
        """
        if not isinstance(protocol, PureProtocol):
            raise InvalidTypeError(
                f"protocol must be an oracle or a PureProtocol, got {protocol!r}"
            )
        n = validate.integer("n (the number of reports)", n, minimum=1)
        noise = cls(protocol.a / n, protocol.b / n, n)
        # No argument of the constructor: the variances could then contradict the protocol.
        object.__setattr__(noise, "protocol", protocol)
        noise._seal()
        return noise

    @property
    def a(self) -> NDArray[np.float64] | float:
        """The constant part of n Var[f̃_v], the protocol's a. An unknown n counts as 1."""
        return self.protocol.a if self.protocol is not None else self.constant * (self.n or 1)

    @property
    def b(self) -> NDArray[np.float64] | float:
        """The slope of n Var[f̃_v], the protocol's b. An unknown n counts as 1."""
        return self.protocol.b if self.protocol is not None else self.slope * (self.n or 1)

    @property
    def is_common(self) -> bool:
        """Whether all values have the same variance at the same frequency."""
        # Single numbers, as those of a protocol always are, need no pass over an array.
        if self.protocol is not None:
            return True
        return all(np.ndim(part) == 0 or np.ptp(part) == 0 for part in (self.constant, self.slope))

    @property
    def kappa(self) -> float:
        """κ = b/a > -1: how fast the variance grows with the frequency.

        Raises
        ------
        InvalidInputError
            If it differs between values.
        """
        if self.protocol is not None:
            return self.protocol.kappa
        ratio = np.asarray(self.slope) / self.constant
        # Variances may differ and their ratios not: values with more reports through one protocol.
        if np.ptp(ratio) > _SAME_RATIO * np.abs(ratio).max():
            raise InvalidInputError(
                "this needs one ratio of slope to constant for all values; this noise has several"
            )
        return float(ratio.flat[0])

    @property
    def sd(self) -> NDArray[np.float64] | float:
        """Standard deviation at frequency 0: a number, or shape (d,)."""
        return np.sqrt(self.constant) if np.ndim(self.constant) else float(np.sqrt(self.constant))

    def variance(self, frequencies: ArrayLike) -> Array:
        """Return constant + slope f, the variance of each value's estimate.

        Parameters
        ----------
        frequencies
            True frequencies f, or estimates in their place, of a shape that broadcasts with (d,).

        Returns
        -------
        Variances of the broadcast shape.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If a frequency lies so far outside 0 .. 1 that its variance would not be positive.
        """
        f = np.asarray(validate.array("frequencies", frequencies), dtype=np.float64)
        variance = np.asarray(self.constant + self.slope * f)
        wrong = ~(variance > 0)
        if wrong.any():
            at = validate.first(wrong)
            raise InvalidInputError(
                f"the variance must be positive, found {variance[at]:g}{validate.placed(at)}: "
                "true frequencies lie in 0 .. 1"
            )
        return variance

    def covariance(self, frequencies: ArrayLike) -> Covariance:
        """Return the covariance matrix of the whole estimate, as a diagonal plus low rank.

        Parameters
        ----------
        frequencies
            True frequencies f, or estimates in their place, shape (d,).

        Returns
        -------
        A ``Covariance``: ``@``, ``.dense()``, ``.diagonal`` and ``.quadratic(weights)``. Functions
        of numpy and cvxpy take it for its matrix. Of noise given by hand it is the diagonal matrix
        of its variances.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If the shape is wrong, or the protocol is known by p and q alone.

        Examples
        --------
        >>> from ldpopt.oracles import GRR
        >>> covariance = Noise.of_reports(100, GRR(epsilon=1.0, d=3)).covariance([0.5, 0.3, 0.2])
        >>> bool(abs(covariance.quadratic([1, 1, 1])) < 1e-12)  # the counts of GRR sum to n
        True
        """
        f = validate.frequencies(frequencies)
        if f.ndim != 1:
            raise InvalidInputError(f"a covariance is of one vector of shape (d,), got {f.shape}")
        if self.protocol is not None and self.n is not None:
            return self.protocol.covariance(f).scaled(1 / self.n)
        # Of no rank beyond the diagonal: errors of noise given by hand are independent.
        variance = np.broadcast_to(self.variance(f), f.shape)
        return Covariance(variance, np.zeros((len(f), 0)), np.zeros((0, 0)))

    def require_n(self) -> int:
        """Return the number of reports.

        Raises
        ------
        InvalidInputError
            If it is not known.
        """
        if self.n is None:
            raise InvalidInputError(
                "this needs the number of reports: build the estimate with n=..., beside noise=..."
            )
        return self.n

    def require_protocol(self) -> PureProtocol:
        """Return the protocol of the reports.

        Raises
        ------
        InvalidInputError
            If the noise is given by hand.
        """
        if self.protocol is None:
            raise InvalidInputError(
                "this needs the protocol of the reports, and the noise of this estimate is given "
                "by hand: build the estimate as FrequencyEstimate(frequencies, n=..., oracle=...)"
            )
        return self.protocol

    def in_counts(self) -> tuple[int, float, float]:
        """Return (n, sd, slope) of estimated counts n f̃: Var = sd² + slope k for a true count k.

        Raises
        ------
        InvalidInputError
            If n is not known, or the noise differs between values.
        """
        n = self.require_n()
        if not self.is_common:
            raise InvalidInputError(
                "this needs the same noise for all values; the variances of this estimate differ"
            )
        # One number for all values may still stand in a vector.
        sd, slope = (float(np.asarray(part).flat[0]) for part in (self.sd, self.b))
        # Var[n f̃] = n a + n b f = n a + b k, where k = n f: hence b, and not b/n.
        return n, sd * n, slope

    @property
    def knows_pairs(self) -> bool:
        """Whether the reports' protocol states how two counts vary together."""
        return self.protocol is not None and self.protocol.pair_support is not None

    def answer_variance(
        self, frequencies: Array, members: csr_array | None = None, *, centred: bool = False
    ) -> tuple[Array, Array]:
        """Return (α, β): the answer to a set query has the variance α + β F, F its true frequency.

        See ``PureProtocol.answer_variance``, here divided by n. Where noise was given by hand and
        slopes differ within a set, β is the largest of them: the variance is then at most α + β F.

        Parameters
        ----------
        frequencies
            Raw estimates (..., d).
        members
            Sparse (m, d) of zeros and ones; None for every value by itself.
        centred
            Whether the answer is Norm's, which uses Σf = 1: with a protocol only.

        Returns
        -------
        Two arrays that broadcast to (..., m), or to (..., d).

        Raises
        ------
        InvalidInputError
            If the joint law of two counts is needed and not known.
        """
        if centred or (self.protocol is not None and self.n is not None):
            protocol = self.require_protocol()
            alpha, beta = protocol.answer_variance(frequencies, members, centred=centred)
            # A protocol states n times the variance.
            n = self.require_n()
            return alpha / n, beta / n
        d = frequencies.shape[-1]
        # Errors are independent here, so that the variances of a set's values add up.
        constant = np.broadcast_to(self.constant, d)
        slope = np.broadcast_to(self.slope, d)
        if members is None:
            return constant, slope
        # With one slope per value the variance of a set depends on more than F: bound it. An empty
        # set gets the smallest slope, as any would do.
        flattest = slope.min()
        steepest = np.array([slope[row.indices].max(initial=flattest) for row in members])
        return np.asarray(members @ constant), steepest

    def __repr__(self) -> str:
        if self.protocol is not None:
            return f"Noise.of_reports({self.n}, {self.protocol!r})"
        constant = np.asarray(self.constant)
        shown = f"{constant:.4g}" if constant.ndim == 0 else f"<{len(constant)} variances>"
        return f"{type(self).__name__}({shown}, n={self.n})"


def _number_or_vector(what: str, values: ArrayLike) -> NDArray[np.float64] | float:
    """Return a number as a float, and a vector as a read-only copy."""
    if labels_of(values) is not None:
        raise InvalidInputError(
            f"{what} has labels, which noise cannot keep: pass noise=... of the estimate, which "
            "goes by them, or an array (to_numpy)"
        )
    # np.array copies: what the caller does to its own array later changes no noise.
    result = np.array(validate.array(what, values), dtype=np.float64)
    if result.ndim > 1 or not result.size:
        is_square = result.ndim == 2 and result.shape[0] == result.shape[1]
        remedy = f": {_OF_COVARIANCE}" if result.size and is_square else ""
        raise InvalidInputError(f"{what} must have shape (d,), got shape {result.shape}{remedy}")
    if not np.isfinite(result).all():
        at = validate.first(~np.isfinite(result))
        raise InvalidInputError(f"{what} must be finite, found {result[at]}{validate.placed(at)}")
    if result.ndim == 0:
        return float(result)
    return result

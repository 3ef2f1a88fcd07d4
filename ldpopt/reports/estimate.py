"""What a second pass returns: an estimate whose noise is that of the reports themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt.covariance import Covariance
from ldpopt.errors import InvalidInputError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.estimate.noise import Noise
from ldpopt.oracles.base import FrequencyOracle
from ldpopt.oracles.bit_information import BitInformation
from ldpopt.oracles.index_information import IndexInformation
from ldpopt.protocol import PureProtocol
from ldpopt.reports.exact_sums import UNIT, as_floats
from ldpopt.reports.weighing import Weighing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scipy.sparse import csr_array

Array = NDArray[np.float64]
Whole = NDArray[np.int64]

_SETS = 64  # whose variances are computed together
_STEEPEST = 0.99  # of a variance, by which it may fall up to the frequency 1
_LOWEST = 0.01  # of the constant of many values: next to nothing is left of it where one has all
_SAME_FREQUENCY = 1e-6  # relative: frequencies that differ by less tell no slope


class RefinedEstimate(FrequencyEstimate):
    """A raw estimate with the precision of reports: what ``ldpopt.refine`` returns.

    It sums to 1. ``noise.variance(f)`` states the variance of each value, ``noise.covariance(f)``
    how values vary together.
    """

    @property
    def gain(self) -> float:
        """κ: the variance from counts over that from reports, of a rare value; 1 if unchanged."""
        return self.noise.gain if isinstance(self.noise, RefinedNoise) else 1.0

    @property
    def information(self) -> Array:
        """The information about each value, 1/variance, at these frequencies: shape (d,)."""
        # An estimate may lie outside of what is possible, where a variance need not be positive.
        return np.asarray(1 / self.noise.variance(np.clip(self.frequencies, 0.0, 1.0)))


@dataclass(frozen=True, eq=False, repr=False)
class RefinedNoise(Noise):
    """The noise of a refined estimate: constant + slope f for values, exact for their sums.

    Attributes
    ----------
    joint
        The covariance of the whole estimate, which is that at the start.
    gain
        κ: the variance of a rare value from counts over that from reports.
    oracle
        The protocol of the reports.
    """

    joint: Callable[[], Covariance] | None = None
    gain: float = 1.0
    origins: frozenset[Any] = frozenset()
    oracle: FrequencyOracle | None = None

    @property
    def collected_by(self) -> FrequencyOracle | None:
        """The protocol of the reports, whose law of counts the estimate does not follow."""
        return self.oracle

    def require_protocol(self) -> PureProtocol:
        """Raise an error: the protocol states the law of counts, and these are none.

        Raises
        ------
        InvalidInputError
            Always.
        """
        raise InvalidInputError(
            "this needs the law of counts, and a refined estimate comes from the reports "
            "themselves: use the estimate of their counts, "
            "oracle.estimate(oracle.support_counts(reports), n), or a loss that takes the "
            "estimate's noise, such as losses.LeastSquares() or losses.GaussianMLE()"
        )

    def covariance(self, frequencies: ArrayLike) -> Covariance:
        """Return the covariance matrix of the whole estimate, as a diagonal plus low rank.

        The frequencies are those of the start, whatever is passed: reports were weighed by them.
        """
        assert self.joint is not None  # refined states it
        return self.joint()

    def answer_variance(
        self, frequencies: Array, members: csr_array | None = None, *, centred: bool = False
    ) -> tuple[Array, Array]:
        """Return (α, β): the answer to a set query has the variance α + β F, with β = 0 for sets.

        Refined estimates sum to 1, so that Norm's answers are these.
        """
        if members is None:
            return super().answer_variance(frequencies, None)
        covariance = self.covariance(frequencies)
        # A dense matrix of all sets would take their number times d.
        starts = range(0, members.shape[0], _SETS)
        blocks = [covariance.quadratic(members[i : i + _SETS].toarray()) for i in starts]
        # The empty array is the answer where there are no sets.
        return np.concatenate([np.empty(0), *blocks]), np.zeros(1)

    def __repr__(self) -> str:
        return f"RefinedNoise({self.constant:.4g}, n={self.n}, gain={self.gain:.4g})"


def refined(
    weighing: Weighing,
    sums: Whole,
    n: int,
    *,
    labels: Sequence[str] | None = None,
    raw: FrequencyEstimate | None = None,
) -> RefinedEstimate:
    """Return the estimate one step of Fisher scoring from the start.

    Parameters
    ----------
    weighing
        The start.
    sums
        What ``weighing.sums`` gave for all n reports.
    labels
        Names of the values.
    raw
        The estimate from the counts of the same reports, which must not be combined with this one.
    """
    information = weighing.oracle.information(weighing.start)
    if isinstance(information, BitInformation):
        h, noise = _step_of_bits(weighing.oracle, information, sums, n)
    else:
        h, noise = _step_of_indices(weighing.oracle, information, sums, n)
    # The same users as the raw estimate: Sources must not count them twice.
    if raw is not None:
        noise = replace(noise, origins=frozenset({raw.numbers}))
    return RefinedEstimate(
        weighing.start + h, noise=noise, is_raw=True, labels=labels, method="base"
    )


def unchanged(raw: FrequencyEstimate) -> RefinedEstimate:
    """Return the estimate from counts as one that was not refined."""
    return RefinedEstimate(
        raw.frequencies, raw.n, raw.oracle, is_raw=True, labels=raw.labels, method="base"
    )


def _step_of_bits(
    oracle: FrequencyOracle, information: BitInformation, sums: Whole, n: int
) -> tuple[Array, RefinedNoise]:
    score = information.more * as_floats(sums) / (n * UNIT)
    gain = information.gain
    one, two, three = information.powers
    # The variance grows with the frequency as that of counts does, times one more ratio of means;
    # users who are drawn themselves, as the information has them, add f to it.
    ratio = one * three / two**2
    slope = (oracle.b + 1) * ratio - 1
    joint = CovarianceAtStart(information, n)
    noise = _noise(oracle, gain, slope, n, joint, information.start)
    return information.step(score), noise


def _step_of_indices(
    oracle: FrequencyOracle, information: IndexInformation, sums: Whole, n: int
) -> tuple[Array, RefinedNoise]:
    f = information.frequencies
    score = information.score(as_floats(sums))
    gain = oracle.information_gain(f)
    joint = IndexCovarianceAtStart(oracle, f, gain * n)
    noise = _noise(oracle, gain, oracle.b, n, joint, f)
    return information.solve(score[None, :])[0], noise


def _noise(
    oracle: FrequencyOracle,
    gain: float,
    slope: float,
    n: int,
    joint: Callable[[], Covariance],
    start: Array,
) -> RefinedNoise:
    """Return noise whose line constant + slope f is nearest to the variances at the start.

    Where values are many the constant is a/κ, the variance of one value by itself. The known sum
    reduces it, most where values are few: least squares of the relative errors fit the line to
    that.
    """
    exact = joint().diagonal
    constant = oracle.a / gain / n
    line = constant + slope / n * start
    # The second column is next to 0 where all frequencies are small: the first one decides there.
    columns = np.column_stack([line, constant * start]) / exact[:, None]
    ones = np.ones(len(start))
    scale, more = np.linalg.lstsq(columns, ones, rcond=_SAME_FREQUENCY)[0]
    fitted = max(float(scale), _LOWEST) * constant
    steeper = scale * slope / n + more * constant
    # A variance that falls with f stays above 0.
    steepest = max(float(steeper), -_STEEPEST * fitted)
    return RefinedNoise(fitted, steepest, n, joint=joint, gain=gain, oracle=oracle)


@dataclass(frozen=True)
class CovarianceAtStart:
    """The covariance of an estimate from bits."""

    information: BitInformation
    n: int

    def __call__(self) -> Covariance:
        """Return the covariance."""
        return self.information.covariance(self.n)


@dataclass(frozen=True)
class IndexCovarianceAtStart:
    """The covariance of an estimate from indices: that of counts after Norm, of more users.

    Attributes
    ----------
    oracle, frequencies
        Where the covariance is taken.
    users
        Number of reports times the gain.
    """

    oracle: FrequencyOracle
    frequencies: Array
    users: float

    def __call__(self) -> Covariance:
        """Return the covariance."""
        # The estimate sums to 1, and the gain is over counts after Norm.
        return self.oracle.covariance(self.frequencies).centred().scaled(1 / self.users)

"""How wrong an estimate is, and how accurate any could be: plain functions on arrays.

Shapes: estimates are (..., d) with any leading axes for trials; the truth is (d,); errors have
the leading axes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.errors import InvalidInputError, InvalidTypeError
from ldpopt.estimate.estimate import FrequencyEstimate
from ldpopt.estimate.noise import Noise
from ldpopt.estimate.traced import in_order
from ldpopt.frames import labels_of

_TERMS = 1 << 21  # terms held at a time
_POINTS = 4  # of Gauss's rule per standard deviation of the noise


def mean_squared_error(
    estimate: FrequencyEstimate | ArrayLike, truth: ArrayLike
) -> NDArray[np.float64]:
    """Return mean_v (f_v - f'_v)² over the last axis (N V-A), of values or of answers.

    Either may be a FrequencyEstimate; leading axes broadcast. Shapes that do not match, and
    numbers that are not finite, raise an error.

    Examples
    --------
    >>> float(mean_squared_error([0.5, 0.5], [0.75, 0.25]))
    0.0625
    """
    return np.asarray(np.mean(_difference(estimate, truth) ** 2, axis=-1))


def mean_absolute_error(
    estimate: FrequencyEstimate | ArrayLike, truth: ArrayLike
) -> NDArray[np.float64]:
    """Return mean_v abs(f_v - f'_v) over the last axis (D V)."""
    return np.asarray(np.mean(np.abs(_difference(estimate, truth)), axis=-1))


def largest_error(estimate: FrequencyEstimate | ArrayLike, truth: ArrayLike) -> NDArray[np.float64]:
    """Return max_v abs(f_v - f'_v) over the last axis.

    Examples
    --------
    >>> float(largest_error([0.5, 0.5], [0.75, 0.25]))
    0.25
    """
    return np.asarray(np.max(np.abs(_difference(estimate, truth)), axis=-1))


def total_variation(
    estimate: FrequencyEstimate | ArrayLike, truth: ArrayLike
) -> NDArray[np.float64]:
    """Return ½ Σ_v abs(f_v - f'_v) over the last axis.

    For two distributions it is the largest difference of the total frequency of any set.

    Examples
    --------
    >>> float(total_variation([0.5, 0.25, 0.25], [0.75, 0.25, 0]))
    0.25
    """
    return np.asarray(np.sum(np.abs(_difference(estimate, truth)), axis=-1) / 2)


@dataclass(frozen=True, eq=False)
class Identification:
    """How well an estimate identifies the values above a threshold.

    Every array has the leading axes of the estimate.

    Attributes
    ----------
    precision
        Share of true heavy hitters among the named ones; 1 if none is named.
    recall
        Share of the true heavy hitters that are named; 1 if there is no true one.
    f_score
        Harmonic mean of the two; 0 where both are 0.
    """

    precision: NDArray[np.float64]
    recall: NDArray[np.float64]
    f_score: NDArray[np.float64]


def heavy_hitters(
    frequencies: FrequencyEstimate | ArrayLike, threshold: float
) -> NDArray[np.bool_]:
    """Return which values have a frequency above the threshold: see ``FrequencyEstimate``.

    The result has the shape of the frequencies. An error is raised where a frequency or the
    threshold is not finite.

    Examples
    --------
    >>> heavy_hitters([0.5, 0.1, 0.3], threshold=0.2)
    array([ True, False,  True])
    """
    return FrequencyEstimate.of(frequencies).heavy_hitters(threshold)


def identification(
    estimate: FrequencyEstimate | ArrayLike, truth: ArrayLike, threshold: float
) -> Identification:
    """Return precision, recall and F of the heavy hitters that an estimate names (K Eq. 6-8).

    Parameters
    ----------
    estimate
        Estimated frequencies of shape (..., d), or an estimate with them.
    truth
        True frequencies of shape (d,).
    threshold
        Frequency above which a value is a heavy hitter, in the estimate as in the truth.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If shapes do not match or a number is not finite.

    Examples
    --------
    >>> named = identification([0.5, 0.3, 0.1, 0.1], [0.6, 0.1, 0.25, 0.05], threshold=0.2)
    >>> float(named.precision), float(named.recall), float(named.f_score)
    (0.5, 0.5, 0.5)
    """
    # Only for the errors that it raises: shapes that differ, numbers that are not finite.
    _difference(estimate, truth)
    named = heavy_hitters(estimate, threshold)
    real = heavy_hitters(_in_order_of(estimate, truth), threshold)
    hits = np.sum(named & real, axis=-1, dtype=np.float64)
    named_count = np.sum(named, axis=-1)
    # One truth serves all trials, and each trial needs its own denominator.
    real_count = np.broadcast_to(np.sum(real, axis=-1), hits.shape)
    # Naming nothing is no mistake: a share of nothing counts as 1.
    precision = np.divide(hits, named_count, out=np.ones_like(hits), where=named_count > 0)
    recall = np.divide(hits, real_count, out=np.ones_like(hits), where=real_count > 0)
    both = precision + recall
    f_score = np.divide(2 * precision * recall, both, out=np.zeros_like(hits), where=both > 0)
    return Identification(precision, recall, f_score)


def accuracy_limit(estimate: FrequencyEstimate, truth: ArrayLike) -> NDArray[np.float64]:
    """Return the estimates of the best rule that treats all values alike.

    It knows the true frequencies, so it is a yardstick and no method.

    Among rules that map each raw estimate by one function, the smallest mean squared error
    belongs to the posterior mean under the true frequencies themselves, in no order (Robbins
    1951):

        m*(y) = Σ_v f_v φ_v(y) / Σ_v φ_v(y),   φ_v the normal density with mean f_v and variance
        (a + b f_v)/n.

    Parameters
    ----------
    estimate
        Raw estimates of shape (..., d), with n and an oracle.
    truth
        True frequencies f of shape (d,), in 0 .. 1.

    Returns
    -------
    m* of each raw estimate, shape (..., d), as frequencies, so that any error can be measured: what
    a method loses to the limit is ``mean_squared_error(method, truth) /
    mean_squared_error(accuracy_limit(raw, truth), truth)``, both averaged over trials.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the noise level is not known, the estimate is post-processed, or ``truth`` does not
        have shape (d,) with entries in 0 .. 1.

    Notes
    -----
    A method that uses the known sum, as Norm-Sub does, can be slightly below the limit. Cost: as
    many terms as there are raw estimates times distinct true frequencies.

    Examples
    --------
    >>> from ldpopt import FrequencyEstimate, oracles
    >>> oracle = oracles.OUE(epsilon=1.0, d=3)
    >>> raw = FrequencyEstimate([0.7, 0.1, -0.1], n=10_000, oracle=oracle, is_raw=True)
    >>> accuracy_limit(raw, [0.8, 0.1, 0.1]).round(3)
    array([0.8, 0.1, 0.1])
    """
    raw, true = _checked_for_limit("accuracy_limit", estimate, truth)
    # Values with the same truth have the same density: one term stands for all of them.
    atoms, size = np.unique(true, return_counts=True)
    variance = _common_variance(estimate.noise, atoms)
    mass = size.astype(np.float64)
    return _best_means(raw.ravel(), atoms, mass, variance).reshape(raw.shape)


def law_limit(estimate: FrequencyEstimate, truth: ArrayLike) -> NDArray[np.float64]:
    """Return the estimates of the best rule that knows how dense the frequencies are.

    ``accuracy_limit`` knows the frequency of a value that stands alone exactly, which no rule can
    learn from one noisy report of it. This yardstick knows the density of frequencies everywhere,
    and no frequency: each is replaced by a uniform piece between the midpoints to its neighbours,

        E[F | y] = Σ_v ∫ f φ_f(y) df/w_v / Σ_v ∫ φ_f(y) df/w_v,   f from l_v to l_v + w_v,

    where φ_f is the normal density with mean f and variance (a + b f)/n. The pieces at both ends
    reach as far outwards as inwards, within 0 .. 1; equal frequencies have a piece of width 0.

    Parameters and errors are those of ``accuracy_limit``.

    Returns
    -------
    The posterior mean of each raw estimate, shape (..., d), as frequencies: what a method loses to
    a yardstick that can be reached is its error over the error of these, both averaged over trials.

    Notes
    -----
    Its error is never far below that of ``accuracy_limit``, and equals it where values lie closer
    together than the noise. Pieces are integrated by Gauss's rule with four points per standard
    deviation. Cost: as many terms as there are raw estimates times points, of which there are about
    4 d, and 4/σ more for the way from the lowest to the highest frequency.

    Examples
    --------
    >>> from ldpopt import FrequencyEstimate, oracles
    >>> oracle = oracles.OUE(epsilon=1.0, d=3)
    >>> raw = FrequencyEstimate([0.72, 0.1, -0.1], n=10_000, oracle=oracle, is_raw=True)
    >>> law_limit(raw, [0.8, 0.1, 0.1]).round(3)
    array([0.72 , 0.101, 0.1  ])
    """
    raw, true = _checked_for_limit("law_limit", estimate, truth)
    noise = estimate.noise
    narrowest = float(np.sqrt(_common_variance(noise, np.array([0.0, 1.0])).min()))
    points, weights = _points_of_pieces(true, narrowest)
    # Pieces without width have all their points in one place.
    f, place = np.unique(points, return_inverse=True)
    mass = np.bincount(place, weights).astype(np.float64)
    means = _best_means(raw.ravel(), f, mass, _common_variance(noise, f))
    return means.reshape(raw.shape)


def _checked_for_limit(
    name: str, estimate: FrequencyEstimate, truth: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the raw and the true frequencies that a limit is computed from, or raise an error."""
    if not isinstance(estimate, FrequencyEstimate):
        raise InvalidTypeError(
            f"{name} needs the noise level of the estimate: build it as "
            "FrequencyEstimate(frequencies, n=..., oracle=...)"
        )
    noise = estimate.noise
    raw = estimate.require_raw(f"{name} needs").frequencies
    # A limit holds for rules that see the raw estimates; processed ones may lie below it.
    if not np.array_equal(raw, estimate.frequencies):
        raise InvalidInputError(
            f"{name} takes raw estimates, got processed ones: pass estimate.raw"
        )
    true = _true_frequencies(_in_order_of(estimate, truth), estimate.d)
    if not noise.is_common:
        raise InvalidInputError(
            f"{name} is about rules that treat all values alike; here their noise differs"
        )
    return raw, true


def _common_variance(noise: Noise, f: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the variance of an estimate at any frequencies, of noise that all values share."""
    # Noise by hand has an entry per value, all of them equal here.
    constant = float(np.ravel(noise.constant)[0])
    slope = float(np.ravel(noise.slope)[0])
    return constant + slope * f


def _points_of_pieces(
    true: NDArray[np.float64], sd: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return points and weights of a quadrature over the pieces of ``law_limit``."""
    ascending = np.sort(true)
    gaps = np.diff(ascending)
    # A single value has no neighbours: its piece is a point.
    if not len(gaps):
        return ascending, np.ones(1)
    # The outer pieces are symmetric, as far as frequencies go.
    below = np.concatenate([gaps[:1], gaps]) / 2
    above = np.concatenate([gaps, gaps[-1:]]) / 2
    low = np.maximum(ascending - below, 0.0)
    high = np.minimum(ascending + above, 1.0)
    # Parts of a standard deviation at most, on each of which four points are exact to 1e-8.
    parts = np.maximum(np.ceil((high - low) / sd), 1.0).astype(np.int64)
    # One entry per part: the piece it belongs to, and its number within that piece.
    piece = np.repeat(np.arange(len(true)), parts)
    parts_before = np.cumsum(parts) - parts
    part = np.arange(len(piece)) - parts_before[piece]
    width = ((high - low) / parts)[piece]
    middle = low[piece] + (part + 0.5) * width
    places, weights = np.polynomial.legendre.leggauss(_POINTS)
    points = middle[:, None] + width[:, None] / 2 * places
    # Each piece has a weight of 1, as the frequency that it replaces.
    share = (weights / 2) / parts[piece][:, None]
    return points.ravel(), share.ravel()


def _true_frequencies(truth: ArrayLike, d: int) -> NDArray[np.float64]:
    """Return the true frequencies of d values; other shapes, and values outside 0 .. 1, raise."""
    true = validate.frequencies(truth)
    if true.shape != (d,):
        raise InvalidInputError(f"truth must have shape ({d},), got {true.shape}")
    if true.min() < 0 or true.max() > 1:
        at = validate.first((true < 0) | (true > 1))
        raise InvalidInputError(
            f"truth must lie in 0 .. 1, found {true[at]:g} at {validate.where(at)}"
        )
    return true


def _best_means(
    raw: NDArray[np.float64],
    f: NDArray[np.float64],
    mass: NDArray[np.float64],
    variance: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the posterior mean of each raw estimate under masses on the frequencies f."""
    fixed = np.log(mass) - 0.5 * np.log(variance)
    result = np.empty_like(raw)
    # The products of all estimates with all truths would take gigabytes for a million values.
    step = max(1, _TERMS // len(f))
    for start in range(0, len(raw), step):
        rows = slice(start, start + step)
        # In one table of estimates and truths: each further one costs as much as what fills it.
        table = raw[rows, None] - f
        np.square(table, out=table)
        table /= 2 * variance
        level = np.subtract(fixed, table, out=table)
        # Less its maximum: far from every f all densities would underflow to 0.
        level -= level.max(axis=1, keepdims=True)
        weight = np.exp(level, out=level)
        result[rows] = weight @ f / weight.sum(axis=1)
    return result


def _difference(estimate: FrequencyEstimate | ArrayLike, truth: ArrayLike) -> NDArray[np.float64]:
    estimated = _values(estimate)
    true = _values(_in_order_of(estimate, truth))
    if estimated.shape[-1] != true.shape[-1]:
        raise InvalidInputError(
            "estimate and truth must have the same last axis, "
            f"got {estimated.shape} and {true.shape}"
        )
    try:
        return np.asarray(estimated - true)
    except ValueError as error:
        raise InvalidInputError(
            "leading axes of estimate and truth must match or be 1, got the shapes "
            f"{estimated.shape} and {true.shape}"
        ) from error


def _in_order_of(estimate: FrequencyEstimate | ArrayLike, truth: ArrayLike) -> Any:
    """Return a truth with labels in the order of the estimate's, and any other as it is."""
    if isinstance(estimate, FrequencyEstimate):
        return in_order("truth", truth, estimate.labels)
    return in_order("truth", truth, labels_of(estimate))


def _values(frequencies: FrequencyEstimate | ArrayLike) -> NDArray[np.float64]:
    """Return the frequencies of an estimate, and plain ones as they are."""
    if isinstance(frequencies, FrequencyEstimate):
        return frequencies.frequencies
    return validate.frequencies(frequencies)

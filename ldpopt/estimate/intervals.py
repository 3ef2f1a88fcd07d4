"""Confidence intervals for frequencies and for answers to set queries: plain functions on arrays.

An interval is made from the raw estimate, whose distribution is known. It is widened where it would
contain no possible frequency, and then cut to the possible ones, so that a possible truth is never
cut off. Post-processed estimates are biased where they are cut or shifted: an interval around them,
of the width that the raw noise suggests, covers the most frequent values less often than its level.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ldpopt import validate
from ldpopt.errors import InvalidInputError
from ldpopt.estimate.noise import Noise
from ldpopt.estimate.sets import totals
from ldpopt.protocol import PureProtocol, ReportShares

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Array = NDArray[np.float64]
# Relative error of a tail, by the first Edgeworth term, up to which a normal tail replaces it.
_SKEWED = 0.2
_LATTICE = 0.005  # probability that the steps of a count may move at one end
_HALVINGS = 50  # of the range of a share: beyond the digits of a double


def unconstrained_interval(
    frequencies: Array,
    noise: Noise,
    level: float,
    members: csr_array | None = None,
    *,
    centred: bool = False,
) -> tuple[Array, Array]:
    """Return ends of intervals that cover each answer with probability ``level``.

    Where counts are large this is the score interval with the protocol's own variance, which
    grows with the frequency; where they are small and skewed it is that of Clopper and Pearson, or,
    for sets whose count is no sum of independent events, that of ``bounded``. Ends may lie outside
    [0, 1].

    Parameters
    ----------
    frequencies
        Raw estimates, shape (..., d).
    noise
        Their noise. Counts, and with them the intervals of Clopper and Pearson, need its protocol.
    level
        Probability for every answer on its own, in (0, 1).
    members
        Sets as a sparse (m, d) matrix of zeros and ones; None for every value by itself.
    centred
        Whether to use that frequencies sum to 1, and so the answers of f̃ + (1 - Σf̃)/d. It
        narrows large sets: a set and all others have the same noise.

    Returns
    -------
    Two arrays of shape (..., m), or (..., d).

    Notes
    -----
    Cost: a few passes; two inverse beta functions per answer where counts are small.

    Examples
    --------
    >>> from ldpopt.oracles import OUE
    >>> noise = Noise.of_reports(10_000, OUE(epsilon=1.0, d=2))
    >>> lower, upper = unconstrained_interval(np.array([0.3, 0.0]), noise, 0.95)
    >>> lower.round(3), upper.round(3)
    (array([ 0.261, -0.037]), array([0.339, 0.038]))
    """
    _, lower, upper = _answers_and_ends(frequencies, noise, level, members, centred=centred)
    return lower, upper


def possible_interval(
    frequencies: Array,
    noise: Noise,
    level: float,
    members: csr_array | None = None,
    *,
    centred: bool = False,
) -> tuple[Array, Array]:
    """Return the ends of intervals within [0, 1] that cover each answer with the same probability.

    Arguments are those of ``unconstrained_interval``. Where an answer F̃ is negative, its interval
    may lie below 0 as a whole; cut to what is possible it would be the point 0, as if nobody could
    have the value. With h the distance of its upper end, that end is moved from F̃ + h to
    F̃ + √(F̃² + h²), which is positive, meets the other formula at F̃ = 0, and is never the lower of
    the two: the interval only grows, and covers as before. For a normal law it is the
    likelihood-ratio interval on F >= 0 with the two-sided threshold, which holds the interval of
    Feldman and Cousins (1998). Answers above 1 are treated alike.

    Examples
    --------
    >>> from ldpopt.oracles import OUE
    >>> noise = Noise.of_reports(10_000, OUE(epsilon=1.0, d=2))
    >>> lower, upper = possible_interval(np.array([0.3, -0.06]), noise, 0.95)
    >>> lower.round(3), upper.round(3)
    (array([0.261, 0.   ]), array([0.339, 0.011]))
    """
    answers, lower, upper = _answers_and_ends(frequencies, noise, level, members, centred=centred)
    # The same from the other side, only where it is needed: 1 - x loses the digits of a small x.
    lower = np.where(answers > 1, 1 - _reaching(1 - answers, 1 - lower), lower)
    return clipped(lower, _reaching(answers, upper))


def _reaching(answers: Array, upper: Array) -> Array:
    """Return upper ends that are positive, however far below 0 the answer lies."""
    # An exact answer, such as that to all values, has no distance, and stays where it is.
    distance = np.maximum(upper - answers, 0.0)
    return np.where(answers < 0, answers + np.hypot(answers, distance), upper)


def reach_of(level: float) -> float:
    """Return how far a normal interval reaches to either side, in standard errors.

    Examples
    --------
    >>> round(reach_of(0.95), 2)
    1.96
    """
    inside = (1 + level) / 2
    # Next to 1 only the tail has digits left.
    return NormalDist().inv_cdf(inside) if inside < 1 else -NormalDist().inv_cdf((1 - level) / 2)


def level_of_each(
    level: float, count: int, *, simultaneous: bool = False, selected: int | None = None
) -> float:
    """Return the level of each of ``count`` intervals: see ``FrequencyEstimate.interval``.

    Raises
    ------
    InvalidInputError
        If ``selected`` is below 1, or beside ``simultaneous``.

    Examples
    --------
    >>> round(level_of_each(0.95, 50, simultaneous=True), 6)
    0.999
    """
    simultaneous = validate.flag("simultaneous", simultaneous)
    if selected is None:
        # Bonferroni: each interval gets an equal share of the probability to fail.
        return 1 - (1 - level) / count if simultaneous else level
    if simultaneous:
        raise InvalidInputError(
            "intervals that hold at once hold for selected values too: leave out selected=..., or "
            "simultaneous=True"
        )
    selected = validate.integer("selected (the number of intervals)", selected, minimum=1)
    return level_of_selected(level, selected, count)


def level_of_selected(level: float, selected: int, count: int) -> float:
    """Return the level of each interval that keeps the false coverage rate of selected ones.

    If so many of ``count`` answers are looked at because they are the largest, intervals of the
    level itself miss more often than it states: what is selected is large by chance, too. At the
    level 1 - (1 - level) selected/count the expected share of intervals that miss, among those
    looked at, is at most 1 - level (Benjamini and Yekutieli 2005). As their number is fixed, no
    independence is needed: of all ``count`` intervals selected·(1 - level) are expected to miss,
    and those that are looked at are among them.

    Examples
    --------
    >>> round(level_of_selected(0.95, selected=40, count=5_000), 6)
    0.9996
    """
    return 1 - (1 - level) * min(selected, count) / count


def _answers_and_ends(
    frequencies: Array,
    noise: Noise,
    level: float,
    members: csr_array | None,
    *,
    centred: bool,
) -> tuple[Array, Array, Array]:
    """Return the answers, unbiased, and the ends of their intervals."""
    z = reach_of(level)
    if members is None:
        # Every value by itself has the same size, which is one number then.
        size: Array = np.ones(1)
        answers = frequencies
    else:
        size = np.asarray(members.sum(axis=1), dtype=np.float64)
        answers = totals(frequencies, members)
    constant, slope = noise.answer_variance(frequencies, members, centred=centred)
    shift: Array | float = 0.0
    if centred:
        missing = 1 - frequencies.sum(axis=-1, keepdims=True)
        # Norm's answer: every value of the set gets its d-th share of what is missing.
        shift = size * missing / frequencies.shape[-1]
    unbiased = answers + shift
    lower, upper = score(unbiased, constant, slope, z)
    protocol = noise.protocol
    n = noise.n
    # Counts are known only where reports are.
    if protocol is None or n is None:
        return unbiased, lower, upper
    # Norm's answer to the whole domain is 1, whatever its count.
    counted = size < protocol.d if centred else size > 0
    shares = None
    if members is not None:
        shares = protocol.report_shares(members, centred=centred)
    if shares is not None:
        rough = counted & (size > 1) & _is_rough(n, shares, z)
        at = np.flatnonzero(rough)
        ends = bounded(unbiased[..., at], n, shares.of(at), level)
        lower[..., at], upper[..., at] = ends
        # The count of one value is a sum of independent events with every protocol.
        counted &= size == 1
    small = counted & _is_small(n, protocol, size, z)
    at = np.flatnonzero(np.broadcast_to(small, answers.shape[-1:]))
    if at.size:
        sizes = size if members is None else size[at]
        ends = _of_small_counts(answers[..., at], n, protocol, sizes, level)
        lower[..., at], upper[..., at] = ends
        # These are made from the count, whatever the sum of all answers is.
        unbiased[..., at] = answers[..., at]
    return unbiased, lower, upper


def _of_small_counts(
    answers: Array, n: int, protocol: PureProtocol, size: Array, level: float
) -> tuple[Array, Array]:
    """Return the ends of Clopper and Pearson's intervals for answers to sets of some sizes."""
    events = _events(protocol, size)
    gap = protocol.p - protocol.q
    without_users = size * protocol.q
    counts = n * (without_users + gap * answers)
    low, high = clopper_pearson(counts, n * events, level)
    # From shares of supporting reports back to frequencies: N Eq. 4, summed over the set.
    lower = (low * events - without_users) / gap
    upper = (high * events - without_users) / gap
    return lower, upper


def _events(protocol: PureProtocol, size: Array) -> Array:
    """Return how many events per report the count of a set of each size is a sum of."""
    # Values of disjoint support make a set one event per report; elsewhere each member is an
    # event of its own.
    return np.ones_like(size) if protocol.pair_support == (0.0, 0.0) else size


def score(answers: Array, constant: Array, slope: Array, z: float) -> tuple[Array, Array]:
    """Return the ends of {F : (F̃ - F)² <= z² (α + β F)}: Wilson (1927), a variance linear in F.

    Parameters
    ----------
    answers
        Unbiased estimates F̃, shape (..., m).
    constant, slope
        α and β, of shapes that broadcast to the answers'.
    z
        The two-sided normal quantile.

    Examples
    --------
    >>> score(np.array([0.5]), np.array([0.0025]), np.array([0.0]), 2.0)
    (array([0.4]), array([0.6]))
    """
    shift = z**2 * slope / 2
    square = shift**2 + z**2 * (constant + slope * answers)
    # Counts never make it negative; frequencies that no counts give are answered by the vertex.
    half = np.sqrt(np.maximum(square, 0.0))
    middle = answers + shift
    return middle - half, middle + half


def clopper_pearson(counts: Array, trials: Array, level: float) -> tuple[Array, Array]:
    """Return the range of probabilities that a binomial count does not reject.

    The interval is that of Clopper and Pearson (1934).

    It covers a sum of independent events of unequal probabilities at least as often: given
    their mean, the tails of such a sum are at most the binomial's (Hoeffding 1956). So it holds
    for support counts of given users, half of whom, say, have the value.

    Parameters
    ----------
    counts
        Rounded to the nearest whole number in 0 .. trials, shape (..., m).
    trials
        Number of events, of a shape that broadcasts to the counts'.
    level
        Probability in (0, 1).

    Examples
    --------
    >>> [end.round(4) for end in clopper_pearson(np.array([0.0, 5.0]), np.array([10.0]), 0.95)]
    [array([0.    , 0.1871]), array([0.3085, 0.8129])]
    """
    from scipy.special import betainccinv, betaincinv  # slow to import, and few intervals need them

    # Equal tails: each end fails with half of the probability.
    tail = (1 - level) / 2
    counts = np.clip(np.round(counts), 0, trials)
    where: NDArray[np.intp] | slice = slice(None)
    shape = counts.shape
    if trials.size == 1:  # few counts occur, and most of them often
        counts, where = np.unique(counts, return_inverse=True)
    missing = trials - counts
    # Without a single event, or with all of them, one end is that of all probabilities.
    low = betaincinv(np.maximum(counts, 1), missing + 1, tail)
    lower = np.where(counts > 0, low, 0.0)
    # The complement takes the tail as it is: 1 - tail would round a small one.
    high = betainccinv(counts + 1, np.maximum(missing, 1), tail)
    upper = np.where(missing > 0, high, 1.0)
    return lower[where].reshape(shape), upper[where].reshape(shape)


def bounded(answers: Array, n: int, shares: ReportShares, level: float) -> tuple[Array, Array]:
    """Return the ends of intervals for means of n independent shares of bounded size.

    They hold for every n and every distribution of the users: at each end the probability of what
    was seen is at most (1 - level)/2 by the inequality of Bennett (1962) in the form of Hoeffding
    (1963, Theorem 3), with the largest variance that users with this mean can have.

    Parameters
    ----------
    answers
        Means of the shares, shape (..., m).
    n
        Number of shares.
    shares
        Their bounds.
    level
        Probability in (0, 1).
    """
    # Each end fails with half of the probability.
    allowed = math.log(2 / (1 - level)) / n

    def end(sign: int, reach: Array) -> Array:
        """Return where the inequality stops allowing what was seen, on one side of the answers."""
        low = np.zeros_like(answers)
        high = np.broadcast_to(reach, answers.shape)  # shares cannot be further from their means
        for _ in range(_HALVINGS):
            distance = (low + high) / 2
            frequency = np.clip(answers + sign * distance, 0.0, 1.0)
            variance = shares.outside + (shares.inside - shares.outside) * frequency
            allows = _bennett(distance, variance, reach) <= allowed
            low = np.where(allows, distance, low)
            high = np.where(allows, high, distance)
        return answers + sign * high

    # Below its mean, which is at most 1, a share lies by no more than 1 - lowest; above it, by no
    # more than the highest share.
    return end(-1, shares.highest), end(1, 1 - shares.lowest)


def _bennett(distance: Array, variance: Array, reach: Array) -> Array:
    """Return x, where the mean of n shares lies this far above its own with P <= exp(-n x).

    It is the divergence of two distributions on two points with this variance and reach.
    """
    from scipy.special import xlog1py  # slow to import, as above

    near = xlog1py(variance + reach * distance, reach * distance / variance)
    far = xlog1py(reach * (reach - distance), -distance / reach)
    return np.asarray((near + far) / (reach**2 + variance))


def clipped(lower: Array, upper: Array) -> tuple[Array, Array]:
    """Return intervals cut to [0, 1]; one that lies outside becomes the nearer end, a point."""
    return np.clip(lower, 0.0, 1.0), np.clip(upper, 0.0, 1.0)


def on_simplex(lower: Array, upper: Array) -> tuple[Array, Array]:
    """Return the range of each value over the simplex within a box: linear programs in closed form.

    The largest possible f_v is 1 minus the smallest sum of the others, and the smallest is 1 minus
    their largest sum. The bounds must hold jointly: if each holds with its own probability only,
    the results hold with a smaller one.

    Parameters
    ----------
    lower, upper
        Ends of shape (..., d). A box that misses the sum is only cut.

    Examples
    --------
    >>> on_simplex(np.array([0.6, 0.0, -0.2]), np.array([0.8, 0.9, 0.1]))
    (array([0.6, 0.1, 0. ]), array([0.8, 0.4, 0.1]))
    """
    lower, upper = clipped(lower, upper)
    smallest = lower.sum(axis=-1, keepdims=True)
    largest = upper.sum(axis=-1, keepdims=True)
    # Elsewhere the others' bounds would lift a lower end above the upper one.
    met = (smallest <= 1) & (largest >= 1)
    tighter_lower = np.maximum(lower, 1 - (largest - upper))
    tighter_upper = np.minimum(upper, 1 - (smallest - lower))
    return np.where(met, tighter_lower, lower), np.where(met, tighter_upper, upper)


def _is_rough(n: int, shares: ReportShares, z: float) -> NDArray[np.bool_]:
    """Return where means of n such shares are too skewed or coarse for a normal tail at z."""
    smallest = np.minimum(shares.inside, shares.outside)
    sd = np.sqrt(n * smallest)
    is_skewed = z**3 * shares.skewness / 6 > _SKEWED * math.sqrt(n)
    # Beyond a level of 0.95 a tail is smaller than that: an error is then a part of the tail.
    normal = NormalDist()
    allowed = min(_LATTICE, _SKEWED * normal.cdf(-z))
    # Half a step of the lattice moves a tail by the density there times half a step over sd.
    is_coarse = normal.pdf(z) * shares.step > 2 * allowed * sd
    return np.asarray(is_skewed | is_coarse)


def _is_small(n: int, protocol: PureProtocol, size: Array, z: float) -> NDArray[np.bool_]:
    """Return where the count of a set of this size is too skewed or coarse for a normal tail at z.

    Both extremes count: nobody or everybody in the set.
    """
    # The empty set has no count.
    small = np.zeros(size.shape, dtype=np.bool_)
    events = np.maximum(_events(protocol, size), 1.0)
    nobody = size * protocol.q
    everybody = nobody + (protocol.p - protocol.q)
    density = NormalDist().pdf(z)
    for supporting in (nobody, everybody):
        probability = supporting / events
        variance = n * events * probability * (1 - probability)
        # Positive, so that events which always or never occur count as small.
        sd = np.sqrt(np.maximum(variance, np.finfo(np.float64).tiny))
        # The first Edgeworth term at z, relative to the tail; and half a step of the count.
        skewness = z**3 * np.abs(1 - 2 * probability) / 6
        is_skewed = skewness > _SKEWED * sd
        is_coarse = density > 2 * _LATTICE * sd
        small |= is_skewed | is_coarse
    return small & (size > 0)

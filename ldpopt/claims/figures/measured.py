"""Numbers with intervals at any confidence, so that many of them can be right at the same time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincinv, stdtrit

from ldpopt.claims.figures.tables import Row

Interval = tuple[float, float]


@dataclass(frozen=True)
class Measured:
    """A number from simulated trials.

    Attributes
    ----------
    value
        The estimate.
    interval
        From the chance of a miss on each side to the interval: 0.025 gives the usual 95 %.
    """

    value: float
    interval: Callable[[float], Interval]


def exact(value: float) -> Measured:
    """Return a number that no trials stand behind, such as a count of the data themselves."""
    return Measured(value, lambda _: (value, value))


def unknown(value: float) -> Measured:
    """Return a number of which one trial says nothing: its interval is unbounded."""
    return Measured(value, lambda _: (-math.inf, math.inf))


def student(trials: int, miss: float) -> float:
    """Return the quantile of Student's t that a mean over trials exceeds with probability miss.

    Examples
    --------
    >>> round(student(30, 0.025), 3)
    2.045
    """
    return float(stdtrit(trials - 1, 1 - miss))


def mean_of(row: Row, unit: float = 1.0) -> Measured:
    """Return a row's mean over a unit, with Student's interval."""
    value = row.mean / unit
    # The data themselves have no trials.
    if row.trials == 0:
        return exact(value)
    if math.isnan(row.std):
        return unknown(value)
    return mean_with_error(value, row.std / math.sqrt(row.trials) / abs(unit), row.trials)


def mean_with_error(value: float, error: float, trials: int) -> Measured:
    """Return a mean over trials with Student's interval, from its standard error."""
    # One trial does not show how much trials differ.
    if trials < 2:
        return unknown(value)

    def interval(miss: float) -> Interval:
        half = student(trials, miss) * error
        return value - half, value + half

    return Measured(value, interval)


def variance_of(row: Row, kurtosis: float = 3.0) -> Measured:
    """Return a row that is a variance over trials, with the interval of a variance.

    Parameters
    ----------
    row
        Its mean is the variance.
    kurtosis
        Of the single trials; 3 for a Gaussian. A variance s² of T trials has the relative variance
        (kurtosis - 1)/T, as one of Gaussian numbers with fewer degrees of freedom has.
    """
    if row.trials < 2:
        return unknown(row.mean)
    degrees = 2 * (row.trials - 1) / (kurtosis - 1)
    return Measured(row.mean, lambda miss: _chi_square(row.mean, degrees, miss))


def deviation_of(row: Row) -> Measured:
    """Return the standard deviation of a row's trials over their mean, for Gaussian trials."""
    value = row.std / row.mean
    if row.trials < 2 or math.isnan(value):
        return unknown(value)
    mean = mean_of(row)

    def interval(miss: float) -> Interval:
        # Both numbers are uncertain: each gets half of the chance of a miss.
        low, high = _chi_square(row.std**2, row.trials - 1, miss / 2)
        smallest, largest = mean.interval(miss / 2)
        if smallest <= 0:
            return 0.0, math.inf
        return math.sqrt(low) / largest, math.sqrt(high) / smallest

    return Measured(value, interval)


def _chi_square(variance: float, degrees: float, miss: float) -> Interval:
    # The quantile p of χ² with k degrees of freedom is twice that of the gamma law of shape k/2.
    low, high = (2 * float(gammaincinv(degrees / 2, p)) for p in (miss, 1 - miss))
    if low == 0:
        return variance * degrees / high, math.inf
    return variance * degrees / high, variance * degrees / low


def quotient(over: Measured, under: Measured) -> Measured:
    """Return the ratio of two positive numbers that need not be independent.

    Each gets half of the chance of a miss, so that both are inside their intervals together.
    """
    value = over.value / under.value if under.value else math.inf

    def interval(miss: float) -> Interval:
        low, high = over.interval(miss / 2)
        smallest, largest = under.interval(miss / 2)
        # A number that may be 0 can be undercut by any factor.
        lower = max(low, 0.0) / largest if largest > 0 else 0.0
        upper = high / smallest if smallest > 0 else math.inf
        return lower, upper

    return Measured(value, interval)


def difference(larger: Measured, smaller: Measured) -> Measured:
    """Return the difference of two numbers that need not be independent; see `quotient`."""

    def interval(miss: float) -> Interval:
        low, high = larger.interval(miss / 2)
        smallest, largest = smaller.interval(miss / 2)
        return low - largest, high - smallest

    return Measured(larger.value - smaller.value, interval)


def spread(numbers: Sequence[Measured]) -> Measured:
    """Return the largest over the smallest of positive numbers: 1 if all are equal.

    All of them are inside their intervals together, so the choice of the two does not matter.
    """
    values = [number.value for number in numbers]

    def interval(miss: float) -> Interval:
        intervals = [number.interval(miss / len(numbers)) for number in numbers]
        lows, highs = zip(*intervals, strict=True)
        upper = max(highs) / min(lows) if min(lows) > 0 else math.inf
        # Numbers that may all be equal are not known to differ.
        return max(max(lows) / min(highs), 1.0) if min(lows) > 0 else 1.0, upper

    return Measured(max(values) / min(values), interval)


def median(numbers: Sequence[Measured]) -> Measured:
    """Return the median of numbers; where each is inside its interval, so is their median."""

    def interval(miss: float) -> Interval:
        intervals = [number.interval(miss / len(numbers)) for number in numbers]
        low, high = np.median(np.array(intervals), axis=0)
        return float(low), float(high)

    return Measured(float(np.median([number.value for number in numbers])), interval)


def average(numbers: Sequence[Measured]) -> Measured:
    """Return the mean of numbers that vary independently about a common one.

    The interval follows from how much they differ; those of the numbers are not needed.
    """
    if len(numbers) == 1:
        (number,) = numbers
        return number
    values = np.array([number.value for number in numbers])
    error = float(values.std(ddof=1)) / math.sqrt(len(values))
    return mean_with_error(float(values.mean()), error, len(values))

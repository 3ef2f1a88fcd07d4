"""The rows of a study's table, and the intervals of means and of their paired ratios."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Place:
    """Where candidates meet: one data set, oracle, budget and measured number."""

    data: str
    n: int
    d: int
    oracle: str
    epsilon: float
    query: str
    metric: str
    parameter: str | int | float


class Interval(NamedTuple):
    """A number with the ends of its confidence interval; NaN where draws do not determine them."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class StudyRow(Place):
    """One number of a study.

    Attributes
    ----------
    data, n, d, oracle, epsilon
        Whose frequencies were collected, and how.
    query, metric, parameter
        What was measured: the parameter is empty unless a measure has several, such as k.
    candidate, draws
        Who, and on how many collections.
    mean, low, high
        Mean over the draws with Student's interval.
    ratio, ratio_low, ratio_high
        Mean over the baseline's, on the same draws, with a paired interval; NaN unless both means
        are positive.
    seconds
        Time of the candidate per draw.
    """

    candidate: str
    draws: int
    mean: float
    low: float
    high: float
    ratio: float
    ratio_low: float
    ratio_high: float
    seconds: float


def mean_of(values: Array, level: float) -> Interval:
    """Return a mean with Student's interval.

    Examples
    --------
    >>> [round(number, 3) for number in mean_of(np.array([1.0, 2.0, 3.0]), 0.95)]
    [2.0, -0.484, 4.484]
    """
    mean = float(values.mean())
    half = _quantile(len(values), level) * _standard_error(values)
    return Interval(mean, mean - half, mean + half)


def ratio_of(values: Array, others: Array, level: float) -> Interval:
    """Return the ratio of two means over the same draws, with a paired interval.

    The draws are common, so that what they share cancels (delta method for the logarithm of the
    ratio, with Student's quantile). NaN unless both means are positive.

    Examples
    --------
    >>> errors = np.array([1.0, 2.0, 4.0, 5.0])
    >>> ratio_of(errors / 2, errors, 0.95)
    Interval(value=0.5, low=0.5, high=0.5)
    """
    over = float(values.mean())
    under = float(others.mean())
    if not (over > 0 and under > 0):
        return Interval(math.nan, math.nan, math.nan)
    ratio = over / under
    error = _standard_error(values / over - others / under)
    factor = math.exp(_quantile(len(values), level) * error)
    return Interval(ratio, ratio / factor, ratio * factor)


def _standard_error(values: Array) -> float:
    # One draw does not show how much draws differ.
    return float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else math.nan


def _quantile(draws: int, level: float) -> float:
    from scipy.special import stdtrit  # slow to import, and needed only here

    return float(stdtrit(draws - 1, (1 + level) / 2)) if draws > 1 else math.nan

"""The values that people look at: the largest ones, with names, intervals and what these promise.

Tables, pictures and representations of an estimate all show what is chosen here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt import validate
from ldpopt.estimate.noise import Noise
from ldpopt.estimate.sets import Sets, membership, totals
from ldpopt.printable import percent, shortened
from ldpopt.tables import html_of, lines_of

Array = NDArray[np.float64]

_DECIMALS = 5  # of frequencies in tables, unless all are small
_TOP = 10  # values that ``top`` returns unless their number is given
_ALL = slice(None)


@dataclass(frozen=True)
class Value:
    """One value of an estimate.

    Attributes
    ----------
    label
        Its name; its number as text where the estimate has no labels.
    index
        Its place in the domain.
    frequency
        Its estimate.
    """

    label: str
    index: int
    frequency: float


def decimals_for(frequencies: Sequence[float]) -> int:
    """Return how many decimals a column of frequencies needs: 5, or more where all are small.

    Examples
    --------
    >>> decimals_for([0.25, 1e-6]), decimals_for([3e-6, 1e-6])
    (5, 8)
    """
    greatest = max(map(abs, frequencies), default=0.0)
    if greatest == 0:
        return _DECIMALS
    # Three digits of the greatest, however many values share the users.
    return max(_DECIMALS, 2 - math.floor(math.log10(greatest)))


class TopValues(list[Value]):
    """The largest values, the largest first: a list that shows itself as a table.

    Examples
    --------
    >>> TopValues([Value("dog", 1, 0.5), Value("cat", 0, 0.25)])
    value  index  frequency
    dog    1      0.50000
    cat    0      0.25000
    """

    def __repr__(self) -> str:
        return "\n".join(lines_of(*self._texts()))

    def _repr_html_(self) -> str:
        """Return the values as a table in notebooks."""
        return html_of(*self._texts())

    def _texts(self) -> tuple[list[str], list[list[str]]]:
        """Return headings and rows; places only where names differ from them."""
        is_labelled = any(value.label != str(value.index) for value in self)
        decimals = decimals_for([value.frequency for value in self])
        rows = []
        for value in self:
            place = [str(value.index)] if is_labelled else []
            rows.append([shortened(value.label), *place, f"{value.frequency:.{decimals}f}"])
        places = ["index"] if is_labelled else []
        return ["value", *places, "frequency"], rows


@dataclass(frozen=True, eq=False)
class Shown:
    """The largest of some answers, the largest first.

    Attributes
    ----------
    names
        Of values or sets, as their origin wrote them.
    frequencies
        Their estimates.
    count
        Of how many answers they are the largest.
    lower, upper
        The ends of their intervals; None without intervals.
    notes
        What the intervals promise, in sentences.
    """

    names: list[str]
    frequencies: Array
    count: int
    lower: Array | None = None
    upper: Array | None = None
    notes: tuple[str, ...] = ()


def largest(numbers: NDArray[Any], k: int) -> NDArray[np.intp]:
    """Return the places of the k largest numbers, the largest first; of equal ones the first.

    Costs one pass and a sort of k numbers, however many there are.

    Examples
    --------
    >>> largest(np.array([0.25, 0.5, 0.0, 0.25, 0.0]), 4)
    array([1, 0, 3, 2])
    """
    k = min(k, len(numbers))
    if not k:
        return np.empty(0, dtype=np.intp)
    smallest = np.partition(numbers, len(numbers) - k)[len(numbers) - k]
    above = np.flatnonzero(numbers > smallest)
    # Post-processing leaves many zeros: those that fill up the k are the first in the domain.
    equal = np.flatnonzero(numbers == smallest)[: k - len(above)]
    ordered = above[np.argsort(-numbers[above], kind="stable")]
    return np.concatenate([ordered, equal])


def title_of(shown: int, count: int, what: str) -> str:
    """Return what so many of some answers are, for titles and captions.

    Examples
    --------
    >>> title_of(2, 9, "values"), title_of(1, 9, "values"), title_of(9, 9, "values")
    ('the 2 largest of 9 values', 'the largest of 9 values', 'all values')
    """
    if shown == count:
        return f"all {what}"
    number = "" if shown == 1 else f"{shown:,} "
    return f"the {number}largest of {count:,} {what}"


def names_of(labels: Sequence[str] | None, indices: NDArray[np.intp]) -> list[str]:
    """Return the labels of some values, or their numbers where there are no labels."""
    return [str(i) if labels is None else labels[i] for i in indices.tolist()]


def top_values(
    frequencies: Array, labels: Sequence[str] | None, k: int | None, above: float | None
) -> TopValues:
    """Return the largest values of one vector: see ``FrequencyEstimate.top``."""
    if k is not None:
        k = validate.integer("k", k, minimum=0)
    if above is not None:
        # All that are larger, unless k is smaller.
        larger = int(np.count_nonzero(frequencies > above))
        k = larger if k is None else min(k, larger)
    indices = largest(frequencies, _TOP if k is None else k)
    names = names_of(labels, indices)
    shown = zip(names, indices.tolist(), frequencies[indices].tolist(), strict=True)
    return TopValues(Value(*value) for value in shown)


def standard_errors(
    frequencies: Array, noise: Noise, indices: NDArray[np.intp] | slice = _ALL
) -> Array:
    """Return the standard errors that raw estimates of these values have.

    True frequencies lie in 0 .. 1, where estimates may not: the nearest ones stand in their place.
    """
    f = np.clip(frequencies[indices], 0.0, 1.0)
    # Of these values alone: a domain may have a million others.
    constant, slope = (
        np.broadcast_to(part, frequencies.shape)[indices] for part in (noise.constant, noise.slope)
    )
    return np.sqrt(constant + slope * f)


def set_errors(frequencies: Array, noise: Noise, sets: Sets) -> Array:
    """Return the standard errors that raw estimates of the sets' total frequencies have."""
    f = np.clip(frequencies, 0.0, 1.0)
    members = membership(sets, len(f))
    constant, slope = noise.answer_variance(f, members)
    return np.sqrt(constant + slope * totals(f, members))


def interval_notes(
    rows: Shown, level: float, each: float, *, simultaneous: bool
) -> tuple[str, ...]:
    """Return what the intervals shown promise, and why points may lie outside them.

    Parameters
    ----------
    rows
        With intervals.
    level, each
        The level that was requested, and that of each interval shown.
    simultaneous
        Whether all intervals hold at once.
    """
    promise = _promise(level, each, simultaneous=simultaneous)
    if rows.lower is None or rows.upper is None:
        return ()
    outside = note_of_outside("Points", rows.frequencies, rows.lower, rows.upper)
    return (promise, *outside)


def note_of_outside(what: str, frequencies: Array, lower: Array, upper: Array) -> tuple[str, ...]:
    """Return how many answers are outside their intervals, and why; nothing where none is.

    Parameters
    ----------
    what
        The answers, in the plural.
    frequencies, lower, upper
        The answers and the ends, of one shape.
    """
    # A point on an end is half outside: its error bar, too, goes to one side alone.
    is_outside = (frequencies <= lower) | (frequencies >= upper)
    # The empty set is 0, whatever the reports say: its interval is that point.
    is_outside &= (lower < upper) | (frequencies != lower)
    # Nor is anything below an interval that begins where frequencies do, or above the other end.
    is_outside &= (frequencies != lower) | (lower != 0)
    is_outside &= (frequencies != upper) | (upper != 1)
    outside = int(is_outside.sum())
    if not outside:
        return ()
    return (
        f"{what} at an end of their interval or outside: {outside:,} of {frequencies.size:,}. "
        "Post-processing moves estimates until they fit together, and intervals are made from the "
        "reports alone.",
    )


def _promise(level: float, each: float, *, simultaneous: bool) -> str:
    if simultaneous:
        return (
            "All intervals, also those that are not shown, hold at once at a level of "
            f"{percent(level)}."
        )
    if each > level:
        return (
            f"Each interval has a level of {percent(each)}: values are shown because their "
            f"estimates are large, and so at most {percent(1 - level)} of those shown are "
            "expected to miss (false coverage rate)."
        )
    return f"Each interval has a level of {percent(level)}."

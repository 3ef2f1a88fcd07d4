"""What readers have to know of the intervals that they see, in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def interval_notes(
    columns: Mapping[str, Sequence[Any]], about: Mapping[str, Any], shown: int, each: float
) -> list[str]:
    """Return what the intervals of the largest values promise, and why points may lie outside.

    Parameters
    ----------
    columns
        ``frequency``, ``lower`` and ``upper`` of all values or sets.
    about
        ``method``, ``interval`` (the level) and, for joint intervals, ``simultaneous``.
    shown
        How many of the largest are shown.
    each
        The level of each of their intervals.
    """
    # Percent without trailing zeros; a level of one interval may have many nines.
    level = f"{100 * about['interval']:.6g} %"
    misses = f"{100 * (1 - about['interval']):.3g} %"
    if about.get("simultaneous"):
        promise = (
            f"All intervals, also those that are not shown, hold at once at a level of {level}."
        )
    elif each > about["interval"]:
        promise = (
            f"Each interval has a level of {100 * each:.6g} %: values are shown because their "
            f"estimates are large, and so at most {misses} of those shown are expected to miss "
            "(false coverage rate)."
        )
    else:
        promise = f"Each interval has a level of {level}."
    outside = _outside(columns, shown)
    if not outside:
        return [promise]
    return [
        promise,
        f"{outside} of the {min(shown, len(columns['frequency']))} points lie at an end of their "
        f"interval or outside: {about['method']} moves estimates until they fit together, and "
        "intervals are made from the reports alone.",
    ]


def _outside(columns: Mapping[str, Sequence[Any]], shown: int) -> int:
    """Return how many of the largest numbers are not inside their intervals."""
    frequency, lower, upper = (np.asarray(columns[key]) for key in ("frequency", "lower", "upper"))
    # A point on an end is half outside: its error bar, too, goes to one side alone.
    is_outside = (frequency <= lower) | (frequency >= upper)
    # The rows that the table and the picture show, in whose order equal numbers keep theirs.
    largest = np.argsort(-frequency, kind="stable")[:shown]
    return int(is_outside[largest].sum())

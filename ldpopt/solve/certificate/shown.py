"""Certificates as people look at them: their numbers, and the multipliers by constraint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

HEADINGS = ("constraint", "multipliers", "not 0", "smallest", "largest")
NOTE = (
    "A multiplier states how fast the minimum rises with the bound of its constraint; that of a "
    "Custom constraint is what cvxpy calls its dual value."
)

# Multipliers this far below the largest are what rounding leaves of a 0.
_ROUNDING = 1e-12


def multiplier_rows(duals: Any) -> list[list[str]]:
    """Return one row per constraint: how many multipliers it has, and between which numbers.

    Parameters
    ----------
    duals
        As ``Certificate.duals`` returns them: a mapping, or an array of one mapping per trial.

    Examples
    --------
    >>> multiplier_rows({"NonNegative": np.array([0.0, 0.5]), "SumsTo": np.array(-0.25)})
    [['NonNegative', '2', '1', '0', '0.5'], ['SumsTo', '1', '1', '-0.25', '-0.25']]
    """
    by_name: dict[str, list[NDArray[np.float64]]] = {}
    # Each trial of a composition has a problem of its own, with the same kinds of constraints.
    for trial in [duals] if isinstance(duals, Mapping) else np.ravel(duals):
        for name, values in trial.items():
            by_name.setdefault(str(name), []).append(_numbers(values))
    joined = {name: np.concatenate(parts) for name, parts in by_name.items()}
    largest = max((np.abs(numbers).max(initial=0.0) for numbers in joined.values()), default=0.0)
    return [_row(name, numbers, _ROUNDING * largest) for name, numbers in joined.items()]


def _numbers(values: Any) -> NDArray[np.float64]:
    """Return all multipliers of a constraint: cvxpy's have lists of several arrays."""
    if values is None:
        return np.empty(0)
    if isinstance(values, Sequence):
        return np.concatenate([_numbers(part) for part in values] or [np.empty(0)])
    array = np.asarray(values)
    if array.dtype == object:
        return np.concatenate([_numbers(part) for part in array.ravel()] or [np.empty(0)])
    return np.asarray(array.ravel(), dtype=np.float64)


def _row(name: str, numbers: NDArray[np.float64], zero: float) -> list[str]:
    """Return a constraint's row; multipliers of at most this size count as 0."""
    if not numbers.size:
        return [name, "–", "–", "–", "–"]
    # Adding 0 makes 0 of -0, which solvers return.
    low, high = (f"{end + 0.0:.4g}" for end in (numbers.min(), numbers.max()))
    others = np.count_nonzero(np.abs(numbers) > zero)
    return [name, f"{numbers.size:,}", f"{others:,}", low, high]


def numbers_of(certificate: Any, names: Sequence[str]) -> list[tuple[str, str]]:
    """Return the worst of each number over all trials, and why one of them is infinite."""
    rows = [(name, f"{float(np.max(getattr(certificate, name))):.3g}") for name in names]
    return [*rows, ("reason", certificate.reason)] if certificate.reason else rows

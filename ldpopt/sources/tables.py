"""What combined measurements show of themselves: headings and rows of text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ldpopt.estimate import FrequencyEstimate
from ldpopt.sources.source import Source
from ldpopt.tables import TitledTable

Array = NDArray[np.float64]

UNKNOWN = "–"  # what tables print where a number is not known


def of_sources(
    title: str, sources: Sequence[Source], weights: Sequence[float | None]
) -> TitledTable:
    """Return one row per source; a weight is its share in a value, None for groups."""
    headings = ("source", "of", "by", "reports", "standard error at 0", "drift", "weight")
    rows = []
    for source, weight in zip(sources, weights, strict=True):
        # What its numbers are about, beside what made them.
        kind = "values" if source.groups is None else "groups"
        about = f"{source.size:,} {kind}"
        row = [source.name, about, *_origin(source.estimate)]
        row.append(ranged(source.estimate.noise.sd))
        row.append(ranged(source.drift))
        row.append(UNKNOWN if weight is None else f"{100 * weight:.1f} %")
        rows.append(row)
    return TitledTable(title, headings, rows)


def _origin(estimate: FrequencyEstimate) -> list[str]:
    """Return the oracle with its ε, and the number of reports, as far as they are known."""
    oracle = estimate.noise.collected_by
    by = UNKNOWN if oracle is None else f"{type(oracle).__name__}, ε = {oracle.epsilon:g}"
    return [by, UNKNOWN if estimate.n is None else f"{estimate.n:,}"]


def of_rounds(
    title: str,
    sources: Sequence[Source],
    estimates: Sequence[FrequencyEstimate],
    notes: tuple[str, ...],
) -> TitledTable:
    """Return one row per round: the noise of its own collection, and that after smoothing."""
    headings = ("round", "by", "reports", "standard error alone", "over all rounds")
    rows = []
    for t, (source, estimate) in enumerate(zip(sources, estimates, strict=True)):
        alone = ranged(source.estimate.noise.sd)
        together = ranged(estimate.noise.sd)
        rows.append([str(t), *_origin(source.estimate), alone, together])
    return TitledTable(title, headings, rows, notes)


def ranged(values: Array | float) -> str:
    """Return a number, or the ends of several that differ.

    Examples
    --------
    >>> ranged(0.25), ranged(np.array([0.1, 0.25]))
    ('0.25', '0.1 to 0.25')
    """
    low = f"{np.min(values):.3g}"
    high = f"{np.max(values):.3g}"
    return low if low == high else f"{low} to {high}"

"""A picture of solutions: against their estimates, their shift, and the multiplier."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from ldpopt import style
from ldpopt.discovery.shifts import NEAR
from ldpopt.discovery.structure_rows import StructureRow

Array = NDArray[np.float64]

# Solutions whose shifts are joined by lines: more would cover each other.
_SHOWN = 6


@style.styled
def structure_figure(
    rows: Sequence[StructureRow], shift: str, estimates: Array, frequencies: Array
) -> Figure:
    """Return two panels over all solutions, and a third one for multipliers where a total has one.

    The first shows each frequency against its estimate: a rule for single values is a curve. The
    second shows what was added on the support: one level per solution is a constant shift.
    """
    has_multiplier = any(row.multiplier is not None for row in rows)
    figure = Figure(figsize=(4.2 * (2 + has_multiplier), 3.4), layout="constrained")
    grid = figure.subplots(1, 2 + has_multiplier, squeeze=False).ravel()
    _draw_values(grid[0], estimates, frequencies)
    _draw_shifts(grid[1], shift, estimates, frequencies)
    if has_multiplier:
        _draw_multipliers(grid[2], rows)
    return figure


def _draw_values(axes: Axes, estimates: Array, frequencies: Array) -> None:
    low = float(estimates.min())
    high = float(estimates.max())
    axes.plot([low, high], [low, high], color=style.GREY, linewidth=0.8, label="unchanged")
    axes.plot(
        estimates.ravel(),
        frequencies.ravel(),
        color=style.BLUE,
        linestyle="",
        marker=".",
        markersize=3,
    )
    axes.set(xlabel="estimate", ylabel="solution", title="values")
    axes.legend()


def _draw_shifts(axes: Axes, shift: str, estimates: Array, frequencies: Array) -> None:
    """Draw the shift of every value off zero in some solutions, joined within each."""
    some = zip(estimates[:_SHOWN], frequencies[:_SHOWN], strict=True)
    for start, f in some:
        order = np.argsort(start)
        # At zero the shift is whatever the estimate was: it would hide the others.
        kept = order[np.abs(f[order]) > NEAR]
        axes.plot(
            start[kept],
            f[kept] - start[kept],
            color=style.BLUE,
            linewidth=0.4,
            marker=".",
            markersize=3,
        )
    axes.set(xlabel="estimate", ylabel="solution - estimate", title=f"shift: {shift}")
    # With 0 in sight the axis shows how large a shift is, and not the rounding of a constant one.
    axes.axhline(0, color=style.GREY, linewidth=0.8)
    axes.locator_params(axis="x", nbins=5)  # more numbers would touch each other


def _draw_multipliers(axes: Axes, stated: Sequence[StructureRow]) -> None:
    """Draw the multiplier along n, else along ε, else solution by solution."""
    rows = [row for row in stated if row.multiplier is not None]
    values = [row.multiplier or 0.0 for row in rows]
    along = "n" if len({row.n for row in rows}) > 1 else "epsilon"
    places = [getattr(row, along) for row in rows]
    if len(set(places)) > 1 and None not in places:
        label = {"n": "n", "epsilon": "ε"}[along]
        if along == "n":
            axes.set_xscale("log")
    else:
        places = list(range(len(rows)))
        label = "solution"
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.plot(places, values, color=style.BLUE, linestyle="", marker=".", markersize=4)
    axes.set(xlabel=label, ylabel="multiplier of the total", title="multiplier")

"""A picture of how far solvers are from a closed form, value by value."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter

from ldpopt import style
from ldpopt.claims.engine.agreement import Agreement, SolverRecord
from ldpopt.rendering.picture import figure_bytes
from ldpopt.style import Look

_FREQUENCY_FLOOR = 1e-12  # solvers leave noise of this size where the closed form has zeros
_DIFFERENCE_FLOOR = 1e-18  # far below rounding: exact agreement is drawn here, not left out
_BINS = np.logspace(np.log10(_DIFFERENCE_FLOOR), -2, 33)


def agreement_figure(agreement: Agreement) -> bytes:
    """Return closed form against every solver, and their differences, as a PNG picture."""
    return figure_bytes(_draw(agreement))


@style.styled
def _draw(agreement: Agreement) -> Figure:
    figure = Figure(figsize=(9.5, 3.6))
    # Fixed margins: a layout that measures every tick label takes longer than the drawing.
    margins = {"left": 0.08, "right": 0.985, "bottom": 0.15, "top": 0.9, "wspace": 0.2}
    left, right = figure.subplots(1, 2, gridspec_kw=margins)
    equal = [_FREQUENCY_FLOOR, 2]
    left.plot(equal, equal, color=style.GREY, linewidth=0.8, zorder=0)
    plotted = 0
    for solver, look in style.solver_looks_of(agreement.solvers).items():
        _draw_solver(left, right, solver, agreement.solvers[solver], look)
        plotted = max(plotted, agreement.solvers[solver].closed.size)
    left.set(xlabel="closed form, frequency", ylabel="solver, frequency")
    right.set(xlabel="|solver - closed form|", ylabel="number of values")
    above = f"up to {plotted:,} values per solver (below {_FREQUENCY_FLOOR:g} at the edge)"
    # With a stated height: to look for a free one, matplotlib measures every tick label.
    left.set_title(above, y=1.0)
    # What is below the axis would vanish from it without a word.
    right.set_title(f"differences (below {_DIFFERENCE_FLOOR:g} at the edge)", y=1.0)
    for axes in (left, right):
        axes.set(xscale="log", yscale="log")
        for axis in (axes.xaxis, axes.yaxis):
            # As 1e-12, like the titles: to set powers of ten takes half of the drawing's time.
            axis.set_major_formatter(LogFormatter())
        axes.legend()
    return figure


def _draw_solver(
    scatter: Axes, histogram: Axes, solver: str, record: SolverRecord, look: Look
) -> None:
    scatter.plot(
        np.maximum(record.closed, _FREQUENCY_FLOOR),
        np.maximum(record.solved, _FREQUENCY_FLOOR),
        look.marker,
        color=look.colour,
        markersize=3,
        alpha=0.5,
        markerfacecolor="none",
        label=solver,
        rasterized=True,
    )
    # hist leaves out what is beyond its bins: clipping keeps the worst differences in the picture.
    difference = np.clip(np.abs(record.solved - record.closed), _BINS[0], _BINS[-1])
    histogram.hist(
        difference,
        bins=_BINS.tolist(),
        histtype="step",
        color=look.colour,
        linewidth=1.6,
        linestyle=look.line,
        label=solver,
    )

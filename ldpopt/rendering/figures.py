"""Pictures of the report, as the bytes of a file."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, NullFormatter, StrMethodFormatter

from ldpopt.claims.engine.agreement import Agreement
from ldpopt.studies.comparison import Row

_COLOURS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
)  # Okabe and Ito: told apart by every eye
_MARKERS = ("o", "x", "+", "^", "s", "v")
_FLOOR = 1e-12  # smaller frequencies and differences are drawn at the edge
_DIFFERENCE_FLOOR = 1e-18
_GAP_FLOOR = 1e-18
_SIZES = {"low": 4, "default": 7, "high": 10}  # of markers, by accuracy


def agreement_figure(agreement: Agreement) -> bytes:
    """Return closed form against every solver, and how far apart they are, as a PNG picture."""
    figure = Figure(figsize=(9.5, 3.6))
    # Fixed margins: a layout that measures every tick label takes longer than the drawing.
    left, right = figure.subplots(
        1, 2, gridspec_kw={"left": 0.08, "right": 0.985, "bottom": 0.15, "top": 0.9, "wspace": 0.2}
    )
    left.plot([_FLOOR, 2], [_FLOOR, 2], color="0.6", linewidth=0.8, zorder=0)
    bins = np.logspace(np.log10(_DIFFERENCE_FLOOR), -2, 33)
    for solver, colour, marker in zip(agreement.solvers, _COLOURS, _MARKERS, strict=False):
        closed, solved = agreement.solvers[solver].closed, agreement.solvers[solver].solved
        left.plot(
            np.maximum(closed, _FLOOR), np.maximum(solved, _FLOOR), marker, color=colour, markersize=3, alpha=0.5,
            markerfacecolor="none", label=solver, rasterized=True,
        )  # fmt: skip
        difference = np.maximum(np.abs(solved - closed), _DIFFERENCE_FLOOR)
        right.hist(
            difference,
            bins=bins.tolist(),
            histtype="step",
            color=colour,
            linewidth=1.6,
            label=solver,
        )
    left.set(
        xscale="log", yscale="log", xlabel="closed form, frequency", ylabel="solver, frequency"
    )
    left.set_title(f"every value (below {_FLOOR:g} at the edge)", fontsize=10)
    right.set(
        xscale="log", yscale="log", xlabel="|solver - closed form|", ylabel="number of values"
    )
    right.set_title(f"differences (below {_DIFFERENCE_FLOOR:g} at the edge)", fontsize=10)
    for axes in (left, right):
        axes.legend(frameon=False, fontsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    return _drawn(figure)


def comparison_figure(rows: Sequence[Row], kind: str = "png") -> bytes:
    """Return how accurate every solver is against how long it takes, a panel a problem and size; ``kind`` is png, svg or pdf.

    Inexactness is the larger of gap and violation, for which nobody needs to know the solution; a point outside the set may lie
    below the minimum, so that its gap is negative. A line joins the settings of one solver, whose markers grow
    with the accuracy asked for.
    """
    panels = list(dict.fromkeys((row.problem, row.d) for row in rows))
    solvers = list(dict.fromkeys(row.solver for row in rows if row.path == "conic"))
    columns = min(len(panels), 3)
    height = -(-len(panels) // columns)
    figure = Figure(figsize=(4.2 * columns + 1.2, 3.4 * height), layout="constrained")
    grid = figure.subplots(height, columns, squeeze=False, sharey=True).ravel()
    for axes, panel in zip(grid, panels, strict=False):
        for row in (row for row in rows if (row.problem, row.d) == panel and row.path != "conic"):
            axes.plot(
                row.seconds or np.nan,
                _inexact(row),
                "*",
                color="black",
                markersize=11,
                label="closed form",
            )
        for solver, colour, marker in zip(solvers, _COLOURS, _MARKERS, strict=False):
            mine = [
                row
                for row in rows
                if (row.problem, row.d, row.solver) == (*panel, solver) and row.gap is not None
            ]
            times, heights = (
                [row.seconds or np.nan for row in mine],
                [_inexact(row) for row in mine],
            )
            axes.plot(
                times, heights, color=colour, label=solver, linewidth=1, marker=marker, markersize=0
            )
            for row, *at in zip(mine, times, heights, strict=True):
                axes.plot(
                    *at,
                    marker,
                    color=colour,
                    markersize=_SIZES[row.accuracy],
                    markerfacecolor="none",
                )
        axes.set(xscale="log", yscale="log", xlabel="seconds, solved again")
        _few_ticks(axes)
        axes.set_title(f"{panel[0]}, d = {panel[1]:,}", fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    for axes in figure.axes[::columns]:
        axes.set_ylabel(f"larger of |gap| and violation\n(below {_GAP_FLOOR:g} drawn there)")
    named = {
        label: handle
        for axes in figure.axes
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    for solver, colour, marker in zip(solvers, _COLOURS, _MARKERS, strict=False):
        named[solver] = Line2D([], [], color=colour, marker=marker, markerfacecolor="none")
    for accuracy in dict.fromkeys(row.accuracy for row in rows if row.path == "conic"):
        named[f"accuracy {accuracy}"] = Line2D(
            [],
            [],
            color="0.4",
            marker="o",
            markerfacecolor="none",
            markersize=_SIZES[accuracy],
            linestyle="",
        )
    figure.legend(
        named.values(), named.keys(), loc="outside right upper", frameon=False, fontsize=8
    )
    return _drawn(figure, kind)


def _few_ticks(axes: Axes) -> None:
    """Leave room between the labels of the times: a few if they span less than a decade, else powers of ten alone."""
    low, high = axes.get_xlim()
    if high / low < 10:
        axes.xaxis.set_major_locator(MaxNLocator(3))
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:.3g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _inexact(row: Row) -> float:
    return max(abs(row.gap or 0.0), row.violation or 0.0, _GAP_FLOOR)


def _drawn(figure: Figure, kind: str = "png") -> bytes:
    picture = io.BytesIO()
    figure.savefig(picture, format=kind, dpi=130)
    return picture.getvalue()

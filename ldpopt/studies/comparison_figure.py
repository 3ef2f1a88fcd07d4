"""A picture of closed forms and solvers: how exact against how slow."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

from ldpopt import style
from ldpopt.printable import drawable_lines
from ldpopt.studies.comparison_rows import ComparisonRow
from ldpopt.style import Line, Look

_INEXACTNESS_FLOOR = 1e-18  # far below rounding: an exact point is drawn here, not left out
_SECONDS_FLOOR = 1e-7  # below the time of a call: only a stopped clock gets here
_MARKER_SIZES = {"low": 4, "default": 7, "high": 10}  # by accuracy
_TITLE = 38  # letters of a line of the title, which must not reach the legend beside the panel
_LEGEND_LINE = 0.17  # inches that one entry of 8 points takes


@style.styled
def draw_comparison(rows: Sequence[ComparisonRow]) -> Figure:
    """Return inexactness against time, with one panel per problem and size.

    Inexactness is the larger of the gap's absolute value and the violation, which can be stated
    without knowing the solution. (A point outside the set may lie below the minimum; its gap is
    negative.) A line joins the accuracies of one solver, and its markers grow with the accuracy.
    Filled markers are inaccurate solutions. Solvers that returned no point are listed below the
    title of the panel.

    Parameters
    ----------
    rows
        What ``compare_solvers`` yields: at least one row.
    """
    panels = list(dict.fromkeys((row.problem, row.d) for row in rows))
    # From all panels: a solver looks the same in each of them.
    looks = style.solver_looks_of(row.solver for row in rows if not row.is_own_path)
    handles = _legend_handles(rows, looks)
    # Whichever is taller, the panels or the legend beside them.
    legend = _LEGEND_LINE * len(handles) + 0.6
    figure, grid = style.panels(
        len(panels),
        lambda lines, columns: (4.2 * columns + 1.2, max(3.4 * lines, legend)),
        sharey=True,
    )
    ceiling = _ceiling(rows)
    for axes, panel in zip(grid, panels, strict=True):
        of_panel = [row for row in rows if (row.problem, row.d) == panel]
        _draw_panel(axes, of_panel, looks, ceiling)
    for axes in grid[:: style.COLUMNS]:
        axes.set_ylabel(_inexactness_label(rows, ceiling))
    names = [str(handle.get_label()) for handle in handles]
    figure.legend(handles, names, loc="outside right upper")
    return figure


def _draw_panel(
    axes: Axes, rows: Sequence[ComparisonRow], looks: Mapping[str, Look], ceiling: float
) -> None:
    """Draw the closed form and all solvers on one problem of one size."""
    for row in rows:
        if row.is_own_path:
            axes.plot(*_position(row, ceiling), "*", color=style.foreground(), markersize=11)
    for solver, look in looks.items():
        # Without seconds there is no point to draw: the title names the solver.
        timed = [
            row
            for row in rows
            if row.solver == solver and row.seconds is not None and not row.is_own_path
        ]
        _draw_solver(axes, timed, look, ceiling)
    axes.set(xscale="log", yscale="log", xlabel="seconds per repeated solve")
    _thin_out_ticks(axes)
    _entitle(axes, rows)


def _draw_solver(axes: Axes, rows: Sequence[ComparisonRow], look: Look, ceiling: float) -> None:
    """Draw one solver: a line through its accuracies, with a filled marker where it gave up."""
    positions = [_position(row, ceiling) for row in rows]
    axes.plot(
        [seconds for seconds, _ in positions],
        [inexactness for _, inexactness in positions],
        color=look.colour,
        linewidth=1,
        linestyle=look.line,
    )
    # Markers one by one: their size and filling differ along the line.
    for row, position in zip(rows, positions, strict=True):
        axes.plot(
            *position,
            look.marker,
            color=look.colour,
            markersize=_MARKER_SIZES[row.accuracy],
            markerfacecolor="none" if row.status == "optimal" else look.colour,
        )


def _entitle(axes: Axes, rows: Sequence[ComparisonRow]) -> None:
    """Write the problem and its size above a panel, and between them what returned no point."""
    without_point = textwrap.wrap(_without_point(rows), width=60)
    # With spaces at which no line ends, so that the size is not torn apart.
    title = f"{rows[0].problem}, d\u00a0=\u00a0{rows[0].d:,}"
    axes.set_title(
        "\n".join(drawable_lines(title, _TITLE)),
        fontsize=10,
        pad=6 + 10 * len(without_point),
    )
    axes.annotate(
        "\n".join(without_point),
        xy=(0.5, 1.0),
        xycoords="axes fraction",
        xytext=(0, 4),
        textcoords="offset points",
        ha="center",
        va="bottom",
        fontsize=7,
        color=style.GREY,
    )


def _without_point(rows: Sequence[ComparisonRow]) -> str:
    """Return which solvers returned no point, with the accuracies if only at some; or nothing."""
    accuracies = {row.accuracy for row in rows if not row.is_own_path}
    outcomes: dict[str, list[str]] = {}
    for row in rows:
        if row.seconds is None:
            # By outcome: a solver that fails at every accuracy is named once.
            outcomes.setdefault(f"{row.solver} {row.status}", []).append(row.accuracy)
    if not outcomes:
        return ""
    entries = []
    for outcome, at in outcomes.items():
        is_always = len(at) == len(accuracies)
        entries.append(outcome if is_always else f"{outcome} at {', '.join(at)}")
    return f"no point: {'; '.join(entries)}"


def _legend_handles(rows: Sequence[ComparisonRow], looks: Mapping[str, Look]) -> list[Line2D]:
    """Return what the legend explains: closed form, solvers, sizes and filling of markers."""
    handles = []
    paths = {row.path for row in rows if row.is_own_path}
    if paths:
        # Where a problem has no closed form, the library polishes a solver's point, or iterates.
        name = "closed form" if paths == {"closed-form"} else "the library's own path"
        handles.append(_handle(name, style.foreground(), "*", size=11))
    for solver, look in looks.items():
        handles.append(_handle(solver, look.colour, look.marker, filling="none", line=look.line))
    for accuracy in dict.fromkeys(row.accuracy for row in rows if not row.is_own_path):
        size = _MARKER_SIZES[accuracy]
        handles.append(_handle(f"accuracy {accuracy}", style.GREY, "o", filling="none", size=size))
    if any(row.status == "inaccurate" for row in rows):
        handles.append(_handle("inaccurate", style.GREY, "o"))
    return handles


def _handle(
    label: str,
    colour: str,
    marker: str,
    *,
    filling: str | None = None,
    size: float = 6,
    line: Line = "",
) -> Line2D:
    """Return one entry of the legend; without a filling the marker is filled with its colour."""
    return Line2D(
        [],
        [],
        label=label,
        color=colour,
        marker=marker,
        markerfacecolor=filling or colour,
        markersize=size,
        linestyle=line,
    )


def _thin_out_ticks(axes: Axes) -> None:
    """Label a few times without overlap, however short or long their range is."""
    low, high = axes.get_xlim()
    if high / low < 100:
        # Powers of ten alone would label one tick or none on so short an axis.
        few = MaxNLocator(3) if high / low < 10 else LogLocator(subs=(1, 2, 5))
        axes.xaxis.set_major_locator(few)
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:.3g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _inexactness(row: ComparisonRow) -> float:
    return max(abs(row.gap or 0.0), row.violation or 0.0, _INEXACTNESS_FLOOR)


def _ceiling(rows: Sequence[ComparisonRow]) -> float:
    """Return where infinite values are drawn: a decade above the largest finite one."""
    finite = [value for value in map(_inexactness, rows) if value < math.inf]
    return 10 * max(finite, default=1.0)


def _position(row: ComparisonRow, ceiling: float) -> tuple[float, float]:
    """Return the place of a row that has a point: its time and its inexactness."""
    seconds = max(row.seconds or 0.0, _SECONDS_FLOOR)
    return seconds, min(_inexactness(row), ceiling)


def _inexactness_label(rows: Sequence[ComparisonRow], ceiling: float) -> str:
    edges = f"below {_INEXACTNESS_FLOOR:g} drawn there"
    if any(_inexactness(row) == math.inf for row in rows):
        edges += f", infinite at {ceiling:.0e}"
    return f"larger of |gap| and violation\n({edges})"

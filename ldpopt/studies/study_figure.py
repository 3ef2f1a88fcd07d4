"""A picture of a study: means along ε or a parameter, or ratios to the baseline."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ldpopt import style, validate
from ldpopt.printable import drawable, drawable_lines, percent, shortened
from ldpopt.studies.study_rows import StudyRow
from ldpopt.style import Look

_TITLE = 38  # characters of a line above or below a panel
_LETTER = 0.07  # inches of a character of 8 points
_SHORT_NAME = 12  # characters that fit beside a panel


@style.styled
def study_figure(
    table: Sequence[StudyRow],
    candidates: Sequence[str],
    baseline: str,
    metric: str | None,
    *,
    level: float,
) -> Figure:
    """Return a figure of one metric, by default the first of a table's.

    It has a panel per data set, oracle and query. Bars are intervals at the given level.
    Raises InvalidInputError if the metric is unknown.
    """
    # In the order of the table, which is that of the user's arguments.
    metrics = list(dict.fromkeys(row.metric for row in table))
    shown = metrics[0] if metric is None else metric
    validate.lookup("metric", shown, dict.fromkeys(metrics))
    rows = [row for row in table if row.metric == shown]
    axis = _axis(rows)
    panels = list(dict.fromkeys(_panel(row, axis) for row in rows))
    looks = style.looks_of(candidates)
    # A line of text per candidate, where each has a line of its own; long names beside the panels.
    height = 3.0 if axis else 0.8 + 0.3 * len(candidates)
    longest = 0 if axis else max(len(shortened(name)) for name in candidates)
    names_width = _LETTER * max(longest - _SHORT_NAME, 0)
    figure, grid = style.panels(
        len(panels),
        lambda lines, columns: (4.4 * columns + names_width, height * lines + 0.4),
        sharey=not axis,
    )
    for axes, panel in zip(grid, panels, strict=True):
        inside = [row for row in rows if _panel(row, axis) == panel]
        if axis:
            _draw_curves(axes, inside, axis, looks)
        else:
            _draw_ratios(axes, inside, baseline, looks)
        axes.set_title("\n".join(drawable_lines(_title(panel), _TITLE)))
    figure.supxlabel(f"bars: {percent(level)} intervals", fontsize="small")
    if axis:
        handles, names = grid[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside right upper")
    return figure


def _axis(rows: Sequence[StudyRow]) -> str:
    """Return what runs along the axis: epsilon, parameter, or nothing."""
    if len({row.epsilon for row in rows}) > 1:
        return "epsilon"
    # Texts have no place on an axis: they get a panel each.
    parameters = {row.parameter for row in rows}
    is_numeric = all(isinstance(p, int | float) for p in parameters)
    return "parameter" if is_numeric and len(parameters) > 1 else ""


def _panel(row: StudyRow, axis: str) -> tuple[str | float, ...]:
    """Return what a panel shows, apart from what runs along its axis."""
    budget = "" if axis == "epsilon" else f"ε = {row.epsilon:g}"
    parameter = "" if axis == "parameter" else row.parameter
    return row.data, row.oracle, budget, row.query, parameter


def _title(panel: Iterable[object]) -> str:
    """Return what the rows of a panel have in common, without empty parts."""
    return ", ".join(part for part in map(str, panel) if part)


def _draw_curves(axes: Axes, rows: Sequence[StudyRow], axis: str, looks: dict[str, Look]) -> None:
    """Draw one line per candidate, with the interval of each mean."""
    for name, look in looks.items():
        line = [row for row in rows if row.candidate == name]
        if not line:
            continue
        line.sort(key=lambda row: getattr(row, axis))
        places = [getattr(row, axis) for row in line]
        means = [row.mean for row in line]
        # matplotlib takes the lengths of both halves of a bar.
        below = [row.mean - row.low for row in line]
        above = [row.high - row.mean for row in line]
        axes.errorbar(
            places,
            means,
            yerr=[below, above],
            label=drawable(name),
            elinewidth=0.6,
            **look.options(),
        )
    # Errors of methods differ by orders of magnitude; a logarithm needs intervals above 0.
    if all(row.low > 0 for row in rows):
        axes.set_yscale("log")
    axes.set(xlabel="ε" if axis == "epsilon" else "parameter", ylabel=rows[0].metric)


def _draw_ratios(
    axes: Axes, rows: Sequence[StudyRow], baseline: str, looks: dict[str, Look]
) -> None:
    """Draw each candidate's ratio to the baseline on a line of its own, with its interval."""
    places = {name: -number for number, name in enumerate(looks)}
    for row in rows:
        look = looks[row.candidate]
        ends = [[row.ratio - row.ratio_low], [row.ratio_high - row.ratio]]
        axes.errorbar(
            [row.ratio],
            [places[row.candidate]],
            xerr=ends,
            capsize=2,
            **(look.options() | {"linestyle": ""}),
        )
    # A ratio of 1 is the baseline: intervals that touch the line show no difference.
    axes.axvline(1, color=style.GREY, linewidth=0.8, zorder=0)
    axes.set_yticks([*places.values()], [drawable(name) for name in places], fontsize=8)
    # Half a line of space above the first candidate and below the last one.
    axes.set_ylim(0.5 - len(places), 0.5)
    label = f"{rows[0].metric} over that of {shortened(baseline)}"
    axes.set_xlabel("\n".join(drawable_lines(label, _TITLE)))

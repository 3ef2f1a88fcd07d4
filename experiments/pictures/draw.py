"""From a figure's rows to its picture, with the panels of the paper."""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure as Page
from PIL import Image  # matplotlib brings it

from experiments.cells.measures import SELECTED, TRUTH
from experiments.cells.treatments import TREATMENTS
from experiments.figures import Figure, Panel
from experiments.pictures.style import LOOKS, PAGE, shades
from experiments.tables import Row
from ldpopt import style
from ldpopt.printable import printable
from ldpopt.style import Look

_LONG_NUMBER = re.compile(rb"(\d\.\d\d)\d+")  # of an SVG: a hundredth of a point is enough
BARS = "bars: one standard deviation over the trials"
THRESHOLD = "vertical line: the significance threshold"
OWN_AXES = "each panel has a vertical axis of its own"
_SHARES = ("recall", "precision", "f-score")  # metrics between 0 and 1
_SPOKEN = {TRUTH: "truth", SELECTED: "chosen method", "predicted": "predicted"}


def label(method: str) -> str:
    """Return a method's name as the papers write it; the name itself of a method of the user's."""
    if method in _SPOKEN:
        return _SPOKEN[method]
    return TREATMENTS[method].label if method in TREATMENTS else printable(method)


def _look(figure: Figure, method: str) -> Look:
    """Return how a method is drawn: those that the user adds get the next free looks."""
    if method in LOOKS:
        return LOOKS[method]
    return _additions(figure)[method]


def _additions(figure: Figure) -> dict[str, Look]:
    return style.looks_of(candidate.name for candidate in figure.experiment.additions)


def draw(figure: Figure, rows: Sequence[Row]) -> dict[str, bytes]:
    """Return the picture as SVG and PNG; a line below it names panels whose data are missing."""
    present = {row.panel for row in rows}
    absent = [panel.title for panel in figure.panels if panel.name not in present]
    figure = replace(figure, rows=_drawn(figure, present))
    with style.context(), mpl.rc_context(PAGE):
        page, axes = _grid(figure)
        for panels, row in zip(figure.rows, axes, strict=True):
            # A row may have fewer panels than the widest one.
            for panel, ax in zip(panels, row, strict=False):
                _panel(ax, figure, panel, [r for r in rows if r.panel == panel.name])
            for ax in row[len(panels) :]:
                ax.set_axis_off()
        page.suptitle(_heading(figure, rows), fontsize=_HEADING, color="0.25")
        if figure.drawing in _NAMED_ABOVE:
            # The lower row of a selection has legends of its own.
            _name_lines(page, figure, axes[:1] if figure.drawing == "selection" else axes)
        _name_axes(figure, axes)
        if figure.drawing == "ranks" and axes.size > 1 and not _has_own_axes(figure):
            _share_ends(axes.ravel())
        if figure.drawing in _WITH_BARS:
            for row in axes:
                _share_height(row)
            # How far lines are apart on the page is known once the layout is.
            page.get_layout_engine().execute(page)
        notes = [_coincidences(page), _not_drawn(absent)]
        page.supxlabel("\n".join(_wrapped(page, notes)), fontsize=7.5, color="0.25")
        # The layout is settled once for both files. With an engine left on the page, even one that
        # does nothing, every file would be drawn twice.
        page.get_layout_engine().execute(page)
        page.set_layout_engine(None)
        palette = shades(_additions(figure).values())
        return {suffix: _saved(page, suffix, palette) for suffix in ("svg", "png")}


def _heading(figure: Figure, rows: Sequence[Row]) -> str:
    """Return the title, and below it what the bars or the axes show, where it has to be stated."""
    title = f"{figure.title} ({figure.source})"
    # Means of one trial have no deviation, and other drawings show none.
    barred = figure.drawing in _WITH_BARS and any(row.std > 0 for row in rows)
    if barred:
        marked = f"; {THRESHOLD}" if figure.drawing == "thresholds" else ""
        return f"{title}\n{BARS}{marked}"
    return f"{title}\n{OWN_AXES}" if _has_own_axes(figure) else title


def _has_own_axes(figure: Figure) -> bool:
    """Return whether values by rank differ too much between panels for one vertical axis.

    Counts, on a logarithmic axis, do not; biases and variances do.
    """
    several = len(figure.rows) * len(figure.rows[0]) > 1
    return figure.drawing == "ranks" and several and figure.yscale != "log"


def _share_ends(axes: Sequence[Axes]) -> None:
    """Give panels of the same quantity one vertical axis."""
    drawn = [ax for ax in axes if ax.axison and ax.has_data()]
    ends = np.array([ax.get_ylim() for ax in drawn])
    for ax in drawn:
        ax.set_ylim(ends[:, 0].min(), ends[:, 1].max())


def _drawn(figure: Figure, present: set[str]) -> tuple[tuple[Panel, ...], ...]:
    """Return the rows of panels whose data are there: a single row, if they fit one."""
    rows = [tuple(panel for panel in row if panel.name in present) for row in figure.rows]
    if sum(map(len, rows)) <= max(map(len, figure.rows)):
        return (tuple(panel for row in rows for panel in row),)
    return tuple(row for row in rows if row)


def _grid(figure: Figure) -> tuple[Page, np.ndarray]:
    """Return a page with its axes."""
    heights = len(figure.rows)
    widths = max(map(len, figure.rows))
    # Inches. Many panels are lower and narrower, so that a page of them still fits a screen.
    tall = 2.0 if heights * widths > 6 else 2.7
    # A page of one panel is as wide as its title.
    wide = {1: 6.5, 2: 3.9}.get(widths, 2.9)
    page = Page(figsize=(wide * widths, tall * heights + 0.7), layout="constrained")
    return page, page.subplots(heights, widths, squeeze=False)


def _panel(ax: Axes, figure: Figure, panel: Panel, rows: Sequence[Row]) -> None:
    ax.set_title(panel.title)
    _DRAWINGS[figure.drawing](ax, figure, panel, rows)


def _name_axes(figure: Figure, axes: np.ndarray) -> None:
    """Name the outer axes only: the first that is drawn of each row, the last of each column."""
    for row in axes:
        first = next((ax for ax in row if ax.axison), row[0])
        # Drawings that show something else in one row have named its axis already.
        first.set_ylabel(first.get_ylabel() or figure.ylabel)
    for column in axes.T:
        last = next((ax for ax in reversed(column) if ax.axison), column[-1])
        last.set_xlabel(figure.xlabel)


def _name_lines(page: Page, figure: Figure, axes: np.ndarray) -> None:
    """Name the lines above the panels, so that none is hidden: per column, or once if all agree."""
    named = [ax for ax in axes.flat if ax.get_legend_handles_labels()[0]]
    if len({panel.methods for panel in figure.rows[0]}) == 1 and axes.shape[1] > 2:
        if named:
            _name_lines_of_page(page, *named[0].get_legend_handles_labels())
        return
    for column in axes.T:
        shown = [ax for ax in column if ax in named]
        # Below a shorter row a column may have no line.
        if shown:
            handles = shown[0].get_legend_handles_labels()
            place = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "borderaxespad": 2.3}
            column[0].legend(*handles, ncols=3, **place, **_LEGEND)


def _name_lines_of_page(page: Page, handles: Sequence[Artist], names: Sequence[str]) -> None:
    """Name the lines below the heading: above one panel the names would push the others apart."""
    heading = page.get_suptitle()
    lines = -(-len(names) // _PAGE_COLUMNS)
    # The layout knows of the heading and of no legend: empty lines of it make room.
    page.suptitle(heading + "\n" * (lines + 1), fontsize=_HEADING, color="0.25")
    depth = 1.25 * _HEADING * (1 + heading.count("\n")) / 72
    page.legend(
        handles,
        names,
        ncols=_PAGE_COLUMNS,
        loc="upper center",
        bbox_to_anchor=(0.5, 1 - depth / page.get_figheight()),
        **_LEGEND,
    )


_HEADING = 9.5  # points
_PAGE_COLUMNS = 4

_LEGEND: dict[str, Any] = {"handlelength": 2.4, "columnspacing": 1.0, "labelspacing": 0.25}


def _share_height(row: Sequence[Axes]) -> None:
    """Give the panels of a row that show the same one axis, or state that they have their own."""
    shared = [ax for ax in row if ax.axison and _curves_of(ax)]
    if len(shared) < 2:
        return
    logarithmic = shared[0].get_yscale() == "log"
    ends = np.array([ax.get_ylim() for ax in shared])
    heights = np.log10(ends) if logarithmic else ends
    spans = heights[:, 1] - heights[:, 0]
    total = float(heights[:, 1].max() - heights[:, 0].min())
    if total <= _SQUEEZED * spans.min():
        for ax in shared:
            ax.set_ylim(ends[:, 0].min(), ends[:, 1].max())
    else:
        # Curves in a small part of a panel could not be told apart.
        for ax in shared[1:]:
            ax.set_ylabel("axis of its own", fontsize=8, color="0.25")


# How much higher than its curves need a panel may be, for an axis that it shares.
_SQUEEZED = 2.5


def _curves_of(ax: Axes) -> dict[str, np.ndarray]:
    """Return the points of the curves by their names, in points of the page."""
    scale = 72 / ax.figure.dpi
    curves = {}
    for drawn in ax.containers:
        if isinstance(drawn, ErrorbarContainer):
            xy = drawn.lines[0].get_xydata()
            curves[str(drawn.get_label())] = scale * ax.transData.transform(xy)
    return curves


def _coincidences(page: Page) -> str:
    """Return which lines cannot be told apart, because they lie within a line's width."""
    panels: dict[str, list[str]] = {}
    for ax in page.axes:
        for group in _coinciding(_curves_of(ax)):
            panels.setdefault(_listed(group), []).append(ax.get_title())
    if not panels:
        return ""
    everywhere = {ax.get_title() for ax in page.axes if _curves_of(ax)}
    texts = [
        names if set(titles) == everywhere else f"{names} ({', '.join(dict.fromkeys(titles))})"
        for names, titles in panels.items()
    ]
    return f"Lines that coincide: {'; '.join(texts)}."


def _not_drawn(absent: Sequence[str]) -> str:
    """Return the names of panels without data, each once, in a sentence."""
    names = ", ".join(dict.fromkeys(absent))
    return f"Not drawn, as the data were not at hand: {names}." if names else ""


def _wrapped(page: Page, sentences: Sequence[str]) -> list[str]:
    """Return sentences as lines of the page's width."""
    width = int(15 * page.get_figwidth())  # so many characters of this size fit an inch
    return [
        line
        for sentence in sentences
        for line in textwrap.wrap(sentence, width, break_on_hyphens=False)
    ]


def _coinciding(curves: Mapping[str, np.ndarray]) -> list[list[str]]:
    """Return the names of curves that lie within a line's width of the first of their group."""
    width = mpl.rcParams["lines.linewidth"]
    groups: list[list[str]] = []
    for name, curve in curves.items():
        for group in groups:
            other = curves[group[0]]
            if other.shape == curve.shape and np.abs(other - curve).max() <= width:
                group.append(name)
                break
        else:
            groups.append([name])
    return [group for group in groups if len(group) > 1]


def _listed(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}"


def _saved(page: Page, suffix: str, shades_of_page: bytes) -> bytes:
    """Return the page as a file, small enough to be kept: the same picture gives the same bytes."""
    file = io.BytesIO()
    if suffix == "svg":
        # A date would make every run another file.
        page.savefig(file, format="svg", metadata={"Date": None})
        return _LONG_NUMBER.sub(rb"\1", file.getvalue())
    page.savefig(file, format="png", dpi=150, metadata={"Software": None})
    small = io.BytesIO()
    palette = Image.new("P", (1, 1))
    palette.putpalette(shades_of_page)
    # A palette of fixed shades: a smaller file, and the same one for every picture.
    drawn = Image.open(file).convert("RGB")
    drawn.quantize(palette=palette, dither=Image.Dither.NONE).save(
        small, format="png", optimize=True
    )
    return small.getvalue()


def _points(
    panel: Panel, rows: Sequence[Row], method: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return x, mean and standard deviation of a method's line, by increasing x."""
    shown = [
        r
        for r in rows
        if r.method == method and not (panel.x == "parameter" and isinstance(r.parameter, str))
    ]
    x = np.array([getattr(r, panel.x) for r in shown], dtype=float)
    # Rows come in the order of cells, not of the axis.
    order = np.argsort(x)
    return (
        x[order],
        np.array([r.mean for r in shown])[order],
        np.array([r.std for r in shown])[order],
    )


def _curves(ax: Axes, figure: Figure, panel: Panel, rows: Sequence[Row]) -> None:
    """One line per method, with its standard deviation over trials where it can be seen."""
    for method in panel.methods:
        x, mean, std = _points(panel, rows, method)
        if not x.size:
            continue
        look = _look(figure, method)
        ax.errorbar(
            x,
            mean,
            yerr=np.nan_to_num(_bars(figure, panel, mean, std)),
            label=label(method),
            elinewidth=0.6,
            capsize=0,
            ecolor=mpl.colors.to_rgba(look.colour, 0.5),
            markeredgewidth=0.8,
            **look.options(),
        )
    ax.set(xscale=figure.xscale, yscale=figure.yscale)
    if figure.yscale == "log":
        # By the means: bars that nearly reach 0 would stretch the axis over empty decades.
        means = [row.mean for row in rows if row.mean > 0]
        ax.set_ylim(min(means) / 1.7, max(means) * 1.7)


def _bars(
    figure: Figure, panel: Panel, mean: np.ndarray, std: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return how far bars reach down and up: a standard deviation, within what is possible."""
    if panel.metric in _SHARES:
        # The spread is skewed near 0 and 1, and a bar beyond them would show what cannot be.
        return np.minimum(std, mean), np.minimum(std, 1 - mean)
    # A bar that reaches 0 has no place on a logarithmic axis.
    low = np.minimum(std, mean * 0.999) if figure.yscale == "log" else std
    return low, std


def _ranks(ax: Axes, figure: Figure, panel: Panel, rows: Sequence[Row]) -> None:
    """Values by rank: dots for a method, a line for the truth, and the sum over the domain."""
    if panel.methods == (TRUTH,):
        x, mean, _ = _points(panel, rows, TRUTH)
        # Values that nobody has, have no place on a logarithmic axis.
        ax.plot(x[mean > 0], mean[mean > 0], color=LOOKS[TRUTH].colour)
    else:
        _dots(ax, figure, panel, rows)
    for row in rows:
        if row.metric == "bias sum (counts)":
            ax.set_title(f"{panel.title}, sum {_signed(row.mean)}")
    _scale_ranks(ax, figure)


def _dots(ax: Axes, figure: Figure, panel: Panel, rows: Sequence[Row]) -> None:
    """Dots for the methods, and the truth as a line above them."""
    for method in panel.methods:
        x, mean, _ = _points(panel, rows, method)
        if method == TRUTH:
            ax.plot(x, mean, color=LOOKS[TRUTH].colour, label="truth")
            ax.legend()
        else:
            colour = _look(figure, method).colour
            ax.plot(x, mean, ".", color=colour, markersize=3, label=label(method), zorder=1)


def _scale_ranks(ax: Axes, figure: Figure) -> None:
    ax.set_xscale(figure.xscale)
    if figure.yscale == "symlog":
        # Linear near 0: biases have both signs. The axis always shows more than its linear part.
        ax.set_yscale("symlog", linthresh=100)
        low, high = ax.get_ylim()
        ax.set_ylim(min(low, -200), max(high, 200))
    else:
        ax.set_yscale(figure.yscale)
    ax.minorticks_off()
    # Below ten users all lines are noise; the draft's figure 6 is of small counts.
    if figure.yscale == "log" and figure.name != "draft-fig6":
        ax.set_ylim(bottom=10)


def _signed(number: float) -> str:
    """Return a count with its sign, and 0 without one."""
    return f"{number:+,.0f}".replace("-", "−") if abs(number) >= 0.5 else "0"


def _share(ax: Axes, figure: Figure, panel: Panel, rows: Sequence[Row]) -> None:
    x, mean, _ = _points(panel, rows, TRUTH)
    ax.plot(x, mean, ".", color=LOOKS[TRUTH].colour, markersize=3)
    ax.set(xscale=figure.xscale, yscale=figure.yscale)


def _noise(ax: Axes, figure: Figure, panel: Panel, rows: Sequence[Row]) -> None:
    """Histogram of the noise beside its predicted density, with means and sds in the corner."""
    # The other rows are the numbers in the corner.
    density = [r for r in rows if r.metric == "density"]
    x, mean, _ = _points(panel, density, "oue")
    ax.bar(
        x, mean, width=float(x[1] - x[0]), color=LOOKS["oue"].colour, alpha=0.6, label="empirical"
    )
    x, mean, _ = _points(panel, density, "predicted")
    ax.plot(x, mean, color=LOOKS["predicted"].colour, label="N(0, n q(1-q)/(p-q)²)")
    moments = {(r.method, r.metric.split()[0]): r.mean for r in rows if r.metric != "density"}
    ax.text(
        0.02,
        0.97,
        "\n".join(
            f"{who}: mean {moments[m, 'mean']:.3g}, "
            f"standard deviation {np.sqrt(moments[m, 'variance']):,.0f}"
            for m, who in (("oue", "fitted"), ("predicted", "predicted"))
        ),
        transform=ax.transAxes,
        va="top",
        fontsize=8,
    )
    ax.legend(loc="center right")


def _thresholds(ax: Axes, figure: Figure, panel: Panel, rows: Sequence[Row]) -> None:
    """Curves over thresholds; a vertical line marks the significance threshold, the middle one."""
    _curves(ax, figure, panel, rows)
    # The multiples of the threshold are symmetric around 1.
    thresholds = sorted({r.parameter for r in rows})
    ax.axvline(thresholds[len(thresholds) // 2], color=style.GREY, linestyle=":", linewidth=1)
    ax.set_ylim(-0.03, 1.03)  # precision and recall at 0 and at 1 are drawn whole


def _improvement(ax: Axes, figure: Figure, panel: Panel, rows: Sequence[Row]) -> None:
    """Curves, and by how much OUE-Calibrate improves on OUE-Zero above each ε."""
    _curves(ax, figure, panel, rows)
    x, zero, _ = _points(panel, rows, "oue-zero")
    _, calibrated, _ = _points(panel, rows, "oue-calibrate")
    # Other definitions of an improvement give other numbers: see ``calibrate_retail``.
    for at, height, better in zip(x, zero, 1 - calibrated / zero, strict=True):
        ax.annotate(
            f"{better:+.0%}".replace("-", "−"),
            (at, height),
            xytext=(0, 7),
            textcoords="offset points",
            ha="center",
            fontsize=7.5,
        )


def _selection(ax: Axes, figure: Figure, panel: Panel, rows: Sequence[Row]) -> None:
    """Errors on synthetic and real data above; below, shares of the choices and their costs."""
    if panel.metric == "share of choices":
        _choices(ax, figure, panel, rows)
    elif panel.shown == "regret":
        _regrets(ax, panel, rows)
    else:
        _curves(ax, figure, panel, rows)


def _choices(ax: Axes, figure: Figure, panel: Panel, rows: Sequence[Row]) -> None:
    """Bars of all methods on top of each other, which add up to 1 at each ε."""
    bottom: np.ndarray | float = 0.0
    for method in panel.methods:
        x, share, _ = _points(panel, rows, method)
        # A method that is never chosen would only fill the legend.
        if not share.any():
            continue
        colour = _look(figure, method).colour
        ax.bar(x, share, bottom=bottom, width=0.16, color=colour, label=label(method))
        bottom = bottom + share
    ax.set_ylabel("share of the trials")
    ax.set_ylim(0, 1)
    ax.set_yticks([0, 0.5, 1])
    # Between the title and the panel: within the panel it would take a third of it.
    ax.set_title(ax.get_title(), pad=_CHOICE_PAD)
    ax.legend(
        ncols=_CHOICE_COLUMNS,
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        borderaxespad=0.1,
        fontsize=7,
        handlelength=0.8,
        columnspacing=0.7,
    )


_CHOICE_COLUMNS = 3
_CHOICE_PAD = 28  # points: two lines of names


def _regrets(ax: Axes, panel: Panel, rows: Sequence[Row]) -> None:
    """Draw what the choices cost beside the best method, for each fit they are based on."""
    for fit in sorted({str(row.parameter) for row in rows}):
        x, regret, _ = _points(panel, [row for row in rows if row.parameter == fit], SELECTED)
        ax.plot(x, 100 * regret, label=f"chosen with {label(fit)}", **LOOKS[fit].options())
    ax.set_ylabel("regret in %")
    ax.set_title(ax.get_title(), pad=_CHOICE_PAD)  # at the height of its neighbours' titles
    ax.axhline(0, color=style.GREY, linewidth=0.8)
    ax.set_ylim(top=1.35 * ax.get_ylim()[1])  # the legend covers no line
    ax.legend(loc="upper center", ncols=1)


_WITH_BARS = ("curves", "thresholds", "improvement", "selection")
_NAMED_ABOVE = _WITH_BARS  # those of curves; other drawings name what they show in the panel

_DRAWINGS: dict[str, Callable[[Axes, Figure, Panel, Sequence[Row]], None]] = {
    "curves": _curves,
    "ranks": _ranks,
    "points": _share,
    "noise": _noise,
    "thresholds": _thresholds,
    "improvement": _improvement,
    "selection": _selection,
}

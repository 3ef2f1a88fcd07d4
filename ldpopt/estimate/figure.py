"""A picture of an estimate: its largest values, with their intervals if there are any."""

from __future__ import annotations

import textwrap

import numpy as np
from matplotlib.figure import Figure

from ldpopt import style
from ldpopt.estimate.shown import Shown, title_of
from ldpopt.printable import drawable, drawable_lines

_NOTE = 100  # characters of 8 points that fit the width
_TITLE = 66  # those of a line of the title


@style.styled
def estimate_figure(shown: Shown, what: str, about: str, method: str) -> Figure:
    """Return a picture of the largest values or sets.

    Parameters
    ----------
    shown
        What is drawn; its notes stand below the picture.
    what
        What the answers belong to: values, or sets.
    about
        The rest of the title: method, oracle, budget, n.
    method
        Whose colour and marker the points have.
    """
    rows = np.arange(len(shown.names))
    lines: list[str] = []
    for note in shown.notes:
        lines.extend(textwrap.wrap(note, _NOTE))
    number = len(rows)
    title = title_of(number, shown.count, what)
    titles = drawable_lines(f"{title}: {about}" if about else title, _TITLE)
    # Inches: the axis and its title, then one line per value and per line of notes and title.
    height = 1.2 + 0.22 * number + 0.14 * len(lines) + 0.2 * (len(titles) - 1)
    figure = Figure(figsize=(6.5, height), layout="constrained")
    axes = figure.subplots()
    look = style.of(method or "base")
    if shown.lower is not None and shown.upper is not None:
        axes.hlines(rows, shown.lower, shown.upper, color=style.GREY, linewidth=1.5)
    axes.plot(shown.frequencies, rows, look.marker, color=look.colour, markersize=4)
    # Forty characters take two fifths of the width, and leave room for the picture.
    axes.set_yticks(rows, [drawable(name) for name in shown.names])
    # The largest on top, and the first and the last as far from the frame as from each other.
    axes.set_ylim(max(len(rows), 1) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("estimated frequency")
    # Below the axes, where no point or interval can be behind it.
    figure.supxlabel("\n".join(lines), fontsize=8)
    # Of the figure, not of the axes: long labels leave the axes narrower than the title.
    figure.suptitle("\n".join(titles))
    return figure

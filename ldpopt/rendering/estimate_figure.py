"""A picture of an estimate: its largest values, with their intervals if there are any."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ldpopt.printable import printable
from ldpopt.rendering.picture import figure_bytes
from ldpopt.style import BLUE

LARGEST = 40  # values that can still be read below each other
_NOTE = 100  # characters of 8 points that fit the width
_LONGEST_LABEL = 40  # characters: two fifths of the width


def estimate_figure(
    columns: Mapping[str, Sequence[Any]],
    about: Mapping[str, Any],
    kind: str,
    notes: Sequence[str] = (),
) -> bytes:
    """Return a picture of the largest values.

    Parameters
    ----------
    columns
        ``value``, ``frequency`` and, with intervals, ``lower`` and ``upper``.
    about
        At least ``method``, ``oracle``, ``epsilon`` and ``n``.
    kind
        png, svg or pdf.
    notes
        Of which kind the intervals are, and further sentences, for below the picture.

    Returns
    -------
    The bytes of the picture.
    """
    frequencies = np.asarray(columns["frequency"])
    # Stable: of equal values the first ones are shown, on every machine.
    largest = np.argsort(-frequencies, kind="stable")[:LARGEST]
    rows = np.arange(len(largest))
    lines = [line for note in notes for line in textwrap.wrap(note, _NOTE)]
    # Inches: the axis and its title, then one line per value and per line of the notes.
    height = 1.2 + 0.22 * len(largest) + 0.14 * len(lines)
    figure = Figure(figsize=(6.5, height), layout="constrained")
    axes = figure.subplots()
    if "lower" in columns:
        lower = np.asarray(columns["lower"])
        upper = np.asarray(columns["upper"])
        axes.hlines(
            rows,
            lower[largest],
            upper[largest],
            color="0.6",
            linewidth=2,
        )
    axes.plot(frequencies[largest], rows, "o", color=BLUE, markersize=4)
    labels = [_label(str(columns["value"][index])) for index in largest]
    axes.set_yticks(rows, labels, fontsize=8)
    axes.invert_yaxis()  # the largest on top
    axes.set_xlabel("estimated frequency")
    # Below the axes, where no point or interval can be behind it.
    figure.supxlabel("\n".join(lines), fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="x", alpha=0.25)
    # Of the figure, not of the axes: long labels leave the axes narrower than the title.
    figure.suptitle(_title(len(largest), len(frequencies), about), fontsize=10)
    return figure_bytes(figure, kind)


def _label(name: str) -> str:
    """Return a label that leaves room for the picture and that matplotlib takes as it is."""
    name = printable(name)
    short = name if len(name) <= _LONGEST_LABEL else f"{name[: _LONGEST_LABEL - 1]}…"
    return short.replace("$", r"\$")  # a dollar sign would start a formula


def _title(shown: int, d: int, about: Mapping[str, Any]) -> str:
    values = f"the {shown} largest of {d:,} values" if shown < d else "all values"
    protocol = f"{about['oracle']}, ε = {about['epsilon']:g}, n = {about['n']:,}"
    return f"{values}: {about['method']}, {protocol}"

"""A picture of several risks: how far each candidate is above the best."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ldpopt import style
from ldpopt.printable import drawable


@style.styled
def risk_figure(names: Sequence[str], excess: NDArray[np.float64], title: str) -> Figure:
    """Return a picture with a line per candidate, the best on top.

    Parameters
    ----------
    names
        Of the candidates, the best first.
    excess
        By how much each is above the best, and the ends of the interval, shape (candidates, 3).
    title
        What the picture is of.
    """
    looks = style.looks_of(names)
    figure = Figure(figsize=(6.5, 1.0 + 0.3 * len(names)), layout="constrained")
    axes = figure.subplots()
    places = np.arange(len(names))
    axes.axvline(0, color=style.GREY, linewidth=0.8)
    axes.hlines(places, excess[:, 1], excess[:, 2], color=style.GREY, linewidth=1.5)
    for place, name in zip(places, names, strict=True):
        look = looks[name]
        axes.plot(excess[place, :1], [place], look.marker, color=look.colour, markersize=5)
    # A dollar sign would start a formula.
    axes.set_yticks(places, [drawable(name) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    # Of the figure, not of the axes: long names leave the axes narrower than this line.
    figure.supxlabel(
        "mean squared error above that of the best, on this collection", fontsize="medium"
    )
    axes.locator_params(axis="x", nbins=6)  # more numbers would touch each other
    figure.suptitle(title, fontsize="medium")
    return figure

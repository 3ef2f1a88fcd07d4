"""A picture of values over rounds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from ldpopt import style
from ldpopt.estimate import FrequencyEstimate
from ldpopt.printable import drawable_lines, percent, shortened

Array = NDArray[np.float64]

_NARROWEST = 5.0  # inches: what the title needs
_TITLE = 28  # characters of a line above a panel


@style.styled
def rounds_figure(
    estimates: Sequence[FrequencyEstimate], raw: Array, places: Sequence[int], level: float
) -> Figure:
    """Return one panel per value: raw estimates as points, smoothed ones as a line with a band.

    Parameters
    ----------
    estimates
        The smoothed rounds.
    raw
        Raw frequencies of the rounds, shape (T, d).
    places
        Indices of the values.
    level
        Probability of the bands.
    """
    figure, panels = style.panels(
        len(places),
        lambda lines, columns: (max(1.0 + 2.6 * columns, _NARROWEST), 1.1 + 2.0 * lines),
        sharex=True,
    )
    times = np.arange(len(estimates))
    intervals = [np.stack(estimate.interval(level)) for estimate in estimates]
    ends = np.stack(intervals)
    smoothed = np.stack([estimate.frequencies for estimate in estimates])
    for panel, place in zip(panels, places, strict=True):
        lower = ends[:, 0, place]
        upper = ends[:, 1, place]
        panel.fill_between(times, lower, upper, color=style.BLUE, alpha=0.2, linewidth=0)
        panel.plot(times, smoothed[:, place], color=style.BLUE, label="over all rounds")
        panel.plot(
            times, raw[:, place], "o", color=style.GREY, markersize=3, label="each by itself"
        )
        labels = estimates[0].labels
        name = f"value {place}" if labels is None else labels[place]
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        panel.set_title("\n".join(drawable_lines(shortened(name), _TITLE)))
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=2)
    # The last panel of each column.
    for panel in panels[-style.COLUMNS :]:
        panel.set_xlabel("round")
    figure.supylabel("estimated frequency")
    covered = percent(level)
    figure.suptitle(f"{len(estimates)} rounds; bands cover {covered} per round and value")
    return figure

"""The picture of the README and of the site: emoji frequencies through OUE, raw and post-processed.

Run as ``python -m experiments.readme_picture``: one file for light pages and one for dark ones.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import ldpopt
from ldpopt import FrequencyEstimate, datasets, oracles, style
from ldpopt.datasets import Dataset

FOLDER = Path(__file__).parent / "results"
FILES = {"emoji.png": False, "emoji-dark.png": True}
"""The files, and whether each is for pages with a dark background."""

_PANELS = {"base": "raw estimate", "norm-sub": "Norm-Sub", "power-ns": "PowerNS"}


def draw() -> Figure:
    """Return the picture: one panel per method, values by true rank, the truth as a line."""
    data = datasets.load("emoji").scaled(884_427)
    oracle = oracles.OUE(epsilon=1.0, d=data.d)
    raw = oracle.estimate(oracle.simulate_counts(data.counts, rng=0), data.n)
    # Small for its letters: a telephone shows the picture at a third of its width.
    figure = Figure(figsize=(7.5, 2.8), layout="constrained")
    panels = figure.subplots(1, len(_PANELS), sharey=True)
    for axes, (method, title) in zip(panels, _PANELS.items(), strict=True):
        _panel(axes, data, ldpopt.postprocess(raw, method), title)
    panels[0].set_ylabel("frequency")
    panels[0].legend()
    return figure


def _panel(axes: Axes, data: Dataset, estimate: FrequencyEstimate, title: str) -> None:
    f = estimate.frequencies
    order = np.argsort(-data.frequencies)
    rank = np.arange(1, data.d + 1)
    error = float(np.mean((f - data.frequencies) ** 2))
    colour = style.of(estimate.method).colour
    axes.plot(rank, f[order], ".", color=colour, markersize=3, label="estimate")
    axes.plot(rank, data.frequencies[order], color=style.foreground(), label="truth")
    # Negative estimates must be seen, as well as frequencies that differ by orders of magnitude.
    axes.set_yscale("symlog", linthresh=1e-3)
    axes.set(xscale="log", xlabel="emoji by true rank")
    axes.set_title(f"{title}\nsum {f.sum():.2f}, MSE {error:.1e}")
    axes.axhline(0, color=style.GREY, linewidth=0.6, zorder=0)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, dark in FILES.items():
        # The file too: matplotlib makes the ticks when it writes it.
        with style.context(dark=dark):
            # No background on dark pages, whose colours differ: their own shows through.
            draw().savefig(FOLDER / name, dpi=150, transparent=dark)

"""The README's picture: emoji frequencies through OUE, raw and post-processed.

Run as ``python -m experiments.readme_picture``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import ldpopt
from ldpopt import datasets, oracles, style

PATH = Path(__file__).parent / "results" / "emoji.png"
_PANELS = {"base": "raw estimate", "norm-sub": "Norm-Sub", "power-ns": "PowerNS"}


@style.styled
def draw() -> Figure:
    """Return the picture: one panel per method, values by true rank, the truth in black."""
    data = datasets.load("emoji").scaled(884_427)
    oracle = oracles.OUE(epsilon=1.0, d=data.d)
    raw = oracle.estimate(oracle.simulate_counts(data.counts, rng=0), data.n)
    figure = Figure(figsize=(10, 3.2), layout="constrained")
    panels = figure.subplots(1, len(_PANELS), sharey=True)
    order = np.argsort(-data.frequencies)
    rank = np.arange(1, data.d + 1)
    for axes, (method, title) in zip(panels, _PANELS.items(), strict=True):
        f = ldpopt.postprocess(raw, method).frequencies
        error = float(np.mean((f - data.frequencies) ** 2))
        colour = style.of(method).colour
        axes.plot(rank, f[order], ".", color=colour, markersize=3, alpha=0.6, label="estimate")
        axes.plot(rank, data.frequencies[order], color=style.foreground(), label="truth")
        # Negative estimates must be seen, as well as frequencies that differ by orders of
        # magnitude.
        axes.set_yscale("symlog", linthresh=1e-3)
        axes.set(xscale="log", xlabel="emoji by true rank")
        axes.set_title(f"{title}: sum {f.sum():.2f}, MSE {error:.1e}")
        axes.axhline(0, color=style.GREY, linewidth=0.6, zorder=0)
    panels[0].set_ylabel("frequency")
    panels[0].legend()
    return figure


if __name__ == "__main__":
    PATH.parent.mkdir(exist_ok=True)
    draw().savefig(PATH, dpi=110)

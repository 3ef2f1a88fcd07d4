"""Pictures of the report, as PNG bytes."""

from __future__ import annotations

import io

import numpy as np
from matplotlib.figure import Figure

from ldpopt.verify.agreement import Agreement

_COLOURS = ("#0072B2", "#D55E00", "#009E73")  # Okabe and Ito: told apart by every eye
_MARKERS = ("o", "x", "+")
_FLOOR = 1e-12  # smaller frequencies and differences are drawn at the edge
_DIFFERENCE_FLOOR = 1e-18


def agreement_figure(agreement: Agreement) -> bytes:
    """Return closed form against every solver, and how far apart they are, as a PNG picture."""
    figure = Figure(figsize=(9.5, 3.6))
    # Fixed margins: a layout that measures every tick label takes longer than the drawing.
    left, right = figure.subplots(
        1, 2, gridspec_kw={"left": 0.08, "right": 0.985, "bottom": 0.15, "top": 0.9, "wspace": 0.2}
    )
    left.plot([_FLOOR, 2], [_FLOOR, 2], color="0.6", linewidth=0.8, zorder=0)
    bins = np.logspace(np.log10(_DIFFERENCE_FLOOR), -2, 33)
    for solver, colour, marker in zip(agreement.closed, _COLOURS, _MARKERS, strict=False):
        closed, solved = agreement.closed[solver], agreement.solved[solver]
        left.plot(
            np.maximum(closed, _FLOOR), np.maximum(solved, _FLOOR), marker, color=colour, markersize=3, alpha=0.5,
            markerfacecolor="none", label=solver, rasterized=True,
        )  # fmt: skip
        difference = np.maximum(np.abs(solved - closed), _DIFFERENCE_FLOOR)
        right.hist(difference, bins=bins.tolist(), histtype="step", color=colour, linewidth=1.6, label=solver)
    left.set(xscale="log", yscale="log", xlabel="closed form, frequency", ylabel="solver, frequency")
    left.set_title(f"every value (below {_FLOOR:g} at the edge)", fontsize=10)
    right.set(xscale="log", yscale="log", xlabel="|solver - closed form|", ylabel="number of values")
    right.set_title(f"differences (below {_DIFFERENCE_FLOOR:g} at the edge)", fontsize=10)
    for axes in (left, right):
        axes.legend(frameon=False, fontsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=130)
    return picture.getvalue()

"""A picture of an estimate: its largest values, with their intervals if there are any."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

_MOST = 40  # values that still can be read beside each other


def estimate_figure(
    columns: Mapping[str, Sequence[Any]], about: Mapping[str, Any], kind: str
) -> bytes:
    """Return the largest values of ``value, frequency[, lower, upper]`` as a picture, ``kind`` png, svg or pdf."""
    frequencies = np.asarray(columns["frequency"])
    largest = np.argsort(-frequencies, kind="stable")[:_MOST]
    names = [str(columns["value"][i]) for i in largest]
    figure = Figure(figsize=(6.5, 1.2 + 0.22 * len(largest)), layout="constrained")
    axes = figure.subplots()
    height = np.arange(len(largest))
    if "lower" in columns:
        ends = np.asarray(columns["lower"])[largest], np.asarray(columns["upper"])[largest]
        axes.hlines(
            height, *ends, color="0.6", linewidth=2, label=f"{about['interval']:.0%} interval"
        )
        axes.legend(frameon=False, fontsize=8)
    axes.plot(frequencies[largest], height, "o", color="#0072B2", markersize=4)
    axes.set_yticks(height, [name.replace("$", r"\$") for name in names], fontsize=8)
    axes.invert_yaxis()
    axes.set(xlabel="estimated frequency")
    which = (
        f"the {len(largest)} largest of {len(frequencies):,} values"
        if len(largest) < len(frequencies)
        else "all values"
    )
    axes.set_title(
        f"{which}: {about['method']}, {about['oracle']}, ε = {about['epsilon']:g}, n = {about['n']:,}",
        fontsize=10,
    )
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="x", alpha=0.25)
    picture = io.BytesIO()
    figure.savefig(picture, format=kind, dpi=130)
    return picture.getvalue()

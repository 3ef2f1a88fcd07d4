"""The 26 figures of the three papers, by name."""

from __future__ import annotations

from experiments.figures import calibrate, draft, ndss
from experiments.figures.declaration import Experiment, Figure, Panel

__all__ = ["FIGURES", "Experiment", "Figure", "Panel"]

FIGURES: dict[str, Figure] = {
    figure.name: figure for figure in (*ndss.FIGURES, *draft.FIGURES, *calibrate.FIGURES)
}
"""All figures, in the order of the papers."""

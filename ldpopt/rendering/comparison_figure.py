"""The bytes of a comparison's picture."""

from __future__ import annotations

from collections.abc import Sequence

from ldpopt.rendering.picture import figure_bytes
from ldpopt.studies.comparison_figure import draw_comparison
from ldpopt.studies.comparison_rows import ComparisonRow


def comparison_figure(rows: Sequence[ComparisonRow], kind: str = "png") -> bytes:
    """Return the picture of ``draw_comparison`` as a file's bytes; ``kind`` is png, svg or pdf."""
    return figure_bytes(draw_comparison(rows), kind)

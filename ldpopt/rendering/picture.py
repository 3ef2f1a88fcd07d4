"""The bytes of a picture."""

from __future__ import annotations

import io

from matplotlib.figure import Figure

_RESOLUTION = 130  # dots per inch: sharp on a page, and still a small file


def figure_bytes(figure: Figure, kind: str = "png") -> bytes:
    """Return a figure as a file's bytes; ``kind`` is png, svg or pdf."""
    picture = io.BytesIO()
    figure.savefig(picture, format=kind, dpi=_RESOLUTION)
    return picture.getvalue()

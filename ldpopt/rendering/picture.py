"""The bytes of a picture."""

from __future__ import annotations

import io
import warnings

from matplotlib.figure import Figure

_RESOLUTION = 130  # dots per inch: sharp on a page, and still a small file


def figure_bytes(figure: Figure, kind: str = "png") -> bytes:
    """Return a figure as a file's bytes; ``kind`` is png, svg or pdf."""
    picture = io.BytesIO()
    with warnings.catch_warnings():
        # Labels may be in any script. A character that the font lacks is drawn as a box, which
        # readers see; a warning of Python for each of them is for nobody.
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        figure.savefig(picture, format=kind, dpi=_RESOLUTION)
    return picture.getvalue()

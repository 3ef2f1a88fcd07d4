"""The looks of what figures show beside methods, and of their pages."""

from __future__ import annotations

from collections.abc import Iterable

from experiments.cells.measures import SELECTED, TRUTH
from ldpopt.style import GREY, METHODS, Look

BLACK = "#000000"  # of the truth: kept pictures have a white background

LOOKS = {
    **METHODS,
    TRUTH: Look(BLACK, "", "-"),
    SELECTED: Look(BLACK, "o"),
    "predicted": Look("#CC3054", "", "-"),
}

_SHADES = 14  # of a colour, for the edges of lines


def shades(additions: Iterable[Look] = ()) -> bytes:
    """Return the palette of a PNG, 256 entries of three bytes: greys, and colours towards white.

    ``additions`` are looks of methods that are not the papers'.
    """
    looks = [*LOOKS.values(), *additions]
    colours = sorted({look.colour for look in looks} - {BLACK, GREY})
    greys = 256 - len(colours) * _SHADES
    # No grey near white: the search for the nearest entry is coarse, and white must stay white.
    palette = bytearray(b"\xff\xff\xff")
    palette += bytes(round(236 * i / (greys - 2)) for i in range(greys - 1) for _ in range(3))
    for colour in colours:
        channels = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
        for step in range(_SHADES):  # the lightest is far enough from white to be distinguished
            palette += bytes(round(c + 0.85 * (255 - c) * step / _SHADES) for c in channels)
    return bytes(palette)


PAGE = {
    "svg.fonttype": "none",  # text stays text: small files that can be searched
    "svg.hashsalt": "ldpopt",  # the same picture gives the same bytes
    "figure.dpi": 150,
}
"""What the pages of figures need beside the library's style."""

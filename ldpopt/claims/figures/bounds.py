"""Bounds that many statements share, each with its reason."""

import math

ANY = math.inf
"""No bound on this side."""

TIE = 1.05
"""Two methods whose errors differ by less than this factor count as equally good, in statements
about methods that give the same answers at a part of the points: on the papers' logarithmic axes a
twentieth cannot be seen."""

EQUAL = (1 - 1e-5, 1 + 1e-5)
"""A ratio of 1 as far as the tables go: they state six digits."""

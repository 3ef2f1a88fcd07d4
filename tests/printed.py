"""Printed results beside stored ones: their words, and whether their numbers can be the same."""

import functools
import re
import zlib

import numpy as np

NUMBER = re.compile(r"[-+]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?%?")

KEPT_DRAWS = 2751756297
"""Check sum of binomial draws by the numpy of constraints.txt. numpy 2.5 draws others from the same
seed, a few in 10⁵: it mended a sign in its sampler (numpy/numpy#31238)."""


def words(text):
    """Return a text without its numbers."""
    return " ".join(NUMBER.sub("", text).split())


@functools.cache
def draws_as_kept():
    """Return whether this numpy draws what the numbers of stored outputs were made from.

    Where it does not, the words must still agree: they may not hang on single draws.
    """
    drawn = np.random.default_rng(0).binomial(1_000, 0.5, 200_000)
    return zlib.crc32(drawn.astype("<i8").tobytes()) == KEPT_DRAWS


def repeatable(text):
    """Return what this numpy can repeat of a printed text: all of it, or its words alone."""
    return text if draws_as_kept() else words(text)

"""A small world for the tests of the experiments: every population is a hundredth of itself."""

import numpy as np

from ldpopt.datasets import Dataset
from ldpopt.datasets.dataset import apportion

D = 48
N = 30_000


def small(name, n=None):
    """Return Zipf-like counts on 48 values with every family of sets that a figure asks for."""
    counts = apportion(np.arange(1, D + 1) ** -1.5, n or N)
    sets = [np.arange(i, D, 6) for i in range(6)]
    families = dict.fromkeys(("subcategory", "state", "division"), sets)
    return Dataset(
        name,
        counts,
        tuple(map(str, range(D))),
        "made up",
        families,
        dict.fromkeys(families, tuple("abcdef")),
    )


class Bomb:
    """Kills the process that unpickles it."""

    def __reduce__(self):
        import os

        return os._exit, (1,)

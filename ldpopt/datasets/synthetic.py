"""The two synthetic data sets: expected counts of a distribution, without a seed or a file."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ldpopt.datasets.dataset import Dataset, apportion


def zipf() -> Dataset:
    """Return Zipf: value k of 1 .. 1024 has probability proportional to k^-1.5, n = 1,000,000.

    Returns
    -------
    The expected counts, rounded by largest remainders to sum to n.

    Examples
    --------
    >>> zipf().counts[:3]
    array([392174, 138654,  75474])
    """
    ranks = np.arange(1, 1025)
    counts = apportion(ranks**-1.5, 1_000_000)
    return Dataset(
        "zipf",
        counts,
        tuple(map(str, ranks)),
        "generated: expected counts of Zipf(s = 1.5) on 1 .. 1024",
    )


def beta() -> Dataset:
    """Return Beta(50, 2) in 400 equal buckets of [0, 1], n = 100,000.

    Returns
    -------
    The expected counts, rounded by largest remainders to sum to n. Labels are the intervals of
    the buckets.

    Examples
    --------
    >>> beta().labels[-1]
    '[0.9975, 1.0000]'
    """
    from scipy.special import betainc  # here, so that importing ldpopt.datasets stays fast

    # A bucket's probability is the difference of the distribution function at its ends.
    edges = np.linspace(0.0, 1.0, 401)
    labels = [f"[{low:.4f}, {high:.4f})" for low, high in pairwise(edges)]
    labels[-1] = labels[-1].replace(")", "]")
    counts = apportion(np.diff(betainc(50, 2, edges)), 100_000)
    return Dataset(
        "beta",
        counts,
        tuple(labels),
        "generated: expected counts of Beta(50, 2) in 400 buckets of [0, 1]",
    )

"""A check that a log-density given as a function is as smooth as the summation takes it to be."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ldpopt.priors.summation import NODES, Runs, rule

Array = NDArray[np.float64]
LogDensity = Callable[[Array], Array]

_CHECKED = 1 << 18  # counts that are compared
_EACH = 32  # counts per run that are compared at least, where there are more runs than fit
_BATCH = 1 << 15  # counts compared at a time
_ROUNDING = 1e-12  # of a log-density, relative
_HIT = 1e-30  # stands for a distance of 0 to a node: its weight drowns all others


def rough_count(log_density: LogDensity, runs: Runs, n: int, tolerance: float) -> float | None:
    """Return a count at which the log-density is not what its values at the nodes imply, or None.

    A polynomial of degree 9 passes through the nodes of each run. It is compared with the
    log-density at every count, or, where there are more than 262,144, at as many counts drawn from
    all runs, or from 8,192 runs if there are more.

    Parameters
    ----------
    log_density
        From counts to log π up to a constant.
    runs
        Disjoint ascending runs on 1 .. n on which the log-density is expected to be smooth; counts
        outside of them are to have no mass.
    n
        The highest count.
    tolerance
        Largest difference in nats that is not rough.
    """
    draw = np.random.default_rng(0)  # the same counts in every call
    runs = _with_gaps(runs, n)
    if not len(runs.first):
        return None
    if len(runs.first) > _CHECKED // _EACH:
        chosen = np.sort(draw.choice(len(runs.first), _CHECKED // _EACH, replace=False))
        runs = Runs(runs.first[chosen], runs.size[chosen])
    polynomials = _Polynomials(log_density, runs)
    run, place = _places(runs, draw)
    for begin in range(0, len(run), _BATCH):
        batch = slice(begin, begin + _BATCH)
        k = runs.first[run[batch]] + place[batch]
        rough = polynomials.miss(run[batch], place[batch], log_density(k), tolerance)
        if rough.any():
            return float(k[np.argmax(rough)])
    return None


def _with_gaps(runs: Runs, n: int) -> Runs:
    """Return the runs and those between them, without the short ones, which are summed exactly."""
    gaps = np.append(1.0, runs.stop)
    gap_sizes = np.append(runs.first, n + 1.0) - gaps
    first = np.append(runs.first, gaps)
    size = np.append(runs.size, gap_sizes)
    return Runs(first[size > NODES], size[size > NODES])


def _places(runs: Runs, draw: np.random.Generator) -> tuple[NDArray[np.int64], Array]:
    """Return the counts to compare, as the number of their run and their distance from its first.

    Runs with more counts than fit have theirs drawn.
    """
    compared = runs.size.astype(np.int64)
    if compared.sum() > _CHECKED:
        compared = np.minimum(compared, _CHECKED // len(compared))
    run = np.repeat(np.arange(len(compared)), compared)
    before = np.cumsum(compared) - compared
    place = (np.arange(len(run)) - before[run]).astype(np.float64)  # each count of a short run
    size = runs.size[run]
    drawn = compared[run] < size
    uniform = draw.random(np.count_nonzero(drawn))
    place[drawn] = np.floor(uniform * size[drawn])
    return run, place


class _Polynomials:
    """Polynomials through the values of a log-density at the nodes of runs, in barycentric form."""

    def __init__(self, log_density: LogDensity, runs: Runs) -> None:
        offset, _ = rule(runs.size.astype(np.int64))
        self.size = runs.size
        self.values = log_density(runs.first[:, None] + offset)
        self.empty = (self.values == -np.inf).all(axis=1)
        self.nodes = offset / runs.size[:, None]  # in 0 .. 1, so that no product overflows
        distances = self.nodes[:, :, None] - self.nodes[:, None, :]
        self.weights = 1 / (distances + np.eye(NODES)).prod(axis=2)

    def miss(
        self, run: NDArray[np.int64], place: Array, actual: Array, tolerance: float
    ) -> NDArray[np.bool_]:
        """Return whether the polynomials differ from the actual values at places of runs."""
        distance = (place / self.size[run])[:, None] - self.nodes[run]
        distance[distance == 0] = _HIT
        share = self.weights[run] / distance
        with np.errstate(invalid="ignore"):  # minus infinity among the nodes
            expected = (share * self.values[run]).sum(axis=1) / share.sum(axis=1)
            allowed = tolerance + _ROUNDING * np.abs(actual)
            close = np.abs(actual - expected) <= allowed
        both_empty = self.empty[run] & (actual == -np.inf)
        return np.asarray(~close & ~both_empty)

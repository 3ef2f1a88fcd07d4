"""A check that a log-density given as a function is as smooth as the summation takes it to be."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ldpopt.priors.summation import NODES, Runs, rule

Array = NDArray[np.float64]
LogDensity = Callable[[Array], Array]

_CHECKED = 1 << 18  # counts that are compared
_EACH = 32  # counts that are compared per run, at least, where there are more runs than fit
_BATCH = 1 << 15  # counts compared at a time
_ROUNDING = 1e-12  # of a log-density, relative
_HIT = 1e-30  # stands for a distance of 0 to a node: its weight drowns all others


def rough_count(
    log_density: LogDensity,
    runs: Runs,
    n: int,
    tolerance: float,
) -> float | None:
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
    runs = _some_drawn(runs, draw)
    polynomials = _Polynomials(log_density, runs)
    run, place = _places(runs, draw)
    for begin in range(0, len(run), _BATCH):
        batch = slice(begin, begin + _BATCH)
        k = runs.first[run[batch]] + place[batch]
        actual = log_density(k)
        rough = polynomials.miss(run[batch], place[batch], actual, tolerance)
        if rough.any():
            return float(k[np.argmax(rough)])
    return None


def _with_gaps(runs: Runs, n: int) -> Runs:
    """Return the runs and those between them, without the short ones, which are summed exactly."""
    # A gap begins at 1 or after a run, and ends before the next run or after n.
    gap_first = np.append(1.0, runs.stop)
    gap_stop = np.append(runs.first, n + 1.0)
    first = np.append(runs.first, gap_first)
    size = np.append(runs.size, gap_stop - gap_first)
    is_long = size > NODES
    return Runs(first[is_long], size[is_long])


def _some_drawn(runs: Runs, draw: np.random.Generator) -> Runs:
    """Return the runs, or some of them, drawn, if there are too many to compare counts in each."""
    largest = _CHECKED // _EACH
    if len(runs.first) <= largest:
        return runs
    drawn = draw.choice(len(runs.first), largest, replace=False)
    chosen = np.sort(drawn)
    return Runs(runs.first[chosen], runs.size[chosen])


def _places(runs: Runs, draw: np.random.Generator) -> tuple[NDArray[np.int64], Array]:
    """Return the counts to compare, as the number of their run and their distance from its first.

    Runs with more counts than fit have theirs drawn.
    """
    compared = runs.size.astype(np.int64)
    if compared.sum() > _CHECKED:
        compared = np.minimum(compared, _CHECKED // len(compared))
    numbers = np.arange(len(compared))
    run = np.repeat(numbers, compared)
    # Each count of a short run.
    before = np.cumsum(compared) - compared
    place = np.arange(len(run)) - before[run]
    place = place.astype(np.float64)
    size = runs.size[run]
    is_drawn = compared[run] < size
    drawn_size = size[is_drawn]
    uniform = draw.random(len(drawn_size))
    place[is_drawn] = np.floor(uniform * drawn_size)
    return run, place


class _Polynomials:
    """Polynomials through the values of a log-density at the nodes of runs, in barycentric form."""

    def __init__(self, log_density: LogDensity, runs: Runs) -> None:
        sizes = runs.size.astype(np.int64)
        offset, _ = rule(sizes)
        self.size = runs.size
        self.values = log_density(runs.first[:, None] + offset)
        is_empty = self.values == -np.inf
        self.empty = is_empty.all(axis=1)
        self.nodes = offset / runs.size[:, None]  # in 0 .. 1, so that no product overflows
        of_rows = self.nodes[:, :, None]
        of_columns = self.nodes[:, None, :]
        distances = of_rows - of_columns
        distances += np.eye(NODES)  # a node's distance to itself is no factor
        self.weights = 1 / distances.prod(axis=2)

    def miss(
        self,
        run: NDArray[np.int64],
        place: Array,
        actual: Array,
        tolerance: float,
    ) -> NDArray[np.bool_]:
        """Return whether the polynomials differ from the actual values at places of runs."""
        relative_place = place / self.size[run]
        distance = relative_place[:, None] - self.nodes[run]
        # At a node the formula would divide by 0; this small distance gives the node's own value.
        distance[distance == 0] = _HIT
        share = self.weights[run] / distance
        with np.errstate(invalid="ignore"):  # minus infinity among the nodes
            weighted = (share * self.values[run]).sum(axis=1)
            expected = weighted / share.sum(axis=1)
            allowed = tolerance + _ROUNDING * np.abs(actual)
            is_close = np.abs(actual - expected) <= allowed
        both_empty = self.empty[run] & (actual == -np.inf)
        return np.asarray(~is_close & ~both_empty)

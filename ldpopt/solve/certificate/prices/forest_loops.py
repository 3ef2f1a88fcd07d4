"""Loops along forests: from the leaves to the roots, and back.

They read and write arrays in place. Short vectors take them in plain Python, on lists, and long
ones compiled, which takes numba's import: in the same order, so that the numbers are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from numpy.typing import NDArray

# From so many values compiled loops pay.
_LONG = 20_000

Loop = Callable[..., None]


def run(loop: Loop, *arrays: NDArray[Any]) -> None:
    """Run a loop of this module on arrays of one length, which it may write to."""
    if len(arrays[0]) >= _LONG:
        _compiled(loop)(*arrays)
        return
    # Python reads and writes lists several times as fast as arrays.
    lists = [array.tolist() for array in arrays]
    loop(*lists)
    for array, values in zip(arrays, lists, strict=True):
        array[:] = values


@cache
def _compiled(loop: Loop) -> Loop:
    from ldpopt.closed_form.compiling import compiled  # imports numba

    return compiled(loop)


def peel(degrees: Any, neighbours: Any, rows: Any, order: Any, above: Any, row: Any) -> None:
    """Take leaves away one by one: write their order, what is above each, and the row between.

    ``neighbours`` and ``rows`` hold the exclusive or of all neighbours and rows of each value: what
    is left of one is itself. Values on a cycle are never leaves, and come last with the roots.
    """
    place = 0
    for first in range(len(degrees)):
        leaf = first
        while degrees[leaf] == 1:
            up = neighbours[leaf]
            above[leaf] = up
            row[leaf] = rows[leaf]
            order[place] = leaf
            place += 1
            degrees[leaf] = 0
            degrees[up] -= 1
            neighbours[up] ^= leaf
            rows[up] ^= rows[leaf]
            leaf = up
    for value in range(len(degrees)):
        if row[value] < 0:
            order[place] = value
            place += 1


def carry_bounds(
    order: Any, above: Any, is_higher: Any, is_lower: Any, lower: Any, upper: Any
) -> None:
    """Tighten bounds along rows that say that a value is at least, or at most, the one above."""
    # What comes from below a value counts before the value passes it on, and then the way back.
    for v in order:
        if is_higher[v]:
            upper[above[v]] = min(upper[above[v]], upper[v])
        if is_lower[v]:
            lower[above[v]] = max(lower[above[v]], lower[v])
    for v in order[::-1]:
        if is_higher[v]:
            lower[v] = max(lower[v], lower[above[v]])
        if is_lower[v]:
            upper[v] = min(upper[v], upper[above[v]])


def join_blocks(order: Any, above: Any, is_tied: Any, block: Any) -> None:
    """Give each value that hangs on the one above the number of its block."""
    for v in order[::-1]:
        if is_tied[v]:
            block[v] = block[above[v]]


def pass_up(
    order: Any,
    above: Any,
    low: Any,
    high: Any,
    flow_low: Any,
    flow_high: Any,
    flow: Any,
    received: Any,
) -> None:
    """Find what each row may carry, from the leaves upwards, and let it carry as little as may be.

    ``low`` and ``high`` are what a value and all below it may pass on, of which the row above lets
    a part through.
    """
    for v in order:
        up = above[v]
        if up < 0:
            continue
        flow_low[v] = min(max(low[v], flow_low[v]), flow_high[v])
        flow_high[v] = min(max(high[v], flow_low[v]), flow_high[v])
        low[up] += flow_low[v]
        high[up] += flow_high[v]
        flow[v] = min(max(0.0, flow_low[v]), flow_high[v])
        received[up] += flow[v]


def pass_down(
    order: Any,
    above: Any,
    slope: Any,
    received: Any,
    bound_low: Any,
    bound_high: Any,
    flow_low: Any,
    flow_high: Any,
    flow: Any,
    missing: Any,
) -> None:
    """Let rows carry more, or less, where the value above lacks it, from the roots downwards."""
    for v in order[::-1]:
        up = above[v]
        if up >= 0:
            changed = min(max(flow[v] + missing[up], flow_low[v]), flow_high[v])
            missing[up] -= changed - flow[v]
            flow[v] = changed
        surplus = slope[v] + received[v] - flow[v]
        missing[v] = min(max(surplus, bound_low[v]), bound_high[v]) - surplus

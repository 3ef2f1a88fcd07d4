"""What post-processing did to the estimates of the support: one shift for all, a factor, and so on.

Each kind is a formula that a reader would try next: norm-sub shifts by one number, norm-mul scales,
known shares shift by group, an order shifts the mean of each block.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form import Groups

Array = NDArray[np.float64]

NEAR = 1e-6
"""Difference below which two numbers of solutions are equal: solvers leave up to that much."""


class Support(NamedTuple):
    """One solution on its support: values that are off their bounds.

    Attributes
    ----------
    start, f
        The estimates and the solution there, each of shape (k,).
    group, block
        The group of each value, and the number of its block of equal values, shape (k,).
    """

    start: Array
    f: Array
    group: NDArray[np.int64]
    block: NDArray[np.int64]


def support_of(
    start: Array, f: Array, is_free: NDArray[np.bool_], groups: Groups | None
) -> Support:
    """Return one solution on the values that are free."""
    group = np.zeros(len(f), dtype=np.int64) if groups is None else groups.of_value
    return Support(start[is_free], f[is_free], group[is_free], blocks_of(f[is_free]))


def blocks_of(f: Array) -> NDArray[np.int64]:
    """Return the number of each value's block: equal values make one, the lowest is number 0.

    Examples
    --------
    >>> blocks_of(np.array([0.5, 0.2, 0.5])).tolist()
    [1, 0, 1]
    """
    order = np.argsort(f, kind="stable")
    numbers = np.empty(len(f), dtype=np.int64)
    is_new = np.diff(f[order], prepend=f[order][:1]) > NEAR
    numbers[order] = np.cumsum(is_new)
    return numbers


def _is_constant(values: Array) -> bool:
    return bool(len(values) < 2 or np.ptp(values) <= NEAR * max(1.0, float(np.abs(values).max())))


def _constant(support: Support) -> bool:
    return _is_constant(support.f - support.start)


def _proportional(support: Support) -> bool:
    return _is_factor(support.start, support.f)


def _is_factor(start: Array, f: Array) -> bool:
    # Ratios of small numbers are not known well: products are compared.
    mass = float(np.abs(start).sum())
    factor = float(np.abs(f).sum()) / mass if mass > 0 else 0.0
    return bool(np.all(np.abs(f - factor * start) <= NEAR))


def _constant_by_group(support: Support) -> bool:
    return all(_is_constant((support.f - support.start)[part]) for part in _parts(support.group))


def _proportional_by_group(support: Support) -> bool:
    return all(_is_factor(support.start[part], support.f[part]) for part in _parts(support.group))


def _means(support: Support) -> Support:
    """Return blocks as single values, each with the mean of its estimates."""
    blocks = _parts(support.block)
    start = np.array([support.start[members].mean() for members in blocks])
    f = np.array([support.f[members].mean() for members in blocks])
    # Of a block across groups that of its first value: no kind by group then holds.
    group = np.array([support.group[members][0] for members in blocks], dtype=np.int64)
    return Support(start, f, group, np.arange(len(blocks)))


def _constant_by_block(support: Support) -> bool:
    return _constant(_means(support))


def _constant_by_block_and_group(support: Support) -> bool:
    return _constant_by_group(_means(support))


def _increasing(support: Support) -> bool:
    order = np.argsort(support.start, kind="stable")
    return bool(np.all(np.diff(support.f[order]) >= -NEAR))


def _parts(numbers: NDArray[np.int64]) -> list[NDArray[np.bool_]]:
    return [numbers == number for number in np.unique(numbers)]


KINDS: Mapping[str, Callable[[Support], bool]] = {
    "constant": _constant,
    "proportional": _proportional,
    "constant by group": _constant_by_group,
    "proportional by group": _proportional_by_group,
    "constant by block": _constant_by_block,
    "constant by block and group": _constant_by_block_and_group,
    "increasing": _increasing,
}
"""The kinds of shift, simple ones first, with the test of one solution."""

OTHER = "other"
"""The kind of what is none of these."""


def kinds_of(support: Support) -> tuple[str, ...]:
    """Return all kinds that hold for one solution."""
    return tuple(kind for kind, holds in KINDS.items() if holds(support))

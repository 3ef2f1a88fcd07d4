"""Counting what numpy does: elements passed over, whatever the machine and its load."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

_SORTS = {
    "sort",
    "argsort",
    "unique",
}  # m log2 m comparisons; a partition passes over its input a few times


class Counted(np.ndarray[Any, Any]):
    """An array that adds up, in ``tally[0]``, the elements of every numpy operation on it and on what comes of it."""

    tally: list[float]

    def __array_finalize__(self, source: object) -> None:
        """Share the tally of the array that this one comes from."""
        self.tally = getattr(source, "tally", [0.0])

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Run element by element operations and reductions on plain arrays: as many operations as the largest has elements."""
        plain = _plain(inputs)
        return self._count(
            max(map(np.size, plain)), getattr(ufunc, method)(*plain, **_plain(kwargs))
        )

    def __array_function__(self, func: Any, types: Iterable[type], args: Any, kwargs: Any) -> Any:
        """Run numpy's functions on plain arrays; a sort of m elements counts m log2 m."""
        result = func(*_plain(args), **_plain(kwargs))
        size = max((x.size for x in _arrays([args, *kwargs.values()])), default=0)
        return self._count(
            size * (math.log2(max(size, 2)) if func.__name__ in _SORTS else 1), result
        )

    def __getitem__(self, key: Any) -> Any:
        """Count the elements that an index picks out."""
        return self._count(np.size(_plain(key)), _plain(self)[_plain(key)])

    def _count(self, operations: float, result: Any) -> Any:
        self.tally[0] += operations
        if not isinstance(result, np.ndarray):
            return result
        wrapped = result.view(Counted)
        wrapped.tally = self.tally
        return wrapped


def _arrays(values: Any) -> list[NDArray[Any]]:
    if isinstance(values, np.ndarray):
        return [values]
    return (
        [x for value in values for x in _arrays(value)] if isinstance(values, list | tuple) else []
    )


def _plain(value: Any) -> Any:
    """Return a value with every counted array in it as a plain one."""
    if isinstance(value, Counted):
        return value.view(np.ndarray)
    if isinstance(value, list | tuple):
        return type(value)(_plain(x) for x in value)
    return {key: _plain(x) for key, x in value.items()} if isinstance(value, dict) else value


def operations(function: Callable[[NDArray[np.float64]], object], f: NDArray[np.float64]) -> float:
    """Return how many operations a function of an array takes.

    Examples
    --------
    >>> operations(lambda f: np.maximum(f, 0.0).sum(), np.ones(100))
    200.0
    """
    counted = f.view(Counted)
    counted.tally = [0.0]
    function(counted)
    return counted.tally[0]

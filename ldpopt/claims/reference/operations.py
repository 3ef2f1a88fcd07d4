"""Counting numpy's operations: elements passed over, whatever the machine and its load."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

# A sort of m elements takes m log2 m comparisons; a partition passes over its input a few times.
_SORTS = {"sort", "argsort", "unique"}


class CountedArray(np.ndarray[Any, Any]):
    """An array that counts the elements of every numpy operation on it and on its results.

    The count is ``tally[0]``, one list that all these arrays share.
    """

    tally: list[float]

    def __array_finalize__(self, source: object) -> None:
        """Share the tally of the array that this one comes from."""
        self.tally = getattr(source, "tally", [0.0])

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Run an element by element operation or a reduction on plain arrays.

        It counts as many operations as its largest input has elements.
        """
        # Plain arrays: what numpy does inside must not count twice.
        plain = _plain(inputs)
        result = getattr(ufunc, method)(*plain, **_plain(kwargs))
        return self._count(max(map(np.size, plain)), result)

    def __array_function__(self, func: Any, types: Iterable[type], args: Any, kwargs: Any) -> Any:
        """Run one of numpy's functions on plain arrays; a sort of m elements counts m log2 m."""
        # On plain arrays here too, for numpy's functions are made of counted operations themselves.
        result = func(*_plain(args), **_plain(kwargs))
        size = max((x.size for x in _arrays([args, *kwargs.values()])), default=0)
        passes = math.log2(max(size, 2)) if func.__name__ in _SORTS else 1
        return self._count(size * passes, result)

    def __getitem__(self, key: Any) -> Any:
        """Count the elements of an index."""
        return self._count(np.size(_plain(key)), _plain(self)[_plain(key)])

    def _count(self, operations: float, result: Any) -> Any:
        """Add operations to the tally, and return their result as an array that counts too."""
        self.tally[0] += operations
        if not isinstance(result, np.ndarray):
            return result
        counted = result.view(CountedArray)
        counted.tally = self.tally
        return counted


def _arrays(values: Any) -> list[NDArray[Any]]:
    """Return all arrays in nested lists and tuples."""
    if isinstance(values, np.ndarray):
        return [values]
    if not isinstance(values, list | tuple):
        return []
    return [array for value in values for array in _arrays(value)]


def _plain(value: Any) -> Any:
    """Return a value with every counted array in it as a plain one."""
    if isinstance(value, CountedArray):
        return value.view(np.ndarray)
    if isinstance(value, list | tuple):
        return type(value)(_plain(x) for x in value)
    if isinstance(value, dict):
        return {key: _plain(x) for key, x in value.items()}
    return value


def operations(function: Callable[[NDArray[np.float64]], object], f: NDArray[np.float64]) -> float:
    """Return how many operations a function of an array takes.

    Examples
    --------
    >>> operations(lambda f: np.maximum(f, 0.0).sum(), np.ones(100))
    200.0
    """
    counted = f.view(CountedArray)
    counted.tally = [0.0]  # a new list: tallies are shared by reference
    function(counted)
    return counted.tally[0]

"""How value-by-value code is compiled. Importing this module imports numba.

Compiled code is kept on disk where numba finds a place to write. Numba notices a change of the file
that holds a function, and of no other file, so that each function and all that it calls are in one;
``oracles.hash_kernel``, which must call another file's, tells numba of a change by itself.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

from ldpopt.closed_form.rows import locked_view

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Return a function compiled at its first call; division by 0 gives infinity, as numpy's does.

    Sums are taken in the order in which they are written: nothing is compiled with fast arithmetic.

    In a loop over a block, what an array holds is read into a name before anything is written. If
    it is read again afterwards, or in one branch of a choice, the compiler cannot know that it is
    still the same, and the loop takes up to twice as long.
    """
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    try:
        result = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no place to write
        result = numba.njit(**options)(function)
    return cast("Function", result)


def entry(*writes: str) -> Callable[[Function], Function]:
    """Return a decorator for compiled functions that Python calls with arrays of several kinds.

    Parameters
    ----------
    writes
        The names of the arrays that the function writes to.

    Notes
    -----
    Numba compiles for each mix of arrays that may be written to and arrays that may not, as those
    of estimates are: that takes half a second each. Here all that are only read are passed as
    arrays that nobody may write to, and no other mix is left. Compiled code cannot call such
    functions.
    """

    def decorated(function: Function) -> Function:
        inner = compiled(function)
        reads = [name not in writes for name in inspect.signature(function).parameters]

        @functools.wraps(function)
        def call(*arguments: Any) -> Any:
            pairs = zip(arguments, reads, strict=True)
            return inner(*(locked_view(one) if is_read else one for one, is_read in pairs))

        return cast("Function", call)

    return decorated


def inlined(function: Function) -> Function:
    """Return a function whose code is copied to where compiled functions call it.

    A call with nine arrays inside a loop over trials would cost a quarter of a pass over a tree.
    """
    return cast("Function", numba.njit(inline="always")(function))

"""Logarithms of the quotients of two long vectors, compiled. Imports numba.

On processors without vectors of eight numbers, numpy's logarithm takes eight nanoseconds per value:
longer than all else that a proof does with a value. Here every operation is one that four or eight
values take together: three to four nanoseconds per value. The result is the same on every machine.

A number x is m 2^e with √½ <= m < √2, and with s = (m - 1)/(m + 1)

    log x = e log 2 + log m,    log m = 2 (s + s³/3 + s⁵/5 + …).

So s² is below 0.0295, and what is left after the term in s²¹ is below 1e-18 of the first term.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba.core import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from ldpopt.closed_form.compiling import compiled
from ldpopt.closed_form.rows import locked_vector

Array = NDArray[np.float64]

_SMALLEST = float(np.finfo(np.float64).tiny)
_LARGEST = float(np.finfo(np.float64).max)

# A double's bits are its exponent, raised by 1023, above 52 bits of what follows the first one.
_WIDTH = np.uint64(52)
_FRACTION = np.uint64((1 << 52) - 1)
_ROOT = np.float64(math.sqrt(0.5)).view(np.uint64)
# What takes √½ to 1: the exponent then changes where m would leave its interval.
_TO_ONE = np.float64(1.0).view(np.uint64) - _ROOT

# With these bits above its own, a whole number k is the double 2^52 + k: the quickest conversion.
_AS_DOUBLE = np.float64(2.0**52).view(np.uint64)
_RAISED = 2.0**52 + 1023

# log 2 in two parts. The first has so few bits that its products with exponents are exact.
_LOG2 = float.fromhex("0x1.62e42feep-1")
_LOG2_REST = float.fromhex("0x1.a39ef35793c76p-33")

# Numba passes the first argument by itself; type checkers know nothing of that.
_in_compiled_code: Callable[[Callable[..., Any]], Any] = intrinsic

# 2/3, 2/5, … of the series, without its first term.
_C1, _C2, _C3, _C4, _C5, _C6, _C7, _C8, _C9, _C10 = (2 / (2 * k + 1) for k in range(1, 11))


def log_ratios(f: Array, reference: Array, into: Array | None = None) -> tuple[Array, bool]:
    """Return log(f/r) of two vectors of shape (d,), and whether all of them are numbers.

    Parameters
    ----------
    f, reference
        Any numbers.
    into
        An array of shape (d,) for the result; None for a new one.

    Returns
    -------
    The logarithms are right to one unit in the last place; the quotients are rounded before. A
    logarithm is NaN where its quotient is not a positive number of full precision, but is negative,
    0, infinite or below 2.3e-308.
    """
    result = np.empty(len(f)) if into is None else into
    _write_logarithms(locked_vector(f), locked_vector(reference), result)
    # A sum is a number where all of its terms are: the largest logarithm is 710.
    return result, not math.isnan(float(np.add.reduce(result)))


def _same_bits(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Return the code that sees 64 bits as another kind of number."""
    return builder.bitcast(arguments[0], context.get_value_type(signature.return_type))


@_in_compiled_code
def _bits_of(_: Any, __: Any) -> Any:
    """Return the bits of a double, as a whole number."""
    return types.uint64(types.float64), _same_bits


@_in_compiled_code
def _double_of(_: Any, __: Any) -> Any:
    """Return the double that has these bits."""
    return types.float64(types.uint64), _same_bits


@compiled
def _write_logarithms(f: Array, reference: Array, result: Array) -> None:
    """Write log(f/r) of each value, or NaN."""
    for k in range(len(f)):
        x = f[k] / reference[k]
        # Added at the end, this makes NaN of what is no number or has lost digits.
        mark = 0.0 if _SMALLEST <= x <= _LARGEST else np.nan
        raised = _bits_of(x) + _TO_ONE
        exponent = _double_of((raised >> _WIDTH) | _AS_DOUBLE) - _RAISED
        away = _double_of((raised & _FRACTION) + _ROOT) - 1.0
        s = away / (2.0 + away)
        z = s * s
        z2 = z * z
        # In pairs: sums that do not wait for one another.
        first = (_C1 + _C2 * z) + (_C3 + _C4 * z) * z2
        rest = (_C5 + _C6 * z) + (_C7 + _C8 * z) * z2 + (_C9 + _C10 * z) * (z2 * z2)
        series = (first + rest * (z2 * z2)) * z
        # 2 s is away - s away, and s away is half - s half with half = away²/2. So the largest
        # term, away, is exact, and is added last.
        half = 0.5 * away * away
        small = half - (s * (half + series) + exponent * _LOG2_REST)
        result[k] = mark + (exponent * _LOG2 - (small - away))

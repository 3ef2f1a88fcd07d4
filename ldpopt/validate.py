"""Checks of arguments: every public function calls these once, and the code behind it need not.

Each check returns its argument in canonical form or raises an error that says what was found,
where, and what to do.
"""

from __future__ import annotations

import math
import numbers
import reprlib
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt.errors import (
    ImplausibleLevelWarning,
    InvalidInputError,
    InvalidTypeError,
    UnknownNameError,
    nearest,
    warn,
)
from ldpopt.frames import numbers_of
from ldpopt.printable import counted

Item = TypeVar("Item")

_FLOAT64 = np.dtype(np.float64)

_INT64_BOUND = 2**62  # a bound as high as this only keeps numbers within int64

# Where labels stand for values that constraints know by their positions.
_POSITIONS = "give the position of each value, counted from 0, as labels.index(...) returns it"

INDEX_BOUND = 2**62
"""An upper bound for indices of a domain whose size is not known yet."""


def unknown_name(kind: str, name: object, choices: Iterable[str]) -> UnknownNameError:
    """Return the error for an unknown name; it lists the nearest names, or all of a short list."""
    names = list(choices)
    close = nearest(name, names)
    hint = f"did you mean {_alternatives(close)}?" if close else f"known: {', '.join(names)}"
    return UnknownNameError(f"unknown {kind} {name!r}: {hint}")


def _alternatives(names: list[str]) -> str:
    """Return names as a list in a sentence: 'a', 'b' or 'c'."""
    *others, last = map(repr, names)
    return f"{', '.join(others)} or {last}" if others else last


def lookup(kind: str, name: str, table: Mapping[str, Item]) -> Item:
    """Return ``table[name]`` or raise the error that names the nearest known names."""
    if not isinstance(name, str) or name not in table:
        raise unknown_name(kind, name, table)
    return table[name]


def real(
    what: str,
    value: object,
    *,
    above: float = -math.inf,
    below: float = math.inf,
    minimum: float = -math.inf,
) -> float:
    """Return ``value`` as a float with above < value < below and value >= minimum."""
    # A look at the type is ten times as quick as at an abstract class, and most are plain numbers.
    if type(value) is float and above < value < below and value >= minimum:
        return value
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise InvalidTypeError(f"{what} must be a number, got {value!r}")
    try:
        number = float(value)
    except OverflowError:  # a whole number beyond the floats
        number = math.inf
    if not math.isfinite(number) or not above < number < below or number < minimum:
        bounds = (
            [f">= {minimum:g}"] * (minimum > -math.inf)
            + [f"> {above:g}"] * (above > -math.inf)
            + [f"< {below:g}"] * (below < math.inf)
        )
        limits = " " + " and ".join(bounds) if bounds else ""
        # Levels are often stated in percent.
        is_percent = above == 0 and below == 1 and 50 <= number < 100
        remedy = f": {number:g} % is {number / 100:g}" if is_percent else ""
        raise InvalidInputError(f"{what} must be a finite number{limits}, got {value!r}{remedy}")
    return number


def confidence(what: str, value: object) -> float:
    """Return the probability in (0, 1) that a statement holds; warn where it hardly ever would.

    statsmodels takes the probability of a miss, 0.05, where this library takes 0.95, as scipy does.
    """
    number = real(what, value, above=0, below=1)
    if number < 0.5:
        warn(
            f"{what} is 0.95 for 95 %, and {number:g} stands for {100 * number:g} %: "
            f"pass {1 - number:g} if {number:g} is the probability of a miss",
            ImplausibleLevelWarning,
        )
    return number


def significance(what: str, value: object) -> float:
    """Return the probability in (0, 1) that a test rejects what holds; warn above one half."""
    number = real(what, value, above=0, below=1)
    if number > 0.5:
        warn(
            f"{what} is 0.05 for a test that rejects 5 % of what holds, and {number:g} stands for "
            f"{100 * number:g} %: pass {1 - number:g} if {number:g} is the confidence",
            ImplausibleLevelWarning,
        )
    return number


def flag(what: str, value: object) -> bool:
    """Return ``value`` as a bool; texts, arrays and the like are refused, not read as true."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidTypeError(f"{what} must be True or False, got {value!r}")
    return bool(value)


def integer(what: str, value: object, *, minimum: int) -> int:
    """Return ``value`` as an int >= ``minimum``; floats with an integer value pass."""
    if type(value) is int and minimum <= value <= _INT64_BOUND:
        return value
    whole = isinstance(value, numbers.Integral) or (
        isinstance(value, numbers.Real) and float(value).is_integer()
    )
    if isinstance(value, bool | np.bool_) or not whole:
        raise InvalidTypeError(f"{what} must be a whole number, got {value!r}")
    number = int(value)  # type: ignore[call-overload]
    if number < minimum:
        raise InvalidInputError(f"{what} must be at least {minimum}, got {_shown(value, number)}")
    if number > _INT64_BOUND:
        raise InvalidInputError(f"{what} must be at most 2**62, got {_shown(value, number)}")
    return number  # type: ignore[no-any-return]


def _shown(value: object, number: int) -> str:
    """Return a whole number as an error shows it: as it was given, or how many digits it has."""
    # Python writes no more than 4,300 digits, and nobody reads more than 20.
    if number.bit_length() <= 64:
        return repr(value)
    sign = "a negative number" if number < 0 else "a number"
    return f"{sign} of about {round(number.bit_length() * math.log10(2))} digits"


def trial(index: tuple[Any, ...]) -> str:
    """Return a position among the leading axes of a stack in words: ``trial 2``."""
    return f"trial {', '.join(str(int(i)) for i in index)}"


def where(index: tuple[Any, ...]) -> str:
    """Return an array position in words: ``index 3``, or ``trial 2, index 3`` in a stack."""
    if not index:
        return "position () of a single number"
    *trials, last = (int(i) for i in index)
    return f"trial {', '.join(map(str, trials))}, index {last}" if trials else f"index {last}"


def placed(index: tuple[Any, ...]) -> str:
    """Return `` at index 3`` for an error that states a value; empty for a single number."""
    return f" at {where(index)}" if index else ""


def first(mask: NDArray[np.bool_]) -> tuple[Any, ...]:
    """Return the position of the first true entry of a mask that has one."""
    return tuple(np.unravel_index(int(np.argmax(mask)), mask.shape))


def unmasked(what: str, values: object) -> None:
    """Raise an error if an array has masked entries, also as a part of a list.

    Every argument passes here before ``np.asarray``, which would show the numbers that a mask
    hides.
    """
    if _hides_entries(values):
        raise InvalidInputError(
            f"{what} must not have masked entries: fill them, or leave them out"
        )


def _hides_entries(values: object) -> bool:
    if isinstance(values, list | tuple):
        # Numbers, of which long lists consist, need no call.
        return any(_hides_entries(part) for part in values if not isinstance(part, float | int))
    if not isinstance(values, np.ma.MaskedArray):
        return False
    mask = np.ascontiguousarray(np.ma.getmaskarray(values))
    # The mask of records, such as reports of local hashing, has a flag per field.
    return bool(mask.view(np.bool_).any())


def array(what: str, values: ArrayLike) -> NDArray[Any]:
    """Return ``values`` as a numeric array; booleans, text and ragged lists are refused."""
    result = rectangular(what, values)
    if result.dtype.kind not in "iuf":
        kind = _kind(what, values, result)
        raise InvalidTypeError(f"{what} must be an array of numbers, got {kind}")
    return result


def rectangular(what: str, values: ArrayLike) -> NDArray[Any]:
    """Return ``values`` as an array of any type; masked entries and ragged lists are refused."""
    unmasked(what, values)
    try:
        return np.asarray(values)
    except ValueError as error:
        raise InvalidInputError(
            f"{what} must be a rectangular array of numbers, got rows of different lengths"
        ) from error


def _kind(what: str, values: object, result: NDArray[Any]) -> str:
    """Return what stands in place of numbers: its type, and an entry or a remedy if any."""
    if not result.ndim and not isinstance(values, np.ndarray):
        kind = repr(type(values))
        if isinstance(values, Mapping):
            return f"{kind}: pass list(...) of its values, or a Series of pandas to keep its keys"
        # Such as a solution, or a data set: an estimate is an array by itself.
        if "counts" in what and hasattr(values, "counts"):
            return f"{kind}: pass its counts"
        return f"{kind}: pass its frequencies" if hasattr(values, "frequencies") else kind
    # numpy's name of a type of text is "<U3".
    kind = "text" if result.dtype.kind in "US" else str(result.dtype)
    if result.dtype.kind != "O":
        return f"an array of {kind}"
    # Numbers and others side by side: one of the others is what has to be mended.
    for place in np.ndindex(result.shape):
        if not isinstance(result[place], numbers.Real):
            return f"an array of {kind}, found {reprlib.repr(result[place])}{placed(place)}"
    return f"an array of {kind}: convert it, as np.asarray(..., dtype=float) does"


def vector(what: str, values: ArrayLike) -> NDArray[np.float64]:
    """Return finite float64 values of shape (d,), d >= 1."""
    result: NDArray[np.float64] = array(what, numbers_of(values)).astype(np.float64)
    if result.ndim != 1 or not result.size:
        raise InvalidInputError(f"{what} must have shape (d,), got shape {result.shape}")
    wrong = ~np.isfinite(result)
    if wrong.any():
        at = first(wrong)
        raise InvalidInputError(f"{what} must be finite, found {result[at]} at {where(at)}")
    return result


_SMALLEST_NORMAL = float(np.finfo(np.float64).tiny)


def positive_vector(what: str, values: ArrayLike) -> NDArray[np.float64]:
    """Return positive and finite float64 values of shape (d,), d >= 1; none may be subnormal."""
    result: NDArray[np.float64] = array(what, numbers_of(values)).astype(np.float64)
    if result.ndim != 1 or not result.size:
        raise InvalidInputError(f"{what} must have shape (d,), got shape {result.shape}")
    # Negated, so that NaN counts as wrong.
    is_wrong = ~((result >= _SMALLEST_NORMAL) & np.isfinite(result))
    if is_wrong.any():
        at = first(is_wrong)
        # What so small a number is multiplied by vanishes, or has a digit or two.
        has_lost = 0 < result[at] < _SMALLEST_NORMAL
        remedy = ", where doubles have lost their digits" if has_lost else ""
        raise InvalidInputError(
            f"{what} must be positive and finite, found {result[at]:g} at {where(at)}{remedy}"
        )
    return result


_ROUNDED_SUM = 1e-6  # by which the sum of frequencies that were written down may miss 1


def distribution(what: str, values: ArrayLike, d: int) -> NDArray[np.float64]:
    """Return d numbers >= 0 whose sum is 1, divided by their sum.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If there are not d numbers, one is negative, or their sum is not 1.
    """
    f = vector(what, values)
    one_per_value(what, f, d)
    if f.min() < 0:
        at = first(f < 0)
        raise InvalidInputError(
            f"{what} must lie on the simplex, found {f[at]:g} at {where(at)}: process them first, "
            "by mixture-ns or norm-sub, say"
        )
    total = float(f.sum())
    # Published frequencies are rounded: those that nearly add up to 1 are divided by their sum.
    if abs(total - 1) > _ROUNDED_SUM:
        raise InvalidInputError(
            f"{what} must lie on the simplex, and their sum is {total:.9g}: process them first, "
            "by mixture-ns or norm-sub, say"
        )
    return np.asarray(f / total)


def one_per_value(what: str, values: NDArray[Any], d: int) -> None:
    """Raise an error unless there are d values."""
    if len(values) != d:
        raise InvalidInputError(
            f"{what} has {counted(len(values), 'value')} for a domain of {d}: pass one per value"
        )


def frequencies(values: ArrayLike, *, d: int | None = None) -> NDArray[np.float64]:
    """Return finite float64 values of shape (..., d), d >= 1."""
    result: NDArray[np.float64]
    # What the library computed itself is of this kind, and needs no look at others.
    if type(values) is np.ndarray and values.dtype is _FLOAT64:
        result = values
    else:
        result = np.asarray(array("frequencies", numbers_of(values)), dtype=np.float64)
    if result.ndim == 0 or result.shape[-1] == 0:
        raise InvalidInputError(
            f"frequencies must have shape (d,) or (trials, d) with d >= 1, got shape {result.shape}"
        )
    if d is not None and result.shape[-1] != d:
        raise InvalidInputError(
            f"frequencies must have {d} values on the last axis, got shape {result.shape}"
        )
    finite = np.isfinite(result)
    # Counting takes half as long as .all() of a short array, which asks first what it is of.
    if np.count_nonzero(finite) < finite.size:
        at = first(~finite)
        raise InvalidInputError(f"frequencies must be finite, found {result[at]} at {where(at)}")
    return result


def digits_of(text: str) -> str | None:
    """Return the digits of a whole number >= 0 in a table; None where the text is no such number.

    Programs that keep counts as floats write them with a point.

    Examples
    --------
    >>> digits_of(" 3870.0"), digits_of("3870.5")
    ('3870', None)
    """
    whole, _, decimals = text.strip().partition(".")
    return whole if whole.isdecimal() and not decimals.strip("0") else None


def whole_numbers(what: str, values: ArrayLike, *, low: int, high: int) -> NDArray[np.int64]:
    """Return ``values`` as int64, each a whole number in ``low .. high`` (both included)."""
    result = array(what, values)
    if result.dtype.kind == "f":
        # True for NaN; infinities are caught by the range below.
        broken = result != np.floor(result)
        if broken.any():
            at = first(broken)
            raise InvalidInputError(f"{what} must be whole numbers, found {result[at]}{placed(at)}")
    # Two passes without a copy: a mask of what is wrong is made only where something is.
    if result.size and (result.min() < low or result.max() > high):
        at = first((result < low) | (result > high))
        # An upper bound that is the type's own is of no interest unless it was passed.
        has_two_bounds = high < _INT64_BOUND or result[at] > high
        bounds = f"lie in {low} .. {high}" if has_two_bounds else f"be >= {low}"
        raise InvalidInputError(f"{what} must {bounds}, found {result[at]}{placed(at)}")
    return result.astype(np.int64)


def distinct(what: str, names: Iterable[str]) -> list[str]:
    """Return names as a list.

    Raises
    ------
    InvalidInputError
        If one of them occurs again: results of two would be told apart by nothing.
    """
    members: list[str] = []
    for place, name in enumerate(names):
        if name in members:
            raise InvalidInputError(
                f"{what} must be distinct, got {name!r} again at position {place}: name it once"
            )
        members.append(name)
    return members


def distinct_indices(what: str, indices: ArrayLike) -> NDArray[np.int64]:
    """Return distinct indices as an int64 array of shape (m,).

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If one is repeated (the first is named), negative or no whole number.
    """
    given = rectangular(what, indices)
    no_labels(what, indices)
    if given.dtype == np.bool_:
        raise InvalidTypeError(
            f"{what} must be an array of numbers, got an array of bool: pass np.flatnonzero(...)"
        )
    # What has no entries has no type either: numpy takes an empty list for floats.
    given = given if given.size else np.empty(0, dtype=np.int64)
    checked = whole_numbers(what, given, low=0, high=INDEX_BOUND)
    members = np.atleast_1d(checked)
    if members.ndim != 1:
        raise InvalidInputError(
            f"{what} must be a one-dimensional array of indices, got shape {members.shape}"
        )
    at = first_repetition(members)
    if at is not None:
        raise InvalidInputError(
            f"{what} must not repeat an index, found {members[at]} again at position {at}"
        )
    return members


def no_labels(what: str, indices: ArrayLike, remedy: str = _POSITIONS) -> None:
    """Raise an error if texts stand where indices must: the first entry tells."""
    entry: Any = indices
    while isinstance(entry, list | tuple) and entry:
        entry = entry[0]
    # Of numpy, or of pandas.
    if hasattr(entry, "__array__") and np.size(entry):
        entry = np.asarray(entry).flat[0]
    if isinstance(entry, str):
        # A text alone is one value where several are meant.
        if entry is indices and remedy == _POSITIONS:
            remedy = f"pass a list, [{entry!r}]"
        raise InvalidTypeError(f"{what} must be indices, got the text {str(entry)!r}: {remedy}")


def first_repetition(rows: NDArray[np.int64]) -> int | None:
    """Return the first position whose entry (of pairs: whose row) occurs before, or None."""
    _, first = np.unique(rows, axis=0, return_index=True)
    if len(first) == len(rows):
        return None
    return int(np.setdiff1d(np.arange(len(rows)), first)[0])


def generator(rng: object) -> np.random.Generator:
    """Return ``rng`` if it is a numpy Generator, a Generator seeded by it if it is a seed."""
    if isinstance(rng, np.random.Generator):
        return rng
    if rng is None or isinstance(rng, np.random.SeedSequence):
        return np.random.default_rng(rng)
    if isinstance(rng, numbers.Integral) and not isinstance(rng, bool):
        return np.random.default_rng(integer("rng seed", rng, minimum=0))
    raise InvalidTypeError(f"rng must be a numpy.random.Generator, a seed or None, got {rng!r}")

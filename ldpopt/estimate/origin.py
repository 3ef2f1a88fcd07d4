"""What is stated of an estimate's origin: checked, and joined to one noise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.errors import (
    ImplausibleCountsWarning,
    ImplausibleUnitWarning,
    InvalidInputError,
    InvalidTypeError,
    warn,
)
from ldpopt.estimate.noise import Noise
from ldpopt.frames import numbers_of
from ldpopt.printable import counted
from ldpopt.protocol import PureProtocol

Array = NDArray[np.float64]

# Counts are implausible where honest reports give such a sum with a probability below 2e⁻³², about
# 2.5e-14: in the limit of many reports, 8 standard errors from the mean.
_LOG_RARE = 32.0


def checked_frequencies(frequencies: ArrayLike, oracle: object | None) -> Array:
    """Return the frequencies as floats, of the oracle's domain if there is one.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If one is not finite, there are not d of them, or a stack is empty.
    """
    d = None if oracle is None else checked_protocol(oracle).d
    values = validate.frequencies(frequencies, d=d)
    if not values.size:
        raise InvalidInputError(
            f"a stack must have at least one trial, got shape {values.shape}: "
            f"axis {values.shape.index(0)} is empty"
        )
    # Noise may lift an estimate above 1, but never to exact whole numbers.
    has_whole_numbers = np.asarray(frequencies).dtype.kind in "iu"
    if has_whole_numbers and values.max() > 1:
        warn_of_counts()
    return values


def warn_of_counts() -> None:
    """Warn of frequencies that look like counts: one text, which Python shows once per line."""
    warn(
        "these frequencies are whole numbers above 1: if they are counts of reports, "
        "use oracle.estimate(counts, n)",
        ImplausibleUnitWarning,
    )


def checked_protocol(oracle: object) -> PureProtocol:
    """Return a protocol as it is; anything else raises an ``InvalidTypeError``."""
    if not isinstance(oracle, PureProtocol):
        raise InvalidTypeError(f"oracle must be an oracle or a PureProtocol, got {oracle!r}")
    return oracle


def checked_counts(counts: ArrayLike, n: int, oracle: PureProtocol) -> NDArray[Any]:
    """Return support counts that n reports of the protocol can have; warn where they hardly can.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If one is not a whole number in 0 .. n, there are not d of them, or their sum is not that
        of reports which each support as many values.
    """
    whole = _whole_counts(f"counts of {counted(n, 'report')}", numbers_of(counts), n)
    if whole.ndim == 0 or whole.shape[-1] != oracle.d:
        raise InvalidInputError(
            f"counts must have {oracle.d} values on the last axis, got shape {whole.shape}"
        )
    if oracle.has_fixed_size:
        _check_sums(whole, n, oracle)
    else:
        _warn_of_implausible_sums(whole, n, oracle)
    return whole


def _whole_counts(what: str, counts: ArrayLike, n: int) -> NDArray[np.int64]:
    """Return whole numbers in 0 .. n; the error for frequencies says where these belong."""
    try:
        return validate.whole_numbers(what, counts, low=0, high=n)
    except InvalidInputError as error:
        # As they came: what is no array of numbers has been refused by another class.
        if np.all(np.abs(np.asarray(counts)) <= 1):
            raise InvalidInputError(
                f"{error}; shares of the reports are multiplied by n first, and estimated "
                "frequencies go into FrequencyEstimate(frequencies, n=..., oracle=...)"
            ) from None
        raise


def _check_sums(counts: NDArray[Any], n: int, oracle: PureProtocol) -> None:
    """Raise an error unless the counts are those of reports of one size."""
    # The mean number of values that a report supports, which is the number of each report here.
    size = round(oracle.p + (oracle.d - 1) * oracle.q)
    # Sums that might leave 64 bits are added as Python's numbers.
    exact = counts if n * oracle.d < 2**63 else counts.astype(object)
    sums = exact.sum(axis=-1)
    wrong = np.asarray(sums != n * size)
    if not wrong.any():
        return
    trial = validate.first(wrong)
    where = f" in {validate.trial(trial)}" if trial else ""
    raise InvalidInputError(
        f"counts must sum to {n * size}{where}, got {np.asarray(sums)[trial]}: each of the "
        f"n = {n} reports of {oracle!r} supports {size} of the values; check n and the counts"
    )


def _warn_of_implausible_sums(counts: NDArray[Any], n: int, oracle: PureProtocol) -> None:
    """Warn where the sum of all counts is far from that of n reports, whatever the frequencies.

    The sum is that of n independent numbers in 0 .. d, which all have the mean m and a variance of
    at most v. By Bernstein's inequality (Boucheron, Lugosi and Massart 2013, theorem 2.10) it is
    further than sqrt(2 n v L) + L max(m, d-m)/3 from n m with a probability of at most 2e⁻ᴸ.
    """
    size = oracle.mean_size
    expected = n * size
    largest = max(size, oracle.d - size)
    spread = math.sqrt(2 * _LOG_RARE * n * oracle.largest_size_variance)
    allowed = spread + _LOG_RARE * largest / 3
    # Floats: 64 bits may overflow, and the rounding is far below a standard error.
    sums = np.asarray(counts.sum(axis=-1, dtype=np.float64))
    is_far = np.abs(sums - expected) > allowed
    if not is_far.any():
        return
    trial = validate.first(is_far)
    where = f" in {validate.trial(trial)}" if trial else ""
    warn(
        f"implausible counts: they sum to {sums[trial]:,.0f}{where}, and {n:,} reports of "
        f"{oracle!r} have a sum of {expected:,.0f} ± {allowed:,.0f}, whatever the frequencies; "
        "usual causes are another epsilon, another n, another protocol, or counts of a part of "
        "the values",
        ImplausibleCountsWarning,
    )


def noise_of(
    n: int | None, oracle: PureProtocol | None, noise: Noise | ArrayLike | None, d: int
) -> Noise | None:
    """Return the noise from whichever arguments give it, or None.

    Raises
    ------
    InvalidInputError
        If two arguments give a noise, or it is not that of d values.
    """
    if noise is None:
        return None if n is None or oracle is None else Noise.of_reports(n, oracle)
    result = _given_noise(n, oracle, noise)
    # One number stands for all values.
    size = max(np.size(result.constant), np.size(result.slope))
    if size not in (1, d):
        raise InvalidInputError(f"the noise is that of {size} values, the estimate has {d}")
    return result


def _given_noise(n: int | None, oracle: PureProtocol | None, noise: Noise | ArrayLike) -> Noise:
    """Return noise given by hand, unless n or the oracle contradicts it."""
    if isinstance(noise, Noise):
        if n is not None and n != noise.n:
            raise InvalidInputError(f"n = {n!r} and the noise's n = {noise.n!r} differ: pass one")
        # The oracle that the noise is of adds nothing, and contradicts nothing.
        if oracle is None or oracle is noise.protocol:
            return noise
    elif oracle is None:
        return Noise(noise, n=n)  # type: ignore[arg-type]
    raise InvalidInputError("oracle and noise both give the noise: pass one of them")


def number_of_reports(n: int | None, noise: Noise | None) -> int | None:
    """Return the number of reports that is given by itself or with the noise, or None."""
    if n is not None:
        return validate.integer("n (the number of reports)", n, minimum=1)
    return None if noise is None else noise.n


def stated_rawness(is_raw: object) -> bool | None:
    """Return what is stated of frequencies; anything but a truth value or None is an error."""
    if is_raw is None:
        return None
    # A text such as "no" would count as true.
    if not isinstance(is_raw, bool | np.bool_):
        raise InvalidTypeError(f"is_raw must be True, False or None, got {is_raw!r}")
    return bool(is_raw)

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
from ldpopt.estimate.rawness import are_surely_processed, are_uncorrected
from ldpopt.estimate.units import LARGE, PERCENT, sum_to_about
from ldpopt.frames import numbers_of
from ldpopt.printable import counted
from ldpopt.protocol import PureProtocol

Array = NDArray[np.float64]

# Counts are implausible where honest reports give such a sum with a probability below 2e⁻³², about
# 2.5e-14: in the limit of many reports, 8 standard errors from the mean.
_LOG_RARE = 32.0

# What shows that numbers are in another unit than shares of 1.
_BEYOND = 1.1  # times the largest raw estimate there is: rounding, and shifts to a sum of 1

# Shares of reports have a sum that estimates, rounded to multiples of 1/n, have with a probability
# below 2e⁻²⁰, about 4e-9. Estimates that are not rounded are told apart exactly.
_LOG_ROUNDED = 20.0


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
    # A column of a table is one vector. Trials of one value, as of a tree of one node, are no
    # shares that sum to 1.
    is_column = values.shape[-1] == 1 and values.size > 1
    if is_column and sum_to_about(1, values.sum()):
        warn(
            f"these frequencies have the shape {values.shape}, {values.size} trials of one value: "
            "if they are one vector, pass values.ravel()"
        )
    # Noise may lift an estimate above 1, but never to exact whole numbers.
    has_whole_numbers = np.asarray(frequencies).dtype.kind in "iu"
    if has_whole_numbers and values.max() > 1:
        warn_of_counts()
    return values


def in_unit_of(total: float, frequencies: ArrayLike) -> Array:
    """Return numbers as floats, unless they are integers far above a total, as counts may be."""
    numbers = validate.array("frequencies", numbers_of(frequencies))
    if numbers.size and numbers.max() >= LARGE * total:
        return numbers
    return numbers.astype(np.float64)


def warn_of_counts() -> None:
    """Warn of frequencies that look like counts: one text, which Python shows once per line."""
    warn(
        "these frequencies are whole numbers above 1: if they are counts of reports, "
        "use oracle.estimate(counts, n)",
        ImplausibleUnitWarning,
    )


def warn_of_scaled(frequencies: Array, n: int, oracle: PureProtocol) -> None:
    """Warn of percent, and of numbers of users, beside noise that is that of shares of 1.

    They are noticed where one of them is above what n counts of n reports give, (1-q)/(p-q), and
    their sum is about that of percent or of users, or all are whole numbers.
    """
    largest = frequencies.max()
    # No raw estimate gets further.
    if largest <= _BEYOND * (1 - oracle.q) / (oracle.p - oracle.q):
        return
    with np.errstate(over="ignore"):
        sums = frequencies.sum(axis=-1)
    if sum_to_about(PERCENT, sums):
        remedy = "if they are percent, divide them by 100"
    elif LARGE <= largest <= n and np.all(
        (frequencies >= 0) & (frequencies == np.rint(frequencies))
    ):
        warn_of_counts()
        return
    elif LARGE <= largest <= n and sum_to_about(n, sums):
        remedy = f"if they are numbers of users, divide them by n = {n:,}"
    else:
        return
    warn(
        f"these frequencies sum to {np.ravel(sums)[0]:.6g}, and the noise of the oracle is that of "
        f"shares of 1: {remedy}",
        ImplausibleUnitWarning,
    )


def checked_protocol(oracle: object) -> PureProtocol:
    """Return a protocol as it is; anything else raises an ``InvalidTypeError``."""
    if not isinstance(oracle, PureProtocol):
        raise InvalidTypeError(
            "oracle must be an oracle or a PureProtocol, such as oracles.OUE(epsilon=1, d=8), got "
            f"{oracle!r}"
        )
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
    """Warn where the sum of all counts is far from that of n reports, whatever the frequencies."""
    expected = n * oracle.mean_size
    allowed = _largest_deviation(n, oracle, _LOG_RARE)
    # Floats: 64 bits may overflow, and the rounding is far below a standard error.
    sums = np.asarray(counts.sum(axis=-1, dtype=np.float64))
    is_far = np.abs(sums - expected) > allowed
    if not is_far.any():
        return
    trial = validate.first(is_far)
    where = f" in {validate.trial(trial)}" if trial else ""
    causes = (
        "usual causes are another epsilon, another n, another protocol, or counts of a part of "
        "the values"
    )
    # One value per report, which reports of this protocol do not have.
    if sums[trial] == n:
        causes = (
            "a sum of n is that of the users' own values, which oracle.simulate_counts(counts, "
            "rng) takes, or of reports of GRR"
        )
    warn(
        f"implausible counts: they sum to {sums[trial]:,.0f}{where}, and {counted(n, 'report')} of "
        f"{oracle!r} have a sum of {expected:,.0f} ± {allowed:,.0f}, whatever the frequencies; "
        f"{causes}",
        ImplausibleCountsWarning,
    )


def _largest_deviation(n: int, oracle: PureProtocol, log_rare: float) -> float:
    """Return how far the sum of the counts of n reports is from its mean, practically always.

    With L = ``log_rare`` it is further away with a probability of at most 2e⁻ᴸ. It is the sum of n
    independent numbers in 0 .. d, which all have the mean m and a variance of at most v, so that
    Bernstein's inequality (Boucheron, Lugosi and Massart 2013, theorem 2.10) bounds its distance
    from n m by sqrt(2 n v L) + L max(m, d-m)/3.
    """
    largest = max(oracle.mean_size, oracle.d - oracle.mean_size)
    spread = math.sqrt(2 * log_rare * n * oracle.largest_size_variance)
    return spread + log_rare * largest / 3


def warn_of_shares(frequencies: Array, n: int, oracle: PureProtocol) -> None:
    """Warn of frequencies that are shares of reports, from which nobody has taken p and q.

    They are noticed where they are whole numbers of n reports, as raw estimates of whole counts are
    not, and have the sum that counts of this protocol have, not that of estimates. Shares of GRR
    sum to 1 as estimates do: they are not noticed.
    """
    # Numbers beyond the largest double are no shares: that needs no warning.
    with np.errstate(over="ignore", invalid="ignore"):
        sums = np.asarray(frequencies.sum(axis=-1))
        # The counts of such estimates would have a sum that is off its mean by n (p-q) (Σf - 1).
        excess = n * (oracle.p - oracle.q) * np.abs(sums - 1)
        shortfall = n * np.abs(sums - oracle.mean_size)
    are_shares = np.asarray(
        (excess > _largest_deviation(n, oracle, _LOG_ROUNDED))
        & (shortfall <= _largest_deviation(n, oracle, _LOG_RARE))
    )
    # Few get here: the looks at each value come last.
    if not are_shares.any():
        return
    are_shares &= are_uncorrected(frequencies, n, oracle)
    if are_shares.any():
        trial = validate.first(are_shares)
        where = f" in {validate.trial(trial)}" if trial else ""
        warn(
            f"implausible frequencies: they sum to {sums[trial]:.6g}{where}, as the shares of "
            f"{counted(n, 'report')} of {oracle!r} that support each value do, and estimates sum "
            "to about 1: use oracle.estimate(counts, n), which takes p and q into account",
            ImplausibleCountsWarning,
        )


def warn_of_processed(frequencies: Array, n: int, oracle: PureProtocol) -> None:
    """Warn of frequencies that are stated to be raw, and that a method has put on the simplex."""
    are_processed = are_surely_processed(frequencies, n, oracle)
    if are_processed.any():
        trial = validate.first(are_processed)
        where = f" in {validate.trial(trial)}" if trial else ""
        zeros = int(np.count_nonzero(frequencies[trial] == 0))
        warn(
            f"implausible frequencies: is_raw=True, and none is negative{where}, "
            f"{counted(zeros, 'value')} exactly 0, with the sum 1, as no counts of "
            f"{counted(n, 'report')} of {oracle!r} give them: if a method was applied, pass "
            "is_raw=False, or raw=... with the estimate before it, which intervals need",
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

"""One step from counts to the likelihood of the reports themselves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.errors import InvalidInputError, InvalidTypeError, warn
from ldpopt.estimate import FrequencyEstimate
from ldpopt.frames import by_label
from ldpopt.oracles.base import FrequencyOracle
from ldpopt.reports.estimate import RefinedEstimate, refined, unchanged
from ldpopt.reports.weighing import Weighing, in_fixed_point

Array = NDArray[np.float64]
Whole = NDArray[np.int64]

WORTH = 1.001
"""The gain from which a second pass is worth its time: one user more in a thousand."""

# By how much the estimate that a start was made from may differ from that of the reports, relative
# to its noise.
_ROUNDING = 1e-9

# By how much the mean weight may exceed what the start makes of it: variances that are stated 5 %
# too small cost intervals of .95 half a per cent of coverage.
_LIGHT = 1.05


def refine(
    oracle: FrequencyOracle,
    reports: ArrayLike,
    start: str | FrequencyEstimate | ArrayLike = "mixture-ns",
    *,
    labels: Sequence[str] | None = None,
) -> RefinedEstimate:
    """Return the estimate that the reports give, which hold more than their counts.

    Counts state how many reports support each value, and not which values were supported together.
    A report that supports many frequent values is likely anyway and says little; the likelihood
    of reports weighs it less. From an estimate that is nearly right, one step of Fisher scoring
    has the precision of the exact likelihood (Le Cam 1956; Steinberger, arXiv 2301.10600, for
    local privacy).

    Parameters
    ----------
    oracle
        The protocol of the reports.
    reports
        What ``oracle.perturb`` returned, or several such arrays concatenated; at least two.
    start
        Where the step begins: the name of a method, which is applied to the counts, or frequencies
        on the simplex, shape (d,), as an array or an estimate from these reports.
    labels
        Names of the values.

    Returns
    -------
    A raw estimate with its noise, to which every method and prior applies; ``gain`` states κ, how
    much more precise rare values are than from counts. It sums to 1. Where reports hold no more
    than their counts (``oracle.information_gain`` below 1.001, as of GRR), a warning states so,
    and the estimate is that of the counts.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a report cannot come from the oracle, there are fewer than two, counts are given in their
        place, or the start is off the simplex or was made from other reports.

    Warns
    -----
    LdpoptWarning
        If the reports hold no more than their counts, or the start contradicts them, as frequencies
        of other users may: the stated noise is then too small.

    Notes
    -----
    Cost: two passes over the reports; the second one takes about as long as
    ``support_counts`` for bits and hashes, and longer for sets. Its memory does not grow with their
    number. Sums are of whole numbers, so that any order of reports gives the same bits.
    Information: of bits and hashes a diagonal plus low rank, exact for all pairs of values; of sets
    of k members the same up to a relative 1/k, with an exact diagonal up to k = 32; of indices
    exact. One report weighs at most 1, where the mean weight is 1/E[s]: a false report moves no
    value by more than E[s] <= r times what it moves counts.

    Examples
    --------
    >>> from ldpopt import datasets, oracles
    >>> data = datasets.load("zipf").scaled(20_000)
    >>> oracle = oracles.OUE(epsilon=3.0, d=data.d)
    >>> reports = oracle.perturb(np.repeat(np.arange(data.d), data.counts), rng=1)
    >>> fine = refine(oracle, reports)
    >>> round(fine.gain, 2), round(float(fine.frequencies.sum()), 9)
    (1.31, 1.0)
    """
    if not isinstance(oracle, FrequencyOracle):
        raise InvalidTypeError(f"oracle must be an oracle from ldpopt.oracles, got {oracle!r}")
    checked = _checked(oracle, reports)
    n = len(checked)
    if n < 2:
        raise InvalidInputError(f"refine needs at least two reports, got {n}")
    counts = oracle.report_form.support_counts(checked)
    raw = oracle.estimate(counts, n, labels=_labels(start, labels))
    # None where reports hold no more than their counts do: then a second pass gains nothing.
    weighing = weighing_of(raw, oracle, start)
    if weighing is None:
        return unchanged(raw)
    sums = weighing.sums(checked)
    warn_of_a_wrong_start(weighing, sums, n)
    return refined(weighing, sums, n, labels=raw.labels, raw=raw)


def weighing_of(
    raw: FrequencyEstimate, oracle: FrequencyOracle, start: str | FrequencyEstimate | ArrayLike
) -> Weighing | None:
    """Return the weighing at a start, or None, with a warning, where no second pass is worth it.

    Parameters
    ----------
    raw
        The estimate from the counts of the reports.
    oracle
        Their protocol.
    start
        As of ``refine``, with its errors.
    """
    shares = in_fixed_point(_start(raw, start))
    weighing = Weighing(oracle, shares)
    gain = oracle.information_gain(weighing.start)
    if gain >= WORTH:
        return weighing
    warn(
        f"these reports hold no more than their counts (gain {gain:.4f}, below {WORTH}): the "
        "estimate is that of the counts, without a second pass"
    )
    return None


def _start(raw: FrequencyEstimate, start: str | FrequencyEstimate | ArrayLike) -> Array:
    """Return the start as frequencies on the simplex."""
    if isinstance(start, str):
        # Workers that count, and refine nothing, need no methods.
        from ldpopt.methods import postprocess

        return _on_simplex(postprocess(raw, start).frequencies, raw.d)
    if isinstance(start, FrequencyEstimate):
        _check_reports(raw, start)
        return _on_simplex(start.frequencies, raw.d)
    return _on_simplex(by_label("start", start, raw.labels), raw.d)


def _on_simplex(frequencies: ArrayLike, d: int) -> Array:
    frequencies = validate.array("the start's frequencies", frequencies)
    if np.ndim(frequencies) > 1:
        raise InvalidInputError(
            f"the start must be one vector of shape ({d},), got shape {np.shape(frequencies)}"
        )
    return validate.distribution("the start's frequencies", frequencies, d)


def warn_of_a_wrong_start(weighing: Weighing, sums: Whole, n: int) -> None:
    """Warn if n reports are far less likely under the start than they are where it is right.

    The step is unbiased from any start, but its variance is stated as that at the start.

    Parameters
    ----------
    weighing, sums, n
        The start, and what ``weighing.sums`` gave for all n reports.
    """
    mean, expected = weighing.mean_weights(sums, n)
    # Weights lie in 0 .. 1, so that none of their standard deviations exceeds ½.
    allowance = 4 * 0.5 / math.sqrt(n)
    # Starts from the reports themselves only err to the other side: they fit what they were fitted
    # to.
    if mean > _LIGHT * expected + allowance:
        warn(
            f"the start contradicts the reports: their mean weight is {mean:.3g}, and would be "
            f"{expected:.3g} if it were right. The estimate is unbiased all the same, but it has "
            "more noise than it states: begin with the name of a method"
        )


def _check_reports(raw: FrequencyEstimate, start: FrequencyEstimate) -> None:
    """Raise an error if a start states that it was made from other reports."""
    origin = start.raw
    # What is not known contradicts nothing, and any start on the simplex will do.
    if origin is None or origin.n is None or origin.oracle is None:
        return
    theirs = (origin.n, origin.oracle.p, origin.oracle.q, origin.d)
    protocol = raw.noise.require_protocol()
    if theirs != (raw.n, protocol.p, protocol.q, raw.d):
        raise InvalidInputError(
            f"the start comes from {origin.n} reports of {origin.oracle!r}, and these are {raw.n} "
            f"of {protocol!r}"
        )
    difference = np.max(np.abs(origin.frequencies - raw.frequencies))
    if difference > _ROUNDING * max(1.0, raw.sigma):
        raise InvalidInputError(
            "the start is not an estimate from these reports: begin with the name of a method, or "
            "process oracle.estimate(oracle.support_counts(reports), n)"
        )


def _labels(
    start: str | FrequencyEstimate | ArrayLike, labels: Sequence[str] | None
) -> Sequence[str] | None:
    if labels is None and isinstance(start, FrequencyEstimate):
        return start.labels
    return labels


def _checked(oracle: FrequencyOracle, reports: Any) -> NDArray[Any]:
    """Return reports after the checks of ``support_counts``; an error tells counts from reports."""
    if isinstance(reports, FrequencyEstimate):
        raise InvalidTypeError(
            "refine needs the reports themselves, and an estimate holds no more than their counts"
        )
    validate.unmasked("reports", reports)
    try:
        array = np.asarray(reports)
        oracle.report_form.check(array)
    except (InvalidInputError, InvalidTypeError) as error:
        raise type(error)(f"{error}{_about_counts(oracle, reports)}") from None
    except ValueError:
        raise InvalidInputError(
            "reports must be one array, as perturb returns it or np.concatenate joins it"
        ) from None
    return array


def _about_counts(oracle: FrequencyOracle, reports: Any) -> str:
    """Return what to say of an array that is no array of reports and may be one of counts."""
    array = np.asarray(reports)
    has_their_shape = array.shape == (oracle.d,) and array.dtype.kind in "iuf"
    if not has_their_shape:
        return ""
    return (
        f"; {oracle.d} numbers look like support counts, and refine needs the reports themselves, "
        "which hold more"
    )

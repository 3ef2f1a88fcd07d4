"""Does a stranger's client keep its ε? Two files of its reports decide, one per value.

The client itself is not at hand: only reports that it made, all of those in one file of one value,
and those in the other file of another one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt import validate
from ldpopt.errors import InvalidInputError
from ldpopt.oracles.base import FrequencyOracle
from ldpopt.studies.audit import Audit, audit

Reports = NDArray[Any]
Table = NDArray[np.float64]

# For each report that is tested a quarter of one is used for training, as ``audit`` does.
_SHARE = 4 / 5
_FEWEST = 125  # so that 100 are left for the test

# Bytes of a report whose bits are looked at one by one: 128 columns, of which 65,536 rows are held
# at a time.
_WIDEST = 16


def audit_reports(
    first: Reports,
    second: Reports,
    epsilon: float,
    *,
    oracle: FrequencyOracle | None = None,
    values: Sequence[int] | None = None,
    confidence: float = 0.999,
    rng: np.random.Generator | int | None = None,
) -> Audit:
    """Bound from below the ε of the client that made two arrays of reports.

    A fifth of the reports is used to find an event that one value makes more likely than the other,
    and the others to bound its two probabilities (``audit``). Which reports these are is drawn
    anew: files may be sorted.

    Parameters
    ----------
    first, second
        Reports of one value each, shape (n, ...) and (m, ...): numbers, records or rows. They must
        be independent, one per user.
    epsilon
        The client's claim, in nats, > 0.
    oracle, values
        The protocol and the two values, if they are known: the test then also looks at which of the
        two a report supports. Without them it looks at the numbers and bits of a report alone, in
        which local hashing shows nothing.
    confidence
        1 - confidence bounds the probability that a client is accused although it satisfies its
        claim, whatever it sends.
    rng
        Generator or seed of the drawing; ``None`` for fresh entropy.

    Returns
    -------
    The bound, as ``audit`` returns it; its pair names the two arrays, 0 and 1, in the order in
    which the event tells them apart. Passing proves nothing: ``smallest_detected`` states which
    excess would have been found.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If an array has fewer than 125 reports, they differ in type or shape, are not reports of the
        oracle, or an argument is out of range.

    Notes
    -----
    Cost: one pass over the smaller number of reports of each array. Memory: a copy of both.

    Examples
    --------
    >>> from ldpopt.oracles import GRR
    >>> honest = GRR(epsilon=1.0, d=4)
    >>> first, second = (honest.perturb([value] * 5_000, rng=value) for value in (0, 1))
    >>> audit_reports(first, second, 1.0, oracle=honest, values=(0, 1), rng=0).passed
    True
    >>> audit_reports(first, second, 0.5, oracle=honest, values=(0, 1), rng=0).passed
    False
    """
    generator = validate.generator(rng)
    features = _features(oracle, values)
    shuffled = []
    for name, reports in (("first", first), ("second", second)):
        array = np.asarray(reports)
        if array.ndim == 0 or len(array) < _FEWEST:
            raise InvalidInputError(
                f"the {name} array must hold at least {_FEWEST} reports, got shape {array.shape}"
            )
        shuffled.append(array[generator.permutation(len(array))])
    if shuffled[0].dtype != shuffled[1].dtype or shuffled[0].shape[1:] != shuffled[1].shape[1:]:
        raise InvalidInputError(
            "both arrays must hold reports of one kind: they have the types "
            f"{shuffled[0].dtype} and {shuffled[1].dtype}, and reports of the shapes "
            f"{shuffled[0].shape[1:]} and {shuffled[1].shape[1:]}"
        )
    used = [0, 0]

    def next_reports(batch: NDArray[np.int64]) -> Reports:
        # All of a batch are of one array; none is handed out twice.
        which = int(batch[0])
        start = used[which]
        used[which] = start + len(batch)
        return shuffled[which][start : start + len(batch)]

    number = int(min(map(len, shuffled)) * _SHARE)
    return audit(
        next_reports,
        epsilon,
        [0, 1],
        reports=number,
        confidence=confidence,
        batched=True,
        features=features,
    )


def smallest_detected(outcome: Audit, power: float = 0.95) -> float:
    """Return about the smallest ε for which a client fails such a test with probability ``power``.

    It is meant for a client whose second value makes the event of the test as frequent as it was,
    and whose first one makes it e^ε times as frequent. A leak that shows in another event alone may
    be larger and stay unnoticed.

    Parameters
    ----------
    outcome
        Of ``audit`` or ``audit_reports``.
    power
        Probability in (0, 1).

    Examples
    --------
    >>> smallest_detected(Audit(1.0, 0.98, 0.999, (0, 1), (268_000, 100_000), 1_000_000))
    1.0208...
    """
    from scipy.special import ndtri  # slow to import, and few audits ask for it

    power = validate.real("power", power, above=0, below=1)
    n = outcome.reports
    # Without a hit the probability is not 0: one more report might have been one.
    rate = max(outcome.hits[1], 1) / n
    claim = outcome.epsilon
    other_rate = min(rate * math.exp(claim), 1 - 1 / n)
    # Standard deviations of the logarithms of both observed rates, to first order.
    spreads = [math.sqrt((1 - share) / (n * share)) for share in (other_rate, rate)]
    # Each of the two bounds lies so many of them away.
    z = -float(ndtri((1 - outcome.confidence) / 2))
    # Chance takes more than this from the ratio of both rates with probability 1 - power.
    of_ratio = float(ndtri(power)) * math.hypot(*spreads)
    return claim + z * sum(spreads) + of_ratio


def _features(
    oracle: FrequencyOracle | None, values: Sequence[int] | None
) -> Callable[[Reports], Table]:
    """Return what the test looks at: which values reports support, their numbers, and bits."""
    if (oracle is None) != (values is None):
        raise InvalidInputError("oracle and values belong together: give both or neither")
    # Without the protocol only the bits themselves can be looked at.
    if oracle is None or values is None:
        return _raw
    pair = [validate.integer("a value", value, minimum=0) for value in values]
    if len(set(pair)) != 2 or max(pair) >= oracle.d:
        raise InvalidInputError(f"values must be two distinct values below {oracle.d}, got {pair}")

    def both(reports: Reports) -> Table:
        operator = oracle.support_operator(reports)
        columns = [operator.matvec(np.eye(1, oracle.d, value)[0]) for value in pair]
        return np.column_stack([*columns, _raw(reports)])

    return both


def _raw(reports: Reports) -> Table:
    """Return the numbers of each report, and its bits; of wide reports its bytes."""
    array = np.ascontiguousarray(reports)
    names = array.dtype.names
    numbers = [array] if names is None else [array[name] for name in names]
    columns = []
    for values in numbers:
        table = np.ascontiguousarray(values).reshape(len(values), -1)
        columns.append(table.astype(np.float64))
        # A float holds 53 bits of a seed, and any of the others may be the one that leaks.
        content = table.view(np.uint8)
        if content.shape[1] <= _WIDEST:
            columns.append(np.unpackbits(content, axis=1).astype(np.float64))
        elif table.dtype.itemsize > 1:
            columns.append(content.astype(np.float64))
    return np.concatenate(columns, axis=1)

"""Is a client as private as it says? Exactly from an oracle's own probabilities, and statistically from reports of any client.

A statistical audit never proves privacy. It finds an event that one input makes more likely than another and bounds the ratio
of its two probabilities from below; a bound above e^ε disproves the claim.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from ldpopt import validate
from ldpopt.errors import InvalidInputError, InvalidTypeError
from ldpopt.oracles.base import FrequencyOracle
from ldpopt.oracles.rational import log_above

Client = Callable[[Any], Any]
Array = NDArray[np.float64]

_AT_A_TIME = 1 << 16  # reports held at a time
_TRAINING = 4  # a training set is this many times smaller than the test's
_CATEGORIES = 1 << 10  # a column with more different numbers is cut at quantiles
_THRESHOLDS = 200  # events tried per pair of values
_NOISE = 3.0  # log-ratios below so many standard deviations are taken for 0
_BATCHES = 32  # values whose reports are compared with an oracle's p and q


def proportion_below(hits: int | NDArray[Any], n: int, alpha: float) -> Any:
    """Return the lower Clopper–Pearson bound of a probability: it is above the true one in at most alpha of all samples.

    Examples
    --------
    >>> round(float(proportion_below(5, 10, 0.025)), 4)  # Clopper and Pearson 1934
    0.1871
    """
    return np.where(
        np.asarray(hits) > 0, betaincinv(np.maximum(hits, 1e-300), n - hits + 1, alpha), 0.0
    )


def proportion_above(hits: int | NDArray[Any], n: int, alpha: float) -> Any:
    """Return the upper Clopper–Pearson bound of a probability."""
    return 1 - proportion_below(n - hits, n, alpha)


@dataclass(frozen=True)
class Audit:
    """What reports alone say about a client's privacy.

    Attributes
    ----------
    epsilon
        The claim.
    lower
        The client's ε is at least this, at the confidence: log of the lower bound of P(event | pair[0]) over the upper bound
        of P(event | pair[1]), 0 if that is negative.
    confidence
        The share of audits of clients that keep their claim which pass, at least.
    pair
        The two values that reports were told apart by.
    hits
        How many reports of each of the two were in the event.
    reports
        How many reports of each were tested. The event was chosen on others.
    """

    epsilon: float
    lower: float
    confidence: float
    pair: tuple[Any, Any]
    hits: tuple[int, int]
    reports: int

    @property
    def passed(self) -> bool:
        """Whether no violation was found: the bound is not above the claim."""
        return self.lower <= self.epsilon


def audit(
    client: Client,
    epsilon: float,
    values: Sequence[Any],
    *,
    reports: int = 100_000,
    confidence: float = 0.999,
    batched: bool = False,
    features: Callable[[Any], Any] | None = None,
) -> Audit:
    """Bound the ε of a black-box client from below.

    A quarter as many reports of every value train: each column of a report gives a log-likelihood ratio for each pair of
    values, and their sum over a threshold is the event. The pair and threshold with the largest bound are then tested on fresh
    reports, so that the bound holds however badly they were chosen.

    Parameters
    ----------
    client
        Takes one of ``values`` and returns its report: a number, text, any other hashable, or an array (of one shape, or a
        record), whose entries are the columns. With ``batched`` it takes an array of values, shape (n,), and returns n reports.
    epsilon
        The client's claim, in nats, > 0.
    values
        At least two inputs among which to look for a pair. Neighbours are a good choice: off-by-one errors show there.
    reports
        Reports of each value of the pair that are tested. To find an excess of x over ε about 400/x² are needed where the
        event is not rare: 4·10⁶ for 0.01.
    confidence
        1 - confidence bounds the probability that a client is accused that keeps its claim.
    features
        What to look at in a batch of reports: returns one row a report, where the report as it is would say nothing by its
        columns (a seed, a ciphertext, a set).

    Returns
    -------
    The bound and its event. The client's randomness is its own: two audits differ, unless the client is seeded.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If an argument is out of range, the client returns another number of reports than asked, or a report is neither
        hashable nor an array.

    Notes
    -----
    Cost: (2 + m/4) x ``reports`` calls of the client for m values, or as many reports of a batched one. Source: Ding et al. 2018
    (learn an event, test it on fresh samples); Clopper and Pearson 1934.

    Examples
    --------
    >>> import secrets
    >>> coin = lambda value: value if secrets.randbelow(4) else 1 - value  # keeps its bit in 3 of 4 cases: ε = log 3
    >>> audit(coin, math.log(3), [0, 1], reports=4_000).passed, audit(coin, 0.5, [0, 1], reports=4_000).passed
    (True, False)
    """
    if not callable(client):
        raise InvalidTypeError(f"client must be callable, value -> report, got {client!r}")
    epsilon = validate.real("epsilon", epsilon, above=0)
    alpha = 1 - validate.real("confidence", confidence, above=0, below=1)
    size = validate.integer("reports", reports, minimum=100)
    inputs = list(values)
    if len(inputs) < 2:
        raise InvalidInputError(
            f"values must hold at least two inputs to tell apart, got {len(inputs)}"
        )
    source = _Source(client, batched, features)
    training = size // _TRAINING
    first, second = ([source.table(value, training // 2) for value in inputs] for _ in range(2))
    edges = _edges(np.concatenate(first))
    pair, weights, threshold = _best_event(
        [_codes(x, edges) for x in first], [_codes(x, edges) for x in second], alpha
    )
    telling = [column for column, weight in enumerate(weights) if weight.any()]
    edges, weights = [edges[column] for column in telling], [weights[column] for column in telling]
    hits = [
        sum(
            int(np.count_nonzero(_score(_codes(part[:, telling], edges), weights) >= threshold))
            for part in source.tables(inputs[i], size)
        )
        for i in pair
    ]
    lower = float(_bound(np.array([hits[0]]), np.array([hits[1]]), size, alpha)[0])
    return Audit(
        epsilon, lower, 1 - alpha, (inputs[pair[0]], inputs[pair[1]]), (hits[0], hits[1]), size
    )


def _bound(hits: NDArray[Any], other_hits: NDArray[Any], n: int, alpha: float) -> Array:
    """Return the lower bound of ε from how often an event happened under two values, n reports each."""
    with np.errstate(divide="ignore"):
        ratio = np.log(proportion_below(hits, n, alpha / 2)) - np.log(
            proportion_above(other_hits, n, alpha / 2)
        )
    return np.asarray(np.maximum(ratio, 0.0))


class _Source:
    """Reports of a client as rows of numbers."""

    def __init__(
        self, client: Client, batched: bool, features: Callable[[Any], Any] | None
    ) -> None:
        self.client, self.batched, self.features = client, batched, features
        self._numbers: dict[Hashable, int] = {}  # of hashables, the same in all batches

    def tables(self, value: Any, n: int) -> Iterator[Array]:
        """Yield n reports of a value, some at a time; an error if the client returns another number of them."""
        for start in range(0, n, _AT_A_TIME):
            count = min(_AT_A_TIME, n - start)
            found = (
                self.client(np.full(count, value))
                if self.batched
                else [self.client(value) for _ in range(count)]
            )
            table = self._rows(found if self.features is None else self.features(found))
            if len(table) != count:
                raise InvalidInputError(
                    f"the client was asked for {count} reports and returned {len(table)}"
                )
            yield table

    def table(self, value: Any, n: int) -> Array:
        """Return n reports of a value at once."""
        return np.concatenate(list(self.tables(value, n)))

    def _rows(self, reports: Any) -> Array:
        try:
            found = np.asarray(reports)
        except ValueError:  # of different lengths
            found = np.empty(0, dtype=object)
        if found.dtype.names is not None:
            return np.stack([found[name].astype(np.float64) for name in found.dtype.names], axis=1)
        if found.dtype.kind in "biuf":
            if not found.size:
                raise InvalidInputError("a report of the client holds nothing")
            return found.reshape(len(found), -1).astype(np.float64)
        known = self._numbers
        try:
            return np.array(
                [[known.setdefault(report, len(known))] for report in reports], dtype=np.float64
            )
        except TypeError as error:
            raise InvalidTypeError(
                f"reports must be arrays of one shape or hashable: {error}"
            ) from None


def _edges(table: Array) -> list[Array]:
    """Return for every column the numbers that start a category: each different one, or quantiles of many."""
    found = []
    for column in table.T:
        different = np.unique(column)
        if len(different) > _CATEGORIES:
            different = np.unique(np.quantile(column, np.linspace(0, 1, 65)[1:-1]))
        found.append(different)
    return found


def _codes(table: Array, edges: list[Array]) -> NDArray[np.int64]:
    """Return the category of every entry, 0 for what lies below all of them."""
    codes = np.empty(table.shape, dtype=np.int64)
    for column, (starts, entries) in enumerate(zip(edges, table.T, strict=True)):
        codes[:, column] = np.searchsorted(starts, entries, side="right")
    return codes


def _best_event(
    first: list[NDArray[np.int64]], second: list[NDArray[np.int64]], alpha: float
) -> tuple[tuple[int, int], list[Array], float]:
    """Return the pair with the largest bound, with its event: log-ratios from one half, their threshold from the other.

    The bound is that of so few reports, not of the test's: it prefers events that are not rare, whose ratio is no accident.
    """
    columns = range(first[0].shape[1])
    categories = [1 + max(int(x[:, c].max()) for x in (*first, *second)) for c in columns]
    counts = [[np.bincount(x[:, c], minlength=categories[c]) + 0.5 for c in columns] for x in first]
    best = -math.inf
    chosen: tuple[tuple[int, int], list[Array], float] = ((0, 1), [], 0.0)
    for i, j in ((i, j) for i in range(len(first)) for j in range(len(first)) if i != j):
        weights = [_log_ratio(counts[i][c], counts[j][c]) for c in columns]
        mine, others = (np.sort(_score(x, weights)) for x in (second[i], second[j]))
        # Between scores, so that equal sums of other roundings stay on the same side.
        tried = np.unique(np.quantile(mine, np.linspace(0, 1, _THRESHOLDS), method="lower")) - 1e-9
        in_event, others_in = (len(x) - np.searchsorted(x, tried) for x in (mine, others))
        bounds = _bound(in_event, others_in, len(mine), alpha)
        at = int(np.argmax(bounds))
        if bounds[at] > best:
            best, chosen = bounds[at], ((i, j), weights, float(tried[at]))
    return chosen


def _log_ratio(mine: NDArray[Any], others: NDArray[Any]) -> Array:
    """Return the log-ratio of two histograms, 0 where it may be noise: many such columns would drown one that speaks."""
    ratio = np.log(mine) - np.log(others)
    return np.where(np.abs(ratio) > _NOISE * np.sqrt(1 / mine + 1 / others), ratio, 0.0)


def _score(codes: NDArray[np.int64], weights: list[Array]) -> Array:
    total = np.zeros(len(codes))
    for column, weight in zip(codes.T, weights, strict=True):
        total += weight[np.minimum(column, len(weight) - 1)]
    return total


@dataclass(frozen=True)
class ReportClass:
    """All reports that say the same about two values v and u: they have the same ratio of probabilities under the two.

    Attributes
    ----------
    supports
        Which of the values they support: ``"both"``, ``"v"``, ``"u"`` or ``"neither"``.
    given_v, given_u
        Probability of such a report under each value.
    """

    supports: str
    given_v: Fraction
    given_u: Fraction


def report_classes(oracle: FrequencyOracle) -> tuple[ReportClass, ...]:
    """Return all reports of an oracle by what they say about any two values, without classes that never occur.

    Examples
    --------
    >>> from ldpopt.oracles import OUE
    >>> [(found.supports, round(float(found.given_v / found.given_u), 3)) for found in report_classes(OUE(1.0, 64))]
    [('both', 1.0), ('v', 2.718), ('u', 0.368), ('neither', 1.0)]
    """
    both, own, other = (
        oracle.exact_both,
        oracle.exact_p - oracle.exact_both,
        oracle.exact_q - oracle.exact_both,
    )
    table = (
        ReportClass("both", both, both),
        ReportClass("v", own, other),
        ReportClass("u", other, own),
        ReportClass("neither", 1 - both - own - other, 1 - both - own - other),
    )
    return tuple(found for found in table if found.given_v or found.given_u)


@dataclass(frozen=True)
class Share:
    """A probability by an oracle's definition, and the Clopper–Pearson interval of how often it happened."""

    expected: float
    low: float
    high: float

    @property
    def passed(self) -> bool:
        """Whether the interval holds the probability."""
        return self.low <= self.expected <= self.high


@dataclass(frozen=True)
class OracleAudit:
    """What an oracle's probabilities and its client's reports say about its privacy.

    Attributes
    ----------
    oracle
        What was audited.
    classes
        Every kind of report with its exact probabilities.
    loss
        log of the largest ratio of probabilities of a report: exact, rounded up.
    reports
        What the client's reports prove about its ε, whatever its probabilities should be.
    own, other
        How often reports support the own value and another one, beside p and q.
    confidence
        The share of audits of correct clients that pass, at least: reports, own and other may each err in a third of the rest.
    """

    oracle: FrequencyOracle
    classes: tuple[ReportClass, ...]
    loss: float
    reports: Audit
    own: Share
    other: Share
    confidence: float

    @property
    def passed(self) -> bool:
        """Whether the exact loss is not above ε, and the reports disprove neither that nor p and q."""
        return (
            self.loss <= self.oracle.epsilon
            and self.reports.passed
            and self.own.passed
            and self.other.passed
        )

    @property
    def findings(self) -> tuple[str, ...]:
        """What failed, a sentence each; empty if the audit passed."""
        said = f"ε = {self.oracle.epsilon:g}"
        found = []
        if self.loss > self.oracle.epsilon:
            found.append(f"the probabilities lose {self.loss!r}, more than {said}")
        if not self.reports.passed:
            found.append(
                f"reports of {self.reports.pair[0]} and {self.reports.pair[1]} prove ε >= {self.reports.lower:.4f}, "
                f"more than {said}"
            )
        for share, what in ((self.own, "the own value"), (self.other, "another value")):
            if not share.passed:
                found.append(
                    f"reports support {what} with probability {share.low:.5f} .. {share.high:.5f}, "
                    f"not {share.expected:.5f}"
                )
        return tuple(found)

    def to_dict(self) -> dict[str, Any]:
        """Return the audit in the types of JSON; exact probabilities as text of a fraction."""
        return {
            "oracle": type(self.oracle).__name__,
            "epsilon": self.oracle.epsilon,
            "d": self.oracle.d,
            "passed": self.passed,
            "findings": list(self.findings),
            "exact_epsilon": self.loss if math.isfinite(self.loss) else str(self.loss),
            "classes": [
                {
                    "supports": found.supports,
                    "given_v": str(found.given_v),
                    "given_u": str(found.given_u),
                }
                for found in self.classes
            ],
            "reports": asdict(self.reports),
            "own": asdict(self.own),
            "other": asdict(self.other),
            "confidence": self.confidence,
        }


def audit_oracle(
    oracle: FrequencyOracle,
    *,
    client: Client | None = None,
    reports: int = 1_000_000,
    confidence: float = 0.999,
) -> OracleAudit:
    """Audit an oracle: its probabilities exactly, its client by reports.

    Exactly: the classes of reports by what they say about two values are few, and within one all reports have the same ratio.
    By reports: ``audit`` on what they say about four values; and how often the own value and another one are supported, over
    32 random pairs of values, against p and q. So a client that adds more noise than it should is found too.

    Parameters
    ----------
    oracle
        From ``ldpopt.oracles``.
    client
        Takes values of shape (n,) and returns reports of this oracle: your implementation. Default ``oracle.perturb``.
    reports
        Of each of two values for the bound, and twice as many for p and q. A million finds a q that is off by 1 % at ε = 1.
    confidence
        1 - confidence bounds the probability that a correct client fails.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If it is no oracle, an argument is out of range, or the client returns no reports of this oracle.

    Notes
    -----
    Cost: 5 x ``reports`` reports and their support counts; memory that of 65,536 reports and of 24 bytes a training report.

    Examples
    --------
    >>> from ldpopt.oracles import GRR
    >>> found = audit_oracle(GRR(epsilon=1.0, d=8), reports=10_000)
    >>> found.passed, found.loss, len(found.classes)
    (True, 1.0, 3)
    """
    if not isinstance(oracle, FrequencyOracle):
        raise InvalidTypeError(f"oracle must be an oracle from ldpopt.oracles, got {oracle!r}")
    if client is not None and not callable(client):
        raise InvalidTypeError(f"client must be callable, values -> reports, got {client!r}")
    send: Client = oracle.perturb if client is None else client
    third = (1 - validate.real("confidence", confidence, above=0, below=1)) / 3
    size = validate.integer("reports", reports, minimum=100)
    values = sorted({0, 1, oracle.d // 2, oracle.d - 1})

    def supported(found: Any) -> NDArray[np.bool_]:
        operator = oracle.support_operator(found)
        columns = [operator.matvec(np.eye(1, oracle.d, value)[0]) for value in values]
        return np.asarray(np.stack(columns, axis=1) > 0.5)

    bound = audit(
        send, oracle.epsilon, values, reports=size, confidence=1 - third, batched=True, features=supported
    )  # fmt: skip
    classes = report_classes(oracle)
    own, other = _shares(oracle, send, 2 * size, third)
    return OracleAudit(oracle, classes, _loss(classes), bound, own, other, confidence)


def _loss(classes: tuple[ReportClass, ...]) -> float:
    """Return the largest log-ratio of the classes, rounded up; infinite where one value alone makes a report possible."""
    if any(not (found.given_v > 0 and found.given_u > 0) for found in classes):
        return math.inf
    return log_above(max(found.given_v / found.given_u for found in classes))


def _shares(
    oracle: FrequencyOracle, client: Client, size: int, alpha: float
) -> tuple[Share, Share]:
    """Return how often reports support the own value and one other, drawn anew for every batch: two exact binomials."""
    rng = np.random.default_rng(0)  # which values are compared is no secret, and need not be random
    own, other, total = 0, 0, 0
    for value in rng.integers(0, oracle.d, _BATCHES):
        another = (value + rng.integers(1, oracle.d)) % oracle.d
        counts = np.zeros(oracle.d, dtype=np.int64)
        for start in range(0, size // _BATCHES + 1, _AT_A_TIME):
            batch = min(_AT_A_TIME, size // _BATCHES + 1 - start)
            counts += oracle.support_counts(client(np.full(batch, value)))
        own, other, total = (
            own + int(counts[value]),
            other + int(counts[another]),
            total + size // _BATCHES + 1,
        )
    return tuple(  # type: ignore[return-value]  # two
        Share(
            expected,
            float(proportion_below(hits, total, alpha / 2)),
            float(proportion_above(hits, total, alpha / 2)),
        )
        for hits, expected in ((own, oracle.p), (other, oracle.q))
    )

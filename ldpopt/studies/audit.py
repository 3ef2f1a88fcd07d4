"""Is a client as private as it claims? Exact for probabilities, statistical for reports.

A statistical audit never proves privacy. It looks for an event that one input makes more likely
than another, and bounds the ratio of the two probabilities from below; a bound above e^ε disproves
the claim.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt import progress, validate
from ldpopt.errors import InvalidInputError, InvalidTypeError
from ldpopt.estimate.intervals import clopper_pearson
from ldpopt.oracles.base import FrequencyOracle
from ldpopt.oracles.rational import log_above

Client = Callable[[Any], Any]
Array = NDArray[np.float64]
Codes = NDArray[np.int64]

# Reports held at a time: bounds the memory whatever the number of reports is.
_AT_A_TIME = 1 << 16

# The training set of each value is this many times smaller than the test set: finding an event
# takes fewer reports than measuring it.
_TRAINING = 4

# A column with more different numbers counts as continuous, and is cut at its 63 inner quantiles.
_CATEGORIES = 1 << 10

FEWEST_REPORTS = 100
"""Of each value: half of them choose an event, and the others bound its probabilities."""

# Candidate events per pair of values; between two of them lies half a per cent of the reports.
_THRESHOLDS = 200

# Log-ratios below so many standard deviations are taken for 0.
_NOISE = 3.0

# Pairs of values whose support is compared with an oracle's p and q.
_BATCHES = 32


@dataclass(frozen=True)
class Audit:
    """What reports alone reveal about a client's privacy.

    Attributes
    ----------
    epsilon
        The claim.
    lower
        The client's ε is at least this, at the given confidence: log of the lower bound of
        P(event | pair[0]) over the upper bound of P(event | pair[1]), or 0 if that is negative.
    confidence
        A client that satisfies its claim passes with at least this probability.
    pair
        The two values whose reports were told apart.
    hits
        How many reports of each of the two were in the event.
    reports
        How many reports of each were tested. The event was chosen on other reports.
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


@dataclass(frozen=True)
class _Event:
    """A set of reports: those whose scores reach a threshold. A score is a sum over some columns.

    Attributes
    ----------
    pair
        Positions of the two values that the event is to tell apart.
    weights
        For each column the log-likelihood ratio of each category.
    threshold
        Scores from here on are in the event.
    """

    pair: tuple[int, int]
    weights: list[Array]
    threshold: float

    def hits(self, codes: Codes) -> int:
        """Return how many reports, given by their categories, are in the event."""
        return int(np.count_nonzero(_scores(codes, self.weights) >= self.threshold))


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

    A quarter as many reports of every value are used for training: each column of a report gives a
    log-likelihood ratio for each pair of values, and the event is that their sum exceeds a
    threshold. The pair and threshold with the largest bound are then tested on fresh reports, so
    that the bound holds however badly they were chosen.

    Parameters
    ----------
    client
        Takes one of ``values`` and returns its report: a number, text, any other hashable, or an
        array (of one shape, or a record), whose entries are the columns. With ``batched`` it takes
        an array of values, shape (n,), and returns n reports.
    epsilon
        The client's claim, in nats, > 0.
    values
        At least two inputs among which to look for a pair. Neighbours are a good choice, because
        off-by-one errors show there.
    reports
        Reports of each value of the pair that are tested. To find an excess of x over ε about
        400/x² are needed where the event is not rare: 4·10⁶ for 0.01.
    confidence
        1 - confidence bounds the probability that a client is accused although it satisfies its
        claim.
    features
        What to look at in a batch of reports: returns one row per report. Needed where the columns
        of a report as it is say nothing (a seed, a ciphertext, a set).

    Returns
    -------
    The bound and its event. The client's randomness is not controlled: two audits differ, unless
    the client is seeded.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If an argument is out of range, the client returns a wrong number of reports, or a report is
        neither hashable nor an array.

    Notes
    -----
    Cost: (2 + m/4) x ``reports`` calls of the client for m values, or as many reports of a batched
    one. Source: Ding et al. 2018 (learn an event, test it on fresh samples); Clopper and Pearson
    1934.

    Examples
    --------
    >>> import secrets
    >>> def coin(value):  # keeps its bit in 3 of 4 cases: ε = log 3
    ...     return value if secrets.randbelow(4) else 1 - value
    >>> audit(coin, math.log(3), [0, 1], reports=4_000, confidence=0.999_999).passed
    True
    >>> audit(coin, 0.5, [0, 1], reports=4_000, confidence=0.999_999).passed
    False
    """
    if not callable(client):
        raise InvalidTypeError(f"client must be callable, value -> report, got {client!r}")
    epsilon = validate.real("epsilon", epsilon, above=0)
    confidence = validate.confidence("confidence", confidence)
    size = validate.integer("reports", reports, minimum=FEWEST_REPORTS)
    inputs = list(values)
    if len(inputs) < 2:
        raise InvalidInputError(
            f"values must hold at least two inputs to tell apart, got {len(inputs)}"
        )
    training = size // _TRAINING
    total = 2 * size + 2 * len(inputs) * (training // 2)
    with progress.bar(f"{total:,} reports", total) as advance:
        source = _Source(client, batched, features, advance)
        edges, event = _trained(source, inputs, training, confidence)
        first, second = (inputs[i] for i in event.pair)
        # On fresh reports: those that chose the event would favour it.
        hits, other_hits = _tested(source, event, edges, (first, second), size)
    lower = _bound(np.array([hits]), np.array([other_hits]), size, confidence)
    return Audit(
        epsilon=epsilon,
        lower=lower.item(),
        confidence=confidence,
        pair=(first, second),
        hits=(hits, other_hits),
        reports=size,
    )


def _tested(
    source: _Source, event: _Event, edges: list[Array], pair: tuple[Any, Any], size: int
) -> Iterator[int]:
    """Yield how many of so many fresh reports of each value of the pair are in the event."""
    # Columns without weight add nothing to a score: they need not be coded in the large test.
    columns = [column for column, weight in enumerate(event.weights) if weight.any()]
    edges = [edges[column] for column in columns]
    weights = [event.weights[column] for column in columns]
    smaller = _Event(event.pair, weights, event.threshold)
    for value in pair:
        hits = 0
        # Table by table: so many reports at once would fill the memory.
        for rows in source.tables(value, size):
            codes = _codes(rows[:, columns], edges)
            hits += smaller.hits(codes)
        yield hits


def _bound(hits: Codes, other_hits: Codes, n: int, confidence: float) -> Array:
    """Return the lower bound of ε from how often events happened under two values, n reports each.

    Each of the two one-sided bounds errs with probability (1 - confidence)/2, so that both hold
    with ``confidence``.
    """
    trials = np.array([n], dtype=np.float64)
    lower, _ = clopper_pearson(hits.astype(np.float64), trials, confidence)
    _, upper = clopper_pearson(other_hits.astype(np.float64), trials, confidence)
    with np.errstate(divide="ignore"):  # without hits the bound is log 0, and 0 is the better one
        ratio = np.log(lower) - np.log(upper)
    return np.asarray(np.maximum(ratio, 0.0))


class _Source:
    """Reports of a client as rows of numbers."""

    def __init__(
        self,
        client: Client,
        batched: bool,
        features: Callable[[Any], Any] | None,
        advance: progress.Advance,
    ) -> None:
        self.client = client
        self.advance = advance
        self.batched = batched
        self.features = features
        self._numbers: dict[Hashable, int] = {}  # of hashables, the same in all batches

    def tables(self, value: Any, n: int) -> Iterator[Array]:
        """Yield n reports of a value, some at a time.

        Raises InvalidInputError if the client returns a wrong number of them.
        """
        for start in range(0, n, _AT_A_TIME):
            count = min(_AT_A_TIME, n - start)
            table = self._rows(self._reports(value, count))
            if len(table) != count:
                raise InvalidInputError(
                    f"the client had to return {count} reports and returned {len(table)}"
                )
            self.advance(count)
            yield table

    def table(self, value: Any, n: int) -> Array:
        """Return n reports of a value at once."""
        return np.concatenate(list(self.tables(value, n)))

    def _reports(self, value: Any, n: int) -> Any:
        """Return n reports of a value, or their features."""
        if self.batched:
            reports = self.client(np.full(n, value))
        else:
            reports = [self.client(value) for _ in range(n)]
        return reports if self.features is None else self.features(reports)

    def _rows(self, reports: Any) -> Array:
        validate.unmasked("reports", reports)
        try:
            array = np.asarray(reports)
        except ValueError:  # reports of different lengths, which may still be hashable
            array = np.empty(0, dtype=object)
        # The fields of a record are its columns.
        if array.dtype.names is not None:
            fields = [array[name].astype(np.float64) for name in array.dtype.names]
            return np.stack(fields, axis=1)
        if array.dtype.kind in "biuf":
            if not array.size:
                raise InvalidInputError("a report of the client holds nothing")
            return array.reshape(len(array), -1).astype(np.float64)
        return self._numbered(reports)

    def _numbered(self, reports: Any) -> Array:
        """Return hashables as numbers, one column, in the order in which they were first seen."""
        numbers = self._numbers
        try:
            rows = [[numbers.setdefault(report, len(numbers))] for report in reports]
        except TypeError as error:
            raise InvalidTypeError(
                f"reports must be arrays of one shape or hashable: {error}"
            ) from None
        return np.array(rows, dtype=np.float64)


def _trained(
    source: _Source, inputs: list[Any], size: int, confidence: float
) -> tuple[list[Array], _Event]:
    """Return how columns are cut into categories, and the event to test."""
    half = size // 2
    first = [source.table(value, half) for value in inputs]
    second = [source.table(value, half) for value in inputs]
    # From the first half alone: for the second one, which chooses the threshold, all is settled.
    edges = _edges(np.concatenate(first))
    first_codes = [_codes(table, edges) for table in first]
    second_codes = [_codes(table, edges) for table in second]
    return edges, _best_event(first_codes, second_codes, confidence)


def _edges(table: Array) -> list[Array]:
    """Return the numbers that start a category, for every column: all that occur, or quantiles."""
    edges = []
    for column in table.T:
        starts = np.unique(column)
        # Too many categories would each hold too few reports to learn from.
        if len(starts) > _CATEGORIES:
            # Unique again: a number that is frequent fills several quantiles.
            starts = np.unique(np.quantile(column, np.linspace(0, 1, 65)[1:-1]))
        edges.append(starts)
    return edges


def _codes(table: Array, edges: list[Array]) -> Codes:
    """Return the category of every entry, 0 for entries below all categories."""
    codes = np.empty(table.shape, dtype=np.int64)
    for column, (starts, entries) in enumerate(zip(edges, table.T, strict=True)):
        # The right side: an entry that equals the start of a category is in it.
        codes[:, column] = np.searchsorted(starts, entries, side="right")
    return codes


def _best_event(first: list[Codes], second: list[Codes], confidence: float) -> _Event:
    """Return the event with the largest bound: weights from one half, the threshold from the other.

    The bound is that of the few training reports, not of the test's. It prefers events that are not
    rare, whose ratio is no accident.
    """
    histograms = _histograms(first, second)
    best = -math.inf
    event = _Event((0, 1), [], 0.0)
    # Both orders: a ratio may be large in one direction alone.
    for i, j in itertools.permutations(range(len(first)), 2):
        weights = list(map(_log_ratio, histograms[i], histograms[j]))
        scores = np.sort(_scores(second[i], weights))
        other_scores = np.sort(_scores(second[j], weights))
        thresholds = _thresholds(scores)
        n = len(scores)
        # Sorted scores: as many are at or above a threshold as are behind its place.
        hits = n - np.searchsorted(scores, thresholds)
        other_hits = n - np.searchsorted(other_scores, thresholds)
        bounds = _bound(hits, other_hits, n, confidence)
        at = int(np.argmax(bounds))
        # Strictly: of equal bounds the first pair stays, whatever the machine.
        if bounds[at] > best:
            best = bounds[at]
            event = _Event((i, j), weights, float(thresholds[at]))
    return event


def _thresholds(scores: Array) -> Array:
    """Return thresholds that divide scores evenly."""
    shares = np.linspace(0, 1, _THRESHOLDS)
    quantiles = np.quantile(scores, shares, method="lower")
    # Between scores: sums that differ by rounding alone stay on the same side.
    return np.unique(quantiles) - 1e-9


def _histograms(first: list[Codes], second: list[Codes]) -> list[list[Array]]:
    """Return how often each category occurs, for each value and column of ``first``, plus a half.

    The half keeps logarithms finite where a category is missing (the prior of Jeffreys).
    """
    # Of both halves together, so that all histograms of a column have the same categories.
    highest = np.max([codes.max(axis=0) for codes in (*first, *second)], axis=0)
    sizes = 1 + highest
    histograms = []
    for codes in first:
        counts = [
            np.bincount(column, minlength=size) for column, size in zip(codes.T, sizes, strict=True)
        ]
        histograms.append([of_column.astype(np.float64) + 0.5 for of_column in counts])
    return histograms


def _log_ratio(counts: Array, other_counts: Array) -> Array:
    """Return the log-ratio of two histograms, 0 where it may be noise.

    The noise of many columns would otherwise drown one that differs.
    """
    ratio = np.log(counts) - np.log(other_counts)
    # The standard deviation of a log-ratio of two Poisson counts, to first order.
    noise = np.sqrt(1 / counts + 1 / other_counts)
    return np.where(np.abs(ratio) > _NOISE * noise, ratio, 0.0)


def _scores(codes: Codes, weights: list[Array]) -> Array:
    total = np.zeros(len(codes))
    for column, weight in zip(codes.T, weights, strict=True):
        # A category beyond those of the training reports counts as the last of them.
        total += weight[np.minimum(column, len(weight) - 1)]
    return total


# --- oracles --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReportClass:
    """All reports that agree on which of two values v and u they support.

    They have the same ratio of probabilities under the two values.

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
    """Return the classes of an oracle's reports for any two values, without those that never occur.

    Examples
    --------
    >>> from ldpopt.oracles import OUE
    >>> for kind in report_classes(OUE(1.0, 64)):
    ...     print(kind.supports, round(float(kind.given_v / kind.given_u), 3))
    both 1.0
    v 2.718
    u 0.368
    neither 1.0
    """
    both = oracle.exact_both
    user_only = oracle.exact_p - both
    other_only = oracle.exact_q - both
    # In fractions, so that a class that never occurs is exactly 0.
    neither = 1 - both - user_only - other_only
    table = (
        ReportClass("both", both, both),
        ReportClass("v", user_only, other_only),
        ReportClass("u", other_only, user_only),
        ReportClass("neither", neither, neither),
    )
    return tuple(kind for kind in table if kind.given_v or kind.given_u)


@dataclass(frozen=True)
class Share:
    """A probability as the protocol states it, and as observed: a Clopper–Pearson interval."""

    expected: float
    low: float
    high: float

    @property
    def passed(self) -> bool:
        """Whether the interval holds the probability."""
        return self.low <= self.expected <= self.high


@dataclass(frozen=True)
class OracleAudit:
    """What an oracle's probabilities and its client's reports reveal about its privacy.

    Attributes
    ----------
    oracle
        The audited oracle.
    classes
        Every class of reports with its exact probabilities.
    loss
        log of the largest ratio of probabilities of a report: exact, rounded up.
    reports
        What the client's reports prove about its ε, whatever its probabilities should be.
    own, other
        How often reports support the user's value and another one, beside p and q.
    confidence
        A correct client passes with at least this probability: 1 - confidence is split equally
        among the three tests ``reports``, ``own`` and ``other``.
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
        """Whether the exact loss is at most ε and the reports refute neither that nor p and q."""
        return not self.findings

    @property
    def findings(self) -> tuple[str, ...]:
        """What failed, one sentence each; empty if the audit passed."""
        claim = f"ε = {self.oracle.epsilon:g}"
        sentences = []
        if self.loss > self.oracle.epsilon:
            sentences.append(f"the probabilities lose {self.loss!r}, more than {claim}")
        if not self.reports.passed:
            first, second = self.reports.pair
            sentences.append(
                f"reports of {first} and {second} prove ε >= {self.reports.lower:.4f}, "
                f"more than {claim}"
            )
        for share, what in ((self.own, "the user's value"), (self.other, "another value")):
            if not share.passed:
                sentences.append(
                    f"reports support {what} with probability {share.low:.5f} .. {share.high:.5f}, "
                    f"not {share.expected:.5f}"
                )
        return tuple(sentences)

    def to_dict(self) -> dict[str, Any]:
        """Return the audit in the types of JSON; exact probabilities become text, a fraction."""
        classes = [
            {
                "supports": kind.supports,
                "given_v": str(kind.given_v),
                "given_u": str(kind.given_u),
            }
            for kind in self.classes
        ]
        return {
            "oracle": type(self.oracle).__name__,
            "epsilon": self.oracle.epsilon,
            "d": self.oracle.d,
            "passed": self.passed,
            "findings": list(self.findings),
            # JSON has no infinity.
            "exact_epsilon": self.loss if math.isfinite(self.loss) else str(self.loss),
            "classes": classes,
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

    Exactly: for two values there are four classes of reports, and all reports of one class have the
    same ratio. By reports: ``audit`` on which of four values they support; and how often they
    support the user's value and another one, over 32 random pairs of values, against p and q. A
    client that adds more noise than it should is found too.

    Parameters
    ----------
    oracle
        From ``ldpopt.oracles``.
    client
        Takes values of shape (n,) and returns reports of this oracle: the implementation to audit.
        Default ``oracle.perturb``.
    reports
        Reports of each of two values for the bound, and twice as many for p and q. A million finds
        a q that is off by 1 % at ε = 1.
    confidence
        1 - confidence bounds the probability that a correct client fails.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If it is no oracle, an argument is out of range, or the client returns something other than
        reports of this oracle.

    Notes
    -----
    Cost: 5 x ``reports`` reports and their support counts. Memory: 65,536 reports and 24 bytes per
    training report.

    Examples
    --------
    >>> from ldpopt.oracles import GRR
    >>> result = audit_oracle(GRR(epsilon=1.0, d=8), reports=10_000, confidence=0.999_999)
    >>> result.passed, result.loss, len(result.classes)
    (True, 1.0, 3)
    """
    if not isinstance(oracle, FrequencyOracle):
        raise InvalidTypeError(f"oracle must be an oracle from ldpopt.oracles, got {oracle!r}")
    if client is not None and not callable(client):
        raise InvalidTypeError(f"client must be callable, values -> reports, got {client!r}")
    send: Client = oracle.perturb if client is None else client
    confidence = validate.confidence("confidence", confidence)
    size = validate.integer("reports", reports, minimum=FEWEST_REPORTS)
    # Three tests share the probability of a false alarm.
    each = 1 - (1 - confidence) / 3
    # Neighbours, the ends and the middle: errors in indexing show at such places.
    values = sorted({0, 1, oracle.d // 2, oracle.d - 1})
    bound = audit(
        send,
        oracle.epsilon,
        values,
        reports=size,
        confidence=each,
        batched=True,
        features=_supports_of(oracle, values),
    )
    classes = report_classes(oracle)
    own_share, other_share = _shares(oracle, send, 2 * size, each)
    return OracleAudit(oracle, classes, _loss(classes), bound, own_share, other_share, confidence)


def _supports_of(oracle: FrequencyOracle, values: Sequence[int]) -> Callable[[Any], Any]:
    """Return the function from reports to which of some values each of them supports."""

    def supported(batch: Any) -> NDArray[np.bool_]:
        # Only a few of d columns are needed: products with unit vectors give them.
        operator = oracle.support_operator(batch)
        units = [np.eye(1, oracle.d, value)[0] for value in values]
        columns = [operator.matvec(unit) for unit in units]
        return np.asarray(np.stack(columns, axis=1) > 0.5)

    return supported


def _loss(classes: tuple[ReportClass, ...]) -> float:
    """Return the largest log-ratio of the classes, rounded up.

    It is infinite where a report is possible under one value alone.
    """
    if any(kind.given_v <= 0 or kind.given_u <= 0 for kind in classes):
        return math.inf
    # Rounded up: a loss that is stated too small would be a promise too much.
    return log_above(max(kind.given_v / kind.given_u for kind in classes))


def _shares(
    oracle: FrequencyOracle, client: Client, size: int, confidence: float
) -> tuple[Share, Share]:
    """Return how often reports support the user's value and one other value: two exact binomials.

    Both values are drawn anew for every batch. Which ones are compared is no secret, so that they
    may repeat from run to run.
    """
    # A fixed seed keeps the pairs apart from the client's randomness, which stays its own.
    rng = np.random.default_rng(0)
    batch = size // _BATCHES + 1
    own_hits = 0
    other_hits = 0
    values = rng.integers(0, oracle.d, _BATCHES)
    for value in progress.track(values, f"{size:,} reports", _BATCHES):
        # Never the value itself.
        another = (value + rng.integers(1, oracle.d)) % oracle.d
        counts = np.zeros(oracle.d, dtype=np.int64)
        for start in range(0, batch, _AT_A_TIME):
            users = min(_AT_A_TIME, batch - start)
            counts += oracle.support_counts(client(np.full(users, value)))
        own_hits += int(counts[value])
        other_hits += int(counts[another])
    total = _BATCHES * batch
    return (
        _share(own_hits, total, oracle.p, confidence),
        _share(other_hits, total, oracle.q, confidence),
    )


def _share(hits: int, n: int, expected: float, confidence: float) -> Share:
    counts = np.array([hits], dtype=np.float64)
    low, high = clopper_pearson(counts, np.array([n], dtype=np.float64), confidence)
    return Share(expected, float(low[0]), float(high[0]))

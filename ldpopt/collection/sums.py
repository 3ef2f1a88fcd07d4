"""What a pass over files adds up, part by part: support counts, or the weights of a second pass."""

from __future__ import annotations

import hashlib
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ldpopt.collection.header import check_sum
from ldpopt.oracles.base import FrequencyOracle
from ldpopt.oracles.forms import ReportForm, Reports
from ldpopt.reports.exact_sums import is_possible, joined, no_sums
from ldpopt.reports.weighing import Weighing

Whole = NDArray[np.int64]


class Sums(Protocol):
    """Vectors of whole numbers that add up, whatever the order of the parts is."""

    start: str | None
    """The fingerprint of the start that reports are weighed by; None for counts."""

    def empty(self) -> Whole:
        """Return the sums of no report."""
        ...

    def of(self, reports: Reports, form: ReportForm) -> Whole:
        """Return the sums of checked reports, held in a form that the file decides."""
        ...

    def joined(self, first: Whole, second: Whole) -> Whole:
        """Return the sums of two parts together."""
        ...

    def check(self, vector: Whole, n: int, where: str) -> None:
        """Raise ValueError or InvalidInputError unless n reports can have these sums."""
        ...


class SupportCounts:
    """The support counts of an oracle, shape (d,)."""

    start: str | None = None

    def __init__(self, oracle: FrequencyOracle) -> None:
        self.oracle = oracle

    def empty(self) -> Whole:
        """Return zeros."""
        return np.zeros(self.oracle.d, dtype=np.int64)

    def of(self, reports: Reports, form: ReportForm) -> Whole:
        """Count support."""
        # Decoded reports are valid: to check them again would take as long as to count them.
        return form.support_counts(reports)

    def joined(self, first: Whole, second: Whole) -> Whole:
        """Add counts."""
        return first + second

    def check(self, vector: Whole, n: int, where: str) -> None:
        """Check counts: their number, range and sum."""
        if vector.size != self.oracle.d or vector.min() < 0 or vector.max() > n:
            raise ValueError("these are no counts")
        check_sum(self.oracle, sum(vector.tolist()), n, where)


class WeightedCounts:
    """The sums of ``Weighing``, shape (2, size)."""

    def __init__(self, weighing: Weighing) -> None:
        self.weighing = weighing
        self.start: str | None = hashlib.sha256(weighing.shares.astype("<i8").tobytes()).hexdigest()

    def empty(self) -> Whole:
        """Return zeros."""
        return no_sums(self.weighing.size)

    def of(self, reports: Reports, form: ReportForm) -> Whole:
        """Add up weights."""
        return self.weighing.sums(reports, form)

    def joined(self, first: Whole, second: Whole) -> Whole:
        """Add up exactly."""
        return joined(first, second)

    def check(self, vector: Whole, n: int, where: str) -> None:
        """Check the range of each sum: weights lie in 0 .. 1."""
        if vector.shape != (2, self.weighing.size) or not is_possible(vector, n):
            raise ValueError("these are no sums of weights")

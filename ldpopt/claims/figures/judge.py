"""The verdict of a statement on the tables of a run, by one rule for all statements.

A statement is measured by readings: numbers with bounds. A reading agrees if its whole interval is
within the bounds, contradicts them if its whole interval is outside, and leaves the question open
otherwise. A statement holds if all its readings agree, and fails if one contradicts it.

Both verdicts are wrong with a probability of 5 % at most, however many readings there are:

- A false statement has a reading whose number is outside its bounds. To hold, this reading too
  would have to agree by chance, so that 95 % intervals of single readings are enough (the
  intersection–union test).
- A true statement fails if any of its readings contradicts by chance. So a reading contradicts only
  by an interval that is right at the same time as those of all others (Bonferroni): each of 400
  readings has one of 1 - 0.05/400.

Where one reading is enough for a statement ("in some cases"), the two change places. Fewer trials
have wider intervals: they leave more open and decide less, in both directions.

Each data set is judged by itself. The paper's own data sets decide; one that stands in for the
paper's is judged and shown, and decides nothing. If fewer than half of the paper's data sets that
a statement speaks of are there, it cannot be checked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ldpopt.claims.engine.claim import Verdict
from ldpopt.claims.figures.checks import Check, Reading, Some
from ldpopt.claims.figures.datasets import DATA, STAND_INS
from ldpopt.claims.figures.results import Results
from ldpopt.claims.figures.statement import Statement

MISS = 0.05
"""Probability with which a verdict may be wrong: 95 % intervals miss with 2.5 % on each side."""


@dataclass(frozen=True)
class OnData:
    """What a statement's readings say on one data set.

    Attributes
    ----------
    dataset
        Its name in the tables.
    verdict
        ``holds``, ``fails`` or ``inconclusive`` by the readings; ``cannot be checked here`` without
        any.
    agreeing, contradicting, open
        The readings by what they say.
    """

    dataset: str
    verdict: Verdict
    agreeing: tuple[Reading, ...] = ()
    contradicting: tuple[Reading, ...] = ()
    open: tuple[Reading, ...] = ()

    @property
    def readings(self) -> tuple[Reading, ...]:
        """All readings; those that speak most against the statement come first."""
        return (*self.contradicting, *self.open, *self.agreeing)


@dataclass(frozen=True)
class Judged:
    """A statement with its verdict, and what led to it on each data set."""

    statement: Statement
    verdict: Verdict
    on_data: tuple[OnData, ...]
    corrected: tuple[OnData, ...] = ()


def judge(statement: Statement, results: Results) -> Judged:
    """Return a statement's verdict on the tables of a run."""
    on_data = read_checks(statement.checks, _datasets(statement), results)
    verdict = _combined(on_data)
    correction = statement.correction
    # The correction is tried only where the statement itself fails.
    if verdict is not Verdict.FAILS or correction is None:
        return Judged(statement, verdict, on_data)
    corrected = read_checks(correction.checks, _datasets(statement), results)
    if _combined(corrected) is Verdict.HOLDS:
        verdict = Verdict.CORRECTED
    return Judged(statement, verdict, on_data, corrected)


def read_checks(
    checks: tuple[Check, ...], datasets: Iterable[str], results: Results
) -> tuple[OnData, ...]:
    """Return what checks say on each data set by itself."""
    by_check = [list(check(results)) for check in checks]
    return tuple(_on_data(dataset, checks, by_check) for dataset in datasets)


def _datasets(statement: Statement) -> tuple[str, ...]:
    return statement.data or DATA[statement.figure]


def _on_data(dataset: str, checks: tuple[Check, ...], by_check: list[list[Reading]]) -> OnData:
    parts = [
        (check, [reading for reading in readings if reading.dataset == dataset])
        for check, readings in zip(checks, by_check, strict=True)
        # Some checks are about one data set alone.
        if check.only.get("dataset", dataset) == dataset
    ]
    number = sum(len(part) for _, part in parts)
    if not number:
        return OnData(dataset, Verdict.UNCHECKED)
    verdicts = []
    agreeing: list[Reading] = []
    contradicting: list[Reading] = []
    unclear: list[Reading] = []
    for check, readings in parts:
        # One miss on each side of the interval.
        single = MISS / 2
        simultaneous = MISS / 2 / number
        enough = isinstance(check, Some)
        agrees = {id(r) for r in readings if r.agrees(simultaneous if enough else single)}
        against = {id(r) for r in readings if r.contradicts(single if enough else simultaneous)}
        agreeing += [r for r in readings if id(r) in agrees]
        contradicting += [r for r in readings if id(r) in against]
        unclear += [r for r in readings if id(r) not in agrees | against]
        verdicts.append(_answer(len(readings), len(agrees), len(against), one_is_enough=enough))
    return OnData(dataset, _all_of(verdicts), tuple(agreeing), tuple(contradicting), tuple(unclear))


def _answer(readings: int, agree: int, contradict: int, *, one_is_enough: bool) -> Verdict:
    """Return whether one check's readings hold, fail or leave the question open."""
    # A shortened table leaves a check without readings: that is no agreement.
    if readings == 0:
        return Verdict.INCONCLUSIVE
    if one_is_enough:
        holds = agree > 0
        fails = contradict == readings
    else:
        holds = agree == readings
        fails = contradict > 0
    if fails:
        return Verdict.FAILS
    return Verdict.HOLDS if holds else Verdict.INCONCLUSIVE


def _all_of(answers: Iterable[Verdict]) -> Verdict:
    """Return the verdict on a statement of several parts: all must hold, and one can refute it."""
    answers = list(answers)
    if Verdict.FAILS in answers:
        return Verdict.FAILS
    if all(answer is Verdict.HOLDS for answer in answers):
        return Verdict.HOLDS
    return Verdict.INCONCLUSIVE


def _combined(on_data: tuple[OnData, ...]) -> Verdict:
    """Return the verdict that the paper's own data sets give."""
    present = [
        part.verdict
        for part in on_data
        if part.dataset not in STAND_INS and part.verdict is not Verdict.UNCHECKED
    ]
    if not present or 2 * len(present) < len(on_data):
        return Verdict.UNCHECKED
    return _all_of(present)

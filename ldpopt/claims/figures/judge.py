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
    """Return what all checks of a statement find on one data set."""
    parts: list[tuple[Check, list[Reading]]] = []
    for check, readings in zip(checks, by_check, strict=True):
        # Some checks are about one data set alone.
        if check.only.get("dataset", dataset) == dataset:
            parts.append((check, [each for each in readings if each.dataset == dataset]))
    # Over all checks together: any of the readings could refute the statement by chance.
    number = sum(len(readings) for _, readings in parts)
    if not number:
        return OnData(dataset, Verdict.UNCHECKED)
    verdicts = []
    agreeing: list[Reading] = []
    contradicting: list[Reading] = []
    undecided: list[Reading] = []
    for check, readings in parts:
        of_check = _of_check(dataset, check, readings, number)
        verdicts.append(of_check.verdict)
        agreeing += of_check.agreeing
        contradicting += of_check.contradicting
        undecided += of_check.open
    return OnData(
        dataset, _all_of(verdicts), tuple(agreeing), tuple(contradicting), tuple(undecided)
    )


def _of_check(dataset: str, check: Check, readings: list[Reading], number: int) -> OnData:
    """Return what one check says, of a statement that has so many readings in all."""
    # The chance of a miss on each side of an interval: by itself, and of all readings together.
    single = MISS / 2
    simultaneous = MISS / 2 / number
    one_is_enough = isinstance(check, Some)
    agree_miss = simultaneous if one_is_enough else single
    contradict_miss = single if one_is_enough else simultaneous
    by_answer: dict[Verdict, list[Reading]] = {
        Verdict.HOLDS: [],
        Verdict.FAILS: [],
        Verdict.INCONCLUSIVE: [],
    }
    for reading in readings:
        by_answer[_answer(reading, agree_miss, contradict_miss)].append(reading)
    answers = [answer for answer, some in by_answer.items() if some]
    return OnData(
        dataset,
        _any_of(answers) if one_is_enough else _all_of(answers),
        tuple(by_answer[Verdict.HOLDS]),
        tuple(by_answer[Verdict.FAILS]),
        tuple(by_answer[Verdict.INCONCLUSIVE]),
    )


def _answer(reading: Reading, agree_miss: float, contradict_miss: float) -> Verdict:
    """Return whether one number is within its bounds, outside, or may be either."""
    if reading.agrees(agree_miss):
        return Verdict.HOLDS
    return Verdict.FAILS if reading.contradicts(contradict_miss) else Verdict.INCONCLUSIVE


def _any_of(answers: Iterable[Verdict]) -> Verdict:
    """Return the verdict on a statement of which one part is enough."""
    answers = list(answers)
    if Verdict.HOLDS in answers:
        return Verdict.HOLDS
    # Without parts it is open: a shortened table refutes nothing.
    refuted = answers and all(answer is Verdict.FAILS for answer in answers)
    return Verdict.FAILS if refuted else Verdict.INCONCLUSIVE


def _all_of(answers: Iterable[Verdict]) -> Verdict:
    """Return the verdict on a statement of several parts: all must hold, and one can refute it."""
    answers = list(answers)
    if Verdict.FAILS in answers:
        return Verdict.FAILS
    # Without parts it is open: a shortened table is no agreement.
    agreed = answers and all(answer is Verdict.HOLDS for answer in answers)
    return Verdict.HOLDS if agreed else Verdict.INCONCLUSIVE


def _combined(on_data: tuple[OnData, ...]) -> Verdict:
    """Return the verdict that the paper's own data sets give."""
    present = [
        part.verdict
        for part in on_data
        if part.dataset not in STAND_INS and part.verdict is not Verdict.UNCHECKED
    ]
    # A sentence about four data sets says little of one.
    if not present or 2 * len(present) < len(on_data):
        return Verdict.UNCHECKED
    return _all_of(present)

"""Check all claims of a ledger, topic by topic, in this process or in several."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import groupby
from typing import NamedTuple

from ldpopt import claims
from ldpopt.claims.engine.claim import Claim, Finding
from ldpopt.claims.engine.run import Result, run_claim
from ldpopt.executors import executor_for, results


class _Topic(NamedTuple):
    """Claims that one process checks, one after the other: they share what they compute."""

    identifiers: tuple[str, ...]
    quick: bool


class _Checked(NamedTuple):
    """What one claim's check found. A claim itself holds a function, which does not pickle."""

    identifier: str
    finding: Finding
    seconds: float


def check_ledger(ledger: Mapping[str, Claim], *, quick: bool, workers: int = 1) -> Iterator[Result]:
    """Yield the results of all claims in the order of the ledger.

    Parameters
    ----------
    ledger
        Claims by id. With more than one worker they must be those of ``ldpopt.claims.LEDGER``.
    quick
        Fewer and smaller instances.
    workers
        Number of processes; each makes the instances anew.

    Raises
    ------
    WorkersError
        If a process dies.
    """
    by_topic = groupby(ledger.values(), key=lambda claim: claim.topic)
    work = [_Topic(tuple(claim.id for claim in group), quick) for _, group in by_topic]
    if workers == 1:
        # Claim by claim, so that a caller sees how far it is.
        instances = claims.InstanceSet(quick=quick)
        for claim in ledger.values():
            yield run_claim(claim, instances)
        return
    for topic in results(executor_for(workers), _check_topic, work):
        for checked in topic:
            yield Result(ledger[checked.identifier], checked.finding, checked.seconds)


def _check_topic(topic: _Topic) -> list[_Checked]:
    """Return what the claims of a topic find, in a process of an executor."""
    instances = _instances(topic.quick)
    checked = []
    for identifier in topic.identifiers:
        result = run_claim(claims.LEDGER[identifier], instances)
        checked.append(_Checked(identifier, result.finding, result.seconds))
    return checked


@cache
def _instances(quick: bool) -> claims.InstanceSet:
    """Return the instances of this process: made once, for all topics that it checks."""
    return claims.InstanceSet(quick=quick)

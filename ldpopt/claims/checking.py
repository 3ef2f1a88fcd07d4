"""Check all claims of a ledger, one by one, in this process or in several."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple

from ldpopt import claims
from ldpopt.claims.engine.claim import Claim, Finding
from ldpopt.claims.engine.run import Result, run_claim
from ldpopt.executors import executor_for


class _Task(NamedTuple):
    """The check of one claim, as a process receives it."""

    identifier: str
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
    if workers == 1:
        # Here, so that a caller sees how far it is.
        instances = claims.InstanceSet(quick=quick)
        for claim in ledger.values():
            yield run_claim(claim, instances)
        return
    # One claim at a time and not one topic: equivalences alone take half of the time. A worker
    # goes on while another is busy with a long claim, so results wait here for those before them.
    work = [_Task(identifier, quick) for identifier in ledger]
    outcomes = executor_for(workers).run(_check, work)
    waiting: dict[str, _Checked] = {}
    for claim in ledger.values():
        while claim.id not in waiting:
            task, outcome = next(outcomes)
            if isinstance(outcome, Exception):
                raise outcome
            waiting[task.identifier] = outcome
        checked = waiting.pop(claim.id)
        yield Result(claim, checked.finding, checked.seconds)


def _check(task: _Task) -> _Checked:
    """Return what the check of a claim finds, in a process of an executor."""
    result = run_claim(claims.LEDGER[task.identifier], _instances(task.quick))
    return _Checked(task.identifier, result.finding, result.seconds)


@cache
def _instances(quick: bool) -> claims.InstanceSet:
    """Return the instances of this process: made once, for all claims that it checks."""
    return claims.InstanceSet(quick=quick)

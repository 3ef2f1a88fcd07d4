"""Check all claims of a ledger, one by one, in this process or in several."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ldpopt import claims
from ldpopt.claims.engine.claim import Claim, Finding
from ldpopt.claims.engine.run import Result, run_claim
from ldpopt.executors import executor_for

# Claims per task: neighbours share what they compute, and whole topics are too long for one worker,
# because equivalences alone take half of the time.
_TOGETHER = 6


class _Task(NamedTuple):
    """Claims that one process checks, one after the other."""

    identifiers: tuple[str, ...]
    quick: bool
    claims_file: Path | None


class _Checked(NamedTuple):
    """What one claim's check found. A claim itself holds a function, which does not pickle."""

    identifier: str
    finding: Finding
    seconds: float
    raised: str


def ledger_with(claims_file: Path | None) -> dict[str, Claim]:
    """Return the package's claims, and after them those of a user's file if there is one."""
    if claims_file is None:
        return claims.LEDGER
    return {**claims.LEDGER, **claims.read_claims(claims_file, taken=claims.LEDGER)}


def check_ledger(
    ledger: Mapping[str, Claim],
    *,
    quick: bool,
    workers: int = 1,
    claims_file: Path | None = None,
) -> Iterator[Result]:
    """Yield the results of all claims in the order of the ledger.

    Parameters
    ----------
    ledger
        Claims by id. With more than one worker they must be those of ``ledger_with(claims_file)``.
    quick
        Fewer and smaller instances.
    workers
        Number of processes; each makes the instances anew, and reads the user's file.
    claims_file
        The file of the user's own claims among them.

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
    # A worker goes on while another is busy with a long claim, so results wait here for those
    # before them.
    outcomes = executor_for(workers).run(_check, _tasks(list(ledger), quick, claims_file))
    waiting: dict[str, _Checked] = {}
    for claim in ledger.values():
        while claim.id not in waiting:
            _, outcome = next(outcomes)
            if isinstance(outcome, Exception):
                raise outcome
            waiting.update({checked.identifier: checked for checked in outcome})
        checked = waiting.pop(claim.id)
        yield Result(claim, checked.finding, checked.seconds, checked.raised)


def _tasks(identifiers: list[str], quick: bool, claims_file: Path | None) -> list[_Task]:
    """Return the claims in the order of the ledger, some at a time."""
    starts = range(0, len(identifiers), _TOGETHER)
    together = [tuple(identifiers[start : start + _TOGETHER]) for start in starts]
    return [_Task(names, quick, claims_file) for names in together]


def _check(task: _Task) -> list[_Checked]:
    """Return what the checks of a task's claims find, in a process of an executor."""
    instances = _instances(task.quick)
    ledger = _ledger(task.claims_file)
    checked = []
    for identifier in task.identifiers:
        result = run_claim(ledger[identifier], instances)
        checked.append(_Checked(identifier, result.finding, result.seconds, result.raised))
    return checked


@cache
def _ledger(claims_file: Path | None) -> dict[str, Claim]:
    """Return the claims of this process: a user's file runs once, and not once per task."""
    return ledger_with(claims_file)


@cache
def _instances(quick: bool) -> claims.InstanceSet:
    """Return the instances of this process: made once, for all claims that it checks."""
    return claims.InstanceSet(quick=quick)

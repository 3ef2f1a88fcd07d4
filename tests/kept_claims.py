"""Keep what the quick ledger shows, after a deliberate change: ``python -m tests.kept_claims``.

The record has the id of every claim, the number of instances on which it was checked, and every
number of its evidence. An error in a check may move these numbers and leave the verdict as it was.
The record leaves out what depends on the version of a solver, or on the last bits of a sum.
"""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ldpopt.claims import LEDGER, InstanceSet, run_claim
from ldpopt.solve.programs.solvers import SOLVERS
from tests.tolerances import KEPT_NUMBER, KEPT_TINY

KEPT = Path(__file__).with_suffix(".json")

_NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
_DEPENDS = re.compile("|".join([*SOLVERS, "in the last place", "in every bit"]))


def numbers_in(value: Any) -> str:
    """Return the numbers of one piece of evidence, as they are written."""
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return " ".join(_NUMBER.findall(text))


def kept() -> dict[str, Any]:
    """Return the record as it was kept."""
    record: dict[str, Any] = json.loads(KEPT.read_text("utf-8"))
    return record


def shown(results: Iterable[Any]) -> dict[str, Any]:
    """Return the instances and numbers of the claims' results, by id."""
    record = {}
    for result in results:
        finding = result.finding
        evidence = {
            name: numbers_in(value)
            for name, value in finding.evidence.items()
            if not _DEPENDS.search(f"{name} {value}")
        }
        record[result.claim.id] = {
            "instances": finding.instances,
            "evidence": {name: numbers for name, numbers in evidence.items() if numbers},
        }
    return record


def differences(old_record: dict[str, Any], new_record: dict[str, Any]) -> Iterator[str]:
    """Yield a line for each number that differs, of the claims that both records have."""
    for claim in sorted(old_record.keys() & new_record.keys()):
        before = old_record[claim]
        after = new_record[claim]
        if before["instances"] != after["instances"]:
            yield f"{claim}: {before['instances']} instances, now {after['instances']}"
        names = before["evidence"] | after["evidence"]
        for name in names:
            old = before["evidence"].get(name, "")
            new = after["evidence"].get(name, "")
            if not are_near(old.split(), new.split()):
                yield f"{claim}, {name}: {old or 'nothing'}, now {new or 'nothing'}"


def are_near(old: list[str], new: list[str]) -> bool:
    """Return whether as many numbers are written, each near the one before."""
    return len(old) == len(new) and all(map(is_near, old, new))


def is_near(old: str, new: str) -> bool:
    """Return whether two written numbers are equal up to what other kernels change."""
    before, after = (float(text.replace(",", "")) for text in (old, new))
    # The last of the decimals that are written may be rounded the other way.
    decimals = new.partition(".")[2]
    unit = 10.0 ** -len(decimals) if decimals.isdigit() else 0.0
    return abs(before - after) <= KEPT_NUMBER * abs(before) + max(unit, KEPT_TINY)


if __name__ == "__main__":
    quick = InstanceSet(quick=True)
    record = shown(run_claim(claim, quick) for claim in LEDGER.values())
    text = json.dumps(record, indent=1, sort_keys=True, ensure_ascii=False)
    KEPT.write_text(f"{text}\n", "utf-8")

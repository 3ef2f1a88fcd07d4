"""Statements of the papers on their figures, with the verdicts that a run of the figures reached.

The figures are experiments, not part of the library: ``python -m experiments run all --compare
--out DIR`` draws them, judges what the papers state of them, and writes ``DIR/statements.json``.
The repository keeps such a run in ``experiments/results``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ldpopt.claims.engine.claim import Claim, Finding, Verdict
from ldpopt.claims.engine.instances import InstanceSet
from ldpopt.claims.engine.run import Result
from ldpopt.errors import DataUnavailableError

FILE_NAME = "statements.json"

TITLE = "Claims about the papers' figures, from a stored run of the figures"

_NOT_MEASURED = "not-measured"

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Unmeasured:
    """A statement that the run could not judge, and the reason."""

    source: str
    statement: str
    figure: str
    reason: str


@dataclass(frozen=True)
class FigureRun:
    """What a run of the figures left: the statements that it judged, and the others."""

    judged: list[Result]
    unmeasured: list[Unmeasured]


def read_figure_run(folder: Path) -> FigureRun:
    """Return the statements of a figures run, as results that the ledger can show.

    Parameters
    ----------
    folder
        Where the run wrote ``statements.json``.

    Raises
    ------
    DataUnavailableError
        If the folder has no such file, or the file is not what a run writes.
    """
    path = folder / FILE_NAME
    try:
        records = json.loads(path.read_text(encoding="utf-8"))
        judged = [_result(r) for r in records if r["verdict"] != _NOT_MEASURED]
        unmeasured = [_unmeasured(r) for r in records if r["verdict"] == _NOT_MEASURED]
    except OSError as error:
        raise DataUnavailableError(
            f"cannot read {path}: {error.strerror}; "
            f"`python -m experiments run all --compare --out {folder}` writes it"
        ) from None
    # No JSON, no list of objects, a field that is missing, or an unknown verdict.
    except (ValueError, KeyError, TypeError) as error:
        raise DataUnavailableError(
            f"{path} is not a file that a run of the figures writes: {error!r}"
        ) from None
    return FigureRun(judged, unmeasured)


def _result(record: Record) -> Result:
    """Return a judged statement as the result of a claim."""
    # Judged once, by the run: the check repeats what it found.
    finding = _finding(record)

    def check(_: InstanceSet) -> Finding:
        return finding

    claim = Claim(
        id=record["id"],
        source=record["source"],
        statement=record["statement"],
        expected=Verdict(record["expected"]),
        check=check,
        topic=TITLE,
    )
    return Result(claim, finding, seconds=0.0)


def _finding(record: Record) -> Finding:
    """Return the verdict of a record with its evidence."""
    verdict = Verdict(record["verdict"])
    readings = record["evidence"]
    evidence: dict[str, float | int | str] = {
        "figure": record["figure"],
        "how it is judged": record["how"],
        "readings that agree": f"{readings['agree']} of {readings['read']}",
        "lowest reading": readings["lowest"],
        "highest reading": readings["highest"],
    }
    if record["corrected"]:
        evidence["correction"] = record["corrected"]
    return Finding(
        holds=verdict is Verdict.HOLDS,
        instances=record["instances"],
        evidence=evidence,
        corrected=verdict is Verdict.CORRECTED,
    )


def _unmeasured(record: Record) -> Unmeasured:
    """Return a statement without a verdict; its ``how`` is the reason."""
    return Unmeasured(record["source"], record["statement"], record["figure"], record["how"])

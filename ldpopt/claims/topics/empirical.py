"""Statements of the papers on their figures, with the verdicts of a run of the figures.

The figures are experiments, not part of the library: ``python -m experiments run all --compare --out DIR`` judges what the
papers say of them and leaves ``DIR/statements.json``.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

from ldpopt.claims.engine.claim import Claim, Finding, Verdict
from ldpopt.claims.engine.instances import Bench
from ldpopt.claims.engine.run import Result, check
from ldpopt.errors import DataUnavailableError

NAME = "statements.json"


def results(folder: Path) -> list[Result]:
    """Return the judged statements of a figures run as results of the ledger; those without data are left out.

    Raises
    ------
    DataUnavailableError
        If the folder has no such file, or it is not what a run leaves.
    """
    path = folder / NAME
    try:
        records = json.loads(path.read_text(encoding="utf-8"))
        return [
            check(_claim(record), Bench())
            for record in records
            if record["verdict"] != "not-measured"
        ]
    except OSError as error:
        raise DataUnavailableError(
            f"cannot read {path}: {error.strerror}; `python -m experiments run all --compare --out {folder}` writes it"
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise DataUnavailableError(
            f"{path} is not what a run of the figures leaves: {error!r}"
        ) from None


def _claim(record: dict[str, Any]) -> Claim:
    return Claim(
        record["id"],
        record["source"],
        record["statement"],
        Verdict(record["expected"]),
        partial(_finding, record),
    )


def _finding(record: dict[str, Any], bench: Bench) -> Finding:
    verdict = Verdict(record["verdict"])
    read = record["evidence"]
    evidence: dict[str, float | int | str] = {
        "figure": record["figure"],
        "how": record["how"],
        "numbers that agree": f"{read['agree']} of {read['read']}",
        "lowest": read["lowest"],
        "highest": read["highest"],
    }
    if record["corrected"]:
        evidence["correction"] = record["corrected"]
    return Finding(
        verdict is Verdict.HOLDS,
        record["instances"],
        evidence,
        corrected=verdict is Verdict.CORRECTED,
    )

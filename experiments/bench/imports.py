"""How long a fresh interpreter takes to import the library."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any

from experiments.bench.row import Row
from experiments.bench.timing import measure

REFERENCES = ("numpy", "cvxpy")


def run(settings: Mapping[str, Any]) -> list[Row]:
    """Return the import's time beside numpy's, which it needs, and cvxpy's, which it defers."""
    repeats = settings["repeats"]
    # Otherwise the start of Python itself would count on both sides of the ratio.
    bare = _start("pass", repeats)
    ours = _start("import ldpopt", repeats) - bare
    return [
        Row(
            what="import ldpopt",
            seconds=ours,
            measure="cost",
            against=f"import {module}",
            against_seconds=_start(f"import {module}", repeats) - bare,
            detail=f"beyond the {bare:.3f} s of a bare interpreter",
        )
        for module in REFERENCES
    ]


def _start(statement: str, repeats: int) -> float:
    command = [sys.executable, "-c", statement]
    # The median: a start of a process is rarely faster by chance, but often slower.
    return measure(partial(subprocess.run, command, check=True), repeats=repeats).median

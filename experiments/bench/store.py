"""Finished benchmarks on disk, keyed by name and settings, so that a run can resume."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.bench.row import Row
from ldpopt.storage import write_whole
from ldpopt.studies.engine.provenance import made_by

# The second runs in a process of its own, which nothing imports.
_MODULES = ("experiments.bench.suite", "experiments.bench.peer_worker")


class Store:
    """``DIR/bench.json`` and ``DIR/bench.csv``, rewritten atomically after every benchmark."""

    def __init__(self, folder: Path):
        self.folder = folder
        path = folder / "bench.json"
        self._results: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}

    def rows(self, name: str, settings: Mapping[str, Any]) -> list[Row] | None:
        """Return the rows of a benchmark that finished with these settings and this code."""
        result = self._results.get(_key(name, settings))
        # The speed of other code says nothing about this one.
        if result is None or result.get("made_by") != made_by(*_MODULES):
            return None
        return [Row.from_record(record) for record in result["rows"]]

    def add(
        self, name: str, settings: Mapping[str, Any], machine: Mapping[str, Any], rows: list[Row]
    ) -> None:
        """Record a finished benchmark in place of an earlier run of it with the same settings."""
        self._results[_key(name, settings)] = {
            "benchmark": name,
            "settings": dict(settings),
            "made_by": made_by(*_MODULES),
            "machine": dict(machine),
            "rows": [row.record() for row in rows],
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        results = json.dumps(self._results, indent=2, ensure_ascii=False)
        # After every benchmark, since a run may be stopped, and in one step, so that no stop
        # leaves half a file.
        write_whole(self.folder / "bench.json", f"{results}\n".encode())
        write_whole(self.folder / "bench.csv", self._csv().encode())

    def _csv(self) -> str:
        # Settings stand in every line: results of other settings are kept in the same file.
        lines = [
            {"benchmark": result["benchmark"], "settings": json.dumps(result["settings"]), **row}
            for result in self._results.values()
            for row in result["rows"]
        ]
        text = io.StringIO()
        writer = csv.DictWriter(
            text, fieldnames=list(lines[0]) if lines else [], lineterminator="\n"
        )
        writer.writeheader()
        writer.writerows(lines)
        return text.getvalue()


def _key(name: str, settings: Mapping[str, Any]) -> str:
    return f"{name} {json.dumps(settings, sort_keys=True)}"

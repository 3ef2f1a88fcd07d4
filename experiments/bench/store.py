"""Finished benchmarks on disk, keyed by name and settings, so that a run can resume."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.bench.row import Row


class Store:
    """``DIR/bench.json`` and ``DIR/bench.csv``, rewritten atomically after every benchmark."""

    def __init__(self, folder: Path):
        self.folder = folder
        path = folder / "bench.json"
        self._results: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}

    def rows(self, name: str, settings: Mapping[str, Any]) -> list[Row] | None:
        """Return the rows of a benchmark that finished with these settings, else ``None``."""
        result = self._results.get(_key(name, settings))
        return None if result is None else [Row.from_record(record) for record in result["rows"]]

    def add(
        self, name: str, settings: Mapping[str, Any], machine: Mapping[str, Any], rows: list[Row]
    ) -> None:
        """Record a finished benchmark in place of an earlier run of it with the same settings."""
        self._results[_key(name, settings)] = {
            "benchmark": name,
            "settings": dict(settings),
            "machine": dict(machine),
            "rows": [row.record() for row in rows],
        }
        _replace(
            self.folder / "bench.json",
            json.dumps(self._results, indent=2, ensure_ascii=False) + "\n",
        )
        _replace(self.folder / "bench.csv", self._csv())

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


def _replace(path: Path, text: str) -> None:
    """Write ``text`` to ``path`` so that a reader, or a kill, leaves the old or the new file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(path.suffix + ".part")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)

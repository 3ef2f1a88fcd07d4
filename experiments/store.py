"""Finished cells on disk: one SQLite file, one transaction per cell; no kill loses any."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection
from pathlib import Path
from types import TracebackType

from experiments.cells.cell import FORMAT, Outcome, Task
from experiments.cells.moments import dumps, loads
from experiments.errors import ExperimentError

_APPLICATION = 0x6C647066  # "ldpf" in the header of the file: it is ours
_PATIENCE = 30.0  # seconds to wait for another run that writes to the same file

_SCHEMA = """
CREATE TABLE cells (
    key TEXT PRIMARY KEY,
    declaration TEXT NOT NULL,
    seed INTEGER NOT NULL,
    moments BLOB NOT NULL,
    seconds REAL NOT NULL,
    method_seconds TEXT NOT NULL
) WITHOUT ROWID
"""


class Store:
    """The results file. SQLite's errors become ExperimentErrors that say what is kept.

    One row per cell, under a key that follows from all that its numbers follow from
    (``Cell.key``): cells finish in any order, and figures share them. An aggregation of reports
    keeps its sums instead (``ldpopt.collection.checkpoint``, where the reason is). What both rest
    on has one home each: ``ldpopt.executors`` for workers, ``ldpopt.storage`` for files written in
    one step, ``experiments.provenance`` for results that a change of code makes stale.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            # Here, since SQLite creates files and no folders.
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(path, timeout=_PATIENCE)
            try:
                self._open()
            except BaseException:
                # A refused file is not held open, so that it can be moved away.
                self._connection.close()
                raise
        except (OSError, sqlite3.Error) as error:
            raise ExperimentError(
                f"cannot use {path} as the results file ({error}): give another --out or --store, "
                "or move the file away"
            ) from None

    def _open(self) -> None:
        with self._connection as connection:
            application, version, tables = (
                connection.execute(query).fetchone()[0]
                for query in (
                    "PRAGMA application_id",
                    "PRAGMA user_version",
                    "SELECT count(*) FROM sqlite_master",
                )
            )
            if not tables:
                # Two runs may open a new file at the same time: the second one waits here, then
                # finds the table.
                connection.execute("BEGIN IMMEDIATE")
                connection.execute(_SCHEMA.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS"))
                connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                connection.execute(f"PRAGMA user_version = {FORMAT}")
                return
        # Before the version: other programs number theirs in the same place.
        if application != _APPLICATION:
            raise ExperimentError(
                f"{self.path} is not a results file of these experiments: "
                "give another --out or --store"
            )
        if version != FORMAT:
            raise ExperimentError(
                f"{self.path} has results of format {version}, this version writes format "
                f"{FORMAT}: nothing in it was touched; give another --out or --store, or move the "
                "file away to compute everything anew"
            )

    def keys(self) -> set[str]:
        """Return the names of all finished cells."""
        return {key for (key,) in self._connection.execute("SELECT key FROM cells")}

    def put(self, task: Task, outcome: Outcome) -> None:
        """Keep a finished cell: when this returns it is on disk."""
        # The declaration as text: a reader of the file sees what a key stands for.
        row = (
            task.key,
            json.dumps(task.cell.declaration(), sort_keys=True),
            task.seed,
            dumps(outcome.moments),
            outcome.seconds,
            json.dumps(outcome.method_seconds),
        )
        try:
            with self._connection as connection:
                # With --fresh a cell is there already.
                connection.execute("INSERT OR REPLACE INTO cells VALUES (?, ?, ?, ?, ?, ?)", row)
        except sqlite3.Error as error:
            raise ExperimentError(
                f"cannot write to {self.path}: {error}. The cells that finished before are kept; "
                "make room or free the file, then run the same command again"
            ) from None

    def get(self, keys: Collection[str]) -> dict[str, Outcome]:
        """Return those of the named cells that are finished."""
        outcomes = {}
        for key in keys:
            # One query per key: SQLite limits the number of names in one query.
            row = self._connection.execute(
                "SELECT moments, seconds, method_seconds FROM cells WHERE key = ?", (key,)
            ).fetchone()
            if row is not None:
                outcomes[key] = Outcome(loads(row[0]), row[1], json.loads(row[2]))
        return outcomes

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

"""Finished cells on disk: one SQLite file, one transaction per cell; a kill loses none.

Two kept libraries were tried in its place, joblib.Memory 1.6.0 and diskcache 5.6.3. Of 400 flipped
bits of a kept result they returned other numbers without an error for 245 and 242, where this file
notices each (tests/test_study_store.py). Both also unpickle what they read, which can run code.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from ldpopt.errors import StoreError
from ldpopt.printable import counted
from ldpopt.studies.engine.cell import Outcome, Task
from ldpopt.studies.engine.moments import dumps, loads

FORMAT = 2  # of the records in the file: raise it when they get another form

_APPLICATION = 0x6C647066  # "ldpf" in the header of the file: it is ours
_HEADER = 72  # bytes of an SQLite file up to the end of the application's number
_PATIENCE = 30.0  # seconds to wait for another run that writes to the same file

_SCHEMA = """
CREATE TABLE cells (
    key TEXT PRIMARY KEY,
    identity TEXT NOT NULL,
    declaration TEXT NOT NULL,
    seed INTEGER NOT NULL,
    made_by TEXT NOT NULL,
    measured BLOB NOT NULL,
    seconds REAL NOT NULL,
    method_seconds TEXT NOT NULL,
    checksum TEXT NOT NULL
) WITHOUT ROWID
"""
_INDEX = "CREATE INDEX by_identity ON cells (identity)"


class Shelf(Protocol):
    """Where finished cells go."""

    def finished(self, keys: Collection[str]) -> set[str]:
        """Return which of the named cells are there, whole."""
        ...

    def put(self, task: Task, outcome: Outcome) -> None:
        """Keep a finished cell."""
        ...

    def get(self, keys: Collection[str]) -> dict[str, Outcome]:
        """Return those of the named cells that are there."""
        ...

    def outdated(self, tasks: Iterable[Task]) -> Counter[str]:
        """Return how many of the tasks have results of other code, by what has changed."""
        ...


class Memory:
    """Finished cells in memory, for a run without a file."""

    def __init__(self) -> None:
        self._outcomes: dict[str, Outcome] = {}

    def finished(self, keys: Collection[str]) -> set[str]:
        """Return which of the named cells are there."""
        return self._outcomes.keys() & set(keys)

    def put(self, task: Task, outcome: Outcome) -> None:
        """Keep a finished cell."""
        self._outcomes[task.key] = outcome

    def get(self, keys: Collection[str]) -> dict[str, Outcome]:
        """Return those of the named cells that are there."""
        return {key: self._outcomes[key] for key in keys if key in self._outcomes}

    def outdated(self, tasks: Iterable[Task]) -> Counter[str]:
        """Return nothing: what is in memory is of this code."""
        return Counter()


class Store:
    """A file of results. SQLite's errors become StoreErrors that say what is kept.

    One row per cell, under a key that follows from all that its numbers follow from
    (``Task.key``): cells finish in any order, and figures share them. An aggregation of reports
    keeps its sums instead (``ldpopt.collection.checkpoint``, where the reason is). What both rest
    on has one home each: ``ldpopt.executors`` for workers, ``ldpopt.storage`` for files written in
    one step, ``provenance`` for results that a change of code makes stale.

    Attributes
    ----------
    path
        Of the file.
    remarks
        What was found damaged, one sentence each.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.remarks: list[str] = []
        try:
            # Here, since SQLite creates files and no folders.
            path.parent.mkdir(parents=True, exist_ok=True)
            if _is_damaged(path):
                self._set_aside()
            self._connection = sqlite3.connect(path, timeout=_PATIENCE)
            try:
                self._open()
            except BaseException:
                # A refused file is not held open, so that it can be moved away.
                self._connection.close()
                raise
        except (OSError, sqlite3.Error) as error:
            raise StoreError(
                f"cannot use {path} as the results file ({error}): give another one, or move the "
                "file away"
            ) from None

    def _set_aside(self) -> None:
        """Give a damaged file, which is ours, another name; its journal goes with it."""
        number = 1
        while (aside := self.path.with_name(f"{self.path.name}.damaged-{number}")).exists():
            number += 1
        # A journal that stays would be played back into the new file.
        for suffix in ("", "-journal", "-wal", "-shm"):
            part = self.path.with_name(f"{self.path.name}{suffix}")
            if part.exists():
                part.rename(aside.with_name(f"{aside.name}{suffix}"))
        self.remarks.append(
            f"{self.path} is damaged: it was set aside as {aside.name}, and what it held is "
            "computed anew"
        )

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
                for statement in (_SCHEMA, _INDEX):
                    new = statement.replace("TABLE ", "TABLE IF NOT EXISTS ", 1)
                    connection.execute(new.replace("INDEX ", "INDEX IF NOT EXISTS ", 1))
                connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                connection.execute(f"PRAGMA user_version = {FORMAT}")
                return
        # Before the version: other programs number theirs in the same place.
        if application != _APPLICATION:
            raise StoreError(
                f"{self.path} is not a results file of these experiments: give another one"
            )
        if version != FORMAT:
            raise StoreError(
                f"{self.path} has results of format {version}, this version writes format "
                f"{FORMAT}: nothing in it was touched; give another file, or move this one away to "
                "compute everything anew"
            )

    def keys(self) -> set[str]:
        """Return the names of all finished cells."""
        return {key for (key,) in self._connection.execute("SELECT key FROM cells")}

    def finished(self, keys: Collection[str]) -> set[str]:
        """Return which of the named cells are there, whole; damaged ones are remarked on."""
        whole = set()
        damaged = 0
        for key in keys:
            row = self._row(key)
            if row is None:
                continue
            if row[-1] == _checksum(key, *row[:-1]):
                whole.add(key)
            else:
                damaged += 1
        if damaged:
            self.remarks.append(
                f"damaged in {self.path}, and computed anew: {counted(damaged, 'cell')}"
            )
        return whole

    def put(self, task: Task, outcome: Outcome) -> None:
        """Keep a finished cell: when this returns it is on disk.

        It takes the place of results of the same cell that other code made.
        """
        kept = (dumps(outcome.measured), outcome.seconds, json.dumps(outcome.method_seconds))
        # The declaration as text: a reader of the file sees what a key stands for.
        row = (
            task.key,
            task.identity,
            json.dumps(task.cell.declaration(), sort_keys=True),
            task.seed,
            json.dumps(dict(task.made_by), sort_keys=True),
            *kept,
            _checksum(task.key, *kept),
        )
        try:
            with self._connection as connection:
                connection.execute("DELETE FROM cells WHERE identity = ?", (task.identity,))
                connection.execute("INSERT INTO cells VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        except sqlite3.Error as error:
            raise StoreError(
                f"cannot write to {self.path}: {error}. The cells that finished before are kept; "
                "make room or free the file, then run the same again"
            ) from None

    def get(self, keys: Collection[str]) -> dict[str, Outcome]:
        """Return those of the named cells that are finished."""
        outcomes = {}
        for key in keys:
            row = self._row(key)
            if row is not None and row[-1] == _checksum(key, *row[:-1]):
                outcomes[key] = Outcome(loads(row[0]), row[1], json.loads(row[2]))
        return outcomes

    def outdated(self, tasks: Iterable[Task]) -> Counter[str]:
        """Return how many of the tasks have results of other code, by what has changed."""
        changes: Counter[str] = Counter()
        for task in tasks:
            row = self._connection.execute(
                "SELECT made_by FROM cells WHERE identity = ?", (task.identity,)
            ).fetchone()
            if row is not None:
                former = json.loads(row[0])
                names = former.keys() | task.made_by.keys()
                changes.update(n for n in names if former.get(n) != task.made_by.get(n))
        return changes

    def _row(self, key: str) -> tuple[Any, ...] | None:
        """Return what is kept of a cell, with its checksum, or None."""
        # One query per key: SQLite limits the number of names in one query.
        query = "SELECT measured, seconds, method_seconds, checksum FROM cells WHERE key = ?"
        row: tuple[Any, ...] | None = self._connection.execute(query, (key,)).fetchone()
        return row

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


def _checksum(key: str, measured: bytes, seconds: float, method_seconds: str) -> str:
    """Return a hash of what is kept of a cell: one bit that flips on a disk is noticed."""
    text = f"{key} {seconds!r} {method_seconds}".encode()
    return hashlib.sha256(text + bytes(measured)).hexdigest()


def _is_damaged(path: Path) -> bool:
    """Return whether a file is one of ours that SQLite cannot read whole.

    A file of another program is not called damaged: it must not be moved.
    """
    try:
        with path.open("rb") as file:
            head = file.read(_HEADER)
    except FileNotFoundError:
        return False
    if head[-4:] != _APPLICATION.to_bytes(4, "big") or len(head) < _HEADER:
        return False
    try:
        with closing(sqlite3.connect(path, timeout=_PATIENCE)) as connection:
            return bool(connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok")
    except sqlite3.OperationalError:
        # The file is locked, or cannot be opened: nothing is known against it.
        return False
    except sqlite3.DatabaseError:
        return True

"""The file of finished cells: damage is noticed, other code is named, nothing foreign is moved."""

import sqlite3
from contextlib import closing

import numpy as np
import pytest

from ldpopt.errors import StoreError
from ldpopt.executors import InProcess
from ldpopt.studies.engine import run
from ldpopt.studies.engine import store as storing
from ldpopt.studies.engine.cell import Cell, Outcome, Task
from ldpopt.studies.engine.moments import Values, dumps
from ldpopt.studies.engine.run import compute_cells
from ldpopt.studies.engine.store import Memory, Store

VALUES = Values.of("q", "mse", [""], ["base"], np.arange(200.0).reshape(200, 1, 1))
OUTCOME = Outcome((VALUES,), 0.25, {"base": 0.125})


def task(epsilon=1.0, **made_by):
    cell = Cell("zipf", 10, 4, "abc", "oue", epsilon, (), (), 3)
    return Task(cell, None, None, 0, {"the code": "a", **made_by})


@pytest.fixture
def kept(tmp_path):
    """A file with two finished cells."""
    path = tmp_path / "cells.sqlite"
    with Store(path) as store:
        for epsilon in (1.0, 2.0):
            store.put(task(epsilon), OUTCOME)
    return path


@pytest.fixture
def uncomputed(monkeypatch):
    """Cells cost nothing."""
    monkeypatch.setattr(run, "compute", lambda task: OUTCOME)


def by_key(*tasks):
    return {task.key: task for task in tasks}


def test_a_cell_comes_back_as_it_was(kept):
    with Store(kept) as store:
        ((key, outcome),) = store.get([task().key]).items()
    assert key == task().key
    assert outcome.seconds == 0.25
    assert outcome.method_seconds == {"base": 0.125}
    assert dumps(outcome.measured) == dumps(OUTCOME.measured)


def test_results_of_other_code_are_named_and_replaced(kept, uncomputed):
    changed = {"the code": "b", "numpy": "9"}
    tasks = by_key(task(1.0, **changed), task(2.0), task(3.0))
    with Store(kept) as store:
        summary = compute_cells(tasks, store, InProcess())
        assert (len(summary.computed), len(summary.reused)) == (2, 1)
        assert summary.outdated == {"the code": 1, "numpy": 1}
        assert "changed: " in summary.changes
        assert "the code (1 cell)" in summary.changes
        # The old one is gone: the file does not grow with every change.
        assert store.keys() == set(tasks)
        again = compute_cells(tasks, store, InProcess())
        assert len(again.reused) == 3
        assert again.changes == ""


def test_every_bit_of_a_result_counts(kept):
    with closing(sqlite3.connect(kept)) as connection:
        (content,) = connection.execute("SELECT measured FROM cells").fetchone()
        key = task().key
        for place in (0, len(content) // 2, len(content) - 1):
            flipped = bytearray(content)
            flipped[place] ^= 4
            with connection:
                update = "UPDATE cells SET measured = ? WHERE key = ?"
                connection.execute(update, (bytes(flipped), key))
            with Store(kept) as store:
                assert store.finished([key, task(2.0).key]) == {task(2.0).key}
                assert store.get([key]) == {}
                assert "computed anew: 1 cell" in store.remarks[0]


def test_other_columns_of_a_result_count_too(kept):
    for change in ("seconds = 9", "method_seconds = '{}'"):
        with closing(sqlite3.connect(kept)) as connection, connection:
            connection.execute(f"UPDATE cells SET {change} WHERE key = ?", (task(2.0).key,))
        with Store(kept) as store:
            assert store.finished([task(2.0).key]) == set()


def test_a_damaged_file_is_set_aside_and_begun_anew(kept, uncomputed):
    whole = kept.read_bytes()
    for number, damage in enumerate(
        (
            lambda content: content[: len(content) // 2],
            lambda content: content[:4096] + bytes(len(content) - 4096),
            lambda content: content[:100] + b"\xff" * 2000 + content[2100:],
        ),
        start=1,
    ):
        damaged = damage(whole)
        kept.write_bytes(damaged)
        with Store(kept) as store:
            assert f"set aside as cells.sqlite.damaged-{number}" in store.remarks[0]
            assert len(compute_cells(by_key(task()), store, InProcess()).computed) == 1
        assert kept.with_name(f"cells.sqlite.damaged-{number}").read_bytes() == damaged
        with Store(kept) as store:
            assert store.remarks == []
            assert store.keys() == {task().key}


def test_a_damaged_file_takes_its_journal_along(kept, monkeypatch):
    # SQLite itself removes journals that it can make sense of.
    kept.with_name("cells.sqlite-journal").write_bytes(b"x")
    monkeypatch.setattr(storing, "_is_damaged", lambda path: True)
    Store(kept).close()
    assert not kept.with_name("cells.sqlite-journal").exists()
    assert kept.with_name("cells.sqlite.damaged-1-journal").read_bytes() == b"x"


def test_files_of_other_programs_stay_where_they_are(tmp_path):
    path = tmp_path / "notes"
    path.write_bytes(b"SQLite format 3\x00" + bytes(200))
    with pytest.raises(StoreError, match="results file"):
        Store(path)
    assert [file.name for file in tmp_path.iterdir()] == ["notes"]


def test_a_run_in_memory_keeps_what_it_computed(uncomputed):
    shelf = Memory()
    tasks = by_key(task(1.0), task(2.0))
    assert len(compute_cells(tasks, shelf, InProcess()).computed) == 2
    assert len(compute_cells(tasks, shelf, InProcess()).reused) == 2
    assert shelf.get([task(1.0).key])[task(1.0).key] is OUTCOME


def test_a_failure_does_not_stop_the_others_and_keeps_its_error(monkeypatch):
    def failing(task):
        if task.cell.epsilon == 2:
            raise ValueError("no luck")
        return OUTCOME

    monkeypatch.setattr(run, "compute", failing)
    tasks = by_key(task(1.0), task(2.0), task(3.0))
    summary = compute_cells(tasks, Memory(), InProcess())
    assert len(summary.computed) == 2
    (key,) = summary.failed
    assert "ε = 2: ValueError('no luck')" in summary.failed[key]
    assert str(summary.errors[key]) == "no luck"

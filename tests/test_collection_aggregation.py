"""Counting files: every row counts once or is set aside with a reason, despite interruptions."""

import csv
import json
import shutil
import signal
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ldpopt import collection as files
from ldpopt.collection import aggregation, duplicates, partition
from ldpopt.collection.aggregation import aggregate
from ldpopt.errors import (
    DataUnavailableError,
    InvalidInputError,
    LdpoptError,
    LdpoptWarning,
    WorkersError,
)
from ldpopt.oracles import GRR, OUE
from ldpopt.storage import draft_of
from tests.reports_world import MAKERS, edit, reports_of, rewrite

D = 12
ORACLE = OUE(1.0, D)


@pytest.fixture
def small_parts(monkeypatch):
    """Partitions of one row group, so that small files have several."""
    for limit in ("_WORK", "_FEWEST", "_MOST"):
        monkeypatch.setattr(partition, limit, 1)


def write(path, *groups, oracle=ORACLE, ids=None):
    """Write a row group for each seed; return the reports."""
    all_reports = [reports_of(oracle, 50, seed=seed) for seed in groups]
    with files.ReportWriter(path, oracle) as writer:
        for i, reports in enumerate(all_reports):
            writer.write(reports, None if ids is None else ids[50 * i : 50 * i + 50])
    return np.concatenate(all_reports)


def spoil(path, rows, value=b"?"):
    """Replace reports of a file by something else."""
    table = pq.read_table(path)
    column = table["report"].to_pylist()
    for row in rows:
        column[row] = value
    wrong = table.set_column(0, "report", pa.array(column, pa.binary()))
    rewrite(path, wrong, row_group_size=50)


def corrupt(path, group):
    """Flip the bits of a byte within the reports of a row group."""
    chunk = pq.ParquetFile(path).metadata.row_group(group).column(0)
    content = bytearray(path.read_bytes())
    content[chunk.data_page_offset + chunk.total_compressed_size - 3] ^= 0xFF
    path.write_bytes(content)


def rejected_rows(path):
    return [
        (row["file"], int(row["row"]), row["reason"])
        for row in csv.DictReader(path.read_text("utf-8").splitlines())
    ]


@pytest.mark.parametrize("name", MAKERS)
def test_counts_are_those_of_the_oracle(name, tmp_path, small_parts):
    oracle = MAKERS[name](D)
    every = [write(tmp_path / f"{i}.parquet", 2 * i, 2 * i + 1, oracle=oracle) for i in range(2)]
    files.write_reports(tmp_path / "small.csv", oracle, every[0][:7])
    result = aggregate(tmp_path)
    assert np.array_equal(
        result.counts, oracle.support_counts(np.concatenate([*every, every[0][:7]]))
    )
    assert (result.n, result.rejected, result.unreadable) == (207, {}, [])
    assert result.estimate.n == 207


def test_rows_that_are_no_reports_are_set_aside(tmp_path, small_parts):
    path = tmp_path / "r.parquet"
    rejects = tmp_path / "out" / "rejects.csv"
    reports = write(path, 1, 2, 3)
    spoil(path, [0, 70, 149])
    rejects.parent.mkdir()
    result = aggregate(path, rejects=rejects)
    assert (result.n, result.rejected) == (147, {"wrong length": 3})
    assert np.array_equal(
        result.counts, ORACLE.support_counts(np.delete(reports, [0, 70, 149], axis=0))
    )
    assert rejected_rows(rejects) == [(str(path), row, "wrong length") for row in (0, 70, 149)]
    assert aggregate(path, rejects=rejects).n == 147
    assert len(rejected_rows(rejects)) == 3


@pytest.mark.parametrize(
    ("rate", "stops"), [(0.0, True), (0.019, True), (0.02, False), (1.0, False)]
)
def test_too_many_rejects_stop_the_run(rate, stops, tmp_path, small_parts):
    path = tmp_path / "r.parquet"
    write(path, 1, 2, 3)
    spoil(path, [0, 1, 2])
    if stops:
        with pytest.raises(
            InvalidInputError, match=r"of 150 rows are not reports: . with wrong length"
        ):
            aggregate(path, max_reject_rate=rate)
    else:
        assert aggregate(path, max_reject_rate=rate).n == 147


@pytest.mark.parametrize("bucket_rows", [10, 10**6])
@pytest.mark.parametrize("kind", [str, int])
def test_the_first_report_of_a_client_counts(kind, bucket_rows, tmp_path, small_parts, monkeypatch):
    monkeypatch.setattr(duplicates.mark_duplicates, "__kwdefaults__", {"bucket_rows": bucket_rows})
    rng = np.random.default_rng(0)
    ids = rng.integers(1000, size=300)
    reports = []
    for i in range(2):
        part_ids = [kind(x) for x in ids[150 * i : 150 * i + 150]]
        groups = range(3 * i, 3 * i + 3)
        reports.append(write(tmp_path / f"{i}.parquet", *groups, ids=part_ids))
    rejects = tmp_path.parent / f"{tmp_path.name}.csv"
    result = aggregate(tmp_path, rejects=rejects)
    seen = set()
    first = []
    later = []
    for i, x in enumerate(ids.tolist()):
        (later if x in seen else first).append(i)
        seen.add(x)
    assert 10 < len(later) < 290
    assert np.array_equal(result.counts, ORACLE.support_counts(np.concatenate(reports)[first]))
    assert result.rejected == {"duplicate client id": len(later)}
    expected = [
        (str(tmp_path / f"{i // 150}.parquet"), i % 150, "duplicate client id") for i in later
    ]
    assert rejected_rows(rejects) == expected


def test_a_missing_id_is_set_aside_and_a_bad_report_has_one_reason(tmp_path):
    path = tmp_path / "r.parquet"
    write(path, 1, ids=["same", "same", *map(str, range(48))])
    table = pq.read_table(path)
    ids = table["client_id"].to_pylist()
    ids[5] = None
    rewrite(path, table.set_column(1, "client_id", pa.array(ids)))
    assert aggregate(path).rejected == {"missing client id": 1, "duplicate client id": 1}
    spoil(path, [1])
    assert aggregate(path).rejected == {"missing client id": 1, "wrong length": 1}
    spoil(path, [0, 1], ORACLE.perturb([0]).tobytes())
    spoil(path, [0])
    # The first row is no report: the second one of the same client counts.
    assert aggregate(path).rejected == {"missing client id": 1, "wrong length": 1}


@pytest.mark.parametrize(
    ("other", "words"),
    [(GRR(1.0, D), "oracle"), (OUE(1.1, D), "epsilon"), (OUE(1.0, D + 1), "d")],
    ids=["oracle", "epsilon", "d"],
)
def test_files_of_another_protocol_are_refused(other, words, tmp_path):
    write(tmp_path / "a.parquet", 1)
    write(tmp_path / "b.parquet", 1, oracle=other)
    with pytest.raises(
        InvalidInputError, match=rf"b\.parquet has {words} = .*a\.parquet has {words} = "
    ):
        aggregate(tmp_path, keep_going=True)


def test_files_with_other_labels_or_only_some_ids_or_copies_are_refused(tmp_path):
    write(tmp_path / "a.parquet", 1)
    files.write_reports(
        tmp_path / "b.csv", ORACLE, reports_of(ORACLE, 3), labels=list("abcdefghijkl")
    )
    with pytest.raises(InvalidInputError, match="labels"):
        aggregate(tmp_path)
    files.write_reports(tmp_path / "b.csv", ORACLE, reports_of(ORACLE, 3), client_ids=[1, 2, 3])
    with pytest.raises(InvalidInputError, match="client ids"):
        aggregate(tmp_path)
    (tmp_path / "b.csv").unlink()
    shutil.copy(tmp_path / "a.parquet", tmp_path / "b.parquet")
    with pytest.raises(InvalidInputError, match=r"b\.parquet is a copy of .*a\.parquet"):
        aggregate(tmp_path)


def test_a_file_that_cannot_be_opened_ends_the_run_unless_told_otherwise(tmp_path):
    good = write(tmp_path / "a.parquet", 1, 2)
    write(tmp_path / "b.parquet", 3)
    (tmp_path / "b.parquet").write_bytes((tmp_path / "b.parquet").read_bytes()[:-20])
    with pytest.raises(DataUnavailableError, match=r"b\.parquet"):
        aggregate(tmp_path)
    result = aggregate(tmp_path, keep_going=True)
    assert np.array_equal(result.counts, ORACLE.support_counts(good))
    assert [(part["file"], part["rows"]) for part in result.unreadable] == [
        (str(tmp_path / "b.parquet"), None)
    ]
    with pytest.raises(DataUnavailableError, match="none of the files can be read"):
        aggregate(tmp_path / "b.parquet", keep_going=True)


@pytest.mark.parametrize("with_ids", [False, True])
def test_a_corrupt_part_adds_nothing_and_is_named(with_ids, tmp_path, small_parts):
    path = tmp_path / "r.parquet"
    reports = write(path, 1, 2, 3, ids=[f"{i}" for i in range(150)] if with_ids else None)
    corrupt(path, 1)
    with pytest.raises(DataUnavailableError, match=r"r\.parquet is truncated, corrupt"):
        aggregate(path)
    result = aggregate(path, keep_going=True)
    assert np.array_equal(
        result.counts, ORACLE.support_counts(np.concatenate([reports[:50], reports[100:]]))
    )
    assert [(part["row"], part["rows"]) for part in result.unreadable] == [(50, 50)]
    assert result.n + sum(result.rejected.values()) + 50 == 150


def test_unreadable_ids_are_trouble_of_their_part_alone(tmp_path, small_parts):
    path = tmp_path / "r.parquet"
    write(path, 1, 2, ids=[f"client {i % 90}" for i in range(100)])
    chunk = pq.ParquetFile(path).metadata.row_group(0).column(1)
    content = bytearray(path.read_bytes())
    content[chunk.data_page_offset + chunk.total_compressed_size - 3] ^= 0xFF
    path.write_bytes(content)
    result = aggregate(path, keep_going=True)
    assert result.n == 50  # the ten clients of the lost part that report again are not known to
    assert [(part["row"], part["rows"]) for part in result.unreadable] == [(0, 50)]


def test_a_file_that_changes_while_it_is_counted_is_refused(tmp_path):
    path = tmp_path / "r.parquet"
    write(path, 1)
    opened = files.open_reports(path)
    (part,) = partition.partitions(opened, (1, 1), 0, 1)
    with pytest.raises(InvalidInputError, match="changed while"):
        partition.count_partition(part)


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan")])
def test_a_rate_that_is_none_is_refused(rate, tmp_path):
    with pytest.raises(InvalidInputError, match=r"\(--max-reject-rate\) is a share of rows"):
        aggregate(tmp_path, max_reject_rate=rate)


# --- interrupted ----------------------------------------------------------------------------------


def stop_after(finished):
    def stop(done, total):
        if done == finished:
            raise KeyboardInterrupt

    return stop


@pytest.fixture
def reported(tmp_path):
    """Two files of two row groups, with a bad row in every group and clients that report twice."""
    folder = tmp_path / "reports"
    for i in range(2):
        write(
            folder / f"{i}.parquet",
            2 * i,
            2 * i + 1,
            ids=[f"{(100 * i + j) % 190}" for j in range(100)],
        )
        spoil(folder / f"{i}.parquet", [3, 60])
    return folder


@pytest.mark.parametrize("finished", [1, 2, 3, 4])
def test_an_interrupted_run_goes_on_where_it_stopped(finished, reported, tmp_path, small_parts):
    state = tmp_path / "state"
    rejects = tmp_path / "rejects.csv"
    whole = aggregate(reported, rejects=rejects)
    expected = rejects.read_bytes()
    with pytest.raises(KeyboardInterrupt):
        aggregate(reported, rejects=rejects, state=state, on_partition=stop_after(finished))
    with rejects.open("a") as file:
        file.write("written after the last commit")
    counted = []
    result = aggregate(
        reported,
        rejects=rejects,
        state=state,
        on_partition=lambda done, total: counted.append((done, total)),
    )
    assert counted == [(done, 4) for done in range(finished + 1, 5)]
    assert np.array_equal(result.counts, whole.counts)
    assert (result.n, result.rejected) == (whole.n, whole.rejected)
    assert rejects.read_bytes() == expected


def test_a_run_may_go_on_with_partitions_of_another_size(reported, tmp_path, monkeypatch):
    state = tmp_path / "state"
    whole = aggregate(reported)
    with monkeypatch.context() as small:
        for limit in ("_WORK", "_FEWEST", "_MOST"):
            small.setattr(partition, limit, 1)
        with pytest.raises(KeyboardInterrupt):
            aggregate(reported, state=state, on_partition=stop_after(1))
    result = aggregate(reported, state=state)
    assert np.array_equal(result.counts, whole.counts)
    assert (result.n, result.rejected) == (whole.n, whole.rejected)


def test_a_run_that_goes_on_with_a_lower_rate_stops_at_once(reported, tmp_path, small_parts):
    state = tmp_path / "state"
    with pytest.raises(KeyboardInterrupt):
        aggregate(reported, state=state, on_partition=stop_after(1))
    before = state.read_bytes()
    with pytest.raises(InvalidInputError, match="more than 0 of 200 rows"):
        aggregate(reported, state=state, max_reject_rate=0)
    assert state.read_bytes() == before, "another partition was counted"


def test_partitions_are_as_large_as_their_limit(tmp_path, monkeypatch):
    path = tmp_path / "r.parquet"
    write(path, 1, 2, 3)
    for limit in ("_FEWEST", "_MOST"):
        monkeypatch.setattr(partition, limit, 100)
    parts = partition.partitions(files.open_reports(path), partition.stamp_of(path), 0, 3)
    assert [(part.row, part.rows) for part in parts] == [(0, 100), (100, 50)]


def test_rows_of_text_with_other_numbers_of_fields_are_set_aside(tmp_path):
    path = tmp_path / "r.csv"
    oracle = GRR(1.0, 4)
    files.write_reports(path, oracle, [1, 2, 3])
    edit(path, lambda text: text.replace("\n2,\n", "\n2,9\n"))
    result = aggregate(path)
    assert (result.n, result.rejected) == (2, {"wrong length": 1})
    assert result.counts.tolist() == [0, 1, 0, 1]


def test_files_may_be_added_to_an_interrupted_run(reported, tmp_path, small_parts):
    state = tmp_path / "state"
    with pytest.raises(KeyboardInterrupt):
        aggregate(reported, state=state, on_partition=stop_after(3))
    write(
        reported / "-new.parquet", 9, ids=[f"{i}" for i in range(50)]
    )  # all of them reported before; sorted first
    result = aggregate(reported, state=state)
    assert list(result.files)[-1] == str(reported / "-new.parquet")
    # The client whose first row is no report has its first one there.
    assert result.rejected["duplicate client id"] == 49 + 10
    assert result.n + sum(result.rejected.values()) == 250


def test_a_state_of_something_else_is_refused(reported, tmp_path, small_parts):
    state = tmp_path / "state"
    rejects = tmp_path / "rejects.csv"
    with pytest.raises(KeyboardInterrupt):
        aggregate(reported, state=state, rejects=rejects, on_partition=stop_after(1))
    with pytest.raises(InvalidInputError, match="name the same file"):
        aggregate(reported, state=state)
    with pytest.raises(InvalidInputError, match="not among the files"):
        aggregate(reported / "1.parquet", state=state, rejects=rejects)
    write(tmp_path / "other.parquet", 1, oracle=GRR(1.0, D))
    with pytest.raises(InvalidInputError, match="state of an aggregation of"):
        aggregate(tmp_path / "other.parquet", state=state, rejects=rejects)
    kept = rejects.read_bytes()
    rejects.write_bytes(b"")
    with pytest.raises(InvalidInputError, match="lost rows"):
        aggregate(reported, state=state, rejects=rejects)
    rejects.write_bytes(kept)
    spoil(reported / "0.parquet", [7])
    with pytest.raises(InvalidInputError, match="has changed"):
        aggregate(reported, state=state, rejects=rejects)
    record = json.loads(state.read_text())
    state.write_text(json.dumps(record | {"version": "0.0.1"}))
    with pytest.raises(InvalidInputError, match=r"by ldpopt 0\.0\.1, this is"):
        aggregate(reported, state=state, rejects=rejects)
    state.write_text("{}")
    with pytest.raises(DataUnavailableError, match="is not the state"):
        aggregate(reported, state=state, rejects=rejects)


KILLED = """
import sys
from pathlib import Path
from ldpopt.collection import partition
from ldpopt.collection.aggregation import aggregate
partition._WORK = partition._FEWEST = partition._MOST = 1
folder, state, rejects = map(Path, sys.argv[1:])
def wait(done, total):
    print(done, flush=True)
    sys.stdin.readline()
aggregate(folder, state=state, rejects=rejects, on_partition=wait)
"""


def test_sigkill_at_any_time_changes_nothing(tmp_path, small_parts):
    folder = tmp_path / "reports"
    state = tmp_path / "state"
    rejects = tmp_path / "rejects.csv"
    for i in range(4):
        write(folder / f"{i}.parquet", *range(10 * i, 10 * i + 10))
        spoil(folder / f"{i}.parquet", range(0, 500, 7))
    whole = aggregate(folder, rejects=rejects)
    expected = rejects.read_bytes()
    for lines in (1, 8):
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(folder), str(state), str(rejects)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with process:
            for _ in range(lines):
                assert process.stdout.readline()
                process.stdin.write("go on\n")
                process.stdin.flush()
            # It counts the next partition now, and would wait after it: killed within or after it.
            process.send_signal(signal.SIGKILL)
            assert process.wait() == -signal.SIGKILL
    finished = json.loads(state.read_text())["n"]
    assert 0 < finished < whole.n
    counted = []
    result = aggregate(
        folder, rejects=rejects, state=state, on_partition=lambda done, total: counted.append(done)
    )
    assert 8 < counted[0] <= 11
    assert counted[-1] == 40
    assert np.array_equal(result.counts, whole.counts)
    assert (result.n, result.rejected) == (whole.n, whole.rejected)
    assert rejects.read_bytes() == expected


# --- shared out -----------------------------------------------------------------------------------


def test_processes_count_the_same(reported, tmp_path):
    rejects = tmp_path / "rejects.csv"
    alone = aggregate(reported, rejects=rejects)
    expected = rejects.read_bytes()
    shared = aggregate(reported, rejects=rejects, workers=2)
    assert np.array_equal(shared.counts, alone.counts)
    assert shared.rejected == alone.rejected
    assert rejects.read_bytes() == expected


def test_a_rejects_file_that_cannot_be_written_is_refused_before_a_row_is_rejected(tmp_path):
    files.write_reports(tmp_path / "a.parquet", GRR(1.0, 3), np.array([0, 1, 2]))
    rejects = tmp_path / "rejects.csv"
    # A folder has the name under which the file is written first.
    draft_of(rejects).mkdir()
    with pytest.raises(InvalidInputError, match=r"rejects\.csv"):
        aggregate(tmp_path / "a.parquet", rejects=rejects)


@pytest.mark.parametrize("workers", [0, -1, 1.5, "2"])
def test_a_wrong_number_of_workers_is_refused_before_a_file_is_opened(workers, tmp_path):
    with pytest.raises(LdpoptError, match="workers must be"):
        aggregate(tmp_path / "missing", workers=workers)


def die(partition):
    import os

    os._exit(1)


def test_the_death_of_a_process_is_reported(reported, monkeypatch):
    monkeypatch.setattr(aggregation, "count_partition", die)
    state = reported.parent / "state"
    with pytest.raises(WorkersError, match=r"worker process died.*kept in .*state: the same call"):
        aggregate(reported, workers=2, state=state)


def test_without_a_state_no_resumption_is_promised(reported, monkeypatch):
    def dead(*_):
        raise WorkersError("a worker process died")

    monkeypatch.setattr(aggregation, "results", dead)
    with pytest.raises(WorkersError, match=r"^a worker process died$"):
        aggregate(reported)


@pytest.mark.parametrize("cls", [GRR, OUE])
def test_many_reports_over_fewer_values_are_told(tmp_path, cls):
    # Their bytes are those of seven values: one byte of bits, or small numbers.
    reports = cls(1.0, 6).perturb(np.arange(600) % 6, rng=3)
    for n in (600, 20):
        files.write_reports(tmp_path / str(n) / "0.parquet", cls(1.0, 7), reports[:n])
    with pytest.warns(LdpoptWarning, match="none of the 600 reports supports value 6"):
        aggregate(tmp_path / "600")
    # Of few reports it may be chance: no warning, which would be an error here.
    assert aggregate(tmp_path / "20").counts[6] == 0

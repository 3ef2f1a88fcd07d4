"""What commands do to files: no input is lost, two runs never share one, errors have statuses."""

import contextlib
import errno
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ldpopt.cli import main, shared
from ldpopt.cli.app import COMMANDS
from ldpopt.collection import aggregate, files, partition, write_reports
from ldpopt.collection.seal import BLANK, sealed
from ldpopt.errors import InvalidInputError
from ldpopt.oracles import GRR
from ldpopt.storage import draft_of, drafted, held, lock_of, write_whole
from tests.commands import run
from tests.reports_world import edit

ORACLE = GRR(1.0, 4)


@pytest.fixture
def world(tmp_path, monkeypatch):
    """A folder to be in, with every kind of input."""
    monkeypatch.chdir(tmp_path)
    reports = np.arange(100) % 4
    write_reports("r.csv", ORACLE, reports)
    write_reports("r.parquet", ORACLE, reports)
    write_reports("in/part.parquet", ORACLE, reports)
    assert run("aggregate", "r.parquet", "--out", "c.json").status == 0
    assert run("aggregate", "r.parquet", "--out", "c.csv").status == 0
    (tmp_path / "v.csv").write_text("value\n0\n1\n")
    (tmp_path / "labels.csv").write_text("a\nb\nc\nd\n")
    (tmp_path / "s.json").write_text('{"one": [0, 1]}')
    (tmp_path / "link.csv").symlink_to("r.csv")
    (tmp_path / "hard.csv").hardlink_to(tmp_path / "v.csv")
    return tmp_path


def contents(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def hidden(folder):
    return [path for path in folder.iterdir() if path.name.startswith(".")]


PERTURB = ["--oracle", "grr", "--epsilon", "1", "--domain"]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("aggregate r.csv --out r.csv", "would replace r.csv"),
        ("aggregate r.csv --out link.csv", "would replace r.csv"),
        ("aggregate link.csv --out r.csv", "would replace link.csv"),
        ("aggregate r.parquet --out x.json --rejects r.parquet", "would replace r.parquet"),
        ("aggregate in --out x.json --rejects in/part.parquet", "would replace in/part.parquet"),
        ("aggregate in --out in/x.json", "in/x.json lies in in"),
        ("aggregate r.parquet --out x.json --rejects x.json", "are one file"),
        ("aggregate r.parquet --out x.json --rejects ./x.json", "are one file"),
        ("aggregate r.parquet --out x.json --rejects .x.json.state", "are one file"),
        ("aggregate r.parquet --out x.json --rejects v.csv", "is not a file of rejects"),
        ("aggregate r.parquet --out x.json --rejects /dev/null", "it is a device"),
        ("estimate r.parquet --out r.parquet", "would replace r.parquet"),
        ("estimate c.json --out c.json", "would replace c.json"),
        ("estimate c.csv --out c.csv", "would replace c.csv"),
        ("estimate c.json --query s.json --answers s.json", "would replace s.json"),
        ("estimate c.json --domain labels.csv --out labels.csv", "would replace labels.csv"),
        ("estimate c.json --query s.json --out x.csv --answers x.csv", "are one file"),
        ("estimate in --out in/est.csv", "in/est.csv lies in in"),
        (f"perturb v.csv {' '.join(PERTURB)} 4 --out v.csv", "would replace v.csv"),
        (f"perturb v.csv {' '.join(PERTURB)} 4 --out hard.csv", "would replace v.csv"),
        (f"perturb v.csv {' '.join(PERTURB)} labels.csv --out labels.csv", "would replace labels"),
    ],
)
def test_no_command_writes_over_what_it_reads(command, words, world):
    before = contents(world)
    result = run(*command.split())
    assert result.status == 2
    assert words in result.err
    assert contents(world) == before


def test_a_draft_that_is_an_input_is_refused_too(world):
    (world / ".c.csv.part").write_bytes((world / "c.json").read_bytes())
    assert "would replace .c.csv.part" in run("estimate", ".c.csv.part", "--out", "c.csv").err


def test_two_runs_do_not_share_an_output(world):
    with held(world / "c.json"):
        result = run("aggregate", "r.parquet", "--out", "c.json")
    assert (result.status, "another run is writing" in result.err) == (2, True)
    with held(world / "r.rejects.csv"), pytest.raises(InvalidInputError, match="another run"):
        aggregate("r.parquet", rejects="r.rejects.csv")
    with drafted(world / "c.json"), pytest.raises(InvalidInputError, match="another run"):
        write_whole(world / "c.json", b"")
    assert run("aggregate", "r.parquet", "--out", "c.json", "--recount").status == 0
    assert {path.suffix for path in hidden(world)} == {".state"}


def test_drafts_and_locks_that_a_kill_left_are_found_again(world):
    path = world / "c.json"
    before = path.read_bytes()
    for name in (draft_of(path), lock_of(path)):
        name.write_bytes(b"half a file")
    assert run("aggregate", "r.parquet", "--out", "c.json", "--recount").status == 0
    assert path.read_bytes() == before
    assert {path.suffix for path in hidden(world)} == {".state"}


def test_drafts_of_parts_that_a_kill_left_are_removed(tmp_path):
    killed = tmp_path / ".part-000000-0123abcd.parquet.part"
    young = tmp_path / ".part-000000-4567cdef.parquet.part"
    slow = tmp_path / "part-000000-89abcdef.parquet"
    killed.write_bytes(b"half a file")
    young.write_bytes(b"half a file")
    with drafted(slow) as draft:
        draft.write_bytes(b"the other half comes")
        for old in (killed, draft):
            os.utime(old, (0, 0))
        part = files.append_reports(tmp_path, ORACLE, [0, 1])
    assert sorted(tmp_path.iterdir()) == sorted([young, slow, part])


def test_a_draft_that_is_a_link_is_not_followed(world):
    draft_of(world / "c.json").symlink_to(world / "v.csv")
    result = run("aggregate", "r.parquet", "--out", "c.json")
    assert (result.status, "cannot write to c.json" in result.err) == (2, True)
    assert (world / "v.csv").read_text() == "value\n0\n1\n"


def test_a_failed_write_leaves_no_draft(world, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    before = (world / "c.json").read_bytes()
    with monkeypatch.context() as disk:
        disk.setattr(os, "fsync", full)
        with pytest.raises(InvalidInputError, match=r"c\.json: No space left"):
            write_whole(world / "c.json", b"x")
        with pytest.raises(InvalidInputError, match=r"w\.csv: No space left"):
            write_reports("w.csv", ORACLE, [0])
        with pytest.raises(InvalidInputError, match=r"w\.parquet: No space left"):
            write_reports("w.parquet", ORACLE, [0])
        rejected = run("aggregate", "r.csv", "--out", "x.json")
    assert (rejected.status, "No space left" in rejected.err) == (2, True)
    assert (world / "c.json").read_bytes() == before
    assert {path.suffix for path in hidden(world)} <= {".state"}
    assert not list(world.glob("w.*"))


# --- folders --------------------------------------------------------------------------------------


def test_folders_are_read_whole_or_not_at_all(world, monkeypatch):
    folder = world / "in"
    (folder / "deep" / ".hidden").mkdir(parents=True)
    write_reports(folder / "deep" / "part.parquet", ORACLE, [0])
    (folder / "deep" / ".hidden" / "notes.txt").write_text("not read")
    assert aggregate(folder).n == 101

    walk = os.scandir

    def locked(path):
        if str(path).endswith("deep"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return walk(path)

    with monkeypatch.context() as rights:
        rights.setattr(os, "scandir", locked)
        with pytest.raises(InvalidInputError, match=r"cannot read the folder .*deep: Permission"):
            aggregate(folder, keep_going=True)
    for make, words in (
        (lambda path: path.symlink_to("nowhere.parquet"), "a link to a file that is not there"),
        (lambda path: path.symlink_to(world), "a link to a folder"),
        (os.mkfifo, "a device, pipe or socket"),
    ):
        odd = folder / "deep" / "odd.parquet"
        make(odd)
        with pytest.raises(InvalidInputError, match=rf"odd\.parquet is .*{words}"):
            aggregate(folder, keep_going=True)
        with pytest.raises(InvalidInputError, match=r"odd\.parquet"):
            files.open_reports(odd)
        odd.unlink()


@pytest.mark.parametrize("path", ["x" * 300 + ".csv", "r.csv/r.csv"])
def test_a_path_that_cannot_be_is_named(path, world):
    for command in (["aggregate", path, "--out", "x.json"], ["estimate", path]):
        assert run(*command).status == 2
    assert run("aggregate", "r.csv", "--out", path).status == 2
    with pytest.raises(InvalidInputError, match=r"\.csv"):
        files.open_reports(path)


# --- runs that are taken up -----------------------------------------------------------------------


@pytest.fixture
def interrupted(world, monkeypatch):
    """A run with --keep-going over two row groups, of which the second cannot be read."""
    for limit in ("_WORK", "_FEWEST", "_MOST"):
        monkeypatch.setattr(partition, limit, 1)
    with files.ReportWriter("two.parquet", ORACLE) as writer:
        for _ in range(3):
            writer.write(np.arange(50) % 4)
    reader = partition.open_reports

    class Bad:
        def __init__(self, path, schema):
            self.file = reader(path, schema)
            self.header = self.file.header
            self.layout = self.file.layout

        def batches(self, first, last):
            if first == 1:
                raise files.DataUnavailableError("two.parquet is corrupt")
            return self.file.batches(first, last)

    monkeypatch.setattr(partition, "open_reports", Bad)

    def stop(done, total):
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        aggregate("two.parquet", keep_going=True, state=".x.json.state", on_partition=stop)
    return world / ".x.json.state"


def test_a_run_that_left_out_parts_is_not_taken_up_without_the_option(interrupted):
    with pytest.raises(
        InvalidInputError, match=r"left out .*two\.parquet is corrupt.*--keep-going"
    ):
        aggregate("two.parquet", state=interrupted)
    result = aggregate("two.parquet", state=interrupted, keep_going=True)
    assert (result.n, [part["rows"] for part in result.unreadable]) == (100, [50])


def test_partial_results_have_a_status_of_their_own(interrupted):
    interrupted.unlink()
    assert run("aggregate", "two.parquet", "--out", "x.json").status == 2
    result = run("aggregate", "two.parquet", "--out", "x.json", "--keep-going")
    assert (result.status, shared.PARTIAL) == (3, 3)
    assert "Not counted, 50 rows from row 50" in result.err
    assert json.loads((interrupted.parent / "x.json").read_text())["n"] == 100


STATES = {
    "edited": (lambda text: text.replace('"n": 50', '"n": 51'), "corrupt or was edited"),
    "other counts": (
        lambda text: resealed(text, counts="AAAAAAAAAAA=" * 3 + "BwAAAAAAAAA="),
        "is not the state",
    ),
    "a lower sum": (
        lambda text: resealed(text, counts="DQAAAAAAAAANAAAAAAAAAAwAAAAAAAAACwAAAAAAAAA="),
        "has counts with the sum 49, but that of 50 reports is 50",
    ),
    "more rows": (
        lambda text: resealed(text, rejected={"out of range": 3}),
        "accounts for 103 rows, but 100 were finished",
    ),
    "more groups": (
        lambda text: resealed(
            text,
            files={name: [*begun[:3], 7] for name, begun in json.loads(text)["files"].items()},
        ),
        "more row groups",
    ),
    "another reason": (lambda text: resealed(text, rejected={"boredom": 0}), "is not the state"),
    **{
        f"{field} as {value!r}": (
            lambda text, field=field, value=value: resealed(text, **{field: value}),
            "state of an aggregation",
        )
        for field in ("protocol", "counts", "n", "rejected", "unreadable", "files")
        for value in (None, -1, "x", [[]], {"x": "y"})
    },
    "nested": (lambda text: "[" * 100_000, "is not the state"),
    "no object": (lambda text: "[]", "is not the state"),
    "no text": (lambda text: "\udcff", "is not the state"),
}


def resealed(text, **fields):
    return sealed(json.dumps(json.loads(text) | {"sha256": BLANK} | fields).encode()).decode()


@pytest.mark.parametrize("case", STATES)
def test_a_state_that_was_edited_is_refused(case, interrupted):
    change, words = STATES[case]
    text = interrupted.read_text()
    interrupted.write_text(change(text), errors="surrogateescape")
    with pytest.raises(InvalidInputError, match=words):
        aggregate("two.parquet", state=interrupted, keep_going=True)


# --- how commands end -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (ZeroDivisionError("x"), 70, ["This is a defect", "ZeroDivisionError: x", "'methods'"]),
        (MemoryError(), 2, ["Error: there is not enough memory"]),
        (OSError(errno.ENOSPC, "No space left"), 2, ["Error: cannot read or write: No space left"]),
        (OSError(errno.EACCES, "Permission denied", "x.csv"), 2, ["Error: x.csv: Permission"]),
        (BrokenPipeError(), 141, []),
    ],
    ids=["defect", "memory", "disk", "file", "pipe"],
)
def test_unexpected_errors_have_a_status(error, status, words, monkeypatch):
    def fail(*_):
        raise error

    monkeypatch.setattr("ldpopt.rendering.methods_table.methods_table", fail)
    result = run("methods")
    assert result.status == status
    assert all(word in result.err for word in words)
    assert ("Traceback" in result.err) == (status == 70)


@pytest.mark.skipif(sys.platform == "darwin", reason="its file systems take text alone")
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_names_that_are_not_text_are_names(suffix, world):
    Path(f"r.{suffix}").rename(f"r\udcff.{suffix}")
    command = ["aggregate", f"r\udcff.{suffix}", "--out", "c\udcff.json", "--json"]
    assert run(*command).status == 0
    Path("v.csv").rename("v\udcff.csv")
    about = ["--oracle", "grr", "--epsilon", "1", "--domain", "4", "--out", f"w\udcff.{suffix}"]
    assert run("perturb", "v\udcff.csv", *about).status == 0
    assert run("estimate", f"w\udcff.{suffix}", "--out", f"e\udcff.{suffix}").status == 0
    spoiled = world / f"x\udcff.{suffix}"
    spoiled.write_bytes((world / f"w\udcff.{suffix}").read_bytes()[:-9])
    result = run("aggregate", spoiled.name, "--out", "d.json")
    assert (result.status, "truncated" in result.err) == (2, True)
    write_reports("q.csv", ORACLE, [0, 1])
    Path("q.csv").rename("q\udcff.csv")
    edit(world / "q\udcff.csv", lambda text: text.replace("\n1,\n", "\n7,\n"))
    assert run("aggregate", "q\udcff.csv", "--out", "d.json").status == 0
    assert rb"q\udcff.csv,1,out of range" in (world / "d.rejects.csv").read_bytes()


# --- terminals ------------------------------------------------------------------------------------


def run_in_terminal(encoding, *arguments):
    """Run a command whose output has an encoding; return its status and what it printed."""
    out = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    err = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        with pytest.raises(SystemExit) as stop:
            main(list(arguments))
        out.flush()
        err.flush()
    return stop.value.code, out.buffer.getvalue(), err.buffer.getvalue()


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_terminals_that_are_not_utf8_show_everything(encoding, world):
    for command in COMMANDS:
        status, shown, _ = run_in_terminal(encoding, command, "--help")
        assert (status, b"Usage" in shown) == (0, True)
    (world / "labels.txt").write_text("grün\n😀\n日本\nd\n", encoding="utf-8")
    for options in ([], ["--json"]):
        status, shown, _ = run_in_terminal(
            encoding, "estimate", "c.json", "--domain", "labels.txt", *options
        )
        assert status == 0
        # JSON to an ASCII terminal is written in UTF-8, whatever the terminal makes of it.
        assert b"\\u65e5" in shown.lower() or "日本".encode() in shown
    audit = ["audit", "--oracle", "grr", "--epsilon", "1", "--d", "3", "--n", "1000"]
    # At the usual confidence an honest client fails in one of a thousand runs.
    audit += ["--confidence", "0.999999"]
    assert run_in_terminal(encoding, *audit)[0] == 0
    assert run_in_terminal(encoding, "methods")[0] == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_output_to_a_full_disk_is_an_error_in_a_sentence():
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "ldpopt", "methods", "--json"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "No space left on device" in done.stderr


@pytest.mark.parametrize("happens", ["renamed", "removed"])
def test_a_file_that_was_another_runs_draft_is_not_taken_for_ours(happens, tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")
    path = tmp_path / "x.json"
    lock = fcntl.flock
    pending = [happens]

    def flock(descriptor, operation):
        # Between the opening and the lock, the other run ends: our file is its result, or gone.
        if pending:
            pending.clear()
            draft = draft_of(path)
            draft.rename(path) if happens == "renamed" else draft.unlink()
        lock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    with drafted(path) as draft:
        # The lock is that of the file which has the draft's name now.
        with pytest.raises(InvalidInputError, match="another run"), drafted(path):
            pass
        draft.write_bytes(b"ours")
    assert path.read_bytes() == b"ours"
    assert [*tmp_path.iterdir()] == [path]


def test_a_file_system_without_locks_is_written_to(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")

    def refuse(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    write_whole(tmp_path / "x.json", b"x")
    assert (tmp_path / "x.json").read_bytes() == b"x"

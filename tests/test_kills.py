"""Commands that are killed at random moments, and disks that are full: nothing is lost or doubled.

Each kill is a process of its own. `make torture` kills fifty times as often.
"""

import contextlib
import errno
import fcntl
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pytest

from ldpopt.collection import ReportWriter, partition
from ldpopt.collection import files as report_files
from tests.commands import run
from tests.reports_world import MAKERS, edit, reports_of, rewrite

TIMES = int(os.environ.get("LDPOPT_TORTURE", "1"))
ORACLE = MAKERS["grr"](4)

# Partitions of one row group, so that there is much to be interrupted.
COMMAND = """
import sys
from ldpopt.collection import partition
partition._WORK = partition._FEWEST = partition._MOST = 1
from ldpopt.cli import main
if __name__ == "__main__":
    main(sys.argv[1:])
"""


@pytest.fixture
def world(tmp_path, monkeypatch):
    """Reports of clients of whom many report twice, in several files of many row groups."""
    monkeypatch.chdir(tmp_path)
    for limit in ("_WORK", "_FEWEST", "_MOST"):
        monkeypatch.setattr(partition, limit, 1)
    for number in range(2):
        with ReportWriter(f"in/{number}.parquet", ORACLE) as writer:
            for group in range(8):
                ids = [f"{(37 * (8 * number + group) + i) % 250}" for i in range(30)]
                writer.write(reports_of(ORACLE, 30, seed=group), ids)
    report_files.write_reports("in/2.csv", ORACLE, [0, 1, 2], client_ids=["x", "y", "z"])
    edit(tmp_path / "in" / "2.csv", lambda text: text.replace("\n1,y", "\n7,y"))
    # No ids, and many rows that are set aside.
    report_files.write_reports("bad/r.parquet", ORACLE, [0])
    table = pa.table({"report": np.arange(200) % 7})
    rewrite(tmp_path / "bad" / "r.parquet", table, row_group_size=40)
    (tmp_path / "command.py").write_text(COMMAND)
    return tmp_path


def results(folder):
    """Return the outputs of a run that ended, with the rows of rejects in any order."""
    counts = json.loads((folder / "c.json").read_text())
    rejects = sorted((folder / "c.rejects.csv").read_text().splitlines())
    return counts["counts"], counts["n"], counts["rejected"], rejects


def restart(folder):
    """Remove what a run has counted, and what it keeps for the next one."""
    (folder / "c.json").unlink()
    (folder / ".c.json.state").unlink()


def hidden(folder):
    return [path for path in folder.rglob("*") if path.name.startswith(".")]


def until_unlocked(path):
    """Wait for the end of all processes that hold a lock: workers may end after the first one."""
    with contextlib.suppress(FileNotFoundError), path.open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)


@pytest.mark.parametrize("workers", [2] if TIMES == 1 else [1, 2])
def test_a_command_that_is_killed_at_random_moments_ends_right(workers, world):
    command = ["aggregate", "in", "--out", "c.json", "--workers", str(workers)]
    assert run(*command[:-2]).status == 0
    expected = results(world)
    restart(world)
    moments = random.Random(workers)
    for _ in range(TIMES):
        for _ in range(2):
            process = subprocess.Popen(
                [sys.executable, "command.py", *command],
                stderr=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
            # Once it has begun to count, at any moment.
            while process.poll() is None and not (world / ".c.json.lock").exists():
                time.sleep(0.01)
            time.sleep(moments.uniform(0, 0.3 * workers))
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            until_unlocked(world / ".c.json.lock")
        assert run(*command[:-2]).status == 0
        assert results(world) == expected
        assert hidden(world) == [world / ".c.json.state"]
        restart(world)


@contextlib.contextmanager
def disk_of(size):
    """Let every file of this process have so many bytes at most, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # The signal would end the process; without it the write fails.
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


# The heading of rejects has 16 bytes, a state some 600, all rejects 2,000, the ids' hashes 13,000.
SIZES = [0, 20, 500, 1200, 1900, 5000]


@pytest.mark.parametrize("folder", ["in", "bad"])
@pytest.mark.parametrize("size", SIZES if TIMES == 1 else range(0, 20_000, 100))
def test_a_full_disk_is_a_sentence_and_the_command_goes_on_later(size, folder, world):
    command = ["aggregate", folder, "--out", "c.json"]
    assert run(*command).status == 0
    expected = results(world)
    before = (world / "c.json").read_bytes()
    with disk_of(size):
        result = run(*command, "--recount")
    assert result.status == (0 if (folder, size) == ("bad", 5000) else 2) or TIMES > 1
    assert result.status == 0 or os.strerror(errno.EFBIG) in result.err
    # What was there is still there, whole.
    assert (world / "c.json").read_bytes() == before
    assert {path.suffix for path in hidden(world)} <= {".state"}
    assert run(*command).status == 0
    assert results(world) == expected
    assert hidden(world) == [world / ".c.json.state"]


@pytest.mark.parametrize("size", [10, 300, 1500])
def test_no_command_leaves_half_a_file_on_a_full_disk(size, world):
    (world / "v.csv").write_text("value\n" + "0\n1\n3\n" * 300)
    assert run("aggregate", "in", "--out", "c.json").status == 0
    perturb = ["perturb", "v.csv", "--oracle", "oue", "--epsilon", "1", "--domain", "4"]
    commands = {
        **{f"r.{suffix}": perturb for suffix in ("csv", "parquet")},
        **{f"e.{suffix}": ["estimate", "c.json"] for suffix in ("csv", "parquet", "json")},
    }
    failures = 0
    for name, command in commands.items():
        with disk_of(size):
            result = run(*command, "--out", name)
        assert (result.status == 0) == (world / name).exists()
        if result.status:
            failures += 1
            assert (result.status, f"cannot write {name}: File too large" in result.err) == (
                2,
                True,
            )
        assert hidden(world) == [world / ".c.json.state"]
    assert failures >= {10: 5, 300: 3, 1500: 1}[size]


def test_interruptions_of_workers_print_one_line(world):
    process = subprocess.Popen(
        [sys.executable, "command.py", "aggregate", "in", "--out", "c.json", "--workers", "2"],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
        text=True,
    )
    while process.poll() is None and not (world / ".c.json.lock").exists():
        time.sleep(0.01)
    time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    _, printed = process.communicate()
    if process.returncode:
        assert (process.returncode, printed) == (130, "Interrupted.\n")
    assert {path.suffix for path in hidden(world)} <= {".state"}

"""Run the tests in a process of their own and state what came of it, without this machine's paths.

Tests fail elsewhere than they were written: what is printed may be copied into an issue, so it
names the project's files from its root and no folder above it.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.texts import ROOT

_SUMMARY = re.compile(r"^=*\s*(.+ in \d[\d.]*s\b[^=]*?)\s*=*$", re.MULTILINE)
_SHARE = re.compile(r"\[\s*(\d+)%\]\s*$")
_FAILURE = re.compile(r"^(?:FAILED|ERROR):? .+", re.MULTILINE)


@dataclass(frozen=True)
class Outcome:
    """What a run of the tests printed, how it ended, and the processor time it took."""

    status: int
    output: str
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether tests ran and none failed."""
        return self.status == 0

    @property
    def summary(self) -> str:
        """How many passed, failed and were skipped; the last line if pytest did not count."""
        counts = _SUMMARY.findall(self.output)
        # After the counts come tests that it did not find.
        lines = counts or self.output.strip().splitlines() or ["no output"]
        return str(lines[-1])

    @property
    def failures(self) -> list[str]:
        """The tests that failed, and the files that could not be read, each with its reason."""
        # A test may print such a line itself: pytest's own are behind its last heading.
        _, _, behind = self.output.rpartition("short test summary info")
        return _FAILURE.findall(behind)

    def report(self) -> str:
        """Return one line, and one more for each failure."""
        first = f"{self.summary}; {self.seconds:.0f} s of processor time"
        if self.passed:
            return first
        named = self.failures or [f"no test is named, pytest ended with status {self.status}"]
        return "\n".join([f"FAILED: {first}", *(f"  {line}" for line in named)])


def without_paths(text: str) -> str:
    """Return a text in which the folders of this machine have general names."""
    names = {
        f"{ROOT}{os.sep}": "",
        str(ROOT): ".",
        sys.prefix: "<environment>",
        sys.base_prefix: "<python>",
        str(Path.home()): "~",
        tempfile.gettempdir(): "<temporary>",
        # pytest names files outside the root by the way to them.
        os.path.relpath(sys.prefix, ROOT): "<environment>",
        os.path.relpath(sys.base_prefix, ROOT): "<python>",
    }
    # The longest first: the root may itself be below the home folder.
    for path in sorted(names, key=len, reverse=True):
        text = text.replace(path, names[path])
    return text


def show(line: str) -> None:
    """Print a line of the output as it came."""
    print(line, end="", flush=True)


class Progress:
    """Print how far a run of the tests is, at every tenth of them, from its lines of output."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.tenths = 0
        self.began = time.monotonic()

    def __call__(self, line: str) -> None:
        """Read one line of pytest's, and print one where it passes another tenth."""
        share = _SHARE.search(line)
        if share is None:
            return
        tenths = int(share[1]) // 10
        if tenths > self.tenths:
            self.tenths = tenths
            seconds = time.monotonic() - self.began
            print(f"{self.name}: {10 * tenths} % of the tests, {seconds:.0f} s", flush=True)


def run_tests(
    python: str | Path,
    arguments: list[str],
    variables: Mapping[str, str] | None = None,
    *,
    watch: Callable[[str], None] | None = None,
) -> Outcome:
    """Run pytest with these arguments under a Python.

    Parameters
    ----------
    python
        The interpreter, of an environment that has pytest.
    arguments
        Those of pytest; files are named from the project's root.
    variables
        What to set beside the variables of this process.
    watch
        Called with each line of the output as it comes.
    """
    process = subprocess.Popen(
        [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=ROOT,
        env={**os.environ, **(variables or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    lines = []
    with process.stdout:
        for line in process.stdout:
            lines.append(without_paths(line))
            if watch is not None:
                watch(lines[-1])
    # Not process.wait(), which does not tell the time that it and its own children took.
    _, waited, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(waited)
    return Outcome(process.returncode, "".join(lines), usage.ru_utime + usage.ru_stime)

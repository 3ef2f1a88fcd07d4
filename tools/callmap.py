"""A pytest plugin: which functions of the package each test calls, and how long it takes.

    python -m pytest -p tools.callmap --callmap build/mutants/callmap.json

``tools.mutants`` reads the record to run the tests that can notice a change. What is computed once
for several tests, by a fixture or a cache, is recorded for the first of them alone: that is why
``tools.mutants`` runs whole files before it calls an error a survivor.
"""

import json
import os
import resource
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from operator import itemgetter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from tools.texts import ROOT

PACKAGE = ROOT / "ldpopt"


def function_key(path: str, qualified_name: str) -> str:
    """Return the name of a function or method: of an inner one, that of the outermost around it."""
    return f"{path}::{qualified_name.split('.<locals>')[0]}"


class _Trace:
    """The functions that are entered, by the trace function of Python 3.11: slow, but anywhere."""

    def __init__(self) -> None:
        self.codes: set[CodeType] = set()

    def _enter(self, frame: FrameType, event: str, argument: object) -> None:
        # No local trace function is returned: lines are not traced, which would be slower still.
        self.codes.add(frame.f_code)

    def start(self) -> None:
        """Start to record the calls of one test."""
        self.codes = set()
        threading.settrace(self._enter)
        sys.settrace(self._enter)

    def stop(self) -> set[CodeType]:
        """Return the functions entered since the start."""
        sys.settrace(None)
        threading.settrace(None)
        # A copy: a thread that the test has left running still adds to the set.
        return self.codes.copy()


class _Monitor:
    """The same by the monitoring of Python 3.12: a function costs one event per test."""

    def __init__(self) -> None:
        self.codes: set[CodeType] = set()
        self.monitoring: Any = vars(sys)["monitoring"]
        self.tool = self.monitoring.PROFILER_ID
        self.event = self.monitoring.events.PY_START
        self.monitoring.use_tool_id(self.tool, "ldpopt")
        self.monitoring.register_callback(self.tool, self.event, self._enter)

    def _enter(self, code: CodeType, offset: int) -> Any:
        self.codes.add(code)
        # Once per test is enough to know.
        return self.monitoring.DISABLE

    def start(self) -> None:
        """Start to record the calls of one test."""
        self.codes = set()
        # What the last test has switched off, function by function, reports again.
        self.monitoring.restart_events()
        self.monitoring.set_events(self.tool, self.event)

    def stop(self) -> set[CodeType]:
        """Return the functions entered since the start."""
        self.monitoring.set_events(self.tool, 0)
        return self.codes.copy()


def _processor_seconds() -> float:
    """Return the processor time used so far, by processes that have ended too.

    On a busy machine it says more about a test than the time on the clock.
    """
    ended = os.times()
    return time.process_time() + ended.children_user + ended.children_system


def _names(codes: Iterable[CodeType]) -> list[str]:
    """Return the names of functions of the package, sorted."""
    prefix = str(PACKAGE)
    called = set()
    for code in codes:
        # Functions of numpy and of the tests themselves are not of interest.
        if code.co_filename.startswith(prefix):
            path = Path(code.co_filename).relative_to(ROOT)
            called.add(function_key(str(path), code.co_qualname))
    return sorted(called)


class Recorder:
    """Which functions are entered by which test."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self.calls = _Monitor() if sys.version_info >= (3, 12) else _Trace()
        self.tests: dict[str, tuple[float, list[str]]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Record the calls of a test and its processor time, its fixtures included."""
        start = _processor_seconds()
        self.calls.start()
        try:
            result = yield
        finally:
            codes = self.calls.stop()
        seconds = _processor_seconds() - start
        self.tests[item.nodeid] = (round(seconds, 4), _names(codes))
        return result

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Write the record, if all tests ran: errors of what a part never calls would survive."""
        if exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            return
        # Numbers instead of names: each is called by hundreds of tests, and the record stays small.
        names = sorted(set().union(*(called for _, called in self.tests.values())))
        index = {name: number for number, name in enumerate(names)}
        tests = {
            test: [seconds, [index[name] for name in called]]
            for test, (seconds, called) in self.tests.items()
        }
        self.target.parent.mkdir(parents=True, exist_ok=True)
        record = {"functions": names, "tests": tests}
        self.target.write_text(json.dumps(record), encoding="utf-8")


class Selector:
    """Keep only the tests of a list, in its order; a file in the list stands for all its tests.

    Each test has a limit of processor time, beyond which the process is killed: waiting for a busy
    machine does not count. The name of the running test is kept in a file, so that the name of the
    last one can be read after the process has died.
    """

    def __init__(self, selection: Path) -> None:
        wanted = json.loads(selection.read_text(encoding="utf-8"))
        self.order = {name: number for number, name in enumerate(wanted["tests"])}
        self.passed = frozenset(wanted["passed"])
        self.limits: dict[str, float] = wanted["limits"]
        self.default_limit: float = wanted["default_limit"]
        self.current = selection.with_suffix(".current")

    def _place(self, item: pytest.Item) -> int | None:
        # What has passed with the error planted would pass again.
        if item.nodeid in self.passed:
            return None
        file = item.nodeid.split("::")[0]
        return self.order.get(item.nodeid, self.order.get(file))

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Select and sort."""
        chosen = []
        for item in items:
            place = self._place(item)
            if place is not None:
                chosen.append((place, item))
        # Stable: the tests of a file keep their order.
        chosen.sort(key=itemgetter(0))
        items[:] = [item for _, item in chosen]

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Keep the name of the test and start its processor time."""
        self.current.write_text(nodeid, encoding="utf-8")
        # The limit is one of the process: it moves on with every test.
        usage = resource.getrusage(resource.RUSAGE_SELF)
        limit = usage.ru_utime + usage.ru_stime + self.limits.get(nodeid, self.default_limit)
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        # The signal at the soft limit kills a loop in compiled code too.
        resource.setrlimit(resource.RLIMIT_CPU, (int(limit) + 1, hard))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that name the file to write and the file of tests to run."""
    parser.addoption("--callmap", type=Path, help="record which functions each test calls")
    parser.addoption("--selection", type=Path, help="run only the tests that this file lists")


def pytest_configure(config: pytest.Config) -> None:
    """Start recording or selecting if a file is named."""
    target = config.getoption("--callmap")
    if target is not None:
        config.pluginmanager.register(Recorder(target))
    selection = config.getoption("--selection")
    if selection is not None:
        config.pluginmanager.register(Selector(selection))

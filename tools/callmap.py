"""A pytest plugin that records which functions of the package each test calls, and how long it takes.

    python -m pytest -p tools.callmap --callmap build/mutants/callmap.json

``tools.mutants`` reads the record to run only the tests that can notice a change. What fixtures of
a wider scope than one test call is recorded for the whole file: any of its tests may depend on it.
"""

import json
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from tools.texts import ROOT

PACKAGE = ROOT / "ldpopt"


def function_key(path: str, qualified_name: str) -> str:
    """Return the name of a function or method: of an inner one, that of the outermost around it."""
    return f"{path}::{qualified_name.split('.<locals>')[0]}"


class Recorder:
    """Which functions are entered by which test."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self.codes: set[CodeType] = set()
        self.tests: dict[str, dict[str, Any]] = {}
        self.files: dict[str, set[str]] = defaultdict(set)

    def _enter(self, frame: FrameType, event: str, argument: object) -> None:
        # No local trace function is returned: lines are not traced, which would be slow.
        self.codes.add(frame.f_code)

    def _called(self) -> set[str]:
        prefix = str(PACKAGE)
        keys = {
            function_key(str(Path(code.co_filename).relative_to(ROOT)), code.co_qualname)
            for code in self.codes
            if code.co_filename.startswith(prefix)
        }
        self.codes = set()
        return keys

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Trace the calls of a test, its fixtures included."""
        threading.settrace(self._enter)
        sys.settrace(self._enter)
        try:
            result = yield
        finally:
            sys.settrace(None)
            threading.settrace(None)
        called = sorted(self._called())
        self.tests.setdefault(item.nodeid, {})["functions"] = called
        self.files[item.nodeid.split("::")[0]].update(called)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up the seconds of a test and its fixtures."""
        entry = self.tests.setdefault(report.nodeid, {})
        entry["seconds"] = round(entry.get("seconds", 0.0) + report.duration, 4)

    def pytest_sessionfinish(self) -> None:
        """Write the record."""
        names = sorted(set().union(*self.files.values()))
        index = {name: number for number, name in enumerate(names)}
        tests = {
            test: [entry.get("seconds", 0.0), [index[name] for name in entry["functions"]]]
            for test, entry in self.tests.items()
            if "functions" in entry
        }
        self.target.parent.mkdir(parents=True, exist_ok=True)
        record = {"functions": names, "tests": tests}
        self.target.write_text(json.dumps(record), encoding="utf-8")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that names the file to write."""
    parser.addoption("--callmap", type=Path, help="record which functions each test calls")


def pytest_configure(config: pytest.Config) -> None:
    """Start recording if a file is named."""
    target = config.getoption("--callmap")
    if target is not None:
        config.pluginmanager.register(Recorder(target))

"""Plant errors in the package, one at a time, and see which of them no test notices.

    python -m tools.mutants                       # 150 errors drawn by seed 1
    python -m tools.mutants --count 60 --workers 1 --only ldpopt/losses
    python -m tools.mutants --list                # print them, run nothing

Errors are drawn over the whole package, equally many of each kind: comparison, sign, constant,
index, swapped arguments, dropped check, condition. For each one the tests that call the changed
function run, the quickest first and up to a limit of seconds, in a copy of the tree; the function's
test files run whole if those tests pass. Which test calls what is recorded once, by a run of all
tests.

A test notices an error by failing, by ending the process, or by exceeding a limit of processor time
that it does not exceed without the error. Every test that noticed one runs again without any error:
if it fails then too, what became of its errors is unclear, and they count as survivors.

Results are kept per error in ``build/mutants``: a run that was interrupted goes on where it
stopped, and a file that did not change is not tested again. Survivors are listed with a reason in
``tools/mutants.toml``; the exit status is 1 if one is not, or if more than 5 % survive.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property
from itertools import zip_longest
from pathlib import Path
from queue import Queue
from typing import Any

from tools.callmap import function_key
from tools.mutations import KINDS, Mutation, mutations
from tools.preloaded import LIBRARIES
from tools.texts import ROOT

EXPLAINED = Path(__file__).with_suffix(".toml")
COPIED = ("ldpopt", "experiments", "tests", "tools", "notebooks", "docs", "clients")

MAX_SURVIVING = 0.05

QUICK_SECONDS = 45.0
"""Recorded processor time of the first tests that run: most errors are noticed by the first few."""

WHOLE_SECONDS = 200.0
"""Recorded processor time of the whole test files that run when those pass."""

TEST_SECONDS = 60.0
TEST_FACTOR = 4.0
"""A test may take this processor time and this multiple of its recorded seconds: a change of
compiled code is compiled anew, and the record may come from a quicker machine."""

WAITING_SECONDS = 600.0
WAITING_FACTOR = 10.0
"""A run of tests that takes longer than this and this multiple of its recorded seconds waits for
something that does not happen."""

SKIPPED = {
    ("ldpopt/rendering", "constant"): "sizes and positions in figures and pages: judged by eye",
    ("ldpopt/rendering", "sign"): "sizes and positions in figures and pages: judged by eye",
    ("ldpopt/estimate/figure.py", "constant"): "sizes and positions in a figure: judged by eye",
    ("ldpopt/estimate/figure.py", "sign"): "sizes and positions in a figure: judged by eye",
}
"""Errors that are not drawn, by folder or file and kind, each with the reason."""


NOTICED = ("failed", "time limit", "ended")
"""How a test notices an error: it fails, takes too long, or the whole process ends."""


@dataclass(frozen=True)
class Result:
    """What became of one planted error."""

    key: str
    status: str
    test: str
    seconds: float
    tests: str

    @property
    def survived(self) -> bool:
        """Whether no test noticed the error, as far as is certain."""
        return self.status not in NOTICED


def file_of(name: str) -> str:
    """Return the file of a test, or of a function, that is named file::name."""
    return name.split("::")[0]


class CallMap:
    """Which tests call which function, and how long they take."""

    def __init__(self, path: Path) -> None:
        record = json.loads(path.read_text(encoding="utf-8"))
        names = record["functions"]
        self.seconds: dict[str, float] = {}
        self.by_function: dict[str, list[str]] = defaultdict(list)
        self.by_file: dict[str, list[str]] = defaultdict(list)
        self.module_tests: dict[str, set[str]] = defaultdict(set)
        for test, (seconds, called) in record["tests"].items():
            file = file_of(test)
            if not (ROOT / file).exists():  # removed since it was recorded
                continue
            self.seconds[test] = seconds
            self.by_file[file].append(test)
            for number in called:
                name = names[number]
                # The first test that needs a module imports it, and may use nothing of it.
                if name.endswith("::<module>"):
                    continue
                self.by_function[name].append(test)
                self.module_tests[file_of(name)].add(test)

    def quick(self, mutation: Mutation) -> list[str]:
        """Return the tests of the changed function, the quickest first, up to the limit."""
        tests = self._tests_of(mutation)
        return self._within(sorted(tests, key=lambda test: (self.seconds[test], test)))

    def _tests_of(self, mutation: Mutation) -> Iterable[str]:
        """Return the tests that call the changed function, or else what is nearest to it."""
        function = function_key(mutation.path, mutation.function or "")
        if function in self.by_function:
            return self.by_function[function]
        # A constant of a module or class, or a function that is new: any test of the module.
        if mutation.path in self.module_tests:
            return self.module_tests[mutation.path]
        # Calls of compiled functions are not seen: those of the modules that import them are.
        return {test for path in _importers(mutation.path) for test in self.module_tests[path]}

    def _within(self, tests: list[str]) -> list[str]:
        total = 0.0
        chosen: list[str] = []
        for test in tests:
            total += self.seconds[test]
            # The first test runs however long it takes: otherwise some functions would have none.
            if chosen and total > QUICK_SECONDS:
                break
            chosen.append(test)
        return chosen

    def whole_files(self, mutation: Mutation) -> list[str]:
        """Return the test files of the changed function: the module's, and those that call it most.

        Many files that solve a problem call a function more often than those that test it.
        """
        tests = self._tests_of(mutation)
        if not tests:
            return _files_that_name(mutation)
        calls = Counter(map(file_of, tests))
        its_own = f"tests/test_{Path(mutation.path).stem}.py"
        total = 0.0
        chosen: list[str] = []
        for file in sorted(calls, key=lambda name: (name != its_own, -calls[name])):
            total += self.duration([file])
            if chosen and total > WHOLE_SECONDS:
                break
            chosen.append(file)
        return chosen

    def duration(self, tests: Iterable[str]) -> float:
        """Return the recorded seconds of some tests, or of all tests of some files."""
        singles = (part for test in tests for part in self.by_file.get(test, [test]))
        return sum(self.seconds.get(test, 0.0) for test in singles)

    def quickest(self, file: str) -> str:
        """Return the quickest test of a file, or the file itself if none is recorded."""
        # A file that is newer than the record has no test in it.
        return min(self.by_file[file], key=self.seconds.__getitem__, default=file)

    def limit(self, test: str) -> float:
        """Return the processor time that a test may take."""
        return TEST_SECONDS + TEST_FACTOR * self.seconds.get(test, 0.0)


def _importers(path: str) -> list[str]:
    """Return the files of the package that import the module of a file by its whole name."""
    module = ".".join(Path(path).with_suffix("").parts)
    pattern = re.compile(rf"^\s*(from|import) {re.escape(module)}\b", re.MULTILINE)
    folder = ROOT / Path(path).parts[0]
    return [
        str(file.relative_to(ROOT))
        for file in sorted(folder.rglob("*.py"))
        if pattern.search(file.read_text(encoding="utf-8"))
    ]


def _files_that_name(mutation: Mutation) -> list[str]:
    """Return the test files that name a module which is newer than the record of calls."""
    module = Path(mutation.path).with_suffix("")
    function = mutation.function or module.name
    words = {module.name, ".".join(module.parts), function.split(".")[-1]}
    # Whole words: a short name is a part of many others.
    pattern = re.compile(rf"\b({'|'.join(map(re.escape, words))})\b")
    # The doctests of the module itself come first.
    files = [mutation.path]
    for path in sorted((ROOT / "tests").glob("test_*.py")):
        if pattern.search(path.read_text(encoding="utf-8")):
            files.append(str(path.relative_to(ROOT)))
    return files


class Copy:
    """A copy of the tree in which one worker plants its errors."""

    libraries: Sequence[str] = LIBRARIES

    def __init__(self, root: Path) -> None:
        self.root = root
        # A copy that an interrupted run left may still have its error planted.
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        # Not the whole tree: build holds the copies themselves, and environments.
        for name in COPIED:
            ignored = shutil.ignore_patterns("__pycache__", "build")
            shutil.copytree(ROOT / name, root / name, ignore=ignored)
        for path in ROOT.iterdir():
            if path.is_file():
                shutil.copy2(path, root / path.name)
        # Python recognises a stale .pyc file by the second of the change and the size alone.
        self.second = int(time.time())

    def write(self, path: str, source: bytes) -> None:
        """Write a file with a time of change that no version of it had before."""
        self.second += 1
        target = self.root / path
        target.write_bytes(source)
        os.utime(target, (self.second, self.second))

    def run(
        self, tests: list[str], calls: CallMap, passed: Iterable[str] = ()
    ) -> tuple[str, str] | None:
        """Run tests until one fails; return how and its name, or None if all pass."""
        files = sorted(set(map(file_of, tests)))
        present = [file for file in files if (self.root / file).exists()]
        if not present:
            return None
        selection = self._select(tests, calls, passed)
        arguments = ["-x", "-q", "--tb=no", "-p", "no:cacheprovider", "-p", "tools.callmap"]
        output = self.root / "output.txt"
        status = self._order(
            arguments=[*arguments, "--selection", str(selection), *present],
            output=str(output),
            seconds=WAITING_SECONDS + WAITING_FACTOR * calls.duration(tests),
        )
        words = output.read_text(encoding="utf-8", errors="replace")
        current = selection.with_suffix(".current")
        return _outcome(status, words, current.read_text(encoding="utf-8"))

    def _select(self, tests: list[str], calls: CallMap, passed: Iterable[str]) -> Path:
        """Write which tests run, and with which limits, for the plugin ``tools.callmap``."""
        selection = self.root / "selection.json"
        limits = {name: calls.limit(name) for name in calls.seconds}
        wanted = {
            "tests": tests,
            "passed": list(passed),
            "limits": limits,
            "default_limit": TEST_SECONDS,
        }
        selection.write_text(json.dumps(wanted), encoding="utf-8")
        # An error may end the process before any test has begun.
        current = selection.with_suffix(".current")
        current.write_text("before the first test", encoding="utf-8")
        return selection

    def _order(self, **order: Any) -> int:
        """Have pytest run as an order states, and return its exit status."""
        # Both are pipes: the type alone does not say so.
        assert self.preloaded.stdin is not None
        assert self.preloaded.stdout is not None
        self.preloaded.stdin.write(json.dumps(order) + "\n")
        self.preloaded.stdin.flush()
        return int(self.preloaded.stdout.readline())

    def close(self) -> None:
        """End the process that runs pytest."""
        # At the end of the block its pipes are closed and its exit is awaited.
        with self.preloaded as process:
            process.terminate()

    @cached_property
    def preloaded(self) -> "subprocess.Popen[str]":
        """The process that runs pytest in the copy."""
        return subprocess.Popen(
            [sys.executable, "-m", "tools.preloaded", *self.libraries],
            cwd=self.root,
            env=os.environ | {"PYTHONPATH": str(self.root)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )


def _outcome(status: int, output: str, current: str) -> tuple[str, str] | None:
    """Return how a run of tests noticed an error and in which test, or None if it did not."""
    if status in (0, 5):  # 5: none of the tests exists any more
        return None
    if status == -signal.SIGXCPU:
        return "time limit", current
    if status == 1:
        return "failed", current
    # A crash of compiled code, among others, or a test file that cannot be imported.
    errors = [line for line in output.splitlines() if line.startswith("ERROR ")]
    return "ended", errors[0].split(" ")[1] if errors else current


@cache
def source_of(path: str) -> bytes:
    """Return the content of a file as it was when the errors were drawn."""
    return (ROOT / path).read_bytes()


def drawn(count: int, seed: int, only: str) -> list[Mutation]:
    """Return ``count`` errors drawn over the package, the kinds in turn."""
    places = sorted(_places(only), key=lambda mutation: mutation.rank(seed))
    by_kind = [[place for place in places if place.kind == kind] for kind in KINDS]
    chosen: list[Mutation] = []
    # In turn, because some kinds have many more places than others.
    for turn in zip_longest(*by_kind):
        chosen += [mutation for mutation in turn if mutation is not None]
    return chosen[:count]


def _places(only: str) -> Iterator[Mutation]:
    """Yield every error that may be drawn from the files of a folder."""
    # Sorted: errors of one rank would otherwise come in the order of the file system.
    for path in sorted((ROOT / only).rglob("*.py")):
        name = str(path.relative_to(ROOT))
        for mutation in mutations(name, source_of(name)):
            if not _skipped(mutation):
                yield mutation


def _skipped(mutation: Mutation) -> bool:
    place = Path(mutation.path)
    return any(place.is_relative_to(skipped) and mutation.kind == kind for skipped, kind in SKIPPED)


class Results:
    """Results on disk, one line each: a run that is killed keeps what it has."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lock = threading.Lock()
        self.by_key: dict[str, Result] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                if line.endswith("}"):  # a line cut short is computed again
                    result = Result(**json.loads(line))
                    self.by_key[result.key] = result

    def get(self, mutation: Mutation) -> Result | None:
        """Return the result of an error in the file as it is now, None if there is none yet."""
        return self.by_key.get(mutation.key(source_of(mutation.path)))

    def of(self, mutation: Mutation) -> Result:
        """Return the result of an error that was examined."""
        return self.by_key[mutation.key(source_of(mutation.path))]

    def add(self, result: Result) -> None:
        """Keep a result."""
        # Workers are threads of this process: the lock keeps their lines apart.
        with self.lock, self.path.open("a", encoding="utf-8") as file:
            self.by_key[result.key] = result
            file.write(json.dumps(asdict(result)) + "\n")

    def kept(self, key: str, tests: str) -> Result | None:
        """Return the result of an error, if it still holds: new tests may kill a survivor."""
        result = self.by_key.get(key)
        # What was noticed stays noticed: only survivors are tried again when tests change.
        if result is not None and result.survived and result.tests != tests:
            return None
        return result


def tests_digest() -> str:
    """Return what changes with any test."""
    digest = hashlib.sha256()
    # Helpers of tests too: they may compare more than before.
    for path in sorted((ROOT / "tests").glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def examine(mutation: Mutation, copy: Copy, calls: CallMap, tests: str) -> Result:
    """Plant one error, run its tests and take it out again."""
    start = time.monotonic()
    source = source_of(mutation.path)
    key = mutation.key(source)
    quick = calls.quick(mutation)
    files = calls.whole_files(mutation)
    copy.write(mutation.path, mutation.applied(source))
    try:
        noticed = copy.run(quick, calls) if quick else None
        if noticed is None and files:
            noticed = copy.run(files, calls, passed=quick)
    # Whatever happened: the next error must be the only one in the copy.
    finally:
        copy.write(mutation.path, source)
    how, test = noticed or ("survived" if quick else "untested", "")
    return Result(key, how, test, round(time.monotonic() - start, 1), tests)


def run(
    chosen: list[Mutation], calls: CallMap, results: Results, workers: int, place: Path
) -> None:
    """Examine the errors that have no result yet."""
    tests = tests_digest()
    open_ones = [
        mutation
        for mutation in chosen
        if results.kept(mutation.key(source_of(mutation.path)), tests) is None
    ]
    print(f"mutants: {len(chosen) - len(open_ones)} known, {len(open_ones)} to examine", flush=True)
    copies: Queue[Copy] = Queue()
    for number in range(min(workers, len(open_ones))):
        copies.put(Copy(place / f"copy{number}"))

    def one(mutation: Mutation) -> None:
        copy = copies.get()
        try:
            result = examine(mutation, copy, calls, tests)
        finally:
            copies.put(copy)
        results.add(result)
        print(f"{result.status:10} {result.seconds:6.1f} s  {mutation}", flush=True)

    # Threads suffice, since each of them waits for a process of pytest.
    with ThreadPoolExecutor(max(workers, 1)) as pool:
        list(pool.map(one, open_ones))
    for number in range(copies.qsize()):
        copy = copies.get()
        if number == 0:
            _forget_failures_without_error(open_ones, results, copy, calls)
        copy.close()


def _forget_failures_without_error(
    examined: list[Mutation], results: Results, copy: Copy, calls: CallMap
) -> None:
    """Run the tests that noticed errors without any error: one that fails then noticed nothing."""
    # A test that fails by itself would count every error it meets as noticed.
    outcomes = [results.of(mutation) for mutation in examined]
    tests = _noticing_tests(outcomes, calls)
    while tests:
        noticed = copy.run(sorted(tests), calls)
        if noticed is None or noticed[1] not in tests:
            return
        how, test = noticed
        print(f"mutants: {test}: {how} without an error too; it notices nothing", flush=True)
        name = tests.pop(test)
        for result in outcomes:
            if result.test == name:
                results.add(replace(result, status="unclear"))


def _noticing_tests(outcomes: Iterable[Result], calls: CallMap) -> dict[str, str]:
    """Return the tests that noticed an error, each with the name under which it is recorded."""
    tests: dict[str, str] = {}
    for name in {result.test for result in outcomes if not result.survived}:
        # A file that could not be imported is imported now, with the quickest of its tests.
        test = name if "::" in name else calls.quickest(name)
        tests[test] = name
    return tests


@dataclass(frozen=True)
class Explanation:
    """Why an error may survive: it changes nothing that a test should see."""

    path: str
    before: str
    after: str
    reason: str

    def covers(self, mutation: Mutation) -> bool:
        """Return whether it explains this error."""
        same_file = mutation.path == self.path
        return same_file and (mutation.before, mutation.after) == (self.before, self.after)


def explanations() -> list[Explanation]:
    """Return the explained survivors."""
    table = tomllib.loads(EXPLAINED.read_text(encoding="utf-8"))
    return [Explanation(**entry) for entry in table.get("survivor", [])]


def survivors(chosen: list[Mutation], results: Results) -> Iterator[tuple[Mutation, Result]]:
    """Yield the errors that no test noticed."""
    for mutation in chosen:
        result = results.get(mutation)
        if result is not None and result.survived:
            yield mutation, result


def summary(chosen: list[Mutation], results: Results) -> int:
    """Print the survivors and return the exit status."""
    explained = explanations()
    surviving = list(survivors(chosen, results))
    # They count as survivors too: an explanation is no test.
    unexplained = 0
    for mutation, result in surviving:
        reasons = [entry.reason for entry in explained if entry.covers(mutation)]
        print(f"\n{result.status}: {mutation}")
        if reasons:
            print(f"  explained: {reasons[0]}")
        else:
            unexplained += 1
            print("  NOT EXPLAINED: write a test, or into tools/mutants.toml:")
            print(_entry(mutation))
    _print_counts(chosen, results)
    share = len(surviving) / max(len(chosen), 1)
    print(f"\nmutants: {len(chosen)} planted, {len(surviving)} survived ({share:.1%}),", end=" ")
    print(f"{unexplained} of them not explained; at most {MAX_SURVIVING:.0%} may survive")
    return 1 if unexplained or share > MAX_SURVIVING else 0


def _print_counts(chosen: list[Mutation], results: Results) -> None:
    """Print what became of the errors of each kind."""
    counts: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
    for mutation in chosen:
        result = results.get(mutation)
        counts[mutation.kind][result.status if result else "not examined"] += 1
    total = sum(counts.values(), Counter())
    print()
    for kind, of_kind in {**counts, "all": total}.items():
        parts = [f"{count} {status}" for status, count in sorted(of_kind.items())]
        print(f"{kind:10} {of_kind.total():4}: {', '.join(parts)}")


def _entry(mutation: Mutation) -> str:
    fields = {"path": mutation.path, "before": mutation.before, "after": mutation.after}
    lines = [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in fields.items()]
    return "\n".join(["[[survivor]]", *lines, 'reason = ""'])


def record_calls(path: Path) -> None:
    """Run all tests once and record what each calls."""
    print("mutants: recording which test calls what: one run of all tests", flush=True)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tools.callmap", "--callmap", str(path)]
    subprocess.run(command, cwd=ROOT, check=False, stdin=subprocess.DEVNULL)
    if not path.exists():
        sys.exit("mutants: the run of all tests did not reach its end, and so nothing was recorded")


def _arguments(arguments: list[str] | None) -> Any:
    parser = argparse.ArgumentParser(
        prog="python -m tools.mutants",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--count", type=int, default=150, help="how many errors to plant")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="ldpopt", help="draw from this folder only")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "mutants")
    parser.add_argument("--list", action="store_true", help="print the errors, run nothing")
    parser.add_argument("--again", action="store_true", help="record anew which test calls what")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Plant errors and print those that survive."""
    options = _arguments(arguments)
    chosen = drawn(options.count, options.seed, options.only)
    if options.list:
        print(*chosen, sep="\n")
        return 0
    map_path = options.out / "callmap.json"
    # A run of all tests, several times as slow as usual: a record serves for many runs.
    if options.again or not map_path.exists():
        record_calls(map_path)
    results = Results(options.out / "results.jsonl")
    run(chosen, CallMap(map_path), results, options.workers, options.out)
    return summary(chosen, results)


if __name__ == "__main__":
    sys.exit(main())

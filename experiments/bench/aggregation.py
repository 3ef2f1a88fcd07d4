"""Files of reports: rate of counting, memory, scaling with cores, and an estimate for 10^10."""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from collections.abc import Mapping
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from experiments.bench.row import Row
from experiments.bench.timing import measure
from ldpopt.oracles import ORACLES, OUE, FrequencyOracle, SubsetSelection
from ldpopt.reports.weighing import Weighing, in_fixed_point

_DISTINCT = 20_000  # reports drawn; files repeat them
_CELLS = 2 * 10**8  # values touched a measurement: a second or less
_INDEX = ("grr", "hr")  # their reports are one number, whatever d is
# How many times as long as in memory, of reports that are packed once more for the file.
_SUBSET_TARGET = 2.0
# Of what as many cores would ideally gain.
_SHARE_OF_CORES = 0.9
_MACHINES = 100
_REPORTS = 10**10


def run(settings: Mapping[str, Any]) -> list[Row]:
    """Return rates for every oracle, memory of a stream, scaling with cores, and an estimate."""
    rows = rates(settings)
    rows += second_pass(settings) + stream(settings) + cores(settings)
    return rows


def second_pass(settings: Mapping[str, Any]) -> list[Row]:
    """Return what both passes of ``refine`` take, over the one that counts."""
    rows = []
    for d in settings["d"]:
        oracle = OUE(settings["epsilon"], d)
        n = max(_CELLS // d, 4000)
        reports = sample(oracle, n)
        weighing = Weighing(oracle, in_fixed_point(np.full(d, 1 / d)))
        first = measure(partial(oracle.support_counts, reports), repeats=settings["repeats"])
        second = measure(partial(weighing.sums, reports), repeats=settings["repeats"])
        rows.append(
            Row(
                what=f"refine with OUE, both passes over {n:,} reports, d = {d:,}",
                seconds=first.best + second.best,
                measure="cost",
                target=3.0,
                against="support_counts in memory",
                against_seconds=first.best,
                detail=f"second pass {second.best / first.best:.1f} times the first",
            )
        )
    return rows


class _Counted(NamedTuple):
    """What counting a file of reports took."""

    seconds: float
    in_memory: float
    bytes_per_report: float


def rates(settings: Mapping[str, Any]) -> list[Row]:
    """Return the rate of every oracle, and what follows for a collection that is not measured."""
    rows = []
    on_paper = []
    for d in settings["d"]:
        for name, make in ORACLES.items():
            oracle = make(settings["epsilon"], d)
            # Enough reports that starting the count hardly weighs.
            n = 2_000_000 if name in _INDEX else max(_CELLS // d, 4000)
            counted = _counted(oracle, n, settings["repeats"])
            rate = n / counted.seconds
            width = counted.bytes_per_report
            rows.append(
                Row(
                    what=f"{type(oracle).__name__} from Parquet, {n:,} reports, d = {d:,}",
                    seconds=counted.seconds,
                    measure="cost",
                    against="support_counts in memory",
                    against_seconds=counted.in_memory,
                    target=_SUBSET_TARGET if isinstance(oracle, SubsetSelection) else None,
                    detail=f"{rate:.2g} reports/s, {width:.0f} bytes per report on disk",
                )
            )
            # The two that a large collection would choose between.
            if name in ("oue", "olh"):
                on_paper.append(_on_paper(oracle, rate, width))
    return rows + on_paper


def _counted(oracle: FrequencyOracle, n: int, repeats: int) -> _Counted:
    """Return the time of counting n reports from a file, and from memory."""
    from ldpopt.collection import aggregate, write_reports

    reports = sample(oracle, n)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "reports.parquet"
        write_reports(path, oracle, reports)
        timing = measure(partial(aggregate, path), repeats=repeats)
        size = path.stat().st_size
    # The same reports in memory: the difference is what the file costs.
    bare = measure(partial(oracle.support_counts, reports), repeats=repeats)
    # A speed without the right counts would be worth nothing.
    if not np.array_equal(timing.value.counts, bare.value):
        raise AssertionError(f"{oracle!r}: the file and the reports differ")
    return _Counted(timing.best, bare.best, size / n)


def _on_paper(oracle: FrequencyOracle, rate: float, width: float) -> Row:
    """Return how long many machines would take, each at the rate of this one."""
    terabytes = _REPORTS * width / 1e12
    name = type(oracle).__name__
    return Row(
        what=f"on paper: 10^10 reports of {name} on 100 machines, d = {oracle.d:,}",
        seconds=_REPORTS / _MACHINES / rate,
        measure="seconds",
        detail=f"not run: {rate:.2g} reports/s per machine, {terabytes:.1f} TB to be read",
    )


def stream(settings: Mapping[str, Any]) -> list[Row]:
    """Return time and peak memory of counting generated OUE reports, for growing n."""
    rows = []
    first = None
    width = settings["stream_d"]
    for n in settings["stream"]:
        # A new process each time: its peak memory is this measurement's alone.
        with get_context("spawn").Pool(1) as pool:
            seconds, before, peak = pool.apply(_stream, (settings["epsilon"], width, n))
        # The smallest n sets the pace: growth in proportion gives a ratio of 1.
        first = first or seconds / n * settings["stream"][0]
        rows.append(
            Row(
                what=f"OUE from a generator to a file to counts, n = {n:,}, d = {width}",
                seconds=seconds,
                measure="cost",
                against="the smallest n, in proportion",
                against_seconds=first * n / settings["stream"][0],
                detail=f"peak memory {peak:.0f} MB, {before:.0f} MB of it before the first report",
            )
        )
    return rows


def cores(settings: Mapping[str, Any]) -> list[Row]:
    """Return OLH with 1, 2, 4, ... threads, each in a process of its own.

    The seconds are those that the busiest thread computes: on free cores that is what one waits
    for. Wall time, in the detail, also counts what other programs take from the cores.
    """
    rows = []
    alone = None
    threads = [k for k in (1, 2, 4, 8, 16, 32, 64) if k <= (os.cpu_count() or 1)]
    for k in threads:
        os.environ["NUMBA_NUM_THREADS"] = str(k)  # read by the process that is about to start
        try:
            with get_context("spawn").Pool(1) as pool:
                busiest, wall = pool.apply(
                    _hash, (settings["epsilon"], 1024, settings["hashed"], settings["repeats"])
                )
        finally:
            del os.environ["NUMBA_NUM_THREADS"]
        # One core comes first, and is what the others are compared with.
        alone = alone or busiest
        rows.append(
            Row(
                what=f"OLH on {k} core{'s' * (k > 1)}, {settings['hashed']:,} reports, d = 1,024",
                seconds=busiest,
                measure="speed-up",
                against="one core",
                against_seconds=alone,
                target=_SHARE_OF_CORES * k if k > 1 else None,
                detail=f"of the busiest thread; wall time {wall:.2g} s on the machine as it was",
            )
        )
    return rows


def sample(oracle: FrequencyOracle, n: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(0)
    distinct = oracle.perturb(rng.integers(oracle.d, size=min(n, _DISTINCT)), rng=rng)
    # Perturbing takes longer than counting, and counting does not depend on repeated reports.
    return np.resize(distinct, (n, *distinct.shape[1:]))


def _stream(epsilon: float, d: int, n: int) -> tuple[float, float, float]:
    from ldpopt.collection import ReportWriter, aggregate

    oracle = OUE(epsilon, d)
    batch = sample(oracle, 1 << 18)
    before = _peak()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "reports.parquet"
        with ReportWriter(path, oracle) as writer:
            for start in range(0, n, len(batch)):
                writer.write(batch[: n - start])
        start_time = time.perf_counter()
        if aggregate(path).n != n:
            raise AssertionError("reports were lost")
        seconds = time.perf_counter() - start_time
    return seconds, before, _peak()


def _hash(epsilon: float, d: int, n: int, repeats: int) -> tuple[float, float]:
    """Return the seconds that the busiest thread computes, and those that pass."""
    from ldpopt.oracles import hash_kernel

    oracle = ORACLES["olh"](epsilon, d)
    reports = sample(oracle, n)
    count = hash_kernel._count
    seconds: list[float] = []

    def timed(*arguments: Any) -> None:
        start = time.thread_time()
        count(*arguments)
        seconds.append(time.thread_time() - start)

    # In its place: the threads are started behind ``support_counts``.
    hash_kernel._count = timed
    oracle.support_counts(reports)
    busiest = []
    walls = []
    for _ in range(repeats):
        seconds.clear()
        walls.append(measure(partial(oracle.support_counts, reports), repeats=1).repeats[0])
        busiest.append(max(seconds))
    return min(busiest), min(walls)


def _peak() -> float:
    """Return the largest memory this process has had, in MB."""
    status = Path("/proc/self/status")
    if status.exists():  # getrusage would include what the parent had when it started this process
        line = next(
            line for line in status.read_text("ascii").splitlines() if line.startswith("VmHWM")
        )
        return int(line.split()[1]) / 1e3
    unit = 1e6 if sys.platform == "darwin" else 1e3
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit

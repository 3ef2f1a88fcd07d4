"""The benchmarks' own machinery: stopwatch, verdicts, result files, command line.

Nothing here asserts a speed.
"""

import json
import os
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from experiments.bench import __main__ as command
from experiments.bench import closed_forms, peers, readme, store, suite
from experiments.bench.limit import within
from experiments.bench.peer_worker import LIBRARIES
from experiments.bench.row import Row
from experiments.bench.store import Store
from experiments.bench.timing import measure

SETTINGS = {"d": 8, "repeats": 1}


def row(**changes):
    return Row(
        **{"what": "x", "seconds": 2.0, "measure": "cost", "against": "y", "against_seconds": 1.0}
        | changes
    )


def invoke(*arguments):
    return CliRunner().invoke(command.app, list(arguments))


@pytest.fixture
def counted(monkeypatch):
    """One benchmark that only counts its runs, in place of the real ones."""
    runs = []

    def run(settings):
        runs.append(settings)
        return [row()]

    monkeypatch.setattr(
        command, "BENCHMARKS", {"counted": suite.Benchmark("Counted", run, SETTINGS)}
    )
    return runs


def test_measure_counts_the_warm_up_apart():
    calls = []
    timing = measure(
        lambda: calls.append("timed"), repeats=3, warm_up=lambda: calls.append("warm-up")
    )
    assert calls == ["warm-up", "timed", "timed", "timed"]
    assert len(timing.repeats) == 3
    assert timing.first > 0
    assert 0 < timing.best <= timing.median <= max(timing.repeats)


def test_measure_returns_what_the_call_returned():
    assert measure(lambda: 42, repeats=1).value == 42


def test_measure_repeats_a_slow_call_once():
    assert len(measure(lambda: None, repeats=5, patience=0.0).repeats) == 1


def test_within_returns_or_gives_up():
    assert within(60, max, 1, 2) == 2
    assert within(0.0, sum, range(10**9)) is None


def test_within_raises_what_went_wrong():
    with pytest.raises(ValueError, match="invalid literal"):
        within(60, int, "x")
    with pytest.raises(ChildProcessError, match="_exit"):
        within(60, os._exit, 1)


@pytest.mark.parametrize(
    ("changes", "met"),
    [
        ({"target": 2.0}, True),
        ({"target": 1.9}, False),
        ({"target": None}, None),
        ({"measure": "seconds", "target": 2.0}, True),
        ({"measure": "seconds", "target": 1.9}, False),
        ({"measure": "speed-up", "against_seconds": 6.0, "target": 3.0}, True),
        ({"measure": "speed-up", "against_seconds": 6.0, "target": 3.1}, False),
    ],
)
def test_verdict(changes, met):
    assert row(**changes).met is met


def test_target_without_reference_is_refused():
    with pytest.raises(ValueError, match="no reference"):
        _ = row(against_seconds=None, target=1.0).met


def test_every_closed_form_is_measured_on_a_problem_of_its_own():
    """A constraint that is left out would make the row of another problem."""
    names = [name for name, *_ in closed_forms._problems(2_000, np.random.default_rng(0))]
    assert len(set(names)) == len(names)
    assert {"Margins", "HierarchyTotals", "Monotone", "Unimodal"} <= {
        kind for name in names for kind in re.findall(r"[A-Z]\w+", name)
    }


def test_every_row_survives_the_file(tmp_path):
    rows = [
        row(),
        row(measure="speed-up", target=3.0, first_seconds=0.5, detail="d"),
        row(against_seconds=None),
    ]
    Store(tmp_path).add("name", SETTINGS, {}, rows)
    assert Store(tmp_path).rows("name", SETTINGS) == rows


def test_results_are_keyed_by_name_and_settings(tmp_path):
    results = Store(tmp_path)
    results.add("a", {"d": 1}, {}, [row(seconds=1.0)])
    results.add("a", {"d": 2}, {}, [row(seconds=2.0)])
    results.add("a", {"d": 1}, {}, [row(seconds=3.0)])
    assert [r.seconds for d in (1, 2) for r in results.rows("a", {"d": d})] == [3.0, 2.0]
    assert results.rows("a", {"d": 3}) is None
    assert results.rows("b", {"d": 1}) is None
    assert len((tmp_path / "bench.csv").read_text("utf-8").splitlines()) == 3


def test_interrupted_write_leaves_the_old_file(tmp_path, monkeypatch):
    results = Store(tmp_path)
    results.add("a", SETTINGS, {}, [row()])
    before = (tmp_path / "bench.json").read_bytes()

    def cut_short(self, content):
        with self.open("wb") as file:
            file.write(content[:10])
        raise KeyboardInterrupt

    monkeypatch.setattr(store.Path, "write_bytes", cut_short)
    with pytest.raises(KeyboardInterrupt):
        results.add("b", SETTINGS, {}, [row()])
    assert (tmp_path / "bench.json").read_bytes() == before


def test_finished_benchmark_is_skipped_only_on_resume(tmp_path, counted):
    for options, runs in [((), 1), (("--resume",), 1), ((), 2)]:
        assert invoke("--out", str(tmp_path), *options).exit_code == 0
        assert len(counted) == runs
    (result,) = json.loads((tmp_path / "bench.json").read_text("utf-8")).values()
    assert result["benchmark"] == "counted"
    assert result["rows"][0]["ratio"] == 2.0


def test_unknown_name_is_refused_with_the_nearest():
    result = invoke("pers")
    assert result.exit_code == 2
    assert "'peers'" in result.stderr
    assert result.stdout == ""


def test_failed_peer_is_reported_and_the_rest_goes_on(tmp_path, counted, monkeypatch):
    def fail(settings):
        raise peers.PeerError("no such package")

    broken = suite.Benchmark("Broken", fail, {}, downloads=True)
    monkeypatch.setitem(command.BENCHMARKS, "broken", broken)
    result = invoke("broken", "counted", "--out", str(tmp_path))
    assert result.exit_code == 1
    assert "no such package" in result.stderr
    assert len(counted) == 1
    assert invoke("broken", "counted", "--no-peers", "--out", str(tmp_path)).exit_code == 0


def test_suite_is_well_formed():
    titles = [benchmark.title for benchmark in suite.BENCHMARKS.values()]
    assert len(set(titles)) == len(titles)
    json.dumps({name: benchmark.settings for name, benchmark in suite.BENCHMARKS.items()})
    assert [name for name, benchmark in suite.BENCHMARKS.items() if benchmark.downloads] == [
        "peers"
    ]


def test_every_peer_is_pinned_and_has_a_worker():
    named = {library for libraries in peers.PROTOCOLS.values() for library in libraries}
    assert named == set(peers.REQUIREMENTS) == set(LIBRARIES)
    assert all(f"{library}==" in pins[0] for library, pins in peers.REQUIREMENTS.items())


def test_failed_command_shows_the_last_lines(tmp_path):
    with pytest.raises(peers.PeerError, match=r"(?s)no luck:.*second") as caught:
        peers._run(["python3", "-c", "import sys; sys.exit('first\\n' * 9 + 'second')"], "no luck")
    assert str(caught.value).count("first") == 2


def results_of(path, *rows):
    Store(path).add("solvers", SETTINGS, {}, list(rows))
    return readme.Results(path / "bench.csv")


def test_a_result_is_found_by_a_part_of_its_reference(tmp_path):
    slow = row(what="OUE", seconds=2.0, against="peer 1.0 (fastest peer)", against_seconds=8.0)
    alone = row(what="OUE", seconds=3.0, against="", against_seconds=None)
    results = results_of(tmp_path, slow, alone, row(what="GRR", seconds=5.0))
    assert results.seconds("solvers", "OUE", "peer") == 2.0
    assert results.cost("solvers", "OUE", "peer") == 0.25
    assert results.gain("solvers", "OUE", "fastest") == 4.0
    assert results.longest("solvers") == 5.0
    with pytest.raises(KeyError, match="no row 'SUE' against 'peer' among those of 'solvers'"):
        results.seconds("solvers", "SUE", "peer")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (1.49e-05, "15 µs"),
        (0.00023, "0.23 ms"),
        (0.0147, "15 ms"),
        (0.14, "0.14 s"),
        (2.0, "2.0 s"),
        (13.1, "13 s"),
    ],
)
def test_a_duration_has_two_digits_and_a_unit(seconds, text):
    assert readme.duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"), [(1.239, "1.2"), (12.39, "12"), (123.9, "124"), (12390.0, "12,400")]
)
def test_a_factor_has_two_digits_or_three(value, text):
    assert readme.factor(value) == text


def test_the_page_shows_the_tables_of_the_kept_run():
    results = readme.Results(readme.KEPT)
    page = readme.PAGE.read_text(encoding="utf-8")
    assert readme.table(results) in page
    assert readme.limits(results) in page


def test_a_new_table_takes_the_place_of_the_old_one():
    text = f"before\n\n{readme.BEGIN}|---|---|---|\n| a | 1 s | |\n\nafter\n\n"
    new = f"{readme.BEGIN}|---|---|---|\n| b | 2 s | |"
    assert readme.in_text(text, new) == f"before\n\n{new}\n\nafter\n\n"

"""Runs of the experiments: resumption, failures, executors; from declarations to the page."""

import csv
import json
import math
import re
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.figure import Figure as Page
from matplotlib.layout_engine import ConstrainedLayoutEngine
from PIL import Image
from typer.testing import CliRunner

from experiments import command, run
from experiments.cells import measures, populations
from experiments.cells.treatments import TREATMENTS
from experiments.compare import RESULTS
from experiments.errors import ExperimentError
from experiments.figures import FIGURES, Experiment
from experiments.pictures import draw
from experiments.pictures.style import LOOKS
from experiments.run import plan
from ldpopt.claims import Verdict, read_figure_run
from ldpopt.claims.figures import STATEMENTS
from ldpopt.claims.figures.datasets import DATA, STAND_INS
from ldpopt.claims.figures.measured import student
from ldpopt.claims.figures.results import Results
from ldpopt.claims.figures.tables import Row, read_table
from ldpopt.datasets import remote
from ldpopt.errors import DataUnavailableError, StoreError
from ldpopt.executors import InProcess, Processes
from ldpopt.studies.engine import run as engine_run
from ldpopt.studies.engine.cell import compute
from ldpopt.studies.engine.moments import moments_of
from ldpopt.studies.engine.run import compute_cells
from ldpopt.studies.engine.store import FORMAT, Store
from tests.experiment_worlds import Bomb, bits, few_tasks, small
from tests.tolerances import KEPT

ROOT = Path(command.__file__).parent.parent
COLUMNS = "figure,panel,dataset,oracle,n,d,epsilon,method,query,parameter,metric,mean,std,trials"
NAMES = {f"ndss-fig{i}" for i in range(1, 11)} | {f"draft-fig{i}" for i in range(1, 10)}
NAMES |= {f"calibrate-fig{i}" for i in range(3, 10)}


def invoke(*arguments):
    return CliRunner().invoke(command.app, list(map(str, arguments)))


def bare(text):
    """Return what was printed without colours and line breaks."""
    return re.sub(r"\s+", " ", re.sub(r"\x1b\[[0-9;]*m", "", text))


@pytest.fixture
def tiny(monkeypatch):
    """Put a small population in the place of every data set."""
    monkeypatch.setattr(populations, "load", small)


@pytest.fixture
def undrawn(monkeypatch):
    """Empty files in the place of pictures, which cost more than the cells of a quick run."""
    monkeypatch.setattr(run, "_picture", lambda job: {"svg": b"", "png": b""})


@pytest.fixture
def tasks():
    return few_tasks()


# --- declarations ---------------------------------------------------------------------------------


def test_figures_are_those_of_the_papers():
    assert set(FIGURES) == NAMES
    assert list(FIGURES) == sorted(FIGURES, key=list(FIGURES).index)


def test_papers_trials():
    for name, figure in FIGURES.items():
        expected = (
            5000
            if name in ("ndss-fig1", "ndss-fig2", "ndss-fig3")
            else 30
            if figure.experiment.oracle
            else 0
        )
        assert figure.experiment.trials == expected


def test_every_panel_shows_methods_that_are_simulated_and_have_a_look():
    for figure in FIGURES.values():
        extra = {measures.TRUTH, measures.SELECTED, "predicted"}
        for panel in figure.panels:
            assert set(panel.methods) - extra <= set(figure.experiment.methods)
            assert panel.population in figure.experiment.populations
            assert set(panel.methods) <= set(LOOKS)


def test_no_two_methods_of_a_panel_look_alike():
    for figure in FIGURES.values():
        for panel in figure.panels:
            looks = [LOOKS[m] for m in panel.methods if m in TREATMENTS]
            for part in ("colour", "marker"):
                assert len({getattr(look, part) for look in looks}) == len(looks)


def test_figures_on_the_same_experiment_share_their_cells(tiny):
    shared = plan([FIGURES[f"ndss-fig{i}"] for i in (1, 2, 3)], quick=True)
    assert len(shared.distinct) == 1
    assert [len(tasks) for tasks in shared.tasks.values()] == [1, 1, 1]


def test_a_changed_declaration_recomputes_only_what_changed(tiny):
    figure = FIGURES["ndss-fig5"]
    before = plan([figure]).distinct
    after = plan(
        [replace(figure, experiment=replace(figure.experiment, ns=(200_000, 123_456)))]
    ).distinct
    assert len(after.keys() - before.keys()) == 1


# --- the same bits for everybody ------------------------------------------------------------------


def test_results_do_not_depend_on_workers_or_order(tmp_path, tasks):
    orders = {
        "in-order": lambda ts: ts,
        "backwards": lambda ts: ts[::-1],
        "shuffled": lambda ts: ts[3::2] + ts[:3] + ts[4::2],
    }
    for name, order in orders.items():
        with Store(tmp_path / name) as store:
            assert (
                len(compute_cells(tasks, store, InProcess(), order=order).computed)
                == len(tasks)
                == 10
            )
    with Store(tmp_path / "two") as store:
        compute_cells(tasks, store, Processes(2))
    expected = bits(tmp_path / "in-order", tasks)
    assert len(expected) == len(tasks)
    for name in ("backwards", "shuffled", "two"):
        assert bits(tmp_path / name, tasks) == expected


# --- nothing finished is lost ---------------------------------------------------------------------


def test_a_killed_run_resumes(tmp_path):
    """A real process, killed with SIGKILL after its first finished cells, loses none of them."""
    arguments = [
        sys.executable,
        "-m",
        "experiments",
        "run",
        "ndss-fig8",
        "--trials",
        "40",
        "--out",
        str(tmp_path),
    ]
    process = subprocess.Popen(
        arguments, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    path = tmp_path / "cells.sqlite"
    there = 0
    deadline = time.monotonic() + 300
    while there < 2 and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.02)
        try:
            with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
                (there,) = connection.execute("SELECT count(*) FROM cells").fetchone()
        except sqlite3.OperationalError:
            continue
    process.send_signal(signal.SIGKILL)
    process.wait()
    tasks = plan([FIGURES["ndss-fig8"]], trials=40).distinct
    kept = bits(path, tasks)
    assert 2 <= len(kept) < len(tasks)

    some = {key: task for key, task in tasks.items() if key in kept or len(kept) < 20}
    again = dict(list(some.items())[:3]) | {key: tasks[key] for key in kept}
    with Store(path) as store:
        summary = compute_cells(again, store, InProcess())
        assert sorted(summary.reused) == sorted(kept)
        assert set(summary.computed) == again.keys() - kept.keys()
    with Store(tmp_path / "whole") as store:
        compute_cells({key: tasks[key] for key in kept}, store, InProcess())
    assert bits(tmp_path / "whole", kept) == kept


class Interrupted(InProcess):
    """Ctrl-C after three cells."""

    def run(self, function, work):
        for number, finished in enumerate(super().run(function, work)):
            if number == 3:
                raise KeyboardInterrupt
            yield finished


def test_ctrl_c_keeps_what_is_finished(tmp_path, tiny, undrawn, monkeypatch):
    monkeypatch.setattr(command, "executor_for", lambda *_: Interrupted())
    result = invoke("run", "ndss-fig5", "--trials", 2, "--out", tmp_path)
    assert result.exit_code == command.INTERRUPTED
    assert "3 new cells are kept" in bare(result.stderr)
    monkeypatch.undo()
    monkeypatch.setattr(populations, "load", small)
    result = invoke("run", "ndss-fig5", "--trials", 2, "--out", tmp_path)
    assert result.exit_code == 0
    assert "7 cells computed, 3 reused" in bare(result.stderr)


def test_ctrl_c_stops_the_workers(tmp_path, tasks):
    def finished(task):
        raise KeyboardInterrupt

    with Store(tmp_path / "s") as store:
        with pytest.raises(KeyboardInterrupt):
            compute_cells(tasks, store, Processes(2), finished=finished)
        assert len(store.keys()) == 1


def test_a_full_disk_keeps_what_is_finished(tmp_path, tasks):
    """SQLite's own limit of pages in place of the disk's; the error is 'disk is full'."""
    with Store(tmp_path / "s") as store:
        first = dict(list(tasks.items())[:1])
        compute_cells(first, store, InProcess())
        (pages,) = store._connection.execute("PRAGMA page_count").fetchone()
        store._connection.execute(f"PRAGMA max_page_count = {pages + 1}")
        with pytest.raises(StoreError, match=r"disk is full.*kept.*run the same again"):
            compute_cells(tasks, store, InProcess())
        kept = store.keys()
        assert first.keys() <= kept < tasks.keys()
    with Store(tmp_path / "s") as store:
        assert len(compute_cells(tasks, store, InProcess()).computed) == len(tasks) - len(kept)


def test_a_full_disk_while_writing_the_pictures(tmp_path, tiny, undrawn, monkeypatch):
    def full(path, content):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(Path, "write_bytes", full)
    result = invoke("run", "ndss-fig5", "--quick", "--out", tmp_path)
    assert isinstance(result.exception, ExperimentError)
    assert "No space left" in str(result.exception)
    assert "kept" in str(result.exception)
    monkeypatch.undo()
    monkeypatch.setattr(populations, "load", small)
    assert "0 cells computed, 4 reused" in bare(
        invoke("run", "ndss-fig5", "--quick", "--out", tmp_path).stderr
    )


def test_a_cell_that_fails_does_not_stop_the_others(tmp_path, tiny, undrawn, monkeypatch):
    def failing(task):
        if task.cell.n == 1_400_000:
            raise ValueError("this one")
        return compute(task)

    monkeypatch.setattr(engine_run, "compute", failing)
    result = invoke("run", "ndss-fig5", "--quick", "--out", tmp_path)
    assert result.exit_code == command.FAILED
    assert "3 cells computed, 0 reused, 1 failed" in bare(result.stderr)
    assert "n = 1400000, ε = 1: ValueError('this one')" in bare(result.stderr)


def test_a_worker_that_dies_is_said_so(tmp_path, tasks):
    key, task = next(iter(tasks.items()))
    with (
        Store(tmp_path / "s") as store,
        pytest.raises(StoreError, match="worker process died"),
    ):
        compute_cells({key: replace(task, data=Bomb())}, store, Processes(2))


def test_results_of_another_version_are_left_alone(tmp_path, tasks):
    path = tmp_path / "s"
    Store(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {FORMAT + 1}")
    before = path.read_bytes()
    with pytest.raises(StoreError, match=f"format {FORMAT + 1}.*nothing in it was touched"):
        Store(path)
    assert path.read_bytes() == before


def test_files_that_are_not_ours_are_refused(tmp_path):
    (tmp_path / "text").write_text("not a database, but long enough to look like something " * 20)
    with closing(sqlite3.connect(tmp_path / "other")) as connection:
        connection.execute("CREATE TABLE t (x)")
    for name in ("text", "other"):
        with pytest.raises(StoreError, match="results file"):
            Store(tmp_path / name)
    with pytest.raises(StoreError, match="results file"):
        Store(tmp_path / "text" / "below")


def test_fresh_computes_again(tmp_path, tiny, undrawn):
    arguments = ("run", "ndss-fig5", "--quick", "--out", tmp_path)
    assert "4 cells computed, 0 reused" in bare(invoke(*arguments).stderr)
    assert "0 cells computed, 4 reused" in bare(invoke(*arguments).stderr)
    assert "4 cells computed, 0 reused" in bare(invoke(*arguments, "--fresh").stderr)


# --- the command line -----------------------------------------------------------------------------


def test_unknown_figure_names_the_nearest():
    result = invoke("run", "ndss-fg4")
    assert result.exit_code == 2
    assert "'ndss-fig4'" in result.stderr


def test_workers_and_dask_exclude_each_other():
    assert invoke("run", "ndss-fig4", "--dask", "tcp://x:1", "--workers", 2).exit_code == 2


def test_list():
    assert all(name in invoke("list").stdout for name in NAMES)
    assert {record["figure"] for record in json.loads(invoke("list", "--json").stdout)} == NAMES


def test_missing_data_are_named_and_skipped(tmp_path, undrawn, monkeypatch):
    monkeypatch.setenv("LDPOPT_DATA", str(tmp_path / "empty"))
    (tmp_path / "empty").mkdir()
    result = invoke("run", "draft-fig6", "calibrate-fig4", "--out", tmp_path / "out")
    assert result.exit_code == command.SKIPPED
    message = bare(result.stderr)
    for name in ("kosarak", "kosarak-sessions", "pos", "fire"):
        assert f"Skipped {name} in" in message
    assert "nothing is left of calibrate-fig4" in message
    assert "no kosarak.dat.gz or kosarak.dat in" in message
    assert (tmp_path / "out" / "draft-fig6.csv").exists()
    assert not (tmp_path / "out" / "calibrate-fig4.csv").exists()


def test_a_download_that_failed_is_not_tried_again(monkeypatch):
    tried = []

    def download(published):
        tried.append(published.name)
        raise DataUnavailableError(f"no {published.name}")

    monkeypatch.delenv("LDPOPT_DATA", raising=False)
    monkeypatch.setattr(remote, "_download", download)
    planned = plan([FIGURES["calibrate-fig5"], FIGURES["draft-fig6"]], quick=True)
    assert planned.missing["kosarak"] == planned.missing["kosarak-sessions"] == "no kosarak"
    assert tried == ["kosarak"]


def test_a_prefix_of_kosarak_is_not_taken_for_kosarak(tmp_path, monkeypatch):
    monkeypatch.setenv("LDPOPT_DATA", str(tmp_path))
    (tmp_path / "kosarak-prefix.dat").write_text("1 2 3\n")
    assert plan([FIGURES["calibrate-fig4"]]).missing.keys() == {"kosarak"}
    (tmp_path / "kosarak.dat").write_text("1 2 3\n")
    assert "sha256" in plan([FIGURES["calibrate-fig4"]]).missing["kosarak"]


# One figure per way of drawing is laid out and saved. Of the others every curve and label is made
# from the numbers: to lay them out and to paint them is matplotlib's work, which would go through
# the same code again.
SAVED = {figure.drawing: name for name, figure in FIGURES.items()}


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_figure_from_data_to_picture(tmp_path, tiny, monkeypatch, name):
    """On small populations, Kosarak, POS and Fire too: a table with every panel, and pictures."""
    is_saved = name in SAVED.values()
    if not is_saved:
        monkeypatch.setattr(draw, "_saved", lambda page, suffix, palette: suffix.encode())
        monkeypatch.setattr(ConstrainedLayoutEngine, "execute", lambda engine, page: None)
    result = invoke("run", name, "--quick", "--trials", 3, "--out", tmp_path)
    assert result.exit_code == 0, result.stderr
    with (tmp_path / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert ",".join(rows[0]) == COLUMNS
    assert {row["figure"] for row in rows} == {name}
    assert {panel.name for panel in FIGURES[name].panels} == {row["panel"] for row in rows}
    assert all(row["mean"] not in ("", "nan", "inf") for row in rows)
    svg, png = (tmp_path / f"{name}.{suffix}" for suffix in ("svg", "png"))
    if is_saved:
        with Image.open(png) as picture:
            assert picture.convert("RGB").getpixel((0, 0)) == (255, 255, 255)
        assert b"<svg" in svg.read_bytes()[:400]
    else:
        assert (svg.read_bytes(), png.read_bytes()) == (b"svg", b"png")


@pytest.fixture
def drawn(monkeypatch):
    """Draw figures from the kept tables, and return the page instead of files."""
    pages = []
    monkeypatch.setattr(draw, "_saved", lambda page, suffix, palette: pages.append(page))

    def of(name):
        draw.draw(FIGURES[name], Results(RESULTS).rows(name))
        return pages[-1]

    return of


def test_a_figure_says_what_its_bars_are_and_no_share_exceeds_one(drawn):
    page = drawn("calibrate-fig6")
    heading = (
        "\nbars: one standard deviation over the trials; vertical line: the significance threshold"
    )
    assert page.get_suptitle().rstrip().endswith(heading)
    bars = [
        end
        for ax in page.axes
        for lines in ax.collections
        for segment in lines.get_segments()
        for end in segment[:, 1]
    ]
    assert min(bars) >= 0
    assert max(bars) == 1
    # Dots by rank have none.
    assert "bars" not in drawn("ndss-fig1").get_suptitle()


def test_panels_of_values_by_rank_share_their_axis_or_say_that_they_do_not(drawn):
    def ends(page):
        return {ax.get_ylim() for ax in page.axes if ax.axison}

    counts = drawn("ndss-fig1")
    assert len(ends(counts)) == 1
    assert draw.OWN_AXES not in counts.get_suptitle()
    biases = drawn("ndss-fig2")
    assert len(ends(biases)) > 1
    assert biases.get_suptitle().endswith(f"\n{draw.OWN_AXES}")


def test_panels_of_a_row_share_their_axis_and_hidden_lines_are_named(drawn):
    page = drawn("ndss-fig4")
    for left, right in (page.axes[:2], page.axes[2:]):
        assert left.get_ylim() == right.get_ylim()
    assert page.get_supxlabel() == (
        "Lines that coincide: Base and Norm; Base-Pos and Post-Pos; Norm-Sub and MLE-Apx."
    )
    some = drawn("draft-fig2").get_supxlabel()
    assert "Norm-Sub, MLE-Apx and Norm-Hyb (US cities)" in some


def test_panels_without_data_are_left_out_and_named(drawn):
    page = drawn("draft-fig6")
    assert [ax.get_title() for ax in page.axes] == ["US cities", "Beta", "Zipf's"]
    assert {ax.get_subplotspec().rowspan.start for ax in page.axes} == {0}
    assert page.get_supxlabel() == "Not drawn, as the data were not at hand: Kosarak, POS, Fire."
    assert page.get_figwidth() > drawn("calibrate-fig3").get_figwidth() > 6


def test_panels_that_share_no_axis_say_so():
    page = Page()
    low, high = page.subplots(1, 2)
    for ax, scale in ((low, 1.0), (high, 1e6)):
        ax.errorbar([1, 2], [scale, 2 * scale], yerr=0.1, label="a")
        ax.set_yscale("log")
    draw._share_height([low, high])
    assert low.get_ylim()[1] < high.get_ylim()[0]
    assert high.get_ylabel() == "axis of its own"
    assert low.get_ylabel() == ""


def test_bars_of_choices_fill_their_panels(drawn):
    page = drawn("ndss-fig9")
    choices = [ax for ax in page.axes if ax.get_ylabel() == "share of the trials"]
    assert [ax.get_ylim() for ax in choices] == [(0, 1), (0, 1)]
    titles = {round(ax.title.get_window_extent().y0) for ax in page.axes[3:]}
    assert len(titles) == 1
    # The names of all lines lie between the heading and the panels.
    (legend,) = page.legends
    box = legend.get_window_extent()
    assert box.y0 > page.axes[0].title.get_window_extent().y1
    heading = page._suptitle.get_window_extent()
    shown = page.get_suptitle().rstrip().count("\n") + 1
    lines = page.get_suptitle().count("\n") + 1
    assert box.y1 < heading.y1 - heading.height * shown / lines


def test_the_comparison_has_every_statement(tmp_path, tiny, undrawn):
    """Those of two figures are judged; those of the others cannot be checked."""
    figures = ("ndss-fig5", "draft-fig6")
    result = invoke("run", *figures, "--quick", "--out", tmp_path, "--compare", "--workers", 2)
    assert result.exit_code == 0, result.stderr
    page = (tmp_path / "compare.html").read_text("utf-8")
    assert all(f'id="{statement.id}" data-verdict="' in page for statement in STATEMENTS)
    assert all(f'<details class="group figure" id="{name}">' in page for name in FIGURES)
    run = read_figure_run(tmp_path)
    judged = {
        result.finding.evidence["figure"]
        for result in run.results
        if result.finding.verdict is not Verdict.UNCHECKED
    }
    assert judged == {statement.figure for statement in STATEMENTS} & set(figures)
    # The run wrote its manifest, of the tables that it has.
    assert not any("altered" in defect or "manifest" in defect for defect in run.defects)
    assert "draft-fig5.csv is missing or empty" in run.defects


def test_pictures_are_the_same_bytes_each_time(tmp_path, tiny):
    for folder in ("a", "b"):
        assert invoke("run", "ndss-fig5", "--quick", "--out", tmp_path / folder).exit_code == 0
    for suffix in ("csv", "paired.csv", "svg", "png"):
        a, b = ((tmp_path / folder / f"ndss-fig5.{suffix}").read_bytes() for folder in ("a", "b"))
        assert a == b


def test_quick_keeps_the_ends_of_a_grid():
    experiment = Experiment(
        ("zipf",), "oue", tuple(float(i) for i in range(1, 21)), ("base",), (), trials=30
    )
    assert experiment.quick().epsilons == (1.0, 7.0, 14.0, 20.0)
    assert experiment.quick().trials < 10


# --- what the papers say --------------------------------------------------------------------------


def test_statements_know_the_data_of_their_figures():
    assert {name: figure.experiment.populations for name, figure in FIGURES.items()} == DATA
    assert all(populations.POPULATIONS[name].note for name in STAND_INS)


def test_a_kept_table_is_computed_again_to_its_six_digits():
    (task,) = (
        task
        for task in plan([FIGURES["ndss-fig4"]]).distinct.values()
        if (task.cell.population, task.cell.epsilon) == ("zipf", 1.0)
    )
    kept = {
        (row.query, row.metric, row.method): (row.mean, row.std)
        for row in read_table(RESULTS / "ndss-fig4.csv", Row)
        if (row.dataset, row.epsilon) == ("zipf", 1.0)
    }
    fresh = {
        (moments.query, moments.metric, method): (moments.mean[0, m], moments.std[0, m])
        for moments in map(moments_of, compute(task).measured)
        for m, method in enumerate(moments.methods)
    }
    assert kept
    for key, numbers in kept.items():
        assert fresh[key] == pytest.approx(numbers, rel=KEPT)


def test_a_ratio_has_a_paired_interval(tmp_path, tiny, undrawn):
    """From the tables alone, what all trials give: the covariance follows from the difference."""
    assert invoke("run", "ndss-fig8", "--trials", 12, "--quick", "--out", tmp_path).exit_code == 0
    results = Results(tmp_path)
    at = {"figure": "ndss-fig8", "epsilon": 4.0}
    base, sub = (next(results.select(**at, method=m)) for m in ("base", "norm-sub"))
    ratio = results.ratio(base, sub)
    (task,) = (
        t
        for t in plan([FIGURES["ndss-fig8"]], quick=True, trials=12).distinct.values()
        if t.cell.epsilon == 4.0
    )
    (moments,) = map(moments_of, compute(task).measured)
    m = moments.methods.index("base")
    r = moments.methods.index("norm-sub")
    c = moments.covariance[0]
    mean = moments.mean[0]
    relative = c[m, m] / mean[m] ** 2 + c[r, r] / mean[r] ** 2 - 2 * c[m, r] / (mean[m] * mean[r])
    assert ratio.value == pytest.approx(mean[m] / mean[r], rel=1e-4)
    expected = math.exp(student(12, 0.025) * math.sqrt(relative / 12))
    low, high = ratio.interval(0.025)
    assert high / ratio.value == pytest.approx(expected, rel=1e-3)
    assert ratio.value / low == pytest.approx(expected, rel=1e-3)

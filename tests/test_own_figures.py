"""Figures with a method and data of the user's own: one more line, no file of ours is edited."""

import csv
from dataclasses import replace

import numpy as np
import pytest

from experiments import run
from experiments.cells import populations
from experiments.errors import ExperimentError
from experiments.figures import FIGURES
from experiments.figures.additions import with_additions
from experiments.pictures import draw
from experiments.pictures.style import LOOKS, shades
from experiments.run import plan
from ldpopt.datasets import Dataset
from ldpopt.errors import InvalidInputError
from ldpopt.studies.engine.candidate import candidates_of
from ldpopt.studies.engine.cell import compute
from ldpopt.studies.engine.measures import Top
from ldpopt.studies.engine.moments import side_by_side
from ldpopt.studies.named_objects import load_object
from tests.experiment_worlds import small
from tests.test_experiments import bare, invoke

MODULE = """
import numpy as np
from ldpopt import Problem, constraints, losses

def my_method(estimate):
    return np.full(estimate.d, 1 / estimate.d)

def fails_late(estimate, calls=[]):
    calls.append(1)
    if len(calls) > 2:
        raise ValueError("only twice")
    return estimate.frequencies

def too_few(estimate):
    return estimate.frequencies[:2]

def fails(estimate):
    return {}["x"]

capped = Problem(losses.LeastSquares(), [constraints.Bounds(0, 0.5), constraints.SumsTo(1.0)])
base = capped
number = 3
"""


@pytest.fixture
def world(tmp_path, monkeypatch):
    """A folder with a module and a file of counts, small populations, and no pictures."""
    (tmp_path / "somebodys_methods.py").write_text(MODULE)
    rows = "".join(f"v{i},{1000 // (i + 1)}\n" for i in range(30))
    (tmp_path / "counts.csv").write_text(f"label,count\n{rows}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(populations, "load", small)
    monkeypatch.setattr(run, "_picture", lambda job: {"svg": b"", "png": b""})
    return tmp_path


def added(name, *names, data=()):
    methods = {name: lambda estimate: estimate.frequencies for name in names}
    return with_additions(FIGURES[name], candidates_of(methods) if methods else (), data)


COINS = Dataset("coins", np.arange(1, 41), tuple(map(str, range(40))), "made up")
FEW = Dataset("few", np.arange(1, 31), tuple(map(str, range(30))), "made up")


def test_a_figure_gets_one_more_line_on_other_data(world):
    arguments = ("run", "ndss-fig4", "--method", "somebodys_methods:my_method")
    result = invoke(*arguments, "--data", "counts.csv", "--quick", "--out", world / "out")
    assert result.exit_code == 0, result.stderr
    with (world / "out" / "ndss-fig4-own.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["dataset"] for row in rows} == {"counts"}
    assert {row["panel"] for row in rows} == {"counts left", "counts right"}
    assert {int(row["d"]) for row in rows} == {30}
    lines = [row for row in rows if row["method"] == "my_method"]
    assert len(lines) == 2 * 4
    counts = np.array([1000 // (i + 1) for i in range(30)])
    error = np.mean((counts / counts.sum() - 1 / 30) ** 2)
    assert all(float(row["mean"]) == pytest.approx(error, rel=1e-5) for row in lines)
    # The figure of the paper is another one, in the same folder.
    assert not (world / "out" / "ndss-fig4.csv").exists()
    pairs = (world / "out" / "ndss-fig4-own.paired.csv").read_text()
    assert "my_method,norm-sub" in pairs


@pytest.mark.parametrize("name", ["ndss-fig4", "ndss-fig7"])
def test_own_methods_are_measured_on_the_reports_of_the_figure(name):
    """On the same reports, and in Fig. 7 on the same random sets too."""
    coins = {"coins": COINS}
    figure = added(name, "mine", data=coins.values())
    theirs, ours, *_ = plan([figure], quick=True, trials=2, data=coins).tasks[f"{name}-own"]
    papers, line = (compute(task).measured[0] for task in (theirs, ours))
    assert line.methods == ("mine",)
    both = side_by_side(papers, line)
    assert both.methods == (*papers.methods, "mine")
    # Draw by draw: the line repeats Base, so that their difference has no spread.
    base = papers.values[:, :, papers.methods.index("base")]
    np.testing.assert_allclose(line.values[:, :, 0], base, rtol=1e-9)
    spread = both.moments().difference_std("mine", "base")
    assert (spread <= 1e-6 * both.moments().std[:, -1]).all()


def cells_of(figure):
    return plan([figure], quick=True, trials=2).distinct


def test_a_method_of_the_user_leaves_the_cells_of_the_paper_as_they_are():
    papers = cells_of(FIGURES["ndss-fig4"])
    one = cells_of(added("ndss-fig4", "mine"))
    two = cells_of(added("ndss-fig4", "mine", "mine too"))
    # One more cell per method and place, beside those that a run of the paper's figure has kept.
    assert papers.keys() < one.keys() < two.keys()
    assert len(two) == 3 * len(papers)
    # A choice among methods depends on all of them.
    chosen = cells_of(added("ndss-fig9", "mine"))
    assert not chosen.keys() & cells_of(FIGURES["ndss-fig9"]).keys()
    assert all(task.cell.candidates[-1].name == "mine" for task in chosen.values())


def test_a_method_that_fails_leaves_the_other_lines(world):
    """One trial in the middle of the run: the rehearsal cannot know."""
    arguments = ("run", "ndss-fig4", "--method", "somebodys_methods:fails_late", "--trials", 3)
    result = invoke(*arguments, "--data", "counts.csv", "--quick", "--out", world / "out")
    assert result.exit_code == 1
    assert "only twice" in bare(result.stderr)
    table = (world / "out" / "ndss-fig4-own.csv").read_text()
    assert "norm-sub" in table
    assert "fails_late" not in table


def test_where_each_method_has_a_panel_there_is_one_more():
    figure = added("ndss-fig1", "mine", "mine too", data=[COINS])
    assert [panel.name for panel in figure.rows[-1]] == ["mine", "mine too"]
    assert figure.rows[-1][0].methods == ("mine", "truth")
    assert {panel.population for panel in figure.panels} == {"coins"}
    assert "coins" in figure.title
    assert "Zipf" not in figure.title
    assert len(figure.rows) == 4


def test_several_data_sets_have_a_row_each():
    other = Dataset("stones", COINS.counts, COINS.labels, "made up")
    figure = added("ndss-fig4", data=[COINS, other])
    assert [[panel.name for panel in row] for row in figure.rows] == [
        ["coins left", "coins right"],
        ["stones left", "stones right"],
    ]
    assert figure.experiment.populations == ("coins", "stones")
    shown = added("draft-fig6", data=[COINS])
    assert [panel.title for panel in shown.panels] == ["coins"]


@pytest.mark.parametrize("name", sorted(FIGURES))
def test_every_figure_takes_additions_or_says_why_not(name):
    measures = {type(measure).__name__ for measure in FIGURES[name].experiment.measures}
    if measures & {"FixedSets", "Selection", "Noise", "RankedCounts", "FrequencyShares"}:
        with pytest.raises(ExperimentError, match="choose"):
            added(name, "ours", data=[COINS])
    else:
        figure = added(name, "ours", data=[COINS])
        assert any("ours" in panel.methods for panel in figure.panels)
        assert {panel.population for panel in figure.panels} == {"coins"}
    unchanged = added(name)
    assert unchanged is FIGURES[name]


def test_names_that_are_taken_are_refused():
    with pytest.raises(ExperimentError, match="'base' is a method of the figures"):
        added("ndss-fig4", "base")
    with pytest.raises(ExperimentError, match="'zipf' is a population"):
        added("ndss-fig4", data=[Dataset("zipf", COINS.counts, COINS.labels, "")])
    with pytest.raises(ExperimentError, match="sets 'subcategory', which 'coins' does not have"):
        added("ndss-fig9", data=[COINS])


def test_the_most_frequent_values_are_at_most_all():
    figure = added("ndss-fig10", data=[FEW, COINS])
    (top,) = [measure for measure in figure.experiment.measures if isinstance(measure, Top)]
    assert top.ks == tuple(range(2, 31, 2))


def test_sets_of_a_figure_come_from_a_column_of_the_file(world):
    """Fig. 9 of N: choices among the papers' methods and one more, on sets of the user."""
    rows = "".join(f"v{i},{1000 // (i + 1)},{'abc'[i % 3]}\n" for i in range(30))
    (world / "grouped.csv").write_text(f"label,count,subcategory\n{rows}")
    arguments = ("run", "ndss-fig9", "--method", "somebodys_methods:my_method", "--trials", 1)
    result = invoke(*arguments, "--data", "grouped.csv", "--quick", "--out", world / "out")
    assert result.exit_code == 0, result.stderr
    with (world / "out" / "ndss-fig9-own.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["dataset"] for row in rows} == {"grouped"}
    errors = [row for row in rows if row["method"] == "my_method" and row["panel"] == "real"]
    # What the method answers does not depend on the reports: its errors on the sets are known.
    counts = np.array([1000 // (i + 1) for i in range(30)]) / sum(
        1000 // (i + 1) for i in range(30)
    )
    expected = np.mean([(counts[i::3].sum() - 1 / 3) ** 2 for i in range(3)])
    assert errors
    assert all(float(row["mean"]) == pytest.approx(expected, rel=1e-5) for row in errors)


def test_panels_of_several_data_sets_have_names_of_their_own():
    families = {"subcategory": [np.arange(5)]}
    data = [replace(each, sets=families) for each in (COINS, FEW)]
    figure = added("ndss-fig9", data=data)
    names = [panel.name for panel in figure.panels]
    assert len(set(names)) == len(names)
    assert "coins real" in names
    assert "emoji" not in figure.title


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--method", "somebodys_methods:too_few"), "must return one frequency per value"),
        (("--method", "somebodys_methods:number"), "a method is a name"),
        (("--method", "somebodys_methods:my_methods"), "did you mean 'my_method'"),
        (("--method", "somebodys_methods:fails"), "'fails' failed: KeyError: 'x' (somebodys"),
        (("--method", "somebodys_methods:base"), "give yours another name"),
        (("--method", "somebodys_methods"), "named as my_module:my_object"),
        (("--method", "somebodys_methods.py:base"), "as somebodys_methods:base"),
        (("--method", "no_such_module:f"), "cannot import 'no_such_module'"),
        (("--data", "zipf"), "'zipf' is a population of the figures"),
        (("--data", "none.csv"), "no such file"),
        (("--data", "counts.csv", "--compare"), "leave out --compare"),
    ],
)
def test_what_cannot_be_added_is_said_before_anything_is_computed(
    world, options, message, monkeypatch
):
    def compute(task):
        raise AssertionError("a cell was computed")

    monkeypatch.setattr("ldpopt.studies.engine.run.compute", compute)
    result = invoke("run", "ndss-fig4", *options, "--quick", "--out", world / "out")
    assert result.exit_code != 0
    assert message in bare(result.stderr) + bare(str(result.exception))


def test_objects_are_found_in_the_folder_of_the_call(world, monkeypatch):
    assert load_object("somebodys_methods:capped").solve([0.9, 0.4]).frequencies.sum() == 1
    with pytest.raises(InvalidInputError, match="unknown object of somebodys_methods 'x'"):
        load_object("somebodys_methods:x")


def test_methods_of_the_user_have_looks_of_their_own():
    figure = added("ndss-fig4", "mine", "mine too")
    looks = [draw._look(figure, name) for name in ("mine", "mine too")]
    everything = [*LOOKS.values(), *looks]
    for look in looks:
        for part in ("colour", "marker"):
            assert [getattr(other, part) for other in everything].count(getattr(look, part)) == 1
    assert draw.label("mine\x1b") == "mine\\x1b"
    # In a PNG their colours are not taken for the nearest one of the papers'.
    palette = shades(looks)
    assert len(palette) == 3 * 256
    for look in looks:
        colour = bytes.fromhex(look.colour[1:])
        assert colour in [palette[i : i + 3] for i in range(0, 768, 3)]


def test_the_command_explains_the_options():
    assert "FIGURE-own" in bare(invoke("run", "--help").stdout)

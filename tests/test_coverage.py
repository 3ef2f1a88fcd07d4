"""The matrix of losses and constraints: what the planner says, in four formats."""

import json
from pathlib import Path

import pytest

import ldpopt
from ldpopt.errors import InvalidInputError
from ldpopt.solve.coverage import PATHS, coverage
from tests.commands import run

PAGE = Path(__file__).parent.parent / "docs" / "explanation" / "coverage.md"


@pytest.fixture(scope="module")
def matrix():
    return coverage()


def test_the_first_matrix_has_a_form_for_many_of_its_problems(matrix):
    assert len(matrix.cells) == 1_040
    assert matrix.with_form == 417
    assert sum(matrix.counts.values()) == 1_040
    assert matrix.counts["no minimum"] == 15
    assert str(matrix).startswith("417 of 1,040 problems have a closed form")


def test_cells_name_the_form_that_solves_them(matrix):
    cells = {(cell.loss, cell.constraints): cell for cell in matrix.cells}
    pooled = cells["GaussianMLE", ("NonNegative", "SumsTo", "Monotone")]
    assert (pooled.path, pooled.name, pooled.has_form) == ("closed form", "pava, mle-apx", True)
    assert cells["BinomialMLE", ("Bounds", "GroupTotals")].name == "one root per group"
    assert cells["MultinomialMLE", ("NonNegative",)].path == "no minimum"
    assert cells["LeastSquares", ("Smooth", "Linear")].path == "conic"
    assert not cells["LeastSquares", ("Smooth", "Linear")].has_form


def test_the_page_of_the_site_is_what_the_command_prints(matrix):
    assert f"\n\n{matrix.markdown()}\n" in PAGE.read_text(encoding="utf-8")


def test_all_losses_and_constraints_have_rows():
    wide = ldpopt.coverage(up_to=1, every=True)
    names = {name for cell in wide.cells for name in cell.constraints}
    assert {"TopSet", "Margins", "Near, 1-norm", "AtMost"} <= names
    assert {"Huber", "KLTo", "NormalisedGaussianMLE"} <= set(wide.losses)
    paths = {(cell.loss, cell.constraints): cell.path for cell in wide.cells}
    assert paths["Huber", ("Margins",)] == "closed form"
    assert paths["HardThreshold", ()] == "iterative"
    assert paths["BinomialMLE", ("AtMost",)] == "no path"


def test_the_command_prints_a_table_json_and_markdown():
    shown = run("coverage", "--up-to", "1")
    assert shown.status == 0
    assert all(short in shown.out for short in PATHS.values())
    assert "problems have a closed form or one root per total" in " ".join(shown.out.split())
    record = json.loads(run("coverage", "--up-to", "1", "--json").out)
    assert record["problems"] == len(record["cells"]) == 80
    assert record["cells"][0] == {
        "loss": "LeastSquares",
        "constraints": [],
        "path": "closed form",
        "name": "base",
    }
    assert run("coverage", "--up-to", "0", "--markdown").out.startswith("| constraints |")


def test_wrong_options_are_refused_with_a_sentence():
    with pytest.raises(InvalidInputError, match="up_to must be 0 to 3, got 4"):
        coverage(up_to=4)
    both = run("coverage", "--json", "--markdown")
    assert (both.status, both.out) == (2, "")
    assert "give one of them" in both.err

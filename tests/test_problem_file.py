"""Problems in files of TOML and YAML: what they state, and that every mistake is named."""

import json
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose

from ldpopt import Problem, constraints, losses
from ldpopt.cli.problem_file import read_problem
from ldpopt.collection.labels import Labels
from ldpopt.errors import InvalidInputError, MissingPackageError
from ldpopt.oracles import GRR
from tests.commands import run

LABELS = Labels(4, ("red", "blue", "green", "white"))

WHOLE = """
[[loss]]
name = "LeastSquares"
[[loss]]
name = "TotalVariation"
weight = 0.1
order = ["red", "blue", "white", "green"]
[[constraints]]
name = "NonNegative"
[[constraints]]
name = "SumsTo"
[[constraints]]
name = "Fixed"
indices = ["blue"]
values = [0.25]
[[constraints]]
name = "GroupTotals"
groups = [["red", "blue"], [2, 3]]
totals = [0.5, 0.5]
"""


def read(folder, text, ending="toml"):
    path = folder / f"p.{ending}"
    path.write_text(text, "utf-8")
    return read_problem(path, LABELS)


def test_a_file_states_the_problem_that_python_states(tmp_path):
    stated = read(tmp_path, WHOLE)
    expected = Problem(
        losses.LeastSquares() + 0.1 * losses.TotalVariation([0, 1, 3, 2]),
        [
            constraints.NonNegative(),
            constraints.SumsTo(1.0),
            constraints.Fixed([1], [0.25]),
            constraints.GroupTotals([[0, 1], [2, 3]], [0.5, 0.5]),
        ],
    )
    f = [0.5, 0.3, -0.1, 0.2]
    assert_allclose(stated.solve(f).frequencies, expected.solve(f).frequencies, atol=1e-9)
    assert stated.statement == expected.statement


def test_yaml_states_the_same(tmp_path):
    text = """
    loss: {name: Huber, delta: 0.05}
    constraints: [NonNegative, {name: SumsTo, total: 0.9}, {name: AtMost, k: 2}]
    """
    stated = read(tmp_path, text, "yaml")
    expected = Problem(
        losses.Huber(0.05),
        [constraints.NonNegative(), constraints.SumsTo(0.9), constraints.AtMost(2)],
    )
    assert stated.statement == expected.statement


def test_priors_are_named_by_their_classes(tmp_path):
    stated = read(tmp_path, 'loss = {name = "PosteriorMean", prior = "PowerLaw"}')
    assert "PosteriorMean" in stated.statement


def constraint(line):
    return f'loss = "LeastSquares"\n[[constraints]]\n{line}\n'


WRONG = {
    "no loss": ("constraints = []", 'add a line such as loss = "LeastSquares"'),
    "another key": ('loss = "LeastSquares"\nconstraint = []', "unknown key 'constraint': did you"),
    "an unknown loss": ('loss = "LeastSquare"', "did you mean 'LeastSquares'"),
    "a function": ('loss = "Custom"', "state the problem in Python"),
    "an abstract class": ('loss = "Loss"', "unknown name 'Loss'"),
    "no losses": ("loss = []", "loss is an empty list"),
    "a number": ("loss = 3", "loss must be a name"),
    "a weight": ('loss = [{name = "LeastSquares", weight = -1}]', "weight must be a finite"),
    "no name": (constraint("total = 1"), "constraint 1 must be a name"),
    "no list": ('loss = "LeastSquares"\nconstraints = "SumsTo"', "begins with [[constraints]]"),
    "an argument": (constraint('name = "SumsTo"\ntotl = 1'), "'totl': did you mean 'total'?"),
    "no arguments": (constraint('name = "NonNegative"\nk = 1'), "takes no arguments: remove 'k'"),
    "a missing one": (constraint('name = "Fixed"\nvalues = [1]'), "indices must be given"),
    "a text": (constraint('name = "SumsTo"\ntotal = "one"'), "constraint 1 (SumsTo)"),
    "a label": (constraint('name = "TopSet"\nindices = ["gray"]'), "'gray' is not in the domain"),
    "a shape": (
        constraint('name = "Bounds"\nlower = [[0], 1]\nupper = 1'),
        "constraint 1 (Bounds)",
    ),
    "no prior": ('loss = {name = "PosteriorMean", prior = "os"}', "unknown prior 'os'"),
    "not TOML": ("loss = ", "is not TOML"),
    "a list and tables": (
        'constraints = ["NonNegative"]\n[[constraints]]\nname = "AtMost"',
        ": write all entries in one list, or each below [[constraints]]",
    ),
    "a key twice": ('loss = "LeastSquares"\nloss = "Entropy"', "is not TOML"),
    "too deep": ("loss = " + "[" * 5000, "p.toml"),
    "many digits": (f"loss = {'9' * 5000}", "p.toml"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_in_a_file_is_named(case, tmp_path):
    text, words = WRONG[case]
    with pytest.raises(InvalidInputError) as error:
        read(tmp_path, text)
    assert "p.toml" in str(error.value)
    assert words in str(error.value)


YAML = {
    "an alias": ("loss: &a LeastSquares\nconstraints: [*a]", "aliases"),
    "an object": ("loss: !!python/object/apply:os.getcwd []", "is not YAML"),
    "a key twice": ("loss: LeastSquares\nloss: Entropy", "occurs twice"),
    "a list as a key": ("? [a]\n: b", "is not YAML"),
    "a list": ("- loss", "must state a loss"),
    "not YAML": ("loss: [", "is not YAML"),
    "too deep": ("loss: " + "[" * 3000, "p.yaml"),
}


@pytest.mark.parametrize("case", YAML)
def test_what_is_wrong_in_yaml_is_named(case, tmp_path):
    text, words = YAML[case]
    with pytest.raises(InvalidInputError, match=words):
        read(tmp_path, text, "yaml")


def test_without_its_package_yaml_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'ldpopt\[yaml\]'"):
        read(tmp_path, "loss: LeastSquares", "yaml")


@pytest.mark.parametrize("ending", ["json", "py"])
def test_other_endings_are_refused(ending, tmp_path):
    with pytest.raises(InvalidInputError, match=r"are read from \.toml"):
        read(tmp_path, "", ending)


# --- on the command line --------------------------------------------------------------------------

COUNTS = "value,count\nred,50\nblue,20\ngreen,30\nwhite,0\n"


@pytest.fixture
def counts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.csv").write_text(COUNTS)
    (tmp_path / "labels.txt").write_text("\n".join(LABELS.names))
    return ["c.csv", "--oracle", "grr", "--epsilon", 1, "--domain", "labels.txt"]


def test_estimate_solves_the_problem_of_a_file(counts, tmp_path):
    (tmp_path / "p.toml").write_text(
        constraint('name = "Fixed"\nindices = ["red"]\nvalues = [0.4]')
    )
    result = run("estimate", *counts, "--problem", "p.toml", "--json")
    assert result.status == 0, result.err
    record = json.loads(result.out)
    assert record["method"] == "LeastSquares() under Fixed(<1 value>)"
    raw = GRR(1.0, 4).estimate([50, 20, 30, 0], 100).frequencies
    expected = [0.4, *raw[1:]]
    assert_allclose([row["frequency"] for row in record["estimate"]], expected)
    assert "Certificate(gap=" in result.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--method", "norm"], "--problem states what is solved: leave out --method"),
        (["--top-k", 2], "--problem states what is solved: leave out --top-k"),
        (["--out", "p.toml"], "p.toml"),
    ],
)
def test_a_problem_goes_with_no_method(options, words, counts, tmp_path):
    (tmp_path / "p.toml").write_text('loss = "LeastSquares"')
    result = run("estimate", *counts, "--problem", "p.toml", *options)
    assert (result.status, words in result.err) == (2, True), result.err
    assert (tmp_path / "p.toml").read_text() == 'loss = "LeastSquares"'


def test_what_is_no_toml_is_an_error_before_the_reports_are_read(counts, tmp_path, monkeypatch):
    (tmp_path / "p.toml").write_text("loss = ")
    monkeypatch.setattr("ldpopt.cli.estimate.counted", lambda *_: pytest.fail("was read"))
    assert "is not TOML" in run("estimate", *counts, "--problem", "p.toml").err


def test_options_of_methods_are_passed_on(counts):
    cut = ["--method", "base-cut", "--json"]
    result = run("estimate", *counts, *cut, "--top-k", 1)
    record = json.loads(result.out)
    assert record["options"] == {"top_k": 1}
    kept = [row["frequency"] for row in record["estimate"]]
    assert np.count_nonzero(kept) == 1
    assert "options" not in json.loads(run("estimate", *counts, *cut).out)
    flag = run("estimate", *counts, "--method", "norm-sub", "--zero-first", "--json")
    assert json.loads(flag.out)["options"] == {"zero_first": True}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--alpha", 1], "norm-sub has no option --alpha: it is one of base-cut and norm-hyb"),
        (["--method", "base-cut", "--alpha", -1], "alpha must be"),
        (["--method", "base-cut", "--alpha", 1, "--top-k", 2], "give one of them"),
        (["--method", "norm-cut", "--crossing", "both"], "crossing"),
    ],
)
def test_options_that_a_method_does_not_have_are_named(options, words, counts):
    result = run("estimate", *counts, *options)
    assert (result.status, words in result.err) == (2, True), result.err


def test_compare_takes_a_problem_from_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "est.csv").write_text("value,frequency\nred,0.5\nblue,0.4\ngreen,-0.1\n")
    (tmp_path / "own.toml").write_text(
        'loss = "LeastSquares"\n'
        'constraints = ["NonNegative", {name = "TopSet", indices = ["blue"]}]\n'
    )
    options = ["--input", "est.csv", "--problem", "own.toml", "--solvers", "CLARABEL"]
    options.append("--json")
    result = run("compare", *options)
    assert result.status == 0, result.err
    assert {row["problem"] for row in json.loads(result.out)} == {"own"}
    over = run("compare", *options, "--csv", "own.toml")
    assert (over.status, "would replace own.toml" in over.err) == (2, True)
    (tmp_path / "own.toml").write_text("loss = 1")
    assert run("compare", *options).status == 2

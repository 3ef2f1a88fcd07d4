"""Methods of the user's own, beside those that have a name."""

import json
import pickle
import sys

import numpy as np
import pytest

import ldpopt
from ldpopt import FrequencyEstimate, constraints, losses, oracles
from ldpopt.errors import InvalidInputError, InvalidTypeError
from ldpopt.methods import METHODS, Method, method_of, named_methods
from tests.commands import run

SIMPLEX = [constraints.NonNegative(), constraints.SumsTo(1.0)]
PROBLEM = ldpopt.Problem(losses.LeastSquares(), SIMPLEX)
STACK = np.array([[0.5, 0.2, -0.01], [0.9, 0.4, 0.1]])


def halved(estimate, *, factor=0.5):
    return factor * estimate.frequencies


def test_a_function_gets_one_vector_at_a_time():
    shapes = []

    def shifted(estimate):
        shapes.append(estimate.frequencies.shape)
        return estimate.frequencies + (1 - estimate.frequencies.sum()) / estimate.d

    result = ldpopt.postprocess(STACK, shifted)
    assert shapes == [(3,), (3,)]
    np.testing.assert_allclose(result.frequencies.sum(axis=1), 1)
    assert result.method == "shifted"
    assert np.array_equal(ldpopt.postprocess(STACK[0], shifted).frequencies, result.frequencies[0])


def test_options_are_keyword_arguments():
    assert method_of(halved).options == {"factor": 0.5}
    assert ldpopt.postprocess([0.5, 0.5], halved, factor=2).frequencies.tolist() == [1.0, 1.0]
    with pytest.raises(InvalidInputError, match="did you mean 'factor'"):
        ldpopt.postprocess([0.5, 0.5], halved, factr=2)


def test_problems_estimates_and_solutions_are_taken():
    expected = ldpopt.postprocess(STACK, "norm-sub").frequencies
    for method in (
        PROBLEM,
        METHODS["norm-sub"],
        lambda estimate: PROBLEM.solve(estimate),
        lambda estimate: ldpopt.postprocess(estimate, "norm-sub"),
    ):
        assert np.array_equal(ldpopt.postprocess(STACK, method).frequencies, expected)
    assert ldpopt.postprocess(STACK, PROBLEM).method == PROBLEM.statement


def test_the_raw_estimate_and_its_noise_stay_known():
    oracle = oracles.OUE(1.0, 3)
    raw = oracle.estimate([3_750, 3_850, 2_750], 10_000)
    after = ldpopt.postprocess(raw, halved)
    assert after.raw is raw
    assert after.noise is raw.noise


def in_place(estimate):
    f = estimate.frequencies
    f[f < 0] = 0
    return f


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda estimate, other: other, "missing a required argument: 'other'"),
        (lambda e: e.frequencies[:2], r"shape \(3,\); it returned shape \(2,\): .* one vector"),
        (lambda e: e.frequencies.sum(), r"it returned shape \(\)"),
        (lambda e: np.log(e.frequencies * [1, 1, 0]), "returned -inf at index 2: let it return"),
        (lambda e: e.frequencies * [1, np.nan, 1], "returned nan at index 1"),
        (lambda e: e.frequencies * 1j, "complex128: return one real number per value"),
        (lambda e: None, "NoneType'>: return one real number"),
        (in_place, r"'in_place' changes the estimate .* f = estimate.frequencies.copy\(\)"),
        (lambda e: e.frequencies.sort(), r"changes the estimate"),
        (lambda e: e.frequencies.setflags(write=True), r"changes the estimate"),
        (lambda e: object.__setattr__(e, "frequencies", np.ones(3)), r"changes the estimate"),
        (lambda e: np.maximum(e.frequencies, 0, out=e.frequencies), r"changes the estimate"),
    ],
)
def test_what_a_function_does_wrong_is_said_with_the_remedy(function, message):
    with (
        np.errstate(divide="ignore"),
        pytest.raises((InvalidInputError, InvalidTypeError), match=message),
    ):
        ldpopt.postprocess([0.5, 0.2, 0.1], function)


def test_errors_of_a_function_itself_pass():
    def broken(estimate):
        raise ValueError("my own")

    with pytest.raises(ValueError, match=r"^my own$"):
        ldpopt.postprocess([0.5, 0.5], broken)


def test_what_is_no_method_is_refused():
    for what in (3, None, dict, constraints.NonNegative()):
        with pytest.raises(InvalidTypeError, match="a method is a name"):
            ldpopt.postprocess([0.5, 0.5], what)
    with pytest.raises(InvalidInputError, match="did you mean 'norm-sub'"):
        ldpopt.postprocess([0.5, 0.5], "norm_sub")


def test_methods_by_name():
    assert list(named_methods("base")) == ["base"]
    assert list(named_methods(halved)) == ["halved"]
    assert list(named_methods([halved, "norm", PROBLEM])) == ["halved", "norm", PROBLEM.statement]
    ours = named_methods({"ours": halved, "theirs": "norm"})
    assert ours["ours"].name == "ours"
    assert ours["theirs"] is METHODS["norm"]
    with pytest.raises(InvalidInputError, match="'halved' again at position 1: pass a dictionary"):
        named_methods([halved, halved])
    with pytest.raises(InvalidInputError, match="at least one"):
        named_methods([])


def test_methods_are_pickled_by_name_or_with_their_function():
    assert pickle.loads(pickle.dumps(METHODS["norm-hyb"])) is METHODS["norm-hyb"]
    for method in (method_of(halved), method_of(PROBLEM, "mine")):
        again = pickle.loads(pickle.dumps(method))
        assert isinstance(again, Method)
        assert again.name == method.name
        assert np.array_equal(
            again.solve(FrequencyEstimate(STACK)).frequencies,
            method.solve(FrequencyEstimate(STACK)).frequencies,
        )


def test_select_method_takes_own_methods():
    oracle = oracles.OUE(1.0, 8)
    raw = oracle.estimate(oracle.simulate_counts([50] * 8, rng=0), 400)
    uniform = {"uniform": lambda estimate: np.full(estimate.d, 1 / estimate.d), "base": "base"}
    chosen = ldpopt.select_method(raw, [[0], [1]], uniform, trials=20, rng=0)
    assert chosen.method == "uniform"
    assert {score.method for score in chosen.scores} == {"uniform", "base"}
    by_problem = ldpopt.select_method(raw, [[0]], ["base", "norm"], fit=PROBLEM, trials=2, rng=0)
    assert by_problem.fit == PROBLEM.statement


MODULE = """
from ldpopt import Problem, closed_form, constraints, losses

problem = Problem(losses.LeastSquares(), [constraints.NonNegative(), constraints.SumsTo(1.0)])

def halfway(estimate):
    return closed_form.norm_sub((estimate.frequencies + 1 / estimate.d) / 2)

def fails(estimate):
    return {}["x"]
"""
COUNTS = ("counts.csv", "--oracle", "oue", "--epsilon", 1, "--domain", 3, "--n", 1000)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "methods_of_mine.py").write_text(MODULE, "utf-8")
    (tmp_path / "counts.csv").write_text("value,count\n0,480\n1,420\n2,330\n", "utf-8")
    (tmp_path / "sets.json").write_text('{"first two": [0, 1]}', "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", list(sys.path))
    return tmp_path


def printed(command, *options):
    result = run(command, *COUNTS, *options, "--json")
    assert result.status == 0, result.err
    return json.loads(result.out), " ".join(result.err.split())


def test_commands_take_methods_of_modules(folder):
    ours, remarks = printed("estimate", "--method", "methods_of_mine:problem")
    theirs, _ = printed("estimate", "--method", "norm-sub")
    assert ours["method"] == "methods_of_mine:problem"
    assert ours["estimate"] == theirs["estimate"]
    # No theorem stands behind a problem of one's own.
    assert "Certificate(gap=" in remarks
    names = "norm-sub,methods_of_mine:halfway"
    evidence = ("--query", "sets.json", "--by", "simulation", "--trials", 2, "--seed", 1)
    fit = ("--fit", "methods_of_mine:problem")
    chosen, _ = printed("select", *evidence, *fit, "--candidates", names)
    assert {score["method"] for score in chosen["scores"]} == set(names.split(","))
    assert chosen["fit"] == "methods_of_mine:problem"
    judged, _ = printed("risk", "--methods", names)
    assert {row["method"] for row in judged["rows"]} == set(names.split(","))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("methods_of_mine:fails", "failed: KeyError: 'x' (methods_of_mine.py, line 10)"),
        ("methods_of_mine:halfwy", "did you mean 'halfway'"),
        ("methods_of_mine:losses", "a method is a name such as 'norm-sub', a Problem"),
        ("exits:any", "exits does not run: SystemExit: 3 (exits.py, line 1)"),
        ("imports:any", "No module named 'no_such_module' (imports.py, line 1)"),
        ("no_such_module:any", "call the command in the folder of the module"),
    ],
)
def test_a_module_that_does_not_serve_is_one_sentence(folder, name, message):
    (folder / "exits.py").write_text("raise SystemExit(3)", "utf-8")
    (folder / "imports.py").write_text("import no_such_module", "utf-8")
    result = run("estimate", *COUNTS, "--method", name)
    assert result.status == 2
    assert message in " ".join(result.err.split())

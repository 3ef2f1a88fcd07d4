"""``ldpopt risk``: the errors of methods on the files of an analyst."""

import json

import numpy as np
import pytest

from ldpopt import constraints, losses, oracles
from ldpopt.collection import read_counts, write_reports
from ldpopt.datasets import read_frequencies
from ldpopt.methods import METHODS
from ldpopt.solve.problem import Problem
from ldpopt.studies.risk import compare_risk
from tests.commands import run

PROTOCOL = ["--oracle", "oue", "--epsilon", 1, "--n", 400]
NAMES = ["base", "norm", "norm-sub"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with reports, their counts, raw and processed estimates, sets and a problem."""
    folder = tmp_path_factory.mktemp("risk")
    oracle = oracles.OUE(epsilon=1.0, d=4)
    values = np.repeat([0, 1, 2], [250, 100, 50])
    write_reports(folder / "r.parquet", oracle, oracle.perturb(values, rng=1))
    (folder / "s.json").write_text('{"low": [0, 1], "high": [2, 3]}')
    (folder / "own.toml").write_text(
        'loss = "LeastSquares"\n[[constraints]]\nname = "SumsTo"\ntotal = 1\n'
    )
    (folder / "huge.csv").write_text("value,frequency\na,1e308\nb,-1e308\n")
    (folder / "capital.csv").write_text("value,Frequency\na,0.5\nb,0.5\n")
    counts = folder / "c.json"
    for arguments in (
        ("aggregate", folder / "r.parquet", "--out", counts),
        ("estimate", counts, "--method", "base", "--out", folder / "raw.csv"),
        ("estimate", counts, "--method", "norm-sub", "--out", folder / "processed.csv"),
    ):
        assert run(*arguments).status == 0
    return folder


@pytest.fixture
def world(files, monkeypatch):
    monkeypatch.chdir(files)
    return files


def record_of(*arguments):
    result = run("risk", *arguments, "--json")
    assert result.status == 0, result.err
    return json.loads(result.out)


def test_the_command_states_what_the_library_returns(world):
    raw = read_counts("c.json").estimate
    expected = compare_risk(raw, NAMES, {"low": [0, 1], "high": [2, 3]}, level=0.8, rng=3)
    record = record_of(
        "c.json", "--methods", ",".join(NAMES), "--query", "s.json", "--level", 0.8, "--seed", 3
    )
    assert [row["method"] for row in record["rows"]] == [row.method for row in expected.rows]
    first, second = expected.rows[:2]
    assert record["rows"][0]["mse"] == first.risk.mean
    assert record["rows"][0]["lower"] == first.risk.low
    assert record["rows"][0]["upper"] == first.risk.high
    assert record["rows"][1]["above_best"] == second.excess
    assert record["rows"][1]["above_best_lower"] == second.excess_low
    assert record["rows"][1]["above_best_upper"] == second.excess_high
    assert [row["verdict"] for row in record["rows"]] == list(map(expected.verdict, expected.rows))
    assert (record["level"], record["by"], record["answers"]) == (0.8, "sure", "2 sets")


def test_reports_counts_and_frequencies_have_the_same_risks(world):
    methods = ["--methods", "norm,norm-sub"]
    of_counts = record_of("c.json", *methods)
    assert record_of("r.parquet", *methods) == of_counts
    names, _ = read_frequencies("raw.csv")
    assert names == ("0", "1", "2", "3")
    assert record_of("raw.csv", *PROTOCOL, *methods) == of_counts


def test_all_methods_are_compared_by_default(world):
    record = record_of("c.json")
    rows = {row["method"] for row in record["rows"]}
    assert rows | set(record["dropped"]) == set(METHODS)
    assert record["by"] == "bootstrap"


def test_a_problem_of_a_file_is_a_candidate_named_after_it(world):
    record = record_of("c.json", "--methods", "base", "--problem", "own.toml")
    rows = {row["method"]: row["mse"] for row in record["rows"]}
    problem = Problem(losses.LeastSquares(), [constraints.SumsTo(1.0)])
    table = compare_risk(read_counts("c.json").estimate, {"own": problem})
    assert rows["own"] == pytest.approx(table.rows[0].risk.mean, rel=1e-9)


def test_table_file_and_picture(world):
    result = run("risk", "c.json", "--methods", "base,norm", "--out", "t.csv", "--plot", "p.svg")
    assert result.out.startswith("Risk of 4 values, by Stein's unbiased estimate\n")
    assert "best" in result.out
    assert "Wrote t.csv." in result.err
    heading, *rows = (world / "t.csv").read_text().splitlines()
    assert heading.startswith("method,mse,lower,upper,above_best,")
    assert {row.split(",")[0] for row in rows} == {"base", "norm"}
    assert "<svg" in (world / "p.svg").read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["c.json", "--methods", "nrom"], "unknown method 'nrom'"),
        (["c.json", "--by", "magic"], "unknown by 'magic'"),
        (["c.json", "--by", "sure", "--methods", "base-cut"], "base-cut jumps"),
        (["c.json", "--level", 1], "--level"),
        (["c.json", "--seed", "-1"], "--seed must be at least 0"),
        (["c.json", "--out", "t.txt"], "results are written to"),
        (["c.json", "--plot", "c.json"], "pictures are written to"),
        (["c.json", "--problem", "own.toml", "--problem", "own.toml"], "another candidate"),
        (["c.json", "--problem", "none.toml"], "none.toml"),
        (["c.json", "--query", "none.json"], "cannot read the sets none.json"),
        (["none.csv"], "none.csv does not exist"),
        (["raw.csv"], "give all"),
        (["raw.csv", *PROTOCOL, "--domain", 4], "leave out --domain"),
        (["processed.csv", *PROTOCOL], "processed.csv is processed"),
        (["huge.csv", *PROTOCOL], "huge.csv is processed"),
        (["capital.csv", *PROTOCOL], "no column 'frequency'; the header has value, Frequency"),
        (["c.json", *PROTOCOL[:-1], 7], "c.json has counts of 400 reports, not of n = 7"),
    ],
)
def test_what_risk_cannot_do_is_a_sentence(arguments, sentence, world):
    result = run("risk", *arguments)
    assert (result.status, sentence in result.err) == (2, True), result.err

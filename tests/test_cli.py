import json
import subprocess
import sys

import pytest

from ldpopt import cli
from ldpopt.methods import METHODS
from ldpopt.verify import LEDGER


def ldpopt(*arguments):
    return subprocess.run([sys.executable, "-m", "ldpopt", *arguments], capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("command", [[], ["verify"], ["compare"], ["methods"]])
def test_help_teaches(command):
    result = ldpopt(*command, "--help")
    assert result.returncode == 0
    assert "Usage" in result.stdout
    assert not command or "Example" in result.stdout


def test_methods_lists_table_one():
    result = ldpopt("methods")
    assert result.returncode == 0
    assert all(name in result.stdout for name in METHODS)
    rows = json.loads(ldpopt("methods", "--json").stdout)
    assert [row["name"] for row in rows] == list(METHODS)


def test_compare_prints_closed_form_and_solvers_as_json():
    result = ldpopt("compare", "--d", "16,32", "--solvers", "clarabel,OSQP", "--json")
    assert result.returncode == 0
    rows = json.loads(result.stdout)
    assert len(rows) == 2 * 2 * 3
    solved = [row for row in rows if row["status"] == "optimal"]
    assert {row["solver"] for row in solved} == {"norm-sub", "mle-apx", "CLARABEL", "OSQP"}
    assert all(row["difference"] < 1e-5 for row in solved)
    failed = [row for row in rows if row["status"] == "failed"]
    assert {(row["problem"], row["solver"]) for row in failed} == {("weighted MLE", "OSQP")}


def test_compare_prints_a_table_that_fits_eighty_columns():
    result = ldpopt("compare", "--d", "8", "--solvers", "CLARABEL")
    assert result.returncode == 0
    assert "CLARABEL" in result.stdout
    assert "…" not in result.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["compare", "--solvers", "OSPQ"], ["OSPQ", "did you mean 'OSQP'", "installed"]),
        (["compare", "--d", "1"], ["--d", "from 2"]),
        (["compare", "--d", "100000000000000"], ["--d", "10,000,000"]),
        (["compare", "--solvers", "[/x]"], ["[/x]", "installed"]),
        (["compare", "--d", "ten"], ["--d", "'ten'"]),
        (["compare", "--d", "nan"], ["--d", "'nan'"]),
        (["compare", "--time-limit", "-1"], ["--time-limit", "> 0"]),
        (["verify", "--out", "/dev/null/here"], ["--out", "/dev/null/here"]),
        (["verfy"], ["verfy", "verify"]),
    ],
)
def test_bad_input_is_one_sentence_without_a_traceback(arguments, words):
    result = ldpopt(*arguments)
    assert result.returncode == 2
    assert all(word in result.stderr for word in words)
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_verify_writes_its_files_and_succeeds(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("ldpopt.verify.LEDGER", {key: LEDGER[key] for key in ("base-pos-ls", "oue-flip")})
    cli.verify(out=tmp_path / "new", quick=True)
    assert [row["id"] for row in json.loads((tmp_path / "new" / "claims.json").read_text())] == [
        "base-pos-ls",
        "oue-flip",
    ]
    assert "<!doctype html>" in (tmp_path / "new" / "report.html").read_text()
    assert "base-pos-ls" in capsys.readouterr().out


def test_verify_fails_when_a_verdict_differs(monkeypatch):
    import typer

    claim = LEDGER["oue-flip"]
    changed = type(claim)(**{**vars(claim), "expected": "holds"})
    monkeypatch.setattr("ldpopt.verify.LEDGER", {"oue-flip": changed})
    with pytest.raises(typer.Exit) as stop:
        cli.verify(out=None, quick=True)
    assert stop.value.exit_code == 1


def test_version_is_printed():
    import ldpopt as package

    assert ldpopt("--version").stdout.strip() == f"ldpopt {package.__version__}"

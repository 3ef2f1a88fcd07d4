"""The command line: what its commands print, how errors and interruptions end."""

import csv
import json
import shutil
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import ldpopt as package
from ldpopt.claims import LEDGER
from ldpopt.claims.engine.claim import Verdict
from ldpopt.cli.app import COMMANDS
from ldpopt.collection import read_reports, write_reports
from ldpopt.errors import InvalidInputError
from ldpopt.executors import InProcess
from ldpopt.methods import METHODS
from ldpopt.oracles import ORACLES
from ldpopt.studies.comparison import CASES
from tests.commands import run

SAFETY_NET = 600  # seconds: no child takes so long unless it hangs


def started(*arguments):
    """Run a true process, for what only a process shows."""
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=SAFETY_NET
    )


def test_help_lists_the_commands_from_values_to_checks():
    shown = run("--help")
    assert shown.status == 0
    listed = shown.out.partition("Commands:")[2]
    positions = [listed.index(f" {command} ") for command in COMMANDS]
    assert positions == sorted(positions)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_every_command_has_an_example(command):
    shown = run(command, "--help")
    assert shown.status == 0
    assert "Usage" in shown.out
    assert f"Example: ldpopt {command} " in " ".join(shown.out.split())
    # Brackets that are no markup need no backslash: some versions of click show it.
    assert "\\" not in shown.out


def test_help_lists_what_the_code_knows():
    problems = " ".join(run("compare", "--help").out.replace("│", " ").split())
    assert f"Some of {', '.join(CASES)}, separated by commas." in problems
    for command in ("audit", "perturb", "estimate"):
        shown = " ".join(run(command, "--help").out.replace("│", " ").split())
        assert f"One of {', '.join(ORACLES)}" in shown


def test_methods_prints_table_one():
    shown = run("methods")
    assert shown.status == 0
    assert all(f" {name} " in shown.out for name in METHODS)
    words = " ".join(shown.out.split())
    assert "alpha=2.0" in words


def test_methods_as_markdown_is_the_table_of_the_explanation():
    shown = run("methods", "--markdown")
    page = Path(__file__).parent.parent / "docs" / "explanation" / "methods.md"
    assert shown.out.startswith("| name | what it does |")
    assert shown.out.count("\n") == len(METHODS) + 2
    assert f"\n\n{shown.out}\n" in page.read_text(encoding="utf-8")
    both = run("methods", "--markdown", "--json")
    assert (both.status, both.out) == (2, "")
    assert "give one of them" in both.err


def test_methods_as_json_has_every_field_of_table_one():
    rows = {row["name"]: row for row in json.loads(run("methods", "--json").out)}
    assert list(rows) == list(METHODS)
    assert rows["norm-sub"]["sums_to_one"] == "yes"
    assert rows["norm-cut"]["sums_to_one"] == "almost"
    assert rows["norm-hyb"]["preserves_order"] is False
    assert rows["base-cut"]["options"] == {"alpha": 2.0, "top_k": None}
    assert rows["norm-sub"]["complexity"] == "O(d log d)"
    assert rows["norm-sub"]["label"] == "Norm-Sub"
    assert rows["norm-sub"]["nonnegative"] == "yes"


def test_compare_prints_closed_form_and_solvers_as_json():
    result = run("compare", "--d", "16,32", "--solvers", "clarabel,OSQP", "--json")
    assert result.status == 0
    rows = json.loads(result.out)
    assert [row["d"] for row in rows] == [16] * 6 + [32] * 6
    solved = [row for row in rows if row["status"] == "optimal"]
    assert {row["solver"] for row in solved} == {"norm-sub", "mle-apx", "CLARABEL", "OSQP"}
    assert all(row["difference"] < 1e-5 for row in solved)
    unsupported = [row for row in rows if row["status"] == "unsupported"]
    assert {(row["problem"], row["solver"]) for row in unsupported} == {("weighted MLE", "OSQP")}


def test_compare_writes_csv_and_a_picture_of_accuracy_against_time(tmp_path):
    table = tmp_path / "new" / "rows.csv"
    picture = tmp_path / "plot.png"
    result = run(
        *("compare", "--d", "1.6e1", "--solvers", "CLARABEL", "--problems", "cls, capped"),
        *("--accuracy", "low,high", "--csv", table, "--plot", picture),
    )
    assert result.status == 0, result.err
    assert result.err == f"Wrote {table}.\nWrote {picture}.\n"
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert [row["solver"] for row in rows[:3]] == ["norm-sub", "CLARABEL", "CLARABEL"]
    assert [row["accuracy"] for row in rows] == ["", "low", "high"] * 2
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert float(rows[2]["gap"]) < float(rows[1]["gap"])


def test_every_solver_is_named_in_a_pipe():
    names = "CLARABEL,OSQP,QOCO,SCS"
    result = run(
        *("compare", "--d", "8", "--solvers", names, "--accuracy", "low,high"),
        *("--problems", "cls,absolute"),
    )
    assert result.status == 0
    assert all(name in result.out for name in [*names.split(","), "norm-sub"])
    assert "…" not in result.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["compare", "--solvers", "OSPQ"], ["OSPQ", "did you mean 'OSQP'", "installed"]),
        (["compare", "--solvers", ","], ["--solvers", "at least one"]),
        (["compare", "--problems", ""], ["--problems", "at least one"]),
        (["compare", "--plot", "x.txt"], [".png, .svg or .pdf", "x.txt"]),
        (["compare", "--plot", "/proc/x.png"], ["cannot write to /proc/x.png"]),
        (["compare", "--problems", "clss"], ["clss", "did you mean 'cls'"]),
        (["compare", "--accuracy", "hihg"], ["hihg", "did you mean 'high'"]),
        (["compare", "--csv", "/dev/null/x.csv", "--d", "8"], ["cannot write", "/dev/null"]),
        (["compare", "--csv", "/", "--d", "8"], ["cannot write to /: it is a folder"]),
        (["compare", "--d", "1"], ["--d", "from 2 to 10,000,000", "got '1'"]),
        (["compare", "--d", "10000001"], ["--d", "from 2 to 10,000,000"]),
        (["compare", "--solvers", "[/x]"], ["[/x]", "installed"]),
        (["compare", "--d", "8,ten"], ["--d", "'8,ten'"]),
        (["compare", "--d", "nan"], ["--d", "'nan'"]),
        (["compare", "--time-limit", "0"], ["--time-limit", "> 0"]),
        (["audit", "--oracle", "ouf", "--epsilon", "1", "--d", "8"], ["did you mean 'oue'"]),
        (["verify", "--out", "/dev/null/here"], ["cannot write to /dev/null/here/claims.json"]),
        (["estimate", "/nowhere.json"], ["/nowhere.json does not exist"]),
        (["verfy"], ["verfy", "verify"]),
        (["compare", "--d", "8", "--d", "9"], ["'--d': it takes one value, and is given 2"]),
        (["estimate", "a", "--query", "b", "--query", "c"], ["'--query': it takes one value"]),
    ],
    ids=lambda value: " ".join(value) if value[0] in [*COMMANDS, "verfy"] else "",
)
def test_bad_input_is_one_sentence_without_a_traceback(arguments, words):
    result = run(*arguments)
    assert result.status == 2
    assert all(word in result.err for word in words)
    assert "Traceback" not in result.err
    assert result.out == ""


@pytest.mark.parametrize("heading", ["value,count", "value,frequency", "age"])
def test_a_wrong_oracle_is_named_before_options_that_are_missing(heading, tmp_path):
    file = tmp_path / "table.csv"
    file.write_text(f"{heading}\n0,1\n1,3\n")
    columns = ["--column", "age"] if heading == "age" else []
    result = run("estimate", file, "--oracle", "OEU", *columns)
    assert result.status == 2
    assert "unknown oracle 'oeu': did you mean 'oue'?" in result.err


def test_an_error_of_the_library_is_the_only_line():
    result = run("compare", "--d", "1")
    assert result.err.startswith("Error: --d takes whole numbers")
    assert result.err.count("\n") == 1


def test_a_size_at_the_limits_is_taken(monkeypatch):
    sizes = []
    monkeypatch.setattr(
        "ldpopt.cli.compare.compare_solvers", lambda d, *_, **__: sizes.extend(d) or []
    )
    assert run("compare", "--d", "2,10000000", "--json").status == 0
    assert sizes == [2, 10_000_000]


def test_a_solver_that_cvxpy_knows_and_that_is_missing_is_not_called_unknown(monkeypatch):
    monkeypatch.setattr("ldpopt.solve.programs.solvers.installed_solvers", lambda: ("CLARABEL",))
    result = run("compare", "--solvers", "mosek")
    assert "the solver MOSEK is not installed (installed here: CLARABEL): install it" in result.err


def test_only_similar_names_of_solvers_are_suggested():
    result = run("compare", "--solvers", "FOO")
    assert "unknown solver 'FOO' (installed here: " in result.err
    assert "did you mean" not in result.err


@pytest.mark.parametrize(
    ("suffix", "start"), [("png", b"\x89PNG"), ("SVG", b"<?xml"), ("pdf", b"%PDF")]
)
def test_the_picture_has_the_format_of_its_ending(suffix, start, tmp_path):
    path = tmp_path / f"plot.{suffix}"
    options = ["--d", 8, "--solvers", "CLARABEL", "--problems", "cls"]
    assert run("compare", *options, "--plot", path).status == 0
    assert path.read_bytes().startswith(start)


# --- audit ----------------------------------------------------------------------------------------


def test_audit_passes_an_oracle_whatever_the_case_of_its_name():
    # At the usual confidence an honest client fails in one of a thousand runs.
    arguments = ["--epsilon", "1", "--d", "4", "--n", "400", "--confidence", "0.999999"]
    result = run("audit", "--oracle", "GRR", *arguments)
    assert result.status == 0
    assert "Audit of GRR, ε = 1, d = 4" in result.out
    assert "Passed: the exact loss is at most ε" in result.err


def test_audit_lists_what_failed_and_ends_with_status_one(monkeypatch):
    from ldpopt.studies import audit

    outcome = replace(audit.audit_oracle(ORACLES["grr"](1.0, 4), reports=400), loss=1.5)
    monkeypatch.setattr(audit, "audit_oracle", lambda *_, **__: outcome)
    result = run("audit", "--oracle", "grr", "--epsilon", "1", "--d", "4")
    assert result.status == 1
    assert "Failed: the probabilities lose 1.5, more than ε = 1" in result.err
    assert "Passed" not in result.err
    as_json = run("audit", "--oracle", "grr", "--epsilon", "1", "--d", "4", "--json")
    assert as_json.status == 1
    assert json.loads(as_json.out)["passed"] is False


def noting(into, result):
    """Return a function that notes its keyword arguments."""

    def function(*_, **options):
        into.update(options)
        if isinstance(result, Exception):
            raise result
        return result

    return function


def test_audit_passes_its_options_on(monkeypatch):
    from ldpopt.studies import audit

    outcome = audit.audit_oracle(ORACLES["grr"](1.0, 4), reports=400)
    options = {}
    monkeypatch.setattr(audit, "audit_oracle", noting(options, outcome))
    arguments = ["--oracle", "grr", "--epsilon", 1, "--d", 4, "--n", 500]
    run("audit", *arguments, "--confidence", 0.9)
    assert options == {"reports": 500, "confidence": 0.9}


# --- perturb and aggregate ------------------------------------------------------------------------


def test_perturb_counts_the_reports_of_all_batches(tmp_path, monkeypatch):
    batches = [(np.array([0, 1]), None), (np.array([2, 3, 3]), None)]
    monkeypatch.setattr("ldpopt.collection.labels.read_values", lambda *_: iter(batches))
    out = tmp_path / "r.parquet"
    arguments = ["--oracle", "grr", "--epsilon", 20, "--domain", 4, "--out", out]
    assert run("perturb", "values.csv", *arguments).err == f"Wrote 5 reports to {out}.\n"
    _, reports = read_reports(out)
    assert reports.tolist() == [0, 1, 2, 3, 3]  # at this budget, one in 10⁷ runs has a wrong one


def test_aggregate_passes_its_options_on(tmp_path, monkeypatch):
    options = {}
    stop = InvalidInputError("enough")
    monkeypatch.setattr("ldpopt.collection.aggregate", noting(options, stop))
    arguments = ["--out", tmp_path / "c.json", "--workers", 3, "--max-reject-rate", 0.25]
    write_reports(tmp_path / "r.csv", ORACLES["grr"](1.0, 3), [0])
    to_dask = ["--keep-going", "--dask", "tcp://x", "--dask-patience", 2.5]
    assert run("aggregate", tmp_path / "r.csv", *arguments, *to_dask, "--refine").status == 2
    del options["on_partition"]
    assert options == {
        "rejects": tmp_path / "c.rejects.csv",
        "max_reject_rate": 0.25,
        "keep_going": True,
        "workers": 3,
        "dask": "tcp://x",
        "dask_patience": 2.5,
        "state": tmp_path / ".c.json.state",
        "schema": None,
        "refine": "mixture-ns",
    }


# --- verify ---------------------------------------------------------------------------------------


@pytest.fixture
def whole_list(monkeypatch):
    """For ledgers of a few claims, of which the list of statements has many more."""
    monkeypatch.setattr("ldpopt.claims.statements.defects_of_list", lambda *_: [])


@pytest.fixture
def small_ledger(monkeypatch, whole_list):
    ledger = {key: LEDGER[key] for key in ("power-ns-optimal", "oue-flip")}
    monkeypatch.setattr("ldpopt.claims.LEDGER", ledger)
    return ledger


def test_verify_writes_its_files_and_succeeds(tmp_path, small_ledger):
    folder = tmp_path / "new"
    result = run("verify", "--out", folder, "--quick")
    assert result.status == 0
    records = json.loads((folder / "claims.json").read_text())
    assert [record["id"] for record in records] == list(small_ledger)
    assert "<!doctype html>" in (folder / "report.html").read_text()
    lines = result.err.splitlines()
    assert lines[0] == "Checking 2 claims; this takes some minutes."
    # A line per topic: the output is no terminal.
    topics = [claim.topic for claim in small_ledger.values()]
    assert [line.rpartition(": 1 claim, ")[0] for line in lines[1:3]] == topics
    written = [f"Wrote {folder / name}." for name in ("claims.json", "report.html")]
    shown = f"{folder / 'report.html'}#ID shows the evidence of the claim ID."
    assert lines[-4:-1] == [*written, shown]
    assert lines[-1].startswith("2 claims: 1 proved, 0 holds, 1 holds-as-corrected, 0 fails")
    assert "; all as expected" in lines[-1]


def test_verify_prints_its_summary_and_the_corrections_and_with_verbose_every_claim(small_ledger):
    short, long = (run("verify", "--quick", *more).out for more in ([], ["--verbose"]))
    words = " ".join(short.split())
    assert "What is printed, and what is right" in words
    assert "oue-flip" in words
    # What is as expected and needs no correction is counted, and not listed.
    assert "power-ns-optimal" not in words
    assert "Statements of the papers" in words
    assert all(identifier in long for identifier in small_ledger)
    assert "not as the ledger expects" not in words.lower()


def test_verify_lists_what_fails_and_is_expected_to(monkeypatch, whole_list):
    monkeypatch.setattr("ldpopt.claims.LEDGER", {"kosarak-size": LEDGER["kosarak-size"]})
    result = run("verify", "--quick")
    assert result.status == 0
    words = " ".join(result.out.split())
    assert "What is printed, and false" in words
    assert "kosarak-size: Kosarak has 42,178 values" in words
    assert "With --out DIR a page shows the evidence" in result.err


def test_verify_as_json_prints_what_it_writes(tmp_path, monkeypatch):
    monkeypatch.setattr("ldpopt.claims.LEDGER", {"oue-flip": LEDGER["oue-flip"]})
    result = run("verify", "--out", tmp_path, "--quick", "--json")
    assert result.out == (tmp_path / "claims.json").read_text()


def test_verify_fails_when_a_verdict_differs(monkeypatch):
    changed = replace(LEDGER["oue-flip"], expected=Verdict.HOLDS)
    monkeypatch.setattr("ldpopt.claims.LEDGER", {"oue-flip": changed})
    result = run("verify", "--quick")
    assert result.status == 1
    assert "not what the ledger expects: oue-flip" in result.err
    assert "Not as the ledger expects" in result.out
    assert "OUE flips a 0 bit" in result.out[result.out.index("Not as the ledger expects") :]


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.usefixtures("whole_list")
def test_verify_names_a_claim_whose_check_raises_and_checks_the_others(
    tmp_path, monkeypatch, workers
):
    # Other processes import the ledger anew, where nothing is patched.
    monkeypatch.setattr("ldpopt.claims.checking.executor_for", lambda workers: InProcess())
    broken = replace(LEDGER["oue-flip"], check=lambda instances: instances.no_such_list)
    ledger = {"oue-flip": broken, "power-ns-optimal": LEDGER["power-ns-optimal"]}
    monkeypatch.setattr("ldpopt.claims.LEDGER", ledger)
    result = run("verify", "--quick", "--workers", workers, "--out", tmp_path)
    assert result.status == 1
    last = result.err.splitlines()[-1]
    assert "not what the ledger expects: oue-flip (its check raised AttributeError: " in last
    assert "(test_cli.py, line " in last
    assert "power-ns-optimal" not in last
    records = json.loads((tmp_path / "claims.json").read_text())
    assert [record["verdict"] for record in records] == ["inconclusive", "proved"]
    assert "no_such_list" in (tmp_path / "report.html").read_text()


def test_verify_fails_where_a_claim_of_the_list_is_lost(tmp_path, monkeypatch):
    monkeypatch.setattr("ldpopt.claims.LEDGER", {"oue-flip": LEDGER["oue-flip"]})
    result = run("verify", "--quick", "--out", tmp_path)
    assert result.status == 1
    assert "do not match: the claim " in result.err
    assert "the claim cls-norm-sub is listed and does not exist" in result.err
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "cls-norm-sub is listed and does not exist" in page


@pytest.mark.usefixtures("whole_list")
def test_verify_judges_the_figures_and_fails_where_a_table_is_missing(tmp_path, monkeypatch):
    monkeypatch.setattr("ldpopt.claims.LEDGER", {})
    kept = Path(__file__).parent.parent / "experiments" / "results"
    result = run("verify", "--quick", "--json", "--figures", kept)
    assert result.err.startswith("Judged 126 claims about figures, by their tables.\n")
    assert result.status == 0
    records = json.loads(result.out)
    assert len(records) == 126
    assert {"cannot be checked here", "fails"} < {record["verdict"] for record in records}
    shutil.copytree(kept, tmp_path / "run", ignore=shutil.ignore_patterns("*.svg", "*fig9.csv"))
    result = run("verify", "--quick", "--json", "--figures", tmp_path / "run")
    assert result.status == 1
    assert "not whole: ndss-fig9.csv is missing or empty" in result.err


@pytest.mark.parametrize("quick", [True, False])
def test_verify_chooses_the_size_of_the_instances(quick, monkeypatch):
    options = {}
    monkeypatch.setattr("ldpopt.claims.LEDGER", {})
    monkeypatch.setattr("ldpopt.claims.InstanceSet", noting(options, None))
    run("verify", *["--quick"] * quick)
    assert options == {"quick": quick}


# --- processes ------------------------------------------------------------------------------------


def test_an_error_ends_the_process_with_status_two():
    result = started("-m", "ldpopt", "compare", "--d", "1")
    assert result.returncode == 2
    assert result.stderr.startswith("Error: --d")
    assert result.stdout == ""


def test_version_is_printed():
    assert run("--version").out == f"ldpopt {package.__version__}\n"


def test_help_loads_nothing_that_only_some_commands_need():
    heavy = ["cvxpy", "matplotlib", "numba", "pyarrow", "pooch", "jinja2", "distributed"]
    script = textwrap.dedent(
        f"""
        import sys
        from ldpopt.cli import main
        try:
            main(["--help"])
        except SystemExit:
            print([name for name in {heavy} if name in sys.modules])
        """
    )
    assert started("-c", script).stdout.splitlines()[-1] == "[]"


INTERRUPTED_AT = textwrap.dedent(
    """
    import runpy, signal, sys

    module, package, *arguments = sys.argv[1:]
    # What a shell starts in the background ignores interruptions, and so do its children.
    signal.signal(signal.SIGINT, signal.default_int_handler)

    class Interrupter:
        def find_spec(self, name, path=None, target=None):
            if name == module:
                sys.meta_path.remove(self)
                print("now", file=sys.stderr, flush=True)
                signal.raise_signal(signal.SIGINT)

    # A program that a script starts in the background ignores interruptions unless it says so.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.meta_path.insert(0, Interrupter())
    sys.argv[1:] = arguments
    runpy.run_module(package, run_name="__main__", alter_sys=True)
    """
)
"""A program that is interrupted when it imports a module: always at the same place, at any load."""


@pytest.mark.parametrize(
    ("module", "command"),
    [
        ("numpy._core.multiarray", ["ldpopt", "verify"]),
        ("cvxpy", ["ldpopt", "compare", "--d", "8"]),
        ("numpy._core.multiarray", ["experiments", "list"]),
        ("experiments.run", ["experiments", "list"]),
    ],
    ids=["importing", "at work", "experiments importing", "experiments"],
)
def test_an_interruption_is_one_line_and_status_130(module, command):
    result = started("-c", INTERRUPTED_AT, module, *command)
    assert result.stderr == "now\nInterrupted.\n"
    assert result.returncode == 130


def test_a_place_that_cannot_be_written_is_an_error_before_the_long_part(monkeypatch):
    monkeypatch.setattr("ldpopt.claims.run_claim", None)
    result = run("verify", "--out", "/dev/null/here")
    assert result.status != 0
    assert "cannot write to /dev/null/here/claims.json" in result.err


def test_an_interruption_at_work_is_one_line(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("ldpopt.claims.checking.run_claim", interrupted)
    result = run("verify")
    assert result.status == 130
    assert result.err.splitlines()[1:] == ["Interrupted."]


OWN = """
import cvxpy as cp
from ldpopt import Problem, constraints, losses

SIMPLEX = [constraints.NonNegative(), constraints.SumsTo(1.0)]
problem = Problem(losses.LeastSquares(), SIMPLEX)
number = 3

def by_label(estimate):
    first = constraints.Fixed([estimate.labels.index("b")], [0.5])
    return {"plain": problem, "b is half": Problem(losses.LeastSquares(), [*SIMPLEX, first])}

several = [problem, Problem(losses.GaussianMLE(), SIMPLEX)]

def fails(estimate):
    return {}["x"]
"""


@pytest.fixture
def own_world(tmp_path, monkeypatch):
    (tmp_path / "somebodys_problems.py").write_text(OWN)
    (tmp_path / "does_not_run.py").write_text("1 / 0\n")
    (tmp_path / "no_syntax.py").write_text("def\n")
    (tmp_path / "est.csv").write_text("value,frequency\na,0.7\nb,0.4\nc,-0.1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return ("compare", "--input", "est.csv", "--solvers", "CLARABEL", "--problem")


def test_compare_takes_own_problems_and_vectors(own_world, tmp_path):
    result = run(*own_world, "somebodys_problems:by_label", "--csv", "rows.csv", "--json")
    assert result.status == 0, result.err
    rows = json.loads(result.out)
    assert [row["problem"] for row in rows] == ["plain", "plain", "b is half", "b is half"]
    assert {row["d"] for row in rows} == {3}
    assert rows[0]["is_reference"] is True
    assert rows[1]["difference"] < 1e-5
    assert (tmp_path / "rows.csv").read_text().count("\n") == 5
    noise = ("--oracle", "OUE", "--epsilon", "1", "--n", "1000")
    shown = run(*own_world, "somebodys_problems:several", *noise)
    assert shown.status == 0, shown.err
    assert "several 1" in shown.out
    assert "several 2" in shown.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("somebodys_problems:number",), "is 3"),
        (("somebodys_problems:problm",), "did you mean 'problem'"),
        (("somebodys_problems:fails",), "failed: KeyError: 'x' (somebodys_problems.py, line 16)"),
        (
            ("does_not_run:x",),
            "does_not_run does not run: ZeroDivisionError: division by zero (does",
        ),
        (("no_syntax:x",), "no_syntax does not run: SyntaxError"),
        (("somebodys_problems:several",), "the problem 'several 2'"),
        (("somebodys_problems:problem", "--d", "8"), "leave them out with --input"),
        (("somebodys_problems:problem", "--n", "8"), "--oracle, --epsilon and --n: give all"),
        (("somebodys_problems:problem", "--csv", "est.csv"), "would replace"),
    ],
)
def test_compare_says_what_is_wrong_with_own_problems(own_world, arguments, message):
    result = run(*own_world, *arguments)
    assert result.status == 2
    assert message in " ".join(result.err.split())


def test_compare_needs_both_input_and_problem():
    assert "belong together" in run("compare", "--input", "est.csv").err
    assert "belong together" in run("compare", "--problem", "a:b").err

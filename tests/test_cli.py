import csv
import io
import json
import signal
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from rich.console import Console

from ldpopt import cli
from ldpopt.claims import LEDGER
from ldpopt.methods import METHODS
from ldpopt.rendering import figures
from ldpopt.rendering.tables import claims_summary, claims_table, comparison_table
from ldpopt.solve.solvers import SOLVERS
from ldpopt.studies.comparison import CASES, Row, compare_solvers
from tests.tolerances import CERTIFIED, SOLVER


def ldpopt(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "ldpopt", *arguments], capture_output=True, text=True, timeout=300
    )


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
    failed = [row for row in rows if row["status"] == "not for it"]
    assert {(row["problem"], row["solver"]) for row in failed} == {("weighted MLE", "OSQP")}


def test_compare_writes_csv_and_a_picture_of_accuracy_against_time(tmp_path):
    table, picture = tmp_path / "new" / "rows.csv", tmp_path / "plot.png"
    result = ldpopt(
        "compare", "--d", "16", "--solvers", "CLARABEL,PIQP", "--problems", "cls,capped,absolute",
        "--accuracy", "low,high", "--csv", str(table), "--plot", str(picture),
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert [row["solver"] for row in rows[:5]] == [
        "norm-sub",
        "CLARABEL",
        "CLARABEL",
        "PIQP",
        "PIQP",
    ]
    assert len(rows) == 3 * 5
    assert picture.read_bytes().startswith(b"\x89PNG")
    by_accuracy = {
        row["accuracy"]: float(row["gap"]) for row in rows[:3] if row["solver"] == "CLARABEL"
    }
    assert by_accuracy["high"] < by_accuracy["low"]


@pytest.mark.parametrize("problem", CASES)
def test_every_problem_can_be_compared(problem):
    closed, solved = compare_solvers([8], ["CLARABEL"], cases=[problem])
    assert closed.path == "closed-form"
    assert closed.gap < CERTIFIED
    assert solved.status == "optimal"
    assert solved.compile_seconds > 0
    assert solved.gap < 1e-4
    assert (
        problem == "absolute" or solved.difference < SOLVER["CLARABEL"]
    )  # its solutions are not unique


ACCURACIES = "low", "default", "high"


@pytest.mark.parametrize("accuracies", [ACCURACIES[-1:], ACCURACIES], ids=["one", "three"])
def test_the_table_of_a_comparison_shows_whole_numbers_in_eighty_columns(accuracies):
    def made(problem, d, solver, status, accuracy="", scale=1.0):
        times = {
            "first_seconds": 1.0,
            "compile_seconds": 1.234e-5,
            "seconds": 1.87e-5,
            "slowdown": 987_654.4 * scale,
        }
        errors = {"difference": 1.87e-12, "gap": -1.87e-12, "violation": 1.87e-12}
        return Row(problem, d, "", solver, accuracy, status, **times, **errors)

    rows = []
    for case in CASES.values():
        rows.append(made(case.label, 10_000_000, "multinomial-mle", "optimal"))
        for solver in [*SOLVERS, "ECOS_BB", "GLPK_MI", "MOSEK", "SCIPY"]:
            rows += [
                made(case.label, 10_000_000, solver, "inaccurate", name, scale=50)
                for name in accuracies
            ]
            rows.append(Row(case.label, 10_000_000, "conic", solver, accuracies[0], "not for it"))
    screen = Console(width=80, file=io.StringIO())
    screen.print(comparison_table(rows, 80))
    text = screen.file.getvalue()
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 80
    error = "1.9e-12" if len(accuracies) == 1 else "2e-12"
    lines = [line for line in text.splitlines() if "inaccurate" in line]
    assert len(lines) == len(CASES) * 10 * len(accuracies)
    for line in lines:
        assert line.split()[-5:] == ["1.9e-05", "4.9e+07", error, f"-{error}", error]
        assert len(accuracies) == 1 or line.split()[1] in accuracies
    wide = Console(width=100, file=io.StringIO())
    wide.print(comparison_table(rows, 100))
    assert wide.file.getvalue().count("1.2e-05") == len(CASES) * (1 + 10 * len(accuracies))


def test_every_closed_form_and_solver_is_named_in_a_pipe():
    names = ",".join(SOLVERS)
    result = ldpopt(
        "compare",
        "--d",
        "8",
        "--solvers",
        names,
        "--accuracy",
        "low,high",
        "--problems",
        ",".join(CASES),
    )
    assert result.returncode == 0
    assert all(name in result.stdout for name in SOLVERS)
    assert "…" not in result.stdout


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
        (["compare", "--d", "1"], ["--d", "from 2"]),
        (["compare", "--d", "100000000000000"], ["--d", "10,000,000"]),
        (["compare", "--solvers", "[/x]"], ["[/x]", "installed"]),
        (["compare", "--d", "ten"], ["--d", "'ten'"]),
        (["compare", "--d", "nan"], ["--d", "'nan'"]),
        (["compare", "--time-limit", "-1"], ["--time-limit", "> 0"]),
        (["verify", "--out", "/dev/null/here"], ["cannot write", "/dev/null/here"]),
        (["verfy"], ["verfy", "verify"]),
    ],
)
def test_bad_input_is_one_sentence_without_a_traceback(arguments, words):
    result = ldpopt(*arguments)
    assert result.returncode == 2
    assert all(word in result.stderr for word in words)
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_only_near_names_of_solvers_are_suggested():
    result = ldpopt("compare", "--solvers", "FOO")
    assert "unknown solver 'FOO' (installed here: " in result.stderr
    assert "did you mean" not in result.stderr


@pytest.mark.parametrize(
    ("suffix", "start"), [("png", b"\x89PNG"), ("SVG", b"<?xml"), ("pdf", b"%PDF")]
)
def test_the_picture_is_of_the_kind_that_its_name_says(suffix, start, tmp_path):
    path = tmp_path / f"plot.{suffix}"
    cli.compare(d="8", solvers="CLARABEL", problems="cls", plot=path)
    assert path.read_bytes().startswith(start)


@pytest.mark.parametrize("span", [1.02, 1.5, 3.0, 8.0, 50.0, 1e5])
def test_the_picture_names_accuracies_and_its_labels_do_not_overlap(span, monkeypatch):
    drawn = []
    monkeypatch.setattr(figures, "_drawn", lambda figure, kind: drawn.append(figure))
    rows = [
        Row(
            "CLS",
            8,
            "closed-form",
            "norm-sub",
            "",
            "optimal",
            seconds=0.0013,
            gap=0.0,
            violation=0.0,
        )
    ]
    rows += [
        Row("CLS", 8, "conic", "OSQP", name, "optimal", seconds=0.0013 * span, gap=1e-9, violation=0.0) for name in ACCURACIES
    ]  # fmt: skip
    figures.comparison_figure(rows)
    (figure,) = drawn
    FigureCanvasAgg(figure).draw()
    named = [text.get_text() for text in figure.legends[0].get_texts()]
    assert named == ["closed form", "OSQP", *(f"accuracy {name}" for name in ACCURACIES)]
    axes = figure.axes[0]
    sizes = [line.get_markersize() for line in axes.lines if line.get_label().startswith("_")]
    assert sizes == sorted(set(sizes))
    assert "1e-18" in axes.get_ylabel()
    low, high = axes.get_xlim()
    labels = axes.xaxis.get_ticklabels(which="both")
    at = [*axes.xaxis.get_majorticklocs(), *axes.xaxis.get_minorticklocs()]
    shown = sorted(
        label.get_window_extent().intervalx.tolist()
        for label, x in zip(labels, at, strict=True) if low <= x <= high and label.get_text()
    )  # fmt: skip
    assert shown
    assert all(left[1] < right[0] for left, right in pairwise(shown))


def test_verify_writes_its_files_and_succeeds(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        "ldpopt.claims.LEDGER", {key: LEDGER[key] for key in ("base-pos-ls", "oue-flip")}
    )
    cli.verify(out=tmp_path / "new", quick=True)
    assert [row["id"] for row in json.loads((tmp_path / "new" / "claims.json").read_text())] == [
        "base-pos-ls",
        "oue-flip",
    ]
    assert "<!doctype html>" in (tmp_path / "new" / "report.html").read_text()
    said = capsys.readouterr()
    assert "base-pos-ls" in said.out
    assert (
        "2 statements: 1 holds, 1 holds-as-corrected, 0 fails; all as expected"
        in said.err.splitlines()[-1]
    )


def test_only_a_surprise_is_red():
    from ldpopt.claims.engine.claim import Finding, Verdict
    from ldpopt.claims.engine.run import Result

    def shown(expected, found):
        claim = replace(LEDGER["oue-flip"], expected=expected)
        screen = Console(width=80, file=io.StringIO(), force_terminal=True, color_system="standard")
        result = Result(
            claim, Finding(found == "holds", 1, {}, found == "holds-as-corrected" or None), 0.1
        )
        screen.print(claims_table([result]), claims_summary([result]))
        return screen.file.getvalue()

    red = "31m"
    assert all(red not in shown(verdict, verdict) for verdict in Verdict)
    assert shown(Verdict.HOLDS, Verdict.FAILS).count(red) >= 3
    assert "other than the ledger" in shown(Verdict.FAILS, Verdict.HOLDS)


def test_verify_fails_when_a_verdict_differs(monkeypatch):
    import typer

    claim = LEDGER["oue-flip"]
    changed = type(claim)(**{**vars(claim), "expected": "holds"})
    monkeypatch.setattr("ldpopt.claims.LEDGER", {"oue-flip": changed})
    with pytest.raises(typer.Exit) as stop:
        cli.verify(out=None, quick=True)
    assert stop.value.exit_code == 1


def _interrupted(command, ready):
    """Return the status and the errors of a command that is interrupted once ``ready`` says so."""
    process = subprocess.Popen(
        [sys.executable, "-X", "importtime", "-m", *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )  # fmt: skip
    said = []
    for line in process.stderr:
        if not line.startswith("import time:"):
            said.append(line)
        if ready in line:
            process.send_signal(signal.SIGINT)
            break
    rest = process.communicate(timeout=60)[1].splitlines(keepends=True)
    return process.returncode, [
        *said,
        *(line for line in rest if not line.startswith("import time:")),
    ]


@pytest.mark.parametrize(
    ("command", "ready"),
    [
        (["ldpopt", "verify"], "Checking"),
        (["ldpopt", "verify"], "numpy._core.multiarray"),
        (["ldpopt", "compare", "--d", "5000"], "cvxpy"),
        (["experiments", "list"], "numpy._core.multiarray"),
        (["experiments", "run", "all"], "ldpopt.cli.app"),
    ],
    ids=["at work", "importing", "compare", "experiments importing", "experiments"],
)
def test_an_interruption_is_one_line_and_status_130(command, ready):
    status, said = _interrupted(command, ready)
    assert said[-1] == "Interrupted.\n"
    assert "".join(said).count("Interrupted") == 1
    assert not any("Traceback" in line or "Error" in line for line in said)
    assert status == 130


def test_version_is_printed():
    import ldpopt as package

    assert ldpopt("--version").stdout.strip() == f"ldpopt {package.__version__}"

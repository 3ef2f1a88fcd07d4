"""How the command line looks: help shown whole, one look of errors, completion, `select`."""

import inspect
import io
import json
import os
import re
import shlex
import subprocess
import sys
import textwrap
import warnings
from importlib import import_module

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from ldpopt.cli.app import COMMANDS
from ldpopt.methods import METHODS
from ldpopt.oracles import ORACLES
from ldpopt.rendering.candidates import candidates_table
from ldpopt.rendering.coverage_table import coverage_table
from ldpopt.rendering.methods_table import methods_table
from ldpopt.rendering.selection_table import selection_table
from ldpopt.solve.coverage import coverage
from ldpopt.studies.selection import MethodScore, Selection
from tests.commands import run


def words(text):
    return " ".join(text.split())


def letters(text):
    """Return a text without its blanks: lines may end within a name that has hyphens."""
    return "".join(text.split())


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_every_text_whole(command):
    """Markup would take brackets for its own and leave them out."""
    shown = letters(run(command, "--help").out)
    function = getattr(import_module(f"ldpopt.cli.{command}"), command)
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        for part in getattr(parameter.annotation, "__metadata__", ()):
            assert letters(part.help) in shown
    for line in inspect.getdoc(function).split("\n\n"):
        assert letters(line) in shown


def test_brackets_in_help_are_shown(monkeypatch):
    probe = typer.Typer(rich_markup_mode=import_module("ldpopt.cli.app").app.rich_markup_mode)
    option = typer.Option(help="A list [of lists] such as [[0, 1]].")
    probe.command()(lambda query=option: None)
    shown = CliRunner().invoke(probe, ["--help"]).output
    assert "[of lists] such as [[0, 1]]." in words(shown)


def test_every_option_of_a_method_is_an_option_of_estimate():
    shown = words(run("estimate", "--help").out)
    for method in METHODS.values():
        for option in method.options:
            assert f"--{option.replace('_', '-')}" in shown
    assert "Option of base-cut and norm-hyb; 2.0 by default." in shown
    assert "Option of npmle-ns, mixture-ns and auto-ns." in shown


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("estimate x --foo", "No such option: --foo"),
        ("estimate", "Missing argument"),
        ("aggregate x --out y --workers many", "Invalid value for '--workers'"),
        ("estimate x --epsilon one", "'one'"),  # in the words of each version of typer
        ("audit --epsilon 1,0", "'--epsilon': it takes a number such as 0.5, with a decimal point"),
        ("audit --n 1,000", "'--n': it takes a whole number such as 1000, without commas and po"),
        ("audit --oracle grr --epsilon 1 --d 4 --n 10", "--n must be at least 100, got 10"),
        ("audit --oracle grr --epsilon 1 --d 4 --confidence 2", "--confidence must be a"),
        ("perturb x --oracle grr --epsilon 1 --domain 4 --out y --seed -1", "--seed must be at le"),
        ("select x --query q.json --seed -1", "--seed must be at least 0, got -1"),
        ("estimat", "No such command 'estimat'"),
        ("methods extra", "unexpected extra argument"),
        ("estimate no.json", "no.json does not exist"),
        ("compare --d 1", "--d takes whole numbers"),
    ],
)
def test_all_errors_look_alike(arguments, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run(*arguments.split())
    assert (result.status, result.out) == (2, "")
    first, *more = result.err.splitlines()
    assert first.startswith("Error: ")
    assert sentence in first
    # What is wrong with the words of a command line comes with the way to its help.
    assert all(line.startswith("Try 'ldpopt") and line.endswith("--help'.") for line in more)
    assert len(more) <= 1


# Two with a category of their own, one of a method.
WARNED_OF = [
    (
        "3870 3360 3010 2680",
        ["--interval", "0.05"],
        "level is 0.95 for 95 %, and 0.05 stands for 5",
    ),
    ("3870 3360 3010 2680", ["--epsilon", "2"], "implausible counts: they sum to 12,920, and"),
    ("9000 1300 1300 1400", ["--method", "norm-cut"], "norm-cut returns 0 everywhere for a vector"),
]


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(("counts", "options", "beginning"), WARNED_OF)
def test_a_warning_is_one_line_without_code(counts, options, beginning, tmp_path):
    path = tmp_path / "counts.csv"
    rows = [f"{value},{count}" for value, count in enumerate(counts.split())]
    path.write_text("\n".join(["value,count", *rows]))
    given = ["--oracle", "oue", "--domain", "4", "--n", "10000"]
    budget = [] if "--epsilon" in options else ["--epsilon", "1"]
    result = run("estimate", path, *given, *budget, *options, "--json")
    assert result.status == 0
    # The line is whole, and once there, however narrow a terminal is.
    (line,) = result.err.splitlines()
    assert line.startswith(f"Warning: {beginning}")
    assert ".py" not in line
    assert json.loads(result.out)


@pytest.mark.filterwarnings("default")
def test_a_warning_of_another_package_is_one_line_once(monkeypatch):
    def warns_twice(**_):
        for _ in range(2):
            with warnings.catch_warnings():
                warnings.warn("a [bold]column[/]\nis empty", RuntimeWarning, stacklevel=1)

    monkeypatch.setattr(import_module("ldpopt.cli.app"), "app", warns_twice)
    before = warnings.showwarning
    assert run().err == "Warning: a [bold]column[/] is empty\n"
    assert warnings.showwarning is before


def test_without_a_command_there_is_help():
    result = run()
    assert result.status == 2
    assert "Usage: ldpopt" in result.out + result.err


def test_the_list_of_commands_is_shown_without_the_library():
    script = textwrap.dedent(
        """
        import sys
        from ldpopt.cli import main
        try:
            main(["--help"])
        except SystemExit:
            print([name for name in ("numpy", "scipy", "cvxpy") if name in sys.modules])
        """
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]"


# --- completion -----------------------------------------------------------------------------------


def completed(shell, line, monkeypatch):
    """Return what a shell gets when the user asks it to complete a line."""
    monkeypatch.setenv("_LDPOPT_COMPLETE", f"complete_{shell}")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", line)
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    result = run()
    assert result.status == 0
    return result.out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands_options_and_names(shell, monkeypatch):
    assert "merge" in completed(shell, "ldpopt me", monkeypatch)
    assert "--top-k" in completed(shell, "ldpopt estimate c.json --to", monkeypatch)
    methods = completed(shell, "ldpopt estimate c.json --method norm-", monkeypatch)
    offered = set(re.findall(r"[\w-]+", methods))
    assert offered >= {name for name in METHODS if name.startswith("norm-")}
    assert not offered & {"norm", "base", "power"}
    oracles = completed(shell, "ldpopt perturb v.csv --oracle ", monkeypatch)
    assert all(name in oracles for name in ORACLES)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_printed(shell, monkeypatch):
    monkeypatch.setenv("_LDPOPT_COMPLETE", f"source_{shell}")
    printed = run().out.strip()
    assert "_LDPOPT_COMPLETE" in printed
    assert "ldpopt" in printed.splitlines()[0] + printed.splitlines()[-1]


# --- select ---------------------------------------------------------------------------------------


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.csv").write_text("value,count\nred,500\nblue,200\ngreen,300\nwhite,10\n")
    (tmp_path / "labels.txt").write_text("red\nblue\ngreen\nwhite\n")
    (tmp_path / "s.json").write_text('{"warm": ["red"], "cold": ["blue", "green"]}')
    return ["c.csv", "--oracle", "grr", "--epsilon", 1, "--domain", "labels.txt"]


@pytest.mark.parametrize("width", [50, 60, 80, 99, 100, 160])
def test_the_table_of_methods_breaks_no_word(width):
    console = Console(width=width, file=io.StringIO())
    console.print(methods_table(width))
    text = console.file.getvalue()
    assert "…" not in text
    assert "cost" in text
    for word in ("estimate", "negative", "O(d log d)", "INFOCOM 2019"):
        assert word in " ".join(text.split())


@pytest.mark.parametrize("width", [60, 99, 100, 160])
def test_the_matrix_of_problems_shows_every_loss(width):
    matrix = coverage(up_to=1)
    console = Console(width=width, file=io.StringIO())
    console.print(coverage_table(matrix, width))
    text = console.file.getvalue()
    assert "…" not in text
    # A heading may go on in the next line, within its column.
    assert all(name[:6] in text for name in matrix.losses)


@pytest.mark.parametrize("width", [60, 99, 100])
def test_the_table_of_a_selection_breaks_no_number(width):
    scores = (MethodScore("norm-sub", 1.234e-5, 1.111e-5, 2.222e-5, 0.0, 0.0),)
    console = Console(width=width, file=io.StringIO())
    console.print(selection_table(Selection("norm-sub", scores, "base", 7), width))
    text = console.file.getvalue()
    for part in ("norm-sub", "simulated MSE", "1.23e-05", "1.11e-05 .. 2.22e-05", "chosen"):
        assert part in text


@pytest.mark.parametrize(
    ("width", "lines"),
    [(64, 1), (63, 2), (50, 2), (49, 4)],
    ids=["wide", "not wide", "joined", "listed"],
)
def test_numbers_of_candidates_stand_together_before_they_stand_one_per_line(width, lines):
    headings = ("method", "MSE", "interval", "above", "its interval", "verdict")
    row = ["norm", "1.5", "1.25 .. 1.75", "0.5", "0.25 .. 1.5", "worse"]
    below = {"interval": "MSE", "its interval": "above"}
    table = candidates_table(headings, [row], below, width)
    console = Console(width=width, file=io.StringIO())
    console.print(table)
    assert "…" not in console.file.getvalue()
    shown = [line for line in console.file.getvalue().splitlines() if re.search(r"\d", line)]
    assert len(shown) == lines
    assert "norm" in shown[0]
    assert "worse" in shown[0]
    assert "1.25 .. 1.75" in shown[min(1, lines - 1)]


def test_select_ranks_methods(world):
    options = ["--query", "s.json", "--candidates", "base,norm-sub", "--trials", 20, "--seed", 1]
    record = json.loads(run("select", *world, *options, "--json").out)
    assert [record["trials"], record["fit"]] == [20, "norm-sub"]
    simulated = json.loads(run("select", *world, *options, "--by", "simulation", "--json").out)
    assert simulated["method"] == record["scores"][0]["method"]
    # The answers are those of the mean, whose parts the record states.
    expected = dict.fromkeys(("warm", "cold"), 0.0)
    for name, weight in record["weights"].items():
        one = run("estimate", *world, "--method", name, "--query", "s.json", "--json").out
        for row in json.loads(one)["queries"]:
            expected[row["set"]] += weight * row["frequency"]
    assert record["answers"] == pytest.approx(expected, rel=1e-9)
    # The two kinds of evidence disagree here, and the record says so.
    assert bool(record["disagreement"]) == (record["method"] != simulated["method"])
    assert {row["risk"]["method"] for row in record["risks"]} == {"base", "norm-sub"}
    assert simulated["risks"] == []
    assert {score["method"] for score in record["scores"]} == {"base", "norm-sub"}
    shown = run("select", *world, *options)
    assert shown.out.startswith(f"{record['method']}, by 20 simulations")
    assert f"--method {record['method']}" in shown.err
    # The remark is a command that runs: it states again what the file does not.
    command = shlex.split(shown.err.partition("Use it with: ldpopt ")[2])
    repeated = run(*command)
    assert repeated.status == 0, repeated.err
    assert repeated.out.startswith(record["method"])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--query", "s.json", "--candidates", "nrom"], "unknown method 'nrom'"),
        (["--query", "s.json", "--fit", "bas"], "unknown method 'bas'"),
        (["--query", "s.json", "--trials", 1], "--trials"),
        (["--query", "none.json"], "cannot read the sets none.json"),
        ([], "Missing option '--query'"),
    ],
)
def test_what_select_cannot_do_is_a_sentence(options, sentence, world):
    result = run("select", *world, *options)
    assert (result.status, sentence in result.err) == (2, True), result.err


def test_what_libraries_print_is_not_among_results():
    """C writes later what it keeps for a pipe: it must be out before the results are."""
    script = (
        "import ctypes, os\n"
        "from ldpopt.descriptors import printed_to\n"
        "with printed_to(2):\n"
        "    os.write(1, b'at once\\n')\n"
        "    ctypes.CDLL(None).printf(b'kept by C\\n')\n"
        "    print('by Python')\n"
        "print('a result')\n"
    )
    # With it, neither Python nor C would keep anything.
    variables = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=variables
    )
    assert done.stdout == "a result\n"
    assert sorted(done.stderr.splitlines()) == ["at once", "by Python", "kept by C"]


def test_without_a_standard_output_nothing_is_kept_apart():
    script = (
        "import os\n"
        "from ldpopt.descriptors import printed_to\n"
        "os.close(1)\n"
        "with printed_to(2):\n"
        "    os.write(2, b'done')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stderr.startswith("done")

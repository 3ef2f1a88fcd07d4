"""The tools that run the tests elsewhere: what they print, and that a failure is one."""

import os
import re
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement

from tests.printed import draws_as_kept
from tools import environments, portable, runs, texts

HERE = {"blas": ["Zen"], "numpy": ["X86_V3"], "numba": "host", "processor": ["SSE42", "AVX2"]}
"""A processor as the probe of tools.portable describes it."""

FAILING = """
import os
import sys
from pathlib import Path

def test_right():
    pass

def test_wrong():
    print("FAILED nothing.py::test_printed")
    print(Path.home() / "x", sys.prefix, os.path.relpath(sys.prefix))
    assert 1 == 2
"""


@pytest.fixture
def failing(tmp_path):
    path = tmp_path / "test_of_two.py"
    path.write_text(FAILING)
    settings = tmp_path / "pytest.ini"
    settings.write_text("[pytest]\n")
    return ["-p", "no:xdist", "-c", str(settings), "-rf", str(path)]


@pytest.fixture
def answers(monkeypatch):
    """What the tests of a variant print, instead of the tests."""
    outcomes = {}

    def run_tests(python, arguments, variables=None, *, watch=None):
        core = variables.get("OPENBLAS_CORETYPE")
        outcome = outcomes.get(core, runs.Outcome(0, "9 passed\n", 1.0))
        for line in outcome.output.splitlines(keepends=True):
            watch(line)
        return outcome

    def probe(variables):
        changed = {}
        if "OPENBLAS_CORETYPE" in variables:
            changed["blas"] = [variables["OPENBLAS_CORETYPE"]]
        if "NPY_DISABLE_CPU_FEATURES" in variables:
            changed["numpy"] = []
            # Alone, its variables have no effect here: so one test sees that this is noticed.
            changed["numba"] = variables.get("NUMBA_CPU_NAME", HERE["numba"])
        return HERE | changed

    monkeypatch.setattr(portable, "run_tests", run_tests)
    monkeypatch.setattr(portable, "_probe", probe)
    return outcomes


@pytest.fixture
def uv(monkeypatch):
    """A uv that always refuses, whether or not there is a true one."""
    refusal = "import sys; sys.exit(f'refused by {sys.prefix}')"
    monkeypatch.setattr(environments, "UV", (sys.executable, "-c", refusal))
    monkeypatch.setattr(environments.importlib.util, "find_spec", lambda name: "uv")


# --- runs -----------------------------------------------------------------------------------------


def test_a_run_names_the_failing_test_and_no_folder_of_this_machine(failing, capsys):
    outcome = runs.run_tests(sys.executable, failing, watch=runs.show)
    assert not outcome.passed
    assert outcome.summary.startswith("1 failed, 1 passed in ")
    (line,) = outcome.failures
    assert "test_of_two.py::test_wrong" in line
    assert outcome.report().splitlines()[1:] == [f"  {line}"]
    assert outcome.seconds > 0
    assert outcome.output == capsys.readouterr().out
    folders = [texts.ROOT, sys.prefix, Path.home(), tempfile.gettempdir()]
    folders.append(os.path.relpath(sys.prefix, texts.ROOT))
    assert not [folder for folder in folders if str(folder) in outcome.output]
    assert "~/x" in outcome.output
    assert "<environment>" in outcome.output


def test_variables_reach_the_run(tmp_path):
    path = tmp_path / "test_variable.py"
    path.write_text("import os\n\ndef test_it():\n    assert os.environ['ANSWER'] == '42'\n")
    arguments = ["-p", "no:xdist", "-c", "/dev/null", str(path)]
    outcome = runs.run_tests(sys.executable, arguments, {"ANSWER": "42"})
    assert outcome.passed
    assert outcome.report().startswith("1 passed in ")


def test_a_run_counts_though_more_follows():
    output = "2 passed in 1.50s\n==== 1 error, 3 passed in 0.08s (0:01:00) ====\nERROR: not found\n"
    assert runs.Outcome(4, output, 1.0).summary == "1 error, 3 passed in 0.08s (0:01:00)"


@pytest.mark.parametrize(
    ("status", "output", "line"),
    [
        (4, "ERROR: file not found: a.py\n", "  ERROR: file not found: a.py"),
        (-9, "", "pytest ended with status -9"),
        (
            2,
            "== short test summary info ==\nERROR tests/test_a.py - ImportError\n1 error in 1s\n",
            "  ERROR tests/test_a.py - ImportError",
        ),
    ],
)
def test_a_run_that_breaks_off_is_a_failure(status, output, line):
    outcome = runs.Outcome(status, output, 1.0)
    assert not outcome.passed
    assert line in outcome.report()
    assert outcome.report().startswith("FAILED: ")


# --- kernels --------------------------------------------------------------------------------------


def test_kernels_that_pass_end_with_status_zero(answers, capsys):
    assert portable.main(["--only", "nehalem,skylakex"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed == [
        "portable: by default OpenBLAS Zen; numpy X86_V3; numba host",
        "portable: nehalem (OPENBLAS_CORETYPE='Nehalem'): 9 passed; 1 s of processor time",
        "portable: skylakex: SKIPPED, this processor has no AVX512_SKX",
    ]


def test_the_kernels_of_the_ordinary_run_are_not_run_again(answers, monkeypatch, capsys):
    monkeypatch.setitem(HERE, "blas", ["Haswell"])
    monkeypatch.setitem(HERE, "processor", ["SSE42", "AVX2", "FMA3"])
    assert portable.main(["--short"]) == 0
    settings = "OPENBLAS_CORETYPE='Nehalem' NPY_DISABLE_CPU_FEATURES='X86_V3'"
    settings += " NUMBA_CPU_NAME='generic' NUMBA_CPU_FEATURES=''"
    assert capsys.readouterr().out.splitlines() == [
        "portable: by default OpenBLAS Haswell; numpy X86_V3; numba host",
        "portable: haswell: not run, these kernels are the default here, under which `make test` "
        "runs all tests",
        f"portable: oldest ({settings}): 9 passed; 1 s of processor time",
        "portable: skylakex: SKIPPED, this processor has no AVX512_SKX",
    ]
    assert portable.main(["--only", "haswell"]) == 0
    assert "haswell (OPENBLAS_CORETYPE='Haswell'): 9 passed" in capsys.readouterr().out


def test_a_variant_shows_every_tenth_of_its_tests(answers, capsys):
    lines = ["... [  4%]", "... [ 31%]", "... [ 38%]", "a message of 50%", "... [100%]", "9 passed"]
    answers["Nehalem"] = runs.Outcome(0, "\n".join(lines), 1.0)
    assert portable.main(["--only", "nehalem"]) == 0
    _, *progress, _ = capsys.readouterr().out.splitlines()
    assert [line.rsplit(", ", 1)[0] for line in progress] == [
        "portable: nehalem: 30 % of the tests",
        "portable: nehalem: 100 % of the tests",
    ]


def test_kernels_that_fail_are_named_at_the_end(answers, capsys):
    answers["Nehalem"] = runs.Outcome(
        1, "x\n= short test summary info =\nFAILED tests/test_a.py::test_b - 1 != 2\n1 failed\n", 2
    )
    assert portable.main(["--only", "nehalem,numpy"]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert printed[printed.index("portable: in short") :] == [
        "portable: in short",
        "nehalem (OPENBLAS_CORETYPE='Nehalem'): FAILED: 1 failed; 2 s of processor time",
        "  FAILED tests/test_a.py::test_b - 1 != 2",
    ]


def test_kernels_that_the_libraries_ignored_are_a_failure(answers, capsys):
    assert portable.main(["--only", "numba"]) == 1
    assert "FAILED, not in use; what runs: OpenBLAS Zen;" in capsys.readouterr().out


def test_kernels_of_no_such_name_are_an_error(answers, capsys):
    with pytest.raises(SystemExit) as stop:
        portable.main(["--only", "nehalem,pentium"])
    assert stop.value.code == 2
    assert "no variant 'pentium', only haswell, skylakex, nehalem" in capsys.readouterr().err


def test_a_probe_that_does_not_start_says_why(monkeypatch, capsys):
    monkeypatch.setattr(portable, "MODULE", "tools.no_such_tool")
    assert portable.main([]) == 1
    shown = capsys.readouterr().err
    assert shown.startswith("portable: FAILED to start:\n")
    assert "no_such_tool" in shown
    assert str(Path.home()) not in shown


# --- environments ---------------------------------------------------------------------------------


def test_a_python_that_is_missing_is_skipped_by_name(uv, capsys):
    assert environments.main(["3.99"]) == 0
    assert capsys.readouterr().out == (
        "environments: 3.99: SKIPPED, Python 3.99 is not installed here\n"
    )


def test_this_python_is_found():
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert environments.interpreter(version) == sys.executable


def test_an_environment_of_no_such_name_is_an_error(capsys):
    with pytest.raises(SystemExit) as stop:
        environments.main(["later"])
    assert stop.value.code == 2
    assert "\"newest\" or a version such as 3.12, got 'later'" in capsys.readouterr().err


def test_a_missing_uv_is_named_with_its_remedy(monkeypatch, capsys):
    monkeypatch.setattr(environments.importlib.util, "find_spec", lambda name: None)
    assert environments.main(["oldest"]) == 2
    assert capsys.readouterr().err.endswith("is missing: pip install uv\n")


def test_an_environment_that_cannot_be_built_gives_the_reason_of_uv(
    uv, monkeypatch, tmp_path, capsys
):
    monkeypatch.setattr(environments, "interpreter", lambda version: sys.executable)
    monkeypatch.setattr(environments, "PLACE", tmp_path)
    assert environments.main(["3.12", "--", "tests/test_a.py"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "environments: 3.12: FAILED, uv could not build it:",
        "refused by <environment>",
    ]


@pytest.mark.parametrize(("status", "code"), [(0, 0), (1, 1)])
def test_the_oldest_environment_runs_with_its_own_warnings(uv, monkeypatch, capsys, status, code):
    called = []

    def run_tests(python, arguments, variables=None, *, watch=None):
        called.append((python, arguments))
        return runs.Outcome(status, "3 of 4\n", 5.0)

    monkeypatch.setattr(environments, "interpreter", lambda version: sys.executable)
    monkeypatch.setattr(environments, "build", lambda name, python: Path(name))
    monkeypatch.setattr(environments, "_check_bounds", lambda target: [])
    monkeypatch.setattr(environments, "run_tests", run_tests)
    assert environments.main(["oldest", "3.12", "--", "-x"]) == code
    (oldest, with_warnings), (newer, plain) = called
    assert (oldest, newer) == (Path("oldest"), Path("3.12"))
    assert with_warnings[-1] == "-x"
    assert "ignore::DeprecationWarning" in with_warnings
    assert plain == ["-x"]
    assert "3 of 4; 5 s of processor time" in capsys.readouterr().out


def test_a_bound_that_was_not_tested_fails(monkeypatch, capsys):
    monkeypatch.setattr(environments, "build", lambda name, python: Path(name))
    monkeypatch.setattr(environments, "_check_bounds", lambda target: ["a>=1 is wrong"])
    passed = runs.Outcome(0, "1 passed\n", 1.0)
    monkeypatch.setattr(environments, "run_tests", lambda *_, **__: passed)
    assert not environments.run("oldest", [])
    assert "environments: oldest: FAILED, a>=1 is wrong" in capsys.readouterr().out


def test_bounds_are_compared_as_numbers():
    installed = {"Numba": "0.61.2", "scipy_stubs": "1.15.0.0", "scs": "3.3.1", "b": "1"}
    requirements = ["numba>=0.61,<1", "scipy-stubs>=1.15", "scs[x]>=3.3.1", "b==1", "ldpopt[dask]"]
    (sentence,) = environments.untested_bounds(requirements, installed)
    assert sentence.startswith("numba>=0.61,<1 was tested from 0.61.2 alone")


def test_bounds_of_what_is_not_installed_are_passed_over():
    assert environments.untested_bounds(["sphinx>=8.1"], {"numpy": "2.2"}) == []


def test_the_newest_environment_has_no_upper_bounds_and_lists_what_is_new(
    monkeypatch, tmp_path, capsys
):
    called = []

    def uv(*arguments):
        called.append(arguments)
        return '[{"name": "cvxpy", "version": "9.9"}]'

    place = tmp_path / "newest"
    (place / "bin").mkdir(parents=True)
    (place / "bin" / "python").touch()
    monkeypatch.setattr(environments, "PLACE", tmp_path)
    monkeypatch.setattr(environments, "_uv", uv)
    monkeypatch.setattr(
        environments, "run_tests", lambda *_, **__: runs.Outcome(0, "1 passed\n", 1.0)
    )
    assert environments.main(["newest", "--", "-x"]) == 0
    assert ("--overrides", str(place / "overrides.txt")) == called[0][6:8]
    assert (place / "overrides.txt").read_text() == "cvxpy>=1.9.3"
    assert "environments: newest: cvxpy 1.9.3 -> 9.9\n" in capsys.readouterr().out


def test_continuous_integration_has_a_version_of_everything_that_is_required():
    stated = environments.CONSTRAINTS.read_text(encoding="utf-8")
    installed = dict(re.findall(r"^([\w.-]+)==([\w.]+)", stated, flags=re.MULTILINE))
    for requirement in map(Requirement, environments._requirements()):
        if requirement.name != "ldpopt":
            assert requirement.specifier.contains(installed[requirement.name]), requirement
    assert "constraints.txt" in (texts.ROOT / ".ci" / "run").read_text(encoding="utf-8")
    # A name without a version, or one more line, would be passed over in silence.
    lines = [line for line in stated.splitlines() if not line.startswith("#")]
    assert {line.partition("==")[0] for line in lines} == set(installed)


def test_numbers_of_stored_outputs_are_compared_under_the_numpy_of_continuous_integration():
    stated = environments.CONSTRAINTS.read_text(encoding="utf-8")
    if f"\nnumpy=={np.__version__}\n" in stated:
        assert draws_as_kept()


def test_changes_are_named_once_however_a_package_is_spelled():
    stated = "# a comment\nscipy-stubs==1.1\nb==2 ; sys_platform == 'win32'\nc==3\nc==4\ne==5\ne==6"
    installed = {"scipy_stubs": "1.2", "C": "3", "d": "4", "e": "7"}
    assert environments.changes(stated, installed) == ["scipy-stubs 1.1 -> 1.2", "e 5 or 6 -> 7"]

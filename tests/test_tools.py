"""The checks of the code itself find what they should and nothing else."""

import functools
import json

import pytest

from tools import callmap, density, mutants, mutations, portable, prose, texts


def rules(tmp_path, content, name="module.py"):
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    return [(finding.rule, finding.line) for finding in prose.findings(path)]


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        ("Costs two linear programs an answer.", "per"),
        ("Costs a transform a trial.", "per"),
        ("Costs 1,000 hashes a report.", "per"),
        ("Shape (n,), one value a\n    user.", "per"),
        ("Return it; an error if it is missing.", "error"),
        ("As said above.", "told"),
        ("To the accuracy asked for.", "asked"),
        ("Return which rows are none.", "none"),
        ("It falls without end.", "idiom"),
        ("Returns ------- A number.", "section"),
    ],
)
def test_phrase_is_found(tmp_path, words, rule):
    assert rules(tmp_path, f'def f():\n    """{words}"""\n') == [(rule, 2)]


@pytest.mark.parametrize(
    "words",
    [
        "Two linear programs per answer.",
        "One trial at a time, several in a row, half a second.",
        "The seconds a cell may take, 1e-7 below the objective a solver's point has.",
        "Two values that cannot be told apart.",
        "Code that reports a problem, 1 lets a set pass, n times a number.",
        "Raises an error if the file is missing.",
        ">>> said = 'one value a user'",
        "Returns\n    -------\n    A number.",
    ],
)
def test_plain_english_passes(tmp_path, words):
    assert rules(tmp_path, f'def f():\n    """First.\n\n    {words}\n    """\n') == []


def test_phrases_are_found_in_every_kind_of_text(tmp_path):
    source = (
        "x = 1  # one value a user\n"
        "# two programs\n# an answer\n"
        'print("costs one row " f"a user {x}")\n'
        "y = f'''\none row a {x}\none row a user'''\n"
    )
    assert rules(tmp_path, source) == [("per", 1), ("per", 2), ("per", 4), ("per", 7)]
    markdown = "Fine.\n\n```text\none row a user\n```\nIt costs one row a user.\n"
    assert rules(tmp_path, markdown, "page.md") == [("per", 6)]
    cells = [
        {"cell_type": "markdown", "source": ["Fine."]},
        {"cell_type": "code", "source": ["x = 1\n", "# one row a user"]},
    ]
    assert rules(tmp_path, json.dumps({"cells": cells}), "book.ipynb") == [("per", 2)]


@pytest.mark.parametrize(
    ("statement", "rule"),
    [
        ("found = 1", "name"),
        ("def _asked(): pass", "name"),
        ("def f(known): pass", "name"),
        ("self.trouble = 1", "name"),
        ("worst, vectors = 0.0, 10", "parallel"),
    ],
)
def test_names_and_assignments_are_found(tmp_path, statement, rule):
    assert rules(tmp_path, statement + "\n") == [(rule, 1)]


@pytest.mark.parametrize(
    "statement",
    [
        "lower, upper = 0.0, 1.0",
        "raw_lower, raw_upper = f(x), g(x)",
        "a_name, other = other, a_name % other",
        "value, error = compute()",
        "x = found",
    ],
)
def test_pairs_that_belong_together_pass(tmp_path, statement):
    assert rules(tmp_path, statement + "\n") == []


def test_every_exception_has_a_reason():
    assert all(entry.reason for entry in prose.allowed())


EXCEPTIONS = """
[[exception]]
path = "**/page.md"
rule = "per"
words = "{words}"
reason = "quoted"
"""


@pytest.mark.parametrize(
    ("words", "status", "printed"),
    [
        ("one value a user", 0, []),
        ("one row a user", 1, ["one value a user", "exception no longer needed"]),
    ],
)
def test_an_exception_that_is_not_needed_is_a_finding(
    tmp_path, monkeypatch, capsys, words, status, printed
):
    """The project's own files and exceptions are the matter of `make lint`."""
    page = tmp_path / "page.md"
    page.write_text("One value a user.\n")
    exceptions = tmp_path / "exceptions.toml"
    exceptions.write_text(EXCEPTIONS.format(words=words))
    monkeypatch.setattr(prose, "files", lambda paths: [page])
    monkeypatch.setattr(prose, "EXCEPTIONS", exceptions)
    assert prose.main([]) == status
    lines = capsys.readouterr().out.lower().splitlines()
    assert len(lines) == len(printed)
    assert all(part in line for part, line in zip(printed, lines, strict=True))


def test_exception_covers_its_file_rule_and_words():
    entry = prose.Allowed("tools/*.py", "per", "one value a user", "quoted")
    path = texts.ROOT / "tools" / "prose.py"
    finding = prose.Finding(path.relative_to(texts.ROOT), 1, "per", "One value a user", "")
    assert entry.covers(finding)
    for change in ({"rule": "told"}, {"words": "one row a user"}, {"path": path.parent}):
        assert not entry.covers(prose.Finding(**vars(finding) | change))


SOURCE = '''"""A module."""

import os


def public(x):
    """Return y."""
    # why
    first, last = 1, 2  # both
    if x and first or last:
        return [y for y in x if y]
    return os


def _hidden():
    pass
'''


def test_density_of_a_small_file(tmp_path):
    measurement = density.Measurement()
    measurement.add(SOURCE)
    # import, def, assignment, if, two returns, def, pass; counted by hand
    assert len(measurement.widths) == 8
    assert (measurement.comments, measurement.docstring_lines) == (2, 2)
    assert (measurement.assignments, measurement.parallel) == (1, 1)
    assert (measurement.public, measurement.documented) == (1, 1)
    # one, the if, "and", "or", the comprehension and its condition
    assert sorted(measurement.complexities) == [1, 6]
    # the comment above the first statement is not part of the body
    assert sorted(measurement.lengths) == [1, 4]


PLANTED = {
    "x < y": {"x <= y", "x >= y"},
    "x - y": {"x + y"},
    "-x": {"x"},
    "x = 3": {"x = 4"},
    "x = 0.5": {"x = 1.0"},
    "x = True": {"x = False"},
    "x[0]": {"x[-1]"},
    "x[-1]": {"x[0]"},
    "f(x, axis=-1)": {"f(x, axis=0)"},
    "f(x, y)": {"f(y, x)"},
    "validate.real('x', x)": {"x", "validate.real(x, 'x')"},
    "require_finite(x)": {"pass"},
    "x and y": {"x or y"},
    "not x": {"x"},
    "np.max(x)": {"np.min(x)"},
    "'a' + x": set(),
    "isinstance(x, y)": set(),
    "np.divide(max(x, y), z)": {"np.divide(min(x, y), z)", "np.divide(z, max(x, y))"},
    "np.multiply(x, y)": set(),
    "f(strict=True)": set(),
}


@pytest.mark.parametrize("line", PLANTED)
def test_planted_errors(line):
    source = line.encode()
    planted = list(mutations.mutations("m.py", source))
    assert {mutation.after for mutation in planted} == PLANTED[line]
    assert {mutation.applied(source).decode() for mutation in planted} == PLANTED[line]


def test_a_dropped_check_raises_nothing():
    source = b"if x < 0:\n    raise ValueError('x' + 1)\n"
    checks = [m for m in mutations.mutations("m.py", source) if m.kind == "check"]
    assert [m.applied(source) for m in checks] == [source.replace(b"x < 0", b"False")]


def test_planted_errors_know_their_function_and_survive_edits_elsewhere():
    source = b"class A:\n    def f(self):\n        def g():\n            return 1\n"
    (mutation,) = mutations.mutations("m.py", source)
    assert mutation.function == "A.f"
    (moved,) = mutations.mutations("m.py", b"# \xc3\xa9\n\n" + source)
    assert moved.rank(1) == mutation.rank(1) != mutation.rank(2)
    assert moved.key(b"other") != mutation.key(source)
    assert (mutation.line, moved.line) == (4, 6)


def test_errors_are_drawn_of_every_kind_and_the_same_ones_again():
    chosen = mutants.drawn(70, seed=1, only="ldpopt/priors")
    kinds = [mutation.kind for mutation in chosen]
    assert all(kinds.count(kind) >= 8 for kind in mutations.KINDS)
    assert chosen == mutants.drawn(70, seed=1, only="ldpopt/priors")
    assert chosen != mutants.drawn(70, seed=2, only="ldpopt/priors")
    assert chosen[:7] == mutants.drawn(7, seed=1, only="ldpopt/priors")


def test_results_survive_a_kill_and_survivors_wait_for_new_tests(tmp_path):
    path = tmp_path / "results.jsonl"
    first = mutants.Results(path)
    first.add(mutants.Result("a", "failed", "t", 1.0, "old"))
    first.add(mutants.Result("b", "survived", "", 1.0, "old"))
    path.write_text(path.read_text() + '{"key": "c", "sta')
    second = mutants.Results(path)
    assert second.kept("a", "new").status == "failed"
    assert second.kept("b", "new") is None
    assert second.kept("b", "old").survived
    assert second.kept("c", "old") is None


def test_explained_survivors_still_exist():
    planted = functools.cache(
        lambda path: list(mutations.mutations(path, (texts.ROOT / path).read_bytes()))
    )
    for entry in mutants.explanations():
        assert entry.reason
        assert any(entry.covers(mutation) for mutation in planted(entry.path)), entry


@pytest.mark.parametrize("status", list(pytest.ExitCode))
def test_calls_are_recorded_only_by_a_run_that_reached_its_end(tmp_path, status):
    recorder = callmap.Recorder.__new__(callmap.Recorder)
    recorder.target = tmp_path / "callmap.json"
    recorder.tests = {"tests/test_a.py::one": (0.1, ["ldpopt/m.py::f"])}
    recorder.pytest_sessionfinish(status)
    reached = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    assert recorder.target.exists() == (status in reached)


def test_tests_of_a_function_come_quickest_first(tmp_path):
    path = tmp_path / "callmap.json"
    names = ["ldpopt/m.py::f", "ldpopt/m.py::g"]
    tests = {
        "tests/test_docs.py::slow": [mutants.QUICK_SECONDS, [0]],
        "tests/test_docs.py::quick": [0.1, [0, 1]],
        "tests/test_tools.py::other": [0.2, [1]],
    }
    path.write_text(json.dumps({"functions": names, "tests": tests}))
    calls = mutants.CallMap(path)
    (in_f,) = mutations.mutations("ldpopt/m.py", b"def f():\n    return 1\n")
    assert calls.quick(in_f) == ["tests/test_docs.py::quick"]
    assert calls.whole_files(in_f) == ["tests/test_docs.py"]
    (at_top,) = mutations.mutations("ldpopt/m.py", b"LIMIT = 1\n")
    assert calls.quick(at_top) == ["tests/test_docs.py::quick", "tests/test_tools.py::other"]


def test_the_file_of_a_module_s_tests_runs_before_those_that_call_it_most(tmp_path):
    path = tmp_path / "callmap.json"
    calling = {f"tests/test_docs.py::{name}": [mutants.WHOLE_SECONDS, [0]] for name in "ab"}
    tests = {**calling, "tests/test_hashing.py::one": [0.1, [0]]}
    path.write_text(json.dumps({"functions": ["ldpopt/oracles/hashing.py::f"], "tests": tests}))
    calls = mutants.CallMap(path)
    (in_f,) = mutations.mutations("ldpopt/oracles/hashing.py", b"def f():\n    return 1\n")
    assert calls.whole_files(in_f) == ["tests/test_hashing.py"]
    (beside,) = mutations.mutations("ldpopt/oracles/hashing.py", b"LIMIT = 1\n")
    assert calls.whole_files(beside)[0] == "tests/test_hashing.py"


def test_compiled_functions_are_tested_through_the_modules_that_import_them(tmp_path):
    path = tmp_path / "callmap.json"
    kernels = "ldpopt/closed_form/tree_kernels.py"
    names = [
        "ldpopt/closed_form/hierarchy.py::f",
        "ldpopt/closed_form/simplex.py::g",
        f"{kernels}::<module>",
    ]
    # The other test imports the kernels, as the first one of a run that needs them.
    tests = {
        "tests/test_hierarchy.py::one": [0.1, [0]],
        "tests/test_docs.py::other": [0.1, [1, 2]],
    }
    path.write_text(json.dumps({"functions": names, "tests": tests}))
    calls = mutants.CallMap(path)
    (in_kernel,) = mutations.mutations(kernels, b"def kernel():\n    return 1\n")
    assert calls.quick(in_kernel) == ["tests/test_hierarchy.py::one"]
    assert calls.whole_files(in_kernel) == ["tests/test_hierarchy.py"]


@pytest.mark.parametrize(
    ("status", "output", "expected"),
    [
        (0, "3 passed", None),
        (1, "FAILED tests/test_a.py::b[a - b] - x", ("failed", "the running test")),
        (2, "ERROR tests/test_a.py - x", ("ended", "tests/test_a.py")),
        (-11, "..", ("ended", "the running test")),
        (-24, "FAILED tests/test_a.py::b - x", ("time limit", "the running test")),
    ],
)
def test_how_a_run_of_tests_notices_an_error(status, output, expected):
    assert mutants._outcome(status, output, "the running test") == expected


ENDLESS = """
import os

def test_quick():
    pass

def test_endless():
    while True:
        pass

def test_crash():
    os._exit(3)
"""


def test_an_endless_loop_is_a_time_limit_of_the_test_that_runs(tmp_path):
    (tmp_path / "test_a.py").write_text(ENDLESS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "tools").symlink_to(texts.ROOT / "tools")
    record = tmp_path / "callmap.json"
    record.write_text(json.dumps({"functions": [], "tests": {}}))
    calls = mutants.CallMap(record)
    calls.seconds["test_a.py::test_endless"] = -mutants.TEST_SECONDS / mutants.TEST_FACTOR
    copy = mutants.Copy.__new__(mutants.Copy)
    copy.root = tmp_path
    # The tests of this copy need no other, and importing all takes seconds.
    copy.libraries = ("pytest",)
    quick, endless, crash = (f"test_a.py::test_{name}" for name in ("quick", "endless", "crash"))
    assert copy.run([quick], calls) is None
    assert copy.run(["test_a.py"], calls, passed=[endless, crash]) is None
    assert copy.run([quick, endless], calls) == ("time limit", endless)
    assert copy.run([crash, endless], calls) == ("ended", crash)
    copy.close()


@pytest.mark.parametrize("name", ["haswell", "skylakex", "nehalem", "numpy", "numba"])
def test_a_variant_needs_its_processor(name):
    probe = {"blas": ["Zen"], "numpy": ["X86_V3"], "numba": "host", "processor": []}
    (variant,) = [v for v in portable.variants(probe) if v.name == name]
    assert not variant.in_use(probe)
    if variant.needs:
        assert variant.needs[0] in variant.obstacle(probe)
        able = probe | {"processor": variant.needs}
        assert variant.obstacle(able) is None
        assert "OpenBLAS" in variant.obstacle(able | {"blas": []})


def test_the_short_run_joins_the_oldest_kernels():
    probe = {"blas": ["Zen"], "numpy": ["X86_V3"], "numba": "host", "processor": []}
    oldest = portable.short_variants(probe)[0]
    assert oldest.environment.keys() >= {
        "OPENBLAS_CORETYPE",
        "NPY_DISABLE_CPU_FEATURES",
        "NUMBA_CPU_NAME",
    }
    in_use = {"blas": ["Nehalem"], "numpy": [], "numba": "generic"}
    assert oldest.in_use(in_use)
    assert not any(oldest.in_use(in_use | {key: probe[key]}) for key in in_use)


def test_portable_ignores_files_that_exist():
    named = {*portable.NOT_NUMERICAL, *portable.CORE}
    assert [path for path in named if not (texts.ROOT / path).exists()] == []

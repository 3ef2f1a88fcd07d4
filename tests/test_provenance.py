"""Stored results become stale with the code they follow from, and only with that."""

import ast
import importlib
import os
import sys
import threading
from functools import partial

import numpy as np
import pytest

import ldpopt
from experiments.bench import store
from experiments.bench.store import Store
from ldpopt import constraints, losses
from ldpopt.errors import InvalidInputError
from ldpopt.studies.engine import provenance
from ldpopt.studies.engine.cell import _CODE, Cell, Task, provenance_of
from tests.test_bench import SETTINGS, row

SOURCE = '''
"""Text."""
LIMIT = 3
"""Of what."""


def double(x):
    """Return 2x."""
    # A reason.
    return 2 * x
'''


def _statements(source):
    return provenance.statements_of(ast.parse(source), [])


def test_comments_docstrings_and_layout_do_not_count():
    other = "LIMIT = (3)\ndef double(x): return (2\n    * x)  # why\n"
    assert _statements(SOURCE) == _statements(other)


def test_every_other_change_counts():
    before = _statements(SOURCE)
    for old, new in (("= 3", "= 4"), ("2 * x", "x * 2"), ("double", "twice")):
        assert _statements(SOURCE.replace(old, new, 1)) != before


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of sources that can be imported: a package and a module beside it."""
    package = tmp_path / "somebodys"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "method.py").write_text(
        "import numpy\nfrom somebodys.help import two\nfrom . import tables\nimport beside\n"
        "def doubled(estimate):\n    return two() * estimate.frequencies\n"
    )
    (package / "help.py").write_text("def two(): return 2\n")
    (package / "tables.py").write_text("SIZE = 3\n")
    (package / "other.py").write_text("x = 1\n")
    (tmp_path / "beside.py").write_text("y = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    provenance._folder_of.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] in ("somebodys", "beside")]:
        del sys.modules[name]


def rewrite(path, source):
    """Write a source with another time of change, as an editor does a moment later."""
    path.write_text(source)
    later = path.stat().st_mtime_ns + 10**9
    os.utime(path, ns=(later, later))


def test_the_digest_follows_what_a_module_imports_and_nothing_else(folder):
    def digest():
        return provenance.code_digest("somebodys.method")

    before = digest()
    rewrite(folder / "somebodys" / "other.py", "x = 2\n")
    assert digest() == before
    rewrite(folder / "somebodys" / "help.py", "def two():\n    return (2)  # the same\n")
    assert digest() == before
    seen = {before}
    for path, source in (
        ("somebodys/help.py", "def two(): return 3\n"),
        ("somebodys/tables.py", "SIZE = 4\n"),
        ("beside.py", "y = 2\n"),
        ("somebodys/method.py", "import numpy\n"),
    ):
        rewrite(folder / path, source)
        assert digest() not in seen
        seen.add(digest())


def test_a_module_without_a_source_counts_for_nothing():
    assert provenance.code_digest("math") == provenance.code_digest()


def test_a_function_counts_with_the_sources_of_its_module(folder):
    method = importlib.import_module("somebodys.method").doubled
    before = provenance.fingerprint(method)
    assert provenance.fingerprint(method) == before
    rewrite(folder / "somebodys" / "help.py", "def two(): return 3\n")
    assert provenance.fingerprint(method) != before


def test_one_fingerprint_reads_the_sources_of_a_module_once(folder, monkeypatch):
    rewrite(folder / "beside.py", "def one(): return 1\ndef two(): return 2\n")
    beside = importlib.import_module("beside")
    read = []
    digest_of = provenance.code_digest
    monkeypatch.setattr(
        provenance, "code_digest", lambda *modules: read.append(modules) or digest_of(*modules)
    )
    before = provenance.fingerprint([beside.one, beside.two])
    assert read == [("beside",)]
    rewrite(folder / "beside.py", "def one(): return 1\ndef two(): return 3\n")
    assert provenance.fingerprint([beside.one, beside.two]) != before


def test_a_function_without_a_file_counts_with_all_that_it_names():
    """As in a notebook, whose cells have no module that could be read."""

    def print_of(source, **names):
        exec(source, names)
        names["f"].__module__ = "__main__"
        return provenance.fingerprint(names["f"])

    plain = print_of("def f(x): return g(x) + a", g=len, a=1)
    assert print_of("def f(x):\n  return g(x) + a", g=len, a=1) == plain
    assert print_of("def f(x): 'Text.'; return g(x) + a", g=len, a=1) == plain
    others = [
        print_of("def f(x): return g(x) - a", g=len, a=1),
        print_of("def f(x): return g(x) + a", g=max, a=1),
        print_of("def f(x): return g(x) + a", g=len, a=2),
        print_of("def f(x): return g(x) + a", g=len, a=np.array([1, 2])),
        print_of("def f(x): return g(x) + a", g=len, a=np.array([1, 3])),
        print_of("def f(x, y=1): return g(x) + a", g=len, a=1),
    ]
    assert len({plain, *others}) == len(others) + 1
    # What it does not name changes nothing.
    assert print_of("def f(x): return g(x) + a", g=len, a=1, b=3) == plain


def test_closures_partial_calls_and_objects_count():
    def scaled(factor):
        return lambda estimate: factor * estimate.frequencies

    class Rule:
        def __init__(self, share):
            self.share = share

        def __call__(self, estimate):
            return self.share * estimate.frequencies

    print_of = provenance.fingerprint
    for one, same, other in (
        (scaled(2), scaled(2), scaled(3)),
        (partial(max, 1), partial(max, 1), partial(max, 2)),
        (Rule(0.5), Rule(0.5), Rule(0.25)),
        ({"a": {1, 2}}, {"a": {2, 1}}, {"a": {1, 3}}),
        (np.random.default_rng(1), np.random.default_rng(1), np.random.default_rng(2)),
    ):
        assert print_of(one) == print_of(same)
        assert print_of(one) != print_of(other)


def test_a_problem_counts_by_its_parts_and_not_by_what_it_computed():
    def problem(total):
        simplex = [constraints.NonNegative(), constraints.SumsTo(total)]
        return ldpopt.Problem(losses.LeastSquares(), simplex)

    solved = problem(1.0)
    before = provenance.fingerprint(solved)
    solved.solve([0.5, 0.2])
    assert provenance.fingerprint(solved) == before
    assert provenance.fingerprint(problem(1.0)) == before
    assert provenance.fingerprint(problem(2.0)) != before


def test_what_cannot_be_looked_into_is_an_error_with_a_remedy():
    lock = threading.Lock()
    with pytest.raises(InvalidInputError, match=r"cannot be looked into.*leave out the store"):
        provenance.fingerprint(lambda estimate: lock)


def test_cells_do_not_rest_on_what_only_shows_results():
    files = provenance._closure((_CODE,), frozenset(["ldpopt"]))
    assert {"ldpopt.methods", "ldpopt.oracles.base", "ldpopt.datasets.dataset"} <= set(files)
    applications = {name.split(".")[1] for name in files if "." in name}
    assert not applications & {"claims", "cli", "collection", "rendering"}


def test_a_cell_of_other_code_data_or_numpy_has_another_name(monkeypatch):
    def name(seed=0, digest="abc"):
        cell = Cell("zipf", 10, 4, digest, "oue", 1.0, (), (), 3)
        return Task(cell, None, None, seed, provenance_of((), (), None)).key

    before = name()
    assert name() == before
    assert name(seed=1) != before
    assert name(digest="abd") != before
    with monkeypatch.context() as other:
        other.setattr(provenance, "code_digest", lambda *modules: "other")
        assert name() != before
    with monkeypatch.context() as other:
        other.setattr(np, "__version__", "0.0")
        assert name() != before


def test_benchmarks_of_other_code_are_not_kept(tmp_path, monkeypatch):
    Store(tmp_path).add("name", SETTINGS, {}, [row()])
    assert Store(tmp_path).rows("name", SETTINGS) == [row()]
    monkeypatch.setattr(store, "made_by", lambda *parts: {"code": "other"})
    assert Store(tmp_path).rows("name", SETTINGS) is None

"""Stored results become stale with the code they follow from, and only with that."""

import ast
from pathlib import Path

import numpy as np

import ldpopt
from experiments import provenance
from experiments.bench import store
from experiments.bench.store import Store
from experiments.cells.cell import Cell
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


def test_comments_docstrings_and_layout_do_not_count():
    other = "LIMIT = (3)\ndef double(x): return (2\n    * x)  # why\n"
    assert provenance.statements_of(SOURCE) == provenance.statements_of(other)


def test_every_other_change_counts():
    before = provenance.statements_of(SOURCE)
    for old, new in (("= 3", "= 4"), ("2 * x", "x * 2"), ("double", "twice")):
        assert provenance.statements_of(SOURCE.replace(old, new, 1)) != before


def test_the_digest_follows_library_and_parts_but_not_applications(tmp_path, monkeypatch):
    package = tmp_path / "package"
    experiments = tmp_path / "experiments"
    for path in (package / "solve", package / "cli", experiments / "cells"):
        path.mkdir(parents=True)
        (path / "a.py").write_text("x = 1\n")
    monkeypatch.setattr(provenance, "_PACKAGE", package)
    monkeypatch.setattr(provenance, "_EXPERIMENTS", experiments)

    def digest(*parts):
        provenance.code_digest.cache_clear()
        return provenance.code_digest(*parts)

    library = digest()
    cells = digest("cells")
    assert library != cells
    (package / "cli" / "a.py").write_text("x = 2\n")
    assert (digest(), digest("cells")) == (library, cells)
    (experiments / "cells" / "a.py").write_text("x = 2\n")
    assert digest() == library
    assert digest("cells") != cells
    (package / "solve" / "a.py").write_text("x = 2\n")
    assert digest() != library
    provenance.code_digest.cache_clear()


def test_cells_do_not_import_the_applications_that_are_left_out():
    folder = Path(ldpopt.__file__).parent
    assert all((folder / name).is_dir() for name in provenance.APPLICATIONS)
    for path in Path(provenance.__file__).parent.joinpath("cells").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                assert not any(name.startswith(f"ldpopt.{a}") for a in provenance.APPLICATIONS)


def test_a_cell_of_other_code_data_or_numpy_has_another_name(monkeypatch):
    def cell(digest="abc"):
        return Cell("zipf", 10, 4, digest, "oue", 1.0, (), (), 3)

    name = cell().key(0)
    assert cell().key(0) == name
    assert cell().key(1) != name
    assert cell("abd").key(0) != name
    with monkeypatch.context() as other:
        other.setattr(provenance, "code_digest", lambda *parts: "other")
        assert cell().key(0) != name
    with monkeypatch.context() as other:
        other.setattr(np, "__version__", "0.0")
        assert cell().key(0) != name


def test_benchmarks_of_other_code_are_not_kept(tmp_path, monkeypatch):
    Store(tmp_path).add("name", SETTINGS, {}, [row()])
    assert Store(tmp_path).rows("name", SETTINGS) == [row()]
    monkeypatch.setattr(store, "made_by", lambda *parts: {"code": "other"})
    assert Store(tmp_path).rows("name", SETTINGS) is None

"""The notebooks run from first cell to last, and their stored outputs are those of the code."""

import re
import sys
from pathlib import Path

import nbformat
import pytest

from experiments import notebooks

ROOT = Path(__file__).parent.parent
PATHS = notebooks.paths()
README = (ROOT / "README.md").read_text(encoding="utf-8")
NUMBER = re.compile(r"[-+]?\d[\d.,]*(?:e[-+]?\d+)?%?")

pytestmark = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def shown(notebook):
    """Return what every cell shows but its pictures and numbers.

    The last digits of numbers differ between machines.
    """
    cells = []
    for cell in code_cells(notebook):
        texts = [
            output.text if "text" in output else output.data["text/plain"]
            for output in cell.outputs
        ]
        kinds = [(output.output_type, output.get("name")) for output in cell.outputs]
        cells.append((kinds, [" ".join(NUMBER.sub("", text).split()) for text in texts]))
    return cells


def test_notebook_runs_and_shows_what_is_stored(path):
    stored = nbformat.read(path, as_version=4)
    assert shown(notebooks.execute(path)) == shown(stored)


def test_stored_outputs_exist_and_name_no_machine(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    cells = code_cells(notebook)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert all(
        output.output_type != "error" and output.get("name") != "stderr" for output in outputs
    )
    text = path.read_text(encoding="utf-8")
    pictures = [
        output.data.pop("image/png") for output in outputs if "image/png" in output.get("data", {})
    ]
    assert sum(map(len, pictures)) <= len(text) < 400_000
    words = nbformat.writes(notebook)
    assert not any(f"{place}/" in words for place in (ROOT, sys.prefix))
    assert not re.search(r"(?<![\w.])/(?:home|root|Users|tmp|work|usr|opt|mnt)/|[A-Z]:\\\\", words)


def test_readme_points_to_it(path):
    assert f"](notebooks/{path.name})" in README

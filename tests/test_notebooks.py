"""The notebooks run from first cell to last, and their stored outputs are those of the code."""

import os
import re
import sys
from pathlib import Path

import nbformat
import pytest

from experiments import notebooks
from ldpopt import datasets
from ldpopt.errors import DataUnavailableError
from tests.printed import NUMBER, draws_as_kept, words
from tests.tolerances import CERTIFIED, PRINTED, RESIDUE_FACTOR

ROOT = Path(__file__).parent.parent
PATHS = notebooks.paths()
TUTORIALS = (ROOT / "docs" / "tutorials" / "index.md").read_text(encoding="utf-8")
OF_THE_MACHINE = re.compile(
    r"<Figure size [\d.]+x[\d.]+"  # pixels follow from the fonts of the machine
    r"|[\d.]+ bytes per report on disk"  # compression differs between versions of Parquet
    r"|\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?)?"  # dates
    r"|\d{1,2}:\d{2}:\d{2}"  # times of day
    r"|[\d.]+ (?:ns|µs|ms|seconds|minutes|hours)\b"  # durations; "s" is a noise level there
)
RESIDUE = re.compile(
    r"\b(?:gap|violation|stationarity|complementarity|largest difference)"
    r"(?: of the two estimates:)?"
    rf"[ =]({NUMBER.pattern})"
)
"""What a solver or rounding left over, by the word before it."""

PAGE_WIDTH = 101
"""Characters of a line of output on the site."""

every_notebook = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def texts(notebook):
    """Return what every cell shows but its pictures, without what only this machine shows."""
    return [
        OF_THE_MACHINE.sub("", output.text if "text" in output else output.data["text/plain"])
        for cell in code_cells(notebook)
        for output in cell.outputs
    ]


def kinds(notebook):
    """Return which outputs every cell has."""
    return [
        [(output.output_type, output.get("name")) for output in cell.outputs]
        for cell in code_cells(notebook)
    ]


def last_place(number):
    """Return the unit of the last digit that is printed; 0 of a count, which is exact."""
    mantissa, _, exponent = number.rstrip("%").replace(",", "").partition("e")
    decimals = len(mantissa.partition(".")[2])
    if not decimals and not exponent and not number.endswith("%"):
        return 0.0
    return 10.0 ** (int(exponent or 0) - decimals)


def value(number):
    return float(number.rstrip("%").replace(",", ""))


def same(fresh, stored):
    """Return whether two printed numbers are the same but for the rounding of the last digit."""
    unit = max(last_place(fresh), last_place(stored))
    return abs(value(fresh) - value(stored)) <= PRINTED * unit


def same_residue(fresh, stored):
    """Return whether two residues have the same size; from 0.001 on they are results."""
    sizes = sorted((abs(value(fresh)), abs(value(stored))))
    if sizes[1] >= 1e-3:
        return same(fresh, stored)
    return sizes[1] <= CERTIFIED or sizes[1] <= RESIDUE_FACTOR * sizes[0]


def changed_numbers(fresh, stored):
    """Return (fresh, stored) of the numbers in two texts of the same words that differ."""
    pairs = []
    for pattern, agree in ((RESIDUE, same_residue), (NUMBER, same)):
        old, new = pattern.findall(stored), pattern.findall(fresh)
        pairs += [pair for pair in zip(new, old, strict=True) if not agree(*pair)]
        fresh, stored = pattern.sub("", fresh), pattern.sub("", stored)
    return pairs


def has_the_data_of(path):
    """Return whether this machine has the data of the stored numbers.

    Without retail, notebook 4 takes the bundled cities.
    """
    if path.stem != "4_priors":
        return True
    if not os.environ.get("LDPOPT_DATA"):
        return False
    try:
        datasets.load("retail")
    except DataUnavailableError:
        return False
    return True


@pytest.fixture(scope="module")
def execute():
    """One kernel for all notebooks: a third of their processor time is loading the libraries."""
    with notebooks.kernel() as run:
        yield run


@every_notebook
def test_notebook_runs_and_shows_what_is_stored(execute, path):
    stored = nbformat.read(path, as_version=4)
    fresh = execute(path)
    assert kinds(fresh) == kinds(stored)
    for text, kept in zip(texts(fresh), texts(stored), strict=True):
        assert words(text) == words(kept)
        if draws_as_kept() and has_the_data_of(path):
            assert changed_numbers(text, kept) == []


@every_notebook
def test_tables_that_cells_print_fit_the_page(path):
    """Of a longer row the site puts the end below its begin, at 1,280 pixels."""
    printed = "\n".join(texts(nbformat.read(path, as_version=4)))
    rows = [line for line in printed.splitlines() if "   " in line.strip()]
    assert [row for row in rows if len(row) > PAGE_WIDTH] == []


@pytest.mark.parametrize(
    ("fresh", "stored"),
    [
        ("MSE 4.13e-06", "MSE 4.12e-06"),
        ("width 0.0", "width -0.0"),
        ("12%", "13%"),
        ("gap 3e-17", "gap 0e+00"),
        ("gap=2e-09, violation=1e-11", "gap=8e-10, violation=9e-12"),
    ],
)
def test_numbers_that_another_machine_may_print(fresh, stored):
    assert changed_numbers(fresh, stored) == []


@pytest.mark.parametrize(
    ("fresh", "stored"),
    [
        ("MSE 4.14e-06", "MSE 4.12e-06"),
        ("MSE 4.12e-06", "MSE 4.12e-05"),
        ("0.331 ± 0.01", "0.313 ± 0.01"),
        ("514 of 736", "513 of 736"),
        ("15%", "13%"),
        ("gap 8e-03", "gap 6e-03"),
        ("gap 2e-05", "gap 5e-08"),
        ("+0.62", "-0.62"),
    ],
)
def test_a_changed_number_is_seen(fresh, stored):
    assert words(fresh) == words(stored)
    assert len(changed_numbers(fresh, stored)) == 1


def test_a_notebook_starts_without_the_names_and_settings_of_the_one_before(execute, tmp_path):
    sources = [
        "import matplotlib as mpl\nname = 1\nmpl.rcParams['lines.linewidth'] = 77",
        "import matplotlib as mpl\nprint('name' in dir(), mpl.rcParams['lines.linewidth'])",
    ]
    for number, source in enumerate(sources):
        path = tmp_path / f"{number}.ipynb"
        cells = [nbformat.v4.new_code_cell(source)]
        nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
        shown = execute(path)
    (cell,) = shown.cells
    assert cell.outputs[0].text == "False 1.5\n"


def test_bars_are_off_in_the_kernel_and_in_no_other_process(tmp_path, monkeypatch):
    monkeypatch.delenv("TQDM_DISABLE", raising=False)
    path = tmp_path / "bars.ipynb"
    cells = [nbformat.v4.new_code_cell("import os\nprint(os.environ['TQDM_DISABLE'])")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    with notebooks.kernel() as run:
        (cell,) = run(path).cells
    assert cell.outputs[0].text == "1\n"
    assert "TQDM_DISABLE" not in os.environ


def test_what_only_this_machine_shows_is_left_out():
    text = "2026-11-21 08:30:15: 12.5 ms, <Figure size 880x660 with 2 Axes>, 0.86 s are true"
    assert NUMBER.findall(OF_THE_MACHINE.sub("", text)) == ["2", "0.86"]


@every_notebook
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


@every_notebook
def test_the_tutorials_point_to_it(path):
    assert f"](../../notebooks/{path.name})" in TUTORIALS

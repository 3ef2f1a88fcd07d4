"""Whether the tables of a run are all there, whole, and as the run wrote them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from ldpopt.claims.figures.datasets import DATA
from ldpopt.claims.figures.results import Results
from ldpopt.storage import write_whole

FILE_NAME = "manifest.json"
"""SHA-256 of every table, by its name."""

# Counted once on the kept run, which no code can recount without computing it again.
ROWS = {
    "ndss-fig1": 1980,
    "ndss-fig2": 999,
    "ndss-fig3": 990,
    "ndss-fig4": 480,
    "ndss-fig5": 120,
    "ndss-fig6": 216,
    "ndss-fig7": 240,
    "ndss-fig8": 240,
    "ndss-fig9": 900,
    "ndss-fig10": 416,
    "draft-fig1": 240,
    "draft-fig2": 216,
    "draft-fig3": 240,
    "draft-fig4": 240,
    "draft-fig5": 416,
    "draft-fig6": 337,
    "draft-fig7": 120,
    "draft-fig8": 120,
    "draft-fig9": 120,
    "calibrate-fig3": 98,
    "calibrate-fig6": 117,
    "calibrate-fig7": 20,
    "calibrate-fig9": 45,
}
"""The smallest number of rows of every table. A run that has Kosarak, POS and Fire has more of
them, and the tables of the figures that are not listed here."""


def write_manifest(folder: Path) -> None:
    """Write the manifest of all tables of figures in a folder; it replaces one that is there.

    Raises
    ------
    InvalidInputError
        If the file cannot be written.
    """
    # By content: times and sizes of files change when a folder is copied.
    sums = {path.name: _digest(path) for path in _tables(folder)}
    write_whole(folder / FILE_NAME, f"{json.dumps(sums, indent=1)}\n".encode())


def defects_of(results: Results) -> list[str]:
    """Return what is wrong with the tables of a run, one sentence each; none if they are whole."""
    return [*_shortened(results), *_altered(results.folder)]


def _shortened(results: Results) -> Iterator[str]:
    for figure, rows in ROWS.items():
        # More rows are no defect: they come from data sets that this machine has in addition.
        present = len(results.rows(figure))
        if not present:
            yield f"{figure}.csv is missing or empty"
        elif present < rows:
            yield f"{figure}.csv has {present} rows of {rows}"


def _altered(folder: Path) -> Iterator[str]:
    """Yield what differs from the manifest: a small change may leave every verdict as it is."""
    sums = _read(folder)
    if sums is None:
        yield f"{FILE_NAME} is missing, or is not what a run writes"
        return
    present = {path.name: path for path in _tables(folder)}
    for name in sorted(sums.keys() | present.keys()):
        if name not in present:
            yield f"{name} is missing"
        elif name not in sums:
            yield f"{name} is not in {FILE_NAME}"
        elif sums[name] != _digest(present[name]):
            yield f"{name} was altered after the run wrote it"


def _read(folder: Path) -> Mapping[str, str] | None:
    try:
        sums = json.loads((folder / FILE_NAME).read_text(encoding="utf-8"))
    # Whatever cannot be read as a manifest was not written by a run.
    except (OSError, ValueError):
        return None
    return sums if isinstance(sums, dict) else None


def _tables(folder: Path) -> list[Path]:
    """Return the tables of figures that are there: others may lie in the same folder."""
    # Paired differences decide ratios of methods: they are as much a part of the run as the means.
    names = [f"{figure}{suffix}" for figure in DATA for suffix in (".csv", ".paired.csv")]
    return [folder / name for name in names if (folder / name).exists()]


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()

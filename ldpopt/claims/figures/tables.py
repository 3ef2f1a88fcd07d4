"""The tables that a run of the figures writes: one CSV file of means, one of paired differences."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

Label = str | int | float


@dataclass(frozen=True)
class Row:
    """One number of a figure: a mean over trials with its standard deviation (NaN if none)."""

    figure: str
    panel: str
    dataset: str
    oracle: str
    n: int
    d: int
    epsilon: float
    method: str
    query: str
    parameter: Label
    metric: str
    mean: float
    std: float
    trials: int


@dataclass(frozen=True)
class Pair:
    """Excess of a method's value over another's on the same reports: mean, 95 % interval, sd."""

    figure: str
    panel: str
    dataset: str
    n: int
    epsilon: float
    query: str
    parameter: Label
    metric: str
    method: str
    reference: str
    difference: float
    low: float
    high: float
    std: float
    trials: int


Kind = TypeVar("Kind", Row, Pair)


def read_table(path: Path, kind: type[Kind]) -> list[Kind]:
    """Return the rows of a table.

    Parameters
    ----------
    path
        Of the CSV file.
    kind
        Row or Pair.

    Raises
    ------
    ValueError
        If a column is missing or a number cannot be read; the message names the line.
    """
    columns = [(column.name, _READERS[str(column.type)]) for column in fields(kind)]
    with path.open(encoding="utf-8", newline="") as file:
        # All or nothing: a table with an unreadable line is not the one that was written.
        rows = []
        # The first line has the names of the columns.
        for line, record in enumerate(csv.DictReader(file), start=2):
            try:
                rows.append(kind(*[read(record[name]) for name, read in columns]))
            except (KeyError, TypeError, ValueError) as error:
                raise ValueError(f"line {line} of {path} is not of a figure: {error!r}") from None
    return rows


def _number(text: str) -> float:
    """Return a number from a cell; an empty one is NaN."""
    return float(text) if text else math.nan


def _label(text: str) -> Label:
    """Return a parameter: a number where it reads as one."""
    # Most figures have none, and a failed attempt at a number takes longer than all the rest.
    if not text:
        return text
    # int first: every whole number would be read by float as well.
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


# How a cell is read, by the type of its column as the classes above write it.
_READERS: dict[str, Callable[[str], Any]] = {
    "str": str,
    "int": int,
    "float": _number,
    "Label": _label,
}

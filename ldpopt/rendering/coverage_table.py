"""The matrix of losses and constraints in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.markup import escape
from rich.table import Table

from ldpopt.solve.coverage import PATHS, Coverage

# Characters of a column with the path under one loss, and of the column of constraints.
_OF_LOSS = 12
_OF_CONSTRAINTS = 28


def coverage_table(matrix: Coverage, width: int) -> Table:
    """Return the matrix: one row per set of constraints, one column per loss.

    Parameters
    ----------
    matrix
        What is shown.
    width
        Of the terminal, in characters. Where it is too narrow for all losses, a row lists them by
        path.
    """
    legend = ", ".join(f"{short} = {path}" for path, short in PATHS.items())
    table = Table(box=box.SIMPLE_HEAD, title=f"How problems are solved ({legend})")
    table.title_justify = "left"
    is_wide = width >= _OF_CONSTRAINTS + _OF_LOSS * len(matrix.losses)
    if is_wide:
        table.add_column("constraints", style="bold", min_width=24)
        for name in matrix.losses:
            table.add_column(escape(name), min_width=_OF_LOSS - 3, overflow="fold")
    else:
        table.add_column("constraints", style="bold")
        table.add_column("losses by path")
    for names, *paths in matrix.rows():
        cells = paths if is_wide else [_by_path(matrix.losses, paths)]
        table.add_row(*map(escape, [names, *cells]))
    return table


def _by_path(losses: Sequence[str], paths: Sequence[str]) -> str:
    """Return one line per path, with the losses that it solves."""
    groups: dict[str, list[str]] = {}
    for loss, path in zip(losses, paths, strict=True):
        groups.setdefault(path, []).append(loss)
    return "\n".join(f"{path}: {', '.join(names)}" for path, names in groups.items())

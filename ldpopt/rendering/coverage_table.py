"""The matrix of losses and constraints in the terminal."""

from __future__ import annotations

from rich import box
from rich.markup import escape
from rich.table import Table

from ldpopt.solve.coverage import PATHS, Coverage


def coverage_table(matrix: Coverage) -> Table:
    """Return the matrix: one row per set of constraints, one column per loss."""
    legend = ", ".join(f"{short} = {path}" for path, short in PATHS.items())
    table = Table(box=box.SIMPLE_HEAD, title=f"How problems are solved ({legend})")
    table.title_justify = "left"
    table.add_column("constraints", style="bold", min_width=24)
    for name in matrix.losses:
        table.add_column(escape(name), min_width=5)
    for row in matrix.rows():
        table.add_row(*map(escape, row))
    return table

"""``ldpopt coverage``: which problems have a closed form."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ldpopt.cli.shared import Json, output, print_json
from ldpopt.errors import InvalidInputError


def coverage(
    up_to: Annotated[
        int, typer.Option("--up-to", help="The largest number of constraints, 0 to 3.")
    ] = 3,
    every: Annotated[
        bool, typer.Option("--all", help="Take all losses and constraints of the library.")
    ] = False,
    as_json: Json = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the table of the site, in Markdown.")
    ] = False,
) -> None:
    """Show how each loss is solved under up to three constraints: by form, root, steps or solver.

    Example: ldpopt coverage --up-to 1
    """
    from ldpopt.rendering.coverage_table import coverage_table
    from ldpopt.solve.coverage import coverage as covered

    if as_json and markdown:
        raise InvalidInputError("--json and --markdown are two formats: give one of them")
    matrix = covered(up_to=up_to, every=every)
    if markdown:
        # Not by rich, which would wrap long rows.
        typer.echo(matrix.markdown())
    elif as_json:
        cells: list[dict[str, Any]] = [
            {
                "loss": cell.loss,
                "constraints": list(cell.constraints),
                "path": cell.path,
                "name": cell.name,
            }
            for cell in matrix.cells
        ]
        print_json(
            {"problems": len(cells), "with_form": matrix.with_form, **matrix.counts, "cells": cells}
        )
    else:
        output.print(coverage_table(matrix, output.width))
        output.print(matrix.summary(), highlight=False)

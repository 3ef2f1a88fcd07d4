"""``ldpopt methods``: Table I."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ldpopt.cli.shared import Json, output, print_json
from ldpopt.errors import InvalidInputError
from ldpopt.methods import METHODS, Method, markdown_table


def methods(
    as_json: Json = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the documentation's table, in Markdown.")
    ] = False,
) -> None:
    """Show Table I: every method with its problem, its guarantees and its options.

    Example: ldpopt methods --json
    """
    from ldpopt.rendering.methods_table import methods_table

    if as_json and markdown:
        raise InvalidInputError("--json and --markdown are two formats: give one of them")
    if markdown:
        # Not by rich, which would wrap long rows.
        typer.echo(markdown_table())
    elif as_json:
        print_json([_record(method) for method in METHODS.values()])
    else:
        output.print(methods_table(output.width))


def _record(method: Method) -> dict[str, Any]:
    """Return a method as JSON shows it."""
    # Named here: what scripts read does not change with the attributes of a class.
    return {
        "name": method.name,
        "label": method.label,
        "description": method.description,
        "problem": method.formula,
        "source": method.source,
        "nonnegative": method.nonnegative,
        "sums_to_one": method.sums_to_one,
        "preserves_order": method.preserves_order,
        "complexity": method.complexity,
        "options": method.options,
    }

"""``ldpopt methods``: Table I."""

from __future__ import annotations

from typing import Any

from ldpopt.cli.shared import Json, output, print_json
from ldpopt.methods import METHODS, Method


def methods(as_json: Json = False) -> None:
    """Show Table I: every method with its problem, its guarantees and its options.

    Example: ldpopt methods --json
    """
    from ldpopt.rendering.methods_table import methods_table

    if as_json:
        print_json([_record(method) for method in METHODS.values()])
    else:
        output.print(methods_table())


def _record(method: Method) -> dict[str, Any]:
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

"""Table I in the terminal."""

from __future__ import annotations

from rich import box
from rich.markup import escape
from rich.table import Table

from ldpopt.methods import METHODS, Method


def methods_table() -> Table:
    """Return Table I of the paper: every method with its problem, guarantees and options."""
    title = "Post-processing methods (N Table I, D Table 1)"
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left")
    table.add_column("method", style="bold", no_wrap=True)
    table.add_column("what it does")
    for heading in ("≥ 0", "Σ = 1", "order", "cost"):
        table.add_column(heading, no_wrap=True)
    for method in METHODS.values():
        # In the order of the papers' Table I, which METHODS has.
        table.add_row(
            method.name,
            _description(method),
            method.nonnegative,
            method.sums_to_one,
            "yes" if method.preserves_order else "no",
            method.complexity,
        )
    return table


def _description(method: Method) -> str:
    # Descriptions have brackets, which rich would take for markup.
    lines = [f"{escape(method.description)} [dim]({escape(method.source)})[/]"]
    if method.formula:
        lines.append(f"[dim]{escape(method.formula)}[/]")
    if method.options:
        defaults = (f"{name}={value}" for name, value in method.options.items())
        lines.append(f"options: {', '.join(defaults)}")
    return "\n".join(lines)

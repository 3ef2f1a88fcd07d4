"""Table I in the terminal."""

from __future__ import annotations

from rich import box
from rich.markup import escape
from rich.table import Table

from ldpopt.claims.statements import PAPERS
from ldpopt.methods import METHODS, Method

# Characters that the columns take where no word of a description is broken.
_WIDE = 100

_GUARANTEES = ("≥ 0", "Σ = 1", "order", "cost")


def methods_table(width: int) -> Table:
    """Return Table I of the paper: every method with its problem, guarantees and options.

    Parameters
    ----------
    width
        Of the terminal, in characters. On a narrow one the guarantees stand below the description.
    """
    papers = [f"{letter}: {title}." for letter, title in PAPERS.items()]
    table = Table(
        box=box.SIMPLE_HEAD,
        title="Post-processing methods",
        title_justify="left",
        caption=" ".join(["f̃: raw estimate. f: answer.", *papers]),
        caption_justify="left",
    )
    table.add_column("method", style="bold", no_wrap=True)
    table.add_column("what it does", overflow="fold")
    is_wide = width >= _WIDE
    if is_wide:
        for heading in _GUARANTEES:
            table.add_column(heading, no_wrap=True)
    # In the order of the papers' Table I, which METHODS has.
    for method in METHODS.values():
        order = "yes" if method.preserves_order else "no"
        cells = (method.nonnegative, method.sums_to_one, order, method.complexity)
        if is_wide:
            table.add_row(method.name, _description(method), *cells)
            continue
        pairs = zip(_GUARANTEES, cells, strict=True)
        below = ", ".join(f"{heading}: {cell}" for heading, cell in pairs)
        table.add_row(method.name, f"{_description(method)}\n{below}")
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

"""The path that the library takes by itself beside solvers, in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.markup import escape
from rich.table import Table

from ldpopt.printable import printable
from ldpopt.studies.comparison_rows import ComparisonRow, notes_of

_WIDE = 100  # columns of a terminal that hold every number of a comparison
_NARROW = 72  # fewer hold no times beside the names of solvers


def comparison_table(rows: Sequence[ComparisonRow], width: int = 80) -> Table:
    """Return paths beside solvers, every number whole in ``width`` columns (50 or more).

    With several accuracies, 80 columns hold neither the seconds of compilation nor a second digit
    of the errors. Fewer than 72 columns hold no times.
    """
    several = len({row.accuracy for row in rows if row.accuracy}) > 1
    times = _times(several=several, width=width)
    # Without padding: eighty columns hold the numbers, and nothing more.
    table = Table(
        box=box.SIMPLE_HEAD,
        title="What solve() takes by itself (auto) beside solvers",
        title_justify="left",
        padding=(0, 0),
        pad_edge=False,
    )
    table.add_column("solver", overflow="fold")  # the column that gives way to the others
    if several:
        table.add_column("setting", no_wrap=True)
    table.add_column("status", no_wrap=True)
    for heading in (*times, "max |Δ|", "gap", "violat."):
        table.add_column(heading, justify="right", no_wrap=True)
    group = None
    # Rows come problem by problem: a heading wherever the next one begins.
    for row in rows:
        if (row.problem, row.d) != group:
            group = (row.problem, row.d)
            table.add_section()
            table.add_row(
                f"[bold]{escape(printable(row.problem))}[/]",
                *[""] * several,
                f"[bold]d={row.d:,}[/]",
            )
        setting = [row.accuracy] * several
        # Without a closed form the same solver may stand in two rows: by itself, and as named.
        solver = f"auto: {row.solver}" if row.is_own_path else row.solver
        table.add_row(solver, *setting, row.status, *_numbers(row, times))
    return table


_COMPILE = "compile s"


def _times(*, several: bool, width: int) -> tuple[str, ...]:
    """Return the headings of the times that there is room for."""
    if width < _NARROW:
        return ()
    often = ("repeat s", "× auto")
    return often if several and width < _WIDE else (_COMPILE, *often)


def _numbers(row: ComparisonRow, times: tuple[str, ...]) -> list[str]:
    """Return the numbers of a row as text: those times, and the errors."""
    seconds = {_COMPILE: row.compile_seconds, "repeat s": row.seconds, "× auto": row.slowdown}
    # A gap's order of magnitude is what readers compare.
    digits = 2 if _COMPILE in times else 1
    errors = (row.difference, row.gap, row.violation)
    return [_short(seconds[name]) for name in times] + [_short(error, digits) for error in errors]


def _short(number: float | None, digits: int = 2) -> str:
    """Return a number in at most nine characters: plain where that is short, else scientific."""
    if number is None:
        return "–"
    if number == 0 or 0.01 <= abs(number) < 100:
        return f"{number:.2g}"
    if 100 <= abs(number) < 1e6:
        return f"{number:,.0f}"
    return f"{number:.{digits - 1}e}"


def comparison_notes(rows: Sequence[ComparisonRow]) -> list[str]:
    """Return one line per reason why solvers failed, or cannot take a problem, and per remark."""
    return [f"{names} on {row.problem}, d = {row.d:,}: {row.note}" for row, names in notes_of(rows)]

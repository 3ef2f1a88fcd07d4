"""``ldpopt compare``: closed forms beside solvers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ldpopt import validate
from ldpopt.cli.shared import (
    Json,
    output,
    picture_kind,
    progress_bar,
    report_written,
    require_writable,
    split_list,
)
from ldpopt.errors import InvalidInputError
from ldpopt.solve.solvers import installed
from ldpopt.solve.status import ACCURACIES
from ldpopt.storage import write_whole
from ldpopt.studies.comparison import CASES, ComparisonRow, compare_solvers, to_csv, to_json

if TYPE_CHECKING:
    from ldpopt.solve.status import Accuracy

_LARGEST_D = 10_000_000  # what fits the memory of an ordinary machine, the solvers' copies included


Sizes = Annotated[str, typer.Option(help="Domain sizes, separated by commas.")]
Solvers = Annotated[str, typer.Option(help="Installed cvxpy solvers, separated by commas.")]
Problems = Annotated[str, typer.Option(help=f"Some of {', '.join(CASES)}, separated by commas.")]
Settings = Annotated[
    str,
    typer.Option(
        help="Settings, separated by commas: low (1e-4), default (the solver's own), high."
    ),
]
TimeLimit = Annotated[
    float, typer.Option(help="Seconds after which a solver is stopped, if it knows such a limit.")
]
TableFile = Annotated[
    Path | None,
    typer.Option(help="File for the rows as CSV; its folder is created where missing."),
]
Picture = Annotated[
    Path | None,
    typer.Option(
        help="PNG, SVG or PDF file for a picture of accuracy against time; its folder likewise."
    ),
]


def compare(
    d: Sizes = "1024,42178",
    solvers: Solvers = "OSQP,CLARABEL,QOCO",
    problems: Problems = "cls,mle",
    accuracy: Settings = "high",
    time_limit: TimeLimit = 30.0,
    csv: TableFile = None,
    plot: Picture = None,
    as_json: Json = False,
) -> None:
    """Compare closed forms with solvers: difference, certified gap, status and times.

    For each size there is one estimate of a million users whose values follow Zipf(1.5), at
    epsilon 1 (from GRR for multinomial, from OUE for the others). A solver that cannot take a
    problem, such as OSQP on cones, has the status "unsupported".

    Example: ldpopt compare --d 1024 --solvers OSQP,CLARABEL --accuracy low,high --plot plot.png
    """
    # All options are checked before the first solve: the comparison takes minutes.
    sizes = [_size(part, d) for part in split_list("--d", d)]
    names = [installed(name) for name in split_list("--solvers", solvers)]
    cases = split_list("--problems", problems)
    for case in cases:
        validate.lookup("problem", case, CASES)
    accuracies = [_accuracy(name) for name in split_list("--accuracy", accuracy)]
    limit = validate.real("--time-limit", time_limit, above=0)
    # The picture is drawn last, yet its name is checked now.
    kind = "" if plot is None else picture_kind(plot)
    require_writable(csv, plot)
    rows = _rows(sizes, names, cases, accuracies, limit)
    if as_json:
        typer.echo(to_json(rows))
    else:
        _print_table(rows)
    if csv is not None:
        write_whole(csv, to_csv(rows).encode())
    if plot is not None:
        from ldpopt.rendering.comparison_figure import comparison_figure

        write_whole(plot, comparison_figure(rows, kind))
    report_written(csv, plot)


def _rows(
    sizes: list[int],
    solvers: list[str],
    cases: list[str],
    accuracies: list[Accuracy],
    time_limit: float,
) -> list[ComparisonRow]:
    """Run the comparison behind a progress bar."""
    rows = []
    per_problem = 1 + len(solvers) * len(accuracies)  # the closed form is the first of them
    with progress_bar() as progress:
        task = progress.add_task("", total=len(cases) * len(sizes) * per_problem)
        for row in compare_solvers(
            sizes, solvers, cases=cases, accuracies=accuracies, time_limit=time_limit
        ):
            # Kept while the bar runs: the table needs all of them to set its columns.
            rows.append(row)
            last = f"{row.problem}, d = {row.d:,}, {row.solver}"
            progress.update(task, advance=1, description=last)
    return rows


def _print_table(rows: list[ComparisonRow]) -> None:
    from ldpopt.rendering.comparison_table import comparison_notes, comparison_table

    output.print(comparison_table(rows, output.width))
    for note in comparison_notes(rows):
        output.print(note, style="dim", highlight=False, soft_wrap=True, markup=False)


def _accuracy(name: str) -> Accuracy:
    validate.lookup("accuracy", name, ACCURACIES)
    return name  # type: ignore[return-value]  # the keys of ACCURACIES are the values of Accuracy


def _size(part: str, text: str) -> int:
    """Return one domain size, written as 1024 or 1e3."""
    # One sentence for all that can be wrong: text, fractions, infinities, sizes out of range.
    try:
        size = validate.integer("--d", float(part), minimum=2)
    except (TypeError, ValueError):
        size = 0
    if not 2 <= size <= _LARGEST_D:
        raise InvalidInputError(
            f"--d takes whole numbers from 2 to {_LARGEST_D:,}, separated by commas; got {text!r}"
        )
    return size

"""``ldpopt compare``: closed forms beside solvers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from ldpopt import validate
from ldpopt.cli.counted import with_noise
from ldpopt.cli.names import ORACLE_NAMES, is_problem_file
from ldpopt.cli.shared import (
    Json,
    output,
    picture_kind,
    progress_bar,
    report_written,
    require_writable,
    split_list,
)
from ldpopt.datasets import read_frequencies
from ldpopt.descriptors import printed_to
from ldpopt.errors import InvalidInputError, InvalidTypeError, users_code
from ldpopt.estimate import FrequencyEstimate
from ldpopt.printable import printable
from ldpopt.solve.problem import Problem
from ldpopt.solve.programs.solvers import installed
from ldpopt.solve.status import ACCURACIES
from ldpopt.storage import write_whole
from ldpopt.studies.comparison import CASES, compare_solvers, comparing
from ldpopt.studies.comparison_rows import ComparisonRow, to_csv, to_json
from ldpopt.studies.named_objects import load_object

if TYPE_CHECKING:
    from ldpopt.solve.status import Accuracy

_LARGEST_D = 10_000_000  # what fits the memory of an ordinary machine, the solvers' copies included

# Defaults of options: None shows that the user gave none, which --input requires.
_SIZES = "1024,42178"
_CASES = "cls,mle"

Sizes = Annotated[
    str | None,
    typer.Option(help=f"Domain sizes, separated by commas; {_SIZES} by default."),
]
Solvers = Annotated[str, typer.Option(help="Installed cvxpy solvers, separated by commas.")]
Problems = Annotated[
    str | None,
    typer.Option(help=f"Some of {', '.join(CASES)}, separated by commas. {_CASES} by default."),
]
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

# Options of problems and data of one's own.
Input = Annotated[
    Path | None,
    typer.Option(
        "--input",
        help="CSV file with the columns value (or label) and frequency: compare problems of your "
        "own on it.",
    ),
]
OwnProblem = Annotated[
    str | None,
    typer.Option(
        "--problem",
        metavar="MODULE:NAME",
        help="A problem of your own, several, or a function from the estimate to them; or a TOML "
        "or YAML file that states one.",
    ),
]
OracleName = Annotated[
    str | None, typer.Option(help=f"{ORACLE_NAMES}, of the input, where losses need its noise.")
]
Budget = Annotated[float | None, typer.Option(help="Privacy budget of the input's oracle.")]
Reports = Annotated[int | None, typer.Option(help="Number of reports behind the input.")]


def compare(
    d: Sizes = None,
    solvers: Solvers = "OSQP,CLARABEL,QOCO",
    problems: Problems = None,
    accuracy: Settings = "high",
    time_limit: TimeLimit = 30.0,
    csv: TableFile = None,
    plot: Picture = None,
    as_json: Json = False,
    own_input: Input = None,
    own_problem: OwnProblem = None,
    oracle: OracleName = None,
    epsilon: Budget = None,
    n: Reports = None,
) -> None:
    """Compare closed forms with solvers: difference, certified gap, status and times.

    For each size there is one estimate of a million users whose values follow Zipf(1.5), at
    epsilon 1 (from GRR for multinomial, from OUE for the others). A solver that cannot take a
    problem, such as OSQP on cones, has the status "unsupported".

    With --input and --problem the problems and the estimate are your own. Differences are to the
    closed form if there is one, and otherwise to the point with the best certificate.

    Example: ldpopt compare --d 1024 --solvers OSQP,CLARABEL --accuracy low,high --plot plot.png
    """
    # All options are checked before the first solve: the comparison takes minutes.
    names = validate.distinct("--solvers", map(installed, split_list("--solvers", solvers)))
    settings = validate.distinct("--accuracy", split_list("--accuracy", accuracy))
    accuracies = [_accuracy(name) for name in settings]
    limit = validate.real("--time-limit", time_limit, above=0)
    runs = _Runs(names, accuracies, limit)
    # The picture is drawn last, yet its name is checked now.
    kind = "" if plot is None else picture_kind(plot)
    # Neither: the built-in comparison. Only one of them states half of a comparison.
    if own_input is None and own_problem is None:
        number, results = _of_cases(d, problems, runs)
    elif own_input is None or own_problem is None:
        raise InvalidInputError(
            "--input and --problem belong together: give the estimate and the problem"
        )
    else:
        if d is not None or problems is not None:
            raise InvalidInputError(
                "--d and --problems are of the built-in comparison: leave them out with --input"
            )
        estimate = _estimate(own_input, oracle, epsilon, n)
        number, results = _of_own_problems(own_problem, estimate, runs)
    # A module is imported, not read: only a file could be written over.
    problem_file = None
    if own_problem is not None and is_problem_file(own_problem):
        problem_file = Path(own_problem)
    require_writable(csv, plot, inputs=[own_input, problem_file])
    # The library's own path is the first row of each problem.
    with printed_to(2):
        rows = _rows(results, number * (1 + len(names) * len(accuracies)))
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


class _Runs(NamedTuple):
    """How each problem is solved: by which solvers, with which settings, for how long."""

    solvers: list[str]
    accuracies: list[Accuracy]
    time_limit: float


def _of_cases(
    sizes: str | None, problems: str | None, runs: _Runs
) -> tuple[int, Iterable[ComparisonRow]]:
    """Return the number of built-in problems and the rows of their comparison."""
    # Defaults are filled in here, so that None tells that an option was not given.
    text = _SIZES if sizes is None else sizes
    numbers = [_size(part, text) for part in split_list("--d", text)]
    cases = split_list("--problems", _CASES if problems is None else problems)
    for case in cases:
        validate.lookup("problem", case, CASES)
    results = compare_solvers(
        numbers,
        runs.solvers,
        cases=cases,
        accuracies=runs.accuracies,
        time_limit=runs.time_limit,
    )
    return len(cases) * len(numbers), results


def _of_own_problems(
    name: str, estimate: FrequencyEstimate, runs: _Runs
) -> tuple[int, Iterable[ComparisonRow]]:
    """Return the number of a user's problems and the rows of their comparison."""
    problems = _problems(name, estimate)
    return len(problems), comparing(problems, estimate, *runs)


def _estimate(
    path: Path, oracle: str | None, epsilon: float | None, n: int | None
) -> FrequencyEstimate:
    """Return the estimate of a CSV file, with its noise if all three options are given."""
    labels, frequencies = read_frequencies(path)
    # Least squares needs no noise: only some of the three would be a slip.
    given = [option is not None for option in (oracle, epsilon, n)]
    if not any(given):
        return FrequencyEstimate(frequencies, labels=labels)
    return with_noise(frequencies, labels, oracle, epsilon, n)


def _problems(name: str, estimate: FrequencyEstimate) -> dict[str, Problem]:
    """Return the problems that a file, or an object of the user, states, by name."""
    if is_problem_file(name):
        from ldpopt.cli.problem_file import read_problem
        from ldpopt.collection.labels import Labels

        texts = None if estimate.labels is None else tuple(estimate.labels)
        return {Path(name).stem: read_problem(Path(name), Labels(estimate.d, texts))}
    value = load_object(name)
    # A module may state one problem, several, or how to make them from the estimate.
    title = name.rpartition(":")[2]
    if callable(value) and not isinstance(value, Problem):
        with users_code(name):
            value = value(estimate)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Problem):
        return {title: value}
    if not isinstance(value, Iterable):
        raise InvalidTypeError(
            f"--problem must name a Problem, several, or a function that returns them; {name} is "
            f"{value!r}"
        )
    # Several without names are numbered, from 1 as people count.
    return {f"{title} {number}": problem for number, problem in enumerate(value, start=1)}


def _rows(results: Iterable[ComparisonRow], total: int) -> list[ComparisonRow]:
    """Run the comparison behind a progress bar."""
    rows = []
    with progress_bar() as progress:
        task = progress.add_task("", total=total)
        for row in results:
            # Kept while the bar runs: the table needs all of them to set its columns.
            rows.append(row)
            last = f"{row.problem}, d = {row.d:,}, {row.solver}"
            progress.update(task, advance=1, description=printable(last))
    return rows


def _print_table(rows: list[ComparisonRow]) -> None:
    from ldpopt.rendering.comparison_table import comparison_notes, comparison_table

    output.print(comparison_table(rows, output.width))
    for note in comparison_notes(rows):
        output.print(note, style="dim", highlight=False, soft_wrap=True, markup=False)


def _accuracy(name: str) -> Accuracy:
    # An unknown name is an error that lists the known ones.
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

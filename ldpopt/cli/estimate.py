"""``ldpopt estimate``: from reports or counts to an estimate, with answers and intervals."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from ldpopt import validate
from ldpopt.cli.counted import (
    Budget,
    ClientId,
    Columns,
    Domain,
    OracleName,
    Reports,
    Source,
    counted,
    files_of,
)
from ldpopt.cli.method_options import (
    check_method_options,
    read_method_options,
    with_method_options,
)
from ldpopt.cli.named_method import method_named
from ldpopt.cli.names import completes
from ldpopt.cli.shared import (
    Json,
    labels_file,
    output,
    picture_kind,
    print_json,
    remark,
    report_written,
    require_writable,
)
from ldpopt.errors import InvalidInputError
from ldpopt.methods import METHODS, Method
from ldpopt.solve.problem import Problem
from ldpopt.storage import write_whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ldpopt.collection import Aggregate
    from ldpopt.estimate import FrequencyEstimate

_METHOD = "norm-sub"

MethodName = Annotated[
    str | None,
    typer.Option(
        help=f"Post-processing method, see ldpopt methods, {_METHOD} by default; or a problem or "
        "function of your own, as MODULE:NAME.",
        autocompletion=completes(METHODS),
    ),
]
ProblemFile = Annotated[
    Path | None,
    typer.Option(help="TOML or YAML file with a loss and constraints, instead of a method."),
]
EstimateFile = Annotated[
    Path | None, typer.Option(help="File for the estimate: .csv, .parquet or .json.")
]
SetsFile = Annotated[
    Path | None,
    typer.Option(help="JSON file of sets of values: a list of labels or indices per name."),
]
AnswersFile = Annotated[
    Path | None, typer.Option(help="File for the sets' frequencies: .csv, .parquet or .json.")
]
Level = Annotated[float | None, typer.Option(help="Level of confidence intervals, such as 0.95.")]
Top = Annotated[
    int | None,
    typer.Option(
        help="How many of the largest values the table and the picture show; 20 and 40 by default."
    ),
]
Simultaneous = Annotated[
    bool,
    typer.Option("--simultaneous", help="Intervals that hold for all values, or sets, at once."),
]
Picture = Annotated[
    Path | None,
    typer.Option(help="PNG, SVG or PDF file for a picture of the largest values, or of the sets."),
]


@with_method_options
def estimate(
    file: Source,
    oracle: OracleName = None,
    epsilon: Budget = None,
    domain: Domain = None,
    n: Reports = None,
    column: Columns = None,
    client_id: ClientId = None,
    method: MethodName = None,
    problem: ProblemFile = None,
    out: EstimateFile = None,
    query: SetsFile = None,
    answers: AnswersFile = None,
    interval: Level = None,
    simultaneous: Simultaneous = False,
    top: Top = None,
    plot: Picture = None,
    as_json: Json = False,
    **options: Any,
) -> None:
    """Estimate the frequency of every value, and of sets of values, from reports or counts.

    A file of reports or counts states its protocol; options that contradict it are refused. So are
    rows that are not reports: ldpopt aggregate sets them aside. Missing folders of the output are
    created.

    Files and JSON have the interval of every value on its own. The table and the picture show the
    largest values, or sets where --query names some: as these are chosen for being large, their
    intervals are wider, so that the expected share of those shown that miss is what --interval
    leaves. With --simultaneous all hold at once, everywhere. --top shows more, or fewer.

    --problem FILE states a problem of your own, such as loss = "LeastSquares" and a list of
    [[constraints]] with name = "SumsTo"; its certificate is printed. Options such as --alpha belong
    to the methods that they name.

    Example: ldpopt estimate counts.json --domain labels.txt --query sets.json --out est.csv
    """
    from ldpopt.collection.results import write_columns

    # All that can be refused without reading the reports is refused before reading them.
    _check_options(interval, simultaneous, out, answers, query, plot)
    if top is not None:
        _check_top(top, as_json=as_json, plot=plot)
    # The method too, before files that may take minutes to read.
    chosen = _method(method, problem, options)
    inputs = [*files_of(file), labels_file(domain), query, problem, options.get("groups")]
    require_writable(out, answers, plot, inputs=inputs)
    # Counts are taken as they are, and reports are counted first.
    result, labels = counted(file, oracle, epsilon, domain, n, column, client_id)
    # A file keeps a fingerprint of its labels alone, and a number would pass for a label.
    if labels.texts is None and result.header.labels is not None:
        remark(f"The values of {file} have labels; their numbers are shown: give --domain FILE.")
    sets = {} if query is None else labels.sets(query)
    # One method for values and sets: answers are sums of the same frequencies.
    labelled = result.estimate.labelled(labels.names)
    if problem is None:
        name = chosen.name
        processed = _processed(chosen, labelled, read_method_options(options, labels))
    else:
        from ldpopt.cli.problem_file import read_problem

        stated = read_problem(problem, labels)
        name = stated.statement
        processed = _solved(stated, labelled)
    about = _about(result, name, options, interval, simultaneous)
    values = _columns("value", labels.names, processed, about)
    # Without sets there is no second table, and none is written.
    queries = _columns("set", list(sets), processed, about, list(sets.values())) if sets else {}
    if out is not None:
        write_columns(out, values, about)
    if answers is not None:
        write_columns(answers, queries, about)
    if plot is not None:
        _draw(processed, plot, sets, interval, top, simultaneous=simultaneous)
    # Standard output is JSON alone, for the next program in a pipe.
    if as_json:
        _print_record(about, values, queries)
    # The values were just written to a file; the answers to the few sets are worth a look.
    elif queries or out is None or top is not None:
        _print_table(processed, sets, about, top)
    report_written(out, answers, plot)
    _remark_on_outside(("Values", out, values), ("Sets", answers, queries))


def _method(name: str | None, problem: Path | None, options: dict[str, Any]) -> Method:
    """Return the method of a name, after a check of its options.

    Raises InvalidInputError if it does not have them, or a problem file takes its place.
    """
    # Two statements of what is solved would leave open which one counts.
    if problem is not None and (name is not None or options):
        given = "--method" if name is not None else f"--{next(iter(options)).replace('_', '-')}"
        raise InvalidInputError(f"--problem states what is solved: leave out {given}")
    if problem is not None:
        # What is no TOML or YAML is an error before the reports are read; what is in it is checked
        # with the domain, which they state.
        from ldpopt.cli.problem_file import parsed_file

        parsed_file(problem)
    method = method_named(name or _METHOD)
    check_method_options(method, options)
    return method


def _processed(
    method: Method, estimate: FrequencyEstimate, options: dict[str, Any]
) -> FrequencyEstimate:
    """Return the estimate after a method of the table, or one of the user's own."""
    problem = method.problem
    if METHODS.get(method.name) is method or not isinstance(problem, Problem):
        return method.solve(estimate, **options)
    return _solved(problem, estimate)


def _solved(problem: Problem, estimate: FrequencyEstimate) -> FrequencyEstimate:
    """Return the solution of a user's problem; print what the certificate proves."""
    solution = problem.solve(estimate)
    # A problem of one's own has no theorem behind it: what its certificate proves is all there is.
    remark(f"{problem.statement}: {solution.path} {solution.solver}, {solution.certificate}.")
    return solution.estimate


def _remark_on_outside(*written: tuple[str, Path | None, dict[str, Sequence[Any]]]) -> None:
    """Say of each file with intervals how many of its answers are outside them, and why."""
    from ldpopt.estimate.shown import note_of_outside

    for what, file, columns in written:
        if file is None or "lower" not in columns:
            continue
        numbers = [np.asarray(columns[name]) for name in ("frequency", "lower", "upper")]
        for note in note_of_outside(f"{what} in {file}", *numbers):
            remark(note)


def _draw(
    estimate: FrequencyEstimate,
    file: Path,
    sets: dict[str, NDArray[np.int64]],
    level: float | None,
    top: int | None,
    *,
    simultaneous: bool,
) -> None:
    from ldpopt.rendering.picture import figure_bytes

    # What is not named has the library's own number.
    options: dict[str, Any] = {} if top is None else {"largest": top}
    # The library's own picture, so that a notebook shows the same.
    picture = estimate.plot(sets or None, level=level, simultaneous=simultaneous, **options)
    write_whole(file, figure_bytes(picture, picture_kind(file)))


def _print_table(
    estimate: FrequencyEstimate,
    sets: dict[str, NDArray[np.int64]],
    about: dict[str, Any],
    top: int | None,
) -> None:
    """Print the largest values, or sets if there are any, and what their intervals promise."""
    from ldpopt.rendering.estimate_table import LINES, estimate_table

    shown = estimate.shown(
        # Unless a number is given, no more lines than fit a screen.
        LINES if top is None else top,
        sets or None,
        level=about.get("interval"),
        simultaneous="simultaneous" in about,
    )
    output.print(estimate_table(shown, "set" if sets else "value", about))
    for note in shown.notes:
        output.print(note, highlight=False, markup=False)


def _check_top(top: int, *, as_json: bool, plot: Path | None) -> None:
    """Raise an error for a number below 1, or where nothing would use it."""
    validate.integer("--top", top, minimum=1)
    if as_json and plot is None:
        raise InvalidInputError(
            "--top is about the table and the picture: --json has all values, leave it out"
        )


def _check_options(
    interval: float | None,
    simultaneous: bool,
    out: Path | None,
    answers: Path | None,
    query: Path | None,
    plot: Path | None,
) -> None:
    """Raise an error for options that would fail only after the counting."""
    from ldpopt.collection.results import result_suffix

    if interval is not None:
        validate.real("--interval", interval, above=0, below=1)
    # Alone it would change nothing, and its user would believe that it did.
    elif simultaneous:
        raise InvalidInputError("--simultaneous is about intervals: give --interval")
    # The ending decides the format: a wrong one would fail after the counting.
    if out is not None:
        result_suffix(out)
    if answers is not None:
        result_suffix(answers)
        if query is None:
            raise InvalidInputError("--answers needs the sets: give --query")
    if plot is not None:
        picture_kind(plot)


def _about(
    result: Aggregate,
    method: str,
    options: dict[str, Any],
    interval: float | None,
    simultaneous: bool,
) -> dict[str, Any]:
    """Return what the numbers mean, which goes with them into every file."""
    about = {**result.header.protocol, "n": result.n, "method": method}
    # The same reports have other numbers and less noise after a second pass.
    if result.refinement is not None:
        about["refined"] = True
    # Only what was chosen: a reader of the file should not look up what a default was.
    if options:
        about["options"] = {
            name: str(value) if isinstance(value, Path) else value
            for name, value in options.items()
        }
    if interval is not None:
        about["interval"] = interval
    if simultaneous:
        about["simultaneous"] = True
    return about


def _columns(
    heading: str,
    names: Sequence[str],
    processed: FrequencyEstimate,
    about: dict[str, Any],
    sets: list[NDArray[np.int64]] | None = None,
) -> dict[str, Sequence[Any]]:
    """Return names, frequencies and intervals of all values, or of sets of them."""
    frequencies = processed.frequencies if sets is None else processed.query(sets)
    columns: dict[str, Sequence[Any]] = {heading: names, "frequency": frequencies.tolist()}
    if "interval" in about:
        simultaneous = "simultaneous" in about
        ends = processed.interval(about["interval"], sets, simultaneous=simultaneous)
        # Numbers of Python, which JSON and CSV write whole.
        columns["lower"], columns["upper"] = (end.tolist() for end in ends)
    return columns


def _print_record(
    about: dict[str, Any], values: dict[str, Sequence[Any]], queries: dict[str, Sequence[Any]]
) -> None:
    from ldpopt.collection.results import rows_of

    record = {**about, "estimate": rows_of(values)}
    if queries:
        record["queries"] = rows_of(queries)
    print_json(record)

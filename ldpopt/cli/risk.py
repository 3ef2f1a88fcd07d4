"""``ldpopt risk``: how large the errors of methods are on given reports, without the truth."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ldpopt import validate
from ldpopt.cli.counted import (
    Budget,
    ClientId,
    Columns,
    Domain,
    OracleName,
    Reports,
    files_of,
    raw_estimate,
)
from ldpopt.cli.named_method import method_named
from ldpopt.cli.names import completes
from ldpopt.cli.shared import (
    Json,
    labels_file,
    output,
    picture_kind,
    print_json,
    report_written,
    require_writable,
    split_list,
)
from ldpopt.errors import InvalidInputError
from ldpopt.methods import METHODS
from ldpopt.storage import write_whole

if TYPE_CHECKING:
    from ldpopt.collection.labels import Labels
    from ldpopt.risks import RiskTable

_BY = ("auto", "sure", "bootstrap")

Source = Annotated[
    Path,
    typer.Argument(
        help="Reports, counts.json or a CSV file of counts; or a CSV file of raw frequencies, as "
        "ldpopt estimate --method base --out writes it, with --oracle, --epsilon and --n."
    ),
]
Names = Annotated[
    str | None,
    typer.Option(
        "--methods",
        help="Methods, separated by commas, and problems or functions of your own, as "
        "MODULE:NAME; all of the table by default.",
    ),
]
ProblemFiles = Annotated[
    list[Path] | None,
    typer.Option("--problem", help="TOML or YAML file of a problem to compare too; repeatable."),
]
Sets = Annotated[
    Path | None,
    typer.Option(help="JSON file of sets, whose answers are judged instead of the values."),
]
By = Annotated[
    str,
    typer.Option(
        help="Stein's formula (sure), the coupled bootstrap, or what the methods allow (auto).",
        autocompletion=completes(_BY),
    ),
]
Level = Annotated[float, typer.Option(help="Level of the intervals.")]
Seed = Annotated[int, typer.Option(help="Seed of the moves along the noise.")]
TableFile = Annotated[
    Path | None, typer.Option(help="File for the table: .csv, .parquet or .json.")
]
Picture = Annotated[
    Path | None, typer.Option(help="PNG, SVG or PDF file for a picture of the differences.")
]


def risk(
    file: Source,
    methods: Names = None,
    problem: ProblemFiles = None,
    query: Sets = None,
    by: By = "auto",
    level: Level = 0.95,
    seed: Seed = 0,
    oracle: OracleName = None,
    epsilon: Budget = None,
    domain: Domain = None,
    n: Reports = None,
    column: Columns = None,
    client_id: ClientId = None,
    out: TableFile = None,
    plot: Picture = None,
    as_json: Json = False,
) -> None:
    """Compare the errors of methods on these very reports, without knowing the truth.

    The protocol states the noise of the reports. From it the mean squared error of each method is
    estimated without bias, per value or, with --query, per set. "above the best" is how far a
    method's error exceeds that of the first row, with its interval: noise that all methods share
    is not in it. "undecided" stands where the difference may be 0. The reports are used through the
    estimate alone, so that the comparison costs no privacy.

    Stein's formula does not hold for methods that jump, such as base-cut: with one of them all are
    judged by the bootstrap, at 1.02 times the noise.

    Example: ldpopt risk counts.json --methods base,norm-sub,power-ns --out risks.csv
    """
    from ldpopt.collection.results import result_suffix, write_columns
    from ldpopt.studies.risk import compare_risk

    # All that can be refused without reading the reports is refused before reading them.
    names = list(METHODS) if methods is None else split_list("--methods", methods)
    chosen = {name: method_named(name) for name in validate.distinct("--methods", names)}
    validate.lookup("by", by, dict.fromkeys(_BY))
    validate.real("--level", level, above=0, below=1)
    validate.integer("--seed", seed, minimum=0)
    files = list(problem or [])
    _check_problems(files)
    jumping = [name for name, one in chosen.items() if one.is_continuous is False]
    if by == "sure" and jumping:
        raise InvalidInputError(
            f"{jumping[0]} jumps as the estimate moves, and Stein's formula does not see what a "
            "jump lets through: leave out --by, or name other --methods"
        )
    if out is not None:
        result_suffix(out)
    if plot is not None:
        picture_kind(plot)
    require_writable(out, plot, inputs=[*files_of(file), labels_file(domain), query, *files])
    raw, labels = raw_estimate(file, oracle, epsilon, domain, n, column, client_id)
    if not raw.is_raw:
        raise InvalidInputError(
            f"{file} is processed, or nothing shows that it is raw, and only errors of raw "
            "estimates are those of the reports: give the counts, or what ldpopt estimate "
            "--method base wrote, with its own --oracle, --epsilon and --n"
        )
    candidates = chosen | _problems(files, labels)
    sets = None if query is None else labels.sets(query)
    table = compare_risk(raw, candidates, sets, by, level=level, rng=seed)
    if as_json:
        print_json(_record(table))
    else:
        _print(table)
    if out is not None:
        write_columns(out, _columns(table), _about(table))
    if plot is not None:
        from ldpopt.rendering.picture import figure_bytes

        write_whole(plot, figure_bytes(table.plot(), picture_kind(plot)))
    report_written(out, plot)


def _check_problems(files: list[Path]) -> None:
    """Raise an error for files that state no problem, or have the name of another candidate."""
    from ldpopt.cli.problem_file import parsed_file

    names = set(METHODS)
    for file in files:
        # Rows are named after the files.
        if file.stem in names:
            raise InvalidInputError(
                f"{file}: another candidate is named {file.stem!r}; rename the file"
            )
        names.add(file.stem)
        parsed_file(file)


def _problems(files: list[Path], labels: Labels) -> dict[str, Any]:
    """Return the problems of files by the names of these."""
    from ldpopt.cli.problem_file import read_problem

    return {file.stem: read_problem(file, labels) for file in files}


def _print(table: RiskTable) -> None:
    """Print the table between its title and its notes."""
    from ldpopt.rendering.risk_table import risk_table

    # The sentences are whole lines, for scripts that read them.
    output.print(table.title, highlight=False, markup=False, soft_wrap=True)
    output.print(risk_table(table, output.width))
    for note in table.notes():
        output.print(note, highlight=False, markup=False, soft_wrap=True)


def _columns(table: RiskTable) -> dict[str, list[Any]]:
    """Return the table by columns; the first row is the best."""
    return {
        "method": [row.method for row in table.rows],
        "mse": [row.risk.mean for row in table.rows],
        "lower": [row.risk.low for row in table.rows],
        "upper": [row.risk.high for row in table.rows],
        "above_best": [row.excess for row in table.rows],
        "above_best_lower": [row.excess_low for row in table.rows],
        "above_best_upper": [row.excess_high for row in table.rows],
        "verdict": [table.verdict(row) for row in table.rows],
    }


def _about(table: RiskTable) -> dict[str, Any]:
    """Return what the numbers are of."""
    first = table.rows[0].risk
    return {"answers": first.answers, "by": first.by, "level": first.level, "alpha": first.alpha}


def _record(table: RiskTable) -> dict[str, Any]:
    """Return the table in the types of JSON."""
    from ldpopt.collection.results import rows_of

    return {**_about(table), "rows": rows_of(_columns(table)), "dropped": dict(table.dropped)}

"""Commands on the analyst's road: values to reports, reports to counts, either of them to an estimate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from ldpopt import validate
from ldpopt.cli.app import (
    ORACLE_NAMES,
    Json,
    app,
    errors,
    output,
    picture_kind,
    prepare,
    progress_bar,
)
from ldpopt.errors import InvalidInputError
from ldpopt.methods import METHODS, postprocess
from ldpopt.storage import write_whole

if TYPE_CHECKING:
    from ldpopt.collection import Aggregate
    from ldpopt.collection.domain import Domain

DomainOption = Annotated[
    str | None,
    typer.Option(help="Number of values, or a file of labels: one a line, or a JSON list."),
]


@app.command()
def perturb(
    values: Annotated[
        Path, typer.Argument(help="CSV file with the column value and, optionally, client_id.")
    ],
    oracle: Annotated[str, typer.Option(help=ORACLE_NAMES)],
    epsilon: Annotated[float, typer.Option(help="Privacy budget of a report.")],
    domain: Annotated[
        str, typer.Option(help="Number of values, or a file of labels: one a line, or a JSON list.")
    ],
    out: Annotated[
        Path,
        typer.Option(help="File (.parquet; .csv for a few) or folder, to which a part is added."),
    ],
    seed: Annotated[
        int | None,
        typer.Option(help="Repeatable reports, for tests: who knows the seed knows the values."),
    ] = None,
) -> None:
    """Randomise users' values: one report a row, as clients would send them.

    Values are numbers from 0, or labels if the domain is a file of labels; one outside the domain ends the run, and nothing is
    written. The operating system's entropy is used unless a seed is given. Folders of output are created where missing.

    Example: ldpopt perturb values.csv --oracle oue --epsilon 1 --domain 1024 --out reports.parquet
    """
    from ldpopt.collection.domain import Domain, read_values
    from ldpopt.collection.files import ReportWriter, next_part
    from ldpopt.collection.header import make_oracle

    known = Domain.read(domain)
    made = make_oracle(oracle.lower(), epsilon, known.d)
    rng = None if seed is None else validate.generator(seed)
    if rng is not None:
        errors.print(
            "These reports are not private: whoever knows the seed can take the noise away.",
            style="yellow",
        )
    path, n = (out if out.suffix else None), 0
    if path is not None:
        prepare(path.parent, path.name)
    batches = read_values(values, known)
    first = next(batches, None)
    if first is None:
        raise InvalidInputError(f"{values} has no value")
    if path is None:
        path = next_part(out, made, labels=known.labels, has_ids=first[1] is not None)
    with ReportWriter(path, made, labels=known.labels) as writer:
        while first is not None:
            indices, ids = first
            writer.write(made.perturb(indices, rng=rng), ids)
            n, first = n + len(indices), next(batches, None)
    errors.print(escape(f"Wrote {n:,} reports to {path}."), soft_wrap=True, highlight=False)


@app.command()
def aggregate(
    reports: Annotated[list[Path], typer.Argument(help="Files of reports, and folders of them.")],
    out: Annotated[Path, typer.Option(help="File for the counts, .json or .csv.")],
    rejects: Annotated[
        Path | None,
        typer.Option(
            help="CSV file for rows that are not reports. Default: OUT with .rejects.csv."
        ),
    ] = None,
    max_reject_rate: Annotated[
        float, typer.Option(help="Stop once more than this share of the rows is set aside.")
    ] = 1.0,
    workers: Annotated[int, typer.Option(help="Number of processes.")] = 1,
    dask: Annotated[
        str | None,
        typer.Option(help="Address of a Dask scheduler whose workers see the same files."),
    ] = None,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Go on without what cannot be read.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Count reports: the support of every value, in memory that does not grow.

    All files must be of one protocol. Rows that are not reports, and all but the first row of a client id, are set aside and
    written to the rejects file. A run that was killed is taken up by the same command. Folders
    of output are created where missing.

    Example: ldpopt aggregate reports/ --out counts.json --max-reject-rate 0.01 --workers 4
    """
    from ldpopt.collection import aggregate as count
    from ldpopt.collection.counts import counts_suffix, write_counts

    counts_suffix(out)
    rejects = out.with_name(f"{out.stem}.rejects.csv") if rejects is None else rejects
    prepare(out.parent, out.name)
    prepare(rejects.parent, rejects.name)
    state = out.with_name(f".{out.name}.state")
    if state.exists():
        errors.print(escape(f"Going on where an unfinished run stopped ({state})."), soft_wrap=True)
    with progress_bar() as progress:
        task = progress.add_task("partitions", total=None)
        result = count(
            reports, rejects=rejects, max_reject_rate=max_reject_rate, keep_going=keep_going, workers=workers, dask=dask,
            state=state, on_partition=lambda done, total: progress.update(task, completed=done, total=total),
        )  # fmt: skip
    if result.n == 0:
        raise InvalidInputError(f"no row is a report: {result.rejected}; see {rejects}")
    write_counts(out, result)
    state.unlink(missing_ok=True)
    summary = {
        "n": result.n,
        "files": len(result.files),
        "rejected": result.rejected,
        "unreadable": result.unreadable,
    }
    if as_json:
        typer.echo(
            json.dumps(
                {**result.header.protocol, **summary, "out": str(out), "rejects": str(rejects)},
                indent=2,
            )
        )
        return
    output.print(
        f"{result.n:,} reports of {len(result.files)} file{'s' * (len(result.files) != 1)} counted.",
        highlight=False,
    )
    for reason, times in result.rejected.items():
        output.print(f"{times:,} rows set aside: {reason}", style="yellow", highlight=False)
    for part in result.unreadable:
        rows = (
            "all rows"
            if part["rows"] is None
            else f"{part['rows']:,} rows from row {part['row']:,}"
        )
        errors.print(
            escape(f"Not counted, {rows}: {part['reason']}"),
            style="red",
            highlight=False,
            soft_wrap=True,
        )
    errors.print(escape(f"Wrote {out} and {rejects}."), soft_wrap=True, highlight=False)


@app.command()
def estimate(
    file: Annotated[
        Path,
        typer.Argument(help="Reports (a file or folder), counts.json, or a CSV file of counts."),
    ],
    oracle: Annotated[
        str | None,
        typer.Option(help=f"{ORACLE_NAMES} Needed if the file does not say."),
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="Privacy budget, if the file does not say.")
    ] = None,
    domain: DomainOption = None,
    n: Annotated[
        int | None, typer.Option(help="Number of reports behind a CSV file of counts.")
    ] = None,
    method: Annotated[
        str, typer.Option(help="Post-processing method, see ldpopt methods.")
    ] = "norm-sub",
    out: Annotated[
        Path | None, typer.Option(help="File for the estimate: .csv, .parquet or .json.")
    ] = None,
    query: Annotated[
        Path | None,
        typer.Option(help="JSON file of sets of values: {name: [label or index, ...]}."),
    ] = None,
    answers: Annotated[
        Path | None, typer.Option(help="File for the sets' frequencies: .csv, .parquet or .json.")
    ] = None,
    interval: Annotated[
        float | None, typer.Option(help="Level of confidence intervals, such as 0.95.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="PNG, SVG or PDF file for a picture of the largest values.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Estimate the frequency of every value, and of sets of values, from reports or counts.

    A file of reports or counts knows its protocol; what is said about it on the command line must agree. Rows that are not
    reports are refused here: ldpopt aggregate sets them aside. Folders of output are created where missing.

    Example: ldpopt estimate counts.json --domain labels.txt --method norm-sub --query sets.json --out est.csv
    """
    from ldpopt.collection.results import result_suffix, rows_of, write_columns

    validate.lookup("method", method, METHODS)
    for path in filter(None, (out, answers)):
        result_suffix(path)
    kind = "" if plot is None else picture_kind(plot)
    if answers is not None and query is None:
        raise InvalidInputError("--answers needs the sets: give --query")
    level = None if interval is None else validate.real("--interval", interval, above=0, below=1)
    for path in filter(None, (out, answers, plot)):
        prepare(path.parent, path.name)
    counted, known = _counted(file, oracle, epsilon, domain, n)
    sets = None if query is None else known.sets(query)
    fixed = postprocess(counted.estimate, method)
    columns: dict[str, Any] = {"value": known.names, "frequency": fixed.frequencies.tolist()}
    answered: dict[str, Any] = {}
    if level is not None:
        columns["lower"], columns["upper"] = (end.tolist() for end in fixed.interval(level))
    if sets is not None:
        answered = {"set": list(sets), "frequency": fixed.query(list(sets.values())).tolist()}
        if level is not None:
            answered["lower"], answered["upper"] = (
                end.tolist() for end in fixed.interval(level, list(sets.values()))
            )
    about = {**counted.header.protocol, "n": counted.n, "method": method}
    if level is not None:
        about["interval"] = level
    if out is not None:
        write_columns(out, columns, about)
    if answers is not None:
        write_columns(answers, answered, about)
    if plot is not None:
        from ldpopt.rendering.estimate_figure import estimate_figure

        write_whole(plot, estimate_figure(columns, about, kind))
    if as_json:
        record = {**about, "estimate": rows_of(columns)} | (
            {"queries": rows_of(answered)} if answered else {}
        )
        typer.echo(json.dumps(record, indent=2, ensure_ascii=False))
    elif answered or out is None:
        from ldpopt.rendering.tables import estimate_table

        output.print(estimate_table(answered or columns, about))
    for path in filter(None, (out, answers, plot)):
        errors.print(escape(f"Wrote {path}."), soft_wrap=True, highlight=False)


def _counted(
    file: Path, oracle: str | None, epsilon: float | None, domain: str | None, n: int | None
) -> tuple[Aggregate, Domain]:
    """Return the counts of a file and its domain, once what the command line says about it agrees."""
    from ldpopt.collection import aggregate as count
    from ldpopt.collection.counts import is_counts, read_counts
    from ldpopt.collection.domain import Domain
    from ldpopt.collection.header import Header, make_oracle

    if not file.exists():
        raise InvalidInputError(f"{file} does not exist")
    known = None if domain is None else Domain.read(domain)
    said = None
    if known is not None and oracle is not None and epsilon is not None:
        said = make_oracle(oracle.lower(), epsilon, known.d)
    counted = (
        read_counts(file, said, known, n) if is_counts(file) else count(file, max_reject_rate=0)
    )
    header = counted.header
    for option, found, own in (
        ("--oracle", None if oracle is None else oracle.lower(), header.protocol["oracle"]),
        ("--epsilon", epsilon, header.oracle.epsilon),
        ("--domain", None if known is None else known.d, header.oracle.d),
        ("--n", n, counted.n),
    ):
        if found is not None and found != own:
            raise InvalidInputError(f"{option} says {found}, but {file} was made with {own}")
    if known is None:
        return counted, Domain(header.oracle.d)
    if known.labels is not None and header.labels is not None:
        Header(header.oracle, known.fingerprint).agree(
            header, f"the list of labels {domain}", str(file)
        )
    return counted, known

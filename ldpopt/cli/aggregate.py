"""``ldpopt aggregate``: from files of reports to support counts."""

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
    stated_schema,
)
from ldpopt.cli.shared import (
    PARTIAL,
    Json,
    labels_file,
    output,
    print_json,
    progress_bar,
    remark,
    report_written,
    require_writable,
)
from ldpopt.errors import InvalidInputError
from ldpopt.executors import PATIENCE
from ldpopt.printable import counted
from ldpopt.storage import held

if TYPE_CHECKING:
    from ldpopt.collection import Aggregate


ReportFiles = Annotated[list[Path], typer.Argument(help="Files of reports, and folders of them.")]
CountsFile = Annotated[Path, typer.Option(help="File for the counts, .json or .csv.")]
RejectsFile = Annotated[
    Path | None,
    typer.Option(help="CSV file for rows that are not reports. Default: OUT with .rejects.csv."),
]
RejectRate = Annotated[
    float, typer.Option(help="Stop once more than this share of the rows is set aside.")
]
Workers = Annotated[int, typer.Option(help="Number of processes.")]
DaskAddress = Annotated[
    str | None,
    typer.Option(help="Address of a Dask scheduler whose workers see the same files."),
]
DaskPatience = Annotated[
    float,
    typer.Option(help="Seconds that the scheduler may be silent or without workers."),
]
Recount = Annotated[
    bool,
    typer.Option("--recount", help="Count all reports again, whatever was counted before."),
]
Refine = Annotated[
    bool,
    typer.Option("--refine", help="Read the reports twice: they hold more than their counts."),
]
KeepGoing = Annotated[
    bool,
    typer.Option("--keep-going", help="Skip parts of files that cannot be read; status 3 if any."),
]


def aggregate(
    reports: ReportFiles,
    out: CountsFile,
    rejects: RejectsFile = None,
    max_reject_rate: RejectRate = 1.0,
    workers: Workers = 1,
    dask: DaskAddress = None,
    dask_patience: DaskPatience = PATIENCE,
    keep_going: KeepGoing = False,
    recount: Recount = False,
    refine: Refine = False,
    oracle: OracleName = None,
    epsilon: Budget = None,
    domain: Domain = None,
    column: Columns = None,
    client_id: ClientId = None,
    as_json: Json = False,
) -> None:
    """Count reports: the support of every value, in memory that does not grow.

    All files must be of one protocol. Rows that are not reports, and all but the first report of a
    client id, are set aside and written to the rejects file, if there are any. Missing folders of
    the output are created. Exit status 3 if --keep-going left out what could not be read.

    What was counted is kept beside OUT, in a hidden file. After a run was killed the same command
    continues it, and when files were added to a folder it counts these alone. If a file that was
    counted is gone or changed, the command stops and names it; --recount then starts again.

    With --refine all reports are read again, weighed by how likely each is under the estimate of
    the counts (mixture-ns), and `ldpopt estimate` takes the result, which has less noise. It
    resumes like the counting; new files mean that all are read again.

    Files of another program are read given --oracle, --epsilon, --domain and --column, the
    columns of a report (seed and bucket with local hashing, one otherwise).

    Example: ldpopt aggregate reports/ --out counts.json --max-reject-rate 0.01 --workers 4
    """
    from ldpopt.collection.counts import counts_suffix
    from ldpopt.collection.files import list_files

    # Before a line about an earlier run.
    workers = validate.integer("--workers", workers, minimum=1)
    counts_suffix(out)  # an ending that cannot be written is an error before the counting
    schema = stated_schema(oracle, epsilon, domain, column, client_id)
    given = {"--oracle": oracle, "--epsilon": epsilon, "--domain": domain}
    if schema is None and any(value is not None for value in given.values()):
        stated = " and ".join(option for option, value in given.items() if value is not None)
        raise InvalidInputError(
            f"files that ldpopt wrote state their protocol: leave out {stated}; for files of "
            "another program name their --column"
        )
    # Rows that are set aside always have a file: without it nobody could tell which they were.
    rejects = out.with_name(f"{out.stem}.rejects.csv") if rejects is None else rejects
    # Named after the counts: the same command finds it again.
    state = out.with_name(f".{out.name}.state")
    inputs = [*reports, *list_files(reports), labels_file(domain)]
    require_writable(out, rejects, state, inputs=inputs)
    # Until the counts are written: another run would take up the same state.
    with held(out):
        if recount:
            state.unlink(missing_ok=True)
            state.with_name(f"{state.name}.refine").unlink(missing_ok=True)
        result = _count(
            reports,
            out,
            rejects,
            state,
            max_reject_rate=max_reject_rate,
            keep_going=keep_going,
            workers=workers,
            dask=dask,
            dask_patience=dask_patience,
            schema=schema,
            refine="mixture-ns" if refine else None,
        )
    # The names of the files are the command's, not the result's.
    written = rejects if result.rejected else None
    if as_json:
        names = {"out": str(out), "rejects": None if written is None else str(written)}
        print_json(_record(result) | names)
    else:
        _print_summary(result)
    _list_unreadable(result)
    report_written(out, written)
    # Last: the counts are whole files even if parts of the reports are missing.
    if result.unreadable:
        raise typer.Exit(PARTIAL)


def _count(reports: list[Path], out: Path, rejects: Path, state: Path, **options: Any) -> Aggregate:
    """Count reports behind a progress bar and write the counts."""
    from ldpopt.collection import aggregate as count
    from ldpopt.collection.counts import write_counts

    if state.exists():
        remark(f"Continuing an earlier run: what it counted is not read again ({state}).")
    with progress_bar() as progress:
        # How many parts there are is known once the files have been opened.
        task = progress.add_task("partitions", total=None)

        def show(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        result = count(reports, rejects=rejects, state=state, on_partition=show, **options)
    # Counts without reports have no estimate: n = 0 would be an error of every later step.
    if result.n == 0:
        reasons = ", ".join(f"{times:,} with {reason}" for reason, times in result.rejected.items())
        raise InvalidInputError(
            f"no row is a report: {reasons}; see {rejects}" if reasons else "no row is a report"
        )
    # The state stays: it tells the next run which files are new.
    write_counts(out, result)
    return result


def _record(result: Aggregate) -> dict[str, Any]:
    return {
        **result.header.protocol,
        "n": result.n,
        "files": len(result.files),
        "rejected": result.rejected,
        "unreadable": result.unreadable,
        "gain": None if result.refinement is None else _gain(result),
    }


def _gain(result: Aggregate) -> float:
    """Return how much more precise rare values are than from counts."""
    from ldpopt.reports import RefinedEstimate

    estimate = result.estimate
    assert isinstance(estimate, RefinedEstimate)  # there was a second pass
    return estimate.gain


def _print_summary(result: Aggregate) -> None:
    files = counted(len(result.files), "file")
    output.print(f"{counted(result.n, 'report')} of {files} counted.", highlight=False)
    if result.refinement is not None:
        gain = 100 * (_gain(result) - 1)
        output.print(f"Read twice: rare values gain as from {gain:.1f} % more users.")
    for reason, times in result.rejected.items():
        rows = counted(times, "row")
        output.print(f"{rows} set aside: {reason}", style="yellow", highlight=False, markup=False)


def _list_unreadable(result: Aggregate) -> None:
    for part in result.unreadable:
        rows = "all rows"
        if part["rows"] is not None:
            rows = f"{counted(part['rows'], 'row')} from row {part['row']:,}"
        remark(f"Not counted, {rows}: {part['reason']}", style="red")

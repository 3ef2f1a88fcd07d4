"""The figures of the papers: ``python -m experiments list`` and ``... run FIGURE...``."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from experiments.errors import ExperimentError
from experiments.executors import Dask, Executor, InProcess, Processes
from experiments.figures import FIGURES, Figure
from experiments.run import SEED, Plan, Summary, compute_cells, plan, write_figures
from experiments.store import Store
from ldpopt.cli.app import INTERRUPTED, Interruptible
from ldpopt.errors import LdpoptError
from ldpopt.validate import unknown_name

FAILED = 1
SKIPPED = 3

app = typer.Typer(
    cls=Interruptible,
    help="Regenerate the figures of N (NDSS 2020), D (its 2019 draft) and K (Calibrate, 2019).",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_output = Console()
# Progress and remarks go here, so that what `list --json` prints can be piped.
_errors = Console(stderr=True)


def main() -> None:
    """Run the command line; an error of this package prints one sentence on stderr."""
    try:
        app()
    except (ExperimentError, LdpoptError) as error:
        _errors.print(f"[bold red]Error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(FAILED)


@app.command("list")
def list_figures(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """List the figures with their data sets and trials."""
    if as_json:
        records = [
            {
                "figure": f.name,
                "source": f.source,
                "title": f.title,
                "populations": f.experiment.populations,
                "oracle": f.experiment.oracle,
                "trials": f.experiment.trials,
            }
            for f in FIGURES.values()
        ]
        typer.echo(json.dumps(records, indent=2, ensure_ascii=False))
        return
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("figure", "what it shows", "data", "oracle", "trials"):
        table.add_column(heading, no_wrap=heading == "figure")
    for f in FIGURES.values():
        e = f.experiment
        table.add_row(
            f.name,
            f.title,
            ", ".join(e.populations),
            e.oracle or "–",
            f"{e.trials:,}" if e.trials else "–",
        )
    _output.print(table)


@app.command()
def run(
    figures: Annotated[
        list[str], typer.Argument(metavar="FIGURE...", help="Names as `list` prints them, or all.")
    ],
    out: Annotated[Path, typer.Option(help="Folder of tables and pictures.")] = Path(
        "build/figures"
    ),
    store: Annotated[
        Path | None,
        typer.Option(help="Results file; OUT/cells.sqlite by default.", show_default=False),
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option(min=1, help="Trials; the papers' own by default.", show_default=False),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes of this machine.")] = 1,
    dask: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="Send cells to this Dask cluster.", show_default=False
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of everything that is drawn.")] = SEED,
    quick: Annotated[
        bool, typer.Option("--quick", help="A few trials at a few points: a smoke test.")
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Compute again what is in the results file.")
    ] = False,
    compare: Annotated[
        bool,
        typer.Option(
            "--compare", help="Write compare.html: the papers' numbers and statements beside ours."
        ),
    ] = False,
) -> None:
    """Compute figures: FIGURE.csv (and .paired.csv), FIGURE.svg and FIGURE.png in the folder OUT.

    Finished cells are kept in the results file. So a run that was stopped at any moment resumes,
    and a changed figure computes only what changed. The same seed gives the same bits for any
    number of workers.

    Exit status: 0 if all is done, 1 if something failed, 2 for wrong usage, 3 if a data set is
    missing (what needs it is skipped), 130 if interrupted.

    Example: python -m experiments run all --workers 2 --compare
    """
    chosen = _figures(figures)
    if dask is not None and workers > 1:
        raise typer.BadParameter(
            "--dask uses the workers of its cluster: leave out --workers", param_hint="--workers"
        )
    executor: Executor = InProcess()
    if dask is not None:
        executor = Dask(dask)
    elif workers > 1:
        executor = Processes(workers)
    start = time.perf_counter()
    planned = plan(chosen, seed=seed, trials=trials, quick=quick)
    with Store(store or out / "cells.sqlite") as results:
        summary = Summary()
        try:
            _compute(planned, results, executor, summary, fresh=fresh)
            with _errors.status("drawing"):
                drawn = write_figures(planned, results, out, workers=workers)
        except KeyboardInterrupt:
            _errors.print(
                f"\nInterrupted: {len(summary.computed)} new cells are kept in "
                f"{escape(str(results.path))}; "
                "run the same command again to go on.",
                highlight=False,
                soft_wrap=True,
            )
            raise typer.Exit(INTERRUPTED) from None
    if compare:
        from experiments.compare.page import write_page

        write_page(out)
        _errors.print(
            f"Wrote {escape(str(out / 'compare.html'))}.", highlight=False, soft_wrap=True
        )
    _report(planned, summary, drawn, out, time.perf_counter() - start)
    if summary.failed:
        raise typer.Exit(FAILED)
    if planned.missing:
        raise typer.Exit(SKIPPED)


def _figures(names: list[str]) -> list[Figure]:
    if "all" in names:
        return list(FIGURES.values())
    for name in names:
        if name not in FIGURES:
            raise typer.BadParameter(
                str(unknown_name("figure", name, [*FIGURES, "all"])), param_hint="FIGURE"
            )
    return [FIGURES[name] for name in dict.fromkeys(names)]


def _compute(
    planned: Plan, results: Store, executor: Executor, summary: Summary, *, fresh: bool
) -> None:
    tasks = planned.distinct
    # The bar runs by cost: cells differ in it by orders of magnitude.
    cells = sum(task.cell.cost for task in tasks.values())
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[cells]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    there = set() if fresh else results.keys() & tasks.keys()
    with Progress(*columns, console=_errors, transient=True) as progress:
        bar = progress.add_task("cells", total=cells, cells="")
        done = len(there)
        progress.update(
            bar,
            total=cells - sum(tasks[key].cell.cost for key in there),
            cells=f"{done}/{len(tasks)}",
        )

        def finished(task) -> None:
            nonlocal done
            done += 1
            progress.update(bar, advance=task.cell.cost, cells=f"{done}/{len(tasks)}")

        compute_cells(tasks, results, executor, fresh=fresh, finished=finished, summary=summary)


def _report(planned: Plan, summary: Summary, drawn: list[str], out: Path, seconds: float) -> None:
    say = lambda text: _errors.print(text, highlight=False, soft_wrap=True)  # noqa: E731
    say(
        f"{len(drawn)} figures in {escape(str(out))}: {len(summary.computed)} cells computed, "
        f"{len(summary.reused)} reused, {len(summary.failed)} failed; {seconds:.1f} s."
    )
    for reason in summary.failed.values():
        say(f"[red]Failed:[/] {escape(reason)}")
    for name, reason in planned.missing.items():
        of = [
            figure.name
            for figure in planned.figures.values()
            if name in figure.experiment.populations
        ]
        whole = [figure for figure in of if figure not in drawn]
        say(
            f"[yellow]Skipped[/] {name} in {', '.join(of)}"
            + (f" (nothing is left of {', '.join(whole)})" if whole else "")
            + f": {escape(reason)}"
        )

"""The figures of the papers: ``python -m experiments list`` and ``... run FIGURE...``."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from experiments.errors import ExperimentError
from experiments.figures import FIGURES, Figure
from experiments.figures.additions import families_of, with_additions
from experiments.run import SEED, Plan, plan, write_figures
from ldpopt.cli.app import INTERRUPTED, Interruptible
from ldpopt.datasets import Dataset, read_counts
from ldpopt.errors import InvalidInputError, LdpoptError
from ldpopt.executors import PATIENCE, executor_for
from ldpopt.studies.engine.candidate import Candidate, candidates_of
from ldpopt.studies.engine.cell import require_sendable
from ldpopt.studies.engine.run import Summary, compute_behind_bar
from ldpopt.studies.engine.store import Store
from ldpopt.studies.named_objects import load_object
from ldpopt.studies.rehearsal import rehearse
from ldpopt.studies.study_inputs import data_sets_of, is_file
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
        _say(f"[bold red]Error:[/] {escape(str(error))}")
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


Figures = Annotated[
    list[str], typer.Argument(metavar="FIGURE...", help="Names as `list` prints them, or all.")
]
Folder = Annotated[Path, typer.Option(help="Folder of tables and pictures.")]
ResultsFile = Annotated[
    Path | None,
    typer.Option(help="Results file; OUT/cells.sqlite by default.", show_default=False),
]
Trials = Annotated[
    int | None,
    typer.Option(min=1, help="Trials; the papers' own by default.", show_default=False),
]
Workers = Annotated[int, typer.Option(min=1, help="Processes of this machine.")]
DaskAddress = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Send cells to this Dask cluster.", show_default=False),
]
DaskPatience = Annotated[
    float,
    typer.Option(help="Seconds that the scheduler may be silent or without workers."),
]
Methods = Annotated[
    list[str] | None,
    typer.Option(
        "--method",
        metavar="MODULE:NAME",
        help="One more line: a problem, or a function from an estimate to frequencies.",
        show_default=False,
    ),
]
Data = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FILE",
        help="In place of the figure's data: a CSV file with the columns label and count, and one "
        "more for the sets that a figure is about, such as subcategory.",
        show_default=False,
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Of everything that is drawn.")]
Quick = Annotated[bool, typer.Option("--quick", help="A few trials at a few points: a smoke test.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Compute again what is in the results file.")]
Compare = Annotated[
    bool,
    typer.Option(
        "--compare", help="Write compare.html: the papers' numbers and statements beside ours."
    ),
]


@app.command()
def run(
    figures: Figures,
    out: Folder = Path("build/figures"),
    store: ResultsFile = None,
    trials: Trials = None,
    workers: Workers = 1,
    dask: DaskAddress = None,
    dask_patience: DaskPatience = PATIENCE,
    seed: Seed = SEED,
    quick: Quick = False,
    fresh: Fresh = False,
    compare: Compare = False,
    method: Methods = None,
    data: Data = None,
) -> None:
    """Compute figures: FIGURE.csv (and .paired.csv), FIGURE.svg and FIGURE.png in the folder OUT.

    Finished cells are kept in the results file. So a run that was stopped at any moment resumes,
    and a changed figure computes only what changed; changed code computes everything anew. The
    same seed gives the same bits for any number of workers.

    With --method or --data a figure has lines or data of your own, and the name FIGURE-own. A
    method is computed by itself, on the reports of the cells that are there.

    Exit status: 0 if all is done, 1 if something failed, 2 for wrong usage, 3 if a data set is
    missing (what needs it is skipped), 130 if interrupted.

    Example: python -m experiments run all --workers 2 --compare
    """
    chosen = _figures(figures)
    own_data = _data(data or [], families_of(chosen))
    chosen = _with_additions(chosen, method or [], own_data)
    if compare and (method or data):
        raise typer.BadParameter(
            "the page compares the papers' own methods and data: leave out --compare",
            param_hint="--compare",
        )
    # One of the two would be ignored, and the user would not learn which.
    if dask is not None and workers > 1:
        raise typer.BadParameter(
            "--dask uses the workers of its cluster: leave out --workers", param_hint="--workers"
        )
    executor = executor_for(workers, dask, dask_patience)
    # Loading counts too: the user waits for it.
    start = time.perf_counter()
    planned = plan(chosen, seed=seed, trials=trials, quick=quick, data=own_data)
    if method:
        _rehearse(planned)
    if workers > 1:
        require_sendable(list(planned.distinct.values()))
    with Store(store or out / "cells.sqlite") as results:
        summary = Summary()
        try:
            compute_behind_bar(planned.distinct, results, executor, fresh=fresh, summary=summary)
            with _errors.status("drawing"):
                drawn = write_figures(planned, results, out, workers=workers)
        except KeyboardInterrupt:
            _say(
                f"\nInterrupted: {len(summary.computed)} new cells are kept in "
                f"{escape(str(results.path))}; run the same command again to go on."
            )
            raise typer.Exit(INTERRUPTED) from None
    if compare:
        from experiments.compare.page import write_page  # with its templates, of no other use

        write_page(out)
        _say(f"Wrote {escape(str(out / 'compare.html'))}.")
    for remark in (*results.remarks, summary.changes):
        if remark:
            _say(f"[yellow]{escape(remark)}[/]")
    _report(planned, summary, drawn, out, time.perf_counter() - start)
    # A failure comes first: on most machines some data are missing.
    if summary.failed:
        raise typer.Exit(FAILED)
    if planned.missing:
        raise typer.Exit(SKIPPED)


def _figures(names: list[str]) -> list[Figure]:
    # Also beside other names, which it contains.
    if "all" in names:
        return list(FIGURES.values())
    for name in names:
        if name not in FIGURES:
            raise typer.BadParameter(
                str(unknown_name("figure", name, [*FIGURES, "all"])), param_hint="FIGURE"
            )
    # Once each, in the order given.
    return [FIGURES[name] for name in dict.fromkeys(names)]


def _data(names: list[str], families: list[str]) -> dict[str, Dataset]:
    """Return the data sets of the user by name, files with the families of sets that they have."""
    if not names:
        return {}
    return data_sets_of([_file(name, families) if is_file(name) else name for name in names])


def _file(name: str, families: list[str]) -> Dataset:
    """Return the counts of a file; without sets if it lacks a column that names them."""
    try:
        return read_counts(name, sets=families)
    except InvalidInputError:
        # Another error comes again here, and a figure says by itself which sets it is about.
        return read_counts(name)


def _with_additions(
    chosen: list[Figure], methods: list[str], data: Mapping[str, Dataset]
) -> list[Figure]:
    candidates: tuple[Candidate, ...] = ()
    if methods:
        # By the name after the colon, as the legend shows it.
        loaded = [(name.rpartition(":")[2], load_object(name)) for name in methods]
        candidates = candidates_of(dict(loaded))
        if len(candidates) < len(loaded):
            raise ExperimentError("two methods have one name: rename one of them")
    return [with_additions(figure, candidates, list(data.values())) for figure in chosen]


def _rehearse(planned: Plan) -> None:
    """Try the user's methods once on each population, before the first cell."""
    tried = set()
    for name, tasks in planned.tasks.items():
        additions = planned.figures[name].experiment.additions
        for task in tasks:
            if additions and task.oracle and task.cell.population not in tried:
                tried.add(task.cell.population)
                rehearse(additions, (), task.data, task.oracle, task.seed)


def _report(planned: Plan, summary: Summary, drawn: list[str], out: Path, seconds: float) -> None:
    _say(
        f"{len(drawn)} figures in {escape(str(out))}: {len(summary.computed)} cells computed, "
        f"{len(summary.reused)} reused, {len(summary.failed)} failed; {seconds:.1f} s."
    )
    for reason in summary.failed.values():
        _say(f"[red]Failed:[/] {escape(reason)}")
    for name, reason in planned.missing.items():
        _say(_skipped(name, reason, planned, drawn))


def _skipped(population: str, reason: str, planned: Plan, drawn: list[str]) -> str:
    """Return a sentence about a missing population, with the figures that it is missing from."""
    figures = [
        figure.name
        for figure in planned.figures.values()
        if population in figure.experiment.populations
    ]
    whole = [figure for figure in figures if figure not in drawn]
    left = f" (nothing is left of {', '.join(whole)})" if whole else ""
    return f"[yellow]Skipped[/] {population} in {', '.join(figures)}{left}: {escape(reason)}"


def _say(text: str) -> None:
    # Without highlighting and hard line breaks, which would split paths that a reader copies.
    _errors.print(text, highlight=False, soft_wrap=True)

"""The speed table: ``python -m experiments.bench [NAME ...]``."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from experiments.bench.peers import PeerError
from experiments.bench.row import Row
from experiments.bench.store import Store
from experiments.bench.suite import BENCHMARKS
from ldpopt.validate import unknown_name

LIST = "\n\n".join(f"[bold]{name}[/bold]  {benchmark.title}" for name, benchmark in BENCHMARKS.items())

app = typer.Typer(add_completion=False, rich_markup_mode="rich")


@app.command(
    help=f"""Measure the speed of ldpopt on this machine, as ratios within this run, beside the targets.

{LIST}

Without a NAME all of them run, which takes about a quarter of an hour, most of it in the other libraries. Example:
python -m experiments.bench closed-form methods --out build/bench"""
)
def bench(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", show_default=False)] = None,
    out: Annotated[Path, typer.Option(help="Folder of bench.json and bench.csv.")] = Path("build/bench"),
    peers: Annotated[
        bool, typer.Option("--peers/--no-peers", help="Whether to install and time other libraries (downloads).")
    ] = True,
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep benchmarks that finished with the same settings.")
    ] = False,
) -> None:
    for name in names or []:
        if name not in BENCHMARKS:
            raise typer.BadParameter(str(unknown_name("benchmark", name, BENCHMARKS)), param_hint="NAME")
    console, store, failed = Console(), Store(out), False
    for name in names or BENCHMARKS:
        benchmark = BENCHMARKS[name]
        if benchmark.downloads and not peers:
            continue
        rows = store.rows(name, benchmark.settings) if resume else None
        if rows is None:
            try:
                with console.status(f"{name}: {benchmark.title}"):
                    rows = benchmark.run(benchmark.settings)
            except PeerError as error:
                Console(stderr=True).print(f"[red]{name} did not finish.[/red] {escape(str(error))}")
                failed = True
                continue
            store.add(name, benchmark.settings, machine(), rows)
        console.print(table(benchmark.title, rows))
    console.print(f"Written to {out / 'bench.json'} and {out / 'bench.csv'}")
    raise typer.Exit(int(failed))


def table(title: str, rows: list[Row]) -> Table:
    """Return the rows as they are printed: our time, the reference's, their ratio, the target and the verdict."""
    result = Table(title=title, title_justify="left")
    for heading in ("what", "seconds", "against", "its seconds", "ratio", "target", "", "detail"):
        result.add_column(heading, justify="right" if heading in ("seconds", "its seconds", "ratio") else "left")
    verdicts = {None: "", True: "[green]met[/green]", False: "[red]missed[/red]"}
    for row in rows:
        ratio = "" if row.ratio is None else f"{row.ratio:.3g}× {'faster' if row.measure == 'speed-up' else 'its time'}"
        theirs = "" if row.against_seconds is None else f"{row.against_seconds:.3g}"
        result.add_row(
            row.what, f"{row.seconds:.3g}", row.against, theirs, ratio, row.goal, verdicts[row.met], row.detail
        )
    return result


def machine() -> dict[str, str | int | None]:
    """Return what a reader needs to judge the absolute seconds by."""
    return {
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


if __name__ == "__main__":
    app()

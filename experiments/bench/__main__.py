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
from rich.text import Text

from experiments.bench.peers import PeerError
from experiments.bench.row import Row
from experiments.bench.store import Store
from experiments.bench.suite import BENCHMARKS, Benchmark
from ldpopt.validate import unknown_name

LIST = "\n\n".join(
    f"[bold]{name}[/bold]  {benchmark.title}" for name, benchmark in BENCHMARKS.items()
)

WIDE = 140  # columns from which the details fit beside the numbers; bench.csv always has them

VERDICTS = {None: "", True: "met", False: "missed"}

app = typer.Typer(add_completion=False, rich_markup_mode="rich")


@app.command(
    help=f"""Measure the speed of ldpopt on this machine, as ratios within this run, beside targets.
    The unit of cost is one pass: np.maximum(x, 0).sum() over the same array.

    {LIST}

    Without a NAME all of them run. This takes more than a quarter of an hour, most of it in the
    other libraries. Example: python -m experiments.bench closed-form methods --out build/bench"""
)
def bench(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", show_default=False)
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of bench.json and bench.csv.")] = Path(
        "build/bench"
    ),
    peers: Annotated[
        bool,
        typer.Option(
            "--peers/--no-peers", help="Whether to install and time other libraries (downloads)."
        ),
    ] = True,
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep benchmarks that finished with the same settings.")
    ] = False,
) -> None:
    _require_known(names or [])
    console = Console()
    store = Store(out)
    failed = False
    for name in names or BENCHMARKS:
        benchmark = BENCHMARKS[name]
        # Also if it is named: --no-peers is for machines without a network.
        if benchmark.downloads and not peers:
            continue
        try:
            with console.status(f"{name}: {benchmark.title}"):
                rows = _measured(name, benchmark, store, resume=resume)
        except PeerError as error:
            # Other libraries may fail to install: the benchmarks without them go on.
            Console(stderr=True).print(f"[red]{name} did not finish.[/red] {escape(str(error))}")
            failed = True
            continue
        console.print(table(benchmark.title, rows, details=console.width >= WIDE))
        if benchmark.picture is not None:
            benchmark.picture(benchmark.settings, rows).savefig(out / f"{name}.png", dpi=110)
    console.print(f"Written to {out / 'bench.json'} and {out / 'bench.csv'}")
    raise typer.Exit(int(failed))


def _require_known(names: list[str]) -> None:
    for name in names:
        if name not in BENCHMARKS:
            raise typer.BadParameter(
                str(unknown_name("benchmark", name, BENCHMARKS)), param_hint="NAME"
            )


def _measured(name: str, benchmark: Benchmark, store: Store, *, resume: bool) -> list[Row]:
    """Return the rows of a benchmark, stored or measured now."""
    # By default all is measured anew: the machine may have changed, which no key shows.
    rows = store.rows(name, benchmark.settings) if resume else None
    if rows is None:
        rows = benchmark.run(benchmark.settings)
        store.add(name, benchmark.settings, machine(), rows)
    return rows


def table(title: str, rows: list[Row], *, details: bool) -> Table:
    """Return the rows of the table: our time, the reference's, their ratio, target and verdict."""
    result = Table(title=title, title_justify="left")
    for heading in ("what", "against"):
        result.add_column(heading)
    for heading in ("ours, s", "theirs, s", "ratio", "target"):
        result.add_column(heading, justify="right", no_wrap=True)
    if details:
        result.add_column("detail")
    colour = {None: "", True: "green", False: "red"}
    for row in rows:
        # A time in seconds alone has no reference.
        theirs = "" if row.against_seconds is None else f"{row.against_seconds:.3g}"
        ratio = (
            ""
            if row.ratio is None
            else f"{row.ratio:.3g}× {'faster' if row.measure == 'speed-up' else 'as long'}"
        )
        verdict = f"{row.goal} {VERDICTS[row.met]}".strip()
        cells = [
            row.what,
            row.against,
            f"{row.seconds:.3g}",
            theirs,
            ratio,
            Text(verdict, colour[row.met]),
        ]
        result.add_row(*cells, *[row.detail] * details)
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

"""The command line: thin, every command a few lines on the library."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from ldpopt import conic, validate
from ldpopt.errors import InvalidInputError, LdpoptError
from ldpopt.methods import METHODS

app = typer.Typer(
    help="Post-process locally differentially private frequency estimates, and check what is said about it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_output = Console()
_errors = Console(stderr=True)

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def main() -> None:
    """Run the command line; an error of ours is one sentence on standard error and exit status 2."""
    try:
        app()
    except LdpoptError as error:
        _errors.print(f"[bold red]Error:[/] {error}", highlight=False, soft_wrap=True)
        sys.exit(2)


def _progress() -> Progress:
    columns = (
        SpinnerColumn(),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    return Progress(*columns, console=_errors, transient=True)


@app.command()
def verify(
    out: Annotated[
        Path | None, typer.Option(help="Folder for claims.json and report.html, created where missing.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer and smaller instances: a smoke test.")] = False,
    as_json: Json = False,
) -> None:
    """Check every claim of the ledger on random, adversarial and real estimates.

    Each claim is a statement of the papers with the verdict we expect. Closed forms are compared with at least two solvers
    and certified by their own gap. Takes about a minute. Exit status 1 if a verdict differs from the expected one.

    Example: ldpopt verify --out build/verify
    """
    from ldpopt.report.page import claims_page
    from ldpopt.report.tables import claims_table
    from ldpopt.verify import LEDGER, run
    from ldpopt.verify.instances import Bench
    from ldpopt.verify.run import to_json, write_text

    if out is not None:
        _make_folder(out)
    results = []
    with _progress() as progress:
        task = progress.add_task("", total=len(LEDGER))
        checks = run(LEDGER.values(), Bench(quick=quick))
        for claim in LEDGER.values():
            progress.update(task, description=claim.id)
            results.append(next(checks))
            progress.advance(task)
    if as_json:
        typer.echo(to_json(results), nl=False)
    else:
        _output.print(claims_table(results))
    if out is not None:
        write_text(out / "claims.json", to_json(results))
        write_text(out / "report.html", claims_page(results))
        _errors.print(f"Wrote {out / 'claims.json'} and {out / 'report.html'}.", soft_wrap=True)
    surprises = [result.claim.id for result in results if not result.as_expected]
    if surprises:
        _errors.print(f"[bold red]{len(surprises)} verdicts differ from the ledger:[/] {', '.join(surprises)}")
        raise typer.Exit(1)
    _errors.print(f"[green]All {len(results)} verdicts are as expected.[/]")


@app.command()
def compare(
    d: Annotated[str, typer.Option(help="Domain sizes, separated by commas.")] = "1024,42178",
    solvers: Annotated[str, typer.Option(help="Installed cvxpy solvers, separated by commas.")] = "OSQP,CLARABEL,QOCO",
    time_limit: Annotated[float, typer.Option(help="Seconds after which a solver is stopped, if it can be.")] = 30.0,
    as_json: Json = False,
) -> None:
    """Compare the closed forms with solvers: difference, certified gap, status and time.

    One OUE estimate (epsilon 1, a million users of Zipf(1.5)) for every size; least squares and the weighted MLE on the
    simplex. OSQP takes no cones, so it fails on the second by nature.

    Example: ldpopt compare --d 1024 --solvers OSQP,CLARABEL,SCS
    """
    from ldpopt.comparison import compare_solvers
    from ldpopt.report.tables import comparison_notes, comparison_table

    sizes = [_size(part) for part in d.split(",")]
    names = [name.strip().upper() for name in solvers.split(",")]
    for name in names:
        conic.check_solver(name)
    validate.real("--time-limit", time_limit, above=0)
    rows = []
    with _progress() as progress:
        task = progress.add_task("", total=2 * len(sizes) * (1 + len(names)))
        for row in compare_solvers(sizes, names, time_limit=time_limit):
            rows.append(row)
            progress.update(task, advance=1, description=f"{row.problem}, d = {row.d:,}, {row.solver}")
    if as_json:
        typer.echo(json.dumps([asdict(row) for row in rows], indent=2))
    else:
        _output.print(comparison_table(rows))
        for note in comparison_notes(rows):
            _output.print(note, style="dim", highlight=False, soft_wrap=True)


@app.command()
def methods(as_json: Json = False) -> None:
    """Show Table I: every method with what it does, its guarantees and its options.

    Example: ldpopt methods --json
    """
    from ldpopt.report.tables import methods_table

    if not as_json:
        _output.print(methods_table())
        return
    fields = ("name", "label", "description", "problem", "source", "nonnegative", "sums_to_one", "preserves_order")
    rows = [{**{f: getattr(m, f) for f in (*fields, "complexity")}, "options": m.options} for m in METHODS.values()]
    typer.echo(json.dumps(rows, indent=2, ensure_ascii=False))


def _size(text: str) -> int:
    try:
        return validate.integer("--d", float(text), minimum=2)
    except ValueError:
        raise InvalidInputError(f"--d takes whole numbers of at least 2, separated by commas; got {text!r}") from None


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInputError(f"--out: cannot create the folder {path}: {error.strerror}") from None

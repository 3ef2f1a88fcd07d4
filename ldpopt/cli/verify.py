"""``ldpopt verify``: the claims ledger."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ldpopt.cli.self_test import self_test
from ldpopt.cli.shared import (
    Json,
    errors,
    output,
    progress_bar,
    remark,
    report_written,
    require_writable,
)
from ldpopt.errors import InvalidInputError
from ldpopt.storage import write_whole

if TYPE_CHECKING:
    from ldpopt.claims import Claim, Result


def verify(
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for claims.json and report.html, created where missing."),
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option(
            help="Results folder of the figures: the papers' statements are judged on it."
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer and smaller instances: a smoke test.")
    ] = False,
    claims_file: Annotated[
        Path | None,
        typer.Option(
            "--claims", help="A file of Python with @claim functions, checked after the ledger's."
        ),
    ] = None,
    workers: Annotated[
        int, typer.Option(min=1, help="Number of processes; instances are made in each of them.")
    ] = 1,
    test_itself: Annotated[
        bool,
        typer.Option(
            "--self-test", help="Plant errors in the package, and see that the claims notice each."
        ),
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Print every claim, and not the summary alone.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Check every claim of the ledger on random, adversarial and real estimates.

    Each claim is a statement of the papers with the verdict that the ledger expects. Closed forms
    are compared with the exact minimiser, in rational arithmetic, and with solvers. This takes a
    minute or two. Exit status 1 if a verdict differs from the expected one, or a statement or a
    claim is lost.

    The output counts the papers' checkable statements by verdict, and shows what is corrected and
    what is not as expected; --verbose prints every claim, and the page of --out has everything.

    With --self-test 62 errors are planted in the package, one at a time and in memory alone, and
    the claims run until one of them notices; with --figures, 8 more in copies of its tables. Exit
    status 1 if an error goes unnoticed.

    --figures DIR judges the papers' statements on their figures, on the tables that `python -m
    experiments run all --out DIR` wrote. Exit status 1 too if a table is missing, shortened or
    altered. The repository keeps a run in experiments/results.

    --claims FILE checks a user's own claims too: in the same table, page and exit status.

    Example: ldpopt verify --out build/verify
    """
    # Here and in the other commands: what is slow to import waits until the command needs it.
    from ldpopt.claims import LEDGER, read_figure_run, to_json
    from ldpopt.claims.checking import ledger_with
    from ldpopt.claims.figures import STATEMENTS
    from ldpopt.claims.statements import defects_of_list
    from ldpopt.rendering.claims_page import claims_page, pictures_of
    from ldpopt.rendering.claims_table import claims_table

    if test_itself:
        if claims_file is not None:
            raise InvalidInputError("--self-test plants errors in ldpopt alone: leave out --claims")
        self_test(workers, figures)
        return
    ledger_file = None if out is None else out / "claims.json"
    page_file = None if out is None else out / "report.html"
    require_writable(ledger_file, page_file)
    # A folder without results or a file without claims is an error before the long part.
    ledger = ledger_with(claims_file)
    figure_run = None if figures is None else read_figure_run(figures)
    lost = tuple(defects_of_list([*LEDGER, *(statement.id for statement in STATEMENTS)]))
    checked: list[Result] = []
    pictures: dict[str, bytes] = {}
    for result in _check(ledger, quick=quick, workers=workers, claims_file=claims_file):
        checked.append(result)
        # Now, while other processes check: this one would only wait for them.
        if page_file is not None:
            pictures.update(pictures_of([result]))
    results = checked if figure_run is None else [*checked, *figure_run.results]
    defects = () if figure_run is None else figure_run.defects
    if as_json:
        typer.echo(to_json(results), nl=False)
    else:
        _print_tables(results, verbose=verbose)
        # What the user brought is what this run is about: a claim of theirs is always listed.
        theirs = [result for result in checked if result.claim.id not in LEDGER]
        if theirs and not verbose:
            output.print(claims_table(theirs, title="Your claims"))
    if ledger_file is not None and page_file is not None:
        write_whole(ledger_file, to_json(results).encode())
        write_whole(page_file, claims_page(checked, figure_run, lost, pictures).encode())
        report_written(ledger_file, page_file)
    _print_summary(results, defects, lost)
    # Files and table first: they are what a reader needs after a surprise.
    if defects or lost or not all(result.as_expected for result in results):
        raise typer.Exit(1)


def _print_tables(results: Sequence[Result], *, verbose: bool) -> None:
    from ldpopt.rendering.claims_table import claims_table, corrections_table, papers_table

    surprises = [result for result in results if not result.as_expected]
    corrected = [result for result in results if result.finding.correction]
    if verbose:
        output.print(claims_table(results))
    elif corrected:
        output.print(corrections_table(corrected))
    output.print(papers_table(results))
    # Last, where the eye is at the end of a run.
    if surprises and not verbose:
        output.print(claims_table(surprises, title="Not as the ledger expects"))


def _print_summary(results: Sequence[Result], defects: Sequence[str], lost: Sequence[str]) -> None:
    from ldpopt.rendering.claims_table import claims_summary, defects_line, lost_line

    lines = [claims_summary(results)]
    if defects:
        lines.append(defects_line(defects))
    if lost:
        lines.append(lost_line(lost))
    for line in lines:
        # On standard error, like all that is not a result: with --json the output stays JSON.
        errors.print(line, highlight=False, soft_wrap=True)


def _check(
    ledger: Mapping[str, Claim], *, quick: bool, workers: int, claims_file: Path | None
) -> Iterator[Result]:
    from ldpopt.claims.checking import check_ledger

    remark(f"Checking {len(ledger)} claims; this takes a minute or two.")
    results = check_ledger(ledger, quick=quick, workers=workers, claims_file=claims_file)
    if not errors.is_terminal:
        yield from _with_lines(results)
        return
    with progress_bar() as progress:
        task = progress.add_task("", total=len(ledger))
        for result in results:
            progress.update(task, description=result.claim.id)
            progress.advance(task)
            yield result


def _with_lines(results: Iterator[Result]) -> Iterator[Result]:
    """Yield the results, with a line after each topic: a log cannot show a bar."""
    for topic, of_topic in groupby(results, key=lambda result: result.claim.topic):
        number = 0
        seconds = 0.0
        for result in of_topic:
            number += 1
            seconds += result.seconds
            yield result
        remark(f"{topic}: {number} {'claim' if number == 1 else 'claims'}, {seconds:.1f} s.")

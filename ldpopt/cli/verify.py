"""``ldpopt verify``: the claims ledger."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

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
from ldpopt.printable import counted
from ldpopt.storage import write_whole

if TYPE_CHECKING:
    from ldpopt.claims import Claim, Result
    from ldpopt.claims.figures import FigureRun


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
    are compared with the exact minimiser, in rational arithmetic, and with solvers. This takes
    some minutes. Exit status 1 if a verdict differs from the expected one, or a statement or a
    claim is lost.

    The output counts the papers' checkable statements by verdict, and shows what is corrected, what
    fails and what is not as expected; --verbose prints every claim, and the page of --out has
    everything, with the evidence behind each verdict.

    With --self-test 68 errors are planted in the package, one at a time and in memory alone, and
    the claims run until one of them notices; with --figures, 8 more in copies of its tables. Exit
    status 1 if an error goes unnoticed.

    --figures DIR judges the papers' statements on their figures, on the tables that `python -m
    experiments run all --out DIR` wrote. Exit status 1 too if a table is missing, shortened or
    altered. The repository keeps a run in experiments/results.

    --claims FILE checks a user's own claims too: in the same table, page and exit status.

    Example: ldpopt verify --out build/verify
    """
    if test_itself:
        if claims_file is not None:
            raise InvalidInputError("--self-test plants errors in ldpopt alone: leave out --claims")
        self_test(workers, figures)
        return
    # Here and in the other commands: what is slow to import waits until the command needs it.
    from ldpopt.claims import read_figure_run
    from ldpopt.claims.checking import ledger_with

    files = None if out is None else _Files(out / "claims.json", out / "report.html")
    if files is not None:
        require_writable(files.verdicts, files.page)
    # A folder without results or a file without claims is an error before the long part.
    ledger = ledger_with(claims_file)
    figure_run = None if figures is None else read_figure_run(figures)
    if figure_run is not None:
        remark(
            f"Judged {counted(len(figure_run.results), 'claim')} about figures, by their tables."
        )
    results = _check(ledger, quick=quick, workers=workers, claims_file=claims_file)
    outcome = _outcome(results, figure_run, with_pictures=files is not None)
    # Standard output is either JSON or tables, never a mixture.
    if as_json:
        _print_json(outcome)
    else:
        _print_tables(outcome, verbose=verbose)
    if files is not None:
        _write(outcome, files)
        # An id of the tables is an anchor of the page.
        remark(f"{files.page}#ID shows the evidence of the claim ID.")
    else:
        remark("With --out DIR a page shows the evidence of every claim.")
    _print_summary(outcome)
    # Files and table first: they are what a reader needs after a surprise.
    if not outcome.is_as_expected:
        raise typer.Exit(1)


class _Files(NamedTuple):
    """What --out asks for."""

    verdicts: Path
    page: Path


@dataclass(frozen=True)
class _Outcome:
    """What a run of the ledger ended with.

    Attributes
    ----------
    checked
        Results of the claims that were checked now.
    figure_run
        The kept run of the figures with its results, if one was named.
    lost
        How the list of the papers' statements and the ledger differ.
    pictures
        Of the claims that have one, for the page.
    """

    checked: list[Result]
    figure_run: FigureRun | None
    lost: tuple[str, ...]
    pictures: dict[str, bytes]

    @property
    def results(self) -> list[Result]:
        """Those of the claims, and then those of the figures."""
        # The order in which the page shows them.
        return [*self.checked, *(() if self.figure_run is None else self.figure_run.results)]

    @property
    def defects(self) -> Sequence[str]:
        """What is wrong with the tables of the figures."""
        return () if self.figure_run is None else self.figure_run.defects

    @property
    def is_as_expected(self) -> bool:
        """Whether nothing is missing and every verdict is that of the ledger."""
        is_whole = not self.defects and not self.lost
        return is_whole and all(result.as_expected for result in self.results)


def _outcome(
    results: Iterable[Result], figure_run: FigureRun | None, *, with_pictures: bool
) -> _Outcome:
    """Return the outcome of a run whose results come one by one."""
    from ldpopt.claims import LEDGER
    from ldpopt.claims.figures import STATEMENTS
    from ldpopt.claims.statements import defects_of_list
    from ldpopt.rendering.claims_page import pictures_of

    # Statements of the list without a claim, and figures without a statement.
    lost = tuple(defects_of_list(LEDGER, [statement.id for statement in STATEMENTS]))
    checked: list[Result] = []
    pictures: dict[str, bytes] = {}
    for result in results:
        checked.append(result)
        # Now, while other processes check: this one would only wait for them.
        if with_pictures:
            pictures.update(pictures_of([result]))
    return _Outcome(checked, figure_run, lost, pictures)


def _print_json(outcome: _Outcome) -> None:
    from ldpopt.claims import to_json

    typer.echo(to_json(outcome.results), nl=False)


def _write(outcome: _Outcome, files: _Files) -> None:
    from ldpopt.claims import to_json
    from ldpopt.rendering.claims_page import claims_page

    # Before anything is written: an error here leaves no verdicts without their page.
    page = claims_page(outcome.checked, outcome.figure_run, outcome.lost, outcome.pictures)
    write_whole(files.verdicts, to_json(outcome.results).encode())
    write_whole(files.page, page.encode())
    report_written(*files)


def _print_tables(outcome: _Outcome, *, verbose: bool) -> None:
    from ldpopt.claims import LEDGER
    from ldpopt.rendering.claims_table import claims_table, papers_table

    results = outcome.results
    # Both are worth a line each, which hundreds of claims as expected are not.
    surprises = [result for result in results if not result.as_expected]
    if verbose:
        output.print(claims_table(results))
    else:
        _print_errors_of_papers(results)
    output.print(papers_table(results))
    # Last, where the eye is at the end of a run.
    if surprises and not verbose:
        output.print(claims_table(surprises, title="Not as the ledger expects"))
    # What the user brought is what this run is about: a claim of theirs is always listed.
    theirs = [result for result in outcome.checked if result.claim.id not in LEDGER]
    if theirs and not verbose:
        output.print(claims_table(theirs, title="Your claims"))


def _print_errors_of_papers(results: Sequence[Result]) -> None:
    """Print what the papers state and what is right, then what is false without a correction."""
    from ldpopt.claims import Verdict
    from ldpopt.rendering.claims_table import corrections_table, failures_table

    # What fails although it should not is listed among the surprises.
    expected = [result for result in results if result.as_expected]
    corrected = [result for result in results if result.finding.correction]
    failed = [result for result in expected if result.finding.verdict is Verdict.FAILS]
    if corrected:
        output.print(corrections_table(corrected))
    if failed:
        output.print(failures_table(failed))


def _print_summary(outcome: _Outcome) -> None:
    from ldpopt.rendering.claims_table import claims_summary, defects_line, lost_line

    lines = [claims_summary(outcome.results)]
    if outcome.defects:
        lines.append(defects_line(outcome.defects))
    if outcome.lost:
        lines.append(lost_line(outcome.lost))
    for line in lines:
        # On standard error, like all that is not a result: with --json the output stays JSON.
        errors.print(line, highlight=False, soft_wrap=True)


def _check(
    ledger: Mapping[str, Claim], *, quick: bool, workers: int, claims_file: Path | None
) -> Iterator[Result]:
    from ldpopt.claims.checking import check_ledger

    remark(f"Checking {counted(len(ledger), 'claim')}; this takes some minutes.")
    results = check_ledger(ledger, quick=quick, workers=workers, claims_file=claims_file)
    if not errors.is_terminal:
        yield from _with_lines(results)
        return
    # On a terminal one line that moves; a log would keep every step of it.
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

"""Commands that check what is said: the claims ledger, solvers against closed forms, the table of methods."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

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
from ldpopt.methods import METHODS
from ldpopt.solve.solvers import installed
from ldpopt.solve.status import ACCURACIES
from ldpopt.storage import write_whole

_LARGEST = 10_000_000  # values that fit the memory of an ordinary machine, solvers' included


@app.command()
def verify(
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for claims.json and report.html, created where missing."),
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option(
            help="Results folder of the figures, whose judged statements join the ledger."
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer and smaller instances: a smoke test.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Check every claim of the ledger on random, adversarial and real estimates.

    Each claim is a statement of the papers with the verdict we expect. Closed forms are compared with solvers and
    certified by their own gap. Takes a minute or two. Exit status 1 if a verdict differs from the expected one.

    Statements that only figures can show are judged by `python -m experiments run all --compare --out DIR`; with --figures DIR
    they are part of the ledger too.

    Example: ldpopt verify --out build/verify
    """
    from ldpopt.claims import LEDGER, InstanceSet, read_figure_run, run_claim, to_json
    from ldpopt.rendering.page import claims_page
    from ldpopt.rendering.tables import claims_summary, claims_table

    if out is not None:
        prepare(out, "claims.json", "report.html")
    figure_run = None if figures is None else read_figure_run(figures)
    errors.print(f"Checking {len(LEDGER)} claims; this takes a minute or two.")
    instances = InstanceSet(quick=quick)
    checked = []
    with progress_bar() as progress:
        task = progress.add_task("", total=len(LEDGER))
        for claim in LEDGER.values():
            progress.update(task, description=claim.id)
            checked.append(run_claim(claim, instances))
            progress.advance(task)
    results = checked + (figure_run.judged if figure_run else [])
    as_text = to_json(results)
    if as_json:
        typer.echo(as_text, nl=False)
    else:
        output.print(claims_table(results))
    if out is not None:
        write_whole(out / "claims.json", as_text.encode())
        write_whole(out / "report.html", claims_page(checked, figure_run).encode())
        errors.print(
            escape(f"Wrote {out / 'claims.json'} and {out / 'report.html'}."), soft_wrap=True
        )
    errors.print(claims_summary(results), highlight=False, soft_wrap=True)
    if not all(result.as_expected for result in results):
        raise typer.Exit(1)


@app.command()
def compare(
    d: Annotated[str, typer.Option(help="Domain sizes, separated by commas.")] = "1024,42178",
    solvers: Annotated[
        str, typer.Option(help="Installed cvxpy solvers, separated by commas.")
    ] = "OSQP,CLARABEL,QOCO",
    problems: Annotated[
        str,
        typer.Option(
            help="Of cls, mle, base-pos, norm, norm-mul, binomial, multinomial, capped, monotone, absolute, separated by commas."
        ),
    ] = "cls,mle",
    accuracy: Annotated[
        str,
        typer.Option(
            help="Settings: low (1e-4), default (the solver's own), high; separated by commas."
        ),
    ] = "high",
    time_limit: Annotated[
        float, typer.Option(help="Seconds after which a solver is stopped, if it can be.")
    ] = 30.0,
    csv: Annotated[
        Path | None,
        typer.Option(help="File for the rows as CSV; its folder is created where missing."),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="PNG, SVG or PDF file for a picture of accuracy against time; likewise."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare closed forms with solvers: difference, certified gap, status, time of compilation and of solving.

    One estimate (epsilon 1, a million users of Zipf(1.5); GRR for multinomial, else OUE) for every size. A solver that
    cannot take a problem by nature, as OSQP cones, is marked "not for it".

    Example: ldpopt compare --d 1024 --solvers OSQP,CLARABEL,SCS,PIQP,HIGHS --accuracy low,default,high --plot build/compare.png
    """
    from ldpopt.rendering.figures import comparison_figure
    from ldpopt.rendering.tables import comparison_notes, comparison_table
    from ldpopt.studies.comparison import CASES, compare_solvers, to_csv

    sizes = [_size(part, d) for part in _listed("--d", d)]
    names = [installed(name) for name in _listed("--solvers", solvers)]
    cases, accuracies = _listed("--problems", problems), _listed("--accuracy", accuracy)
    for case in cases:
        validate.lookup("problem", case, CASES)
    for setting in accuracies:
        validate.lookup("accuracy", setting, ACCURACIES)
    validate.real("--time-limit", time_limit, above=0)
    kind = "" if plot is None else picture_kind(plot)
    for path in filter(None, (csv, plot)):
        prepare(path.parent, path.name)
    rows = []
    with progress_bar() as progress:
        task = progress.add_task(
            "", total=len(cases) * len(sizes) * (1 + len(names) * len(accuracies))
        )
        for row in compare_solvers(
            sizes, names, cases=cases, accuracies=accuracies, time_limit=time_limit  # type: ignore[arg-type]  # looked up
        ):  # fmt: skip
            rows.append(row)
            progress.update(
                task, advance=1, description=f"{row.problem}, d = {row.d:,}, {row.solver}"
            )
    if as_json:
        finite = (
            {k: str(v) if v in (math.inf, -math.inf) else v for k, v in asdict(row).items()}
            for row in rows
        )
        typer.echo(json.dumps(list(finite), indent=2, allow_nan=False))
    else:
        output.print(comparison_table(rows, output.width))
        for note in comparison_notes(rows):
            output.print(note, style="dim", highlight=False, soft_wrap=True)
    if csv is not None:
        write_whole(csv, to_csv(rows).encode())
    if plot is not None:
        write_whole(plot, comparison_figure(rows, kind))
    for path in filter(None, (csv, plot)):
        errors.print(escape(f"Wrote {path}."), soft_wrap=True)


@app.command()
def audit(
    oracle: Annotated[str, typer.Option(help=ORACLE_NAMES)],
    epsilon: Annotated[float, typer.Option(help="Privacy budget in nats.")],
    d: Annotated[int, typer.Option(help="Number of values in the domain.")],
    reports: Annotated[
        int,
        typer.Option(help="Reports of each of two values; a million finds a q that is off by 1 %."),
    ] = 1_000_000,
    confidence: Annotated[
        float, typer.Option(help="Share of audits of correct clients that pass, at least.")
    ] = 0.999,
    as_json: Json = False,
) -> None:
    """Audit an oracle's privacy: exactly from its probabilities, statistically from its client's reports.

    The exact loss is the log of the largest ratio of a report's probabilities under two values, in rational arithmetic. The
    reports use the operating system's entropy; their bound is Clopper–Pearson's, on an event chosen on other reports. Exit
    status 1 if the audit fails. Audit your own client with ldpopt.studies.audit.audit(client, epsilon, values) in Python.

    Example: ldpopt audit --oracle oue --epsilon 1 --d 64
    """
    from ldpopt.oracles import ORACLES
    from ldpopt.rendering.tables import audit_table
    from ldpopt.studies.audit import audit_oracle

    found = audit_oracle(
        validate.lookup("oracle", oracle, ORACLES)(epsilon, d),
        reports=reports,
        confidence=confidence,
    )
    if as_json:
        typer.echo(json.dumps(found.to_dict(), indent=2, ensure_ascii=False))
    else:
        output.print(audit_table(found))
    for finding in found.findings:
        errors.print(f"[bold red]Failed:[/] {escape(finding)}", highlight=False, soft_wrap=True)
    if not found.passed:
        raise typer.Exit(1)
    errors.print(
        "[green]Passed:[/] the probabilities keep ε, and no report contradicts them.",
        highlight=False,
    )


@app.command()
def methods(as_json: Json = False) -> None:
    """Show Table I: every method with what it does, its guarantees and its options.

    Example: ldpopt methods --json
    """
    from ldpopt.rendering.tables import methods_table

    if not as_json:
        output.print(methods_table())
        return
    fields = (
        "name",
        "label",
        "description",
        "problem",
        "source",
        "nonnegative",
        "sums_to_one",
        "preserves_order",
    )
    rows = [
        {**{f: getattr(m, f) for f in (*fields, "complexity")}, "options": m.options}
        for m in METHODS.values()
    ]
    typer.echo(json.dumps(rows, indent=2, ensure_ascii=False))


def _listed(option: str, text: str) -> list[str]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise InvalidInputError(f"{option} takes at least one name or number, got {text!r}")
    return parts


def _size(part: str, said: str) -> int:
    try:
        size = validate.integer("--d", float(part), minimum=2)
    except (TypeError, ValueError):
        size = 0
    if not 2 <= size <= _LARGEST:
        raise InvalidInputError(
            f"--d takes whole numbers from 2 to {_LARGEST:,}, separated by commas; got {said!r}"
        )
    return size

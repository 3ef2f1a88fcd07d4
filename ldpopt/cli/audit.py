"""``ldpopt audit``: whether an oracle of this library keeps its ε."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from ldpopt import validate
from ldpopt.cli.shared import ORACLE_NAMES, Json, errors, output, print_json
from ldpopt.oracles import ORACLES


def audit(
    oracle: Annotated[str, typer.Option(help=f"{ORACLE_NAMES}.")],
    epsilon: Annotated[float, typer.Option(help="Privacy budget in nats.")],
    d: Annotated[int, typer.Option(help="Number of values in the domain.")],
    reports: Annotated[
        int,
        typer.Option(
            help="Number of reports of each of two values; a million detects a q that is 1 % off."
        ),
    ] = 1_000_000,
    confidence: Annotated[
        float,
        typer.Option(help="A correct client passes with at least this probability."),
    ] = 0.999,
    as_json: Json = False,
) -> None:
    """Audit an oracle's privacy, exactly and by its client's reports.

    The exact loss is the log of the largest ratio of a report's probabilities under two values, in
    rational arithmetic. The statistical test draws reports with the operating system's entropy,
    chooses an event on some of them and bounds its probabilities on the others (Clopper and
    Pearson). Exit status 1 if the audit fails.

    Your own client is audited in Python, by ldpopt.studies.audit.audit(client, epsilon, values).

    Example: ldpopt audit --oracle oue --epsilon 1 --d 64
    """
    from ldpopt.rendering.audit_table import audit_table
    from ldpopt.studies.audit import audit_oracle

    # OUE and GRR are the papers' spelling.
    audited = validate.lookup("oracle", oracle.lower(), ORACLES)(epsilon, d)
    outcome = audit_oracle(audited, reports=reports, confidence=confidence)
    if as_json:
        print_json(outcome.to_dict())
    else:
        output.print(audit_table(outcome))
    # After the table and on standard error, where scripts that read the JSON do not meet them.
    for finding in outcome.findings:
        errors.print(f"[bold red]Failed:[/] {escape(finding)}", highlight=False, soft_wrap=True)
    if not outcome.passed:
        raise typer.Exit(1)
    errors.print(
        "[green]Passed:[/] the exact loss is at most ε, and no report contradicts the protocol.",
        highlight=False,
    )

"""``ldpopt audit``: whether an oracle of this library, or a stranger's client, keeps its ε."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from ldpopt import validate
from ldpopt.cli.counted import ClientId, Columns, stated_schema
from ldpopt.cli.names import ORACLE_NAMES, completes
from ldpopt.cli.shared import Json, errors, output, print_json, require_distinct, split_list
from ldpopt.errors import InvalidInputError
from ldpopt.oracles import ORACLES
from ldpopt.printable import printable

if TYPE_CHECKING:
    from ldpopt.collection.schema import Schema
    from ldpopt.oracles import FrequencyOracle

_REPORTS = 1_000_000
_POWER = 0.95

OracleName = Annotated[
    str | None,
    typer.Option(
        help=f"{ORACLE_NAMES}; with --reports if the files do not name it.",
        autocompletion=completes(ORACLES),
    ),
]
Budget = Annotated[
    float | None,
    typer.Option(help="Privacy budget in nats; with --reports the claim, if not the files' own."),
]
Domain = Annotated[int | None, typer.Option(help="Number of values in the domain.")]
Number = Annotated[
    int | None,
    typer.Option(
        help="Number of reports to draw of each of two values; a million, the default, detects a "
        "q that is 1 % off."
    ),
]
Confidence = Annotated[
    float, typer.Option(help="A correct client passes with at least this probability.")
]
Files = Annotated[
    tuple[Path, Path] | None,
    typer.Option(
        metavar="A B", help="Audit a client by two files of its reports, each of one value alone."
    ),
]
Values = Annotated[
    str | None, typer.Option(help="The values, from 0, of the reports in A and in B, as 0,1.")
]


def audit(
    oracle: OracleName = None,
    epsilon: Budget = None,
    d: Domain = None,
    n: Number = None,
    confidence: Confidence = 0.999,
    reports: Files = None,
    values: Values = None,
    column: Columns = None,
    client_id: ClientId = None,
    as_json: Json = False,
) -> None:
    """Audit an oracle's privacy, exactly and by its client's reports, or any client by two files.

    The exact loss is the log of the largest ratio of a report's probabilities under two values, in
    rational arithmetic. The statistical test draws reports with the operating system's entropy,
    chooses an event on some of them and bounds its probabilities on the others (Clopper and
    Pearson). Exit status 1 if the audit fails.

    With --reports A B the client is a stranger's: A and B hold reports that it made for one value
    each, all by different draws. A client that keeps its ε fails with a probability of at most
    1 - CONFIDENCE; the table states which ε would have been found with probability 0.95. Passing
    proves nothing beyond that. Give --values too: the test then knows what a report should reveal.
    Files of another program need --oracle, --epsilon, --d and --column.

    A client in Python is audited by ldpopt.studies.audit.audit(client, epsilon, values).

    Example: ldpopt audit --oracle oue --epsilon 1 --d 64
    """
    if reports is not None:
        if n is not None:
            raise InvalidInputError("--n is about reports to draw: leave it out with --reports")
        _audit_files(
            reports, oracle, epsilon, d, values, column, client_id, confidence, as_json=as_json
        )
        return
    # Ignored, they would let a user believe that a file was audited.
    for option, given in (("--values", values), ("--column", column), ("--client-id", client_id)):
        if given is not None:
            raise InvalidInputError(f"{option} is about files of reports: give --reports A B")
    if oracle is None or epsilon is None or d is None:
        raise InvalidInputError(
            "an audit needs --oracle, --epsilon and --d, or two files with --reports A B"
        )
    from ldpopt.rendering.audit_table import audit_table
    from ldpopt.studies.audit import FEWEST_REPORTS, audit_oracle

    # OUE and GRR are the papers' spelling.
    audited = validate.lookup("oracle", oracle.lower(), ORACLES)(epsilon, d)
    # Here and not as the default: None tells that the option was not given.
    number = _REPORTS if n is None else validate.integer("--n", n, minimum=FEWEST_REPORTS)
    confidence = validate.real("--confidence", confidence, above=0, below=1)
    outcome = audit_oracle(audited, reports=number, confidence=confidence)
    if as_json:
        print_json(outcome.to_dict())
    else:
        output.print(audit_table(outcome))
    _end(
        outcome.findings,
        "the exact loss is at most ε, and no report contradicts the protocol.",
    )


def _audit_files(
    files: tuple[Path, Path],
    oracle: str | None,
    epsilon: float | None,
    d: int | None,
    values: str | None,
    columns: Sequence[str] | None,
    client_id: str | None,
    confidence: float,
    *,
    as_json: bool,
) -> None:
    """Audit a client by two files of its reports."""
    from ldpopt.collection import read_reports
    from ldpopt.rendering.audit_table import reports_audit_table
    from ldpopt.studies.audit_reports import audit_reports, smallest_detected

    # One file twice would pass any audit.
    require_distinct(files)
    confidence = validate.real("--confidence", confidence, above=0, below=1)
    pair = None if values is None else _pair(values)
    schema = _schema(oracle, epsilon, d, columns, client_id)
    (protocol, first), (other, second) = (read_reports(path, schema) for path in files)
    _require_one_protocol(files, protocol, other, schema)
    # Files that state their protocol claim its budget.
    claim = protocol.epsilon if epsilon is None else epsilon
    outcome = audit_reports(
        first,
        second,
        claim,
        oracle=None if pair is None else protocol,
        values=pair,
        confidence=confidence,
    )
    # In the order in which the event tells them apart.
    left, right = outcome.pair
    outcome = replace(outcome, pair=(str(files[left]), str(files[right])))
    detected = smallest_detected(outcome, _POWER)
    # With the smallest budget that would have been found: passing alone says little.
    if as_json:
        record = asdict(outcome) | {"passed": outcome.passed, "detected": detected}
        print_json(record | {"power": _POWER})
    else:
        output.print(reports_audit_table(outcome, detected, _POWER))
    findings = []
    if not outcome.passed:
        # The bound holds but for that chance: the sentence has to say so.
        findings.append(
            f"the reports prove ε >= {outcome.lower:.4f}, more than ε = {claim:g}, unless a chance "
            f"of {1 - confidence:.2g} occurred"
        )
    _end(findings, f"these reports do not contradict ε = {claim:g}.")


def _pair(text: str) -> tuple[int, int]:
    """Return the two values that an option states."""
    parts = split_list("--values", text)
    # Twenty digits are beyond 64 bits, and so beyond every domain.
    if len(parts) != 2 or not all(part.isdecimal() and len(part) < 20 for part in parts):
        raise InvalidInputError(f"--values takes two numbers from 0, as 0,1; got {text!r}")
    return int(parts[0]), int(parts[1])


def _schema(
    oracle: str | None,
    epsilon: float | None,
    d: int | None,
    columns: Sequence[str] | None,
    client_id: str | None,
) -> Schema | None:
    """Return protocol and columns of files of another program, None if no column is named."""
    # Here the domain is --d, a number: the sentence of other commands would name --domain.
    if columns and d is None:
        raise InvalidInputError("files of another program do not state their protocol: give --d")
    return stated_schema(oracle, epsilon, None if d is None else str(d), columns, client_id)


def _require_one_protocol(
    files: Sequence[Path],
    protocol: FrequencyOracle,
    other: FrequencyOracle,
    schema: Schema | None,
) -> None:
    """Raise an error if files that state their protocols state different ones."""
    # One schema is stated for both files: there is nothing that could differ.
    if schema is None:
        from ldpopt.collection.header import Header

        Header(protocol).agree(Header(other), *map(str, files))


def _end(findings: Sequence[str], praise: str) -> None:
    """Print how an audit ended; leave with status 1 if it failed."""
    # After the table and on standard error, where scripts that read the JSON do not meet them.
    for finding in findings:
        shown = escape(printable(finding))
        errors.print(f"[bold red]Failed:[/] {shown}", highlight=False, soft_wrap=True)
    if findings:
        raise typer.Exit(1)
    errors.print(f"[green]Passed:[/] {escape(praise)}", highlight=False, soft_wrap=True)

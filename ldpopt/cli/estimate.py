"""``ldpopt estimate``: from reports or counts to an estimate, with answers and intervals."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ldpopt import validate
from ldpopt.cli.shared import (
    DOMAIN_HELP,
    ORACLE_NAMES,
    Json,
    output,
    picture_kind,
    print_json,
    report_written,
    require_writable,
)
from ldpopt.errors import InvalidInputError
from ldpopt.methods import METHODS, postprocess
from ldpopt.storage import write_whole

if TYPE_CHECKING:
    from ldpopt.collection import Aggregate
    from ldpopt.collection.labels import Labels
    from ldpopt.estimate import FrequencyEstimate


def estimate(
    file: Annotated[
        Path,
        typer.Argument(help="Reports (a file or folder), counts.json, or a CSV file of counts."),
    ],
    oracle: Annotated[
        str | None, typer.Option(help=f"{ORACLE_NAMES}, if the file does not name it.")
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="Privacy budget, if the file does not state it.")
    ] = None,
    domain: Annotated[str | None, typer.Option(help=DOMAIN_HELP)] = None,
    n: Annotated[
        int | None, typer.Option(help="Number of reports behind a CSV file of counts.")
    ] = None,
    method: Annotated[
        str, typer.Option(help="Post-processing method, see ldpopt methods.")
    ] = "norm-sub",
    out: Annotated[
        Path | None, typer.Option(help="File for the estimate: .csv, .parquet or .json.")
    ] = None,
    query: Annotated[
        Path | None,
        typer.Option(help="JSON file of sets of values: a list of labels or indices per name."),
    ] = None,
    answers: Annotated[
        Path | None, typer.Option(help="File for the sets' frequencies: .csv, .parquet or .json.")
    ] = None,
    interval: Annotated[
        float | None, typer.Option(help="Level of confidence intervals, such as 0.95.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="PNG, SVG or PDF file for a picture of the largest values.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Estimate the frequency of every value, and of sets of values, from reports or counts.

    A file of reports or counts states its protocol; options that contradict it are refused. So are
    rows that are not reports: ldpopt aggregate sets them aside. Missing folders of the output are
    created.

    Example: ldpopt estimate counts.json --domain labels.txt --query sets.json --out est.csv
    """
    from ldpopt.collection.results import write_columns

    # All that can be refused without reading the reports is refused before reading them.
    _check_options(method, interval, out, answers, query, plot)
    require_writable(out, answers, plot)
    counted, labels = _counted(file, oracle, epsilon, domain, n)
    sets = {} if query is None else labels.sets(query)
    processed = postprocess(counted.estimate, method)
    values = _columns("value", labels.names, processed, interval)
    queries = _columns("set", list(sets), processed, interval, list(sets.values())) if sets else {}
    # What the numbers mean goes with them into every file.
    about = {**counted.header.protocol, "n": counted.n, "method": method}
    if interval is not None:
        about["interval"] = interval
    if out is not None:
        write_columns(out, values, about)
    if answers is not None:
        write_columns(answers, queries, about)
    if plot is not None:
        from ldpopt.rendering.estimate_figure import estimate_figure

        write_whole(plot, estimate_figure(values, about, picture_kind(plot)))
    if as_json:
        _print_record(about, values, queries)
    # The values were just written to a file; the answers to the few sets are worth a look.
    elif queries or out is None:
        from ldpopt.rendering.estimate_table import estimate_table

        output.print(estimate_table(queries or values, about))
    report_written(out, answers, plot)


def _check_options(
    method: str,
    interval: float | None,
    out: Path | None,
    answers: Path | None,
    query: Path | None,
    plot: Path | None,
) -> None:
    """Raise an error for options that would fail only after the counting."""
    from ldpopt.collection.results import result_suffix

    validate.lookup("method", method, METHODS)
    if interval is not None:
        validate.real("--interval", interval, above=0, below=1)
    if out is not None:
        result_suffix(out)
    if answers is not None:
        result_suffix(answers)
        if query is None:
            raise InvalidInputError("--answers needs the sets: give --query")
    if plot is not None:
        picture_kind(plot)


def _columns(
    heading: str,
    names: Sequence[str],
    processed: FrequencyEstimate,
    level: float | None,
    sets: list[list[int]] | None = None,
) -> dict[str, Sequence[Any]]:
    """Return names, frequencies and intervals of all values, or of sets of them."""
    frequencies = processed.frequencies if sets is None else processed.query(sets)
    columns: dict[str, Sequence[Any]] = {heading: names, "frequency": frequencies.tolist()}
    if level is not None:
        lower, upper = processed.interval(level, sets)
        columns["lower"] = lower.tolist()
        columns["upper"] = upper.tolist()
    return columns


def _print_record(
    about: dict[str, Any], values: dict[str, Sequence[Any]], queries: dict[str, Sequence[Any]]
) -> None:
    from ldpopt.collection.results import rows_of

    record = {**about, "estimate": rows_of(values)}
    if queries:
        record["queries"] = rows_of(queries)
    print_json(record)


def _counted(
    file: Path, oracle: str | None, epsilon: float | None, domain: str | None, n: int | None
) -> tuple[Aggregate, Labels]:
    """Return the counts of a file, and its domain with the labels of --domain."""
    from ldpopt.collection import aggregate as count
    from ldpopt.collection.counts import is_counts, read_counts
    from ldpopt.collection.header import Header, make_oracle
    from ldpopt.collection.labels import Labels

    if not file.exists():
        raise InvalidInputError(f"{file} does not exist")
    name = None if oracle is None else oracle.lower()
    labels = None if domain is None else Labels.read(domain)
    stated = None  # the protocol of a plain CSV of counts, which names none
    if labels is not None and name is not None and epsilon is not None:
        stated = make_oracle(name, epsilon, labels.d)
    counted = (
        # No row is set aside here: to leave out rows is a decision, for which there is ``ldpopt
        # aggregate``.
        read_counts(file, stated, labels, n) if is_counts(file) else count(file, max_reject_rate=0)
    )
    header = counted.header
    # An option that differs from the file would silently decode the reports with other p and q.
    _agree(file, "--oracle", name, header.protocol["oracle"])
    _agree(file, "--epsilon", epsilon, header.oracle.epsilon)
    _agree(file, "--domain", None if labels is None else labels.d, header.oracle.d)
    _agree(file, "--n", n, counted.n)
    if labels is None:
        return counted, Labels(header.oracle.d)
    # Two lists of labels of the same length may still differ: their fingerprints tell.
    if labels.texts is not None and header.labels is not None:
        given = Header(header.oracle, labels.fingerprint)
        given.agree(header, f"the list of labels {domain}", str(file))
    return counted, labels


def _agree(file: Path, option: str, given: object, recorded: object) -> None:
    """Raise an error if an option was given and differs from what the file records."""
    if given is not None and given != recorded:
        raise InvalidInputError(f"{option} is {given}, but {file} was made with {recorded}")

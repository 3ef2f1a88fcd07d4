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
    labels_file,
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
    from ldpopt.collection.header import Header
    from ldpopt.collection.labels import Labels
    from ldpopt.estimate import FrequencyEstimate


Source = Annotated[
    Path,
    typer.Argument(help="Reports (a file or folder), counts.json, or a CSV file of counts."),
]
OracleName = Annotated[
    str | None, typer.Option(help=f"{ORACLE_NAMES}, if the file does not name it.")
]
Budget = Annotated[
    float | None, typer.Option(help="Privacy budget, if the file does not state it.")
]
Domain = Annotated[str | None, typer.Option(help=DOMAIN_HELP)]
Reports = Annotated[int | None, typer.Option(help="Number of reports behind a CSV file of counts.")]
MethodName = Annotated[str, typer.Option(help="Post-processing method, see ldpopt methods.")]
EstimateFile = Annotated[
    Path | None, typer.Option(help="File for the estimate: .csv, .parquet or .json.")
]
SetsFile = Annotated[
    Path | None,
    typer.Option(help="JSON file of sets of values: a list of labels or indices per name."),
]
AnswersFile = Annotated[
    Path | None, typer.Option(help="File for the sets' frequencies: .csv, .parquet or .json.")
]
Level = Annotated[float | None, typer.Option(help="Level of confidence intervals, such as 0.95.")]
Simultaneous = Annotated[
    bool,
    typer.Option("--simultaneous", help="Intervals that hold for all values, or sets, at once."),
]
Picture = Annotated[
    Path | None, typer.Option(help="PNG, SVG or PDF file for a picture of the largest values.")
]


def estimate(
    file: Source,
    oracle: OracleName = None,
    epsilon: Budget = None,
    domain: Domain = None,
    n: Reports = None,
    method: MethodName = "norm-sub",
    out: EstimateFile = None,
    query: SetsFile = None,
    answers: AnswersFile = None,
    interval: Level = None,
    simultaneous: Simultaneous = False,
    plot: Picture = None,
    as_json: Json = False,
) -> None:
    """Estimate the frequency of every value, and of sets of values, from reports or counts.

    A file of reports or counts states its protocol; options that contradict it are refused. So are
    rows that are not reports: ldpopt aggregate sets them aside. Missing folders of the output are
    created.

    Files and JSON have the interval of every value on its own. The table and the picture show the
    largest values: as these are chosen for being large, their intervals are wider, so that the
    expected share of those shown that miss is what --interval leaves. With --simultaneous all hold
    at once, everywhere.

    Example: ldpopt estimate counts.json --domain labels.txt --query sets.json --out est.csv
    """
    from ldpopt.collection.results import write_columns

    # All that can be refused without reading the reports is refused before reading them.
    _check_options(method, interval, simultaneous, out, answers, query, plot)
    require_writable(out, answers, plot, inputs=[*_files(file), labels_file(domain), query])
    counted, labels = _counted(file, oracle, epsilon, domain, n)
    sets = {} if query is None else labels.sets(query)
    # One method for values and sets: answers are sums of the same frequencies.
    processed = postprocess(counted.estimate.labelled(labels.names), method)
    groups = list(sets.values())
    about = _about(counted, method, interval, simultaneous)
    values = _columns("value", labels.names, processed, about)
    queries = _columns("set", list(sets), processed, about, groups) if sets else {}
    if out is not None:
        write_columns(out, values, about)
    if answers is not None:
        write_columns(answers, queries, about)
    if plot is not None:
        from ldpopt.rendering.picture import figure_bytes

        picture = processed.plot(level=interval, simultaneous=simultaneous)
        write_whole(plot, figure_bytes(picture, picture_kind(plot)))
    if as_json:
        _print_record(about, values, queries)
    # The values were just written to a file; the answers to the few sets are worth a look.
    elif queries or out is None:
        from ldpopt.rendering.estimate_table import LINES, estimate_table

        shown = processed.shown(LINES, sets or None, level=interval, simultaneous=simultaneous)
        output.print(estimate_table(shown, "set" if sets else "value", about))
        for note in shown.notes:
            output.print(note, highlight=False, markup=False)
    report_written(out, answers, plot)


def _files(file: Path) -> list[Path]:
    """Return the file or folder of a command and, of a folder, the files of reports."""
    from ldpopt.collection.files import list_files

    # A folder may hold links: what they lead to is read as well.
    return [file, *(list_files([file]) if file.is_dir() else [])]


def _check_options(
    method: str,
    interval: float | None,
    simultaneous: bool,
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
    elif simultaneous:
        raise InvalidInputError("--simultaneous is about intervals: give --interval")
    # The ending decides the format: a wrong one would fail after the counting.
    if out is not None:
        result_suffix(out)
    if answers is not None:
        result_suffix(answers)
        if query is None:
            raise InvalidInputError("--answers needs the sets: give --query")
    if plot is not None:
        picture_kind(plot)


def _about(
    counted: Aggregate, method: str, interval: float | None, simultaneous: bool
) -> dict[str, Any]:
    """Return what the numbers mean, which goes with them into every file."""
    about = {**counted.header.protocol, "n": counted.n, "method": method}
    if interval is not None:
        about["interval"] = interval
    if simultaneous:
        about["simultaneous"] = True
    return about


def _columns(
    heading: str,
    names: Sequence[str],
    processed: FrequencyEstimate,
    about: dict[str, Any],
    sets: list[list[int]] | None = None,
) -> dict[str, Sequence[Any]]:
    """Return names, frequencies and intervals of all values, or of sets of them."""
    frequencies = processed.frequencies if sets is None else processed.query(sets)
    columns: dict[str, Sequence[Any]] = {heading: names, "frequency": frequencies.tolist()}
    if "interval" in about:
        simultaneous = "simultaneous" in about
        ends = processed.interval(about["interval"], sets, simultaneous=simultaneous)
        # Numbers of Python, which JSON and CSV write whole.
        columns["lower"], columns["upper"] = (end.tolist() for end in ends)
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
    from ldpopt.collection.labels import Labels

    if not file.exists():
        raise InvalidInputError(f"{file} does not exist")
    name = None if oracle is None else oracle.lower()
    labels = None if domain is None else Labels.read(domain)
    counted = _read(file, name, epsilon, labels, n)
    header = counted.header
    # An option that differs from the file would silently decode the reports with other p and q.
    _agree(file, "--oracle", name, header.protocol["oracle"])
    _agree(file, "--epsilon", epsilon, header.oracle.epsilon)
    _agree(file, "--domain", None if labels is None else labels.d, header.oracle.d)
    _agree(file, "--n", n, counted.n)
    if labels is None:
        return counted, Labels(header.oracle.d)
    _agree_on_labels(file, labels, f"the list of labels {domain}", header)
    return counted, labels


def _read(
    file: Path, oracle: str | None, epsilon: float | None, labels: Labels | None, n: int | None
) -> Aggregate:
    """Return the counts of a file: counted from its reports, or read."""
    from ldpopt.collection import aggregate as count
    from ldpopt.collection.counts import is_counts, read_counts
    from ldpopt.collection.header import make_oracle

    if not is_counts(file):
        # No row is set aside here: to leave out rows is a decision, for which there is ``ldpopt
        # aggregate``.
        return count(file, max_reject_rate=0)
    stated = None
    # A plain CSV of counts names no protocol; other files of counts do.
    if labels is not None and oracle is not None and epsilon is not None:
        stated = make_oracle(oracle, epsilon, labels.d)
    return read_counts(file, stated, labels, n)


def _agree_on_labels(file: Path, labels: Labels, name: str, header: Header) -> None:
    """Raise an error if two lists of labels of the same length differ, by their fingerprints."""
    from ldpopt.collection.header import Header

    if labels.texts is not None and header.labels is not None:
        given = Header(header.oracle, labels.fingerprint)
        given.agree(header, name, str(file))


def _agree(file: Path, option: str, given: object, recorded: object) -> None:
    """Raise an error if an option was given and differs from what the file records."""
    # What was not given contradicts nothing.
    if given is not None and given != recorded:
        raise InvalidInputError(f"{option} is {given}, but {file} was made with {recorded}")

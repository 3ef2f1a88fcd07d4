"""What `aggregate`, `estimate`, `select` and `risk` share: reading reports or counts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ldpopt import validate
from ldpopt.cli.names import ORACLE_NAMES, completes
from ldpopt.cli.shared import DOMAIN_HELP
from ldpopt.errors import DataUnavailableError, InvalidInputError
from ldpopt.oracles import ORACLES

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from ldpopt.collection import Aggregate
    from ldpopt.collection.header import Header
    from ldpopt.collection.labels import Labels
    from ldpopt.collection.schema import Schema
    from ldpopt.estimate import FrequencyEstimate

Source = Annotated[
    Path,
    typer.Argument(help="Reports (a file or folder), counts.json, or a CSV file of counts."),
]
OracleName = Annotated[
    str | None,
    typer.Option(
        help=f"{ORACLE_NAMES}, if the file does not name it.", autocompletion=completes(ORACLES)
    ),
]
Budget = Annotated[
    float | None, typer.Option(help="Privacy budget, if the file does not state it.")
]
Domain = Annotated[str | None, typer.Option(help=DOMAIN_HELP)]
Reports = Annotated[int | None, typer.Option(help="Number of reports behind a CSV file of counts.")]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        help="Column of a report in files of another program; twice, seed and bucket, with local "
        "hashing."
    ),
]
ClientId = Annotated[
    str | None, typer.Option(help="Column of client ids in files of another program.")
]


def files_of(file: Path) -> list[Path]:
    """Return the file or folder of a command and, of a folder, the files of reports."""
    from ldpopt.collection.files import list_files

    # A folder may hold links: what they lead to is read as well.
    return [file, *(list_files([file]) if file.is_dir() else [])]


def stated_schema(
    oracle: str | None,
    epsilon: float | None,
    domain: str | None,
    columns: Sequence[str] | None,
    client_id: str | None,
) -> Schema | None:
    """Return protocol and columns of files of another program, None if no column is named.

    Raises InvalidInputError if some of the options are missing.
    """
    oracle = _checked(oracle)
    given = {"--oracle": oracle, "--epsilon": epsilon, "--domain": domain, "--column": columns}
    if not columns:
        if client_id is not None:
            raise InvalidInputError(
                "--client-id is about files of another program: name their --column too"
            )
        return None
    missing = [option for option, value in given.items() if value is None]
    # Named one by one, so that the checker of types knows that they are there below.
    if oracle is None or epsilon is None or domain is None:
        raise InvalidInputError(
            f"files of another program do not state their protocol: give {' and '.join(missing)}"
        )
    from ldpopt.collection.header import make_oracle
    from ldpopt.collection.labels import Labels
    from ldpopt.collection.schema import Schema

    labels = Labels.read(domain)
    protocol = make_oracle(oracle, epsilon, labels.d)
    return Schema(protocol, columns, client_id, labels.texts)


def counted(
    file: Path,
    oracle: str | None,
    epsilon: float | None,
    domain: str | None,
    n: int | None,
    columns: Sequence[str] | None,
    client_id: str | None,
) -> tuple[Aggregate, Labels]:
    """Return the counts of a file, and its domain with the labels of --domain.

    Raises InvalidInputError if an option contradicts what the file states.
    """
    from ldpopt.collection.labels import Labels

    if not file.exists():
        raise InvalidInputError(f"{file} does not exist")
    schema = stated_schema(oracle, epsilon, domain, columns, client_id)
    name = _checked(oracle)
    labels = None if domain is None else Labels.read(domain)
    result = _read(file, name, epsilon, labels, n, schema)
    header = result.header
    # An option that differs from the file would silently decode the reports with other p and q.
    _agree(file, "--oracle", name, header.protocol["oracle"])
    _agree(file, "--epsilon", epsilon, header.oracle.epsilon)
    _agree(file, "--domain", None if labels is None else labels.d, header.oracle.d)
    _agree(file, "--n", n, result.n)
    if labels is None:
        return result, Labels(header.oracle.d)
    _agree_on_labels(file, labels, f"the list of labels {domain}", header)
    return result, labels


def raw_estimate(
    file: Path,
    oracle: str | None,
    epsilon: float | None,
    domain: str | None,
    n: int | None,
    columns: Sequence[str] | None,
    client_id: str | None,
) -> tuple[FrequencyEstimate, Labels]:
    """Return the raw estimate of reports, counts or a CSV file of frequencies, and its domain.

    Raises InvalidInputError if an option contradicts what the file states, or one is missing.
    """
    from ldpopt.collection.labels import Labels

    if columns or not _has_frequencies(file):
        result, labels = counted(file, oracle, epsilon, domain, n, columns, client_id)
        return result.estimate.labelled(labels.names), labels
    from ldpopt.datasets import read_frequencies

    if domain is not None:
        raise InvalidInputError(f"the rows of {file} name its values: leave out --domain")
    texts, frequencies = read_frequencies(file)
    estimate = with_noise(frequencies, texts, oracle, epsilon, n)
    return estimate, Labels(len(texts), texts)


def _has_frequencies(file: Path) -> bool:
    """Return whether a file is a table of frequencies, by its heading."""
    if file.suffix.lower() != ".csv" or not file.is_file():
        return False
    from ldpopt.collection.text import names_in
    from ldpopt.collection.untrusted import read_text

    first = read_text(file, f"cannot read {file}").split("\n", 1)[0]
    try:
        # The reader wants the name to the letter, and says so of "Frequency".
        return any(name.strip().lower() == "frequency" for name in names_in(first, file))
    # Then it is a file of another kind, whose reader says what is wrong.
    except DataUnavailableError:
        return False


def with_noise(
    frequencies: NDArray[np.float64],
    labels: Sequence[str],
    oracle: str | None,
    epsilon: float | None,
    n: int | None,
) -> FrequencyEstimate:
    """Return an estimate with the noise of its protocol.

    Raises InvalidInputError if an option is missing, or there is no such oracle.
    """
    from ldpopt.estimate import FrequencyEstimate

    name = _checked(oracle)
    if name is None or epsilon is None or n is None:
        raise InvalidInputError(
            "the noise of the input needs --oracle, --epsilon and --n: give all"
        )
    protocol = ORACLES[name](epsilon, len(frequencies))
    return FrequencyEstimate(frequencies, n, protocol, labels=labels)


def _checked(oracle: str | None) -> str | None:
    """Return the name of an oracle as the package writes it.

    A wrong one is an error before options that are missing are: to add these would not help.
    """
    if oracle is None:
        return None
    name = oracle.lower()
    validate.lookup("oracle", name, ORACLES)
    return name


def _read(
    file: Path,
    oracle: str | None,
    epsilon: float | None,
    labels: Labels | None,
    n: int | None,
    schema: Schema | None,
) -> Aggregate:
    """Return the counts of a file: counted from its reports, or read."""
    from ldpopt.collection import aggregate as count
    from ldpopt.collection.counts import is_counts, read_counts
    from ldpopt.collection.header import make_oracle

    if schema is not None or not is_counts(file):
        # No row is set aside here: to leave out rows is a decision, for which there is ``ldpopt
        # aggregate``.
        return count(file, max_reject_rate=0, schema=schema)
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
        given.agree(header, name, str(file), labels.texts)


def _agree(file: Path, option: str, given: object, recorded: object) -> None:
    """Raise an error if an option was given and differs from what the file records."""
    # What was not given contradicts nothing.
    if given is not None and given != recorded:
        raise InvalidInputError(f"{option} is {given}, but {file} was made with {recorded}")

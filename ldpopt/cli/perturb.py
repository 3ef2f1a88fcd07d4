"""``ldpopt perturb``: from users' values to reports."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from ldpopt import validate
from ldpopt.cli.names import ORACLE_NAMES, completes
from ldpopt.cli.shared import DOMAIN_HELP, labels_file, remark, require_writable
from ldpopt.errors import InvalidInputError
from ldpopt.oracles import ORACLES


def perturb(
    values: Annotated[
        Path,
        typer.Argument(
            help="CSV or Parquet file with the column value (or label) and, optionally, client_id."
        ),
    ],
    oracle: Annotated[
        str, typer.Option(help=f"{ORACLE_NAMES}.", autocompletion=completes(ORACLES))
    ],
    epsilon: Annotated[float, typer.Option(help="Privacy budget of a report, in nats.")],
    domain: Annotated[str, typer.Option(help=DOMAIN_HELP)],
    out: Annotated[
        Path,
        typer.Option(help="File (.parquet; .csv for small ones), or folder that gets a new part."),
    ],
    seed: Annotated[
        int | None,
        typer.Option(
            help="For repeatable tests; anyone who knows the seed can recover the values."
        ),
    ] = None,
) -> None:
    """Randomise users' values: one report per row, as clients would send them.

    Values are numbers from 0, or labels if the domain is a file of labels. A value outside the
    domain ends the run, and nothing is written. The operating system's entropy is used unless a
    seed is given. Missing folders of the output are created.

    Example: ldpopt perturb values.csv --oracle oue --epsilon 1 --domain 1024 --out reports.parquet
    """
    from ldpopt.collection.files import ReportWriter, next_part
    from ldpopt.collection.header import make_oracle
    from ldpopt.collection.labels import Labels, read_values

    # The domain first: a wrong one is an error before anything is written.
    labelled = Labels.read(domain)
    client = make_oracle(oracle.lower(), epsilon, labelled.d)
    # None and not a seeded generator: the client then draws from the operating system.
    rng = None if seed is None else validate.generator(seed)
    if rng is not None:
        remark(
            "These reports are not private: anyone who knows the seed can remove the noise.",
            style="yellow",
        )
    # A name without an ending is a folder, which ``next_part`` makes.
    if out.suffix:
        require_writable(out, inputs=[values, labels_file(domain)])
    batches = read_values(values, labelled)
    # The first batch is read now: it tells whether there are client ids, part of the new name.
    first = next(batches, None)
    if first is None:
        raise InvalidInputError(f"{values} has no value")
    has_ids = first[1] is not None
    path = out if out.suffix else next_part(out, client, labels=labelled.texts, has_ids=has_ids)
    n = 0
    # Batch by batch: the file of values may be larger than memory.
    with ReportWriter(path, client, labels=labelled.texts) as writer:
        for indices, ids in chain([first], batches):
            writer.write(client.perturb(indices, rng=rng), ids)
            # Counted here: the file of values may have no heading, or one.
            n += len(indices)
    remark(f"Wrote {n:,} reports to {path}.")

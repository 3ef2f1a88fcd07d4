"""``ldpopt perturb``: from users' values to reports."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from ldpopt import validate
from ldpopt.cli.names import ORACLE_NAMES, completes
from ldpopt.cli.shared import DOMAIN_HELP, labels_file, remark, require_writable
from ldpopt.errors import InvalidInputError, warn
from ldpopt.oracles import ORACLES
from ldpopt.printable import counted

# Users per label: with fewer, a label that nobody has is nothing special.
_MANY = 10


class _Usage:
    """Which values users have: a heading that became the first label is none that many have."""

    def __init__(self, d: int) -> None:
        self._n = 0
        self._first: int | None = None
        self._times = 0  # of the first label
        self._seen = np.zeros(d, dtype=np.bool_)

    def add(self, indices: NDArray[np.int64]) -> None:
        """Take account of the next users."""
        if self._first is None:
            self._first = int(indices[0])
        self._n += len(indices)
        self._times += int(np.count_nonzero(indices == 0))
        self._seen[indices] = True

    def begins_with_a_heading(self) -> bool:
        """Return whether the first user alone has the first label, though others share theirs."""
        return self._first == 0 and self._times == 1 and self._n > len(self._seen)

    def lacks_the_first_label_alone(self) -> bool:
        """Return whether each of many users has another label, and every other label has some."""
        d = len(self._seen)
        return d > 2 and self._n >= _MANY * d and not self._seen[0] and bool(self._seen[1:].all())


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
    from ldpopt.collection.labels import Labels, has_heading, read_values

    # The domain first: a wrong one is an error before anything is written.
    labelled = Labels.read(domain)
    client = make_oracle(oracle.lower(), epsilon, labelled.d)
    # None and not a seeded generator: the client then draws from the operating system.
    rng = None
    if seed is not None:
        rng = validate.generator(validate.integer("--seed", seed, minimum=0))
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
    usage = _Usage(labelled.d)
    # Batch by batch: the file of values may be larger than memory.
    with ReportWriter(path, client, labels=labelled.texts) as writer:
        for indices, ids in chain([first], batches):
            writer.write(client.perturb(indices, rng=rng), ids)
            # Counted here: the file of values may have no heading, or one.
            n += len(indices)
            usage.add(indices)
    remark(f"Wrote {counted(n, 'report')} to {path}.")
    if labelled.texts is not None:
        first_label = labelled.texts[0]
        if usage.begins_with_a_heading() and not has_heading(values, labelled):
            warn(
                f"{first_label!r} is the first line of {values} and of {domain}, and no other user "
                "has it: if it is a heading, remove it from both and run again"
            )
        elif usage.lacks_the_first_label_alone():
            warn(
                f"every label of {domain} has users but the first, {first_label!r}: if it is a "
                "heading, remove it and run again"
            )

"""``ldpopt merge``: counts of several days, regions or servers together."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ldpopt.cli.shared import (
    Json,
    output,
    print_json,
    remark,
    report_written,
    require_distinct,
    require_writable,
)
from ldpopt.printable import counted
from ldpopt.storage import held


def merge(
    counts: Annotated[
        list[Path], typer.Argument(help="Files of counts that ldpopt aggregate wrote.")
    ],
    out: Annotated[Path, typer.Option(help="File for their sum, .json or .csv.")],
    as_json: Json = False,
) -> None:
    """Add counts of days, regions or servers, after a check that they belong together.

    All must be of one protocol and one list of labels: what differs is named. A file that is given
    twice is refused, and so are counts of the same file of reports. Where the files of reports are
    still in their places, and have client ids, a client who reported in two of them is an error;
    otherwise a remark says that this could not be checked.

    Example: ldpopt merge monday.json tuesday.json --out week.json
    """
    from ldpopt.collection.counts import counts_suffix, read_counts, write_counts
    from ldpopt.collection.merging import merge as merged_counts

    counts_suffix(out)  # an ending that cannot be written is an error before the reading
    require_distinct(counts)
    require_writable(out, inputs=counts)
    # Until the sum is written: another merge to the same file has to wait.
    with held(out):
        # Each file of counts states its protocol: none is taken from options.
        merged = merged_counts({str(path): read_counts(path, None, None, None) for path in counts})
        write_counts(out, merged.counts)
    total = merged.counts
    if as_json:
        record = {**total.header.protocol, "n": total.n, "files": len(total.files)}
        print_json(record | {"merged": len(counts), "out": str(out)})
    else:
        line = f"{counted(total.n, 'report')} of {counted(len(counts), 'file')} of counts."
        output.print(line, highlight=False)
    # Not an error: counts outlive reports, which are often deleted after the counting.
    if not merged.ids_compared:
        remark(
            "A client who reported in several of them counts once in each: their reports are not "
            "all in their places, or have no client ids, so that this was not checked.",
            style="yellow",
        )
    report_written(out)

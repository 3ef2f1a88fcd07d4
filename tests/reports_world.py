"""Small populations and their reports, for the tests of files of reports."""

import json

import numpy as np
import pyarrow.parquet as pq

from ldpopt.collection.parquet import METADATA, seal_footer
from ldpopt.collection.seal import has_place, sealed
from ldpopt.oracles import BLH, GRR, OLH, OUE, SUE, HadamardResponse, SubsetSelection

MAKERS = {
    "grr": lambda d: GRR(1.0, d),
    "sue": lambda d: SUE(1.0, d),
    "oue": lambda d: OUE(1.0, d),
    "olh": lambda d: OLH(1.0, d),
    "olh-floor": lambda d: OLH(1.0, d, rounding="floor"),
    "blh": lambda d: BLH(1.0, d),
    "ss": lambda d: SubsetSelection(1.0, d),
    "hr": lambda d: HadamardResponse(1.0, d),
}


def reports_of(oracle, n, seed=0):
    rng = np.random.default_rng(seed)
    return oracle.perturb(rng.integers(oracle.d, size=n), rng=rng)


def header_of(path):
    """Return the header that a Parquet file of reports states."""
    return json.loads(pq.read_metadata(path).metadata[METADATA])


def rewrite(path, table, header=None, row_group_size=None, **options):
    """Write a file of reports as another program would: any columns under any header."""
    text = json.dumps(header_of(path)) if header is None else header
    plain = table.replace_schema_metadata(None)
    with pq.ParquetWriter(path, plain.schema, write_page_checksum=True, **options) as writer:
        writer.write_table(plain, row_group_size)
        if text:
            writer.add_key_value_metadata({METADATA: text})
    if has_place(path.read_bytes()):
        seal_footer(path)


def edit(path, change):
    """Change the text of a file as a program would that knows of the checksum."""
    path.write_bytes(sealed(change(path.read_text("utf-8")).encode()))

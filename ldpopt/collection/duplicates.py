"""Rows whose client has reported before, found in bounded memory.

Ids are dealt to buckets on disk, so that equal ids share a bucket; each bucket is then compared
exactly.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ldpopt.collection.files import ReportFile
from ldpopt.collection.partition import Partition
from ldpopt.errors import DataUnavailableError

_BUCKET_ROWS = 1 << 21  # ids compared at a time, about 100 MB
_SCHEMA = pa.schema({"part": pa.int32(), "row": pa.int64(), "id": pa.large_string()})

Work = Sequence[tuple[ReportFile, Partition]]
Rows = NDArray[np.int64]


def mark_duplicates(work: Work, *, bucket_rows: int = _BUCKET_ROWS) -> list[Partition]:
    """Return the partitions with the rows whose client id occurred before, and those without an id.

    Parameters
    ----------
    work
        Partitions with their opened files, in the order in which the first report of a client
        counts.
    bucket_rows
        About how many ids are compared at a time.

    Notes
    -----
    Cost: one pass over the column of ids and a copy of it on disk; memory for one bucket, and 8
    bytes per duplicate. Which bucket an id falls into is a secret of this run, so that nobody can
    choose ids that all fall into one.
    """
    rows = sum(partition.rows for _, partition in work)
    # Without any row there is still one bucket to write to.
    buckets = max(1, math.ceil(rows / bucket_rows))
    duplicates: list[list[Rows]] = [[] for _ in work]
    with tempfile.TemporaryDirectory(prefix="ldpopt-ids-") as folder:
        paths = [Path(folder) / f"{bucket}.arrow" for bucket in range(buckets)]
        with _Buckets(paths) as writers:
            marked = [
                _deal(file, partition, index, writers)
                for index, (file, partition) in enumerate(work)
            ]
        for path in paths:
            for part, repeated in _repeated(path):
                duplicates[part].append(repeated)
            # At once, so that the disk holds each id only until it has been compared.
            path.unlink()
    return [
        replace(partition, duplicates=np.sort(_joined(parts)))
        for partition, parts in zip(marked, duplicates, strict=True)
    ]


def _repeated(bucket: Path) -> list[tuple[int, Rows]]:
    """Return the rows of a bucket whose id occurred in an earlier row, by partition."""
    with pa.OSFile(str(bucket)) as source:
        table = pa.ipc.open_stream(source).read_all()
    if not len(table):
        return []
    ids = table["id"].combine_chunks()
    # Ids as whole numbers: exact, and far faster to compare than text.
    codes = ids.dictionary_encode().indices.to_numpy()
    _, first = np.unique(codes, return_index=True)
    # Rows lie in the order in which they were dealt: the first row of each id is not repeated.
    repeated = np.ones(len(codes), dtype=np.bool_)
    repeated[first] = False
    parts = table["part"].to_numpy()[repeated]
    rows = table["row"].to_numpy()[repeated]
    return [(int(part), rows[parts == part]) for part in np.unique(parts)]


class _Buckets:
    """Files to which ids are dealt by a hash of this run; closed at the end of a with-block."""

    def __init__(self, paths: Sequence[Path]) -> None:
        # Without a seed on purpose: nobody can know the weights in advance.
        rng = np.random.default_rng()
        self._weights = rng.integers(2**64 - 1, size=1 << 10, dtype=np.uint64, endpoint=True)
        self._writers = [pa.ipc.new_stream(str(path), _SCHEMA) for path in paths]

    def __enter__(self) -> _Buckets:
        return self

    def __exit__(self, *_: object) -> None:
        # Also after an error: an open file could not be removed with its folder on every system.
        for writer in self._writers:
            writer.close()

    def write(self, table: pa.Table) -> None:
        """Append rows to the buckets that their ids hash to, in their order."""
        ids = table["id"].combine_chunks()
        number = len(self._writers)
        bucket = _hashes(ids, self._weights) % np.uint64(number)
        # Stable: within a bucket rows stay in the order in which reports count.
        order = np.argsort(bucket, kind="stable")
        sorted_rows = table.take(pa.array(order))
        # Where each bucket begins, and the end of the last one.
        bounds = np.searchsorted(bucket[order], np.arange(number + 1))
        for writer, start, end in zip(self._writers, bounds[:-1], bounds[1:], strict=True):
            if end > start:
                writer.write_table(sorted_rows.slice(start, end - start))


def _deal(file: ReportFile, partition: Partition, index: int, buckets: _Buckets) -> Partition:
    """Write the ids of a partition to their buckets.

    Return the partition with its rows without an id, or with the reason why ids cannot be read.
    """
    try:
        # All or none: some of a partition's ids would mark the wrong rows as first ones.
        batches = list(file.ids(partition.first, partition.last))
    except DataUnavailableError as error:
        return replace(partition, error=str(error))
    nameless = []
    row = partition.row
    for ids in batches:
        rows = np.arange(row, row + len(ids))
        row += len(ids)
        missing = ids.is_null().to_numpy(zero_copy_only=False)
        nameless.append(rows[missing])
        part = np.full(len(ids), index, np.int32)
        columns = [pa.array(part), pa.array(rows), ids]
        table = pa.table(columns, schema=_SCHEMA)
        buckets.write(table.filter(ids.is_valid()))
    return replace(partition, nameless=_joined(nameless))


def _joined(parts: list[Rows]) -> Rows:
    return np.concatenate([np.empty(0, np.int64), *parts])


def _hashes(ids: pa.Array, weights: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a random linear combination of the bytes of each text.

    The upper half of the 64 bits is returned, which is enough to spread ids over buckets.
    """
    if not len(ids):
        return np.empty(0, np.uint64)
    _, offsets, text = ids.buffers()
    # A slice of a column shares its buffers.
    last = ids.offset + len(ids)
    ends = np.frombuffer(offsets, np.int64)[ids.offset : last + 1]
    first = ends[0]
    letters = np.frombuffer(text or b"", np.uint8)[first : ends[-1]]
    starts = ends[:-1] - first
    stops = ends[1:] - first
    text_starts = np.repeat(starts, stops - starts)
    position = np.arange(len(letters)) - text_starts
    # Plus one, so that zero bytes count.
    factors = letters.astype(np.uint64) + np.uint64(1)
    factors *= weights[position % len(weights)]
    # Sums of all texts at once, as differences of running sums: 64-bit arithmetic wraps around.
    running = np.zeros(len(letters) + 1, np.uint64)
    np.cumsum(factors, out=running[1:])
    mixed = running[stops] - running[starts]
    # The lower bits of such sums are the least mixed: the lowest depends on the lowest bits alone.
    return np.asarray(mixed >> np.uint64(32))

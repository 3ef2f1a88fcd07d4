"""Rows whose client has reported before, found in bounded memory.

Ids are dealt to buckets on disk, so that equal ids share a bucket; each bucket is then compared
exactly.
"""

from __future__ import annotations

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
    # Rounded up; without any row there is still one bucket to write to.
    buckets = max(1, -(-rows // bucket_rows))
    duplicates: list[list[Rows]] = [[] for _ in work]
    with tempfile.TemporaryDirectory(prefix="ldpopt-ids-") as folder:
        paths = [Path(folder) / f"{bucket}.arrow" for bucket in range(buckets)]
        marked = _deal(work, paths)
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
    # Ids as whole numbers: exact, and far faster to compare than text.
    codes = table["id"].combine_chunks().dictionary_encode().indices.to_numpy()
    # Rows lie in the order in which they were dealt: the first row of each id is not repeated.
    repeated = np.ones(len(codes), dtype=np.bool_)
    repeated[np.unique(codes, return_index=True)[1]] = False
    parts = table["part"].to_numpy()[repeated]
    rows = table["row"].to_numpy()[repeated]
    return [(int(part), rows[parts == part]) for part in np.unique(parts)]


def _deal(work: Work, paths: Sequence[Path]) -> list[Partition]:
    """Write the ids to their buckets.

    Return the partitions with their rows without an id, or with the reason why ids cannot be read.
    """
    # Without a seed on purpose: nobody can know the weights in advance.
    rng = np.random.default_rng()
    weights = rng.integers(2**64 - 1, size=1 << 10, dtype=np.uint64, endpoint=True)
    writers = [pa.ipc.new_stream(str(path), _SCHEMA) for path in paths]
    marked = []
    try:
        for index, (file, partition) in enumerate(work):
            try:
                # All or none: some of a partition's ids would mark the wrong rows as first ones.
                batches = list(file.ids(partition.first, partition.last))
            except DataUnavailableError as error:
                marked.append(replace(partition, error=str(error)))
                continue
            nameless = []
            row = partition.row
            for ids in batches:
                rows = np.arange(row, row + len(ids))
                row += len(ids)
                missing = ids.is_null().to_numpy(zero_copy_only=False)
                nameless.append(rows[missing])
                part = np.full(len(ids), index, np.int32)
                columns = [pa.array(part), pa.array(rows), ids]
                table = pa.table(columns, schema=_SCHEMA).filter(ids.is_valid())
                _write(table, writers, weights)
            marked.append(replace(partition, nameless=_joined(nameless)))
    finally:
        # Also after an error: an open file could not be removed with its folder on every system.
        for writer in writers:
            writer.close()
    return marked


def _write(
    table: pa.Table, writers: Sequence[pa.RecordBatchStreamWriter], weights: NDArray[np.uint64]
) -> None:
    """Append rows to the buckets that their ids hash to, in their order."""
    hashes = _hashes(table["id"].combine_chunks(), weights)
    bucket = hashes % np.uint64(len(writers))
    # Stable: within a bucket rows stay in the order in which reports count.
    order = np.argsort(bucket, kind="stable")
    ends = np.searchsorted(bucket[order], np.arange(len(writers) + 1))
    sorted_rows = table.take(pa.array(order))
    for writer, start, end in zip(writers, ends[:-1], ends[1:], strict=True):
        if end > start:
            writer.write_table(sorted_rows.slice(start, end - start))


def _joined(parts: list[Rows]) -> Rows:
    return np.concatenate([np.empty(0, np.int64), *parts])


def _hashes(ids: pa.Array, weights: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a random linear combination of the bytes of each text.

    The upper half of the 64 bits is returned, which is enough to spread ids over buckets.
    """
    if not len(ids):
        return np.empty(0, np.uint64)
    _, offsets, text = ids.buffers()
    ends = np.frombuffer(offsets, np.int64)[ids.offset : ids.offset + len(ids) + 1]
    first = ends[0]
    letters = np.frombuffer(text or b"", np.uint8)[first : ends[-1]]
    # Plus one, so that zero bytes count.
    factors = letters.astype(np.uint64) + np.uint64(1)
    starts = ends[:-1] - first
    stops = ends[1:] - first
    position = np.arange(len(letters)) - np.repeat(starts, stops - starts)
    factors *= weights[position % len(weights)]
    # Sums of all texts at once, as differences of running sums: 64-bit arithmetic wraps around.
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(factors, dtype=np.uint64)])
    # The lower bits of such sums are the least mixed: the lowest depends on the lowest bits alone.
    return np.asarray((sums[stops] - sums[starts]) >> np.uint64(32))

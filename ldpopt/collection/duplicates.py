"""Rows whose client has reported before, found in bounded memory: ids are dealt to buckets on disk, then compared exactly."""

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


def mark_duplicates(work: Work, *, bucket_rows: int = _BUCKET_ROWS) -> list[Partition]:
    """Return the partitions with the rows whose client id occurred before, and the rows without an id.

    Parameters
    ----------
    work
        Partitions in the order in which the first report of a client is the one that counts, with their opened files.
    bucket_rows
        About how many ids are compared at a time.

    Notes
    -----
    One pass over the column of ids and a copy of it on disk; memory for one bucket, and 8 bytes a duplicate. Which bucket
    an id falls into is a secret of this run, so that nobody can choose ids that all fall into one.
    """
    buckets = -(-sum(partition.rows for _, partition in work) // bucket_rows) or 1
    again: list[list[NDArray[np.int64]]] = [[] for _ in work]
    with tempfile.TemporaryDirectory(prefix="ldpopt-ids-") as folder:
        paths = [Path(folder) / f"{bucket}.arrow" for bucket in range(buckets)]
        marked = _deal(work, paths)
        for path in paths:
            with pa.OSFile(str(path)) as source:
                table = pa.ipc.open_stream(source).read_all()
            path.unlink()
            if not len(table):
                continue
            codes = table["id"].combine_chunks().dictionary_encode().indices.to_numpy()
            repeated = np.ones(len(codes), dtype=np.bool_)
            repeated[np.unique(codes, return_index=True)[1]] = (
                False  # rows lie in the order they were dealt in
            )
            parts, rows = table["part"].to_numpy()[repeated], table["row"].to_numpy()[repeated]
            for part in np.unique(parts):
                again[part].append(rows[parts == part])
    return [
        replace(p, duplicates=np.sort(_joined(rows))) for p, rows in zip(marked, again, strict=True)
    ]


def _deal(work: Work, paths: Sequence[Path]) -> list[Partition]:
    """Write the ids to their buckets; return the partitions with their rows without an id, or why ids cannot be read."""
    weights = np.random.default_rng().integers(
        2**64 - 1, size=1 << 10, dtype=np.uint64, endpoint=True
    )
    writers = [pa.ipc.new_stream(str(path), _SCHEMA) for path in paths]
    marked = []
    try:
        for index, (file, partition) in enumerate(work):
            try:
                batches = list(
                    file.ids(partition.first, partition.last)
                )  # all or none: a part of them would be wrong
            except DataUnavailableError as error:
                marked.append(replace(partition, trouble=str(error)))
                continue
            row, nameless = partition.row, []
            for ids in batches:
                rows = np.arange(row, row + len(ids))
                row += len(ids)
                table = pa.table(
                    [pa.array(np.full(len(ids), index, np.int32)), pa.array(rows), ids],
                    schema=_SCHEMA,
                )
                nameless.append(rows[ids.is_null().to_numpy(zero_copy_only=False)])
                table = table.filter(ids.is_valid())
                bucket = _hashes(table["id"].combine_chunks(), weights) % np.uint64(len(paths))
                order = np.argsort(bucket, kind="stable")
                ends = np.searchsorted(bucket[order], np.arange(len(paths) + 1))
                dealt = table.take(pa.array(order))
                for writer, start, end in zip(writers, ends, ends[1:], strict=False):
                    if end > start:
                        writer.write_table(dealt.slice(start, end - start))
            marked.append(replace(partition, nameless=_joined(nameless)))
    finally:
        for writer in writers:
            writer.close()
    return marked


def _joined(parts: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate([np.empty(0, np.int64), *parts])


def _hashes(ids: pa.Array, weights: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a random linear combination of the bytes of each text, its upper half: enough to spread ids."""
    if not len(ids):
        return np.empty(0, np.uint64)
    _, offsets, text = ids.buffers()
    ends = np.frombuffer(offsets, np.int64)[ids.offset : ids.offset + len(ids) + 1]
    letters = np.frombuffer(text or b"", np.uint8)[ends[0] : ends[-1]].astype(
        np.uint64
    ) + np.uint64(1)
    position = np.arange(len(letters)) - np.repeat(ends[:-1] - ends[0], np.diff(ends))
    letters *= weights[position % len(weights)]
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(letters, dtype=np.uint64)])
    hashed: NDArray[np.uint64] = (
        sums[ends[1:] - ends[0]] - sums[ends[:-1] - ends[0]]
    ) >> np.uint64(32)
    return hashed

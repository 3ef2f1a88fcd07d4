"""Rows whose client has reported before, found in bounded memory.

Keyed hashes of the ids are dealt to buckets on disk, so that equal ids share a bucket; each bucket
is then compared. The ids themselves are never written.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import pairwise
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ldpopt.collection.files import ReportFile
from ldpopt.collection.layout import Codes, Reason
from ldpopt.collection.parquet import LONGEST_ID
from ldpopt.collection.partition import Partition, Rows
from ldpopt.errors import DataUnavailableError, InvalidInputError

_BUCKET_ROWS = 1 << 21  # ids compared at a time, about 200 MB

# Words of 64 bits in a hash: two different ids agree in both with a probability below 2^-110.
_WORDS = 2

_TEXTS = 1 << 12  # ids hashed at a time

_DEALT = np.dtype([("part", "<i4"), ("row", "<i8"), ("hash", f"V{8 * _WORDS}")])
_REPEATED = np.dtype([("part", "<i4"), ("row", "<i8"), ("client", "<i8")])

Work = Sequence[tuple[ReportFile, Partition]]
Malformed = Callable[[Sequence[Partition]], Iterator[Rows]]
Records = NDArray[Any]
Flags = NDArray[np.bool_]
Key = NDArray[np.uint64]


def mark_duplicates(
    work: Work, malformed: Malformed, *, bucket_rows: int = _BUCKET_ROWS
) -> list[Partition]:
    """Return the partitions with the rows that are set aside because of their client id.

    These are all rows of a client but the first one that is a report, and rows without an id or
    with one that is too long.

    Parameters
    ----------
    work
        Partitions with their opened files, in the order in which the first report of a client
        counts.
    malformed
        Returns the rows of each partition that are no reports. It is called with those partitions
        alone in which a client reports who reports again later.
    bucket_rows
        About how many ids are compared at a time.

    Raises
    ------
    InvalidInputError
        If the temporary folder has no space for the hashes, 28 bytes per row.

    Notes
    -----
    Cost: one pass over the column of ids and their hashes on disk; a pass over the reports where
    clients report again; memory for one bucket, and 20 bytes per row of such a client. The hashes'
    key is a secret of this run: nobody can choose ids that share a hash or a bucket, and nobody can
    find an id from a hash that a killed run leaves on the disk.
    """
    total = sum(partition.rows for _, partition in work)
    # Without any row there is still one bucket.
    with _Buckets(max(1, math.ceil(total / bucket_rows))) as buckets:
        dealt = [
            _deal(file, partition, index, buckets) for index, (file, partition) in enumerate(work)
        ]
        repeated = _repeated_rows(buckets)
    duplicates = repeated[_are_duplicates(repeated, dealt, malformed)]
    rows_of = [np.sort(duplicates["row"][part]) for part in _by_part(duplicates, len(dealt))]
    return [
        replace(partition, marks={**partition.marks, Reason.DUPLICATE: rows})
        for partition, rows in zip(dealt, rows_of, strict=True)
    ]


def _repeated_rows(buckets: _Buckets) -> Records:
    """Return all rows of the clients with several, client by client, in the order of the work."""
    parts = [np.empty(0, _REPEATED)]
    clients = 0
    for bucket in buckets:
        words = np.ascontiguousarray(bucket["hash"]).view(np.uint64).reshape(-1, _WORDS)
        order = _sorted_order(words)
        ordered = words[order]
        # Whether a row is the first of its client; one more stands behind the last row.
        is_new = np.ones(len(words) + 1, np.bool_)
        is_new[1:-1] = (ordered[1:] != ordered[:-1]).any(axis=1)
        begins = is_new[:-1]
        ends = is_new[1:]
        # Alone is a row that begins a client, and before one that begins the next.
        is_repeated = ~(begins & ends)
        rows = order[is_repeated]
        repeated = np.empty(len(rows), _REPEATED)
        repeated["part"] = bucket["part"][rows]
        repeated["row"] = bucket["row"][rows]
        # No client of this bucket is one of another.
        repeated["client"] = clients + np.cumsum(begins)[is_repeated]
        clients += len(words)
        # Rows were dealt in the order in which reports count.
        parts.append(repeated[np.lexsort([rows, repeated["client"]])])
    return np.concatenate(parts)


def _sorted_order(words: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return an order of hashes in which equal ones follow one another."""
    order = np.argsort(words[:, 0])
    ordered = words[order]
    # By the first word alone, which takes half as long, unless it is that of two clients.
    has_same_word = ordered[1:, 0] == ordered[:-1, 0]
    differs = (ordered[1:] != ordered[:-1]).any(axis=1)
    is_shared = has_same_word & differs
    return np.lexsort(words.T) if is_shared.any() else order


def _are_duplicates(
    repeated: Records, partitions: Sequence[Partition], malformed: Malformed
) -> Flags:
    """Return which rows are not the first report of their client."""
    clients = repeated["client"]
    is_last = np.ones(len(repeated), np.bool_)
    is_last[:-1] = clients[:-1] != clients[1:]
    # Whether the last row of a client is a report makes no difference to any other row.
    reports = np.flatnonzero(~_are_malformed(repeated, ~is_last, partitions, malformed))
    is_first = np.ones(len(reports), np.bool_)
    is_first[1:] = clients[reports[1:]] != clients[reports[:-1]]
    is_duplicate = np.ones(len(repeated), np.bool_)
    is_duplicate[reports[is_first]] = False
    return is_duplicate


def _are_malformed(
    repeated: Records, doubted: Flags, partitions: Sequence[Partition], malformed: Malformed
) -> Flags:
    """Return which of the doubted rows are no reports; False for all others."""
    at = np.flatnonzero(doubted)
    parts = [at[part] for part in _by_part(repeated[at], len(partitions))]
    needed = [index for index, part in enumerate(parts) if len(part)]
    is_malformed = np.zeros(len(repeated), np.bool_)
    # As in most collections: workers need not start for nothing.
    if not needed:
        return is_malformed
    malformed_rows = malformed([partitions[index] for index in needed])
    for index, rows in zip(needed, malformed_rows, strict=True):
        part = parts[index]
        is_malformed[part] = np.isin(repeated["row"][part], rows)
    return is_malformed


def _by_part(records: Records, parts: int) -> list[NDArray[np.int64]]:
    """Return the places of the records of each partition."""
    order = np.argsort(records["part"], kind="stable")
    bounds = np.searchsorted(records["part"][order], np.arange(parts + 1))
    return [order[start:end] for start, end in pairwise(bounds)]


class _Buckets:
    """One temporary file to which rows are dealt by their hashes; a with-block removes it.

    Rows of a bucket lie together within each batch: one file serves any number of buckets, where
    systems allow a thousand open ones.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.key = _key()
        with _temporary():
            # Without a name where the system allows it: a kill leaves nothing behind.
            self._file = tempfile.TemporaryFile(prefix="ldpopt-ids-")  # noqa: SIM115 (__exit__)
        self._bounds: list[NDArray[np.int64]] = []
        self._rows = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # What is still in a buffer is not wanted: a full disk must not hide the first error.
        with suppress(OSError):
            self._file.close()

    def deal(self, records: Records) -> None:
        """Append rows to the buckets of their hashes, in their order."""
        # The lower bits of a word are the least mixed: the lowest depends on the lowest bits alone.
        upper = np.ascontiguousarray(records["hash"]).view(np.uint64)[::_WORDS] >> np.uint64(32)
        bucket = upper * np.uint64(self.number) >> np.uint64(32)
        # Stable: within a bucket rows stay in the order in which reports count.
        order = np.argsort(bucket, kind="stable")
        bounds = np.searchsorted(bucket[order], np.arange(self.number + 1))
        with _temporary():
            self._file.write(records[order].tobytes())
        self._bounds.append(self._rows + bounds)
        self._rows += len(records)

    def __iter__(self) -> Iterator[Records]:
        """Yield the rows of each bucket, in the order in which they were dealt."""
        for bucket in range(self.number):
            pieces = [b""]
            for bounds in self._bounds:
                start, end = (int(bound) * _DEALT.itemsize for bound in bounds[bucket : bucket + 2])
                with _temporary():
                    self._file.seek(start)
                    pieces.append(self._file.read(end - start))
            yield np.frombuffer(b"".join(pieces), _DEALT)


@contextmanager
def _temporary() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InvalidInputError(
            f"cannot keep hashes of the client ids, {_DEALT.itemsize} bytes per row, in "
            f"{tempfile.gettempdir()}: {error.strerror or error}; the environment variable TMPDIR "
            "names another folder"
        ) from None


def _deal(file: ReportFile, partition: Partition, index: int, buckets: _Buckets) -> Partition:
    """Deal the rows of a partition by their ids.

    Return the partition with its rows whose id is missing or too long, or with the reason why ids
    cannot be read.
    """
    batches = []
    marks: dict[Reason, list[Rows]] = {Reason.NO_ID: [], Reason.LONG_ID: []}
    row = partition.row
    try:
        for ids in file.ids(partition.first, partition.last):
            records = np.empty(len(ids), _DEALT)
            records["part"] = index
            records["row"] = np.arange(row, row + len(ids))
            records["hash"], codes = _hashed(ids, buckets.key)
            for reason, rows in marks.items():
                rows.append(records["row"][codes == reason])
            batches.append(records[codes == 0])
            row += len(ids)
    except DataUnavailableError as error:
        # All or none: some of a partition's ids would mark the wrong rows as first ones.
        return replace(partition, error=str(error))
    for records in batches:
        buckets.deal(records)
    joined = {reason: np.concatenate([_no_rows(), *rows]) for reason, rows in marks.items()}
    return replace(partition, marks=joined)


def _no_rows() -> Rows:
    return np.empty(0, np.int64)


def _hashed(ids: pa.Array, key: Key) -> tuple[Records, Codes]:
    """Return the hash of each id, and the reason why a row has none."""
    if pa.types.is_dictionary(ids.type):
        # Each entry once, however many rows repeat it; one more for rows without an id.
        entries, entry_codes = _hashed(ids.dictionary, key)
        entries = np.append(entries, np.zeros(1, entries.dtype))
        entry_codes = np.append(entry_codes, np.uint8(Reason.NO_ID))
        at = ids.indices.fill_null(len(ids.dictionary)).to_numpy()
        return entries[at], entry_codes[at]
    # Whole numbers as text: 7 and "7" are one client.
    texts = ids.cast(pa.large_string())
    lengths = pc.binary_length(texts).fill_null(0).to_numpy()
    codes = np.zeros(len(texts), np.uint8)
    codes[lengths > LONGEST_ID] = Reason.LONG_ID
    codes[lengths == 0] = Reason.NO_ID
    hashes = np.zeros(len(texts), _DEALT["hash"])
    good = codes == 0
    kept = texts if good.all() else texts.filter(pa.array(good))
    hashes[good] = _hashes(kept, key)
    return hashes, codes


def _key() -> Key:
    """Return random weights of letters, by word and position.

    Every letter of an id has a weight of its own: that is why ids have a largest length.
    """
    # Without a seed on purpose: nobody can know the weights in advance.
    rng = np.random.default_rng()
    shape = (_WORDS, LONGEST_ID)
    return rng.integers(2**64 - 1, size=shape, dtype=np.uint64, endpoint=True)


def _hashes(ids: pa.Array, key: Key) -> Records:
    """Return the hash of each text: words that are random linear combinations of its bytes.

    Two texts differ in some byte by at most 2^8, so that they agree in a word for at most one key
    in 2^56 (multilinear hashing, Carter and Wegman 1979).
    """
    words = np.empty((len(ids), _WORDS), np.uint64)
    # Few at a time: what is computed of them stays in the processor's cache.
    for start in range(0, len(ids), _TEXTS):
        part = slice(start, start + _TEXTS)
        words[part] = _combinations(ids[part], key)
    return words.view(_DEALT["hash"])[:, 0]


def _combinations(ids: pa.Array, key: Key) -> NDArray[np.uint64]:
    _, offsets, text = ids.buffers()
    # A slice of a column shares its buffers.
    first = ids.offset
    last = first + len(ids)
    ends = np.frombuffer(offsets, np.int64)[first : last + 1]
    letters = np.frombuffer(text, np.uint8)[ends[0] : ends[-1]]
    starts = ends[:-1] - ends[0]
    lengths = np.diff(ends)
    # Of each letter within its own text.
    position = np.arange(len(letters)) - np.repeat(starts, lengths)
    # Plus one, so that zero bytes count.
    factors = letters + np.uint64(1)
    combinations = np.empty((len(ids), _WORDS), np.uint64)
    for word, weights in enumerate(key):
        # 64-bit arithmetic wraps around.
        terms = factors * weights[position]
        # No text is empty: each has a sum of its own.
        combinations[:, word] = np.add.reduceat(terms, starts)
    return combinations

"""What a report is made of: an index, bits, a hash function with a bucket, or a set of values.

The form of an oracle's reports decides how they are checked, counted, stored in files, drawn at
random and enumerated. An oracle therefore adds only what is its own: the probabilities p and q, and
the client.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ldpopt import validate
from ldpopt.errors import InvalidInputError, InvalidTypeError
from ldpopt.oracles.hash_family import bucket_of
from ldpopt.oracles.packed import bit_counts, bit_sums

Array = NDArray[np.float64]
Counts = NDArray[np.int64]
Flags = NDArray[np.bool_]
Reports = NDArray[Any]
Product = Callable[[Array], Array]

_ROWS = 255  # rows whose bits a uint8 counts, at most, without overflow
_CELLS = 1 << 21  # entries held at a time: 16 MB of 64-bit numbers


@dataclass(frozen=True)
class ReportForm(ABC):
    """What a report is made of, and which of ``d`` values it supports.

    Reports are numpy arrays with one row per user. Whatever handles reports without knowing their
    oracle (files, attacks, exhaustive channels) looks its own part up by ``kind``.

    Parameters
    ----------
    d
        Number of values in the domain.
    """

    d: int

    kind: ClassVar[str]
    """``"index"``, ``"bits"``, ``"hash"`` or ``"subset"``."""

    @property
    def parameters(self) -> dict[str, int]:
        """What describes the form besides d. Files keep it, to notice reports of another form."""
        described = asdict(self)
        del described["d"]
        return described

    @property
    def fixed_size(self) -> int | None:
        """How many values every report supports; None where that differs between reports."""
        return None

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]:
        """The smallest numpy type of a report, or of its entries."""

    @property
    @abstractmethod
    def information(self) -> float:
        """Logarithm to base 2 of the number of different reports."""

    @abstractmethod
    def check(self, reports: Reports) -> None:
        """Raise InvalidInputError or InvalidTypeError unless every row is a report of this form."""

    @abstractmethod
    def support_counts(self, reports: Reports) -> Counts:
        """Return how many of the (checked) reports support each value, int64 of shape (d,)."""

    @abstractmethod
    def support_products(self, reports: Reports) -> tuple[Product, Product]:
        """Return f ↦ B f and w ↦ Bᵀ w, with B[i, v] = 1 if report i supports v, else 0."""

    @abstractmethod
    def support_bits(self, reports: Reports) -> NDArray[np.uint8]:
        """Return the rows of B as packed bits, shape (n, ceil(d/8)), as ``BitsForm`` has them."""

    @abstractmethod
    def uniform(self, m: int, rng: np.random.Generator) -> Reports:
        """Draw m reports uniformly from all reports of this form."""

    @abstractmethod
    def supports(self) -> Flags:
        """Return which values each of all possible reports supports, shape (reports, d).

        Their number may grow exponentially with d: for a few values only.
        """


@dataclass(frozen=True)
class IndexForm(ReportForm):
    """One whole number in 0 .. size-1. Here index v supports the value v and no other.

    Oracles whose indices support other values subclass this form and override ``sums`` and
    ``counts``, the products with the 0/1 matrix S of shape (size, d) that says which index supports
    which value. An oracle of this form sends all indices that support the user's value with one
    probability, and all others with another one.

    Parameters
    ----------
    d
        Number of values in the domain.
    size
        Number of indices.

    Examples
    --------
    >>> IndexForm(d=3, size=3).support_counts(np.array([2, 0, 2]))
    array([1, 0, 2])
    """

    size: int

    kind = "index"

    def sums(self, f: Array) -> Array:
        """Return S f: for each index the sum of f, shape (..., d), over the values it supports."""
        return f

    def counts(self, weights: Array) -> Array:
        """Return Sᵀ w: for each value the sum of weights over the indices that support it.

        Weights have shape (..., size).
        """
        return weights

    def together(self, weights: Array) -> Array:
        """Return Sᵀ diag(w) S, (d, d): for two values the weights of indices that support both."""
        supported = self.sums(np.eye(self.d))
        return np.asarray((supported * weights) @ supported.T)

    @property
    def fixed_size(self) -> int | None:
        """How many values every index supports; None where that differs."""
        sizes = self.sums(np.ones(self.d))
        # Sums of ones are exact: equality needs no tolerance.
        is_fixed = (sizes == sizes[0]).all()
        return round(float(sizes[0])) if is_fixed else None

    @property
    def dtype(self) -> np.dtype[Any]:
        """The smallest unsigned type that holds all indices."""
        return np.min_scalar_type(self.size - 1)

    @property
    def information(self) -> float:
        """log₂ of the number of indices."""
        return math.log2(self.size)

    def check(self, reports: Reports) -> None:
        """Raise an error unless the reports are indices."""
        _check_integers(reports, high=self.size - 1)

    def support_counts(self, reports: Reports) -> Counts:
        """Count indices first, so that the cost of ``counts`` does not grow with n."""
        # Sums of whole numbers below 2⁵³ are exact in floats.
        counts = self.counts(self.histogram(reports).astype(np.float64))
        return np.rint(counts).astype(np.int64)

    def histogram(self, reports: Reports) -> Counts:
        """Return how many of the (checked) reports are each index, int64 of shape (size,)."""
        return np.bincount(_positions(reports), minlength=self.size).astype(np.int64)

    def support_products(self, reports: Reports) -> tuple[Product, Product]:
        """Return the products, each with S or Sᵀ once and n additions."""

        def forward(f: Array) -> Array:
            return self.sums(f)[reports]

        def back(w: Array) -> Array:
            # Without reports bincount returns whole numbers.
            histogram = np.bincount(_positions(reports), w, self.size).astype(np.float64)
            return self.counts(histogram)

        return forward, back

    def support_bits(self, reports: Reports) -> NDArray[np.uint8]:
        """Return the rows of S that the indices stand for."""
        each_once = np.eye(self.size)[_positions(reports)]
        return np.packbits(self.counts(each_once) > 0.5, axis=1)

    def uniform(self, m: int, rng: np.random.Generator) -> Reports:
        """Draw indices."""
        return rng.integers(self.size, size=m)

    def supports(self) -> Flags:
        """Return S."""
        return self.sums(np.eye(self.d)).T > 0.5


@dataclass(frozen=True)
class BitsForm(ReportForm):
    """One bit per value, packed into ceil(d/8) bytes.

    The first value is the highest bit of the first byte. A report supports the values whose bits
    are 1. An oracle of this form draws its bits independently of each other.

    Examples
    --------
    >>> BitsForm(d=4).support_counts(np.array([[0b10100000], [0b10000000]], dtype=np.uint8))
    array([2, 0, 1, 0])
    """

    kind = "bits"

    @property
    def dtype(self) -> np.dtype[Any]:
        """Bytes."""
        return np.dtype(np.uint8)

    @property
    def width(self) -> int:
        """Number of bytes of a report."""
        return -(-self.d // 8)

    @property
    def padding(self) -> int:
        """The bits of the last byte that belong to no value."""
        return 0xFF >> ((self.d - 1) % 8 + 1)

    @property
    def information(self) -> float:
        """One bit per value."""
        return float(self.d)

    def check(self, reports: Reports) -> None:
        """Raise an error unless the reports are bytes with no bit beyond the domain."""
        if reports.ndim == 2 and reports.shape[1] == self.d > self.width:
            raise InvalidInputError(
                f"reports of this oracle have shape (n, {self.width}), got {reports.shape}, one "
                "number per value: pack the bits by np.packbits(reports, axis=1)"
            )
        _check_integers(reports, high=255, columns=self.width)
        stray = reports[:, -1] & self.padding != 0
        if stray.any():
            raise InvalidInputError(
                f"report {int(np.argmax(stray))} has bits beyond its {self.d} values: it was made "
                "for a larger domain"
            )

    def support_counts(self, reports: Reports) -> Counts:
        """Add up unpacked rows, as many at a time as a byte can count."""
        counts = np.zeros(self.d, dtype=np.int64)
        for start in range(0, len(reports), _ROWS):
            rows = reports[start : start + _ROWS].astype(np.uint8, copy=False)
            # In bytes, an eighth of the memory of 64-bit sums: so no more rows than a byte counts.
            bits = np.unpackbits(rows, axis=1, count=self.d)
            counts += np.add.reduce(bits, axis=0, dtype=np.uint8)
        return counts

    def support_products(self, reports: Reports) -> tuple[Product, Product]:
        """Return the products with a copy of the bits by columns."""
        # By columns, since a product reads eight values of all reports at a time.
        bits = np.ascontiguousarray(reports.T, dtype=np.uint8)
        return _products_with_bits(bits, self.d)

    def support_bits(self, reports: Reports) -> NDArray[np.uint8]:
        """Return the reports."""
        return reports.astype(np.uint8, copy=False)

    def uniform(self, m: int, rng: np.random.Generator) -> Reports:
        """Draw fair bits."""
        bits = rng.integers(2, size=(m, self.d), dtype=np.uint8)
        return np.packbits(bits, axis=1)

    def supports(self) -> Flags:
        """Return all 2^d rows of bits."""
        rows = itertools.product([False, True], repeat=self.d)
        return np.array(list(rows))


@dataclass(frozen=True)
class HashForm(ReportForm):
    """A record of a 64-bit ``seed``, which selects a hash function, and one of ``g`` buckets.

    A report supports the values that its hash function sends to its bucket. The server evaluates
    n·d hashes in a compiled kernel on all cores, at about a nanosecond per hash.

    Parameters
    ----------
    d
        Number of values in the domain.
    g
        Number of buckets.
    """

    g: int

    kind = "hash"

    @property
    def dtype(self) -> np.dtype[Any]:
        """The record."""
        bucket = np.min_scalar_type(self.g - 1)
        return np.dtype([("seed", np.uint64), ("bucket", bucket)])

    @property
    def information(self) -> float:
        """64 bits of seed and log₂ g of bucket."""
        return 64 + math.log2(self.g)

    def check(self, reports: Reports) -> None:
        """Raise an error unless the reports are records with a bucket below g."""
        if reports.dtype.names != ("seed", "bucket"):
            raise InvalidTypeError(
                f"reports of local hashing are records of seed and bucket, {self.dtype}; got an "
                f"array of {reports.dtype}"
            )
        for field in ("seed", "bucket"):
            kind = reports.dtype[field]
            if kind.kind not in "iu":
                raise InvalidTypeError(
                    f"field {field!r} of the reports must be whole numbers, got {kind}"
                )
        if reports.ndim != 1:
            raise InvalidInputError(f"reports of this oracle have shape (n,), got {reports.shape}")
        buckets = reports["bucket"]
        is_wrong = (buckets < 0) | (buckets >= self.g)
        if is_wrong.any():
            at = int(np.argmax(is_wrong))
            raise InvalidInputError(
                f"report {at} is out of range: bucket {buckets[at]}, expected 0 .. {self.g - 1}; "
                "were these reports made with another g or epsilon?"
            )

    def records(self, seeds: NDArray[np.uint64], buckets: NDArray[Any]) -> Reports:
        """Return reports of these seeds and buckets."""
        reports = np.empty(len(seeds), dtype=self.dtype)
        reports["seed"] = seeds
        reports["bucket"] = buckets
        return reports

    def buckets(self, seeds: NDArray[np.uint64], values: NDArray[Any]) -> Counts:
        """Return the bucket of each value under the hash function of each seed, broadcast."""
        hashed = bucket_of(seeds, values.astype(np.uint64), np.uint64(self.g))
        return np.asarray(hashed.astype(np.int64))

    def support_counts(self, reports: Reports) -> Counts:
        """Evaluate n·d hashes."""
        # Imported here because it loads numba, which only servers of local hashing need.
        from ldpopt.oracles.hash_kernel import hashed_support_counts

        seeds, buckets = _fields(reports)
        return hashed_support_counts(seeds, buckets, self.d, self.g)

    def support_products(self, reports: Reports) -> tuple[Product, Product]:
        """Return the products with the bits of support: reading them beats hashing again."""
        from ldpopt.oracles.hash_kernel import hashed_support_bits

        seeds, buckets = _fields(reports)
        bits = hashed_support_bits(seeds, buckets, self.d, self.g)
        return _products_with_bits(bits, self.d)

    def support_bits(self, reports: Reports) -> NDArray[np.uint8]:
        """Evaluate n·d hashes."""
        from ldpopt.oracles.hash_kernel import hashed_support_bits

        seeds, buckets = _fields(reports)
        bits = hashed_support_bits(seeds, buckets, self.d, self.g).T
        # The kernel goes on to values beyond the domain, up to the end of a byte.
        bits[:, -1] &= 0xFF ^ BitsForm(self.d).padding
        return bits

    def uniform(self, m: int, rng: np.random.Generator) -> Reports:
        """Draw seeds and buckets."""
        # The seed is as free as the bucket: a client draws it first.
        seeds = rng.integers(2**64, size=m, dtype=np.uint64)
        buckets = rng.integers(self.g, size=m)
        return self.records(seeds, buckets)

    def supports(self) -> Flags:
        """Return the supports of every function from values to buckets with every bucket."""
        # An ideal family: all functions. The real one of 2⁶⁴ seeds cannot be enumerated.
        functions = itertools.product(range(self.g), repeat=self.d)
        bucket_of_value = np.array(list(functions))
        buckets = np.arange(self.g)
        supported = bucket_of_value[:, None, :] == buckets[:, None]
        return np.asarray(supported.reshape(-1, self.d))


@dataclass(frozen=True)
class SubsetForm(ReportForm):
    """``k`` distinct values in ascending order, which are those that the report supports.

    Parameters
    ----------
    d
        Number of values in the domain.
    k
        Number of values in a report.

    Examples
    --------
    >>> SubsetForm(d=4, k=2).support_counts(np.array([[0, 1], [1, 3]]))
    array([1, 2, 0, 1])
    """

    k: int

    kind = "subset"

    @property
    def fixed_size(self) -> int:
        """The size k."""
        return self.k

    @property
    def dtype(self) -> np.dtype[Any]:
        """The smallest unsigned type that holds all values."""
        return np.min_scalar_type(self.d - 1)

    @property
    def information(self) -> float:
        """log₂ of the number of k-subsets."""
        # By logarithms: the binomial coefficient itself may exceed all floats.
        all_orders = math.lgamma(self.d + 1)
        chosen = math.lgamma(self.k + 1) + math.lgamma(self.d - self.k + 1)
        return (all_orders - chosen) / math.log(2)

    def check(self, reports: Reports) -> None:
        """Raise an error unless every row is k values in strictly ascending order."""
        _check_integers(reports, high=self.d - 1, columns=self.k)
        # Equal neighbours count as descending: a value twice would be supported twice.
        descends = reports[:, 1:] <= reports[:, :-1]
        unordered = descends.any(axis=1)
        if unordered.any():
            raise InvalidInputError(
                f"report {int(np.argmax(unordered))} is not a set in ascending order: {self.k} "
                "distinct values are expected"
            )

    def support_counts(self, reports: Reports) -> Counts:
        """Count values."""
        counts = np.zeros(self.d, dtype=np.int64)
        for block in self._blocks(reports):
            positions = _positions(reports[block])
            counts += np.bincount(positions, minlength=self.d)
        return counts

    def support_products(self, reports: Reports) -> tuple[Product, Product]:
        """Return the products, each of n·k additions."""

        def forward(f: Array) -> Array:
            sums = np.empty(len(reports))
            for block in self._blocks(reports):
                members = reports[block]
                sums[block] = f[members].sum(axis=1)
            return sums

        def back(w: Array) -> Array:
            counts = np.zeros(self.d)
            for block in self._blocks(reports):
                positions = _positions(reports[block])
                # Every value of a report has the weight of its user.
                weights = np.repeat(w[block], self.k)
                counts += np.bincount(positions, weights, minlength=self.d)
            return counts

        return forward, back

    def support_bits(self, reports: Reports) -> NDArray[np.uint8]:
        """Set the bits of the members, for a bounded number of rows at a time."""
        bits = np.empty((len(reports), -(-self.d // 8)), dtype=np.uint8)
        step = max(1, _CELLS // self.d)
        for start in range(0, len(reports), step):
            rows = reports[start : start + step].astype(np.intp)
            flags = np.zeros((len(rows), self.d), dtype=np.uint8)
            np.put_along_axis(flags, rows, 1, axis=1)
            bits[start : start + step] = np.packbits(flags, axis=1)
        return bits

    def unpacked(self, bits: NDArray[np.uint8]) -> Reports:
        """Return the sets of rows of packed bits, k of them 1: the inverse of ``support_bits``."""
        reports = np.empty((len(bits), self.k), dtype=self.dtype)
        step = max(1, _CELLS // self.d)
        for start in range(0, len(bits), step):
            rows = bits[start : start + step]
            flags = np.unpackbits(rows, axis=1, count=self.d)
            # Row-major positions list each row's members in ascending order.
            positions = np.flatnonzero(flags).reshape(-1, self.k)
            first = self.d * np.arange(len(rows))
            reports[start : start + step] = positions - first[:, None]
        return reports

    def _blocks(self, reports: Reports) -> list[slice]:
        # bincount copies its input to 64 bits, so only a bounded number of rows is counted at a
        # time.
        step = max(1, _CELLS // self.k)
        return [slice(start, start + step) for start in range(0, len(reports), step)]

    def uniform(self, m: int, rng: np.random.Generator) -> Reports:
        """Draw subsets."""
        # Without wanted values the keys alone decide: uniform sets.
        none_wanted = np.zeros(self.d, dtype=np.bool_)
        blocks = draw_sets(none_wanted, self.k, m, rng)
        return self.members(*blocks)

    def members(self, *blocks: Flags) -> Reports:
        """Return the sets that rows of flags, k of them set, stand for."""
        sets = []
        for flags in blocks:
            _, values = np.nonzero(flags)
            sets.append(values.reshape(-1, self.k))
        return np.concatenate(sets)

    def supports(self) -> Flags:
        """Return all k-subsets."""
        domain = np.arange(self.d)
        subsets = itertools.combinations(range(self.d), self.k)
        return np.array([np.isin(domain, members) for members in subsets])


def draw_sets(
    wanted: Flags,
    k: int,
    m: int,
    rng: np.random.Generator,
) -> list[Flags]:
    """Return m uniform sets of k values that hold as many wanted ones as fit.

    Parameters
    ----------
    wanted
        Which values come first, shape (d,).
    k, m
        Size and number of the sets.
    rng
        Source of d random numbers per set.

    Returns
    -------
    Blocks of rows of flags, m rows in all.

    Examples
    --------
    >>> draw_sets(np.array([False, True, False]), 1, 2, np.random.default_rng(0))
    [array([[False,  True, False],
           [False,  True, False]])]
    """
    d = len(wanted)
    blocks = []
    # Half as many as elsewhere, since keys and their order are held side by side.
    step = max(1, _CELLS // 2 // d)
    for start in range(0, m, step):
        rows = min(step, m - start)
        # Wanted values have keys below 0 and so come before all others.
        keys = rng.random((rows, d)) - wanted
        # A partition is enough, and faster than sorting: sets have no order.
        ordered = np.argpartition(keys, k - 1, axis=1)
        flags = np.zeros(keys.shape, dtype=np.bool_)
        np.put_along_axis(flags, ordered[:, :k], True, axis=1)
        blocks.append(flags)
    return blocks


def _products_with_bits(bits: NDArray[np.uint8], d: int) -> tuple[Product, Product]:
    """Return the products with B of d columns, whose bits are packed by columns of bytes."""

    def forward(f: Array) -> Array:
        return bit_sums(bits, f)

    def back(w: Array) -> Array:
        return bit_counts(bits, w, d)

    return forward, back


def _fields(reports: Reports) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return seeds and buckets as the kernels take them."""
    seeds = np.ascontiguousarray(reports["seed"], dtype=np.uint64)
    buckets = np.ascontiguousarray(reports["bucket"], dtype=np.uint64)
    return seeds, buckets


def _check_integers(reports: Reports, *, high: int, columns: int | None = None) -> None:
    """Raise an error unless reports are integers in 0 .. high of shape (n,), or (n, columns)."""
    if reports.dtype.kind not in "iu":
        raise InvalidTypeError(
            f"reports must be an array of whole numbers, got an array of {reports.dtype}"
        )
    if columns is None:
        has_shape = reports.ndim == 1
        expected = "(n,)"
    else:
        has_shape = reports.ndim == 2 and reports.shape[1] == columns
        expected = f"(n, {columns})"
    if not has_shape:
        raise InvalidInputError(
            f"reports of this oracle have shape {expected}, got {reports.shape}"
        )
    if not reports.size:
        return
    # Extremes first, in one pass each; the first bad report is searched for only if there is one.
    if reports.min() < 0 or reports.max() > high:
        at = validate.first((reports < 0) | (reports > high))
        raise InvalidInputError(
            f"report {int(at[0])} is out of range: found {reports[at]}, expected 0 .. {high}"
        )


def _positions(indices: Reports) -> NDArray[np.intp]:
    """Return checked indices as one row of the type that ``bincount`` counts."""
    # numpy below 2.3 refuses unsigned numbers of 64 bits; smaller ones it copies to this type too.
    return indices.reshape(-1).astype(np.intp, copy=False)

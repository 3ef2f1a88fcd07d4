"""Local hashing: a public hash to g buckets for every user, randomised response on the bucket."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ldpopt import validate
from ldpopt.errors import InvalidInputError, InvalidTypeError
from ldpopt.oracles import randomness
from ldpopt.oracles.base import (
    IDEAL_HASH,
    Counts,
    FrequencyOracle,
    Product,
    Reports,
    budget,
    simulate_independent,
)
from ldpopt.oracles.grr import respond
from ldpopt.oracles.hash_family import bucket_of
from ldpopt.oracles.packed import bit_counts, bit_sums
from ldpopt.oracles.rational import exp_below, word_below

_LARGEST_G = 2**31  # buckets are computed from 32 bits of the hash


class LocalHashing(FrequencyOracle):
    """Local hashing with g buckets: p = e^ε/(e^ε+g-1), q = 1/g.

    A report is a record of a 64-bit ``seed``, which selects the user's hash function, and the randomised ``bucket``. It
    supports every value that the hash sends to the bucket. The server evaluates n·d hashes in a compiled kernel on all
    cores; about a nanosecond each. p is the largest of 64 bits that has p (g-1)/(1-p) <= e^ε: privacy rests on it alone,
    whatever the hash functions. That other values are supported with q = 1/g is true of an ideal family; this one keeps it
    to 2⁻³² and as far as the tests can see.
    """

    simulation = IDEAL_HASH

    def __init__(self, epsilon: float, d: int, g: int) -> None:
        epsilon = budget(epsilon)
        self.g = validate.integer("g (the number of buckets)", g, minimum=2)
        if self.g > _LARGEST_G:
            raise InvalidInputError(
                f"g = {g} buckets are more than {_LARGEST_G}: use a smaller epsilon"
            )
        ratio = exp_below(epsilon)
        p = word_below(ratio / (ratio + self.g - 1))
        super().__init__(epsilon, d, p=p, q=Fraction(1, self.g), both=p / self.g)
        self._dtype = np.dtype([("seed", np.uint64), ("bucket", np.min_scalar_type(self.g - 1))])

    @property
    def report_bits(self) -> float:
        """64 bits of seed and log₂ g of bucket."""
        return 64 + math.log2(self.g)

    @property
    def pair_support(self) -> tuple[float, float]:
        """Under an ideal hash buckets are independent: pq and q²."""
        return self.p * self.q, self.q**2

    def _perturb(self, values: NDArray[np.int64], rng: randomness.Rng) -> Reports:
        reports = np.empty(len(values), dtype=self._dtype)
        reports["seed"] = randomness.words(rng, len(values))
        bucket = bucket_of(reports["seed"], values.astype(np.uint64), np.uint64(self.g)).astype(
            np.int64
        )
        reports["bucket"] = respond(bucket, self.g, self.exact_p, rng)
        return reports

    def _check_reports(self, reports: NDArray[Any]) -> None:
        if reports.dtype.names != ("seed", "bucket"):
            raise InvalidTypeError(
                f"reports of local hashing are records of seed and bucket, {self._dtype}; got an array of {reports.dtype}"
            )
        for field in ("seed", "bucket"):
            if reports.dtype[field].kind not in "iu":
                raise InvalidTypeError(
                    f"field {field!r} of the reports must be whole numbers, got {reports.dtype[field]}"
                )
        if reports.ndim != 1:
            raise InvalidInputError(f"reports of this oracle have shape (n,), got {reports.shape}")
        wrong = (reports["bucket"] < 0) | (reports["bucket"] >= self.g)
        if wrong.any():
            at = int(np.argmax(wrong))
            raise InvalidInputError(
                f"report {at} is out of range: bucket {reports['bucket'][at]}, expected 0 .. {self.g - 1}; "
                "were these reports made with another g or epsilon?"
            )

    def _support_counts(self, reports: Reports) -> Counts:
        from ldpopt.oracles.hash_kernel import (
            hashed_support_counts,  # compiles with numba: only when hashing is used
        )

        return hashed_support_counts(*_fields(reports), self.d, self.g)

    def _support_products(self, reports: Reports) -> tuple[Product, Product]:
        from ldpopt.oracles.hash_kernel import hashed_support_bits

        bits = hashed_support_bits(
            *_fields(reports), self.d, self.g
        )  # read many times faster than hashed again
        return lambda f: bit_sums(bits, f), lambda w: bit_counts(bits, w, self.d)

    def _simulate(self, true_counts: Counts, rng: np.random.Generator, trials: int) -> Counts:
        return simulate_independent(true_counts, self.p, self.q, rng, trials)


def _fields(reports: Reports) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return seeds and buckets as the kernels take them."""
    seeds = np.ascontiguousarray(reports["seed"], dtype=np.uint64)
    return seeds, np.ascontiguousarray(reports["bucket"], dtype=np.uint64)


class OLH(LocalHashing):
    """Optimised local hashing (Wang et al. 2017; N III-B) with g near e^ε + 1, at least 2.

    Parameters
    ----------
    epsilon, d
        Privacy budget and domain size.
    rounding
        ``"nearest"`` integer to e^ε + 1 (N) or its ``"floor"`` (D).

    Examples
    --------
    >>> OLH(epsilon=1.0, d=1024).g, OLH(epsilon=1.0, d=1024, rounding="floor").g
    (4, 3)
    """

    def __init__(
        self, epsilon: float, d: int, *, rounding: Literal["nearest", "floor"] = "nearest"
    ) -> None:
        offset = validate.lookup(
            "rounding", rounding, {"nearest": Fraction(1, 2), "floor": Fraction(0)}
        )
        target = (
            exp_below(budget(epsilon)) + 1
        )  # in fractions: client and server agree on g on whatever machines
        super().__init__(epsilon, d, g=max(2, math.floor(target + offset)))


class BLH(LocalHashing):
    """Binary local hashing: g = 2, also known as random matrix projection (Bassily and Smith 2015).

    Examples
    --------
    >>> BLH(epsilon=1.0, d=1024).q
    0.5
    """

    def __init__(self, epsilon: float, d: int) -> None:
        super().__init__(epsilon, d, g=2)

"""Hadamard response: one index into a row of the Hadamard matrix, decoded by a fast transform."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ldpopt import validate
from ldpopt.oracles import randomness
from ldpopt.oracles.base import Counts, FrequencyOracle, Product, Reports, budget, check_integer_reports
from ldpopt.oracles.exact import exp_below, word_below

Number = TypeVar("Number", np.int64, np.float64)


class HadamardResponse(FrequencyOracle):
    """Hadamard response (Acharya, Sun, Zhang 2019): p = e^ε/(e^ε+1), q = 1/2.

    Value v owns row v+1 of the K x K Sylvester-Hadamard matrix, K the smallest power of two above d. A report is an index
    in 0 .. K-1, uniform among the columns where the row is +1 with probability p and among the others otherwise; it
    supports the values whose rows are +1 there, half of which any two rows share. p is the largest of 64 bits that has
    p/(1-p) <= e^ε.

    Examples
    --------
    >>> oracle = HadamardResponse(epsilon=1.0, d=1024)
    >>> oracle.columns, oracle.report_bits
    (2048, 11.0)
    """

    def __init__(self, epsilon: float, d: int) -> None:
        epsilon = budget(epsilon)
        d = validate.integer("d (the number of values)", d, minimum=2)
        ratio = exp_below(epsilon)
        p = word_below(ratio / (ratio + 1))
        super().__init__(epsilon, d, p=p, q=Fraction(1, 2), both=p / 2)
        self.columns = 1 << d.bit_length()
        self._dtype = np.min_scalar_type(self.columns - 1)

    @property
    def report_bits(self) -> float:
        """log₂ K."""
        return math.log2(self.columns)

    def _perturb(self, values: NDArray[np.int64], rng: randomness.Rng) -> Reports:
        row = values + 1
        index = randomness.below(rng, self.columns, len(values))
        positive = np.bitwise_count(index & row) & 1 == 0
        wanted = randomness.bernoulli(rng, self.exact_p, len(values))
        # Flipping one bit that the row has changes the sign and maps one half of the columns onto the other.
        return np.where(positive == wanted, index, index ^ (row & -row)).astype(self._dtype)

    def _check_reports(self, reports: NDArray[Any]) -> None:
        check_integer_reports(reports, high=self.columns - 1)

    def _support_counts(self, reports: Reports) -> Counts:
        signs = walsh_hadamard(np.bincount(reports, minlength=self.columns))
        return (len(reports) + signs[1 : self.d + 1]) // 2

    def _support_products(self, reports: Reports) -> tuple[Product, Product]:
        def forward(f: NDArray[np.float64]) -> NDArray[np.float64]:
            rows = np.zeros(self.columns)
            rows[1 : self.d + 1] = f
            rows[0] = f.sum()  # row 0 is +1 everywhere
            return np.asarray(walsh_hadamard(rows)[reports] / 2)

        def back(w: NDArray[np.float64]) -> NDArray[np.float64]:
            signs = walsh_hadamard(np.bincount(reports, w, self.columns))
            return np.asarray((signs[0] + signs[1 : self.d + 1]) / 2)

        return forward, back


def walsh_hadamard(x: NDArray[Number]) -> NDArray[Number]:
    """Return H x for the Sylvester-Hadamard matrix, H[i, j] = (-1)^popcount(i & j). Cost: K log₂ K additions.

    Examples
    --------
    >>> walsh_hadamard(np.array([1, 0, 0, 2]))
    array([ 3, -1, -1,  3])
    """
    result = x
    half = 1
    while half < len(result):
        pairs = result.reshape(-1, 2, half)
        result = np.stack((pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]), axis=1).reshape(-1)
        half *= 2
    return result

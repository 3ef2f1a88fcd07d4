"""Hadamard response: one index into a row of the Hadamard matrix, decoded by a fast transform."""

from __future__ import annotations

from fractions import Fraction
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ldpopt import validate
from ldpopt.oracles import randomness
from ldpopt.oracles.base import FrequencyOracle, budget
from ldpopt.oracles.forms import IndexForm, Reports
from ldpopt.oracles.rational import exp_below, word_below

Array = NDArray[np.float64]
Number = TypeVar("Number", np.int64, np.float64)


class HadamardResponse(FrequencyOracle):
    """Hadamard response (Acharya, Sun, Zhang 2019): p = e^ε/(e^ε+1), q = 1/2.

    Value v owns row v+1 of the K x K Sylvester-Hadamard matrix, K the smallest power of two above
    d. A report is an index in 0 .. K-1, uniform among the columns where the row is +1 with
    probability p and among the others otherwise; it supports the values whose rows are +1 there.
    Any two rows are +1 together in a quarter of the columns. p is the largest multiple of 2⁻⁶⁴ for
    which p/(1-p) <= e^ε.

    Examples
    --------
    >>> oracle = HadamardResponse(epsilon=1.0, d=1024)
    >>> oracle.columns, oracle.report_bits
    (2048, 11.0)
    """

    name = "hr"
    exchangeable = False  # three values whose rows multiply to +1 are supported together more often

    def __init__(self, epsilon: float, d: int) -> None:
        epsilon = budget(epsilon)
        d = validate.integer("d (the number of values)", d, minimum=2)
        # Rounded down here and in p: rounding never costs privacy.
        ratio = exp_below(epsilon)
        p = word_below(ratio / (ratio + 1))
        super().__init__(epsilon, d, p=p, q=Fraction(1, 2), both=p / 2)
        self.columns = 1 << d.bit_length()

    @property
    def report_form(self) -> HadamardForm:
        """A column."""
        return HadamardForm(self.d, size=self.columns)

    @property
    def pair_support(self) -> tuple[float, float]:
        """Rows are orthogonal: pq and q², unless the user's row is the product of the two."""
        return self.p * self.q, self.q**2

    @property
    def largest_size_variance(self) -> float:
        """(d + (2p-1)(d-1) - (2p-1)²)/4: no user's variance of the number of values is larger.

        A column supports (d + W)/2 values, with W the sum of d rows there. For the user of row v
        it has the probability (1 + (2p-1) H_v)/K. Rows are orthogonal, so that E[W] = 2p-1 and
        E[W²] = d + (2p-1) T, with T the number of pairs of the d rows whose product is row v: each
        row but v itself is in at most one, thus T <= d-1.
        """
        tilt = 2 * self.p - 1
        return (self.d + tilt * (self.d - 1) - tilt**2) / 4

    def _perturb(self, values: NDArray[np.int64], rng: randomness.Rng) -> Reports:
        row = values + 1
        index = randomness.below(rng, self.columns, len(values))
        parity = np.bitwise_count(index & row) & 1
        is_positive = parity == 0
        wanted = randomness.bernoulli(rng, self.exact_p, len(values))
        # Flipping one bit that the row has changes the sign and maps one half of the columns onto
        # the other.
        lowest_bit = row & -row
        flipped = index ^ lowest_bit
        reports = np.where(is_positive == wanted, index, flipped)
        return reports.astype(self.report_form.dtype)


class HadamardForm(IndexForm):
    """A column of the Hadamard matrix. It supports the values whose rows are +1 there."""

    def sums(self, f: Array) -> Array:
        """Return S f by a transform, with S = (1 + H)/2."""
        rows = np.zeros((*f.shape[:-1], self.size))
        rows[..., 1 : self.d + 1] = f
        rows[..., 0] = f.sum(axis=-1)  # row 0 is +1 everywhere
        return walsh_hadamard(rows) / 2

    def counts(self, weights: Array) -> Array:
        """Return Sᵀ w by a transform."""
        signs = walsh_hadamard(weights)
        total = signs[..., :1]  # row 0 is +1 everywhere
        of_values = signs[..., 1 : self.d + 1]
        return (total + of_values) / 2

    def together(self, weights: Array) -> Array:
        """Return Sᵀ diag(w) S by one transform: the product of two rows is a row too."""
        signs = walsh_hadamard(weights)
        rows = np.arange(1, self.d + 1)
        of_values = signs[rows]
        both = signs[rows[:, None] ^ rows]
        return np.asarray((signs[0] + of_values[:, None] + of_values + both) / 4)


def walsh_hadamard(x: NDArray[Number]) -> NDArray[Number]:
    """Return H x for the Sylvester-Hadamard matrix, H[i, j] = (-1)^popcount(i & j).

    The last axis of x has a power of two K of entries. Cost: K log₂ K additions per vector.

    Examples
    --------
    >>> walsh_hadamard(np.array([1, 0, 0, 2]))
    array([ 3, -1, -1,  3])
    """
    result = x
    # Butterflies of doubling width: each step adds and subtracts pairs of blocks.
    half = 1
    while half < x.shape[-1]:
        pairs = result.reshape(-1, 2, half)
        first = pairs[:, 0]
        second = pairs[:, 1]
        result = np.stack((first + second, first - second), axis=1)
        half *= 2
    return result.reshape(x.shape)

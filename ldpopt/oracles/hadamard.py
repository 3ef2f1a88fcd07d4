"""Hadamard response: one index into a row of the Hadamard matrix, decoded by a fast transform."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ldpopt import validate
from ldpopt.closed_form import norm_sub
from ldpopt.oracles import randomness
from ldpopt.oracles.base import (
    Counts,
    FrequencyOracle,
    Product,
    Reports,
    budget,
    check_integer_reports,
)
from ldpopt.oracles.rational import exp_below, word_below

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Array = NDArray[np.float64]
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

    @property
    def pair_support(self) -> tuple[float, float]:
        """Rows are orthogonal: pq and q². A value whose row is the product of theirs adds (p-q)/2: ``answer_variance``."""
        return self.p * self.q, self.q**2

    def answer_variance(
        self, frequencies: Array, members: csr_array | None = None, *, centred: bool = False
    ) -> tuple[Array, Array]:
        """Return (α, β) as every protocol, with estimates in the part of α that depends on other values' frequencies.

        The counts of u and v vary together through the users of the value whose row is the product of theirs:
        n Cov[f̃_u, f̃_v] = f_{u∘v}/(2(p-q)). With T[u, v] = f_{u∘v}, diagonal in the Hadamard basis, α gains wᵀTw/(2(p-q)); for f
        stand the estimates after Norm-Sub. Cost: a transform a trial, and for sets one a set and K operations per trial and
        set.
        """
        constant, slope = super().answer_variance(frequencies, members, centred=centred)
        if members is None and not centred:
            return constant, slope
        rows = np.zeros((*frequencies.shape[:-1], self.columns))
        rows[..., 1 : self.d + 1] = norm_sub(frequencies)
        spectrum = walsh_hadamard(rows)
        all_values = np.zeros(self.columns)
        all_values[1 : self.d + 1] = 1.0
        flat = walsh_hadamard(all_values)
        size: Array
        if members is None:
            size, within = np.ones(1), np.zeros(1)  # T[u, u] = f of row 0, which no value has
        else:
            size, within = (
                np.asarray(members.sum(axis=1)),
                np.empty((*spectrum.shape[:-1], members.shape[0])),
            )
            indicator = np.zeros(self.columns)
            for i in range(members.shape[0]):
                indicator[1 : self.d + 1] = members[[i]].toarray()[0]
                within[..., i] = spectrum @ (walsh_hadamard(indicator) ** 2) / self.columns
        if centred:
            share = size / self.d
            across = walsh_hadamard(spectrum * flat)[..., 1 : self.d + 1] / self.columns  # T 1
            crossed = (
                across
                if members is None
                else (members @ across.reshape(-1, self.d).T).T.reshape(within.shape)
            )
            whole = (spectrum @ flat**2 / self.columns)[..., None]
            within = within - 2 * share * crossed + share**2 * whole
        return constant + within / (2 * (self.p - self.q)), slope

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
    """Return H x for the Sylvester-Hadamard matrix, H[i, j] = (-1)^popcount(i & j), along the last axis of shape (..., K).

    Cost: K log₂ K additions a vector.

    Examples
    --------
    >>> walsh_hadamard(np.array([1, 0, 0, 2]))
    array([ 3, -1, -1,  3])
    """
    result = x
    half = 1
    while half < x.shape[-1]:
        pairs = result.reshape(-1, 2, half)
        result = np.stack((pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]), axis=1)
        half *= 2
    return result.reshape(x.shape)

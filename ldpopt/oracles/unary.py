"""Unary encoding: one bit per value, each flipped independently."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ldpopt.oracles import randomness
from ldpopt.oracles.base import AGGREGATE, Counts, FrequencyOracle, budget, simulate_independent
from ldpopt.oracles.forms import BitsForm, Reports
from ldpopt.oracles.rational import exp_below, word_below


class UnaryEncoding(FrequencyOracle):
    """Symmetric or optimised unary encoding: a report is d bits in ceil(d/8) bytes."""

    simulation = AGGREGATE
    exchangeable = True

    @property
    def report_form(self) -> BitsForm:
        """One bit per value."""
        return BitsForm(self.d)

    @property
    def pair_support(self) -> tuple[float, float]:
        """Bits are flipped independently: pq and q²."""
        return self.p * self.q, self.q**2

    def _perturb(self, values: NDArray[np.int64], rng: randomness.Rng) -> Reports:
        reports = randomness.packed_bernoulli(rng, self.exact_q, len(values), self.d)
        # Every bit has been drawn as another value's; the own bit is overwritten.
        rows = np.arange(len(values))
        byte = values >> 3
        mask = (0x80 >> (values & 7)).astype(np.uint8)
        drawn = reports[rows, byte]
        kept = randomness.bernoulli(rng, self.exact_p, len(values))
        reports[rows, byte] = np.where(kept, drawn | mask, drawn & ~mask)
        return reports

    def _simulate(
        self,
        true_counts: Counts,
        rng: np.random.Generator,
        trials: int,
    ) -> Counts:
        return simulate_independent(true_counts, self.p, self.q, rng, trials)


class SUE(UnaryEncoding):
    """Symmetric unary encoding, basic RAPPOR (Erlingsson et al. 2014).

    p = e^{ε/2}/(e^{ε/2}+1) and q = 1-p: p is the largest multiple of 2⁻⁶⁴ for which
    (p/q)² <= e^ε. Since p + q = 1, κ = 0 and the weighted MLE is exactly the least-squares
    estimate.

    Examples
    --------
    >>> SUE(epsilon=1.0, d=10).perturb([3, 4], rng=0).shape
    (2, 2)
    """

    name = "sue"

    def __init__(self, epsilon: float, d: int) -> None:
        # The root's exponential: p/q is its square, and must not exceed e^ε.
        root = exp_below(Fraction(budget(epsilon)) / 2)
        p = word_below(root / (root + 1))
        super().__init__(epsilon, d, p=p, q=1 - p, both=p * (1 - p))

    @property
    def b(self) -> float:
        """0 without rounding: p + q = 1."""
        return 0.0


class OUE(UnaryEncoding):
    """Optimised unary encoding (Wang et al. 2017; N III-C): p = 1/2, q = 1/(e^ε+1).

    q is the smallest multiple of 2⁻⁶⁴ for which (1-q)/q <= e^ε.

    Examples
    --------
    >>> oracle = OUE(epsilon=1.0, d=1024)
    >>> round(oracle.q, 6), round(oracle.kappa, 6)  # 1/(e + 1), sinh²(1/2)
    (0.268941, 0.27154)
    """

    name = "oue"

    def __init__(self, epsilon: float, d: int) -> None:
        ratio = exp_below(budget(epsilon))
        p = Fraction(1, 2)
        # 1 - q is rounded down, so that q is rounded up: the side that keeps privacy.
        q = 1 - word_below(ratio / (ratio + 1))
        super().__init__(epsilon, d, p=p, q=q, both=p * q)

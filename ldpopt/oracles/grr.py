"""Generalised randomised response: the value itself, or any other one."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ldpopt import validate
from ldpopt.oracles import randomness
from ldpopt.oracles.base import AGGREGATE, Counts, FrequencyOracle, budget
from ldpopt.oracles.forms import IndexForm, Reports
from ldpopt.oracles.rational import exp_below, word_below


class GRR(FrequencyOracle):
    """Generalised randomised response (N III-A): p = e^ε/(e^ε+d-1), q = 1/(e^ε+d-1).

    The client keeps the value with probability p, the largest multiple of 2⁻⁶⁴ for which
    p (d-1)/(1-p) <= e^ε, and q = (1-p)/(d-1). A report is one value, stored in the smallest
    unsigned integer type.

    Examples
    --------
    >>> oracle = GRR(epsilon=1.0, d=4)
    >>> reports = oracle.perturb([0, 1, 1, 3], rng=0)
    >>> int(oracle.support_counts(reports).sum())
    4
    """

    name = "grr"
    simulation = AGGREGATE
    exchangeable = True

    def __init__(self, epsilon: float, d: int) -> None:
        epsilon = budget(epsilon)
        d = validate.integer("d (the number of values)", d, minimum=2)
        # Rounded down here and in p: rounding never costs privacy.
        ratio = exp_below(epsilon)
        p = word_below(ratio / (ratio + d - 1))
        super().__init__(epsilon, d, p=p, q=(1 - p) / (d - 1), both=Fraction(0))

    @property
    def report_form(self) -> IndexForm:
        """The value itself."""
        return IndexForm(self.d, size=self.d)

    @property
    def pair_support(self) -> tuple[float, float]:
        """Zero: a report supports one value."""
        return 0.0, 0.0

    def _perturb(self, values: NDArray[np.int64], rng: randomness.Rng) -> Reports:
        reports = respond(values, self.d, self.exact_p, rng)
        return reports.astype(self.report_form.dtype)

    def _simulate(
        self,
        true_counts: Counts,
        rng: np.random.Generator,
        trials: int,
    ) -> Counts:
        # With probability p-q a user answers truthfully, else uniformly over the whole domain, the
        # own value included.
        truthful = self.p - self.q
        kept = rng.binomial(true_counts[:, None], truthful, (self.d, trials)).T
        others = true_counts.sum() - kept.sum(axis=1)
        equal = np.full(self.d, 1 / self.d)
        uniform = rng.multinomial(others, equal)
        return np.asarray(kept + uniform, dtype=np.int64)


def respond(
    values: NDArray[np.int64],
    size: int,
    keep: Fraction,
    rng: randomness.Rng,
) -> NDArray[np.int64]:
    """Return each value with probability ``keep``, else a uniform one of the other values."""
    # Drawn from one value less: those from the own value on move up by one.
    other = randomness.below(rng, size - 1, len(values))
    other += other >= values
    kept = randomness.bernoulli(rng, keep, len(values))
    return np.where(kept, values, other)

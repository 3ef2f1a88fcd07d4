"""Exact likelihoods of support counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from ldpopt import validate
from ldpopt.errors import InvalidInputError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses.base import Loss

if TYPE_CHECKING:
    import cvxpy as cp

Array = NDArray[np.float64]


_ROUNDING = 1e-6  # how far shares of reports may leave [0, 1], or their sum 1, by rounding of huge estimates


class _Likelihood(Loss):
    """Minus the logarithm of a likelihood of support counts, over n: P_v = q + (p-q) f_v of the reports support v."""

    nonnegative_data = 4

    @staticmethod
    def shares(estimate: FrequencyEstimate) -> Array:
        """Return c/n, the share of reports that support each value; an error if the estimate is not a raw one."""
        oracle = estimate.noise.require_protocol()
        share = oracle.q + (oracle.p - oracle.q) * estimate.frequencies
        outside = (share < -_ROUNDING) | (share > 1 + _ROUNDING)
        if outside.any():
            at = validate.first(outside)
            raise InvalidInputError(
                f"a likelihood needs raw estimates: at {validate.where(at)} f = {estimate.frequencies[at]:g} would mean that "
                f"{share[at]:.1%} of the reports support the value"
            )
        return np.clip(share, 0.0, 1.0)

    def constants(self, estimate: FrequencyEstimate) -> tuple[float, ...]:
        """Return q and p - q."""
        oracle = estimate.noise.require_protocol()
        return oracle.q, oracle.p - oracle.q


def _inverse(share: Array) -> Array:
    return np.divide(1.0, share, out=np.ones_like(share), where=share > 0)


class BinomialMLE(_Likelihood):
    """-1/n Σ c_v log P_v + (n - c_v) log(1 - P_v): the likelihood of independent counts, as of unary encoding and hashing.

    Examples
    --------
    >>> from ldpopt import oracles
    >>> estimate = oracles.OUE(epsilon=1.0, d=2).estimate([40, 30], n=100)
    >>> round(float(BinomialMLE().value(np.array([0.5, 0.5]), estimate)), 4)
    1.3
    """

    def validate_for(self, estimate: FrequencyEstimate) -> None:
        """Raise an error unless the estimate is raw and its oracle known."""
        self.shares(estimate)

    def value(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return the loss; ``inf`` where a probability leaves [0, 1]."""
        (floor, slope), share = self.constants(estimate), self.shares(estimate)
        probability = floor + slope * f
        inside = np.all((probability >= 0) & (probability <= 1), axis=-1)
        clipped = np.clip(probability, 0.0, 1.0)
        return np.asarray(
            np.where(
                inside,
                -np.sum(xlogy(share, clipped) + xlogy(1 - share, 1 - clipped), axis=-1),
                np.inf,
            )
        )

    def gradient(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return -(p-q) (c/(n P) - (1 - c/n)/(1 - P))."""
        (floor, slope), share = self.constants(estimate), self.shares(estimate)
        probability = floor + slope * f
        with np.errstate(
            divide="ignore", invalid="ignore"
        ):  # a count of 0 or n has one term only, also at its end
            supported = np.where(share > 0, share / probability, 0.0)
            others = np.where(share < 1, (1 - share) / (1 - probability), 0.0)
        return np.asarray(-slope * (supported - others))

    def domain(self, constants: tuple[float, ...]) -> tuple[float, float]:
        """Return where P is in [0, 1]."""
        floor, slope = constants
        return -floor / slope, (1 - floor) / slope

    def data(self, estimate: FrequencyEstimate) -> tuple[Array, ...]:
        """Return c/n and 1 - c/n, and their inverses (1 where they are 0)."""
        share = self.shares(estimate)
        return share, 1 - share, _inverse(share), _inverse(1 - share)

    def cone_form(
        self, f: cp.Expression, data: tuple[Any, ...], constants: tuple[float, ...]
    ) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Return the loss above its least value without constraints: two exponential cones a value, with arguments near 1."""
        import cvxpy as cp

        floor, slope = constants
        share, rest, per_share, per_rest = data
        u, v = cp.Variable(f.size), cp.Variable(f.size)
        relative = [
            u == cp.multiply(per_share, floor + slope * f),
            v == cp.multiply(per_rest, 1 - floor - slope * f),
        ]
        return -(share @ cp.log(u)) - rest @ cp.log(v), relative

    def response(self, mu: Array, data: tuple[Array, ...], constants: tuple[float, ...]) -> Array:
        """Return f with m P² - (1 + m) P + c/n = 0, m = μ/(p-q), by the root that does not cancel."""
        floor, slope = constants
        m = mu / slope
        total = 1 + m
        root = data[0] * (
            -4 * m
        )  # in place from here on: on long vectors fresh memory costs more than arithmetic
        root += total**2
        np.sqrt(np.maximum(root, 0.0, out=root), out=root)
        with np.errstate(divide="ignore", invalid="ignore"):
            other = (total - root) / (2 * m) if np.any(total < 0) else None
            root += total
            probability = np.divide(2 * data[0], root, out=root)
        if other is not None:
            probability = np.where(total >= 0, probability, other)
        probability[np.isnan(probability)] = 0.0
        probability -= floor
        probability /= slope
        return probability


class MultinomialMLE(_Likelihood):
    """-1/n Σ c_v log P_v: the likelihood of GRR's counts, whose reports support one value each.

    Examples
    --------
    >>> from ldpopt import oracles
    >>> estimate = oracles.GRR(epsilon=1.0, d=2).estimate([60, 40], n=100)
    >>> round(float(MultinomialMLE().value(np.array([0.5, 0.5]), estimate)), 4)
    0.6931
    """

    def validate_for(self, estimate: FrequencyEstimate) -> None:
        """Raise an error unless every report supports exactly one value, as in GRR."""
        total = self.shares(estimate).sum(axis=-1)
        oracle = estimate.noise.require_protocol()
        if abs(oracle.p + (oracle.d - 1) * oracle.q - 1) > _ROUNDING or np.any(
            np.abs(total - 1) > _ROUNDING
        ):
            raise InvalidInputError(
                f"the multinomial likelihood is that of GRR, whose reports support one value each, not of {oracle!r}: "
                "use BinomialMLE()"
            )

    def value(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return the loss; ``inf`` where a probability is negative."""
        (floor, slope), share = self.constants(estimate), self.shares(estimate)
        probability = floor + slope * f
        inside = np.all(probability >= 0, axis=-1)
        return np.asarray(
            np.where(inside, -np.sum(xlogy(share, np.maximum(probability, 0.0)), axis=-1), np.inf)
        )

    def gradient(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return -(p-q) c/(n P)."""
        (floor, slope), share = self.constants(estimate), self.shares(estimate)
        return np.asarray(-slope * share / (floor + slope * f))

    def data(self, estimate: FrequencyEstimate) -> tuple[Array, ...]:
        """Return c/n."""
        return (self.shares(estimate),)

    def cone_form(
        self, f: cp.Expression, data: tuple[Any, ...], constants: tuple[float, ...]
    ) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Return -Σ c/n log(d P): an exponential cone a value."""
        import cvxpy as cp

        floor, slope = constants
        return -(data[0] @ cp.log(f.size * (floor + slope * f))), []

    def response(self, mu: Array, data: tuple[Array, ...], constants: tuple[float, ...]) -> Array:
        """Return f with P = (p-q) c/(n μ); infinite for μ <= 0."""
        floor, slope = constants
        with np.errstate(divide="ignore", invalid="ignore"):
            probability = np.where(mu > 0, slope * data[0] / mu, np.inf)
        return np.asarray((probability - floor) / slope)

"""Exact likelihoods of support counts."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.closed_form.parts import parts_of
from ldpopt.errors import InvalidInputError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses.base import SeparableLoss
from ldpopt.losses.pooling import BinomialPooling, MultinomialPooling, SharesPooling

if TYPE_CHECKING:
    import cvxpy as cp

Array = NDArray[np.float64]

# By how much rounding of huge estimates may move shares of reports out of [0, 1], or their sum
# away from 1.
_ROUNDING = 1e-6

# A share so near to 0 or 1 is that of no report, or of all: no collection has 10¹⁵ of them.
_LESS_THAN_ONE = 4 * float(np.finfo(np.float64).eps)

_EPS = float(np.finfo(np.float64).eps)


class _Likelihood(SeparableLoss):
    """-1/n log of a likelihood of support counts: P_v = q + (p-q) f_v of the reports support v."""

    nonnegative_data = 4
    is_likelihood = True
    is_two_sided: ClassVar[bool]
    """Whether the reports that do not support a value add terms, too."""

    _pooling: ClassVar[type[SharesPooling]]

    def pooling(self, estimate: FrequencyEstimate) -> SharesPooling:
        """Return means of the shares."""
        return self._pooling(partial(self.shares, estimate), *self.constants(estimate))

    @property
    def uses_noise(self) -> bool:
        """True: the model is that of raw estimates."""
        return True

    @staticmethod
    def shares(estimate: FrequencyEstimate) -> Array:
        """Return c/n, the share of reports that support each value.

        Raises
        ------
        InvalidInputError
            If the estimate cannot be a raw one, or its protocol is unknown.
        """
        oracle = estimate.noise.require_protocol()
        share = np.asarray((oracle.p - oracle.q) * estimate.frequencies)
        share += oracle.q
        _require_shares(share, estimate)
        # Rounding may leave a share of 0 or 1 away from it by a bit, on either side.
        share[share < _LESS_THAN_ONE] = 0.0
        share[share > 1 - _LESS_THAN_ONE] = 1.0
        return share

    def is_defined(self, estimate: FrequencyEstimate) -> NDArray[np.bool_]:
        """Return which vectors are those of shares of reports."""
        floor, slope = self.constants(estimate)
        # The extremes stand for all values: every certificate of a long vector asks.
        ends = floor + slope * np.stack(estimate.extremes, axis=-1)
        return np.asarray(_are_shares(ends).all(axis=-1))

    def validate_for(self, estimate: FrequencyEstimate) -> None:
        """Raise an error unless the estimate can be raw and its oracle is known."""
        if not self.is_defined(estimate).all():
            self.shares(estimate)

    def constants(self, estimate: FrequencyEstimate) -> tuple[float, ...]:
        """Return q and p - q."""
        oracle = estimate.noise.require_protocol()
        return oracle.q, oracle.p - oracle.q

    def _rounding(self, f: Array, estimate: FrequencyEstimate) -> tuple[Array, Array]:
        """Return the relative rounding errors of P and of 1 - P, infinite where these are 0."""
        floor, slope = self.constants(estimate)
        probability = self._probability(f, estimate)
        size = floor + np.abs(slope * f)
        with np.errstate(divide="ignore"):
            supported = 4 * _EPS * (1 + size / np.abs(probability))
            others = 4 * _EPS * (1 + (1 + size) / np.abs(1 - probability))
        return supported, others

    def _probability(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return P, the probability that a report supports a value."""
        floor, slope = self.constants(estimate)
        probability = np.asarray(slope * f)
        probability += floor
        return probability

    def _is_inside(self, probability: Array, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return which vectors have probabilities alone; at the ends of the range up to rounding.

        A value that no report supports may be at the end of the domain, where its P is 0, and what
        is computed may be -1e-17.
        """
        highest = 1.0 if self.is_two_sided else np.inf
        is_possible = (probability >= 0) & (probability <= highest)
        if not is_possible.all():
            floor, slope = self.constants(estimate)
            rounding = 4 * _EPS * (abs(floor) + np.abs(slope * f))
            is_possible = (probability >= -rounding) & (probability <= highest + rounding)
        return np.asarray(np.all(is_possible, axis=-1))


class BinomialMLE(_Likelihood):
    """-1/n Σ c_v log P_v + (n - c_v) log(1 - P_v): the likelihood of independent counts.

    It is exact for unary encoding but for the dependence of counts, and close for hashing.

    Examples
    --------
    >>> from ldpopt import oracles
    >>> estimate = oracles.OUE(epsilon=1.0, d=2).estimate([40, 30], n=100)
    >>> round(float(BinomialMLE().value(np.array([0.5, 0.5]), estimate)), 4)
    1.3
    """

    is_two_sided = True
    _pooling = BinomialPooling

    @property
    def latex(self) -> str:
        """The loss in LaTeX."""
        return r"-\tfrac{1}{n} \sum_v c_v \log P_v + (n - c_v) \log(1 - P_v)"

    def value(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return the loss; ``inf`` where a probability leaves [0, 1]."""
        from scipy.special import xlogy  # slow to import

        share = self.shares(estimate)
        probability = self._probability(f, estimate)
        inside = self._is_inside(probability, f, estimate)
        clipped = np.clip(probability, 0.0, 1.0)
        # xlogy knows that 0 log 0 is 0: a count of 0 allows a probability of 0.
        logs = xlogy(share, clipped)
        logs += xlogy(1 - share, 1 - clipped)
        loss = -np.sum(logs, axis=-1)
        return np.asarray(np.where(inside, loss, np.inf))

    def gradient(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return -(p-q) (c/(n P) - (1 - c/n)/(1 - P))."""
        _, slope = self.constants(estimate)
        share = self.shares(estimate)
        probability = self._probability(f, estimate)
        # A count of 0 or n has one term only, also at its end of the domain, where 0/0 would be.
        is_none = share == 0 if share.min() == 0 else None
        is_all = share == 1 if share.max() == 1 else None
        # In place: on long vectors fresh memory costs more than arithmetic.
        with np.errstate(divide="ignore", invalid="ignore"):
            difference = np.asarray(share / probability)
            np.subtract(1.0, probability, out=probability)
            np.subtract(1.0, share, out=share)
            others = np.asarray(share / probability)
        if is_none is not None:
            difference = np.where(is_none, 0.0, difference)
        if is_all is not None:
            others = np.where(is_all, 0.0, others)
        difference -= others
        difference *= -slope
        return difference

    def gradient_error(self, f: Array, gradient: Array, estimate: FrequencyEstimate) -> Array:
        """Return the rounding of both terms, which cancel at the minimum without constraints."""
        _, slope = self.constants(estimate)
        share = self.shares(estimate)
        probability = self._probability(f, estimate)
        relative_supported, relative_others = self._rounding(f, estimate)
        # A count of 0 or n has one term only.
        with np.errstate(divide="ignore", invalid="ignore"):
            supported = np.where(share > 0, relative_supported * share / probability, 0.0)
            others = np.where(share < 1, relative_others * (1 - share) / (1 - probability), 0.0)
        return np.asarray(abs(slope) * (np.abs(supported) + np.abs(others)))

    def curvature(
        self, estimate: FrequencyEstimate, lower: ArrayLike = -math.inf, upper: ArrayLike = math.inf
    ) -> Array:
        """Return (p-q)² (c/n / P(upper)² + (1 - c/n)/(1 - P(lower))²)."""
        _, slope = self.constants(estimate)
        arrays = [self.shares(estimate), *map(np.atleast_1d, (lower, upper))]
        result = np.empty(np.broadcast_shapes(*(array.shape for array in arrays)))
        # At a point both are the same vector.
        is_point = lower is upper
        for _, (share, low, high, second) in parts_of(*arrays, result):
            # Beyond its domain the loss is infinite: probabilities stay within 0 and 1.
            highest = np.clip(self._probability(high, estimate), 0.0, 1.0)
            lowest = highest
            if not is_point:
                lowest = np.clip(self._probability(low, estimate), 0.0, 1.0)
            with np.errstate(divide="ignore", invalid="ignore"):
                supported = np.where(share > 0, share / highest**2, 0.0)
                others = np.where(share < 1, (1 - share) / (1 - lowest) ** 2, 0.0)
            np.add(supported, others, out=second)
            second *= slope**2
        return result

    def sensitivity(self, f: Array, estimate: FrequencyEstimate) -> Array | None:
        """Return (p-q)² (1/P + 1/(1 - P)): a share of reports rises by p - q with f̃."""
        _, slope = self.constants(estimate)
        probability = self._probability(f, estimate)
        with np.errstate(divide="ignore"):
            return np.asarray(slope**2 * (1 / probability + 1 / (1 - probability)))

    def domain(self, constants: tuple[float, ...]) -> tuple[float, float]:
        """Return where P is 0 and where it is 1."""
        floor, slope = constants
        lower = -floor / slope
        upper = (1 - floor) / slope
        return lower, upper

    def data(self, estimate: FrequencyEstimate) -> tuple[Array, ...]:
        """Return c/n and 1 - c/n, and their inverses (1 where they are 0)."""
        share = self.shares(estimate)
        rest = 1 - share
        return share, rest, _inverse(share), _inverse(rest)

    def cone_form(
        self,
        f: cp.Expression,
        data: tuple[Any, ...],
        constants: tuple[float, ...],
    ) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Return d times the loss above its least value without constraints.

        It has two exponential cones per value, whose arguments are near 1. A frequency that is
        wrong by δ changes the loss by about δ²: without the factor a solver's tolerances would let
        frequencies be wrong by 1e-2.
        """
        import cvxpy as cp

        floor, slope = constants
        share, rest, per_share, per_rest = data
        # Variables instead of expressions: a logarithm of parameters would not be DPP.
        supported = cp.Variable(f.size)
        others = cp.Variable(f.size)
        of_share = cp.multiply(per_share, floor + slope * f)
        of_rest = cp.multiply(per_rest, 1 - floor - slope * f)
        relative = [supported == of_share, others == of_rest]
        log_likelihood = share @ cp.log(supported) + rest @ cp.log(others)
        return -f.size * log_likelihood, relative

    def cone_factor(self, d: int, constants: tuple[Any, ...]) -> float:
        """Return d."""
        return float(d)

    def response(
        self,
        mu: Array,
        data: tuple[Array, ...],
        constants: tuple[float, ...],
    ) -> Array:
        """Return f with m P² - (1 + m) P + c/n = 0, m = μ/(p-q), by the root that does not cancel.

        The root is 2c/n / (1 + m + s) or (1 + m - s)/(2m), s the root of the discriminant.
        """
        floor, slope = constants
        share = data[0]
        result = np.empty(np.broadcast_shapes(mu.shape, share.shape))
        for _, (multiplier, share_of_part, f) in parts_of(mu, share, result):
            # The multiplier of P instead of f.
            _root_of_slope(multiplier / slope, share_of_part, f)
            # From P back to f.
            f -= floor
            f /= slope
        return result


def _root_of_slope(m: Array, share: Array, result: Array) -> None:
    """Write P with m P² - (1 + m) P + c/n = 0 to an array."""
    # The sum of both roots times m.
    total = 1 + m
    # In place from here on: on long vectors fresh memory costs more than arithmetic.
    np.multiply(share, -4 * m, out=result)
    result += total**2
    np.maximum(result, 0.0, out=result)
    np.sqrt(result, out=result)
    with np.errstate(divide="ignore", invalid="ignore"):
        other = (total - result) / (2 * m) if np.any(total < 0) else None
        result += total
        np.divide(2 * share, result, out=result)
    if other is not None:
        np.copyto(result, other, where=total < 0)
    # 0/0, where no report supports the value.
    result[np.isnan(result)] = 0.0


class MultinomialMLE(_Likelihood):
    """-1/n Σ c_v log P_v: the likelihood of GRR's counts, whose reports support one value each.

    Examples
    --------
    >>> from ldpopt import oracles
    >>> estimate = oracles.GRR(epsilon=1.0, d=2).estimate([60, 40], n=100)
    >>> round(float(MultinomialMLE().value(np.array([0.5, 0.5]), estimate)), 4)
    0.6931
    """

    is_two_sided = False
    _pooling = MultinomialPooling

    @property
    def latex(self) -> str:
        """The loss in LaTeX."""
        return r"-\tfrac{1}{n} \sum_v c_v \log P_v"

    def validate_for(self, estimate: FrequencyEstimate) -> None:
        """Raise an error unless every report supports exactly one value, as in GRR."""
        super().validate_for(estimate)
        floor, slope = self.constants(estimate)
        # That of the shares, without an array of them.
        total = estimate.d * floor + slope * estimate.frequencies.sum(axis=-1)
        oracle = estimate.noise.require_protocol()
        # The expected number of values that one report supports.
        supported = oracle.p + (oracle.d - 1) * oracle.q
        supports_one = abs(supported - 1) <= _ROUNDING
        sums_to_one = not np.any(np.abs(total - 1) > _ROUNDING)
        if not (supports_one and sums_to_one):
            raise InvalidInputError(
                "the multinomial likelihood is that of GRR, whose reports support one value each, "
                f"not of {oracle!r}: use BinomialMLE()"
            )

    def value(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return the loss; ``inf`` where a probability is negative."""
        from scipy.special import xlogy  # slow to import

        share = self.shares(estimate)
        probability = self._probability(f, estimate)
        inside = self._is_inside(probability, f, estimate)
        logs = xlogy(share, np.maximum(probability, 0.0))
        loss = -np.sum(logs, axis=-1)
        return np.asarray(np.where(inside, loss, np.inf))

    def gradient(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return -(p-q) c/(n P)."""
        _, slope = self.constants(estimate)
        share = self.shares(estimate)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = share / self._probability(f, estimate)
        # A count of 0 has no term, also at its end of the domain, where 0/0 would be.
        if share.min() == 0:
            ratio = np.where(share == 0, 0.0, ratio)
        return np.asarray(-slope * ratio)

    def gradient_error(self, f: Array, gradient: Array, estimate: FrequencyEstimate) -> Array:
        """Return the rounding of P, which cancels near the end of the domain."""
        supported, _ = self._rounding(f, estimate)
        # At the end of the domain the gradient is infinite, and has no error.
        finite = np.isfinite(supported) & np.isfinite(gradient)
        return np.multiply(supported, np.abs(gradient), out=np.zeros(f.shape), where=finite)

    def curvature(
        self, estimate: FrequencyEstimate, lower: ArrayLike = -math.inf, upper: ArrayLike = math.inf
    ) -> Array:
        """Return (p-q)² c/n / P(upper)², 0 where a value has no upper bound."""
        _, slope = self.constants(estimate)
        highest = np.maximum(self._probability(np.asarray(upper), estimate), 0.0)
        share = self.shares(estimate)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(share > 0, slope**2 * share / highest**2, 0.0)

    def sensitivity(self, f: Array, estimate: FrequencyEstimate) -> Array | None:
        """Return (p-q)²/P: a share of reports rises by p - q with f̃."""
        _, slope = self.constants(estimate)
        with np.errstate(divide="ignore"):
            return np.asarray(slope**2 / self._probability(f, estimate))

    def domain(self, constants: tuple[float, ...]) -> tuple[float, float]:
        """Return where P is 0; there is no upper end."""
        floor, slope = constants
        return -floor / slope, math.inf

    def data(self, estimate: FrequencyEstimate) -> tuple[Array, ...]:
        """Return c/n."""
        return (self.shares(estimate),)

    def cone_form(
        self,
        f: cp.Expression,
        data: tuple[Any, ...],
        constants: tuple[float, ...],
    ) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Return -Σ c/n log(d P): one exponential cone per value."""
        import cvxpy as cp

        floor, slope = constants
        (share,) = data
        # The factor d within the logarithm brings its arguments to order 1.
        scaled = f.size * (floor + slope * f)
        log_likelihood = share @ cp.log(scaled)
        return -log_likelihood, []

    def cone_factor(self, d: int, constants: tuple[Any, ...]) -> float:
        """Return 1: the form differs from the loss by a constant."""
        return 1.0

    def response(
        self,
        mu: Array,
        data: tuple[Array, ...],
        constants: tuple[float, ...],
    ) -> Array:
        """Return f with P = (p-q) c/(n μ); infinite for μ <= 0."""
        floor, slope = constants
        (share,) = data
        # For other multipliers the loss plus μ f falls for ever.
        with np.errstate(divide="ignore", invalid="ignore"):
            probability = np.where(mu > 0, slope * share / mu, np.inf)
        return np.asarray((probability - floor) / slope)


def _are_shares(numbers: Array) -> NDArray[np.bool_]:
    """Return which numbers are between 0 and 1 but for rounding; NaN is not."""
    return (numbers >= -_ROUNDING) & (numbers <= 1 + _ROUNDING)


def _require_shares(share: Array, estimate: FrequencyEstimate) -> None:
    """Raise the error that names the first share of reports that cannot be one."""
    # The extremes are taken in half the time of a look at every share.
    if _are_shares(np.array([share.min(), share.max()])).all():
        return
    at = validate.first(~_are_shares(share))
    raise InvalidInputError(
        f"a likelihood needs raw estimates: at {validate.where(at)} "
        f"f = {estimate.frequencies[at]:g} would mean that {share[at]:.1%} of the reports "
        "support the value"
    )


def _inverse(share: Array) -> Array:
    return np.divide(1.0, share, out=np.ones_like(share), where=share > 0)

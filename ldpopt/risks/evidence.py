"""What one rule does on a collection: its answers, and how they move with the noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt.errors import MethodError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.risks.collection import Collection, Derivative, Kind, Moves
from ldpopt.risks.whole_noise import WholeNoise

Array = NDArray[np.float64]
Rule = Callable[[FrequencyEstimate], FrequencyEstimate]
"""From an estimate, or a stack of them, to processed ones."""

# With 1 + α times the noise other values pass a threshold. In the cells of docs/explanation/risk.md
# the error of rules that jump moved by up to 0.38 √α of itself.
_DRIFT = 0.4


@dataclass(frozen=True, eq=False)
class Evidence:
    """The estimated squared error of one rule, summed over all answers, and what it rests on.

    Attributes
    ----------
    total
        The estimate.
    residual
        The answers less the raw ones, shape (k,); with a finite step their mean over moves.
    passed
        What the rule lets through of the noise: how the answers move with each of the moves, shape
        (m, k), or with the whole noise.
    contributions
        What each draw gives to the estimate, shape (m,); empty where nothing was drawn for it.
    noise
        The moves, or the whole noise.
    bias
        By how much the risk at the bootstrap's noise may differ from that at the noise itself; 0
        of Stein's formula.
    """

    total: float
    residual: Array
    passed: Any
    contributions: Array
    noise: Moves | WholeNoise
    bias: float = 0.0

    @classmethod
    def of(
        cls,
        collection: Collection,
        rule: Rule,
        moves: Moves,
        kind: Kind,
    ) -> Evidence:
        """Return the evidence about a rule.

        Parameters
        ----------
        collection, rule
            What was collected, and what is done with it.
        moves
            Along which the rule is differentiated, the same for all rules that are compared.
        kind
            ``"sure"`` for rules without jumps, ``"bootstrap"`` for any.

        Notes
        -----
        Cost: the rule on a stack of 2 m + 1 vectors.
        """
        y = collection.raw.frequencies
        steps = moves.step * moves.vectors
        # One stack for all: the estimate itself, then both ends of every move.
        stack = collection.moved(np.concatenate([y[None], y + steps, y - steps]))
        processed = rule(stack)
        answers = collection.answered(processed.frequencies, clip=processed.clip_answers)
        m = len(steps)
        ahead = answers[1 : 1 + m]
        behind = answers[1 + m :]
        raw = collection.answers
        # Central differences.
        moved = (ahead - behind) / (2 * moves.step)
        products = np.einsum("mk,mk->m", moves.tests, moved)
        trace = moves.total(products)
        if kind == "sure":
            residual = answers[0] - raw
            drawn = 2 * products if moves.are_draws else np.empty(0)
            total = float(residual @ residual) - collection.noise_total + 2 * trace
            return cls(total, residual, moved, drawn, moves)
        squares_ahead = np.sum((ahead - raw) ** 2, axis=-1)
        squares_behind = np.sum((behind - raw) ** 2, axis=-1)
        squares = (squares_ahead + squares_behind) / 2
        residual = (ahead.mean(axis=0) + behind.mean(axis=0)) / 2 - raw
        total = float(np.mean(squares)) - collection.noise_total + 2 * trace
        bias = _DRIFT * moves.step * max(total, 0.0)
        return cls(total, residual, moved, squares + 2 * products, moves, bias)

    @classmethod
    def exact(
        cls,
        collection: Collection,
        frequencies: Array,
        derivative: Derivative,
        noise: Moves | WholeNoise,
    ) -> Evidence:
        """Return the same by Stein's formula, of a rule whose derivative is known.

        The rule itself is not called: ``frequencies``, shape (d,), are what it makes of the
        collection. The whole noise needs a derivative of low rank.
        """
        residual = collection.answered(frequencies) - collection.answers
        passed: Any
        if isinstance(noise, WholeNoise):
            assert derivative.low_rank is not None  # else there are moves
            passed = noise.passed(derivative.low_rank)
            trace = noise.trace(passed)
        else:
            passed = collection.answered((derivative @ noise.vectors.T).T)
            trace = collection.trace_with(derivative)
        total = float(residual @ residual) - collection.noise_total + 2 * trace
        return cls(total, residual, passed, np.empty(0), noise)

    def variance(self, of_shift: float) -> float:
        """Return the expected squared difference of ``total`` from the squared error of this draw.

        By Stein's formula of second order (Bellec, Zhang 2021): with h = g - f̃, ∇h = J - I and
        all traces of A·ΣAᵀ, it is 4 hᵀΣh + 8 tr(Σ∇h) + 4 tr((∇h)²) + 2 tr(Σ²). The first term's
        hᵀΣh is ``of_shift``.
        """
        noise_square = self.noise.noise_square
        of_slope = self._with_noise - noise_square
        _, square = self._squares
        variance = 4 * of_shift + 8 * of_slope + 4 * square + 2 * noise_square
        return max(float(variance), 0.0) + _variance_of_mean(self.contributions)

    @cached_property
    def _squares(self) -> tuple[float, float]:
        """tr(T²) and tr((T - C)²), with the T and C of ``interval``."""
        return self.noise.squares(self.passed)

    @cached_property
    def _with_noise(self) -> float:
        """tr(C T)."""
        return self.noise.with_noise(self.passed)

    def interval(self, collection: Collection, reach: float) -> tuple[float, float]:
        """Return the ends of an interval for the squared error of this draw, summed over answers.

        Parameters
        ----------
        collection
            What was collected.
        reach
            Of the interval, in standard errors.

        Notes
        -----
        ``variance`` is itself estimated, and too small on just those draws on which ``total`` is
        too small: a few answers that shrinkage moves all one way would be missed by most intervals.
        Each error r is therefore held against the variance at that r, as Wilson's interval for
        shares does: V₀ + 4 λ (r - t) above t. Here t = tr T is what the rule lets through of the
        noise, λ the variance of the answers along the shift, and V₀ = 2 tr(C²) - 4 tr(C T) +
        4 tr(T²) with T = A J Σ Aᵀ and C = A Σ Aᵀ. The wider of the two ends counts on both sides,
        and ``bias`` beyond it.
        """
        noise = self.noise
        of_shift = _quadratic(self.residual, collection)
        half = reach * math.sqrt(self.variance(of_shift))
        of_passed, _ = self._squares
        base = max(2 * noise.noise_square - 4 * self._with_noise + 4 * of_passed, 0.0)
        base += _variance_of_mean(self.contributions)
        passed = max(noise.trace(self.passed), 0.0)
        size = float(self.residual @ self.residual)
        along = of_shift / size if size > 0 else 0.0
        # The shift may lie where no noise is seen in this draw: at least the mean one is assumed.
        mean_along = noise.noise_square / noise.noise if noise.noise > 0 else 0.0
        along = max(along, mean_along)
        score_low, score_high = _score_ends(self.total - passed, base, along, reach)
        low = min(self.total - half, passed + score_low)
        high = max(self.total + half, passed + score_high)
        return low - self.bias, high + self.bias

    def excess(self, other: Evidence) -> float:
        """Return how much larger the error of this rule is than another one's."""
        return self.total - other.total

    def excess_reach(self, other: Evidence, collection: Collection, reach: float) -> float:
        """Return how far the difference of two rules on the same moves may be from ``excess``.

        The noise of the raw estimate itself drops out: with δ the difference of the two rules the
        variance is 4 (δᵀΣδ + tr((∇δ)²)).
        """
        residual = self.residual - other.residual
        square = self.noise.square_of_difference(self.passed, other.passed)
        of_noise = 4 * (_quadratic(residual, collection) + square)
        # Two rules whose traces are exact share no draws.
        count = max(len(self.contributions), len(other.contributions))
        drawn = _padded(self.contributions, count) - _padded(other.contributions, count)
        variance = max(float(of_noise), 0.0) + _variance_of_mean(drawn)
        return reach * math.sqrt(variance) + self.bias + other.bias


def _quadratic(weights: Array, collection: Collection) -> float:
    """Return the variance of the unbiased answers' sum with weights of shape (k,)."""
    return float(weights @ collection.answer_noise(weights[None])[0])


def _score_ends(estimate: float, base: float, growth: float, reach: float) -> tuple[float, float]:
    """Return the ends of all x within ``reach`` standard errors of an estimate of x.

    With the variance V₀ + 4 λ max(x, 0) they are roots of (x - estimate)² = z² (V₀ + 4 λ x), V₀ the
    ``base`` and λ the ``growth``; below 0 nothing grows.
    """
    half = reach * math.sqrt(base)
    low = estimate - half
    # Without a root the estimate is lower than any x explains: the spread at x = 0 has to do.
    high = max(estimate, 0.0) + half
    square = 4 * reach**2 * growth * (estimate + reach**2 * growth) + half**2
    if square < 0:
        return low, high
    centre = estimate + 2 * reach**2 * growth
    root = math.sqrt(square)
    if low > 0:
        # The variance grows there too: the lower end is the other root.
        low = centre - root
    return low, max(high, centre + root)


def _padded(contributions: Array, count: int) -> Array:
    return contributions if len(contributions) else np.zeros(count)


def _variance_of_mean(samples: Array) -> float:
    """Return the variance of the mean of draws, 0 without any."""
    if len(samples) < 2:
        return 0.0
    return float(np.var(samples, ddof=1)) / len(samples)


def require_repeatable(name: str, rule: Rule, collection: Collection) -> None:
    """Raise an error if a rule gives two answers for one estimate."""
    first = rule(collection.raw).frequencies
    again = rule(collection.raw).frequencies
    if not np.array_equal(first, again):
        at = int(np.argmax(first != again))
        raise MethodError(
            f"the method {name!r} gives different answers for the same estimate, {first[at]:g} and "
            f"{again[at]:g} at index {at}: let it draw with a fixed seed"
        )

"""One collection as all estimates of risk see it: raw answers, their noise, and moves along it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from ldpopt import closed_form, validate
from ldpopt.covariance import Covariance
from ldpopt.errors import InvalidInputError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.estimate.sets import NamedSets, Sets, membership, named_sets, totals
from ldpopt.printable import counted
from ldpopt.risks.whole_noise import WholeNoise

Array = NDArray[np.float64]
Kind = Literal["sure", "bootstrap"]

PROBES = 10
"""Moves of the noise along which rules are differentiated: with both signs and the estimate itself
they cost 21 evaluations."""

ALPHA = 0.02
"""By which share the bootstrap's noise is larger: smaller ones have larger errors, and larger ones
more bias."""

# Step of the differences, in standard deviations of the noise: small against the noise, large
# against the tolerance to which priors are fitted.
_STEP = 1e-2

# The correlations of up to so many answers are written out; of more they are sampled.
_EXACT = 256
_SIGNS = 16

# Columns of a covariance whose products with each other cost less than moves.
_FEW_COLUMNS = 10


class Derivative(Protocol):
    """∂g/∂f̃ of a rule, as ``Solution.jacobian`` returns it."""

    @property
    def diagonal(self) -> Array:
        """∂g_v/∂f̃_v, shape (d,)."""

    @property
    def low_rank(self) -> tuple[Array, Array, Array] | None:
        """(a, U, V) with the matrix diag(a) - U Vᵀ and few columns of U and V, where it is one."""

    def __matmul__(self, moves: Array) -> Array:
        """Return the moves of the rule's values with those of the estimate, (d,) or (d, m)."""


@dataclass(frozen=True, eq=False)
class Moves:
    """Moves of the estimate, and what a derivative along them is multiplied by.

    Attributes
    ----------
    vectors
        Moves b, shape (m, d): draws of the noise, or the noise that all values share with the
        tests, none of it beyond one standard deviation of its value.
    answers
        How the unbiased answers move with them, shape (m, k).
    tests
        Vectors u, shape (m, k), such that the mean of u·A J b over draws, or its sum over answers,
        is the trace of A J C, with C the covariance of f̃ and the unbiased answers.
    noisy
        The covariance of the unbiased answers times each of the tests, shape (m, k).
    are_draws
        Whether they are draws; otherwise nothing here is random.
    step
        By how much of each the estimate is moved to either side.
    """

    vectors: Array
    answers: Array
    tests: Array
    noisy: Array
    are_draws: bool
    step: float

    def total(self, products: Array) -> float:
        """Return a trace from one product per move."""
        return float(np.mean(products) if self.are_draws else np.sum(products))

    def product(self, left: Array, right: Array) -> float:
        """Return the trace that the products of two vectors per move, shape (m, k), amount to."""
        return self.total(np.einsum("mk,mk->m", left, right))

    @cached_property
    def noise(self) -> float:
        """The trace of the covariance C of the unbiased answers."""
        return self.product(self.tests, self.answers)

    @cached_property
    def noise_square(self) -> float:
        """tr(C²)."""
        return self.product(self.noisy, self.answers)

    @cached_property
    def _own_pairs(self) -> Array:
        """The products of the unbiased answers with each of the tests, shape (m, m)."""
        return self.tests @ self.answers.T

    def trace(self, moved: Array) -> float:
        """Return tr T of T = A J C, from how the answers move with each of the moves, (m, k)."""
        return self.product(self.tests, moved)

    def with_noise(self, moved: Array) -> float:
        """Return tr(C T)."""
        return self.product(self.noisy, moved)

    def squares(self, moved: Array) -> tuple[float, float]:
        """Return tr(T²) and tr((T - C)²)."""
        pairs = self.tests @ moved.T
        return self._trace_of_square(pairs), self._trace_of_square(pairs - self._own_pairs)

    def square_of_difference(self, first: Array, second: Array) -> float:
        """Return tr((T - T')²) of two rules."""
        return self._trace_of_square(self.tests @ (first - second).T)

    def _trace_of_square(self, pairs: Array) -> float:
        """Return tr(T²), from the products of the tests with the answers A J b."""
        square = pairs * pairs.T
        if not self.are_draws:
            return float(np.sum(square))
        # A draw with itself is not independent of itself: its product is left out.
        m = len(square)
        return float((np.sum(square) - np.trace(square)) / (m * (m - 1)))


class Collection:
    """A raw estimate of one collection, with queries and the covariance of its noise.

    Parameters
    ----------
    raw
        One raw estimate of shape (d,), whose noise is that of an oracle or given by hand.
    sets
        The queries, as ``FrequencyEstimate.query`` takes them; None for the values themselves.
    what
        What needs it, for messages.

    Attributes
    ----------
    names
        Of the queries; empty for the values.
    count
        How many answers there are.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the estimate is a stack, processed or not known to be raw, its noise is unknown, or its
        protocol is known by p and q alone; if there is no set, or it does not fit.
    """

    def __init__(
        self, raw: FrequencyEstimate, sets: Sets | NamedSets | None, what: str = "risk"
    ) -> None:
        self.raw = _checked(raw, what)
        self.names: list[str] = []
        self._members: Any = None
        if sets is not None:
            self.names, rows = named_sets(sets, raw.labels)
            self._members = membership(rows, raw.d, self.names)
            if not self._members.shape[0]:
                raise InvalidInputError(
                    f"{what} needs at least one set, or sets=None for the values"
                )
        self.count = raw.d if self._members is None else int(self._members.shape[0])

    @cached_property
    def covariance(self) -> Covariance:
        """Σ at the frequencies of Norm-Sub, which are a distribution and near the true ones."""
        return self.raw.noise.covariance(closed_form.norm_sub(self.raw.frequencies))

    @property
    def knows_total(self) -> bool:
        """Whether Σf = 1 is known: users of a protocol hold one value each."""
        return self.raw.noise.protocol is not None

    @cached_property
    def answers(self) -> Array:
        """The unbiased answers that rules are held against, shape (k,).

        Where the total is known they are those of Norm: the noise of the sum would otherwise enter
        every large set.
        """
        y = self.raw.frequencies
        return self.answered(closed_form.norm(y) if self.knows_total else y)

    @cached_property
    def noise_total(self) -> float:
        """Expected ‖noise‖² of these answers.

        It is unbiased: Σ is linear in f, and so raw frequencies stand for f.
        """
        shifted = closed_form.norm(self.raw.frequencies)
        covariance = self.raw.noise.covariance(shifted)
        total = covariance.trace(self._members)
        if not self.knows_total:
            return total
        # tr(A P Σ P Aᵀ) with P = I - 11ᵀ/d.
        common = covariance @ np.ones(self.raw.d)
        sizes = self._sizes
        shared = sizes @ self.answered(common) / self.raw.d
        of_mean = sizes @ sizes * np.sum(common) / self.raw.d**2
        return float(total - 2 * shared + of_mean)

    @cached_property
    def _common(self) -> Array:
        """Σ1: how the noise of each value goes with that of the sum, shape (d,)."""
        return self.covariance @ np.ones(self.raw.d)

    @cached_property
    def _sizes(self) -> Array:
        """How many values are in each answer, shape (k,)."""
        return self.answered(np.ones(self.raw.d))

    def _centred(self, columns: Array) -> Array:
        """Return P x for columns x of shape (d, m), x itself where the total is not known."""
        return columns - columns.mean(axis=0) if self.knows_total else columns

    def answered(self, frequencies: Array, *, clip: bool = False) -> Array:
        """Return the answers of frequencies (..., d), shape (..., k)."""
        if self._members is None:
            return frequencies
        result = totals(frequencies, self._members)
        return np.maximum(result, 0.0) if clip else result

    def answer_noise(self, weights: Array) -> Array:
        """Return the covariance of the answers' noise times weights of shape (m, k)."""
        is_of_values = self._members is None
        spread = weights.T if is_of_values else np.asarray(self._members.T @ weights.T)
        noise = self._centred(self.covariance @ self._centred(spread))
        return np.asarray((noise if is_of_values else self._members @ noise).T)

    @cached_property
    def answer_variances(self) -> Array:
        """The variance of each unbiased answer, shape (k,)."""
        covariance = self.covariance
        is_of_values = self._members is None
        variances = covariance.diagonal if is_of_values else covariance.variances(self._members)
        if not self.knows_total:
            return variances
        # The diagonal of A P Σ P Aᵀ; what is nothing but rounding may be below 0.
        common = self._common
        share = self._sizes / self.raw.d
        variances = variances - 2 * share * self.answered(common) + share**2 * np.sum(common)
        return np.asarray(np.maximum(variances, 0.0))

    def independent_answers(self, rng: np.random.Generator) -> float:
        """Return how many independent answers would have as much noise, at most k.

        That is k²/tr(R²) for the correlations R of the answers, with tr(R²) from random signs where
        there are many.
        """
        sd = np.sqrt(self.answer_variances)
        scale = np.divide(1.0, sd, out=np.zeros_like(sd), where=sd > 0)
        k = self.count
        # Rows of the identity give every entry of R, random signs the mean of what it does.
        if k <= _EXACT:
            signs = np.eye(k)
            repeated = 1
        else:
            signs = _signs(_SIGNS, k, rng)
            repeated = _SIGNS
        correlated = self.answer_noise(signs * scale) * scale
        # tr(R²), the sum of the squares of R's entries.
        total = float(np.sum(correlated**2)) / repeated
        return min(k**2 / total, float(k)) if total > 0 else 0.0

    @cached_property
    def whole_noise(self) -> WholeNoise | None:
        """The noise in all directions; None where the answers, or Σ, are of another form."""
        parts = self.covariance.parts
        if parts is None or self._members is not None:
            return None
        # Refined estimates have a hundred columns, whose products with each other cost more.
        if parts[1].shape[1] > _FEW_COLUMNS:
            return None
        return WholeNoise(*parts, knows_total=self.knows_total)

    def moves(self, kind: Kind, number: int, alpha: float, rng: np.random.Generator) -> Moves:
        """Return the moves for one kind of estimate.

        Few answers take one move each, and nothing random. Many take random signs, or for the
        bootstrap, which adds noise, draws of the noise.
        """
        if kind == "sure":
            are_few = self.count <= number
            tests = np.eye(self.count) if are_few else _signs(number, self.count, rng)
            return self._moves_of_tests(tests, are_draws=not are_few)
        draws = self.covariance.draws(number, rng)
        answers = self.answered(self._centred(draws.T).T)
        noisy = self.answer_noise(answers)
        return Moves(draws, answers, answers, noisy, are_draws=True, step=float(np.sqrt(alpha)))

    def _moves_of_tests(self, tests: Array, *, are_draws: bool) -> Moves:
        """Return the moves Σ P Aᵀ u for tests u, the rows of ``tests`` of shape (m, k).

        With E[u uᵀ] = I the mean of u·A J Σ P Aᵀ u is the trace of A J C: no root of Σ is needed.
        """
        is_of_values = self._members is None
        spread = tests.T if is_of_values else np.asarray(self._members.T @ tests.T)
        shared = self.covariance @ self._centred(spread)
        # The step is in standard deviations of the values.
        sd = np.reshape(self.raw.noise.sd, (-1, 1))
        sizes = np.max(np.abs(shared) / sd, axis=0)
        # An answer without noise, such as the sum of all of GRR's, moves nothing.
        units = np.where(sizes > 0, sizes, 1.0)
        vectors = (shared / units).T
        answers = self.answered(self._centred(vectors.T).T)
        scale = units[:, None]
        return Moves(vectors, answers, scale * tests, scale**2 * answers, are_draws, _STEP)

    def trace_with(self, derivative: Derivative) -> float:
        """Return tr(A J C) of an exact derivative, C the covariance of f̃ and the answers."""
        if self._members is None:
            total = self.covariance.trace_with(derivative)
            if self.knows_total:
                total -= float(np.mean(derivative @ self._common))
            return total
        total = 0.0
        # In parts: all answers at once would take k vectors of d numbers.
        for first in range(0, self.count, 64):
            rows = self._members[first : first + 64]
            moved = derivative @ (self.covariance @ self._centred(rows.toarray().T))
            total += float(np.sum(rows.toarray() * moved.T))
        return total

    def moved(self, frequencies: Array) -> FrequencyEstimate:
        """Return other frequencies (..., d) with the noise of this collection."""
        noise = self.raw.noise
        labels = self.raw.labels
        if noise.protocol is None:
            return FrequencyEstimate(frequencies, noise=noise, is_raw=True, labels=labels)
        return FrequencyEstimate(frequencies, noise.n, noise.protocol, is_raw=True, labels=labels)


def _signs(rows: int, columns: int, rng: np.random.Generator) -> Array:
    """Return random signs, +1 or -1, of shape (rows, columns)."""
    # A bit each: normal draws take ten times as long, and make products vary more.
    bits = np.unpackbits(np.frombuffer(rng.bytes(-(-rows * columns // 8)), dtype=np.uint8))
    return np.asarray(2.0 * bits[: rows * columns].reshape(rows, columns) - 1.0)


def _checked(raw: FrequencyEstimate, what: str) -> FrequencyEstimate:
    """Return the estimate, or raise the error that it is not one raw estimate with its noise."""
    if not isinstance(raw, FrequencyEstimate):
        # Several collections at once are judged as the estimate that they combine to.
        remedy = ": pass sources.combined()" if hasattr(raw, "combined") else ""
        raise InvalidInputError(
            f"{what} needs a raw FrequencyEstimate with its noise, as oracle.estimate makes it; "
            f"got {type(raw).__name__}{remedy}"
        )
    if raw.frequencies.ndim != 1:
        raise InvalidInputError(
            f"{what} is that of one collection, and this estimate is a stack of shape "
            f"{raw.frequencies.shape}: pass estimate[0], say"
        )
    if not raw.is_raw:
        raise InvalidInputError(
            f"{what} needs a raw estimate, whose errors are those of the reports: this one is "
            "processed, or nothing shows that it is raw; pass oracle.estimate(counts, n), or "
            "estimate.raw of one that is processed"
        )
    noise = raw.noise
    if noise.protocol is not None and not noise.knows_pairs:
        raise InvalidInputError(
            f"{what} needs to know how two counts vary together, and p and q alone do not say it: "
            "use an oracle from ldpopt.oracles"
        )
    return raw


def checked_kind(by: str) -> Literal["auto", "sure", "bootstrap"]:
    """Return how the risk is to be estimated, or raise the error for an unknown word."""
    kinds: dict[str, Literal["auto", "sure", "bootstrap"]] = {
        "auto": "auto",
        "sure": "sure",
        "bootstrap": "bootstrap",
    }
    return validate.lookup("by", by, kinds)


def names_of(sets: Sequence[str], count: int) -> str:
    """Return the queries in a few words, for titles."""
    return counted(count, "set" if sets else "value")

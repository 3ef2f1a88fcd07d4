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

Array = NDArray[np.float64]
Kind = Literal["sure", "bootstrap"]

# Step of the differences, in standard deviations of the noise: small against the noise, large
# against the tolerance to which priors are fitted.
_STEP = 1e-2


class Derivative(Protocol):
    """∂g/∂f̃ of a rule, as ``Solution.jacobian`` returns it."""

    @property
    def diagonal(self) -> Array:
        """∂g_v/∂f̃_v, shape (d,)."""

    def __matmul__(self, moves: Array) -> Array:
        """Return the moves of the rule's values with those of the estimate, (d,) or (d, m)."""


@dataclass(frozen=True, eq=False)
class Moves:
    """Moves of the estimate, and what a derivative along them is multiplied by.

    Attributes
    ----------
    vectors
        Moves b, shape (m, d): draws of the noise, or the noise that each answer shares with all
        values, in units of its standard deviation.
    answers
        Their answers A b, shape (m, k).
    tests
        Vectors u, shape (m, k), such that the mean of u·A J b over draws, or its sum over answers,
        is tr(A J Σ Aᵀ).
    are_draws
        Whether they are draws; otherwise nothing here is random.
    step
        By how much of each the estimate is moved to either side.
    """

    vectors: Array
    answers: Array
    tests: Array
    are_draws: bool
    step: float

    def total(self, products: Array) -> float:
        """Return a trace from one product per move."""
        return float(np.mean(products) if self.are_draws else np.sum(products))

    def trace_of_square(self, moved: Array) -> float:
        """Return tr(T²) of T = A J Σ Aᵀ, from the answers A J b of all moves, shape (m, k)."""
        products = self.tests @ moved.T
        square = products * products.T
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
            self._members = membership(rows, raw.d)
            if not self._members.shape[0]:
                raise InvalidInputError(
                    f"{what} needs at least one set, or sets=None for the values"
                )
        self.count = raw.d if self._members is None else int(self._members.shape[0])

    @cached_property
    def covariance(self) -> Covariance:
        """Σ at the frequencies of Norm-Sub, which are a distribution and near the true ones."""
        return self.raw.noise.covariance(closed_form.norm_sub(self.raw.frequencies))

    @cached_property
    def answers(self) -> Array:
        """The raw answers A f̃, shape (k,)."""
        return self.answered(self.raw.frequencies)

    @cached_property
    def noise_total(self) -> float:
        """The trace of AΣAᵀ, unbiased: Σ is linear in f, and so raw frequencies stand for f."""
        shifted = closed_form.norm(self.raw.frequencies)
        return self.raw.noise.covariance(shifted).trace(self._members)

    def answered(self, frequencies: Array, *, clip: bool = False) -> Array:
        """Return the answers of frequencies (..., d), shape (..., k)."""
        if self._members is None:
            return frequencies
        result = totals(frequencies, self._members)
        return np.maximum(result, 0.0) if clip else result

    def answer_noise(self, weights: Array) -> Array:
        """Return AΣAᵀ w for weights of shape (m, k)."""
        if self._members is None:
            return np.asarray((self.covariance @ weights.T).T)
        spread = np.asarray(self._members.T @ weights.T)
        return np.asarray((self._members @ (self.covariance @ spread)).T)

    def moves(self, kind: Kind, number: int, alpha: float, rng: np.random.Generator) -> Moves:
        """Return the moves for one kind of estimate.

        Few answers take one move each, and nothing random. Many take draws of the noise.
        """
        step = _STEP if kind == "sure" else float(np.sqrt(alpha))
        if kind == "sure" and self._members is not None and self.count <= number:
            return self._moves_of_answers(step)
        draws = self.covariance.draws(number, rng)
        answers = self.answered(draws)
        return Moves(draws, answers, answers, are_draws=True, step=step)

    def _moves_of_answers(self, step: float) -> Moves:
        shared = self.covariance @ self._members.toarray().T
        sd = np.sqrt(np.maximum(np.diag(self._members @ shared), 0.0))
        # An answer without noise, such as the sum of all of GRR's, moves nothing.
        units = np.where(sd > 0, sd, 1.0)
        vectors = (shared / units).T
        tests = np.diag(sd)
        return Moves(vectors, self.answered(vectors), tests, are_draws=False, step=step)

    def trace_with(self, derivative: Derivative) -> float:
        """Return tr(A J Σ Aᵀ) of an exact derivative."""
        if self._members is None:
            return self.covariance.trace_with(derivative)
        total = 0.0
        # In parts: all answers at once would take k vectors of d numbers.
        for first in range(0, self.count, 64):
            rows = self._members[first : first + 64]
            moved = derivative @ (self.covariance @ rows.toarray().T)
            total += float(np.sum(rows.toarray() * moved.T))
        return total

    def moved(self, frequencies: Array) -> FrequencyEstimate:
        """Return other frequencies (..., d) with the noise of this collection."""
        noise = self.raw.noise
        labels = self.raw.labels
        if noise.protocol is None:
            return FrequencyEstimate(frequencies, noise=noise, is_raw=True, labels=labels)
        return FrequencyEstimate(frequencies, noise.n, noise.protocol, is_raw=True, labels=labels)


def _checked(raw: FrequencyEstimate, what: str) -> FrequencyEstimate:
    """Return the estimate, or raise the error that it is not one raw estimate with its noise."""
    if not isinstance(raw, FrequencyEstimate):
        raise InvalidInputError(
            f"{what} needs a raw FrequencyEstimate with its noise, as oracle.estimate makes it; "
            f"got {type(raw).__name__}"
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
    if not sets:
        return f"{count:,} values"
    return f"{count:,} sets" if count > 1 else "1 set"

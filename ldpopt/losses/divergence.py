"""The Kullback-Leibler divergence, whose projection is Norm-Mul."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import rel_entr

from ldpopt.errors import InvalidInputError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses.base import Loss

if TYPE_CHECKING:
    import cvxpy as cp

Array = NDArray[np.float64]


class KullbackLeibler(Loss):
    """Σ f_v log(f_v / max(f̃_v, 0)): the divergence whose projection is Norm-Mul. Values with f̃_v <= 0 must be zero.

    It is meant for frequencies with a given total; without one its minimiser is max(f̃, 0)/e.

    Examples
    --------
    >>> estimate = FrequencyEstimate([0.5, 0.25, -0.1])
    >>> float(KullbackLeibler().value(np.array([0.5, 0.25, 0.0]), estimate))
    0.0
    """

    nonnegative_domain = True
    nonnegative_data = 1

    def validate_for(self, estimate: FrequencyEstimate) -> None:
        """Raise an error where a vector has no positive value."""
        dead = (estimate.frequencies <= 0).all(axis=-1)
        if np.any(dead):
            raise InvalidInputError(
                "the Kullback-Leibler loss needs a positive estimate in every vector: with all <= 0 every value must be zero"
            )

    def value(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return Σ f log(f/max(f̃, 0)), ``inf`` outside its domain."""
        return np.asarray(np.sum(rel_entr(f, np.maximum(estimate.frequencies, 0.0)), axis=-1))

    def gradient(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return 1 + log(f/f̃); -inf at f = 0, inf where f̃ <= 0."""
        reference = np.broadcast_to(estimate.frequencies, f.shape)
        allowed = reference > 0
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = 1 + np.log(np.maximum(f, 0.0)) - np.log(np.where(allowed, reference, 1.0))
        return np.where(allowed, slope, np.inf)

    def support(self, estimate: FrequencyEstimate) -> NDArray[np.bool_]:
        """Return where f̃ > 0."""
        return estimate.frequencies > 0

    def data(self, estimate: FrequencyEstimate) -> tuple[Array, ...]:
        """Return max(f̃, 0) with a sum of 1, and the logarithm of the sum it had, once a value."""
        positive = np.maximum(estimate.frequencies, 0.0)
        mass = positive.sum(axis=-1, keepdims=True)
        return positive / mass, np.broadcast_to(np.log(mass), positive.shape)

    def cone_form(
        self, f: cp.Expression, data: tuple[Any, ...], constants: tuple[float, ...]
    ) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Return -Σ g_v entr(u_v) - log(s) Σ f_v with f = g u, s the sum of max(f̃, 0) = s g: cones with arguments near 1."""
        import cvxpy as cp

        reference, log_mass = data
        u = cp.Variable(f.size)
        return -(reference @ cp.entr(u)) - log_mass @ f, [
            f.size * f == cp.multiply(f.size * reference, u)
        ]

    def response(self, mu: Array, data: tuple[Array, ...], constants: tuple[float, ...]) -> Array:
        """Return max(f̃, 0) exp(-1 - μ)."""
        reference, log_mass = data
        with np.errstate(over="ignore", under="ignore", divide="ignore"):
            return np.asarray(
                np.where(reference > 0, np.exp(np.log(reference) + log_mass - 1 - mu), 0.0)
            )

    def curvature(self, estimate: FrequencyEstimate, largest: float) -> Array:
        """Return 1/largest."""
        return np.full(estimate.frequencies.shape[:-1], 1 / largest)

"""Maximum likelihood for priors, with standard errors (K Eq. 16)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ldpopt.errors import warn
from ldpopt.priors.base import Prior
from ldpopt.priors.counts import EstimatedCounts

Array = NDArray[np.float64]
Build = Callable[[Mapping[str, float]], Prior]
Cost = Callable[[Array], float]

Kind = Literal["real", "positive", "share"]
"""What values a parameter may take: any, above 0, between 0 and 1."""

_STEP = 1e-3  # of central differences, in parameters of order 1: errors of 1e-6 in the curvature
_CURVED = 1e-4  # smallest curvature per estimate that differences of a curve known to 1e-11 show
_NEWTON_STEPS = 20  # at most: from where BFGS stops two are enough, from the start a handful
_DECREMENT = 1e-6  # squared distance from the maximum, in standard errors, before the last step
_WIDEST = 40.0  # bound on free parameters: beyond it, every family is at a limit
_IMPOSSIBLE = 1e300  # cost of parameters under which an estimate is impossible


@dataclass(frozen=True)
class LikelihoodFit:
    """A prior of maximum likelihood.

    Attributes
    ----------
    prior
        The fitted prior.
    parameters, standard_errors
        By name. A standard error follows from the Hessian of the log-likelihood and is infinite
        where that is not negative definite.
    log_likelihood
        Σ_v log Σ_k π(k) φ((y_v - k)/s)/s, of estimated counts.
    converged
        Whether the gradient vanishes at the fit, inside the range of the parameters.
    """

    prior: Prior
    parameters: Mapping[str, float]
    standard_errors: Mapping[str, float]
    log_likelihood: float
    converged: bool


@dataclass(frozen=True)
class _FreeParameters:
    """Parameters as functions of free ones, which take any value and are 0 at the start.

    Positive ones enter by their logarithm, shares by that of their odds. Free parameters are of
    order 1: those of any value are measured in tenths of their start.
    """

    start: Mapping[str, float]
    kinds: Mapping[str, Kind]

    def values(self, free: Array) -> dict[str, float]:
        """Return the parameters by name."""
        bounded = np.clip(free, -_WIDEST, _WIDEST).tolist()
        named = zip(self.kinds, bounded, strict=True)
        return {name: self._value(name, x) for name, x in named}

    def _value(self, name: str, x: float) -> float:
        start = self.start[name]
        kind = self.kinds[name]
        if kind == "positive":
            return start * math.exp(x)
        if kind == "share":
            odds_against = (1 - start) / start
            return 1 / (1 + odds_against * math.exp(-x))
        unit = max(1.0, 0.1 * abs(start))
        return start + x * unit

    def derivatives(self, free: Array) -> Array:
        """Return the derivative of each parameter with respect to its free one."""
        ahead = self.values(free + _STEP)
        behind = self.values(free - _STEP)
        changes = [ahead[name] - behind[name] for name in self.kinds]
        return np.array(changes) / (2 * _STEP)


def maximise(
    build: Build,
    start: Mapping[str, float],
    kinds: Mapping[str, Kind],
    counts: EstimatedCounts,
) -> LikelihoodFit:
    """Return the prior that maximises Σ_v log Σ_k π(k) φ((y_v-k)/s) (K Eq. 16).

    Newton steps find a local maximum, from where BFGS stops if they do not descend from the start.
    Where they find none inside the range of the parameters (noise hides the counts) the point
    reached is returned, with a warning and infinite standard errors.

    Parameters
    ----------
    build
        From parameters by name to a prior.
    start, kinds
        Where the search begins, and what values each parameter may take.
    counts
        One vector of estimated counts, taken as independent given the prior.
    """
    parameters = _FreeParameters(start, kinds)
    d = len(counts.values)

    # Both searches come back to the points of their differences: one evidence costs milliseconds.
    costs: dict[bytes, float] = {}

    def cost(free: Array) -> float:
        key = free.tobytes()
        if key not in costs:
            prior = build(parameters.values(free))
            posterior = prior._posterior(counts.values, counts.noise)
            mean = float(np.mean(posterior.log_evidence))
            costs[key] = -mean if math.isfinite(mean) else _IMPOSSIBLE
        return costs[key]

    # From the fit by moments most searches are Newton's from the first step, at a third of the
    # cost.
    free, hessian, confirmed = _newton(cost, np.zeros(len(kinds)), d)
    if not confirmed:
        free, hessian, confirmed = _newton(cost, _bfgs(cost, len(kinds)), d)
    is_inside = bool((np.abs(free) < _WIDEST).all())
    converged = confirmed and is_inside
    fitted = parameters.values(free)
    errors = np.full(len(kinds), np.inf)
    if converged:
        # The delta method takes errors from the free parameters to the others.
        variances = np.diag(np.linalg.inv(hessian)) / d
        errors = parameters.derivatives(free) * np.sqrt(variances)
    else:
        reached = ", ".join(f"{name} = {value:g}" for name, value in fitted.items())
        warn(
            f"the likelihood has no maximum that the search could confirm; it stopped at {reached}:"
            " with this much noise the estimates say little about the prior"
        )
    return LikelihoodFit(
        prior=build(fitted),
        parameters=fitted,
        standard_errors=dict(zip(kinds, errors.tolist(), strict=True)),
        log_likelihood=-cost(free) * d,
        converged=converged,
    )


def _bfgs(cost: Cost, size: int) -> Array:
    """Return where BFGS from 0 stops."""
    from scipy.optimize import minimize  # slow to import, and only these fits need it

    with warnings.catch_warnings():
        # Differences of the cost overflow where a step reaches impossible parameters.
        warnings.simplefilter("ignore", RuntimeWarning)
        search = minimize(
            cost,
            np.zeros(size),
            method="BFGS",
            options={"gtol": 1e-5, "eps": 1e-5},
        )
    return np.asarray(search.x, dtype=np.float64)


def _newton(cost: Cost, free: Array, d: int) -> tuple[Array, Array, bool]:
    """Return the point that Newton steps reach, the Hessian there, and whether it is a minimum."""
    for _ in range(_NEWTON_STEPS):
        gradient, hessian = _derivatives(cost, free)
        if not _positive_definite(hessian):
            return free, hessian, False
        step = np.linalg.solve(hessian, gradient)
        decrement = gradient @ step * d  # the Hessian is that of the mean of d terms
        ahead = free - step
        if decrement < _DECREMENT:
            return ahead, hessian, True
        if cost(ahead) > cost(free):
            return free, hessian, False
        free = ahead
    return free, hessian, False


def _derivatives(cost: Cost, at: Array) -> tuple[Array, Array]:
    """Return gradient and Hessian by central differences."""
    size = len(at)
    steps = _STEP * np.eye(size)
    gradient = np.empty(size)
    hessian = np.empty((size, size))
    middle = cost(at)
    for i, step in enumerate(steps):
        ahead = cost(at + step)
        behind = cost(at - step)
        second_difference = ahead - 2 * middle + behind
        gradient[i] = (ahead - behind) / (2 * _STEP)
        hessian[i, i] = second_difference / _STEP**2
        # The Hessian is symmetric: each mixed derivative costs four values, and is taken once.
        for j, other in enumerate(steps[:i]):
            mixed = _mixed_derivative(cost, at, step, other)
            hessian[i, j] = mixed
            hessian[j, i] = mixed
    return gradient, hessian


def _mixed_derivative(
    cost: Cost,
    at: Array,
    step: Array,
    other: Array,
) -> float:
    """Return the second derivative along two steps by a central difference."""
    ahead = at + step
    behind = at - step
    along = cost(ahead + other) + cost(behind - other)
    across = cost(ahead - other) + cost(behind + other)
    return (along - across) / (4 * _STEP**2)


def _positive_definite(matrix: Array) -> bool:
    if not np.isfinite(matrix).all():
        return False
    smallest = np.linalg.eigvalsh(matrix)[0]
    return bool(smallest > _CURVED)

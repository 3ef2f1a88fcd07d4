"""Maximum likelihood for priors, with standard errors (K Eq. 16)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ldpopt.estimate import FrequencyEstimate
from ldpopt.priors.base import Prior
from ldpopt.priors.trouble import warn

Array = NDArray[np.float64]

Kind = Literal["real", "positive", "share"]
"""What values a parameter may take: any, above 0, between 0 and 1."""

_FROM_FREE: dict[Kind, Callable[[float, float], float]] = {
    "real": lambda start, x: start + x,
    "positive": lambda start, x: start * math.exp(x),
    "share": lambda start, x: 1 / (1 + (1 - start) / start * math.exp(-x)),
}

_STEP = 1e-3  # of central differences, in free parameters of order 1: curvature to 1e-6 beside the curve's 1e-11
_CURVED = 1e-4  # information of one estimate on a free parameter: differences of a curve known to 1e-11 show no less
_NEWTON = 20  # steps at most: from where BFGS stops two are enough
_DECREMENT = 1e-6  # squared distance of the fit from the maximum, in standard errors
_WIDEST = 40.0  # free parameters are kept within: beyond, every family is at a limit


@dataclass(frozen=True)
class LikelihoodFit:
    """A prior of maximum likelihood.

    Attributes
    ----------
    prior
        The fitted prior.
    parameters, standard_errors
        By name; a standard error follows from the Hessian of the log-likelihood and is infinite where that is not negative
        definite.
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


def maximise(
    build: Callable[[Mapping[str, float]], Prior],
    start: Mapping[str, float],
    kinds: Mapping[str, Kind],
    estimate: FrequencyEstimate,
    slope: float,
) -> LikelihoodFit:
    """Return the prior under which the estimates are most likely: Σ_v log Σ_k π(k) φ((y_v-k)/s) is maximised (K Eq. 16).

    The search (BFGS, then Newton steps) is over parameters free to take any value: positive ones enter by their logarithm,
    shares by that of their odds. It finds a local maximum. Where it finds none inside the range of the parameters (noise
    hides the counts) the point reached is returned, with a warning and infinite standard errors.

    Parameters
    ----------
    build
        From parameters by name to a prior.
    start, kinds
        Where the search begins, and what values each parameter may take.
    estimate
        With n and an oracle, frequencies of shape (d,), taken as independent given the prior.
    slope
        Growth of an estimate's variance with the true count.
    """
    from scipy.optimize import minimize  # slow to import, and only these fits need it

    n, _ = estimate.noise
    y, noise = estimate.frequencies * n, estimate.sigma * n
    names = list(kinds)
    # Free parameters are of order 1: those of any value in tenths of their start, the others by logarithms.
    unit = {
        name: max(1.0, 0.1 * abs(start[name])) if kinds[name] == "real" else 1.0 for name in names
    }

    def values(free: Array) -> dict[str, float]:
        return {
            name: _FROM_FREE[kinds[name]](start[name], x * unit[name])
            for name, x in zip(names, np.clip(free, -_WIDEST, _WIDEST).tolist(), strict=True)
        }

    def cost(free: Array) -> float:
        value = float(np.mean(build(values(free)).posterior(y, noise, slope=slope).log_evidence))
        return -value if math.isfinite(value) else 1e300

    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", RuntimeWarning
        )  # differences of 1e300 where a step went far out
        search = minimize(
            cost, np.zeros(len(names)), method="BFGS", options={"gtol": 1e-5, "eps": 1e-5}
        )
    free, confirmed = np.asarray(search.x, dtype=np.float64), False
    for _ in range(_NEWTON):
        gradient, hessian = _derivatives(cost, free)
        if not _positive_definite(hessian):
            break
        step = np.linalg.solve(hessian, gradient)
        confirmed = bool(gradient @ step * len(y) < _DECREMENT)
        if confirmed or cost(free - step) > cost(free):
            break
        free = free - step
    converged = confirmed and bool((np.abs(free) < _WIDEST).all())
    fitted = values(free)
    if converged:  # the delta method, from free parameters to the others
        ahead, behind = values(free + _STEP), values(free - _STEP)
        slopes = np.array([(ahead[name] - behind[name]) / (2 * _STEP) for name in names])
        errors = slopes * np.sqrt(np.diag(np.linalg.inv(hessian)) / len(y))
    else:
        errors = np.full(len(names), np.inf)
        warn(
            "the likelihood has no maximum that the search could confirm; it stopped at "
            + ", ".join(f"{name} = {value:g}" for name, value in fitted.items())
            + ": with this much noise the estimates say little about the prior"
        )
    standard_errors = dict(zip(names, errors.tolist(), strict=True))
    return LikelihoodFit(build(fitted), fitted, standard_errors, -cost(free) * len(y), converged)


def _derivatives(cost: Callable[[Array], float], at: Array) -> tuple[Array, Array]:
    """Return gradient and Hessian by central differences."""
    size = len(at)
    steps = _STEP * np.eye(size)
    gradient, hessian = np.empty(size), np.empty((size, size))
    middle = cost(at)
    for i in range(size):
        up, down = cost(at + steps[i]), cost(at - steps[i])
        gradient[i], hessian[i, i] = (up - down) / (2 * _STEP), (up - 2 * middle + down) / _STEP**2
        for j in range(i):
            both = [
                cost(at + a * steps[i] + b * steps[j])
                for a, b in ((1, 1), (1, -1), (-1, 1), (-1, -1))
            ]
            hessian[i, j] = hessian[j, i] = (both[0] - both[1] - both[2] + both[3]) / (4 * _STEP**2)
    return gradient, hessian


def _positive_definite(matrix: Array) -> bool:
    return bool(np.isfinite(matrix).all() and np.linalg.eigvalsh(matrix)[0] > _CURVED)

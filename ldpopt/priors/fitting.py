"""Maximum likelihood for priors, with standard errors (K Eq. 16)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldpopt.errors import InvalidInputError, LdpoptWarning
from ldpopt.estimate import FrequencyEstimate
from ldpopt.priors.base import Prior
from ldpopt.priors.density import Density, moments
from ldpopt.priors.trouble import warn
from ldpopt.priors.zero_inflated import ZeroInflated

Array = NDArray[np.float64]

_STEP = 1e-3  # of central differences, in free parameters of order 1: curvature to 1e-6 beside the curve's 1e-11
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


def maximum_likelihood(
    estimate: FrequencyEstimate, family: type[Density], *, zero: bool = False, value_dependent: bool = False
) -> LikelihoodFit:
    """Return the member of a family under which the estimates are most likely (K Eq. 16).

    The search (BFGS, from the fit by moments, then Newton steps) is over parameters free to take any value; those that must
    be positive enter by their logarithm. It finds a local maximum.

    Parameters
    ----------
    estimate
        With n and an oracle, frequencies of shape (d,).
    family
        Such as ``PowerLaw``.
    zero
        Whether a point mass at 0 is fitted too; the prior then is a ``ZeroInflated``.
    value_dependent
        Whether an estimate's variance depends on the true count, n (a + b k/n), instead of being n a for all.

    Raises
    ------
    InvalidInputError
        If the family has no parameters, the noise level is not known, or there is more than one vector.

    Notes
    -----
    The estimates are taken as independent given the prior. Where the likelihood has no maximum inside the range of the
    parameters (noise hides the counts) the point reached is returned, with a warning and infinite standard errors.
    Cost: some dozens of posterior curves.

    Examples
    --------
    >>> from ldpopt import datasets, oracles
    >>> from ldpopt.priors import PowerLaw
    >>> data = datasets.load("zipf")
    >>> oracle = oracles.OUE(epsilon=2.0, d=data.d)
    >>> estimate = oracle.estimate(oracle.simulate_counts(data.counts, rng=0), data.n)
    >>> fit = maximum_likelihood(estimate, PowerLaw)
    >>> print(f"alpha = {fit.parameters['alpha']:.2f} ± {fit.standard_errors['alpha']:.2f}")
    alpha = 1.15 ± 0.03
    """
    from scipy.optimize import minimize  # slow to import, and only these fits need it

    mean, variance, n = moments(estimate, value_dependent=value_dependent)
    _, oracle = estimate.noise
    slope = oracle.b if value_dependent else 0.0
    y, noise = estimate.frequencies * n, estimate.sigma * n
    kinds = dict(family.parameters())
    start = _start(family, mean, variance, noise, n)
    if zero:
        kinds["mass"], start["mass"] = "positive", 1.0  # as odds
    names = list(kinds)
    # Free parameters: logarithms, and what lies around the start in units of what can be told apart.
    unit = {name: max(1.0, 0.1 * abs(start[name])) for name in names}

    def values(free: Array) -> dict[str, float]:
        bounded = np.clip(free, -_WIDEST, _WIDEST)
        return {
            name: start[name] * math.exp(x) if kinds[name] == "positive" else start[name] + unit[name] * x
            for name, x in zip(names, bounded.tolist(), strict=True)
        }

    def build(free: Array) -> Prior:
        found = values(free)
        odds = found.pop("mass", None)
        inner = family(**found, n=n)
        return inner if odds is None else ZeroInflated(inner, min(max(odds / (1 + odds), 1e-300), 1 - 2**-53))

    def cost(free: Array) -> float:
        value = float(np.mean(build(free).posterior(y, noise, slope=slope).log_evidence))
        return -value if math.isfinite(value) else 1e300

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # differences of 1e300 where a step went far out
        found = minimize(cost, np.zeros(len(names)), method="BFGS", options={"gtol": 1e-6})
    free = np.asarray(found.x, dtype=np.float64)
    for _ in range(2):
        gradient, hessian = _derivatives(cost, free)
        if not _positive_definite(hessian):
            break
        better = free - np.linalg.solve(hessian, gradient)
        if not np.isfinite(better).all() or cost(better) > cost(free):
            break
        free = better
    gradient, hessian = _derivatives(cost, free)
    inside = _positive_definite(hessian) and bool((np.abs(free) < _WIDEST).all())
    converged = inside and bool(gradient @ np.linalg.solve(hessian, gradient) < 1e-6 / len(y))
    fitted = values(free)
    if converged:
        slopes = np.array([fitted[name] if kinds[name] == "positive" else unit[name] for name in names])
        errors = slopes * np.sqrt(np.diag(np.linalg.inv(hessian)) / len(y))
    else:
        errors = np.full(len(names), np.inf)
        warn(
            f"the likelihood of {family.__name__} has no maximum that the search could confirm; it stopped at "
            + ", ".join(f"{name} = {value:g}" for name, value in fitted.items())
            + ": with this much noise the estimates say little about the prior"
        )
    standard_errors = dict(zip(names, errors.tolist(), strict=True))
    if zero:  # from odds to a share, by the delta method
        odds = fitted["mass"]
        fitted["mass"], standard_errors["mass"] = odds / (1 + odds), standard_errors["mass"] / (1 + odds) ** 2
    return LikelihoodFit(build(free), fitted, standard_errors, -cost(free) * len(y), converged)


def _start(family: type[Density], mean: float, variance: float, noise: float, n: int) -> dict[str, float]:
    """Return parameters to start from: the fit by moments where it exists, away from limits."""
    if not family.parameters():
        raise InvalidInputError(f"{family.__name__} has no parameters to fit: construct it instead")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LdpoptWarning)  # only a start
        first = family.from_moments(min(max(mean, 2.0), (n + 1) / 2), max(variance, 0.01 * noise**2, 1.0), n)
    return {name: float(getattr(first, name)) for name in family.parameters()}


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
            both = [cost(at + a * steps[i] + b * steps[j]) for a, b in ((1, 1), (1, -1), (-1, 1), (-1, -1))]
            hessian[i, j] = hessian[j, i] = (both[0] - both[1] - both[2] + both[3]) / (4 * _STEP**2)
    return gradient, hessian


def _positive_definite(matrix: Array) -> bool:
    return bool(np.isfinite(matrix).all() and np.linalg.eigvalsh(matrix)[0] > 0)

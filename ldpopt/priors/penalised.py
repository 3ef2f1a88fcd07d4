"""Penalised mixture weights: a few components, all of them with weight, in a dozen Newton steps.

max Σ_i size_i log (A w)_i + c Σ_j log w_j over w >= 0, Σ w = 1. The second term keeps all weights
positive, so that Newton's method needs no active set: on ``Σ w <= 1`` with the price N = Σ size +
c·components, at which the maximum sums to 1 by itself, each step is one equation of as many
unknowns as there are components. The scores s = (Aᵀ(size/A w) + c/w)/N have Σ w s = 1, and, as for
``mixture_weights``, no weights are better by more than max s - 1 in the mean.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.priors.mixture_weights import mixture_weights

Array = NDArray[np.float64]

# EM's first steps come nearer to the maximum than Newton's, at a tenth of the price.
_WARM = 3
# Newton's steps are 4 to 8. What takes more is left to ``mixture_weights``.
_STEPS = 30
# How far a step may go towards a weight of 0.
_INSIDE = 0.95
_EPS = float(np.finfo(np.float64).eps)


class PenalisedWeights(NamedTuple):
    """Weights, shape (components,), and a bound of how far the mean is from its maximum in nats."""

    weights: Array
    gap: float


def penalised_weights(
    likelihoods: Array,
    size: Array,
    pseudo_count: float,
    tol: float,
) -> PenalisedWeights:
    """Return the weights that maximise Σ_i size_i log (A w)_i + c Σ_j log w_j over the simplex.

    Parameters
    ----------
    likelihoods
        A, the density of each bin under each component, shape (bins, components).
    size
        Estimates in each bin, shape (bins,).
    pseudo_count
        c > 0: it counts as that many observations that only one component explains.
    tol
        The gap to reach, in nats of the mean over all observations, those c among them.

    Raises
    ------
    InvalidInputError
        As ``mixture_weights``, if a bin is impossible under every component.

    Notes
    -----
    Cost: per step a product AᵀDA and an equation of that size.
    """
    weights = np.full(likelihoods.shape[1], 1 / likelihoods.shape[1])
    limits = (tol, _WARM, _STEPS, _INSIDE)
    # Imports numba. Bins that are next to impossible may overflow: the gap is infinite then.
    from ldpopt.priors.weight_kernels import penalised_newton

    # One kind of array, whether the columns are all of a matrix or some of them.
    columns = np.ascontiguousarray(likelihoods)
    gap = penalised_newton(columns, size, weights, pseudo_count, limits)
    if gap <= tol:
        # No gap is known to less than rounding.
        return PenalisedWeights(weights, max(gap, _EPS))
    return _by_search(likelihoods, size, pseudo_count, tol)


def _by_search(
    likelihoods: Array, size: Array, pseudo_count: float, tol: float
) -> PenalisedWeights:
    """Return the weights by the search for any mixture: a penalty is one observation more each."""
    components = likelihoods.shape[1]
    rows = np.concatenate([likelihoods, np.eye(components)])
    observed = np.concatenate([size, np.full(components, pseudo_count)])
    fit = mixture_weights(rows, observed, tol=tol)
    return PenalisedWeights(fit.weights, fit.gap)

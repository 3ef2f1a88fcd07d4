"""Weights of likelihoods along a line: few places have weight, and they move to the best ones.

Of the places on a fine grid the maximum gives weight to a dozen. Each step of the constrained
Newton method (Wang 2007) keeps those that have weight, adds the peaks of the scores, and solves
least squares on these columns alone. Scores of all places state the gap, as in ``mixture_weights``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpopt.priors.likelihood_model import EPS
from ldpopt.priors.mixture_weights import FLAT, SHORTEST, SUFFICIENT, mixture_weights

Array = NDArray[np.float64]

# Places between those that have weight at first: as far apart as the noise resolves.
_APART = 10
# Steps are 13 to 22 on estimates. What takes more is left to ``mixture_weights``.
_STEPS = 60


def grid_weights(likelihoods: Array, size: Array, tol: float) -> tuple[Array, float]:
    """Return the weights that maximise Σ_i size_i log (A w)_i over the simplex, and their gap.

    Parameters
    ----------
    likelihoods
        A, the density of each bin under each place, shape (bins, places); neighbours are alike.
    size
        Estimates in each bin, shape (bins,).
    tol
        The gap to reach, in nats of the mean log likelihood.

    Raises
    ------
    InvalidInputError
        As ``mixture_weights``, if a bin is next to impossible under every place.
    """
    places = likelihoods.shape[1]
    x = np.zeros(places)
    x[_first_places(likelihoods)] = 1.0
    x /= x.sum()
    share = size / size.sum()
    # Imports numba.
    from ldpopt.priors.weight_kernels import grid_newton

    gap = grid_newton(likelihoods, share, x, (tol, _STEPS, FLAT, SUFFICIENT, SHORTEST))
    if gap <= tol:
        # No gap is known to less than rounding.
        return x, max(gap, EPS)
    if gap == np.inf:
        # An estimate that no chosen place explains: all places begin with weight.
        x = np.full(places, 1 / places)
    fit = mixture_weights(likelihoods, size, start=x, tol=tol)
    return fit.weights, fit.gap


def _first_places(likelihoods: Array) -> NDArray[np.intp]:
    """Return the places that have weight at first: spread evenly, or one for each bin if fewer."""
    places = likelihoods.shape[1]
    spread = np.arange(0, places, _APART)
    if len(spread) > len(likelihoods):
        # Where the noise grows with the count a grid has thousands of places. Each step solves
        # equations of as many unknowns, again for each place that loses its weight.
        return np.unique(np.argmax(likelihoods, axis=1))
    # The last place may be the only one near the largest estimates.
    return np.append(spread, places - 1)

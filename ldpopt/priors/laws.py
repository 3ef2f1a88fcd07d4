"""Families of laws of one parameter over the cells of a prior, for comparison by their evidence.

All but the power laws have the mean n/d, which the true counts have (of a part of the values, the
mean that their sum gives). So the parameter is free to say how unequal the counts are. Each
function returns the masses on 0 and on the cells between edges of counts, one law per row.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpopt.priors.binning import Binned

Array = NDArray[np.float64]

# From nearly a point to counts whose standard deviation is four times their mean.
_SHAPES = 2.0 ** np.arange(-4, 6, 0.5)
# A million users tell no finer exponents apart.
_EXPONENTS = np.arange(0.8, 2.6, 0.05)
# Tails from k^-2.05, the heaviest with a mean that samples come near to, to exponential ones.
_TAILS = 1 + np.geomspace(0.05, 60, 24)
# From 5 % around the median to factors of 30 either way.
_LOG_WIDTHS = np.geomspace(0.05, 3.5, 24)
# How many times n/d the mean of the counts above 0 may be: those above 0 are from all to one in a
# million.
_FACTORS = 2.0 ** np.arange(0, 20, 0.5)


def gamma_laws(binned: Binned, edges: Array) -> Array:
    """Return gamma laws, whose parameter is the shape."""
    from scipy.special import gammainc  # slow to import, and only fits need it

    shape = _SHAPES[:, None]
    scale = binned.mean / shape
    return _masses(gammainc(shape, edges / scale))


def lognormal_laws(binned: Binned, edges: Array) -> Array:
    """Return lognormal laws, whose parameter is the standard deviation of the logarithm."""
    from scipy.special import ndtr

    width = _LOG_WIDTHS[:, None]
    median = np.log(binned.mean) - width**2 / 2
    return _masses(ndtr((np.log(edges) - median) / width))


def pareto_laws(binned: Binned, edges: Array) -> Array:
    """Return Pareto laws that begin at 0 (Lomax 1954), whose parameter is the tail's exponent."""
    tail = _TAILS[:, None]
    scale = binned.mean * (tail - 1)
    return _masses(-np.expm1(-tail * np.log1p(edges / scale)))


def sparse_exponential_laws(binned: Binned, edges: Array) -> Array:
    """Return exponential laws beside an atom at 0, whose parameter is the atom's mass."""
    mean = _means_above_zero(binned, binned.n)
    return _beside_atom(binned, -np.expm1(-edges / mean), mean)


def sparse_uniform_laws(binned: Binned, edges: Array) -> Array:
    """Return uniform laws from 0 on beside an atom at 0, whose parameter is the atom's mass."""
    mean = _means_above_zero(binned, binned.n / 2)
    return _beside_atom(binned, np.minimum(edges / (2 * mean), 1.0), mean)


def power_laws(_binned: Binned, edges: Array) -> Array:
    """Return power laws up to n, whose parameter is the exponent; 0 has no mass."""
    centres = (edges[1:] + edges[:-1]) / 2
    masses = centres ** -_EXPONENTS[:, None] * np.diff(edges)
    masses = masses / masses.sum(axis=1, keepdims=True)
    return np.insert(masses, 0, 0.0, axis=1)


FAMILIES = {
    "gamma": gamma_laws,
    "lognormal": lognormal_laws,
    "pareto": pareto_laws,
    "power": power_laws,
    "sparse exponential": sparse_exponential_laws,
    "sparse uniform": sparse_uniform_laws,
}
"""Families by name: light and heavy tails, with and without many values that nobody has."""


def _masses(upto: Array) -> Array:
    """Return the masses on 0 and the cells of distribution functions at the edges."""
    # Rounding may make a distribution function fall by a bit.
    cells = np.maximum(np.diff(upto, axis=1), 0.0)
    masses = np.concatenate([upto[:, :1], cells], axis=1)
    # What lies above n belongs to no count.
    return np.asarray(masses / masses.sum(axis=1, keepdims=True))


def _means_above_zero(binned: Binned, highest: float) -> Array:
    """Return the means that counts above 0 may have, from n/d on, as a column."""
    means = binned.mean * _FACTORS
    # n/d itself always stays: with few values it may lie above the highest.
    return np.asarray(means[(means <= highest) | (means == means[0])][:, None])


def _beside_atom(binned: Binned, upto: Array, mean: Array) -> Array:
    """Return laws with the mean n/d: an atom at 0, and distribution functions above 0."""
    share = binned.mean / mean
    masses = share * _masses(upto)
    masses[:, :1] += 1 - share
    return np.asarray(masses)

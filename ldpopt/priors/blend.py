"""A prior that is one of several laws, of which it is not known which one holds.

All true counts follow the same law. So its probability is a matter of all estimates together, and
one estimate more does not change it: the posterior of a count is the mean of those under each law,
by the probability of the law. Under the mean of the laws instead, one estimate that lies far
outside would by itself choose the law that explains it best.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.errors import InvalidInputError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.immutable import derived_property
from ldpopt.priors.base import Prior
from ldpopt.priors.counts import finite_counts, freeze, require_masses
from ldpopt.priors.discrete import Discrete, relative_terms
from ldpopt.priors.noise import CountNoise
from ldpopt.priors.quantiles import reached_points

Array = NDArray[np.float64]

# Of the probability of all laws: those that have less together move no posterior mean.
_NEGLIGIBLE = 1e-6

# Part of the mean law that each law has: where a law rules out an estimate its posterior is that of
# the others, and curves stay smooth.
_SHARED = 1e-100

# Kernel entries held at a time: arrays of 512 KB, of which a product with the laws makes good use.
_HELD = 1 << 16


@dataclass(frozen=True, eq=False)
class Blend(Prior):
    """Laws on the same support points, of which one holds for all counts, with probabilities.

    Parameters
    ----------
    support
        Ascending counts in 0 .. n.
    laws
        Masses of each law on the support points, shape (laws, points), each row with a positive
        sum. Rows are normalised; laws whose probabilities add up to less than 1e-6 are left out.
    probabilities
        Of each law; they are normalised.
    n
        Number of users.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        As ``Discrete`` does for the support and each law; if there is not one probability per law.

    Examples
    --------
    >>> low, high = [1.0, 0.0, 0.0], [0.0, 0.5, 0.5]
    >>> blend = Blend([0.0, 100.0, 200.0], [low, high], [0.5, 0.5], n=1000)
    >>> blend.posterior_mean([150.0], noise=30.0)
    array([75.])
    """

    support: Array
    laws: Array
    probabilities: Array
    n: int

    def __post_init__(self) -> None:
        laws = validate.array("laws", self.laws).astype(np.float64)
        probabilities = validate.array("probabilities", self.probabilities).astype(np.float64)
        if laws.ndim != 2 or probabilities.shape != (len(laws),):
            raise InvalidInputError(
                "a blend needs a row of masses and a probability for each law, got shapes "
                f"{laws.shape} and {probabilities.shape}"
            )
        require_masses("probabilities", probabilities)
        for number, law in enumerate(laws):
            require_masses(f"the masses of law {number}", law)
        laws = laws / laws.sum(axis=1, keepdims=True)
        probabilities = probabilities / probabilities.sum()
        likely = _likely(probabilities)
        laws = laws[likely]
        probabilities = probabilities[likely] / probabilities[likely].sum()
        # It checks the support, and leaves out points without mass.
        mean = Discrete(self.support, probabilities @ laws, self.n)
        is_kept = np.isin(np.asarray(self.support, dtype=np.float64), mean.support)
        freeze(
            self,
            n=mean.n,
            support=mean.support,
            laws=laws[:, is_kept],
            probabilities=probabilities,
        )

    @derived_property
    def weights(self) -> Array:
        """The masses of the mean law on the support points, shape (points,)."""
        return np.asarray(self.probabilities @ self.laws)

    @derived_property
    def _relative(self) -> Array:
        """The laws over the mean law, shape (points, laws)."""
        ratios = (1 - _SHARED) * self.laws / self.weights + _SHARED
        return np.ascontiguousarray(ratios.T)

    def mean(self) -> float:
        """Return E[k] of the prior."""
        return float(self.weights @ self.support)

    def variance(self) -> float:
        """Return Var[k] of the prior."""
        return float(self.weights @ (self.support - self.mean()) ** 2)

    def slope(self, counts: ArrayLike, noise: float) -> Array:
        """Return the derivative of the posterior mean by the estimate.

        It is the mean of the posterior variances under each law, over that of the noise.
        """
        from ldpopt.priors.product_kernels import product  # imports numba

        y = finite_counts(counts)
        checked = CountNoise.checked(noise, 0.0, self.n, y)
        near = checked.clip(y.ravel(), *self._ends)
        result = np.empty(len(near))
        for terms in self._terms(near, checked):
            centred = self.support - terms.mean[:, None]
            squares = np.sum(terms.weight * centred**2, axis=1)
            # What the laws differ by is no part of it: their probabilities do not move with y.
            firsts = product(terms.kernel * centred, self._relative) / terms.densities
            result[terms.rows] = squares - product(firsts**2, self.probabilities)
        # Outside of the range that is followed all laws have their ends.
        result[near != y.ravel()] = 0.0
        return np.maximum(result, 0.0).reshape(y.shape) / noise**2

    @property
    def _ends(self) -> tuple[float, float]:
        return float(self.support[0]), float(self.support[-1])

    def _moments_at(self, y: Array, noise: CountNoise) -> Array:
        from ldpopt.priors.product_kernels import product  # imports numba

        result = np.empty((3, len(y)))
        for terms in self._terms(y, noise):
            squares = (self.support - terms.mean[:, None]) ** 2
            squares *= terms.weight
            # The density of one estimate, whichever law holds.
            density = product(terms.densities, self.probabilities)
            result[0, terms.rows] = terms.mean
            result[1, terms.rows] = squares.sum(axis=1)
            result[2, terms.rows] = terms.log_scale + np.log(density)
        return result

    def _quantiles(self, y: Array, noise: CountNoise, shares: Array) -> Array:
        result = np.empty(shares.shape)
        for terms in self._terms(y, noise):
            rows = terms.rows
            result[:, rows] = reached_points(terms.weight, shares[:, rows], self.support)
        return result

    def _terms(self, y: Array, noise: CountNoise) -> Iterator[_Terms]:
        """Yield what the posteriors of some estimates at a time are made of."""
        from ldpopt.priors.product_kernels import product  # imports numba

        nearest = np.clip(y, *self._ends)
        for rows, kernel, top in relative_terms(y, noise, self.support, self.weights, _HELD):
            # Each is at least ``_SHARED``, since the largest term of the kernel is 1.
            densities = product(kernel, self._relative)
            weight = kernel * product(self.probabilities / densities, self._relative.T)
            weight /= weight.sum(axis=1, keepdims=True)
            mean = product(weight, self.support)
            log_scale = top + noise.log_density(y[rows], nearest[rows])
            yield _Terms(rows, kernel, densities, weight, mean, log_scale)

    @classmethod
    def fit(cls, estimate: FrequencyEstimate, *args: Any, **options: Any) -> Self:
        """Raise an error: only the subclass ``Auto`` is fitted."""
        raise InvalidInputError("Blend is a prior as given: fit Auto")


class _Terms(NamedTuple):
    """Some estimates: kernel and posterior weights, (r, points); densities by law, (r, laws).

    Kernel and densities are those of the mean law and of each law, divided by exp(log_scale).
    """

    rows: slice
    kernel: Array
    densities: Array
    weight: Array
    mean: Array
    log_scale: Array


def _likely(probabilities: Array) -> NDArray[np.intp]:
    """Return the laws that are kept, in their order: all but the least likely ones."""
    ascending = np.argsort(probabilities, kind="stable")
    dropped = np.cumsum(probabilities[ascending]) < _NEGLIGIBLE
    return np.sort(ascending[~dropped])

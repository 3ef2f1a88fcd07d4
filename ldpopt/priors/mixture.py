"""A prior mixed from simple shapes on a logarithmic scale, with weights that the estimates choose.

Maximum likelihood over shapes is convex, yet its best weights are as ragged as NPMLE's atoms, and which shapes are offered
matters by several per cent. So weights are penalised, and the fits to several dictionaries of shapes are averaged. Where the
estimates tell no more than a law of one parameter would, that law is the prior.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ldpopt import validate
from ldpopt.estimate import FrequencyEstimate
from ldpopt.priors.binning import Binned
from ldpopt.priors.discrete import Discrete
from ldpopt.priors.mixture_weights import mixture_weights
from ldpopt.priors.npmle import TOLERANCE

Array = NDArray[np.float64]

PIECES = (1.5, 2.0)  # each log-uniform piece is so many times as long as the one before
HATS = (4.0, 8.0, 16.0, 32.0)  # the knots of hats are in this ratio
_PHASES = (
    0.0,
    0.5,
)  # each dictionary also with its knots moved by half a ratio, so that none is an edge everywhere
_RESOLUTION = (
    2.0  # first knot in units of s/√d, the error of a mean: smaller counts look like 0 together
)
_PSEUDO = 0.5  # count added to each component
_HUMPS = 2.0 ** np.arange(
    -1, 6
)  # shapes of gamma distributions, from wider than the exponential to nearly a point
_EXPONENTS = np.arange(
    0.8, 2.6, 0.05
)  # of power laws: finer than a million users tell apart at d = 1,024
_RATIO, _SPACING, _REACH = (
    1.03,
    0.25,
    10.0,
)  # of support points: next to one another, and where the noise resolves them


@dataclass(frozen=True, eq=False)
class Mixture(Discrete):
    """A prior mixed from an atom at 0, log-uniform pieces and hats, or a law of one parameter where more cannot be told.

    A dictionary has an atom at 0 and either pieces, π(k) ∝ 1/k between two knots, or hats, 1/k times a function that rises
    from a knot to the next and falls to the one after, linear in log k; knots form a geometric sequence. Smooth laws such as
    powers of k lie within a dictionary's mixtures or next to them.

    Attributes
    ----------
    gap
        How far the penalised mean log likelihood of a dictionary is from its maximum at most, in nats: the worst of them.
    simple
        Weight of the laws of one parameter, between 0 and 1.

    Examples
    --------
    >>> from ldpopt import datasets, oracles
    >>> data, oracle = datasets.load("zipf"), oracles.OUE(epsilon=1.0, d=1024)
    >>> raw = oracle.estimate(oracle.simulate_counts(data.counts, rng=0), data.n)
    >>> prior = Mixture.fit(raw)
    >>> means = prior.posterior_mean(raw.frequencies * data.n, raw.sigma * data.n)
    >>> bool(((means - data.counts) ** 2).mean() < 0.1 * ((raw.frequencies * data.n - data.counts) ** 2).mean())
    True
    """

    gap: float = 0.0
    simple: float = 0.0

    @classmethod
    def fit(cls, estimate: FrequencyEstimate, *, slope: float = 0.0) -> Mixture:
        """Return the mixture that fits one vector of estimates.

        For each dictionary, max Σ_v log Σ_j w_j p_j(y_v) + ½ Σ_j log w_j over the simplex, where p_j(y) is the density of an
        estimate under component j; the priors of all dictionaries are averaged. Then two families of one parameter are mixed in:
        gamma distributions with the mean n/d that the true counts have, and power laws. They weigh 1/(1 + e^(L - ½ log d)), where
        L is how much likelier the estimates are under the average than under the families (the Bayesian information criterion,
        for one parameter more).

        Parameters
        ----------
        estimate
            Raw estimates of shape (d,), with n and an oracle.
        slope
            Growth of a count's noise variance with the true count; 0 is the papers' constant noise.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If the estimate is a stack of trials or has no noise level.

        Notes
        -----
        The penalised problem is mixture_weights' own with half an observation more for each component that only this
        component explains; it is solved to a proven gap of 1e-7 nats. Cost: one pass over d, then milliseconds.
        """
        binned = Binned.of(estimate, validate.real("slope", slope))
        edges = _edges(binned)
        support = np.append(0.0, (edges[1:] + edges[:-1]) / 2)
        dictionaries = _dictionaries(binned, edges)
        families = [_humps(binned, edges), _powers(edges)]
        likelihoods = binned.likelihoods(support, np.concatenate(dictionaries + families))
        weights, gap, start = [], 0.0, 0
        for shapes in dictionaries:
            columns = likelihoods[:, start : start + len(shapes)]
            found = mixture_weights(
                np.concatenate([columns, np.eye(len(shapes))]),
                np.concatenate([binned.size, np.full(len(shapes), _PSEUDO)]),
                tol=TOLERANCE,
            )
            weights.append(found.weights / len(dictionaries))
            gap = max(gap, found.gap)
            start += len(shapes)
        mixed = np.concatenate(weights)
        single, share = _against_families(
            binned,
            likelihoods[:, :start] @ mixed,
            likelihoods[:, start:],
            [len(family) for family in families],
        )
        prior = (1 - share) * (mixed @ np.concatenate(dictionaries)) + share * (
            single @ np.concatenate(families)
        )
        return cls(support, prior, binned.n, gap, share)


def _against_families(
    binned: Binned, mixture: Array, laws: Array, sizes: list[int]
) -> tuple[Array, float]:
    """Return the probabilities of the laws among themselves, and of all laws as against the mixture."""
    with np.errstate(divide="ignore"):
        logs = binned.size @ np.log(laws) - np.log(np.repeat(sizes, sizes))
    if logs.max() == -np.inf:  # an estimate that none of them explains
        return np.full(len(logs), 1 / len(logs)), 0.0
    relative = np.exp(logs - logs.max())
    gain = float(binned.size @ np.log(mixture)) - float(logs.max() + math.log(relative.sum()))
    odds = min(gain - 0.5 * math.log(binned.d), 700.0)
    return relative / relative.sum(), 1 / (1 + math.exp(odds))


def _edges(binned: Binned) -> Array:
    """Return edges of cells of counts from ½ on: whole counts, then 3 % long, never long where the noise resolves them.

    The mass of a cell is held by one support point. Where no estimate is within ten standard deviations cells stay long: all
    that is known there is that nothing is.
    """
    top = float(binned.n)
    whole = np.arange(0.5, min(top, 1 / (_RATIO - 1)))
    steps = math.ceil(math.log(top / whole[-1]) / math.log(_RATIO)) if top - whole[-1] > 1 else 0
    long = whole[-1] * _RATIO ** np.arange(1, steps)
    fine = binned.near(_SPACING, _REACH)
    fine = fine[
        fine > max(_SPACING * binned.noise.sd / (_RATIO - 1), whole[-1])
    ]  # below, long cells are the shorter ones
    edges = np.unique(np.concatenate([whole, long, fine]))
    distinct = np.append(True, np.diff(edges) > 1e-9 * edges[1:])
    return np.append(edges[distinct & (edges < top * (1 - 1e-9))], top)


def _dictionaries(binned: Binned, edges: Array) -> list[Array]:
    """Return the masses of each dictionary's components on 0 and the cells."""
    result = []
    for ratio in PIECES + HATS:
        for phase in _PHASES:
            first = _RESOLUTION * binned.noise.sd / math.sqrt(binned.d) * ratio**phase
            first = min(max(first, 1.0), binned.n / ratio)
            knots = first * ratio ** np.arange(
                -1, math.ceil(math.log(binned.n / first) / math.log(ratio)) + 2
            )
            logs = np.log(knots)
            if ratio in HATS:
                shapes = [_hat(np.log(edges), *logs[i : i + 3]) for i in range(len(logs) - 2)]
            else:
                shapes = [_hat(np.log(edges), low, None, high) for low, high in pairwise(logs[1:])]
            inside = [shape / shape.sum() for shape in shapes if shape.sum() > 0]
            atom = np.zeros(len(edges))
            atom[0] = 1.0
            result.append(np.vstack([atom, *inside]))
    return result


def _hat(t: Array, low: float, peak: float | None, high: float) -> Array:
    """Return the masses on 0 and the cells of a triangle, or without a peak a rectangle, over logarithms of counts."""
    x = np.clip(t, low, high)
    if peak is None:
        upto = (x - low) / (high - low)
    else:
        rising = (x - low) ** 2 / ((peak - low) * (high - low))
        falling = 1 - (high - x) ** 2 / ((high - peak) * (high - low))
        upto = np.where(x < peak, rising, falling)
    return np.concatenate([np.zeros(1), np.maximum(np.diff(upto), 0.0)])


def _humps(binned: Binned, edges: Array) -> Array:
    """Return the masses on 0 and the cells of gamma distributions with the mean n/d."""
    from scipy.special import gammainc  # slow to import, and only fits need it

    scale = binned.n / binned.d / _HUMPS[:, None]
    upto = gammainc(_HUMPS[:, None], edges / scale)
    masses = np.concatenate([upto[:, :1], np.maximum(np.diff(upto, axis=1), 0.0)], axis=1)
    return np.asarray(masses / masses.sum(axis=1, keepdims=True))


def _powers(edges: Array) -> Array:
    """Return the masses on 0 and the cells of power laws."""
    masses = ((edges[1:] + edges[:-1]) / 2) ** -_EXPONENTS[:, None] * np.diff(edges)
    return np.insert(masses / masses.sum(axis=1, keepdims=True), 0, 0.0, axis=1)

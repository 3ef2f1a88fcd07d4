"""A prior mixed from simple shapes on a logarithmic scale, with weights that the estimates choose.

Maximum likelihood over shapes is convex, yet its best weights are as ragged as the atoms of NPMLE,
and the choice of shapes changes errors by several per cent. So weights are penalised, and the fits
to several dictionaries of shapes are averaged. Where the estimates tell no more than a law of one
parameter would, that law is the prior.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldpopt.estimate import FrequencyEstimate
from ldpopt.priors.binning import Binned
from ldpopt.priors.counts import EstimatedCounts
from ldpopt.priors.discrete import Discrete
from ldpopt.priors.noise_classes import share_of
from ldpopt.priors.npmle import TOLERANCE
from ldpopt.priors.penalised import penalised_weights

Array = NDArray[np.float64]

PIECES = (1.5, 2.0)  # each log-uniform piece is so many times as long as the one before
HATS = (4.0, 8.0, 16.0, 32.0)  # the knots of hats are in this ratio
_PHASES = (0.0, 0.5)  # knots are also moved by half a ratio, so that none is an edge in all
_RESOLUTION = 2.0  # first knot, in units of s/√d, the error of a mean: smaller counts look like 0
PSEUDO_COUNT = 0.5  # added to each component, so that none is excluded by chance
_SHAPES = 2.0 ** np.arange(-1, 6)  # of gamma laws, from wider than exponential to nearly a point
_ALL_MASS = 45.0  # plus twice the shape: what a gamma law has beyond rounds to 0
_EXPONENTS = np.arange(0.8, 2.6, 0.05)  # of power laws: a million users tell no finer ones apart
_RATIO = 1.03  # of cells of counts that the noise does not resolve: 3 % moves no posterior mean
_SPACING = 0.25  # standard deviations that a cell spans where the noise resolves it
_REACH = 10.0  # standard deviations around the estimates in which cells are so short
_SEPARATE = 1e-9  # relative distance below which two edges are one
_LARGEST_LOG = 700.0  # exp of more overflows


@dataclass(frozen=True, eq=False)
class Mixture(Discrete):
    """A prior mixed from an atom at 0 and log-uniform pieces or hats.

    A dictionary has an atom at 0 and either pieces, π(k) ∝ 1/k between two knots, or hats, 1/k
    times a function that rises from a knot to the next and falls to the one after, linear in
    log k. Knots form a geometric sequence. Smooth laws such as powers of k are mixtures of a
    dictionary or close to one. Where the estimates show no more than a law of one parameter would,
    that law is the prior.

    Attributes
    ----------
    gap
        Upper bound of the distance of a dictionary's penalised mean log likelihood from its
        maximum, in nats; the largest of all dictionaries.
    simple
        Weight of the laws of one parameter, between 0 and 1.

    Examples
    --------
    >>> from ldpopt import datasets, oracles
    >>> data, oracle = datasets.load("zipf"), oracles.OUE(epsilon=1.0, d=1024)
    >>> raw = oracle.estimate(oracle.simulate_counts(data.counts, rng=0), data.n)
    >>> prior = Mixture.fit(raw)
    >>> estimated = raw.frequencies * data.n
    >>> means = prior.posterior_mean(estimated, raw.sigma * data.n)
    >>> bool(((means - data.counts) ** 2).mean() < 0.1 * ((estimated - data.counts) ** 2).mean())
    True
    """

    gap: float
    simple: float

    @classmethod
    def fit(cls, estimate: FrequencyEstimate, *, value_dependent: bool = False) -> Mixture:
        """Return the mixture that fits one vector of estimates.

        For each dictionary, Σ_v log Σ_j w_j p_j(y_v) + ½ Σ_j log w_j is maximised over the simplex,
        where p_j(y) is the density of an estimate under component j; the priors of all dictionaries
        are averaged. Then two families of one parameter are mixed in: gamma laws with the mean n/d
        that the true counts have, and power laws. They weigh 1/(1 + e^(L - ½ log d)), where L is
        how much likelier the estimates are under the average than under the families (the Bayesian
        information criterion, for one parameter more).

        Parameters and errors are those of ``NPMLE.fit``.

        Notes
        -----
        The penalised problem is that of ``mixture_weights`` with half an observation more for each
        component that only this component explains; it is solved to a certified gap of 1e-7 nats.
        Cost: one pass over d, then milliseconds.
        """
        from ldpopt.priors.product_kernels import product  # imports numba

        counts = EstimatedCounts.of(estimate, value_dependent=value_dependent)
        binned = Binned.of(counts, share_of(estimate))
        edges = cell_edges(binned)
        centres = (edges[1:] + edges[:-1]) / 2
        support = np.append(0.0, centres)
        families = [_gamma_laws(binned, edges), _power_laws(edges)]
        sizes = [len(family) for family in families]
        # In one array: held twice, its memory would go back to the system, and come anew for each
        # trial of a stack.
        components, ends = _stacked(binned, edges, families)
        # In one call: it evaluates the noise at all support points, which costs most.
        likelihoods = binned.likelihoods(support, components)
        *of_shapes, of_laws = np.split(likelihoods, ends, axis=1)
        fits = [penalised_weights(part, binned.size, PSEUDO_COUNT, TOLERANCE) for part in of_shapes]
        average = np.concatenate([fit.weights for fit in fits]) / len(fits)
        first_law = ends[-1]
        of_average = product(likelihoods[:, :first_law], average)
        law, simple = weigh_laws(binned.size, of_average, of_laws, sizes)
        # What the averaged mixture and the laws weigh, component by component.
        shares = np.concatenate([(1 - simple) * average, simple * law])
        weights = shares @ components
        gap = max(fit.gap for fit in fits)
        return cls(support, weights, binned.n, gap, simple)


def weigh_laws(
    size: Array,
    mixture: Array,
    laws: Array,
    sizes: list[int],
) -> tuple[Array, float]:
    """Return the probabilities of the laws among themselves, and of all laws against the mixture.

    Beforehand each family has the same probability as the mixture, and its laws share it equally.

    Parameters
    ----------
    size
        Estimates in each bin, shape (bins,).
    mixture, laws
        Density of each bin under the mixture, shape (bins,), and under each law, (bins, laws).
    sizes
        Number of laws in each family.
    """
    with np.errstate(divide="ignore"):
        log_likelihood = size @ np.log(laws)
    laws_in_family = np.repeat(sizes, sizes)
    logs = log_likelihood - np.log(laws_in_family)
    top = logs.max()
    if top == -np.inf:  # no law explains each estimate
        equal = np.full(len(logs), 1 / len(logs))
        return equal, 0.0
    relative = np.exp(logs - top)
    total = relative.sum()
    log_evidence = float(top + math.log(total))
    gain = float(size @ np.log(mixture)) - log_evidence
    # Bayesian information criterion: half the logarithm of the number of estimates per parameter.
    penalty = 0.5 * math.log(size.sum())
    odds = math.exp(min(gain - penalty, _LARGEST_LOG))
    return relative / total, 1 / (1 + odds)


def cell_edges(binned: Binned) -> Array:
    """Return edges of cells of counts from ½ on; the mass of a cell is held by one support point.

    First come single counts, then cells 3 % long, or a quarter of a standard deviation where the
    noise resolves that. Where no estimate is within ten standard deviations cells stay long, since
    all that is known there is that nothing is there.
    """
    top = float(binned.n)
    growth = _RATIO - 1
    single = np.arange(0.5, min(top, 1 / growth))  # cells 3 % long are shorter than 1 below
    last = single[-1]
    steps = 0
    if top - last > 1:
        steps = _steps_between(last, top, _RATIO)
    long = last * _RATIO ** np.arange(1, steps)
    crossing = _SPACING * binned.noise.sd / growth  # below it, cells 3 % long are the shorter ones
    fine = binned.near(_SPACING, _REACH)
    fine = fine[fine > max(crossing, last)]
    edges = np.unique(np.concatenate([single, long, fine]))
    is_apart = np.diff(edges) > _SEPARATE * edges[1:]
    is_distinct = np.append(True, is_apart)
    is_below_top = edges < top * (1 - _SEPARATE)
    return np.append(edges[is_distinct & is_below_top], top)


def _steps_between(low: float, high: float, ratio: float) -> int:
    """Return how many times a length grows by the ratio on the way from low to high."""
    return math.ceil(math.log(high / low) / math.log(ratio))


def dictionaries(binned: Binned, edges: Array) -> list[Array]:
    """Return the masses of each dictionary's components on 0 and the cells: (components, cells)."""
    components, ends = _stacked(binned, edges, [])
    return np.split(components, ends[:-1])


def _stacked(binned: Binned, edges: Array, families: list[Array]) -> tuple[Array, list[int]]:
    """Return all dictionaries' components, then those of families, and where dictionaries end."""
    from ldpopt.priors.shape_kernels import hats, pieces  # imports numba

    logs = np.log(edges)
    knots = {
        (ratio, phase): _knots(binned, ratio, phase) for ratio in PIECES + HATS for phase in _PHASES
    }
    rows = sum(map(len, [*knots.values(), *families]))
    components = np.zeros((rows, len(edges)))
    row = 0
    ends = []
    for (ratio, _), places in knots.items():
        rest = components[row:]
        if ratio in HATS:
            row += hats(logs, places, rest)
        else:
            row += pieces(logs, places[1:], rest)
        ends.append(row)
    for family in families:
        components[row : row + len(family)] = family
        row += len(family)
    return components[:row], ends


def _knots(binned: Binned, ratio: float, phase: float) -> Array:
    """Return the logarithms of the knots, moved by a part of their ratio."""
    resolved = _RESOLUTION * binned.noise.sd / math.sqrt(binned.d)
    first = max(resolved * ratio**phase, 1.0)
    first = min(first, binned.n / ratio)  # at least one knot lies below n
    steps = _steps_between(first, binned.n, ratio)
    # One knot below the first, for the rising side of a hat, and one above n.
    powers = np.arange(-1, steps + 2)
    return np.asarray(np.log(first * ratio**powers))


def _gamma_laws(binned: Binned, edges: Array) -> Array:
    """Return the masses on 0 and the cells of gamma laws with the mean n/d, one per row."""
    from scipy.special import gammainc  # slow to import, and only fits need it

    upto = np.ones((len(_SHAPES), len(edges)))
    for shape, row in zip(_SHAPES, upto, strict=True):
        scaled = edges * (shape / binned.mean)
        # Beyond, a law has all its mass, and most edges are there.
        end = np.searchsorted(scaled, _ALL_MASS + 2 * shape)
        row[:end] = gammainc(shape, scaled[:end])
    cells = np.maximum(np.diff(upto, axis=1), 0.0)
    masses = np.concatenate([upto[:, :1], cells], axis=1)
    return np.asarray(masses / masses.sum(axis=1, keepdims=True))


def _power_laws(edges: Array) -> Array:
    """Return the masses on 0 and the cells of power laws, one per row; 0 has none."""
    centres = (edges[1:] + edges[:-1]) / 2
    masses = np.zeros((len(_EXPONENTS), len(edges)))
    cells = masses[:, 1:]
    # By one exponential: powers take several times as long.
    np.multiply.outer(-_EXPONENTS, np.log(centres), out=cells)
    cells += np.log(np.diff(edges))
    np.exp(cells, out=cells)
    cells /= cells.sum(axis=1, keepdims=True)
    return masses

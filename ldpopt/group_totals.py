"""Methods with a prior whose groups have totals of their own, by the precision of both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt import closed_form
from ldpopt.constraints import GroupTotals, NonNegative, SumsTo
from ldpopt.errors import InvalidInputError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.estimate.sets import NamedSets, Sets, membership, named_sets, totals
from ldpopt.losses import PosteriorMean
from ldpopt.solve.composition import Composition
from ldpopt.solve.problem import Problem

Array = NDArray[np.float64]

_FEW = 3

# Sizes κ of a prior's error, in units of the raw noise: from none to far more.
_ERRORS = np.concatenate([[0.0], 2.0 ** np.arange(-6, 13)])
# Their weights before anything is seen. Twice as much for κ = 0 costs a tenth where the prior is
# off, and half of it as much where it is right (us-cities by states).
_PRIOR = np.array([0.2] + [0.8 / (len(_ERRORS) - 1)] * (len(_ERRORS) - 1))
# The share of the error that is spread as the noise is, not as the squares of the totals.
_EVEN = 0.1


def within_groups(loss: Callable[[], PosteriorMean], groups: Sets | NamedSets) -> Composition:
    """Return the problem of a posterior mean under totals of groups, which the data choose.

    A prior shrinks every value, and sums of values that belong together add up what shrinkage
    takes. The raw total of a group has no such bias, but the noise of all its values. The totals
    are a mean of both kinds, with weights by ``weighted_totals``: where the sums of posterior means
    differ from the raw totals by no more than the noise of these, they are mostly kept.
    Values outside all groups are one more group. Within each group the values are the posterior
    means, projected.

    Parameters
    ----------
    loss
        Makes the loss, so that every vector fits its own prior.
    groups
        Disjoint sets of values, as ``FrequencyEstimate.query`` takes them.
    """
    # It states which estimates are accepted; the totals are those of each vector.
    simplex = [NonNegative(), SumsTo(1.0)]
    first = Problem(loss(), simplex)

    def stated_by(vector: FrequencyEstimate) -> Problem:
        # One loss for both problems: it keeps the posterior means that it has computed.
        fitted = loss()
        members = _all_values(groups, vector)
        of_prior = totals(Problem(fitted, simplex).minimise(vector), members)
        rows = [row.indices for row in members]
        sums = _by_precision(vector, members, of_prior)
        return Problem(fitted, [NonNegative(), GroupTotals(rows, sums)])

    formula = f"{first.formula}, Σ_g f = totals of the groups by precision"
    return Composition(first, stated_by, None, "norm-sub per group", formula)


def _by_precision(vector: FrequencyEstimate, members: Any, of_prior: Array) -> Array:
    """Return totals between the raw ones and those of a prior, each >= 0, with the sum 1."""
    # After Norm-Sub: raw totals may be negative, and then say little.
    raw = closed_form.norm_sub(totals(closed_form.norm(vector.frequencies), members))
    # Of two or three groups the differences tell too little of how far the prior is off.
    if len(raw) <= _FEW:
        return raw
    between = weighted_totals(raw, of_prior, _variances(vector, members, raw))
    return closed_form.norm_sub(between)


def weighted_totals(raw: Array, of_prior: Array, noise: Array) -> Array:
    """Return means of raw totals and those of a prior, each total with a weight of its own.

    Parameters
    ----------
    raw, of_prior
        Totals t and p of m groups, shape (m,).
    noise
        The variances s² of the raw totals, shape (m,).

    Notes
    -----
    If the prior's totals were off by errors with the variances κ a, the mean by precision would be
    t - B (t - p) with B = s²/(s² + κ a). Here a is mostly in proportion to p², since a prior takes
    most from large totals, and a tenth of it to s², so that a large κ leaves every raw total.
    Stein's formula estimates the risk of each κ without bias: R = Σ s² (1 - 2 B) + B² (t - p)². The
    means of all κ are averaged with the weights exp(-R/(2 max s²)) (Leung, Barron 2006), which is
    less variable than the one with the smallest R. The covariance of t and p, a fraction of s², is
    left out; it would raise B.

    Examples
    --------
    >>> raw, of_prior = np.array([0.5, 0.3, 0.2]), np.array([0.35, 0.35, 0.3])
    >>> weighted_totals(raw, of_prior, np.full(3, 0.002)).round(3)
    array([0.486, 0.305, 0.211])
    """
    size = float(np.sum(noise))
    off = raw - of_prior
    if size == 0 or not np.any(off):
        return raw
    squares = of_prior**2
    # The a of each total: on the scale of the noise, whatever the totals are.
    errors = (1 - _EVEN) * squares * (size / np.sum(squares)) + _EVEN * noise
    # From here on one row per total and one column per κ.
    of_raw = noise[:, None]
    variances = of_raw + _ERRORS * errors[:, None]
    # B. Without noise and without an error both totals are the same: nothing moves.
    moved = np.zeros_like(variances)
    np.divide(of_raw, variances, out=moved, where=variances > 0)
    squared_moves = moved**2 * off[:, None] ** 2
    risks = np.sum(of_raw * (1 - 2 * moved) + squared_moves, axis=0)
    weights = _PRIOR * np.exp((np.min(risks) - risks) / (2 * np.max(noise)))
    mean_moved = moved @ (weights / np.sum(weights))
    return np.asarray(raw - mean_moved * off)


def _variances(vector: FrequencyEstimate, members: Any, sums: Array) -> Array:
    """Return the variances of the raw totals of groups, given estimates of these."""
    noise = vector.noise
    near = closed_form.norm_sub(vector.frequencies)
    by_protocol = noise.protocol is not None
    if by_protocol and not noise.knows_pairs:
        # Known by p and q alone: counts are taken as independent.
        return np.asarray(members @ (noise.constant + noise.slope * near))
    # Of a combination with measured groups totals are far more precise than their values.
    constant, slope = noise.answer_variance(near, members, centred=by_protocol)
    return np.asarray(constant + slope * sums)


def _all_values(groups: Sets | NamedSets, vector: FrequencyEstimate) -> Any:
    """Return disjoint groups that hold all values as rows of zeros and ones."""
    from scipy import sparse

    names, rows = named_sets(groups, vector.labels)
    members = membership(rows, vector.d, names)
    held = np.asarray(members.sum(axis=0))
    if (held > 1).any():
        value = int(np.argmax(held > 1))
        inside = [names[i] for i in members[:, [value]].nonzero()[0]]
        raise InvalidInputError(
            f"groups {inside[0]!r} and {inside[1]!r} both hold value {value}: a method takes "
            "disjoint groups; combine totals of overlapping groups by ldpopt.Sources"
        )
    # Values in no group make up one of their own, so that the groups hold all values.
    rest = np.flatnonzero(held == 0)
    if not len(rest):
        return members
    other = membership([rest], vector.d)
    return sparse.vstack([members, other], format="csr")

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


def within_groups(loss: Callable[[], PosteriorMean], groups: Sets | NamedSets) -> Composition:
    """Return the problem of a posterior mean under totals of groups, which the data choose.

    A prior shrinks every value, and sums of values that belong together add up what shrinkage
    takes. The raw total of a group has no such bias, but the noise of all its values. The totals
    are a mean of both kinds, with the weights of James and Stein (1961): where the sums of
    posterior means differ from the raw totals by no more than the noise of these, they are kept.
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

    def minimise(estimate: FrequencyEstimate) -> Array:
        result = np.empty_like(estimate.frequencies)
        for trial in np.ndindex(result.shape[:-1]):
            result[trial] = stated_by(estimate[trial]).minimise(estimate[trial])
        return result

    formula = f"{first.formula}, Σ_g f = totals of the groups by precision"
    return Composition(first, stated_by, minimise, "norm-sub per group", formula)


def _by_precision(vector: FrequencyEstimate, members: Any, of_prior: Array) -> Array:
    """Return totals between the raw ones and those of a prior, each >= 0, with the sum 1.

    With m groups the share of the prior's is (m - 3)/(m - 1) Σ s²/Σ (t - p)², at most 1, where s²
    are the variances of the raw totals t, and p the prior's: as the sum is known, m - 1 differences
    are free. The covariance of t and p, a fraction of s², is left out; it would lower the share.
    """
    # After Norm-Sub: raw totals may be negative, and then say little.
    raw = closed_form.norm_sub(totals(closed_form.norm(vector.frequencies), members))
    count = len(raw)
    distance = float(np.sum((raw - of_prior) ** 2))
    if distance == 0:
        return raw
    # Of two or three groups the differences tell too little of how far the prior is off.
    shrinkage = max(count - 3, 0) / max(count - 1, 1)
    noise = float(np.sum(_variances(vector, members, raw)))
    share = min(shrinkage * noise / distance, 1.0)
    return np.asarray(raw + share * (of_prior - raw))


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
    members = membership(rows, vector.d)
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

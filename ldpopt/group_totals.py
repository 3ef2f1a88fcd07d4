"""Methods with a prior whose groups keep the totals that the raw estimates give them."""

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
    """Return the problem of a posterior mean under group totals taken from the raw estimates.

    A prior shrinks every value, and sums of values that belong together add up what shrinkage
    takes. The raw total of a group has no such bias, and little noise per value: so the totals are
    Norm-Sub's of the raw group sums, values outside all groups being one more group, and within
    each group the values are the posterior means, projected.

    Parameters
    ----------
    loss
        Makes the loss, so that every vector fits its own prior.
    groups
        Disjoint sets of values, as ``FrequencyEstimate.query`` takes them.
    """
    # It states which estimates are accepted; the totals are those of each vector.
    first = Problem(loss(), [NonNegative(), SumsTo(1.0)])

    def stated_by(vector: FrequencyEstimate) -> Problem:
        members = _all_values(groups, vector)
        sums = closed_form.norm_sub(totals(closed_form.norm(vector.frequencies), members))
        rows = [row.indices for row in members]
        return Problem(loss(), [NonNegative(), GroupTotals(rows, sums)])

    def minimise(estimate: FrequencyEstimate) -> Array:
        result = np.empty_like(estimate.frequencies)
        for trial in np.ndindex(result.shape[:-1]):
            result[trial] = stated_by(estimate[trial]).minimise(estimate[trial])
        return result

    formula = f"{first.formula}, Σ_g f = raw totals of the groups after norm-sub"
    return Composition(first, stated_by, minimise, "norm-sub per group", formula)


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
    rest = np.flatnonzero(held == 0)
    if not len(rest):
        return members
    other = membership([rest], vector.d)
    return sparse.vstack([members, other], format="csr")

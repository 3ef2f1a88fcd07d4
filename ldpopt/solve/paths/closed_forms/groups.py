"""Least squares with disjoint groups of known totals: Norm-Sub in each group."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpopt import closed_form
from ldpopt.constraints import GroupTotals, HierarchyTotals, Margins, NonNegative, SumsTo
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import LeastSquares
from ldpopt.solve.paths.closed_forms.registry import solves

Array = NDArray[np.float64]

# A constraint is looked up by its own class, so that those derived from GroupTotals are named too.
_GROUPS = (GroupTotals, HierarchyTotals, Margins)

# 0.1 + 0.2 + 0.7 is not 1 in floating point: by how much the sum of all groups may differ from the
# total, relative, and still leave nothing to the other values.
_ROUNDING = 1e-12


def _are_apart(
    _: LeastSquares, estimate: FrequencyEstimate, groups: GroupTotals, __: NonNegative
) -> bool:
    """Return whether the groups are disjoint, not empty, and their totals are not negative."""
    # A value in two groups ties them together, and an empty group has no sum but 0: such problems,
    # and the search for their conflicts, belong to the other paths.
    has_members_apart = groups.disjoint_groups(estimate.d) is not None
    return has_members_apart and not (groups.totals < 0).any()


def _leave_the_rest(
    loss: LeastSquares,
    estimate: FrequencyEstimate,
    groups: GroupTotals,
    nonnegative: NonNegative,
    total: SumsTo,
) -> bool:
    """Return whether the values outside the groups can hold the rest of the total."""
    if not _are_apart(loss, estimate, groups, nonnegative):
        return False
    of_groups = groups.totals.sum()
    rest = total.total() - of_groups
    if abs(rest) <= _ROUNDING * max(of_groups, abs(total.total())):
        return True
    # Otherwise nobody could hold the rest, or the rest is negative: the constraints conflict, and
    # the conic path names the conflict.
    has_others = sum(map(len, groups.groups)) < estimate.d
    return rest > 0 and has_others


@solves(LeastSquares, _GROUPS, NonNegative, name="norm-sub by group", applies=_are_apart)
def _grouped(
    loss: LeastSquares, estimate: FrequencyEstimate, groups: GroupTotals, _: NonNegative
) -> Array:
    return closed_form.group_totals(loss.target(estimate), groups.groups, groups.totals)


@solves(
    LeastSquares,
    _GROUPS,
    NonNegative,
    SumsTo,
    name="norm-sub by group",
    applies=_leave_the_rest,
)
def _grouped_with_total(
    loss: LeastSquares,
    estimate: FrequencyEstimate,
    groups: GroupTotals,
    _: NonNegative,
    total: SumsTo,
) -> Array:
    # Rounding may leave the rest just below zero.
    rest = max(total.total() - groups.totals.sum(), 0.0)
    return closed_form.group_totals(loss.target(estimate), groups.groups, groups.totals, rest)

"""A warning of percent or counts where frequencies are expected: in values, total or bounds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ldpopt import validate
from ldpopt.constraints import Constraint
from ldpopt.errors import ImplausibleUnitWarning, warn
from ldpopt.estimate import FrequencyEstimate
from ldpopt.estimate.origin import warn_of_counts
from ldpopt.estimate.units import AROUND, LARGE, PERCENT, sum_to_about
from ldpopt.solve.formulation import Formulation, Region

_NEAR = 1.0  # totals that percents may be off: rounding, of up to 1 %
_ERRORS = 5.0  # standard errors of a sum that noise practically never exceeds
_USERS = 1e11  # more than there are people
_WHOLE = 2.0**53  # of doubles: beyond, all are whole numbers


def warn_of_unit(problem: Formulation, start: FrequencyEstimate) -> None:
    """Warn where the values look like percent or counts, beside the total that the problem states.

    An estimate with noise has the unit of its noise, and a problem without a total any unit. The
    total itself is noticed where it is that of percent or of counts, beside shares of 1, and so are
    totals of groups, and bounds that exclude nothing where they are percent: of some values, and
    those of other constraints. Usual values cost one product of a vector with itself.
    """
    f = start.frequencies
    d = f.shape[-1]
    region = problem.region(d)
    # A bound or a total is no group.
    for constraint in region.tied:
        groups = constraint.disjoint_groups(d)
        if groups is not None:
            _warn_of_groups(f, groups.totals)
    total = region.total
    # A domain has two values at least.
    if total is None or total <= 0 or d < 2:
        return
    # Shares of 1 are shares with and without noise.
    if total == PERCENT or (total == start.n and total > LARGE):
        _warn_of_total(f, total)
    # Bounds of some values alone are stated for these: that of all may stand for none.
    if 0 < region.upper_count < d:
        _warn_of_bounds(region, total, start.labels)
    for constraint in problem.constraints:
        bound = constraint.idle_bound(total)
        if bound is not None:
            _warn_of_idle(constraint, bound, region, total)
    # Of d numbers >= 0 with the sum s the squares have a sum of s²/d at least.
    if start.has_noise or d * np.vdot(f, f) < LARGE**2:
        return
    sums = f.sum(axis=-1)
    # No share is negative, so that what is shows how large the noise is, and that of the sum.
    lowest = f.min(axis=-1)
    noise = _ERRORS * np.sqrt(d) * np.maximum(-lowest, 0.0)
    is_large = np.asarray((sums >= LARGE * max(total, 1.0)) & (sums - total > noise))
    # Estimates from reports alone, of which some are negative, need not sum to the whole.
    allowed = np.where(lowest < 0, AROUND * PERCENT, _NEAR) * total
    is_percent = is_large & (np.abs(sums - PERCENT * total) <= allowed)
    if is_percent.any():
        trial = validate.first(is_percent)
        where = f" in {validate.trial(trial)}" if trial else ""
        warn(
            f"these frequencies sum to {np.asarray(sums)[trial]:.6g}{where}, and the problem "
            f"states a total of {total:g}: if they are percent, divide them by 100",
            ImplausibleUnitWarning,
        )
        return
    is_whole = (f == np.rint(f)).all(axis=-1)
    if np.any(is_large & (lowest >= 0) & (sums < _WHOLE) & is_whole):
        warn_of_counts()
    # Numbers of a toy are smaller, and integers have a warning already.
    is_of_users = is_large & (lowest < 0) & (sums >= PERCENT * total) & (sums <= _USERS) & ~is_whole
    if is_of_users.any():
        trial = validate.first(is_of_users)
        warn(
            f"these frequencies sum to {np.asarray(sums)[trial]:.6g}, and the problem states a "
            f"total of {total:g}, which noise as large as the lowest, {lowest[trial]:.6g}, does "
            "not explain: if they are numbers of users, divide them by the number of all users",
            ImplausibleUnitWarning,
        )


def _warn_of_total(f: NDArray[np.float64], total: float) -> None:
    """Warn of a total in percent or of counts beside frequencies that sum to about 1."""
    sums = f.sum(axis=-1)
    if sum_to_about(1, sums):
        warn(
            f"the problem states a total of {total:g}, and these frequencies sum to "
            f"{np.ravel(sums)[0]:.6g}: if the frequencies are shares of 1, state SumsTo(1)",
            ImplausibleUnitWarning,
        )


def _warn_of_groups(f: NDArray[np.float64], totals: NDArray[np.float64]) -> None:
    """Warn of totals of groups in percent or in users beside frequencies that sum to about 1."""
    stated = totals.sum()
    # A group that is all values states the total of the problem, which has a look of its own.
    if len(totals) < 2 or stated < LARGE:
        return
    sums = f.sum(axis=-1)
    if not sum_to_about(1, sums):
        return
    remedy = "if the totals are percent, divide them by 100"
    if stated > PERCENT + _NEAR:
        remedy = "if the totals are numbers of users, divide them by the number of all users"
    warn(
        f"the totals of groups sum to {stated:g}, and these frequencies to "
        f"{np.ravel(sums)[0]:.6g}: {remedy}",
        ImplausibleUnitWarning,
    )


def _warn_of_bounds(region: Region, total: float, labels: Sequence[str] | None) -> None:
    """Warn of upper bounds in percent: all are above the total, which no value exceeds."""
    bounded = np.flatnonzero(np.isfinite(region.upper))
    bounds = region.upper[bounded]
    is_percent = np.all((bounds > total) & (bounds <= PERCENT * total))
    if is_percent and region.lower.min() >= 0:
        place = int(bounded[0])
        name = f"value {place}" if labels is None else repr(labels[place])
        warn(
            f"the upper bound {bounds[0]:g} of {name} excludes nothing beside the total "
            f"{total:g}: if it is percent, divide it by 100",
            ImplausibleUnitWarning,
        )


def _warn_of_idle(constraint: Constraint, bound: float, region: Region, total: float) -> None:
    """Warn of a constraint that excludes no f >= 0 with the total, if its bound is in percent."""
    # Two distributions differ by 2 in all: a usual way to state nothing. A radius that is computed,
    # from the noise say, may be larger: it has more decimals.
    is_percent = 2 * total < abs(bound) <= PERCENT * total and bound == round(bound, 1)
    # A path of parameters may well begin where the constraint does nothing.
    if is_percent and region.lower.min() >= 0 and not constraint.data(len(region.lower)):
        warn(
            f"{constraint!r} excludes nothing beside the total {total:g}: if {bound:g} is percent, "
            "divide it by 100",
            ImplausibleUnitWarning,
        )

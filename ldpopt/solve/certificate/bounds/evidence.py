"""What a certificate is made of, whichever way its numbers are computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.constraints import Constraint

Array = NDArray[np.float64]

SMALLEST_SCALE = 1e-280
"""What a scale is where all terms vanish, so that rounding below the doubles is not large to it."""

VANISHING = 1e-260
"""Below it products may have lost digits to the smallest doubles, or count little in that scale."""


CLEAR = 1e-9
"""A gap relative to its scale that needs no closer look, whatever accuracy a status promises."""


UNEXPLAINED = 1e-9
"""A ``failure`` above which other multipliers are looked for."""


# What products are relative to is at least this part of the steepest slope at the largest value.
_LEAST_TERMS = 1e-6

# Where other multipliers explain a point, they fail by rounding alone.
_FAR_LESS = 1e-3


def is_within(gap: Array, scale: Array, tolerance: float) -> bool:
    """Return whether gaps are within a tolerance of scales that are numbers, and not vanishing."""
    if scale.ndim == 0 and gap.ndim == 0:
        # One vector, of which every solve asks: numbers of Python take a tenth of numpy's.
        size = float(scale)
        return VANISHING <= size < np.inf and float(gap) <= tolerance * size
    is_number = (scale >= VANISHING) & (scale < np.inf)
    return bool(np.all(is_number & (gap <= tolerance * scale)))


def is_lost(steepest: Array | float, farthest: Array | float) -> NDArray[np.bool_]:
    """Return where the largest slope times the largest |f_v| is lost, though neither is 0."""
    product = steepest * np.where(farthest > 0, farthest, 1.0)
    return np.asarray((steepest > 0) & (product < VANISHING))


def largest_size(numbers: Array) -> Array:
    """Return the largest absolute value of each trial, without an array of them."""
    return np.asarray(np.maximum(numbers.max(axis=-1), -numbers.min(axis=-1)))


class Explanation(NamedTuple):
    """The multipliers, and how well they explain the gradient: fields of a ``Certificate``.

    ``row_sizes`` has an entry for each convex constraint that is neither bounds nor a total: how
    many of the row multipliers are its own, or None if it is curved. ``of_curved`` has the
    multipliers of each curved one, as cvxpy's.
    """

    stationarity: Array
    complementarity: Array
    sum_multiplier: Array
    bound_multipliers: Array
    row_multipliers: Array
    row_sizes: tuple[int | None, ...] = ()
    of_curved: tuple[Any, ...] = ()

    def where(self, is_here: NDArray[np.bool_], other: Explanation) -> Explanation:
        """Return these multipliers where they are to count, and another explanation's elsewhere.

        Both are of the same constraints, ``is_here`` has a flag per trial, shape (...).
        """
        of_values = is_here[..., None]
        return Explanation(
            np.where(is_here, self.stationarity, other.stationarity),
            np.where(is_here, self.complementarity, other.complementarity),
            np.where(is_here, self.sum_multiplier, other.sum_multiplier),
            np.where(of_values, self.bound_multipliers, other.bound_multipliers),
            np.where(of_values, self.row_multipliers, other.row_multipliers),
            self.row_sizes,
            tuple(
                _chosen(is_here, here, there)
                for here, there in zip(self.of_curved, other.of_curved, strict=True)
            ),
        )

    def failure(self, slope: Array, point: Array) -> Array:
        """Return by how much the multipliers fail the conditions, relative to the slopes."""
        steepest = np.max(np.abs(slope), axis=-1)
        # All slopes are 0 where every value is at a kink, and say nothing about the multipliers.
        steepest = np.where(steepest == 0, 1.0, steepest)
        terms = np.sum(np.abs(slope * point), axis=-1)
        # Terms vanish where all values with a slope are 0: there rounding would fail by all of it.
        terms = np.maximum(terms, _LEAST_TERMS * steepest * np.max(np.abs(point), axis=-1))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            of_slopes = np.where(self.stationarity == 0, 0.0, self.stationarity / steepest)
            of_products = np.where(self.complementarity == 0, 0.0, self.complementarity / terms)
        # Infinite slopes have no multipliers: nothing is better there.
        return np.nan_to_num(np.maximum(of_slopes, of_products), nan=np.inf)


def _chosen(is_here: NDArray[np.bool_], here: Any, there: Any) -> Any:
    """Return of a curved constraint's multipliers, of each trial if there are several, one's."""
    if not is_here.ndim:
        return here if is_here else there
    flags = is_here.ravel().tolist()
    return tuple(
        one if flag else other for flag, one, other in zip(flags, here, there, strict=True)
    )


def explains_more(
    other: Explanation, one: Explanation, slope: Array, point: Array
) -> NDArray[np.bool_]:
    """Return for which trials another explanation fails by far less.

    At a point that is no minimum all fail, and what another one moves from one condition to the
    next explains nothing.
    """
    return np.asarray(other.failure(slope, point) < _FAR_LESS * one.failure(slope, point))


class Measured(NamedTuple):
    """A constraint, and its violation by a point, shape (...), which a bound has taken on its way.

    The violation is at most as much smaller than the constraint's own one as rounding makes it.
    """

    constraint: Constraint
    violation: Array


class SizedGap(NamedTuple):
    """An upper bound of L(f) - min L, and a lower bound of Σ |g_v f_v|, both of shape (...).

    ``measured`` has violations that need not be computed again.
    """

    gap: Array
    terms: Array
    measured: tuple[Measured, ...] = ()


class Evidence(NamedTuple):
    """What accepts or refuses a point, and the way to the rest.

    Attributes
    ----------
    gap
        The bound, shape (...).
    terms
        Σ |g_v f_v| with the gradient g, shape (...).
    reason
        Why the gap of a trial is infinite, empty where it is not.
    explain
        Returns the multipliers: of long vectors they take longer than the gap.
    """

    gap: Array
    terms: Array
    reason: NDArray[np.str_]
    explain: Callable[[], Explanation]


def evidence_of(gap: Any, terms: Any, reason: str, explanation: Explanation) -> Evidence:
    """Return the evidence of one trial whose multipliers are at hand."""
    explain = partial(_itself, explanation)
    return Evidence(np.asarray(gap), np.asarray(terms), np.asarray(reason), explain)


def stacked(parts: Sequence[Evidence], shape: tuple[int, ...]) -> Evidence:
    """Return the evidence of many trials, in the order of ``np.ndindex``, as one."""
    if not shape:
        return parts[0]
    gap, terms, reason = (
        np.reshape([getattr(part, name) for part in parts], shape)
        for name in ("gap", "terms", "reason")
    )
    return Evidence(gap, terms, reason, partial(_stacked, parts, shape))


def _itself(explanation: Explanation) -> Explanation:
    return explanation


def _of_trials(arrays: Sequence[Array], shape: tuple[int, ...]) -> Array:
    """Return arrays of one shape, one per trial, as one."""
    stack = np.stack(arrays)
    return stack.reshape((*shape, *stack.shape[1:]))


def _stacked(parts: Sequence[Evidence], shape: tuple[int, ...]) -> Explanation:
    """Return the explanations of many trials as one."""
    *columns, sizes, of_curved = zip(*(part.explain() for part in parts), strict=True)
    arrays: Any = [_of_trials(one, shape) for one in columns]
    # cvxpy's constraints have their multipliers trial by trial.
    by_trial = tuple(zip(*of_curved, strict=True))
    return Explanation(*arrays)._replace(row_sizes=sizes[0], of_curved=by_trial)


def weighted_sum(gradient: Array, weights: Array) -> Array:
    """Return Σ g_v w_v, shape (...); an infinite gradient counts as 0 where the weight is 0."""
    with np.errstate(invalid="ignore"):
        # Without the array of products. An infinite gradient times a weight of 0 is NaN here, which
        # the slower way below repairs.
        total = np.asarray(np.einsum("...v,...v->...", gradient, weights))
        if np.isfinite(total).all():
            return total
        return np.asarray(np.sum(np.where(weights == 0, 0.0, gradient * weights), axis=-1))

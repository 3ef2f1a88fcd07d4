"""Newton's method on the constraints that hold: a solver's point, made exact to rounding.

An interior point method stops about 1e-9 inside the bounds that hold. With these found, what is
left of the problem are equations, and a few Newton steps solve them (the idea is OSQP's: Stellato,
Banjac, Goulart, Bemporad, Boyd 2020). It is a primal active-set method: a step that would leave the
set stops at the constraint in its way, which then holds, and a constraint whose multiplier has the
wrong sign no longer does.

What a solver's point lies next to nearly always holds, and so does what is in the way from there.
This is tried first, without multipliers: where many constraints hold, as an order among values of
0, they are not unique, and their signs say little about which of them to let go. Whether none had
to go is for the multipliers of a certificate to say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.constraints import Linear
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import Loss
from ldpopt.solve.certificate import certify
from ldpopt.solve.certificate.bounds.competitors import domain_of_all, stated
from ldpopt.solve.certificate.bounds.intervals import Box
from ldpopt.solve.certificate.bounds.minorant import Minorant, Tangent, minorant
from ldpopt.solve.certificate.polyhedra.rows import Rows, RowsOfTrials
from ldpopt.solve.certificate.prices.active_rows import (
    explaining_multipliers,
    rows_at_bounds,
)
from ldpopt.solve.certificate.prices.normal_equations import NormalEquations
from ldpopt.solve.certificate.prices.own_slopes import Surroundings, second_derivatives
from ldpopt.solve.formulation import Formulation
from ldpopt.solve.plan import Outcome
from ldpopt.solve.programs.units import frequency_unit

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

# Distance at which a constraint of a solver's point may hold, and at which it is taken to hold:
# solvers stop some 1e-9 from what holds.
_NEAR = 1e-5
_AT = 1e-7

# Part of the largest difference below which one of `Smooth` is taken for 0.
_FLAT = 1e-4

# Each step adds or drops constraints, or is one of Newton's; a handful suffices near the minimum.
_MAX_STEPS = 30

# Constraints in the way within this share of a step are added together by default: each addition
# costs a factorisation, and one that should not hold is dropped again by its multiplier.
_TOGETHER = 1e-3

# A step of this size, relative to the largest value, is rounding.
_STILL = 4 * float(np.finfo(np.float64).eps)

# What a value on a straight part of the loss counts as, relative to the largest curvature. Of 828
# problems with Huber's loss this leaves none without a proof. 1 leaves 26, where steps are too
# short to end, and without a polish there are 40; steps far longer jump over the part that bends.
_STRAIGHT = 0.1

# Multipliers of the wrong sign below this, relative to the largest gradient, are rounding.
_SIGN = 1e-11

# Violations and gaps up to this, relative to the point and the loss, are rounding.
_BITS = 64 * float(np.finfo(np.float64).eps)

# Distances from a steep bound: the smallest one, the logarithm of the largest factor by which one
# step changes it, and the relative change that counts as no change.
_SMALLEST = 1e-290
_FARTHEST = 300.0
_ALIKE = 1e-6

# How much of the diagonal is added where rows depend on each other, and solved away again.
_REGULAR = 1e-13


def polish(formulation: Formulation, start: FrequencyEstimate, outcome: Outcome) -> Outcome:
    """Return the outcome with polished points, where that lowers their certified gap.

    Losses that are not smooth sums over values, and sets that are not polyhedra in f alone, are
    left as they are. Of ``Smooth`` the signs of the differences at the point are kept, and of
    ``TopSet`` its smallest member, which makes them rows in f alone. Cost per trial: a few sparse
    systems of the size of the rows that hold, and one certificate. Where the point does not show
    which constraints hold, it is up to a hundred systems and three certificates. What certificates
    have in common is compiled once.
    """
    if not _has_formulas(formulation.loss):
        return outcome
    points = outcome.frequencies
    every = np.ones(points.shape[:-1], dtype=np.bool_)
    at_hand = _candidates(formulation, start, points, every, drops=False)
    # A constraint that is held wrongly hardly changes the loss: only slopes show it.
    rest = ~(at_hand.is_exact & at_hand.is_explained)
    searched = _candidates(formulation, start, points, rest, drops=True)
    is_rivalled = rest & (np.isfinite(at_hand.gap) | np.isfinite(searched.gap))
    as_it_was = _Candidates.of(formulation, start, points, is_rivalled)
    return replace(outcome, frequencies=as_it_was.or_better(at_hand).or_better(searched).points)


def polished_by_differences(
    formulation: Formulation, estimate: FrequencyEstimate, point: Array
) -> Array | None:
    """Return one vector polished for a loss of which gradients are known, and nothing more.

    None is returned for losses with formulas, which ``polish`` takes, for those that are no sums
    over values near the point, and where the steps do not settle. Nothing is certified. Cost: as
    ``polish``, and some five gradients per step.
    """
    model = None
    if not _has_formulas(formulation.loss):
        model = _Model.of_differences(formulation.loss, estimate, point)
    if model is None:
        return None
    part = _near(formulation, point)
    source = RowsOfTrials(part, estimate.d)
    better = _polished(part, estimate, point, model, source)
    if better is None:
        # From far off one constraint at a time takes too many steps.
        better = _polished(part, estimate, point, model, source, together=1.0)
    if better is None or not _is_as_feasible(formulation, better, point):
        return None
    return better


def _has_formulas(loss: Loss) -> bool:
    """Return whether a loss is a smooth sum over values with second derivatives."""
    return loss.adds_over_values and loss.smooth_part is loss


def _near(formulation: Formulation, point: Array) -> Formulation:
    """Return the problem near a point, with the same signs and smallest members: a part of it.

    Whether the minimum of this part is that of the whole is for the certificate to say.
    """
    faces = [constraint.face(point, _FLAT) for constraint in formulation.constraints]
    if all(rows is None for rows in faces):
        return formulation
    constraints = [
        constraint if rows is None else Linear(rows.matrix, rows.lower, rows.upper)
        for constraint, rows in zip(formulation.constraints, faces, strict=True)
        # Without rows it excludes nothing near the point.
        if rows is None or len(rows.lower)
    ]
    return Formulation(formulation.loss, tuple(constraints))


def _is_as_feasible(formulation: Formulation, new: Array, old: Array) -> bool:
    """Return whether a point violates the constraints by no more than another one but for bits.

    Steps on linear constraints may leave a curved one. This costs nothing beside a certificate.
    """
    size = max(1.0, float(np.max(np.abs(new))))
    before = float(formulation.violation(old))
    # Where a constraint is not defined its violation is no number: that is outside.
    allowed = max(np.inf if np.isnan(before) else before, _BITS * size)
    return bool(formulation.violation(new) <= allowed)


class _Candidates(NamedTuple):
    """Points of all trials, some of them with a proof.

    Attributes
    ----------
    points
        Shape (..., d).
    gap, scale, violation
        Of the certificates, shape (...); infinite where a point has none.
    is_explained
        Whether multipliers of the right signs explain all slopes, to rounding, and only those of
        constraints that hold with equality.
    """

    points: Array
    gap: Array
    scale: Array
    violation: Array
    is_explained: Mask

    @classmethod
    def of(
        cls, formulation: Formulation, start: FrequencyEstimate, points: Array, which: Mask
    ) -> _Candidates:
        """Return points with certificates of some trials."""
        gap = np.full(points.shape[:-1], np.inf)
        scale = gap.copy()
        violation = gap.copy()
        is_explained = np.zeros(gap.shape, dtype=np.bool_)
        if which.any():
            estimate = start[which]
            proof = certify(formulation, estimate, points[which])
            gap[which] = proof.gap
            scale[which] = proof.scale
            violation[which] = proof.violation
            slopes = np.abs(formulation.loss.gradient(points[which], estimate))
            steepest = np.max(slopes, axis=-1, where=np.isfinite(slopes), initial=0.0)
            largest = np.max(np.abs(points[which]), axis=-1)
            is_explained[which] = (proof.stationarity <= _SIGN * steepest) & (
                proof.complementarity <= _SIGN * steepest * largest
            )
        return cls(points, gap, scale, violation, is_explained)

    @property
    def is_exact(self) -> Mask:
        """Whether the gap is rounding. An infinite one is none, whatever it is relative to."""
        return np.isfinite(self.gap) & (self.gap <= _BITS * self.scale)

    def or_better(self, others: _Candidates) -> _Candidates:
        """Return for each trial the point with the smaller gap, this one if they are equal.

        Outside the set a gap may be 0, as the loss may be below the minimum there: a point whose
        gap is rounding is better if it is nearer to the set.
        """
        is_better = others.is_exact & (others.violation < self.violation)
        is_better |= others.gap < self.gap
        points = np.where(is_better[..., None], others.points, self.points)
        proofs = (
            np.where(is_better, better, former)
            for former, better in zip(self[1:], others[1:], strict=True)
        )
        return _Candidates(points, *proofs)


def _candidates(
    formulation: Formulation,
    start: FrequencyEstimate,
    points: Array,
    which: Mask,
    *,
    drops: bool,
) -> _Candidates:
    """Return the points of some trials polished, and certified where they are new.

    ``drops`` is that of ``_polished``.
    """
    loss = formulation.loss
    source = RowsOfTrials(formulation, start.d)
    polished = points.copy()
    for trial in map(tuple, np.argwhere(which)):
        estimate = start[trial]
        point = points[trial]
        part = _near(formulation, point)
        # Rows that do not depend on the point are kept for all trials.
        if part is not formulation:
            source = RowsOfTrials(part, start.d)
        model = _Model.of_formulas(loss, estimate)
        better = _polished(part, estimate, point, model, source, drops=drops)
        if drops and better is not None and not _is_as_feasible(formulation, better, point):
            # From far off the steps leave the set where a sum of absolute values did not hold yet.
            part = _near(formulation, better)
            of_part = RowsOfTrials(part, start.d)
            better = _polished(part, estimate, point, model, of_part)
        if better is not None and _is_as_feasible(formulation, better, point):
            polished[trial] = better
    return _Candidates.of(formulation, start, polished, np.any(polished != points, axis=-1))


class _Model(NamedTuple):
    """A loss as Newton's method sees it, by functions of f.

    Attributes
    ----------
    tangent
        The tangent at f.
    slope, curvature
        The gradient, and the second derivatives by each value; NaN outside the loss's domain.
    """

    tangent: Callable[[Array], Minorant]
    slope: Callable[[Array], Array]
    curvature: Callable[[Array], Array]

    @classmethod
    def of_formulas(cls, loss: Loss, estimate: FrequencyEstimate) -> _Model:
        """Return the model of a loss with second derivatives."""
        return cls(
            lambda f: minorant(loss, estimate, f, f, f),
            lambda f: loss.gradient(f, estimate),
            lambda f: loss.curvature(estimate, f, f),
        )

    @classmethod
    def of_differences(cls, loss: Loss, estimate: FrequencyEstimate, f: Array) -> _Model | None:
        """Return the model of a sum over values by its gradients, None of what is no such sum."""
        around = Surroundings.of(loss, estimate, f)
        if around is None or not around.is_sum:
            return None
        enclosed = around.enclosed

        def slope(f: Array) -> Array:
            here = enclosed(f)
            return np.full(f.shape, np.nan) if here is None else here.gradient

        def curvature(f: Array) -> Array:
            here = enclosed(f)
            if here is None:
                return np.full(f.shape, np.nan)
            return second_derivatives(enclosed, f, here, is_sum=True)

        def tangent(f: Array) -> Minorant:
            return Tangent(f, slope(f), 0.0, np.zeros(1), curvature(f), None)

        return cls(tangent, slope, curvature)


@dataclass(eq=False)
class _Face:
    """The constraints that hold: rows with their bounds, and values at theirs."""

    rows: Mask
    ends: Array
    low: Mask
    high: Mask

    @property
    def free(self) -> Mask:
        """The values between their bounds."""
        return ~(self.low | self.high)

    def holding(self, f: Array, bounds: Box) -> Array:
        """Return f with the values at bounds that hold."""
        return np.where(self.low, bounds.lower, np.where(self.high, bounds.upper, f))


def _polished(
    formulation: Formulation,
    estimate: FrequencyEstimate,
    point: Array,
    model: _Model,
    source: RowsOfTrials,
    together: float = _TOGETHER,
    *,
    drops: bool = True,
) -> Array | None:
    """Return the minimiser near a point, or None if the steps do not settle.

    None is returned as soon as a step leads out of a curved constraint: then this one holds.
    Constraints in the way within the share ``together`` of a step are added together. Without
    ``drops`` those hold that the point lies next to, whatever their multipliers, and none that
    holds is let go.
    """
    rows = source.of(formulation.loss, estimate)
    if rows.system.matrix.shape[1] > len(point):
        return None
    bounds = _bounds(formulation, estimate, point, rows.limits)
    f = np.clip(point, bounds.lower, bounds.upper)
    steep = _steep_ends(model, f, bounds)
    f = np.where(steep & (f == bounds.lower), bounds.lower + _STILL * frequency_unit(f), f)
    if drops:
        face = _face_of(model, f, rows, bounds, steep)
    else:
        face = _face_at_hand(f, rows, bounds, steep)
    near = _NEAR * frequency_unit(f)
    for _ in range(_MAX_STEPS):
        f = face.holding(f, bounds)
        newton = _newton_step(model, f, rows, face)
        if newton is None:
            return None
        step, multipliers, residual = newton
        is_small = np.max(np.abs(step)) <= _STILL * max(1.0, float(np.max(np.abs(f))))
        length, blocking = _longest(f, step, rows, bounds, face, steep, together)
        before = f
        f = _moved(f, length * step, bounds.lower, steep, near)
        # Next to a steep bound the slope depends on the ratio of distances.
        alike = np.abs(f - before) <= _ALIKE * (before - bounds.lower)
        still = bool(is_small and np.all(alike | ~steep))
        if any(float(one.violation(f)) > near for one in source.curved):
            return None
        # A step of rounding may point out of the set, and then nothing is in its way.
        if length < 1 and not still:
            _add(face, blocking, rows)
            continue
        if still and not (drops and _drop(face, multipliers, residual, rows)):
            return face.holding(f, bounds)
    # Tiny values that rows tie to each other may meet slowly, and prove as much before they do.
    return face.holding(f, bounds) if is_small else None


def _bounds(
    formulation: Formulation, estimate: FrequencyEstimate, point: Array, limits: Box
) -> Box:
    """Return the bounds of all values, and for values that can be only one, that one."""
    region = formulation.region(estimate.d)
    bounds = stated(region, point, domain_of_all(formulation, estimate))
    is_fixed = limits.lower == limits.upper
    return Box(*(np.where(is_fixed, limits.lower, end) for end in bounds))


def _steep_ends(model: _Model, f: Array, bounds: Box) -> Mask:
    """Return where the loss falls infinitely fast from the lower bound, as a divergence does at 0.

    No value of a minimum is there, unless its bounds leave it no other, though to a solver it may
    look so: it may be 1e-40.
    """
    # The domain of a loss may end at a bound, as that of a likelihood where no report is expected.
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = model.slope(np.where(np.isfinite(bounds.lower), bounds.lower, f))
    return np.isneginf(slope) & (bounds.lower < bounds.upper)


def _face_at_hand(f: Array, rows: Rows, bounds: Box, steep: Mask) -> _Face:
    """Return the constraints that a point lies next to, but for bounds that are ``steep``."""
    system = rows.system
    at = _AT * frequency_unit(f)
    low = (f - bounds.lower <= at) & ~steep
    high = (bounds.upper - f <= at) & ~low
    at_lower, at_upper = rows_at_bounds(f, system, _AT)
    equal = system.lower == system.upper
    ends = np.where(at_lower | equal, system.lower, system.upper)
    return _Face(equal | at_lower | at_upper, ends, low, high)


def _face_of(model: _Model, f: Array, rows: Rows, bounds: Box, steep: Mask) -> _Face:
    """Return the constraints that hold near a point, judged by distance and multiplier.

    Values do not hold at bounds that are ``steep``.
    """
    system = rows.system
    tangent = model.tangent(f)
    at_lower, at_upper = rows_at_bounds(f, system, _NEAR)
    multipliers = explaining_multipliers(tangent, system, bounds, at_lower, at_upper, _NEAR)
    price = system.matrix.T @ multipliers
    with np.errstate(divide="ignore", invalid="ignore"):
        # What a Newton step of each value on its own would be.
        pull = (tangent.slope_towards(price) - price) / model.curvature(f)
    near = _NEAR * frequency_unit(f)
    low = (f - bounds.lower <= near) & (pull >= f - bounds.lower) & ~steep
    high = (bounds.upper - f <= near) & (-pull >= bounds.upper - f) & ~low
    equal = system.lower == system.upper
    ends = np.where(multipliers < 0, system.upper, system.lower)
    return _Face(equal | (multipliers != 0), np.where(equal, system.lower, ends), low, high)


def _moved(f: Array, change: Array, lower: Array, steep: Mask, near: float) -> Array:
    """Return f + change; next to steep bounds, or beyond them, the logarithm moves instead.

    There the loss is nearly a divergence. Such a step leads to its minimum at given prices, while
    f + change may be beyond the bound. Equal values that rows tie to each other stay equal.
    """
    distance = np.where(steep, f - lower, np.inf)
    is_near = (distance <= near) | (distance + change <= 0)
    if not is_near.any():
        return f + change
    # Other values may have no bound to be away from.
    away = np.where(is_near, distance, 1.0)
    scaled = away * np.exp(np.clip(change / away, -_FARTHEST, _FARTHEST))
    inside = np.clip(scaled, _SMALLEST, np.maximum(away, near))
    return np.where(is_near, np.where(is_near, lower, 0.0) + inside, f + change)


def _newton_step(
    model: _Model, f: Array, rows: Rows, face: _Face
) -> tuple[Array, Array, Array] | None:
    """Return the step on the face, the multipliers of all rows, and what they leave of the slope.

    None is returned where the loss has no finite slope, and where it bends at no value.
    """
    free = face.free
    whole = model.slope(f)
    slope = np.where(free, whole, 0.0)
    curvature = model.curvature(f)
    if not (np.isfinite(slope).all() and np.any(curvature[free] > 0)):
        return None
    # A loss that is straight at a value has no Newton step there.
    bent = np.where(curvature > 0, curvature, _STRAIGHT * np.max(curvature[free]))
    weights = np.divide(1.0, bent, out=np.zeros(len(f)), where=free)
    chosen = np.flatnonzero(face.rows)
    multipliers = np.zeros(len(face.rows))
    matrix: Any = rows.system.matrix[chosen]
    if len(chosen):
        equations = NormalEquations(matrix, weights, _REGULAR)
        missing = face.ends[chosen] - matrix @ f
        target = matrix @ (weights * slope) + missing
        solved = equations.solve(target)
        # Again for what the damping took.
        for _ in range(3):
            solved = solved + equations.solve(target - equations.product(solved))
        multipliers[chosen] = solved
    step = weights * (matrix.T @ multipliers[chosen] - slope)
    price = matrix.T @ multipliers[chosen]
    residual = np.where(np.isfinite(whole), whole, price) - price
    return step, multipliers, residual


def _longest(
    f: Array, step: Array, rows: Rows, bounds: Box, face: _Face, steep: Mask, together: float
) -> tuple[float, dict[str, Mask]]:
    """Return how much of a step stays in the set, and the constraints in its way.

    Bounds that are ``steep`` are in no step's way: see ``_moved``.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        to_low = np.where((step < 0) & ~steep, (bounds.lower - f) / step, np.inf)
        to_high = np.where(step > 0, (bounds.upper - f) / step, np.inf)
        change = rows.system.matrix @ step
        values = rows.system.matrix @ f
        # Rows of the face hold with equality all along the step.
        inactive = ~face.rows
        to_lower = np.where(inactive & (change < 0), (rows.system.lower - values) / change, np.inf)
        to_upper = np.where(inactive & (change > 0), (rows.system.upper - values) / change, np.inf)
    ways = {"low": to_low, "high": to_high, "lower": to_lower, "upper": to_upper}
    nearest = min(float(np.min(way, initial=np.inf)) for way in ways.values())
    # A whole step leads to the minimum on the face.
    length = min(max(nearest, 0.0), 1.0)
    # A step of nearly no length may meet several constraints at once: all of them join the face.
    reached = max(length, together)
    return length, {name: way <= reached for name, way in ways.items()}


def _add(face: _Face, blocking: dict[str, Mask], rows: Rows) -> None:
    """Let constraints hold."""
    face.low |= blocking["low"]
    face.high |= blocking["high"]
    for name, ends in (("lower", rows.system.lower), ("upper", rows.system.upper)):
        face.rows |= blocking[name]
        face.ends = np.where(blocking[name], ends, face.ends)


def _drop(face: _Face, multipliers: Array, residual: Array, rows: Rows) -> bool:
    """Let the constraint whose multiplier is most of the wrong sign go; return whether one did."""
    system = rows.system
    limit = _SIGN * max(
        1.0, float(np.max(np.abs(residual))), float(np.max(np.abs(multipliers), initial=0))
    )
    # The multiplier of an equation may have either sign.
    inequality = face.rows & (system.lower != system.upper)
    wrong_rows = np.where(
        inequality, np.where(face.ends == system.lower, -multipliers, multipliers), -np.inf
    )
    wrong_low = np.where(face.low, -residual, -np.inf)
    wrong_high = np.where(face.high, residual, -np.inf)
    worst = {"rows": wrong_rows, "low": wrong_low, "high": wrong_high}
    largest = {name: float(np.max(wrong, initial=-np.inf)) for name, wrong in worst.items()}
    # One at a time: once it is gone, the multipliers of the others change.
    name = max(largest, key=lambda name: largest[name])
    if largest[name] <= limit:
        return False
    getattr(face, name)[int(np.argmax(worst[name]))] = False
    return True

"""Gap and multipliers on polyhedra: any multipliers of the rows prove a bound, the best are sought.

First those at hand: of orders by pooling (``forests``), and those that explain the gradient on the
rows that hold with equality, by least squares (``active_rows``). They are exact at a minimum and
take no program. Where they prove little, those of programs (``row_programs``), with whatever
accuracy: ``dual`` charges what they leave.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt import progress
from ldpopt.closed_form.parts import absolute_sum
from ldpopt.constraints import LinearInequalities
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import Loss
from ldpopt.printable import counted
from ldpopt.solve.certificate.bounds.competitors import (
    domain_of_all,
    no_bound,
    propagated,
    stated,
    within_sublevel,
)
from ldpopt.solve.certificate.bounds.dual import EPS, usable
from ldpopt.solve.certificate.bounds.evidence import (
    UNEXPLAINED,
    Evidence,
    Explanation,
    evidence_of,
    explains_more,
    stacked,
)
from ldpopt.solve.certificate.bounds.exact_sums import column_totals, row_totals
from ldpopt.solve.certificate.bounds.intervals import Box
from ldpopt.solve.certificate.bounds.minorant import (
    KinkedLoss,
    Minorant,
    MixedLoss,
    Tangent,
    minorant,
)
from ldpopt.solve.certificate.box.box import bound_multipliers
from ldpopt.solve.certificate.cones.cone_gap import TARGET
from ldpopt.solve.certificate.cones.open_variables import bounded_rows
from ldpopt.solve.certificate.polyhedra import cone
from ldpopt.solve.certificate.polyhedra.point_slopes import Place, at_point
from ldpopt.solve.certificate.polyhedra.row_programs import by_curved_program, by_linear_program
from ldpopt.solve.certificate.polyhedra.rows import Rows, RowsOfTrials
from ldpopt.solve.certificate.polyhedra.tangent_rows import with_tangents
from ldpopt.solve.certificate.prices import own_slopes
from ldpopt.solve.certificate.prices.active_rows import (
    explaining_multipliers,
    rows_at_bounds,
    values_at_bounds,
)
from ldpopt.solve.certificate.prices.forests import flowing_multipliers
from ldpopt.solve.certificate.prices.normal_equations import NormalEquations
from ldpopt.solve.formulation import Formulation

Array = NDArray[np.float64]

# Distances at which a row counts as holding with equality, tried in this order: points of solvers
# are that inexact, and in points of closed forms rows may be near that do not hold.
_NEARNESS = (1e-6, 1e-9, 1e-13)

# Multipliers below this, relative to the largest, are what a program's tolerances leave.
_NOISE = 1e-7

# How much of their diagonal is added to the equations for prices of auxiliary variables.
_REGULAR = 1e-12

SUFFICIENT = 1e-11
"""A gap of this size relative to Σ |g_v f_v| is as good as 0: no program is solved for it."""

# A gap above this, relative to the same sum, is one that a reader may ask about.
_PROMISED = 1e-8

# From so many values on a program that would explain more takes minutes, or hours.
_LONG_FOR_A_SEARCH = 1 << 15

LONG_FOR_PROGRAMS = 1 << 18
"""From so many values on no program is solved: one takes minutes to hours, and many gigabytes.

At half of it a chain with a hundred totals of groups takes two minutes of HiGHS, and four times as
long for twice the values.
"""

# Below this size, relative to the same sum, a point is near the minimum.
_SMALL = 1e-6


class Proof(NamedTuple):
    """Multipliers of all rows, positive where a lower bound holds, and the gap they prove."""

    gap: float
    multipliers: Array


class Scale(NamedTuple):
    """Sizes of gaps: below ``sufficient`` none is looked for, below ``small`` all are alike.

    ``is_rough`` states that what is sufficient is within the reach of a solver's tolerances.
    """

    sufficient: float
    small: float
    is_rough: bool

    @classmethod
    def of(cls, tangent: Minorant, limits: Box, value: float, sufficient: float) -> Scale:
        """Return the scale of a loss at a point, by what is sufficient relative to Σ |g_v f_v|.

        Values that can only be one thing are left out: their slopes, of any size, say nothing.
        """
        is_open = limits.lower < limits.upper
        slope = tangent.slope if is_open.all() else np.where(is_open, tangent.slope, 0.0)
        terms = float(absolute_sum(slope, tangent.f))
        # Where f is f̃ but for values at 0 all products vanish: the loss's own rounding is left.
        rounding = 4 * EPS * abs(value) if np.isfinite(value) and is_open.all() else 0.0
        return cls(sufficient * terms + rounding, _SMALL * terms + rounding, sufficient >= _SMALL)


def evidence(
    formulation: Formulation,
    start: FrequencyEstimate,
    point: Array,
    sufficient: float = SUFFICIENT,
) -> Evidence:
    """Return what certificates of all trials are made of.

    The search for better multipliers ends where a gap of at most ``sufficient``, relative to
    Σ |g_v f_v|, is proved.
    """
    source = RowsOfTrials(formulation, start.d)
    shape = point.shape[:-1]
    # Of all trials at once: a loss may find what it needs of a stack in one step.
    values = formulation.loss.value(point, start)
    trials = list(np.ndindex(shape))
    # One vector alone takes no bar, nor the time that making one takes.
    wanted = None if len(trials) > 1 else False
    parts = [
        _of_trial(formulation, source, start[trial], point[trial], float(values[trial]), sufficient)
        for trial in progress.track(
            trials, counted(len(trials), "certificate"), len(trials), wanted=wanted
        )
    ]
    return stacked(parts, shape)


def _of_trial(
    formulation: Formulation,
    source: RowsOfTrials,
    estimate: FrequencyEstimate,
    f: Array,
    value: float,
    sufficient: float,
) -> Evidence:
    """Return the evidence of one trial, at which the loss has the given value."""
    loss = formulation.loss.convexified(f, estimate)
    rows = _with_sublevel(source.of(loss, estimate), loss, estimate, f)
    problem = Formulation(loss, formulation.constraints)
    result = _within(problem, source, rows, estimate, f, value, sufficient)
    if np.isfinite(result.gap) or not np.isfinite(loss.gradient(f, estimate)).all():
        return result
    # Several rows together may bound what none of them bounds alone: that takes programs.
    limits = bounded_rows(rows.system, rows.limits, f)
    if limits is rows.limits:
        return result
    return _within(problem, source, rows._replace(limits=limits), estimate, f, value, sufficient)


def _with_sublevel(rows: Rows, loss: Loss, estimate: FrequencyEstimate, f: Array) -> Rows:
    """Return the rows with bounds of what has no larger loss than the point, where some miss."""
    d = len(f)
    of_values = Box(rows.limits.lower[:d], rows.limits.upper[:d])
    near = within_sublevel(loss, estimate, f, of_values)
    if near is of_values:
        return rows
    further = Box(rows.limits.lower[d:], rows.limits.upper[d:])
    limits = Box(*map(np.append, near, further))
    if not np.isfinite(further).all():
        # Bounds of the values may bound auxiliary variables through the rows.
        limits = propagated(rows.system, *limits)
    return rows._replace(limits=limits)


def _within(
    formulation: Formulation,
    source: RowsOfTrials,
    rows: Rows,
    estimate: FrequencyEstimate,
    f: Array,
    value: float,
    sufficient: float,
) -> Evidence:
    """Return the evidence of one trial on rows whose limits are final."""
    d = len(f)
    loss = formulation.loss
    near = Box(rows.limits.lower[:d], rows.limits.upper[:d])
    tangent = minorant(loss, estimate, f, *near)
    bounds = stated(formulation.region(d), f, domain_of_all(formulation, estimate))
    smooth = tangent.smooth if isinstance(tangent, MixedLoss) else tangent
    if isinstance(smooth, Tangent) and smooth.held is not None:
        # Such a value explains itself, whichever way rows push it.
        bounds = Box(*(np.where(smooth.held, f, end) for end in bounds))
    if isinstance(tangent, MixedLoss):
        around = own_slopes.Surroundings.of(loss, estimate, f)
        # A loss that is flat, or seems to be so beside rounding, has a gradient all the same.
        here = own_slopes.known_at(loss, estimate, f) if around is None else around.here
        value_error = 0.0 if here is None else here.value_error
        result = _of_mixed(tangent, around, rows, source, bounds, sufficient, value_error)
        if here is None:
            return result
        return _at_point(result, Place(here.gradient, f, bounds, rows, source))
    scale = Scale.of(tangent, near, value, sufficient)
    if not source.curved:
        proof = _best_proof(tangent, rows, bounds, scale, with_programs=d < LONG_FOR_PROGRAMS)
        return _explained(proof, tangent, rows, bounds)
    result = _under_curves(tangent, rows, source, bounds, scale, sufficient)
    has_gradient = isinstance(tangent, Tangent) and tangent.held is None
    if not has_gradient:
        return result
    return _at_point(result, Place(tangent.slope, f, bounds, rows, source))


def _at_point(evidence: Evidence, place: Place) -> Evidence:
    """Return evidence of which the multipliers are compared with the gradient at the point."""
    explain = partial(at_point, place, evidence.explain, evidence.gap)
    return evidence._replace(explain=explain)


def _of_mixed(
    tangent: MixedLoss,
    around: own_slopes.Surroundings | None,
    rows: Rows,
    source: RowsOfTrials,
    bounds: Box,
    sufficient: float,
    value_error: float,
) -> Evidence:
    """Return the evidence of a loss with parts that may have shared kinks.

    Programs take numpy's value of the loss, in which differences may be wrong by ``value_error``.
    """
    by_tangents = None if around is None else _beside(around, rows, source, bounds, sufficient)
    # A program proves no smaller gap than this: its own search ends there.
    enough = 0.0 if around is None else max(sufficient, TARGET) * around.size
    if by_tangents is not None and by_tangents.gap <= enough:
        return by_tangents
    if len(tangent.f) >= LONG_FOR_PROGRAMS:
        return _unknown(tangent, rows, source) if by_tangents is None else by_tangents
    # Which slopes its kinks take is for a program to find.
    by_program = cone.evidence(tangent, rows, source, bounds, max(sufficient, TARGET))
    by_program = by_program._replace(gap=by_program.gap + 2 * value_error)
    return _smaller(by_program, by_tangents)


def _under_curves(
    tangent: Minorant,
    rows: Rows,
    source: RowsOfTrials,
    bounds: Box,
    scale: Scale,
    sufficient: float,
) -> Evidence:
    """Return the evidence of any other loss under curved constraints."""
    is_long = len(tangent.f) >= LONG_FOR_PROGRAMS
    terms = float(absolute_sum(tangent.slope, tangent.f))
    by_rows = partial(_best_proof, tangent, bounds=bounds, scale=scale, with_programs=False)
    by_program = partial(cone.evidence, tangent, rows, source, bounds, max(sufficient, TARGET))

    def explained(proof: Proof, of_proof: Rows) -> Evidence:
        """Return the evidence of a proof by rows, which may explain less than cones."""
        evidence = _explained(proof, tangent, of_proof, bounds, cone.no_multipliers(source))
        return _or_by_cones(evidence, tangent, rows, source, bounds)

    result: Evidence | None = None
    # Where a curved constraint holds, the linear ones prove little without it.
    stated_rows = source.stated_in(1.0)
    held = stated_rows.held(tangent.f)
    if held:
        touching = with_tangents(stated_rows, held, rows, tangent.f)
        if touching is not None:
            proof = by_rows(touching)
            result = explained(proof, touching)
            if proof.gap <= max(scale.sufficient, TARGET * terms) or is_long:
                return result
        if not is_long:
            by_cones = by_program()
            # It says more about a point that is no minimum.
            if result is None or by_cones.gap <= 2 * result.gap:
                result = by_cones
            if result.gap <= scale.sufficient:
                return result
    # Where none holds, the linear ones alone prove a point, without a program.
    proof = by_rows(rows, hopeless=np.inf if is_long else own_slopes.DOUBTFUL * terms)
    if proof.gap <= scale.sufficient or is_long:
        return explained(proof, rows)
    if result is None:
        result = by_program()
    # A divergence states f >= 0 as well, and would share the multipliers of bounds though its limit
    # is far: near a minimum they are those of the linear constraints if these prove as much.
    if proof.gap <= scale.small and proof.gap <= 2 * result.gap:
        return explained(proof, rows)._replace(gap=np.minimum(proof.gap, result.gap))
    return result


def _or_by_cones(
    evidence: Evidence, tangent: Minorant, rows: Rows, source: RowsOfTrials, bounds: Box
) -> Evidence:
    """Return evidence whose explanation is by all constraints where it would explain little.

    Bounds of values may follow from a curved constraint, and prove a point without its multiplier.
    """

    def explain() -> Explanation:
        explanation = evidence.explain()
        is_explained = explanation.failure(tangent.slope, tangent.f) <= UNEXPLAINED
        if is_explained or len(tangent.f) >= _LONG_FOR_A_SEARCH:
            return explanation
        return cone.by_stated_bounds(explanation, tangent, rows, source, bounds, TARGET)

    return evidence._replace(explain=explain)


def _unknown(tangent: MixedLoss, rows: Rows, source: RowsOfTrials) -> Evidence:
    """Return that nothing is known of a point whose kinks only a program could tell the slopes."""
    d = len(tangent.f)
    nothing = np.asarray(np.nan)
    mu, of_rows = rows.shared_out(np.full(len(rows.system.lower), np.nan))
    of_curved = tuple(
        [np.full(form.shape, np.nan) for form in part] for part in cone.no_multipliers(source)
    )
    explanation = Explanation(
        stationarity=nothing,
        complementarity=nothing,
        sum_multiplier=np.asarray(mu),
        bound_multipliers=np.full(d, np.nan),
        row_multipliers=of_rows,
        row_sizes=rows.sizes,
        of_curved=of_curved,
    )
    return evidence_of(np.inf, absolute_sum(tangent.slope, tangent.f), _not_tried(d), explanation)


def _not_tried(d: int) -> str:
    """Return why no program has looked for multipliers of a long vector."""
    return (
        f"multipliers that follow from the gradient prove no smaller gap, and programs are not "
        f"tried from {LONG_FOR_PROGRAMS:,} values on (here {d:,}): they take minutes to hours"
    )


def _beside(
    around: own_slopes.Surroundings,
    rows: Rows,
    source: RowsOfTrials,
    bounds: Box,
    sufficient: float,
) -> Evidence | None:
    """Return the best evidence by tangents at and beside the point, or None.

    Curved constraints come into it only where the linear ones prove too little without them.
    """
    by_rows = _beside_by_rows(around, rows, source, bounds, sufficient)
    if by_rows is not None and by_rows.gap <= sufficient * around.size:
        return by_rows
    if not source.curved:
        return by_rows
    stated_rows = source.stated_in(1.0)
    touching = with_tangents(stated_rows, stated_rows.held(around.f), rows, around.f)
    if touching is not None:
        by_tangents = _beside_by_rows(around, touching, source, bounds, sufficient)
        if by_tangents is not None:
            by_rows = _smaller(by_tangents, by_rows)
            if by_rows.gap <= max(sufficient, TARGET) * around.size:
                return by_rows
    if len(around.f) >= LONG_FOR_PROGRAMS:
        return by_rows
    by_cones = cone.evidence_beside(around, rows, source, bounds, sufficient)
    return by_rows if by_cones is None else _smaller(by_cones, by_rows)


def _smaller(one: Evidence, other: Evidence | None) -> Evidence:
    """Return the evidence with the smaller gap, the first where they are equal."""
    return one if other is None or one.gap <= other.gap else other


def _beside_by_rows(
    around: own_slopes.Surroundings,
    rows: Rows,
    source: RowsOfTrials,
    bounds: Box,
    sufficient: float,
) -> Evidence | None:
    """Return the same by multipliers of the rows, without a program."""
    # With auxiliary variables the point does not say which rows hold.
    if rows.system.matrix.shape[1] > len(around.f):
        return None

    def prove(tangent: Tangent, _: Array, enough: float) -> own_slopes.Proved:
        best: Proof | None = None
        curved = replace(tangent, modulus=around.steep)
        for multipliers in _at_hand(curved, rows, bounds):
            proof = _proof(multipliers, tangent, rows)
            if best is None or proof.gap < best.gap:
                best = proof
            if best.gap <= enough:
                break
        assert best is not None
        matrix = rows.system.matrix
        held = matrix[np.flatnonzero(best.multipliers)]
        return own_slopes.Proved(best.gap, best.multipliers, matrix.T @ best.multipliers, held)

    enough = max(own_slopes.NEARER * sufficient, SUFFICIENT) * around.size
    is_partial = bool(source.curved) and rows.tangents is None
    hopeless = own_slopes.DOUBTFUL if is_partial else own_slopes.HOPELESS
    beside = own_slopes.best_beside(around, rows.limits, prove, enough, hopeless)
    if beside is None:
        return None
    proof = Proof(beside.gap, beside.multipliers)
    # cvxpy's statement of the set takes a while.
    of_curved = cone.no_multipliers(source) if source.curved else ()
    result = _explained(proof, beside.tangent, rows, bounds, of_curved)
    is_promised = beside.gap <= _PROMISED * around.size
    return result._replace(reason=np.asarray("")) if is_promised else result


def _best_proof(
    tangent: Minorant,
    rows: Rows,
    bounds: Box,
    scale: Scale,
    hopeless: float = np.inf,
    *,
    with_programs: bool = True,
) -> Proof:
    """Return the smallest gap that multipliers at hand or those of a program prove.

    After one above ``hopeless`` no others are tried.
    """
    best: Proof | None = None
    candidates = _candidates(
        tangent, rows, bounds, with_programs=with_programs, is_rough=scale.is_rough
    )
    for multipliers in _cleaned(candidates, rows.system, len(tangent.f)):
        proof = _proof(multipliers, tangent, rows)
        # Earlier candidates explain more of the gradient: near a minimum, where all gaps are
        # rounding, a later one must prove clearly more.
        if best is None or proof.gap < best.gap / (2 if best.gap <= scale.small else 1):
            best = proof
        if best.gap <= scale.sufficient or best.gap > hopeless:
            break
    assert best is not None
    return best


def _candidates(
    tangent: Minorant, rows: Rows, bounds: Box, *, with_programs: bool, is_rough: bool
) -> Iterator[Array]:
    """Yield multipliers, the cheap ones first.

    ``is_rough`` states that multipliers up to a solver's tolerances are enough.
    """
    # With auxiliary variables, or at a kink, the point does not say which rows hold.
    is_plain = rows.system.matrix.shape[1] == len(tangent.f) and not isinstance(tangent, KinkedLoss)
    if is_plain:
        yield from _at_hand(tangent, rows, bounds)
    elif not isinstance(tangent, KinkedLoss):
        yield from _of_plain_rows(tangent, rows, bounds)
    if with_programs:
        # A few times as fast as a linear program, whose multipliers are exact where rows are plain.
        curved_first = is_rough or not is_plain
        yield from _of_programs(tangent, rows, bounds, is_plain=is_plain, curved_first=curved_first)
    elif not is_plain:
        yield np.zeros(len(rows.system.lower))


def _at_hand(tangent: Minorant, rows: Rows, bounds: Box) -> Iterator[Array]:
    """Yield multipliers that the rows which hold at the point determine."""
    if rows.forest is not None and np.isfinite(tangent.slope).all():
        multipliers = flowing_multipliers(
            rows.forest, tangent.f, tangent.slope, rows.system, bounds
        )
        if multipliers is not None:
            yield multipliers
    before: list[bytes] = []
    for near in _NEARNESS:
        at_lower, at_upper = rows_at_bounds(tangent.f, rows.system, near)
        of_values = values_at_bounds(tangent.f, bounds, near)
        held = [mask.tobytes() for mask in (at_lower, at_upper, *of_values)]
        # Mostly a smaller distance leaves the same rows and bounds, and so the same multipliers.
        if held != before:
            yield explaining_multipliers(tangent, rows.system, bounds, at_lower, at_upper, near)
        before = held


def _of_plain_rows(tangent: Minorant, rows: Rows, bounds: Box) -> Iterator[Array]:
    """Yield multipliers at hand of the rows without auxiliary variables, and 0 for all others.

    Where a constraint that has such variables does not hold with equality, that is all of them.
    """
    d = len(tangent.f)
    matrix = rows.system.matrix.tocsr()
    is_plain = np.diff(matrix[:, d:].indptr) == 0
    if not is_plain.any():
        return
    lower = rows.system.lower[is_plain]
    system = LinearInequalities(matrix[is_plain][:, :d], lower, rows.system.upper[is_plain])
    for part in _at_hand(tangent, rows._replace(system=system, forest=None), bounds):
        multipliers = np.zeros(len(is_plain))
        multipliers[is_plain] = part
        yield multipliers


def _of_programs(
    tangent: Minorant, rows: Rows, bounds: Box, *, is_plain: bool, curved_first: bool
) -> Iterator[Array]:
    """Yield multipliers of programs, and what improves them."""
    system = rows.system
    tangent = _without_fixed(tangent, rows.limits)
    direct = _direct(rows, bounds, len(tangent.f))
    curved = by_curved_program(tangent, system, direct) if curved_first else None
    if curved is not None:
        yield curved
    # Bounds that only follow from others would take multipliers from the rows: they come second.
    multipliers = by_linear_program(tangent, system, direct)
    if multipliers is None:
        multipliers = by_linear_program(tangent, system, rows.limits)
    if multipliers is not None:
        yield multipliers
        if isinstance(tangent, KinkedLoss):
            # A price that equals a slope but for rounding proves nothing where a value is
            # unbounded: a little smaller, it is surely between the slopes.
            yield multipliers * (1 - 16 * EPS)
        if is_plain:
            # The program's choice of rows, with multipliers exact to rounding.
            near = _NEARNESS[0]
            at_lower = multipliers > 0
            at_upper = multipliers < 0
            yield explaining_multipliers(tangent, system, bounds, at_lower, at_upper, near)
    # A linear program sees no curvature, so that its gap is of first order in the point's error.
    if not curved_first:
        curved = by_curved_program(tangent, system, direct)
        if curved is not None:
            yield curved
    if curved is None:
        yield np.zeros(len(system.lower))


def _without_fixed(tangent: Minorant, limits: Box) -> Minorant:
    """Return a tangent that is level where values can only be one thing.

    Tolerances of programs are relative to the steepest slope, and a slope there changes no other
    multiplier: it would hide those of the others.
    """
    d = len(tangent.f)
    is_fixed = limits.lower[:d] == limits.upper[:d]
    if not isinstance(tangent, Tangent) or not is_fixed.any() or is_fixed.all():
        return tangent
    modulus = np.broadcast_to(tangent.modulus, (d,))
    usual = float(np.min(modulus[~is_fixed]))
    return replace(
        tangent,
        slope=np.where(is_fixed, 0.0, tangent.slope),
        modulus=np.where(is_fixed, usual, modulus),
    )


def _direct(rows: Rows, bounds: Box, d: int) -> Box:
    """Return the bounds of d values that have multipliers, and of auxiliary variables all."""
    return Box(
        np.append(np.broadcast_to(bounds.lower, d), rows.limits.lower[d:]),
        np.append(np.broadcast_to(bounds.upper, d), rows.limits.upper[d:]),
    )


def _cleaned(candidates: Iterable[Array], system: LinearInequalities, d: int) -> Iterator[Array]:
    """Yield each candidate, and after it one that auxiliary variables do not feel.

    What programs leave of such a variable's price is charged over its whole range. So multipliers
    that are noise are dropped, and the others changed as little as makes these prices 0.
    """
    for multipliers in candidates:
        yield multipliers
        if system.matrix.shape[1] > d:
            yield _without_auxiliary_prices(multipliers, system, d)


def _without_auxiliary_prices(multipliers: Array, system: LinearInequalities, d: int) -> Array:
    """Return multipliers without noise that leave auxiliary variables no price, if it can be."""
    largest = np.max(np.abs(multipliers), initial=0.0)
    used = np.flatnonzero(np.abs(multipliers) > _NOISE * largest)
    cleaned = np.zeros(len(multipliers))
    if not len(used):
        return cleaned
    prices_of = system.matrix[used][:, d:].T
    cleaned[used] = multipliers[used]
    equations = NormalEquations(prices_of, np.ones(len(used)), _REGULAR)
    for _ in range(3):  # again for what damping and rounding left
        cleaned[used] -= prices_of.T @ equations.solve(prices_of @ cleaned[used])
    return cleaned


def _proof(multipliers: Array, tangent: Minorant, rows: Rows) -> Proof:
    """Return the gap that multipliers of any origin prove: the bound of ``dual``."""
    system = rows.system
    d = len(tangent.f)
    # A multiplier towards a bound that does not exist proves nothing: it is dropped.
    impossible = ((multipliers > 0) & np.isinf(system.lower)) | (
        (multipliers < 0) & np.isinf(system.upper)
    )
    multipliers = np.where(impossible, 0.0, usable(multipliers))
    price, error = column_totals(system.matrix, multipliers, np.zeros(system.matrix.shape[1]))
    lower, upper = rows.limits
    rise = tangent.rise(price[:d], error[:d], lower[:d], upper[:d])
    products = _products(multipliers, tangent.f, system)
    # Auxiliary variables have no place at the point: they go where they cost most.
    with np.errstate(invalid="ignore"):
        free = _largest(price[d:] + error[d:], lower[d:], upper[d:])
        free = np.maximum(free, _largest(price[d:] - error[d:], lower[d:], upper[d:]))
        # Products are negative at a point outside the set, where they may cancel the rise.
        sizes = rise + np.abs(products) + np.sum(np.abs(free))
        total = float(rise + products + np.sum(free) + (len(free) + 8) * EPS * sizes)
    return Proof(max(total, 0.0) if np.isfinite(total) else np.inf, multipliers)


def _largest(slope: Array, lower: Array, upper: Array) -> Array:
    """Return max of slope·t over lower <= t <= upper, value by value."""
    ends = np.where(slope > 0, upper, lower)
    return np.where(slope == 0, 0.0, slope * ends)


def _products(multipliers: Array, f: Array, system: LinearInequalities) -> float:
    """Return Σ |ν_i| times the distance of row i to the bound that ν_i belongs to, rounded up."""
    used = np.flatnonzero(multipliers)
    weights = multipliers[used]
    bound = np.where(weights > 0, system.lower[used], system.upper[used])
    # A f - bound, rounded once: a steep multiplier makes the last bit of a distance count.
    matrix = system.matrix
    # Slices copy, and of a small system that takes longer than the sums.
    if len(used) < matrix.shape[0]:
        matrix = matrix[used]
    if matrix.shape[1] > len(f):
        matrix = matrix[:, : len(f)]
    distance, error = row_totals(matrix, f, -bound)
    # The distances of a point that is not quite inside may be negative: both signs are rounded up.
    terms = weights * distance + np.abs(weights) * error
    return float(np.sum(terms) + (len(terms) + 4) * EPS * np.sum(np.abs(terms)))


def _explained(
    proof: Proof, tangent: Minorant, rows: Rows, bounds: Box, of_curved: tuple[Any, ...] = ()
) -> Evidence:
    """Return the evidence that the multipliers of all rows give.

    ``of_curved`` holds the multipliers of curved constraints, which the proof does not use.
    """
    explanation = _explanation(proof, tangent, rows, bounds, of_curved)
    terms = absolute_sum(tangent.slope, tangent.f)
    reason = _reason(proof.gap, float(terms), rows, len(tangent.f))
    evidence = evidence_of(proof.gap, terms, reason, explanation)
    failure = explanation.failure(tangent.slope, tangent.f)
    is_searched = failure > UNEXPLAINED and np.isfinite(proof.gap)
    if not is_searched or len(tangent.f) >= _LONG_FOR_A_SEARCH:
        return evidence
    # A proof may use bounds that follow from others; multipliers of what is stated explain more.
    explain = partial(_by_stated_bounds, proof, explanation, tangent, rows, bounds, of_curved)
    return evidence._replace(explain=explain)


def _by_stated_bounds(
    proof: Proof,
    explanation: Explanation,
    tangent: Minorant,
    rows: Rows,
    bounds: Box,
    of_curved: tuple[Any, ...],
) -> Explanation:
    """Return the explanation by a program that knows stated bounds alone, if it leaves less."""
    further = np.full(rows.system.matrix.shape[1] - len(tangent.f), np.inf)
    d = len(tangent.f)
    stated_alone = Box(
        np.append(np.broadcast_to(bounds.lower, d), -further),
        np.append(np.broadcast_to(bounds.upper, d), further),
    )
    multipliers = by_linear_program(tangent, rows.system, stated_alone)
    if multipliers is None:
        # Where stated bounds leave the set unbounded, the tangent may fall in it, the loss not.
        multipliers = by_curved_program(tangent, rows.system, stated_alone)
    if multipliers is None:
        return explanation
    candidates = [proof._replace(multipliers=multipliers)]
    if not len(further) and not isinstance(tangent, KinkedLoss):
        # The program's choice of rows, with multipliers exact to rounding.
        near = _NEARNESS[0]
        exact = explaining_multipliers(
            tangent, rows.system, bounds, multipliers > 0, multipliers < 0, near
        )
        candidates.append(proof._replace(multipliers=exact))
    others = [_explanation(one, tangent, rows, bounds, of_curved) for one in candidates]
    slope = tangent.slope
    best = min(others, key=lambda one: float(one.failure(slope, tangent.f)))
    return best if explains_more(best, explanation, slope, tangent.f) else explanation


def _explanation(
    proof: Proof, tangent: Minorant, rows: Rows, bounds: Box, of_curved: tuple[Any, ...]
) -> Explanation:
    """Return the multipliers of all rows, and what they leave of the gradient."""
    d = len(tangent.f)
    price = rows.system.matrix.T @ proof.multipliers
    # Auxiliary variables have no slope, and no bounds beside their rows.
    of_auxiliary = np.max(np.abs(price[d:]), initial=0.0)
    residual = tangent.slope_towards(price[:d]) - price[:d]
    of_bounds, stationarity, complementarity = bound_multipliers(residual, tangent.f, bounds)
    of_rows = _largest_product(proof, tangent.f, rows.system)
    mu, multipliers = rows.shared_out(proof.multipliers)
    if rows.tangents is not None:
        of_curved = rows.tangents.of_curved(proof.multipliers)
    return Explanation(
        stationarity=np.maximum(stationarity, of_auxiliary),
        complementarity=np.maximum(complementarity, of_rows),
        sum_multiplier=np.asarray(mu),
        bound_multipliers=of_bounds,
        row_multipliers=multipliers,
        row_sizes=rows.sizes,
        of_curved=of_curved,
    )


def _reason(gap: float, terms: float, rows: Rows, d: int) -> str:
    """Return why a gap is infinite, or more than a certificate promises; else nothing."""
    if np.isinf(gap):
        return no_bound(rows.limits)
    if gap <= _PROMISED * terms:
        return ""
    if d >= LONG_FOR_PROGRAMS:
        return _not_tried(d)
    return "no multipliers of the rows prove a smaller gap: the point may be off the minimum"


def _largest_product(proof: Proof, f: Array, system: LinearInequalities) -> float:
    """Return the largest |multiplier| of a row times the distance to the bound it belongs to."""
    # With auxiliary variables the slack of a row is not known: the gap, which is the sum of all
    # products, is above each.
    if system.matrix.shape[1] > len(f):
        return proof.gap
    used = np.flatnonzero(proof.multipliers)
    multipliers = proof.multipliers[used]
    values = (system.matrix @ f)[used]
    to_lower = values - system.lower[used]
    to_upper = system.upper[used] - values
    distance = np.where(multipliers > 0, to_lower, to_upper)
    return float(np.max(np.abs(multipliers * distance), initial=0.0))

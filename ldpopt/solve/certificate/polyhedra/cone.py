"""Gap and multipliers on sets with curved constraints, which only cvxpy knows, for one trial."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.parts import absolute_sum
from ldpopt.closed_form.units import own_unit
from ldpopt.constraints import LinearInequalities
from ldpopt.solve.certificate.bounds.evidence import (
    UNEXPLAINED,
    Evidence,
    Explanation,
)
from ldpopt.solve.certificate.bounds.intervals import Box
from ldpopt.solve.certificate.bounds.minorant import KinkedLoss, Minorant, MixedLoss, Tangent
from ldpopt.solve.certificate.box.box import bound_multipliers
from ldpopt.solve.certificate.cones.cone_gap import TARGET, ConeGap, ConeSet
from ldpopt.solve.certificate.cones.conic_program import Multipliers
from ldpopt.solve.certificate.cones.convex_program import certify_program
from ldpopt.solve.certificate.polyhedra.row_programs import bounds_of
from ldpopt.solve.certificate.polyhedra.rows import Rows, RowsOfTrials, StatedRows
from ldpopt.solve.certificate.prices import own_slopes
from ldpopt.solve.programs.units import frequency_unit

Array = NDArray[np.float64]


# Other multipliers are taken where they fail by less than this part. Those of cone programs leave
# what a solver's tolerance leaves, and not rounding alone.
_LESS = 0.1


_ENDLESS = (
    "rounding of the loss's slopes may cost any amount at values without finite bounds: bound the "
    "frequencies by constraints"
)


class _Proof(NamedTuple):
    """A gap, why it is infinite, cvxpy's multipliers by id, and what they leave of the slopes.

    ``duals`` returns the multipliers, which take a while and which few read. ``residual`` has what
    is left for bounds, value by value, and ``unexplained`` the largest slope left elsewhere.
    """

    gap: float
    reason: str
    duals: Callable[[], Mapping[int, Any]]
    residual: Array
    unexplained: float


def evidence(
    tangent: Minorant,
    rows: Rows,
    source: RowsOfTrials,
    bounds: Box,
    sufficient: float = TARGET,
) -> Evidence:
    """Return the evidence of one trial.

    Parameters
    ----------
    tangent
        The loss at the point.
    rows
        The linear constraints, and bounds of all competitors.
    source
        Where these come from, with the constraints that are curved.
    bounds
        The bounds that have multipliers.
    sufficient
        As in ``ConeSet.gap``.
    """
    d = len(tangent.f)
    limits = Box(rows.limits.lower[:d], rows.limits.upper[:d])
    if isinstance(tangent, Tangent):
        stated = source.stated_in(1.0)
        proof = _of_tangent(tangent, limits, stated, sufficient)
    else:
        assert isinstance(tangent, KinkedLoss | MixedLoss)
        stated, proof = _of_kinks(tangent, limits, source, sufficient)
    return _evidence_of(proof, tangent, rows, source, stated, bounds, sufficient)


def evidence_beside(
    around: own_slopes.Surroundings,
    rows: Rows,
    source: RowsOfTrials,
    bounds: Box,
    sufficient: float,
) -> Evidence | None:
    """Return the evidence by tangents at and beside the point, None if it has no bound.

    A program finds the multipliers for the tangent at the point and about the loss's second
    derivatives: it knows the set's cones alone, of which a loss that users state may take many.
    """
    from scipy import sparse

    f = around.f
    stated = source.stated_in(1.0)
    limits = Box(rows.limits.lower[: len(f)], rows.limits.upper[: len(f)])
    cones = stated.set_within(limits)
    if cones.box is None:
        return None
    # The program's prices stay.
    no_rows = sparse.csr_array((0, len(f)))
    best: own_slopes.Beside | None = None
    # Of a straight loss the slope stays, so that the curved constraint alone decides where the
    # minimum is.
    for point in cones.multipliers(around.here.gradient, f, around.bend):

        def prove(tangent: Tangent, *_: Any, point: Multipliers = point) -> own_slopes.Proved:
            proof = cones.proved(tangent.slope, tangent.error, f, point)
            return own_slopes.Proved(proof.gap, proof, tangent.slope - proof.residual, no_rows)

        beside = own_slopes.best_beside(
            around, limits, prove, own_slopes.NEARER * sufficient * around.size
        )
        if beside is not None and (best is None or beside.gap < best.gap):
            best = beside
        if best is not None and best.gap <= max(sufficient, TARGET) * around.size:
            break
    if best is None:
        return None
    proof = _of_cones(best.multipliers._replace(gap=best.gap))
    return _evidence_of(proof, best.tangent, rows, source, stated, bounds, sufficient)


def _evidence_of(
    proof: _Proof,
    tangent: Minorant,
    rows: Rows,
    source: RowsOfTrials,
    stated: StatedRows,
    bounds: Box,
    sufficient: float,
) -> Evidence:
    """Return the evidence that a proof of one trial is."""
    terms = absolute_sum(tangent.slope, tangent.f)

    def explain() -> Explanation:
        explanation = _explanation(proof, tangent, rows, stated, bounds)
        fails = explanation.failure(tangent.slope, tangent.f) > UNEXPLAINED
        if not fails or np.isinf(proof.gap):
            return explanation
        return by_stated_bounds(explanation, tangent, rows, source, bounds, sufficient)

    return Evidence(np.asarray(proof.gap), np.asarray(terms), np.asarray(proof.reason), explain)


def by_stated_bounds(
    explanation: Explanation,
    tangent: Minorant,
    rows: Rows,
    source: RowsOfTrials,
    bounds: Box,
    sufficient: float,
) -> Explanation:
    """Return the explanation by a program that knows stated bounds alone, if it leaves less.

    A proof may use bounds that follow from others, beyond which nothing competes: what is at such a
    bound may have any residual. Multipliers of what is stated explain more.
    """
    ends = Box(*(np.broadcast_to(end, tangent.f.shape) for end in bounds))
    proof: _Proof | None
    if isinstance(tangent, Tangent):
        stated = source.stated_in(1.0)
        proof = _explaining_tangent(tangent, ends, stated)
    else:
        assert isinstance(tangent, KinkedLoss | MixedLoss)
        stated, proof = _of_kinks(tangent, ends, source, sufficient)
    if proof is None:
        return explanation
    other = _explanation(proof, tangent, rows, stated, bounds)
    before = explanation.failure(tangent.slope, tangent.f)
    return other if other.failure(tangent.slope, tangent.f) < _LESS * before else explanation


def _explanation(
    proof: _Proof, tangent: Minorant, rows: Rows, stated: StatedRows, bounds: Box
) -> Explanation:
    """Return the multipliers of a proof, and how well they explain the slopes."""
    duals = proof.duals()
    multipliers = _row_multipliers(rows.system, stated.linear, duals)
    mu, of_rows = rows.shared_out(multipliers)
    of_bounds, stationarity, products = bound_multipliers(proof.residual, tangent.f, bounds)
    return Explanation(
        stationarity=np.maximum(stationarity, proof.unexplained),
        # Of a curved constraint the products are not known one by one: the gap is their sum.
        complementarity=np.maximum(products, proof.gap),
        sum_multiplier=np.asarray(mu),
        bound_multipliers=of_bounds,
        row_multipliers=of_rows,
        row_sizes=rows.sizes,
        of_curved=tuple([_of_form(form, duals) for form in part] for part in stated.of_curved),
    )


def _of_form(form: Any, duals: Mapping[int, Any]) -> Any:
    """Return cvxpy's multipliers of a form, or NaN if there is no proof.

    Those of one inequality are one number, of which cvxpy makes an array for some functions.
    """
    if form.id not in duals:
        return np.full(form.shape, np.nan)
    dual = duals[form.id]
    return np.reshape(dual, ()) if form.shape == () and np.size(dual) == 1 else dual


def no_multipliers(source: RowsOfTrials) -> tuple[list[Array], ...]:
    """Return zeros as multipliers of curved constraints, in cvxpy's shapes."""
    return tuple(
        [np.zeros(form.shape) for form in part] for part in source.stated_in(1.0).of_curved
    )


def _of_tangent(tangent: Tangent, limits: Box, stated: StatedRows, sufficient: float) -> _Proof:
    """Return the proof of a smooth loss."""
    result = stated.set_within(limits).gap(
        tangent.slope, tangent.error, tangent.f, tangent.modulus, sufficient
    )
    return _of_cones(result)


def _explaining_tangent(tangent: Tangent, bounds: Box, stated: StatedRows) -> _Proof | None:
    """Return the multipliers that explain most of a smooth loss, whatever they prove."""
    if not np.isfinite(tangent.slope).all():
        return None
    stated_set = ConeSet.within(stated.compiled, stated.variable, *bounds)
    result = stated_set.explained(tangent.slope, tangent.f, tangent.modulus)
    return None if result is None else _of_cones(result)


def _of_cones(result: ConeGap) -> _Proof:
    """Return the proof that a gap of cones is."""
    return _Proof(
        result.gap, result.reason, result.multipliers, result.residual, result.of_auxiliary
    )


def _of_kinks(
    loss: KinkedLoss | MixedLoss, limits: Box, source: RowsOfTrials, sufficient: float
) -> tuple[StatedRows, _Proof]:
    """Return the proof of a loss with kinks, and the rows in the unit that it is from."""
    # Kinks stand in the objective, where solvers do not see the unit of the frequencies.
    unit = frequency_unit(_reach(loss))
    stated = source.stated_in(unit)
    proof = _of_kinked_loss(loss, limits, stated, sufficient)
    if unit < 1 and proof.reason:
        # All values of a solver's point may be small because bounds of 0 hold them: then the loss
        # is made of numbers near 1, which are huge in that unit.
        usual = source.stated_in(1.0)
        other = _of_kinked_loss(loss, limits, usual, sufficient)
        if other.gap < proof.gap:
            return usual, other
    return stated, proof


def _of_kinked_loss(
    loss: KinkedLoss | MixedLoss,
    limits: Box,
    stated: StatedRows,
    sufficient: float,
) -> _Proof:
    """Return the proof of a loss with kinks, as a program whose objective it is."""
    import cvxpy as cp

    unit = stated.unit
    # The square of a unit of slopes: a power of four.
    price = 1.0 if unit == 1 else own_unit(_size(loss) ** 0.5) ** 2
    ends = [form for form in bounds_of(stated.values, limits) if form.size]
    objective = loss.objective(stated.variable, limits, unit, price)
    problem = cp.Problem(cp.Minimize(objective), [*stated.forms, *ends])
    # Auxiliary variables of the constraints are not used in the objective: any value will do.
    point = {other: np.zeros(other.shape) for other in problem.variables()}
    # Units are powers of two: the point stays the same bits.
    values = {**point, stated.variable: loss.f / unit}
    whole = certify_program(problem, values, sufficient, reported_in=price, with_scale=False)
    duals = {form.id: price * np.asarray(value) for form, value in whole.duals.items()}
    gap = price * whole.gap + loss.rounding(limits)
    if np.isinf(gap):
        reason = whole.reason or _ENDLESS
        return _Proof(gap, reason, dict, np.full(len(limits.lower), np.nan), np.nan)
    # A slope of the variable counts in its unit, those of auxiliary variables in the same.
    left = price * whole.stationarity / unit
    return _Proof(gap, whole.reason, lambda: duals, _of_bounds(ends, limits, duals), left)


def _reach(loss: KinkedLoss | MixedLoss) -> Array:
    """Return how large each value is at the point, or where the loss's smooth part is smallest.

    A price may hold all values at 0, and then the point says nothing about units.
    """
    sizes = np.abs(loss.f)
    if isinstance(loss, KinkedLoss):
        return sizes
    bend = _bend(loss)
    step = np.divide(loss.smooth.slope, bend, out=np.zeros(sizes.shape), where=bend > 0)
    return np.maximum(sizes, np.abs(loss.f - step))


def _size(loss: KinkedLoss | MixedLoss) -> float:
    """Return how large the terms of a loss are near the point, a number for its units."""
    reach = _reach(loss)
    terms = float(absolute_sum(loss.slope, reach))
    if isinstance(loss, KinkedLoss):
        return terms
    # Where parts balance each other, as at a minimum inside the set, their sum has no slope.
    return terms + float(np.sum(_bend(loss) * reach**2))


def _bend(loss: MixedLoss) -> Array:
    """Return the second derivatives of the smooth part, 0 where they are not finite."""
    modulus = np.broadcast_to(loss.smooth.modulus, loss.f.shape)
    return np.where(np.isfinite(modulus), modulus, 0.0)


def _of_bounds(ends: Sequence[Any], limits: Box, duals: Mapping[int, Any]) -> Array:
    """Return λ from cvxpy's multipliers of the bounds that ``bounds_of`` states."""
    result = np.zeros(len(limits.lower))
    sides = [(limits.lower, 1.0), (limits.upper, -1.0)]
    stated = [(np.flatnonzero(np.isfinite(end)), sign) for end, sign in sides]
    used = [(values, sign) for values, sign in stated if len(values)]
    for (values, sign), form in zip(used, ends, strict=True):
        if form.id in duals:
            result[values] += sign * np.asarray(duals[form.id], dtype=np.float64)
    return result


def _row_multipliers(
    system: LinearInequalities, forms: Sequence[Any], duals: Mapping[int, Any]
) -> Array:
    """Return ν of all rows from cvxpy's multipliers of the forms that ``row_forms`` makes."""
    result = np.full(len(system.lower), 0.0 if duals else np.nan)
    is_equality = system.lower == system.upper
    sides = (
        # cvxpy adds the multiplier of an equation times its left side, and ν is subtracted.
        (is_equality, -1.0),
        (~is_equality & np.isfinite(system.lower), 1.0),
        (~is_equality & np.isfinite(system.upper), -1.0),
    )
    stated = [(np.flatnonzero(rows), sign) for rows, sign in sides if rows.any()]
    for (rows, sign), form in zip(stated, forms, strict=True):
        if form.id in duals:
            result[rows] += sign * np.asarray(duals[form.id], dtype=np.float64)
    return result

"""Proof of optimality for any point: computed from the problem and the point alone.

``gap`` is an upper bound of L(f) - min L as a theorem, rounding included, whatever produced the
point and the multipliers: ``bounds.dual`` states it, ``bounds.minorant`` what is known of the loss,
``bounds.competitors`` what is known of the set. The folders ``box``, ``prices`` and ``polyhedra``
look for the multipliers that prove most: on bounds with a total, from the gradient alone, and of
any rows. ``another_point`` takes what is proved elsewhere, ``cones`` what cvxpy has compiled, and
``exact`` calculates with rational numbers.

Multipliers belong to the Lagrangian L(f) + μ (Σf - total) - Σ λ_v f_v - Σ ν_i (A f)_i + …: λ and ν
are positive where a lower bound pushes up and negative where an upper bound pushes down. At a
minimum g + μ = λ + Aᵀν.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.closed_form.parts import absolute_sum
from ldpopt.constraints.base import kept_rows
from ldpopt.errors import InvalidInputError, InvalidTypeError, UnsupportedProblemError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.estimate.traced import in_order
from ldpopt.immutable import closed, locked
from ldpopt.losses import Loss
from ldpopt.solve.certificate import duals, shown
from ldpopt.solve.certificate.another_point import gap_at_hand, gap_by_way_of
from ldpopt.solve.certificate.bounds.competitors import at_end, domain_of
from ldpopt.solve.certificate.bounds.dual import EPS
from ldpopt.solve.certificate.bounds.evidence import (
    SMALLEST_SCALE,
    UNEXPLAINED,
    VANISHING,
    Evidence,
    Explanation,
    SizedGap,
    is_lost,
    largest_size,
)
from ldpopt.solve.certificate.box import box, few_values
from ldpopt.solve.certificate.box.total_prices import ROUNDING
from ldpopt.solve.certificate.cones.convex_program import ProgramCertificate, certify_program
from ldpopt.solve.certificate.exact.proof import ExactCertificate, exact_certificate
from ldpopt.solve.certificate.polyhedra import polyhedron
from ldpopt.solve.certificate.prices.ball_gap import ball_explanation, ball_gap
from ldpopt.solve.certificate.prices.origin import Equations, equations_of, is_far, restated
from ldpopt.solve.certificate.prices.own_ball_gap import own_ball_explanation, own_ball_gap
from ldpopt.solve.certificate.prices.pooled_gap import pooled_gap
from ldpopt.solve.formulation import Formulation
from ldpopt.tables import html_of

if TYPE_CHECKING:
    import cvxpy as cp

Array = NDArray[np.float64]
Elsewhere = Callable[[], Array | None]


class Multipliers(NamedTuple):
    """Fields of a ``Certificate`` that are computed when one of them is read first.

    Those by name are computed by ``find_duals``: of cvxpy's constraints they need a program.
    """

    stationarity: Array
    complementarity: Array
    sum_multiplier: Array
    bound_multipliers: Array
    row_multipliers: Array
    active: NDArray[np.bool_]
    find_duals: Callable[[], Any]


@dataclass(frozen=True, eq=False)
class Certificate:
    """How far a point is from optimal. All arrays have the leading (trial) axes of the point.

    Attributes
    ----------
    gap
        Upper bound of L(f) - min L in the loss's own units, >= 0; ``inf`` if no bound is known,
        with the reason in ``reason``.
    violation
        Largest violation of a constraint, in units of frequency.
    size
        What ``is_optimal(relative=True)`` divides the violation by: the largest |f_v|, or the
        largest number that the constraints state (at most 1 of it), whichever is larger. Where
        they state only zeros, the estimate's largest number counts.
    reason
        Why the gap of some trial is infinite; on sets that are not bounds and a total, also why
        one is above 1e-8 of the scale. Else empty.
    scope
        What is certified: the problem, or the convex part of a loss that was minimised last.
    is_quick
        Whether multipliers are computed in a few passes over the values. Where they take seconds, a
        printed certificate shows only what is known without them, until one of them is read.
    find_multipliers, find_scale
        Compute what the properties below return. Each is called once, when one of them is read.
    """

    gap: Array
    violation: Array
    size: Array
    reason: str
    scope: str
    is_quick: bool
    find_multipliers: Callable[[], Multipliers]
    find_scale: Callable[[], Array]

    def __post_init__(self) -> None:
        # What is proved is not written over.
        for name in ("gap", "violation", "size"):
            object.__setattr__(self, name, closed(np.asarray(getattr(self, name))))

    @cached_property
    def scale(self) -> Array:
        """What ``is_optimal(relative=True)`` divides by: |L(f)| + Σ |g_v f_v| + |L(f) - L(0)|.

        With the gradient g the first two are the size of the numbers whose difference a gap is.
        Both vanish where the minimum is 0; the last one is what is at stake between these
        frequencies and none at all, or half of them where the loss is infinite at 0. A status
        counts in the same scale.
        """
        return self.find_scale()

    @cached_property
    def _multipliers(self) -> Multipliers:
        return Multipliers(*map(locked, self.find_multipliers()))

    @cached_property
    def _duals(self) -> Any:
        return locked(self._multipliers.find_duals())

    @property
    def stationarity(self) -> Array:
        """Largest component of the Lagrangian's gradient at the point that no multiplier explains.

        A multiplier explains it only with the right sign. Where the loss has no known gradient at
        the point, as at kinks that values share, or a curved constraint has a kink there, it counts
        in the program that cvxpy compiles, and at the point itself more may be left.
        """
        return self._multipliers.stationarity

    @property
    def complementarity(self) -> Array:
        """Largest |multiplier| times the distance to its bound; 0 where the point is beyond it.

        Where a constraint is a cvxpy expression, or has auxiliary variables, the sum of these
        products.
        """
        return self._multipliers.complementarity

    @property
    def sum_multiplier(self) -> Array:
        """μ, the multiplier of the total; 0 without a total.

        Minus the mean gradient, weighted by the distance to the nearest bound.
        """
        return self._multipliers.sum_multiplier

    @property
    def bound_multipliers(self) -> Array:
        """λ, shape (..., d)."""
        return self._multipliers.bound_multipliers

    @property
    def row_multipliers(self) -> Array:
        """ν, shape (..., m): of the rows of all other constraints in their order.

        The rows are those that ``rows(d)`` of each constraint returns, or what cvxpy makes of it.
        A curved constraint has no rows: its multipliers are in ``duals`` alone.
        """
        return self._multipliers.row_multipliers

    @property
    def active(self) -> NDArray[np.bool_]:
        """Where a bound holds with equality (within 1e-9), shape (..., d)."""
        return self._multipliers.active

    @property
    def duals(self) -> Mapping[str, Any]:
        """By the name of each constraint its multipliers.

        That is how fast the minimum rises with the constraint's bounds: λ for bounds, -μ for a
        total, ν for rows, and one number for the radius of a ball in the 2-norm or the divergence.
        Cvxpy's constraints have what cvxpy calls the dual value, which is positive where an upper
        bound holds. A name that occurs again gets a number: "Linear 2".
        """
        # Locked here, where they are read: what is kept can be copied and sent. A composition has
        # an array of them, one per trial.
        by_name = self._duals
        return MappingProxyType(by_name) if isinstance(by_name, dict) else _LOCKED(by_name)

    def is_optimal(self, tol: float = 1e-9, *, relative: bool = False) -> bool:
        """Return whether gap <= tol and violation <= tol in every trial.

        Both are absolute; with ``relative`` the gap counts in units of ``scale`` and the violation
        in units of ``size``.
        """
        tol = validate.real("tol", tol, above=0)
        relative = validate.flag("relative", relative)
        violation_limit = tol * self.size if relative else tol
        gap_limit: Array | float = tol
        if relative:
            # What overflows is no measure of a gap.
            gap_limit = np.where(np.isfinite(self.scale), tol * self.scale, 0.0)
        return bool(np.all(self.gap <= gap_limit) and np.all(self.violation <= violation_limit))

    @property
    def worst(self) -> dict[str, float]:
        """The largest gap, violation, stationarity and complementarity of all trials."""
        return {name: float(np.max(getattr(self, name))) for name in _SCALARS}

    @property
    def _has_multipliers(self) -> bool:
        """Whether a view may show multipliers: they are there, or there soon."""
        return self.is_quick or "_multipliers" in vars(self)

    @property
    def at_hand(self) -> dict[str, float]:
        """The numbers of ``worst`` that need no search for multipliers: what is printed."""
        names = _SCALARS if self._has_multipliers else _WITHOUT_MULTIPLIERS
        return {name: float(np.max(getattr(self, name))) for name in names}

    def __repr__(self) -> str:
        numbers = ", ".join(f"{name}={value:.3g}" for name, value in self.at_hand.items())
        scope = "" if self.scope == "the problem" else f", scope={self.scope!r}"
        return f"Certificate({numbers}{scope})"

    def _repr_html_(self) -> str:
        """Return the numbers, the worst of all trials, and the multipliers by constraint."""
        facts = [("certified", self.scope), *shown.numbers_of(self, tuple(self.at_hand))]
        if not self._has_multipliers:
            facts.append(("multipliers", "are computed when the attribute duals is read"))
        numbers = html_of((), facts, title="Certificate")
        if not self._has_multipliers:
            return numbers
        return numbers + html_of(shown.HEADINGS, shown.multiplier_rows(self.duals), [shown.NOTE])


# From so many values on the rows of one vector may take programs of seconds. Then a gap that is all
# that a certificate promises is enough.
_LONG_FOR_ROWS = 2048
_PROMISED = 1e-8

# Problems of which each has its own multipliers, some 0.1 s in all.
_QUICK_PARTS = 64

# Values of so many trials get another origin together: exact sums take dozens of numbers for each,
# which a processor's cache holds.
_AT_ONCE = 1 << 13

# Where a tenth of it is proved, no program is solved for a trial of a stack, nor one with auxiliary
# variables for a single vector: solvers' points are hardly nearer, so that no gap would be smaller.
_SPARES_PROGRAMS = 1e-9

# By how much more than its terms a loss may be at stake: beyond it a search would not search.
_LARGEST_SHARE = 1e3

_LARGEST_DOUBLE = float(np.finfo(np.float64).max)

_WITHOUT_MULTIPLIERS = ("gap", "violation")
_SCALARS = (*_WITHOUT_MULTIPLIERS, "stationarity", "complementarity")

_LOCKED = np.frompyfunc(MappingProxyType, 1, 1)


def of_trials(parts: Sequence[Certificate], shape: tuple[int, ...]) -> Certificate:
    """Return the certificates of many trials, each of a problem of its own, as one.

    ``duals`` becomes an array of mappings.
    """
    gap, violation, size = (
        np.reshape([getattr(part, name) for part in parts], shape)
        for name in ("gap", "violation", "size")
    )
    reason = next((part.reason for part in parts if part.reason), "")
    return Certificate(
        gap=gap,
        violation=violation,
        size=size,
        reason=reason,
        scope=parts[0].scope,
        is_quick=all(part.is_quick for part in parts) and len(parts) <= _QUICK_PARTS,
        find_multipliers=partial(_multipliers_of_trials, parts, shape),
        find_scale=partial(_scales_of_trials, parts, shape),
    )


def _scales_of_trials(parts: Sequence[Certificate], shape: tuple[int, ...]) -> Array:
    return np.reshape([part.scale for part in parts], shape)


def _multipliers_of_trials(parts: Sequence[Certificate], shape: tuple[int, ...]) -> Multipliers:
    fields = zip(*(part.find_multipliers() for part in parts), strict=True)
    return Multipliers(*(_field_of_trials(field, shape) for field in fields))


def _field_of_trials(field: Sequence[Any], shape: tuple[int, ...]) -> Any:
    """Return a field of ``Multipliers`` of all trials: an array, or a function that returns it."""
    if callable(field[0]):
        return partial(_duals_of_trials, field, shape)
    return np.reshape(field, (*shape, *np.shape(field[0])))


def _duals_of_trials(find: Sequence[Callable[[], Any]], shape: tuple[int, ...]) -> Any:
    return np.reshape([find_duals() for find_duals in find], shape)


@overload
def certify(
    problem: Formulation,
    estimate: FrequencyEstimate | ArrayLike,
    f: FrequencyEstimate | ArrayLike,
    *,
    exact: Literal[False] = False,
) -> Certificate: ...
@overload
def certify(
    problem: Formulation,
    estimate: FrequencyEstimate | ArrayLike,
    f: FrequencyEstimate | ArrayLike,
    *,
    exact: Literal[True],
) -> ExactCertificate: ...
@overload
def certify(
    problem: cp.Problem, estimate: Mapping[cp.Variable, ArrayLike] | ArrayLike | None = None
) -> ProgramCertificate: ...
def certify(
    problem: Formulation | cp.Problem, estimate: Any = None, f: Any = None, *, exact: bool = False
) -> Certificate | ExactCertificate | ProgramCertificate:
    """Return the certificate of any vector f, or stack of vectors, for a problem and an estimate.

    Parameters
    ----------
    problem
        The problem that f claims to solve; or any convex ``cvxpy.Problem``.
    estimate
        The estimate it started from (a plain vector where the loss needs no noise level). For a
        cvxpy problem the point instead: a mapping from variables to values, the value of its only
        variable, or nothing for the values that the variables hold.
    f
        Finite frequencies of the estimate's shape.
    exact
        Whether to calculate with rational numbers, which nothing rounds, and return an
        ``ExactCertificate``: gap, and distance to the exact minimiser. ``exact_certificate``
        states for which losses and sets.

    Returns
    -------
    A ``Certificate``; for a cvxpy problem a ``ProgramCertificate``, which has gap, violation,
    multipliers by constraint, reason and ``is_optimal`` as well.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If f is not finite or has another shape, or the loss is not defined for the estimate.
    UnsupportedProblemError
        With ``exact`` for losses and sets that have no exact certificate.

    Notes
    -----
    Cost: a few passes over f, and a sort where values have upper bounds; under orders that are
    chains or trees some 10 µs per value; on other polyhedra a sparse system per trial, and a linear
    program where that proves little; the tangents of curved constraints of cvxpy, and a program for
    their cones where those prove too little. From 2,048 values on, a point off the minimum is
    compared with that of the closed form, if there is one, which takes its solve and no program.
    From 262,144 on no program is solved at all, and ``reason`` says so. Near the minimum of a
    square whose estimate is far from the set, as 10¹² is from a total of 1, a value takes some
    0.8 µs more.

    With ``AtMost`` the bound is that of the best support for least squares on the simplex, and that
    of the problem without it for other losses, which is below. A loss that is not convex is
    certified with the tangent at f in place of its concave part, and ``scope`` says so.

    Examples
    --------
    >>> import ldpopt
    >>> from ldpopt import constraints, losses
    >>> simplex = [constraints.NonNegative(), constraints.SumsTo(1.0)]
    >>> cls = ldpopt.Problem(losses.LeastSquares(), simplex)
    >>> certify(cls, [0.5, 0.2, -0.01], [0.65, 0.35, 0.0]).is_optimal(1e-6)
    False
    >>> certify(cls, [0.5, 0.25], [0.625, 0.375], exact=True).ulps
    array(0.)

    Any convex problem that cvxpy can state:

    >>> import cvxpy as cp
    >>> x = cp.Variable(2)
    >>> nearest = cp.Problem(cp.Minimize(cp.sum_squares(x - [1.0, 0.0])), [x[0] <= x[1]])
    >>> certify(nearest, {x: [0.5, 0.5]}).is_optimal(), certify(nearest, [0.5, 0.5]).is_optimal()
    (True, True)
    """
    exact = validate.flag("exact", exact)
    # By its module: cvxpy is slow to import, and who has such a problem has imported it.
    if type(problem).__module__.partition(".")[0] == "cvxpy":
        if exact:
            raise UnsupportedProblemError(
                "exact=True takes a Problem of this library, not one of cvxpy: leave it out"
            )
        return certify_program(problem, estimate)
    if not isinstance(problem, Formulation):
        raise InvalidTypeError(f"certify takes a Problem or a cvxpy.Problem first, got {problem!r}")
    if f is None and estimate is not None:
        raise InvalidTypeError("f is missing: certify(problem, estimate, f)")
    find_minimum = problem.near_minimum
    # One object for both: a loss keeps what it stated for the estimate that it was made for.
    start = problem.start_of(estimate)
    problem = problem.at(start)
    problem.accept(start)
    # Locked: multipliers are computed later.
    point = locked(validate.frequencies(in_order("f", f, start.labels)))
    if point.shape != start.frequencies.shape:
        raise InvalidInputError(
            f"f must have the estimate's shape {start.frequencies.shape}, got {point.shape}"
        )
    if exact:
        return exact_certificate(problem, start, point)
    # What overflows proves nothing, and the reason says so.
    with np.errstate(over="ignore", invalid="ignore"):
        return _certificate(problem, start, point, partial(find_minimum, start))


def _certificate(
    problem: Formulation, start: FrequencyEstimate, point: Array, find_minimum: Elsewhere
) -> Certificate:
    """Return the certificate of a point that is known to fit the problem and the estimate."""
    evidence = _evidence(problem, start, point, find_minimum)
    gap = evidence.gap
    reasons = [str(reason) for reason in evidence.reason.ravel() if reason]
    if (gone := vanishes(problem, start, point, evidence.terms)).any():
        gap = np.where(gone, np.inf, gap)
        reasons = ["products of slopes and frequencies vanish below the smallest doubles: state "
                   "the loss in another unit"]  # fmt: skip
    lowest = point.min(axis=-1)
    largest = point.max(axis=-1)
    measure = partial(scale_of, problem, start, point, evidence.terms)
    # The value of a loss takes as long as its gap: where it is finite for sure, it can wait.
    if not _is_finite(problem.loss, start, point, lowest, largest):
        value = problem.loss.value(point, start)
        measure = partial(scale_of, problem, start, point, evidence.terms, value)
        # Outside its domain a loss is infinite, and its gradient means nothing there.
        defined = np.isfinite(value)
        gap = np.where(defined, gap, np.inf)
        if not defined.all():
            reasons = [why_infinite(problem.loss, start, point)]
    return Certificate(
        gap=gap,
        violation=problem.violation(point),
        size=_size(problem, start, np.maximum(largest, -lowest)),
        reason=next(iter(reasons), ""),
        scope=problem.loss.scope,
        is_quick=_is_quick(problem, point),
        find_multipliers=partial(_multipliers, problem, start, point, evidence),
        find_scale=measure,
    )


def why_infinite(loss: Loss, start: FrequencyEstimate, point: Array) -> str:
    """Return why the loss of a point is not finite: where its slopes are, only its size is."""
    if np.isfinite(loss.gradient(point, start)).all():
        return "the loss is beyond the largest double at the point: state it in a larger unit"
    return "the loss is infinite at the point"


def _size(problem: Formulation, start: FrequencyEstimate, largest: Array) -> Array:
    """Return what violations are relative to, given the largest |f_v| of each trial."""
    # The set's numbers count up to 1: no look at them is needed for larger frequencies.
    is_large = bool((largest >= 1).all())
    return largest if is_large else np.maximum(largest, problem.size(start))


def vanishes(
    problem: Formulation, start: FrequencyEstimate, point: Array, terms: Array
) -> NDArray[np.bool_]:
    """Return where the largest slope times the largest frequency is lost, though neither is 0.

    ``terms`` is Σ |g_v f_v|, beside which nothing is lost where it is a usual number.
    """
    if not terms.min() < VANISHING:
        return np.zeros(terms.shape, dtype=np.bool_)
    steepest = largest_size(problem.loss.gradient(point, start))
    return (terms < VANISHING) & is_lost(steepest, largest_size(point))


def _is_finite(
    loss: Loss, start: FrequencyEstimate, point: Array, lowest: Array, largest: Array
) -> bool:
    """Return whether a loss is surely finite at a point, by what it states of its domain.

    Only sums over values state the whole of it. Near its ends rounding decides.
    """
    if loss.separable is not None and loss.separable.is_divergence and loss.is_settled:
        support = loss.support(start)
        # Nothing is negative, and nothing is positive where it must be 0.
        return bool(np.all(lowest >= 0) and (support is None or np.all((point == 0) | support)))
    if not loss.adds_over_values or not loss.is_settled or loss.nonnegative_domain:
        return False
    first, last = domain_of(loss, start)
    return bool(np.all(lowest > first + at_end(first)) and np.all(largest < last - at_end(last)))


def _multipliers(
    problem: Formulation, start: FrequencyEstimate, point: Array, evidence: Evidence
) -> Multipliers:
    """Return what a certificate computes when it is read."""
    d = point.shape[-1]
    region = problem.region(d)
    with np.errstate(over="ignore", invalid="ignore"):
        explanation = evidence.explain()
    return Multipliers(
        explanation.stationarity,
        explanation.complementarity,
        explanation.sum_multiplier,
        explanation.bound_multipliers,
        explanation.row_multipliers,
        active=(point - region.lower <= box.NEAR) | (region.upper - point <= box.NEAR),
        find_duals=partial(duals.by_name, problem, start, explanation),
    )


def _evidence(
    problem: Formulation, start: FrequencyEstimate, point: Array, find_minimum: Elsewhere
) -> Evidence:
    """Return gap and multipliers by the way that the set allows."""
    if problem.has_convex_set:
        return _convex_evidence(problem, start, point, find_minimum)
    relaxed = Formulation(problem.loss, problem.convex_constraints)
    evidence = _convex_evidence(relaxed, start, point, find_minimum)
    gap = few_values.best_of_all_supports(problem, start, point)
    if gap is None:
        return evidence
    explain = partial(few_values.explanation, problem, start, point)
    return _with_smaller_gap(evidence, SizedGap(gap, evidence.terms))._replace(explain=explain)


def _convex_evidence(
    problem: Formulation, start: FrequencyEstimate, point: Array, find_minimum: Elsewhere
) -> Evidence:
    """Return gap and multipliers on a convex set."""
    evidence = _evidence_of_slopes(problem, start, point, find_minimum)
    # What is further off the minimum than it promises is so beside any origin.
    is_near = evidence.gap <= _PROMISED * evidence.terms
    is_lost = is_near & (evidence.gap > 0) & is_far(problem, point, evidence.terms)
    equations = equations_of(problem, start.d) if is_lost.any() else None
    if equations is None:
        return evidence
    gap = np.full(evidence.gap.shape, np.inf)
    far = start[is_lost]
    points = point[is_lost]
    if box.applies(problem, start.d):
        prices = -evidence.explain().sum_multiplier[is_lost][:, None]
        at_once = max(_AT_ONCE // start.d, 1)
        parts = [slice(first, first + at_once) for first in range(0, len(points), at_once)]
        gap[is_lost] = np.concatenate(
            [
                _gaps_from_origin(problem, far[part], points[part], equations, prices[part])
                for part in parts
            ]
        )
    else:
        # Programs take one trial after the other.
        gap[is_lost] = [
            _gaps_from_origin(problem, *one, equations, None)
            for one in zip(far, points, strict=True)
        ]
    return _with_smaller_gap(evidence, SizedGap(gap, evidence.terms))


def _gaps_from_origin(
    problem: Formulation,
    start: FrequencyEstimate,
    f: Array,
    equations: Equations,
    prices: Array | None,
) -> Array:
    """Return the gaps of trials by the loss without what the set's equations pay for."""
    other = restated(problem, start, f, equations, prices)
    shifted = problem.with_loss(other.loss)
    # Programs of long vectors may take minutes.
    proof: Evidence | SizedGap | None
    if _is_quick(problem, f):
        proof = _evidence_of_slopes(shifted, start, f, _nowhere)
    else:
        proof = gap_at_hand(shifted, start, f)
    if proof is None:
        return np.full(f.shape[:-1], np.inf)
    # The excess may have any sign, and cancel the gap.
    gap = proof.gap
    rounding = 2 * EPS * (gap + np.abs(other.excess))
    return np.maximum(gap + other.excess + rounding, 0.0)


def _nowhere() -> None:
    """Return no minimum to go by."""


def _is_quick(problem: Formulation, point: Array) -> bool:
    """Return whether multipliers take no more than a few looks at the values."""
    return point.size <= _LONG_FOR_ROWS or box.applies(problem, point.shape[-1])


def _evidence_of_slopes(
    problem: Formulation, start: FrequencyEstimate, point: Array, find_minimum: Elsewhere
) -> Evidence:
    """Return gap and multipliers on a convex set, by the slopes that the loss computes."""
    # On boxes no program is needed, and all trials are certified at once.
    if box.applies(problem, start.d):
        return _box_evidence(problem, start, point, find_minimum)
    is_long = start.d >= _LONG_FOR_ROWS
    is_stack = point.ndim > 1
    by_program = _SPARES_PROGRAMS if is_stack else polyhedron.SUFFICIENT
    if is_long:
        by_program = _PROMISED * _share_at_stake(problem, start, point)
    quick = pooled_gap(problem, start, point)
    # Where a row may hold is plain; in a ball only a cone program would know better.
    has_rows = quick is not None
    if quick is None:
        quick = ball_gap(problem, start, point)
        if quick is None:
            quick = own_ball_gap(problem, start, point, _PROMISED)
    # The multipliers take a while: for who reads them.
    in_ball = quick is not None and not has_rows
    explain_by = _explained_in_ball if in_ball else _explained_by_rows
    explain = partial(explain_by, problem, start, point, by_program)
    if quick is None:
        terms = terms_of(problem, start, point)
        quick = SizedGap(np.full(terms.shape, np.inf), terms)
    at_hand = Evidence(quick.gap, quick.terms, np.full(quick.gap.shape, ""), explain)
    # A short vector gets the better of both, unless rounding is all that they differ by.
    is_worth_rows = has_rows and not is_stack and not is_long
    sufficient = _SPARES_PROGRAMS if is_stack and not is_long else _PROMISED
    if is_worth_rows:
        sufficient = ROUNDING
    # An infinite gap is for the rows, which know the reason.
    is_known = np.isfinite(quick.gap)
    is_enough = np.all(is_known & (quick.gap <= sufficient * quick.terms))
    # Terms may vanish at a minimum; the rest of what a promise is relative to takes two more looks.
    if not is_enough and sufficient == _PROMISED:
        scale = scale_of(problem, start, point, quick.terms)
        is_enough = np.all(is_known & (quick.gap <= _PROMISED * scale))
    if is_worth_rows and not is_enough and _has_auxiliary_variables(problem, start.d):
        open_terms = _terms_of_open_values(problem, start, point)
        is_enough = np.all(is_known & (quick.gap <= _SPARES_PROGRAMS * open_terms))
    if is_enough:
        return at_hand
    if is_long:
        by_way = _by_way_of_minimum(problem, start, point, at_hand, find_minimum)
        if by_way is not None:
            return by_way
    evidence = _by_programs(problem, start, point, by_program)
    return _with_smaller_gap(evidence, quick)


def _by_programs(
    problem: Formulation, start: FrequencyEstimate, point: Array, sufficient: float
) -> Evidence:
    """Return evidence of any set, by a second search where the first one proves too little.

    Cone solvers with looser tolerances may end nearer to the answer. So the search that decides a
    status is tried too: what it proves is known here as well.
    """
    evidence = polyhedron.evidence(problem, start, point, sufficient)
    promised = _PROMISED * _share_at_stake(problem, start, point)
    is_enough = evidence.gap <= promised * evidence.terms
    if np.all(is_enough) or promised <= sufficient or not _takes_cones(problem, start.d):
        return evidence
    return _with_smaller_gap(evidence, polyhedron.evidence(problem, start, point, promised))


def _has_auxiliary_variables(problem: Formulation, d: int) -> bool:
    """Return whether the rows of a constraint have further variables, as absolute values do."""
    kept = [kept_rows(one, d) for one in problem.region(d).tied]
    return any(rows is not None and rows.auxiliary is not None for rows in kept)


def _terms_of_open_values(problem: Formulation, start: FrequencyEstimate, point: Array) -> Array:
    """Return Σ |g_v f_v| of the values that may be more than one number.

    The slopes of the others, which may be of any size, would hide what is left of these.
    """
    region = problem.region(start.d)
    slope = problem.loss.gradient(point, start)
    return absolute_sum(np.where(region.lower < region.upper, slope, 0.0), point)


def _takes_cones(problem: Formulation, d: int) -> bool:
    """Return whether programs have more than rows: the others end alike, whatever is sufficient."""
    has_kinks = problem.loss.smooth_part is not problem.loss
    return has_kinks or any(kept_rows(one, d) is None for one in problem.region(d).tied)


def _share_at_stake(problem: Formulation, start: FrequencyEstimate, point: Array) -> float:
    """Return ``share_at_stake`` of a point; 1 where kinks give programs other terms."""
    if problem.loss.smooth_part is not problem.loss:
        return 1.0
    terms = terms_of(problem, start, point)
    return share_at_stake(scale_of(problem, start, point, terms), terms)


def _by_way_of_minimum(
    problem: Formulation,
    start: FrequencyEstimate,
    point: Array,
    at_hand: Evidence,
    find_minimum: Elsewhere,
) -> Evidence | None:
    """Return evidence by way of a minimum that is found without a program.

    None is returned where there is no such way, or its point is not proved: programs may do better
    then. Where it is proved they cannot, since they know no lower loss either.
    """
    if not problem.loss.convex:
        return None
    other = find_minimum()
    detour = None if other is None else gap_by_way_of(problem, start, point, other)
    if detour is None:
        return None
    scale = scale_of(problem, start, point, at_hand.terms)
    gap = np.minimum(at_hand.gap, detour.gap)
    # NaN, of a loss that is infinite at the point, is no measure, and neither is what overflows. Of
    # an infinite gap the rows know the reason.
    is_known = np.isfinite(scale) & np.isfinite(gap)
    if not np.all(is_known & (detour.of_other <= _PROMISED * scale)):
        return None
    is_off = gap > _PROMISED * scale
    reason = np.where(is_off, "a point of lower loss is known, which proves most of the gap", "")
    return at_hand._replace(gap=gap, reason=reason)


def _box_evidence(
    problem: Formulation, start: FrequencyEstimate, point: Array, find_minimum: Elsewhere
) -> Evidence:
    """Return gap and multipliers on a box with at most one total."""
    evidence = box.evidence(problem, start, point)
    # Slopes of kinks that values share are chosen one function after the other: several of them in
    # one sum may take a program.
    if problem.is_separate(start.d) or np.all(evidence.gap <= _PROMISED * evidence.terms):
        return evidence
    # Without constraints all slopes vanish at a minimum, and with them the terms.
    if np.all(evidence.gap <= _PROMISED * scale_of(problem, start, point, evidence.terms)):
        return evidence
    sufficient = polyhedron.SUFFICIENT
    if start.d >= _LONG_FOR_ROWS:
        by_way = _by_way_of_minimum(problem, start, point, evidence, find_minimum)
        if by_way is not None:
            return by_way
        sufficient = _PROMISED * _share_at_stake(problem, start, point)
    further = _by_programs(problem, start, point, sufficient)
    # Where a program proves nothing, these multipliers are those to show.
    better, other = (evidence, further) if np.isinf(further.gap).any() else (further, evidence)
    return _with_smaller_gap(better, other)


def _with_smaller_gap(evidence: Evidence, other: Evidence | SizedGap) -> Evidence:
    """Return evidence with the gap of another one where that is smaller."""
    gap = np.minimum(other.gap, evidence.gap)
    reason = np.where(other.gap < evidence.gap, "", evidence.reason)
    return evidence._replace(gap=gap, reason=reason)


def _explained_by_rows(
    problem: Formulation, start: FrequencyEstimate, point: Array, sufficient: float
) -> Explanation:
    """Return the multipliers of all rows, by a system or a program per trial."""
    return polyhedron.evidence(problem, start, point, sufficient).explain()


def _explained_in_ball(
    problem: Formulation, start: FrequencyEstimate, point: Array, sufficient: float
) -> Explanation:
    """Return the multipliers at hand, or of a cone program where these explain too little.

    That of a long vector would take minutes to hours.
    """
    at_hand = ball_explanation(problem, start, point)
    if at_hand is None:
        at_hand = own_ball_explanation(problem, start, point)
    if at_hand is None:
        return _explained_by_rows(problem, start, point, sufficient)
    failure = at_hand.failure(problem.loss.gradient(point, start), point)
    if start.d >= _LONG_FOR_ROWS or np.all(failure <= UNEXPLAINED):
        return at_hand
    return _explained_by_rows(problem, start, point, sufficient)


def scale_of(
    problem: Formulation,
    start: FrequencyEstimate,
    point: Array,
    terms: Array,
    value: Array | None = None,
) -> Array:
    """Return ``Certificate.scale`` of a point from Σ |g_v f_v|, and the loss there if it is known.

    Nothing of it has a unit of its own: a loss in other units has the same status.
    """
    with np.errstate(all="ignore"):
        if value is None:
            value = problem.loss.value(point, start)
        size = np.abs(value - problem.loss.offset(start))
        scale = size + terms + at_stake(problem.loss, start, point, value) + SMALLEST_SCALE
        # A sum of numbers that is beyond the largest double is no less than that.
        are_numbers = np.isfinite(size) & np.isfinite(terms)
        scale = np.where(are_numbers, np.minimum(scale, _LARGEST_DOUBLE), scale)
        # Beside slopes that are lost a gap means nothing, however large the loss itself is.
        return np.where(vanishes(problem, start, point, terms), SMALLEST_SCALE, scale)


def at_stake(loss: Loss, start: FrequencyEstimate, point: Array, value: Array) -> Array:
    """Return |L(f) - L(0)| from L(f): |L(f) - L(f/2)| where L(0) is infinite, 0 where both are."""
    with np.errstate(all="ignore"):
        other = loss.value(np.zeros(point.shape), start)
        is_known = np.isfinite(other)
        # A loss that ends at 0, as the logarithm does, has nothing to compare with there.
        if not is_known.all():
            other = np.where(is_known, other, loss.value(point / 2, start))
        return np.where(np.isfinite(other), np.abs(value - other), 0.0)


def share_at_stake(scale: Array, terms: Array) -> float:
    """Return by how much scales exceed Σ |g_v f_v|, the smallest of all trials; 1 if it is unknown.

    A search for multipliers counts in units of these terms, and a promise in those of scales.
    """
    is_known = np.isfinite(scale) & (terms > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.where(is_known, scale / terms, 1.0)
    return min(max(float(shares.min()), 1.0), _LARGEST_SHARE)


def terms_of(problem: Formulation, start: FrequencyEstimate, point: Array) -> Array:
    """Return Σ |g_v f_v|."""
    return absolute_sum(problem.loss.gradient(point, start), point)

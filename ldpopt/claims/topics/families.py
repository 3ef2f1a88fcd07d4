"""Claims that families of problems have closed forms: orders, groups, balls, variation, margins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt import closed_form
from ldpopt.claims.engine.claim import Finding, Verdict, claim
from ldpopt.claims.engine.instances import Instance, InstanceSet
from ldpopt.claims.engine.tolerances import GAP
from ldpopt.constraints import (
    Bounds,
    Constraint,
    GroupTotals,
    Margins,
    Monotone,
    Near,
    NonNegative,
    SumsTo,
    Unimodal,
)
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import BinomialMLE, GaussianMLE, LeastSquares, Loss, TotalVariation
from ldpopt.solve.certificate import certify
from ldpopt.solve.problem import Problem

TITLE = "Families of problems that have a closed form each"
ORDER = 21

Array = NDArray[np.float64]
Rival = Callable[[FrequencyEstimate], Array]

_D = 32  # of the instances: enough for groups, tables and blocks, and certified in milliseconds
# A certificate of a price on variation takes a solver's multipliers, which are right to this.
_OF_PROGRAM = 1e-9
_SIMPLEX: list[Constraint] = [NonNegative(), SumsTo(1.0)]


class _Member(NamedTuple):
    """A problem of a family, and a formula that looks right and is not."""

    problem: Problem
    rival: Rival


def _starts(instances: Sequence[Instance]) -> list[FrequencyEstimate]:
    # One vector of each: its families are what differs here, not its noise.
    chosen = [instance.estimate for instance in instances if instance.estimate.d == _D]
    return [estimate[0] for estimate in chosen]


def _certified(
    members: Sequence[_Member], instances: InstanceSet, tolerance: float = GAP
) -> Finding:
    """Return whether all closed forms are certified, and all rivals refused somewhere.

    A rival that no certificate refuses would show that the check cannot fail. It counts where it
    meets the constraints and is refused for its loss: a violation needs no certificate.
    """
    gap = 0.0
    violation = 0.0
    by_path = 0
    refused = [0] * len(members)
    starts = _starts(instances.random)
    for number, (problem, rival) in enumerate(members):
        for start in starts:
            # Without the judgement of solve, which would certify each answer twice.
            certificate = certify(problem, start, problem.minimise(start))
            by_path += problem.plan(start).path == "closed-form"
            gap = max(gap, float(certificate.gap / certificate.scale))
            violation = max(violation, float(certificate.violation))
            point = rival(start)
            judged = certify(problem, start, point)
            is_inside = float(judged.violation) <= GAP
            refused[number] += is_inside and not judged.is_optimal(tolerance, relative=True)
    count = len(members) * len(starts)
    return Finding(
        holds=gap <= tolerance and violation <= GAP and by_path == count and min(refused) > 0,
        instances=count,
        evidence={
            "problems": len(members),
            "largest certified gap, relative": gap,
            "largest violation": violation,
            "closed forms evaluated": by_path,
            "vectors on which the other formula's loss is refused, of the problem with fewest": min(
                refused
            ),
        },
    )


# --- orders ---------------------------------------------------------------------------------------


@claim(
    "pool-first",
    "from the KKT conditions",
    "If a loss is Σ Φ(f_v) - y_v θ(f_v) with θ increasing, the solution under an order, common "
    "bounds and a total is the solution without the order for the isotonic regression of y.",
    Verdict.PROVED,
    theorems=(
        "pooled_data_have_the_ordered_solution",
        "clipped_isotonic_regression_is_ordered_least_squares",
    ),
)
def pool_first(instances: InstanceSet) -> Finding:
    """Certify pooling before the rest for three losses under a peak and a chain, with caps.

    Red if a gap or violation exceeds GAP, or if pooling after the rest is refused nowhere.
    """
    caps = [*_SIMPLEX, Bounds(0.0, 6.0 / _D)]
    orders: list[Constraint] = [Unimodal(_D // 3), Monotone(np.arange(_D))]
    losses: list[Loss] = [LeastSquares(), BinomialMLE(), GaussianMLE()]
    members = []
    for loss in losses:
        for order in orders:
            without = Problem(loss, caps)
            members.append(_Member(Problem(loss, [*caps, order]), _pooled_last(without, order)))
    return _certified(members, instances)


def _pooled_last(without: Problem, order: Constraint) -> Rival:
    isotonic = order.isotonic(_D)
    assert isotonic is not None
    # The order imposed on the solution, instead of on its data.
    return lambda start: isotonic.project(without.minimise(start))


@claim(
    "pool-in-the-root",
    "from the KKT conditions",
    "With bounds of each value, a chain or forest and a total, values are pooled between their "
    "bounds inside the root of the total's multiplier.",
    Verdict.HOLDS,
)
def pool_in_the_root(instances: InstanceSet) -> Finding:
    """Certify least squares and the weighted likelihood on a chain and a tree with bounds.

    Red if a gap or violation exceeds GAP, or if pooling before the bounds is refused nowhere.
    """
    # Lower for every third value, so that blocks are cut.
    upper = np.where(np.arange(_D) % 3 == 0, 2.0 / _D, 10.0 / _D)
    bounds = [Bounds(np.zeros(_D), upper), SumsTo(1.0)]
    # A binary tree: node v has the parent (v - 1)/2, rounded down.
    children = np.arange(1, _D)
    orders = [Monotone(np.arange(_D)), Monotone(np.stack([(children - 1) // 2, children], axis=1))]
    members = []
    for loss in (LeastSquares(), GaussianMLE()):
        for order in orders:
            without = Problem(loss, bounds)
            members.append(_Member(Problem(loss, [*bounds, order]), _pooled_last(without, order)))
    return _certified(members, instances)


# --- groups, balls, variation, margins ------------------------------------------------------------


@claim(
    "group-roots",
    "from the KKT conditions",
    "With totals of disjoint groups, any separable loss on bounds is solved by one root per group.",
    Verdict.HOLDS,
)
def group_roots(instances: InstanceSet) -> Finding:
    """Certify two likelihoods on capped values with totals of three groups.

    Red if a gap or violation exceeds GAP, or if one root for all values, scaled to the totals of
    the groups, is refused nowhere.
    """
    groups = np.array_split(np.arange(_D), 3)
    totals = np.array([0.5, 0.3, 0.2])
    # A scaled group stays below the caps, so that the rival is refused for its loss alone.
    caps = [NonNegative(), Bounds(0.0, 0.4)]
    members = []
    for loss in (BinomialMLE(), GaussianMLE()):
        without = Problem(loss, [*caps, SumsTo(1.0)])
        problem = Problem(loss, [*caps, GroupTotals(groups, totals)])
        members.append(_Member(problem, _scaled(without, groups, totals)))
    return _certified(members, instances)


def _scaled(without: Problem, groups: Sequence[NDArray[np.int64]], totals: Array) -> Rival:
    def rival(start: FrequencyEstimate) -> Array:
        f = without.minimise(start).copy()
        for group, total in zip(groups, totals, strict=True):
            mass = f[group].sum()
            f[group] = f[group] * (total / mass) if mass > 0 else total / len(group)
        return f

    return rival


@claim(
    "balls",
    "from the KKT conditions",
    "Least squares on the simplex within a ball around a reference is the root of the ball's "
    "multiplier, in the 1-norm, weighted or not, the 2-norm and the Kullback-Leibler divergence.",
    Verdict.HOLDS,
)
def balls(instances: InstanceSet) -> Finding:
    """Certify the roots for four balls around the uniform distribution.

    Red if a gap or violation exceeds GAP, or if the step from Norm-Sub straight towards the
    reference is refused nowhere.
    """
    reference = np.full(_D, 1 / _D)
    members = []
    shapes = [
        Near(reference, 0.2, 1),
        Near(reference, 0.2, 1, weights=np.linspace(0.5, 2.0, _D)),
        Near(reference, 0.05, 2),
        Near(reference, 0.05, "kl"),
    ]
    for ball in shapes:
        members.append(_Member(Problem(LeastSquares(), [*_SIMPLEX, ball]), _straight(ball)))
    return _certified(members, instances)


def _straight(ball: Near) -> Rival:
    def rival(start: FrequencyEstimate) -> Array:
        step = closed_form.norm_sub(start.frequencies) - ball.reference
        low = 0.0
        high = 1.0
        # The longest step that stays in the ball.
        for _ in range(60):
            middle = (low + high) / 2
            is_inside = float(ball.violation(ball.reference + middle * step)) == 0
            low, high = (middle, high) if is_inside else (low, middle)
        return np.asarray(ball.reference + low * step)

    return rival


@claim(
    "variation-first",
    "from the KKT conditions",
    "With a price on total variation along a chain, least squares on the simplex is Norm-Sub of "
    "the fused lasso.",
    Verdict.HOLDS,
)
def variation_first(instances: InstanceSet) -> Finding:
    """Certify Norm-Sub of the fused lasso at two prices.

    Red if a gap exceeds 1e-9, which multipliers of a solver reach, or a violation GAP, or if the
    fused lasso of Norm-Sub is refused nowhere.
    """
    members = []
    for price in (0.1 / _D, 1.0 / _D):
        problem = Problem(LeastSquares() + price * TotalVariation(), _SIMPLEX)
        members.append(_Member(problem, _fused_last(price)))
    return _certified(members, instances, _OF_PROGRAM)


def _fused_last(price: float) -> Rival:
    return lambda start: closed_form.fused(closed_form.norm_sub(start.frequencies), price)


@claim(
    "margins",
    "from the KKT conditions",
    "With known margins of a table and no inequality, least squares is the estimate plus one "
    "effect per row and column.",
    Verdict.HOLDS,
)
def margins(instances: InstanceSet) -> Finding:
    """Certify the equations' solution for tables of 8 rows and 4 columns.

    Red if a gap or violation exceeds GAP, or if the proportional fit, which keeps products in place
    of sums of effects, is refused nowhere.
    """
    shape = (_D // 4, 4)
    rows = np.full(shape[0], 1 / shape[0])
    columns = np.array([0.4, 0.3, 0.2, 0.1])
    sums = [Margins(shape, 0, rows), Margins(shape, 1, columns)]
    return _certified([_Member(Problem(LeastSquares(), sums), _proportional)], instances)


def _proportional(start: FrequencyEstimate) -> Array:
    """Return the table of products of the margins: it has them, and nothing of the estimate."""
    columns = np.array([0.4, 0.3, 0.2, 0.1])
    return np.outer(np.full(_D // 4, 4 / _D), columns).ravel()

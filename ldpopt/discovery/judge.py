"""The judge of compositions: feasibility and a reference solution first, then the certificate."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.errors import LdpoptError, LdpoptWarning
from ldpopt.estimate import FrequencyEstimate
from ldpopt.solve.acceptance import size_of
from ldpopt.solve.certificate import certify
from ldpopt.solve.formulation import Formulation
from ldpopt.solve.problem import Problem

Array = NDArray[np.float64]

TOLERANCE = 1e-9
"""Largest relative gap and largest violation of a form, on every input."""

# Reference points of solvers may be outside by as much as their tolerance, and then below the
# minimum: only what is above them by a thousand times more is refuted by them.
_CLEAR = 1e-6

# Inputs that are certified at a time: a wrong form that has come so far mostly fails at the first.
_BATCH = 20


class Screen(NamedTuple):
    """Some inputs with reference solutions, to which compositions are compared first.

    Attributes
    ----------
    problem
        The problem.
    estimates
        The inputs, shape (inputs, d).
    loss, scale
        The loss of the reference solutions, and what a difference is relative to, (inputs,).
    """

    problem: Formulation
    estimates: FrequencyEstimate
    loss: Array
    scale: Array


class Verdict(NamedTuple):
    """What was found out about one point per input, each of shape (inputs,).

    Attributes
    ----------
    gap
        A bound of L(f) - min L: from below by a reference, from above by a certificate.
    violation
        The largest violation of a constraint.
    is_right
        Whether the point may be optimal, or is.
    """

    gap: Array
    violation: Array
    is_right: NDArray[np.bool_]


def references(
    problem: Formulation, estimates: FrequencyEstimate
) -> tuple[Array, NDArray[np.bool_]]:
    """Return the problem's solutions, and for which inputs there is one.

    Raises
    ------
    LdpoptError
        If there is none for any input: the error of the first.
    """
    solver = Problem(problem.loss, problem.constraints)
    points = np.full(estimates.frequencies.shape, np.nan)
    error: LdpoptError | None = None
    with warnings.catch_warnings():
        # An inaccurate reference refutes less, and says nothing about a composition.
        warnings.simplefilter("ignore", LdpoptWarning)
        for i in range(len(points)):
            try:
                points[i] = solver.solve(estimates[i]).frequencies
            except LdpoptError as reason:
                error = error or reason
    is_solved = np.asarray(np.isfinite(points).all(axis=-1))
    if error is not None and not is_solved.any():
        raise error
    return points, is_solved


def screen_of(problem: Formulation, estimates: FrequencyEstimate, points: Array) -> Screen:
    """Return inputs with their solutions, none of them NaN, as a screen."""
    loss = problem.loss.value(points, estimates)
    return Screen(problem, estimates, loss, size_of(problem, estimates, points, loss))


def compared(screen: Screen, points: Array) -> list[Verdict]:
    """Return the verdict on compositions whose points have shape (compositions, inputs, d).

    A point that is feasible and not clearly worse than the reference may be optimal. The gap of
    other points is NaN, and their violation infinite where they are not defined.
    """
    violation = _violations(screen.problem, points)
    gap = np.full(violation.shape, np.nan)
    # The loss is evaluated where no input has refuted the composition: often of a few alone.
    is_feasible = violation <= TOLERANCE * np.maximum(1.0, np.abs(points).max(axis=-1))
    for i in np.flatnonzero(is_feasible.any(axis=-1)):
        value = screen.problem.loss.value(np.nan_to_num(points[i]), screen.estimates)
        gap[i] = np.where(is_feasible[i], value - screen.loss, np.nan)
    is_right = is_feasible & (gap <= _CLEAR * screen.scale)
    return [Verdict(*parts) for parts in zip(gap, violation, is_right, strict=True)]


def _violations(problem: Formulation, points: Array) -> Array:
    """Return the largest violation of each point, infinite where it is not defined."""
    violation = np.zeros(points.shape[:-1])
    defined = np.isfinite(points).all(axis=-1)
    # What is not defined fails every constraint.
    violation[~defined] = np.inf
    flat = violation.reshape(-1)
    rows = points.reshape(-1, points.shape[-1])
    for constraint in problem.constraints:
        # What is outside one constraint need not be measured by the next, which may be slow.
        left = np.flatnonzero(flat <= TOLERANCE)
        if not len(left):
            break
        flat[left] = np.maximum(flat[left], constraint.violation(rows[left]))
    return violation


def certified(
    problem: Formulation, estimates: FrequencyEstimate, points: Array
) -> tuple[Verdict, NDArray[np.bool_]]:
    """Return the certificates' verdict on points of shape (inputs, d), and which do not count.

    An input without a solution does not count. Batches after one with a wrong point are left out:
    their inputs are NaN and not right.
    """
    number = len(points)
    gap = np.full(number, np.nan)
    violation = np.full(number, np.nan)
    is_right = np.zeros(number, dtype=np.bool_)
    is_rejected = np.zeros(number, dtype=np.bool_)
    for first in range(0, number, _BATCH):
        chosen = slice(first, first + _BATCH)
        batch = estimates[chosen]
        certificate = certify(problem, batch, points[chosen])
        loss = problem.loss.value(points[chosen], batch)
        size = size_of(problem, batch, points[chosen], loss)
        # A gap of 0 needs no size: where nothing is at stake both are 0. An infinite loss has an
        # infinite size, but proves nothing.
        is_finite = (size > 0) & np.isfinite(size)
        without = np.where((certificate.gap > 0) | ~np.isfinite(loss), np.inf, 0.0)
        gap[chosen] = np.divide(certificate.gap, size, out=without, where=is_finite)
        violation[chosen] = certificate.violation / certificate.size
        is_right[chosen] = (gap[chosen] <= TOLERANCE) & (violation[chosen] <= TOLERANCE)
        # Of the screen alone it is known yet which inputs have a solution.
        for i in first + np.flatnonzero(~is_right[chosen]):
            is_rejected[i] = not _has_solution(problem, estimates[int(i)])
        if not (is_right | is_rejected)[chosen].all():
            break
    # What does not count is neither right nor wrong.
    gap[is_rejected] = np.nan
    violation[is_rejected] = np.nan
    return Verdict(gap, violation, is_right | is_rejected), is_rejected


def _has_solution(problem: Formulation, estimate: FrequencyEstimate) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LdpoptWarning)
            Problem(problem.loss, problem.constraints).solve(estimate)
    except LdpoptError:
        return False
    return True


def spread(kinds: Sequence[str], number: int) -> NDArray[np.int64]:
    """Return which inputs make a screen: one of each kind in turn, up to ``number``."""
    seen: dict[str, int] = {}
    # The number of an input among those of its kind: first ones come before second ones.
    turn = []
    for kind in kinds:
        seen[kind] = seen.get(kind, 0) + 1
        turn.append(seen[kind])
    return np.sort(np.argsort(turn, kind="stable")[:number]).astype(np.int64)

"""The judge of compositions: feasibility and a reference solution first, then the certificate."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.errors import LdpoptError, LdpoptWarning
from ldpopt.estimate import FrequencyEstimate
from ldpopt.solve.acceptance.judge import size_of
from ldpopt.solve.certificate import certify
from ldpopt.solve.certificate.certificate import at_stake, terms_of
from ldpopt.solve.formulation import Formulation
from ldpopt.solve.problem import Problem

Array = NDArray[np.float64]

TOLERANCE = 1e-9
"""Largest relative gap and largest violation of a form, on every input."""

# Reference points of solvers may be outside by as much as their tolerance, and then below the
# minimum: only what is above them by a thousand times more is refuted by them.
_CLEAR = 1e-6

# Of the largest estimate, below which the values of a point are too small to be told apart.
_NEGLIGIBLE = 1e-6

# Inputs that are certified at a time: a wrong form that has come so far mostly fails at the first.
_BATCH = 20


class Solutions:
    """The solutions of a problem by its usual path, each computed once.

    A search asks for that of an input again whenever it begins again, and whenever a certificate
    fails.

    Parameters
    ----------
    problem
        The problem, at a moment.
    """

    def __init__(self, problem: Formulation) -> None:
        self.problem = problem
        self._solver = Problem(problem.loss, problem.constraints)
        self._answers: dict[tuple[bytes, bool | None], Array | LdpoptError] = {}

    def of(self, estimates: FrequencyEstimate) -> tuple[Array, NDArray[np.bool_]]:
        """Return the solutions of a stack, NaN for inputs that have none, and which have one.

        Raises
        ------
        LdpoptError
            If no input has one: the error of the first.
        """
        answers = [self._of_one(estimates[i]) for i in range(len(estimates.frequencies))]
        errors = [answer for answer in answers if isinstance(answer, LdpoptError)]
        if errors and len(errors) == len(answers):
            raise errors[0]
        points = np.full((len(answers), estimates.d), np.nan)
        for point, answer in zip(points, answers, strict=True):
            if not isinstance(answer, LdpoptError):
                point[:] = answer
        return points, np.isfinite(points).all(axis=-1)

    def has(self, estimate: FrequencyEstimate) -> bool:
        """Return whether there is a solution for one vector."""
        return not isinstance(self._of_one(estimate), LdpoptError)

    def _of_one(self, estimate: FrequencyEstimate) -> Array | LdpoptError:
        # The inputs of one search differ in nothing else: noise and protocol are the same.
        key = (estimate.frequencies.tobytes(), estimate.is_raw)
        if key not in self._answers:
            self._answers[key] = self._solved(estimate)
        return self._answers[key]

    def _solved(self, estimate: FrequencyEstimate) -> Array | LdpoptError:
        with warnings.catch_warnings():
            # An inaccurate reference refutes less, and says nothing about a composition.
            warnings.simplefilter("ignore", LdpoptWarning)
            try:
                return self._solver.solve(estimate).frequencies
            except LdpoptError as error:
                return error


class Screen(NamedTuple):
    """Some inputs with reference solutions, to which compositions are compared first.

    Attributes
    ----------
    solutions
        The solutions of the problem.
    estimates
        The inputs, shape (inputs, d).
    loss, scale
        The loss of the reference solutions, and what a difference is relative to, (inputs,).
    """

    solutions: Solutions
    estimates: FrequencyEstimate
    loss: Array
    scale: Array

    @property
    def problem(self) -> Formulation:
        """The problem."""
        return self.solutions.problem


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


def screen_of(solutions: Solutions, estimates: FrequencyEstimate, points: Array) -> Screen:
    """Return inputs with their solutions, none of them NaN, as a screen."""
    problem = solutions.problem
    loss = problem.loss.value(points, estimates)
    return Screen(solutions, estimates, loss, size_of(problem, estimates, points, loss))


def compared(screen: Screen, points: Array) -> list[Verdict]:
    """Return the verdict on compositions whose points have shape (compositions, inputs, d).

    A point that is feasible and not clearly worse than the reference may be optimal. The gap of
    other points is NaN, and their violation infinite where they are not defined.
    """
    allowed = TOLERANCE * _size(points, screen.estimates.frequencies)
    violation = _violations(screen.problem, points, allowed)
    gap = np.full(violation.shape, np.nan)
    # The loss is evaluated where no input has refuted the composition: often of a few alone.
    is_feasible = violation <= allowed
    for i in np.flatnonzero(is_feasible.any(axis=-1)):
        value = screen.problem.loss.value(np.nan_to_num(points[i]), screen.estimates)
        gap[i] = np.where(is_feasible[i], value - screen.loss, np.nan)
    is_right = is_feasible & (gap <= _CLEAR * screen.scale)
    return [Verdict(*parts) for parts in zip(gap, violation, is_right, strict=True)]


def _size(points: Array, estimates: Array) -> Array:
    """Return what violations are relative to: the largest value of a point, shape (..., inputs).

    Where it is far below the estimate's, rounding of the estimate is all that could be seen. A
    total of 1e-9 must not let everything pass that is smaller than a tolerance of a frequency.
    """
    largest = np.abs(points).max(axis=-1)
    return np.asarray(np.maximum(largest, _NEGLIGIBLE * np.abs(estimates).max(axis=-1)))


def _scale_of(problem: Formulation, estimates: FrequencyEstimate, points: Array) -> Array:
    """Return what a certified gap is relative to: Σ |g_v f_v| and what is at stake, |L(f) - L(0)|.

    Without |L(f)|, which a status counts too: a likelihood of very private reports is nearly
    constant, and beside its value every feasible point would be optimal.
    """
    terms = terms_of(problem, estimates, points)
    value = problem.loss.value(points, estimates)
    return np.asarray(terms + at_stake(problem.loss, estimates, points, value))


def _violations(problem: Formulation, points: Array, allowed: Array) -> Array:
    """Return the largest violation of each point, infinite where it is not defined.

    Constraints behind one that is violated by more than what is allowed are not looked at.
    """
    violation = np.zeros(points.shape[:-1])
    defined = np.isfinite(points).all(axis=-1)
    # What is not defined fails every constraint.
    violation[~defined] = np.inf
    flat = violation.reshape(-1)
    rows = points.reshape(-1, points.shape[-1])
    for constraint in problem.constraints:
        # What is outside one constraint need not be measured by the next, which may be slow.
        left = np.flatnonzero(flat <= allowed.reshape(-1))
        if not len(left):
            break
        flat[left] = np.maximum(flat[left], constraint.violation(rows[left]))
    return violation


def certified(
    solutions: Solutions, estimates: FrequencyEstimate, points: Array
) -> tuple[Verdict, NDArray[np.bool_]]:
    """Return the certificates' verdict on points of shape (inputs, d), and which do not count.

    An input without a solution does not count. Batches after one with a wrong point are left out:
    their inputs are NaN and not right.
    """
    problem = solutions.problem
    number = len(points)
    gap = np.full(number, np.nan)
    violation = np.full(number, np.nan)
    is_right = np.zeros(number, dtype=np.bool_)
    is_rejected = np.zeros(number, dtype=np.bool_)
    for first in range(0, number, _BATCH):
        chosen = slice(first, first + _BATCH)
        batch = estimates[chosen]
        candidates = points[chosen]
        certificate = certify(problem, batch, candidates)
        loss = problem.loss.value(candidates, batch)
        size = _scale_of(problem, batch, candidates)
        # A gap of 0 needs no size: where nothing is at stake both are 0. An infinite loss has an
        # infinite size, but proves nothing.
        is_finite = (size > 0) & np.isfinite(size)
        without_size = np.where((certificate.gap > 0) | ~np.isfinite(loss), np.inf, 0.0)
        gap[chosen] = np.divide(certificate.gap, size, out=without_size, where=is_finite)
        # The same of the violation, whose size is that of the values.
        extent = _size(candidates, batch.frequencies)
        without_size = np.where(certificate.violation > 0, np.inf, 0.0)
        violation[chosen] = np.divide(
            certificate.violation, extent, out=without_size, where=extent > 0
        )
        is_right[chosen] = (gap[chosen] <= TOLERANCE) & (violation[chosen] <= TOLERANCE)
        # Of the screen alone it is known yet which inputs have a solution.
        for i in first + np.flatnonzero(~is_right[chosen]):
            is_rejected[i] = not solutions.has(estimates[int(i)])
        if not (is_right | is_rejected)[chosen].all():
            break
    # What does not count is neither right nor wrong.
    gap[is_rejected] = np.nan
    violation[is_rejected] = np.nan
    return Verdict(gap, violation, is_right | is_rejected), is_rejected


def spread(kinds: Sequence[str], number: int) -> NDArray[np.int64]:
    """Return which inputs make a screen: one of each kind in turn, up to ``number``."""
    seen: dict[str, int] = {}
    # The number of an input among those of its kind: first ones come before second ones.
    turn = []
    for kind in kinds:
        seen[kind] = seen.get(kind, 0) + 1
        turn.append(seen[kind])
    return np.sort(np.argsort(turn, kind="stable")[:number]).astype(np.int64)

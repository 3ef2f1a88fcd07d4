"""Algorithms that step towards a solution, and know from the gap when they have arrived."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ldpopt import validate
from ldpopt.constraints import NonNegative, SumsTo
from ldpopt.errors import InvalidInputError, LdpoptWarning
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import PerReportMLE
from ldpopt.priors.mixture_weights import mixture_weights
from ldpopt.solve.certificate import certify
from ldpopt.solve.paths.conic import Accuracy, Status

if TYPE_CHECKING:
    from ldpopt.solve.problem import Problem

Array = NDArray[np.float64]
Algorithm = Callable[
    ["Problem", FrequencyEstimate, Accuracy, dict[str, Any]], tuple[Array, Status, int]
]

GAPS: dict[str, float] = {"low": 1e-4, "default": 1e-6, "high": 1e-10}
"""Gap at which an algorithm stops, by the accuracy asked for."""

_TANGENTS = (
    200  # convex-concave steps: a handful suffice unless the normaliser outweighs the distance
)
_IDLE = 1e-13  # fall of the loss, relative, that is a solver's rounding rather than a step


def find(problem: Problem) -> dict[str, Algorithm]:
    """Return the algorithms for a problem by name, the best first; none for most problems."""
    if not problem.loss.convex:
        return {"convex-concave": convex_concave}
    if isinstance(problem.loss, PerReportMLE) and {type(c) for c in problem.constraints} == {
        NonNegative,
        SumsTo,
    }:
        return {
            "accelerated": partial(_mixture, method="accelerated"),
            "em": partial(_mixture, method="em"),
        }
    return {}


def _mixture(
    problem: Problem,
    start: FrequencyEstimate,
    accuracy: Accuracy,
    options: dict[str, Any],
    *,
    method: str,
) -> tuple[Array, Status, int]:
    """Return the mixture weights of the reports, with the total that is asked for."""
    assert isinstance(problem.loss, PerReportMLE)  # find() asks for it
    assert problem.total is not None
    assert start.n == problem.loss.n  # the loss has checked that they are its reports
    if problem.total == 0:
        raise InvalidInputError(
            "with SumsTo(0) every report is impossible: the likelihood needs a positive total"
        )
    unknown = sorted(set(options) - {"max_steps", "progress"})
    if unknown:
        raise validate.unknown_name(f"option of {method}", unknown[0], ("max_steps", "progress"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LdpoptWarning)  # the status says it
        fit = mixture_weights(problem.loss.channel, method=method, tol=GAPS[accuracy], **options)
    return (
        problem.total * fit.weights,
        Status.OPTIMAL if fit.converged else Status.INACCURATE,
        fit.steps,
    )


def convex_concave(
    problem: Problem, start: FrequencyEstimate, accuracy: Accuracy, options: dict[str, Any]
) -> tuple[Array, Status, int]:
    """Return a stationary point of a loss that is not convex, how it ended, and the number of steps.

    Every step minimises the loss with the tangent of its concave part (Yuille, Rangarajan 2003), so the loss never rises. It
    ends when the gap of the next step is that of the accuracy, at a point that its own convex problem cannot improve, or when
    a step neither lowers the loss nor halves the gap, which is the solver's accuracy. The first tangent is that of equal
    frequencies.

    Parameters
    ----------
    options
        Of ``Problem.solve`` for every step: ``solver`` and its options.
    """
    f = np.full(start.frequencies.shape, 1 / start.d)
    stage = type(problem)(problem.loss.majorant(f, start), problem.constraints)
    before = gap_before = np.full(f.shape[:-1], np.inf)
    for step in range(1, _TANGENTS + 1):
        found = stage.solve(start, accuracy=accuracy, **options)
        f = found.frequencies
        value, gap = problem.loss.value(f, start), certify(problem, start, f).gap
        idle = (before - value <= _IDLE * (1 + np.abs(value))) & (gap >= gap_before / 2)
        if np.all(idle | (gap <= GAPS[accuracy])):
            return f, found.status, step
        before, gap_before = value, gap
        stage.loss = problem.loss.majorant(
            f, start
        )  # what was compiled stays: the tangent is a parameter
    return f, Status.INACCURATE, _TANGENTS

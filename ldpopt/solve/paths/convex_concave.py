"""Losses that are not convex, by steps of the convex-concave procedure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ldpopt import validate
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import Loss
from ldpopt.solve.certificate import certify
from ldpopt.solve.formulation import Formulation
from ldpopt.solve.plan import Outcome
from ldpopt.solve.status import ACCURACIES, Accuracy, Status

NAME = "convex-concave"

# A handful of steps suffices unless the concave part outweighs the convex one.
MAX_STEPS = 200

OPTIONS = ("max_steps", "tol")
"""What ``Problem.solve`` passes on: the number of steps and the gap at which to stop."""

# Fall of the loss, relative, that is a solver's rounding rather than a step.
STALL_RTOL = 1e-13


def solve_by_steps(
    formulation: Formulation,
    start: FrequencyEstimate,
    accuracy: Accuracy,
    solve_stage: Callable[[Loss], Outcome],
    options: Mapping[str, Any],
) -> Outcome:
    """Return a stationary point of a loss that is the sum of a convex and a concave one.

    Every step minimises the loss with the tangent of its concave part in place of that part
    (Yuille, Rangarajan 2003), so the loss never rises. The steps end when the gap of the next one
    is that of the accuracy, at a point that its own convex problem cannot improve, or when a step
    neither lowers the loss nor halves the gap, which is the accuracy of the stage's solver. The
    first tangent is that of equal frequencies.

    Parameters
    ----------
    formulation
        The problem, whose loss has a ``majorant``.
    start
        An estimate that the problem accepts.
    accuracy
        Names the gap at which the steps end: ``Tolerances.stop``.
    solve_stage
        From a convex loss to its minimiser under the same constraints.
    options
        ``max_steps``, by default 200, and ``tol``, by default the gap of the accuracy.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If an option has no valid value.
    """
    max_steps = validate.integer("max_steps", options.get("max_steps", MAX_STEPS), minimum=1)
    tol = validate.real("tol", options.get("tol", ACCURACIES[accuracy].stop), above=0)
    loss = formulation.loss
    f = np.full(start.frequencies.shape, 1 / start.d)
    value_before = np.full(f.shape[:-1], np.inf)
    gap_before = np.full(f.shape[:-1], np.inf)
    compile_seconds = 0.0
    solver_seconds = 0.0
    status = Status.INACCURATE
    for step in range(1, max_steps + 1):  # noqa: B007 - the number of steps is returned
        stage = solve_stage(loss.majorant(f, start))
        f = stage.frequencies
        compile_seconds += stage.compile_seconds
        solver_seconds += stage.solver_seconds
        value = loss.value(f, start)
        gap = certify(formulation, start, f).gap
        fall = value_before - value
        has_not_fallen = fall <= STALL_RTOL * (1 + np.abs(value))
        stalled = has_not_fallen & (gap >= gap_before / 2)
        # Trials are solved as one stack, which goes on until the last of them is done: a further
        # step does not raise the loss of the others.
        if np.all(stalled | (gap <= tol)):
            status = stage.status
            break
        value_before = value
        gap_before = gap
    return Outcome(f, status, compile_seconds, solver_seconds, step)

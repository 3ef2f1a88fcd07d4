"""Likelihoods of reports on the simplex: their maximiser is the weights of a mixture."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from ldpopt.errors import InvalidInputError, LdpoptWarning
from ldpopt.estimate import FrequencyEstimate
from ldpopt.priors.mixture_weights import mixture_weights
from ldpopt.solve.formulation import Formulation
from ldpopt.solve.plan import Outcome
from ldpopt.solve.status import ACCURACIES, Accuracy, Status

ALGORITHMS = ("accelerated", "em")
"""The algorithms of ``priors.mixture_weights``, the faster one first."""

OPTIONS = ("max_steps", "progress", "tol")
"""What ``Problem.solve`` passes on to them."""


def applies(formulation: Formulation, d: int) -> bool:
    """Return whether the loss is -mean log(W f) and the set is the simplex."""
    region = formulation.region(d)
    is_simplex = (
        region.is_box
        and region.total is not None
        and not region.lower.any()
        and bool(np.isposinf(region.upper).all())
    )
    return is_simplex and formulation.loss.channel is not None


def solve_mixture(
    formulation: Formulation,
    start: FrequencyEstimate,
    algorithm: str,
    accuracy: Accuracy,
    options: Mapping[str, Any],
) -> Outcome:
    """Return the mixture weights of the reports, scaled to the total of the constraints.

    Parameters
    ----------
    formulation
        A problem for which ``applies`` is true.
    start
        An estimate that the problem accepts.
    algorithm
        One of ``ALGORITHMS``.
    accuracy
        Names the gap at which the algorithm stops: ``Tolerances.stop``.
    options
        Values of ``OPTIONS``, as ``priors.mixture_weights`` takes them.

    Raises
    ------
    InvalidInputError
        If the total is 0, which makes every report impossible, or an option has no valid value.
    """
    total = formulation.region(start.d).total
    channel = formulation.loss.channel
    assert total is not None  # applies
    assert channel is not None  # applies
    if total == 0:
        raise InvalidInputError(
            "with SumsTo(0) every report is impossible: the likelihood needs a positive total"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LdpoptWarning)  # Problem.solve warns of what it returns
        stopping: dict[str, Any] = {"tol": ACCURACIES[accuracy].stop, **options}
        weights = formulation.loss.channel_weights
        fit = mixture_weights(channel, weights, method=algorithm, **stopping)
    status = Status.OPTIMAL if fit.converged else Status.INACCURATE
    # -mean log(W f) only changes by a constant when f is scaled: the best weights of sum 1 are
    # scaled.
    return Outcome(total * fit.weights, status, steps=fit.steps)

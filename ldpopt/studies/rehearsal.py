"""A rehearsal on one draw: errors in users' functions and problems show before the run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ldpopt.datasets import Dataset
from ldpopt.errors import FunctionError, InvalidInputError, LdpoptError, MethodError, users_code
from ldpopt.estimate import FrequencyEstimate
from ldpopt.methods import METHODS
from ldpopt.oracles.base import FrequencyOracle
from ldpopt.solve.composition import Composition
from ldpopt.studies.engine.candidate import Candidate
from ldpopt.studies.engine.measures import Measure, Setting


def rehearse(
    candidates: Sequence[Candidate],
    measures: Sequence[Measure],
    data: Dataset,
    oracle: FrequencyOracle,
    seed: int,
) -> None:
    """Raise the errors of candidates and metrics on one simulated collection; solve no problem.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a function returns another shape or numbers that are not finite, or changes its input; if
        a problem does not fit the data, or a metric returns no number.
    FunctionError
        If a function raises an error of its own.
    """
    rng = np.random.default_rng(seed)
    # With the study's own sizes: many mistakes show only for the right number of values.
    counts = oracle.simulate_counts(data.counts, rng, trials=1)
    raw = oracle.estimate(counts, data.n, labels=data.labels)
    setting = Setting(data, oracle, tuple(candidates))
    for measure in measures:
        # The raw estimate stands for an answer: metrics see its shape, and no candidate has to run.
        measure.start(setting)(raw, {candidates[0].name: raw}, rng)
    for candidate in candidates:
        _rehearse_candidate(candidate, raw[0])


def _rehearse_candidate(candidate: Candidate, raw: FrequencyEstimate) -> None:
    """Call a user's function once, or plan a user's problem without solving it."""
    # Later steps get what the first one returns.
    method, options = candidate.steps[0]
    # The library's own methods need no rehearsal.
    if METHODS.get(method.name) is method:
        return
    problem = method.problem
    if problem is None:
        try:
            with users_code(f"the candidate {candidate.name!r}"):
                method.solve(raw, **dict(options))
        except (FunctionError, MethodError):
            raise
        except LdpoptError:
            # It may have no answer for this draw, as Norm-Mul without a positive estimate.
            return
    elif not isinstance(problem, Composition):
        try:
            # A plan looks at every constraint, and costs no solve.
            plan = problem.plan(raw)
        except LdpoptError as error:
            raise type(error)(f"the candidate {candidate.name!r}: {error}") from None
        if plan.path is None:
            raise InvalidInputError(f"the candidate {candidate.name!r}: {plan.reason}")

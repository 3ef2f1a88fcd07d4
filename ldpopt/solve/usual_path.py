"""The path that a problem takes for a usual estimate, for those who look at the problem alone."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ldpopt.errors import LdpoptError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.oracles import GRR, OUE
from ldpopt.solve.formulation import Formulation
from ldpopt.solve.planner import Planner, Request

_USERS = 10_000
_VALUES = 16  # of an estimate, unless the problem is made for another number


def usual_path(problem: Formulation, planner: Planner) -> str:
    """Return the path, its name and for what estimate; or that it depends on the estimate.

    Nothing is solved or compiled. A problem does not state how many values it is made for: the
    lengths of what it holds are tried.
    """
    for d in _sizes(problem):
        for make in (OUE, GRR):
            oracle = make(1.0, d)
            # The plainest estimate: which path is taken may depend on the numbers.
            uniform = np.full(d, 1 / d)
            start = FrequencyEstimate(uniform, n=_USERS, oracle=oracle, is_raw=True)
            try:
                stated = problem.at(start)
                plan = planner.plan(stated, stated.accept(start), Request())
            except LdpoptError:
                continue
            if plan.path is None:
                return f"no path: {plan.verdict}"
            return f"{plan.path}, {plan.name} (a raw estimate of {d:,} values by {make.__name__})"
    return "depends on the estimate: problem.explain(estimate)"


def _sizes(problem: Formulation) -> Iterator[int]:
    """Yield numbers of values that the problem may be made for, the likeliest first."""
    sizes = {_VALUES: None}
    for part in (problem.loss, *problem.constraints):
        for value in vars(part).values():
            # Of matrices the columns are the values, and so are the entries of vectors.
            shape = getattr(value, "shape", ())
            if shape and shape[-1] >= 2:
                sizes[int(shape[-1])] = None
    yield from sizes

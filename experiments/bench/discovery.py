"""Twenty problems whose answer is known: ten with a form, six of them not in the library.

The other ten have a solution that no composition of the operators is: each is refuted by an input.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from experiments.bench.row import Row
from ldpopt import Problem, discover, losses
from ldpopt import constraints as c
from ldpopt.solve.formulation import Formulation

D = 12
"""The number of values of all targets."""

LIMITS = {2: 5.0, 3: 60.0}
"""Seconds by the length of compositions."""


class Target(NamedTuple):
    """A problem and its form, empty where no composition is one."""

    problem: Formulation
    expression: str
    in_library: bool = False


_ORDER = np.arange(D)
_HALVES = [np.arange(D // 2), np.arange(D // 2, D)]
_TOTALS = [0.7, 0.3]
_SIMPLEX = (c.NonNegative(), c.SumsTo(1.0))
_CAPPED = (c.Bounds(0.0, 0.2), c.SumsTo(1.0))
_GROUPS = (c.NonNegative(), c.GroupTotals(_HALVES, _TOTALS))
_UNIFORM = np.full(D, 1 / D)


def _differences(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the matrix of the rows f[first] - f[second]."""
    return np.eye(D)[first] - np.eye(D)[second]


_PAIRS = c.Linear(_differences(_ORDER[::2], _ORDER[1::2]), 0.0, 0.0)
# Falling within each half, and free between them.
_WITHIN = c.Monotone(
    np.array([[v, v + 1] for v in range(D - 1) if v != D // 2 - 1]),
)
_MIRRORED = c.Custom(lambda f: [f[v] == f[D - 1 - v] for v in range(D // 2)], name="Mirrored")
_STATED_SQUARES = losses.Custom(lambda f, y: _squares(f - y) / 2, name="squares")


def _squares(expression: Any) -> Any:
    import cvxpy as cp  # slow to import

    return cp.sum_squares(expression)


TARGETS = {
    "squares, order": Target(
        Problem(losses.LeastSquares(), [*_SIMPLEX, c.Monotone(_ORDER)]), "pool -> level", True
    ),
    "binomial, unimodal, caps": Target(
        Problem(losses.BinomialMLE(), [*_CAPPED, c.Unimodal(4)]), "pool -> binomial root", True
    ),
    "weighted MLE, order": Target(
        Problem(losses.GaussianMLE(), [*_SIMPLEX, c.Monotone(_ORDER)]),
        "pool in the loss's mean -> weighted root",
        True,
    ),
    "KL, order": Target(
        Problem(losses.KullbackLeibler(), [*_SIMPLEX, c.Monotone(_ORDER)]),
        "pool in the loss's mean -> scale",
        True,
    ),
    "squares, groups, orders within": Target(
        Problem(losses.LeastSquares(), [*_GROUPS, _WITHIN]), "pool -> level by group"
    ),
    "binomial, groups, orders within": Target(
        Problem(losses.BinomialMLE(), [*_GROUPS, _WITHIN]), "pool -> binomial root by group"
    ),
    "binomial, equal pairs": Target(
        Problem(losses.BinomialMLE(), [*_SIMPLEX, _PAIRS]), "mean of ties -> binomial root"
    ),
    "KL, equal pairs": Target(
        Problem(losses.KullbackLeibler(), [*_SIMPLEX, _PAIRS]),
        "mean of ties in the loss's mean -> scale",
    ),
    "squares, mirrored by cvxpy": Target(
        Problem(losses.LeastSquares(), [*_SIMPLEX, _MIRRORED]), "mean of ties -> level"
    ),
    "squares by cvxpy, order": Target(
        Problem(_STATED_SQUARES, [*_SIMPLEX, c.Monotone(_ORDER)]), "pool -> level"
    ),
    "squares, variation": Target(
        Problem(losses.LeastSquares(), [*_SIMPLEX, c.Smooth(total_variation=0.2)]), "", True
    ),
    "squares, groups across an order": Target(
        Problem(losses.LeastSquares(), [*_GROUPS, c.Monotone(_ORDER)]), ""
    ),
    "weighted squares, order": Target(
        Problem(
            losses.WeightedLeastSquares(np.arange(1.0, D + 1)), [*_SIMPLEX, c.Monotone(_ORDER)]
        ),
        "",
        True,
    ),
    "squares, ball": Target(
        Problem(losses.LeastSquares(), [*_SIMPLEX, c.Near(_UNIFORM, 0.2, 2)]), "", True
    ),
    "squares, one row": Target(
        Problem(
            losses.LeastSquares(),
            [*_SIMPLEX, c.Linear(np.eye(1, D) - 2 * np.eye(1, D, 1), -0.05, 0.05)],
        ),
        "",
        True,
    ),
    "binomial, order, caps of each": Target(
        Problem(
            losses.BinomialMLE(),
            [c.Bounds(0.0, np.linspace(0.1, 0.4, D)), c.SumsTo(1.0), c.Monotone(_ORDER)],
        ),
        "",
        True,
    ),
    "squares, two margins": Target(
        Problem(
            losses.LeastSquares(),
            [
                c.NonNegative(),
                c.Margins((3, 4), 0, [0.5, 0.3, 0.2]),
                c.Margins((3, 4), 1, [0.4, 0.3, 0.2, 0.1]),
            ],
        ),
        "",
        True,
    ),
    "absolute values, order": Target(
        Problem(losses.LeastAbsolute(), [*_SIMPLEX, c.Monotone(_ORDER)]), "", True
    ),
    "squares, variation as a price": Target(
        Problem(losses.LeastSquares() + 0.1 * losses.TotalVariation(), _SIMPLEX), "", True
    ),
    "binomial, near pairs": Target(
        Problem(
            losses.BinomialMLE(),
            [*_SIMPLEX, c.Linear(_differences(_ORDER[:3], _ORDER[3:6]), -0.1, 0.1)],
        ),
        "",
    ),
}
"""The targets by name."""


def run(settings: Mapping[str, Any]) -> list[Row]:
    """Return the time of each search; a wrong answer is an error."""
    rows = []
    for length in settings["lengths"]:
        for name, target in TARGETS.items():
            began = time.perf_counter()
            form = discover(target.problem, D, length=length, inputs=settings["inputs"], again=True)
            seconds = time.perf_counter() - began
            if form.expression != target.expression:
                raise ValueError(
                    f"{name}: {form.expression or 'no form'} in place of "
                    f"{target.expression or 'no form'}"
                )
            rows.append(
                Row(
                    what=f"{name}, up to {length}",
                    seconds=seconds,
                    measure="seconds",
                    target=LIMITS[length],
                    detail=f"{form.expression or 'no form'}, {form.evidence.tried:,} tried",
                )
            )
    return rows

"""The simplest input at which a composition fails: fewest values, and fewest digits."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.discovery.compositions import Composition, composed, expression_of
from ldpopt.discovery.form import Refuted
from ldpopt.discovery.judge import Screen, compared, screen_of
from ldpopt.discovery.setting import Setting
from ldpopt.errors import LdpoptError

Array = NDArray[np.float64]

# Digits behind the point that simpler inputs have.
_DECIMALS = (1, 2)
# Vectors are simplified by setting all but so many of their largest values to 0.
_KEPT = (1, 2, 3, 4)


class Trial(NamedTuple):
    """What compositions are tried on.

    Attributes
    ----------
    screen, kinds, places
        Inputs with references, their kinds, and their places among all inputs.
    setting
        The parameters of the operators.
    """

    screen: Screen
    kinds: tuple[str, ...]
    places: NDArray[np.int64]
    setting: Setting


def refutation(operators: Composition, trial: Trial) -> Refuted | None:
    """Return where a composition fails, as simple as it is found; None if it does not fail."""
    points = composed(operators, trial.screen.estimates.frequencies, trial.setting)
    verdict = compared(trial.screen, points[None])[0]
    wrong = np.flatnonzero(~verdict.is_right)
    if not len(wrong):
        return None
    vectors = trial.screen.estimates.frequencies
    worst = int(min(wrong, key=lambda i: complexity(vectors[i])))
    refuted = Refuted(
        expression=expression_of(operators),
        frequencies=vectors[worst],
        kind=trial.kinds[worst],
        gap=float(verdict.gap[worst]),
        violation=float(verdict.violation[worst]),
        right=int(verdict.is_right.sum()),
        compared=len(verdict.is_right),
    )
    return _simplified(refuted, operators, trial)


def complexity(vector: Array) -> tuple[int, int, float]:
    """Return how hard a vector is to check by hand: values that are not 0, digits, size."""
    # Six decimals: simulated estimates have many, and all count the same.
    digits = sum(len(f"{value:.6f}".rstrip("0").partition(".")[2]) for value in vector)
    return int(np.count_nonzero(vector)), digits, float(np.abs(vector).sum())


def _simplified(refuted: Refuted, operators: Composition, trial: Trial) -> Refuted:
    """Return the failure at a simpler vector made from this one, if there is such a one."""
    vectors = _simpler(refuted.frequencies)
    if not len(vectors):
        return refuted
    estimates = trial.setting.estimate(np.stack(vectors))
    try:
        points, is_solved = trial.screen.solutions.of(estimates)
    except LdpoptError:
        # No simpler vector has a solution: the input itself is the counterexample.
        return refuted
    solved = np.flatnonzero(is_solved)
    estimates = trial.setting.estimate(np.stack([vectors[i] for i in solved]))
    screen = screen_of(trial.screen.solutions, estimates, points[solved])
    tried = composed(operators, estimates.frequencies, trial.setting)
    verdict = compared(screen, tried[None])[0]
    # They are sorted: the first failure is the simplest one.
    wrong = np.flatnonzero(~verdict.is_right)
    if not len(wrong):
        return refuted
    i = int(wrong[0])
    return replace(
        refuted,
        frequencies=vectors[solved[i]],
        gap=float(verdict.gap[i]),
        violation=float(verdict.violation[i]),
    )


def _simpler(vector: Array) -> list[Array]:
    """Return vectors with fewer values and digits than this one, the simplest first."""
    order = np.argsort(-np.abs(vector), kind="stable")
    simpler: dict[bytes, Array] = {}
    # The largest values are kept: they are what mostly breaks a form.
    for kept in (*_KEPT, len(vector)):
        for decimals in _DECIMALS:
            values = np.zeros(len(vector))
            values[order[:kept]] = np.round(vector[order[:kept]], decimals) + 0.0
            if complexity(values) < complexity(vector):
                simpler.setdefault(values.tobytes(), values)
    return sorted(simpler.values(), key=complexity)

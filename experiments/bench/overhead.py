"""What the road around a closed form costs: accepting an estimate, planning, judging the point."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

import ldpopt
from experiments.bench import populations
from experiments.bench.row import Row
from experiments.bench.timing import measure
from ldpopt import FrequencyEstimate, closed_form
from ldpopt.solve.problem import Problem

# Checks of a short vector may take a few times as long as a closed form, which takes 30 µs itself.
# On long vectors the gradient needs fresh memory, whose price depends on the machine's load.
TARGET = 4.0

# Seconds of one vector of _USUAL values, from the estimate to the answer.
TARGET_SECONDS = 40e-6
_USUAL = 1024

_CALLS = 20  # per measurement of a short vector, whose calls are shorter than a clock's jitter
_SHORT = 10_000

FORMS: dict[str, Callable[[FrequencyEstimate], Any]] = {
    "norm": lambda estimate: closed_form.norm(estimate.frequencies),
    "norm-sub": lambda estimate: closed_form.norm_sub(estimate.frequencies),
    "mle-apx": lambda estimate: closed_form.mle_apx(estimate.frequencies, estimate.noise.kappa),
}


def run(settings: Mapping[str, Any]) -> list[Row]:
    """Return ``postprocess`` and ``Problem.solve`` beside the bare closed form, for every size."""
    rows = []
    for d in settings["d"]:
        rng = np.random.default_rng(d)
        estimate = populations.oue_estimate(d, settings["n"], settings["epsilon"], rng)
        for name, form in FORMS.items():
            problem = ldpopt.METHODS[name].problem
            assert isinstance(problem, Problem)
            roads = {
                "postprocess": partial(ldpopt.postprocess, estimate, name),
                "Problem.solve": partial(problem.solve, estimate),
            }
            bare = _seconds(partial(form, estimate), d, settings["repeats"])
            for road, call in roads.items():
                seconds = _seconds(call, d, settings["repeats"])
                if d == _USUAL and road == "postprocess":
                    what = f"one vector, {name}, d = {d:,}"
                    rows.append(Row(what, seconds, "seconds", target=TARGET_SECONDS))
                rows.append(
                    Row(
                        what=f"{road}, {name}, d = {d:,}",
                        seconds=seconds,
                        measure="cost",
                        against="the bare closed form",
                        against_seconds=bare,
                        # No check is as short as norm itself, five microseconds.
                        target=TARGET if d <= _SHORT and name != "norm" else None,
                    )
                )
    return rows


def _seconds(call: Callable[[], Any], d: int, repeats: int) -> float:
    """Return the seconds of one call, the fastest of the repeats."""
    calls = _CALLS if d <= _SHORT else 1

    def several() -> None:
        for _ in range(calls):
            call()

    return measure(several, repeats=repeats).best / calls

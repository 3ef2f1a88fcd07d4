"""What is done to an estimate under each name of the figures: one method, or several in a row."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import ldpopt
from ldpopt import METHODS, FrequencyEstimate
from ldpopt.errors import LdpoptWarning

Step = tuple[str, tuple[tuple[str, Any], ...]]
_SIGNIFICANT: Step = ("base-zero", (("beta", 0.05),))  # K Eq. 22


@dataclass(frozen=True)
class Treatment:
    """A name of the figures: its label, and the steps of ``postprocess`` that it stands for."""

    label: str
    steps: tuple[Step, ...]


TREATMENTS: dict[str, Treatment] = {
    **{name: Treatment(method.label, ((name, ()),)) for name, method in METHODS.items()},
    # By its definition and not as the method of this name, so that it shares Power's work.
    "power-ns": Treatment("PowerNS", (("power", ()), ("norm-sub", ()))),
    "oue": Treatment("OUE", (("base", ()),)),
    "oue-zero": Treatment("OUE-Zero", (_SIGNIFICANT,)),
    "oue-calibrate": Treatment("OUE-Calibrate", (("power", ()),)),
    "oue-calibrate-zero": Treatment("OUE-Calibrate, then zero", (("power", ()), _SIGNIFICANT)),
}


def apply(
    names: Iterable[str], raw: FrequencyEstimate, seconds: dict[str, float]
) -> dict[str, FrequencyEstimate]:
    """Return the raw estimate after each treatment; common first steps are taken once.

    The time of each treatment is added to ``seconds``; a shared step counts for each treatment that
    shares it.
    """
    # By the steps and not by the name: two names may begin alike.
    done: dict[tuple[Step, ...], tuple[FrequencyEstimate, float]] = {(): (raw, 0.0)}
    result = {}
    for name in names:
        steps = TREATMENTS[name].steps
        # From the shortest beginning on: PowerNS finds what Power has computed already.
        for end in range(1, len(steps) + 1):
            if steps[:end] in done:
                continue
            before, spent = done[steps[: end - 1]]
            start = time.perf_counter()
            method, options = steps[end - 1]
            with warnings.catch_warnings():
                # K cuts Calibrate's output at the noise of raw estimates, knowing that it has less.
                warnings.filterwarnings("ignore", "the noise level is that of raw", LdpoptWarning)
                after = ldpopt.postprocess(before, method, **dict(options))
            done[steps[:end]] = after, spent + time.perf_counter() - start
        result[name], spent = done[steps]
        seconds[name] = seconds.get(name, 0.0) + spent
    return result

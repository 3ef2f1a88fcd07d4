"""What is done to an estimate under each name of the figures: one method, or several in a row."""

from __future__ import annotations

from typing import Any

from ldpopt import METHODS
from ldpopt.studies.engine.candidate import Candidate, Step


def _step(method: str, **options: Any) -> Step:
    return METHODS[method], tuple(options.items())


_SIGNIFICANT = _step("base-zero", beta=0.05)  # K Eq. 22

_ALL = (
    *(Candidate.of(name) for name in METHODS if name != "power-ns"),
    # By its definition and not as the method of this name, so that it shares Power's work.
    Candidate("power-ns", "PowerNS", (_step("power"), _step("norm-sub"))),
    Candidate("oue", "OUE", (_step("base"),)),
    Candidate("oue-zero", "OUE-Zero", (_SIGNIFICANT,)),
    Candidate("oue-calibrate", "OUE-Calibrate", (_step("power"),)),
    Candidate("oue-calibrate-zero", "OUE-Calibrate, then zero", (_step("power"), _SIGNIFICANT)),
)

TREATMENTS: dict[str, Candidate] = {candidate.name: candidate for candidate in _ALL}

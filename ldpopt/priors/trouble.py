"""Warnings of priors, shown where ldpopt was called and not where it noticed."""

from __future__ import annotations

import sys
import warnings

from ldpopt.errors import LdpoptWarning
from ldpopt.estimate import FrequencyEstimate


def warn(message: str) -> None:
    """Warn at the first line outside the package."""
    level, frame = 1, sys._getframe()
    while (
        frame.f_back is not None
        and frame.f_globals.get("__name__", "").partition(".")[0] == "ldpopt"
    ):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, LdpoptWarning, stacklevel=level)


def expect_raw(estimate: FrequencyEstimate) -> None:
    """Warn where the noise level is about to be used of frequencies that no longer have that noise."""
    # The vector of post-pos is the raw one, and a shift by one number leaves the noise as it is.
    if estimate.method not in ("base", "post-pos", "norm"):
        warn(
            f"this uses the noise level of raw estimates, and frequencies by {estimate.method!r} have another noise: start from "
            "the raw estimate (estimate.raw after postprocess)"
        )

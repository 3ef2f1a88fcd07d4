"""Warnings of fits, shown where ldpopt was called and not where it noticed."""

from __future__ import annotations

import sys
import warnings

from ldpopt.errors import LdpoptWarning


def warn(message: str) -> None:
    """Warn at the first line outside the package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "ldpopt":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, LdpoptWarning, stacklevel=level)

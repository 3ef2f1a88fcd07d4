"""Names that options take, for help and for the completion of shells."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from ldpopt.oracles import ORACLES

# Here and not beside the other shared parts: to import the oracles takes longer than all of these.
ORACLE_NAMES = f"One of {', '.join(ORACLES)}"


def is_problem_file(name: str) -> bool:
    """Return whether a name is that of a problem file, and not of an object of Python."""
    # Here and not beside the reading of such files, which loads pyarrow.
    return Path(name).suffix.lower() in {".toml", ".yaml", ".yml"}


def completes(names: Iterable[str]) -> Callable[[str], list[str]]:
    """Return the function by which a shell completes an option that takes one of some names."""
    choices = sorted(names)

    def matching(incomplete: str) -> list[str]:
        return [name for name in choices if name.startswith(incomplete)]

    return matching

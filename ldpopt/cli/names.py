"""Names that options take, for help and for the completion of shells."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ldpopt.oracles import ORACLES

# Here and not beside the other shared parts: to import the oracles takes longer than all of these.
ORACLE_NAMES = f"One of {', '.join(ORACLES)}"


def completes(names: Iterable[str]) -> Callable[[str], list[str]]:
    """Return the function by which a shell completes an option that takes one of some names."""
    choices = sorted(names)

    def matching(incomplete: str) -> list[str]:
        return [name for name in choices if name.startswith(incomplete)]

    return matching

"""The sources of single steps in each language, and which of them need each other.

They stand in files of their own language. A line ``@kernel name: others`` in a comment begins each,
and names the kernels that it calls.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

_FILES = {"c": "kernels.c", "javascript": "kernels.mjs", "numpy": "kernels_numpy.txt"}
_BEGIN = re.compile(r"^(?:/\*|//|#) @kernel ([\w ]+?)(?:: ([\w ,]+?))?(?: \*/)?\n", re.MULTILINE)


class Kernel(NamedTuple):
    """A part of generated sources, and the names of those that must stand before it."""

    needs: tuple[str, ...]
    source: str


@cache
def kernels_of(language: str) -> dict[str, Kernel]:
    """Return the kernels of a language by name, in an order in which each follows its needs."""
    text = (Path(__file__).parent / _FILES[language]).read_text("utf-8")
    kernels = {}
    starts = list(_BEGIN.finditer(text))
    ends = [match.start() for match in starts[1:]] + [len(text)]
    for match, end in zip(starts, ends, strict=True):
        needs = tuple(name.strip() for name in (match[2] or "").split(",") if name)
        kernels[match[1]] = Kernel(needs, text[match.end() : end].rstrip())
    return kernels


def sources_of(language: str, names: Iterable[str]) -> list[str]:
    """Return the sources of kernels and of all that they need, each once."""
    kernels = kernels_of(language)
    wanted: set[str] = set()
    pending = [name for name in names if name in kernels]
    while pending:
        name = pending.pop()
        if name not in wanted:
            wanted.add(name)
            pending += kernels[name].needs
    return [kernel.source for name, kernel in kernels.items() if name in wanted and kernel.source]

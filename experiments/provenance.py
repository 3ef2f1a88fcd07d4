"""What stored results follow from besides their declaration: the code, and versions of others.

Every store of the experiments keeps this with its results, and computes those of other code anew.
"""

from __future__ import annotations

import ast
import hashlib
from functools import cache
from pathlib import Path

import numpy as np

import ldpopt

_PACKAGE = Path(ldpopt.__file__).parent
_EXPERIMENTS = Path(__file__).parent

# They show or gather results of the rest, which does not import them.
APPLICATIONS = ("claims", "cli", "collection", "rendering")


def made_by(*parts: str) -> dict[str, str]:
    """Return the versions that results follow from; ``parts`` are files or folders of this package.

    Another version of numpy may draw other numbers from the same seed.
    """
    return {
        "code": code_digest(*parts),
        "ldpopt": ldpopt.__version__,
        "numpy": np.__version__,
    }


@cache
def code_digest(*parts: str) -> str:
    """Return a hash of the library's code and of parts of the experiments.

    Comments, docstrings and the layout of lines do not count: they change no result. A change
    anywhere else does, although most do not change the results at hand either: to compute too much
    costs time, to keep what is stale costs the truth.
    """
    digest = hashlib.sha256()
    library = [
        path
        for path in sorted(_PACKAGE.rglob("*.py"))
        if path.relative_to(_PACKAGE).parts[0] not in APPLICATIONS
    ]
    experiments = []
    for part in parts:
        path = _EXPERIMENTS / part
        experiments += sorted(path.rglob("*.py")) if path.is_dir() else [path]
    for path in [*library, *experiments]:
        digest.update(statements_of(path.read_text(encoding="utf-8")).encode())
    return digest.hexdigest()[:16]


def statements_of(source: str) -> str:
    """Return what a source text does, as text: its syntax tree without docstrings."""
    module = ast.parse(source)
    for node in ast.walk(module):
        body = getattr(node, "body", None)
        # The string of a lambda or of a conditional expression is no list of statements.
        if isinstance(body, list):
            node.body = [statement for statement in body if not _is_text(statement)]
    return ast.dump(module)


def _is_text(statement: ast.AST) -> bool:
    """Return whether a statement is a string by itself: a docstring, also of a constant."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)

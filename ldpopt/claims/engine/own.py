"""Claims of a user's own: a file of Python with ``@claim`` functions."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from ldpopt.claims.engine.claim import Claim
from ldpopt.errors import InvalidInputError, described


def read_claims(path: Path, taken: Iterable[str] = ()) -> dict[str, Claim]:
    """Return the claims of a file by id, in the order in which it defines them.

    The file runs, as ``python FILE`` would run it: with what lies beside it importable. Its topic
    in the report is its ``TITLE``, or its name if it states none.

    Parameters
    ----------
    path
        A file of Python.
    taken
        Ids that its claims may not have: those of the ledger that they join.

    Raises
    ------
    InvalidInputError
        If the file cannot be read or run, if it has no claim, or if an id occurs twice.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> source = '''
    ... from ldpopt.claims import Finding, claim
    ...
    ... @claim("one-is-one", "arithmetic", "1 equals 1.", "holds")
    ... def one_is_one(instances):
    ...     return Finding(holds=1 == 1, instances=1, evidence={})
    ... '''
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "my_claims.py")
    ...     _ = file.write_text(source)
    ...     claims = read_claims(file)
    >>> claims["one-is-one"].topic
    'my_claims.py'
    """
    module = _run(path)
    claims: dict[str, Claim] = {}
    for value in vars(module).values():
        # What the file imports belongs to where it comes from.
        if not isinstance(value, Claim) or value.check.__module__ != module.__name__:
            continue
        if value.id in claims or value.id in taken:
            raise InvalidInputError(
                f"{path}: there is a claim {value.id!r} already; give this one another id"
            )
        claims[value.id] = replace(value, topic=getattr(module, "TITLE", path.name))
    if not claims:
        raise InvalidInputError(
            f"{path} has no claims: decorate functions with @claim of ldpopt.claims"
        )
    return claims


def _run(path: Path) -> ModuleType:
    """Return the module that a file is, run anew."""
    if not path.exists():
        raise InvalidInputError(f"{path}: no such file of claims; check the path")
    if not path.is_file() or path.suffix != ".py":
        raise InvalidInputError(f"claims are read from a file of Python, NAME.py, got {path}")
    name = f"own_claims.{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InvalidInputError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and pickles look their module up by its name.
    sys.modules[name] = module
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    # Whatever the user's code raises: SyntaxError, ImportError, an error of a decorator, ...; and
    # sys.exit, which would end the command without a word.
    except (Exception, SystemExit) as error:
        raise InvalidInputError(f"{path} does not run: {described(error)}") from error
    return module

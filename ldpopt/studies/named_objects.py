"""Objects of the user's own modules, named on the command line as ``my_module:my_method``."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from ldpopt.errors import InvalidInputError, described
from ldpopt.validate import unknown_name


def load_object(name: str) -> Any:
    """Return what ``module:attribute`` names; the current folder is searched first.

    Raises
    ------
    InvalidInputError
        If there is no such module or attribute, or the module cannot be imported.

    Examples
    --------
    >>> load_object("ldpopt.methods:postprocess").__name__
    'postprocess'
    """
    module_name, colon, attribute = name.partition(":")
    if not colon or not module_name or not attribute:
        raise InvalidInputError(
            f"an object of your own is named as my_module:my_object, got {name!r}"
        )
    if module_name.endswith(".py"):
        raise InvalidInputError(
            f"{name!r} names a file: give the module, as {Path(module_name).stem}:{attribute}, in "
            "the folder of the file"
        )
    # A command that is installed does not search the folder in which it is called.
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        value: Any = importlib.import_module(module_name)
    # Whatever the user's code raises: SyntaxError, an error of a constructor, ...; and sys.exit,
    # which would end the command without a word.
    except (Exception, SystemExit) as error:
        # It, or the package that it is in; any other name is one that it imports.
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and f"{module_name}.".startswith(f"{missing}."):
            raise InvalidInputError(
                f"cannot import {module_name!r} ({error}): call the command in the folder of the "
                "module, or set PYTHONPATH to it"
            ) from error
        raise InvalidInputError(f"{module_name} does not run: {described(error)}") from error
    # With dots it may name a member, such as a method of a class.
    for part in attribute.split("."):
        if not hasattr(value, part):
            # For the suggestion of a similar name.
            public = [name for name in dir(value) if not name.startswith("_")]
            raise unknown_name(f"object of {module_name}", part, public)
        value = getattr(value, part)
    return value

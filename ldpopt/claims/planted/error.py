"""What a planted error is, and how a function or an attribute of the package is replaced."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Plant = Callable[[], None]


@dataclass(frozen=True)
# Errors that do not raise anything: one that does is noticed by any test.
class PlantedError:
    """An error that the ledger must notice.

    Attributes
    ----------
    id
        Unique, in lower case with hyphens.
    kind
        Which part of the package it is in.
    what
        What is wrong once it is planted.
    claims
        Claims that are known to notice it. They run first; all others follow if none of them does.
    plant
        Plants it, in this process.
    """

    id: str
    kind: str
    what: str
    claims: tuple[str, ...]
    plant: Plant = field(repr=False)


@dataclass(frozen=True)
class Sighting:
    """How the search for a planted error ended.

    Attributes
    ----------
    error
        The id of the error.
    claim
        The first claim that noticed it; empty if none did.
    how
        The verdict that the claim reached instead of the expected one, or the error that it raised.
    claims_run
        Number of claims that ran until then.
    seconds
        What that took.
    """

    error: str
    claim: str
    how: str
    claims_run: int
    seconds: float

    @property
    def is_seen(self) -> bool:
        """Whether a claim noticed the error."""
        return bool(self.claim)


def planted(identifier: str, kind: str, what: str, *claims: str) -> Callable[[Plant], PlantedError]:
    """Make a planted error of the decorated function; arguments as the attributes."""

    def make(plant: Plant) -> PlantedError:
        return PlantedError(identifier, kind, what, claims, plant)

    return make


def replace_attribute(owner: Any, name: str, replacement: Any) -> None:
    """Replace an attribute of a class or a module.

    Raises
    ------
    AttributeError
        If there is none of this name: the error would be planted where nothing looks.
    """
    # Looked up first: setattr would create what nobody calls.
    getattr(owner, name)
    setattr(owner, name, replacement)


def replace_function(function: Callable[..., Any], replacement: Callable[..., Any]) -> None:
    """Replace a function in every module of the package that has imported it.

    Raises
    ------
    LookupError
        If no module has it.
    """
    # `from x import f` copies the name, so that one assignment would not reach all callers.
    places = [
        (module, name)
        for module_name, module in list(sys.modules.items())
        # In this package alone: the same function elsewhere is not part of what is checked.
        if module_name.partition(".")[0] == "ldpopt"
        for name, value in list(vars(module).items())
        if value is function
    ]
    if not places:
        raise LookupError(f"no module of the package holds {function!r}")
    for module, name in places:
        setattr(module, name, replacement)

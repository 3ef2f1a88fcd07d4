"""All planted errors, by id."""

from __future__ import annotations

from types import ModuleType

from ldpopt.claims.planted import closed_forms, oracles, priors, proofs
from ldpopt.claims.planted.error import PlantedError


def collect(*modules: ModuleType) -> dict[str, PlantedError]:
    """Return the errors of modules by id, in their order.

    Raises
    ------
    TypeError
        If two errors have the same id.
    """
    errors: dict[str, PlantedError] = {}
    for module in modules:
        for value in vars(module).values():
            if not isinstance(value, PlantedError):
                continue
            if value.id in errors:
                raise TypeError(f"{module.__name__}: there is an error {value.id!r} already")
            errors[value.id] = value
    return errors


ERRORS: dict[str, PlantedError] = collect(closed_forms, priors, oracles, proofs)
"""What ``ldpopt verify --self-test`` plants."""

NUMBER = 68
"""How many there must be: an error that is lost would be one that nobody looks for."""

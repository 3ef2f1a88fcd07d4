"""The values that parameters take in turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt import validate
from ldpopt.errors import InvalidInputError, InvalidTypeError


def values_along(
    parameters: Sequence[Any], grids: Mapping[str, Sequence[Any] | NDArray[np.float64]]
) -> list[dict[int, Any]]:
    """Return for each step the value of each parameter, by its ``id``.

    Parameters
    ----------
    parameters
        Those of a problem.
    grids
        The values of some of them by name, as many of each.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If no parameter, or more than one, has a name, lengths differ, or a value is not one of its
        parameter.
    """
    if not grids:
        names = ", ".join(parameter.name() for parameter in parameters) or "none"
        raise InvalidInputError(
            "path takes the values of a parameter under its name, such as lam=[0.1, 1.0]; "
            f"parameters of this problem: {names}"
        )
    chosen = {name: _named(parameters, name) for name in grids}
    columns = {name: _values(name, grid) for name, grid in grids.items()}
    lengths = {name: len(column) for name, column in columns.items()}
    # A shorter list could mean its last value, or a mistake: only the user knows.
    if len(set(lengths.values())) > 1:
        stated = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise InvalidInputError(
            f"parameters of a path move together: all need as many values, got {stated}"
        )
    checked = {
        chosen[name].id: [_checked(chosen[name], value) for value in column]
        for name, column in columns.items()
    }
    # Step by step in place of parameter by parameter: the lists have one length.
    steps = zip(*checked.values(), strict=True)
    return [dict(zip(checked, step, strict=True)) for step in steps]


def _named(parameters: Sequence[Any], name: str) -> Any:
    """Return the parameter of a name."""
    matching = [parameter for parameter in parameters if parameter.name() == name]
    if not matching:
        names = [parameter.name() for parameter in parameters]
        if not names:
            raise InvalidInputError(
                f"this problem has no parameters: put Parameter({name!r}, ...) in place of a number"
            )
        raise validate.unknown_name("parameter", name, names)
    # cvxpy numbers parameters, and does not ask whether their names are unique.
    if len(matching) > 1:
        raise InvalidInputError(
            f"{len(matching)} parameters of this problem have the name {name!r}: rename all but one"
        )
    return matching[0]


def _values(name: str, grid: Any) -> list[Any]:
    """Return the values of one parameter as a list."""
    # A text is a list of letters to Python.
    if isinstance(grid, str) or not np.iterable(grid):
        raise InvalidTypeError(f"{name} must be a list of values, got {grid!r}")
    return list(grid)


def _checked(parameter: Any, value: Any) -> Any:
    """Return a value that its parameter accepts; cvxpy's own parameters check it when it is set."""
    checked = getattr(parameter, "checked", None)
    return np.asarray(value, dtype=np.float64) if checked is None else checked(value)

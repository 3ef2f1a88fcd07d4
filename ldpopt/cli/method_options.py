"""Options of methods on the command line, derived from the methods themselves."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from ldpopt.errors import InvalidInputError
from ldpopt.methods import METHODS, Method

if TYPE_CHECKING:
    from ldpopt.collection.labels import Labels

# Options that are sets of values: the command line takes a file of them, as --query does.
_SETS = {"groups"}


def with_method_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with one option for each option of any method of the table.

    The command collects those that the user gave by ``**options``, under the methods' own names.
    """
    hints = get_type_hints(command, include_extras=True)
    # Not the last, which collects them: typer has no word for it.
    stated = [
        each.replace(annotation=hints[name])
        for name, each in inspect.signature(command).parameters.items()
        if name != "options"
    ]
    derived = _derived_options()
    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        for name, kind in derived.items()
    ]

    @wraps(command)
    def run(**given: Any) -> None:
        # None, and a flag that is not set, is an option that the user did not give.
        options = {name: given.pop(name) for name in derived}
        chosen = {name: value for name, value in options.items() if value not in (None, False)}
        command(**given, **chosen)

    # Typer reads both.
    every = [*stated, *parameters]
    run.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in every}
    return run


def _derived_options() -> dict[str, Any]:
    """Return the annotation of each option of a method, by its name."""
    annotations: dict[str, Any] = {}
    for name, users in _users().items():
        method = METHODS[users[0]]
        function = method.stated or method.transform
        kind = Path if name in _SETS else get_type_hints(function)[name]
        default = method.options[name]
        # A flag's default is that it is not given; of a number, None says that too.
        hint = f"Option of {_in_words(users)}."
        if name in _SETS:
            hint = f"File of disjoint sets of values, as --query takes it. {hint}"
        if default is not None and default is not False:
            hint = f"{hint[:-1]}; {default} by default."
        flag = f"--{name.replace('_', '-')}"
        option = typer.Option(flag, help=hint, show_default=False)
        annotations[name] = Annotated[kind | None, option]
    return annotations


def _users() -> Mapping[str, list[str]]:
    """Return the names of the methods that have each option."""
    users: dict[str, list[str]] = {}
    for method in METHODS.values():
        for name in method.options:
            users.setdefault(name, []).append(method.name)
    return users


def _in_words(names: Sequence[str]) -> str:
    """Return names as a sentence lists them."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def read_method_options(options: Mapping[str, Any], labels: Labels) -> dict[str, Any]:
    """Return options as methods take them, with the sets of files in place of their names."""
    return {name: labels.sets(value) if name in _SETS else value for name, value in options.items()}


def check_method_options(method: Method, options: Mapping[str, Any]) -> None:
    """Raise an error for options that a method does not have, or whose values it refuses."""
    users = _users()
    for name in options:
        if name not in method.options:
            flag = name.replace("_", "-")
            raise InvalidInputError(
                f"{method.name} has no option --{flag}: it is one of {_in_words(users[name])}"
            )
    # What is stated is checked before any report is read.
    if method.stated is not None:
        method.stated(**options)

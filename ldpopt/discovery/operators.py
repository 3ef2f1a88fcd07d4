"""The registry of operators: those of the library, and those of users."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldpopt.discovery.operator import Operator
from ldpopt.discovery.setting import PARAMETERS, Setting
from ldpopt.discovery.standard_operators import STANDARD
from ldpopt.errors import InvalidInputError, InvalidTypeError
from ldpopt.printable import latex_text
from ldpopt.tables import lines_of
from ldpopt.validate import unknown_name

Array = NDArray[np.float64]


class Operators(Mapping[str, Operator]):
    """Operators by name, in the order in which the search tries them."""

    def __init__(self, operators: Iterable[Operator]) -> None:
        self._operators: dict[str, Operator] = {}
        for operator in operators:
            self.add(operator)

    def add(self, operator: Operator) -> None:
        """Register an operator; a name that is taken raises an error."""
        if operator.name in self._operators:
            raise InvalidInputError(
                f"there is an operator {operator.name!r} already: choose another name"
            )
        self._operators[operator.name] = operator

    def remove(self, name: str) -> None:
        """Take an operator of a user out of the registry again."""
        if name not in self._operators:
            raise unknown_name("operator", name, self._operators)
        if not self._operators[name].is_own:
            raise InvalidInputError(f"{name!r} is an operator of ldpopt: only your own are removed")
        del self._operators[name]

    def __getitem__(self, name: str) -> Operator:
        return self._operators[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._operators)

    def __len__(self) -> int:
        return len(self._operators)

    def __repr__(self) -> str:
        return f"Operators({', '.join(self)})"

    def __str__(self) -> str:
        """Return one line per operator: its name and what it does."""
        rows = [(operator.name, operator.text) for operator in self.values()]
        return "\n".join(lines_of(("operator", "what it does"), rows))


OPERATORS = Operators(STANDARD)
"""Every operator by its name: read-only but for ``register_operator``."""


def register_operator(
    name: str,
    function: Callable[..., Array],
    *,
    parameters: tuple[str, ...] = (),
    text: str = "",
    latex: str = "",
    is_idempotent: bool = False,
) -> Operator:
    """Register an operator of your own, which ``ldpopt.discover`` then tries beside the others.

    Parameters
    ----------
    name
        What expressions call it.
    function
        From values of shape (trials, d), and by keyword the parameters, to the same shape. It
        must be a function of its arguments alone, and finite for finite values.
    parameters
        What it takes from the problem, of ``discovery.PARAMETERS``. Problems that do not state all
        of them are searched without it.
    text, latex
        What it does to x, as formulas; by default its name.
    is_idempotent
        Whether applying it twice is applying it once.

    Returns
    -------
    The operator. ``OPERATORS.remove(name)`` takes it away.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the name is taken or contains "->", a parameter is unknown, or an argument has the wrong
        kind.

    Examples
    --------
    >>> import numpy as np
    >>> def halve(values, total):
    ...     return values / 2 + total / (2 * values.shape[-1])
    >>> operator = register_operator("halve", halve, parameters=("total",))
    >>> OPERATORS.remove("halve")
    """
    if not isinstance(name, str) or not name or "->" in name:
        raise InvalidTypeError(f"an operator's name must be a text without '->', got {name!r}")
    if not callable(function):
        raise InvalidTypeError(
            f"the operator {name!r} must be a function of values, got {function!r}"
        )
    for parameter in parameters:
        if parameter not in PARAMETERS:
            raise unknown_name("parameter of operators", parameter, PARAMETERS)
    operator = Operator(
        name=name,
        text=text or f"{name}(x)",
        latex=latex or rf"{latex_text(name)}\left({{x}}\right)",
        function=_Own(function, tuple(parameters)),
        parameters=tuple(parameters),
        is_idempotent=is_idempotent,
        is_own=True,
    )
    OPERATORS.add(operator)
    return operator


@dataclass(frozen=True)
class _Own:
    """A user's function with its parameters by keyword: an object that other processes can get."""

    function: Callable[..., Array]
    parameters: tuple[str, ...]

    def __call__(self, values: Array, setting: Setting) -> Array:
        return self.function(values, **setting.parameters(self.parameters))

"""What all languages of generated code share: constants, steps, and the comment in front."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.discovery.code.kernels import sources_of
from ldpopt.discovery.code.steps import Step
from ldpopt.printable import printable

Array = NDArray[Any]

# Numbers of a constant in one line.
_PER_LINE = 8

PROTOCOL = {
    "q": "q: the probability that a report supports another value",
    "p": "p: the probability that a report supports the user's value, q < p",
    "kappa": "kappa: the growth of the variance with the frequency, over that at 0, > -1",
}
"""The arguments of the protocol in their order, with what the comment says of each."""

# Kernels that take bounds, a total, an array, and the limits of one more constraint.
_WITH_LIMITS = ("row", "ball", "round ball", "divergence ball")

# Of the numbers of a step, those that count something: they are written without a point.
_COUNTS = ("k", "nodes", "groups")


class Checks(NamedTuple):
    """The lines by which generated code checks one argument of the protocol.

    Attributes
    ----------
    number
        Lines that check the number itself.
    values
        What makes each value of the estimate usable, as the language needs it.
    """

    number: tuple[str, ...]
    values: tuple[str, ...]


class Language(ABC):
    """A language in which steps are written, and the function around them.

    Parameters
    ----------
    steps
        The steps.
    name
        The name of the function.
    about
        Lines on what it computes.
    d
        The number of values that it is written for; None for any.
    """

    key: ClassVar[str]
    comment: ClassVar[tuple[str, str, str]]
    """Begin of the first line of a comment, of each line, and its end."""

    specials: ClassVar[tuple[str, str, str]]
    """Infinity, minus infinity, and not a number."""

    nothing: ClassVar[str]
    """What stands for an array that is not there."""

    length: ClassVar[str]
    """The number of values, as an expression."""

    reserved: ClassVar[frozenset[str]]
    """Words of the language and its headers, which cannot be the name of a function."""

    checks: ClassVar[Mapping[str, Checks]]
    """How the arguments of the protocol are checked: p beside q."""

    def __init__(
        self, steps: Sequence[Step], name: str, about: Sequence[str], d: int | None
    ) -> None:
        self.steps = steps
        self.name = name
        # Names of constraints are a user's: they must not end the comment.
        self.about = [printable(line).replace("*/", "* /") for line in about]
        self.d = d
        self.protocol = [
            key for key in PROTOCOL if any(key in step.protocol for step in self.steps)
        ]
        self.constants: list[str] = []

    def source(self) -> str:
        """Return the whole file."""
        # The steps first: writing them states the constants.
        body = [self.step(number, step) for number, step in enumerate(self.steps, start=1)]
        names = [name for step in self.steps for name in step.kernels]
        kernels = sources_of(self.key, names)
        function = self.function("\n".join(body))
        parts = [self.head(), *kernels, *self.constants, function]
        written = [part.strip("\n") for part in parts if part]
        return "\n\n".join(written) + "\n"

    def head_comment(self) -> str:
        """Return the comment at the top."""
        begin, middle, end = self.comment
        lines = [*self.about, "", *self.usage(), *(PROTOCOL[key] for key in self.protocol)]
        return "\n".join([begin, *(f"{middle}{line}".rstrip() for line in lines), end]).strip()

    @abstractmethod
    def usage(self) -> list[str]:
        """Return lines on how to call it, and what happens with bad input."""

    @abstractmethod
    def head(self) -> str:
        """Return the comment and what is imported."""

    @abstractmethod
    def function(self, body: str) -> str:
        """Return the function around the steps."""

    # --- steps ------------------------------------------------------------------------------------

    def step(self, number: int, step: Step) -> str:
        """Return the lines that apply a step, and state its constants."""
        if step.by_group:
            return self.by_group(number, step)
        name, arguments = self._named(number, step)
        return self.statement(name, arguments)

    def _named(self, number: int, step: Step) -> tuple[str, list[str]]:
        """Return the kernel of a step, and its arguments behind the values."""
        if step.kernel in ("clip", "support"):
            return step.kernel, self.ends(number, step)
        if step.kernel == "variance mean":
            kernel = "to variance" if step.numbers["into"] else "from variance"
            return kernel, ["kappa"]
        if step.kernel == "level":
            total = self.text(step.numbers["total"])
            response = self.called(f"response {step.response}")
            protocol = self.listing(step.protocol)
            return "level", [*self.ends(number, step), total, response, protocol]
        if step.kernel in _WITH_LIMITS:
            total, *others = (self.text(value) for value in step.numbers.values())
            arrays = self._arrays(number, step).values()
            return step.kernel, [*self.ends(number, step), total, *arrays, *others]
        return step.kernel, self._arguments(number, step)

    def _arrays(self, number: int, step: Step) -> dict[str, str]:
        """Return the arrays of a step as arguments, by key."""
        stated = step.arrays or {}
        return {key: self.array(f"{key}_{number}", values) for key, values in stated.items()}

    def _arguments(self, number: int, step: Step) -> list[str]:
        """Return the arrays and numbers of a step as arguments."""
        arrays = self._arrays(number, step)
        numbers = {}
        for key, value in step.numbers.items():
            numbers[key] = str(int(value)) if key in _COUNTS else self.text(value)
        if step.kernel == "pool values":
            # Without arrays the nodes are the values, of which there may be any number.
            is_plain = arrays["node"] == arrays["parent"] == self.nothing
            size = self.length if is_plain else numbers["nodes"]
            return [arrays["node"], size, arrays["parent"], numbers["sign"]]
        return [*arrays.values(), *numbers.values()]

    @abstractmethod
    def by_group(self, number: int, step: Step) -> str:
        """Return the lines that apply a step to each group."""

    @abstractmethod
    def ends(self, number: int, step: Step) -> list[str]:
        """Return a step's bounds as arguments."""

    @abstractmethod
    def statement(self, name: str, arguments: Sequence[str]) -> str:
        """Return the lines that call a kernel."""

    @abstractmethod
    def called(self, name: str) -> str:
        """Return how a kernel is called in the language."""

    @abstractmethod
    def listing(self, names: Sequence[str]) -> str:
        """Return arguments of the protocol as one argument."""

    # --- constants --------------------------------------------------------------------------------

    def array(self, name: str, values: Array | None) -> str:
        """Return the name under which an array is stated."""
        if values is None:
            return self.nothing
        name = self.constant_name(name)
        self.constants.append(self.constant(name, values))
        return name

    def constant_name(self, name: str) -> str:
        """Return the name of a constant."""
        return name

    @abstractmethod
    def constant(self, name: str, values: Array) -> str:
        """Return the statement of an array."""

    def text(self, value: float) -> str:
        """Return a number that reads as the same double."""
        if np.isnan(value):
            return self.specials[2]
        if np.isinf(value):
            return self.specials[0] if value > 0 else self.specials[1]
        return repr(float(value))

    def listed(self, values: Array) -> str:
        """Return the entries of an array, some to a line."""
        is_index = np.issubdtype(values.dtype, np.integer)
        texts = [str(int(value)) if is_index else self.text(value) for value in values]
        rows = [", ".join(texts[i : i + _PER_LINE]) for i in range(0, len(texts), _PER_LINE)]
        return ",\n    ".join(rows)

    # --- checks -----------------------------------------------------------------------------------

    def number_checks(self) -> list[str]:
        """Return the lines that check the arguments of the protocol."""
        return [line for key in self._checked for line in self.checks[key].number]

    def value_checks(self) -> list[str]:
        """Return what makes a value of the estimate usable under the protocol."""
        return [line for key in self._checked for line in self.checks[key].values]

    @property
    def _checked(self) -> list[str]:
        return [key for key in self.protocol if key in self.checks]

    @property
    def size(self) -> str:
        """What the comment says of the number of values."""
        return "any number of values" if self.d is None else f"{self.d} values"

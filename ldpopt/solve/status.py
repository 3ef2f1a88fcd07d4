"""How a solution ended, and what an accuracy promises."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Literal

Accuracy = Literal["low", "default", "high"]


class Status(StrEnum):
    """How a solution ended; ``status.explanation`` says what that means.

    An inaccurate solution is not an optimal one.
    """

    explanation: str

    def __new__(cls, value: str, explanation: str) -> Status:
        """Make a member that equals its short name and carries the explanation."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.explanation = explanation
        return member

    OPTIMAL = (
        "optimal",
        "the constraints hold, and a certified gap proves the point, both to the accuracy",
    )
    INACCURATE = (
        "inaccurate",
        "nothing proves the point to the accuracy: the path stopped early, its certified gap is "
        "too large or not known, or a constraint is violated; look at the certificate first",
    )


@dataclass(frozen=True)
class Tolerances:
    """What ``Status.OPTIMAL`` promises at one accuracy.

    Attributes
    ----------
    stop
        Gap at which an algorithm of this library stops, in the loss's own units.
    violation
        Largest violation of a constraint, relative to ``Certificate.size``.
    gap
        Largest certified gap, relative to ``Certificate.scale``: multiples of a loss, and estimates
        in other units, have the same status.
    """

    stop: float
    violation: float
    gap: float


ACCURACIES: Mapping[str, Tolerances] = MappingProxyType(
    {
        # "high", which is what solve() does by itself, promises what a certificate does. Polished
        # points and closed forms keep that by far. A solver that is named returns its own point: a
        # certified gap is of second order in the error of that point where the loss is curved, and
        # of first order elsewhere, so that it may be above the limit.
        "low": Tolerances(stop=1e-4, violation=1e-3, gap=1e-4),
        "default": Tolerances(stop=1e-6, violation=1e-4, gap=1e-6),
        "high": Tolerances(stop=1e-10, violation=1e-8, gap=1e-8),
    }
)
"""The one table of accuracies; ``solvers`` holds each solver's own settings for them."""

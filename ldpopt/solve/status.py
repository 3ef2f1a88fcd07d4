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
        "the path met its own tolerances, or its certificate proves the point although it did not; "
        "no check found a violation or gap above the accuracy",
    )
    INACCURATE = (
        "inaccurate",
        "the path stopped early at a point that nothing proves, or a check of its point failed: "
        "look at the certificate first",
    )


@dataclass(frozen=True)
class Tolerances:
    """What ``Status.OPTIMAL`` promises at one accuracy.

    Attributes
    ----------
    stop
        Gap at which an algorithm of this library stops, in the loss's own units.
    violation
        Largest violation of a constraint, relative to max(1, largest |f_v|).
    gap
        Largest certified gap, relative to |L(f)| + Σ |g_v f_v| + |L(f) - L(0)| with the loss L and
        its gradient g: multiples of a loss, and estimates in other units, have the same status.
    """

    stop: float
    violation: float
    gap: float


ACCURACIES: Mapping[str, Tolerances] = MappingProxyType(
    {
        # A solver's tolerance bounds the error of its objective, and so about the square of the
        # error of its point. A certified gap is of second order in that error only where the loss
        # is curved and the multipliers are exact. Where it is linear, and where bounds hold that
        # the point keeps away from, the gap is of first order: about the square root of the
        # tolerance. The limits on the gap allow for that.
        "low": Tolerances(stop=1e-4, violation=1e-3, gap=1e-2),
        "default": Tolerances(stop=1e-6, violation=1e-4, gap=1e-3),
        "high": Tolerances(stop=1e-10, violation=1e-6, gap=1e-4),
    }
)
"""The one table of accuracies; ``solvers`` holds each solver's own settings for them."""

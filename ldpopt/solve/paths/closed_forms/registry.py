"""The registry of closed forms: each is registered where its function is defined."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ldpopt.constraints import Constraint
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import Loss
from ldpopt.solve.formulation import Formulation

Array = NDArray[np.float64]
Solve = Callable[..., Array]
Applies = Callable[..., bool]
Key = tuple[type[Loss], frozenset[type[Constraint]]]
Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class ClosedForm:
    """A KKT solution of one loss under certain kinds of constraints, each of them once.

    Attributes
    ----------
    name
        What the method is called.
    loss, constraints
        The loss's family and the constraints' types, in the order of the function's arguments.
    function
        From (loss, estimate, *constraints) to frequencies of the estimate's shape.
    applies
        A condition beyond the types, with the same arguments, or None.
    """

    name: str
    loss: type[Loss]
    constraints: tuple[type[Constraint], ...]
    function: Solve
    applies: Applies | None = None


class Registry(Mapping[Key, ClosedForm]):
    """Closed forms by (loss, set of constraint types): read-only but for ``add``."""

    def __init__(self) -> None:
        self._forms: dict[Key, ClosedForm] = {}

    def add(self, form: ClosedForm) -> None:
        """Register a closed form; raises an error if another one solves the same problem."""
        # As a set: users state constraints in any order.
        key = form.loss, frozenset(form.constraints)
        if key in self._forms:
            kinds = ", ".join(kind.__name__ for kind in form.constraints)
            # A mistake of a programmer, not of a user: no error of this library.
            raise ValueError(
                f"{form.loss.__name__} under {kinds or 'no constraints'} is already solved by "
                f"{self._forms[key].name!r}: register {form.name!r} for another problem"
            )
        self._forms[key] = form

    def __getitem__(self, key: Key) -> ClosedForm:
        return self._forms[key]

    def __iter__(self) -> Iterator[Key]:
        return iter(self._forms)

    def __len__(self) -> int:
        return len(self._forms)


@dataclass(frozen=True)
class BoxForm:
    """A closed form of one loss for all problems on a box: bounds, and at most one total.

    Attributes
    ----------
    name
        What the method is called.
    function
        From (estimate, problem) to frequencies of the estimate's shape.
    """

    name: str
    function: Callable[[FrequencyEstimate, Formulation], Array]


class Match(NamedTuple):
    """A closed form for one estimate.

    Attributes
    ----------
    name, evaluate
        What it is called, and the function that evaluates it.
    may_miss
        Whether its point may violate the constraints, where these contradict each other: a solver
        then looks for the conflict.
    """

    name: str
    evaluate: Callable[[], Array]
    may_miss: bool = False


BOX_FORMS: dict[type[Loss], BoxForm] = {}
"""The forms for bounds and at most one total, by the loss's family."""


Family = Callable[[Formulation, FrequencyEstimate], Match | None]
"""Returns the closed form of a problem for an estimate, or None where the family has none."""

FAMILIES: list[Family] = []
"""The families, the first that answers is taken."""

FAMILIES_OF_LOSSES: dict[type[Loss], Family] = {}
"""The families that solve problems of one loss alone, by its family: these come first."""

CLOSED_FORMS = Registry()
"""Every closed form, by (loss, frozenset of constraint types). Modules of this package fill it."""


Kind = type[Any] | tuple[type[Any], ...]
"""A class, or several of which each will do, as ``isinstance`` takes them."""


def solves(
    loss: Kind, *constraints: Kind, name: str, applies: Applies | None = None
) -> Callable[[Function], Function]:
    """Register the decorated function as the closed form of a loss under these constraints.

    Parameters
    ----------
    loss
        The loss class, or a tuple of several that the function solves. Losses whose ``family`` it
        is are solved by the function too.
    *constraints
        The constraint classes, in the order in which the function takes them; a tuple of classes
        where it takes any of them.
    name
        What ``Solution.solver`` and ``Problem.explain`` call it.
    applies
        A condition on the arguments beyond their types: where it is false, the problem is left to
        the other paths.

    Examples
    --------
    >>> from ldpopt import closed_form
    >>> from ldpopt.constraints import NonNegative, SumsTo
    >>> from ldpopt.losses import LeastSquares
    >>> @solves(LeastSquares, NonNegative, SumsTo, name="norm-sub")  # doctest: +SKIP
    ... def norm_sub(loss, estimate, _, total):
    ...     return closed_form.norm_sub(loss.target(estimate), total.total())
    """

    def register(function: Function) -> Function:
        for family, *kinds in itertools.product(*map(_each, (loss, *constraints))):
            CLOSED_FORMS.add(ClosedForm(name, family, tuple(kinds), function, applies))
        return function

    return register


def _each(kind: Kind) -> tuple[type[Any], ...]:
    return kind if isinstance(kind, tuple) else (kind,)


def solves_on_boxes(loss: type[Loss], *, name: str) -> Callable[[Function], Function]:
    """Register the decorated function as the closed form of a loss on any box.

    The function takes (estimate, problem); the problem has bounds and at most one total.
    """

    def register(function: Function) -> Function:
        BOX_FORMS[loss] = BoxForm(name, function)
        return function

    return register


def solves_family_of(loss: type[Loss]) -> Callable[[Function], Function]:
    """Register the decorated function as the family of closed forms of one loss.

    The function is as for ``solves_family``. Its problems have losses of this ``family``.
    """

    def register(function: Function) -> Function:
        FAMILIES_OF_LOSSES[loss] = function
        return function

    return register


def solves_family(family: Family) -> Family:
    """Register the decorated function as a family of closed forms.

    A family answers for itself which problems it solves: by what the loss and the constraints
    state, not by their types.
    """
    FAMILIES.append(family)
    return family

"""Which closed form solves which problem.

Closed forms are looked up by the types of the loss and of the constraints (each at most once), and
may impose a further condition. Every separable loss on a box with at most one total has one: the
root of its multiplier. Each module here registers one family; a new module is found by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from pkgutil import iter_modules
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.estimate import FrequencyEstimate
from ldpopt.solve.formulation import Formulation
from ldpopt.solve.paths.closed_forms.one_root import has_one_root, solve_one_root
from ldpopt.solve.paths.closed_forms.registry import (
    BOX_FORMS,
    CLOSED_FORMS,
    ClosedForm,
    solves,
    solves_on_boxes,
)

__all__ = [
    "CLOSED_FORMS",
    "ClosedForm",
    "Match",
    "closed_form_for",
    "solve_one_root",
    "solves",
    "solves_on_boxes",
]

# Importing is what registers: the decorators of a module run.
for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")


class Match(NamedTuple):
    """A closed form for one estimate: its name, and the function that evaluates it."""

    name: str
    evaluate: Callable[[], NDArray[np.float64]]


def closed_form_for(formulation: Formulation, estimate: FrequencyEstimate) -> Match | None:
    """Return the closed form of a problem for an estimate that it accepts, or None."""
    if formulation.loss.bare is not formulation.loss:
        formulation = Formulation(formulation.loss.bare, formulation.constraints)
    # The special form first: it is a sort, where the root of a multiplier takes a dozen passes.
    match = _by_types(formulation, estimate) or _on_box(formulation, estimate)
    if match is not None and formulation.loss.solved_for:
        return match._replace(name=f"{match.name} of {formulation.loss.solved_for}")
    return match


def _by_types(formulation: Formulation, estimate: FrequencyEstimate) -> Match | None:
    """Return the form that is registered for these types, if its condition holds."""
    region = formulation.region(estimate.d)
    if region.kinds is None:
        return None
    # By the family: the posterior mean, say, is least squares from another target, and has its
    # forms.
    form = CLOSED_FORMS.get((formulation.loss.family, region.kinds))
    if form is None:
        return None
    arguments = (formulation.loss, estimate, *map(region.by_kind.get, form.constraints))
    if form.applies is not None and not form.applies(*arguments):
        return None
    return Match(form.name, partial(form.function, *arguments))


def _on_box(formulation: Formulation, estimate: FrequencyEstimate) -> Match | None:
    """Return the form that needs nothing but bounds and at most one total."""
    if not formulation.is_box(estimate.d):
        return None
    form = BOX_FORMS.get(formulation.loss.family)
    if form is not None:
        return Match(form.name, lambda: form.function(estimate, formulation))
    if has_one_root(formulation, estimate):
        return Match("one root", lambda: solve_one_root(estimate, formulation))
    return None

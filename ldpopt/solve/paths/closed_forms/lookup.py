"""The search for the closed form of a problem: by types, on boxes, and in families."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from ldpopt.errors import InfeasibleError, InvalidInputError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.solve import feasibility
from ldpopt.solve.formulation import Formulation
from ldpopt.solve.paths.closed_forms.one_root import solve_one_root
from ldpopt.solve.paths.closed_forms.registry import (
    BOX_FORMS,
    CLOSED_FORMS,
    FAMILIES,
    FAMILIES_OF_LOSSES,
    Match,
)

Array = NDArray[np.float64]


def closed_form_for(
    formulation: Formulation, estimate: FrequencyEstimate, *, explains: bool = True
) -> Match | None:
    """Return the closed form of a problem for an estimate that it accepts, or None.

    Where constraints conflict, or the loss has no minimum on them, its evaluation raises an error
    that names them all, which takes linear programs; without ``explains`` it is the form's own.
    """
    if formulation.loss.bare is not formulation.loss:
        formulation = formulation.with_loss(formulation.loss.bare)
    # The special form first: it is a sort, where the root of a multiplier takes a dozen passes.
    match = (
        _by_types(formulation, estimate)
        or _on_box(formulation, estimate)
        or _in_families(formulation, estimate, explains=explains)
    )
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
    if formulation.loss.separable is not None:
        return Match("one root", lambda: solve_one_root(estimate, formulation))
    return None


def _in_families(
    formulation: Formulation, estimate: FrequencyEstimate, *, explains: bool
) -> Match | None:
    """Return the form of the first family that solves the problem."""
    of_loss = FAMILIES_OF_LOSSES.get(formulation.loss.family)
    for family in FAMILIES if of_loss is None else [of_loss, *FAMILIES]:
        match = family(formulation, estimate)
        if match is not None and explains:
            return match._replace(evaluate=partial(_evaluated, match, formulation, estimate))
        if match is not None:
            return match
    return None


def _evaluated(match: Match, formulation: Formulation, estimate: FrequencyEstimate) -> Array:
    """Return the point; where a form finds a conflict, all rows that take part in it are named."""
    try:
        return match.evaluate()
    # A form that finds no root for another reason, as it says, may have met a conflict as well.
    except InvalidInputError:
        if estimate.d <= feasibility.LARGEST:
            feasibility.require_feasible(feasibility.conditions(formulation, None), estimate.d)
            feasibility.require_finite_loss(formulation, estimate)
            _require_curved(formulation, estimate, match.name)
        raise


def _require_curved(formulation: Formulation, estimate: FrequencyEstimate, form: str) -> None:
    """Raise an error that names the conflict if a set without rows is part of one.

    Cost: a cone program per trial, of a problem that has failed.
    """
    if all(part.rows(estimate.d) is not None for part in formulation.constraints):
        return
    support = formulation.loss.support(estimate)
    for trial in np.ndindex(estimate.frequencies.shape[:-1]):
        inside = None if support is None else support[trial]
        reason = feasibility.verdict(formulation, estimate[trial], inside, f"{form}: no point")
        if isinstance(reason, InfeasibleError):
            raise reason

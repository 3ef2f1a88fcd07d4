"""Which closed form solves which problem.

Closed forms are looked up by the types of the loss and of the constraints (each at most once), and
may impose a further condition. Every separable loss on a box with at most one total has one: the
root of its multiplier. Families solve what loss and constraints state of themselves, such as any
order under any loss that pools by means. Each module here registers one kind; a new module is found
by itself.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from ldpopt.solve.paths.closed_forms.lookup import closed_form_for
from ldpopt.solve.paths.closed_forms.one_root import solve_one_root
from ldpopt.solve.paths.closed_forms.registry import (
    BOX_FORMS,
    CLOSED_FORMS,
    FAMILIES,
    ClosedForm,
    Match,
    solves,
    solves_family,
    solves_family_of,
    solves_on_boxes,
)

__all__ = [
    "BOX_FORMS",
    "CLOSED_FORMS",
    "FAMILIES",
    "ClosedForm",
    "Match",
    "closed_form_for",
    "solve_one_root",
    "solves",
    "solves_family",
    "solves_family_of",
    "solves_on_boxes",
]

# Importing is what registers: the decorators of a module run.
for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

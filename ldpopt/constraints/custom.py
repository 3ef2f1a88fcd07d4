"""Any constraint that cvxpy can state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from ldpopt.constraints.base import Constraint
from ldpopt.errors import InvalidInputError, InvalidTypeError

if TYPE_CHECKING:
    import cvxpy as cp

Array = NDArray[np.float64]


class Custom(Constraint):
    """Any cvxpy constraints on the frequencies.

    Parameters
    ----------
    build
        Function from a cvxpy expression of shape (d,) to a list of cvxpy constraints.
    name
        What ``Solution.duals`` calls it.

    Raises
    ------
    InvalidTypeError
        If ``build`` is not a function.

    Notes
    -----
    The function may read values that change, such as a list or a ``cvxpy.Parameter``: it is called
    again for every solve and every certificate, so that each is about the values of that moment.
    The price is that a problem with it is compiled anew in every ``solve``, though only once for
    all trials of a stack.

    Examples
    --------
    >>> first_is_largest = Custom(lambda f: [f[0] >= f[1], f[0] >= f[2]])
    >>> float(first_is_largest.violation(np.array([0.25, 0.5, 0.25])))
    0.25
    """

    reusable: ClassVar[bool] = False

    def __init__(
        self, build: Callable[[cp.Expression], Sequence[cp.Constraint]], name: str = "Custom"
    ) -> None:
        if not callable(build):
            raise InvalidTypeError(
                f"Custom takes a function from f to a list of cvxpy constraints, got {build!r}"
            )
        if not isinstance(name, str) or not name:
            raise InvalidTypeError(f"the name of a Custom constraint must be a text, got {name!r}")
        self.build = build
        self.name = name

    def cone_form(self, f: cp.Expression) -> list[cp.Constraint]:
        """Return what the function returns.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If it fails, or does not return a list of convex cvxpy constraints on f alone.
        """
        import cvxpy as cp

        # Anything may go wrong in a function from outside.
        try:
            forms = self.build(f)
        except Exception as error:
            raise InvalidInputError(
                f"the function of Custom failed on {f.size} values: {error}"
            ) from error
        if not isinstance(forms, Sequence) or not all(
            isinstance(form, cp.Constraint) for form in forms
        ):
            raise InvalidTypeError(
                f"the function of Custom must return a list of cvxpy constraints, got {forms!r}"
            )
        # Checked here: a solver's own message would not name the constraint.
        for form in forms:
            if not form.is_dcp():
                raise InvalidInputError(
                    f"Custom: {form} is not convex by cvxpy's rules (DCP): write it with cvxpy's "
                    "convex functions, or leave it out"
                )
            _check_names(form, f)
        return list(forms)

    def violation(self, f: Array) -> Array:
        """Return the largest violation that cvxpy measures."""
        import cvxpy as cp

        # cvxpy measures at the value of a variable, so one trial at a time.
        variable = cp.Variable(f.shape[-1])
        forms = self.cone_form(variable)
        result = np.zeros(f.shape[:-1])
        for trial in np.ndindex(f.shape[:-1]):
            variable.value = f[trial]
            result[trial] = max((float(np.max(form.violation())) for form in forms), default=0.0)
        return result


def _check_names(form: cp.Constraint, f: cp.Expression) -> None:
    """Raise an error for a variable other than f, or a parameter without a value."""
    allowed = {variable.id for variable in f.variables()}
    for variable in form.variables():
        if variable.id not in allowed:
            raise InvalidInputError(
                f"Custom: {form} has the variable {variable.name()} besides f, so that no vector "
                "f alone can be checked against it: state it with cvxpy's functions of f"
            )
    for parameter in form.parameters():
        if parameter.value is None:
            raise InvalidInputError(
                f"Custom: the parameter {parameter.name()} in {form} has no value: set it first"
            )

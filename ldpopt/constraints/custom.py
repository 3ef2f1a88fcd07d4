"""Any constraint that cvxpy can state."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from threading import Lock, get_ident
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ldpopt.adjustable import Latest, Values, holding
from ldpopt.constraints.base import Constraint
from ldpopt.errors import InfeasibleError, InvalidInputError, InvalidTypeError
from ldpopt.expressions import (
    Slopes,
    accepts,
    built,
    fingerprint,
    outside_domain,
    parameters_of,
    require_numbers,
    require_values,
    require_variables,
    shown,
    substituted,
    warn_of_order,
    warn_of_tables,
    why_no_convex_set,
)
from ldpopt.printable import printable

if TYPE_CHECKING:
    import cvxpy as cp

    from ldpopt.estimate import FrequencyEstimate

Array = NDArray[np.float64]

# cvxpy measures at the value of a variable. Solutions share it, and may be read in any thread.
_ONE_MEASURES = Lock()


class Custom(Constraint):
    """Any cvxpy constraints on the frequencies.

    Parameters
    ----------
    build
        Function from a cvxpy expression of shape (d,) to a cvxpy constraint or a list of them.
    name
        What ``Solution.duals`` and ``Problem.explain`` call it.

    Raises
    ------
    InvalidTypeError
        If ``build`` is not a function of one argument.

    Warns
    -----
    LdpoptWarning
        If a problem is solved with it and numbers in a column, shape (d, 1), stand beside f: cvxpy
        makes a table of all pairs of them. Or if the function reads a Series in another order.

    Notes
    -----
    The function may read values that change, such as a list or a ``Parameter``: it is called
    again for every solve and every certificate, so that each is about the values of that moment.
    A problem is compiled anew only if the function returns other constraints; another value of a
    parameter changes nothing that is compiled.

    Examples
    --------
    >>> first_is_largest = Custom(lambda f: [f[0] >= f[1], f[0] >= f[2]])
    >>> float(first_is_largest.violation(np.array([0.25, 0.5, 0.25])))
    0.25
    """

    _kept = frozenset({"build", "_latest"})  # the function is called anew for each solve

    is_cvxpy = True
    _defined_by = "their function"

    def __init__(
        self,
        build: Callable[[cp.Expression], cp.Constraint | Sequence[cp.Constraint]],
        name: str = "Custom",
    ) -> None:
        if not callable(build):
            raise InvalidTypeError(
                f"Custom takes a function from f to cvxpy constraints, got {build!r}"
            )
        if not accepts(build, None):
            raise InvalidTypeError(
                "the function of a Custom constraint takes f alone: give further arguments a "
                "default, as in lambda f, y=y: ..., or use a name from around it"
            )
        if not isinstance(name, str) or not name:
            raise InvalidTypeError(f"the name of a Custom constraint must be a text, got {name!r}")
        self.build = build
        self.name = name
        self._latest = Latest()

    def __repr__(self) -> str:
        return f"Custom({printable(self.name)})" if self.name != "Custom" else "Custom()"

    @property
    def _called(self) -> str:
        """What messages call it."""
        return repr(self).removesuffix("()")

    @property
    def varies(self) -> bool:
        """True: the function may return something else the next time."""
        return True

    def at(self, start: FrequencyEstimate | None, values: Values) -> Constraint:  # type: ignore[override]
        """Return what the function states now about the values of an estimate."""
        if start is None:
            return self
        warn_of_order(self._called, self.build, start.labels)
        stated = StatedConstraint(self, start.d, values)
        warn_of_tables(self._called, stated.forms)
        content = stated.content
        # Violations are measured one at a time, for which no thread is to wait for another's.
        shared = self._latest.of((get_ident(), start.d, content), lambda: stated)
        # cvxpy copies numbers but not indices, which the caller may have written to since.
        return shared if shared.content == content else stated

    def parameters_for(self, start: FrequencyEstimate) -> list[cp.Parameter]:
        """Return the parameters that the function reads."""
        import cvxpy as cp

        return parameters_of(self._returned(cp.Variable(start.d, name="f")))

    def cone_form(self, f: cp.Expression) -> list[cp.Constraint]:
        """Return what the function returns, with numbers in place of its parameters.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If it fails, or does not return convex cvxpy constraints on f alone.
        """
        return StatedConstraint(self, f.size, {}).cone_form(f)

    def forms(self, f: cp.Variable, values: Values) -> list[cp.Constraint]:
        """Return what the function returns, checked, with its parameters.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            As ``cone_form``.
        """
        forms = self._returned(f)
        # Checked here: a solver's own message would not name the constraint.
        for form in forms:
            if form.is_complex():
                raise InvalidInputError(
                    f"{self._called}: {shown(form)} is complex: constrain cp.abs, cp.real or "
                    "cp.imag of it"
                )
            if not form.is_dcp():
                raise InvalidInputError(
                    f"{self._called}: {shown(form)} is not convex by cvxpy's rules (DCP): "
                    f"{why_no_convex_set(form)}"
                )
            require_variables(self._called, form, [f])
            require_values(self._called, form, values)
            require_numbers(self._called, form)
        return forms

    def _returned(self, f: cp.Variable) -> list[cp.Constraint]:
        """Return what the function returns as a list; raises an error for anything else."""
        import cvxpy as cp

        returned = built(self._called, self.build, f)
        forms = [returned] if isinstance(returned, cp.Constraint) else returned
        is_list = isinstance(forms, Sequence)
        # A comparison of numbers is True or False in Python, and no constraint.
        if not is_list or not all(isinstance(form, cp.Constraint) for form in forms):
            remedy = "compare expressions by <=, >= or =="
            if isinstance(forms, Iterator):
                remedy = "make a list of it, [... for ...]"
            raise InvalidTypeError(
                f"the function of {self._called} must return a cvxpy constraint or a list of "
                f"cvxpy constraints, got {forms!r}: {remedy}"
            )
        return list(forms)

    def violation(self, f: Array) -> Array:
        """Return the largest violation that cvxpy measures."""
        return StatedConstraint(self, f.shape[-1], {}).violation(f)


class StatedConstraint(Constraint):
    """What the function of a ``Custom`` constraint returned at one moment, for d values.

    Parameters
    ----------
    source
        The constraint.
    d
        Number of values.
    values
        Values of parameters by their ``id``, in place of those that they hold.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        As ``Custom.cone_form``.
    """

    is_cvxpy = True
    _adjusts = False
    # What cvxpy built is seen by no one else, but for the parameters, whose values are kept.
    _kept = frozenset({"_variable", "_forms", "_numeric", "_measures", "_values", "_parameters"})

    def __init__(self, source: Custom, d: int, values: Mapping[int, Any]) -> None:
        import cvxpy as cp

        self.source = source
        self.name = source.name
        self._variable = cp.Variable(d, name="f")
        self._forms = tuple(source.forms(self._variable, values))
        for form in self._forms:
            _require_possible(source, form, values)
        self._parameters = tuple(parameters_of(self._forms))
        self._values = tuple(
            np.asarray(values.get(p.id, p.value), dtype=np.float64) for p in self._parameters
        )
        # The caller may change a parameter at any time: certificates come later.
        numbers = {}
        for parameter, value in zip(self._parameters, self._values, strict=True):
            numbers[parameter.id] = cp.Constant(value)
        self._numeric = tuple(substituted(form, numbers) for form in self._forms)
        self._measures = tuple(_Measure(form, self._variable) for form in self._numeric)

    @property
    def forms(self) -> tuple[cp.Constraint, ...]:
        """What the function returned, with its parameters."""
        return self._forms

    def cone_form(self, f: cp.Expression) -> list[cp.Constraint]:
        """Return the constraints on an expression, with the numbers of that moment."""
        return [substituted(form, {self._variable.id: f}) for form in self._numeric]

    def adjustable_form(self, f: cp.Expression) -> tuple[list[cp.Constraint], list[cp.Parameter]]:
        """Return the constraints with parameters of their own."""
        import cvxpy as cp

        # With the same signs and shapes, by which cvxpy's rules judge.
        open_numbers = [cp.Parameter(p.shape, **p.attributes) for p in self._parameters]
        replacements: dict[int, Any] = {self._variable.id: f}
        for parameter, number in zip(self._parameters, open_numbers, strict=True):
            replacements[parameter.id] = number
        return [substituted(form, replacements) for form in self._forms], open_numbers

    def data(self, d: int) -> tuple[Array, ...]:
        """Return the values of the parameters."""
        return self._values

    @property
    def content(self) -> Hashable:
        """Equal if the function returned the same constraints with the same values."""
        values = tuple((value.shape, value.tobytes()) for value in self._values)
        return (self.compiled_key(self._variable.size), values)

    def compiled_key(self, d: int) -> Hashable:
        """Equal if the function returned the same constraints but for values of parameters."""
        # By place and not by ``id``: each call of the function may make new parameters.
        named = {self._variable.id: "f"}
        for i, parameter in enumerate(self._parameters):
            named[parameter.id] = f"p{i}"
        return (type(self), fingerprint(self._forms, named))

    def violation(self, f: Array) -> Array:
        """Return the largest violation that cvxpy measures, or distance from a function's domain.

        Where all slopes are below 1, it counts in frequency: fourth powers of 1e-3 are 1e-12.
        Infinite beyond a pole, and where a function is not defined.
        """
        result = np.zeros(f.shape[:-1])
        for trial in np.ndindex(f.shape[:-1]):
            with _ONE_MEASURES:
                result[trial] = self._violation_at(f[trial])
        return result

    def _violation_at(self, f: Array) -> float:
        """Return ``violation`` of one vector, to which the variable is set."""
        self._variable.save_value(f)
        return max((measure.violation() for measure in self._measures), default=0.0)

    def __repr__(self) -> str:
        return repr(self.source)


class _Measure:
    """What a form without parameters measures at the value of its variable."""

    def __init__(self, form: cp.Constraint, variable: cp.Variable) -> None:
        self._form = form
        self._slopes = None if _is_cone(form) else Slopes(form.expr, variable)
        self._steepest_everywhere: Array | None = None

    def violation(self) -> float:
        """Return the violation, or the distance from a function's domain, at least 0."""
        # NaN: a function is not defined at the point.
        with np.errstate(all="ignore"):
            measured = np.nan_to_num(self._form.violation(), nan=np.inf)
        return max(0.0, self._distance(measured), outside_domain(self._form))

    def _distance(self, measured: Array) -> float:
        """Return by how much frequencies have to change, in sum, until the form may be met.

        A convex g is above its tangent at f, so f is no nearer to g <= 0 than g over its largest
        slope. Steep slopes take nothing away, since the way may be longer.
        """
        numbers = np.ravel(measured, order="F")
        largest = float(np.max(numbers))
        # Mostly nothing is violated, and cones measure a distance.
        if not 0 < largest < np.inf or self._slopes is None:
            return largest
        steepest = self._steepest(self._slopes)
        if steepest is None:
            return largest
        violated = numbers > 0
        with np.errstate(divide="ignore"):
            return float(np.max(numbers[violated] / np.minimum(steepest[violated], 1.0)))

    def _steepest(self, slopes: Slopes) -> Array | None:
        """Return the largest slope of each number at the value of the variable, None if unknown."""
        if self._steepest_everywhere is not None:
            return self._steepest_everywhere
        here = slopes.here()
        if here is None:
            return None
        steepest: Array = abs(here).max(axis=0).toarray().ravel()
        # Slopes take cvxpy milliseconds, and each vector of a stack asks for them.
        if self._form.expr.is_affine():
            self._steepest_everywhere = steepest
        return steepest


def _is_cone(form: cp.Constraint) -> bool:
    """Return whether a form is about its numbers together, not about each of them."""
    import cvxpy as cp

    return not isinstance(form, cp.constraints.Inequality | cp.constraints.Equality | cp.Zero)


def _require_possible(source: Custom, form: cp.Constraint, values: Values) -> None:
    """Raise an error if a constraint that does not depend on f is not met."""
    if form.variables():
        return
    with holding(form.parameters(), values):
        violation = float(np.max(form.violation()))
    if not violation <= 0:
        raise InfeasibleError(
            f"{source._called}: {shown(form)} is not met, whatever f is: state it about f, or "
            "leave it out"
        )

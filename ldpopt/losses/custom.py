"""Any convex function that cvxpy can state."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ldpopt.adjustable import Values
from ldpopt.errors import InvalidInputError, InvalidTypeError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.expressions import (
    bases_of,
    built,
    fingerprint,
    outside_domain,
    parameters_of,
    require_numbers,
    require_values,
    require_variables,
    shown,
    size_of,
    slopes_of,
    substituted,
    warn_of_order,
    warn_of_tables,
    why_not_convex,
    with_bases_in_units,
    without_constants,
)
from ldpopt.immutable import derived_property
from ldpopt.losses.base import Loss
from ldpopt.losses.enclosure import Enclosed, enclosure
from ldpopt.printable import printable

if TYPE_CHECKING:
    import cvxpy as cp

Array = NDArray[np.float64]

# Values with which a function is tried when the loss is made: few, but several groups of them.
_PROBE = 8

# By how much the values of an expression of numbers and of one of parameters may differ.
_ROUNDING = 1e-9

# Units of bases are powers of 2 to this: most estimates share what is compiled, and powers of them
# with exponents in quarters are exact.
_COARSE = 4

# How far outside of a function's domain rounding may leave a value, relative to the largest one.
_AT_END = 1e-8


class Custom(Loss):
    """Any convex cvxpy expression of the frequencies f and the estimate.

    Parameters
    ----------
    build
        Function from a cvxpy expression f of shape (d,) and the estimate's frequencies f̃ to a
        convex expression, a single number. A function of three arguments gets the estimate's
        ``Noise`` too, and one of a single argument gets f alone.
    name
        What messages call it.

    Raises
    ------
    InvalidTypeError
        If ``build`` is not a function of one, two or three arguments.
    InvalidInputError
        If it returns what is not convex by cvxpy's rules; that is tried at once on a few values,
        and looked at again before every solve.

    Warns
    -----
    LdpoptWarning
        If a problem is solved with it and numbers in a column, shape (d, 1), stand beside f: cvxpy
        makes a table of all pairs of them. Or if the function reads a Series in another order.

    Notes
    -----
    The function may read a ``Parameter`` or other things that change: it is called again for every
    solve and every certificate, so that each is about the values of that moment. f̃ stays a
    parameter of what is compiled where the function allows it. A function gets numbers, and is
    compiled for each vector, if it calculates with f̃ by numpy, or if it is convex for these numbers
    alone: if it divides by f̃, say, or multiplies its terms by it (it is not DPP, in cvxpy's words).

    Examples
    --------
    >>> import cvxpy as cp
    >>> from ldpopt import Problem, constraints
    >>> huber = Custom(lambda f, y: cp.sum(cp.huber(f - y, 0.1)), name="huber")
    >>> simplex = [constraints.NonNegative(), constraints.SumsTo(1.0)]
    >>> solution = Problem(huber, simplex).solve([0.5, 0.25, 0.1])
    >>> solution.frequencies.round(3), solution.certificate.is_optimal(1e-6)
    (array([0.55, 0.3 , 0.15]), True)
    """

    _kept = frozenset({"build"})  # called anew for each solve
    _defined_by = "their function"
    has_shared_kinks = True

    def __init__(self, build: Callable[..., cp.Expression], name: str = "Custom") -> None:
        if not callable(build):
            raise InvalidTypeError(f"Custom takes a function of f and the estimate, got {build!r}")
        if not isinstance(name, str) or not name:
            raise InvalidTypeError(f"the name of a Custom loss must be a text, got {name!r}")
        self.build = build
        self.name = name
        self._arguments = _count_of_arguments(build)
        self._try()

    @property
    def varies(self) -> bool:
        """True: the function may return something else the next time."""
        return True

    @property
    def uses_noise(self) -> bool:
        """Whether the function gets the noise of raw estimates."""
        return self._arguments == 3

    def at(self, start: FrequencyEstimate | None, values: Values) -> Loss:  # type: ignore[override]
        """Return what the function states now about an estimate."""
        # Without an estimate there is nothing that the function could be called with.
        if start is None:
            return self
        warn_of_order(self.name, self.build, start.labels)
        stated = StatedLoss(self, start, values)
        warn_of_tables(self.name, [stated.at_first])
        return stated

    def parameters_for(self, start: FrequencyEstimate) -> list[cp.Parameter]:
        """Return the parameters that the function reads."""
        import cvxpy as cp

        # Any trial: they differ in numbers, which are no parameters of the user's.
        first = start[(0,) * (start.frequencies.ndim - 1)]
        arguments: list[Any] = [cp.Variable(start.d, name="f"), first.frequencies]
        if self._arguments == 3:
            arguments.append(first.noise)
        returned = built(self.name, self.build, *arguments[: self._arguments])
        return parameters_of([returned]) if isinstance(returned, cp.Expression) else []

    def validate_for(self, estimate: FrequencyEstimate) -> None:
        """Raise an error if the function fails, or its expression is no convex number."""
        StatedLoss(self, estimate, {})

    def value(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return the expression's value."""
        return StatedLoss(self, estimate, {}).value(f, estimate)

    def gradient(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return a subgradient: cvxpy's own, or a solver's multiplier."""
        return StatedLoss(self, estimate, {}).gradient(f, estimate)

    def expression(self, f: cp.Expression, estimate: FrequencyEstimate) -> cp.Expression:
        """Return what the function returns."""
        return StatedLoss(self, estimate, {}).expression(f, estimate)

    def data(self, estimate: FrequencyEstimate) -> tuple[Array, ...]:
        """Return f̃."""
        return (estimate.frequencies,)

    def cone_form(
        self,
        f: cp.Expression,
        data: tuple[Any, ...],
        constants: tuple[float, ...],
    ) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Raise an error: what the function states depends on the moment, see ``at``."""
        raise InvalidInputError(f"{self!r} is stated for an estimate: Problem.solve does that")

    def stated(
        self, f: cp.Expression, frequencies: Any, estimate: FrequencyEstimate, values: Values
    ) -> cp.Expression:
        """Return what the function returns, after checks of its kind and size.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If the function fails, or does not return a real number that depends on f alone.
        """
        import cvxpy as cp

        arguments: list[Any] = [f, frequencies][: self._arguments]
        if self._arguments == 3:
            arguments.append(estimate.noise)
        returned = built(self.name, self.build, *arguments)
        if not isinstance(returned, cp.Expression):
            raise InvalidTypeError(
                f"the function of {self.name} must return a cvxpy expression of f, got {returned!r}"
                f"{_remedy(returned)}"
            )
        if returned.is_complex():
            raise InvalidInputError(
                f"{self.name}: {shown(returned)} is complex: minimise cp.abs or cp.real of it"
            )
        if returned.size != 1:
            raise InvalidInputError(
                f"{self.name}: {shown(returned)} has shape {returned.shape}, a loss is one number: "
                "use cp.sum of it"
            )
        require_variables(self.name, returned, f.variables())
        require_values(self.name, returned, values)
        require_numbers(self.name, returned)
        return cp.sum(returned) if returned.ndim else returned

    def require_convex(self, expression: cp.Expression) -> None:
        """Raise an error with the reason if cvxpy does not find an expression convex."""
        if not expression.is_convex():
            raise InvalidInputError(
                f"{self.name}: {shown(expression)} is not convex by cvxpy's rules (DCP): "
                f"{why_not_convex(expression)}"
            )

    def _try(self) -> None:
        """Raise an error if the function returns what is convex for no estimate."""
        import cvxpy as cp

        # There is no estimate yet whose noise it could get.
        if self._arguments == 3:
            return
        f = cp.Variable(_PROBE, name="f")
        # A function that needs another number of values, or parameters, is looked at when used.
        tries = []
        ascending = (1 + np.arange(_PROBE)) / 36
        # Positive numbers, and numbers of both signs: convexity may depend on these.
        for sign in (1.0, -1.0):
            y = sign ** np.arange(_PROBE) * ascending
            try:
                returned = self.build(*[f, y][: self._arguments])
            except Exception:
                return
            # What is no number gets its own message when the loss is used.
            if not isinstance(returned, cp.Expression) or returned.size != 1:
                return
            tries.append(returned)
        if not any(expression.is_convex() for expression in tries):
            self.require_convex(self._readable(f, tries[0]))

    def _readable(self, f: cp.Variable, numeric: cp.Expression) -> cp.Expression:
        """Return the expression with a letter for the estimate where the function takes one."""
        import cvxpy as cp

        arguments = [f, cp.Parameter(f.size, name="y")][: self._arguments]
        try:
            stated = self.build(*arguments)
            is_no_better = stated.is_convex()
        except Exception:
            return numeric
        # With the letter cvxpy may find convex what it is not with these numbers.
        return numeric if is_no_better else stated

    def __repr__(self) -> str:
        return f"Custom({printable(self.name)})" if self.name != "Custom" else "Custom()"


class StatedLoss(Loss):
    """What the function of a ``Custom`` loss returned at one moment, for one estimate.

    Parameters
    ----------
    source
        The loss.
    start
        The estimate: one vector, or a stack of trials.
    values
        Values of parameters by their ``id``, in place of those that they hold.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        As ``Custom.stated``; and if the expression is not convex.
    """

    _adjusts = False
    _kept = frozenset(
        {"_f", "_y", "_open", "_parameters", "_values", "_numbers", "_first", "_of_first"}
    )
    has_shared_kinks = True

    def __init__(self, source: Custom, start: FrequencyEstimate, values: Mapping[int, Any]) -> None:
        import cvxpy as cp

        self.source = source
        self._f = cp.Variable(start.d, name="f")
        self._y = cp.Parameter(start.d, name="y")
        first = start[(0,) * (start.frequencies.ndim - 1)]
        self._first = first
        # Numbers decide whether it is convex: of a parameter cvxpy does not know the sign.
        numeric = source.stated(self._f, first.frequencies, first, values)
        self.source.require_convex(numeric)
        self._open = self._with_open_estimate(first, values, numeric)
        stated = numeric if self._open is None else self._open
        parameters = [p for p in parameters_of([stated]) if p.id != self._y.id]
        self._parameters = tuple(parameters)
        # The caller may change a parameter at any time, and certificates come later: the numbers
        # are those of this moment.
        numbers = []
        self._numbers = {}
        for parameter in parameters:
            number = values.get(parameter.id, parameter.value)
            numbers.append(np.asarray(number, dtype=np.float64))
            self._numbers[parameter.id] = cp.Constant(numbers[-1])
        self._values = tuple(numbers)
        # One solve needs it a dozen times; restating it takes as long as to evaluate it.
        self._of_first = self._restated(first)

    def _with_open_estimate(
        self, first: FrequencyEstimate, values: Mapping[int, Any], numeric: cp.Expression
    ) -> cp.Expression | None:
        """Return the expression with a parameter for f̃, None if the function needs numbers."""
        self._y.value = first.frequencies
        try:
            stated = self.source.stated(self._f, self._y, first, values)
            if not stated.is_dcp(dpp=True):
                return None
            # The two must agree, or the function has looked at the numbers.
            self._f.value = np.linspace(0.5, 1.5, first.d) / first.d
            with np.errstate(all="ignore"):
                number = _number_of(numeric)
                difference = abs(_number_of(stated) - number)
                agrees = difference <= _ROUNDING * (1 + abs(number))
        except Exception:
            return None
        return stated if agrees else None

    @property
    def at_first(self) -> cp.Expression:
        """The expression for the first vector of the estimate, in numbers."""
        return self._of_first

    def _at(self, estimate: FrequencyEstimate) -> cp.Expression:
        """Return the expression of the variable for one vector, in numbers."""
        return self._of_first if estimate is self._first else self._restated(estimate)

    def _restated(self, estimate: FrequencyEstimate) -> cp.Expression:
        import cvxpy as cp

        if self._open is not None:
            numbers = {**self._numbers, self._y.id: cp.Constant(estimate.frequencies)}
            return substituted(self._open, numbers)
        by_id = {p.id: value for p, value in zip(self._parameters, self._values, strict=True)}
        stated = self.source.stated(self._f, estimate.frequencies, estimate, by_id)
        self.source.require_convex(stated)
        return substituted(stated, self._numbers)

    def value(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return the expression's value, ``inf`` where it is not defined."""
        result = np.empty(f.shape[:-1])
        # cvxpy evaluates at the value of a variable, so one trial at a time.
        for trial in np.ndindex(f.shape[:-1]):
            expression = self._at(estimate[trial])
            self._f.save_value(f[trial])
            with np.errstate(all="ignore"):
                number = _number_of(expression)
            is_finite = not np.isnan(number) and _is_inside(expression, f[trial])
            result[trial] = number if is_finite else np.inf
        return result

    def gradient(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return a subgradient: by rules of our own, which are faster than cvxpy's.

        Else cvxpy's own, or a solver's multiplier; NaN if neither knows one.
        """
        result = np.empty(f.shape)
        for trial in np.ndindex(f.shape[:-1]):
            expression = self._at(estimate[trial])
            ranges = enclosure(expression, self._f, f[trial])
            if ranges is None:
                self._f.save_value(f[trial])
                is_inside = _is_inside(expression, f[trial])
                slopes = _subgradient(expression, self._f, f[trial]) if is_inside else np.nan
                result[trial] = slopes
            else:
                result[trial] = ranges.gradient
        return result

    def enclosed(self, estimate: FrequencyEstimate) -> Enclosed:
        """Return the function from f to gradient and value, without its ``offset``, with errors."""
        varying, _ = without_constants(self._at(estimate))
        return partial(enclosure, varying, self._f)

    def offset(self, estimate: FrequencyEstimate) -> Array:
        """Return the sum of the terms that do not depend on f."""
        result = np.zeros(estimate.frequencies.shape[:-1])
        for trial in np.ndindex(result.shape):
            _, constant = without_constants(self._at(estimate[trial]))
            result[trial] = 0.0 if constant is None else _number_of(constant)
        return result

    def expression(self, f: cp.Expression, estimate: FrequencyEstimate) -> cp.Expression:
        """Return what the function returned, of another expression f, without its ``offset``."""
        varying, _ = without_constants(self._at(estimate))
        return substituted(varying, {self._f.id: f})

    @derived_property
    def _key(self) -> Hashable:
        # By place and not by ``id``: each call of the function may make new parameters.
        named = {self._f.id: "f", self._y.id: "y"}
        for i, parameter in enumerate(self._parameters):
            named[parameter.id] = f"p{i}"
        return fingerprint([self._open], named)

    @property
    def compiled_key(self) -> Hashable:
        """Equal if the function returned the same, but for f̃ and values of parameters."""
        return self if self._open is None else (type(self), self._key)

    def data(self, estimate: FrequencyEstimate) -> tuple[Array, ...]:
        """Return f̃, and the values of parameters, each once per trial."""
        trials = estimate.frequencies.shape[:-1]
        more = [np.broadcast_to(value, (*trials, *value.shape)) for value in self._values]
        return (estimate.frequencies, *more)

    def nonnegative_arrays(self, count: int, constants: tuple[Any, ...]) -> list[bool]:
        """Return which parameters are never negative; f̃ may be."""
        return [False, *(parameter.is_nonneg() for parameter in self._parameters)]

    @property
    def needs_numbers(self) -> bool:  # type: ignore[override]
        """Whether the function calculates with f̃ by itself."""
        return self._open is None

    def constants(self, estimate: FrequencyEstimate) -> tuple[float, ...]:
        """Return units in which the loss of equal frequencies, and bases of powers, are near 1."""
        first_trial = (0,) * (estimate.frequencies.ndim - 1)
        first = estimate[first_trial]
        # Of estimates of a total of 1 the same for all: they share what is compiled.
        whole = _coarse(np.abs(np.sum(first.frequencies)))
        uniform = np.full(estimate.d, whole / estimate.d)
        bases = self._units_of_bases(first, uniform)
        size = abs(float(self.value(uniform, first) - self.offset(first)))
        if not (np.isfinite(size) and size > 0):
            return (1.0, *bases)
        # A power of ten, so that most estimates share what is compiled.
        return (10.0 ** -math.floor(math.log10(size)), *bases)

    def _units_of_bases(self, estimate: FrequencyEstimate, uniform: Array) -> list[float]:
        """Return how large the bases of powers are, as coarse powers of 2."""
        varying, _ = without_constants(self._at(estimate))
        bases = bases_of(varying)
        if not bases:
            return []
        sizes = np.zeros(len(bases))
        # A base may vanish at one of them, as a deviation from it.
        for f in (uniform, estimate.frequencies):
            self._f.save_value(f)
            sizes = np.fmax(sizes, [size_of(base) for base in bases])
        return _coarse(sizes).tolist()  # type: ignore[no-any-return]

    def cone_factor(self, d: int, constants: tuple[Any, ...]) -> float:
        """Return the unit."""
        return float(constants[0])

    def cone_form(
        self,
        f: cp.Expression,
        data: tuple[Any, ...],
        constants: tuple[Any, ...],
    ) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Return what the function returned times the unit, with parameters or numbers for f̃."""
        import cvxpy as cp

        unit, *bases = constants
        if self._open is None:
            # All trials of a stack have the same noise.
            one = self._first.processed(data[0])
            return unit * with_bases_in_units(self.expression(f, one), iter(bases)), []
        # Not every atom makes constants of numbers when it is copied.
        numbers = [cp.Variable.cast_to_const(number) for number in data]
        replacements: dict[int, Any] = {self._f.id: f, self._y.id: numbers[0]}
        for parameter, number in zip(self._parameters, numbers[1:], strict=True):
            replacements[parameter.id] = number
        varying, _ = without_constants(self._open)
        stated = substituted(varying, replacements)
        return unit * with_bases_in_units(stated, iter(bases)), []

    def __repr__(self) -> str:
        return repr(self.source)


def _coarse(sizes: Array) -> Array:
    """Return powers of 2 near sizes, 1 of what is no number above 0."""
    is_known = np.isfinite(sizes) & (sizes > 0)
    exponents = np.log2(np.where(is_known, sizes, 1.0)) / _COARSE
    return np.asarray(np.exp2(np.round(exponents) * _COARSE))


def _count_of_arguments(build: Callable[..., Any]) -> int:
    """Return how many of f, f̃ and the noise a function takes.

    Raises
    ------
    InvalidTypeError
        If it takes another number of arguments.
    """
    try:
        stated = inspect.signature(build).parameters.values()
    except (TypeError, ValueError):  # of a function in C
        return 2
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    positional = [argument for argument in stated if argument.kind in kinds]
    needed = [argument for argument in positional if argument.default is inspect.Parameter.empty]
    # ``*arguments`` takes any number: f and f̃ are what most losses need.
    if any(argument.kind is inspect.Parameter.VAR_POSITIONAL for argument in stated):
        return 2
    if len(needed) > 3 or not positional:
        raise InvalidTypeError(
            "the function of Custom takes f, the estimate's frequencies and its noise, or the "
            f"first of them; this one takes {len(needed)} arguments"
        )
    # What has a default is the function's own, as in ``lambda f, y, c=c: ...``.
    return max(len(needed), 1)


def _number_of(expression: cp.Expression) -> float:
    """Return the value of an expression that is one number, NaN where it has none.

    cvxpy's value of a form of a column, as ``quad_form`` of shape (d, 1), is an array of one entry.
    """
    value = expression.value
    return math.nan if value is None else float(np.asarray(value, dtype=np.float64).item())


def _is_inside(expression: cp.Expression, f: Array) -> bool:
    """Return whether f, the value of the variable, is in the domain of an expression.

    Rounding may leave a value outside that a solver means to be at the end.
    """
    return outside_domain(expression) <= _AT_END * float(np.max(np.abs(f)))


def _subgradient(expression: cp.Expression, variable: cp.Variable, point: Array) -> Array:
    """Return a subgradient of an expression at a point; NaN where none is known."""
    variable.save_value(point)
    slopes = slopes_of(expression, variable)
    if slopes is None:
        return _multiplier(expression, variable, point)
    dense: Array = slopes.toarray().astype(np.float64).reshape(len(point))
    return dense


def _multiplier(expression: cp.Expression, variable: cp.Variable, point: Array) -> Array:
    """Return minus the multiplier of f = point in the minimum of the expression: a subgradient."""
    import cvxpy as cp

    held = variable == point
    problem = cp.Problem(cp.Minimize(expression), [held])
    # With a value cvxpy guesses others, and fails where all values are the largest ones.
    variable.save_value(None)
    try:
        with warnings.catch_warnings():
            # Advice on fractions for exponents.
            warnings.simplefilter("ignore")
            problem.solve(solver="CLARABEL")
    # ValueError: cvxpy takes the exponent 2.0001 for a square, and refuses it then.
    except (cp.error.SolverError, ValueError):
        return np.full(point.shape, np.nan)
    if held.dual_value is None:
        return np.full(point.shape, np.nan)
    return -np.asarray(held.dual_value, dtype=np.float64)


def _remedy(returned: Any) -> str:
    """Return what to do about something that is no expression; empty where nothing is known."""
    import cvxpy as cp

    if isinstance(returned, cp.Minimize | cp.Problem):
        return ": return the expression itself, which is minimised"
    if isinstance(returned, cp.Maximize):
        return ": return minus the expression, since a loss is minimised"
    if isinstance(returned, cp.Constraint):
        return ": state constraints by constraints.Custom"
    return ": does it end with return?" if returned is None else ""

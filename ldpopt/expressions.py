"""What functions of users return: cvxpy's expressions, checked, compared and restated."""

from __future__ import annotations

import hashlib
import inspect
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np

from ldpopt.errors import InvalidInputError, described, warn
from ldpopt.frames import is_from, labels_of

if TYPE_CHECKING:
    import cvxpy as cp

Node = Any
"""An expression, a constraint, or what cvxpy keeps in them."""


_LONGEST = 100  # letters of an expression that messages show
_LONGEST_LIST = 100  # entries of a list that is searched for tables
_MANY = 1024  # entries, of whose pairs a table would be large
_DEEPEST = 3  # levels of dictionaries and lists that are searched: data of data of a study


def shown(node: Node) -> str:
    """Return an expression as text for a message: on one line, and not all of a long one."""
    text = " ".join(str(node).split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def parameters_of(nodes: Sequence[Node]) -> list[cp.Parameter]:
    """Return the parameters in expressions or constraints, each once, in the order of their use."""
    parameters = {}
    for node in nodes:
        for parameter in node.parameters():
            parameters[parameter.id] = parameter
    return list(parameters.values())


def substituted(node: Node, replacements: Mapping[int, Any]) -> Node:
    """Return a copy of an expression or constraint with other leaves, by the ``id`` of the old.

    What has none of them is not copied.
    """
    import cvxpy as cp

    if isinstance(node, list | tuple):
        return type(node)(substituted(member, replacements) for member in node)
    if isinstance(node, cp.Variable | cp.Parameter):
        return replacements.get(node.id, node)
    leaves = [*node.variables(), *node.parameters()]
    if not any(leaf.id in replacements for leaf in leaves):
        return node
    # A new node of the same kind: users may go on with the old one.
    copied = node.copy([substituted(arg, replacements) for arg in node.args])
    # Some functions hold a parameter beside their arguments, as cp.huber does its threshold.
    for name, value in vars(node).items():
        if name != "args" and isinstance(value, cp.Expression) and value.parameters():
            setattr(copied, name, substituted(value, replacements))
    return copied


def outside_domain(node: Node) -> float:
    """Return how far outside of their domains functions are, at the values of the variables.

    Outside, cvxpy's functions are infinite, but numpy goes on with some of them: with powers of
    numbers below 0, and with quotients of squares beyond a divisor of 0. From beyond a pole no
    short way leads back, and its distance is infinite. What numpy makes NaN counts nothing here.
    """
    distance = 0.0
    nodes = [node]
    while nodes:
        part = nodes.pop()
        nodes.extend(part.args)
        if is_power(part):
            exponent = exponent_of(part)
            if not takes_negative_numbers(exponent):
                distance = max(distance, _below_zero(part.args[0], has_pole=exponent < 0))
        elif type(part).__name__ == "quad_over_lin":
            distance = max(distance, _below_zero(part.args[1], has_pole=True))
    return distance


class Slopes:
    """The derivatives of an expression by a variable, at one value after the other.

    cvxpy compiles each affine part anew for every value, which takes it a millisecond: here the
    derivatives of such a part are kept. So parameters must not change.

    Parameters
    ----------
    expression
        Any expression.
    variable
        A variable, which may be one of several.
    """

    def __init__(self, expression: cp.Expression, variable: cp.Variable) -> None:
        self._expression = expression
        self._variable = variable
        self._link: _Link | None = None

    def here(self) -> Any:
        """Return the derivative of each entry by each number, at the values of the variables.

        A sparse array of one column per entry, in the order of Fortran; None where none is known,
        or where cvxpy would make a table of all pairs of many entries for them.
        """
        if _sums_up_many(self._expression):
            return None
        try:
            with np.errstate(all="ignore"):
                if self._link is None:
                    self._link = _Link(self._expression, self._variable)
                return self._link.slopes()
        # Not every function of cvxpy states one.
        except (NotImplementedError, ValueError, TypeError, KeyError):
            return None


class _Link:
    """One function in an expression, of variables of its own that stand for its arguments.

    Each argument that depends on the variable has such a stand-in, and a link, by which its own
    derivatives follow. The variable itself, whose slopes are 1, has none.
    """

    def __init__(self, node: Node, variable: cp.Variable) -> None:
        import cvxpy as cp

        # A variable has no arguments: 1 times it is a function like any other.
        stated = 1 * node if isinstance(node, cp.Variable) else node
        self._inner: list[tuple[cp.Variable, Node, _Link | None]] = []
        self._kept: list[Any] | None = None
        arguments = []
        for argument in stated.args:
            if all(one.id != variable.id for one in argument.variables()):
                arguments.append(argument)
                continue
            stand_in = cp.Variable(argument.shape)
            link = None if isinstance(argument, cp.Variable) else _Link(argument, variable)
            self._inner.append((stand_in, argument, link))
            arguments.append(stand_in)
        self._node = stated.copy(arguments)

    def slopes(self) -> Any:
        """Return the derivatives of the function's entries by the variable, None if unknown."""
        by_arguments = self._by_arguments() if self._kept is None else self._kept
        if by_arguments is None:
            return None
        if self._node.is_affine():
            self._kept = by_arguments
        result = None
        for part, (_, _, link) in zip(by_arguments, self._inner, strict=True):
            slopes = part
            if link is not None:
                inner = link.slopes()
                if inner is None:
                    return None
                slopes = inner @ part
            result = slopes if result is None else result + slopes
        return result

    def _by_arguments(self) -> list[Any] | None:
        """Return the derivatives of the function's entries by each argument, None if unknown."""
        from scipy import sparse

        for stand_in, argument, _ in self._inner:
            stand_in.save_value(argument.value)
        gradient = self._node.grad
        slopes = [gradient[stand_in] for stand_in, _, _ in self._inner]
        if any(one is None for one in slopes):
            return None
        # That of one number by one number is a number.
        tables: list[Any] = [one if sparse.issparse(one) else np.atleast_2d(one) for one in slopes]
        return [sparse.csc_array(table) for table in tables]


def slopes_of(expression: cp.Expression, variable: cp.Variable) -> Any:
    """Return ``Slopes`` of an expression at the values of this moment, which are kept for none."""
    return Slopes(expression, variable).here()


def _sums_up_many(node: Node) -> bool:
    """Return whether cumulative sums of many entries are part of an expression."""
    is_long = type(node).__name__ == "cumsum" and node.size > _MANY
    return is_long or any(_sums_up_many(argument) for argument in node.args)


def is_power(node: Node) -> bool:
    """Return whether a node is a power with an exponent that is a number."""
    # By names, of classes that have moved between versions of cvxpy.
    return type(node).__name__ in ("Power", "PowerApprox")


def exponent_of(power: Node) -> float:
    """Return the exponent of a power; 2 of a sum of squares, 1 of what is neither."""
    if is_power(power):
        return float(getattr(power.p, "value", power.p))
    return 2.0 if type(power).__name__ == "quad_over_lin" else 1.0


def _takes_power_cone(node: Node) -> bool:
    """Return whether a solver knows a node by cones of x, 1 and x^p."""
    return is_power(node) and not node.is_constant() and exponent_of(node) not in (0, 1, 2)


def bases_of(node: Node) -> list[cp.Expression]:
    """Return the bases x of all powers x^p that take power cones, inner powers first."""
    bases = [base for argument in node.args for base in bases_of(argument)]
    return [*bases, node.args[0]] if _takes_power_cone(node) else bases


def with_bases_in_units(node: Node, units: Iterator[float]) -> Node:
    """Return an expression in which each power x^p is unit^p (x/unit)^p, for units of ``bases_of``.

    The cone of x, 1 and x^p has no unit of its own in which all three are near 1.
    """
    return _with_bases(node, lambda power: next(units) if _takes_power_cone(power) else 1.0)


def with_squares_in_units(forms: Iterable[Node], f: cp.Expression, size: float) -> list[Node]:
    """Return constraints on f with each x^p as u^p (x/u)^p, also for p = 2; u is near x.

    In a constraint solvers know a square by the cone of x and 1 ± x², which has no unit of its own
    either. Each x is looked at where frequencies are about ``size``, with the present values of
    parameters; where it has no value there, u is ``size``. f is a number times a variable. Only
    whole p count, and u is a power of two: no number is rounded.
    """

    def unit_of(part: Node) -> float:
        exponent = exponent_of(part)
        if exponent in (0, 1) or not exponent.is_integer() or part.is_constant():
            return 1.0
        here = size_of(part.args[0])
        return float(np.exp2(np.round(np.log2(here)))) if 0 < here < np.inf else size

    (variable,) = f.variables()
    variable.save_value(np.ones(variable.shape))
    # No two are equal: many a base vanishes where all are.
    variable.save_value(size * np.linspace(1.5, 0.5, f.size) / f.value)
    stated = [_with_bases(form, unit_of) for form in forms]
    variable.save_value(None)
    return stated


def size_of(node: Node) -> float:
    """Return how large the present values of an expression are; NaN where they are unknown."""
    value = node.value
    if value is None:
        return np.nan
    with np.errstate(all="ignore"):
        return float(np.sqrt(np.mean(np.square(value))))


def _with_bases(node: Node, unit_of: Callable[[Node], float]) -> Node:
    """Return an expression or constraint with powers in units; 1 leaves a node as it is.

    The unit of a node is requested after those of its arguments.
    """
    arguments = [_with_bases(argument, unit_of) for argument in node.args]
    unit = unit_of(node)
    if unit != 1:
        base, *divisors = arguments
        divided = [_in_unit(divisor) for divisor in divisors]
        of_divisor = math.prod(of_one for _, of_one in divided)
        with np.errstate(over="ignore", under="ignore"):
            factor = float(np.float64(unit) ** exponent_of(node) / of_divisor)
        # Beyond that range numbers are rounded, or infinite, and no unit is a good one.
        if sys.float_info.min <= factor < math.inf:
            return factor * node.copy([base / unit, *(divisor for divisor, _ in divided)])
    is_changed = any(new is not old for new, old in zip(arguments, node.args, strict=True))
    return node.copy(arguments) if is_changed else node


def _in_unit(divisor: cp.Expression) -> tuple[cp.Expression, float]:
    """Return the divisor of squares in a unit, a power of two, and the unit; 1 if none is known."""
    # A parameter may have no value yet, and has others later.
    value = None if divisor.parameters() else divisor.value
    # One number, of shape () or (1,); of frequencies, its size where they are looked at.
    size = 0.0 if value is None else float(np.max(np.abs(value)))
    unit = 2.0 ** math.floor(math.log2(size)) if 0 < size < math.inf else 1.0
    return divisor / unit, unit


def takes_negative_numbers(exponent: float) -> bool:
    """Return whether cvxpy's power of a negative number is finite.

    It is for the exponents 0, 1, 2, 4, 8 and so on; the sixth power is infinite there too.
    """
    return exponent == 0 or (exponent >= 1 and math.log2(exponent).is_integer())


def _below_zero(argument: cp.Expression, *, has_pole: bool) -> float:
    """Return how far the smallest number of an argument is below 0; infinity if that is a pole."""
    value = argument.value
    numbers = value.toarray() if hasattr(value, "toarray") else np.asarray(value)
    below = -float(np.min(numbers))
    if not below > 0:
        return 0.0
    return np.inf if has_pole else below


def in_uniform_units(f: cp.Expression) -> cp.Expression:
    """Return d f: frequencies in units of 1/d, in which forms of this library are stated.

    Of x/d that is x itself: a division and a product are two matrices for cvxpy to multiply.
    """
    from cvxpy.atoms.affine.binary_operators import DivExpression

    if isinstance(f, DivExpression):
        dividend, divisor = f.args
        if divisor.is_constant() and np.all(divisor.value == f.size):
            return dividend
    return f.size * f


def fingerprint(nodes: Sequence[Node], named: Mapping[int, str]) -> bytes:
    """Return what is equal for expressions that are built alike, from equal numbers.

    ``named`` states names for variables and parameters by their ``id``: one in the same role has
    another id wherever a function builds its expression again.
    """
    digest = hashlib.blake2b(digest_size=16)
    for node in nodes:
        for part in _traced(node, named):
            digest.update(part)
            # A mark between the parts: "1", "23" and "12", "3" are different.
            digest.update(b"|")
    return digest.digest()


def _traced(node: Node, named: Mapping[int, str]) -> Iterator[bytes]:
    """Yield what an expression is made of."""
    import cvxpy as cp

    if isinstance(node, list | tuple):
        yield f"{type(node).__name__}{len(node)}".encode()
        for member in node:
            yield from _traced(member, named)
    elif isinstance(node, cp.Variable | cp.Parameter):
        # Attributes decide how it is compiled.
        name = named.get(node.id, str(node.id))
        attributes = sorted(map(str, node.attributes.items()))
        yield f"{name}{node.shape}{attributes}".encode()
    elif isinstance(node, cp.Constant):
        yield from _traced(node.value, named)
    elif isinstance(node, np.ndarray | np.generic):
        yield f"{node.dtype.str}{node.shape}".encode()
        yield node.tobytes()
    elif hasattr(node, "tocoo"):  # a sparse matrix, of cvxpy or scipy
        coo = node.tocoo()
        yield from _traced([coo.data, *coo.coords], named)
        yield str(coo.shape).encode()
    elif isinstance(node, cp.Expression | cp.constraints.constraint.Constraint):
        yield type(node).__name__.encode()
        yield from _traced(list(node.args), named)
        # The last entry of a constraint is its id.
        data = list(node.get_data() or [])
        if not isinstance(node, cp.Expression):
            data = data[:-1]
        yield from _traced(data, named)
    else:
        yield repr(node).encode()


def built(what: str, build: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a user's function makes of its arguments; the first is f, of shape (d,).

    Raises
    ------
    InvalidInputError
        If the function fails.
    """
    # Anything may go wrong in a function from outside.
    try:
        return build(*arguments)
    except Exception as error:
        size = arguments[0].size
        remedy = (
            f"state it with cvxpy's functions of all {size} values, and constraints by <=, >= or =="
        )
        # Known by the words of Python and numpy, of which each remedy is about one.
        words = str(error)
        if "read-only" in words:
            remedy = "the estimate is not to be changed, let it begin with y = y.copy()"
        elif "invalid literal for int()" in words:
            remedy = "f goes by numbers from 0, such as f[estimate.labels.index('cat')]"
        elif "'numpy.ndarray' object has no attribute" in words:
            remedy = "its second argument is the array of frequencies, and a third is their noise"
        elif "'Noise' object has no attribute" in words:
            remedy = "noise.sd is the standard deviation at 0, noise.variance(f) the variance at f"
        raise InvalidInputError(
            # cvxpy's words may take several lines, and seldom say what to do.
            f"the function of {what} failed on {size} values with {described(error)}: {remedy}"
        ) from error


def warn_of_order(what: str, build: Callable[..., Any], labels: Sequence[str] | None) -> None:
    """Warn if a function reads a Series or DataFrame with an estimate's labels in another order.

    cvxpy takes the numbers of a Series by place, and says nothing. Seen is what the function finds
    around it by a name of its own, or has as a default, and what such dictionaries and lists hold.
    """
    if labels is None:
        return
    try:
        read = inspect.getclosurevars(build)
    # An object that can be called, or a function in C.
    except TypeError:
        return
    defaults = getattr(build, "__defaults__", None) or ()
    for value in _held((*read.globals.values(), *read.nonlocals.values(), *defaults)):
        index = _index_of(value)
        if index is not None and index != tuple(labels) and set(index) == set(labels):
            warn(
                f"the function of {what} reads a {type(value).__name__} whose labels stand in "
                "another order than those of the estimate, and cvxpy goes by place: unless the "
                "function does it, bring it into that order by .loc[list(estimate.labels)]"
            )


def warn_of_tables(what: str, nodes: Iterable[Node]) -> None:
    """Warn where numbers in a column stand beside as many values in a row, or the other way round.

    As numpy does, cvxpy then makes a table of all pairs: f - y of shapes (d,) and (d, 1) has the
    shape (d, d), and its squares are least where all values are equal. Pairs of values with values
    are no mistake, and neither is a product of matrices.
    """
    pending = list(nodes)
    while pending:
        node = pending.pop()
        pending.extend(node.args)
        if len(node.args) != 2 or type(node).__name__ == "MulExpression":
            continue
        sides = [_before_broadcast(arg) for arg in node.args]
        if _makes_pairs(node, sides) and bool(sides[0].variables()) != bool(sides[1].variables()):
            first, second = (f"{shown(side)} of shape {side.shape}" for side in sides)
            k = node.shape[0]
            warn(
                f"{what}: {first} and {second} make a table of {k} x {k} pairs: give both the "
                f"shape ({k},), as y.ravel() does, where their numbers belong together one by one"
            )
            return


def _before_broadcast(node: Node) -> Node:
    """Return what cvxpy brought into a larger shape."""
    return node.args[0] if type(node).__name__ == "broadcast_to" else node


def _makes_pairs(node: Node, sides: Sequence[Node]) -> bool:
    """Return whether two sides are a column and a row of as many numbers."""
    k = math.isqrt(node.size)
    if k < 2 or node.shape != (k, k):
        return False
    shapes = [side.shape for side in sides]
    return (k, 1) in shapes and ((k,) in shapes or (1, k) in shapes)


def _held(values: Iterable[object], depth: int = _DEEPEST) -> Iterator[object]:
    """Yield values, and what dictionaries, lists and tuples among them hold."""
    for value in values:
        yield value
        if depth and isinstance(value, dict):
            yield from _held(value.values(), depth - 1)
        # Long lists are of numbers.
        elif depth and isinstance(value, list | tuple) and len(value) <= _LONGEST_LIST:
            yield from _held(value, depth - 1)


def _index_of(value: object) -> tuple[str, ...] | None:
    """Return the index of a Series or DataFrame of pandas as text; None of anything else."""
    if is_from(value, "DataFrame", "pandas"):
        # By its index alone: a column of it is a Series with that index.
        return tuple(map(str, value.index))  # type: ignore[attr-defined]
    return labels_of(value) if is_from(value, "Series", "pandas") else None


def require_variables(what: str, node: Node, allowed: Sequence[cp.Variable]) -> None:
    """Raise an error if an expression or constraint has a variable besides those of f."""
    # By ``id``: to compare two variables of cvxpy makes a constraint.
    ids = {variable.id for variable in allowed}
    for variable in node.variables():
        if variable.id not in ids:
            raise InvalidInputError(
                f"{what}: {shown(node)} has the variable {variable.name()} besides f, so that no "
                "vector f alone can be checked against it: state it with cvxpy's functions of f"
            )


def require_values(what: str, node: Node, values: Mapping[int, Any]) -> None:
    """Raise an error if a parameter has no value, neither its own nor one of ``values``."""
    for parameter in node.parameters():
        if parameter.value is None and parameter.id not in values:
            raise InvalidInputError(
                f"{what}: the parameter {parameter.name()} in {shown(node)} has no value: "
                "set it first"
            )


def require_numbers(what: str, node: Node) -> None:
    """Raise an error if a constant of an expression or constraint is NaN, or infinite.

    A side of an inequality alone may have infinities where it bounds nothing.
    """
    import cvxpy as cp

    sides = node.args if isinstance(node, cp.constraints.Inequality) else []
    for constant in node.constants():
        numbers = _entries(constant.value)
        if np.isnan(numbers).any():
            raise InvalidInputError(f"{what}: a number in {shown(node)} is NaN: state another one")
        # By identity: cvxpy's == builds a constraint.
        place = next((i for i, side in enumerate(sides) if side is constant), None)
        binds = np.isinf(numbers)
        if place is not None:
            # -inf <= and <= inf.
            binds &= numbers != (-np.inf, np.inf)[place]
        if binds.any():
            raise InvalidInputError(
                f"{what}: a number in {shown(node)} is infinite: state a finite one, or leave out "
                "what it belongs to"
            )


def _entries(numbers: Any) -> Any:
    """Return the numbers of a constant of cvxpy; of a sparse one those that are there."""
    return np.asarray(numbers.data if hasattr(numbers, "tocoo") else numbers)


def without_constants(expression: cp.Expression) -> tuple[cp.Expression, Any]:
    """Return an expression without the terms that no variable changes, and these: their sum."""
    from cvxpy.atoms.affine.add_expr import AddExpression

    if not isinstance(expression, AddExpression):
        return expression, None
    varying = [arg for arg in expression.args if arg.variables()]
    constant = [arg for arg in expression.args if not arg.variables()]
    # What is all constant has its minimum everywhere.
    if not varying or not constant:
        return expression, None
    return reduce(add, varying), reduce(add, constant)


def accepts(function: Callable[..., Any], *arguments: Any) -> bool:
    """Return whether a function can be called with some arguments."""
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError:
        return False
    # A function in C may have no signature.
    except ValueError:
        return True
    return True


def why_not_convex(expression: cp.Expression) -> str:
    """Return why cvxpy's rules do not find an expression convex, as a clause."""
    culprit = _culprit(expression)
    if culprit is None:
        return (
            f"{shown(expression)} is concave, which has no lowest point inside: "
            "is its maximum meant?"
        )
    kind = type(culprit).__name__
    if kind == "AddExpression":
        concave = next(arg for arg in culprit.args if not arg.is_convex())
        return f"it adds a concave part, {shown(concave)}, to convex ones: leave that out"
    # Numbers and parameters are never what is wrong.
    varying = [arg for arg in culprit.args if arg.variables()]
    if kind in ("MulExpression", "multiply") and len(varying) > 1:
        return (
            f"{shown(culprit)} is a product of functions of f: use a square, or a number for one "
            "factor"
        )
    if kind == "DivExpression" and culprit.args[1].variables():
        return (
            f"{shown(culprit)} divides by a function of f: bound a ratio as f[0] <= 2 * f[1], or "
            "use cp.inv_pos or cp.quad_over_lin"
        )
    if kind == "QuadForm":
        return (
            "the matrix of a quadratic form must have no eigenvalue below 0: of a covariance that "
            "has no inverse, as that of GRR, take np.linalg.pinv"
        )
    if kind == "multiply" and len(varying) == 1:
        # cvxpy judges a parameter by what is stated of it, not by its value.
        return (
            f"{shown(culprit)} weighs by numbers of either sign: of raw estimates, which may be "
            "below 0, take np.maximum(y, 0); of a parameter state nonneg=True"
        )
    inner = ", ".join(map(shown, varying))
    return (
        f"{shown(culprit)} is a function of {inner} that cvxpy's rules find neither convex nor "
        "concave: apply it to a linear function of f, or use another function of cvxpy"
    )


def why_no_convex_set(form: cp.Constraint) -> str:
    """Return why cvxpy's rules do not find the set of a constraint convex, as a clause."""
    import cvxpy as cp

    if isinstance(form, cp.constraints.Equality):
        return "both sides of == must be linear in f: use <= or >= for a convex function"
    if not isinstance(form, cp.constraints.Inequality):
        return "its arguments must be linear in f"
    smaller, larger = form.args
    if not smaller.is_convex():
        if _culprit(smaller) is not None:
            return why_not_convex(smaller)
        return f"the smaller side, {shown(smaller)}, must be convex, and is concave"
    return (
        f"the larger side, {shown(larger)}, must be concave: a convex function belongs on the "
        "smaller one"
    )


def _culprit(expression: Node) -> Node | None:
    """Return the innermost part that is neither convex nor concave by the rules, or None."""
    # From the inside out: what is around a wrong part is wrong because of it.
    for arg in expression.args:
        inner = _culprit(arg)
        if inner is not None:
            return inner
    return None if expression.is_dcp() else expression

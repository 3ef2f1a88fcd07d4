"""The registry of operators: the steps of which known closed forms are composed.

An operator is a function of vectors whose parameters, such as bounds or an order, are those that
the problem states. What is known of it (applied twice it is applied once, it keeps the order of the
values, it may change places with another) spares the search compositions that are equal to others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt import closed_form
from ldpopt.discovery.setting import PARAMETERS, Setting
from ldpopt.errors import InvalidInputError, InvalidTypeError, LdpoptError
from ldpopt.losses import (
    BinomialMLE,
    GaussianMLE,
    KullbackLeibler,
    LeastSquares,
    Loss,
    MultinomialMLE,
)
from ldpopt.printable import latex_text
from ldpopt.solve.paths.closed_forms import closed_form_for
from ldpopt.validate import unknown_name

Array = NDArray[np.float64]
Function = Callable[[Array, Setting], Array]


@dataclass(frozen=True)
class Operator:
    """A function of vectors, with what is known of it.

    Attributes
    ----------
    name
        What expressions call it, without " -> ".
    text
        What it does to x, as a formula in one line.
    latex
        The same in LaTeX, with ``{x}`` where its argument goes.
    function
        From values of shape (trials, d) and a ``Setting`` to values of the same shape. A row for
        which it is not defined is NaN, if ``is_partial``.
    parameters
        Which of ``PARAMETERS`` it takes from the setting: all must be stated by the problem.
    is_idempotent
        Whether applying it twice is applying it once.
    keeps_order
        Whether values that are in some order stay in it, where all have the same bounds.
    commutes_with
        Names of operators with which it may change places.
    is_partial
        Whether there are vectors for which it is not defined.
    is_own
        Whether it was registered by a user: what it returns is then checked.
    """

    name: str
    text: str
    latex: str
    function: Function
    parameters: tuple[str, ...] = ()
    is_idempotent: bool = False
    keeps_order: bool = False
    commutes_with: frozenset[str] = frozenset()
    is_partial: bool = False
    is_own: bool = False

    def is_available(self, setting: Setting) -> bool:
        """Return whether the problem states every parameter that the operator takes."""
        return all(value is not None for value in self.values(setting).values())

    def values(self, setting: Setting) -> dict[str, Any]:
        """Return the operator's parameters as the problem states them."""
        return setting.parameters(self.parameters)

    def apply(self, values: Array, setting: Setting) -> Array:
        """Return the operator's result for values of shape (trials, d), of the same shape.

        Raises
        ------
        InvalidInputError
            If an operator of a user returns another shape, no numbers, or NaN.
        """
        # The library's own are tested: checking them would take as long as to apply them.
        if not self.is_own:
            return self.function(values, setting)
        # A copy: a function that writes to its argument would change what others get.
        returned = self.function(values.copy(), setting)
        return _checked(self.name, returned, values.shape)

    def __repr__(self) -> str:
        return f"Operator({self.name!r})"


def _checked(name: str, returned: Any, shape: tuple[int, ...]) -> Array:
    """Return what a user's operator returned as float64, or raise an error."""
    try:
        values = np.asarray(returned, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"the operator {name!r} must return an array of numbers, got {returned!r}"
        ) from None
    if values.shape != shape:
        raise InvalidInputError(
            f"the operator {name!r} must return the shape of its argument, {shape}, "
            f"got {values.shape}"
        )
    wrong = ~np.isfinite(values)
    if wrong.any():
        row, value = (int(i) for i in np.argwhere(wrong)[0])
        raise InvalidInputError(
            f"the operator {name!r} must return finite numbers, got {values[row, value]} at value "
            f"{value} of row {row}: return the argument where it is not defined"
        )
    return values


class Operators(Mapping[str, Operator]):
    """Operators by name, in the order in which the search tries them."""

    def __init__(self) -> None:
        self._operators: dict[str, Operator] = {}

    def add(self, operator: Operator) -> None:
        """Register an operator; a name that is taken raises an error."""
        if operator.name in self._operators:
            raise InvalidInputError(
                f"there is an operator {operator.name!r} already: choose another name"
            )
        self._operators[operator.name] = operator

    def remove(self, name: str) -> None:
        """Take an operator of a user out of the registry again."""
        if name not in self._operators:
            raise unknown_name("operator", name, self._operators)
        if not self._operators[name].is_own:
            raise InvalidInputError(f"{name!r} is an operator of ldpopt: only your own are removed")
        del self._operators[name]

    def __getitem__(self, name: str) -> Operator:
        return self._operators[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._operators)

    def __len__(self) -> int:
        return len(self._operators)


OPERATORS = Operators()
"""Every operator by its name: read-only but for ``register_operator``."""


def register_operator(
    name: str,
    function: Callable[..., Array],
    *,
    parameters: tuple[str, ...] = (),
    text: str = "",
    latex: str = "",
    is_idempotent: bool = False,
) -> Operator:
    """Register an operator of your own, which ``ldpopt.discover`` then tries beside the others.

    Parameters
    ----------
    name
        What expressions call it.
    function
        From values of shape (trials, d), and by keyword the parameters, to the same shape. It
        must be a function of its arguments alone, and finite for finite values.
    parameters
        What it takes from the problem, of ``discovery.PARAMETERS``. Problems that do not state all
        of them are searched without it.
    text, latex
        What it does to x, as formulas; by default its name.
    is_idempotent
        Whether applying it twice is applying it once.

    Returns
    -------
    The operator. ``OPERATORS.remove(name)`` takes it away.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the name is taken or contains "->", a parameter is unknown, or an argument has the wrong
        kind.

    Examples
    --------
    >>> import numpy as np
    >>> def halve(values, total):
    ...     return values / 2 + total / (2 * values.shape[-1])
    >>> operator = register_operator("halve", halve, parameters=("total",))
    >>> OPERATORS.remove("halve")
    """
    if not isinstance(name, str) or not name or "->" in name:
        raise InvalidTypeError(f"an operator's name must be a text without '->', got {name!r}")
    if not callable(function):
        raise InvalidTypeError(
            f"the operator {name!r} must be a function of values, got {function!r}"
        )
    for parameter in parameters:
        if parameter not in PARAMETERS:
            raise unknown_name("parameter of operators", parameter, PARAMETERS)
    operator = Operator(
        name=name,
        text=text or f"{name}(x)",
        latex=latex or rf"{latex_text(name)}\left({{x}}\right)",
        function=_Own(function, tuple(parameters)),
        parameters=tuple(parameters),
        is_idempotent=is_idempotent,
        is_own=True,
    )
    OPERATORS.add(operator)
    return operator


@dataclass(frozen=True)
class _Own:
    """A user's function with its parameters by keyword: an object that other processes can get."""

    function: Callable[..., Array]
    parameters: tuple[str, ...]

    def __call__(self, values: Array, setting: Setting) -> Array:
        return self.function(values, **setting.parameters(self.parameters))


# --- shifts, factors and clips --------------------------------------------------------------------


def _clip(values: Array, setting: Setting) -> Array:
    return np.clip(values, setting.lower, setting.upper)


def _clip_at_zero(values: Array, _: Setting) -> Array:
    return np.maximum(values, 0.0)


def _clip_above(values: Array, setting: Setting) -> Array:
    assert setting.upper is not None  # it is a parameter
    return np.asarray(np.minimum(values, setting.upper))


def _shift(values: Array, setting: Setting) -> Array:
    assert setting.total is not None
    rest = setting.total - values.sum(axis=-1, keepdims=True)
    return np.asarray(values + rest / setting.d)


def _scale(values: Array, setting: Setting) -> Array:
    assert setting.total is not None
    sums = values.sum(axis=-1)
    factors: Array = _factor(np.full(len(values), setting.total), sums)
    return np.asarray(values * factors[:, None])


def _shift_by_group(values: Array, setting: Setting) -> Array:
    groups = setting.groups
    assert groups is not None
    sizes = np.bincount(groups.of_value, minlength=groups.number)[: groups.number]
    rest = groups.totals - groups.sums(values)
    return np.asarray(values + groups.of_each(rest / sizes, 0.0))


def _scale_by_group(values: Array, setting: Setting) -> Array:
    groups = setting.groups
    assert groups is not None
    sums = groups.sums(values)
    return values * groups.of_each(_factor(np.broadcast_to(groups.totals, sums.shape), sums), 1.0)


def _factor(target: Array, sums: Array) -> Array:
    """Return target/sums, and 1 where a sum is not positive: no factor leads there."""
    return np.divide(target, sums, out=np.ones(sums.shape), where=sums > 0)


# --- pooling and means ----------------------------------------------------------------------------


def _pool(values: Array, setting: Setting) -> Array:
    assert setting.order is not None
    return setting.order.project(values)


def _pool_in_mean(values: Array, setting: Setting) -> Array:
    """Pool in the mean of the problem's loss: geometric for KL, quadratic for GaussianMLE."""
    order = setting.order
    assert order is not None
    return _in_mean(values, setting, order.project, takes_weights=order.takes_weights)


def _in_mean(
    values: Array,
    setting: Setting,
    project: Callable[..., Array],
    *,
    takes_weights: bool,
) -> Array:
    """Return what a projection makes of the loss's data; NaN where the loss is not defined."""
    result = np.full(values.shape, np.nan)
    rows = _is_defined(setting.loss, values, setting)
    if not rows.any():
        return result
    pooling = setting.loss.pooling(setting.estimate(values[rows]))
    if pooling is None or (pooling.weights is not None and not takes_weights):
        result[rows] = project(values[rows])
        return result
    data = pooling.values
    pooled = project(data, pooling.weights) if takes_weights else project(data)
    # Without a total its multiplier is 0.
    zero = np.zeros((len(data), 1))
    result[rows] = pooling.frequencies(zero, pooling.levels(zero, pooled))
    return result


def _mean_of_ties(values: Array, setting: Setting) -> Array:
    classes = setting.ties
    assert classes is not None
    sizes = np.bincount(classes)
    # Value by value: a search has thousands of rows of a dozen values.
    sums = np.zeros((len(values), len(sizes)))
    for value, number in enumerate(classes):
        sums[:, number] += values[:, value]
    means: Array = sums / sizes
    return means[:, classes]


def _mean_of_ties_in_mean(values: Array, setting: Setting) -> Array:
    """Return the mean of ties that minimises the problem's loss, such as a geometric one."""

    def project(data: Array) -> Array:
        return _mean_of_ties(data, setting)

    return _in_mean(values, setting, project, takes_weights=False)


def _tree_passes(values: Array, setting: Setting) -> Array:
    tree = setting.tree
    assert tree is not None
    return closed_form.tree_consistency(values, tree.parents, total=tree.root_total)


def _level_the_highest(values: Array, setting: Setting) -> Array:
    assert setting.count is not None
    assert setting.total is not None
    return closed_form.at_most(values, setting.count, setting.total)


# --- the minimiser of a loss under bounds and totals ----------------------------------------------


@dataclass(frozen=True)
class Root:
    """The minimiser of a separable loss under the bounds and the total, or the groups' totals.

    It depends on values through one multiplier, or one per group.
    """

    loss: Loss
    by_group: bool = False

    def __call__(self, values: Array, setting: Setting) -> Array:
        """Return the minimisers; a row for which the loss is not defined is NaN."""
        problem = setting.bounded(self.loss, by_group=self.by_group)
        result = np.full(values.shape, np.nan)
        rows = np.flatnonzero(_is_defined(self.loss, values, setting))
        if not len(rows):
            return result
        try:
            result[rows] = _minimised(values[rows], setting, problem)
        except LdpoptError:
            # A few vectors have no minimum, such as those without a positive value for KL.
            for row in rows:
                result[row] = _minimised_or_nan(values[row], setting, problem)
        return result


def _minimised(values: Array, setting: Setting, problem: Any) -> Array:
    estimate = setting.estimate(values)
    match = closed_form_for(problem, estimate)
    if match is None:
        raise InvalidInputError(f"{problem.statement} has no closed form")
    return match.evaluate()


def _minimised_or_nan(values: Array, setting: Setting, problem: Any) -> Array:
    try:
        return _minimised(values[None], setting, problem).ravel()
    except LdpoptError:
        return np.full(len(values), np.nan)


def _is_defined(loss: Loss, values: Array, setting: Setting) -> NDArray[np.bool_]:
    """Return for which rows all values are finite and such that the loss can have come from them.

    Shape (trials,).
    """
    finite = np.isfinite(values).all(axis=-1)
    if isinstance(loss, KullbackLeibler):
        return np.asarray(finite & (values > 0).any(axis=-1))
    if isinstance(loss, GaussianMLE):
        assert setting.kappa is not None
        return np.asarray(finite & (1 + setting.kappa * values > 0).all(axis=-1))
    if isinstance(loss, (BinomialMLE, MultinomialMLE)):
        assert setting.oracle is not None
        shares = setting.oracle.q + (setting.oracle.p - setting.oracle.q) * values
        return np.asarray(finite & ((shares >= 0) & (shares <= 1)).all(axis=-1))
    return np.asarray(finite)


_LOSSES: dict[str, tuple[Loss, tuple[str, ...]]] = {
    "level": (LeastSquares(), ()),
    "KL root": (KullbackLeibler(), ()),
    "weighted root": (GaussianMLE(), ("n", "kappa")),
    "binomial root": (BinomialMLE(), ("n", "p", "q")),
    "multinomial root": (MultinomialMLE(), ("n", "p", "q")),
}
"""The losses whose minimiser is an operator, with what it takes of the protocol."""

_FORMULAS = {
    "level": ("clip(x - t, lower, upper)", r"\operatorname{clip}_{[l,u]}({x} - t)"),
    "KL root": ("clip(t x, lower, upper)", r"\operatorname{clip}_{[l,u]}(t\,{x}_+)"),
    "weighted root": (
        "argmin of sum (f - x)²/(1 + kappa f)",
        r"\arg\min_f \sum_v \frac{(f_v - {x}_v)^2}{1 + \kappa f_v}",
    ),
    "binomial root": (
        "argmax of the binomial likelihood of n (q + (p - q) x)",
        r"\arg\max_f \textstyle\sum_v c_v \log P_v + (n - c_v) \log(1 - P_v),"
        r"\ c = n(q + (p-q)\,{x})",
    ),
    "multinomial root": (
        "argmax of the multinomial likelihood of n (q + (p - q) x)",
        r"\arg\max_f \textstyle\sum_v c_v \log P_v,\ c = n(q + (p-q)\,{x})",
    ),
}


def _add_standard() -> None:
    """Register the operators of the library, cheap and common ones first."""
    for operator in (
        Operator(
            "pool",
            "the nearest values in the order",
            r"\operatorname{pool}({x})",
            _pool,
            ("order",),
            is_idempotent=True,
            keeps_order=True,
            commutes_with=frozenset({"shift"}),
        ),
        Operator(
            "mean of ties",
            "the mean of each class of equal values",
            r"\overline{{x}}",
            _mean_of_ties,
            ("ties",),
            is_idempotent=True,
            commutes_with=frozenset({"shift"}),
        ),
        Operator(
            "tree passes",
            "the nearest values in which each parent is the sum of its children",
            r"\operatorname{tree}({x})",
            _tree_passes,
            ("tree",),
            is_idempotent=True,
        ),
        Operator(
            "clip",
            "clip(x, lower, upper)",
            r"\operatorname{clip}_{[l,u]}({x})",
            _clip,
            ("lower",),
            is_idempotent=True,
            keeps_order=True,
        ),
        Operator(
            "clip at 0",
            "max(x, 0)",
            r"\left({x}\right)_+",
            _clip_at_zero,
            is_idempotent=True,
            keeps_order=True,
        ),
        Operator(
            "clip above",
            "min(x, upper)",
            r"\min({x}, u)",
            _clip_above,
            ("upper",),
            is_idempotent=True,
            keeps_order=True,
        ),
        Operator(
            "shift",
            "x + t, sum = total",
            r"{x} + t",
            _shift,
            ("total",),
            is_idempotent=True,
            keeps_order=True,
            commutes_with=frozenset({"pool", "mean of ties"}),
        ),
        Operator(
            "scale",
            "t x, sum = total",
            r"t\,{x}",
            _scale,
            ("total",),
            is_idempotent=True,
            keeps_order=True,
        ),
        Operator(
            "shift by group",
            "x + t_g, sum of each group = its total",
            r"{x} + t_g",
            _shift_by_group,
            ("groups",),
            is_idempotent=True,
        ),
        Operator(
            "scale by group",
            "t_g x, sum of each group = its total",
            r"t_g\,{x}",
            _scale_by_group,
            ("groups",),
            is_idempotent=True,
        ),
        Operator(
            "level the highest",
            "max(x - t, 0) of the highest values, 0 of the others, sum = total",
            r"\operatorname{top}_k\left({x} - t\right)_+",
            _level_the_highest,
            ("count", "total"),
            is_idempotent=True,
            keeps_order=True,
        ),
        Operator(
            "pool in the loss's mean",
            "the values in the order that minimise the loss",
            r"\operatorname{pool}_\ell({x})",
            _pool_in_mean,
            ("order",),
            is_partial=True,
        ),
    ):
        OPERATORS.add(operator)
    OPERATORS.add(
        Operator(
            "mean of ties in the loss's mean",
            "the equal values that minimise the loss",
            r"\overline{{x}}^{\,\ell}",
            _mean_of_ties_in_mean,
            ("ties",),
            is_partial=True,
        )
    )
    for by_group in (False, True):
        for name, (loss, protocol) in _LOSSES.items():
            text, latex = _FORMULAS[name]
            target = "groups" if by_group else "total"
            OPERATORS.add(
                Operator(
                    f"{name} by group" if by_group else name,
                    f"{text}, {'sum of each group = its total' if by_group else 'sum = total'}",
                    latex,
                    Root(loss, by_group),
                    (target, *protocol),
                    is_idempotent=name == "level",
                    # Of one multiplier a response grows with its datum; groups differ in theirs.
                    keeps_order=not by_group,
                    is_partial=name != "level",
                )
            )


_add_standard()

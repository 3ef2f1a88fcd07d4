"""Generated source code: a composition of operators as one function without dependencies."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt.closed_form import with_margins
from ldpopt.constraints import Constraint, Linear, Near
from ldpopt.discovery.code.kernels import kernels_of
from ldpopt.discovery.code.languages import LANGUAGES
from ldpopt.discovery.code.steps import Step, steps_of
from ldpopt.discovery.compositions import expression_of
from ldpopt.discovery.operator import Operator
from ldpopt.discovery.operators import OPERATORS
from ldpopt.discovery.setting import Setting
from ldpopt.errors import InvalidInputError, UnsupportedProblemError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import (
    BinomialMLE,
    GaussianMLE,
    KullbackLeibler,
    LeastSquares,
    Loss,
    MultinomialMLE,
)
from ldpopt.solve.formulation import Formulation
from ldpopt.solve.paths.closed_forms import closed_form_for
from ldpopt.validate import unknown_name

Array = NDArray[np.float64]

_ROOTS: dict[type[Loss], str] = {
    LeastSquares: "level",
    GaussianMLE: "weighted root",
    BinomialMLE: "binomial root",
    MultinomialMLE: "multinomial root",
    KullbackLeibler: "KL root",
}
_WIDTH = 90  # of comments
_IDENTIFIER = re.compile(r"[a-zA-Z][a-zA-Z0-9_]*")


def _nearest(values: Array, setting: Setting) -> Array:
    """Return the nearest vectors of the bounds with the total, and the row or the ball."""
    parts = list(setting.bounded(LeastSquares()).constraints)
    if setting.row is not None:
        weights, low, high = setting.row
        parts.append(Linear(weights[None], low, high))
    if setting.ball is not None:
        ball = setting.ball
        parts.append(Near(ball.reference, ball.radius, norm=ball.norm))
    match = closed_form_for(Formulation(LeastSquares(), tuple(parts)), setting.estimate(values))
    assert match is not None  # one row or one ball beside a box
    return match.evaluate()


def _shifted(values: Array, setting: Setting) -> Array:
    assert setting.margins is not None  # only then is it an operator of the problem
    return with_margins(values, setting.margins)


# No operators of searches: each is all that its problem has.
_WHOLE = {
    "shift per margin": Operator(
        name="shift per margin",
        text="for each margin in turn x + (t_g - sum of x in g)/|g|, g the cells of each sum",
        latex=r"{x} + (t_g - \sum_{j \in g} {x}_j)/|g|",
        function=_shifted,
    ),
    "level in the row": Operator(
        name="level in the row",
        text="clip(x - t - s a, lower, upper), sum = total, s the smallest that meets a·f",
        latex=r"\operatorname{clip}_{[l,u]}({x} - t - s a)",
        function=_nearest,
    ),
    "level in the ball": Operator(
        name="level in the ball",
        text="clip(r + soft(x - t - r, s), lower, upper), sum = total, s the smallest that has "
        "the deviations from r sum to the radius",
        latex=r"\operatorname{clip}_{[l,u]}(r + \operatorname{soft}_s({x} - t - r))",
        function=_nearest,
    ),
    "level in the round ball": Operator(
        name="level in the round ball",
        text="clip(r + (x - t - r)/(1 + s), lower, upper), sum = total, s the smallest that has "
        "the 2-norm of the deviations from r at the radius",
        latex=r"\operatorname{clip}_{[l,u]}(r + ({x} - t - r)/(1 + s))",
        function=_nearest,
    ),
    "level in the divergence ball": Operator(
        name="level in the divergence ball",
        text="clip(f, lower, upper) where f + s log(f/r) = x - t, sum = total, s the smallest that "
        "has the divergence from r at the radius",
        latex=r"\operatorname{clip}_{[l,u]}(s\,\omega(({x} - t)/s + \log(r/s)))",
        function=_nearest,
    ),
}

_BALLS = {
    1: "level in the ball",
    2: "level in the round ball",
    "kl": "level in the divergence ball",
}
"""The operator of a ball by its norm."""


def code_of(
    problem: Formulation,
    estimate: FrequencyEstimate | ArrayLike,
    language: str = "c",
    *,
    name: str = "post_process",
) -> str:
    """Return a problem's closed form as source code that needs nothing of this library.

    Parameters
    ----------
    problem
        A problem with a closed form of least squares, ``PosteriorMean`` (the code then takes the
        posterior mean), ``GaussianMLE``, the two likelihoods or ``KullbackLeibler``, under bounds,
        totals of all values or of groups, and one order; or least squares in a ``Hierarchy``, with
        margins of a table alone, and least squares between bounds, with a total or without, beside
        one row or in one ball: of the 1-norm without weights, the 2-norm or, with a total, the
        divergence.
    estimate
        An estimate of the size and protocol that the code is for; its frequencies do not matter.
    language
        ``"numpy"``, ``"c"`` or ``"javascript"``.
    name
        The name of the function.

    Returns
    -------
    The source of one file. The function takes the estimate and, where the form needs them, q and p
    or kappa of the protocol. Bounds, totals, groups and orders are written into it. Where bounds,
    groups or an order other than 0, 1, 2, … differ between values it takes as many values as the
    estimate has, else any number.

    Raises
    ------
    InvalidInputError
        If language or name cannot be used, or problem and estimate do not fit.
    UnsupportedProblemError
        If the problem has no closed form, or one that has no source.

    Notes
    -----
    The function computes the multiplier by its own search, to the last bits of the total, and sums
    with compensation in C and JavaScript: results differ from ``problem.solve`` by rounding, and in
    a ball by what that leaves of the radius, 1e-13 of it. Cost:
    a few dozen passes; pooling is linear for chains and peaks. The comment at the top states what
    bad input does.

    Examples
    --------
    >>> from ldpopt import Problem, constraints, losses
    >>> simplex = [constraints.NonNegative(), constraints.SumsTo(1.0)]
    >>> source = code_of(Problem(losses.LeastSquares(), simplex), [0.5, 0.6], "numpy")
    >>> scope = {}
    >>> exec(source, scope)
    >>> scope["post_process"]([0.5, 0.2, -0.01]).round(3)
    array([0.603, 0.303, 0.093])
    """
    stated = problem.at(estimate)
    start = stated.accept(estimate)
    operators = registered_operators(stated, start)
    return source_of(operators, Setting.of(stated, start), language, name=name)


def source_of(
    operators: Sequence[Operator],
    setting: Setting,
    language: str = "c",
    *,
    name: str = "post_process",
) -> str:
    """Return a composition of operators as source code: see ``code_of``.

    Parameters
    ----------
    operators
        The operators, the first to be applied first.
    setting
        What they take from the problem.
    language, name
        As of ``code_of``.

    Raises
    ------
    InvalidInputError
        If there is no such language, or the name is no identifier, or taken by the language or the
        code itself.
    UnsupportedProblemError
        If an operator has no source.
    """
    if language not in LANGUAGES:
        raise unknown_name("language", language, LANGUAGES)
    if not isinstance(name, str) or not _IDENTIFIER.fullmatch(name):
        raise InvalidInputError(
            f"name must be an identifier of letters, digits and underscores, got {name!r}"
        )
    if name in LANGUAGES[language].reserved:
        raise InvalidInputError(
            f"name {name!r} is a word of {language} or of its library: choose another one"
        )
    taken = "\n".join(kernel.source for kernel in kernels_of(language).values())
    if re.search(rf"\b{name}\b", taken):
        raise InvalidInputError(f"name {name!r} is taken by the generated code: choose another one")
    steps = steps_of(tuple(operators), setting)
    what = f"{expression_of(operators) or 'the estimate itself'}: {_described(operators)}."
    about = [*textwrap.wrap(what, _WIDTH), "Generated by ldpopt (Apache-2.0)."]
    writer = LANGUAGES[language](steps, name, about, setting.d if _is_sized(steps) else None)
    return writer.source()


def _described(operators: Sequence[Operator]) -> str:
    return "; then ".join(operator.text for operator in operators) or "no step is needed"


def _is_sized(steps: Sequence[Step]) -> bool:
    """Return whether a step has numbers for each value."""
    for step in steps:
        if step.bounds is not None and any(np.ndim(bound) for bound in step.bounds):
            return True
        if any(array is not None for array in (step.arrays or {}).values()):
            return True
    return False


def registered_operators(problem: Formulation, start: FrequencyEstimate) -> tuple[Operator, ...]:
    """Return the registered closed form of a problem as a composition of operators.

    Raises
    ------
    UnsupportedProblemError
        If there is none, or it is no such composition.
    """
    match = closed_form_for(problem, start)
    if match is None:
        raise UnsupportedProblemError(
            f"{problem.statement} has no closed form: code is written for problems that have one; "
            "search for one with ldpopt.discover"
        )
    names = _names_of(problem, start)
    if names is None:
        raise UnsupportedProblemError(
            f"{problem.statement} is solved by {match.name}, which has no source to generate: code "
            "is written for bounds, totals of all values or of groups, and one order, and for "
            "least squares in a Hierarchy, with margins of a table alone, in a ball without "
            "weights or beside one row"
        )
    return tuple(_WHOLE.get(name) or OPERATORS[name] for name in names)


def _names_of(problem: Formulation, start: FrequencyEstimate) -> list[str] | None:
    """Return the names of a problem's operators in order; None where no code is known."""
    root = _ROOTS.get(problem.loss.bare.family)
    if root is None:
        return None
    if any(constraint.tree is not None for constraint in problem.constraints):
        # Two passes solve a tree of least squares, and nothing beside it.
        is_plain = root == "level" and len(problem.constraints) == 1
        return ["tree passes"] if is_plain else None
    if any(constraint.largest_support is not None for constraint in problem.constraints):
        return _names_of_few(problem, root, start.d)
    setting = Setting.of(problem, start)
    if root == "level" and setting.margins is not None:
        return ["shift per margin"]
    if root == "level" and setting.row is not None:
        return ["level in the row"]
    if root == "level" and setting.ball is not None:
        return [_BALLS[setting.ball.norm]]
    return _names_of_root(problem, start, root)


def _names_of_root(problem: Formulation, start: FrequencyEstimate, root: str) -> list[str] | None:
    """Return the pooling and the root of bounds with at most one order or one set of groups."""
    d = start.d
    orders: list[Constraint] = []
    grouped: list[Constraint] = []
    others: list[Constraint] = []
    # Each once: what is stated twice holds once.
    for constraint in dict.fromkeys(problem.constraints):
        is_order = constraint.isotonic(d) is not None
        # One group of all values is a total.
        is_grouped = constraint.disjoint_groups(d) is not None and constraint.total(d) is None
        if is_order:
            orders.append(constraint)
        if is_grouped:
            grouped.append(constraint)
        if not (is_order or is_grouped):
            others.append(constraint)
    rest = Formulation(problem.loss.bare, tuple(others))
    if not rest.is_box(d):
        return None
    # Groups cut the blocks that pooling has joined, and one another.
    if len(grouped) > 1 or (orders and grouped):
        return None
    last = [f"{root} by group"] if grouped else _last_names(rest, root, d)
    if last is None or not orders:
        return last
    return _pooled_first(problem, start, root, last)


def _pooled_first(
    problem: Formulation, start: FrequencyEstimate, root: str, last: list[str]
) -> list[str] | None:
    """Return operators behind a pooling of the data, where that may come first."""
    if not _pools_first(problem, start, root):
        return None
    pooling = "pool in the loss's mean" if root == "weighted root" else "pool"
    return [pooling, *last]


def _pools_first(problem: Formulation, start: FrequencyEstimate, root: str) -> bool:
    """Return whether pooling may come first: it needs common bounds, and one mean for all."""
    setting = Setting.of(problem, start)
    return setting.order is not None and setting.has_common_bounds and root != "KL root"


def _last_names(rest: Formulation, root: str, d: int) -> list[str] | None:
    """Return what follows the pooling on a box, with a total or without one."""
    if rest.total(d) is not None:
        return [root]
    # Without a total the divergence has another mass, and the likelihood grows for ever.
    if root in ("KL root", "multinomial root"):
        return None
    return ["clip"] if rest.constraints else []


def _names_of_few(problem: Formulation, root: str, d: int) -> list[str] | None:
    """Return the form of the nearest vector of the simplex with few positive values."""
    others = tuple(c for c in problem.constraints if c.largest_support is None)
    region = Formulation(problem.loss, others).region(d)
    is_simplex = region.is_box and region.lower_is_zero and not region.upper_count
    is_alone = len(others) == len(problem.constraints) - 1
    if root == "level" and is_alone and is_simplex and region.total is not None:
        return ["level the highest"]
    return None

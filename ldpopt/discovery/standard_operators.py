"""The operators of the library, with what is known of them, cheap and common ones first."""

from __future__ import annotations

from ldpopt.discovery import operator_functions as functions
from ldpopt.discovery.operator import Operator
from ldpopt.discovery.operator_functions import Root
from ldpopt.losses import (
    BinomialMLE,
    GaussianMLE,
    KullbackLeibler,
    LeastSquares,
    Loss,
    MultinomialMLE,
)

_MEANS = (
    Operator(
        name="pool",
        text="the nearest values in the order",
        latex=r"\operatorname{pool}({x})",
        function=functions.pool,
        parameters=("order",),
        is_idempotent=True,
        keeps_order=True,
        # The shift of all values is that of each block's mean.
        commutes_with=frozenset({"shift"}),
    ),
    Operator(
        name="mean of ties",
        text="the mean of each class of equal values",
        latex=r"\overline{{x}}",
        function=functions.mean_of_ties,
        parameters=("ties",),
        is_idempotent=True,
        commutes_with=frozenset({"shift"}),
    ),
    Operator(
        name="tree passes",
        text="the nearest values in which each parent is the sum of its children",
        latex=r"\operatorname{tree}({x})",
        function=functions.tree_passes,
        parameters=("tree",),
        is_idempotent=True,
    ),
)

_CLIPS = (
    Operator(
        name="clip",
        text="clip(x, lower, upper)",
        latex=r"\operatorname{clip}_{[l,u]}({x})",
        function=functions.clip,
        # A missing upper bound is infinite: a lower one alone is a clip too.
        parameters=("lower",),
        is_idempotent=True,
        keeps_order=True,
    ),
    Operator(
        name="clip at 0",
        text="max(x, 0)",
        latex=r"\left({x}\right)_+",
        function=functions.clip_at_zero,
        is_idempotent=True,
        keeps_order=True,
    ),
    Operator(
        name="clip above",
        text="min(x, upper)",
        latex=r"\min({x}, u)",
        function=functions.clip_above,
        parameters=("upper",),
        is_idempotent=True,
        keeps_order=True,
    ),
)

_TOTALS = (
    Operator(
        name="shift",
        text="x + t, sum = total",
        latex=r"{x} + t",
        function=functions.shift,
        parameters=("total",),
        is_idempotent=True,
        keeps_order=True,
        commutes_with=frozenset({"pool", "mean of ties"}),
    ),
    Operator(
        name="scale",
        text="t x, sum = total",
        latex=r"t\,{x}",
        function=functions.scale,
        parameters=("total",),
        is_idempotent=True,
        # Where a factor would be negative nothing is scaled.
        keeps_order=True,
    ),
    # Groups move by amounts of their own: the order between them is not kept.
    Operator(
        name="shift by group",
        text="x + t_g, sum of each group = its total",
        latex=r"{x} + t_g",
        function=functions.shift_by_group,
        parameters=("groups",),
        is_idempotent=True,
    ),
    Operator(
        name="scale by group",
        text="t_g x, sum of each group = its total",
        latex=r"t_g\,{x}",
        function=functions.scale_by_group,
        parameters=("groups",),
        is_idempotent=True,
    ),
    Operator(
        name="level the highest",
        text="max(x - t, 0) of the highest values, 0 of the others, sum = total",
        latex=r"\operatorname{top}_k\left({x} - t\right)_+",
        function=functions.level_the_highest,
        parameters=("count", "total"),
        is_idempotent=True,
        keeps_order=True,
    ),
)

# They take the values as data of the loss, so that applied again they mean something else.
_MEANS_OF_THE_LOSS = (
    Operator(
        name="pool in the loss's mean",
        text="the values in the order that minimise the loss",
        latex=r"\operatorname{pool}_\ell({x})",
        function=functions.pool_in_mean,
        parameters=("order",),
        is_partial=True,
    ),
    Operator(
        name="mean of ties in the loss's mean",
        text="the equal values that minimise the loss",
        latex=r"\overline{{x}}^{\,\ell}",
        function=functions.mean_of_ties_in_mean,
        parameters=("ties",),
        is_partial=True,
    ),
)

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


def _root(name: str, *, by_group: bool) -> Operator:
    """Return the minimiser of a loss under the bounds, and the total or those of the groups."""
    loss, protocol = _LOSSES[name]
    text, latex = _FORMULAS[name]
    totals = "sum of each group = its total" if by_group else "sum = total"
    return Operator(
        name=f"{name} by group" if by_group else name,
        text=f"{text}, {totals}",
        latex=latex,
        function=Root(loss, by_group),
        parameters=("groups" if by_group else "total", *protocol),
        # The other losses take the values for an estimate, which their minimiser is not.
        is_idempotent=name == "level",
        # Of one multiplier a response grows with its datum; groups differ in theirs.
        keeps_order=not by_group,
        is_partial=name != "level",
    )


_ROOTS = tuple(_root(name, by_group=by_group) for by_group in (False, True) for name in _LOSSES)

STANDARD = (*_MEANS, *_CLIPS, *_TOTALS, *_MEANS_OF_THE_LOSS, *_ROOTS)
"""The operators in the order in which a search tries them."""

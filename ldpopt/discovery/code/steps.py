"""Operators as steps of generated code: what each is called there, and which numbers it takes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt.discovery.operator import Operator
from ldpopt.discovery.setting import Setting
from ldpopt.errors import UnsupportedProblemError
from ldpopt.losses import GaussianMLE

Array = NDArray[Any]


@dataclass(frozen=True)
class Step:
    """One step of generated code.

    Attributes
    ----------
    kernel
        The name of its kernel.
    numbers
        Numbers that are written into the code, by name.
    bounds
        Lower and upper ends: a number for all values, or one per value.
    arrays
        Arrays of indices that are written into the code, by name; None where the kernel has a
        short way without.
    protocol
        The numbers of the protocol that it takes as arguments.
    response
        Of a level, the name of the response.
    by_group
        Whether it is applied to each group, with the group's total.
    """

    kernel: str
    numbers: dict[str, float]
    bounds: tuple[Array, Array] | None = None
    arrays: dict[str, Array | None] | None = None
    protocol: tuple[str, ...] = ()
    response: str = ""
    by_group: bool = False

    @property
    def kernels(self) -> list[str]:
        """The kernels that the step takes."""
        names = [self.kernel]
        if self.response:
            names.append(f"response {self.response}")
        return [*names, "by group"] if self.by_group else names


def steps_of(operators: tuple[Operator, ...], setting: Setting) -> list[Step]:
    """Return the steps of a composition.

    Raises
    ------
    UnsupportedProblemError
        If an operator has no source: one of a user, or pooling in a way that is not written yet.
    """
    steps: list[Step] = []
    for operator in operators:
        name = operator.name.removesuffix(" by group")
        write = _WRITERS.get(name)
        if write is None or operator.is_own:
            written = ", ".join(map(repr, _WRITERS))
            raise UnsupportedProblemError(
                f"the operator {operator.name!r} has no source to generate: code is written for "
                f"compositions of {written}"
            )
        steps += write(setting, operator.name != name)
    return steps


def _ends(setting: Setting) -> tuple[Array, Array]:
    """Return lower and upper bounds, numbers where all values have the same."""
    lower = np.asarray(-np.inf) if setting.lower is None else _shortened(setting.lower)
    upper = np.asarray(np.inf) if setting.upper is None else _shortened(setting.upper)
    return lower, upper


def _shortened(bound: Array) -> Array:
    return bound[0] if np.all(bound == bound[0]) else bound


def _groups(setting: Setting) -> dict[str, Array | None]:
    assert setting.groups is not None
    return {"group": setting.groups.of_value, "totals": setting.groups.totals}


def _of_total(kernel: str) -> Callable[[Setting, bool], list[Step]]:
    def write(setting: Setting, by_group: bool) -> list[Step]:
        if by_group:
            return [Step(kernel, {}, arrays=_groups(setting), by_group=True)]
        return [Step(kernel, {"total": float(setting.total or 0.0)})]

    return write


def _of_loss(response: str, protocol: tuple[str, ...]) -> Callable[[Setting, bool], list[Step]]:
    def write(setting: Setting, by_group: bool) -> list[Step]:
        bounds = _ends(setting)
        # A divergence is finite at 0 alone where the estimate is not positive.
        has_zeros = response == "KL" and bool(np.any(bounds[0] > 0))
        steps = [Step("support", {}, bounds)] if has_zeros else []
        if not by_group:
            numbers = {"total": float(setting.total or 0.0)}
            return [*steps, Step("level", numbers, bounds, None, protocol, response)]
        arrays = _groups(setting)
        steps.append(Step("level", {}, bounds, arrays, protocol, response, by_group=True))
        if _leaves_some(setting):
            if response in ("KL", "multinomial"):
                raise UnsupportedProblemError(
                    f"code for the {response} root by group needs a group for every value: state "
                    "the total of all values too"
                )
            # Values in no group are free between their bounds; the others are there already.
            steps.append(Step("clip", {}, bounds))
        return steps

    return write


def _leaves_some(setting: Setting) -> bool:
    groups = setting.groups
    assert groups is not None
    return bool((groups.of_value == groups.number).any())


def _clip(setting: Setting, _: bool) -> list[Step]:
    return [Step("clip", {}, _ends(setting))]


def _clip_at_zero(_: Setting, __: bool) -> list[Step]:
    return [Step("clip", {}, (np.asarray(0.0), np.asarray(np.inf)))]


def _clip_above(setting: Setting, _: bool) -> list[Step]:
    return [Step("clip", {}, (np.asarray(-np.inf), _ends(setting)[1]))]


def _pool(setting: Setting, _: bool) -> list[Step]:
    order = setting.order
    if order is not None and order.top_set is not None:
        return [Step("top set", {}, arrays={"member": order.top_set.astype(np.int64)})]
    forest = None if order is None else order.forest
    if forest is None:
        raise UnsupportedProblemError(
            "code for pooling is written for chains, trees, peaks and top sets, not for other "
            "partial orders, whose flows would take a library: solve these with problem.solve"
        )
    parents = np.asarray(forest.parents)
    size = len(parents)
    # The number of a node is its place: those above it come first.
    place = np.empty(size, dtype=np.int64)
    place[_topological(parents)] = np.arange(size)
    above = np.full(size, size)
    is_below = parents >= 0
    above[place[is_below]] = place[parents[is_below]]
    node = place if forest._node is None else place[forest._node]
    is_chain = bool(np.array_equal(above, [size, *range(size - 1)]))
    is_plain = bool(np.array_equal(node, np.arange(len(node))))
    arrays = {"node": None if is_plain else node, "parent": None if is_chain else above}
    return [Step("pool values", {"nodes": size, "sign": forest.sign}, arrays=arrays)]


def _topological(parents: Array) -> Array:
    """Return the nodes of a forest, each behind its parent."""
    depth = np.zeros(len(parents), dtype=np.int64)
    if np.array_equal(parents, np.arange(-1, len(parents) - 1)):
        return np.arange(len(parents))
    for node in range(len(parents)):
        path = []
        while parents[node] >= 0 and depth[node] == 0:
            path.append(node)
            node = parents[node]
        for step, below in enumerate(reversed(path), start=1):
            depth[below] = depth[node] + step
    return np.argsort(depth, kind="stable")


def _pool_in_mean(setting: Setting, by_group: bool) -> list[Step]:
    if setting.loss.family is not GaussianMLE or setting.kappa is None:
        raise UnsupportedProblemError(
            f"code for pooling in the mean of {setting.loss!r} is not written: only GaussianMLE() "
            "has it, and losses that pool by plain means"
        )
    variance = {"protocol": ("kappa",)}
    return [
        Step("variance mean", {"into": 1.0}, **variance),  # type: ignore[arg-type]
        *_pool(setting, by_group),
        Step("variance mean", {"into": 0.0}, **variance),  # type: ignore[arg-type]
    ]


def _ties(setting: Setting, _: bool) -> list[Step]:
    assert setting.ties is not None
    groups = float(setting.ties.max() + 1)
    return [Step("ties", {"groups": groups}, arrays={"group": setting.ties})]


def _tree(setting: Setting, _: bool) -> list[Step]:
    assert setting.tree is not None
    parents = np.asarray(setting.tree.parents)
    above = np.where(parents < 0, len(parents), parents)
    total = setting.tree.root_total
    arrays: dict[str, Array | None] = {"parent": above, "order": _topological(parents)}
    return [Step("tree", {"total": np.nan if total is None else total}, arrays=arrays)]


def _of_deviations(kernel: str) -> Callable[[Setting, bool], list[Step]]:
    """Return the step of a ball in a norm: bounds and total are those of deviations."""

    def write(setting: Setting, _: bool) -> list[Step]:
        assert setting.ball is not None
        reference = setting.ball.reference
        lower, upper = (
            _shortened(np.broadcast_to(end, reference.shape) - reference) for end in _ends(setting)
        )
        total = np.nan if setting.total is None else setting.total - math.fsum(reference)
        numbers = {"total": total, "radius": setting.ball.radius}
        return [Step(kernel, numbers, (lower, upper), {"reference": reference})]

    return write


def _divergence(setting: Setting, _: bool) -> list[Step]:
    """Return the step of a ball of the divergence, in which f is not negative."""
    assert setting.ball is not None
    lower, upper = _ends(setting)
    total = np.nan if setting.total is None else setting.total
    numbers = {"total": total, "radius": setting.ball.radius}
    bounds = (np.maximum(lower, 0.0), upper)
    return [Step("divergence ball", numbers, bounds, {"reference": setting.ball.reference})]


def _row(setting: Setting) -> list[Step]:
    assert setting.row is not None
    weights, low, high = setting.row
    total = np.nan if setting.total is None else setting.total
    numbers = {"total": total, "low": low, "high": high}
    return [Step("row", numbers, _ends(setting), {"weights": weights})]


def _margins(setting: Setting, _: bool) -> list[Step]:
    """Return one shift of groups per margin: each keeps the margins that were met before."""
    margins = setting.margins
    assert margins is not None  # only then is it an operator of the problem
    steps = []
    for margin in margins.margins:
        arrays: dict[str, Array | None] = {
            "group": margins.group_of_cells(margin),
            "totals": margin.sums.ravel(),
        }
        steps.append(Step("shift", {}, arrays=arrays, by_group=True))
    return steps


def _highest(setting: Setting, _: bool) -> list[Step]:
    numbers = {"k": float(setting.count or 0), "total": float(setting.total or 0.0)}
    return [Step("highest", numbers)]


_WRITERS: dict[str, Callable[[Setting, bool], list[Step]]] = {
    "pool": _pool,
    "pool in the loss's mean": _pool_in_mean,
    "mean of ties": _ties,
    "tree passes": _tree,
    "clip": _clip,
    "clip at 0": _clip_at_zero,
    "clip above": _clip_above,
    "shift": _of_total("shift"),
    "scale": _of_total("scale"),
    "shift per margin": _margins,
    "level": _of_loss("level", ()),
    "level the highest": _highest,
    "level in the row": lambda setting, _: _row(setting),
    "level in the ball": _of_deviations("ball"),
    "level in the round ball": _of_deviations("round ball"),
    "level in the divergence ball": _divergence,
    "KL root": _of_loss("KL", ()),
    "weighted root": _of_loss("weighted", ("kappa",)),
    "binomial root": _of_loss("binomial", ("q", "p")),
    "multinomial root": _of_loss("multinomial", ("q", "p")),
}

"""Compositions of operators in order of length, without those that are equal to shorter ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from ldpopt.discovery.operator import Operator
from ldpopt.discovery.operators import OPERATORS
from ldpopt.discovery.setting import Setting

Array = NDArray[np.float64]

ARROW = " -> "
"""What stands between the operators of an expression, the first to be applied first."""

Composition = tuple[Operator, ...]


def expression_of(operators: Iterable[Operator]) -> str:
    """Return operators as an expression, such as ``pool -> level``."""
    return ARROW.join(operator.name for operator in operators)


def composed(operators: Composition, values: Array, setting: Setting) -> Array:
    """Return a composition at values of shape (..., d), of the same shape."""
    rows = values.reshape(-1, values.shape[-1])
    for operator in operators:
        # What an earlier operator is not defined for, no later one is.
        defined = np.isfinite(rows).all(axis=-1)
        result = np.full(rows.shape, np.nan)
        if defined.any():
            result[defined] = operator.apply(rows[defined], setting)
        rows = result
    return rows.reshape(values.shape)


def available(setting: Setting, chosen: Sequence[Operator] | None = None) -> list[Operator]:
    """Return the operators whose parameters the problem states, in the registry's order."""
    candidates = list(OPERATORS.values()) if chosen is None else list(chosen)
    return [operator for operator in candidates if operator.is_available(setting)]


def is_redundant(prefix: Composition, following: Operator, setting: Setting) -> bool:
    """Return whether a composition with one more operator is equal to another one.

    By what is known of the operators alone:

    - an idempotent operator applied again changes nothing, nor does it after operators with which
      it may change places,
    - of two neighbours that may change places one sequence is tried, by name,
    - pooling again changes nothing where all operators between keep the order.
    """
    # Operators that change places with it are passed by: it may meet itself behind them.
    for last in reversed(prefix):
        if last.name == following.name:
            return following.is_idempotent
        if last.name not in following.commutes_with:
            break
    if not prefix:
        return False
    last = prefix[-1]
    if last.name in following.commutes_with and following.name < last.name:
        return True
    return following.name == "pool" and _is_pooled(prefix, setting)


def _is_pooled(prefix: Composition, setting: Setting) -> bool:
    """Return whether the values already keep the order: pooled, and since then in order."""
    for operator in reversed(prefix):
        if operator.name == "pool":
            return True
        if not (operator.keeps_order and setting.has_common_bounds):
            return False
    return False

"""Numbers in place of symbols: how far a stated condition is from holding at a point.

Expressions are read as they are printed, so that a wrong sign in a condition shows as a residual.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from ldpopt.solve.kkt.notation import Condition, Expression

Array = NDArray[Any]

# Functions of any number of arguments in sympy, taken two at a time here.
_OF_TWO: dict[Any, Callable[..., Any]] = {
    sp.Add: np.add,
    sp.Max: np.maximum,
    sp.Min: np.minimum,
    sp.Pow: np.power,
    sp.KroneckerDelta: lambda left, right: np.equal(left, right).astype(np.float64),
}
_OF_ONE: dict[Any, Callable[..., Any]] = {
    sp.log: np.log,
    sp.exp: np.exp,
    sp.Abs: np.abs,
    sp.sign: np.sign,
}


def _product(factors: tuple[Any, ...], values: list[Any]) -> Any:
    """Return a product in which 0 · log 0 is 0, its limit: so divergences are defined at 0."""
    product: Any = np.asarray(1.0)
    logarithms = []
    for factor, value in zip(factors, values, strict=True):
        if factor.func is sp.log:
            logarithms.append(value)
        else:
            product = np.multiply(product, value)
    # Logarithms last: only then is it known whether what they multiply is 0.
    for logarithm in logarithms:
        is_limit = (product == 0) & np.isneginf(logarithm)
        product = np.where(is_limit, 0.0, product * logarithm)
    return product


class Numbers:
    """Numbers of symbols, and how far indices run.

    Parameters
    ----------
    arrays
        The numbers of indexed symbols and of single ones, by name.
    ranges
        How many places each index has, by its name; or the places themselves, of a sum over a set.
    """

    def __init__(self, arrays: Mapping[str, Array], ranges: Mapping[str, int | Array]) -> None:
        self._arrays = arrays
        self._ranges = ranges

    def places_of(self, index: Any) -> Array:
        """Return the places over which an index runs."""
        # A number is one of places, and an array holds places.
        limit = self._ranges[index.name]
        return np.arange(limit) if isinstance(limit, int) else limit

    def value(self, expression: Expression, places: Mapping[str, Array]) -> Array:
        """Return the value of an expression; ``places`` are the indices that stand open in it."""
        # Powers of negative numbers and logarithms of 0 give NaN, which the caller judges.
        with np.errstate(all="ignore"):
            return np.asarray(self._of(sp.sympify(expression), places))

    def _of(self, node: Any, places: Mapping[str, Array]) -> Any:
        if node.is_Number or node.is_NumberSymbol:
            return float(node)
        if node is sp.zoo:
            # What sympy makes of the logarithm of a total of 0.
            return np.inf
        if isinstance(node, sp.Indexed):
            # Indices may be indexed themselves, as in f[a_i], and numbers come as floats.
            indices = tuple(np.asarray(self._of(i, places)).astype(int) for i in node.indices)
            return self._arrays[node.base.name][indices]
        if isinstance(node, sp.Symbol):
            # An index that stands open hides a symbol of the same name.
            return places[node.name] if node.name in places else self._arrays[node.name]
        if isinstance(node, sp.Sum):
            return self._sum(node, places)
        values = [self._of(argument, places) for argument in node.args]
        if node.func is sp.Mul:
            return _product(node.args, values)
        if node.func in _OF_ONE:
            return _OF_ONE[node.func](*values)
        if node.func in _OF_TWO:
            return reduce(_OF_TWO[node.func], map(np.asarray, values))
        # A function that no condition had so far: a wrong number would look like a residual.
        raise TypeError(f"no number is known for {node.func}")

    def _sum(self, node: Any, places: Mapping[str, Array]) -> Any:
        index = node.limits[0][0]
        # One axis more, on which the index runs: all that stands outside is constant along it.
        inner = {name: np.asarray(place)[..., None] for name, place in places.items()}
        # Of a sum over a set, as "j ∈ S", the summand has the letter alone.
        inner[index.name.split()[0]] = self.places_of(index)
        term = np.asarray(self._of(node.function, inner), dtype=np.float64)
        # A term that is the same for all places counts once for each of them.
        shape = np.broadcast_shapes(*[np.shape(place) for place in inner.values()])
        return np.broadcast_to(term, shape).sum(axis=-1)

    def residual(self, condition: Condition, d: int) -> float:
        """Return by how much a condition fails where it fails most; 0 where it holds."""
        return self.excess(condition.relation, condition.where, d)

    def excess(self, relation: Expression, where: Any, d: int) -> float:
        """Return by how much a relation fails at the indices for which it is stated."""
        # A condition of one number leaves no index open.
        places = {}
        if where.index is not None:
            members = self.places_of(where.index)
            if where.members is not None:
                members = where.members(d, self._arrays)
            places = {where.index.name: members}
        difference = self.value(relation.lhs, places) - self.value(relation.rhs, places)
        if isinstance(relation, sp.Ge | sp.Gt):
            failure = np.maximum(-difference, 0.0)
        elif isinstance(relation, sp.Le | sp.Lt):
            failure = np.maximum(difference, 0.0)
        else:
            failure = np.abs(difference)
        # No value at all may be meant, as where no row has an upper bound: nothing fails.
        if not failure.size:
            return 0.0
        # NaN is no number that a condition may have: it counts as failed by any amount.
        return float(np.max(np.where(np.isnan(failure), np.inf, failure)))

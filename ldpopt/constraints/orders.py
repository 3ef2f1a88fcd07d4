"""Known orders of the values, along which f does not increase."""

from __future__ import annotations

import reprlib
from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.closed_form.forests import narrow
from ldpopt.closed_form.rows import is_long, locked_rows
from ldpopt.constraints.base import LinearInequalities, Polyhedron
from ldpopt.constraints.isotonic import (
    ForestOrder,
    PartialOrder,
    TopSetOrder,
    order_of,
    towards,
)
from ldpopt.errors import InvalidInputError, users_code
from ldpopt.printable import counted, latex_text

Array = NDArray[np.float64]
Index = NDArray[np.int64]


class Order(Polyhedron):
    """Base class of partial orders of the values: pairs (a, b) with f[a] >= f[b]."""

    _is_general = True
    _definitions = Polyhedron._definitions | {"pairs"}
    _statements = Polyhedron._statements | {"pairs", "chain", "forest"}

    @abstractmethod
    def pairs(self, d: int) -> Index:
        """Return the pairs, shape (m, 2)."""

    def require_definition(self, d: int) -> None:
        """Raise an error unless the pairs are those of an order."""
        what = f"the pairs of {self!r}"
        with users_code(what):
            pairs = self.pairs(d)
        is_array = isinstance(pairs, np.ndarray) and pairs.dtype.kind in "iu"
        if not (is_array and pairs.ndim == 2 and pairs.shape[1] == 2):
            raise InvalidInputError(
                f"{what} must be an array of whole numbers of shape (m, 2), got "
                f"{reprlib.repr(pairs)}"
            )
        is_outside = ((pairs < 0) | (pairs >= d)).any(axis=1)
        if is_outside.any():
            at = int(np.argmax(is_outside))
            raise InvalidInputError(
                f"{what} must be of the values 0 .. {d - 1}, found {_shown(pairs[at])} at position "
                f"{at}"
            )
        _require_order(what, pairs)

    @property
    def chain(self) -> Index | None:
        """The values from the largest to the smallest where the order is one chain, else None."""
        return None

    @property
    def is_in_units(self) -> bool:
        """True: values are compared with each other."""
        return True

    def rows(self, d: int) -> LinearInequalities:
        """Return one row of differences per pair."""
        from scipy import sparse

        pairs = self.pairs(d)
        m = len(pairs)
        # Each row has 1 for the larger value and -1 for the smaller one.
        row = np.repeat(np.arange(m), 2)
        signs = np.tile([1.0, -1.0], m)
        matrix = sparse.csr_array((signs, (row, pairs.reshape(-1))), shape=(m, d))
        return LinearInequalities(matrix, np.zeros(m), np.full(m, np.inf))

    def violation(self, f: Array) -> Array:
        """Return by how much a lower value of a pair exceeds the higher one."""
        if is_long(f.shape[-1]):
            return self._violation_of_long(f)
        # A chain has its pairs side by side: without its index twice, and without a matrix.
        if self.chain is not None:
            excess = np.diff(f[..., self.chain], axis=-1)
        else:
            higher, lower = self.pairs(f.shape[-1]).T
            excess = f[..., lower] - f[..., higher]
        return np.asarray(excess.max(axis=-1, initial=0.0))

    def _violation_of_long(self, f: Array) -> Array:
        d = f.shape[-1]
        of_rows = _kept_measure(self, d) if self.is_settled else self._measure(d)
        return of_rows(locked_rows(f)).reshape(f.shape[:-1])

    def _measure(self, d: int) -> Callable[[Array], Array]:
        """Return the compiled sweep that takes the violations of vectors, shape (trials, d).

        Those of a chain as numbered and of a forest are read forward, in whatever order the pairs
        were stated.
        """
        # All import numba.
        from ldpopt.constraints.violation_kernels import (
            largest_rises,
            largest_rises_in_forest,
            largest_steps,
        )

        self.validate_for(d)
        if self.chain is not None:
            if np.array_equal(self.chain, np.arange(d)):
                return lambda rows: largest_steps(rows, 0, d - 1, 1.0)
            sides = (narrow(self.chain[:-1]), narrow(self.chain[1:]))
            return lambda rows: largest_rises(rows, *sides)
        # An order of the user's own may leave it to us: compiled code would read beyond the vector.
        validate.whole_numbers("pairs", self.pairs(d), low=0, high=d - 1)
        forest = self.forest(d)
        if forest is not None:
            parents, sign = forest
            above = narrow(np.where(parents < 0, np.arange(d), parents))
            return lambda rows: largest_rises_in_forest(rows, above, float(sign))
        higher, lower = map(narrow, self.pairs(d).T)
        return lambda rows: largest_rises(rows, higher, lower)

    def row_name(self, row: int, d: int) -> str:
        """Return the pair."""
        a, b = self.pairs(d)[row]
        return f"f[{a}] >= f[{b}]"

    def isotonic(self, d: int) -> ForestOrder | PartialOrder:
        """Return the forest that the order makes, or the partial order of its pairs."""
        return _kept_isotonic(self, d) if self.is_settled else self._isotonic(d)

    def _isotonic(self, d: int) -> ForestOrder | PartialOrder:
        if self.chain is not None and len(self.chain) == d:
            return ForestOrder.of_chain(self.chain)
        forest = self.forest(d)
        if forest is not None:
            return ForestOrder(*forest)
        # Pairs that follow from others may still make a forest, which takes a search.
        return order_of(self.pairs(d), d)

    def forest(self, d: int) -> tuple[Index, int] | None:
        """Return the parents of the values and a sign; None if the order is no forest.

        sign·f of a value is at most that of its parent, so that the sign is -1 where roots are the
        lowest values; the parent is -1 for a root.
        """
        pairs = self.pairs(d)
        # Roots may be the highest values of their trees, or all of them the lowest.
        for child, parent, sign in ((1, 0, 1), (0, 1, -1)):
            parents = np.full(d, -1)
            parents[pairs[:, child]] = pairs[:, parent]
            # A value with two parents keeps the later one, so that a pair is missing.
            if np.count_nonzero(parents >= 0) == len(pairs):
                return parents, sign
        return None


@lru_cache(maxsize=4)
def _kept_isotonic(order: Order, d: int) -> ForestOrder | PartialOrder:
    # One solve needs it several times, and orders are solved again and again.
    return order._isotonic(d)


@lru_cache(maxsize=4)
def _kept_measure(order: Order, d: int) -> Callable[[Array], Array]:
    # One solve needs it for each point that it judges.
    return order._measure(d)


class Monotone(Order):
    """f does not increase along ``order``: f[order[0]] >= f[order[1]] >= …, or along many pairs.

    Parameters
    ----------
    order
        Distinct indices or labels of the estimate, the most frequent value first; or pairs of shape
        (m, 2), where (a, b) states f[a] >= f[b]: a tree, several chains, any partial order. Values
        outside it are free.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If an index or a pair is repeated, a pair has one value twice, or pairs go round in a cycle
        (it is named).

    Examples
    --------
    >>> float(Monotone([2, 0, 1]).violation(np.array([0.5, 0.25, 0.25])))
    0.25
    >>> float(Monotone([(0, 1), (0, 2)]).violation(np.array([0.25, 0.5, 0.25])))
    0.25
    """

    order: Index | None
    """The chain, if one was given: it has a faster algorithm than a forest."""

    of_values: ClassVar[Mapping[str, int]] = {"order": 1}

    def __init__(self, order: ArrayLike) -> None:
        validate.no_labels("order", order)
        given = validate.array("order", order)
        if given.ndim == 0:
            raise InvalidInputError(
                f"order must be a chain of indices or pairs of shape (m, 2), got {given}"
            )
        # A chain of two values and a pair differ by their shape alone.
        if given.ndim == 2:
            self.order = None
            self._pairs = _checked_pairs(given)
        else:
            chain = validate.distinct_indices("order", given)
            self.order = chain
            # Neighbours suffice: all other pairs of a chain follow from theirs.
            self._pairs = np.stack([chain[:-1], chain[1:]], axis=1)

    @property
    def latex(self) -> str:
        """The set in LaTeX."""
        if self.order is None:
            return rf"f_a \ge f_b \text{{ for }} {len(self._pairs)} \text{{ pairs }} (a, b)"
        return r"f_{v_1} \ge f_{v_2} \ge \dots"

    def validate_for(self, d: int) -> None:
        """Raise an error if an index is outside the domain."""
        # A chain of one value has no pair, but must still be in the domain.
        indices = self._pairs if self.order is None else self.order
        validate.whole_numbers(f"order of {type(self).__name__}", indices, low=0, high=d - 1)

    @property
    def chain(self) -> Index | None:
        """The order as given, unless it was given in pairs."""
        return self.order

    def pairs(self, d: int) -> Index:
        """Return the pairs as given, or the neighbours of the chain."""
        return self._pairs

    def __repr__(self) -> str:
        if self.order is None:
            return f"Monotone(<{counted(len(self._pairs), 'pair')}>)"
        return f"Monotone(<{counted(len(self.order), 'value')}>)"


class Unimodal(Order):
    """f rises up to the index ``mode`` and falls after it: f_0 <= … <= f_mode >= … >= f_{d-1}.

    Parameters
    ----------
    mode
        Index or label of the highest value, where the indices are in the order of a scale, such as
        ages or hours.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the mode is not a whole number >= 0.

    Examples
    --------
    >>> float(Unimodal(1).violation(np.array([0.5, 0.25, 0.25])))
    0.25
    """

    of_values: ClassVar[Mapping[str, int]] = {"mode": 0}

    def __init__(self, mode: int) -> None:
        self.mode = validate.integer("mode", mode, minimum=0)

    @property
    def latex(self) -> str:
        """The set in LaTeX."""
        mode = self._as_stated("mode", self.mode)
        shown = latex_text(mode) if isinstance(mode, str) else mode
        return rf"f_0 \le \dots \le f_{{{shown}}} \ge \dots \ge f_{{d-1}}"

    def validate_for(self, d: int) -> None:
        """Raise an error if the mode is outside the domain."""
        validate.whole_numbers(f"mode of {type(self).__name__}", self.mode, low=0, high=d - 1)

    def pairs(self, d: int) -> Index:
        """Return the neighbours, of each pair first the value nearer to the mode."""
        left = np.arange(d - 1)
        right = left + 1
        rising = np.stack([right, left], axis=1)
        falling = np.stack([left, right], axis=1)
        return np.where((left < self.mode)[:, None], rising, falling)

    def violation(self, f: Array) -> Array:
        """Return by how much a value exceeds its neighbour nearer to the mode."""
        if is_long(f.shape[-1]):
            return self._violation_of_long(f)
        # Slices end at a vector without the mode, as if it had one.
        if self.mode >= f.shape[-1]:
            self.validate_for(f.shape[-1])
        excess = np.zeros(f.shape[:-1])
        # Two slices: pairs of all neighbours would be read one by one.
        for part, sign in ((f[..., : self.mode + 1], -1), (f[..., self.mode :], 1)):
            excess = np.maximum(excess, (sign * np.diff(part)).max(axis=-1, initial=0.0))
        return excess

    def _violation_of_long(self, f: Array) -> Array:
        from ldpopt.constraints.violation_kernels import largest_steps  # imports numba

        # Compiled code would read beyond a vector without the mode.
        self.validate_for(f.shape[-1])
        rows = locked_rows(f)
        rising = largest_steps(rows, 0, self.mode, -1.0)
        falling = largest_steps(rows, self.mode, f.shape[-1] - 1, 1.0)
        return np.maximum(rising, falling).reshape(f.shape[:-1])

    def forest(self, d: int) -> tuple[Index, int]:
        """Return the neighbour nearer to the mode as parent of each value."""
        # Two chains that meet at the mode, each of them rising towards it.
        return towards(self.mode, d), 1

    def __repr__(self) -> str:
        return f"Unimodal({self._as_stated('mode', self.mode)!r})"


class TopSet(Polyhedron):
    """Each of some values is at least as frequent as every other one: a known top k, unordered.

    Parameters
    ----------
    indices
        Distinct indices of the domain, or labels of the estimate.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If an index is repeated, negative or no whole number.

    Examples
    --------
    >>> float(TopSet([0, 1]).violation(np.array([0.5, 0.125, 0.25, 0.125])))
    0.125
    >>> from ldpopt import Problem, constraints, losses
    >>> simplex = [constraints.NonNegative(), constraints.SumsTo(1.0)]
    >>> known = Problem(losses.LeastSquares(), [*simplex, TopSet([0, 1])])
    >>> known.solve([0.5, 0.1, 0.3, 0.1]).frequencies
    array([0.5, 0.2, 0.2, 0.1])
    """

    of_values: ClassVar[Mapping[str, int]] = {"indices": 1}

    def __init__(self, indices: ArrayLike) -> None:
        self.indices = validate.distinct_indices("indices", indices)

    @property
    def latex(self) -> str:
        """The set in LaTeX."""
        return r"f_t \ge f_v \text{ for } t \in T, \, v \notin T"

    def validate_for(self, d: int) -> None:
        """Raise an error if an index is outside the domain."""
        what = f"indices of {type(self).__name__}"
        validate.whole_numbers(what, self.indices, low=0, high=d - 1)

    def violation(self, f: Array) -> Array:
        """Return by how much the most frequent other value exceeds the least frequent member."""
        if not 0 < len(self.indices) < f.shape[-1]:
            self.validate_for(f.shape[-1])
            return np.zeros(f.shape[:-1])
        lowest = f[..., self.indices].min(axis=-1)
        others = f.copy()
        others[..., self.indices] = -np.inf
        highest = others.max(axis=-1)
        return np.asarray(np.maximum(highest - lowest, 0.0))

    @property
    def is_in_units(self) -> bool:
        """True: values are compared with each other."""
        return True

    def rows(self, d: int) -> LinearInequalities:
        """Return f_v - t >= 0 for the members and t - f_v >= 0 for the others, with one t."""
        from scipy import sparse

        # Pairs of a member and another value would be as many as their product.
        sign = np.where(self.members(d), 1.0, -1.0)
        return LinearInequalities(
            sparse.diags_array(sign, format="csr"),
            np.zeros(d),
            np.full(d, np.inf),
            sparse.csr_array(-sign[:, None]),
        )

    def face(self, f: Array, near: float) -> LinearInequalities | None:
        """Return that all other members are at least, all others at most the smallest member of f.

        Which member is smallest is taken from f, so that no further variable is needed. Where
        members are tied at the minimum, each of them will do.
        """
        from scipy import sparse

        d = len(f)
        if not 0 < len(self.indices) < d:
            return None
        is_member = self.members(d)
        smallest = int(self.indices[np.argmin(f[self.indices])])
        rest = np.delete(np.arange(d), smallest)
        sign = np.where(is_member[rest], 1.0, -1.0)
        count = d - 1
        rows = np.arange(count)
        entries = np.concatenate([sign, -sign])
        places = (np.tile(rows, 2), np.concatenate([rest, np.full(count, smallest)]))
        matrix = sparse.csr_array((entries, places), shape=(count, d))
        return LinearInequalities(matrix, np.zeros(count), np.full(count, np.inf))

    def isotonic(self, d: int) -> TopSetOrder:
        """Return the order of members and others."""
        return TopSetOrder(self.members(d))

    def row_name(self, row: int, d: int) -> str:
        """Return the constraint: only all its rows together state it."""
        return repr(self)

    def members(self, d: int) -> NDArray[np.bool_]:
        """Return which values are in the set, shape (d,)."""
        is_member = np.zeros(d, dtype=np.bool_)
        is_member[self.indices] = True
        return is_member

    def __repr__(self) -> str:
        return f"TopSet(<{counted(len(self.indices), 'value')}>)"


def _checked_pairs(given: NDArray[np.generic]) -> Index:
    """Return pairs as int64; raise an error that names the first that is wrong."""
    if given.shape[1] != 2:
        raise InvalidInputError(
            f"order must be a chain of indices or pairs of shape (m, 2), got shape {given.shape}"
        )
    pairs = validate.whole_numbers("order", given, low=0, high=validate.INDEX_BOUND)
    _require_order("order", pairs)
    return pairs


def _require_order(what: str, pairs: Index) -> None:
    """Raise an error that names the first pair of one value, or that occurs again, or a cycle."""
    # Before the search for cycles, whose message would be less plain.
    is_loop = pairs[:, 0] == pairs[:, 1]
    if is_loop.any():
        at = int(np.argmax(is_loop))
        raise InvalidInputError(
            f"{what} must not put a value above itself, found {_shown(pairs[at])} at position {at}"
        )
    repeated = validate.first_repetition(pairs)
    if repeated is not None:
        raise InvalidInputError(
            f"{what} must not repeat a pair, found {_shown(pairs[repeated])} again "
            f"at position {repeated}"
        )
    cycle = find_cycle(pairs)
    if cycle:
        raise InvalidInputError(
            f"{what} must have no cycle, found {' >= '.join(map(str, cycle))}: drop one of its "
            "pairs"
        )


def _shown(pair: Index) -> str:
    return f"({pair[0]}, {pair[1]})"


def find_cycle(pairs: Index) -> list[int]:
    """Return the values of a cycle of pairs (a, b) in their order; empty if there is none.

    The first value is repeated at the end.
    """
    from scipy import sparse

    if not len(pairs):
        return []
    nodes, ends = np.unique(pairs, return_inverse=True)
    ends = ends.reshape(-1, 2)
    size = len(nodes)
    graph = sparse.csr_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(size, size))
    count, part = sparse.csgraph.connected_components(graph, connection="strong")
    # Parts of one node each: a loop would be one too, but pairs are of different values.
    if count == size:
        return []
    # A part of several values has a cycle. Only the first such part is looked at in Python, which
    # takes seconds for a million pairs.
    tangled = np.argmax(np.bincount(part) > 1)
    inside = (part[ends] == tangled).all(axis=1)
    sorter: TopologicalSorter[int] = TopologicalSorter()
    for a, b in pairs[inside].tolist():
        sorter.add(b, a)
    try:
        sorter.prepare()
    except CycleError as error:
        return list(error.args[1])
    return []

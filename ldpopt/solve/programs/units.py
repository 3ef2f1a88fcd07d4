"""Units in which the numbers of a cone program are of order 1, for which solvers are made.

Solvers' tolerances are absolute. The forms of this library are stated in units of the uniform
frequency 1/d; those of a user are in frequencies, and cvxpy adds auxiliary variables in the same
units, or in any other. So rows, cones and auxiliary variables get units of their own: those in
which the coefficients are as near to 1 as they can be, by least squares of their logarithms (Curtis
and Reid 1972). The variable of the frequencies keeps its unit, which ties the others to it. The
largest coefficient of a row, which solvers equilibrate by, does not tell: in x/d - t >= 0 it is
that of t.

All units are powers of two, so that no number is rounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.units import own_unit, power_below

Array = NDArray[np.float64]

# Units up to 2⁴ apart are left as they are: solvers equilibrate such differences themselves.
_WORTHWHILE = 4

# A power of two beyond this is no double.
_FARTHEST = 1000.0

# Steps of least squares for the logarithms, which settle within a few dozen.
_STEPS = 200

# Largest frequencies down to this are taken as they are, in units of the uniform frequency 1/d. Of
# d frequencies that sum to 1 the largest is at least 1 such unit. Solvers stop at gaps that are
# small beside 1, and a loss has the size of squares: that of values far below 1 would be lost.
_SMALL = 2.0**-1


def unit_of_size(size: float, d: int) -> float:
    """Return the power of two next to the largest of d frequencies; 1 for usual ones."""
    if 0 < size * d < _SMALL:
        # Of few values these are near 1, and yet far below the tolerances of solvers.
        return power_below(size)
    return own_unit(size) if size > 1 else 1.0


def frequency_unit(f: Array) -> float:
    """Return ``unit_of_size`` of frequencies of shape (..., d)."""
    return unit_of_size(float(np.max(np.abs(f), initial=0.0)), f.shape[-1])


class Units(NamedTuple):
    """Units of a program: row i is multiplied by rows[i], and variable j counts in columns[j].

    The objective is multiplied by ``objective``.
    """

    rows: Array
    columns: Array
    objective: float


class Coefficients(NamedTuple):
    """The entries of A that are not 0, and what the rest of a program says about units.

    Attributes
    ----------
    sizes, rows, columns
        |a_ij|, i and j of every entry.
    groups
        The number of each row's group, shape (rows,): rows of one cone share a unit.
    costs, bends
        The sizes of each variable's largest coefficients in the objective, linear and quadratic,
        both of shape (columns,).
    """

    sizes: Array
    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    groups: NDArray[np.int64]
    costs: Array
    bends: Array

    @classmethod
    def of(
        cls,
        matrix: Any,
        groups: NDArray[np.int64],
        costs: Array | float,
        bends: Array | float = 0.0,
    ) -> Coefficients:
        """Return the coefficients of a sparse matrix."""
        triples = matrix.tocoo()
        used = triples.data != 0
        return cls(
            np.abs(triples.data[used]),
            triples.row[used].astype(np.int64),
            triples.col[used].astype(np.int64),
            groups,
            np.broadcast_to(costs, matrix.shape[1]),
            np.broadcast_to(bends, matrix.shape[1]),
        )


def row_groups(linear: int, sizes: Sequence[int]) -> NDArray[np.int64]:
    """Return the number of each row's group: a linear row is one by itself, and so is a cone.

    ``sizes`` are the rows of the cones, which come after the linear rows.
    """
    of_cones = linear + np.repeat(np.arange(len(sizes)), sizes)
    return np.concatenate([np.arange(linear), of_cones]).astype(np.int64)


def are_near_one(coefficients: Array) -> bool:
    """Return whether coefficients differ from 1 by no more than solvers equilibrate themselves."""
    sizes = np.abs(coefficients)
    sizes = sizes[sizes > 0]
    limit = 2.0**_WORTHWHILE
    return bool(not sizes.size or (sizes.min() >= 1 / limit and sizes.max() <= limit))


def balanced(
    entries: Coefficients, anchored: NDArray[np.bool_], *, with_objective: bool
) -> Units | None:
    """Return units in which the coefficients are near 1; None where they are near it already.

    Parameters
    ----------
    entries
        The coefficients of all rows.
    anchored
        Which variables keep their units, shape (columns,).
    with_objective
        Whether variables that the objective uses, and all that are tied to them, get units too.
        Otherwise these are left as the loss has chosen them.
    """
    groups = entries.groups[entries.rows]
    # A program without rows has no group.
    count = int(entries.groups.max(initial=-1)) + 1
    # Which groups of rows may change their unit, and then which variables may.
    any_group = np.ones(count, dtype=bool)
    loose = np.concatenate([any_group, ~anchored])
    if not with_objective:
        loose &= ~_tied_to_objective(entries, groups, count, anchored)
    exponents = _exponents(entries, groups, count, loose)
    if exponents is None:
        return None
    of_groups = np.exp2(exponents[:count])
    columns = np.exp2(exponents[count:])
    # A quadratic term counts its units twice.
    sizes = np.maximum(entries.costs * columns, entries.bends * columns**2)
    largest = float(np.max(sizes, initial=0.0))
    objective = 0.0
    if with_objective and largest > 0:
        objective = float(np.clip(-np.round(np.log2(largest)), -_FARTHEST, _FARTHEST))
    farthest = float(np.max(np.abs(exponents)))
    if max(farthest, abs(objective)) <= _WORTHWHILE:
        return None
    return Units(of_groups[entries.groups], columns, 2.0**objective)


def _exponents(
    entries: Coefficients, groups: NDArray[np.int64], count: int, loose: NDArray[np.bool_]
) -> Array | None:
    """Return the binary logarithms of the units of groups and variables, whole numbers.

    None is returned where there is nothing to choose.
    """
    from scipy import sparse
    from scipy.sparse.linalg import lsqr

    # One equation per coefficient: log |a| + log(unit of its row) + log(unit of its variable) = 0.
    variables = count + entries.columns
    # Coefficients between what stays as it is say nothing.
    used = np.flatnonzero(loose[groups] | loose[variables])
    logarithms = np.log2(entries.sizes[used])
    # Without one that differs from 0 all units stay as they are.
    if not logarithms.any():
        return None
    group = groups[used]
    variable = variables[used]
    exponents = np.zeros(len(loose))
    # A row of variables that stay depends on nothing else: its unit is a mean. Bounds and orders
    # are such rows.
    is_coupled = np.zeros(len(loose), dtype=bool)
    is_coupled[group[loose[variable]]] = True
    is_alone = ~is_coupled[group]
    sums = np.bincount(group[is_alone], logarithms[is_alone], len(loose))
    counts = np.bincount(group[is_alone], minlength=len(loose))
    np.divide(-sums, counts, out=exponents, where=counts > 0)
    rest = ~is_alone
    if rest.any():
        unknowns = np.column_stack([group[rest], variable[rest]]).ravel()
        # A unit that stays has the coefficient 0: its logarithm is 0 anyway.
        ones = loose[unknowns].astype(np.float64)
        # Two entries per equation, so that the matrix is there already, by rows.
        starts = np.arange(0, len(unknowns) + 1, 2)
        system = sparse.csr_array((ones, unknowns, starts), shape=(len(starts) - 1, len(loose)))
        # The shortest solution: what nothing ties to the frequencies stays as it is.
        exponents += lsqr(system, -logarithms[rest], iter_lim=_STEPS)[0]
    return np.asarray(np.round(exponents))


def _tied_to_objective(
    entries: Coefficients, groups: NDArray[np.int64], count: int, anchored: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Return which groups of rows, and then which variables, are connected with the objective.

    Two of them do if a coefficient joins them, but not by way of the anchored variables.
    """
    from scipy import sparse
    from scipy.sparse.csgraph import connected_components

    # A graph whose nodes are groups and then variables: every coefficient is an edge.
    nodes = count + len(anchored)
    joins = ~anchored[entries.columns]
    edges = (groups[joins], count + entries.columns[joins])
    ones = np.ones(np.count_nonzero(joins))
    graph = sparse.coo_array((ones, edges), shape=(nodes, nodes))
    _, label = connected_components(graph, directed=False)
    of_variables = label[count:]
    is_priced = ((entries.costs > 0) | (entries.bends > 0)) & ~anchored
    return np.isin(label, of_variables[is_priced])

"""Multipliers near rounding level, from a solver's and a point: least squares on the active rows.

Any multipliers prove a bound; ``best`` keeps those that prove the best one.

An interior point method leaves residuals of about its tolerance times the largest gradient, so that
one steep coordinate hides the others. At a point that is known better than that, the face of the
cone on which the slack lies is known, and with it the directions that multipliers can have:

- an equation's, any number,
- an active inequality's, a number >= 0,
- a curved cone's at a smooth point of its boundary, a number >= 0 times the normal.

The numbers that leave the least of the gradient of the coordinates off their bounds are found by
least squares, refined with residuals that are rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.solve.certificate.bounds import exact_sums
from ldpopt.solve.certificate.bounds.dual import EPS, usable
from ldpopt.solve.certificate.bounds.intervals import Box
from ldpopt.solve.certificate.cones.conic_program import ConicProgram, Multipliers, Rise
from ldpopt.solve.certificate.cones.dual_cones import HUGE, Cones, project
from ldpopt.solve.certificate.cones.repair import repaired

Array = NDArray[np.float64]

# A multiplier is taken for 0 below this part of the largest one of its kind, and a slack likewise.
_ZERO = 1e-6

# Cosine between a solver's multiplier and the normal at the point: below, they are not of one face.
_SAME = 1 - 1e-4

# Steps of refinement; each gains some digits, as many as the directions are far from dependent.
_STEPS = 4

# What is added to the squared lengths of directions; above the rounding of their products.
_RIDGE = 1e-12

# Largest number of directions that least squares are tried with, and of those, and variables, whose
# singular values take no time.
_MOST = 20_000
_FEW = 128


# Tolerances for Clarabel, one after the other while the bound is not yet good. At the second one
# it stops by itself with what rounding allows; some programs it solves to the last one only.
_TOLERANCES = (1e-12, 1e-15, 1e-9)

# The first tolerance relative to what is sufficient, where that is more than rounding.
_SAFETY = 1e-2

# It is so many times the tolerance after it, or it is left out.
_LOOSER = 100.0

# No tolerance is looser: what a solver ends with is then no minimum at all.
_LOOSEST = 1e-7

# A round has to take this part of the rise away for another one to be worth its time.
_GAIN = 0.5
_NEAR = 100.0

# A rise of at most so many times what a solver's own point is better by cannot be improved much.
_EXPLAINED = 2.0

# A point with so much of its gap above a solver's point is the reason for the gap. The rest may be
# its reason too: multipliers are compared with the tangent at the point, not at the minimum.
_BLAMED = 0.25

# Multipliers are not known better than by this factor where a solver's accuracy ends.
_USUAL = 10.0

# No point of the set is better than a proven bound. A solver's point violates the constraints by
# what its tolerance leaves, and may be beyond the bound by so much of it.
_BEYOND = 1.01

# A gap above this, relative to the terms, is one that a reader may ask about.
_PROMISED = 1e-8

GRIDS = (2.0**-38, 2.0**-30, 2.0**-22)
"""Grids for multipliers, relative to the largest, finest first."""

_SMALLEST = 1e-200

# Multipliers that fail their conditions by less, relative to slopes and terms, explain a point.
_EXPLAINS = 1e-9

Solve = Callable[[float], Multipliers | None]
"""From a tolerance to a point and multipliers, of a solver with any status."""


class Best(NamedTuple):
    """What a search for multipliers has found.

    Attributes
    ----------
    point, rise
        The multipliers that prove the smallest rise, and that rise.
    others
        Further ones, of the last try.
    """

    point: Multipliers
    rise: Rise
    others: list[Multipliers]

    def explaining(self, program: ConicProgram) -> Multipliers:
        """Return those that fail the conditions of a minimum least.

        Ranges that follow from the constraints help a proof, and a value at the end of its range
        may have any residual: multipliers that prove a point need not be the rates at which the
        minimum rises.
        """
        if failure(program, self.point) <= _EXPLAINS:
            return self.point
        return min([self.point, *self.others], key=partial(failure, program))


def failure(program: ConicProgram, point: Multipliers) -> float:
    """Return by how much multipliers fail the conditions of a minimum at a solver's own point.

    That is the largest residual of any variable, relative to the steepest slope, or the sum of all
    products of multipliers and slacks, relative to the terms, whichever is larger.
    """
    z = project(point.z, program.cones)
    gradient = program.linear
    if program.quadratic is not None:
        gradient = gradient + program.quadratic @ point.x
    prices = program.matrix.T @ z
    with np.errstate(over="ignore", invalid="ignore"):
        slopes = np.max(np.abs(gradient), initial=_SMALLEST)
        of_slopes = np.max(np.abs(gradient + prices), initial=0.0) / slopes
        terms = np.abs(gradient) @ np.abs(point.x) + np.abs(z) @ np.abs(program.right) + _SMALLEST
        of_products = abs(z @ (program.right - program.matrix @ point.x)) / terms
    return float(np.nan_to_num(max(of_slopes, of_products), nan=np.inf))


def explaining(program: ConicProgram, solve: Solve, box: Box) -> Multipliers | None:
    """Return the multipliers that fail the conditions of a program's minimum least, or None.

    ``box`` holds bounds that follow from the program: what lies at them is not off its bounds.
    """
    points: list[Multipliers] = []
    for tolerance in _TOLERANCES:
        solved = solve(tolerance)
        if solved is None:
            continue
        points.append(solved._replace(x=usable(solved.x, HUGE), z=usable(solved.z, HUGE)))
        if failure(program, points[-1]) > _EXPLAINS:
            further = polished(program, points[-1], box)
            points += [] if further is None else [further]
        if min(failure(program, point) for point in points) <= _EXPLAINS or points[-1].is_last:
            break
    return min(points, key=partial(failure, program), default=None)


def best(
    program: ConicProgram,
    box: Box,
    curvature: Array,
    target: float,
    solve: Solve,
    sufficient: float = 0.0,
    *,
    moves: bool = False,
) -> Best | None:
    """Return the multipliers with the smallest rise among several tries, and that rise.

    The tries end when the rise is at most ``target``, or near it and no longer falling, or when the
    solver's own point shows that it is the point that is worse; None if the solver has no numbers
    at all. ``sufficient`` is the target relative to the size of the terms, for the first tolerance.
    ``moves`` states that the rise may be that from any x̂, and not from the solver's alone.
    """
    kept: tuple[Multipliers, Rise] | None = None
    points: list[Multipliers] = []
    before = np.inf
    for points, new, is_whole in _rounds(program, box, solve, sufficient):
        kept = _smallest_rise(program, box, curvature, new, kept)
        value = kept[1].value
        is_small = value <= target
        # From a solver's own point a rise may be small though the bound is far below.
        if is_small and not moves:
            break
        # Where nothing is at stake the target is 0: then a rise is what rounding leaves.
        is_explained = target > 0 and any(_explains(point, value) for point in points)
        # A rough point may be better by no more than it misses the constraints by.
        is_sure = is_explained and not any(_usual_multipliers_explain(point) for point in points)
        if not (is_small or is_whole or is_sure):
            continue
        # Near the target a round that gains little shows that the point is not better.
        is_still = value <= _NEAR * target and value > _GAIN * before
        if is_explained:
            careful = _careful(program, points, box, moves)
            kept = _smallest_rise(program, box, curvature, careful, kept)
            return Best(*kept, points)
        if is_small or is_still:
            break
        before = value
    if kept is None:
        return None
    if kept[1].value > target:
        further = [*_simpler(points), *_careful(program, points, box, moves)]
        kept = _smallest_rise(program, box, curvature, further, kept)
    return Best(*kept, points)


def _explains(point: Multipliers, rise: float) -> bool:
    """Return whether a solver's point is better by so much that no multipliers prove much less."""
    if not point.is_last:
        return rise <= _EXPLAINED * point.attained
    # The point of a solver that gave up may be better because it is no point of the set. Where it
    # is better by just what is proved, both are right.
    return rise <= _BEYOND * point.attained and point.attained <= _BEYOND * rise


def _usual_multipliers_explain(point: Multipliers) -> bool:
    """Return whether usual multipliers explain what a solver's point is better by."""
    return point.explaining <= _USUAL * float(np.linalg.norm(usable(point.z, HUGE)))


def _smallest_rise(
    program: ConicProgram,
    box: Box,
    curvature: Array,
    points: Sequence[Multipliers],
    kept: tuple[Multipliers, Rise] | None,
) -> tuple[Multipliers, Rise]:
    """Return the multipliers that prove the highest bound, among points and those kept so far.

    From one x̂ that is the smallest rise. Another x̂ has another objective to rise from the bound.
    """
    for point in points:
        rise = program.rise(point, box, curvature)
        if kept is None or rise.value < kept[1].value + _higher(program, point.x, kept[0].x):
            kept = (point, rise)
    assert kept is not None
    return kept


def _higher(program: ConicProgram, x: Array, other: Array) -> float:
    """Return how much higher the objective is at x than at another x̂; 0 if that is not finite."""
    if np.array_equal(x, other):
        return 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        higher = program.value(x)[0] - program.value(other)[0]
    return higher if np.isfinite(higher) else 0.0


def _simpler(points: Sequence[Multipliers]) -> list[Multipliers]:
    """Return multipliers on grids, and none: where rounding alone is in the way of a proof.

    It is where nothing is minimised, where no constraint is active, and where the minimum is 0.
    """
    none = points[-1]._replace(z=np.zeros_like(points[-1].z))
    return [*(on_grid(point, step) for point in points for step in GRIDS), none]


def shortfall(gap: float, point: Multipliers, size: float, unit: float = 1.0) -> str:
    """Return why a gap is more than a certificate promises, in a sentence; empty if it is not.

    Parameters
    ----------
    gap
        What the best multipliers prove, finite.
    point
        Those multipliers, with what the point of their solver attains and misses.
    size
        The terms that the gap is relative to.
    unit
        What a unit of these numbers is to the reader.
    """
    if gap <= _PROMISED * size:
        return ""
    attained = point.attained
    # What usual multipliers explain is no reason.
    if _BLAMED * gap <= attained <= _BEYOND * gap and not _usual_multipliers_explain(point):
        better = (
            f"a solver's point is better by {unit * attained:.1e}: this point is not the minimum"
        )
        if np.isinf(point.explaining):
            return better
        needed = unit * point.explaining
        return (
            f"{better}, unless multipliers exceed {needed:.0e}, as those of nearly dependent "
            "constraints do"
        )
    return (
        "no multipliers of a cone solver prove a smaller gap: its accuracy ends there, or the "
        "point is not the minimum"
    )


def _rounds(
    program: ConicProgram, box: Box, solve: Solve, sufficient: float
) -> Iterator[tuple[list[Multipliers], list[Multipliers], bool]]:
    """Yield all multipliers of a round so far, those to try now, and whether it is at its end.

    Those that cost least come first where little accuracy is sufficient. Multipliers that are read
    for their own sake are those of the faces, which come first where they prove no more.
    """
    is_rough = sufficient > _TOLERANCES[-1]
    first = min(_SAFETY * sufficient, _LOOSEST)
    looser = [first] if first > _LOOSER * _TOLERANCES[0] else []
    is_last = False
    for place, tolerance in enumerate((*looser, *_TOLERANCES)):
        # A tighter tolerance than one that was not reached changes nothing.
        if is_last and tolerance < max(_TOLERANCES):
            continue
        solved = solve(tolerance)
        if solved is None:
            continue
        is_last = solved.is_last
        solved = solved._replace(x=usable(solved.x, HUGE), z=usable(solved.z, HUGE))
        points = [solved]
        new = [solved]
        # A tighter tolerance takes about as long as a polish, and proves more if it is reached.
        is_whole = is_last or place >= len(looser)
        for improve in (repaired, polished) if is_whole else (repaired,):
            if is_rough:
                yield points, new, False
                new = []
            better = improve(program, solved, box)
            if better is not None:
                points = [better, *points]
                new = [better, *new]
        yield points, new, is_whole


def on_grid(point: Multipliers, step: float) -> Multipliers:
    """Return multipliers rounded to a grid, relative to the largest; x stays.

    Variables without bounds need residuals that are 0 exactly. Their coefficients are mostly 1 and
    -1, and sums of numbers on a grid are exact: what is nearly 0 becomes 0.
    """
    sizes = np.where(np.isfinite(point.z), np.abs(point.z), 0.0)
    # A power of two, so that 1 is on the grid where it is one of the costs.
    unit = step * 2.0 ** np.ceil(np.log2(max(float(sizes.max(initial=0.0)), _SMALLEST)))
    return point._replace(z=np.round(point.z / unit) * unit)


def _careful(
    program: ConicProgram, points: Sequence[Multipliers], box: Box, moves: bool
) -> list[Multipliers]:
    """Return multipliers where active constraints may be nearly dependent: of few variables.

    A solver's point misses such constraints by little and is far from what they hold, so that it
    is moved onto them, if it may be. Singular values lose no digits of the smallest ones.
    """
    point = points[-1]
    if len(point.x) > _FEW:
        return []
    # Rows with numbers near the end of the doubles have no singular values.
    with np.errstate(all="ignore"), suppress(np.linalg.LinAlgError):
        directions = _directions_at(program, point)
        if not 0 < directions.shape[1] <= _FEW:
            return []
        if moves:
            onto = _by_singular_values((program.matrix.T @ directions).T)
            x = point.x
            for _ in range(_STEPS):
                slack, _ = exact_sums.row_totals(program.matrix, -x, program.right)
                x = x + onto(directions.T @ slack)
            point = point._replace(x=usable(x, HUGE))
        better = _on_faces(program, point, box, directions, _by_singular_values)
        return [] if better is None else [better]
    return []


def polished(program: ConicProgram, point: Multipliers, box: Box) -> Multipliers | None:
    """Return multipliers on the faces at the point, or None if there are too many directions."""
    directions = _directions_at(program, point)
    if not 0 < directions.shape[1] <= _MOST:
        return None
    return _on_faces(program, point, box, directions, _least_squares)


def _directions_at(program: ConicProgram, point: Multipliers) -> Any:
    """Return the directions of multipliers at a solver's point, one per column."""
    slack = program.right - program.matrix @ point.x
    terms = np.abs(program.right) + abs(program.matrix) @ np.abs(point.x)
    return _directions(program.cones, slack, terms, point.z)


def _on_faces(
    program: ConicProgram,
    point: Multipliers,
    box: Box,
    directions: Any,
    least_squares: Callable[[Any], Callable[[Array], Array]],
) -> Multipliers | None:
    """Return the multipliers along directions that leave the least of the gradient at the point."""
    from scipy import sparse

    rows = (program.matrix.T @ directions).tocsr()
    bounded = np.zeros(directions.shape[1], dtype=bool)
    bounded[program.cones.zero :] = True
    numbers = directions.T @ point.z / np.asarray(directions.multiply(directions).sum(axis=0))
    gradient = program.linear
    if program.quadratic is not None:
        gradient = gradient + program.quadratic @ point.x
    wanted = np.flatnonzero(_is_priced(rows, point, box))
    part = rows[wanted]
    sizes = np.sqrt(np.asarray(part.multiply(part).sum(axis=0)))
    sizes[sizes == 0] = 1.0
    solve = least_squares(part @ sparse.diags_array(1 / sizes))
    for _ in range(_STEPS):
        residual, _ = exact_sums.row_totals(rows, numbers, gradient)
        if not np.isfinite(residual).all():
            return None
        numbers = numbers - solve(residual[wanted]) / sizes
        numbers = np.where(bounded, np.maximum(numbers, 0.0), numbers)
    return point._replace(z=np.asarray(directions @ numbers))


def _is_priced(rows: Any, point: Multipliers, box: Box) -> NDArray[np.bool_]:
    """Return the variables of which the multipliers have to explain the gradient in full.

    At a bound a residual of the right sign costs nothing, but inside both signs do. A bound that is
    a row has a multiplier, which then is the whole residual.
    """
    slack = np.minimum(point.x - box.lower, box.upper - point.x)
    result = slack > _ZERO * (1e-3 + np.abs(point.x))
    single = rows[:, np.flatnonzero(np.diff(rows.tocsc().indptr) == 1)]
    result[single.nonzero()[0]] = True
    return np.asarray(result)


def _least_squares(matrix: Any) -> Callable[[Array], Array]:
    """Return the map from a right side b to the x that makes ‖matrix x - b‖ smallest, nearly.

    The augmented system [1, M; Mᵀ, -c] keeps the matrix sparse and its condition unsquared; c is
    little and stands against dependent columns.
    """
    from scipy import sparse
    from scipy.sparse.linalg import splu

    rows, columns = matrix.shape
    corner = -_RIDGE * sparse.eye_array(columns)
    system = sparse.block_array([[sparse.eye_array(rows), matrix], [matrix.T, corner]])
    factor = splu(sparse.csc_array(system))

    def solve(right: Array) -> Array:
        return np.asarray(factor.solve(np.concatenate([right, np.zeros(columns)]))[rows:])

    return solve


def _by_singular_values(matrix: Any) -> Callable[[Array], Array]:
    """Return the same of a small matrix without a ridge, of columns that may nearly depend."""
    dense = matrix.toarray()
    left, sizes, right = np.linalg.svd(dense, full_matrices=False)
    is_used = sizes > max(dense.shape) * EPS * np.max(sizes, initial=0.0)
    inverse = right[is_used].T / sizes[is_used]

    def solve(b: Array) -> Array:
        return np.asarray(inverse @ (left[:, is_used].T @ b))

    return solve


def _directions(cones: Cones, slack: Array, terms: Array, z: Array) -> Any:
    """Return the directions of multipliers, one per column, those of equations first.

    ``terms`` holds the size of the terms that each slack is a sum of.
    """
    from scipy import sparse

    size = float(np.max(np.abs(z), initial=0.0))
    inequalities = np.arange(cones.zero, cones.soc_start)
    # Strict complementarity: of slack and multiplier the larger one is not 0.
    loose = slack[inequalities] / (terms[inequalities] + _ZERO)
    active = inequalities[z[inequalities] / (size or 1.0) > loose]
    rows = [np.arange(cones.zero), active]
    columns = [np.arange(cones.zero), cones.zero + np.arange(len(active))]
    entries = [np.ones(cones.zero), np.ones(len(active))]
    count = cones.zero + len(active)
    for kind, _, group in cones.groups:
        for block in group:
            normal = _normal(kind, slack[block], z[block])
            if normal is None:
                continue
            rows.append(block)
            columns.append(np.full(len(block), count))
            entries.append(normal)
            count += 1
    place = (np.concatenate(rows), np.concatenate(columns))
    return sparse.csc_array((np.concatenate(entries), place), shape=(cones.rows, count))


def _normal(kind: str, slack: Array, z: Array) -> Array | None:
    """Return the direction of a cone's multiplier: the normal at the slack, or z's own."""
    length = float(np.linalg.norm(z))
    if length == 0:
        return None
    unit = z / length
    normal = None
    with np.errstate(all="ignore"):
        if kind == "soc":
            norm = np.linalg.norm(slack[1:])
            normal = np.concatenate([[1.0], -slack[1:] / norm])
        elif kind == "exp":
            # On the boundary s₀/s₁ is log(s₂/s₁), whatever solver gave s₀.
            quotient = np.log(slack[2] / slack[1])
            growth = np.exp(quotient)
            normal = np.array([-growth, growth * (quotient - 1), 1.0])
    if normal is None or not np.isfinite(normal).all():
        return unit
    normal = normal / np.linalg.norm(normal)
    return normal if normal @ unit > _SAME else unit

"""How each problem is solved: the plans of every loss under up to three constraints."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ldpopt import constraints as c
from ldpopt import losses, oracles, priors, validate
from ldpopt.errors import InfeasibleError, InvalidInputError, LdpoptError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.solve.plan import Plan
from ldpopt.solve.problem import Problem
from ldpopt.tables import html_of

Path = Literal["closed form", "one root", "iterative", "conic", "no minimum", "no path"]

PATHS: dict[Path, str] = {
    "closed form": "form",
    "one root": "root",
    "iterative": "steps",
    "conic": "cone",
    "no minimum": "none",
    "no path": "-",
}
"""What a cell may be, and how the matrix shows it."""

# One problem of each kind stands for all: the path depends on the kinds, not on the numbers. All
# constraints hold at this point, so that no set is empty.
_D = 6
_N = 1_000
_POINT = np.array([0.325, 0.325, 0.12, 0.1, 0.09, 0.04])
_COUNTS = [300, 280, 150, 120, 90, 60]

_LOSSES: dict[str, losses.Loss] = {
    "LeastSquares": losses.LeastSquares(),
    "WeightedLeastSquares": losses.WeightedLeastSquares(np.arange(1.0, _D + 1)),
    "LeastAbsolute": losses.LeastAbsolute(),
    "GaussianMLE": losses.GaussianMLE(),
    "BinomialMLE": losses.BinomialMLE(),
    "MultinomialMLE": losses.MultinomialMLE(),
    "KullbackLeibler": losses.KullbackLeibler(),
    "PosteriorMean": losses.PosteriorMean(priors.PowerLaw(1.5, _N)),
}

# The losses for reports that support one value each, as those of GRR.
_OF_SINGLE_VALUES = frozenset({"MultinomialMLE"})

_MORE_LOSSES: dict[str, losses.Loss] = {
    "NormalisedGaussianMLE": losses.NormalisedGaussianMLE(),
    "HardThreshold": losses.HardThreshold(0.01),
    "Huber": losses.Huber(0.05),
    "MaxAbsolute": losses.MaxAbsolute(),
    "KLTo": losses.KLTo(_POINT),
    "LeastSquares + L1To": losses.LeastSquares() + 0.1 * losses.L1To(_POINT),
    "LeastSquares + KLTo": losses.LeastSquares() + 0.1 * losses.KLTo(_POINT),
    "LeastSquares + TotalVariation": losses.LeastSquares() + 0.1 * losses.TotalVariation(),
    "LeastSquares + GroupNorm": losses.LeastSquares() + 0.1 * losses.GroupNorm([[0, 1], [2, 3]]),
}

_CONSTRAINTS: dict[str, c.Constraint] = {
    "NonNegative": c.NonNegative(),
    "Bounds": c.Bounds(0.0, [0.6, 0.5, 0.4, 0.3, 0.3, 0.3]),
    "Fixed": c.Fixed([5], [0.04]),
    "SumsTo": c.SumsTo(1.0),
    "GroupTotals": c.GroupTotals([[0, 1], [2, 3, 4, 5]], [0.65, 0.35]),
    "Monotone": c.Monotone(np.arange(_D)),
    "Unimodal": c.Unimodal(1),
    "Smooth": c.Smooth(total_variation=0.6),
    "Linear": c.Linear([[1, -2, 0, 0, 0, 0]], [-1], [1]),
}

_MORE_CONSTRAINTS: dict[str, c.Constraint] = {
    "Margins": c.Margins((2, 3), 0, [0.77, 0.23]),
    "Margins, other axis": c.Margins((2, 3), 1, [0.425, 0.415, 0.16]),
    "HierarchyTotals": c.HierarchyTotals([[0, 0, 1, 1, 2, 2]], [[0.65, 0.22, np.nan]]),
    "TopSet": c.TopSet([0, 1]),
    "Near, 1-norm": c.Near(_POINT, 0.2, 1),
    "Near, weighted 1-norm": c.Near(_POINT, 0.2, 1, weights=np.arange(1.0, _D + 1)),
    "Near, 2-norm": c.Near(_POINT, 0.2, 2),
    "Near, largest": c.Near(_POINT, 0.2, np.inf),
    "Near, KL": c.Near(_POINT, 0.2, "kl"),
    # All six values may be positive here: the kind counts, not the number.
    "AtMost": c.AtMost(6),
}


@dataclass(frozen=True)
class Cell:
    """One problem of the matrix.

    Attributes
    ----------
    loss, constraints
        The names of its parts.
    path
        One of ``PATHS``: a form of sorts and sums, the root of one multiplier or one per group, an
        algorithm of this library, a cone solver, no minimum (the loss falls for ever), or no path.
    name
        The form, algorithm or solver; empty without one.
    """

    loss: str
    constraints: tuple[str, ...]
    path: Path
    name: str

    @property
    def has_form(self) -> bool:
        """Whether no iteration over the whole problem is needed: a closed form or a root."""
        return self.path in ("closed form", "one root")


@dataclass(frozen=True)
class Coverage:
    """The matrix of losses and sets of constraints.

    Attributes
    ----------
    cells
        Every problem, loss by loss, small sets of constraints first.
    """

    cells: tuple[Cell, ...]

    @property
    def losses(self) -> tuple[str, ...]:
        """The names of the losses in their order."""
        return tuple(dict.fromkeys(cell.loss for cell in self.cells))

    @property
    def counts(self) -> dict[Path, int]:
        """How many problems take each path, for the paths that some take."""
        numbers = Counter(cell.path for cell in self.cells)
        return {path: numbers[path] for path in PATHS if numbers[path]}

    @property
    def with_form(self) -> int:
        """How many problems have a closed form or a root."""
        return sum(cell.has_form for cell in self.cells)

    def rows(self) -> list[tuple[str, ...]]:
        """Return one row per set of constraints: its name, and the path under each loss."""
        by_set: dict[tuple[str, ...], list[str]] = {}
        for cell in self.cells:
            by_set.setdefault(cell.constraints, []).append(PATHS[cell.path])
        return [(", ".join(names) or "none", *shown) for names, shown in by_set.items()]

    def summary(self) -> str:
        """Return one sentence with the counts."""
        counts = ", ".join(f"{path} {count}" for path, count in self.counts.items())
        return (
            f"{self.with_form:,} of {len(self.cells):,} problems have a closed form or one root "
            f"per total ({counts})."
        )

    def markdown(self) -> str:
        """Return the matrix as a table in Markdown, with the summary below it."""
        lines = ["| constraints | " + " | ".join(f"`{name}`" for name in self.losses) + " |"]
        lines.append("|---" * (len(self.losses) + 1) + "|")
        lines += [f"| {' | '.join(row)} |" for row in self.rows()]
        return "\n".join([*lines, "", self.summary()])

    def __repr__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        """Return the matrix as notebooks show it."""
        legend = ", ".join(f"{short} = {path}" for path, short in PATHS.items())
        notes = [f"{legend}.", self.summary()]
        title = "How problems are solved"
        return html_of(("constraints", *self.losses), self.rows(), notes, title=title)


def coverage(*, up_to: int = 3, every: bool = False) -> Coverage:
    """Return how every loss under every set of up to so many constraints is solved.

    The planner answers for one small problem of each kind, which is solved where it has a closed
    form: losses that fall for ever on a set have no minimum there.

    Parameters
    ----------
    up_to
        The largest number of constraints, 0 to 3.
    every
        Whether to take all losses and constraints of the library, not only the eight losses and
        nine constraints of the first matrix.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If ``up_to`` is not a whole number from 0 to 3.

    Notes
    -----
    Cost: about a millisecond per problem: 1,040 of them, or some 20,000 with ``every``.

    Examples
    --------
    >>> coverage(up_to=0).counts
    {'closed form': 4, 'one root': 3, 'no minimum': 1}
    """
    size = validate.integer("up_to", up_to, minimum=0)
    # Of 19 constraints there are 3,876 sets of four, each under 17 losses.
    if size > 3:
        raise InvalidInputError(f"up_to must be 0 to 3, got {size}: larger sets are too many")
    # The first ones keep their places in the larger matrix.
    chosen = {**_LOSSES, **_MORE_LOSSES} if every else _LOSSES
    kinds = {**_CONSTRAINTS, **_MORE_CONSTRAINTS} if every else _CONSTRAINTS
    plain = _estimate(oracles.OUE(1.0, _D))
    of_single = _estimate(oracles.GRR(1.0, _D))
    cells = []
    for name, loss in chosen.items():
        estimate = of_single if name in _OF_SINGLE_VALUES else plain
        for names in _sets(kinds, size):
            cells.append(_cell(name, loss, names, [kinds[kind] for kind in names], estimate))
    return Coverage(tuple(cells))


def _estimate(oracle: Any) -> FrequencyEstimate:
    # A fixed seed: the matrix is part of the documentation.
    counts = oracle.simulate_counts(_COUNTS, rng=0)
    estimate: FrequencyEstimate = oracle.estimate(counts, _N)
    return estimate


def _sets(kinds: Iterable[str], up_to: int) -> list[tuple[str, ...]]:
    names = list(kinds)
    return [chosen for size in range(up_to + 1) for chosen in itertools.combinations(names, size)]


def _cell(
    name: str,
    loss: losses.Loss,
    names: tuple[str, ...],
    constraints: Sequence[c.Constraint],
    estimate: FrequencyEstimate,
) -> Cell:
    """Return the cell of one problem."""
    try:
        plan = Problem(loss, constraints).plan(estimate)
    except LdpoptError:
        # Totals or bounds that contradict each other, or a set that no path of the loss takes.
        return Cell(name, names, "no path", "")
    return Cell(name, names, _path_of(plan), plan.name)


def _path_of(plan: Plan) -> Path:
    """Return the path of a plan; a closed form is evaluated, since there may be no minimum."""
    if plan.path is None:
        return "no path"
    if plan.path != "closed-form":
        return plan.path
    assert plan.run is not None  # every path has one
    try:
        plan.run()
    # A loss that keeps a value at zero may conflict with a total.
    except InfeasibleError:
        return "no path"
    except InvalidInputError:
        return "no minimum"
    return "one root" if "one root" in plan.name else "closed form"

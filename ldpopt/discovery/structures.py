"""What solutions of a problem look like: support, shift, blocks, active rows, multiplier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt.discovery.row_facts import rows_of
from ldpopt.discovery.setting import Setting
from ldpopt.discovery.shifts import KINDS, NEAR, OTHER, Support, kinds_of, support_of
from ldpopt.discovery.structure_rows import StructureRow
from ldpopt.errors import InvalidInputError, InvalidTypeError, extra_needed
from ldpopt.estimate import FrequencyEstimate
from ldpopt.immutable import closed
from ldpopt.printable import counted
from ldpopt.solve.formulation import Formulation
from ldpopt.solve.problem import Problem
from ldpopt.tables import data_frame, html_of, lines_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

# Values up to which the rank of the active rows is computed: it takes d³ operations.
_LARGEST = 2_000


@dataclass(frozen=True, eq=False, repr=False)
class Structure:
    """What the solutions of a problem look like, over many inputs.

    Attributes
    ----------
    problem
        The problem that was passed.
    statement, formula
        The problem in words and in letters, with the numbers that its parameters held.
    rows
        One entry per solution, in the order of the estimates.
    shift
        The first kind of shift that holds for all solutions, else ``"other"``.
    estimates, frequencies
        The estimates and the solutions, each of shape (solutions, d), read-only.
    """

    problem: Problem
    statement: str
    formula: str
    rows: tuple[StructureRow, ...]
    shift: str
    estimates: Array
    frequencies: Array

    @property
    def is_ideal(self) -> bool:
        """Whether every support is an ideal of the order of its estimates."""
        return all(row.is_ideal for row in self.rows)

    def multipliers(self) -> list[tuple[float | None, int | None, float, float]]:
        """Return (ε, n, mean, standard deviation) of the multiplier, one per kind of estimate."""
        by_kind: dict[tuple[float | None, int | None], list[float]] = {}
        for row in self.rows:
            if row.multiplier is not None:
                by_kind.setdefault((row.epsilon, row.n), []).append(row.multiplier)
        return [
            (epsilon, n, float(np.mean(values)), float(np.std(values)))
            for (epsilon, n), values in by_kind.items()
        ]

    @property
    def exponent_of_n(self) -> float | None:
        """The power of n with which the multiplier grows, at one ε; None for fewer than two n.

        It is the slope of a line through the logarithms of the mean sizes: -0.5 stands for the size
        of the noise.
        """
        return self._slope("n", "epsilon", np.log)

    @property
    def rate_of_epsilon(self) -> float | None:
        """The slope of the multiplier's logarithm in ε, at one n; None for fewer than two ε.

        About -0.5 is what noise does whose standard deviation falls as exp(-ε/2).
        """
        return self._slope("epsilon", "n", np.asarray)

    def _slope(self, along: str, fixed: str, scale: Any) -> float | None:
        """Return the slope of log |multiplier| along one of the two, the other one fixed."""
        sizes: dict[float, list[float]] = {}
        others = set()
        for row in self.rows:
            place = getattr(row, along)
            # A multiplier of 0 has no logarithm.
            if not row.multiplier or place is None:
                continue
            others.add(getattr(row, fixed))
            sizes.setdefault(place, []).append(abs(row.multiplier))
        # Where both change no slope tells which of them it is about.
        if len(others) != 1 or len(sizes) < 2:
            return None
        places = sorted(sizes)
        means = [np.mean(sizes[place]) for place in places]
        x = scale(np.array(places, dtype=np.float64))
        slope, _ = np.polyfit(x, np.log(means), 1)
        return float(slope)

    def to_frame(self) -> Any:
        """Return one row per solution as a pandas DataFrame.

        Raises
        ------
        MissingPackageError
            If pandas is not installed.
        """
        return data_frame([asdict(row) for row in self.rows], "structure.rows")

    def plot(self) -> Figure:
        """Return a picture: solutions against estimates, the shift on the support, multipliers."""
        with extra_needed():
            from ldpopt.discovery.structure_figure import structure_figure

        return structure_figure(self.rows, self.shift, self.estimates, self.frequencies)

    def _facts(self) -> list[tuple[str, str]]:
        """Return what holds of all solutions, in words."""
        rows = self.rows
        ideal = sum(row.is_ideal for row in rows)
        facts = [
            ("support", _range([row.support for row in rows], "values")),
            ("ideal", f"{ideal} of {len(rows)}: the support has the highest estimates"),
            ("shift", self.shift),
            ("blocks", _range([row.blocks for row in rows], "different values")),
            ("bounds", _range([row.active_bounds for row in rows], "values at one")),
            ("rows", _range([row.active_rows for row in rows], "hold with equality")),
        ]
        degrees = [row.degrees_of_freedom for row in rows]
        freedoms = [degree for degree in degrees if degree is not None]
        # A range of some solutions would read as one of all.
        if len(freedoms) == len(degrees):
            facts.append(("freedom", _range(freedoms, "dimensions")))
        if self.exponent_of_n is not None:
            power = f"n^{self.exponent_of_n:.2f}"
            facts.append(("in n", f"the multiplier is proportional to {power}"))
        if self.rate_of_epsilon is not None:
            power = f"exp({self.rate_of_epsilon:.2f} ε)"
            facts.append(("in ε", f"the multiplier is proportional to {power}"))
        return facts

    def _table(self) -> tuple[tuple[str, ...], list[list[str]]]:
        headings = ("ε", "n", "mean multiplier", "standard deviation")
        rows = [
            [
                "-" if epsilon is None else f"{epsilon:g}",
                "-" if n is None else f"{n:,}",
                f"{mean:.3g}",
                f"{deviation:.2g}",
            ]
            for epsilon, n, mean, deviation in self.multipliers()
        ]
        return headings, rows

    def __repr__(self) -> str:
        lines = [f"Structure of {counted(len(self.rows), 'solution')} of {self.statement}"]
        lines += [f"  {name:8} {text}" for name, text in self._facts()]
        headings, rows = self._table()
        if rows:
            lines += [f"  {line}" for line in lines_of(headings, rows)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return the facts and the multipliers as notebooks show them."""
        facts = [("problem", self.formula), *self._facts()]
        shown = html_of((), facts, title=f"Structure of {counted(len(self.rows), 'solution')}")
        headings, rows = self._table()
        return shown + html_of(headings, rows) if rows else shown


def structure(
    problem: Problem, estimates: FrequencyEstimate | ArrayLike | Sequence[FrequencyEstimate]
) -> Structure:
    """Solve a problem for many estimates and state what the solutions have in common.

    It is what one looks at before a formula is guessed: which values stay off their bounds, by how
    much these are moved, which become equal, and how the multiplier of the total depends on noise.

    Parameters
    ----------
    problem
        The problem.
    estimates
        One estimate, a stack of trials, or a list of them: of several n or ε the multiplier's
        dependence on these is stated.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If there is no estimate, the estimates have different numbers of values, or the problem does
        not fit them; and as ``Problem.solve``.
    InfeasibleError
        If nothing satisfies the constraints.

    Notes
    -----
    Cost: a solution and a certificate per trial, and the rank of the active rows, d³ operations.
    Numbers are equal if they differ by at most 1e-6.

    Examples
    --------
    >>> from ldpopt import constraints, losses, oracles
    >>> simplex = [constraints.NonNegative(), constraints.SumsTo(1.0)]
    >>> problem = Problem(losses.LeastSquares(), simplex)
    >>> oracle = oracles.OUE(1.0, 6)
    >>> counts = [500, 250, 150, 60, 30, 10]
    >>> trials = oracle.estimate(oracle.simulate_counts(counts, rng=0, trials=20), 1_000)
    >>> shown = structure(problem, trials)
    >>> shown.shift, shown.is_ideal, shown.rows[0].degrees_of_freedom == shown.rows[0].support - 1
    ('constant', True, True)
    """
    if not isinstance(problem, Problem):
        raise InvalidTypeError(f"structure takes a Problem, got {problem!r}")
    stacks = _stacks(estimates)
    rows: list[StructureRow] = []
    holding: list[tuple[str, ...]] = []
    points: list[Array] = []
    for stack in stacks:
        solution = problem.solve(stack)
        reader = _Reader.of(solution.problem, solution.start)
        trials = solution.frequencies.shape[:-1]
        multipliers = np.broadcast_to(solution.certificate.sum_multiplier, trials)
        for trial in np.ndindex(trials):
            f = solution.frequencies[trial]
            row, kinds = reader.row(stack, f, stack.frequencies[trial], float(multipliers[trial]))
            rows.append(row)
            holding.append(kinds)
            points.append(f)
    # A kind may hold for one solution by chance, as with one value left: all have to agree.
    common = [kind for kind in KINDS if all(kind in kinds for kinds in holding)]
    vectors = [stack.frequencies.reshape(-1, stack.d) for stack in stacks]
    # Numbers of parameters are those of all estimates: only functions and labels state other ones,
    # and no text shows these.
    stated = problem.at(stacks[0])
    return Structure(
        problem=problem,
        statement=stated.statement,
        formula=stated.formula,
        rows=tuple(rows),
        shift=common[0] if common else OTHER,
        estimates=closed(np.concatenate(vectors)),
        frequencies=closed(np.stack(points)),
    )


def _stacks(
    estimates: FrequencyEstimate | ArrayLike | Sequence[FrequencyEstimate],
) -> list[FrequencyEstimate]:
    """Return the estimates as a list of equally many values."""
    # A list of numbers, or of lists of them, is one estimate or one stack.
    is_list = isinstance(estimates, list | tuple) and any(
        isinstance(one, FrequencyEstimate) for one in estimates
    )
    given: Sequence[Any] = estimates if is_list else [estimates]  # type: ignore[assignment]
    stacks = [FrequencyEstimate.of(one) for one in given]
    sizes = sorted({stack.d for stack in stacks})
    if len(sizes) > 1:
        raise InvalidInputError(
            f"the estimates have {' and '.join(map(str, sizes))} values: pass those of one size"
        )
    return stacks


@dataclass(frozen=True)
class _Reader:
    """Reads the structure of single solutions of one problem.

    Attributes
    ----------
    setting
        Bounds, total and groups.
    lower, upper
        The bounds, shape (d,).
    matrix, row_lower, row_upper
        All other rows, those of the total too.
    is_complete
        Whether every constraint is bounds or rows.
    """

    setting: Setting
    lower: Array
    upper: Array
    matrix: Array
    row_lower: Array
    row_upper: Array
    is_complete: bool

    @classmethod
    def of(cls, problem: Formulation, start: FrequencyEstimate) -> _Reader:
        """Return the reader of a problem's solutions for estimates of this size."""
        d = start.d
        setting = Setting.of(problem, start)
        lower, upper = setting.box
        beside_bounds = [part for part in problem.constraints if part.box(d) is None]
        # Without any rows the arrays still need their shapes.
        matrices = [np.zeros((0, d))]
        row_lower = [np.zeros(0)]
        row_upper = [np.zeros(0)]
        is_complete = True
        for constraint in beside_bounds:
            rows = rows_of(constraint, d)
            if rows is None:
                is_complete = False
                continue
            matrices.append(rows.matrix.toarray())
            row_lower.append(rows.lower)
            row_upper.append(rows.upper)
        return cls(
            setting=setting,
            lower=lower,
            upper=upper,
            matrix=np.concatenate(matrices),
            row_lower=np.concatenate(row_lower),
            row_upper=np.concatenate(row_upper),
            is_complete=is_complete,
        )

    def row(
        self, stack: FrequencyEstimate, f: Array, start: Array, multiplier: float
    ) -> tuple[StructureRow, tuple[str, ...]]:
        """Return the structure of one solution, and all kinds of shift that hold for it."""
        is_low = f <= self.lower + NEAR
        is_free = ~is_low & (f < self.upper - NEAR)
        support = support_of(start, f, is_free, self.setting.groups)
        values = self.matrix @ f
        # Equations are active too: both of their sides hold.
        is_active = (values <= self.row_lower + NEAR) | (values >= self.row_upper - NEAR)
        kinds = kinds_of(support)
        count = int(is_free.sum())
        row = StructureRow(
            epsilon=getattr(stack.oracle, "epsilon", None),
            n=stack.n,
            support=count,
            is_ideal=_is_ideal(support, start[is_low]),
            shift=kinds[0] if kinds else OTHER,
            blocks=len(np.unique(support.block)),
            active_bounds=len(f) - count,
            active_rows=int(is_active.sum()),
            degrees_of_freedom=self._freedom(is_free, is_active),
            multiplier=None if self.setting.total is None else multiplier,
        )
        return row, kinds

    def _freedom(self, is_free: NDArray[np.bool_], is_active: NDArray[np.bool_]) -> int | None:
        if len(is_free) > _LARGEST or not self.is_complete:
            return None
        face = self.matrix[is_active][:, is_free]
        rank = int(np.linalg.matrix_rank(face)) if face.size else 0
        return int(is_free.sum()) - rank


def _is_ideal(support: Support, below: Array) -> bool:
    """Return whether the estimates of the support are at least as high as those below it."""
    if not len(below) or not len(support.start):
        return True
    return bool(support.start.min() >= below.max() - NEAR)


def _range(numbers: Sequence[int], unit: str) -> str:
    """Return the range of numbers with their mean, ``3 to 7 values, 4.5 on average``."""
    low = min(numbers)
    high = max(numbers)
    if low == high:
        return f"{low} {unit}"
    return f"{low} to {high} {unit}, {np.mean(numbers):.1f} on average"

"""Linear, quadratic and cone programs: the one place that builds them, with one accuracy.

A linear program is solved by HiGHS, through scipy, from inequalities lower <= A x <= upper, and a
quadratic one by CLARABEL from the same. A cone program goes through cvxpy. All use the settings of
accuracy ``"high"`` unless others are given.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from ldpopt.constraints import LinearInequalities
from ldpopt.errors import UnsupportedProblemError
from ldpopt.solve.programs.jobs import Job, JobResult
from ldpopt.solve.programs.solver_data import Answer, SolverData, takers
from ldpopt.solve.programs.solvers import COLD, DEFAULT_SOLVER, SOLVERS, Running, settings

if TYPE_CHECKING:
    import cvxpy as cp

Array = NDArray[np.float64]

_TINY = float(np.finfo(np.float64).tiny)

# Entries up to which scipy takes a dense array: for longer than small programs take, it looks at
# and copies sparse ones.
_DENSE = 4096


def stacked(parts: Sequence[LinearInequalities], d: int) -> LinearInequalities:
    """Return all inequalities as one system over (f, auxiliary variables of every part).

    Its matrix has d columns for the frequencies, then those of the parts' auxiliary variables.
    """
    from scipy import sparse

    # Parts without auxiliary variables take no columns.
    widths = [0 if part.auxiliary is None else part.auxiliary.shape[1] for part in parts]
    matrix: Any
    if any(widths):
        matrix = _with_auxiliary(parts, widths, d)
    elif parts:
        blocks = [sparse.csr_array(part.matrix, dtype=np.float64) for part in parts]
        matrix = sparse.vstack(blocks, format="csr")
    else:
        matrix = sparse.csr_array((0, d))
    # The empty array stands for no parts at all, which concatenate refuses.
    lower = np.concatenate([np.empty(0), *(part.lower for part in parts)])
    upper = np.concatenate([np.empty(0), *(part.upper for part in parts)])
    return LinearInequalities(matrix, lower, upper)


def _with_auxiliary(parts: Sequence[LinearInequalities], widths: Sequence[int], d: int) -> Any:
    """Return the matrix of ``stacked``, whose parts have so many auxiliary variables each."""
    from scipy import sparse

    # By the entries of all blocks: to put small matrices beside each other takes far longer.
    rows = []
    columns = []
    entries = []
    first = 0
    offset = d
    for part, width in zip(parts, widths, strict=True):
        # Auxiliary variables belong to one part alone: zeros stand where those of the others are.
        for block, begin in ((part.matrix, 0), (part.auxiliary, offset)):
            if block is not None:
                csr = block.tocsr()
                rows.append(first + np.repeat(np.arange(csr.shape[0]), np.diff(csr.indptr)))
                columns.append(begin + csr.indices.astype(np.int64))
                entries.append(csr.data)
        first += len(part.lower)
        offset += width
    row = np.concatenate(rows)
    order = np.argsort(row, kind="stable")
    starts = np.append(0, np.cumsum(np.bincount(row, minlength=first)))
    data = np.concatenate(entries, dtype=np.float64)[order]
    return sparse.csr_array((data, np.concatenate(columns)[order], starts), shape=(first, offset))


@dataclass(frozen=True, eq=False)
class LinearSolution:
    """What HiGHS made of a linear program.

    Attributes
    ----------
    status
        ``"optimal"``, ``"infeasible"``, or ``"failed"``, for all other ways to end.
    value, point
        The minimum and where it is; NaN and empty unless optimal.
    multipliers
        One per inequality, positive where its lower bound pushes up and negative where its upper
        bound pushes down; empty unless optimal.
    message
        HiGHS's words.
    """

    status: Literal["optimal", "infeasible", "failed"]
    value: float
    point: Array
    multipliers: Array
    message: str


class Sides:
    """The rows of a system as equations, and after them as inequalities with one side, A x <= caps.

    Attributes
    ----------
    matrix
        The coefficients of both, by rows.
    values, caps
        What the equations are equal to, and what the inequalities are at most.
    """

    def __init__(self, system: LinearInequalities) -> None:
        # As equations these rows have one multiplier of either sign; two inequalities could share
        # it in many ways.
        equal = system.lower == system.upper
        has_upper = np.isfinite(system.upper)
        has_lower = np.isfinite(system.lower)
        self._equal = np.flatnonzero(equal)
        self._above = np.flatnonzero(~equal & has_upper)
        self._below = np.flatnonzero(~equal & has_lower)
        self._size = len(system.lower)
        self.values = system.lower[self._equal]
        # A x >= b is -A x <= -b.
        caps_above = system.upper[self._above]
        caps_below = -system.lower[self._below]
        self.caps = np.concatenate([caps_above, caps_below])
        rows = np.concatenate([self._equal, self._above, self._below])
        signs = np.ones(len(rows))
        signs[len(rows) - len(self._below) :] = -1.0
        self.matrix = _signed_rows(system.matrix, rows, signs)

    def multipliers(self, of_equalities: Array, of_caps: Array) -> Array:
        """Return one multiplier per row, from the derivatives of the minimum by the right sides.

        Those of caps are never positive. A lower bound went in with its sign turned, and its
        derivative is turned back.
        """
        multipliers = np.zeros(self._size)
        multipliers[self._equal] = of_equalities
        capped = len(self._above)
        multipliers[self._above] += of_caps[:capped]
        multipliers[self._below] -= of_caps[capped:]
        return multipliers


def _signed_rows(matrix: Any, rows: NDArray[np.int64], signs: Array) -> Any:
    """Return some rows of a matrix times their signs, in one step: programs are often small."""
    from scipy import sparse

    csr = matrix.tocsr()
    starts = csr.indptr[rows]
    counts = csr.indptr[rows + 1] - starts
    ends = np.cumsum(counts)
    places = np.arange(counts.sum()) + np.repeat(starts - ends + counts, counts)
    entries = csr.data[places] * np.repeat(signs, counts)
    shape = (len(rows), matrix.shape[1])
    return sparse.csr_array((entries, csr.indices[places], np.append(0, ends)), shape=shape)


class LinearProgram:
    """Minimise a linear function of x over lower <= A x <= upper, by HiGHS.

    Parameters
    ----------
    system
        The inequalities, without auxiliary variables: ``stacked`` makes them columns.
    ranges
        (lower, upper) of each variable, None for no bound; every variable is free if left out.
    at_vertex
        Whether the multipliers must be those of a vertex, for which the dual simplex method is
        used. Otherwise HiGHS chooses its method.
    """

    def __init__(
        self,
        system: LinearInequalities,
        ranges: Sequence[tuple[float | None, float | None]] | None = None,
        *,
        at_vertex: bool = False,
    ) -> None:
        self._sides = Sides(system)
        rows = self._sides.matrix
        if math.prod(rows.shape) <= _DENSE:
            rows = rows.toarray()
        equations = len(self._sides.values)
        self._rows = (rows[equations:], rows[:equations])
        self._ranges: Any = (None, None) if ranges is None else list(ranges)
        self._method: Any = "highs-ds" if at_vertex else "highs"
        self._options: Any = settings("HIGHS", "high", {})

    def minimise(self, cost: Array) -> LinearSolution:
        """Return the minimum of cost·x. HiGHS's tolerances are absolute, so the cost is scaled."""
        from scipy import optimize

        # A cost of zeros, as of a gradient that vanishes, must not divide by zero.
        scale = max(float(np.abs(cost).max()), _TINY)
        result: Any = optimize.linprog(
            cost / scale,
            A_ub=self._rows[0],
            b_ub=self._sides.caps,
            A_eq=self._rows[1],
            b_eq=self._sides.values,
            bounds=self._ranges,
            method=self._method,
            options=self._options,
        )
        nothing = np.empty(0)
        # scipy's codes: 0 is optimal, 2 infeasible; the others are limits, unbounded and numerical
        # trouble.
        if result.status == 2:
            return LinearSolution("infeasible", np.nan, nothing, nothing, result.message)
        if result.status != 0:
            return LinearSolution("failed", np.nan, nothing, nothing, result.message)
        # scipy's marginals are the derivatives of the minimum by the right-hand sides.
        multipliers = self._sides.multipliers(result.eqlin.marginals, result.ineqlin.marginals)
        value = float(cost @ result.x)
        # The multipliers are those of the scaled cost: here they get the units of the cost itself.
        return LinearSolution("optimal", value, result.x, scale * multipliers, result.message)


def quadratic_multipliers(
    system: LinearInequalities, slope: Array, curvature: Array
) -> Array | None:
    """Return the multipliers where slope·x + ½ Σ curvature x² is smallest under inequalities.

    CLARABEL is called without cvxpy, whose compilation would take most of the time.

    Parameters
    ----------
    system
        The inequalities, without auxiliary variables.
    slope, curvature
        Of the function, one number per variable, curvature >= 0; best of order 1, since the
        solver's tolerances are absolute.

    Returns
    -------
    One multiplier per inequality, as those of ``LinearSolution``; None if there is no minimum.
    """
    import clarabel
    from scipy import sparse

    sides = Sides(system)
    equations = len(sides.values)
    sizes = {clarabel.ZeroConeT: equations, clarabel.NonnegativeConeT: len(sides.caps)}
    parts = (
        sparse.diags_array(curvature, format="csc"),
        slope,
        sides.matrix.tocsc(),
        np.concatenate([sides.values, sides.caps]),
        # The solver takes no cone of size 0.
        [cone(size) for cone, size in sizes.items() if size],
    )
    solution = by_clarabel(parts, settings("CLARABEL", "high", {}))
    # Points that are less accurate than required still have multipliers worth trying.
    if solution is None or str(solution.status) not in ("Solved", "AlmostSolved"):
        return None
    # CLARABEL's multipliers have the sign of the Lagrangian, scipy's that of the derivative.
    derivatives = -np.asarray(solution.z, dtype=np.float64)
    return sides.multipliers(derivatives[:equations], derivatives[equations:])


def by_clarabel(parts: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
    """Return what Clarabel makes of a program without cvxpy, or None where it gives up.

    Parameters
    ----------
    parts
        The upper triangle of P, the linear part, A, b and the cones, as Clarabel takes them.
    options
        Its settings by name.
    """
    import clarabel

    chosen = clarabel.DefaultSettings()
    chosen.verbose = False
    for name, value in options.items():
        setattr(chosen, name, value)
    try:
        return clarabel.DefaultSolver(*parts, chosen).solve()
    # Clarabel is written in Rust: where it gives up it may panic, which is no Exception.
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        return None


@dataclass(frozen=True, eq=False)
class ConeSolution:
    """What a solver made of a cone program.

    Attributes
    ----------
    status
        How it ended, in cvxpy's words.
    values
        The values of variables.
    seconds
        What the solver itself took.
    steps
        Number of iterations that the solver reports, 0 where it reports none.
    stats
        cvxpy's record of what the solver reports.
    """

    status: str
    values: Answer
    seconds: float
    steps: int
    stats: Any = None

    def at(self, variable: cp.Variable) -> Array | None:
        """Return the value of a variable, or None."""
        return self.values.at(variable)


class ConeProgram:
    """Minimise a convex cvxpy expression under cvxpy constraints; compiled on first use.

    Parameters
    ----------
    objective, constraints
        In cvxpy's terms.
    solver
        An installed solver, as cvxpy spells it; cvxpy compiles anew when it changes.
    anchor
        A variable whose values are of order 1: rows, cones and other variables get units that fit
        it (``solver_data``). None leaves all units as they are.
    with_objective
        Whether that holds for the objective and its own variables too.
    """

    def __init__(
        self,
        objective: cp.Expression,
        constraints: Sequence[cp.Constraint],
        solver: str = DEFAULT_SOLVER,
        *,
        anchor: cp.Variable | None = None,
        with_objective: bool = False,
    ) -> None:
        import cvxpy as cp

        self.solver = solver
        self.problem = cp.Problem(cp.Minimize(objective), list(constraints))
        self._anchors = () if anchor is None else (anchor.id,)
        self._with_objective = with_objective
        self._data: SolverData | None = None

    def compile(self, options: Mapping[str, Any] | None = None) -> SolverData:
        """Compile now, so that the first solve takes no longer than the others.

        Raises
        ------
        UnsupportedProblemError
            If the solver does not take such programs.
        """
        import cvxpy as cp

        try:
            self._data = SolverData(
                self.problem,
                self.solver,
                self._anchors,
                with_objective=self._with_objective,
                options=options,
            )
        except cp.error.SolverError as error:
            able = takers(self.problem)
            remedy = f"these can: {', '.join(able)}" if able else "no solver installed here can"
            raise UnsupportedProblemError(
                f"{self.solver} cannot take this problem ({error}); {remedy}"
            ) from None
        record = SOLVERS.get(self.solver)
        limit = None if record is None else record.largest_cone
        if limit is not None and self._data.largest_cone > limit:
            raise UnsupportedProblemError(
                f"{self.solver} cannot take this problem (it stores a square matrix for each "
                f"second-order cone, and one has {self._data.largest_cone:,} entries: more than "
                f"{limit:,} take minutes and gigabytes); CLARABEL and SCS store no such matrix"
            )
        return self._data

    def solve(
        self, options: Mapping[str, Any] | None = None, running: Running = COLD
    ) -> ConeSolution:
        """Return the solver's solution; cvxpy and the solver raise their own errors.

        This does what ``cvxpy.Problem.solve`` does, without the values of duals and objective,
        which are not used.
        """
        if options is None:
            options = settings(self.solver, "high", {})
        with warnings.catch_warnings():
            # "Solution may be inaccurate" is what the status says.
            warnings.simplefilter("ignore")
            data = self._compiled(options)
            began = time.perf_counter()
            raw = data.solve(options, running)
            seconds = time.perf_counter() - began
            answer = data.answer(raw, options)
        return self._solution(answer, seconds)

    def job(self, options: Mapping[str, Any]) -> Job | None:
        """Return a solve at the parameters' present values; None if no other process can run it."""
        return self._compiled(options).job(options)

    def solution_of(self, result: JobResult) -> ConeSolution:
        """Return the solution that a job has found; multipliers are not among it."""
        assert self._data is not None  # it has made the job
        return self._solution(self._data.answer_of(result), result.seconds)

    def _solution(self, answer: Answer, seconds: float) -> ConeSolution:
        from cvxpy.problems.problem import SolverStats

        stats = SolverStats.from_dict(answer.solution.attr, self.solver)
        return ConeSolution(answer.status, answer, seconds, answer.steps, stats)

    def _compiled(self, options: Mapping[str, Any]) -> SolverData:
        """Return the solver's data for the parameters' present values."""
        # Settings that change the program itself, and not only its solver, compile anew.
        data = self._data
        if data is None or not data.fits(options):
            return self.compile(options)
        data.update()
        return data

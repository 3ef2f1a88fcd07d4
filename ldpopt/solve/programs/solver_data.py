"""What a solver takes of a problem that cvxpy has compiled: its numbers, in good units.

cvxpy makes of a problem a cone program min c·x + ½ xᵀPx, A x + s = b, s in K, whose numbers are
linear in the parameters. Two things happen here between cvxpy and a solver.

**Units.** Rows, cones and auxiliary variables get the units that ``units`` finds.

**Solving again.** Of a new estimate mostly c and b alone are new. They are one sparse product each;
cvxpy would build all matrices again.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Collection, Hashable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.expressions import exponent_of, takes_negative_numbers
from ldpopt.immutable import closed
from ldpopt.solve.programs.jobs import Job, JobResult, pack, without_program
from ldpopt.solve.programs.solvers import (
    COLD,
    SOLVERS,
    Running,
    hide_its_name,
    installed_solvers,
)
from ldpopt.solve.programs.units import Coefficients, Units, are_near_one, balanced, row_groups

if TYPE_CHECKING:
    import cvxpy as cp

Array = NDArray[np.float64]

# Parameters from which cvxpy's second way to build its map is taken: the usual one makes one matrix
# per parameter, which takes memory and time quadratic in their number.
_MANY = 256

# Exponents of powers that a square, a hyperbola or two of them state.
_OF_SQUARES = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)


@dataclass(frozen=True, eq=False)
class Answer:
    """What a solver returned, in the units of the problem, without multipliers.

    Attributes
    ----------
    status
        cvxpy's word for how it ended.
    steps
        Number of iterations that the solver reports, 0 where it reports none.
    x
        The values of all variables of the compiled program, or None.
    compiled, solution
        Where the rest comes from: cvxpy's solution, and the way back to the user's problem.
    """

    status: str
    steps: int
    x: Array | None
    compiled: SolverData
    solution: Any

    def at(self, variable: cp.Variable) -> Array | None:
        """Return the value of a variable of the user's problem, or None."""
        first = self.compiled.starts.get(variable.id)
        if self.x is not None and first is not None:
            # Most variables are a part of x: cvxpy would translate all of them.
            part = self.x[first : first + variable.size]
            return np.reshape(part, variable.shape, order="F")
        value = (self.compiled.inverted(self.solution).primal_vars or {}).get(variable.id)
        return None if value is None else np.asarray(value, dtype=np.float64)


class SolverData:
    """A problem as cvxpy compiles it for one solver, in good units.

    Parameters
    ----------
    problem
        A convex cvxpy problem whose parameters have values.
    solver
        As cvxpy spells it.
    anchors
        The ids of the variables that keep their units; without any, nothing is rescaled.
    with_objective
        Whether the objective and its own variables are rescaled too.
    options
        The solver's, of which one changes what cvxpy compiles.

    Raises
    ------
    cvxpy.error.SolverError
        If the solver does not take the problem.
    """

    def __init__(
        self,
        problem: cp.Problem,
        solver: str,
        anchors: Collection[int] = (),
        *,
        with_objective: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.problem = problem
        self.solver = solver
        # SCS may take squares as cones, by an option: that is another program.
        self.quadratic_option = (options or {}).get("use_quad_obj")
        self.chain, self._program, self._inverse = reduced_problem(problem, solver, options)
        # Parameters that cvxpy has evaluated are constants of what it compiled.
        self.is_kept = not any(type(r).__name__ == "EvalParams" for r in self.chain.reductions)
        self.units: Units | None = None
        self.starts = self._program.var_id_to_col
        # Before the solver's own form is made, which differs from interface to interface.
        if anchors:
            self._rescale(anchors, with_objective=with_objective)
        self._data, self._of_solver = self.chain.solver.apply(self._program)
        self._quick: _Substitution | None = None
        self._packed: bytes | None = None
        self._last_settings: tuple[dict[str, Any], bool] | None = None
        if self.is_kept and self._program.parameters:
            self._quick = _Substitution.of(self._program, self._data)

    def _rescale(self, anchors: Collection[int], *, with_objective: bool) -> None:
        """Put the program into balanced units, unless its coefficients are near 1 already."""
        program = self._program
        # Bounds of variables would have to be rescaled in each solver's own way.
        if program.lower_bounds is not None or program.upper_bounds is not None:
            return
        quadratic, linear, matrix = _present_numbers(program)
        # Most forms of this library are stated in good units: nothing has to be looked for.
        if not with_objective and are_near_one(matrix.data):
            return
        anchored = np.zeros(program.x.size, dtype=bool)
        for variable in program.variables:
            first = self.starts.get(variable.id)
            if variable.id in anchors and first is not None:
                anchored[first : first + variable.size] = True
        entries = _coefficients(program, quadratic, linear, matrix)
        units = balanced(entries, anchored, with_objective=with_objective)
        if units is None:
            return
        self.units = units
        self._program = _rescaled(program, units)

    @property
    def largest_cone(self) -> int:
        """How many entries the largest second-order cone has, 0 without any."""
        return max(self._program.cone_dims.soc, default=0)

    def fits(self, options: Mapping[str, Any]) -> bool:
        """Return whether what is compiled fits these options and the parameters' present values."""
        is_kept = self.is_kept or not self.problem.parameters()
        return is_kept and self.quadratic_option == options.get("use_quad_obj")

    def solve(self, options: Mapping[str, Any], running: Running = COLD) -> Any:
        """Return the solver's raw result for the values that the parameters have now.

        cvxpy and the solver raise their own errors. Unless that is requested, no solve starts at
        the result of another one, so that the point of a trial does not depend on those before it.
        Nor at one that was found with other options, or printed: the solver that cvxpy keeps still
        has them.
        """
        settings = (dict(options), running.verbose)
        is_alike = self._last_settings == settings
        self._last_settings = settings
        if not running.verbose:
            hide_its_name(self.solver)
        # A copy: cvxpy's interfaces compare the data with those of the last solve, which they keep.
        return self.chain.solve_via_data(
            self.problem,
            dict(self._data),
            warm_start=running.warm_start and is_alike,
            verbose=running.verbose,
            solver_opts=dict(options),
        )

    def update(self) -> None:
        """Put the parameters' values into the solver's data."""
        if not self._program.parameters:
            return
        # Reductions may have put parameters of their own in the place of the user's.
        for reduction in self.chain.reductions:
            reduction.update_parameters(self.problem)
        if self._quick is None:
            self._data, self._of_solver = self.chain.solver.apply(self._program)
        else:
            self._data.update(self._quick.numbers())

    def answer(self, raw: Any, options: Mapping[str, Any]) -> Answer:
        """Return a raw result in the units of the problem."""
        from cvxpy.reductions.solvers.solver_inverse_data import SolverInverseData

        # Nobody looks at the multipliers of all rows, of which cvxpy would make copies.
        needed = _without_rows(self._of_solver)
        inverse = SolverInverseData(needed, self.chain.solver, dict(options))
        return self._in_units(self.chain.solver.invert(raw, inverse))

    def job(self, options: Mapping[str, Any]) -> Job | None:
        """Return the solve for the parameters' present values, for another process to run.

        None is returned where the estimate is compiled in: other trials have other compilations.
        """
        if not (self.is_kept and self._program.parameters):
            return None
        if self._packed is None:
            self._packed = pack(self.chain.solver, self._data, self._of_solver)
        if self._quick is not None:
            return Job(self._packed, self._quick.numbers(), dict(options))
        # Where coefficients depend on the estimate, a job has all numbers of its own.
        return Job(self._packed, without_program(self._data), dict(options))

    def answer_of(self, result: JobResult) -> Answer:
        """Return the result of a job in the units of the problem."""
        from cvxpy.reductions.solution import Solution

        values = {} if result.x is None else {self._program.x.id: result.x}
        return self._in_units(Solution(result.status, None, values, {}, result.report))

    def _in_units(self, solution: Any) -> Answer:
        """Return a solution of the compiled program in the units of the problem."""
        x = None
        if solution.primal_vars:
            # Here cvxpy has one vector for all variables.
            name, x = next(iter(solution.primal_vars.items()))
            x = np.asarray(x, dtype=np.float64).ravel()
            if self.units is not None:
                x = x * self.units.columns
                solution.primal_vars[name] = x
        # A few solvers leave the number of steps out, or None in its place.
        steps = int(solution.attr.get("num_iters") or 0)
        return Answer(solution.status, steps, x, self, solution)

    def inverted(self, solution: Any) -> Any:
        """Return a solver's solution in terms of the user's problem."""
        pairs = list(zip(self.chain.reductions, self._inverse, strict=False))
        for reduction, inverse in reversed(pairs):
            solution = reduction.invert(solution, inverse)
        return solution


def _without_rows(needed: Any) -> Any:
    """Return what a cvxpy interface needs to read a result, without the rows of multipliers."""
    # The interfaces of some solvers keep it in another form.
    if not isinstance(needed, dict):
        return needed
    return {**needed, **{name: [] for name in _ROWS if name in needed}}


# cvxpy's names for the lists of equations and of other rows.
_ROWS = ("eq_constr", "other_constr")


def takers(problem: cp.Problem) -> list[str]:
    """Return the known solvers on this machine that take a problem, without compiling it."""
    import cvxpy as cp

    able = []
    candidates = [name for name in SOLVERS if name in installed_solvers()]
    for name in candidates:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                problem._construct_chain(solver=name)
            except cp.error.SolverError:
                continue
        able.append(name)
    return able


def reduced_problem(
    problem: cp.Problem, solver: str, options: Mapping[str, Any] | None = None
) -> tuple[Any, Any, list[Any]]:
    """Return cvxpy's reductions, the program that they end in, and what they need to go back.

    The last reduction, which makes the solver's data of the program, is left to the caller.
    """
    parameters = sum(parameter.size for parameter in problem.parameters())
    with warnings.catch_warnings():
        # Advice on the speed of compilation.
        warnings.simplefilter("ignore")
        chain = problem._construct_chain(
            solver=solver,
            canon_backend="COO" if parameters > _MANY else None,
            solver_opts=dict(options or {}),
        )
        problem.solver_context = chain.solver_context
        program: Any = problem
        inverse = []
        # The last one makes the solver's data, which needs the rows in order first.
        for reduction in chain.reductions[:-1]:
            _state_by_power_cones(reduction, chain.solver)
            if solver in SOLVERS and SOLVERS[solver].needs_signs:
                _state_signs(reduction)
            program, needed = reduction.apply(program)
            inverse.append(needed)
    return chain, _formatted(program, chain.solver), inverse


def _state_by_power_cones(reduction: Any, solver: Any) -> None:
    """Let a reduction of cvxpy state norms and powers by power cones, if a solver has any.

    By default it takes trees of second-order cones, of which some are nearly lines: for the 3-norm
    of 256 values no solver had an accurate point, and a proof for 64 took fifty times as long.
    Geometric means stay trees: by cones of many values Clarabel ended early in 22 of 100 problems,
    and by trees in none.
    """
    from cvxpy.atoms.elementwise.power import Power, PowerApprox
    from cvxpy.atoms.pnorm import Pnorm, PnormApprox
    from cvxpy.constraints import PowCone3D

    methods = getattr(reduction, "cone_canon_methods", None)
    if methods is None or PowCone3D not in solver.SUPPORTED_CONSTRAINTS:
        return
    powers = {power: _by_exponent(methods[power], methods[Power]) for power in (PowerApprox, Power)}
    # Of this one object alone: cvxpy's own tables serve other problems too.
    reduction.cone_canon_methods = {**methods, PnormApprox: methods[Pnorm], **powers}
    squares = reduction.quad_canon_methods
    reduction.quad_canon_methods = {
        **squares,
        **{power: _if_square(squares[power], stated) for power, stated in powers.items()},
    }


def _if_square(square: Any, other: Any) -> Any:
    """Return the way to state powers in an objective, some of which cvxpy takes for squares."""

    def stated(power: Any, *arguments: Any, **options: Any) -> tuple[Any, list[Any]]:
        # By its fraction, which is 2 for 2.0001.
        is_other = exponent_of(power) not in (0, 1, 2)
        values, forms = (other if is_other else square)(power, *arguments, **options)
        return values, forms

    return stated


def _by_exponent(tree: Any, power_cone: Any) -> Any:
    """Return the way to state powers: by a tree of cones where one or two of them are enough."""
    import cvxpy as cp
    from cvxpy.atoms.elementwise.power import Power

    def stated(power: Any, arguments: Any, **options: Any) -> tuple[Any, list[Any]]:
        exponent = exponent_of(power)
        if abs(exponent) in _OF_SQUARES:
            values, forms = tree(power, arguments, **options)
            return values, forms
        # A tree has a fraction near the exponent, and values and violations have the exponent.
        exact = Power(*power.args, exponent)
        # cvxpy states a sum of squares as a vector of one number, of which it makes no cone.
        base = cp.reshape(arguments[0], power.shape, order="F")
        values, forms = power_cone(exact, [base], **options)
        # The cone takes numbers below 0 to the power of 6 or 10, and cvxpy's function does not.
        is_narrower = exponent % 2 == 0 and not takes_negative_numbers(exponent)
        return values, [*forms, base >= 0] if is_narrower else forms

    return stated


def _state_signs(reduction: Any) -> None:
    """Let a reduction of cvxpy state that the variables t in -t <= x <= t are not negative.

    It follows, and without these rows first-order solvers may not converge: with them SCS takes
    a few thousand steps for a bound of 1,024 absolute differences, and none suffice without.
    """
    import cvxpy as cp

    methods = getattr(reduction, "cone_canon_methods", None)
    if methods is None:
        return
    signed = {atom: _signed(methods[atom]) for atom in (cp.abs, cp.norm1) if atom in methods}
    reduction.cone_canon_methods = {**methods, **signed}


def _signed(canonicalize: Any) -> Any:
    """Return cvxpy's way to state absolute values, with the sign of each."""

    def with_sign(*arguments: Any, **options: Any) -> tuple[Any, list[Any]]:
        values, forms = canonicalize(*arguments, **options)
        # The first is x <= t, whose second part is the variable.
        return values, [*forms, forms[0].args[1] >= 0]

    return with_sign


def _formatted(program: Any, solver: Any) -> Any:
    """Return a compiled program with its rows in a cone solver's order.

    cvxpy's own way takes time in proportion to variables times parameters. The order does not
    depend on the coefficients, so cvxpy sorts the numbers of the rows alone.
    """
    from scipy import sparse

    numbers = _Numbers.of(program)
    if program.formatted or not hasattr(solver, "format_constraints"):
        return program if numbers is None else _handing_out(program, numbers)
    place, signs = _order_of_rows(program, solver)
    if numbers is not None:
        ordered = _handing_out(program, numbers.ordered(place, signs))
        ordered.formatted = True
        return ordered
    matrix = program.A.tocoo()
    # cvxpy stacks the columns of A: a row of the map is a row and a column of A.
    rows = program.constr_size
    column_of_a, row_of_a = np.divmod(matrix.row, rows)
    row = place[row_of_a]
    position = (row + rows * column_of_a, matrix.col)
    moved = sparse.coo_array((matrix.data * signs[row], position), shape=matrix.shape)
    return _with_numbers(program, program.q, moved.tocsc(), program.P, is_ordered=True)


# Orders of rows that are kept: problems of one shape share theirs.
_KEPT_ORDERS = 64

_orders: dict[Hashable, tuple[NDArray[np.int64], Array]] = {}
_changing_orders = threading.Lock()


def _order_of_rows(program: Any, solver: Any) -> tuple[NDArray[np.int64], Array]:
    """Return where a solver wants each row, and the sign of each place; both read-only."""
    kinds = _kinds_of_rows(program)
    if kinds is None:
        return _found_order(program, solver)
    key = (type(solver), kinds)
    order = _orders.get(key)
    if order is None:
        order = _found_order(program, solver)
        with _changing_orders:
            while len(_orders) >= _KEPT_ORDERS:
                del _orders[next(iter(_orders))]
            _orders[key] = order
    return order


def _kinds_of_rows(program: Any) -> Hashable | None:
    """Return all that the order of rows depends on, None where it depends on more than sizes."""
    from cvxpy.constraints import SOC, ExpCone, NonNeg, Zero

    kinds = [(type(part), tuple(arg.shape for arg in part.args)) for part in program.constraints]
    return tuple(kinds) if all(kind in (Zero, NonNeg, SOC, ExpCone) for kind, _ in kinds) else None


def _found_order(program: Any, solver: Any) -> tuple[NDArray[np.int64], Array]:
    """Return the order of rows as cvxpy finds it."""
    from types import SimpleNamespace

    from scipy import sparse

    rows = program.constr_size
    # From 1, so that every number has a sign.
    column = np.arange(1.0, rows + 1)[:, None]
    fields = {
        **vars(program),
        "A": sparse.csc_array(column),
        "x": SimpleNamespace(size=0),
        "P": None,
    }
    ordered = solver.format_constraints(SimpleNamespace(**fields), solver.EXP_CONE_ORDER)
    # Some rows have their signs turned on the way.
    signed = ordered.A.toarray().ravel()
    former = np.abs(signed).astype(np.int64) - 1
    place = np.empty(rows, dtype=np.int64)
    place[former] = np.arange(rows)
    return closed(place), closed(np.sign(signed))


def _with_numbers(
    program: Any, costs: Any, matrix: Any, quadratic: Any, *, is_ordered: bool
) -> Any:
    """Return a compiled program with other maps from the parameters to c, to A and b, and to P."""
    from cvxpy.reductions.dcp2cone.cone_matrix_stuffing import ParamConeProg

    return ParamConeProg(
        costs,
        program.x,
        matrix,
        program.variables,
        program.var_id_to_col,
        program.constraints,
        program.parameters,
        program.param_id_to_col,
        P=quadratic,
        formatted=is_ordered,
        lower_bounds=program.lower_bounds,
        upper_bounds=program.upper_bounds,
        lb_tensor=program.lb_tensor,
        ub_tensor=program.ub_tensor,
        dir_cones=program.dir_cones,
    )


def _handing_out(program: Any, numbers: _Numbers) -> Any:
    """Return a compiled program without parameters that hands out these numbers without work.

    cvxpy's way is made for maps from many parameters, and takes a third of a compilation.
    """
    changed = copy(program)
    changed.apply_parameters = numbers
    return changed


@dataclass(frozen=True, eq=False)
class _Numbers:
    """The numbers of a program without parameters: P, c, the constant of the objective, A and b."""

    quadratic: Any
    costs: Array
    constant: float
    matrix: Any
    right: Array

    @classmethod
    def of(cls, program: Any) -> _Numbers | None:
        """Return the numbers: of each map from parameters to them the only column.

        None is returned for a program with parameters, without rows, or with bounds of variables.
        """
        has_bounds = program.lb_tensor is not None or program.ub_tensor is not None
        rows = program.constr_size
        if program.parameters or has_bounds or not rows or program.A.shape[1] > 1:
            return None
        size = program.x.size
        costs = program.q.toarray().ravel()
        quadratic = None
        if program.P is not None:
            quadratic = _matrix_of(*_unstacked(program.P, size, size), size)
        entries, row, starts = _unstacked(program.A, rows, size + 1)
        # b stands in the last column, as the constant does in c.
        last = starts[size]
        right = np.zeros(rows)
        right[row[last:]] = entries[last:]
        matrix = _matrix_of(entries[:last], row[:last], starts[: size + 1], rows)
        return cls(quadratic, costs[:size], float(costs[size]), matrix, right)

    def ordered(self, place: NDArray[np.int64], signs: Array) -> _Numbers:
        """Return the numbers with each row at another place, with its sign."""
        row = place[self.matrix.indices]
        rows = len(self.right)
        moved = _matrix_of(self.matrix.data * signs[row], row, self.matrix.indptr, rows)
        right = np.empty(rows)
        right[place] = self.right
        # By rows and back: each pass is linear, and leaves entries in order. A zero stays 0.0 where
        # its row's sign is turned, as in cvxpy's own numbers.
        return replace(self, matrix=moved.tocsr().tocsc(), right=right * signs + 0.0)

    def rescaled(self, units: Units) -> _Numbers:
        """Return the numbers in other units."""
        quadratic = None
        if self.quadratic is not None:
            quadratic = _scaled(self.quadratic, units.objective * units.columns, units.columns)
        return _Numbers(
            quadratic,
            units.objective * units.columns * self.costs,
            units.objective * self.constant,
            _scaled(self.matrix, units.rows, units.columns),
            units.rows * self.right,
        )

    def __call__(self, *_: Any, quad_obj: bool = False, **__: Any) -> tuple[Any, ...]:
        """Return the numbers as cvxpy's ``apply_parameters`` does for every solver."""
        numbers = (self.costs, self.constant, self.matrix, self.right)
        return (self.quadratic, *numbers) if quad_obj else numbers


def _unstacked(stacked: Any, rows: int, columns: int) -> tuple[Array, Any, Any]:
    """Return a matrix from the single column that has its columns one below the other.

    As entries, their rows, and where each column starts.
    """
    from scipy import sparse

    entries = sparse.csc_array(stacked)
    entries.sum_duplicates()
    # In the order of the stack, so that columns follow each other.
    column, row = np.divmod(entries.indices, rows)
    starts = np.searchsorted(column, np.arange(columns + 1))
    return entries.data, row, starts


def _matrix_of(entries: Array, row: Any, starts: Any, rows: int) -> Any:
    """Return a matrix by columns."""
    from scipy import sparse

    return sparse.csc_array((entries, row, starts), shape=(rows, len(starts) - 1))


def _scaled(matrix: Any, rows: Array, columns: Array) -> Any:
    """Return a matrix by columns with its rows and columns multiplied."""
    of_columns = np.repeat(columns, np.diff(matrix.indptr))
    entries = matrix.data * rows[matrix.indices] * of_columns
    return _matrix_of(entries, matrix.indices, matrix.indptr, matrix.shape[0])


def _present_numbers(program: Any) -> tuple[Any, Array, Any]:
    """Return P, or None, with c and A of a compiled program at the parameters' present values."""
    if program.P is None:
        linear, _, matrix, _ = program.apply_parameters()
        return None, linear, matrix
    quadratic, linear, _, matrix, _ = program.apply_parameters(quad_obj=True)
    return quadratic, linear, matrix


def _coefficients(program: Any, quadratic: Any, linear: Array, matrix: Any) -> Coefficients:
    """Return the coefficients of a compiled program with P, c and A."""
    bends: Array | float = 0.0
    if quadratic is not None and quadratic.nnz:
        bends = abs(quadratic).max(axis=0).toarray().ravel()
    groups = _groups(program.cone_dims, matrix.shape[0])
    return Coefficients.of(matrix, groups, np.abs(linear), bends)


def _groups(dims: Any, rows: int) -> NDArray[np.int64]:
    """Return the number of each row's group, from cvxpy's sizes of the cones in its order."""
    powers = [len(exponents) + 1 for exponents in dims.pnd]
    after = [3] * (dims.exp + len(dims.p3d)) + powers
    linear = dims.zero + dims.nonneg
    # Solvers differ in how many rows a matrix takes, so that matrices of all orders are one group.
    matrices = rows - linear - sum(dims.soc) - sum(after)
    return row_groups(linear, [*dims.soc, *([matrices] if matrices else []), *after])


def _rescaled(program: Any, units: Units) -> Any:
    """Return a compiled program in other units: every number is multiplied by a power of two.

    The maps from the parameters to the numbers have a row for each number: those of A and b column
    by column, b last, and those of P likewise.
    """
    if isinstance(program.apply_parameters, _Numbers):
        return _handing_out(program, program.apply_parameters.rescaled(units))
    rows = len(units.rows)
    # b, the last column, is no variable, and neither is the constant of the objective.
    columns = np.append(units.columns, 1.0)
    matrix = program.A.tocoo()
    sides: Array | float = 1.0
    if rows:
        column_of_a, row_of_a = np.divmod(matrix.row, rows)
        sides = units.rows[row_of_a] * columns[column_of_a]
    costs = program.q.tocoo()
    quadratic = None
    if program.P is not None:
        quadratic = program.P.tocoo()
        first, second = np.divmod(quadratic.row, len(units.columns))
        # Symmetric: which of the two is the row does not matter.
        both = units.columns[second] * units.columns[first]
        quadratic = _times(quadratic, units.objective * both)
    return _with_numbers(
        program,
        _times(costs, units.objective * columns[costs.row]),
        _times(matrix, sides),
        quadratic,
        is_ordered=program.formatted,
    )


def _times(matrix: Any, factors: Array | float) -> Any:
    """Return a matrix in coordinates with each entry multiplied, by columns."""
    from scipy import sparse

    place = (matrix.row, matrix.col)
    return sparse.csc_array((matrix.data * factors, place), shape=matrix.shape)


@dataclass(frozen=True, eq=False)
class _Substitution:
    """The map from parameters to c and b, where all other numbers do not depend on them.

    Attributes
    ----------
    program
        The compiled program.
    both
        The sparse matrix from the parameters and a 1 to c and, below it, to b as cvxpy has it.
    places
        The names of c and of the parts of b in the solver's data.
    """

    program: Any
    both: Any
    places: _Places

    @classmethod
    def of(cls, program: Any, data: Mapping[str, Any]) -> _Substitution | None:
        """Return the map, or None where other numbers depend on parameters too.

        It is compared with what cvxpy itself has put into the data.
        """
        from scipy import sparse

        places = _Places.of(data, program.cone_dims.zero)
        matrix = program.A.tocoo()
        rows = program.constr_size
        if places is None or not rows:
            return None
        constant = program.param_id_to_col[_CONSTANT]
        # The rows of b come behind those of A.
        in_matrix = matrix.row < rows * program.x.size
        is_moved = (matrix.col != constant) & (matrix.data != 0)
        if np.any(in_matrix & is_moved) or _depends(program.P, constant):
            return None
        in_right = ~in_matrix
        position = (matrix.row[in_right] % rows, matrix.col[in_right])
        shape = (rows, matrix.shape[1])
        right = sparse.csr_array((matrix.data[in_right], position), shape=shape)
        costs = program.q.tocsr()[: program.x.size]
        # One product in place of two: a short one costs what is around it.
        both = sparse.vstack([costs, right], format="csr")
        result = cls(program, both, places)
        for name, numbers in places.parts(*result.values()):
            stated = np.zeros(0) if data[name] is None else data[name]
            if not np.array_equal(stated, numbers):
                return None
        return result

    def values(self) -> tuple[Array, Array]:
        """Return c and b for the parameters' present values."""
        from cvxpy.cvxcore.python import canonInterface

        program = self.program
        parameters = canonInterface.get_parameter_vector(
            program.total_param_size,
            program.param_id_to_col,
            program.param_id_to_size,
            lambda number: np.asarray(program.id_to_param[number].value, dtype=np.float64),
        )
        numbers = self.both @ parameters
        return numbers[: program.x.size], numbers[program.x.size :]

    def numbers(self) -> dict[str, Array]:
        """Return c and b under their names in the solver's data."""
        return dict(self.places.parts(*self.values()))


# The number that cvxpy gives to the constant 1 among its parameters.
_CONSTANT = -1


def _depends(tensor: Any, constant: int) -> bool:
    """Return whether an entry of a matrix depends on a parameter."""
    if tensor is None:
        return False
    triples = tensor.tocoo()
    return bool(np.any((triples.col != constant) & (triples.data != 0)))


class _Places(NamedTuple):
    """Where c and b stand in the data of a solver.

    ``b`` are (name, rows, sign): cvxpy's solver interfaces split equations from other rows, and
    some turn the sign of the right side.
    """

    c: str
    b: tuple[tuple[str, slice, float], ...]

    @classmethod
    def of(cls, data: Mapping[str, Any], equations: int) -> _Places | None:
        """Return the places in the data that one of cvxpy's kinds of interfaces has made."""
        first = slice(0, equations)
        rest = slice(equations, None)
        if "F" in data and "q" in data:  # quadratic programs
            return cls("q", (("b", first, -1.0), ("G", rest, 1.0)))
        if "h" in data and "c" in data:
            return cls("c", (("b", first, 1.0), ("h", rest, 1.0)))
        if "c" in data and "b" in data:
            return cls("c", (("b", slice(None), 1.0),))
        return None

    def parts(self, c: Array, b: Array) -> list[tuple[str, Array]]:
        """Return the numbers under each name."""
        sides = [(name, sign * b[rows]) for name, rows, sign in self.b]
        return [(self.c, c), *sides]

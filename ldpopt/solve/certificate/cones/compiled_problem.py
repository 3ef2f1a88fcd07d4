"""What cvxpy compiles a problem to for Clarabel, and the way back of multipliers."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ldpopt.errors import UnsupportedProblemError
from ldpopt.solve.certificate.cones.conic_program import ConicProgram, Multipliers
from ldpopt.solve.certificate.cones.dual_cones import project
from ldpopt.solve.programs.solver_data import reduced_problem

if TYPE_CHECKING:
    import cvxpy as cp


@dataclass(frozen=True, eq=False)
class CompiledProblem:
    """A problem as Clarabel takes it.

    Attributes
    ----------
    program, offset
        The program, and what its objective lacks; of a problem that is maximised, the negative.
    starts
        The first column of each variable that was not replaced by others, by the variable's id.
    chain, inverse
        cvxpy's reductions, and what they need to translate a solution back.
    """

    program: ConicProgram
    offset: float
    starts: Mapping[int, int]
    chain: Any
    inverse: Any

    def duals(self, point: Multipliers) -> dict[int, Any]:
        """Return cvxpy's multipliers by the ids of its constraints."""
        # What Clarabel would have returned, as far as cvxpy reads it.
        result = SimpleNamespace(
            x=point.x,
            z=project(point.z, self.program.cones),
            status="Solved",
            obj_val=0.0,
            solve_time=0.0,
            iterations=0,
        )
        return dict(self.chain.invert(result, self.inverse).dual_vars)


def compiled_set(variable: cp.Variable, forms: Sequence[cp.Constraint]) -> CompiledProblem:
    """Return compiled constraints on a variable; the program's objective is not to be used."""
    import cvxpy as cp

    # The sum only makes sure that the variable occurs.
    compiled = compiled_problem(cp.Problem(cp.Minimize(cp.sum(variable)), list(forms)))
    assert compiled is not None  # it has a variable
    return compiled


def compiled_problem(problem: cp.Problem) -> CompiledProblem | None:
    """Return the compiled problem; None if it has no variables.

    Raises
    ------
    UnsupportedProblemError
        If Clarabel does not take such problems.
    """
    import cvxpy as cp

    # What has no variables is not compiled.
    if not problem.variables():
        return None
    with warnings.catch_warnings():
        # Advice on fractions for exponents, which are mostly exact.
        warnings.simplefilter("ignore")
        try:
            # The same numbers as cvxpy's get_problem_data, in four fifths of the time.
            chain, reduced, needed = reduced_problem(problem, "CLARABEL")
            data, of_solver = chain.solver.apply(reduced)
        except cp.error.SolverError as error:
            raise UnsupportedProblemError(f"Clarabel does not take this problem: {error}") from None
    return CompiledProblem(
        ConicProgram.of(data),
        float(of_solver["offset"]),
        reduced.var_id_to_col,
        chain,
        [*needed, of_solver],
    )

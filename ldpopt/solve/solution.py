"""What solving a problem returned: a point, how it was obtained, and a proof of how good it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt.estimate import FrequencyEstimate, TopValues
from ldpopt.estimate.estimate import PICTURED
from ldpopt.estimate.sets import NamedSets, Sets
from ldpopt.immutable import closed
from ldpopt.printable import counted, shortened
from ldpopt.solve import feasibility
from ldpopt.solve.certificate import Certificate, certify, shown
from ldpopt.solve.formulation import Formulation
from ldpopt.solve.jacobian import Jacobian, jacobian
from ldpopt.solve.plan import Path
from ldpopt.solve.status import Status
from ldpopt.solve.summary import Summary
from ldpopt.tables import html_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

_SHOWN = 5  # frequencies that the representation lists


@dataclass(frozen=True, eq=False)
class Solution:
    """What a path returned, and a certificate that does not depend on the path.

    Attributes
    ----------
    problem, start
        What was solved, and the estimate that it was solved for.
    frequencies
        The minimiser, of the estimate's shape; read-only.
    status
        ``Status.OPTIMAL`` or ``Status.INACCURATE``; for a stack the worst of its trials.
    path
        ``"closed-form"``, ``"iterative"`` or ``"conic"``.
    solver
        The name of the solver, the algorithm or the closed form.
    seconds, compile_seconds, solver_seconds
        Wall time of the path, and the parts of it in which cvxpy compiled the problem (nothing when
        a shape is solved again; the first time in a process it is loaded too) and in which the
        solver itself ran: 0 on the other paths.
    proof_seconds
        Wall time of the proof of the path's own point. It is no part of ``seconds``, and may be
        several times as long where it takes a program. If that point is not proved and another one
        is tried, the proofs of others count in ``seconds``.
    iterations
        Number of steps of an iterative algorithm, or of a solver in all trials together, 0 of
        a closed form and of solvers that do not report it.
    stats
        What the solver reports of each trial, in cvxpy's words; empty on the other paths.
    """

    problem: Formulation
    start: FrequencyEstimate
    frequencies: Array
    status: Status
    path: Path
    solver: str
    seconds: float
    compile_seconds: float = 0.0
    solver_seconds: float = 0.0
    proof_seconds: float = 0.0
    iterations: int = 0
    stats: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        # The objective, the certificate and the estimate are computed from them later, and kept.
        object.__setattr__(self, "frequencies", closed(self.frequencies))

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the solvers' own objects in their reports: they do not pickle."""
        stats = tuple(replace(one, extra_stats=None) for one in self.stats)
        return {**vars(self), "stats": stats}

    @cached_property
    def estimate(self) -> FrequencyEstimate:
        """The post-processed estimate: it knows its raw one, the noise and the labels."""
        return self.start.processed(self.frequencies, method=self.solver)

    @cached_property
    def objective(self) -> Any:
        """The loss in its own units: a float, or an array with one value per trial."""
        self.problem.loss.require_unchanged()
        value = self.problem.loss.value(self.frequencies, self.start)
        return float(value) if value.ndim == 0 else value

    @cached_property
    def certificate(self) -> Certificate:
        """The proof of optimality, computed from the problem and the point alone."""
        return certify(self.problem, self.start, self.frequencies)

    def jacobian(self, towards: ArrayLike | None = None) -> Jacobian:
        """Return ∂f̂/∂f̃, the derivative of the solution in the estimate, from its active face.

        Of a solution for ``Sources`` it is that along moves of the values which every measurement
        follows, groups by their totals: of squares, the derivative in ``sources.combined()``.

        Parameters
        ----------
        towards
            A move of the estimate, shape (d,). At a kink, where a constraint holds without a
            multiplier, the derivative is the one on this side; without it, the one for moves that
            keep all these constraints. ``is_one_sided`` and ``kinks`` of the result say so.

        Returns
        -------
        A ``Jacobian`` with ``@``, ``vjp``, ``diagonal``, ``trace`` and ``dense``.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If the solution is a stack, or ``towards`` is not a finite vector of d numbers.
        NoDerivativeError
            If no exact derivative is known: the loss is not a smooth convex sum over values (a
            prior that is fitted to the estimate moves with it), or a constraint is curved or has
            further variables.

        Notes
        -----
        Cost: a few passes over d values; a sparse system where constraints are not bounds and
        totals. The certificate is not needed.

        Examples
        --------
        >>> from ldpopt import Problem, constraints, losses
        >>> simplex = [constraints.NonNegative(), constraints.SumsTo(1.0)]
        >>> problem = Problem(losses.LeastSquares(), simplex)
        >>> kink = problem.solve([0.75, 0.25, 0.0]).jacobian(towards=[0.0, 0.0, 1.0])
        >>> kink @ [0.0, 0.0, 3.0], kink.is_one_sided
        (array([-1., -1.,  2.]), True)
        """
        return jacobian(self.problem, self.start, self.frequencies, towards)

    @cached_property
    def _jacobian(self) -> Jacobian:
        """The Jacobian, kept: its trace and products need the same face."""
        return self.jacobian()

    @property
    def degrees_of_freedom(self) -> float:
        """The trace of the Jacobian; errors are those of ``jacobian``.

        Of least squares on a polyhedron it is the dimension of the face: for Norm-Sub the number of
        positive values less 1, for an order the number of its blocks.

        Examples
        --------
        >>> from ldpopt import Problem, constraints, losses
        >>> order = Problem(losses.LeastSquares(), [constraints.Monotone([0, 1, 2])])
        >>> round(order.solve([0.5, 0.2, 0.3]).degrees_of_freedom, 12)
        2.0
        """
        return self._jacobian.trace

    def vjp(self, gradient: ArrayLike) -> Array:
        """Return Jᵀ g: the gradient in the estimate of what has the gradient g in the solution.

        For g of shape (d,), or (d, m). Errors are those of ``jacobian``.
        """
        return self._jacobian.vjp(gradient)

    @property
    def solver_stats(self) -> Any:
        """What the solver reports, cvxpy's ``SolverStats``: solve time, iterations and more.

        Of a stack a tuple with one per trial; None on the other paths.
        """
        if not self.stats:
            return None
        return self.stats if self.frequencies.ndim > 1 else self.stats[0]

    @property
    def duals(self) -> Mapping[str, Any]:
        """The multipliers of each constraint, by its name: see ``Certificate.duals``.

        Examples
        --------
        >>> from ldpopt import Problem, constraints, losses
        >>> simplex = [constraints.NonNegative(), constraints.SumsTo(1.0)]
        >>> solution = Problem(losses.LeastSquares(), simplex).solve([0.9, 0.6, -0.1])
        >>> solution.duals["NonNegative"].round(2), round(float(solution.duals["SumsTo"]), 2)
        (array([0.  , 0.  , 0.35]), -0.25)
        """
        return self.certificate.duals

    def query(self, sets: Sets | NamedSets) -> Any:
        """Return the total frequency of each set of values: see ``FrequencyEstimate.query``.

        Examples
        --------
        >>> from ldpopt import Problem, constraints, losses
        >>> simplex = [constraints.NonNegative(), constraints.SumsTo(1.0)]
        >>> solution = Problem(losses.LeastSquares(), simplex).solve([0.9, 0.6, -0.1])
        >>> solution.query([[0, 2], [1]]).round(2)
        array([0.65, 0.35])
        """
        return self.estimate.query(sets)

    def interval(
        self,
        level: float = 0.95,
        sets: Sets | NamedSets | None = None,
        *,
        simultaneous: bool = False,
        selected: int | None = None,
    ) -> Any:
        """Return confidence intervals for values or sets: see ``FrequencyEstimate.interval``.

        They are those of the raw estimate, with f >= 0 and Σf = 1. For intervals that use the
        problem's own constraints see ``Problem.interval``. An error is raised where the start is
        not known to be raw, or its noise is unknown.
        """
        # As its own type states it, a mapping of sets is passed by name.
        options: dict[str, Any] = {"simultaneous": simultaneous, "selected": selected}
        return self.estimate.interval(level, sets=sets, **options)

    def top(self, k: int | None = None, *, above: float | None = None) -> TopValues:
        """Return the largest values, with their labels: see ``FrequencyEstimate.top``.

        Examples
        --------
        >>> from ldpopt import FrequencyEstimate, Problem, constraints, losses
        >>> simplex = [constraints.NonNegative(), constraints.SumsTo(1.0)]
        >>> raw = FrequencyEstimate([0.5, 0.75, -0.25], labels=["cat", "dog", "cow"])
        >>> Problem(losses.LeastSquares(), simplex).solve(raw).top(2)
        value  index  frequency
        dog    1      0.62500
        cat    0      0.37500
        """
        return self.estimate.top(k, above=above)

    def plot(
        self,
        sets: Sets | NamedSets | None = None,
        *,
        level: float | None = 0.95,
        largest: int = PICTURED,
        simultaneous: bool = False,
    ) -> Figure:
        """Return a picture of the largest values or of sets: see ``FrequencyEstimate.plot``.

        Its intervals are those of ``interval``.
        """
        return self.estimate.plot(sets, level=level, largest=largest, simultaneous=simultaneous)

    def summary(self) -> Summary:
        """Return objective, certificate, multipliers by constraint, path and times on one screen.

        Of a stack the numbers are the worst of all trials, and multipliers are those of all.

        Returns
        -------
        A ``Summary``, which ``print`` and notebooks show.

        Notes
        -----
        Cost: that of the certificate, unless it has been computed.

        Examples
        --------
        >>> from ldpopt import Problem, constraints, losses
        >>> simplex = [constraints.NonNegative(), constraints.SumsTo(1.0)]
        >>> solution = Problem(losses.LeastSquares(), simplex).solve([0.75, 0.5, -0.25])
        >>> print(solution.summary())  # doctest: +ELLIPSIS
                      min ½‖f-f̃‖², f ≥ 0, Σf = 1
        =======================================...
        status:      optimal            objective:   ...
        """
        shape = " x ".join(f"{size:,}" for size in self.frequencies.shape)
        left = {
            "status": str(self.status),
            "path": self.path,
            "solver": self.solver,
            "values": shape,
            "iterations": f"{self.iterations:,}",
            "seconds": f"{self.seconds:.3g}",
            "… compiling": f"{self.compile_seconds:.3g}",
            "… in the solver": f"{self.solver_seconds:.3g}",
        }
        right = {"objective": f"{np.max(self.objective):.6g}"}
        right |= {name: f"{number:.3g}" for name, number in self.certificate.worst.items()}
        right["certified"] = self.certificate.scope
        right["optimal to 1e-9"] = "yes" if self.certificate.is_optimal(1e-9) else "no"
        right["… relative"] = "yes" if self.certificate.is_optimal(1e-9, relative=True) else "no"
        rows = shown.multiplier_rows(self.certificate.duals)
        notes = [shown.NOTE] if rows else []
        if self.certificate.reason:
            is_infinite = bool(np.isinf(self.certificate.gap).any())
            claim = "The gap is infinite" if is_infinite else "The gap is more than rounding"
            notes.append(f"{claim}: {self.certificate.reason}.")
        return Summary(
            self.problem.formula,
            (*left.items(), *right.items()),
            shown.HEADINGS,
            tuple(map(tuple, rows)),
            tuple(notes),
        )

    def _repr_html_(self) -> str:
        """Return the solution as notebooks show it, with its largest values."""
        facts = [
            ("problem", self.problem.formula),
            ("status", str(self.status)),
            ("path", f"{self.path}: {self.solver}, {self.seconds:.3g} s"),
            ("certificate", self._certificate_line()),
        ]
        return html_of((), facts, title="Solution") + self.estimate._repr_html_()

    def __repr__(self) -> str:
        first = self.frequencies.ravel()[:_SHOWN]
        labels = self.start.labels if self.frequencies.ndim == 1 else None
        names = [""] * len(first) if labels is None else [f"{shortened(one)} " for one in labels]
        values = ", ".join(f"{name}{value:.4g}" for name, value in zip(names, first, strict=False))
        more = ", …" if self.frequencies.size > _SHOWN else ""
        *trials, d = self.frequencies.shape
        stack = "".join(f"{counted(size, 'trial')} of " for size in trials)
        lines = [
            f"Solution of {self.problem.statement}",
            f"  status       {self.status}",
            f"  path         {self.path}: {self.solver}, {self.seconds:.3g} s",
            f"  frequencies  {stack}{d:,} values: {values}{more}",
            f"  certificate  {self._certificate_line()}",
        ]
        return "\n".join(lines)

    def _certificate_line(self) -> str:
        """Return the certificate, unless that takes a large program that was not requested."""
        # Showing a value in a notebook must not start a program that takes minutes.
        d = self.start.d
        is_cheap = self.problem.is_separate(d) or d <= feasibility.LARGEST
        if not is_cheap and "certificate" not in vars(self):
            return "is computed when the attribute certificate is read, which may take a program"
        at_hand = self.certificate.at_hand
        numbers = ", ".join(f"{name} {value:.2g}" for name, value in at_hand.items())
        scope = self.certificate.scope
        return numbers if scope == "the problem" else f"{numbers}, of {scope}"

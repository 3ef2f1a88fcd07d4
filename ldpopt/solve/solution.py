"""What solving a problem returned: a point, how it was obtained, and a proof of how good it is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt.estimate import FrequencyEstimate
from ldpopt.solve.certificate import Certificate, certify
from ldpopt.solve.formulation import Formulation
from ldpopt.solve.plan import Path
from ldpopt.solve.status import Status

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Solution:
    """What a path returned, and a certificate that does not depend on the path.

    Attributes
    ----------
    problem, start
        What was solved, and the estimate that it was solved for.
    frequencies
        The minimiser, of the estimate's shape.
    status
        ``Status.OPTIMAL`` or ``Status.INACCURATE``; for a stack the worst of its trials.
    path
        ``"closed-form"``, ``"iterative"`` or ``"conic"``.
    solver
        The name of the solver, the algorithm or the closed form.
    seconds, compile_seconds, solver_seconds
        Wall time of it all, and the parts of it in which cvxpy compiled the problem (nothing when
        a shape is solved again) and in which the solver itself ran: 0 on the other paths.
    steps
        Number of steps of an iterative algorithm, 0 on the other paths.
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
    steps: int = 0

    @cached_property
    def estimate(self) -> FrequencyEstimate:
        """The post-processed estimate, which knows the raw one, its n and its oracle."""
        return self.start.processed(self.frequencies, method=self.solver)

    @cached_property
    def objective(self) -> Any:
        """The loss in its own units: a float, or an array with one value per trial."""
        value = self.problem.loss.value(self.frequencies, self.start)
        return float(value) if value.ndim == 0 else value

    @cached_property
    def certificate(self) -> Certificate:
        """The proof of optimality, computed from the problem and the point alone."""
        return certify(self.problem, self.start, self.frequencies)

    def __repr__(self) -> str:
        return (
            f"Solution(path={self.path!r}, solver={self.solver!r}, status={str(self.status)!r}, "
            f"seconds={self.seconds:.3g}, {self.certificate!r})"
        )

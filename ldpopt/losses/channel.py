"""The likelihood of counts of the outcomes of any finite channel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.channels import Matrix
from ldpopt.errors import InvalidInputError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses.base import Loss

if TYPE_CHECKING:
    import cvxpy as cp
    from scipy.sparse.linalg import LinearOperator

Array = NDArray[np.float64]


class ChannelMLE(Loss):
    """-Σ_y c_y log (A f)_y / Σc: the likelihood of counts of a channel's outcomes.

    Parameters
    ----------
    channel
        A ``channels.Matrix``, or its matrix A of shape (outcomes, d).
    counts
        How often each outcome was sent, whole numbers of shape (outcomes,), at least one report.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the matrix is no channel, there is not one count per outcome, or an outcome was counted
        that no value sends.

    Notes
    -----
    On the simplex this is one convex problem. The *iterative Bayesian update* (Arcolezi, Cerna,
    Palamidessi, arXiv 2307.07744), and with ``channels.mix`` its form for users of several
    channels, are EM on it: ``solve(..., solver="em")``. The default takes Newton steps instead;
    both stop by the same gap.

    Examples
    --------
    >>> from ldpopt import Problem, channels, constraints
    >>> coin = channels.Matrix([[0.75, 0.25], [0.25, 0.75]])
    >>> problem = Problem(
    ...     ChannelMLE(coin, [600, 400]), [constraints.NonNegative(), constraints.SumsTo(1.0)]
    ... )
    >>> solution = problem.solve(FrequencyEstimate([0.5, 0.5]))
    >>> solution.frequencies.round(6), solution.certificate.is_optimal(1e-9)
    (array([0.7, 0.3]), True)
    """

    takes_reports = True

    def __init__(self, channel: Matrix | ArrayLike, counts: ArrayLike) -> None:
        self.stated = channel if isinstance(channel, Matrix) else Matrix(channel)
        whole = validate.whole_numbers("counts", counts, low=0, high=2**53)
        size = self.stated.outcomes
        if whole.shape != (size,):
            raise InvalidInputError(
                f"counts must have shape ({size},), one per outcome of the channel, got shape "
                f"{whole.shape}"
            )
        if not whole.any():
            raise InvalidInputError("there are no reports: the likelihood needs at least one")
        impossible = (whole > 0) & ~self.stated.matrix.any(axis=1)
        if impossible.any():
            raise InvalidInputError(
                f"outcome {int(np.argmax(impossible))} was counted, and no value sends it"
            )
        self.counts = whole
        seen = whole > 0
        # Outcomes that nobody sent say nothing beside the others.
        self._rows = self.stated.matrix[seen]
        self._shares = whole[seen] / whole.sum()

    @property
    def latex(self) -> str:
        """The loss in LaTeX."""
        return r"-\tfrac{1}{n} \sum_y c_y \log (A f)_y"

    @property
    def n(self) -> int:
        """Number of reports."""
        return int(self.counts.sum())

    @property
    def channel(self) -> LinearOperator:
        """The rows of A that were counted, as an operator."""
        from scipy.sparse.linalg import aslinearoperator

        return aslinearoperator(self._rows)

    @property
    def channel_weights(self) -> Array:
        """The share of each of these rows among the reports."""
        return np.asarray(self._shares)

    def validate_for(self, estimate: FrequencyEstimate) -> None:
        """Raise an error unless the estimate is one vector of the channel's values."""
        if estimate.frequencies.shape != (self.stated.d,):
            raise InvalidInputError(
                f"the channel is of {self.stated.d} values, and the estimate has the shape "
                f"{estimate.frequencies.shape}"
            )

    def value(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return -Σ c log (A f)/n; ``inf`` where something counted is impossible."""
        likelihood = self._rows @ f
        # Before the logarithm, which would warn.
        if not np.all(likelihood > 0):
            return np.asarray(np.inf)
        return np.asarray(-self._shares @ np.log(likelihood))

    def gradient(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return -Aᵀ(c/(A f))/n."""
        # A report may be impossible: there the loss is infinite.
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(-(self._shares / (self._rows @ f)) @ self._rows)

    def data(self, estimate: FrequencyEstimate) -> tuple[Array, ...]:
        """Return f̃ as a placeholder: the counts are compiled in, and nothing depends on it."""
        return (estimate.frequencies,)

    def cone_form(
        self,
        f: cp.Expression,
        data: tuple[Any, ...],
        constants: tuple[float, ...],
    ) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Return the loss with one exponential cone per outcome that was counted."""
        import cvxpy as cp

        return -(self._shares @ cp.log(self._rows @ f)), []

    def cone_factor(self, d: int, constants: tuple[Any, ...]) -> float:
        """Return 1: the form is the loss."""
        return 1.0

    def __repr__(self) -> str:
        return f"ChannelMLE(<{self.n} reports of {self.stated!r}>)"

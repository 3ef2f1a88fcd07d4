"""The sum of one loss over several measurements, each of the frequencies or of totals of groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt.errors import InvalidInputError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses.base import ROUNDINGS, Loss
from ldpopt.losses.quadratic import LeastSquares, WeightedLeastSquares
from ldpopt.sources import Sources

if TYPE_CHECKING:
    import cvxpy as cp
    from scipy.sparse import csr_array

Array = NDArray[np.float64]


class Term(NamedTuple):
    """The loss of one measurement: of the frequencies, or of totals ``members @ f``."""

    loss: Loss
    estimate: FrequencyEstimate
    members: csr_array | None

    def seen(self, f: Array) -> Array:
        """Return what the measurement is about, of frequencies (..., d)."""
        if self.members is None:
            return f
        return np.asarray(f.reshape(-1, f.shape[-1]) @ self.members.T).reshape(
            *f.shape[:-1], self.members.shape[0]
        )

    def back(self, slopes: Array) -> Array:
        """Return the slopes by the frequencies, of slopes by what the measurement is about."""
        if self.members is None:
            return slopes
        return np.asarray(slopes.reshape(-1, slopes.shape[-1]) @ self.members).reshape(
            *slopes.shape[:-1], self.members.shape[1]
        )


class JointLoss(Loss):
    """Σ_k ℓ(A_k f; ỹ_k): a loss added over the measurements of a ``Sources``.

    ``Problem(loss, constraints).solve(sources)`` makes it. Squares count by the precision of each
    measurement; a likelihood counts by itself, being exact for each.

    Parameters
    ----------
    loss
        ``LeastSquares``, or a convex loss that models the noise of each measurement.
    sources
        The measurements.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the loss is neither, is not defined for a measurement, or a likelihood meets a drift.

    Examples
    --------
    >>> sources = Sources([
    ...     FrequencyEstimate([0.5, 0.3], noise=[0.01, 0.01]),
    ...     FrequencyEstimate([0.6, 0.4], noise=[0.04, 0.04]),
    ... ])
    >>> loss = JointLoss(LeastSquares(), sources)
    >>> loss.value(np.array([0.5, 0.3]), sources.combined()).round(6)  # ½ (.01 + .01)/.04
    np.float64(0.25)
    """

    def __init__(self, loss: Loss, sources: Sources) -> None:
        self.loss = loss
        self.sources = sources
        self.is_square = isinstance(loss, LeastSquares) and loss.family is type(loss)
        if not self.is_square and not (loss.uses_noise and loss.convex):
            raise InvalidInputError(
                f"{loss!r} does not state what several measurements weigh: use LeastSquares(), "
                "which weighs them by their precision, or a likelihood"
            )
        self._terms = tuple(self._measurements())
        for term in self._terms:
            term.loss.validate_for(term.estimate)

    def _measurements(self) -> Iterator[Term]:
        parts = zip(
            self.sources.sources, self.sources.precisions, self.sources.members, strict=True
        )
        # Measurements of the values first: solvers read the number of values off the first array.
        for source, precision, members in sorted(parts, key=lambda part: part[2] is not None):
            if self.is_square:
                yield Term(WeightedLeastSquares(precision), source.estimate, members)
                continue
            if np.any(source.drift):
                raise InvalidInputError(
                    f"{source.name} has a drift, which {self.loss!r} does not model: use "
                    "LeastSquares()"
                )
            yield Term(self.loss, source.estimate, members)

    @property
    def latex(self) -> str:
        """The loss in LaTeX."""
        if self.is_square:
            return r"\tfrac{1}{2} \sum_k \lVert A_k f - \tilde y_k \rVert^2_{\Sigma_k^{-1}}"
        return rf"\sum_k \Bigl[{self.loss.latex}\Bigr]_{{f = A_k f,\, \tilde f = \tilde y_k}}"

    @property
    def uses_noise(self) -> bool:
        """Whether it models the noise of raw estimates."""
        return self.loss.uses_noise

    @property
    def nonnegative_domain(self) -> bool:  # type: ignore[override]
        """Whether the loss is infinite as soon as a value is negative."""
        return self.loss.nonnegative_domain

    @property
    def is_nonnegative(self) -> bool:  # type: ignore[override]
        """Whether the loss is nowhere below 0."""
        return self.loss.is_nonnegative

    def validate_for(self, estimate: FrequencyEstimate) -> None:
        """Raise an error unless the estimate has the sources' number of values."""
        if estimate.d != self.sources.d:
            raise InvalidInputError(
                f"the sources have {self.sources.d} values, the estimate {estimate.d}"
            )

    def value(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return the sum over the measurements."""
        values = [term.loss.value(term.seen(f), term.estimate) for term in self._terms]
        return np.asarray(np.sum(values, axis=0))

    def gradient(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return the sum of the gradients."""
        slopes = [
            term.back(term.loss.gradient(term.seen(f), term.estimate)) for term in self._terms
        ]
        return np.asarray(np.sum(slopes, axis=0))

    def gradient_error(self, f: Array, gradient: Array, estimate: FrequencyEstimate) -> Array:
        """Return the errors of all measurements, and the rounding of their sum."""
        error = np.zeros(f.shape)
        for term in self._terms:
            seen = term.seen(f)
            slope = term.loss.gradient(seen, term.estimate)
            part = term.loss.gradient_error(seen, slope, term.estimate)
            error += term.back(part + ROUNDINGS * np.abs(slope))
        return error

    def curvature(
        self, estimate: FrequencyEstimate, lower: ArrayLike = -np.inf, upper: ArrayLike = np.inf
    ) -> Array:
        """Return the curvature of the measurements of the values: groups add to it."""
        parts = [
            term.loss.curvature(term.estimate, lower, upper)
            for term in self._terms
            if term.members is None
        ]
        return np.asarray(np.sum(parts, axis=0))

    def domain(self, constants: tuple[Any, ...]) -> tuple[float, float]:
        """Return the interval in which the losses of the values' measurements are finite."""
        ends = [
            term.loss.domain(numbers)
            for term, (_, numbers) in zip(self._terms, constants, strict=True)
            if term.members is None
        ]
        lower, upper = zip(*ends, strict=True)
        return max(lower), min(upper)

    def data(self, estimate: FrequencyEstimate) -> tuple[Array, ...]:
        """Return the arrays of all measurements: the estimate itself is not among them."""
        return tuple(array for term in self._terms for array in term.loss.data(term.estimate))

    def nonnegative_arrays(self, count: int, constants: tuple[Any, ...]) -> list[bool]:
        """Return which arrays are never negative."""
        signs: list[bool] = []
        for term, (length, numbers) in zip(self._terms, constants, strict=True):
            signs += term.loss.nonnegative_arrays(length, numbers)
        return signs

    def constants(self, estimate: FrequencyEstimate) -> tuple[Any, ...]:
        """Return how many arrays each measurement has, and its constants."""
        return tuple(
            (len(term.loss.data(term.estimate)), term.loss.constants(term.estimate))
            for term in self._terms
        )

    def cone_factor(self, d: int, constants: tuple[Any, ...]) -> float:
        """Return the largest factor of a measurement."""
        return max(self._factors(constants))

    def _factors(self, constants: tuple[Any, ...]) -> list[float]:
        return [
            term.loss.cone_factor(term.estimate.d, numbers)
            for term, (_, numbers) in zip(self._terms, constants, strict=True)
        ]

    def cone_form(
        self,
        f: cp.Expression,
        data: tuple[Any, ...],
        constants: tuple[Any, ...],
    ) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Return the sum of the measurements' forms, in the unit of the finest."""
        factors = self._factors(constants)
        objective: Any = 0.0
        cones: list[cp.Constraint] = []
        first = 0
        for term, factor, (length, numbers) in zip(self._terms, factors, constants, strict=True):
            seen = f if term.members is None else term.members @ f
            arrays = tuple(data[first : first + length])
            form, of_form = term.loss.cone_form(seen, arrays, numbers)
            objective += max(factors) / factor * form
            cones += of_form
            first += length
        return objective, cones

    def __repr__(self) -> str:
        return f"{self.loss!r} over {len(self.sources)} sources"

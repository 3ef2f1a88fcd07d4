"""The sum of one loss over several measurements, each of the frequencies or of totals of groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt.errors import InvalidInputError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses.base import ROUNDINGS, Loss, SeparableLoss, Totals, within_all
from ldpopt.losses.posterior import PosteriorMean
from ldpopt.losses.quadratic import LeastSquares, WeightedLeastSquares
from ldpopt.sources import Sources

if TYPE_CHECKING:
    import cvxpy as cp
    from scipy.sparse import csr_array

Array = NDArray[np.float64]

# A step of Newton's method that is the last one: probabilities are rounded by as much, however
# small a frequency is, and what follows a step is of its square.
_STILL = 4 * float(np.finfo(np.float64).eps)

# Newton's method halves its bracket where a step leaves it: 60 halvings would do alone.
_MAX_STEPS = 80

# Doublings of a step upwards from a frequency: to 2⁶⁰ times the distance of two measurements.
_MAX_DOUBLINGS = 60


class Term(NamedTuple):
    """The loss of one measurement: of the frequencies, or of totals ``members @ f``.

    Attributes
    ----------
    loss, estimate
        The loss, and what was measured.
    members
        The groups, None where the values themselves were measured.
    weight
        What it counts in the sum.
    """

    loss: Loss
    estimate: FrequencyEstimate
    members: csr_array | None
    weight: float

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
    """Σ_k w_k ℓ(A_k f; ỹ_k): a loss added over the measurements of a ``Sources``.

    ``Problem(loss, constraints).solve(sources)`` makes it. Squares count by the precision of each
    measurement. Likelihoods are stated per user, and so each counts by its share of all users: the
    sum is the mean over all of them, whose minimiser maximises the likelihood of all measurements.

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

    adds_over_totals = True

    def __init__(self, loss: Loss, sources: Sources) -> None:
        self.loss = loss
        self.sources = sources
        self.of_squares = isinstance(loss, LeastSquares) and loss.family is type(loss)
        # A prior is about the truth, of which there is one, however often it is measured.
        if isinstance(loss, PosteriorMean):
            raise InvalidInputError(
                f"{loss!r} of several measurements would count its prior for each: fit it to their "
                "combination, problem.solve(sources.combined())"
            )
        if not self.of_squares and not (loss.uses_noise and loss.convex):
            raise InvalidInputError(
                f"{loss!r} does not state what several measurements weigh: use LeastSquares(), "
                "which weighs them by their precision, or a likelihood"
            )
        self._terms = tuple(self._measurements())
        for term in self._terms:
            term.loss.validate_for(term.estimate)

    @property
    def loss_of_each(self) -> Loss | None:  # type: ignore[override]
        """The loss, unless it is squares."""
        return None if self.of_squares else self.loss

    def _measurements(self) -> Iterator[Term]:
        # Of a noise without a number of users the likelihood is that of a single report.
        counts = [source.estimate.n or 1 for source in self.sources]
        sources = self.sources
        parts = zip(sources, sources.precisions, sources.members, counts, strict=True)
        # Measurements of the values first: solvers read the number of values off the first array.
        in_order = sorted(parts, key=lambda part: part[2] is not None)
        for source, precision, members, count in in_order:
            if self.of_squares:
                yield Term(WeightedLeastSquares(precision), source.estimate, members, 1.0)
                continue
            # Drift adds noise that no likelihood of reports knows.
            if np.any(source.drift):
                raise InvalidInputError(
                    f"{source.name} has a drift, which {self.loss!r} does not model: use "
                    "LeastSquares()"
                )
            # The loss of one measurement is a mean over its own users.
            weight = count / sum(counts) if self.loss.is_likelihood else 1.0
            yield Term(self.loss, source.estimate, members, weight)

    @property
    def latex(self) -> str:
        """The loss in LaTeX."""
        if self.of_squares:
            return r"\tfrac{1}{2} \sum_k \lVert A_k f - \tilde y_k \rVert^2_{\Sigma_k^{-1}}"
        share = r"\tfrac{n_k}{\sum_j n_j} " if self.loss.is_likelihood else ""
        inner = rf"\Bigl[{self.loss.latex}\Bigr]_{{f = A_k f,\, \tilde f = \tilde y_k}}"
        return rf"\sum_k {share}{inner}"

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
        values = [
            term.weight * term.loss.value(term.seen(f), term.estimate) for term in self._terms
        ]
        return np.asarray(np.sum(values, axis=0))

    def gradient(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return the sum of the gradients."""
        slopes = [
            term.weight * term.back(term.loss.gradient(term.seen(f), term.estimate))
            for term in self._terms
        ]
        return np.asarray(np.sum(slopes, axis=0))

    def gradient_error(self, f: Array, gradient: Array, estimate: FrequencyEstimate) -> Array:
        """Return the errors of all measurements, and the rounding of their sum."""
        # Sums of rounded terms: each brings its own error and that of the addition.
        error = np.zeros(f.shape)
        for term in self._terms:
            seen = term.seen(f)
            slope = term.loss.gradient(seen, term.estimate)
            part = term.loss.gradient_error(seen, slope, term.estimate)
            error += term.weight * term.back(part + ROUNDINGS * np.abs(slope))
        return error

    def curvature(
        self, estimate: FrequencyEstimate, lower: ArrayLike = -np.inf, upper: ArrayLike = np.inf
    ) -> Array:
        """Return the curvature of the measurements of the values: groups add to it."""
        parts = [
            term.weight * term.loss.curvature(term.estimate, lower, upper)
            for term in self._terms
            if term.members is None
        ]
        return np.asarray(np.sum(parts, axis=0))

    def sensitivity(self, f: Array, estimate: FrequencyEstimate) -> Array | None:
        """Return what a slope loses as all measurements of its value rise: groups add to it.

        Of the squares that is how it follows the combination, since their measurements move it by
        as much as they move together.
        """
        return self._sensitivity(f, [term for term in self._terms if term.members is None])

    def _sensitivity(self, f: Array, terms: Sequence[Term]) -> Array | None:
        """Return the sum of the terms' sensitivities; None if one is not known."""
        # Terms that shift their measurement to a sum are not sums over values.
        if self.loss.separable is None or self.loss.is_centred:
            return None
        total: Array = np.zeros(())
        for term in terms:
            part = term.loss.sensitivity(term.seen(f), term.estimate)
            if part is None:
                return None
            total = total + term.weight * part
        return total

    def totals(self, f: Array) -> Totals | None:
        """Return what the totals of groups add at f, shape (d,); None where none is measured."""
        from scipy import sparse

        terms = [term for term in self._terms if term.members is not None]
        if not terms:
            return None
        curvature = []
        sensitivity = []
        for term in terms:
            seen = term.seen(f)
            bend = term.weight * term.loss.curvature(term.estimate, seen, seen)
            curvature.append(np.broadcast_to(bend, seen.shape))
            part = self._sensitivity(f, [term])
            assert part is not None  # as the caller has looked
            sensitivity.append(np.broadcast_to(part, seen.shape))
        stacked: Any = [term.members for term in terms]
        members = sparse.vstack(stacked, format="csr")
        return Totals(members, np.concatenate(curvature), np.concatenate(sensitivity))

    def moved(self, by: Array) -> JointLoss:
        """Return the loss for sources that moved as the values did, by b of shape (d,)."""
        return type(self)(self.loss, self.sources.moved(by))

    def sublevel(self, level: Array, estimate: FrequencyEstimate) -> tuple[Array, Array] | None:
        """Return where no measurement of the values costs more than the level alone."""
        if not self.is_nonnegative:
            return None
        bounds = [
            term.loss.sublevel(np.asarray(level) / term.weight, term.estimate)
            for term in self._terms
            if term.members is None
        ]
        # None is below 0, and so none above their sum: each bound holds, and the best of them too.
        return within_all(bounds)

    def domain(self, constants: tuple[Any, ...]) -> tuple[float, float]:
        """Return the interval in which the losses of the values' measurements are finite."""
        # Groups add no end: their totals are finite where their values are.
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
            # Forms come in units of their own, which their factors state.
            objective += term.weight * max(factors) / factor * form
            cones += of_form
            first += length
        return objective, cones

    def __repr__(self) -> str:
        return f"{self.loss!r} over {len(self.sources)} sources"


class JointLikelihood(JointLoss, SeparableLoss):
    """A likelihood over measurements of the values themselves: a sum over values too.

    With it one root of the multiplier solves a problem on a box with a total, as for a single
    measurement, instead of a cone program.
    """

    def response(self, mu: Array, data: tuple[Array, ...], constants: tuple[Any, ...]) -> Array:
        """Return the minimiser of Σ_k w_k ℓ_k(f) + μ f, by Newton's method in a bracket.

        The weights sum to 1: between the smallest and the largest response of a measurement to μ
        the slope changes its sign.
        """
        responses = [self._response_of(term, mu) for term in self._terms]
        ends = self._ends(mu, responses)
        # Where the sum falls for ever, one end is infinite still: it is the answer.
        is_endless = np.isinf(ends[0]) | np.isinf(ends[1])
        low, high = (np.where(is_endless, 0.0, end) for end in ends)
        f = np.clip(self._start(responses), low, high)
        for _ in range(_MAX_STEPS):
            slope = self._slope(f, mu)
            # The slope increases: its sign tells on which side of the root f is.
            low = np.where(slope <= 0, f, low)
            high = np.where(slope >= 0, f, high)
            with np.errstate(divide="ignore", invalid="ignore"):
                ahead = f - slope / self._height(f)
            # Where the step leaves the bracket, or is no number, the bracket is halved instead.
            is_inside = (low <= ahead) & (ahead <= high)
            after = np.where(is_inside, ahead, low + (high - low) / 2)
            has_settled = np.abs(after - f) <= _STILL * np.maximum(np.abs(f), 1.0)
            f = after
            if np.all(has_settled | is_endless):
                break
        beyond = np.where(np.isposinf(ends[1]), np.inf, -np.inf)
        return np.where(is_endless, beyond, f)

    def _start(self, responses: Sequence[Array]) -> Array:
        """Return the minimiser where the losses are taken as parabolas at their own responses."""
        height = np.zeros(responses[0].shape)
        moment = np.zeros(responses[0].shape)
        for term, response in zip(self._terms, responses, strict=True):
            # A response at infinity has no parabola.
            is_finite = np.isfinite(response)
            places = np.where(is_finite, response, 0.0)
            bends = [term.loss.curvature(term.estimate, row, row) for row in places]
            weight = np.where(is_finite, term.weight * np.stack(bends), 0.0)
            height += weight
            moment += weight * places
        return np.divide(moment, height, out=moment, where=height > 0)

    def _ends(self, mu: Array, responses: Sequence[Array]) -> tuple[Array, Array]:
        """Return frequencies between which the slope changes its sign, infinite where it does not.

        The response of a measurement whose variance grows fast may be infinite where the others
        hold the sum: doubled steps then look for an end.
        """
        first, last = self.domain(self.constants(self._terms[0].estimate))
        low = np.clip(np.min(responses, axis=0), first, last)
        high = np.clip(np.max(responses, axis=0), first, last)
        return self._end(low, high, mu, -1.0), self._end(high, low, mu, 1.0)

    def _end(self, end: Array, other: Array, mu: Array, sign: float) -> Array:
        """Return an end of the bracket where it is finite, else one that doubled steps find."""
        is_open = np.isinf(end)
        start = np.where(np.isinf(other), 0.0, other)
        step = sign
        for _ in range(_MAX_DOUBLINGS):
            if not is_open.any():
                break
            ahead = np.where(is_open, start + step, 0.0)
            is_reached = is_open & (sign * self._slope(ahead, mu) >= 0)
            end = np.where(is_reached, ahead, end)
            is_open = is_open & ~is_reached
            # Doubled, so that an end at any distance is reached in few steps.
            step *= 2
        return end

    @staticmethod
    def _response_of(term: Term, mu: Array) -> Array:
        """Return the response of one measurement."""
        separable = term.loss.separable
        assert separable is not None  # as the maker of this loss made sure
        # A response takes arrays of the shape of its answer.
        shape = (len(mu), term.estimate.d)
        data = tuple(np.broadcast_to(array, shape) for array in term.loss.data(term.estimate))
        return separable.response(mu, data, term.loss.constants(term.estimate))

    def _slope(self, f: Array, mu: Array) -> Array:
        """Return the slope of the loss plus μ f."""
        # At the end of a domain a slope is infinite.
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return self.gradient(f, self._terms[0].estimate) + mu

    def _height(self, f: Array) -> Array:
        """Return the second derivative of the loss."""
        about = self._terms[0].estimate
        # Row by row: curvatures have the shape of an estimate.
        return np.stack([self.curvature(about, row, row) for row in f])

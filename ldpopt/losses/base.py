"""What every loss states: four things that all have, and three groups of what few need to state.

Each optional member has a default that is right for a loss that is finite everywhere and has no
special structure. A loss that overrides one of them opens a faster path, or a certificate where
there was none. Shapes: f and the estimate's frequencies are (..., d); values are (...); gradients
are (..., d).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial, wraps
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.adjustable import Adjustable, is_expression, is_from_outside
from ldpopt.errors import InvalidInputError, InvalidTypeError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.estimate.traced import in_order
from ldpopt.losses.enclosure import Enclosed, weighted_enclosure
from ldpopt.losses.responses import Kinks, merged_response, response_with_kinks, single_response
from ldpopt.printable import latex_text

if TYPE_CHECKING:
    import cvxpy as cp
    from scipy.sparse import csr_array
    from scipy.sparse.linalg import LinearOperator

    from ldpopt.losses.pooling import Pooling

Array = NDArray[np.float64]

ROUNDINGS = 32 * float(np.finfo(np.float64).eps)
"""Error of a gradient relative to its size: 64 operations, each rounded by half of eps."""

# By which part of what is subtracted from a level the rest is raised, far above its rounding.
_LOOSE = 1e-6

# Products of a sum's unit with the terms' own are still numbers.
_LARGEST_UNIT = 1e270

_ONE = np.ones(1).tobytes()


def ones(shape: tuple[int, ...]) -> Array:
    """Return ``np.broadcast_to(1.0, shape)``, in a tenth of its time: every solve asks for it."""
    return np.ndarray(shape, np.float64, buffer=_ONE, strides=(0,) * len(shape))


class Smoothing(NamedTuple):
    """Squares that all count the same, and a price on total variation beside them.

    Attributes
    ----------
    squares
        The squares.
    chain
        The values along which variation is counted.
    price
        What a unit of variation costs beside one of ½ (f - f̃)².
    """

    squares: SeparableLoss
    chain: NDArray[np.int64]
    price: float


class Totals(NamedTuple):
    """What the measured totals A f of groups add to the second derivatives of a loss.

    Attributes
    ----------
    members
        A, sparse of shape (m, d).
    curvature, sensitivity
        Second derivatives in each total twice, and (negated) in it and its measurement, shape (m,).
    """

    members: csr_array
    curvature: Array
    sensitivity: Array


class EffectiveDomain:
    """Where the loss is finite: everywhere, unless stated here."""

    nonnegative_domain: ClassVar[bool] = False
    """Whether the loss is infinite as soon as a value is negative."""

    def domain(self, constants: tuple[float, ...]) -> tuple[float, float]:
        """Return the ends of the interval of f_v in which the loss is finite."""
        return -math.inf, math.inf

    def sublevel(self, level: Array, estimate: FrequencyEstimate) -> tuple[Array, Array] | None:
        """Return bounds of all f whose loss is at most a level of shape (...); None if unknown.

        Both have shape (..., d). Certificates need them where constraints leave values unbounded:
        what is above a point's own loss does not compete with it.
        """
        return None

    def support(self, estimate: FrequencyEstimate) -> NDArray[np.bool_] | None:
        """Return where values may be non-zero, shape (..., d); None stands for everywhere."""
        return None


class Structure:
    """What else is known of the loss as a function: by default that it is convex, and no more."""

    convex: ClassVar[bool] = True
    """Whether the loss is convex; if not, paths minimise its ``majorant`` step by step."""

    is_nonnegative: ClassVar[bool] = False
    """Whether the loss is nowhere below 0: its own value then bounds how far a point is off."""

    scope: ClassVar[str] = "the problem"
    """What a certificate of the loss covers."""

    def lowest(self, estimate: FrequencyEstimate) -> Array | None:
        """Return a number, of shape (...), that no value of the loss is below; None if unknown."""
        return np.zeros(estimate.frequencies.shape[:-1]) if self.is_nonnegative else None

    @property
    def separable(self) -> SeparableLoss | None:
        """The loss itself if it is a ``SeparableLoss``, else None."""
        return None

    def majorant(self, f: Array, estimate: FrequencyEstimate) -> Loss:
        """Return a convex loss that touches this one at f and, but for a constant, is never below.

        Only losses that are not convex have one; on any other the call raises an error.
        """
        raise NotImplementedError(f"{self!r} has no majorant")

    def convexified(self, f: Array, estimate: FrequencyEstimate) -> Loss:
        """Return the loss itself if it is convex, else its majorant at f."""
        if self.convex:
            return self  # type: ignore[return-value]  # a part of Loss alone
        return self.majorant(f, estimate)

    def offset(self, estimate: FrequencyEstimate) -> Array:
        """Return a constant in the value, which says nothing of its differences, shape (...)."""
        return np.zeros(estimate.frequencies.shape[:-1])

    has_kinks: ClassVar[bool] = False
    """Whether ``kinks`` returns any: parts that are linear in each value but for one kink."""

    has_shared_kinks: ClassVar[bool] = False
    """Whether there are kinks that several values share: ``expression`` states these parts."""

    def kinks(self, data: tuple[Array, ...], constants: tuple[Any, ...]) -> tuple[Kinks, ...]:
        """Return the parts of the loss that are linear in each value but for one kink.

        Both arguments are as ``Loss.data`` and ``Loss.constants`` return them.
        """
        return ()

    @property
    def smooth_part(self) -> Loss | None:
        """What is left of the loss without its kinks, which has a gradient; None for nothing."""
        if self.has_kinks or self.has_shared_kinks:
            return None
        return self  # type: ignore[return-value]  # a part of Loss alone

    def expression(self, f: cp.Expression, estimate: FrequencyEstimate) -> cp.Expression:
        """Return the parts with shared kinks as a convex expression, in the loss's own units.

        ``f`` is an expression of shape (d,), and the estimate a single one. Only losses with
        ``has_shared_kinks`` have it: their certificates are those of the compiled program.
        """
        raise NotImplementedError(f"{self!r} has no kinks that values share")

    def expression_in(
        self, unit: float, counted: cp.Expression, estimate: FrequencyEstimate
    ) -> cp.Expression:
        """Return ``expression`` of frequencies that an expression counts in a unit.

        Losses that are proportional to the unit state it outside, so that solvers do not see it.
        """
        return self.expression(counted if unit == 1 else unit * counted, estimate)

    def curvature(
        self, estimate: FrequencyEstimate, lower: ArrayLike = -math.inf, upper: ArrayLike = math.inf
    ) -> Array:
        """Return m such that the loss minus ½ Σ m_v f_v² is convex where lower <= f <= upper.

        Bounds and result broadcast with (..., d). Of a sum over values it is the smallest second
        derivative between the bounds: the second derivative itself where these are equal.
        """
        return np.zeros(estimate.frequencies.shape)

    def bend(self, f: Array, estimate: FrequencyEstimate, lower: Array, upper: Array) -> Array:
        """Return m such that L(s) is at least L(f) + g·(s - f) + ½ Σ m_v (s_v - f_v)².

        That is for all s between the bounds, which hold f. ``curvature`` is such an m; with the
        point known there may be a larger one.
        """
        return self.curvature(estimate, lower, upper)

    def sensitivity(self, f: Array, estimate: FrequencyEstimate) -> Array | None:
        """Return -∂²L/∂f_v ∂f̃_v at f, shape (..., d): what a slope loses as its estimate rises.

        None where it is not known, or where a slope depends on the estimates of other values.
        """
        return None

    @property
    def is_centred(self) -> bool:
        """Whether the loss looks at the estimate after a shift to a given sum."""
        return False

    adds_over_values: ClassVar[bool] = False
    """Whether it is a sum of convex functions of one value each, whose slopes ``gradient`` has."""

    adds_over_totals: ClassVar[bool] = False
    """Whether it is a sum over values and over the totals of groups, which ``totals`` describes."""

    def totals(self, f: Array) -> Totals | None:
        """Return what the totals of groups add at f, shape (d,); None where no group is measured.

        Only where ``sensitivity`` is known.
        """
        return None

    def moved(self, by: Array) -> Loss:
        """Return the loss for measurements of its own that moved as the values did, by b (d,).

        A loss that has none is returned itself.
        """
        return self  # type: ignore[return-value]  # a part of Loss alone

    is_square: ClassVar[bool] = False
    """Whether it is ½ Σ w_v (f_v - c_v)² with c the first array of ``data``."""

    @property
    def square_weights(self) -> Array | float:
        """The weights w of a square."""
        return 1.0

    is_divergence: ClassVar[bool] = False
    """Whether it is Σ f_v log(f_v / r_v), with r as ``_Divergence.data`` states it."""

    overlaps: ClassVar[bool] = False
    """Whether one value takes part in several of its kinks that values share."""

    loss_of_each: Loss | None = None
    """What it adds over several measurements, if more than their combination decides the solution.

    None for a loss of one estimate, and for squares.
    """

    is_penalty: ClassVar[bool] = False
    """Whether it measures f alone: over several measurements it then counts once."""

    @property
    def priced_chain(self) -> NDArray[np.int64] | slice | None:
        """The chain of which it is the total variation; None for another function.

        All values as they stand are a slice: vectors need not be copied along it.
        """
        return None

    def smoothing(self, d: int) -> Smoothing | None:
        """Return the loss as squares with a price on variation along a chain; None for others."""
        return None

    def pooling(self, estimate: FrequencyEstimate) -> Pooling | None:
        """Return how the loss pools values that must be equal; None where no mean tells it."""
        return None

    @property
    def after_pooling(self) -> Loss:
        """The loss of the estimate that ``Pooling.without_order`` returns."""
        return self  # type: ignore[return-value]  # a part of Loss alone

    def enclosed(self, estimate: FrequencyEstimate) -> Enclosed | None:
        """Return the function from f, of shape (d,), to gradient and value with bounds of errors.

        The value may be another one by a number that does not depend on f. The function returns
        None where it knows no gradient. None in its place: nothing is known anywhere.
        """
        return None

    def gradient_error(self, f: Array, gradient: Array, estimate: FrequencyEstimate) -> Array:
        """Return what rounding may have changed in a gradient that was computed, shape (..., d).

        Certificates add it to what they cannot explain. By default a gradient is taken to be
        right to 64 roundings of its own size; a loss whose gradient cancels states its own error.
        """
        return ROUNDINGS * np.abs(gradient)


class Equivalence:
    """Which other loss or form has the same minimiser: none, unless stated here."""

    is_likelihood: ClassVar[bool] = False
    """Whether it is a multiple of -1/n log of a likelihood: independent ones count by their n."""

    formula: ClassVar[str] = ""
    """The loss in the papers' letters, for tables; empty where it has none that is short."""

    @property
    def latex(self) -> str:
        """The loss in LaTeX, its name where it has no formula."""
        return latex_text(repr(self))

    @property
    def uses_noise(self) -> bool:
        """Whether it models the noise of raw estimates: processed ones then deserve a warning."""
        return False

    @property
    def family(self) -> type[Loss]:
        """The loss whose closed forms solve this one too, from another ``target``; or its type."""
        return type(self)  # type: ignore[return-value]  # a part of Loss alone

    solved_for: ClassVar[str] = ""
    """Name of what the family's closed forms are applied to; empty where that is f̃."""

    @property
    def bare(self) -> Loss:
        """The loss without a factor in front: it has the same minimisers, and its closed forms."""
        return self  # type: ignore[return-value]  # a part of Loss alone

    def cone_factor(self, d: int, constants: tuple[Any, ...]) -> float:
        """Return what ``cone_form`` multiplies the loss by, which sums of losses need.

        Raises
        ------
        InvalidInputError
            If the loss does not state it.
        """
        raise InvalidInputError(
            f"{self!r} cannot be a part of a sum: its class does not state cone_factor"
        )

    needs_numbers: ClassVar[bool] = False
    """Whether ``cone_form`` calculates with ``data`` in ways that parameters do not allow."""

    @property
    def channel(self) -> LinearOperator | None:
        """For a loss -mean log (W f): W, whose mixture weights minimise it on the simplex."""
        return None

    @property
    def channel_weights(self) -> Array | None:
        """How often each row of ``channel`` was observed; None where each was once."""
        return None

    @property
    def compiled_key(self) -> Hashable:
        """Equal for losses whose cone forms differ by ``data`` and ``constants`` alone: itself."""
        return self

    @property
    def _recipe_or_self(self) -> Hashable:
        """The key of losses whose numbers are all ``data``: what they were built from, if known."""
        recipe: Hashable = getattr(self, "_recipe", None)
        return self if recipe is None else recipe


def _of_any_vectors(method: Callable[..., Array]) -> Callable[..., Array]:
    """Return a function of f and an estimate for whatever users have as these.

    Arrays go through as they are, since losses are evaluated in loops.
    """

    @wraps(method)
    def checked(self: Loss, f: Any, estimate: Any) -> Array:
        is_open = self._recipe is not None and self.varies
        is_plain = type(f) is np.ndarray and f.dtype == np.float64 and f.ndim and f.size
        is_known = is_plain and isinstance(estimate, FrequencyEstimate) and not is_open
        if is_known and f.shape[-1] == estimate.frequencies.shape[-1]:
            return method(self, f, estimate)
        start = FrequencyEstimate.of(estimate)
        point = FrequencyEstimate.of(in_order("f", f, start.labels)).frequencies
        if point.shape[-1] != start.d:
            raise InvalidInputError(
                f"f must have the estimate's {start.d} values, got shape {point.shape}"
            )
        present = self.at(start, {})
        present.validate_for(start)
        return getattr(present, method.__name__)(point, start)  # type: ignore[no-any-return]

    return checked


def _of_any_estimate(validate_for: Callable[..., None]) -> Callable[..., None]:
    """Return the check of a class for plain vectors too."""

    @wraps(validate_for)
    def checked(self: Loss, estimate: Any) -> None:
        validate_for(self, FrequencyEstimate.of(estimate))

    return checked


class Loss(EffectiveDomain, Structure, Equivalence, Adjustable):
    """A function of the frequencies f, given an estimate. Losses add, and scale by numbers >= 0.

    A new loss states ``value``, ``gradient``, ``data`` and ``cone_form``, and derives from
    ``SeparableLoss`` if it is a sum over values with a formula for its ``response``. What it may
    state besides is grouped in the classes above.
    """

    _for_callers = MappingProxyType(
        {
            "value": _of_any_vectors,
            "gradient": _of_any_vectors,
            "validate_for": _of_any_estimate,
        }
    )

    _is_general = True
    _definitions = frozenset({"value", "gradient"})
    _statements = frozenset(
        {
            *("nonnegative_domain", "domain", "sublevel", "support", "lowest", "is_nonnegative"),
            *("curvature", "bend", "sensitivity", "is_centred", "gradient_error", "enclosed"),
            *("has_kinks", "has_shared_kinks", "kinks", "smooth_part", "smoothing", "overlaps"),
            *("adds_over_totals", "totals", "moved", "is_penalty", "priced_chain"),
            *("pooling", "after_pooling", "is_square", "square_weights", "is_divergence"),
            *("is_likelihood", "family", "solved_for", "bare", "channel", "channel_weights"),
            *("formula", "latex", "loss_of_each", "separable", "adds_over_values"),
        }
    )

    __array_ufunc__ = None  # numpy would multiply a loss by each member of an array in turn

    takes_reports: ClassVar[bool] = False
    """Whether it depends on the reports, or counts of them, and not on frequencies alone."""

    nonnegative_data: ClassVar[int] = 0
    """How many of the first arrays of ``data`` are never negative: cvxpy's rules may need it."""

    def nonnegative_arrays(self, count: int, constants: tuple[Any, ...]) -> list[bool]:
        """Return which of the ``count`` arrays of ``data`` are never negative."""
        return [i < self.nonnegative_data for i in range(count)]

    def is_defined(self, estimate: FrequencyEstimate) -> NDArray[np.bool_]:
        """Return for which trials there is a loss, shape (...): which estimates it can be of."""
        return np.ones(estimate.frequencies.shape[:-1], dtype=np.bool_)

    def validate_for(self, estimate: FrequencyEstimate) -> None:
        """Raise an error if the loss is not defined for this estimate."""

    @abstractmethod
    def value(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return the loss of f, in its own units."""

    @abstractmethod
    def gradient(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return the gradient at f; ``inf`` where a value must be zero."""

    @abstractmethod
    def data(self, estimate: FrequencyEstimate) -> tuple[Array, ...]:
        """Return the estimate-dependent arrays (..., d), which become the solver's parameters."""

    def constants(self, estimate: FrequencyEstimate) -> tuple[float, ...]:
        """Return the numbers that are compiled into the solver's problem."""
        return ()

    def finer_constants(
        self,
        f: Array,
        estimate: FrequencyEstimate,
        constants: tuple[float, ...],
    ) -> tuple[float, ...] | None:
        """Return the constants for a second solve, or None where those of the first one fit.

        ``f`` is the point of the first solve, shape (d,): a loss whose ``constants`` hold its units
        sees there how large its terms are.
        """
        return None

    @abstractmethod
    def cone_form(
        self,
        f: cp.Expression,
        data: tuple[Any, ...],
        constants: tuple[float, ...],
    ) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Return an expression with the same minimiser over f, and the constraints it needs.

        It is in units of order 1, for which solvers' tolerances are made.

        Parameters
        ----------
        f
            Frequencies, shape (d,).
        data, constants
            As ``data`` and ``constants`` return them for one trial: arrays, or cvxpy parameters of
            shape (d,) in their place.
        """

    def __add__(self, other: Loss) -> WeightedSum:
        if not isinstance(other, Loss):
            raise InvalidTypeError(
                f"only a loss can be added to a loss, got {other!r}: a number moves no minimum and "
                "is left out; a cvxpy expression is stated with losses.Custom"
            )
        # A sum of sums is one sum, so that its closed form is found.
        terms, weights = _summands(self)
        more_terms, more_weights = _summands(other)
        return WeightedSum([*terms, *more_terms], [*weights, *more_weights])

    def __radd__(self, other: Any) -> Loss:
        # The built-in sum() starts with 0.
        return self if isinstance(other, int) and other == 0 else self.__add__(other)

    def __sub__(self, other: object) -> NoReturn:
        raise InvalidInputError(
            "minus a loss is not convex, and neither is a difference of losses in general: add "
            "losses with factors >= 0, or state the whole with losses.Custom, where cvxpy finds "
            "out if it is convex"
        )

    def __rsub__(self, other: object) -> NoReturn:
        self.__sub__(other)

    def __neg__(self) -> NoReturn:
        self.__sub__(self)

    def __mul__(self, factor: Any) -> WeightedSum:
        if not is_expression(factor):
            factor = validate.real("the factor of a loss", factor, minimum=0)
        terms, weights = _summands(self)
        return WeightedSum(terms, [factor * weight for weight in weights])

    __rmul__ = __mul__

    def __truediv__(self, divisor: Any) -> WeightedSum:
        if not is_expression(divisor):
            divisor = validate.real("the divisor of a loss", divisor, above=0)
        return self.__mul__(1 / divisor)

    def leaves(self) -> Iterator[tuple[float, Loss]]:
        """Yield the losses that a sum consists of, also within inner sums, behind their factors.

        A loss that is no sum is its own leaf, behind the factor 1.

        Examples
        --------
        >>> from ldpopt.losses import Entropy, LeastSquares
        >>> inner = LeastSquares() + 0.5 * Entropy()
        >>> list((2 * inner).leaves())
        [(2.0, LeastSquares()), (1.0, Entropy())]
        """
        yield 1.0, self

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class SeparableLoss(Loss):
    """A loss Σ ℓ_v(f_v) with a formula for the minimiser of ℓ_v(f) + μ f.

    On a box with at most one total its values interact through the multiplier μ alone, so that one
    root solves the problem (``closed_form.one_root``).
    """

    @property
    def separable(self) -> SeparableLoss | None:
        """The loss itself."""
        return self

    adds_over_values: ClassVar[bool] = True

    @classmethod
    def _general_base(cls) -> type:
        """Return this class where ``response`` is a user's too: it may not fit another value."""
        return SeparableLoss if is_from_outside(cls._holder_of("response")) else Loss

    @abstractmethod
    def response(
        self,
        mu: Array,
        data: tuple[Array, ...],
        constants: tuple[float, ...],
    ) -> Array:
        """Return the minimiser of ℓ_v(f) + μ f over the line, ±inf if it has none.

        Parameters
        ----------
        mu
            Multipliers, shape (m, 1).
        data, constants
            As ``data`` and ``constants`` return them, the arrays of shape (m, d).

        Returns
        -------
        Minimisers of shape (m, d), not increasing in μ.
        """


class WeightedSum(SeparableLoss):
    """Σ weight · loss, as ``LeastSquares() + 0.1 * TotalVariation()`` states it.

    Parameters
    ----------
    terms
        Losses, at least one.
    weights
        A finite number >= 0 for each of them, or a ``Parameter``. With the weight 0 a term adds
        nothing where it is finite.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a term is no loss, or a weight is not a finite number >= 0.

    Notes
    -----
    A separable loss with others that are linear but for kinks of single values, such as ``L1To``,
    has a closed form on bounds with at most one total: the root of one multiplier. So have squared
    distances and divergences, which may be several terms in one sum.

    Examples
    --------
    >>> from ldpopt.losses import L1To, LeastSquares
    >>> loss = LeastSquares() + 0.5 * L1To([0.25, 0.25])
    >>> loss
    LeastSquares() + 0.5 * L1To(<2 values>)
    >>> float(loss.value(np.array([0.5, 0.25]), FrequencyEstimate([0.5, 0.25])))
    0.125
    """

    _defined_by = "their terms"

    def __init__(self, terms: Sequence[Loss], weights: Sequence[float], /) -> None:
        if not terms or not all(isinstance(term, Loss) for term in terms):
            raise InvalidTypeError(f"a sum takes losses, got {terms!r}")
        if len(terms) != len(weights):
            raise InvalidInputError(f"there are {len(weights)} weights for {len(terms)} losses")
        self.terms = tuple(terms)
        self.weights = tuple(
            validate.real("the factor of a loss", weight, minimum=0) for weight in weights
        )

    def leaves(self) -> Iterator[tuple[float, Loss]]:
        """Yield the leaves of all terms, behind the products of their factors."""
        for weight, term in zip(self.weights, self.terms, strict=True):
            for inner, leaf in term.leaves():
                yield weight * inner, leaf

    @property
    def parts(self) -> list[tuple[float, Loss]]:
        """The terms that count, each behind its weight."""
        pairs = zip(self.weights, self.terms, strict=True)
        return [(weight, term) for weight, term in pairs if weight > 0]

    @property
    def _open_weights(self) -> list[int]:
        """The numbers of the terms whose weights are parameters."""
        if self._recipe is None:
            return []
        _, stated = self._recipe.args
        return [i for i, weight in enumerate(stated) if is_expression(weight)]

    # --- the function -----------------------------------------------------------------------------

    def validate_for(self, estimate: FrequencyEstimate) -> None:
        """Raise an error if a term is not defined for this estimate."""
        for term in self.terms:
            term.validate_for(estimate)

    def value(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return the weighted sum of the values."""
        total = np.zeros(f.shape[:-1])
        for weight, term in self.parts:
            total = total + weight * term.value(f, estimate)
        return np.asarray(total)

    def offset(self, estimate: FrequencyEstimate) -> Array:
        """Return the weighted sum of the constants."""
        total = np.zeros(estimate.frequencies.shape[:-1])
        for weight, term in self.parts:
            total = total + weight * term.offset(estimate)
        return total

    def gradient(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return the weighted sum of the gradients; ``inf`` where one of them is."""
        total = np.zeros(f.shape)
        # Where one term forbids a value, no other one matters.
        held = np.zeros(f.shape, dtype=np.bool_)
        # -inf beside inf would be NaN: a value that must be zero stays so.
        with np.errstate(invalid="ignore"):
            for weight, term in self.parts:
                slope = term.gradient(f, estimate)
                held |= slope == np.inf
                total = total + weight * slope
        return np.where(held, np.inf, total)

    def enclosed(self, estimate: FrequencyEstimate) -> Enclosed | None:
        """Return the weighted sum of the terms'; None where one of them has none."""
        parts = []
        for weight, term in self.parts:
            enclosed = term.enclosed(estimate)
            if enclosed is None:
                return None
            parts.append((weight, enclosed))
        return partial(weighted_enclosure, parts)

    def gradient_error(self, f: Array, gradient: Array, estimate: FrequencyEstimate) -> Array:
        """Return the errors of all terms, and the rounding of their sum."""
        error = np.zeros(f.shape)
        for weight, term in self.parts:
            slope = term.gradient(f, estimate)
            finite = np.where(np.isfinite(slope), np.abs(slope), 0.0)
            error += weight * (term.gradient_error(f, slope, estimate) + ROUNDINGS * finite)
        return error

    def curvature(
        self, estimate: FrequencyEstimate, lower: ArrayLike = -math.inf, upper: ArrayLike = math.inf
    ) -> Array:
        """Return the weighted sum of the curvatures."""
        total = np.zeros(estimate.frequencies.shape)
        for weight, term in self.parts:
            total = total + weight * term.curvature(estimate, lower, upper)
        return total

    def bend(self, f: Array, estimate: FrequencyEstimate, lower: Array, upper: Array) -> Array:
        """Return the weighted sum of the terms' own."""
        total = np.zeros(f.shape)
        for weight, term in self.parts:
            total = total + weight * term.bend(f, estimate, lower, upper)
        return total

    def sensitivity(self, f: Array, estimate: FrequencyEstimate) -> Array | None:
        """Return the weighted sum of the sensitivities; None if that of a term is not known."""
        total = np.zeros(f.shape)
        for weight, term in self.parts:
            part = term.sensitivity(f, estimate)
            if part is None or term.is_centred:
                return None
            total = total + weight * part
        return total

    # --- where it is finite -----------------------------------------------------------------------

    @property
    def nonnegative_domain(self) -> bool:  # type: ignore[override]
        """Whether one of the terms is infinite as soon as a value is negative."""
        return any(term.nonnegative_domain for term in self.terms)

    def domain(self, constants: tuple[Any, ...]) -> tuple[float, float]:
        """Return the interval in which all terms are finite."""
        pairs = zip(self.terms, constants, strict=True)
        ends = [term.domain(numbers) for term, (_, numbers) in pairs]
        lower, upper = zip(*ends, strict=True)
        # The intersection: the sum is infinite as soon as one term is.
        return max(lower), min(upper)

    def support(self, estimate: FrequencyEstimate) -> NDArray[np.bool_] | None:
        """Return where all terms allow values that are not zero."""
        supports = [term.support(estimate) for term in self.terms]
        stated = [support for support in supports if support is not None]
        return np.logical_and.reduce(stated) if stated else None

    def sublevel(self, level: Array, estimate: FrequencyEstimate) -> tuple[Array, Array] | None:
        """Return where no term costs more than the lowest values of all others leave to it.

        A term has no bounds if another one has no lowest value.
        """
        floors = self._floors(estimate)
        bounds = []
        for i, (weight, term) in enumerate(self.parts):
            others = [floor for j, floor in enumerate(floors) if j != i]
            numbers = [floor for floor in others if floor is not None]
            if len(numbers) < len(others):
                continue
            taken = np.sum(numbers, axis=0) if numbers else 0.0
            # What is subtracted is rounded by its own size; a looser level is right as well.
            left = level - taken + _LOOSE * np.abs(taken)
            bounds.append(term.sublevel(left / weight, estimate))
        return within_all(bounds)

    def lowest(self, estimate: FrequencyEstimate) -> Array | None:
        """Return the sum of the terms' lowest values; None if one of them has none."""
        floors = self._floors(estimate)
        numbers = [floor for floor in floors if floor is not None]
        return np.asarray(np.sum(numbers, axis=0)) if len(numbers) == len(floors) else None

    def _floors(self, estimate: FrequencyEstimate) -> list[Array | None]:
        """Return the lowest value of each term with its weight, None where it is unknown."""
        floors = [term.lowest(estimate) for _, term in self.parts]
        weights = [weight for weight, _ in self.parts]
        return [
            None if floor is None else np.asarray(weight * floor)
            for weight, floor in zip(weights, floors, strict=True)
        ]

    # --- structure --------------------------------------------------------------------------------

    @property
    def is_nonnegative(self) -> bool:  # type: ignore[override]
        """Whether no term is below 0 anywhere."""
        return all(term.is_nonnegative for term in self.terms)

    @property
    def convex(self) -> bool:  # type: ignore[override]
        """Whether all terms are convex."""
        return all(term.convex for term in self.terms)

    @property
    def scope(self) -> str:  # type: ignore[override]
        """What a certificate covers: what it covers of the terms."""
        limited = [term.scope for term in self.terms if not term.convex]
        return limited[0] if limited else Structure.scope

    def majorant(self, f: Array, estimate: FrequencyEstimate) -> WeightedSum:
        """Return the sum of the terms' majorants."""
        return WeightedSum([term.convexified(f, estimate) for term in self.terms], self.weights)

    @property
    def separable(self) -> SeparableLoss | None:
        """The loss itself if the response of the sum is known, else None.

        Beside kinks of single values the terms are a single separable one, or squares and
        divergences.
        """
        smooth = [term.separable for _, term in self.parts if not term.has_kinks]
        if self.has_shared_kinks or not smooth:
            return None
        if len(smooth) == 1:
            return None if smooth[0] is None else self
        # Several are solved together only where Wright's function does it.
        for term in smooth:
            if term is None or not (term.is_square or term.is_divergence):
                return None
        return self

    def smoothing(self, d: int) -> Smoothing | None:
        """Return the squares and the price if these are the only terms."""
        parts = self.parts
        if len(parts) != 2:
            return None
        # Terms may stand in either order.
        for (weight, term), (price, other) in (parts, parts[::-1]):
            loss = term.separable
            chain = other.priced_chain
            if loss is not None and chain is not None and loss.is_square:
                has_one_weight = np.ndim(loss.square_weights) == 0
                # The minimiser depends on the ratio of the two weights alone.
                if not has_one_weight:
                    return None
                return Smoothing(loss, np.arange(d)[chain], price / weight)
        return None

    def moved(self, by: Array) -> Loss:
        """Return the sum of the terms for measurements that moved; itself if no term has any."""
        leaves = list(self.leaves())
        terms = [leaf.moved(by) for _, leaf in leaves]
        if all(term is leaf for term, (_, leaf) in zip(terms, leaves, strict=True)):
            return self
        return WeightedSum(terms, [weight for weight, _ in leaves])

    @property
    def adds_over_values(self) -> bool:  # type: ignore[override]
        """Whether all terms do."""
        return all(term.adds_over_values for term in self.terms)

    @property
    def has_kinks(self) -> bool:  # type: ignore[override]
        """Whether a term has kinks of single values."""
        return any(term.has_kinks for term in self.terms)

    @property
    def has_shared_kinks(self) -> bool:  # type: ignore[override]
        """Whether a term has kinks that values share."""
        return any(term.has_shared_kinks for term in self.terms)

    def kinks(self, data: tuple[Array, ...], constants: tuple[Any, ...]) -> tuple[Kinks, ...]:
        """Return the kinks of the terms, with their weights."""
        kinks = []
        shares = self._shares(data, constants)
        stated = zip(self.weights, self.terms, shares, strict=True)
        for weight, term, (arrays, numbers) in stated:
            for place, below, above in term.kinks(arrays, numbers) if weight > 0 else ():
                kinks.append(Kinks(place, weight * below, weight * above))
        return tuple(kinks)

    @property
    def smooth_part(self) -> Loss | None:
        """The sum of the terms' smooth parts."""
        if not (self.has_kinks or self.has_shared_kinks):
            return self
        terms = []
        weights = []
        for weight, term in self.parts:
            smooth = term.smooth_part
            if smooth is not None:
                terms.append(smooth)
                weights.append(weight)
        return WeightedSum(terms, weights) if terms else None

    def expression(self, f: cp.Expression, estimate: FrequencyEstimate) -> cp.Expression:
        """Return the weighted sum of the parts with shared kinks."""
        return self.expression_in(1.0, f, estimate)

    def expression_in(
        self, unit: float, counted: cp.Expression, estimate: FrequencyEstimate
    ) -> cp.Expression:
        """Return the weighted sum of what the parts with shared kinks return."""
        import cvxpy as cp

        total: Any = cp.Constant(0.0)
        for weight, term in self.parts:
            if term.has_shared_kinks:
                total = total + weight * term.expression_in(unit, counted, estimate)
        return total

    def response(
        self,
        mu: Array,
        data: tuple[Array, ...],
        constants: tuple[Any, ...],
    ) -> Array:
        """Return the minimiser of the separable terms and the kinks.

        With kinks at k whose slopes turn from a to b, it is k where the response of the others
        to μ + b is below k and that to μ + a is above, and else the one that is on its own side.
        """
        stated = zip(self.weights, self.terms, self._shares(data, constants), strict=True)
        smooth = []
        for weight, term, (arrays, numbers) in stated:
            if weight > 0 and not term.has_kinks:
                smooth.append((weight, term.separable, arrays, numbers))
        # A single term of any kind states its own response; only some kinds merge.
        of_smooth = single_response if len(smooth) == 1 else merged_response
        kinks = self.kinks(data, constants)
        return response_with_kinks(lambda price: of_smooth(price, smooth), mu, kinks)

    # --- equivalence ------------------------------------------------------------------------------

    @property
    def uses_noise(self) -> bool:
        """Whether a term models the noise of raw estimates."""
        return any(term.uses_noise for term in self.terms)

    @property
    def bare(self) -> Loss:
        """The only term, if there is only one."""
        return self.terms[0].bare if len(self.terms) == 1 and self.weights[0] > 0 else self

    @property
    def needs_numbers(self) -> bool:  # type: ignore[override]
        """Whether a term does."""
        return any(term.needs_numbers for term in self.terms)

    @property
    def compiled_key(self) -> Hashable:
        """The terms' keys, and the weights that are compiled in."""
        open_weights = self._open_weights
        # A weight that is a parameter is data: its value of this moment is left out.
        fixed = tuple(None if i in open_weights else w for i, w in enumerate(self.weights))
        return (WeightedSum.__name__, fixed, *(term.compiled_key for term in self.terms))

    # --- for solvers ------------------------------------------------------------------------------

    def data(self, estimate: FrequencyEstimate) -> tuple[Array, ...]:
        """Return the terms' arrays, and behind them the weights that are parameters."""
        arrays = [array for term in self.terms for array in term.data(estimate)]
        # Once per trial, as all data: solvers take the arrays trial by trial.
        shape = (*estimate.frequencies.shape[:-1], 1)
        weights = [np.full(shape, self.weights[i]) for i in self._open_weights]
        return (*arrays, *weights)

    def nonnegative_arrays(self, count: int, constants: tuple[Any, ...]) -> list[bool]:
        """Return which arrays of the terms are never negative; the weights are not."""
        signs: list[bool] = []
        for term, (length, numbers) in zip(self.terms, constants, strict=True):
            signs += term.nonnegative_arrays(length, numbers)
        return signs + [True] * (count - len(signs))

    def constants(self, estimate: FrequencyEstimate) -> tuple[Any, ...]:
        """Return how many arrays each term has, and its constants."""
        return tuple((len(term.data(estimate)), term.constants(estimate)) for term in self.terms)

    def _shares(
        self, data: tuple[Any, ...], constants: tuple[Any, ...]
    ) -> list[tuple[tuple[Any, ...], tuple[Any, ...]]]:
        """Return each term's arrays and constants."""
        shares = []
        first = 0
        for length, numbers in constants:
            shares.append((tuple(data[first : first + length]), numbers))
            first += length
        return shares

    def finer_constants(
        self,
        f: Array,
        estimate: FrequencyEstimate,
        constants: tuple[Any, ...],
    ) -> tuple[Any, ...] | None:
        """Return the constants with finer ones for the terms that have them."""
        result = []
        is_finer = False
        for term, (length, numbers) in zip(self.terms, constants, strict=True):
            finer = term.finer_constants(f, estimate, numbers)
            is_finer |= finer is not None
            # A term that has none keeps its own.
            result.append((length, numbers if finer is None else finer))
        return tuple(result) if is_finer else None

    def cone_factor(self, d: int, constants: tuple[Any, ...]) -> float:
        """Return the largest factor of a term, in a unit in which the weights are near 1."""
        pairs = zip(self.terms, constants, strict=True)
        finest = max(term.cone_factor(d, numbers) for term, (_, numbers) in pairs)
        # A parameter may take any value after the program is compiled.
        if self._open_weights:
            return finest
        return finest * _unit_of([weight for weight in self.weights if weight > 0])

    def cone_form(
        self,
        f: cp.Expression,
        data: tuple[Any, ...],
        constants: tuple[Any, ...],
    ) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Return the weighted sum of the terms' forms, in the unit of the finest."""
        d = f.size
        # A fine unit, so that none of the terms vanishes in a solver's tolerance.
        common = self.cone_factor(d, constants)
        weights: dict[int, Any] = dict(enumerate(self.weights))
        open_weights = self._open_weights
        if open_weights:
            behind = data[-len(open_weights) :]
            weights |= {i: array[0] for i, array in zip(open_weights, behind, strict=True)}
        objective: Any = 0.0
        cones: list[cp.Constraint] = []
        for i, (arrays, numbers) in enumerate(self._shares(data, constants)):
            term = self.terms[i]
            form, of_form = term.cone_form(f, arrays, numbers)
            # From the term's own unit to that of the sum.
            form = common / term.cone_factor(d, numbers) * form
            weighted, of_weight = _times(weights[i], form)
            objective += weighted
            cones += [*of_form, *of_weight]
        return objective, cones

    @property
    def latex(self) -> str:
        """The weighted sum of the terms in LaTeX."""
        return " + ".join(
            term.latex if weight == 1 else rf"{weight:g} \Bigl({term.latex}\Bigr)"
            for weight, term in self.parts
        )

    def __repr__(self) -> str:
        return " + ".join(
            repr(term) if weight == 1 else f"{weight:g} * {term!r}" for weight, term in self.parts
        )


def within_all(bounds: Sequence[tuple[Array, Array] | None]) -> tuple[Array, Array] | None:
    """Return the bounds that hold where all of these do; None stands for no bound."""
    stated = [bound for bound in bounds if bound is not None]
    if not stated:
        return None
    lower, upper = zip(*stated, strict=True)
    return np.max(lower, axis=0), np.min(upper, axis=0)


def _summands(loss: Loss) -> tuple[list[Loss], list[Any]]:
    """Return the terms of a sum and their weights as they were given; a loss is its own term."""
    # A class of a user that derives from sums may state more than its terms do.
    if type(loss) is not WeightedSum:
        return [loss], [1.0]
    if loss._recipe is None:
        return list(loss.terms), list(loss.weights)
    terms, weights = loss._recipe.args
    return list(terms), list(weights)


def _unit_of(weights: Sequence[float]) -> float:
    """Return the factor that makes the first of the weights 1, as far as doubles reach.

    A factor before a whole loss is gone then: one of 1e-20 would leave nothing above a solver's
    tolerance, and the answers to two factors would differ by it.
    """
    first = next(iter(weights), 1.0)
    return min(max(1 / first, 1 / _LARGEST_UNIT), _LARGEST_UNIT) if first > 0 else 1.0


def _times(weight: Any, form: cp.Expression) -> tuple[cp.Expression, list[cp.Constraint]]:
    """Return a product of a weight and a convex form, and the constraints that it needs."""
    import cvxpy as cp

    if not (isinstance(weight, cp.Expression) and form.parameters()):
        return weight * form, []
    # A product of parameters is compiled anew for each value: a bound of the form stands for it.
    bound = cp.Variable()
    return weight * bound, [form <= bound]

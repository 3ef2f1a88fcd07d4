"""Frequencies that are near known ones: balls of four kinds."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.closed_form.parts import parts_of
from ldpopt.constraints.absolute_sums import (
    absolute_sum_face,
    absolute_sum_form,
    absolute_sum_rows,
)
from ldpopt.constraints.base import (
    Ball,
    Constraint,
    LinearInequalities,
    Norm,
    row_forms,
    unit_matrix,
)
from ldpopt.errors import InvalidInputError
from ldpopt.expressions import in_uniform_units
from ldpopt.immutable import derived_property
from ldpopt.printable import counted, latex_number

if TYPE_CHECKING:
    import cvxpy as cp

Array = NDArray[np.float64]

_NORMS: tuple[Norm, ...] = (1, 2, np.inf, "kl")

# Bounds that follow from a radius take a few operations, each rounded by half of eps.
_OUTWARD = 1 + 8 * float(np.finfo(np.float64).eps)

# The smallest number whose reciprocal is no less exact.
_TINY = float(np.finfo(np.float64).tiny)


class Near(Constraint):
    """f is within a radius of a reference r, such as last month's frequencies.

    Parameters
    ----------
    reference
        r, finite numbers of shape (d,); with ``"kl"`` none is negative.
    radius
        A finite number >= 0.
    norm
        How the distance is measured: Σ |f_v - r_v| for 1, the root of the sum of squares for 2,
        the largest |f_v - r_v| for ``inf``, and Σ f_v log(f_v/r_v) - f_v + r_v for ``"kl"``, the
        Kullback-Leibler divergence where f and r have the same sum. There f is not negative, and 0
        where r is 0.
    weights
        What each deviation counts with ``norm=1``, positive numbers of shape (d,): the distance is
        Σ w_v |f_v - r_v|. None for 1 each.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the norm is another one, an argument is out of range, or another norm has weights.

    Notes
    -----
    With ``inf`` the set is the box whose bounds are the doubles next to reference ± radius. A
    violation is how much larger than the radius the distance is; with ``"kl"`` in units of the
    divergence, and where f is negative at least its distance from 0.

    Examples
    --------
    >>> f = np.array([0.5, 0.5])
    >>> [float(Near([0.75, 0.25], 0.125, norm).violation(f).round(3)) for norm in (1, 2, np.inf)]
    [0.375, 0.229, 0.125]
    >>> float(Near([0.75, 0.25], 0.125, "kl").violation(f).round(3))
    0.019
    >>> float(Near([0.75, 0.25], 0.125, 1, weights=[2.0, 1.0]).violation(f))
    0.625
    """

    _per_value = frozenset({"reference", "weights"})

    def __init__(
        self,
        reference: ArrayLike,
        radius: float,
        norm: Norm = 2,
        *,
        weights: ArrayLike | None = None,
    ) -> None:
        # True equals 1 in Python, but says nothing about a norm, and an array equals many things.
        if isinstance(norm, bool) or not isinstance(norm, Hashable) or norm not in _NORMS:
            raise InvalidInputError(f'norm must be 1, 2, inf or "kl", got {norm!r}')
        self.norm = norm
        self.reference = validate.vector("reference", reference)
        self.radius = validate.real("radius", radius, minimum=0)
        self.weights = None if weights is None else self._weights(weights)
        negative = self.reference < 0
        if norm == "kl" and negative.any():
            at = validate.first(negative)
            raise InvalidInputError(
                f"reference must be >= 0 with norm='kl', found {self.reference[at]:g} "
                f"at {validate.where(at)}"
            )

    def _weights(self, weights: ArrayLike) -> Array:
        """Return the weights of deviations, one positive number per value of the reference."""
        if self.norm != 1:
            raise InvalidInputError(f"weights are for norm=1 alone, got norm={self.norm!r}")
        checked = validate.positive_vector("weights", weights)
        validate.one_per_value("weights", checked, len(self.reference))
        return checked

    @derived_property
    def ball(self) -> Ball | None:
        """The ball; None with the largest deviation as norm, whose ball is a box."""
        if self.norm == np.inf:
            return None
        return Ball(self.reference, self.radius, self.norm, self.weights)

    @property
    def latex(self) -> str:
        """The set in LaTeX."""
        if self.weights is not None:
            return rf"\sum_v w_v \lvert f_v - r_v \rvert \le {self.radius:g}"
        if self.norm == "kl":
            return rf"\operatorname{{KL}}(f \,\Vert\, r) \le {self.radius:g}"
        return rf"\lVert f - r \rVert_{{{latex_number(self.norm)}}} \le {self.radius:g}"

    def validate_for(self, d: int) -> None:
        """Raise an error unless the reference has one number per value."""
        validate.one_per_value(f"reference of {type(self).__name__}", self.reference, d)

    def violation(self, f: Array) -> Array:
        """Return by how much the distance exceeds the radius."""
        # A part of one value would broadcast with a part of none.
        self.validate_for(f.shape[-1])
        if self.norm == "kl":
            divergence, outside = self._divergence(f)
            excess = np.maximum(divergence - self.radius, outside)
        else:
            excess = self._distance(f) - self.radius
        return np.asarray(np.maximum(excess, 0.0))

    def _divergence(self, f: Array) -> tuple[Array, Array]:
        """Return Σ f log(f/r) - f + r, with 0 for f below it, and the largest distance outside.

        Where r is 0 the divergence would be infinite for any residue of a solver: there the value
        itself is how far it is outside. Both have shape (...).
        """
        divergence = np.zeros(f.shape[:-1])
        outside = np.zeros(f.shape[:-1])
        for _, (values, r) in parts_of(f, self.reference):
            lowest = values.min(axis=-1)
            outside = np.maximum(outside, -lowest)
            value = values
            clear = values
            divisor = r
            # What most vectors have none of would take as long as the logarithm.
            if r.min() == 0 or not np.all(lowest >= _TINY):
                value = np.maximum(values, 0.0)
                is_held = r == 0
                outside = np.maximum(outside, value[..., is_held].max(axis=-1, initial=0.0))
                value[..., is_held] = 0.0
                divisor = np.where(is_held, 1.0, r)
                # The logarithm of 0 would be infinite; that of a tiny number is nothing, 0 times.
                clear = np.maximum(value, _TINY)
            with np.errstate(over="ignore"):
                logs = np.asarray(clear / divisor)
            np.log(logs, out=logs)
            # Without the array of terms: their sum is no more exact.
            along = np.einsum("...v,...v->...", value, logs)
            divergence += along - (value.sum(axis=-1) - r.sum())
        return divergence, outside

    def _distance(self, f: Array) -> Array:
        """Return the norm of the distance from the reference, shape (...)."""
        weights = np.ones(1) if self.weights is None else self.weights
        result = np.zeros(f.shape[:-1])
        # In parts and in place: on long vectors fresh memory costs more than arithmetic.
        for _, (values, reference, weight) in parts_of(f, self.reference, weights):
            away = np.asarray(values - reference)
            if self.norm == 2:
                result += np.einsum("...v,...v->...", away, away)
                continue
            np.abs(away, out=away)
            if self.norm == np.inf:
                result = np.maximum(result, away.max(axis=-1))
                continue
            # In the 1-norm alone: a deviation counts its weight.
            if self.weights is not None:
                away *= weight
            result += away.sum(axis=-1)
        return np.sqrt(result) if self.norm == 2 else result

    def box(self, d: int) -> tuple[Array, Array] | None:
        """Return the bounds of every value with the largest deviation as norm, else None."""
        if self.norm != np.inf:
            return None
        return self.reference - self.radius, self.reference + self.radius

    def extent(self, d: int) -> tuple[Array, Array]:
        """Return how far each value can be from its reference.

        A single term of the divergence is at least x²/(2 (r + x/3)) with x = f - r >= 0 (Bennett's
        inequality), so that x is at most ρ/3 + √(ρ²/9 + 2 ρ r) with the radius ρ.
        """
        reference = self.reference
        if self.norm == "kl":
            third = self.radius / 3
            growth = third + np.sqrt(third * third + 2 * self.radius * reference)
            # Where r is 0, f is 0 too.
            upper = np.where(reference > 0, (reference + growth) * _OUTWARD, 0.0)
            return np.zeros(d), upper
        radius = self.radius if self.weights is None else self.radius / self.weights
        margin = radius + (_OUTWARD - 1) * (radius + np.abs(reference))
        return reference - margin, reference + margin

    def rows(self, d: int) -> LinearInequalities | None:
        """Return the rows of the two polyhedra among the balls.

        For 1 they are -t <= f - r <= t, Σ w t <= radius and t >= 0, with auxiliary variables t.
        """
        if self._is_box:
            return self._bounds(d)
        if self.norm != 1:
            return None
        return absolute_sum_rows(unit_matrix(d), self.reference, self._factors, self.radius)

    def face(self, f: Array, near: float) -> LinearInequalities | None:
        """Return the rows in f alone that stand for a ball of the 1-norm around f, else None."""
        if self.norm != 1:
            return None
        return absolute_sum_face(
            unit_matrix(len(f)), self.reference, self._factors, self.radius, f, near
        )

    @property
    def _factors(self) -> Array | float:
        """The weights of the distances, 1 where none are given."""
        return 1.0 if self.weights is None else self.weights

    def idle_bound(self, total: float) -> float | None:
        """Return the radius if it exceeds the distance of every f >= 0 with this sum.

        The norms of f itself are at most the sum. A divergence and weights have units of their own.
        """
        if self.radius <= total or self.norm == "kl" or self.weights is not None:
            return None
        farthest = total + np.linalg.norm(self.reference, self.norm)
        return self.radius if self.radius > farthest else None

    def row_name(self, row: int, d: int) -> str:
        """Return the constraint: only all its rows together state it."""
        return repr(self)

    @property
    def is_in_units(self) -> bool:
        """True unless weights bring their own, or a parameter is a factor of ratios."""
        return self.weights is None and (self.norm != "kl" or self._recipe is None)

    def cone_form(self, f: cp.Expression) -> list[cp.Constraint]:
        """Return the ball in units of the uniform frequency."""
        d = f.size
        if self._is_box:
            return row_forms(self._bounds(d), in_uniform_units(f), d)
        reference, radius = self._numbers(d)
        if self.norm != "kl":
            return self._ball(f, reference, radius)
        import cvxpy as cp  # slow to import, as everywhere in this folder

        ratio = cp.multiply(1 / reference, self._positive(f))
        return self._divergence_ball(f, reference, ratio, radius)

    def rates(self, of_cone_form: list[Any], d: int) -> Any:
        """Return how fast the minimum rises with the radius: it never does."""
        # The first form is the ball, in which the radius counts d times.
        return -d * np.asarray(of_cone_form[0], dtype=np.float64).reshape(())

    def adjustable_form(self, f: cp.Expression) -> tuple[list[cp.Constraint], list[cp.Parameter]]:
        """Return the ball with parameters for reference and radius, or for the bounds of values."""
        import cvxpy as cp

        if self._recipe is None or self._is_box:
            return super().adjustable_form(f)
        used, _ = self._numbers(f.size)
        reference = cp.Parameter(used.shape, nonneg=self.norm == "kl")
        radius = cp.Parameter(nonneg=True)
        if self.norm != "kl":
            return self._ball(f, reference, radius), [reference, radius]
        # As variables: a parameter times a function of its reciprocal would be compiled anew.
        ratio = cp.Variable(len(used))
        forms = [self._positive(f) == cp.multiply(reference, ratio)]
        forms += self._divergence_ball(f, reference, ratio, radius)
        return forms, [reference, radius]

    def data(self, d: int) -> tuple[Array, ...]:
        """Return reference and radius times d, or bounds of values, if parameters may change."""
        if self._recipe is None or self._is_box:
            return super().data(d)
        return self._numbers(d)

    def compiled_key(self, d: int) -> Hashable:
        """Equal for the same weights, and zeros of the reference, if parameters may change it."""
        if self._recipe is None or self._is_box:
            return super().compiled_key(d)
        zeros = (self.reference == 0).tobytes() if self.norm == "kl" else b""
        weights = b"" if self.weights is None else self.weights.tobytes()
        return (self._recipe, self.norm, zeros, weights)

    @property
    def _is_box(self) -> bool:
        return self.norm == np.inf

    def _bounds(self, d: int) -> LinearInequalities:
        """Return the ball of the largest deviation: bounds of every value."""
        radius = self.radius
        return LinearInequalities(unit_matrix(d), self.reference - radius, self.reference + radius)

    def _numbers(self, d: int) -> tuple[Array, Array]:
        """Return reference and radius times d; of a divergence without the zeros of the former."""
        used = self.reference > 0 if self.norm == "kl" else slice(None)
        return d * self.reference[used], np.asarray(d * self.radius)

    def _ball(self, f: cp.Expression, reference: Any, radius: Any) -> list[cp.Constraint]:
        """Return the ball of the 1-norm or the 2-norm; numbers are parameters or arrays."""
        import cvxpy as cp

        away = in_uniform_units(f) - reference
        if self.norm == 1:
            return absolute_sum_form(away, radius, self.weights)
        return [cp.norm(away) <= radius]

    def _divergence_ball(
        self, f: cp.Expression, reference: Any, ratio: cp.Expression, radius: Any
    ) -> list[cp.Constraint]:
        """Return Σ r (u log u - u + 1) <= radius of ratios u, and that f is 0 where r is.

        Exponential cones are solved best with arguments near 1, which ratios are.
        """
        import cvxpy as cp

        # Where r is 0 the divergence would be infinite.
        zero = np.flatnonzero(self.reference == 0)
        held = [in_uniform_units(f)[zero] == 0] if len(zero) else []
        return [reference @ cp.kl_div(ratio, 1.0) <= radius, *held]

    def _positive(self, f: cp.Expression) -> cp.Expression:
        """Return d f where the reference is not 0."""
        scaled = in_uniform_units(f)
        positive = np.flatnonzero(self.reference > 0)
        # A selection of all values would add a matrix to the program for nothing.
        return scaled if len(positive) == f.size else scaled[positive]

    def __repr__(self) -> str:
        norm = repr(self.norm) if self.norm == "kl" else f"{self.norm:g}"
        weighted = "" if self.weights is None else ", weighted"
        reference = counted(len(self.reference), "value")
        return f"Near(<{reference}>, {self.radius:g}, norm={norm}{weighted})"

"""Planted errors in the closed forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt import closed_form
from ldpopt.claims.planted.error import planted, replace_attribute, replace_function
from ldpopt.closed_form import affine, simplex, thresholds, water_level
from ldpopt.constraints.isotonic import ForestOrder
from ldpopt.solve.paths.closed_forms import balls

Array = NDArray[np.float64]

_KIND = "closed form"
_LONG = water_level._LONG


# --- Norm-Sub -------------------------------------------------------------------------------------


def _after_norm_sub(change: Callable[[Array, Array], Array]) -> None:
    """Change what Norm-Sub returns: a function of the estimate and of the right answer."""
    right = closed_form.norm_sub

    def wrong(f: Array, total: float | Array = 1.0) -> Array:
        return change(f, right(f, total))

    replace_function(right, wrong)


def _mass_moved(answer: Array, mass: float) -> Array:
    """Return answers with mass taken from the largest value and given to the smallest positive."""
    result = answer.copy()
    largest = np.argmax(answer, axis=-1, keepdims=True)
    positive = np.where(answer > 0, answer, np.inf)
    smallest = np.argmin(positive, axis=-1, keepdims=True)
    # The sum stays 1, so that no check of sums can notice.
    for place, step in ((smallest, mass), (largest, -mass)):
        value = np.take_along_axis(result, place, axis=-1)
        np.put_along_axis(result, place, value + step, axis=-1)
    return result


@planted("norm-sub-shift", _KIND, "Norm-Sub: the shift δ is too large by 1e-7", "cls-norm-sub")
def norm_sub_shift() -> None:
    """Shift a little too far, so that the sum is no longer 1."""

    def change(f: Array, answer: Array) -> Array:
        # The difference of answer and estimate is δ wherever the answer is positive; in frequency
        # the change is 1e-7 of δ.
        shifted = np.maximum(answer + 1e-7 * (answer - f), 0.0)
        return np.where(answer > 0, shifted, 0.0)

    _after_norm_sub(change)


@planted("norm-sub-mass-1e-7", _KIND, "Norm-Sub: 1e-7 of mass at the wrong value", "cls-norm-sub")
def norm_sub_mass() -> None:
    """Move 1e-7 of mass from the largest to the smallest positive value."""
    _after_norm_sub(lambda _, answer: _mass_moved(answer, 1e-7))


@planted("norm-sub-mass-5e-10", _KIND, "Norm-Sub: 5e-10 of mass at the wrong value", "cls-norm-sub")
def norm_sub_little_mass() -> None:
    """Move 5e-10 of mass from the largest to the smallest positive value."""
    _after_norm_sub(lambda _, answer: _mass_moved(answer, 5e-10))


@planted(
    "norm-sub-sizes",
    _KIND,
    f"Norm-Sub: zeros for 3,408 to {_LONG:,} values, sizes that no data set here has",
    "long-vectors",
)
def norm_sub_sizes() -> None:
    """Return zeros between the largest data set and the sizes of the fast path."""

    def change(_: Array, answer: Array) -> Array:
        return np.zeros_like(answer) if 3_408 <= answer.shape[-1] <= _LONG else answer

    _after_norm_sub(change)


@planted("fast-path-scale", _KIND, "the fast path of long vectors: 0.1 % too large", "long-vectors")
def fast_path_scale() -> None:
    """Scale what the filter of long vectors returns."""
    right = water_level._fill_long

    # Its own function: shorter vectors take another path, and stay right.
    def wrong(vessel: water_level._Vessel, ceiling: float) -> tuple[Any, Array]:
        index, filled = right(vessel, ceiling)
        return index, 1.001 * filled

    replace_attribute(water_level, "_fill_long", wrong)


@planted(
    "fast-path-filter",
    _KIND,
    "the fast path takes the sample's first guess for granted",
    "long-vectors",
)
def fast_path_filter() -> None:
    """Leave out the test whether the filter has kept all values that may be positive."""
    right = water_level._candidates

    def wrong(
        heights: Array, guess: water_level._Guess, ceiling: float, vessel: water_level._Vessel
    ) -> tuple[Any, Array]:
        # Any level pours more than this volume: the test always passes.
        nothing = vessel._replace(volume=np.array([-np.inf]))
        return right(heights, guess, ceiling, nothing)

    replace_attribute(water_level, "_candidates", wrong)


# --- MLE-Apx --------------------------------------------------------------------------------------


def _instead_of_weighted_projection(change: Callable[[Array, float, float], Array]) -> None:
    """Replace the minimiser of the weighted likelihood, in the method and in the problem."""
    replace_function(simplex.weighted_projection, change)


@planted("mle-apx-sign", _KIND, "MLE-Apx: κ has the wrong sign in t", "mle-apx")
def mle_apx_sign() -> None:
    """Solve for t with -κ."""
    right = simplex.weighted_projection

    def wrong(f: Array, kappa: float, total: float) -> Array:
        # Below -1 there is no answer, and the error would be an exception.
        return right(f, max(-kappa, -0.99), total)

    _instead_of_weighted_projection(wrong)


@planted("mle-apx-kappa", _KIND, "MLE-Apx: κ too large by a millionth", "mle-apx")
def mle_apx_kappa() -> None:
    """Solve for t with κ (1 + 1e-6)."""
    right = simplex.weighted_projection

    def wrong(f: Array, kappa: float, total: float) -> Array:
        return right(f, kappa * (1 + 1e-6), total)

    _instead_of_weighted_projection(wrong)


@planted("mle-apx-is-norm-sub", _KIND, "MLE-Apx ignores κ and returns Norm-Sub", "mle-apx")
def mle_apx_is_norm_sub() -> None:
    """Take κ for 0."""
    _instead_of_weighted_projection(lambda f, _, total: closed_form.norm_sub(f, total))


@planted("mle-apx-negative-kappa", _KIND, "MLE-Apx returns Norm-Sub where κ < 0", "mle-apx")
def mle_apx_negative_kappa() -> None:
    """Take negative κ for 0."""
    right = simplex.weighted_projection

    def wrong(f: Array, kappa: float, total: float) -> Array:
        return right(f, max(kappa, 0.0), total)

    _instead_of_weighted_projection(wrong)


# --- Norm-Cut -------------------------------------------------------------------------------------


def _after_norm_cut(change: Callable[[Array, Array], Array]) -> None:
    """Change what Norm-Cut returns: a function of max(f̃, 0) and of the right answer."""
    right = closed_form.norm_cut

    def wrong(f: Array) -> Array:
        return change(np.maximum(f, 0.0), right(f))

    replace_function(right, wrong)


def _highest_cut(positive: Array, answer: Array) -> Array:
    """Return the highest value that Norm-Cut has cut, 0 where it has cut none."""
    return np.asarray(np.max(np.where(answer > 0, 0.0, positive), axis=-1, keepdims=True))


@planted("norm-cut-order", _KIND, "Norm-Cut adds up the smallest values first", "norm-hyb-norm-cut")
def norm_cut_order() -> None:
    """Sort ascending instead of descending."""
    # Norm-Cut is the only one in this module that sorts so.
    replace_attribute(thresholds, "falling", lambda f: np.sort(f, axis=-1))


@planted("norm-cut-keeps-one", _KIND, "Norm-Cut keeps the value that crosses 1", "table1-sum")
def norm_cut_keeps_one() -> None:
    """Keep the value that makes the sum exceed 1."""

    def change(positive: Array, answer: Array) -> Array:
        # 0 stands for nothing that was cut.
        crossing = _highest_cut(positive, answer)
        return np.where((positive == crossing) & (crossing > 0), positive, answer)

    _after_norm_cut(change)


@planted("norm-cut-rescaled", _KIND, "Norm-Cut rescales to the sum 1", "norm-hyb-norm-cut")
def norm_cut_rescaled() -> None:
    """Divide by the sum, as the code behind the papers' figures does."""

    def change(_: Array, answer: Array) -> Array:
        mass = answer.sum(axis=-1, keepdims=True)
        return np.asarray(answer / np.maximum(mass, 1e-300))

    _after_norm_cut(change)


@planted("norm-cut-theta", _KIND, "Norm-Cut: θ twice too large", "norm-hyb-norm-cut")
def norm_cut_theta() -> None:
    """Cut at twice the threshold."""

    def change(positive: Array, answer: Array) -> Array:
        return np.where(positive > 2 * _highest_cut(positive, answer), answer, 0.0)

    _after_norm_cut(change)


# --- thresholds -----------------------------------------------------------------------------------


@planted("threshold-alpha", _KIND, "threshold T with α/(2d) instead of α/d", "false-positives")
def threshold_alpha() -> None:
    """Halve the expected number of false positives."""
    right = closed_form.significance_threshold

    def wrong(d: int, sigma: float, alpha: float = 2.0) -> float:
        return right(d, sigma, alpha / 2)

    replace_function(right, wrong)


@planted("threshold-scale", _KIND, "threshold T 1 % too large", "false-positives")
def threshold_scale() -> None:
    """Scale the threshold."""
    right = closed_form.significance_threshold

    def wrong(d: int, sigma: float, alpha: float = 2.0) -> float:
        return 1.01 * right(d, sigma, alpha)

    replace_function(right, wrong)


@planted("base-cut-below", _KIND, "Base-Cut keeps what exceeds 0.9 T", "base-cut-l0")
def base_cut_below() -> None:
    """Cut at a smaller threshold."""
    right = closed_form.base_cut

    def wrong(f: Array, threshold: float | Array) -> Array:
        return right(f, 0.9 * np.asarray(threshold))

    replace_function(right, wrong)


@planted("norm-hyb-mass", _KIND, "Norm-Hyb: the others share 1 % too much", "norm-hyb-cls")
def norm_hyb_mass() -> None:
    """Give the values that are not kept 1 % more than what is left."""
    right = closed_form.norm_sub

    def wrong(f: Array, total: float | Array = 1.0) -> Array:
        return right(f, 1.01 * total)

    # In this module alone: elsewhere the same function stays right.
    replace_attribute(thresholds, "norm_sub", wrong)


@planted(
    "norm-hyb-fitting", _KIND, "Norm-Hyb: the highest with a sum below 0.9 stay", "norm-hyb-cls"
)
def norm_hyb_fitting() -> None:
    """Keep the k highest values with a sum below 0.9 instead of 1."""
    # A sum of f/0.9 below 1 is a sum of f below 0.9.
    right = thresholds._that_fit
    replace_attribute(thresholds, "_that_fit", lambda f: right(f / 0.9))


# --- normalisations by one number -----------------------------------------------------------------


@planted("norm-shift", _KIND, "Norm: the shift is too large by 1e-8 of itself", "norm-cls")
def norm_shift() -> None:
    """Shift a little too far."""
    right = affine.norm

    def wrong(f: Array, total: float = 1.0) -> Array:
        return np.asarray(f + (1 + 1e-8) * (right(f, total) - f))

    replace_function(right, wrong)


@planted("norm-mul-negatives", _KIND, "Norm-Mul scales |f̃| instead of max(f̃, 0)", "norm-mul-kl")
def norm_mul_negatives() -> None:
    """Turn the sign of negative values instead of cutting them."""
    right = affine.norm_mul

    def wrong(f: Array, total: float = 1.0) -> Array:
        return right(np.abs(f), total)

    replace_function(right, wrong)


# --- families -------------------------------------------------------------------------------------


@planted("pooling-scaled", _KIND, "pooling before the rest: too large by 1e-4 of it", "pool-first")
def pooling_scaled() -> None:
    """Scale what is pooled, which keeps the order and the sums of all later steps."""
    right = ForestOrder.project

    def wrong(self: ForestOrder, values: Array, weights: Array | None = None) -> Array:
        return 1.0001 * right(self, values, weights)

    replace_attribute(ForestOrder, "project", wrong)


@planted(
    "pooling-between-bounds",
    _KIND,
    "pooling between bounds: levels 1e-4 of themselves too large",
    "pool-in-the-root",
)
def pooling_between_bounds() -> None:
    """Scale the levels, which the total's root then moves back on the whole."""
    right = ForestOrder.bounded

    def wrong(self: ForestOrder, values: Array, *rest: Array | None) -> Array:
        return right(self, 1.0001 * values, *rest)

    replace_attribute(ForestOrder, "bounded", wrong)


@planted("group-roots-mass", _KIND, "one root per group: 1e-6 of mass misplaced", "group-roots")
def group_roots_mass() -> None:
    """Move a little mass within each vector, from its largest to its smallest positive value."""
    right = closed_form.group_roots

    def wrong(*arguments: Any) -> Array:
        return _mass_moved(right(*arguments), 1e-6)

    replace_function(right, wrong)


@planted("ball-radius", _KIND, "balls: the limit is missed by 1e-6 of it", "balls")
def ball_radius() -> None:
    """Stay a little inside the ball."""
    right = balls._Search._excess

    def wrong(self: balls._Search, estimate: Any, f: Array) -> Array:
        return right(self, estimate, f) + 1e-6 * abs(self.ball.limit)

    replace_attribute(balls._Search, "_excess", wrong)


@planted(
    "fused-price", _KIND, "fused lasso: the price is too high by 1e-3 of it", "variation-first"
)
def fused_price() -> None:
    """Price variation a little too high."""
    right = closed_form.fused
    replace_function(right, lambda f, price: right(f, 1.001 * price))


@planted("margins-shift", _KIND, "equations: the step is too long by 1e-7 of itself", "margins")
def margins_shift() -> None:
    """Step a little beyond the solution."""
    right = closed_form.with_equations

    def wrong(f: Array, *rest: Any) -> Array:
        return np.asarray(f + (1 + 1e-7) * (right(f, *rest) - f))

    replace_function(right, wrong)

"""The problems of Table I, stated from the options of their methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from ldpopt import closed_form, priors, validate
from ldpopt.constraints import Fixed, NonNegative, SumsTo
from ldpopt.errors import InvalidInputError, InvalidTypeError, warn
from ldpopt.estimate import FrequencyEstimate
from ldpopt.estimate.sets import NamedSets, Sets
from ldpopt.group_totals import within_groups
from ldpopt.losses import HardThreshold, LeastSquares, PosteriorMean
from ldpopt.methods.method import Stated
from ldpopt.solve.composition import Composition
from ldpopt.solve.problem import Problem

Array = NDArray[np.float64]

_ALPHA = 2.0  # expected number of false positives above the threshold (N IV-A)
_BETA = 0.05  # the same, of OUE-Zero: one vector in twenty has a false positive (K Eq. 22)

# One pair of objects for all methods: constraints are immutable.
SIMPLEX = (NonNegative(), SumsTo(1.0))


def base_cut(*, alpha: float = _ALPHA, top_k: int | None = None) -> Problem:
    """Return the problem of Base-Cut; the number of values of interest may replace alpha."""
    return Problem(_cut(alpha, top_k), [NonNegative()])


def _cut(alpha: float, top_k: int | None) -> HardThreshold:
    """Return the loss of Base-Cut, or raise an error if both options set its threshold."""
    alpha = validate.real("alpha", alpha, above=0)
    if top_k is None:
        return HardThreshold(alpha)
    # An alpha of 2 that the caller wrote looks like the default: it passes.
    if alpha != _ALPHA:
        raise InvalidInputError("alpha and top_k both set the threshold: give one of them")
    return HardThreshold(top_k=top_k)


def base_zero(*, beta: float = _BETA) -> Problem:
    """Return the problem of OUE-Zero."""
    return Problem(HardThreshold(validate.real("beta", beta, above=0)), [NonNegative()])


def norm_hyb(*, alpha: float = _ALPHA, top_k: int | None = None) -> Composition:
    """Return Norm-Hyb: which values Base-Cut keeps decides what is fixed."""
    # The same threshold decides which values are kept and which problem that amounts to.
    loss = _cut(alpha, top_k)

    def minimise(estimate: FrequencyEstimate) -> Array:
        return closed_form.norm_hyb(estimate.frequencies, loss.threshold(estimate))

    def stated_by(vector: FrequencyEstimate) -> Problem:
        f = vector.frequencies
        kept = np.flatnonzero(closed_form.kept_by_norm_hyb(f, loss.threshold(vector)))
        return Problem(LeastSquares(), [NonNegative(), SumsTo(1.0), Fixed(kept, f[kept])])

    formula = "min ½‖f-f̃‖², f ≥ 0, Σf = 1, f = f̃ where Base-Cut keeps f̃"
    cut = Problem(loss, [NonNegative()])
    return Composition(cut, stated_by, minimise, "norm-hyb", formula)


def _require_flag(name: str, value: object) -> None:
    """Raise an error unless an option is True or False: any text would count as True."""
    if not isinstance(value, bool):
        raise InvalidTypeError(f"{name} must be True or False, got {value!r}")


def norm_sub(*, zero_first: bool = False) -> Problem | Composition:
    """Return the problem of Norm-Sub, or the two problems of its variant in the authors' code."""
    _require_flag("zero_first", zero_first)
    if not zero_first:
        return Problem(LeastSquares(), SIMPLEX)

    def minimise(estimate: FrequencyEstimate) -> Array:
        # With nothing above 0 all values stay 0, and no sum of 1 is left to any.
        _require_positive(estimate.frequencies, "norm-sub with zero_first")
        return closed_form.zero_first(estimate.frequencies)

    def stated_by(vector: FrequencyEstimate) -> Problem:
        zeros = np.flatnonzero(vector.frequencies <= 0)
        return Problem(LeastSquares(), [*SIMPLEX, Fixed(zeros, np.zeros(len(zeros)))])

    # Base-Pos decides what is fixed, which makes it the first of two problems.
    first = Problem(LeastSquares(), [NonNegative()])
    formula = "min ½‖f-f̃‖², f ≥ 0, Σf = 1, f = 0 where f̃ ≤ 0"
    return Composition(first, stated_by, minimise, "norm-sub, zero first", formula)


def _require_positive(f: Array, name: str) -> None:
    """Raise an error unless every vector has a positive value."""
    without = np.max(f, axis=-1) <= 0
    if without.any():
        at = validate.first(np.asarray(without))
        raise InvalidInputError(
            f"{name} needs a positive estimate, found a vector without one{validate.placed(at)}; "
            "norm-sub itself always has an answer"
        )


_CROSSINGS: Mapping[str, closed_form.Crossing] = MappingProxyType({"cut": "cut", "keep": "keep"})


def norm_cut(estimate: FrequencyEstimate, *, crossing: str = "cut") -> Array:
    """Return what Norm-Cut does to the estimates, with or without the value that crosses 1."""
    f = estimate.frequencies
    choice = validate.lookup("crossing", crossing, _CROSSINGS)
    if choice == "keep":
        return _norm_cut_behind_crossing(f)
    # The definition adds up the largest estimates while their sum is below 1: here not even the
    # first one fits.
    if np.any(f.max(axis=-1) > 1):
        warn(
            "norm-cut returns 0 everywhere for a vector with an estimate above 1: by its "
            "definition such a value, and all below it, are cut; norm-sub has no such case"
        )
    return closed_form.norm_cut(f)


def _norm_cut_behind_crossing(f: Array) -> Array:
    """Return Norm-Cut as the authors' code computes it, or raise an error where it divides by 0."""
    crosses = np.sum(np.maximum(f, 0.0), axis=-1) > 1
    # Where nothing crosses all values are kept, negative ones too, and divided by their sum.
    without = ~crosses & (np.sum(f, axis=-1) <= 0)
    if without.any():
        at = validate.first(without)
        raise InvalidInputError(
            'norm-cut with crossing="keep" divides by the sum of the estimates, which is not '
            f"positive{validate.placed(at)}; norm-cut without options always has an answer"
        )
    return closed_form.norm_cut(f, crossing="keep")


def unchanged(estimate: FrequencyEstimate) -> Array:
    """Return the frequencies as they are."""
    return estimate.frequencies


def posterior(prior: type[priors.Prior], total: float | None = None) -> Callable[[], PosteriorMean]:
    """Return the function that makes the loss, so that every problem fits its own prior."""
    return lambda: PosteriorMean(prior, total=total)


def posterior_on_simplex(prior: type[priors.Prior], total: float | None = None) -> Stated:
    """Return the function that states the projection of a posterior mean, within groups or not."""
    loss = posterior(prior, total)

    def stated(*, groups: Sets | NamedSets | None = None) -> Problem | Composition:
        return Problem(loss(), SIMPLEX) if groups is None else within_groups(loss, groups)

    return stated


def power_under(*constraints: NonNegative | SumsTo) -> Stated:
    """Return the function that states Power's problem under some constraints."""

    def stated(*, binned: bool = False) -> Problem:
        _require_flag("binned", binned)
        prior = priors.BinnedPowerLaw if binned else priors.PowerLaw
        return Problem(PosteriorMean(prior), constraints)

    return stated

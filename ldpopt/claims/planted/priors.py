"""Planted errors in the power law and in the methods that use it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt import closed_form
from ldpopt.claims.planted.error import planted, replace_attribute
from ldpopt.estimate import FrequencyEstimate
from ldpopt.methods import METHODS, Method
from ldpopt.priors import PowerLaw, power_law
from ldpopt.priors.counts import EstimatedCounts

Array = NDArray[np.float64]

_KIND = "power law"


def _scale_noise(factor: float) -> None:
    """Let the method Power take the noise of a count for larger than it is."""

    def of(estimate: Any, *, value_dependent: bool = False) -> EstimatedCounts:
        counts = EstimatedCounts.of(estimate, value_dependent=value_dependent)
        noise = replace(counts.noise, sd=factor * counts.noise.sd)
        return replace(counts, noise=noise)

    # In this module alone: posteriors of a given prior stay right.
    replace_attribute(power_law, "EstimatedCounts", SimpleNamespace(of=of))


@planted("power-noise-5", _KIND, "Power: noise 5 % too large", "power-ns-optimal")
def power_noise() -> None:
    """Compute posterior means under too much noise."""
    _scale_noise(1.05)


@planted("power-noise-1", _KIND, "Power: noise 1 % too large", "power-ns-optimal")
def power_little_noise() -> None:
    """Compute posterior means under a little too much noise."""
    _scale_noise(1.01)


@planted("power-exponent", _KIND, "Power: exponent too large by 0.01", "power-ns-optimal")
def power_exponent() -> None:
    """Fit another exponent than the one with the estimate's mean."""
    right_fit = PowerLaw.fitted_means
    right_exponents = power_law.exponents

    def exponents(means: Array, n: int) -> Array:
        return right_exponents(means, n) + 0.01

    def wrong(
        cls: type[PowerLaw], estimate: FrequencyEstimate, *, value_dependent: bool = False
    ) -> Array:
        # During this fit alone: the fit of a single prior stays right.
        replace_attribute(power_law, "exponents", exponents)
        try:
            return right_fit(estimate, value_dependent=value_dependent)
        finally:
            replace_attribute(power_law, "exponents", right_exponents)

    # Where Power takes its fit: priors of the user are not touched.
    replace_attribute(PowerLaw, "fitted_means", classmethod(wrong))


def _instead_of(name: str, solve: Callable[[FrequencyEstimate], Array]) -> None:
    """Let one method return other frequencies."""
    right = Method.solve

    def wrong(self: Method, estimate: FrequencyEstimate, **options: Any) -> FrequencyEstimate:
        # One method alone, by its name in the table.
        if self.name != name:
            return right(self, estimate, **options)
        return estimate.processed(solve(estimate), method=name)

    replace_attribute(Method, "solve", wrong)


@planted("power-ns-norm-mul", _KIND, "PowerNS ends with Norm-Mul", "power-ns-optimal")
def power_ns_norm_mul() -> None:
    """Scale the posterior mean instead of projecting it."""

    def solve(estimate: FrequencyEstimate) -> Array:
        return closed_form.norm_mul(METHODS["power"].solve(estimate).frequencies)

    _instead_of("power-ns", solve)


@planted("power-ns-no-power", _KIND, "PowerNS never calls Power", "power-ns-optimal")
def power_ns_no_power() -> None:
    """Project the estimate itself."""
    _instead_of("power-ns", lambda estimate: closed_form.norm_sub(estimate.frequencies))


@planted("post-pos-negative", _KIND, "Post-Pos does not cut negative answers", "post-pos-queries")
def post_pos_negative() -> None:
    """Return answers as they are."""
    _instead_of("post-pos", lambda estimate: estimate.frequencies.copy())

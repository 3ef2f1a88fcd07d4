"""Planted errors in certificates, and in what the ledger itself compares with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt.claims.engine.agreement import Agreement, compare_with_solvers
from ldpopt.claims.engine.instances import Instance, InstanceSet
from ldpopt.claims.planted.error import planted, replace_attribute, replace_function
from ldpopt.claims.reference.rational import exact_solution
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import GaussianMLE
from ldpopt.solve import planner
from ldpopt.solve.certificate import certificate
from ldpopt.solve.programs.solvers import DEFAULT_SOLVER

Array = NDArray[np.float64]

_CERTIFICATE = "certificate"
_LEDGER = "ledger"


def _change_field(name: str, change: Callable[[Array], Array]) -> None:
    """Change a number that all certificates are built with."""
    # At the constructor, where every path to a certificate passes.
    right = certificate.Certificate

    def wrong(**fields: Any) -> certificate.Certificate:
        return right(**{**fields, name: change(fields[name])})

    replace_attribute(certificate, "Certificate", wrong)


@planted("gap-0", _CERTIFICATE, "the gap is always 0", "certificates-refuse")
def gap_0() -> None:
    """Take every point for the minimiser."""
    _change_field("gap", np.zeros_like)


@planted("gap-scale", _CERTIFICATE, "the gap is a million times too small", "certificates-refuse")
def gap_scale() -> None:
    """Divide the gap."""
    _change_field("gap", lambda gap: gap / 1e6)


@planted("violation-0", _CERTIFICATE, "the violation is always 0", "certificates-refuse")
def violation_0() -> None:
    """Take every point for a member of the set."""
    _change_field("violation", np.zeros_like)


def _change_multipliers(name: str, change: Callable[[Array], Array]) -> None:
    """Change what certificates say of the multipliers."""
    # From the class's own dictionary: getattr would evaluate the property.
    right: Any = vars(certificate.Certificate)[name]
    wrong = property(lambda self: change(right.fget(self)))
    replace_attribute(certificate.Certificate, name, wrong)


@planted("bound-multipliers-0", _CERTIFICATE, "the multipliers λ are all 0", "multipliers")
def bound_multipliers_0() -> None:
    """Return no multiplier of a bound."""
    _change_multipliers("bound_multipliers", np.zeros_like)


@planted("sum-multiplier-sign", _CERTIFICATE, "the multiplier μ has the wrong sign", "multipliers")
def sum_multiplier_sign() -> None:
    """Turn the sign of the multiplier of the total."""
    _change_multipliers("sum_multiplier", np.negative)


@planted("stationarity-0", _CERTIFICATE, "stationarity and complementarity are 0", "multipliers")
def stationarity_0() -> None:
    """Take every gradient for explained."""
    for name in ("stationarity", "complementarity"):
        _change_multipliers(name, np.zeros_like)


# --- what the ledger compares with ----------------------------------------------------------------


def _change_instances(change: Callable[[Array], Array], *, adversarial: bool) -> None:
    """Change the frequencies of all instances, the adversarial ones among them or not."""
    right = Instance.__init__

    def wrong(
        self: Instance, name: str, kind: Any, estimate: FrequencyEstimate, joined: int = 1
    ) -> None:
        if adversarial or kind != "adversarial":
            # Adversarial instances are negative by design, and may have to stay so.
            frequencies = change(estimate.frequencies)
            estimate = FrequencyEstimate(frequencies, estimate.n, estimate.oracle, is_raw=True)
        right(self, name, kind, estimate, joined)

    replace_attribute(Instance, "__init__", wrong)


@planted("no-negatives", _LEDGER, "no instance has a negative value", "instances-cover")
def no_negatives() -> None:
    """Try the claims on |f̃|."""
    _change_instances(np.abs, adversarial=True)


@planted("no-noise", _LEDGER, "instances are distributions already", "instances-cover")
def no_noise() -> None:
    """Try the claims on estimates that need no post-processing."""

    def change(f: Array) -> Array:
        positive = np.maximum(f, 0.0)
        return np.asarray(positive / np.maximum(positive.sum(axis=-1, keepdims=True), 1e-9))

    _change_instances(change, adversarial=False)


@planted("two-values", _LEDGER, "random instances have two values only", "instances-cover")
def two_values() -> None:
    """Leave out all random instances but the smallest."""
    right: Any = vars(InstanceSet)["random"]

    def pairs(self: InstanceSet) -> list[Instance]:
        # All are drawn, so that what is left is the same as before.
        return [instance for instance in right.func(self) if instance.estimate.d == 2]

    wrong = cached_property(pairs)
    # A class does this by itself only for the properties that it is defined with.
    wrong.__set_name__(InstanceSet, "random")
    replace_attribute(InstanceSet, "random", wrong)


@planted("solver-is-closed-form", _LEDGER, "the solver is the closed form itself", "cls-norm-sub")
def solver_is_closed_form() -> None:
    """Follow the closed form, and call it the solver that was named."""
    right = planner.Planner._conic

    def wrong(self: planner.Planner, formulation: Any, start: Any, request: Any) -> Any:
        plan = planner._closed_form(formulation, start)
        # Problems without a closed form leave the solver no choice.
        if plan is None:
            return right(self, formulation, start, request)
        return replace(plan, path="conic", name=request.solver or DEFAULT_SOLVER)

    replace_attribute(planner.Planner, "_conic", wrong)


@planted("agreement-always", _LEDGER, "every comparison agrees", "comparisons-refuse")
def agreement_always() -> None:
    """Let a comparison hold whatever it measured."""
    # The verdict alone: all numbers in the evidence stay right.
    replace_attribute(Agreement, "holds", property(lambda _: True))


@planted("solvers-given-nothing", _LEDGER, "solvers get no vector", "cls-norm-sub")
def solvers_given_nothing() -> None:
    """Put the limit of every solver below the smallest vector."""
    right = compare_with_solvers

    def wrong(
        problem: Any, closed_form: Any, instances: Any, solvers: tuple[str, ...], **named: Any
    ) -> Agreement:
        # No vector is that small, so that each solver is left out of every comparison.
        limits = dict.fromkeys(solvers, 0)
        return right(problem, closed_form, instances, solvers, **{**named, "largest": limits})

    replace_function(right, wrong)


@planted("fractions-without-kappa", _LEDGER, "the exact reference takes κ for 0", "mle-apx")
def fractions_without_kappa() -> None:
    """Solve for Norm-Sub where MLE-Apx is meant."""
    right = exact_solution
    replace_function(right, lambda f, _: right(f, kappa=0.0))


@planted(
    "gradient-half", _LEDGER, "the weighted MLE's gradient lacks its second term", "multipliers"
)
def gradient_half() -> None:
    """Leave out what the variance adds to the slope."""

    def wrong(self: GaussianMLE, f: Array, estimate: FrequencyEstimate) -> Array:
        noise = estimate.noise
        # The first term of the quotient rule: right where f = f̃, wrong elsewhere.
        return np.asarray(2 * (f - estimate.frequencies) / (noise.a + noise.b * f))

    replace_attribute(GaussianMLE, "gradient", wrong)

"""Losses value by value: the term of one value, from which sympy takes the derivative.

A loss states, beside its term, its *response*, the minimiser of ℓ_v(f) + price · f over the line:
that is what the case split puts where no bound holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from ldpopt import losses
from ldpopt.errors import UnsupportedProblemError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import Loss
from ldpopt.losses.likelihood import _Likelihood
from ldpopt.losses.normalised import TiltedGaussianMLE
from ldpopt.losses.responses import Kinks
from ldpopt.losses.threshold import SupportedLeastSquares
from ldpopt.solve.kkt.notation import (
    ALL_VALUES,
    LATEX,
    Condition,
    Everywhere,
    Expression,
    F,
    Names,
    V,
    at_least,
    at_most,
    equation,
    number,
)

Array = NDArray[Any]

X = sp.Symbol("x", real=True)
"""The frequency of one value, by which terms are differentiated."""


class Kink(NamedTuple):
    """A part size · weight · |x - place| of a loss.

    Attributes
    ----------
    size
        A number.
    place, sign
        Symbols of the place and of the subgradient of |x - place|.
    weight
        The symbol of a weight of each value, or 1.
    """

    size: float
    place: Any
    sign: Any
    weight: Any = sp.Integer(1)

    def scaled(self, factor: float) -> Kink:
        """Return the part of a loss that is multiplied by a factor."""
        return self._replace(size=factor * self.size)


@dataclass
class LossForm:
    """A loss as a sum over values.

    Attributes
    ----------
    term
        ℓ_v as an expression in ``X`` and symbols with the index v; without kinks.
    meanings
        What the symbols stand for, by name.
    numbers
        From an estimate to the numbers of the symbols.
    response
        From a price to the minimiser of ℓ_v(f) + price · f; None where it is not stated.
    price
        From the sum of the data of the values between their bounds, the number of these values, and
        what they sum to, to the price that makes them do so; None where that takes a root.
    needs_price
        Whether the response to the price 0 is not the minimiser of the loss alone.
    reference
        For a divergence the name of its reference: values where that is 0 must be 0.
    kinks
        The parts with a kink at each value.
    pooled
        The symbol that means replace where values must be equal; None where no mean tells it.
    logarithmic
        Whether the slope is infinite at 0, below which the loss is infinite.
    derivative
        ℓ'_v at f_v without kinks, where sympy would differentiate the term into step functions.
    """

    term: Expression
    meanings: dict[str, str]
    numbers: Callable[[FrequencyEstimate], dict[str, Array]]
    response: Callable[[Any], Expression] | None = None
    price: Callable[[Any, Any, Any], Expression] | None = None
    needs_price: bool = False
    reference: Any = None
    kinks: list[Kink] = field(default_factory=list)
    pooled: Any = None
    logarithmic: bool = False
    derivative: Expression | None = None

    def smooth_slope(self) -> Expression:
        """Return ℓ'_v at f_v, without kinks."""
        if self.derivative is not None:
            return self.derivative
        return sp.diff(self.term, X).subs(X, F[V])

    def slope(self) -> Expression:
        """Return ℓ'_v at f_v, with the subgradients of kinks."""
        slope = self.smooth_slope()
        for kink in self.kinks:
            # The subgradient of a kink stands as a symbol, which its own conditions bound.
            slope += number(kink.size) * kink.weight * kink.sign
        return slope

    def where(self) -> Everywhere:
        """Return for which values the slope is finite."""
        if not self.logarithmic:
            return ALL_VALUES
        # At 0 the slope is -inf: a value is there only if something else holds it.
        return Everywhere(
            V,
            "where f_v > 0",
            r"\text{where } f_v > 0",
            lambda _, numbers: np.flatnonzero(numbers["f"] > 0),
        )


def no_loss() -> LossForm:
    """Return the loss 0: what is left of a loss that is nothing but prices on several values."""
    return LossForm(term=sp.Integer(0), meanings={}, numbers=lambda _: {})


@singledispatch
def loss_form(loss: Loss, names: Names) -> LossForm:
    """Return a loss value by value.

    Raises
    ------
    UnsupportedProblemError
        If it is no sum over values, or not convex, or its formula is not known.
    """
    # Either the derivative by f_v has other values in it, or it decides nothing.
    reason = "it is no sum over values" if loss.convex else "it is not convex"
    if loss.convex and loss.adds_over_values:
        reason = "a loss of your own states no formula of its slope"
    raise UnsupportedProblemError(
        f"{loss!r} has no conditions value by value: {reason}. The multipliers of a solution are "
        "in solution.duals, and its certificate covers "
        f"{'it' if loss.convex else 'the convex part that was solved last'}"
    )


# Each has the class of a loss below, and another function: it is refused like an unknown loss.
for _other in (SupportedLeastSquares, TiltedGaussianMLE):
    loss_form.register(_other, loss_form.dispatch(object))


@loss_form.register
def _squares(loss: losses.LeastSquares, names: Names) -> LossForm:
    return _squares_around("f̃", "the estimate", loss, names)


@loss_form.register
def _posterior(loss: losses.PosteriorMean, names: Names) -> LossForm:
    return _squares_around("m", "the posterior mean", loss, names)


def _squares_around(letter: str, meaning: str, loss: losses.LeastSquares, names: Names) -> LossForm:
    target = names.base(letter)
    return LossForm(
        term=(X - target[V]) ** 2 / 2,
        meanings={target.name: meaning},
        numbers=lambda estimate: {target.name: loss.target(estimate)},
        response=lambda price: target[V] - price,
        price=lambda held, size, total: (held - total) / size,
        pooled=target,
    )


@loss_form.register
def _weighted_squares(loss: losses.WeightedLeastSquares, names: Names) -> LossForm:
    target = names.base("f̃")
    weight = names.base("w")
    return LossForm(
        term=weight[V] * (X - target[V]) ** 2 / 2,
        meanings={target.name: "the estimate", weight.name: "the weights"},
        numbers=lambda estimate: {target.name: estimate.frequencies, weight.name: loss.weights},
        response=lambda price: target[V] - price / weight[V],
        # As readers write it: sympy leaves a 2 above and one below.
        derivative=weight[V] * (F[V] - target[V]),
    )


@loss_form.register
def _gaussian(loss: losses.GaussianMLE, names: Names) -> LossForm:
    target = names.base("f̃")
    constant = names.base("a")
    growth = names.base("b")

    def numbers(estimate: FrequencyEstimate) -> dict[str, Array]:
        shape = estimate.frequencies.shape
        noise = estimate.noise
        return {
            target.name: estimate.frequencies,
            # Plain noise has the same number for all values, mixed noise another for each.
            constant.name: np.broadcast_to(noise.a, shape),
            growth.name: np.broadcast_to(noise.b, shape),
        }

    def response(price: Any) -> Expression:
        # r (2 - b r) = -price for r = (f - f̃)/(a + b f), by the root that is 0 at price 0.
        ratio = -price / (1 + sp.sqrt(1 + growth[V] * price))
        return (target[V] + constant[V] * ratio) / (1 - growth[V] * ratio)

    return LossForm(
        term=(X - target[V]) ** 2 / (constant[V] + growth[V] * X),
        meanings={
            target.name: "the estimate",
            constant.name: "n times its variance at frequency 0",
            growth.name: "how fast that grows with the frequency",
        },
        numbers=numbers,
        response=response,
    )


@loss_form.register
def _likelihood(loss: _Likelihood, names: Names) -> LossForm:
    share = names.base("y")
    floor = names.symbol("q")
    top = names.symbol("p")
    slope = top - floor

    def numbers(estimate: FrequencyEstimate) -> dict[str, Array]:
        # The library computes with q and p - q; papers write q and p.
        first, rise = loss.constants(estimate)
        return {
            share.name: loss.shares(estimate),
            floor.name: np.asarray(first),
            top.name: np.asarray(first + rise),
        }

    probability = floor + slope * X
    meanings = {
        share.name: "the share c/n of reports that support the value",
        floor.name: "the probability that a report supports another value",
        top.name: "the probability that a report supports the user's value",
    }
    # Reports that support one value each: those that support another add no term.
    if not loss.is_two_sided:
        return LossForm(
            term=-share[V] * sp.log(probability),
            meanings=meanings,
            numbers=numbers,
            response=lambda price: share[V] / price - floor / slope,
            # Without a price it falls for ever.
            needs_price=True,
            pooled=share,
        )

    def response(price: Any) -> Expression:
        # m P² - (1 + m) P + y = 0 with m = price/(p - q), by the root that does not cancel.
        scaled = price / slope
        root = sp.sqrt((1 + scaled) ** 2 - 4 * scaled * share[V])
        return (2 * share[V] / (1 + scaled + root) - floor) / slope

    return LossForm(
        term=-share[V] * sp.log(probability) - (1 - share[V]) * sp.log(1 - probability),
        meanings=meanings,
        numbers=numbers,
        response=response,
        pooled=share,
    )


@loss_form.register
def _divergence(loss: losses.KullbackLeibler, names: Names) -> LossForm:
    form = _divergence_from("f̃", "the estimate", loss, names)
    # Its own minimiser is the estimate: the form leaves out a term that a total makes constant.
    form.needs_price = True
    return form


@loss_form.register
def _divergence_to(loss: losses.KLTo, names: Names) -> LossForm:
    return _divergence_from("r", "the reference", loss, names)


def _divergence_from(letter: str, meaning: str, loss: Any, names: Names) -> LossForm:
    reference = names.base(letter)
    return LossForm(
        term=X * sp.log(X / reference[V]),
        meanings={reference.name: meaning},
        # Negative estimates count as 0, as they do in the loss.
        numbers=lambda estimate: {reference.name: np.maximum(loss.target(estimate), 0.0)},
        response=lambda price: reference[V] * sp.exp(-1 - price),
        price=lambda held, size, total: sp.log(held / total) - 1,
        reference=reference,
        logarithmic=True,
    )


@loss_form.register
def _entropy(loss: losses.Entropy, names: Names) -> LossForm:
    # The divergence from ones, without their symbol.
    return LossForm(
        term=X * sp.log(X),
        meanings={},
        numbers=lambda _: {},
        response=lambda price: sp.exp(-1 - price),
        price=lambda held, size, total: sp.log(size / total) - 1,
        logarithmic=True,
    )


@loss_form.register
def _absolute(loss: losses.LeastAbsolute, names: Names) -> LossForm:
    return _deviations_from("f̃", "the estimate", loss, None, names)


@loss_form.register
def _absolute_to(loss: losses.L1To, names: Names) -> LossForm:
    return _deviations_from("r", "the reference", loss, loss.weights, names)


def _deviations_from(
    letter: str, meaning: str, loss: losses.LeastAbsolute, weights: Array | None, names: Names
) -> LossForm:
    place = names.base(letter)
    sign = names.base("s")
    meanings = {place.name: meaning, sign.name: f"a slope of |f_v - {place.name}_v|"}
    numbers: dict[str, Array] = {}
    kink = Kink(1.0, place[V], sign[V])
    if weights is not None:
        weight = names.base("w")
        meanings[weight.name] = "the weights"
        numbers[weight.name] = weights
        kink = kink._replace(weight=weight[V])
    return LossForm(
        # All of it is a kink: nothing is left to differentiate.
        term=sp.Integer(0),
        meanings=meanings,
        numbers=lambda estimate: {place.name: loss.target(estimate), **numbers},
        kinks=[kink],
    )


@loss_form.register
def _huber(loss: losses.Huber, names: Names) -> LossForm:
    target = names.base("f̃")
    size = sp.Abs(X - target[V])
    # ½ r² inside δ and δ |r| - ½ δ² outside: the slope is r, cut to -δ … δ.
    inner = sp.Min(size, number(loss.delta))
    cut = sp.Max(sp.Min(F[V] - target[V], number(loss.delta)), -number(loss.delta))
    return LossForm(
        term=inner * (size - inner / 2),
        meanings={target.name: "the estimate"},
        numbers=lambda estimate: {target.name: estimate.frequencies},
        derivative=cut,
    )


@loss_form.register
def _sum(loss: losses.WeightedSum, names: Names) -> LossForm:
    parts = [(weight, loss_form(term, names)) for weight, term in loss.parts]
    if len(parts) == 1:
        return _scaled(*parts[0])
    references = [form.reference for _, form in parts if form.reference is not None]
    # Two references would have two sets of zeros.
    if len(references) > 1:
        raise UnsupportedProblemError(
            f"{loss!r}: conditions are written of sums with at most one divergence from a "
            "reference; solution.duals has the multipliers"
        )
    meanings: dict[str, str] = {}
    kinks: list[Kink] = []
    terms = []
    slopes = []
    for weight, form in parts:
        meanings |= form.meanings
        kinks += [kink.scaled(weight) for kink in form.kinks]
        terms.append(number(weight) * form.term)
        slopes.append(number(weight) * form.smooth_slope())
    return LossForm(
        term=sp.Add(*terms),
        meanings=meanings,
        numbers=lambda estimate: _joined([form.numbers(estimate) for _, form in parts]),
        reference=references[0] if references else None,
        kinks=kinks,
        logarithmic=any(form.logarithmic for _, form in parts),
        derivative=sp.Add(*slopes),
    )


def _scaled(weight: float, form: LossForm) -> LossForm:
    """Return one loss with a factor in front, which multiplies its prices."""
    response = form.response
    price = form.price
    factor = number(weight)
    return replace(
        form,
        term=factor * form.term,
        response=None if response is None else lambda price: response(price / factor),
        price=None if price is None else lambda *sums: factor * price(*sums),
        kinks=[kink.scaled(weight) for kink in form.kinks],
        derivative=factor * form.smooth_slope(),
    )


def _joined(parts: list[dict[str, Array]]) -> dict[str, Array]:
    joined: dict[str, Array] = {}
    for part in parts:
        # Names are distinct, so that no part overwrites another.
        joined |= part
    return joined


def kink_conditions(form: LossForm, of: str) -> list[Condition]:
    """Return that slopes at kinks are between -1 and 1, and signs elsewhere."""
    conditions = []
    for kink in form.kinks:
        distance = F[V] - kink.place
        slope = equation(kink.sign * distance, sp.Abs(distance))
        conditions += [
            Condition("dual feasibility", at_most(sp.Abs(kink.sign), 1), ALL_VALUES, of),
            Condition("complementarity", slope, ALL_VALUES, of),
        ]
    return conditions


def nonnegative_conditions(form: LossForm, of: str) -> list[Condition]:
    """Return what a divergence asks of its values: none is negative, some are 0."""
    if not form.logarithmic:
        return []
    positive = Condition("primal feasibility", at_least(F[V]), ALL_VALUES, of)
    if form.reference is None:
        return [positive]
    letter = form.reference.name
    zeros = Everywhere(
        V,
        f"where {letter}_v ≤ 0",
        rf"\text{{where }} {LATEX.get(letter, letter)}_v \le 0",
        lambda _, numbers: np.flatnonzero(numbers[letter] <= 0),
    )
    return [positive, Condition("primal feasibility", equation(F[V]), zeros, of)]


def subgradients(
    form: LossForm, numbers: Mapping[str, Array], rest: Array, f: Array
) -> dict[str, Array]:
    """Return the slopes of the kinks that explain the rest of the gradient best.

    ``numbers`` holds the places, ``rest`` is what all other terms add to the gradient.
    """
    weighted = []
    for kink in form.kinks:
        steepest = np.full(f.shape, kink.size)
        if kink.weight != 1:
            steepest = steepest * numbers[kink.weight.base.name]
        place = np.asarray(numbers[kink.place.base.name])
        weighted.append((kink.sign.base.name, steepest, Kinks(place, -steepest, steepest)))
    # Beside its kink a function has one slope, and only at kinks is there a choice, from 0 on.
    chosen = [kinks.subgradient(f, np.zeros(f.shape)) for _, _, kinks in weighted]
    # Stationarity: the slopes of the kinks are to cancel all other terms.
    target = -rest - sum(chosen)
    slopes: dict[str, Array] = {}
    for (name, steepest, kinks), first in zip(weighted, chosen, strict=True):
        slope = kinks.subgradient(f, target)
        slopes[name] = slope / steepest
        target = target - (slope - first)
    return slopes

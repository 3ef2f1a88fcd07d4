"""Where terms of a sum are least at a price on each value: kinks, and terms that merge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Distance from a kink that counts as none: solvers leave up to this much.
_AT_KINK = 1e-7


class Kinks(NamedTuple):
    """Kinks of a loss whose slope in each value is one number below and another above its kink.

    All arrays have shape (..., d).
    """

    place: Array
    below: Array
    above: Array

    def subgradient(self, f: Array, target: Array) -> Array:
        """Return the subgradient at f that is nearest to ``target``, each of shape (..., d)."""
        # Solvers stop near a kink, where the slope on one side would be far from the target.
        step = f - self.place
        slope = np.where(step < 0, self.below, self.above)
        nearest = np.clip(target, self.below, self.above)
        return np.where(np.abs(step) <= _AT_KINK, nearest, slope)


def single_response(price: Array, parts: Sequence[Any]) -> Array:
    """Return the response of one weighted loss, given with its arrays and constants."""
    ((weight, term, arrays, numbers),) = parts
    response: Array = term.response(price / weight, arrays, numbers)
    return response


def merged_response(price: Array, parts: Sequence[Any]) -> Array:
    """Return the response of squares and divergences together.

    They are ½ w (f - c)² + e f log(f/r) but for constants, whose slope is -μ at
    f = (e/w) ω(w c/e - μ/e - 1 + log r - log(e/w)) with ω(x) + log ω(x) = x, Wright's function.
    """
    from scipy.special import wrightomega

    steepness: Any = 0.0
    moment: Any = 0.0
    share: Any = 0.0
    logarithm: Any = 0.0
    for weight, term, arrays, _ in parts:
        if term.is_square:
            bend = weight * term.square_weights
            steepness = steepness + bend
            moment = moment + bend * arrays[0]
        else:
            reference, log_mass = arrays
            share = share + weight
            with np.errstate(divide="ignore"):
                logarithm = logarithm + weight * (np.log(reference) + log_mass)
    # Squares alone are linear, divergences alone an exponential: Wright's function is of both.
    if not np.any(share):
        return np.asarray((moment - price) / steepness)
    if not np.any(steepness):
        with np.errstate(over="ignore", under="ignore"):
            return np.asarray(np.exp((logarithm - price) / share - 1))
    ratio = share / steepness
    with np.errstate(under="ignore"):
        level = (moment - price + logarithm) / share - 1 - np.log(ratio)
        return np.asarray(ratio * wrightomega(level))


def response_with_kinks(
    response: Callable[[Array], Array], mu: Array, kinks: Sequence[Kinks]
) -> Array:
    """Return the minimiser of a convex function of each value plus kinks plus μ f.

    Parameters
    ----------
    response
        From prices to the minimisers without the kinks, which do not increase.
    mu
        The price, of a shape that broadcasts with the kinks.
    kinks
        The kinks, in any order.
    """
    if not kinks:
        return response(mu)
    *others, (place, below, above) = kinks
    # Below the kink the slope there is paid beside μ, above it the other.
    left = response_with_kinks(response, mu + below, others)
    right = response_with_kinks(response, mu + above, others)
    return np.clip(place, right, left)

"""Local hashing: a public hash to g buckets for every user, randomised response on the bucket."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ldpopt import validate
from ldpopt.errors import InvalidInputError
from ldpopt.oracles import randomness
from ldpopt.oracles.base import (
    IDEAL_HASH,
    Counts,
    FrequencyOracle,
    budget,
    simulate_independent,
)
from ldpopt.oracles.forms import HashForm, Reports
from ldpopt.oracles.grr import respond
from ldpopt.oracles.rational import exp_below, word_below

_LARGEST_G = 2**31  # buckets are computed from 32 bits of the hash


class LocalHashing(FrequencyOracle):
    """Local hashing with g buckets: p = e^ε/(e^ε+g-1), q = 1/g.

    A report is a record of a 64-bit ``seed``, which selects the user's hash function, and the
    randomised ``bucket``. It supports every value that the hash sends to the bucket. The server
    evaluates n·d hashes in a compiled kernel on all cores, at about a nanosecond per hash. p is the
    largest multiple of 2⁻⁶⁴ for which p (g-1)/(1-p) <= e^ε: privacy rests on p alone, whatever the
    hash functions. An ideal family supports other values with q = 1/g; for this one q differs from
    that by at most 2⁻³², and the tests detect no other deviation.
    """

    simulation = IDEAL_HASH
    exchangeable = True

    def __init__(
        self,
        epsilon: float,
        d: int,
        g: int,
    ) -> None:
        epsilon = budget(epsilon)
        self.g = validate.integer("g (the number of buckets)", g, minimum=2)
        if self.g > _LARGEST_G:
            raise InvalidInputError(
                f"g = {g} buckets are more than {_LARGEST_G}: use a smaller epsilon"
            )
        # Rounded down here and in p: rounding never costs privacy.
        ratio = exp_below(epsilon)
        p = word_below(ratio / (ratio + self.g - 1))
        super().__init__(epsilon, d, p=p, q=Fraction(1, self.g), both=p / self.g)

    @property
    def report_form(self) -> HashForm:
        """A seed and a bucket."""
        return HashForm(self.d, g=self.g)

    @property
    def pair_support(self) -> tuple[float, float]:
        """Under an ideal hash, buckets are independent: pq and q²."""
        return self.p * self.q, self.q**2

    def _perturb(self, values: NDArray[np.int64], rng: randomness.Rng) -> Reports:
        # The seed is drawn before the value is looked at, so that it says nothing about the value.
        form = self.report_form
        seeds = randomness.words(rng, len(values))
        buckets = form.buckets(seeds, values)
        randomised = respond(buckets, self.g, self.exact_p, rng)
        return form.records(seeds, randomised)

    def _simulate(
        self,
        true_counts: Counts,
        rng: np.random.Generator,
        trials: int,
    ) -> Counts:
        return simulate_independent(true_counts, self.p, self.q, rng, trials)


class OLH(LocalHashing):
    """Optimised local hashing (Wang et al. 2017; N III-B) with g near e^ε + 1, at least 2.

    Parameters
    ----------
    epsilon, d
        Privacy budget and domain size.
    rounding
        ``"nearest"`` integer to e^ε + 1 (N) or its ``"floor"`` (D).

    Examples
    --------
    >>> OLH(epsilon=1.0, d=1024).g, OLH(epsilon=1.0, d=1024, rounding="floor").g
    (4, 3)
    """

    name = "olh"

    def __init__(
        self,
        epsilon: float,
        d: int,
        *,
        rounding: Literal["nearest", "floor"] = "nearest",
    ) -> None:
        offsets = {"nearest": Fraction(1, 2), "floor": Fraction(0)}
        offset = validate.lookup("rounding", rounding, offsets)
        # In fractions, so that client and server have the same g whatever their machines are.
        target = exp_below(budget(epsilon)) + 1
        super().__init__(epsilon, d, g=max(2, math.floor(target + offset)))

    @property
    def options(self) -> dict[str, str]:
        """The rounding; "nearest" where both give the same g and so the same reports."""
        nearest = OLH(self.epsilon, self.d).g
        return {"rounding": "nearest" if self.g == nearest else "floor"}


class BLH(LocalHashing):
    """Binary local hashing: g = 2, also known as random matrix projection (Bassily and Smith 2015).

    Examples
    --------
    >>> BLH(epsilon=1.0, d=1024).q
    0.5
    """

    name = "blh"

    def __init__(self, epsilon: float, d: int) -> None:
        super().__init__(epsilon, d, g=2)

"""Subset selection: a k-subset of the domain that likely contains the user's value."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ldpopt import validate
from ldpopt.oracles import randomness
from ldpopt.oracles.base import Counts, FrequencyOracle, budget
from ldpopt.oracles.forms import Reports, SubsetForm
from ldpopt.oracles.rational import exp_below, word_below

Values = NDArray[np.int64]
Flags = NDArray[np.bool_]

# Membership flags (users x values) held at a time.
_CELLS = 1 << 21


Rounding = Literal["best", "nearest"]
"""How the size of the sets is chosen."""


class SubsetSelection(FrequencyOracle):
    """Subset selection (Ye and Barg 2018, Wang et al. 2016) with k near d/(e^ε+1), at least 1.

    p = k e^ε/(k e^ε + d - k), q = p (k-1)/(d-1) + (1-p) k/(d-1), with the largest multiple
    p of 2⁻⁶⁴ for which p (d-k)/((1-p) k) <= e^ε. A report is the k chosen values in ascending
    order, so that their order reveals nothing.

    Parameters
    ----------
    epsilon, d
        Privacy budget and domain size.
    rounding
        ``"best"`` for the k with the smallest expected squared error over the domain, which is the
        same for all populations; ``"nearest"`` for the integer nearest to d/(e^ε+1) (N III-C, D
        2.4). They differ where that is between sqrt(k(k+1)), about, and k + 1/2: the nearest then
        has up to 2 % more error.

    Examples
    --------
    >>> oracle = SubsetSelection(epsilon=1.0, d=10)
    >>> oracle.k, oracle.perturb([2, 7], rng=0).shape
    (3, (2, 3))
    >>> SubsetSelection(1.9, 11).k, SubsetSelection(1.9, 11, rounding="nearest").k
    (2, 1)
    """

    name = "ss"
    exchangeable = True

    def __init__(self, epsilon: float, d: int, *, rounding: Rounding = "best") -> None:
        epsilon = budget(epsilon)
        d = validate.integer("d (the number of values)", d, minimum=2)
        choose = validate.lookup("rounding", rounding, _SIZES)
        # Rounded down here and in p: rounding never costs privacy.
        ratio = exp_below(epsilon)
        k = choose(ratio, d)
        p = word_below(k * ratio / (k * ratio + d - k))
        # Another value is one of the k-1 others beside the own one, or one of k without it.
        beside = p * Fraction(k - 1, d - 1)
        without = (1 - p) * Fraction(k, d - 1)
        self.k = k
        super().__init__(epsilon, d, p=p, q=beside + without, both=beside)

    @property
    def options(self) -> dict[str, str]:
        """The rounding; "best" where both give the same k and so the same reports."""
        best = _best_size(exp_below(self.epsilon), self.d)
        return {"rounding": "best" if self.k == best else "nearest"}

    @property
    def report_form(self) -> SubsetForm:
        """The k chosen values."""
        return SubsetForm(self.d, k=self.k)

    @property
    def pair_support(self) -> tuple[float, float]:
        """The other values are uniform: k-1 of them beside the own value, or k without it."""
        k = self.k
        others = self.d - 1
        with_own = self.p * (k - 1) / others
        pairs = max(others * (others - 1), 1)  # d = 2 has no pair without the own value
        beside = self.p * (k - 1) * (k - 2)
        without = (1 - self.p) * k * (k - 1)
        without_own = (beside + without) / pairs
        return with_own, without_own

    def _perturb(self, values: Values, rng: randomness.Rng) -> Reports:
        reports = np.empty((len(values), self.k), dtype=self.report_form.dtype)
        for block in self._blocks(len(values)):
            members = self._memberships(values[block], rng)
            # Row-major positions list each row's members in ascending order.
            positions = np.flatnonzero(members).reshape(-1, self.k)
            row_starts = self.d * np.arange(len(members))
            reports[block] = positions - row_starts[:, None]
        return reports

    def _blocks(self, n: int) -> list[slice]:
        step = max(1, _CELLS // self.d)
        return [slice(start, start + step) for start in range(0, n, step)]

    def _memberships(self, values: Values, rng: randomness.Rng) -> Flags:
        """Return which values each user's report holds, as a boolean (n, d) array.

        However the number of other values that come first is chosen, a report is right as long as
        all sets of that many are equally likely: independent bits bring most of them at once,
        uniform proposals the missing ones.
        """
        rows = np.arange(len(values))
        kept = randomness.bernoulli(rng, self.exact_p, len(values))
        wanted = self.k - kept
        members, missing = self._most_members(values, wanted, rng)
        members[rows, values] = True  # occupied: proposals never take it
        flags = members.reshape(-1)
        # Uniform proposals; one that falls on a chosen value, or on the own one, is repeated.
        active = np.flatnonzero(missing)
        while active.size:
            value = randomness.below(rng, self.d, active.size)
            proposal = active * self.d + value
            missing[active] -= ~flags[proposal]
            flags[proposal] = True
            active = active[missing[active] > 0]
        members[rows, values] = kept
        return members

    def _most_members(
        self,
        values: Values,
        wanted: Values,
        rng: randomness.Rng,
    ) -> tuple[Flags, Values]:
        """Return flags of at most ``wanted`` other values per row, and how many are missing."""
        coin = self._member_coin()
        if coin <= 0:
            return np.zeros((len(values), self.d), dtype=np.bool_), wanted
        members = self._draw_flags(values, coin, rng)
        missing = wanted - np.count_nonzero(members, axis=1)
        # Rejection: a row with too many members is drawn anew as a whole, which leaves the law of
        # those that are kept exact.
        excess = np.flatnonzero(missing < 0)
        while excess.size:
            drawn_again = self._draw_flags(values[excess], coin, rng)
            members[excess] = drawn_again
            missing[excess] = wanted[excess] - np.count_nonzero(drawn_again, axis=1)
            excess = excess[missing[excess] < 0]
        return members, missing

    def _member_coin(self) -> Fraction:
        """Return the probability with which flags are drawn, or 0 or less if none are to be drawn.

        Any probability is right: all sets of the same size stay equally likely.
        """
        share = self.k / self.d
        # Two standard deviations less: one row in forty has too many and is drawn again.
        deviation = math.sqrt(share * (1 - share) / self.d)
        share -= 2 * deviation
        return word_below(Fraction(share))

    def _draw_flags(
        self,
        values: Values,
        coin: Fraction,
        rng: randomness.Rng,
    ) -> Flags:
        """Return independent flags of all values, one row per user, the own value's not set."""
        packed = randomness.packed_bernoulli(rng, coin, len(values), self.d)
        flags = np.unpackbits(packed, axis=1, count=self.d).view(np.bool_)
        flags[np.arange(len(values)), values] = False
        return flags

    def _draw_counts(self, values: Values, rng: np.random.Generator) -> Counts:
        counts = np.zeros(self.d, dtype=np.int64)
        for block in self._blocks(len(values)):
            # Counting membership flags needs no index sets.
            counts += np.count_nonzero(self._memberships(values[block], rng), axis=0)
        return counts


def _nearest_size(ratio: Fraction, d: int) -> int:
    """Return the integer nearest to d/(e^ε + 1), at least 1."""
    return max(1, round(d / (ratio + 1)))


def _best_size(ratio: Fraction, d: int) -> int:
    """Return the size k from 1 to d - 1 with the smallest expected squared error over the domain.

    With u = k/(d-k) the error is proportional to e^2ε u + 2e^ε + 1/u (Ye and Barg 2018): smallest
    at u = e^-ε, and the same at u and e^-2ε/u. So of k and k + 1 the smaller one is at least as
    good where the product of their u is at least e^-2ε.
    """
    # In fractions, so that client and server have the same k whatever their machines are.
    below = max(1, math.floor(d / (ratio + 1)))
    above = below + 1
    if above == d:
        return below
    inside = below * above * ratio**2
    outside = (d - below) * (d - above)
    return below if inside >= outside else above


_SIZES: dict[str, Callable[[Fraction, int], int]] = {
    "best": _best_size,
    "nearest": _nearest_size,
}

"""Planted errors in the oracles: wrong probabilities, wrong clients, wrong servers."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt.claims.planted.error import planted, replace_attribute, replace_function
from ldpopt.estimate import FrequencyEstimate
from ldpopt.estimate.noise import Noise
from ldpopt.oracles import (
    GRR,
    OLH,
    OUE,
    HadamardResponse,
    SubsetSelection,
    grr,
    hash_kernel,
    randomness,
    subset,
    unary,
)
from ldpopt.oracles.base import FrequencyOracle
from ldpopt.oracles.forms import HashForm
from ldpopt.oracles.hadamard import HadamardForm, walsh_hadamard
from ldpopt.oracles.rational import exp_below, word_below
from ldpopt.protocol import PureProtocol

Array = NDArray[np.float64]
Values = NDArray[np.int64]
Probabilities = tuple[Fraction, Fraction, Fraction]

_ORACLE = "oracle"
_PRIVACY = "privacy"


def _change_probabilities(
    kind: type[FrequencyOracle],
    change: Callable[[Any, float, int, Fraction, Fraction, Fraction], Probabilities],
) -> None:
    """Change (p, q, both) of every oracle of a kind while it is built."""
    right = FrequencyOracle.__init__

    def wrong(
        self: Any, epsilon: float, d: int, *, p: Fraction, q: Fraction, both: Fraction
    ) -> None:
        if isinstance(self, kind):
            p, q, both = change(self, epsilon, d, p, q, both)
        right(self, epsilon, d, p=p, q=q, both=both)

    replace_attribute(FrequencyOracle, "__init__", wrong)


def _change_draws(module: Any, name: str, draw: Callable[..., Any]) -> None:
    """Replace one way to draw at random, in one module alone."""
    replace_attribute(module, "randomness", SimpleNamespace(**{**vars(randomness), name: draw}))


# --- probabilities --------------------------------------------------------------------------------


@planted("olh-p", _ORACLE, "OLH: p as printed, with e^ε - 1", "olh-p", "pure-private")
def olh_p() -> None:
    """Compute p from e^ε - 1."""

    def change(self: OLH, epsilon: float, d: int, *_: Fraction) -> Probabilities:
        # Through the same rational bounds: only the formula is wrong.
        ratio = exp_below(epsilon)
        p = word_below((ratio - 1) / (ratio + self.g - 1))
        return p, Fraction(1, self.g), p / self.g

    _change_probabilities(OLH, change)


@planted("olh-g", _ORACLE, "OLH: g is the floor of e^ε + 1, not the nearest", "olh-best-g")
def olh_g() -> None:
    """Round down whatever rounding is stated."""
    right = OLH.__init__

    # By the constructor: the server has the same wrong g, as both sides read the same code.
    def wrong(self: OLH, epsilon: float, d: int, *, rounding: str = "nearest") -> None:
        right(self, epsilon, d, rounding="floor")

    # In the class, so that instances which are built later have it too.
    replace_attribute(OLH, "__init__", wrong)


@planted("ss-q", _ORACLE, "subset selection: q = k/d", "pure-private")
def ss_q() -> None:
    """Take a report for a random subset."""

    def change(
        self: SubsetSelection, epsilon: float, d: int, p: Fraction, q: Fraction, both: Fraction
    ) -> Probabilities:
        # As if the user's value were like any other.
        return p, Fraction(self.k, d), both

    _change_probabilities(SubsetSelection, change)


def _enlarge_subsets(largest: Callable[[int], int]) -> None:
    """Let every subset hold one value more, up to a number."""

    def change(self: SubsetSelection, epsilon: float, d: int, *_: Fraction) -> Probabilities:
        # Whatever rule has chosen k: one more than that.
        k = min(largest(d), self.k + 1)
        self.k = k
        ratio = exp_below(epsilon)
        p = word_below(k * ratio / (k * ratio + d - k))
        both = p * Fraction(k - 1, d - 1)
        return p, both + (1 - p) * Fraction(k, d - 1), both

    _change_probabilities(SubsetSelection, change)


@planted("ss-k", _ORACLE, "subset selection: k too large by 1", "ss-variance")
def ss_k() -> None:
    """Add a value to every subset, which leaves none out where d = 2."""
    _enlarge_subsets(lambda d: d)


@planted("ss-k-below-d", _ORACLE, "subset selection: k too large by 1, but below d", "ss-variance")
def ss_k_below_d() -> None:
    """Add a value to every subset where there is room for it."""
    _enlarge_subsets(lambda d: d - 1)


@planted("oue-q", _ORACLE, "OUE: q 1 % too large", "variance-closed-forms")
def oue_q() -> None:
    """Add more noise than needed."""

    def change(
        self: OUE, epsilon: float, d: int, p: Fraction, q: Fraction, both: Fraction
    ) -> Probabilities:
        # A multiple of 2⁻⁶⁴, as coins need it.
        q = word_below(q * Fraction(101, 100))
        return p, q, p * q

    _change_probabilities(OUE, change)


@planted("grr-no-answer", _ORACLE, "GRR: p and q both 10 % too small", "pure-private")
def grr_no_answer() -> None:
    """Keep the ratio of p and q, but let them not add up to 1."""

    def change(
        self: GRR, epsilon: float, d: int, p: Fraction, q: Fraction, both: Fraction
    ) -> Probabilities:
        # The ratio stays, and with it the privacy: only the probabilities do not add up.
        share = Fraction(9, 10)
        return word_below(p * share), q * share, both

    _change_probabilities(GRR, change)


# --- clients --------------------------------------------------------------------------------------


@planted("grr-true-value", _PRIVACY, "GRR's client sends the true value", "pure-private")
def grr_true_value() -> None:
    """Send the value itself."""

    def wrong(self: GRR, values: Values, rng: randomness.Rng) -> Any:
        return values.astype(self.report_form.dtype)

    replace_attribute(GRR, "_perturb", wrong)


@planted(
    "response-true-value",
    _PRIVACY,
    "randomised response, of GRR and local hashing, keeps the value always",
    "pure-private",
)
def response_true_value() -> None:
    """Send the value, or the bucket, itself."""
    replace_function(grr.respond, lambda values, *_: values)


@planted("unary-no-noise", _PRIVACY, "unary encoding: bits 0 are never flipped", "pure-private")
def unary_no_noise() -> None:
    """Draw no bit of another value."""

    def wrong(rng: randomness.Rng, probability: Fraction, n: int, d: int) -> NDArray[np.uint8]:
        # Packed bits of all zeros, of the right shape.
        return np.zeros((n, -(-d // 8)), dtype=np.uint8)

    _change_draws(unary, "packed_bernoulli", wrong)


@planted("ss-own-always", _PRIVACY, "subset selection: the own value is always in", "pure-private")
def ss_own_always() -> None:
    """Put the user's value into every subset."""
    # The coin that decides about the user's own value always shows heads.
    _change_draws(subset, "bernoulli", lambda _rng, _p, size: np.ones(size, dtype=bool))


@planted("sue-kept-with-q", _ORACLE, "SUE's client keeps bit 1 with q", "pure-private")
def sue_kept_with_q() -> None:
    """Keep the own bit with probability 1 - p, which is SUE's q."""

    def wrong(rng: randomness.Rng, probability: Fraction, size: int) -> NDArray[np.bool_]:
        # OUE's p is 1/2 and stays.
        return randomness.bernoulli(rng, min(probability, 1 - probability), size)

    _change_draws(unary, "bernoulli", wrong)


@planted("one-hash", _ORACLE, "local hashing: all users share one hash function", "pure-private")
def one_hash() -> None:
    """Ignore the seed, on the client's and on the server's side."""
    right_buckets = HashForm.buckets

    def buckets(self: HashForm, seeds: NDArray[np.uint64], values: NDArray[Any]) -> Any:
        return right_buckets(self, np.zeros_like(seeds), values)

    replace_attribute(HashForm, "buckets", buckets)
    for name in ("hashed_support_counts", "hashed_support_bits"):
        replace_attribute(hash_kernel, name, _without_seeds(getattr(hash_kernel, name)))


def _without_seeds(right: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of seeds and more as one that takes all seeds for 0."""

    def wrong(seeds: NDArray[np.uint64], *others: Any) -> Any:
        return right(np.zeros_like(seeds), *others)

    return wrong


@planted("hr-rows", _ORACLE, "Hadamard response: value 0 owns the constant row", "pure-private")
def hr_rows() -> None:
    """Give values the rows 0 .. d-1, on the client's and on the server's side."""
    right = HadamardResponse._perturb

    # The client owns row v + 1 of the value v: of v - 1 that is row v.
    def perturb(self: HadamardResponse, values: Values, rng: randomness.Rng) -> Any:
        return right(self, values - 1, rng)

    def sums(self: HadamardForm, f: Array) -> Array:
        rows = np.zeros((*f.shape[:-1], self.size))
        rows[..., : self.d] = f
        # A column supports (1 + sign)/2 of a value: the constant row carries the 1.
        rows[..., 0] += f.sum(axis=-1)
        return walsh_hadamard(rows) / 2

    def counts(self: HadamardForm, weights: Array) -> Array:
        signs = walsh_hadamard(weights)
        return np.asarray((signs[..., :1] + signs[..., : self.d]) / 2)

    replace_attribute(HadamardResponse, "_perturb", perturb)
    replace_attribute(HadamardForm, "sums", sums)
    replace_attribute(HadamardForm, "counts", counts)


@planted("hr-inverted", _ORACLE, "Hadamard response: the client's answer inverted", "pure-private")
def hr_inverted() -> None:
    """Send a column of the other sign."""
    right = HadamardResponse._perturb

    def wrong(self: HadamardResponse, values: Values, rng: randomness.Rng) -> Any:
        row = values + 1
        reports = right(self, values, rng)
        # The lowest bit that the row has changes the sign.
        return reports ^ (row & -row).astype(reports.dtype)

    replace_attribute(HadamardResponse, "_perturb", wrong)


# --- servers, simulations and the noise of estimates ----------------------------------------------


@planted("grr-simulated", _ORACLE, "GRR's simulated counts: kept with p, not p - q", "unbiased")
def grr_simulated() -> None:
    """Let too many users answer truthfully."""

    def wrong(self: GRR, true_counts: Values, rng: np.random.Generator, trials: int) -> Values:
        # With p instead of p - q: the uniform answers then come on top.
        kept = rng.binomial(true_counts[:, None], self.p, (self.d, trials)).T
        others = true_counts.sum() - kept.sum(axis=1)
        return np.asarray(kept + rng.multinomial(others, np.full(self.d, 1 / self.d)))

    replace_attribute(GRR, "_simulate", wrong)


@planted("estimate-q", _ORACLE, "the estimate takes q too large by 1e-4 of itself", "norm-idle")
def estimate_q() -> None:
    """Subtract a little too much."""
    right = FrequencyEstimate.from_counts

    def wrong(
        cls: type[FrequencyEstimate],
        counts: Any,
        n: int,
        oracle: PureProtocol,
        *,
        labels: Any = None,
    ) -> FrequencyEstimate:
        # The checks of the counts are those of the right function.
        exact = right(counts, n, oracle, labels=labels)
        # So small that single estimates look right: sums over the domain must show it.
        shift = 1e-4 * oracle.q / (oracle.p - oracle.q)
        frequencies = exact.frequencies - shift
        return cls(frequencies, n, oracle, is_raw=True, labels=labels, method="base")

    replace_attribute(FrequencyEstimate, "from_counts", classmethod(wrong))


@planted(
    "variance-without-f", _ORACLE, "the variance leaves out the part of f", "variance-closed-forms"
)
def variance_without_f() -> None:
    """Return the variance at f = 0 for all frequencies."""
    right = PureProtocol.variance

    def wrong(self: PureProtocol, n: int, frequency: Any = 0.0) -> Array:
        # The shape stays, so that nothing fails but the number.
        return right(self, n, np.zeros_like(np.asarray(frequency, dtype=np.float64)))

    replace_attribute(PureProtocol, "variance", wrong)


@planted("kappa-sign", _ORACLE, "κ has the wrong sign", "mle-apx")
def kappa_sign() -> None:
    """Turn the sign of b/a, but not of b."""
    replace_attribute(PureProtocol, "kappa", property(lambda self: -self.b / self.a))


@planted("sigma-scale", _ORACLE, "σ 1 % too small", "false-positives")
def sigma_scale() -> None:
    """Scale the standard deviation, of protocols and of estimates."""
    right = PureProtocol.sd
    right_of_noise: Any = vars(Noise)["sd"]
    replace_attribute(PureProtocol, "sd", lambda self, n: 0.99 * right(self, n))
    replace_attribute(Noise, "sd", property(lambda self: 0.99 * right_of_noise.fget(self)))


@planted("slope-scale", _ORACLE, "b 1 % too large wherever it is used", "variance-closed-forms")
def slope_scale() -> None:
    """Scale the slope of the variance."""
    # SUE states its own b, which is 0 either way.
    right: Any = vars(PureProtocol)["b"]
    replace_attribute(PureProtocol, "b", property(lambda self: 1.01 * right.fget(self)))

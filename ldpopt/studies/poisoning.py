"""Poisoning: what users who break the protocol can do to an estimate, and what can be undone.

The attacks are those of Cao, Jia and Gong (2021). m malicious users beside n genuine ones move the
estimate of value v by m/(n+m) ((s_v - q)/(p - q) - f_v), where s_v is the share of malicious
reports that support v. An attacker who wants certain targets high therefore makes each report
support as many of them as a report can.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.constraints import NonNegative, SumsTo
from ldpopt.errors import InvalidInputError, InvalidTypeError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import LeastSquares
from ldpopt.oracles import FrequencyOracle
from ldpopt.oracles.forms import BitsForm, HashForm, IndexForm, Reports, SubsetForm, draw_sets
from ldpopt.solve.problem import Problem
from ldpopt.solve.solution import Solution

Array = NDArray[np.float64]
Values = NDArray[np.int64]
Seed = np.random.Generator | int | None

_CELLS = 1 << 20  # hashes held at a time
_HASHES = 1000  # hash functions that a malicious user tries (Cao et al. 2021, V-A)


def random_perturbed_value(
    oracle: FrequencyOracle, m: int, targets: ArrayLike, rng: Seed = None
) -> Reports:
    """Return reports drawn uniformly from all that a client can send (RPA).

    The targets are not used; they are an argument because all attacks have the same ones.

    Parameters
    ----------
    oracle
        The protocol that is attacked.
    m
        Number of malicious users, >= 1.
    targets
        Distinct values in 0 .. d-1 that the attacker wants high.
    rng
        Generator or seed; None for fresh entropy.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If m < 1, or the targets are not distinct values of the domain.

    Examples
    --------
    >>> from ldpopt.oracles import GRR
    >>> random_perturbed_value(GRR(epsilon=1.0, d=4), 5, [0], rng=1).shape
    (5,)
    """
    m, _, generator = _checked(oracle, m, targets, rng)
    return oracle.report_form.uniform(m, generator)


def random_item(oracle: FrequencyOracle, m: int, targets: ArrayLike, rng: Seed = None) -> Reports:
    """Return honest reports of malicious users who each claim a random target as their value (RIA).

    Nothing distinguishes these users from genuine ones who have the targets. Arguments and errors
    as ``random_perturbed_value``.

    Examples
    --------
    >>> from ldpopt.oracles import GRR
    >>> random_item(GRR(epsilon=20.0, d=4), 5, [2], rng=1)
    array([2, 2, 2, 2, 2], dtype=uint8)
    """
    m, chosen, generator = _checked(oracle, m, targets, rng)
    return oracle.perturb(generator.choice(chosen, m), rng=generator)


def maximal_gain(oracle: FrequencyOracle, m: int, targets: ArrayLike, rng: Seed = None) -> Reports:
    """Return reports that each support as many targets as one report can (MGA).

    Reports look honest where that costs nothing.

    - An index (GRR, Hadamard response): a uniform one of those that support most targets. The index
      0 of Hadamard response supports all values, so that all targets are supported.
    - Bits (unary encoding): all targets, and others at random up to the mean number of bits of
      honest reports.
    - A hash (local hashing): of 1,000 random hash functions the one that sends most targets to one
      bucket.
    - A subset: all targets, or k of them at random, and others at random.

    Arguments and errors as ``random_perturbed_value``. Cost: d random numbers per report with bits
    and subsets, 1,000 hashes per report and target with local hashing.

    Examples
    --------
    >>> from ldpopt.oracles import OUE
    >>> oracle = OUE(epsilon=1.0, d=8)
    >>> oracle.support_counts(maximal_gain(oracle, 10, [0, 5], rng=1))[[0, 5]]
    array([10, 10])
    """
    m, chosen, generator = _checked(oracle, m, targets, rng)
    form = oracle.report_form
    # An oracle brings its form along, so that a new one needs no attack of its own.
    craft = validate.lookup("kind of reports", form.kind, _CRAFTED)
    return craft(form, oracle, chosen, m, generator)


ATTACKS: Mapping[str, Callable[[FrequencyOracle, int, ArrayLike, Seed], Reports]] = (
    MappingProxyType({"rpa": random_perturbed_value, "ria": random_item, "mga": maximal_gain})
)
"""The attacks by their names in Cao et al. (2021)."""


def without_malicious(
    estimate: FrequencyEstimate,
    eta: float,
    *,
    targets: ArrayLike | None = None,
    supported: float = 1.0,
) -> FrequencyEstimate:
    """Return (1+η) f̃ - η f̃_malicious: the estimate without presumed malicious reports.

    If malicious reports support ``supported`` values in the mean, their estimates sum to (supported
    - q d)/(p - q). Without known targets this mass is spread over the values with positive
    estimates, and others get none (LDPRecover). With known targets, reports are presumed to support
    nothing else: each of r targets gets (supported/r - q)/(p - q), others -q/(p - q) (LDPRecover*).

    Parameters
    ----------
    estimate
        The raw estimate of all reports, with n and the oracle.
    eta
        Malicious users per genuine one, >= 0: an assumption of the aggregator.
    targets
        Distinct values that are known to be attacked.
    supported
        1 is the paper's number, and that of GRR. Honest reports of unary encoding support p + (d-1)
        q values; with that the mass is 1.

    Returns
    -------
    FrequencyEstimate of the same shape; the method is named ``without-malicious``.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If eta is negative, supported not in 0 .. d (or r), targets are not distinct values, no
        estimate of a trial is positive, or n or the oracle is unknown.

    Examples
    --------
    >>> from ldpopt.oracles import GRR
    >>> poisoned = FrequencyEstimate([0.6, 0.3, 0.1], n=1000, oracle=GRR(epsilon=1.0, d=3))
    >>> without_malicious(poisoned, 0.1, targets=[2]).frequencies.round(3)
    array([ 0.718,  0.388, -0.106])
    """
    if not isinstance(estimate, FrequencyEstimate):
        raise InvalidTypeError(
            f"estimate must be a FrequencyEstimate with n and oracle, got {type(estimate).__name__}"
        )
    oracle = estimate.noise.require_protocol()
    validate.real("eta (malicious users per genuine one)", eta, minimum=0)
    if targets is None:
        # Values with a negative estimate can hardly have been attacked: an attack lifts them.
        presumed = estimate.frequencies > 0
        largest = oracle.d
    else:
        presumed = _indicator(_targets(targets, oracle.d), oracle.d)
        largest = int(presumed.sum())
    validate.real("supported (values that a malicious report supports)", supported)
    if not 0 <= supported <= largest:
        raise InvalidInputError(f"supported must lie in 0 .. {largest}, got {supported!r}")
    counts = presumed.sum(axis=-1, keepdims=True)
    if not counts.all():
        raise InvalidInputError(
            f"no estimate{_trial_of(counts)} is positive: there is nothing that could be recovered"
        )
    gap = oracle.p - oracle.q
    if targets is None:
        # LDPRecover: the mass of the malicious estimates, in equal parts.
        mass = (supported - oracle.q * oracle.d) / gap
        malicious = presumed * (mass / counts)
    else:
        # LDPRecover*: the estimate of reports that support targets alone.
        share = supported / counts
        malicious = (presumed * share - oracle.q) / gap
    genuine = (1 + eta) * estimate.frequencies - eta * malicious
    return FrequencyEstimate(
        genuine,
        noise=estimate.noise,
        is_raw=False,  # the malicious reports are taken out of the frequencies, not of the counts
        labels=estimate.labels,
        method="without-malicious",
    )


def ldp_recover(
    estimate: FrequencyEstimate,
    eta: float,
    *,
    targets: ArrayLike | None = None,
    supported: float = 1.0,
    problem: Problem | None = None,
) -> Solution:
    """Return the consistent frequencies nearest to ``without_malicious``.

    This is LDPRecover (Sun et al. 2024). The projection is constrained least squares, so Norm-Sub
    solves it, and it ignores what is added to all values alike: malicious mass spread over all of
    them would change nothing but the scale 1+η. Mass spread over the positive values mostly
    changes nothing either. Let (1+η) f̃ have a positive part of at least 1. Then Norm-Sub keeps
    only values above some θ >= 0, all of them positive and shifted alike, and no other value joins
    them while the shift η mass/(number of positive) is at most θ: where the mass is negative, and
    always where estimates sum to 1 and the mass is at most 1 (GRR, subset selection). There
    LDPRecover without targets *is* Norm-Sub of (1+η) f̃: what recovers is the knowledge of the
    targets.

    Parameters
    ----------
    estimate, eta, targets, supported
        As in ``without_malicious``.
    problem
        Loss and constraints instead of least squares on the simplex, to state what else is known.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        As ``without_malicious`` and ``Problem.solve``.

    Examples
    --------
    >>> from ldpopt.oracles import GRR
    >>> poisoned = FrequencyEstimate([0.6, 0.3, 0.1], n=1000, oracle=GRR(epsilon=1.0, d=3))
    >>> solution = ldp_recover(poisoned, 0.1, targets=[2])
    >>> solution.frequencies.round(3), solution.solver
    (array([0.665, 0.335, 0.   ]), 'norm-sub')
    """
    genuine = without_malicious(estimate, eta, targets=targets, supported=supported)
    if problem is None:
        problem = Problem(LeastSquares(), [NonNegative(), SumsTo(1.0)])
    return problem.solve(genuine)


def _checked(
    oracle: FrequencyOracle, m: int, targets: ArrayLike, rng: Seed
) -> tuple[int, Values, np.random.Generator]:
    if not isinstance(oracle, FrequencyOracle):
        raise InvalidTypeError(f"oracle must be one from ldpopt.oracles, got {oracle!r}")
    m = validate.integer("m (the number of malicious users)", m, minimum=1)
    return m, _targets(targets, oracle.d), validate.generator(rng)


def _targets(targets: ArrayLike, d: int) -> Values:
    values = validate.whole_numbers("targets", targets, low=0, high=d - 1)
    if values.ndim != 1 or not values.size or np.unique(values).size != values.size:
        raise InvalidInputError(f"targets must be a list of distinct values, got {targets!r}")
    return values


def _indicator(values: Values, d: int) -> NDArray[np.bool_]:
    flags = np.zeros(d, dtype=np.bool_)
    flags[values] = True
    return flags


def _trial_of(counts: NDArray[np.int64]) -> str:
    """Return the words that name the first trial without a positive estimate, in a stack."""
    if counts.ndim == 1:
        return ""
    trial = validate.first(counts[..., 0] == 0)
    return f" of trial {', '.join(str(int(i)) for i in trial)}"


# --- reports for targets, by the form of the reports ----------------------------------------------


def _crafted_indices(
    form: IndexForm, _: FrequencyOracle, targets: Values, m: int, rng: np.random.Generator
) -> Reports:
    # How many of the targets each index supports.
    supported = form.sums(_indicator(targets, form.d).astype(np.float64))
    return rng.choice(np.flatnonzero(supported == supported.max()), m)


def _crafted_bits(
    form: BitsForm, oracle: FrequencyOracle, targets: Values, m: int, rng: np.random.Generator
) -> Reports:
    # As many bits as honest reports have in the mean, so that the number gives nobody away.
    honest = int(oracle.p + (form.d - 1) * oracle.q)
    blocks = draw_sets(_indicator(targets, form.d), max(len(targets), honest), m, rng)
    return np.concatenate([np.packbits(rows, axis=1) for rows in blocks])


def _crafted_subsets(
    form: SubsetForm, _: FrequencyOracle, targets: Values, m: int, rng: np.random.Generator
) -> Reports:
    return form.members(*draw_sets(_indicator(targets, form.d), form.k, m, rng))


def _crafted_hashes(
    form: HashForm, _: FrequencyOracle, targets: Values, m: int, rng: np.random.Generator
) -> Reports:
    seeds = np.empty(m, dtype=np.uint64)
    buckets = np.empty(m, dtype=np.int64)
    # Few users at a time: each tries many functions on all targets.
    step = max(1, _CELLS // (_HASHES * len(targets)))
    for start in range(0, m, step):
        size = (min(step, m - start), _HASHES)
        tried = rng.integers(2**64, size=size, dtype=np.uint64)
        hashed = form.buckets(tried[..., None], targets)
        best, which = _fullest_buckets(hashed)
        users = np.arange(len(tried))
        chunk = slice(start, start + step)
        seeds[chunk] = tried[users, best]
        buckets[chunk] = hashed[users, best, which]
    return form.records(seeds, buckets)


def _fullest_buckets(hashed: Values) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return for each user the function under which most targets share a bucket, and one of them.

    ``hashed`` are buckets of shape (users, functions, targets).
    """
    targets = hashed.shape[-1]
    # For each function and target: how many targets share its bucket.
    shared = [(hashed == hashed[..., [i]]).sum(axis=-1) for i in range(targets)]
    together = np.stack(shared, axis=-1)
    # Functions and targets as one axis, of which the quotient is the function.
    places = together.reshape(len(hashed), -1).argmax(axis=1)
    best, which = np.divmod(places, targets)
    return best, which


_CRAFTED: Mapping[str, Callable[..., Reports]] = {
    "index": _crafted_indices,
    "bits": _crafted_bits,
    "hash": _crafted_hashes,
    "subset": _crafted_subsets,
}

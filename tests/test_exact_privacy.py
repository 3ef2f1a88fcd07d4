"""No report is more than e^ε times as likely under one value as under another, exactly."""

import functools
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldpopt.errors import InvalidInputError
from ldpopt.oracles import (
    BLH,
    GRR,
    OLH,
    ORACLES,
    OUE,
    SUE,
    HadamardResponse,
    SubsetSelection,
    randomness,
)
from ldpopt.oracles.rational import exp_below, log_above, word_below

every_oracle = pytest.mark.parametrize("name", list(ORACLES))
LOSS = Fraction(1, 10**9)  # of ε, the price of rounding


def exp_bounds(x, bits=256):
    """Return fractions below and above e^x: the Taylor series of x/2^k, squared k times.

    In whole numbers, all rounded down (or up). Written without ``decimal``, which the library uses:
    e^x >= its Taylor polynomial, and the rest of 60 terms of an argument below 1 is below twice the
    next term.
    """
    halvings = max(0, math.ceil(math.log2(x)) + 8)
    one = 1 << bits
    argument = Fraction(x) / 2**halvings
    low_argument = math.floor(argument * one)
    low = one
    term = one
    for k in range(1, 60):
        term = term * low_argument // (k * one)
        low += term
    high = (
        low + 200
    )  # below 60 cuts of less than 1 each, the argument's, and the rest of the series, far below 1
    for _ in range(halvings):
        low, high = low * low // one, -(-high * high // one)
    return Fraction(low, one), Fraction(high, one)


SPECIAL = list(itertools.product([0.01, 0.5, 1.0, 2.0, 5.0], [2, 3, 1024, 42_178]))
CHOSEN = len(SPECIAL)


def grid(count=3_000):
    """Return pairs (ε, d): both spread evenly over their orders of magnitude, ends included."""
    rng = np.random.default_rng(1)
    epsilons = np.exp(rng.uniform(np.log(1e-3), np.log(12), count))
    sizes = np.round(np.exp(rng.uniform(np.log(2), np.log(10**5), count))).astype(int)
    return SPECIAL + list(zip(epsilons.tolist(), sizes.tolist(), strict=True))[:-CHOSEN]


GRID = grid()
bounds = functools.cache(exp_bounds)  # every oracle is compared on the same grid


def coins(oracle):
    """Return the probabilities that the client realises: for its value, and for any other bit."""
    return oracle.exact_p, oracle.exact_q


def classes(name, oracle, keep, other):
    """Return (P under v, P under u) of every class of reports that support the same of v and u.

    By each protocol's definition, from its coins alone: a class holds all reports of the same
    probabilities under v and u, up to a factor that both share; factors are left out.
    """
    d = oracle.d
    if name == "grr":
        rest = (1 - keep) / (d - 1)
        return [(keep, rest), (rest, keep), (rest, rest)][: min(d, 3)]
    if name in ("sue", "oue"):
        of_bit = {
            1: (keep, other),
            0: (1 - keep, 1 - other),
        }  # P(bit) where it is the user's value, where it is not
        return [
            (of_bit[bit_v][0] * of_bit[bit_u][1], of_bit[bit_v][1] * of_bit[bit_u][0])
            for bit_v, bit_u in itertools.product((0, 1), repeat=2)
        ]
    if name in ("olh", "blh"):
        rest = (1 - keep) / (oracle.g - 1)
        apart = [(keep, rest), (rest, keep), (rest, rest)][: min(oracle.g, 3)]
        return [
            *apart,
            (keep, keep),
            (rest, rest),
        ]  # of hash functions that part v from u, and of those that do not
    if name == "ss":
        k = oracle.k
        inside = (
            keep / math.comb(d - 1, k - 1) if d <= 60 else keep
        )  # of one set, by (k-1)!(d-k)!/(d-1)! beyond
        outside = (1 - keep) / math.comb(d - 1, k) if d <= 60 else (1 - keep) * Fraction(k, d - k)
        holding = [
            (True, False),
            (False, True),
            *([(True, True)] if k > 1 else []),
            *([(False, False)] if d > k + 1 else []),
        ]
        return [tuple(inside if held else outside for held in pair) for pair in holding]
    half = Fraction(oracle.columns, 2)
    return [
        ((keep if x else 1 - keep) / half, (keep if y else 1 - keep) / half)
        for x, y in itertools.product((0, 1), repeat=2)
    ]


def worst(pairs):
    return max(max(pair) / min(pair) for pair in pairs)


@every_oracle
def test_no_report_of_any_oracle_exceeds_the_budget_and_the_loss_is_below_one_billionth(name):
    checked = 0
    # All pairs that were chosen, and every second one of the others.
    pairs = GRID[:CHOSEN] + GRID[CHOSEN::2]
    for epsilon, d in pairs:
        try:
            oracle = ORACLES[name](epsilon, d)
        except InvalidInputError:
            continue  # a probability below 2⁻³²: refused
        low, _ = bounds(epsilon)
        ratio = worst(classes(name, oracle, *coins(oracle)))
        assert ratio <= low, (epsilon, d)
        assert ratio >= low * (1 - LOSS), (epsilon, d)  # log(1-x) <= -x
        assert ratio == oracle.exact_ratio, (epsilon, d)
        checked += 1
    assert checked > 0.9 * len(pairs)


def textbook(name, oracle):
    """Return the coins of a client in double precision, by the formulas as they are printed."""
    e = math.exp(oracle.epsilon)
    d = oracle.d
    root = math.exp(oracle.epsilon / 2)
    return {
        "grr": (e / (e + d - 1), 0.0),
        "sue": (root / (root + 1), 1 / (root + 1)),
        "oue": (0.5, 1 / (e + 1)),
        "olh": (e / (e + getattr(oracle, "g", 2) - 1), 0.0),
        "blh": (e / (e + 1), 0.0),
        "ss": (
            getattr(oracle, "k", 1)
            * e
            / (getattr(oracle, "k", 1) * e + d - getattr(oracle, "k", 1)),
            0.0,
        ),
        "hr": (e / (e + 1), 0.0),
    }[name]


@every_oracle
def test_the_textbook_in_double_precision_exceeds_the_budget_about_every_other_time(name):
    exceeded = []
    for epsilon, d in GRID[::5]:
        try:
            oracle = ORACLES[name](epsilon, d)
        except InvalidInputError:
            continue
        keep, other = textbook(name, oracle)
        exceeded.append(
            worst(classes(name, oracle, Fraction(keep), Fraction(other))) > bounds(epsilon)[1]
        )
    assert 0.35 < np.mean(exceeded) < 0.65


@every_oracle
def test_one_unit_more_of_the_coin_would_exceed_the_budget(name):
    unit = Fraction(1, 2**64)
    for epsilon, d in GRID[:200]:
        oracle = ORACLES[name](epsilon, d)
        keep, other = coins(oracle)
        bolder = {"sue": (keep + unit, other - unit), "oue": (keep, other - unit)}.get(
            name, (keep + unit, other)
        )
        assert worst(classes(name, oracle, *bolder)) > bounds(epsilon)[1], (epsilon, d)


# --- the client tosses these coins and no others --------------------------------------------------


@every_oracle
def test_the_loss_is_as_small_at_the_largest_budgets_that_are_accepted(name):
    accepted = []
    for epsilon in np.arange(10, 50, 0.125).tolist():
        try:
            oracle = ORACLES[name](epsilon, 2)
        except InvalidInputError:
            continue
        low, _ = exp_bounds(epsilon)
        assert low * (1 - LOSS) <= worst(classes(name, oracle, *coins(oracle))) <= low
        accepted.append(epsilon)
    assert max(accepted) > 20


@every_oracle
def test_the_client_tosses_exactly_the_stated_coins(name, monkeypatch):
    tossed = []
    drawn = []
    for function in ("bernoulli", "packed_bernoulli"):
        original = getattr(randomness, function)
        monkeypatch.setattr(
            randomness,
            function,
            lambda rng, p, *size, _do=original: tossed.append(p) or _do(rng, p, *size),
        )
    below = randomness.below
    monkeypatch.setattr(
        randomness, "below", lambda rng, bound, size: drawn.append(bound) or below(rng, bound, size)
    )
    for epsilon, d in [(0.5, 5), (1.0, 64), (3.0, 100)]:
        tossed.clear()
        drawn.clear()
        oracle = ORACLES[name](epsilon, d)
        oracle.perturb([1, 2], rng=0)
        if name in ("sue", "oue"):
            assert tossed == [oracle.exact_q, oracle.exact_p]
        else:
            assert oracle.exact_p in tossed
        if name in ("grr", "olh", "blh", "hr"):
            assert tossed == [oracle.exact_p]
            assert drawn == [
                {"grr": d - 1, "hr": getattr(oracle, "columns", 0)}.get(
                    name, getattr(oracle, "g", 0) - 1
                )
            ]


@pytest.mark.parametrize("name", ["grr", "hr", "blh"])
def test_a_coin_falls_on_its_side_at_the_very_word(name, monkeypatch):
    oracle = ORACLES[name](1.0, 2)
    threshold = int(oracle.exact_p * 2**64)
    for word, keep in ((0, True), (threshold - 1, True), (threshold, False), (2**64 - 1, False)):
        monkeypatch.setattr(
            randomness, "words", lambda rng, shape, _w=word: np.full(shape, _w, dtype=np.uint64)
        )
        assert randomness.bernoulli(None, oracle.exact_p, 1)[0] == keep


def enumerated_subsets(d, k, keep):
    """Return the law of a report of value 0 that holds it, or not: uniform sets of the others."""
    sets = [c for c in itertools.combinations(range(d), k) if (0 in c) == keep]
    return dict.fromkeys(sets, Fraction(1, len(sets)))


@pytest.mark.parametrize(("epsilon", "d"), [(0.5, 5), (1.0, 4), (0.2, 6)])
def test_classes_of_subset_selection_are_those_of_all_its_sets(epsilon, d):
    oracle = SubsetSelection(epsilon, d)
    keep, _ = coins(oracle)
    law = {}
    for held, probability in ((True, keep), (False, 1 - keep)):
        for report, chance in enumerated_subsets(d, oracle.k, held).items():
            law[report] = probability * chance
    assert sum(law.values()) == 1
    swapped = {
        tuple(sorted({0: 1, 1: 0}.get(v, v) for v in report)): chance
        for report, chance in law.items()
    }  # of value 1
    assert worst([(law[report], swapped[report]) for report in law]) == oracle.exact_ratio
    assert sum(chance for report, chance in law.items() if 1 in report) == oracle.exact_q
    assert (
        sum(chance for report, chance in law.items() if {0, 1} <= set(report)) == oracle.exact_both
    )


# --- what is stated -------------------------------------------------------------------------------


@every_oracle
def test_exact_epsilon_is_stated_from_above_and_below_the_budget(name):
    for epsilon, d in GRID[:300]:
        oracle = ORACLES[name](epsilon, d)
        stated = oracle.exact_epsilon
        assert isinstance(stated, float)
        assert epsilon - float(LOSS) <= stated <= epsilon
        assert exp_bounds(stated)[1] >= oracle.exact_ratio  # no less than the loss there is


@every_oracle
def test_p_and_q_are_the_coins_rounded_once(name):
    for epsilon, d in GRID[:300]:
        oracle = ORACLES[name](epsilon, d)
        assert (oracle.p, oracle.q) == (float(oracle.exact_p), float(oracle.exact_q))
        assert oracle.likelihood_ratio == float(oracle.exact_ratio)


@every_oracle
def test_q_follows_from_the_law_of_a_report(name):
    for epsilon, d in GRID[:300]:
        oracle = ORACLES[name](epsilon, d)
        p, q = coins(oracle)
        expected = {
            "grr": (1 - p) / (d - 1),
            "sue": 1 - p,
            "oue": q,
            "olh": Fraction(1, getattr(oracle, "g", 2)),
            "blh": Fraction(1, 2),
            "ss": (p * (getattr(oracle, "k", 1) - 1) + (1 - p) * getattr(oracle, "k", 1)) / (d - 1),
            "hr": Fraction(1, 2),
        }[name]
        assert q == expected
        assert q == word_below(q) or name in ("grr", "olh", "ss")  # where a client tosses q itself


@pytest.mark.parametrize("epsilon", [math.log(2), math.log(3), 1.0, 0.1, 20.0])
def test_numbers_of_buckets_and_of_values_in_a_set_are_decided_in_fractions(epsilon):
    low, high = exp_bounds(epsilon)
    g = OLH(epsilon, 10).g
    assert g - Fraction(3, 2) <= low or g == 2
    assert high < g - Fraction(1, 2)
    assert OLH(epsilon, 10, rounding="floor").g <= max(2, low + 1)
    assert BLH(epsilon, 10).exact_ratio <= low
    k = SubsetSelection(epsilon, 1000, rounding="nearest").k
    assert abs(k - 1000 / (low + 1)) <= Fraction(1, 2) or k == 1


@given(st.floats(1e-12, 100))
def test_bounds_of_the_exponential_are_bounds_and_close(x):
    low, high = exp_bounds(x)
    bound = exp_below(x)
    assert bound < high
    assert bound > low * (1 - Fraction(1, 10**57))
    assert exp_below(Fraction(x) / 2) ** 2 < high


@given(st.floats(1e-9, 30))
def test_the_logarithm_is_rounded_up_to_the_next_float(x):
    ratio = exp_below(x)
    stated = log_above(ratio)
    assert stated in (
        x,
        math.nextafter(x, math.inf),
    )  # the fraction is below e^x by 10⁻⁵⁹, and bounds are as wide
    assert exp_bounds(stated)[1] >= ratio
    assert exp_bounds(math.nextafter(math.nextafter(stated, 0), 0))[0] <= ratio


def test_a_seed_must_be_named():
    for oracle in (GRR(1.0, 4), OUE(1.0, 4), SUE(1.0, 4), HadamardResponse(1.0, 4)):
        with pytest.raises(TypeError):
            oracle.perturb([1, 2], 0)

"""The client's randomness: frequencies, independence, and exactness by enumeration."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_array_equal

from ldpopt.errors import InvalidInputError
from ldpopt.oracles import randomness
from tests.tolerances import SIGMAS

FALSE_ALARM = 1e-6  # of one chi-square test, on fixed seeds
PROBABILITIES = [
    Fraction(x) for x in (0.5, 0.2689, 1 / 3, 1e-3, 0.999)
]  # floats above 2⁻¹¹ are multiples of 2⁻⁶⁴
SOURCES = [
    1,
    None,
]  # a seed, and the operating system: its checks fail once in 1.7 million runs each


def generator(seed):
    return None if seed is None else np.random.default_rng(seed)


def assert_mean(bits, probability):
    probability = float(probability)
    spread = math.sqrt(probability * (1 - probability) / bits.size)
    assert abs(bits.mean() - probability) < SIGMAS * spread


def unpack(packed, d):
    """Return bits, most significant first, without numpy's own unpacking."""
    return np.stack([(packed[:, v // 8] >> (7 - v % 8)) & 1 for v in range(d)], axis=1)


def scripted_words(monkeypatch, *answers):
    """Let ``words`` return these numbers, call by call; return the sizes that were requested."""
    queue = list(answers)
    sizes = []

    def words(rng, shape):
        sizes.append(shape)
        if not queue:
            pytest.fail("more words were drawn than expected")
        return np.array(queue.pop(0), dtype=np.uint64)

    monkeypatch.setattr(randomness, "words", words)
    return sizes


@pytest.mark.parametrize("shape", [0, 5, (2, 3)])
@pytest.mark.parametrize("seed", SOURCES)
def test_words_have_the_asked_shape_and_can_be_written(seed, shape):
    words = randomness.words(generator(seed), shape)
    assert words.dtype == np.uint64
    assert words.shape == (shape if isinstance(shape, tuple) else (shape,))
    assert words.flags.writeable


@pytest.mark.parametrize("seed", SOURCES)
def test_every_bit_of_a_word_is_fair(seed):
    words = randomness.words(generator(seed), 50_000)
    for digit in range(64):
        assert_mean(words >> np.uint64(digit) & np.uint64(1), 0.5)


def test_words_of_the_operating_system_differ_and_those_of_a_seed_do_not():
    assert (randomness.words(None, 4) != randomness.words(None, 4)).all()
    assert_array_equal(randomness.words(generator(9), 4), randomness.words(generator(9), 4))


@pytest.mark.parametrize("probability", PROBABILITIES)
@pytest.mark.parametrize("seed", SOURCES)
def test_bernoulli_has_its_probability_and_independent_neighbours(seed, probability):
    bits = randomness.bernoulli(generator(seed), probability, 200_000)
    assert bits.dtype == np.bool_
    assert_mean(bits, probability)
    assert_uncorrelated(bits[1:], bits[:-1], probability)


def assert_uncorrelated(x, y, probability):
    probability = float(probability)
    products = (x - probability) * (y - probability)
    assert abs(products.mean()) < SIGMAS * probability * (1 - probability) / math.sqrt(
        products.size
    )


@pytest.mark.parametrize("probability", PROBABILITIES)
@pytest.mark.parametrize("seed", SOURCES)
def test_packed_bits_have_their_probability_in_every_column(seed, probability):
    bits = unpack(randomness.packed_bernoulli(generator(seed), probability, 40_000, 13), 13)
    for column in bits.T:
        assert_mean(column, probability)


@pytest.mark.parametrize("probability", [Fraction(x) for x in (0.5, 0.2689, 0.9)])
def test_packed_bits_are_independent_of_their_neighbours(probability):
    bits = unpack(randomness.packed_bernoulli(generator(2), probability, 40_000, 16), 16).astype(
        np.float64
    )
    assert_uncorrelated(bits[:, 1:], bits[:, :-1], probability)  # in a row
    for lag in (1, 2, 3, 4, 8):  # the same column of later rows; four rows are one 64-bit word
        assert_uncorrelated(bits[lag:], bits[:-lag], probability)


@pytest.mark.parametrize("d", [1, 2, 7, 8, 9, 15, 63, 64, 65])
@pytest.mark.parametrize("n", [0, 1, 3, 100])
def test_packed_rows_have_zero_padding(n, d):
    packed = randomness.packed_bernoulli(generator(3), Fraction(0.999), n, d)
    assert packed.dtype == np.uint8
    assert packed.shape == (n, math.ceil(d / 8))
    padding = np.unpackbits(packed, axis=1)[:, d:]
    assert not padding.any()


def test_packed_bits_do_not_repeat_from_block_to_block(monkeypatch):
    monkeypatch.setattr(randomness, "_BLOCK", 16)
    packed = randomness.packed_bernoulli(generator(4), Fraction(0.3), 3_000, 8 * 8)
    assert len(np.unique(packed, axis=0)) == 3_000
    assert_mean(unpack(packed, 64), 0.3)


@pytest.mark.parametrize("eighths", range(1, 8))
def test_packed_bits_are_exactly_u_below_the_threshold(monkeypatch, eighths):
    # Lane i of three words spells u = i/8: of the eight lanes, exactly those with u < eighths/8
    # must be set.
    lanes = list(itertools.product((0, 1), repeat=3))
    digits = [sum(lane[place] << i for i, lane in enumerate(lanes)) for place in range(3)]
    scripted_words(monkeypatch, *([digit] for digit in digits))
    result = int(randomness._bernoulli_words(None, round(eighths / 8 * 2**64), 1)[0])
    assert [result >> i & 1 for i in range(8)] == [i < eighths for i in range(8)]


@pytest.mark.parametrize(
    ("threshold", "draws", "expected"),
    [
        # u = 0 in all lanes until the last digit of T = 1: u < T holds for u = 0 only.
        (1, [[0]] * 64, 2**64 - 1),
        (1, [[0]] * 63 + [[0b1010]], (2**64 - 1) ^ 0b1010),
        # T = 2^64 - 1 fails for u = 2^64 - 1 only.
        (2**64 - 1, [[2**64 - 1]] * 64, 0),
        (2**64 - 1, [[2**64 - 1]] * 63 + [[(2**64 - 1) ^ 0b100]], 0b100),
    ],
)
def test_packed_bits_compare_all_64_digits(monkeypatch, threshold, draws, expected):
    scripted_words(monkeypatch, *draws)
    assert int(randomness._bernoulli_words(None, threshold, 1)[0]) == expected


@pytest.mark.parametrize("bound", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("seed", SOURCES)
def test_below_is_uniform(seed, bound):
    draws = randomness.below(generator(seed), bound, 100_000)
    assert draws.dtype == np.int64
    observed = np.bincount(draws, minlength=bound)
    assert len(observed) == bound
    assert scipy.stats.chisquare(observed).pvalue > FALSE_ALARM or bound == 1


@pytest.mark.parametrize("bound", [2**32 - 1, 2**32, 3 * 2**30])
def test_below_is_uniform_up_to_its_largest_bounds(bound):
    draws = randomness.below(generator(6), bound, 100_000)
    assert draws.min() >= 0
    assert draws.max() < bound
    assert (
        scipy.stats.chisquare(np.bincount(draws * 64 // bound, minlength=64)).pvalue > FALSE_ALARM
    )


def test_below_draws_again_in_the_biased_region_until_it_leaves_it(monkeypatch):
    # 2^32 mod 3 = 1: exactly the half word 0 is biased.
    sizes = scripted_words(monkeypatch, [0, 1 << 32, 0, 2**64 - 1], [0, 1 << 63], [1 << 33])
    assert_array_equal(randomness.below(None, 3, 4), [0, 0, 1, 2])
    assert sizes == [4, 2, 1]


def test_below_draws_again_for_a_bound_that_rejects_often(monkeypatch):
    # 2^32 mod (2^31 + 1) = 2^31 - 1: nearly half of all words are biased; 1·bound = 2^31 + 1 is
    # not, 2·bound mod 2^32 = 2 is.
    sizes = scripted_words(monkeypatch, [1 << 32, 2 << 32], [1 << 32])
    assert_array_equal(randomness.below(None, 2**31 + 1, 2), [0, 0])
    assert sizes == [2, 1]


def test_below_every_value_keeps_the_same_number_of_half_words():
    # Enumeration with 32-bit halves: a value of bound b owns floor(2^32 / b) unbiased halves,
    # whichever it is.
    for bound in (3, 5, 641, 2**31 + 1):
        share, rejected = divmod(2**32, bound)
        for value in (0, 1, bound // 2, bound - 1):
            start, stop = -(-value * 2**32 // bound), -(-(value + 1) * 2**32 // bound)
            halves = [half for half in (start, stop - 1) if half * bound % 2**32 < rejected]
            assert stop - start - len(set(halves)) == share


@pytest.mark.parametrize("bound", [2**32 + 1, 2**33])
def test_below_refuses_a_bound_that_it_could_never_draw(monkeypatch, bound):
    draws = itertools.count()

    def words(rng, shape):
        if next(draws) > 50:
            pytest.fail("endless loop")
        return np.random.default_rng(next(draws)).integers(0, 2**63, shape).astype(np.uint64)

    monkeypatch.setattr(randomness, "words", words)
    with pytest.raises(InvalidInputError):
        randomness.below(None, bound, 4)


@pytest.mark.parametrize(
    ("probability", "threshold"),
    [(0.5, 2**63), (0.25, 2**62), (2.0**-64, 1), (1 - 2**-53, 2**64 - 2**11)],
)
def test_probabilities_become_whole_multiples(probability, threshold):
    assert randomness._threshold(Fraction(probability)) == threshold


@pytest.mark.parametrize(
    "probability", [Fraction(1, 3), Fraction(1, 2**65), Fraction(0), Fraction(1), Fraction(-1, 2)]
)
def test_a_coin_that_words_cannot_toss_exactly_is_refused(probability):
    with pytest.raises(
        InvalidInputError, match=r"probability must be a multiple of 2\*\*-64 in \(0, 1\), got"
    ):
        randomness.bernoulli(generator(1), probability, 3)

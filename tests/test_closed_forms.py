"""Norm-Sub and MLE-Apx against exact arithmetic, on hostile vectors, and by their properties."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal

from ldpopt import closed_form
from ldpopt.closed_form import at_most, mle_apx, norm_sub, water_level
from ldpopt.errors import InvalidInputError
from tests import reference
from tests.tolerances import ROUNDING, SUM

BREAKS_ZEROING_FIRST = [0.5, 0.2, -0.01]
HOSTILE = {
    "zeroing the negatives first is wrong": BREAKS_ZEROING_FIRST,
    "all negative": [-0.5, -0.25, -3.0],
    "far below zero": [-1e17, -1e17, -1e17 + 16],
    "one huge": [1e17, 0.2],
    "one huge below": [0.2, 0.3, -1e17],
    "tiny": [1e-300, 3e-300, -2e-300],
    "huge of both signs": [1e300, -1e300, 0.5],
    "difference overflows": [1.7e308, -1.7e308],
    "sum overflows": [1.7e308, 1.7e308],
    "subnormal": [5e-324, 0.0, -5e-324],
    "ties": [0.4, 0.4, 0.4, 0.1, 0.1],
    "ties at the cut": [1.0, 0.0, 0.0],
    "one value": [-7.0],
    "one value already right": [1.0],
    "a distribution": [0.5, 0.25, 0.25],
    "signed zeros": [0.0, -0.0],
    "just above one": [1 + 2**-52, 1.0, 2**-52],
    "close together, far away": [1e6, 1e6 + 2**-20, 1e6 - 0.5],
}
TOTALS = [1.0, 0.25, 3.0, 1e-12, 1e12]
KAPPAS = [-0.99, -0.3, 0.0, 0.27, 13.0]
NORMAL = {
    size: np.random.default_rng(size).normal(1 / size, 0.3, size)
    for size in [1, 2, 3, 5, 17, 100, 1000]
}

frequencies = arrays(np.float64, st.integers(1, 40), elements=st.floats(-2, 2))


def in_domain(f, kappa):
    """Move f to where 1 + κf >= 1/10, as support counts would have it."""
    return (
        np.maximum(f, -0.9 / kappa)
        if kappa > 0
        else np.minimum(f, -0.9 / kappa)
        if kappa < 0
        else f
    )


def assert_exact(result, expected, scale=1.0):
    assert_allclose(result, reference.floats(expected), rtol=0, atol=ROUNDING * scale)


# --- the reference itself -------------------------------------------------------------------------


@pytest.mark.parametrize("slope", [-0.9, 0.0, 2.5])
@pytest.mark.parametrize("seed", range(5))
def test_both_references_find_the_same_level(seed, slope):
    f = in_domain(np.random.default_rng(seed).normal(0.1, 0.5, seed + 1), slope)
    assert reference.water_level(f, 1, slope) == reference.water_level_by_supports(f, 1, slope)


# --- against exact arithmetic ---------------------------------------------------------------------


@pytest.mark.parametrize("f", NORMAL.values(), ids=str)
def test_norm_sub_is_exact_on_random_vectors(f):
    assert_exact(norm_sub(f), reference.norm_sub(f))


@pytest.mark.parametrize("name", HOSTILE)
def test_norm_sub_is_exact_on_hostile_vectors(name):
    assert_exact(norm_sub(np.array(HOSTILE[name])), reference.norm_sub(HOSTILE[name]))


@pytest.mark.parametrize("total", TOTALS)
@pytest.mark.parametrize("name", HOSTILE)
def test_norm_sub_is_exact_for_other_totals(name, total):
    assert_exact(
        norm_sub(np.array(HOSTILE[name]), total),
        reference.norm_sub(HOSTILE[name], total),
        scale=total,
    )


@pytest.mark.parametrize("f", [BREAKS_ZEROING_FIRST, [-1.0, -2.0], [1e300, -1e300]])
def test_total_zero_leaves_nothing(f):
    assert_array_equal(norm_sub(np.array(f), 0.0), 0.0)
    assert_array_equal(mle_apx(np.array(f), 0.0, total=0.0), 0.0)


def test_minus_infinity_marks_zeros():
    f = np.array([0.5, -np.inf, 0.2, -np.inf])
    assert_exact(norm_sub(f), reference.norm_sub(f))


@pytest.mark.parametrize("kappa", KAPPAS)
@pytest.mark.parametrize("f", NORMAL.values(), ids=str)
def test_mle_apx_is_exact_on_random_vectors(f, kappa):
    f = in_domain(f, kappa)
    assert_exact(mle_apx(f, kappa), reference.mle_apx(f, kappa))


@pytest.mark.parametrize("kappa", KAPPAS)
@pytest.mark.parametrize("name", [name for name in HOSTILE if "overflows" not in name])
def test_mle_apx_is_exact_on_hostile_vectors(name, kappa):
    f = in_domain(np.array(HOSTILE[name]), kappa)
    assert_exact(mle_apx(f, kappa), reference.mle_apx(f, kappa))


@pytest.mark.parametrize("kappa", KAPPAS)
@pytest.mark.parametrize("total", [0.25, 1e-3])
def test_mle_apx_is_exact_for_smaller_totals(total, kappa):
    f = in_domain(NORMAL[17], kappa)
    assert_exact(mle_apx(f, kappa, total), reference.mle_apx(f, kappa, total), scale=total)


def test_the_instance_that_breaks_zeroing_first():
    assert norm_sub(np.array(BREAKS_ZEROING_FIRST)).round(3).tolist() == [0.603, 0.303, 0.093]


def test_point_two_beside_a_huge_value_survives():
    assert norm_sub(np.array([1e17, 1e17 + 0.0, 0.2])).tolist() == [0.5, 0.5, 0.0]
    assert norm_sub(np.array([0.2, -1e17])).tolist() == [1.0, 0.0]


@pytest.mark.parametrize(("kappa", "bad"), [(2.0, -0.5), (2.0, -0.75), (-0.5, 2.0), (-0.5, 1e300)])
def test_mle_apx_refuses_a_negative_variance_and_says_where(kappa, bad):
    with pytest.raises(
        InvalidInputError, match=r"1 \+ kappa f > 0, found f = .* at trial 1, index 2 .*norm-sub"
    ):
        mle_apx(np.array([[0.1, 0.2, 0.3], [0.1, 0.2, bad]]), kappa)


# --- stacks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 7, water_level._LONG + 1])
@pytest.mark.parametrize("shape", [(4,), (2, 3)])
def test_a_stack_equals_its_rows(shape, d):
    stack = np.random.default_rng(d).normal(1 / d, 0.1, (*shape, d))
    for apply in (norm_sub, lambda f: mle_apx(f, 0.27)):
        result = apply(stack)
        assert result.shape == stack.shape
        for row in np.ndindex(shape):
            assert_allclose(result[row], apply(stack[row]), rtol=0, atol=ROUNDING)


def test_each_row_of_a_stack_may_have_its_own_total():
    stack = np.random.default_rng(0).normal(0.1, 0.3, (3, 9))
    result = norm_sub(stack, np.array([[0.0], [0.5], [2.0]]))
    for row, total in enumerate([0.0, 0.5, 2.0]):
        assert_exact(result[row], reference.norm_sub(stack[row], total), scale=2.0)


def test_mixed_scales_do_not_disturb_each_other_in_a_stack():
    stack = np.array([[1e17, 0.2, 0.0], BREAKS_ZEROING_FIRST])
    assert_exact(norm_sub(stack)[1], reference.norm_sub(BREAKS_ZEROING_FIRST))


def test_the_input_is_not_changed():
    for f in (np.array(BREAKS_ZEROING_FIRST), np.linspace(-1, 1, water_level._LONG + 5)):
        before = f.copy()
        norm_sub(f)
        mle_apx(f, 0.27)
        assert_array_equal(f, before)


# --- long vectors: the filter against the sort ----------------------------------------------------

LONG = water_level._LONG + 1000


def long_vectors():
    rng = np.random.default_rng(7)
    heavy = rng.normal(0, 0.003, LONG)
    heavy[:50] += rng.dirichlet(np.ones(50))
    one_finite = np.full(LONG, -np.inf)
    one_finite[4321] = -0.3
    hidden = np.full(LONG, -1.0)  # between the positions that a sample with an even stride looks at
    hidden[1::2] = rng.normal(0, 0.01, LONG // 2)
    return {
        "zipf with noise": 0.4 * np.arange(1, LONG + 1) ** -1.5 + rng.normal(0, 0.002, LONG),
        "heavy head and noise": heavy,
        "head at the end": heavy[::-1].copy(),
        "pure noise": rng.normal(0, 1.0, LONG),
        "all equal": np.full(LONG, 0.01),
        "all equal and negative": np.full(LONG, -0.01),
        "all zero": np.zeros(LONG),
        "geometric scales": np.geomspace(1e-12, 1.0, LONG),
        "geometric scales below zero": -np.geomspace(1e-12, 1e12, LONG),
        "powers of two up": 2.0 ** np.linspace(-300, 300, LONG),
        "one huge": np.where(np.arange(LONG) == 17, 1e17, heavy),
        "one huge below": np.where(np.arange(LONG) == 17, -1e17, heavy),
        "all but one -inf": one_finite,
        "dense positive": rng.uniform(0.5, 1.5, LONG) / LONG,
        "dense, sums to less than one": rng.uniform(0.0, 0.1, LONG) / LONG,
        "survivors between the samples": hidden,
        "two levels": np.where(np.arange(LONG) < 4, 0.2, -0.001),
        "staircase against Newton": np.repeat(-(2.0 ** np.arange(55)), LONG // 55 + 1)[:LONG] + 1,
    }


LONG_VECTORS = long_vectors()


@pytest.mark.parametrize("name", LONG_VECTORS)
def test_the_filter_is_exact_on_long_vectors(name):
    f = LONG_VECTORS[name]
    assert_exact(norm_sub(f), reference.norm_sub(f))


@pytest.mark.parametrize("kappa", [None, -0.9, 0.27, 13.0])
@pytest.mark.parametrize("name", LONG_VECTORS)
def test_the_filter_agrees_with_the_sort(name, kappa, monkeypatch):
    f = LONG_VECTORS[name]
    if kappa is not None:
        f = in_domain(np.where(np.isinf(f), -0.06, f), kappa)

    def solve():
        return norm_sub(f) if kappa is None else mle_apx(f, kappa)

    filtered = solve()
    monkeypatch.setattr(water_level, "_LONG", 1 << 40)
    assert_allclose(filtered, solve(), rtol=0, atol=ROUNDING)
    assert_allclose(filtered.sum(), 1.0, rtol=0, atol=SUM)


@pytest.mark.parametrize("d", [water_level._LONG - 1, water_level._LONG, water_level._LONG + 1])
def test_nothing_happens_at_the_length_where_filtering_begins(d):
    f = np.random.default_rng(3).normal(0, 0.01, d)
    assert_exact(norm_sub(f), reference.norm_sub(f))


@pytest.mark.parametrize("height", [0.5, 0.99, -0.99])
@pytest.mark.parametrize("d", [1000, LONG, 100_000])
def test_many_equal_values_of_order_one_still_sum_to_one(d, height):
    assert_allclose(norm_sub(np.full(d, height)).sum(), 1.0, rtol=0, atol=SUM)


def test_newton_gives_up_in_favour_of_the_sort(monkeypatch):
    monkeypatch.setattr(water_level, "_NEWTON_STEPS", 1)
    f = LONG_VECTORS["geometric scales"]
    assert_exact(norm_sub(f), reference.norm_sub(f))


def high_where_the_sample_looks():
    """Values -i/50,000 at every tenth place, which the sample takes for all of them.

    The level that it suggests has Σ 10 (u - i/50,000) = 1 and 100 positive values, the true one
    Σ (u - i/50,000) = 1 and 316: beyond the margin of 8 + 4·√100 ranks.
    """
    f = np.full(10 * water_level._SAMPLE, -1.0)
    f[::10] = -np.arange(water_level._SAMPLE) / 50_000
    return f


def low_where_the_sample_does_not_look():
    """All values are positive in the end; every tenth, which the sample sees, is 1 % higher.

    From the sample alone the level would lie between 0.95 and 0.91 of the largest value, with 200
    positive values: all others are at 0.90.
    """
    f = np.full(10 * water_level._SAMPLE, 0.0090)
    seen = np.arange(0, len(f), 10)
    f[seen] = 0.0091
    f[seen[:100]] = 0.0100
    f[seen[100:200]] = 0.0095
    return f


@pytest.mark.parametrize(
    ("vector", "positive"),
    [
        (high_where_the_sample_looks, 316),
        (low_where_the_sample_does_not_look, 10 * water_level._SAMPLE),
    ],
    ids=["high where it looks", "low where it does not"],
)
def test_the_filter_looks_again_when_its_first_level_was_too_high(monkeypatch, vector, positive):
    class Counted(int):
        uses = 0

        def __rmul__(self, rank):
            Counted.uses += 1
            return rank * int(self)

    monkeypatch.setattr(water_level, "_WIDEN", Counted(water_level._WIDEN))
    f = vector()
    projected = norm_sub(f)
    assert Counted.uses >= 1
    assert np.count_nonzero(projected) == positive
    assert_exact(projected, reference.norm_sub(f))


# --- properties -----------------------------------------------------------------------------------


@given(frequencies)
def test_norm_sub_returns_a_distribution(f):
    result = norm_sub(f)
    assert result.min() >= 0
    assert_allclose(result.sum(), 1.0, rtol=0, atol=SUM)


@given(frequencies)
def test_norm_sub_of_any_vector_is_exact(f):
    assert_exact(norm_sub(f), reference.norm_sub(f))


@given(frequencies, st.floats(-0.99, 30))
def test_mle_apx_returns_a_distribution(f, kappa):
    result = mle_apx(in_domain(f, kappa), kappa)
    assert result.min() >= 0
    assert_allclose(result.sum(), 1.0, rtol=0, atol=SUM)


@given(frequencies)
def test_norm_sub_twice_is_norm_sub_once(f):
    once = norm_sub(f)
    assert_allclose(norm_sub(once), once, rtol=0, atol=ROUNDING)


@given(frequencies, st.floats(-0.99, 30))
def test_mle_apx_leaves_distributions_alone(f, kappa):
    distribution = norm_sub(f)
    assert_allclose(mle_apx(distribution, kappa), distribution, rtol=0, atol=ROUNDING)


@given(frequencies, st.floats(-0.99, 30), st.randoms(use_true_random=False))
def test_the_order_of_the_values_does_not_matter(f, kappa, random):
    f = in_domain(f, kappa)
    shuffled = list(range(len(f)))
    random.shuffle(shuffled)
    assert_allclose(norm_sub(f[shuffled]), norm_sub(f)[shuffled], rtol=0, atol=ROUNDING)
    assert_allclose(mle_apx(f[shuffled], kappa), mle_apx(f, kappa)[shuffled], rtol=0, atol=ROUNDING)


@given(frequencies, st.floats(-100, 100))
def test_norm_sub_ignores_a_constant(f, constant):
    assert_allclose(
        norm_sub(f + constant), norm_sub(f), rtol=0, atol=ROUNDING * (1 + abs(constant))
    )


@given(frequencies, st.floats(-0.99, 30))
def test_a_larger_estimate_never_becomes_the_smaller_one(f, kappa):
    f = np.sort(in_domain(f, kappa))
    assert (np.diff(norm_sub(f)) >= 0).all()
    assert (np.diff(mle_apx(f, kappa)) >= 0).all()


@given(frequencies)
def test_kappa_zero_is_norm_sub(f):
    assert_allclose(mle_apx(f, 0.0), norm_sub(f), rtol=0, atol=ROUNDING)


@given(frequencies, st.floats(-0.99, 30))
def test_the_weighted_mle_is_within_its_bound_of_least_squares(f, kappa):
    f = in_domain(f, kappa)
    distance = np.abs(mle_apx(f, kappa) - norm_sub(f)).sum()
    t = reference.water_level(f, 1, kappa)
    delta = reference.water_level(f)
    assert distance <= 2 * abs(kappa * float(t)) + SUM
    if kappa >= 0:
        assert distance <= 2 * kappa * abs(float(delta)) + SUM


def test_the_bound_is_not_vacuous():
    f = np.array(BREAKS_ZEROING_FIRST)
    distance = np.abs(mle_apx(f, 0.27) - norm_sub(f)).sum()
    assert 0.1 * 2 * 0.27 * abs(float(reference.water_level(f, 1, 0.27))) < distance


# --- the affine ones ------------------------------------------------------------------------------


@pytest.mark.parametrize("total", [0.0, 1.0, 2.5])
@pytest.mark.parametrize("f", NORMAL.values(), ids=str)
def test_norm_is_exact(f, total):
    assert_exact(closed_form.norm(f, total), reference.norm(f, total), scale=3.0)


@pytest.mark.parametrize("common", [1e9, -1e100, 1e308, 1.7e308, -1.7e308])
def test_a_common_part_of_huge_values_does_not_hide_the_total(common):
    for d in (1, 2, 3, 1000):
        values = np.full(d, common)
        assert_allclose(closed_form.norm(values), np.full(d, 1 / d), rtol=SUM)
    ordinary = [0.7, 0.5, -0.05]
    stack = closed_form.norm(np.array([ordinary, [common] * 3]))
    assert_array_equal(stack[0], closed_form.norm(np.array(ordinary)))
    assert_allclose(stack[1], np.full(3, 1 / 3), rtol=SUM)


def test_norm_of_both_ends_of_the_doubles_does_not_overflow():
    top = float(np.finfo(np.float64).max)
    assert_array_equal(closed_form.norm(np.array([top, -top, top, -top])), [top, -top, top, -top])
    assert_allclose(closed_form.norm(np.array([1e308, 0.5e308])), [0.25e308, -0.25e308], rtol=SUM)


@pytest.mark.parametrize("total", [0.0, 1.0, 2.5])
@pytest.mark.parametrize(
    "f", [NORMAL[17], [1e300, 1e300, -1], [1e-300, 3e-300], [5e-324, 0.0], [1.7e308] * 2, [7.0]]
)
def test_norm_mul_is_exact(f, total):
    assert_exact(closed_form.norm_mul(np.array(f), total), reference.norm_mul(f, total), scale=3.0)


@pytest.mark.parametrize(
    ("f", "words"),
    [([-0.1, -0.2], "all are <= 0: use norm-sub"), ([[0.5, 0.1], [0.0, -0.1]], "<= 0 in trial 1:")],
    ids=["one vector", "the second of a stack"],
)
def test_norm_mul_has_no_answer_without_a_positive_value(f, words):
    with pytest.raises(InvalidInputError, match=words):
        closed_form.norm_mul(np.array(f))


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 9])
def test_of_equal_values_the_first_are_kept(k):
    f = np.array([[0.5, 0.75, 0.5, 0.5, 0.75], [0.25, 0.25, -1.0, 0.25, 0.0]])
    order = np.argsort(-f, axis=-1, kind="stable")[:, :k]
    kept = np.full(f.shape, -np.inf)
    np.put_along_axis(kept, order, np.take_along_axis(f, order, axis=-1), axis=-1)
    assert np.array_equal(at_most(f, k), norm_sub(kept))
    assert np.array_equal(at_most(f[0], k), norm_sub(kept[0]))

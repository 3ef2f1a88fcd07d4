"""Compiled water levels and cuts of large stacks, against exact arithmetic and against the sort."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from ldpopt.closed_form import (
    mle_apx,
    norm_cut,
    norm_hyb,
    norm_sub,
    row_kernels,
    rows,
    thresholds,
    water_level,
)
from tests import reference
from tests.test_closed_forms import HOSTILE, KAPPAS, LONG_VECTORS, assert_exact, in_domain
from tests.tolerances import ROUNDING, SUM


@pytest.fixture
def compiled(monkeypatch):
    """Let stacks of any size be solved by the compiled code."""
    monkeypatch.setattr(water_level, "LARGE", 0)
    monkeypatch.setattr(thresholds, "LARGE", 0)


def noisy(trials, d, seed=0):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(d), trials) + rng.normal(0, 0.05, (trials, d))


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_vectors_are_exact_in_a_large_stack(name, compiled):
    stack = np.array([HOSTILE[name], HOSTILE[name]])
    for row in norm_sub(stack):
        assert_exact(row, reference.norm_sub(HOSTILE[name]))


@pytest.mark.parametrize("d", [1, 2, 63, 64, 65, 300])
def test_each_row_has_its_own_total_at_every_number_of_lanes(d, compiled):
    stack = noisy(4, d, seed=d)
    totals = np.array([[0.0], [1e-9], [0.5], [2.0]])
    for row, vector, total in zip(norm_sub(stack, totals), stack, totals[:, 0], strict=True):
        assert_exact(row, reference.norm_sub(vector, total), scale=max(total, 1.0))


@pytest.mark.parametrize("kappa", KAPPAS)
def test_the_weighted_form_is_exact_in_a_large_stack(kappa, compiled):
    stack = in_domain(noisy(3, 70), kappa)
    for row, vector in zip(mle_apx(stack, kappa), stack, strict=True):
        assert_exact(row, reference.mle_apx(vector, kappa))


@pytest.mark.parametrize("kappa", [0.27, 13.0])
def test_the_weighted_form_is_exact_far_above_the_total(kappa, compiled):
    vector = [40.0, 39.9, 39.0, 0.2, -0.01]
    assert_exact(mle_apx(np.array([vector]), kappa)[0], reference.mle_apx(vector, kappa))


def test_many_equal_values_still_sum_to_one(compiled):
    assert_allclose(norm_sub(np.full((2, 8_000), 0.99)).sum(axis=-1), 1.0, rtol=0, atol=SUM)


def test_large_stacks_agree_with_the_sort():
    d = 1024
    stack = noisy(rows.LARGE // d + 1, d)
    projected = norm_sub(stack)
    assert_allclose(projected.sum(axis=-1), 1.0, rtol=0, atol=SUM)
    for trial in (0, 1, len(stack) - 1):
        assert_allclose(projected[trial], norm_sub(stack[trial]), rtol=0, atol=ROUNDING)


def test_locked_and_scattered_stacks_are_solved_and_stay_as_they_are(compiled):
    stack = noisy(6, 50)
    expected = [norm_sub(vector) for vector in stack]
    scattered = np.repeat(stack, 2, axis=1)[:, ::2]
    locked = stack.copy()
    locked.flags.writeable = False
    for kind in (stack.reshape(2, 3, 50), scattered, locked):
        before = kind.copy()
        assert_allclose(norm_sub(kind).reshape(6, 50), expected, rtol=0, atol=ROUNDING)
        assert_array_equal(kind, before)


def test_values_that_norm_hyb_keeps_take_no_part(compiled):
    stack = noisy(5, 80)
    for row, vector in zip(norm_hyb(stack, 0.1), stack, strict=True):
        assert_allclose(row, norm_hyb(vector, 0.1), rtol=0, atol=ROUNDING)


def test_rows_that_newton_gives_up_are_sorted(compiled, monkeypatch):
    right = row_kernels.fill_rows

    def gives_up(table, slope, totals, rescaled, result):
        right(table, slope, totals, rescaled, result)
        result[1] = -7.0
        return np.array([True, False, True])

    monkeypatch.setattr(row_kernels, "fill_rows", gives_up)
    stack = noisy(3, 20)
    assert_exact(norm_sub(stack)[1], reference.norm_sub(stack[1]))


@pytest.mark.parametrize("name", LONG_VECTORS)
def test_long_vectors_are_exact_compiled(name, compiled):
    f = LONG_VECTORS[name]
    assert_exact(norm_sub(f), reference.norm_sub(f))


def test_a_long_vector_that_newton_gives_up_is_sorted(compiled, monkeypatch):
    monkeypatch.setattr(row_kernels, "fill_row", lambda *_: False)
    f = LONG_VECTORS["dense positive"]
    assert_exact(norm_sub(f), reference.norm_sub(f))


def test_from_a_good_guess_newton_does_not_give_up(compiled, monkeypatch):
    def gave_up(*_):
        raise AssertionError("the steps of numpy were taken")

    monkeypatch.setattr(water_level, "_settle", gave_up)
    f = LONG_VECTORS["dense positive"]
    assert_exact(norm_sub(f), reference.norm_sub(f))


@pytest.mark.parametrize("start", [0.0, 1e9, -0.4])
def test_long_vectors_sum_to_their_total_after_rescaling(start, compiled):
    """By the kernel, also where the origin is moved: the factor is taken from its own sums."""
    f = noisy(1, 30_000)[0] + start
    for total in (1.0, 0.25):
        rescaled = water_level.fill_to_level(f, 0.5, total, rescaled=True)
        plain = water_level.fill_to_level(f, 0.5, total)
        assert_allclose(rescaled.sum(), total, rtol=1e-12)
        assert_allclose(rescaled, plain * (total / plain.sum()), rtol=1e-9, atol=0)


CUTS = {
    "noise": noisy(40, 65),
    "ties": np.random.default_rng(1).integers(-2, 6, (40, 30)) / 16,
    "sums of one": np.random.default_rng(2).dirichlet(np.full(40, 0.1), 20),
    "above one": np.array([[1.5, 0.2, 0.1], [1.0, 0.2, 0.2], [0.6, 0.4, 1e-17]]),
    "nothing positive": np.array([[-1.0, 0.0, -0.0]]),
    "sums overflow": np.array([[1e308, 1e308, 0.5]]),
    "one value": np.array([[0.4], [1.4], [-1.0]]),
    "many equal": np.full((2, 5_000), 1 / 5_000),
    "ascending": np.arange(300.0)[None] / 2_000,
}


@pytest.mark.parametrize("name", CUTS)
def test_norm_cut_of_large_stacks_is_that_of_the_sort(name, compiled, monkeypatch):
    stack = CUTS[name]
    searched = norm_cut(stack)
    monkeypatch.setattr(thresholds, "LARGE", 1 << 40)
    assert_array_equal(searched, norm_cut(stack))


def test_compiled_sums_do_not_depend_on_the_rows_beside_them(compiled):
    stack = noisy(7, 129)
    assert_array_equal(norm_sub(stack)[3:5], norm_sub(stack[3:5]))

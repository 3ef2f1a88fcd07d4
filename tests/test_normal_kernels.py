"""The sweeps over a long vector and a normal, beside numpy's sums of several blocks of values."""

from operator import itemgetter
from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose

from ldpopt.closed_form.rows import locked_view
from ldpopt.solve.acceptance import normal_kernels as kernels
from ldpopt.solve.certificate.bounds.kernels import BLOCK

D = 2 * BLOCK + 77
NEAR = 1e-3


class Case(NamedTuple):
    """A point with some values at the reference and some below their bounds, and its normal."""

    rule: kernels.Rule
    slope: np.ndarray
    f: np.ndarray
    height: np.ndarray
    normal: np.ndarray
    weights: np.ndarray

    @property
    def is_open(self):
        return np.isnan(self.normal)

    @property
    def counted(self):
        return np.where(self.is_open, 0.0, np.maximum(self.height, 0.0))


def case_of(kind, steepest=None):
    """Return a case whose slope is lowest at a place that is not open, if one is named."""
    rng = np.random.default_rng(0)
    f = rng.normal(0.0, 1.0, D)
    reference = np.where(rng.random(D) < 0.3, f, rng.normal(0.0, 1.0, D))
    slope = rng.normal(0.0, 1.0, D)
    height = rng.normal(0.5, 1.0, D)
    weights = rng.uniform(0.5, 2.0, D)
    if steepest is not None:
        slope[steepest] = -20.0
        f[steepest] = reference[steepest] + 1.0
    slope, f, height = map(locked_view, (slope, f, height))
    away = f - reference
    if kind == kernels.ONE_NORM:
        normal = np.where(away > 0, weights, -weights)
        normal[np.abs(away) <= NEAR] = np.nan
        rule = kernels.rule(kind, reference, 1.0, weights, NEAR)
        return Case(rule, slope, f, height, normal, weights)
    if kind == kernels.TWO_NORM:
        rule = kernels.rule(kind, reference, 0.25)
        normal = 0.25 * away
    else:
        reference[1::7] = np.nan
        rule = kernels.rule(kind, reference, -1.0)
        normal = -reference
    return Case(rule, slope, f, height, normal, np.full(D, np.inf))


KINDS = [kernels.ONE_NORM, kernels.TWO_NORM, kernels.GIVEN]


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_sweep_sums_what_counts(kind):
    case = case_of(kind)
    expected = (
        case.counted.sum(),
        case.counted @ case.slope,
        case.counted @ np.nan_to_num(case.normal),
    )
    assert_allclose(kernels.means(*case[:4]), expected, rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_the_second_sweep_takes_both_off_their_levels(kind):
    case = case_of(kind)
    off = np.where(case.is_open, 0.0, case.normal - 0.3)
    expected = (np.sum(case.counted * off * (case.slope - 0.2)), np.sum(case.counted * off**2))
    assert_allclose(kernels.products(*case[:4], 0.2, 0.3), expected, rtol=1e-11)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mu", [0.0, 0.7, -0.7])
@pytest.mark.parametrize("steepest", [None, 0, BLOCK + 5, D - 1])
def test_the_third_sweep_chooses_what_is_open(kind, mu, steepest):
    """Wherever the lowest slope is: in any block, and at any place of it."""
    case = case_of(kind, steepest)
    level = 0.2
    middle = 0.3
    wanted = middle - (case.slope - level) / (mu if mu > 0 else 1.0)
    chosen = np.clip(wanted, -case.weights, case.weights)
    normal = np.where(case.is_open, chosen, case.normal)
    turned = case.slope - level + mu * (normal - middle)
    sums = kernels.turned([case[:4]], (level, middle, mu))
    assert_allclose(sums.lowest, turned.min(), rtol=1e-12)
    assert_allclose(sums.rise, turned @ case.height, rtol=1e-11)
    away = case.f if kind == kernels.GIVEN else case.f - case.rule.reference
    assert_allclose(sums.along, normal @ away, rtol=1e-11)
    assert_allclose(sums.size, np.abs(normal * case.height).sum(), rtol=1e-12)
    assert_allclose(sums.terms, np.abs(case.slope * case.f).sum(), rtol=1e-12)
    assert_allclose(sums.mass, case.height.sum(), rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_the_third_sweep_takes_parts(kind):
    """The lowest slope is in the second of three, and each overwrites the slopes of the last."""
    case = case_of(kind, BLOCK + 5)
    levels = (0.2, 0.3, 0.7)
    cuts = (slice(0, 100), slice(100, BLOCK + 9), slice(BLOCK + 9, D))

    def parts():
        buffer = np.empty(D)
        for cut in cuts:
            slope = buffer[: cut.stop - cut.start]
            slope[:] = case.slope[cut]
            yield case.rule.at(itemgetter(cut)), slope, case.f[cut], case.height[cut]

    assert_allclose(kernels.turned(parts(), levels), kernels.turned([case[:4]], levels), rtol=1e-11)

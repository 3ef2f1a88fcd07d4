"""Gradients of long vectors in one sweep: those of the losses, in arrays that may be written to."""

from operator import itemgetter

import numpy as np
import pytest
from numpy.testing import assert_allclose

from ldpopt import FrequencyEstimate, losses, oracles
from ldpopt.closed_form import parts, rows
from ldpopt.solve.certificate.bounds.kernels import BLOCK
from ldpopt.solve.certificate.box.slopes import LongSlopes, slope_of, swept_slope

D = 40
RNG = np.random.default_rng(4)
LOSSES = {
    "squares": losses.LeastSquares(),
    "weighted": losses.WeightedLeastSquares(RNG.uniform(0.5, 2.0, D)),
    "gaussian": losses.GaussianMLE(),
    "binomial": losses.BinomialMLE(),
    "huber": losses.Huber(0.01),
    "divergence": losses.KLTo(np.full(D, 1 / D)),
    "divergence, zeros": losses.KLTo(np.where(np.arange(D) % 5, 1.25 / D, 0.0)),
    "one term of a sum": 3.0 * losses.LeastSquares() + 0.0 * losses.Entropy(),
    "a sum": losses.LeastSquares() + 0.1 * losses.Entropy(),
    "sums in a sum": 2 * (losses.GaussianMLE() + 0.0 * losses.Entropy()),
}


def reports(oracle):
    users = RNG.multinomial(50_000, RNG.dirichlet(np.ones(D)))
    return oracle.estimate(oracle.simulate_counts(users, RNG), 50_000)


@pytest.mark.parametrize("name", [*LOSSES, "multinomial"])
def test_they_are_the_gradient(name, monkeypatch):
    monkeypatch.setattr(rows, "_LONG", 0)
    oracle = oracles.GRR(epsilon=3.0, d=D) if name == "multinomial" else oracles.OUE(1.0, D)
    loss = LOSSES.get(name, losses.MultinomialMLE())
    start = reports(oracle)
    f = RNG.dirichlet(np.ones(D))
    f.flags.writeable = False
    slope = slope_of(loss, start, f)
    gradient = loss.gradient(f, start)
    steepest = np.abs(gradient[np.isfinite(gradient)]).max()
    assert_allclose(slope, gradient, rtol=1e-12, atol=1e-12 * steepest)
    swept = swept_slope(loss, start, f)
    # Two terms are no formula, and logarithms are computed before a sweep.
    assert (swept is None) == (name == "a sum" or "divergence" in name)
    if swept is not None:
        assert swept.product == pytest.approx(gradient @ f, rel=1e-12)
        assert swept.extent.size == pytest.approx(f.sum(), rel=1e-12)
        assert swept.extent.lowest == 0
    # Sweeps over the data of neither are changed by what is written to it.
    slope[:] = 0
    assert_allclose(loss.gradient(f, start), gradient)


@pytest.mark.parametrize("place", [0, 17, BLOCK, 2 * BLOCK + 5])
def test_they_see_what_is_below_0_and_what_is_no_number(place, monkeypatch):
    monkeypatch.setattr(rows, "_LONG", 0)
    d = 2 * BLOCK + 10
    start = FrequencyEstimate(np.ones(d) / d)
    f = np.full(d, 1 / d)
    f[place] = -0.25
    loss = losses.LeastSquares()
    swept = swept_slope(loss, start, f)
    assert swept.extent.lowest == -0.25
    assert swept.extent.size == pytest.approx(f.sum(), rel=1e-12)
    f[place] = np.nan
    swept = swept_slope(loss, start, f)
    assert np.isnan(swept.extent.lowest)
    assert np.isnan(swept.extent.size)


@pytest.mark.parametrize("place", [0, 7, 14, 19])
@pytest.mark.parametrize("odd", [-0.25, np.nan])
@pytest.mark.parametrize(
    "loss", [losses.LeastSquares(), losses.LeastSquares() + losses.Huber(0.01)]
)
def test_parts_are_those_of_the_gradient_and_see_all_values(place, odd, loss, monkeypatch):
    """The odd value is first or last in a part, or in the last one, which is shorter."""
    monkeypatch.setattr(rows, "_LONG", 0)
    monkeypatch.setattr(parts, "_PART", 8)
    start = FrequencyEstimate(np.linspace(0.0, 0.1, 20))
    f = np.full(20, 0.05)
    f[place] = odd
    slopes = LongSlopes(loss, start, f)
    # A part may be overwritten by the next one.
    whole = np.concatenate([slope.copy() for _, slope in slopes.parts()])
    expected = loss.gradient(f, start)
    assert_allclose(whole, expected, rtol=1e-12)
    assert_allclose(slopes.at(itemgetter(slice(3, 11))), expected[3:11], rtol=1e-12)
    if len(list(loss.leaves())) > 1:
        # A sum is no formula, and nothing has looked at its values.
        assert slopes.extent is None
        return
    assert_allclose(slopes.extent, (f.sum(), odd), rtol=1e-12)


def locked(shape):
    ones = np.ones(shape)
    ones.flags.writeable = False
    return ones


GRADIENTS = {
    "one number": lambda shape: np.broadcast_to(1, shape),
    "locked": locked,
    "short numbers": lambda shape: np.ones(shape, dtype=np.float32),
    "columns": lambda shape: np.ones(shape[::-1]).T,
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_of_other_kinds_are_copied(name):
    class Flat(losses.LeastSquares):
        def gradient(self, f, estimate):
            return GRADIENTS[name](f.shape)

    slope = slope_of(Flat(), reports(oracles.OUE(1.0, D)), np.full((2, D), 1 / D))
    slope += 0.5
    assert slope.shape == (2, D)
    assert slope.dtype == np.float64
    assert slope.flags.c_contiguous
    assert (slope == 1.5).all()


def test_a_usual_gradient_is_not_copied():
    given = np.ones((2, D))

    class Flat(losses.LeastSquares):
        def gradient(self, f, estimate):
            return given

    assert slope_of(Flat(), reports(oracles.OUE(1.0, D)), np.full((2, D), 1 / D)) is given

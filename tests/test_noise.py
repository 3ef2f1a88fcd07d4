"""The noise of an estimate: against exhaustive enumeration, and given by hand."""

import pickle

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from ldpopt import FrequencyEstimate, losses, oracles
from ldpopt.claims.reference.channels import channel
from ldpopt.covariance import Covariance
from ldpopt.errors import InvalidInputError, InvalidTypeError
from ldpopt.estimate import Noise
from ldpopt.protocol import PureProtocol
from tests.tolerances import CERTIFIED

SMALL = {
    "grr": oracles.GRR(epsilon=0.7, d=5),
    "sue": oracles.SUE(epsilon=1.3, d=4),
    "oue": oracles.OUE(epsilon=1.0, d=4),
    "olh": oracles.OLH(epsilon=1.5, d=3),
    "blh": oracles.BLH(epsilon=1.0, d=4),
    "subset": oracles.SubsetSelection(epsilon=0.8, d=6),
    "hadamard": oracles.HadamardResponse(epsilon=1.0, d=5),
    "hadamard, full": oracles.HadamardResponse(epsilon=2.0, d=7),
}
every_small_oracle = pytest.mark.parametrize("oracle", SMALL.values(), ids=list(SMALL))
HAND = PureProtocol(epsilon=1.0, d=3, p=0.5, q=0.25)
COVARIANCE = np.asarray(Noise.of_reports(100, SMALL["grr"]).covariance(np.full(5, 0.2)))


def population(d):
    """A vector of true frequencies without ties, sum 1."""
    weights = np.arange(1.0, d + 1) ** 1.5
    return weights / weights.sum()


@every_small_oracle
def test_the_covariance_is_that_of_all_reports_enumerated(oracle):
    f = population(oracle.d)
    exact = channel(oracle).covariance(f) / (oracle.p - oracle.q) ** 2 / 50
    covariance = Noise.of_reports(50, oracle).covariance(f)
    assert_allclose(covariance.dense(), exact, rtol=0, atol=CERTIFIED)
    assert_allclose(covariance.diagonal, np.diag(exact), rtol=0, atol=CERTIFIED)


@every_small_oracle
def test_products_and_quadratic_forms_are_those_of_the_dense_matrix(oracle):
    covariance = Noise.of_reports(9, oracle).covariance(population(oracle.d))
    x = np.random.default_rng(0).standard_normal((4, oracle.d))
    dense = covariance.dense()
    assert_allclose(covariance @ x[0], dense @ x[0], rtol=0, atol=CERTIFIED)
    assert_allclose(covariance @ x.T, dense @ x.T, rtol=0, atol=CERTIFIED)
    expected = np.einsum("iv,vw,iw->i", x, dense, x)
    assert_allclose(covariance.quadratic(x), expected, rtol=0, atol=CERTIFIED)
    assert covariance.quadratic(x[0]).shape == ()


@every_small_oracle
def test_the_variance_of_a_set_is_its_quadratic_form(oracle):
    # Hadamard response puts Norm-Sub estimates for f: at the truth itself both are the same.
    noise = Noise.of_reports(100, oracle)
    f = population(oracle.d)
    sets = np.zeros((3, oracle.d))
    sets[0, :2] = sets[1, 1:] = sets[2] = 1.0
    from scipy.sparse import csr_array

    constant, slope = noise.answer_variance(f, csr_array(sets))
    variance = noise.covariance(f).quadratic(sets)
    assert_allclose(constant + slope * (sets @ f), variance, rtol=0, atol=CERTIFIED)


def test_variances_by_hand():
    # p = 1/2, q = 1/4: a = (3/16)/(1/16) = 3 and b = (1/4)/(1/4) = 1.
    noise = Noise.of_reports(100, HAND)
    assert (noise.a, noise.b, noise.n, noise.protocol) == (3.0, 1.0, 100, HAND)
    assert noise.kappa == HAND.kappa
    assert noise.is_common
    assert_allclose(noise.variance([0.0, 0.5, 1.0]), [0.03, 0.035, 0.04], rtol=0, atol=CERTIFIED)
    assert noise.sd == pytest.approx(0.03**0.5)
    assert noise.in_counts() == pytest.approx((100, 100 * 0.03**0.5, 1.0))


def test_noise_given_by_hand_is_a_diagonal():
    noise = Noise([0.01, 0.04, 0.09], slope=0.5)
    assert noise.n is None
    assert noise.protocol is None
    assert not noise.is_common
    assert_allclose(noise.sd, [0.1, 0.2, 0.3], rtol=0, atol=CERTIFIED)
    assert_allclose(noise.variance([0, 0.2, 1]), [0.01, 0.14, 0.59], rtol=0, atol=CERTIFIED)
    covariance = noise.covariance([0, 0.2, 0.8])
    assert_allclose(covariance.dense(), np.diag([0.01, 0.14, 0.49]), rtol=0, atol=CERTIFIED)


def test_the_ratio_of_slope_to_constant_must_be_one_number():
    assert Noise([0.1, 0.2], slope=[0.2, 0.4]).kappa == pytest.approx(2.0)
    assert Noise([0.1, 0.2]).kappa == 0.0
    with pytest.raises(InvalidInputError, match="one ratio of slope to constant"):
        Noise([0.1, 0.2], slope=0.1).kappa  # noqa: B018


def test_n_counts_as_one_where_it_is_not_known():
    assert (Noise(0.5, slope=0.25).a, Noise(0.5, slope=0.25).b) == (0.5, 0.25)
    noise = Noise(0.5, slope=0.25, n=8)
    assert (noise.a, noise.b) == (4.0, 2.0)
    assert noise.in_counts() == pytest.approx((8, 8 * 0.5**0.5, 2.0))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.1, 0.0],), "must be positive, found 0 at index 1 for a frequency of 0"),
        (([0.1, -1.0],), "found -1 at index 1"),
        (([0.1, 0.2], -0.1), "found 0 at index 0 for a frequency of 1"),
        (([0.1, np.nan],), "finite, found nan at index 1"),
        (([[0.1]],), r"shape \(d,\)"),
        (([],), r"shape \(d,\)"),
        (([0.1, 0.2], [0.1] * 3), "2 variances and 3 slopes"),
        ((0.1, 0.0, 0), "n .* must be at least 1"),
    ],
)
def test_noise_that_cannot_be_is_refused(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        Noise(*arguments)


@pytest.mark.parametrize("covariance", [np.eye(2) / 100, COVARIANCE], ids=["diagonal", "reports"])
def test_a_covariance_matrix_is_answered_with_what_to_pass_instead(covariance):
    d = len(covariance)
    message = rf"shape \(d,\), got shape \({d}, {d}\): .* its diagonal, np\.diag\(covariance\)"
    for build in (Noise, lambda noise: FrequencyEstimate(np.ones(d) / d, noise=noise)):
        with pytest.raises(InvalidInputError, match=message):
            build(covariance)
    estimate = FrequencyEstimate(np.ones(d) / d, noise=np.diag(covariance))
    assert_array_equal(estimate.noise.variance(0.0), np.diag(covariance))


@pytest.mark.parametrize("shape", [(2, 3), (0, 0), (2, 2, 2)])
def test_another_shape_of_noise_mentions_no_covariance(shape):
    with pytest.raises(InvalidInputError, match=r"must have shape \(d,\), got shape \(.*\)$"):
        Noise(np.ones(shape))


def test_what_noise_by_hand_does_not_know_is_refused():
    noise = Noise([0.1, 0.2], n=10)
    with pytest.raises(InvalidInputError, match="given by hand"):
        noise.require_protocol()
    with pytest.raises(InvalidInputError, match="same noise for all values"):
        noise.in_counts()
    with pytest.raises(InvalidInputError, match="number of reports"):
        Noise(0.1).require_n()
    with pytest.raises(InvalidTypeError, match="protocol must be"):
        Noise.of_reports(10, "oue")
    with pytest.raises(InvalidInputError, match="p and q alone"):
        Noise.of_reports(10, HAND).covariance([0.2, 0.3, 0.5])
    with pytest.raises(InvalidInputError, match="positive, found -1 at index 1"):
        Noise(1.0, slope=1.0).variance([0.0, -2.0])


def test_noise_cannot_be_changed():
    given = np.array([0.1, 0.2])
    noise = Noise(given)
    given[0] = 5.0
    assert noise.constant[0] == 0.1
    with pytest.raises(ValueError, match="read-only"):
        noise.constant[0] = 1.0
    with pytest.raises(AttributeError):
        noise.n = 3
    assert pickle.loads(pickle.dumps(noise)).constant.tolist() == [0.1, 0.2]


def test_a_covariance_refuses_what_does_not_fit():
    covariance = Covariance(np.ones(3), np.ones((3, 1)), np.eye(1))
    assert covariance.shape == (3, 3)
    assert repr(covariance) == "Covariance(d=3)"
    with pytest.raises(InvalidInputError, match=r"shape \(3,\) or \(3, m\), got shape \(2,\)"):
        covariance @ np.ones(2)
    with pytest.raises(InvalidInputError, match=r"3 values on the last axis, got shape \(2,\)"):
        covariance.quadratic(np.ones(2))
    with pytest.raises(InvalidInputError, match="one vector"):
        Noise(0.1).covariance(np.ones((2, 3)))


def test_the_noise_of_an_estimate_is_that_of_its_reports():
    noise = FrequencyEstimate([0.5, 0.3, 0.2], n=100, oracle=HAND).noise
    assert (noise.n, noise.protocol, noise.constant) == (100, HAND, HAND.a / 100)
    assert repr(noise) == f"Noise.of_reports(100, {HAND!r})"
    assert repr(Noise([0.1, 0.2])) == "Noise(<2 variances>, n=None)"


def test_slopes_that_are_a_multiple_of_the_constants_have_one_ratio_up_to_rounding():
    constants = np.linspace(0.1, 0.7, 50)
    slopes = 0.5 * constants
    slopes[7] *= 1 + 2 * np.finfo(float).eps  # as rounding may leave it
    assert np.ptp(slopes / constants) > 0
    assert Noise(constants, slopes).kappa == pytest.approx(0.5, rel=1e-14)
    with pytest.raises(InvalidInputError, match="one ratio of slope to constant"):
        _ = Noise(constants, slopes * np.linspace(1, 1 + 1e-12, 50)).kappa


def test_a_stack_has_one_noise_per_value():
    estimate = FrequencyEstimate(np.zeros((2, 3)), noise=[0.01, 0.04, 0.09])
    assert_allclose(estimate.noise.sd, [0.1, 0.2, 0.3], rtol=1e-12)
    with pytest.raises(InvalidInputError, match="that of 2 values, the estimate has 3"):
        FrequencyEstimate(np.zeros((2, 3)), noise=[0.01, 0.04])


@every_small_oracle
def test_functions_of_arrays_take_a_covariance_for_its_matrix(oracle):
    covariance = Noise.of_reports(100, oracle).covariance(np.full(oracle.d, 1 / oracle.d))
    dense = covariance.dense()
    assert_array_equal(np.asarray(covariance), dense)
    assert_array_equal(np.linalg.pinv(covariance), np.linalg.pinv(dense))
    assert np.asarray(covariance, dtype=np.float32).dtype == np.float32
    with pytest.raises(ValueError, match="as an array it is a copy"):
        np.array(covariance, copy=False)


def test_a_quadratic_form_takes_a_covariance():
    estimate = SMALL["oue"].estimate([40, 35, 30, 28], 100)
    loss = losses.Custom(lambda f, y, noise: cp.matrix_frac(f - y, noise.covariance(y)))
    written = losses.Custom(lambda f, y, noise: cp.matrix_frac(f - y, noise.covariance(y).dense()))
    f = np.full(4, 0.25)
    assert loss.value(f, estimate) == written.value(f, estimate) > 0


@every_small_oracle
def test_an_oracle_has_the_covariance_of_estimates_and_lists(oracle):
    f = np.full(oracle.d, 1 / oracle.d)
    exact = oracle.covariance(f).dense()
    for given in (f.tolist(), FrequencyEstimate(f)):
        assert_array_equal(oracle.covariance(given).dense(), exact)
    with pytest.raises(InvalidInputError, match=f"must have {oracle.d} values on the last axis"):
        oracle.covariance(f[1:])

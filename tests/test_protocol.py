"""Pure protocols: p, q and every constant that follows, against the published formulas."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from ldpopt.errors import InvalidInputError, LdpoptError
from ldpopt.oracles import BLH, GRR, OLH, ORACLES, OUE, SUE, HadamardResponse, SubsetSelection
from ldpopt.protocol import PureProtocol
from tests.tolerances import EPS, ROUNDING, SUM

EPSILONS = [0.1, 0.5, 1.0, math.log(3), 2.0, 5.0]
DOMAINS = [2, 3, 10, 1024]
everywhere = pytest.mark.parametrize(
    ("epsilon", "d"), [(epsilon, d) for epsilon in EPSILONS for d in DOMAINS]
)


@everywhere
def test_p_and_q_are_the_published_ones(epsilon, d):
    e = math.exp(epsilon)
    k = max(1, round(d / (e + 1)))
    nearest = max(2, math.floor(e + 1.5))
    floor = max(2, math.floor(e + 1))
    p_subset = k * e / (k * e + d - k)
    expected = [
        (GRR(epsilon, d), e / (e + d - 1), 1 / (e + d - 1)),
        (SUE(epsilon, d), math.sqrt(e) / (math.sqrt(e) + 1), 1 / (math.sqrt(e) + 1)),
        (OUE(epsilon, d), 1 / 2, 1 / (e + 1)),
        (OLH(epsilon, d), e / (e + nearest - 1), 1 / nearest),
        (OLH(epsilon, d, rounding="floor"), e / (e + floor - 1), 1 / floor),
        (BLH(epsilon, d), e / (e + 1), 1 / 2),
        (
            SubsetSelection(epsilon, d, rounding="nearest"),
            p_subset,
            p_subset * (k - 1) / (d - 1) + (1 - p_subset) * k / (d - 1),
        ),
        (HadamardResponse(epsilon, d), e / (e + 1), 1 / 2),
    ]
    for oracle, p, q in expected:
        assert (oracle.p, oracle.q) == pytest.approx((p, q), rel=SUM), oracle
        assert (oracle.epsilon, oracle.d) == (epsilon, d)


@pytest.mark.parametrize(
    ("epsilon", "nearest", "floor"),
    [(0.1, 2, 2), (0.45, 3, 2), (1.0, 4, 3), (math.log(2) + 1e-9, 3, 3), (2.0, 8, 8)],
)
def test_the_number_of_buckets(epsilon, nearest, floor):
    assert OLH(epsilon, 10).g == nearest
    assert OLH(epsilon, 10, rounding="floor").g == floor
    assert BLH(epsilon, 10).g == 2


@pytest.mark.parametrize(
    ("epsilon", "d", "k"), [(1.0, 10, 3), (1.0, 2, 1), (0.1, 2, 1), (5.0, 100, 1), (0.1, 100, 48)]
)
def test_the_size_of_a_subset(epsilon, d, k):
    assert SubsetSelection(epsilon, d, rounding="nearest").k == k
    assert SubsetSelection(epsilon, d).k == k


@everywhere
def test_the_best_size_of_a_subset_has_the_smallest_error_over_the_domain(epsilon, d):
    chosen = SubsetSelection(epsilon, d)
    e = math.exp(epsilon)

    def error(k):
        p = k * e / (k * e + d - k)
        q = (p * (k - 1) + (1 - p) * k) / (d - 1)
        return (q * (1 - q) + (p - q) * (1 - p - q) / d) / (p - q) ** 2

    near = range(max(1, chosen.k - 3), min(d, chosen.k + 4))
    assert error(chosen.k) <= min(error(k) for k in near) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("epsilon", "d", "best"), [(1.9, 11, 2), (0.8, 8, 3), (3.1, 33, 2), (4.2, 100, 2)]
)
def test_the_best_size_of_a_subset_is_not_always_the_nearest(epsilon, d, best):
    nearest = SubsetSelection(epsilon, d, rounding="nearest")
    assert (SubsetSelection(epsilon, d).k, nearest.k) == (best, best - 1)
    assert nearest.options == {"rounding": "nearest"}
    assert SubsetSelection(epsilon, d).options == {"rounding": "best"}
    # Where both agree the reports are the same, and so is what files state.
    assert SubsetSelection(1.0, 10, rounding="nearest").options == {"rounding": "best"}


@everywhere
def test_variance_of_oue_is_its_closed_expression(epsilon, d):
    e = math.exp(epsilon)
    n = 1000
    f = np.array([0.0, 0.25, 1.0])
    assert_allclose(OUE(epsilon, d).variance(n, f), (4 * e / (e - 1) ** 2 + f) / n, rtol=100 * SUM)


@everywhere
def test_variance_of_grr_is_its_closed_expression(epsilon, d):
    e = math.exp(epsilon)
    n = 1000
    f = np.array([0.0, 0.25, 1.0])
    expected = ((e + d - 2) / (e - 1) ** 2 + f * (d - 2) / (e - 1)) / n
    assert_allclose(GRR(epsilon, d).variance(n, f), expected, rtol=100 * SUM)


@everywhere
def test_variance_of_sue_and_of_hadamard_is_their_closed_expression(epsilon, d):
    root = math.exp(epsilon / 2)
    e = math.exp(epsilon)
    n = 1000
    f = np.array([0.0, 0.25, 1.0])
    assert_allclose(
        SUE(epsilon, d).variance(n, f), np.full(3, root / (root - 1) ** 2 / n), rtol=100 * SUM
    )
    assert_allclose(
        HadamardResponse(epsilon, d).variance(n, f),
        (((e + 1) / (e - 1)) ** 2 - f) / n,
        rtol=100 * SUM,
    )


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("name", ORACLES)
def test_a_b_kappa_equal_exact_arithmetic(name, epsilon):
    oracle = ORACLES[name](epsilon, 10)
    p, q = Fraction(oracle.p), Fraction(oracle.q)
    a = q * (1 - q) / (p - q) ** 2
    b = (1 - p - q) / (p - q)
    scale = float(1 / (p - q))  # b is a difference of numbers of order 1, divided by p - q
    assert oracle.a == pytest.approx(float(a), rel=ROUNDING)
    assert oracle.b == pytest.approx(float(b), rel=ROUNDING, abs=EPS * scale)
    assert oracle.kappa == pytest.approx(float(b / a), rel=ROUNDING, abs=4 * EPS)
    f = Fraction(3, 10)
    binomial = (
        (f * p * (1 - p) + (1 - f) * q * (1 - q)) / (p - q) ** 2 / 500
    )  # of f n users with p, the others with q
    assert float(oracle.variance(500, 0.3)) == pytest.approx(float(binomial), rel=10 * ROUNDING)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_kappa_where_it_has_a_name(epsilon):
    assert OUE(epsilon, 10).kappa == pytest.approx(math.sinh(epsilon / 2) ** 2, rel=100 * SUM)
    assert abs(SUE(epsilon, 10).kappa) <= 4 * EPS
    assert abs(GRR(epsilon, 2).kappa) <= ROUNDING * math.exp(epsilon)  # divided by q(1-q)
    assert HadamardResponse(epsilon, 10).kappa == pytest.approx(
        -(math.tanh(epsilon / 2) ** 2), rel=100 * SUM
    )


@given(name=st.sampled_from(list(ORACLES)), epsilon=st.floats(1e-3, 20), d=st.integers(2, 10**6))
def test_constants_of_every_oracle_are_sane(name, epsilon, d):
    oracle = ORACLES[name](epsilon, d)
    assert 0 < oracle.q < oracle.p < 1
    assert oracle.kappa > -1
    assert oracle.a > 0
    assert oracle.a + oracle.b > 0  # the variance of a value that everybody has


@given(p=st.floats(1e-9, 1 - 1e-9), q=st.floats(1e-9, 1 - 1e-9))
def test_kappa_is_above_minus_one_for_every_pure_protocol(p, q):
    if q < p and p - q > 1e-9:
        assert PureProtocol(1.0, 3, p=p, q=q).kappa > -1


def test_variance_keeps_the_shape_of_the_frequency():
    oracle = OUE(1.0, 4)
    assert oracle.variance(10).shape == ()
    assert oracle.variance(10, np.zeros((3, 4))).shape == (3, 4)
    assert oracle.sd(10) == pytest.approx(math.sqrt(oracle.a / 10), rel=ROUNDING)
    assert oracle.sd(10) ** 2 == pytest.approx(float(oracle.variance(10)), rel=ROUNDING)


@pytest.mark.parametrize("frequency", [-0.1, 1.1, math.nan, [0.5, 2.0]])
def test_variance_refuses_what_is_no_share_of_users(frequency):
    with pytest.raises(InvalidInputError, match=r"frequency must lie in 0 \.\. 1"):
        OUE(1.0, 4).variance(10, frequency)


def test_variance_refuses_text_by_name():
    with pytest.raises(LdpoptError, match="frequency"):
        OUE(1.0, 4).variance(10, "a")


@pytest.mark.parametrize("n", [0, -5])
@pytest.mark.parametrize("method", ["variance", "sd"])
def test_noise_of_no_reports_is_refused(method, n):
    with pytest.raises(
        InvalidInputError, match=rf"n \(the number of reports\) must be at least 1, got {n}"
    ):
        getattr(OUE(1.0, 4), method)(n)


@pytest.mark.parametrize(
    ("p", "q"),
    [
        (0.25, 0.5),
        (0.5, 0.5),
        (1.0, 0.5),
        (0.5, 0.0),
        (1.5, 0.5),
        (0.5, -0.1),
        (math.nan, 0.5),
        (0.5, math.nan),
    ],
)
def test_probabilities_that_make_no_protocol_are_refused(p, q):
    with pytest.raises(
        InvalidInputError, match=r"a protocol needs 0 < q < p < 1|must be a finite number"
    ):
        PureProtocol(1.0, 3, p=p, q=q)


@pytest.mark.parametrize(
    ("name", "p", "q"), [("p", "a", 0.2), ("p", None, 0.2), ("q", 0.5, "a"), ("q", 0.5, None)]
)
def test_probabilities_that_are_no_numbers_are_refused_by_name(name, p, q):
    with pytest.raises(LdpoptError, match=rf"^{name}\b"):
        PureProtocol(1.0, 3, p=p, q=q)


def test_probabilities_may_be_close_but_not_within_rounding_errors():
    assert PureProtocol(1.0, 3, p=0.5, q=0.5 - 1e-11).a == pytest.approx(0.25e22, rel=1e-4)
    with pytest.raises(InvalidInputError, match="a protocol needs 0 < q < p < 1"):
        PureProtocol(1.0, 3, p=0.5, q=0.5 - 1e-13)


def test_probabilities_have_no_default_and_no_position():
    with pytest.raises(TypeError, match="positional"):
        PureProtocol(1.0, 3, 0.5, 0.25)
    with pytest.raises(TypeError, match="missing"):
        PureProtocol(1.0, 3)


def test_repr_says_what_was_built():
    assert repr(OUE(1, 4)) == "OUE(epsilon=1, d=4, p=0.5, q=0.268941)"


@pytest.mark.parametrize("d", [2, 3, 17])
@pytest.mark.parametrize(("name", "fixed"), [("grr", True), ("ss", True), ("oue", False)])
def test_reports_of_grr_and_of_subsets_support_a_fixed_number_of_values(name, fixed, d):
    assert ORACLES[name](1.0, d).has_fixed_size is fixed

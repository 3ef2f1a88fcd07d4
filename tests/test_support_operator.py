"""Reports as a matrix: its products against naive support, and the likelihood ratio."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from ldpopt.errors import LdpoptError
from ldpopt.oracles import OLH, ORACLES, OUE
from tests.test_oracles import enumerable, enumerate_channel, naive_support
from tests.tolerances import SUM

every_oracle = pytest.mark.parametrize("name", list(ORACLES))


def some_reports(oracle, n, seed=0):
    rng = np.random.default_rng(seed)
    return oracle.perturb(rng.integers(0, oracle.d, n), rng=rng)


def naive_matrix(oracle, reports):
    matrix = np.zeros((len(reports), oracle.d))
    for row, report in zip(matrix, reports, strict=True):
        row[naive_support(oracle, report)] = 1
    return matrix


def tolerance(oracle):
    """Sums and transforms of up to 2 d numbers of order 1."""
    return 2 * oracle.d * SUM


@pytest.mark.parametrize("d", [2, 3, 7, 8, 9, 30, 64])
@every_oracle
def test_products_are_those_of_the_matrix(name, d):
    oracle = ORACLES[name](1.0, d)
    reports = some_reports(oracle, 50, seed=d)
    matrix = naive_matrix(oracle, reports)
    operator = oracle.support_operator(reports)
    rng = np.random.default_rng(d)
    f = rng.normal(size=d)
    w = rng.normal(size=50)
    assert operator.shape == (50, d)
    assert operator.dtype == np.float64
    assert_allclose(operator.matvec(f), matrix @ f, rtol=0, atol=tolerance(oracle))
    assert_allclose(operator.rmatvec(w), matrix.T @ w, rtol=0, atol=tolerance(oracle))
    assert_allclose(operator @ np.eye(d), matrix, rtol=0, atol=tolerance(oracle))
    assert_allclose(operator.T @ np.eye(50), matrix.T, rtol=0, atol=tolerance(oracle))


@every_oracle
def test_weights_of_one_give_the_support_counts(name):
    oracle = ORACLES[name](2.0, 77)
    reports = some_reports(oracle, 3_000)
    assert_array_equal(
        oracle.support_operator(reports).rmatvec(np.ones(3_000)), oracle.support_counts(reports)
    )


@every_oracle
def test_many_reports_and_blocks_of_them_agree(name):
    oracle = ORACLES[name](1.0, 40)
    reports = some_reports(oracle, 250_000)  # more than one block of subset selection's
    rng = np.random.default_rng(1)
    f = rng.random(40)
    w = rng.random(250_000)
    whole = oracle.support_operator(reports)
    parts = [
        oracle.support_operator(reports[start : start + 50_000])
        for start in range(0, 250_000, 50_000)
    ]
    assert_allclose(
        whole.matvec(f),
        np.concatenate([part.matvec(f) for part in parts]),
        rtol=0,
        atol=tolerance(oracle),
    )
    by_parts = sum(part.rmatvec(block) for part, block in zip(parts, w.reshape(5, -1), strict=True))
    assert_allclose(whole.rmatvec(w), by_parts, rtol=1e-12)
    assert_allclose(w @ whole.matvec(f), whole.rmatvec(w) @ f, rtol=1e-12)


@every_oracle
def test_zeros_of_f_change_nothing(name):
    oracle = ORACLES[name](1.0, 50)
    reports = some_reports(oracle, 20)
    f = np.zeros(50)
    f[[0, 9, 49]] = 0.5, 0.25, 0.25
    expected = naive_matrix(oracle, reports) @ f
    assert_allclose(
        oracle.support_operator(reports).matvec(f), expected, rtol=0, atol=tolerance(oracle)
    )


@every_oracle
def test_columns_and_whole_numbers_are_vectors_too(name):
    oracle = ORACLES[name](1.0, 10)
    operator = oracle.support_operator(some_reports(oracle, 6))
    # By products alone: from scipy 1.18 on, matvec takes no column.
    f = np.arange(10)
    w = np.arange(6)
    for columns in (1, 2):
        products = operator @ np.repeat(f[:, None], columns, axis=1)
        assert_array_equal(products, np.repeat(operator.matvec(f)[:, None], columns, axis=1))
        products = operator.H @ np.repeat(w[:, None], columns, axis=1)
        assert_array_equal(products, np.repeat(operator.rmatvec(w)[:, None], columns, axis=1))
    assert operator.matvec(f).dtype == np.float64


@every_oracle
def test_views_of_reports_are_read_as_what_they_show(name):
    oracle = ORACLES[name](1.0, 20)
    reports = some_reports(oracle, 30)
    expected = naive_matrix(oracle, reports[::-3]) @ np.arange(20.0)
    assert_allclose(
        oracle.support_operator(reports[::-3]).matvec(np.arange(20)), expected, rtol=0, atol=1e-10
    )


@every_oracle
def test_no_reports_are_a_matrix_without_rows(name):
    oracle = ORACLES[name](1.0, 10)
    operator = oracle.support_operator(some_reports(oracle, 3)[:0])
    assert operator.matvec(np.ones(10)).shape == (0,)
    assert_array_equal(operator.rmatvec(np.ones(0)), np.zeros(10))
    assert operator.rmatvec(np.ones(0)).dtype == np.float64


@every_oracle
@given(st.integers(0, 2**32), st.integers(2, 40), st.integers(1, 30))
def test_both_products_belong_to_one_matrix(name, seed, d, n):
    oracle = ORACLES[name](1.5, d)
    operator = oracle.support_operator(some_reports(oracle, n, seed))
    rng = np.random.default_rng(seed)
    f = rng.normal(size=d)
    w = rng.normal(size=n)
    assert abs(w @ operator.matvec(f) - operator.rmatvec(w) @ f) <= n * tolerance(oracle)


# --- the likelihood ratio -------------------------------------------------------------------------


@enumerable
def test_likelihood_of_every_report_depends_on_support_alone_by_the_same_ratio(oracle):
    channel = enumerate_channel(oracle)
    supported = channel.support == 1
    for probability, support in zip(channel.probability.T, supported, strict=True):
        if support.any() and not support.all():
            assert_allclose(
                probability[support] / probability[~support][0], oracle.likelihood_ratio, rtol=1e-12
            )
        for same in (probability[support], probability[~support]):
            assert_allclose(same, np.resize(same, 1)[0], rtol=1e-12)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 3.0, 9.0])
@every_oracle
def test_likelihood_ratio_is_the_whole_budget(name, epsilon):
    assert_allclose(ORACLES[name](epsilon, 16).likelihood_ratio, np.exp(epsilon), rtol=1e-10)


# --- refused reports ------------------------------------------------------------------------------

REFUSED = {
    "a value beyond the domain": ("grr", np.array([1, 10]), "report 1 is out of range"),
    "bits beyond the domain": ("oue", np.full((2, 2), 255, dtype=np.uint8), "beyond its 10 values"),
    "no records": ("olh", np.arange(3), "records of seed and bucket"),
    "an index beyond the columns": ("hr", np.array([99]), "report 0 is out of range"),
    "no set": ("ss", np.array([[3, 3, 1]]), "not a set in ascending order"),
    "ragged": ("ss", [[1, 2, 3], [1, 2]], "one array"),
    "floats": ("grr", np.array([0.5]), "whole numbers"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_reports_are_checked_as_by_support_counts(case):
    name, reports, message = REFUSED[case]
    oracle = ORACLES[name](1.0, 10)
    with pytest.raises(LdpoptError, match=message) as of_operator:
        oracle.support_operator(reports)
    with pytest.raises(LdpoptError) as of_counts:
        oracle.support_counts(reports)
    assert str(of_operator.value) == str(of_counts.value)


def test_the_operator_keeps_its_own_copy_of_packed_bits():
    for oracle in (OUE(1.0, 20), OLH(1.0, 20)):
        reports = some_reports(oracle, 10)
        operator = oracle.support_operator(reports)
        before = operator.matvec(np.arange(20))
        reports[:] = reports[::-1].copy()
        assert_array_equal(operator.matvec(np.arange(20)), before)

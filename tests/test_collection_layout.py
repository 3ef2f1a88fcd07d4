"""Reports as columns: nothing is lost, and a row is set aside where the oracle would refuse it."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldpopt.collection.layout import PackedSubsetLayout, Reason, layout_of
from ldpopt.errors import LdpoptError
from ldpopt.oracles.forms import SubsetForm
from tests.reports_world import MAKERS, reports_of

every_oracle = pytest.mark.parametrize("name", MAKERS)
NOTHING = {Reason.NONE}


def named(codes):
    return [Reason(code) for code in codes]


@every_oracle
@pytest.mark.parametrize("d", [2, 3, 9, 300])
def test_columns_and_text_keep_every_report(name, d):
    oracle = MAKERS[name](d)
    reports = reports_of(oracle, 50)
    layout = layout_of(oracle)
    columns = layout.encode(reports)
    assert [column.type for column in columns] == list(layout.types)
    for decoded, codes in (layout.decode(columns), layout.parse(layout.text(reports))):
        assert set(codes) == {0}
        assert decoded.dtype == reports.dtype
        assert np.array_equal(decoded, reports)


@every_oracle
def test_a_slice_of_a_column_is_its_own_rows(name):
    oracle = MAKERS[name](11)
    reports = reports_of(oracle, 50)
    layout = layout_of(oracle)
    decoded, _ = layout.decode([column.slice(7, 20) for column in layout.encode(reports)])
    assert np.array_equal(decoded, reports[7:27])
    assert len(layout.decode([column.slice(0, 0) for column in layout.encode(reports)])[0]) == 0


def refused(oracle, row):
    try:
        oracle.support_counts(row)
    except LdpoptError:
        return True
    return False


@pytest.mark.parametrize("name", ["grr", "oue", "olh", "ss", "hr"])
@pytest.mark.parametrize("d", [2, 5, 12])
@settings(max_examples=40)
@given(data=st.data())
def test_a_row_is_set_aside_where_the_oracle_refuses_it(name, d, data):
    oracle = MAKERS[name](d)
    layout = layout_of(oracle)
    small = st.integers(-2, 2 * d + 4)
    if name == "oue":
        rows = data.draw(
            st.lists(
                st.binary(min_size=layout.width, max_size=layout.width), min_size=1, max_size=8
            )
        )
        columns = [pa.array(rows, pa.binary())]
        given = np.array([list(row) for row in rows], dtype=np.uint8)
    elif name == "ss":
        rows = data.draw(
            st.lists(st.lists(small, min_size=oracle.k, max_size=oracle.k), min_size=1, max_size=8)
        )
        columns = [pa.array(rows, pa.list_(pa.int64()))]
        given = np.array(rows)
    elif name == "olh":
        rows = data.draw(
            st.lists(st.tuples(st.integers(0, 2**63 - 1), small), min_size=1, max_size=8)
        )
        given = np.array(rows, dtype=[("seed", np.int64), ("bucket", np.int64)])
        columns = [pa.array(given["seed"]), pa.array(given["bucket"])]
    else:
        rows = data.draw(st.lists(small, min_size=1, max_size=8))
        columns = [pa.array(rows, pa.int64())]
        given = np.array(rows)
    reports, codes = layout.decode(columns)
    assert [code > 0 for code in codes] == [
        refused(oracle, given[i : i + 1]) for i in range(len(given))
    ]
    oracle.support_counts(reports[codes == 0])


M = Reason.MISSING
N = Reason.NAN
T = Reason.TYPE
L = Reason.LENGTH
R = Reason.RANGE
P = Reason.PADDING
U = Reason.ORDER
ok = Reason.NONE
SUSPICIOUS = [
    ("grr", [pa.array([0, None, 8, 9, -1])], [ok, M, ok, R, R]),
    ("grr", [pa.array([0, None, 3], pa.uint8()).dictionary_encode()], [ok, M, ok]),
    ("grr", [pa.array([0.0, None, float("nan"), 1.5])], [T, M, N, T]),
    ("grr", [pa.array(["1", None])], [T, M]),
    ("grr", [pa.array([True, False])], [T, T]),
    ("grr", [pa.nulls(2)], [M, M]),
    ("hr", [pa.array([15, 16, 2**40], pa.uint64())], [ok, R, R]),
    (
        "oue",
        [pa.array([b"\x01\x80", b"\x01", b"\x01\x80\x00", None, b"\x01\x01"])],
        [ok, L, L, M, P],
    ),
    ("oue", [pa.array([b"\x01\x80", None], pa.binary(2))], [ok, M]),
    ("oue", [pa.array([b"123", None], pa.binary(3))], [L, M]),
    ("oue", [pa.array([3, None])], [T, M]),
    ("oue", [pa.array(["\x01\x02"])], [T]),
    (
        "olh",
        [pa.array([0, 2**64 - 1, None, 4], pa.uint64()), pa.array([3, 4, 0, None])],
        [ok, R, M, M],
    ),
    ("olh", [pa.array([-1, 5]), pa.array([0, -1])], [R, R]),
    ("olh", [pa.array([1.0, float("nan")]), pa.array([0, 0])], [T, N]),
    (
        "ss",
        [pa.array([[0, 8], [1, 1], [2, 1], [1], [], None, [1, None], [1, 9]])],
        [ok, U, U, L, L, M, M, R],
    ),
    ("ss", [pa.array([[0, 1], None], pa.list_(pa.int8(), 2))], [ok, M]),
    ("ss", [pa.array([[0, 1, 2], None], pa.list_(pa.int8(), 3))], [L, M]),
    ("ss", [pa.array([[0.0, 1.0], [0.0, float("nan")], None])], [T, T, M]),
    ("ss", [pa.array([5, 6])], [T, T]),
]


@pytest.mark.parametrize(
    ("name", "columns", "reasons"),
    SUSPICIOUS,
    ids=[f"{i}-{case[0]}-{case[1][0].type}" for i, case in enumerate(SUSPICIOUS)],
)
def test_every_reason_is_told(name, columns, reasons):
    oracle = MAKERS[name](9)
    reports, codes = layout_of(oracle).decode(columns)
    assert named(codes) == reasons
    assert len(reports) == len(reasons)
    oracle.support_counts(reports[codes == 0])


@pytest.mark.parametrize(
    ("name", "rows", "reasons"),
    [
        (
            "grr",
            ["8", "9", "", "NaN", "1.0", "-1", "9" * 40, "1e3", " 1"],
            [ok, R, M, N, T, R, T, T, T],
        ),
        ("oue", ["0180", "018", "01", "", "018000", "0x80", "0101"], [ok, L, L, M, L, T, P]),
        ("ss", ["0 8", "1 1", "8 0", "1", "", "1 9", "1 x", "1 nan"], [ok, U, U, L, M, R, T, N]),
    ],
)
def test_every_reason_is_told_of_text(name, rows, reasons):
    oracle = MAKERS[name](9)
    reports, codes = layout_of(oracle).parse([[row] for row in rows])
    assert named(codes) == reasons
    oracle.support_counts(reports[codes == 0])


def test_text_of_seed_and_bucket():
    rows = [[str(2**64 - 1), "3"], [str(2**64), "0"], ["1", "4"], ["", "4"], ["1", "nan"]]
    reports, codes = layout_of(MAKERS["olh"](9)).parse(rows)
    assert named(codes) == [ok, R, R, M, N]
    assert reports[0]["seed"] == 2**64 - 1


def test_every_reason_has_a_number_and_words_of_its_own():
    # A number that is given twice makes one name stand for another.
    assert len(Reason.__members__) == len(Reason)
    assert len({reason.words for reason in Reason}) == len(Reason)
    assert Reason.NAN.words == "not a number (NaN)"


@pytest.mark.parametrize("d", [2, 9, 300])
def test_sets_as_bits_are_the_sets(d):
    oracle = MAKERS["ss"](d)
    reports = reports_of(oracle, 50)
    layout = PackedSubsetLayout(oracle.report_form)
    decoded, codes = layout.decode(layout.encode(reports))
    assert set(codes) == {0}
    assert np.array_equal(layout.reports(decoded), reports)
    assert layout.reports(decoded).dtype == reports.dtype
    counts = layout.form.support_counts(decoded)
    assert np.array_equal(counts, oracle.support_counts(reports))


def test_bits_that_are_no_set_of_the_right_size_are_set_aside():
    layout = PackedSubsetLayout(SubsetForm(d=10, k=2))
    rows = [b"\xc0\x00", b"\x80\x40", b"\x80\x00", b"\xe0\x00", b"\x80\x20", None]
    _, codes = layout.decode([pa.array(rows, pa.binary(2))])
    none = Reason.NONE
    too_few_or_many = Reason.LENGTH
    beyond = Reason.PADDING
    expected = [none, none, too_few_or_many, too_few_or_many, beyond, Reason.MISSING]
    assert named(codes) == expected

"""Every bit of a file is checked, and no file gets more memory than its reports can take."""

import io
import json
import os
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ldpopt.collection import aggregate, duplicates, files, pages, parquet, seal_reports, text
from ldpopt.collection.counts import read_counts, write_counts
from ldpopt.collection.files import open_reports, write_reports
from ldpopt.collection.partition import Reason
from ldpopt.errors import DataUnavailableError, InvalidInputError, LdpoptError
from tests.reports_world import MAKERS, edit, header_of, reports_of, rewrite

UNDER_TORTURE = "LDPOPT_TORTURE" in os.environ
ORACLE = MAKERS["oue"](8)


def flips(content, start=0, end=None, *, all_bits=UNDER_TORTURE):
    """Yield a place and the content with one bit changed, for every byte from start to end."""
    for place in range(start, len(content) if end is None else end):
        for bit in range(8) if all_bits else [place % 8]:
            changed = bytearray(content)
            changed[place] ^= 1 << bit
            yield place, bytes(changed)


@pytest.mark.parametrize("name", MAKERS)
def test_every_bit_of_a_footer_is_checked(name, tmp_path):
    path = tmp_path / "r.parquet"
    oracle = MAKERS[name](20)
    write_reports(path, oracle, reports_of(oracle, 3), client_ids=["a", "b", "c"])
    content = path.read_bytes()
    start, _ = parquet._footer(path)
    # Every bit of one kind on every run, every byte of the others.
    for place, changed in flips(content, start, all_bits=UNDER_TORTURE or name == "oue"):
        path.write_bytes(changed)
        try:
            open_reports(path)
        except LdpoptError:
            continue
        pytest.fail(f"byte {place - start} of the footer is not checked")


def test_every_bit_of_the_headers_of_pages_is_checked_or_means_nothing(tmp_path):
    path = tmp_path / "r.parquet"
    with files.ReportWriter(path, ORACLE) as writer:
        for group in range(2):
            writer.write(reports_of(ORACLE, 3, seed=group), [group, 7, 8])
    expected = aggregate(path)
    content = path.read_bytes()
    footer, _ = parquet._footer(path)
    starts = [
        pq.read_metadata(path).row_group(group).column(column).data_page_offset
        for group, column in ((0, 0), (0, 1), (1, 0))
    ]
    unnoticed = 0
    for start in starts:
        for _, changed in flips(content, start, min(footer, start + 20), all_bits=True):
            path.write_bytes(changed)
            try:
                result = aggregate(path)
            except LdpoptError:
                continue
            unnoticed += 1
            assert result.counts.tolist() == expected.counts.tolist()
            assert (result.n, result.rejected) == (expected.n, expected.rejected)
    assert unnoticed < 100


@pytest.mark.parametrize("kind", ["reports", "counts.json", "counts.csv", "state"])
def test_every_bit_of_a_text_file_is_checked(kind, tmp_path):
    reports = tmp_path / "r.csv"
    write_reports(reports, MAKERS["grr"](3), [0, 2], client_ids=["a", "é"])
    path = tmp_path / f"x.{kind.rpartition('.')[2]}"

    def read():
        if kind == "reports":
            return aggregate(path)
        if kind == "state":
            return aggregate(reports, state=path)
        return read_counts(path, None, None, None)

    if kind == "reports":
        path = reports
    elif kind == "state":
        aggregate(reports, state=path)
    else:
        write_counts(path, aggregate(reports))
    assert read().n == 2
    for place, changed in flips(path.read_bytes()):
        path.write_bytes(changed)
        try:
            read()
        except LdpoptError:
            continue
        pytest.fail(f"byte {place} is not checked")


def test_a_file_without_a_place_for_its_checksum_is_not_sealed(tmp_path):
    path = tmp_path / "r.parquet"
    pq.write_table(pa.table({"report": [0]}), path)
    with pytest.raises(InvalidInputError, match="no place for a checksum"):
        seal_reports(path)
    path.write_bytes(b"PAR1")
    with pytest.raises(DataUnavailableError, match="does not end as a Parquet file"):
        seal_reports(path)


def test_a_file_of_another_program_is_sealed(tmp_path):
    path = tmp_path / "r.parquet"
    write_reports(path, ORACLE, reports_of(ORACLE, 5))
    expected = aggregate(path).counts
    table = pq.read_table(path)
    metadata = {parquet.METADATA: json.dumps(header_of(path))}
    pq.write_table(table.replace_schema_metadata(metadata), path, write_page_checksum=True)
    with pytest.raises(DataUnavailableError, match="does not have the checksum"):
        aggregate(path)
    seal_reports(path)
    assert aggregate(path).counts.tolist() == expected.tolist()
    pq.write_table(table.replace_schema_metadata(metadata), path)
    seal_reports(path)
    with pytest.raises(InvalidInputError, match="page without a checksum"):
        aggregate(path)


def test_counts_of_grr_sum_to_the_number_of_reports(tmp_path):
    reports = tmp_path / "r.csv"
    path = tmp_path / "c.json"
    write_reports(reports, MAKERS["grr"](3), [0, 2])
    write_counts(path, aggregate(reports))
    edit(path, lambda text: text.replace("[1, 0, 1]", "[1, 1, 1]"))
    with pytest.raises(InvalidInputError, match="sum 3, but that of 2 reports is 2"):
        read_counts(path, None, None, None)


# --- bombs ----------------------------------------------------------------------------------------


def bomb(path, column, ids=None, **options):
    """Replace the columns of a file of OUE reports, and forge its checksum."""
    write_reports(path, ORACLE, reports_of(ORACLE, 1), client_ids=None if ids is None else ["a"])
    columns = {"report": column}
    if ids is not None:
        columns["client_id"] = ids
    rewrite(path, pa.table(columns), **options)


@pytest.fixture(autouse=True)
def memory():
    """No test here may let Arrow hold what a bomb asks for."""
    pool = pa.default_memory_pool()
    before = pool.max_memory()
    yield
    assert pool.max_memory() < max(before + 1, 1 << 28)


LONG = 1 << 23  # bytes: many rows of it would fill gigabytes


def test_a_long_id_that_many_rows_repeat_is_set_aside(tmp_path):
    path = tmp_path / "r.parquet"
    rows = 1000
    ids = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), ["x" * 2**20])
    # Without Arrow's schema nothing tells the reader that there is a dictionary.
    reports = pa.array([b"\x00"] * rows, pa.binary(1))
    bomb(path, reports, ids, compression="zstd", store_schema=False)
    assert path.stat().st_size < 5000
    result = aggregate(path)
    assert (result.n, result.rejected) == (0, {"client id of more than 1,024 bytes": rows})


@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "RLE_DICTIONARY", "PLAIN"])
def test_long_values_in_few_bytes_are_refused(encoding, tmp_path):
    path = tmp_path / "r.parquet"
    options = {"compression": "zstd", "data_page_version": "2.0"}
    if encoding == "RLE_DICTIONARY":
        options |= {"use_dictionary": True, "dictionary_pagesize_limit": 1 << 30}
    else:
        options |= {"use_dictionary": False, "column_encoding": {"report": encoding}}
    bomb(path, pa.array([b"x" * LONG, b"x" * LONG, b"\x00"]), **options)
    words = "encoding 7" if encoding == "DELTA_BYTE_ARRAY" else "more than reports"
    with pytest.raises(InvalidInputError, match=words):
        aggregate(path)


def test_wide_rows_and_long_lists_are_refused(tmp_path):
    path = tmp_path / "r.parquet"
    wide = pa.DictionaryArray.from_arrays(
        pa.array([0] * 20, pa.int32()), pa.array([b"x" * 2**20], pa.binary(2**20))
    )
    bomb(path, wide, compression="zstd")
    with pytest.raises(InvalidInputError, match=r"claims to hold [0-9,]+ bytes in 20 rows"):
        aggregate(path)
    oracle = MAKERS["ss"](8)
    write_reports(path, oracle, reports_of(oracle, 1))
    rewrite(path, pa.table({"report": [np.zeros(10**6, np.uint8)]}))
    with pytest.raises(InvalidInputError, match="claims to hold 8,"):
        aggregate(path)


def varint(number):
    """Return a number of Thrift's compact protocol: seven bits per byte, its sign in the lowest."""
    number = 2 * number if number >= 0 else -2 * number - 1
    digits = [number >> shift & 127 for shift in range(0, max(1, number.bit_length()), 7)]
    return bytes([digit | 128 for digit in digits[:-1]] + digits[-1:])


def page(size=1, stored=1, encoding=0, *, has_checksum=True, more=b""):
    """Return a page of one byte: the fields of PageHeader, and DataPageHeader within it."""
    fields = [0, size, stored, *([7] if has_checksum else [])]
    inner = b"".join(b"\x15" + varint(number) for number in (1, encoding, 3, 3)) + more
    # A field's first byte is its distance from the last one, and its type: a number or a struct.
    outer = b"".join(b"\x15" + varint(number) for number in fields)
    return outer + (b"\x1c" if has_checksum else b"\x2c") + inner + b"\x00\x00" + b"?"


HEADERS_OF_PAGES = {
    "as it is": (page(), 9),
    "two": (page() + page(), 10),
    "nothing": (b"", 8),
    "2 GiB": (page(size=2**31 - 1), 2**31 + 7),
    "less than nothing": (page(size=-1), "leaves its column"),
    "beyond the column": (page(stored=2), "leaves its column"),
    "backwards": (page(stored=-100), "leaves its column"),
    "no checksum": (page(has_checksum=False), "page without a checksum"),
    "another encoding": (page(encoding=7), "encoding 7"),
    # More than 15 from the last field, of which the distance leaves no place: 3, then 30 and 31.
    "fields that state their numbers": (page(more=b"\x05" + varint(30) + varint(3) + b"\x11"), 9),
    "a field that states the number of another": (
        page(more=b"\x05" + varint(2) + varint(7)),
        "encoding 7",
    ),
    "cut": (page()[:9], "no page at 0"),
    "a number without an end": (b"\x15" + b"\xff" * 600, "no page at 0"),
    "structs in structs": (b"\x1c" * 70_000, "no page at 0"),
    "a list": (b"\x19\x15", "no page at 0"),
    "a text beyond the end": (b"\x18\xff\xff\x03", "no page at 0"),
}


@pytest.mark.parametrize("case", HEADERS_OF_PAGES)
def test_headers_of_pages_are_read_or_refused(case):
    content, expected = HEADERS_OF_PAGES[case]
    chunk = SimpleNamespace(
        dictionary_page_offset=None,
        data_page_offset=0,
        total_compressed_size=len(content),
        num_values=1,
    )
    file = io.BytesIO(content)
    if isinstance(expected, int):
        assert pages._size_of(file, "x", chunk, 1 << 20) == expected
    else:
        with pytest.raises(InvalidInputError, match=expected):
            pages._size_of(file, "x", chunk, 1 << 20)


def test_a_line_without_an_end_is_refused(tmp_path):
    path = tmp_path / "r.csv"
    write_reports(path, MAKERS["grr"](3), [0, 1])
    edit(path, lambda text: text.replace("\n1,\n", f"\n{'1' * 200_000},\n"))
    with pytest.raises(DataUnavailableError, match="a line has 131,088 bytes or more"):
        aggregate(path)


def test_wide_reports_in_text_are_read_few_at_a_time(tmp_path, monkeypatch):
    path = tmp_path / "r.csv"
    oracle = MAKERS["oue"](700_000)
    reports = np.zeros((3, 87_500), np.uint8)
    write_reports(path, oracle, reports)
    monkeypatch.setattr(text, "_BYTES", 100_000)
    batches = [len(codes) for _, codes in open_reports(path).batches(0, 1)]
    assert batches == [1, 1, 1]


@pytest.mark.parametrize("d", [2**24 + 1, 2**30, 10**400])
def test_a_header_of_a_huge_domain_is_refused(d, tmp_path):
    path = tmp_path / "r.csv"
    write_reports(path, MAKERS["grr"](3), [0])
    edit(path, lambda text: text.replace('""d"": 3', f'""d"": {d}'))
    with pytest.raises(InvalidInputError, match=r"d = |d must be|not JSON"):
        aggregate(path)


# --- client ids -----------------------------------------------------------------------------------


def test_clients_are_told_apart_when_half_of_their_hash_agrees(monkeypatch):
    key = duplicates._key()
    key[0] = 0
    monkeypatch.setattr(duplicates, "_key", lambda: key)
    ids = pa.array([f"{i % 70}" for i in range(100)])
    with duplicates._Buckets(1) as buckets:
        records = np.empty(100, duplicates._DEALT)
        records["part"] = 0
        records["row"] = np.arange(100)
        records["hash"], codes = duplicates._hashed(ids, key)
        buckets.deal(records)
        repeated = duplicates._repeated_rows(buckets)
    assert not codes.any()
    assert sorted(repeated["row"].tolist()) == [*range(30), *range(70, 100)]
    assert len(np.unique(repeated["client"])) == 30


def test_every_byte_of_an_id_counts():
    key = duplicates._key()
    ids = ["a", "b", "ab", "ba", "a\0", "a\0\0", "\0a", "x" * 1024, "x" * 1023 + "y", "é", "é "]
    hashes, codes = duplicates._hashed(pa.array([*ids, "", None, "x" * 1025]), key)
    assert len({one.tobytes() for one in hashes[: len(ids)]}) == len(ids)
    assert codes.tolist() == [0] * len(ids) + [Reason.NO_ID, Reason.NO_ID, Reason.LONG_ID]
    again, _ = duplicates._hashed(pa.array(["a", "7", "a"]).dictionary_encode(), key)
    assert again[0] == again[2] == hashes[0]
    assert duplicates._hashed(pa.array([7]), key)[0] == again[1]


def test_ids_are_never_written(tmp_path, monkeypatch):
    path = tmp_path / "r.csv"
    write_reports(path, MAKERS["grr"](3), [0, 1, 1], client_ids=["alice", "bob", "alice"])
    written = []
    deal = duplicates._Buckets.deal

    def watched(self, records):
        written.append(records.tobytes())
        deal(self, records)

    monkeypatch.setattr(duplicates._Buckets, "deal", watched)
    rejects = tmp_path / "rejects.csv"
    assert aggregate(path, rejects=rejects).rejected == {"duplicate client id": 1}
    assert written
    assert b"alice" not in b"".join(written) + rejects.read_bytes()


def test_a_bad_row_does_not_silence_its_client(tmp_path):
    path = tmp_path / "r.csv"
    ids = ["a", "b", "a", "c", "a", "b"]
    write_reports(path, MAKERS["grr"](6), [0, 1, 2, 3, 4, 5], client_ids=ids)
    edit(path, lambda text: text.replace("\n0,a", "\n9,a"))
    result = aggregate(path)
    assert result.counts.tolist() == [0, 1, 1, 1, 0, 0]
    assert result.rejected == {"out of range": 1, "duplicate client id": 2}

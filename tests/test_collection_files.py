"""Files of reports: what was written is read, and nothing else is believed."""

import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ldpopt import collection as files
from ldpopt.collection import header, parquet
from ldpopt.collection.header import Header
from ldpopt.collection.layout import layout_of
from ldpopt.errors import DataUnavailableError, InvalidInputError, InvalidTypeError
from ldpopt.oracles import GRR, OLH, OUE, SubsetSelection
from ldpopt.oracles.hashing import LocalHashing
from ldpopt.protocol import PureProtocol
from tests.reports_world import MAKERS, edit, header_of, reports_of, rewrite

OUE8 = OUE(1.0, 8)


@pytest.fixture
def stored(tmp_path):
    """Three row groups of reports with client ids."""
    path = tmp_path / "reports.parquet"
    with files.ReportWriter(path, OUE8) as writer:
        for group in range(3):
            writer.write(
                reports_of(OUE8, 100, seed=group),
                client_ids=np.arange(100 * group, 100 * group + 100),
            )
    return path


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_what_was_written_is_read(name, suffix, tmp_path):
    oracle = MAKERS[name](20)
    reports = reports_of(oracle, 30)
    path = tmp_path / f"reports{suffix}"
    files.write_reports(path, oracle, reports, client_ids=[f"«client», {i}" for i in range(30)])
    read_oracle, read = files.read_reports(path)
    assert np.array_equal(read, reports)
    assert type(read_oracle) is type(oracle)
    assert (read_oracle.epsilon, read_oracle.d) == (oracle.epsilon, oracle.d)
    assert (read_oracle.p, read_oracle.q) == (oracle.p, oracle.q)
    assert files.open_reports(path).has_ids


def test_a_writer_makes_the_folders_above_its_file(tmp_path):
    path = tmp_path / "2026" / "november" / "r.csv"
    files.write_reports(path, GRR(1.0, 3), [2, 0])
    assert files.read_reports(path)[1].tolist() == [2, 0]


def test_a_row_group_holds_so_many_narrow_reports(tmp_path):
    path = tmp_path / "r.parquet"
    files.write_reports(path, GRR(1.0, 4), np.zeros(300_000, dtype=np.int64))
    assert files.open_reports(path).group_rows == [2**18, 300_000 - 2**18]


def test_a_csv_file_with_other_columns_is_refused(tmp_path):
    path = tmp_path / "r.csv"
    files.write_reports(path, GRR(1.0, 3), [2, 0])
    edit(path, lambda text: text.replace("report,", "report,town,").replace(",\n", ",x,\n"))
    with pytest.raises(InvalidInputError, match=r"columns must be report\[,client_id\] and the h"):
        files.open_reports(path)


@pytest.mark.parametrize("epsilon", [0.1, 1 / 3, np.nextafter(1, 2)])
def test_epsilon_survives_to_the_last_bit(epsilon, tmp_path):
    files.write_reports(tmp_path / "r.csv", GRR(epsilon, 3), [0])
    assert files.open_reports(tmp_path / "r.csv").header.oracle.epsilon == epsilon


def test_parts_are_appended_to_a_folder(tmp_path):
    for part in range(3):
        files.append_reports(tmp_path, OUE8, reports_of(OUE8, 10, seed=part))
    parts = sorted(tmp_path.iterdir())
    assert [path.name[:11] for path in parts] == ["part-000000", "part-000001", "part-000002"]
    with pytest.raises(InvalidInputError, match=r"epsilon = 2\.0.*epsilon = 1\.0"):
        files.append_reports(tmp_path, OUE(2.0, 8), reports_of(OUE(2.0, 8), 1))
    with pytest.raises(InvalidInputError, match="no client ids"):
        files.append_reports(tmp_path, OUE8, reports_of(OUE8, 1), client_ids=["a"])
    assert sorted(tmp_path.iterdir()) == parts


def test_an_interrupted_writer_leaves_the_old_file(stored):
    before = stored.read_bytes()

    def write():
        with files.ReportWriter(stored, OUE8) as writer:
            writer.write(reports_of(OUE8, 10))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert stored.read_bytes() == before
    assert list(stored.parent.iterdir()) == [stored]


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        ([1], "2 reports"),
        (["a", None], "missing"),
        ([1, "a"], "all text"),
        ([1.5, 2.5], "all text"),
        ([2**70, 1], "64 bits"),
    ],
    ids=["too few", "null", "mixed", "floats", "too large"],
)
def test_wrong_client_ids_are_refused(ids, words, tmp_path):
    with pytest.raises(InvalidInputError, match=words):
        files.write_reports(tmp_path / "r.parquet", OUE8, reports_of(OUE8, 2), client_ids=ids)
    assert not list(tmp_path.iterdir())


def test_what_is_no_report_is_not_written(tmp_path):
    with pytest.raises(InvalidInputError, match="report 1 is out of range"):
        files.write_reports(tmp_path / "r.parquet", GRR(1.0, 3), [0, 3])
    with (
        pytest.raises(InvalidInputError, match="would have no report"),
        files.ReportWriter(tmp_path / "r.csv", OUE8),
    ):
        pass
    with files.ReportWriter(tmp_path / "r.csv", OUE8) as writer:
        writer.write(reports_of(OUE8, 1), ["a"])
        with pytest.raises(InvalidInputError, match="one kind of ids"):
            writer.write(reports_of(OUE8, 1))
    (tmp_path / "r.csv").unlink()
    with pytest.raises(InvalidInputError, match=r"end in \.parquet or \.csv"):
        files.write_reports(tmp_path / "r.txt", OUE8, reports_of(OUE8, 1))
    with pytest.raises(InvalidInputError, match="cannot write"):
        files.write_reports("/dev/null/r.csv", OUE8, reports_of(OUE8, 1))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "oracle", [PureProtocol(1.0, 8, p=0.5, q=0.2), LocalHashing(1.0, 8, 7)], ids=["pure", "hashing"]
)
def test_an_oracle_without_a_name_is_refused(oracle, tmp_path):
    with pytest.raises(InvalidTypeError, match="only reports of grr"):
        files.write_reports(tmp_path / "r.csv", oracle, [0])


def with_metadata(path, change):
    rewrite(path, pq.read_table(path), change(header_of(path)) or "")


HEADERS = {
    "none": (lambda record: None, "does not say which oracle"),
    "no JSON": (lambda record: "{", "not JSON"),
    "a list": (lambda record: "[]", "does not say which oracle"),
    "no epsilon": (
        lambda record: json.dumps({k: v for k, v in record.items() if k != "epsilon"}),
        "say the epsilon",
    ),
    "the first version": (lambda record: json.dumps(record | {"version": 1}), "version 1"),
    "no checksum": (
        lambda record: json.dumps({k: v for k, v in record.items() if k != "sha256"}),
        "say the sha256",
    ),
    "no digits of a checksum": (
        lambda record: json.dumps(record | {"sha256": "0"}),
        "has no checksum",
    ),
    "another oracle": (
        lambda record: json.dumps(record | {"oracle": "ouch"}),
        "unknown oracle 'ouch'",
    ),
    "epsilon as text": (
        lambda record: json.dumps(record | {"epsilon": "1"}),
        "epsilon must be a number",
    ),
    "epsilon NaN": (
        lambda record: json.dumps(record | {"epsilon": float("nan")}),
        "epsilon must be a finite",
    ),
    "labels that are no text": (
        lambda record: json.dumps(record | {"labels": [1]}),
        "labels = .1., which is not text",
    ),
    "a file that is no text": (
        lambda record: json.dumps(record | {"file": {}}),
        "file = {}, which is not text",
    ),
    "a huge d": (lambda record: json.dumps(record | {"d": 2**24 + 1}), r"2\*\*24"),
    "no column": (
        lambda record: json.dumps(record | {"oracle": "olh"}),
        "no column 'seed' and 'bucket'",
    ),
}


@pytest.mark.parametrize("case", HEADERS)
def test_a_header_that_cannot_be_right_is_refused(case, stored):
    change, words = HEADERS[case]
    with_metadata(stored, change)
    with pytest.raises((InvalidInputError, InvalidTypeError), match=words) as caught:
        files.open_reports(stored)
    assert "reports.parquet" in str(caught.value)


def test_sets_that_an_earlier_version_wrote_as_lists_are_read(tmp_path, monkeypatch):
    oracle = SubsetSelection(1.0, 40)
    reports = reports_of(oracle, 60)
    new = tmp_path / "new.parquet"
    old = tmp_path / "old.parquet"
    files.write_reports(new, oracle, reports[:20])
    with monkeypatch.context() as patch:
        patch.setattr(parquet, "parquet_layout", layout_of)
        patch.setattr(header, "VERSION", 3)
        files.write_reports(old, oracle, reports[20:])
    assert header_of(old)["version"] == 3
    kinds = [pq.read_schema(path).field(0).type for path in (new, old)]
    assert kinds == [pa.binary(5), layout_of(oracle).types[0]]
    counted = files.aggregate([new, old])
    assert np.array_equal(counted.counts, oracle.support_counts(reports))
    read = [files.read_reports(path)[1] for path in (new, old)]
    assert np.array_equal(np.concatenate(read), reports)


def test_small_sets_of_a_large_domain_stay_lists(tmp_path):
    oracle = SubsetSelection(8.0, 1024)
    path = tmp_path / "r.parquet"
    reports = reports_of(oracle, 20)
    files.write_reports(path, oracle, reports)
    assert pq.read_schema(path).field(0).type == layout_of(oracle).types[0]
    assert np.array_equal(files.read_reports(path)[1], reports)


def test_a_header_keeps_how_the_size_of_a_subset_was_chosen():
    oracle = SubsetSelection(1.9, 11, rounding="nearest")
    header = Header.from_record(Header(oracle).record(), "here")
    assert (oracle.k, header.oracle.k) == (1, 1)
    with pytest.raises(InvalidInputError, match="rounding = 'nearest', but there has rounding"):
        header.agree(Header(SubsetSelection(1.9, 11)), "here", "there")


def test_a_header_that_contradicts_itself_is_refused():
    record = Header(OLH(1.0, 8)).record()
    with pytest.raises(InvalidInputError, match=r"here says g = 3, but its protocol has 4"):
        Header.from_record(record | {"g": 3}, "here")
    with pytest.raises(InvalidInputError, match="rounding"):
        Header.from_record(record | {"rounding": "up"}, "here")


def test_client_ids_of_another_type_are_refused(stored):
    table = pq.read_table(stored)
    wrong = table.set_column(1, "client_id", pa.array(np.zeros(len(table))))
    rewrite(stored, wrong)
    with pytest.raises(InvalidInputError, match="text or whole numbers, found double"):
        files.open_reports(stored)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_named(share, stored):
    content = stored.read_bytes()
    stored.write_bytes(content[: int(share * len(content))])
    with pytest.raises(DataUnavailableError, match=r"reports\.parquet is truncated, corrupt"):
        files.read_reports(stored)


def test_no_flipped_bit_of_a_report_goes_unnoticed(stored):
    content = stored.read_bytes()
    chunk = pq.ParquetFile(stored).metadata.row_group(1).column(0)
    rng = np.random.default_rng(0)
    noticed = 0
    for at in rng.integers(
        chunk.data_page_offset, chunk.data_page_offset + chunk.total_compressed_size, size=40
    ):
        broken = bytearray(content)
        broken[at] ^= 1 << int(rng.integers(8))
        stored.write_bytes(broken)
        try:
            _, reports = files.read_reports(stored)
        except DataUnavailableError:
            noticed += 1
        else:  # the flip hit a field of the page's header that no reader needs
            assert np.array_equal(
                reports, np.concatenate([reports_of(OUE8, 100, seed=group) for group in range(3)])
            )
    assert noticed > 20


CSV_DAMAGE = {
    "no header": (
        lambda text: text.split("\n", 1)[1],
        InvalidInputError,
        "does not say which oracle",
    ),
    "header no JSON": (lambda text: text.replace("{", "[", 1), InvalidInputError, "not JSON"),
    "another column": (
        lambda text: text.replace("report,client_id", "bits,client_id"),
        InvalidInputError,
        "columns must be",
    ),
    "cut in a row": (lambda text: text[:-40], DataUnavailableError, "truncated"),
    "cut after a row": (
        lambda text: "\n".join(text.splitlines()[:-1]) + "\n",
        DataUnavailableError,
        "truncated",
    ),
    "a row lost": (
        lambda text: "\n".join(text.splitlines()[:2] + text.splitlines()[3:]),
        DataUnavailableError,
        "has 9 rows and not 10",
    ),
    "more rows": (lambda text: text + "00,x\n", DataUnavailableError, "corrupt"),
    "an open quote": (
        lambda text: text.replace("\n", '\n"', 2),
        (InvalidInputError, DataUnavailableError),
        "r.csv",
    ),
}


@pytest.mark.parametrize("case", CSV_DAMAGE)
def test_damaged_csv_is_named(case, tmp_path):
    change, error, words = CSV_DAMAGE[case]
    path = tmp_path / "r.csv"
    files.write_reports(path, OUE8, reports_of(OUE8, 10), client_ids=[str(i) for i in range(10)])
    path.write_text(change(path.read_text("utf-8")), encoding="utf-8")
    with pytest.raises(error, match=words):
        files.open_reports(path)


def test_csv_that_is_not_text_is_named(tmp_path):
    (tmp_path / "r.csv").write_bytes(b'report,"sha256 \xff\xfe"')
    with pytest.raises(DataUnavailableError, match=r"r\.csv is truncated, corrupt or unreadable"):
        files.open_reports(tmp_path / "r.csv")


def test_read_reports_names_the_first_bad_row(stored):
    table = pq.read_table(stored)
    rows = table["report"].to_pylist()
    rows[150] = b"too long"
    wrong = pa.table([pa.array(rows, pa.binary()), table["client_id"]], names=table.schema.names)
    rewrite(stored, wrong)
    with pytest.raises(InvalidInputError, match="row 150 is not a report: wrong length"):
        files.read_reports(stored)


def test_find_refuses_what_would_be_counted_twice_or_passed_over(stored, tmp_path):
    from ldpopt.collection.files import list_files

    assert list_files([tmp_path]) == [stored]
    (tmp_path / ".reports.parquet.1.part").write_bytes(b"of a killed writer")
    assert list_files([tmp_path]) == [stored]
    with pytest.raises(InvalidInputError, match="given twice"):
        list_files([tmp_path, stored])
    (tmp_path / "link.parquet").symlink_to(stored)
    with pytest.raises(InvalidInputError, match="given twice"):
        list_files([tmp_path])
    (tmp_path / "link.parquet").unlink()
    shutil.copy(stored, tmp_path / "notes.txt")
    with pytest.raises(InvalidInputError, match=r"notes\.txt is not a file of reports"):
        list_files([tmp_path])
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInputError, match="folder without files"):
        list_files([tmp_path / "empty"])
    with pytest.raises(InvalidInputError, match="does not exist"):
        list_files([tmp_path / "none.parquet"])


def test_folders_that_are_missing_are_created(tmp_path):
    """That of a file and that of parts, with all above them."""
    reports = OUE8.perturb([1, 2], rng=0)
    files.write_reports(tmp_path / "new" / "folder" / "reports.parquet", OUE8, reports)
    assert (tmp_path / "new" / "folder" / "reports.parquet").exists()
    part = files.append_reports(tmp_path / "another" / "new" / "folder", OUE8, reports)
    assert part.parent == tmp_path / "another" / "new" / "folder"

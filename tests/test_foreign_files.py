"""Files of other programs: a service's Parquet and CSV, values in Parquet, our tables elsewhere."""

import csv
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ldpopt.collection import Schema, aggregate, read_reports, write_reports
from ldpopt.collection.counts import read_counts, write_counts
from ldpopt.collection.labels import Labels, read_values
from ldpopt.collection.layout import layout_of
from ldpopt.errors import DataUnavailableError, InvalidInputError
from ldpopt.oracles import GRR, ORACLES
from tests.commands import run
from tests.reports_world import reports_of

NAMES = {"olh": ["salt", "cell"], "blh": ["salt", "cell"]}


def service(folder, oracle, reports, ending, **more):
    """Write reports as a service would that knows nothing of ldpopt; return its file's columns."""
    layout = layout_of(oracle)
    names = NAMES.get(oracle.name, ["answer"])
    path = folder / f"service.{ending}"
    if ending == "parquet":
        arrays = dict(zip(names, layout.encode(reports), strict=True))
        pq.write_table(pa.table({"town": ["x"] * len(reports), **arrays, **more}), path)
    else:
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["town", *names, *more])
            for i, row in enumerate(layout.text(reports)):
                writer.writerow(["x, y", *row, *(values[i] for values in more.values())])
    return path, names


@pytest.mark.parametrize("ending", ["parquet", "csv"])
@pytest.mark.parametrize("name", ORACLES)
def test_files_of_a_service_are_counted_by_their_columns(name, ending, tmp_path):
    oracle = ORACLES[name](1.0, 9)
    reports = reports_of(oracle, 200)
    path, names = service(
        tmp_path, oracle, reports, ending, user=[f"u{i % 190}" for i in range(200)]
    )
    result = aggregate(path, schema=Schema(oracle, names))
    assert (result.n, result.counts.tolist()) == (200, oracle.support_counts(reports).tolist())
    once = aggregate(path, schema=Schema(oracle, names, client_id="user"))
    assert (once.n, once.rejected) == (190, {"duplicate client id": 10})
    read, stored = read_reports(path, Schema(oracle, names))
    assert read is oracle
    assert stored.tobytes() == np.ascontiguousarray(reports).tobytes()


def test_rows_of_a_service_that_are_no_reports_are_set_aside(tmp_path):
    path = tmp_path / "s.csv"
    path.write_text("answer,day\n0,mon\n9,mon\n,tue\n1\n2,wed\n")
    result = aggregate(path, schema=Schema(GRR(1.0, 4), ["answer"]), rejects=tmp_path / "r.csv")
    assert result.counts.tolist() == [1, 0, 1, 0]
    assert result.rejected == {"missing value": 1, "out of range": 1, "wrong length": 1}


def test_a_state_belongs_to_the_columns_that_were_read(tmp_path):
    path = tmp_path / "s.csv"
    path.write_text("a,b\n0,1\n0,1\n")
    state = tmp_path / "state"
    oracle = GRR(1.0, 2)
    assert aggregate(path, schema=Schema(oracle, ["a"]), state=state).counts.tolist() == [2, 0]
    with pytest.raises(InvalidInputError, match="read the columns a, and this one the columns b"):
        aggregate(path, schema=Schema(oracle, ["b"]), state=state)
    path.write_text("a,b\n1,1\n1,1\n")
    with pytest.raises(InvalidInputError, match=r"s\.csv has changed"):
        aggregate(path, schema=Schema(oracle, ["a"]), state=state)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("day\n0\n", "has no column 'answer'"),
        ("answer,answer\n0,1\n", "more than one column 'answer'"),
        ('answer\n"0\n', "is not CSV"),
        ("", "has no column 'answer'"),
        ('"answer\n', "first line"),
    ],
)
def test_a_table_that_cannot_be_read_is_named(text, words, tmp_path):
    path = tmp_path / "s.csv"
    path.write_text(text)
    with pytest.raises((InvalidInputError, DataUnavailableError), match=words):
        aggregate(path, schema=Schema(GRR(1.0, 4), ["answer"]))


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_file_that_states_its_protocol_is_not_read_by_columns(ending, tmp_path):
    path = tmp_path / f"r.{ending}"
    write_reports(path, GRR(1.0, 4), [0, 1])
    with pytest.raises(InvalidInputError, match="states its own protocol"):
        aggregate(path, schema=Schema(GRR(2.0, 4), ["report"]))
    other, _ = service(tmp_path, GRR(1.0, 4), np.array([0, 1], np.uint8), ending)
    with pytest.raises(InvalidInputError, match="which oracle"):
        aggregate(other)


@pytest.mark.parametrize(
    ("columns", "client_id", "words"),
    [
        (["a", "b"], None, r"have 1 columns \(report\), got 2 names"),
        (["a"], "a", "'a' is named twice"),
    ],
)
def test_a_schema_that_cannot_be_right_is_refused(columns, client_id, words):
    with pytest.raises(InvalidInputError, match=words):
        Schema(GRR(1.0, 4), columns, client_id)


COLOURS = ["red", "blue", "été", "7"]


def answers_in(folder, column, ending):
    """Write one column of answers as Parquet or CSV and return the file's path."""
    path = folder / f"answers.{ending}"
    if ending == "parquet":
        pq.write_table(pa.table({"answer": column}), path)
    else:
        path.write_text(
            "\n".join(["answer", *('""' if x is None else str(x) for x in column)]) + "\n"
        )
    return path


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_randomised_response_may_store_labels(ending, tmp_path):
    answers = ["blue", "été", "blue", "7", "green", None, "Red"]
    path = answers_in(tmp_path, answers + [""] * (ending == "parquet"), ending)
    schema = Schema(GRR(1.0, 4), ["answer"], labels=COLOURS)
    result = aggregate(path, schema=schema, rejects=tmp_path / "rejects.csv")
    assert result.counts.tolist() == [0, 2, 1, 1]
    no_label = 3 if ending == "parquet" else 2
    assert result.rejected == {"missing value": 1, "unknown label": no_label}
    numbers = answers_in(tmp_path, [0, 0, 3, 4], ending)
    counted = aggregate(numbers, schema=schema)
    assert counted.counts.tolist() == [2, 0, 0, 1]
    assert counted.rejected == {"out of range": 1}


def test_labels_of_a_dictionary_are_read(tmp_path):
    path = answers_in(tmp_path, pa.array(["red", "blue", "red"]).dictionary_encode(), "parquet")
    schema = Schema(GRR(1.0, 4), ["answer"], labels=COLOURS)
    assert aggregate(path, schema=schema).counts.tolist() == [2, 1, 0, 0]


def test_digits_that_are_a_label_and_another_number_are_refused_in_text(tmp_path):
    schema = Schema(GRR(1.0, 3), ["answer"], labels=["1", "2", "3"])
    with pytest.raises(InvalidInputError, match="'1' could be the label of value 0 or the number"):
        aggregate(answers_in(tmp_path, ["1", "3"], "csv"), schema=schema)
    # The type of a column in Parquet states which of the two it holds.
    texts = answers_in(tmp_path, ["1", "3"], "parquet")
    assert aggregate(texts, schema=schema).counts.tolist() == [1, 0, 1]
    numbers = answers_in(tmp_path, [1, 2], "parquet")
    assert aggregate(numbers, schema=schema).counts.tolist() == [0, 1, 1]


def test_reports_that_are_no_values_have_no_labels(tmp_path):
    """A report of Hadamard response is a number, but not of a value: text is set aside."""
    path = answers_in(tmp_path, ["red", "blue"], "parquet")
    schema = Schema(ORACLES["hr"](1.0, 4), ["answer"], labels=COLOURS)
    assert aggregate(path, schema=schema).rejected == {"wrong type": 2}


@pytest.mark.parametrize(
    ("labels", "words"),
    [(["a", "b"], "sequence of 4 names, got 2"), (["a", "b", "c", "a"], "value 0 and of value 3")],
)
def test_labels_of_a_schema_are_checked(labels, words):
    with pytest.raises(InvalidInputError, match=words):
        Schema(GRR(1.0, 4), labels=labels)


def test_commands_take_columns_of_a_service(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    oracle = ORACLES["olh"](1.0, 4)
    reports = reports_of(oracle, 100)
    path, _ = service(tmp_path, oracle, reports, "parquet")
    (tmp_path / "labels.txt").write_text("a\nb\nc\nd\n")
    about = ["--oracle", "OLH", "--epsilon", 1, "--domain", "labels.txt"]
    columns = ["--column", "salt", "--column", "cell"]
    counted = run("aggregate", path, "--out", "c.json", *about, *columns)
    assert counted.status == 0, counted.err
    stored = read_counts(tmp_path / "c.json", None, None, None)
    assert stored.counts.tolist() == oracle.support_counts(reports).tolist()
    estimated = run("estimate", path, *about, *columns, "--method", "base", "--json")
    rows = json.loads(estimated.out)["estimate"]
    assert [row["value"] for row in rows] == ["a", "b", "c", "d"]
    assert [row["frequency"] for row in rows] == stored.estimate.frequencies.tolist()
    assert "name its columns (Schema, --column)" in run("estimate", path, *about).err
    for arguments, words in (
        ([*about[:4], *columns], "give --domain"),
        ([*about, "--client-id", "user"], "name their --column too"),
        ([*about, "--column", "salt"], "have 2 columns"),
        ([*about, "--column", "salt", "--column", "town"], "has no column"),
    ):
        wrong = run("aggregate", "--out", "d.json", *arguments, path)
        assert wrong.status == 2
        assert words in wrong.err or words == "has no column"


# --- the library's own tables, elsewhere ----------------------------------------------------------


def columns_of(path):
    """Read a file as programs do that know nothing but CSV: one line of names, equal rows."""
    with path.open(newline="") as file:
        names, *rows = csv.reader(file)
    assert {len(row) for row in rows} == {len(names)}
    return dict(zip(names, zip(*rows, strict=True), strict=True))


def test_reports_in_csv_are_one_table_with_names(tmp_path):
    path = tmp_path / "r.csv"
    write_reports(path, GRR(1.0, 4), [2, 0, 3], client_ids=["a", "b", "c"])
    columns = columns_of(path)
    assert list(columns)[:2] == ["report", "client_id"]
    assert columns["report"] == ("2", "0", "3")
    assert set(columns.pop(list(columns)[2])) == {""}
    write_counts(tmp_path / "c.csv", aggregate(path))
    counts = columns_of(tmp_path / "c.csv")
    assert (counts["value"], counts["count"]) == (("0", "1", "2", "3"), ("1", "0", "1", "1"))


def test_reports_in_csv_open_in_pandas_as_they_are(tmp_path):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    path = tmp_path / "r.csv"
    write_reports(path, GRR(1.0, 4), [2, 0, 3])
    frame = pandas.read_csv(path)
    assert frame["report"].tolist() == [2, 0, 3]


@pytest.mark.parametrize("kind", ["reports", "counts"])
def test_csv_of_the_older_format_is_refused_by_a_sentence(kind, tmp_path):
    path = tmp_path / "old.csv"
    path.write_text(f'# ldpopt {kind} {{"version": 2}}\nreport\n0\n# rows 1\n')
    for command in ("aggregate", "estimate"):
        result = run(command, path, "--out", tmp_path / "x.csv")
        assert result.status == 2
        assert "version 2 of the format" in result.err


# --- values in Parquet ----------------------------------------------------------------------------


def indices(path, labels):
    return np.concatenate([values for values, _ in read_values(path, labels)]).tolist()


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["red", "blue", "red"]),
        pa.array(["red", "blue", "red"], pa.large_string()),
        pa.array(["red", "blue", "red"]).dictionary_encode(),
    ],
)
def test_values_in_parquet_are_labels(values, tmp_path):
    pq.write_table(pa.table({"day": [1, 2, 3], "value": values}), tmp_path / "v.parquet")
    assert indices(tmp_path / "v.parquet", Labels(2, ("red", "blue"))) == [0, 1, 0]


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint8()])
def test_values_in_parquet_are_numbers(kind, tmp_path):
    table = pa.table({"value": pa.array([3, 0], kind), "client_id": ["a", "b"]})
    pq.write_table(table, tmp_path / "v.parquet")
    ((values, ids),) = read_values(tmp_path / "v.parquet", Labels(4))
    assert (values.tolist(), ids.to_pylist()) == ([3, 0], ["a", "b"])


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"value": [0, 4]}, "row 1: '4' is not in the domain"),
        ({"value": [0, None]}, "row 1: None is not in the domain"),
        ({"value": [0, -1]}, "row 1: '-1' is not in the domain"),
        ({"value": [0.5]}, "must hold text or whole numbers, found double; with missing"),
        ({"color": [0]}, "no column 'value' or 'label': its columns are color"),
        ({"value": [0], "count": [9]}, "has a column 'count', and each row is one user here"),
    ],
)
def test_values_that_cannot_be_right_are_named(table, words, tmp_path):
    pq.write_table(pa.table(table), tmp_path / "v.parquet")
    with pytest.raises(InvalidInputError, match=words):
        indices(tmp_path / "v.parquet", Labels(4))


def test_a_file_of_values_that_is_no_parquet_is_named(tmp_path):
    (tmp_path / "v.parquet").write_bytes(b"PAR1 nothing PAR1")
    with pytest.raises(InvalidInputError, match=r"cannot read .*v\.parquet"):
        indices(tmp_path / "v.parquet", Labels(4))


def test_values_that_would_fill_the_memory_are_refused(tmp_path):
    path = tmp_path / "v.parquet"
    pq.write_table(pa.table({"value": ["x" * (1 << 22)]}), path, compression="zstd")
    with pytest.raises(InvalidInputError, match="claims to hold"):
        indices(path, Labels(4))


def test_perturb_takes_values_from_parquet(tmp_path):
    pq.write_table(pa.table({"value": ["red"] * 5}), tmp_path / "v.parquet")
    (tmp_path / "labels.txt").write_text("red\nblue\n")
    about = ["--oracle", "grr", "--epsilon", 20, "--domain", tmp_path / "labels.txt"]
    out = tmp_path / "r.parquet"
    assert run("perturb", tmp_path / "v.parquet", *about, "--out", out, "--seed", 1).status == 0
    assert read_reports(out)[1].tolist() == [0] * 5
    before = (tmp_path / "v.parquet").read_bytes()
    over = run("perturb", tmp_path / "v.parquet", *about, "--out", tmp_path / "v.parquet")
    assert (over.status, "would replace" in over.err) == (2, True)
    assert (tmp_path / "v.parquet").read_bytes() == before

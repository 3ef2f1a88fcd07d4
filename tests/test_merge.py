"""Counts of days and regions: what is added, what is refused, and what a finished run remembers."""

import json
import shutil

import numpy as np
import pytest

from ldpopt.collection import aggregate, append_reports, write_reports
from ldpopt.collection import partition as parts
from ldpopt.collection.aggregation import Aggregate
from ldpopt.collection.counts import read_counts, write_counts
from ldpopt.collection.header import Header, fingerprint, label_difference
from ldpopt.collection.merging import merge
from ldpopt.errors import InvalidInputError
from ldpopt.oracles import GRR, OUE
from tests.commands import run
from tests.reports_world import edit

ORACLE = GRR(1.0, 4)
LABELS = ["red", "blue", "green", "white"]


def day(name, reports, *, ids=None, oracle=ORACLE, labels=LABELS):
    """Write reports of a day and count them."""
    write_reports(f"{name}.parquet", oracle, reports, client_ids=ids, labels=labels)
    counted = run("aggregate", f"{name}.parquet", "--out", f"{name}.json")
    assert counted.status == 0, counted.err


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("ending", ["json", "csv"])
def test_merged_counts_are_those_of_all_reports(ending, world):
    day("mon", [0, 1, 1])
    day("tue", [2, 3])
    day("wed", [1])
    result = run("merge", "mon.json", "tue.json", "wed.json", "--out", f"week.{ending}")
    assert (result.status, "6 reports of 3 files of counts." in result.out) == (0, True)
    merged = read_counts(world / f"week.{ending}", None, None, None)
    together = aggregate(["mon.parquet", "tue.parquet", "wed.parquet"])
    assert (merged.n, merged.counts.tolist()) == (together.n, together.counts.tolist())
    assert (merged.files, merged.parts) == (together.files, together.parts)
    assert merged.header.labels == fingerprint(LABELS)
    assert run("estimate", f"week.{ending}").status == 0


def test_what_was_set_aside_is_added_too(world):
    for name in ("mon", "tue"):
        write_reports(f"{name}.csv", ORACLE, [0, 1])
        edit(world / f"{name}.csv", lambda text: text.replace("\n1,\n", "\n9,\n"))
        assert run("aggregate", f"{name}.csv", "--out", f"{name}.json").status == 0
    assert run("merge", "mon.json", "tue.json", "--out", "all.json").status == 0
    assert read_counts(world / "all.json", None, None, None).rejected == {"out of range": 2}


def all_of_one_value(n, **more):
    return Aggregate(Header(ORACLE), np.array([n, 0, 0, 0]), n, **more)


def test_counts_add_up_to_the_largest_number_of_reports_and_not_beyond():
    half = 2**61
    assert merge({"a": all_of_one_value(half), "b": all_of_one_value(half)}).counts.n == 2 * half
    with pytest.raises(InvalidInputError, match="of 4611686018427387905 reports, more than"):
        merge({"a": all_of_one_value(half), "b": all_of_one_value(half + 1)})


@pytest.mark.parametrize(
    "wrong",
    [{"rejected": {"late": "3"}}, {"rejected": {"late": -1}}, {"files": []}, {"unreadable": {}}],
)
def test_what_counts_state_of_their_reports_has_its_type(wrong, tmp_path):
    path = tmp_path / "mon.json"
    write_counts(path, all_of_one_value(3, **wrong))
    with pytest.raises(InvalidInputError, match=r"says \w+ = .*, of the wrong type"):
        read_counts(path, ORACLE, None, None)


def test_merge_refuses_what_does_not_belong_together(world):
    day("mon", [0, 1, 1])
    day("tue", [0, 1, 1])
    day("other", [0, 1], oracle=GRR(2.0, 4))
    day("oue", OUE(1.0, 4).perturb([0, 1], rng=0), oracle=OUE(1.0, 4))
    day("turned", [0], labels=LABELS[::-1])
    day("grey", [0], labels=["red", "blue", "grey", "white"])
    day("numbers", [0], labels=None)
    shutil.copy("mon.json", "copy.json")
    (world / "link.json").symlink_to("mon.json")
    assert run("merge", "mon.json", "tue.json", "--out", "two.json").status == 0
    for names, words in (
        ("mon", "at least two files of counts, got 1"),
        ("mon mon", "are one file"),
        ("mon link", "are one file"),
        ("mon copy", "both counted the file of reports"),
        ("mon two", "both counted the file of reports"),
        ("mon other", "other.json has epsilon = 2.0, but mon.json has epsilon = 1.0"),
        ("mon oue", "oue.json has oracle = 'oue'"),
        ("mon turned", "the same labels in another order"),
        ("mon grey", "differ first in label 3"),
        ("mon numbers", "only one of them has labels"),
        ("mon missing", "missing.json"),
    ):
        files = [f"{name}.json" for name in names.split()]
        result = run("merge", *files, "--out", "sum.json")
        assert (result.status, words in result.err) == (2, True), result.err
        assert not (world / "sum.json").exists()


@pytest.mark.parametrize("out", ["mon.json", "link.json", "x.txt"])
def test_merge_destroys_no_input(out, world):
    day("mon", [0, 1, 1])
    day("tue", [2])
    (world / "link.json").symlink_to("mon.json")
    before = (world / "mon.json").read_bytes()
    assert run("merge", "mon.json", "tue.json", "--out", out).status == 2
    assert (world / "mon.json").read_bytes() == before


def test_counts_that_were_edited_are_not_merged(world):
    day("mon", [0, 1, 1])
    day("tue", [2])
    path = world / "mon.json"
    path.write_text(path.read_text().replace('"counts": [1, 2', '"counts": [2, 1'))
    result = run("merge", "mon.json", "tue.json", "--out", "s.json")
    assert (result.status, "does not have the checksum" in result.err) == (2, True)


def test_clients_of_two_days_are_found_where_their_reports_are(world):
    day("mon", [0, 1, 1], ids=["a", "b", "a"])
    day("tue", [2, 3], ids=["c", "d"])
    day("wed", [2, 3], ids=["b", "e"])
    checked = run("merge", "mon.json", "tue.json", "--out", "s.json")
    assert (checked.status, "was not checked" in checked.err) == (0, False)
    shared = run("merge", "mon.json", "tue.json", "wed.json", "--out", "t.json")
    assert shared.status == 2
    assert "1 client reported in more than one of mon.json, tue.json, wed.json" in shared.err
    # Without the reports nobody can know, and a remark states it.
    (world / "wed.parquet").unlink()
    unknown = run("merge", "mon.json", "wed.json", "--out", "u.json")
    assert (unknown.status, "was not checked" in unknown.err) == (0, True)


def test_a_file_of_the_same_name_is_not_taken_for_the_reports(world):
    day("mon", [0], ids=["a"])
    day("tue", [1], ids=["b"])
    write_reports("tue.parquet", ORACLE, [1], client_ids=["a"], labels=LABELS)
    result = run("merge", "mon.json", "tue.json", "--out", "s.json")
    assert (result.status, "was not checked" in result.err) == (0, True)


@pytest.mark.parametrize("labels", [LABELS, None])
def test_merged_counts_keep_the_labels_that_all_have(labels, world):
    day("mon", [0, 1, 1], labels=labels)
    day("tue", [2, 3], labels=labels)
    monday = read_counts("mon.json", labels=LABELS)
    tuesday = read_counts("tue.json", labels=LABELS)
    both = merge({"mon": monday, "tue": tuesday}).counts
    assert list(both.estimate.labels) == list(both.labels) == LABELS
    # Where files keep a fingerprint of their labels, one list names the values of all.
    half = merge({"mon": read_counts("mon.json"), "tue": tuesday}).counts
    assert (half.labels is None) == (labels is None)
    assert (
        merge({"mon": read_counts("mon.json"), "tue": read_counts("tue.json")}).counts.labels
        is None
    )
    if labels is None:
        other = read_counts("tue.json", labels=["red", "blue", "grey", "white"])
        with pytest.raises(InvalidInputError, match=r"^tue and mon are not .* label 3, 'grey'"):
            merge({"mon": monday, "tue": other})
        with pytest.raises(InvalidInputError, match="the same labels in another order"):
            merge({"mon": monday, "tue": read_counts("tue.json", labels=LABELS[::-1])})


# --- what differs between lists of labels ---------------------------------------------------------


def difference(ours, theirs, names=()):
    return label_difference(fingerprint(ours), fingerprint(theirs), len(ours), names)


def test_the_first_label_that_differs_is_named():
    assert "label 2, 'x'" in difference(["a", "x", "c"], ["a", "b", "c"], ["a", "x", "c"])
    assert difference(["a", "b"], ["b", "a"]) == "they have the same labels in another order"
    many = [f"value {i}" for i in range(1000)]
    changed = [*many[:500], "another", *many[501:]]
    assert difference(many, changed, many) == (
        "their lists of labels differ first among labels 501 to 515, 'value 500' to 'value 514'"
    )


def test_a_fingerprint_of_another_program_is_enough():
    whole = fingerprint(LABELS)
    assert label_difference(whole[:32], whole, 4, LABELS) == "their lists of labels differ"
    assert len(whole.split(":")[0]) == 32


def test_estimate_names_the_label_that_differs(world):
    day("mon", [0, 1, 1])
    (world / "labels.txt").write_text("red\nblue\ngrey\nwhite\n")
    result = run("estimate", "mon.json", "--domain", "labels.txt")
    assert result.status == 2
    assert "differ first in label 3, 'grey'; give the list that the reports" in result.err


# --- a finished run that is run again -------------------------------------------------------------


@pytest.fixture
def reading(monkeypatch):
    """The files whose reports are decoded, one entry per partition."""
    read = []
    count = parts._counted

    def noted(file, partition, sums):
        read.append(partition.path.name)
        return count(file, partition, sums)

    monkeypatch.setattr(parts, "_counted", noted)
    return read


def counts_of(path):
    record = json.loads(path.read_text())
    return record["counts"], record["n"], record["rejected"]


@pytest.mark.parametrize("ids", [None, ["a", "b", "c"]])
def test_only_new_parts_are_read(ids, world, reading):
    command = ["aggregate", "in", "--out", "c.json"]
    first = append_reports("in", ORACLE, [0, 1, 1], client_ids=ids)
    assert run(*command).status == 0
    second = append_reports("in", ORACLE, [2, 3, 3], client_ids=ids and ["d", "e", "a"])
    assert run(*command).status == 0
    assert reading == [first.name, second.name]
    expected = aggregate("in")
    assert counts_of(world / "c.json") == (
        expected.counts.tolist(),
        expected.n,
        expected.rejected,
    )
    # And without new ones nothing is.
    reading.clear()
    assert run(*command).status == 0
    assert reading == []
    rejects = world / "c.rejects.csv"
    assert rejects.exists() == bool(ids)
    if ids:
        assert len(rejects.read_text().splitlines()) == 2


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_parts_that_changed_or_are_gone_are_named(ending, world, reading):
    command = ["aggregate", "in", "--out", "c.json"]
    for number in range(3):
        write_reports(f"in/{number}.{ending}", ORACLE, [number] * 3)
    assert run(*command).status == 0
    before = (world / "c.json").read_bytes()
    (world / "in" / f"0.{ending}").rename(world / f"0.{ending}")
    gone = run(*command)
    assert (gone.status, f"in/0.{ending} is not among the files since" in gone.err) == (2, True)
    # A copy with another time of change is the same file.
    shutil.copy(world / f"0.{ending}", world / "in" / f"0.{ending}")
    assert run(*command).status == 0
    for number in range(2):
        write_reports(f"in/{number}.{ending}", ORACLE, [3, 3, 3])
    changed = run(*command)
    assert changed.status == 2
    assert f"in/0.{ending} has changed (and 1 more) since an earlier run counted it" in changed.err
    assert "--recount" in changed.err
    assert (world / "c.json").read_bytes() == before
    reading.clear()
    assert run(*command, "--recount").status == 0
    assert counts_of(world / "c.json")[0] == [0, 0, 3, 6]
    assert len(reading) == 3


def test_another_collection_does_not_take_up_the_counts(world):
    write_reports("a/r.parquet", ORACLE, [0])
    write_reports("b/r.parquet", GRR(2.0, 4), [1])
    assert run("aggregate", "a", "--out", "c.json").status == 0
    other = run("aggregate", "b", "--out", "c.json")
    assert (other.status, "(--recount)" in other.err) == (2, True)
    assert run("aggregate", "b", "--out", "c.json", "--recount").status == 0
    assert np.sum(counts_of(world / "c.json")[0]) == 1


def test_rejects_that_were_removed_are_missed(world):
    write_reports("in/r.parquet", ORACLE, [0, 1], client_ids=["a", "a"])
    assert run("aggregate", "in", "--out", "c.json").status == 0
    (world / "c.rejects.csv").unlink()
    result = run("aggregate", "in", "--out", "c.json")
    assert (result.status, "lost rows that an earlier run" in result.err) == (2, True)

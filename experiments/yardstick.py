"""How far from two yardsticks are the methods? ``python -m experiments.yardstick [draws]``.

Every method runs on the same draws of OUE. Its error is divided by that of ``metrics.law_limit``,
the rule that knows how dense the frequencies are, but none of them; the error of that rule is
itself shown over that of ``metrics.accuracy_limit``, which knows every frequency. Settings are
those of the papers, each of their data sets with 10⁴ to 10⁸ users, the histograms of DPBench, and
two collections of baskets. Data that are not on this machine (``LDPOPT_DATA``) are skipped.
"""

from __future__ import annotations

import csv
import io
import sys
import warnings
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import ldpopt
from experiments.priors_study import true_counts
from ldpopt import datasets, oracles
from ldpopt.datasets.dataset import apportion
from ldpopt.errors import DataUnavailableError, LdpoptWarning
from ldpopt.estimate import metrics
from ldpopt.storage import write_whole

Array = NDArray[np.float64]
Setting = tuple[str, int | None, float]
Ratio = tuple[float, float]

RESULTS = Path(__file__).parent / "results" / "yardstick.csv"
PAGE = Path(__file__).parent.parent / "docs" / "benchmarks" / "yardstick.md"
DRAWS = 20
# Of data sets with more than 10,000 values, whose fits take longest.
DRAWS_OF_LARGE = 10
_SEED = 2026
METHODS = ("norm-sub", "power-ns", "npmle-ns", "mixture-ns", "auto-ns")
LIMIT = "accuracy_limit"
LAW = "law_limit"

_NAMES = ("zipf", "beta", "emoji", "us-cities")
_USERS = tuple(10**power for power in range(4, 9))
_BUNDLED_CITIES = 217_061_901
PAPERS: list[Setting] = [(name, None, epsilon) for name in _NAMES for epsilon in (0.5, 1.0, 2.0)]
# The papers' own sizes of zipf and beta are among PAPERS.
_SIZES = [
    (name, users)
    for name in _NAMES
    for users in _USERS
    if (name, users) not in {("zipf", 1_000_000), ("beta", 100_000)}
]
SIZES: list[Setting] = [(name, users, 1.0) for name, users in _SIZES]
LARGEST: list[Setting] = [("us-cities", _BUNDLED_CITIES, epsilon) for epsilon in (1.0, 2.0)]
OTHER_SIZES: list[Setting] = [
    (name, users, epsilon) for name, users in _SIZES for epsilon in (0.5, 2.0)
]
DPBENCH: list[Setting] = [
    (name, None, epsilon)
    for name in ("HEPTH", "INCOME", "PATENT", "SEARCHLOGS")
    for epsilon in (0.5, 1.0, 2.0)
]
BASKETS: list[Setting] = [
    (name, None, epsilon) for name in ("retail", "kosarak-prefix") for epsilon in (0.5, 1.0, 2.0)
]
GROUPS = {
    "papers": PAPERS,
    "sizes, ε = 1": SIZES + LARGEST,
    "DPBench": DPBENCH,
    "sizes, ε = 0.5 and 2 (kept aside)": OTHER_SIZES,
    "baskets (kept aside)": BASKETS,
}
"""Settings; on those kept aside no choice of ``auto-ns`` was made."""


def counts_of(name: str, users: int | None) -> NDArray[np.int64]:
    """Return the true counts of a data set, of so many users or of the papers' own."""
    if users is None:
        return np.asarray(true_counts(name))
    return apportion(datasets.load(name).counts, users)


def errors(setting: Setting, draws: int) -> dict[str, Array]:
    """Return rule -> mean squared error of each draw, over the same draws for all rules."""
    name, users, epsilon = setting
    counts = counts_of(name, users)
    n = int(counts.sum())
    oracle = oracles.OUE(epsilon, len(counts))
    # By the setting, so that any of them may be drawn again alone.
    rng = np.random.default_rng([_SEED, int(10 * epsilon), n % 2**31, *name.encode()])
    draws = min(draws, DRAWS_OF_LARGE) if len(counts) > 10_000 else draws
    raw = oracle.estimate(oracle.simulate_counts(counts, rng, trials=draws), n)
    truth = counts / n
    estimates = {LIMIT: metrics.accuracy_limit(raw, truth), LAW: metrics.law_limit(raw, truth)}
    with warnings.catch_warnings():
        # Too much noise for a power law is part of what is measured.
        warnings.simplefilter("ignore", LdpoptWarning)
        for method in METHODS:
            estimates[method] = ldpopt.postprocess(raw, method).frequencies
    return {rule: metrics.mean_squared_error(f, truth) for rule, f in estimates.items()}


def ratio(error: Array, reference: Array) -> Ratio:
    """Return the ratio of two mean errors over the same draws, and its standard error."""
    value = error.mean() / reference.mean()
    # By the delete-one jackknife: the delta method says too little where one rare draw decides.
    left = (error.sum() - error) / (reference.sum() - reference)
    spread = np.sqrt((len(left) - 1) * np.mean((left - left.mean()) ** 2))
    return float(value), float(spread)


def ratios(measured: dict[str, Array]) -> dict[str, Ratio]:
    """Return the law's error over the limit's, and that of each method over the law's."""
    result = {LAW: ratio(measured[LAW], measured[LIMIT])}
    for method in METHODS:
        result[method] = ratio(measured[method], measured[LAW])
    return result


def run(draws: int) -> dict[Setting, dict[str, Ratio]]:
    """Return the ratios of every setting whose data are on this machine."""
    result = {}
    for setting in [setting for settings in GROUPS.values() for setting in settings]:
        try:
            result[setting] = ratios(errors(setting, draws))
        except DataUnavailableError as error:
            print(f"{setting[0]} skipped: {error}", file=sys.stderr)
    return result


def table(measured: dict[Setting, dict[str, Ratio]]) -> str:
    """Return the ratios as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["dataset", "users", "epsilon", "rule", "ratio", "standard_error"])
    for (name, users, epsilon), of_rules in measured.items():
        for rule, (value, error) in of_rules.items():
            shown = "" if users is None else users
            writer.writerow([name, shown, f"{epsilon:g}", rule, f"{value:.4f}", f"{error:.4f}"])
    return text.getvalue()


def page(measured: dict[Setting, dict[str, Ratio]]) -> str:
    """Return the tables as markdown: a summary, and every setting."""
    lines = [
        "# Accuracy beside a yardstick that can be reached",
        "",
        "Mean squared error over the whole domain, over that of the **law**: the rule that knows",
        "how dense the frequencies are everywhere, but none of them (`metrics.law_limit`). The",
        "column *law* is its error over that of the rule that knows every frequency, in no order",
        "(`metrics.accuracy_limit`). Intervals are ± 1.96 standard errors of 20 paired draws of",
        "OUE (10 for the baskets); `python -m experiments.yardstick` computes these tables.",
        "On the settings kept aside no choice of `auto-ns` was made; on others its families and",
        "their ranges were compared.",
        "",
        "| settings | | " + " | ".join(METHODS) + " |",
        "|---|---|" + "---|" * len(METHODS),
    ]
    for group, settings in [*GROUPS.items(), ("all", list(measured))]:
        present = [measured[setting] for setting in settings if setting in measured]
        if present:
            lines += _summary_lines(f"{group} ({len(present)})", present)
    lines += ["", "| data | n | ε | law | " + " | ".join(METHODS) + " |"]
    lines.append("|---|---|---|---|" + "---|" * len(METHODS))
    for (name, users, epsilon), of_rules in measured.items():
        cells = [f"{v:.3f} ± {1.96 * e:.3f}" for v, e in of_rules.values()]
        n = "as in the papers" if users is None else f"{users:,}"
        lines.append(f"| {name} | {n} | {epsilon:g} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _summary_lines(group: str, present: list[dict[str, Ratio]]) -> list[str]:
    values = {method: np.array([of[method][0] for of in present]) for method in METHODS}
    means = [f"{np.exp(np.mean(np.log(values[method]))):.3f}" for method in METHODS]
    worst = [f"{values[method].max():.3f}" for method in METHODS]
    return [
        f"| {group} | geometric mean | " + " | ".join(means) + " |",
        "| | worst | " + " | ".join(worst) + " |",
    ]


def main() -> None:
    """Measure every setting, and write the table and the page."""
    measured = run(int(sys.argv[1]) if len(sys.argv) > 1 else DRAWS)
    write_whole(RESULTS, table(measured).encode())
    write_whole(PAGE, page(measured).encode())


if __name__ == "__main__":
    main()

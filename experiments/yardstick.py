"""How far from two yardsticks are the methods? ``python -m experiments.yardstick [draws]``.

Every method runs on the same draws of OUE. Its error is divided by that of ``metrics.law_limit``,
the rule that knows how dense the frequencies are, but none of them; the error of that rule is
itself shown over that of ``metrics.accuracy_limit``, which knows every frequency. Settings are
those of the papers, each of their data sets with 10⁴ to 10⁸ users, the histograms of DPBench, two
collections of baskets, and others on which nothing was chosen. Data that are not on this machine
(``LDPOPT_DATA``) are skipped. The errors of each setting are written below ``build/yardstick`` when
they are computed, and an interrupted run resumes; remove them after a change of a method.
"""

from __future__ import annotations

import csv
import io
import sys
import warnings
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

import ldpopt
from experiments.priors_study import true_counts
from ldpopt import FrequencyEstimate, closed_form, datasets, oracles
from ldpopt.datasets.dataset import apportion
from ldpopt.errors import DataUnavailableError, LdpoptWarning
from ldpopt.estimate import metrics
from ldpopt.priors import Blend
from ldpopt.priors.binning import Binned
from ldpopt.priors.counts import EstimatedCounts
from ldpopt.priors.mixture_prior import cell_edges
from ldpopt.storage import write_whole

Array = NDArray[np.float64]
Setting = tuple[str, int | None, float]
Ratio = tuple[float, float]
Errors = dict[Setting, dict[str, Array]]

BUILD = Path(__file__).parent.parent / "build" / "yardstick"
RESULTS = Path(__file__).parent / "results" / "yardstick.csv"
PAGE = Path(__file__).parent.parent / "docs" / "benchmarks" / "yardstick.md"
DRAWS = 50
# Of more than 2,000 values, whose fits take longest and whose errors vary least; but for the first
# two groups of settings.
DRAWS_OF_LARGE = 20
DRAWS_OF_LARGEST = 5
_LARGEST = 20_000
DRAWS_OF_KEPT_ASIDE = 12
# Of so few users that one rare draw may decide, however many values there are.
DRAWS_OF_FEW_USERS = 100
_FEW_USERS = 10_000
_SEED = 2026
METHODS = ("norm-sub", "power-ns", "npmle-ns", "mixture-ns", "auto-ns")
AUTO = "auto-ns"
LIMIT = "accuracy_limit"
LAW = "law_limit"
SPREAD = "known but for the spread"
"""The rule that knows all frequencies as a law, except for one number: see ``spread_rule``."""
# It raises frequencies to these powers; 1 is the truth.
_POWERS = np.arange(0.3, 2.01, 0.1)
GOAL = 1.06
_TWO_SIDED = 1.96  # standard errors on either side of an interval of .95

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
# With other numbers of users and budgets than anything that was looked at on the way.
FRESH: list[Setting] = [
    (name, 3 * 10**power, epsilon)
    for name in _NAMES
    for power, epsilon in ((4, 1.4), (5, 0.7), (6, 1.4), (7, 0.7))
]
GROUPS = {
    "papers": PAPERS,
    "sizes, ε = 1": SIZES + LARGEST,
    "DPBench": DPBENCH,
    "sizes, ε = 0.5 and 2": OTHER_SIZES,
    "baskets": BASKETS,
    "others (kept aside)": FRESH,
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
    raw = oracle.estimate(oracle.simulate_counts(counts, rng, trials=draws), n)
    truth = counts / n
    estimates = {LIMIT: metrics.accuracy_limit(raw, truth), LAW: metrics.law_limit(raw, truth)}
    estimates[SPREAD] = np.array([spread_rule(raw[t], truth) for t in range(draws)])
    with warnings.catch_warnings():
        # Too much noise for a power law is part of what is measured.
        warnings.simplefilter("ignore", LdpoptWarning)
        for method in METHODS:
            estimates[method] = ldpopt.postprocess(raw, method).frequencies
    return {rule: metrics.mean_squared_error(f, truth) for rule, f in estimates.items()}


def draws_of(setting: Setting, draws: int) -> int:
    """Return how many draws a setting has, if most have so many: in proportion to the defaults."""
    name, users, _ = setting
    counts = counts_of(name, users)
    if counts.sum() <= _FEW_USERS:
        return draws * DRAWS_OF_FEW_USERS // DRAWS
    if len(counts) > _LARGEST:
        return max(draws * DRAWS_OF_LARGEST // DRAWS, 2)
    if setting in FRESH:
        return max(draws * DRAWS_OF_KEPT_ASIDE // DRAWS, 2)
    is_costly = len(counts) > 2_000 and setting not in PAPERS + SIZES + LARGEST
    return max(draws * DRAWS_OF_LARGE // DRAWS, 2) if is_costly else draws


def spread_rule(raw: FrequencyEstimate, truth: Array) -> Array:
    """Return what the rule estimates that knows the true law, except for its spread.

    It knows that the counts are those of the truth to some power, times what their mean n/d makes
    of that, and weighs the powers from .3 to 2 by the evidence of the estimates: no method knows as
    much. What it loses to the law is the price of one unknown number.
    """
    n = raw.noise.require_n()
    shifted = raw.processed(closed_form.norm(raw.frequencies, 1.0))
    binned = Binned.of(EstimatedCounts.of(shifted))
    edges = cell_edges(binned)
    support = np.append(0.0, (edges[1:] + edges[:-1]) / 2)
    laws = np.array([_masses(truth**power, binned, edges) for power in _POWERS])
    with np.errstate(divide="ignore"):
        evidence = binned.size @ np.log(binned.likelihoods(support, laws))
    law = Blend(support, laws, np.exp(evidence - evidence.max()), n)
    means = law.posterior_mean(shifted.frequencies * n, raw.sigma * n) / n
    return np.asarray(closed_form.norm_sub(means))


def _masses(shape: Array, binned: Binned, edges: Array) -> Array:
    """Return the law of counts of this shape with the known mean, on 0 and the cells."""
    counts = np.minimum(shape * (binned.mean / shape.mean()), binned.n)
    cells = np.searchsorted(edges, counts)
    # The largest count, n itself, belongs to the last cell.
    return np.bincount(np.minimum(cells, len(edges) - 1), minlength=len(edges)) / len(shape)


def kept_errors(setting: Setting, draws: int) -> dict[str, Array]:
    """Return the errors of a setting as they were kept, or compute and keep them."""
    name, users, epsilon = setting
    path = BUILD / f"{name}-{users or 'papers'}-{epsilon:g}-{draws}.csv"
    if not path.exists():
        measured = errors(setting, draws)
        lines = [",".join(measured)]
        for draw in zip(*measured.values(), strict=True):
            lines.append(",".join(f"{error:.10g}" for error in draw))
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, "\n".join([*lines, ""]).encode())
    # Read back in either case, so that a resumed run gives the same digits.
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {rule: np.array([float(row[rule]) for row in rows]) for rule in rows[0]}


def ratio(error: Array, reference: Array) -> Ratio:
    """Return the ratio of two mean errors over the same draws, and its standard error."""
    value = error.mean() / reference.mean()
    # By the delete-one jackknife: the delta method says too little where one rare draw decides.
    left = (error.sum() - error) / (reference.sum() - reference)
    spread = np.sqrt((len(left) - 1) * np.mean((left - left.mean()) ** 2))
    return float(value), float(spread)


def over_law(measured: dict[str, Array]) -> dict[str, Ratio]:
    """Return the law's error over the limit's, and that of each other rule over the law's."""
    result = {LAW: ratio(measured[LAW], measured[LIMIT])}
    for rule in (SPREAD, *METHODS):
        result[rule] = ratio(measured[rule], measured[LAW])
    return result


def over_auto(measured: dict[str, Array]) -> dict[str, Ratio]:
    """Return the error of ``auto-ns`` over that of each other method, on the same draws."""
    return {method: ratio(measured[AUTO], measured[method]) for method in METHODS if method != AUTO}


def run(draws: int) -> Errors:
    """Return the errors of every setting whose data are on this machine."""
    result = {}
    for setting in [setting for settings in GROUPS.values() for setting in settings]:
        try:
            result[setting] = kept_errors(setting, draws_of(setting, draws))
        except DataUnavailableError as error:
            print(f"{setting[0]} skipped: {error}", file=sys.stderr)
    return result


def table(measured: Errors) -> str:
    """Return the ratios as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["dataset", "users", "epsilon", "draws", "rule", "ratio", "standard_error"])
    for (name, users, epsilon), of_rules in measured.items():
        shown = "" if users is None else users
        draws = len(of_rules[LAW])
        for rule, (value, error) in over_law(of_rules).items():
            numbers = [f"{value:.4f}", f"{error:.4f}"]
            writer.writerow([name, shown, f"{epsilon:g}", draws, rule, *numbers])
    return text.getvalue()


_HEAD = """# Accuracy beside a yardstick that can be reached

Mean squared error over the whole domain, over that of the **law**: the rule that knows
how dense the frequencies are everywhere, but none of them (`metrics.law_limit`). The
column *law* is its error over that of the rule that knows every frequency, in no order
(`metrics.accuracy_limit`). Intervals are ± 1.96 standard errors of {usual} paired draws of
OUE ({few} with 10,000 users; {large} of more than 2,000 values but for the first two groups,
{largest} of the Kosarak prefix, {aside} on the settings kept aside);
`python -m experiments.yardstick` computes these tables, and
[yardstick.csv](../../experiments/results/yardstick.csv) has their numbers. The families of
`auto-ns`, their weights and its penalty were chosen on the first {chosen} settings; on those kept
aside nothing was."""

_PRICE = """
## Where 1.06 is missed

No method knows the law. The rule *known but for the spread* knows it up to a single number: the
counts are those of the truth to some power, which it weighs by the evidence of the estimates. What
it loses is the price of one unknown number, and methods have more to find out. Below are the
settings in which the error of `auto-ns` is more than 6 % above the law's. On us-cities with few
users even that rule misses the goal; elsewhere it does not, and `auto-ns` might come nearer.

The parts that `auto-ns` weighs were each taken alone, in nine of these settings (a single trial, on
other draws; not in this module). In each of them some part is below 1.06, so that a better choice
would meet the goal. But it is another part in most of them, and the truth alone tells which one:
the best of some twenty in hindsight is flattered by about its own interval. Dictionaries are
numbered from the finest.

| data | n | ε | draws | auto-ns | the best part |
|---|---|---|---|---|---|
| us-cities | 10,000 | 2 | 30 | 1.146 ± 0.066 | power laws 1.033 ± 0.024 |
| us-cities | 30,000 | 1.4 | 12 | 1.125 ± 0.074 | dictionary 10, 1.037 ± 0.028 |
| us-cities | 100,000 | 0.5 | 10 | 1.137 ± 0.112 | dictionary 10, 1.026 ± 0.027 |
| emoji | 10,000 | 1 | 60 | 1.057 ± 0.027 | dictionary 10, 1.024 ± 0.022 |
| beta | as in the papers | 2 | 50 | 1.082 ± 0.015 | dictionary 3, 1.051 ± 0.016 |
| beta | 10,000 | 1 | 60 | 1.078 ± 0.022 | uniform laws with zeros 1.042 ± 0.017 |
| beta | 1,000,000 | 0.5 | 50 | 1.056 ± 0.013 | dictionary 2, 1.033 ± 0.012 |
| beta | 1,000,000 | 1 | 50 | 1.083 ± 0.021 | dictionary 2, 1.038 ± 0.012 |
| beta | 1,000,000 | 2 | 50 | 1.056 ± 0.014 | dictionary 11, 1.030 ± 0.010 |"""

_TRIED = """
## What was tried as a candidate

`auto-ns` does not choose Norm-Sub or NPMLE. With weights e^(-R/4s²) by their unbiased risks R, on
12 draws of each of the 86 settings it was chosen on (6 of more than 10,000 values), the geometric
mean was 1.022 without them, 1.035 with NPMLE as one more dictionary, 1.043 with Norm-Sub and 1.067
with both. (A single trial, with an approximate risk of the average; not in this module.)"""

_LOSSES = """
## Where `auto-ns` loses

The error of `auto-ns` over that of another method on the same draws, wherever it is larger by more
than {limit} standard errors. That is Bonferroni's level of 5 % for {comparisons} comparisons; by
1.96 standard errors of each there are {single} losses."""


def page(measured: Errors) -> str:
    """Return the tables as markdown: a summary, where the goal is missed, losses, all settings."""
    ratios = {setting: over_law(of_rules) for setting, of_rules in measured.items()}
    chosen = sum(setting not in FRESH for setting in measured)
    numbers = {"usual": DRAWS, "few": DRAWS_OF_FEW_USERS, "large": DRAWS_OF_LARGE}
    numbers |= {"largest": DRAWS_OF_LARGEST, "aside": DRAWS_OF_KEPT_ASIDE}
    lines = [_HEAD.format(chosen=chosen, **numbers), ""]
    lines += ["| settings | | " + " | ".join(METHODS) + " |", "|---|---|" + "---|" * len(METHODS)]
    for group, settings in [*GROUPS.items(), ("all", list(measured))]:
        present = [ratios[setting] for setting in settings if setting in ratios]
        if present:
            lines += _summary_lines(f"{group} ({len(present)})", present)
    lines += [_PRICE, "", f"| data | n | ε | {SPREAD} | {AUTO} | is it certain? |"]
    lines.append("|---|---|---|---|---|---|")
    for setting, of_rules in ratios.items():
        lines += _missed_line(setting, of_rules)
    lines += [*_loss_lines(measured), _TRIED]
    lines += ["", "## All settings", ""]
    lines.append("| data | n | ε | law | " + " | ".join(METHODS) + " |")
    lines.append("|---|---|---|---|" + "---|" * len(METHODS))
    for setting, of_rules in ratios.items():
        cells = [_interval(*of_rules[rule]) for rule in (LAW, *METHODS)]
        lines.append(f"| {_named(setting)} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _named(setting: Setting) -> str:
    name, users, epsilon = setting
    n = "as in the papers" if users is None else f"{users:,}"
    return f"{name} | {n} | {epsilon:g}"


def _interval(value: float, error: float) -> str:
    return f"{value:.3f} ± {_TWO_SIDED * error:.3f}"


def _missed_line(setting: Setting, of_rules: dict[str, Ratio]) -> list[str]:
    """Return the row of a setting where the goal is missed, and whether draws may explain it."""
    value, error = of_rules[AUTO]
    if value <= GOAL:
        return []
    certain = "yes" if value - _TWO_SIDED * error > GOAL else "no"
    cells = f"{_interval(*of_rules[SPREAD])} | {_interval(value, error)} | {certain}"
    return [f"| {_named(setting)} | {cells} |"]


def _loss_lines(measured: Errors) -> list[str]:
    """Return the section on the settings where another method is better than ``auto-ns``."""
    others = [method for method in METHODS if method != AUTO]
    comparisons = len(measured) * len(others)
    limit = float(ndtri(1 - 0.025 / comparisons))
    losses = []
    single = 0
    for setting, of_rules in measured.items():
        for method, (value, error) in over_auto(of_rules).items():
            distance = (value - 1) / error
            single += distance > _TWO_SIDED
            if distance > limit:
                losses.append(f"| {_named(setting)} | {method} | {_interval(value, error)} |")
    text = _LOSSES.format(limit=f"{limit:.2f}", comparisons=comparisons, single=single)
    return [
        text,
        "",
        f"| data | n | ε | better | {AUTO} over it |",
        "|---|---|---|---|---|",
        *losses,
    ]


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

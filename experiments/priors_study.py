"""How far from the limit of accuracy are posterior means? ``python -m experiments.priors_study``.

Every method runs on the same draws of OUE, on the settings of the papers and on real histograms.
Errors are relative to those of the rule that knows the true frequencies in no order
(``metrics.accuracy_limit``). Each block of draws is written below ``build/priors`` when it is done,
so an interrupted run, or one with more draws (``python -m experiments.priors_study 200``), resumes.
Data sets that are not on this machine (``LDPOPT_DATA``) are named and skipped.
"""

from __future__ import annotations

import csv
import hashlib
import io
import os
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np

import ldpopt
from ldpopt import datasets, oracles
from ldpopt.datasets.dataset import apportion
from ldpopt.errors import DataUnavailableError, LdpoptWarning
from ldpopt.estimate import metrics
from ldpopt.estimate.sets import answers
from ldpopt.storage import write_whole
from ldpopt.studies.engine.provenance import code_digest

OUT = Path(__file__).parent / "results"
BUILD = Path(__file__).parent.parent / "build" / "priors"
# Ten blocks; a block is what an interrupted run can lose.
DRAWS = 100
BLOCK = 10
# Of the domain in a set, as N's ρ from 10 to 90.
SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)
SETS = 20
TOP = 16
FITTED = ("power", "npmle", "mixture")
METHODS = ("norm-sub", *(f"{name}{suffix}" for name in FITTED for suffix in ("", "-ns")))
FULL = "full-domain"
TOP_METRIC = f"top-{TOP}"
SHOWN = ["norm-sub", *(f"{name}-ns" for name in FITTED), "mixture", "npmle"]
METRICS = (FULL, *(f"sets-{round(100 * share)}" for share in SHARES), TOP_METRIC)

PAPERS = [
    (name, epsilon)
    for name in ("zipf", "beta", "emoji", "us-cities")
    for epsilon in (0.5, 1.0, 2.0)
]
DPBENCH = [(name, 1.0) for name in ("HEPTH", "INCOME", "PATENT", "SEARCHLOGS")]
BASKETS = [("retail", 1.0), ("kosarak-prefix", 1.0)]
CHECKS = [(name, epsilon) for name, _ in DPBENCH for epsilon in (0.5, 2.0)] + [
    (name, epsilon) for name, _ in BASKETS for epsilon in (0.5, 2.0)
]
"""Settings on which nothing was tuned."""

GROUPS = {"papers": PAPERS, "DPBench": DPBENCH, "baskets": BASKETS, "checks": CHECKS}
SETTINGS = [setting for settings in GROUPS.values() for setting in settings]
# Users of the papers' own samples.
USERS = {"emoji": 884_427, "us-cities": 602_325}


@cache
def true_counts(name: str) -> np.ndarray:
    """Return the true counts of a data set by name.

    Raises DataUnavailableError where the file is not on this machine.
    """
    if name not in {data for data, _ in DPBENCH} | {"kosarak-prefix"}:
        data = datasets.load(name)
        return np.asarray((data.scaled(USERS[name]) if name in USERS else data).counts)
    folder = Path(os.environ.get("LDPOPT_DATA", ""))
    path = folder / (
        "kosarak-prefix.dat.gz" if name == "kosarak-prefix" else f"dpbench/{name}.n4096.npy"
    )
    if not path.exists():
        raise DataUnavailableError(f"no {path.name} in the folder that LDPOPT_DATA names")
    if name == "kosarak-prefix":
        return datasets.read_transactions(path).to_dataset(name, "").counts
    # The histograms of DPBench are of many sizes: all are scaled to a million users.
    return apportion(np.load(path), 1_000_000)


def block_file(name: str, epsilon: float, block: int) -> Path:
    """Return the file of a block of draws: other code or other data have another folder."""
    # By the counts themselves: a file may change under the same name.
    data = hashlib.sha256(true_counts(name).tobytes()).hexdigest()[:16]
    return (
        BUILD
        / code_digest("experiments.priors_study")
        / f"{name}-{data}"
        / f"{epsilon:g}-{block}.csv"
    )


def errors(name: str, epsilon: float, block: int) -> Iterator[tuple[int, str, dict[str, float]]]:
    """Yield (draw, method, metric -> mean squared error) of a block; the limit is a method too."""
    counts = true_counts(name)
    # OUE as in the papers: what differs between protocols is the noise level alone.
    oracle = oracles.OUE(epsilon, len(counts))
    # By setting and block: a resumed run draws what an uninterrupted one would have drawn.
    seed = np.random.SeedSequence([block, int(10 * epsilon), *name.encode()])
    rng = np.random.default_rng(seed)
    raw = oracle.estimate(oracle.simulate_counts(counts, rng, trials=BLOCK), int(counts.sum()))
    truth = counts / counts.sum()
    # By the truth: estimates would choose the values that noise lifted.
    top = np.argsort(-truth, kind="stable")[:TOP]
    members = {
        share: rng.permuted(np.tile(np.arange(len(truth)), (SETS, 1)), axis=1) for share in SHARES
    }
    sets = {share: list(rows[:, : int(share * len(truth))]) for share, rows in members.items()}
    estimates = {
        "limit": metrics.accuracy_limit(raw, truth),
        "norm-sub": ldpopt.postprocess(raw, "norm-sub").frequencies,
    }
    with warnings.catch_warnings():
        # Too much noise for a power law is part of what is measured.
        warnings.simplefilter("ignore", LdpoptWarning)
        for method in FITTED:
            fitted = ldpopt.postprocess(raw, method)
            estimates[method] = fitted.frequencies
            # From the posterior means at hand: each prior is fitted once.
            estimates[f"{method}-ns"] = ldpopt.postprocess(fitted, "norm-sub").frequencies
    for method, f in estimates.items():
        measured = {FULL: metrics.mean_squared_error(f, truth)}
        for share, of in sets.items():
            answered = answers(f, of)
            true = answers(truth, of)
            measured[f"sets-{round(100 * share)}"] = metrics.mean_squared_error(answered, true)
        measured[TOP_METRIC] = metrics.mean_squared_error(f[:, top], truth[top])
        for trial in range(BLOCK):
            yield (
                block * BLOCK + trial,
                method,
                {metric: float(value[trial]) for metric, value in measured.items()},
            )


def run(draws: int) -> None:
    """Compute what is missing up to ``draws`` draws of every setting, block by block."""
    for block in range(-(-draws // BLOCK)):
        for name, epsilon in SETTINGS:
            try:
                path = block_file(name, epsilon, block)
            except DataUnavailableError as error:
                # Once per data set is enough.
                if block == 0:
                    print(f"{name} skipped: {error}", file=sys.stderr)
                continue
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                # In one step: a run that is killed leaves no half of a block.
                write_whole(path, _block(name, epsilon, block).encode())


def _block(name: str, epsilon: float, block: int) -> str:
    """Return a block of draws as CSV."""
    lines = [",".join(("draw", "method", *METRICS))]
    for draw, method, measured in errors(name, epsilon, block):
        numbers = [f"{measured[metric]:.6g}" for metric in METRICS]
        lines.append(",".join([str(draw), method, *numbers]))
    return "\n".join(lines) + "\n"


def stored(name: str, epsilon: float) -> Iterator[dict[str, str]]:
    """Yield the rows of all blocks of a setting, in the order of the draws."""
    try:
        folder = block_file(name, epsilon, 0).parent
    except DataUnavailableError:
        return
    for block in range(len(list(folder.glob(f"{epsilon:g}-*.csv")))):
        with block_file(name, epsilon, block).open(encoding="utf-8") as file:
            yield from csv.DictReader(file)


Setting = tuple[str, float]
Ratios = dict[tuple[str, str], tuple[float, float]]


def ratios() -> dict[Setting, Ratios]:
    """Return setting -> (method, metric) -> (error over the limit's, paired standard error)."""
    result = {}
    for setting in SETTINGS:
        measured: dict[tuple[str, str], list[float]] = defaultdict(list)
        for row in stored(*setting):
            for metric in METRICS:
                measured[row["method"], metric].append(float(row[metric]))
        if measured:
            result[setting] = {
                (method, metric): _ratio(np.array(values), np.array(measured["limit", metric]))
                for (method, metric), values in measured.items()
            }
    return result


def _ratio(errors: np.ndarray, limit: np.ndarray) -> tuple[float, float]:
    """Return the ratio of two means over the same draws, and its standard error."""
    # Not the mean of ratios: the error of a method is its mean over draws.
    ratio = errors.mean() / limit.mean()
    # By the delta method.
    error = np.std(errors - ratio * limit, ddof=1) / np.sqrt(len(errors)) / limit.mean()
    return float(ratio), float(error)


def geometric_mean(measured: list[tuple[float, float]]) -> tuple[float, float]:
    """Return the geometric mean of independent ratios and its standard error."""
    value = float(np.exp(np.mean(np.log([ratio for ratio, _ in measured]))))
    # The delta method on the logarithms: relative errors add up in squares.
    relative = np.sqrt(sum((error / ratio) ** 2 for ratio, error in measured)) / len(measured)
    return value, value * float(relative)


def summary() -> str:
    """Return the tables as markdown: error over the limit's, ± 1.96 standard errors."""
    measured = ratios()
    lines = [
        "# Accuracy of every method beside the limit",
        "",
        "Mean squared error over the whole domain, divided by that of the limit of accuracy, with",
        "95 % intervals: 1.05 is 5 % above the least error that any rule can reach. The column",
        "*law* is the same for the rule that knows how dense frequencies are, but none of them,",
        "on the draws of [the yardstick](../../docs/benchmarks/yardstick.md).",
        "",
        "| data | ε | law | " + " | ".join(SHOWN) + " |",
        "|---|---|---|" + "---|" * len(SHOWN),
    ]
    present = {
        group: [setting for setting in settings if setting in measured]
        for group, settings in GROUPS.items()
    }
    for group, settings in present.items():
        lines += _full_domain_lines(settings, measured)
        # The other groups are too few, or too unlike, for a mean.
        if group == "papers" and settings:
            lines.append(_mean_line(settings, measured))
    lines += [
        "",
        "Set queries and the true top values: error over that of `norm-sub`, geometric mean over "
        "the settings.",
        "",
        "| settings | query | " + " | ".join(SHOWN[1:]) + " |",
        "|---|---|" + "---|" * len(SHOWN[1:]),
    ]
    for group, settings in present.items():
        if settings:
            lines += _set_lines(group, settings, measured)
    return "\n".join(lines) + "\n"


def _full_domain_lines(settings: list[Setting], measured: dict[Setting, Ratios]) -> Iterator[str]:
    of_law = law_over_limit()
    for name, epsilon in settings:
        law = _with_interval(of_law[name, epsilon]) if (name, epsilon) in of_law else ""
        cells = [_with_interval(measured[name, epsilon][method, FULL]) for method in SHOWN]
        yield f"| {name} | {epsilon:g} | {law} | " + " | ".join(cells) + " |"


def _mean_line(settings: list[Setting], measured: dict[Setting, Ratios]) -> str:
    cells = [
        _with_interval(geometric_mean([measured[setting][method, FULL] for setting in settings]))
        for method in SHOWN
    ]
    of_law = law_over_limit()
    law = [of_law[setting] for setting in settings if setting in of_law]
    shown = _with_interval(geometric_mean(law)) if len(law) == len(settings) else ""
    return f"| *geometric mean of {len(settings)}* | | {shown} | " + " | ".join(cells) + " |"


def law_over_limit() -> dict[Setting, tuple[float, float]]:
    """Return the error of ``metrics.law_limit`` over the limit's, from the kept yardstick."""
    with (OUT / "yardstick.csv").open(encoding="utf-8") as file:
        return {
            (row["dataset"], float(row["epsilon"])): (
                float(row["ratio"]),
                float(row["standard_error"]),
            )
            for row in csv.DictReader(file)
            # Without a number of users it is that of the papers.
            if row["rule"] == "law_limit" and not row["users"]
        }


def _with_interval(ratio: tuple[float, float]) -> str:
    value, error = ratio
    return f"{value:.3f} ± {1.96 * error:.3f}"


def _set_lines(
    group: str, settings: list[Setting], measured: dict[Setting, Ratios]
) -> Iterator[str]:
    for metric in METRICS:
        values = []
        for method in SHOWN[1:]:
            logs = [
                np.log(measured[s][method, metric][0] / measured[s]["norm-sub", metric][0])
                for s in settings
            ]
            values.append(f"{np.exp(np.mean(logs)):.3f}")
        yield f"| {group} | {metric} | " + " | ".join(values) + " |"


def write_ratios(path: Path) -> None:
    """Write every error over the limit's, with its standard error and draws, as a table."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["dataset", "epsilon", "method", "metric", "ratio", "standard_error", "draws"])
    for (name, epsilon), measured in ratios().items():
        draws = sum(row["method"] == "limit" for row in stored(name, epsilon))
        for (method, metric), (ratio, error) in measured.items():
            numbers = [f"{ratio:.5g}", f"{error:.3g}", draws]
            writer.writerow([name, f"{epsilon:g}", method, metric, *numbers])
    write_whole(path, text.getvalue().encode())


def main() -> None:
    """Run what is missing, print the tables and write them."""
    run(int(sys.argv[1]) if len(sys.argv) > 1 else DRAWS)
    write_ratios(OUT / "priors.csv")
    text = summary()
    write_whole(OUT / "priors-tables.md", text.encode())
    print(text)


if __name__ == "__main__":
    main()

"""How far from the limit of accuracy are posterior means? ``python -m experiments.priors_study``.

Every method runs on the same draws of OUE, on the settings of the papers and on real histograms.
Errors are relative to those of the rule that knows the true frequencies in no order
(``metrics.accuracy_limit``). Each block of draws is written to ``build/priors`` when it is done, so
an interrupted run, or one with more draws (``python -m experiments.priors_study 200``), resumes.
Data sets that are not on this machine (``LDPOPT_DATA``) are named and skipped.
"""

from __future__ import annotations

import csv
import os
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import ldpopt
from ldpopt import datasets, oracles
from ldpopt.datasets.dataset import apportion
from ldpopt.errors import DataUnavailableError, LdpoptWarning
from ldpopt.estimate import metrics
from ldpopt.estimate.sets import answers

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
USERS = {"emoji": 884_427, "us-cities": 602_325}


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


def errors(name: str, epsilon: float, block: int) -> Iterator[tuple[int, str, dict[str, float]]]:
    """Yield (draw, method, metric -> mean squared error) of a block; the limit is a method too."""
    counts = true_counts(name)
    oracle = oracles.OUE(epsilon, len(counts))
    # By setting and block: a resumed run draws what an uninterrupted one would have drawn.
    seed = np.random.SeedSequence([block, int(10 * epsilon), *name.encode()])
    rng = np.random.default_rng(seed)
    raw = oracle.estimate(oracle.simulate_counts(counts, rng, trials=BLOCK), int(counts.sum()))
    truth = counts / counts.sum()
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
        warnings.simplefilter(
            "ignore", LdpoptWarning
        )  # too much noise for a power law: part of what is measured
        for method in FITTED:
            fitted = ldpopt.postprocess(raw, method)
            estimates[method] = fitted.frequencies
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


def run(path: Path, draws: int) -> None:
    """Append what is missing up to ``draws`` draws of every setting, block by block."""
    header = ("dataset", "epsilon", "draw", "method", *METRICS)
    done = set()
    if path.exists():
        with path.open(encoding="utf-8") as file:
            done = {
                (row["dataset"], float(row["epsilon"]), int(row["draw"]) // BLOCK)
                for row in csv.DictReader(file)
            }
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(",".join(header) + "\n", encoding="utf-8")
    for block in range(-(-draws // BLOCK)):
        for name, epsilon in (setting for group in GROUPS.values() for setting in group):
            if (name, epsilon, block) in done:
                continue
            try:
                rows = [
                    ",".join(
                        [
                            name,
                            f"{epsilon:g}",
                            str(draw),
                            method,
                            *(f"{of[metric]:.6g}" for metric in METRICS),
                        ]
                    )
                    for draw, method, of in errors(name, epsilon, block)
                ]
            except DataUnavailableError as error:
                # Once per data set is enough.
                if block == 0:
                    print(f"{name} skipped: {error}", file=sys.stderr)
                continue
            # A whole block in one write: a run that is killed leaves no half of a block.
            with path.open("a", encoding="utf-8") as file:
                file.write("\n".join(rows) + "\n")


def ratios(path: Path) -> dict[tuple[str, float], dict[tuple[str, str], tuple[float, float]]]:
    """Return setting -> (method, metric) -> (error over the limit's, paired standard error)."""
    table: dict[tuple[str, float], dict[tuple[str, str], list[float]]] = defaultdict(
        lambda: defaultdict(list)
    )
    with path.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            for metric in METRICS:
                table[row["dataset"], float(row["epsilon"])][row["method"], metric].append(
                    float(row[metric])
                )
    result = {}
    for setting, measured in table.items():
        result[setting] = {}
        for (method, metric), values in measured.items():
            limit = np.array(measured["limit", metric])
            value = np.array(values)
            # The ratio of the means, not the mean of ratios: the error of a method is its mean over
            # draws.
            ratio = value.mean() / limit.mean()
            error = (
                np.std(value - ratio * limit, ddof=1) / np.sqrt(len(value)) / limit.mean()
            )  # delta method
            result[setting][method, metric] = float(ratio), float(error)
    return result


def geometric_mean(measured: list[tuple[float, float]]) -> tuple[float, float]:
    """Return the geometric mean of independent ratios and its standard error."""
    value = float(np.exp(np.mean(np.log([ratio for ratio, _ in measured]))))
    # The delta method on the logarithms: relative errors add up in squares.
    relative = np.sqrt(sum((error / ratio) ** 2 for ratio, error in measured)) / len(measured)
    return value, value * float(relative)


def summary(path: Path) -> str:
    """Return the tables as markdown: error over the limit's, ± 1.96 standard errors."""
    measured = ratios(path)
    shown = [method for method in METHODS if method == "norm-sub" or method.endswith("-ns")] + [
        "mixture",
        "npmle",
    ]

    def cell(ratio: tuple[float, float]) -> str:
        return f"{ratio[0]:.3f} ± {1.96 * ratio[1]:.3f}"

    lines = ["Full-domain mean squared error over the limit's, with 95 % intervals.", ""]
    lines += ["| data | ε | " + " | ".join(shown) + " |", "|---|---|" + "---|" * len(shown)]
    for group, settings in GROUPS.items():
        present = [setting for setting in settings if setting in measured]
        for name, epsilon in present:
            cells = [cell(measured[name, epsilon][method, FULL]) for method in shown]
            lines.append(f"| {name} | {epsilon:g} | " + " | ".join(cells) + " |")
        if group == "papers" and present:
            means = [
                geometric_mean([measured[setting][method, FULL] for setting in present])
                for method in shown
            ]
            lines.append(
                f"| *geometric mean of {len(present)}* | | " + " | ".join(map(cell, means)) + " |"
            )
    lines += [
        "",
        "Set queries and the true top values: error over that of `norm-sub`, geometric mean over "
        "the settings.",
        "",
    ]
    lines += [
        "| settings | query | " + " | ".join(shown[1:]) + " |",
        "|---|---|" + "---|" * (len(shown) - 1),
    ]
    for group, settings in GROUPS.items():
        present = [setting for setting in settings if setting in measured]
        if not present:
            continue
        for metric in METRICS:
            values = []
            for method in shown[1:]:
                logs = [
                    np.log(measured[s][method, metric][0] / measured[s]["norm-sub", metric][0])
                    for s in present
                ]
                values.append(f"{np.exp(np.mean(logs)):.3f}")
            lines.append(f"| {group} | {metric} | " + " | ".join(values) + " |")
    return "\n".join(lines) + "\n"


def write_ratios(path: Path, to: Path) -> None:
    """Write every error over the limit's, with its standard error and draws, as a table."""
    with path.open(encoding="utf-8") as file:
        draws = Counter(
            (row["dataset"], float(row["epsilon"]))
            for row in csv.DictReader(file)
            if row["method"] == "limit"
        )
    with to.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(
            ["dataset", "epsilon", "method", "metric", "ratio", "standard_error", "draws"]
        )
        for (name, epsilon), measured in ratios(path).items():
            for (method, metric), (ratio, error) in measured.items():
                row = [
                    name,
                    f"{epsilon:g}",
                    method,
                    metric,
                    f"{ratio:.5g}",
                    f"{error:.3g}",
                    draws[name, epsilon],
                ]
                writer.writerow(row)


def main() -> None:
    """Run what is missing, print the tables and write them."""
    draws = BUILD / "draws.csv"
    run(draws, int(sys.argv[1]) if len(sys.argv) > 1 else DRAWS)
    write_ratios(draws, OUT / "priors.csv")
    text = summary(draws)
    (OUT / "priors-tables.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()

"""How far malicious users move an estimate, and what post-processing takes back.

Run as ``python -m experiments.poisoning``, which takes half a minute. The data are emoji
frequencies of 50,000 genuine users; the attacker promotes ten values that nobody, or almost nobody,
has. Recovery knows the true share of malicious users, which favours it.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

import ldpopt
from ldpopt import FrequencyEstimate, datasets, style
from ldpopt.oracles import GRR, OLH, OUE, FrequencyOracle
from ldpopt.studies import poisoning

RESULTS = Path(__file__).parent / "results"
COLUMNS = [
    "figure",
    "panel",
    "dataset",
    "oracle",
    "n",
    "d",
    "epsilon",
    "method",
    "query",
    "parameter",
    "metric",
    "mean",
    "std",
    "trials",
]
ORACLES = (GRR, OUE, OLH)
SHARES = (0.0, 0.01, 0.02, 0.05, 0.1)
"""Malicious users among all."""
METHODS = {
    "base": "raw estimate",
    "norm-sub": "Norm-Sub",
    "ldp-recover": "LDPRecover",
    "ldp-recover-targets": "LDPRecover, targets known",
    "ldp-recover-attack": "LDPRecover, attack known",
}


def recovered(raw: FrequencyEstimate, method: str, eta: float, targets: list[int]) -> np.ndarray:
    """Return the frequencies by a method of the figure."""
    if not method.startswith("ldp-recover"):
        return ldpopt.postprocess(raw, method).frequencies
    knowledge: dict[str, object] = {} if method == "ldp-recover" else {"targets": targets}
    # A report of GRR supports one value, which is the default already.
    if method == "ldp-recover-attack" and not isinstance(raw.oracle, GRR):
        knowledge["supported"] = len(targets)
    return poisoning.ldp_recover(raw, eta, **knowledge).frequencies


def rows(
    n: int = 50_000, epsilon: float = 1.0, trials: int = 8, seed: int = 0
) -> Iterator[dict[str, object]]:
    """Yield a row per oracle, attack, share, method and metric."""
    data = datasets.load("emoji").scaled(n)
    # The rarest values: there a gain is most visible, and least plausible.
    targets = np.argsort(data.frequencies, kind="stable")[:10].tolist()
    for make in ORACLES:
        oracle = make(epsilon, data.d)
        for attack in poisoning.ATTACKS:
            for share in SHARES:
                # Without the attack: all attacks meet the same genuine reports.
                rng = np.random.default_rng([seed, ORACLES.index(make), round(1000 * share)])
                # So that m/(n + m) is the share.
                m = round(n * share / (1 - share))
                counts = oracle.simulate_counts(data.counts, rng, trials=trials)
                if m:
                    counts = counts + np.stack(
                        [poisoned_counts(oracle, attack, m, targets, rng) for _ in range(trials)]
                    )
                raw = oracle.estimate(counts, n + m)
                for method in METHODS:
                    repaired = recovered(raw, method, m / n, targets)
                    error = ((repaired - data.frequencies) ** 2).mean(axis=-1)
                    gain = (repaired - data.frequencies)[:, targets].sum(axis=-1)
                    for metric, values in (("mse", error), ("gain", gain)):
                        setting = [
                            "poisoning",
                            attack,
                            "emoji",
                            make.__name__,
                            n,
                            data.d,
                            epsilon,
                            method,
                            "values",
                        ]
                        result = [
                            share,
                            metric,
                            f"{values.mean():.4g}",
                            f"{values.std(ddof=1):.3g}",
                            trials,
                        ]
                        yield dict(zip(COLUMNS, [*setting, *result], strict=True))


def poisoned_counts(
    oracle: FrequencyOracle, attack: str, m: int, targets: list[int], rng: np.random.Generator
) -> np.ndarray:
    return oracle.support_counts(poisoning.ATTACKS[attack](oracle, m, targets, rng))


@style.styled
def draw(table: list[dict[str, object]], attack: str = "mga") -> Figure:
    """Return the picture: error and gain against the share of malicious users, per oracle."""
    figure = Figure(figsize=(10, 5.6), layout="constrained")
    panels = figure.subplots(2, len(ORACLES), sharex=True)
    for column, make in enumerate(ORACLES):
        # Error above, gain below: the panels of a column share their oracle.
        for line, metric in enumerate(("mse", "gain")):
            axes = panels[line, column]
            for method, label in METHODS.items():
                points = [
                    (row["parameter"], float(str(row["mean"])))
                    for row in table
                    if (row["oracle"], row["panel"], row["method"], row["metric"])
                    == (make.__name__, attack, method, metric)
                ]
                look = style.of(method).options()
                axes.plot(*zip(*points, strict=True), label=label, **look)
            if metric == "mse":
                axes.set(title=make.__name__, yscale="log")
            else:
                # Gains may be negative after recovery: the axis is linear around 0.
                axes.axhline(0, color=style.GREY, linewidth=0.6, zorder=0)
                axes.set(xlabel="malicious users among all", yscale="symlog", ylim=(-0.3, None))
    panels[0, 0].set_ylabel("mean squared error")
    panels[1, 0].set_ylabel("gain of ten targets")
    # A report of GRR supports one value, so that knowing the attack adds nothing to the targets.
    figure.suptitle(
        "Each panel has a vertical axis of its own. LDPRecover lies on Norm-Sub, or next to it;\n"
        "with GRR the lines of known targets and of a known attack are one.",
        fontsize=9,
        color="0.25",
    )
    figure.legend(
        *panels[0, 0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=5,
    )
    return figure


def main() -> None:
    """Write the table and the picture."""
    table = list(rows())
    RESULTS.mkdir(exist_ok=True)
    with (RESULTS / "poisoning.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)
    save(draw(table))


def kept() -> list[dict[str, object]]:
    """Return the kept table."""
    with (RESULTS / "poisoning.csv").open(newline="", encoding="utf-8") as file:
        return [{**row, "parameter": float(row["parameter"])} for row in csv.DictReader(file)]


def save(picture: Figure) -> None:
    """Write the picture as PNG and SVG."""
    picture.savefig(RESULTS / "poisoning.png", dpi=110)
    with mpl.rc_context({"svg.hashsalt": "ldpopt"}):  # the same picture gives the same bytes
        picture.savefig(RESULTS / "poisoning.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()

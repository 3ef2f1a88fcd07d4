"""The figures of K: Calibrate (INFOCOM 2019)."""

from __future__ import annotations

from experiments.cells.measures import TRUTH, FrequencyShares, Noise
from experiments.cells.populations import POPULATIONS
from experiments.figures.declaration import Experiment, Figure, Panel
from ldpopt.studies.engine.measures import FullDomain, HeavyHitters

_BOTH = ("kosarak", "retail")
_THREE = ("oue", "oue-zero", "oue-calibrate")
# K cuts Calibrate's output too, to show that it changes next to nothing.
_FOUR = (*_THREE, "oue-calibrate-zero")
_SCORES = ("precision", "recall", "f-score")
# From 1/8 to 8 significance thresholds, rounded because they are labels of the tables.
_MULTIPLES = tuple(round(2.0 ** (i / 2), 4) for i in range(-6, 7))

_DATA = Experiment(_BOTH, "", (), (), (FrequencyShares(),), trials=0)
# K does not print its ε: it follows from the standard deviation 5,434, printed as a variance.
_NOISE = Experiment(("kosarak",), "oue", (1.0,), ("oue",), (Noise(),))
_BY_THRESHOLD = Experiment(_BOTH, "oue", (4.0,), _THREE, (HeavyHitters(_MULTIPLES),))
_BY_EPSILON = Experiment(
    _BOTH, "oue", (1.0, 2.0, 3.0, 4.0, 5.0), _FOUR, (FullDomain(in_counts=True), HeavyHitters())
)


def _only(experiment: Experiment, population: str) -> Experiment:
    return Experiment(
        (population,),
        experiment.oracle,
        experiment.epsilons,
        experiment.methods,
        experiment.measures,
    )


def _scores(population: str, x: str) -> tuple[tuple[Panel, ...], ...]:
    return (
        tuple(
            Panel(score, score.capitalize(), population, _THREE, "heavy hitters", score, x)
            for score in _SCORES
        ),
    )


FIGURES = (
    Figure(
        name="calibrate-fig3",
        source="K Fig. 3",
        title="Share of the items that occur a given number of times",
        experiment=_DATA,
        rows=(
            tuple(
                Panel(p, POPULATIONS[p].label, p, (TRUTH,), "items", "share of items", "parameter")
                for p in _BOTH
            ),
        ),
        xlabel="number of times",
        ylabel="share of items",
        xscale="log",
        yscale="log",
        drawing="points",
    ),
    Figure(
        name="calibrate-fig4",
        source="K Fig. 4",
        title="Noise of all items within one collection, ε = 1",
        experiment=_NOISE,
        rows=(
            (
                Panel(
                    "kosarak",
                    "Kosarak",
                    "kosarak",
                    ("oue", "predicted"),
                    "noise",
                    "density",
                    "parameter",
                ),
            ),
        ),
        xlabel="noise in counts",
        ylabel="density",
        xscale="linear",
        yscale="linear",
        drawing="noise",
    ),
    Figure(
        name="calibrate-fig5",
        source="K Fig. 5",
        title="Heavy hitters of Kosarak by threshold, ε = 4",
        experiment=_only(_BY_THRESHOLD, "kosarak"),
        rows=_scores("kosarak", "parameter"),
        xlabel="threshold (count)",
        ylabel="",
        xscale="log",
        yscale="linear",
        drawing="thresholds",
    ),
    Figure(
        name="calibrate-fig6",
        source="K Fig. 6",
        title="Heavy hitters of Retail by threshold, ε = 4",
        experiment=_only(_BY_THRESHOLD, "retail"),
        rows=_scores("retail", "parameter"),
        xlabel="threshold (count)",
        ylabel="",
        xscale="log",
        yscale="linear",
        drawing="thresholds",
    ),
    Figure(
        name="calibrate-fig7",
        source="K Fig. 7",
        title="Estimation error (MSE of counts), and the gain of OUE-Calibrate on OUE-Zero",
        experiment=_BY_EPSILON,
        rows=(
            tuple(
                Panel(p, POPULATIONS[p].label, p, _FOUR, "full domain", "mse (counts)", "epsilon")
                for p in _BOTH
            ),
        ),
        xlabel="ε",
        ylabel="estimation error",
        drawing="improvement",
    ),
    Figure(
        name="calibrate-fig8",
        source="K Fig. 8",
        title="Heavy hitters of Kosarak at the significance threshold, varying ε",
        experiment=_only(_BY_EPSILON, "kosarak"),
        rows=_scores("kosarak", "epsilon"),
        xlabel="ε",
        ylabel="",
        xscale="linear",
        yscale="linear",
    ),
    Figure(
        name="calibrate-fig9",
        source="K Fig. 9",
        title="Heavy hitters of Retail at the significance threshold, varying ε",
        experiment=_only(_BY_EPSILON, "retail"),
        rows=_scores("retail", "epsilon"),
        xlabel="ε",
        ylabel="",
        xscale="linear",
        yscale="linear",
    ),
)

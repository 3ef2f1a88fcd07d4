"""The figures of K: Calibrate (INFOCOM 2019)."""

from __future__ import annotations

from experiments.cells.measures import TRUTH, FrequencyShares, FullDomain, HeavyHitters, Noise
from experiments.cells.populations import POPULATIONS
from experiments.figures.declaration import Experiment, Figure, Panel

_BOTH = ("kosarak", "retail")
_THREE = ("oue", "oue-zero", "oue-calibrate")
_FOUR = (*_THREE, "oue-calibrate-zero")
_SCORES = ("precision", "recall", "f-score")
_MULTIPLES = tuple(
    round(2.0 ** (i / 2), 4) for i in range(-6, 7)
)  # from 1/8 to 8 significance thresholds

_DATA = Experiment(_BOTH, "", (), (), (FrequencyShares(),), trials=0)
_NOISE = Experiment(
    ("kosarak",), "oue", (1.0,), ("oue",), (Noise(),)
)  # ε is not printed: it follows from "5434"
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
        "calibrate-fig3", "K Fig. 3", "Share of the items that occur a given number of times", _DATA,
        (tuple(Panel(p, POPULATIONS[p].label, p, (TRUTH,), "items", "share of items", "parameter") for p in _BOTH),),
        "frequency", "share of items", "log", "log", "points",
    ),
    Figure(
        "calibrate-fig4", "K Fig. 4", "Noise of all items within one collection, ε = 1", _NOISE,
        ((Panel("kosarak", "Kosarak", "kosarak", ("oue", "predicted"), "noise", "density", "parameter"),),),
        "noise in counts", "density", "linear", "linear", "noise",
    ),
    Figure(
        "calibrate-fig5", "K Fig. 5", "Heavy hitters of Kosarak by threshold, ε = 4", _only(_BY_THRESHOLD, "kosarak"),
        _scores("kosarak", "parameter"), "threshold (count)", "", "log", "linear", "thresholds",
    ),
    Figure(
        "calibrate-fig6", "K Fig. 6", "Heavy hitters of Retail by threshold, ε = 4", _only(_BY_THRESHOLD, "retail"),
        _scores("retail", "parameter"), "threshold (count)", "", "log", "linear", "thresholds",
    ),
    Figure(
        "calibrate-fig7", "K Fig. 7", "Estimation error (MSE of counts), and the gain of OUE-Calibrate on OUE-Zero", _BY_EPSILON,
        (tuple(Panel(p, POPULATIONS[p].label, p, _FOUR, "full domain", "mse (counts)", "epsilon") for p in _BOTH),),
        "ε", "estimation error", drawing="improvement",
    ),
    Figure(
        "calibrate-fig8", "K Fig. 8", "Heavy hitters of Kosarak at the significance threshold, varying ε",
        _only(_BY_EPSILON, "kosarak"), _scores("kosarak", "epsilon"), "ε", "", "linear", "linear",
    ),
    Figure(
        "calibrate-fig9", "K Fig. 9", "Heavy hitters of Retail at the significance threshold, varying ε",
        _only(_BY_EPSILON, "retail"), _scores("retail", "epsilon"), "ε", "", "linear", "linear",
    ),
)  # fmt: skip

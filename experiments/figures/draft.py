"""The figures of D, the draft of 2019: Consistent and accurate frequency oracles under local differential privacy."""

from __future__ import annotations

from experiments.cells.measures import TRUTH, FixedSets, FullDomain, RandomSets, RankedCounts, Top
from experiments.cells.populations import POPULATIONS
from experiments.figures.declaration import METHODS, Experiment, Figure, Panel, two_sided

_ALL = METHODS["D"]
_EPSILONS = tuple(round(0.2 * i, 1) for i in range(1, 11))
_BOTH, _TITLES = ("zipf", "us-cities"), ("Zipf's", "US cities")
_FOUR, _FOUR_TITLES = (
    ("beta", "pos", "fire", "kosarak-sessions"),
    ("Beta", "POS", "Fire", "Kosarak"),
)
_SIX = ("us-cities", "kosarak-sessions", "pos", "fire", "beta", "zipf")

_BY_EPSILON = Experiment(_BOTH, "oue", _EPSILONS, _ALL, (FullDomain(),))
_SETS = Experiment(
    _BOTH,
    "oue",
    (1.0,),
    _ALL,
    (RandomSets((*range(1, 10), *range(10, 91, 10))), Top(tuple(range(2, 33, 2)))),
)
_STATES = Experiment(("us-cities",), "oue", _EPSILONS, _ALL, (FixedSets(("state", "division")),))
_DATA = Experiment(_SIX, "", (), (), (RankedCounts(),), trials=0)
_MORE = Experiment(_FOUR, "oue", _EPSILONS, _ALL, (FullDomain(), RandomSets((5,)), Top((10,))))

FIGURES = (
    Figure(
        "draft-fig1", "D Fig. 1", "MSE of the full domain, varying ε", _BY_EPSILON,
        two_sided("D", _BOTH, _TITLES, "full domain", "mse", "epsilon"), "ε", "MSE",
    ),
    Figure(
        "draft-fig2", "D Fig. 2", "MSE of random sets of ρ % of the values, ε = 1", _SETS,
        two_sided("D", _BOTH, _TITLES, "random sets", "mse", "parameter", only=tuple(range(10, 91, 10))), "ρ in %", "MSE",
    ),
    Figure(
        "draft-fig3", "D Fig. 3", "MSE of random sets of ρ % of the values, small sets, ε = 1", _SETS,
        two_sided("D", _BOTH, _TITLES, "random sets", "mse", "parameter", only=tuple(range(1, 11))), "ρ in %", "MSE",
    ),
    Figure(
        "draft-fig4", "D Fig. 4", "MSE of the cities' states and divisions, varying ε", _STATES,
        tuple(
            tuple(
                Panel(f"{family} {panel.name}", title, panel.population, panel.methods, panel.query, panel.metric, panel.x)
                for panel in row
            )
            for family, title in (("state", "State"), ("division", "Division"))
            for row in two_sided("D", ("us-cities",), ("",), f"{family} sets", "mse", "epsilon")
        ), "ε", "MSE",
    ),
    Figure(
        "draft-fig5", "D Fig. 5", "MSE of the k most frequent values, ε = 1", _SETS,
        two_sided("D", _BOTH, _TITLES, "top k", "mse", "parameter", also_right=("base",)), "k", "MSE",
    ),
    Figure(
        "draft-fig6", "D Fig. 6", "Counts by rank", _DATA,
        tuple(
            tuple(Panel(p, POPULATIONS[p].label, p, (TRUTH,), "value", "count", "parameter") for p in row)
            for row in (_SIX[:3], _SIX[3:])
        ), "rank of the value", "count", drawing="ranks",
    ),
    Figure(
        "draft-fig7", "D Fig. 7", "Mean absolute error of the full domain, varying ε", _MORE,
        two_sided("D", _FOUR, _FOUR_TITLES, "full domain", "mae", "epsilon"), "ε", "MAE",
    ),
    Figure(
        "draft-fig8", "D Fig. 8", "MSE of random sets of 5 % of the values, varying ε", _MORE,
        two_sided("D", _FOUR, _FOUR_TITLES, "random sets", "mse", "epsilon"), "ε", "MSE",
    ),
    Figure(
        "draft-fig9", "D Fig. 9", "MSE of the 10 most frequent values, varying ε", _MORE,
        two_sided("D", _FOUR, _FOUR_TITLES, "top k", "mse", "epsilon"), "ε", "MSE",
    ),
)  # fmt: skip

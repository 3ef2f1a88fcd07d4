"""The figures of D, the 2019 draft of N on consistent and accurate frequency oracles."""

from __future__ import annotations

from experiments.cells.measures import TRUTH, RankedCounts
from experiments.cells.populations import POPULATIONS
from experiments.figures.declaration import METHODS, Experiment, Figure, Panel, two_sided
from ldpopt.studies.engine.measures import FixedSets, FullDomain, RandomSets, Top

_ALL = METHODS["D"]
_EPSILONS = tuple(round(0.2 * i, 1) for i in range(1, 11))
_BOTH = ("zipf", "us-cities")
_TITLES = ("Zipf's", "US cities")
_FOUR = ("beta", "pos", "fire", "kosarak-sessions")
_FOUR_TITLES = ("Beta", "POS", "Fire", "Kosarak")
# The order of the panels of D Fig. 6.
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
        name="draft-fig1",
        source="D Fig. 1",
        title="MSE of the full domain, varying ε",
        experiment=_BY_EPSILON,
        rows=two_sided("D", _BOTH, _TITLES, "full domain", "mse", "epsilon"),
        xlabel="ε",
        ylabel="MSE",
    ),
    Figure(
        name="draft-fig2",
        source="D Fig. 2",
        title="MSE of random sets of ρ % of the values, ε = 1",
        experiment=_SETS,
        rows=two_sided(
            "D", _BOTH, _TITLES, "random sets", "mse", "parameter", only=tuple(range(10, 91, 10))
        ),
        xlabel="ρ in %",
        ylabel="MSE",
    ),
    Figure(
        name="draft-fig3",
        source="D Fig. 3",
        title="MSE of random sets of ρ % of the values, small sets, ε = 1",
        experiment=_SETS,
        rows=two_sided(
            "D", _BOTH, _TITLES, "random sets", "mse", "parameter", only=tuple(range(1, 11))
        ),
        xlabel="ρ in %",
        ylabel="MSE",
    ),
    Figure(
        name="draft-fig4",
        source="D Fig. 4",
        title="MSE of the cities' states and divisions, varying ε",
        experiment=_STATES,
        rows=tuple(
            tuple(
                Panel(
                    f"{family} {panel.name}",
                    title,
                    panel.population,
                    panel.methods,
                    panel.query,
                    panel.metric,
                    panel.x,
                )
                for panel in row
            )
            for family, title in (("state", "State"), ("division", "Division"))
            for row in two_sided("D", ("us-cities",), ("",), f"{family} sets", "mse", "epsilon")
        ),
        xlabel="ε",
        ylabel="MSE",
    ),
    Figure(
        name="draft-fig5",
        source="D Fig. 5",
        title="MSE of the k most frequent values, ε = 1",
        experiment=_SETS,
        rows=two_sided("D", _BOTH, _TITLES, "top k", "mse", "parameter", also_right=("base",)),
        xlabel="k",
        ylabel="MSE",
    ),
    Figure(
        name="draft-fig6",
        source="D Fig. 6",
        title="Counts by rank",
        experiment=_DATA,
        rows=tuple(
            tuple(
                Panel(p, POPULATIONS[p].label, p, (TRUTH,), "value", "count", "parameter")
                for p in row
            )
            for row in (_SIX[:3], _SIX[3:])
        ),
        xlabel="rank of the value",
        ylabel="count",
        drawing="ranks",
    ),
    Figure(
        name="draft-fig7",
        source="D Fig. 7",
        title="Mean absolute error of the full domain, varying ε",
        experiment=_MORE,
        rows=two_sided("D", _FOUR, _FOUR_TITLES, "full domain", "mae", "epsilon"),
        xlabel="ε",
        ylabel="MAE",
    ),
    Figure(
        name="draft-fig8",
        source="D Fig. 8",
        title="MSE of random sets of 5 % of the values, varying ε",
        experiment=_MORE,
        rows=two_sided("D", _FOUR, _FOUR_TITLES, "random sets", "mse", "epsilon"),
        xlabel="ε",
        ylabel="MSE",
    ),
    Figure(
        name="draft-fig9",
        source="D Fig. 9",
        title="MSE of the 10 most frequent values, varying ε",
        experiment=_MORE,
        rows=two_sided("D", _FOUR, _FOUR_TITLES, "top k", "mse", "epsilon"),
        xlabel="ε",
        ylabel="MSE",
    ),
)

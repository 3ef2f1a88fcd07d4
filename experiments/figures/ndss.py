"""The figures of N: LDP frequency estimation with consistency (NDSS 2020)."""

from __future__ import annotations

from experiments.cells.measures import SELECTED, TRUTH, ByRank, Selection
from experiments.cells.treatments import TREATMENTS
from experiments.figures.declaration import METHODS, RIGHT, Experiment, Figure, Panel, two_sided
from ldpopt.studies.engine.measures import FixedSets, FullDomain, RandomSets, Top

_ALL = METHODS["N"]
_EPSILONS = tuple(round(0.2 * i, 1) for i in range(1, 21))
_BOTH = ("zipf", "emoji")
_TITLES = ("Zipf's", "Emoji")
_NINE = (
    "base",
    "base-pos",
    "base-cut",
    "norm",
    "norm-mul",
    "norm-cut",
    "norm-sub",
    "power",
    "power-ns",
)
_FITS = ("norm-sub", "power-ns")

# An experiment may serve several figures: its cells are computed once.
_BIAS = Experiment(("zipf",), "olh", (1.0,), _NINE, (ByRank(),), trials=5_000)
_BY_EPSILON = Experiment(_BOTH, "olh", _EPSILONS, _ALL, (FullDomain(),))
_BY_N = Experiment(
    ("zipf",), "olh", (1.0,), _ALL, (FullDomain(),), ns=tuple(200_000 * i for i in range(1, 11))
)
_SETS = Experiment(
    _BOTH,
    "olh",
    (1.0,),
    _ALL,
    (RandomSets((*range(1, 10), *range(10, 91, 10))), Top(tuple(range(2, 33, 2)))),
)
_CATEGORIES = Experiment(("emoji",), "olh", _EPSILONS, _ALL, (FixedSets(("subcategory",)),))
_SELECTION = Experiment(("emoji",), "olh", _EPSILONS, _ALL, (Selection("subcategory", _FITS),))


def _by_rank(
    metric: str, with_truth: bool = False, **options: object
) -> tuple[tuple[Panel, ...], ...]:
    """Return three rows of three panels, one per method."""
    panels = [
        Panel(
            method,
            "Base (Post-Pos)" if method == "base" else TREATMENTS[method].label,
            "zipf",
            (method, TRUTH) if with_truth else (method,),
            "value",
            metric,
            "parameter",
            **options,
        )
        for method in _NINE
    ]
    return tuple(tuple(panels[i : i + 3]) for i in (0, 3, 6))


def _selection_panels() -> tuple[tuple[Panel, ...], ...]:
    query = "subcategory sets"
    methods = ("post-pos", *RIGHT["N"])
    tops = tuple(
        Panel(
            f"fitted by {fit}",
            f"synthetic data by {TREATMENTS[fit].label}",
            "emoji",
            methods,
            query,
            "simulated mse",
            "epsilon",
            only=(fit,),
        )
        for fit in _FITS
    )
    real = Panel(
        "real", "real data", "emoji", methods, query, "mse of the choice", "epsilon", only=_FITS[:1]
    )
    choices = tuple(
        Panel(
            f"choices by {fit}",
            f"chosen with {TREATMENTS[fit].label}",
            "emoji",
            _ALL,
            query,
            "share of choices",
            "epsilon",
            only=(fit,),
        )
        for fit in _FITS
    )
    regret = Panel(
        "regret",
        "regret of the choice",
        "emoji",
        (SELECTED,),
        query,
        "mse of the choice",
        "epsilon",
        "regret",
    )
    return ((*tops, real), (*choices, regret))


FIGURES = (
    Figure(
        name="ndss-fig1",
        source="N Fig. 1",
        title="True counts and mean estimated counts, Zipf's, ε = 1",
        experiment=_BIAS,
        rows=_by_rank("count", with_truth=True),
        xlabel="rank of the value",
        ylabel="count",
        xscale="log",
        yscale="log",
        drawing="ranks",
    ),
    Figure(
        name="ndss-fig2",
        source="N Fig. 2",
        title="Bias of the estimated counts, Zipf's, ε = 1",
        experiment=_BIAS,
        rows=_by_rank("bias (counts)"),
        xlabel="rank of the value",
        ylabel="bias in counts",
        xscale="log",
        yscale="symlog",
        drawing="ranks",
    ),
    Figure(
        name="ndss-fig3",
        source="N Fig. 3",
        title="Variance of the estimated counts over n, Zipf's, ε = 1",
        experiment=_BIAS,
        rows=_by_rank("count", shown="variance / n"),
        xlabel="rank of the value",
        ylabel="variance of the count / n",
        xscale="log",
        yscale="linear",
        drawing="ranks",
    ),
    Figure(
        name="ndss-fig4",
        source="N Fig. 4",
        title="MSE of the full domain, varying ε",
        experiment=_BY_EPSILON,
        rows=two_sided("N", _BOTH, _TITLES, "full domain", "mse", "epsilon"),
        xlabel="ε",
        ylabel="MSE",
    ),
    Figure(
        name="ndss-fig5",
        source="N Fig. 5",
        title="Users n′ that Base would need for the same MSE, Zipf's, ε = 1",
        experiment=_BY_N,
        rows=two_sided("N", ("zipf",), ("Zipf's",), "full domain", "mse", "n", shown="effective n"),
        xlabel="users n",
        ylabel="effective users n′",
        yscale="linear",
    ),
    Figure(
        name="ndss-fig6",
        source="N Fig. 6",
        title="MSE of random sets of ρ % of the values, ε = 1",
        experiment=_SETS,
        rows=two_sided(
            "N", _BOTH, _TITLES, "random sets", "mse", "parameter", only=tuple(range(10, 91, 10))
        ),
        xlabel="ρ in %",
        ylabel="MSE",
    ),
    Figure(
        name="ndss-fig7",
        source="N Fig. 7",
        title="MSE of random sets of ρ % of the values, small sets, ε = 1",
        experiment=_SETS,
        rows=two_sided(
            "N", _BOTH, _TITLES, "random sets", "mse", "parameter", only=tuple(range(1, 11))
        ),
        xlabel="ρ in %",
        ylabel="MSE",
    ),
    Figure(
        name="ndss-fig8",
        source="N Fig. 8",
        title="MSE of the subcategories of emoji, varying ε",
        experiment=_CATEGORIES,
        rows=two_sided("N", ("emoji",), ("Emoji",), "subcategory sets", "mse", "epsilon"),
        xlabel="ε",
        ylabel="MSE",
    ),
    Figure(
        name="ndss-fig9",
        source="N Fig. 9",
        title="Choosing a method for the subcategories of emoji on synthetic data",
        experiment=_SELECTION,
        rows=_selection_panels(),
        xlabel="ε",
        ylabel="MSE",
        drawing="selection",
    ),
    Figure(
        name="ndss-fig10",
        source="N Fig. 10",
        title="MSE of the k most frequent values, ε = 1",
        experiment=_SETS,
        rows=two_sided("N", _BOTH, _TITLES, "top k", "mse", "parameter", also_right=("base",)),
        xlabel="k",
        ylabel="MSE",
    ),
)

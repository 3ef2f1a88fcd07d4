"""The figures of N: Locally differentially private frequency estimation with consistency (NDSS 2020)."""

from __future__ import annotations

from experiments.cells.measures import (
    SELECTED,
    TRUTH,
    ByRank,
    FixedSets,
    FullDomain,
    RandomSets,
    Selection,
    Top,
)
from experiments.cells.treatments import TREATMENTS
from experiments.figures.declaration import METHODS, RIGHT, Experiment, Figure, Panel, two_sided

_ALL = METHODS["N"]
_EPSILONS = tuple(round(0.2 * i, 1) for i in range(1, 21))
_BOTH, _TITLES = ("zipf", "emoji"), ("Zipf's", "Emoji")
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
    """Return three rows of three panels, one a method."""
    panels = [
        Panel(
            method, "Base (Post-Pos)" if method == "base" else TREATMENTS[method].label, "zipf",
            (method, TRUTH) if with_truth else (method,), "value", metric, "parameter", **options,
        )
        for method in _NINE
    ]  # fmt: skip
    return tuple(tuple(panels[i : i + 3]) for i in (0, 3, 6))


def _selection_panels() -> tuple[tuple[Panel, ...], ...]:
    query = "subcategory sets"
    methods = ("post-pos", *RIGHT["N"])
    tops = tuple(
        Panel(
            f"fitted by {fit}", f"synthetic data by {TREATMENTS[fit].label}", "emoji", methods, query, "simulated mse", "epsilon",
            only=(fit,),
        )
        for fit in _FITS
    )  # fmt: skip
    real = Panel(
        "real", "real data", "emoji", methods, query, "mse of the choice", "epsilon", only=_FITS[:1]
    )
    choices = tuple(
        Panel(
            f"choices by {fit}", f"chosen with {TREATMENTS[fit].label}", "emoji", _ALL, query, "share of choices", "epsilon",
            only=(fit,),
        )
        for fit in _FITS
    )  # fmt: skip
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
        "ndss-fig1", "N Fig. 1", "True counts and mean estimated counts, Zipf's, ε = 1", _BIAS,
        _by_rank("count", with_truth=True), "rank of the value", "count", "log", "log", "ranks",
    ),
    Figure(
        "ndss-fig2", "N Fig. 2", "Bias of the estimated counts, Zipf's, ε = 1", _BIAS,
        _by_rank("bias (counts)"), "rank of the value", "bias in counts", "log", "symlog", "ranks",
    ),
    Figure(
        "ndss-fig3", "N Fig. 3", "Variance of the estimated counts over n, Zipf's, ε = 1", _BIAS,
        _by_rank("count", shown="variance / n"), "rank of the value", "variance of the count / n", "log", "linear", "ranks",
    ),
    Figure(
        "ndss-fig4", "N Fig. 4", "MSE of the full domain, varying ε", _BY_EPSILON,
        two_sided("N", _BOTH, _TITLES, "full domain", "mse", "epsilon"), "ε", "MSE",
    ),
    Figure(
        "ndss-fig5", "N Fig. 5", "Users n′ that Base would need for the same MSE, Zipf's, ε = 1", _BY_N,
        two_sided("N", ("zipf",), ("Zipf's",), "full domain", "mse", "n", shown="effective n"), "users n",
        "effective users n′", yscale="linear",
    ),
    Figure(
        "ndss-fig6", "N Fig. 6", "MSE of random sets of ρ % of the values, ε = 1", _SETS,
        two_sided("N", _BOTH, _TITLES, "random sets", "mse", "parameter", only=tuple(range(10, 91, 10))), "ρ in %", "MSE",
    ),
    Figure(
        "ndss-fig7", "N Fig. 7", "MSE of random sets of ρ % of the values, small sets, ε = 1", _SETS,
        two_sided("N", _BOTH, _TITLES, "random sets", "mse", "parameter", only=tuple(range(1, 11))), "ρ in %", "MSE",
    ),
    Figure(
        "ndss-fig8", "N Fig. 8", "MSE of the subcategories of emoji, varying ε", _CATEGORIES,
        two_sided("N", ("emoji",), ("Emoji",), "subcategory sets", "mse", "epsilon"), "ε", "MSE",
    ),
    Figure(
        "ndss-fig9", "N Fig. 9", "Choosing a method for the subcategories of emoji on synthetic data", _SELECTION,
        _selection_panels(), "ε", "MSE", drawing="selection",
    ),
    Figure(
        "ndss-fig10", "N Fig. 10", "MSE of the k most frequent values, ε = 1", _SETS,
        two_sided("N", _BOTH, _TITLES, "top k", "mse", "parameter", also_right=("base",)), "k", "MSE",
    ),
)  # fmt: skip

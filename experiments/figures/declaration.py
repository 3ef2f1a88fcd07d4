"""What a figure is: an experiment, and panels that show some of its numbers, without the how."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from experiments.cells import measures
from experiments.cells.treatments import TREATMENTS
from ldpopt.studies.engine.candidate import Candidate
from ldpopt.studies.engine.measures import Measure, RandomSets

# The panels of a row of two, as in N V-A: Norm-Sub, the best of the simple methods, is in both.
LEFT = (
    "base",
    "base-pos",
    "post-pos",
    "norm",
    "norm-mul",
    "norm-sub",
)
RIGHT = {
    "N": ("norm-sub", "mle-apx", "base-cut", "norm-cut", "power", "power-ns"),
    "D": ("norm-sub", "mle-apx", "base-cut", "norm-cut", "norm-hyb", "power"),
}
METHODS = {paper: tuple(dict.fromkeys(LEFT + right)) for paper, right in RIGHT.items()}

QUICK = 4  # trials of a quick run
_QUICK_POINTS = 4  # of a grid


@dataclass(frozen=True)
class Experiment:
    """What is simulated: the product of populations, numbers of users and budgets, each a cell.

    Attributes
    ----------
    populations
        Names in ``cells.populations.POPULATIONS``.
    oracle, epsilons
        A name in ``cells.protocols.ORACLES``, and budgets; none where the data themselves are
        shown.
    methods
        Names in ``cells.treatments.TREATMENTS``.
    measures
        What is measured on every trial.
    trials
        As many as in the paper.
    ns
        Numbers of users to scale the population to; empty for its own.
    additions
        Candidates of the user's, beside the methods.
    """

    populations: tuple[str, ...]
    oracle: str
    epsilons: tuple[float, ...]
    methods: tuple[str, ...]
    measures: tuple[Measure, ...]
    trials: int = 30
    ns: tuple[int, ...] = ()
    additions: tuple[Candidate, ...] = ()

    def __post_init__(self) -> None:
        # A misspelt name is an error at declaration time rather than in the middle of a run.
        _ = self.candidates

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """What is done to every estimate: the methods, and what the user adds."""
        return (*(TREATMENTS[name] for name in self.methods), *self.additions)

    def quick(self) -> Experiment:
        """Return the same experiment with a few trials at a few points: a smoke test."""
        return replace(
            self,
            epsilons=_thinned(self.epsilons),
            ns=_thinned(self.ns),
            # The bias of a single value needs more trials to be seen than an error over the domain.
            trials=min(self.trials, QUICK if self.trials < 1000 else 50),
            measures=tuple(_quick(m) for m in self.measures),
        )


def _thinned(grid: tuple) -> tuple:
    """Return at most a few points, the ends among them."""
    if len(grid) <= _QUICK_POINTS:
        return grid
    last = _QUICK_POINTS - 1
    # Evenly, since curves bend in the middle.
    return tuple(grid[round(i * (len(grid) - 1) / last)] for i in range(_QUICK_POINTS))


def _quick(measure: Measure) -> Measure:
    match measure:
        case RandomSets():
            # Errors of a set vary little from one to the next: twenty show their size.
            return replace(measure, sets=20)
        case measures.Selection():
            return replace(measure, trials=2)
    return measure


@dataclass(frozen=True)
class Panel:
    """One pair of axes.

    Attributes
    ----------
    name, title
        In the tables, and above the axes.
    population
        Whose cells it shows.
    methods
        Its lines.
    query, metric
        Which moments of the cells.
    x
        What runs along the axis: "epsilon", "n" or "parameter".
    shown
        What becomes of the metric: "mean" as it is, "effective n", "variance / n" or "regret".
    only
        Of the parameters, these; all if empty.
    """

    name: str
    title: str
    population: str
    methods: tuple[str, ...]
    query: str
    metric: str
    x: Literal["epsilon", "n", "parameter"]
    shown: Literal["mean", "effective n", "variance / n", "regret"] = "mean"
    only: tuple[str | float, ...] = ()


@dataclass(frozen=True)
class Figure:
    """A figure of a paper.

    Attributes
    ----------
    name, source, title
        As the command line, the papers and the caption call it.
    experiment
        What is simulated.
    rows
        Panels as they stand on the page.
    drawing
        How panels are drawn: a name in ``pictures.draw.DRAWINGS``.
    xlabel, ylabel, xscale, yscale
        Of the axes.
    """

    name: str
    source: str
    title: str
    experiment: Experiment
    rows: tuple[tuple[Panel, ...], ...]
    xlabel: str
    ylabel: str
    xscale: Literal["linear", "log"] = "linear"
    yscale: Literal["linear", "log", "symlog"] = "log"
    drawing: str = "curves"

    @property
    def panels(self) -> tuple[Panel, ...]:
        """All panels, row by row."""
        return tuple(panel for row in self.rows for panel in row)


def two_sided(
    paper: str,
    populations: Iterable[str],
    titles: Iterable[str],
    query: str,
    metric: str,
    x: str,
    **options: object,
) -> tuple[tuple[Panel, ...], ...]:
    """Return a row of two panels per population, with methods left and right as in N V-A."""
    also = options.pop("also_right", ())
    return tuple(
        tuple(
            Panel(f"{population} {side}", title, population, methods, query, metric, x, **options)
            for side, methods in (("left", LEFT), ("right", (*also, *RIGHT[paper])))
        )
        for population, title in zip(populations, titles, strict=True)
    )

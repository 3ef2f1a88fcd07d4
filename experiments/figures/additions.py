"""Figures with methods and data of the user: one more line, or other populations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from experiments.cells.measures import TRUTH, Noise, Selection
from experiments.cells.populations import POPULATIONS
from experiments.cells.treatments import TREATMENTS
from experiments.errors import ExperimentError
from experiments.figures.declaration import Figure, Panel
from ldpopt.datasets import Dataset
from ldpopt.studies.engine.candidate import Candidate
from ldpopt.studies.engine.measures import FixedSets, Measure, Top

SUFFIX = "-own"
"""Of the names of such figures, so that the papers' own tables in the same folder stay."""

Rows = tuple[tuple[Panel, ...], ...]


def with_additions(
    figure: Figure, candidates: Sequence[Candidate], data: Sequence[Dataset]
) -> Figure:
    """Return a figure with more candidates, and with other data in place of its own, if any.

    Raises ExperimentError if the figure has no place for them, or names are taken.
    """
    if not candidates and not data:
        return figure
    rows = figure.rows
    title = figure.title
    experiment = figure.experiment
    if data:
        _require_sets(figure, data)
        pattern = experiment.populations[0]
        rows = _on(rows, pattern, data)
        names = ", ".join(each.name for each in data)
        # A title has the name of its data as a caption writes it, or as we do.
        title = title.replace(POPULATIONS[pattern].label, names).replace(pattern, names)
        smallest = min(each.d for each in data)
        experiment = replace(
            experiment,
            populations=tuple(each.name for each in data),
            measures=tuple(_within(measure, smallest) for measure in experiment.measures),
        )
    if candidates:
        _require_methods(figure, candidates)
        rows = _with_lines(rows, [candidate.name for candidate in candidates])
        experiment = replace(experiment, additions=tuple(candidates))
    return replace(
        figure,
        name=figure.name + SUFFIX,
        source=f"after {figure.source}",
        title=title,
        rows=rows,
        experiment=experiment,
    )


def _require_sets(figure: Figure, data: Sequence[Dataset]) -> None:
    """Raise an error for a name that is taken, and for sets that the data lack."""
    for each in data:
        if each.name in POPULATIONS:
            raise ExperimentError(
                f"{each.name!r} is a population of the figures: give the file another name"
            )
        for family in families_of([figure]):
            if family not in each.sets:
                raise ExperimentError(
                    f"{figure.name} is about the sets {family!r}, which {each.name!r} does not "
                    f"have: add to the file the column {family!r}, with the set of each value, "
                    "or choose a figure of the whole domain, such as ndss-fig4"
                )


def _within(measure: Measure, d: int) -> Measure:
    """Return a measure as far as d values allow it: of the k most frequent ones k is at most d."""
    if isinstance(measure, Top):
        return replace(measure, ks=tuple(k for k in measure.ks if k <= d))
    return measure


def families_of(figures: Iterable[Figure]) -> list[str]:
    """Return the families of sets that figures are about, each once."""
    families: dict[str, None] = {}
    for figure in figures:
        for measure in figure.experiment.measures:
            if isinstance(measure, FixedSets):
                families |= dict.fromkeys(measure.families)
            if isinstance(measure, Selection):
                families[measure.family] = None
    return list(families)


def _require_methods(figure: Figure, candidates: Sequence[Candidate]) -> None:
    """Raise an error for figures without methods, and for names that are taken."""
    experiment = figure.experiment
    if not experiment.oracle or any(isinstance(m, Noise) for m in experiment.measures):
        raise ExperimentError(
            f"{figure.name} compares no methods: choose another figure, such as ndss-fig4"
        )
    for candidate in candidates:
        if candidate.name in TREATMENTS:
            raise ExperimentError(
                f"{candidate.name!r} is a method of the figures: give yours another name"
            )


def _on(rows: Rows, pattern: str, data: Sequence[Dataset]) -> Rows:
    """Return for each data set the panels that one population has."""
    alike = [tuple(p for p in row if p.population == pattern) for row in rows]
    return tuple(
        tuple(
            replace(
                panel,
                name=_name_on(panel, pattern, each.name, is_alone=len(data) == 1),
                title=panel.title.replace(POPULATIONS[pattern].label, each.name),
                population=each.name,
            )
            for panel in row
        )
        for each in data
        for row in alike
        if row
    )


def _name_on(panel: Panel, pattern: str, name: str, *, is_alone: bool) -> str:
    """Return the name of a panel on other data: tables tell panels apart by it."""
    # The names of panels with several populations begin with theirs.
    if pattern in panel.name:
        return panel.name.replace(pattern, name)
    return panel.name if is_alone else f"{name} {panel.name}"


def _with_lines(rows: Rows, names: Sequence[str]) -> Rows:
    """Return panels with more lines; where each method has its own panel, with more panels."""
    if all(len(_lines(panel)) <= 1 for row in rows for panel in row):
        return (*rows, *_more_panels(rows, names))
    return tuple(
        tuple(
            replace(panel, methods=(*panel.methods, *names)) if len(_lines(panel)) > 1 else panel
            for panel in row
        )
        for row in rows
    )


def _lines(panel: Panel) -> list[str]:
    return [name for name in panel.methods if name in TREATMENTS]


def _more_panels(rows: Rows, names: Sequence[str]) -> Iterable[tuple[Panel, ...]]:
    """Yield rows of panels like the first one of each population, of other methods."""
    first: dict[str, Panel] = {}
    for row in rows:
        for panel in row:
            first.setdefault(panel.population, panel)
    for panel in first.values():
        yield tuple(
            replace(
                panel,
                name=name if panel.name in TREATMENTS else f"{panel.name} {name}",
                title=name,
                methods=tuple(name if m != TRUTH else m for m in panel.methods),
            )
            for name in names
        )

"""Tidy tables: from the moments of a figure's cells to its CSV files."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple, fields
from itertools import combinations

import numpy as np

from experiments.cells.measures import SELECTED
from experiments.cells.protocols import ORACLES
from experiments.figures import Figure, Panel
from ldpopt.claims.figures.tables import Pair, Row
from ldpopt.studies.engine.cell import Cell
from ldpopt.studies.engine.moments import Label, Moments

_ALL_RANKS = 40  # ranks that are all shown; beyond them as many to a power of ten as fit the eye
_RANKS_PER_DECADE = 50

# Metrics without a curve, by the figure that prints their numbers beside its curves.
_PRINTED = {
    "ndss-fig2": ("bias sum (counts)",),
    "calibrate-fig4": ("mean (counts)", "variance (counts)"),
}


Cells = Mapping[Cell, tuple[Moments, ...]]


def rows(figure: Figure, cells: Cells) -> list[Row]:
    """Return the numbers of a figure's panels, of the cells that are there."""
    result = []
    for panel, cell, moments in _shown(figure, cells):
        for k, parameter in _parameters(panel, moments):
            for method, mean, std in _numbers(panel, cell, moments, k):
                result.append(
                    Row(
                        figure=figure.name,
                        panel=panel.name,
                        dataset=cell.population,
                        oracle=cell.oracle,
                        n=cell.n,
                        d=cell.d,
                        epsilon=cell.epsilon,
                        method=method,
                        query=moments.query,
                        parameter=parameter,
                        metric=panel.metric if panel.shown == "mean" else panel.shown,
                        mean=mean,
                        std=std,
                        trials=cell.trials,
                    )
                )
    return result + list(_summaries(figure, cells))


def pairs(figure: Figure, cells: Cells) -> list[Pair]:
    """Return the paired differences of all methods that share a panel."""
    # Panels may share methods: a pair stands in the table once.
    result: dict[tuple, Pair] = {}
    for panel, cell, moments in _shown(figure, cells):
        if not _has_pairs(panel, cell, moments):
            continue
        names = [m for m in panel.methods if m in moments.methods]
        for reference, method in combinations(names, 2):
            for pair in _differences(figure, panel, cell, moments, method, reference):
                # A cell knows more than a row of the table, such as its data and its trials.
                key = (cell, pair.query, pair.metric, pair.parameter, method, reference)
                result.setdefault(key, pair)
    return list(result.values())


def _has_pairs(panel: Panel, cell: Cell, moments: Moments) -> bool:
    # One trial has no interval. A pair for each of thousands of values would fill the file.
    return (
        cell.trials >= 2
        and panel.shown != "variance / n"
        and moments.query != "value"
        and moments.metric != "share of choices"
    )


def _differences(
    figure: Figure, panel: Panel, cell: Cell, moments: Moments, method: str, reference: str
) -> Iterator[Pair]:
    """Yield the mean difference of two methods, with Student's interval, at each parameter."""
    from scipy.special import stdtrit

    reach = float(stdtrit(cell.trials - 1, 0.975)) / math.sqrt(cell.trials)
    std = moments.difference_std(method, reference)
    m = moments.methods.index(method)
    r = moments.methods.index(reference)
    for k, parameter in _parameters(panel, moments):
        middle = float(moments.mean[k, m] - moments.mean[k, r])
        half = reach * float(std[k])
        yield Pair(
            figure=figure.name,
            panel=panel.name,
            dataset=cell.population,
            n=cell.n,
            epsilon=cell.epsilon,
            query=moments.query,
            parameter=parameter,
            metric=moments.metric,
            method=method,
            reference=reference,
            difference=middle,
            low=middle - half,
            high=middle + half,
            std=float(std[k]),
            trials=cell.trials,
        )


def _shown(figure: Figure, cells: Cells) -> Iterator[tuple[Panel, Cell, Moments]]:
    for panel in figure.panels:
        for cell, results in cells.items():
            if cell.population == panel.population:
                for moments in results:
                    if (moments.query, moments.metric) == (panel.query, panel.metric):
                        yield panel, cell, moments


def _parameters(panel: Panel, moments: Moments) -> list[tuple[int, Label]]:
    """Return positions and labels of a panel's parameters; long lists of ranks are thinned."""
    chosen = [(k, p) for k, p in enumerate(moments.parameters) if not panel.only or p in panel.only]
    if moments.query not in ("value", "items") or len(chosen) <= 2 * _ALL_RANKS:
        return chosen
    decades = math.log10(len(chosen) / _ALL_RANKS)
    # Evenly along the logarithmic axis on which ranks are drawn.
    further = np.geomspace(_ALL_RANKS, len(chosen) - 1, round(decades * _RANKS_PER_DECADE))
    return [chosen[i] for i in sorted({*range(_ALL_RANKS), *further.round().astype(int).tolist()})]


def _numbers(
    panel: Panel, cell: Cell, moments: Moments, k: int
) -> Iterator[tuple[str, float, float]]:
    """Yield method, mean and standard deviation of what the panel shows."""
    std = moments.std[k]
    # A regret is of the choice alone, whatever lines the panel has.
    if panel.shown == "regret":
        yield (SELECTED, *_regret(moments, k))
        return
    for method in panel.methods:
        # A method of the user that failed has no numbers, and the others keep theirs.
        if method not in moments.methods:
            continue
        m = moments.methods.index(method)
        mean = float(moments.mean[k, m])
        sd = float(std[m])
        if panel.shown == "variance / n":
            yield method, sd**2 / cell.n, math.nan
        elif panel.shown == "effective n":
            oracle = ORACLES[cell.oracle](cell.epsilon, cell.d)
            # Base's MSE is a/n + b/(d n): solved for the n at which Base would have this error.
            users = (oracle.a + oracle.b / cell.d) / mean  # n′ of MSE = a/n′ + b/(d n′) (N V-C)
            # By the delta method: n′ is inversely proportional to the error, so both have one
            # relative sd.
            yield method, users, users * sd / mean
        else:
            yield method, mean, sd


def _regret(moments: Moments, k: int) -> tuple[float, float]:
    """Return the relative excess of the choices' error over the best method's, and its sd."""
    # The choice itself is none of the methods that it chose from.
    names = [m for m in moments.methods if m != SELECTED]
    means = dict(zip(moments.methods, moments.mean[k], strict=True))
    best = min(names, key=lambda m: means[m])
    ratio = float(means[SELECTED] / means[best])
    s = moments.methods.index(SELECTED)
    b = moments.methods.index(best)
    c = moments.covariance[k]
    # The delta method for the ratio of two means on the same trials.
    variance = c[s, s] - 2 * ratio * c[s, b] + ratio**2 * c[b, b]
    return ratio - 1, math.sqrt(max(float(variance), 0.0)) / float(means[best])


def _summaries(figure: Figure, cells: Cells) -> Iterator[Row]:
    """Yield the numbers printed beside the curves: sums of biases, fitted means and variances."""
    wanted = _PRINTED.get(figure.name, ())
    for cell, results in cells.items():
        for moments in results:
            if moments.metric in wanted:
                yield from _summary(figure, cell, moments)


def _summary(figure: Figure, cell: Cell, moments: Moments) -> Iterator[Row]:
    panels = [panel.name for panel in figure.panels]
    for m, method in enumerate(moments.methods):
        yield Row(
            figure=figure.name,
            # Where each method has a panel of its own, the panel has its name.
            panel=method if method in panels else panels[0],
            dataset=cell.population,
            oracle=cell.oracle,
            n=cell.n,
            d=cell.d,
            epsilon=cell.epsilon,
            method=method,
            query=moments.query,
            parameter="",
            metric=moments.metric,
            mean=float(moments.mean[0, m]),
            std=float(moments.std[0, m]),
            trials=cell.trials,
        )


def to_csv(table: Iterable[Row] | Iterable[Pair], kind: type[Row] | type[Pair]) -> str:
    """Return the table as CSV; six significant digits, empty for NaN."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(field.name for field in fields(kind))
    writer.writerows([_cell(value) for value in astuple(row)] for row in table)
    return text.getvalue()


def _cell(value: object) -> object:
    # Six digits: more than the trials determine, and the same on every machine.
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.6g}"
    return value

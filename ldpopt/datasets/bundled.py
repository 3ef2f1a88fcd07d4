"""The data sets that come with the package.

They are CSV files with the columns label and count, and one column per family of sets.
"""

from __future__ import annotations

import csv
from importlib.resources import files

import numpy as np

from ldpopt.datasets.dataset import Dataset


def _load(name: str, source: str) -> Dataset:
    """Read ``data/name.csv``; the sets of a family are ordered by name."""
    file = files("ldpopt.datasets").joinpath("data", f"{name}.csv")
    text = file.read_text(encoding="utf-8")
    # Not by the reader of users' files: this one has columns of sets, and no errors to name.
    header, *rows = csv.reader(text.splitlines())
    labels, counts, *columns = zip(*rows, strict=True)
    sets = {}
    set_names = {}
    for family, column in zip(header[2:], columns, strict=True):
        # By name, as ``set_names`` lists them: rows may come in any order.
        names = tuple(sorted(set(column)))
        of_value = np.array(column)
        sets[family] = [np.flatnonzero(of_value == set_name) for set_name in names]
        set_names[family] = names
    return Dataset(
        name=name,
        counts=np.array(counts, dtype=np.int64),
        labels=labels,
        source=source,
        sets=sets,
        set_names=set_names,
    )


def emoji() -> Dataset:
    """Return how often 736 emoji occur in tweets; sets: ``subcategory`` (93) and ``category`` (9).

    Returns
    -------
    The data set of n = 147,357 occurrences, the most frequent emoji first.

    Notes
    -----
    Source: P. Kralj Novak, J. Smailović, B. Sluban, I. Mozetič, *Sentiment of Emojis*, PLoS ONE
    10(12), 2015.

    Examples
    --------
    >>> data = emoji()
    >>> data.n, data.d, len(data.sets["subcategory"])
    (147357, 736, 93)
    """
    return _load("emoji", "Emoji Sentiment Ranking v1.0 (Kralj Novak et al. 2015), CC BY-SA 4.0")


def us_cities() -> Dataset:
    """Return the population of 3,407 US places above 15,000 people.

    Sets: ``state`` (51) and ``division`` (9).

    Returns
    -------
    The data set of n = 217,061,901 people, the largest place first. States include the District of
    Columbia; divisions are those of the US Census Bureau.

    Examples
    --------
    >>> data = us_cities()
    >>> data.set_names["state"][0], data.set_names["division"][0]
    ('AK', 'East North Central')
    """
    return _load("us-cities", "GeoNames, US places above 15,000 people (geonames.org), CC BY 4.0")

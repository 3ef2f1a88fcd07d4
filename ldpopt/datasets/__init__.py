"""Data sets to simulate users from: generated, bundled, downloaded, or supplied by the user.

``load(name)`` returns a ``Dataset``: the true counts of a domain, its labels and its fixed sets.
``read_transactions``, ``read_column`` and ``read_counts`` read the user's own files, and
``read_frequencies`` reads estimates. The origin of every data set is its ``source``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike

from ldpopt import validate
from ldpopt.datasets.bundled import emoji, us_cities
from ldpopt.datasets.dataset import Dataset
from ldpopt.datasets.readers import (
    Transactions,
    read_column,
    read_counts,
    read_frequencies,
    read_transactions,
)
from ldpopt.datasets.remote import kosarak, retail
from ldpopt.datasets.supplied import fire, pos
from ldpopt.datasets.synthetic import beta, zipf
from ldpopt.errors import UnknownNameError

__all__ = [
    "NAMES",
    "Dataset",
    "Transactions",
    "load",
    "read_column",
    "read_counts",
    "read_frequencies",
    "read_transactions",
]

_LOADERS: Mapping[str, Callable[[], Dataset]] = {
    "zipf": zipf,
    "beta": beta,
    "emoji": emoji,
    "us-cities": us_cities,
    "kosarak": kosarak,
    "retail": retail,
    "pos": pos,
    "fire": fire,
}

NAMES: tuple[str, ...] = tuple(_LOADERS)


def load(name: str) -> Dataset:
    """Return the data set called ``name``.

    ========= ====== =========== =============================================== ==========
    name           d           n what is counted                                 origin
    ========= ====== =========== =============================================== ==========
    zipf       1,024   1,000,000 expected counts of Zipf(1.5)                    generated
    beta         400     100,000 expected counts of Beta(50, 2) in equal buckets generated
    emoji        736     147,357 emoji in tweets; 93 subcategories               bundled
    us-cities  3,407 217,061,901 people in US places; 51 states, 9 divisions     bundled
    kosarak   41,270   8,019,015 clicks on the pages of a news portal            downloaded
    retail    16,470     908,576 products in the baskets of a supermarket        downloaded
    pos        1,657         --- items of 515,597 sales transactions (BMS-POS)   supplied
    fire         742     305,132 calls by fire unit, San Francisco, 2016         supplied
    ========= ====== =========== =============================================== ==========

    The environment variable ``LDPOPT_DATA`` names a folder with supplied files. When it is set,
    downloaded ones are read from there as well, and nothing is downloaded.

    Parameters
    ----------
    name
        One of ``NAMES``.

    Returns
    -------
    The data set, with counts of shape (d,) in users (or clicks, items, calls: the unit in the
    table above).

    Raises
    ------
    InvalidInputError
        If the name is unknown; the nearest names are suggested, and for the path of a file the
        functions that read one.
    DataUnavailableError
        If a file is missing, cannot be downloaded, or differs from the published one.

    Notes
    -----
    Nothing is kept in memory between calls. Cost: milliseconds; ``kosarak`` parses 32 MB in about a
    second.

    Examples
    --------
    >>> from ldpopt import datasets
    >>> cities = datasets.load("us-cities")
    >>> cities.d, cities.labels[:2], len(cities.sets["state"])
    (3407, ('New York City, NY', 'Los Angeles, CA'), 51)
    """
    try:
        loader = validate.lookup("data set", name, _LOADERS)
    except UnknownNameError as error:
        if not _is_path(name):
            raise
        raise UnknownNameError(
            f"{error} (files of your own are read by datasets.read_counts(path), a row per value "
            "with its count, read_column(path, column), a row per user, and "
            "read_transactions(path), a line per basket)"
        ) from None
    return loader()


def _is_path(name: object) -> bool:
    """Return whether a name is one of a file: no data set has a dot or a slash in its name."""
    return isinstance(name, PathLike) or (isinstance(name, str) and bool(set(name) & set("./\\")))

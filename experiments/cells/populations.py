"""The populations of the papers' figures, and where ours differ from theirs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ldpopt import datasets
from ldpopt.datasets import Dataset, Transactions, remote, supplied


@dataclass(frozen=True)
class Population:
    """A data set as a figure uses it.

    Attributes
    ----------
    label
        As the papers' captions write it.
    load
        Returns the data, or raises DataUnavailableError.
    note
        Where it differs from the paper's; empty if it does not.
    file
        Name of the published file that the data come from, if another population shares it: where
        the file is missing, both are.
    """

    label: str
    load: Callable[[], Dataset]
    note: str = ""
    file: str = ""


def _scaled(name: str, n: int) -> Dataset:
    return datasets.load(name).scaled(n)


def one_item_per_line(name: str, lines: Transactions, *, by_largest_id: bool = False) -> Dataset:
    """Return lines as users who each hold one of their items, drawn with a fixed seed (D 4.1, C.1).

    The domain is the items that occur in any line; with ``by_largest_id`` it is all numbers up to
    the largest.
    """
    # A fixed seed: the draw is part of the data set, and not of a trial.
    rng = np.random.default_rng(2019)
    drawn = lines.items[lines.offsets[:-1] + rng.integers(0, np.diff(lines.offsets))]
    ids = np.arange(lines.items.max() + 1) if by_largest_id else np.unique(lines.items)
    counts = np.bincount(np.searchsorted(ids, drawn), minlength=ids.size)
    return Dataset(name, counts, tuple(map(str, ids)), "one item per line, drawn at random")


def _pos() -> Dataset:
    return one_item_per_line("pos", supplied.pos_transactions())


def _kosarak_sessions() -> Dataset:
    return one_item_per_line(
        "kosarak-sessions", remote.transactions(remote.KOSARAK), by_largest_id=True
    )


POPULATIONS: dict[str, Population] = {
    "zipf": Population("Zipf's", partial(datasets.load, "zipf")),
    "emoji": Population(
        "Emoji",
        partial(_scaled, "emoji", 884_427),
        "Emoji: the paper's page (d = 1,573, n = 884,427, 68 categories) is gone. In its place: "
        "the 736 emoji of the Emoji Sentiment Ranking in 93 subcategories, scaled to n = 884,427 "
        "users.",
    ),
    "us-cities": Population(
        "US cities",
        partial(_scaled, "us-cities", 602_325),
        "US cities: the paper's sample of the 1940 census (IPUMS, d = 915, n = 602,325) is not "
        "free to ship. In its place: the populations of 3,407 US places of today, scaled to "
        "n = 602,325 users; 51 states and 9 Census divisions as sets.",
    ),
    "beta": Population("Beta", partial(datasets.load, "beta")),
    "pos": Population("POS", _pos),
    "fire": Population("Fire", partial(datasets.load, "fire")),
    "kosarak-sessions": Population("Kosarak", _kosarak_sessions, file="kosarak"),
    "kosarak": Population("Kosarak", partial(datasets.load, "kosarak"), file="kosarak"),
    "retail": Population("Retail", partial(datasets.load, "retail")),
}


def load(name: str, n: int | None = None) -> Dataset:
    """Return a population, scaled to ``n`` users if given; raise DataUnavailableError if absent."""
    # Under the name of the figures: Kosarak is two populations of one file.
    data = replace(POPULATIONS[name].load(), name=name)
    return data if n is None else data.scaled(n)

"""Find all claims: every module of a package is a topic, and every claim in it belongs to it."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from types import ModuleType

from ldpopt.claims.engine.claim import Claim


def collect(package: ModuleType) -> dict[str, Claim]:
    """Return the claims of all modules of a package by id: topics by ORDER, claims as written.

    Each module states its ``TITLE`` (the heading in the report) and its ``ORDER`` (a number; the
    topic with the smallest one comes first).

    Parameters
    ----------
    package
        The package of topics, imported.

    Raises
    ------
    TypeError
        If a module states no title or order, if two modules state the same order, or if two
        claims have the same id.
    """
    ledger: dict[str, Claim] = {}
    for topic in _topics(package):
        for claim in _claims_of(topic):
            if claim.id in ledger:
                raise TypeError(f"{topic.__name__}: there is a claim {claim.id!r} already")
            ledger[claim.id] = replace(claim, topic=topic.TITLE)
    return ledger


def _topics(package: ModuleType) -> list[ModuleType]:
    """Return the modules of a package, by the order that each states."""
    by_order: dict[float, ModuleType] = {}
    # The folder is the list: no other place names a topic.
    for entry in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        topic = import_module(entry.name)
        for constant in ("TITLE", "ORDER"):
            if not hasattr(topic, constant):
                raise TypeError(f"{entry.name} states no {constant}, as every topic must")
        if topic.ORDER in by_order:
            other = by_order[topic.ORDER].__name__
            raise TypeError(f"{entry.name} and {other} both have ORDER = {topic.ORDER}")
        by_order[topic.ORDER] = topic
    return [by_order[order] for order in sorted(by_order)]


def _claims_of(topic: ModuleType) -> Iterator[Claim]:
    """Yield the claims that a module defines, and not those that it imports."""
    for value in vars(topic).values():
        # An imported claim belongs to the topic that defines it.
        if isinstance(value, Claim) and value.check.__module__ == topic.__name__:
            yield value

"""Several measurements of one distribution, as one: other budgets, groups, rounds, margins."""

from ldpopt.sources.series import Rounds, rounds
from ldpopt.sources.source import Source
from ldpopt.sources.sources import Sources

__all__ = ["Rounds", "Source", "Sources", "rounds"]

"""Several measurements of one distribution, as one: other budgets, groups, rounds, margins."""

from ldpopt.sources.margins import Margins, consistent_margins
from ldpopt.sources.mbi import from_mbi, to_mbi
from ldpopt.sources.product import Product
from ldpopt.sources.series import Rounds, rounds
from ldpopt.sources.source import Source
from ldpopt.sources.sources import Sources

__all__ = [
    "Margins",
    "Product",
    "Rounds",
    "Source",
    "Sources",
    "consistent_margins",
    "from_mbi",
    "rounds",
    "to_mbi",
]

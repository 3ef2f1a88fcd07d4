"""Where the minimum is sought: each constraint states its violation and its forms for paths."""

from ldpopt.constraints.base import Constraint, LinearInequalities
from ldpopt.constraints.bounds import Bounds, Fixed, NonNegative
from ldpopt.constraints.cardinality import AtMost
from ldpopt.constraints.custom import Custom
from ldpopt.constraints.hierarchy import Hierarchy, HierarchyTotals
from ldpopt.constraints.linear import GroupTotals, Linear, Margins, SumsTo
from ldpopt.constraints.near import Near
from ldpopt.constraints.orders import Monotone, Order, TopSet, Unimodal
from ldpopt.constraints.smooth import Smooth

__all__ = [
    "AtMost",
    "Bounds",
    "Constraint",
    "Custom",
    "Fixed",
    "GroupTotals",
    "Hierarchy",
    "HierarchyTotals",
    "Linear",
    "LinearInequalities",
    "Margins",
    "Monotone",
    "Near",
    "NonNegative",
    "Order",
    "Smooth",
    "SumsTo",
    "TopSet",
    "Unimodal",
]

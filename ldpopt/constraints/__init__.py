"""Where the minimum is sought: each constraint knows its violation and the forms that the paths need."""

from ldpopt.constraints.base import Constraint, Rows
from ldpopt.constraints.bounds import Bounds, Fixed, NonNegative
from ldpopt.constraints.cardinality import AtMost
from ldpopt.constraints.custom import Custom
from ldpopt.constraints.hierarchy import Hierarchy
from ldpopt.constraints.linear import GroupTotals, Linear, SumsTo
from ldpopt.constraints.orders import Monotone, Order, Unimodal
from ldpopt.constraints.smooth import Smooth

__all__ = [
    "AtMost",
    "Bounds",
    "Constraint",
    "Custom",
    "Fixed",
    "GroupTotals",
    "Hierarchy",
    "Linear",
    "Monotone",
    "NonNegative",
    "Order",
    "Rows",
    "Smooth",
    "SumsTo",
    "Unimodal",
]

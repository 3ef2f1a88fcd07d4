"""The conditions of optimality of a problem, written by sympy and checked in numbers."""

from ldpopt.solve.kkt.conditions import KKT, Residuals, conditions_of
from ldpopt.solve.kkt.notation import Condition
from ldpopt.solve.kkt.split import Case, CaseSplit

__all__ = ["KKT", "Case", "CaseSplit", "Condition", "Residuals", "conditions_of"]

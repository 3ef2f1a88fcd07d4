"""Closed forms found by search: compositions of known operators, judged by certificates."""

from ldpopt.discovery.code import LANGUAGES, code_of
from ldpopt.discovery.discovering import discover
from ldpopt.discovery.form import Evidence, Form, NoForm, Refuted
from ldpopt.discovery.operator import Operator
from ldpopt.discovery.operators import OPERATORS, register_operator
from ldpopt.discovery.setting import PARAMETERS, Setting
from ldpopt.discovery.structure_rows import StructureRow
from ldpopt.discovery.structures import Structure, structure

__all__ = [
    "LANGUAGES",
    "OPERATORS",
    "PARAMETERS",
    "Evidence",
    "Form",
    "NoForm",
    "Operator",
    "Refuted",
    "Setting",
    "Structure",
    "StructureRow",
    "code_of",
    "discover",
    "register_operator",
    "structure",
]

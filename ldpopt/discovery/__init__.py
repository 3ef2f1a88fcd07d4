"""Closed forms found by search: compositions of known operators, judged by certificates."""

from ldpopt.discovery.discovering import discover
from ldpopt.discovery.form import Evidence, Form, NoForm, Refuted
from ldpopt.discovery.operators import OPERATORS, Operator, register_operator
from ldpopt.discovery.setting import PARAMETERS, Setting

__all__ = [
    "OPERATORS",
    "PARAMETERS",
    "Evidence",
    "Form",
    "NoForm",
    "Operator",
    "Refuted",
    "Setting",
    "discover",
    "register_operator",
]

"""Methods: those of Table I by name, and your own.

A method is a problem: ``postprocess`` solves it, and the guarantees follow from it.
"""

from ldpopt.methods.application import method_of, named_methods, postprocess
from ldpopt.methods.method import Guarantee, Method
from ldpopt.methods.own_function import OwnFunction
from ldpopt.methods.table import METHODS, markdown_table

__all__ = [
    "METHODS",
    "Guarantee",
    "Method",
    "OwnFunction",
    "markdown_table",
    "method_of",
    "named_methods",
    "postprocess",
]

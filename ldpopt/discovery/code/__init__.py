"""Closed forms as source code that runs without this library: numpy, C and JavaScript."""

from ldpopt.discovery.code.generate import code_of, source_of
from ldpopt.discovery.code.languages import LANGUAGES

__all__ = ["LANGUAGES", "code_of", "source_of"]

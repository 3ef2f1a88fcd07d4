"""The command line: thin, every command a few lines on the library; a module a group of commands."""

from ldpopt.cli.app import main
from ldpopt.cli.claims import audit, compare, methods, verify
from ldpopt.cli.reports import aggregate, estimate, perturb

__all__ = ["aggregate", "audit", "compare", "estimate", "main", "methods", "perturb", "verify"]

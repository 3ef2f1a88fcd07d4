"""The command line: one module per command, each a few lines on top of the library."""

from ldpopt.cli.aggregate import aggregate
from ldpopt.cli.app import app, main
from ldpopt.cli.audit import audit
from ldpopt.cli.compare import compare
from ldpopt.cli.coverage import coverage
from ldpopt.cli.estimate import estimate
from ldpopt.cli.methods import methods
from ldpopt.cli.perturb import perturb
from ldpopt.cli.verify import verify

__all__ = [
    "aggregate",
    "app",
    "audit",
    "compare",
    "coverage",
    "estimate",
    "main",
    "methods",
    "perturb",
    "verify",
]

# In the order in which `ldpopt --help` lists them: from values to an estimate, then what checks it.
for _command in (perturb, aggregate, estimate, methods, coverage, compare, audit, verify):
    app.command()(_command)

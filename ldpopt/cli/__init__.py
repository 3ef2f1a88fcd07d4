"""The command line: one module per command, each a few lines on top of the library."""

from ldpopt.cli.app import app, main

__all__ = ["app", "main"]

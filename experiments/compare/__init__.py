"""The papers' printed numbers and statements beside what the figures measured."""

from experiments.compare.findings import Finding, statements

__all__ = ["Finding", "statements"]

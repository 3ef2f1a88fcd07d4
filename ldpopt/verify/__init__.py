"""The claims ledger: statements of the papers, each with a check that can fail and the verdict that is expected."""

from ldpopt.verify import agreements, errata, guarantees, shapes, variants
from ldpopt.verify.claim import LEDGER, Claim, Finding, Verdict
from ldpopt.verify.instances import Bench
from ldpopt.verify.run import Result, check, to_json

__all__ = [
    "LEDGER",
    "Bench",
    "Claim",
    "Finding",
    "Result",
    "Verdict",
    "agreements",
    "check",
    "errata",
    "guarantees",
    "shapes",
    "to_json",
    "variants",
]

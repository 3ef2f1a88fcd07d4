"""Proof of optimality for any point: computed from the problem and the point alone."""

from ldpopt.solve.certificate.certificate import Certificate, certify

__all__ = ["Certificate", "certify"]

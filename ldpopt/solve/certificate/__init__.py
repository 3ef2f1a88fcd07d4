"""Proof of optimality for any point: computed from the problem and the point alone."""

from ldpopt.solve.certificate.certificate import Certificate, certify
from ldpopt.solve.certificate.exact.proof import ExactCertificate

__all__ = ["Certificate", "ExactCertificate", "certify"]

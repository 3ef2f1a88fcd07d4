"""Unbiased estimates of the error of any rule, from one collection and the noise of its protocol.

With f̃ = f + ε and Cov ε = Σ known, the error of answers A g(f̃) has the unbiased estimate

    ‖A (g - f̃)‖² - tr AΣAᵀ + 2 tr(A J Σ Aᵀ),    J = ∂g/∂f̃

(Stein 1981), for rules g without jumps. For others the same is done with a finite step, at noise
that is a little larger (the coupled bootstrap: Oliveira, Lei, Tibshirani 2021).
"""

from ldpopt.risks.collection import ALPHA, PROBES, Collection, Derivative
from ldpopt.risks.evidence import Evidence, Rule
from ldpopt.risks.result import Risk, RiskRow, RiskTable

__all__ = [
    "ALPHA",
    "PROBES",
    "Collection",
    "Derivative",
    "Evidence",
    "Risk",
    "RiskRow",
    "RiskTable",
    "Rule",
]

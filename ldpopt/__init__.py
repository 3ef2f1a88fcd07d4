"""Post-processing of locally differentially private frequency estimates as convex problems.

>>> import ldpopt
>>> from ldpopt import datasets, oracles
>>> data = datasets.load("emoji")
>>> oracle = oracles.OUE(epsilon=1.0, d=data.d)
>>> raw = oracle.estimate(oracle.simulate_counts(data.counts, rng=0), data.n)
>>> ldpopt.postprocess(raw, "norm-sub").frequencies.sum().round(12)
np.float64(1.0)
"""

from ldpopt import constraints, datasets, losses, oracles
from ldpopt.certificate import Certificate, certify
from ldpopt.estimate import FrequencyEstimate
from ldpopt.methods import METHODS, postprocess
from ldpopt.problem import Problem, Solution
from ldpopt.selection import Selection, select_method

__version__ = "0.1.0"

__all__ = [
    "METHODS",
    "Certificate",
    "FrequencyEstimate",
    "Problem",
    "Selection",
    "Solution",
    "__version__",
    "certify",
    "constraints",
    "datasets",
    "losses",
    "oracles",
    "postprocess",
    "select_method",
]

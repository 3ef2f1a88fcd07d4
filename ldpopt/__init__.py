"""Post-processing of locally differentially private frequency estimates as convex problems.

>>> import ldpopt
>>> from ldpopt import datasets, oracles
>>> data = datasets.load("emoji")
>>> oracle = oracles.OUE(epsilon=1.0, d=data.d)
>>> raw = oracle.estimate(oracle.simulate_counts(data.counts, rng=0), data.n)
>>> ldpopt.postprocess(raw, "norm-sub").frequencies.sum().round(12)
np.float64(1.0)
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ldpopt import constraints, datasets, losses, oracles, priors, queries
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
    "priors",
    "queries",
    "select_method",
]

_HOMES = {
    "METHODS": "methods",
    "Certificate": "certificate",
    "FrequencyEstimate": "estimate",
    "Problem": "problem",
    "Selection": "selection",
    "Solution": "problem",
    "certify": "certificate",
    "postprocess": "methods",
    "select_method": "selection",
}


def __getattr__(name: str) -> Any:
    """Return a name or a submodule on first use: numpy and scipy are imported then, so that `ldpopt --help` is quick to stop."""
    if name in _HOMES:
        value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    elif not name.startswith("_") and find_spec(f"{__name__}.{name}"):
        value = import_module(f"{__name__}.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

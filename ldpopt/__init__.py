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
    from ldpopt import (
        channels,
        closed_form,
        constraints,
        datasets,
        discovery,
        errors,
        estimate,
        losses,
        oracles,
        priors,
        studies,
        style,
    )
    from ldpopt.discovery.discovering import discover
    from ldpopt.discovery.structures import Structure, structure
    from ldpopt.estimate import FrequencyEstimate
    from ldpopt.estimate.noise import Noise
    from ldpopt.methods import METHODS, Method, postprocess
    from ldpopt.parameter import Parameter
    from ldpopt.reports import RefinedEstimate, refine
    from ldpopt.solve.certificate import Certificate, ExactCertificate, certify
    from ldpopt.solve.coverage import coverage
    from ldpopt.solve.problem import Problem
    from ldpopt.solve.solution import Solution
    from ldpopt.sources import Margins, Product, Rounds, Source, Sources, consistent_margins, rounds
    from ldpopt.studies.comparison import compare
    from ldpopt.studies.comparison_result import Comparison
    from ldpopt.studies.risk import compare_risk, risk, tune
    from ldpopt.studies.selection import Selection, select_method
    from ldpopt.studies.study import study
    from ldpopt.studies.study_result import Study

__version__ = "0.1.0"

_HOMES = {
    "METHODS": "methods",
    "Certificate": "solve.certificate",
    "Comparison": "studies.comparison_result",
    "ExactCertificate": "solve.certificate",
    "FrequencyEstimate": "estimate",
    "Margins": "sources",
    "Method": "methods",
    "Noise": "estimate.noise",
    "Parameter": "parameter",
    "Problem": "solve.problem",
    "Product": "sources",
    "RefinedEstimate": "reports",
    "Rounds": "sources",
    "Selection": "studies.selection",
    "Solution": "solve.solution",
    "Source": "sources",
    "Sources": "sources",
    "Structure": "discovery.structures",
    "Study": "studies.study_result",
    "certify": "solve.certificate",
    "compare": "studies.comparison",
    "compare_risk": "studies.risk",
    "consistent_margins": "sources",
    "coverage": "solve.coverage",
    "discover": "discovery.discovering",
    "postprocess": "methods",
    "refine": "reports",
    "risk": "studies.risk",
    "rounds": "sources",
    "select_method": "studies.selection",
    "structure": "discovery.structures",
    "study": "studies.study",
    "tune": "studies.risk",
}
"""The module of every public name that is not a submodule."""

# `claims` and `collection` are built on these names: no import of them stands above, and they are
# found on their first use.
__all__ = [
    "METHODS",
    "Certificate",
    "Comparison",
    "ExactCertificate",
    "FrequencyEstimate",
    "Margins",
    "Method",
    "Noise",
    "Parameter",
    "Problem",
    "Product",
    "RefinedEstimate",
    "Rounds",
    "Selection",
    "Solution",
    "Source",
    "Sources",
    "Structure",
    "Study",
    "__version__",
    "certify",
    "channels",
    "claims",
    "closed_form",
    "collection",
    "compare",
    "compare_risk",
    "consistent_margins",
    "constraints",
    "coverage",
    "datasets",
    "discover",
    "discovery",
    "errors",
    "estimate",
    "losses",
    "oracles",
    "postprocess",
    "priors",
    "refine",
    "risk",
    "rounds",
    "select_method",
    "structure",
    "studies",
    "study",
    "style",
    "tune",
]


def __getattr__(name: str) -> Any:
    """Import a public name or a submodule on its first use.

    ``import ldpopt`` alone loads neither numpy nor scipy, so that ``ldpopt --help`` starts quickly
    and Ctrl-C is handled from the first moment.

    Raises
    ------
    AttributeError
        If there is no such name.
    """
    if name in _HOMES:
        value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    elif not name.startswith("_") and find_spec(f"{__name__}.{name}"):
        value = import_module(f"{__name__}.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value  # the next access does not come here
    return value


def __dir__() -> list[str]:
    # What completion lists is what users may call: neither the imports of this module, nor private
    # submodules that were imported on the way.
    of_every_module = {name for name in globals() if name.startswith("__")}
    return sorted({*of_every_module, *__all__})

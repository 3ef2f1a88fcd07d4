"""Claims about cost: Table I's complexities by the exponents of counted operations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ldpopt import closed_form
from ldpopt.claims.engine.claim import Finding, Verdict, claim
from ldpopt.claims.engine.instances import InstanceSet
from ldpopt.claims.reference.operations import operations
from ldpopt.datasets.dataset import apportion
from ldpopt.oracles import OUE

TITLE = "Cost: Table I's complexities by counted operations"
ORDER = 110

Array = NDArray[np.float64]

# Largest exponent that counts as linear up to a logarithm: that of d log d is 1 + 1/ln d, 1.07 at
# d = 10⁶.
_LOGARITHM = 1.1


def exponent(sizes: list[int], costs: list[float]) -> float:
    """Return the slope of log cost over log size, by least squares.

    Examples
    --------
    >>> round(exponent([10, 100, 1_000], [5.0, 500.0, 50_000.0]), 9)
    2.0
    """
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])


def _methods(threshold: float, kappa: float) -> dict[str, Callable[[Array], Array]]:
    """Return the methods of Table I that are linear, as functions of the raw frequencies."""
    return {
        "base-pos": closed_form.base_pos,
        "base-cut": lambda f: closed_form.base_cut(f, threshold),
        "norm": closed_form.norm,
        "norm-mul": closed_form.norm_mul,
        "norm-cut": closed_form.norm_cut,
        "norm-sub": closed_form.norm_sub,
        "norm-hyb": lambda f: closed_form.norm_hyb(f, threshold),
        "mle-apx": lambda f: closed_form.mle_apx(f, kappa),
    }


@claim(
    "table1-complexity",
    "N Table I, D Table 1 and 3.6",
    "All methods but the Power family take O(d).",
    Verdict.HOLDS,
)
def table1_complexity(instances: InstanceSet) -> Finding:
    """Count the array elements that each method passes over, for d from 2¹⁴ to 2²⁰.

    Operations are counted, not timed: the verdict does not depend on the machine. Zipf(1.5), OUE,
    n = 10⁶. Red if the exponent of d reaches that of d log d with some room, _LOGARITHM.
    """
    n = 1_000_000
    rng = instances.rng()
    powers = (14, 15, 16) if instances.quick else (14, 16, 18, 20)
    sizes = [1 << power for power in powers]
    costs: dict[str, list[float]] = {}
    for d in sizes:
        # A realistic estimate: what is cheap depends on how many values are negative.
        oracle = OUE(epsilon=1.0, d=d)
        users = apportion(np.arange(1, d + 1) ** -1.5, n)
        f = oracle.estimate(oracle.simulate_counts(users, rng), n).frequencies
        # Computed outside of what is counted.
        threshold = closed_form.significance_threshold(d, oracle.sd(n))
        for name, method in _methods(threshold, oracle.kappa).items():
            costs.setdefault(name, []).append(operations(method, f))
    exponents = {name: exponent(sizes, cost) for name, cost in costs.items()}
    return Finding(
        holds=max(exponents.values()) < _LOGARITHM,
        instances=len(sizes) * len(costs),
        evidence={
            **{f"exponent of d, {name}": value for name, value in exponents.items()},
            **{
                f"operations per value at d = {sizes[-1]:,}, {name}": cost[-1] / sizes[-1]
                for name, cost in costs.items()
            },
            "what is counted": "array elements passed over, m log2 m for a sort of m; OUE, ε = 1, "
            "Zipf(1.5), n = 1,000,000",
            "sorts": "norm-cut sorts here, O(d log d), where a selection would be O(d); norm-sub, "
            "mle-apx and norm-hyb sort the few values that can stay positive, and everything in "
            "the worst case",
            "Power": "see power-window",
        },
    )

"""Computed answers about which Coq has a theorem: not statements of the papers."""

from fractions import Fraction

import numpy as np

from ldpopt import closed_form
from ldpopt.claims.engine.claim import Finding, Verdict, claim
from ldpopt.claims.engine.instances import InstanceSet
from ldpopt.claims.engine.measures import largest
from ldpopt.claims.reference.rational import exact_solution
from ldpopt.proofs import integers_in

TITLE = "Beyond the papers: computed answers as theorems"
ORDER = 890

_FILE = "Emoji.v"

# Today's answers against those of the theorems. Sums of other processors end in other bits, and a
# frequency of up to 0.1 has a last place of 1e-17.
_SAME = 1e-15


@claim(
    "emoji-answers",
    "derived here",
    "Norm-Sub and MLE-Apx of a real estimate (emoji, 736 values), as the computer returns them, "
    "are within 1e-17 and 1e-16 of the exact solutions in every value.",
    Verdict.PROVED,
    theorems=("computed_norm_sub_solves_cls_on_emoji", "computed_mle_apx_solves_mle_on_emoji"),
)
def emoji_answers(instances: InstanceSet) -> Finding:
    """Compute both answers again from the estimate of the theorems.

    Red if one of them differs from the answer of its theorem, or from the solution in exact
    fractions, by more than a few units in the last place.
    """
    numbers = integers_in(_FILE)
    one = numbers["one"][0]
    estimate = _doubles(numbers["estimate"], one)
    kappa = float(Fraction(numbers["kn"][0], numbers["kd"][0]))
    # Without a solver: the theorem is about what the closed form returns.
    norm_sub = closed_form.norm_sub(estimate)
    mle_apx = closed_form.mle_apx(estimate, kappa)
    differences = {
        "Norm-Sub today, against the answer of the theorem": largest(
            norm_sub - _doubles(numbers["norm_sub_answer"], one)
        ),
        "Norm-Sub today, against exact fractions": largest(
            norm_sub - exact_solution(estimate, kappa=0.0)
        ),
        "MLE-Apx today, against the answer of the theorem": largest(
            mle_apx - _doubles(numbers["mle_apx_answer"], one)
        ),
        "MLE-Apx today, against exact fractions": largest(
            mle_apx - exact_solution(estimate, kappa)
        ),
    }
    return Finding(
        holds=max(differences.values()) <= _SAME,
        instances=2,
        evidence={"values": len(estimate), **differences},
    )


def _doubles(numerators: list[int], one: int) -> np.ndarray:
    """Return integers in units of 1/one as the doubles that they were."""
    # Exact: a double is a whole number of such units.
    return np.array([float(Fraction(x, one)) for x in numerators])

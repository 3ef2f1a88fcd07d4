"""Every tolerance of the ledger, each with its reason."""

import numpy as np

EXACT = 16 * float(np.finfo(np.float64).eps)
"""Closed forms against exact rational arithmetic: a few roundings of a result of order 1."""

DISTANCE = 1e-12
"""Largest distance of a closed form's point to the exact minimiser, in frequency. Forms that search
for a root stop where the sum is right to this."""

ULPS = 8.0
"""The same for Norm-Sub and MLE-Apx, in units in the last place of the largest value: a few
roundings of sums that cancel."""

IDENTICAL = 0.5
"""Share of a solver's points that may be the closed form's in every bit: on few values, and at the
corners of a set, two ways of computing may end at the same doubles."""

GAP = 1e-12
"""Largest certified gap and violation of a closed form, the gap relative to the size of the
gradient: rounding over 10⁴ values stays below. A gap is of second order in the error of a point, so
that it takes a frequency 1e-6 from its place to exceed this."""

EXCESS = 1e-6
"""Largest violation of a solver's point, and largest objective above the closed form's, relative to
1 + objective, for the solver to count as converged. An objective *below* always counts, and refutes
the closed form."""

BELOW = 1e-7
"""How far below the closed form's objective a solver's may be, relative to 1 + objective: the
solver's point violates the constraints by its own tolerance."""

OBJECTIVE = 1e-6
"""Objectives of a closed form and of a solver, relative to 1 + objective, where several problems
are solved and the smallest objective counts."""

CONVERGED = 0.9
"""Share of the vectors given to a solver that it must solve: below it, the solver confirms too
little. First-order solvers give up on a few adversarial vectors."""

SUM = 1e-9
"""|Σf' - 1| that counts as 0: rounding over up to 4,000 values, far below any method's effect."""

IDENTITY = 1e-12
"""Identities between frequencies of order 1 (sums, orders, differences draw by draw): rounding over
up to 10³ values."""

FORMULA = 1e-9
"""Two formulas for the same number, relative to it: rounding, with room for a cancellation of up to
six digits."""

ENUMERATED = 1e-10
"""Moments from up to 1,000 enumerated reports, relative: sums of as many products."""

PROBABILITY = 1e-12
"""Probabilities from up to 1,000 enumerated reports: sums of as many terms."""

POSTERIOR = 1e-6
"""Posterior means, relative: the library may interpolate between estimates."""

SIGMAS = 5.0
"""Bound of simulated statistics, in their standard deviations: a false alarm in 1.7 million
Gaussian draws."""

CONFIDENCE = 3.0
"""Half-width of the confidence intervals of differences, in standard errors: a Gaussian is outside
in 1 of 370 cases."""

"""Every tolerance of the tests, each with its reason."""

import numpy as np
import pytest

EPS = float(np.finfo(np.float64).eps)

ROUNDING = 8 * EPS
"""Closed forms against exact rational arithmetic, relative to a result of order 1: a few roundings
of the largest value."""

SUM = 64 * EPS
"""Sums that should be 1: pairwise summation of up to 10⁶ terms rounds about log₂ 10⁶ = 20 times."""

CERTIFIED = 1e-12
"""Gap and violation of a closed form: rounding of a gradient of order 1 over up to 10⁴ values."""

SOLVER = {
    "CLARABEL": 2e-5,
    "QOCO": 4e-5,
    "OSQP": 1e-8,
    "SCS": 1e-7,
    "PIQP": 2e-6,
    "HIGHS": 1e-6,
    "SCIPY": 1e-9,
}
"""Solver's point against the closed form, largest coordinate: what the settings of
ldpopt.solve.programs.solvers reach up to d = 300. An interior point method's error in x is the
square root of its error in the objective, 1e-9 (PIQP: 1e-10 and below). OSQP polishes. HiGHS
regularises quadratic programs by 1e-7. SCIPY solves linear programs only, at a vertex."""

GAP = 20.0
"""Gap of a solver's point over its tolerance: the gap is of first order in the error, times a
curvature up to 20."""

MULTIPLIER = 2e-4
"""A multiplier against differences of minima over steps of 1e-3, relative to slopes of order 1:
each minimum is right to 1e-8, and cone solvers leave 1e-5 of a slope."""

OBJECTIVE = 1e-8
"""Objective of a solver's point against the closed form's: of second order in the error of the
point, which is feasible to 1e-9."""

SIGMAS = 5.0
"""Statistical bounds in standard deviations of the formula under test: a false alarm in 1.7 million
checks."""

ZETA = 1.4e-11
"""Means of power laws, relative: two sums of 4,096 terms, each with its own roundings, and a tail
below them. Three times the largest difference seen, 4.5e-12 under the oldest numpy and
scipy."""

POSTERIOR = 1e-10
"""Posterior means and evidence, relative: quadrature to 1e-11, and a polynomial that is cut off at
1e-11 of the smallest value."""

SPREAD = 1e-7
"""Posterior variances, relative to themselves and 1e-6 counts: a difference of moments of a size
that the mean varies by within a cell, known to 1e-11."""

STANDARD_ERROR = 0.35
"""Spread of 40 maximum likelihood fits over its standard error, less 1: three times the 11 % that
40 draws leave."""

FINITE_DIFFERENCE = 1e-6
"""Gradients of order 1 against central differences of step 1e-5: its square, and rounding divided
by it."""

PRINTED = 1.001
"""Printed numbers, in units of their last digit. The numbers behind them differ by 1e-13 at most
between the kernels of five processors, so only a number halfway between two roundings can print
otherwise; the last thousandth is the rounding of this comparison."""

RESIDUE_FACTOR = 100.0
"""What a solver leaves of a gap, a violation or a difference: its last iteration divides it by 10
to 100, and versions of a solver stop one iteration earlier or later."""

KEPT = 1.001e-5
"""Kept tables of figures, relative: one unit of the last of their six significant digits."""

UNPOLISHED = pytest.mark.filterwarnings("ignore:the solution is inaccurate")
"""For tests that name a path or a solver: such points are not polished, and where the loss is not
curved their gaps are of first order in their errors, above what ``optimal`` promises."""

ENCLOSED = 1e-12
"""Radius of a gradient's range relative to the steepest slope: 32 roundings for each of a handful
of functions, times the size of an exponent that cancels, up to 600."""

KEPT_NUMBER = 0.01
KEPT_TINY = 1e-6
"""Numbers that the ledger shows against those kept, relative, and what counts as 0: from AVX-512 to
the oldest kernels they differ by less than a thousandth, but for errors of rounding, which are far
below a millionth."""

"""What every search for a planted error imports: imported once, by the process that is forked."""

import cvxpy
import scipy.optimize
import scipy.stats

import ldpopt.claims.planted

__all__ = ["cvxpy", "ldpopt", "scipy"]

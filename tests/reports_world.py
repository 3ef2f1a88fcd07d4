"""Small populations and their reports, for the tests of files of reports."""

import numpy as np

from ldpopt.oracles import BLH, GRR, OLH, OUE, SUE, HadamardResponse, SubsetSelection

MAKERS = {
    "grr": lambda d: GRR(1.0, d),
    "sue": lambda d: SUE(1.0, d),
    "oue": lambda d: OUE(1.0, d),
    "olh": lambda d: OLH(1.0, d),
    "olh-floor": lambda d: OLH(1.0, d, rounding="floor"),
    "blh": lambda d: BLH(1.0, d),
    "ss": lambda d: SubsetSelection(1.0, d),
    "hr": lambda d: HadamardResponse(1.0, d),
}


def reports_of(oracle, n, seed=0):
    rng = np.random.default_rng(seed)
    return oracle.perturb(rng.integers(oracle.d, size=n), rng=rng)

"""Frequency oracles: protocols that randomise values on the client and count support on the server.

All are pure protocols (Wang et al. 2017): p and q are computed here, once, for both sides.
"""

from collections.abc import Callable, Mapping

from ldpopt.oracles.base import FrequencyOracle as FrequencyOracle

# The order is that of every table. An oracle that is imported here is known everywhere.
# isort: off
from ldpopt.oracles.grr import GRR as GRR
from ldpopt.oracles.unary import SUE as SUE, OUE as OUE
from ldpopt.oracles.hashing import OLH as OLH, BLH as BLH
from ldpopt.oracles.subset import SubsetSelection as SubsetSelection
from ldpopt.oracles.hadamard import HadamardResponse as HadamardResponse
# isort: on

ORACLES: Mapping[str, Callable[..., FrequencyOracle]] = {
    oracle.name: oracle
    for oracle in list(vars().values())
    if isinstance(oracle, type) and issubclass(oracle, FrequencyOracle) and "name" in vars(oracle)
}
"""Oracles by their names in files and on the command line, each called with (epsilon, d)."""

__all__ = ["ORACLES", "FrequencyOracle"]
__all__ += [oracle.__name__ for oracle in ORACLES.values()]

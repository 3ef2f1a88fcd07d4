"""Frequency oracles: protocols that randomise values on the client and count support on the server.

All are pure protocols (Wang et al. 2017): p and q are computed here, once, for both sides.
"""

from collections.abc import Callable, Mapping

from ldpopt.oracles.base import FrequencyOracle
from ldpopt.oracles.grr import GRR
from ldpopt.oracles.hadamard import HadamardResponse
from ldpopt.oracles.hashing import BLH, OLH
from ldpopt.oracles.subset import SubsetSelection
from ldpopt.oracles.unary import OUE, SUE

ORACLES: Mapping[str, Callable[[float, int], FrequencyOracle]] = {
    "grr": GRR,
    "sue": SUE,
    "oue": OUE,
    "olh": OLH,
    "blh": BLH,
    "ss": SubsetSelection,
    "hr": HadamardResponse,
}
"""Oracles by their command-line names, each called with (epsilon, d)."""

__all__ = [
    "BLH",
    "GRR",
    "OLH",
    "ORACLES",
    "OUE",
    "SUE",
    "FrequencyOracle",
    "HadamardResponse",
    "SubsetSelection",
]

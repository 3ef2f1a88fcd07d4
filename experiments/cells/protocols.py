"""The oracles of the figures by name, each called with a budget and a number of values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from ldpopt import oracles
from ldpopt.oracles.base import FrequencyOracle

ORACLES: Mapping[str, Callable[..., FrequencyOracle]] = {
    "olh": oracles.OLH,  # N: g is the nearest integer to e^ε + 1
    "olh-floor": partial(oracles.OLH, rounding="floor"),  # D
    "oue": oracles.OUE,
}

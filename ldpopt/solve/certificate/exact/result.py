"""What an exact certificate states of one vector."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Exact(NamedTuple):
    """What is proved of one vector; the minimiser is None where it is not known."""

    gap: float
    distance: float
    ulps: float
    violation: float
    minimiser: Array | None
    reason: str

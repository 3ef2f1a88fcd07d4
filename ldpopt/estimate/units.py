"""What tells shares of 1 from percent and from numbers of users: one home for warnings of units."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

PERCENT = 100.0
"""What percent sum to."""

LARGE = 10.0
"""Numbers of users from here on: those of toys, such as (1, 0, 2), are smaller."""

AROUND = 0.5
"""How far noise may move a sum, relative to it, and a share of 1."""


def sum_to_about(whole: float, sums: ArrayLike) -> bool:
    """Return whether all sums are near a whole, such as 1, as far as noise may move them.

    Examples
    --------
    >>> sum_to_about(1, 0.97), sum_to_about(1, 97.0), sum_to_about(PERCENT, 97.0)
    (True, False, True)
    """
    return bool(np.all(np.abs(np.asarray(sums) / whole - 1) <= AROUND))

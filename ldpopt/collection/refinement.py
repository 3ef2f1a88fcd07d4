"""What a second pass over files of reports gave, as it is kept beside their counts."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt.errors import InvalidInputError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.oracles.base import FrequencyOracle
from ldpopt.printable import counted
from ldpopt.reports.estimate import RefinedEstimate, refined
from ldpopt.reports.exact_sums import UNIT, is_possible
from ldpopt.reports.weighing import Weighing

Whole = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Refinement:
    """The start of a second pass and its sums, from which the estimate follows.

    Attributes
    ----------
    shares
        The start in fixed point, shape (d,).
    sums
        As of ``Weighing.sums``, shape (2, size).
    """

    shares: Whole
    sums: Whole

    def estimate(
        self, oracle: FrequencyOracle, n: int, raw: FrequencyEstimate | None = None
    ) -> RefinedEstimate:
        """Return the estimate that n reports gave; ``raw`` is that of their counts."""
        return refined(Weighing(oracle, self.shares), self.sums, n, raw=raw)

    def record(self) -> dict[str, str]:
        """Return it as text for files of counts."""
        return {"start": _text(self.shares), "sums": _text(self.sums)}

    @classmethod
    def from_record(cls, record: Any, oracle: FrequencyOracle, n: int, where: str) -> Refinement:
        """Return what ``record`` wrote.

        Raises
        ------
        InvalidInputError
            If it is something else, or n reports cannot have given these sums.
        """
        try:
            shares = _numbers(record["start"])
            weighing = Weighing(oracle, shares)
            sums = _numbers(record["sums"]).reshape(2, weighing.size)
        # A record of any other content fails in one of these ways.
        except (ValueError, KeyError, TypeError):
            raise InvalidInputError(f"{where} has a second pass of another form") from None
        is_start = shares.shape == (oracle.d,) and shares.min() >= 0 and shares.sum() == UNIT
        if not is_start or not is_possible(sums, n):
            raise InvalidInputError(
                f"{where} has a second pass that {counted(n, 'report')} cannot give"
            )
        return cls(shares, sums)


def _text(numbers: Whole) -> str:
    return base64.b64encode(numbers.astype("<i8").tobytes()).decode()


def _numbers(text: str) -> Whole:
    return np.frombuffer(base64.b64decode(text), dtype="<i8").astype(np.int64)

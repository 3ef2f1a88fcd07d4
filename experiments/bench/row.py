"""One line of the speed table: a time, what it is compared with, and the target."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Measure = Literal["seconds", "cost", "speed-up"]

PASS = (
    "one pass"  # np.maximum(x, 0).sum() over the same array: one clip and one sum, the unit of cost
)

# The least that any method needs whose answer has the size of its data.
COPY = "read and written once"


@dataclass(frozen=True)
class Row:
    """A measured time beside its reference; ``measure`` says which number the target speaks of."""

    what: str
    seconds: float
    measure: Measure
    against: str = ""
    against_seconds: float | None = None
    target: float | None = None
    first_seconds: float | None = None
    detail: str = ""

    @property
    def ratio(self) -> float | None:
        """How many times faster (``speed-up``), else how many times slower, than the reference."""
        if self.against_seconds is None:
            return None
        cost = self.seconds / self.against_seconds
        return 1 / cost if self.measure == "speed-up" else cost

    @property
    def met(self) -> bool | None:
        """Whether the target is reached; ``None`` without a target."""
        if self.target is None:
            return None
        if self.measure == "seconds":
            return self.seconds <= self.target
        if self.ratio is None:
            raise ValueError(f"{self.what!r} has a target for its {self.measure} but no reference")
        return (
            self.ratio >= self.target if self.measure == "speed-up" else self.ratio <= self.target
        )

    @property
    def goal(self) -> str:
        """The target as a reader would write it."""
        if self.target is None:
            return ""
        # A speed-up is to be exceeded, seconds and costs are limits.
        relation, unit = {"seconds": ("<", " s"), "cost": ("<", "×"), "speed-up": (">", "×")}[
            self.measure
        ]
        return f"{relation} {self.target:g}{unit}"

    def record(self) -> dict[str, Any]:
        """Return the row as it is written to the result files."""
        return {**asdict(self), "ratio": self.ratio, "met": self.met}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Row:
        """Return the row that ``record`` was made from; ratio and verdict are recomputed."""
        return cls(**{key: value for key, value in record.items() if key not in ("ratio", "met")})

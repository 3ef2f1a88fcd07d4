"""One colour and marker for every method, everywhere; those of users get one of their own.

The colours are those of Tol's schemes and of Okabe and Ito, which colour-blind readers can tell
apart. No two methods of the papers share both marker and line style within a panel, so a grey print
can be read too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True)
class Look:
    """How a method is drawn."""

    colour: str
    marker: str
    line: str = "-"
    filled: bool = True

    def options(self) -> dict[str, Any]:
        """Return the look as matplotlib's ``plot`` takes it."""
        return {
            "color": self.colour,
            "marker": self.marker,
            "linestyle": self.line,
            "markerfacecolor": self.colour if self.filled else "white",
        }


METHOD_LOOKS: Mapping[str, Look] = MappingProxyType(
    {
        "base": Look("#332288", "o"),
        "base-pos": Look("#E69F00", "^"),
        "post-pos": Look("#88CCEE", "v"),
        "norm": Look("#117733", "s", "--", filled=False),
        "norm-mul": Look("#D55E00", "X"),
        "norm-sub": Look("#000000", "D"),
        "mle-apx": Look("#999933", "P", "--", filled=False),
        "base-cut": Look("#44AA99", "<"),
        "norm-cut": Look("#882255", ">"),
        "norm-hyb": Look("#AA4499", "h", "-.", filled=False),
        "power": Look("#CC6677", "*", "-."),
        "power-ns": Look("#0072B2", "p"),
    }
)

# Of Tol's vibrant scheme: none of them is that of a method above.
_COLOURS = ("#EE3377", "#33BBEE", "#CC3311", "#009988", "#BBBBBB")

# None of them is that of a method above. 5 colours and 3 markers have no common factor: 15 pairs of
# them are different.
_MARKERS = ("d", "H", "8")

_LINES = ("-", "--", ":")


def looks_of(
    names: Iterable[str], known_looks: Mapping[str, Look] = METHOD_LOOKS
) -> dict[str, Look]:
    """Return the look of each name, in the order given: its own, or the next free one.

    Examples
    --------
    >>> looks = looks_of(["norm-sub", "mine", "mine too"])
    >>> [(look.colour, look.marker) for look in looks.values()]
    [('#000000', 'D'), ('#EE3377', 'd'), ('#33BBEE', 'H')]
    """
    looks = {}
    free = 0
    for name in dict.fromkeys(names):
        if name in known_looks:
            looks[name] = known_looks[name]
            continue
        looks[name] = Look(
            _COLOURS[free % len(_COLOURS)],
            _MARKERS[free % len(_MARKERS)],
            # Lines change when the pairs are used up.
            _LINES[free // (len(_COLOURS) * len(_MARKERS)) % len(_LINES)],
        )
        free += 1
    return looks

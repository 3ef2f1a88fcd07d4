"""A domain of several attributes, whose margins are groups of its cells."""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray

from ldpopt import validate
from ldpopt.errors import InvalidInputError
from ldpopt.immutable import Immutable

Index = NDArray[np.int64]

_MOST_CELLS = 1 << 26  # cells that a margin lists: half a gigabyte of indices

# ``self`` is a name like any other in a domain: hence the parameters by position alone.


class Product(Immutable):
    """The cells of several attributes: every combination of their values.

    Parameters
    ----------
    **sizes
        The number of values of each attribute, at least one, under its name.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If there is no attribute, or a size is not a whole number >= 1.

    Notes
    -----
    Cells are numbered with the last attribute running fastest, as numpy's ``ravel`` numbers them.

    Examples
    --------
    >>> domain = Product(sex=2, age=3)
    >>> domain.d, domain.index(sex=1, age=0)
    (6, 3)
    >>> [cells.tolist() for cells in domain.margin("age")]
    [[0, 3], [1, 4], [2, 5]]
    """

    def __init__(self, /, **sizes: int) -> None:
        if not sizes:
            raise InvalidInputError("a product needs attributes: Product(age=8, sex=2), say")
        self.names = tuple(sizes)
        self.shape = tuple(
            validate.integer(f"the size of {name}", size, minimum=1) for name, size in sizes.items()
        )

    @property
    def d(self) -> int:
        """Number of cells."""
        return math.prod(self.shape)

    def size(self, name: str) -> int:
        """Return the number of values of an attribute; an unknown name raises an error."""
        return self.shape[self.axes((name,))[0]]

    def axes(self, names: tuple[str, ...]) -> tuple[int, ...]:
        """Return the axes of some attributes.

        Raises
        ------
        InvalidInputError
            If a name is not one of the attributes, or stands twice.
        """
        for name in names:
            if not isinstance(name, str) or name not in self.names:
                raise validate.unknown_name("attribute", name, self.names)
        # A margin over one attribute twice has no cells off its diagonal.
        if len({*names}) < len(names):
            raise InvalidInputError(f"an attribute stands twice in {', '.join(names)}")
        return tuple(self.names.index(name) for name in names)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """All pairs of attributes, in their order."""
        return list(itertools.combinations(self.names, 2))

    def index(self, /, **values: int) -> int:
        """Return the number of a cell from the index of each attribute's value.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If an attribute is missing or unknown, or an index is out of its range.
        """
        if {*values} != {*self.names}:
            raise InvalidInputError(
                f"a cell has one index for each of {', '.join(self.names)}, got "
                f"{', '.join(values) or 'none'}"
            )
        # The digits of a number whose places have the sizes as bases.
        cell = 0
        for name, size in zip(self.names, self.shape, strict=True):
            at = validate.whole_numbers(name, [values[name]], low=0, high=size - 1)
            cell = cell * size + int(at[0])
        return cell

    def margin(self, *names: str) -> list[Index]:
        """Return the cells of each combination of some attributes' values, for ``groups=``.

        Combinations are in the order of the names, the last running fastest.

        Raises
        ------
        InvalidInputError
            If no name is given, one is unknown or stands twice, or the domain has more cells than
            can be listed.
        """
        if not names:
            raise InvalidInputError("a margin needs attributes: margin('age'), say")
        if self.d > _MOST_CELLS:
            raise InvalidInputError(
                f"the domain has {self.d:,} cells, too many to list: use consistent_margins, which "
                "needs the margins alone"
            )
        kept = self.axes(names)
        # The axes that are summed over become the last ones, so that rows are the groups.
        rest = [axis for axis in range(len(self.shape)) if axis not in kept]
        cells = np.arange(self.d).reshape(self.shape).transpose(*kept, *rest)
        rows = math.prod(self.shape[axis] for axis in kept)
        return list(cells.reshape(rows, -1))

    def __repr__(self) -> str:
        sizes = (f"{name}={size}" for name, size in zip(self.names, self.shape, strict=True))
        return f"Product({', '.join(sizes)})"

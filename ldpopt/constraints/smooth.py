"""Values in the order of a scale that change little from one to the next."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.constraints.base import LinearInequalities, Polyhedron
from ldpopt.errors import InvalidInputError

Array = NDArray[np.float64]


class Smooth(Polyhedron):
    """Σ |f_{v+1} - f_v| <= total_variation and Σ |f_{v-1} - 2 f_v + f_{v+1}| <= second_difference, along the indices.

    A bounded total variation keeps f from swinging up and down, a bounded second difference keeps it near straight pieces.

    Parameters
    ----------
    total_variation, second_difference
        Finite numbers >= 0, in units of frequency; None leaves one of them unbounded. A distribution that rises to one mode m
        and falls from there has a total variation of at most 2 m.

    Raises
    ------
    InvalidInputError
        If neither is given, or one is negative.

    Examples
    --------
    >>> float(Smooth(total_variation=0.5).violation(np.array([0.25, 0.5, 0.0, 0.25])))
    0.5
    >>> float(Smooth(second_difference=1.0).violation(np.array([0.25, 0.5, 0.0, 0.25])))
    0.5
    """

    def __init__(
        self, total_variation: float | None = None, second_difference: float | None = None
    ) -> None:
        self.total_variation = _bound("total_variation", total_variation)
        self.second_difference = _bound("second_difference", second_difference)
        if self.total_variation is None and self.second_difference is None:
            raise InvalidInputError(
                "Smooth needs a total_variation or a second_difference, or both"
            )

    @property
    def _parts(self) -> list[tuple[int, float]]:
        """The order of each difference that is bounded, and its bound."""
        bounds = [(1, self.total_variation), (2, self.second_difference)]
        return [(order, bound) for order, bound in bounds if bound is not None]

    def validate_for(self, d: int) -> None:
        """Raise an error if there are too few values for a difference."""
        order = max(order for order, _ in self._parts)
        if d <= order:
            raise InvalidInputError(f"{self!r} needs at least {order + 1} values, got {d}")

    def violation(self, f: Array) -> Array:
        """Return by how much a sum of absolute differences is above its bound, the larger one of two."""
        excess = [
            np.abs(np.diff(f, order, axis=-1)).sum(axis=-1) - bound for order, bound in self._parts
        ]
        return np.asarray(np.max(excess, axis=0).clip(min=0.0))

    def rows(self, d: int) -> LinearInequalities:
        """Return -t <= difference <= t and Σ t <= bound, with auxiliary variables t."""
        from scipy import sparse

        matrices: list[Any] = []
        auxiliaries: list[Any] = []
        lower: list[ArrayLike] = []
        upper: list[ArrayLike] = []
        for order, bound in self._parts:
            m = d - order
            stencil = [-1.0, 1.0] if order == 1 else [1.0, -2.0, 1.0]
            differences = sparse.diags_array(stencil, offsets=range(order + 1), shape=(m, d))
            eye = sparse.eye_array(m)
            matrices.append(sparse.vstack([differences, differences, sparse.csr_array((1, d))]))
            auxiliaries.append(sparse.vstack([-eye, eye, sparse.csr_array(np.ones((1, m)))]))
            lower += [np.full(m, -np.inf), np.zeros(m), [-np.inf]]
            upper += [np.zeros(m), np.full(m, np.inf), [bound]]
        return LinearInequalities(
            sparse.vstack(matrices, format="csr"),
            np.concatenate(lower),
            np.concatenate(upper),
            sparse.block_diag(auxiliaries, format="csr"),
        )

    def row_name(self, row: int, d: int) -> str:
        """Return the constraint: its rows only speak together."""
        return repr(self)

    def __repr__(self) -> str:
        given = {
            "total_variation": self.total_variation,
            "second_difference": self.second_difference,
        }
        return f"Smooth({', '.join(f'{name}={value:g}' for name, value in given.items() if value is not None)})"


def _bound(what: str, value: float | None) -> float | None:
    bound = None if value is None else validate.real(what, value)
    if bound is not None and bound < 0:
        raise InvalidInputError(f"{what} must be >= 0, got {value!r}: a sum of absolute values is")
    return bound

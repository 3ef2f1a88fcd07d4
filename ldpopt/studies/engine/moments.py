"""What is measured on trials: their values, or means and covariances in constant memory."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Label = str | int | float


@dataclass(frozen=True, eq=False)
class Labels:
    """What a quantity is called, for several parameters and methods.

    Attributes
    ----------
    query, metric
        The query, and the measure of its error.
    parameters, methods
        Labels of the axes.
    """

    query: str
    metric: str
    parameters: tuple[Label, ...]
    methods: tuple[str, ...]

    @property
    def labels(self) -> tuple[str, str, tuple[Label, ...], tuple[str, ...]]:
        """The four labels, as constructors take them."""
        return self.query, self.metric, self.parameters, self.methods


@dataclass(frozen=True, eq=False)
class Values(Labels):
    """One quantity for several parameters and methods, trial by trial.

    Attributes
    ----------
    query, metric, parameters, methods
        See `Labels`.
    values
        Shape (trials, parameters, methods).
    """

    values: Array

    @classmethod
    def of(
        cls,
        query: str,
        metric: str,
        parameters: Sequence[Label],
        methods: Sequence[str],
        values: Array,
    ) -> Values:
        """Return values with their labels as tuples."""
        return cls(query, metric, tuple(parameters), tuple(methods), values)

    def merged(self, other: Values) -> Values:
        """Return the values of both groups of trials, these first."""
        return replace(self, values=np.concatenate([self.values, other.values]))

    def moments(self) -> Moments:
        """Return mean and covariance over the trials."""
        mean = self.values.mean(axis=0)
        off = self.values - mean
        # einsum and not a matrix product: its sums do not depend on the number of threads
        scatter = np.einsum("tkm,tkl->kml", off, off)
        return Moments(*self.labels, len(self.values), mean, scatter)


@dataclass(frozen=True, eq=False)
class Moments(Labels):
    """One quantity for several parameters and methods, measured on the same trials.

    Attributes
    ----------
    query, metric, parameters, methods
        See `Labels`.
    count
        Number of trials.
    mean
        Over trials, shape (parameters, methods).
    scatter
        Σ (x - mean)(x - mean)ᵀ over trials, shape (parameters, methods, methods): with it every
        difference and ratio of two methods has a paired interval.
    """

    count: int
    mean: Array
    scatter: Array

    def merged(self, other: Moments) -> Moments:
        """Return the moments of both groups of trials (Chan, Golub and LeVeque 1983)."""
        # Sums of squares of large numbers would lose the digits of their difference; these keep
        # them.
        count = self.count + other.count
        step = other.mean - self.mean
        outer = step[:, :, None] * step[:, None, :]
        between = outer * (self.count * other.count / count)
        return replace(
            self,
            count=count,
            mean=self.mean + step * (other.count / count),
            scatter=self.scatter + other.scatter + between,
        )

    @property
    def covariance(self) -> Array:
        """Unbiased covariance of the methods, (parameters, methods, methods); NaN for one trial."""
        if self.count < 2:
            # One trial says nothing of how trials differ.
            return np.full_like(self.scatter, np.nan)
        return self.scatter / (self.count - 1)

    @property
    def std(self) -> Array:
        """Standard deviation over trials, shape (parameters, methods)."""
        std: Array = np.sqrt(np.einsum("kmm->km", self.covariance))
        return std

    def difference_std(self, method: str, reference: str) -> Array:
        """Return the sd over trials of one method's value minus another's, shape (parameters,)."""
        m = self.methods.index(method)
        r = self.methods.index(reference)
        c = self.covariance
        variance: Array = c[:, m, m] + c[:, r, r] - 2 * c[:, m, r]
        # Rounding may leave the variance of two nearly equal methods just below 0.
        return np.sqrt(np.maximum(variance, 0.0))


Measured = Values | Moments


def moments_of(measured: Measured) -> Moments:
    """Return mean and covariance of what a cell has kept."""
    return measured.moments() if isinstance(measured, Values) else measured


def side_by_side(first: Measured, second: Measured) -> Measured:
    """Return one quantity of the methods of two cells that have the same trials.

    A method of both is taken from the first. Where one of the two has kept no trials, covariances
    between its methods and those of the other are unknown: NaN.
    """
    # Methods of both have the same values in both, since the trials are the same.
    new = [m for m, name in enumerate(second.methods) if name not in first.methods]
    methods = (*first.methods, *(second.methods[m] for m in new))
    # With the trials of both nothing is unknown: their values simply stand side by side.
    if isinstance(first, Values) and isinstance(second, Values):
        values = np.concatenate([first.values, second.values[:, :, new]], axis=-1)
        return replace(first, methods=methods, values=values)
    left = moments_of(first)
    right = moments_of(second)
    width = len(left.methods)
    shape = (len(left.parameters), len(methods), len(methods))
    scatter = np.full(shape, np.nan)
    # Two blocks on the diagonal; what is beside them stays unknown.
    scatter[:, :width, :width] = left.scatter
    rows_of_new = right.scatter[:, new]
    scatter[:, width:, width:] = rows_of_new[:, :, new]
    mean = np.concatenate([left.mean, right.mean[:, new]], axis=-1)
    return replace(left, methods=methods, mean=mean, scatter=scatter)


def dumps(results: Sequence[Measured]) -> bytes:
    """Return values or moments as bytes; equal ones give equal bytes."""
    # Labels as JSON beside the arrays: an archive of numpy holds no lists of mixed types.
    heads = []
    arrays: dict[str, Any] = {}
    for i, m in enumerate(results):
        head: dict[str, Any] = {
            "query": m.query,
            "metric": m.metric,
            "parameters": m.parameters,
            "methods": m.methods,
        }
        if isinstance(m, Moments):
            head["count"] = m.count
            arrays |= {f"mean{i}": m.mean, f"scatter{i}": m.scatter}
        else:
            arrays[f"values{i}"] = m.values
        heads.append(head)
    file = io.BytesIO()
    # The archive dates its members 1980, so that equal arrays are equal bytes.
    np.savez_compressed(file, heads=np.array(json.dumps(heads)), **arrays)
    return file.getvalue()


def loads(content: bytes) -> tuple[Measured, ...]:
    """Return the values or moments whose bytes ``dumps`` has returned."""
    # Without pickles a results file from elsewhere cannot run code.
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        heads = json.loads(str(arrays["heads"]))
        return tuple(_loaded(head, i, arrays) for i, head in enumerate(heads))


def _loaded(head: dict[str, Any], i: int, arrays: Any) -> Measured:
    # JSON has lists where the labels are tuples.
    parameters = tuple(head["parameters"])
    methods = tuple(head["methods"])
    labels = (head["query"], head["metric"], parameters, methods)
    # Values of single trials need no count: they have an axis of them.
    if "count" in head:
        return Moments(*labels, head["count"], arrays[f"mean{i}"], arrays[f"scatter{i}"])
    return Values(*labels, arrays[f"values{i}"])

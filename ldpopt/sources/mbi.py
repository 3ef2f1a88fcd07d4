"""Measurements of margins in the form of mbi (private-pgm), and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ldpopt import validate
from ldpopt.errors import InvalidInputError, InvalidTypeError, extra_needed
from ldpopt.estimate import FrequencyEstimate
from ldpopt.estimate.noise import Noise
from ldpopt.sources.product import Product
from ldpopt.sources.source import Source

if TYPE_CHECKING:
    import mbi

Array = NDArray[np.float64]
Names = tuple[str, ...]

# The query of a measurement that is of the margin itself, and not of sums of its cells: a method
# in mbi 1, an object of this class in mbi 2.
_WHOLE = {"datavector", "DatavectorQuery"}


def from_mbi(
    domain: mbi.Domain, measurements: Iterable[mbi.LinearMeasurement], *, total: float
) -> tuple[Product, dict[Names, FrequencyEstimate]]:
    """Return the domain and the measured margins of mbi as estimates with their noise.

    Parameters
    ----------
    domain
        An ``mbi.Domain``: names and sizes of the attributes.
    measurements
        ``mbi.LinearMeasurement`` objects, each of noisy counts of a whole margin. Several of the
        same attributes are averaged by their precision.
    total
        The number of users that the counts are of, > 0.

    Returns
    -------
    The domain as a ``Product``, and raw estimates by the names of their attributes: those of pairs
    are what ``consistent_margins`` takes, and any of them is a ``Source`` with
    ``groups=domain.margin(*names)``.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If an attribute is unknown, a measurement has another number of cells than its margin, a
        query of its own, or no positive standard deviation.

    Notes
    -----
    Nothing is imported: objects with the same attributes will do. The noise does not depend on the
    frequencies, as in the central model of privacy.

    Examples
    --------
    >>> from types import SimpleNamespace as Named
    >>> domain = Named(attributes=("age", "sex"), shape=(2, 2))
    >>> counts = Named(noisy_measurement=[60.0, 38.0], clique=("age",), stddev=5.0)
    >>> product, measured = from_mbi(domain, [counts], total=100)
    >>> product, measured["age",].frequencies
    (Product(age=2, sex=2), array([0.6 , 0.38]))
    """
    total = validate.real("total", total, above=0)
    if not (hasattr(domain, "attributes") and hasattr(domain, "shape")):
        raise InvalidTypeError(f"domain must be an mbi.Domain, got {domain!r}")
    sizes = [int(size) for size in domain.shape]
    product = Product(**dict(zip(domain.attributes, sizes, strict=True)))
    moments: dict[Names, Array] = {}
    precisions: dict[Names, float] = {}
    # Several measurements of a margin may differ in the order of its attributes: the first counts.
    for i, measurement in enumerate(measurements):
        names, counts, deviation = _read(f"measurement {i}", product, measurement)
        order = _order_among(moments, names)
        shares = _transposed(product, counts / total, names, order)
        precision = (total / deviation) ** 2
        if order not in moments:
            moments[order] = np.zeros(len(shares))
            precisions[order] = 0.0
        moments[order] += precision * shares
        precisions[order] += precision
    margins = {}
    for names, moment in moments.items():
        noise = Noise(1 / precisions[names])
        shares = moment / precisions[names]
        margins[names] = FrequencyEstimate(shares, noise=noise, is_raw=True)
    return product, margins


def to_mbi(
    domain: Product, measured: Mapping[Names, FrequencyEstimate], *, total: float
) -> tuple[mbi.Domain, list[mbi.LinearMeasurement]]:
    """Return the domain and estimates of margins as mbi takes them: noisy counts of users.

    Parameters
    ----------
    domain
        The attributes.
    measured
        A raw estimate with its noise for each tuple of names, the last attribute running fastest.
    total
        The number of users that the counts shall be of, > 0: with other users for each margin, any
        common number.

    Returns
    -------
    An ``mbi.Domain`` and a list of ``mbi.LinearMeasurement``.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a name is unknown, an estimate has another number of cells than its margin, no noise, is
        processed or a stack.
    MissingPackageError
        If mbi is not installed.

    Notes
    -----
    mbi knows one standard deviation per margin: that of the mean variance at the uniform
    distribution.
    """
    total = validate.real("total", total, above=0)
    if not isinstance(domain, Product):
        raise InvalidTypeError(f"domain must be a Product, got {domain!r}")
    if not isinstance(measured, Mapping):
        raise InvalidTypeError(
            f"measured must be a mapping from names to estimates, got {type(measured).__name__}"
        )
    # All checks before the import, which takes seconds.
    rows = []
    for names, estimate in measured.items():
        _require_names(f"the key {names!r}", names)
        source = Source(estimate, name=f"the margin of {' and '.join(names)}")
        _require_cells(source.name, domain, names, source.size)
        variance = float(source.variance(1 / source.size).mean())
        rows.append((total * estimate.frequencies, names, total * np.sqrt(variance)))
    with extra_needed():
        import mbi
    # numpy's numbers are no floats of Python, which mbi's traces take for constants.
    measurements = [
        mbi.LinearMeasurement(counts, names, stddev=float(deviation))
        for counts, names, deviation in rows
    ]
    return mbi.Domain(domain.names, domain.shape), measurements


def _read(name: str, domain: Product, measurement: Any) -> tuple[Names, Array, float]:
    """Return the attributes, counts and standard deviation of a measurement."""
    for field in ("noisy_measurement", "clique", "stddev"):
        if not hasattr(measurement, field):
            raise InvalidTypeError(f"{name} must be an mbi.LinearMeasurement, got {measurement!r}")
    query = getattr(measurement, "query", None)
    kind = getattr(query, "__name__", type(query).__name__)
    if query is not None and kind not in _WHOLE:
        raise InvalidInputError(
            f"{name} has a query of its own, {query!r}: only whole margins are estimates of cells"
        )
    stated = measurement.clique
    # mbi itself makes a tuple of a list.
    names: Names = tuple(stated) if isinstance(stated, list) else stated
    _require_names(name, names)
    counts = validate.vector(f"the counts of {name}", np.asarray(measurement.noisy_measurement))
    _require_cells(name, domain, names, len(counts))
    # A number of jax, perhaps.
    deviation = np.asarray(measurement.stddev).item()
    deviation = validate.real(f"the standard deviation of {name}", deviation, above=0)
    return names, counts, deviation


def _require_names(name: str, names: object) -> None:
    """Raise an error unless these are names of attributes: a text would be read as letters."""
    if not isinstance(names, tuple) or not all(isinstance(each, str) for each in names):
        raise InvalidTypeError(f"{name} must be of a tuple of names of attributes, got {names!r}")
    if not names:
        raise InvalidInputError(f"{name} has no attributes: it is the number of users")


def _require_cells(name: str, domain: Product, names: Names, count: int) -> None:
    """Raise an error unless a margin has this number of cells."""
    size = 1
    for axis in domain.axes(names):
        size *= domain.shape[axis]
    if count != size:
        raise InvalidInputError(f"{name} has {count} cells, and its margin has {size}")


def _order_among(margins: Iterable[Names], names: Names) -> Names:
    """Return these names in the order in which the margin already stands, if it does."""
    for stated in margins:
        if {*stated} == {*names}:
            return stated
    return names


def _transposed(domain: Product, cells: Array, names: Names, order: Names) -> Array:
    """Return the cells of a margin in another order of its attributes."""
    shape = [domain.size(each) for each in names]
    axes = [names.index(each) for each in order]
    return cells.reshape(shape).transpose(axes).ravel()

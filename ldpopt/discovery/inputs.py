"""Inputs on which compositions are run: simulated collections, and vectors made to refute."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.errors import InfeasibleError, InvalidInputError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.oracles.base import FrequencyOracle
from ldpopt.solve.formulation import Formulation

Array = NDArray[np.float64]

# How spread the simulated truths are: few large values, as many as there are, all alike.
_CONCENTRATIONS = (0.2, 1.0, 5.0)
# Every so many inputs are simulated from values in falling order, with a tenth of the reports, or
# made by hand.
_CYCLE = 6
# What the values of simple inputs are: few of one digit, so that a reader can check them.
_SIMPLE = np.array([-0.2, -0.1, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0])


class Inputs(NamedTuple):
    """Vectors that the problem accepts, each with its kind.

    Attributes
    ----------
    estimates
        A stack of raw estimates, shape (inputs, d).
    kinds
        The kind of each.
    rejected
        By kind the number of vectors that were left out, because the problem has no solution or
        the loss no value there.
    """

    estimates: FrequencyEstimate
    kinds: tuple[str, ...]
    rejected: Counter[str]

    def without(self, indices: NDArray[np.int64]) -> Inputs:
        """Return the inputs without some, which have turned out to have no solution."""
        if not len(indices):
            return self
        kept = np.setdiff1d(np.arange(len(self.kinds)), indices)
        rejected = self.rejected + Counter(self.kinds[i] for i in indices)
        return Inputs(self.estimates[kept], tuple(self.kinds[i] for i in kept), rejected)

    @property
    def numbers(self) -> dict[str, int]:
        """By kind the number of inputs."""
        return dict(Counter(self.kinds))


def inputs_of(
    problem: Formulation,
    oracle: FrequencyOracle,
    n: int,
    number: int,
    rng: np.random.Generator,
) -> Inputs:
    """Return random and adversarial inputs that the problem accepts, at most ``number``.

    Raises
    ------
    InvalidInputError, InfeasibleError
        If the problem accepts none of them: the error of the first one.
    """
    accepted: list[Array] = []
    kinds: list[str] = []
    rejected: Counter[str] = Counter()
    first_error: InvalidInputError | None = None
    for kind, values in _vectors(oracle, n, number, rng):
        try:
            problem.accept(as_raw(values, n, oracle))
        except InfeasibleError:
            # Of the constraints alone: no other input would be accepted.
            raise
        except InvalidInputError as error:
            first_error = first_error or error
            rejected[kind] += 1
            continue
        accepted.append(values)
        kinds.append(kind)
    if not accepted:
        assert first_error is not None  # there is at least one vector
        raise first_error
    return Inputs(as_raw(np.stack(accepted), n, oracle), tuple(kinds), rejected)


def as_raw(values: Array, n: int, oracle: FrequencyOracle) -> FrequencyEstimate:
    """Return values as raw estimates: counts that reports could have are near each of them."""
    return FrequencyEstimate(values, n, oracle, is_raw=True)


def _vectors(
    oracle: FrequencyOracle, n: int, number: int, rng: np.random.Generator
) -> Iterator[tuple[str, Array]]:
    """Yield so many vectors with their kinds; adversarial and simple ones are mixed in."""
    adversarial = _adversarial(oracle.d)
    for i in range(number):
        # Early, so that a search with few inputs has them too.
        if i % 2 == 0 and adversarial:
            kind, values = adversarial.pop(0)
            yield kind, _countable(values, oracle)
        elif i % _CYCLE == 3:
            yield "of few digits", _countable(_simple(oracle.d, rng), oracle)
        else:
            yield _simulated(oracle, n, i, rng)


def _simulated(
    oracle: FrequencyOracle, n: int, i: int, rng: np.random.Generator
) -> tuple[str, Array]:
    """Return the estimate of a simulated collection."""
    truth = rng.dirichlet(np.full(oracle.d, _CONCENTRATIONS[i % len(_CONCENTRATIONS)]))
    kind = "simulated"
    if i % _CYCLE == 1:
        kind = "simulated falling"
        truth = np.sort(truth)[::-1]
    if i % _CYCLE == 5:
        kind = "simulated from few reports"
        n = max(n // 10, 2)
    # Estimates of counts: they keep what the protocol implies, such as the sum under GRR.
    counts = oracle.simulate_counts(rng.multinomial(n, truth), rng)
    return kind, oracle.estimate(counts, n).frequencies


def _adversarial(d: int) -> list[tuple[str, Array]]:
    """Return vectors on which wrong forms fail: ties, negatives, wrong sums, dominant values."""
    # Parts of the domain, so that orders and groups are cut across for any d.
    few = max(d // 4, 1)
    third = max(d // 3, 1)
    place = np.arange(d)
    return [
        ("zero", np.zeros(d)),
        ("ties", np.full(d, 1 / d)),
        ("one dominant value", np.where(place == 0, 1.0, 0.0)),
        ("one dominant value", np.where(place == d - 1, 1.2, -0.2 / d)),
        ("large sum", np.where(place < few, 0.4, 0.1)),
        ("ties", np.where(place < few, 0.4, -0.05)),
        ("rising", np.linspace(-0.1, 0.3, d)),
        ("falling", np.linspace(0.3, -0.1, d)),
        ("small sum", np.where(place == 0, 0.5, np.where(place == 1, 0.2, -0.01))),
        ("small sum", np.full(d, 0.3 / d)),
        ("negative", np.full(d, -0.1)),
        ("negative", np.where(place < d - few, -0.15, 0.3)),
        ("negative", np.where(place % 2 == 0, -0.1, 0.25)),
        ("ties", np.where(place % 3 == 0, 0.3, 0.02)),
        ("large sum", np.where(place % 2 == 1, 0.6, 0.3)),
        ("one dominant value", np.where(place == d // 2, 0.9, 0.02)),
        ("large sum", np.where(place < third, 0.1, np.where(place < 2 * third, 0.5, 0.05))),
        ("small sum", np.where(place < third, -0.02, 0.04)),
    ]


def _simple(d: int, rng: np.random.Generator) -> Array:
    """Return a vector of few positive and negative values of one digit, zero elsewhere."""
    values = np.zeros(d)
    number = min(int(rng.integers(2, 5)), d)
    values[rng.choice(d, number, replace=False)] = rng.choice(_SIMPLE, number)
    return values


def _countable(values: Array, oracle: FrequencyOracle) -> Array:
    """Return values cut to those that counts between 0 and n can give."""
    lowest = -oracle.q / (oracle.p - oracle.q)
    highest = (1 - oracle.q) / (oracle.p - oracle.q)
    return np.clip(values, lowest, highest)

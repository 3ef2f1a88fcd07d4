"""Estimates that claims are checked on: random, adversarial, and from real data through every oracle."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ldpopt import datasets
from ldpopt.datasets.dataset import apportion
from ldpopt.estimate import FrequencyEstimate
from ldpopt.oracles import GRR, ORACLES, OUE, SUE, HadamardResponse
from ldpopt.oracles.base import PER_USER, FrequencyOracle

Kind = Literal["random", "adversarial", "real"]

_PER_USER_N = 100_000  # users of a data set whose oracle is simulated user by user
_REAL = {"zipf": 1_000_000, "emoji": 884_427, "us-cities": 602_325}  # users, as in N V-A and D 5.1


@dataclass(frozen=True)
class Instance:
    """A stack of estimates of one size from one oracle; ``joined`` is how many vectors each row holds end to end."""

    name: str
    kind: Kind
    estimate: FrequencyEstimate
    joined: int = 1

    @property
    def vectors(self) -> int:
        """Number of vectors in the stack."""
        return self.joined * int(np.prod(self.estimate.frequencies.shape[:-1]))

    def where(self, kept: NDArray[np.bool_]) -> Instance:
        """Return the stack with these vectors only."""
        return replace(self, estimate=self.estimate[kept])


@dataclass(frozen=True, eq=False)
class InstanceSet:
    """The instances of one run: the same for every claim, repeatable by the seed.

    Parameters
    ----------
    quick
        Fewer and smaller instances, for a smoke test.
    seed
        Of all random choices.
    """

    quick: bool = False
    seed: int = 2020

    def rng(self) -> np.random.Generator:
        """Return a new generator, the same for every caller."""
        return np.random.default_rng(self.seed)

    @cached_property
    def random(self) -> list[Instance]:
        """Raw estimates of random populations: all oracles, sizes, budgets and numbers of users mixed."""
        rng = self.rng()
        sizes = (2, 7, 32) if self.quick else (2, 3, 7, 32, 128)
        instances = []
        for name, make in ORACLES.items():
            for d in sizes:
                oracle = make(float(rng.choice([0.2, 1.0, 3.0])), d)
                n = int(rng.choice([300, 3_000, 30_000]))
                stack = np.concatenate(
                    [
                        _one(oracle, _population(rng, d, n), rng)
                        for _ in range(2 if self.quick else 8)
                    ]
                )
                instances.append(
                    Instance(f"random {name} d={d}", "random", FrequencyEstimate(stack, n, oracle))
                )
        return instances

    @cached_property
    def crowd(self) -> list[Instance]:
        """Many small vectors of random populations through every oracle: for what is cheap on stacks."""
        rng = self.rng()
        instances = []
        for name, make in ORACLES.items():
            for d, trials in ((7, 32),) if self.quick else ((2, 112), (3, 74), (7, 96), (32, 28)):
                oracle = make(float(rng.choice([0.2, 1.0, 3.0])), d)
                n = int(rng.choice([300, 3_000]))
                users = _population(rng, d, n)
                estimate = oracle.estimate(oracle.simulate_counts(users, rng, trials=trials), n)
                instances.append(Instance(f"crowd {name} d={d}", "random", estimate))
        return instances

    @cached_property
    def adversarial(self) -> list[Instance]:
        """Vectors made to break closed forms and solvers, under protocols with κ > 0, = 0 and < 0."""
        rng = self.rng()
        rows = [
            [0.5, 0.2, -0.01, -0.02],  # what must not be zeroed first (N IV-B's words)
            [-0.3, -0.3, -0.2, -0.1],  # nothing positive
            [0.25, 0.25, 0.25, 0.25],  # a solution already, all tied
            [1.0, 0.0, 0.0, 0.0],  # a vertex
            [0.0, 0.0, 0.0, 0.0],
            [0.7, 0.7, 0.7, -0.5],  # ties at the top
            [0.5, 0.5 + 1e-9, 1e-9, 0.0],  # on the edge of the active set
            [0.6, 0.4, -1e-12, 1e-12],
            [0.4, 0.3, 0.3, -0.9],
        ]
        small = np.array(rows)
        wide = np.tile(np.repeat([0.03, -0.01], 32), (2, 1))  # two tied groups
        wide[1] += 1e-10 * rng.standard_normal(64)  # and nearly so
        scales = 0.9 * np.sign(rng.standard_normal((8, 16))) * 10.0 ** rng.uniform(-9, 0, (8, 16))
        instances = []
        for oracle_type in (OUE, SUE, HadamardResponse):
            for name, stack in (("small", small), ("tied", wide), ("scales", scales)):
                oracle = oracle_type(epsilon=1.0, d=stack.shape[1])
                estimate = FrequencyEstimate(stack, 10_000, oracle)
                instances.append(
                    Instance(f"{name} {oracle_type.__name__}", "adversarial", estimate)
                )
        return instances

    @cached_property
    def real(self) -> list[Instance]:
        """Emoji, US cities and Zipf through every oracle at ε = 1."""
        rng = self.rng()
        instances = []
        for data_name, users in _REAL.items():
            if self.quick and data_name != "emoji":
                continue
            data = datasets.load(data_name)
            for name, make in ORACLES.items():
                oracle = make(1.0, data.d)
                n = min(users, _PER_USER_N) if oracle.simulation == PER_USER else users
                counts = oracle.simulate_counts(data.scaled(n).counts, rng, trials=1)
                instances.append(
                    Instance(f"{data_name} {name}", "real", oracle.estimate(counts, n))
                )
        return instances

    @cached_property
    def extreme(self) -> list[NDArray[np.float64]]:
        """Vectors beyond any solver's arithmetic, for comparison with exact rational numbers."""
        return [
            np.array(row)
            for row in (
                [1e17, 0.2, 0.1],
                [1e17, 1e17, 0.2],
                [1e300, -1e300, 3.0],
                [1.7e308, -1.7e308],
                [1e-300, 2e-300, 0.0],
                [-1e300, -1e300],
                [0.3],
                [-5.0],
            )
        ]

    @property
    def all(self) -> list[Instance]:
        """All instances a solver can take."""
        return [*self.random, *self.adversarial, *self.real]


def _population(rng: np.random.Generator, d: int, n: int) -> NDArray[np.int64]:
    """Return true counts of a random kind: uniform, power law, nearly a point mass, or Dirichlet."""
    ranks = np.arange(1, d + 1)
    shapes = [
        np.ones(d),
        ranks**-1.5,
        100.0 ** (ranks == 1),
        rng.dirichlet(np.full(d, 0.3)) + 1e-12,
    ]
    shape = shapes[rng.integers(len(shapes))]
    return rng.multinomial(n, shape / shape.sum())


def _one(
    oracle: FrequencyOracle, counts: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.float64]:
    n = int(counts.sum())
    return oracle.estimate(oracle.simulate_counts(counts, rng, trials=1), n).frequencies


def small_reports() -> tuple[FrequencyOracle, NDArray[np.int64]]:
    """Return OUE at ε = 1 on d = 8 and 10,000 users of Zipf(3): where zeroing negatives first is often wrong."""
    weights = np.arange(1, 9) ** -3.0
    return OUE(epsilon=1.0, d=8), apportion(weights, 10_000)


def binary_response(epsilon: float) -> GRR:
    """Return GRR on two values, whose p + q = 1."""
    return GRR(epsilon=epsilon, d=2)

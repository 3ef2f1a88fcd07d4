"""Estimates that claims are checked on: random, adversarial, and from real data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ldpopt import datasets
from ldpopt.datasets.dataset import apportion
from ldpopt.estimate import FrequencyEstimate
from ldpopt.oracles import GRR, ORACLES, OUE, SUE, FrequencyOracle, HadamardResponse
from ldpopt.oracles.base import PER_USER

Array = NDArray[np.float64]
Kind = Literal["random", "adversarial", "real"]

_BUDGETS = (0.2, 1.0, 3.0)  # a low, a usual and a high one
_REAL = {"zipf": 1_000_000, "emoji": 884_427, "us-cities": 602_325}  # users, as in N V-A and D 5.1
_PER_USER_N = 30_000  # users of a data set whose oracle is simulated user by user, in a second


@dataclass(frozen=True, eq=False)
class Instance:
    """A stack of estimates of one size from one oracle.

    ``joined`` is how many vectors each row holds end to end.
    """

    name: str
    kind: Kind
    estimate: FrequencyEstimate
    joined: int = 1

    @property
    def vectors(self) -> int:
        """Number of vectors in the stack."""
        rows = int(np.prod(self.estimate.frequencies.shape[:-1]))
        return self.joined * rows

    def first(self, vectors: int) -> Instance:
        """Return the first vectors of a random stack; other stacks as they are.

        Every vector of an adversarial or real instance is there for a reason of its own.
        """
        if self.kind != "random" or self.joined > 1:
            return self
        return replace(self, estimate=self.estimate[:vectors])

    def where(self, kept: NDArray[np.bool_]) -> Instance:
        """Return the stack with these rows only."""
        return replace(self, estimate=self.estimate[kept])


@dataclass(frozen=True, eq=False)
class InstanceSet:
    """The instances of one run: the same for every claim, repeatable by the seed.

    Each list is made at its first use. Two sets are equal only if they are the same
    object, so that checks may cache what they compute on a set.

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
        """Return a new generator, in the same state for every caller."""
        return np.random.default_rng(self.seed)

    @cached_property
    def random(self) -> list[Instance]:
        """Raw estimates of random populations, with oracles, sizes, budgets and n mixed."""
        rng = self.rng()
        # Two values are the smallest domain; 128 is the largest for the solvers' exponential cones.
        sizes = (2, 7, 32) if self.quick else (2, 3, 7, 32, 128)
        populations = 2 if self.quick else 8
        instances = []
        for name, make in ORACLES.items():
            for d in sizes:
                oracle = make(float(rng.choice(_BUDGETS)), d)
                n = int(rng.choice([300, 3_000, 30_000]))
                rows = []
                # A population per row: the rows of a stack differ by more than noise.
                for _ in range(populations):
                    users = _population(rng, d, n)
                    counts = oracle.simulate_counts(users, rng, trials=1)
                    rows.append(oracle.estimate(counts, n).frequencies)
                estimate = FrequencyEstimate(np.concatenate(rows), n, oracle, is_raw=True)
                instances.append(Instance(f"random {name} d={d}", "random", estimate))
        return instances

    @cached_property
    def crowd(self) -> list[Instance]:
        """Many small vectors per population and oracle, for what is cheap on stacks."""
        rng = self.rng()
        # Trials by size: each stack fills whole batches of 224 values.
        trials_by_size = {7: 32} if self.quick else {2: 112, 3: 74, 7: 96, 32: 28}
        instances = []
        for name, make in ORACLES.items():
            for d, trials in trials_by_size.items():
                oracle = make(float(rng.choice(_BUDGETS)), d)
                # Few users: noise that leaves many values at zero.
                n = int(rng.choice([300, 3_000]))
                users = _population(rng, d, n)
                estimate = oracle.estimate(oracle.simulate_counts(users, rng, trials=trials), n)
                instances.append(Instance(f"crowd {name} d={d}", "random", estimate))
        return instances

    @cached_property
    def adversarial(self) -> list[Instance]:
        """Vectors made to break closed forms and solvers, with κ > 0, = 0 and < 0."""
        rng = self.rng()
        small = np.array(
            [
                [0.5, 0.2, -0.01, -0.02],  # a negative value that must be raised (N IV-B's words)
                [-0.3, -0.3, -0.2, -0.1],  # nothing positive
                [0.25, 0.25, 0.25, 0.25],  # a solution already, all tied
                [1.0, 0.0, 0.0, 0.0],  # a vertex
                [0.0, 0.0, 0.0, 0.0],
                [0.7, 0.7, 0.7, -0.5],  # ties at the top
                [0.5, 0.5 + 1e-9, 1e-9, 0.0],  # on the edge of the active set
                [0.6, 0.4, -1e-12, 1e-12],
                [0.4, 0.3, 0.3, -0.9],
            ]
        )
        tied = np.tile(np.repeat([0.03, -0.01], 32), (2, 1))  # two tied groups
        tied[1] += 1e-10 * rng.standard_normal(64)  # and nearly tied ones
        signs = np.sign(rng.standard_normal((8, 16)))
        # Below 1 in size, so that MLE-Apx's 1 + κ f̃ stays positive under each of the oracles
        # below.
        scales = 0.9 * signs * 10.0 ** rng.uniform(-9, 0, (8, 16))
        stacks = {"small": small, "tied": tied, "scales": scales}
        instances = []
        # Their κ is positive, zero and negative, in this order.
        for oracle_type in (OUE, SUE, HadamardResponse):
            for name, stack in stacks.items():
                # Where κ is not used the three are one problem: a smoke test takes it once.
                if self.quick and oracle_type is not OUE and name != "small":
                    continue
                oracle = oracle_type(epsilon=1.0, d=stack.shape[1])
                estimate = FrequencyEstimate(stack, 10_000, oracle, is_raw=True)
                full_name = f"{name} {oracle_type.__name__}"
                instances.append(Instance(full_name, "adversarial", estimate))
        return instances

    @cached_property
    def real(self) -> list[Instance]:
        """Emoji, US cities and Zipf through every oracle at ε = 1."""
        rng = self.rng()
        instances = []
        for data_name, users in _REAL.items():
            # Emoji is the smallest of them.
            if self.quick and data_name != "emoji":
                continue
            data = datasets.load(data_name)
            for name, make in ORACLES.items():
                oracle = make(1.0, data.d)
                # Drawing users one by one is slow.
                n = min(users, _PER_USER_N) if oracle.simulation == PER_USER else users
                counts = oracle.simulate_counts(data.scaled(n).counts, rng, trials=1)
                estimate = oracle.estimate(counts, n)
                instances.append(Instance(f"{data_name} {name}", "real", estimate))
        return instances

    @cached_property
    def extreme(self) -> list[Array]:
        """Vectors beyond any solver's arithmetic, for comparison with exact fractions."""
        rows = [
            [1e17, 0.2, 0.1],
            [1e17, 1e17, 0.2],
            [1e300, -1e300, 3.0],
            [1.7e308, -1.7e308],  # their sum of magnitudes overflows
            [1e-300, 2e-300, 0.0],
            [-1e300, -1e300],
            [0.3],
            [-5.0],
        ]
        return [np.array(row) for row in rows]

    @property
    def all(self) -> list[Instance]:
        """All instances that a solver can take one vector at a time."""
        return [*self.random, *self.adversarial, *self.real]


def _population(rng: np.random.Generator, d: int, n: int) -> NDArray[np.int64]:
    """Return true counts: uniform, a power law, nearly a point mass, or Dirichlet, at random."""
    ranks = np.arange(1, d + 1)
    shapes = [
        np.ones(d),
        ranks**-1.5,
        100.0 ** (ranks == 1),
        rng.dirichlet(np.full(d, 0.3)) + 1e-12,  # no value underflows to 0 for all of them
    ]
    shape = shapes[rng.integers(len(shapes))]
    return rng.multinomial(n, shape / shape.sum())


def small_reports() -> tuple[FrequencyOracle, NDArray[np.int64]]:
    """Return OUE at ε = 1 on d = 8, and 10,000 users of Zipf(3).

    On these, a method that first sets negative values to 0 is often wrong.
    """
    # Here the positive estimates often sum to less than 1: δ is then positive, and lifts negative
    # values.
    weights = np.arange(1, 9) ** -3.0
    return OUE(epsilon=1.0, d=8), apportion(weights, 10_000)


def binary_response(epsilon: float) -> GRR:
    """Return GRR on two values, whose p + q = 1."""
    return GRR(epsilon=epsilon, d=2)

"""Variants in a researcher's own units: every minimum is certified, every moved point refused.

    make tour     # the same with 736 and 4,096 values too, five estimates each: some ten minutes

Each variant is stated in at most three lines, as a user would type it, without any scaling.
"""

import itertools
import sys
import time

import cvxpy as cp
import numpy as np
import pytest

from ldpopt import FrequencyEstimate, Parameter, Problem, certify, losses, oracles
from ldpopt.constraints import (
    Bounds,
    Custom,
    GroupTotals,
    HierarchyTotals,
    Linear,
    Margins,
    Monotone,
    Near,
    NonNegative,
    Smooth,
    SumsTo,
    TopSet,
    Unimodal,
)

D = 64
SIMPLEX = [NonNegative(), SumsTo(1.0)]
MOVE = 1e-3


class World:
    """Frequencies, an estimate of them and last month's, with groups of values."""

    def __init__(self, d, draw=0):
        rng = np.random.default_rng(7 + draw)
        self.d = d
        truth = np.arange(1.0, d + 1) ** -1.1
        self.truth = truth / truth.sum()
        n = 2_000 * d
        oracle = oracles.OUE(epsilon=1.0, d=d)
        counts = oracle.simulate_counts(np.rint(n * self.truth).astype(np.int64), rng)
        self.raw = oracle.estimate(counts, int(np.rint(n * self.truth).sum()))
        self.sd = float(self.raw.noise.sd)
        last = self.truth * np.exp(rng.normal(0, 0.2, d))
        self.last = last / last.sum()
        self.ranks = np.argsort(-self.last)
        self.groups = [np.arange(start, start + 8) for start in range(0, d, 8)]
        self.table = self.truth.reshape(-1, 8)

    def totals(self, sets):
        return np.array([self.truth[members].sum() for members in sets])


def variants(w):
    """Return every variant by name."""
    subcategory = np.arange(w.d) // 8
    category = np.arange(len(w.groups)) // 4
    some = np.where(np.arange(len(w.groups)) % 3 == 0, w.totals(w.groups), np.nan)
    larger = np.array([w.totals(w.groups)[category == c].sum() for c in range(category.max() + 1)])
    squares = losses.LeastSquares()
    shift = float(np.abs(w.truth - w.last).sum())
    bend = float(np.abs(np.diff(w.truth[w.ranks])).sum())
    lam = Parameter("lam", 2 * w.sd)
    values = np.arange(w.d)
    quarters = values[w.d // 4 - 1 :: w.d // 4]
    moved_mass = float(np.abs(np.cumsum(w.truth - w.last)).sum())
    stated = {
        "L1 ball to last month": (squares, [Near(w.last, shift, 1)]),
        "top-k set": (squares, [TopSet(np.arange(8))]),
        "permuted isotonic": (squares, [Monotone(w.ranks)]),
        "2-norm ball": (squares, [Near(w.last, np.linalg.norm(w.truth - w.last))]),
        "KL ball": (squares, [Near(w.last, 0.02, "kl")]),
        "TV ball": (squares, [Custom(lambda f: cp.tv(f[w.ranks]) <= bend, name="tv")]),
        "TV penalty": (squares + lam * losses.TotalVariation(w.ranks), []),
        "some totals only": (squares, [HierarchyTotals([subcategory, category], [some, larger])]),
        "two-way margins": (squares, [Margins(w.table.shape, axis, w.table.sum(axis=1 - axis))
                                      for axis in (0, 1)]),
        "group norms": (squares + 3 * w.sd * losses.GroupNorm(w.groups), []),
        "Huber": (losses.Huber(w.sd), [Near(w.last, shift, 1)]),
        "own Huber": (losses.Custom(lambda f, y: cp.sum(cp.huber(f - y, w.sd)), name="huber"), []),
        "entropy": (squares + w.sd**2 * losses.Entropy(), []),
        "minimax": (losses.MaxAbsolute() + 0.1 * squares, [TopSet(np.arange(8))]),
        "shrunk to last month": (squares + w.sd * losses.L1To(w.last), []),
        "divergence to last month": (squares + w.sd**2 * losses.KLTo(w.last), []),
        "own noise": (losses.Custom(lambda f, y, noise: cp.norm1(f - y) / noise.sd
                                    + cp.sum_squares(f - w.last)), []),
        "weighted MLE in order": (losses.GaussianMLE(), [Monotone(w.ranks)]),
        "likelihood, some totals": (losses.BinomialMLE(),
                                    [GroupTotals(w.groups, w.totals(w.groups))]),
        "likelihood in a KL ball": (losses.BinomialMLE(), [Near(w.last, 0.02, "kl")]),
        "absolute deviations in order": (losses.LeastAbsolute(), [Monotone(w.ranks)]),
        "divergence, caps": (losses.KullbackLeibler(), [Bounds(0.0, 1.2 * w.last)]),
        "order between bounds": (squares, [Monotone(values), Bounds(0.6 * w.truth, 1.5 * w.truth)]),
        "own tree": (squares, [Monotone(np.stack([(values[1:] - 1) // 3, values[1:]], axis=1))]),
        "one mode": (squares, [Unimodal(1)]),
        "second differences": (squares, [Smooth(second_difference=np.diff(w.truth, 2).max())]),
        "mean value": (squares, [Linear(values, 0.99 * values @ w.truth, values @ w.truth)]),
        "quartiles": (squares, [Linear(np.tri(w.d)[quarters], *(np.cumsum(w.truth)[quarters] + step
                                       for step in (-0.001, 0.001)))]),
        "earth mover's ball": (squares, [Custom(
            lambda f: cp.norm1(cp.cumsum(f - w.last)) <= moved_mass, name="earth mover")]),
        "group norms in a ball": (squares + 3 * w.sd * losses.GroupNorm(w.groups),
                                  [Near(w.last, np.linalg.norm(w.truth - w.last))]),
    }  # fmt: skip
    return {name: Problem(loss, [*SIMPLEX, *more]) for name, (loss, more) in stated.items()}


def moved(w, problem, solution, chosen=slice(None)):
    """Yield points beside the minimum, worse or outside: one value has given some to another.

    ``chosen`` are the places of those that take, of three: all of them, if not named.
    """
    f = solution.frequencies
    start = FrequencyEstimate.of(solution.start)
    giver = int(np.argmax(f))
    for taker in (w.d // 2, w.d - 1, 1 if giver != 1 else 2)[chosen]:
        point = f.copy()
        point[giver] -= MOVE
        point[taker] += MOVE
        rise = float(problem.loss.value(point, start)) - solution.objective
        # Where the minimum is a set, a step within it is no mistake.
        if rise > 1e-12 or problem.violation(point) > 1e-6:
            yield point


def outcome(w, problem, chosen=slice(None)):
    """Return (certified, refused, tried) of one variant, with ``chosen`` as of ``moved``."""
    solution = problem.solve(w.raw)
    points = list(moved(w, problem, solution, chosen))
    start = FrequencyEstimate.of(solution.start)
    refused = 0
    for point in points:
        certificate = certify(problem, w.raw, point)
        rise = float(problem.loss.value(point, start)) - solution.objective
        # What is within 1e-6 of the minimum is optimal at 1e-6: likelihoods and the largest
        # deviation hardly notice a move. At less than its rise it is refused.
        is_near = rise <= 1e-6 * certificate.scale and problem.violation(point) <= 1e-6
        tolerance = min(1e-7, rise / certificate.scale / 2) if is_near else 1e-6
        refused += not certificate.is_optimal(tolerance, relative=True)
    return solution.certificate.is_optimal(1e-8, relative=True), refused, len(points)


WORLD = World(D)
VARIANTS = variants(WORLD)


@pytest.mark.parametrize("name", VARIANTS)
def test_the_minimum_is_certified_and_moved_points_are_refused(name):
    # Two of the three points, in turns: `make tour` tries all.
    chosen = (slice(2), slice(1, 3))[[*VARIANTS].index(name) % 2]
    certified, refused, tried = outcome(WORLD, VARIANTS[name], chosen)
    assert certified
    assert refused == tried > 0


def main(draws, sizes):
    """Print the outcome of every variant at these numbers of values; return how many fail."""
    failed = 0
    for d, draw in itertools.product(sizes, range(draws)):
        world = World(d, draw)
        for name, problem in variants(world).items():
            began = time.process_time()
            certified, refused, tried = outcome(world, problem)
            failed += not (certified and refused == tried > 0)
            seconds = time.process_time() - began
            print(f"{d:5} {draw} {name:26} certified {certified}, refused {refused} of {tried}, "
                  f"{seconds:.1f} s", flush=True)  # fmt: skip
    print(f"{failed} fail")
    return failed


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), list(map(int, sys.argv[2:]))))

"""The two samples by which certificates are judged complete: every answer of ``solve`` is proved.

Ten losses at d = 7, and thirteen constraints that one vector satisfies all together:

- on the simplex with up to two of the ten further constraints that several values share or that
  bound them: 10 · (1 + 10 + 45) = 560 problems;
- under up to three of all thirteen: 10 · 378 = 3,780 problems, of which those without a minimum
  are left out. 3,595 were counted when this sample was first drawn.

``python -m tests.test_certificate_samples`` solves both whole, some minutes, and prints how many
are certified at a relative 1e-8, and the reason of each that is not.
"""

import itertools
import sys
import warnings
from collections import Counter
from typing import NamedTuple

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse

from ldpopt import FrequencyEstimate, Problem, errors, losses, oracles
from ldpopt.constraints import (
    Bounds,
    Custom,
    Fixed,
    GroupTotals,
    Linear,
    LinearInequalities,
    Monotone,
    Near,
    NonNegative,
    Smooth,
    SumsTo,
    TopSet,
    Unimodal,
)
from ldpopt.solve.certificate.bounds.intervals import Box
from ldpopt.solve.certificate.cones.conic_program import ConicProgram
from ldpopt.solve.certificate.cones.open_variables import bounded_rows

TOLERANCE = 1e-8

CENTRE = np.array([0.3, 0.24, 0.18, 0.12, 0.08, 0.05, 0.03])
"""It satisfies every constraint below, so that no two contradict each other."""

LOSSES = {
    "least squares": losses.LeastSquares(),
    "weighted squares": losses.WeightedLeastSquares([1.0, 4.0, 0.5, 2.0, 9.0, 1.0, 3.0]),
    "weighted MLE": losses.GaussianMLE(),
    "binomial": losses.BinomialMLE(),
    "multinomial": losses.MultinomialMLE(),
    "divergence": losses.KullbackLeibler(),
    "absolute": losses.LeastAbsolute(),
    "Huber": losses.Huber(0.02),
    "price on variation": losses.LeastSquares() + 0.01 * losses.TotalVariation(),
    "price on entropy": losses.LeastSquares() + 0.01 * losses.Entropy(),
}

SIMPLEX = {"nonnegative": NonNegative(), "total": SumsTo(1.0)}

FURTHER = {
    "caps": Bounds(-0.01, 0.28 + 0.05),
    "known value": Fixed([5], [0.05]),
    "chain": Monotone([0, 1, 2, 3]),
    "top set": TopSet([0, 1]),
    "group totals": GroupTotals([[0, 1], [4, 5]], [0.54, 0.13]),
    "rows": Linear([[1.0, -1.0, 0.0, 0.0, 0.0, 0.0, 1.0]], 0.0, 0.2),
    "small variation": Smooth(total_variation=0.3),
    "divergence ball": Near(CENTRE, 0.02, "kl"),
    "group norm": Custom(lambda f: [cp.norm(f[:3]) + cp.norm(f[3:]) <= 0.7]),
    "ball": Near(CENTRE, 0.1, 2),
}

ALL = {**SIMPLEX, **FURTHER, "one mode": Unimodal(0)}


class Case(NamedTuple):
    """A problem by the names of its parts."""

    loss: str
    constraints: tuple[str, ...]


def on_the_simplex() -> list[Case]:
    """Return the sample of 560."""
    sets = [chosen for count in range(3) for chosen in itertools.combinations(FURTHER, count)]
    return [Case(loss, (*SIMPLEX, *chosen)) for loss in LOSSES for chosen in sets]


def of_all() -> list[Case]:
    """Return the sample of 3,780."""
    sets = [chosen for count in range(4) for chosen in itertools.combinations(ALL, count)]
    return [Case(loss, chosen) for loss in LOSSES for chosen in sets]


def estimate_of(seed: int) -> FrequencyEstimate:
    """Return a raw estimate of the centre, whose reports support one value each."""
    generator = np.random.default_rng(seed)
    oracle = oracles.GRR(epsilon=2.0, d=7)
    reports = oracle.perturb(generator.choice(7, 2_000, p=CENTRE), rng=generator)
    return oracle.estimate(np.bincount(reports, minlength=7), 2_000)


def outcome_of(case: Case, estimate: FrequencyEstimate) -> str:
    """Return "certified", why a problem has no answer, or why its answer is not proved."""
    problem = Problem(LOSSES[case.loss], [ALL[name] for name in case.constraints])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", errors.LdpoptWarning)
        try:
            solution = problem.solve(estimate)
        except errors.LdpoptError as error:
            return f"no answer: {str(error)[:70]}"
    certificate = solution.certificate
    if certificate.is_optimal(TOLERANCE, relative=True):
        return "certified"
    if np.isinf(certificate.gap):
        return f"no bound: {certificate.reason[:70]}"
    return f"{solution.status}, relative gap {float(certificate.gap / certificate.scale):.1e}"


def test_the_samples_are_as_large_as_stated():
    assert len(on_the_simplex()) == 560
    assert len(of_all()) == 3_780
    for name, constraint in ALL.items():
        assert constraint.violation(CENTRE) <= 1e-12, name


@pytest.mark.parametrize("case", on_the_simplex()[::47], ids=str)
def test_every_answer_on_the_simplex_is_certified(case):
    assert outcome_of(case, estimate_of(0)) == "certified"


@pytest.mark.parametrize("case", of_all()[5::397], ids=str)
def test_every_answer_with_a_bound_is_certified(case):
    outcome = outcome_of(case, estimate_of(1))
    # Nothing is claimed of a set without bounds but that the certificate says so.
    assert outcome == "certified" or outcome.startswith(("no answer", "no bound"))


IMPLIED = {
    # The smallest value of a top set is an auxiliary variable, of which nothing states a bound.
    "values bound auxiliary variables": Case("weighted squares", ("top set", "rows")),
    # Neither the row nor any difference alone bounds a value from above.
    "rows bound values together": Case("multinomial", ("rows", "small variation")),
}


@pytest.mark.parametrize("name", IMPLIED)
def test_bounds_that_nobody_states_are_found(name):
    assert outcome_of(IMPLIED[name], estimate_of(1)) == "certified"


@pytest.mark.parametrize("planted", [False, True])
def test_bounds_of_rows_are_not_below_the_largest_values(planted, monkeypatch):
    # Together these rows mean f₀ <= 1 and f₁ <= 1/3; nothing bounds f₂ from above.
    system = LinearInequalities(
        sparse.csr_array([[1.0, -1.0, 0.0], [1.0, 3.0, 0.0]]), np.full(2, -np.inf), np.array([1, 1])
    )
    limits = Box(np.zeros(3), np.full(3, np.inf))
    generator = np.random.default_rng(0)
    solve = ConicProgram.solve

    def wrong(program, tolerance):
        right = solve(program, tolerance)
        return right._replace(z=right.z + 0.1 * generator.normal(size=len(right.z)))

    if planted:
        monkeypatch.setattr(ConicProgram, "solve", wrong)
    for _ in range(20 if planted else 1):
        upper = bounded_rows(system, limits, np.full(3, 0.2)).upper
        assert upper[0] >= 1.0
        assert upper[1] >= 1 / 3
        assert upper[2] == np.inf
    assert planted or upper[0] == pytest.approx(1.0, rel=1e-6)


def main(seed: int) -> None:
    """Print for each sample how many are certified, and what the others are."""
    estimate = estimate_of(seed)
    for name, sample in (("on the simplex", on_the_simplex()), ("of all", of_all())):
        outcomes = {case: outcome_of(case, estimate) for case in sample}
        solved = {c: o for c, o in outcomes.items() if not o.startswith("no answer")}
        proved = sum(outcome == "certified" for outcome in solved.values())
        print(f"{name}: {len(sample)} problems, {len(solved)} answers, {proved} certified")
        for outcome, count in Counter(outcomes.values()).most_common():
            example = next(case for case in sample if outcomes[case] == outcome)
            print(f"  {count:5} {outcome}, such as {example.loss} under {example.constraints}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)

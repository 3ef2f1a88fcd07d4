"""Hostile inputs: no certificate accepts a point that is further from the minimum than it says.

Every trial is a point whose rise above the minimum is known from exact arithmetic. A certificate
is sound if its gap is at least the rise: then no tolerance whatever accepts a point wrongly.
Multipliers are the certificate's own, or wrong ones of every kind in their place.

``python -m tests.test_certificate_soundness`` runs more trials than a test can, and prints how many
of each kind: some minutes.
"""

import itertools
import math
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from fractions import Fraction
from functools import cache, partial
from typing import NamedTuple
from unittest import mock

import cvxpy as cp
import numpy as np
import pytest

from ldpopt import FrequencyEstimate, Problem, certify, closed_form, losses, oracles
from ldpopt.constraints import (
    AtMost,
    Bounds,
    Custom,
    Fixed,
    Linear,
    Monotone,
    Near,
    NonNegative,
    SumsTo,
)
from ldpopt.errors import InvalidInputError
from ldpopt.losses.base import ROUNDINGS
from ldpopt.solve.acceptance.quick_gap import quick_gap
from ldpopt.solve.acceptance.slope_gap import slope_gap
from ldpopt.solve.certificate.bounds import competitors, dual, intervals, kernels, shared_kinks
from ldpopt.solve.certificate.bounds.dual import EPS, _steps
from ldpopt.solve.certificate.bounds.intervals import Box
from ldpopt.solve.certificate.box import box, box_kernels, formulas, long_box, total_prices
from ldpopt.solve.certificate.certificate import scale_of
from ldpopt.solve.certificate.cones import compiled_problem, cone_gap
from ldpopt.solve.certificate.cones.conic_program import ConicProgram, Multipliers
from ldpopt.solve.certificate.polyhedra import polyhedron, row_programs
from ldpopt.solve.certificate.prices import ball_gap, pooled_gap
from ldpopt.solve.formulation import Formulation
from ldpopt.solve.status import ACCURACIES
from tests import exact_minima

# Estimates here have any size, some that of percent.
pytestmark = pytest.mark.filterwarnings("ignore:these frequencies sum to")

UNCHARGED = 1e-13
"""Part of the scale that rounding may take from a quick bound: 1e-5 of what a status promises."""

TOLERANCE = 1e-9
"""That of ``is_optimal`` where none is stated."""


class Case(NamedTuple):
    """A problem, an estimate, some points, and how far each is above the minimum."""

    problem: Problem
    estimate: FrequencyEstimate
    points: np.ndarray
    rises: list


class Counts(NamedTuple):
    """How many points were tried, and accepted by absolute or relative tolerance."""

    trials: int
    accepted: int


SIMPLEX = [NonNegative(), SumsTo(1.0)]

BALL = Custom(lambda f: [cp.norm(f) <= 2.0])
"""A ball that holds all of the simplex: its multiplier is 0."""

LIKELIHOODS = ("divergence", "gaussian", "binomial", "multinomial")

KINDS = ("free", "fixed", "thin", "capped")
"""How value 0 is held away from its estimate, if at all."""

EVIL = (np.nan, np.inf, -np.inf, 1e308, -1e308, 1e154, -1e154, 5e-324, 0.0, -0.0)


def quadratic_set(generator, kind):
    """Return weights, target, bounds, total: a hostile least-squares problem on a box."""
    d = int(generator.integers(2, 7))
    weights = np.ones(d)
    if generator.random() < 0.7:
        weights = 10 ** generator.uniform(0, 14, d)
    size = 10 ** generator.uniform(0, 18)
    target = generator.normal(size=d) * np.where(generator.random(d) < 0.6, size, 1.0)
    if generator.random() < 0.2:
        target = size + generator.random(d)
    inside = generator.dirichlet(np.full(d, generator.choice([0.3, 1.0, 5.0])))
    lower = np.zeros(d)
    upper = np.ones(d)
    if kind == "fixed":
        lower[0] = upper[0] = inside[0]
    if kind == "thin":
        width = 10 ** generator.uniform(-12, 0)
        lower = inside * (1 - width)
        upper = inside * (1 + width)
    if kind == "capped":
        upper[0] = inside[0]
    return weights, target, lower, upper, inside.sum()


def moved(generator, minimiser, lower, upper, count):
    """Return points of the set near and far from its minimiser, and some just outside."""
    d = len(minimiser)
    points = np.tile(minimiser, (count, 1))
    trial = np.arange(count)
    gains, gives = generator.integers(d, size=(2, count))
    slack = np.minimum(upper[gains] - points[trial, gains], points[trial, gives] - lower[gives])
    step = np.clip(10 ** generator.uniform(-12, 0, count), 0.0, np.maximum(slack, 0.0))
    np.add.at(points, (trial, gains), step)
    np.subtract.at(points, (trial, gives), step)
    outside = generator.random(count) < 0.1
    points[outside] += generator.normal(size=(outside.sum(), d)) * TOLERANCE / 8
    points[0] = minimiser
    return points


def quadratic(generator, kind, constraints, count) -> Iterator[Case]:
    """Yield least-squares problems on boxes for ever, in the words of ``constraints``."""
    while True:
        weights, target, lower, upper, total = quadratic_set(generator, kind)
        reference = exact_minima.Quadratic.of(weights, target, lower, upper, total)
        if reference is None:  # the thin set misses its total by rounding
            continue
        minimiser = exact_minima.as_doubles(reference.minimiser)
        points = moved(generator, minimiser, lower, upper, count)
        loss = losses.WeightedLeastSquares(weights)
        if np.all(weights == 1):
            loss = losses.LeastSquares()
        estimate = FrequencyEstimate(np.tile(target, (count, 1)))
        problem = Problem(loss, constraints(generator, lower, upper, total))
        yield Case(problem, estimate, points, reference.rises(points))


def as_box(generator, lower, upper, total):
    return [Bounds(lower, upper), SumsTo(total)]


def as_rows(generator, lower, upper, total):
    """The same set with rows: bounds twice, and rows that are nearly sums of others."""
    d = len(lower)
    rows = np.vstack([np.eye(d), np.eye(d), np.ones((1, d))])
    # In exact arithmetic these rows say nothing more than the bounds and the total.
    nearly = np.eye(d)[:1] * (1 + 1e-13)
    ends = (nearly[0, 0] * lower[:1] - 1e-12, nearly[0, 0] * upper[:1] + 1e-12)
    first = np.concatenate([lower, lower, [total]])
    last = np.concatenate([upper, upper, [total]])
    return [Linear(rows, first, last), Linear(nearly, *ends), SumsTo(total)]


def as_cones(generator, lower, upper, total):
    """The same set with the held values stated by cvxpy."""
    held = np.flatnonzero(lower == upper)
    stated = [BALL]
    if len(held):
        stated.append(Custom(lambda f: [f[held] == lower[held]]))
    free = [Bounds(np.where(lower == upper, 0.0, lower), np.where(lower == upper, 1.0, upper))]
    return [*free, SumsTo(total), *stated]


def absolute(generator, kind, constraints, count) -> Iterator[Case]:
    """Yield absolute deviations on boxes for ever: a loss with a kink in every value."""
    while True:
        _, target, lower, upper, total = quadratic_set(generator, kind)
        exact = exact_minima.absolute(target, lower, upper, total)
        if exact is None:
            continue
        minimum, minimiser = exact
        estimate = FrequencyEstimate(np.tile(target, (count, 1)))
        stated = constraints(generator, lower, upper, total)
        problem = Problem(losses.LeastAbsolute(), stated)
        points = moved(generator, exact_minima.as_doubles(minimiser), lower, upper, count)
        rises = [size - minimum for size in exact_minima.sizes(target, points)]
        yield Case(problem, estimate, points, rises)


def exact_loss(point, target, price, term):
    """Return ½ ‖f - f̃‖² + price · term in fractions, a norm to 50 digits."""
    x = exact_minima.fractions(point)
    y = exact_minima.fractions(target)
    squares = sum((a - b) ** 2 for a, b in zip(x, y, strict=True)) / 2
    if term == "variation":
        shape = sum(abs(b - a) for a, b in itertools.pairwise(x))
    elif term == "largest":
        shape = max(abs(a - b) for a, b in zip(x, y, strict=True))
    else:
        scale = 10**100
        norms = [sum(a * a for a in x[:2]), sum(a * a for a in x[2:])]
        shape = sum(Fraction(math.isqrt(int(norm * scale)), 10**50) for norm in norms)
    return squares + Fraction(price) * shape


def priced(generator, kind, term, count) -> Iterator[Case]:
    """Yield least squares with a price on what values share, for ever.

    Rises are those above the best point at hand: the minimum may be lower still.
    """
    while True:
        _, target, lower, upper, total = quadratic_set(generator, kind)
        d = len(target)
        price = float(10 ** generator.uniform(-6, 3))
        shapes = {
            "variation": losses.TotalVariation(),
            "largest": losses.MaxAbsolute(),
            "groups": losses.GroupNorm([[0, 1], list(range(2, d))] if d > 2 else [[0, 1]]),
        }
        problem = Problem(
            losses.LeastSquares() + price * shapes[term], [Bounds(lower, upper), SumsTo(total)]
        )
        estimate = FrequencyEstimate(target)
        minimiser = None
        if problem.plan(estimate).path == "closed-form":
            # An estimate whose last bit is worth more than the total is refused.
            with suppress(InvalidInputError):
                minimiser = problem.minimise(estimate)
        if minimiser is None:
            minimiser = lower + generator.dirichlet(np.ones(d)) * (total - lower.sum())
            minimiser = np.clip(minimiser, lower, upper)
        points = moved(generator, np.asarray(minimiser), lower, upper, count)
        values = [exact_loss(point, target, price, term) for point in points]
        # A point beside the total may be better than every point of the set.
        within = [
            value
            for value, point in zip(values, points, strict=True)
            if sum(exact_minima.fractions(point)) == Fraction(float(total))
            and np.all((lower <= point) & (point <= upper))
        ]
        lowest = min(within, default=max(values)) + Fraction(1, 10**40)
        stack = FrequencyEstimate(np.tile(target, (count, 1)))
        yield Case(problem, stack, points, [value - lowest for value in values])


def sparse(generator, count) -> Iterator[Case]:
    """Yield least-squares problems with few non-zero values: the best of all supports counts."""
    while True:
        _, target, *_ = quadratic_set(generator, "free")
        d = len(target)
        largest_size = int(generator.integers(1, d))
        best = None
        for support in itertools.combinations(range(d), largest_size):
            ends = np.zeros(d)
            ends[list(support)] = 1.0
            reference = exact_minima.Quadratic.of(np.ones(d), target, np.zeros(d), ends, 1.0)
            if best is None or reference.rise(np.zeros(d)) > best.rise(np.zeros(d)):
                best = reference
        minimiser = exact_minima.as_doubles(best.minimiser)
        points = np.tile(minimiser, (count, 1))
        for point in points[1:]:
            chosen = generator.choice(d, largest_size, replace=False)
            point[:] = 0.0
            point[chosen] = generator.dirichlet(np.full(largest_size, 0.5))
        problem = Problem(losses.LeastSquares(), [NonNegative(), SumsTo(1.0), AtMost(largest_size)])
        estimate = FrequencyEstimate(np.tile(target, (count, 1)))
        yield Case(problem, estimate, points, best.rises(points))


def likelihood(generator, kind, count, further=()) -> Iterator[Case]:
    """Yield likelihoods and divergences on the simplex, ε up to 20.

    ``further`` constraints cut nothing off.
    """
    while True:
        d = int(generator.integers(2, 6))
        epsilon = float(generator.choice([0.1, 1.0, 4.0, 10.0, 20.0]))
        n = int(10 ** generator.uniform(1, 6))
        family = oracles.GRR if kind == "multinomial" else oracles.OUE
        oracle = family(epsilon=epsilon, d=d)
        population = generator.multinomial(n, generator.dirichlet(np.full(d, 0.4)))
        raw = oracle.estimate(oracle.simulate_counts(population, generator), n)
        if kind == "divergence":
            sizes = 10 ** generator.uniform(-6, 18, d)
            raw = FrequencyEstimate(sizes * np.sign(generator.random(d) - 0.2))
            if not (raw.frequencies > 0).any():
                continue
            loss = losses.KullbackLeibler()
            model = exact_minima.divergence(raw.frequencies)
        elif kind == "gaussian":
            loss = losses.GaussianMLE()
            model = exact_minima.gaussian(raw.frequencies, raw.noise.a, raw.noise.b)
        else:
            is_multinomial = kind == "multinomial"
            loss = losses.MultinomialMLE() if is_multinomial else losses.BinomialMLE()
            shares = loss.shares(raw)
            if not np.all((shares > 0) & (shares < 1)):
                continue
            of_shares = exact_minima.multinomial if is_multinomial else exact_minima.binomial
            model = of_shares(shares, *loss.constants(raw))
        minimum = exact_minima.minimum_on_simplex(model, d, 1.0)
        minimiser = Problem(loss, SIMPLEX).solve(raw).frequencies
        problem = Problem(loss, [*SIMPLEX, *further])
        points = moved(generator, minimiser, np.zeros(d), np.ones(d), count)
        frequencies = np.tile(raw.frequencies, (count, 1))
        stack = FrequencyEstimate(frequencies, n=raw.n, oracle=raw.oracle)
        rises = [exact_minima.rise(model, minimum, point) for point in points]
        yield Case(problem, stack, points, rises)


def pooled(values):
    """Return fractions pooled to fall, block by block (Ayer et al. 1955)."""
    blocks = []
    for value in values:
        total = value
        count = 1
        while blocks and blocks[-1][0] * count < total * blocks[-1][1]:
            before = blocks.pop()
            total += before[0]
            count += before[1]
        blocks.append((total, count))
    return [total / count for total, count in blocks for _ in range(count)]


def ordered(generator, count) -> Iterator[Case]:
    """Yield least squares on the simplex in order, for ever: pooled, then projected."""
    while True:
        _, target, *_ = quadratic_set(generator, "free")
        d = len(target)
        levels = pooled(exact_minima.fractions(target))
        exact = exact_minima.Quadratic.of(np.ones(d), levels, np.zeros(d), np.ones(d), 1.0)
        points = moved(
            generator, exact_minima.as_doubles(exact.minimiser), np.zeros(d), np.ones(d), count
        )
        lowest = exact_loss(exact.minimiser, target, 0.0, "variation")
        rises = [exact_loss(point, target, 0.0, "variation") - lowest for point in points]
        estimate = FrequencyEstimate(np.tile(target, (count, 1)))
        problem = Problem(losses.LeastSquares(), [*SIMPLEX, Monotone(np.arange(d))])
        yield Case(problem, estimate, points, rises)


def in_ball(generator, norm, count) -> Iterator[Case]:
    """Yield least squares on the simplex in a ball, for ever.

    Rises are those above a point that is in the set for sure, and as near to the minimum as that
    allows.
    """
    while True:
        d = int(generator.integers(3, 7))
        # Numbers of few bits, so that their sum is exactly 1.
        shares = 1 + generator.multinomial(2**20 - d, generator.dirichlet(np.ones(d)))
        centre = shares / 2**20
        radius = float(10 ** generator.uniform(-4, -0.3))
        target = centre + generator.normal(size=d) * 10 ** generator.uniform(-3, 6)
        problem = Problem(losses.LeastSquares(), [*SIMPLEX, Near(centre, radius, norm)])
        with suppress(InvalidInputError):
            minimiser = problem.solve(target).frequencies
            inside = strictly_inside(minimiser, centre, radius, norm)
            points = moved(generator, minimiser, np.zeros(d), np.ones(d), count)
            lowest = exact_loss(inside, target, 0.0, "variation")
            rises = [exact_loss(point, target, 0.0, "variation") - lowest for point in points]
            estimate = FrequencyEstimate(np.tile(target, (count, 1)))
            yield Case(problem, estimate, points, rises)


def strictly_inside(minimiser, centre, radius, norm):
    """Return fractions near a minimiser that sum to 1 and are in a ball around the centre."""
    point = exact_minima.fractions(minimiser)
    middle = exact_minima.fractions(centre)
    point[int(np.argmax(minimiser))] += 1 - sum(point)
    share = Fraction(1, 2**53)
    while True:
        away = [(1 - share) * (x - c) for x, c in zip(point, middle, strict=True)]
        size = sum(abs(x) ** norm for x in away)
        if size <= Fraction(radius) ** norm:
            return [c + x for c, x in zip(middle, away, strict=True)]
        share *= 2


def wrong_multipliers(generator, shape):
    """Return numbers that no solver should return, of one kind or mixed."""
    result = generator.normal(size=shape) * 10 ** generator.uniform(-18, 18, shape)
    kind = generator.integers(4)
    if kind == 1:
        result = generator.choice(EVIL, size=shape)
    if kind == 2:
        result = np.where(generator.random(shape) < 0.8, result, generator.choice(EVIL, size=shape))
    if kind == 3:
        result = np.full(shape, generator.choice(EVIL))
    return result


def on_boxes(generator):
    """Plant multipliers of the total."""

    def mean(sums):
        return wrong_multipliers(generator, sums.mass.shape)

    def multiplier(slope, *_):
        return wrong_multipliers(generator, slope.shape[:-1])

    def of_kinks(loss, *_):
        return wrong_multipliers(generator, loss.f.shape[:-1])

    stack = ExitStack()
    stack.enter_context(mock.patch.object(long_box, "mean_multiplier", mean))
    of_box = mock.patch.multiple(
        box,
        mean_multiplier=mean,
        filling_multiplier=multiplier,
        kinked_multiplier=of_kinks,
    )
    stack.enter_context(of_box)
    return stack


def on_shared_kinks(generator):
    """Plant multipliers of the total, and slopes that prices want of kinks."""
    slopes = shared_kinks.SharedKinks.slopes

    def of_anything(kinks, wanted):
        return slopes(kinks, wrong_multipliers(generator, wanted.shape))

    def multiplier(loss, *_):
        return wrong_multipliers(generator, loss.f.shape[:-1])

    stack = ExitStack()
    stack.enter_context(mock.patch.object(shared_kinks.SharedKinks, "slopes", of_anything))
    stack.enter_context(mock.patch.object(box, "settled_multiplier", multiplier))
    return stack


def without_programs():
    """Let what is known of shared kinks be all that there is."""
    return mock.patch.object(Formulation, "is_separate", return_value=True)


def on_rows(generator):
    """Plant multipliers of rows."""

    def candidates(tangent, rows, bounds, **_):
        for _ in range(2):
            yield wrong_multipliers(generator, len(rows.system.lower))

    return mock.patch.object(polyhedron, "_candidates", candidates)


def on_prices(generator):
    """Plant slopes in the place of those from which prices of orders are computed."""
    prices_of = pooled_gap._prices

    def prices(structure, point, enough):
        slope = wrong_multipliers(generator, point.slope.shape)
        return prices_of(structure, point._replace(slope=slope), enough)

    return mock.patch.object(pooled_gap, "_prices", prices)


def on_balls(generator):
    """Plant multipliers of a ball, and vectors in the place of its normals."""

    def multiplier(case, *_, **__):
        shape = case.tangent.f.shape
        # Normals are finite, and multipliers not negative: both are made so where they are found.
        vector = dual.usable(wrong_multipliers(generator, shape), 1e50)
        return vector, np.abs(dual.usable(wrong_multipliers(generator, shape[:-1]), 1e50))

    return mock.patch.object(ball_gap, "_multiplier", multiplier)


def on_cones(generator):
    """Plant points and multipliers of cone programs."""

    def solve(program, tolerance, unit=1.0):
        x = wrong_multipliers(generator, len(program.linear))
        return Multipliers(x, wrong_multipliers(generator, len(program.right)))

    return mock.patch.object(ConicProgram, "solve", solve)


def only_cones():
    """Let the linear constraints alone prove nothing, so that cones are needed."""

    def at_hand(tangent, rows, bounds):
        yield np.zeros(len(rows.system.lower))

    return mock.patch.object(polyhedron, "_at_hand", at_hand)


def as_if_long():
    """Let vectors of any length be for the compiled kernels, and their gaps of any size count.

    The sweeps are compiled once, with the kind of the loss as an argument, and not for each kind.
    """
    stack = ExitStack()
    stack.enter_context(mock.patch.object(closed_form.rows, "_LONG", 0))
    stack.enter_context(mock.patch.object(long_box, "is_enough", lambda gap, *_: np.isfinite(gap)))
    bodies = {
        "_SLOPES": box_kernels._write_slopes,
        "_STAKES": box_kernels._add_stakes,
        "_MOMENTS": box_kernels._add_moments,
        "_RISES": box_kernels._add_rises,
    }
    for name, body in bodies.items():
        of_any_kind = {kind: partial(body, kind) for kind in box_kernels._KINDS}
        stack.enter_context(mock.patch.object(box_kernels, name, of_any_kind))
    return stack


def check_case(case) -> Counts:
    """Compare the gap of every point with its rise, and count what a reader would accept."""
    proof = certify(case.problem, case.estimate, case.points)
    # The comparison is false for NaN too.
    assert np.all(proof.gap >= 0)
    assert np.isfinite(proof.gap).all() or proof.reason
    for gap, rise, point in zip(proof.gap.tolist(), case.rises, case.points, strict=True):
        if math.isfinite(gap):
            assert Fraction(gap) >= rise, (case.problem, case.estimate, point, float(rise))
    inside = proof.violation <= TOLERANCE
    absolute = inside & (proof.gap <= TOLERANCE)
    assert proof.is_optimal(TOLERANCE) == absolute.all()
    relative = (proof.gap <= TOLERANCE * proof.scale) & (proof.violation <= TOLERANCE * proof.size)
    return Counts(len(case.points), int((absolute | relative).sum()))


SAME = {
    "compiled, free": "box, free",
    "compiled, capped": "box, capped",
    "compiled, kinks": "kinks on boxes, capped",
    **{f"compiled, {loss}": f"{loss} on the simplex" for loss in LIKELIHOODS},
    "orders, compiled": "orders, free",
}
"""Families for the compiled kernels, and those whose problems they are."""


def families(generator) -> dict:
    """Return every family of cases but those of ``SAME``, by name: endless."""
    result = {}
    for kind in KINDS:
        result[f"box, {kind}"] = quadratic(generator, kind, as_box, 50)
        result[f"rows, {kind}"] = quadratic(generator, kind, as_rows, 4)
        result[f"cones, {kind}"] = quadratic(generator, kind, as_cones, 3)
        result[f"kinks on boxes, {kind}"] = absolute(generator, kind, as_box, 50)
    result["rows, kinks"] = absolute(generator, "capped", as_rows, 4)
    result["cones, kinks"] = absolute(generator, "free", as_cones, 3)
    for loss in LIKELIHOODS:
        result[f"{loss} on the simplex"] = likelihood(generator, loss, 20)
        result[f"cones, {loss}"] = likelihood(generator, loss, 3, [BALL])
    for term in ("variation", "largest", "groups"):
        result[f"priced, {term}"] = priced(generator, "free", term, 20)
        result[f"priced, {term}, capped"] = priced(generator, "capped", term, 20)
    result["few values"] = sparse(generator, 10)
    result["orders, free"] = ordered(generator, 20)
    for norm in (1, 2):
        result[f"balls, {norm}"] = in_ball(generator, norm, 10)
    return result


NAMES = (*families(np.random.default_rng(0)), *SAME)

PLANTS = {
    "box": on_boxes,
    "rows": on_rows,
    "cones": on_cones,
    "priced": on_shared_kinks,
    "orders": on_prices,
    "balls": on_balls,
}


def plant_of(name, generator):
    """Return how wrong multipliers get into a family."""
    return PLANTS.get(name.partition(",")[0], on_boxes)(generator)


class Family(NamedTuple):
    """Cases that tests have taken, and those that follow them."""

    cases: list[Case]
    further: Iterator[Case]


@cache
def family_of(name, seed) -> Family:
    """Return a family, without any case at first."""
    return Family([], families(np.random.default_rng(seed))[name])


def cases_of(name, seed) -> Iterator[Case]:
    """Yield the cases of a family for ever, the same ones each time.

    Their exact minima take as long as certificates, so they are computed once for multipliers of
    both kinds and for all code. Problems are new each time: they remember what is known of them.
    """
    family = family_of(SAME.get(name, name), seed)
    for at in itertools.count():
        if at == len(family.cases):
            family.cases.append(next(family.further))
        case = family.cases[at]
        yield case._replace(problem=Problem(case.problem.loss, case.problem.constraints))


def check_family(name, seed, trials, planted) -> Counts:
    """Check so many points of a family, and count what a reader would accept."""
    generator = np.random.default_rng(seed)
    cases = cases_of(name, seed)
    counts = Counts(0, 0)
    while counts.trials < trials:
        case = next(cases)
        with ExitStack() as stack:
            if name.startswith("cones"):
                stack.enter_context(only_cones())
            if "compiled" in name:
                stack.enter_context(as_if_long())
            if name.startswith("priced"):
                stack.enter_context(without_programs())
            if planted:
                stack.enter_context(plant_of(name, generator))
            one = check_case(case)
        counts = Counts(counts.trials + one.trials, counts.accepted + one.accepted)
    return counts


def trials_of(name):
    """Return how many points a test can afford."""
    few = {"rows": 16, "cones": 4, "orders": 60, "balls": 30}
    many = {"box": 5_600, "kinks on boxes": 5_600}
    of_boxes = dict.fromkeys(("compiled, free", "compiled, capped", "compiled, kinks"), 500)
    counts = {**few, **many, **of_boxes}
    return counts.get(name, counts.get(name.partition(",")[0], 260))


def test_a_hundred_thousand_points_are_tried():
    assert 2 * sum(map(trials_of, NAMES)) >= 100_000


@pytest.mark.parametrize("name", NAMES)
def test_no_gap_is_below_the_rise(name):
    assert check_family(name, 1, trials_of(name), planted=False).accepted


@pytest.mark.parametrize("name", NAMES)
def test_no_wrong_multiplier_makes_a_gap_too_small(name):
    check_family(name, 1, trials_of(name), planted=True)


def on_a_plane(generator, count) -> Iterator[Case]:
    """Yield least-squares problems with a total alone, whose minimum is one division per value."""
    while True:
        weights, target, *_ = quadratic_set(generator, "free")
        d = len(target)
        exact_weights = exact_minima.fractions(weights)
        exact_target = exact_minima.fractions(target)
        price = (sum(exact_target) - 1) / sum(1 / weight for weight in exact_weights)
        minimiser = [t - price / w for t, w in zip(exact_target, exact_weights, strict=True)]
        points = np.tile(exact_minima.as_doubles(minimiser), (count, 1))
        for point in points[1:]:
            gains, gives = generator.choice(d, 2, replace=False)
            step = 10 ** generator.uniform(-16, 0) * np.abs(point).max()
            point[gains] += step
            point[gives] -= step

        def value(f, weights=exact_weights, target=exact_target):
            return sum(w * (s - t) ** 2 / 2 for w, s, t in zip(weights, f, target, strict=True))

        lowest = value(minimiser)
        rises = [value(exact_minima.fractions(point)) - lowest for point in points]
        estimate = FrequencyEstimate(np.tile(target, (count, 1)))
        problem = Problem(losses.WeightedLeastSquares(weights), [SumsTo(1.0)])
        yield Case(problem, estimate, points, rises)


def quick_bounds(case) -> Iterator:
    """Yield the bounds at which acceptance looks first, in balls that cut nothing off as well."""
    problem, estimate, points, _ = case
    yield quick_gap(problem, estimate, points)
    yield slope_gap(problem, estimate, points)
    if problem.region(estimate.d).lower_count:
        for norm in (1, 2, "kl"):
            # No vector of the simplex is so far from the uniform one.
            ball = Near(np.full(estimate.d, 1 / estimate.d), 2.5, norm)
            around = Problem(problem.loss, [*problem.constraints, ball])
            yield slope_gap(around, estimate, points)


@pytest.mark.parametrize("name", ["plane", *(f"{loss} on the simplex" for loss in LIKELIHOODS),
                                  *(f"box, {kind}" for kind in KINDS)])  # fmt: skip
def test_what_quick_bounds_leave_uncharged_is_far_below_what_a_status_promises(name):
    """They charge rounding for the slack of balls alone: of other terms it is measured here."""
    generator = np.random.default_rng(3)
    cases = on_a_plane(generator, 20) if name == "plane" else families(generator)[name]
    seen = 0
    for case in itertools.islice(cases, 12):
        inside = case.problem.violation(case.points) <= ACCURACIES["high"].violation
        for bound in filter(None, quick_bounds(case)):
            scale = scale_of(case.problem, case.estimate, case.points, bound.terms)
            for point in np.flatnonzero(inside & np.isfinite(bound.gap)):
                missing = Fraction(case.rises[point]) - Fraction(float(bound.gap[point]))
                assert missing <= UNCHARGED * scale[point]
                seen += 1
    assert seen > 100


def exact_rise(residual, f, lower, upper, modulus):
    """Return the largest r (f - s) - ½ m (f - s)² in fractions."""
    r = Fraction(residual)
    m = Fraction(modulus)
    # As stated: a point outside the bounds gets the larger range up to them.
    lowest = Fraction(min(f, upper)) - Fraction(upper) if f < upper else Fraction(0)
    largest = Fraction(f) - Fraction(lower) if f > lower else Fraction(0)
    places = [lowest, largest]
    if m:
        places.append(min(max(r / m, lowest), largest))
    return max(r * x - m * x * x / 2 for x in places)


def by_numpy(*arrays):
    return float(dual.separable_rise(*arrays))


def by_kernel(residual, error, f, lower, upper, modulus):
    """Return the same by the compiled kernel; rounding and price are tried apart."""
    nothing = np.zeros(1)
    return kernels.rise(0.0, residual, nothing, modulus, f, nothing, error, lower, upper)


def check_rise_of_separate_values(seed, curved, rise):
    """Check that the rise of random values of any size is not below the exact one."""
    generator = np.random.default_rng(seed)
    d = 6
    scales = 10 ** generator.uniform(-18, 6, (5, d))
    f, lower, residual, error, modulus = generator.normal(size=(5, d)) * scales
    error = np.abs(error) * generator.choice([0.0, 1e-16, 1e-9, 1.0])
    upper = lower + np.abs(generator.normal(size=d)) * scales[0]
    modulus = np.abs(modulus)
    if generator.random() < 0.3:
        # As at a right answer: every value at a bound that explains its residual, or free.
        f = np.where(residual > 0, lower, upper)
    if not curved:
        modulus[generator.random(d) < 0.5] = 0.0
        modulus[0] = 0.0
    bound = rise(residual, error, f, lower, upper, modulus)
    for side in (-1, 0, 1):
        moved = [Fraction(r) + side * Fraction(e) for r, e in zip(residual, error, strict=True)]
        values = zip(moved, f, lower, upper, modulus, strict=True)
        exact = sum(exact_rise(*value) for value in values)
        assert Fraction(bound) >= exact, seed


@pytest.mark.parametrize("rise", [by_numpy, by_kernel])
@pytest.mark.parametrize("curved", [True, False])
def test_the_rise_of_separate_values_is_above_the_exact_one(curved, rise):
    # In one test: to start and report one takes longer than the check of one seed.
    for seed in range(200):
        check_rise_of_separate_values(seed, curved, rise)


@pytest.mark.parametrize("rise", [by_numpy, by_kernel])
@pytest.mark.parametrize(("lower", "upper"), [(0.25, 1.0), (-1.0, 0.25), (0.25, 0.25)])
def test_a_value_at_its_end_rises_by_nothing_however_steep(lower, upper, rise):
    # Infinity times 0, which would be NaN and leave the whole vector without a bound.
    towards = 1.0 if lower == 0.25 else -1.0
    steep = np.array([towards * np.inf])
    nothing = np.zeros(1)
    arrays = [np.array([number]) for number in (0.25, lower, upper)]
    assert rise(steep, nothing, *arrays, nothing) == 0.0


def test_the_rise_of_a_formula_is_above_the_exact_one():
    generator = np.random.default_rng(6)
    d = 5
    for _ in range(100):
        f, target = generator.normal(size=(2, d)) * 10 ** generator.uniform(-9, 3, (2, d))
        weights = 10 ** generator.uniform(-6, 6, d)
        # Bounds of each value, and one for all of them.
        lower = f - generator.choice([0.0, 1e-9, 0.5], d)
        upper = float(f.max()) + generator.choice([0.0, 1e-9])
        # Residuals that cancel, and errors beside them that are far larger or nothing.
        price = float(weights[0] * (f[0] - target[0]))
        error = float(generator.choice([0.0, 1e-12, 1.0]))
        formula = box_kernels.Formula(
            box_kernels.WEIGHTED_SQUARES, target, weights, ROUNDINGS, error, (0.0,) * 5
        )
        with as_if_long():
            bound, _ = box_kernels.rise(formula, f, price, Box(lower, np.array([upper])))
        slopes = [
            Fraction(w) * (Fraction(x) - Fraction(y))
            for w, x, y in zip(weights, f, target, strict=True)
        ]
        for side in (-1, 0, 1):
            residuals = [slope - Fraction(price) + side * Fraction(error) for slope in slopes]
            values = zip(residuals, f, lower, weights, strict=True)
            exact = sum(exact_rise(r, x, low, upper, m) for r, x, low, m in values)
            assert Fraction(bound) >= exact


@pytest.mark.parametrize(
    ("kind", "slope_of"),
    [
        (box_kernels.BINOMIAL, lambda s, c, p: s * (p - c) / (p * (1 - p))),
        (box_kernels.MULTINOMIAL, lambda s, c, p: -s * c / p),
    ],
)
@pytest.mark.parametrize(
    ("q", "s", "range_of_f"),
    [(0.27, 0.23, (0.01, 0.9)), (0.01, 0.98, (0.89, 0.99))],
    ids=["usual", "near 1"],
)
def test_the_rise_of_a_likelihood_pays_for_the_rounding_of_its_probabilities(
    kind, slope_of, q, s, range_of_f
):
    generator = np.random.default_rng(7)
    exact_q = Fraction(q)
    exact_s = Fraction(s)
    for _ in range(200):
        f = generator.uniform(*range_of_f, 4)
        # The share of reports is nearly that of the point: digits cancel.
        target = f * (1 + 1e-13 * generator.normal(size=4))
        numbers = (q, s, 4 * EPS, 0.0, 0.0)
        formula = box_kernels.Formula(kind, target, target, ROUNDINGS, 0.0, numbers)
        pairs = zip(f.tolist(), target.tolist(), strict=True)
        slopes = [
            slope_of(exact_s, exact_q + exact_s * Fraction(y), exact_q + exact_s * Fraction(x))
            for x, y in pairs
        ]
        price = float(slopes[0])
        with as_if_long():
            bound, _ = box_kernels.rise(formula, f, price, Box(np.array([0.0]), np.array([1.0])))
        residuals = [slope - Fraction(price) for slope in slopes]
        exact = sum(
            exact_rise(r, x, 0.0, 1.0, 0.0) for r, x in zip(residuals, f.tolist(), strict=True)
        )
        assert Fraction(bound) >= exact


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_no_formula_is_for_a_point_at_an_end_of_the_domain(side, monkeypatch):
    estimate = FrequencyEstimate([0.1, 0.2, 0.3])
    ends = (-np.inf, 1.0) if side > 0 else (-1.0, np.inf)
    monkeypatch.setattr(formulas, "domain_of", lambda *_: ends)
    for largest, is_known in ((0.5, True), (1.0, False)):
        point = formulas.Point(estimate, side * np.array([0.1, 0.25, largest]))
        assert (formulas.formula_of(losses.LeastSquares(), point) is not None) == is_known


def hostile_arrays(generator, d):
    """Return residual, error, f, lower, upper and modulus with whatever doubles there are."""
    sizes = 10 ** generator.uniform(-12, 3, (6, d))
    residual, error, f, lower, upper, modulus = generator.normal(size=(6, d)) * sizes
    upper = np.maximum(lower, upper)
    for array in (residual, error, lower, upper, modulus):
        array[generator.random(d) < 0.1] = generator.choice([0.0, np.inf, np.nan, 5e-324, 1e200])
    # The kernel takes such a curvature for 0, which lowers the bound of the loss.
    modulus[modulus == 5e-324] = 0.0
    lower[generator.random(d) < 0.2] = -np.inf
    return residual, np.abs(error), f, lower, upper, np.abs(modulus)


def test_the_kernel_is_no_looser_than_numpy_on_every_kind_of_number():
    generator = np.random.default_rng(3)
    with np.errstate(all="ignore"):
        for _ in range(60):
            # More values than a block has, so that sums of blocks and the rest are both taken.
            arrays = hostile_arrays(generator, int(generator.choice([1, 3, 300])))
            single = [[array[v : v + 1] for array in arrays] for v in range(len(arrays[0]))]
            of_values = [by_kernel(*one) for one in single]
            whole = by_kernel(*arrays)
            assert whole == pytest.approx(sum(of_values), rel=1e-12)
            for one, of_kernel in zip(single, of_values, strict=True):
                assert 0 <= of_kernel <= by_numpy(*one) * (1 + 1e-12) + 1e-150
                residual, _, f, lower, upper, _ = one
                if np.isnan(residual) and (lower < f or f < upper):
                    assert of_kernel == np.inf


def test_the_kernels_sum_of_values_is_within_its_error():
    generator = np.random.default_rng(4)
    one = np.zeros(1)
    for _ in range(60):
        d = int(generator.choice([1, 255, 257, 2_000]))
        f = generator.normal(size=d) * 10 ** generator.uniform(-10, 10, d)
        # Most of it cancels: plain addition would lose all digits.
        f[: d // 2] = -f[d - d // 2 :] * (1 + generator.normal(size=d // 2) * 1e-14)
        sums = kernels.sums(f, f, one, one)
        exact = sum(map(Fraction, f))
        assert abs(Fraction(sums.size) - exact) <= Fraction(sums.error)
        assert sums.error <= 1e-15 * abs(sums.size) + 1e-25 * d * np.abs(f).max()


def test_the_kernels_sums_are_those_of_numpy():
    generator = np.random.default_rng(5)
    slope = generator.normal(size=600)
    f = generator.normal(size=600)
    lower = f - generator.choice([0.0, 1.0, -0.5], 600)
    upper = f + generator.choice([0.0, 2.0], 600)
    sums = kernels.sums(slope, f, lower, upper)
    mass, moment, *_ = total_prices._moments(slope, f, intervals.Box(lower, upper))
    assert sums.terms == pytest.approx(np.abs(slope * f).sum(), rel=1e-12)
    assert (sums.mass, sums.moment) == pytest.approx((mass, moment), rel=1e-12)
    lower[::2] = -np.inf
    upper[::4] = np.inf
    free = kernels.sums(slope, f, lower, upper)
    assert (free.free, free.free_moment) == pytest.approx((150, slope[::4].sum()), rel=1e-12)
    *_, count, moment = total_prices._moments(slope, f, intervals.Box(lower, upper))
    assert (free.free, free.free_moment) == pytest.approx((count, moment), rel=1e-12)
    everywhere = kernels.sums(slope, f, np.full(1, -np.inf), np.full(1, np.inf))
    assert (everywhere.free, everywhere.free_moment) == pytest.approx((600, slope.sum()))


def test_the_rise_of_curved_values_is_that_of_others_but_for_rounding():
    generator = np.random.default_rng(0)
    f, lower, residual = generator.normal(size=(3, 50))
    upper = lower + generator.random(50)
    modulus = generator.random(50) + 0.1
    error = np.full(50, 1e-13)
    short = dual.separable_rise(residual, error, f, lower, upper, modulus)
    # One value without curvature, and without a range, sends all of them the other way.
    joined = [np.append(part, 0.0) for part in (residual, error, f, lower, upper, modulus)]
    assert float(short) == pytest.approx(float(dual.separable_rise(*joined)), rel=1e-11)


@pytest.mark.parametrize("varied", range(7))
def test_one_array_of_the_rise_may_differ_between_values_and_the_others_not(varied):
    """Of more values than a block has: each array goes on by its own step.

    In Python, where a place past the end is an error: compiled code reads what lies there.
    """
    d = 600
    generator = np.random.default_rng(7)
    f = generator.random(d)
    # Slope, error, curvature, price and its error, bounds: of some values the lower end is the
    # dearest, of others the upper one.
    arrays = [np.array([number]) for number in (-1.0, 1.5, 0.5, 0.2, 1.5, -2.6, 1.5)]
    arrays[varied] = arrays[varied] * generator.uniform(0.9, 1.1, d)
    slope, error, modulus, price, price_error, lower, upper = arrays
    with mock.patch.object(kernels, "_rise", kernels._rise.py_func):
        bound = kernels.rise(0.0, slope, error, modulus, f, price, price_error, lower, upper)
    written_out = np.broadcast_arrays(f, *arrays)[1:]
    slope, error, modulus, price, price_error, lower, upper = written_out
    expected = by_numpy(slope - price, error + price_error, f, lower, upper, modulus)
    assert bound == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("varied", range(7))
def test_one_array_of_a_kinked_rise_may_differ_between_values_and_the_others_not(varied):
    """As above: in Python, where a place past the end is an error."""
    d = 600
    generator = np.random.default_rng(8)
    f = generator.random(d)
    # Place, slopes below and above, price and its error, bounds.
    arrays = [np.array([number]) for number in (0.5, -1.0, 2.0, 0.3, 0.2, -2.6, 1.5)]
    arrays[varied] = arrays[varied] * generator.uniform(0.9, 1.1, d)
    written_out = np.broadcast_arrays(f, *arrays)[1:]
    with mock.patch.object(kernels, "_kinked_rise", kernels._kinked_rise.py_func):
        bound = kernels.kinked_rise(f, *arrays)
        assert bound == kernels.kinked_rise(f, *map(np.ascontiguousarray, written_out))
    place, below, above, price, error, lower, upper = arrays

    def loss(x):
        return np.where(x < place, below, above) * (x - place)

    drops = [
        loss(f) - loss(s) - price * (f - s) + error * np.abs(f - s)
        for s in (np.clip(place, lower, upper), lower, upper)
    ]
    assert bound == pytest.approx(float(np.max(np.broadcast_arrays(*drops), axis=0).sum()))


SWEPT = {
    "simplex": (0.0, np.inf),
    "free": (-np.inf, np.inf),
    "one interval": (-0.25, 0.75),
    "own lower ends": (-np.linspace(0.0, 0.5, 300), 0.75),
    "own upper ends": (-0.25, np.linspace(0.5, 1.5, 300)),
}


@pytest.mark.parametrize("name", SWEPT)
def test_sums_and_rise_of_a_formula_are_those_of_its_slopes(name):
    """In Python too, for the same reason."""
    generator = np.random.default_rng(8)
    f, target, weights = generator.random((3, 300))
    formula = box_kernels.Formula(
        box_kernels.WEIGHTED_SQUARES, target, weights, ROUNDINGS, 0.0, (0.0,) * 5
    )
    bounds = Box(*map(np.atleast_1d, SWEPT[name]))
    slope = weights * (f - target)
    in_python = {formula.kind: partial(box_kernels._add_moments.py_func, formula.kind)}
    with mock.patch.object(box_kernels, "_MOMENTS", in_python):
        moments = box_kernels.moments(formula, f, f.min(), bounds)
    terms, size, error, *expected = kernels.sums(slope, f, *bounds)
    assert moments == pytest.approx(expected, rel=1e-9, abs=1e-12, nan_ok=True)
    with mock.patch.object(box_kernels, "_look_at", box_kernels._look_at.py_func):
        seen = box_kernels.look_at(f)
    assert seen == (f.min(), f.max(), size, pytest.approx(error, rel=1e-9))
    in_python = {formula.kind: partial(box_kernels._add_rises.py_func, formula.kind)}
    with mock.patch.object(box_kernels, "_RISES", in_python):
        rise, swept_terms = box_kernels.rise(formula, f, 0.1, bounds)
    assert swept_terms == pytest.approx(terms, rel=1e-12)
    assert rise == pytest.approx(
        by_numpy(slope - 0.1, np.zeros(300), f, *bounds, weights), rel=1e-9
    )


def test_large_errors_cost_no_more_than_the_ranges_allow():
    # Squared, an error of 1 over a curvature of 1e-6 would cost 5e5.
    ends = np.zeros(1), np.ones(1)
    bound = dual.separable_rise(np.zeros(1), np.ones(1), np.zeros(1), *ends, np.full(1, 1e-6))
    assert float(bound) == pytest.approx(1.0, rel=1e-5)


def test_cvxpy_gets_bounds_to_the_last_bit():
    # Times 3 these are rounded, which would shift the set by more than a steep loss allows.
    lower = np.array([0.1, 0.3, 0.44222609])
    variable = cp.Variable(3)
    forms = row_programs.bounds_of(variable, intervals.Box(lower, lower + 0.2))
    unknown = np.full(3, np.inf)
    compiled = compiled_problem.compiled_set(variable, forms)
    stated = cone_gap.ConeSet.of(compiled, variable, -unknown, unknown)
    assert stated.box.lower[stated.columns].tolist() == lower.tolist()
    assert stated.box.upper[stated.columns].tolist() == (lower + 0.2).tolist()


def test_what_a_total_leaves_is_rounded_outward():
    problem = Problem(losses.LeastSquares(), [Fixed([0], [0.3]), NonNegative(), SumsTo(1.0)])
    region = problem.region(3)
    estimate = FrequencyEstimate([0.0, 1e18, 0.0])
    limits = competitors.reach(problem.loss, estimate, region)
    assert Fraction(float(limits.upper[1])) >= 1 - Fraction(0.3)


def test_steps_from_a_point_outside_its_bounds_may_stay_at_it():
    # f - s over 0 <= s <= 1, widened to hold 0 where f itself is above or below the bounds.
    f = np.array([0.25, 1.5, -0.5])
    lowest, largest = _steps(f, np.zeros(3), np.ones(3))
    assert lowest.tolist() == [-0.75, 0.0, -1.5]
    assert largest.tolist() == [0.25, 1.5, 0.0]


def test_the_first_value_without_a_bound_is_named_whichever_trial_it_is_of():
    limits = Box(np.array([[0.0, 0.0, 0.0], [0.0, -np.inf, 0.0]]), np.ones((2, 3)))
    assert competitors.no_bound(limits).startswith("value 1 is not bounded")
    bounded = Box(np.zeros((2, 3)), np.ones((2, 3)))
    assert competitors.no_bound(bounded) == "the gradient is infinite at the point"


@pytest.mark.parametrize("d", [6, 64])
def test_of_large_estimates_the_last_place_of_a_sum_is_a_gap(d):
    """So not all right answers meet a small tolerance, unless it is relative."""
    rng = np.random.default_rng(d)
    problem = Problem(losses.LeastSquares(), SIMPLEX)
    estimates = FrequencyEstimate(1e12 + 0.3 * rng.normal(size=(8, d)))
    solution = problem.solve(estimates)
    # The exact minimiser, rounded: no doubles are nearer.
    answer = certify(problem, estimates, solution.frequencies, exact=True).minimiser
    exact = certify(problem, estimates, answer, exact=True)
    assert exact.ulps.max() <= 0.5
    assert exact.gap.max() > 1e-5
    proved = certify(problem, estimates, answer)
    assert np.all(proved.gap >= exact.gap)
    # 64 roundings of slopes of 1e12 for what moves, 1, and for sums as many as there are values.
    assert np.all(proved.gap <= (64 + d) * EPS * 1e12)
    for right in (solution.certificate, proved):
        assert right.is_optimal(relative=True)
        assert not right.is_optimal(1e-9)


def main(factor) -> None:
    """Print how many points of each family were examined and accepted; a wrong one is an error."""
    total = 0
    for name, planted in itertools.product(NAMES, (False, True)):
        counts = check_family(name, 10, factor * trials_of(name), planted)
        total += counts.trials
        source = "wrong" if planted else "own"
        print(f"{name:28} {source:5} {counts.trials:7} points, {counts.accepted:7} accepted")
    print(f"{total} points, 0 accepted whose rise exceeds the tolerance")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)

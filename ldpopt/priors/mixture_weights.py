"""Mixture weights: the x on the simplex that makes observations likeliest.

Observation i has probability (A x)_i. Two tasks of this library are this problem: the likelihood of
the reports themselves (one column per value), and a prior without a formula (one column per support
point). The loss -Σ c_i log (A x)_i, Σ c = 1, is convex; with the scores

    g = Aᵀ(c/(A x)),    Σ x_v g_v = 1,

x is optimal where g <= 1, and elsewhere no x' is better by more than the gap max_v g_v - 1, since
log(t) <= t - 1 turns Σ c log (A x')/(A x) into Σ x'_v g_v - 1. The gap alone ends an iteration;
short steps prove nothing (EM takes them everywhere).

EM costs two products per step, and its gap falls like 1/step at best. A Newton step minimises the
quadratic model of the loss over x >= 0 (with the total as a penalty Σx the solution sums to 1 by
itself: Kim, Carbonetto, Stephens, Anitescu 2020) and searches the segment to that point. The model
is solved by conjugate gradients on a primal-dual active set, two products each; where nearly
collinear columns keep these from settling, by non-negative least squares on the columns with
x_v > 0 or g_v > 1 (Wang 2007), for which an operator's columns are formed if m·d <= 2²⁵.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.errors import InvalidInputError, warn
from ldpopt.priors.likelihood_model import EPS, LikelihoodModel, Point, nonnegative

Array = NDArray[np.float64]
Progress = Callable[[int, float], None]

_WARM = 5  # EM steps first: a quadratic model of log is poor where probabilities are far off
_FORCING = 0.1  # the quadratic model is solved until its scores are 10 times nearer to 1
_ROUNDS = 12  # changes of the active set per Newton step; well-conditioned problems need about 6
_ITERATIONS = 60  # conjugate gradient steps per Newton step; they need about 20
_PATIENCE = 3  # Newton steps that may fail before the columns of an operator are formed
_STALLED = 50  # steps in which the gap must halve, or double precision has no more to give
FLAT = 1e-13  # predicted rises of the mean log likelihood that rounding hides
SUFFICIENT = 0.1  # share of the predicted rise that a step must reach (Armijo's rule)
SHORTEST = 1e-9  # part of a step below which the search along it ends
_FARTHEST = 1 / EPS  # how far weights, whose sum is 1, can move and keep a digit


@dataclass(frozen=True)
class MixtureFit:
    """Weights of a mixture, with a certificate of how good they are.

    Attributes
    ----------
    weights
        The weights, shape (d,).
    gap
        Upper bound of the distance of the mean log likelihood from its maximum, in nats.
    log_likelihood
        The mean log likelihood, in nats.
    steps, products
        Steps taken, and products with A and Aᵀ.
    converged
        Whether the gap is at most the tolerance.
    """

    weights: Array
    gap: float
    log_likelihood: float
    steps: int
    products: int
    converged: bool


def mixture_weights(
    likelihoods: Any,
    weights: ArrayLike | None = None,
    *,
    method: str = "accelerated",
    start: ArrayLike | None = None,
    tol: float = 1e-9,
    max_steps: int = 1000,
    progress: Progress | None = None,
) -> MixtureFit:
    """Return the x >= 0, Σx = 1, that maximises Σ c_i log (A x)_i.

    Parameters
    ----------
    likelihoods
        A >= 0 of shape (m, d), no row all zero: the probability or density of observation i under
        component v, each row up to a factor of its own. An array, or an operator with ``shape``,
        ``matvec`` and ``rmatvec``, such as a scipy ``LinearOperator``, of which only products are
        taken.
    weights
        c >= 0, how often each observation was made, shape (m,); divided by their sum. None: equal.
    method
        ``"accelerated"`` (Newton steps on the support) or ``"em"`` (x_v ← x_v g_v, the iterative
        Bayesian update).
    start
        Where to begin, >= 0 of shape (d,), divided by its sum; None: uniform. EM needs it positive,
        since it never leaves a zero.
    tol
        The gap to reach, in nats of the mean log likelihood.
    max_steps
        Steps after which to stop without it.
    progress
        Called with the number of steps and the gap before each step.

    Returns
    -------
    The fit with the smallest gap met. Where columns are equal, or m is small, weights are not
    unique; A x is.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If shapes do not fit, an entry or weight is negative or not finite, or an observation has
        probability zero.

    Warns
    -----
    LdpoptWarning
        If the gap is not reached: ``converged`` is False, and ``gap`` states what is certain.

    Notes
    -----
    Cost: about ten Newton steps suffice, with some 80 products for likelihoods of reports; EM takes
    two products per step, and as many steps as the inverse of the gap. The module states how.

    Examples
    --------
    >>> likelihoods = [[3.0, 1.0, 1.0], [1.0, 3.0, 1.0], [1.0, 1.0, 3.0]]
    >>> fit = mixture_weights(likelihoods, weights=[60, 36, 4])
    >>> [round(float(x), 4) for x in abs(fit.weights)], fit.converged
    ([0.75, 0.25, 0.0], True)
    """
    run = validate.lookup("method", method, {"accelerated": _accelerated, "em": _em})
    tol = validate.real("tol", tol, above=0)
    max_steps = validate.integer("max_steps", max_steps, minimum=1)
    model = LikelihoodModel(likelihoods, weights)
    x = _first_weights(start, model.d, method)
    best, steps = run(model, model.begin(x), _Limits(tol, max_steps, progress))
    # The bound of the gap, not the length of a step: EM's steps become short long before the end.
    converged = best.gap <= tol
    if not converged:
        is_em = method == "em"
        remedy = "method='accelerated' or more steps" if is_em else "more steps or a larger tol"
        warn(
            f"mixture weights stopped after {steps} steps with a gap of {best.gap:.2g}, above "
            f"tol = {tol:.2g}: use {remedy}"
        )
    return MixtureFit(
        weights=best.x,
        gap=best.gap,
        log_likelihood=model.log_likelihood(best.probability),
        steps=steps,
        products=model.products,
        converged=converged,
    )


def _first_weights(start: ArrayLike | None, d: int, method: str) -> Array:
    """Return the weights to begin with, of sum 1."""
    x = np.full(d, 1 / d)
    if start is not None:
        x = nonnegative("start", start, (d,))
    if method == "em" and not x.all():
        at = validate.first(x == 0)
        raise InvalidInputError(
            f"em never leaves a zero, and start is 0 at {validate.where(at)}: begin with all > 0"
        )
    return np.asarray(x / x.sum())


class _Limits(NamedTuple):
    """When an iteration ends, and what is called before each step."""

    tol: float
    max_steps: int
    progress: Progress | None


def _iterate(
    step: Callable[[Point, int], Point],
    at: Point,
    limits: _Limits,
    patience: float = math.inf,
) -> tuple[Point, int]:
    """Return the best point that is met, and the number of steps.

    Parameters
    ----------
    step
        From a point and the number of steps before it to the next point.
    at
        The first point.
    limits
        When to end.
    patience
        Steps in which the smallest gap must halve.
    """
    best = at
    steps = 0
    gap_to_halve = at.gap
    halved_at = 0
    while best.gap > limits.tol and steps < limits.max_steps:
        # Rounding keeps the gap of some likelihoods from falling any further.
        if steps - halved_at >= patience:
            break
        if limits.progress:
            limits.progress(steps, at.gap)
        at = step(at, steps)
        steps += 1
        if at.gap < best.gap:
            best = at
        if best.gap <= gap_to_halve / 2:
            gap_to_halve = best.gap
            halved_at = steps
    return best, steps


# --- EM ---------------------------------------------------------------------------------------


def _em(model: LikelihoodModel, at: Point, limits: _Limits) -> tuple[Point, int]:
    """Return the best point of EM, and the number of steps."""
    return _iterate(lambda point, _: _em_step(model, point), at, limits)


def _em_step(model: LikelihoodModel, at: Point) -> Point:
    """Return x ← x g, which is never less likely (Dempster, Laird, Rubin 1977)."""
    x = at.x * at.score
    return model.point(x / x.sum())


# --- Newton steps -----------------------------------------------------------------------------


def _accelerated(model: LikelihoodModel, at: Point, limits: _Limits) -> tuple[Point, int]:
    """Return the best point of EM steps followed by Newton steps, and the number of steps."""
    newton = _Newton(model)
    # A start that leaves an observation next to impossible has a curvature that may overflow. EM
    # never frees its zeros; half way to uniform weights the gap is about the number of values.
    if at.gap > _FARTHEST:
        at = model.point((at.x + 1 / model.d) / 2)

    def step(point: Point, steps: int) -> Point:
        return _em_step(model, point) if steps < _WARM else newton.step(point)

    return _iterate(step, at, limits, _STALLED)


class _Newton:
    """Newton steps that change from products to columns where products fail."""

    def __init__(self, model: LikelihoodModel) -> None:
        self.model = model
        self.failures = 0
        self.by_columns = False

    def step(self, at: Point) -> Point:
        """Return the next point: that of EM where a Newton step is no better."""
        solve = _by_columns if self.by_columns else _by_products
        target, settled = solve(self.model, at)
        ahead = None if target is None else searched(self.model, at, target)
        failed = ahead is None or not settled
        # There is nothing beyond columns to change to.
        if failed and not self.by_columns:
            self._fail()
        return _em_step(self.model, at) if ahead is None else ahead

    def _fail(self) -> None:
        """Count a failure of products, and change to columns where they are at hand or overdue."""
        self.failures += 1
        allowed = 1 if self.model.columns is not None else _PATIENCE
        if self.failures >= allowed:
            self.by_columns = self.model.form()


def searched(model: LikelihoodModel, at: Point, target: Array) -> Point | None:
    """Return the first likelier point of 1, 1/2, 1/4, .. of the way to the target, or None."""
    probability = model.forward(target)
    change = model.over(probability - at.probability, at.probability)
    rise = float(model.share @ change)
    if rise <= FLAT:  # too flat to compare likelihoods: the full step, if its gap is smaller
        if not probability[model.observed].all():  # something observed would become impossible
            return None
        ahead = model.point(target, probability)
        return ahead if ahead.gap < at.gap else None
    part = _sufficient_part(model, change, rise)
    if part is None:
        return None
    if part == 1.0:
        return model.point(target, probability)
    rest = 1 - part
    x = rest * at.x + part * target
    return model.point(x, rest * at.probability + part * probability)


def _sufficient_part(model: LikelihoodModel, change: Array, rise: float) -> float | None:
    """Return the first of 1, 1/2, 1/4, .. of a step that gains enough, or None.

    Parameters
    ----------
    model
        The likelihood.
    change
        Relative changes of the probabilities by the full step, shape (m,).
    rise
        The gain that their first order predicts.
    """
    part = 1.0
    with np.errstate(divide="ignore"):
        while part >= SHORTEST:
            gain = float(model.share @ np.log1p(part * change))
            # A gain of minus infinity or nan is not enough either.
            if gain >= SUFFICIENT * part * rise:
                return part
            part /= 2
    return None


def _by_products(model: LikelihoodModel, at: Point) -> tuple[Array | None, bool]:
    """Return the minimiser of the quadratic model, and whether its active set settled.

    min ½ yᵀH y - (2g - 1)ᵀy over y >= 0, H = Aᵀ diag(c/(A x)²) A, whence H x = g. Each round solves
    on the free values by conjugate gradients; then those that became negative are fixed at 0, and
    fixed ones that would rise are freed.
    """
    quadratic = _Quadratic(model, at)
    free = (at.x > 0) | (at.score > 1)
    for _ in range(_ROUNDS):
        if not quadratic.solve_on(free):
            break
        stays_positive = quadratic.y > 0
        would_rise = quadratic.residual > quadratic.tolerance
        # The conditions of a minimum with bounds: positive values stay free, and a value at 0 is
        # freed where the model improves as it rises.
        now_free = np.where(free, stays_positive, would_rise)
        if np.array_equal(now_free, free):
            return _proportions(quadratic.y), True
        quadratic.set_to_zero(free & ~now_free)
        free = now_free
        if not free.any():
            break
    return _proportions(quadratic.y), False


class _Quadratic:
    """The quadratic model ½ yᵀH y - (2g - 1)ᵀy around a point, at some y.

    ``residual`` is 2g - 1 - H y, also of values that are fixed.
    """

    def __init__(self, model: LikelihoodModel, at: Point) -> None:
        self.model = model
        self.curvature = model.over(model.share, at.probability**2)
        self.tolerance = _FORCING * at.gap
        self.y = at.x.copy()
        self.residual = at.score - 1  # as H x = g
        self.iterations = 0

    def times(self, v: Array) -> Array:
        """Return H v."""
        return self.model.back(self.curvature * self.model.forward(v))

    def solve_on(self, free: NDArray[np.bool_]) -> bool:
        """Move y to the minimum over its free values; return whether that was reached."""
        gradient = np.where(free, self.residual, 0.0)
        step = gradient
        square = float(gradient @ gradient)
        while np.abs(self.residual[free]).max() > self.tolerance:
            if self.iterations == _ITERATIONS:
                return False
            self.iterations += 1
            if not self._move_along(step, square):
                return False
            gradient = np.where(free, self.residual, 0.0)
            next_square = float(gradient @ gradient)
            # Conjugate gradients by Fletcher and Reeves: on a quadratic the next step keeps what
            # the steps before it have reached.
            ratio = next_square / square
            step = gradient + ratio * step
            square = next_square
        return True

    def _move_along(self, step: Array, square: float) -> bool:
        """Move y to the minimum along a conjugate step; return whether doubles can hold it.

        The square is that of the gradient, which is the slope of the model along the step.
        """
        image = self.times(step)
        curvature = float(step @ image)
        # Weights sum to 1: a minimum beyond 1/EPS leaves no digit of them. The curvature along
        # such a step is mere rounding, and the steps after it would grow until they overflow.
        if curvature * _FARTHEST <= square * float(np.abs(step).max()):
            return False
        length = square / curvature
        self.y += length * step
        self.residual -= length * image
        return True

    def set_to_zero(self, fixed: NDArray[np.bool_]) -> None:
        """Set values of y to 0."""
        removed = np.where(fixed, self.y, 0.0)
        if removed.any():
            self.residual += self.times(removed)
            self.y -= removed


def _proportions(y: Array) -> Array | None:
    """Return the positive part divided by its sum, or None if there is none."""
    y = np.maximum(y, 0.0)
    return y / y.sum() if y.any() else None


def _by_columns(model: LikelihoodModel, at: Point) -> tuple[Array | None, bool]:
    """Return the minimiser of the quadratic model by least squares on the columns that matter."""
    kept = np.flatnonzero((at.x > 0) | (at.score > 1))
    target = target_on_columns(model, at, kept)
    return target, target is not None


def target_on_columns(model: LikelihoodModel, at: Point, kept: NDArray[np.intp]) -> Array | None:
    """Return the minimiser of the quadratic model whose other weights are 0, or None.

    With S = A/(A x) row by row the model is ½ Σ c ((S y)_i - 2)², and on Σy = 1 that is ½ ‖B y‖²,
    B = √c (S - 2). Its minimiser there is that of ‖B y‖² + (Σy - 1)² over y >= 0, divided by its
    sum (Dax 1990). A Cholesky factor of BᵀB + 11ᵀ stands for the m rows; what is added to make it
    definite is of the order of its rounding.
    """
    from scipy.optimize import nnls

    assert model.columns is not None
    size = len(kept)
    root = np.sqrt(model.share)
    row_factor = model.over(root, at.probability)
    rows = model.columns[:, kept] * row_factor[:, None] - 2 * root[:, None]
    gram = rows.T @ rows + 1.0
    gram[np.diag_indices(size)] += 4 * EPS * np.trace(gram)
    try:
        factor = np.linalg.cholesky(gram)
        # A third of the time of scipy's solver for triangles, which a few columns do not repay.
        right = np.linalg.solve(factor, np.ones(size))
        y, _ = nnls(factor.T, right, maxiter=30 * size)
    except (np.linalg.LinAlgError, RuntimeError):  # not definite, or nnls does not end
        return None
    target = np.zeros(model.d)
    target[kept] = y / y.sum()
    return target

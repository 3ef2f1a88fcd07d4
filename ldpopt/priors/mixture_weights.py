"""Mixture weights: the x on the simplex that makes observations likeliest when row i has probability (A x)_i.

Two things of this library are this problem: the likelihood of the reports themselves (a column a value), and a prior without
a formula (a column a support point). The loss -Σ c_i log (A x)_i, Σ c = 1, is convex; with the scores

    g = Aᵀ(c/(A x)),    Σ x_v g_v = 1,

x is optimal where g <= 1, and elsewhere no x' is better by more than the gap max_v g_v - 1: log(t) <= t - 1 turns
Σ c log (A x')/(A x) into Σ x'_v g_v - 1. The gap alone ends an iteration; short steps mean nothing (EM takes them everywhere).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.errors import InvalidInputError, InvalidTypeError, LdpoptWarning

Array = NDArray[np.float64]
Progress = Callable[[int, float], None]

_WARM = 5  # steps of EM first: a quadratic model of log is poor where probabilities are wrong by large factors
_FORCING = (
    0.1  # the quadratic model is solved until its own scores are this much nearer to 1 than the gap
)
_ROUNDS = (
    12  # changes of the active set in one Newton step; well-conditioned problems need up to about 6
)
_ITERATIONS = (
    60  # conjugate gradient steps in one Newton step; well-conditioned problems need up to about 20
)
_PATIENCE = 3  # Newton steps that may fail before the columns of an operator are formed
_FORMED = 1 << 25  # entries of a matrix that may be formed from an operator: 256 MB
_STALLED = 50  # steps in which the gap must halve, or double precision has no more to give
_FLAT = 1e-13  # predicted rises of the mean log likelihood that rounding hides
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class MixtureFit:
    """Weights of a mixture, with the proof of how good they are.

    ``gap`` bounds what the mean log likelihood misses to its maximum, in nats. ``products`` counts the products with A and Aᵀ.
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
        A >= 0 of shape (m, d), no row all zero: the probability or density of observation i under component v, each row up to a
        factor of its own. An array, or an operator with ``shape``, ``matvec`` and ``rmatvec``, such as a scipy
        ``LinearOperator``, of which only products are taken.
    weights
        c >= 0, how often each observation was made, shape (m,); divided by their sum. None: equal.
    method
        ``"accelerated"`` (Newton steps on the support) or ``"em"`` (x_v ← x_v g_v, the iterative Bayesian update).
    start
        Where to begin, >= 0 of shape (d,), divided by its sum; None: uniform. EM needs it positive: it never leaves a zero.
    tol
        The gap to reach, in nats of the mean log likelihood.
    max_steps
        Steps after which to stop without it.
    progress
        Called with the number of steps and the gap before each step.

    Returns
    -------
    The fit with the least gap seen. Where columns are equal, or m is small, weights are not unique; A x is.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If shapes do not fit, an entry or weight is negative or not finite, or an observation has probability zero.

    Warns
    -----
    LdpoptWarning
        If the gap is not reached: ``converged`` is False, and ``gap`` says what is certain.

    Notes
    -----
    EM costs two products a step and its gap falls like 1/step at best. A Newton step minimises the quadratic model of the loss
    over x >= 0 (with the total as a penalty Σx the solution sums to 1 by itself: Kim, Carbonetto, Stephens, Anitescu 2020)
    and searches the segment to that point. The model is solved by conjugate gradients on a primal-dual active set, two
    products each; where nearly collinear columns keep these from settling, by non-negative least squares on the columns with
    x_v > 0 or g_v > 1 (Wang 2007), for which an operator's columns are formed if m·d <= 2²⁵. About ten Newton steps
    suffice: some 80 products for likelihoods of reports.

    Examples
    --------
    >>> fit = mixture_weights([[3.0, 1.0, 1.0], [1.0, 3.0, 1.0], [1.0, 1.0, 3.0]], weights=[60, 36, 4])
    >>> fit.weights.round(4), fit.converged
    (array([0.75, 0.25, 0.  ]), True)
    """
    run = validate.lookup("method", method, {"accelerated": _accelerated, "em": _em})
    tol = validate.real("tol", tol, above=0)
    max_steps = validate.integer("max_steps", max_steps, minimum=1)
    model = _Model(likelihoods, weights)
    begin = (
        np.full(model.d, 1 / model.d) if start is None else _nonnegative("start", start, (model.d,))
    )
    if method == "em" and not begin.all():
        at = validate.first(begin == 0)
        raise InvalidInputError(
            f"em never leaves a zero, and start is 0 at {validate.where(at)}: begin with all > 0"
        )
    found, steps = run(model, model.begin(begin / begin.sum()), tol, max_steps, progress)
    converged = found.gap <= tol
    if not converged:
        warnings.warn(
            f"mixture weights stopped after {steps} steps with a gap of {found.gap:.2g}, above tol = {tol:.2g}: "
            + (
                "use method='accelerated' or more steps"
                if method == "em"
                else "allow more steps or a larger tol"
            ),
            LdpoptWarning,
            stacklevel=2,
        )
    return MixtureFit(
        found.x,
        found.gap,
        model.log_likelihood(found.probability),
        steps,
        model.products,
        converged,
    )


class _Point(NamedTuple):
    x: Array
    probability: Array  # A x
    score: Array  # g
    gap: float


def _nonnegative(what: str, values: ArrayLike, shape: tuple[int, ...]) -> Array:
    """Return finite values >= 0 of the given shape, not all zero; an error otherwise."""
    found = validate.array(what, values).astype(np.float64)
    if found.shape != shape:
        raise InvalidInputError(f"{what} must have shape {shape}, got {found.shape}")
    wrong = ~((found >= 0) & np.isfinite(found))
    if wrong.any():
        at = validate.first(wrong)
        raise InvalidInputError(
            f"{what} must be finite and >= 0, found {found[at]} at {validate.where(at)}"
        )
    if not found.any():
        raise InvalidInputError(f"{what} must not be all zero")
    return found


class _Model:
    """A and c behind their products, which are counted."""

    def __init__(self, likelihoods: Any, weights: ArrayLike | None) -> None:
        self.products = 0
        self.operator: Any = None
        self.columns: Array | None = None
        self.offset = 0.0  # mean logarithm of what the rows were divided by
        if hasattr(likelihoods, "matvec") and hasattr(likelihoods, "rmatvec"):
            self.operator = likelihoods
            shape = likelihoods.shape
        else:
            dense = validate.array("likelihoods", likelihoods)
            shape = dense.shape
        if len(shape) != 2 or 0 in shape:
            raise InvalidInputError(
                f"likelihoods must have shape (m, d) with m, d >= 1, got {shape}"
            )
        m, self.d = (int(size) for size in shape)
        c = np.ones(m) if weights is None else _nonnegative("weights", weights, (m,))
        c = c / c.max()  # first: a sum of huge weights overflows
        self.share = c / c.sum()
        self.observed = self.share > 0
        self.rows = np.arange(m)  # numbers of the rows that are held
        if self.operator is None:
            self._hold(dense)

    def _hold(self, dense: NDArray[Any]) -> None:
        """Keep a matrix's rows with c > 0, their largest entries made 1; scores do not see the factor."""
        self.rows = self.rows[self.observed]
        columns = np.asarray(dense[self.rows], dtype=np.float64)  # a copy: an index array selects
        wrong = ~((columns >= 0) & np.isfinite(columns))
        if wrong.any():
            row, column = (int(i) for i in validate.first(wrong))
            raise InvalidInputError(
                f"likelihoods must be finite and >= 0, found {columns[row, column]} at row {self.rows[row]}, column {column}"
            )
        top = columns.max(axis=1)
        if not top.all():
            self._impossible(int(np.argmin(top)))
        columns /= top[:, None]
        self.share, self.observed = self.share[self.rows], self.observed[self.rows]
        self.columns = columns
        self.offset += float(self.share @ np.log(top))

    def _impossible(self, row: int) -> None:
        raise InvalidInputError(
            f"observation {self.rows[row]} has probability zero under every component that may have weight: check "
            "that row, scale it (a factor per row changes nothing), or give it weight 0"
        )

    def form(self) -> bool:
        """Return whether A is held as a matrix, after forming it from d products if it is small enough."""
        if self.columns is None and len(self.share) * self.d <= _FORMED:
            dense = np.empty((len(self.share), self.d))
            unit = np.zeros(self.d)
            for v in range(self.d):
                unit[v] = 1.0
                dense[:, v] = self.forward(unit)
                unit[v] = 0.0
            self.columns = (
                dense  # rows stay as they are: points that exist hold their probabilities
            )
        return self.columns is not None

    def forward(self, x: Array) -> Array:
        """Return A x."""
        self.products += 1
        return np.asarray(
            self.operator.matvec(x) if self.columns is None else self.columns @ x, dtype=np.float64
        )

    def back(self, r: Array) -> Array:
        """Return Aᵀ r."""
        self.products += 1
        return np.asarray(
            self.operator.rmatvec(r) if self.columns is None else r @ self.columns, dtype=np.float64
        )

    def over(self, numerator: Array, probability: Array) -> Array:
        """Return the quotient, 0 where nothing was observed."""
        return np.divide(
            numerator, probability, out=np.zeros_like(probability), where=self.observed
        )

    def begin(self, x: Array) -> _Point:
        """Return the first point; an error if an observation is impossible there."""
        probability = self.forward(x)
        if probability.shape != self.share.shape:
            raise InvalidTypeError(
                f"matvec must return shape {self.share.shape} for a vector of shape {x.shape}, got {probability.shape}"
            )
        if (
            not (probability[self.observed] >= 0).all()
            or not np.isfinite(probability[self.observed]).all()
        ):
            raise InvalidInputError("likelihoods must be finite and >= 0, but A x is not")
        dead = self.observed & (probability == 0)
        if dead.any():
            self._impossible(int(np.argmax(dead)))
        return self.point(x, probability)

    def point(self, x: Array, probability: Array | None = None) -> _Point:
        if probability is None:
            probability = self.forward(x)
        score = self.back(self.over(self.share, probability))
        return _Point(
            x, probability, score, max(float(score.max()) - 1, _EPS)
        )  # no gap is known to less than rounding

    def em(self, at: _Point) -> _Point:
        """Return x ← x g: never less likely (Dempster, Laird, Rubin 1977)."""
        x = at.x * at.score
        return self.point(x / x.sum())

    def log_likelihood(self, probability: Array) -> float:
        logs = np.log(probability, out=np.zeros_like(probability), where=self.observed)
        return float(self.share @ logs) + self.offset


def _em(
    model: _Model, at: _Point, tol: float, max_steps: int, progress: Progress | None
) -> tuple[_Point, int]:
    best, steps = at, 0
    while best.gap > tol and steps < max_steps:
        if progress:
            progress(steps, at.gap)
        at = model.em(at)
        steps += 1
        best = at if at.gap < best.gap else best
    return best, steps


def _accelerated(
    model: _Model, at: _Point, tol: float, max_steps: int, progress: Progress | None
) -> tuple[_Point, int]:
    best, steps, failures, by_columns = at, 0, 0, False
    mark, since = at.gap, 0  # the gap that must be halved, and the step at which it was met
    while best.gap > tol and steps < max_steps and steps - since < _STALLED:
        if progress:
            progress(steps, at.gap)
        if steps < _WARM:
            at = model.em(at)
        else:
            target, settled = _by_columns(model, at) if by_columns else _by_products(model, at)
            ahead = _search(model, at, target) if target is not None else None
            if not by_columns and (ahead is None or not settled):
                failures += 1
                by_columns = (
                    failures >= (1 if model.columns is not None else _PATIENCE) and model.form()
                )
            at = model.em(at) if ahead is None else ahead
        steps += 1
        if at.gap < best.gap:
            best = at
        if best.gap <= mark / 2:
            mark, since = best.gap, steps
    return best, steps


def _search(model: _Model, at: _Point, target: Array) -> _Point | None:
    """Return the first of the points 1, 1/2, 1/4, .. of the way to the target that is likelier; None if there is none."""
    probability = model.forward(target)
    change = model.over(probability - at.probability, at.probability)
    rise = float(model.share @ change)
    if rise <= _FLAT:  # too flat to compare likelihoods: the full step, if its gap is smaller
        if not probability[
            model.observed
        ].all():  # nor is it flat: something observed would become impossible
            return None
        ahead = model.point(target, probability)
        return ahead if ahead.gap < at.gap else None
    part = 1.0
    with np.errstate(divide="ignore"):
        while not float(model.share @ np.log1p(part * change)) >= 0.1 * part * rise:
            part /= 2
            if part < 1e-9:
                return None
    if part == 1.0:
        return model.point(target, probability)
    return model.point(
        (1 - part) * at.x + part * target, (1 - part) * at.probability + part * probability
    )


def _by_products(model: _Model, at: _Point) -> tuple[Array | None, bool]:
    """Return the minimiser of the quadratic model by conjugate gradients, and whether the active set settled.

    min ½ yᵀH y - (2g - 1)ᵀy over y >= 0, H = Aᵀ diag(c/(A x)²) A, whence H x = g. A round solves on the free values; then
    those that became negative are fixed at 0, and fixed ones that would rise are freed.
    """
    x, score = at.x, at.score
    curvature = model.over(model.share, at.probability**2)
    close = _FORCING * at.gap
    free = (x > 0) | (score > 1)
    y, residual, left = x.copy(), score - 1, _ITERATIONS  # the residual of fixed values too
    for _ in range(_ROUNDS):
        step = np.where(free, residual, 0.0)
        square = float(step @ step)
        while np.abs(residual[free]).max() > close:
            if not left:
                return _proportions(y), False
            left -= 1
            image = model.back(curvature * model.forward(step))
            slope = float(step @ image)
            if not slope > 0:  # no curvature left
                return _proportions(y), False
            y += square / slope * step
            residual -= square / slope * image
            rest = np.where(free, residual, 0.0)
            square, before = float(rest @ rest), square
            step = rest + square / before * step
        now = np.where(free, y > 0, residual > close)
        if np.array_equal(now, free):
            return _proportions(y), True
        lost = np.where(free & ~now, y, 0.0)
        if lost.any():
            residual += model.back(curvature * model.forward(lost))
            y -= lost
        free = now
        if not free.any():
            break
    return _proportions(y), False


def _proportions(y: Array) -> Array | None:
    y = np.maximum(y, 0.0)
    return y / y.sum() if y.any() else None


def _by_columns(model: _Model, at: _Point) -> tuple[Array | None, bool]:
    """Return the minimiser of the quadratic model over the simplex by non-negative least squares on the columns that matter.

    With S = A/(A x) row by row the model is ½ Σ c ((S y)_i - 2)², and on Σy = 1 that is ½ ‖B y‖², B = √c (S - 2). Its
    minimiser there is that of ‖B y‖² + (Σy - 1)² over y >= 0, divided by its sum (Dax 1990). A Cholesky factor of BᵀB + 11ᵀ
    stands for the m rows; what makes it definite is of the order of its rounding.
    """
    from scipy.linalg import solve_triangular
    from scipy.optimize import nnls

    assert model.columns is not None
    kept = np.flatnonzero((at.x > 0) | (at.score > 1))
    root = np.sqrt(model.share)
    rows = model.columns[:, kept] * model.over(root, at.probability)[:, None] - 2 * root[:, None]
    gram = rows.T @ rows + 1.0
    gram[np.diag_indices(len(kept))] += 4 * _EPS * np.trace(gram)
    try:
        factor = np.linalg.cholesky(gram)
        y, _ = nnls(
            factor.T,
            solve_triangular(factor, np.ones(len(kept)), lower=True),
            maxiter=30 * len(kept),
        )
    except (np.linalg.LinAlgError, RuntimeError):
        return None, False
    target = np.zeros(model.d)
    target[kept] = y / y.sum()
    return target, True

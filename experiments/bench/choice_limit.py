"""The best worst regret between raw answers and fitted ones, from one collection.

    python -m experiments.bench.choice_limit

A fit whose answers have little noise may be wrong by a vector m, of which the raw answers to k
sets show m + z with standard normal z. The raw answers miss ‖z‖², the fitted ones ‖m‖² and their
own noise. Nothing prefers a direction, so that the best rule follows ‖m + z‖² alone. A choice takes
the raw answers with a probability that is a function of it, a combination gives them a weight that
is one. The regret is the mean error of what is taken over that of the better of the two, at the
worst m and the best function. Both are convex programs in the function.
"""

from __future__ import annotations

from typing import NamedTuple

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

SHARES = (0.5, 0.3, 0.2, 0.1, 0.05)
_ANSWERS = 8  # nine groups whose total is known
_DRAWS = 100_000
_BINS = 150
_MISFITS = 61
_LARGEST = 7.5  # square of a misfit, in units of the noise of the raw answers


class _Moments(NamedTuple):
    """Shares and means over draws within each bin of ‖m + z‖², shape (misfits, bins)."""

    probability: Array
    noise: Array  # of ‖z‖²
    square: Array  # of ‖m + z‖²
    product: Array  # of m·(m + z)


def limits(share: float, answers: int = _ANSWERS, draws: int = _DRAWS) -> tuple[float, float]:
    """Return these regrets, of a choice and of a combination.

    The noise of the fit is a ``share`` of that of the raw answers.
    """
    misfits = np.linspace(0.0, _LARGEST * answers, _MISFITS)
    at = _moments(misfits, answers, draws)
    noise_of_fit = share * answers
    better = np.minimum(answers, misfits + noise_of_fit)
    weight = cp.Variable(at.probability.shape[1])
    of_fit = cp.multiply(misfits + noise_of_fit, at.probability @ (1 - weight))
    chosen = at.noise @ weight + of_fit
    # Of w (m + z), beside (1 - w) times the noise of the fit.
    squares = at.square @ cp.square(weight) - 2 * at.product @ weight + misfits
    combined = squares + noise_of_fit * (at.probability @ cp.square(1 - weight))
    return _smallest_regret(chosen, better, weight), _smallest_regret(combined, better, weight)


def _smallest_regret(error: cp.Expression, better: Array, weight: cp.Variable) -> float:
    """Return the least worst regret over all weights from 0 to 1."""
    worst = cp.max(cp.multiply(error, 1 / better))
    problem = cp.Problem(cp.Minimize(worst), [weight >= 0, weight <= 1])
    return float(problem.solve(solver=cp.CLARABEL))


def _moments(misfits: Array, answers: int, draws: int) -> _Moments:
    z = np.random.default_rng(0).standard_normal((draws, answers))
    noise = np.sum(z**2, axis=1)
    edges = np.linspace(0.0, _LARGEST * answers, _BINS)
    parts = []
    for misfit in misfits:
        product = misfit + np.sqrt(misfit) * z[:, 0]
        square = noise + 2 * product - misfit
        place = np.digitize(square, edges)
        columns = (np.ones(draws), noise, square, product)
        parts.append([np.bincount(place, x, minlength=_BINS + 1) / draws for x in columns])
    return _Moments(*np.swapaxes(np.array(parts), 0, 1))


def main() -> None:
    """Print the limits."""
    for share in SHARES:
        chosen, combined = limits(share)
        print(
            f"noise of the fit {share:4} of that of the raw answers: "
            f"{chosen:.2f} by a choice, {combined:.2f} by a combination"
        )


if __name__ == "__main__":
    main()

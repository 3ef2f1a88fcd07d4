"""The best worst regret of any choice between raw answers and fitted ones, from one collection.

    python -m experiments.bench.choice_limit

A fit whose answers have little noise may be wrong by a vector m, of which the raw answers to k
sets show m + z with standard normal z. The raw answers miss ‖z‖², the fitted ones ‖m‖² and their
own noise. Nothing prefers a direction, so that the best choice follows ‖m + z‖² alone: the raw
answers are taken where it is above a threshold. The regret is the mean error of what is taken over
that of the better of the two, at the worst m and the best threshold.
"""

from __future__ import annotations

import numpy as np

SHARES = (0.5, 0.3, 0.2, 0.1, 0.05)
_ANSWERS = 8  # nine groups whose total is known
_DRAWS = 100_000


def limit(share: float, answers: int = _ANSWERS, draws: int = _DRAWS, seed: int = 0) -> float:
    """Return that regret where the noise of the fit is a share of that of the raw answers."""
    z = np.random.default_rng(seed).standard_normal((draws, answers))
    errors = np.sum(z**2, axis=1)
    thresholds = np.linspace(0.5, 7.5, 113) * answers
    noise_of_fit = share * answers
    worst = np.zeros(len(thresholds))
    for misfit in np.linspace(0.0, 7.5 * answers, 61):
        away = errors + 2 * np.sqrt(misfit) * z[:, 0] + misfit
        order = np.argsort(away)
        below = np.searchsorted(away[order], thresholds)
        # The errors of the raw answers above each threshold.
        taken = errors.sum() - np.concatenate([[0.0], np.cumsum(errors[order])])[below]
        of_fit = misfit + noise_of_fit
        regret = (taken + below * of_fit) / draws / min(answers, of_fit)
        worst = np.maximum(worst, regret)
    return float(worst.min())


def main() -> None:
    """Print the limits."""
    for share in SHARES:
        print(f"noise of the fit {share:4} of that of the raw answers: {limit(share):.2f}")


if __name__ == "__main__":
    main()

"""Table I: each method by name, with what it guarantees; a few lines each on top of the closed forms."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import closed_form, priors, validate
from ldpopt.errors import InvalidInputError, LdpoptWarning
from ldpopt.estimate import FrequencyEstimate, warn_unless_raw_noise

Array = NDArray[np.float64]
_ALPHA = 2.0  # expected number of false positives above the threshold (N IV-A)
_BETA = 0.05  # the same, of OUE-Zero: one vector in twenty has a false positive (K Eq. 22)
Answer = Literal["yes", "no", "almost"]


@dataclass(frozen=True)
class Method:
    """A post-processing method: a row of N Table I.

    Attributes
    ----------
    name, label
        The name that ``postprocess`` takes, and the papers' spelling.
    description, problem
        What it does, and the optimisation problem that it solves (empty if none).
    source
        Where it is defined.
    nonnegative, sums_to_one
        Its guarantees; "almost" means a sum of at most 1.
    preserves_order
        Whether a larger estimate never becomes the smaller one.
    complexity
        Of one vector.
    apply
        The function from an estimate and options to frequencies.
    clip_answers
        Whether it acts on the answers to queries rather than on the vector.
    """

    name: str
    label: str
    description: str
    problem: str
    source: str
    nonnegative: Answer
    sums_to_one: Answer
    preserves_order: bool
    complexity: str
    apply: Callable[..., Array]
    clip_answers: bool = False

    @property
    def options(self) -> dict[str, Any]:
        """Names and defaults of the options that ``postprocess`` passes on."""
        _, *options = inspect.signature(self.apply).parameters.values()
        return {option.name: option.default for option in options}


def _threshold(estimate: FrequencyEstimate, alpha: float, top_k: int | None) -> float | Array:
    """Return T of base-cut and norm-hyb: from the noise, or the k-th highest estimate where k is known."""
    if top_k is not None:
        if alpha != _ALPHA:
            raise InvalidInputError("alpha and top_k both set the threshold: give one of them")
        k = validate.integer("top_k", top_k, minimum=1)
        if k > estimate.d:
            raise InvalidInputError(
                f"top_k = {k} is more than the {estimate.d} values of the domain"
            )
        return closed_form.kth_highest(estimate.frequencies, k)
    alpha = validate.real("alpha", alpha, above=0)
    warn_unless_raw_noise(estimate)
    return closed_form.significance_threshold(estimate.d, estimate.sigma, alpha)


def _base_cut(
    estimate: FrequencyEstimate, *, alpha: float = _ALPHA, top_k: int | None = None
) -> Array:
    return closed_form.base_cut(estimate.frequencies, _threshold(estimate, alpha, top_k))


def _base_zero(estimate: FrequencyEstimate, *, beta: float = _BETA) -> Array:
    warn_unless_raw_noise(estimate)
    threshold = closed_form.significance_threshold(
        estimate.d, estimate.sigma, validate.real("beta", beta, above=0)
    )
    return closed_form.base_cut(estimate.frequencies, threshold)


def _norm_hyb(
    estimate: FrequencyEstimate, *, alpha: float = _ALPHA, top_k: int | None = None
) -> Array:
    return closed_form.norm_hyb(estimate.frequencies, _threshold(estimate, alpha, top_k))


def _norm_cut(estimate: FrequencyEstimate) -> Array:
    f = estimate.frequencies
    if np.any(f.max(axis=-1) > 1):
        warnings.warn(
            "norm-cut returns 0 everywhere for a vector with an estimate above 1: by its definition such a value, and all "
            "below it, are cut; norm-sub has no such case",
            LdpoptWarning,
            stacklevel=3,
        )
    return closed_form.norm_cut(f)


def _mle_apx(estimate: FrequencyEstimate) -> Array:
    warn_unless_raw_noise(estimate)
    return closed_form.mle_apx(estimate.frequencies, estimate.noise.kappa)


def _power(estimate: FrequencyEstimate) -> Array:
    return priors.posterior_mean(estimate, priors.PowerLaw)


def _npmle(estimate: FrequencyEstimate) -> Array:
    return priors.posterior_mean(estimate, priors.NPMLE)


def _mixture(estimate: FrequencyEstimate) -> Array:
    # The sum of the true counts is known: without its noise the bottom of the prior is found better.
    return priors.posterior_mean(
        estimate.processed(closed_form.norm(estimate.frequencies), method=estimate.method),
        priors.Mixture,
    )


_ALL = [
    Method(
        "base", "Base", "the unbiased estimate itself", "", "N IV", "no", "no", True, "O(1)", lambda e: e.frequencies
    ),
    Method(
        "base-pos", "Base-Pos", "negative estimates to 0", "min ½‖f-f̃‖², f ≥ 0", "N IV-A", "yes", "no", True, "O(d)",
        lambda e: closed_form.base_pos(e.frequencies),
    ),
    Method(
        "post-pos", "Post-Pos", "negative answers to queries to 0; the vector stays", "", "N IV-A", "yes", "no", True,
        "O(1)", lambda e: e.frequencies, clip_answers=True,
    ),
    Method(
        "base-cut", "Base-Cut", "estimates below T = Φ⁻¹(1-α/d)σ to 0", "min ½‖f-f̃‖² + ½T²‖f‖₀, f ≥ 0", "N IV-A", "yes",
        "no", True, "O(d)", _base_cut,
    ),
    Method(
        "norm", "Norm", "add δ so that the sum is 1", "min ½‖f-f̃‖², Σf = 1", "N IV-B", "no", "yes", True, "O(d)",
        lambda e: closed_form.norm(e.frequencies),
    ),
    Method(
        "norm-mul", "Norm-Mul", "negative to 0, then multiply by γ", "min KL(f ‖ max(f̃,0)), Σf = 1", "N IV-B", "yes",
        "yes", True, "O(d)", lambda e: closed_form.norm_mul(e.frequencies),
    ),
    Method(
        "norm-cut", "Norm-Cut", "negative and small ones to 0 until the sum is at most 1", "", "N IV-B", "yes", "almost",
        True, "O(d log d)", _norm_cut,
    ),
    Method(
        "norm-sub", "Norm-Sub", "max(f̃+δ, 0) with sum 1", "min ½‖f-f̃‖², f ≥ 0, Σf = 1 (CLS)", "N IV-B, IV-C", "yes",
        "yes", True, "O(d log d)", lambda e: closed_form.norm_sub(e.frequencies),
    ),
    Method(
        "norm-hyb", "Norm-Hyb", "keep estimates at or above T, Norm-Sub on the others", "CLS with the kept ones fixed",
        "D 3.3", "yes", "yes", False, "O(d log d)", _norm_hyb,
    ),
    Method(
        "mle-apx", "MLE-Apx", "max(f̃+t, 0)/(1-κt) with sum 1", "min Σ(f-f̃)²/(a+bf), f ≥ 0, Σf = 1", "N IV-D", "yes",
        "yes", True, "O(d log d)", _mle_apx,
    ),
    Method(
        "power", "Power", "posterior mean under a fitted power law", "min E‖f-f′‖²", "N IV-E, K III", "yes", "no", True,
        "O(d)", _power,
    ),
    Method(
        "power-ns", "PowerNS", "Norm-Sub after Power", "min E‖f-f′‖² over the simplex", "N IV-E", "yes", "yes", True,
        "O(d log d)", lambda e: closed_form.norm_sub(_power(e)),
    ),
    Method(
        "base-zero", "OUE-Zero", "estimates below T = Φ⁻¹(1-β/d)σ to 0", "min ½‖f-f̃‖² + ½T²‖f‖₀, f ≥ 0", "K IV-A", "yes",
        "no", True, "O(d)", _base_zero,
    ),
    Method(
        "npmle", "NPMLE", "posterior mean under the likeliest prior of all", "min E‖f-f′‖²", "Kiefer, Wolfowitz 1956",
        "yes", "no", True, "O(d)", _npmle,
    ),
    Method(
        "npmle-ns", "NPMLE-NS", "Norm-Sub after NPMLE", "min E‖f-f′‖² over the simplex", "Kiefer, Wolfowitz 1956", "yes",
        "yes", True, "O(d log d)", lambda e: closed_form.norm_sub(_npmle(e)),
    ),
    Method(
        "mixture", "Mixture", "posterior mean under a prior mixed from simple shapes", "min E‖f-f′‖²", "ours", "yes",
        "no", True, "O(d)", _mixture,
    ),
    Method(
        "mixture-ns", "Mixture-NS", "Norm-Sub after the mixture's posterior mean", "min E‖f-f′‖² over the simplex",
        "ours", "yes", "yes", True, "O(d log d)", lambda e: closed_form.norm_sub(_mixture(e)),
    ),
]  # fmt: skip

METHODS: Mapping[str, Method] = MappingProxyType({method.name: method for method in _ALL})
"""All methods by name, in the order of Table I."""


def postprocess(
    estimate: FrequencyEstimate | ArrayLike, method: str, **options: Any
) -> FrequencyEstimate:
    """Apply a method of Table I to an estimate or a stack of trials.

    Parameters
    ----------
    estimate
        A FrequencyEstimate; a plain array of shape (..., d) will do for methods that need no noise level.
    method
        A name in ``METHODS``.
    **options
        Of the method: ``alpha`` (expected false positives, 2) and ``top_k`` (number of values of interest, if known) for
        ``base-cut`` and ``norm-hyb``; ``beta`` (expected false positives, .05) for ``base-zero``.

    Returns
    -------
    FrequencyEstimate with the same n and oracle, named after the method, which keeps the raw one for intervals. A further
    method starts from its frequencies: the clipping of answers by ``post-pos`` does not carry over, and a method that uses the
    noise level (``base-cut`` and ``norm-hyb`` without ``top_k``, ``base-zero``, ``mle-apx``, and those with a prior) warns, for
    it is made for raw estimates.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the method or an option is unknown, a number is not finite, the noise level is needed and not known, or the
        method has no answer (``norm-mul`` with no positive estimate).

    Notes
    -----
    Cost: Table I, for all trials at once.

    Examples
    --------
    >>> postprocess([0.5, 0.2, -0.01], "norm-sub").frequencies.round(3)
    array([0.603, 0.303, 0.093])
    """
    start = FrequencyEstimate.of(estimate)
    chosen = validate.lookup("method", method, METHODS)
    for option in options:
        if option not in chosen.options:
            if not chosen.options:
                raise InvalidInputError(f"{method} takes no options, got {option!r}")
            raise validate.unknown_name(f"option of {method}", option, chosen.options)
    frequencies = chosen.apply(start, **options)
    frequencies.flags.writeable = False  # nobody else has it: no copy needed
    if method == "base":
        return start._with(method="base", clip_answers=False)
    return start.processed(frequencies, method=method, clip_answers=chosen.clip_answers)

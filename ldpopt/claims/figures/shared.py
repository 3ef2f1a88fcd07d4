"""Sentences that N and its draft D share, each on a figure of the same kind.

They are judged by one rule, so that a verdict that differs between the papers comes from the
figures. Each function returns the statement of one paper; what is expected of it is given in
``ending``: the verdict, its reason and the correction, as `Statement` has them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ldpopt.claims.engine.claim import Verdict
from ldpopt.claims.figures.bounds import ANY, TIE
from ldpopt.claims.figures.checks import Against, Check, Growth, Ratio, Some
from ldpopt.claims.figures.statement import Correction, Statement

# The methods in the left column of N Fig. 4 and D Fig. 1, beside Norm-Mul itself.
_LEFT_COLUMN = ("base", "base-pos", "post-pos", "norm", "norm-sub")

_ZIPF = {"dataset": "zipf"}


@dataclass(frozen=True)
class Place:
    """Where a paper makes a sentence.

    Attributes
    ----------
    paper
        The paper's name among the figures, such as ``ndss``.
    figure
        Which of its figures the sentence is about, such as ``fig4``.
    source
        Where it stands in the paper.
    """

    paper: str
    figure: str
    source: str

    @property
    def table(self) -> str:
        """Name of the figure's table in a run."""
        return f"{self.paper}-{self.figure}"

    def statement(self, name: str, text: str, how: str, *checks: Check, **ending: Any) -> Statement:
        """Return the statement of this place; ``name`` is the end of its id."""
        # The ledger names papers by a letter: n-fig4-..., d-fig1-....
        letter = {"ndss": "n", "draft": "d"}[self.paper]
        return Statement(
            id=f"{letter}-{self.figure}-{name}",
            source=self.source,
            text=text,
            figure=self.table,
            how=how,
            checks=checks,
            **ending,
        )


# --- full domain ---


def base_like_norm(place: Place) -> Statement:
    """Return the statement that Base and Norm have the same error."""
    return place.statement(
        "base-norm",
        "Base performs very close to Norm.",
        "Ratio of MSEs within 2 % of 1",
        # Norm takes one part in d from the MSE: 2 % is room for chance.
        Ratio(place.table, "norm", "base", 0.98, 1.02),
    )


def norm_mul_slow(place: Place, last: float, **ending: Any) -> Statement:
    """Return the statement that Norm-Mul gains least from a larger ε, up to the figure's last."""
    return place.statement(
        "norm-mul-slow",
        "For Norm-Mul the MSE decreases much slower than for other methods.",
        f"Norm-Mul over every other method of the left column: this ratio at ε = {last:g} at least "
        "twice that at ε = 0.2",
        # "Much slower" is read as losing a factor of two over the axis.
        Growth(place.table, "norm-mul", _LEFT_COLUMN, 0.2, last, 2, ANY),
        **ending,
    )


def mle_like_norm_sub(place: Place, **ending: Any) -> Statement:
    """Return the statement that Norm-Sub and MLE-Apx have the same error."""
    return place.statement(
        "mle-norm-sub",
        "Norm-Sub and MLE-Apx perform almost exactly the same.",
        "Ratio of MSEs within 5 % of 1",
        # "Almost exactly" is a twentieth, which a logarithmic axis hides.
        Ratio(place.table, "mle-apx", "norm-sub", 0.95, 1.05),
        **ending,
    )


# --- sets ---


def normalised_win(
    place: Place, text: str, normalised: tuple[str, ...], others: tuple[str, ...], **ending: Any
) -> Statement:
    """Return the statement that normalised methods are better on the largest sets."""
    return place.statement(
        "normalised",
        text,
        "At ρ = 90, the MSE of each over each of the others', below 1",
        # "Especially when ρ is large": the largest of the axis decides.
        Ratio(place.table, normalised, others, 0, 1, "parameter", at=lambda r: r == 90),
        **ending,
    )


def symmetric(place: Place, text: str, normalised: tuple[str, ...]) -> Statement:
    """Return the statement that sets and their complements have the same error."""
    return place.statement(
        "symmetric",
        text,
        "MSE at ρ over that at 100 − ρ, between 2/3 and 3/2 (200 sets for each ρ and trial)",
        Against(
            place.table,
            normalised,
            2 / 3,
            3 / 2,
            partner=lambda r: 100 - r,
            # A ratio and its inverse say the same: one half of the axis is enough.
            at=lambda r: r > 50,
        ),
    )


def post_pos_like_base(place: Place, text: str) -> Statement:
    """Return the statement that Post-Pos is a little better than Base on sets."""
    return place.statement(
        "post-pos",
        text,
        "Ratio at least 0.5, at no ρ above 1 by more than 1 % (where no answer is negative "
        "they are the same) and at some below 1",
        # "Slightly": never by more than half.
        Ratio(place.table, "post-pos", "base", 0.5, 1.01, "parameter"),
        Some(Ratio(place.table, "post-pos", "base", 0.5, 1, "parameter")),
    )


def errors_rise(place: Place, methods: tuple[str, ...]) -> Statement:
    """Return the statement that larger sets have larger errors, while they are small."""
    return place.statement(
        "rises",
        "Within ρ = 1 to 10, the errors of all methods increase with ρ.",
        "MSE at ρ = 10 over that at ρ = 1, and at 2, 4, 8 and 10 over that at half of it, "
        "above 1, for every method",
        Against(place.table, methods, 1, ANY, partner=1.0, at=lambda r: r == 10),
        # Neighbouring ρ would differ by less than their intervals.
        Against(
            place.table,
            methods,
            1,
            ANY,
            partner=lambda r: r / 2,
            at=lambda r: r in (2, 4, 8, 10),
        ),
    )


def small_sets(place: Place) -> Statement:
    """Return the statement that small sets are like single values."""
    return place.statement(
        "small-sets",
        "When ρ becomes small, the performance of different methods approaches to that of "
        "full-domain estimation.",
        "MSE of Base-Pos, Post-Pos, Base-Cut and Power over Base's, which is larger for large "
        "sets than for single values: at ρ = 10 above that at ρ = 1",
        *(
            Growth(place.table, method, "base", 1, 10, 1, ANY, along="parameter")
            for method in ("base-pos", "post-pos", "base-cut", "power")
        ),
    )


def norm_cut_on_sets(place: Place, why: str) -> Statement:
    """Return the statement that Norm-Cut beats Base-Cut on sets, which it does from ρ = 3 on."""
    return place.statement(
        "norm-cut",
        "Norm-Cut is better than Base-Cut, especially when ρ ≥ 2.",
        "Norm-Cut over Base-Cut below 1 at every ρ from 1 to 10",
        # At every ρ, since "especially" claims the rest as well.
        Ratio(place.table, "norm-cut", "base-cut", 0, 1, "parameter"),
        expected=Verdict.CORRECTED,
        why=why,
        correction=Correction(
            text="From ρ = 3 on.",
            checks=(
                Ratio(place.table, "norm-cut", "base-cut", 0, 1, "parameter", at=lambda r: r >= 3),
            ),
        ),
    )


def norm_mul_worst(place: Place, normalised: tuple[str, ...]) -> Statement:
    """Return the statement that Norm-Mul is worse than Base and all other normalised methods."""
    others = tuple(method for method in normalised if method != "norm-mul")
    return place.statement(
        "norm-mul",
        "Intuitively, the norm-based methods should perform better. But Norm-Mul does not.",
        "Norm-Mul over Base, and over every other normalised method, above 1",
        Ratio(place.table, "norm-mul", ("base", *others), 1, ANY, "parameter"),
    )


# --- the most frequent values ---


def norm_on_top(place: Place, id: str, text: str, others: tuple[str, ...]) -> Statement:
    """Return the statement that Norm is the best for frequent values, which 30 trials leave open.

    Its id is given whole: N makes the sentence in its conclusions, whose ids name no figure.
    """
    statement = place.statement(
        "norm",
        text,
        "MSE of Norm over every other method's, at most 1.05 at every k (Base and Norm differ"
        " by chance)",
        Ratio(place.table, "norm", others, 0, TIE, "parameter"),
        expected=Verdict.INCONCLUSIVE,
        why=(
            "At k ≥ 30 Base-Pos is better by 4 %, give or take 3: 30 trials do not tell whether by "
            "more than 5 %."
        ),
    )
    return replace(statement, id=id)


def norm_mul_tenfold(place: Place, others: tuple[str, ...]) -> Statement:
    """Return the statement that Norm-Mul has ten times the error of all others."""
    return place.statement(
        "norm-mul-10",
        "Norm-Mul performs at least 10× worse than any other methods.",
        "Norm-Mul over every other method, at least 10 at every k",
        # A number is printed: no tolerance is added.
        Ratio(place.table, "norm-mul", others, 10, ANY, "parameter"),
    )


def ten_values(place: Place) -> Statement:
    """Return the statement that about ten values stand out of the noise: Base-Cut keeps them."""

    def over_base(low: float, high: float, at: Any) -> Ratio:
        # Of Zipf's alone: "around 10" is about a distribution.
        return Ratio(place.table, "base-cut", "base", low, high, "parameter", at=at, only=_ZIPF)

    return place.statement(
        "ten-values",
        "At ε = 1, around 10 values can be reliably estimated.",
        "Base-Cut over Base within 0.5 .. 2 for k ≤ 10, above 2 at k = 32, on Zipf's",
        over_base(0.5, 2, lambda k: k <= 10),
        over_base(2, ANY, lambda k: k == 32),
    )


def norm_cut_on_top(place: Place) -> Statement:
    """Return the statement that Norm-Cut beats Base-Cut on the most frequent values."""
    return place.statement(
        "norm-cut",
        "Norm-Cut is better than Base-Cut.",
        "Ratio at most 1.05 at every k (up to k = 10 they are the same), below 1 at some",
        # Up to k = 10 no value is cut by either.
        Ratio(place.table, "norm-cut", "base-cut", 0, TIE, "parameter"),
        Some(Ratio(place.table, "norm-cut", "base-cut", 0, 1, "parameter")),
    )

"""What K states about its figures (K IV)."""

from __future__ import annotations

from ldpopt.claims.engine.claim import Verdict
from ldpopt.claims.figures.bounds import ANY, EQUAL, TIE
from ldpopt.claims.figures.checks import Against, Growth, Ratio, Size, Some, Value
from ldpopt.claims.figures.statement import Correction, Statement

_RETAIL = {"dataset": "retail"}
# K's larger data set, whose source is gone; statements on it keep their rule nevertheless.
_ABSENT = "Kosarak is not here."
_METRICS = ("precision", "recall", "f-score")


def _improvement(
    data: str,
    epsilon: int,
    percent: float,
    bounds: tuple[float, float],
    expected: Verdict,
    why: str,
) -> Statement:
    """Return the statement that OUE-Calibrate's error is below OUE-Zero's by so many per cent."""
    name = data.capitalize()
    low, high = bounds
    return Statement(
        id=f"k-fig7-{data}-{epsilon}",
        source="K IV-B",
        text=(
            f"On {name}, the relative improvement of OUE-Calibrate upon OUE-Zero is "
            f"{percent:g} % for ε = {epsilon:g}."
        ),
        figure="calibrate-fig7",
        how=f"Error of OUE-Calibrate over OUE-Zero's, between {low:g} and {high:g}",
        checks=(
            Ratio(
                "calibrate-fig7",
                "oue-calibrate",
                "oue-zero",
                low,
                high,
                # K states a number at two budgets only, the smallest and the largest of the axis.
                at=lambda e: e == epsilon,
                only={"dataset": data},
            ),
        ),
        data=(data,),
        expected=expected,
        why=why,
    )


# A verdict that is not "holds", with its reason, and what holds instead.
_Ending = tuple[Verdict, str, Correction | None]
_HOLDS: _Ending = (Verdict.HOLDS, "", None)
_UNCHECKED: _Ending = (Verdict.UNCHECKED, _ABSENT, None)


def _score(
    figure: str, data_name: str, precision: _Ending, f_score: _Ending
) -> tuple[Statement, ...]:
    """Return the statements about a data set's precision and recall, and about its F."""
    fig = figure.removeprefix("calibrate-")
    # Figures 5 and 6 run along the threshold, 8 and 9 along ε.
    varies = "parameter" if fig in ("fig5", "fig6") else "epsilon"

    def ratio(over: str, under: str, metric: str, low: float, high: float) -> Ratio:
        return Ratio(figure, over, under, low, high, varies, only={"metric": metric})

    return (
        Statement(
            id=f"k-{fig}-precision-recall",
            source="K IV-B",
            text=(
                f"OUE-Calibrate achieves higher precision but lower recall than OUE ({data_name})."
            ),
            figure=figure,
            how="Ratio of precisions at least 1, of recalls at most 1, at every point",
            checks=(
                # "Higher" at no point excludes a tie: where nothing is reported both are alike.
                ratio("oue-calibrate", "oue", "precision", 1, ANY),
                ratio("oue-calibrate", "oue", "recall", 0, 1),
            ),
            expected=precision[0],
            why=precision[1],
            correction=precision[2],
        ),
        Statement(
            id=f"k-{fig}-f-score",
            source="K IV-B",
            text=(
                f"Overall, OUE-Calibrate has a better F-score than OUE and OUE-Zero ({data_name})."
            ),
            figure=figure,
            how="Ratio of F-scores at least 1/1.05 at every point, above 1 at some",
            checks=(
                # "Overall" allows for ties along the axis, but asks for a gain somewhere.
                ratio("oue-calibrate", "oue", "f-score", 1 / TIE, ANY),
                ratio("oue-calibrate", "oue-zero", "f-score", 1 / TIE, ANY),
                Some(ratio("oue-calibrate", "oue", "f-score", 1, ANY)),
                Some(ratio("oue-calibrate", "oue-zero", "f-score", 1, ANY)),
            ),
            expected=f_score[0],
            why=f_score[1],
            correction=f_score[2],
        ),
    )


def _halved(metric: str, low: float, high: float) -> Against:
    """Return the check of OUE-Zero at a threshold over itself at half of it."""
    return Against(
        "calibrate-fig6",
        "oue-zero",
        low,
        high,
        partner=lambda t: t / 2,
        # Above it OUE-Zero no longer changes with the threshold: its own is larger.
        at=lambda t: t < 900,
        only={"metric": metric},
    )


# A line of this slope, -1, halves the share of items with every doubling of their frequency.
_SLOPES = (2**-1.5, 2**-0.5)


def _size(data: str, figure: str, d: int, n: int, text: str, expected: Verdict) -> Statement:
    """Return the statement of a data set's number of items and of users."""
    return Statement(
        id=f"k-{data}-size",
        source="K IV-A",
        text=text,
        figure=figure,
        how="Numbers of items and of users that the tables state, as printed",
        checks=(Size(figure, "d", d), Size(figure, "n", n)),
        data=(data,),
        expected=expected,
        why="" if expected is Verdict.HOLDS else _ABSENT,
    )


STATEMENTS = (
    _size(
        "kosarak",
        "calibrate-fig4",
        41_270,
        8_019_015,
        "Kosarak has 41,270 webpages and 8,019,015 clicks.",
        Verdict.UNCHECKED,
    ),
    _size(
        "retail",
        "calibrate-fig7",
        16_470,
        908_576,
        "Retail has 16,470 products and a total frequency of 908,576.",
        Verdict.HOLDS,
    ),
    Statement(
        id="k-fig3-tail",
        source="K IV-A",
        text=(
            "Frequencies roughly follow a power law: a large fraction of items have small ones, a "
            "very small fraction large ones, and the curve is close to a line up to a threshold "
            "(Retail)."
        ),
        figure="calibrate-fig3",
        how=(
            "Share of items with a frequency around 100 over that with frequency 1, below 0.05; up "
            "to 32 the share at twice a frequency over that at the frequency is that of slopes "
            "between −0.5 and −1.5"
        ),
        checks=(
            Against(
                "calibrate-fig3",
                "truth",
                # "Close to a line" on two logarithmic axes: no doubling departs from one slope by
                # more.
                *_SLOPES,
                partner=lambda f: f / 2,
                # Doublings up to 32, beyond which items are few.
                at=lambda f: f in (2, 4, 8, 16, 32),
                only=_RETAIL,
            ),
            Against(
                "calibrate-fig3",
                "truth",
                0,
                0.05,
                partner=1.0,
                # A range, since no item need have the frequency 100 itself.
                at=lambda f: 80 <= f <= 120,
                only=_RETAIL,
            ),
        ),
        data=("retail",),
    ),
    Statement(
        id="k-fig4-mean",
        source="K IV-B",
        text="The noise on Kosarak has the predicted mean 0 (fitted: −3.2).",
        figure="calibrate-fig4",
        how=(
            "Mean of the noise within ±20 counts: 4 standard errors of 30 trials, and less than "
            "one of the single collection that K fitted"
        ),
        # K fitted one collection; the mean of 30 is nearer to 0 if the noise has the mean 0.
        checks=(Value("calibrate-fig4", "oue", -20, 20, only={"metric": "mean (counts)"}),),
        expected=Verdict.UNCHECKED,
        why=_ABSENT,
    ),
    Statement(
        id="k-fig4-variance",
        source="K IV-B",
        text="... and the predicted variance (fitted 5,405, predicted 5,434).",
        figure="calibrate-fig4",
        how=(
            "K prints these as variances, but 5,434 is the standard deviation at ε = 1: √(4en)/(e"
            " − 1) with n = 8,019,015. Predicted variance within 0.1 % of 5,434², and fitted over"
            " predicted variance within 2 % of 1"
        ),
        checks=(
            Value(
                "calibrate-fig4",
                "predicted",
                # 5,434 is printed to four digits, so that its square is known to 4 in 10,000.
                0.999,
                1.001,
                unit=5_434**2,
                only={"metric": "variance (counts)"},
            ),
            Ratio(
                "calibrate-fig4",
                "oue",
                "predicted",
                # K's own two numbers differ by half a per cent in the standard deviation.
                0.98,
                1.02,
                only={"metric": "variance (counts)"},
            ),
        ),
        expected=Verdict.UNCHECKED,
        why=_ABSENT,
    ),
    Statement(
        id="k-fig7-orders",
        source="K IV-B",
        text="Both OUE-Zero and OUE-Calibrate outperform OUE by orders of magnitude.",
        figure="calibrate-fig7",
        how="Error of OUE over each, at least 10 at every ε",
        # "Orders" is one order at the least, at every budget.
        checks=(Ratio("calibrate-fig7", "oue", ("oue-zero", "oue-calibrate"), 10, ANY),),
        expected=Verdict.FAILS,
        why="On Retail by two orders at ε = 1, by 3 and 5 times at ε = 5.",
    ),
    Statement(
        id="k-fig7-better",
        source="K IV-B",
        text="OUE-Calibrate outperforms OUE-Zero.",
        figure="calibrate-fig7",
        how="Ratio of errors below 1 at every ε",
        # At every ε: the sentence names none.
        checks=(Ratio("calibrate-fig7", "oue-calibrate", "oue-zero", 0, 1),),
        expected=Verdict.INCONCLUSIVE,
        why=(
            "On Retail its error at ε = 1 is between 0.5 % below OUE-Zero's and 3.8 % above; from "
            "ε = 2 on it is smaller."
        ),
    ),
    Statement(
        id="k-fig7-gain-grows",
        source="K IV-B",
        text="The performance gain is more significant as the privacy budget increases.",
        figure="calibrate-fig7",
        how=(
            "Error of OUE-Zero over OUE-Calibrate's: at ε = 5 at least 1.2 times what it is at ε "
            "= 1, and larger at each ε than at the one before"
        ),
        checks=(
            # "More significant" must be more than chance: a fifth from end to end.
            Growth("calibrate-fig7", "oue-zero", "oue-calibrate", 1.0, 5.0, 1.2, ANY),
            *(
                Growth("calibrate-fig7", "oue-zero", "oue-calibrate", before, before + 1, 1, ANY)
                for before in (1.0, 2.0, 3.0, 4.0)
            ),
        ),
    ),
    # 16 % less is 0.84 times as much; 5 points to either side.
    _improvement("kosarak", 1, 16, (0.79, 0.89), Verdict.UNCHECKED, _ABSENT),
    # 0.03, and twice of that: relative to so small an error 5 points would be anything.
    _improvement("kosarak", 5, 97, (0.01, 0.06), Verdict.UNCHECKED, _ABSENT),
    _improvement(
        "retail",
        1,
        2.4,
        # 0.976 with 2 points to either side, so that the gain itself stays visible.
        (0.95, 0.995),
        Verdict.INCONCLUSIVE,
        "Between 0.5 % better and 3.8 % worse: the interval has the upper bound at its end.",
    ),
    _improvement("retail", 5, 65, (0.30, 0.40), Verdict.FAILS, "By a third."),
    Statement(
        id="k-fig7-then-zero",
        source="K IV-B",
        text=(
            "Further resetting the frequencies smaller than the significance threshold in "
            "OUE-Calibrate has a negligible impact on the estimation errors."
        ),
        figure="calibrate-fig7",
        how="Ratio of errors within 5 % of 1 at every ε",
        # A "negligible impact" is read as a twentieth.
        checks=(Ratio("calibrate-fig7", "oue-calibrate-zero", "oue-calibrate", 0.95, 1.05),),
        expected=Verdict.FAILS,
        why="On Retail it costs 18 % at ε = 2 and 59 % at ε = 5.",
    ),
    *_score("calibrate-fig5", "Kosarak", _UNCHECKED, _UNCHECKED),
    *_score(
        "calibrate-fig6",
        "Retail",
        (Verdict.INCONCLUSIVE, "At two of 13 thresholds one of the ratios may be 1.", None),
        (
            Verdict.CORRECTED,
            "At the smallest threshold of our axis OUE's F is better, at a precision of 0.1.",
            Correction(
                text=(
                    "For thresholds above a sixth of the significance threshold; below, OUE's F is"
                    " better though its precision is 0.1."
                ),
                checks=tuple(
                    Ratio(
                        "calibrate-fig6",
                        "oue-calibrate",
                        under,
                        1 / TIE,
                        ANY,
                        "parameter",
                        # The first threshold of the axis at which the precision is no longer a
                        # tenth.
                        at=lambda t: t > 200,
                        only={"metric": "f-score"},
                    )
                    for under in ("oue", "oue-zero")
                ),
            ),
        ),
    ),
    *_score("calibrate-fig8", "Kosarak", _UNCHECKED, _UNCHECKED),
    *_score("calibrate-fig9", "Retail", _HOLDS, _HOLDS),
    Statement(
        id="k-fig9-zero-same",
        source="K IV-B",
        text=(
            "OUE and OUE-Zero have exactly the same curves at the significance threshold (Retail)."
        ),
        figure="calibrate-fig9",
        how="Ratio of precisions, of recalls and of F-scores exactly 1",
        checks=tuple(
            # "Exactly the same" has no tolerance but the digits of the tables.
            Ratio("calibrate-fig9", "oue-zero", "oue", *EQUAL, only={"metric": metric})
            for metric in _METRICS
        ),
    ),
    Statement(
        id="k-fig6-zero-above",
        source="K IV-B",
        text=(
            "When the threshold is larger than the significance threshold, OUE-Zero and OUE have "
            "the same performance (Retail)."
        ),
        figure="calibrate-fig6",
        how=(
            "Ratio of precisions, of recalls and of F-scores exactly 1 above the significance "
            "threshold"
        ),
        checks=tuple(
            Ratio(
                "calibrate-fig6",
                "oue-zero",
                "oue",
                *EQUAL,
                "parameter",
                # Strictly above: at the significance threshold itself Figure 9 is the place.
                side=1,
                only={"metric": metric},
            )
            for metric in _METRICS
        ),
    ),
    Statement(
        id="k-fig6-gain-below",
        source="K IV-B",
        text=(
            "The improvement of OUE-Calibrate (in F) is more significant when the threshold is "
            "smaller (Retail)."
        ),
        figure="calibrate-fig6",
        how=(
            "F-score over OUE's: above 1.05 below the significance threshold, within 5 % of 1 "
            "above it"
        ),
        checks=(
            Ratio(
                "calibrate-fig6",
                "oue-calibrate",
                "oue",
                1.05,
                ANY,
                "parameter",
                # On either side of the threshold its own half of the sentence.
                side=-1,
                only={"metric": "f-score"},
            ),
            Ratio(
                "calibrate-fig6",
                "oue-calibrate",
                "oue",
                0.95,
                1.05,
                "parameter",
                side=1,
                only={"metric": "f-score"},
            ),
        ),
        expected=Verdict.FAILS,
        why="At the smallest threshold OUE's F is better: the gain reverses.",
    ),
    Statement(
        id="k-fig6-zero-moves",
        source="K IV-B",
        text=(
            "As the threshold becomes smaller, OUE-Zero's precision increases and its recall "
            "decreases (Retail)."
        ),
        figure="calibrate-fig6",
        how=(
            "At half of each threshold below 900 counts: recall below what it is there, precision "
            "not below it by more than 1 %, and above it at some"
        ),
        checks=(
            # Precision may stay where it is for a step, but not fall; it must rise somewhere.
            _halved("precision", 0, 1.01),
            Some(_halved("precision", 0, 1)),
            _halved("recall", 1, ANY),
        ),
    ),
    Statement(
        id="k-fig6-zero-below",
        source="K IV-B",
        text=(
            "When the threshold is smaller, OUE-Zero has higher precision but lower recall "
            "(Retail)."
        ),
        figure="calibrate-fig6",
        how=(
            "Ratio of precisions at least 1, of recalls at most 1, below the significance threshold"
        ),
        checks=(
            Ratio(
                "calibrate-fig6",
                "oue-zero",
                "oue",
                1,
                ANY,
                "parameter",
                side=-1,
                only={"metric": "precision"},
            ),
            Ratio(
                "calibrate-fig6",
                "oue-zero",
                "oue",
                0,
                1,
                "parameter",
                side=-1,
                only={"metric": "recall"},
            ),
        ),
    ),
)

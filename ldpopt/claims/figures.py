"""Statements of the papers that only their figures can show: listed with the figure, without a verdict."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FigureStatement:
    """What a paper reads off a figure: where it says so, what, and the figures that show it."""

    source: str
    statement: str
    figures: tuple[str, ...]


FIGURE_STATEMENTS: tuple[FigureStatement, ...] = tuple(
    FigureStatement(source, statement, tuple(figures.split()))
    for source, statement, figures in (
        (
            "N V-B",
            "In the mean of 5,000 runs Base and Norm follow the true counts of Zipf; the other methods leave them for rare "
            "values.",
            "ndss-fig1",
        ),
        (
            "N Fig. 2",
            "Sums of the biases, in counts: Base -1,405; Base-Pos 711,932; Base-Cut -137,449; Norm, Norm-Mul, Norm-Cut, "
            "Norm-Sub and PowerNS 0; Power -96,332.",
            "ndss-fig2",
        ),
        (
            "N V-B",
            "Norm-Sub's bias is an increasing line over the ranks; Power's has a shape like Norm-Cut's, and PowerNS's like "
            "Power's.",
            "ndss-fig2",
        ),
        (
            "N V-B",
            "Base and Norm have a similar variance for all values, Norm's slightly smaller; every other method's drops with "
            "the rank.",
            "ndss-fig3",
        ),
        (
            "N V-C, D 4.2",
            "Base-Pos halves Base's MSE over the domain.",
            "ndss-fig4 draft-fig1",
        ),
        (
            "N V-C",
            "Norm-Sub divides Base's MSE by about 10 on Zipf and 100 on Emoji.",
            "ndss-fig4",
        ),
        (
            "D 4.2",
            "Norm-Sub divides Base's MSE by about 10.",
            "draft-fig1",
        ),
        (
            "N V-C, D 4.2",
            "Norm-Mul's MSE decreases much slower in ε than the other methods'.",
            "ndss-fig4 draft-fig1",
        ),
        (
            "N V-C",
            "PowerNS has the smallest MSE over the domain on both data sets.",
            "ndss-fig4",
        ),
        (
            "D 4.2",
            "Norm-Sub and MLE-Apx have the smallest MSE over the domain.",
            "draft-fig1",
        ),
        (
            "N V-C, D 4.2",
            "Norm-Sub, MLE-Apx, Power, Base-Cut and PowerNS (N) or Norm-Hyb (D) have a very similar MSE over the domain.",
            "ndss-fig4 draft-fig1",
        ),
        (
            "N V, V-F; D 4.5",
            "Base-Cut is the method for single values: the best over the domain where the distribution is unknown.",
            "ndss-fig4 draft-fig1 draft-fig7",
        ),
        (
            "N V-C",
            "n' of Base and Norm is a straight line of slope 1, and Norm-Mul's grows slower than Base's.",
            "ndss-fig5",
        ),
        (
            "N V-C",
            "PowerNS needs about 90 % fewer users than Base for the same MSE.",
            "ndss-fig5",
        ),
        (
            "N V-D",
            "At ρ = 90 PowerNS's MSE is at least two orders of magnitude below that of every method that is not normalised.",
            "ndss-fig6",
        ),
        (
            "D 4.3",
            "At ρ = 90 Norm-Hyb is 1.5 to 4 orders of magnitude better than every method that is not normalised.",
            "draft-fig2",
        ),
        (
            "N V-D, D 4.3",
            "Base-Pos has the largest MSE on sets: 1 to 2 orders of magnitude above the others (D).",
            "ndss-fig6 draft-fig2",
        ),
        (
            "N V-D, D 4.3",
            "Post-Pos is slightly better than Base on sets, and so is Base-Cut (N) or in some cases (D).",
            "ndss-fig6 draft-fig2",
        ),
        (
            "N V-D",
            "PowerNS is the best method on random sets.",
            "ndss-fig6 ndss-fig7",
        ),
        (
            "D 4.3",
            "Power is better than Base on small sets, but on US cities it can be worse near ρ = 90.",
            "draft-fig2",
        ),
        (
            "N V-D, D 4.3",
            "For ρ from 1 to 10 all errors grow with ρ, and at small ρ the methods stand as they do over the domain.",
            "ndss-fig7 draft-fig3",
        ),
        (
            "N V-D, D 4.3",
            "Norm-Cut is better than Base-Cut on sets from ρ = 2 on.",
            "ndss-fig7 draft-fig3",
        ),
        (
            "N V-D, D 4.3",
            "Norm-Mul is bad on sets although it is normalised.",
            "ndss-fig7 draft-fig3",
        ),
        (
            "N V-D",
            "On emoji categories Post-Pos leads the left panel, and Norm-Cut is better still, above all for ε < 3.",
            "ndss-fig8",
        ),
        (
            "D 4.3",
            "Norm-Sub, MLE-Apx and Norm-Hyb are consistently the best on states and regions; Power is poor there.",
            "draft-fig4",
        ),
        (
            "D 4.3",
            "On regions Norm-Mul is comparable to Norm-Sub.",
            "draft-fig4",
        ),
        (
            "N V-D",
            "A synthetic data set fitted by Norm-Sub finds the best method quite accurately; one fitted by PowerNS selects "
            "PowerNS.",
            "ndss-fig9",
        ),
        (
            "N V-E, D 4.4",
            "Base, Base-Pos, Post-Pos and Norm are equally good on the top k, whatever k.",
            "ndss-fig10 draft-fig5",
        ),
        (
            "N V-E, D 4.4",
            "Norm-Mul is at least 10 times worse than every other method on the top k.",
            "ndss-fig10 draft-fig5",
        ),
        (
            "N V-E, D 4.4",
            "Norm-Sub is worse than Base on the top k, but better than Norm-Mul.",
            "ndss-fig10 draft-fig5",
        ),
        (
            "N V-E, D 4.4",
            "The MSE of Base-Cut, Norm-Cut and Power grows with k: at ε = 1 about 10 values can be estimated reliably.",
            "ndss-fig10 draft-fig5",
        ),
        (
            "N V-E, D 4.4",
            "Norm-Cut is better than Base-Cut on the top k.",
            "ndss-fig10 draft-fig5",
        ),
        (
            "N V-E",
            "Power and PowerNS are similar, and worse than Base-Cut for k > 10.",
            "ndss-fig10",
        ),
        (
            "D 4.4",
            "Power is worse than Norm-Hyb on US cities for k > 12.",
            "draft-fig5",
        ),
        (
            "D C.1",
            "The data sets have values with high counts; some have heavy tails.",
            "draft-fig6",
        ),
        (
            "D C.2",
            "MAE ranks the methods as MSE does, and Base's is of the order of 1/√n.",
            "draft-fig7",
        ),
        (
            "D C.2",
            "Base-Cut's MAE is 30 to 50 % below Norm-Hyb's.",
            "draft-fig7",
        ),
        (
            "D C.3",
            "Base-Pos's MSE on sets of ρ = 5 is about an order of magnitude above the others'.",
            "draft-fig8",
        ),
        (
            "D C.3",
            "Base-Cut does well on sets where ε is small.",
            "draft-fig8",
        ),
        (
            "D C.4",
            "Base and Base-Pos are the best on the top 10; Base-Cut's MSE is about twice theirs for ε < 1.",
            "draft-fig9",
        ),
        (
            "D C.1",
            "Power does not finish on Kosarak within 4 hours.",
            "draft-fig7 draft-fig8 draft-fig9",
        ),
        (
            "K IV-A",
            "The item frequencies of Kosarak and Retail follow power laws.",
            "calibrate-fig3",
        ),
        (
            "K IV-B",
            "OUE's noise on Kosarak is Gaussian: predicted mean 0 and variance 5,434, fitted -3.2 and 5,405 (printed as "
            "variances, they are standard deviations at ε = 1).",
            "calibrate-fig4",
        ),
        (
            "K IV-B",
            "OUE-Zero and OUE-Calibrate have errors orders of magnitude below OUE's, and OUE-Calibrate the smaller one.",
            "calibrate-fig7",
        ),
        (
            "K IV-B",
            "OUE-Calibrate's error is below OUE-Zero's by 16 % and 97 % (Kosarak, ε = 1 and 5), 2.4 % and 65 % (Retail).",
            "calibrate-fig7",
        ),
        (
            "K IV-B",
            "Zeroing OUE-Calibrate's answer below the significance threshold changes next to nothing.",
            "calibrate-fig7",
        ),
        (
            "K IV-B",
            "OUE-Calibrate has a higher precision, a lower recall and a higher F-score than OUE, for all thresholds and "
            "budgets.",
            "calibrate-fig5 calibrate-fig6 calibrate-fig8 calibrate-fig9",
        ),
        (
            "K IV-B",
            "Its improvement is the larger, the smaller the threshold.",
            "calibrate-fig5 calibrate-fig6",
        ),
        (
            "K IV-B",
            "Below the significance threshold OUE-Zero's precision rises and its recall falls as the threshold falls.",
            "calibrate-fig5 calibrate-fig6",
        ),
    )
)

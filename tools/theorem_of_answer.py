"""Write the Coq file that proves real answers of ldpopt right: two methods on the emoji data.

    python -m tools.theorem_of_answer   # writes ldpopt/proofs/Emoji.v

The estimate and the answers become integers, the checker of ``Checked.v`` runs on them, and its
proof of soundness makes a theorem of what it accepts. `make prove` compiles the file.
"""

from fractions import Fraction
from pathlib import Path
from textwrap import fill

import numpy as np
from numpy.typing import NDArray

from ldpopt import closed_form, datasets
from ldpopt.oracles import OUE
from ldpopt.proofs import FOLDER

Array = NDArray[np.float64]

SEED = 7
EPSILON = 1.0
MOST_DIGITS = 30
"""More than any double has: an exact answer ends the count here."""

WIDTH = 98
"""Of a line of numbers: two more columns are the indent."""


def as_integers(*vectors: Array) -> tuple[int, list[list[int]]]:
    """Return doubles as integers in units of 2**-e, and e: one unit for all vectors.

    Examples
    --------
    >>> as_integers(np.array([0.5, -0.75]), np.array([2.0]))
    (2, [[2, -3], [8]])
    """
    ratios = [[float(x).as_integer_ratio() for x in vector] for vector in vectors]
    # The denominator of a double is a power of two, so that the largest serves all.
    unit = max(denominator for row in ratios for _, denominator in row)
    numbers = [[n * (unit // denominator) for n, denominator in row] for row in ratios]
    return unit.bit_length() - 1, numbers


def water_level(f: list[int], one: int, kappa: Fraction) -> Fraction:
    """Return the exact t with Σ max(f + t, 0) + κt = 1, for f in units of 1/one.

    Examples
    --------
    >>> water_level([50, 20, -1], 100, Fraction(0))
    Fraction(31, 300)
    """
    mass = Fraction(0)
    level = Fraction(0)
    # The right number of positive values is the largest for which the smallest of them is positive.
    for count, value in enumerate(sorted(f, reverse=True), start=1):
        mass += Fraction(value, one)
        candidate = (1 - mass) / (count + kappa)
        if Fraction(value, one) + candidate > 0:
            level = candidate
    return level


def digits_of_accuracy(f: list[int], answer: list[int], one: int, kappa: Fraction) -> int:
    """Return the largest k for which all values are within 10**-k of the exact solution."""
    level = water_level(f, one, kappa)
    exact = [max(Fraction(x, one) + level, Fraction(0)) / (1 - kappa * level) for x in f]
    error = max(abs(Fraction(y, one) - x) for x, y in zip(exact, answer, strict=True))
    digits = 0
    while digits < MOST_DIGITS and error * 10 ** (digits + 1) <= 1:
        digits += 1
    return digits


def integer_list(name: str, numbers: list[int]) -> str:
    """Return the definition of a list of integers, in lines of at most 100 columns."""
    text = fill("; ".join(map(str, numbers)), WIDTH, initial_indent="  ", subsequent_indent="  ")
    return f"Definition {name} : list Z := [\n{text}\n]."


def integer(name: str, value: int) -> str:
    """Return the definition of one integer, however long."""
    # Coq reads numbers without separators: a long one cannot be broken.
    return f"Definition {name} : Z := {value}."


OPENING = """\
(** * A theorem about one answer of a computer

    The emoji data: d = {d} values, n = {n:,} users, reports of OUE with epsilon = {epsilon:g}.  The
    estimate and the two answers below are the doubles that ldpopt computes, as integers in units
    of 1/{unit}.  Written by `python -m tools.theorem_of_answer`; the checker of Checked.v runs
    on them while Coq reads this file. *)

From Coq Require Import Reals Lra ZArith List.
From LdpOpt Require Import Sums NormSub WeightedMLE Checked.
Import ListNotations.
Open Scope Z_scope.

Definition one : Z := {unit}."""

CLS = """\
Lemma norm_sub_accepted :
  check one 0 1 ({num}) {den} (10 ^ {digits}) estimate norm_sub_answer = true.
Proof. vm_compute. reflexivity. Qed.

(** Norm-Sub of the emoji estimate, as computed: every one of the {d} values is within
    10^-{digits} of the only solution to CLS. *)
Theorem computed_norm_sub_solves_cls_on_emoji :
  exists x,
  only_minimiser {d} (simplex {d}) (fun z => dist2 {d} z (in_units one estimate)) x /\\
  length norm_sub_answer = {d}%nat /\\
  distance_at_most {d} (1 / IZR (10 ^ {digits})) (in_units one norm_sub_answer) x.
Proof. exact (accepted_answers_are_near_the_solution_to_cls _ _ _ _ _ _ norm_sub_accepted). Qed."""

MLE = """\
(** The kappa of OUE at this epsilon, the double of ldpopt as a fraction. *)
Definition kn : Z := {kn}.
Definition kd : Z := {kd}.

Lemma mle_apx_accepted :
  check one kn kd mle_num mle_den (10 ^ {digits}) estimate mle_apx_answer = true.
Proof. vm_compute. reflexivity. Qed.

(** MLE-Apx of the emoji estimate, as computed: every one of the {d} values is within
    10^-{digits} of the only solution of the weighted maximum likelihood problem. *)
Theorem computed_mle_apx_solves_mle_on_emoji :
  exists x,
  only_minimiser {d} (simplex {d}) (weighted_loss {d} (IZR kn / IZR kd) (in_units one estimate)) x
  /\\ length mle_apx_answer = {d}%nat
  /\\ distance_at_most {d} (1 / IZR (10 ^ {digits})) (in_units one mle_apx_answer) x.
Proof.
  exact (accepted_answers_are_near_the_solution_to_mle _ _ _ _ _ _ _ _ mle_apx_accepted).
Qed."""


def source() -> str:
    """Return the text of ``Emoji.v``: the same for the same versions of numpy and ldpopt."""
    data = datasets.load("emoji")
    counts = np.asarray(data.counts)
    n = int(counts.sum())
    oracle = OUE(EPSILON, data.d)
    f = oracle.estimate(oracle.simulate_counts(counts, SEED), n).frequencies
    kappa = Fraction(float(oracle.kappa))
    cls_answer = closed_form.norm_sub(f)
    mle_answer = closed_form.mle_apx(f, float(kappa))
    exponent, (estimate, cls, mle) = as_integers(f, cls_answer, mle_answer)
    one = 2**exponent
    # The checker takes t as num/(den one).
    cls_level = water_level(estimate, one, Fraction(0)) * one
    mle_level = water_level(estimate, one, kappa) * one
    cls_digits = digits_of_accuracy(estimate, cls, one, Fraction(0))
    mle_digits = digits_of_accuracy(estimate, mle, one, kappa)
    d = data.d
    parts = [
        OPENING.format(d=d, n=n, epsilon=EPSILON, unit=f"2 ^ {exponent}"),
        integer_list("estimate", estimate),
        integer_list("norm_sub_answer", cls),
        integer_list("mle_apx_answer", mle),
        CLS.format(d=d, num=cls_level.numerator, den=cls_level.denominator, digits=cls_digits),
        integer("mle_num", mle_level.numerator) + "\n" + integer("mle_den", mle_level.denominator),
        MLE.format(d=d, kn=kappa.numerator, kd=kappa.denominator, digits=mle_digits),
    ]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    Path(FOLDER / "Emoji.v").write_text(source(), encoding="utf-8")

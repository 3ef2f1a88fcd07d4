(** * Norm-Sub is the projection onto the distributions

    Norm-Sub (N IV-B) is f' = max(f~ + delta, 0), with the delta for which f' adds up to 1.
    Constrained least squares, CLS (N IV-C), asks for the distribution nearest to f~.
    This file proves that the two are the same, for every d and every f~. *)

From Coq Require Import Reals Lra Lia Psatz.
From LdpOpt Require Import Sums.
Open Scope R_scope.

(** The distributions on d values: no value is negative, and all add up to 1. *)
Definition simplex (d : nat) (y : vector) := every d (fun v => 0 <= y v) /\ total d y = 1.

Definition norm_sub (delta : R) (f : vector) : vector := fun v => Rmax (f v + delta) 0.

(** ** The one inequality that carries the proof

    Of one value: moving from x = max(f + delta, 0) to any y >= 0 raises the squared error by at
    least 2 delta (y - x), the price of the mass that moves, and by (y - x)^2. *)

Lemma price_of_mass f delta y :
  0 <= y ->
  2 * delta * (y - Rmax (f + delta) 0) + (y - Rmax (f + delta) 0) ^ 2
  <= (y - f) ^ 2 - (Rmax (f + delta) 0 - f) ^ 2.
Proof. intro Y. unfold Rmax. destruct Rle_dec; nra. Qed.

Lemma norm_sub_nonneg d delta f : every d (fun v => 0 <= norm_sub delta f v).
Proof. take v V. apply Rmax_r. Qed.

Lemma norm_sub_in_simplex d delta f :
  total d (norm_sub delta f) = 1 -> simplex d (norm_sub delta f).
Proof. intro E. split; [apply norm_sub_nonneg|exact E]. Qed.

(** "Norm-Sub is the solution to CLS", as an inequality of Pythagoras: the triangle of the
    estimate, its Norm-Sub and any distribution y has no acute angle at Norm-Sub.
    In the sum over the values the price of mass cancels, because both add up to 1. *)
Theorem norm_sub_pythagoras d f delta y :
  total d (norm_sub delta f) = 1 -> simplex d y ->
  dist2 d (norm_sub delta f) f + dist2 d y (norm_sub delta f) <= dist2 d y f.
Proof.
  intros E [P S]. set (x := norm_sub delta f) in *.
  assert (H : total d (fun v => 2 * delta * (y v - x v) + (y v - x v) ^ 2)
              <= total d (fun v => (y v - f v) ^ 2 - (x v - f v) ^ 2)).
  { apply total_le. take v V. apply price_of_mass, P, V. }
  rewrite total_plus, total_scale, !total_minus in H. fold (dist2 d y x) in H.
  fold (dist2 d y f) in H. fold (dist2 d x f) in H. rewrite S, E in H. lra.
Qed.

(** N IV-C: "Norm-Sub is the solution to the Constraint Least Square (CLS) formulation".
    For every estimate f~ on any number of values, Norm-Sub is a distribution, no distribution is
    nearer to f~, and every other distribution is farther. *)
Theorem norm_sub_is_the_solution_to_cls d f delta :
  total d (norm_sub delta f) = 1 ->
  only_minimiser d (simplex d) (fun y => dist2 d y f) (norm_sub delta f).
Proof.
  intro E. split; [apply norm_sub_in_simplex, E|]. split; intros y S.
  - pose proof (norm_sub_pythagoras d f delta y E S).
    pose proof (dist2_nonneg d y (norm_sub delta f)). lra.
  - intro H. apply dist2_equal. pose proof (norm_sub_pythagoras d f delta y E S). lra.
Qed.

(** ** There is such a delta, and only one *)

Lemma norm_sub_total_continuous d f : continuity (fun delta => total d (norm_sub delta f)).
Proof.
  apply (total_continuous d (fun delta => norm_sub delta f)). take v V.
  apply (max_continuous (fun delta => f v + delta) (fun _ => 0)); [|apply constant_continuous].
  apply (continuity_plus (fun _ => f v) (fun t => t)).
  - apply constant_continuous.
  - apply identity_continuous.
Qed.

Lemma norm_sub_monotone delta eps f v : delta <= eps -> norm_sub delta f v <= norm_sub eps f v.
Proof. intro H. unfold norm_sub, Rmax. repeat destruct Rle_dec; lra. Qed.

Lemma norm_sub_total_monotone d delta eps f :
  delta <= eps -> total d (norm_sub delta f) <= total d (norm_sub eps f).
Proof. intro H. apply total_le. take v V. apply norm_sub_monotone, H. Qed.

(** Where some mass is left, more shift means more mass. *)
Lemma norm_sub_total_strict d delta eps f :
  delta < eps -> 0 < total d (norm_sub delta f) ->
  total d (norm_sub delta f) < total d (norm_sub eps f).
Proof.
  intros L P. destruct (total_positive _ _ P) as [v [V F]].
  apply (total_lt d _ _ v); [|exact V|].
  - take w _. apply norm_sub_monotone. lra.
  - unfold norm_sub, Rmax in *. repeat destruct Rle_dec; lra.
Qed.

(** Shifts by minus the largest value leave no mass, and shifts by c more leave at least c. *)
Lemma norm_sub_no_mass d delta f :
  every d (fun v => f v + delta <= 0) -> total d (norm_sub delta f) = 0.
Proof. intro H. apply total_zero. take v V. apply Rmax_right, H, V. Qed.

Lemma norm_sub_some_mass d delta f v :
  (v < d)%nat -> f v + delta <= total d (norm_sub delta f).
Proof.
  intro V. pose proof (total_member d _ v V (norm_sub_nonneg d delta f)).
  pose proof (Rmax_l (f v + delta) 0). unfold norm_sub in *. lra.
Qed.

(** N IV-B: "we want to find delta such that" the values add up to 1.  On a domain that is not
    empty it exists for every estimate: the sum is continuous in delta, 0 for small delta and
    at least 1 for large ones. *)
Theorem delta_exists d f : (0 < d)%nat -> exists delta, total d (norm_sub delta f) = 1.
Proof.
  intro D. destruct (largest d f D) as [w [W M]].
  destruct (between (fun t => total d (norm_sub t f)) (- f w) (1 - f w) 1) as [t [_ E]].
  - apply norm_sub_total_continuous.
  - lra.
  - rewrite norm_sub_no_mass by (take v V; pose proof (M v V); lra).
    pose proof (norm_sub_some_mass d (1 - f w) f w W). lra.
  - exists t. exact E.
Qed.

(** The delta of Norm-Sub is unique, so that "the delta we want to find" (N IV-C) is one number. *)
Theorem delta_is_unique d f delta eps :
  total d (norm_sub delta f) = 1 -> total d (norm_sub eps f) = 1 -> delta = eps.
Proof.
  intros A B. destruct (Rtotal_order delta eps) as [L|[E|L]]; [|exact E|].
  - pose proof (norm_sub_total_strict d delta eps f L ltac:(lra)). lra.
  - pose proof (norm_sub_total_strict d eps delta f L ltac:(lra)). lra.
Qed.

(** N IV-C: the printed delta = -(sum over D1 of f~, minus 1)/|D1|, where D1 holds the values that
    stay positive.  Here |D1| and the sum over D1 are written with 1 and f~ on D1, 0 elsewhere;
    the equation is multiplied by |D1|, which is not 0. *)
Theorem delta_has_the_printed_form d f delta :
  total d (norm_sub delta f) = 1 ->
  let on (x : vector) := total d (fun v => if Rlt_dec 0 (f v + delta) then x v else 0) in
  0 < on (fun _ => 1) /\ delta * on (fun _ => 1) = - (on f - 1).
Proof.
  intros E on. assert (S : on f + delta * on (fun _ => 1) = 1).
  { unfold on. rewrite <- total_scale, <- total_plus. symmetry. rewrite <- E at 1.
    symmetry. apply total_ext. take v V.
    unfold norm_sub, Rmax. destruct Rlt_dec, Rle_dec; lra. }
  split; [|lra]. destruct (total_positive d (norm_sub delta f) ltac:(lra)) as [v [V P]].
  assert (O : every d (fun v => 0 <= if Rlt_dec 0 (f v + delta) then 1 else 0)).
  { take w _. destruct Rlt_dec; lra. }
  pose proof (total_member d _ v V O) as M. unfold on, norm_sub, Rmax in *. cbv beta in M.
  destruct (Rlt_dec 0 (f v + delta)), (Rle_dec (f v + delta) 0); lra.
Qed.

(** ** What Norm-Sub keeps *)

(** N IV-F: "all of the methods preserve the frequency order of the value", in the direction that
    is true: a value with a larger estimate does not get a smaller answer. *)
Theorem order_is_preserved f delta v w : f v <= f w -> norm_sub delta f v <= norm_sub delta f w.
Proof. intro H. unfold norm_sub, Rmax. repeat destruct Rle_dec; lra. Qed.

(** N IV-F prints "iff".  That is true of the values that stay positive, and false of the others:
    two different estimates can both become 0. *)
Theorem order_is_preserved_iff_positive f delta v w :
  0 < norm_sub delta f v -> (f v <= f w <-> norm_sub delta f v <= norm_sub delta f w).
Proof. unfold norm_sub, Rmax. intro P. repeat destruct Rle_dec; lra. Qed.

(** The counterexample to the printed "iff": (1, -1, -2) is a case in which two values become 0
    and only one of the two comparisons holds. *)
Theorem order_iff_is_false :
  exists d f delta v w, total d (norm_sub delta f) = 1 /\ (v < d)%nat /\ (w < d)%nat /\
  norm_sub delta f v <= norm_sub delta f w /\ ~ f v <= f w.
Proof.
  exists 3%nat, (fun v => match v with 0%nat => 1 | 1%nat => -1 | _ => -2 end), 0, 1%nat, 2%nat.
  unfold norm_sub. simpl. unfold Rmax. repeat destruct Rle_dec; repeat split; try lia; lra.
Qed.

(** Idempotence: an estimate that is a distribution already is not changed, so that Norm-Sub of
    Norm-Sub is Norm-Sub. *)
Theorem norm_sub_is_idempotent d x delta :
  simplex d x -> total d (norm_sub delta x) = 1 -> every d (fun v => norm_sub delta x v = x v).
Proof.
  intros S E. apply dist2_equal. pose proof (norm_sub_pythagoras d x delta x E S) as H.
  rewrite dist2_self in H. pose proof (dist2_nonneg d x (norm_sub delta x)). lra.
Qed.

(** Norm-Sub never moves an estimate away from the truth, whatever the noise was: its squared
    error is smaller than the estimate's, by at least the square of the step that it takes. *)
Theorem norm_sub_never_increases_the_error d f delta truth :
  total d (norm_sub delta f) = 1 -> simplex d truth ->
  dist2 d truth (norm_sub delta f) <= dist2 d truth f - dist2 d (norm_sub delta f) f.
Proof. intros E S. pose proof (norm_sub_pythagoras d f delta truth E S). lra. Qed.

(** ** The words of N IV-B are another method

    "Convert negative values to 0, while maintaining overall sum of 1 by adding delta to each
    remaining value": a value that was made 0 does not come back, even if delta is positive. *)

Definition zero_negatives_first (delta : R) (f : vector) : vector :=
  fun v => if Rlt_dec (f v) 0 then 0 else Rmax (f v + delta) 0.

(** For f~ = (0.5, 0.2, -0.01) the words give (0.65, 0.35, 0), and this is not the solution to
    CLS: a distribution exists that is nearer to f~. *)
Theorem zeroing_first_is_not_the_projection :
  exists f delta y, total 3 (zero_negatives_first delta f) = 1 /\ simplex 3 y /\
  dist2 3 y f < dist2 3 (zero_negatives_first delta f) f.
Proof.
  exists (fun v => match v with 0%nat => 1/2 | 1%nat => 1/5 | _ => -1/100 end), (3/20).
  exists (fun v => match v with 0%nat => 181/300 | 1%nat => 91/300 | _ => 28/300 end).
  unfold dist2, zero_negatives_first, simplex, every. simpl. unfold Rmax.
  repeat destruct Rlt_dec; try lra. repeat destruct Rle_dec; try lra.
  repeat split; try lra. take v V. destruct v as [|[|v]]; lra.
Qed.

(** The words and the formula agree wherever the positive estimates add up to at least 1:
    delta is then not positive, and a negative value stays 0. *)
Theorem zeroing_first_is_right_for_enough_mass d f delta :
  total d (norm_sub delta f) = 1 -> 1 <= total d (fun v => Rmax (f v) 0) ->
  every d (fun v => zero_negatives_first delta f v = norm_sub delta f v).
Proof.
  intros E M v _. assert (N : delta <= 0).
  { destruct (Rle_dec delta 0) as [L|L]; [exact L|exfalso].
    assert (Z : total d (norm_sub 0 f) = total d (fun v => Rmax (f v) 0)).
    { apply total_ext. take w _. unfold norm_sub. rewrite Rplus_0_r. reflexivity. }
    pose proof (norm_sub_total_strict d 0 delta f ltac:(lra) ltac:(lra)). lra. }
  unfold zero_negatives_first, norm_sub, Rmax. destruct Rlt_dec, Rle_dec; lra.
Qed.

(** They disagree at every negative value that Norm-Sub raises above 0. *)
Theorem zeroing_first_loses_raised_values f delta v :
  f v < 0 -> 0 < norm_sub delta f v -> zero_negatives_first delta f v < norm_sub delta f v.
Proof. intros N P. unfold zero_negatives_first. destruct Rlt_dec; lra. Qed.

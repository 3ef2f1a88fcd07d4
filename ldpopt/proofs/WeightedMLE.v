(** * MLE-Apx solves the weighted maximum likelihood problem

    N IV-D takes the noise of value v to be Gaussian with a variance that grows with f'_v, in
    proportion to 1 + kappa f'_v.  Maximum likelihood then minimises the sum of
    (f'_v - f~_v)^2/(1 + kappa f'_v) over the distributions; MLE-Apx is its solution,
    f' = max(f~ + t, 0)/(1 - kappa t).  Everything here holds for every kappa > -1. *)

From Coq Require Import Reals Lra Lia Psatz.
From LdpOpt Require Import Sums NormSub.
Open Scope R_scope.

Definition weighted_square (kappa f y : R) := (y - f) ^ 2 / (1 + kappa * y).

Definition weighted_loss (d : nat) (kappa : R) (f y : vector) :=
  total d (fun v => weighted_square kappa (f v) (y v)).

(** MLE-Apx for a given t, and the equation of the right t. *)
Definition mle_apx (kappa t : R) (f : vector) : vector := fun v => norm_sub t f v / (1 - kappa * t).

Definition level (d : nat) (kappa : R) (f : vector) (t : R) :=
  total d (norm_sub t f) = 1 - kappa * t /\ 0 < 1 - kappa * t.

(** Estimates whose variance is positive: all those that come from support counts, see below. *)
Definition in_domain (d : nat) (kappa : R) (f : vector) := every d (fun v => 0 < 1 + kappa * f v).

(** ** One value

    As in NormSub.v: away from the answer x, the loss rises by a price of mass, t (2 - kappa t)
    per unit, and by a square. *)

Lemma price_of_weighted_mass kappa t f y :
  0 < 1 - kappa * t -> 0 < 1 + kappa * f -> 0 <= y -> 0 < 1 + kappa * y ->
  let x := Rmax (f + t) 0 / (1 - kappa * t) in
  t * (2 - kappa * t) * (y - x) + (1 - kappa * t) ^ 2 * ((y - x) ^ 2 / (1 + kappa * y))
  <= weighted_square kappa f y - weighted_square kappa f x.
Proof.
  intros S F Y V x. unfold x, weighted_square, Rmax. destruct (Rle_dec (f + t) 0) as [N|P].
  - replace (0 / (1 - kappa * t)) with 0 by (field; lra).
    replace ((0 - f) ^ 2 / (1 + kappa * 0)) with (f ^ 2) by (field; lra).
    assert (E : (y - f) ^ 2 / (1 + kappa * y) - f ^ 2
                - (t * (2 - kappa * t) * (y - 0)
                   + (1 - kappa * t) ^ 2 * ((y - 0) ^ 2 / (1 + kappa * y)))
                = y * (- (f + t) * ((1 + kappa * f) + (1 - kappa * t))) * / (1 + kappa * y))
      by (field; lra).
    assert (0 <= y * (- (f + t) * ((1 + kappa * f) + (1 - kappa * t))) * / (1 + kappa * y)).
    { apply Rmult_le_pos; [|left; apply Rinv_0_lt_compat, V].
      apply Rmult_le_pos; [exact Y|]. apply Rmult_le_pos; lra. }
    lra.
  - assert (E : (y - f) ^ 2 / (1 + kappa * y)
                - ((f + t) / (1 - kappa * t) - f) ^ 2 / (1 + kappa * ((f + t) / (1 - kappa * t)))
                = t * (2 - kappa * t) * (y - (f + t) / (1 - kappa * t))
                  + (1 - kappa * t) ^ 2 * ((y - (f + t) / (1 - kappa * t)) ^ 2 / (1 + kappa * y))).
    { field. repeat split; lra. }
    lra.
Qed.

(** ** All values *)

Lemma distributions_are_in_the_domain d kappa y : -1 < kappa -> simplex d y -> in_domain d kappa y.
Proof.
  intros K [P S] v V. pose proof (P v V). pose proof (total_member d y v V P).
  rewrite S in *. destruct (Rle_dec 0 kappa); nra.
Qed.

Lemma mle_apx_in_simplex d kappa f t : level d kappa f t -> simplex d (mle_apx kappa t f).
Proof.
  intros [E S]. split.
  - take v V. apply Rmult_le_pos; [apply Rmax_r|]. left. apply Rinv_0_lt_compat, S.
  - transitivity (/ (1 - kappa * t) * total d (norm_sub t f)).
    + rewrite <- total_scale. apply total_ext. take v V. unfold mle_apx, Rdiv. ring.
    + rewrite E. field. lra.
Qed.

(** The loss of any distribution y exceeds that of MLE-Apx by at least a weighted square of the
    distance between the two; the prices of mass cancel in the sum. *)
Theorem mle_apx_excess d kappa f t y :
  -1 < kappa -> in_domain d kappa f -> level d kappa f t -> simplex d y ->
  weighted_loss d kappa f (mle_apx kappa t f)
  + (1 - kappa * t) ^ 2 * total d (fun v => (y v - mle_apx kappa t f v) ^ 2 / (1 + kappa * y v))
  <= weighted_loss d kappa f y.
Proof.
  intros K F L S. pose proof (mle_apx_in_simplex d kappa f t L) as [_ X].
  pose proof (distributions_are_in_the_domain d kappa y K S) as V. destruct S as [P Y].
  destruct L as [_ L]. set (x := mle_apx kappa t f) in *.
  assert (H : total d (fun v => t * (2 - kappa * t) * (y v - x v)
                                + (1 - kappa * t) ^ 2 * ((y v - x v) ^ 2 / (1 + kappa * y v)))
              <= total d (fun v => weighted_square kappa (f v) (y v)
                                   - weighted_square kappa (f v) (x v))).
  { apply total_le. take v D. apply price_of_weighted_mass; auto. }
  rewrite total_plus, !total_scale, !total_minus, X, Y in H.
  unfold weighted_loss. lra.
Qed.

(** N IV-D and Appendix B: MLE-Apx solves the weighted maximum likelihood problem.
    It is a distribution, no distribution has a smaller loss, and every other one has a larger
    loss. *)
Theorem mle_apx_is_the_solution_to_mle d kappa f t :
  -1 < kappa -> in_domain d kappa f -> level d kappa f t ->
  only_minimiser d (simplex d) (weighted_loss d kappa f) (mle_apx kappa t f).
Proof.
  intros K F L. split; [apply mle_apx_in_simplex, L|].
  assert (N : forall y, simplex d y ->
              every d (fun v => 0 <= (y v - mle_apx kappa t f v) ^ 2 / (1 + kappa * y v))).
  { intros y S v V. pose proof (distributions_are_in_the_domain d kappa y K S v V).
    apply Rmult_le_pos; [apply pow2_ge_0|]. left. apply Rinv_0_lt_compat. assumption. }
  pose proof (proj2 L) as P. assert (Q : 0 < (1 - kappa * t) ^ 2) by (apply pow_lt; exact P).
  split; intros y S.
  - pose proof (mle_apx_excess d kappa f t y K F L S).
    pose proof (total_nonneg _ _ (N y S)). nra.
  - intros H v V. pose proof (mle_apx_excess d kappa f t y K F L S) as E.
    assert (Z : total d (fun v => (y v - mle_apx kappa t f v) ^ 2 / (1 + kappa * y v)) <= 0)
      by nra.
    pose proof (total_each_zero _ _ (N y S) Z v V) as W. simpl in W.
    pose proof (distributions_are_in_the_domain d kappa y K S v V) as D. simpl in D.
    assert (U : (y v - mle_apx kappa t f v) ^ 2 = 0).
    { replace ((y v - mle_apx kappa t f v) ^ 2)
        with ((y v - mle_apx kappa t f v) ^ 2 / (1 + kappa * y v) * (1 + kappa * y v))
        by (field; lra). simpl. rewrite W. ring. }
    nra.
Qed.

(** ** There is such a t, and only one *)

(** Shifting by more adds at least the shift wherever some mass was left. *)
Lemma norm_sub_total_rise d t s f :
  t <= s -> 0 < total d (norm_sub t f) ->
  total d (norm_sub t f) + (s - t) <= total d (norm_sub s f).
Proof.
  intros L P. destruct (total_positive _ _ P) as [w [W F]].
  assert (N : every d (fun v => 0 <= norm_sub s f v - norm_sub t f v)).
  { take v V. pose proof (norm_sub_monotone t s f v L). lra. }
  pose proof (total_member d _ w W N) as M. rewrite total_minus in M. simpl in M.
  unfold norm_sub in F, M at 1 2. unfold Rmax in *. repeat destruct Rle_dec; lra.
Qed.

(** The t of MLE-Apx exists for every estimate in the domain, and 1 - kappa t > 0 for it: a root
    of a continuous function that is negative at minus the largest estimate. *)
Theorem t_exists d kappa f :
  (0 < d)%nat -> -1 < kappa -> in_domain d kappa f -> exists t, level d kappa f t.
Proof.
  intros D K F. destruct (largest d f D) as [w [W M]]. pose proof (F w W) as P. simpl in P.
  set (rise := (1 + kappa * f w) / (1 + kappa)).
  assert (R : 0 < rise) by (apply Rmult_lt_0_compat; [lra|apply Rinv_0_lt_compat; lra]).
  assert (E : rise * (1 + kappa) = 1 + kappa * f w) by (unfold rise; field; lra).
  destruct (between (fun t => total d (norm_sub t f) + kappa * t) (- f w) (rise - f w) 1)
    as [t [[A B] T]].
  - apply (continuity_plus (fun t => total d (norm_sub t f)) (fun t => kappa * t)).
    + apply norm_sub_total_continuous.
    + apply (continuity_mult (fun _ => kappa) (fun t => t)).
      * apply constant_continuous.
      * apply identity_continuous.
  - lra.
  - pose proof (norm_sub_some_mass d (rise - f w) f w W). split; [|nra].
    rewrite norm_sub_no_mass; [lra|]. take v V. pose proof (M v V). lra.
  - exists t. assert (T' : total d (norm_sub t f) = 1 - kappa * t) by lra. split; [exact T'|].
    rewrite <- T'. destruct (Rle_dec (f w + t) 0) as [Z|Z].
    + (* t would be minus the largest estimate, where nothing is left: not a root *)
      rewrite norm_sub_no_mass in T' by (take v V; pose proof (M v V); lra).
      assert (t = - f w) by lra. subst t. lra.
    + pose proof (norm_sub_some_mass d t f w W). lra.
Qed.

(** One t only.  The condition 1 - kappa t > 0 is needed: for kappa < 0 the equation has a second
    root, t = 1/kappa, at which both sides are 0. *)
Theorem t_is_unique d kappa f t s :
  -1 < kappa -> level d kappa f t -> level d kappa f s -> t = s.
Proof.
  intros K [A P] [B Q]. destruct (Rtotal_order t s) as [L|[E|L]]; [|exact E|].
  - pose proof (norm_sub_total_rise d t s f ltac:(lra) ltac:(lra)). nra.
  - pose proof (norm_sub_total_rise d s t f ltac:(lra) ltac:(lra)). nra.
Qed.

(** N IV-F for MLE-Apx: the order of the estimates is preserved. *)
Theorem mle_apx_preserves_order kappa t f v w :
  0 < 1 - kappa * t -> f v <= f w -> mle_apx kappa t f v <= mle_apx kappa t f w.
Proof.
  intros S H. apply Rmult_le_compat_r; [left; apply Rinv_0_lt_compat, S|].
  apply order_is_preserved, H.
Qed.

(** ** The papers' own symbols

    A value is supported by the reports of its own users with probability p and by others with
    q < p.  In these symbols kappa = (p - q)(1 - p - q)/(q (1 - q)). *)

Definition kappa_of (p q : R) := (p - q) * (1 - p - q) / (q * (1 - q)).

(** 1 + kappa = p (1 - p)/(q (1 - q)), so that kappa > -1 for every protocol. *)
Theorem kappa_is_above_minus_one p q : 0 < q < p -> p < 1 -> -1 < kappa_of p q.
Proof.
  intros Q P. assert (E : kappa_of p q + 1 = p * (1 - p) / (q * (1 - q))).
  { unfold kappa_of. field. lra. }
  assert (0 < p * (1 - p) / (q * (1 - q))).
  { apply Rmult_lt_0_compat; [nra|]. apply Rinv_0_lt_compat. nra. }
  lra.
Qed.

(** Every estimate (c/n - q)/(p - q) from a support count 0 <= c <= n is in the domain. *)
Theorem counts_give_estimates_in_the_domain p q share :
  0 < q < p -> p < 1 -> 0 <= share <= 1 -> 0 < 1 + kappa_of p q * ((share - q) / (p - q)).
Proof.
  intros Q P C.
  assert (E : 1 + kappa_of p q * ((share - q) / (p - q))
              = ((1 - share) * (p * q) + share * ((1 - p) * (1 - q))) / (q * (1 - q))).
  { unfold kappa_of. field. lra. }
  rewrite E. apply Rmult_lt_0_compat; [|apply Rinv_0_lt_compat; nra].
  assert (0 < p * q) by nra. assert (0 < (1 - p) * (1 - q)) by nra.
  destruct (Rle_dec share (1/2)); nra.
Qed.

(** The loss that N Appendix B minimises is the weighted loss of this file times a constant, so
    that both have the same minimiser. *)
Theorem printed_loss_is_the_weighted_loss d p q f y :
  0 < q < p -> p < 1 -> simplex d y ->
  total d (fun v => (y v - f v) ^ 2 * (p - q) ^ 2 / (q * (1 - q) + y v * (p - q) * (1 - p - q)))
  = (p - q) ^ 2 / (q * (1 - q)) * weighted_loss d (kappa_of p q) f y.
Proof.
  intros Q P S. unfold weighted_loss. rewrite <- total_scale. apply total_ext. take v V.
  pose proof (distributions_are_in_the_domain d _ y (kappa_is_above_minus_one p q Q P) S v V) as D.
  simpl in D. assert (W : 0 < q * (1 - q)) by nra.
  assert (E : q * (1 - q) + y v * (p - q) * (1 - p - q)
              = q * (1 - q) * (1 + kappa_of p q * y v)).
  { unfold kappa_of. field. lra. }
  rewrite E. unfold weighted_square. field. lra.
Qed.

(** N Eq. 12 is right in its first form: with t = x_v q (1 - q)/(p - q) it is MLE-Apx wherever
    MLE-Apx is positive. *)
Theorem equation_12_is_mle_apx p q f x v :
  0 < q < p -> p < 1 ->
  let t := x * (q * (1 - q)) / (p - q) in
  0 < 1 - kappa_of p q * t -> 0 <= f v + t ->
  mle_apx (kappa_of p q) t f v
  = (q * (1 - q) * x + f v * (p - q)) / ((p - q) - (p - q) * (1 - p - q) * x).
Proof.
  intros Q P t S A. unfold mle_apx, norm_sub. rewrite Rmax_left by exact A.
  assert (E : kappa_of p q * t = (1 - p - q) * x) by (unfold kappa_of, t; field; lra).
  rewrite E in *. unfold t. field. split; nra.
Qed.

(** The x_v that ends N Appendix B has a wrong sign.  With S the sum of the estimates over D1 and
    n1 = |D1|, summing Eq. 12 over D1 to 1 gives the x of the theorem; the printed one equals it
    only if S = 1 or p + q = 1 (both parts of kappa = 0). *)
Theorem printed_x_is_wrong p q S n1 x :
  0 < q < p -> p < 1 -> 1 <= n1 -> (p - q) * (1 - p - q) - n1 * (q * (1 - q)) <> 0 ->
  n1 * (q * (1 - q)) * x + S * (p - q) = (p - q) - (p - q) * (1 - p - q) * x ->
  x = (S * (p - q) - (p - q)) / ((p - q) * (1 - p - q) - n1 * (q * (1 - q))) ->
  S = 1 \/ p + q = 1.
Proof.
  intros Q P N Z E X.
  assert (X' : x * ((p - q) * (1 - p - q) - n1 * (q * (1 - q))) = (S - 1) * (p - q)).
  { rewrite X. field. exact Z. }
  assert (H : x * ((p - q) * (1 - p - q)) = 0) by lra.
  apply Rmult_integral in H. destruct H as [H|H].
  - left. subst x. rewrite H in X'. nra.
  - right. apply Rmult_integral in H. destruct H; lra.
Qed.

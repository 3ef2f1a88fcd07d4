(** * How close MLE-Apx and Norm-Sub are

    N IV-D: "In evaluation, we observe that Norm-Sub and MLE-Apx give very close results".  This
    file proves how close: both the shift and the rescaling move at most |kappa t|. *)

From Coq Require Import Reals Lra Lia Psatz.
From LdpOpt Require Import Sums NormSub WeightedMLE.
Open Scope R_scope.

(** Of two shifts the larger one gives the larger values, and the distance is the extra mass. *)
Lemma distance_of_shifts d t s f :
  t <= s ->
  dist1 d (norm_sub s f) (norm_sub t f) = total d (norm_sub s f) - total d (norm_sub t f).
Proof.
  intro L. rewrite <- total_minus. apply total_ext. take v V.
  pose proof (norm_sub_monotone t s f v L). rewrite Rabs_right; lra.
Qed.

Lemma distance_of_rescaling d kappa t f :
  level d kappa f t -> dist1 d (mle_apx kappa t f) (norm_sub t f) = Rabs (kappa * t).
Proof.
  intros [E S]. transitivity (Rabs (kappa * t) / (1 - kappa * t) * total d (norm_sub t f)).
  - unfold dist1. rewrite <- total_scale. apply total_ext. take v V. unfold mle_apx.
    replace (norm_sub t f v / (1 - kappa * t) - norm_sub t f v)
      with (kappa * t * (norm_sub t f v / (1 - kappa * t))) by (field; lra).
    rewrite Rabs_mult, (Rabs_right (_ / _)); [field; lra|].
    apply Rle_ge, Rmult_le_pos; [apply Rmax_r|]. left. apply Rinv_0_lt_compat, S.
  - rewrite E. field. lra.
Qed.

(** The distance between the solutions of MLE and CLS, in the sum of absolute differences, is at
    most 2 |kappa t|, for every estimate in the domain and every kappa > -1.
    This is what "very close results" (N IV-D) comes to: t is small wherever the noise is. *)
Theorem mle_is_near_cls d kappa f t delta :
  level d kappa f t -> total d (norm_sub delta f) = 1 ->
  dist1 d (mle_apx kappa t f) (norm_sub delta f) <= 2 * Rabs (kappa * t).
Proof.
  intros L D. pose proof (distance_of_rescaling d kappa t f L) as A. destruct L as [E S].
  assert (B : dist1 d (norm_sub t f) (norm_sub delta f) = Rabs (kappa * t)).
  { destruct (Rle_dec t delta) as [H|H].
    - pose proof (norm_sub_total_monotone d t delta f H).
      rewrite dist1_symmetric, distance_of_shifts, D, E by exact H. rewrite Rabs_right; lra.
    - assert (H' : delta <= t) by lra. pose proof (norm_sub_total_monotone d delta t f H').
      rewrite distance_of_shifts, D, E by exact H'. rewrite Rabs_left1; lra. }
  pose proof (dist1_triangle d (mle_apx kappa t f) (norm_sub t f) (norm_sub delta f)). lra.
Qed.

(** For kappa >= 0 the t of MLE-Apx is not larger than the delta of Norm-Sub, so that the distance
    is at most 2 kappa |delta| as well, a bound that needs no solution of the MLE. *)
Theorem mle_is_near_cls_by_delta d kappa f t delta :
  0 <= kappa -> level d kappa f t -> total d (norm_sub delta f) = 1 ->
  dist1 d (mle_apx kappa t f) (norm_sub delta f) <= 2 * (kappa * Rabs delta).
Proof.
  intros K L D. pose proof (mle_is_near_cls d kappa f t delta L D) as H.
  rewrite Rabs_mult, (Rabs_right kappa) in H by lra. destruct L as [E S].
  assert (T : Rabs t <= Rabs delta).
  { destruct (Rle_dec t delta) as [C|C].
    - destruct (Rle_dec 0 t) as [P|P]; [rewrite !Rabs_right; lra|].
      (* t < 0 would leave a sum of at least 1 with a smaller shift *)
      assert (t = delta); [|subst; lra]. destruct C as [C|C]; [exfalso|exact C].
      pose proof (norm_sub_total_strict d t delta f C ltac:(nra)). nra.
    - assert (C' : delta < t) by lra.
      destruct (Rle_dec t 0) as [P|P]; [rewrite !Rabs_left1; lra|exfalso].
      pose proof (norm_sub_total_strict d delta t f C' ltac:(lra)). nra. }
  pose proof (Rmult_le_compat_l kappa _ _ K T). lra.
Qed.

(** N IV-D: "the CLS formulation is equivalent to our MLE formulation" where the variance does not
    depend on the frequency: kappa = 0, as for symmetric unary encoding, where p + q = 1.
    Norm-Sub and MLE-Apx are then one answer. *)
Theorem identical_for_constant_variance t f v : mle_apx 0 t f v = norm_sub t f v.
Proof. unfold mle_apx. field. Qed.

(** Symmetric protocols, with p + q = 1, have kappa = 0: SUE for every d, and GRR on two values. *)
Theorem symmetric_protocols_have_constant_variance p q : p + q = 1 -> kappa_of p q = 0.
Proof. intro E. unfold kappa_of. replace (1 - p - q) with 0 by lra. unfold Rdiv. ring. Qed.

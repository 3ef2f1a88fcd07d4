(** * The papers' derivations, line by line

    N Appendices A and B and D Appendices A and B derive Norm-Sub and MLE-Apx by calculation.  This
    file has their lines as theorems, for all p, q and estimates.  What is false in them is in
    KKT.v and at the end of WeightedMLE.v. *)

From Coq Require Import Reals Lra Lia Psatz.
From LdpOpt Require Import Sums ActiveSet.
Open Scope R_scope.

(** The printed denominator of the target: n (p - q)^2 times the variance of N Eq. 5. *)
Definition printed_variance (p q y : R) := q * (1 - q) + y * (p - q) * (1 - p - q).

Definition printed_term (p q f y : R) := (y - f) ^ 2 * (p - q) ^ 2 / printed_variance p q y.

(** ** Norm-Sub *)

(** N Appendix A: stationarity without lambda on D1, 0 elsewhere, and a sum of 1 give
    f' = f~ - (sum over D1 of f~, minus 1)/|D1| on D1. *)
Theorem cls_on_D1 d f y (D1 : nat -> bool) mu v :
  every d (fun w => if D1 w then 2 * (y w - f w) + mu = 0 else y w = 0) ->
  total d y = 1 -> (v < d)%nat -> D1 v = true ->
  y v = f v - (total_on d D1 f - 1) / total_on d D1 (fun _ => 1).
Proof.
  intros S E V I.
  assert (Q : total_on d D1 f - mu / 2 * total_on d D1 (fun _ => 1) = 1).
  { transitivity (total d y); [|exact E]. unfold total_on. rewrite <- total_scale, <- total_minus. apply total_ext.
    take w W. pose proof (S w W) as H. cbv beta in H. destruct (D1 w); lra. }
  assert (N : 0 < total_on d D1 (fun _ => 1)).
  { assert (O : every d (fun w => 0 <= if D1 w then 1 else 0)).
    { take w W. destruct (D1 w); lra. }
    pose proof (total_member d _ v V O) as M. cbv beta in M. rewrite I in M.
    unfold total_on. lra. }
  pose proof (S v V) as H. cbv beta in H. rewrite I in H.
  replace (total_on d D1 f - 1) with (mu / 2 * total_on d D1 (fun _ => 1)) by lra.
  field_simplify; lra.
Qed.

(** ** The target of the weighted maximum likelihood problem *)

(** D Appendix A uses p (1 - p) - q (1 - q) and N (p - q)(1 - p - q): they are the same. *)
Theorem both_slopes_are_the_same p q : p * (1 - p) - q * (1 - q) = (p - q) * (1 - p - q).
Proof. ring. Qed.

(** N Appendix B and D Eq. 13: with the variance of N Eq. 5, the exponent (f' - f~)^2/(2 sigma^2) is
    n/2 times the printed term, which in terms of c/n is D's. *)
Theorem the_exponent_has_the_printed_form n p q share y :
  0 < n -> q < p -> 0 < printed_variance p q y ->
  let f := (share - q) / (p - q) in
  let variance := printed_variance p q y / (n * (p - q) ^ 2) in
  (y - f) ^ 2 / (2 * variance) = n / 2 * printed_term p q f y /\
  printed_term p q f y = (share - q - (p - q) * y) ^ 2 / printed_variance p q y.
Proof.
  intros N Q V f variance. unfold variance, printed_term, f. split; field; repeat split; lra.
Qed.

(** N Appendix B: the derivative of the target in f'_v, as printed. *)
Theorem the_derivative_has_the_printed_form p q f y :
  printed_variance p q y <> 0 ->
  derivable_pt_lim (printed_term p q f) y
    (- ((y - f) ^ 2 * (p - q) ^ 2 * ((p - q) * (1 - p - q))) / printed_variance p q y ^ 2
     + 2 * (y - f) * (p - q) ^ 2 / printed_variance p q y).
Proof.
  intro V.
  assert (T : derivable_pt_lim (fun z => (z - f) ^ 2 * (p - q) ^ 2) y
                (2 * (y - f) * (p - q) ^ 2)).
  { replace (2 * (y - f) * (p - q) ^ 2)
      with (((1 - 0) * (y - f) + (y - f) * (1 - 0)) * (p - q) ^ 2
            + (y - f) * (y - f) * 0) by ring.
    apply (derivable_pt_lim_ext (fun z => (z - f) * (z - f) * (p - q) ^ 2));
      [intro z; ring|].
    apply (derivable_pt_lim_mult (fun z => (z - f) * (z - f)) (fun _ => (p - q) ^ 2));
      [|apply derivable_pt_lim_const].
    assert (L : derivable_pt_lim (fun z => z - f) y (1 - 0)).
    { apply (derivable_pt_lim_minus (fun z => z) (fun _ => f));
        [apply derivable_pt_lim_id|apply derivable_pt_lim_const]. }
    apply (derivable_pt_lim_mult (fun z => z - f) (fun z => z - f)); exact L. }
  assert (B : derivable_pt_lim (printed_variance p q) y ((p - q) * (1 - p - q))).
  { replace ((p - q) * (1 - p - q))
      with (0 + (1 * ((p - q) * (1 - p - q)) + y * 0)) by ring.
    apply (derivable_pt_lim_ext (fun z => q * (1 - q) + z * ((p - q) * (1 - p - q))));
      [intro z; unfold printed_variance; ring|].
    apply (derivable_pt_lim_plus (fun _ => q * (1 - q)) (fun z => z * ((p - q) * (1 - p - q))));
      [apply derivable_pt_lim_const|].
    apply (derivable_pt_lim_mult (fun z => z) (fun _ => (p - q) * (1 - p - q)));
      [apply derivable_pt_lim_id|apply derivable_pt_lim_const]. }
  pose proof (derivable_pt_lim_div _ _ y _ _ T B V) as D.
  match type of D with derivable_pt_lim _ _ ?slope =>
    replace (- ((y - f) ^ 2 * (p - q) ^ 2 * ((p - q) * (1 - p - q))) / printed_variance p q y ^ 2
             + 2 * (y - f) * (p - q) ^ 2 / printed_variance p q y) with slope
  end; [exact D|]. unfold Rsqr. field. exact V.
Qed.

(** D Appendix A: the same derivative in terms of c/n. *)
Theorem the_drafts_derivative_is_the_same p q share y :
  q < p -> printed_variance p q y <> 0 ->
  let f := (share - q) / (p - q) in
  - ((y - f) ^ 2 * (p - q) ^ 2 * ((p - q) * (1 - p - q))) / printed_variance p q y ^ 2
  + 2 * (y - f) * (p - q) ^ 2 / printed_variance p q y
  = - ((share - q - y * (p - q)) ^ 2 * (p * (1 - p) - q * (1 - q))) / printed_variance p q y ^ 2
    - 2 * (share - q - y * (p - q)) * (p - q) / printed_variance p q y.
Proof. intros Q V f. unfold f. field. split; [exact V|lra]. Qed.

(** N Eq. 15: with x_v = (f' - f~)(p - q)/V, the printed derivative plus mu + lambda is 0 exactly
    if (p - q)(1 - p - q) x^2 - 2 (p - q) x - mu - lambda = 0. *)
Theorem equation_15_is_stationarity p q f y mu lambda :
  printed_variance p q y <> 0 ->
  let x := (y - f) * (p - q) / printed_variance p q y in
  (- ((y - f) ^ 2 * (p - q) ^ 2 * ((p - q) * (1 - p - q))) / printed_variance p q y ^ 2
   + 2 * (y - f) * (p - q) ^ 2 / printed_variance p q y + mu + lambda = 0
   <-> (p - q) * (1 - p - q) * x ^ 2 - 2 * (p - q) * x - mu - lambda = 0).
Proof.
  intros V x.
  assert (E : - ((y - f) ^ 2 * (p - q) ^ 2 * ((p - q) * (1 - p - q))) / printed_variance p q y ^ 2
              + 2 * (y - f) * (p - q) ^ 2 / printed_variance p q y
              = - ((p - q) * (1 - p - q) * x ^ 2 - 2 * (p - q) * x)) by (unfold x; field; exact V).
  rewrite E. split; intro H; lra.
Qed.

(** ** x_v *)

(** 1 - (1 - p - q) x has the sign of the estimated variance: both are positive or neither is, for
    every estimate from support counts.  This is what chooses between the roots of Eq. 15. *)
Lemma the_sign_of_the_variance p q f y :
  0 < q < p -> printed_variance p q y <> 0 ->
  let x := (y - f) * (p - q) / printed_variance p q y in
  (1 - (1 - p - q) * x) * printed_variance p q y = printed_variance p q f.
Proof. intros Q V x. unfold x, printed_variance in *. field. exact V. Qed.

(** N Eq. 14: f' follows from x_v. *)
Theorem equation_14_inverts_x p q f y :
  0 < q < p -> printed_variance p q y <> 0 -> printed_variance p q f <> 0 ->
  let x := (y - f) * (p - q) / printed_variance p q y in
  y = (q * (1 - q) * x + f * (p - q)) / (p - q - (p - q) * (1 - p - q) * x).
Proof.
  intros Q V F x.
  assert (S : p - q - (p - q) * (1 - p - q) * x
              = (p - q) * printed_variance p q f / printed_variance p q y).
  { unfold x, printed_variance in *. field. exact V. }
  rewrite S. unfold x, printed_variance in *. field. repeat split; try assumption; lra.
Qed.

(** D Appendix A has x_v with the other sign and in terms of c/n; f' follows from it by D's line. *)
Theorem draft_inverts_x p q share y :
  0 < q < p -> printed_variance p q y <> 0 ->
  q * (1 - q) + (share - q) * (1 - p - q) <> 0 ->
  let x := (share - q - y * (p - q)) / printed_variance p q y in
  y = (share - q - q * (1 - q) * x) / (p - q + (p * (1 - p) - q * (1 - q)) * x).
Proof.
  intros Q V F x.
  assert (S : p - q + (p * (1 - p) - q * (1 - q)) * x
              = (p - q) * (q * (1 - q) + (share - q) * (1 - p - q)) / printed_variance p q y).
  { unfold x, printed_variance in *. field. exact V. }
  rewrite S. unfold x, printed_variance in *. field. repeat split; try assumption; lra.
Qed.

(** N Appendix B: "solution of x_v in Equation (15) does not depend on v".  Eq. 15 is quadratic and
    has two roots; the statement is true because only one of them leaves a positive variance. *)
Theorem x_does_not_depend_on_v p q mu x z :
  q < p -> 0 < 1 - (1 - p - q) * x -> 0 < 1 - (1 - p - q) * z ->
  (p - q) * (1 - p - q) * x ^ 2 - 2 * (p - q) * x - mu = 0 ->
  (p - q) * (1 - p - q) * z ^ 2 - 2 * (p - q) * z - mu = 0 -> x = z.
Proof.
  intros Q X Z A B.
  assert (H : (p - q) * ((x - z) * ((1 - p - q) * (x + z) - 2)) = 0) by lra.
  apply Rmult_integral in H. destruct H as [H|H]; [lra|].
  apply Rmult_integral in H. destruct H as [H|H]; lra.
Qed.

(** D Eq. 14 is f~ gamma + delta with the printed gamma and delta, and with D's x_v by summation
    it adds up to 1 over D1; n1 = |D1| and S is the sum of c/n over D1. *)
Theorem draft_gamma_and_delta p q share x :
  q < p -> p - q + (p * (1 - p) - q * (1 - q)) * x <> 0 ->
  let below := p - q + (p * (1 - p) - q * (1 - q)) * x in
  (share - q - q * (1 - q) * x) / below
  = (share - q) / (p - q) * ((p - q) / below) + (- (q * (1 - q)) * x) / below.
Proof. intros Q B below. unfold below. field. split; [exact B|lra]. Qed.

(** The sum of D Eq. 14 over D1 is 1 for the x_v that D prints. *)
Theorem draft_x_adds_up p q S n1 :
  (p - q) * (1 - p - q) + n1 * (q * (1 - q)) <> 0 ->
  let x := (S - n1 * q - (p - q)) / ((p - q) * (1 - p - q) + n1 * (q * (1 - q))) in
  p - q + (p - q) * (1 - p - q) * x <> 0 ->
  (S - n1 * q - n1 * (q * (1 - q)) * x) / (p - q + (p - q) * (1 - p - q) * x) = 1.
Proof.
  intros N x B.
  assert (E : x * ((p - q) * (1 - p - q) + n1 * (q * (1 - q))) = S - n1 * q - (p - q)).
  { unfold x. field. exact N. }
  replace (S - n1 * q - n1 * (q * (1 - q)) * x) with (p - q + (p - q) * (1 - p - q) * x) by lra.
  field. exact B.
Qed.

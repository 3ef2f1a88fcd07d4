(** * Variances of the protocols

    N III and D 2 compare protocols by the variance of an estimate, (a + b f)/n with
    a = q (1 - q)/(p - q)^2 and b = (1 - p - q)/(p - q).  This file has what they state about a and
    b.  E stands for e^epsilon, so that E > 1. *)

From Coq Require Import Reals Lra Lia Psatz.
Open Scope R_scope.

Definition constant_part (p q : R) := q * (1 - q) / (p - q) ^ 2.
Definition slope (p q : R) := (1 - p - q) / (p - q).

(** N III-D: the variance of n f supports with probability p and n (1 - f) with probability q, all
    independent, over n^2 (p - q)^2, is (a + b f)/n. *)
Theorem variance_is_linear_in_the_frequency n p q f :
  0 < n -> q < p ->
  (n * f * (p * (1 - p)) + n * (1 - f) * (q * (1 - q))) / (n ^ 2 * (p - q) ^ 2)
  = (constant_part p q + slope p q * f) / n.
Proof. intros N Q. unfold constant_part, slope. field. lra. Qed.

(** ** Generalised randomised response *)

Definition grr_p (E d : R) := E / (E + d - 1).
Definition grr_q (E d : R) := 1 / (E + d - 1).

(** D Eq. 3: GRR has a = (d - 2 + e^epsilon)/(e^epsilon - 1)^2 and
    b = (d - 2)/(e^epsilon - 1). *)
Theorem variance_of_grr E d :
  1 < E -> 1 < d ->
  constant_part (grr_p E d) (grr_q E d) = (d - 2 + E) / (E - 1) ^ 2 /\
  slope (grr_p E d) (grr_q E d) = (d - 2) / (E - 1).
Proof.
  intros P D. unfold constant_part, slope, grr_p, grr_q.
  assert (Q : E / (E + d - 1) - 1 / (E + d - 1) = (E - 1) / (E + d - 1)) by (field; lra).
  rewrite Q. split; field; lra.
Qed.

(** ** Optimised unary encoding *)

Definition oue_q (E : R) := 1 / (E + 1).

(** D Eq. 6: OUE, with p = 1/2, has a = 4 e^epsilon/(e^epsilon - 1)^2 and b = 1. *)
Theorem variance_of_oue E :
  1 < E -> constant_part (1/2) (oue_q E) = 4 * E / (E - 1) ^ 2 /\ slope (1/2) (oue_q E) = 1.
Proof.
  intro P. unfold constant_part, slope, oue_q.
  assert (Q : 1/2 - 1 / (E + 1) = (E - 1) / (2 * (E + 1))) by (field; lra).
  rewrite Q. split; field; lra.
Qed.

(** D 2.3: of all unary encodings with the same budget, p (1 - q) = e^epsilon q (1 - p), none has a
    smaller variance at frequency 0 than OUE, and OUE's p = 1/2 is the only one that reaches it. *)
Theorem oue_is_the_best_unary_encoding E p q :
  1 < E -> 0 < q < p -> p < 1 -> p * (1 - q) = E * q * (1 - p) ->
  4 * E / (E - 1) ^ 2 <= constant_part p q /\
  (constant_part p q <= 4 * E / (E - 1) ^ 2 -> p = 1/2).
Proof.
  intros B Q P C.
  assert (D : 0 < (E - 1) ^ 2) by nra. assert (G : 0 < (p - q) ^ 2) by nra.
  (* the budget gives p - q = (E - 1) q (1 - p), and then a in terms of p alone *)
  assert (F : p - q = (E - 1) * (q * (1 - p))) by lra.
  assert (H : constant_part p q * (E - 1) ^ 2 * (4 * p * (1 - p)) = 4 * E).
  { unfold constant_part. rewrite F.
    assert (K : (1 - q) * p = E * q * (1 - p)) by lra.
    replace (q * (1 - q) / ((E - 1) * (q * (1 - p))) ^ 2 * (E - 1) ^ 2 * (4 * p * (1 - p)))
      with (4 * ((1 - q) * p) / (q * (1 - p))) by (field; repeat split; nra).
    rewrite K. field. split; nra. }
  set (a := constant_part p q) in *.
  assert (A : 0 < a) by (unfold a, constant_part; apply Rmult_lt_0_compat;
                         [nra|apply Rinv_0_lt_compat, G]).
  assert (M : 4 * p * (1 - p) = 1 - (2 * p - 1) ^ 2) by ring. rewrite M in H.
  assert (S : 0 <= (2 * p - 1) ^ 2) by apply pow2_ge_0.
  assert (AD : 0 < a * (E - 1) ^ 2) by nra.
  assert (R : 4 * E / (E - 1) ^ 2 * (E - 1) ^ 2 = 4 * E) by (field; lra).
  split.
  - apply (Rmult_le_reg_r ((E - 1) ^ 2)); [exact D|]. rewrite R. nra.
  - intro L. apply (Rmult_le_compat_r ((E - 1) ^ 2)) in L; [|lra]. rewrite R in L.
    assert (Z : (2 * p - 1) ^ 2 = 0) by nra. nra.
Qed.

(** N III-A: without the part of f, GRR has the smaller variance exactly where
    d - 2 < 3 e^epsilon, and OUE beyond. *)
Theorem grr_is_better_for_small_domains E d :
  1 < E -> 1 < d ->
  (constant_part (grr_p E d) (grr_q E d) < constant_part (1/2) (oue_q E) <-> d - 2 < 3 * E).
Proof.
  intros P D. rewrite (proj1 (variance_of_grr E d P D)), (proj1 (variance_of_oue E P)).
  assert (I : 0 < / (E - 1) ^ 2) by (apply Rinv_0_lt_compat; nra).
  unfold Rdiv. split; intro H.
  - apply Rmult_lt_reg_r in H; [lra|exact I].
  - apply Rmult_lt_compat_r; [exact I|lra].
Qed.

(** ** Optimised local hashing *)

Definition olh_p (E g : R) := E / (E + g - 1).

(** N III-B: "the estimation variance when viewed as a continuous function of g is minimized when
    g = e^epsilon + 1", there and nowhere else. *)
Theorem best_g_of_olh E g :
  1 < E -> 1 < g ->
  constant_part (olh_p E (E + 1)) (1 / (E + 1)) <= constant_part (olh_p E g) (1 / g) /\
  (constant_part (olh_p E g) (1 / g) <= constant_part (olh_p E (E + 1)) (1 / (E + 1)) ->
   g = E + 1).
Proof.
  intros P G.
  assert (V : forall h, 1 < h ->
              constant_part (olh_p E h) (1 / h) = (E + h - 1) ^ 2 / ((h - 1) * (E - 1) ^ 2)).
  { intros h H. unfold constant_part, olh_p.
    assert (Q : E / (E + h - 1) - 1 / h = (E - 1) * (h - 1) / (h * (E + h - 1)))
      by (field; lra).
    rewrite Q. field. repeat split; lra. }
  rewrite !V by lra. assert (D : 0 < (E - 1) ^ 2) by nra.
  assert (X : (E + g - 1) ^ 2 / ((g - 1) * (E - 1) ^ 2)
              - (E + (E + 1) - 1) ^ 2 / ((E + 1 - 1) * (E - 1) ^ 2)
              = (g - 1 - E) ^ 2 * / ((g - 1) * (E - 1) ^ 2)) by (field; lra).
  assert (I : 0 < / ((g - 1) * (E - 1) ^ 2)) by (apply Rinv_0_lt_compat; nra).
  pose proof (pow2_ge_0 (g - 1 - E)) as S. split; [nra|]. intro L.
  assert (Z : (g - 1 - E) ^ 2 = 0) by nra. nra.
Qed.

(** D 2.4: with g = e^epsilon + 1, OLH has the variance of OUE at frequency 0; and there p = 1/2. *)
Theorem olh_with_the_best_g_is_oue E :
  1 < E ->
  olh_p E (E + 1) = 1/2 /\
  constant_part (olh_p E (E + 1)) (1 / (E + 1)) = constant_part (1/2) (oue_q E).
Proof.
  intro P. assert (H : olh_p E (E + 1) = 1/2) by (unfold olh_p; field; lra).
  rewrite H. split; reflexivity.
Qed.

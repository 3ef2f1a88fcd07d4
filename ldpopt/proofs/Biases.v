(** * Biases

    Reports are finite in number, so that an expectation is a finite sum: outcome o has probability
    `chance o`, and the estimate of value v is `f o v`. *)

From Coq Require Import Reals Lra Lia Psatz.
From LdpOpt Require Import Sums NormSub OtherMethods Groups Bayes.
Open Scope R_scope.

(** The expectation of the answer to value v over r outcomes. *)
Definition expected (r : nat) (chance : vector) (y : nat -> vector) (v : nat) : R :=
  mean r chance (fun o => y o v).

Definition unbiased (d r : nat) (chance : vector) (f : nat -> vector) (truth : vector) :=
  every d (fun v => expected r chance f v = truth v).

Lemma expectation_of_a_total d r chance (f : nat -> vector) :
  mean r chance (fun o => total d (f o)) = total d (fun v => expected r chance f v).
Proof.
  unfold expected, mean. rewrite <- total_exchange. apply total_ext. take o O.
  rewrite total_scale. reflexivity.
Qed.

(** N Lemma 3: Norm is unbiased for each value, if the estimates are unbiased and the truth adds up
    to 1. *)
Theorem norm_is_unbiased d r chance f truth :
  (0 < d)%nat -> probabilities r chance -> unbiased d r chance f truth -> total d truth = 1 ->
  unbiased d r chance (fun o => norm d (f o)) truth.
Proof.
  intros D [P S] U T. assert (N : INR d <> 0) by (apply not_0_INR; lia).
  assert (M : mean r chance (fun o => total d (f o)) = 1).
  { rewrite expectation_of_a_total, <- T. apply total_ext. exact U. }
  take v V. transitivity (expected r chance f v
    + / INR d * (total r chance - mean r chance (fun o => total d (f o)))).
  - unfold expected, mean. rewrite <- total_minus, <- total_scale, <- total_plus.
    apply total_ext. take o O. unfold norm. field. exact N.
  - rewrite M, S. pose proof (U v V) as E. cbv beta in E. rewrite E. ring.
Qed.

(** N Lemma 2: a method whose answers add up to 1 has biases that add up to 0. *)
Theorem normalised_biases_add_up_to_nothing d r chance y truth :
  probabilities r chance -> every r (fun o => total d (y o) = 1) -> total d truth = 1 ->
  total d (fun v => expected r chance y v - truth v) = 0.
Proof.
  intros [P S] Y T. rewrite total_minus, <- expectation_of_a_total, T.
  assert (E : mean r chance (fun o => total d (y o)) = total r chance).
  { apply total_ext. take o O. rewrite (Y o O). ring. }
  lra.
Qed.

(** N Lemma 4, corrected: where the true frequency is 0, answers that are never negative have a
    bias that is not negative, and a positive one as soon as some outcome of positive probability
    has a positive answer. *)
Theorem nonnegative_answers_are_biased_at_zero r chance y v o :
  every r (fun i => 0 <= chance i) -> every r (fun i => 0 <= y i v) ->
  0 <= expected r chance y v /\
  ((o < r)%nat -> 0 < chance o -> 0 < y o v -> 0 < expected r chance y v).
Proof.
  intros P Y.
  assert (N : every r (fun i => 0 <= chance i * y i v)).
  { take i I. apply Rmult_le_pos; [apply P, I|apply Y, I]. }
  split; [apply total_nonneg, N|]. intros O C A.
  pose proof (total_member r _ o O N) as M. cbv beta in M. unfold expected, mean. nra.
Qed.

(** N Lemma 1: the bias of Base-Pos is not negative, and it is positive for every value whose
    estimate is negative with positive probability. *)
Theorem base_pos_is_biased_upwards r chance f v o :
  every r (fun i => 0 <= chance i) ->
  expected r chance f v <= expected r chance (fun i => base_pos (f i)) v /\
  ((o < r)%nat -> 0 < chance o -> f o v < 0 ->
   expected r chance f v < expected r chance (fun i => base_pos (f i)) v).
Proof.
  intro P.
  assert (L : every r (fun i => chance i * f i v <= chance i * base_pos (f i) v)).
  { take i I. apply Rmult_le_compat_l; [apply P, I|apply Rmax_l]. }
  split; [apply total_le, L|]. intros O C A.
  apply (total_lt r _ _ o L O). unfold base_pos. rewrite Rmax_right by lra. nra.
Qed.

(** N V-C, K II-C: the mean squared error is the squared bias plus the variance. *)
Theorem squared_error_is_squared_bias_plus_variance r chance y truth :
  probabilities r chance ->
  mean r chance (fun o => (y o - truth) ^ 2)
  = (mean r chance y - truth) ^ 2 + mean r chance (fun o => (y o - mean r chance y) ^ 2).
Proof. intro P. rewrite (mean_splits r chance y truth P). ring. Qed.

(** N IV-B: "Norm does nothing" where every report supports the same number k of values, as in
    generalised randomised response (k = 1) and subset selection: then p + (d - 1) q = k, the
    counts add up to k n, and the estimates add up to 1. *)
Theorem norm_does_nothing_for_reports_of_one_size d p q k share v :
  (0 < d)%nat -> q < p -> p + (INR d - 1) * q = k -> total d share = k ->
  norm d (fun w => (share w - q) / (p - q)) v = (share v - q) / (p - q).
Proof.
  intros D Q K S. assert (N : INR d <> 0) by (apply not_0_INR; lia).
  assert (T : total d (fun w => (share w - q) / (p - q)) = 1).
  { transitivity (/ (p - q) * (total d share - total d (fun _ => q))).
    - rewrite <- total_minus, <- total_scale. apply total_ext. take w W. unfold Rdiv. ring.
    - rewrite S, total_constant, <- K. field. lra. }
  unfold norm. rewrite T. field. split; first [exact N|lra].
Qed.

(** The q of subset selection satisfies the condition: p + (d - 1) q = k. *)
Theorem subset_selection_has_reports_of_one_size d k p :
  1 < d -> let q := (p * (k - 1) + (1 - p) * k) / (d - 1) in p + (d - 1) * q = k.
Proof. intros D q. unfold q. field. lra. Qed.

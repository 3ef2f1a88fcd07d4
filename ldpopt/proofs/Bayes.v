(** * Posterior means, Power and PowerNS

    N IV-E and K put a prior on the count of a value and answer with its posterior mean.  The
    counts are 1, ..., n, so that every expectation here is a finite sum. *)

From Coq Require Import Reals Lra Lia Psatz.
From LdpOpt Require Import Sums NormSub.
Open Scope R_scope.

(** ** Expectations over n hypotheses

    `weight v i` is the posterior probability of hypothesis i for value v, and `u i` the frequency
    that hypothesis i states. *)

Definition probabilities (n : nat) (weight : vector) :=
  every n (fun i => 0 <= weight i) /\ total n weight = 1.

Definition mean (n : nat) (weight u : vector) : R := total n (fun i => weight i * u i).

(** The expected squared error of an answer y, summed over the values. *)
Definition expected_error (d n : nat) (weight : nat -> vector) (u y : vector) :=
  total d (fun v => mean n (weight v) (fun i => (u i - y v) ^ 2)).

Definition posterior_mean (n : nat) (weight : nat -> vector) (u : vector) : vector :=
  fun v => mean n (weight v) u.

Lemma mean_splits n weight u a :
  probabilities n weight ->
  mean n weight (fun i => (u i - a) ^ 2)
  = mean n weight (fun i => (u i - mean n weight u) ^ 2) + (a - mean n weight u) ^ 2.
Proof.
  intros [_ P]. set (m := mean n weight u).
  assert (E : forall b, mean n weight (fun i => (u i - b) ^ 2)
                        = mean n weight (fun i => u i ^ 2) - 2 * b * m + b ^ 2).
  { intro b. replace (b ^ 2) with (b ^ 2 * total n weight) at 1 by (rewrite P; ring).
    unfold m, mean. rewrite <- !total_scale, <- total_minus, <- total_plus.
    apply total_ext. take i I. ring. }
  rewrite !E. ring.
Qed.

(** The expected error of any answer is that of the posterior mean plus the squared distance to
    the posterior mean. *)
Theorem expected_error_splits d n weight u y :
  every d (fun v => probabilities n (weight v)) ->
  expected_error d n weight u y
  = expected_error d n weight u (posterior_mean n weight u)
    + dist2 d y (posterior_mean n weight u).
Proof.
  intro P. unfold expected_error, dist2. rewrite <- total_plus. apply total_ext. take v V.
  apply (mean_splits n (weight v) u (y v) (P v V)).
Qed.

(** K Theorem 2: the posterior mean "is the optimal post-processing".  For every posterior, of any
    prior, it is the only answer with the smallest expected squared error. *)
Theorem posterior_mean_is_optimal d n weight u :
  every d (fun v => probabilities n (weight v)) ->
  only_minimiser d (fun _ => True) (expected_error d n weight u) (posterior_mean n weight u).
Proof.
  intro P. set (m := posterior_mean n weight u). split; [exact I|]. split; intros y _.
  - rewrite (expected_error_splits d n weight u y P). fold m. pose proof (dist2_nonneg d y m). lra.
  - rewrite (expected_error_splits d n weight u y P). fold m. intro L. apply dist2_equal. lra.
Qed.

(** N IV-E: "finally use Norm-Sub to further process the results".  Norm-Sub of the posterior mean
    is the only distribution with the smallest expected squared error: PowerNS is Bayes-optimal
    over the distributions, and so is Norm-Sub after any other posterior mean. *)
Theorem norm_sub_of_the_posterior_mean_is_optimal d n weight u delta :
  every d (fun v => probabilities n (weight v)) ->
  total d (norm_sub delta (posterior_mean n weight u)) = 1 ->
  only_minimiser d (simplex d) (expected_error d n weight u)
    (norm_sub delta (posterior_mean n weight u)).
Proof.
  intros P E. set (m := posterior_mean n weight u) in *.
  destruct (norm_sub_is_the_solution_to_cls d m delta E) as [S [M U]].
  split; [exact S|]. split; intros y Y.
  - rewrite (expected_error_splits d n weight u y P),
      (expected_error_splits d n weight u (norm_sub delta m) P). fold m.
    pose proof (M y Y). cbv beta in *. lra.
  - rewrite (expected_error_splits d n weight u y P),
      (expected_error_splits d n weight u (norm_sub delta m) P). fold m.
    intro L. apply (U y Y). cbv beta. lra.
Qed.

(** ** The rule before anything is observed

    Observations are 0, ..., r - 1, such as support counts; hypothesis i has prior probability
    `prior i` and gives observation o with probability `chance i o`.  A rule answers to each. *)

Definition bayes_risk (r n : nat) (prior u : vector) (chance : nat -> vector) (rule : vector) :=
  total r (fun o => total n (fun i => prior i * chance i o * (u i - rule o) ^ 2)).

Definition evidence (n : nat) (prior : vector) (chance : nat -> vector) (o : nat) :=
  total n (fun i => prior i * chance i o).

Definition bayes_rule (n : nat) (prior : vector) (chance : nat -> vector) (o i : nat) : R :=
  prior i * chance i o / evidence n prior chance o.

Lemma bayes_rule_gives_probabilities n prior chance o :
  every n (fun i => 0 <= prior i * chance i o) -> 0 < evidence n prior chance o ->
  probabilities n (bayes_rule n prior chance o).
Proof.
  intros N E. split.
  - take i I. apply Rmult_le_pos; [apply N, I|]. left. apply Rinv_0_lt_compat, E.
  - transitivity (/ evidence n prior chance o * evidence n prior chance o); [|field; lra].
    unfold evidence at 2. rewrite <- total_scale. apply total_ext. take i I.
    unfold bayes_rule, Rdiv. ring.
Qed.

(** K Lemma 3 and Theorem 2: among all rules that see the observation alone, the posterior mean has
    the smallest mean squared error under the prior, and every other rule a larger one. *)
Theorem posterior_mean_is_the_bayes_rule r n prior u chance :
  every r (fun o => every n (fun i => 0 <= prior i * chance i o)) ->
  every r (fun o => 0 < evidence n prior chance o) ->
  only_minimiser r (fun _ => True) (bayes_risk r n prior u chance)
    (posterior_mean n (bayes_rule n prior chance) u).
Proof.
  intros N E. set (m := posterior_mean n (bayes_rule n prior chance) u).
  assert (H : forall rule, bayes_risk r n prior u chance rule = bayes_risk r n prior u chance m
              + total r (fun o => evidence n prior chance o * (rule o - m o) ^ 2)).
  { intro rule. unfold bayes_risk. rewrite <- total_plus. apply total_ext. take o O.
    pose proof (E o O) as Q. cbv beta in Q.
    assert (W : forall a, total n (fun i => prior i * chance i o * (u i - a) ^ 2)
                = evidence n prior chance o
                  * mean n (bayes_rule n prior chance o) (fun i => (u i - a) ^ 2)).
    { intro a. unfold mean. rewrite <- total_scale. apply total_ext. take i I.
      unfold bayes_rule. field. lra. }
    rewrite !W.
    pose proof (bayes_rule_gives_probabilities n prior chance o (N o O) Q) as P.
    rewrite (mean_splits n _ u (rule o) P), (mean_splits n _ u (m o) P).
    change (mean n (bayes_rule n prior chance o) u) with (m o). ring. }
  assert (Z : forall rule, every r (fun o => 0 <= evidence n prior chance o * (rule o - m o) ^ 2)).
  { intro rule. take o O. pose proof (E o O).
    apply Rmult_le_pos; [cbv beta in *; lra|apply pow2_ge_0]. }
  split; [exact I|]. split; intros rule _; rewrite (H rule).
  - pose proof (total_nonneg r _ (Z rule)). lra.
  - intro L. take o O. pose proof (E o O) as Q. cbv beta in Q.
    pose proof (total_each_zero r _ (Z rule) ltac:(lra) o O) as F. cbv beta in F.
    pose proof (pow2_ge_0 (rule o - m o)). assert ((rule o - m o) ^ 2 = 0) by nra. nra.
Qed.

(** ** Power

    The posterior mean under Gaussian noise of scale s, for an estimate x in counts: hypothesis i
    states the count i + 1 out of n, and has any prior weight.  A power law is one of them. *)

Definition bell (s z : R) : R := exp (- z ^ 2 / (2 * s ^ 2)).
Definition count (i : nat) : R := INR (S i).

Definition power_mass (n : nat) (s : R) (prior : vector) (x : R) :=
  total n (fun i => prior i * bell s (x - count i)).

(** The answer in counts. *)
Definition power (n : nat) (s : R) (prior : vector) (x : R) : R :=
  total n (fun i => prior i * bell s (x - count i) * count i) / power_mass n s prior x.

Lemma power_mass_positive n s prior x :
  (0 < n)%nat -> every n (fun i => 0 < prior i) -> 0 < power_mass n s prior x.
Proof.
  intros N P.
  assert (Z : every n (fun i => 0 <= prior i * bell s (x - count i))).
  { take i I. pose proof (P i I). pose proof (exp_pos (- (x - count i) ^ 2 / (2 * s ^ 2))).
    apply Rmult_le_pos; [cbv beta in *; lra|unfold bell; lra]. }
  pose proof (total_member n _ 0%nat N Z) as M. cbv beta in M. fold (power_mass n s prior x) in M.
  pose proof (P 0%nat N) as P0. cbv beta in P0. unfold bell in M.
  pose proof (exp_pos (- (x - count 0) ^ 2 / (2 * s ^ 2))). nra.
Qed.

(** D 3.2, second observation: "all the processed estimates are positive".  More: no answer is
    below the smallest count, 1. *)
Theorem power_is_positive n s prior x :
  (0 < n)%nat -> every n (fun i => 0 < prior i) -> 1 <= power n s prior x.
Proof.
  intros N P. pose proof (power_mass_positive n s prior x N P) as M.
  apply (Rmult_le_reg_r (power_mass n s prior x)); [exact M|]. unfold power.
  replace (total n (fun i => prior i * bell s (x - count i) * count i) / power_mass n s prior x
           * power_mass n s prior x)
    with (total n (fun i => prior i * bell s (x - count i) * count i)) by (field; lra).
  unfold power_mass. rewrite Rmult_1_l. apply total_le. take i I.
  pose proof (P i I) as Pi. cbv beta in Pi. unfold bell, count. rewrite S_INR.
  pose proof (exp_pos (- (x - (INR i + 1)) ^ 2 / (2 * s ^ 2))). pose proof (pos_INR i).
  assert (0 < prior i * exp (- (x - (INR i + 1)) ^ 2 / (2 * s ^ 2))) by nra. nra.
Qed.

(** A likelihood ratio that grows with the count: moving the estimate up favours larger counts. *)
Lemma larger_estimates_favour_larger_counts s x z a b :
  0 < s -> x < z -> b < a -> bell s (z - b) * bell s (x - a) < bell s (z - a) * bell s (x - b).
Proof.
  intros S X C. unfold bell. rewrite <- !exp_plus. apply exp_increasing.
  assert (0 < / (2 * s ^ 2)) by (apply Rinv_0_lt_compat; nra). unfold Rdiv.
  assert (0 < (z - x) * (a - b)) by nra. nra.
Qed.

(** D 3.2, first observation: Power "preserves the ordering of the estimation, i.e., f'_v1 < f'_v2
    iff f~_v1 < f~_v2".  True for every prior that gives some weight to each of two counts or more,
    and every width s > 0 of the noise. *)
Theorem power_preserves_order_strictly n s prior x z :
  (1 < n)%nat -> 0 < s -> every n (fun i => 0 < prior i) ->
  x < z -> power n s prior x < power n s prior z.
Proof.
  intros N S P L.
  set (a := fun i => prior i * bell s (x - count i)).
  set (b := fun i => prior i * bell s (z - count i)).
  pose proof (power_mass_positive n s prior x ltac:(lia) P) as MA.
  pose proof (power_mass_positive n s prior z ltac:(lia) P) as MB.
  unfold power. change (power_mass n s prior x) with (total n a) in *.
  change (power_mass n s prior z) with (total n b) in *.
  set (A := total n (fun i => a i * count i)). set (B := total n (fun i => b i * count i)).
  change (total n (fun i => prior i * bell s (x - count i) * count i)) with A.
  change (total n (fun i => prior i * bell s (z - count i) * count i)) with B.
  (* twice the difference of the two means, as a sum over pairs of counts *)
  set (pairs := fun i => total n (fun j => (b i * a j - b j * a i) * (count i - count j))).
  assert (R : every n (fun i => pairs i = total n a * (b i * count i) - A * b i
                                          - total n b * (a i * count i) + B * a i)).
  { take i I. transitivity (b i * count i * total n a - b i * A - a i * count i * total n b
                            + a i * B); [|ring].
    unfold pairs, A, B. rewrite <- !total_scale, <- !total_minus, <- total_plus.
    apply total_ext. take j J. ring. }
  assert (E : total n pairs = 2 * (B * total n a - A * total n b)).
  { rewrite (total_ext n pairs _ R), total_plus, !total_minus, !total_scale.
    fold A. fold B. ring. }
  assert (G : forall i j, (i < n)%nat -> (j < n)%nat -> count j < count i ->
              0 < (b i * a j - b j * a i) * (count i - count j)).
  { intros i j I J C. pose proof (P i I) as Pi. pose proof (P j J) as Pj. cbv beta in *.
    pose proof (larger_estimates_favour_larger_counts s x z (count i) (count j) S L C) as F.
    apply Rmult_lt_0_compat; [|lra]. unfold a, b.
    assert (0 < prior i * prior j) by nra.
    replace (prior i * bell s (z - count i) * (prior j * bell s (x - count j))
             - prior j * bell s (z - count j) * (prior i * bell s (x - count i)))
      with (prior i * prior j * (bell s (z - count i) * bell s (x - count j)
                                 - bell s (z - count j) * bell s (x - count i))) by ring.
    apply Rmult_lt_0_compat; lra. }
  assert (Q : forall i, (i < n)%nat ->
              every n (fun j => 0 <= (b i * a j - b j * a i) * (count i - count j))).
  { intros i I. take j J. destruct (Rtotal_order (count i) (count j)) as [C|[C|C]].
    - pose proof (G j i J I C). nra.
    - rewrite C. unfold Rminus at 2. rewrite Rplus_opp_r, Rmult_0_r. lra.
    - pose proof (G i j I J C). lra. }
  assert (T : 0 < total n pairs).
  { assert (W : every n (fun i => 0 <= pairs i)) by (take i I; apply total_nonneg, Q, I).
    pose proof (total_member n pairs 1%nat N W) as M1.
    pose proof (total_member n _ 0%nat ltac:(lia) (Q 1%nat N)) as M0. cbv beta in M0.
    fold (pairs 1%nat) in M0.
    pose proof (G 1%nat 0%nat N ltac:(lia) ltac:(unfold count; simpl; lra)). lra. }
  apply (Rmult_lt_reg_r (total n a * total n b)); [nra|].
  replace (A / total n a * (total n a * total n b)) with (A * total n b) by (field; lra).
  replace (B / total n b * (total n a * total n b)) with (B * total n a) by (field; lra).
  lra.
Qed.

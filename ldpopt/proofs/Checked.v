(** * From the theorem to the number

    A computer's answer is a list of doubles, and doubles are fractions.  This file has a checker
    that calculates with integers, and the proof that whatever it accepts is within a stated
    distance of the exact solution.  Running it on an answer makes a theorem about that answer. *)

From Coq Require Import Reals Lra Lia Psatz ZArith List Bool.
From LdpOpt Require Import Sums NormSub WeightedMLE.
Import ListNotations.

(** ** The checker

    Estimates and answers are integers in units of 1/one.  kappa = kn/kd, and t = num/den in the
    same units; scale is (1 - kappa t) times one * den * kd.  The claimed error is at most
    1/parts. *)

Open Scope Z_scope.

Definition lifted (den num f : Z) : Z := Z.max (f * den + num) 0.

Fixpoint sum_lifted (den num : Z) (f : list Z) : Z :=
  match f with
  | [] => 0
  | a :: r => lifted den num a + sum_lifted den num r
  end.

Definition scale (one kn kd num den : Z) : Z := one * den * kd - kn * num.

Fixpoint all_positive (one kn kd : Z) (f : list Z) : bool :=
  match f with
  | [] => true
  | a :: r => (0 <? kd * one + kn * a) && all_positive one kn kd r
  end.

Fixpoint all_near (one kd den num bottom parts : Z) (f y : list Z) : bool :=
  match f, y with
  | [], [] => true
  | a :: r, b :: s =>
      (Z.abs (b * bottom - one * kd * lifted den num a) * parts <=? one * bottom)
      && all_near one kd den num bottom parts r s
  | _, _ => false
  end.

Definition check (one kn kd num den parts : Z) (f y : list Z) : bool :=
  let bottom := scale one kn kd num den in
  (0 <? one) && (0 <? kd) && (0 <? den) && (0 <? bottom) && (- kd <? kn)
  && all_positive one kn kd f
  && (kd * sum_lifted den num f =? bottom)
  && (0 <? parts) && all_near one kd den num bottom parts f y.

(** ** What it accepts *)

Open Scope R_scope.

(** A list of integers in units of 1/one, as a vector of real numbers. *)
Definition in_units (one : Z) (l : list Z) : vector := fun v => IZR (nth v l 0%Z) / IZR one.

Definition distance_at_most (d : nat) (bound : R) (x y : vector) :=
  every d (fun v => Rabs (x v - y v) <= bound).

Lemma total_from_the_left d f : total (S d) f = f 0%nat + total d (fun v => f (S v)).
Proof.
  induction d as [|d IH]; [simpl; ring|].
  change (total (S (S d)) f) with (total (S d) f + f (S d)). rewrite IH. simpl. ring.
Qed.

Lemma lifted_is_max one den num a :
  (0 < one)%Z -> (0 < den)%Z ->
  IZR (lifted den num a) / (IZR one * IZR den)
  = Rmax (IZR a / IZR one + IZR num / (IZR one * IZR den)) 0.
Proof.
  intros O D. apply IZR_lt in O. apply IZR_lt in D.
  assert (P : 0 < / (IZR one * IZR den)) by (apply Rinv_0_lt_compat; nra).
  replace (IZR a / IZR one + IZR num / (IZR one * IZR den))
    with (IZR (a * den + num) / (IZR one * IZR den))
    by (rewrite plus_IZR, mult_IZR; field; lra).
  unfold lifted. destruct (Z.max_spec (a * den + num) 0) as [[L ->]|[L ->]].
  - apply Z.lt_le_incl, IZR_le in L. rewrite Rmax_right; unfold Rdiv; nra.
  - apply IZR_le in L. rewrite Rmax_left; [reflexivity|]. unfold Rdiv. nra.
Qed.

Lemma sum_lifted_is_total one den num f :
  (0 < one)%Z -> (0 < den)%Z ->
  total (length f) (norm_sub (IZR num / (IZR one * IZR den)) (in_units one f))
  = IZR (sum_lifted den num f) / (IZR one * IZR den).
Proof.
  intros O D. induction f as [|a r IH]; [simpl; unfold Rdiv; ring|].
  change (length (a :: r)) with (S (length r)). rewrite total_from_the_left.
  change (fun v => norm_sub (IZR num / (IZR one * IZR den)) (in_units one (a :: r)) (S v))
    with (norm_sub (IZR num / (IZR one * IZR den)) (in_units one r)).
  rewrite IH. unfold norm_sub at 1. unfold in_units. simpl nth.
  rewrite <- (lifted_is_max one den num a O D). simpl sum_lifted. rewrite plus_IZR.
  unfold Rdiv. ring.
Qed.

Lemma all_positive_is_the_domain one kn kd f :
  (0 < one)%Z -> (0 < kd)%Z -> all_positive one kn kd f = true ->
  in_domain (length f) (IZR kn / IZR kd) (in_units one f).
Proof.
  intros O K. apply IZR_lt in O as O'. apply IZR_lt in K as K'.
  induction f as [|a r IH]; intros H v V; [simpl in V; lia|].
  simpl in H. apply andb_prop in H. destruct H as [A B]. apply Z.ltb_lt, IZR_lt in A.
  rewrite plus_IZR, !mult_IZR in A. destruct v as [|v].
  - unfold in_units. simpl nth.
    replace (1 + IZR kn / IZR kd * (IZR a / IZR one))
      with ((IZR kd * IZR one + IZR kn * IZR a) * / (IZR kd * IZR one)) by (field; lra).
    apply Rmult_lt_0_compat; [exact A|]. apply Rinv_0_lt_compat. nra.
  - apply (IH B v). simpl in V. lia.
Qed.

Lemma all_near_is_near one kn kd den num parts f y :
  let bottom := scale one kn kd num den in
  let kappa := IZR kn / IZR kd in
  let t := IZR num / (IZR one * IZR den) in
  (0 < one)%Z -> (0 < kd)%Z -> (0 < den)%Z -> (0 < bottom)%Z -> (0 < parts)%Z ->
  all_near one kd den num bottom parts f y = true ->
  length y = length f /\
  distance_at_most (length f) (1 / IZR parts) (in_units one y)
    (mle_apx kappa t (in_units one f)).
Proof.
  intros bottom kappa t O K D B T. apply IZR_lt in O as O'. apply IZR_lt in T as T'.
  apply IZR_lt in K as K'.
  apply IZR_lt in D as D'. apply IZR_lt in B as B'.
  assert (S : IZR bottom = IZR one * IZR den * IZR kd * (1 - kappa * t)).
  { unfold bottom, scale, kappa, t. rewrite minus_IZR, !mult_IZR. field. lra. }
  assert (P : 0 < 1 - kappa * t).
  { destruct (Rlt_dec 0 (1 - kappa * t)) as [L|L]; [exact L|exfalso].
    assert (0 < IZR one * IZR den * IZR kd) by (apply Rmult_lt_0_compat; nra). nra. }
  revert y. induction f as [|a r IH]; intros [|b s] H; try discriminate.
  - split; [reflexivity|]. intros v V. simpl in V. lia.
  - simpl in H. apply andb_prop in H. destruct H as [A H]. destruct (IH s H) as [L N].
    split; [simpl; lia|]. intros [|v] V; [|apply (N v); simpl in V; lia].
    unfold mle_apx, norm_sub, in_units. simpl nth. unfold t at 1.
    rewrite <- (lifted_is_max one den num a O D). apply Z.leb_le, IZR_le in A.
    rewrite !mult_IZR, abs_IZR, minus_IZR, !mult_IZR in A.
    assert (Q : 0 < / (IZR one * IZR bottom)) by (apply Rinv_0_lt_compat; nra).
    assert (W : 0 < / IZR parts) by (apply Rinv_0_lt_compat; lra).
    replace (IZR b / IZR one - IZR (lifted den num a) / (IZR one * IZR den) / (1 - kappa * t))
      with ((IZR b * IZR bottom - IZR one * IZR kd * IZR (lifted den num a))
            * / (IZR one * IZR bottom)).
    + rewrite Rabs_mult, (Rabs_right (/ _)) by lra.
      apply (Rmult_le_reg_r (IZR one * IZR bottom * IZR parts));
        [repeat apply Rmult_lt_0_compat; lra|].
      replace (1 / IZR parts * (IZR one * IZR bottom * IZR parts)) with (IZR one * IZR bottom)
        by (field; lra).
      set (error := Rabs (IZR b * IZR bottom - IZR one * IZR kd * IZR (lifted den num a))) in *.
      replace (error * / (IZR one * IZR bottom) * (IZR one * IZR bottom * IZR parts))
        with (error * IZR parts) by (field; lra).
      exact A.
    + rewrite S. field. lra.
Qed.

(** An answer that the checker accepts lies within 1/parts, in every value, of the only
    solution of the weighted maximum likelihood problem of its estimate. *)
Theorem accepted_answers_are_near_the_solution_to_mle one kn kd num den parts f y :
  check one kn kd num den parts f y = true ->
  exists x,
  only_minimiser (length f) (simplex (length f))
    (weighted_loss (length f) (IZR kn / IZR kd) (in_units one f)) x /\
  length y = length f /\
  distance_at_most (length f) (1 / IZR parts) (in_units one y) x.
Proof.
  unfold check. rewrite !andb_true_iff. intros [[[[[[[[O K] D] B] N] F] E] T] A].
  apply Z.ltb_lt in O, K, D, B, N, T. apply Z.eqb_eq in E.
  set (kappa := IZR kn / IZR kd). set (t := IZR num / (IZR one * IZR den)).
  assert (O' := IZR_lt _ _ O). assert (K' := IZR_lt _ _ K). assert (D' := IZR_lt _ _ D).
  assert (B' := IZR_lt _ _ B). assert (N' := IZR_lt _ _ N). rewrite opp_IZR in N'.
  assert (C : -1 < kappa).
  { assert (kappa * IZR kd = IZR kn) by (unfold kappa; field; lra). nra. }
  assert (S : IZR (scale one kn kd num den) = IZR one * IZR den * IZR kd * (1 - kappa * t)).
  { unfold scale, kappa, t. rewrite minus_IZR, !mult_IZR. field. lra. }
  assert (U : 0 < IZR one * IZR den * IZR kd) by (apply Rmult_lt_0_compat; nra).
  assert (L : level (length f) kappa (in_units one f) t).
  { split; [|nra]. unfold t. rewrite sum_lifted_is_total by assumption.
    apply (f_equal IZR) in E. rewrite mult_IZR, S in E.
    replace (IZR (sum_lifted den num f))
      with (IZR kd * IZR (sum_lifted den num f) / IZR kd) by (field; lra).
    rewrite E. unfold t. field. lra. }
  exists (mle_apx kappa t (in_units one f)). split; [|apply all_near_is_near; assumption].
  apply mle_apx_is_the_solution_to_mle; [exact C| |exact L].
  apply all_positive_is_the_domain; assumption.
Qed.

(** With kappa = 0 the weighted loss is the squared distance: an accepted answer lies within
    1/parts of the only solution of CLS, which is the exact Norm-Sub. *)
Theorem accepted_answers_are_near_the_solution_to_cls one num den parts f y :
  check one 0 1 num den parts f y = true ->
  exists x,
  only_minimiser (length f) (simplex (length f))
    (fun z => dist2 (length f) z (in_units one f)) x /\
  length y = length f /\
  distance_at_most (length f) (1 / IZR parts) (in_units one y) x.
Proof.
  intro H. destruct (accepted_answers_are_near_the_solution_to_mle _ _ _ _ _ _ _ _ H)
    as [x [[S [M U]] R]].
  assert (Z : forall z, weighted_loss (length f) (0 / 1) (in_units one f) z
                        = dist2 (length f) z (in_units one f)).
  { intro z. apply total_ext. take v V. unfold weighted_square. field. }
  exists x. split; [|exact R]. split; [exact S|]. split; intros z L.
  - rewrite <- !Z. apply M, L.
  - rewrite <- !Z. apply U, L.
Qed.

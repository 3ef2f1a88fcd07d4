(** * The papers' search for D0

    N Appendix B: "to find D0, one initiates D0 = empty and D1 = D, and iteratively tests whether
    all values in D1 are positive.  In each iteration, for any negative a_x, x is moved from D1 to
    D0.  The process terminates when no negative a_x is found".  This file proves that what it ends
    with is MLE-Apx, and for kappa = 0 Norm-Sub.  D1 shrinks in each round, so that it ends after
    at most d of them. *)

From Coq Require Import Reals Lra Lia Psatz Bool.
From LdpOpt Require Import Sums NormSub WeightedMLE.
Open Scope R_scope.

(** The sum over the values that are still in D1. *)
Definition total_on (d : nat) (D1 : nat -> bool) (y : vector) :=
  total d (fun v => if D1 v then y v else 0).

(** The t that makes the formula on D1 add up to 1: (sum of f~ + t) = 1 - kappa t. *)
Definition solves_on (d : nat) (kappa : R) (f : vector) (D1 : nat -> bool) (t : R) :=
  total_on d D1 (fun v => f v + t) = 1 - kappa * t.

(** The sets D1 that the search goes through. *)
Inductive reached (d : nat) (kappa : R) (f : vector) : (nat -> bool) -> Prop :=
  | all_values : reached d kappa f (fun _ => true)
  | next_round D1 next t :
      reached d kappa f D1 -> solves_on d kappa f D1 t ->
      (forall v, next v = true -> D1 v = true) ->
      (forall v, D1 v = true -> next v = false -> f v + t <= 0) ->
      reached d kappa f next.

(** No set on the way leaves out a value that is positive in the solution. *)
Definition keeps_the_support (d : nat) (f : vector) (D1 : nat -> bool) (t : R) :=
  every d (fun v => 0 < f v + t -> D1 v = true).

Lemma solution_adds_up_on d f D1 t :
  keeps_the_support d f D1 t -> total_on d D1 (norm_sub t f) = total d (norm_sub t f).
Proof.
  intro K. apply total_ext. take v V. destruct (D1 v) eqn:E; [reflexivity|].
  unfold norm_sub. symmetry. apply Rmax_right.
  destruct (Rle_dec (f v + t) 0) as [L|L]; [exact L|].
  pose proof (K v V ltac:(lra)). congruence.
Qed.

(** Every t of the search is at least the t of the solution. *)
Lemma search_comes_from_above d kappa f D1 t s :
  -1 < kappa -> level d kappa f s -> keeps_the_support d f D1 s ->
  solves_on d kappa f D1 t -> s <= t.
Proof.
  intros C [E P] K T. destruct (Rle_dec s t) as [L|L]; [exact L|exfalso].
  destruct (total_positive d (norm_sub s f)) as [w [W F]]; [lra|].
  assert (A : 0 < f w + s).
  { unfold norm_sub, Rmax in F. destruct Rle_dec; lra. }
  pose proof (K w W A) as I.
  (* on D1, f + t lies below the solution: at w by s - t, elsewhere by at least nothing *)
  assert (N : every d (fun v => 0 <= if D1 v then norm_sub s f v - (f v + t) else 0)).
  { take v V. destruct (D1 v); [|lra]. pose proof (Rmax_l (f v + s) 0).
    unfold norm_sub. lra. }
  pose proof (total_member d _ w W N) as M. cbv beta in M. rewrite I in M.
  assert (B : total d (fun v => if D1 v then norm_sub s f v - (f v + t) else 0)
              = total_on d D1 (norm_sub s f) - total_on d D1 (fun v => f v + t)).
  { unfold total_on. rewrite <- total_minus. apply total_ext. take v V. destruct (D1 v); ring. }
  rewrite B, (solution_adds_up_on d f D1 s K), E, T in M.
  pose proof (Rmax_l (f w + s) 0). unfold norm_sub in M at 1. nra.
Qed.

Lemma search_keeps_the_support d kappa f D1 s :
  -1 < kappa -> level d kappa f s -> reached d kappa f D1 -> keeps_the_support d f D1 s.
Proof.
  intros C L R. induction R as [|D1 next t R IH T S O]; [take v V; reflexivity|].
  take v V. intro A. pose proof (search_comes_from_above d kappa f D1 t s C L IH T) as B.
  destruct (next v) eqn:E; [reflexivity|]. pose proof (O v (IH v V A) E). lra.
Qed.

(** When no negative value is left in D1, the formula on D1 and 0 elsewhere is MLE-Apx: the search
    of N Appendix B is right, for every estimate in the domain and every kappa > -1.  It starts
    with all values; negative ones are not zeroed first. *)
Theorem search_for_D0_ends_with_mle_apx d kappa f D1 t :
  (0 < d)%nat -> -1 < kappa -> in_domain d kappa f ->
  reached d kappa f D1 -> solves_on d kappa f D1 t ->
  every d (fun v => D1 v = true -> 0 <= f v + t) ->
  level d kappa f t /\
  every d (fun v => (if D1 v then (f v + t) / (1 - kappa * t) else 0) = mle_apx kappa t f v).
Proof.
  intros D C F H T O. destruct (t_exists d kappa f D C F) as [s L].
  pose proof (search_keeps_the_support d kappa f D1 s C L H) as K.
  pose proof (search_comes_from_above d kappa f D1 t s C L K T) as G.
  assert (E : t = s).
  { destruct (Rle_lt_or_eq_dec s t G) as [Q|Q]; [exfalso|symmetry; exact Q].
    destruct L as [E P]. destruct (total_positive d (norm_sub s f)) as [w [W Fw]]; [lra|].
    assert (A : 0 < f w + s).
    { unfold norm_sub, Rmax in Fw. destruct Rle_dec; lra. }
    pose proof (K w W A) as I.
    assert (N : every d (fun v => 0 <= if D1 v then f v + t - norm_sub s f v else 0)).
    { take v V. destruct (D1 v) eqn:S; [|lra]. pose proof (O v V S).
      unfold norm_sub, Rmax. destruct Rle_dec; lra. }
    pose proof (total_member d _ w W N) as M. cbv beta in M. rewrite I in M.
    assert (B : total d (fun v => if D1 v then f v + t - norm_sub s f v else 0)
                = total_on d D1 (fun v => f v + t) - total_on d D1 (norm_sub s f)).
    { unfold total_on. rewrite <- total_minus. apply total_ext. take v V.
      destruct (D1 v); ring. }
    rewrite B, (solution_adds_up_on d f D1 s K), E, T in M.
    unfold norm_sub in M at 1. rewrite Rmax_left in M by lra. nra. }
  subst s. split; [exact L|]. take v V. unfold mle_apx, norm_sub.
  destruct (D1 v) eqn:I.
  - rewrite Rmax_left; [reflexivity|]. apply (O v V I).
  - rewrite Rmax_right; [unfold Rdiv; ring|].
    destruct (Rle_dec (f v + t) 0) as [Q|Q]; [exact Q|].
    pose proof (K v V ltac:(lra)). congruence.
Qed.

(** The same search with kappa = 0 ends with Norm-Sub (N Appendix A: "one can also find D0 using a
    similar approach"). *)
Theorem search_for_D0_ends_with_norm_sub d f D1 delta :
  (0 < d)%nat -> reached d 0 f D1 -> total_on d D1 (fun v => f v + delta) = 1 ->
  every d (fun v => D1 v = true -> 0 <= f v + delta) ->
  total d (norm_sub delta f) = 1 /\
  every d (fun v => (if D1 v then f v + delta else 0) = norm_sub delta f v).
Proof.
  intros D R T O.
  destruct (search_for_D0_ends_with_mle_apx d 0 f D1 delta D) as [[E _] V].
  - lra.
  - take v V. lra.
  - exact R.
  - unfold solves_on. rewrite T. ring.
  - exact O.
  - split; [lra|]. take v W. pose proof (V v W) as H. cbv beta in H.
    replace (mle_apx 0 delta f v) with (norm_sub delta f v) in H by (unfold mle_apx; field).
    rewrite <- H. destruct (D1 v); [field|reflexivity].
Qed.

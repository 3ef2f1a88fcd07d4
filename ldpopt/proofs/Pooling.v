(** * Pool first

    Losses that see their data through one mean have one answer to a known order: impose the order
    on the data, by isotonic regression, and then solve the problem without the order.  Least
    squares, the likelihoods of counts and the divergence are such losses, and any common bounds
    and total are such problems. *)

From Coq Require Import Reals Lra Lia Psatz.
From LdpOpt Require Import Sums NormSub Nearest Isotonic Boxes.
Open Scope R_scope.

(** The loss of y from the data f: the sum of Phi(y_v) - f_v theta(y_v).  Least squares has
    Phi(y) = y^2 and theta(y) = 2 y, but for the squares of f. *)
Definition pooling_loss (d : nat) (Phi theta : R -> R) (f y : vector) :=
  total d (fun v => Phi (y v) - f v * theta (y v)).

Definition isotonic_regression (d : nat) (above : nat -> nat -> Prop) (f m : vector) :=
  ordered d above m /\ forall y, ordered d above y -> dist2 d m f <= dist2 d y f.

(** What is moved by pooling has no sum along any vector that grows with the pooled data. *)
Lemma moves_cancel d above f m (z : vector) K :
  isotonic_regression d above f m -> 0 < K ->
  (forall v w, (v < d)%nat -> (w < d)%nat -> above v w -> z v - z w <= K * (m v - m w)) ->
  product d (fun v => m v - f v) z <= 0.
Proof.
  intros [M N] P B.
  assert (O : ordered d above (fun v => m v - / K * z v)).
  { intros v w V W A. pose proof (B v w V W A) as H.
    assert (I : 0 < / K) by (apply Rinv_0_lt_compat, P).
    assert (E : / K * (K * (m v - m w)) = m v - m w) by (field; lra).
    pose proof (Rmult_le_compat_l (/ K) _ _ (Rlt_le _ _ I) H). cbv beta. lra. }
  pose proof (nearest_ordered_vector_is_obtuse d above f m _ M N O) as A.
  assert (E : product d (fun v => m v - f v) (fun v => m v - / K * z v - m v)
              = - / K * product d (fun v => m v - f v) z).
  { unfold product. rewrite <- total_scale. apply total_ext. take v V. ring. }
  cbv beta in A. rewrite E in A. assert (I : 0 < / K) by (apply Rinv_0_lt_compat, P). nra.
Qed.

(** Differences of a function of the pooled data are at most a multiple of those of the data, since
    there are finitely many. *)
Lemma slope_is_bounded d (m z : vector) :
  (forall v w, (v < d)%nat -> (w < d)%nat -> m v = m w -> z v = z w) ->
  exists K, 0 < K /\ forall v w, (v < d)%nat -> (w < d)%nat -> m w <= m v ->
    z v - z w <= K * (m v - m w).
Proof.
  intro F. set (slope := fun v w => Rabs (z v - z w) / Rabs (m v - m w)).
  set (row := fun v => total d (fun w => if Req_EM_T (m v) (m w) then 0 else slope v w)).
  assert (S : forall v, every d (fun w => 0 <= if Req_EM_T (m v) (m w) then 0 else slope v w)).
  { intros v w W. cbv beta. destruct Req_EM_T as [E|E]; [lra|]. unfold slope.
    apply Rmult_le_pos; [apply Rabs_pos|]. left. apply Rinv_0_lt_compat, Rabs_pos_lt. lra. }
  assert (T : every d (fun v => 0 <= row v)) by (take v V; apply total_nonneg, S).
  exists (1 + total d row). split; [pose proof (total_nonneg d row T); lra|].
  intros v w V W L. destruct (Req_EM_T (m v) (m w)) as [E|E].
  - rewrite (F v w V W E), E. lra.
  - assert (P : 0 < m v - m w) by lra.
    pose proof (total_member d row v V T) as A.
    pose proof (total_member d _ w W (S v)) as B. cbv beta in B. fold (row v) in B.
    destruct (Req_EM_T (m v) (m w)) as [C|C]; [lra|].
    assert (Q : slope v w * (m v - m w) = Rabs (z v - z w)).
    { unfold slope. rewrite (Rabs_pos_eq (m v - m w)) by lra. field. lra. }
    pose proof (Rle_abs (z v - z w)). nra.
Qed.

(** Pool first.  Let x be the only solution of a problem for the pooled data m, without the order.
    If it gives equal frequencies to equal data and keeps the order, it is the only solution with
    the order for the data f themselves, whatever the feasible set and the loss are. *)
Theorem pooled_data_have_the_ordered_solution d above (S : vector -> Prop) Phi theta f m x :
  (forall a b, a <= b -> theta a <= theta b) ->
  isotonic_regression d above f m -> ordered d above x ->
  (forall v w, (v < d)%nat -> (w < d)%nat -> m v = m w -> x v = x w) ->
  only_minimiser d S (pooling_loss d Phi theta m) x ->
  only_minimiser d (fun y => S y /\ ordered d above y) (pooling_loss d Phi theta f) x.
Proof.
  intros G I X Q [SX [L U]]. pose proof I as [M N].
  destruct (slope_is_bounded d m (fun v => theta (x v))) as [K [P B]].
  { intros v w V W E. rewrite (Q v w V W E). reflexivity. }
  assert (C : product d (fun v => m v - f v) (fun v => theta (x v)) <= 0).
  { apply moves_cancel with (above := above) (K := K); [exact I|exact P|].
    intros v w V W A. apply (B v w V W), (M v w V W A). }
  assert (H : forall y, S y -> ordered d above y ->
              pooling_loss d Phi theta m y - pooling_loss d Phi theta m x
              <= pooling_loss d Phi theta f y - pooling_loss d Phi theta f x).
  { intros y Y O.
    assert (T : ordered d above (fun v => m v + theta (y v))).
    { intros v w V W A. pose proof (M v w V W A). pose proof (G _ _ (O v w V W A)).
      cbv beta. lra. }
    pose proof (nearest_ordered_vector_is_obtuse d above f m _ M N T) as A. cbv beta in A.
    assert (E : pooling_loss d Phi theta f y - pooling_loss d Phi theta f x
                - (pooling_loss d Phi theta m y - pooling_loss d Phi theta m x)
                = product d (fun v => m v - f v) (fun v => m v + theta (y v) - m v)
                  - product d (fun v => m v - f v) (fun v => theta (x v))).
    { unfold pooling_loss, product. rewrite <- !total_minus. apply total_ext. take v V. ring. }
    lra. }
  split; [split; assumption|]. split; intros y [Y O]; pose proof (H y Y O) as E.
  - pose proof (L y Y). lra.
  - intro Z. apply (U y Y). lra.
Qed.

Definition constant (c : R) : vector := fun _ => c.

(** Least squares under an order, common bounds and a total: the isotonic regression, shifted and
    clipped.  Norm-Sub is the case of the bounds 0 and 1. *)
Theorem clipped_isotonic_regression_is_ordered_least_squares d above f m lo hi s T :
  lo <= hi -> isotonic_regression d above f m ->
  total d (fun v => clip lo hi (m v + s)) = T ->
  only_minimiser d
    (fun y => (every d (fun v => lo <= y v <= hi) /\ total d y = T) /\ ordered d above y)
    (fun y => dist2 d y f) (fun v => clip lo hi (m v + s)).
Proof.
  intros B I E. set (x := fun v => clip lo hi (m v + s)) in *.
  assert (X : forall v, clipped ones ones (constant lo) (constant hi) s m v = x v).
  { intro v. unfold clipped, x, constant, ones. f_equal. field. }
  assert (D : forall g y, dist2 d y g = pooling_loss d (fun a => a ^ 2) (fun a => 2 * a) g y
                                        + total d (fun v => g v ^ 2)).
  { intros g y. unfold dist2, pooling_loss. rewrite <- total_plus. apply total_ext. take v V.
    ring. }
  assert (O : forall y, total d (fun v => ones v * y v) = total d y).
  { intro y. apply total_ext. take v V. unfold ones. ring. }
  assert (W : forall y g, weighted_dist2 d ones y g = dist2 d y g).
  { intros y g. unfold weighted_dist2, dist2. apply total_ext. take v V. unfold ones. ring. }
  destruct (clipping_is_weighted_least_squares_in_a_box d m ones ones
              (constant lo) (constant hi) T s) as [[F1 F2] [F3 F4]].
  { take v V. unfold ones. lra. }
  { take v V. exact B. }
  { rewrite O, <- E. apply total_ext. take v V. apply X. }
  assert (A : only_minimiser d (fun y => every d (fun v => lo <= y v <= hi) /\ total d y = T)
                (pooling_loss d (fun a => a ^ 2) (fun a => 2 * a) m) x).
  { split; [split; [take v V; apply clip_in_bounds, B|exact E]|].
    split; intros y [Y Z].
    - assert (Y2 : in_box d ones (constant lo) (constant hi) T y)
        by (split; [exact Y|rewrite O; exact Z]).
      pose proof (F3 y Y2) as H. rewrite !W, !D in H.
      assert (R : pooling_loss d (fun a => a ^ 2) (fun a => 2 * a) m
                    (clipped ones ones (constant lo) (constant hi) s m)
                  = pooling_loss d (fun a => a ^ 2) (fun a => 2 * a) m x).
      { unfold pooling_loss. apply total_ext. take v V. rewrite X. reflexivity. }
      lra.
    - intro L. assert (Y2 : in_box d ones (constant lo) (constant hi) T y)
        by (split; [exact Y|rewrite O; exact Z]).
      assert (R : pooling_loss d (fun a => a ^ 2) (fun a => 2 * a) m
                    (clipped ones ones (constant lo) (constant hi) s m)
                  = pooling_loss d (fun a => a ^ 2) (fun a => 2 * a) m x).
      { unfold pooling_loss. apply total_ext. take v V. rewrite X. reflexivity. }
      pose proof (F4 y Y2) as H. rewrite !W, !D in H. intros v V. rewrite (H ltac:(lra) v V).
      apply X. }
  assert (K : ordered d above x).
  { destruct I as [M _]. intros v w V W2 A2. pose proof (M v w V W2 A2).
    unfold x, clip, Rmin, Rmax. repeat destruct Rle_dec; lra. }
  assert (G : forall a b : R, a <= b -> 2 * a <= 2 * b) by (intros; lra).
  assert (Q : forall v w, (v < d)%nat -> (w < d)%nat -> m v = m w -> x v = x w).
  { intros v w V W2 Q. unfold x. rewrite Q. reflexivity. }
  destruct (pooled_data_have_the_ordered_solution d above _ (fun a => a ^ 2) (fun a => 2 * a)
              f m x G I K Q A) as [P1 [P2 P3]].
  split; [exact P1|]. split; intros y Y.
  - pose proof (P2 y Y). rewrite !D. lra.
  - intro L. apply (P3 y Y). rewrite !D in L. lra.
Qed.

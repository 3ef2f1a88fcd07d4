(** * A known order: isotonic regression, then Norm-Sub

    If it is known which values are at least as frequent as which others, CLS is solved in two
    steps: the nearest vector that has the order (isotonic regression), then its Norm-Sub.  This is
    proved for any relation between values: a chain, a tree, or none. *)

From Coq Require Import Reals Lra Lia Psatz.
From LdpOpt Require Import Sums NormSub Nearest.
Open Scope R_scope.

(** `above v w` states that v is known to be at least as frequent as w. *)
Definition ordered (d : nat) (above : nat -> nat -> Prop) (y : vector) :=
  forall v w, (v < d)%nat -> (w < d)%nat -> above v w -> y w <= y v.

Definition product (d : nat) (x y : vector) := total d (fun v => x v * y v).

(** A quadratic that is not negative near 0 on the right starts upwards. *)
Lemma starts_upwards a b :
  0 <= b -> (forall s, 0 < s <= 1 -> 0 <= 2 * s * a + s ^ 2 * b) -> 0 <= a.
Proof.
  intros B H. destruct (Rle_dec 0 a) as [P|P]; [exact P|exfalso].
  set (s := - a / (b - a)).
  assert (E : s * (b - a) = - a) by (unfold s; field; lra).
  assert (S : 0 < s) by (apply Rmult_lt_0_compat; [lra|apply Rinv_0_lt_compat; lra]).
  assert (S1 : s <= 1) by nra.
  pose proof (H s (conj S S1)) as Q. assert (s * b < - a) by nra. nra.
Qed.

(** The step from the nearest ordered vector m to another ordered vector z makes no acute angle
    with the step from m back to f. *)
Lemma nearest_ordered_vector_is_obtuse d above f m z :
  ordered d above m -> (forall y, ordered d above y -> dist2 d m f <= dist2 d y f) ->
  ordered d above z -> 0 <= product d (fun v => m v - f v) (fun v => z v - m v).
Proof.
  intros M N Z. apply starts_upwards with (b := dist2 d z m); [apply dist2_nonneg|].
  intros s [S S1]. set (y := fun v => m v + s * (z v - m v)).
  assert (Y : ordered d above y).
  { intros v w V W A. pose proof (M v w V W A). pose proof (Z v w V W A). unfold y. nra. }
  pose proof (N y Y) as H.
  assert (E : dist2 d y f = dist2 d m f
              + 2 * s * product d (fun v => m v - f v) (fun v => z v - m v)
              + s ^ 2 * dist2 d z m).
  { unfold dist2, product. rewrite <- !total_scale, <- !total_plus. apply total_ext. take v V.
    unfold y. ring. }
  lra.
Qed.

(** With a known order, CLS is Norm-Sub of the isotonic regression: if m is a nearest vector with
    the order and delta its Norm-Sub shift, max(m + delta, 0) is the only nearest distribution
    with the order. *)
Theorem norm_sub_of_isotonic_regression_is_ordered_cls d above f m delta :
  ordered d above m -> (forall y, ordered d above y -> dist2 d m f <= dist2 d y f) ->
  total d (norm_sub delta m) = 1 ->
  only_minimiser d (fun y => simplex d y /\ ordered d above y) (fun y => dist2 d y f)
    (norm_sub delta m).
Proof.
  intros M N E. set (x := norm_sub delta m) in *.
  assert (X : ordered d above x).
  { intros v w V W A. apply order_is_preserved, (M v w V W A). }
  (* m - x does not decrease either: norm_sub moves values by at most as much as they differ *)
  assert (R : ordered d above (fun v => m v - x v)).
  { intros v w V W A. pose proof (M v w V W A). unfold x, norm_sub, Rmax.
    repeat destruct Rle_dec; lra. }
  pose proof (nearest_ordered_vector_is_obtuse d above f m _ M N R) as A.
  assert (H : forall y, simplex d y -> ordered d above y ->
              dist2 d x f + dist2 d y x <= dist2 d y f).
  { intros y S Y.
    assert (P : ordered d above (fun v => m v + y v)).
    { intros v w V W O. pose proof (M v w V W O). pose proof (Y v w V W O). simpl. lra. }
    pose proof (nearest_ordered_vector_is_obtuse d above f m _ M N P) as B.
    pose proof (norm_sub_pythagoras d m delta y E S) as C. fold x in C.
    assert (I : dist2 d y f - dist2 d x f - dist2 d y x
                = (dist2 d y m - dist2 d x m - dist2 d y x)
                  + 2 * (product d (fun v => m v - f v) (fun v => m v + y v - m v)
                         + product d (fun v => m v - f v) (fun v => m v - x v - m v))).
    { unfold dist2, product. rewrite <- !total_minus, <- !total_plus, <- !total_scale,
        <- !total_plus. apply total_ext. take v V. ring. }
    lra. }
  split; [split; [apply norm_sub_in_simplex, E|exact X]|].
  split; intros y [S Y]; pose proof (H y S Y).
  - pose proof (dist2_nonneg d y x). lra.
  - intro L. apply dist2_equal. lra.
Qed.

(** The isotonic regression exists for every estimate and every known order. *)
Theorem isotonic_regression_exists d above f :
  exists m, ordered d above m /\ forall y, ordered d above y -> dist2 d m f <= dist2 d y f.
Proof.
  apply a_nearest_point_exists.
  - exists (fun _ => 0). intros v w V W A. lra.
  - intros y z Y Z v w V W A. pose proof (Y v w V W A). pose proof (Z v w V W A). lra.
  - intros m L v w V W A. apply le_epsilon. intros e P.
    destruct (L (e / 2) ltac:(lra)) as [y [Y N]]. pose proof (Y v w V W A).
    pose proof (both_sides _ _ (N v V)). pose proof (both_sides _ _ (N w W)). lra.
Qed.

(** * A nearest point exists

    Least squares on a set that is closed, convex and not empty always has a solution.  For the
    distributions NormSub.v constructs it; for known orders there is no formula, and this file
    shows that a solution exists: approximate solutions are close to one another, and their limit
    is a solution. *)

From Coq Require Import Reals Lra Lia Psatz.
From LdpOpt Require Import Sums.
Open Scope R_scope.

Lemma both_sides a b : Rabs a <= b -> - b <= a <= b.
Proof. unfold Rabs. destruct Rcase_abs; lra. Qed.

(** With every two points their midpoint, and with points near m for every distance also m. *)
Definition has_midpoints (C : vector -> Prop) :=
  forall y z, C y -> C z -> C (fun v => (y v + z v) / 2).

Definition is_closed (d : nat) (C : vector -> Prop) :=
  forall m, (forall s, 0 < s -> exists y, C y /\ every d (fun v => Rabs (y v - m v) <= s)) -> C m.

(** A choice for each of finitely many values makes a vector. *)
Lemma finite_choice d (P : nat -> R -> Prop) :
  every d (fun v => exists x, P v x) -> exists m : vector, every d (fun v => P v (m v)).
Proof.
  induction d as [|d IH]; intro H.
  - exists (fun _ => 0). take v V. lia.
  - destruct IH as [m M]; [take v V; apply H; lia|]. destruct (H d ltac:(lia)) as [x X].
    exists (fun v => if Nat.eq_dec v d then x else m v). take v V.
    destruct (Nat.eq_dec v d) as [->|N]; [exact X|apply M; lia].
Qed.

(** The smallest distance, reached or not. *)
Lemma smallest_distance d C f :
  (exists y, C y) -> exists D, (forall y, C y -> D <= dist2 d y f) /\
                               (forall e, 0 < e -> exists y, C y /\ dist2 d y f < D + e).
Proof.
  intros [y0 Y0]. set (E := fun x => exists y, C y /\ x = - dist2 d y f).
  destruct (completeness E) as [L [U S]].
  - exists 0. intros x [y [_ ->]]. pose proof (dist2_nonneg d y f). lra.
  - exists (- dist2 d y0 f), y0. auto.
  - exists (- L). split.
    + intros y Y. pose proof (U (- dist2 d y f) (ex_intro _ y (conj Y eq_refl))). lra.
    + intros e P. destruct (Classical_Prop.classic (exists y, C y /\ dist2 d y f < - L + e))
        as [H|H]; [exact H|exfalso].
      assert (B : is_upper_bound E (L - e)).
      { intros x [y [Y ->]]. destruct (Rle_dec (- L + e) (dist2 d y f)) as [Q|Q]; [lra|].
        exfalso. apply H. exists y. split; [exact Y|lra]. }
      pose proof (S (L - e) B). lra.
Qed.

(** D is the smallest distance, and points within s^2/4 of it are good to s. *)
Definition good (d : nat) (C : vector -> Prop) (f : vector) (D s : R) (y : vector) :=
  C y /\ dist2 d y f < D + s ^ 2 / 4.

(** Parallelogram: two points that are good to s differ by at most s in every value. *)
Lemma good_points_are_close d C f D s y z v :
  has_midpoints C -> (forall x, C x -> D <= dist2 d x f) -> 0 < s ->
  good d C f D s y -> good d C f D s z -> (v < d)%nat -> Rabs (y v - z v) <= s.
Proof.
  intros M B S [Y YD] [Z ZD] V. pose proof (B _ (M y z Y Z)) as H.
  assert (P : dist2 d y f + dist2 d z f
              = 2 * dist2 d (fun u => (y u + z u) / 2) f + 1/2 * dist2 d y z).
  { unfold dist2. rewrite <- !total_scale, <- !total_plus. apply total_ext. take u U. field. }
  pose proof (total_member d (fun u => (y u - z u) ^ 2) v V
                ltac:(take u U; apply pow2_ge_0)) as W.
  cbv beta in W. fold (dist2 d y z) in W.
  assert (Q : (y v - z v) ^ 2 <= s ^ 2) by lra.
  apply Rabs_le. split; nra.
Qed.

(** Of each value, the good points have a limit. *)
Lemma values_have_a_limit d C f D v :
  has_midpoints C -> (forall x, C x -> D <= dist2 d x f) ->
  (forall e, 0 < e -> exists y, C y /\ dist2 d y f < D + e) -> (v < d)%nat ->
  exists x, forall s y, 0 < s -> good d C f D s y -> Rabs (y v - x) <= s.
Proof.
  intros M B A V.
  assert (G : forall s, 0 < s -> exists y, good d C f D s y).
  { intros s S. destruct (A (s ^ 2 / 4)) as [y Y]; [nra|]. exists y. exact Y. }
  assert (K : forall s t y, 0 < s -> s <= t -> good d C f D s y -> good d C f D t y).
  { intros s t y S T [Y YD]. split; [exact Y|nra]. }
  set (E := fun x => exists s, 0 < s /\ forall y, good d C f D s y -> x <= y v).
  assert (U : forall t z, 0 < t -> good d C f D t z -> is_upper_bound E (z v + t)).
  { intros t z T Z x [s [S X]]. set (r := Rmin s t).
    assert (R : 0 < r) by (unfold r, Rmin; destruct Rle_dec; lra).
    destruct (G r R) as [y Y].
    pose proof (X y (K r s y R (Rmin_l s t) Y)).
    pose proof (good_points_are_close d C f D t y z v M B T (K r t y R (Rmin_r s t) Y) Z V) as N.
    apply both_sides in N. lra. }
  assert (L : forall t z, 0 < t -> good d C f D t z -> E (z v - t)).
  { intros t z T Z. exists t. split; [exact T|]. intros y Y.
    pose proof (good_points_are_close d C f D t y z v M B T Y Z V) as N.
    apply both_sides in N. lra. }
  destruct (G 1 ltac:(lra)) as [z Z].
  destruct (completeness E) as [x [X1 X2]].
  - exists (z v + 1). apply U; [lra|exact Z].
  - exists (z v - 1). apply L; [lra|exact Z].
  - exists x. intros s y S Y. pose proof (X1 _ (L s y S Y)). pose proof (X2 _ (U s y S Y)).
    apply Rabs_le. lra.
Qed.

(** A closed convex set that is not empty has a point nearest to any vector. *)
Theorem a_nearest_point_exists d C f :
  (exists y, C y) -> has_midpoints C -> is_closed d C ->
  exists m, C m /\ forall y, C y -> dist2 d m f <= dist2 d y f.
Proof.
  intros N M K. destruct (smallest_distance d C f N) as [D [B A]].
  destruct (finite_choice d (fun v x => forall s y, 0 < s -> good d C f D s y ->
                                        Rabs (y v - x) <= s)) as [m L].
  { take v V. apply (values_have_a_limit d C f D v M B A V). }
  assert (G : forall s, 0 < s -> exists y, good d C f D s y).
  { intros s S. destruct (A (s ^ 2 / 4)) as [y Y]; [nra|]. exists y. exact Y. }
  exists m. split.
  - apply K. intros s S. destruct (G s S) as [y Y]. exists y. split; [apply Y|].
    take v V. apply (L v V s y S Y).
  - intros y Y. apply Rle_trans with D; [|apply B, Y]. apply le_epsilon. intros e P.
    set (k := total d (fun v => 2 * Rabs (m v - f v) + 1)).
    assert (K0 : 0 <= k).
    { apply total_nonneg. take v V. pose proof (Rabs_pos (m v - f v)). lra. }
    (* s <= 1 and s (k + 1) <= e *)
    set (s := Rmin 1 (e / (k + 1))).
    assert (I : 0 < e / (k + 1)) by (apply Rmult_lt_0_compat; [lra|apply Rinv_0_lt_compat; lra]).
    assert (S : 0 < s) by (unfold s, Rmin; destruct Rle_dec; lra).
    assert (S1 : s <= 1) by apply Rmin_l.
    assert (S2 : s * (k + 1) <= e).
    { pose proof (Rmin_r 1 (e / (k + 1))) as H. fold s in H.
      apply (Rmult_le_compat_r (k + 1)) in H; [|lra].
      replace (e / (k + 1) * (k + 1)) with e in H by (field; lra). exact H. }
    destruct (G s S) as [z [Z ZD]].
    assert (Q : dist2 d m f - dist2 d z f <= s * k).
    { unfold dist2, k. rewrite <- total_minus, <- total_scale. apply total_le. take v V.
      pose proof (L v V s z S (conj Z ZD)) as H. apply both_sides in H.
      assert (T : (m v - f v) ^ 2 - (z v - f v) ^ 2
                  = (m v - z v) * (2 * (m v - f v) - (m v - z v))) by ring.
      rewrite T. pose proof (Rle_abs (m v - f v)). pose proof (Rle_abs (- (m v - f v))) as J.
      rewrite Rabs_Ropp in J. set (a := Rabs (m v - f v)) in *.
      assert (0 <= a) by apply Rabs_pos.
      destruct (Rle_dec 0 (m v - z v)); nra. }
    nra.
Qed.

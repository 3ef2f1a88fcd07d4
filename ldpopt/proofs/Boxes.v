(** * Weights, caps and bounds

    CLS with more in it: every value has its own weight in the squared distance, its own lower and
    upper bound, and its own coefficient in the sum.  The solution keeps the form of Norm-Sub, one
    shift and a clip. *)

From Coq Require Import Reals Lra Lia Psatz.
From LdpOpt Require Import Sums NormSub.
Open Scope R_scope.

Definition weighted_dist2 (d : nat) (w x y : vector) := total d (fun v => w v * (x v - y v) ^ 2).

Lemma weighted_dist2_nonneg d w x y :
  every d (fun v => 0 < w v) -> 0 <= weighted_dist2 d w x y.
Proof.
  intro W. apply total_nonneg. take v V. pose proof (W v V).
  apply Rmult_le_pos; [simpl in *; lra|apply pow2_ge_0].
Qed.

Lemma weighted_dist2_equal d w x y :
  every d (fun v => 0 < w v) -> weighted_dist2 d w x y <= 0 -> every d (fun v => x v = y v).
Proof.
  intros W H. take v V. pose proof (W v V) as P. simpl in P.
  assert (N : every d (fun u => 0 <= w u * (x u - y u) ^ 2)).
  { take u U. pose proof (W u U). apply Rmult_le_pos; [simpl in *; lra|apply pow2_ge_0]. }
  pose proof (total_each_zero d _ N H v V) as Z. cbv beta in Z.
  pose proof (pow2_ge_0 (x v - y v)). assert ((x v - y v) ^ 2 = 0) by nra. nra.
Qed.

(** ** Bounds on both sides *)

Definition clip (lo hi z : R) := Rmin (Rmax z lo) hi.

(** The solution: f~ moved along coefficient/weight, and clipped to the bounds. *)
Definition clipped (w a lo hi : vector) (s : R) (f : vector) : vector :=
  fun v => clip (lo v) (hi v) (f v + s * (a v / w v)).

Definition in_box (d : nat) (a lo hi : vector) (m : R) (y : vector) :=
  every d (fun v => lo v <= y v <= hi v) /\ total d (fun v => a v * y v) = m.

Lemma clip_in_bounds lo hi z : lo <= hi -> lo <= clip lo hi z <= hi.
Proof. intro L. unfold clip, Rmin, Rmax. repeat destruct Rle_dec; lra. Qed.

(** As for Norm-Sub: a price per unit of the weighted sum, and a square. *)
Lemma price_between_bounds w a lo hi s f y :
  0 < w -> lo <= y <= hi ->
  let x := clip lo hi (f + s * (a / w)) in
  2 * s * (a * (y - x)) + w * (y - x) ^ 2 <= w * (y - f) ^ 2 - w * (x - f) ^ 2.
Proof.
  intros W Y x. set (z := f + s * (a / w)) in *.
  assert (E : s * a = w * (z - f)) by (unfold z; field; lra).
  assert (P : 0 <= w * ((x - z) * (y - x))).
  { apply Rmult_le_pos; [lra|]. unfold x, clip, Rmin, Rmax. repeat destruct Rle_dec; nra. }
  replace (2 * s * (a * (y - x))) with (2 * (s * a) * (y - x)) by ring. rewrite E. nra.
Qed.

(** Weighted least squares between bounds, with one weighted sum: a shift along
    coefficient/weight and a clip is the only solution, for every estimate and all weights. *)
Theorem clipping_is_weighted_least_squares_in_a_box d f w a lo hi m s :
  every d (fun v => 0 < w v) -> every d (fun v => lo v <= hi v) ->
  total d (fun v => a v * clipped w a lo hi s f v) = m ->
  only_minimiser d (in_box d a lo hi m) (fun y => weighted_dist2 d w y f)
    (clipped w a lo hi s f).
Proof.
  intros W B E. set (x := clipped w a lo hi s f) in *.
  assert (H : forall y, in_box d a lo hi m y ->
              weighted_dist2 d w x f + weighted_dist2 d w y x <= weighted_dist2 d w y f).
  { intros y [Y S].
    assert (H : total d (fun v => 2 * s * (a v * y v - a v * x v) + w v * (y v - x v) ^ 2)
                <= total d (fun v => w v * (y v - f v) ^ 2 - w v * (x v - f v) ^ 2)).
    { apply total_le. take v V. rewrite <- Rmult_minus_distr_l.
      apply price_between_bounds; [apply W, V|apply Y, V]. }
    rewrite total_plus, total_scale, !total_minus, S, E in H. unfold weighted_dist2. lra. }
  split; [split; [take v V; apply clip_in_bounds, B, V|exact E]|].
  split; intros y Y; pose proof (H y Y).
  - pose proof (weighted_dist2_nonneg d w y x W). lra.
  - intro L. apply (weighted_dist2_equal d w); [exact W|lra].
Qed.

Lemma clipped_total_continuous d w a lo hi f :
  continuity (fun s => total d (fun v => a v * clipped w a lo hi s f v)).
Proof.
  apply (total_continuous d (fun s v => a v * clipped w a lo hi s f v)). take v V.
  unfold clipped, clip.
  apply (continuity_mult (fun _ => a v)
           (fun s => Rmin (Rmax (f v + s * (a v / w v)) (lo v)) (hi v)));
    [apply constant_continuous|].
  apply (min_continuous (fun s => Rmax (f v + s * (a v / w v)) (lo v)));
    [|apply constant_continuous].
  apply (max_continuous (fun s => f v + s * (a v / w v))); [|apply constant_continuous].
  apply (continuity_plus (fun _ => f v) (fun s => s * (a v / w v))); [apply constant_continuous|].
  apply (continuity_mult (fun s => s) (fun _ => a v / w v)); [|apply constant_continuous].
  apply identity_continuous.
Qed.

(** The shift exists whenever the sum can be reached between the bounds. *)
Theorem shift_exists_in_a_box d f w a lo hi m :
  (0 < d)%nat -> every d (fun v => 0 < w v) -> every d (fun v => 0 < a v) ->
  every d (fun v => lo v <= hi v) ->
  total d (fun v => a v * lo v) <= m <= total d (fun v => a v * hi v) ->
  exists s, total d (fun v => a v * clipped w a lo hi s f v) = m.
Proof.
  intros D W A B M.
  (* the shifts at which value v reaches its lower and its upper bound *)
  set (down := fun v => (lo v - f v) * (w v / a v)).
  set (up := fun v => (hi v - f v) * (w v / a v)).
  assert (K : every d (fun v => 0 < w v / a v)).
  { take v V. apply Rmult_lt_0_compat; [apply W, V|]. apply Rinv_0_lt_compat, A, V. }
  assert (U : every d (fun v => down v <= up v)).
  { take v V. pose proof (K v V). pose proof (B v V). unfold down, up. simpl in *. nra. }
  assert (Q : forall s v, (v < d)%nat -> s * (a v / w v) * (w v / a v) = s).
  { intros s v V. pose proof (W v V). pose proof (A v V). simpl in *. field. lra. }
  destruct (largest d (fun v => - down v) D) as [i [I LI]].
  destruct (largest d up D) as [j [J LJ]].
  destruct (between (fun s => total d (fun v => a v * clipped w a lo hi s f v)) (down i) (up j) m)
    as [s [_ E]].
  - apply clipped_total_continuous.
  - pose proof (LJ i I). pose proof (U i I). simpl in *. lra.
  - assert (L : total d (fun v => a v * clipped w a lo hi (down i) f v)
                = total d (fun v => a v * lo v)).
    { apply total_ext. take v V. f_equal. pose proof (LI v V). pose proof (K v V).
      pose proof (B v V). pose proof (Q (down i) v V). unfold clipped. cbv beta in *.
      assert (f v + down i * (a v / w v) <= lo v).
      { assert (P : down i <= down v) by lra. unfold down at 2 in P. nra. }
      unfold clip, Rmin, Rmax. repeat destruct Rle_dec; lra. }
    assert (H : total d (fun v => a v * clipped w a lo hi (up j) f v)
                = total d (fun v => a v * hi v)).
    { apply total_ext. take v V. f_equal. pose proof (LJ v V). pose proof (K v V).
      pose proof (B v V). pose proof (Q (up j) v V). unfold clipped. cbv beta in *.
      assert (hi v <= f v + up j * (a v / w v)).
      { assert (P : up v <= up j) by lra. unfold up at 1 in P. nra. }
      unfold clip, Rmin, Rmax. repeat destruct Rle_dec; lra. }
    rewrite L, H. exact M.
  - exists s. exact E.
Qed.

(** ** The capped simplex

    Distributions with an upper bound on every frequency: one shift, clipped at 0 and at the
    caps. *)

Definition ones : vector := fun _ => 1.
Definition zeros : vector := fun _ => 0.
Definition capped (delta : R) (cap f : vector) : vector :=
  fun v => Rmin (Rmax (f v + delta) 0) (cap v).

(** The nearest distribution under caps is min(max(f~ + delta, 0), cap), for every estimate. *)
Theorem capped_norm_sub_is_cls_with_caps d f cap delta :
  every d (fun v => 0 <= cap v) -> total d (capped delta cap f) = 1 ->
  only_minimiser d (fun y => simplex d y /\ every d (fun v => y v <= cap v))
    (fun y => dist2 d y f) (capped delta cap f).
Proof.
  intros C E.
  assert (X : forall v, clipped ones ones zeros cap delta f v = capped delta cap f v).
  { intro v. unfold clipped, clip, capped, ones, zeros.
    replace (delta * (1 / 1)) with delta by field. reflexivity. }
  assert (S : total d (fun v => ones v * clipped ones ones zeros cap delta f v) = 1).
  { rewrite <- E. apply total_ext. take v V. rewrite X. unfold ones. ring. }
  assert (D : forall y, weighted_dist2 d ones y f = dist2 d y f).
  { intro y. apply total_ext. take v V. unfold ones. ring. }
  assert (F : forall y, (simplex d y /\ every d (fun v => y v <= cap v)) <->
                        in_box d ones zeros cap 1 y).
  { intro y. unfold in_box, simplex, zeros.
    assert (T : total d (fun v => ones v * y v) = total d y).
    { apply total_ext. take v V. unfold ones. ring. }
    rewrite T. split.
    - intros [[P Y] B]. split; [take v V; split; [apply P, V|apply B, V]|exact Y].
    - intros [B Y]. repeat split; [take v V; apply B, V|exact Y|take v V; apply B, V]. }
  destruct (clipping_is_weighted_least_squares_in_a_box d f ones ones zeros cap 1 delta)
    as [A [B U]]; [take v V; unfold ones; lra|take v V; apply C, V|exact S|].
  assert (G : dist2 d (clipped ones ones zeros cap delta f) f = dist2 d (capped delta cap f) f).
  { apply total_ext. take v V. rewrite X. reflexivity. }
  split; [|split].
  - split; [split; [|exact E]|].
    + take v V. unfold capped. pose proof (C v V). pose proof (Rmax_r (f v + delta) 0).
      apply Rmin_glb; assumption.
    + take v V. apply Rmin_r.
  - intros y Y. apply F in Y. pose proof (B y Y) as H. cbv beta in H. rewrite !D, G in H.
    exact H.
  - intros y Y L. apply F in Y. take v V. rewrite <- X. apply U; [exact Y| |exact V].
    rewrite !D, G. exact L.
Qed.

(** ** The weighted simplex

    Where noise differs between values, CLS weights every square by the inverse of its variance. *)

Definition weighted_norm_sub (s : R) (w f : vector) : vector := fun v => Rmax (f v + s / w v) 0.

(** Weighted least squares over the distributions: the shift of a value is in inverse proportion
    to its weight. *)
Theorem weighted_norm_sub_is_weighted_cls d f w s :
  every d (fun v => 0 < w v) -> total d (weighted_norm_sub s w f) = 1 ->
  only_minimiser d (simplex d) (fun y => weighted_dist2 d w y f) (weighted_norm_sub s w f).
Proof.
  intros W E. set (x := weighted_norm_sub s w f) in *.
  assert (N : every d (fun v => 0 <= x v)) by (take v V; apply Rmax_r).
  assert (H : forall y, simplex d y ->
              weighted_dist2 d w x f + weighted_dist2 d w y x <= weighted_dist2 d w y f).
  { intros y [P S].
    assert (H : total d (fun v => 2 * s * (y v - x v) + w v * (y v - x v) ^ 2)
                <= total d (fun v => w v * (y v - f v) ^ 2 - w v * (x v - f v) ^ 2)).
    { apply total_le. take v V. pose proof (W v V) as Q. pose proof (P v V) as R. cbv beta in *.
      set (z := f v + s / w v). assert (Z : s = w v * (z - f v)) by (unfold z; field; lra).
      assert (0 <= w v * ((x v - z) * (y v - x v))).
      { apply Rmult_le_pos; [lra|]. unfold x, weighted_norm_sub. fold z. unfold Rmax.
        destruct Rle_dec; nra. }
      rewrite Z. nra. }
    rewrite total_plus, total_scale, !total_minus, S, E in H. unfold weighted_dist2. lra. }
  split; [split; assumption|]. split; intros y Y; pose proof (H y Y).
  - pose proof (weighted_dist2_nonneg d w y x W). lra.
  - intro L. apply (weighted_dist2_equal d w); [exact W|lra].
Qed.

(** The shift of weighted CLS exists for every estimate on a domain that is not empty. *)
Theorem weighted_shift_exists d f w :
  (0 < d)%nat -> every d (fun v => 0 < w v) ->
  exists s, total d (weighted_norm_sub s w f) = 1.
Proof.
  intros D W. destruct (largest d (fun v => w v * f v) D) as [i [I L]]. cbv beta in L.
  pose proof (W i I) as P. cbv beta in P.
  destruct (between (fun s => total d (weighted_norm_sub s w f)) (- (w i * f i))
              (w i - w i * f i) 1) as [s [_ E]].
  - apply (total_continuous d (fun s => weighted_norm_sub s w f)). take v V.
    unfold weighted_norm_sub.
    apply (max_continuous (fun s => f v + s / w v)); [|apply constant_continuous].
    apply (continuity_plus (fun _ => f v) (fun s => s / w v)); [apply constant_continuous|].
    apply (continuity_mult (fun s => s) (fun _ => / w v)); [|apply constant_continuous].
    apply identity_continuous.
  - lra.
  - split.
    + rewrite total_zero; [lra|]. take v V. pose proof (W v V) as Q. pose proof (L v V) as K.
      cbv beta in *. apply Rmax_right.
      replace (f v + - (w i * f i) / w v) with ((w v * f v - w i * f i) * / w v) by (field; lra).
      assert (0 < / w v) by (apply Rinv_0_lt_compat; lra). nra.
    + pose proof (total_member d (weighted_norm_sub (w i - w i * f i) w f) i I
                    ltac:(take v V; apply Rmax_r)) as M.
      unfold weighted_norm_sub at 1 in M.
      replace (f i + (w i - w i * f i) / w i) with 1 in M by (field; lra).
      pose proof (Rmax_l 1 0). lra.
  - exists s. exact E.
Qed.

(** * Sums over a domain

    The values of the domain are 0, ..., d - 1.  An estimate, an answer or a true distribution is a
    function from values to real numbers, of which only the first d matter.  This file has what the
    others need about sums of such functions; nothing in it is about privacy. *)

From Coq Require Import Reals Lra Lia.
Open Scope R_scope.

Definition vector := nat -> R.

Fixpoint total (d : nat) (f : vector) : R :=
  match d with
  | O => 0
  | S n => total n f + f n
  end.

(** A condition on every value of the domain. *)
Definition every (d : nat) (P : nat -> Prop) := forall v, (v < d)%nat -> P v.

(** Takes one value of the domain, to prove a condition for it. *)
Tactic Notation "take" simple_intropattern(v) simple_intropattern(V) := intros v V; cbv beta in *.

(** The squared Euclidean distance, and the distance in the sum of absolute differences. *)
Definition dist2 (d : nat) (x y : vector) := total d (fun v => (x v - y v) ^ 2).
Definition dist1 (d : nat) (x y : vector) := total d (fun v => Rabs (x v - y v)).

(** A feasible point that no feasible point beats, and that only itself equals: the minimiser
    exists (it is x) and is unique. *)
Definition only_minimiser (d : nat) (feasible : vector -> Prop) (loss : vector -> R) (x : vector) :=
  feasible x /\
  (forall y, feasible y -> loss x <= loss y) /\
  (forall y, feasible y -> loss y <= loss x -> every d (fun v => y v = x v)).

(** ** Sums and order *)

Lemma total_ext d f g : every d (fun v => f v = g v) -> total d f = total d g.
Proof.
  unfold every. induction d as [|d IH]; intro H; simpl; [reflexivity|].
  rewrite IH by (intros; apply H; lia). rewrite H by lia. reflexivity.
Qed.

Lemma total_plus d f g : total d (fun v => f v + g v) = total d f + total d g.
Proof. induction d as [|d IH]; simpl; [|rewrite IH]; ring. Qed.

Lemma total_minus d f g : total d (fun v => f v - g v) = total d f - total d g.
Proof. induction d as [|d IH]; simpl; [|rewrite IH]; ring. Qed.

Lemma total_scale d c f : total d (fun v => c * f v) = c * total d f.
Proof. induction d as [|d IH]; simpl; [|rewrite IH]; ring. Qed.

Lemma total_constant d c : total d (fun _ => c) = INR d * c.
Proof. induction d as [|d IH]; [simpl; ring|]. rewrite S_INR. simpl. rewrite IH. ring. Qed.

Lemma total_zero d f : every d (fun v => f v = 0) -> total d f = 0.
Proof. intro H. rewrite (total_ext d f (fun _ => 0) H), total_constant. ring. Qed.

Lemma total_le d f g : every d (fun v => f v <= g v) -> total d f <= total d g.
Proof.
  unfold every. induction d as [|d IH]; intro H; simpl; [lra|].
  pose proof (IH ltac:(intros; apply H; lia)). pose proof (H d ltac:(lia)). lra.
Qed.

Lemma total_nonneg d f : every d (fun v => 0 <= f v) -> 0 <= total d f.
Proof. intro H. pose proof (total_le d (fun _ => 0) f H). rewrite total_constant in *. lra. Qed.

Lemma total_member d f w : (w < d)%nat -> every d (fun v => 0 <= f v) -> f w <= total d f.
Proof.
  unfold every. induction d as [|d IH]; intros L H; simpl; [lia|].
  assert (N : every d (fun v => 0 <= f v)) by (intros v V; apply H; lia).
  destruct (Nat.eq_dec w d) as [->|E].
  - pose proof (total_nonneg d f N). lra.
  - pose proof (IH ltac:(lia) N). pose proof (H d ltac:(lia)). lra.
Qed.

(** Terms that are not negative and add up to nothing are all zero. *)
Lemma total_each_zero d f :
  every d (fun v => 0 <= f v) -> total d f <= 0 -> every d (fun v => f v = 0).
Proof. intros N H v V. pose proof (total_member d f v V N). pose proof (N v V). lra. Qed.

Lemma total_lt d f g w :
  every d (fun v => f v <= g v) -> (w < d)%nat -> f w < g w -> total d f < total d g.
Proof.
  intros H W S. pose proof (total_member d (fun v => g v - f v) w W) as M.
  rewrite total_minus in M. simpl in M.
  assert (every d (fun v => 0 <= g v - f v)) by (intros v V; pose proof (H v V); lra).
  specialize (M ltac:(assumption)). lra.
Qed.

(** A positive sum has a positive term. *)
Lemma total_positive d f : 0 < total d f -> exists v, (v < d)%nat /\ 0 < f v.
Proof.
  induction d as [|d IH]; simpl; [lra|]. intro H.
  destruct (Rlt_dec 0 (f d)) as [P|P]; [exists d; split; [lia|exact P]|].
  destruct IH as [v [V F]]; [lra|]. exists v. split; [lia|exact F].
Qed.

(** A domain that is not empty has a value with the largest estimate. *)
Lemma largest d f : (0 < d)%nat -> exists w, (w < d)%nat /\ every d (fun v => f v <= f w).
Proof.
  unfold every. induction d as [|d IH]; intro P; [lia|]. destruct d as [|d].
  - exists 0%nat. split; [lia|]. intros v V. replace v with 0%nat by lia. lra.
  - destruct IH as [w [W H]]; [lia|]. destruct (Rle_dec (f w) (f (S d))) as [L|L].
    + exists (S d). split; [lia|]. intros v V.
      destruct (Nat.eq_dec v (S d)) as [->|E]; [lra|]. pose proof (H v ltac:(lia)). lra.
    + exists w. split; [lia|]. intros v V.
      destruct (Nat.eq_dec v (S d)) as [->|E]; [lra|]. apply H. lia.
Qed.

(** ** Distances *)

Lemma dist2_nonneg d x y : 0 <= dist2 d x y.
Proof. apply total_nonneg. take v V. apply pow2_ge_0. Qed.

Lemma dist2_self d x : dist2 d x x = 0.
Proof. apply total_zero. take v V. ring. Qed.

Lemma dist2_equal d x y : dist2 d x y <= 0 -> every d (fun v => x v = y v).
Proof.
  intros H v V. pose proof (total_each_zero d (fun v => (x v - y v) ^ 2)) as Z.
  specialize (Z ltac:(intros w _; apply pow2_ge_0) H v V). simpl in Z. nra.
Qed.

Lemma dist1_nonneg d x y : 0 <= dist1 d x y.
Proof. apply total_nonneg. take v V. apply Rabs_pos. Qed.

Lemma dist1_symmetric d x y : dist1 d x y = dist1 d y x.
Proof. apply total_ext. take v V. apply Rabs_minus_sym. Qed.

Lemma dist1_triangle d x y z : dist1 d x z <= dist1 d x y + dist1 d y z.
Proof.
  unfold dist1. rewrite <- total_plus. apply total_le. take v V.
  replace (x v - z v) with ((x v - y v) + (y v - z v)) by ring. apply Rabs_triang.
Qed.

(** ** Equations that have a solution *)

Lemma total_continuous d (f : R -> vector) :
  every d (fun v => continuity (fun t => f t v)) -> continuity (fun t => total d (f t)).
Proof.
  unfold every. induction d as [|d IH]; intro H; simpl.
  - apply continuity_const. intros a b. reflexivity.
  - apply (continuity_plus (fun t => total d (f t)) (fun t => f t d)).
    + apply IH. take v V. apply H. lia.
    + apply H. lia.
Qed.

Lemma constant_continuous c : continuity (fun _ => c).
Proof. apply continuity_const. intros a b. reflexivity. Qed.

Lemma identity_continuous : continuity (fun t => t).
Proof. apply derivable_continuous, derivable_id. Qed.

Lemma linear_continuous a b : continuity (fun t => a + b * t).
Proof.
  apply (continuity_plus (fun _ => a) (fun t => b * t)); [apply constant_continuous|].
  apply (continuity_mult (fun _ => b) (fun t => t)).
  - apply constant_continuous.
  - apply identity_continuous.
Qed.

(** max(x, y) = (x + y + |x - y|)/2, and the parts of the right-hand side are continuous. *)
Lemma max_continuous f g : continuity f -> continuity g -> continuity (fun t => Rmax (f t) (g t)).
Proof.
  intros F G t.
  apply (continuity_pt_locally_ext (fun t => (f t + g t + Rabs (f t - g t)) * / 2) _ 1 t); [lra| |].
  - intros s _. unfold Rmax, Rabs. destruct Rle_dec, Rcase_abs; lra.
  - apply continuity_pt_mult; [|apply constant_continuous].
    apply continuity_pt_plus; [apply continuity_pt_plus; [apply F|apply G]|].
    apply (continuity_pt_comp (fun t => f t - g t) Rabs t).
    + apply continuity_pt_minus; [apply F|apply G].
    + apply Rcontinuity_abs.
Qed.

Lemma min_continuous f g : continuity f -> continuity g -> continuity (fun t => Rmin (f t) (g t)).
Proof.
  intros F G t.
  apply (continuity_pt_locally_ext (fun t => - Rmax (- f t) (- g t)) _ 1 t); [lra| |].
  - intros s _. unfold Rmax, Rmin. destruct Rle_dec, Rle_dec; lra.
  - apply continuity_pt_opp.
    apply (max_continuous (fun t => - f t) (fun t => - g t));
      [apply continuity_opp, F|apply continuity_opp, G].
Qed.

(** A continuous function takes every value between two of its values. *)
Lemma between g a b c :
  continuity g -> a <= b -> g a <= c <= g b -> exists t, a <= t <= b /\ g t = c.
Proof.
  intros C L [A B]. destruct (IVT_cor (fun t => g t - c) a b) as [t [T E]].
  - apply (continuity_minus g (fun _ => c)); [exact C|apply constant_continuous].
  - exact L.
  - nra.
  - exists t. split; [exact T|lra].
Qed.

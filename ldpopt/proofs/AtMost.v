(** * At most k values that are not zero

    The distributions with at most k values that are not 0 are not a convex set.  The nearest of
    them is Norm-Sub of the k largest estimates all the same. *)

From Coq Require Import Reals Lra Lia Psatz.
From LdpOpt Require Import Sums NormSub.
Open Scope R_scope.

(** How many values are not 0, and how many a set holds. *)
Definition nonzeros (d : nat) (y : vector) : R :=
  total d (fun v => if Req_EM_T (y v) 0 then 0 else 1).

Definition size (d : nat) (K : nat -> bool) : R := total d (fun v => if K v then 1 else 0).

(** K holds the largest estimates: none outside is above any inside. *)
Definition holds_the_largest (d : nat) (K : nat -> bool) (f : vector) :=
  exists T, every d (fun v => (K v = true -> T <= f v) /\ (K v = false -> f v <= T)).

Definition norm_sub_within (K : nat -> bool) (delta : R) (f : vector) : vector :=
  fun v => if K v then Rmax (f v + delta) 0 else 0.

(** Of one value: its squared error, less the price of its mass, falls by at most
    max(f + delta, 0)^2 if it may differ from 0. *)
Lemma price_of_a_nonzero f delta y :
  0 <= y ->
  f ^ 2 - (if Req_EM_T y 0 then 0 else Rmax (f + delta) 0 ^ 2) <= (y - f) ^ 2 - 2 * delta * y.
Proof.
  intro Y. destruct Req_EM_T as [Z|Z]; [subst y; nra|]. unfold Rmax. destruct Rle_dec; [nra|].
  pose proof (pow2_ge_0 (y - (f + delta))). nra.
Qed.

(** No set of the same size holds more of a quantity that grows with the estimate. *)
Lemma largest_hold_most d K f delta y :
  holds_the_largest d K f -> nonzeros d y <= size d K ->
  total d (fun v => if Req_EM_T (y v) 0 then 0 else Rmax (f v + delta) 0 ^ 2)
  <= total d (fun v => if K v then Rmax (f v + delta) 0 ^ 2 else 0).
Proof.
  intros [T H] S. set (g := Rmax (T + delta) 0 ^ 2).
  assert (G : 0 <= g) by apply pow2_ge_0.
  assert (M : forall a b, a <= b -> Rmax (a + delta) 0 ^ 2 <= Rmax (b + delta) 0 ^ 2).
  { intros a b L. unfold Rmax. repeat destruct Rle_dec; nra. }
  assert (P : total d (fun v => (if Req_EM_T (y v) 0 then 0 else Rmax (f v + delta) 0 ^ 2)
                                - (if K v then Rmax (f v + delta) 0 ^ 2 else 0))
              <= total d (fun v => g * ((if Req_EM_T (y v) 0 then 0 else 1)
                                        - (if K v then 1 else 0)))).
  { apply total_le. take v V. destruct (H v V) as [I O].
    destruct (K v); [pose proof (M T (f v) (I eq_refl))|pose proof (M (f v) T (O eq_refl))];
      unfold g in *; destruct Req_EM_T; lra. }
  rewrite total_scale, !total_minus in P. unfold nonzeros, size in S. nra.
Qed.

(** Of all distributions with at most k values that are not 0, Norm-Sub of the k largest estimates
    is a nearest one, for every k and every estimate.  With equal estimates at the border there
    can be several. *)
Theorem nearest_sparse_distribution_is_norm_sub_of_the_largest d K f delta y :
  holds_the_largest d K f -> total d (norm_sub_within K delta f) = 1 ->
  simplex d y -> nonzeros d y <= size d K ->
  simplex d (norm_sub_within K delta f) /\
  nonzeros d (norm_sub_within K delta f) <= size d K /\
  dist2 d (norm_sub_within K delta f) f <= dist2 d y f.
Proof.
  intros L E [P S] N. set (x := norm_sub_within K delta f) in *.
  assert (X : every d (fun v => 0 <= x v)).
  { take v V. unfold x, norm_sub_within. destruct (K v); [apply Rmax_r|lra]. }
  split; [split; assumption|]. split.
  - apply total_le. take v V. unfold x, norm_sub_within.
    destruct (K v); destruct Req_EM_T; lra.
  - assert (A : dist2 d x f - 2 * delta
                = total d (fun v => f v ^ 2)
                  - total d (fun v => if K v then Rmax (f v + delta) 0 ^ 2 else 0)).
    { replace (2 * delta) with (2 * delta * total d x) by (rewrite E; ring).
      unfold dist2. rewrite <- total_scale, <- !total_minus. apply total_ext. take v V.
      unfold x, norm_sub_within, Rmax. destruct (K v); [destruct Rle_dec|]; ring. }
    assert (B : total d (fun v => f v ^ 2)
                - total d (fun v => if Req_EM_T (y v) 0 then 0 else Rmax (f v + delta) 0 ^ 2)
                <= dist2 d y f - 2 * delta).
    { replace (2 * delta) with (2 * delta * total d y) by (rewrite S; ring).
      unfold dist2. rewrite <- total_scale, <- !total_minus. apply total_le. take v V.
      apply price_of_a_nonzero, P, V. }
    pose proof (largest_hold_most d K f delta y L N). lra.
Qed.

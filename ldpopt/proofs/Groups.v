(** * Known totals of groups

    Known totals split the domain: Norm-Sub is applied to every group by itself, each with its own
    shift and its own total.  With one group of total 1 this is CLS. *)

From Coq Require Import Reals Lra Lia Psatz Arith.
From LdpOpt Require Import Sums NormSub.
Open Scope R_scope.

(** The sum over the values v of group j, where `group v` is the number of the group of v. *)
Definition group_total (d : nat) (group : nat -> nat) (j : nat) (y : vector) :=
  total d (fun v => if Nat.eq_dec (group v) j then y v else 0).

Definition with_group_totals (d k : nat) (group : nat -> nat) (m y : vector) :=
  every d (fun v => 0 <= y v) /\ every k (fun j => group_total d group j y = m j).

(** Each value is shifted by the delta of its group. *)
Definition norm_sub_by_group (group : nat -> nat) (delta f : vector) : vector :=
  fun v => Rmax (f v + delta (group v)) 0.

Lemma group_total_minus d group j x y :
  group_total d group j (fun v => y v - x v) = group_total d group j y - group_total d group j x.
Proof.
  unfold group_total. rewrite <- total_minus. apply total_ext. take v V.
  destruct (Nat.eq_dec (group v) j); ring.
Qed.

Lemma total_exchange d k (F : nat -> nat -> R) :
  total d (fun v => total k (fun j => F v j)) = total k (fun j => total d (fun v => F v j)).
Proof.
  induction d as [|d IH]; simpl.
  - symmetry. apply total_zero. take j J. reflexivity.
  - rewrite IH, <- total_plus. reflexivity.
Qed.

Lemma total_of_one k i (h : vector) :
  (i < k)%nat -> total k (fun j => if Nat.eq_dec i j then h j else 0) = h i.
Proof.
  induction k as [|k IH]; intro L; [lia|]. simpl. destruct (Nat.eq_dec i k) as [->|N].
  - rewrite total_zero; [ring|]. take j J.
    destruct (Nat.eq_dec k j); [lia|reflexivity].
  - rewrite IH by lia. ring.
Qed.

(** A price that is the same within each group adds up group by group. *)
Lemma prices_by_group d k group (delta h : vector) :
  every d (fun v => (group v < k)%nat) ->
  total d (fun v => delta (group v) * h v) = total k (fun j => delta j * group_total d group j h).
Proof.
  intro G.
  transitivity (total d (fun v =>
    total k (fun j => if Nat.eq_dec (group v) j then delta j * h v else 0))).
  - apply total_ext. take v V.
    rewrite (total_of_one k (group v) (fun j => delta j * h v)); [reflexivity|apply G, V].
  - rewrite total_exchange. apply total_ext. take j J. unfold group_total.
    rewrite <- total_scale. apply total_ext. take v V.
    destruct (Nat.eq_dec (group v) j); ring.
Qed.

(** With disjoint group totals known, least squares over the vectors that have them and no negative
    value is Norm-Sub in each group, for every estimate and every grouping. *)
Theorem group_totals_are_norm_sub_in_each_group d k group m f delta :
  every d (fun v => (group v < k)%nat) ->
  every k (fun j => group_total d group j (norm_sub_by_group group delta f) = m j) ->
  only_minimiser d (with_group_totals d k group m) (fun y => dist2 d y f)
    (norm_sub_by_group group delta f).
Proof.
  intros G E. set (x := norm_sub_by_group group delta f) in *.
  assert (H : forall y, with_group_totals d k group m y ->
              dist2 d x f + dist2 d y x <= dist2 d y f).
  { intros y [P T].
    assert (H : total d (fun v => 2 * (delta (group v) * (y v - x v)) + (y v - x v) ^ 2)
                <= total d (fun v => (y v - f v) ^ 2 - (x v - f v) ^ 2)).
    { apply total_le. take v V.
      pose proof (price_of_mass (f v) (delta (group v)) (y v) (P v V)) as Q.
      change (Rmax (f v + delta (group v)) 0) with (x v) in Q. lra. }
    assert (Z : total d (fun v => delta (group v) * (y v - x v)) = 0).
    { rewrite (prices_by_group d k group delta (fun v => y v - x v) G). apply total_zero.
      take j J. rewrite group_total_minus, (T j J), (E j J). ring. }
    rewrite total_plus, total_scale, Z, total_minus in H. unfold dist2. lra. }
  split; [split; [take v V; apply Rmax_r|exact E]|]. split; intros y Y; pose proof (H y Y).
  - pose proof (dist2_nonneg d y x). lra.
  - intro L. apply dist2_equal. lra.
Qed.

Lemma one_group_has_a_shift d group j m f w :
  (w < d)%nat -> group w = j -> 0 <= m ->
  exists t, group_total d group j (norm_sub t f) = m.
Proof.
  intros W G M.
  destruct (largest d (fun v => if Nat.eq_dec (group v) j then f v else f w)) as [i [I L]];
    [lia|].
  set (top := if Nat.eq_dec (group i) j then f i else f w) in L.
  assert (T : exists v, (v < d)%nat /\ group v = j /\ f v = top).
  { unfold top. destruct (Nat.eq_dec (group i) j); [exists i|exists w]; auto. }
  destruct T as [v [V [Gv Tv]]].
  assert (N : forall t, every d (fun u => 0 <= if Nat.eq_dec (group u) j
                                               then norm_sub t f u else 0)).
  { intro t. take u U. destruct (Nat.eq_dec (group u) j); [apply Rmax_r|lra]. }
  destruct (between (fun t => group_total d group j (norm_sub t f)) (- top) (m - top) m)
    as [t [_ E]].
  - apply (total_continuous d (fun t u => if Nat.eq_dec (group u) j then norm_sub t f u else 0)).
    take u U. destruct (Nat.eq_dec (group u) j); [|apply constant_continuous].
    apply (max_continuous (fun t => f u + t) (fun _ => 0)); [|apply constant_continuous].
    apply (continuity_plus (fun _ => f u) (fun t => t));
      [apply constant_continuous|apply identity_continuous].
  - lra.
  - split.
    + unfold group_total. rewrite total_zero; [exact M|]. take u U. pose proof (L u U) as B.
      cbv beta in B. destruct (Nat.eq_dec (group u) j); [|reflexivity]. apply Rmax_right. lra.
    + pose proof (total_member d _ v V (N (m - top))) as B. cbv beta in B. unfold group_total.
      destruct (Nat.eq_dec (group v) j); [|congruence]. unfold norm_sub in B at 1.
      pose proof (Rmax_l (f v + (m - top)) 0). lra.
  - exists t. exact E.
Qed.

(** The shifts exist if no group is empty and no total is negative. *)
Theorem group_shifts_exist d k group m f :
  every k (fun j => 0 <= m j /\ exists v, (v < d)%nat /\ group v = j) ->
  exists delta, every k (fun j => group_total d group j (norm_sub_by_group group delta f) = m j).
Proof.
  intro H. induction k as [|k IH].
  - exists (fun _ => 0). take j J. lia.
  - destruct IH as [delta D]; [take j J; apply H; lia|].
    destruct (H k ltac:(lia)) as [M [w [W G]]].
    destruct (one_group_has_a_shift d group k (m k) f w W G M) as [t T].
    exists (fun j => if Nat.eq_dec j k then t else delta j). take j J.
    destruct (Nat.eq_dec j k) as [->|N].
    + rewrite <- T. apply total_ext. take v V. destruct (Nat.eq_dec (group v) k) as [E|E];
        [|reflexivity]. unfold norm_sub_by_group, norm_sub. rewrite E.
      destruct (Nat.eq_dec k k); [reflexivity|congruence].
    + rewrite <- (D j ltac:(lia)). apply total_ext. take v V.
      destruct (Nat.eq_dec (group v) j) as [E|E]; [|reflexivity].
      unfold norm_sub_by_group. rewrite E. destruct (Nat.eq_dec j k); [congruence|reflexivity].
Qed.

(** * What the methods guarantee

    N IV-F and D 3.6 state that all methods preserve the order; N IV-A that Base-Pos is at least as
    accurate as Base; N V-D that errors of sets are symmetric.  Norm-Sub, MLE-Apx and Power have
    their theorems about order in NormSub.v, WeightedMLE.v and Bayes.v. *)

From Coq Require Import Reals Lra Lia Psatz.
From LdpOpt Require Import Sums NormSub OtherMethods.
Open Scope R_scope.

(** ** Order *)

(** Base-Pos preserves the order of the estimates. *)
Theorem base_pos_preserves_order f v w : f v <= f w -> base_pos f v <= base_pos f w.
Proof. unfold base_pos, Rmax. intro H. repeat destruct Rle_dec; lra. Qed.

(** Base-Cut preserves the order for every threshold T >= 0, and so does Norm-Cut, which keeps the
    values from its own threshold on in the same way. *)
Theorem cutting_preserves_order f T v w :
  0 <= T -> f v <= f w -> base_cut T f v <= base_cut T f w.
Proof. unfold base_cut. intros N H. repeat destruct Rlt_dec; lra. Qed.

(** Norm preserves the order, and here N's "iff" is true: it adds the same to every estimate. *)
Theorem norm_preserves_order_exactly d f v w : f v <= f w <-> norm d f v <= norm d f w.
Proof. unfold norm. split; intro H; lra. Qed.

(** Norm-Mul preserves the order, whatever its factor gamma >= 0. *)
Theorem norm_mul_preserves_order f gamma v w :
  0 <= gamma -> f v <= f w -> norm_mul gamma f v <= norm_mul gamma f w.
Proof.
  unfold norm_mul, Rmax. intros G H. pose proof (Rmult_le_compat_l gamma _ _ G H).
  repeat destruct Rle_dec; lra.
Qed.

(** ** Accuracy *)

(** N IV-A: for each value Base-Pos is at least as accurate as Base, whatever the noise: a true
    frequency is not negative. *)
Theorem base_pos_is_at_least_as_accurate f truth v :
  0 <= truth v -> (base_pos f v - truth v) ^ 2 <= (f v - truth v) ^ 2.
Proof. unfold base_pos, Rmax. intro T. destruct Rle_dec; nra. Qed.

(** ** Sets *)

Definition over (S : nat -> bool) (y : vector) : vector := fun v => if S v then y v else 0.

(** N V-D: the error is "symmetric with rho = 50".  Where answer and truth both add up to 1, the
    error of a set is minus the error of its complement, so that their squares are equal, for
    every set of every size. *)
Theorem errors_of_sets_are_symmetric d y truth S :
  total d y = 1 -> total d truth = 1 ->
  (total d (over S y) - total d (over S truth)) ^ 2
  = (total d (over (fun v => negb (S v)) y) - total d (over (fun v => negb (S v)) truth)) ^ 2.
Proof.
  intros Y T.
  assert (E : forall z, total d z = total d (over S z) + total d (over (fun v => negb (S v)) z)).
  { intro z. rewrite <- total_plus. apply total_ext. take v V. unfold over.
    destruct (S v); simpl; ring. }
  rewrite (E y) in Y. rewrite (E truth) in T.
  replace (total d (over S y) - total d (over S truth))
    with (- (total d (over (fun v => negb (S v)) y) - total d (over (fun v => negb (S v)) truth)))
    by lra.
  ring.
Qed.

(** ** Norm-Hyb and Norm-Cut *)

(** D 3.3: "if one uses theta as in Norm-Cut instead of T, Norm-Hyb becomes equivalent to
    Norm-Cut".  It does not where the kept values add up to less than 1: Norm-Cut sets the others
    to 0, and Norm-Hyb gives them what is missing. *)
Theorem norm_hyb_is_not_norm_cut d f kept delta :
  total d (norm_hyb kept delta f) = 1 -> total d (over kept f) < 1 ->
  exists v, (v < d)%nat /\ kept v = false /\ over kept f v < norm_hyb kept delta f v.
Proof.
  intros E L. destruct (total_positive d (fun v => norm_hyb kept delta f v - over kept f v))
    as [v [V P]]; [rewrite total_minus; lra|].
  exists v. split; [exact V|]. unfold over, norm_hyb in *. destruct (kept v); [lra|].
  split; [reflexivity|lra].
Qed.

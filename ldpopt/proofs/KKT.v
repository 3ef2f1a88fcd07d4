(** * The printed KKT conditions, and what is missing in them

    N Appendix A and D Appendix B derive Norm-Sub from stationarity, sum 1, 0 <= f' <= 1 and
    lambda_v f'_v = 0.  The sign of the multipliers lambda_v (dual feasibility) is not among the
    conditions.  Without it they accept points that are not minimisers. *)

From Coq Require Import Reals Lra Lia Psatz.
From LdpOpt Require Import Sums NormSub.
Open Scope R_scope.

(** The conditions as printed, for an answer y and multipliers mu and lambda. *)
Definition printed_conditions (d : nat) (f y : vector) (mu : R) (lambda : vector) :=
  total d y = 1 /\
  every d (fun v => 0 <= y v <= 1) /\
  every d (fun v => lambda v * y v = 0) /\
  every d (fun v => 2 * (y v - f v) + mu + lambda v = 0).

(** With the sign that the papers' convention requires, lambda_v <= 0, the conditions hold at
    Norm-Sub and nowhere else, for every estimate: the derivation of N Appendix A, complete. *)
Theorem kkt_with_dual_feasibility_is_norm_sub d f y delta :
  total d (norm_sub delta f) = 1 ->
  (exists mu lambda, printed_conditions d f y mu lambda /\ every d (fun v => lambda v <= 0))
  <-> every d (fun v => y v = norm_sub delta f v).
Proof.
  intro E. split.
  - intros [mu [lambda [[S [B [C G]]] L]]].
    assert (Y : every d (fun v => y v = norm_sub (- mu / 2) f v)).
    { take v V. specialize (B v V). specialize (C v V). specialize (G v V). specialize (L v V).
      simpl in *. unfold norm_sub, Rmax. apply Rmult_integral in C.
      destruct Rle_dec, C; lra. }
    assert (M : total d (norm_sub (- mu / 2) f) = 1).
    { rewrite <- S. symmetry. apply total_ext, Y. }
    rewrite <- (delta_is_unique d f _ _ M E). exact Y.
  - intro Y. assert (S : simplex d y).
    { split.
      - take v V. rewrite (Y v V). apply Rmax_r.
      - rewrite (total_ext _ _ _ Y). exact E. }
    exists (-2 * delta), (fun v => 2 * (f v + delta - y v)). destruct S as [P S].
    unfold printed_conditions.
    split; [split; [exact S|split; [|split]]|].
    + take v V. split; [apply P, V|]. rewrite <- S. apply total_member; assumption.
    + take v V. rewrite (Y v V). unfold norm_sub, Rmax. destruct Rle_dec; nra.
    + take v V. ring.
    + take v V. rewrite (Y v V). unfold norm_sub, Rmax. destruct Rle_dec; lra.
Qed.

(** Without the sign, every choice of D1 whose formula gives no negative value is accepted: the
    printed conditions do not say which values become 0. *)
Theorem printed_conditions_accept_every_support d f (D1 : nat -> bool) s :
  let y := fun v => if D1 v then f v + s else 0 in
  every d (fun v => 0 <= y v) -> total d y = 1 ->
  exists mu lambda, printed_conditions d f y mu lambda.
Proof.
  intros y P S. exists (-2 * s), (fun v => if D1 v then 0 else 2 * (f v + s)).
  unfold printed_conditions.
  split; [exact S|split; [|split]].
  - take v V. split; [apply P, V|]. rewrite <- S. apply total_member; assumption.
  - take v V. unfold y. destruct (D1 v); ring.
  - take v V. unfold y. destruct (D1 v); ring.
Qed.

(** ** Seven points for one estimate *)

Definition triple (a b c : R) : vector :=
  fun v => match v with 0%nat => a | 1%nat => b | _ => c end.

Definition is_triple (y : vector) a b c := y 0%nat = a /\ y 1%nat = b /\ y 2%nat = c.

(** For f~ = (0.5, 0.2, -0.01) exactly seven points satisfy the printed conditions, one for every
    choice of D1 but the empty one.  The fourth is the answer of N IV-B's words (negative values
    to 0 first), the last is Norm-Sub. *)
Theorem seven_points_satisfy_the_printed_conditions y :
  (exists mu lambda, printed_conditions 3 (triple (1/2) (1/5) (-1/100)) y mu lambda) <->
  is_triple y 1 0 0 \/ is_triple y 0 1 0 \/ is_triple y 0 0 1 \/
  is_triple y (65/100) (35/100) 0 \/ is_triple y (755/1000) 0 (245/1000) \/
  is_triple y 0 (605/1000) (395/1000) \/ is_triple y (181/300) (91/300) (28/300).
Proof.
  unfold printed_conditions, every, is_triple. split.
  - intros [mu [lambda [S [B [C G]]]]].
    pose proof (B 0%nat ltac:(lia)). pose proof (B 1%nat ltac:(lia)).
    pose proof (B 2%nat ltac:(lia)). pose proof (G 0%nat ltac:(lia)) as G0.
    pose proof (G 1%nat ltac:(lia)) as G1. pose proof (G 2%nat ltac:(lia)) as G2.
    pose proof (C 0%nat ltac:(lia)) as C0. pose proof (C 1%nat ltac:(lia)) as C1.
    pose proof (C 2%nat ltac:(lia)) as C2. simpl in *.
    apply Rmult_integral in C0, C1, C2.
    destruct C0, C1, C2; [do 6 right|do 3 right; left|do 4 right; left|left|
                          do 5 right; left|right; left|do 2 right; left|exfalso]; lra.
  - intro Y.
    assert (W : forall mu,
      simplex 3 y -> (2 * (y 0%nat - 1/2) + mu) * y 0%nat = 0 ->
      (2 * (y 1%nat - 1/5) + mu) * y 1%nat = 0 -> (2 * (y 2%nat - -1/100) + mu) * y 2%nat = 0 ->
      exists mu lambda, printed_conditions 3 (triple (1/2) (1/5) (-1/100)) y mu lambda).
    { intros mu [P S] C0 C1 C2.
      exists mu, (fun v => - (2 * (y v - triple (1/2) (1/5) (-1/100) v) + mu)).
      unfold printed_conditions.
      split; [exact S|split; [|split]].
      - take v V. split; [apply P, V|]. rewrite <- S. apply total_member; assumption.
      - take v V. destruct v as [|[|[|v]]]; simpl in *; try lia; lra.
      - take v V. ring. }
    assert (T : forall a b c, is_triple y a b c -> 0 <= a -> 0 <= b -> 0 <= c -> a + b + c = 1 ->
                simplex 3 y).
    { intros a b c [A [B C]] Pa Pb Pc S. split; [|simpl; lra].
      take v V. destruct v as [|[|[|v]]]; try lia; lra. }
    (* the multiplier mu of each point *)
    destruct Y as [Y|[Y|[Y|[Y|[Y|[Y|Y]]]]]];
      [apply (W (-1))|apply (W (-8/5))|apply (W (-101/50))|apply (W (-3/10))|apply (W (-51/100))|
       apply (W (-81/100))|apply (W (-31/150))];
      try (eapply T; [exact Y|lra..]);
      destruct Y as [Y0 [Y1 Y2]]; rewrite ?Y0, ?Y1, ?Y2; lra.
Qed.

(** Only one of the seven minimises: for the estimate above, Norm-Sub has delta = 31/300. *)
Theorem one_of_the_seven_is_the_minimiser :
  only_minimiser 3 (simplex 3) (fun y => dist2 3 y (triple (1/2) (1/5) (-1/100)))
    (norm_sub (31/300) (triple (1/2) (1/5) (-1/100))) /\
  is_triple (norm_sub (31/300) (triple (1/2) (1/5) (-1/100))) (181/300) (91/300) (28/300).
Proof.
  split.
  - apply norm_sub_is_the_solution_to_cls. unfold norm_sub. simpl.
    rewrite !Rmax_left; lra.
  - unfold is_triple, norm_sub. simpl. rewrite !Rmax_left; lra.
Qed.

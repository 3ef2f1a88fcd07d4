(** * Norm, Base-Pos, Base-Cut, Norm-Hyb and Norm-Mul as minimisers

    N Table I and D Table 1 list the methods by what they do.  Each of those below is also the only
    solution of an optimisation problem; this file states the problem and proves it. *)

From Coq Require Import Reals Lra Lia Psatz.
From LdpOpt Require Import Sums NormSub.
Open Scope R_scope.

(** ** Norm *)

Definition norm (d : nat) (f : vector) : vector := fun v => f v + (1 - total d f) / INR d.

Lemma norm_adds_up d f : (0 < d)%nat -> total d (norm d f) = 1.
Proof.
  intro D. unfold norm. rewrite total_plus, total_constant. field.
  apply not_0_INR. lia.
Qed.

(** N IV-B: Norm adds one delta to every estimate.  It solves CLS without non-negativity, as N
    IV-C states ("it leads to Norm"): of all vectors that add up to 1 it is the nearest. *)
Theorem norm_is_the_solution_to_cls_without_nonnegativity d f :
  (0 < d)%nat ->
  only_minimiser d (fun y => total d y = 1) (fun y => dist2 d y f) (norm d f).
Proof.
  intro D. pose proof (norm_adds_up d f D) as E. set (shift := (1 - total d f) / INR d).
  assert (H : forall y, total d y = 1 ->
              dist2 d y f = dist2 d (norm d f) f + dist2 d y (norm d f)).
  { intros y Y. transitivity (dist2 d (norm d f) f + dist2 d y (norm d f)
                              + 2 * shift * total d (fun v => y v - norm d f v)).
    - unfold dist2. rewrite <- total_scale, <- !total_plus. apply total_ext. take v V.
      unfold norm. fold shift. ring.
    - rewrite total_minus, E, Y. ring. }
  split; [exact E|]. split; intros y Y; rewrite (H y Y).
  - pose proof (dist2_nonneg d y (norm d f)). lra.
  - intro L. apply dist2_equal. lra.
Qed.

(** ** Base-Pos *)

Definition base_pos (f : vector) : vector := fun v => Rmax (f v) 0.

(** N IV-A: "Base-Pos: convert all negative values to 0".  It is least squares with non-negativity
    alone, the nearest vector without a negative value. *)
Theorem base_pos_is_least_squares_with_nonnegativity d f :
  only_minimiser d (fun y => every d (fun v => 0 <= y v)) (fun y => dist2 d y f) (base_pos f).
Proof.
  assert (H : forall y, every d (fun v => 0 <= y v) ->
              dist2 d (base_pos f) f + dist2 d y (base_pos f) <= dist2 d y f).
  { intros y P. unfold dist2. rewrite <- total_plus. apply total_le. take v V.
    pose proof (P v V). unfold base_pos, Rmax. destruct Rle_dec; nra. }
  split; [take v V; apply Rmax_r|]. split; intros y P; pose proof (H y P).
  - pose proof (dist2_nonneg d y (base_pos f)). lra.
  - intro L. apply dist2_equal. lra.
Qed.

(** ** Base-Cut *)

Definition base_cut (T : R) (f : vector) : vector := fun v => if Rlt_dec (f v) T then 0 else f v.

(** The number of values that are not 0, each counted as T^2. *)
Definition cost_of_nonzeros (d : nat) (T : R) (y : vector) :=
  total d (fun v => if Req_EM_T (y v) 0 then 0 else T ^ 2).

(** The cost of one value: its squared change, and T^2 if it is not 0. *)
Definition cut_cost (T : R) (f y : vector) (v : nat) :=
  (y v - f v) ^ 2 + if Req_EM_T (y v) 0 then 0 else T ^ 2.

Lemma cut_cost_is_smallest T f y v :
  0 <= T -> 0 <= y v ->
  cut_cost T f (base_cut T f) v <= cut_cost T f y v /\
  (f v <> T -> cut_cost T f y v <= cut_cost T f (base_cut T f) v -> y v = base_cut T f v).
Proof.
  intros N P. pose proof (pow2_ge_0 (y v - T)). pose proof (pow2_ge_0 (y v - f v)).
  unfold cut_cost, base_cut. destruct (Rlt_dec (f v) T) as [B|B].
  - assert (0 <= y v * (T - f v)) by (apply Rmult_le_pos; lra).
    destruct (Req_EM_T 0 0); [|lra]. destruct (Req_EM_T (y v) 0) as [Z|Z]; split; intros; nra.
  - destruct (Req_EM_T (f v) 0) as [F|F].
    + assert (T = 0) by lra. subst T. rewrite F in *.
      destruct (Req_EM_T (y v) 0) as [Z|Z]; [rewrite Z|]; split; intros; nra.
    + assert (T ^ 2 <= f v ^ 2) by nra.
      destruct (Req_EM_T (y v) 0) as [Z|Z]; [rewrite Z|]; split; intros; try nra.
Qed.

Lemma base_cut_nonneg T f v : 0 <= T -> 0 <= base_cut T f v.
Proof. intro N. unfold base_cut. destruct Rlt_dec; lra. Qed.

Lemma cut_costs_add_up d T f y :
  dist2 d y f + cost_of_nonzeros d T y = total d (cut_cost T f y).
Proof. unfold dist2, cost_of_nonzeros, cut_cost. rewrite <- total_plus. reflexivity. Qed.

(** N IV-A: "Base-Cut: convert everything below some sensitivity threshold to 0".  It minimises
    the squared distance plus T^2 for every value that is not 0 (the l0 penalty of hard
    thresholding) over the vectors without negative values, for every T >= 0. *)
Theorem base_cut_is_least_squares_with_a_price_of_nonzeros d f T y :
  0 <= T -> every d (fun v => 0 <= y v) ->
  dist2 d (base_cut T f) f + cost_of_nonzeros d T (base_cut T f)
  <= dist2 d y f + cost_of_nonzeros d T y.
Proof.
  intros N P. rewrite !cut_costs_add_up. apply total_le. take v V.
  apply cut_cost_is_smallest; [exact N|apply P, V].
Qed.

(** Base-Cut is the only minimiser unless an estimate equals T, where 0 and T cost the same. *)
Theorem base_cut_is_the_only_minimiser d f T :
  0 <= T -> every d (fun v => f v <> T) ->
  only_minimiser d (fun y => every d (fun v => 0 <= y v))
    (fun y => dist2 d y f + cost_of_nonzeros d T y) (base_cut T f).
Proof.
  intros N U. split; [take v V; apply base_cut_nonneg, N|]. split; intros y P.
  - apply base_cut_is_least_squares_with_a_price_of_nonzeros; assumption.
  - rewrite !cut_costs_add_up. intro L. take v V.
    apply (cut_cost_is_smallest T f y v N (P v V)); [apply U, V|].
    destruct (Rle_dec (cut_cost T f y v) (cut_cost T f (base_cut T f) v)) as [H|H];
      [exact H|exfalso].
    pose proof (total_lt d (cut_cost T f (base_cut T f)) (cut_cost T f y) v
                  ltac:(take w W; apply cut_cost_is_smallest; [exact N|apply P, W]) V). lra.
Qed.

(** ** Norm-Hyb *)

Definition norm_hyb (kept : nat -> bool) (delta : R) (f : vector) : vector :=
  fun v => if kept v then f v else Rmax (f v + delta) 0.

(** D 3.3: Norm-Hyb keeps the estimates above a threshold and applies Norm-Sub to the others.  It
    is the nearest distribution among those that leave the kept estimates as they are, whichever
    values are kept. *)
Theorem norm_hyb_is_cls_with_the_kept_values_fixed d f kept delta :
  every d (fun v => kept v = true -> 0 <= f v) -> total d (norm_hyb kept delta f) = 1 ->
  only_minimiser d (fun y => simplex d y /\ every d (fun v => kept v = true -> y v = f v))
    (fun y => dist2 d y f) (norm_hyb kept delta f).
Proof.
  intros K E. set (x := norm_hyb kept delta f) in *.
  assert (H : forall y, simplex d y -> every d (fun v => kept v = true -> y v = f v) ->
              dist2 d x f + dist2 d y x <= dist2 d y f).
  { intros y [P S] F.
    assert (H : total d (fun v => 2 * delta * (y v - x v) + (y v - x v) ^ 2)
                <= total d (fun v => (y v - f v) ^ 2 - (x v - f v) ^ 2)).
    { apply total_le. take v V. unfold x, norm_hyb. destruct (kept v) eqn:Q.
      - rewrite (F v V Q). lra.
      - apply price_of_mass, P, V. }
    rewrite total_plus, total_scale, !total_minus, S, E in H. unfold dist2. lra. }
  split.
  - split; [split; [|exact E]|].
    + take v V. unfold x, norm_hyb. destruct (kept v) eqn:Q; [apply K; assumption|apply Rmax_r].
    + take v V. intro Q. unfold x, norm_hyb. rewrite Q. reflexivity.
  - split; intros y [S F]; pose proof (H y S F).
    + pose proof (dist2_nonneg d y x). lra.
    + intro L. apply dist2_equal. lra.
Qed.

(** D 3.6 states that all methods preserve the order.  Norm-Hyb does not, because the shift of the
    others can be positive: (0.31, 0.29, 0.29) with the threshold 0.3 becomes
    (0.31, 0.345, 0.345). *)
Theorem norm_hyb_does_not_preserve_order :
  exists f T delta v w,
  let kept := fun u => if Rlt_dec (f u) T then false else true in
  total 3 (norm_hyb kept delta f) = 1 /\ (v < 3)%nat /\ (w < 3)%nat /\
  f v < f w /\ norm_hyb kept delta f w < norm_hyb kept delta f v.
Proof.
  exists (fun v => match v with 0%nat => 31/100 | _ => 29/100 end), (3/10), (55/1000), 1%nat, 0%nat.
  unfold norm_hyb. simpl. repeat destruct Rlt_dec; try lra.
  rewrite !Rmax_left by lra. repeat split; try lia; lra.
Qed.

(** ** Norm-Mul *)

Definition norm_mul (gamma : R) (f : vector) : vector := fun v => Rmax (gamma * f v) 0.

(** The Kullback-Leibler divergence of y from the positive parts of f; a term with y = 0 is 0. *)
Definition kl_term (p y : R) := if Req_EM_T y 0 then 0 else y * ln (y / p).
Definition kl (d : nat) (f y : vector) := total d (fun v => kl_term (Rmax (f v) 0) (y v)).

(** Distributions of finite divergence: they put no mass where f is not positive. *)
Definition absolutely_continuous (d : nat) (f y : vector) :=
  every d (fun v => f v <= 0 -> y v = 0).

Lemma ln_below u : 0 < u -> ln u <= u - 1 /\ (u - 1 <= ln u -> u = 1).
Proof.
  intro P. destruct (Req_dec (ln u) 0) as [Z|Z].
  - assert (u = 1); [|subst; lra]. apply ln_inv; [exact P|lra|]. rewrite Z, ln_1. reflexivity.
  - pose proof (exp_ineq1 (ln u) Z) as H. rewrite exp_ln in H by exact P. split; lra.
Qed.

(** Of one value: y ln(y/p) exceeds y ln(gamma) by at least y - gamma p, and equals it only at
    y = gamma p. *)
Lemma price_of_divergence p y gamma :
  0 < p -> 0 <= y -> 0 < gamma ->
  ln gamma * y + (y - gamma * p) <= kl_term p y /\
  (kl_term p y <= ln gamma * y + (y - gamma * p) -> y = gamma * p).
Proof.
  intros P Y G. unfold kl_term. destruct Req_EM_T as [Z|Z]; [subst y|].
  - split; nra.
  - assert (0 < y) by lra. assert (GP : 0 < gamma * p) by nra.
    assert (U : 0 < gamma * p / y) by (apply Rmult_lt_0_compat; [|apply Rinv_0_lt_compat]; lra).
    destruct (ln_below _ U) as [A B].
    assert (E : ln (y / p) = ln gamma - ln (gamma * p / y)).
    { unfold Rdiv. rewrite !ln_mult, !ln_Rinv; try lra; try apply Rinv_0_lt_compat; lra. }
    assert (V : y * (gamma * p / y) = gamma * p) by (field; lra).
    rewrite E. split; [nra|]. intro L. assert (gamma * p / y = 1) by (apply B; nra). nra.
Qed.

(** N IV-B: Norm-Mul multiplies the positive estimates by one factor gamma.  Of all distributions
    of finite divergence it has the smallest Kullback-Leibler divergence from the positive parts
    of the estimates, and no other has the same. *)
Theorem norm_mul_is_the_projection_by_divergence d f gamma :
  0 < gamma -> total d (norm_mul gamma f) = 1 ->
  only_minimiser d (fun y => simplex d y /\ absolutely_continuous d f y) (kl d f)
    (norm_mul gamma f).
Proof.
  intros G E. set (x := norm_mul gamma f) in *.
  assert (X : every d (fun v => x v = gamma * Rmax (f v) 0)).
  { take v V. unfold x, norm_mul, Rmax. repeat destruct Rle_dec; nra. }
  set (floor := fun (y : vector) v => ln gamma * y v + (y v - x v)).
  assert (H : forall y, simplex d y -> absolutely_continuous d f y ->
              every d (fun v => floor y v <= kl_term (Rmax (f v) 0) (y v)
                                /\ (kl_term (Rmax (f v) 0) (y v) <= floor y v -> y v = x v))).
  { intros y [P S] C. take v V. unfold floor. rewrite (X v V).
    destruct (Rle_dec (f v) 0) as [N|N].
    - rewrite (C v V N), Rmax_right by exact N. unfold kl_term.
      destruct Req_EM_T; [|congruence]. split; lra.
    - rewrite Rmax_left by lra. apply price_of_divergence; [lra|apply P, V|exact G]. }
  assert (F : forall y, simplex d y -> total d (floor y) = ln gamma).
  { intros y [P S]. unfold floor. rewrite total_plus, total_scale, total_minus, S, E. ring. }
  assert (SX : simplex d x) by (split; [take v V; apply Rmax_r|exact E]).
  assert (KX : kl d f x = ln gamma).
  { rewrite <- (F x SX). apply total_ext. take v V. unfold floor. rewrite (X v V).
    destruct (Rle_dec (f v) 0) as [N|N]; unfold kl_term.
    - rewrite Rmax_right by exact N. destruct Req_EM_T; lra.
    - rewrite Rmax_left by lra. destruct Req_EM_T as [Z|Z]; [nra|].
      replace (gamma * f v / f v) with gamma by (field; lra). ring. }
  split; [split; [exact SX|]|].
  - take v V. intro N. rewrite (X v V), Rmax_right by exact N. ring.
  - split; intros y [S C].
    + rewrite KX, <- (F y S). apply total_le. take v V. apply (H y S C v V).
    + intro L. take v V. apply (H y S C v V).
      destruct (Rle_dec (kl_term (Rmax (f v) 0) (y v)) (floor y v)) as [Q|Q]; [exact Q|exfalso].
      pose proof (total_lt d (floor y) (fun v => kl_term (Rmax (f v) 0) (y v)) v
                    ltac:(take w W; apply (H y S C w W)) V ltac:(cbv beta; lra)) as T.
      rewrite (F y S), <- KX in T. fold (kl d f y) in T. lra.
Qed.

(** The factor exists, and is positive, as soon as one estimate is positive. *)
Theorem gamma_exists d f v :
  (v < d)%nat -> 0 < f v -> exists gamma, 0 < gamma /\ total d (norm_mul gamma f) = 1.
Proof.
  intros V P. set (mass := total d (base_pos f)).
  assert (M : 0 < mass).
  { pose proof (total_member d (base_pos f) v V ltac:(take w W; apply Rmax_r)) as H.
    pose proof (Rmax_l (f v) 0). unfold base_pos in H at 1. fold mass in H. lra. }
  exists (/ mass). pose proof (Rinv_0_lt_compat _ M) as I. split; [exact I|].
  transitivity (/ mass * total d (base_pos f)); [|fold mass; field; lra].
  rewrite <- total_scale. apply total_ext. take w W.
  unfold norm_mul, base_pos, Rmax. repeat destruct Rle_dec; nra.
Qed.

(** * Exact likelihoods

    N VI mentions exact maximum likelihood.  From the counts c_v of generalised randomised response
    the log-likelihood is the sum of c_v ln(floor + f_v), up to constants, with floor = q/(p - q).
    Its maximum over the distributions is water-filling.  The Gaussian target of N Appendix B, on
    the other hand, is convex, as its appendix states. *)

From Coq Require Import Reals Lra Lia Psatz.
From LdpOpt Require Import Sums NormSub WeightedMLE OtherMethods.
Open Scope R_scope.

Definition log_likelihood (d : nat) (c : vector) (floor : R) (y : vector) :=
  total d (fun v => c v * ln (floor + y v)).

(** `level` is 1/nu of the formula max(0, c/nu - floor). *)
Definition water_filling (c : vector) (floor level : R) : vector :=
  fun v => Rmax (c v * level - floor) 0.

(** Of one value: a concave function lies below its tangent at the answer. *)
Lemma price_of_likelihood c floor level y :
  0 <= c -> 0 < floor -> 0 < level -> 0 <= y ->
  let x := Rmax (c * level - floor) 0 in
  c * ln (floor + y) <= c * ln (floor + x) + (y - x) / level /\
  (c * ln (floor + x) + (y - x) / level <= c * ln (floor + y) -> y = x).
Proof.
  intros C F L Y x. assert (I : 0 < / level) by (apply Rinv_0_lt_compat, L).
  assert (X : 0 <= x) by apply Rmax_r.
  (* c (y - x)/(floor + x) <= (y - x)/level, with equality where x > 0 *)
  assert (P : c * ((y - x) / (floor + x)) <= (y - x) / level /\
              (x = 0 -> c = 0 -> (y - x) / level <= 0 -> y = x)).
  { split.
    - unfold x, Rmax. destruct Rle_dec as [N|N].
      + apply (Rmult_le_reg_r ((floor + 0) * level)); [nra|].
        replace (c * ((y - 0) / (floor + 0)) * ((floor + 0) * level)) with (c * level * y)
          by (field; lra).
        replace ((y - 0) / level * ((floor + 0) * level)) with (floor * y) by (field; lra). nra.
      + replace (floor + (c * level - floor)) with (c * level) by ring.
        right. field. split; nra.
    - intros Z _ H. rewrite Z in *. unfold Rdiv in H. nra. }
  destruct P as [P Q].
  assert (R : 0 < (floor + y) / (floor + x)).
  { apply Rmult_lt_0_compat; [lra|]. apply Rinv_0_lt_compat. lra. }
  destruct (ln_below _ R) as [A B].
  assert (E : ln (floor + y) = ln (floor + x) + ln ((floor + y) / (floor + x))).
  { rewrite <- ln_mult by lra. f_equal. field. lra. }
  assert (D : (floor + y) / (floor + x) - 1 = (y - x) / (floor + x)) by (field; lra).
  rewrite D in *. rewrite E. split; [nra|]. intro H.
  destruct (Rle_lt_or_eq_dec 0 c C) as [Pc|Zc].
  - assert (G : (floor + y) / (floor + x) = 1) by (apply B; nra).
    assert (floor + y = floor + x).
    { replace (floor + y) with ((floor + y) / (floor + x) * (floor + x)) by (field; lra).
      rewrite G. ring. }
    lra.
  - apply Q; [|symmetry; exact Zc|rewrite <- Zc in H; lra].
    unfold x. rewrite <- Zc. apply Rmax_right. lra.
Qed.

(** The exact maximum likelihood estimate from the counts of generalised randomised response is
    max(0, c/nu - q/(p - q)): it has a larger likelihood than every other distribution. *)
Theorem water_filling_is_maximum_likelihood d c floor level :
  every d (fun v => 0 <= c v) -> 0 < floor -> 0 < level ->
  total d (water_filling c floor level) = 1 ->
  only_minimiser d (simplex d) (fun y => - log_likelihood d c floor y)
    (water_filling c floor level).
Proof.
  intros C F L E. set (x := water_filling c floor level) in *.
  set (tangent := fun (y : vector) v => c v * ln (floor + x v) + (y v - x v) / level).
  assert (T : forall y, simplex d y -> total d (tangent y) = log_likelihood d c floor x).
  { intros y [_ S]. unfold tangent, log_likelihood. rewrite total_plus.
    replace (total d (fun v => (y v - x v) / level)) with (/ level * (total d y - total d x)).
    - rewrite S, E. ring.
    - rewrite <- total_minus, <- total_scale. apply total_ext. take v V. unfold Rdiv. ring. }
  assert (H : forall y, simplex d y -> every d (fun v =>
              c v * ln (floor + y v) <= tangent y v /\
              (tangent y v <= c v * ln (floor + y v) -> y v = x v))).
  { intros y [P _]. take v V. apply (price_of_likelihood (c v) floor level (y v));
      [apply C, V|exact F|exact L|apply P, V]. }
  split; [split; [take v V; apply Rmax_r|exact E]|]. split; intros y S.
  - rewrite <- (T y S). apply Ropp_le_contravar, total_le. take v V. apply (H y S v V).
  - intro G. take v V. apply (H y S v V).
    destruct (Rle_dec (tangent y v) (c v * ln (floor + y v))) as [Q|Q]; [exact Q|exfalso].
    pose proof (total_lt d (fun u => c u * ln (floor + y u)) (tangent y) v
                  ltac:(take w W; apply (H y S w W)) V ltac:(cbv beta; lra)) as Z.
    fold (log_likelihood d c floor y) in Z. rewrite (T y S) in Z. lra.
Qed.

(** The level exists as soon as one count is positive. *)
Theorem water_level_exists d c floor v :
  (v < d)%nat -> 0 < c v -> 0 < floor ->
  exists level, 0 < level /\ total d (water_filling c floor level) = 1.
Proof.
  intros V P F. set (high := (1 + floor) / c v).
  assert (H : 0 < high) by (apply Rmult_lt_0_compat; [lra|apply Rinv_0_lt_compat, P]).
  destruct (between (fun s => total d (water_filling c floor s)) 0 high 1) as [s [[A B] E]].
  - apply (total_continuous d (fun s => water_filling c floor s)). take w W.
    unfold water_filling.
    apply (max_continuous (fun s => c w * s - floor) (fun _ => 0)); [|apply constant_continuous].
    apply (continuity_minus (fun s => c w * s) (fun _ => floor)); [|apply constant_continuous].
    apply (continuity_mult (fun _ => c w) (fun s => s));
      [apply constant_continuous|apply identity_continuous].
  - lra.
  - split.
    + rewrite total_zero; [lra|]. take w W. apply Rmax_right. lra.
    + pose proof (total_member d (water_filling c floor high) v V
                    ltac:(take w W; apply Rmax_r)) as M.
      unfold water_filling at 1 in M.
      replace (c v * high - floor) with 1 in M by (unfold high; field; lra).
      pose proof (Rmax_l 1 0). lra.
  - exists s. split; [|exact E]. destruct A as [A|A]; [exact A|exfalso]. subst s.
    rewrite total_zero in E; [lra|]. take w W. apply Rmax_right. lra.
Qed.

(** N Appendix B: "Given that the target is convex".  Every term (f' - f~)^2/(1 + kappa f') is
    convex wherever the variance is positive, which holds for all distributions. *)
Theorem weighted_target_is_convex kappa f y z s :
  0 < 1 + kappa * y -> 0 < 1 + kappa * z -> 0 <= s <= 1 ->
  weighted_square kappa f (s * y + (1 - s) * z)
  <= s * weighted_square kappa f y + (1 - s) * weighted_square kappa f z.
Proof.
  intros Y Z S. unfold weighted_square.
  set (p := 1 + kappa * y) in *. set (q := 1 + kappa * z) in *.
  assert (M : 0 < s * p + (1 - s) * q).
  { destruct (Rle_dec s (1/2)); nra. }
  replace (1 + kappa * (s * y + (1 - s) * z)) with (s * p + (1 - s) * q) by (unfold p, q; ring).
  assert (E : s * ((y - f) ^ 2 / p) + (1 - s) * ((z - f) ^ 2 / q)
              - (s * y + (1 - s) * z - f) ^ 2 / (s * p + (1 - s) * q)
              = s * (1 - s) * ((y - f) * q - (z - f) * p) ^ 2
                * / (p * q * (s * p + (1 - s) * q))).
  { field. repeat split; lra. }
  assert (0 <= s * (1 - s) * ((y - f) * q - (z - f) * p) ^ 2
               * / (p * q * (s * p + (1 - s) * q))).
  { apply Rmult_le_pos.
    - apply Rmult_le_pos; [nra|apply pow2_ge_0].
    - left. apply Rinv_0_lt_compat. apply Rmult_lt_0_compat; [nra|exact M]. }
  lra.
Qed.

(** Rounding vectors of floats to integers: theorem last-rounds, "In integers".

    An entry x is computed with an error of at most eta units and rounded, so that the integer q differs from x by at most
    1/2 + eta. If 2 eta sqrt(W) <= 1, two vectors of W entries that are at most D apart become integers that are at most
    D + sqrt(W) + 1 apart. *)

Require Import Reals Lra Lia List.
Import ListNotations.
Open Scope R_scope.

(** The sum of the squares of a vector, and the inner product of two. *)
Fixpoint squares (x : list R) : R := match x with [] => 0 | a :: rest => a * a + squares rest end.
Fixpoint inner (x y : list R) : R :=
  match x, y with a :: x', b :: y' => a * b + inner x' y' | _, _ => 0 end.
Fixpoint plus (x y : list R) : list R :=
  match x, y with a :: x', b :: y' => (a + b) :: plus x' y' | _, _ => [] end.

Lemma squares_nonneg : forall x, 0 <= squares x.
Proof.
  induction x as [| a x IH]; simpl; [lra |].
  assert (0 <= a * a) by apply Rle_0_sqr. lra.
Qed.

Lemma cauchy_schwarz : forall x y, inner x y * inner x y <= squares x * squares y.
Proof.
  induction x as [| a x IH].
  - intros y. simpl. pose proof (squares_nonneg y). lra.
  - intros [| b y].
    + simpl. pose proof (squares_nonneg x). assert (0 <= a * a) by apply Rle_0_sqr. lra.
    + specialize (IH y). pose proof (squares_nonneg y) as HB. pose proof (squares_nonneg x) as HA.
      cbn [inner squares].
      set (A := squares x) in *. set (B := squares y) in *. set (P := inner x y) in *.
      (* 2 a b P <= a^2 B + b^2 A, because (a b P)^2 <= (a^2 B) (b^2 A), and by the means of these two. *)
      assert (HU : 0 <= a * a * B) by (apply Rmult_le_pos; [apply Rle_0_sqr | exact HB]).
      assert (HV : 0 <= b * b * A) by (apply Rmult_le_pos; [apply Rle_0_sqr | exact HA]).
      assert (HW : (a * b * P) * (a * b * P) <= (a * a * B) * (b * b * A)).
      { replace ((a * b * P) * (a * b * P)) with ((a * b) * (a * b) * (P * P)) by ring.
        replace ((a * a * B) * (b * b * A)) with ((a * b) * (a * b) * (A * B)) by ring.
        apply Rmult_le_compat_l; [apply Rle_0_sqr | exact IH]. }
      assert (HM : 2 * (a * b * P) <= a * a * B + b * b * A).
      { apply Rsqr_incr_0_var; [unfold Rsqr | lra].
        assert (0 <= (a * a * B - b * b * A) * (a * a * B - b * b * A)) by apply Rle_0_sqr.
        lra. }
      lra.
Qed.

Lemma squares_of_sum : forall x y, length x = length y ->
  squares (plus x y) = squares x + 2 * inner x y + squares y.
Proof.
  induction x as [| a x IH]; intros [| b y] Hl; simpl in *; try discriminate; [ring |].
  rewrite IH by congruence. ring.
Qed.

(** The triangle inequality, by squares. *)
Lemma triangle : forall x y D E, length x = length y -> 0 <= D -> 0 <= E ->
  squares x <= D * D -> squares y <= E * E -> squares (plus x y) <= (D + E) * (D + E).
Proof.
  intros x y D E Hl HD HE Hx Hy.
  rewrite squares_of_sum by assumption.
  assert (Hi : inner x y <= D * E).
  { apply Rsqr_incr_0_var; [unfold Rsqr | nra].
    pose proof (cauchy_schwarz x y). pose proof (squares_nonneg x). pose proof (squares_nonneg y).
    assert (squares x * squares y <= (D * D) * (E * E)) by (apply Rmult_le_compat; assumption).
    nra. }
  nra.
Qed.

(** W numbers of at most c have a sum of squares of at most W c^2. *)
Lemma squares_of_small : forall e c, 0 <= c -> Forall (fun a => Rabs a <= c) e ->
  squares e <= INR (length e) * (c * c).
Proof.
  induction e as [| a e IH]; intros c Hc He; [simpl; lra |].
  inversion He as [| a' e' Ha He']; subst.
  specialize (IH c Hc He').
  cbn [squares length]. rewrite S_INR.
  assert (a * a <= c * c).
  { apply Rabs_le_inv in Ha || idtac.
    unfold Rabs in Ha; destruct (Rcase_abs a); nra. }
  lra.
Qed.

(** The differences of two rounded entries from those of the entries themselves. *)
Fixpoint errors (x y q r : list R) : list R :=
  match x, y, q, r with
  | a :: x', b :: y', m :: q', n :: r' => ((m - n) - (a - b)) :: errors x' y' q' r'
  | _, _, _, _ => []
  end.

Fixpoint minus (x y : list R) : list R :=
  match x, y with a :: x', b :: y' => (a - b) :: minus x' y' | _, _ => [] end.

Definition rounded (eta a m : R) : Prop := Rabs (m - a) <= / 2 + eta.

Lemma errors_are_small : forall eta x y q r, 0 <= eta ->
  Forall2 (rounded eta) x q -> Forall2 (rounded eta) y r ->
  Forall (fun a => Rabs a <= 1 + 2 * eta) (errors x y q r).
Proof.
  intros eta x y q r Heta Hx. revert y r.
  induction Hx as [| a m x q Ha Hx IH]; intros y r Hy; [constructor |].
  destruct Hy as [| b n y r Hb Hy]; [constructor |].
  simpl. constructor; [| apply IH; assumption].
  unfold rounded in *.
  unfold Rabs in *. repeat destruct Rcase_abs; lra.
Qed.

Lemma lengths : forall eta W x y q r,
  length x = W -> length y = W -> Forall2 (rounded eta) x q -> Forall2 (rounded eta) y r ->
  length (errors x y q r) = W /\ length (minus x y) = W /\ minus q r = plus (minus x y) (errors x y q r).
Proof.
  intros eta W x y q r. revert W y r q.
  induction x as [| a x IH]; intros W y r q Hx Hy Hq Hr.
  - simpl in Hx. subst W. destruct y; [| discriminate]. inversion Hq; subst. inversion Hr; subst. auto.
  - destruct W as [| W]; [discriminate |]. destruct y as [| b y]; [discriminate |].
    inversion Hq as [| ? m ? q' ? Hq']; subst. inversion Hr as [| ? n ? r' ? Hr']; subst.
    simpl in *. destruct (IH W y r' q') as [H1 [H2 H3]]; try congruence; try assumption.
    repeat split; try congruence.
    f_equal; [ring | assumption].
Qed.

(** The theorem: sensitivities count sqrt(W) for rounding and 1 for the errors of floats. *)
Theorem rounding_distance : forall W x y q r eta D s,
  length x = W -> length y = W -> 0 <= eta -> 0 <= D -> 0 <= s -> s * s = INR W -> 2 * eta * s <= 1 ->
  Forall2 (rounded eta) x q -> Forall2 (rounded eta) y r -> squares (minus x y) <= D * D ->
  squares (minus q r) <= (D + (s + 1)) * (D + (s + 1)).
Proof.
  intros W x y q r eta D s Hx Hy Heta HD Hs HW He Hq Hr Hd.
  destruct (lengths eta W x y q r Hx Hy Hq Hr) as [L1 [L2 L3]].
  rewrite L3.
  apply triangle; try lra; [congruence |].
  assert (B : squares (errors x y q r) <= INR (length (errors x y q r)) * ((1 + 2 * eta) * (1 + 2 * eta))).
  { apply squares_of_small; [lra | apply errors_are_small; assumption]. }
  rewrite L1, <- HW in B.
  (* s^2 (1 + 2 eta)^2 = (s + 2 eta s)^2 <= (s + 1)^2 *)
  assert (0 <= 2 * eta * s) by nra.
  nra.
Qed.

(** How large eta may be, with up to 8192 4^j entries of magnitude 1 at most in units of 2^-bits: 5 roundoffs of 2^-53 with
    43 - j bits, which the code allows products of floats, and 45 with 40 - j bits, which it allows scores. That products
    and scores have no more roundoffs is not proven here: the code computes the former by three operations, and forces
    the parts of the latter into their ranges. *)
Definition widest := 8192.

Lemma few_roundoffs : forall (W j : nat) eta s u, 0 <= s -> s * s = INR W -> INR W <= widest * 4 ^ j ->
  eta <= u -> u * 2 ^ j = 5 * 2 ^ 43 / 2 ^ 53 \/ u * 2 ^ j = 45 * 2 ^ 40 / 2 ^ 53 -> 2 * eta * s <= 1.
Proof.
  intros W j eta s u Hs HsW HW He Hu.
  set (t := 2 ^ j) in *.
  assert (Ht : 0 < t) by (apply pow_lt; lra).
  assert (H4 : 4 ^ j = t * t).
  { unfold t. replace 4 with (2 * 2) by lra. apply Rpow_mult_distr. }
  assert (Hb : s <= 91 * t).
  { apply Rsqr_incr_0_var; [unfold Rsqr, widest in *; rewrite HsW, H4 in *; nra | nra]. }
  assert (Hut : u * t <= / 182) by (destruct Hu as [-> | ->]; simpl; lra).
  destruct (Rle_lt_dec eta 0) as [Hn | Hp]; [nra |].
  assert (eta * s <= u * (91 * t)) by (apply Rmult_le_compat; lra).
  lra.
Qed.

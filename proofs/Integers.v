(** Inequalities in integers on which sensitivities and proofs rest; the theorems stand in report/.

    Lengths are integers in units of 1/R: a length s/R of the text is the integer s here, between 0 and R. Each lemma
    names the theorem that ends with it. What comes before that end, such as which cosine is worst, is proven in the
    text alone. *)

Require Import ZArith Lia Psatz.
Open Scope Z_scope.

(** ** Scores (theorem last-rounds) *)

(** "The length is free": (s + t)^2 + 3 (s - t)^2 <= 4 for lengths s and t in [0, 1]. *)
Lemma length_is_free : forall R s t, 0 <= s <= R -> 0 <= t <= R ->
  (s + t)^2 + 3 * (s - t)^2 <= 4 * R^2.
Proof.
  intros R s t Hs Ht.
  assert (0 <= s * (R - s)) by (apply Z.mul_nonneg_nonneg; lia).
  assert (0 <= t * (R - t)) by (apply Z.mul_nonneg_nonneg; lia).
  assert (0 <= (R - s) * (R - t)) by (apply Z.mul_nonneg_nonneg; lia).
  replace (4 * R^2) with ((s + t)^2 + 3 * (s - t)^2 + 4 * (s * (R - s) + t * (R - t) + (R - s) * (R - t))) by ring.
  lia.
Qed.

(** Theorem 1 at its worst cosine: (s + t)^2 + (s^2 - t^2)^2 / 2 <= 4. The weight of an outer product is sqrt(1/2). *)
Lemma outer_products_are_free : forall R s t, 0 <= s <= R -> 0 <= t <= R ->
  2 * R^2 * (s + t)^2 + (s^2 - t^2)^2 <= 8 * R^4.
Proof.
  intros R s t Hs Ht.
  set (m := s + t). set (k := 2 * R - m).
  assert (Hm : 0 <= m) by (unfold m; lia).
  assert (Hk : 0 <= k) by (unfold k, m; lia).
  assert (Hd : (s - t)^2 <= k^2).
  { assert (0 <= (R - s) * (R - t)) by (apply Z.mul_nonneg_nonneg; lia).
    replace (k^2) with ((s - t)^2 + 4 * ((R - s) * (R - t))) by (unfold k, m; ring). lia. }
  assert (Hl : 2 * R^2 * (s + t)^2 + (s^2 - t^2)^2 = m^2 * (2 * R^2 + (s - t)^2)) by (unfold m; ring).
  assert (Hb : m^2 * (2 * R^2 + (s - t)^2) <= m^2 * (2 * R^2 + k^2)).
  { apply Z.mul_le_mono_nonneg_l; [apply Z.pow_nonneg; lia | lia]. }
  (* With 2 R = m + k the rest is (m + k)^4 - m^2 ((m + k)^2 + 2 k^2) = k (2 m^3 + 3 m^2 k + 4 m k^2 + k^3). *)
  assert (Hr : 16 * R^4 - 2 * (m^2 * (2 * R^2 + k^2)) = k * (2 * m^3 + 3 * m^2 * k + 4 * m * k^2 + k^3)).
  { replace (16 * R^4) with ((2 * R)^4) by ring.
    replace (2 * (m^2 * (2 * R^2 + k^2))) with (m^2 * ((2 * R)^2 + 2 * k^2)) by ring.
    replace (2 * R) with (m + k) by (unfold k; ring). ring. }
  assert (Hp : 0 <= k * (2 * m^3 + 3 * m^2 * k + 4 * m * k^2 + k^3)).
  { apply Z.mul_nonneg_nonneg; [lia |].
    repeat apply Z.add_nonneg_nonneg; repeat apply Z.mul_nonneg_nonneg; try apply Z.pow_nonneg; lia. }
  apply (Z.le_trans _ _ _ (Z.eq_le_incl _ _ Hl)). apply (Z.le_trans _ _ _ Hb).
  rewrite <- Hr in Hp. clear - Hp.
  generalize dependent (m^2 * (2 * R^2 + k^2)). generalize (R^4). intros. lia.
Qed.

(** Theorem 2, the inequality that is left: 2.5 + 0.5 x - 20.5 x^2 + 21.5 x^3 >= 0 on [0, 1], doubled. The weight of a
    logistic curvature is sqrt(21). *)
Lemma curvature_is_free : forall R x, 0 <= x <= R ->
  0 <= 5 * R^3 + x * R^2 - 41 * x^2 * R + 43 * x^3.
Proof.
  intros R x Hx.
  (* 2500 times it is 43 x (50 x - 31 R)^2 + R q with a quadratic form q without a real zero. *)
  assert (Hq : 0 <= 30800 * x^2 - 38823 * x * R + 12500 * R^2).
  { assert (E : 123200 * (30800 * x^2 - 38823 * x * R + 12500 * R^2)
                = (61600 * x - 38823 * R)^2 + 32774671 * R^2) by ring.
    assert (0 <= (61600 * x - 38823 * R)^2) by (apply Z.pow_even_nonneg; exists 1; reflexivity).
    assert (0 <= R^2) by (apply Z.pow_even_nonneg; exists 1; reflexivity).
    lia. }
  assert (E : 2500 * (5 * R^3 + x * R^2 - 41 * x^2 * R + 43 * x^3)
              = 43 * (x * (50 * x - 31 * R)^2) + R * (30800 * x^2 - 38823 * x * R + 12500 * R^2)) by ring.
  assert (0 <= x * (50 * x - 31 * R)^2)
    by (apply Z.mul_nonneg_nonneg; [lia | apply Z.pow_even_nonneg; exists 1; reflexivity]).
  assert (0 <= R * (30800 * x^2 - 38823 * x * R + 12500 * R^2)) by (apply Z.mul_nonneg_nonneg; lia).
  lia.
Qed.

(** ** Second moments (theorem second-moments) *)

(** With a = |u|^2 and b = |v|^2 of at most B, and c = u.v: |u u^T - v v^T|_F^2 = a^2 + b^2 - 2 c^2 <= 2 B^2. *)
Lemma rank_one_difference : forall a b c B, 0 <= a <= B -> 0 <= b <= B ->
  a^2 + b^2 - 2 * c^2 <= 2 * B^2.
Proof.
  intros a b c B Ha Hb.
  assert (a^2 <= B^2) by (apply Z.pow_le_mono_l; lia).
  assert (b^2 <= B^2) by (apply Z.pow_le_mono_l; lia).
  assert (0 <= c^2) by (apply Z.pow_even_nonneg; exists 1; reflexivity).
  lia.
Qed.

(** Proved moments weigh the diagonal by 29 and the rest, once, by 41: with d the squares on the diagonal and o those
    above it, the sums move by at most 29 |D|_F. *)
Lemma proved_weights : forall d o, 0 <= d -> 0 <= o ->
  29^2 * d + 41^2 * o <= 29^2 * (d + 2 * o).
Proof. intros. lia. Qed.

(** ** Cells (theorem proof-soundness) *)

(** A digit is at most 3. If the K digits of a grid add up to 1 modulo p, and 3 K < p, they add up to 1. *)
Lemma one_cell : forall p K S, 1 < p -> 3 * K < p -> 0 <= S <= 3 * K -> (S - 1) mod p = 0 -> S = 1.
Proof.
  intros p K S Hp HK HS H.
  apply Z.mod_divide in H; [| lia].
  destruct H as [q Hq].
  assert (-1 < q) by (apply (Z.mul_lt_mono_pos_r p); lia).
  assert (q < 1) by (apply (Z.mul_lt_mono_pos_r p); lia).
  assert (q = 0) by lia.
  lia.
Qed.

(** ** Rounding *)

(** Numbers x and y, in units of which D make one integer, are rounded to integers q and r: their distance grows by at
    most one. *)
Lemma rounding_moves_by_one : forall D q r x y, 0 < D ->
  2 * Z.abs (D * q - x) <= D -> 2 * Z.abs (D * r - y) <= D -> Z.abs (D * (q - r) - (x - y)) <= D.
Proof. intros. lia. Qed.

(** ** Servers that are present (theorem collection-game) *)

(** Two sets of a and of b servers, more than (M + t)/2 of M each, have more than t in common: i = a + b - u, where u is
    the size of their union. *)
Lemma quorums_share_an_honest_server : forall M t a b u i,
  i = a + b - u -> u <= M -> M + t < 2 * a -> M + t < 2 * b -> t < i.
Proof. intros. lia. Qed.

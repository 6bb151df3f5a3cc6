"""The bounds of theorem proof-soundness where they can be counted: fields of 7 to 97 elements, in the reference.

At p = 2^61 - 1 the library equals the reference word for word (test_proving.py); the library itself has one field.
"""

import itertools
import math
import random

import numpy as np
import pytest

from references.proving import (
    Circuit,
    Field,
    decide,
    gadgets_of,
    joint_of,
    lagrange,
    point_of,
    prove,
    query,
    table_of,
    witness,
)

P97, P13, P11, P7 = Field(97, 5), Field(13, 2), Field(11, 2), Field(7, 3)


def uniform(field, count, source):
    return [source.randrange(field.p) for _ in range(count)]


def accepts_both(circuit, record, joint, r):
    """Both coordinates of K, without the toss of kappa."""
    return all(
        decide(circuit, query(circuit, record, 1, joint, (r, kappa)), joint, (r, kappa))
        for kappa in ([1, 0, 0], [0, 1, 0])
    )


def best_cheat(circuit, joint, source):
    """A false record whose error P - H - Z Q is a multiple of a polynomial with 4N chosen roots; None without luck."""
    p, n = circuit.field.p, circuit.rows
    roots = source.sample(range(4 * n + 1, p), 4 * n)
    scale = source.randrange(1, p)
    error = {k: scale * math.prod(k - a for a in roots) % p for k in range(4 * n + 1)}
    digits = []  # with g(digit) = error at 1..N
    for k in range(1, n + 1):
        digits += [e for e in range(p) if (e * (e - 1) * (e - 2) * (e - 3) - error[k]) % p == 0][:1]
    if len(digits) < n:
        return None
    blinds = uniform(circuit.field, circuit.wires, source)
    wires, _ = table_of(circuit, digits, 1, joint)
    record = digits + blinds
    for e in circuit.points:
        w = [
            sum(a * b for a, b in zip(lagrange(circuit.field, range(n + 1), e), [blind, *wire], strict=True)) % p
            for blind, wire in zip(blinds, wires, strict=True)
        ]
        gadgets, inverse = gadgets_of(circuit, w, joint[0]), pow(math.prod(e - k for k in range(1, n + 1)), -1, p)
        record += [(gadgets[i] - joint[0][0][i] * error[e]) * inverse % p for i in (0, 1)]
    return record


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_the_best_cheat_meets_the_bound_and_none_passes_it(rows):
    """Lemma 2 over all r: 4N of p - 4N - 1 points; an honest report is accepted at all."""
    circuit, source = Circuit(rows, -1, 1, None, False, rows, field=P97), random.Random(rows)
    points, joint = range(4 * rows + 1, 97), joint_of(circuit, bytes(32))
    x = witness(circuit, [0] * rows)
    honest = x + prove(circuit, x, joint, uniform(P97, circuit.wires, source))
    assert all(accepts_both(circuit, honest, joint, r) for r in points)
    for _ in range(40):
        bad = [4 + source.randrange(93), *honest[1 : circuit.witness_words + circuit.wires]]
        bad += uniform(P97, 2 * len(circuit.points), source)
        assert sum(accepts_both(circuit, bad, joint, r) for r in points) <= 4 * rows
    found = [best_cheat(circuit, joint, source) for _ in range(12 * rows)]
    best = max(sum(accepts_both(circuit, bad, joint, r) for r in points) for bad in found if bad)
    assert best == 4 * rows


@pytest.mark.parametrize("field", [P11, P13], ids=["p = 11", "p = 13"])
def test_over_all_proofs_there_are_none_is_accepted_at_more_points_than_the_bound_allows(field):
    """Lemma 2 by exhaustion: every false digit, every blind, every quotient, every point; N = 1.

    E is any polynomial of degree up to 4 with the one value E(1) = g(digit) that is not 0. Its 4 roots can be any 4 of
    the points, and then determine it: so many proofs meet the bound, and none passes it.
    """
    circuit, p = Circuit(1, -1, 1, None, False, 1, field=field), field.p
    joint, points = ([(1, 0)], [[0], [0]]), range(5, p)
    quotients = np.array(list(itertools.product(range(p), repeat=4)))
    at = np.array([[(r - 1) * w % p for w in lagrange(field, circuit.points, r)] for r in points]).T
    claimed = quotients @ at % p
    sample = random.Random(1).sample(range(p**4), 3)
    for digit, blind in itertools.product(range(p), repeat=2):
        opened = [
            sum(a * b for a, b in zip(lagrange(field, range(2), r), (blind, digit), strict=True)) % p for r in points
        ]
        accepted = (claimed == [gadgets_of(circuit, [w], joint[0])[0] for w in opened]).sum(axis=1)
        for index in sample:
            record = [digit, blind, *(e for q in quotients[index].tolist() for e in (q, 0))]
            assert accepted[index] == sum(accepts_both(circuit, record, joint, r) for r in points)
        if digit < 4:
            assert (accepted == len(points)).sum() == 1
        else:
            assert accepted.max() == 4
            assert (accepted == 4).sum() == math.comb(len(points), 4)


@pytest.mark.statistical
def test_over_tosses_the_best_cheat_is_accepted_as_often_as_lemma_2_says():
    """p = 97, N = 2: 8/88 + (80/88)/97; fails for 6e-7 of all sets of tosses (5 sigma)."""
    circuit, source, tosses = Circuit(2, -1, 1, None, False, 2, field=P97), random.Random(5), 2000
    joint = joint_of(circuit, bytes(32))
    bad = next(found for _ in range(100) if (found := best_cheat(circuit, joint, source)))
    points = [point_of(circuit, number.to_bytes(32, "little")) for number in range(tosses)]
    rate = sum(decide(circuit, query(circuit, bad, 1, joint, point), joint, point) for point in points) / tosses
    expected = 8 / 88 + 80 / 88 / 97
    assert expected < 8 / 88 + 1 / 97
    assert abs(rate - expected) < 5 * math.sqrt(expected * (1 - expected) / tosses)


def test_kappa_adds_one_in_p():
    """Lemma 2 over all kappa, where E(r) is not 0 or (T) fails: just p^2 of p^3 accept."""
    circuit, source = Circuit(1, -1, 1, 4, True, 2, field=P13), random.Random(2)
    joint, x = joint_of(circuit, bytes(32)), witness(Circuit(1, -1, 1, 4, True, 2, field=P13), [1])
    x[-1] = 2  # W = 2 in place of 1: (P) and (T) fail
    record = x + prove(circuit, x, joint, uniform(P13, circuit.wires, source))
    counts = {
        sum(
            decide(circuit, query(circuit, record, 1, joint, (r, kappa)), joint, (r, kappa))
            for kappa in itertools.product(range(13), repeat=3)
        )
        for r in range(9, 13)
    }
    assert counts == {13**2}


def test_how_many_v_miss_a_wrong_product():
    """Lemma 1: at most 2p of p^2; two lines, the worst there is, meet 2p - 1."""
    p, source, worst = 97, random.Random(3), 0
    wrong = [(0, 1, 0), *(tuple(uniform(P97, 3, source)) for _ in range(60))]
    for a, b, c in wrong:
        if a or b or c:
            zero = sum((a * s * s + 2 * b * s * t + c * t * t) % p == 0 for s in range(p) for t in range(p))
            worst = max(worst, zero)
    assert worst == 2 * p - 1


def test_over_all_sigma_and_v_every_wrong_product_is_missed_as_rarely_as_lemma_1_says():
    """Lemma 1 by exhaustion, p = 7, d = 2: every W that is no z z^T, every v and v', every sigma: at most 5 in p^2."""
    circuit, p, worst = Circuit(2, -1, 1, None, True, 2, field=P7), 7, 0.0
    x = witness(circuit, [1, -2])
    pairs = list(itertools.product(range(p), repeat=2))
    for wrong in itertools.product(range(p), repeat=3):
        if not any(wrong):
            continue
        shifted = [*x[: circuit.digits], *((a + b) % p for a, b in zip(x[circuit.digits :], wrong, strict=True))]
        missed = 0
        for v in pairs:
            wires, h = table_of(circuit, shifted, 1, ([(1, 0)] * circuit.wires, [v, v]))
            errors = [(root * root - value) % p for root, (value, _) in zip(wires[-1], h, strict=True)]
            assert errors[0] == errors[1]  # both rows have the same v here
            missed += errors[0] == 0
        both = (missed / p**2) ** 2  # v and v' are independent; otherwise sigma has to be 0 in its wire
        worst = max(worst, both + (1 - both) / p**2)
    assert (2 * p - 1) / p**2 < math.sqrt(worst) < math.sqrt(5 / p**2)


def test_how_many_sigma_cancel_errors():
    """Lemma 1: exactly 1 in p^2, over all sigma in K^2, p = 7; in F it would be 1 in p, which can be ground."""
    p = 7
    pairs = list(itertools.product(range(p), repeat=2))
    for e, f in ((1, 0), (2, 5), (6, 6)):
        zero = sum((e * a + f * b) % p == 0 and (e * s + f * t) % p == 0 for (a, s) in pairs for (b, t) in pairs)
        assert zero == len(pairs) ** 2 // p**2
        assert sum((e * a + f * b) % p == 0 for a, b in pairs) == p**2 // p


def test_over_all_blinds_each_message_occurs_once_whatever_the_row():
    """Theorem 2 by exhaustion: p = 13, two rows, two points, one server's message."""
    circuit, source = Circuit(2, -1, 1, None, False, 1, field=P13), random.Random(4)
    joint = ([(1, 2), (3, 4)], [[1, 2], [3, 4]])
    mask, views = uniform(P13, circuit.words, source), []
    for z in ([-2, -2], [1, 0]):
        x, seen = witness(circuit, z), {}
        for blinds in itertools.product(range(13), repeat=circuit.wires):
            whole = x + prove(circuit, x, joint, blinds)
            share = [(a - b) % 13 for a, b in zip(whole, mask, strict=True)]
            for r in (5, 9):
                message = (r, *query(circuit, share, 0, joint, (r, [3, 7, 1])))
                seen[message] = seen.get(message, 0) + 1
        views.append(seen)
    assert views[0] == views[1]
    assert set(views[0].values()) == {1}
    assert len(views[0]) == 2 * 13**circuit.wires


def test_at_a_node_the_wires_are_the_digits():
    circuit = Circuit(2, -1, 1, None, False, 1, field=P13)
    x = witness(circuit, [1, -2])
    joint = joint_of(circuit, bytes(32))
    record = x + prove(circuit, x, joint, [5, 6])
    assert query(circuit, record, 1, joint, (1, [1, 1, 1]))[:-1] == x


def test_a_statement_that_wraps_would_be_believed():
    """Why circuits whose (T) may wrap are refused: at p = 97 a row far beyond the ball passes."""
    circuit = Circuit(2, -7, 7, 100, True, 1, field=P97)
    row = [-8, -8]  # |z|^2 = 128 > 100, but 128 + 69 = 100 modulo 97
    honest = Circuit(2, -7, 7, 128 + 69, True, 1, field=P97)
    x = witness(honest, row)
    per = 2 * len(circuit.weights)
    assert circuit.slack_digits == honest.slack_digits
    joint = joint_of(circuit, bytes(32))
    record = x + prove(circuit, x, joint, uniform(P97, circuit.wires, random.Random(5)))
    assert sum(g * 4**k for k, g in enumerate(x[per : circuit.digits])) == 69
    assert all(accepts_both(circuit, record, joint, r) for r in range(5, 97))
    point = (50, [3, 4, 5])
    assert decide(circuit, query(circuit, record, 1, joint, point), joint, point)

"""Prove, share, query and decide: what has to pass, what must not, and equality with the slow reference."""

import dataclasses
import hashlib
import json
import math
from pathlib import Path

import numpy as np
import pytest

from dpmpc._kernels import dispatch
from dpmpc.base.errors import InputError, OverflowRisk, PartyMissing
from dpmpc.base.randomness import Stream
from dpmpc.linear.proving import ProofServer, Prover, QueryPoint, decide, joint_randomness
from dpmpc.linear.proving.circuit import CellsCircuit, RowCircuit, digit_weights, widened_low
from dpmpc.linear.proving.decide import fewest_present, require_present, soundness_error
from dpmpc.linear.proving.joint import Binding, elements_among, expand_seeds
from dpmpc.linear.sharing import AdditiveSharing, ShamirSharing
from dpmpc.linear.sharing.batch import expand, expand_many
from references import proving as reference
from support.matrix_inputs import each_instruction_set
from support.proof_inputs import (
    CIRCUITS,
    COLLECTION,
    FIELD,
    SCHEMES,
    Exchange,
    P,
    new_ids,
    points_of,
    record_of,
    verdicts,
)
from support.rejections import rejects

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "proving.json").read_text())
KAT = "aa85f25d966087b2b89bf65be657b38f8f4dc6da2b31f5a69f20a3ed1a870650"
instruction_set = each_instruction_set(dispatch)
TWO = SCHEMES["additive 2"]


def circuit_of(shape):
    if shape["sizes"]:
        return CellsCircuit(tuple(shape["sizes"]), rows=shape["rows"])
    matrix = tuple(tuple(row) for row in shape["matrix"])
    fields = {name: shape[name] for name in ("columns", "least", "high", "squared_radius", "moments", "rows")}
    return RowCircuit(**fields, matrix=matrix)


def block(text):
    return np.frombuffer(bytes.fromhex(text), np.uint8).reshape(1, -1)


def words(numbers):
    return np.array([numbers], np.uint64)


@pytest.mark.parametrize("answer", VECTORS["answers"], ids=lambda answer: str(answer["circuit"]))
def test_known_answers(answer, instruction_set):
    circuit = circuit_of(answer["circuit"])
    assert circuit.witness(np.array([answer["z"]])).tolist() == [answer["witness"]]
    binding, ids = Binding(bytes.fromhex(answer["collection"])), block(answer["id"])
    last, key = words(answer["last"]), block(answer["key"])
    mask = expand_many(key, circuit.words, "mersenne61")
    parts = [
        binding.parts_of_keys(0, ids, key),
        binding.parts_of_words(1, ids, block(answer["blind"]), last[:, : circuit.witness_words]),
    ]
    assert [part.tobytes().hex() for part in parts] == [answer["part0"], answer["part1"]]
    seeds = binding.seeds(ids, np.stack(parts, axis=1))
    assert seeds.tobytes().hex() == answer["seed"]
    joint = joint_randomness(circuit, seeds)
    assert joint[0].tolist() == answer["sigma"] + answer["v"]
    proof = np.empty((1, circuit.words - circuit.witness_words), np.uint64)
    circuit.proofs.prove(words(answer["witness"]), joint, words(answer["blinds"]), proof)
    assert proof[0].tolist() == answer["proof"]
    point = QueryPoint.of_toss(circuit, bytes.fromhex(answer["toss"]))
    assert (point.r, point.kappa.tolist()) == (answer["point"], answer["kappa"])
    servers = [ProofServer(circuit, TWO, bytes.fromhex(answer["collection"]), number) for number in (0, 1)]
    pairs = zip(servers, (mask, last), strict=True)
    messages = {server.server: server.query(point, joint, record) for server, record in pairs}
    assert [messages[number][0].tolist() for number in (0, 1)] == answer["messages"]
    assert decide(circuit, TWO, point, joint, messages).accepted.tolist() == [answer["success"]]


@pytest.mark.parametrize("case", VECTORS["refused"], ids=lambda case: case["why"])
def test_known_answers_that_are_refused(case):
    answer = VECTORS["answers"][0]
    circuit = circuit_of(answer["circuit"])
    point = QueryPoint(circuit, answer["point"], tuple(answer["kappa"]))
    joint, last = words(answer["sigma"] + answer["v"]), words(answer["last"])
    last[0, case["place"]] = (int(last[0, case["place"]]) + case["added"]) % P
    message = ProofServer(circuit, TWO, COLLECTION, 1).query(point, joint, last)
    assert message[0].tolist() == case["messages"][1]
    messages = {0: words(case["messages"][0]), 1: message}
    assert decide(circuit, TWO, point, joint, messages).accepted.tolist() == [case["success"]]


def test_the_first_known_answer_is_that_of_the_design():
    """In the lines of the C prototype's file, whose digest this is."""
    answer = VECTORS["answers"][0]
    shape = answer["circuit"]
    texts = ("collection", "id", "key", "blind", "part0", "part1", "seed")
    lines = [f"{name} {answer[name]}" for name in texts]
    numbers = {"circuit": [shape["columns"], 9, shape["squared_radius"], shape["rows"]], "point": [answer["point"]]}
    numbers |= {f"message{number}": message for number, message in enumerate(answer["messages"])}
    order = ["circuit", "z", "blinds", "point", "kappa", "sigma", "v", "proof", "last", "message0", "message1"]
    for name in order:
        listed = numbers.get(name) or answer[name]
        lines.append(" ".join([name, str(len(listed)), *map(str, listed)]))
    assert hashlib.sha256(("\n".join(lines) + "\n").encode()).hexdigest() == KAT


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES)
@pytest.mark.parametrize("name", CIRCUITS)
def test_honest_reports_are_accepted_and_their_sums_are_right(name, scheme):
    circuit = CIRCUITS[name]
    points = points_of(circuit, 7)
    exchange = Exchange(circuit, scheme, circuit.witness(points))
    assert all(taken.all() for taken in exchange.at_the_door())
    found = exchange.verdicts()
    assert found.accepted.all()
    assert not found.inconsistent.any()
    assert not any(odd.any() for odd in found.odd.values())
    if isinstance(circuit, CellsCircuit):
        shares = [np.ascontiguousarray(record[:, : circuit.digits]) for record in exchange.records]
        expected = np.concatenate(
            [np.eye(size, dtype=int)[cells] for size, cells in zip(circuit.sizes, points.T, strict=True)], axis=1
        )
    else:
        pairs = zip(exchange.servers, exchange.records, strict=True)
        shares = [circuit.columns_of(record, server.one) for server, record in pairs]
        expected = circuit.transformed(points)
    assert np.array_equal(FIELD.lift(scheme.combine(shares)), expected)
    if not isinstance(circuit, CellsCircuit) and circuit.moments:
        upper = np.triu_indices(circuit.columns)
        products = scheme.combine([record[:, circuit.digits : circuit.witness_words] for record in exchange.records])
        assert np.array_equal(FIELD.lift(products), expected[:, upper[0]] * expected[:, upper[1]])


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES)
def test_a_block_may_be_empty(scheme):
    for circuit in CIRCUITS.values():
        exchange = Exchange(circuit, scheme, circuit.witness(points_of(circuit, 1)[:0]))
        assert all(taken.shape == (0,) for taken in exchange.at_the_door())
        assert exchange.verdicts().accepted.shape == (0,)


def test_every_point_accepts_an_honest_report(instruction_set):
    """Completeness holds at every point, for blocks of one report and of many."""
    circuit = CIRCUITS["sum, ball"]
    exchange = Exchange(circuit, TWO, circuit.witness(points_of(circuit, 3)))
    for toss in range(50):
        exchange.point = QueryPoint.of_toss(circuit, bytes([toss]) * 32)
        assert exchange.verdicts().accepted.all()
    for r in (circuit.degree + 1, P - 1):
        exchange.point = QueryPoint(circuit, r, (P - 1, P - 1, P - 1))
        assert exchange.verdicts().accepted.all()


def changed(witness, place, value):
    other = witness.copy()
    other[place] = value % P
    return other


def with_slack(circuit, z, slack):
    """A row of the box beyond the ball: its products are right, its slack is this element."""
    wide = dataclasses.replace(circuit, squared_radius=circuit.columns * 4 * circuit.high**2)
    end = circuit.columns * len(circuit.weights)
    digits = [slack >> 2 * place & 3 for place in range(circuit.slack_digits)]
    whole = wide.witness(np.array([z]))[0]
    return np.concatenate([whole[:end], np.array(digits, np.uint64), whole[wide.digits :]])


def false_witnesses():
    circuit = CIRCUITS["sum, ball"]
    good = circuit.witness(np.array([[100, -200, 300, -512]]))[0]
    yield "digit 4", circuit, changed(good, 0, 4)
    yield "digit -1", circuit, changed(good, 3, -1)
    yield "digit 1/2", circuit, changed(good, 1, (P + 1) // 2)
    yield "last digit of the slack", circuit, changed(good, circuit.digits - 1, 7)
    yield "W_12 off by one", circuit, changed(good, circuit.digits + 1, int(good[circuit.digits + 1]) + 1)
    yield "W_44 off by one", circuit, changed(good, circuit.witness_words - 1, 512**2 + 1)
    yield "W arbitrary", circuit, changed(good, circuit.digits, 123456789012345678)
    yield "all random", circuit, FIELD.uniform(Stream.from_seed(1), circuit.witness_words)
    corner = [circuit.high] * 4
    for slack in (0, 4**circuit.slack_digits - 1, 12345):
        yield f"beyond the ball, slack {slack}", circuit, with_slack(circuit, corner, slack)
    wrapping = with_slack(circuit, corner, 0)
    place = circuit.columns * len(circuit.weights)
    wrapping[place] = (circuit.squared_radius - 4 * circuit.high**2) % P
    yield "beyond the ball, (T) right by a digit", circuit, wrapping
    moved = good.copy()  # the trace stays, so that (T) holds
    moved[circuit.digits] += np.uint64(5)
    moved[circuit.witness_words - 1] -= np.uint64(5)
    yield "two squares off, their sum right", circuit, moved
    far, z = good.copy(), [1 << 30, -200, 300, -512]  # one coordinate far outside, everything else right
    far[0] = (int(far[0]) + z[0] - 100) % P
    far[circuit.digits :] = [a * b % P for i, a in enumerate(z) for b in z[i:]]
    others = sum(int(good[place + k]) * 4**k for k in range(1, circuit.slack_digits))
    far[place] = (circuit.squared_radius - sum(a * a for a in z) - others) % P
    yield "coordinate 2^30", circuit, far
    ball = CIRCUITS["rows, ball"]
    row = ball.witness(np.array([[-2048, 2047, 0, 1, -1]]))[0]
    yield "rows: a square off by one", ball, changed(row, ball.digits, 2048**2 + 1)
    exchanged = row.copy()
    exchanged[ball.digits], exchanged[ball.digits + 2] = row[ball.digits + 2], row[ball.digits]
    yield "rows: two squares exchanged", ball, exchanged
    yield "rows: beyond the ball", ball, with_slack(ball, [2047] * 5, 0)
    box = CIRCUITS["rows, box"]
    yield "box: digit 4", box, changed(box.witness(points_of(box, 1))[0], 5, 4)
    items = CIRCUITS["items"]
    one = items.witness(np.array([[1]]))[0]
    yield "items: none", items, one * np.uint64(0)
    yield "items: two", items, changed(one, 0, 1)
    yield "items: one twice", items, one * np.uint64(2)
    yield "items: 2 - 1", items, changed(changed(one, 0, 2), 1, -1 % P + 0 * P)
    yield "items: halves", items, changed(changed(one, 0, (P + 1) // 2), 1, (P + 1) // 2)
    grids = CIRCUITS["cells"]
    right = grids.witness(np.array([[1, 2, 0]]))[0]
    yield "cells: two people in one grid, none in another", grids, changed(changed(right, 1, 2), 6, 0)
    yield "cells: two of one grid, none of another", grids, changed(changed(right, 0, 1), 6, 0)
    yield "cells: two of one grid", grids, changed(right, 3, 1)
    yield "cells: -1 and 2", grids, changed(changed(right, 0, P - 1), 1, 2)
    yield "cells: none of any", grids, right * np.uint64(0)
    elsewhere = changed(changed(right, 1, 0), 6, 0)
    yield "cells: all in the wrong grid", grids, changed(changed(elsewhere, 4, 1), 5, 1)
    whitened = CIRCUITS["whitened"]
    w = whitened.witness(np.array([[1, 2, 3]]))[0]
    plain = np.array([a * b for i, a in enumerate([1, 2, 3]) for b in [1, 2, 3][i:]], np.uint64)
    yield "whitened: products of z", whitened, np.concatenate([w[: whitened.digits], plain])


FALSE = list(false_witnesses())


@pytest.mark.parametrize(("name", "circuit", "witness"), FALSE, ids=[name for name, _, _ in FALSE])
def test_false_statements_are_refused(name, circuit, witness):
    scheme = SCHEMES["additive 3"]
    exchange = Exchange(circuit, scheme, np.stack([witness] * 3))
    assert all(taken.all() for taken in exchange.at_the_door())
    assert not exchange.verdicts().accepted.any()
    assert not verdicts(circuit, SCHEMES["shamir 3, 1"], witness[None]).accepted.any()


@pytest.mark.parametrize("name", ["sum, ball", "rows, ball", "items", "cells", "whitened"])
@pytest.mark.parametrize("scheme", [SCHEMES["additive 2"], SCHEMES["shamir 3, 1"]], ids=str)
def test_every_word_counts(name, scheme):
    """A record of which one word is changed on the way is refused, whichever word it is."""
    circuit = CIRCUITS[name]
    one = circuit.witness(points_of(circuit, 1))
    exchange = Exchange(circuit, scheme, np.repeat(one, circuit.words, axis=0))
    deltas = FIELD.uniform(Stream.from_os(), circuit.words) % np.uint64(P - 1) + np.uint64(1)
    victim = exchange.records[-1].copy()
    places = np.arange(circuit.words)
    victim[places, places] = FIELD.add(np.ascontiguousarray(victim[places, places]), deltas)
    exchange.records[-1] = victim
    found = exchange.verdicts()
    assert not found.accepted.any()
    assert found.inconsistent.all() == isinstance(scheme, ShamirSharing)


def test_other_joint_randomness_or_another_point_is_refused():
    circuit = CIRCUITS["sum, ball"]
    exchange = Exchange(circuit, TWO, circuit.witness(points_of(circuit, 4)))
    mine, own = exchange.messages(), exchange.joint
    exchange.joint = joint_randomness(circuit, np.zeros((4, 32), np.uint8))
    assert not exchange.verdicts().accepted.any()
    exchange.joint = own
    exchange.point = QueryPoint.of_toss(circuit, bytes(32))
    assert not exchange.verdicts({**mine, 1: exchange.messages()[1]}).accepted.any()


def test_a_batch_with_liars_and_damage():
    circuit, scheme = CIRCUITS["sum, ball"], SCHEMES["additive 3"]
    witnesses = circuit.witness(points_of(circuit, 60))
    liars = np.arange(60) % 6 == 1
    witnesses[liars] = FIELD.uniform(Stream.from_os(), (10, circuit.witness_words))
    exchange = Exchange(circuit, scheme, witnesses)
    exchange.records[2] = exchange.records[2].copy()
    exchange.records[2][20, 5] ^= np.uint64(1)
    accepted = exchange.verdicts().accepted
    assert accepted.tolist() == [not liar and index != 20 for index, liar in enumerate(liars)]


# ---------------------------------------------------------------- the door


def test_parts_bind_collection_id_server_and_every_byte():
    circuit, scheme = CIRCUITS["rows, box"], SCHEMES["additive 3"]
    exchange = Exchange(circuit, scheme, circuit.witness(points_of(circuit, 5)))
    for server, share in zip(exchange.servers, exchange.shares, strict=True):
        assert server.own_parts_match(share).all()
        other = ProofServer(circuit, scheme, bytes(32), server.server)
        assert not other.own_parts_match(share).any()
        assert not server.own_parts_match(dataclasses.replace(share, ids=new_ids(5))).any()
        parts = share.parts.copy()
        parts[1, server.server, 31] ^= 1
        assert server.own_parts_match(dataclasses.replace(share, parts=parts)).tolist() == [True, False, *[True] * 3]
        assert not np.array_equal(server.seeds(dataclasses.replace(share, parts=parts))[1], server.seeds(share)[1])
    keys, held = exchange.shares[0], exchange.shares[2]
    assert not np.array_equal(
        Binding(COLLECTION).parts_of_keys(0, keys.ids, keys.keys),
        Binding(COLLECTION).parts_of_keys(1, keys.ids, keys.keys),
    )
    for place in range(circuit.witness_words):
        altered = held.words.copy()
        altered[:, place] ^= np.uint64(1) << np.uint64(place)
        altered %= np.uint64(P)
        assert not exchange.servers[2].own_parts_match(dataclasses.replace(held, words=altered)).any()
    blinds = held.blinds.copy()
    blinds[:, 15] ^= 1
    assert not exchange.servers[2].own_parts_match(dataclasses.replace(held, blinds=blinds)).any()


def test_seeds_depend_on_the_id_the_collection_and_the_order_of_parts():
    ids, parts = new_ids(1), np.arange(64, dtype=np.uint8).reshape(1, 2, 32)
    seed = Binding(COLLECTION).seeds(ids, parts).tobytes()
    assert seed == reference.seed_of(COLLECTION, ids.tobytes(), [bytes(range(32)), bytes(range(32, 64))])
    others = [
        Binding(COLLECTION).seeds(ids, parts[:, ::-1]),
        Binding(COLLECTION).seeds(new_ids(1), parts),
        Binding(bytes(32)).seeds(ids, parts),
        Binding(COLLECTION).seeds(ids, parts[:, :1]),
    ]
    assert len({seed, *(other.tobytes() for other in others)}) == 5


def test_every_byte_of_a_seed_counts():
    """A seed cut to 128 bits would let a client prepare one false W for many seeds."""
    circuit = CIRCUITS["sum, ball"]
    seeds = np.zeros((33, 32), np.uint8)
    seeds[np.arange(1, 33), np.arange(32)] = 1
    joint = joint_randomness(circuit, seeds)
    assert len({row.tobytes() for row in joint}) == 33
    assert len({row[2 * circuit.wires :].tobytes() for row in joint}) == 33
    assert FIELD.is_canonical(joint)


def test_words_that_are_no_elements_are_passed_over():
    top = (1 << 64) - 1
    assert elements_among(np.array([top, 5, P, P - 1, P + 1, 7], np.uint64)).tolist() == [5, P - 1, 1 << 61 & P, 7]


def test_a_seed_whose_stream_has_a_gap(monkeypatch):
    """No such seed is known; its stream is written here."""
    from dpmpc.linear.proving import joint

    def fill(keys, out):
        out[:] = np.arange(out.shape[1], dtype=np.uint64) + np.uint64(10)
        out[keys[:, 0] == 1, 2] = P
        out[keys[:, 0] == 1, 4] = (1 << 64) - 1

    monkeypatch.setattr(joint, "fill_key_streams", fill)
    seeds = np.zeros((2, 32), np.uint8)
    seeds[1, 0] = 1
    assert expand_seeds(seeds, 5).tolist() == [[10, 11, 12, 13, 14], [10, 11, 13, 15, 16]]


def test_many_keys_expand_as_each_does():
    keys = new_ids(4)
    for ring in ("ring64", "mersenne61"):
        many = expand_many(keys, 33, ring)
        assert np.array_equal(many, np.stack([expand(key.tobytes(), (33,), ring) for key in keys]))
    assert expand_many(keys[:0], 3).shape == (0, 3)
    assert expand_many(keys, 0).shape == (4, 0)


@pytest.mark.parametrize("word", [P, P + 1, (1 << 64) - 1])
def test_words_of_p_or_more_are_refused_wherever_they_come_in(word):
    circuit = CIRCUITS["rows, box"]
    exchange = Exchange(circuit, TWO, circuit.witness(points_of(circuit, 2)))
    bad = exchange.records[1].copy()
    bad[1, 7] = word
    share = dataclasses.replace(exchange.shares[1], words=bad)
    with pytest.raises(InputError, match=f"words: element {circuit.words + 7} is {word}, a number below"):
        exchange.servers[1].own_parts_match(share)
    with pytest.raises(InputError, match=f"records: .* is {word}"):
        exchange.servers[1].query(exchange.point, exchange.joint, bad)
    messages = exchange.messages()
    messages[0][0, 0] = word
    with pytest.raises(InputError, match=f"message of server 0: element 0 is {word}"):
        exchange.verdicts(messages)
    with pytest.raises(InputError, match="witnesses: element"):
        Prover(circuit, TWO, COLLECTION).reports(np.full((1, circuit.witness_words), word, np.uint64), new_ids(1))
    joint = exchange.joint.copy()
    joint[0, 0] = word
    with pytest.raises(InputError, match="joint: element 0"):
        exchange.servers[1].query(exchange.point, joint, exchange.records[1])
    with pytest.raises(InputError, match="joint: element 0"):
        decide(circuit, TWO, exchange.point, joint, exchange.messages())


def test_shares_of_the_wrong_form_are_refused():
    circuit = CIRCUITS["rows, box"]
    exchange = Exchange(circuit, TWO, circuit.witness(points_of(circuit, 2)))
    key, held = exchange.shares
    first, last = exchange.servers
    for server, share, rejection in (
        (first, held, {"argument": "shares", "given": "those of server 1", "expected": "of server 0"}),
        (
            first,
            dataclasses.replace(held, server=0),
            {"argument": "shares", "given": "words given to server 0, a key for each report expected"},
        ),
        (
            last,
            dataclasses.replace(key, server=1),
            {"argument": "shares", "given": "keys given to server 1, blinds and words expected"},
        ),
        (last, dataclasses.replace(held, words=held.words[:, :-1]), {"argument": "words", "given": "(2, 51)"}),
        (
            last,
            dataclasses.replace(held, blinds=held.blinds[:, :8]),
            {"argument": "blinds", "given": "uint8 of shape (2, 8)"},
        ),
        (first, dataclasses.replace(key, keys=key.keys[:1]), {"argument": "keys", "given": "uint8 of shape (1, 16)"}),
        (
            first,
            dataclasses.replace(key, parts=key.parts[:, :1]),
            {"argument": "parts", "given": "uint8 of shape (2, 1, 32)"},
        ),
        (
            first,
            dataclasses.replace(key, ids=key.ids.astype(np.int64)),
            {"argument": "ids", "given": "int64 of shape (2, 16)"},
        ),
    ):
        with rejects(**rejection):
            server.own_parts_match(share)
    empty = dataclasses.replace(key, keys=None)
    with rejects("shares", expected="one of them"):
        empty.records(circuit)
    with rejects("shares", expected="one of them"):
        empty.own_parts(circuit, Binding(COLLECTION))


def test_bad_arguments_name_themselves():
    circuit, ids = CIRCUITS["rows, box"], new_ids(2)
    with rejects(
        "scheme", given="AdditiveSharing(servers=2, ring=Ring64())", expected="shares in mersenne61 among up to 255"
    ):
        Prover(circuit, AdditiveSharing(2), COLLECTION)
    with rejects("collection", given="3 bytes"):
        Binding(b"abc")
    with rejects("ids", given="uint8 of shape (2, 16)"):
        Prover(circuit, TWO, COLLECTION).reports(circuit.witness(points_of(circuit, 3)), ids)
    for r in (0, 1, circuit.rows, circuit.degree, P):
        with pytest.raises(InputError, match=f"r: {r} given, a whole number from {circuit.degree + 1}"):
            QueryPoint(circuit, r, (1, 2, 3))
    with rejects("kappa", given="2305843009213693951"):
        QueryPoint(circuit, 1000, (1, 2, P))
    with rejects("kappa", given="2 numbers"):
        QueryPoint(circuit, 1000, (1, 2))
    with rejects("toss", given="3 bytes"):
        QueryPoint.of_toss(circuit, b"abc")
    exchange = Exchange(circuit, TWO, circuit.witness(points_of(circuit, 2)))
    elsewhere = QueryPoint(dataclasses.replace(circuit, rows=circuit.rows + 1), 1000, (1, 2, 3))
    with rejects("point", given="one of another circuit"):
        exchange.servers[0].query(elsewhere, exchange.joint, exchange.records[0])
    with rejects("point", given="one of another circuit"):
        decide(circuit, TWO, elsewhere, exchange.joint, exchange.messages())
    with rejects("witnesses", given="float64 of shape (2, 3)"):
        Binding(COLLECTION).parts_of_words(0, ids, ids, np.zeros((2, 3)))
    with rejects("parts", given="shape (2, 16)"):
        Binding(COLLECTION).seeds(ids, ids)
    with rejects("z", given="row 1 is [128, 0, 0, 0, 0, 0], numbers from -128 to 127 expected"):
        circuit.witness(np.array([[0] * 6, [128] + [0] * 5]))
    with rejects("z", given="row 0 has squared norm 1040400, at most 524288 expected"):
        CIRCUITS["sum, ball"].witness(np.array([[-510, 510, -510, 510]]))
    for outside in ([[3, 7, 0]], [[-1, 0, 0]]):
        with pytest.raises(InputError, match=r"cells: row 0 is .*, from 0 to below \[4, 7, 2\] expected"):
            CIRCUITS["cells"].witness(np.array(outside))
    with rejects("cells", given="int64 of shape (1, 2)"):
        CIRCUITS["cells"].witness(np.array([[0, 0]]))


# ---------------------------------------------------------------- points, and who is present


def test_points_are_never_nodes():
    """At 1..N the wires are the digits; a point is beyond all nodes, and the toss never gives another."""
    circuit = CIRCUITS["sum, ball"]
    points = [QueryPoint.of_toss(circuit, bytes([toss]) * 32) for toss in range(200)]
    assert all(circuit.degree < point.r < P for point in points)
    assert len({point.r for point in points}) == 200
    for toss in (bytes(32), bytes([7]) * 32):
        r, kappa = reference.point_of(reference.ANSWERS[0][0], toss)
        point = QueryPoint.of_toss(dataclasses.replace(circuit, rows=3), toss)
        assert (point.r, point.kappa.tolist()) == (r, kappa)


def test_a_toss_passes_nodes_over(monkeypatch):
    """No such toss is known; its elements are written here."""
    from dpmpc.linear.proving import query

    circuit = CIRCUITS["sum, ball"]
    elements = np.array([[7, 8, 9, 0, 1, circuit.degree, circuit.degree + 1, 5000]], np.uint64)
    monkeypatch.setattr(query, "expand_seeds", lambda seeds, count: elements)
    point = QueryPoint.of_toss(circuit, bytes(32))
    assert (point.r, point.kappa.tolist()) == (circuit.degree + 1, [7, 8, 9])


def test_a_second_point_gives_the_digits_away():
    """Why there is one point: with N = 1 two openings are two points of each line."""
    circuit = dataclasses.replace(CIRCUITS["rows, box"], rows=1)
    witness = circuit.witness(points_of(circuit, 1))
    exchange = Exchange(circuit, TWO, witness)
    opened = {}
    for r in (1000, 2000):
        exchange.point = QueryPoint(circuit, r, (1, 2, 3))
        message = TWO.combine(list(exchange.messages().values()))
        opened[r] = [int(e) for e in message[0, : circuit.wires]]
    slope = [(b - a) * pow(1000, -1, P) % P for a, b in zip(opened[1000], opened[2000], strict=True)]
    digits = [(a - 999 * s) % P for a, s in zip(opened[1000], slope, strict=True)]
    assert digits == witness[0].tolist()


def test_other_joint_randomness_at_the_same_point_gives_the_row_away():
    """Why a repeated answer needs the same (sigma, v, v'): with N = 1 the wires of squares differ by r (v' - v) z.

    And y differs by a linear function of the products, if only sigma is another.
    """
    circuit = dataclasses.replace(CIRCUITS["sum, box"], rows=1)
    points = points_of(circuit, 1)
    exchange = Exchange(circuit, TWO, circuit.witness(points))
    r, columns = 1000, circuit.column_count
    exchange.point = QueryPoint(circuit, r, (1, 2, 3))
    first, joint = TWO.combine(list(exchange.messages().values()))[0], exchange.joint
    np.testing.assert_array_equal(TWO.combine(list(exchange.messages().values()))[0], first)
    exchange.joint = joint.copy()
    exchange.joint[0, -2 * columns] = (int(joint[0, -2 * columns]) + 1) % P  # the first entry of v
    second = TWO.combine(list(exchange.messages().values()))[0]
    moved = [(int(b) - int(a)) * pow(r, -1, P) % P for a, b in zip(first, second, strict=True)]
    assert moved[: circuit.wires].count(int(points[0, 0]) % P) == 1
    assert moved[: circuit.wires].count(0) == circuit.wires - 1
    exchange.joint = joint.copy()
    exchange.joint[0, : 2 * circuit.wires] = FIELD.uniform(Stream.from_os(), 2 * circuit.wires)
    third = TWO.combine(list(exchange.messages().values()))[0]
    assert third[:-1].tolist() == first[:-1].tolist()
    assert third[-1] != first[-1]


def test_opened_messages_say_nothing_of_the_row():
    """Wires at r are uniform: over many reports of one row, the opened low bits are those of coins (5 sigma)."""
    circuit = CIRCUITS["rows, box"]
    exchange = Exchange(circuit, TWO, circuit.witness(np.repeat(points_of(circuit, 1), 4000, axis=0)))
    opened = TWO.combine(list(exchange.messages().values()))[:, : circuit.wires]
    shares = (opened & np.uint64(1)).mean(axis=0)
    assert np.abs(shares - 0.5).max() < 5 * 0.5 / math.sqrt(4000)
    assert len(np.unique(opened)) == opened.size


def test_a_word_written_once_r_is_known_makes_any_report_pass():
    """Why servers take nothing after the toss: shares of proofs are not hashed."""
    circuit = CIRCUITS["rows, box"]
    false = FIELD.uniform(Stream.from_os(), (1, circuit.witness_words))
    exchange = Exchange(circuit, TWO, false)
    assert not exchange.verdicts().accepted.any()
    place = circuit.witness_words + circuit.wires
    opened = TWO.combine(list(exchange.messages().values()))
    target = opened.copy()
    sigma = [tuple(pair) for pair in exchange.joint[0, : 2 * circuit.wires].reshape(-1, 2).tolist()]
    twin = reference.Circuit(6, -127, 127, None, False, circuit.rows)
    gadgets = reference.gadgets_of(twin, [int(e) for e in opened[0, :-1]], sigma)
    target = sum(k * g for k, g in zip(exchange.point.kappa.tolist(), gadgets, strict=False)) % P
    effect = int(exchange.point.quotient[0]) * int(exchange.point.kappa[0]) % P
    missing = (target - int(opened[0, -1])) * pow(effect, -1, P) % P
    exchange.records[1] = exchange.records[1].copy()
    exchange.records[1][0, place] = (int(exchange.records[1][0, place]) + missing) % P
    assert exchange.verdicts().accepted.all()


@pytest.mark.parametrize(("servers", "threshold", "fewest"), [(3, 1, 3), (4, 1, 3), (5, 2, 5), (7, 2, 5), (6, 1, 4)])
def test_who_has_to_be_present(servers, threshold, fewest):
    scheme = ShamirSharing(servers, threshold)
    assert fewest_present(scheme) == fewest
    require_present(scheme, range(fewest))
    with pytest.raises(PartyMissing, match=f"{fewest - 1} of {servers} servers present, at least {fewest}"):
        require_present(scheme, range(fewest - 1))
    with pytest.raises(PartyMissing, match="2 of 3 servers present, at least 3"):
        require_present(SCHEMES["additive 3"], [0, 2])
    with rejects("scheme", expected="at least 2t + 1 = 5 servers"):
        require_present(ShamirSharing(3, 2), range(3))


def test_two_liars_need_a_server_to_be_missing():
    """(5, 2): among four servers two liars write messages with which any report passes; among five they are noticed."""
    circuit, scheme = CIRCUITS["rows, box"], SCHEMES["shamir 5, 2"]
    exchange = Exchange(circuit, scheme, FIELD.uniform(Stream.from_os(), (5, circuit.witness_words)))
    honest = exchange.messages()
    target = FIELD.uniform(Stream.from_os(), (5, circuit.wires + 1))
    twin = reference.Circuit(6, -127, 127, None, False, circuit.rows)
    for row, joint in zip(target, exchange.joint, strict=True):
        sigma = [tuple(pair) for pair in joint[: 2 * circuit.wires].reshape(-1, 2).tolist()]
        gadgets = reference.gadgets_of(twin, [int(e) for e in row[:-1]], sigma)
        row[-1] = sum(k * g for k, g in zip(exchange.point.kappa.tolist(), gadgets, strict=False)) % P
    for liar in (2, 3):
        weights = reference.lagrange(reference.M61, [0, 1, 2], liar + 1)
        forged = np.zeros_like(target)
        for weight, values in zip(weights, (target, honest[0], honest[1]), strict=True):
            forged = FIELD.multiply_add(values, weight, forged)
        honest[liar] = forged
    found = exchange.verdicts(honest)
    assert found.inconsistent.all()
    assert not found.accepted.any()
    assert not any(odd.any() for odd in found.odd.values())
    del honest[4]
    with pytest.raises(PartyMissing):
        exchange.verdicts(honest)


def test_a_server_whose_message_is_off_is_named_where_decoding_is_unique():
    circuit, scheme = CIRCUITS["rows, box"], ShamirSharing(4, 1)
    exchange = Exchange(circuit, scheme, circuit.witness(points_of(circuit, 6)))
    messages = exchange.messages()
    messages[2][3, 1] ^= np.uint64(1)
    found = exchange.verdicts(messages)
    assert found.accepted.tolist() == [True, True, True, False, True, True]
    assert found.inconsistent.tolist() == [False, False, False, True, False, False]
    assert found.odd[2].tolist() == found.inconsistent.tolist()
    assert not any(found.odd[server].any() for server in (0, 1, 3))
    del messages[2]
    assert exchange.verdicts(messages).accepted.all()
    three = Exchange(circuit, SCHEMES["shamir 3, 1"], circuit.witness(points_of(circuit, 1)))
    messages = three.messages()
    messages[0][0, 0] ^= np.uint64(1)
    found = three.verdicts(messages)
    assert found.inconsistent.all()
    assert not any(odd.any() for odd in found.odd.values())


@pytest.mark.parametrize("name", ["shamir 3, 1", "shamir 4, 1", "shamir 5, 2"])
def test_a_dealer_who_is_off_at_one_server_is_noticed(name):
    """In each word, with a proof made for the joint randomness that these shares give; named where decoding names."""
    circuit, scheme = CIRCUITS["sum, one row"], SCHEMES[name]
    for victim in (0, scheme.servers - 1):
        found = Exchange(circuit, scheme, circuit.witness(np.repeat([[3, -1]], circuit.words, axis=0)), off_at=victim)
        assert all(matching.all() for matching in found.at_the_door())
        verdicts = found.verdicts()
        assert verdicts.inconsistent.all()
        assert not verdicts.accepted.any()
        named = name == "shamir 4, 1"
        assert all(odd.all() == (named and server == victim) for server, odd in verdicts.odd.items())
        assert named or not any(odd.any() for odd in verdicts.odd.values())


# ---------------------------------------------------------------- the statement over the integers


def test_statements_that_hold_modulo_p_alone_cannot_be_made():
    RowCircuit(1, -(1 << 29), 1 << 29, 1 << 58, moments=True)
    for fields, message in (
        ({"columns": 4, "squared_radius": 1 << 61}, "squared_radius: "),
        ({"columns": 1, "squared_radius": 1 << 60}, "squared_radius: "),
        ({"columns": 9, "squared_radius": 1 << 58, "moments": True}, "squared_radius: "),
        ({"columns": 1, "least": -(1 << 31), "high": 1 << 31, "moments": True}, "range: "),
    ):
        with pytest.raises(OverflowRisk, match=message):
            RowCircuit(**{"least": -(1 << 29), "high": 1 << 29, **fields})
    matrix = ((1 << 26, 0), (0, 1))
    with rejects("range", OverflowRisk):
        RowCircuit(2, -31, 31, 1000, moments=True, matrix=matrix)
    with rejects("range", OverflowRisk):
        RowCircuit(1, 0, 1 << 60)
    with rejects("sizes", OverflowRisk):
        CellsCircuit((2, 1 << 60))
    assert CIRCUITS["whitened"].largest == 32 * 7
    assert CIRCUITS["sum, ball"].largest == 512


@pytest.mark.parametrize(
    ("fields", "rejection"),
    [
        ({"columns": 0}, {"argument": "columns", "given": "0"}),
        ({"least": 7}, {"argument": "least, high", "given": "7, 7", "expected": "least < high"}),
        ({"squared_radius": -1}, {"argument": "squared_radius", "given": "-1"}),
        (
            {"matrix": ((1, 0), (0, 1))},
            {"argument": "matrix", "given": "one given without products, no matrix or `moments` expected"},
        ),
        ({"matrix": ((1, 0),), "moments": True}, {"argument": "matrix", "given": "1 rows"}),
        ({"rows": -1}, {"argument": "rows", "given": "-1"}),
    ],
)
def test_circuits_that_make_no_sense_are_refused(fields, rejection):
    with rejects(**rejection):
        RowCircuit(**{"columns": 2, "least": -7, "high": 7, **fields})
    with rejects("sizes: cells", given="0"):
        CellsCircuit((3, 0))
    with rejects("sizes: grids", given="0"):
        CellsCircuit(())


def test_digits_write_a_range_and_nothing_else():
    for span in range(0, 600, 3):
        weights = digit_weights(span)
        sums = {0}
        for weight in weights:
            sums = {value + digit * weight for value in sums for digit in range(4)}
        assert sums == set(range(span + 1))
    for span in (-3, 1, 2):
        with rejects("span", expected="a multiple of 3 that is at least 0"):
            digit_weights(span)
    for bits in range(1, 20):
        top = (1 << bits) - 1
        assert -top - widened_low(-top, top) == bits % 2
        assert 0 - widened_low(0, top) == 2 * (bits % 2)


@pytest.mark.parametrize("bits", range(1, 9))
@pytest.mark.parametrize("least", ["both signs", "from 0"])
def test_every_number_of_the_range_has_a_witness(bits, least):
    top = (1 << bits) - 1
    circuit = RowCircuit(1, -top if least == "both signs" else 0, top)
    z = np.arange(circuit.low, circuit.high + 1).reshape(-1, 1)
    assert np.array_equal(FIELD.lift(circuit.columns_of(circuit.witness(z), 1)), z)
    for outside in (circuit.low - 1, circuit.high + 1):
        with pytest.raises(InputError, match="z: row 0"):
            circuit.witness(np.array([[outside]]))


def test_rows_make_record_and_message_shortest():
    for circuit in CIRCUITS.values():
        if circuit is CIRCUITS["sum, one row"]:
            continue
        costs = {
            rows: other.words + other.wires
            for rows in range(1, 60)
            for other in [dataclasses.replace(circuit, rows=rows)]
        }
        assert circuit.words + circuit.wires == min(costs.values())


@pytest.mark.parametrize(
    ("d", "f", "rows", "wires", "record", "message"),
    [
        (5, 8, 3, 13, 664, 112),
        (10, 11, 5, 16, 1408, 136),
        (10, 12, 5, 18, 1512, 152),
        (20, 16, 8, 26, 3880, 216),
        (50, 8, 9, 30, 12976, 248),
        (100, 16, 16, 59, 49016, 480),
    ],
)
def test_sizes_are_those_of_the_page(d, f, rows, wires, record, message):
    circuit = RowCircuit(d, 1 - (1 << f), (1 << f) - 1, d << 2 * f, moments=True)
    assert (circuit.rows, circuit.wires, 8 * circuit.words, circuit.message_bytes) == (rows, wires, record, message)


def test_the_bound_on_false_reports():
    """Theorem 1 at q = 2^80, N = 5, M = 3: 2^-39.7 and 2^-43.3 for ten thousand reports; S = 4 at (4, 1)."""
    circuit = RowCircuit(10, -2047, 2047, 10 << 22, moments=True)
    scheme = SCHEMES["additive 3"]
    none, some = (soundness_error(circuit, scheme, count) for count in (0, 10**4))
    assert math.log2(none) == pytest.approx(-39.7, abs=0.05)
    assert math.log2(some - none) == pytest.approx(-43.3, abs=0.05)
    assert math.log2(soundness_error(circuit, scheme, 10**6, 1.0)) == pytest.approx(-36.7, abs=0.05)
    assert soundness_error(circuit, scheme, 0, 2.0**140) == 1.0
    four, one = (soundness_error(circuit, ShamirSharing(servers, 1), 10**4, 1.0) for servers in (4, 3))
    assert four == pytest.approx(4 * one, rel=1e-9)
    with rejects("false_reports", given="-1"):
        soundness_error(circuit, scheme, -1)


@pytest.mark.parametrize("word", [P - 1, P - 2, 1])
def test_the_largest_words_do_not_overflow(word, instruction_set):
    """Sums are reduced lazily: with a hundred columns of p - 1 a sum that is reduced too late is wrong."""
    circuit = RowCircuit(100, -3, 3, 900, moments=True)
    twin = reference.Circuit(100, -3, 3, 900, True, circuit.rows)
    joint, record = (np.full((1, count), word, np.uint64) for count in (circuit.joint_words, circuit.words))
    point = QueryPoint(circuit, P - 1, (word, word, word))
    ours = ProofServer(circuit, TWO, COLLECTION, 0).query(point, joint, record)
    pair = [(word, word)] * circuit.wires, [[word] * 100] * 2
    theirs = reference.query(twin, [word] * circuit.words, 1, pair, (P - 1, [word] * 3))
    assert ours[0].tolist() == theirs
    proof = np.empty((1, circuit.words - circuit.witness_words), np.uint64)
    circuit.proofs.prove(record[:, : circuit.witness_words], joint, record[:, : circuit.wires], proof)
    whole = [word] * circuit.witness_words
    assert proof[0].tolist() == reference.prove(twin, whole, pair, [word] * circuit.wires)


def test_keys_and_blinds_are_fresh_for_each_server_and_report():
    for scheme in SCHEMES.values():
        circuit = CIRCUITS["rows, box"]
        shares = Exchange(circuit, scheme, circuit.witness(np.repeat([[1] * 6], 4, axis=0))).shares
        secret = [share.blinds if share.keys is None else share.keys for share in shares]
        assert len({row.tobytes() for block in secret for row in block}) == 4 * scheme.servers


def test_records_add_up_to_the_witness_and_its_proof():
    circuit = CIRCUITS["sum, ball"]
    witnesses = circuit.witness(points_of(circuit, 3))
    for scheme in SCHEMES.values():
        exchange = Exchange(circuit, scheme, witnesses, seed=5)
        whole = record_of(exchange)
        assert np.array_equal(whole[:, : circuit.witness_words], witnesses)
        again = record_of(Exchange(circuit, scheme, witnesses, ids=exchange.ids, seed=5))
        assert np.array_equal(whole, again)
        blinds = whole[:, circuit.witness_words :][:, : circuit.wires]
        assert len(np.unique(blinds)) == blinds.size

"""Lies and changes of `bench.system`: each is what it says, and none of many is accepted at full size."""

import dataclasses

import numpy as np
import pytest

from bench.system.changed_reports import CHANGES, Reports, try_changes, try_lies
from bench.system.false_reports import (
    BASE,
    LIES,
    full_size,
    invisible_products,
    lies_about,
    missed_by_all,
    missing_in_zero,
    points,
    products_of,
    stated,
)
from dpmpc.linear.proving import ProofServer, QueryPoint, decide, joint_randomness
from dpmpc.linear.proving.circuit import RowCircuit
from support.proof_inputs import CIRCUITS, FIELD, SCHEMES, P
from support.rejections import rejects

BALL, BOX = CIRCUITS["sum, ball"], CIRCUITS["sum, box"]
MANY = 1_000_000


@pytest.fixture
def draw():
    return np.random.default_rng(11)


@pytest.mark.parametrize("circuit", [BALL, BOX, full_size()], ids=["ball", "box", "full size"])
def test_a_statement_about_points_of_the_proved_set_is_the_honest_witness(circuit, draw):
    z = points(circuit, 50, draw)
    assert np.array_equal(stated(circuit, z), circuit.witness(z))


def broken(circuit, witness):
    """Which of (D), (P) and (T) one witness violates."""
    z = FIELD.lift(circuit.columns_of(witness[None], 1))
    right = products_of(z) if (np.abs(z) < 1 << 31).all() else None
    return {
        *({"D"} if (witness[: circuit.digits] >= BASE).any() else ()),
        *({"P"} if right is None or not np.array_equal(right[0], witness[circuit.digits :]) else ()),
        *({"T"} if missing_in_zero(circuit, witness[None]).any() else ()),
    }


@pytest.mark.parametrize(
    ("name", "conditions"),
    [
        ("out of range", "D"),
        ("wrong products", "P"),
        ("wrong squares", "P"),
        ("wrap-around", "D"),
        ("beyond the ball", "T"),
        ("beyond the ball, by a digit", "D"),
    ],
)
def test_a_lie_breaks_one_condition_alone(name, conditions, draw):
    for witness in LIES[name].make(BALL, points(BALL, 20, draw), draw):
        assert broken(BALL, witness) == set(conditions)


@pytest.mark.parametrize("name", LIES)
def test_every_lie_breaks_some_condition(name, draw):
    circuit = full_size()
    for z in (points(circuit, 20, draw), np.zeros((20, 10), np.int64)):
        assert all(broken(circuit, witness) for witness in LIES[name].make(circuit, z, draw))


def test_lies_about_what_is_not_there_are_refused(draw):
    assert set(LIES) - set(lies_about(BOX)) == {"beyond the ball", "beyond the ball, by a digit"}
    with rejects("circuit", given="one whose ball holds a corner of its box"):
        LIES["beyond the ball"].make(RowCircuit(2, -3, 3, 100, moments=True), np.zeros((1, 2), np.int64), draw)
    for circuit in (CIRCUITS["rows, ball"], CIRCUITS["whitened"]):
        with rejects("circuit", expected="one with the products of two columns or more"):
            lies_about(circuit)


def test_products_altered_once_v_is_known_pass_unless_their_hash_is_compared(draw):
    """Why the door compares a server's own hash: 10 of 10 are refused there, and would be accepted otherwise."""
    reports = Reports.of(BALL, SCHEMES["additive 3"], stated(BALL, points(BALL, 10, draw)))
    words = reports.records[-1].copy()
    products = np.s_[:, BALL.digits : BALL.witness_words]
    words[products] = FIELD.add(np.ascontiguousarray(words[products]), invisible_products(BALL, reports.joint))
    assert reports.with_words(words).accepted().all()
    last = dataclasses.replace(reports.shares[-1], words=words)
    altered = dataclasses.replace(reports, shares=[*reports.shares[:-1], last])
    assert not altered.at_the_door().any()
    assert reports.at_the_door().all()
    fitting = reports.with_hashes_that_fit(words)
    assert fitting.at_the_door().all()
    assert not fitting.accepted().any()


def test_a_product_prepared_for_many_seeds_needs_seeds_that_are_cut(draw):
    """Why all 256 bits of a seed count: one W for nine seeds passes with each of them, and with no other."""
    circuit = RowCircuit(6, -7, 7, 6 * 64, moments=True)
    prepared = np.zeros((9, 32), np.uint8)
    prepared[:, 0] = np.arange(9)
    whole = np.frombuffer(draw.bytes(9 * 32), np.uint8).reshape(9, 32).copy()
    whole[:, 0] = prepared[:, 0]
    witness = circuit.witness(np.array([[1, -1, 0, 2, 0, 3]]))
    off = missed_by_all(circuit, joint_randomness(circuit, prepared))
    witness[:, circuit.digits :] = FIELD.add(np.ascontiguousarray(witness[:, circuit.digits :]), off[None])
    witnesses = np.repeat(witness, 9, axis=0)
    for seeds, accepted in ((prepared, True), (whole, False)):
        joint = joint_randomness(circuit, seeds)
        proof = np.empty((9, circuit.words - circuit.witness_words), np.uint64)
        circuit.proofs.prove(witnesses, joint, draw.integers(0, P, (9, circuit.wires), np.uint64), proof)
        point, scheme = QueryPoint.of_toss(circuit, draw.bytes(32)), SCHEMES["additive 2"]
        records = (np.concatenate([witnesses, proof], axis=1), np.zeros((9, circuit.words), np.uint64))
        messages = {
            number: ProofServer(circuit, scheme, bytes(32), number).query(point, joint, record)
            for number, record in enumerate(records)
        }
        assert (decide(circuit, scheme, point, joint, messages).accepted == accepted).all()


def none_accepted(tried, honest, kinds):
    """All honest reports are accepted and no others; return how many others there were."""
    first, *others = tried
    assert (first.tried, first.accepted) == (honest, honest)
    assert [one.kind for one in others] == list(kinds)
    assert not sum(one.accepted for one in others)
    return sum(one.tried for one in others)


@pytest.mark.parametrize(
    "count", [900, pytest.param(MANY, marks=pytest.mark.long("a million false statements at full size"))]
)
def test_false_statements_at_full_size(count):
    """With a chance of 2^-36.7 for all of them, if Theorem 1 holds."""
    each = -(-count // len(LIES))
    assert none_accepted(try_lies(full_size(), SCHEMES["additive 3"], each, 1), min(each, 10_000), LIES) >= count


@pytest.mark.parametrize(
    "count", [1000, pytest.param(MANY, marks=pytest.mark.long("a million changed reports at full size"))]
)
def test_changed_reports_at_full_size(count):
    each = -(-count // len(CHANGES))
    assert none_accepted(try_changes(full_size(), SCHEMES["additive 3"], each, 2), each, CHANGES) >= count

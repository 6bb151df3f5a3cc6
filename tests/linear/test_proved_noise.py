"""dpmpc/linear/proving/noise.py: noise that servers deal lies in its range at all servers, or is refused."""

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpmpc.base.errors import InputError, OverflowRisk
from dpmpc.linear.proving import ProofServer, Prover, QueryPoint, decide, joint_randomness
from dpmpc.linear.proving.noise import MOST_COLUMNS, ProvedNoise, dealing_digest
from dpmpc.linear.sharing import ShamirSharing
from support.proof_inputs import COLLECTION, FIELD, P
from support.rejections import rejects

SHAMIR = {"3, 1": ShamirSharing(3, 1), "4, 1": ShamirSharing(4, 1), "5, 2": ShamirSharing(5, 2)}


def dealing(statement, scheme, witnesses, dealer=0, digest=None):
    """Deal witnesses; return each server's shares and verdict at one point."""
    digest = dealing_digest(COLLECTION, dealer) if digest is None else digest
    shares = Prover(statement.circuit, scheme, digest).reports(witnesses, statement.ids)
    point = QueryPoint.of_toss(statement.circuit, bytes(range(32)))
    servers = [
        ProofServer(statement.circuit, scheme, dealing_digest(COLLECTION, dealer), number)
        for number in range(scheme.servers)
    ]
    joint = joint_randomness(statement.circuit, servers[0].seeds(shares[0]))
    messages = {
        server.server: server.query(point, joint, share.records(statement.circuit))
        for server, share in zip(servers, shares, strict=True)
    }
    door = np.array([server.own_parts_match(share) for server, share in zip(servers, shares, strict=True)])
    return shares, door, decide(statement.circuit, scheme, point, joint, messages)


@pytest.mark.parametrize("scheme", SHAMIR.values(), ids=SHAMIR)
@pytest.mark.parametrize("cells", [1, 5, MOST_COLUMNS, MOST_COLUMNS + 1, 3 * MOST_COLUMNS])
def test_noise_in_its_range_is_accepted_and_shared(scheme, cells):
    statement = ProvedNoise(cells, 3 * 10**6)
    noise = np.random.default_rng(cells).integers(-3 * 10**6, 3 * 10**6, cells, endpoint=True)
    noise[0], noise[-1] = -3 * 10**6, 3 * 10**6 if cells > 1 else -3 * 10**6
    shares, door, verdicts = dealing(statement, scheme, statement.witnesses(noise))
    assert door.all()
    assert verdicts.accepted.all()
    assert len(verdicts.accepted) == statement.blocks
    outputs = [statement.outputs(share.records(statement.circuit)) for share in shares]
    assert np.array_equal(FIELD.lift(scheme.combine(outputs)), noise)


@given(st.integers(1, 400), st.integers(1, 2**50))
@settings(max_examples=60, deadline=None)
def test_digits_write_the_range_exactly(cells, third):
    statement = ProvedNoise(cells, 3 * third)
    assert (statement.circuit.low, statement.circuit.high) == (-3 * third, 3 * third)
    assert (statement.blocks - 1) * statement.columns < cells <= statement.blocks * statement.columns
    assert len(set(map(bytes, statement.ids))) == statement.blocks
    edges = np.where(np.arange(cells) % 2, -3 * third, 3 * third)
    witnesses = statement.witnesses(edges)
    assert np.array_equal(FIELD.lift(statement.outputs(witnesses)), edges)


@pytest.mark.parametrize("cell", [0, MOST_COLUMNS - 1, MOST_COLUMNS])
@pytest.mark.parametrize("digit", [4, P - 1, 1 << 40])
def test_noise_beyond_its_range_is_refused(cell, digit):
    """Whatever the dealer, who makes the proof as an honest one would."""
    statement, scheme = ProvedNoise(MOST_COLUMNS + 2, 300), SHAMIR["4, 1"]
    witnesses = statement.witnesses(np.zeros(statement.cells, np.int64))
    block, column = divmod(cell, statement.columns)
    witnesses[block, column * len(statement.circuit.weights)] = digit
    verdicts = dealing(statement, scheme, witnesses)[2]
    assert not verdicts.inconsistent.any()
    assert verdicts.accepted.tolist() == [block != at for at in range(statement.blocks)]


def test_nobody_can_deal_again_what_another_server_has_dealt():
    statement, scheme = ProvedNoise(5, 30), SHAMIR["3, 1"]
    witnesses = statement.witnesses(np.arange(5))
    assert not dealing(statement, scheme, witnesses, dealer=1, digest=dealing_digest(COLLECTION, 0))[1].any()
    assert not dealing(statement, scheme, witnesses, dealer=1, digest=dealing_digest(bytes(32), 1))[1].any()
    framed = b"".join(len(part).to_bytes(8, "little") + part for part in (COLLECTION, b"\1\0\0\0"))
    assert dealing_digest(COLLECTION, 1) == hashlib.sha256(b"dpmpc v1 dealt noise\0" + framed).digest()
    digests = {dealing_digest(collection, dealer) for collection in (COLLECTION, bytes(32)) for dealer in range(300)}
    assert len(digests) == 600


@pytest.mark.parametrize(
    ("arguments", "error", "rejection"),
    [
        ((0, 3), InputError, {"argument": "cells", "given": "0"}),
        ((1, 0), InputError, {"argument": "bound", "given": "0"}),
        (
            (1, 4),
            InputError,
            {"argument": "bound", "given": "4 given, a multiple of 3 expected, which digits write exactly"},
        ),
        ((1, 3 << 58), OverflowRisk, {"argument": "range", "given": "numbers up to 864691128455135232"}),
    ],
)
def test_statements_that_make_no_sense_are_refused(arguments, error, rejection):
    with rejects(kind=error, **rejection):
        ProvedNoise(*arguments)


def test_noise_of_another_form_or_range_has_no_witness():
    statement = ProvedNoise(3, 30)
    with rejects("noise", given="int64 of shape (2,)"):
        statement.witnesses(np.zeros(2, np.int64))
    with rejects("noise", given="float64 of shape (3,)"):
        statement.witnesses(np.zeros(3))
    with rejects("z", given="row 0 is [0, 31, 0], numbers from -30 to 30 expected"):
        statement.witnesses(np.array([0, 31, 0]))

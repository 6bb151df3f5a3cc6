"""Products of a closed sketch are right, or nothing is opened: servers that lie in every step of the multiplication."""

import numpy as np
import pytest

from dpmpc.base.errors import InconsistentShares, ProtocolFailure
from dpmpc.base.randomness import Stream
from dpmpc.parties import networked
from dpmpc.release.client import share_batch
from support.closed_sketches import UNOPENED_MOMENT, UNOPENED_RIDGE, item_task, products_task

CLIENTS, ITEMS, ROWS = 400, 5, 12
LYING = "network_programs.lying_products"
P = 2**61 - 1


def moment_run(tmp_path, deed, liars, servers=3):
    task = item_task(CLIENTS, ITEMS, rows=ROWS, servers=servers)
    items = np.random.default_rng(2).integers(0, ITEMS, (CLIENTS, 1)).astype(float)
    shares = share_batch(task, items, stream=Stream.from_seed(1))
    arguments = {"program": UNOPENED_MOMENT, "deed": deed, "liars": liars, "marks": str(tmp_path)}
    return networked.run_parties(LYING, task, shares, arguments=arguments)


def times(matrix, vector):
    """A matrix times a vector modulo p, of Python integers."""
    return matrix.astype(object) @ vector.astype(object) % P


def opened_by(tmp_path, liars):
    """Honest servers that have shown their share of the product."""
    return {mark.name for mark in tmp_path.iterdir()} - {f"server-{liar}" for liar in liars}


@pytest.mark.parametrize(
    ("deed", "servers", "liars"),
    [
        ("alter the share", 3, [1]),
        ("multiply another share", 3, [1]),
        ("multiply another mask", 3, [2]),
        ("deal another product", 3, [0]),
        ("deal another product", 5, [1, 3]),
        ("deal no shares", 4, [1]),
        ("open another mask", 3, [1]),
        ("open another difference", 3, [2]),
        ("tell one server another mask", 3, [2]),
    ],
)
def test_a_server_that_lies_ends_the_run_and_nothing_is_opened(tmp_path, deed, servers, liars):
    with pytest.raises(InconsistentShares):
        moment_run(tmp_path, deed, liars, servers)
    assert not opened_by(tmp_path, liars)


@pytest.mark.parametrize("deed", ["deal one server another mask", "deal no shares", "open another mask"])
def test_of_five_servers_none_is_named_for_a_share_that_it_was_dealt(tmp_path, deed):
    """A liar that deals server 0 what does not fit would otherwise have it blamed; so nobody is named at all."""
    with pytest.raises(InconsistentShares, match="nobody is named"):
        moment_run(tmp_path, deed, [4 if deed == "deal no shares" else 1], servers=5)
    assert not opened_by(tmp_path, [1, 4])


@pytest.mark.parametrize("deed", ["deal too few", "deal too many"])
def test_a_share_of_another_length_has_nobody_named(tmp_path, deed):
    """MPyC breaks off at the server that was dealt it, which is not to blame."""
    with pytest.raises(ProtocolFailure) as failure:
        moment_run(tmp_path, deed, [1], servers=3)
    assert failure.value.party is None
    assert not opened_by(tmp_path, [1])


@pytest.mark.parametrize("servers", [3, 4])
def test_honest_servers_open_the_product(tmp_path, servers):
    moment_run(tmp_path, "nothing", [], servers)
    assert opened_by(tmp_path, []) == {f"server-{server}" for server in range(servers)}


@pytest.mark.parametrize("deed", ["multiply another share", "deal another product"])
def test_one_wrong_product_of_many_is_noticed(tmp_path, deed):
    task = products_task(["a", "b", "y"], CLIENTS, rows=20)
    rows = np.random.default_rng(4).uniform(-1, 1, (CLIENTS, 3))
    shares = share_batch(task, rows, stream=Stream.from_seed(9))
    arguments = {"program": UNOPENED_RIDGE, "deed": deed, "liars": [1], "marks": str(tmp_path)}
    arguments |= {"target": "y", "model": {"alpha": 1.0}}
    with pytest.raises(InconsistentShares):
        networked.run_parties(LYING, task, shares, arguments=arguments)
    assert not opened_by(tmp_path, [1])


def test_the_difference_is_that_of_the_errors_alone():
    """Steps 2 to 5 in the clear: a u^T E v + e v whatever A and r are, zero without errors, and s hides A."""
    rng = np.random.default_rng(3)

    def draw(*shape):
        return rng.integers(0, P, shape, dtype=np.uint64)

    def product(left, right):
        return np.array([times(left, column) for column in right.T]).T

    for E, e in ((np.zeros((3, 3), np.uint64), np.zeros((1, 3), np.uint64)), (draw(3, 3), draw(1, 3))):
        u, v, a = draw(3), draw(3), int(draw(1)[0])
        expected = (a * int(times(times(E.T.copy(), u)[None], v)[0]) + int(times(e, v)[0])) % P
        for _ in range(3):
            A, r = draw(7, 3), draw(7)
            C = (product(A.T, A).astype(object) + E) % P
            c = (product(r[None], A).astype(object) + e) % P
            s = (a * times(A, u).astype(object) + r) % P
            found = a * int(u.astype(object) @ C @ v.astype(object)) + int((c @ v.astype(object))[0])
            assert (found - int(s @ times(A, v).astype(object))) % P == expected
        assert (expected == 0) == (not E.any())

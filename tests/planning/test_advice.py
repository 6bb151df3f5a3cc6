"""The advice: from which batch on a release is of use, and which way to release."""

import dataclasses

import numpy as np
import pytest

from dpmpc.bounds import Schema
from dpmpc.planning import ReleaseSpec, design
from dpmpc.planning.advice import advise, break_even, error_of, smallest_batch, ways
from dpmpc.planning.prediction import LowRank, Regression, predict
from dpmpc.planning.scenario import Population, Scenario

NAMES = Schema.unit([*"abcdef"])


def advice(task, aim=None, population=None):
    aim = aim or Regression()
    return advise(Scenario.of(task, population), aim, ways(task, aim, population))


@pytest.mark.parametrize("aim", [Regression(), LowRank(2)])
def test_break_even_is_where_the_release_starts_to_be_useful(aim):
    task = design(ReleaseSpec.of(NAMES, 500_000, 1.0, 1e-7, sketch="countsketch", rows=60))
    smallest = break_even(task, aim)
    below, above = (
        predict(dataclasses.replace(Scenario.of(task), clients=clients), aim) for clients in (smallest - 1, smallest)
    )
    assert below.sketch >= below.trivial > 0
    assert above.sketch < above.trivial
    assert break_even(task, aim, largest=10) is None
    assert break_even(design(ReleaseSpec.of(NAMES, 500_000, 1.0, 1e-7, sketch="sum")), aim) < smallest


def test_no_batch_is_useful_beyond_what_delta_allows():
    setting = Scenario(6, 1000, 1.0, 1e-7)
    assert setting.largest_batch == 9_999_999
    assert smallest_batch(setting, lambda at: at.clients >= 9_999_999) == 9_999_999
    assert smallest_batch(setting, lambda at: at.clients >= 10_000_000) is None
    assert smallest_batch(dataclasses.replace(setting, delta=0), lambda at: at.clients >= 10**12) == 10**12


@pytest.mark.parametrize("aim", [Regression(), LowRank(2)])
@pytest.mark.parametrize("release", ["sum", "sketch"])
@pytest.mark.parametrize("rival", ["trivial", "local"])
def test_a_release_is_useful_from_the_smallest_batch_on(aim, release, rival):
    setting = Scenario(6, 1000, 1.0, 1e-9, population=Population(explained=0.8))

    def useful(at):
        return error_of(release, at, aim) < getattr(aim, rival)(at)

    smallest = smallest_batch(setting, useful)
    for clients in np.geomspace(12, setting.largest_batch, 60).astype(int):
        assert useful(dataclasses.replace(setting, clients=int(clients))) == (clients >= smallest)


def test_ways_hold_the_batches_at_which_they_beat_the_others():
    task = design(ReleaseSpec.of(NAMES, 500_000, 1.0, 1e-7))
    setting, aim = Scenario.of(task), Regression()
    options = ways(task, aim)
    assert [(way.release, way.noise_by) for way in options] == [
        (release, who) for release in ("sum", "sketch") for who in ("clients", "servers")
    ]
    for way in options:
        for clients, beats in ((way.beats_local_from - 1, False), (way.beats_local_from, True)):
            at = dataclasses.replace(setting, clients=clients, noise_by=way.noise_by)
            assert (error_of(way.release, at, aim) < aim.local(at)) == beats
    by_clients, by_servers = options[2:]
    assert by_clients.expected < by_servers.expected
    assert by_clients.beats_trivial_from < by_servers.beats_trivial_from


def test_a_copy_for_each_row_is_what_a_client_of_a_sketch_sends():
    task = design(ReleaseSpec.of(NAMES, 500_000, 1.0, 1e-7, sketch="osnap", rows=60, sparsity=4, copies="each"))
    assert [way.client_bytes for way in ways(task, Regression())] == [8 * 27, 8 * 27, 8 * 4 * 6, 8 * 6]


def test_the_sum_is_advised_where_clients_can_send_it():
    advised = advice(design(ReleaseSpec.of(NAMES, 1_000_000, 1.0, 1e-7)))
    assert advised.way.release == "sum"
    assert "216 bytes" in advised.why


def test_noise_by_servers_is_advised_where_it_costs_little():
    many, few = (advice(design(ReleaseSpec.of(NAMES, clients, 1.0, 1e-7))) for clients in (1_000_000, 2_000))
    assert (many.way.noise_by, few.way.noise_by) == ("servers", "clients")
    assert "needs that clients add theirs" in many.why
    assert "would hold whatever clients do" in few.why


def test_the_sketch_is_advised_where_a_sum_is_too_much_to_send():
    wide = Schema.unit([f"x{column}" for column in range(130)])
    task = design(ReleaseSpec.of(wide, 40_000_000, 4.0, 1e-9, sketch="sum", noise_by="servers"))
    advised = advice(task, population=Population(explained=0.9))
    assert advised.way.release == "sketch"
    assert "a sum of second moments" in advised.why


def test_nothing_is_advised_where_nothing_beats_the_trivial_predictor():
    advised = advice(design(ReleaseSpec.of(NAMES, 300, 1.0, 1e-7)))
    assert advised.way is None
    assert "beats the trivial predictor from" in advised.why
    hopeless = advice(design(ReleaseSpec.of(NAMES, 300, 0.001, 1e-3)))
    assert "with no batch that this delta allows" in hopeless.why


def test_only_clients_add_noise_to_shamir_shares():
    task = design(ReleaseSpec.of(NAMES, 1_000_000, 1.0, 1e-7, sharing="shamir"))
    assert {way.noise_by for way in ways(task, Regression())} == {"clients"}
    assert advice(task).way.noise_by == "clients"


def test_a_sketch_that_a_coalition_makes_impossible_is_not_advised():
    task = design(ReleaseSpec.of(NAMES, 1_000_000, 1.0, 1e-7, corrupt_clients=200_000))
    impossible = next(way for way in ways(task, LowRank(2)) if (way.release, way.noise_by) == ("sketch", "clients"))
    assert impossible.expected == float("inf")
    assert (
        "is impossible" in advice(design(ReleaseSpec.of(NAMES, 2_000, 1.0, 1e-7, corrupt_clients=300)), LowRank(2)).why
    )


def test_columns_that_no_client_can_send_are_advised_against():
    found = advice(
        design(ReleaseSpec.of(Schema.unit([f"x{column}" for column in range(20_000)]), 1_000_000, 1.0, 1e-7))
    )
    assert found.way is None
    assert "nothing beats doing without" in found.why

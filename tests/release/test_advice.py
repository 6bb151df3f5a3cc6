"""The advice: from which batch on a release is of use, and which release to make."""

import dataclasses

import numpy as np
import pytest

from dpmpc.data import Schema
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release.planning import design
from dpmpc.release.planning.advice import ReleaseAdvice, verdict
from dpmpc.release.planning.prediction import (
    LowRank,
    Population,
    Regression,
    Scenario,
    best_rows,
    error_of,
    smallest_batch,
)

NAMES = Schema.unit([*"abcdef"])


def advice(task, metric=None, population=None):
    return ReleaseAdvice(task, metric or Regression(), population or Population())


@pytest.mark.parametrize("metric", [Regression(), LowRank(2)])
def test_break_even_is_where_the_release_starts_to_be_useful(metric):
    task = design(ReleaseSpec.of(NAMES, 500_000, 1.0, 1e-7, sketch="countsketch", rows=60))
    smallest = ReleaseAdvice(task, metric).useful_from
    below, above = (dataclasses.replace(Scenario.of(task), clients=clients) for clients in (smallest - 1, smallest))
    assert metric.sketch(below, best_rows(below, metric)) >= metric.trivial(below) > 0
    assert metric.sketch(above, best_rows(above, metric)) < metric.trivial(above)
    summed = design(ReleaseSpec.of(NAMES, 500_000, 1.0, 1e-7, sketch="sum"))
    assert ReleaseAdvice(summed, metric).useful_from < smallest
    few = design(ReleaseSpec.of(NAMES, 500, 1e-3, 1e-3, sketch="countsketch", rows=60))
    assert ReleaseAdvice(few, metric).useful_from is None, "no batch below 1/delta is"


def test_no_batch_is_useful_beyond_what_delta_allows():
    scenario = Scenario(6, 1000, 1.0, 1e-7)
    assert scenario.largest_batch == 9_999_999
    assert smallest_batch(scenario, lambda at: at.clients >= 9_999_999) == 9_999_999
    assert smallest_batch(scenario, lambda at: at.clients >= 10_000_000) is None
    assert smallest_batch(dataclasses.replace(scenario, delta=0), lambda at: at.clients >= 10**12) == 10**12


@pytest.mark.parametrize("metric", [Regression(), LowRank(2)])
@pytest.mark.parametrize("release", ["sum", "sketch"])
@pytest.mark.parametrize("rival", ["trivial", "local"])
def test_a_release_is_useful_from_the_smallest_batch_on(metric, release, rival):
    scenario = Scenario(6, 1000, 1.0, 1e-9, population=Population(explained=0.8))

    def useful(at):
        return error_of(release, at, metric) < getattr(metric, rival)(at)

    smallest = smallest_batch(scenario, useful)
    for clients in np.geomspace(12, scenario.largest_batch, 60).astype(int):
        assert useful(dataclasses.replace(scenario, clients=int(clients))) == (clients >= smallest)


def test_ways_hold_the_batches_at_which_they_beat_the_others():
    task = design(ReleaseSpec.of(NAMES, 500_000, 1.0, 1e-7))
    scenario, metric = Scenario.of(task), Regression()
    options = ReleaseAdvice(task, metric).options
    assert [(option.release, option.noise_by) for option in options] == [
        (release, who) for release in ("sum", "sketch") for who in ("clients", "servers")
    ]
    for option in options:
        for clients, beats in ((option.beats_local_from - 1, False), (option.beats_local_from, True)):
            at = dataclasses.replace(scenario, clients=clients, noise_by=option.noise_by)
            assert (error_of(option.release, at, metric) < metric.local(at)) == beats
    by_clients, by_servers = options[2:]
    assert by_clients.expected < by_servers.expected
    assert by_clients.beats_trivial_from < by_servers.beats_trivial_from


def test_a_copy_for_each_row_is_what_a_client_of_a_sketch_sends():
    task = design(ReleaseSpec.of(NAMES, 500_000, 1.0, 1e-7, sketch="osnap", rows=60, sparsity=4, copies="each"))
    assert [option.client_bytes for option in ReleaseAdvice(task, Regression()).options] == [
        8 * 27,
        8 * 27,
        8 * 4 * 6,
        8 * 6,
    ]


def test_the_sum_is_advised_where_clients_can_send_it():
    advised = advice(design(ReleaseSpec.of(NAMES, 1_000_000, 1.0, 1e-7)))
    assert advised.recommended.release == "sum"
    assert "216 bytes" in advised.why


def test_noise_by_servers_is_advised_where_it_costs_little():
    many, few = (advice(design(ReleaseSpec.of(NAMES, clients, 1.0, 1e-7))) for clients in (1_000_000, 2_000))
    assert (many.recommended.noise_by, few.recommended.noise_by) == ("servers", "clients")
    assert "needs clients that add theirs" in many.why
    assert "would hold whatever clients do" in few.why


def test_the_sketch_is_advised_where_a_sum_is_too_much_to_send():
    wide = Schema.unit([f"x{column}" for column in range(130)])
    task = design(ReleaseSpec.of(wide, 40_000_000, 4.0, 1e-9, sketch="sum", noise_by="servers"))
    advised = advice(task, population=Population(explained=0.9))
    assert advised.recommended.release == "sketch"
    assert "a sum of second moments" in advised.why


def test_nothing_is_advised_where_nothing_beats_the_trivial_predictor():
    advised = advice(design(ReleaseSpec.of(NAMES, 300, 1.0, 1e-7)))
    assert advised.recommended is None
    assert "beats the trivial predictor from" in advised.why
    hopeless = advice(design(ReleaseSpec.of(NAMES, 300, 0.001, 1e-3)))
    assert "with no batch that this delta allows" in hopeless.why


def test_only_clients_add_noise_to_shamir_shares():
    task = design(ReleaseSpec.of(NAMES, 1_000_000, 1.0, 1e-7, sharing="shamir"))
    assert {option.noise_by for option in ReleaseAdvice(task, Regression()).options} == {"clients"}
    assert advice(task).recommended.noise_by == "clients"


def test_a_sketch_that_a_coalition_makes_impossible_is_not_advised():
    task = design(ReleaseSpec.of(NAMES, 1_000_000, 1.0, 1e-7, corrupt_clients=200_000))
    impossible = next(
        option
        for option in ReleaseAdvice(task, LowRank(2)).options
        if (option.release, option.noise_by) == ("sketch", "clients")
    )
    assert impossible.expected == float("inf")
    assert (
        "is impossible" in advice(design(ReleaseSpec.of(NAMES, 2_000, 1.0, 1e-7, corrupt_clients=300)), LowRank(2)).why
    )


def test_columns_that_no_client_can_send_are_advised_against():
    found = advice(
        design(ReleaseSpec.of(Schema.unit([f"x{column}" for column in range(20_000)]), 1_000_000, 1.0, 1e-7))
    )
    assert found.recommended is None
    assert "nothing beats doing without" in found.why


@pytest.mark.parametrize(
    ("columns", "clients", "useful", "words"),
    [
        ("aby", 20, False, "it beats the trivial predictor from 449 reports on"),
        ("aby", 2000, True, "each mean has noise with a standard deviation of 0.73 % of its column's range"),
        ("y", 10, False, "whoever guesses within the bounds is off by 29 %"),
        ("y", 1000, True, "0.73 %"),
    ],
)
def test_a_design_says_whether_it_is_worth_anything(columns, clients, useful, words):
    task = design(ReleaseSpec.of(Schema.unit(list(columns)), clients, 1.0, 1e-6, noise_by="servers"))
    found, why = verdict(task)
    assert found == useful, why
    assert words in why

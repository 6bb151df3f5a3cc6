"""Every attack of the registry, against the servers' own door, verification and opening: what it says comes of it."""

import dataclasses
import shutil

import pytest

from dpmpc.collect.terms.certificate import DIFFERENT_LISTS, FALSE_PROOF
from support.hostile.attacks import ATTACKS
from support.hostile.stage import (
    AT_THE_DOOR,
    CLIENT,
    CLIENTS,
    COLLECTED,
    ENDS,
    LEFT_OUT,
    LOSES,
    ONCE,
    SPOILS,
    Stage,
    played,
    stage_in,
)
from support.proved_collections import converse, released, without_noise
from support.release_processes import COUNT, copied_or_linked


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    root = tmp_path_factory.mktemp("attacks")
    return {about: stage_in(root / about, about) for about in COLLECTED}


@pytest.fixture
def trials(originals, tmp_path):
    """Return a function that copies the trial of what is collected."""

    def copy(about):
        shutil.copytree(originals[about].root, tmp_path / about, copy_function=copied_or_linked)
        return dataclasses.replace(originals[about], root=tmp_path / about)

    return copy


SHORT = {"races a client", "other verdicts", "speaks last for a client"}
alone = pytest.mark.long(
    "each attack alone; those of clients are played together in the ordinary suite, with three more"
)


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in SHORT else alone) for name in ATTACKS])
def test_an_attack_ends_as_it_is_said_to(trials, name):
    attack = ATTACKS[name]
    seen = played(attack, trials(attack.about))
    assert seen.outcome == attack.outcome, seen
    assert attack.cause in seen.cause
    if attack.outcome in (AT_THE_DOOR, LEFT_OUT, ONCE, ENDS):
        assert seen.released == seen.honest == COUNT
    if attack.outcome == LOSES:
        assert seen.released == seen.honest - 1


class Together(Stage):
    """A stage whose release waits until all attacks have uploaded."""

    def release(self, **options):
        return []


@pytest.mark.parametrize("about", COLLECTED)
def test_all_clients_attack_at_once(trials, about):
    trial = trials(about)
    stage = Together(trial)
    refusals, left_out = 0, {DIFFERENT_LISTS: 0, FALSE_PROOF: 0}
    for name, attack in ATTACKS.items():
        if attack.by in (CLIENT, CLIENTS) and attack.about == about and name != "late":
            attack.play(stage)
            assert attack.outcome != AT_THE_DOOR or len(stage.refusals) > refusals, name
            refusals = len(stage.refusals)
            if attack.outcome == LEFT_OUT:
                count, _, cause = attack.cause.partition(" ")
                left_out[cause] += int(count)
    with without_noise():
        results = converse(trial)
    released(trial, stage.rows, results, {cause: count for cause, count in left_out.items() if count})


def test_the_registry_has_every_kind_and_says_what_works():
    """An attack that works is one that the page on proved reports names."""
    assert {attack.outcome for attack in ATTACKS.values()} == {AT_THE_DOOR, LEFT_OUT, ONCE, ENDS, LOSES, SPOILS}
    assert [name for name, attack in ATTACKS.items() if attack.outcome == SPOILS] == ["speaks last for a client"]
    assert all(attack.prevented == (attack.outcome != SPOILS) for attack in ATTACKS.values())

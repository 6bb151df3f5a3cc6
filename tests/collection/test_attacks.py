"""Every attack of the registry, against the servers' own door, verification and opening: what it says comes of it."""

import dataclasses
import shutil

import pytest

from support.hostile.attacks import ATTACKS
from support.hostile.stage import AT_THE_DOOR, ENDS, LEFT_OUT, LOSES, ONCE, SPOILS, played, stage_in
from support.release_processes import COUNT, copied_or_linked


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return stage_in(tmp_path_factory.mktemp("attacks") / "trial")


@pytest.fixture
def deployment(original, tmp_path):
    shutil.copytree(original.root, tmp_path / "trial", copy_function=copied_or_linked)
    return dataclasses.replace(original, root=tmp_path / "trial")


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_ends_as_it_is_said_to(deployment, name):
    attack = ATTACKS[name]
    seen = played(attack, deployment)
    assert seen.outcome == attack.outcome, seen
    assert attack.cause in seen.cause
    if attack.outcome in (AT_THE_DOOR, LEFT_OUT, ONCE, ENDS):
        assert seen.honest == COUNT


def test_the_registry_has_every_kind_and_says_what_works():
    """An attack that works is one that the page on proved reports names."""
    assert {attack.outcome for attack in ATTACKS.values()} == {AT_THE_DOOR, LEFT_OUT, ONCE, ENDS, LOSES, SPOILS}
    assert [name for name, attack in ATTACKS.items() if attack.outcome == SPOILS] == ["speaks last for a client"]
    assert all(attack.prevented == (attack.outcome != SPOILS) for attack in ATTACKS.values())

"""Importing dpmpc and importing MPyC do not disturb each other, in either order; in a party's process they are one."""

import json

import pytest

from dpmpc.parties.network.programs import Agreement, here
from support.mpyc_launcher import MPYC_PROGRAMS, by_launcher

PARTS = (
    "dpmpc.parties.network.party",
    "dpmpc.parties.mpyc,dpmpc.parties.networked,dpmpc.collect.opening.release_protocol",
    "dpmpc,dpmpc.app.cli.main,dpmpc.app.cli.demo,dpmpc.protocols.coinpress",
)


@pytest.mark.parametrize("order", ["before", "after"])
@pytest.mark.parametrize("modules", PARTS)
def test_a_program_of_mpyc_has_three_parties_whatever_is_imported_first(tmp_path, modules, order):
    found = tmp_path / "found"
    done = by_launcher(MPYC_PROGRAMS / "orders.py", modules, order, found, "--no-log", "-W2")
    assert done.returncode == 0, done.stderr
    parties = sorted((json.loads(line) for line in found.read_text().splitlines()), key=lambda line: line["party"])
    assert parties == [{"party": party, "parties": 3, "total": 6, "left": []} for party in range(3)]


@pytest.mark.usefixtures("new_interpreters")
def test_mpc_is_the_runtime_of_the_party_in_a_program_of_ours():
    outcomes = here(Agreement("network_programs.imports_mpyc", 3))
    assert [outcome.result for outcome in outcomes[:3]] == [{"sum": 6, "same": True}] * 3

"""Runs among real processes whose clients prove what they share, and the program that shows them with liars."""

import asyncio
import re
import types
from pathlib import Path

import numpy as np
import pytest

from dpmpc.base.randomness import Stream
from dpmpc.data import Schema
from dpmpc.linear.sharing.batch import FileShare
from dpmpc.parties import networked
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.protocols import proved_reports
from dpmpc.release import simulation
from dpmpc.release.planning import design
from support import forks
from support.rejections import rejects

PROGRAM = Path(__file__).parents[2] / "protocols" / "proved_reports.py"
CLIENTS, SECONDS = 500, 120


def task(**choices):
    fixed = {"servers": 3, "noise_by": "servers", "proved": True, "sketch": "sum", "radius": 1.0, "simulation_seed": 4}
    return design(ReleaseSpec.of(Schema.unit(["a", "b", "y"]), CLIENTS, 1.0, 1e-6, **{**fixed, **choices}))


def rows():
    return np.random.default_rng(1).uniform(-0.6, 0.6, (CLIENTS, 3))


@pytest.mark.parametrize(
    "sketch",
    [
        {},
        pytest.param({"sketch": "osnap", "rows": 8, "sparsity": 2}, marks=pytest.mark.long("of sketches, too")),
    ],
    ids=["sum", "osnap"],
)
def test_a_proved_run_opens_what_the_same_run_without_proofs_opens(sketch):
    """The exact integers of the proofs, the same noise: the sums agree to the last digit."""
    plan = task(**sketch)
    done = networked.run(plan, rows(), stream=Stream.from_seed(6))
    expected = simulation.run(plan, rows(), stream=Stream.from_seed(6))
    np.testing.assert_array_equal(done.release.sums, expected.sums)
    assert done.release.task.digest == plan.digest
    assert done.refused == {}
    messages = 2 * CLIENTS * plan.proofs.circuit.message_bytes
    for server in done.servers:
        assert set(server.phases) == {"verify", "read", "transform", "open"}
        assert server.phases["verify"].wall_s > 0
        assert messages < server.payload_sent
        assert messages < server.phases["verify"].bytes_sent < messages + 30_000
    assert "verify" not in done.analyst.phases


def test_a_share_that_is_not_the_tasks_ends_the_run_for_all():
    """The analyst does not wait for a verdict that never comes."""
    plan = task()

    def place(folders):
        networked.clients(plan, rows())(folders)
        FileShare.create(networked.share_file(folders[1]), (CLIENTS, 1, 3))

    with pytest.raises(Exception, match=r"share: shape \(500, 1, 3\) given"):
        networked.run_servers(plan, place, deadline=60)


def test_liars_leave_a_ball():
    told = np.zeros(CLIENTS, np.intp)
    for other in ({"sketch": "osnap", "rows": 8, "sparsity": 2}, {"radius": None}):
        with rejects("task", expected="second moments in a ball"):
            next(proved_reports.reports(task(**other), rows(), told))


@pytest.mark.parametrize("servers", [3, pytest.param(5, marks=pytest.mark.long("every number of servers"))])
def test_the_program_leaves_the_liars_out(servers):
    done = forks.run(f"-M{servers}", "--clients", "2000", "--liars", ".035", program=[PROGRAM], seconds=SECONDS)
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "2,000 clients, 70 of whom lie: 10 out of range, 10 wrong products" in said
    assert "Proofs: 1,930 of 2,000 reports accepted, 10 refused (different lists), 50 refused (false proof)" in said
    assert f"10 refused (wrong hash, according to server {servers - 1})" in said
    phi = re.search(r"honest rows: (\S+) with proofs, (\S+) without, .* trivial predictor (\S+)", said)
    with_proofs, without, trivial = map(float, phi.groups())
    assert with_proofs < 0.3 * trivial
    assert without > 0.9 * trivial
    assert "verify 0." in said
    assert "(1, 1e-07)-differential privacy for each of 1,930 clients" in said


@pytest.mark.parametrize("share", ["-0.1", "1.5", "nan"])
def test_a_share_of_liars_that_is_none_is_refused(share):
    with rejects("liars", expected="a share of the clients from 0 to 1"):
        proved_reports.liars_among(100, float(share))


def test_lies_take_turns():
    told = proved_reports.liars_among(100, 0.1)
    assert sorted(told[told >= 0]) == sorted([*range(7), 0, 1, 2])
    assert (proved_reports.liars_among(100, 0) == -1).all()
    assert (proved_reports.liars_among(100, 1) >= 0).all()


def test_a_program_without_checks_refuses_a_task_with_proofs():
    with rejects("party 0"):
        networked.run_servers(task(), networked.clients(task(), rows()), program=networked.PROGRAM)


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ([b"{}"] * 3, "party 0 sent no valid VERDICT frame"),
        ([b'{"accepted":500,"refused":{}}', b'{"accepted":499,"refused":{}}'], "server 1 found"),
        ([b'{"accepted":400,"refused":{}}'] * 3, "numbers that make 500 clients in all expected"),
        ([b'{"accepted":501,"refused":{"false proof":-1}}'] * 3, "numbers that make 500 clients in all expected"),
    ],
)
def test_an_analyst_checks_what_the_servers_tell(told, expected):
    class Runtime:
        async def receive_frame(self, sender, kind, content):
            return types.SimpleNamespace(raw=told[sender])

    party = types.SimpleNamespace(servers=3, runtime=Runtime())
    with pytest.raises(Exception, match=expected):
        asyncio.run(proved_reports.accepted_task(party, task()))

"""A server that is handed another task than its own settings name, or a weak one, reads no share and sends nothing."""

import asyncio
import contextlib
import importlib
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest

from dpmpc import networked
from dpmpc.client import share_batch
from dpmpc.data import Column, Schema
from dpmpc.encoding import FixedPoint
from dpmpc.errors import GuaranteeError, InputError, OverflowRisk, SimulationOnly
from dpmpc.network.launched import Launched
from dpmpc.network.settings import PartySettings
from dpmpc.noise import DiscreteGaussian
from dpmpc.planning import ReleaseSpec, design
from dpmpc.protocols import linear_transform, unopened_moment, unopened_ridge
from dpmpc.server import transform
from dpmpc.sharing import save_share
from dpmpc.sketching import Sum

CLIENTS = 500
OPENING = ("linear_transform", "ridge_regression", "low_rank_approximation", "frequency_moments")
PROGRAMS = (*OPENING, "unopened_moment", "unopened_ridge")
SERVER, ANALYST = 0, 3


def task_of(**choices):
    return design(
        ReleaseSpec.of(
            Schema.unit(["a", "b"]), CLIENTS, 1.0, 1e-6, **{"sketch": "sum", "noise_by": "servers", **choices}
        )
    )


def task_for(program):
    """A task that the program can do."""
    if program == "unopened_moment":
        return unopened_moment.task_for(Column("item", 0, 9), CLIENTS, 1.0, 1e-6, simulation_seed=None)
    if program == "unopened_ridge":
        return unopened_ridge.task_for(Schema.unit(["a", "b"]), CLIENTS, 1.0, 1e-6, rows=8)
    return task_of()


def weakened(task):
    """The same promise, and a thousandth of the noise."""
    return msgspec.structs.replace(task, noise=DiscreteGaussian(task.noise.sigma / 1000))


class Runtime:
    """What a program sees of the network; whatever it sends is kept."""

    def __init__(self, settings):
        self.settings, self.sent, self.threshold = settings, [], 1

    def frame(self, kind, content=None):
        return kind, content

    async def send_frame(self, receiver, frame):
        self.sent.append((receiver, frame))

    async def receive_frame(self, *expected):
        raise AssertionError("a message is waited for")


def party_of(task, folder, pid=SERVER, *, digest=None, keys=None, fields=None, by_hand=False):
    """A party whose operator was given these settings; its folder holds no share."""
    settings = PartySettings(
        party=pid,
        servers=task.trust.servers,
        addresses=[("127.0.0.1", 0)] * (task.trust.servers + 1),
        program="unused",
        arguments={
            "task": task.to_dict() if fields is None else fields,
            "threads": 1,
            "target": "b",
            "model": {},
        },
        task=digest or task.digest.hex(),
        launched=None if by_hand else Launched(str(folder), simulation={} if keys is None else {"keys": keys}),
    )
    meter = SimpleNamespace(phase=lambda name: pytest.fail(f"phase {name} was begun"))
    return SimpleNamespace(
        pid=pid,
        analyst=task.trust.servers,
        servers=task.trust.servers,
        arguments=settings.arguments,
        runtime=Runtime(settings),
        folder=folder,
        meter=meter,
        report_progress=lambda progress: None,
    )


def run_party(program, party):
    module = importlib.import_module(f"dpmpc.protocols.{program}")
    return asyncio.run(module.main(party))


@pytest.mark.parametrize("pid", [SERVER, ANALYST])
@pytest.mark.parametrize("program", PROGRAMS)
def test_nobody_works_on_a_task_that_does_not_keep_its_promise(program, pid, tmp_path):
    party = party_of(weakened(task_for(program)), tmp_path, pid)
    with pytest.raises(GuaranteeError, match="epsilon"):
        run_party(program, party)
    assert party.runtime.sent == []


@pytest.mark.parametrize("pid", [SERVER, ANALYST])
@pytest.mark.parametrize("program", PROGRAMS)
def test_nobody_works_on_another_task_than_that_of_its_settings(program, pid, tmp_path):
    """Both tasks are sound; the operator has agreed to one of them."""
    task = task_for(program)
    party = party_of(task, tmp_path, pid, digest="ab" * 32)
    with pytest.raises(InputError, match=f"digest {task.digest.hex()} given, {'ab' * 32} expected by this party's own"):
        run_party(program, party)
    assert party.runtime.sent == []


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_task_is_refused_before_anybody_is_contacted(program, tmp_path):
    module = importlib.import_module(f"dpmpc.protocols.{program}")
    with pytest.raises(GuaranteeError):
        module.prepare(party_of(weakened(task_for(program)), tmp_path).runtime.settings)
    module.prepare(party_of(task_for(program), tmp_path).runtime.settings)


def test_a_task_for_other_servers_is_refused(tmp_path):
    party = party_of(task_of(), tmp_path)
    party.runtime.settings = msgspec.structs.replace(
        party.runtime.settings, servers=4, addresses=[("127.0.0.1", 0)] * 5
    )
    with pytest.raises(InputError, match="one for 3 servers given, 4 expected"):
        linear_transform.verified_task(party)


def test_a_task_whose_sums_may_wrap_around_is_refused(tmp_path):
    task = task_of(fractional_bits=20)
    wide = msgspec.structs.replace(task, encoding=FixedPoint(20), noise=DiscreteGaussian(2.0**40), sketch=Sum(1 << 34))
    assert wide.verify() is wide
    wide = msgspec.structs.replace(task, encoding=FixedPoint(29), noise=DiscreteGaussian(2.0**40), sketch=Sum(1 << 34))
    with pytest.raises(OverflowRisk):
        linear_transform.verified_task(party_of(wide, tmp_path))


def test_seeds_of_the_noise_are_for_simulations_alone(tmp_path):
    """A seed that somebody knows is noise that somebody can take off."""
    keys = ["00" * 16] * 3
    with pytest.raises(SimulationOnly, match="simulation_keys"):
        linear_transform.verified_task(party_of(task_of(), tmp_path, keys=keys))
    with pytest.raises(InputError, match="for each of 3 servers expected"):
        linear_transform.verified_task(party_of(task_of(), tmp_path, keys=keys[:2]))
    with pytest.raises(InputError, match="hexadecimal"):
        linear_transform.verified_task(party_of(task_of(), tmp_path, keys=["no", None, 7]))
    simulated = task_of(simulation_seed=1)
    assert linear_transform.verified_task(party_of(simulated, tmp_path, keys=keys)) == simulated
    with pytest.raises(SimulationOnly, match="simulation: one given to party 0, which was started by hand"):
        linear_transform.verified_task(party_of(simulated, tmp_path, by_hand=True))
    assert linear_transform.verified_task(party_of(task_of(), tmp_path, by_hand=True)) == task_of()


@pytest.mark.parametrize("fields", [[], "task", 7])
def test_a_task_that_is_none_is_refused_with_a_type(fields, tmp_path):
    with pytest.raises(InputError, match="task"):
        linear_transform.verified_task(party_of(task_of(), tmp_path, fields=fields))


def test_a_server_sketches_no_other_task_than_the_verified_one(tmp_path):
    """A program that hands over a task of its own making is refused before the share is read."""
    task = task_of()
    party = party_of(task, tmp_path)
    with pytest.raises(InputError, match="another given than the one that this party has verified"):
        asyncio.run(linear_transform.sketch_alone(party, weakened(task)))


def test_the_transform_verifies_its_task():
    task = task_of()
    share = share_batch(task, np.zeros((CLIENTS, 2)))[0]
    with pytest.raises(GuaranteeError):
        transform(weakened(task), share)


def test_servers_and_analyst_refuse_as_processes(tmp_path):
    """The whole run: nothing is opened, and the first to say so is named."""
    task = task_of()
    shares = share_batch(task, np.zeros((CLIENTS, 2)))
    with pytest.raises(GuaranteeError, match="epsilon"):
        networked.run_servers(weakened(task), shares)


def test_an_honest_server_goes_on(tmp_path):
    task = task_of()
    party = party_of(task, tmp_path)
    party.meter = SimpleNamespace(phase=lambda name: contextlib.nullcontext())
    save_share(networked.share_file(tmp_path), share_batch(task, np.zeros((CLIENTS, 2)))[0])
    asyncio.run(linear_transform.main(party))
    assert [receiver for receiver, _ in party.runtime.sent] == [ANALYST]

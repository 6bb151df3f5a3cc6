"""A party that is handed another task than its own settings name, or a weak one, runs no program and calls nobody."""

import json
import subprocess
import sys

import msgspec
import numpy as np
import pytest

from bench.system.ports import free_ports
from dpmpc.base.errors import GuaranteeError, OverflowRisk, SimulationOnly
from dpmpc.data import Schema
from dpmpc.linear.encoding.fixed_point import FixedPoint
from dpmpc.linear.noise import DiscreteGaussian
from dpmpc.linear.sketching.sparse import Sum
from dpmpc.parties import networked
from dpmpc.parties.network.launched import Launched
from dpmpc.parties.network.programs import Agreement, prepare
from dpmpc.parties.network.settings import PartySettings
from dpmpc.parties.network.verified_task import verified_task
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release.client import share_batch
from dpmpc.release.planning import design
from dpmpc.release.server import transform
from support.rejections import rejects
from support.unverified import unverified

CLIENTS = 500
SERVER, ANALYST = 0, 3


def task_of(**choices):
    return design(
        ReleaseSpec.of(
            Schema.unit(["a", "b"]), CLIENTS, 1.0, 1e-6, **{"sketch": "sum", "noise_by": "servers", **choices}
        )
    )


def weakened(task):
    """The same promise, and a thousandth of the noise."""
    return unverified(task, noise=DiscreteGaussian(task.noise.sigma / 1000))


def settings_of(task, pid=SERVER, *, digest=None, keys=None, fields=None, by_hand=False):
    """What a party's operator was given."""
    return PartySettings(
        party=pid,
        servers=task.trust.servers,
        addresses=[("127.0.0.1", 1)] * (task.trust.servers + 1),
        program="unused",
        arguments={"task": task.to_dict() if fields is None else fields, "threads": 1},
        task=digest or task.digest.hex(),
        launched=None if by_hand else Launched("unused", simulation={} if keys is None else {"keys": keys}),
    )


@pytest.mark.parametrize("pid", [SERVER, ANALYST])
def test_a_task_that_does_not_keep_its_promise_is_refused(pid):
    with rejects("epsilon", GuaranteeError):
        verified_task(settings_of(weakened(task_of()), pid))


@pytest.mark.parametrize("pid", [SERVER, ANALYST])
def test_another_task_than_that_of_the_settings_is_refused(pid):
    """Both tasks are sound; the operator has agreed to one of them."""
    task = task_of()
    with rejects("task", condition="by this party's own settings (party.json)"):
        verified_task(settings_of(task, pid, digest="ab" * 32))


def test_a_task_for_other_servers_is_refused():
    settings = msgspec.structs.replace(settings_of(task_of()), servers=4, addresses=[("127.0.0.1", 0)] * 5)
    with rejects("task", expected="4"):
        verified_task(settings)


def test_a_task_whose_sums_may_wrap_around_is_refused():
    task = task_of(fractional_bits=20)
    wide = unverified(task, encoding=FixedPoint(20), noise=DiscreteGaussian(2.0**40), sketch=Sum(1 << 34))
    assert wide.verify() == wide
    wide = unverified(task, encoding=FixedPoint(29), noise=DiscreteGaussian(2.0**40), sketch=Sum(1 << 34))
    with pytest.raises(OverflowRisk):
        verified_task(settings_of(wide))


def test_seeds_of_the_noise_are_for_simulations_alone():
    """A seed that somebody knows is noise that somebody can take off."""
    keys = ["00" * 16] * 3
    with rejects("simulation_keys", SimulationOnly):
        verified_task(settings_of(task_of(), keys=keys))
    with rejects("simulation_keys"):
        verified_task(settings_of(task_of(), keys=keys[:2]))
    with rejects("simulation_keys"):
        verified_task(settings_of(task_of(), keys=["no", None, 7]))
    simulated = task_of(simulation_seed=1)
    assert verified_task(settings_of(simulated, keys=keys)) == simulated
    with rejects("simulation", SimulationOnly):
        verified_task(settings_of(simulated, by_hand=True))
    assert verified_task(settings_of(task_of(), by_hand=True)) == task_of()


@pytest.mark.parametrize("fields", [[], "task", 7, {}])
def test_a_task_that_is_none_is_refused_with_a_type(fields):
    with rejects("task"):
        verified_task(settings_of(task_of(), fields=fields))


@pytest.mark.parametrize("pid", [SERVER, ANALYST])
def test_no_program_is_imported_for_a_task_that_is_refused(pid, tmp_path):
    """The process of a party: it names the fault, and has not run a line of the program, which lies in its folder."""
    (tmp_path / "leaves_a_mark.py").write_text(
        "import pathlib\npathlib.Path('mark').touch()\n\n\nasync def main():\n    pass\n"
    )
    task = weakened(task_of())
    agreement = Agreement("leaves_a_mark", 3, {"task": task.to_dict(), "threads": 1}, task=task.digest)
    party = prepare(agreement, tmp_path / "run", [("127.0.0.1", port) for port in free_ports(4)])[pid]
    command = [sys.executable, "-m", "dpmpc.parties.network.party", str(party), "leaves_a_mark"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == GuaranteeError.exit_status
    error = json.loads((party / "outcome.json").read_text())["error"]
    assert (error["type"], error["party"]) == ("GuaranteeError", pid)
    assert not (tmp_path / "mark").exists()


def test_the_transform_takes_no_task_that_nobody_has_verified():
    task = task_of()
    share = share_batch(task, np.zeros((CLIENTS, 2)))[0]
    with rejects("task"):
        transform(weakened(task), share)


def test_servers_and_analyst_refuse_as_processes():
    """The whole run: nothing is opened, and the first to say so is named."""
    task = task_of()
    shares = share_batch(task, np.zeros((CLIENTS, 2)))
    with rejects("party 0", GuaranteeError):
        networked.run_servers(weakened(task), shares)

"""The task of a run, which a party verifies for itself before its program is imported and any other party contacted.

A launcher or whoever wrote the party's folder gives the task among the arguments. The party compares it with the digest
in its own settings, recomputes the guarantee and the proof that no sum wraps around, and refuses seeds of noise outside
of a simulation.
"""

from __future__ import annotations

import msgspec

from dpmpc.base.errors import InputError, SimulationOnly
from dpmpc.parties.network.settings import SETTINGS_FILE, PartySettings
from dpmpc.privacy.task import Task, VerifiedTask
from dpmpc.release.server import require_own_noise

TASK = "task"  # among the arguments of a program
NO_TASK = ("task", "none given in the arguments of the program, the public facts of a release expected")
KEYS = "keys"  # of the servers' noise in a simulation, as a launcher hands them over


def verified_task(settings: PartySettings) -> VerifiedTask:
    """Return the task of a run, once this party has convinced itself of it.

    Raises
    ------
    InputError
        If the task is not the one whose digest stands in this party's own settings, or is for other servers.
    GuaranteeError, OverflowRisk
        If its noise does not give what it promises, or a sum might wrap around.
    SimulationOnly
        If the noise is to come from seeds, and the task does not state that it is a simulation; or if it does, and the
        party was started by hand.
    """
    fields = settings.arguments.get(TASK)
    if not isinstance(fields, dict):
        raise InputError(*NO_TASK)
    task = Task.from_dict(msgspec.json.decode(msgspec.json.encode(fields)))
    if task.digest != settings.task_digest:
        raise InputError(
            "task",
            f"one with the digest {task.digest.hex()}",
            settings.task,
            condition=f"by this party's own settings ({SETTINGS_FILE})",
        )
    if task.trust.servers != settings.servers:
        raise InputError(
            "task",
            f"one for {task.trust.servers} servers",
            settings.servers,
            condition=f"by this party's own settings ({SETTINGS_FILE})",
        )
    settings.refuse_simulation(task.simulation)
    if not task.simulation and any(key is not None for key in simulation_keys(settings)):
        raise SimulationOnly("simulation_keys", "some given, but the task does not state that it is a simulation")
    require_own_noise(task)
    return task.verify()


def simulation_keys(settings: PartySettings) -> list[bytes | None]:
    """Return the keys of the servers' noise in a repeatable simulation; None stands for secret noise."""
    keys = settings.simulation.get(KEYS)
    if keys is None:
        return [None] * settings.servers
    expected = f"a key in hexadecimal digits, or null, for each of {settings.servers} servers expected"
    if not isinstance(keys, list) or len(keys) != settings.servers:
        raise InputError("simulation_keys", f"{keys!r} given, {expected}")
    try:
        return [None if key is None else bytes.fromhex(key) for key in keys]
    except (TypeError, ValueError) as error:
        raise InputError("simulation_keys", f"{keys!r} given, {expected}") from error

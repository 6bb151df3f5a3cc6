"""Calibrated noise for what a program of MPyC's own computes: each party draws, shares and adds its own.

The parties hold a sketch or a sum of clients' encoded rows as a secure array over Z_p, p = 2^61 - 1. Each draws noise
from the operating system's generator and shares it like any input; the sum of all is added before anybody opens. Of M
parties t may pool what they know, their own noise too. So the noise of M - t of them is calibrated to suffice, and what
is opened holds M/(M - t) times that variance (Burkhardt et al. 2025, section 4, with servers' noise in place of
clients'; `dpmpc.privacy.calibration`).

Promised: the guarantee that is returned, for parties that follow the protocol and open nothing else of the same rows.
Not promised: anything against a party that shares other noise than it drew, which nobody notices here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from dpmpc.errors import InputError
from dpmpc.mpyc.native import running, shared
from dpmpc.planning import ReleaseSpec, design
from dpmpc.privacy import Guarantee
from dpmpc.randomness import Stream
from dpmpc.sharing import ShamirSharing
from dpmpc.task import Task


@dataclass(frozen=True)
class AddedNoise:
    """Noise of all parties, and what is promised of a sum that it is added to.

    Parameters
    ----------
    array : SecureArray
        Of ``SecFld(2^61 - 1)``, (k, width): what is added to the secure sketch before it is opened.
    task : Task
        The public facts: how clients encode their rows (`dpmpc.client.Client`), and how sums are read
        (`dpmpc.release.Release`).
    guarantee : Guarantee
        Of what is opened.
    """

    array: Any
    task: Task
    guarantee: Guarantee


def noise(spec: ReleaseSpec | Task) -> AddedNoise:
    """Draw, share and sum the noise of all parties that gives a sum or a sketch its guarantee.

    Every party calls it with the same argument, once for each release, and adds the result before opening::

        added = noise(ReleaseSpec.of(bounds, clients, epsilon=1.0, delta=1e-6, sketch="sum"))
        y = await sketch(added.task.sketch, rows) + added.array
        sums = await open_sketch(added.task.sketch, y)
        print(added.guarantee)

    Parameters
    ----------
    spec : ReleaseSpec or Task
        What is required of the release; the number of parties and MPyC's threshold are those of the program. With a
        sketch whose seed the parties have tossed for, a task with noise by servers, such as `task_for_parties` returns.

    Returns
    -------
    AddedNoise

    Raises
    ------
    InputError
        If there are fewer than 3 parties or the threshold is 0, a seed makes the noise repeatable, the matrix of a
        `ReleaseSpec` has a seed, which each party would draw for itself, or a task is made for other parties.
    GuaranteeError, OverflowRisk
        If no noise gives the budget, or sums might wrap around.
    """
    runtime = running()
    scheme = ShamirSharing(len(runtime.parties), runtime.threshold) if runtime.threshold else None
    if scheme is None:
        raise InputError(
            f"-M, -T: {len(runtime.parties)} parties of whom {runtime.threshold} may collude given, at least 3 and 1 "
            "expected: fewer keep no secret (-M3)"
        )
    task = spec if isinstance(spec, Task) else task_for_parties(spec)
    if not isinstance(spec, Task) and task.sketch.family != "sum":
        raise InputError(
            f"spec: a {task.sketch.family} whose seed each party would draw for itself given, a sum expected, or a "
            "task with the seed that all have tossed for"
        )
    if task.simulation:
        raise InputError("simulation_seed: one given, none expected: noise that can be repeated protects nobody")
    trust = (task.trust.servers, task.trust.colluding_servers)
    if trust != (scheme.servers, scheme.threshold) or task.noising.by != "servers" or task.encoding.ring != scheme.ring:
        raise InputError(
            f"task: noise by {task.noising.by} over {task.encoding.ring.name}, {trust[1]} of {trust[0]} colluding "
            f"given, noise by servers over mersenne61, {scheme.threshold} of {scheme.servers} expected"
        )
    task.verify()
    drawn = task.noise.sample((task.sketch.rows, task.width), stream=Stream.from_os())
    first, *others = shared(scheme.ring.embed(drawn))
    return AddedNoise(sum(others, start=first), task, task.guarantee_under(scheme.passive_conduct))


def task_for_parties(spec: ReleaseSpec) -> Task:
    """Design a release whose noise the parties of the running MPyC program add.

    Parameters
    ----------
    spec : ReleaseSpec
        Whose trust and mechanism become those of the program: its parties, its threshold, noise by servers.
    """
    runtime = running()
    trust = msgspec.structs.replace(
        spec.trust, servers=len(runtime.parties), corrupt_servers=runtime.threshold, corrupt_clients=0
    )
    mechanism = msgspec.structs.replace(spec.mechanism, noise_by="servers", sharing="additive", ring="mersenne61")
    return design(msgspec.structs.replace(spec, trust=trust, mechanism=mechanism))

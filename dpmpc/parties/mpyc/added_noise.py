"""Calibrated noise for what a program of MPyC's own computes: each party draws, shares and adds its own.

The parties hold a sketch or a sum of clients' encoded rows as a secret array over Z_p, p = 2^61 - 1. Each draws noise
from the operating system's generator and shares it like any input; the sum of all is added before any party opens. Of M
parties t may pool what they hold, their own noise too. So the noise of M - t of them is calibrated to suffice, and what
is opened holds M/(M - t) times that variance (Burkhardt et al. 2025, section 4, with servers' noise instead of
clients'; `dpmpc.privacy.calibration`)::

    task = task_for_parties(ReleaseSpec.of(bounds, clients, epsilon=1.0, delta=1e-6, sketch="sum"))
    rows = Client(task).randomize(table)[:, 0]               # clips and encodes; the parties add the noise
    y = task.sketch.apply(np.vstack(mpc.input(secret_array("shamir")(rows)))) + noise(task)
    release = Release(task, await mpc.output(y))
    print(guarantee_of_parties(task))

Promised: the guarantee of `guarantee_of_parties`, for parties that follow the protocol and open nothing else of the
same rows. Not promised: anything against a party that shares other noise than it drew, which no party notices here.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dpmpc.base.errors import InputError
from dpmpc.linear.sharing import ShamirSharing
from dpmpc.parties.mpyc.current_runtime import current_runtime
from dpmpc.privacy import Guarantee
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.privacy.task import Task
from dpmpc.release.planning import design
from dpmpc.release.server import noise_stream, server_noise


def noise(task: Task) -> Any:
    """Draw, share and sum the noise of all parties, as an array of ``secret_array("shamir")`` of shape (k, width).

    Parameters
    ----------
    task : Task
        The same at every party, of `task_for_parties`. Each call draws noise for one release.

    Raises
    ------
    InputError
        If there are fewer than 3 parties or the threshold is 0, a seed makes the noise repeatable, or the task is made
        for other parties.
    GuaranteeError, OverflowRisk
        If the noise does not give the budget, or sums might wrap around.
    """
    from dpmpc.parties.mpyc.secret_arrays import secret_array  # which imports MPyC's runtime

    if task.simulation:
        raise InputError("simulation_seed", "one", "none", "noise that can be repeated protects no one")
    scheme = _scheme()
    trust = (task.trust.servers, task.trust.colluding_servers)
    if trust != (scheme.servers, scheme.threshold) or task.noising.by != "servers" or task.encoding.ring != scheme.ring:
        raise InputError(
            "task",
            f"noise by {task.noising.by} over {task.encoding.ring.name}, {trust[1]} of {trust[0]} colluding",
            f"noise by servers over mersenne61, {scheme.threshold} of {scheme.servers}",
        )
    return secret_array("shamir").summed(server_noise(task.verify(), noise_stream(task)))


def task_for_parties(spec: ReleaseSpec, *, matrix_seed: bytes | None = None) -> Task:
    """Design a release whose noise the parties of the running MPyC program add.

    Parameters
    ----------
    spec : ReleaseSpec
        Whose trust and mechanism become those of the program: its parties, its threshold, noise by servers.
    matrix_seed : bytes, optional
        Of the public matrix, which the parties have tossed for (`dpmpc.parties.mpyc.agreeing`); a sum needs none.

    Raises
    ------
    InputError
        If there is no seed and the matrix is no sum: each party would draw another one.
    """
    scheme = _scheme()
    trust = msgspec.structs.replace(
        spec.trust, servers=scheme.servers, corrupt_servers=scheme.threshold, corrupt_clients=0
    )
    mechanism = msgspec.structs.replace(spec.mechanism, noise_by="servers", sharing="additive", ring="mersenne61")
    task = design(msgspec.structs.replace(spec, trust=trust, mechanism=mechanism), matrix_seed=matrix_seed)
    if matrix_seed is None and task.sketch.family != "sum":
        raise InputError(
            "matrix_seed", f"none given for a {task.sketch.family}, one that all parties have tossed for expected"
        )
    return task


def guarantee_of_parties(task: Task) -> Guarantee:
    """Return what is guaranteed of a sum that `noise` was added to, by parties that follow the protocol."""
    return task.guarantee_under(_scheme().passive_conduct)


def _scheme() -> ShamirSharing:
    runtime = current_runtime()
    if runtime.threshold < 1:
        raise InputError(
            "-M, -T",
            f"{len(runtime.parties)} parties of whom {runtime.threshold} may collude",
            "at least 3 and 1",
            "fewer keep no secret (-M3)",
        )
    return ShamirSharing(len(runtime.parties), runtime.threshold)

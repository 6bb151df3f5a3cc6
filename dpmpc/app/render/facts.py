"""Public facts of a task as plain data: the part of the JSON contract that every report and plan has."""

from __future__ import annotations

from dpmpc.privacy import Guarantee
from dpmpc.privacy.task import Task
from dpmpc.release.planning.cost import WORD_BYTES, Workload


def task_fields(task: Task, features: int, promised: Guarantee | None = None) -> dict[str, object]:
    """Return the public facts of the JSON contract; `promised` is the guarantee where it is not the task's own."""
    guarantee = promised or task.guarantee
    return {
        "clients": task.clients,
        "features": features,
        "servers": task.trust.servers,
        "sketch": {
            "family": task.sketch.family,
            "rows": task.sketch.rows,
            "sparsity": task.sketch.sparsity,
            "statistic": task.statistic.name,
        },
        "privacy": {
            "epsilon": guarantee.epsilon,
            "delta": guarantee.delta,
            "achieved_epsilon": guarantee.achieved_epsilon,
            "neighbouring": guarantee.neighbouring,
            "corrupt_clients": guarantee.corrupt_clients,
            "corrupt_servers": guarantee.corrupt_servers,
            "dropouts": guarantee.dropouts,
            "noise_by": guarantee.noise_by,
            "mechanism": guarantee.noise_text,
            "calibration": guarantee.calibration,
            "simulation": guarantee.simulation,
        },
    }


def byte_fields(task: Task) -> dict[str, int]:
    """Return bytes of payload, without framing; of additive shares all but the last are keys."""
    work = Workload.of(task)
    share, other = work.share_bytes, work.other_bytes
    checked = {} if work.proof is None else {"server_to_other_server": work.peer_bytes}
    return {
        "copies": task.copies,
        "client_to_last_server": share,
        "client_to_other_servers": other,
        "client_to_all_servers": share + (task.trust.servers - 1) * other,
        "server_to_analyst": WORD_BYTES * task.sketch.rows * task.width,
        "spool_of_last_server": share * task.clients,
        "spool_of_other_servers": other * task.clients,
        **checked,
    }

"""Public facts of a task as plain data: the part of the JSON contract that every report and plan has."""

from __future__ import annotations

from dpmpc.privacy import Guarantee
from dpmpc.privacy.task import Task


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

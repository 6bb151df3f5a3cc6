"""The job of Tables 3 to 5: n clients, s copies of d = 10 columns, k = 1000 rows, M servers."""

from __future__ import annotations

import dataclasses
from typing import Any

from dpmpc.data import Schema
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.privacy.task import Task
from dpmpc.release.planning import design

COLUMNS, ROWS = 10, 1000
CLIENTS = (100_000, 200_000, 500_000, 1_000_000)
PEER_SPARSITY, PEER_SERVERS = 4, 3


@dataclasses.dataclass(frozen=True)
class Setting:
    """One row of a table."""

    clients: int
    sparsity: int
    servers: int


def task_of(setting: Setting, **choices: Any) -> Task:
    """Design the job of one row, under (1, 1e-7)-differential privacy; `choices` are others of `ReleaseSpec.of`.

    Delta has to be less than 1/n, and is a tenth of that from a million clients on.
    """
    return design(
        ReleaseSpec.of(
            Schema.unit([f"x{column}" for column in range(COLUMNS)]),
            setting.clients,
            1.0,
            min(1e-7, 0.1 / setting.clients),
            sketch="osnap",
            rows=ROWS,
            sparsity=setting.sparsity,
            servers=setting.servers,
            copies="each",
            fractional_bits=20,
            simulation_seed=1,
            **choices,
        )
    )

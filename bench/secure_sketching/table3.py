"""Table 3 of the secure-sketching paper. Three servers: run time and communication for n clients and sparsity s."""

from __future__ import annotations

from collections.abc import Sequence

from bench.secure_sketching import runtime_tables
from bench.secure_sketching.setting import CLIENTS, Setting

SETTINGS = [Setting(clients, sparsity, 3) for sparsity in (1, 4, 8) for clients in CLIENTS]


def main(arguments: Sequence[str]) -> None:
    """Measure and write the table."""
    runtime_tables.main(
        "table3", "Table 3. Three servers: run time and communication for n clients and sparsity s", SETTINGS, arguments
    )

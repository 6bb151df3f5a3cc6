"""Table 5 of the secure-sketching paper. Two, three and five servers: run time and communication at s = 4."""

from __future__ import annotations

from collections.abc import Sequence

from bench.secure_sketching import runtime_tables
from bench.secure_sketching.runtime_tables import CLIENTS, Setting

SETTINGS = [Setting(clients, 4, servers) for servers in (2, 3, 5) for clients in CLIENTS]


def main(arguments: Sequence[str]) -> None:
    """Measure and write the table."""
    runtime_tables.main(
        "table5", "Table 5. Two, three and five servers: run time and communication at s = 4", SETTINGS, arguments
    )

"""Table 5 of the secure-sketching paper: run time and communication "when varying" something that the text has lost.

Two readings, each a choice and a page of its own: the number of servers at s = 4 (``table5``), and the sparsity s with
three servers (``table5_sparsity``).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from bench.secure_sketching import runtime_tables
from bench.secure_sketching.runtime_tables import CLIENTS, Setting

SETTINGS = [Setting(clients, 4, servers) for servers in (2, 3, 5) for clients in CLIENTS]
SPARSITY_SETTINGS = [Setting(clients, sparsity, 3) for sparsity in (1, 2, 4, 8) for clients in CLIENTS]
_CHOICE = "our choice: the text that we have lost what varies"
#: Reading -> name of the results, title, settings.
READINGS = {
    "servers": ("table5", f"Table 5, read as varying the servers ({_CHOICE}): 2, 3 and 5 at s = 4", SETTINGS),
    "sparsity": (
        "table5_sparsity",
        f"Table 5, read as varying the sparsity ({_CHOICE}): s = 1, 2, 4 and 8 with three servers",
        SPARSITY_SETTINGS,
    ),
}


def main(arguments: Sequence[str]) -> None:
    """Measure and write the table in both readings, or in one."""
    parser = argparse.ArgumentParser(prog="python -m bench table5", description=__doc__, add_help=False)
    parser.add_argument("--vary", choices=tuple(READINGS), help="one reading (default: both)")
    chosen, others = parser.parse_known_args(arguments)
    if "-h" in others or "--help" in others:
        parser.print_help()
    for reading in READINGS if chosen.vary is None else (chosen.vary,):
        name, title, settings = READINGS[reading]
        runtime_tables.main(name, title, settings, others)

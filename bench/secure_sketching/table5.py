"""Table 5 of the secure-sketching paper: run time and communication "when varying" something that the text has lost.

Two readings, each a choice: the number of servers at s = 4, and the sparsity s with three servers. The settings of the
second, and those of the first with two and three servers, are rows of Tables 4 and 3: the page refers to them. What is
left, five servers, is measured here.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.secure_sketching import runtime_tables
from bench.secure_sketching.setting import CLIENTS, PEER_SPARSITY, Setting

SETTINGS = [Setting(clients, PEER_SPARSITY, 5) for clients in CLIENTS]
TITLE = "Table 5. Five servers: run time and communication for n clients at s = 4"
READINGS = (
    "",
    "What varies in the paper's Table 5 is lost from the text that we have. Read as the number of servers (our "
    "choice): two and three servers are the rows with s = 4 of [Table 4](../../bench/results/table4.md) and "
    "[Table 3](../../bench/results/table3.md), five are above. Read as the sparsity: it is "
    "[Table 3](../../bench/results/table3.md), whose rows have s = 1, 4 and 8.",
)


def main(arguments: Sequence[str]) -> None:
    """Measure and write the table."""
    runtime_tables.main("table5", TITLE, SETTINGS, arguments, READINGS)

"""Table 5 of the secure-sketching paper: run time and communication "when varying" something that the text has lost.

Two readings, each a choice and a page of its own: the number of servers at s = 4 (``table5``), and the sparsity s with
three servers (``table5_sparsity``). The settings of the second are those of Table 3, so it is drawn from Table 3's
results and measures nothing again.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from bench.harness import RESULTS, write
from bench.secure_sketching import runtime_tables
from bench.secure_sketching.runtime_tables import CLIENTS, Setting
from dpmpc.errors import InputError

SETTINGS = [Setting(clients, 4, servers) for servers in (2, 3, 5) for clients in CLIENTS]
SERVERS, SPARSITY = "servers", "sparsity"
_CHOICE = "our choice: the text that we have lost what varies"
TITLES = {
    SERVERS: f"Table 5, read as varying the servers ({_CHOICE}): 2, 3 and 5 at s = 4, run time and communication",
    SPARSITY: f"Table 5, read as varying the sparsity ({_CHOICE}): s = 1, 4 and 8, three servers, as in Table 3",
}


def main(arguments: Sequence[str]) -> None:
    """Measure the table in one reading, and draw it in the other."""
    parser = argparse.ArgumentParser(add_help=False, usage=argparse.SUPPRESS)
    parser.add_argument("--vary", choices=tuple(TITLES), help="one reading (default: both)")
    chosen, others = parser.parse_known_args(arguments)
    if {"-h", "--help"} & set(others):
        print(parser.format_help())
    if chosen.vary != SPARSITY:
        runtime_tables.main("table5", TITLES[SERVERS], SETTINGS, others)
    if chosen.vary != SERVERS and "--short" not in others:
        draw_sparsity()


def draw_sparsity() -> None:
    """Draw the second reading from Table 3's results.

    Raises
    ------
    InputError
        If Table 3 was not measured.
    """
    path = RESULTS / "table3.json"
    if not path.exists():
        raise InputError(f"vary: {SPARSITY} given, but there is no {path}, python -m bench table3 expected before")
    content = {**json.loads(path.read_text()), "title": TITLES[SPARSITY]}
    text = runtime_tables.render(TITLES[SPARSITY], content)
    print(text)
    write("table5_sparsity", content, text)

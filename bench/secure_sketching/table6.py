"""Table 6: the real data sets: number of entries n, features d, and the rank r of the low-rank experiments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.charts import options_of
from bench.harness import machine, markdown, write
from bench.secure_sketching.real_data import MEASURED

TITLE = "Table 6: real data sets"
#: Data set -> (n, d) of the paper, and UCI's number.
PAPER = {
    "Power": (2_049_280, 6, 235),
    "Elevation": (434_874, 2, 246),
    "Ethylene": (4_178_504, 18, 322),
    "Songs": (515_345, 89, 203),
}


def main(arguments: Sequence[str]) -> None:
    """Count, print and write the table; it has no plot."""
    options = options_of("table6", TITLE, arguments, 1)
    sizes = {data.name: (*data.rows().shape, data.components) for data in MEASURED if data.at_hand}
    entries: list[dict[str, Any]] = []
    for name in dict.fromkeys((*PAPER, *sizes)):
        clients, columns, components = sizes.get(name, (None, None, None))
        n, d, uci = PAPER.get(name, (None, None, None))
        features = None if columns is None else columns - 1
        entries.append(
            {"name": name, "paper_n": n, "paper_d": d, "n": clients, "d": features, "r": components, "uci": uci}
        )
    headings = ("data set", "n of the paper", "d of the paper", "n here", "d here", "r here", "UCI id")
    rows = [
        ["" if value is None else f"{value:,}" if key != "name" else value for key, value in e.items()] for e in entries
    ]
    text = f"# {TITLE}\n\n{markdown(headings, rows)}\n\nThe paper's ranks r are lost from the text that we have."
    print(text)
    if options.out is not None:
        write("table6", {"machine": machine(), "data_sets": entries}, text, options.out)

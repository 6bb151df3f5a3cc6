"""Table 6: the real data sets: number of entries n, features d, and the rank r of the low-rank experiments.

The numbers of the paper's table are lost from the text that we have. The sizes that UCI's pages give stand beside ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.charts import options_of
from bench.harness import machine, markdown, write
from bench.secure_sketching.real_data import MEASURED

TITLE = "Table 6: real data sets"
#: The paper's data sets -> rows and columns of UCI's file, and its number there. Power includes date, time and rows
#: with missing values; Elevation an identifier; Ethylene is ``ethylene_CO.txt``.
UCI = {
    "Power": (2_075_259, 9, 235),
    "Elevation": (434_874, 4, 246),
    "Ethylene": (4_208_261, 19, 322),
    "Songs": (515_345, 91, 203),
}


def main(arguments: Sequence[str]) -> None:
    """Count, print and write the table; it has no plot."""
    options = options_of("table6", TITLE, arguments, 1)
    sizes = {data.name: (*data.rows().shape, data.components) for data in MEASURED if data.at_hand}
    entries: list[dict[str, Any]] = []
    for name in dict.fromkeys((*UCI, *sizes)):
        clients, columns, components = sizes.get(name, (None, None, None))
        n, of_file, uci = UCI.get(name, (None, None, None))
        features = None if columns is None else columns - 1
        entries.append(
            {"name": name, "uci_n": n, "uci_columns": of_file, "n": clients, "d": features, "r": components, "uci": uci}
        )
    headings = ("data set", "rows of UCI's file", "its columns", "n here", "d here", "r here", "UCI id")
    rows = [
        ["" if value is None else f"{value:,}" if key != "name" else value for key, value in e.items()] for e in entries
    ]
    text = f"# {TITLE}\n\n{markdown(headings, rows)}\n\nThe paper's n, d and r are lost from the text that we have."
    print(text)
    if options.out is not None:
        write("table6", {"machine": machine(), "data_sets": entries}, text, options.out)

"""Tables of numbers, and what a column may contain: public bounds, clipping, and the affine map to [-1, 1].

CSV, Parquet, arrays and data frames become one `Table`. It holds finite float64 numbers under unique names; whatever is
missing, infinite or no number at all is refused with its column, row and line, or, on request, filled in, or dropped
and counted. Nothing here is private: a table is what a client, or a simulation of all clients, sees before clipping.
Error messages quote cells: they are for the client's eyes only. Rows are counted from 1, without the header; lines of a
file are counted from 1, with it. Blank lines are skipped.

A `Schema` is public and is agreed on before any data is seen. Every client maps its row to [-1, 1] with it and clips
what lies outside, so that no row weighs more than the bounds allow, whatever it holds: sensitivity rests on this and
nothing else. The schema promises nothing by itself, and bounds that were read off the data (`draft`) are not private.

Source: the local clipping of Burkhardt, Keller, Orlandi and Schwiegelshohn (ICML 2025), with bounds per column.
"""

from typing import TYPE_CHECKING

from dpmpc.base.faces import face

if TYPE_CHECKING:
    from dpmpc.data.codebook import Codebook
    from dpmpc.data.columns import Column
    from dpmpc.data.demo import DEMO_BOUNDS, DEMO_FEATURES, demo_population
    from dpmpc.data.schemas import Schema
    from dpmpc.data.table import Table
    from dpmpc.data.table_files import write_csv
    from dpmpc.data.variables import Variable

__all__ = [
    "DEMO_BOUNDS",
    "DEMO_FEATURES",
    "Codebook",
    "Column",
    "Schema",
    "Table",
    "Variable",
    "demo_population",
    "write_csv",
]

__getattr__, __dir__ = face(
    __name__,
    {
        "codebook": ["Codebook"],
        "columns": ["Column"],
        "demo": ["DEMO_BOUNDS", "DEMO_FEATURES", "demo_population"],
        "schemas": ["Schema"],
        "table": ["Table"],
        "table_files": ["write_csv"],
        "variables": ["Variable"],
    },
)

"""Tables of numbers, and what a column may contain: public bounds, clipping, and the affine map to [-1, 1].

CSV, Parquet, arrays and data frames become one `Table`. It holds finite float64 numbers under unique names; whatever is
missing, infinite or no number at all is refused with its column, row and line, or, on request, filled in, or dropped
and counted. Nothing here is private: a table is what a client, or a simulation of all clients, sees before clipping.
Error messages quote cells: they are for the client's eyes only. Rows are counted from 1, without the header; lines of a
file are counted from 1, with it. Blank lines are skipped.

A `Schema` is public and is agreed on before any data is seen. Every client maps its row to [-1, 1] with it and clips
what lies outside, so that no row weighs more than the bounds allow, whatever it holds: sensitivity rests on this and
nothing else. The schema promises nothing by itself, and bounds that were read off the data (`suggest`) are not private.

Source: the local clipping of Burkhardt, Keller, Orlandi and Schwiegelshohn (ICML 2025), with bounds per column.
"""

from dpmpc.data.codebook import Codebook, Weight
from dpmpc.data.columns import Column
from dpmpc.data.csv_files import MISSING, Dialect
from dpmpc.data.data_checks import check_table, require_column, suggest, warn_of_bounds
from dpmpc.data.schemas import Bounds, Schema, clip_ball, largest_squared_norm, schema
from dpmpc.data.table import (
    Cell,
    Cells,
    Table,
    cell_of,
    check_finite,
    check_names,
    default_names,
    expect_columns,
    numeric_matrix,
    numeric_vector,
    position_of,
)
from dpmpc.data.table_files import (
    Paths,
    column_names,
    load_pyarrow,
    read_cells,
    read_csv,
    read_labels,
    read_parquet,
    read_table,
    write_csv,
)
from dpmpc.data.variables import DEFAULT_CELLS, MOST_CELLS, Variable

__all__ = [
    "DEFAULT_CELLS",
    "MISSING",
    "MOST_CELLS",
    "Bounds",
    "Cell",
    "Cells",
    "Codebook",
    "Column",
    "Dialect",
    "Paths",
    "Schema",
    "Table",
    "Variable",
    "Weight",
    "cell_of",
    "check_finite",
    "check_names",
    "check_table",
    "clip_ball",
    "column_names",
    "default_names",
    "expect_columns",
    "largest_squared_norm",
    "load_pyarrow",
    "numeric_matrix",
    "numeric_vector",
    "position_of",
    "read_cells",
    "read_csv",
    "read_labels",
    "read_parquet",
    "read_table",
    "require_column",
    "schema",
    "suggest",
    "warn_of_bounds",
    "write_csv",
]

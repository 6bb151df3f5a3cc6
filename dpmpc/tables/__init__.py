"""Reading tables of numbers: CSV, Parquet, arrays and data frames become one `Table`.

A `Table` holds finite float64 numbers under unique names; whatever is missing, infinite or no number at all is refused
with its column, row and line, or, on request, filled in, or dropped and counted. Nothing here is private: a table is
what a client, or a simulation of all clients, sees before clipping. Error messages quote cells: they are for the
client's eyes only.

Rows are counted from 1, without the header; lines of a file are counted from 1, with it. Blank lines are skipped.
"""

from dpmpc.tables.csv_files import MISSING, Dialect
from dpmpc.tables.files import (
    Paths,
    column_names,
    read_cells,
    read_csv,
    read_labels,
    read_parquet,
    read_table,
    write_csv,
)
from dpmpc.tables.parquet_files import load_pyarrow
from dpmpc.tables.table import (
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

__all__ = [
    "MISSING",
    "Cell",
    "Cells",
    "Dialect",
    "Paths",
    "Table",
    "cell_of",
    "check_finite",
    "check_names",
    "column_names",
    "default_names",
    "expect_columns",
    "load_pyarrow",
    "numeric_matrix",
    "numeric_vector",
    "position_of",
    "read_cells",
    "read_csv",
    "read_labels",
    "read_parquet",
    "read_table",
    "write_csv",
]

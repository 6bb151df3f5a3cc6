"""Files of either kind, by the ending of their name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dpmpc.errors import InputError
from dpmpc.tables.csv_files import MISSING, CsvFile, input_errors, read_csv
from dpmpc.tables.names import position_of
from dpmpc.tables.parquet_files import parquet_labels, read_parquet
from dpmpc.tables.table import Fill, Table


def read_table(
    path: str | Path, columns: Sequence[str] | None = None, *, drop_missing: bool = False, fill: Fill = None
) -> Table:
    """Read a CSV file (``.csv``, with a header line) or a Parquet file (``.parquet``, with ``dpmpc[parquet]``).

    Parameters
    ----------
    path : str or Path
        The file.
    columns : sequence of str, optional
        The columns to read, in this order; the others may hold anything. All columns by default.
    drop_missing : bool
        Leave out rows in which one of these columns is missing and count them in ``dropped``, instead of refusing them.
        Nothing may be released of what is left before `Table.with_public_count`.
    fill : float or mapping, optional
        Put this number, or that of the column, in the place of a missing value instead.

    Raises
    ------
    InputError
        If the file cannot be read as a table of finite numbers. The message names the file and, where there is one,
        the column, the row and the line.
    """
    readers = {".csv": read_csv, ".parquet": read_parquet}
    suffix = Path(path).suffix.lower()
    if suffix not in readers:
        raise InputError(f"path: {path} given, a file whose name ends in .csv or .parquet expected: save it so")
    return readers[suffix](path, columns, drop_missing=drop_missing, fill=fill)


def column_names(path: str | Path) -> tuple[str, ...]:
    """Return the names of the columns of a CSV or Parquet file, whatever they hold."""
    return _labels(path, None)[0]


def read_labels(path: str | Path, column: str) -> list[str]:
    """Read a column of text or whole numbers as text, one label for each row, in the order of the rows.

    Spaces around the text of a CSV file are not part of it; whole numbers of a Parquet file are written in decimal.

    Raises
    ------
    InputError
        If there is no such column, a label is missing, or a Parquet column holds anything else. The message names the
        row and quotes no label.
    """
    labels = _labels(path, column)[1]
    for row, label in enumerate(labels, 1):
        if label.lower() in MISSING:
            raise InputError(f"{path}: column {column!r}, row {row}: the label is missing")
    return labels


def _labels(path: str | Path, column: str | None) -> tuple[tuple[str, ...], list[str]]:
    """Return the names of all columns, and the text of one of them if it is asked for."""
    with input_errors(path):
        if Path(path).suffix.lower() == ".parquet":
            return parquet_labels(path, column)
        source = CsvFile(Path(path), ",")
        if column is None:
            return source.header, []
        position = position_of(column, source.header, "key")
        return source.header, [cells[position].strip() for _, cells in source.records()]

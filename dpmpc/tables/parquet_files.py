"""Parquet files, by pyarrow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpmpc.errors import InputError
from dpmpc.tables.csv_files import numeric_hint
from dpmpc.tables.names import check_names, position_of
from dpmpc.tables.table import Fill, Table, complete


def read_parquet(
    path: str | Path, columns: Sequence[str] | None = None, *, drop_missing: bool = False, fill: Fill = None
) -> Table:
    """Read columns of numbers or truth values, as `read_table` does; nulls and NaN count as missing."""
    pa, pq = load_pyarrow(path)
    try:
        with pq.ParquetFile(path) as source:
            names = check_names(source.schema_arrow.names, str(path))
            chosen = names if columns is None else check_names(columns, "columns")
            types = [source.schema_arrow.types[position_of(name, names, "columns")] for name in chosen]
            for name, kind in zip(chosen, types, strict=True):
                if not _holds_numbers(pa, kind):
                    numeric = [
                        n for n, k in zip(names, source.schema_arrow.types, strict=True) if _holds_numbers(pa, k)
                    ]
                    raise InputError(f"{path}: column {name!r} holds {kind}{numeric_hint(numeric)}")
            arrow = source.read(columns=list(chosen))
    except pa.ArrowInvalid as error:
        raise InputError(f"{path}: not a Parquet file: {error}") from error
    except OSError as error:
        raise InputError(f"path: {path} cannot be read: {error.strerror or error}") from error
    values = np.empty((arrow.num_rows, len(chosen)))
    for position, name in enumerate(chosen):
        # Integers beyond 2^53 are rounded, as everywhere in float64.
        values[:, position] = arrow.column(name).cast(pa.float64(), safe=False).to_numpy()
    return complete(chosen, values, drop_missing, str(path), lambda row: f"row {row}", fill)


def load_pyarrow(path: str | Path, argument: str = "path") -> tuple[Any, Any]:
    """Return pyarrow and pyarrow.parquet, or say how to get them; `argument` is what the error names."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise InputError(f"{argument}: {path} needs pyarrow to be read: pip install 'dpmpc[parquet]'") from error
    return pa, pq


def parquet_labels(path: str | Path, column: str | None) -> tuple[tuple[str, ...], list[str]]:
    """Return the names of all columns, and the text of one of them if it is asked for."""
    pa, pq = load_pyarrow(path)
    try:
        with pq.ParquetFile(path) as source:
            names = check_names(source.schema_arrow.names, str(path))
            if column is None:
                return names, []
            kind = source.schema_arrow.types[position_of(column, names, "key")]
            if not any(test(kind) for test in (pa.types.is_integer, pa.types.is_string, pa.types.is_large_string)):
                raise InputError(f"{path}: column {column!r} holds {kind}, text or whole numbers expected")
            values = source.read(columns=[column]).column(column).to_pylist()
            return names, ["" if value is None else str(value).strip() for value in values]
    except pa.ArrowInvalid as error:
        raise InputError(f"{path}: not a Parquet file: {error}") from error


def _holds_numbers(pa: Any, kind: Any) -> bool:
    types = pa.types
    tests = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean)
    return any(test(kind) for test in tests)

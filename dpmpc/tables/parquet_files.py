"""Read Parquet files by pyarrow: columns of numbers, and columns of text."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmpc.errors import InputError
from dpmpc.tables.csv_files import numeric_hint
from dpmpc.tables.table import Cell, cell_of, check_names


class ParquetFile:
    """A Parquet file."""

    def __init__(self, path: str | Path):
        self.path = path
        self._arrow, self._parquet = load_pyarrow(path)
        with self._open() as source:
            self.header = check_names(source.schema_arrow.names, str(path))
            self._types = source.schema_arrow.types

    def numbers(self, positions: list[int]) -> NDArray[np.float64]:
        """Return columns of numbers or truth values, NaN where missing, shape (rows, len(positions))."""
        for position in positions:
            if not self._holds_numbers(position):
                numeric = [name for place, name in enumerate(self.header) if self._holds_numbers(place)]
                raise InputError(
                    f"{self.path}: column {self.header[position]!r} holds {self._types[position]}"
                    f"{numeric_hint(numeric)}"
                )
        table = self._read(positions)
        values = np.empty((table.num_rows, len(positions)))
        for column, position in enumerate(positions):
            # Integers beyond 2^53 are rounded, as everywhere in float64.
            arrow = table.column(self.header[position]).cast(self._arrow.float64(), safe=False)
            values[:, column] = arrow.to_numpy()
        return values

    def texts(self, positions: list[int]) -> list[list[Cell]]:
        """Return columns as text, numbers and truth values too; dates stay dates, and None is what is missing."""
        table = self._read(positions)
        found = []
        for position in positions:
            kind = self._types[position]
            if self._arrow.types.is_nested(kind) or self._arrow.types.is_binary(kind):
                raise InputError(f"{self.path}: column {self.header[position]!r} holds {kind}, text expected")
            found.append([cell_of(value) for value in table.column(self.header[position]).to_pylist()])
        return found

    def labels(self, position: int) -> list[str]:
        """Return a column of text or whole numbers as text, empty where it is missing."""
        kind, types = self._types[position], self._arrow.types
        if not any(test(kind) for test in (types.is_integer, types.is_string, types.is_large_string)):
            raise InputError(
                f"{self.path}: column {self.header[position]!r} holds {kind}, text or whole numbers expected"
            )
        return ["" if cell is None else str(cell) for cell in self.texts([position])[0]]

    def locate(self, row: int) -> str:
        """Name a row, counted from 1."""
        return f"row {row}"

    def _read(self, positions: list[int]) -> Any:
        with self._open() as source:
            return source.read(columns=[self.header[position] for position in positions])

    @contextlib.contextmanager
    def _open(self) -> Iterator[Any]:
        try:
            with self._parquet.ParquetFile(self.path) as source:
                yield source
        except self._arrow.ArrowInvalid as error:
            raise InputError(f"{self.path}: not a Parquet file: {error}") from error
        except OSError as error:
            raise InputError(f"path: {self.path} cannot be read: {error.strerror or error}") from error

    def _holds_numbers(self, position: int) -> bool:
        types, kind = self._arrow.types, self._types[position]
        tests = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean)
        return any(test(kind) for test in tests)


def load_pyarrow(path: str | Path, argument: str = "path") -> tuple[Any, Any]:
    """Return pyarrow and pyarrow.parquet, or say how to get them; `argument` is what the error names."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise InputError(
            f"{argument}: {path} needs pyarrow to be read: pip install '.[parquet]' in dpmpc's source folder"
        ) from error
    return pa, pq

"""Where the files of data sets are looked for, how to get them, and how they are read."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError
from dpmpc.data.table import Table, check_finite
from dpmpc.data.table_files import read_csv, read_parquet

FOLDER_VARIABLE = "DPMPC_DATA"


def data_folder(how: str = "") -> Path:
    """Return the folder that the environment variable ``DPMPC_DATA`` names.

    Parameters
    ----------
    how : str
        How to get what is looked for there; part of the error.

    Raises
    ------
    InputError
        If it is not set, or names no folder.
    """
    value = os.environ.get(FOLDER_VARIABLE)
    if not value:
        raise InputError(FOLDER_VARIABLE, "nothing", "the folder with the data sets", how or None)
    folder = Path(value)
    if not folder.is_dir():
        raise InputError(FOLDER_VARIABLE, value, "an existing folder", how or None)
    return folder


def uci(title: str, number: int, file: str) -> str:
    """Return where a data set comes from."""
    return (
        f"Download '{title}' from the UCI Machine Learning Repository (https://archive.ics.uci.edu/dataset/{number}) "
        f"and unpack {file}."
    )


def file_in_folder(files: tuple[str, str], how: str) -> Path:
    """Return the first of two files that is in the folder."""
    folder = data_folder(how)
    for file in files:
        if (folder / file).exists():
            return folder / file
    raise InputError(FOLDER_VARIABLE, f"{folder} holds neither {files[0]} nor {files[1]}. {how}")


def from_folder(
    files: tuple[str, str], names: tuple[str, ...], how: str, *, missing: bool = False, delimiter: str = ","
) -> Table:
    """Read the columns of the Parquet file or the CSV file, whichever is in the folder; drop what may be missing."""
    path = file_in_folder(files, how)
    if path.suffix == ".parquet":
        return read_parquet(path, names, drop_missing=missing)
    return read_csv(path, names, drop_missing=missing, delimiter=delimiter)


def read_numbers(path: str | Path, how: str, *, columns: int, delimiter: str | None = None, skip: int = 0) -> Reals:
    """Read a text file of numbers without names, (n, columns); without delimiter, columns are parted by blanks."""
    if not Path(path).is_file():
        raise InputError("path", f"{path} given, an existing file expected. {how}")
    try:
        values = np.loadtxt(path, delimiter=delimiter, skiprows=skip, ndmin=2)
    except ValueError as error:
        raise InputError(path, f"{columns} numbers in each line expected ({error}). {how}") from error
    if len(values) == 0 or values.shape[1] != columns:
        raise InputError(path, f"an array of {values.shape} found, {columns} numbers in each line expected. {how}")
    check_finite(str(path), values, [str(position) for position in range(columns)])
    return values

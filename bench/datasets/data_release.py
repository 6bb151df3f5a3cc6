"""The data sets of Wu et al. (UAI 2022): Bike, SGEMM, Insurance and Superconduct."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np

from bench.datasets.dataset_files import file_in_folder, from_folder, uci
from dpmpc.base.errors import InputError
from dpmpc.data.columns import Column
from dpmpc.data.schemas import Schema
from dpmpc.data.table import Table
from dpmpc.data.table_files import load_pyarrow

BIKE_TARGET = "cnt"

#: Public bounds of an hour of Washington's bike sharing: calendars, UCI's own normalisation of the weather, and the
#: 1,600 or so bikes in service.
BIKE_BOUNDS = Schema(
    (
        Column("season", 1, 4),
        Column("yr", 0, 1),
        Column("mnth", 1, 12),
        Column("hr", 0, 23),
        Column("holiday", 0, 1),
        Column("weekday", 0, 6),
        Column("workingday", 0, 1),
        Column("weathersit", 1, 4),
        Column("temp", 0, 1),
        Column("atemp", 0, 1),
        Column("hum", 0, 1),
        Column("windspeed", 0, 1),
        Column("cnt", 0, 1600),
    )
)

SGEMM_TARGET = "log_run_ms"

#: Public bounds of the kernel parameters, by the grid that was measured, and of a run: from 10 ms to 10 s.
SGEMM_BOUNDS = Schema(
    (
        Column("MWG", 16, 128),
        Column("NWG", 16, 128),
        Column("KWG", 16, 32),
        Column("MDIMC", 8, 32),
        Column("NDIMC", 8, 32),
        Column("MDIMA", 8, 32),
        Column("NDIMB", 8, 32),
        Column("KWI", 2, 8),
        Column("VWM", 1, 8),
        Column("VWN", 1, 8),
        Column("STRM", 0, 1),
        Column("STRN", 0, 1),
        Column("SA", 0, 1),
        Column("SB", 0, 1),
        Column(SGEMM_TARGET, math.log(10), math.log(10_000)),
    )
)

_SGEMM_RUNS = tuple(f"Run{run} (ms)" for run in range(1, 5))

INSURANCE_TARGET = "charges"

INSURANCE_REGIONS = ("northeast", "northwest", "southeast", "southwest")

#: Public bounds of a beneficiary: adults below the age of Medicare, body mass indices that are compatible with life,
#: children, truth values, and 100,000 dollars a year for the most that is charged.
INSURANCE_BOUNDS = Schema(
    (
        Column("age", 18, 64),
        Column("male", 0, 1),
        Column("bmi", 10, 60),
        Column("children", 0, 10),
        Column("smoker", 0, 1),
        *(Column(region, 0, 1) for region in INSURANCE_REGIONS),
        Column(INSURANCE_TARGET, 0, 100_000),
    )
)

_INSURANCE_COLUMNS = ("age", "sex", "bmi", "children", "smoker", "region", INSURANCE_TARGET)

SUPERCONDUCT_TARGET = "critical_temp"

#: Property of a chemical element -> the largest value in the periodic table, rounded up, in UCI's units.
_ELEMENTS = {
    "atomic_mass": 250,
    "fie": 2400,
    "atomic_radius": 300,
    "Density": 22_650,
    "ElectronAffinity": 350,
    "FusionHeat": 120,
    "ThermalConductivity": 430,
    "Valence": 8,
}

_MOST_ELEMENTS = 10  # in one material


def _statistics(name: str, largest: float) -> tuple[Column, ...]:
    """Return bounds of UCI's ten statistics of numbers in [0, largest]: means, entropies, ranges, deviations."""
    entropy = math.log(_MOST_ELEMENTS)
    bounds = {"mean": largest, "gmean": largest, "entropy": entropy, "range": largest, "std": largest / 2}
    return tuple(Column(f"{w}{kind}_{name}", 0, upper) for kind, upper in bounds.items() for w in ("", "wtd_"))


#: Public bounds of a material: those of the elements' properties, and 210 K for the critical temperature.
SUPERCONDUCT_BOUNDS = Schema(
    (
        Column("number_of_elements", 1, _MOST_ELEMENTS),
        *(column for name, largest in _ELEMENTS.items() for column in _statistics(name, largest)),
        Column(SUPERCONDUCT_TARGET, 0, 210),
    )
)


def load_bike() -> Table:
    """Load the hourly rentals of a bike-sharing system in Washington, 2011 and 2012.

    Fanaee-T and Gama (2013), UCI id 275, doi 10.24432/C5W894, licence CC BY 4.0: predict `BIKE_TARGET`. The folder
    holds ``bike_hour.parquet`` or UCI's ``hour.csv``.

    Returns
    -------
    Table, shape (17379, 13)
        The columns of `BIKE_BOUNDS`.

    Raises
    ------
    InputError
        If there is no such folder or file, or it is not as expected.
    """
    return from_folder(("bike_hour.parquet", "hour.csv"), BIKE_BOUNDS.names, uci("Bike Sharing", 275, "hour.csv"))


def load_sgemm() -> Table:
    """Load the run times of a GPU's matrix product for all settings of 14 parameters.

    Paredes and Ballester-Ripoll (2018), UCI id 440, licence CC BY 4.0: predict `SGEMM_TARGET`, the logarithm of the
    mean of four runs. The folder holds ``sgemm_product.parquet`` or UCI's ``sgemm_product.csv``.

    Returns
    -------
    Table, shape (241600, 15)
        The columns of `SGEMM_BOUNDS`.

    Raises
    ------
    InputError
        If there is no such folder or file, or it is not as expected.
    """
    parameters = SGEMM_BOUNDS.names[:-1]
    how = uci("SGEMM GPU kernel performance", 440, "sgemm_product.csv")
    table = from_folder(("sgemm_product.parquet", "sgemm_product.csv"), (*parameters, *_SGEMM_RUNS), how)
    run = np.log(table.select(_SGEMM_RUNS).values.mean(axis=1))
    return Table(SGEMM_BOUNDS.names, np.column_stack([table.select(parameters).values, run]))


def load_insurance() -> Table:
    """Load what a health insurance charges; "Insurance" of Wu et al. (UAI 2022).

    Lantz (2013), *Machine Learning with R*, simulated from census figures: predict `INSURANCE_TARGET`. The folder holds
    ``insurance.parquet`` or the book's ``insurance.csv``.

    Returns
    -------
    Table, shape (1338, 10)
        The columns of `INSURANCE_BOUNDS`: sex and smoker are truth values, each region is its own column.

    Raises
    ------
    InputError
        If there is no such folder or file, or it is not as expected.
    """
    how = (
        "Download insurance.csv of Lantz, 'Machine Learning with R' "
        "(https://github.com/stedy/Machine-Learning-with-R-datasets)."
    )
    path = file_in_folder(("insurance.parquet", "insurance.csv"), how)
    return _insurance_table(path, _text_columns(path, _INSURANCE_COLUMNS))


def load_superconduct() -> Table:
    """Load superconductors and their critical temperatures; "Superconductor" of Wu et al. (UAI 2022).

    Hamidieh (2018), UCI id 464, doi 10.24432/C53P47, licence CC BY 4.0: predict `SUPERCONDUCT_TARGET`. The folder holds
    ``superconduct.parquet``, or UCI's ``train.csv`` as ``superconduct.csv``. Rows without a temperature are dropped.

    Returns
    -------
    Table, shape (n, 82)
        The columns of `SUPERCONDUCT_BOUNDS`; UCI's n is 21,263.

    Raises
    ------
    InputError
        If there is no such folder or file, or it is not as expected.
    """
    how = uci("Superconductivty Data", 464, "train.csv")
    return from_folder(("superconduct.parquet", "superconduct.csv"), SUPERCONDUCT_BOUNDS.names, how, missing=True)


def _insurance_table(path: Path, cells: dict[str, list[str]]) -> Table:
    """Turn the words of the file into numbers."""
    known = {"sex": ("female", "male"), "smoker": ("no", "yes"), "region": INSURANCE_REGIONS}
    for name, words in known.items():
        for word in cells[name]:
            if word not in words:
                raise InputError(f"{path}", f"column {name!r}: {word!r}", f"one of {', '.join(words)}")
    try:
        numbers = {name: np.array(cells[name], np.float64) for name in _INSURANCE_COLUMNS if name not in known}
    except ValueError as error:
        raise InputError(path, f"numbers expected in columns age, bmi, children and charges ({error})") from error
    columns = {
        **numbers,
        "male": np.array(cells["sex"]) == "male",
        "smoker": np.array(cells["smoker"]) == "yes",
        **{region: np.array(cells["region"]) == region for region in INSURANCE_REGIONS},
    }
    return Table(INSURANCE_BOUNDS.names, np.column_stack([columns[name] for name in INSURANCE_BOUNDS.names]))


def _text_columns(path: Path, names: tuple[str, ...]) -> dict[str, list[str]]:
    """Read columns of a small Parquet or CSV file as text."""
    if path.suffix == ".parquet":
        _, pq = load_pyarrow(path)
        rows = pq.read_table(path).to_pylist()
    else:
        with path.open(newline="", encoding="utf-8-sig") as handle:
            rows = list(csv.DictReader(handle))
    try:
        return {name: [str(row[name]) for row in rows] for name in names}
    except KeyError as error:
        raise InputError(path, f"no column {error}; columns {', '.join(names)} expected") from error

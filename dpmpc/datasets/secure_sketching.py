"""The data sets of Burkhardt et al. (ICML 2025): Power, Elevation, Songs and Ethylene.

The digits of Showkatbakhsh, Karakus and Diggavi (ISIT 2018): MNIST's fours and nines.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpmpc.bounds import Column, Schema
from dpmpc.datasets.files import FOLDER_VARIABLE, data_folder, from_folder, read_numbers, uci
from dpmpc.errors import InputError
from dpmpc.tables import Table, read_parquet


def load_mnist_4_9() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Load MNIST's handwritten fours and nines; Figure 3 of Showkatbakhsh, Karakus and Diggavi (ISIT 2018).

    LeCun, Cortes and Burges, licence CC BY-SA 3.0. The folder holds ``mnist_4_9.npz`` with ``x_train`` (bytes, a row of
    784 pixels for each image) and ``y_train`` (4 or 9), the training part in its order.

    Returns
    -------
    images : ndarray of float64, shape (11791, 784)
        Pixels in [0, 1].
    labels : ndarray of float64, shape (11791,)
        1 for a four, -1 for a nine.

    Raises
    ------
    InputError
        If there is no such folder or file, or it is not as expected.
    """
    how = "Cut the digits 4 and 9 out of MNIST's training part and save them with numpy.savez."
    path = data_folder(how) / "mnist_4_9.npz"
    if not path.is_file():
        raise InputError(f"{FOLDER_VARIABLE}: {path.parent} does not hold {path.name}. {how}")
    with np.load(path, allow_pickle=False) as arrays:
        if not {"x_train", "y_train"} <= set(arrays):
            raise InputError(f"{path}: arrays {sorted(arrays)} found, x_train and y_train expected. {how}")
        images, digits = arrays["x_train"], arrays["y_train"]
    if images.shape != (len(digits), 784) or not np.isin(digits, (4, 9)).all():
        raise InputError(f"{path}: x_train of {images.shape} found, 784 pixels of each four or nine expected. {how}")
    return images / 255.0, np.where(digits == 4, 1.0, -1.0)


POWER_TARGET = "Global_active_power"

#: Public bounds of the household's readings, in the order of the file:
#:
#: - active power, kW, mean over a minute: at most 12 kVA, the largest usual single-phase contract of French homes;
#: - reactive power, kvar: at most 0.4 of it, the tan(phi) that French grid contracts tolerate;
#: - voltage, V: EN 50160 holds the grid to 230 V plus or minus 10 %;
#: - current, A: the 60 A breaker that goes with 12 kVA;
#: - sub-meters (kitchen, laundry, heater and air conditioner), Wh in a minute: half of the contract, 6 kW, is 100 Wh.
POWER_BOUNDS = Schema(
    (
        Column("Global_active_power", 0, 12),
        Column("Global_reactive_power", 0, 4.8),
        Column("Voltage", 207, 253),
        Column("Global_intensity", 0, 60),
        Column("Sub_metering_1", 0, 100),
        Column("Sub_metering_2", 0, 100),
        Column("Sub_metering_3", 0, 100),
    )
)

_POWER_DECIMALS = 3

ELEVATION_TARGET = "altitude"

#: Public bounds of North Jutland: its longitudes and latitudes, and 140 m for the highest of its hills.
ELEVATION_BOUNDS = Schema((Column("longitude", 8, 11.3), Column("latitude", 56.5, 57.8), Column("altitude", -10, 140)))

SONGS_TARGET = "year"

SONGS_NAMES = (
    "year",
    *(f"timbre_mean_{number}" for number in range(1, 13)),
    *(f"timbre_covariance_{number}" for number in range(1, 79)),
)

ETHYLENE_TARGET = "sensor_16"

ETHYLENE_NAMES = ("seconds", "gas_ppm", "ethylene_ppm", *(f"sensor_{number}" for number in range(1, 17)))


def load_power() -> Table:
    """Load the electric power consumption of one household, a reading a minute over almost four years.

    A row is a minute: what is promised for a row protects a minute, not the household.

    Hebrail and Berard (2012), *Individual Household Electric Power Consumption*, UCI Machine Learning Repository,
    id 235, doi 10.24432/C58K54, licence CC BY 4.0: a house in Sceaux near Paris, from 2006-12-16 to 2010-11-26. It is
    "Power" in the experiments of Burkhardt et al. (ICML 2025): predict `POWER_TARGET` from the six other columns.

    The folder (`data_folder`) holds either ``household_power_consumption.txt`` as it comes from UCI, or the same
    readings as ``household_power.parquet``, which is preferred.

    Returns
    -------
    Table, shape (2049280, 7)
        The columns of `POWER_BOUNDS` with three decimals; the 25,979 minutes without readings are dropped.

    Raises
    ------
    InputError
        If there is no such folder or file, or it is not as expected.
    """
    files = ("household_power.parquet", "household_power_consumption.txt")
    how = uci("Individual Household Electric Power Consumption", 235, files[1])
    table = from_folder(files, POWER_BOUNDS.names, how, missing=True, delimiter=";")
    # The Parquet file stores float32: rounding restores the decimals of the original.
    return Table(table.names, table.values.round(_POWER_DECIMALS), table.dropped)


def load_elevation(path: str | Path) -> Table:
    """Load the altitudes of North Jutland's roads; "Elevation" of Burkhardt et al. (ICML 2025).

    Kaul (2013), UCI id 246, doi 10.24432/C5GP51, licence CC BY 4.0: predict `ELEVATION_TARGET`.

    Parameters
    ----------
    path : str or Path
        UCI's ``3D_spatial_network.txt``, 434,874 lines; or the same columns as a Parquet file.

    Returns
    -------
    Table, shape (n, 3)
        The columns of `ELEVATION_BOUNDS`.

    Raises
    ------
    InputError
        If the file is missing, or not as expected.
    """
    how = uci("3D Road Network (North Jutland, Denmark)", 246, "3D_spatial_network.txt")
    if Path(path).suffix == ".parquet" and Path(path).exists():
        return read_parquet(path, ELEVATION_BOUNDS.names)
    values = read_numbers(path, how, columns=4, delimiter=",")
    return Table(ELEVATION_BOUNDS.names, values[:, 1:])  # the first is OpenStreetMap's number of the road


def load_songs(path: str | Path) -> Table:
    """Load the audio features of songs and the year of their release; "Songs" of Burkhardt et al. (ICML 2025).

    Bertin-Mahieux (2011), UCI id 203, doi 10.24432/C50K61: predict `SONGS_TARGET`.

    Parameters
    ----------
    path : str or Path
        UCI's ``YearPredictionMSD.txt``, 515,345 lines.

    Returns
    -------
    Table, shape (n, 91)
        Twelve means and 78 covariances of timbre; the paper says d = 89, one less.

    Raises
    ------
    InputError
        If the file is missing, or not as expected.
    """
    how = uci("YearPredictionMSD", 203, "YearPredictionMSD.txt")
    return Table(SONGS_NAMES, read_numbers(path, how, columns=len(SONGS_NAMES), delimiter=","))


def load_ethylene(path: str | Path) -> Table:
    """Load gas sensors exposed to mixtures with ethylene; "Ethylene" of Burkhardt et al. (ICML 2025).

    Fonollosa (2015), UCI id 322, doi 10.24432/C5WP4C, licence CC BY 4.0: predict `ETHYLENE_TARGET`, a TGS2620. The
    paper speaks of ethylene and CO, but its n = 4,178,504 is that of ``ethylene_methane.txt``; ``ethylene_CO.txt`` has
    4,208,261 rows. Both have the same columns.

    Parameters
    ----------
    path : str or Path
        Either file.

    Returns
    -------
    Table, shape (n, 19)
        Time, two concentrations, 16 sensors.

    Raises
    ------
    InputError
        If the file is missing, or not as expected.
    """
    how = uci("Gas sensor array under dynamic gas mixtures", 322, "ethylene_methane.txt")
    return Table(ETHYLENE_NAMES, read_numbers(path, how, columns=len(ETHYLENE_NAMES), skip=1))

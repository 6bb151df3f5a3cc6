"""Data to try things on: public data sets of the papers and a generated population.

Bounds, where a data set has them here, follow from devices, contracts and definitions, never from the rows. Real data
sets are not part of the package. `data_folder` says where Power, Bike, SGEMM, Insurance and Superconduct are looked
for; the others are read from the path of UCI's own file. Songs and Ethylene come without bounds: nobody publishes the
range of a timbre or of a sensor's conductance, and whoever releases them has to decide on one without looking. The
generated population describes nobody: for one version of NumPy it depends on its seed and on nothing else.
"""

from __future__ import annotations

import csv
import math
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpmpc.bounds import Column, Schema
from dpmpc.errors import InputError
from dpmpc.tables import Table, check_finite, read_csv, read_parquet

FOLDER_VARIABLE = "DPMPC_DATA"
_HOW_TO_GET = (
    "Download 'Individual Household Electric Power Consumption' from the UCI Machine Learning Repository "
    "(https://archive.ics.uci.edu/dataset/235) and unpack household_power_consumption.txt there."
)

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
    """Bounds of UCI's ten statistics of numbers in [0, largest]: means, entropies, ranges, standard deviations."""
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

DEMO_TARGET = "income_thousands"
#: Public bounds of the generated population; the target comes last.
DEMO_BOUNDS = Schema(
    (
        Column("schooling_years", 4, 24),
        Column("tenure_years", 0, 20),
        Column("overtime_hours", 0, 20),
        Column("commute_km", 0, 20),
        Column("training_days", 0, 20),
        Column(DEMO_TARGET, 44, 156),
    )
)
DEMO_FEATURES = DEMO_BOUNDS.names[:-1]
#: Public L2 radius of the normalised rows. The 30 % of the population that lie beyond are shrunk, which keeps the
#: direction of their rows and moves the fitted coefficients by 0.7 %; the sensitivity falls from 2 sqrt(6) to 2.3.
DEMO_RADIUS = 1.15
_DEMO_COEFFICIENTS = (3.0, 1.5, 2.0, -1.2, 1.5)  # thousands for each year, year, hour, km, day
_DEMO_INTERCEPT = 20.0  # puts the income of the person in the middle at 100, the middle of its bounds
_DEMO_RESIDUAL = 5.0  # standard deviation, thousands: R^2 = 0.95
_DEMO_COMMON = 0.3  # weight of the part that all features share: correlations of 0.16


class Population(NamedTuple):
    """A generated population and the linear model that made its target.

    Attributes
    ----------
    table : Table
        Features and target, in the order of `DEMO_BOUNDS`.
    coefficients : ndarray of float64, shape (5,)
        Thousands for each unit of a feature, in the order of the features.
    intercept : float
        Thousands.
    """

    table: Table
    coefficients: NDArray[np.float64]
    intercept: float


def data_folder() -> Path:
    """Return the folder that the environment variable ``DPMPC_DATA`` names.

    Raises
    ------
    InputError
        If it is not set, or names no folder.
    """
    value = os.environ.get(FOLDER_VARIABLE)
    if not value:
        raise InputError(f"{FOLDER_VARIABLE} is not set: make it name the folder with the data sets. {_HOW_TO_GET}")
    folder = Path(value)
    if not folder.is_dir():
        raise InputError(f"{FOLDER_VARIABLE}: {value} given, an existing folder expected. {_HOW_TO_GET}")
    return folder


def load_power() -> Table:
    """Load the electric power consumption of one household, a reading a minute over almost four years.

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
    folder = data_folder()
    parquet, text = folder / "household_power.parquet", folder / "household_power_consumption.txt"
    if parquet.exists():
        table = read_parquet(parquet, POWER_BOUNDS.names, drop_missing=True)
    elif text.exists():
        table = read_csv(text, POWER_BOUNDS.names, drop_missing=True, delimiter=";")
    else:
        raise InputError(f"{FOLDER_VARIABLE}: {folder} holds neither {parquet.name} nor {text.name}. {_HOW_TO_GET}")
    # The Parquet file stores float32: rounding restores the decimals of the original.
    return Table(table.names, table.values.round(_POWER_DECIMALS), table.dropped)


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
    return _from_folder(("bike_hour.parquet", "hour.csv"), BIKE_BOUNDS.names, _uci("Bike Sharing", 275, "hour.csv"))


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
    how = _uci("SGEMM GPU kernel performance", 440, "sgemm_product.csv")
    table = _from_folder(("sgemm_product.parquet", "sgemm_product.csv"), (*parameters, *_SGEMM_RUNS), how)
    run = np.log(table.select(_SGEMM_RUNS).values.mean(axis=1))
    return Table(SGEMM_BOUNDS.names, np.column_stack([table.select(parameters).values, run]))


def load_insurance() -> Table:
    """Load what a health insurance charges; "Insurance" of Wu et al. (UAI 2022).

    Lantz (2013), *Machine Learning with R*, simulated from census figures: predict `INSURANCE_TARGET`. The folder holds
    ``insurance.parquet`` or the book's ``insurance.csv``.

    Returns
    -------
    Table, shape (1338, 10)
        The columns of `INSURANCE_BOUNDS`: sex and smoker are truth values, each region is a column of its own.

    Raises
    ------
    InputError
        If there is no such folder or file, or it is not as expected.
    """
    folder = data_folder()
    parquet, text = folder / "insurance.parquet", folder / "insurance.csv"
    if not (parquet.exists() or text.exists()):
        raise InputError(
            f"{FOLDER_VARIABLE}: {folder} holds neither {parquet.name} nor {text.name}. Download {text.name} of Lantz, "
            "'Machine Learning with R' (https://github.com/stedy/Machine-Learning-with-R-datasets)."
        )
    path = parquet if parquet.exists() else text
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
    how = _uci("Superconductivty Data", 464, "train.csv")
    return _from_folder(("superconduct.parquet", "superconduct.csv"), SUPERCONDUCT_BOUNDS.names, how, missing=True)


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
    how = _uci("3D Road Network (North Jutland, Denmark)", 246, "3D_spatial_network.txt")
    if Path(path).suffix == ".parquet" and Path(path).exists():
        return read_parquet(path, ELEVATION_BOUNDS.names)
    values = _numbers(path, how, columns=4, delimiter=",")
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
    how = _uci("YearPredictionMSD", 203, "YearPredictionMSD.txt")
    return Table(SONGS_NAMES, _numbers(path, how, columns=len(SONGS_NAMES), delimiter=","))


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
    how = _uci("Gas sensor array under dynamic gas mixtures", 322, "ethylene_methane.txt")
    return Table(ETHYLENE_NAMES, _numbers(path, how, columns=len(ETHYLENE_NAMES), skip=1))


def demo_population(clients: int = 1_000_000, seed: int = 0) -> Population:
    """Generate people with five features and an income that is linear in them up to a Gaussian residual.

    Every feature is ``round(middle + half width (0.3 c + 0.7 u))`` with c, shared by a person's features, and u, of
    this feature alone, uniform on [-1, 1]: within its bounds, centred, weakly correlated (0.16) with the others. Income
    is ``20 + 3 schooling + 1.5 tenure + 2 overtime - 1.2 commute + 1.5 training`` plus N(0, 5^2), in thousands; R^2 is
    0.947, and seven persons in a thousand earn more or less than the bounds allow.

    Parameters
    ----------
    clients : int
        How many people, at least 1.
    seed : int
        Seed of NumPy's PCG64, at least 0: this is data, not noise, and need not be secret.

    Returns
    -------
    Population
        ``(table, coefficients, intercept)``.

    Raises
    ------
    InputError
        If a number is out of range.
    """
    _expect_integer("clients", clients, least=1)
    _expect_integer("seed", seed, least=0)
    generator = np.random.Generator(np.random.PCG64(seed))
    coefficients = np.array(_DEMO_COEFFICIENTS)
    features = len(coefficients)
    uniform = generator.uniform(-1.0, 1.0, (clients, features + 1))
    common, own = uniform[:, features:], uniform[:, :features]
    values = np.empty((clients, features + 1))
    inputs = values[:, :features]
    np.multiply(own, 1 - _DEMO_COMMON, out=inputs)
    inputs += _DEMO_COMMON * common
    inputs *= DEMO_BOUNDS.slope[:features]
    inputs += DEMO_BOUNDS.offset[:features]
    np.rint(inputs, out=inputs)
    residual = generator.normal(0.0, _DEMO_RESIDUAL, clients)
    values[:, features] = _DEMO_INTERCEPT + inputs @ coefficients + residual
    return Population(Table(DEMO_BOUNDS.names, values), coefficients, _DEMO_INTERCEPT)


def _uci(title: str, number: int, file: str) -> str:
    return (
        f"Download '{title}' from the UCI Machine Learning Repository (https://archive.ics.uci.edu/dataset/{number}) "
        f"and unpack {file}."
    )


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
    path = data_folder() / "mnist_4_9.npz"
    how = "Cut the digits 4 and 9 out of MNIST's training part and save them with numpy.savez."
    if not path.is_file():
        raise InputError(f"{FOLDER_VARIABLE}: {path.parent} does not hold {path.name}. {how}")
    with np.load(path, allow_pickle=False) as arrays:
        if not {"x_train", "y_train"} <= set(arrays):
            raise InputError(f"{path}: arrays {sorted(arrays)} found, x_train and y_train expected. {how}")
        images, digits = arrays["x_train"], arrays["y_train"]
    if images.shape != (len(digits), 784) or not np.isin(digits, (4, 9)).all():
        raise InputError(f"{path}: x_train of {images.shape} found, 784 pixels of each four or nine expected. {how}")
    return images / 255.0, np.where(digits == 4, 1.0, -1.0)


def _insurance_table(path: Path, cells: dict[str, list[str]]) -> Table:
    """Turn the words of the file into numbers."""
    known = {"sex": ("female", "male"), "smoker": ("no", "yes"), "region": INSURANCE_REGIONS}
    for name, words in known.items():
        for word in cells[name]:
            if word not in words:
                raise InputError(f"{path}: column {name!r}: {word!r} given, one of {', '.join(words)} expected")
    try:
        numbers = {name: np.array(cells[name], np.float64) for name in _INSURANCE_COLUMNS if name not in known}
    except ValueError as error:
        raise InputError(f"{path}: numbers expected in columns age, bmi, children and charges ({error})") from error
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
        try:
            import pyarrow.parquet as pq
        except ImportError as error:
            raise InputError(f"path: {path} needs pyarrow to be read: pip install dpmpc[parquet]") from error
        rows = pq.read_table(path).to_pylist()
    else:
        with path.open(newline="", encoding="utf-8-sig") as handle:
            rows = list(csv.DictReader(handle))
    try:
        return {name: [str(row[name]) for row in rows] for name in names}
    except KeyError as error:
        raise InputError(f"{path}: no column {error}; columns {', '.join(names)} expected") from error


def _from_folder(files: tuple[str, str], names: tuple[str, ...], how: str, *, missing: bool = False) -> Table:
    """Read the columns of the Parquet file or the CSV file, whichever is in the folder; drop what may be missing."""
    folder = data_folder()
    parquet, text = (folder / file for file in files)
    if parquet.exists():
        return read_parquet(parquet, names, drop_missing=missing)
    if text.exists():
        return read_csv(text, names, drop_missing=missing)
    raise InputError(f"{FOLDER_VARIABLE}: {folder} holds neither {parquet.name} nor {text.name}. {how}")


def _numbers(
    path: str | Path, how: str, *, columns: int, delimiter: str | None = None, skip: int = 0
) -> NDArray[np.float64]:
    """Read a text file of numbers without names, (n, columns); without delimiter, columns are parted by blanks."""
    if not Path(path).is_file():
        raise InputError(f"path: {path} given, an existing file expected. {how}")
    try:
        values = np.loadtxt(path, delimiter=delimiter, skiprows=skip, ndmin=2)
    except ValueError as error:
        raise InputError(f"{path}: {columns} numbers in each line expected ({error}). {how}") from error
    if len(values) == 0 or values.shape[1] != columns:
        raise InputError(f"{path}: an array of {values.shape} found, {columns} numbers in each line expected. {how}")
    check_finite(str(path), values, [str(position) for position in range(columns)])
    return values


def _expect_integer(name: str, value: int, *, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise InputError(f"{name}: {value!r} given, an integer of at least {least} expected")

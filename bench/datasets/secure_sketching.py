"""The data sets of Burkhardt et al. (ICML 2025): Power, Elevation, Songs and Ethylene."""

from __future__ import annotations

from pathlib import Path

from bench.datasets.dataset_files import data_folder, from_folder, read_numbers, uci
from dpmpc.data.columns import Column
from dpmpc.data.schemas import Schema
from dpmpc.data.table import Table
from dpmpc.data.table_files import read_parquet

#: UCI's own files, as they are called after unpacking.
ELEVATION_FILE, SONGS_FILE, ETHYLENE_FILE = "3D_spatial_network.txt", "YearPredictionMSD.txt", "ethylene_CO.txt"

POWER_TARGET = "Sub_metering_3"

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

# fmt: off
_SONGS_RANGES = (
    (1, 62), (-338, 385), (-302, 323), (-155, 336), (-182, 263), (-82, 167), (-189, 173), (-73, 127), (-127, 147),
    (-42, 61), (-70, 89), (-95, 88), (0, 550), (8, 65736), (21, 36817), (17, 31850), (12, 19866), (5, 16832),
    (19, 11902), (6, 9570), (6, 9617), (15, 3722), (6, 6738), (5, 9814), (-2822, 2050), (-13391, 24480),
    (-12018, 14506), (-4325, 3411), (-3358, 3278), (-3116, 3554), (-3806, 2348), (-1517, 1955), (-1680, 2888),
    (-1591, 2331), (-990, 1814), (-1712, 2497), (-8449, 14149), (-10096, 8060), (-9804, 6066), (-7883, 8361),
    (-4674, 3538), (-4176, 3893), (-4976, 1203), (-1073, 1831), (-1022, 747), (-1330, 1199), (-14862, 9060),
    (-3993, 6968), (-6643, 6173), (-2345, 2068), (-2271, 1427), (-1747, 2461), (-3189, 2395), (-2200, 2901),
    (-1695, 570), (-5155, 6956), (-5112, 12701), (-4731, 13002), (-3757, 5420), (-2500, 5691), (-1901, 1812),
    (-1397, 974), (-601, 813), (-10346, 11049), (-7376, 2878), (-3897, 3448), (-1200, 2056), (-2565, 4780),
    (-1905, 5287), (-975, 746), (-7058, 3959), (-6954, 4742), (-8401, 2125), (-1813, 1640), (-1388, 1279),
    (-719, 742), (-9832, 10021), (-2026, 3424), (-8391, 5189), (-4755, 3736), (-438, 841), (-4403, 4470),
    (-1811, 3211), (-3099, 1735), (-342, 261), (-3169, 3663), (-4320, 2834), (-237, 464), (-7459, 7394), (-382, 678),
)
# fmt: on

#: Public bounds of a song: the column ranges that MPyC's demonstration of ridge regression publishes
#: (``demos/data/regr/info-YearPredictionMSD.csv`` of github.com/lschoe/mpyc; Blom, Bouman, Schoenmakers and de Vreede
#: 2019, eprint.iacr.org/2019/773). Whoever published them took them from the rows: for us they are public constants,
#: and what they say about the most extreme songs is not protected by anything here.
SONGS_BOUNDS = Schema(
    (
        Column(SONGS_TARGET, 1922, 2011),
        *(Column(name, *ends) for name, ends in zip(SONGS_NAMES[1:], _SONGS_RANGES, strict=True)),
    )
)

ETHYLENE_TARGET = "sensor_16"

ETHYLENE_NAMES = ("seconds", "gas_ppm", "ethylene_ppm", *(f"sensor_{number}" for number in range(1, 17)))

# fmt: off
_METHANE_RANGES = (
    (-57, 3403), (1569, 9826), (-48, 5568), (-7, 6128), (-13, 4421), (-42, 5708), (-16, 5305), (-12, 5821),
    (2977, 4436), (2368, 3519), (690, 4850), (582, 4063), (444, 4541), (424, 5109), (772, 4700), (590, 3765),
)
# fmt: on

# fmt: off
_CO_RANGES = (
    (-53, 3554), (-37, 28117), (-46, 8642), (-9, 9222), (-13, 2905), (-43, 3503), (-24, 9884), (-14, 10522),
    (159, 55140), (215, 50670), (862, 9627), (866, 9763), (609, 24544), (673, 21421), (546, 10666), (488, 7875),
)
# fmt: on

_EXPERIMENT_SECONDS = 12 * 3600  # "about 12 hours without interruption", says UCI's page


def _ethylene_bounds(gas_ppm: int, sensors: tuple[tuple[int, int], ...]) -> Schema:
    """Return bounds of a reading, in the order of the file."""
    ends = ((0, _EXPERIMENT_SECONDS), (0, gas_ppm), (0, 20), *sensors)
    return Schema(tuple(Column(name, *pair) for name, pair in zip(ETHYLENE_NAMES, ends, strict=True)))


#: Public bounds of a reading in ``ethylene_methane.txt``: as for `SONGS_BOUNDS`, from ``info-ethylene_methane.csv`` of
#: the same demonstration; the time by the length of the experiment.
ETHYLENE_METHANE_BOUNDS = _ethylene_bounds(297, _METHANE_RANGES)

#: The same for ``ethylene_CO.txt``, from ``info-ethylene_CO.csv``.
ETHYLENE_CO_BOUNDS = _ethylene_bounds(534, _CO_RANGES)


def load_power() -> Table:
    """Load the electric power consumption of one household, a reading a minute over almost four years.

    A row is a minute: what is guaranteed for a row protects a minute, not the household.

    Hebrail and Berard (2012), *Individual Household Electric Power Consumption*, UCI Machine Learning Repository,
    id 235, doi 10.24432/C58K54, licence CC BY 4.0: a house in Sceaux near Paris, from 2006-12-16 to 2010-11-26. It is
    "Power" in the experiments of Burkhardt et al. (ICML 2025), where six of these columns predict `POWER_TARGET`.

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


def load_elevation(path: str | Path | None = None) -> Table:
    """Load the altitudes of North Jutland's roads; "Elevation" of Burkhardt et al. (ICML 2025).

    Kaul (2013), UCI id 246, doi 10.24432/C5GP51, licence CC BY 4.0: predict `ELEVATION_TARGET`.

    Parameters
    ----------
    path : str or Path, optional
        UCI's ``3D_spatial_network.txt``, 434,874 lines; or the same columns as a Parquet file. By default UCI's file in
        the folder (`data_folder`).

    Returns
    -------
    Table, shape (n, 3)
        The columns of `ELEVATION_BOUNDS`.

    Raises
    ------
    InputError
        If the file is missing, or not as expected.
    """
    how = uci("3D Road Network (North Jutland, Denmark)", 246, ELEVATION_FILE)
    path = data_folder(how) / ELEVATION_FILE if path is None else Path(path)
    if path.suffix == ".parquet" and path.exists():
        return read_parquet(path, ELEVATION_BOUNDS.names)
    values = read_numbers(path, how, columns=4, delimiter=",")
    return Table(ELEVATION_BOUNDS.names, values[:, 1:])  # the first is OpenStreetMap's number of the road


def load_songs(path: str | Path | None = None) -> Table:
    """Load the audio features of songs and the year of their release; "Songs" of Burkhardt et al. (ICML 2025).

    Bertin-Mahieux (2011), UCI id 203, doi 10.24432/C50K61: predict `SONGS_TARGET`. Also "Music Song" of Wu et al. (UAI
    2022).

    Parameters
    ----------
    path : str or Path, optional
        UCI's ``YearPredictionMSD.txt``, 515,345 lines; by default that file in the folder (`data_folder`).

    Returns
    -------
    Table, shape (n, 91)
        The columns of `SONGS_BOUNDS`: the year, twelve means and 78 covariances of timbre; the paper says d = 89, one
        less.

    Raises
    ------
    InputError
        If the file is missing, or not as expected.
    """
    how = uci("YearPredictionMSD", 203, SONGS_FILE)
    path = data_folder(how) / SONGS_FILE if path is None else path
    return Table(SONGS_NAMES, read_numbers(path, how, columns=len(SONGS_NAMES), delimiter=","))


def load_ethylene(path: str | Path | None = None) -> Table:
    """Load gas sensors exposed to mixtures with ethylene; "Ethylene" of Burkhardt et al. (ICML 2025).

    Fonollosa (2015), UCI id 322, doi 10.24432/C5WP4C, licence CC BY 4.0: predict `ETHYLENE_TARGET`, a TGS2620. The
    paper uses the mixtures of ethylene and CO (section 6.2, "Datasets"), which are in ``ethylene_CO.txt`` (4,208,261
    rows). ``ethylene_methane.txt`` of the same archive has the same columns, and bounds of its own.

    Parameters
    ----------
    path : str or Path, optional
        Either file; by default ``ethylene_CO.txt`` in the folder (`data_folder`).

    Returns
    -------
    Table, shape (n, 19)
        The columns of `ETHYLENE_CO_BOUNDS` or `ETHYLENE_METHANE_BOUNDS`: time, two concentrations, 16 sensors.

    Raises
    ------
    InputError
        If the file is missing, or not as expected.
    """
    how = uci("Gas sensor array under dynamic gas mixtures", 322, ETHYLENE_FILE)
    path = data_folder(how) / ETHYLENE_FILE if path is None else path
    return Table(ETHYLENE_NAMES, read_numbers(path, how, columns=len(ETHYLENE_NAMES), skip=1))

"""Data sets of the papers: where they are looked for, and that they are what they claim to be."""

import os

import numpy as np
import pytest

from bench.datasets.data_release import (
    BIKE_BOUNDS,
    INSURANCE_BOUNDS,
    SGEMM_BOUNDS,
    SGEMM_TARGET,
    SUPERCONDUCT_BOUNDS,
    load_bike,
    load_insurance,
    load_sgemm,
    load_superconduct,
)
from bench.datasets.secure_sketching import (
    ELEVATION_BOUNDS,
    ETHYLENE_CO_BOUNDS,
    ETHYLENE_METHANE_BOUNDS,
    ETHYLENE_NAMES,
    ETHYLENE_TARGET,
    POWER_BOUNDS,
    POWER_TARGET,
    SONGS_BOUNDS,
    SONGS_NAMES,
    load_elevation,
    load_ethylene,
    load_power,
    load_songs,
)
from dpmpc.base.errors import InputError
from support.rejections import rejects

UCI_LINES = """Date;Time;Global_active_power;Global_reactive_power;Voltage;Global_intensity;Sub_metering_1;\
Sub_metering_2;Sub_metering_3
16/12/2006;17:24:00;4.216;0.418;234.840;18.400;0.000;1.000;17.000
16/12/2006;17:25:00;?;?;?;?;?;?;
16/12/2006;17:26:00;5.374;0.498;233.290;23.000;0.000;2.000;17.000
"""
FIRST_READING = [4.216, 0.418, 234.84, 18.4, 0, 1, 17]


# The household's readings


def test_the_file_as_it_comes_from_uci_is_read(tmp_path, monkeypatch):
    (tmp_path / "household_power_consumption.txt").write_text(UCI_LINES)
    monkeypatch.setenv("DPMPC_DATA", str(tmp_path))
    table = load_power()
    assert table.names == POWER_BOUNDS.names
    assert table.values[0].tolist() == FIRST_READING
    assert (len(table), table.dropped) == (2, 1)


def test_float32_readings_regain_their_decimals(tmp_path, monkeypatch):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    arrays = [pa.array([reading], pa.float32()) for reading in FIRST_READING]
    pq.write_table(pa.Table.from_arrays(arrays, names=list(POWER_BOUNDS.names)), tmp_path / "household_power.parquet")
    monkeypatch.setenv("DPMPC_DATA", str(tmp_path))
    assert load_power().values.tolist() == [FIRST_READING]


@pytest.mark.skipif(not os.environ.get("DPMPC_DATA"), reason="DPMPC_DATA does not name the folder with the data sets")
def test_the_household_is_complete_and_fits_its_bounds():
    table = load_power()
    assert table.values.shape == (2_049_280, 7)
    assert table.dropped == 25_979
    assert table.values[0].tolist() == FIRST_READING
    assert POWER_TARGET in table.names
    # Nothing but 57 minutes above 253 V is clipped.
    clipped = POWER_BOUNDS.clipped_fraction(table.values) * len(table)
    assert np.rint(clipped).tolist() == [0, 0, 57, 0, 0, 0, 0]


def test_a_missing_folder_or_file_says_how_to_get_the_data(tmp_path, monkeypatch):
    monkeypatch.delenv("DPMPC_DATA", raising=False)
    with rejects("DPMPC_DATA", given="nothing") as refused:
        load_power()
    assert "uci.edu/dataset/235" in refused.value.remedy
    monkeypatch.setenv("DPMPC_DATA", str(tmp_path / "none"))
    with rejects("DPMPC_DATA", given=str(tmp_path / "none"), expected="an existing folder") as refused:
        load_power()
    assert "uci.edu/dataset/235" in refused.value.remedy
    monkeypatch.setenv("DPMPC_DATA", str(tmp_path))
    with rejects("DPMPC_DATA"):
        load_power()


# The other data sets

BIKE_LINES = """instant,dteday,season,yr,mnth,hr,holiday,weekday,workingday,weathersit,temp,atemp,hum,windspeed,casual,\
registered,cnt
1,2011-01-01,1,0,1,0,0,6,0,1,0.24,0.2879,0.81,0.0,3,13,16
"""
SGEMM_LINES = """MWG,NWG,KWG,MDIMC,NDIMC,MDIMA,NDIMB,KWI,VWM,VWN,STRM,STRN,SA,SB,Run1 (ms),Run2 (ms),Run3 (ms),Run4 (ms)
16,16,16,8,8,8,8,2,1,1,0,0,0,0,100.0,110.0,120.0,130.0
"""


def test_bike_as_it_comes_from_uci_is_read(tmp_path, monkeypatch):
    (tmp_path / "hour.csv").write_text(BIKE_LINES)
    monkeypatch.setenv("DPMPC_DATA", str(tmp_path))
    table = load_bike()
    assert table.names == BIKE_BOUNDS.names
    assert table.values.tolist() == [[1, 0, 1, 0, 0, 6, 0, 1, 0.24, 0.2879, 0.81, 0, 16]]


def test_sgemm_as_it_comes_from_uci_is_read(tmp_path, monkeypatch):
    (tmp_path / "sgemm_product.csv").write_text(SGEMM_LINES)
    monkeypatch.setenv("DPMPC_DATA", str(tmp_path))
    table = load_sgemm()
    assert table.names == SGEMM_BOUNDS.names
    assert table.column(SGEMM_TARGET)[0] == pytest.approx(np.log(115))
    assert table.values[0, :14].tolist() == [16, 16, 16, 8, 8, 8, 8, 2, 1, 1, 0, 0, 0, 0]


@pytest.mark.skipif(not os.environ.get("DPMPC_DATA"), reason="DPMPC_DATA does not name the folder with the data sets")
@pytest.mark.parametrize(
    ("load", "bounds", "clients"),
    [
        (load_bike, BIKE_BOUNDS, 17_379),
        (load_sgemm, SGEMM_BOUNDS, 241_600),
        (load_insurance, INSURANCE_BOUNDS, 1_338),
        (load_superconduct, SUPERCONDUCT_BOUNDS, 19_475),
    ],
)
def test_whole_data_sets_fit_their_bounds(load, bounds, clients):
    table = load()
    assert table.values.shape == (clients, len(bounds))
    assert bounds.clipped_fraction(table.values).max() == 0


def test_insurance_as_the_book_has_it_is_read(tmp_path, monkeypatch):
    header = "age,sex,bmi,children,smoker,region,charges\n"
    (tmp_path / "insurance.csv").write_text(f"{header}19,female,27.9,0,yes,southwest,16884.924\n")
    monkeypatch.setenv("DPMPC_DATA", str(tmp_path))
    table = load_insurance()
    assert table.names == INSURANCE_BOUNDS.names
    assert table.values.tolist() == [[19, 0, 27.9, 0, 1, 0, 0, 0, 1, 16884.924]]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("19,female,27.9,0,maybe,southwest,1", "column 'smoker': 'maybe' given, one of no, yes expected"),
        ("19,female,27.9,0,yes,south,1", "column 'region': 'south' given, one of northeast, northwest"),
        ("19,female,fat,0,yes,southwest,1", "numbers expected in columns age, bmi, children and charges"),
    ],
)
def test_words_that_insurance_does_not_know_are_refused(line, message, tmp_path, monkeypatch):
    (tmp_path / "insurance.csv").write_text(f"age,sex,bmi,children,smoker,region,charges\n{line}\n")
    monkeypatch.setenv("DPMPC_DATA", str(tmp_path))
    with pytest.raises(InputError, match=message):
        load_insurance()


def test_insurance_without_a_column_is_refused(tmp_path, monkeypatch):
    (tmp_path / "insurance.csv").write_text("age,sex\n19,female\n")
    monkeypatch.setenv("DPMPC_DATA", str(tmp_path))
    with pytest.raises(InputError, match="no column 'bmi'"):
        load_insurance()


def test_superconductors_as_they_come_from_uci_are_read(tmp_path, monkeypatch):
    names = SUPERCONDUCT_BOUNDS.names
    lines = [
        ",".join(names),
        ",".join(["4", *("0.5" for _ in names[1:])]),
        ",".join(["4", *("1" for _ in names[2:]), ""]),
    ]
    (tmp_path / "superconduct.csv").write_text("\n".join(lines) + "\n")
    monkeypatch.setenv("DPMPC_DATA", str(tmp_path))
    table = load_superconduct()
    assert table.values.tolist() == [[4, *(0.5 for _ in names[1:])]]
    assert table.dropped == 1


def test_songs_as_they_come_from_uci_are_read(tmp_path):
    path = tmp_path / "YearPredictionMSD.txt"
    path.write_text(",".join(["2001", *(f"{number}.5" for number in range(90))]) + "\n")
    table = load_songs(path)
    assert table.names == SONGS_NAMES
    assert table.values.tolist() == [[2001, *(number + 0.5 for number in range(90))]]


def test_elevation_as_it_comes_from_uci_is_read(tmp_path):
    path = tmp_path / "3D_spatial_network.txt"
    path.write_text("144552912,9.3498486,56.7408757,17.0527715677876\n144552912,9.3501884,56.7406785,17.61484\n")
    table = load_elevation(path)
    assert table.names == ELEVATION_BOUNDS.names
    assert table.values[0].tolist() == [9.3498486, 56.7408757, 17.0527715677876]


def test_ethylene_as_it_comes_from_uci_is_read(tmp_path):
    path = tmp_path / "ethylene_CO.txt"
    header = "Time (seconds), CO conc (ppm), Ethylene conc (ppm), sensor readings (16 channels)\n"
    path.write_text(header + "0.01   0.00   1.50  " + "  ".join(f"{number}.25" for number in range(16)) + "\n")
    table = load_ethylene(path)
    assert table.values.shape == (1, 19)
    assert table.column("ethylene_ppm")[0] == 1.5
    assert table.column(ETHYLENE_TARGET)[0] == 15.25


@pytest.mark.parametrize(
    ("load", "file", "line"),
    [
        (load_songs, "YearPredictionMSD.txt", ",".join(["2001", *(["1.5"] * 90)])),
        (load_elevation, "3D_spatial_network.txt", "144552912,9.3498486,56.7408757,17.0527"),
        (load_ethylene, "ethylene_CO.txt", "header\n" + " ".join(["1.5"] * 19)),
    ],
)
def test_a_download_in_the_folder_is_found(load, file, line, tmp_path, monkeypatch):
    monkeypatch.setenv("DPMPC_DATA", str(tmp_path))
    with pytest.raises(InputError, match=f"path: .*{file} given, an existing file expected.*uci.edu"):
        load()
    (tmp_path / file).write_text(line + "\n")
    assert len(load()) == 1


def test_published_ranges_belong_to_their_columns():
    """Spot checks of what MPyC's demonstration publishes, by the names of UCI's columns."""
    songs = dict(zip(SONGS_BOUNDS.names, SONGS_BOUNDS.columns, strict=True))
    assert SONGS_BOUNDS.names == SONGS_NAMES
    ends = {name: (songs[name].lower, songs[name].upper) for name in ("year", "timbre_mean_1", "timbre_covariance_78")}
    assert ends == {"year": (1922, 2011), "timbre_mean_1": (1, 62), "timbre_covariance_78": (-382, 678)}
    for bounds, first, last in (
        (ETHYLENE_METHANE_BOUNDS, (-57, 3403), (590, 3765)),
        (ETHYLENE_CO_BOUNDS, (-53, 3554), (488, 7875)),
    ):
        assert bounds.names == ETHYLENE_NAMES
        assert (bounds.columns[3].lower, bounds.columns[3].upper) == first
        assert (bounds.columns[18].lower, bounds.columns[18].upper) == last


@pytest.mark.parametrize(("load", "number"), [(load_songs, 203), (load_elevation, 246), (load_ethylene, 322)])
def test_a_missing_or_wrong_file_says_where_to_get_it(load, number, tmp_path):
    with pytest.raises(InputError, match=f"path: .*none.txt given, an existing file.*uci.edu/dataset/{number}"):
        load(tmp_path / "none.txt")
    for content in ("1,2\n3,4\n", "a b\nc d\n", "1 2\n3 nan\n"):
        (tmp_path / "wrong.txt").write_text(content)
        with pytest.raises(InputError, match=f"wrong.txt: .* numbers in each line expected.*uci.edu/dataset/{number}"):
            load(tmp_path / "wrong.txt")


@pytest.mark.parametrize(("load", "number"), [(load_bike, 275), (load_sgemm, 440), (load_superconduct, 464)])
def test_a_folder_without_the_data_says_where_to_get_it(load, number, tmp_path, monkeypatch):
    monkeypatch.setenv("DPMPC_DATA", str(tmp_path))
    with pytest.raises(InputError, match=f"holds neither .*uci.edu/dataset/{number}"):
        load()


def test_a_folder_without_insurance_says_where_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setenv("DPMPC_DATA", str(tmp_path))
    with rejects("DPMPC_DATA"):
        load_insurance()


def test_numbers_that_are_not_finite_are_refused(tmp_path):
    (tmp_path / "roads.txt").write_text("1,9.3,56.7,17\n2,9.3,nan,17\n")
    with pytest.raises(InputError, match="row 2: nan given, a finite number expected"):
        load_elevation(tmp_path / "roads.txt")


# The generated population

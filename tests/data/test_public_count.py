"""n is published exactly, so it must not depend on the data: rows are never left out in silence."""

import json

import numpy as np
import pytest

from dpmpc import LowRankApproximation, RidgeRegression
from dpmpc.app.cli.main import main
from dpmpc.data import Table
from dpmpc.data.table_files import read_table
from dpmpc.models.papers.baselines import SSP, AnalyzeGauss
from dpmpc.models.papers.coinpress import CoinPressRegression, PrivateCovariance, PrivateMean
from dpmpc.models.papers.mutual_information import RandomProjection
from dpmpc.owners.columns import RMGM
from dpmpc.release.release import Release
from support.rejections import rejects

BUDGET = ("--epsilon", "1", "--delta", "1e-6")
INCOME = ("--target", "income", "--sketch", "sum")
BOUNDS = "".join(f"[columns.{name}]\nlower = 0\nupper = {upper}\n" for name, upper in (("hours", 80), ("income", 100)))
ROWS = 400


def write(path, hidden=()):
    """A table whose cell (row, "hours") is empty for the rows that are hidden."""
    rng = np.random.default_rng(1)
    lines = ["hours,income"]
    for row, (hours, income) in enumerate(rng.uniform(0, 80, (ROWS, 2))):
        lines.append(f"{'' if row in hidden else round(hours, 1)},{income:.2f}")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def fit(tmp_path, capsys):
    (tmp_path / "bounds.toml").write_text(BOUNDS)

    def run(data, *options):
        out = tmp_path / f"{data.stem}-result"
        bounds = ("--bounds", tmp_path / "bounds.toml")
        status = main([str(word) for word in ("fit", data, *INCOME, *bounds, *BUDGET, "--out", out, *options)])
        return status, out / "release.dpmpc", capsys.readouterr()

    return run


def test_rows_are_not_left_out_without_a_public_count(tmp_path, fit):
    """Also of a file in which none is missing: the refusal itself would say so."""
    for data in (write(tmp_path / "all.csv"), write(tmp_path / "one.csv", hidden=[7])):
        status, release, told = fit(data, "--drop-missing")
        assert status == 2
        assert "--fill-missing" in told.err
        assert "--public-count" in told.err
        assert not release.exists()


def test_files_that_differ_in_one_cell_release_the_same_count(tmp_path, fit):
    counts = []
    for data in (write(tmp_path / "all.csv"), write(tmp_path / "one.csv", hidden=[7])):
        status, release, told = fit(data, "--fill-missing")
        assert status == 0, told.err
        assert "missing" not in told.out  # nor is it told how many cells were filled in
        counts.append(Release.load(release).clients)
    assert counts == [ROWS, ROWS]


def test_a_count_that_is_public_has_to_be_right(tmp_path, fit):
    data = write(tmp_path / "two.csv", hidden=[7, 9])
    status, release, told = fit(data, "--drop-missing", "--public-count", ROWS - 1)
    assert status == 2
    assert f"--public-count: {ROWS - 1} given" in told.err
    assert not release.exists()
    status, release, told = fit(data, "--drop-missing", "--public-count", ROWS - 2)
    assert status == 0, told.err
    assert Release.load(release).clients == ROWS - 2


def test_options_that_contradict_each_other_are_refused(tmp_path, fit):
    data = write(tmp_path / "one.csv", hidden=[7])
    assert "one of them expected" in fit(data, "--drop-missing", "--fill-missing", "--public-count", "9")[2].err
    assert "with --drop-missing" in fit(data, "--public-count", "9")[2].err


def test_a_missing_value_becomes_the_middle_of_its_bounds(tmp_path):
    data = write(tmp_path / "one.csv", hidden=[0])
    full = read_table(write(tmp_path / "all.csv")).values
    for fill in (40.0, {"hours": 40, "income": 50}):
        table = read_table(data, fill=fill)
        assert (table.values[0, 0], table.dropped) == (40, 0)
        assert (table.values[1:] == full[1:]).all()
    assert Table.from_any([[1.0, np.nan]], fill=0.5).values.tolist() == [[1, 0.5]]
    with rejects("fill", given="none given for column 'hours', a number expected"):
        read_table(data, fill={"income": 50})
    with rejects("fill of column 'hours'", given="inf"):
        read_table(data, fill=np.inf)
    with rejects("drop_missing and fill", given="both"):
        read_table(data, fill=0.0, drop_missing=True)


def test_fit_fills_in_the_middle(tmp_path, capsys):
    """Without bounds the columns lie in [-1, 1], whose middle is 0."""
    data = tmp_path / "unit.csv"
    data.write_text("a,b\n" + "".join(f"{'' if i % 3 else 1},{(i % 5) / 5 - 0.5}\n" for i in range(300)))
    assert main(["fit", str(data), "--target", "b", *BUDGET, "--fill-missing", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["clients"] == 300


ALL = np.vstack([np.random.default_rng(0).uniform(-1, 1, (300, 3)), [[np.nan, 0, 0]]])
TABLE = Table.from_any(ALL, drop_missing=True)
Y = TABLE.values[:, 0]
ESTIMATORS = {
    "ridge": lambda table: RidgeRegression(epsilon=1.0, delta=1e-6).fit(table, Y),
    "low rank": lambda table: LowRankApproximation(epsilon=1.0, delta=1e-6).fit(table),
    "mean": lambda table: PrivateMean(rho=0.5, center=0.0, radius=10.0).fit(table),
    "covariance": lambda table: PrivateCovariance(rho=0.5).fit(table),
    "coinpress": lambda table: CoinPressRegression(rho=0.5).fit(table, Y),
    "projection": lambda table: RandomProjection(rows=10, leakage_bits=1.0).fit(table, Y),
    "mixing": lambda table: RMGM(epsilon=1.0, delta=1e-5).fit([table, np.zeros((300, 1))]),
    "ssp": lambda table: SSP(epsilon=1.0, delta=1e-6).fit(table, Y),
    "analyze gauss": lambda table: AnalyzeGauss(epsilon=1.0, delta=1e-6).fit(table),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_no_estimator_takes_a_table_that_rows_were_left_out_of(name):
    assert TABLE.dropped == 1
    with rejects("X"):
        ESTIMATORS[name](TABLE)


def test_a_table_whose_count_is_public_is_taken():
    stated = TABLE.with_public_count(300)
    assert (len(stated), stated.dropped) == (300, 0)
    model = RidgeRegression(epsilon=1.0, delta=1e-6, sketch="sum", simulation_seed=1)
    assert model.fit(stated, Y).release_.clients == 300
    with rejects("public_count", given="301 given, but 300 rows are complete"):
        TABLE.with_public_count(301)
    assert TABLE.select(["x0"]).dropped == 1

"""Owners whose Parquet files are read by the workers of a cluster: the sums are those of the owner's own process."""

import numpy as np
import pytest

from dpmpc.base.errors import InputError
from dpmpc.data import Column, Schema, Table, write_csv
from dpmpc.owners.rows import row_groups
from dpmpc.owners.rows.own_rounds import AgreedReleases, RowsInMemory
from dpmpc.owners.rows.owner_parties import OwnerSource, own_rows, public_arguments, run
from dpmpc.owners.rows.owners_plan import OwnersPlan
from dpmpc.owners.rows.row_groups import RowGroup, RowsOnWorkers, read_rows, sum_rows
from dpmpc.parties.cluster import DaskCluster
from support.dask_workers import Killing, two_workers
from support.rejections import rejects

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

ROWS = (700, 500)
PATIENCE = 60.0
SCHEMA = Schema((Column("age", 18, 90), Column("ill", 0, 1)))


@pytest.fixture(scope="module")
def address():
    with two_workers() as scheduler:
        yield scheduler


def plan_of(schema=SCHEMA, **changes):
    facts = {"owners": ("north", "south"), "rows": ROWS, "schema": schema, "model": "logistic", "rounds": 1}
    return OwnersPlan(**{**facts, "intervals": False, "epsilon": 20.0, "delta": 1e-6, **changes})


def people(count=ROWS[0]):
    rng = np.random.default_rng(5)
    age = rng.uniform(10, 99, count)  # some are outside of the bounds
    return np.column_stack([age, rng.random(count) < age / 120]).astype(float)


def written(path, rows=None, row_group_size=150, **columns):
    """Write rows, or columns, in row groups of 150: five of 700 rows."""
    rows = people() if rows is None else rows
    columns = columns or dict(zip(SCHEMA.names, rows.T, strict=True))
    parquet.write_table(pyarrow.table(columns), path, row_group_size=row_group_size)
    return str(path)


def test_workers_compute_the_sum_of_one_process(tmp_path, address):
    plan = plan_of()
    task = AgreedReleases(plan, None).task(0.5).verify()
    rows = own_rows(OwnerSource(written(tmp_path / "d.parquet"), cluster=address), plan, 0, PATIENCE)
    assert rows.shape == (700, 2)
    np.testing.assert_array_equal(rows.total(task, 1), RowsInMemory(people()).total(task, 1))


def test_the_files_of_a_folder_continue_each_other(tmp_path, address):
    plan, rows = plan_of(), people()
    task = AgreedReleases(plan, None).task(0.5).verify()
    for number, part in enumerate(np.split(rows, [400])):
        written(tmp_path / f"{number}.parquet", part)
    on_workers = own_rows(OwnerSource(str(tmp_path), cluster=address), plan, 0, PATIENCE)
    np.testing.assert_array_equal(on_workers.total(task, 1), RowsInMemory(rows).total(task, 1))


def test_words_are_coded_by_the_workers(tmp_path, address):
    bounds = tmp_path / "bounds.toml"
    bounds.write_text("[columns.ward]\nvalues = ['A', 'B']\n[columns.ill]\nyes = ['y']\nno = ['n']\n")
    plan = plan_of(Schema.from_toml(bounds))
    task = AgreedReleases(plan, None).task(0.5).verify()
    rng = np.random.default_rng(6)
    path = written(tmp_path / "d.parquet", ward=rng.choice(["A", "B"], 700), ill=rng.choice(["y", "n"], 700))
    expected = RowsInMemory(read_rows(path, plan.schema, plan.target).values).total(task, 1)
    on_workers = own_rows(OwnerSource(path, cluster=address), plan, 0, PATIENCE)
    np.testing.assert_array_equal(on_workers.total(task, 1), expected)


def test_a_fit_has_the_sums_of_one_without_a_cluster(tmp_path, address):
    """Two owners as processes, of whom one has its rows read by workers, with the noise of one seed."""
    plan = plan_of()
    written(tmp_path / "0.parquet")
    write_csv(tmp_path / "0.csv", Table(SCHEMA.names, people()))
    write_csv(tmp_path / "1.csv", Table(SCHEMA.names, people(ROWS[1])))
    other = OwnerSource(str(tmp_path / "1.csv"))
    here, there = (
        run(public_arguments(plan), [source, other], simulation_seed=7).releases
        for source in (OwnerSource(str(tmp_path / "0.csv")), OwnerSource(str(tmp_path / "0.parquet"), cluster=address))
    )
    assert len(here) == 2
    for first, second in zip(here, there, strict=True):
        np.testing.assert_array_equal(first.sums, second.sums)


def test_a_sum_goes_on_when_a_worker_is_killed(tmp_path, address, monkeypatch):
    plan, killing = plan_of(), []

    def connected(self):
        killing.append(Killing(DaskCluster(address, PATIENCE)))
        return killing[-1]

    task = AgreedReleases(plan, None).task(0.5).verify()
    rows = RowsOnWorkers(written(tmp_path / "d.parquet"), plan, address, PATIENCE)
    monkeypatch.setattr(row_groups.RowsOnWorkers, "_connected", connected)
    np.testing.assert_array_equal(rows.total(task, 1), RowsInMemory(people()).total(task, 1))
    assert [len(cluster.killed) for cluster in killing] == [1]


def test_another_number_of_rows_than_planned_is_refused(tmp_path, address):
    with pytest.raises(InputError, match="500"):
        own_rows(OwnerSource(written(tmp_path / "d.parquet"), cluster=address), plan_of(), 1, PATIENCE)


def test_what_a_worker_cannot_read_names_the_row_of_its_group(tmp_path, address):
    rows = people()
    rows[310, 0] = np.nan
    path = written(tmp_path / "d.parquet", rows)
    with pytest.raises(InputError) as refused:
        own_rows(OwnerSource(path, cluster=address), plan_of(), 0, PATIENCE)
    assert refused.value.argument == f"{path}: column 'age', row 11 of row group 2"


def test_rows_that_went_since_the_first_sum_are_noticed(tmp_path):
    path = written(tmp_path / "d.parquet")
    task = AgreedReleases(plan_of(), None).task(0.5)
    with rejects(path, given="150 rows in row group 1"):
        sum_rows(plan_of(), task, 1, RowGroup(path, 1, first=150, rows=151))


def test_a_file_that_is_not_parquet_has_no_row_groups(tmp_path, address):
    write_csv(tmp_path / "d.csv", Table(SCHEMA.names, people()))
    with rejects("path", given=str(tmp_path / "d.csv")):
        own_rows(OwnerSource(str(tmp_path / "d.csv"), cluster=address), plan_of(), 0, PATIENCE)
    with rejects("row_group", given="0"):
        read_rows(str(tmp_path / "d.csv"), SCHEMA, None, 0)


def test_row_groups_without_rows_are_left_out(tmp_path, address):
    path = tmp_path / "d.parquet"
    table = pyarrow.table(dict(zip(SCHEMA.names, people().T, strict=True)))
    with parquet.ParquetWriter(path, table.schema) as writer:
        for part in (table.slice(0, 300), table.slice(0, 0), table.slice(300)):
            writer.write_table(part)
    rows = own_rows(OwnerSource(str(path), cluster=address), plan_of(), 0, PATIENCE)
    assert rows.shape == (700, 2)

"""`dpmpc read --crosstab`: the table of a release and of a fit's folder in each form, and what is refused."""

import csv
import json
import random

import pytest

from dpmpc.app.cli.main import main
from dpmpc.models.tables.cross_table import CrossTable
from dpmpc.release.release import Release
from support.command_inputs import status_of

BOUNDS = """
[columns.ward]
values = ["north", "south"]

[columns.smoker]
yes = ["y"]
no = ["n"]

[columns.stay]
lower = 0
upper = 40
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two fits by real server processes, the second of numbers alone; the tests read what they wrote."""
    folder = tmp_path_factory.mktemp("crosstab")
    rng = random.Random(2)
    with (folder / "rows.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["ward", "smoker", "stay"])
        for _ in range(6000):
            ward = rng.choice(["north", "south"])
            writer.writerow(
                [ward, "y" if rng.random() < (0.2 if ward == "north" else 0.4) else "n", rng.uniform(0, 40)]
            )
    (folder / "bounds.toml").write_text(BOUNDS)
    words = ("fit", folder / "rows.csv", "--bounds", folder / "bounds.toml", "--epsilon", "2", "--delta", "1e-6")
    assert main([*map(str, words), "--target", "stay", "--sketch", "sum", "--out", str(folder / "plain")]) == 0
    rounds = ("--target", "smoker", "--model", "logistic", "--rounds", "1", "--out", str(folder / "rounds"))
    assert main([*map(str, words), *rounds]) == 0
    return folder


def run(capsys, *words, status=0):
    assert status_of(words) == status, capsys.readouterr().err
    return capsys.readouterr()


def test_a_table_and_its_test_are_read_at_no_cost(folder, capsys):
    release = folder / "plain" / "release.dpmpc"
    fields = json.loads(run(capsys, "read", release, "--crosstab", "ward,smoker", "--json").out)
    table = CrossTable.of(Release.load(release), "ward", "smoker")
    assert fields["counts"]["south"]["yes"] == table.counts[1, 1]
    assert fields["standard_errors"]["north"]["no"] == table.standard_errors[0, 0]
    assert sum(sum(row.values()) for row in fields["counts"].values()) == pytest.approx(6000)
    assert fields["shares"]["south"]["yes"] == pytest.approx(0.4, abs=0.1)
    assert (fields["independence"]["degrees"], fields["not_tested"]) == (1, None)
    assert fields["independence"]["p_value"] < 1e-6
    again = json.loads(run(capsys, "read", folder / "plain", "--crosstab", "ward,smoker", "--json").out)
    assert again["counts"] == fields["counts"]
    assert "Test that ward and smoker are independent: chi-squared(1) = " in (
        run(capsys, "read", release, "--crosstab", "ward, smoker").out
    )
    assert "ward,no,± no,yes,± yes" in run(capsys, "read", release, "--crosstab", "ward,smoker", "--csv").out
    assert "toprule" in run(capsys, "read", release, "--crosstab", "ward,smoker", "--latex").out
    assert "smoker by ward" in run(capsys, "read", release, "--crosstab", "smoker,ward", "--html").out


def test_what_is_refused(folder, capsys):
    release = folder / "plain" / "release.dpmpc"
    for words, said in {
        (release, "--crosstab", "ward"): "crosstab: ward given, two variables expected",
        (release, "--crosstab", "ward,smoker,stay"): "two variables expected",
        (release, "--crosstab", "ward,"): "'ward,' given, names between commas expected",
        (release, "--crosstab", "ward,stay"): "crosstab: 'stay' given, a variable with listed values expected",
        (release, "--crosstab", "ward,smoker", "--target", "stay"): "no target and no model expected with it",
        (release, "--crosstab", "ward,smoker", "--model", "logistic"): "no target and no model expected with it",
        (folder / "rounds", "--crosstab", "ward,smoker"): "release-0.dpmpc' can be read anew",
        (folder / "rounds" / "release-1.dpmpc", "--crosstab", "ward,smoker"): "second moments or of cells expected",
    }.items():
        assert said in run(capsys, "read", *words, status=2).err
    assert run(capsys, "read", folder / "rounds" / "release-0.dpmpc", "--crosstab", "ward,smoker").out

"""What was opened is on the disk before anything is computed or drawn of it, whichever command has opened it."""

import math
import types
from pathlib import Path

import numpy as np
import pytest

import dpmpc.app.render.page
from dpmpc.app.cli.main import main
from dpmpc.app.cli.output import new_path
from dpmpc.app.render.drawing import figures
from dpmpc.app.render.plots import spread
from dpmpc.collect.opening import release_process
from dpmpc.collect.terms import verifying
from dpmpc.data import Column, Schema, Table, write_csv
from dpmpc.models import RidgeRegression
from dpmpc.models.regression.in_rounds import RegressionInRounds
from dpmpc.models.survival.kaplan_meier import KaplanMeier
from dpmpc.models.tables.table_one import TableOne
from dpmpc.release.release import Release
from support.command_inputs import run
from support.rejections import rejects

BUDGET = ["--epsilon", "8", "--delta", "1e-6"]
ROUNDS = ["--model", "logistic", "--rounds", "1", "--simulation-seed", "5"]  # the same number of sums every time
SURVIVAL = ["--model", "survival", "--time", "months", "--event", "died", *BUDGET]
PEOPLE = 300
NUMBERS = Schema((Column("age", 18, 90), Column("ill", 0, 1)))
BOUNDS = """
[columns.months]
lower = 0
upper = 12
step = 1

[columns.died]
yes = ["1"]
no = ["0"]
"""


@pytest.fixture
def files(tmp_path):
    """Write ages and illnesses as a whole, by owner and by column, and times until death."""
    rng = np.random.default_rng(3)
    age = rng.uniform(18, 90, PEOPLE).round()
    ill = (rng.random(PEOPLE) < age / 100).astype(float)
    rows = np.column_stack([age, ill])
    write_csv(tmp_path / "all.csv", Table(NUMBERS.names, rows))
    for number, part in enumerate(np.split(rows, 2)):
        write_csv(tmp_path / f"owner{number}.csv", Table(NUMBERS.names, part))
    for number, name in enumerate(NUMBERS.names):
        columns = np.column_stack([np.arange(PEOPLE), rows[:, number]])
        write_csv(tmp_path / f"party{number}.csv", Table(("id", name), columns))
        (tmp_path / f"party{number}.toml").write_text(NUMBERS.select([name]).to_toml())
    times = np.column_stack([rng.integers(0, 13, PEOPLE), ill]).astype(int)
    (tmp_path / "times.csv").write_text("months,died\n" + "".join(f"{month},{died}\n" for month, died in times))
    (tmp_path / "bounds.toml").write_text(NUMBERS.to_toml())
    (tmp_path / "times.toml").write_text(BOUNDS)
    return tmp_path


FIT = ["fit", "all.csv", "--bounds", "bounds.toml", "--target", "ill", *BUDGET]
OWNERS = ["owners", "--simulate", "owner0.csv", "owner1.csv", "--bounds", "bounds.toml", *BUDGET]
#: The command, the class whose `result` reads its releases, and how many it opens.
COMMANDS = {
    "describe": (["describe", "all.csv", "--bounds", "bounds.toml", *BUDGET], TableOne, 1),
    "one fit": ([*FIT, "--sketch", "sum"], RidgeRegression, 1),
    "fit in rounds": ([*FIT, *ROUNDS], RegressionInRounds, 4),
    "survival": (["fit", "times.csv", "--bounds", "times.toml", *SURVIVAL], KaplanMeier, 1),
    "owners in rounds": ([*OWNERS, "--target", "ill", *ROUNDS], RegressionInRounds, 4),
    "owners' table": ([*OWNERS, "--describe"], TableOne, 1),
}


def broken(*_, **__):
    raise RuntimeError("a drawing that fails")


def loaded(folder):
    return [Release.load(path) for path in sorted(folder.glob("*.dpmpc"))]


@pytest.mark.parametrize("name", COMMANDS)
def test_releases_are_kept_when_the_drawing_of_the_page_fails(files, capsys, monkeypatch, name):
    command, _, opened = COMMANDS[name]
    monkeypatch.chdir(files)
    monkeypatch.setattr(dpmpc.app.render.page, "page", broken)
    with pytest.raises(RuntimeError, match="a drawing that fails"):
        main([*command, "--out", "result"])
    told = capsys.readouterr()
    assert len(loaded(files / "result")) == opened
    assert {path.name for path in (files / "result").iterdir()} >= {"result.json", "report.txt"}
    assert "opened and kept: result/release" in told.err
    assert "dpmpc read reads it at no further cost" in told.err
    monkeypatch.undo()
    monkeypatch.chdir(files)
    first = sorted((files / "result").glob("*.dpmpc"))[0]
    assert run(capsys, "read", first if opened == 1 else files / "result", "--html")[0] == 0


@pytest.mark.parametrize("name", COMMANDS)
def test_releases_are_kept_when_the_fit_fails_and_no_directory_was_asked_for(files, capsys, monkeypatch, name):
    command, estimator, opened = COMMANDS[name]
    monkeypatch.chdir(files)
    monkeypatch.setenv("TMPDIR", str(files))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr(estimator, "result", broken)
    with pytest.raises(RuntimeError, match="a drawing that fails"):
        main(command)
    (kept,) = files.glob("dpmpc-kept-*")
    assert len(loaded(kept)) == opened
    assert f"opened and kept: {kept}/release" in capsys.readouterr().err


def test_nothing_stays_of_a_command_that_has_opened_nothing(files, capsys, monkeypatch):
    monkeypatch.chdir(files)
    monkeypatch.setattr("dpmpc.parties.networked.run", broken)
    with pytest.raises(RuntimeError):
        main([*FIT, "--sketch", "sum", "--out", "result"])
    assert not (files / "result").exists()
    assert "kept" not in capsys.readouterr().err


def test_a_mixed_release_is_kept_when_its_page_cannot_be_drawn(files, capsys, monkeypatch):
    monkeypatch.chdir(files)
    monkeypatch.setattr("dpmpc.app.render.mixed.mixed_report", broken)
    parties = ["--simulate", "party0.csv", "party1.csv", "--bounds", "party0.toml", "party1.toml", "--key", "id"]
    with pytest.raises(RuntimeError):
        main(["mix", *parties, "--rows", "20", "--out", "public", *BUDGET])
    assert "public: what was released, kept" in capsys.readouterr().err
    monkeypatch.undo()
    assert run(capsys, "read", files / "public")[0] == 0


def test_the_release_of_a_collection_is_said_before_its_page_is_drawn(tmp_path, capsys, monkeypatch):
    statement = types.SimpleNamespace(manifest=types.SimpleNamespace(clients=7))
    released = types.SimpleNamespace(costs=(), certificate=types.SimpleNamespace(statement=statement))
    monkeypatch.setattr("dpmpc.collect.terms.task_file.Collection.load", lambda path: None)
    monkeypatch.setattr(release_process, "run_release", lambda *_, **__: released)  # has written the file
    monkeypatch.setattr(verifying, "verify", broken)
    with pytest.raises(RuntimeError):
        main(["release", "task", "--server", "0", "--folder", str(tmp_path), "--out", str(tmp_path / "release")])
    assert capsys.readouterr().out == f"{tmp_path / 'release'}: release of 7 reports, signed by all that took part\n"


def test_a_quartile_that_is_not_told_is_drawn_as_such():
    """The median of a group is told, its lower quartile is not: the page says so, and is drawn."""
    drawn = spread("age", (18.0, 50.0, 90.0), (0.4, 0.6), {"died": (math.nan, 70.0, (52.0, 40.0, 61.0))}, 0.95)
    assert "died median 52, quartiles not shown and 70" in drawn.svg
    assert (figures(math.nan), figures(math.inf), figures(-math.inf)) == ("not shown", "∞", "−∞")


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="no folder here that refuses files to everybody")
def test_a_place_that_takes_no_file_is_refused_before_anything_is_opened():
    for name in ("out", "prepare"):
        with rejects(name):
            new_path(name, "/proc/release")

"""`dpmpc owners`: owners as processes over TLS, prepared and started by hand, and on one machine."""

import json
import shutil
import socket
import subprocess
import sys

import numpy as np
import pytest

from dpmpc.data import Column, Schema, Table, write_csv
from support import forks
from support.command_inputs import run
from support.hostile import preparers
from support.html_page import Page

SCHEMA = Schema((Column("age", 18, 90), Column("ill", 0, 1), Column("smoker", 0, 1)))
BUDGET = ["--epsilon", "3", "--delta", "1e-6"]
SECONDS = 110


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(2)
    age, smoker = rng.uniform(18, 90, 3000).round(), rng.random(3000) < 0.3
    ill = rng.random(3000) < 1 / (1 + np.exp(2 - 0.04 * age + 0.8 * smoker))
    rows = np.column_stack([age, ill, smoker]).astype(float)
    for number, part in enumerate(np.split(rows, [1300])):
        write_csv(tmp_path / f"owner{number}.csv", Table(SCHEMA.names, part))
    (tmp_path / "bounds.toml").write_text(SCHEMA.to_toml())
    return tmp_path


def options(files, *more):
    plan = ["--target", "ill", "--bounds", files / "bounds.toml", "--model", "logistic", "--rounds", "2", *BUDGET]
    return [*plan, *more]


def test_owners_on_one_machine(files, capsys):
    out = files / "result"
    data = [files / "owner0.csv", files / "owner1.csv"]
    command = ["owners", "--simulate", *data, *options(files, "--simulation-seed", "5"), "--out", out, "--json"]
    status, printed, told = run(capsys, *command)
    assert status == 0, told
    assert told.startswith("dpmpc owners: SIMULATION: --simulation-seed 5: ")
    assert (out / "report.txt").read_text().startswith("SIMULATION: the randomness can be repeated from a seed")
    fields = json.loads(printed)
    assert (fields["clients"], fields["servers"]) == (3000, 2)
    assert fields["owners"] == [{"name": "owner 0", "rows": 1300}, {"name": "owner 1", "rows": 1700}]
    assert fields["privacy"]["noise_by"] == "servers"
    assert fields["privacy"]["simulation"]
    result = fields["result"]
    assert 0.02 < result["coefficients"]["age"] < 0.06
    assert result["odds_ratio_intervals"]["smoker"][1] < 1.2
    assert sorted(path.name for path in out.iterdir())[:5] == [f"release-{number}.dpmpc" for number in range(5)]
    assert fields["sums"] == {"opened": 5, "planned": 5}
    assert [one["statistic"] for one in fields["releases"]] == [
        *("second-moments", "clipped-scores", "clipped-scores", "scores", "scores")
    ]
    assert "Logistic regression of ill" in Page((out / "report.html").read_text(encoding="utf-8")).text
    text = " ".join((out / "report.txt").read_text().split())
    assert "Release of 3,000 rows of 2 owners, of whom any 1 may pool what they see" in text
    assert "the noise in a sum has 2 times the variance that protects a row" in text
    assert "not for a person with several rows" in text
    assert "if the analyst, 1 of the 2 owners and whoever knows 2,999 rows pool all they see" in text
    assert "recomputed by each honest owner, each reader who checks it" in text
    assert "recorded only where an owner names one ledger for all fits (--ledger)" in text
    assert "dpmpc fit and describe keep no" not in text


def test_owners_of_coded_tables_leave_what_predicts(files, capsys):
    """A ward and a smoker are words in both files; the folder has the codebook, and predictions are chances."""
    rng = np.random.default_rng(4)
    bounds = (
        "[columns.age]\nlower = 18\nupper = 90\n[columns.ill]\nyes = ['y']\nno = ['n']\n"
        "[columns.ward]\nvalues = ['A', 'B']\n"
    )
    (files / "bounds.toml").write_text(bounds)
    for number in range(2):
        age, ward = rng.uniform(18, 90, 2000).round(), rng.choice(["A", "B"], 2000)
        ill = np.where(rng.random(2000) < 1 / (1 + np.exp(3 - 0.05 * age - (ward == "B"))), "y", "n")
        lines = [f"{a:g},{i},{w}" for a, i, w in zip(age, ill, ward, strict=True)]
        (files / f"owner{number}.csv").write_text("\n".join(["age,ill,ward", *lines]) + "\n")
    out, data = files / "result", [files / "owner0.csv", files / "owner1.csv"]
    status, _, told = run(capsys, "owners", "--simulate", *data, *options(files), "--out", out)
    assert status == 0, told
    (files / "new.csv").write_text("age,ward\n60,B\n60,A\n")
    status, printed, told = run(capsys, "predict", out, files / "new.csv")
    assert status == 0, told
    heading, first, second = printed.splitlines()
    assert heading == "row,probability of ill"
    assert 0.4 < float(second.split(",")[1]) < float(first.split(",")[1]) < 0.95
    status, printed, told = run(capsys, "read", out)
    assert status == 0, told
    assert "ward=B" in printed
    assert "Odds ratios" in printed


@pytest.mark.long("the same program as test_data_owners.py, over TLS and from the command line")
def test_prepared_owners_on_their_own(files, capsys):
    """Two owners by hand; then one again in the same folder, with another that has its folder too: the same sums."""
    ports = []
    sockets = [socket.socket() for _ in range(2)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
        ports.append(f"127.0.0.1:{one.getsockname()[1]}")
    for one in sockets:
        one.close()
    prepared = files / "prepared"
    command = ["owners", "--prepare", prepared, "--addresses", *ports, "--rows", "1300", "1700", *options(files)]
    status, printed, told = run(capsys, *command)
    assert status == 0, told
    assert "a folder for each of 2 owners" in printed
    assert "2 owners, of whom any 1 may pool what they see: the noise in a sum has 2 times" in printed
    assert "differential privacy for each of 3,000 rows" in printed
    assert "honest client" not in printed
    results = []
    for attempt in range(2):
        processes = [
            forks.start(
                *("owners", "--owner", number, "--data", files / f"owner{number}.csv"),
                *("--folder", prepared / f"owner-{number}", "--out", files / f"out-{attempt}-{number}", "--json"),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for number in range(2)
        ]
        try:
            ended = [process.communicate(timeout=SECONDS) for process in processes]
        finally:
            for process in processes:
                process.kill()
        assert [process.returncode for process in processes] == [0, 0], ended
        results += [json.loads(printed)["result"] for printed, _ in ended]
    assert results.count(results[0]) == 4


def test_owners_have_no_fit_without_rounds(files, capsys):
    command = ["owners", "--simulate", files / "owner0.csv", files / "owner1.csv", *options(files), "--rounds", "0"]
    status, printed, told = run(capsys, *command)
    assert (status, printed) == (2, "")
    assert "rounds: 0 given, 'auto' or a whole number from 1 to 64 expected" in told


def test_what_the_rounds_so_far_have_released_is_read_when_an_owner_has_left(files, capsys):
    """The first three of five sums are in a folder: a posterior after two steering rounds, and no intervals."""
    done, prepared, out = files / "done", files / "prepared", files / "result"
    data = [files / "owner0.csv", files / "owner1.csv"]
    simulate = ["owners", "--simulate", *data, *options(files, "--simulation-seed", "5")]  # coefficients are judged
    assert run(capsys, *simulate, "--out", done)[0] == 0
    command = ["owners", "--prepare", prepared, *PREPARE[2:-2], "1300", "1700", *options(files)]
    assert run(capsys, *command)[0] == 0
    folder = prepared / "owner-1"
    finish = ["owners", "--finish", folder, "--out", out, "--json"]
    status, _, told = run(capsys, *finish)
    assert (status, "a folder where at least one sum was opened expected" in told) == (2, True)
    for number in range(3):
        shutil.copy(done / f"release-{number}.dpmpc", folder)
    before = sorted(folder.iterdir())
    status, printed, told = run(capsys, *finish)
    assert status == 0, told
    assert sorted(folder.iterdir()) == before  # no ledger, no record: nothing is spent
    fields = json.loads(printed)
    assert fields["sums"] == {"opened": 3, "planned": 5}
    assert fields["result"]["rounds"] == 2
    assert fields["result"]["no_interval"] == "the rounds ended after 3 of 5 sums"
    assert fields["privacy"]["achieved_epsilon"] < 2.5
    whole = json.loads((done / "result.json").read_text())["result"]
    assert fields["result"]["coefficients"] == pytest.approx(whole["coefficients"], abs=0.5)
    text = " ".join((out / "report.txt").read_text().split())
    assert "Release of 3,000 rows of 2 owners, of whom any 1 may pool what they see" in text
    assert "3 of 5 sums were opened. The result rests on these alone" in text
    status, printed, told = run(capsys, "read", out, "--json")
    assert status == 0, told
    assert json.loads(printed)["result"]["coefficients"] == fields["result"]["coefficients"]
    shutil.copy(done / "release-1.dpmpc", folder / "release-2.dpmpc")
    status, _, told = run(capsys, *finish[:3])
    assert (status, "number 2 given with another contribution" in told) == (2, True)
    settings = json.loads((folder / "party.json").read_text())
    settings["arguments"]["plan"]["rows"] = [1301, 1700]
    (folder / "party.json").write_text(json.dumps(settings))
    status, _, told = run(capsys, *finish[:3])
    assert (status, "whose first sum is of another plan than its settings" in told) == (2, True)


def test_a_plan_of_another_version_is_refused(files, capsys):
    """Its rounds may be others."""
    command = ["owners", "--prepare", files / "new", *PREPARE[2:-2], "1300", "1700", *options(files)]
    assert run(capsys, *command)[0] == 0
    folder = files / "new" / "owner-1"
    settings = json.loads((folder / "party.json").read_text())
    settings["arguments"]["plan"]["format"] -= 1
    (folder / "party.json").write_text(json.dumps(settings))
    command = ["owners", "--owner", "1", "--data", files / "owner1.csv", "--folder", folder]
    for given in (command, ["owners", "--finish", folder]):
        status, _, told = run(capsys, *given)
        assert status == 2
        assert "plan: not one of this version: format 1 given, 2 expected" in told


PREPARE = ["--prepare", "new", "--addresses", "127.0.0.1:4400", "127.0.0.1:4401", "--rows", "5", "6"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--simulate", "a.csv"], "bounds: none given"),
        ([*PREPARE, "PLAN", "--data", "a.csv"], "data: 'a.csv' given, but --prepare does not use it"),
        ([*PREPARE, "PLAN", "--simulation-seed", "1"], "--simulation-seed: 1 given, but --prepare does not use it"),
        (["--owner", "0", "--data", "a.csv"], "folder: none given"),
        (["--owner", "0", "--data", "a.csv", "--folder", "x", "--epsilon", "1"], "epsilon: 1.0 given, but --owner"),
        ([*PREPARE, "PLAN", "--corrupt", "0"], "corrupt: 0 given, 1 to 1 expected of 2 owners: who adds noise"),
        ([*PREPARE, "PLAN", "--rounds", "65"], "rounds: 65 given, 'auto' or a whole number from 1 to 64"),
        (["--finish", "new", "--epsilon", "1"], "epsilon: 1.0 given, but --finish does not use it"),
        (
            ["--owner", "0", "--data", "a.csv", "--folder", "x", "--predict-only"],
            "--predict-only: True given, but --owner",
        ),
        ([*PREPARE[:-1], "PLAN"], "owners: 1 given, at least 2 expected"),
        ([*PREPARE, "7", "PLAN"], "addresses: 2 given, 3 expected: one for each party"),
        ([*PREPARE, "PLAN", "--names", "a", "b", "c"], "rows: 2 numbers given, one for each of 3 owners"),
        ([*PREPARE, "PLAN", "--target", "sick"], "'sick'"),
        ([*PREPARE[:2], "--addresses", "here", "127.0.0.1:1", *PREPARE[4:], "PLAN"], "HOST:PORT expected"),
    ],
)
def test_options_that_make_no_sense_are_refused(files, arguments, message, capsys, monkeypatch):
    monkeypatch.chdir(files)
    place = arguments.index("PLAN") if "PLAN" in arguments else None
    if place is not None:
        arguments = [*arguments[:place], *options(files), *arguments[place + 1 :]]
    before = sorted(files.iterdir())
    status, printed, told = run(capsys, "owners", *arguments)
    assert status == 2, told
    assert message in told
    assert printed == ""
    assert sorted(files.iterdir()) == before


def test_a_folder_whose_plan_has_a_seed_is_refused(files, capsys):
    """Whoever prepared it would know the noise of every owner."""
    command = ["owners", "--prepare", files / "new", *PREPARE[2:-2], "1300", "1700", *options(files)]
    assert run(capsys, *command)[0] == 0
    folder = files / "new" / "owner-1"
    rows = folder / "rows.csv"  # the user keeps the data beside the settings
    rows.write_bytes((files / "owner1.csv").read_bytes())
    preparers.prepare(folder, "know the noise")
    command = ["owners", "--owner", "1", "--data", rows, "--folder", folder]
    status, _, told = run(capsys, *command)
    assert (status, "simulation_seed: one given to party 1" in told) == (2, True)
    preparers.prepare(folder, "say that it is supervised")
    status, _, told = run(capsys, *command)
    assert (status, "unknown field `supervised`" in told) == (2, True)
    assert not (folder / "kept.sqlite").exists()
    assert rows.exists()


def test_a_link_in_a_prepared_folder_is_not_followed(files, capsys, monkeypatch, new_interpreters):
    """The log of a party would replace whatever the link names."""
    command = ["owners", "--prepare", files / "new", *PREPARE[2:-2], "1300", "1700", *options(files)]
    assert run(capsys, *command)[0] == 0
    folder, victim = files / "new" / "owner-1", files / "new" / "victim"
    victim.write_text("precious")
    preparers.prepare(folder, "plant a link")
    monkeypatch.setattr(sys, "executable", "/bin/false")  # the party itself has nothing to do with it
    assert run(capsys, "owners", "--owner", "1", "--data", files / "owner1.csv", "--folder", folder)[0] == 3
    assert victim.read_text() == "precious"
    assert not (folder / "party.log").is_symlink()


def test_what_is_wrong_with_a_file_is_said_before_anybody_is_asked(files, capsys):
    """An owner that broke off later would tell the others that a cell of its file is missing."""
    command = ["owners", "--prepare", files / "new", *PREPARE[2:-2], "1300", "1700", *options(files)]
    assert run(capsys, *command)[0] == 0
    folder, lacking = files / "new" / "owner-1", files / "lacking.csv"
    lines = (files / "owner1.csv").read_text().splitlines()
    lines[7] = "," + lines[7].partition(",")[2]
    lacking.write_text("\n".join(lines) + "\n")
    status, _, told = run(capsys, "owners", "--owner", "1", "--data", lacking, "--folder", folder)
    assert (status, "missing" in told) == (2, True)
    status, _, told = run(capsys, "owners", "--owner", "1", "--data", files / "owner0.csv", "--folder", folder)
    assert (status, "rows: 1700 given by the plan" in told) == (2, True)
    assert not (folder / "source.json").exists()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('weight = {column = "hours", upper = 9}', "bounds: with weights or rows of zeros given, neither expected"),
        ('outside = "refuse"', "outside = 'refuse' given, 'clip' expected"),
    ],
)
def test_bounds_that_owners_would_not_apply_or_that_tell_of_rows_are_refused(files, line, message, capsys):
    (files / "bounds.toml").write_text(f"{line}\n{SCHEMA.to_toml()}")
    data = [files / "owner0.csv", files / "owner1.csv"]
    status, printed, told = run(capsys, "owners", "--simulate", *data, *options(files))
    assert (status, printed) == (2, "")
    assert message in told


WARDS = """
[columns.age]
lower = 18
upper = 90
cells = 24
if_missing = "indicator"
[columns.ward]
values = ["A", "B", "C"]
[columns.smoker]
yes = ["y"]
no = ["n"]
"""


@pytest.fixture
def wards(tmp_path):
    """Three owners' files of words, some ages missing; and how many of all are in each ward, and smoke there."""
    rng, counts = np.random.default_rng(9), dict.fromkeys(["A", "B", "C", "A, y"], 0)
    (tmp_path / "wards.toml").write_text(WARDS)
    for number in range(3):
        lines = ["smoker,age,ward"]
        for _ in range(1500):
            ward, smokes = rng.choice(["A", "B", "C"], p=[0.5, 0.3, 0.2]), rng.choice(["y", "n"])
            age = "" if rng.random() < 0.1 else f"{rng.normal(40 if ward == 'A' else 60, 6):.0f}"
            lines.append(f"{smokes},{age},{ward}")
            counts[ward] += 1
            counts["A, y"] += (ward, smokes) == ("A", "y")
        (tmp_path / f"ward{number}.csv").write_text("\n".join(lines) + "\n")
    return tmp_path, [tmp_path / f"ward{number}.csv" for number in range(3)], counts


def test_owners_describe_their_people_in_one_sum(wards, capsys):
    """Each adds its cells and noise; the error law counts all: 5 deviations fail by chance in 1 of 4 10^5 runs."""
    folder, data, exact = wards
    plan = ["--describe", "--by", "ward", "--bounds", folder / "wards.toml", *BUDGET]
    out = folder / "result"
    status, printed, told = run(capsys, "owners", "--simulate", *data, *plan, "--out", out, "--json")
    assert status == 0, told
    fields = json.loads(printed)
    assert fields["sums"] == {"opened": 1, "planned": 1}
    assert fields["sketch"]["statistic"] == "cell-counts"
    assert fields["privacy"]["epsilon"] == 3
    assert sorted(path.name for path in out.iterdir()) == ["release.dpmpc", "report.html", "report.txt", "result.json"]
    people = fields["result"]["people"]
    for ward in "ABC":
        row = people[f"ward = {ward}"]
        assert abs(row["people"] - exact[ward]) < 5 * row["std. error"]
    row = fields["result"]["categories"]["smoker = yes, ward = A"]
    assert abs(row["people"] - exact["A, y"]) < 5 * row["std. error"]
    median = fields["result"]["numbers"]["age, ward = A"]
    assert median["median from"] - 3 < 40 < median["to"] + 3
    text = " ".join((out / "report.txt").read_text().split())
    assert "Release of 4,500 rows of 3 owners, of whom any 2 may pool what they see" in text
    assert "3 times the variance that protects a row" in text
    assert "One sum, one entry of the ledger: cells" in text
    assert "Description of age, smoker by ward" in Page((out / "report.html").read_text(encoding="utf-8")).text
    status, again, told = run(capsys, "read", out, "--json")
    assert status == 0, told
    assert json.loads(again)["result"]["people"] == people
    alone = ["--corrupt", "1", "--simulation-seed", "3", "--json"]
    status, printed, told = run(capsys, "owners", "--simulate", *data, *plan, *alone)
    assert status == 0, told
    error = json.loads(printed)["result"]["people"]["ward = A"]["std. error"]
    assert error == pytest.approx(people["ward = A"]["std. error"] / 2**0.5, rel=1e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--describe", "--target", "age"], "target: 'age' given, none expected with --describe"),
        (["--describe", "--rounds", "3"], "rounds: 3 given, none expected with --describe"),
        (["--describe", "--by", "age"], "by: 'age' given, a number, a column expected whose values the bounds list"),
        (["--describe", "--by", "floor"], "by: 'floor' given, a column of the bounds expected"),
        (["--by", "ward", "--target", "smoker", "--model", "logistic"], "by: 'ward' given, which belongs with"),
        (["--model", "logistic"], "target: none given, one expected of a regression: --describe makes a Table 1"),
        (["--target", "smoker"], "model: none given, one expected of a regression"),
    ],
)
def test_a_table_of_owners_that_makes_no_sense_is_one_sentence(wards, capsys, options, message):
    folder, data, _ = wards
    command = ["owners", "--simulate", *data, "--bounds", folder / "wards.toml", *BUDGET, "--out", folder / "result"]
    status, _, told = run(capsys, *command, *options)
    assert status == 2
    assert message in told
    assert not (folder / "result").exists()

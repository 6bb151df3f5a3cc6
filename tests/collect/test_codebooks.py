"""Collections whose bounds file has a codebook: words, dates and missing values, from the task file to a release."""

import csv
import datetime
import itertools
import json

import numpy as np
import pytest

from bench.system.collection_servers import Servers
from dpmpc.app.cli.main import main
from dpmpc.collect.intake import front_page
from dpmpc.collect.intake.status import Status
from dpmpc.collect.terms.task_file import Collection
from dpmpc.collect.terms.verifying import verify
from dpmpc.data import Schema
from dpmpc.data.table_files import read_cells
from dpmpc.linear.contributions.cells import CellCounts
from dpmpc.linear.encoding.fixed_point import FixedPoint
from dpmpc.models import KaplanMeier
from support.node import node, run_node
from support.release_processes import close_and_release
from support.task_files import write_task_file

BOUNDS = """
[columns.age]
lower = 18
upper = 80
cells = 31
if_missing = "indicator"
label = "How old are you?"
meaning = "In full years."
unit = "years"
[columns.ward]
values = ["north", "south", "west"]
if_missing = "indicator"
[columns.admitted]
date = "%d.%m.%Y"
lower = "01.01.2020"
upper = "31.12.2026"
[columns.smokes]
yes = ["yes"]
no = ["no"]
[columns.dose]
lower = 1
upper = 1000
transform = "log"
"""
PEOPLE = 600
PROVED = {"proved": True, "noise_by": "servers"}
PLAIN = {"proved": False, "noise_by": "servers"}


def schema_of(folder):
    """Return the bounds as they are read from a file."""
    path = folder / "schema.toml"
    path.write_text(BOUNDS)
    return Schema.from_toml(path)


def people(folder, count=PEOPLE):
    """Write people as they are kept in a file: words, dates, and some values that are missing."""
    draw = np.random.default_rng(3)
    lines = ["smokes,age,ward,admitted,dose"]
    for _ in range(count):
        age = "" if draw.random() < 0.1 else str(draw.integers(15, 90))
        day = f"{draw.integers(1, 29):02d}.{draw.integers(1, 13):02d}.{draw.integers(2020, 2027)}"
        ward = draw.choice(["north", "south", "west", "NA"])
        lines.append(f"{draw.choice(['yes', 'No'])},{age},{ward},{day},{draw.integers(1, 900)}")
    path = folder / "people.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def answers_of(path, count):
    """Return the answers of the file's first people as the client of pages takes them."""
    with path.open() as file:
        for line in itertools.islice(csv.DictReader(file), count):
            day = datetime.datetime.strptime(line["admitted"], "%d.%m.%Y").date()
            yield {
                "age": float(line["age"]) if line["age"] else None,
                "ward": None if line["ward"] == "NA" else line["ward"],
                "admitted": day.isoformat(),
                "smokes": line["smokes"] == "yes",
                "dose": float(line["dose"]),
            }


def collect(folder, by_page=0, **options):
    """Let three servers collect the file's rows by a door, and release them; return the servers and the rows.

    The first `by_page` people answer by the client of pages, the others by `dpmpc submit`.
    """
    schema = schema_of(folder)
    chosen = {"sketch": "auto", "rows": None, "copies": "auto", "minimum_batch": 500, "largest_batch": 2000, **options}
    path = people(folder)
    servers = Servers.make(folder, "--rate", "100000", doors=True, bounds=schema, columns=schema.names, **chosen)
    with servers:
        servers.start()
        if by_page:
            doors = [servers.door(server) for server in range(3)]
            run_node("contribute", servers.collection, rows=list(answers_of(path, by_page)), doors=doors)
        argv = ["submit", str(servers.task_file), str(path), "--state", str(folder / "state"), "--batch", "20"]
        assert main([*argv, "--door", servers.door(1), "--rows", str(by_page + 1), str(PEOPLE)]) == 0
        for server in range(3):
            servers.stop(server)
        close_and_release(servers)
    return servers, schema.codebook.encode(read_cells(path, schema.codebook.sources)).values


@pytest.mark.long("three servers, six hundred proved reports and a release")
def test_rows_of_words_are_encoded_submitted_with_proofs_and_released(tmp_path):
    servers, rows = collect(tmp_path, **PROVED)
    released = verify(tmp_path / "release-0.dpmpc", servers.collection).release
    schema = servers.collection.plan.schema
    true = schema.normalise(rows).mean(axis=0)
    sums = released.gram().matrix[0, 1:] / released.clients
    deviation = np.sqrt(released.noise_variance.max()) / released.clients
    assert released.clients == PEOPLE
    assert np.abs(sums - true).max() < 6 * deviation + 0.01  # of 9 columns: fails by chance in 2 of 10^8 runs
    assert released.columns == schema.names


@node
@pytest.mark.long("three servers, six hundred reports and a release")
@pytest.mark.parametrize(("options", "by_page"), [(PROVED, 60), (PLAIN, 0)], ids=["proved, also by pages", "plain"])
def test_a_table_1_is_collected_released_and_read(tmp_path, capsys, options, by_page):
    counts = CellCounts.of(schema_of(tmp_path), "ward")
    servers, rows = collect(tmp_path, by_page, contribution=counts, **options)
    capsys.readouterr()
    path = str(tmp_path / "release-0.dpmpc")
    assert main(["verify", path, "--collection", str(servers.task_file)]) == 0
    released = verify(path, servers.collection).release
    assert released.clients == PEOPLE
    z = released.task.schema.normalise(rows)
    true = counts.encode(z, FixedPoint(10)).sum(axis=0) / 2**10
    # fails by chance in 2 of 10^6 runs: about 900 sums, each at most 6 deviations of noise off
    assert np.abs(released.sketch[0] - true).max() < 6 * np.sqrt(released.noise_variance.max())
    capsys.readouterr()
    assert main(["read", path, "--json"]) == 0
    people_of = json.loads(capsys.readouterr().out)["result"]["people"]
    for ward in ("south", "west", "missing"):  # one of 6 draws beyond five deviations: by chance in 4 of 10^6 runs
        exact = np.count_nonzero(rows[:, released.task.schema.index(f"ward={ward}")] == 1)
        found = people_of[f"ward = {ward}"]
        assert abs(found["people"] - exact) <= 5 * found["std. error"], ward
    assert main(["read", path, "--verbose"]) == 0
    shown = capsys.readouterr().out
    for words in ("ward = north", "ward = missing", "median", "smokes", "admitted"):
        assert words in shown, words


@pytest.mark.parametrize("options", [[], ["--no-proved"], ["--no-proved", "--describe", "--by", "ward"]])
def test_a_task_file_holds_its_codebook_under_its_digest(tmp_path, capsys, options):
    assert write_task_file(tmp_path, *options, bounds=BOUNDS) == 0
    path = tmp_path / "task.json"
    collection = Collection.load(path)
    capsys.readouterr()
    assert collection.plan.schema == schema_of(tmp_path)
    assert b'"label":"How old are you?"' in collection.content
    assert main(["inspect", str(path)]) == 0
    said = capsys.readouterr().out
    assert "column 'age' (How old are you?) from 18 to 80 years or missing: In full years." in said
    assert "column 'ward' one of north, south, west or missing" in said
    assert "column 'admitted' from 01.01.2020 to 31.12.2026" in said
    assert "column 'smokes' yes or no" in said
    changed = path.read_text().replace("In full years.", "In months.")
    (tmp_path / "changed.json").write_text(changed)
    assert Collection.load(tmp_path / "changed.json").digest != collection.digest


def test_columns_that_do_not_follow_from_the_codebook_are_refused(tmp_path, capsys):
    assert write_task_file(tmp_path, bounds=BOUNDS) == 0
    path = tmp_path / "task.json"
    text = path.read_text()
    for old, new in (('"upper":80.0', '"upper":90.0'), ('"name":"ward=south"', '"name":"ward=east"')):
        assert old in text
        bad = tmp_path / "bad.json"
        bad.write_text(text.replace(old, new, 1))
        assert main(["inspect", str(bad)]) == 2
        assert "follow from it" in capsys.readouterr().err


@pytest.mark.parametrize(("least", "status"), [("1000", 0), ("100", 2)])
def test_a_table_that_would_tell_nothing_of_a_minimum_batch_is_refused(tmp_path, capsys, least, status):
    options = ("--no-proved", "--describe", "--by", "ward", "--minimum-batch", least)
    bounds = BOUNDS.split("[columns.admitted]")[0]
    assert write_task_file(tmp_path, *options, "--epsilon", ".5", bounds=bounds, insisted=()) == status
    told = capsys.readouterr()
    said = f"with the minimum batch of {int(least):,} reports"
    assert f"{said}: Medians are shown of so many people in a group of ward or more: age from " in told.out
    assert (f"{said} a table is WORTHLESS" in told.err) == (status == 2)


@pytest.mark.parametrize(
    ("options", "old", "new", "reason"),
    [
        (["--by", "ward"], "", "", "which belongs with --describe or --survival"),
        (["--describe", "--survival", "age", "smokes"], "", "", "given with --describe, one of the two expected"),
        (["--survival", "age", "ward"], "", "", "event: 'ward' given, a category, an answer expected"),
        (["--survival", "months", "smokes"], "", "", "time: 'months' given, a column of the bounds expected"),
        (["--survival", "dose", "smokes", "--by", "age"], "", "", "by: 'age' given, a number, a column with listed"),
        (["--describe", "--by", "age", "--no-proved"], "", "", "by: 'age' given, a number, a column expected whose"),
        (["--describe", "--no-proved"], '"indicator"\nlabel', '"middle"\nlabel', "if_missing = 'middle' given"),
        (["--describe", "--no-proved"], "[columns.age]", 'incomplete = "zeros"\n[columns.age]', "neither expected"),
        ([], "[columns.age]", 'incomplete = "zeros"\n[columns.age]', "without proofs (proved=False, --no-proved)"),
        ([], "years.", "years.\\u202e", "column 'age': meaning = 'In full years.\\u202e' given"),
        ([], "How old are you?", "x" * 201, "at most 200 characters"),
        ([], 'unit = "years"', 'unit = " years"', "unit = ' years' given"),
    ],
)
def test_what_cannot_be_collected_is_refused_in_a_sentence(tmp_path, capsys, options, old, new, reason):
    assert old in BOUNDS
    assert write_task_file(tmp_path, *options, bounds=BOUNDS.replace(old, new, 1) if old else BOUNDS) == 2
    assert reason in capsys.readouterr().err
    assert not (tmp_path / "task.json").exists()


@pytest.mark.parametrize(
    ("date", "lower", "upper"),
    [
        ("%d.%m.%Y", "01.01.2020", "31.12.2026"),
        ("%y%m%d 100%%", "200101 100%", "261231 100%"),
        ("%d %B %Y", "1 January 2020", "31 December 2026"),
        ("%Y-%j", "2020-001", "2026-365"),
        ("%d.%m.", "01.01.", "31.12."),
    ],
)
@node
def test_dates_that_the_form_cannot_read_are_named_when_the_collection_is_made(tmp_path, capsys, date, lower, upper):
    """The command warns of just those that the client of pages refuses."""
    bounds = BOUNDS.replace("%d.%m.%Y", date).replace("01.01.2020", lower).replace("31.12.2026", upper)
    assert write_task_file(tmp_path, bounds=bounds) == 0
    warned = f"column 'admitted': date = {date!r}: the form of a door cannot read" in capsys.readouterr().err
    told = run_node(
        "open", Collection.load(tmp_path / "task.json"), now=datetime.datetime.now(datetime.UTC).isoformat()
    )
    refused = f"a date in the format {date} received" in json.dumps(told, ensure_ascii=False)
    assert warned == refused == (date in ("%d %B %Y", "%Y-%j", "%d.%m."))


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["age=30", "ward=east", "admitted=01.02.2021", "smokes=no", "dose=3"], "one of north, south, west expected"),
        (["age=30", "ward=south", "admitted=2021-02-01", "smokes=no", "dose=3"], "a date in the format '%d.%m.%Y'"),
        (["ward=south", "admitted=01.02.2021", "smokes=no"], "column 'dose', given: the value is missing"),
        (["height=3"], "COLUMN=VALUE on each line expected"),
        (["age=3", "age=4"], "each once of age, ward"),
    ],
)
def test_a_row_that_the_codebook_does_not_know_is_refused(tmp_path, capsys, lines, reason):
    assert write_task_file(tmp_path, bounds=BOUNDS) == 0
    path = tmp_path / "task.json"
    (tmp_path / "row").write_text("\n".join(lines))
    assert main(["submit", str(path), "--row", str(tmp_path / "row"), "--state", str(tmp_path / "state")]) == 2
    assert reason in capsys.readouterr().err
    assert not (tmp_path / "state").exists()


def test_the_page_of_a_server_says_what_is_asked(tmp_path):
    assert write_task_file(tmp_path, bounds=BOUNDS) == 0
    path = tmp_path / "task.json"
    status = Status(
        server=0, collection="00", name="x", state="open", opens="", closes="", expires="", stored=0, exact=True,
        minimum_batch=1, largest_batch=2, healthy=True, guarantee="none",
    )  # fmt: skip
    shown = front_page.page(Collection.load(path), status)
    assert "<td>from 18 to 80 years or missing</td><td>How old are you?: In full years.</td>" in shown
    assert "<td>one of north, south, west or missing</td>" in shown


TIMES = """
[columns.months]
lower = 0
upper = 60
cells = 30
unit = "months"
[columns.died]
yes = ["yes"]
no = ["no"]
label = "Death"
[columns.arm]
values = ["old", "new"]
"""


@pytest.mark.parametrize("least", ["200", "20"])
def test_a_collection_of_survival_curves_says_from_how_many_people_they_are_told(tmp_path, capsys, least):
    sizes = ("--minimum-batch", least, "--epsilon", "6")
    asked = ("--survival", "months", "died", "--by", "arm")
    assert write_task_file(tmp_path, *sizes, *asked, bounds=TIMES, insisted=()) == (0 if least == "200" else 2)
    told = capsys.readouterr()
    assert f"with the minimum batch of {least} reports: Survival curves are shown of so many people" in told.out
    assert ("a curve is WORTHLESS" in told.err) == (least == "20")


def test_survival_curves_are_collected_by_arm(tmp_path, capsys):
    """People submit times and answers in words, with proofs; the file is read as curves of each arm."""
    generator = np.random.default_rng(4)
    months = generator.exponential(30, 600)
    died = months < generator.uniform(5, 80, 600)
    arm = np.where(generator.random(600) < 0.5, "old", "new")
    with (tmp_path / "people.csv").open("w", newline="") as file:
        rows = zip(months.round(1), np.where(died, "yes", "no"), arm, strict=True)
        csv.writer(file).writerows([("months", "died", "arm"), *rows])
    (tmp_path / "bounds.toml").write_text(TIMES)
    curves = KaplanMeier(time="months", event="died", by="arm", bounds=Schema.from_toml(tmp_path / "bounds.toml"))
    bounds = curves.public_schema()
    options = {"minimum_batch": 600, "largest_batch": 1000, **PROVED, **curves.task_choices(bounds)}
    with Servers.make(tmp_path, columns=bounds.names, bounds=bounds, sketch="auto", rows=None, **options) as servers:
        servers.start()
        argv = ["submit", str(servers.task_file), str(tmp_path / "people.csv"), "--batch", "50"]
        assert main([*argv, "--state", str(tmp_path / "state")]) == 0
        for server in range(3):
            servers.stop(server)
        close_and_release(servers)
    release = tmp_path / "release-0.dpmpc"
    capsys.readouterr()
    assert main(["read", str(release), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)["result"]
    assert {"curves", "log_rank"} <= set(result)
    page = (tmp_path / "release-0.dpmpc.html").read_text()
    assert "months: new" in page
    assert "Death: half of the reports" in page

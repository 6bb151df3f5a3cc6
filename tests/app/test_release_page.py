"""The page of a collection's release: a function of what was verified, in an order, and in words that are true."""

import dataclasses
import datetime
import json
import math
import re
import subprocess
import sys

import msgspec
import numpy as np
import pytest

from dpmpc import ReleaseSpec, Schema, design
from dpmpc.app.cli.main import main
from dpmpc.app.render.about import About
from dpmpc.app.render.readings import reading_of
from dpmpc.app.render.readings.sentences import sentence_of
from dpmpc.app.render.release_page import release_page
from dpmpc.app.render.released import report_of
from dpmpc.base.errors import VerificationFailed
from dpmpc.base.randomness import Stream
from dpmpc.collect.terms.series import Series
from dpmpc.collect.terms.verifying import verify
from dpmpc.data import Codebook
from dpmpc.data.table_files import read_cells
from dpmpc.data.variables import Variable
from dpmpc.linear.contributions.cells import CellCounts
from dpmpc.models.tables.table_one import TableOne
from dpmpc.privacy import bound_in_words
from dpmpc.release.release import Release
from dpmpc.release.results import Result
from dpmpc.release.simulation import run
from support.certified_releases import certify
from support.html_page import Page
from support.pages import ROOT

SECTIONS = ["results", "asked", "reports", "promise", "seen", "checked", "again", "experts"]


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """A release of second moments, with noise by servers, which is as this process sums it."""
    options = {"sketch": "sum", "rows": None, "sparsity": None, "copies": "auto", "noise_by": "servers"}
    return certify(tmp_path_factory.mktemp("summed"), 3, [], **options, corrupt_clients=None)


@pytest.fixture(scope="module")
def verified(file):
    """What was verified, with sums whose noise happens to be none, so that no test depends on chance."""
    found = verify(file.path, file.trial.collection)
    exact = file.trial.expected(found.release)
    return dataclasses.replace(found, release=dataclasses.replace(found.release, sums=exact))


def sentences(release):
    """Return what the page states of each question, with the question."""
    return reading_of(release.task.statistic).sentences(release)


def changed(verified, manifest=None, statement=None, server=None, **collection):
    """Return what was verified with other facts in it, as if all servers had signed them."""
    certificate, known = verified.certificate, verified.collection
    facts = msgspec.structs.replace(certificate.statement.manifest, **(manifest or {}))
    facts = msgspec.structs.replace(certificate.statement, manifest=facts, **(statement or {}))
    servers = tuple(msgspec.structs.replace(entry, **(server or {})) for entry in known.servers)
    return dataclasses.replace(
        verified,
        certificate=msgspec.structs.replace(certificate, statement=facts),
        collection=msgspec.structs.replace(known, servers=servers, **collection),
    )


def text_of(found):
    return " ".join(" ".join(Page(release_page(found)).texts).split())


def test_verdicts_come_first_and_all_is_there(verified):
    page = release_page(verified)
    assert re.findall(r'id="(\w+)">', page) == SECTIONS
    read = text_of(verified)
    assert read.index("7 of 7 checks passed.") < read.index("What was checked")
    for line in verified.checks:
        assert line.startswith("omission") or line in read
    assert not re.search(r"<script|<img|<link|\son\w+=|src=|href=|url\(", page)
    assert "default-src 'none'" in page
    assert "regresses" not in read  # what an option of a command does


def test_the_command_writes_what_the_function_returns(file, capsys):
    """In another process, too: nothing of the time, of the machine or of the order of sets is in it."""
    arguments = ["verify", str(file.path), "--html"]
    assert main([*arguments, "--collection", str(file.trial.task_file)]) == 0
    assert capsys.readouterr().out == release_page(verify(file.path, file.trial.collection))
    done = subprocess.run([sys.executable, "-m", "dpmpc", *arguments], capture_output=True, check=True, cwd="/")
    assert done.stdout.decode() == release_page(verify(file.path))


def test_whose_keys_count_is_not_checked_without_a_task_file(file):
    read = text_of(verify(file.path))
    assert "6 of 7 checks passed." in read
    assert "Not checked: whose signatures count was taken from this file itself" in read
    assert "the promise to those who took part holds" not in read
    assert release_page(verify(file.path)).count('<li class="open">') == 1


def test_a_file_that_fails_shows_the_failure_and_no_number(file, tmp_path, capsys):
    content = bytearray(file.path.read_bytes())
    place = content.index(b'"wrong"')
    content[place + 2] ^= 1
    (tmp_path / "changed.dpmpc").write_bytes(content)
    assert main(["verify", str(tmp_path / "changed.dpmpc"), "--html"]) == 2
    told = capsys.readouterr()
    assert "VerificationFailed" in told.err
    assert "Do not use this file" in told.out
    with pytest.raises(VerificationFailed) as failure:
        verify(tmp_path / "changed.dpmpc")
    assert told.out == release_page(failure.value)
    assert "<data" not in told.out
    assert "<table" not in told.out
    assert "checks passed" not in told.out
    evil = release_page(VerificationFailed("<script>alert(1)</script>\u202e"))
    assert "<script" not in evil
    assert "\u202e" not in evil


def test_who_asked_and_who_ran_the_servers_is_said(verified):
    plain = text_of(verified)
    assert "The task file gives no reason." in plain
    assert plain.count("no organisation is named") == 3
    assert "server 0, server 1 and server 2 each had one part of each report" in plain
    named = changed(
        verified,
        server={"organisation": "<b>Clinic</b>\u202e"},
        purpose="To <i>know</i>.",
        contact="ada@clinic.example",
        name="<script>1</script>",
    )
    page, read = release_page(named), text_of(named)
    assert read.count("<b>Clinic</b>") == 6
    assert "To <i>know</i>." in read
    assert "Questions to ada@clinic.example" in read
    assert not re.search(r"<script|<b>|<i>|\u202e", page)
    absent = changed(verified, statement={"without": [1]})
    assert text_of(absent).count("took no part in the release") == 1


def test_reports_are_no_people_unless_there_is_a_roster(verified):
    read = text_of(verified)
    assert "A report is not a person" in read
    assert "people on the roster" not in read
    assert "Whoever sent several is protected less." in read
    assert "ticket" not in read
    known = text_of(changed(verified, authenticated=True))
    assert f"{verified.release.clients:,} reports of people on the roster" in known
    assert "A report is not a person" not in known
    assert "whoever handed the tickets out can say who took part" in known


def test_reports_that_do_not_count_are_told_by_cause_and_server(verified):
    assert "No server says that it left out a report." in text_of(verified)
    refused = {"false proof": 1, "different lists": 2000, "wrong hash, according to server 1": 3}
    left_out = {"2": {"damaged": 4}, "0": {"released before": 5, "dealt wrongly": 6}}
    read = text_of(changed(verified, manifest={"refused": refused, "left_out": left_out}))
    for told in (
        "Were refused 2,004 reports",
        "1 report was refused by all servers: they were not shown to be well formed.",
        "2,000 reports were refused by all servers: they were not the same at all servers.",
        "3 reports were refused by all servers: they were off (wrong hash, according to server 1).",
        "4 reports were left out by server 2: they could not be read any more.",
        "5 reports were left out by server 0: they had counted in an earlier release.",
        "6 reports were left out by server 0: they had parts that did not fit together.",
    ):
        assert told in read
    assert "No server says" not in read
    gone = {str(server): {"withdrawn": 2} for server in range(3)}
    read = text_of(changed(verified, manifest={"left_out": gone}))
    assert read.count("2 reports were withdrawn by whoever had sent them, say all servers.") == 1
    assert "left out by server" not in read
    read = text_of(changed(verified, manifest={"left_out": gone | {"1": {"withdrawn": 3}}}))
    assert "3 reports were left out by server 1: they were withdrawn by whoever had sent them." in read
    assert "say all servers" not in read


def test_who_could_have_seen_what_follows_from_the_sharing(verified, tmp_path):
    read = text_of(verified)
    assert "All 3 servers, if they all break their word" in read
    assert "Any 2 of the 3 servers" in read
    assert "the form in the browser" in read
    read = text_of(verify(certify(tmp_path, 3, [], sharing="shamir").path))
    assert "Any 2 of the 3 servers, if they break their word" in read
    assert "as long as none of the reports is of people who work with the others" in read
    assert "no report spoiled the sums" in read


def test_means_are_told_in_words_with_the_interval_of_the_table(verified):
    found, read = verified.release.describe(), text_of(verified)
    for name, mean, error in zip(found.names, found.means, found.mean_errors, strict=True):
        told = re.search(rf"{name} about (\S+) on average; between (\S+) and (\S+) for all people", read)
        low, high = mean - 1.96 * error, mean + 1.96 * error
        assert [float(number) for number in told.groups()] == pytest.approx([mean, low, high], rel=1e-3)


def test_means_that_the_noise_hides_are_not_told(verified):
    sums = np.full_like(verified.release.sums, 1 << 50)
    noisy = dataclasses.replace(verified, release=dataclasses.replace(verified.release, sums=sums))
    assert text_of(noisy).count("not shown: the noise is too large for so few reports.") == 2


def test_the_promise_is_the_sentence_of_the_form(verified):
    guarantee = verified.release.guarantee
    assert bound_in_words(guarantee.epsilon, guarantee.delta) in text_of(verified)


def test_in_a_series_the_total_of_all_epochs_stands_where_that_of_one_would(verified):
    """Five epochs at epsilon = 3 in all are 20.1 times, not the 3.59 times of each."""
    series = Series.of("yearly", 5, 3.0, 1e-9)
    found = changed(verified, series=series)
    read = text_of(found)
    assert bound_in_words(3.0, 1e-9, "your answers in all 5 collections of this series together") in read
    assert "at most 20.1 times the probability" in read
    assert "ε = 3, δ = 10⁻⁹ in all 5 collections of this series together. In this one alone: ε = 1" in read
    about = About.of_collection(found.collection, found.certificate)
    report = report_of([found.release], Result(), about)
    assert "all 5 collections of this series together" in str(report)
    assert [fact.value for fact in report.facts if "ε" in fact.name] == [3.0]
    assert json.loads(report.to_json())["series"]["epsilon"] == 3.0
    first, alone = found.collection.promised.split("\n")[:2]
    assert first.startswith("(3, 1e-09)-differential privacy for each person, in all 5 collections of this series")
    assert alone.startswith("in this epoch alone: (1, ")
    assert verified.collection.promised == str(verified.collection.plan.guarantee)


BOOK = """
[columns.smoker]
yes = ["yes"]
no = ["no"]
label = "Do you <b>smoke</b>?"
[columns.age]
lower = 18
upper = 98
unit = "years"
label = "Age"
meaning = "On the day of the visit."
if_missing = "indicator"
[columns.ward]
values = ["north", "south", "west"]
[columns.day]
date = "%Y-%m-%d"
lower = "2020-01-01"
upper = "2020-12-31"
[columns.cost]
lower = 1
upper = 1000
transform = "log"
"""


def test_results_are_told_by_the_meanings_and_units_of_the_codebook(tmp_path, verified):
    (tmp_path / "bounds.toml").write_text(BOOK)
    schema, draw = Schema.from_toml(tmp_path / "bounds.toml"), np.random.default_rng(3)
    rows = [
        [
            draw.choice(["yes", "no", "no", "no"]),
            age if (age := str(draw.integers(20, 60))) < "58" else "",
            ward,
            day,
            "9",
        ]
        for ward, day in zip(draw.choice(["north", "south"], 4000), ["2020-03-01", "2020-05-01"] * 2000, strict=True)
    ]
    lines = ["smoker,age,ward,day,cost", *map(",".join, rows)]
    (tmp_path / "people.csv").write_text("\n".join(lines) + "\n")
    values = schema.codebook.encode(read_cells(tmp_path / "people.csv", schema.codebook.sources)).values
    spec = ReleaseSpec.of(schema, len(values), 4.0, 1e-6, simulation_seed=1)
    release = run(design(spec), values, stream=Stream.from_seed(1))
    told = dict(sentences(release))
    assert list(told) == [
        "Do you <b>smoke</b>?: yes",
        "Age",
        "Age: not answered",
        "ward: south",
        "ward: west",
        "day",
    ]
    means = dict(zip(schema.names, values.mean(axis=0), strict=True))
    for name, column, factor, unit in (
        ("Do you <b>smoke</b>?: yes", "smoker", 100, " % of the reports"),
        ("Age", "age", 1, " years on average"),
        ("ward: south", "ward=south", 100, " % of the reports"),
    ):
        found = re.match(rf"about (\S+){unit}; between (\S+) and (\S+)", told[name])
        middle, low, high = map(float, found.groups())
        assert low < middle < high
        assert middle == pytest.approx(
            factor * means[column], abs=3 * (high - low) / 4
        )  # six standard errors; one seed
    days = [f"2020-{month:02}-{day:02}" for month in range(1, 13) for day in range(1, 32)]
    found = re.match(r"about (\S+) on average; between (\S+) and (\S+) for all", told["day"])
    assert [one in days for one in found.groups()] == [True] * 3
    assert found[2] <= found[1] <= found[3]
    mean = datetime.date(2020, 1, 1) + datetime.timedelta(days=float(means["day"]))
    assert found[2] <= mean.isoformat() <= found[3]
    assert "Missing answers count as the middle of the range." in told["Age"]
    assert "Missing answers" not in told["ward: south"]
    assert "between 0 and" in told["ward: west"]  # no share is below nothing
    named = changed(verified, template={**verified.collection.template, "schema": schema.to_dict()})
    page = release_page(named)
    assert "Do you &lt;b&gt;smoke&lt;/b&gt;?" in page
    read = text_of(named)
    assert "Age , from 18 to 98 years. On the day of the visit." in read
    assert "ward , one of north, south, west" in read


def test_medians_and_shares_of_cells_are_told_with_the_intervals_of_the_table(verified):
    release = Release.load(ROOT / "tests/vectors/cells_release.dpmpc", longest=60)
    told, fit = dict(sentences(release)), TableOne().fit_release(release)
    assert list(told) == ["age", "crp", "seen", "ward: north", "ward: south", "ward: isle"]
    median = fit.quantile("crp", 0.5)
    found = re.match(r"half of the reports have at most (\S+); between (\S+) and (\S+) for all people", told["crp"])
    assert [float(number) for number in found.groups()] == pytest.approx(list(median), rel=1e-3)
    row = dict(fit.shares().rows())["ward = north, all"]
    found = re.match(r"about (\S+) % of the reports; between (\S+) and (\S+) % for all", told["ward: north"])
    assert [float(number) for number in found.groups()] == pytest.approx([row[2], *row[4:]], rel=1e-3)
    read = text_of(dataclasses.replace(verified, release=release))
    assert "Where a table says people, it counts reports." in read
    assert told["seen"] in read
    assert re.match(r"half of the reports have 2020-\d\d-\d\d or before; between 2020-\d\d-\d\d and 2020", told["seen"])
    assert sentence_of("{}", math.nan, 0.0, 1.0, "") == "not shown: the noise is too large for so few reports."


def counted(people, epsilon, sums=None):
    """Return the release of a table by two wards of people of whom half smoke, whose noise happens to be none."""
    book = Codebook((Variable("smoker", yes=("y",), no=("n",)), Variable("ward", values=("north", "south"))))
    public = Schema.of_codebook(book)
    contribution = CellCounts.of(public, "ward")
    task = design(ReleaseSpec.of(public, people, epsilon, 1e-6, contribution=contribution, simulation_seed=1))
    exact = np.array([people // 4] * 3 + [people - 3 * (people // 4)]) if sums is None else np.array(sums)
    return Release(task, (exact * 2**task.encoding.fractional_bits)[None].astype(np.int64))


@pytest.mark.parametrize("people", [502, 120, 60, 5000])
@pytest.mark.parametrize("epsilon", [0.03, 0.1, 0.25, 1.0])
def test_a_share_is_told_on_the_page_where_the_collection_had_said_so(people, epsilon):
    """One rule: the design, the plan, the table and the page say the same of half of all, and the same error."""
    release = counted(people, epsilon)
    useful, why = reading_of(release.task.statistic).verdict(release.task)
    row = dict(TableOne().fit_release(release).shares().rows())["smoker = yes, all"]
    assert useful == math.isfinite(row[2]), why
    (_, no), (_, yes) = sentences(release)
    assert useful == ("not shown" not in yes) == ("not shown" not in no)
    assert f"a standard error of up to {row[1]:,.3g} by noise" in why


def test_a_wide_range_is_told_as_a_wide_range():
    """222 +- 38 of 502 reports are not nothing: between a quarter and two thirds."""
    release = counted(502, 0.14)
    row = dict(TableOne().fit_release(release).shares().rows())["smoker = yes, all"]
    assert 30 < row[1] < 60
    told = dict(sentences(release))["smoker: yes"]
    assert re.match(r"about 50\S* % of the reports; between (2|3)\d\S* and (6|7)\d\S* % for all people", told)


def test_no_number_of_people_is_below_0():
    release = counted(400, 0.5, [230, -20, 200, -10])
    result = TableOne().fit_release(release).result()
    assert min(row["people"] for row in result.data["categories"].values()) == 0
    assert min(row["people"] for row in result.data["people"].values()) >= 0
    assert not any(re.search(r"about (-|\u2212)", sentence) for _, sentence in sentences(release))

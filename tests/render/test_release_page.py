"""The page of a collection's release: a function of what was verified, in an order, and in words that are true."""

import dataclasses
import math
import re
import subprocess
import sys

import msgspec
import numpy as np
import pytest

from dpmpc import ReleaseSpec, Schema, design
from dpmpc.cli.main import main
from dpmpc.collection.task_file import Collection
from dpmpc.collection.verifying import verify
from dpmpc.data import read_cells
from dpmpc.errors import VerificationFailed
from dpmpc.estimators.table_one_fit import TableOneFit
from dpmpc.randomness import Stream
from dpmpc.release import Release
from dpmpc.render.release_page import _promise, _sentences, _told, release_page
from dpmpc.simulation import run
from support.certified_releases import certify
from support.html_page import Page
from support.pages import ROOT

SECTIONS = ["checked", "asked", "reports", "promise", "seen", "results", "again", "experts"]


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """A release of second moments, with noise by servers, which is as this process sums it."""
    options = {"sketch": "sum", "rows": None, "sparsity": None, "copies": "auto", "noise_by": "servers"}
    return certify(tmp_path_factory.mktemp("summed"), 3, [], **options, corrupt_clients=None)


@pytest.fixture(scope="module")
def verified(file):
    """What was verified, with sums whose noise happens to be none, so that no test depends on chance."""
    found = verify(file.path, file.deployment.collection)
    exact = file.deployment.expected(found.release)
    return dataclasses.replace(found, release=dataclasses.replace(found.release, sums=exact))


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


def test_a_sketch_of_0_1_is_told_without_options_of_commands():
    old = ROOT / "tests" / "vectors" / "version_0_1"
    known = Collection.load(old / "collected_servers.toml")
    read = text_of(verify(old / "collected_servers.dpmpc", known))
    assert "7 of 7 checks passed." in read
    assert "A sketch of rows." in read
    assert "regresses" not in read


def test_the_command_writes_what_the_function_returns(file, capsys):
    """In another process, too: nothing of the time, of the machine or of the order of sets is in it."""
    arguments = ["verify", str(file.path), "--html"]
    assert main([*arguments, "--collection", str(file.deployment.task_file)]) == 0
    assert capsys.readouterr().out == release_page(verify(file.path, file.deployment.collection))
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
    refused = {"false proof": 1, "different lists": 2000, "wrong hash, says server 1": 3}
    left_out = {"2": {"damaged": 4}, "0": {"released before": 5, "dealt wrongly": 6}}
    read = text_of(changed(verified, manifest={"refused": refused, "left_out": left_out}))
    for told in (
        "Were refused 2,004 reports",
        "1 report was refused by all servers: they were not shown to be well formed.",
        "2,000 reports were refused by all servers: they were not the same at all servers.",
        "3 reports were refused by all servers: they were off (wrong hash, says server 1).",
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


def test_who_could_have_seen_what_follows_from_the_sharing(verified):
    read = text_of(verified)
    assert "All 3 servers, if they all break their word" in read
    assert "Any 2 of the 3 servers" in read
    assert "the form in the browser" not in read
    shamir = verify(ROOT / "tests/vectors/version_0_1/collected_shamir.dpmpc")
    read = text_of(shamir)
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
    assert text_of(noisy).count("the noise is larger than what it hides, so nothing is known.") == 2


@pytest.mark.parametrize(
    ("epsilon", "delta", "percent"),
    [(math.log(3), 0.0, "75"), (0.7, 1e-7, "66.9"), (1.0, 1e-7, "73.2"), (1.0, 0.01, "73.4"), (50.0, 0.0, "100")],
)
def test_the_chance_to_guess_an_answer_is_the_one_of_randomised_response(verified, epsilon, delta, percent):
    """Which attains it: the answer with e^eps/(1 + e^eps), and with delta of the rest in the clear, rounded up."""
    guarantee = msgspec.structs.replace(verified.release.guarantee, epsilon=epsilon, delta=delta)
    said = " ".join(_promise(guarantee, authenticated=True))
    assert f"a chance of at most {percent} %" in said
    odds = math.exp(epsilon)
    assert float(percent) / 100 >= (1 - delta) * odds / (1 + odds) + delta - 1e-12
    assert ("but for a chance of" in said) == bool(delta)
    shown = re.search(r"at most ([\d.,]+)(?:×10\S+)? times", said)[1]
    assert epsilon == 50.0 or odds - 1e-9 <= float(shown) < 1.01 * odds


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
    told = dict(_sentences(release))
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
        ("day", "day", 1, " days after 2020-01-01 on average"),
    ):
        found = re.match(rf"about (\S+){unit}; between (\S+) and (\S+)", told[name])
        middle, low, high = map(float, found.groups())
        assert low < middle < high
        assert middle == pytest.approx(
            factor * means[column], abs=3 * (high - low) / 4
        )  # six standard errors; one seed
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
    told, fit = dict(_sentences(release)), TableOneFit().fit_release(release)
    assert list(told) == ["age", "crp", "seen", "ward: north", "ward: south", "ward: isle"]
    median = fit.quantile("crp", 0.5)
    found = re.match(r"half of the reports say at most (\S+); between (\S+) and (\S+) for all people", told["crp"])
    assert [float(number) for number in found.groups()] == pytest.approx(list(median), rel=1e-3)
    row = dict(fit.shares().rows())["ward = north, all"]
    found = re.match(r"about (\S+) % of the reports; between (\S+) and (\S+) % for all", told["ward: north"])
    assert [float(number) for number in found.groups()] == pytest.approx([row[2], *row[4:]], rel=1e-3)
    read = text_of(dataclasses.replace(verified, release=release))
    assert "Where a table says people, it counts reports." in read
    assert told["seen"] in read
    assert _told("{}", math.nan, 0.0, 1.0, "") == "the noise is larger than what it hides, so nothing is known."

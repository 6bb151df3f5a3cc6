"""Pages on security and deployment name what is there: tests that exist, commands that parse, links that lead on."""

import re
import shlex
import tomllib
from pathlib import Path

import yaml

from dpmpc.app.cli.main import parser
from dpmpc.collect.intake.admission import Limits
from support.lints import check_each, functions_in
from support.pages import load

ROOT = Path(__file__).parent.parent
SECURITY = (ROOT / "docs" / "security.md").read_text()
DEPLOY = (ROOT / "docs" / "deploy.md").read_text()
OPERATORS = [DEPLOY, *((ROOT / "docs" / page).read_text() for page in ("runbook.md", "how-to/contribute.md"))]
COMPOSE = ROOT / "docs" / "deploy" / "compose.yaml"
UNITS = sorted((ROOT / "docs" / "deploy").glob("*.service"))
THREATS = tomllib.loads((ROOT / "docs" / "threats.toml").read_text())["threat"]
WORDS = 110  # of a threat, at most
SITE = load(ROOT / "docs" / "toml_pages.py")


def test_threats_are_numbered_and_the_page_states_how_many_there_are():
    assert [threat["id"] for threat in THREATS] == list(range(1, len(THREATS) + 1))
    assert f"list {len(THREATS)} attacks" in " ".join(SECURITY.split())


def check_threat(threat):
    assert {*threat, "remains"} == {"id", "title", "adversary", "status", "defence", "remains", "tests"}
    assert threat["adversary"] in SITE.ADVERSARIES
    assert threat["status"] in ("prevented", "detected", "limited", "accepted")
    assert threat["status"] == "prevented" or "remains" in threat, "what remains?"
    assert len(f"{threat['defence']} {threat.get('remains', '')}".split()) <= WORDS
    assert threat["tests"], "names no test"
    named = [name.split("::") for name in threat["tests"]]
    missing = [f"{file}::{name}" for file, name in named if name not in functions_in(file)]
    assert not missing, f"names {missing}, which do not exist"


def test_each_threat_has_its_fields_and_names_tests_that_exist():
    check_each(check_threat, THREATS, name=lambda threat: f"threat {threat['id']}")


def test_the_site_lists_every_threat_once():
    page = [(ROOT / "docs" / "threats.md").read_text()]
    SITE.write_lists(None, "threats", page)
    assert sorted(map(int, re.findall(r"^\*\*(\d+)\. ", page[0], re.MULTILINE))) == [t["id"] for t in THREATS]


def check_command(line):
    command = re.split(" [<>] ", line)[0]
    assert parser().parse_args(shlex.split(command, comments=True)[1:]).run is not None


def test_the_commands_of_the_walk_through_exist():
    lines = re.findall(r"^dpmpc [^|\n]*", "".join(OPERATORS).replace("\\\n", ""), re.MULTILINE)
    check_each(check_command, lines)


def test_the_settings_of_the_units_are_options_of_the_command():
    settings = re.findall(r"WEB=(--[^`\n]+)", DEPLOY)
    assert len(settings) == 2
    check_each(
        check_command, [f"dpmpc serve TASK --server 0 --folder F --listen 0.0.0.0:7443 {web}" for web in settings]
    )


def check_unit(unit):
    (command,) = re.findall(r"^ExecStart=/opt/dpmpc/bin/dpmpc (.*)$", unit.read_text(), re.MULTILINE)
    values = {"${TASK}": "/etc/dpmpc/survey.json", "${SERVER}": "0", "${LISTEN}": "0.0.0.0:7443", "%i": "survey"}
    values |= {"$WEB": "--proxy 127.0.0.1:8080", "${MONITOR}": "127.0.0.1:9443"}
    values |= {"$SERVE_OPTIONS": "--rate 100", "$RELEASE_OPTIONS": "--without 2"}
    for name, value in values.items():
        command = command.replace(name, value)
    assert parser().parse_args(shlex.split(command)).run is not None


def test_units_start_commands_that_exist():
    check_each(check_unit, UNITS)


def test_the_container_is_watched_and_started_by_commands_that_exist():
    values = {"SERVER": "2", "FOLDER": "./server-2", "TASK": "./survey.json", "BASE": "python@sha256:00"}
    values |= {"WHEEL": "dist/dpmpc.whl", "WHEEL_SHA256": "00"}
    text = re.sub(r"\$\{(\w+):\?[^}]*\}", lambda found: values[found[1]], COMPOSE.read_text())
    (service,) = yaml.safe_load(text)["services"].values()
    started = parser().parse_args(service["command"])
    assert (started.command, started.server, started.log_format) == ("serve", 2, "json")
    watched = parser().parse_args(shlex.split(service["healthcheck"]["test"])[1:])
    host, port = started.monitor
    assert (watched.command, watched.where) == ("status", f"http://{host}:{port}")
    assert service["ports"] == [f"{started.listen[1]}:{started.listen[1]}", f"443:{started.web[1]}"]
    assert {volume.split(":")[1] for volume in service["volumes"]} == {started.folder, started.collection}
    assert (service["cap_drop"], service["read_only"], service["ulimits"]["core"]) == (["ALL"], True, 0)
    assert service["ulimits"]["nofile"] >= 2 * Limits().requests
    released = re.search(r"serve (release .*)\n", text.replace("\\\n#", ""))[1]
    assert parser().parse_args(shlex.split(released)).folder == started.folder


def test_links_lead_somewhere():
    def check(link):
        assert link[1].startswith("https://") or (ROOT / "docs" / link[1]).exists(), "leads nowhere"

    pages = {"security.md": SECURITY, "deploy.md": DEPLOY, "runbook.md": OPERATORS[1]}
    check_each(check, [(page, to) for page, text in pages.items() for to in re.findall(r"\]\(([^)#]+)", text)])

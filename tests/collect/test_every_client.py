"""One collection from `dpmpc identity` to `dpmpc verify`, whose reports come from every client that there is."""

import asyncio
import csv
import datetime
import json
import os
import subprocess

import numpy as np
import pytest

from bench.system.collection_servers import Servers
from bench.system.ports import HOST, free_ports
from dpmpc.app.cli.main import main
from dpmpc.collect.terms.task_file import Collection
from support.browser import CHROMIUM, browser_page
from support.clients_in_r import CLIENT, built, has_r
from support.node import node, run_node
from support.release_processes import close_and_release

BOUNDS = """
[columns.age]
lower = 18
upper = 80
label = "Your age"
unit = "years"
[columns.waiting]
lower = 0
upper = 52
label = "How long you waited"
meaning = "From the letter of your doctor to the operation"
unit = "weeks"
"""
ORGANISATIONS = ("City Hospital", "The Patients' Association", "University of Here")
SIZES = {"desktop": (1280, 900), "phone": (360, 800)}


def run(*argv):
    assert main([*map(str, argv)]) == 0


@pytest.fixture
def servers(tmp_path):
    """Servers of three organisations, as their operators make them."""
    (tmp_path / "bounds.toml").write_text(BOUNDS)
    ports, entries = free_ports(6), []
    for server, name in enumerate(ORGANISATIONS):
        own = tmp_path / f"server-{server}"
        own.mkdir(mode=0o700)
        run("identity", own / "identity", "--server", server)
        run("identity", own / "seals", "--seal", "trial")
        web, pinned = f"{HOST}:{ports[server]}", f"{HOST}:{ports[3 + server]}"
        entries += ["--server", f"https://{web}", pinned, pinned, own / "identity" / "party.crt"]
        entries += ["--seal", own / "seals" / "trial.pub", "--organisation", server, name]
    now = datetime.datetime.now(datetime.UTC)
    hours = {"--opens": -1, "--closes": 1, "--expires": 20}
    times = [part for name, add in hours.items() for part in (name, (now + datetime.timedelta(hours=add)).isoformat())]
    facts = ["--name", "Waiting for a hip", "--purpose", "How long people wait.", "--contact", "ada@clinic.example"]
    sizes = ["--minimum-batch", 60, "--largest-batch", 500, "--epsilon", 2, "--delta", "1e-6", "--even-if-hopeless"]
    task_file = tmp_path / "collection.json"
    run("collection", task_file, *facts, "--bounds", tmp_path / "bounds.toml", *entries, *times, *sizes)
    monitors, proxied = (tuple(free_ports(3)) for _ in range(2))
    with Servers(tmp_path, Collection.load(task_file), monitors=monitors, proxied=proxied) as made:
        yield made.start()


def rows_of(count, seed):
    generator = np.random.default_rng(seed)
    return np.column_stack([generator.uniform(18, 80, count), generator.uniform(0, 52, count)])


def by_python(servers, count):
    table = servers.folder / "people.csv"
    with table.open("w", newline="") as file:
        csv.writer(file).writerows([("age", "waiting"), *rows_of(count, 1).tolist()])
    state = servers.folder / "people.state"
    run("submit", servers.task_file, table, "--door", servers.door(0), "--state", state, "--batch", 5)


def by_node(servers, count):
    doors = [servers.door(server) for server in range(3)]
    run_node("contribute", servers.collection, rows=rows_of(count, 2).tolist(), doors=doors)


def by_r(servers, count):
    environment = {**os.environ, "DPMPC_REPORT": str(built(servers.folder))}
    for place, (age, waiting) in enumerate(rows_of(count, 3)):
        own = servers.folder / f"person-{place}"
        own.mkdir()
        command = ["Rscript", CLIENT, servers.door(1), servers.collection.digest.hex()]
        command += [f"age={age:.1f}", f"waiting={waiting:.1f}"]
        subprocess.run(command, cwd=own, env=environment, capture_output=True, timeout=120, check=True)


def by_form(servers, size):
    async def visit():
        async with browser_page() as page:
            await page.resize(*SIZES[size])
            await page.open(f"{servers.door(2)}/contribute#{servers.collection.digest.hex()}")
            await page.until("document.getElementById('said').textContent.startsWith('Ready')")
            for place, value in enumerate(("44", "17")):
                await page.run(f"document.getElementById('field-{place}').value = {json.dumps(value)}")
            await page.picture(servers.folder / f"form-{size}.png")
            await page.run("document.querySelector('#form button').click()")
            await page.until("document.getElementById('send').offsetParent !== null")
            await page.run("document.getElementById('send').click()")
            await page.until("document.getElementById('receipt').hidden === false")
            await page.picture(servers.folder / f"receipt-{size}.png")
            assert not page.complaints, page.complaints

    asyncio.run(visit())


async def looked_at(address, pictures):
    """Take pictures of a page, of each size; a page that is wider than its window is an error."""
    async with browser_page() as page:
        for size, dimensions in SIZES.items():
            await page.resize(*dimensions)
            await page.open(address)
            assert await page.run("document.documentElement.scrollWidth <= innerWidth")
            await page.picture(pictures.with_name(f"{pictures.name}-{size}.png"))


@node
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
@pytest.mark.skipif(not has_r(), reason="needs R with openssl, jsonlite and curl, and gcc")
@pytest.mark.timeout(900)
@pytest.mark.long("browsers, node, R and Python contribute to one collection")
def test_every_client_contributes_to_one_collection_that_verifies(servers, capsys):
    by_python(servers, 40)
    by_node(servers, 20)
    by_r(servers, 3)
    for size in SIZES:
        by_form(servers, size)
    asyncio.run(looked_at(servers.door(0) + "/", servers.folder / "open"))
    for server in range(3):
        servers.stop(server)
    close_and_release(servers)
    release = servers.folder / "release-0.dpmpc"
    capsys.readouterr()
    run("verify", release, "--collection", servers.task_file, "--json")
    verified = json.loads(capsys.readouterr().out)
    run("verify", release, "--collection", servers.task_file, "--html")
    page = capsys.readouterr().out
    report = servers.folder / "report.html"
    report.write_text(page)
    asyncio.run(looked_at(report.as_uri(), servers.folder / "report"))
    assert "65" in json.dumps(verified)
    for text in (*ORGANISATIONS, "Waiting for a hip", "How long people wait.", "ada@clinic.example"):
        assert text.replace("'", "&#39;") in page, text

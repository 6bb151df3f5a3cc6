"""The form at /contribute, in a real browser at the doors of real servers, and the same client in node."""

import asyncio
import json
import re
import subprocess
import time

import aiohttp
import numpy as np
import pytest

from bench.system.collection_servers import Servers
from dpmpc.collect.intake import front_page
from dpmpc.collect.terms.verifying import verify
from dpmpc.collect.upload.roster import draw_tickets, write_roster
from dpmpc.data import Codebook, Schema
from dpmpc.data.variables import Variable
from dpmpc.linear.proving.circuit import FIELD
from dpmpc.privacy import bound_in_words
from dpmpc.release.proved_reports import shares_of
from support.announcements import announced
from support.browser import CHROMIUM, browser_page, violations
from support.node import node, run_node
from support.release_processes import close_and_release

PROVED = {"proved": True, "noise_by": "servers", "sketch": "sum", "rows": None}
BOUNDS = Schema.of_codebook(
    Codebook(
        (
            Variable("age", 18.0, 80.0, label="How <b>old</b> are you?", meaning="In full years", unit="years"),
            Variable("region", values=("N", "E"), other="none of these", if_missing="indicator"),
            Variable("<i>note</i>", -1.5, 1.5, if_missing="indicator"),
            Variable("asked", date="%d.%m.%Y", lower="01.01.2020", upper="31.12.2026"),
            Variable("ward", values=tuple("abcdefg")),
        )
    )
)
TEXTS = {"purpose": "Why <b>people</b> wait.", "contact": "ada@clinic.example"}
PHONE = (360, 800)
SAID = "document.getElementById('said')?.textContent"
SHOWN = "document.getElementById('{}')?.hidden === false"
MOST_BYTES = 100_000

chromium = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """Three servers with doors, whose codebook has variables of several kinds."""
    folder = tmp_path_factory.mktemp("form")
    options = {"columns": BOUNDS.names, "bounds": BOUNDS, **TEXTS, **PROVED}
    with Servers.make(folder, "--rate", "100000", doors=True, **options) as servers:
        yield servers.start()


def ids_at(servers, server):
    with servers.spool(server) as spool:
        return {bytes(one).hex() for one in spool.ids()}


def visit(servers, script, door=0, path="/contribute", ready="Ready."):
    """Open a door's form in a new browser, and run `script(page)` once the page says that it is ready."""

    async def run():
        async with browser_page() as page:
            await page.resize(*PHONE)
            await page.open(servers.door(door) + path)
            await page.until(f"{SAID}?.startsWith({json.dumps(ready)})")
            result = await script(page)
            assert not page.complaints, page.complaints
            return result

    return asyncio.run(run())


async def fill_in(page, age="44,5", region="1", note="-0.5", asked="2021-02-03", ward="2"):
    for place, value in {0: age, 2: note, 3: asked, 4: ward}.items():
        await page.run(f"document.getElementById('field-{place}').value = {json.dumps(value)}")
    await press(page, f"#field-1-{region}")


async def press(page, name):
    await page.run(f"document.querySelector({json.dumps(name)}).click()")


async def contribute(page):
    await fill_in(page)
    await press(page, "#form button")
    await press(page, "#send")


@chromium
def test_a_person_with_a_keyboard_contributes_and_every_server_has_the_report(running, tmp_path):
    before = [ids_at(running, server) for server in range(3)]

    async def script(page):
        await page.run("document.getElementById('field-0').focus()")
        await page.type("44,5")
        await page.press("Tab", 9)
        await page.press(" ", 32, " ")  # the first of some buttons
        await page.press("Tab", 9)
        await page.type("7")  # outside: it is moved to the nearer end
        await page.press("Tab", 9)  # to the box that says nothing
        await page.press("Tab", 9)
        for key in "02022021":  # the same day wherever the month comes first
            await page.press(key, ord(key), key)
        await page.press("Tab", 9)
        await page.run("document.getElementById('field-4').focus()")
        await page.press("ArrowDown", 40)
        await page.run("document.getElementById('field-0').focus()")
        await page.press("Enter", 13, "\r")
        await page.until("document.activeElement.id === 'review-title'")
        answers = await page.run("document.getElementById('answers').innerText")
        await page.press("Tab", 9)
        assert await page.run("document.activeElement.id") == "send"
        await page.press("Enter", 13, "\r")
        await page.until(SHOWN.format("receipt"))
        assert await page.run("document.activeElement.id") == "receipt-title"
        found = await page.run("document.getElementById('report-id').textContent")
        kept = await page.run("JSON.stringify(localStorage) + JSON.stringify(sessionStorage) + document.cookie")
        await page.reload()
        await page.until(f"{SAID} === 'This browser has sent a report.'")
        await press(page, "#another")
        await page.until(f"{SAID} === 'Ready.'")
        return answers, found, kept

    answers, found, kept = visit(running, script)
    shown = ["How <b>old</b> are you?", "44.5 years", "region", "N", "<i>note</i>", "7, sent as 1.5"]
    assert answers.split("\n") == [*shown, "asked", "2021-02-02", "ward", "a"]
    assert kept.count("sent") == 1
    assert "44" not in kept.replace(running.collection.digest.hex(), "")
    assert [ids_at(running, server) - before[server] for server in range(3)] == [{found}] * 3


@chromium
def test_the_form_fits_a_phone_and_says_in_words_what_is_missing(running, tmp_path):
    async def script(page):
        assert await page.run("document.documentElement.scrollWidth") <= PHONE[0]
        await fill_in(page, age="old")
        await press(page, "#form button")
        assert await page.run(SAID) == "1 of 5 answers are missing or cannot be read."
        assert await page.run("document.activeElement.id") == "field-0"
        assert await page.run("document.activeElement.getAttribute('aria-invalid')") == "true"
        said = await page.run("document.getElementById('field-0-error').textContent")
        assert said == "Type a number, such as 49."
        for age in ("44,125", "1,000"):  # which may be 44.125 or 44 thousand and more
            await fill_in(page, age=age)
            await press(page, "#form button")
            said = await page.run("document.getElementById('field-0-error').textContent")
            assert said == "Type it with a point before decimals, and nothing between thousands."
        assert await page.run("document.documentElement.scrollWidth") <= PHONE[0]
        fields = "[...document.querySelectorAll('input, select')]"
        assert await page.run(f"{fields}.length") == 1 + 4 + 2 + 1 + 1
        assert await page.run(f"{fields}.every(one => one.labels.length === 1)")
        described = "[...document.querySelectorAll('[aria-describedby]')]"
        assert await page.run(f"{described}.length") == 5
        assert await page.run(f"{described}.every(one => one.getAttribute('aria-describedby')"
                              ".split(' ').every(id => document.getElementById(id)))")  # fmt: skip
        hint = "document.getElementById('field-0-hint').textContent"
        assert (await page.run(hint)).startswith("In full years. A number from 18 to 80 years.")
        promised = await page.run("document.getElementById('promised').innerText")
        budget = running.collection.plan.guarantee
        assert promised.startswith(bound_in_words(budget.epsilon, budget.delta))
        legend = "document.querySelector('fieldset > legend').textContent"
        assert await page.run(legend) == "region"
        smallest = "Math.min(...[...document.querySelectorAll('button, label.choice')].filter(one => one.offsetHeight)"
        assert await page.run(f"{smallest}.map(one => one.offsetHeight))") >= 44  # that a finger hits
        assert await page.run("document.documentElement.lang") == "en"
        texts = [await page.run(f"document.getElementById('{what}').innerText") for what in TEXTS]
        assert texts == [TEXTS["purpose"], f"Questions: {TEXTS['contact']}"]  # as they are, not as markup
        assert await page.run("document.getElementById('said').getAttribute('aria-live')") == "polite"

    visit(running, script)


@chromium
def test_the_page_loads_and_sends_nothing_elsewhere_and_makes_no_code_of_text(running):
    async def script(page):
        blocked = (
            "(async () => { try { await fetch('http://127.0.0.1:9/'); return 'sent'; } catch { return 'blocked'; } })()"
        )
        assert await page.run(blocked) == "blocked"
        with pytest.raises(AssertionError, match="TrustedHTML"):
            await page.run("document.body.innerHTML = '<p>'")
        refused = [one["entry"]["text"] for one in page.complaints if "entry" in one]
        assert any("Content Security Policy" in text and "connect-src" in text for text in refused), refused
        page.complaints.clear()

    visit(running, script)


@chromium
def test_a_page_that_was_asked_for_one_collection_refuses_another(running):
    async def script(page):
        assert not await page.run(SHOWN.format("form"))
        return await page.run(SAID)

    other = "ab" * 32
    said = visit(running, script, path=f"/contribute#{other}", ready="You cannot contribute here")
    assert f"{running.collection.digest.hex()} received, {other} expected" in said
    right = f"/contribute#{running.collection.digest.hex()}"
    visit(running, lambda page: page.run("1"), path=right)


@chromium
def test_a_report_that_could_not_be_sent_is_sent_at_the_next_visit_and_counts_once(running):
    before = ids_at(running, 0)

    async def script(page):
        await page.call("Network.enable")
        nowhere = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
        await fill_in(page)
        await press(page, "#form button")
        await page.call("Network.emulateNetworkConditions", offline=True, **nowhere)
        await press(page, "#send")
        await page.until("localStorage.length === 1 && JSON.parse(localStorage.getItem(localStorage.key(0))).body")
        await page.until(f"{SAID}?.startsWith('Sending')")
        kept = json.loads(await page.run("localStorage.getItem(localStorage.key(0))"))
        await asyncio.sleep(0.5)
        await page.call("Network.emulateNetworkConditions", offline=False, **nowhere)
        await page.reload()
        await page.until(SHOWN.format("before"))
        page.complaints.clear()  # of the connection that there was not
        assert await page.run(SAID) == "A report of an earlier visit is stored now."
        assert not await page.run(SHOWN.format("receipt"))  # it may be somebody else's
        assert await page.run("document.getElementById('report-secret').textContent") == ""
        assert kept["secret"] not in await page.run("JSON.stringify(localStorage)")
        await press(page, "#mine")
        assert await page.run("document.getElementById('report-secret').textContent") == kept["secret"]
        await press(page, "#done")
        await page.until(f"{SAID} === 'This browser has sent a report.'")
        assert await page.run("document.getElementById('report-secret').textContent") == ""
        return kept["id"]

    found = visit(running, script, door=1)
    assert [ids_at(running, server) & {found} for server in range(3)] == [{found}] * 3
    assert ids_at(running, 0) - before == {found}


@chromium
def test_after_the_first_visit_the_form_works_without_a_network(running):
    """The page, its scripts and the task file come from the browser; the report is sent when there is a network."""
    before = ids_at(running, 0)

    async def script(page):
        nowhere = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
        await page.until(SHOWN.format("offline"))
        await page.call("Network.enable")
        await page.call("Network.emulateNetworkConditions", offline=True, **nowhere)
        await page.reload()
        await page.until(f"{SAID} === 'Ready.'")
        await contribute(page)
        await page.until("localStorage.length === 1 && JSON.parse(localStorage.getItem(localStorage.key(0))).body")
        await page.call("Network.emulateNetworkConditions", offline=False, **nowhere)
        await page.until(SHOWN.format("receipt"))
        page.complaints.clear()  # of the connection that there was not
        return await page.run("document.getElementById('report-id').textContent")

    found = visit(running, script)
    assert ids_at(running, 0) - before == {found}


@chromium
def test_the_policy_of_scripts_admits_the_service_worker_alone(running):
    async def script(page):
        with pytest.raises(AssertionError, match="TrustedScriptURL"):
            await page.run("navigator.serviceWorker.register('/client.mjs')")
        with pytest.raises(AssertionError, match="Policy"):
            await page.run("trustedTypes.createPolicy('dpmpc', { createScriptURL: path => path })")
        page.complaints.clear()

    visit(running, script)


@chromium
def test_who_would_rather_not_say_says_so(running):
    async def script(page):
        await fill_in(page, region="3", note="")
        await press(page, "#form button")
        said = await page.run("document.getElementById('field-2-error').textContent")
        assert said == 'Type a number, such as 0. Or tick "I would rather not say".'
        await press(page, "#field-2-none")
        assert await page.run("document.getElementById('field-2').disabled")
        assert await page.run("document.getElementById('field-2-error').textContent") == ""
        await press(page, "#form button")
        return await page.run("document.getElementById('answers').innerText")

    answers = visit(running, script).split("\n")
    assert answers[3] == answers[5] == "I would rather not say"


@chromium
def test_a_report_is_withdrawn_by_a_button_until_the_servers_have_announced(running):
    """The other clients' reports stay; a press that comes too late is answered in words and may be repeated."""
    before = [ids_at(running, server) for server in range(3)]

    async def script(page):
        await contribute(page)
        await page.until(SHOWN.format("receipt"))
        added = await page.run("document.getElementById('report-id').textContent")
        assert [ids_at(running, server) - before[server] for server in range(3)] == [{added}] * 3
        with announced(running, 0, 1, 2):
            await press(page, "#withdraw")
            await page.until(f"{SAID} !== 'Your report is stored.'")
            late = await page.run(SAID)
            kept = [ids_at(running, server) - before[server] for server in range(3)] == [{added}] * 3
        await page.until("!document.getElementById('withdraw').disabled")
        refused = [one["entry"]["text"] for one in page.complaints if "entry" in one]  # the log of each 409
        page.complaints.clear()
        await press(page, "#withdraw")
        await page.until(f"{SAID}?.startsWith('Your report is withdrawn')")
        shown = await page.run("document.getElementById('receipt').hidden")
        return late, kept, refused, await page.run(SAID), shown

    late, kept, refused, said, hidden = visit(running, script)
    assert late.startswith("Not withdrawn, as far as this page can tell: not confirmed; http://127.0.0.1:")
    assert "too late. Try again later; dpmpc withdraw, with the receipt, asks every server." in late
    assert kept
    assert all("409" in one for one in refused), refused
    assert said.startswith("Your report is withdrawn: it is in no release, if the server of this page is honest.")
    assert hidden
    assert [ids_at(running, server) for server in range(3)] == before


@chromium
def test_a_report_that_is_refused_for_good_is_forgotten_and_the_person_is_told(running):
    async def script(page):
        refusal = "{status: 410, json: async () => ({error: 'CollectionClosed', message: 'too late'})}"
        await page.run(f"globalThis.fetch = async () => ({refusal})")
        await contribute(page)
        await page.until(f"{SAID}?.startsWith('Not every server')")
        return await page.run(SAID), await page.run("localStorage.length")

    said, kept = visit(running, script)
    assert said.startswith(
        "Not every server has your report: too late. Unless an earlier attempt reached every server,"
    )
    assert kept == 0


@chromium
def test_a_server_that_says_it_refused_brings_nobody_to_count_twice(running):
    """It may have the report all the same: the browser keeps in mind that one was sent."""

    async def script(page):
        answer = "{status: 202, json: async () => ({servers: {0: 200, 1: 400, 2: 200}})}"
        await page.run(f"globalThis.fetch = async () => ({answer})")
        await contribute(page)
        await page.until(f"{SAID}?.startsWith('Not every server')")
        said, kept = await page.run(SAID), await page.run("JSON.stringify({...localStorage})")
        await page.reload()
        await page.until(f"{SAID} === 'This browser has sent a report.'")
        return said, kept

    said, kept = visit(running, script)
    assert "refused for good by servers 1. If that is true, it does not count. Do not answer anew:" in said
    assert json.loads(kept) == {f"dpmpc {running.collection.digest.hex()}": '{"sent":true}'}


@chromium
def test_a_ticket_is_not_kept_and_texts_of_a_task_file_show_what_they_hide(tmp_path):
    """Names of numbers look like those of a category's columns; the door answers nothing."""
    numbers = (Variable(name, 0.0, 1.0) for name in ("r=1", "r"))
    bounds = Schema.of_codebook(Codebook((*numbers, Variable("s", values=tuple("NESWTUV")))))
    options = {"columns": bounds.names, "bounds": bounds, "authenticated": True, "purpose": "a\u202eb\nc", **PROVED}
    with Servers.make(tmp_path, doors=True, **options) as servers:
        tickets = draw_tickets(["x"])
        for server in range(3):
            write_roster(servers.server_folder(server).roster, servers.collection, server, tickets)
        servers.start()

        async def script(page):
            labels = await page.run("[...document.querySelectorAll('label')].map(one => one.textContent)")
            choices = await page.run("[...document.querySelectorAll('option')].map(one => one.textContent)")
            purpose = await page.run("document.getElementById('purpose').textContent")
            typed = {"field-0": "0", "field-1": "1", "field-2": "1"}
            typed |= {"ticket-report": tickets[0].report.hex(), "ticket-secret": tickets[0].secret.hex()}
            for name, value in typed.items():
                await page.run(f"document.getElementById('{name}').value = {json.dumps(value)}")
            await page.run("globalThis.fetch = async () => { throw new TypeError('no network') }")
            await press(page, "#form button")
            await press(page, "#send")
            await page.until("localStorage.length === 1")
            kept = await page.run("localStorage.getItem(localStorage.key(0))")
            await page.reload()
            await page.until(SHOWN.format("before"))
            await press(page, "#mine")
            return (
                labels,
                choices,
                purpose,
                kept,
                await page.run("document.getElementById('report-secret').textContent"),
            )

        labels, choices, purpose, kept, secret = visit(servers, script)
        assert labels[:3] == ["r=1", "r", "s"]
        assert choices == ["", *"NESWTUV"]
        assert purpose == "a\\u{202e}b\\u{a}c"
        assert tickets[0].secret.hex() not in kept
        assert tickets[0].report.hex() in kept
        assert secret == "that of your ticket"


def get(address):
    async def run():
        async with aiohttp.ClientSession() as session, session.get(address) as response:
            return response.status, await response.read(), response.headers

    return asyncio.run(run())


def test_a_door_hands_out_the_form_with_its_policy_and_links_to_it(running):
    total = 0
    for path, (content, kind) in front_page.form_files().items():
        status, body, headers = get(running.door(0) + path)
        assert (status, body) == (200, content)
        assert headers["Content-Type"].split(";")[0] == kind
        policy = headers["Content-Security-Policy"].split("; ")
        assert {"default-src 'none'", "connect-src 'self'", "require-trusted-types-for 'script'"} <= set(policy)
        assert "script-src 'self' 'wasm-unsafe-eval'" in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        total += len(content)
    assert total < MOST_BYTES
    front = get(running.door(0) + "/")[1]
    assert b'href="/contribute"' in front
    assert b"Why &lt;b&gt;people&lt;/b&gt; wait." in front
    assert b"Questions: ada@clinic.example" in front
    assert get(running.door(0) + "/contribute.wasm")[0] == 404


def test_the_form_is_made_of_its_own_files_alone():
    files = front_page.form_files()
    text = "".join(content.decode() for content, kind in files.values() if kind != "application/wasm")
    loaded = re.findall(r"""(?:src=|href=|from |bytes\()["'](/[\w./]*)""", text)
    assert set(loaded) <= {*files, "/", "/v1/collection"}
    assert {"/contribute.css", "/contribute.mjs", "/questions.mjs", "/client.mjs", "/report.wasm", "/sw.mjs"} <= {
        *loaded,
        *re.findall(r"createScriptURL\('(.*?)'\)", text),
    }
    kept = re.search(r"const FILES = \[(.*)\];", files["/sw.mjs"][0].decode())[1]
    assert set(re.findall(r"'(.*?)'", kept)) == {*files, "/v1/collection"} - {"/sw.mjs"}


@node
def test_reports_of_node_are_counted_by_three_servers_in_a_release(tmp_path):
    """Sixty proved reports, each through one door; three processes release them, and the file verifies."""
    servers_of = {"doors": True, "minimum_batch": 50, "largest_batch": 200, **PROVED}
    with Servers.make(tmp_path, columns=("a", "y"), **servers_of) as servers:
        servers.start()
        rows = np.random.default_rng(5).uniform(0, 10, (60, 2))
        doors = [servers.door(server) for server in range(3)]
        sent = run_node("contribute", servers.collection, rows=rows.tolist(), doors=doors)
        assert [one["servers"] for one in sent] == [{"0": 200, "1": 200, "2": 200}] * 60
        assert [ids_at(servers, server) for server in range(3)] == [{one["id"] for one in sent}] * 3
        verified = released(servers)
        assert verified.certificate.statement.manifest.clients == 60


def released(servers):
    """Stop the servers, let three processes release, and verify the file."""
    for server in range(3):
        servers.stop(server)
    close_and_release(servers)
    return verify(servers.folder / "release-0.dpmpc", servers.collection)


@pytest.fixture(scope="module")
def axe(tmp_path_factory):
    """The script of axe-core, from npm."""
    folder = tmp_path_factory.mktemp("axe")
    packed = ["npm", "pack", "--silent", "axe-core@4.14.1"]
    try:
        name = subprocess.run(packed, cwd=folder, capture_output=True, text=True, timeout=120, check=True).stdout
        subprocess.run(["tar", "-xzf", name.strip(), "package/axe.min.js"], cwd=folder, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        pytest.skip("needs axe-core from npm")
    return (folder / "package" / "axe.min.js").read_text()


@chromium
@pytest.mark.long("a package of npm is fetched")
def test_nothing_in_the_form_keeps_people_out_who_do_not_see_or_use_no_mouse(running, axe):
    """On the empty form, with its errors, before sending, and with the receipt; and on the front page."""

    async def script(page):
        found = await violations(page, axe)
        await press(page, "#form button")
        await page.until("document.querySelector('[aria-invalid=true]') !== null")
        found += await violations(page, axe)
        await fill_in(page)
        await press(page, "#form button")
        await page.until("document.getElementById('send').offsetParent !== null")
        found += await violations(page, axe)
        await press(page, "#send")
        await page.until(SHOWN.format("receipt"))
        found += await violations(page, axe)
        await page.open(running.door(0) + "/")
        return found + await violations(page, axe)

    assert visit(running, script) == []


MANY = """(async () => {
  const { Client } = await import('/client.mjs');
  const bytes = async path => (await fetch(path)).arrayBuffer();
  const client = await Client.open(await bytes('/v1/collection'), %(digest)s, await bytes('/report.wasm'));
  let next = 0, making = 0;
  const rows = %(rows)s, sent = [];
  await Promise.all(Array.from({ length: 24 }, async () => {
    while (next < rows.length) {
      const [a, y] = rows[next++], began = performance.now(), report = await client.report({ a, y });
      making += performance.now() - began;
      await client.send(report, { doors: [location.origin] });
      sent.push(Array.from(report.id, byte => byte.toString(16).padStart(2, '0')).join(''));
    }
  }));
  return { sent, making: making / rows.length };
})()"""


@chromium
@pytest.mark.timeout(3600)
@pytest.mark.long("ten thousand reports of pages in Chromium")
@pytest.mark.parametrize("count", [10_000])
def test_ten_thousand_reports_of_pages_are_released_exactly(count, tmp_path):
    """Two pages at two doors send at once; the shares of three servers add up to the very rows, then they release."""
    servers_of = {"doors": True, "minimum_batch": count, "largest_batch": count, **PROVED}
    rows = np.random.default_rng(7).uniform(0, 10, (count, 2))
    with Servers.make(tmp_path, "--rate", "100000", columns=("a", "y"), **servers_of) as servers:
        servers.start()

        async def page_at(door, own):
            ids = []
            async with browser_page() as page:
                await page.open(servers.door(door) + "/contribute")
                for part in np.array_split(own, max(1, len(own) // 250)):
                    given = {"digest": json.dumps(servers.collection.digest.hex()), "rows": json.dumps(part.tolist())}
                    found = await page.run(MANY % given)
                    ids += found["sent"]
                assert not page.complaints, page.complaints
            return ids

        async def pages():
            return await asyncio.gather(*(page_at(door, own) for door, own in enumerate(np.array_split(rows, 2))))

        began = time.monotonic()
        sent = {one for ids in asyncio.run(pages()) for one in ids}
        print(f"{count} reports of two pages in {time.monotonic() - began:.0f} s")
        assert len(sent) == count
        plan = servers.collection.plan
        proofs = plan.proofs
        records = []
        for server in range(3):
            with servers.spool(server) as spool:
                ids = spool.ids()
                assert {bytes(one).hex() for one in ids} == sent
                words = spool.share(ids).rows(0, count)
                records.append(shares_of(plan, server, ids, words).records(proofs.circuit))
        witness = proofs.witness(proofs.encode(plan.schema.normalise(rows)))
        found = FIELD.sum_of(records)[:, : witness.shape[1]]
        assert sorted(map(tuple, found.tolist())) == sorted(map(tuple, witness.tolist()))
        assert released(servers).certificate.statement.manifest.clients == count

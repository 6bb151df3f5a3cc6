"""The client in JavaScript, run by node: its reports are the package's, sealed; it refuses what it cannot vouch for."""

import base64
import contextlib
import datetime
import hashlib
import json
import os
import re
import shutil
import socketserver
import subprocess
import threading
from importlib.metadata import version
from pathlib import Path

import msgspec
import numpy as np
import pytest

from dpmpc.collect.terms.series import Series
from dpmpc.collect.upload.report_ids import ID_BYTES
from dpmpc.collect.upload.reports import ReportFormat
from dpmpc.collect.upload.roster import Ticket
from dpmpc.collect.upload.seal_folder import SealFolder, read_public
from dpmpc.collect.upload.sealing import Opener, SealedReports
from dpmpc.data import Schema
from dpmpc.data.table import Cells
from dpmpc.linear.proving.circuit import FIELD
from dpmpc.parties.network.identity import write_identity
from dpmpc.privacy import bound_in_words
from dpmpc.release.proved_reports import unpacked
from support.node import WEB, node, run_node
from support.remade_reports import CASES, design, remade

ROOT = Path(__file__).parents[2]
CLANG = "14.0"  # of Debian 12: the bytes of report.wasm are those of this compiler
STANDARD = {  # RFC 9180, A.1.1
    "pkEm": "37fda3567bdbd628e88668c3c8d7e97d1d1253b6d4ea6d44c150f741f1bf4431",
    "skEm": "52c4a758a802cd8b936eceea314432798d5baf2d7e9235dc084ab1b9cfa2f736",
    "pkRm": "3948cfe0ad1ddb695d780e59077195da6c56506b027329794ab02bca80815c4d",
    "info": "4f6465206f6e2061204772656369616e2055726e",
    "plain": "4265617574792069732074727574682c20747275746820626561757479",
    "aad": "436f756e742d30",
    "ct": "f938558b5d72f1a23810b4be2ab4f84331acc02fc97babc53a52ae8218a355a96d8770ac83d07bea87e13c512a",
}


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    """Folders, certificates and public keys of three servers."""
    root = tmp_path_factory.mktemp("servers")
    certificates, keys = [], []
    for server in range(3):
        certificates.append(write_identity(root / str(server), server, datetime.timedelta(days=2)))
        folder = root / f"seal-{server}"
        pair = []
        for number, name in enumerate(("first", "later")):  # clients seal to the last one
            SealFolder(folder).draw(name)
            pair.append(msgspec.structs.replace(read_public(folder / f"{name}.pub"), number=number))
        keys.append(tuple(pair))
    return root, certificates, keys


@pytest.fixture(scope="module")
def designed(servers):
    """Return the collection of a name, made once."""
    made = {}

    def of(case, **more):
        key = (case, *more.items())
        if key not in made:
            made[key] = design(servers[1], case, servers[2], **more)
        return made[key]

    return of


def opened(servers, collection, report):
    """What each server finds in a report: its payload, and a token or None."""
    found = []
    for server in range(3):
        record, token = Opener(collection, server, SealFolder(servers[0] / f"seal-{server}")).open(report)
        ReportFormat(collection, server).decode(record)  # whose own hash has to be that of the proof
        found.append((record[ID_BYTES:], token))
    return found


@node
@pytest.mark.parametrize("case", CASES)
def test_the_payloads_are_those_of_the_package_to_the_last_byte(servers, designed, case):
    collection = designed(case)
    reports = remade(collection)
    given = [{"numbers": one.row, "drawn": [one.secret.hex(), one.drawn.hex()]} for one in reports]
    for report, made in zip(reports, run_node("remake", collection, reports=given), strict=True):
        body = bytes.fromhex(made["body"])
        assert bytes.fromhex(made["secret"]) == report.secret
        assert bytes.fromhex(made["id"]) == report.id == body[1:17]
        assert len(body) == SealedReports(collection).report_bytes
        assert body[17] == collection.servers[0].keys[-1].number == 1
        assert opened(servers, collection, body) == [(payload, None) for payload in report.payloads]


@node
def test_reports_that_are_made_at_once_are_as_good_as_others(servers, designed):
    """They share the memory of one instance; each is that of its own row, and no two ids or keys are equal."""
    collection = designed("proved")
    rows = [[18.0 + place, 2.0 * place] for place in range(30)]
    bodies = [
        bytes.fromhex(body) for body in run_node("at_once", collection, reports=[{"numbers": row} for row in rows])
    ]
    payloads = [[payload for payload, _ in opened(servers, collection, body)] for body in bodies]
    keys = [payload[:16] for each in payloads for payload in each]
    assert len(set(keys)) == len(keys)
    assert len({body[1:17] for body in bodies}) == len(bodies)
    plan, sums = collection.plan, []
    for body, each in zip(bodies, payloads, strict=True):
        ids = np.frombuffer(body[1:17], np.uint8).reshape(1, -1)
        sums.append(witness_of(plan, ids, each))
    expected = plan.proofs.witness(plan.proofs.encode(plan.schema.normalise(np.array(rows))))
    np.testing.assert_array_equal(np.concatenate(sums), expected)


def witness_of(plan, ids, payloads):
    """What the shares of a proved report add up to."""
    words = [np.frombuffer(payload, "<u8").astype(np.uint64).reshape(1, -1) for payload in payloads]
    circuit = plan.proofs.circuit
    records = [unpacked(3, server, ids, each).records(circuit) for server, each in enumerate(words)]
    return FIELD.sum_of(records)[:, : circuit.witness_words]


@node
@pytest.mark.parametrize("case", ["plain", "proved"])
def test_nothing_secret_stays_in_memory(servers, designed, case):
    """Neither what was drawn, nor the share of the last server, nor the numbers of the row."""
    collection = designed(case)
    report = remade(collection, 5)[4]
    given = [{"numbers": report.row, "drawn": [report.secret.hex(), report.drawn.hex()]}]
    left = run_node("left", collection, reports=given)
    assert left["kept"], "the heap is not as it was before the report"
    memory = bytes.fromhex(left["memory"])
    z = collection.plan.schema.normalise([report.row])[0]
    words = [report.drawn[at : at + 8] for at in range(0, len(report.drawn), 8)]
    secret = [report.secret, *words, report.payloads[-1][-8:], *(np.float64(x).tobytes() for x in (*report.row, *z))]
    assert collection.digest in memory  # which the plan has: it is this memory
    assert not [one for one in secret if one in memory]


@node
def test_with_a_roster_tokens_are_sealed_and_the_id_is_that_of_the_ticket(servers, designed):
    collection = designed("proved", authenticated=True)
    ticket = Ticket("somebody", os.urandom(16), os.urandom(32))
    report, given = remade(collection, 4)[3], {"report": ticket.report.hex(), "secret": ticket.secret.hex()}
    (made,) = run_node(
        "remake", collection, ticket=given, reports=[{"numbers": report.row, "drawn": [report.drawn.hex()]}]
    )
    found = opened(servers, collection, bytes.fromhex(made["body"]))
    assert made["id"] == ticket.report.hex()
    assert [token for _, token in found] == [ticket.token(server) for server in range(3)]
    (missing,) = run_node("rows", collection, rows=[dict(zip(("age", "income"), report.row, strict=True))])
    assert (missing["error"], "ticket" in missing["message"]) == ("TypeError", True)


@node
def test_sealing_gives_the_known_answer_of_the_standard():
    keys = {name: base64.urlsafe_b64encode(bytes.fromhex(STANDARD[key])).decode().rstrip("=") for name, key in
            {"d": "skEm", "x": "pkEm"}.items()}  # fmt: skip
    assert run_node("standard", **STANDARD, **keys) == STANDARD["pkEm"] + STANDARD["ct"]


@node
@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"age": 20}, "income: undefined received, a finite number expected"),
        ({"age": 20, "income": "3"}, "income: 3 received, a finite number expected"),
        ({"age": None, "income": 3}, "age: null received, a finite number expected"),
        ({"age": 20, "income": 3, "height": 2}, "height: received, columns age,income expected"),
    ],
    ids=str,
)
def test_a_row_without_a_number_for_each_column_is_refused(designed, row, said):
    (answer,) = run_node("rows", designed("plain"), rows=[row])
    assert (answer["error"], answer["message"]) == ("RangeError", said)


REFUSED = {
    "format": ({"format": 2}, "format: 2 received, 4 expected by this client"),
    "noise": ({"task": {"noising": {"by": "clients"}}}, 'noise: "clients" received, servers expected by this client'),
    "sharing": ({"task": {"sharing": "shamir"}}, 'sharing: "shamir" received, additive expected by this client'),
    "ring": ({"task": {"encoding": {"ring": "mersenne61"}}}, 'ring: "mersenne61" received, ring64 expected'),
    "statistic": ({"task": {"statistic": {"name": "score"}}}, 'statistic: "score" received, rows or second-moments'),
    "unknown": ({"task": {"statistic": {"order": 3}}}, "statistic: order received, which this client does not know"),
    "outside": ({"task": {"schema": {"outside": "refuse"}}}, 'outside: "refuse" received, clip expected'),
    "copies": ({"task": {"noising": {"copies": "each"}}}, 'copies: "each" received, one expected'),
    "bits": ({"task": {"encoding": {"fractional_bits": 60}}}, "for which there are no reports"),
}


BOOK = """
missing = ["-9"]
products = [["age", "ward", "smokes"], ["dose", "asked"]]
[columns.age]
lower = 18
upper = 80
if_missing = "indicator"
label = "How old are you?"
meaning = "In full years."
unit = "years"
[columns.ward]
values = ["north", "south", "west"]
reference = "south"
other = "elsewhere"
if_missing = "indicator"
[columns.sex]
values = ["f", "m"]
[columns.smokes]
yes = ["Yes"]
no = ["No"]
if_missing = "middle"
[columns.asked]
date = "on %d.%m.%y"
lower = "on 28.02.99"
upper = "on 01.03.24"
[columns.dose]
lower = 1
upper = 1000
transform = "log"
if_missing = "middle"
[columns.height]
lower = 100
upper = 220
transform = "spline"
knots = [140, 160, 180]
"""


def random_answers(draw, count):
    """Return answers as the client takes them, and the same as they stand in a file."""
    for _ in range(count):
        day = datetime.date(1998, 6, 1) + datetime.timedelta(int(draw.integers(10_000)))
        smokes = [True, False, None][draw.integers(3)]
        answers = {
            "age": None if draw.random() < 0.2 else float(draw.integers(10, 90)),
            "ward": [None, "north", "south", "west", "elsewhere"][draw.integers(5)],
            "sex": "fm"[draw.integers(2)],
            "smokes": smokes,
            "asked": day.isoformat(),
            "dose": None if draw.random() < 0.2 else float(draw.uniform(-1, 1200)),
            "height": [100.0, 220.0, 140.0, float(draw.uniform(90, 230))][draw.integers(4)],
        }
        words = {name: None if answer is None else str(answer) for name, answer in answers.items()}
        words |= {"asked": day.strftime("on %d.%m.%y"), "smokes": {True: "yes", False: "NO", None: "-9"}[smokes]}
        yield answers, words


def test_rows_of_answers_are_those_of_the_package(designed, tmp_path):
    """Of every kind of variable, with products; logarithms and splines up to their last bits."""
    (tmp_path / "bounds.toml").write_text(BOOK)
    schema = Schema.from_toml(tmp_path / "bounds.toml")
    pairs = list(random_answers(np.random.default_rng(8), 200))
    told = run_node(
        "answers", designed("proved, a ball", schema=schema, radius=None), answers=[one for one, _ in pairs]
    )
    for found, (answers, words) in zip(told["rows"], pairs, strict=True):
        expected = schema.codebook.encode(Cells.of_row(words, "row")).values[0]
        assert list(found["answer"]) == list(schema.names)
        assert np.allclose(list(found["answer"].values()), expected, rtol=1e-12, atol=1e-12), answers
    shown = {one["name"]: one for one in told["variables"]}
    assert shown["age"] == {
        "name": "age", "kind": "number", "label": "How old are you?", "meaning": "In full years.", "unit": "years",
        "lower": 18, "upper": 80, "mayBeMissing": True,
    }  # fmt: skip
    assert (shown["asked"]["lower"], shown["asked"]["upper"]) == ("1999-02-28", "2024-03-01")
    assert shown["ward"]["values"] == ["north", "south", "west", "elsewhere"]
    assert shown["smokes"]["values"] == ["yes", "no"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"age": "old"}, 'age: "old" received, a finite number expected'),
        ({"ward": "east"}, 'ward: "east" received, one of north, south, west, elsewhere expected'),
        ({"sex": None}, "sex: none received, an answer expected"),
        ({"smokes": 1}, "smokes: 1 received, true or false expected"),
        ({"asked": "2024-02-30"}, 'asked: "2024-02-30" received, a date such as 2027-01-31 expected'),
        ({"asked": "01.03.24"}, 'asked: "01.03.24" received, a date'),
        ({"weight": 3}, "weight: received, age,ward,sex,smokes,asked,dose,height expected"),
    ],
)
def test_an_answer_that_is_none_is_refused_by_its_name(designed, tmp_path, changes, said):
    (tmp_path / "bounds.toml").write_text(BOOK)
    schema = Schema.from_toml(tmp_path / "bounds.toml")
    ((answers, _),) = random_answers(np.random.default_rng(8), 1)
    (found,) = run_node("answers", designed("proved, a ball", schema=schema, radius=None), answers=[answers | changes])[
        "rows"
    ]
    assert found["error"] == "RangeError"
    assert said in found["message"]


def test_a_date_of_words_is_refused(designed, tmp_path):
    text = BOOK.replace("on %d.%m.%y", "%d %B %Y").replace("on 28.02.99", "28 February 1999")
    (tmp_path / "bounds.toml").write_text(text.replace("on 01.03.24", "1 March 2024"))
    schema = Schema.from_toml(tmp_path / "bounds.toml")
    told = run_node("open", designed("proved, a ball", schema=schema, radius=None), now="2027-01-01")
    assert told["error"] == "CollectionError"
    assert "codebook: asked: a date in the format %d %B %Y received" in told["message"]


def changed(content, changes):
    """A task file with other values in some places."""
    for name, value in changes.items():
        content[name] = changed(content[name], value) if isinstance(value, dict) else value
    return content


@node
@pytest.mark.parametrize("name", REFUSED)
def test_a_collection_that_this_client_cannot_contribute_to_is_refused(designed, name):
    changes, said = REFUSED[name]
    task = json.dumps(changed(json.loads(designed("plain").content), changes)).encode()
    answer = run_node("open", task=task.hex(), digest=hashlib.sha256(task).hexdigest(), now="2027-01-01")
    assert answer["error"] == "CollectionError"
    assert said in answer["message"]


@node
def test_another_digest_is_refused_and_the_state_is_that_of_the_clock(designed):
    collection = designed("plain")
    other = run_node("open", collection, digest="00" * 32, now="2027-01-01")
    assert (other["error"], "00000000 expected" in other["message"]) == ("CollectionError", True)
    moments = [collection.opens, collection.closes, collection.expires]
    states = ["not open yet", "open", "closed", "expired"]
    for moment, before, after in zip(moments, states[:-1], states[1:], strict=True):
        for shift, state in ((-1, before), (0, after)):
            now = moment.timestamp() * 1000 + shift * 1000
            at = datetime.datetime.fromtimestamp(now / 1000, datetime.UTC).isoformat()
            assert run_node("open", collection, now=at) == {"answer": state}


ALL, SOME = {"0": 200, "1": 200, "2": 200}, {"0": 200, "1": 200, "2": "unreachable"}
STORED = {"status": 200, "said": {"stored": 1, "servers": ALL}}
PARTLY = {"status": 202, "said": {"stored": 1, "servers": SOME}}
FULL = {"status": 503, "said": {"error": "Full", "message": "later"}}
CLOSED = {"status": 410, "said": {"error": "CollectionClosed", "message": "too late"}}
UNKNOWN = [{"status": 200, "said": said} for said in ({}, None, {"servers": {"0": 200, "1": 200}})]  # of somebody else
CONFLICT = {"status": 202, "said": {"stored": 1, "servers": {"0": 200, "1": 409, "2": 200}}}


@node
@pytest.mark.parametrize(
    ("answers", "count", "status", "final"),
    [
        ([STORED], 1, None, None),
        ([None, FULL, PARTLY, STORED], 4, None, None),
        ([*UNKNOWN, STORED], 4, None, None),
        ([CLOSED], 1, 410, True),
        ([CONFLICT], 1, 202, True),
        ([PARTLY] * 4, 4, 202, False),
        ([None] * 4, 4, 0, False),
    ],
    ids=["stored", "later", "says of no server", "closed", "conflict", "never everywhere", "no answer"],
)
def test_the_same_bytes_are_sent_to_each_door_until_all_servers_have_them(designed, answers, count, status, final):
    collection, doors = designed("plain"), ["https://a.example/", "https://b.example"]
    sent = run_node("send", collection, answers=answers, attempts=4, doors=doors)
    path = f"/v2/collections/{collection.digest.hex()}/reports"
    assert sent["asked"] == [[doors[place % 2].rstrip("/") + path, "0207"] for place in range(count)]
    if status is None:
        assert sent["answer"] == {"everywhere": True, "servers": ALL}
    else:
        assert (sent["error"], sent["status"], sent["final"]) == ("SendError", status, final)


def own(*words):
    return {"status": 200, "said": {"server": 0, "reports": list(words)}}


NOW, LATE, NEVER = own("withdrawn now"), own("too late"), own("never here")
LIES = [own(200), own("withdrawn now", "withdrawn now"), own(), {"status": 200, "said": {"withdrawn": 1}}]
A, B = "https://a.example/", "https://b.example"


@node
@pytest.mark.parametrize(
    ("answers", "by", "final"),
    [
        ([NOW, NOW], [A, B], None),
        ([None, own("was withdrawn")], [B], None),
        ([LATE, NOW], [B], None),
        ([LATE, LATE], None, False),  # the third server is not asked
        ([NEVER, NEVER], None, False),
        ([FULL, None], None, False),
        ([CLOSED, CLOSED], None, False),
        *(([lie, None], None, False) for lie in (*LIES, *UNKNOWN)),
    ],
)
def test_a_report_is_withdrawn_where_a_door_says_so_of_itself_and_by_nothing_else(designed, answers, by, final):
    collection = designed("plain")
    sent = run_node("send", collection, answers=answers, withdraw=True, doors=[A, B])
    path = f"/v2/collections/{collection.digest.hex()}/withdrawals"
    assert sent["asked"] == [[door.rstrip("/") + path, "00" * 32] for door in (A, B)]
    if by is not None:
        assert sent["answer"]["by"] == by
    else:
        assert (sent["error"], sent["final"]) == ("SendError", final)
        assert set(sent["servers"]) == {A, B}
        assert sent["message"].startswith("not confirmed; https://a.example/: ")


@node
def test_the_verdict_on_a_withdrawal_is_that_of_the_vectors(designed):
    vectors = json.loads((Path(__file__).parents[1] / "vectors" / "withdrawals.json").read_text())["verdicts"]
    assert run_node("verdicts", designed("plain"), verdicts=vectors) == [one["verdict"] for one in vectors]


@contextlib.contextmanager
def silent(drips):
    """A door that accepts connections, reads, and never comes to the end of an answer."""
    ended = threading.Event()

    class Silent(socketserver.BaseRequestHandler):
        def handle(self):
            self.request.recv(1 << 16)
            if drips:
                kind = b"Content-Type: application/json\r\nTransfer-Encoding: chunked"
                self.request.sendall(b"HTTP/1.1 200 OK\r\n" + kind + b"\r\n\r\n")
            with contextlib.suppress(OSError):
                while not ended.wait(0.1):
                    self.request.sendall(b"1\r\n \r\n" * drips)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Silent) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            ended.set()
            server.shutdown()


@node
@pytest.mark.parametrize("drips", [0, 1])
def test_a_door_that_is_silent_is_given_up_in_time(designed, drips):
    with silent(drips) as door:
        sent, withdrawn, keys = run_node("silent", designed("plain"), doors=[door], patience=400)
    assert {one["error"] for one in (sent, withdrawn, keys)} == {"SendError"}
    assert {one["final"] for one in (sent, withdrawn, keys)} == {False}
    assert "no answer (" in withdrawn["message"]


def test_types_are_given_for_everything_that_is_exported():
    pattern = r"^export (?:async )?(?:class|const|function) (\w+)"
    in_code = re.findall(pattern, (WEB / "client.mjs").read_text(), re.MULTILINE)
    assert sorted(in_code) == sorted(re.findall(pattern, (WEB / "client.d.ts").read_text(), re.MULTILINE))


def test_the_client_loads_no_file_but_that_of_codebooks():
    client, book = ((WEB / name).read_text() for name in ("client.mjs", "codebook.mjs"))
    assert re.findall(r"\bimport\b.*", client) == ["import { Cells, Codebook } from './codebook.mjs';"]
    assert not re.search(r"\bimport\b", book)
    assert not re.search(r"https?://", client + book)


def clang():
    """Whether the compiler whose bytes are in the package is here, with its linker."""
    if not (shutil.which("clang") and shutil.which("wasm-ld")):
        return False
    said = subprocess.run(["clang", "--version"], capture_output=True, text=True, timeout=60).stdout
    return f"version {CLANG}" in said


@pytest.mark.skipif(not clang(), reason=f"needs clang {CLANG} and wasm-ld")
def test_the_webassembly_of_the_package_is_what_its_source_compiles_to(tmp_path):
    made = tmp_path / "report.wasm"
    subprocess.run(["make", "-C", ROOT, "wasm", f"WASM={made}"], check=True, capture_output=True, timeout=300)
    assert made.read_bytes() == (WEB / "report.wasm").read_bytes()


INSTALLED = """
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { Client, CollectionError } from '@dpmpc/client';
const given = JSON.parse(readFileSync(0, 'utf8')), bytes = Buffer.from(given.task, 'hex');
const wasm = readFileSync(createRequire(import.meta.url).resolve('@dpmpc/client/report.wasm'));
const { body } = await (await Client.open(bytes, given.digest, wasm)).report({ age: 30, income: 50 });
console.log(Buffer.from(body).toString('hex'));
await Client.open(bytes, '0'.repeat(64), wasm).catch(error => console.log(error instanceof CollectionError));
"""


@node
@pytest.mark.skipif(not shutil.which("npm"), reason="needs npm")
def test_the_package_of_npm_has_the_client_and_nothing_else(servers, designed, tmp_path):
    """Packed, unpacked where node looks for packages, and imported by name; its version is the project's."""
    packed = ["npm", "pack", "--offline", "--json", "--pack-destination", str(tmp_path), str(WEB)]
    (told,) = json.loads(subprocess.run(packed, cwd=tmp_path, capture_output=True, timeout=120, check=True).stdout)
    files = {"package.json", "client.mjs", "codebook.mjs", "client.d.ts", "report.wasm"}
    assert {one["path"] for one in told["files"]} == files
    semantic = version("dpmpc").replace("b", "-beta.")  # npm requires semantic versions: 1.0.0b1 is 1.0.0-beta.1
    assert (told["name"], told["version"]) == ("@dpmpc/client", semantic)
    folder = tmp_path / "node_modules" / "@dpmpc" / "client"
    folder.mkdir(parents=True)
    unpack = ["tar", "-xzf", str(tmp_path / told["filename"]), "-C", str(folder), "--strip-components", "1"]
    subprocess.run(unpack, check=True, timeout=60)
    (tmp_path / "uses.mjs").write_text(INSTALLED)
    collection = designed("proved")
    given = json.dumps({"task": collection.content.hex(), "digest": collection.digest.hex()})
    done = subprocess.run(
        ["node", "uses.mjs"], cwd=tmp_path, input=given, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    body, refused = done.stdout.split()
    assert len(opened(servers, collection, bytes.fromhex(body))) == 3
    assert refused == "true"


@node
@pytest.mark.parametrize(
    "series", [None, Series.of("yearly", 5, 3.0, 1e-9), Series.of("daily", 400, 12.5, 3e-7)], ids=str
)
def test_the_promise_is_said_as_the_release_page_says_it(designed, series):
    collection = msgspec.structs.replace(designed(next(iter(CASES))), series=series)
    told, budget = run_node("promised", collection), series or collection.plan.guarantee
    own = "your answers" + ("" if series is None else f" in {series.together}")
    assert told.startswith(bound_in_words(budget.epsilon, budget.delta, own))
    assert re.fullmatch(
        r" This is promised as long as at least \d of the 3 servers follows? the rules\.", told.partition("know.")[2]
    )

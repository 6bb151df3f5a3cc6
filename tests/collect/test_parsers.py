"""What servers answer and what files of a collection say: read into a value or a typed error, and printed escaped."""

import datetime
import json
import random

import numpy as np
import pytest

from bench.system.collection_servers import Servers
from dpmpc.app.cli.main import main
from dpmpc.base.errors import CollectionClosed, DpmpcError, PartyMissing, ProtocolFailure, ReportRejected
from dpmpc.collect.terms.task_file import Collection
from dpmpc.collect.upload.roster import MAGIC, Roster, draw_tickets, read_tickets, write_roster, write_tickets
from dpmpc.collect.upload.submission import Submission
from support.hostile.upload_servers import ANSWERS, answering
from support.rejections import rejects

ROW = np.array([[1.0, 2.0, 3.0]])
KINDS = {"escape sequences": ReportRejected, "a long message": CollectionClosed} | dict.fromkeys(
    ["come back never", "no HTTP", "escapes in the status"], (PartyMissing, ProtocolFailure)
)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """Two honest servers; the third one's place is for a hostile one."""
    folder = tmp_path_factory.mktemp("hostile")
    with Servers.make(folder, minimum_batch=2000) as servers:
        yield servers.start(0, 1)


@pytest.mark.parametrize("name", ANSWERS)
def test_any_answer_of_a_server_is_a_typed_error_that_names_it(hostile, tmp_path, name, capsys):
    collection = hostile.collection
    (tmp_path / "row").write_text("a=1\nb=2\ny=3\n")
    command = ["submit", str(hostile.folder / "collection.json"), "--row", str(tmp_path / "row"), "--seconds", "1.5"]
    with answering(hostile.server_folder(2).identity, hostile.address(2), ANSWERS[name]):
        with pytest.raises(KINDS.get(name, ProtocolFailure), match="server 2"):
            Submission(collection=collection, state=tmp_path / "state", seconds=1.5).run(ROW)
        status = main([*command, "--state", str(tmp_path / "other")])
    told = capsys.readouterr()
    assert status in (2, 3)
    assert told.out == ""
    assert all(line.startswith("dpmpc") for line in told.err.splitlines())
    assert all(character.isprintable() or character == "\n" for character in told.err)
    assert len(told.err) < 2000


@pytest.fixture(scope="module")
def collection(hostile):
    return hostile.collection


@pytest.mark.parametrize("column", ["a", "a\x1b[8m\nb"], ids=["name and addresses", "a column too"])
def test_inspect_prints_nothing_that_a_terminal_obeys(collection, tmp_path, capsys, column):
    fields = collection.to_dict()
    fields["name"] = "x\x1b[31m\nserver 0: https://a.example, a: all is well\u202e"
    fields["servers"] = [dict(server) for server in fields["servers"]]
    fields["servers"][1]["release"] = "h\x1b]0;owned\x07\nreports of nobody:7444"
    schema = fields["task"]["schema"]
    columns = [{**schema["columns"][0], "name": column}, *schema["columns"][1:]]
    fields["task"] = {**fields["task"], "schema": {**schema, "columns": columns}}
    path = tmp_path / "evil.json"
    path.write_text(json.dumps(fields, sort_keys=True, separators=(",", ":"), default=lambda time: time.isoformat()))
    status = main(["inspect", str(path)])
    told = capsys.readouterr()
    assert all(character.isprintable() or character == "\n" for character in told.out + told.err)
    assert not any(line.startswith(("server 0: https://a", "reports of nobody")) for line in told.out.splitlines())
    if column == "a":
        assert status == 0, told.err
        assert r"x\x1b[31m\nserver 0" in told.out


BOMBS = {
    "nested": b"[" * 100_000,
    "long": b'"' + b"x" * (5 << 20) + b'"',
    "no UTF-8": b'{"name": "\xff"}',
    "no JSON": b"\x00",
    "empty": b"",
    "format": b'{"format": 99999999999999999999999999}',
    "TOML": b"format = 1",
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_task_file_that_is_none_is_named(tmp_path, name):
    (tmp_path / "file.json").write_bytes(BOMBS[name])
    with rejects("collection") as caught:
        Collection.load(tmp_path / "file.json")
    assert len(str(caught.value)) < 3000


@pytest.mark.filterwarnings("ignore:Parsed a serial number")  # of a damaged certificate, which is rejected
def test_damaged_task_files_rosters_and_tickets_give_typed_errors(collection, tmp_path):
    """Seed 11, 600 damaged files of each kind; nothing statistical."""
    fields = collection.to_dict() | {"authenticated": True}
    rostered = Collection.from_dict(fields)
    tickets = draw_tickets(["a", "b", "c"])
    paths = [tmp_path / name for name in ("collection.json", "roster", "tickets.csv")]
    rostered.save(paths[0])
    write_roster(paths[1], rostered, 0, tickets)
    write_tickets(paths[2], tickets)
    readers = [Collection.load, lambda path: Roster(path, rostered, 0), read_tickets]
    draw = random.Random(11)
    told = []
    for path, read in zip(paths, readers, strict=True):
        sound = path.read_bytes()
        read(path)
        for _ in range(600 if read is not Collection.load else 200):
            path.write_bytes(damaged(sound, draw))
            try:
                read(path)
            except DpmpcError as error:
                told.append(str(error))
    assert len(told) > 300
    assert [text for text in told if not text.isprintable()] == []


def damaged(sound, draw):
    """Change, cut, repeat or insert a few bytes."""
    content = bytearray(sound)
    for _ in range(draw.randrange(1, 4)):
        at = draw.randrange(len(content))
        deed = draw.randrange(5)
        if deed == 0:
            content[at] ^= 1 << draw.randrange(8)
        elif deed == 1:
            del content[at : at + draw.randrange(1, 40)]
        elif deed == 2:
            content[at:at] = content[at : at + draw.randrange(1, 400)]
        elif deed == 3:
            content[at:at] = draw.choice(
                [b"\x00", b"\xff\xfe", b"\x1b[2J", b"[" * 50, b"9" * 30, b"e400", b"nan", b'"']
            )
        else:
            del content[max(1, at) :]
    return bytes(content)


@pytest.mark.parametrize("content", [b"", b"\xff", b"client,report,secret\n" + b"a" * 200_000 + b"\n", b"a\x00b\n"])
def test_tickets_that_are_none_are_refused(tmp_path, content):
    (tmp_path / "tickets.csv").write_bytes(content)
    with rejects("tickets"):
        read_tickets(tmp_path / "tickets.csv")


def test_a_roster_with_an_id_out_of_order_is_refused(collection, tmp_path):
    """A search by halves would not find such a client."""
    rostered = Collection.from_dict(collection.to_dict() | {"authenticated": True})
    tickets = draw_tickets(["a", "b", "c"])
    path = tmp_path / "roster"
    write_roster(path, rostered, 0, tickets)
    sound = path.read_bytes()
    head, entries = sound[: len(MAGIC) + 36], sound[len(MAGIC) + 36 :]
    assert len(Roster(path, rostered, 0)) == 3
    for wrong in (entries[48:] + entries[:48], entries + entries[-48:]):
        path.write_bytes(head + wrong)
        with rejects("roster"):
            Roster(path, rostered, 0)


def test_times_beyond_the_calendar_are_named(collection):
    fields = collection.to_dict()
    fields["expires"] = datetime.datetime.max.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=-12)))
    with rejects("time", expected="one in the years 1 to 9999 of UTC"):
        _ = Collection.from_dict(fields).digest

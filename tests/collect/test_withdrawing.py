"""What `dpmpc withdraw` tells: success is what enough servers have confirmed, and everything else is none."""

import json
import sqlite3
from pathlib import Path

import pytest

from bench.system.collection_servers import Servers
from dpmpc.app.cli.main import main
from dpmpc.base.errors import InputError, NotConfirmed
from dpmpc.collect.terms.certificate import quorum
from dpmpc.collect.terms.endpoints import MOST_WITHDRAWALS
from dpmpc.collect.terms.withdrawal_verdict import fewest_confirming, verdict
from dpmpc.collect.upload import withdrawing
from dpmpc.collect.upload.roster import draw_tickets, write_roster, write_tickets
from dpmpc.collect.upload.sealing import report_id
from dpmpc.collect.upload.withdrawing import TakenBack, secrets_of, withdraw
from support.announcements import announced
from support.rejections import rejects
from support.sealed_doors import PROVED, AnsweringDoor

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "withdrawals.json").read_text())["verdicts"]
SECRET = bytes(range(32))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A collection whose servers do not run."""
    return Servers.make(tmp_path_factory.mktemp("made"), doors=True, **PROVED)


@pytest.mark.parametrize("case", VECTORS, ids=lambda case: f"{case['servers']}-{','.join(case['words'])}")
def test_the_verdict_is_that_of_the_vectors(case):
    assert verdict(case["servers"], case["needed"], case["words"]) == case["verdict"]


@pytest.mark.parametrize(
    ("servers", "sharing", "needed"), [(2, "additive", 1), (5, "additive", 1), (4, "shamir", 2), (5, "shamir", 2)]
)
def test_no_servers_that_may_release_lack_all_that_have_to_confirm(tmp_path, servers, sharing, needed):
    corrupt = {} if sharing == "additive" else {"corrupt_servers": (servers - 1) // 2}
    fields = {"sharing": sharing, "sketch": "sum", "rows": None, "proved": False} | corrupt
    collection = Servers.make(tmp_path, servers=servers, **fields).collection
    assert fewest_confirming(collection) == needed
    assert quorum(collection) + needed > servers


def test_it_is_said_on_whose_word_a_report_is_in_no_release():
    now, before, late = "withdrawn now", "was withdrawn", "too late"
    additive = TakenBack(3, 1, [{0: now, 1: before, 2: late}, {0: now, 1: before}, {1: now}])
    assert additive.sentences == [
        "2 reports: in no release, if one of servers 0, 1 is honest",
        "1 report: in no release, if server 1 is honest",
    ]
    assert additive.lines[2] == "server 2: 2 no answer, 1 too late"
    shamir = TakenBack(4, 2, [{0: now, 1: before, 3: now}, {0: now, 1: before, 2: late}])
    assert shamir.sentences == [
        "1 report: in no release, if servers 0, 1 are honest",
        "1 report: in no release, if 2 of servers 0, 1, 3 are honest",
    ]


def test_what_was_not_withdrawn_is_told_beside_what_was():
    """A submission that stopped half way: all servers have one report, and none has ever had the other."""
    now, never = "withdrawn now", "never here"
    mixed = TakenBack(3, 1, [dict.fromkeys(range(3), now), dict.fromkeys(range(3), never)])
    with pytest.raises(InputError) as caught:
        withdrawing._require_withdrawn(mixed)
    told = str(caught.value)
    assert "1 report never here; 1 report: in no release, if one of servers 0, 1, 2 is honest; server 0: 1" in told
    assert "What never came was not withdrawn" in told


def test_of_a_door_nothing_is_told_as_the_word_of_servers_that_were_not_asked():
    one = TakenBack(3, 1, [{2: "withdrawn now"}], "https://a.example")
    assert one.lines == ["https://a.example, as server 2: 1 withdrawn now"]
    told = "; proxies answer for server 1, and could answer as they like"
    assert TakenBack(3, 1, [{1: "withdrawn now"}], None, told).sentences[0].endswith(told)
    assert TakenBack(3, 1, [{-1: "no answer"}], "https://a.example").lines == ["https://a.example: 1 no answer"]


def receipt(folder, collection, **changed):
    named = report_id(collection.digest, SECRET).hex()
    lines = {"digest": collection.digest.hex(), "report": named, "secret": SECRET.hex()} | changed
    path = folder / "receipt.txt"
    path.write_text("a trial\n" + "".join(f"{name} {value}\n" for name, value in lines.items() if value))
    return path


def test_a_receipt_is_read_as_the_form_writes_it(made, tmp_path):
    path = receipt(tmp_path, made.collection)
    assert secrets_of(made.collection, receipt=path) == [SECRET]
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))  # through a mail
    assert secrets_of(made.collection, receipt=path) == [SECRET]


@pytest.mark.parametrize(
    ("changed", "argument"),
    [
        ({"digest": "00" * 32}, "receipt"),
        ({"secret": SECRET.hex()[:-1] + "0"}, "receipt"),
        ({"report": "00" * 16}, "receipt"),
        ({"digest": ""}, "receipt"),
        ({"secret": SECRET.hex()[2:]}, "receipt"),
        ({"secret": f"{SECRET.hex()}\nsecret {SECRET.hex()}"}, "receipt"),
    ],
)
def test_a_receipt_of_something_else_is_refused_before_anything_is_sent(made, tmp_path, changed, argument):
    with rejects(argument):
        secrets_of(made.collection, receipt=receipt(tmp_path, made.collection, **changed))


def test_a_state_of_another_collection_or_with_a_changed_secret_is_refused(made, tmp_path):
    (tmp_path / "row").write_text("a=1\nb=2\ny=3\n")
    state = tmp_path / "state"
    (tmp_path / "other").mkdir()
    with Servers.make(tmp_path / "other", doors=True, **PROVED) as other:
        other.start()
        options = ["--row", str(tmp_path / "row"), "--door", other.door(0), "--state", str(state)]
        assert main(["submit", str(other.task_file), *options]) == 0
        assert len(secrets_of(other.collection, state=state)) == 1
    with rejects("state"):
        secrets_of(made.collection, state=state)
    with sqlite3.connect(state) as database:
        database.execute("UPDATE secrets SET secret = ?", (SECRET,))
    with rejects("state"):
        secrets_of(other.collection, state=state)


EVERYWHERE = {str(server): 200 for server in range(3)}
EVIL = "\x1b[2J\u202e withdrawn now"


@pytest.mark.parametrize(
    ("status", "content"),
    [
        (404, {"error": "NotFound", "message": "collection: another expected"}),  # of another collection
        (400, {"error": "ReportRejected", "message": "no"}),
        (403, {"error": EVIL, "message": EVIL}),
        (200, {"withdrawn": 1, "reports": [EVERYWHERE], "servers": EVERYWHERE}),
        (200, {"server": 0, "reports": [200]}),
        (200, {"server": 0, "reports": [EVIL]}),
        (200, {"server": 0, "reports": []}),
        (200, {"server": 0, "reports": ["withdrawn now"] * 2}),
        (200, {"server": 3, "reports": ["withdrawn now"]}),
        (200, {"server": -1, "reports": ["withdrawn now"]}),
        (200, {"reports": ["withdrawn now"]}),
        (200, b"["),
        (200, b'{"server": 0, "reports": ["withdrawn now"]' + b" " * 20_000 + b"}"),
        (500, {"server": 0, "reports": ["never here"]}),
    ],
)
def test_what_a_door_answers_that_confirms_nothing_is_no_success(made, tmp_path, capsys, status, content):
    path = receipt(tmp_path, made.collection)
    with AnsweringDoor(status, content) as door:
        assert main(["withdraw", str(made.task_file), "--receipt", str(path), "--door", door.url]) == 3
    told = capsys.readouterr()
    assert (told.out, "1 report not confirmed" in told.err, "\x1b" in told.err) == ("", True, False)
    assert "server 1" not in told.err  # which was not asked
    assert status in (200, 500) or f": 1 refused ({status}" in told.err


def test_a_door_that_lies_vouches_for_itself_alone(made):
    with AnsweringDoor(200, {"server": 2, "reports": ["withdrawn now"]}) as door:
        (said,) = withdraw(made.collection, [SECRET], door=door.url).sentences
    assert said == f"1 report: in no release, if server 2 answers at {door.url} and is honest"
    secrets = [bytes([one]) * 32 for one in range(MOST_WITHDRAWALS + 1)]
    with (
        AnsweringDoor(200, {"server": 2, "reports": ["withdrawn now"] * MOST_WITHDRAWALS}) as door,
        pytest.raises(NotConfirmed, match="1 report not confirmed; 16 reports: in no release, if server 2 answers at"),
    ):
        withdraw(made.collection, secrets, door=door.url)


def test_a_wrong_ticket_is_no_success(tmp_path, capsys):
    with Servers.make(tmp_path, doors=True, authenticated=True, **PROVED) as servers:
        tickets = draw_tickets(["x"])
        write_tickets(tmp_path / "tickets.csv", tickets)
        for server in range(3):
            write_roster(servers.server_folder(server).roster, servers.collection, server, tickets)
        servers.start()
        write_tickets(tmp_path / "wrong.csv", [tickets[0]._replace(secret=SECRET)])
        assert main(["withdraw", str(servers.task_file), "--tickets", str(tmp_path / "wrong.csv")]) == 3
        assert "server 0: 1 refused (403 Unknown)" in capsys.readouterr().err
        assert main(["withdraw", str(servers.task_file), "--tickets", str(tmp_path / "tickets.csv")]) == 2
        assert "1 report never here" in capsys.readouterr().err


def test_with_shamir_shares_one_server_in_time_is_not_enough(tmp_path, capsys):
    """Server 3 may be left out of the release: its word alone states nothing about it."""
    (tmp_path / "row").write_text("a=1\nb=2\ny=3\n")
    fields = {"sharing": "shamir", "corrupt_servers": 1, "proved": False, "sketch": "sum", "rows": None}
    with Servers.make(tmp_path, servers=4, doors=True, **fields) as servers:
        servers.start()
        state = ["--state", str(tmp_path / "state")]
        common = [str(servers.task_file), *state]
        assert main(["submit", *common, "--row", str(tmp_path / "row"), "--door", servers.door(0)]) == 0
        with announced(servers, 1, 2):
            with announced(servers, 0):
                capsys.readouterr()
                assert main(["withdraw", *common, "--door", servers.door(3)]) == 3
                assert "server 3: 1 withdrawn now. 2 of 4 servers have to confirm each" in capsys.readouterr().err
                assert main(["withdraw", *common]) == 2  # servers 0, 1 and 2 release what they announced
                assert "1 report too late" in capsys.readouterr().err
            assert main(["withdraw", *common]) == 0
        assert "1 report: in no release, if servers 0, 3 are honest" in capsys.readouterr().out

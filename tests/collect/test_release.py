"""The release of a collection among real processes: servers crash, lie, are missing or are cut off.

Every run is bounded in time. What is opened is compared with the sums of the very words that the clients uploaded, put
together before the sketch; it has to be equal, not close.
"""

import contextlib
import datetime
import json
import re
import shutil
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from dpmpc.base.errors import GuaranteeError, InputError, PartyMissing
from dpmpc.collect.opening.release_process import run_release
from dpmpc.collect.store.ledger import ReleaseLedger, State
from dpmpc.collect.store.server_folder import ServerFolder
from dpmpc.collect.terms.certificate import require_quorum
from dpmpc.collect.terms.verifying import verify
from dpmpc.collect.upload.seal_folder import SealFolder
from dpmpc.models import RidgeRegression
from dpmpc.release.release import Release
from support.rejections import rejects
from support.release_processes import COUNT, HOUR, MINIMUM, Trial, assert_refused, assert_released, run, states
from support.tcp_proxy import Proxy

SHAMIR = {"sharing": "shamir"}


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    trial = Trial.filled(tmp_path_factory.mktemp("released") / "trial")
    assert {one.status for one in run(trial).values()} == {0}
    return trial


def test_the_release_is_the_sum_of_what_clients_uploaded(released):
    verified = assert_released(released)
    assert verified.release.clients == COUNT
    statement = verified.certificate.statement
    assert statement.without == []
    assert statement.wrong == {"0": [], "1": [], "2": []}
    assert [states(released, server) for server in range(3)] == [[State.OPENED]] * 3


def test_every_server_writes_the_page_that_everybody_makes_of_the_file(released):
    """`dpmpc release` and `dpmpc verify --html` against the same task file give the same bytes."""
    pages = {released.out(server).with_name(f"{released.out(server).name}.html").read_bytes() for server in range(3)}
    command = [sys.executable, "-m", "dpmpc", "verify", "--html", str(released.out(1))]
    told = subprocess.run([*command, "--collection", str(released.task_file)], capture_output=True, check=True)
    assert pages == {told.stdout}
    page = told.stdout.decode()
    assert released.collection.digest.hex() in page
    assert f'<data value="{COUNT}">' in page
    assert str(released.root) not in page
    without = subprocess.run(command, capture_output=True, check=True)  # whose keys count is taken from the file
    assert without.stdout != told.stdout


def test_every_server_tells_what_all_spent(released):
    """All three have the same figures of all three; bytes sent are bytes received. None is in the public page."""
    logs = [(released.root / f"log-{server}").read_text() for server in range(3)]
    tables = {re.search(r"(?s)^Servers\n.*?Seconds; MB", log, re.MULTILINE).group() for log in logs}
    (table,) = tables
    assert "server 0  server 1  server 2" in table
    rows = re.findall(r"^(\S.*?)((?: +[\d.,]+){3})$", table, re.MULTILINE)
    figures = {name: [float(value) for value in row.split()] for name, row in rows}
    assert len(figures) == 9
    assert all(min(row) > 0 for name, row in figures.items() if name != "read, s"), figures
    assert sum(figures["sent, MB"]) == pytest.approx(sum(figures["received, MB"]), rel=0.1)


def test_estimators_read_the_file_as_any_release(released):
    release = Release.load(released.out(1))
    assert RidgeRegression().fit_release(release).coef_.shape == (1,)


def test_the_command_of_an_operator_and_of_a_reader(released):
    command = [sys.executable, "-m", "dpmpc", "verify", str(released.out(0))]
    told = subprocess.run([*command, "--collection", str(released.task_file)], capture_output=True, check=True)
    assert b"that of the given task file" in told.stdout
    fields = json.loads(subprocess.run([*command, "--json"], capture_output=True, check=True).stdout)
    assert (fields["verified"], fields["given"]) == (True, False)
    assert "TRUSTED" in fields["checks"][1]
    assert fields["statement"]["manifest"]["clients"] == COUNT


def test_a_repetition_gives_the_same_release(tmp_path):
    """Also where servers add noise of their own: the noise of a second draw would be averaged out."""
    trial = Trial.filled(tmp_path / "trial", noise_by="servers", copies="auto")
    sums = []
    for _ in range(2):
        assert {one.status for one in run(trial).values()} == {0}
        verified = verify(trial.out(0), trial.collection)
        assert (verified.release.sums != trial.expected(verified.release)).any()
        sums.append(verified.release.sums)
        assert "\ntransform, s" in (trial.root / "log-0").read_text()
    np.testing.assert_array_equal(*sums)


def test_a_report_that_one_server_has_withdrawn_is_in_no_release(tmp_path):
    trial = Trial.make(tmp_path / "trial")
    for server in range(3):
        trial.fill(server)
    with opened(trial, 1) as spool:
        spool.close_for_good()
        assert spool.withdraw([trial.ids[7]]) == ["withdrawn now"]
    ended = run(trial)
    assert "lacked by server 0: 0, server 1: 1, server 2: 0" in ended[0].told
    assert_released(trial, indices=[index for index in range(COUNT) if index != 7])
    for server in range(3):
        with opened(trial, server) as spool:
            assert spool.withdraw([trial.ids[8]]) == ["too late"]


def test_a_report_that_one_server_lacks_is_left_out(tmp_path):
    trial = Trial.make(tmp_path / "trial")
    for server in range(3):
        trial.fill(server, skip={1: [7], 2: [0, 20]}.get(server, ()))
    ended = run(trial, deeds=dict.fromkeys(range(3), ("exchange_in_parts", 50)))
    assert "207 reports" in ended[0].told
    assert "lacked by server 0: 0, server 1: 1, server 2: 2" in ended[0].told
    assert "opened; wrong shares: none" in ended[0].told
    assert_released(trial, indices=[index for index in range(COUNT) if index not in (0, 7, 20)])


def test_too_few_reports_are_not_opened(tmp_path):
    trial = Trial.make(tmp_path / "trial")
    for server in range(3):
        trial.fill(server, count=COUNT if server != 1 else MINIMUM - 1)
    assert_refused(trial, run(trial), "TooFewClients", MINIMUM - 1, MINIMUM)
    with opened(trial, 0) as spool:  # no batch is fixed: whoever wants to can still withdraw
        assert not spool.announced
        assert spool.withdraw([trial.ids[0]]) == ["withdrawn now"]


def test_an_expired_collection_is_not_opened(tmp_path):
    now = datetime.datetime.now(datetime.UTC)
    trial = Trial.filled(tmp_path / "trial", closes=now - 2 * HOUR, expires=now - HOUR)
    assert_refused(trial, run(trial), "CollectionClosed", "expired")


def test_an_open_collection_is_closed_by_all_or_not_opened(tmp_path):
    trial = Trial.filled(tmp_path / "trial", closes=datetime.datetime.now(datetime.UTC) + HOUR)
    ended = run(trial, only={0: ["--close"], 1: ["--close"]})
    assert_refused(trial, ended, "CollectionClosed", "--close")
    assert "server 2 refuses" in ended[0].told
    assert "waits up to" in ended[2].told.partition("it is going to refuse")[0]  # before the others are there
    assert "it is going to refuse" not in ended[0].told
    assert [closed(trial, server) for server in range(3)] == [True, True, False]
    assert {one.status for one in run(trial, options=["--close"]).values()} == {0}
    assert_released(trial)
    assert closed(trial, 2)


def test_a_server_that_nobody_meets_closes_all_the_same(tmp_path):
    """The closing is durable before anybody is connected to, and how the run ended is recorded."""
    trial = Trial.filled(tmp_path / "trial", closes=datetime.datetime.now(datetime.UTC) + HOUR)
    ended = run(trial, servers=[1], options=["--close", "--connect-deadline", "1"])
    assert (ended[1].status, closed(trial, 1)) == (3, True)
    with ServerFolder(trial.folder(1)).open_spool(trial.collection, 1, writer=False) as spool:
        assert spool.closing.failed == "PartyMissing"
    assert {one.status for one in run(trial, options=["--close"]).values()} == {0}
    manifest = assert_released(trial).certificate.statement.manifest
    assert trial.collection.opens.isoformat() < manifest.closed <= manifest.time
    with ServerFolder(trial.folder(1)).open_spool(trial.collection, 1, writer=False) as spool:
        assert spool.closing.failed == ""
    public = [ServerFolder(trial.folder(server)).released(trial.collection) for server in range(3)]
    assert {path.read_bytes() for path in public} == {trial.out(0).read_bytes()}


def test_the_error_of_a_run_is_told_though_keys_cannot_be_deleted(tmp_path, monkeypatch):
    trial = Trial.filled(tmp_path / "trial", closes=datetime.datetime.now(datetime.UTC) + HOUR)

    def undeletable(self, collection, server):
        raise InputError("seal: a file that cannot be read")

    monkeypatch.setattr(SealFolder, "delete", undeletable)
    told = []
    with pytest.raises(PartyMissing):
        run_release(
            trial.collection,
            0,
            trial.folder(0),
            trial.out(0),
            close=True,
            connect_deadline=0.5,
            tell=told.append,
        )
    assert "InputError: seal: a file that cannot be read" in told


def closed(trial, server):
    """Whether a server takes no more reports, whatever its clock says."""
    with opened(trial, server) as spool:
        return spool.closed


def opened(trial, server):
    """What a server has stored."""
    return ServerFolder(trial.folder(server)).open_spool(trial.collection, server, writer=False)


@pytest.mark.parametrize(
    ("deed", "kind"),
    [("send_other_ids", "other report ids than it had announced"), ("find_another_batch", "BatchMismatch")],
)
def test_a_server_that_lies_about_its_reports(tmp_path, deed, kind):
    trial = Trial.make(tmp_path / "trial")
    for server in range(3):
        trial.fill(server, skip=[3] if server == 0 else ())
    ended = run(trial, deeds={2: (deed,)})
    assert kind in ended[0].told
    assert kind in ended[1].told
    assert all(one.status == 3 for one in ended.values())
    assert not any(states(trial, server) for server in range(3))


def test_nobody_opens_another_coin_than_it_has_committed_to(tmp_path):
    trial = Trial.filled(tmp_path / "trial")
    ended = run(trial, deeds={2: ("say", "OPENING", "00" * 64)})
    for server in (0, 1):
        assert ended[server].status == 3
        assert "server 2 has shown another coin for the public matrix than it committed to" in ended[server].told
    assert not any(states(trial, server) for server in range(3))


def attack(released, root, count=COUNT - 1, **options):
    """A second collection, of the same servers with their ledgers, that holds reports of the first one."""
    second = Trial.make(root, ids=released.ids, identities=released, **options)
    for server in range(3):
        second.fill(server, count=count)
        own = ServerFolder(second.folder(server)).ledger
        shutil.copytree(ServerFolder(released.folder(server)).ledger, own, dirs_exist_ok=True)
    return second


@pytest.mark.parametrize(
    "options",
    [{}, {"rows": 4}, {"sketch": "sum", "rows": None, "copies": "auto", "sparsity": None}],
    ids=["one client fewer, another toss", "another k", "a sum"],
)
def test_a_second_release_of_any_report_is_refused(released, tmp_path, options):
    count = COUNT - 1
    second = attack(released, tmp_path / "second", count=count, **options)
    for _ in range(2):  # a restart changes nothing
        ended = run(second)
        for server, one in ended.items():
            assert one.status == 2
            assert f"AlreadyReleased: ids: of {count} reports" in one.told or "server 0 refuses" in one.told
            assert f"{count} in the release" in one.told
            assert not second.out(server).exists()


def sharing_one_id(released, root):
    """A second collection of the same servers and ledgers, of whose reports one has an id of the first collection."""
    ids = [released.ids[0], *[bytes([1, index % 256]) + bytes(14) for index in range(COUNT - 1)]]
    second = Trial.make(root, ids=ids, identities=released)
    for server in range(3):
        second.fill(server)
        own = ServerFolder(second.folder(server)).ledger
        shutil.copytree(ServerFolder(released.folder(server)).ledger, own, dirs_exist_ok=True)
    return second


def test_an_id_of_another_collection_is_left_out_and_the_rest_is_released(released, tmp_path):
    """One client that uses its id twice loses its second report; it cannot end the second collection."""
    second = sharing_one_id(released, tmp_path / "second")
    ended = run(second)
    assert {one.status for one in ended.values()} == {0}, ended[0].told
    verified = assert_released(second, indices=range(1, COUNT))
    expected = {str(server): {"released before": 1} for server in range(3)}
    assert verified.certificate.statement.manifest.left_out == expected
    assert "left out by server 0: 1 released before, server 1: 1 released before" in ended[0].told
    for server in range(3):
        with ReleaseLedger(ServerFolder(second.folder(server)).ledger) as ledger:
            first, later = ledger.releases()
            assert len(ledger.batch(first.manifest_digest)) == COUNT
            assert second.ids[0] not in [row.tobytes() for row in ledger.batch(later.manifest_digest)]


@pytest.mark.parametrize(
    ("moment", "holder", "step"),
    [("after", "server", "available"), ("after", "ledger", "begin_opening"), ("before", "server", "save")],
)
def test_a_repetition_leaves_out_the_same_reports(released, tmp_path, moment, holder, step):
    second = sharing_one_id(released, tmp_path / "second")
    ended = run(second, deeds={1: ("die", moment, holder, step)})
    assert ended[1].status == -9
    assert {one.status for one in run(second).values()} == {0}
    assert_released(second, indices=range(1, COUNT))


def test_an_id_that_one_server_alone_has_opened_is_left_out_by_all(released, tmp_path):
    second = sharing_one_id(released, tmp_path / "second")
    for server in (0, 1):
        shutil.rmtree(ServerFolder(second.folder(server)).ledger)
    ended = run(second)
    assert {one.status for one in ended.values()} == {0}, ended[0].told
    verified = assert_released(second, indices=range(1, COUNT))
    assert verified.certificate.statement.manifest.left_out == {"2": {"released before": 1}}


def test_one_honest_server_is_enough_to_refuse(released, tmp_path):
    second = attack(released, tmp_path / "second")
    ended = run(second, deeds={0: ("deny_all",), 1: ("deny_all",)})
    assert all("AlreadyReleased" in one.told for one in ended.values())
    assert "server 2 refuses" in ended[0].told


def test_the_same_collection_with_a_new_spool_is_refused(released, tmp_path):
    """The spool was taken away and filled with other reports; the ledger still knows what was begun."""
    copy = tmp_path / "copy"
    shutil.copytree(released.root, copy)
    again = released.__class__(copy, released.collection, released.ids, released.records, released.ports)
    before = verify(again.out(0)).certificate.statement
    for server in range(3):
        shutil.rmtree(ServerFolder(again.folder(server)).spool)
        again.fill(server, count=MINIMUM)
    assert {one.status for one in run(again).values()} == {0}
    after = verify(again.out(0)).certificate.statement
    assert (after.manifest, after.sums) == (before.manifest, before.sums)


def test_reports_are_not_released_again_beside_new_ledgers(tmp_path):
    """All servers delete their ledgers, which held the release; the stores hold that there was one."""
    trial = Trial.filled(tmp_path / "trial")
    assert {ended.status for ended in run(trial).values()} == {0}
    for server in range(3):
        shutil.rmtree(trial.folder(server) / "ledger")
        trial.out(server).unlink()
    ended = run(trial)
    assert {each.status for each in ended.values()} <= {2, 3}
    assert not any(trial.out(server).exists() for server in range(3))
    assert any("SpoolError: ledger: " in each.told for each in ended.values()), ended


def test_servers_that_began_different_releases_stop(tmp_path):
    """One server's folder comes from a backup that is older than what the others have begun."""
    trial = Trial.filled(tmp_path / "trial")
    shutil.copytree(trial.folder(2), tmp_path / "backup")
    assert {one.status for one in run(trial).values()} == {0}
    shutil.rmtree(trial.folder(2))
    shutil.copytree(tmp_path / "backup", trial.folder(2))
    trial.out(2).unlink()
    ended = run(trial)
    assert all(one.status == 2 for one in ended.values())
    assert all("to which server 2 has not agreed" in one.told for one in ended.values())
    assert not trial.out(2).exists()


def test_shamir_goes_on_without_a_missing_server(tmp_path):
    trial = Trial.filled(tmp_path / "trial", 4, **SHAMIR)
    ended = run(trial, servers=[0, 1, 3], options=["--without", "2"])
    assert {one.status for one in ended.values()} == {0}, ended
    verified = assert_released(trial, servers=(0, 1, 3))
    assert verified.certificate.statement.without == [2]
    assert sorted(verified.certificate.signatures) == ["0", "1", "3"]


def test_shamir_corrects_and_names_a_server_that_lies(tmp_path):
    trial = Trial.filled(tmp_path / "trial", 4, **SHAMIR)
    ended = run(trial, deeds={2: ("alter_share",)})
    assert {one.status for one in ended.values()} == {0}, ended
    verified = assert_released(trial, servers=range(4))
    assert verified.certificate.statement.wrong == {str(server): [2] for server in range(4)}
    told = "".join(verified.checks)
    assert "wrong shares of servers [2] were corrected, which convicts no one: clients that prove nothing" in told
    assert "the sum of honest servers' shares, if at most 1 of the 4 servers lied" in told


LIES = [
    (3, (2,), (0,), "lie on one polynomial of degree 1: which of them are wrong is unknown"),
    (4, (2, 3), (0,), "server 1 is itself among those found to be wrong, [1]"),
    (5, (3, 4), (0, 1), "lie on one polynomial of degree 2: which of them are wrong is unknown"),
]


@pytest.mark.parametrize(("servers", "liars", "fitting", "told"), LIES)
def test_servers_that_lie_in_agreement_shift_nothing(tmp_path, servers, liars, fitting, told):
    """t of (3, 1) and (5, 2), and more than t of (4, 1): no file, nobody honest blamed, and none of it is signed."""
    trial = Trial.filled(tmp_path / "trial", servers, **SHAMIR)
    ended = run(trial, deeds={liar: ("shift_the_sums", liar, fitting, 10**9) for liar in liars})
    for server in set(range(servers)) - set(liars):
        assert ended[server].status == 3, ended[server].told
        assert told in ended[server].told
    assert not any(trial.out(server).exists() for server in range(servers))
    assert {one.status for one in run(trial).values()} == {0}
    assert_released(trial, servers=range(servers))


def test_without_2_t_plus_1_servers_verify_says_that_two_can_set_the_sums(tmp_path):
    """What the rule cannot give: of five servers (t = 2) one is missing, and two honest ones fix no polynomial."""
    trial = Trial.filled(tmp_path / "trial", 5, **SHAMIR)
    present, shift = [0, 1, 3, 4], 10**9
    deeds = {liar: ("shift_the_sums", liar, (0, 1), shift) for liar in (3, 4)}
    ended = run(trial, servers=present, options=["--without", "2"], deeds=deeds)
    assert {one.status for one in ended.values()} == {0}, ended[0].told
    verified = verify(trial.out(0), trial.collection)
    assert set((verified.release.sums - trial.expected(verified.release)).flat) == {shift}
    (sums,) = [check for check in verified.checks if check.startswith("sums: ")]
    assert "ONLY IF at most 1 of servers [0, 1, 3, 4] lied, fewer than the 2 that may be corrupt: 5 that" in sums


def test_shamir_with_three_servers_notices_a_lie(tmp_path):
    trial = Trial.filled(tmp_path / "trial", 3, **SHAMIR)
    ended = run(trial, deeds={2: ("alter_share",)})
    assert all(one.status == 3 and "InconsistentShares" in one.told for one in ended.values()), ended
    assert not any(trial.out(server).exists() for server in range(3))
    assert {one.status for one in run(trial).values()} == {0}  # the liar thinks better of it: the same bytes
    assert_released(trial)


def test_additive_shares_that_differ_from_server_to_server_are_noticed(tmp_path):
    trial = Trial.filled(tmp_path / "trial")
    ended = run(trial, deeds={2: ("open_another_share", [0])})
    assert all(one.status == 3 for one in ended.values())
    assert "MalformedFrame: server 2 has shown another share" in ended[0].told
    assert not any(trial.out(server).exists() for server in range(3))


@pytest.mark.parametrize(
    ("liar", "deed", "told"),
    [(0, "state_other_sums", "sums: the statement"), (1, "sign_something_else", "signature")],
)
def test_nobody_certifies_a_lie(tmp_path, liar, deed, told):
    trial = Trial.filled(tmp_path / "trial")
    ended = run(trial, deeds={liar: (deed,)})
    for server in {0, 1, 2} - {liar}:
        assert "VerificationFailed" in ended[server].told
        assert told in ended[server].told
        assert not trial.out(server).exists()


def test_costs_that_cannot_be_are_refused_and_nothing_is_written(tmp_path):
    trial = Trial.filled(tmp_path / "trial")
    ended = run(trial, deeds={2: ("tell_costs", "negative time")})
    for server in (0, 1):
        assert "COST frame with cpu_s = -1.0" in ended[server].told
        assert not trial.out(server).exists()
    assert {one.status for one in run(trial).values()} == {0}
    assert_released(trial)


def test_too_many_missing_servers_could_release_twice(tmp_path):
    for servers, sharing, fewest in ((3, "additive", 3), (3, "shamir", 3), (4, "shamir", 3), (5, "shamir", 4)):
        collection = Trial.make(tmp_path / f"{servers}-{sharing}", servers, sharing=sharing, count=1).collection
        require_quorum(collection, tuple(range(servers - fewest)))
        with rejects("without", GuaranteeError):
            require_quorum(collection, tuple(range(servers - fewest + 1)))
        with rejects("without"):
            require_quorum(collection, (servers,))


def test_a_folder_of_another_server_is_refused(released, tmp_path):
    with rejects("folder"):
        run_release(released.collection, 0, released.folder(1), tmp_path / "out")
    with rejects("out"):
        run_release(released.collection, 0, released.folder(0), tmp_path / "none" / "out")


def test_a_slow_network_only_takes_time(tmp_path):
    with proxied(tmp_path, delay=0.02) as (trial, only):
        assert {one.status for one in run(trial, only=only).values()} == {0}
    assert_released(trial)


every_link = pytest.mark.long("both faults at both times; each fault and each time once is in the ordinary suite")


@pytest.mark.parametrize(
    ("after", "fault"),
    [
        pytest.param(3_000, "stall", id="at first-stall"),
        pytest.param(9_000, "partition", id="later-partition"),
        pytest.param(3_000, "partition", id="at first-partition", marks=every_link),
        pytest.param(9_000, "stall", id="later-stall", marks=every_link),
    ],
)
def test_a_link_that_fails_ends_the_run_in_time_and_it_can_be_repeated(tmp_path, fault, after):
    with proxied(tmp_path, fault=fault, after=after) as (trial, only):
        began = time.monotonic()
        ended = run(trial, only=only, options=["--deadline", "4", "--connect-deadline", "6"])
        assert time.monotonic() - began < 40
        assert {one.status for one in ended.values()} <= {0, 3}
        assert 3 in {one.status for one in ended.values()}
        for one in ended.values():
            assert one.status == 0 or any(word in one.told for word in ("PartyMissing", "PartyLost", "ended the run"))
    with proxied(tmp_path, trial=trial) as (trial, only):
        assert {one.status for one in run(trial, only=only).values()} == {0}
    assert_released(trial)


@contextlib.contextmanager
def proxied(root, trial=None, **faults):
    """Servers 1 and 2 are reached through proxies only."""
    if trial is None:
        proxies = {server: Proxy(**faults) for server in (1, 2)}
        addresses = {server: f"127.0.0.1:{proxy.port}" for server, proxy in proxies.items()}
        trial = Trial.filled(root / "trial", addresses=addresses)
    else:
        entries = trial.collection.servers
        proxies = {server: Proxy(port=entries[server].release_address[1], **faults) for server in (1, 2)}
    for server, proxy in proxies.items():
        proxy.start(trial.ports[server])
    try:
        yield (
            trial,
            {server: ["--listen", f"127.0.0.1:{trial.ports[server]}"] for server in proxies},
        )
    finally:
        for proxy in proxies.values():
            proxy.stop()
    assert threading.active_count() < 50


def test_a_port_in_use_is_named(tmp_path):
    trial = Trial.filled(tmp_path / "trial")
    with socket.create_server(("127.0.0.1", trial.ports[1])):
        ended = run(trial, servers=[1])[1]
    assert ended.status == InputError.exit_status, ended.told
    assert f"addresses: 127.0.0.1:{trial.ports[1]} given" in ended.told
    assert "Traceback" not in ended.told


@pytest.mark.parametrize("wrong", [{"threads": 0}, {"out": "."}])
def test_what_would_fail_at_the_end_is_refused_at_the_beginning(tmp_path, wrong):
    trial = Trial.filled(tmp_path / "trial")
    arguments = {"out": tmp_path / "release.dpmpc", **wrong}
    with rejects(next(iter(wrong))):
        run_release(trial.collection, 0, trial.folder(0), **arguments)

"""Whole runs: real processes, real TLS on loopback, and every way in which a party is known to fail.

A failure has to be one typed error that names the party at fault, within seconds, with no process and no file left.
"""

import contextlib
import datetime
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from network_programs import late_file, sum_shares

from dpmpc.base.errors import (
    BatchMismatch,
    InputError,
    MalformedFrame,
    PartyImpersonated,
    PartyLost,
    PartyMissing,
    ProtocolFailure,
)
from dpmpc.parties.network.identity import Authority, dialling_context, pin, write_identity
from dpmpc.parties.network.launched import Launched
from dpmpc.parties.network.programs import Agreement, Callbacks, here
from dpmpc.parties.network.settings import PartySettings, read_outcome, read_settings, write_settings
from dpmpc.parties.network.sockets import ByteCount, kernel_count
from support.rejections import blames, rejects
from support.waiting import PATIENCE, wait_for

SUM, MISBEHAVE, INSIDE_MPYC = (f"network_programs.{name}" for name in ("sum_shares", "misbehave", "inside_mpyc"))
ROBUST = "network_programs.robust_opening"
LENGTH = 10_000
EMPTY_FRAMES_BYTES = 1_000  # far more than party number and empty frames take, far less than a share


@pytest.fixture(autouse=True)
def warnings_are_errors_in_children(monkeypatch):
    monkeypatch.setenv("PYTHONWARNINGS", "error")


@pytest.fixture(autouse=True)
def no_temporary_folder_is_left(tmp_path, monkeypatch):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    yield
    assert list(temporary.iterdir()) == []


class Witness:
    """Collects the progress of parties; `misbehave` reports process ids."""

    def __init__(self):
        self.progress = []

    def __call__(self, party, progress):
        self.progress.append((party, progress))

    @property
    def process_ids(self):
        return [int(words.split()[0]) for _, words in self.progress]


def is_alive(process_id):
    """Whether the process is there and not a zombie that waits to be read."""
    try:
        return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.usefixtures("new_interpreters")
@pytest.mark.parametrize("servers", [2, 3, 5])
def test_shares_are_summed_at_the_analyst(servers, caplog):
    caplog.set_level("DEBUG", "dpmpc.parties.network")
    totals, witness = {}, Witness()

    def collect(party, folder):
        if party == servers:
            totals[party] = np.load(folder / "total.npy")

    outcomes = here(
        Agreement(SUM, servers, {"length": LENGTH}), callbacks=Callbacks(collect=collect, on_progress=witness)
    )

    expected = sum(sum_shares.share(server, LENGTH) for server in range(servers))
    assert (totals[servers] == expected).all()
    assert outcomes[servers].result == {"first": int(expected[0]), "last": int(expected[-1])}
    assert [outcome.party for outcome in outcomes] == list(range(servers + 1))
    assert set(witness.progress) >= {(server, 1.0) for server in range(servers)} | {(servers, "started")}
    assert caplog.text == "", "a party printed or warned"
    for outcome in outcomes:
        check_spent(outcome.statistics, outcome.party, servers)


def check_spent(spent, party, servers):
    """Bytes are counted twice by independent routes, and none of them is payload between servers."""
    is_server = party < servers
    assert spent.payload_sent == (8 * LENGTH if is_server else 0)
    assert spent.payload_received == (0 if is_server else 8 * LENGTH * servers)
    for peer, traffic in spent.peers.items():
        if is_server and peer < servers:
            assert (traffic.payload.sent, traffic.payload.received) == (0, 0)
            assert traffic.socket.sent + traffic.socket.received < 4_200 + EMPTY_FRAMES_BYTES
        if sys.platform == "linux":
            assert traffic.kernel == traffic.socket
    assert spent.bytes_sent == sum(traffic.socket.sent for traffic in spent.peers.values())
    assert spent.bytes_sent > spent.payload_sent + spent.setup_bytes_sent > spent.payload_sent
    assert set(spent.phases) == ({"open"} if is_server else set())
    if is_server:
        assert spent.phases["open"].bytes_sent > 8 * LENGTH
        assert 0 < spent.phases["open"].wall_s < spent.total_s
    assert spent.setup_s > 0
    assert 10 < spent.peak_rss_mb < 500


@pytest.mark.skipif(sys.platform != "linux", reason="TCP_INFO is Linux's")
def test_the_kernel_count_is_exact_while_bytes_arrive():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sender = socket.create_connection(listener.getsockname())
        receiver, _ = listener.accept()
    with sender, receiver:
        sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        burst = threading.Thread(target=lambda: [sender.send(b"x") for _ in range(5_000)])
        burst.start()
        while burst.is_alive():
            assert kernel_count(receiver) == ByteCount(0, 0), "nothing has been read yet"
        burst.join()
    assert kernel_count(receiver) is None, "a closed socket has no count"


def test_without_an_analyst_mpyc_computes_among_the_servers_alone():
    outcomes = here(Agreement("network_programs.mpyc_only", 3, analyst=False))
    assert [outcome.result for outcome in outcomes] == [{"sum": 6}] * 3


def test_mpyc_computes_beside_our_frames_and_the_analyst_holds_no_share():
    outcomes = here(Agreement(INSIDE_MPYC, 3))
    assert outcomes[3].result == {"products": [[2, 6, 12, 20]] * 3}


@pytest.mark.parametrize(
    ("deed", "error", "remark"),
    [
        ("kill_itself", PartyLost, "SIGKILL"),
        ("send_too_much", MalformedFrame, "shape"),
        ("send_a_pickle", MalformedFrame, "pickle"),
        ("announce_gigabytes", MalformedFrame, "limit"),
        ("send_twice_under_one_label", MalformedFrame, "label"),
        ("speak_for_another", PartyImpersonated, "party 0"),
        ("transfer_as_mpyc_does", MalformedFrame, "pickle"),
        ("leave_early", PartyMissing, "leave"),
        ("fail_in_its_program", ProtocolFailure, "ZeroDivisionError"),
        ("fail_in_mpyc", ProtocolFailure, "ZeroDivisionError"),
        ("return_no_plain_data", ProtocolFailure, "ndarray"),
    ],
)
def test_a_misbehaving_party_is_named(deed, error, remark):
    witness = Witness()
    with pytest.raises(error, match=remark) as failure:
        here(
            Agreement(MISBEHAVE, 3, {"culprit": 1, "deed": deed}, deadline=40), callbacks=Callbacks(on_progress=witness)
        )
    assert type(failure.value) is error
    assert failure.value.party == (None if deed == "fail_in_mpyc" else 1), "another may have dealt it what does not fit"
    assert "party 1" in str(failure.value)
    assert "Traceback" not in str(failure.value)
    assert len(witness.process_ids) == 4
    assert not any(is_alive(process_id) for process_id in witness.process_ids)


def test_bad_input_of_a_party_is_bad_input():
    with rejects("party 1"):
        here(Agreement(MISBEHAVE, 2, {"culprit": 1, "deed": "find_bad_input"}))


@pytest.mark.parametrize("culprit", [0, 3], ids=["server", "analyst"])
def test_a_silent_party_is_named_when_the_deadline_ends(culprit):
    witness, began = Witness(), time.monotonic()
    with blames(culprit, PartyMissing) as failure:
        here(
            Agreement(MISBEHAVE, 3, {"culprit": culprit, "deed": "fall_silent"}, deadline=2),
            callbacks=Callbacks(on_progress=witness),
        )
    assert failure.value.party == culprit
    assert time.monotonic() - began < 40  # it would be silent for a minute
    assert not any(is_alive(process_id) for process_id in witness.process_ids)


def test_a_run_that_takes_too_long_is_ended():
    witness = Witness()
    with pytest.raises(PartyMissing, match="did not end in time"):
        here(
            Agreement(MISBEHAVE, 2, {"culprit": 2, "deed": "fall_silent"}),
            callbacks=Callbacks(on_progress=witness),
            longest=2,
        )
    assert not any(is_alive(process_id) for process_id in witness.process_ids)


def test_a_server_that_dies_while_mpyc_computes_is_named():
    with pytest.raises(PartyLost, match="SIGKILL") as failure:
        here(Agreement(INSIDE_MPYC, 3, {"dies": 2}))
    assert failure.value.party == 2


def test_mpyc_does_not_share_secrets_among_two():
    with rejects("party 0"):
        here(Agreement(INSIDE_MPYC, 2))


@pytest.mark.parametrize("absent", [1, 3], ids=["server", "analyst"])
def test_a_party_that_never_comes_up_is_named(absent):
    with pytest.raises(PartyMissing, match="never started") as failure:
        here(Agreement(SUM, 3, {"length": 1}, connect_deadline=1), absent=[absent])
    assert failure.value.party == absent


@pytest.mark.parametrize(
    ("servers", "threshold", "without"),
    [(4, 1, [2]), (5, 2, []), (5, 2, [0]), (5, 2, [3, 1]), (3, 1, [2])],
)
def test_servers_go_on_without_one_that_is_left_out(servers, threshold, without):
    outcomes = here(Agreement(ROBUST, servers, {"threshold": threshold}, analyst=False), without=without)
    present = [server for server in range(servers) if server not in without]
    assert [outcome.party for outcome in outcomes] == present
    (toss,) = {outcome.result.pop("toss") for outcome in outcomes}
    assert len(bytes.fromhex(toss)) == 32
    assert all(outcome.result == {"present": present, "wrong": [], "right": True} for outcome in outcomes)
    for outcome in outcomes:
        assert set(outcome.statistics.peers) == set(present) - {outcome.party}


def test_a_server_is_left_out_and_another_lies():
    outcomes = here(Agreement(ROBUST, 5, {"threshold": 1, "liar": 3}, analyst=False), without=[0])
    assert [outcome.result["wrong"] for outcome in outcomes] == [[3]] * 4
    assert all(outcome.result["right"] for outcome in outcomes)


def test_the_analyst_too_goes_on_without_a_server():
    outcomes = here(Agreement("network_programs.who_is_there", 3), without=[1])
    assert [outcome.result for outcome in outcomes] == [{"peers": [2, 3]}, {"peers": [0, 3]}, {"peers": [0, 2]}]


def test_a_missing_server_that_is_not_left_out_is_still_named():
    with pytest.raises(PartyMissing, match="never started") as failure:
        here(Agreement(ROBUST, 4, {"threshold": 1}, analyst=False, connect_deadline=1), without=[2], absent=[1])
    assert failure.value.party == 1


def test_mpyc_does_not_compute_without_a_server():
    with rejects("party 0"):
        here(Agreement("network_programs.mpyc_only", 4, analyst=False), without=[3])


def call_as(folder, number, claimed, address):
    """Call a party with the certificate of another; return what it answers: nothing, and the end."""
    plain = socket.create_connection(address, timeout=PATIENCE)
    with dialling_context(folder).wrap_socket(plain, server_hostname=f"party-{number}") as link:
        link.sendall(claimed.to_bytes(2, "little"))
        try:
            return link.recv(1)
        except ConnectionResetError:
            return b""


@pytest.mark.parametrize("claimed", [2, 0], ids=["in its own name", "in the name of another"])
def test_a_server_that_is_left_out_is_turned_away_and_ends_nothing(tmp_path, claimed):
    """It calls with a certificate that is believed. Party 0 begins when both that it calls have answered."""
    authority, answers, threads, answered = Authority(), [], [], tmp_path / "answered"
    left_out = tmp_path / "left-out"
    left_out.mkdir()
    authority.issue(left_out, 2)

    def call(settings):
        answers.extend(call_as(left_out, party, claimed, tuple(settings.addresses[party])) for party in (1, 3))
        answered.touch()

    def meanwhile(folders):  # when the parties are there: no process is forked from one with two threads
        threads.append(threading.Thread(target=call, args=(read_settings(folders[0]),), daemon=True))
        threads[0].start()

    outcomes = here(
        Agreement(ROBUST, 4, {"threshold": 1, "after": {"0": str(answered)}}, analyst=False, connect_deadline=20),
        without=[2],
        callbacks=Callbacks(set_up=lambda party, folder: authority.issue(folder, party), meanwhile=meanwhile),
        longest=40,
    )
    threads[0].join(10)
    assert answers == [b"", b""]
    assert all(outcome.result["right"] for outcome in outcomes)


@pytest.mark.parametrize(("waiting", "late"), [(2, 1), (1, 2)], ids=["for a caller", "for one that it calls"])
def test_a_server_that_dials_again_is_not_accused(tmp_path, waiting, late):
    """Seed 91 of the simulator: party 0 is linked to a party that waits for another, loses power, and starts again.

    Its earlier link stays open at the other end: a machine without power sends nothing, not even that it closes a link.
    """
    linked, replaced, threads = tmp_path / "linked", tmp_path / "replaced", []

    def lose_power(folder):
        address = tuple(read_settings(folder).addresses[waiting])
        plain = socket.create_connection(address, timeout=PATIENCE)
        with dialling_context(folder).wrap_socket(plain, server_hostname=f"party-{waiting}") as half_open:
            half_open.sendall((0).to_bytes(2, "little"))
            time.sleep(0.5)  # until the number is read
            linked.touch()
            with contextlib.suppress(ConnectionResetError):
                assert half_open.recv(1) == b""
            replaced.touch()

    def meanwhile(folders):
        threads.append(threading.Thread(target=lose_power, args=(folders[0],), daemon=True))
        threads[0].start()

    after = {"0": str(linked), str(late): str(replaced)}
    outcomes = here(
        Agreement(ROBUST, 3, {"threshold": 1, "after": after}, analyst=False, connect_deadline=PATIENCE),
        callbacks=Callbacks(meanwhile=meanwhile),
        longest=2 * PATIENCE,
    )
    threads[0].join(10)
    assert replaced.exists()
    assert all(outcome.result["right"] for outcome in outcomes)


def test_all_have_to_go_on_without_the_same_servers(monkeypatch):
    """Party 1 has not been told, and waits for party 2 in vain."""

    def told(folder, listener, without, simulation, **more):
        return Launched(folder, listener, () if folder.endswith("party-1") else without, simulation, **more)

    def set_up(party, folder):
        settings = json.loads((folder / "party.json").read_text())
        changed = {"connect_deadline": 1 if party == 1 else 60}
        (folder / "party.json").write_text(json.dumps(settings | changed))

    monkeypatch.setattr("dpmpc.parties.network.programs.Launched", told)
    with pytest.raises(PartyMissing) as failure:
        here(Agreement(ROBUST, 3, {"threshold": 1}, analyst=False), without=[2], callbacks=Callbacks(set_up=set_up))
    assert failure.value.party == 2


def pinned_by(tmp_path, servers):
    """Make each party a folder with a certificate of its own making; return a set-up that puts it in place."""
    made = [tmp_path / f"own-{party}" for party in range(servers)]
    certificates = [write_identity(folder, party, datetime.timedelta(days=30)) for party, folder in enumerate(made)]
    for folder in made:
        pin(folder, certificates)
    return lambda party, folder: copy_identity(made[party], folder)


def test_parties_with_pinned_certificates_of_their_own(tmp_path):
    outcomes = here(
        Agreement(ROBUST, 3, {"threshold": 1}, analyst=False), callbacks=Callbacks(set_up=pinned_by(tmp_path, 3))
    )
    assert all(outcome.result["right"] for outcome in outcomes)


@pytest.mark.parametrize(("impostor", "victim"), [(0, 2), (2, 0)], ids=["dials", "is dialled"])
def test_a_party_with_the_pinned_certificate_of_another_is_refused(tmp_path, impostor, victim):
    in_place = pinned_by(tmp_path, 3)

    def set_up(party, folder):
        in_place(victim if party == impostor else party, folder)

    with pytest.raises(PartyImpersonated) as failure:
        here(Agreement(ROBUST, 3, {"threshold": 1}, analyst=False), callbacks=Callbacks(set_up=set_up))
    assert failure.value.party == impostor


@pytest.mark.parametrize("servers", [[0], [1, 2]])
def test_a_key_that_others_may_read_ends_the_run(servers):
    def set_up(party, folder):
        if party in servers:
            (folder / "party.key").chmod(0o644)

    with pytest.raises(InputError, match="0600 expected"):
        here(Agreement(ROBUST, 3, {"threshold": 1}, analyst=False), callbacks=Callbacks(set_up=set_up))


def copy_identity(source, target):
    for name in ("ca.crt", "party.crt", "party.key"):
        shutil.copy(source / name, target / name)


@pytest.mark.parametrize(("impostor", "victim"), [(0, 2), (2, 0), (3, 1)], ids=["dials", "is dialled", "analyst"])
def test_a_party_with_the_certificate_of_another_is_refused(impostor, victim):
    def set_up(party, folder):
        if party == impostor:
            copy_identity(folder.parent / f"party-{victim}", folder)

    with pytest.raises(PartyImpersonated) as failure:
        here(Agreement(SUM, 3, {"length": 1}), callbacks=Callbacks(set_up=set_up))
    assert failure.value.party == impostor
    assert f"party {impostor}" in str(failure.value)


@pytest.mark.parametrize("trusts_it_too", [True, False])
def test_a_certificate_of_another_authority_is_refused(trusts_it_too):
    def set_up(party, folder):
        if party == 3:
            agreed = (folder / "ca.crt").read_bytes()
            Authority().issue(folder, party)
            if not trusts_it_too:
                (folder / "ca.crt").write_bytes(agreed)

    with pytest.raises(PartyImpersonated, match="certificate") as failure:
        here(Agreement(SUM, 3, {"length": 1}), callbacks=Callbacks(set_up=set_up))
    assert failure.value.party == 3


def test_parties_that_believe_in_different_authorities_are_both_named():
    def set_up(party, folder):
        if party == 0:
            Authority().issue(folder, party)

    with pytest.raises(PartyImpersonated, match=r"party 0 refused the certificate of party [12]"):
        here(Agreement(SUM, 2, {"length": 1}), callbacks=Callbacks(set_up=set_up))


def test_a_caller_whose_certificate_is_refused_is_named():
    """In TLS 1.3 the calling end is not told at once; the others wait for it in vain."""

    def set_up(party, folder):
        if party == 0:
            agreed = (folder / "ca.crt").read_bytes()
            Authority().issue(folder, party)
            (folder / "ca.crt").write_bytes(agreed)

    with blames(0, PartyMissing):
        here(Agreement(SUM, 2, {"length": 1}), callbacks=Callbacks(set_up=set_up))


def test_parties_with_different_tasks_do_not_begin():
    def set_up(party, folder):
        if party == 1:
            settings = json.loads((folder / "party.json").read_text())
            (folder / "party.json").write_text(json.dumps(settings | {"task": "00" * 32}))

    with pytest.raises(BatchMismatch) as failure:
        here(Agreement(SUM, 3, {"length": 1}), callbacks=Callbacks(set_up=set_up))
    assert failure.value.party == 1


def test_strangers_cannot_end_a_run():
    """Somebody who finds an open port sends garbage, or nothing at all."""
    callers = []

    def set_up(party, folder):
        address = tuple(read_settings(folder).addresses[party])
        callers.extend(socket.create_connection(address) for _ in range(2))
        callers[-1].sendall(b"GET / HTTP/1.0\r\n\r\n" + bytes(100))

    try:
        outcomes = here(Agreement(SUM, 2, {"length": 3}), callbacks=Callbacks(set_up=set_up))
    finally:
        for caller in callers:
            caller.close()
    assert all(outcome.ok for outcome in outcomes)


def test_parties_end_when_their_launcher_is_killed(tmp_path):
    script = (
        "from dpmpc.parties.network.programs import Agreement, Callbacks, here\n"
        "here(Agreement('network_programs.misbehave', 2, {'culprit': 2, 'deed': 'fall_silent'}),\n"
        "     callbacks=Callbacks(on_progress=lambda party, words: print(words, flush=True)))"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path)}
    launcher = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=environment)
    words = [launcher.stdout.readline().split() for _ in range(3)]
    launcher.send_signal(signal.SIGKILL)
    launcher.wait()
    launcher.stdout.close()
    wait_for(
        lambda: not any(is_alive(int(process_id)) or Path(folder).parent.exists() for process_id, folder in words),
        "the end of the parties and their folder",
        seconds=50,  # they would be silent for a minute
    )


def run_alone(folder):
    """Run one party as an operator does, and return exit status, standard output and standard error."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "dpmpc.parties.network.party", str(folder), SUM]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def lone_party(tmp_path):
    folder = tmp_path / "party-1"
    folder.mkdir()
    Authority().issue(folder, 1)
    addresses = [("127.0.0.1", 1), ("127.0.0.1", 0), ("127.0.0.1", 1)]
    return folder, PartySettings(1, 2, addresses, SUM, {}, "ab" * 32, connect_deadline=0.5)


def test_a_party_alone_ends_with_status_3_and_an_outcome(lone_party):
    folder, settings = lone_party
    write_settings(folder, settings)
    status, printed, _ = run_alone(folder)
    outcome = read_outcome(folder)
    assert (status, printed) == (3, "")
    assert outcome.error.type == "PartyMissing"
    assert outcome.error.party == 0
    assert re.search(r"^party 0, party 2 had not come up after \d+\.\d s", outcome.error.message)
    assert "party 2: [Errno 111]" in outcome.error.message


def test_a_party_with_bad_settings_ends_with_status_2(lone_party):
    folder, _ = lone_party
    (folder / "party.json").write_text('{"party": "one"}')
    status, _, log = run_alone(folder)
    assert status == 2
    assert "party.json" in log
    assert "Traceback" not in log


def test_a_party_without_its_key_ends_with_status_2(lone_party):
    folder, settings = lone_party
    write_settings(folder, settings)
    (folder / "party.key").unlink()
    assert run_alone(folder)[0] == 2
    assert "identity" in read_outcome(folder).error.message


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"party": 3}, "party"),
        ({"servers": 1}, "servers"),
        ({"servers": 4}, "addresses"),
        ({"deadline": 0.0}, "deadline"),
        ({"connect_deadline": float("inf")}, "connect_deadline"),
        ({"frame_limit": 0}, "frame_limit"),
        ({"program": "os; print()"}, "program"),
        ({"without": (1,)}, "without"),
        ({"without": (2,)}, "without"),
        ({"without": (0,)}, "without"),
        ({"task": "AB" * 32}, "task"),
        ({"task": "ab"}, "task"),
    ],
)
def test_settings_are_checked(lone_party, change, named):
    _, settings = lone_party
    fields = {name: getattr(settings, name) for name in settings.__struct_fields__}
    with rejects(named):
        PartySettings(**(fields | change))


@pytest.mark.parametrize(
    ("agreement", "without", "named"),
    [
        (Agreement(SUM, 1), [], "servers"),
        (Agreement(SUM, 2, {"x": object()}), [], "arguments"),
        (Agreement(SUM, 3), [3], "without"),
    ],
)
def test_what_no_parties_could_do_is_refused(agreement, without, named):
    with rejects(named):
        here(agreement, without=without)


@pytest.mark.usefixtures("new_interpreters")
@pytest.mark.parametrize(("told", "expected"), [(None, "1"), ("3", "3")])
def test_linear_algebra_of_a_party_has_one_thread_unless_told(monkeypatch, told, expected):
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    if told is not None:
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", told)
    outcomes = here(Agreement("network_programs.thread_limit", 2))
    assert [outcome.result for outcome in outcomes] == [{"threads": expected}] * 3


def wait_for_files(paths):
    wait_for(lambda: all(path.exists() for path in paths), "parties that are ready")


def test_files_may_come_while_the_parties_start(tmp_path):
    """The parties get ready meanwhile, and do not count the time: no deadline for set-up is running."""

    def meanwhile(folders):
        wait_for_files([late_file.mark(tmp_path, party) for party in range(3)])
        time.sleep(2.1)
        for party, folder in enumerate(folders):
            (folder / "late").write_text(f"for {party}")

    arguments = {"marks": str(tmp_path)}
    outcomes = here(
        Agreement("network_programs.late_file", 2, arguments, connect_deadline=2),
        callbacks=Callbacks(meanwhile=meanwhile),
    )
    assert [outcome.result["late"] for outcome in outcomes] == ["for 0", "for 1", "for 2"]


def test_parties_end_when_what_they_wait_for_fails(tmp_path):
    def meanwhile(folders):
        wait_for_files([late_file.mark(tmp_path, party) for party in range(3)])
        raise InputError("rows: none given, some expected")

    with pytest.raises(InputError, match="rows: none given"):
        here(
            Agreement("network_programs.late_file", 2, {"marks": str(tmp_path)}),
            callbacks=Callbacks(meanwhile=meanwhile),
        )


@pytest.mark.usefixtures("new_interpreters")
def test_a_party_that_fails_while_it_gets_ready_is_named(tmp_path):
    """It ends before it is told to go on."""

    def meanwhile(folders):
        wait_for_files([folder / "outcome.json" for folder in folders])
        time.sleep(0.3)

    with pytest.raises(ProtocolFailure, match="FileNotFoundError"):
        here(
            Agreement("network_programs.late_file", 2, {"marks": str(tmp_path / "none")}),
            callbacks=Callbacks(meanwhile=meanwhile),
        )

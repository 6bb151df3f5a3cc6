"""Hostile servers in real releases: nothing false is signed, the liar is named, and an honest server never is."""

import subprocess
import sys

import numpy as np
import pytest

from dpmpc.base.errors import InputError
from dpmpc.collect.store.server_folder import ServerFolder
from dpmpc.collect.terms.verifying import verify
from support.hostile.servers import REFUSAL, SCENES
from support.release_processes import Trial, run

LIAR = 2


def played(tmp_path, deed, servers=3, liar=LIAR, **options):
    """Run a deed; return the trial and how the honest servers ended."""
    trial = Trial.filled(tmp_path / "trial", servers, **options)
    ended = run(trial, deeds={liar: deed})
    return trial, {server: one for server, one in ended.items() if server != liar}


def assert_nothing_is_released(trial, ended):
    for server, one in ended.items():
        assert one.status in (2, 3), one.told
        assert "Traceback" not in one.told
        assert not trial.out(server).exists()


def test_a_server_that_waits_for_all_shares_cannot_choose_the_sums(tmp_path):
    trial, ended = played(tmp_path, ("rush_to_target", 123456789))
    assert_nothing_is_released(trial, ended)
    for one in ended.values():
        assert "MalformedFrame: server 2 has shown another share of manifest" in one.told


def test_nor_can_it_in_a_repetition(tmp_path):
    """It has kept the others' shares back; these are sent again, and its own has to be the one committed to."""
    taken = str(tmp_path / "taken.npz")
    trial, ended = played(tmp_path, ("take_and_leave", taken))
    assert {one.status for one in ended.values()} == {3}
    again = run(trial, deeds={LIAR: ("complete_what_was_taken", taken, 123456789)})
    for server in (0, 1):
        assert "InconsistentShares: server 2 commits to another share of manifest" in again[server].told
        assert not trial.out(server).exists()
    assert {one.status for one in run(trial).values()} == {0}
    verified = verify(trial.out(0), trial.collection)
    np.testing.assert_array_equal(verified.release.sums, trial.expected(verified.release))


def test_an_offset_that_was_chosen_before_goes_unnoticed(tmp_path):
    """Not promised, so known: additive shares hold no redundancy."""
    trial, ended = played(tmp_path, ("add_blindly", 1000))
    assert {one.status for one in ended.values()} == {0}
    verified = verify(trial.out(0), trial.collection)
    np.testing.assert_array_equal(verified.release.sums, trial.expected(verified.release) + 1000)


EQUIVOCATIONS = {
    "announcement": ("DIGEST", [1]),
    "verdict": ("VERDICT", [0], REFUSAL),
    "coin": ("COMMITMENT", [1]),
    "commitment": ("COMMITMENT", [1], "", 1),
    "finding": ("DIGEST", [1], "", 4),
    "signature": ("SIGNATURE", [1]),
}


@pytest.mark.parametrize("name", EQUIVOCATIONS)
def test_who_tells_different_servers_different_things_is_named_by_both(tmp_path, name):
    trial, ended = played(tmp_path, ("tell_other_words", *EQUIVOCATIONS[name]))
    assert_nothing_is_released(trial, ended)
    for one in ended.values():
        assert "Equivocation: server 2 announced different things" in one.told, one.told


def test_different_valid_signatures_never_make_different_files(tmp_path):
    trial, ended = played(tmp_path, ("sign_for_each",))
    assert_nothing_is_released(trial, ended)
    assert all("Equivocation: server 2" in one.told for one in ended.values())
    assert {one.status for one in run(trial).values()} == {0}
    assert len({trial.out(server).read_bytes() for server in range(3)}) == 1


def test_a_repetition_writes_the_same_file_byte_for_byte(tmp_path):
    trial = Trial.filled(tmp_path / "trial")
    assert {one.status for one in run(trial).values()} == {0}
    first = trial.out(0).read_bytes()
    assert {one.status for one in run(trial).values()} == {0}
    assert {trial.out(server).read_bytes() for server in range(3)} == {first}


@pytest.mark.parametrize(("servers", "claim"), [(2, 0.0), (2, 4e9), (3, 4e9), (2, 1e300)])
def test_a_clock_outside_of_the_collection_is_named_before_anything_is_signed(tmp_path, servers, claim):
    trial, ended = played(tmp_path, ("tell_time", claim), servers, servers - 1)
    assert_nothing_is_released(trial, ended)
    for one in ended.values():
        assert f"MalformedFrame: server {servers - 1} sent no valid STANDING frame" in one.told
    assert {one.status for one in run(trial).values()} == {0}
    verify(trial.out(0), trial.collection)


@pytest.mark.parametrize(
    ("kind", "hexed", "repeat", "liar"),
    [
        ("STANDING", b'{"begun":["\xff"],"sealed":[],"time":1.0}'.hex(), 1, 2),
        ("STANDING", b'{"begun":["A\x1b[31m"],"sealed":[],"time":1.0}'.hex(), 1, 2),
        ("STATEMENT", b'{"manifest":{"format":1,"collection":"\xff"}}'.hex(), 1, 0),
        ("STATEMENT", b'{"a":'.hex(), 500, 0),
        ("COST", b'{"x":'.hex(), 10_000, 2),
        ("VERDICT", b'{"type":"InputError","message":"\xd7","party":null}'.hex(), 1, 2),
    ],
)
def test_words_that_cannot_be_read_name_their_sender(tmp_path, kind, hexed, repeat, liar):
    trial, ended = played(tmp_path, ("say", kind, hexed, repeat), liar=liar)
    assert_nothing_is_released(trial, ended)
    for one in ended.values():
        # Who refuses in words that nobody can read, and then goes on, is named for that.
        assert f"server {liar} sent no valid {'ECHO' if kind == 'VERDICT' else kind} frame" in one.told, one.told
        assert all(line.isprintable() for line in one.told.splitlines())


@pytest.mark.parametrize("costs", ["negative peers", "negative phases", "many phases", "script"])
def test_absurd_costs_are_refused_wherever_they_stand(tmp_path, costs):
    trial, ended = played(tmp_path, ("tell_costs", costs))
    assert_nothing_is_released(trial, ended)
    assert all("server 2 sent a COST frame" in one.told for one in ended.values())


def test_words_of_a_server_are_escaped_on_the_others_terminals(tmp_path):
    text = "\x1b[2K\x1b[1A\x1b]0;owned\x07\n/var/release.dpmpc: release of 999999 reports, signed by all that took part"
    _, ended = played(tmp_path, ("refuse_with", text))
    for one in ended.values():
        assert "server 2 refuses: \\x1b[2K" in one.told
        assert all(line.isprintable() for line in one.told.splitlines())
        assert not one.told.splitlines()[-1].startswith("/var")


def test_a_flood_of_empty_messages_ends_and_names_its_sender(tmp_path):
    trial, ended = played(tmp_path, ("flood", 0, 100_000))
    assert_nothing_is_released(trial, ended)
    assert "server 2 sent more than 65536 messages that no one has read" in ended[0].told
    assert "server 1" not in ended[0].told.rpartition("dpmpc: ")[2]
    assert "server 0 ended the run: server 2" in ended[1].told or "server 2" in ended[1].told


def test_paths_of_one_server_do_not_reach_another(tmp_path):
    trial = Trial.filled(tmp_path / "trial")
    # A folder in which nobody makes files, not even root: this one cannot be written, at the very end.
    ended = run(trial, only={1: ["--out", "/proc/home-of-alice.dpmpc"]})
    assert "home-of-alice" in ended[1].told
    for server in (0, 2):
        assert "server 1 refuses" in ended[server].told
        assert "alice" not in ended[server].told


def test_a_release_that_runs_twice_on_one_machine_says_so(tmp_path):
    trial = Trial.filled(tmp_path / "trial")
    folder = ServerFolder(trial.folder(0))
    with folder.releasing(0):
        twice = r"in use by another `dpmpc release` of server 0 \(process \d+\)"
        with pytest.raises(InputError, match=twice), folder.releasing(0):
            pass
        ended = run(trial, servers=[0])[0]
    assert ended.status == InputError.exit_status
    assert "in use by another" in ended.told
    with folder.releasing(0):
        assert (folder.path / "release.lock").stat().st_mode & 0o777 == 0o600


def test_a_release_that_has_lost_its_commitments_is_refused(tmp_path):
    """Hostile servers may know the shares that were bound: other commitments to them would be another opening."""
    trial = Trial.filled(tmp_path / "trial")
    assert {one.status for one in run(trial).values()} == {0}
    for server in range(3):
        (ServerFolder(trial.folder(server)).ledger / "openings.sqlite").unlink()
        trial.out(server).unlink()
    ended = run(trial)
    assert_nothing_is_released(trial, ended)
    assert all("no commitments to its shares are kept next to the ledger" in one.told for one in ended.values())
    assert not any(list(ServerFolder(trial.folder(server)).ledger.glob("openings*")) for server in range(3))


def test_a_repetition_commits_to_the_same_bytes(tmp_path):
    trial = Trial.filled(tmp_path / "trial")
    ended = run(trial, deeds={1: ("die", "before", "conversation", "exchange")})
    assert ended[1].status == -9
    before = kept(trial)
    assert {one.status for one in run(trial).values()} == {0}
    assert kept(trial) == before


def kept(trial):
    """What each server keeps of commitments."""
    found = {
        server: (ServerFolder(trial.folder(server)).ledger / "openings.sqlite").read_bytes() for server in range(3)
    }
    assert len(found) == 3
    return found


def test_scenes_run_by_hand():
    command = [sys.executable, "-m", "support.hostile.servers", "coin"]
    told = subprocess.run(command, cwd="tests", capture_output=True, text=True, timeout=120, check=True).stdout
    assert "server 2 (the liar)" in told
    assert "Equivocation: server 2" in told
    assert set(SCENES) >= {"announcement", "verdict", "coin", "signatures", "target", "clock", "flood"}

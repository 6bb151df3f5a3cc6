"""Files appear whole or not at all, and what is private is for its owner alone."""

import fcntl
import os
import signal
import stat
import subprocess
import sys
import threading
import time

import pytest

from dpmpc.base.errors import InputError, SpoolError
from dpmpc.base.storage.files import locked, require_private, whole, write_private
from dpmpc.data import Table, write_csv
from support.hostile.preparers import plant_links
from support.rejections import rejects


def test_a_file_takes_the_place_of_the_old_one_at_the_end(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with whole(path) as partial:
        partial.write(b"new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_after_an_error_the_old_file_is_left_and_nothing_else(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")

    def interrupted():
        with whole(path) as partial:
            partial.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("mode", [0o400, 0o600, 0o700])
def test_what_is_for_its_owner_alone_passes(mode, tmp_path):
    path = tmp_path / "key"
    path.touch()
    path.chmod(mode)
    require_private("key", path)


@pytest.mark.parametrize("mode", [0o601, 0o602, 0o604, 0o610, 0o620, 0o640])
def test_what_others_may_touch_is_refused(mode, tmp_path):
    path = tmp_path / "key"
    path.touch()
    path.chmod(mode)
    with rejects("key", given=f"mode 0{mode:o} of {path}", expected="0600"):
        require_private("key", path)


def test_a_folder_needs_another_mode_and_a_store_another_error(tmp_path):
    tmp_path.chmod(0o750)
    with rejects("folder", SpoolError, expected="0700"):
        require_private("folder", tmp_path, SpoolError)


WRITERS = {
    "whole": lambda path: write(path, b"new"),
    "private": lambda path: write_private(path, b"new"),
    "table": lambda path: write_csv(path, Table(("a",), [[1.0]])),
}


def write(path, content):
    with whole(path) as file:
        file.write(content)


@pytest.mark.parametrize("writer", WRITERS)
def test_links_that_somebody_has_planted_are_not_followed(tmp_path, writer):
    victim, folder = tmp_path / "victim", tmp_path / "folder"
    victim.write_text("precious")
    folder.mkdir()
    planted = plant_links(folder / "file", victim)
    WRITERS[writer](folder / "file")
    assert victim.read_text() == "precious"
    assert (folder / "file").is_file()
    assert not (folder / "file").is_symlink()
    assert all(path.is_symlink() for path in planted), "they are nobody's left-over"


def test_a_name_that_is_taken_is_not_written_to(tmp_path, monkeypatch):
    """Even a random name that somebody has guessed: it is made anew or not at all."""
    monkeypatch.setattr("secrets.token_hex", lambda count: "0" * 2 * count)
    victim, taken = tmp_path / "victim", tmp_path / f".file.{'0' * 16}.partial"
    victim.write_text("precious")
    taken.symlink_to(victim)
    with pytest.raises(FileExistsError):
        write(tmp_path / "file", b"new")
    assert victim.read_text() == "precious"
    assert not (tmp_path / "file").exists()


def test_private_files_are_private_from_the_first_byte(tmp_path):
    path, seen = tmp_path / "key", []
    before = os.umask(0)
    try:
        with whole(path, mode=0o600) as file:
            seen.append(os.fstat(file.fileno()).st_mode & 0o777)
        write(tmp_path / "public", b"")
    finally:
        os.umask(before)
    assert seen == [0o600]
    assert path.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "public").stat().st_mode & 0o777 == 0o666


KILLED = """
import sys, time
from dpmpc.base.storage.files import whole
with whole(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    print("writing", flush=True)
    time.sleep(60)
"""


def test_what_a_killed_process_left_is_removed_later(tmp_path):
    """And not while it is alive: a second writer of the same file leaves the first one's file alone."""
    path = tmp_path / "file"
    with subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE) as writer:
        assert writer.stdout.readline() == b"writing\n"
        (left,) = tmp_path.iterdir()
        write(path, b"of another")
        assert left.exists()
        writer.send_signal(signal.SIGKILL)
    write(path, b"later")
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
    assert path.read_bytes() == b"later"


def test_a_writer_whose_file_was_taken_for_left_over_makes_another(tmp_path, monkeypatch):
    """Between making a file and locking it somebody else removes it."""
    honest, removed = os.fstat, []

    def once(descriptor):
        if not removed:
            removed.extend(tmp_path.glob(".file.*"))
            removed[0].unlink()
        return honest(descriptor)

    monkeypatch.setattr(os, "fstat", once)
    write(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_long_name_and_a_missing_folder(tmp_path):
    write(tmp_path / ("\u00e4" * 127), b"new")
    assert len(list(tmp_path.iterdir())) == 1
    with pytest.raises(FileNotFoundError):
        write(tmp_path / "none" / "file", b"new")


def test_a_file_of_a_user_is_not_taken_for_one_of_ours(tmp_path):
    """Neither for what a killed writer has left, nor for a lock, which is removed after each turn."""
    noted, named = tmp_path / ".file.my-important-txt.partial", tmp_path / ".file.lock"
    for path in (noted, named):
        path.write_text("precious")
    write(tmp_path / "file", b"new")
    with (
        rejects("path"),
        locked(tmp_path / "file"),
    ):
        pass
    assert [path.read_text() for path in (noted, named)] == ["precious"] * 2
    named.unlink()
    os.mkfifo(named)
    with rejects("path"), locked(tmp_path / "file"):
        pass
    assert named.exists()


def test_a_hard_link_to_a_lock_gives_nobody_a_second_turn(tmp_path, monkeypatch):
    """As a backup that copies by links makes it: whoever waits then gets a file that has lost the lock's name."""
    lock, honest, left = tmp_path / ".file.lock", fcntl.flock, []

    def leave(descriptor, how):
        """The one whose turn it was removes the lock after this one has opened it."""
        if not left:
            left.append(lock)
            os.link(lock, tmp_path / "backup")
            lock.unlink()
        return honest(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", leave)
    with locked(tmp_path / "file"):
        assert lock.exists(), "the next one makes a lock of its own, and has its turn at the same time"


def test_threads_take_turns(tmp_path):
    """No increment is lost: reading, changing and writing happen in one turn."""
    path = tmp_path / "count"
    write(path, b"0")

    def count():
        for _ in range(5):
            with locked(path):
                value = int(path.read_bytes())
                time.sleep(0.001)
                write(path, str(value + 1).encode())

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_bytes() == b"20"
    assert [entry.name for entry in tmp_path.iterdir()] == ["count"]


def test_whoever_never_ends_its_turn_is_a_typed_error(tmp_path):
    refused = pytest.raises(InputError, match=r"path: .* given, which another process has used for 0\.05 s")
    with locked(tmp_path / "file"), refused, locked(tmp_path / "file", seconds=0.05):
        pass
    with locked(tmp_path / "file", seconds=0.0):
        pass


@pytest.mark.parametrize(
    ("there", "mode", "then"), [(0o600, 0o666, 0o600), (0o644, 0o600, 0o600), (0o640, 0o666, 0o640)]
)
def test_a_file_that_is_written_again_is_no_more_public_than_before(there, mode, then, tmp_path):
    path = tmp_path / "ledger.json"
    path.write_text("{}")
    path.chmod(there)
    with whole(path, mode=mode) as file:
        file.write(b"[]")
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("[]", then)

"""dpmpc.base.storage.kept: what was sent is sent again, through crashes, damage and other processes."""

import errno
import hashlib
import os
import random
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dpmpc.base.errors import BatchMismatch, InconsistentShares, InputError, SpoolError
from dpmpc.base.storage.database import connect, transaction, typed_errors
from dpmpc.base.storage.kept import KEPT_FILE, MARK_FILE, Kept, has_kept, keep_alone, require_kept
from support.rejections import blames, rejects

PURPOSE = "a" * 64
WORDS = np.arange(6, dtype=np.uint64).reshape(2, 3)
FLIPS = 400
KILLS = 12


def kept_in(folder):
    return keep_alone(folder, PURPOSE)


def content_of(folder):
    with kept_in(folder) as kept:
        return {name: kept.get(name) for name in kept.names()}


def never():
    raise AssertionError("made anew")


def test_what_was_kept_comes_back_the_same(tmp_path):
    with kept_in(tmp_path) as kept:
        assert kept.get("coin") is None
        assert kept.once("coin", lambda: b"first") == b"first"
        assert kept.once("coin", never) == b"first"
        made = kept.words("own", (2, 3), lambda: WORDS)
        assert (made.dtype, made.tolist()) == (np.uint64, WORDS.tolist())
        kept.put({"a": b"1", "b": b""})
        assert (tmp_path / KEPT_FILE).stat().st_mode & 0o777 == 0o600
    with kept_in(tmp_path) as kept:
        assert kept.once("coin", never) == b"first"
        assert np.array_equal(kept.words("own", (2, 3), never), WORDS)
        assert np.array_equal(kept.words("own", (2, 3)), WORDS)
        assert kept.names() == ["a", "b", "coin", "own", "purpose"]
        kept.put({"a": b"2"})
        kept.forget(["b", "nothing"])
        assert (kept.get("a"), kept.get("b")) == (b"2", None)
        assert kept.once("b", lambda: b"new") == b"new"


def test_words_of_another_shape_or_none_are_refused(tmp_path):
    with kept_in(tmp_path) as kept:
        with pytest.raises(SpoolError):
            kept.words("own", (2, 3))
        kept.words("own", (2, 3), lambda: WORDS)
        for make in (None, never):
            with pytest.raises(SpoolError):
                kept.words("own", (2, 2), make)


def test_the_first_commitments_count_or_the_latest(tmp_path):
    with kept_in(tmp_path) as kept:
        kept.first("release", {0: b"a" * 32, 1: b"b" * 32})
    with kept_in(tmp_path) as kept:
        kept.first("release", {0: b"a" * 32, 1: b"b" * 32})
        for number, told in ((1, {0: b"a" * 32, 1: b"c" * 32}), (2, {0: b"a" * 32, 2: b"d" * 32})):
            with blames(number, BatchMismatch):
                kept.first("release", told)
        kept.first("release", {2: b"d" * 32}, final=False)
        kept.first("release", {2: b"d" * 32, 0: b"a" * 32})
        with blames(1, InconsistentShares):
            kept.first("share", {1: b"x"}, party="server") or kept.first(
                "share", {1: b"y"}, party="server", error=InconsistentShares
            )
        kept.first("release", {1: b"c" * 32}, final=False)
        kept.first("release", {1: b"c" * 32})


def test_what_begins_is_counted_before_it_begins(tmp_path):
    for done in range(2):
        with kept_in(tmp_path) as kept:
            assert int.from_bytes(kept.get("comparisons") or b"", "little") == done
            kept.count("comparisons", 2, "each tells one bit")
    with kept_in(tmp_path) as kept:
        for _ in range(2):
            with rejects("folder"):
                kept.count("comparisons", 2, "each tells one bit")


def test_a_folder_is_for_one_process_and_one_purpose(tmp_path):
    line = "from dpmpc.base.storage.kept import keep_alone; import pathlib"
    other = f"{line}; keep_alone(pathlib.Path({str(tmp_path)!r}), 'a')"
    with kept_in(tmp_path) as kept:
        kept.put({"a": b"1"})
        with rejects("folder"):
            kept_in(tmp_path)
        ended = subprocess.run(
            [sys.executable, "-c", other, str(tmp_path)], capture_output=True, text=True, check=False
        )
        assert "which another process is using" in ended.stderr
        kept.put({"a": b"2"})
    with rejects("folder"):
        keep_alone(tmp_path, "b" * 64)
    assert content_of(tmp_path)["a"] == b"2"


def test_several_processes_take_turns_at_a_file_that_they_share(tmp_path):
    """As servers do with a ledger: one of two values is kept, and both get that one."""
    path = tmp_path / "shared.sqlite"
    first, second = (Kept(connect(path, create=True, journal="DELETE"), path) for _ in range(2))
    with first, second:
        assert first.once("seed", lambda: second.once("seed", lambda: b"theirs") and b"mine") == b"theirs"
        assert second.get("seed") == b"theirs"


def test_a_call_inside_a_transaction_is_a_part_of_it(tmp_path):
    path = tmp_path / "shared.sqlite"
    database = connect(path, create=True, journal="DELETE")
    database.execute("CREATE TABLE other (one INTEGER)")

    def fails():
        with transaction(database):
            kept.put({"a": b"1"})
            database.execute("INSERT INTO other VALUES (1)")
            assert kept.get("a") == b"1"
            raise ZeroDivisionError

    with Kept(database, path) as kept:
        with pytest.raises(ZeroDivisionError):
            fails()
        assert kept.get("a") is None
        assert database.execute("SELECT count(*) FROM other").fetchone() == (0,)


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("UPDATE kept SET value = x'00' WHERE name = 'coin'", "'coin' changed since it was kept"),
        ("UPDATE kept SET value = NULL WHERE name = 'coin'", "'coin' changed since it was kept"),
        ("UPDATE kept SET digest = x'00' WHERE name = 'coin'", "not those that were sealed"),
        ("UPDATE kept SET name = 'coim' WHERE name = 'coin'", "not those that were sealed"),
        ("DELETE FROM kept WHERE name = 'coin'", "not those that were sealed"),
        ("INSERT INTO kept VALUES ('new', x'00', x'00')", "not those that were sealed"),
        ("UPDATE kept_seal SET seal = x'00'", "not those that were sealed"),
        ("DELETE FROM kept_seal", "not those that were sealed"),
        ("INSERT INTO kept_seal SELECT seal FROM kept_seal", "not those that were sealed"),
        ("DROP TABLE kept_seal", "not those that were sealed"),
        ("DROP TABLE kept", "not those that were sealed"),
    ],
)
def test_what_changed_is_refused_and_not_replaced(tmp_path, statement, named):
    with kept_in(tmp_path) as kept:
        kept.once("coin", lambda: b"first")
    database = sqlite3.connect(tmp_path / KEPT_FILE)
    with database:
        database.execute(statement)
    database.close()
    content = (tmp_path / KEPT_FILE).read_bytes()
    refusal = rf"kept\.sqlite: damaged: .*{named}; .* nothing replaces it"
    with pytest.raises(SpoolError, match=refusal), kept_in(tmp_path) as kept:
        kept.once("coin", never)
    with pytest.raises(SpoolError, match=named), kept_in(tmp_path) as kept:
        kept.scrub()
    assert (tmp_path / KEPT_FILE).read_bytes() == content


def test_values_that_changed_places_are_refused(tmp_path):
    with kept_in(tmp_path) as kept:
        kept.put({"a": b"1", "b": b"2"})
    database = sqlite3.connect(tmp_path / KEPT_FILE)
    with database:
        database.execute(
            "UPDATE kept SET value = CASE name WHEN 'a' THEN x'32' ELSE x'31' END WHERE name IN ('a', 'b')"
        )
    database.close()
    with kept_in(tmp_path) as kept:
        for name in "ab":
            with pytest.raises(SpoolError):
                kept.get(name)


def test_any_flipped_bit_is_refused_or_harmless(tmp_path):
    with kept_in(tmp_path) as kept:
        kept.once("coin", lambda: hashlib.sha256(b"coin").digest())
        kept.words("own", (40, 10), lambda: np.arange(400, dtype=np.uint64).reshape(40, 10))
        kept.first("release", {0: b"a" * 32, 1: b"b" * 32})
        kept.count("comparisons", 2, "")
    expected, path = content_of(tmp_path), tmp_path / KEPT_FILE
    content = path.read_bytes()
    draw, refused = random.Random(5), 0
    written = [place for place in range(len(content)) if content[place]]
    for place in sorted({*draw.sample(written, FLIPS - 50), *draw.sample(range(len(content)), 50)}):
        changed = bytearray(content)
        changed[place] ^= 1 << (place % 8)
        path.write_bytes(changed)
        for left in tmp_path.glob("*-journal"):
            left.unlink()
        try:
            assert content_of(tmp_path) == expected, place
        except SpoolError:
            refused += 1
        except InputError as error:  # of a purpose that is read differently there is none
            raise AssertionError(place) from error
    assert refused > FLIPS // 2


WRITER = """
import pathlib, sys
from dpmpc.base.storage.kept import keep_alone
kept = keep_alone(pathlib.Path(sys.argv[1]), 'a' * 64)
number = int.from_bytes(kept.get('x') or b'', 'little')
while True:
    number += 1
    value = number.to_bytes(8, 'little')
    kept.put({'x': value, 'y': value, 'z': value * 2000})
    sys.stdout.buffer.write(value)
    sys.stdout.flush()
"""


def test_a_kill_leaves_all_of_a_call_or_nothing(tmp_path):
    """And what a call returned for is there: twelve processes die in the middle of writes."""
    draw = random.Random(7)
    for _ in range(KILLS):
        process = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE)
        process.stdout.read(8)
        try:
            process.wait(draw.uniform(0, 0.05))
        except subprocess.TimeoutExpired:
            process.kill()
        rest = process.stdout.read()
        process.stdout.close()
        assert process.wait() == -9
        with kept_in(tmp_path) as kept:
            kept.scrub()
            x, y, z = (kept.get(name) for name in "xyz")
        assert x == y == z[:8]
        assert z == x * 2000
        told = int.from_bytes(rest[: len(rest) // 8 * 8][-8:], "little")
        assert int.from_bytes(x, "little") >= told


def test_a_full_disk_keeps_nothing_of_a_call(tmp_path):
    with kept_in(tmp_path) as kept:
        (pages,) = kept._database.execute("PRAGMA page_count").fetchone()
        kept._database.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(SpoolError):
            kept.put({"a": b"1", "b": bytes(100_000)})
        assert kept.names() == ["purpose"]
        kept._database.execute("PRAGMA max_page_count = 1000000")
        kept.put({"a": b"1"})
    assert content_of(tmp_path)["a"] == b"1"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES])
def test_an_error_of_the_disk_says_how_much_of_it_is_free_and_what_to_do(tmp_path, number):
    for place in (tmp_path, tmp_path / "not there yet"):
        with pytest.raises(SpoolError) as failed, typed_errors(place):
            raise OSError(number, os.strerror(number))
        assert os.strerror(number) in str(failed.value)
        assert ("bytes are free on its disk: make room" in str(failed.value)) == (number != errno.EACCES)


def test_an_older_copy_is_sound_and_knows_nothing_of_what_was_sent_since(tmp_path):
    """The header says so: no seal of a file by itself can tell."""
    with kept_in(tmp_path) as kept:
        kept.put({"a": b"1"})
    older = (tmp_path / KEPT_FILE).read_bytes()
    with kept_in(tmp_path) as kept:
        kept.once("own", lambda: b"sent")
    (tmp_path / KEPT_FILE).write_bytes(older)
    with kept_in(tmp_path) as kept:
        kept.scrub()
        assert kept.get("own") is None


def test_a_folder_has_its_mark_before_anything_can_be_sent_and_keeps_it(tmp_path):
    kept_in(tmp_path).close()
    (tmp_path / MARK_FILE).unlink()  # as after a crash between the two
    kept_in(tmp_path).close()
    assert (tmp_path / MARK_FILE).stat().st_mode & 0o777 == 0o600
    before = (tmp_path / MARK_FILE).stat().st_mtime_ns
    kept_in(tmp_path).close()
    assert (tmp_path / MARK_FILE).stat().st_mtime_ns == before


@pytest.mark.parametrize("lost", ["removed", "emptied", "cleared"])
def test_a_folder_that_has_lost_its_file_is_refused_by_its_mark(tmp_path, lost):
    with kept_in(tmp_path) as kept:
        kept.put({"own": b"sent"})
    path = tmp_path / KEPT_FILE
    if lost == "removed":
        path.unlink()
    elif lost == "emptied":
        path.write_bytes(b"")
    else:
        database = sqlite3.connect(path)
        database.executescript("DROP TABLE kept; DROP TABLE kept_seal")
        database.close()
    for _ in range(2):
        with rejects("folder"):
            kept_in(tmp_path)
        assert path.exists() == (lost != "removed")
    assert not has_kept(tmp_path, "own")
    if lost == "removed":
        with rejects("folder"):
            require_kept(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_a_typed_error(tmp_path):
    folder = Path(tmp_path) / "sealed"
    folder.mkdir(mode=0o500)
    with pytest.raises(SpoolError, match="kept"):
        kept_in(folder)

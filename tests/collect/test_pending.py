"""The state file of a submission: what it keeps until the end, and that nothing of a row is left after it."""

import contextlib
import hashlib
import hmac
import os
import sqlite3
import stat

import numpy as np
import pytest

from bench.system.collection_servers import Servers
from dpmpc.collect.upload import pending as pending_module
from dpmpc.collect.upload.pending import Pending
from support.rejections import rejects


@pytest.fixture(scope="module")
def sketched(tmp_path_factory):
    return Servers.make(tmp_path_factory.mktemp("servers")).collection


def files_of(folder):
    """The content of every file of a folder, by name."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_finished_state_file_tells_nothing_about_the_rows(sketched, tmp_path, monkeypatch):
    """Every file of the folder is searched, and what SQLite unlinked: for rows, records, key and every digest."""
    wiped = []
    overwrite = pending_module._overwrite
    monkeypatch.setattr(
        pending_module, "_overwrite", lambda journal: (overwrite(journal), wiped.append(whole_file(journal)))
    )
    draw = np.random.default_rng(4)
    rows = draw.bytes(60 * 24)
    blocks = [[draw.bytes(draw.integers(40, 9000)) for _ in range(20)] for _ in range(3)]
    secrets = [content for block in blocks for content in block]
    digests = [hashlib.sha256(rows).digest(), hashlib.sha256(rows).hexdigest().encode()]
    path = tmp_path / "state"
    with Pending(path, sketched, rows, blocks, 3) as pending:
        with contextlib.closing(sqlite3.connect(path)) as database:
            key, mac = database.execute("SELECT key, rows FROM about").fetchone()
        assert hmac.digest(key, digests[0], "sha256") == mac
        assert key in path.read_bytes()  # the search below finds what is there
        assert any(content[:32] in path.read_bytes() for content in secrets)
        for server in range(3):
            for part in pending.records(server, 25):
                pending.acknowledge(server, [record.position for record in part])
        assert len(pending) == 0
    sought = [key, mac, *digests, *(secret[at : at + 12] for secret in secrets for at in (0, len(secret) // 2, -12))]
    left = [*files_of(tmp_path).values(), *wiped]
    assert list(files_of(tmp_path)) == ["state"]
    assert len(wiped) >= 9
    assert not any(content.strip(b"\0") for content in wiped)
    assert [
        secret for secret in sought if len(secret) == 12 or len(secret) > 16 for file in left if secret in file
    ] == []
    with Pending(path, sketched, b"other rows", [], 3) as again:
        assert (again.finished, again.reports, len(again)) == (True, 60, 0)


def test_a_state_file_of_another_version_is_refused_and_left_as_it_is(sketched, tmp_path):
    path = tmp_path / "state"
    with Pending(path, sketched, b"a row", [[b"a report"]], 3):
        pass
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute("PRAGMA user_version = 1")
    before = path.read_bytes()
    with rejects("state", expected="3"):
        Pending(path, sketched, b"a row", [], 3)
    assert path.read_bytes() == before


def whole_file(descriptor):
    with os.fdopen(os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY), "rb") as file:
        return file.read()


def test_two_state_files_of_one_row_have_nothing_in_common(sketched, tmp_path):
    kept = []
    for name in "ab":
        with (
            Pending(tmp_path / name, sketched, b"a row", [[b"a report"]], 3),
            contextlib.closing(sqlite3.connect(tmp_path / name)) as database,
        ):
            kept += database.execute("SELECT key, rows FROM about").fetchone()
    assert len(set(kept)) == 4
    assert {len(each) for each in kept} == {32}


def test_a_finished_state_file_still_knows_its_tickets(sketched, tmp_path):
    """Ids are random, so that their digest tells nothing of a row."""
    path, ids = tmp_path / "state", [bytes([index]) * 16 for index in range(2)]
    with Pending(path, sketched, b"rows", [[b"a report"] * 2], 3, ids) as pending:
        assert not pending.finished
        for server in range(3):
            pending.acknowledge(server, [0, 1])
    with Pending(path, sketched, b"rows", [], 3, ids) as again:
        assert again.finished
    for others in (ids[:1], [], ids[::-1]):
        with rejects("state"):
            Pending(path, sketched, b"rows", [], 3, others)


def test_a_state_file_is_its_owners_alone_before_it_holds_a_record(sketched, tmp_path):
    """Also one that was there, empty, for all to read."""
    path, seen = tmp_path / "state", []
    path.touch(0o644)

    def blocks():
        seen.append(stat.S_IMODE(path.stat().st_mode))
        yield [b"a report"]

    mask = os.umask(0)
    try:
        for name in (path, tmp_path / "new"):
            with Pending(name, sketched, b"rows", blocks(), 3):
                seen.append(stat.S_IMODE(name.stat().st_mode))
    finally:
        os.umask(mask)
    assert seen == [0o600] * 4


def test_records_are_kept_until_they_are_acknowledged(sketched, tmp_path):
    path = tmp_path / "state"
    reports = [b"%d" % index for index in range(5)]
    with Pending(path, sketched, b"rows", [reports], 3) as pending:
        pending.acknowledge(1, [0, 2])
    with Pending(path, sketched, b"rows", [[b"other"]], 3) as pending:
        left = [[record.content for part in pending.records(server, 2) for record in part] for server in range(3)]
        assert left == [reports, [reports[index] for index in (1, 3, 4)], reports]
        assert (pending.finished, pending.reports, len(pending)) == (False, 5, 13)
    with rejects("state"):
        Pending(path, sketched, b"other rows", [], 3)
    with rejects("state"):  # a door's answer is not that of each server
        Pending(path, sketched, b"rows", [], 1)

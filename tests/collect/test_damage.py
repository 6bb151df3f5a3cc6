"""Ledgers and spools whose bits change on the disk, and those of another version."""

import contextlib
import random
import shutil
import sqlite3

import numpy as np
import pytest

from dpmpc.base.errors import SpoolError
from dpmpc.base.randomness import Label
from dpmpc.base.storage.database import CHAIN_START, first_difference, link, links
from dpmpc.collect.store import store_description
from dpmpc.collect.store.blocks import checksums
from dpmpc.collect.store.ledger import ReleaseLedger, State
from dpmpc.collect.upload.report_ids import ID_TYPE
from support.collection_processes import DIGEST, batch, digest, open_spool, upload_of
from support.rejections import rejects

SUMS = np.arange(12, dtype=np.uint64).reshape(3, 4)
IDS = [number.to_bytes(16, "big") for number in range(20)]
FLIPS = 300  # in each file: with another bit of each byte in turn, and of a random choice of bytes in a long file


def flips(content, count=FLIPS, seed=1):
    """Yield the content with one bit changed, at places all over it."""
    places = range(len(content))
    if len(content) > count:
        written = [place for place in places if content[place]]
        draw = random.Random(seed)
        places = sorted(set(draw.sample(written, min(count - 50, len(written)))) | set(draw.sample(places, 50)))
    for place in places:
        changed = bytearray(content)
        changed[place] ^= 1 << (place % 8)
        yield place, bytes(changed)


def fill_ledger(folder):
    """Make a ledger with an opened, an opening and a sealed release, in small pages."""
    folder.mkdir(mode=0o700)
    database = sqlite3.connect(folder / "ledger.sqlite")
    database.execute("PRAGMA page_size = 512")
    database.execute("VACUUM")
    database.close()
    (folder / "ledger.sqlite").chmod(0o600)
    with ReleaseLedger(folder) as ledger:
        for number, name in enumerate(("opened", "opening", "sealed")):
            ledger.seal(digest(name), name, batch(*range(10 * number, 10 * number + 5)))
        for name in ("opened", "opening"):
            ledger.begin_opening(digest(name), SUMS)
        ledger.finish(digest("opened"))
        ledger.keep_seed(DIGEST, b"a seed")


def ledger_says(folder):
    """All that a server does by a ledger, from the scrub on."""
    with ReleaseLedger(folder) as ledger:
        ledger.scrub()
        releases = [
            (entry.manifest_digest, entry.manifest, entry.state, None if entry.sums is None else entry.sums.tolist())
            for entry in ledger.releases()
        ]
        batches = [ledger.batch(digest(name)).tolist() for name in ("opened", "opening", "sealed")]
        sums = [ledger.begin_opening(digest(name), SUMS + np.uint64(9)).tolist() for name in ("opened", "opening")]
        begun = ledger.begun(batch(*range(40))).tolist()
        return releases, batches, sums, begun, ledger.seed(DIGEST), ledger.seed(bytes(32))


def test_any_flipped_bit_of_a_ledger_is_harmless_or_noticed(tmp_path):
    fill_ledger(tmp_path / "ledger")
    expected = ledger_says(tmp_path / "ledger")
    file = tmp_path / "ledger" / "ledger.sqlite"
    content = file.read_bytes()
    noticed = 0
    for place, changed in flips(content):
        file.write_bytes(changed)
        try:
            assert ledger_says(tmp_path / "ledger") == expected, place
        except SpoolError:
            noticed += 1
    assert noticed > FLIPS // 2


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("UPDATE releases SET sums = zeroblob(96) WHERE number = 2", "number 2 of its 3 releases"),
        ("UPDATE releases SET manifest = 'other' WHERE number = 1", "number 1 of its 3 releases"),
        ("UPDATE releases SET state = 'sealed' WHERE number = 1", "number 1 of its 3 releases"),
        ("DELETE FROM releases WHERE number = 3", "the number or the last one of its releases"),
        ("DELETE FROM releases WHERE number = 1", "number 1 of its 2 releases"),
        ("DELETE FROM head", "the number or the last one of its releases"),
        ("UPDATE kept SET value = x'00'", "'dealing seed of collection .*' changed since it was kept"),
        ("UPDATE kept SET name = 'other'", "names or hashes are not those that were sealed"),
        ("DELETE FROM kept", "names or hashes are not those that were sealed"),
        ("DELETE FROM kept_seal", "names or hashes are not those that were sealed"),
        ("DROP TABLE kept_seal", "names or hashes are not those that were sealed"),
        ("DROP TABLE kept", "names or hashes are not those that were sealed"),
        ("DELETE FROM batches WHERE release = 1", "the reports of release"),
        ("UPDATE batches SET ids = substr(ids, 17) WHERE release = 1", "the reports of release"),
        ("UPDATE batches SET release = 2 WHERE release = 1", "the reports of release"),
        ("UPDATE batches SET release = 9 WHERE release = 1", "the reports of release"),
        ("INSERT INTO batches VALUES (9, 9, zeroblob(16))", "the release that reports belong to"),
    ],
)
def test_a_damaged_ledger_says_what_is_damaged_and_what_to_do(tmp_path, statement, named):
    fill_ledger(tmp_path / "ledger")
    database = sqlite3.connect(tmp_path / "ledger" / "ledger.sqlite")
    with database:
        database.execute(statement)
    database.close()
    with pytest.raises(SpoolError, match=named) as caught, ReleaseLedger(tmp_path / "ledger") as ledger:
        ledger.scrub()
    assert "do not restore an older copy" in str(caught.value)


def test_a_batch_whose_ids_changed_is_not_returned(tmp_path):
    fill_ledger(tmp_path / "ledger")
    with ReleaseLedger(tmp_path / "ledger") as ledger:
        ledger._database.execute("UPDATE batches SET ids = substr(ids, 17) WHERE release = 1")
        for asked in (
            lambda: ledger.batch(digest("opened")),
            lambda: ledger.begun(batch(1)),
            lambda: ledger.require_unreleased(batch(1)),
            lambda: ledger.seal(digest("other"), "{}", batch(1)),
        ):
            with pytest.raises(SpoolError):
                asked()


def test_what_was_committed_to_a_ledger_lies_in_one_file(tmp_path):
    """The damage of a log beside it would take the last commits back, and nobody could tell."""
    with ReleaseLedger(tmp_path / "ledger") as ledger:
        ledger.seal(digest("a"), "a", batch(1))
        ledger.begin_opening(digest("a"), SUMS)
        assert [path.name for path in (tmp_path / "ledger").iterdir()] == ["ledger.sqlite"]
        shutil.copytree(tmp_path / "ledger", tmp_path / "copy")
    with ReleaseLedger(tmp_path / "copy") as ledger:
        assert ledger.find(digest("a")).state is State.OPENING


def test_a_collection_has_one_dealing_seed_for_ever(tmp_path):
    with ReleaseLedger(tmp_path / "ledger") as ledger:
        assert ledger.seed(bytes(32)) is None
        assert ledger.keep_seed(bytes(32), b"first") == b"first"
        assert ledger.keep_seed(bytes(32), b"second") == b"first"
        assert ledger.keep_seed(DIGEST, b"of another") == b"of another"
    with ReleaseLedger(tmp_path / "ledger") as ledger:
        assert ledger.keep_seed(bytes(32), b"third") == b"first"
        assert ledger.seed(DIGEST) == b"of another"


def fill_spool(folder):
    """Make a store of two blocks, in small pages."""
    folder.mkdir(mode=0o700)
    with contextlib.closing(sqlite3.connect(folder / "spool.sqlite")) as database:
        database.execute("PRAGMA page_size = 512")
        database.execute("VACUUM")
    (folder / "spool.sqlite").chmod(0o600)
    with open_spool(folder, most_stored=1000) as store:
        store.add(*upload_of(IDS[:7]))
        store.add(*upload_of(IDS[7:]))
        store.close_for_good()


def spool_says(folder):
    """The reports that a server would announce, and how many it counts as damaged; their words are right."""
    with open_spool(folder, writer=False, most_stored=1000) as store:
        ids, damaged, _ = store.intact()
        found = [row.tobytes() for row in ids]
        assert set(found) <= set(IDS)
        np.testing.assert_array_equal(store.share(ids).rows(0, len(ids)), upload_of(found)[1])
        assert len(found) + damaged == len(IDS)
        return found, damaged, store.closed


def change(folder, statement, *given):
    """Change a store by hand."""
    with contextlib.closing(sqlite3.connect(folder / "spool.sqlite")) as database, database:
        database.execute(statement, given)


def change_first(folder, table, column, edit):
    """Change the first block of a table of a store."""
    with contextlib.closing(sqlite3.connect(folder / "spool.sqlite")) as database, database:
        ((value,),) = database.execute(f"SELECT {column} FROM {table} WHERE number = 0").fetchall()
        database.execute(f"UPDATE {table} SET {column} = ? WHERE number = 0", (edit(value),))


def test_any_flipped_bit_of_a_spool_is_harmless_or_noticed(tmp_path):
    folder = tmp_path / "spool"
    fill_spool(folder)
    assert spool_says(folder) == (IDS, 0, True)
    content = (folder / "spool.sqlite").read_bytes()
    counted = 0
    for place, changed in flips(content, 600):
        (folder / "spool.sqlite").write_bytes(changed)
        try:
            _, damaged, closed = spool_says(folder)
        except SpoolError:
            continue
        assert closed, place
        counted += damaged > 0
    assert counted >= 100  # the words are a third of the file, and each bit of them costs a report


def test_any_flipped_bit_brings_no_withdrawn_report_back(tmp_path):
    folder = tmp_path / "spool"
    with open_spool(folder) as store:
        store.add(*upload_of(IDS))
        store.withdraw(IDS[4:6])
        store.close_for_good()
    content = (folder / "spool.sqlite").read_bytes()
    for place, changed in flips(content):
        (folder / "spool.sqlite").write_bytes(changed)
        try:
            with open_spool(folder, writer=False) as store:
                ids, damaged, _ = store.intact()
        except SpoolError:
            continue
        assert {row.tobytes() for row in ids} <= {*IDS[:4], *IDS[6:]}, place
        assert len(IDS) - 2 <= len(ids) + damaged <= len(IDS), place


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM ids WHERE number = 0",
        "DELETE FROM words WHERE number = 0",
        "UPDATE ids SET ids = substr(ids, 2) WHERE number = 0",
        "UPDATE ids SET ids = 'text' WHERE number = 0",
        "UPDATE ids SET checksums = x'' WHERE number = 0",
        "UPDATE ids SET number = -9 WHERE number = 0",
        "UPDATE words SET number = -9 WHERE number = 0",
        "UPDATE words SET words = 'text' WHERE number = 0",
        "UPDATE words SET words = x'' WHERE number = 0",
    ],
)
def test_reports_of_a_block_that_was_lost_are_counted(tmp_path, statement):
    fill_spool(tmp_path / "spool")
    change(tmp_path / "spool", statement)
    assert spool_says(tmp_path / "spool")[:2] == (IDS[7:], 7)


def test_a_report_that_the_end_of_a_block_lost_is_counted(tmp_path):
    fill_spool(tmp_path / "spool")
    change_first(tmp_path / "spool", "words", "words", lambda words: words[:-1])
    assert spool_says(tmp_path / "spool")[:2] == (IDS[:6] + IDS[7:], 1)


def test_a_page_that_cannot_be_read_costs_its_block_alone(tmp_path):
    """What of a row has no room in its page goes on in another one, which the row names by its number."""
    folder = tmp_path / "spool"
    fill_spool(folder)
    content = bytearray((folder / "spool.sqlite").read_bytes())
    words = upload_of(IDS[7:])[1].tobytes()
    page = (content.index(words[-20:]) // 512 + 1).to_bytes(4, "big")
    inside = (at for at in range(512, len(content)) if content[at : at + 4] == page)
    named = next(at for at in inside if content[at - 9 : at] in words)
    content[named : named + 4] = (1 << 30).to_bytes(4, "big")
    (folder / "spool.sqlite").write_bytes(content)
    assert spool_says(folder)[:2] == (IDS[:7], 13)


def test_a_checksum_is_of_the_id_and_the_words(tmp_path):
    fill_spool(tmp_path / "spool")
    change_first(tmp_path / "spool", "ids", "ids", lambda ids: ids.replace(IDS[3], b"\x00" * 15 + b"\x77"))
    assert spool_says(tmp_path / "spool")[:2] == (IDS[:3] + IDS[4:], 1)


def test_a_report_that_took_the_place_of_another_is_noticed(tmp_path):
    """Each report is right by itself, and so is their number: only the sum of the checksums tells."""
    fill_spool(tmp_path / "spool")
    other = b"\x00" * 15 + b"\x77"
    sums = {name: checksums(np.array([name], ID_TYPE), upload_of([IDS[3]])[1]).tobytes() for name in (IDS[3], other)}
    change_first(tmp_path / "spool", "ids", "ids", lambda ids: ids.replace(IDS[3], other))
    change_first(tmp_path / "spool", "ids", "checksums", lambda held: held.replace(sums[IDS[3]], sums[other]))
    with open_spool(tmp_path / "spool", writer=False) as store, pytest.raises(SpoolError):
        store.intact()


@pytest.mark.parametrize(
    "field", ["closed = 0", "added = 19", "checksum = '1'", "bins = 2", "facts = ''", "seal = x''"]
)
def test_a_description_of_a_spool_that_changed_is_refused(tmp_path, field):
    fill_spool(tmp_path / "spool")
    change(tmp_path / "spool", f"UPDATE description SET {field}")
    with pytest.raises(SpoolError):
        open_spool(tmp_path / "spool", writer=False)


def test_a_spool_or_ledger_of_another_version_is_refused_and_left_as_it_is(tmp_path, monkeypatch):
    fill_ledger(tmp_path / "ledger")
    folder = tmp_path / "spool"
    fill_spool(folder)
    ledger = tmp_path / "ledger" / "ledger.sqlite"
    with contextlib.closing(sqlite3.connect(ledger)) as database, database:
        database.execute("PRAGMA user_version = 4")
    before = ledger.read_bytes()
    with rejects("folder", SpoolError):
        ReleaseLedger(tmp_path / "ledger")
    assert ledger.read_bytes() == before
    monkeypatch.setattr(store_description, "_VERSION", 7)
    for writer in (True, False):
        with rejects(str(folder), SpoolError, given="a store of version: 6", expected="7, that of this program"):
            open_spool(folder, writer=writer)
    change(folder, "DROP TABLE description")
    change(folder, "CREATE TABLE about (version INTEGER)")  # as before version 0.11
    for writer in (True, False):
        with rejects(str(folder), SpoolError, given="a store of version: an earlier one"):
            open_spool(folder, writer=writer)


def test_a_chain_depends_on_every_row_and_on_its_kind():
    rows = [(1, b"a", None), (2, b"b", "text"), (3, b"", "")]
    chain = links(Label.LEDGER, rows)
    assert chain[0] == link(Label.LEDGER, CHAIN_START, rows[0])
    assert chain[2] == link(Label.LEDGER, chain[1], rows[2])
    assert first_difference(chain, chain) is None
    for index, other in ((0, (1, b"a", "None")), (1, (2, "b", "text")), (2, (3, "", b""))):
        changed = [other if row == index else fields for row, fields in enumerate(rows)]
        assert first_difference(chain, links(Label.LEDGER, changed)) == index
    assert links(Label.SPOOL, rows)[0] != chain[0]
    assert link(Label.LEDGER, CHAIN_START, (1, 12)) != link(Label.LEDGER, CHAIN_START, (11, 2))

"""Ledgers and spools whose bits change on the disk, and those that version 0.1 has written."""

import contextlib
import json
import random
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from dpmpc.collection import spool_index, sqlite_store
from dpmpc.collection.ledger import ReleaseLedger, State
from dpmpc.collection.report_ids import ID_TYPE
from dpmpc.collection.report_store import checksums
from dpmpc.collection.server_folder import ServerFolder
from dpmpc.errors import AlreadyReleased, GuaranteeError, InputError, SpoolError
from dpmpc.randomness import Label
from dpmpc.storage.database import CHAIN_START, first_difference, link, links
from support.collection_processes import DIGEST, batch, digest, open_spool, upload_of

OLD = Path(__file__).parents[1] / "vectors" / "version_0_1"
SUMS = np.arange(12, dtype=np.uint64).reshape(3, 4)
IDS = [number.to_bytes(16, "big") for number in range(20)]
FLIPS = 300  # in each file: with another bit of each byte in turn, and of a random choice of bytes in a long file


def copied(name, tmp_path):
    """Copy a folder that version 0.1 has written, with the modes that a store asks for."""
    target = tmp_path / name
    shutil.copytree(OLD / name, target)
    for path in target.iterdir():
        path.chmod(0o600)
    target.chmod(0o700)
    return target


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
        ("DELETE FROM heads WHERE name = 'releases'", "the number or the last one of its releases"),
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
            with pytest.raises(SpoolError, match="the reports of release"):
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


def test_a_ledger_of_version_0_1_is_given_its_chain(tmp_path):
    folder = copied("ledger", tmp_path)
    for _ in range(2):
        with ReleaseLedger(folder, take_over=True) as ledger:
            ledger.scrub()
            assert [entry.state for entry in ledger.releases()] == [State.OPENED, State.OPENING, State.SEALED]
            assert [entry.manifest for entry in ledger.releases()][:2] == ['{"name": "opened"}', '{"name": "opening"}']
            np.testing.assert_array_equal(ledger.begin_opening(digest("opened"), SUMS[:1]), SUMS)
            np.testing.assert_array_equal(ledger.begin_opening(digest("opening"), SUMS[:1]), SUMS + np.uint64(1))
            np.testing.assert_array_equal(ledger.batch(digest("opening")), batch(*range(10, 15)))
            with pytest.raises(AlreadyReleased, match=r"of 30 reports, none expected .*: 10 in"):
                ledger.seal(digest("other"), "{}", batch(*range(30)))
            assert ledger.begun(batch(*range(30))).sum() == 15
            assert ledger._database.execute("PRAGMA user_version").fetchone() == (3,)
            assert not ledger._database.execute("SELECT count(*) FROM sqlite_master WHERE name = 'reports'").fetchone()[
                0
            ]


def older_ledger(folder):
    """Turn a ledger into one of version 0.2 or 0.3, with a dealing seed and a query point in chains of their own."""
    with contextlib.closing(sqlite3.connect(folder / "ledger.sqlite")) as database, database:
        for table, field, value in (("seeds", "content", b"a seed"), ("points", "point", None)):
            row = (1, DIGEST if table == "seeds" else digest("proved"), value)
            chain = link(Label.LEDGER, CHAIN_START, row)
            database.execute(
                f"CREATE TABLE {table} (number INTEGER PRIMARY KEY, collection BLOB, {field} BLOB, link BLOB)"
            )
            database.execute(f"INSERT INTO {table} VALUES (?, ?, ?, ?)", (*row, chain))
            database.execute("INSERT INTO heads VALUES (?, 1, ?)", (table, chain))


def test_a_release_that_an_older_version_has_begun_is_refused_by_name_and_nothing_is_changed(tmp_path):
    """The ledger is taken over, which ends what was under way. What it has opened counts all the same."""
    with ReleaseLedger(tmp_path / "ledger") as ledger:
        ledger.seal(digest("a"), "a", batch(1))
        ledger.begin_opening(digest("a"), SUMS)
    older_ledger(tmp_path / "ledger")
    before = (tmp_path / "ledger" / "ledger.sqlite").read_bytes()
    with ReleaseLedger(tmp_path / "ledger") as ledger:
        ledger.scrub()
        for use in (
            lambda: ledger.keep_seed(DIGEST, b"another"),
            lambda: ledger.seed(DIGEST),
            lambda: ledger.closed(digest("proved")),
            lambda: ledger.close_collection(digest("proved")),
            lambda: ledger.use_point(digest("proved"), bytes(32)),
            lambda: ledger.point(digest("proved")),
            lambda: ledger.forbid_points(digest("proved"), bytes(32)),
        ):
            with pytest.raises(GuaranteeError, match=r"was begun by version 0\.3 or older, which alone could finish"):
                use()
        assert (tmp_path / "ledger" / "ledger.sqlite").read_bytes() == before
        with pytest.raises(AlreadyReleased):
            ledger.require_unreleased(batch(1))
        assert ledger.keep_seed(bytes(32), b"of another") == b"of another"


@pytest.mark.parametrize("statement", ["UPDATE seeds SET collection = x'00'", "DELETE FROM seeds", "DROP TABLE seeds"])
def test_an_older_ledger_whose_seeds_changed_is_refused(tmp_path, statement):
    ReleaseLedger(tmp_path / "ledger").close()
    older_ledger(tmp_path / "ledger")
    with contextlib.closing(sqlite3.connect(tmp_path / "ledger" / "ledger.sqlite")) as database, database:
        database.execute(statement)
    with ReleaseLedger(tmp_path / "ledger") as ledger, pytest.raises(SpoolError, match="the ledger is damaged"):
        ledger.keep_seed(DIGEST, b"another")


def test_a_ledger_of_version_0_1_with_other_ids_is_refused_and_left_as_it_is(tmp_path):
    folder = copied("ledger", tmp_path)
    database = sqlite3.connect(folder / "ledger.sqlite")
    with database:
        database.execute("DELETE FROM reports WHERE id = x'00000000000000000000000000000001'")
    database.close()
    before = (folder / "ledger.sqlite").read_bytes()
    with pytest.raises(SpoolError, match="the reports of release"):
        ReleaseLedger(folder)
    assert (folder / "ledger.sqlite").read_bytes() == before


def of_version_0_3(tmp_path):
    """Make a ledger of what version 0.1 wrote as versions 0.2 and 0.3 kept it: chained, with a row for each report."""
    folder = copied("ledger", tmp_path)
    with contextlib.closing(sqlite3.connect(folder / "ledger.sqlite")) as database, database:
        fields = "number, digest, manifest, state, since, ids_digest, shape, sums"
        chain = links(Label.LEDGER, database.execute(f"SELECT {fields} FROM releases ORDER BY number").fetchall())
        database.execute("ALTER TABLE releases ADD COLUMN link BLOB")
        for number, one in enumerate(chain, 1):
            database.execute("UPDATE releases SET link = ? WHERE number = ?", (one, number))
        database.execute("CREATE TABLE heads (name TEXT PRIMARY KEY, length INTEGER, head BLOB) WITHOUT ROWID")
        database.execute("INSERT INTO heads VALUES ('releases', ?, ?)", (len(chain), chain[-1]))
        database.execute("PRAGMA user_version = 2")
    return folder


def test_a_ledger_of_version_0_3_is_taken_over(tmp_path):
    folder = of_version_0_3(tmp_path)
    for again in range(2):
        with ReleaseLedger(folder, take_over=not again) as ledger:
            ledger.scrub()
            assert [entry.state for entry in ledger.releases()] == [State.OPENED, State.OPENING, State.SEALED]
            np.testing.assert_array_equal(ledger.batch(digest("opening")), batch(*range(10, 15)))
            with pytest.raises(AlreadyReleased, match=r"of 30 reports, none expected .*: 10 in"):
                ledger.seal(digest("other"), "{}", batch(*range(30)))
            assert ledger.begun(batch(*range(30))).sum() == 15


def finish_releases(folder):
    """Let all releases of a ledger of version 0.3 be opened, by the collections that their manifests name."""
    with contextlib.closing(sqlite3.connect(folder / "ledger.sqlite")) as database, database:
        for number, collection in ((1, bytes(32)), (2, DIGEST), (3, digest("proved"))):
            manifest = json.dumps({"collection": collection.hex()})
            database.execute("UPDATE releases SET state = 'opened', manifest = ? WHERE number = ?", (manifest, number))
        fields = "number, digest, manifest, state, since, ids_digest, shape, sums"
        chain = links(Label.LEDGER, database.execute(f"SELECT {fields} FROM releases ORDER BY number").fetchall())
        for number, one in enumerate(chain, 1):
            database.execute("UPDATE releases SET link = ? WHERE number = ?", (one, number))
        database.execute("UPDATE heads SET head = ? WHERE name = 'releases'", (chain[-1],))


@pytest.mark.parametrize("version", ["0.1", "0.3"])
def test_an_older_ledger_with_releases_under_way_is_left_to_its_version(tmp_path, version):
    """Taken over, they could be finished by nobody, and only the older version would say so."""
    folder = copied("ledger", tmp_path) if version == "0.1" else of_version_0_3(tmp_path)
    before = (folder / "ledger.sqlite").read_bytes()
    said = r"release [0-9a-f]{16}\.\.\. is opening, release [0-9a-f]{16}\.\.\. is sealed\. .* give --take-over-ledger"
    with pytest.raises(InputError, match=said):
        ReleaseLedger(folder)
    assert (folder / "ledger.sqlite").read_bytes() == before
    server = ServerFolder(folder.parent, take_over=True)
    with pytest.raises(InputError, match=said):
        ServerFolder(folder.parent).open_ledger()
    server.open_ledger().close()
    ReleaseLedger(folder).close()


def test_an_older_ledger_with_collections_under_way_is_left_to_its_version_until_they_are_released(tmp_path):
    folder = of_version_0_3(tmp_path)
    older_ledger(folder)
    finish_releases(folder)
    with contextlib.closing(sqlite3.connect(folder / "ledger.sqlite")) as database, database:
        row = (1, digest("another"), None)
        database.execute("UPDATE points SET collection = ?, link = ?", (row[1], link(Label.LEDGER, CHAIN_START, row)))
        database.execute("UPDATE heads SET head = ? WHERE name = 'points'", (link(Label.LEDGER, CHAIN_START, row),))
    before = (folder / "ledger.sqlite").read_bytes()
    said = rf"finish: collection {digest('another').hex()[:16]}\.\.\. has its query point, or was closed for one\. N"
    with pytest.raises(InputError, match=said):
        ReleaseLedger(folder)
    assert (folder / "ledger.sqlite").read_bytes() == before


def test_an_older_ledger_whose_releases_are_all_opened_is_taken_over_by_itself(tmp_path):
    folder = of_version_0_3(tmp_path)
    older_ledger(folder)
    finish_releases(folder)
    with ReleaseLedger(folder) as ledger:
        assert ledger.begun(batch(*range(30))).sum() == 18


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("DELETE FROM reports WHERE id = x'00000000000000000000000000000001'", "the reports of release"),
        ("UPDATE reports SET release = 9 WHERE release = 1", "the release that reports belong to"),
        ("UPDATE releases SET state = 'sealed' WHERE number = 1", "number 1 of its 3 releases"),
    ],
)
def test_a_damaged_ledger_of_version_0_3_is_refused_and_left_as_it_is(tmp_path, statement, named):
    folder = of_version_0_3(tmp_path)
    with contextlib.closing(sqlite3.connect(folder / "ledger.sqlite")) as database, database:
        database.execute(statement)
    before = (folder / "ledger.sqlite").read_bytes()
    with pytest.raises(SpoolError, match=named):
        ReleaseLedger(folder)
    assert (folder / "ledger.sqlite").read_bytes() == before


def fill_spool(folder, monkeypatch):
    """Make a spool of two blocks and three segments."""
    monkeypatch.setattr(sqlite_store, "_SEGMENT_BYTES", 8 * 48)
    monkeypatch.setattr(spool_index, "_BLOCK_ENTRIES", 7)
    with open_spool(folder) as store:
        store.add(*upload_of(IDS[:7]))
        store.add(*upload_of(IDS[7:]))
        store.close_for_good()


def spool_says(folder):
    """The reports that a server would announce, and how many it counts as damaged; their words are right."""
    with open_spool(folder, writer=False) as store:
        ids, damaged = store.intact()
        found = [row.tobytes() for row in ids]
        assert set(found) <= set(IDS)
        np.testing.assert_array_equal(store.share(ids).rows(0, len(ids)), upload_of(found)[1])
        assert len(found) + damaged == len(IDS)
        return found, damaged, store.closed


@pytest.mark.parametrize("file", ["spool.sqlite", "segment-000000.npy", "segment-000002.npy"])
def test_any_flipped_bit_of_a_spool_is_harmless_or_noticed(tmp_path, monkeypatch, file):
    folder = tmp_path / "spool"
    fill_spool(folder, monkeypatch)
    assert spool_says(folder) == (IDS, 0, True)
    content = (folder / file).read_bytes()
    counted = 0
    for place, changed in flips(content):
        (folder / file).write_bytes(changed)
        try:
            _, damaged, closed = spool_says(folder)
        except SpoolError:
            continue
        assert closed, place
        assert damaged <= 1 or file.endswith("sqlite"), place
        counted += damaged
    # Each bit of a word costs one report; nothing of the header of a file does.
    assert counted >= (50 if file == "segment-000000.npy" else 1)


def test_any_flipped_bit_brings_no_withdrawn_report_back(tmp_path):
    folder = tmp_path / "spool"
    with open_spool(folder) as store:
        store.add(*upload_of(IDS))
        store.withdraw([*IDS[4:6], b"\x07" * 16])
        store.close_for_good()
    content = (folder / "spool.sqlite").read_bytes()
    for place, changed in flips(content):
        (folder / "spool.sqlite").write_bytes(changed)
        try:
            with open_spool(folder, writer=False) as store:
                ids, damaged = store.intact()
        except SpoolError:
            continue
        assert {row.tobytes() for row in ids} <= {*IDS[:4], *IDS[6:]}, place
        assert len(IDS) - 2 <= len(ids) + damaged <= len(IDS), place


def test_a_report_that_is_damaged_or_lost_is_counted(tmp_path, monkeypatch):
    fill_spool(tmp_path / "spool", monkeypatch)
    (tmp_path / "spool" / "segment-000001.npy").unlink()
    assert spool_says(tmp_path / "spool")[:2] == (IDS[:8] + IDS[16:], 8)
    with (tmp_path / "spool" / "segment-000000.npy").open("r+b") as file:
        file.truncate(128 + 48 * 3 + 7)
    assert spool_says(tmp_path / "spool")[:2] == (IDS[:3] + IDS[16:], 13)


def change_block(folder, change):
    """Change the entries of the first block of a spool's index by hand."""
    with contextlib.closing(sqlite3.connect(folder / "spool.sqlite")) as database, database:
        (entries,) = database.execute("SELECT entries FROM blocks WHERE position = 0").fetchone()
        database.execute("UPDATE blocks SET entries = ? WHERE position = 0", (change(entries),))


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM blocks WHERE position = 0",
        "UPDATE blocks SET entries = substr(entries, 2) WHERE position = 0",
        "UPDATE blocks SET entries = 'text' WHERE position = 0",
        "UPDATE blocks SET position = -9 WHERE position = 0",
        "UPDATE blocks SET position = 1 << 62 WHERE position = 0",
        "UPDATE blocks SET position = 100 WHERE position = 0",
    ],
)
def test_reports_that_the_index_lost_are_not_passed_over(tmp_path, monkeypatch, statement):
    fill_spool(tmp_path / "spool", monkeypatch)
    with contextlib.closing(sqlite3.connect(tmp_path / "spool" / "spool.sqlite")) as database, database:
        database.execute(statement)
    assert spool_says(tmp_path / "spool")[:2] == (IDS[7:], 7)


def test_a_report_that_the_end_of_a_block_lost_is_not_passed_over(tmp_path, monkeypatch):
    fill_spool(tmp_path / "spool", monkeypatch)
    change_block(tmp_path / "spool", lambda entries: entries[:-24])
    assert spool_says(tmp_path / "spool")[:2] == (IDS[:6] + IDS[7:], 1)


@pytest.mark.parametrize("change", ["entries = substr(entries, 2)", "position = 1 << 62", "position = -9"])
def test_reports_that_come_after_damage_to_the_last_block_are_kept(tmp_path, change):
    """What is acknowledged is neither added to a block that cannot be read, nor put where none is looked for."""
    with open_spool(tmp_path / "spool") as store:
        store.add(*upload_of(IDS[:7]))
    with contextlib.closing(sqlite3.connect(tmp_path / "spool" / "spool.sqlite")) as database, database:
        database.execute(f"UPDATE blocks SET {change}")
    with open_spool(tmp_path / "spool") as store:
        store.add(*upload_of(IDS[7:]))
    assert spool_says(tmp_path / "spool")[:2] == (IDS[7:], 7)


def test_a_checksum_is_of_the_id_and_the_words(tmp_path, monkeypatch):
    fill_spool(tmp_path / "spool", monkeypatch)
    change_block(tmp_path / "spool", lambda entries: entries.replace(IDS[3], b"\xff" * 16))
    assert spool_says(tmp_path / "spool")[:2] == (IDS[:3] + IDS[4:], 1)


def test_a_report_that_took_the_place_of_another_breaks_the_chain(tmp_path, monkeypatch):
    """Each report is right by itself, and so is their number: only the chain tells."""
    fill_spool(tmp_path / "spool", monkeypatch)
    other = b"\x07" * 16

    def entry(report):
        return report + checksums(np.array([report], ID_TYPE), upload_of([IDS[3]])[1]).tobytes()

    change_block(tmp_path / "spool", lambda entries: entries.replace(entry(IDS[3]), entry(other)))
    with (
        open_spool(tmp_path / "spool", writer=False) as store,
        pytest.raises(SpoolError, match=r"20 reports are not the 20 .* Restore spool/"),
    ):
        store.intact()


@pytest.mark.parametrize("field", ["closed = 0", "count = 19", "chain = 1", "segment_rows = 4", "seal = x'00'"])
def test_a_description_of_a_spool_that_changed_is_refused(tmp_path, monkeypatch, field):
    fill_spool(tmp_path / "spool", monkeypatch)
    database = sqlite3.connect(tmp_path / "spool" / "spool.sqlite")
    with database:
        database.execute(f"UPDATE about SET {field}")
    database.close()
    with pytest.raises(SpoolError, match="its description changed; nothing was sent"):
        open_spool(tmp_path / "spool", writer=False)


@pytest.mark.parametrize("writer", [True, False])
@pytest.mark.parametrize("begun_by", ["0.1", "0.2 or 0.3"])
def test_a_spool_of_an_older_version_is_refused_by_name_and_left_as_it_is(tmp_path, writer, begun_by):
    """The version that began it has to be able to finish: it refuses a spool that was taken over."""
    folder = copied("spool", tmp_path)

    def content():
        with contextlib.closing(sqlite3.connect(folder / "spool.sqlite")) as database:
            return list(database.iterdump())

    if begun_by != "0.1":
        with contextlib.closing(sqlite3.connect(folder / "spool.sqlite")) as database, database:
            database.execute("UPDATE about SET version = 2")
    before = content()
    with pytest.raises(SpoolError, match=f"begun by version {begun_by} of dpmpc; nothing was changed: finish"):
        open_spool(folder, writer=writer)
    assert content() == before


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

"""The task file of a collection, and the records of its uploads."""

import contextlib
import datetime
import json
import math
import sqlite3
import ssl
import stat
import subprocess
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest

from dpmpc.app.cli.main import main
from dpmpc.base.errors import CollectionClosed, GuaranteeError, InputError, ReportRejected, TooFewClients
from dpmpc.base.randomness import Stream
from dpmpc.collect.store.state import require_open, state_of
from dpmpc.collect.terms.collection_design import CollectionTerms, design_collection
from dpmpc.collect.terms.server_entries import ServerEntry
from dpmpc.collect.terms.task_file import Collection
from dpmpc.collect.upload.pending import Pending
from dpmpc.collect.upload.report_ids import ID_BYTES
from dpmpc.collect.upload.reports import ReportFormat, make_reports
from dpmpc.data import Schema
from dpmpc.linear.sharing.batch import ArrayShare
from dpmpc.parties.network.identity import write_identity
from dpmpc.privacy.specification import Budget, taken
from dpmpc.release.client import Client
from support.rejections import rejects
from support.report_words import words_of
from support.seal_keys import a_key

UTC = datetime.UTC
OPENS = datetime.datetime(2027, 1, 1, tzinfo=UTC)
CLOSES = datetime.datetime(2027, 2, 1, tzinfo=UTC)
EXPIRES = datetime.datetime(2027, 3, 1, tzinfo=UTC)
TOSS = bytes(range(32))
HOUR = datetime.timedelta(hours=1)


@pytest.fixture(scope="module")
def entries(tmp_path_factory):
    folder = tmp_path_factory.mktemp("identities")
    certificates = [write_identity(folder / str(party), party, datetime.timedelta(days=2)) for party in range(4)]
    return tuple(
        ServerEntry(
            f"https://server-{party}.example",
            f"server-{party}.example:6000",
            f"server-{party}.example:7000",
            certificate.decode(),
            (a_key(),),
        )
        for party, certificate in enumerate(certificates)
    )


def designed(entries, servers=3, **options):
    fields = {"opens": OPENS, "closes": CLOSES, "expires": EXPIRES, "minimum_batch": 2000, "largest_batch": 100_000}
    fields |= {"name": "a trial", "servers": entries[:servers], **options}
    if fields.get("noise_by", "clients") == "clients":
        fields = {"noise_by": "clients", "corrupt_clients": 0} | fields
    schema = Schema.from_pair(["a", "b", "y"], (0.0, 10.0))
    return design_collection(taken(CollectionTerms, fields), schema, Budget(1.0, 1e-6), **fields)


@pytest.mark.parametrize("proved", [None, False, True])
def test_a_collection_by_group_is_refused(entries, proved):
    with rejects("by", given="'a'"):
        designed(entries, noise_by="servers", by="a", proved=proved)


@pytest.fixture(scope="module")
def sketched(entries):
    return designed(entries, sketch="osnap", rows=50, sparsity=4)


@pytest.fixture(scope="module", params=["one copy", "each copy", "sum", "shamir", "servers", "field"])
def collection(request, entries):
    options = {
        "one copy": {"sketch": "osnap", "rows": 50, "copies": "one"},
        "each copy": {"sketch": "osnap", "rows": 50, "copies": "each"},
        "sum": {},
        "shamir": {"sharing": "shamir"},
        "servers": {"noise_by": "servers", "sketch": "countsketch", "rows": 20, "proved": False},
        "field": {"ring": "mersenne61"},
    }
    return designed(entries, servers=4 if request.param == "shamir" else 3, **options[request.param])


def test_the_file_says_it_all(collection, tmp_path):
    collection.save(tmp_path / "collection.json")
    again = Collection.load(tmp_path / "collection.json")
    assert again == collection
    assert again.digest == collection.digest
    assert again.plan.digest == collection.plan.digest
    again.verify()


def test_the_digest_is_that_of_the_content(sketched, tmp_path):
    sketched.save(tmp_path / "collection.json")
    text = (tmp_path / "collection.json").read_text()
    moved = Collection.from_dict({**sketched.to_dict(), "closes": CLOSES.astimezone(datetime.timezone(HOUR))})
    assert moved.closes.utcoffset() == HOUR
    assert moved.digest == sketched.digest  # the same moment
    (tmp_path / "later.json").write_text(text.replace("2027-02-01", "2027-02-02"))
    assert Collection.load(tmp_path / "later.json").digest != sketched.digest


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"format": 2}, "collection"),
        ({"minimum_batch": 0}, "minimum_batch, largest_batch"),
        ({"largest_batch": 10}, "minimum_batch, largest_batch"),
        ({"largest_batch": 2_000_000}, "delta"),
        ({"closes": "2026-01-01T00:00:00Z"}, "opens, closes, expires"),
        ({"opens": "2026-01-01T00:00:00"}, "opens"),
        ({"extra": 1}, "collection"),
        ({"servers": []}, "servers"),
        ({"authenticated": "no"}, "collection"),
        ({"expires": "9999-12-31T23:00:00-12:00"}, "time"),
        ({"name": " "}, "name"),
    ],
)
def test_a_wrong_field_is_named(sketched, change, argument):
    fields = json.loads(json.dumps(sketched.to_dict(), default=lambda time: time.isoformat()))
    with rejects(argument):
        Collection.from_dict({**fields, **change})


def texts_of(fields, path=()):
    """The place of every text in plain data."""
    if isinstance(fields, str):
        yield path
    for key, value in fields.items() if isinstance(fields, dict) else enumerate(fields if path else ()):
        if isinstance(value, str | dict | list):
            yield from texts_of(value, (*path, key)) if not isinstance(value, str) else [(*path, key)]


def test_half_a_surrogate_pair_is_refused_in_every_text_and_key(sketched):
    """No file and no digest could hold it."""
    plain = json.dumps(sketched.to_dict(), default=lambda time: time.isoformat())
    places = list(texts_of(json.loads(plain)))
    assert {("name",), ("servers", 0, "url"), ("task", "sharing")} <= set(places)
    for place in places:
        fields = inner = json.loads(plain)
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] += "\ud800"
        with pytest.raises(InputError):
            Collection.from_dict(fields)
    for fields in (json.loads(plain) | {"\ud800": 1}, json.loads(plain) | {"task": {"\udfff": 1}}):
        with rejects("collection"):
            Collection.from_dict(fields)


@pytest.mark.parametrize("change", [{"name": "a trial\udcff"}, {"url": "https://a\udcff.example"}])
def test_what_a_command_makes_of_bytes_that_are_no_text_is_refused(sketched, change):
    entry = sketched.servers[0]
    if "url" in change:
        change = {"servers": (msgspec.structs.replace(entry, **change), *sketched.servers[1:])}
    with pytest.raises(InputError, match=r"name: |servers: url"):
        msgspec.structs.replace(sketched, **change)


@pytest.mark.parametrize("sigma", [math.inf, math.nan])
def test_an_infinite_noise_is_named(sketched, sigma):
    fields = sketched.to_dict()
    fields["task"] = {**fields["task"], "noise": {**fields["task"]["noise"], "sigma": sigma}}
    with rejects("task", expected="finite numbers"):
        Collection.from_dict(fields).verify()


@pytest.mark.parametrize("url", ["a:1", "a:x", "[::1", "me:secret@a", "a?q", "a#f", "a/path", "a/", "", "a b", "a\n"])
def test_an_address_to_upload_to_is_a_host_and_a_port(sketched, url):
    fields = sketched.to_dict()
    fields["servers"] = [{**fields["servers"][0], "url": f"https://{url}"}, *fields["servers"][1:]]
    if url == "a:1":
        assert Collection.from_dict(fields).servers[0].url == "https://a:1"
    else:
        with rejects("servers", expected="https://HOST[:PORT]"):
            Collection.from_dict(fields)


def test_addresses_are_those_to_connect_to():
    entry = ServerEntry("https://A.example", "A.example:6000", "[::1]:7000", "", ())
    assert entry.web_address == ("a.example", 443)
    assert (entry.peer_address, entry.release_address) == (("a.example", 6000), ("::1", 7000))


@pytest.mark.parametrize("field", ["peers", "release"])
@pytest.mark.parametrize("place", ["", "a.example", ":7000", "a.example:", "a.example:0", "a.example:65536", "a:x"])
def test_places_for_servers_are_a_host_and_a_port(sketched, field, place):
    fields = sketched.to_dict()
    fields["servers"] = [{**fields["servers"][0], field: place}, *fields["servers"][1:]]
    with rejects("servers", expected="HOST:PORT"):
        Collection.from_dict(fields)


def test_where_proxies_answer_success_is_on_their_word(sketched):
    assert sketched.proxies == ""
    for proxied, told in (([1], "server 1,"), ([0, 2], "servers 0, 2,")):
        fields = sketched.to_dict()
        for number in proxied:
            fields["servers"][number] = {**fields["servers"][number], "public_certificate": True}
        assert told in Collection.from_dict(fields).proxies


def test_clients_pin_the_certificate_or_trust_public_authorities(entries):
    context, name = entries[2].trusted_by_clients(2)
    assert (name, len(context.get_ca_certs()), context.verify_mode) == ("party-2", 0, ssl.CERT_REQUIRED)
    public = msgspec.structs.replace(entries[2], public_certificate=True)
    context, name = public.trusted_by_clients(2)
    assert (name, context.check_hostname, context.verify_mode) == (None, True, ssl.CERT_REQUIRED)


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"url": "https://SERVER-1.example:443"}, "servers"),
        ({"peers": "SERVER-1.example:6000"}, "servers"),
        ({"release": "Server-1.example:7000"}, "servers"),
    ],
)
def test_servers_have_addresses_of_their_own(sketched, change, argument):
    fields = sketched.to_dict()
    fields["servers"] = [{**fields["servers"][0], **change}, *fields["servers"][1:]]
    with rejects(argument):
        Collection.from_dict(fields)


@pytest.mark.parametrize("simulation", [0, []])
def test_a_simulation_is_false_or_refused(sketched, simulation):
    fields = sketched.to_dict()
    fields["task"] = {**fields["task"], "simulation": simulation}
    with rejects("task"):
        Collection.from_dict(fields)


def test_a_task_file_is_written_whole_or_not_at_all(sketched, tmp_path):
    script = (
        "import sys; from dpmpc.collect.terms.task_file import Collection as C; C.load(sys.argv[1]).save(sys.argv[2])"
    )
    sketched.save(tmp_path / "whole.json")
    words = ["sh", "-c", 'ulimit -f 1; exec "$@"', "-", sys.executable, "-c", script, "whole.json", "copy.json"]
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "InputError: collection: copy.json cannot be written" in ended.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["whole.json"]


def test_a_certificate_stands_for_its_server_only(sketched):
    fields = sketched.to_dict()
    fields["servers"] = [fields["servers"][0]] * 3
    with rejects("certificate of server 1", given="names ['party-0']"):
        Collection.from_dict(fields)


def test_a_simulation_is_refused(sketched):
    fields = sketched.to_dict()
    fields["task"] = {**fields["task"], "simulation": True}
    with rejects("task", given="simulation = true"):
        Collection.from_dict(fields)


def test_too_little_noise_is_refused(sketched):
    fields = sketched.to_dict()
    noise = fields["task"]["noise"]
    fields["task"] = {**fields["task"], "noise": {**noise, "sigma": noise["sigma"] * 0.9}}
    with pytest.raises(GuaranteeError):
        Collection.from_dict(fields).verify()


@pytest.mark.parametrize(
    "options", [{"rows": 12, "sparsity": 2, "copies": "each"}, {"rows": 8, "copies": "one"}], ids=["each", "one"]
)
def test_noise_suffices_for_other_matrices_too(entries, options):
    """Matrices of few clients differ: noise for the first one alone would not do for every fourth."""
    for name in range(12):
        opens = OPENS + datetime.timedelta(minutes=name)
        collection = designed(entries, sketch="osnap", minimum_batch=200, opens=opens, **options)
        assert collection.task(200, bytes([name]) * 32).guarantee.achieved_epsilon <= 1.0


def test_the_batch_decides_the_task(collection):
    task = collection.task(2500, TOSS)
    assert task.clients == 2500
    assert task.noise == collection.plan.noise
    assert task.guarantee.achieved_epsilon <= 1.0
    assert collection.task(2500, TOSS).digest == task.digest
    if task.sketch.rows > 1:
        assert collection.task(2500, bytes(32)).digest != task.digest


def test_too_few_and_too_many_clients_are_refused(collection):
    with rejects("clients", TooFewClients, expected="at least 2000"):
        collection.task(1999, TOSS)
    with rejects("clients", given="100001"):
        collection.task(100_001, TOSS)


def test_times_are_kept(sketched):
    minute = datetime.timedelta(minutes=1)
    for moment in (OPENS, CLOSES - minute):
        require_open(sketched, state_of(sketched, moment), moment)
    for moment in (OPENS - minute, CLOSES):
        with pytest.raises(CollectionClosed):
            require_open(sketched, state_of(sketched, moment), moment)
    sketched.require_unexpired(EXPIRES - minute)
    with rejects("collection 'a trial'", CollectionClosed):
        sketched.require_unexpired(EXPIRES)


def some_reports(collection, count=5):
    rows = np.linspace(0, 10, 3 * count).reshape(count, 3)
    ids = [bytes([index]) * 16 for index in range(count)]
    return ids, rows, make_reports(Client(collection.plan.verify(), Stream.from_os()), collection, rows, ids)


def test_servers_decode_shares_of_the_rows(collection):
    ids, rows, records = some_reports(collection)
    forms = [ReportFormat(collection, server) for server in range(len(records))]
    decoded = [form.decode(b"".join(own)) for form, own in zip(forms, records, strict=True)]
    assert all(found == ids for found, _ in decoded)
    task = collection.plan
    shares = [form.share(ArrayShare(kept, form.stored_ring)) for form, (_, kept) in zip(forms, decoded, strict=True)]
    words = [share.rows(0, len(ids)) for share in shares]
    slowly = [words_of(form, b"".join(own)) for form, own in zip(forms, records, strict=True)]
    for share, found, expected in zip(shares, words, slowly, strict=True):
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(share.rows(1, 3), expected[1:4])
    opened = task.encoding.ring.lift(task.scheme.combine(words))
    if collection.checked_dealing:
        masks, opened = opened[:, 0, -1], opened[:, 0, :-1].reshape(len(rows), task.copies, -1)
        assert len(set(masks.tolist())) == len(rows)
        assert np.abs(masks).max() > 2**50
    exact = Client(task.verify()).encode(rows)[:, None, :]
    noise = opened - exact
    assert np.abs(noise).max() < 20 * task.noise.sigma
    assert noise.any() if task.noising.by == "clients" else not noise.any()


def test_a_record_for_a_key_server_is_an_id_and_a_key(collection):
    _, _, records = some_reports(collection)
    copies, width = collection.record_shape
    sizes = [len(own[0]) for own in records]
    words = 16 + 8 * copies * width
    assert sizes == ([words] * 4 if collection.plan.sharing == "shamir" else [32, 32, words])


def test_words_that_are_not_canonical_are_rejected(entries):
    field = designed(entries, ring="mersenne61")
    form = ReportFormat(field, 2)
    payload = np.full(field.record_shape, 2**61 - 1, "<u8").tobytes()
    with rejects("body", ReportRejected, given="an element that is not canonical"):
        form.decode(bytes(16) + payload)


TEXTS = {"purpose": "How long people wait.", "contact": "Dr. Ada, ada@clinic.example"}


def test_texts_for_people_are_part_of_a_collection_and_nothing_where_there_are_none(entries, tmp_path):
    """They change the digest; without them it is what it was before there were such texts."""
    silent, speaking = designed(entries), designed(entries, **TEXTS)
    assert not TEXTS.keys() & json.loads(silent.content).keys()
    assert silent.digest != speaking.digest
    speaking.save(tmp_path / "survey.json")
    assert Collection.load(tmp_path / "survey.json") == speaking
    assert (speaking.purpose, speaking.contact) == tuple(TEXTS.values())


@pytest.mark.parametrize("what", TEXTS)
@pytest.mark.parametrize("text", ["x" * 2001, " why", "why\n", "\ud800"], ids=["long", "before", "after", "no text"])
def test_a_text_for_people_that_cannot_be_shown_is_refused(entries, what, text):
    with rejects(what):
        designed(entries, **{what: text})
    assert getattr(designed(entries, **{what: "x" * 2000}), what)


def test_known_answers():
    """A record decodes alike everywhere; tests/references/reports.py computes the vectors another way."""
    vectors = json.loads((Path(__file__).parents[1] / "vectors" / "reports.json").read_text())
    collection = Collection.from_dict(vectors["collection"])
    assert collection.digest.hex() == vectors["digest"]
    for case in vectors["good"]:
        form, body = ReportFormat(collection, case["server"]), bytes.fromhex(case["body"])
        ids, kept = form.decode(body)
        assert [found.hex() for found in ids] == case["ids"]
        records = [body[start : start + form.record_bytes] for start in range(0, len(body), form.record_bytes)]
        assert [row.tobytes() for row in kept] == [record[ID_BYTES:] for record in records]  # as they were sent
        words = form.share(ArrayShare(kept, form.stored_ring)).rows(0, len(ids))
        assert words.tolist() == case["words"] == words_of(form, body).tolist()
    for case in vectors["bad"]:
        with pytest.raises(ReportRejected):
            ReportFormat(collection, case["server"]).decode(bytes.fromhex(case["body"]))


def test_the_commands_of_whoever_begins(tmp_path, capsys):
    (tmp_path / "bounds.toml").write_text("[columns.a]\nlower = 0\nupper = 1\n[columns.y]\nlower = 0\nupper = 1\n")
    servers = []
    for party in range(3):
        assert main(["identity", str(tmp_path / f"{party}"), "--server", str(party)]) == 0
        certificate = str(tmp_path / f"{party}" / "party.crt")
        assert main(["identity", str(tmp_path / f"seals-{party}"), "--seal", "trial"]) == 0
        servers += ["--server", f"https://s{party}.example", f"s{party}.example:7443", f"s{party}.example:7444"]
        servers += [certificate]
        servers += ["--seal", str(tmp_path / f"seals-{party}" / "trial.pub")]
    times = ["--opens", "2027-01-01T00:00Z", "--closes", "2027-02-01T00:00Z", "--expires", "2027-03-01T00:00Z"]
    budget = ["--epsilon", "1", "--delta", "1e-6", "--minimum-batch", "1000", "--largest-batch", "100000"]
    texts = ["--purpose", "How long people wait.", "--contact", " ada@clinic.example"]
    plain = ["--name", "a trial", *texts, "--bounds", str(tmp_path / "bounds.toml"), *servers, *times, *budget]
    capsys.readouterr()

    def write(name, *options):
        status = main(["collection", str(tmp_path / name), *plain, *options])
        return status, capsys.readouterr()

    status, told = write("open.json")
    assert status == 0
    assert "(1, 1e-06)-differential privacy for each of 1,000 clients" in told.out
    assert "server that denies reports" not in told.err
    assert "noise: discrete-gaussian" in told.out
    assert "from each server in every sum" in told.out
    assert "certificate of server" not in told.err
    late = write("late.json", "--closes", "2090-01-01T00:00Z", "--expires", "2090-02-01T00:00Z")[1]
    assert [f"certificate of server {party} ends 20" in late.err for party in range(3)] == [True] * 3
    assert write("open.json")[0] == 2  # never overwritten
    assert main(["inspect", str(tmp_path / "open.json")]) == 0
    told = capsys.readouterr().out
    assert Collection.load(tmp_path / "open.json").digest.hex() in told
    assert "omission: a server that denies reports chooses whose reports are summed" in told
    assert "purpose: How long people wait.\ncontact: ada@clinic.example\n" in told

    digest = Collection.load(tmp_path / "open.json").digest
    names = ("--organisation", "2", "Statistics Office", "--organisation", "0", " Clinic of Ada ")
    assert write("named.json", *names)[0] == 0
    named = Collection.load(tmp_path / "named.json")
    assert [server.organisation for server in named.servers] == ["Clinic of Ada", "", "Statistics Office"]
    assert named.digest != digest
    assert b'"organisation"' not in Collection.load(tmp_path / "open.json").content  # as if there were no such field
    assert named.content.count(b'"organisation"') == 2
    assert main(["inspect", str(tmp_path / "named.json")]) == 0
    assert "  run by Statistics Office, as the task file states\n" in capsys.readouterr().out
    for wrong in (("3", "A"), ("-1", "A"), ("one", "A"), ("0", " "), (*names[1:3], *names[:3])):
        status, told = write("wrong.json", "--organisation", *wrong)
        assert status == 2
        assert "organisation: " in told.err
        assert "each server from 0 to 2 once at most, and a name expected" in told.err
    for wrong in ("x" * 201, "\ud800"):
        status, told = write("wrong.json", "--organisation", "1", wrong)
        assert status == 2
        assert "servers: organisation of server 1: " in told.err
    assert not (tmp_path / "wrong.json").exists()

    status, told = write("guess.json", "--noise-by", "clients")
    assert status == 2
    assert "--corrupt-clients: none given" in told.err
    assert "how many of any 1000 reports" in told.err
    status, told = write("shamir.json", "--sharing", "shamir")
    assert status == 2
    assert "--noise-by: none given with Shamir shares" in told.err
    stated = ("--noise-by", "clients", "--corrupt-clients", "100")
    for name, options, words in (("many", (), True), ("roster", ("--authenticated",), False)):
        status, told = write(f"{name}.json", *stated, *options)
        assert status == 0
        assert "if at most 100 of any 1000 reports are of people who work with a server" in told.err
        assert ("one person can be many clients" in told.err) is words
    assert main(["inspect", str(tmp_path / "many.json")]) == 0
    told = capsys.readouterr().out
    assert "the noise of 900 of 1,000 clients is counted on" in told
    assert "at most 100 of exactly these 1,000 clients give away their noise or add none" in told


@pytest.mark.parametrize("kind", ["text", "other"])
def test_a_file_of_something_else_is_no_state_and_stays_as_it_is(sketched, tmp_path, kind):
    path = tmp_path / "theirs"
    if kind == "text":
        path.write_text("dear diary, " * 100)
    else:
        with contextlib.closing(sqlite3.connect(path)) as database:
            database.execute("CREATE TABLE about (whom TEXT)")
    path.chmod(0o644)
    before = path.read_bytes()
    with rejects("state"):
        Pending(path, sketched, b"rows", [], 3)
    assert path.read_bytes() == before
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_an_empty_file_becomes_a_state_of_its_owner_alone(sketched, tmp_path):
    path = tmp_path / "ours"
    path.touch(0o644)
    for _ in range(2):
        with Pending(path, sketched, b"rows", [[b"a report"]], 3) as pending:
            assert len(pending) == 3
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


REFUSING = Schema(Schema.from_pair(["a", "b", "y"], (0.0, 10.0)).columns, outside="refuse")


def test_a_collection_clips(sketched, entries, tmp_path, capsys):
    """A report that does not come would tell every server that a value lies outside its bounds."""
    terms = CollectionTerms(
        name="a trial",
        servers=entries[:3],
        opens=OPENS,
        closes=CLOSES,
        expires=EXPIRES,
        minimum_batch=2000,
        largest_batch=100_000,
    )
    with rejects("outside", expected="'clip'"):
        design_collection(terms, REFUSING, Budget(1.0, 1e-6))
    fields = sketched.to_dict()
    with rejects("outside", expected="'clip'"):
        Collection.from_dict({**fields, "task": {**fields["task"], "schema": REFUSING.to_dict()}})
    sketched.save(tmp_path / "task.json")
    assert main(["inspect", str(tmp_path / "task.json")]) == 0
    assert "values outside the bounds are clipped to them" in capsys.readouterr().out

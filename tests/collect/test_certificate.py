"""The certificate of a release: every claim in the file is checked, and no change of it goes unnoticed."""

import copy
import datetime
import hashlib
import io
import json
import math
import zipfile

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpmpc.app.cli.main import main
from dpmpc.base.errors import InputError, VerificationFailed
from dpmpc.collect.opening.agreement import batch_digest
from dpmpc.collect.terms import certificate as certificates
from dpmpc.collect.terms.certificate import Manifest, Statement, require_same, save
from dpmpc.collect.terms.task_file import Collection
from dpmpc.collect.terms.verifying import verify
from dpmpc.parties.network.identity import sign, write_identity
from dpmpc.release.release import Release
from dpmpc.release.release_file import alike
from support.certified_releases import certify
from support.rejections import rejects

MEMBERS = ["release.json", "sums.npy", "certificate.json"]


@pytest.fixture(scope="module")
def certified(tmp_path_factory):
    return certify(tmp_path_factory.mktemp("additive"), 3, [])


@pytest.fixture(scope="module")
def shamir(tmp_path_factory):
    return certify(tmp_path_factory.mktemp("shamir"), 4, [1], sharing="shamir")


def plain(record):
    return msgspec.to_builtins(record)


def refusal(certified, tmp_path, fields=None, members=None):
    """Write a file with these fields in its certificate, or these members; return why it does not pass."""
    with zipfile.ZipFile(certified.path) as archive:
        contents = {name: archive.read(name) for name in MEMBERS}
    if fields is not None:
        contents["certificate.json"] = json.dumps(fields).encode()
    path = tmp_path / "changed.dpmpc"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in {**contents, **(members or {})}.items():
            if content is not None:
                archive.writestr(name, content)
    with pytest.raises(VerificationFailed) as failure:
        verify(path)
    return str(failure.value)


def test_a_sound_file_passes(certified, shamir):
    for one in (certified, shamir):
        verified = verify(one.path, one.trial.collection)
        assert verified.collection == one.trial.collection
        np.testing.assert_array_equal(verified.release.sums, one.release.sums)
        assert len(verified.checks) == 9
    assert "of servers 0, 2, 3 under" in "".join(verified.checks)


def test_the_task_file_in_it_is_told_to_be_trusted(certified, shamir):
    assert "TRUSTED" in verify(certified.path).checks[1]
    with rejects("collection", VerificationFailed):
        verify(certified.path, shamir.trial.collection)


def test_a_release_without_certificate_still_loads_and_does_not_pass(certified, tmp_path):
    certified.release.save(tmp_path / "plain.dpmpc")
    np.testing.assert_array_equal(Release.load(tmp_path / "plain.dpmpc").sums, certified.release.sums)
    np.testing.assert_array_equal(Release.load(certified.path).sums, certified.release.sums)
    with rejects("file", VerificationFailed):
        verify(tmp_path / "plain.dpmpc")


def test_the_same_release_is_the_same_file(certified, tmp_path):
    save(certified.release, certified.certificate, tmp_path / "again.dpmpc")
    assert (tmp_path / "again.dpmpc").read_bytes() == certified.path.read_bytes()


def content_of(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in MEMBERS}


@pytest.mark.parametrize("member", ["release.json", "certificate.json"])
def test_a_key_that_is_given_twice_is_refused_whatever_it_says(certified, tmp_path, member):
    """Another reader may go by the first of them, which nobody has compared with anything."""
    sound = content_of(certified.path)[member]
    name, value = next(iter(json.loads(sound).items()))
    first, nested = json.dumps({name: value}).encode()[:-1] + b",", b'"clients": 999999, "clients":'
    for evil in (first + sound[1:], sound.replace(b'"clients":', nested, 1)):
        assert evil != sound
        assert "given twice" in refusal(certified, tmp_path, members={member: evil})


@pytest.mark.parametrize("place", ["before", "between", "before the table", "after"])
def test_bytes_that_are_in_no_member_are_refused(certified, tmp_path, place):
    """What stands before an archive may be a program, or another release; what is between is seen by nobody."""
    path, sound = tmp_path / "changed.dpmpc", certified.path.read_bytes()
    with zipfile.ZipFile(certified.path) as archive:
        second, table = archive.infolist()[1].header_offset, archive.start_dir
    at = {"before": 0, "between": second, "before the table": table, "after": len(sound)}[place]
    path.write_bytes(sound[:at] + b"#!/bin/sh\n" + sound[at:])
    with rejects("file", VerificationFailed):
        verify(path)
    with pytest.raises(InputError):
        Release.load(path)


@pytest.mark.parametrize("name", ["noise", "assumptions", "sources"])
def test_the_codes_in_a_file_are_those_that_its_facts_give(certified, tmp_path, name):
    public = json.loads(content_of(certified.path)["release.json"])
    codes = public["guarantee"][name]
    for evil in ("none", f"{codes}s") if isinstance(codes, str) else ([], [*codes, "trust us"]):
        changed = copy.deepcopy(public)
        changed["guarantee"][name] = evil
        members = {"release.json": json.dumps(changed).encode()}
        assert "another guarantee" in refusal(certified, tmp_path, members=members)


def test_guarantees_may_differ_by_the_rounding_of_other_machines_only():
    claim = {"noise": "discrete-gaussian", "sources": ("x",), "epsilon": 1.0}
    assert alike(claim | {"sources": ["x"], "epsilon": 1.0 + 1e-9}, claim)
    for changes in ({"epsilon": 1.0 + 1e-6}, {"noise": "none"}, {"sources": ["y"]}, {"more": 1}):
        assert not alike(claim | changes, claim)


def leaves(value, path=()):
    """Every place in plain data, containers included."""
    if path:
        yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from leaves(value[key], (*path, key))


def other(value):
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return math.nextafter(value, math.inf)
    if isinstance(value, str):
        return value[:-1] + ("0" if value[-1:] != "0" else "1")
    if isinstance(value, list):
        return [*value, 0]
    if isinstance(value, dict):
        return {**value, "more": 0}
    return 0


def put(fields, path, change):
    """Return a copy with the value at a path changed."""
    changed = copy.deepcopy(fields)
    place = changed
    for key in path[:-1]:
        place = place[key]
    change(place, path[-1])
    return changed


@pytest.mark.parametrize("which", ["certified", "shamir"])
def test_any_changed_field_is_noticed(which, request, tmp_path):
    one = request.getfixturevalue(which)
    fields = plain(one.certificate)
    places = list(leaves(fields))
    assert len(places) > 100
    for path in places:
        assert refusal(one, tmp_path, put(fields, path, lambda place, key: place.__setitem__(key, other(place[key]))))
        assert refusal(one, tmp_path, put(fields, path, lambda place, key: place.__delitem__(key)))


def changed(statement, **values):
    return type(statement)(**{name: getattr(statement, name) for name in statement.__struct_fields__} | values)


FALSE_CLAIMS = {
    "guarantee": ("guarantee", lambda old: {**old, "achieved_epsilon": old["achieved_epsilon"] / 2}),
    "noise_variance": ("noise_variance", lambda old: [value / 2 for value in old]),
    "sums": ("sums", lambda old: "00" * 32),
    "clients": ("task", lambda old: changed(old, clients=old.clients + 1)),
    "few clients": ("task", lambda old: changed(old, clients=3)),
    "many clients": ("task", lambda old: changed(old, clients=10**12)),
    "toss": ("task", lambda old: changed(old, toss="00" * 32)),
    "short toss": ("toss", lambda old: changed(old, toss="00")),
    "attempt": ("attempt", lambda old: changed(old, attempt=1)),
    "task": ("task", lambda old: changed(old, task="00" * 32)),
    "batch": ("batch", lambda old: changed(old, batch="zz")),
    "collection": ("collection", lambda old: changed(old, collection="00" * 32)),
    "time": ("time", lambda old: changed(old, time="2099-01-01T00:00:00+00:00")),
    "late closing": ("closed", lambda old: changed(old, closed="2099-01-01T00:00:00+00:00")),
    "no closing": ("closed", lambda old: changed(old, closed="soon")),
    "closing without a zone": ("closed", lambda old: changed(old, closed="2020-01-01T00:00:00")),
    "no time": ("time", lambda old: changed(old, time="soon")),
}


@pytest.mark.parametrize("name", FALSE_CLAIMS)
def test_a_false_claim_that_all_servers_sign_is_named(certified, tmp_path, name):
    told, change = FALSE_CLAIMS[name]
    statement = certified.certificate.statement
    field = name if name in ("guarantee", "noise_variance", "sums") else "manifest"
    false = changed(statement, **{field: change(getattr(statement, field))})
    assert refusal(certified, tmp_path, plain(certified.signed(false))).startswith(f"{told}: ")


@pytest.mark.parametrize(
    "wrong",
    [{}, {"0": [], "1": []}, {"0": [], "1": [], "2": [3]}, {"0": [], "1": [], "2": [1, 0]}],
    ids=["nobody", "one less", "a stranger", "not in order"],
)
def test_who_took_part_is_consistent(certified, tmp_path, wrong):
    false = certified.signed(changed(certified.certificate.statement, wrong=wrong))
    assert refusal(certified, tmp_path, plain(false)).startswith(("wrong: ", "signatures: "))


def test_too_few_servers_do_not_make_a_release(certified, shamir, tmp_path):
    for one, kept in ((certified, "01"), (shamir, "03")):
        servers = range(len(one.trial.collection.servers))
        without = [server for server in servers if str(server) not in kept]
        false = changed(one.certificate.statement, without=without, wrong={server: [] for server in kept})
        assert refusal(one, tmp_path, plain(one.signed(false))).startswith("without: ")


def test_a_signature_is_by_the_pinned_key_over_this_statement(certified, shamir, tmp_path):
    fields = plain(certified.certificate)
    swapped = {**fields, "signatures": {**fields["signatures"], "0": fields["signatures"]["1"]}}
    assert refusal(certified, tmp_path, swapped).startswith("signature of server 0")
    stranger = tmp_path / "stranger"
    write_identity(stranger, 0, datetime.timedelta(days=1))
    forged = sign(stranger, certified.certificate.statement.message).hex()
    assert "server 0" in refusal(certified, tmp_path, {**fields, "signatures": {**fields["signatures"], "0": forged}})
    bare = sign(certified.trial.folder(0) / "identity", certified.certificate.statement.encode()).hex()
    assert "server 0" in refusal(certified, tmp_path, {**fields, "signatures": {**fields["signatures"], "0": bare}})


def test_a_collection_that_was_changed_needs_other_keys(certified, tmp_path):
    """Whoever changes the task file and its digest too cannot sign."""
    fields = plain(certified.certificate)
    fields["statement"]["collection"]["name"] = "another"
    digest = Collection.from_dict(fields["statement"]["collection"]).digest.hex()
    fields["statement"]["manifest"]["collection"] = digest
    assert refusal(certified, tmp_path, fields).startswith("signature of server 0")


def test_sums_and_task_of_the_file_are_those_that_were_signed(certified, tmp_path):
    sums = certified.release.sums.copy()
    sums[0, 0] += 1
    buffer = io.BytesIO()
    np.save(buffer, sums)
    assert refusal(certified, tmp_path, members={"sums.npy": buffer.getvalue()}).startswith("sums: ")
    other_task = certified.trial.collection.task(210, bytes(32))
    Release(other_task, certified.release.sums).save(tmp_path / "other.dpmpc")
    with zipfile.ZipFile(tmp_path / "other.dpmpc") as archive:
        told = refusal(certified, tmp_path, members={"release.json": archive.read("release.json")})
    assert told.startswith("release: ")
    for members in ({"more": b"x"}, {"sums.npy": None}, {"release.json": b"{}"}, {"certificate.json": b"{"}):
        assert refusal(certified, tmp_path, members=members)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_damaged_file_fails_typed_or_says_the_same(certified, tmp_path_factory, data):
    content = bytearray(certified.path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    path = tmp_path_factory.getbasetemp() / "damaged.dpmpc"
    path.write_bytes(content)
    try:
        verified = verify(path)
    except VerificationFailed:
        return
    np.testing.assert_array_equal(verified.release.sums, certified.release.sums)
    assert verified.certificate.statement == certified.certificate.statement


def test_a_statement_is_signed_only_if_it_is_ones_own_view(certified):
    own = certified.certificate.statement
    require_same(own, own)
    rounded = changed(own, noise_variance=[math.nextafter(value, math.inf) for value in own.noise_variance])
    require_same(rounded, own)
    for false in (
        changed(own, noise_variance=[value * 1.001 for value in own.noise_variance]),
        changed(own, noise_variance=own.noise_variance[1:]),
        changed(own, guarantee={**own.guarantee, "achieved_epsilon": 0.1}),
        changed(own, sums="00" * 32),
        changed(own, without=[1]),
        changed(own, manifest=changed(own.manifest, batch="00" * 32)),
    ):
        with pytest.raises(VerificationFailed, match="the statement to be signed"):
            require_same(false, own)


def test_a_manifest_travels_as_json(certified):
    manifest = certified.certificate.statement.manifest
    assert Manifest.from_json(manifest.to_json()) == manifest
    assert changed(manifest, attempt=1).digest != manifest.digest
    with rejects("manifest"):
        Manifest.from_json("{}")


def test_the_command_says_what_was_checked_or_what_is_wrong(certified, tmp_path, capsys):
    assert main(["verify", str(certified.path), "--collection", str(certified.trial.task_file)]) == 0
    told = capsys.readouterr().out
    assert told.count("\n") == 9
    assert "at most 0 of them by strangers" in told
    assert "(selective dropping) chooses which clients are left, down to 200" in told
    (tmp_path / "empty").write_bytes(b"")
    assert main(["verify", str(tmp_path / "empty")]) == 2
    assert "VerificationFailed: file: " in capsys.readouterr().err
    assert MEMBERS[2] == certificates.CERTIFICATE_MEMBER


def test_a_file_that_cannot_be_written_is_an_error(certified, tmp_path):
    with rejects("file"):
        save(certified.release, certified.certificate, tmp_path / "none" / "out")


def test_digests_are_what_the_documentation_says():
    """Computed here from bytes that are written out; two servers have to come to the same ones."""
    ids = np.arange(32, dtype=np.uint8).reshape(2, 16)
    content = b"dpmpc v1 batch" + b"\x02" + bytes(7) + bytes(range(32))
    assert batch_digest(ids) == hashlib.sha256(content).digest()
    digest = "00" * 32
    manifest = Manifest(
        format=1,
        collection=digest,
        batch=digest,
        clients=7,
        toss=digest,
        attempt=2,
        task=digest,
        time="2027-02-01T00:00:00+00:00",
    )
    text = (
        f'{{"attempt":2,"batch":"{digest}","clients":7,"collection":"{digest}","format":1,"task":"{digest}",'
        f'"time":"2027-02-01T00:00:00+00:00","toss":"{digest}"}}'
    )
    assert manifest.to_json() == text
    assert manifest.digest == hashlib.sha256(b"dpmpc v1 manifest" + text.encode()).digest()
    statement = Statement(
        manifest=manifest, collection={"b": 1}, guarantee={}, noise_variance=[0.5], sums=digest, without=[], wrong={}
    )
    assert statement.message == (
        b'dpmpc v1 release certificate{"collection":{"b":1},"guarantee":{},"manifest":'
        + text.encode()
        + f',"noise_variance":[0.5],"sums":"{digest}","without":[],"wrong":{{}}}}'.encode()
    )

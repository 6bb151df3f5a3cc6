"""Publish a key that a server adds to a collection which has begun, so that clients seal to it, not to older ones.

The keys of the task file stand under its digest. What is added stands under the certificate that the task file pins:
the server signs framed("dpmpc v2 key", digest, server, number, suite, public key) with the key of its identity, and
``GET /v2/collections/DIGEST/keys`` hands out what it has signed and what it has received of the other servers.

Promised: `read_added` returns no key that the server it names has not signed for this collection, so that anyone who
hands a list out can keep keys back, and not put in others. Not promised: that a list is complete. A door that keeps a
new key back leaves clients with an older one; it opens as long as the server has not deleted it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from dpmpc.base.errors import InputError, VerificationFailed
from dpmpc.base.randomness import Label
from dpmpc.base.untrusted import ReadError, read_json
from dpmpc.collect.terms.sealing_suites import SUITES, SuiteName
from dpmpc.collect.terms.server_entries import MOST_KEYS, SealKey
from dpmpc.collect.terms.task_file import Collection
from dpmpc.linear.proving.joint import framed
from dpmpc.parties.network.identity import sign, verify_signature

ADDED_KEYS = "/v2/collections/{digest}/keys"
LARGEST_LIST = 1 << 20  # bytes


class AddedKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A key that a server has added and signed."""

    server: int
    number: int
    suite: SuiteName
    public: str
    signature: str  # of `dpmpc.parties.network.identity.sign`, in hexadecimal digits

    @property
    def key(self) -> SealKey:
        """The key alone."""
        return SealKey(self.number, self.suite, self.public)


class KeyList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is handed out."""

    keys: tuple[AddedKey, ...]

    def encoded(self) -> bytes:
        """Return it as JSON."""
        return msgspec.json.encode(self)


def add_key(collection: Collection, server: int, number: int, public: str, identity: Path) -> AddedKey:
    """Sign a key with the identity in a folder."""
    if number >= MOST_KEYS:
        raise InputError("seal", f"{number} keys given at server {server}, at most {MOST_KEYS} expected")
    suite = collection.servers[server].suite
    statement = _statement(collection, server, SealKey(number, suite, public))
    added = AddedKey(server, number, suite, public, sign(identity, statement).hex())
    _check(collection, added)  # an identity that is not the one the collection pins
    return added


def read_added(content: bytes, collection: Collection, server: int | None = None) -> tuple[AddedKey, ...]:
    """Read a list, of one server or of all; return it by server and number, or raise `ReadError`."""
    keys = read_json(content, KeyList, largest=LARGEST_LIST).keys
    for added in keys:
        if not 0 <= added.server < len(collection.servers) or server not in (None, added.server):
            raise ReadError(f"keys: one of server {added.server} given")
        try:
            _check(collection, added)
        except InputError as error:
            raise ReadError(str(error)) from None
    places = {(added.server, added.number): added for added in keys}
    if len(places) < len(keys):
        raise ReadError("keys: two with one number given")
    return tuple(places[place] for place in sorted(places))


def newest(collection: Collection, added: Sequence[AddedKey]) -> tuple[SealKey, ...]:
    """Return for each server the key with the highest number."""
    of_file = [entry.keys[-1] for entry in collection.servers]
    for one in sorted(added, key=lambda one: one.number):
        of_file[one.server] = one.key
    return tuple(of_file)


def _statement(collection: Collection, server: int, key: SealKey) -> bytes:
    suite, public = key.suite.encode(), bytes.fromhex(key.public)
    return framed(Label.ADDED_KEY, collection.digest, bytes([server]), bytes([key.number]), suite, public)


def _check(collection: Collection, added: AddedKey) -> None:
    """Refuse a key that its server has not signed, or that clients could not use."""
    entry, given = collection.servers[added.server], f"key {added.number} of server {added.server}"
    if not len(entry.keys) <= added.number < MOST_KEYS or added.suite != entry.suite:
        expected = f"a number from {len(entry.keys)} to {MOST_KEYS - 1} and suite {entry.suite}"
        raise InputError("keys", f"{given} of suite {added.suite}", expected)
    try:
        public, signature = bytes.fromhex(added.public), bytes.fromhex(added.signature)
        SUITES[added.suite].require_public(public)
        verify_signature(entry.certificate.encode(), _statement(collection, added.server, added.key), signature)
    except VerificationFailed:
        raise InputError("keys", given, "one that this server's certificate has signed") from None
    except ValueError:
        raise InputError("keys", given, f"a public key of {added.suite} and a signature in hexadecimal") from None
    if public.hex() != added.public:
        raise InputError("keys", given, "lower case")

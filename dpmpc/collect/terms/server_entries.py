"""The servers of a collection, as its task file names them: where they are, their certificates, and keys to seal to.

Each server listens at three places: clients reach it at its *web endpoint*, directly or through a reverse proxy; the
other servers hand reports on to it at its *pinned port*, which requires a certificate of theirs; and for the release
they reach it at its own port.

Promised: an entry that passes `check_servers` is one that clients and servers can reach and pin, with keys that clients
can seal to, none of them shared. Not promised: that somebody answers there, or who runs it.
"""

from __future__ import annotations

import hashlib
import ssl
import urllib.parse
from collections.abc import Sequence

import msgspec

from dpmpc.base.errors import InputError
from dpmpc.base.untrusted import is_unicode
from dpmpc.collect.terms.sealing_suites import SUITES, SuiteName
from dpmpc.parties.network.identity import check_certificate, party_name, pinning_context

HTTPS_PORT = 443
MOST_KEYS = 256  # of a server: a number is one byte
MOST_SERVERS = 256  # whose number is one byte, too
LONGEST_NAME = 200  # characters of an organisation


class SealKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A public key of one server, to which clients seal what is for it alone.

    Parameters
    ----------
    number : int
        0 for its first key, and so on.
    suite : str
        "x25519", or "x25519-mlkem768" (`sealing_suites`): HPKE of RFC 9180.
    public : str
        Hexadecimal digits, in lower case: 64, or 2432.
    """

    number: int
    suite: SuiteName
    public: str

    @property
    def shown(self) -> str:
        """What people compare: the key, or SHA-256 of one that is too long to be read out."""
        digest = hashlib.sha256(bytes.fromhex(self.public)).hexdigest()
        return self.public if len(self.public) <= len(digest) else f"SHA-256 {digest}"


class ServerEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One server of a collection.

    Parameters
    ----------
    url : str
        Its web endpoint, for clients: ``https://HOST[:PORT]``.
    peers : str
        Its pinned port, where the other servers hand reports and withdrawals on to it: ``HOST:PORT``.
    release : str
        Where the other servers reach it for the release: ``HOST:PORT``.
    certificate : str
        Its certificate in PEM, which the other servers pin. It names the server as ``party-NUMBER``, not its host.
    keys : tuple of SealKey
        In the order of their numbers, of which clients use the last one.
    public_certificate : bool
        Whether what answers at the web endpoint, a reverse proxy, shows a certificate that a public authority has
        issued to its host. Otherwise clients pin `certificate` there, too.
    organisation : str
        Who runs it, for people, as whoever wrote the file states; at most 200 characters. Nothing proves it.
    """

    url: str
    peers: str
    release: str
    certificate: str
    keys: tuple[SealKey, ...]
    public_certificate: bool = False
    organisation: str = ""

    @property
    def suite(self) -> SuiteName:
        """The suite of its keys."""
        return self.keys[-1].suite

    @property
    def release_address(self) -> tuple[str, int]:
        """Host and port for the other servers, during the release."""
        return _host_and_port(self.release)

    @property
    def peer_address(self) -> tuple[str, int]:
        """Host and port for the other servers, while reports are taken."""
        return _host_and_port(self.peers)

    @property
    def web_address(self) -> tuple[str | None, int]:
        """Host and port for clients."""
        parts = urllib.parse.urlsplit(self.url)
        return parts.hostname, parts.port or HTTPS_PORT

    def trusted_by_clients(self, number: int) -> tuple[ssl.SSLContext, str | None]:
        """Return the TLS context of a client at the web endpoint of this server, whose number is given.

        The second value is the name that the certificate there has to have, or None if that is the name of the host.
        """
        if self.public_certificate:
            return ssl.create_default_context(), None
        return pinning_context(self.certificate.encode()), party_name(number)


def _host_and_port(place: str) -> tuple[str, int]:
    host, _, port = place.rpartition(":")
    return host.lower().removeprefix("[").removesuffix("]"), int(port)


def check_servers(servers: Sequence[ServerEntry]) -> None:
    """Refuse servers that nobody reaches, or that share a place, a certificate or a key."""
    if len(servers) > MOST_SERVERS:
        raise InputError("servers", f"{len(servers)}", f"at most {MOST_SERVERS}")
    for server, entry in enumerate(servers):
        _check_server(server, entry)
    for what, places in (
        ("url", {server.web_address for server in servers}),
        ("peers address", {server.peer_address for server in servers}),
        ("release address", {server.release_address for server in servers}),
    ):
        if len(places) < len(servers):
            raise InputError("servers", f"two with one {what}", "different ones")
    if len({server.certificate for server in servers}) < len(servers):
        raise InputError("servers", "two with one certificate", "different ones")
    _check_keys(servers)


def check_text(what: str, text: str, longest: int) -> None:
    """Refuse a text for people that is too long, that cannot be written as UTF-8, or that has space around it."""
    if not is_unicode(text) or len(text) > longest or text != text.strip():
        expected = f"at most {longest:,} without space around them expected"
        raise InputError(what, f"{text[:40]!r} of {len(text):,} characters given, {expected}")


def _check_server(number: int, server: ServerEntry) -> None:
    if not _is_https_host(server.url):
        raise InputError("servers", f"url {server.url!r} of server {number}", "https://HOST[:PORT]")
    for what, place in (("peers", server.peers), ("release", server.release)):
        host, _, port = place.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
            raise InputError("servers", f"{what} {place!r} of server {number}", "HOST:PORT")
    check_text(f"servers: organisation of server {number}", server.organisation, LONGEST_NAME)
    check_certificate(server.certificate.encode(), number, "server")


def _check_keys(servers: Sequence[ServerEntry]) -> None:
    """Refuse keys that clients cannot seal to, or that two servers share."""
    known: set[str] = set()
    for server, entry in enumerate(servers):
        given = f"servers: keys of server {server}"
        if [key.number for key in entry.keys] != list(range(len(entry.keys))) or not 0 < len(entry.keys) <= MOST_KEYS:
            raise InputError(given, f"numbers 0, 1, .. in this order expected, 1 to {MOST_KEYS}")
        if len({key.suite for key in entry.keys}) > 1:
            raise InputError(given, "of several suites given, of one expected, from which all lengths follow")
        for key in entry.keys:
            try:
                public = bytes.fromhex(key.public)
                SUITES[key.suite].require_public(public)
            except ValueError:
                expected = f"a public key of {key.suite} expected"
                raise InputError(given, f"{key.public[:64]!r} given, {expected}") from None
            if public.hex() != key.public or key.public in known:
                raise InputError(given, f"{key.public!r} given, lower case expected, and each key once")
            known.add(key.public)


def _is_https_host(url: str) -> bool:
    """Return whether this is https, a host and perhaps a port, and nothing else."""
    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    named = bool(parts.hostname) and not set(parts.netloc) & set("@ ")
    return named and port != 0 and is_unicode(url) and url == f"https://{parts.netloc}"

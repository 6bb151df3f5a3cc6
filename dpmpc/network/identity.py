"""Who a party is: one certificate each, from an authority that lives for one run.

The certificate of party i names ``party-i`` and nothing else. Both ends of every link present theirs, and TLS 1.3 is
the only protocol spoken. The authority's private key never leaves the memory of the process that made it, and a
certificate is valid for a day. Parties on different machines bring certificates of an authority that they agreed on;
the file names and the subject alternative name are all that is asked of it.

Not promised: revocation. A stolen key speaks for its party until the certificate expires.
"""

from __future__ import annotations

import datetime
import os
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from dpmpc.errors import InputError

AUTHORITY_FILE, CERTIFICATE_FILE, KEY_FILE = "ca.crt", "party.crt", "party.key"
CLOCK_SKEW = datetime.timedelta(minutes=5)
LIFETIME = datetime.timedelta(days=1)


def party_name(party: int) -> str:
    """Return the DNS name that the certificate of a party carries."""
    return f"party-{party}"


class Authority:
    """A certificate authority for one run: made, used and forgotten."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("dpmpc run authority")
        identifier = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        self._certificate = (
            _builder(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
            .add_extension(identifier, critical=False)
            .sign(self._key, hashes.SHA256())
        )

    def issue(self, folder: Path, party: int) -> None:
        """Write a fresh identity of `party` into its private folder: ca.crt, party.crt, party.key (mode 0600)."""
        key = ec.generate_private_key(ec.SECP256R1())
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        both_ends = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        certificate = (
            _builder(_name(party_name(party)), self._name, key.public_key())
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(party_name(party))]), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(both_ends, critical=False)
            .add_extension(issuer, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        pem = serialization.Encoding.PEM
        unencrypted = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        write_private(folder / AUTHORITY_FILE, self._certificate.public_bytes(pem))
        write_private(folder / CERTIFICATE_FILE, certificate.public_bytes(pem))
        write_private(folder / KEY_FILE, unencrypted)


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner may read; it replaces an older one in a single step."""
    unfinished = path.with_name(path.name + ".new")
    unfinished.unlink(missing_ok=True)
    with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    unfinished.replace(path)


def listening_context(folder: Path) -> ssl.SSLContext:
    """Return the TLS context of the end that accepts: it demands the peer's certificate."""
    context = _context(folder, ssl.PROTOCOL_TLS_SERVER)
    context.num_tickets = 0  # sessions are never resumed
    return context


def dialling_context(folder: Path) -> ssl.SSLContext:
    """Return the TLS context of the end that connects: it also checks the peer's name."""
    return _context(folder, ssl.PROTOCOL_TLS_CLIENT)


def certified_names(certificate: dict[str, object] | None) -> list[str]:
    """Return the DNS names in a peer's verified certificate, as `ssl.SSLSocket.getpeercert` gives it."""
    names = (certificate or {}).get("subjectAltName", ())
    assert isinstance(names, tuple)
    return sorted(value for kind, value in names if kind == "DNS")


def _context(folder: Path, protocol: int) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    try:
        context.load_verify_locations(folder / AUTHORITY_FILE)
        context.load_cert_chain(folder / CERTIFICATE_FILE, folder / KEY_FILE)
    except (OSError, ssl.SSLError) as error:
        raise InputError(
            f"identity: {AUTHORITY_FILE}, {CERTIFICATE_FILE}, {KEY_FILE} expected in {folder}: {error}"
        ) from error
    return context


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + LIFETIME)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )

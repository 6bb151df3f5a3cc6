"""Issue, pin and check the identity of a party: one certificate each, which names ``party-i`` and nothing else.

Both ends of every link present theirs, and TLS 1.3 is the only protocol. A party believes the certificates in
its ca.crt, which come about in one of two ways:

- `Authority`: an authority for one run issues a certificate to each party, valid for a day. Its private key never
  leaves the memory of the process that made it. Parties on different machines bring certificates of an authority that
  they agreed on; the file names and the subject alternative name are all that is asked of it.
- `write_identity` and `pin`: each party makes its own key and certificate, for weeks, and all pin the certificates of
  all. There is no authority, and no pinned key can vouch for another name.

With the same key a party signs what it stands by (`sign`); any party that holds its certificate can check that.

Promised: a private key that others than its owner may read is refused. Not promised: revocation. A stolen key speaks
for its party until the certificate expires, or is no longer pinned. `check_certificate` and `verify_signature` do not
ask for the date: a signature outlives the certificate.
"""

from __future__ import annotations

import datetime
import functools
import hashlib
import ssl
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from dpmpc.base.arguments import require_whole
from dpmpc.base.errors import InputError, VerificationFailed
from dpmpc.base.randomness import Label
from dpmpc.base.storage.files import require_private, write_private
from dpmpc.base.untrusted import ReadError, open_regular, read_bytes

AUTHORITY_FILE, CERTIFICATE_FILE, KEY_FILE = "ca.crt", "party.crt", "party.key"
_UNREADABLE = (  # what `cryptography` raises beside ValueError; they share no class of their own
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.ExtensionNotFound,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)
CLOCK_SKEW = datetime.timedelta(minutes=5)
LIFETIME = datetime.timedelta(days=1)
LONGEST_SIGNATURE = 80  # bytes of an ECDSA signature on P-256, DER
PARTIES = 1 << 32  # a frame has four bytes for the number of its sender


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
            _builder(self._name, self._name, self._key.public_key(), LIFETIME)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
            .add_extension(identifier, critical=False)
            .sign(self._key, hashes.SHA256())
        )

    def issue(self, folder: Path, party: int) -> None:
        """Write a fresh identity of `party` into its private folder: ca.crt, party.crt, party.key (mode 0600)."""
        key = ec.generate_private_key(ec.SECP256R1())
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        certificate = (
            _party_builder(party, self._name, key.public_key(), LIFETIME)
            .add_extension(issuer, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        write_private(folder / AUTHORITY_FILE, self._certificate.public_bytes(serialization.Encoding.PEM))
        _write_pair(folder, certificate, key)


def write_identity(folder: Path, party: int, lifetime: datetime.timedelta) -> bytes:
    """Make a key and a certificate that it signs itself: party.crt and party.key, mode 0600."""
    require_whole("party", party, 0, PARTIES - 1)
    if lifetime <= datetime.timedelta(0):
        raise InputError("lifetime", lifetime, "a positive duration")
    if (folder / KEY_FILE).exists():
        raise InputError("folder", folder, f"one without a {KEY_FILE}")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(party_name(party))
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    certificate = (
        _party_builder(party, name, key.public_key(), lifetime)
        .add_extension(identifier, critical=False)
        .sign(key, hashes.SHA256())
    )
    _write_pair(folder, certificate, key)
    return certificate.public_bytes(serialization.Encoding.PEM)


def pin(folder: Path, certificates: Sequence[bytes]) -> None:
    """Make the party of this folder trust these certificates (PEM), in party order, and no others."""
    for party, certificate in enumerate(certificates):
        check_certificate(certificate, party)
    write_private(folder / AUTHORITY_FILE, b"".join(certificates))


def check_certificate(pem: bytes, party: int, role: str = "party") -> None:
    """Check that a certificate can be pinned for a party."""
    certificate = _parse(pem)
    given = f"certificate of {role} {party}"
    expected_name = x509.SubjectAlternativeName([x509.DNSName(party_name(party))])
    try:
        extensions = certificate.extensions
        names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        is_authority = extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        usage = extensions.get_extension_for_class(x509.KeyUsage).value
        certificate.verify_directly_issued_by(certificate)
    except (ValueError, TypeError, *_UNREADABLE) as error:
        raise InputError(given, f"a self-signed one with names, constraints and usage expected: {error}") from error
    except InvalidSignature:
        raise InputError(given, "one that its own key has signed expected") from None
    if names != expected_name:
        raise InputError(given, f"names {[name.value for name in names]}", f"{[party_name(party)]}")
    if is_authority or usage.key_cert_sign or not usage.digital_signature:
        raise InputError(given, "the certificate of an authority", "one for signatures only")


def sign(folder: Path, message: bytes) -> bytes:
    """Sign a message with a party's key: ECDSA over SHA-256(label || message), DER.

    The label keeps it apart from whatever else the key signs, in TLS for one. The same message gets the same signature
    (RFC 6979) where the installed `cryptography` offers that, from version 43 on with OpenSSL 3.2 or later.
    """
    return _load_key(folder).sign(Label.SIGNATURE.value + message, _ecdsa())


def verify_signature(certificate: bytes, message: bytes, signature: bytes) -> None:
    """Check a signature of `sign` against the certificate (PEM) of the party that is said to have made it."""
    key = _parse(certificate).public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    try:
        key.verify(signature, Label.SIGNATURE.value + message, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        raise VerificationFailed("signature", "not that of the certificate's key over this message") from None


def listening_context(folder: Path) -> ssl.SSLContext:
    """Return the TLS context of the end that accepts: it demands the peer's certificate."""
    context = _context(folder, ssl.PROTOCOL_TLS_SERVER)
    context.num_tickets = 0  # sessions are never resumed
    return context


def dialling_context(folder: Path) -> ssl.SSLContext:
    """Return the TLS context of the end that connects: it also checks the peer's name."""
    return _context(folder, ssl.PROTOCOL_TLS_CLIENT)


def serving_context(folder: Path, known: Sequence[bytes] = ()) -> ssl.SSLContext:
    """Return the TLS context of a server that shows its certificate.

    Any party may connect; with `known` certificates (PEM), anyone who shows one of these, and no other party.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0
    if known:
        context.verify_mode = ssl.CERT_REQUIRED
        context.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN
        context.load_verify_locations(cadata=b"".join(known).decode("ascii"))
    _load_pair(context, folder)
    return context


def pinning_context(certificate: bytes, own: Path | None = None) -> ssl.SSLContext:
    """Return the TLS context of a client that trusts one certificate (PEM) and no other.

    It shows that of the folder `own`, if any.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata=certificate.decode("ascii"))
    if own is not None:
        _load_pair(context, own)
    return context


def same_certificate(pem: bytes, other: bytes) -> bool:
    """Return whether two PEM files hold the same certificate, whatever their line breaks."""
    return _parse(pem) == _parse(other)


def fingerprint(pem: bytes) -> str:
    """Return SHA-256 of a certificate in pairs of digits, as ``openssl x509 -fingerprint -sha256`` prints it."""
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem.decode("ascii"))).digest().hex(":").upper()


def valid_until(pem: bytes) -> datetime.datetime:
    """Return when a certificate expires."""
    return _parse(pem).not_valid_after_utc


def certified_names(certificate: dict[str, object] | None) -> list[str]:
    """Return the DNS names in a peer's verified certificate, as `ssl.SSLSocket.getpeercert` gives it."""
    names = (certificate or {}).get("subjectAltName", ())
    assert isinstance(names, tuple)
    return sorted(value for kind, value in names if kind == "DNS")


def _context(folder: Path, protocol: int) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    # A pinned certificate is trusted as it stands; older OpenSSL would look for an authority above it.
    context.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(cadata=read_bytes(folder / AUTHORITY_FILE).decode("ascii"))
    except (OSError, ValueError) as error:
        raise InputError("identity", f"{AUTHORITY_FILE} expected in {folder}: {error}") from error
    _load_pair(context, folder)
    return context


def _load_pair(context: ssl.SSLContext, folder: Path) -> None:
    _require_private(folder)
    try:
        with open_regular(folder / CERTIFICATE_FILE), open_regular(folder / KEY_FILE):
            context.load_cert_chain(folder / CERTIFICATE_FILE, folder / KEY_FILE)
    except (OSError, ReadError) as error:
        raise InputError("identity", f"{CERTIFICATE_FILE}, {KEY_FILE} expected in {folder}: {error}") from error


def _require_private(folder: Path) -> None:
    """Refuse a private key that any user but its owner may read or change."""
    try:
        require_private("identity", folder / KEY_FILE)
    except OSError as error:
        raise InputError("identity", f"{KEY_FILE} expected in {folder}: {error}") from error


def _load_key(folder: Path) -> ec.EllipticCurvePrivateKey:
    _require_private(folder)
    try:
        key = serialization.load_pem_private_key(read_bytes(folder / KEY_FILE), password=None)
    except (OSError, ValueError, TypeError) as error:
        raise InputError("identity", f"an unencrypted PEM key expected in {folder / KEY_FILE}: {error}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise InputError("identity", f"another key given in {folder / KEY_FILE}, one on the curve P-256 expected")
    return key


def _write_pair(
    folder: Path,
    certificate: x509.Certificate,
    key: ec.EllipticCurvePrivateKey,
    certificate_file: str = CERTIFICATE_FILE,
    key_file: str = KEY_FILE,
) -> None:
    pem = serialization.Encoding.PEM
    unencrypted = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    write_private(folder / certificate_file, certificate.public_bytes(pem))
    write_private(folder / key_file, unencrypted)


def _parse(pem: bytes) -> x509.Certificate:
    """Read a PEM file that holds one certificate on P-256 and nothing else."""
    objects = pem.count(b"-----BEGIN")
    if objects != 1:
        raise InputError("certificate", f"{objects} PEM objects", "one certificate")
    try:
        certificate = x509.load_pem_x509_certificate(pem)
        key = certificate.public_key()
    except (ValueError, *_UNREADABLE) as error:
        raise InputError("certificate", f"a readable one expected: {error}") from error
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise InputError("certificate", "another key", "one on the curve P-256")
    return certificate


@functools.cache
def _ecdsa() -> ec.ECDSA:
    """Return the deterministic variant of the signatures, or the randomized one where that is all there is."""
    try:
        return ec.ECDSA(hashes.SHA256(), deterministic_signing=True)
    except (TypeError, UnsupportedAlgorithm):
        return ec.ECDSA(hashes.SHA256())


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _party_builder(
    party: int, issuer: x509.Name, key: ec.EllipticCurvePublicKey, lifetime: datetime.timedelta
) -> x509.CertificateBuilder:
    """Begin the certificate of a party, for both ends of a link."""
    both_ends = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    return (
        _builder(_name(party_name(party)), issuer, key, lifetime)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(party_name(party))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(both_ends, critical=False)
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, lifetime: datetime.timedelta
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + lifetime)
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

"""Identities: private files, one name a certificate, and contexts that speak nothing but mutual TLS 1.3.

Pinned certificates: that of one party does not speak, and cannot vouch, for another's number. Signatures: every change
of message, signature or key is noticed.
"""

import datetime
import ssl
import stat

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from dpmpc.app.cli.main import main
from dpmpc.base.errors import InputError, VerificationFailed
from dpmpc.base.storage.files import write_private
from dpmpc.parties.network.identity import (
    Authority,
    certified_names,
    check_certificate,
    dialling_context,
    listening_context,
    pin,
    pinning_context,
    serving_context,
    sign,
    verify_signature,
    write_identity,
)
from support.rejections import rejects

WEEKS = datetime.timedelta(weeks=8)


@pytest.fixture
def folders(tmp_path):
    authority = Authority()
    for party in range(2):
        folder = tmp_path / f"party-{party}"
        folder.mkdir()
        authority.issue(folder, party)
    return [tmp_path / "party-0", tmp_path / "party-1"]


def handshake(server_context, client_context, name):
    """Complete a handshake in memory; return what each end knows of the other."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    client = client_context.wrap_bio(to_client, to_server, server_hostname=name)
    for _ in range(4):
        for end in (client, server):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return server.version(), certified_names(server.getpeercert()), certified_names(client.getpeercert())


def test_both_ends_are_authenticated_over_tls_1_3(folders):
    facts = handshake(listening_context(folders[1]), dialling_context(folders[0]), "party-1")
    assert facts == ("TLSv1.3", ["party-0"], ["party-1"])


def test_the_dialled_party_must_carry_the_name(folders):
    with pytest.raises(ssl.SSLCertVerificationError, match="party-0"):
        handshake(listening_context(folders[1]), dialling_context(folders[1]), "party-0")


def test_another_authority_is_not_believed(folders, tmp_path):
    strange = tmp_path / "strange"
    strange.mkdir()
    Authority().issue(strange, 1)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(listening_context(strange), dialling_context(folders[0]), "party-1")
    with pytest.raises(ssl.SSLError):
        handshake(listening_context(folders[1]), dialling_context(strange), "party-1")


def test_a_caller_without_a_certificate_is_refused(folders):
    nobody = ssl.create_default_context(cafile=folders[0] / "ca.crt")
    with pytest.raises(ssl.SSLError, match="did not return a certificate"):
        handshake(listening_context(folders[1]), nobody, "party-1")


def test_a_server_asks_for_certificates_where_it_knows_some(pinned):
    own = (pinned[0] / "party.crt").read_bytes()
    others = [(folder / "party.crt").read_bytes() for folder in pinned[1:]]
    facts = handshake(serving_context(pinned[0], others), pinning_context(own, pinned[1]), "party-0")
    assert facts == ("TLSv1.3", ["party-1"], ["party-0"])
    for stranger in (None, pinned[0]):
        with pytest.raises(ssl.SSLError):
            handshake(serving_context(pinned[0], others), pinning_context(own, stranger), "party-0")
    facts = handshake(serving_context(pinned[0]), pinning_context(own), "party-0")
    assert facts == ("TLSv1.3", [], ["party-0"])


def test_older_tls_is_refused(folders):
    old = dialling_context(folders[0])
    old.minimum_version = ssl.TLSVersion.TLSv1_2
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError):
        handshake(listening_context(folders[1]), old, "party-1")


def test_files_are_private_and_certificates_short_lived(folders):
    for name in ("party.key", "party.crt", "ca.crt"):
        assert stat.S_IMODE((folders[0] / name).stat().st_mode) == 0o600
    certificate = x509.load_pem_x509_certificate((folders[0] / "party.crt").read_bytes())
    assert certificate.not_valid_after_utc - certificate.not_valid_before_utc < datetime.timedelta(days=1, hours=1)
    assert sorted(path.name for path in folders[0].iterdir()) == ["ca.crt", "party.crt", "party.key"]


def test_private_files_replace_older_ones(tmp_path):
    path = tmp_path / "secret"
    path.write_bytes(b"older and longer")
    write_private(path, b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_folder_without_identity(tmp_path):
    with rejects("identity"):
        listening_context(tmp_path)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601])
def test_a_key_that_others_may_touch_is_refused(folders, mode):
    (folders[0] / "party.key").chmod(mode)
    with rejects("identity", expected="0600"):
        dialling_context(folders[0])
    with rejects("identity", expected="0600"):
        sign(folders[0], b"")


@pytest.fixture
def pinned(tmp_path):
    """Three parties, each with a certificate of its own making; all pin all."""
    folders = [tmp_path / f"pinned-{party}" for party in range(3)]
    certificates = [write_identity(folder, party, WEEKS) for party, folder in enumerate(folders)]
    for folder in folders:
        pin(folder, certificates)
    return folders


def load(folder):
    """Return the certificate and the key of a party."""
    certificate = x509.load_pem_x509_certificate((folder / "party.crt").read_bytes())
    return certificate, serialization.load_pem_private_key((folder / "party.key").read_bytes(), None)


def replace_certificate(folder, certificate, key):
    """Make a party present another certificate; what it believes stays."""
    pem = serialization.Encoding.PEM
    write_private(folder / "party.crt", certificate.public_bytes(pem))
    unencrypted = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    write_private(folder / "party.key", unencrypted)


@pytest.mark.parametrize(("caller", "called"), [(0, 1), (1, 0), (2, 0), (1, 2)])
def test_pinned_parties_know_each_other(pinned, caller, called):
    facts = handshake(listening_context(pinned[called]), dialling_context(pinned[caller]), f"party-{called}")
    assert facts == ("TLSv1.3", [f"party-{caller}"], [f"party-{called}"])


def test_own_identities_are_private_and_live_as_long_as_asked(tmp_path):
    pem = write_identity(tmp_path / "new", 4, WEEKS)
    assert pem == (tmp_path / "new" / "party.crt").read_bytes()
    for path, mode in [("new", 0o700), ("new/party.key", 0o600), ("new/party.crt", 0o600)]:
        assert stat.S_IMODE((tmp_path / path).stat().st_mode) == mode
    certificate, _ = load(tmp_path / "new")
    age = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    assert WEEKS <= age < WEEKS + datetime.timedelta(hours=1)
    check_certificate(pem, 4)


def test_a_key_is_never_overwritten(tmp_path):
    write_identity(tmp_path, 0, WEEKS)
    before = (tmp_path / "party.key").read_bytes()
    with rejects("folder", expected="one without a party.key"):
        write_identity(tmp_path, 0, WEEKS)
    assert (tmp_path / "party.key").read_bytes() == before


def test_a_lifetime_is_positive(tmp_path):
    with rejects("lifetime", given="0:00:00"):
        write_identity(tmp_path, 0, datetime.timedelta(0))


def test_a_pinned_party_that_is_called_cannot_answer_for_another(pinned):
    """Party 0 calls party 2; party 1 answers, with its own certificate."""
    with pytest.raises(ssl.SSLCertVerificationError, match="party-2"):
        handshake(listening_context(pinned[1]), dialling_context(pinned[0]), "party-2")


def test_a_pinned_party_that_calls_is_known_by_its_own_name_alone(pinned):
    """What `PeerLink` compares with the number that the caller claims."""
    assert handshake(listening_context(pinned[2]), dialling_context(pinned[1]), "party-2")[1] == ["party-1"]


def forged(pinned, *, issued):
    """Return a certificate for party 2, made by party 1: issued in its own name, or self-signed; and its key."""
    issuer, issuer_key = load(pinned[1])
    template, _ = load(pinned[2])
    key = ec.generate_private_key(ec.SECP256R1()) if issued else issuer_key
    builder = (
        x509.CertificateBuilder()
        .subject_name(template.subject)
        .issuer_name(issuer.subject if issued else template.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(template.not_valid_before_utc)
        .not_valid_after(template.not_valid_after_utc)
    )
    for extension in template.extensions:
        if not isinstance(extension.value, x509.SubjectKeyIdentifier):
            builder = builder.add_extension(extension.value, extension.critical)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    above = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    builder = builder.add_extension(identifier, False).add_extension(above, False)
    return builder.sign(issuer_key, hashes.SHA256()), key


@pytest.mark.parametrize("issued", [True, False])
def test_a_pinned_key_cannot_vouch_for_another_number(pinned, issued):
    impostor = pinned[1]
    replace_certificate(impostor, *forged(pinned, issued=issued))
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(listening_context(impostor), dialling_context(pinned[0]), "party-2")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(listening_context(pinned[0]), dialling_context(impostor), "party-0")


def test_only_a_pinned_certificate_is_believed(pinned, tmp_path):
    strange = tmp_path / "strange"
    write_identity(strange, 1, WEEKS)
    pin(strange, [(folder / "party.crt").read_bytes() for folder in pinned])
    with pytest.raises(ssl.SSLCertVerificationError, match="self-signed"):
        handshake(listening_context(strange), dialling_context(pinned[0]), "party-1")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(listening_context(pinned[1]), dialling_context(strange), "party-1")


def test_an_expired_certificate_is_not_believed(tmp_path, monkeypatch):
    folders = [tmp_path / "0", tmp_path / "1"]
    with monkeypatch.context() as earlier:
        earlier.setattr("dpmpc.parties.network.identity.CLOCK_SKEW", datetime.timedelta(weeks=9))
        write_identity(folders[0], 0, datetime.timedelta(microseconds=1))
    write_identity(folders[1], 1, WEEKS)
    for folder in folders:
        pin(folder, [(each / "party.crt").read_bytes() for each in folders])
    with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        handshake(listening_context(folders[0]), dialling_context(folders[1]), "party-0")


def self_signed(key=None, *, names=("party-1",), authority=False, usage="digital_signature", without=None):
    """Return a certificate that is right for party 1 but for what is asked for."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "party-1")])
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + WEEKS)
    usages = dict.fromkeys(
        [
            *["digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"],
            *["key_cert_sign", "crl_sign", "encipher_only", "decipher_only"],
        ],
        False,
    )
    general = [name if isinstance(name, x509.GeneralName) else x509.DNSName(name) for name in names]
    for extension in (
        x509.SubjectAlternativeName(general),
        x509.BasicConstraints(authority, None),
        x509.KeyUsage(**(usages | {usage: True})),
    ):
        if not isinstance(extension, without or ()):
            builder = builder.add_extension(extension, critical=False)
    algorithm = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return builder.sign(key, algorithm).public_bytes(serialization.Encoding.PEM)


UNFIT = {
    "another number": {"names": ["party-2"]},
    "two names": {"names": ["party-1", "party-2"]},
    "an e-mail address too": {"names": ["party-1", x509.RFC822Name("party@1")]},
    "a wildcard": {"names": ["*"]},
    "an authority": {"authority": True},
    "may sign certificates": {"usage": "key_cert_sign"},
    "no name": {"without": x509.SubjectAlternativeName},
    "no constraints": {"without": x509.BasicConstraints},
    "no usage": {"without": x509.KeyUsage},
    "another curve": {"key": ec.generate_private_key(ec.SECP384R1())},
    "another kind of key": {"key": ed25519.Ed25519PrivateKey.generate()},
}


@pytest.mark.parametrize("flaw", UNFIT)
def test_unfit_certificates_are_not_pinned(tmp_path, flaw):
    check_certificate(self_signed(), 1)
    with pytest.raises(InputError, match=r"^certificate"):
        check_certificate(self_signed(**UNFIT[flaw]), 1)
    with pytest.raises(InputError, match=r"^certificate"):
        pin(tmp_path, [write_identity(tmp_path, 0, WEEKS), self_signed(**UNFIT[flaw])])
    assert not (tmp_path / "ca.crt").exists()


@pytest.mark.parametrize("content", [b"", b"text", b"-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"])
def test_no_certificate_at_all(content):
    with rejects("certificate"):
        check_certificate(content, 0)


@pytest.mark.filterwarnings("ignore:Parsed a serial number")  # its signature does not hold either
def test_a_certificate_with_one_changed_bit_gives_the_typed_error(pinned):
    """All bits but perhaps those that count the unused bits of the signature's BIT STRING, which say nothing."""
    certificate = ssl.PEM_cert_to_DER_cert((pinned[0] / "party.crt").read_text())
    rejected = 0
    for position in range(8 * len(certificate)):
        changed = bytearray(certificate)
        changed[position // 8] ^= 1 << position % 8
        try:
            check_certificate(ssl.DER_cert_to_PEM_cert(bytes(changed)).encode(), 0)
        except InputError:
            rejected += 1
    assert rejected >= 8 * len(certificate) - 8


def test_a_private_key_is_never_pinned_along(pinned):
    content = (pinned[0] / "party.crt").read_bytes() + (pinned[0] / "party.key").read_bytes()
    with rejects("certificate", given="2 PEM objects"):
        check_certificate(content, 0)


def test_a_certificate_from_an_authority_is_not_pinned(folders):
    with rejects("certificate of party 0"):
        check_certificate((folders[0] / "party.crt").read_bytes(), 0)


def test_a_signature_holds_for_its_key_and_message_alone(pinned):
    certificates = [(folder / "party.crt").read_bytes() for folder in pinned]
    message = b"manifest" * 100
    signature = sign(pinned[0], message)
    verify_signature(certificates[0], message, signature)
    with pytest.raises(VerificationFailed):
        verify_signature(certificates[1], message, signature)
    for at in range(0, len(message), 97):
        other = message[:at] + bytes([message[at] ^ 1]) + message[at + 1 :]
        with pytest.raises(VerificationFailed):
            verify_signature(certificates[0], other, signature)
    for at in range(len(signature)):
        other = signature[:at] + bytes([signature[at] ^ 1]) + signature[at + 1 :]
        with pytest.raises(VerificationFailed):
            verify_signature(certificates[0], message, other)
    for other in (b"", signature[:-1], signature + b"\0"):
        with pytest.raises(VerificationFailed):
            verify_signature(certificates[0], message, other)


def test_what_the_key_signs_elsewhere_is_no_signature_of_a_message(pinned):
    certificate, key = load(pinned[0])
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    bare = key.sign(b"message", ec.ECDSA(hashes.SHA256()))
    with pytest.raises(VerificationFailed):
        verify_signature(pem, b"message", bare)


@pytest.mark.parametrize("content", [None, b"no key", "ed25519"])
def test_signing_needs_a_key_on_p_256(tmp_path, content):
    write_identity(tmp_path, 0, WEEKS)
    if content == "ed25519":
        content = ed25519.Ed25519PrivateKey.generate().private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    if content is None:
        (tmp_path / "party.key").unlink()
    else:
        (tmp_path / "party.key").write_bytes(content)
    with rejects("identity"):
        sign(tmp_path, b"message")


@pytest.mark.parametrize("party", [-1, 1 << 32, 10**80])
def test_a_number_that_is_no_party_gets_no_identity(tmp_path, party):
    with rejects("party", expected="a whole number from 0 to 4294967295"):
        write_identity(tmp_path / "identity", party, WEEKS)
    assert not (tmp_path / "identity").exists()


@pytest.mark.parametrize(
    "wrong", [["--server", "-1"], ["--server", "0", "--days", "0"], ["--server", "0", "--days", "9" * 9]]
)
def test_an_identity_that_cannot_be_made_leaves_no_folder(tmp_path, capsys, wrong):
    assert main(["identity", str(tmp_path / "identity"), *wrong]) == 2
    assert "expected" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []

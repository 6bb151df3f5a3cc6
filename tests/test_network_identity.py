"""Identities: private files, one name a certificate, and contexts that speak nothing but mutual TLS 1.3."""

import datetime
import ssl
import stat

import pytest
from cryptography import x509

from dpmpc.errors import InputError
from dpmpc.network.identity import Authority, certified_names, dialling_context, listening_context, write_private


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
    with pytest.raises(InputError, match="identity"):
        listening_context(tmp_path)

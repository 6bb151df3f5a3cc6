"""What MPyC's own ``--ssl`` reads."""

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from dpmpc.base.storage.files import write_private
from dpmpc.parties.network import identity


def write_mpyc_identities(folder, parties, lifetime=identity.LIFETIME):
    """Write what ``--ssl`` of MPyC reads: mpyc_ca.crt, and party_i.crt and party_i.key of each party.

    The common name of a certificate is ``MPyC party i``, which whoever dials checks. MPyC does not check it where it
    accepts: such a certificate admits its holder under any number. The authority's key is not kept.
    """
    authority = ec.generate_private_key(ec.SECP256R1())
    name = identity._name("MPyC certification authority")
    identifier = x509.SubjectKeyIdentifier.from_public_key(authority.public_key())
    certificate = (
        identity._builder(name, name, authority.public_key(), lifetime)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(identity._key_usage(signs_certificates=True), critical=True)
        .add_extension(identifier, critical=False)
        .sign(authority, hashes.SHA256())
    )
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(folder / "mpyc_ca.crt", certificate.public_bytes(serialization.Encoding.PEM))
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key())
    for party in range(parties):
        key = ec.generate_private_key(ec.SECP256R1())
        issued = (
            identity._builder(identity._name(f"MPyC party {party}"), name, key.public_key(), lifetime)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(identity._key_usage(signs_certificates=False), critical=True)
            .add_extension(issuer, critical=False)
            .sign(authority, hashes.SHA256())
        )
        identity._write_pair(folder, issued, key, f"party_{party}.crt", f"party_{party}.key")

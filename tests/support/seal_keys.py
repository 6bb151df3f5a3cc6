"""Keys that clients seal to."""

import os

from dpmpc.collect.terms.sealing_suites import SEED_BYTES, SUITES
from dpmpc.collect.terms.server_entries import SealKey
from dpmpc.collect.upload.seal_folder import SealFolder, read_public


def a_key(suite="x25519", number=0):
    """Return a public key whose private one nobody has."""
    return SealKey(number, suite, SUITES[suite].public(os.urandom(SEED_BYTES)).hex())


def key_in(folder, suite="x25519"):
    """Return a public key whose private one is in the folder of a server now."""
    SealFolder(folder / "seals").draw("trial", suite)
    return read_public(folder / "seals" / "trial.pub")

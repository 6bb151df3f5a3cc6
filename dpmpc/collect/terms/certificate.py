"""Certify a release: state what the servers did, and have each of them sign it.

A `Manifest` states what is opened; the servers agree on it before anything is. A `Statement` states what came of it:
the whole collection, the guarantee, the variance of the noise and the hash of the sums. A `Certificate` is a statement
with the signature of every server that took part, under the keys that the collection pins. It lies in the release file.

Promised: statements with equal facts are signed as equal bytes. Not promised: that what a certificate states is true;
`dpmpc.collect.terms.verifying` checks that.
"""

from __future__ import annotations

import datetime
import hashlib
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from dpmpc.base.errors import GuaranteeError, InputError, VerificationFailed
from dpmpc.base.randomness import SEED_BYTES, Label, derive
from dpmpc.base.storage import canonical
from dpmpc.base.storage.records import plain
from dpmpc.base.untrusted import ReadError, printable, read_json
from dpmpc.collect.terms.series import Epoch
from dpmpc.collect.terms.shamir_claims import INCONSISTENT
from dpmpc.collect.terms.task_file import ATTEMPTS, Collection
from dpmpc.linear.proving.decide import fewest_present
from dpmpc.linear.sharing import ShamirSharing
from dpmpc.parties.network.identity import sign
from dpmpc.privacy.task import Task
from dpmpc.release.release import Release
from dpmpc.release.release_file import (
    CERTIFICATE_MEMBER,
    LARGEST_PUBLIC,
    PUBLIC_MEMBER,
    ROUNDING,
    SUMS_MEMBER,
    alike,
    open_members,
)

LARGEST_CERTIFICATE = 2 * LARGEST_PUBLIC  # bytes: it repeats what is public, and has the variance of every row
RELEASED_BEFORE, DAMAGED, DEALT_WRONGLY, WITHDRAWN = "released before", "damaged", "dealt wrongly", "withdrawn"
DIFFERENT_LISTS, FALSE_PROOF = "different lists", "false proof"
REFUSED = (DIFFERENT_LISTS, FALSE_PROOF, INCONSISTENT)  # why all leave out reports, beside `wrong_hash` of a server
LEFT_OUT = (RELEASED_BEFORE, DAMAGED, DEALT_WRONGLY, WITHDRAWN)  # why a server leaves out reports that it received


def wrong_hash(server: int) -> str:
    """Name the cause for leaving out reports whose share, as one server states, does not fit the listed hash."""
    return f"wrong hash, according to server {server}"


def refusal_causes(collection: Collection) -> list[str]:
    """Return why reports that all servers hold may be refused because of their proofs."""
    return [*REFUSED, *map(wrong_hash, range(len(collection.servers)))]


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What the servers are about to open, agreed on by all of them before anything is sent.

    Parameters
    ----------
    format : int
        Of this record.
    collection : str
        The collection's digest; all digests are hexadecimal.
    batch : str
        Digest of the report ids, see `dpmpc.collect.opening.agreement.batch_digest`.
    clients : int
        Their number.
    toss : str
        The servers' joint toss, from which the public matrix is drawn.
    attempt : int
        Which of the matrices of the toss it is.
    task : str
        The task's digest.
    time : str
        When it was agreed, UTC: the middle one of the servers' clocks.
    closed : str
        When the last server stopped taking reports, UTC, by its own clock; empty at the time that the collection names.
    left_out : dict
        How many reports each server states that it has left out, by reason (`LEFT_OUT`); empty if none.
    refused : dict
        How many reports that all servers hold were refused because of their proofs, by cause
        (`refusal_causes`).
    odd : dict
        With Shamir shares, in how many inconsistent reports a server's message was off and those of all others agreed.
    dealers : list of int
        Where servers deal their noise, those whose noise is in the sums.
    noise : str
        The digest of what they dealt (`dpmpc.collect.opening.noise_dealing`).
    epoch : Epoch, optional
        In a series, its place there, and which other epochs were begun before.
    """

    format: Literal[1]
    collection: str
    batch: str
    clients: int
    toss: str
    attempt: int
    task: str
    time: str
    closed: str = ""
    left_out: dict[str, dict[str, int]] = {}
    refused: dict[str, int] = {}
    odd: dict[str, int] = {}
    dealers: list[int] = []
    noise: str = ""
    epoch: Epoch | None = None

    @property
    def digest(self) -> bytes:
        """SHA-256(label || canonical JSON), 32 bytes."""
        return hashlib.sha256(Label.MANIFEST.value + self.to_json().encode()).digest()

    def to_json(self) -> str:
        """Return the canonical JSON."""
        return canonical(self).decode()

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        """Read what `to_json` has written."""
        try:
            return read_json(text.encode(), cls)
        except (ReadError, UnicodeEncodeError) as error:
            raise InputError("manifest", error) from error


class Statement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What every server signs.

    Parameters
    ----------
    manifest : Manifest
        What was opened.
    collection : dict
        The whole task file, times as text.
    guarantee : dict
        What the noise gives to each client.
    noise_variance : list of float
        In each row's entries, in the units of the sketch.
    sums : str
        SHA-256 of the opened sums: 64-bit words, little-endian, row by row.
    without : list of int
        Servers that did not take part in the opening.
    wrong : dict
        For each server that did: the servers whose shares it found to be wrong.
    """

    manifest: Manifest
    collection: dict[str, Any]
    guarantee: dict[str, Any]
    noise_variance: list[float]
    sums: str
    without: list[int]
    wrong: dict[str, list[int]]

    @property
    def message(self) -> bytes:
        """The bytes that are signed."""
        return Label.CERTIFICATE.value + canonical(self)

    def encode(self) -> bytes:
        """Return the statement as JSON."""
        return canonical(self)

    @classmethod
    def decode(cls, content: bytes) -> Statement:
        """Read what `encode` has written; callers bound the length of what others send."""
        try:
            return read_json(content, cls, largest=len(content))
        except ReadError as error:
            raise VerificationFailed("statement", error) from error

    def sign(self, identity: Path) -> bytes:
        """Return the signature of the server whose identity lies in this folder."""
        return sign(identity, self.message)


class Certificate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A statement and its signatures, hexadecimal, by server."""

    format: Literal[1]
    statement: Statement
    signatures: dict[str, str]


def manifest_of(
    collection: Collection,
    task: Task,
    *,
    batch: bytes,
    toss: bytes,
    time: datetime.datetime,
    closed: float = math.inf,
    left_out: dict[str, dict[str, int]] | None = None,
    refused: dict[str, int] | None = None,
    odd: dict[str, int] | None = None,
    dealers: Sequence[int] = (),
    noise: bytes = b"",
    earlier: Mapping[str, str] | None = None,
) -> Manifest:
    """Return the manifest of what is about to be opened; `task` is `Collection.task` of batch, toss and dealers."""
    early = closed < collection.closes.timestamp()
    return Manifest(
        format=1,
        collection=collection.digest.hex(),
        batch=batch.hex(),
        clients=task.clients,
        toss=toss.hex(),
        attempt=attempt_of(task, toss),
        task=task.digest.hex(),
        time=time.astimezone(datetime.UTC).isoformat(timespec="seconds"),
        closed=datetime.datetime.fromtimestamp(closed, datetime.UTC).isoformat(timespec="seconds") if early else "",
        left_out=left_out or {},
        refused=refused or {},
        odd=odd or {},
        dealers=list(dealers),
        noise=noise.hex(),
        epoch=epoch_of(collection, earlier or {}),
    )


def epoch_of(collection: Collection, earlier: Mapping[str, str]) -> Epoch | None:
    """Return what the manifest of a collection states of its series, if it is of one."""
    if collection.series is None:
        return None
    return Epoch(collection.series, collection.series_identity, dict(sorted(earlier.items())))


def state(
    collection: Collection, manifest: Manifest, release: Release, wrong: Mapping[int, tuple[int, ...]]
) -> Statement:
    """Return the statement of what was opened; `wrong` holds what each server that took part found."""
    return Statement(
        manifest=manifest,
        collection=plain(collection),
        guarantee=release.guarantee.to_dict(),
        noise_variance=release.noise_variance.tolist(),
        sums=sums_digest(release).hex(),
        without=[server for server in range(len(collection.servers)) if server not in wrong],
        wrong={str(server): list(found) for server, found in sorted(wrong.items())},
    )


def require_same(given: Statement, own: Statement) -> None:
    """Refuse to sign a statement that differs from one's own by more than the rounding of another machine."""
    for name in Statement.__struct_fields__:
        theirs, ours = getattr(given, name), getattr(own, name)
        if name == "guarantee":
            same = alike(theirs, ours)
        elif name == "noise_variance":
            same = same_variances(theirs, ours)
        else:
            same = theirs == ours
        if not same:
            raise VerificationFailed(name, "the statement to be signed claims another one than this server has")


def sums_digest(release: Release) -> bytes:
    """Return SHA-256 of the opened sums."""
    return hashlib.sha256(np.ascontiguousarray(release.sums, "<i8").data).digest()


def quorum(collection: Collection) -> int:
    """Return how many servers take part in a release at least.

    Of M servers t may be corrupt, and those would take part in any release. Two releases of one report are impossible
    if any two sets of servers that release something have t + 1 servers in common, one of which is honest and looks
    into its ledger: more than (M + t) / 2 servers. Additive shares need every server in any case. Where clients prove
    what they share, 2t + 1 servers must be present, t + 1 of whom are honest and fix each polynomial.
    """
    servers, scheme = len(collection.servers), collection.plan.scheme
    corrupt = scheme.threshold if isinstance(scheme, ShamirSharing) else servers - 1
    return fewest_present(scheme) if collection.proved else (servers + corrupt) // 2 + 1


def require_quorum(collection: Collection, without: tuple[int, ...]) -> None:
    """Refuse to go on without servers that could, by themselves, release the same reports again.

    Raises
    ------
    GuaranteeError
        If there are fewer than a `quorum`.
    """
    servers, fewest = len(collection.servers), quorum(collection)
    if not set(without) < set(range(servers)):
        raise InputError("without", f"{sorted(without)}", f"some of the servers 0 to {servers - 1}")
    if servers - len(set(without)) < fewest:
        proofs = ", and have false reports accepted where clients prove what they share" if collection.proved else ""
        raise GuaranteeError(
            "without",
            f"{sorted(without)}",
            f"at least {fewest} of {servers} servers",
            f"fewer could release a report twice{proofs}",
            condition=f"with {collection.plan.sharing} shares",
        )


def attempt_of(task: Task, toss: bytes) -> int:
    """Return which matrix of the toss the task has; a plain sum has none, and counts as the first."""
    seed = task.sketch.describe().get("seed")
    seeds = [derive(toss, Label.SKETCH_SEED, attempt, SEED_BYTES).hex() for attempt in range(ATTEMPTS)]
    return seeds.index(seed) if seed in seeds else 0


def same_variances(claimed: list[float], found: list[float]) -> bool:
    """Return whether two lists of variances are the same but for the rounding of machines."""
    return len(claimed) == len(found) and all(
        math.isclose(one, other, rel_tol=ROUNDING) for one, other in zip(claimed, found, strict=True)
    )


def save(release: Release, certificate: Certificate, path: str | os.PathLike[str]) -> None:
    """Write the release file, with the certificate in it, whole or not at all."""
    try:
        release.save(path, {CERTIFICATE_MEMBER: canonical(certificate)})
    except OSError as error:
        raise InputError("file", f"{os.fspath(path)} cannot be written: {error.strerror}") from error


def load(path: str | os.PathLike[str]) -> Certificate:
    """Read the certificate of a release file; nothing in it is checked.

    Raises
    ------
    VerificationFailed
        If the file holds none, or anything besides it and the release.
    """
    try:
        with open_members(path) as found:
            members = found.names
            content = found.read(CERTIFICATE_MEMBER, LARGEST_CERTIFICATE) if CERTIFICATE_MEMBER in members else b""
    except (OSError, ReadError) as error:
        raise VerificationFailed(
            "file", f"{os.fspath(path)!r} is not a release file ({printable(str(error))})"
        ) from error
    expected = sorted((PUBLIC_MEMBER, SUMS_MEMBER, CERTIFICATE_MEMBER))
    if CERTIFICATE_MEMBER not in members and PUBLIC_MEMBER in members:
        raise VerificationFailed(
            "file",
            f"{os.fspath(path)!r} is a release without {CERTIFICATE_MEMBER}, which `dpmpc release` writes: "
            "no server signed it. Such a file of `dpmpc fit` is checked by Release.load alone",
        )
    if members != expected:
        raise VerificationFailed("file", f"{os.fspath(path)!r} holds {members}, {expected} expected")
    try:
        return read_json(content, Certificate, largest=LARGEST_CERTIFICATE)
    except ReadError as error:
        raise VerificationFailed("certificate", error) from error

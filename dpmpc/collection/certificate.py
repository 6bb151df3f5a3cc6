"""Certify a release: state what the servers did, have each of them sign it, and let anybody verify it offline.

A `Manifest` says what is opened; the servers agree on it before anything is. A `Statement` says what came of it: the
whole collection, the guarantee, the variance of the noise and the hash of the sums. A `Certificate` is a statement with
the signature of every server that took part, under the keys that the collection pins. It lies in the release file.

`verify` recomputes from the file alone: the collection's digest, the task from the number of clients and the toss, its
guarantee, the variance of the noise, the hash of the sums, and all signatures.

Promised: a file that passes was signed by every server that it names, enough of them that no two files can be opened of
one report while no more servers than assumed are corrupt; and its noise gives what it claims. Not promised: that the
batch is what clients sent (the hash of its ids can be compared by whoever has the ids), that the noise was drawn as
agreed, and, with additive sharing, that no server shifted the sums by an offset that it chose without knowing them.
Without a task file of one's own the file is believed as to whose keys count, and how large a batch is recomputed.
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from dpmpc.collection.designing import omission, soundness
from dpmpc.collection.shamir_claims import INCONSISTENT, blame, check_dealers, check_odd
from dpmpc.collection.task_file import ATTEMPTS, Collection
from dpmpc.errors import GuaranteeError, InputError, VerificationFailed
from dpmpc.network.identity import sign, verify_signature
from dpmpc.proving import fewest_present
from dpmpc.randomness import SEED_BYTES, Label, derive
from dpmpc.release import Release
from dpmpc.sharing import ShamirSharing
from dpmpc.storage import LARGEST_PUBLIC, PUBLIC_MEMBER, ROUNDING, SUMS_MEMBER, alike, canonical, open_members, plain
from dpmpc.task import LONGEST_CHECK, Task
from dpmpc.untrusted import ReadError, printable, read_json

CERTIFICATE_MEMBER = "certificate.json"
LARGEST_CERTIFICATE = 2 * LARGEST_PUBLIC  # bytes: it repeats what is public, and has the variance of every row
RELEASED_BEFORE, DAMAGED, DEALT_WRONGLY = "released before", "damaged", "dealt wrongly"
DIFFERENT_LISTS, FALSE_PROOF = "different lists", "false proof"
REFUSED = (DIFFERENT_LISTS, FALSE_PROOF, INCONSISTENT)  # why all leave out reports, beside `wrong_hash` of a server
LEFT_OUT = (RELEASED_BEFORE, DAMAGED, DEALT_WRONGLY)  # why a server leaves out reports that it holds


def wrong_hash(server: int) -> str:
    """Return why reports are left out of whose share one server says that it does not fit the listed hash."""
    return f"wrong hash, says server {server}"


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
        Digest of the report ids, see `dpmpc.collection.agreement.batch_digest`.
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
    left_out : dict
        How many reports each server has left out, by reason, as it says itself, where there are any (`LEFT_OUT`).
    refused : dict
        How many reports that all servers hold were refused because of their proofs, by cause
        (`refusal_causes`).
    odd : dict
        With Shamir shares, in how many inconsistent reports a server's message was off and those of all others agreed.
    dealers : list of int
        Where servers deal their noise, those whose noise is in the sums.
    noise : str
        The digest of what they dealt (`dpmpc.collection.noise_dealing`).
    """

    format: Literal[1]
    collection: str
    batch: str
    clients: int
    toss: str
    attempt: int
    task: str
    time: str
    left_out: dict[str, dict[str, int]] = {}
    refused: dict[str, int] = {}
    odd: dict[str, int] = {}
    dealers: list[int] = []
    noise: str = ""

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
            raise InputError(f"manifest: {error}") from error


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
        For each server that did, whose shares it found to be wrong.
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
            raise VerificationFailed(f"statement: {error}") from error

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
    left_out: dict[str, dict[str, int]] | None = None,
    refused: dict[str, int] | None = None,
    odd: dict[str, int] | None = None,
    dealers: Sequence[int] = (),
    noise: bytes = b"",
) -> Manifest:
    """Return the manifest of what is about to be opened; `task` is `Collection.task` of batch, toss and dealers."""
    return Manifest(
        format=1,
        collection=collection.digest.hex(),
        batch=batch.hex(),
        clients=task.clients,
        toss=toss.hex(),
        attempt=_attempt(task, toss),
        task=task.digest.hex(),
        time=time.astimezone(datetime.UTC).isoformat(timespec="seconds"),
        left_out=left_out or {},
        refused=refused or {},
        odd=odd or {},
        dealers=list(dealers),
        noise=noise.hex(),
    )


def state(
    collection: Collection, manifest: Manifest, release: Release, wrong: Mapping[int, tuple[int, ...]]
) -> Statement:
    """Return the statement of what was opened; `wrong` holds what each server that took part has found."""
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
            same = _close(theirs, ours)
        else:
            same = theirs == ours
        if not same:
            raise VerificationFailed(f"{name}: the statement to be signed claims another one than this server has")


def sums_digest(release: Release) -> bytes:
    """Return SHA-256 of the opened sums."""
    return hashlib.sha256(np.ascontiguousarray(release.sums, "<i8").data).digest()


def require_quorum(collection: Collection, without: tuple[int, ...]) -> None:
    """Refuse to go on without so many servers that the missing ones could release the same reports again.

    Of M servers t may be corrupt, and those would take part in any release. Two releases of one report are impossible
    if any two sets of servers that release something have t + 1 servers in common, one of which is honest and looks
    into its ledger: more than (M + t) / 2 servers. Additive shares need every server in any case. Where clients prove
    what they share, 2t + 1 servers have to be present, t + 1 of whom are honest and fix each polynomial.

    Raises
    ------
    GuaranteeError
        If there are fewer.
    """
    servers = len(collection.servers)
    if not set(without) < set(range(servers)):
        raise InputError(f"without: {sorted(without)} given, some of the servers 0 to {servers - 1} expected")
    present = servers - len(set(without))
    scheme = collection.plan.scheme
    corrupt = scheme.threshold if isinstance(scheme, ShamirSharing) else servers - 1
    if 2 * present <= servers + corrupt:
        raise GuaranteeError(
            f"without: {sorted(without)} given, at least {(servers + corrupt) // 2 + 1} of {servers} servers expected "
            f"with {collection.plan.sharing} shares and {corrupt} corrupt servers: fewer could release a report twice"
        )
    if collection.proved and present < fewest_present(scheme):
        raise GuaranteeError(
            f"without: {sorted(without)} given, at least {fewest_present(scheme)} of {servers} servers expected where "
            f"clients prove what they share: among fewer {corrupt} corrupt ones could have false reports accepted"
        )


def save(release: Release, certificate: Certificate, path: str | os.PathLike[str]) -> None:
    """Write the release file, with the certificate in it, whole or not at all."""
    try:
        release.save(path, {CERTIFICATE_MEMBER: canonical(certificate)})
    except OSError as error:
        raise InputError(f"file: {os.fspath(path)} cannot be written: {error.strerror}") from error


def load(path: str | os.PathLike[str]) -> Certificate:
    """Read the certificate of a release file; nothing in it is checked.

    Raises
    ------
    VerificationFailed
        If the file holds none, or anything beside it and the release.
    """
    try:
        with open_members(path) as found:
            members = found.names
            content = found.read(CERTIFICATE_MEMBER, LARGEST_CERTIFICATE) if CERTIFICATE_MEMBER in members else b""
    except (OSError, ReadError) as error:
        raise VerificationFailed(
            f"file: {os.fspath(path)!r} is not a release file ({printable(str(error))})"
        ) from error
    expected = sorted((PUBLIC_MEMBER, SUMS_MEMBER, CERTIFICATE_MEMBER))
    if CERTIFICATE_MEMBER not in members and PUBLIC_MEMBER in members:
        raise VerificationFailed(
            f"file: {os.fspath(path)!r} is a release without {CERTIFICATE_MEMBER}, which `dpmpc release` writes: no "
            "server signed it. Such a file of `dpmpc fit` is checked by Release.load alone"
        )
    if members != expected:
        raise VerificationFailed(f"file: {os.fspath(path)!r} holds {members}, {expected} expected")
    try:
        return read_json(content, Certificate, largest=LARGEST_CERTIFICATE)
    except ReadError as error:
        raise VerificationFailed(f"certificate: {error}") from error


@dataclasses.dataclass(frozen=True)
class Verified:
    """A release file whose claims hold.

    Attributes
    ----------
    release : Release
        The release.
    certificate : Certificate
        What the servers signed.
    collection : Collection
        What it was collected for.
    checks : tuple of str
        What was checked, in order, a line each.
    """

    release: Release
    certificate: Certificate
    collection: Collection
    checks: tuple[str, ...]


def verify(
    path: str | os.PathLike[str], collection: Collection | None = None, *, longest: float = LONGEST_CHECK
) -> Verified:
    """Recompute all that a release file claims.

    Parameters
    ----------
    path : path
        The file.
    collection : Collection, optional
        From somebody who is trusted; by default the collection, and so the servers' keys, are those of the file.
    longest : float
        Seconds that recomputing the guarantee may take, by the estimate of `dpmpc.task.Task.check_seconds`.

    Raises
    ------
    VerificationFailed
        With the first claim that does not hold.
    """
    certificate = load(path)
    statement, manifest = certificate.statement, certificate.statement.manifest
    pinned = _claim("collection", lambda: Collection.from_dict(statement.collection))
    _require(pinned.digest.hex(), manifest.collection, "collection", "the digest of the task file in it")
    checks = [f"collection: {pinned.digest.hex()}, {pinned.name!r}"]
    if collection is not None:
        _require(collection.digest.hex(), manifest.collection, "collection", "that of the given task file")
        checks.append("collection: that of the given task file")
    else:
        checks.append("collection: TRUSTED as it stands in the file; compare the digest, or give the task file")
    checks.append(_check_signatures(pinned, certificate))
    checks.append(check_time(pinned, manifest))
    toss = _bytes("toss", manifest.toss)
    task = _claim(
        "task", lambda: pinned.task(manifest.clients, toss, dealers=len(manifest.dealers) or None, longest=longest)
    )
    _require(_attempt(task, toss), manifest.attempt, "attempt", "that of the toss")
    _require(task.digest.hex(), manifest.task, "task", "the one that follows from collection, clients and toss")
    _bytes("batch", manifest.batch)
    _check_left_out(pinned, manifest)
    if pinned.proved:
        checks.append(check_refused(pinned, manifest))
    elif manifest.refused or manifest.odd:
        raise VerificationFailed(f"refused: {manifest.refused} claimed of a collection without proofs, none expected")
    checks += check_dealers(pinned, manifest.dealers, manifest.noise)
    checks.append(f"task: {manifest.task}, of {manifest.clients} clients, matrix {manifest.attempt} of the toss")
    release = _claim("release", lambda: Release.load(path, longest=longest))
    _require(release.task.digest.hex(), manifest.task, "release", "of the task that the servers agreed on")
    if not alike(statement.guarantee, task.guarantee.to_dict()):
        raise VerificationFailed("guarantee: the public facts give another one than is claimed")
    epsilon, delta = task.guarantee.achieved_epsilon, task.guarantee.delta
    checks.append(
        f"guarantee: epsilon {epsilon:.6g} at delta {delta:g}, recomputed for this batch of {task.clients} reports"
        + (f", at most {task.trust.corrupt_clients} of them by strangers" if task.noising.by == "clients" else "")
    )
    checks.append(f"omission: {omission(pinned, task)}")
    if not _close(statement.noise_variance, task.noise_variance.tolist()):
        raise VerificationFailed("noise_variance: the public facts give another one than is claimed")
    checks.append(f"noise variance: {task.noise_variance.mean():.6g} in the mean of {len(task.noise_variance)} rows")
    _require(sums_digest(release).hex(), statement.sums, "sums", "the SHA-256 of the sums in the file")
    checks.append(f"sums: {statement.sums}")
    return Verified(release, certificate, pinned, tuple(checks))


def _check_signatures(collection: Collection, certificate: Certificate) -> str:
    statement = certificate.statement
    _claim("without", lambda: require_quorum(collection, tuple(statement.without)))
    _require(sorted(set(statement.without)), statement.without, "without", "ascending")
    servers = range(len(collection.servers))
    present = [str(server) for server in servers if server not in statement.without]
    _require(sorted(present), sorted(certificate.signatures), "signatures", "by the servers that took part")
    _require(sorted(present), sorted(statement.wrong), "wrong", "told by the servers that took part")
    for server, found in statement.wrong.items():
        if found != sorted(set(found)) or not {str(number) for number in found} <= set(present):
            raise VerificationFailed(f"wrong: {found} told by server {server}, some of {present} expected")
    for server in present:
        signature = _bytes("signature", certificate.signatures[server], length=None)
        pem = collection.servers[int(server)].certificate.encode()
        try:
            verify_signature(pem, statement.message, signature)
        except VerificationFailed as error:
            raise VerificationFailed(f"signature of server {server}: {error}") from error
    text = f"signatures: valid, of servers {', '.join(present)} under the keys that the collection pins"
    return text + blame(collection, statement.without, statement.wrong)


def _check_left_out(collection: Collection, manifest: Manifest) -> None:
    servers = {str(server) for server in range(len(collection.servers))}
    for server, counts in manifest.left_out.items():
        if server not in servers or not counts or not all(count > 0 for count in counts.values()):
            raise VerificationFailed(f"left_out: {counts} claimed of server {server!r}, positive numbers expected")
        if not set(counts) <= set(LEFT_OUT):
            raise VerificationFailed(f"left_out: {sorted(counts)} claimed, some of {list(LEFT_OUT)} expected")


def check_refused(collection: Collection, manifest: Manifest) -> str:
    """Check the counts of refused reports; return a line that says what the proofs promise, and on what condition.

    Raises
    ------
    VerificationFailed
        If they are not counts of reports that there can be, by cause.
    """
    refused, causes = manifest.refused, refusal_causes(collection)
    if not set(refused) <= set(causes) or not all(count > 0 for count in refused.values()):
        raise VerificationFailed(f"refused: {refused} claimed, positive numbers of {causes} expected")
    odd = check_odd(collection, refused, manifest.odd)
    total = sum(refused.values())
    if manifest.clients + total > collection.most_stored:
        raise VerificationFailed(f"refused: {total} claimed, at most {collection.most_stored} in all expected")
    counts = ", ".join(f"{count} refused ({cause})" for cause, count in refused.items()) or "none refused"
    stored = collection.most_stored if manifest.clients == collection.largest_batch else manifest.clients + total
    return f"proofs: {manifest.clients} reports accepted, {counts}{odd}; {soundness(collection, stored)}"


def check_time(collection: Collection, manifest: Manifest) -> str:
    """Check that a manifest was agreed on between opening and expiry, as its time says; return a line that says so.

    Raises
    ------
    VerificationFailed
        If its time is another one, or none.
    """
    time = _claim("time", lambda: datetime.datetime.fromisoformat(manifest.time))
    if time.tzinfo is None or not collection.opens <= time < collection.expires:
        raise VerificationFailed(f"time: {printable(manifest.time)} claimed, a time from opening to expiry expected")
    return f"time: {printable(manifest.time)}, before the collection expired"


def _attempt(task: Task, toss: bytes) -> int:
    """Return which matrix of the toss the task has; a plain sum has none, and counts as the first."""
    seed = task.sketch.describe().get("seed")
    seeds = [derive(toss, Label.SKETCH_SEED, attempt, SEED_BYTES).hex() for attempt in range(ATTEMPTS)]
    return seeds.index(seed) if seed in seeds else 0


def _claim(name: str, read: Any) -> Any:
    """Return what `read` returns, or raise a `VerificationFailed` that names the claim."""
    try:
        return read()
    except Exception as error:  # whatever a parser or a parameter stumbles over in somebody else's file
        raise VerificationFailed(f"{name}: {printable(str(error))}") from error


def _require(found: object, claimed: object, name: str, what: str) -> None:
    if found != claimed:
        told = f"{printable(str(claimed))} claimed, {what} expected, which is {printable(str(found))}"
        raise VerificationFailed(f"{name}: {told}")


def _bytes(name: str, text: str, length: int | None = 32) -> bytes:
    """Read lower-case hexadecimal digits."""
    content = _claim(name, lambda: bytes.fromhex(text))
    if content.hex() != text or (length is not None and len(content) != length):
        raise VerificationFailed(f"{name}: {text!r} claimed, {length or 'some'} bytes in hexadecimal expected")
    return bytes(content)


def _close(claimed: list[float], found: list[float]) -> bool:
    return len(claimed) == len(found) and all(
        math.isclose(one, other, rel_tol=ROUNDING) for one, other in zip(claimed, found, strict=True)
    )

"""Verify a release file offline: recompute from it alone whatever its certificate claims.

That is the collection's digest, the task from the number of clients and the toss, its guarantee, the variance of the
noise, the hash of the sums, and all signatures.

Promised: a file that passes was signed by every server that it names, enough of them that no two files can be opened of
one report while no more servers than assumed are corrupt; and its noise gives what it claims. Not promised: that the
batch is what clients sent (the hash of its ids can be compared by anyone who has the ids), that the noise was drawn as
agreed, and, with additive sharing, that no server shifted the sums by an offset that it chose without knowing them.
Without a task file of one's own the file is believed as to whose keys count, and how large a batch is recomputed.
"""

from __future__ import annotations

import dataclasses
import datetime
import os
from typing import Any

from dpmpc.base.errors import VerificationFailed
from dpmpc.base.untrusted import printable
from dpmpc.collect.terms.certificate import (
    LEFT_OUT,
    Certificate,
    Manifest,
    attempt_of,
    epoch_of,
    load,
    refusal_causes,
    require_quorum,
    same_variances,
    sums_digest,
)
from dpmpc.collect.terms.collection_design import omission, soundness
from dpmpc.collect.terms.series import Series
from dpmpc.collect.terms.shamir_claims import blame, check_dealers, check_odd, opening_condition
from dpmpc.collect.terms.task_file import Collection
from dpmpc.parties.network.identity import verify_signature
from dpmpc.privacy.task import LONGEST_CHECK
from dpmpc.release.release import Release
from dpmpc.release.release_file import alike


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
    given : bool
        Whether the servers' keys are those of a task file that was given, and not only of the release.
    """

    release: Release
    certificate: Certificate
    collection: Collection
    checks: tuple[str, ...]
    given: bool


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
        Seconds that recomputing the guarantee may take, by the estimate of `dpmpc.privacy.task.Task.check_seconds`.

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
    _require(attempt_of(task, toss), manifest.attempt, "attempt", "that of the toss")
    _require(task.digest.hex(), manifest.task, "task", "the one that follows from collection, clients and toss")
    _bytes("batch", manifest.batch)
    if manifest.epoch != _claim("epoch", lambda: epoch_of(pinned, _earlier(pinned, manifest))):
        raise VerificationFailed("epoch", "another one than that of the task file, or none, claimed")
    if pinned.series is not None:
        checks.append(f"series: {_series_line(pinned.series, len(_earlier(pinned, manifest)))}")
    _check_left_out(pinned, manifest)
    if pinned.proved:
        checks.append(check_refused(pinned, manifest))
    elif manifest.refused or manifest.odd:
        raise VerificationFailed("refused", f"{manifest.refused} claimed of a collection without proofs, none expected")
    checks += check_dealers(pinned, manifest.dealers, manifest.noise)
    checks.append(f"task: {manifest.task}, of {manifest.clients} clients, matrix {manifest.attempt} of the toss")
    release = _claim("release", lambda: Release.load(path, longest=longest))
    _require(release.task.digest.hex(), manifest.task, "release", "of the task that the servers agreed on")
    if not alike(statement.guarantee, task.guarantee.to_dict()):
        raise VerificationFailed("guarantee", "the public facts give another one than is claimed")
    epsilon, delta = task.guarantee.achieved_epsilon, task.guarantee.delta
    checks.append(
        f"guarantee: epsilon {epsilon:.6g} at delta {delta:g}, recomputed for this batch of {task.clients} reports"
        + (f", at most {task.trust.corrupt_clients} of them by strangers" if task.noising.by == "clients" else "")
        + ("" if pinned.series is None else f"; epsilon {pinned.series.epsilon:g} in {pinned.series.together}")
    )
    checks.append(f"omission: {omission(pinned, task)}")
    if not same_variances(statement.noise_variance, task.noise_variance.tolist()):
        raise VerificationFailed("noise_variance", "the public facts give another one than is claimed")
    rows = len(task.noise_variance)
    checks.append(
        f"noise variance: {task.noise_variance.mean():.6g} in normalised units, where a column runs from -1 to 1"
        + (f"; in the mean of {rows} rows" if rows > 1 else "")
    )
    _require(sums_digest(release).hex(), statement.sums, "sums", "the SHA-256 of the sums in the file")
    checks.append(f"sums: {statement.sums}{opening_condition(pinned, statement.without, statement.wrong)}")
    return Verified(release, certificate, pinned, tuple(checks), given=collection is not None)


def _check_signatures(collection: Collection, certificate: Certificate) -> str:
    statement = certificate.statement
    _claim("without", lambda: require_quorum(collection, tuple(statement.without)))
    _require(sorted(set(statement.without)), statement.without, "without", "ascending")
    servers = range(len(collection.servers))
    present = [str(server) for server in servers if server not in statement.without]
    _require(sorted(present), sorted(certificate.signatures), "signatures", "by the servers that took part")
    _require(sorted(present), sorted(statement.wrong), "wrong", "stated by the servers that took part")
    for server, found in statement.wrong.items():
        if found != sorted(set(found)) or not {str(number) for number in found} <= set(present):
            raise VerificationFailed("wrong", f"{found} told by server {server}, some of {present} expected")
    for server in present:
        signature = _bytes("signature", certificate.signatures[server], length=None)
        pem = collection.servers[int(server)].certificate.encode()
        try:
            verify_signature(pem, statement.message, signature)
        except VerificationFailed as error:
            raise VerificationFailed(f"signature of server {server}", error) from error
    text = f"signatures: valid, of servers {', '.join(present)} under the keys that the collection pins"
    return text + blame(collection, statement.without, statement.wrong)


def _earlier(collection: Collection, manifest: Manifest) -> dict[str, str]:
    """Return the manifests of other epochs that a manifest names, once they can be such."""
    earlier = {} if manifest.epoch is None else manifest.epoch.earlier
    if earlier and collection.series is None:
        raise VerificationFailed("epoch", "earlier ones claimed of a collection that is in no series")
    for epoch, digest in earlier.items():
        _bytes("epoch", digest)
        known = collection.series
        if known is None or epoch not in {str(one) for one in range(1, known.epochs + 1) if one != known.epoch}:
            raise VerificationFailed("epoch", f"{printable(epoch)} claimed to be an earlier one")
    return earlier


def _series_line(series: Series, earlier: int) -> str:
    return (
        f"epoch {series.epoch} of {series.epochs} of {printable(series.name)!r}, after {earlier} others; all together "
        f"keep epsilon {series.epsilon:g} at delta {series.delta:g}"
    )


def _check_left_out(collection: Collection, manifest: Manifest) -> None:
    servers = {str(server) for server in range(len(collection.servers))}
    for server, counts in manifest.left_out.items():
        if server not in servers or not counts or not all(count > 0 for count in counts.values()):
            raise VerificationFailed("left_out", f"{counts} claimed of server {server!r}, positive numbers expected")
        if not set(counts) <= set(LEFT_OUT):
            raise VerificationFailed("left_out", f"{sorted(counts)} claimed, some of {list(LEFT_OUT)} expected")


def check_refused(collection: Collection, manifest: Manifest) -> str:
    """Check the counts of refused reports; return a line that states what the proofs promise, and on what condition.

    Raises
    ------
    VerificationFailed
        If they are not counts of reports that there can be, by cause.
    """
    refused, causes = manifest.refused, refusal_causes(collection)
    if not set(refused) <= set(causes) or not all(count > 0 for count in refused.values()):
        raise VerificationFailed("refused", f"{refused} claimed, positive numbers of {causes} expected")
    odd = check_odd(collection, refused, manifest.odd)
    total = sum(refused.values())
    if manifest.clients + total > collection.most_stored:
        raise VerificationFailed("refused", f"{total} claimed, at most {collection.most_stored} in all expected")
    counts = ", ".join(f"{count} refused ({cause})" for cause, count in refused.items()) or "none refused"
    stored = collection.most_stored if manifest.clients == collection.largest_batch else manifest.clients + total
    return f"proofs: {manifest.clients} reports accepted, {counts}{odd}; {soundness(collection, stored)}"


def check_time(collection: Collection, manifest: Manifest) -> str:
    """Check that a manifest was agreed on between opening and expiry, as its time states; return a line that states it.

    Raises
    ------
    VerificationFailed
        If its time is another one, or none, or an early closing is none.
    """
    time = _claim("time", lambda: datetime.datetime.fromisoformat(manifest.time))
    if time.tzinfo is None or not collection.opens <= time < collection.expires:
        raise VerificationFailed("time", f"{printable(manifest.time)} claimed, a time from opening to expiry expected")
    told = f"time: {printable(manifest.time)}, before the collection expired"
    if not manifest.closed:
        return told
    closed = _claim("closed", lambda: datetime.datetime.fromisoformat(manifest.closed))
    if closed.tzinfo is None or not closed < collection.closes:
        raise VerificationFailed("closed", f"{printable(manifest.closed)} claimed, a time before closing expected")
    return f"{told}; the last server closed early, at {printable(manifest.closed)}"


def _claim(name: str, read: Any) -> Any:
    """Return what `read` returns, or raise a `VerificationFailed` that names the claim."""
    try:
        return read()
    except Exception as error:  # whatever a parser or a parameter stumbles over in somebody else's file
        raise VerificationFailed(name, printable(str(error))) from error


def _require(found: object, claimed: object, name: str, what: str) -> None:
    if found != claimed:
        told = f"{printable(str(claimed))} claimed, {what} expected, which is {printable(str(found))}"
        raise VerificationFailed(name, told)


def _bytes(name: str, text: str, length: int | None = 32) -> bytes:
    """Read lower-case hexadecimal digits."""
    content = _claim(name, lambda: bytes.fromhex(text))
    if content.hex() != text or (length is not None and len(content) != length):
        raise VerificationFailed(name, f"{text!r} claimed, {length or 'some'} bytes in hexadecimal expected")
    return bytes(content)

"""The release of a collection: M servers, no analyst, and nothing opened that any of them refuses.

Parties: the servers of a collection (`dpmpc.intake`). Each holds a spool of shares, a ledger of what it has opened, and
a signing key that the collection pins. What is opened is the release, which is public, so every server opens it.

0. Every server closes its intake for good, and checks by itself that the collection has closed and not expired.
1. The servers tell one another which manifests they have sealed, or begun to open. If nobody has begun anything they
   agree on a batch, the reports that all of them hold (`dpmpc.intake.agreement`).
2. Every server checks the batch by itself: its size, and its ledger.
3. They toss a coin for the public matrix (`dpmpc.network.coins`); it also chooses among the reports, should these be
   more than the largest batch (`Collection.chosen`). Each recomputes the guarantee for this batch and this matrix.
4. They seal the manifest: collection, batch, toss, task. When all have, each transforms its share, and binds the
   reports to the manifest for good, in its ledger, together with the transformed share.
5. When all have done that, each sends its transformed share to all others, and opens the sums: with Shamir shares
   although some may be wrong. All compare the hash of what they opened.
6. The first server states what came of it; every one compares that with its own view, and signs it. All exchange
   signatures, tell one another what the run has cost them, for their reports, and write the same file.

A refusal in steps 0 to 4 ends the run for all, with its reason; no share has been sent then.

**Repetition.** A run may break anywhere and be repeated. Say that a server has *begun* X if its ledger binds reports to
the manifest X. It sends shares of X only after every server of the run has told it that it has begun X (`confirm` in
step 4), and what it sends is what its ledger holds, the same bytes every time. In a repetition

- if some server has begun X, all others must have sealed X, or begun it too. They go on with X: the same batch, toss
  and task, and from those that had begun the same share as before. Whoever had only sealed X has sent nothing yet, so
  its noise may be fresh. A server that has not sealed X may be left out.
- if no server has begun anything, no server has sent anything, and they start anew.
- anything else is refused.

**Nothing is opened twice.** Let X and Y be manifests that share a report and were both opened. Each was opened among a
set of servers, all honest members of which had begun it before the first share was sent. The two sets have a member in
common that is honest: with additive shares every server is in both; with Shamir shares more than (M + t) / 2 servers
are in either, so more than t in both (`require_quorum`). It has begun both, which its ledger refuses, unless X = Y. A
server that lies about its standing can keep the others from opening, and no more.

What the toss may be bent to: a server that learns the toss first may break off and have it tossed again. The guarantee
is recomputed for the matrix that comes out, whichever it is.
"""

from __future__ import annotations

import asyncio
import datetime
import statistics
from collections.abc import Mapping

import msgspec

from dpmpc.analyst import open_robustly
from dpmpc.errors import AlreadyReleased, InconsistentShares, MalformedFrame
from dpmpc.intake.agreement import agree_on_batch, batch_digest, confirm, unless_refused
from dpmpc.intake.certificate import (
    Certificate,
    Manifest,
    Statement,
    manifest_of,
    require_same,
    save,
    state,
    sums_digest,
)
from dpmpc.intake.releasing import Released, ReleasingServer, Standing
from dpmpc.network.coins import COIN_BYTES, exchange_bytes, toss_coins
from dpmpc.network.frames import ContentType, Kind
from dpmpc.network.identity import verify_signature
from dpmpc.network.meter import Report, report_from
from dpmpc.network.party import Party
from dpmpc.randomness import Stream
from dpmpc.release import Release
from dpmpc.rings import Words
from dpmpc.task import Task

Wrong = dict[int, tuple[int, ...]]


async def take_part(party: Party, server: ReleasingServer) -> Released:
    """Run one server from the first connection to the last."""
    await party.runtime.start()
    released = await release(party, server)
    await party.runtime.shutdown()
    return released


async def release(party: Party, server: ReleasingServer) -> Released:
    """Run the steps above; return what all servers have signed, and what it has cost them."""
    await unless_refused(party, server.require_ready)
    standings = await exchange_standings(party, server)
    begun = await unless_refused(party, lambda: what_was_begun(standings))
    if begun is None:
        manifest, task = await agree(party, server, standings)
    else:
        manifest, task = await resume(party, server, begun)
    await confirm(party, manifest.digest, "manifest that is sealed")
    server.tell(f"manifest {manifest.digest.hex()} is sealed by all; each transforms its share")
    share = await unless_refused(party, lambda: server.prepared_share(manifest, task, party.meter))
    await confirm(party, manifest.digest, "manifest that is about to be opened")
    shares = await exchange_shares(party, task, share)
    opened, wrong = await unless_refused(party, lambda: open_robustly(task, shares))
    findings = await compare_openings(party, opened, wrong)
    found = {number: ", ".join(map(str, shares)) or "none" for number, shares in findings.items()}
    server.tell(f"opened; wrong shares found by {_by_server(found)}")
    certificate = await certify(party, server, manifest, opened, findings)
    costs = await exchange_costs(party)
    await unless_refused(party, lambda: save(opened, certificate, server.out))
    server.finish(manifest)
    return Released(certificate, costs)


def _by_server(entries: Mapping[int, object]) -> str:
    """Say something of each server."""
    return ", ".join(f"server {number}: {entry}" for number, entry in entries.items())


async def exchange_standings(party: Party, server: ReleasingServer) -> dict[int, Standing]:
    """Step 1: who has sealed and begun what."""
    own = await unless_refused(party, server.standing)
    for peer in party.runtime.peers:
        await party.runtime.send_frame(peer, party.runtime.frame(Kind.STANDING, msgspec.json.encode(own)))
    standings = {party.pid: own}
    for peer in party.runtime.peers:
        frame = await party.runtime.receive_frame(peer, Kind.STANDING, ContentType.BYTES)
        try:
            standings[peer] = msgspec.json.decode(frame.raw, type=Standing)
        except msgspec.DecodeError as error:
            raise MalformedFrame(f"party {peer} sent no valid STANDING frame: {error}", peer) from error
    return standings


def what_was_begun(standings: dict[int, Standing]) -> bytes | None:
    """Step 1: return the digest of the manifest to go on with, or None to start anew."""
    begun = {digest: server for server, standing in standings.items() for digest in standing.begun}
    if not begun:
        return None
    if len(begun) > 1:
        raise AlreadyReleased(f"manifest: servers have begun to open {len(begun)} different ones, one expected")
    ((digest, first),) = begun.items()
    for server, standing in standings.items():
        if digest not in standing.begun + standing.sealed:
            raise AlreadyReleased(
                f"manifest: server {first} has begun to open {digest}, to which server {server} has not agreed; "
                "only servers that have may go on with it"
            )
    try:
        return bytes.fromhex(digest)
    except ValueError as error:
        raise MalformedFrame(f"party {first} sent no valid STANDING frame: {error}", first) from error


async def agree(party: Party, server: ReleasingServer, standings: dict[int, Standing]) -> tuple[Manifest, Task]:
    """Steps 1 to 4: batch, checks, toss, and the manifest that follows from them, sealed."""
    ids = await unless_refused(party, server.spool.ids)
    batch = await agree_on_batch(party, ids, server.collection.most_stored)
    server.tell(f"batch: {len(batch.ids)} reports held by all; lacked by {_by_server(batch.lacked)}")
    await unless_refused(party, lambda: server.require_batch(batch))
    toss = await toss_coins(party, Stream.from_os().bytes(COIN_BYTES))
    chosen = await asyncio.to_thread(server.collection.chosen, batch.ids, toss)
    if len(chosen) < len(batch.ids):
        server.tell(
            f"batch: {len(chosen)} of the {len(batch.ids)} reports chosen by the toss, the most that are opened"
        )
    task = await unless_refused(party, lambda: server.collection.task(len(chosen), toss))
    manifest = manifest_of(
        server.collection,
        task,
        batch=batch_digest(chosen),
        toss=toss,
        time=middle_time(standings),
    )
    await confirm(party, manifest.digest, "manifest")
    await unless_refused(party, lambda: server.seal(manifest, chosen))
    return manifest, task


async def resume(party: Party, server: ReleasingServer, digest: bytes) -> tuple[Manifest, Task]:
    """Go on with what an earlier run has begun."""
    server.tell(f"manifest {digest.hex()} was begun in an earlier run, which goes on")
    manifest = await unless_refused(party, lambda: server.sealed_manifest(digest))
    task = await unless_refused(party, lambda: server.collection.task(manifest.clients, bytes.fromhex(manifest.toss)))
    return manifest, task


def middle_time(standings: dict[int, Standing]) -> datetime.datetime:
    """The middle one of the servers' clocks, which no minority can move beyond honest ones."""
    middle = statistics.median_low([standing.time for standing in standings.values()])
    try:
        return datetime.datetime.fromtimestamp(middle, datetime.UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise MalformedFrame(f"STANDING frames tell the time {middle}: {error}") from error


async def exchange_shares(party: Party, task: Task, own: Words) -> dict[int, Words]:
    """Step 5: the only message that tells anything about the reports."""
    frame = party.runtime.frame(Kind.SHARE, own)
    shape = (task.sketch.rows, task.width)

    async def receive(peer: int) -> Words:
        return (await party.runtime.receive_frame(peer, Kind.SHARE, ContentType.WORDS, shape)).words

    with party.meter.phase("open"):
        for peer in party.runtime.peers:
            await party.runtime.send_frame(peer, frame)
        received = await asyncio.gather(*[receive(peer) for peer in party.runtime.peers])
    return {party.pid: own, **dict(zip(party.runtime.peers, received, strict=True))}


async def compare_openings(party: Party, opened: Release, wrong: tuple[int, ...]) -> Wrong:
    """Step 5: all must have opened the same sums; return whose shares each server found to be wrong."""
    own = sums_digest(opened) + bytes(server in wrong for server in range(party.servers))
    findings = {}
    told = await exchange_bytes(party, Kind.DIGEST, own, len(own))
    for server, finding in zip(party.present, told, strict=True):
        digest, flags = finding[: -party.servers], finding[-party.servers :]
        if digest != sums_digest(opened):
            raise InconsistentShares(
                f"server {server} opened other sums than server {party.pid}: one of them was lied to"
            )
        findings[server] = tuple(number for number, flag in enumerate(flags) if flag)
    return findings


async def certify(
    party: Party, server: ReleasingServer, manifest: Manifest, opened: Release, findings: Wrong
) -> Certificate:
    """Step 6: the first server's words, everybody's signatures."""
    own = await asyncio.to_thread(state, server.collection, manifest, opened, findings)
    statement = await first_statement(party, own)
    signature = await unless_refused(party, lambda: checked_signature(server, statement, own))
    for peer in party.runtime.peers:
        await party.runtime.send_frame(peer, party.runtime.frame(Kind.SIGNATURE, signature))
    signatures = {party.pid: signature}
    for peer in party.runtime.peers:
        frame = await party.runtime.receive_frame(peer, Kind.SIGNATURE, ContentType.BYTES)
        signatures[peer] = frame.raw
    certificate = Certificate(1, statement, {str(number): signatures[number].hex() for number in party.present})
    await unless_refused(party, lambda: check_signatures(server, certificate))
    return certificate


async def exchange_costs(party: Party) -> tuple[Report, ...]:
    """Step 6: what the run has cost each server so far, as it says itself."""
    own = party.meter.report()
    for peer in party.runtime.peers:
        await party.runtime.send_frame(peer, party.runtime.frame(Kind.COST, msgspec.json.encode(own)))
    costs = {party.pid: own}
    for peer in party.runtime.peers:
        costs[peer] = report_from((await party.runtime.receive_frame(peer, Kind.COST, ContentType.BYTES)).raw, peer)
    return tuple(costs[number] for number in party.present)


async def first_statement(party: Party, own: Statement) -> Statement:
    """The statement of the first server that takes part: numbers that differ by rounding are told once."""
    first = party.present[0]
    if party.pid == first:
        for peer in party.runtime.peers:
            await party.runtime.send_frame(peer, party.runtime.frame(Kind.STATEMENT, own.encode()))
        return own
    return Statement.decode((await party.runtime.receive_frame(first, Kind.STATEMENT, ContentType.BYTES)).raw)


def checked_signature(server: ReleasingServer, statement: Statement, own: Statement) -> bytes:
    """Sign what is one's own view too."""
    require_same(statement, own)
    return statement.sign(server.identity)


def check_signatures(server: ReleasingServer, certificate: Certificate) -> None:
    """Check everybody's signature under the key that the collection pins."""
    for number, signature in certificate.signatures.items():
        pinned = server.collection.servers[int(number)].certificate.encode()
        verify_signature(pinned, certificate.statement.message, bytes.fromhex(signature))

"""The release of a collection: M servers, no analyst, and nothing opened that any of them refuses.

Parties: the servers of a collection (`dpmpc.collect`). Each holds a spool of shares, a ledger of what it has opened,
and a signing key that the collection pins. What is opened is the release, which is public, so every server opens it.

0. Every server stops taking reports for good, and checks by itself that the collection has closed and not expired.
1. The servers announce which manifests they have sealed, or begun to open, and what their clocks say. If no
   server has begun anything they agree on a batch, the reports that all of them hold
   (`dpmpc.collect.opening.agreement`). Each has left out the reports that are damaged, or that its ledger has opened,
   and announces how many.
2. Every server checks the batch by itself: its size. With Shamir shares they leave out the reports that were not dealt
   as they should be (`dpmpc.collect.opening.dealing_checks`), and where clients prove what they share those whose
   proofs do not hold (`dpmpc.collect.opening.proof_checks`). Where sums are in Shamir shares and servers add the noise,
   they deal it (`dpmpc.collect.opening.noise_dealing`).
3. They toss a coin for the public matrix; it also chooses among the reports, should these be more than the largest
   batch (`Collection.chosen`). Each recomputes the guarantee for this batch and this matrix.
4. They seal the manifest: collection, batch, toss, task, and the digest of noise that was dealt, their shares of which
   they keep. When all have, each transforms its share. When all have done
   that, each binds the reports to the manifest for good, in its ledger, together with the transformed share.
5. When all have done that, they reveal their transformed shares: each commits to its own, and when all have heard and
   stored the same commitments (`dpmpc.collect.store.openings`), each sends its share to all others and opens the sums:
   with Shamir shares although some may be wrong, where 3t + 1 servers are present, and if they agree where fewer are.
   All compare what they opened, and whose shares were wrong. A server that is itself among these refuses.
6. The first server states what came of it; every one compares that with its own view, and signs it. All exchange
   signatures, announce what the run has cost them, for their reports, and write the same file.

The steps of the conversation are those of `dpmpc.parties.network.conversation`. All but report ids, shares and messages
of the checks is announced: a server that sends different servers different things ends the run, and is named where that
can be proven. Each judges what it has received in `together`, so that all know of a refusal and no server takes it for
a lost link. What is exchanged is compared with what its sender has announced.

A refusal in steps 0 to 4 ends the run for all, with its reason; no share of sums has been sent then.

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

from dpmpc.base.errors import AlreadyReleased, GuaranteeError, InconsistentShares, VerificationFailed
from dpmpc.base.untrusted import ReadError, printable, read_json
from dpmpc.collect.opening.agreement import Batch, agree_on_batch, batch_digest, require_unaccused
from dpmpc.collect.opening.dealing_checks import check_dealing
from dpmpc.collect.opening.noise_dealing import deal_noise
from dpmpc.collect.opening.proof_checks import check_proofs
from dpmpc.collect.opening.releasing import Released, ReleasingServer, Standing
from dpmpc.collect.terms.certificate import (
    DAMAGED,
    DEALT_WRONGLY,
    RELEASED_BEFORE,
    WITHDRAWN,
    Certificate,
    Manifest,
    Statement,
    manifest_of,
    require_same,
    state,
    sums_digest,
)
from dpmpc.collect.terms.task_file import Collection
from dpmpc.collect.terms.verifying import check_time
from dpmpc.linear.sharing import ShamirSharing
from dpmpc.parties.network.announcing import announce, explained, settle
from dpmpc.parties.network.conversation import confirm, reveal, together, toss
from dpmpc.parties.network.frames import Kind, malformed_frame
from dpmpc.parties.network.identity import LONGEST_SIGNATURE, verify_signature
from dpmpc.parties.network.meter import RunStatistics, rounded, statistics_from
from dpmpc.parties.network.party import Party
from dpmpc.privacy.task import VerifiedTask
from dpmpc.release.analyst import open_robustly
from dpmpc.release.release import Release

LEFT_OUT_ALONE = (RELEASED_BEFORE, DAMAGED, WITHDRAWN)  # why a server leaves out reports by itself
Wrong = dict[int, tuple[int, ...]]

SLACK_BYTES = 1 << 12  # how much the lengths of statements may differ that differ in rounding alone


async def take_part(party: Party, server: ReleasingServer) -> Released:
    """Run one server from the first connection to the last."""
    await party.runtime.start()
    released = await explained(party, release(party, server))
    await party.runtime.shutdown()
    return released


async def release(party: Party, server: ReleasingServer) -> Released:
    """Run the steps above; return what all servers have signed, and what it has cost them."""
    await together(party, server.require_ready)
    standings = await exchange_standings(party, server)
    begun = await together(party, lambda: what_was_begun(standings))
    if begun is None:
        manifest, task = await agree(party, server, standings)
    else:
        manifest, task = await resume(party, server, begun)
    await confirm(party, manifest.digest, "manifest that is sealed")
    server.tell(f"manifest {manifest.digest.hex()} is sealed by all; each transforms its share")
    sums = await together(party, lambda: server.transformed_share(manifest, task, party.meter))
    share, salt = await together(
        party, lambda: (server.bound_share(manifest, sums), server.openings.salt(manifest.digest, begun=True))
    )
    await confirm(party, manifest.digest, "manifest that is about to be opened")
    final = not isinstance(server.collection.plan.scheme, ShamirSharing)
    with party.meter.phase("open"):
        shares = await reveal(
            party,
            f"share of manifest {manifest.digest.hex()}",
            share,
            nonce=salt,
            keep=lambda committed: server.openings.keep(manifest.digest, committed, final=final),
        )
    opened, wrong = await together(party, lambda: open_robustly(task, shares))
    server.tell(f"opened; wrong shares: {f'those of servers {list(wrong)}' if wrong else 'none'}")
    findings = await compare_openings(party, opened, wrong)
    certificate = await certify(party, server, manifest, opened, findings)
    costs = await exchange_costs(party)
    await together(party, lambda: server.save(opened, certificate))
    await settle(party)
    server.finish(manifest)
    return Released(certificate, costs)


def _by_server(entries: Mapping[int, object]) -> str:
    """Return a line with an entry for each server."""
    return ", ".join(f"server {number}: {entry}" for number, entry in entries.items())


async def exchange_standings(party: Party, server: ReleasingServer) -> dict[int, Standing]:
    """Step 1: announce who has sealed and begun what, and the time of each clock."""
    own = await together(party, server.standing)
    told = await announce(party, Kind.STANDING, msgspec.json.encode(own))
    return await together(
        party, lambda: {number: read_standing(raw, number, server.collection) for number, raw in told.items()}
    )


def read_standing(raw: bytes, server: int, collection: Collection) -> Standing:
    """Step 1: read what a server announces, with its clock, which must lie between opening and expiry."""
    try:
        standing = read_json(raw, Standing)
        time = datetime.datetime.fromtimestamp(standing.time, datetime.UTC)
    except (ReadError, ValueError, OverflowError, OSError) as error:
        raise malformed_frame(server, Kind.STANDING, error) from error
    if not collection.opens <= time < collection.expires:
        raise malformed_frame(
            server,
            Kind.STANDING,
            f"its clock shows {time.isoformat(timespec='seconds')}, a time "
            f"from {collection.opens.isoformat()} to {collection.expires.isoformat()} expected",
        )
    if not standing.closed <= collection.closes.timestamp():
        raise malformed_frame(server, Kind.STANDING, f"it closed at {standing.closed:.0f}, after the closing time")
    return standing


def what_was_begun(standings: dict[int, Standing]) -> bytes | None:
    """Step 1: return the digest of the manifest to go on with, or None to start anew."""
    begun = {digest: server for server, standing in standings.items() for digest in standing.begun}
    if not begun:
        return None
    if len(begun) > 1:
        raise AlreadyReleased("manifest", f"servers have begun to open {len(begun)} different ones, one expected")
    ((digest, first),) = begun.items()
    for server, standing in standings.items():
        if digest not in standing.begun + standing.sealed:
            raise AlreadyReleased(
                "manifest",
                f"server {first} has begun to open {digest}, to which server {server} has not agreed; only "
                "servers that have may go on with it",
            )
    return bytes.fromhex(digest)


def what_came_earlier(standings: dict[int, Standing]) -> dict[str, str]:
    """Step 1: return the other epochs of the series that were begun, of which all ledgers must hold the same."""
    (first, known), *others = ((server, standing.earlier) for server, standing in standings.items())
    for server, earlier in others:
        if earlier != known:
            raise GuaranteeError(
                "series",
                f"server {first} has begun epochs {sorted(known, key=int)}, and server {server} "
                f"{sorted(earlier, key=int)}, or others of these, the same expected: a ledger was put back, "
                "or lost, or a server has not taken part. What it has forgotten would be spent again "
                "(docs/deploy.md)",
            )
    return known


async def agree(party: Party, server: ReleasingServer, standings: dict[int, Standing]) -> tuple[Manifest, VerifiedTask]:
    """Agree (steps 1 to 4) on batch and toss, check them, and seal the manifest that follows from them."""
    earlier = await together(party, lambda: what_came_earlier(standings))
    own = await together(party, server.available)
    left_out = await exchange_left_out(party, server, own.left_out)
    batch = await agree_on_batch(party, own.ids, server.collection.most_stored)
    server.tell(f"batch: {len(batch.ids)} reports held by all; lacked by {_by_server(batch.lacked)}")
    await together(party, lambda: server.require_batch(batch))
    refused: dict[str, int] = {}
    odd: dict[int, int] = {}
    if server.collection.proved:
        batch, refused, odd = await leave_out_unproved(party, server, batch)
    if server.collection.checked_dealing:
        batch = await leave_out_bad_dealings(party, server, batch, left_out)
    noise = await deal_noise(party, server) if server.collection.plan.noise_is_dealt else None
    tossed = await toss(party, "the public matrix")
    chosen = await asyncio.to_thread(server.collection.chosen, batch.ids, tossed)
    if len(chosen) < len(batch.ids):
        server.tell(
            f"batch: {len(chosen)} of the {len(batch.ids)} reports chosen by the toss, the most that are opened"
        )
    dealers = () if noise is None else noise.dealers
    task = await together(party, lambda: server.collection.task(len(chosen), tossed, dealers=len(dealers) or None))
    manifest = manifest_of(
        server.collection,
        task,
        batch=batch_digest(chosen),
        toss=tossed,
        time=middle_time(standings),
        closed=max(standing.closed for standing in standings.values()),
        left_out={str(number): counts for number, counts in sorted(left_out.items()) if counts},
        refused=refused,
        odd={str(number): count for number, count in sorted(odd.items())},
        dealers=dealers,
        noise=b"" if noise is None else noise.digest,
        earlier=earlier,
    )
    await confirm(party, manifest.digest, "manifest")
    await together(party, lambda: server.seal(manifest, chosen, None if noise is None else noise.share))
    return manifest, task


async def exchange_left_out(party: Party, server: ReleasingServer, own: dict[str, int]) -> dict[int, dict[str, int]]:
    """Step 1: announce how many reports each leaves out before there is a batch, and why."""
    told = await announce(party, Kind.LEFT_OUT, msgspec.json.encode(own))
    counts = await together(
        party,
        lambda: {number: read_left_out(raw, number, server.collection.most_stored) for number, raw in told.items()},
    )
    lines = {number: ", ".join(f"{count} {reason}" for reason, count in one.items()) for number, one in counts.items()}
    if any(lines.values()):
        server.tell(f"left out by {_by_server({number: text or 'none' for number, text in lines.items()})}")
    return counts


def read_left_out(raw: bytes, server: int, most: int) -> dict[str, int]:
    """Step 1: read how many reports a server leaves out, by reason, at most as many as it can hold."""
    try:
        counts = read_json(raw, dict[str, int])
    except ReadError as error:
        raise malformed_frame(server, Kind.LEFT_OUT, error) from error
    if not all(reason in LEFT_OUT_ALONE and 0 < count <= most for reason, count in counts.items()):
        raise malformed_frame(server, Kind.LEFT_OUT, printable(str(counts)))
    return counts


async def leave_out_bad_dealings(
    party: Party, server: ReleasingServer, batch: Batch, left_out: dict[int, dict[str, int]]
) -> Batch:
    """Step 2: leave out of the batch, and count, the reports whose Shamir shares lie on no polynomial."""
    checked = await check_dealing(party, server, batch.ids)
    await confirm(party, batch_digest(checked.ids), "batch: the reports that were dealt as they should be")
    judgement, bad = checked.judgement, len(batch.ids) - len(checked.ids)
    if bad:
        odd = (
            _by_server({number: f"odd in {count}" for number, count in judgement.odd.items() if count}) or "nobody odd"
        )
        server.tell(f"{bad} of {len(batch.ids)} reports are dealt wrongly, or servers lie about them: {odd}")
        for counts in left_out.values():
            counts[DEALT_WRONGLY] = bad
    kept = Batch(checked.ids, batch.lacked)
    await together(party, lambda: server.require_batch(kept, {DEALT_WRONGLY: bad} if bad else {}))
    return kept


async def leave_out_unproved(
    party: Party, server: ReleasingServer, batch: Batch
) -> tuple[Batch, dict[str, int], dict[int, int]]:
    """Step 2: leave out of the batch, and count, the reports whose proofs do not hold, and whose messages were off."""
    checked = await check_proofs(party, server, batch.ids)
    server.tell(f"{len(checked.ids)} of {len(batch.ids)} reports are proved")
    kept = Batch(checked.ids, batch.lacked)
    await together(party, lambda: server.require_batch(kept, checked.refused))
    return kept, checked.refused, checked.odd


async def resume(party: Party, server: ReleasingServer, digest: bytes) -> tuple[Manifest, VerifiedTask]:
    """Continue the release that an earlier run has begun."""
    server.tell(f"manifest {digest.hex()} was begun in an earlier run, which goes on")
    manifest = await together(party, lambda: server.sealed_manifest(digest))
    tossed, dealers = bytes.fromhex(manifest.toss), len(manifest.dealers) or None
    task = await together(party, lambda: server.collection.task(manifest.clients, tossed, dealers=dealers))
    return manifest, task


def middle_time(standings: dict[int, Standing]) -> datetime.datetime:
    """Return the median of the servers' clocks (the earlier of two), which no minority moves beyond honest ones."""
    middle = statistics.median_low([standing.time for standing in standings.values()])
    return datetime.datetime.fromtimestamp(middle, datetime.UTC)


async def compare_openings(party: Party, opened: Release, wrong: tuple[int, ...]) -> Wrong:
    """Step 5: check that all have opened the same sums and blame the same servers; return whom, by who found it."""
    own = sums_digest(opened) + bytes(server in wrong for server in range(party.servers))
    told = await announce(party, Kind.DIGEST, own, len(own))
    return await together(party, lambda: read_findings(party, told))


def read_findings(party: Party, told: Mapping[int, bytes]) -> Wrong:
    """Step 5: compare what all found; it follows from the same shares, as all have heard the same commitments."""
    own = told[party.pid]
    for server, finding in told.items():
        if finding != own:
            what = "opened other sums" if finding[: -party.servers] != own[: -party.servers] else "blames others"
            raise InconsistentShares(
                f"sums: server {server} {what} than server {party.pid}, from the same shares: one of the two lies"
            )
    wrong = tuple(number for number, flag in enumerate(own[-party.servers :]) if flag)
    require_unaccused(party.pid, wrong, "shares of the sums")
    return dict.fromkeys(told, wrong)


async def certify(
    party: Party, server: ReleasingServer, manifest: Manifest, opened: Release, findings: Wrong
) -> Certificate:
    """Step 6: take the first server's statement, and collect every server's signature of it."""
    own = await asyncio.to_thread(state, server.collection, manifest, opened, findings)
    statement = await first_statement(party, own)
    signature = await together(party, lambda: checked_signature(server, statement, own))
    signatures = await announce(party, Kind.SIGNATURE, signature, largest=LONGEST_SIGNATURE)
    certificate = Certificate(1, statement, {str(number): one.hex() for number, one in signatures.items()})
    await together(party, lambda: check_signatures(server, certificate))
    return certificate


async def exchange_costs(party: Party) -> tuple[RunStatistics, ...]:
    """Step 6: announce what the run has cost each so far, rounded; no server checks that."""
    told = await announce(party, Kind.COST, msgspec.json.encode(rounded(party.meter.statistics())))
    return await together(party, lambda: tuple(rounded(statistics_from(raw, number)) for number, raw in told.items()))


async def first_statement(party: Party, own: Statement) -> Statement:
    """Return the statement of the first server that takes part: one statement, although numbers differ by rounding."""
    first = party.present[0]
    words = own.encode() if party.pid == first else b""
    told = await announce(party, Kind.STATEMENT, words, largest=2 * len(own.encode()) + SLACK_BYTES)
    return await together(party, lambda: read_statement(told[first], first))


def read_statement(raw: bytes, server: int) -> Statement:
    """Step 6: read the statement of a server."""
    try:
        return Statement.decode(raw)
    except VerificationFailed as error:
        raise malformed_frame(server, Kind.STATEMENT, error) from error


def checked_signature(server: ReleasingServer, statement: Statement, own: Statement) -> bytes:
    """Sign a statement that agrees with this server's own, and that `dpmpc verify` accepts."""
    require_same(statement, own)
    check_time(server.collection, statement.manifest)
    return statement.sign(server.identity)


def check_signatures(server: ReleasingServer, certificate: Certificate) -> None:
    """Check every server's signature under the key that the collection pins."""
    for number, signature in certificate.signatures.items():
        pinned = server.collection.servers[int(number)].certificate.encode()
        try:
            verify_signature(pinned, certificate.statement.message, bytes.fromhex(signature))
        except VerificationFailed as error:
            raise VerificationFailed(f"signature of server {number}", error) from error

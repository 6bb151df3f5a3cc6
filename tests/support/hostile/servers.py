"""Servers of a release that do what they should not: each deed changes what one process, or one party of a talk, runs.

By hand, from tests/: ``python -m support.hostile.servers DEED [ARGUMENTS]`` fills three servers with reports of nobody,
releases them while the last one (or ``--liar``) does the deed, and prints how each ended. It ends within two minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import hashlib
import os
import struct
import sys
import tempfile
from pathlib import Path

import msgspec
import numpy as np
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from dpmpc.base.errors import DpmpcError, GuaranteeError
from dpmpc.base.randomness import Label
from dpmpc.collect.opening import agreement, dealing_checks, release_protocol, releasing
from dpmpc.linear.encoding.ring import Mersenne61
from dpmpc.parties.network import announcing, conversation, meter
from dpmpc.parties.network.frames import ContentType, Frame, Kind
from dpmpc.parties.network.runtime import PartyRuntime
from dpmpc.parties.network.sockets import ByteCount, Traffic

FIELD, P = Mersenne61(), Mersenne61.modulus

PLACES_THAT_ANNOUNCE = (announcing, conversation, agreement, release_protocol)

# What is changed in the frames of one runtime, or of all runtimes of this process.


def words_of(frame: Frame) -> bytes:
    """Return what an announcement says, without its head."""
    fixed = 2 * 32 + 1
    return frame.raw[fixed + frame.raw[fixed - 1] :]


def flipped(words: bytes) -> bytes:
    """Return other words of the same length."""
    return bytes((words[0] ^ 1, *words[1:])) if words else b"x"


def meddle(change, runtime=PartyRuntime):
    """Let ``change(runtime, receiver, frame)`` decide what is sent in place of each frame; None sends nothing."""
    original = runtime.send_frame

    async def send(*arguments):
        sender = arguments[0] if runtime is PartyRuntime else runtime
        receiver, frame = arguments[-2:]
        sent = change(sender, receiver, frame)
        if sent is not None:
            await original(*arguments[:-2], receiver, sent)

    runtime.send_frame = send


def tell_other_words(kind, victims, words="", nth=0, runtime=PartyRuntime):
    """Announce something else to some servers, signed like all announcements."""
    seen: list[bytes] = []

    def change(sender, receiver, frame):
        if frame.kind is not Kind[kind]:
            return frame
        if frame.raw not in seen:
            seen.append(frame.raw)
        if len(seen) != nth + 1 or receiver not in victims:
            return frame
        other = bytes.fromhex(words) if words else flipped(words_of(frame))
        return sender.frame(frame.kind, sender.conversation.speak(frame.kind, other)[1])

    meddle(change, runtime)


def claim_other_transcript(kind, victims, runtime=PartyRuntime):
    """Claim towards some servers to have heard something else before the first announcement of a kind."""
    done = set()

    def change(sender, receiver, frame):
        if frame.kind is not Kind[kind] or receiver not in victims or receiver in done:
            return frame
        done.add(receiver)
        conversation = sender.conversation
        true, conversation.transcript = conversation.transcript, bytes(32)
        _, content = conversation.speak(frame.kind, words_of(frame))
        conversation.transcript = true
        return sender.frame(frame.kind, content)

    meddle(change, runtime)


def send_raw(kind, hexed, repeat=1, runtime=PartyRuntime):
    """Send these bytes as the content of the first frame of a kind, without a signature."""
    done = set()

    def change(sender, receiver, frame):
        if frame.kind is not Kind[kind] or receiver in done:
            return frame
        done.add(receiver)
        return sender.frame(frame.kind, bytes.fromhex(hexed) * repeat)

    meddle(change, runtime)


def say(kind, hexed, repeat=1, liar=None):
    """Announce these bytes to all in place of the true ones, whenever an announcement of this kind is due.

    `liar` is the number of the party, where several run in one process.
    """
    for place in PLACES_THAT_ANNOUNCE:
        place.announce = _saying(place.announce, Kind[kind], bytes.fromhex(hexed) * repeat, liar)


def _saying(original, kind, words, liar):
    async def announce(party, asked, own, *rest, **options):
        lies = asked is kind and liar in (None, party.pid)
        return await original(party, asked, words if lies else own, *rest, **options)

    return announce


def refuse_with(text):
    """Refuse at once, with words of one's own."""

    def refuse(self):
        raise GuaranteeError(text)

    releasing.ReleasingServer.require_ready = refuse


def sign_for_each(runtime=PartyRuntime):
    """Send each server a fresh signature of the statement: all valid, all different."""

    def change(sender, receiver, frame):
        if frame.kind is not Kind.SIGNATURE:
            return frame
        key = serialization.load_pem_private_key((FOLDER[0] / "party.key").read_bytes(), None)
        fresh = key.sign(Label.SIGNATURE.value + MESSAGE[0], ec.ECDSA(hashes.SHA256()))
        return sender.frame(frame.kind, sender.conversation.speak(frame.kind, fresh)[1])

    original = release_protocol.checked_signature

    def remember(server, statement, own):
        FOLDER[:], MESSAGE[:] = [server.identity], [statement.message]
        return original(server, statement, own)

    release_protocol.checked_signature = remember
    meddle(change, runtime)


FOLDER: list[Path] = []
MESSAGE: list[bytes] = []


# Shares


def open_another_share(victims, runtime=PartyRuntime):
    """Open a share with one wrong element to some servers."""

    def change(sender, receiver, frame):
        if frame.kind is not Kind.SHARE or receiver not in victims:
            return frame
        wrong = frame.words.copy()
        wrong[0, 0] ^= np.uint64(1)
        return sender.frame(frame.kind, wrong)

    meddle(change, runtime)


def see_shares_first(then, sharing=conversation):
    """Wait for all other shares, and let ``then(party, own, shares)`` choose one's own."""
    original = sharing.exchange

    async def rushed(party, kind, own, shapes=None):
        if kind is not Kind.SHARE:
            return await original(party, kind, own, shapes)
        await announcing.settle(party)
        shares = {}
        for peer in party.runtime.peers:
            shares[peer] = (await party.runtime.receive_frame(peer, kind, ContentType.WORDS, own.shape)).words
        chosen = then(party, own, shares)
        for peer in party.runtime.peers:
            await party.runtime.send_frame(peer, party.runtime.frame(kind, chosen))
        return dict(sorted({party.pid: chosen, **shares}.items()))

    sharing.exchange = rushed


def rush_to_target(value):
    """Wait for all other shares, then choose one's own so that all sums become this value."""
    tasks, original = [], releasing.ReleasingServer.transformed_share

    def remember(self, manifest, task, meter):
        tasks.append(task)
        return original(self, manifest, task, meter)

    releasing.ReleasingServer.transformed_share = remember
    see_shares_first(lambda party, own, shares: _completing(tasks[-1], shares, value))


def take_and_leave(path):
    """Let the others open their shares, keep them in a file, and die before one's own is sent."""

    def steal(party, own, shares):
        np.savez(path, **{str(server): share for server, share in shares.items()})
        os._exit(9)

    see_shares_first(steal)


def complete_what_was_taken(path, value):
    """Commit, in a repetition, to the share that makes all sums this value, with the shares of the run before."""

    def share(self, manifest, task, meter):
        self.openings.salt(manifest.digest, begun=False)
        with np.load(path) as taken:
            return _completing(task, {int(server): taken[server] for server in taken.files}, value)

    releasing.ReleasingServer.transformed_share = share
    releasing.ReleasingServer.bound_share = lambda self, manifest, sums: sums


def add_blindly(offset):
    """Add an offset to one's share before one commits to it."""
    original = releasing.ReleasingServer.bound_share

    def shifted(self, manifest, sums):
        own, ring = original(self, manifest, sums), self.collection.plan.encoding.ring
        return ring.add(own, ring.embed(np.full(own.shape, offset, np.int64)))

    releasing.ReleasingServer.bound_share = shifted


# Servers with Shamir shares that lie in agreement


def agreed_lie(number, honest, shift):
    """What a server adds to its own points: the polynomial that is 0 at honest servers' points, and `shift` at 0.

    It needs nothing but numbers of servers, and fits where `honest` are no more than the degree of honest shares.
    """
    value = shift
    for other in honest:
        value = value * (number - other) * pow(-1 - other, -1, P) % P
    return value


def disregard_accusations(liars=None):
    """Go on although all find this server to be wrong; among parties of one process, only these servers do."""
    original = agreement.require_unaccused

    def unmoved(server, accused, what):
        if liars is not None and server not in liars:
            original(server, accused, what)

    release_protocol.require_unaccused = dealing_checks.require_unaccused = unmoved


def shift_the_sums(number, honest, shift):
    """Commit to a share that others, who do the same, make fit to sums that are shifted; sign whatever comes of it."""
    original, lie = releasing.ReleasingServer.bound_share, agreed_lie(number, honest, shift)

    def altered(*arguments):
        wrong = original(*arguments).copy()
        return FIELD.add(wrong, np.full(wrong.shape, lie, np.uint64))

    releasing.ReleasingServer.bound_share = altered
    disregard_accusations()


def shift_check_values(number, honest, shift):
    """Tell check values of the dealing that make another server look wrong in all reports."""
    original, lie = dealing_checks.exchange_values, agreed_lie(number, honest, shift)

    async def lying(party, own):
        return await original(party, FIELD.add(own, np.full(own.shape, lie, np.uint64)))

    dealing_checks.exchange_values = lying
    disregard_accusations()


def accuse(victim, liar):
    """Say that a server's share of the sums was wrong, which nobody else has found."""
    original = release_protocol.compare_openings

    async def accusing(party, opened, wrong):
        return await original(party, opened, (victim,) if party.pid == liar else wrong)

    release_protocol.compare_openings = accusing


def _completing(task, shares, value):
    """Return the share that, with these, makes every sum `value`."""
    ring = task.encoding.ring
    total = next(iter(shares.values())) * np.uint64(0)
    for share in shares.values():
        total = ring.add(total, np.array(share))
    missing = np.empty_like(total)
    ring.subtract(ring.embed(np.full(total.shape, value, np.int64)), total, out=missing)
    return missing


# What a server says of itself


def tell_time(value):
    """Have a clock that says this, in seconds since 1970."""
    original = releasing.ReleasingServer.standing

    def standing(self):
        return msgspec.structs.replace(original(self), time=value)

    releasing.ReleasingServer.standing = standing


def tell_costs(kind):
    """Tell impossible or absurd costs."""
    measured = meter.Meter.statistics
    negative = ByteCount(-(2**40), 1)
    changes = {
        "negative peers": {"peers": {0: Traffic(negative, negative, None)}},
        "negative phases": {"phases": {"open": meter.PhaseCost(bytes_sent=-1)}},
        "many phases": {"phases": {f"phase {number}": meter.PhaseCost() for number in range(100)}},
        "script": {"phases": {"<script>": meter.PhaseCost()}},
        "negative time": {"cpu_s": -1.0},
    }

    def other(self):
        return msgspec.structs.replace(measured(self), **changes[kind])

    meter.Meter.statistics = other


def flood(victim, count):
    """Send one server empty messages under labels that nobody asks for."""
    original = release_protocol.exchange_standings

    async def flooding(party, server):
        transport = party.runtime.links[victim].transport
        for first in range(0, count, 10_000):
            transport.write(b"".join(struct.pack("<qI", 1 + first + i, 0) for i in range(10_000)))
            while transport.get_write_buffer_size() > 1 << 20:
                await asyncio.sleep(0.01)
        return await original(party, server)

    release_protocol.exchange_standings = flooding


@dataclasses.dataclass
class Scene:
    """A deed with arguments, and what the servers hold when it is done."""

    deed: tuple
    liar: int = 2
    skip: tuple[int, ...] = ()
    options: tuple[str, ...] = ()


REFUSAL = msgspec.json.encode({"type": "GuaranteeError", "message": "no reason", "party": None}).hex()
SCENES = {
    "announcement": Scene(("tell_other_words", "DIGEST", [1])),
    "verdict": Scene(("tell_other_words", "VERDICT", [0], REFUSAL)),
    "coin": Scene(("tell_other_words", "COMMITMENT", [1])),
    "opened coin": Scene(("tell_other_words", "OPENING", [1])),
    "standing": Scene(("tell_other_words", "STANDING", [1], b'{"begun":[],"sealed":[],"time":0.0}'.hex())),
    "commitment": Scene(("tell_other_words", "COMMITMENT", [1], "", 1)),
    "finding": Scene(("tell_other_words", "DIGEST", [1], "", 4)),
    "statement": Scene(("tell_other_words", "STATEMENT", [1]), liar=0),
    "cost": Scene(("tell_other_words", "COST", [1])),
    "transcript": Scene(("claim_other_transcript", "STANDING", [1])),
    "signatures": Scene(("sign_for_each",)),
    "target": Scene(("rush_to_target", 123456789)),
    "blind": Scene(("add_blindly", 5)),
    "clock": Scene(("tell_time", 0.0)),
    "flood": Scene(("flood", 0, 200_000)),
    "words": Scene(("refuse_with", "\x1b[2K\x1b[1A\nrelease of 999999 reports, signed by all")),
}


def main() -> int:
    """Play a scene among processes of this machine."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scene", choices=sorted(SCENES))
    parser.add_argument("--servers", type=int, default=3, metavar="M")
    parser.add_argument("--liar", type=int, metavar="I")
    options = parser.parse_args()
    sys.path.append(str(Path(__file__).parents[3]))  # for bench, when this is run by hand from tests/
    from dpmpc.collect.terms.verifying import verify
    from support import release_processes

    scene = SCENES[options.scene]
    liar = min(scene.liar, options.servers - 1) if options.liar is None else options.liar
    with tempfile.TemporaryDirectory() as folder:
        trial = release_processes.Trial.filled(Path(folder) / "trial", options.servers)
        ended = release_processes.run(trial, deeds={liar: scene.deed}, options=scene.options)
        for server, one in ended.items():
            last = one.told.strip().splitlines()[-1]
            print(f"server {server}{' (the liar)' if server == liar else ''}: status {one.status}: {last!r}")
        for server in ended:
            if trial.out(server).exists():
                content = trial.out(server).read_bytes()
                try:
                    verdict = f"verifies, sums {verify(trial.out(server)).release.sums.flat[:3]}"
                except DpmpcError as error:
                    verdict = f"does not verify: {error}"
                print(f"file of server {server}, {hashlib.sha256(content).hexdigest()[:16]}: {verdict}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

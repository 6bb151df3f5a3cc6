"""Owners of columns who do not keep to the protocol of `dpmpc mix`; by hand, one party of a prepared release::

    python -m support.hostile.owners "leave with the releases" plan/party-0 --data a.csv --key id --loot stolen.npz
    python -m support.hostile.owners "fit its release to the loot" plan/party-0 --data a.csv --key id --loot stolen.npz

`misbehave` changes what a party sends. It runs inside that party's process, and knows what the party knows.
"""

import argparse
import hashlib
import os
import signal
import sys
from pathlib import Path

import numpy as np

from dpmpc.owners.columns import equality
from dpmpc.owners.columns.release_record import ReleaseRecord
from dpmpc.parties.network import conversation
from dpmpc.parties.network.frames import ContentType, Kind
from dpmpc.parties.network.settings import read_settings, write_source
from support.hostile.servers import tell_other_words

STEPS = ("coin", "key", "ciphertext", "mask", "opening", "release")
LOOT = "LOOT"  # the environment variable that says where stolen releases go

ANNOUNCED = {
    "open another coin": (Kind.OPENING, "coin"),
    "show another ciphertext": (Kind.OPENING, "ciphertext"),
    "show two masks": (Kind.OPENING, "mask"),
    "commit to two keys": (Kind.COMMITMENT, "key"),
    "commit to two releases": (Kind.COMMITMENT, "release"),
}
WORDS = (
    "hide behind another nonce",
    "show another release",
    "show two releases",
    "send a wrong shape",
    "die before it releases",
)
COMPARISON = ("prove nothing", "guess")
REPETITION = ("leave with the releases", "fit its release to the loot", "forget its release")
DEEDS = (*ANNOUNCED, *WORDS, *COMPARISON, *REPETITION)


def misbehave(party, deed, guess=0):
    """Let a party do one of DEEDS from now on; `guess` is the number that it puts into the comparison."""
    if deed not in DEEDS:
        raise ValueError(f"deed: {deed!r} given, one of {', '.join(DEEDS)} expected")
    if deed in COMPARISON:
        lie_in_comparison(deed, guess)
    if deed in REPETITION:
        forget_commitments(deed)
    if deed in ANNOUNCED:
        kind, step = ANNOUNCED[deed]
        if "two" in deed:
            tell_other_words(kind.name, [party.runtime.peers[0]], "", STEPS.index(step), party.runtime)
        else:
            announce_another(kind, STEPS.index(step))
    runtime, send = party.runtime, party.runtime.send_frame

    async def send_frame(receiver, frame):
        if frame.kind == Kind.SALT and deed == "hide behind another nonce":
            frame = runtime.frame(frame.kind, altered(frame.raw))
        if frame.kind == Kind.SHARE:
            frame = await altered_release(runtime, deed, receiver, frame)
        await send(receiver, frame)

    runtime.send_frame = send_frame


def announce_another(kind, nth):
    """Say something else to all in the nth announcement of a kind, signed, and the same for all."""
    honest, seen = conversation.announce, []

    async def announce(party, asked, own, *rest, **options):
        if asked is kind:
            seen.append(asked)
            own = altered(own) if len(seen) == nth + 1 else own
        return await honest(party, asked, own, *rest, **options)

    conversation.announce = announce


def altered(content):
    """Other bytes of the same length."""
    return hashlib.shake_256(content).digest(len(content))


async def altered_release(runtime, deed, receiver, frame):
    if deed == "die before it releases":
        os.kill(os.getpid(), signal.SIGKILL)
    if deed == "leave with the releases":
        received = [await runtime.receive_frame(peer, Kind.SHARE, ContentType.WORDS) for peer in runtime.peers]
        with open(os.environ[LOOT], "wb") as file:
            np.savez(file, *(frame.words for frame in received))
        os._exit(9)
    if deed == "show another release" or (deed == "show two releases" and receiver == runtime.peers[0]):
        return runtime.frame(Kind.SHARE, frame.words + np.uint64(1))
    if deed == "send a wrong shape":
        return runtime.frame(Kind.SHARE, frame.words[1:])
    return frame


def forget_commitments(deed):
    """Commit in a repetition to something else than before: another nonce, or a release made of the others'."""
    if deed != "leave with the releases":
        ReleaseRecord.nonce = property(lambda record: os.urandom(32))
        ReleaseRecord.keep_commitments = lambda record, commitments: None
    if deed == "fit its release to the loot":

        def fitted(record, toss, shape):
            with np.load(os.environ[LOOT]) as stolen:
                seen = sum(stolen[name].astype(np.uint64).sum(axis=1, dtype=np.uint64) for name in stolen.files)
            return np.repeat((np.uint64(0) - seen)[:, None], shape[1], axis=1).view(np.int64)

        ReleaseRecord.own_release = fitted


def lie_in_comparison(deed, guess):
    """Take part in comparisons with another number, or with proofs of nothing."""
    if deed == "guess":
        honest = equality.IdComparison.__init__

        def begin(self, number, parties, session, value, stream=None):
            honest(self, number, parties, session, guess, stream)

        equality.IdComparison.__init__ = begin
    else:
        equality.prove = lambda context, bases, images, witness, stream: bytes(32 * (1 + len(witness)))


def main():
    """Run one party of a prepared release that does a deed."""
    from dpmpc.owners.columns.mixing_parties import PartySource
    from dpmpc.parties.network import party as process
    from dpmpc.protocols import random_mixing

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("deed", choices=DEEDS)
    parser.add_argument("folder", type=Path, help="the folder of `dpmpc mix --prepare` of this party")
    parser.add_argument("--data", required=True)
    parser.add_argument("--key", required=True)
    parser.add_argument("--loot", help="where stolen releases go")
    options = parser.parse_args()
    if any(host != "127.0.0.1" for host, _ in read_settings(options.folder).addresses):
        parser.error("folder: parties on 127.0.0.1 expected, this one misbehaves on loopback alone")
    if options.loot is not None:
        os.environ[LOOT] = options.loot
    write_source(options.folder, PartySource(str(Path(options.data).resolve()), options.key))
    honest = random_mixing.main

    async def hostile(party):
        misbehave(party, options.deed)
        return await honest(party)

    random_mixing.main = hostile
    sys.argv = ["party", str(options.folder), random_mixing.__name__]
    return process.main()


if __name__ == "__main__":
    sys.exit(main())

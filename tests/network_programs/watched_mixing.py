"""`random_mixing`, with every message of a party kept in its folder, and parties that cheat or break where told to."""

import hashlib
import os
import shutil
import signal
from pathlib import Path

import numpy as np

from dpmpc.network.backend import asyncoro
from dpmpc.network.frames import Kind
from dpmpc.protocols import random_mixing


def watch(log):
    """Keep what is handed to TLS, below our frames and MPyC's own messages."""
    send = asyncoro.MessageExchanger.send

    def watched(link, label, payload):
        with open(log, "ab") as file:
            file.write(payload)
        send(link, label, payload)

    asyncoro.MessageExchanger.send = watched


def cheat(runtime, deed):
    """Send something else than the protocol says."""
    send = runtime.send_frame

    async def send_frame(receiver, frame):
        if deed == "open another coin" and frame.kind == Kind.OPENING:
            frame = runtime.frame(Kind.OPENING, hashlib.sha256(frame.raw).digest())
        if deed == "die before it releases" and frame.kind == Kind.SHARE:
            os.kill(os.getpid(), signal.SIGKILL)
        if deed == "tell two stories" and frame.kind == Kind.SHARE and receiver == 0:
            frame = runtime.frame(Kind.SHARE, frame.words + np.uint64(1))
        if deed == "send a wrong shape" and frame.kind == Kind.SHARE:
            frame = runtime.frame(Kind.SHARE, frame.words[1:])
        if deed == "send points of small order" and frame.kind == Kind.BLINDED:
            frame = runtime.frame(Kind.BLINDED, bytes(len(frame.raw)))
        await send(receiver, frame)

    runtime.send_frame = send_frame


async def main(party):
    kept = Path(os.environ["KEPT"])
    watch(kept / f"frames-{party.pid}")
    deed = os.environ.get(f"DEED_{party.pid}")
    if deed:
        cheat(party.runtime, deed)
    result = await random_mixing.main(party)
    shutil.copy(party.folder / random_mixing.RELEASE_FILE, kept / f"release-{party.pid}")
    return result

"""No analyst: the servers that are there toss coins, send their shares to one another, and each opens the secret.

Where they are told to, one of them sends something else.
"""

from pathlib import Path

import numpy as np

from dpmpc.base.randomness import Stream
from dpmpc.linear.sharing import ShamirSharing
from dpmpc.parties.network.conversation import exchange, toss
from dpmpc.parties.network.frames import Kind
from support.waiting import wait_for

SECRET = np.arange(100, dtype=np.uint64)


def share_of(sharing, party):
    """Deal as a client would; every party repeats it here and keeps its own share."""
    return sharing.split(SECRET, Stream.from_seed(5))[party]


def prepare(settings):
    """Let some parties begin when a file of theirs is there."""
    after = settings.arguments.get("after", {}).get(str(settings.party))
    if after is not None:
        wait_for(Path(after).exists, "the sign to begin")


async def main(party):
    sharing = ShamirSharing(party.servers, party.arguments["threshold"])
    tossed = await toss(party, "a test")
    own = share_of(sharing, party.pid)
    if party.pid == party.arguments.get("liar"):
        own = own.copy()
        own[7] += np.uint64(1)
    corrected = sharing.correct(await exchange(party, Kind.SHARE, own))
    await party.runtime.barrier()
    return {
        "toss": tossed.hex(),
        "present": party.present,
        "wrong": corrected.wrong,
        "right": bool((corrected.secret == SECRET).all()),
    }

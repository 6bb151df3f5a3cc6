"""No analyst: the servers that are there toss coins, send their shares to one another, and each opens the secret.

Where they are told to, one of them sends something else.
"""

import numpy as np

from dpmpc.network.coins import toss_coins
from dpmpc.network.frames import ContentType, Kind
from dpmpc.randomness import Stream
from dpmpc.sharing import ShamirSharing

SECRET = np.arange(100, dtype=np.uint64)


def share_of(sharing, party):
    """Deal as a client would; every party repeats it here and keeps its own share."""
    return sharing.split(SECRET, Stream.from_seed(5))[party]


async def main(party):
    runtime, sharing = party.runtime, ShamirSharing(party.servers, party.arguments["threshold"])
    toss = await toss_coins(party, Stream.from_os().bytes(32))
    own = share_of(sharing, party.pid)
    if party.pid == party.arguments.get("liar"):
        own = own.copy()
        own[7] += np.uint64(1)
    shares = {party.pid: own}
    for peer in runtime.peers:
        await runtime.send_frame(peer, runtime.frame(Kind.SHARE, own))
    for peer in runtime.peers:
        shares[peer] = (await runtime.receive_frame(peer, Kind.SHARE, ContentType.WORDS, SECRET.shape)).words
    await runtime.barrier()
    corrected = sharing.correct(shares)
    return {
        "toss": toss.hex(),
        "present": party.present,
        "wrong": corrected.wrong,
        "right": bool((corrected.secret == SECRET).all()),
    }

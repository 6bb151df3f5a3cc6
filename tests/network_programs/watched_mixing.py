"""`random_mixing`, with every message of a party kept in its folder, and parties that cheat or break where told to."""

import os
import shutil
from pathlib import Path

from dpmpc.owners.columns.mixing_parties import RELEASE_FILE
from dpmpc.parties.network.backend import asyncoro
from dpmpc.protocols import random_mixing
from support.hostile.owners import misbehave


def watch(log):
    """Keep what is handed to TLS, below our frames and MPyC's own messages."""
    send = asyncoro.MessageExchanger.send

    def watched(link, label, payload):
        with open(log, "ab") as file:
            file.write(payload)
        send(link, label, payload)

    asyncoro.MessageExchanger.send = watched


async def main(party):
    kept = Path(os.environ["KEPT"])
    watch(kept / f"frames-{party.pid}")
    deed = os.environ.get(f"DEED_{party.pid}")
    if deed:
        misbehave(party, deed)
    result = await random_mixing.main(party)
    shutil.copy(party.folder / RELEASE_FILE, kept / f"release-{party.pid}")
    return result

"""Servers and analyst that live for several runs: each tells its process and what it finds, and one may do harm."""

import os

import numpy as np

from dpmpc.parties.network.frames import ContentType, Kind

runs = 0  # of this process


async def main(party):
    global runs
    runs += 1
    culprit, deed = party.arguments.get("culprit"), party.arguments.get("deed")
    files = sorted(path.name for path in party.folder.iterdir() if path.suffix == ".run")
    if party.pid == culprit:
        if deed == "die":
            os._exit(9)
        raise ZeroDivisionError("the program has a bug")
    (party.folder / "left.run").touch()
    if party.pid != party.analyst:
        words = np.full(party.arguments["length"], party.pid, np.uint64)
        with party.meter.phase("open"):
            await party.runtime.send_frame(party.analyst, party.runtime.frame(Kind.SHARE, words))
    else:
        for server in range(party.servers):
            await party.runtime.receive_frame(server, Kind.SHARE, ContentType.WORDS, (party.arguments["length"],))
    simulation = dict(party.runtime.settings.simulation)
    return {"process": os.getpid(), "runs": runs, "files": files, "simulation": simulation}

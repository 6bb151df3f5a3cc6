"""Secret arrays among our authenticated parties: the analyst runs the same program and opens the sketch alone."""

import os
import signal

import numpy as np
from mpyc.runtime import mpc

from dpmpc.linear.encoding.ring import ring_named
from dpmpc.linear.sketching import OSNAP
from dpmpc.parties.mpyc.secret_arrays import secret_array

CLIENTS = 12  # of each server


async def main(party):
    ring = ring_named("ring64" if party.arguments["sharing"] == "additive" else "mersenne61")
    secret = secret_array(party.arguments["sharing"])
    S = OSNAP(8, CLIENTS * party.servers, 4, bytes(32))
    signed = [np.full((CLIENTS, 1, 2), server - 7) for server in range(party.servers)]
    own = signed[party.pid] if party.pid < party.servers else np.zeros_like(signed[0])
    parts = mpc.input(secret(ring.embed(own)))
    if party.pid == party.arguments.get("dies"):
        os.kill(os.getpid(), signal.SIGKILL)
    y = S.apply(np.vstack(parts)) + secret.summed(ring.embed(np.full((8, 2), party.pid + 1)))
    sums = await mpc.output(y, receivers=party.analyst)
    await party.runtime.barrier()
    if party.pid != party.analyst:
        return {"opened": sums is not None, "phases": sorted(party.runtime.meter.statistics().phases)}
    noise = party.servers * (party.servers + 1) // 2
    expected = S.to_csc().toarray().astype(int) @ np.vstack(signed)[:, 0] + noise
    return {"right": bool((sums == expected).all())}

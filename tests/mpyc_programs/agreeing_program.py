"""Agree on facts, toss for a public matrix, design a release; a party may give another fact, or show another coin."""

import json
import sys

from mpyc.runtime import mpc

from dpmpc.data import Schema
from dpmpc.parties.mpyc import agreeing
from dpmpc.parties.mpyc.current_runtime import exchange
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release.planning import design

DEED = sys.argv[1]


def showing_another_coin(original):
    calls = []

    async def exchange(data):
        calls.append(data)
        return await original(data if len(calls) != 3 or mpc.pid != 1 else bytes(len(data)))

    return exchange


async def main():
    if DEED == "another coin":
        agreeing._exchange_equal_sizes = showing_another_coin(agreeing._exchange_equal_sizes)
    analyst = mpc.pid if DEED == "another fact" else 0
    async with mpc:
        session = await agreeing.agreed({"task": "0123", "analyst": analyst, "clients": 5000})
        seed, other = await agreeing.toss(session, "matrix"), await agreeing.toss(session, "batch")
        spec = ReleaseSpec.of(Schema.unit(["x", "y"]), 5000, 1.0, 1e-6, sketch="osnap", rows=16, servers=3)
        task = design(spec, matrix_seed=seed)
        told = await exchange(json.dumps([session.hex(), seed.hex(), other.hex(), task.digest.hex()]).encode())
    if mpc.pid == 0:
        print(json.dumps([json.loads(one) for one in told]))


mpc.run(main())

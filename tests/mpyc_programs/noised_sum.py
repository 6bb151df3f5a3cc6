"""A private sum in a program of MPyC's own; every party adds noise in one call, and party 0 prints one JSON object."""

import json
import sys

import numpy as np
from mpyc.runtime import mpc

from dpmpc.base.errors import InputError
from dpmpc.data import Column, Schema
from dpmpc.parties.mpyc import noise
from dpmpc.parties.mpyc.added_noise import guarantee_of_parties, task_for_parties
from dpmpc.parties.mpyc.secret_arrays import secret_array
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release.client import Client

BOUNDS, EACH = Schema((Column("age", 0, 100), Column("stay", 0, 30))), 200


async def main():
    clients = EACH * len(mpc.parties)
    rows = np.random.default_rng(1).uniform(0, 30, (clients, 2))
    spec = ReleaseSpec.of(BOUNDS, clients, epsilon=1.0, delta=1e-6, sketch="sum")
    async with mpc:
        task = task_for_parties(spec)
        mine = Client(task).randomize(rows[mpc.pid * EACH : (mpc.pid + 1) * EACH])[:, 0]
        x = np.vstack(mpc.input(secret_array("shamir")(mine)))
        exact = await mpc.output(task.sketch.apply(x))
        errors = []
        for _ in range(60):
            sums = await mpc.output(task.sketch.apply(x) + noise(task))
            errors.append((sums - exact)[0].tolist())
        try:
            task_for_parties(ReleaseSpec.of(BOUNDS, clients, 1.0, 1e-6, sketch="countsketch", rows=8))
            refused = ""
        except InputError as error:
            refused = str(error)
    guarantee = guarantee_of_parties(task)
    found = {
        "errors": errors,
        "deviation": float(np.sqrt(len(mpc.parties) * task.noise.variance)),
        "guarantee": str(guarantee),
        "promised": [guarantee.epsilon, guarantee.delta],
        "refused": refused,
    }
    if mpc.pid == 0:
        print(json.dumps(found))


if __name__ == "__main__":
    if sys.argv[1:]:
        raise SystemExit(f"left over by MPyC: {sys.argv[1:]}")
    mpc.run(main())

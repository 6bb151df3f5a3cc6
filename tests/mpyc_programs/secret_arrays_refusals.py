"""What secret arrays refuse, each by its type of error and words; party 0 prints one JSON object."""

import json

import numpy as np
from mpyc.runtime import mpc

from dpmpc.linear.sketching import OSNAP
from dpmpc.parties.mpyc.secret_arrays import secret_array


async def refused(attempt):
    try:
        done = attempt()
        if hasattr(done, "__await__"):
            await done
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "not refused"


def opened(*arrays):
    """Open arrays as `mpc.output` does, whose errors would end the program."""
    return type(arrays[0])._output(list(arrays), list(range(len(mpc.parties))), None)


def sent():
    return sum(party.protocol.nbytes_sent for party in mpc.parties if party.pid != mpc.pid)


async def main():
    async with mpc:
        secret, words = secret_array(), np.ones((4, 1, 2), np.uint64)
        a, b = mpc.input([secret(words), secret(words)], senders=0)
        shamir = secret_array("shamir")
        x = mpc.input(shamir(words), senders=0)
        await mpc.gather([a, b])
        await mpc.gather(x)
        before = sent()
        attempts = {
            "own": lambda: opened(secret(words)),
            "summed": lambda: opened(secret.summed(words)),
            "beside": lambda: opened(a, secret.summed(words)),
            "kinds": lambda: opened(a, x),
            "product": lambda: a @ b,
            "scaled": lambda: a * 2,
            "shape": lambda: a + secret.summed(words[:1]),
            "others": lambda: np.hstack((a, b)),
            "stacked": lambda: np.vstack((a, secret.summed(words[:, :, :1]))),
            "clients": lambda: OSNAP(8, 5, 4, bytes(32)).apply(a),
            "first": lambda: OSNAP(8, 5, 4, bytes(32)).apply(a, first=1),
            "copies": lambda: OSNAP(8, 4, 4, bytes(32)).apply(secret.summed(np.ones((4, 2, 2), np.uint64))),
            "field": lambda: shamir(np.full((2, 2), 2**61 - 1, np.uint64)),
            "floats": lambda: secret(np.ones((2, 2))),
            "short key": lambda: secret.read_dealt(bytes(15), (4, 1, 2), 1),
            "short": lambda: shamir.read_dealt(bytes(63), (4, 1, 2), 1),
            "range": lambda: shamir.read_dealt(bytes([255]) * 64, (4, 1, 2), 1),
            "sharing": lambda: secret_array("replicated"),
            "ring": lambda: secret_array("shamir", "ring64"),
        }
        found = {name: await refused(attempt) for name, attempt in attempts.items()}
        found["spelled alike"] = secret_array("additive", "ring64") is secret is secret_array("additive")
        found["sent"] = sent() - before
        total = await mpc.output(x + x)
        gram = await mpc.output(x[:, 0].T @ x[:, 0])  # MPyC's own product
        found["of mpyc"] = [int(total[0, 0, 0]), int(gram[0, 0])]
    if mpc.pid == 0:
        print(json.dumps(found))


mpc.run(main())

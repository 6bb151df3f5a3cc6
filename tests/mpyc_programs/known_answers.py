"""What `dpmpc.mpyc.sketch` opens beside what `S.apply` gives, for every family; party 0 prints one JSON object."""

import json
import sys

import numpy as np
from mpyc.runtime import mpc

from dpmpc.encoding import FixedPoint, Mersenne61
from dpmpc.mpyc import open_sketch, shared, sketch
from dpmpc.sketching import OSNAP, CountSketch, Rademacher, Sum

CLIENTS, WIDTH, ROWS = 40, 3, 8
SEED = bytes(range(32))


def matrices(clients):
    return [
        Sum(columns=clients),
        CountSketch(ROWS, clients, SEED),
        OSNAP(ROWS, clients, 4, SEED),
        OSNAP(ROWS, clients, 2, SEED, balanced=True),
        Rademacher(5, clients, SEED),
    ]


async def main():
    await mpc.start()
    parties, rng, ring = len(mpc.parties), np.random.default_rng(7), Mersenne61()
    everything = rng.integers(0, ring.modulus, (parties, CLIENTS, WIDTH), dtype=np.uint64)
    everything[0, 0] = ring.modulus - 1
    reals, encoding = rng.uniform(-1, 1, (parties, CLIENTS, WIDTH)), FixedPoint(20, "mersenne61")
    parts = shared(everything[mpc.pid])
    floats = shared(reals[mpc.pid], encoding=encoding)
    answers = {}
    for S in matrices(parties * CLIENTS):
        whole = await sketch(S, mpc.np_vstack(parts))
        pieces = [await sketch(S, part, first=number * CLIENTS) for number, part in enumerate(parts)]
        total = pieces[0]
        for piece in pieces[1:]:
            total += piece
        expected = S.apply(everything.reshape(-1, WIDTH), ring="mersenne61")
        name = f"{S.family} {S.rows} {S.sparsity}"
        opened = await open_sketch(S, whole)
        answers[f"{name} whole"] = bool((opened == expected).all())
        answers[f"{name} pieces"] = bool((await open_sketch(S, total) == expected).all())
        sketched = await open_sketch(S, await sketch(S, mpc.np_vstack(floats)), encoding=encoding)
        exact = encoding.decode(encoding.encode(reals)).reshape(-1, WIDTH)
        answers[f"{name} floats"] = bool(np.allclose(sketched, S @ exact, rtol=0, atol=1e-12))
        only_last = await open_sketch(S, whole, receivers=[parties - 1])
        answers[f"{name} receivers"] = (only_last is not None) == (mpc.pid == parties - 1)
    mine = everything[0, :, None, :].repeat(2, axis=1)
    [copies] = shared(mine, senders=[0])
    S = OSNAP(ROWS, CLIENTS, 2, SEED)
    answers["copies"] = bool((await open_sketch(S, await sketch(S, copies)) == S.apply(mine, ring="mersenne61")).all())
    [again] = mpc.input(
        [mpc.SecFld(ring.modulus).array(mpc.SecFld(ring.modulus).field.array(everything[0].astype(object)))], senders=0
    )
    answers["input of MPyC"] = bool(
        (await open_sketch(S, await sketch(S, again)) == S.apply(everything[0], ring="mersenne61")).all()
    )
    told = await mpc.transfer(answers)
    sent = sum(peer.protocol.nbytes_sent for peer in mpc.parties if peer.pid != mpc.pid) if parties > 1 else 0
    await mpc.shutdown()
    print(json.dumps({"parties": parties, "threshold": mpc.threshold, "answers": told, "sent": sent}))


if __name__ == "__main__":
    if sys.argv[1:]:
        raise SystemExit(f"left over by MPyC: {sys.argv[1:]}")
    mpc.run(main())

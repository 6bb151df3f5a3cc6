"""What `dpmpc.parties.sketch` opens beside what `S.apply` gives, for every family; party 0 prints one JSON object."""

import json
import random
import sys

import numpy as np
from mpyc.runtime import mpc

from dpmpc.linear.encoding.ring import Mersenne61
from dpmpc.linear.sketching import OSNAP, CountSketch
from dpmpc.linear.sketching.dense import Rademacher
from dpmpc.linear.sketching.sparse import Sum
from dpmpc.parties.mpyc import sketch
from dpmpc.parties.mpyc.secret_arrays import secret_array

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


async def opened(y):
    """Whole numbers between -q/2 and q/2."""
    return (await mpc.output(y, raw=True)).signed_()


async def in_other_fields(S):
    """Sketch arrays of MPyC's other prime fields and number types, and compare with Python integers."""
    answers, dense = {}, S.to_csc().toarray().astype(object)
    rng = random.Random(3)
    for q in (2**31 - 1, 2**61 - 1, 2**62 - 57, 2**127 - 1, 2**255 - 19):
        values = np.array([[rng.randrange(q) for _ in range(WIDTH)] for _ in range(CLIENTS)], object)
        values[0] = q - 1
        field = mpc.SecFld(q)
        [x] = mpc.input([field.array(field.field.array(values.copy()))], senders=0)
        found, expected = await opened(S.apply(x)), dense @ values % q
        answers[f"field of {q.bit_length()} bits"] = bool(
            (found % q == expected).all() and (abs(found) <= q // 2).all()
        )
    whole = np.array([[rng.randrange(-(2**15), 2**15) for _ in range(WIDTH)] for _ in range(CLIENTS)], object)
    secint = mpc.SecInt(16)
    [x] = mpc.input([secint.array(secint.field.array(whole.copy()))], senders=0)
    answers["integers"] = bool((await opened(S.apply(x)) == dense @ whole).all())
    secint = mpc.SecInt(16, p=2**127 - 1)
    [x] = mpc.input([secint.array(secint.field.array(whole.copy()))], senders=0)
    wider = mpc.SecInt(16 + 6, p=2**127 - 1)
    y = sketch(S, x, as_type=wider)
    answers["wider integers"] = bool((await opened(y) == dense @ whole).all())
    answers["signs"] = bool((await mpc.output(y < 0) == (dense @ whole < 0)).all())
    secfxp, real = (
        mpc.SecFxp(32, 16, p=2**127 - 1),
        np.round(np.random.default_rng(5).uniform(-9, 9, (CLIENTS, WIDTH)), 2),
    )
    exact = np.round(real * 2**16) / 2**16
    [x] = mpc.input([secfxp.array(real)], senders=0)
    found = (await opened(S.apply(x))).astype(float) / 2**16 * S.scale
    answers["fixed point"] = bool(np.allclose(found, S @ exact, rtol=0, atol=1e-9))
    return answers


async def main():
    await mpc.start()
    parties, rng, ring = len(mpc.parties), np.random.default_rng(7), Mersenne61()
    everything = rng.integers(0, ring.modulus, (parties, CLIENTS, WIDTH), dtype=np.uint64)
    everything[0, 0] = ring.modulus - 1
    secret = secret_array("shamir")
    parts = mpc.input(secret(everything[mpc.pid]))
    field = mpc.SecFld(ring.modulus)
    own_parts = mpc.input(field.array(field.field.array(everything[mpc.pid].astype(object))))  # MPyC's own
    answers = {}
    for S in matrices(parties * CLIENTS):
        whole = S.apply(np.vstack(parts))
        pieces = [sketch(S, part, first=number * CLIENTS) for number, part in enumerate(own_parts)]
        total = pieces[0]
        for piece in pieces[1:]:
            total += piece
        expected = ring.lift(S.apply(everything.reshape(-1, WIDTH), ring="mersenne61"))
        name = f"{S.family} {S.rows} {S.sparsity}"
        answers[f"{name} whole"] = bool((await mpc.output(whole) == expected).all())
        answers[f"{name} pieces"] = bool((await opened(total) == expected).all())
        only_last = await mpc.output(whole, receivers=[parties - 1])
        answers[f"{name} receivers"] = (only_last is not None) == (mpc.pid == parties - 1)
    mine = everything[0, :, None, :].repeat(2, axis=1)
    [copies] = mpc.input([secret(mine)], senders=0)
    S = OSNAP(ROWS, CLIENTS, 2, SEED)
    expected = ring.lift(S.apply(mine, ring="mersenne61"))
    answers["copies"] = bool((await mpc.output(S.apply(copies)) == expected).all())
    [again] = mpc.input(
        [mpc.SecFld(ring.modulus).array(mpc.SecFld(ring.modulus).field.array(everything[0].astype(object)))], senders=0
    )
    answers["input of MPyC"] = bool(
        (await opened(S.apply(again)) == ring.lift(S.apply(everything[0], ring="mersenne61"))).all()
    )
    square = ring.embed(await mpc.output(copies[:, 0] * copies[:, 0]))  # a product of MPyC's on our words
    answers["product"] = bool((square == mine[:, 0].astype(object) ** 2 % ring.modulus).all())
    answers["sketched after a product"] = bool((await mpc.output(S.apply(copies)) == expected).all())
    answers |= await in_other_fields(S)
    told = await mpc.transfer(answers)
    sent = sum(peer.protocol.nbytes_sent for peer in mpc.parties if peer.pid != mpc.pid) if parties > 1 else 0
    await mpc.shutdown()
    print(json.dumps({"parties": parties, "threshold": mpc.threshold, "answers": told, "sent": sent}))


if __name__ == "__main__":
    if sys.argv[1:]:
        raise SystemExit(f"left over by MPyC: {sys.argv[1:]}")
    mpc.run(main())

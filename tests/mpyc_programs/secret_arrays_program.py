"""Secret arrays of one sharing and ring: what is opened beside NumPy's sums; party 0 prints one JSON object."""

import json
import sys
import tempfile

import numpy as np
from mpyc.runtime import mpc

from dpmpc.linear.encoding.ring import ring_named
from dpmpc.linear.sharing import AdditiveSharing, ShamirSharing
from dpmpc.linear.sharing.batch import ArrayShare, open_share, save_share
from dpmpc.linear.sketching import OSNAP, CountSketch
from dpmpc.linear.sketching.dense import Rademacher
from dpmpc.linear.sketching.sparse import Sum
from dpmpc.parties.mpyc.costs import costs
from dpmpc.parties.mpyc.current_runtime import exchange
from dpmpc.parties.mpyc.secret_arrays import secret_array
from dpmpc.parties.mpyc.word_arrays import words_of

CLIENTS, WIDTH = 40, 3
SEED = bytes(range(32))


def settings(clients):
    """Public matrices, and the copies that clients send."""
    yield "sum", Sum(columns=clients), 1
    yield "countsketch", CountSketch(8, clients, SEED), 1
    for sparsity in (1, 4, 8):
        for copies in {1, sparsity}:
            yield f"osnap {sparsity}, {copies} copies", OSNAP(8, clients, sparsity, SEED), copies
    yield "dense", Rademacher(5, clients, SEED), 1


def dense(S, Z):
    """NumPy's S Z, unscaled: every copy meets its own part of S."""
    if Z.shape[1] == 1:
        return S.to_csc().toarray().astype(object) @ Z[:, 0]
    parts = [S.apply(np.where(np.arange(Z.shape[1])[:, None] == j, Z, 0).astype(np.uint64)) for j in range(Z.shape[1])]
    return sum(part.view(np.int64).astype(object) for part in parts)


def drawn(party, copies, ring):
    """What a party puts in: the same numbers at every party that computes with them."""
    signed = np.random.default_rng([party, copies]).integers(-(2**40), 2**40, (CLIENTS, copies, WIDTH))
    return signed, ring.embed(signed)


async def answers(sharing, ring):
    secret, found = secret_array(sharing, ring.name), {}
    parties = len(mpc.parties)
    for name, S, copies in settings(CLIENTS * parties):
        rows = [drawn(party, copies, ring) for party in range(parties)]
        parts = mpc.input(secret(rows[mpc.pid][1]))
        y = S.apply(np.vstack(parts))
        if sharing == "shamir":
            found["not boxed"] = words_of(await mpc.gather(y)) is not None
        opened = await mpc.output(y)
        whole = np.vstack([signed for signed, _ in rows])
        found[name] = bool((opened == dense(S, ring.embed(whole) if copies > 1 else whole)).all())
        if copies > 1:  # in the ring: signs are those of words
            found[name] = bool((ring.embed(opened) == S.apply(ring.embed(whole), ring=ring)).all())
    signed, words = drawn(0, 1, ring)
    [x] = mpc.input([secret(words)], senders=0)
    S = OSNAP(8, CLIENTS, 4, SEED)
    y = S.apply(x) + secret.summed(ring.embed(np.full((8, WIDTH), mpc.pid + 1)))
    some = await mpc.output(y, receivers=1)
    expected = dense(S, signed) + parties * (parties + 1) // 2
    found["one receiver"] = (some is not None) == (mpc.pid == 1) and (some is None or bool((some == expected).all()))
    both = await mpc.output([x, x + x])
    found["several"] = bool((both[0] == signed).all() and (both[1] == 2 * signed).all())
    scheme = AdditiveSharing(parties, ring) if sharing == "additive" else ShamirSharing(parties, mpc.threshold)
    shares = scheme.split(words) if mpc.pid == 0 else None
    with tempfile.TemporaryDirectory() as folder:  # party 0 plays clients who are no parties
        path = f"{folder}/share.npy"
        whole = await exchange(b"" if shares is None else b"".join(share.tobytes() for share in shares))
        own = np.frombuffer(whole[0], np.uint64).reshape(parties, *words.shape)[mpc.pid]
        save_share(path, ArrayShare(own.copy(), ring))
        share, counts = open_share(path, ring), []
        share.chunk_bytes, rows = 8 * WIDTH * CLIENTS // 4, share.rows
        share.rows = lambda first, count: (counts.append(count), rows(first, count))[1]
        loaded = S.apply(secret.load(share, words.shape))
        found["loaded"] = bool((await mpc.output(loaded) == dense(S, signed)).all())
        found["in chunks"] = counts == [CLIENTS // 4] * 4
        twice = secret.load(path, words.shape)
        found["loaded and added"] = bool((await mpc.output(twice + twice) == 2 * signed).all())
    return found


async def main():
    sharing, ring = sys.argv[1], ring_named(sys.argv[2])
    async with mpc:
        costs.start()
        found = await answers(sharing, ring)
        reports = await costs.of_all()
        everywhere = [json.loads(data) for data in await exchange(json.dumps(found).encode())]
    if mpc.pid == 0:
        cost = [
            {
                "party": report.party,
                "sent": report.bytes_sent,
                "rounds": report.rounds,
                "phases": sorted(report.phases),
                "cpu": sum(phase.cpu_s for phase in report.phases.values()) / report.cpu_s,
            }
            for report in reports
        ]
        print(json.dumps({"answers": everywhere, "costs": cost}))


mpc.run(main())

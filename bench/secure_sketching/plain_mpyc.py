"""The natural MPyC program for the same job: secure arrays, one sum per row of the sketch, no kernel of ours.

Run as ``python plain_mpyc.py -M3 CLIENTS COLUMNS ROWS SPARSITY``; party 0 prints one JSON line with the CPU seconds
that a party spends on its input and on the transform. Data live in SecFld(2^61 - 1), as Shamir shares, which is what
an MPyC user would write first: MPyC's finite-field arrays hold Python integers.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
from mpyc.runtime import mpc

MERSENNE61 = 2**61 - 1


async def main() -> None:
    """Input the rows, multiply by the sketch, open."""
    clients, columns, rows, sparsity = (int(argument) for argument in sys.argv[-4:])
    secfld = mpc.SecFld(MERSENNE61)
    rng = np.random.default_rng(1)
    data = rng.integers(0, 1 << 20, (clients, columns))
    buckets = rng.integers(0, rows, (clients, sparsity))
    signs = rng.choice([-1, 1], (clients, sparsity))
    members = [[np.flatnonzero(buckets[:, copy] == row) for row in range(rows)] for copy in range(sparsity)]

    await mpc.start()
    start = time.process_time()
    x = mpc.input(secfld.array(secfld.field.array(data)), senders=0)
    await mpc.gather(x)
    shared = time.process_time()
    totals = []
    for row in range(rows):
        parts = [
            mpc.np_sum(x[at] * secfld.field.array(signs[at, copy][:, None]), axis=0)
            for copy in range(sparsity)
            if len(at := members[copy][row])
        ]
        total = parts[0]
        for part in parts[1:]:
            total += part
        totals.append(total)
    y = mpc.np_stack(totals)
    await mpc.gather(y)
    transformed = time.process_time()
    opened = await mpc.output(y, receivers=0)
    if opened is not None:
        expected = np.zeros((rows, columns), np.int64)
        for copy in range(sparsity):
            np.add.at(expected, buckets[:, copy], data * signs[:, copy, None])
        correct = bool(np.all(np.asarray(opened.value) % MERSENNE61 == expected.astype(object) % MERSENNE61))
        result = {
            "clients": clients,
            "parties": len(mpc.parties),
            "input_cpu_s": shared - start,
            "transform_cpu_s": transformed - shared,
            "correct": correct,
        }
        print(json.dumps(result), flush=True)
    await mpc.shutdown()


if __name__ == "__main__":
    mpc.run(main())

"""Shares that were made outside MPyC, in a program of MPyC with the patches of docs/upstream; party 0 prints JSON."""

import json
import sys
from pathlib import Path

import numpy as np
from mpyc.runtime import mpc

FOLDER = Path(sys.argv[1])


async def main():
    """Open products and comparisons of imported shares, and keep this party's shares of squares."""
    secure_field, secure_integer = mpc.SecFld(modulus=2**61 - 1), mpc.SecInt()
    async with mpc:
        x = mpc.import_shares(secure_field, np.load(FOLDER / f"share-{mpc.pid}.npy"))
        products = await mpc.output(x.T @ x)
        squares = await mpc.export_shares(x * x)
        np.save(FOLDER / f"squares-{mpc.pid}.npy", squares)
        [one] = mpc.import_shares(secure_field, np.load(FOLDER / f"share-{mpc.pid}.npy")[0, :1].tolist())
        y = mpc.input(secure_integer.array(np.arange(-500, 500)), senders=0)
        negative = await mpc.output(mpc.np_sum(y < 0))
        first = int(await mpc.output(one))
    if mpc.pid == 0:
        opened = {"products": products.value.tolist(), "first": first, "negative": negative}
        print(json.dumps({**opened, "dtype": str(squares.dtype)}))


mpc.run(main())

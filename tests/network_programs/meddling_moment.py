"""`unopened_moment`, but server 1 opens a wrong share of the answer."""

import numpy as np

from dpmpc.network.frames import Kind
from dpmpc.protocols import unopened_moment


async def main(party):
    if party.pid == 1:
        honest = party.runtime.frame
        party.runtime.frame = lambda kind, content=None: honest(
            kind, content ^ np.uint64(1) if kind is Kind.RESULT else content
        )
    return await unopened_moment.main(party)

"""The linear transform; a server that has imported SciPy fails, and the analyst returns whether it has."""

import sys

from mpyc.runtime import mpc

from dpmpc.protocols import linear_transform


async def main():
    await linear_transform.main()
    if mpc.pid < len(mpc.parties):
        assert "scipy" not in sys.modules
    return {"scipy": "scipy" in sys.modules}

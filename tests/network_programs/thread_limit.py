"""Every party says how many threads its linear algebra may have."""

import os


async def main(party):
    return {"threads": os.environ["OPENBLAS_NUM_THREADS"]}

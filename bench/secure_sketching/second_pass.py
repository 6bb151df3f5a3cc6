"""The linear transform twice in one process: what a second pass over the same file costs, when all memory was touched.

Started as ``linear_transform.py`` is, with ``--costs FILE``; nothing is opened. The figures of `--costs` are those of
the second pass.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from mpyc.runtime import mpc

from dpmpc.base.storage.files import write_private
from dpmpc.parties.mpyc.costs import costs
from dpmpc.parties.mpyc.mpyc_links import errors_in_a_line
from dpmpc.parties.mpyc.programs import options, planned
from dpmpc.protocols.linear_transform import linear_transform


async def main() -> None:
    """Run one party."""
    args = options(__doc__)
    plan = planned(args)
    async with mpc:
        run = await plan.agreed()
        for _ in range(2):
            costs.start()
            await mpc.gather(linear_transform(run))
        spent = await costs.of_all()
        run.links.close()  # type: ignore[attr-defined]
    if mpc.pid == 0:
        write_private(Path(args.costs), msgspec.json.encode(spent))


if __name__ == "__main__":
    with errors_in_a_line():
        mpc.run(main())

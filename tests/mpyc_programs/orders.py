"""MPyC imported before or after parts of dpmpc; every party appends its number and what it found to a file.

``python orders.py MODULES before|after FILE -M3``: MPyC takes its options out of the command line, wherever they are.
"""

import importlib
import json
import logging
import os
import sys

MODULES, ORDER, RESULT = sys.argv[1:4]


def observed():
    """What MPyC changes when it is imported, and what it reads."""
    switches = {name: value for name, value in os.environ.items() if name.startswith(("MPYC", "READTHEDOCS"))}
    modules = sorted(name for name in sys.modules if name.startswith("mpyc"))
    return switches, list(sys.argv), list(logging.getLogger().handlers), modules


def import_ours():
    before = observed()
    for name in MODULES.split(","):
        importlib.import_module(name)
    assert observed() == before, (before, observed())


if ORDER == "before":
    import_ours()
from mpyc.runtime import mpc  # noqa: E402

if ORDER == "after":
    import_ours()


async def main():
    async with mpc:
        secint = mpc.SecInt(32)
        total = int(await mpc.output(mpc.sum(mpc.input(secint(mpc.pid + 1)))))
    with open(RESULT, "a") as file:
        line = {"party": mpc.pid, "parties": len(mpc.parties), "total": total, "left": sys.argv[4:]}
        file.write(json.dumps(line) + "\n")


mpc.run(main())

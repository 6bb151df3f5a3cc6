"""`unopened_moment`, but server 1 opens a wrong share of the answer."""

from mpyc.runtime import mpc
from network_programs.lying_products import altered

from dpmpc.protocols import unopened_moment


async def main():
    honest = mpc.output
    if mpc.pid == 1:
        mpc.output = lambda x, receivers: honest(altered(x, 0), receivers=receivers)
    return await unopened_moment.main()

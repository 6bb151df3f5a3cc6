"""A program of ours that gets MPyC's runtime in MPyC's own way, at its head."""

from mpyc.runtime import mpc

secint = mpc.SecInt(32)


@mpc.coroutine
async def double(x):
    await mpc.returnType(secint)
    return await mpc.gather(x + x)


async def main(party):
    if party.pid == party.analyst:
        return None
    total = double(mpc.sum(mpc.input(secint(party.pid + 1))))
    return {"sum": int(await mpc.output(total)) // 2, "same": mpc is party.runtime}

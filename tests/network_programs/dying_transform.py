"""The linear transform, but server 1 dies when it has sketched its shares and has not sent them."""

import os
import signal

from dpmpc.protocols import linear_transform


async def main(party):
    if party.pid == 1:
        linear_transform.transform = lambda *arguments, **options: os.kill(os.getpid(), signal.SIGKILL)
    return await linear_transform.main(party)

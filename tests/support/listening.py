"""A port of a server of a collection in this process, with the limits and the handlers that tests give it."""

import asyncio
import contextlib
import logging
import ssl

from aiohttp import web

from dpmpc.collection.connections import IdleTimeout, LimitedListener, listen
from dpmpc.collection.logs import RateLimitedLogger
from support.waiting import PATIENCE

LOG = logging.getLogger("dpmpc.collection.test")
NO_CERTIFICATE = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)


@contextlib.asynccontextmanager
async def opened(limits, log=None, context=NO_CERTIFICATE, work=None):
    """A door with an HTTP server behind it that answers `/`, after `work`; yields port, door and what it refused.

    The answer is what `work` returns. Without a context there is no TLS.
    """
    refused = []
    guard = IdleTimeout(limits)

    async def ok(request):
        return web.Response(text=None if work is None else await work(request))

    application = web.Application(middlewares=[guard.middleware])
    application.router.add_get("/", ok)
    runner = web.AppRunner(application)
    await runner.setup()
    guard.http = runner.server
    door = LimitedListener(guard, limits, context, RateLimitedLogger(log or LOG), refused.append)
    listeners = await listen("127.0.0.1", 0)
    accepting = asyncio.create_task(door.accept(listeners))
    try:
        yield listeners[0].getsockname()[1], door, refused
    finally:
        accepting.cancel()
        await asyncio.gather(accepting, return_exceptions=True)
        for listener in listeners:
            listener.close()
        await runner.cleanup()


async def is_closed(reader, seconds=PATIENCE):
    """Whether the other end closes within a time."""
    try:
        return await asyncio.wait_for(reader.read(1), seconds) == b""
    except ConnectionError:
        return True
    except TimeoutError:
        return False

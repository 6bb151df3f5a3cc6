"""Servers whose reports are announced for a release that goes on."""

import contextlib


@contextlib.contextmanager
def announced(servers, *numbers):
    """Announce the reports of servers that run, as a release does, until the end of the context."""
    with contextlib.ExitStack() as stack:
        for server in numbers:
            stack.enter_context(servers.server_folder(server).releasing(server))
            with servers.spool(server) as spool:
                spool.announce()
        yield
        for server in numbers:
            with servers.spool(server) as spool:
                spool.take_back_announcement()

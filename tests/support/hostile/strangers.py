"""Strangers at a port that anybody can reach: they connect, and say nothing, or little, or too much.

    python -m support.hostile.strangers --help

They speak to loopback addresses only, hold a bounded number of connections, and end after `--seconds`.
"""

import argparse
import contextlib
import selectors
import socket
import ssl
import threading
import time

LOOPBACK = ("127.", "::1")


class Silent:
    """Holds so many connections open at an address, and opens new ones where they are closed; says nothing."""

    def __init__(self, address, count, *, seconds=60.0, source=None, context=None, again=True, name="party-0"):
        if not address[0].startswith(LOOPBACK):
            raise SystemExit(f"{address[0]} given, a loopback address expected")
        self._address, self._count, self._source, self._context = address, count, source, context
        self._name, self._again, self._end = name, again, time.monotonic() + seconds
        self._said = b""
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.held = self.opened = 0
        self.ready = threading.Event()

    def __enter__(self):
        self._thread.start()
        self.ready.wait(30)
        return self

    def __exit__(self, *error):
        self._stopped.set()
        self._thread.join()

    def _run(self):
        open_ones = selectors.DefaultSelector()
        try:
            while not self._stopped.is_set() and time.monotonic() < self._end:
                while self.held < self._count and (self._again or self.opened < self._count):
                    if not self._open(open_ones):
                        break
                self.ready.set()
                for key, _ in open_ones.select(0.05):
                    if self._is_closed(key.fileobj):
                        open_ones.unregister(key.fileobj)
                        key.fileobj.close()
                        self.held -= 1
        finally:
            self.ready.set()
            for key in list(open_ones.get_map().values()):
                key.fileobj.close()
            open_ones.close()

    def _open(self, open_ones):
        try:
            connection = socket.create_connection(
                self._address, timeout=2, source_address=self._source and (self._source, 0)
            )
        except OSError:
            return False
        if self._context is not None:
            try:
                connection = self._context.wrap_socket(connection, server_hostname=self._name)
            except OSError:
                connection.close()
                return False
        with contextlib.suppress(OSError):
            connection.sendall(self._said)
        connection.setblocking(False)
        open_ones.register(connection, selectors.EVENT_READ)
        self.held += 1
        self.opened += 1
        return True

    @staticmethod
    def _is_closed(connection):
        try:
            return connection.recv(1 << 16) == b""
        except (BlockingIOError, ssl.SSLWantReadError):
            return False
        except OSError:
            return True


class Idle(Silent):
    """The same after the handshake and a request: keep-alive connections, or bodies that never end.

    With `body`, each request announces so many bytes and sends one.
    """

    def __init__(self, address, count, *, target="/healthz", body=0, **options):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        super().__init__(address, count, context=context, **options)
        head, rest = ("POST", f"Content-Length: {body}\r\n\r\nx") if body else ("GET", "\r\n")
        self._said = f"{head} {target} HTTP/1.1\r\nHost: x\r\n{rest}".encode()


async def edge(shown, contribute, most=150):
    """Contribute until what is shown changes, so that the next report of anybody else would change it once more.

    Return how many own reports that took, or None if nothing that is shown moves with them.
    """
    before = await shown()
    for count in range(1, most + 1):
        await contribute()
        if await shown() != before:
            return count
    return None


def pipeline(link, target, seconds):
    """Send requests without reading an answer, until the server takes no more; return the bytes that were sent."""
    block = f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode() * 2000
    link.settimeout(1.0)
    end, sent = time.monotonic() + seconds, 0
    with contextlib.suppress(OSError):
        while time.monotonic() < end:
            link.sendall(block)
            sent += len(block)
    return sent


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("host")
    parser.add_argument("port", type=int)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--source", help="address to come from")
    parser.add_argument("--tls", action="store_true", help="make the handshake first")
    parser.add_argument("--idle", action="store_true", help="send a request after it, then nothing")
    options = parser.parse_args()
    context = None
    if options.tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    count = min(options.count, 5000)
    address, common = (options.host, options.port), {"seconds": options.seconds, "source": options.source}
    stranger = Idle(address, count, **common) if options.idle else Silent(address, count, context=context, **common)
    with stranger as silent:
        time.sleep(options.seconds)
        print(f"{silent.held} held, {silent.opened} opened")


if __name__ == "__main__":
    main()

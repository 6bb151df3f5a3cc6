"""A proxy on loopback that passes bytes on late, or not at all."""

import contextlib
import select
import socket
import threading
import time


class Proxy:
    """Listens on a port; what it does to the bytes is told by `delay`, `fault` and `after`."""

    def __init__(self, *, delay=0.0, fault=None, after=0, port=0):
        self._delay, self._fault, self._after = delay, fault, after
        self._passed = 0
        self._stopped = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port = self._listener.getsockname()[1]
        self._threads = []

    def start(self, target):
        """Pass on to this port of the machine."""
        self._begin(self._accept, target)

    def stop(self):
        """Close everything."""
        self._stopped.set()
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _begin(self, work, *arguments):
        thread = threading.Thread(target=work, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _accept(self, target):
        while not self._stopped.is_set():
            if not select.select([self._listener], [], [], 0.05)[0]:
                continue
            caller, _ = self._listener.accept()
            try:
                server = socket.create_connection(("127.0.0.1", target))
            except OSError:
                caller.close()
            else:
                self._begin(self._pass_on, caller, server)

    def _pass_on(self, caller, server):
        with caller, server, contextlib.suppress(OSError):
            while not self._stopped.is_set():
                for source in select.select([caller, server], [], [], 0.05)[0]:
                    data = source.recv(1 << 16)
                    if not data:
                        return
                    time.sleep(self._delay)
                    if source is caller:
                        self._passed += len(data)
                    if self._fault and self._passed > self._after:
                        if self._fault == "stall":
                            self._stopped.wait()
                        return
                    (server if source is caller else caller).sendall(data)

"""What a launcher sends to the process of a party that it has started, over a descriptor that the process inherits.

The facts here decide what a process may do: take its noise from a seed, use a socket that is bound already, remove its
folder. Another party may have written a party's folder, so that none of them comes from a file, nor from the
environment. A launcher makes a pair of connected sockets and passes one end to the process as a descriptor, with its
number on the command line. The process accepts it if the operating system states that the other end was made by the
parent of this process, under this user; or by a process of this user that has ended, since the party of a launcher that
was killed at once has to clear up.

After the facts comes `Go`, once everything that the party reads is in its folder. A party that takes part in several
runs (`Launched.lasting`) is then given the facts of the next one, in which nothing but seeds may differ, and `Go`
again, or `End`. The end of the connection means that the launcher is gone: the party then removes the folder that the
launcher made, and ends.

Promised: a process that a user, a shell, cron or a service manager has started is under no launcher, whatever its
folder states and whatever its standard input is. Not promised: anything against anyone who runs programs as the same
user; and where the system does not state who made a socket (`dpmpc.base.system.lacking`), that the launcher is the
parent.
"""

from __future__ import annotations

import contextlib
import os
import queue
import shutil
import socket
import threading
from pathlib import Path
from typing import Any

import msgspec

from dpmpc.base.errors import InputError, ProtocolFailure
from dpmpc.base.system import maker_of
from dpmpc.base.untrusted import ReadError, read_json

OPTION = "--launched"
LARGEST_FACTS = 1 << 26  # bytes
_LENGTH_BYTES = 4


class Launched(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="facts"):
    """What only a launcher knows of a party that it has started."""

    folder: str  # the party's folder, which the launcher has made and which goes with it
    listener: int | None = None  # file descriptor of a listening socket that the launcher hands over
    without: tuple[int, ...] = ()  # servers that all the others go on without
    simulation: dict[str, Any] = {}  # seeds and keys of a simulation, by name; empty where randomness is secret
    lasting: bool = False  # whether the party lives on after its run, for the next one


class Go(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="go"):
    """Everything that the party reads in this run is in its folder."""


class End(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="end"):
    """There is no further run."""


Message = Launched | Go | End


class Lifeline:
    """A launcher's end of the connection to one party."""

    def __init__(self) -> None:
        self._own, self._inherited = socket.socketpair()

    @property
    def descriptor(self) -> int:
        """The descriptor that the process of the party has to inherit."""
        return self._inherited.fileno()

    def send(self, message: Message) -> None:
        """Send a message; the process has been started and has inherited its end."""
        self._inherited.close()
        content = msgspec.json.encode(message)
        with contextlib.suppress(BrokenPipeError):  # a process that has ended is noticed later
            self._own.sendall(len(content).to_bytes(_LENGTH_BYTES, "little") + content)

    def close(self) -> None:
        """End the connection, and with it the party."""
        self._inherited.close()
        self._own.close()


class Launcher:
    """The launcher of this process, as the party sees it."""

    def __init__(self, descriptor: int):
        self._connection = _connection(descriptor)
        self._messages: queue.SimpleQueue[Message] = queue.SimpleQueue()
        try:
            self.facts = self._read(Launched)
        except (OSError, ReadError) as error:
            self._connection.close()
            raise InputError(f"{OPTION}", f"descriptor {descriptor}", "facts of a launcher", error) from error

    def follow(self) -> None:
        """Watch the launcher from now on."""
        threading.Thread(target=self._watch, daemon=True).start()

    def wait(self) -> Message:
        """Return the launcher's next message."""
        return self._messages.get()

    def _watch(self) -> None:
        """Take messages until the launcher is gone, or sends something else; then remove the folder and end."""
        with contextlib.suppress(OSError, ReadError):  # of a launcher that ended, or was killed
            while True:
                self._messages.put(self._read(Message))
        folder = Path(self.facts.folder)
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # the last party to leave removes the folder of the run
            folder.parent.rmdir()
        os._exit(ProtocolFailure.exit_status)

    def _read(self, kind: Any) -> Any:
        length = int.from_bytes(self._receive(_LENGTH_BYTES), "little")
        return read_json(self._receive(length), kind, largest=LARGEST_FACTS)

    def _receive(self, count: int) -> bytes:
        if count > LARGEST_FACTS:
            raise ReadError(f"{count} bytes announced, at most {LARGEST_FACTS} expected")
        content = b""
        while len(content) < count:
            more = self._connection.recv(count - len(content))
            if not more:
                raise ReadError("the launcher has gone")
            content += more
        return content


def _connection(descriptor: int) -> socket.socket:
    """Return the connection behind a descriptor, if this process's parent has made it."""
    expected = "a connection that the parent of this process has made expected"
    try:
        connection = socket.socket(fileno=descriptor)
    except (OSError, ValueError) as error:
        raise InputError(OPTION, f"descriptor {descriptor} given, {expected}: {error}") from error
    if connection.family != socket.AF_UNIX or not _made_by_parent(connection):
        connection.detach()  # it is somebody else's
        raise InputError(OPTION, f"descriptor {descriptor} given, {expected}")
    return connection


def _made_by_parent(connection: socket.socket) -> bool:
    maker = maker_of(connection)
    if maker is None:  # the system does not say
        return True
    process, user = maker
    if user != os.getuid() or process <= 0:  # 0: of another namespace, as the parent of what is started in a container
        return False
    return process == os.getppid() or not _exists(process)


def _exists(process: int) -> bool:
    """Return whether there is a process; a launcher that was killed at once is none, and its party has to clear up."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # the number is another user's by now
        return True
    return True

"""Hosts on one machine: network namespaces whose packets pass through this process, late, and not all of them.

Each host has an interface of its own with an address of its own, and nothing else in common with the others or with
this machine. A packet that one host sends is held back and then handed to the host that it is for, or lost. So delay
and loss need no module of the kernel, and what TCP makes of them is the kernel's own doing.

Needed: root, `ip` (iproute2) and /dev/net/tun. What was made is gone when the context is left: processes that the
caller has started in the namespaces are the caller's to end.
"""

from __future__ import annotations

import collections
import contextlib
import fcntl
import os
import random
import select
import shutil
import struct
import subprocess
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from dpmpc.base.errors import InputError

TUN = "/dev/net/tun"
SUBNET = "10.77.7"
_INTERFACE = "eth0"
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
_LONGEST_PACKET = 1 << 16
_IPV4, _DESTINATION = 4, slice(16, 20)


class Wire:
    """The hosts and the wire between them."""

    def __init__(self, hosts: int, *, delay: float, loss: float, seed: int):
        _require_means()
        self.passed = self.lost = 0
        self._delay, self._loss, self._losses = delay, loss, random.Random(seed)
        self._names = [f"dpmpc-{os.getpid()}-{host}" for host in range(hosts)]
        self._devices: list[int] = []
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._carry, name="wire")

    @staticmethod
    def address(host: int) -> str:
        """Return the IP address of a host."""
        return f"{SUBNET}.{host + 1}"

    def command(self, host: int, command: Sequence[str]) -> list[str]:
        """Return what runs a command on a host; the process is the command's own."""
        return ["ip", "netns", "exec", self._names[host], *command]

    def cut(self, host: int) -> None:
        """Take a host off the wire."""
        _ip("-n", self._names[host], "link", "set", _INTERFACE, "down")

    def mend(self, host: int) -> None:
        """Put it back."""
        _ip("-n", self._names[host], "link", "set", _INTERFACE, "up")

    def __enter__(self) -> Self:
        try:
            for host, name in enumerate(self._names):
                self._add(host, name)
        except BaseException:
            self._remove()
            raise
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        self._thread.join()
        self._remove()

    def _add(self, host: int, name: str) -> None:
        device = f"dpmpc{os.getpid() % 10**7}-{host}"  # at most 15 characters
        _ip("netns", "add", name)
        descriptor = os.open(TUN, os.O_RDWR | os.O_NONBLOCK)
        self._devices.append(descriptor)
        fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack("16sH", device.encode(), _IFF_TUN | _IFF_NO_PI))
        _ip("link", "set", device, "netns", name, "name", _INTERFACE)
        _ip("-n", name, "address", "add", f"{self.address(host)}/24", "dev", _INTERFACE)
        _ip("-n", name, "link", "set", "lo", "up")
        _ip("-n", name, "link", "set", _INTERFACE, "up")

    def _remove(self) -> None:
        for descriptor in self._devices:
            os.close(descriptor)  # its interface goes with it
        self._devices.clear()
        for name in self._names:
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)

    def _carry(self) -> None:
        """Deliver packets until the end, each after the delay."""
        under_way: collections.deque[tuple[float, int, bytes]] = collections.deque()
        targets = {bytes(map(int, self.address(host).split("."))): device for host, device in enumerate(self._devices)}
        while not self._ending.is_set():
            due = under_way[0][0] - time.monotonic() if under_way else 0.1
            for device in select.select(self._devices, [], [], max(0.0, due))[0]:
                packet = _read(device)
                target = targets.get(packet[_DESTINATION]) if packet[:1] and packet[0] >> 4 == _IPV4 else None
                if target is None:  # such as what IPv6 asks its neighbours
                    continue
                if self._losses.random() < self._loss:
                    self.lost += 1
                else:
                    self.passed += 1
                    under_way.append((time.monotonic() + self._delay, target, packet))
            while under_way and under_way[0][0] <= time.monotonic():
                _, target, packet = under_way.popleft()
                with contextlib.suppress(OSError):  # a host that is cut off hears nothing
                    os.write(target, packet)


def _read(device: int) -> bytes:
    try:
        return os.read(device, _LONGEST_PACKET)
    except OSError:  # the host was cut off
        return b""


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], check=False, capture_output=True, text=True)
    if done.returncode:
        raise InputError(f"ip {' '.join(arguments)}", done.stderr.strip())


def _require_means() -> None:
    missing = [
        name
        for name, there in (
            ("root", os.geteuid() == 0),
            ("ip of iproute2", shutil.which("ip") is not None),
            (TUN, os.access(TUN, os.R_OK | os.W_OK)),
        )
        if not there
    ]
    if missing:
        raise InputError("namespaces", f"{', '.join(missing)} expected, and not here")

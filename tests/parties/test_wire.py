"""The wire between namespaces delays, loses and cuts, so that what the bench shows on it means something."""

import os
import subprocess
import sys

import pytest

from bench.system.wire import TUN, Wire
from support.rejections import rejects

ECHO = "import socket\ns = socket.create_server(('', 7))\nprint(flush=True)\nwhile True: s.accept()[0].sendall(b'x')"
ASK = (
    "import socket, sys, time\nstart = time.monotonic()\n"
    "socket.create_connection((sys.argv[1], 7), float(sys.argv[2])).recv(1)\nprint(time.monotonic() - start)"
)
DELAY = 0.1
needs_root = pytest.mark.skipif(os.geteuid() != 0 or not os.access(TUN, os.W_OK), reason="root and /dev/net/tun needed")


def ask(wire, patience):
    """Seconds of a connection from host 1 to host 0 and the first byte back, or None if there is none in time."""
    command = wire.command(1, [sys.executable, "-c", ASK, wire.address(0), str(patience)])
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    return None if done.returncode else float(done.stdout)


@pytest.fixture
def wired(request):
    with (
        Wire(2, delay=DELAY, loss=request.param, seed=1) as wire,
        subprocess.Popen(wire.command(0, [sys.executable, "-c", ECHO]), stdout=subprocess.PIPE) as echo,
    ):
        echo.stdout.readline()
        yield wire
        echo.kill()


@needs_root
@pytest.mark.parametrize("wired", [0.0], indirect=True)
def test_packets_take_their_time_and_a_host_can_be_cut_off(wired):
    assert ask(wired, 30) >= 3 * DELAY  # SYN, SYN-ACK, data
    wired.cut(0)
    assert ask(wired, 1) is None
    wired.mend(0)
    assert ask(wired, 30) >= 3 * DELAY
    assert wired.lost == 0


@needs_root
@pytest.mark.parametrize("wired", [1.0], indirect=True)
def test_packets_are_lost(wired):
    assert ask(wired, 1) is None
    assert (wired.passed, wired.lost > 0) == (0, True)


@needs_root
def test_nothing_is_left():
    with Wire(2, delay=0, loss=0, seed=1) as wire:
        name = wire.command(0, [])[-1]
        assert name in subprocess.check_output(["ip", "netns"], text=True)
    assert name not in subprocess.check_output(["ip", "netns"], text=True)


def test_what_is_missing_is_named(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with rejects("namespaces", given="root expected, and not here"):
        Wire(2, delay=0, loss=0, seed=1)

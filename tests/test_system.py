"""What is done where an operating system lacks what Linux has."""

import errno
import os
import platform
import re
import resource
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dpmpc.base import system
from dpmpc.linear.sharing import batch as shares
from dpmpc.linear.sharing.batch import ArrayShare, FileShare, open_share, save_share
from dpmpc.parties.network.sockets import CountingSocket, kernel_count
from support.rejections import rejects

on_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has all of it")


@on_linux
def test_linux_lacks_nothing():
    assert system.lacking() == []


def test_elsewhere_each_thing_that_is_lacking_is_told(monkeypatch, tmp_path):
    monkeypatch.delattr(os, "posix_fallocate", raising=False)
    monkeypatch.delattr(os, "posix_fadvise", raising=False)
    monkeypatch.delattr(socket, "SO_PEERCRED", raising=False)
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(system, "_STATUS", tmp_path / "none")
    told = [what.partition(":")[0] for what in system.lacking()]
    assert told == ["posix_fallocate", "posix_fadvise", "TCP_INFO", "SO_PEERCRED", "VmHWM"]


def test_shares_are_written_and_read_without_posix_calls(monkeypatch, tmp_path):
    array = np.arange(40, dtype=np.uint64).reshape(10, 4)
    save_share(tmp_path / "expected", ArrayShare(array))
    monkeypatch.delattr(os, "posix_fallocate", raising=False)
    monkeypatch.delattr(os, "posix_fadvise", raising=False)
    monkeypatch.setattr(shares, "_KEPT_BYTES", 0)
    created = FileShare.create(tmp_path / "share", (10, 4))
    assert (tmp_path / "share").stat().st_size == (tmp_path / "expected").stat().st_size
    created[0:10] = array
    assert (tmp_path / "share").read_bytes() == (tmp_path / "expected").read_bytes()
    assert (open_share(tmp_path / "share").rows(2, 5) == array[2:7]).all()


def test_a_file_that_may_not_grow_is_refused_without_posix_fallocate(monkeypatch, tmp_path):
    def full(descriptor, size):
        raise OSError(errno.EFBIG, "File too large")

    monkeypatch.delattr(os, "posix_fallocate", raising=False)
    monkeypatch.setattr(os, "ftruncate", full)
    with rejects("path"):
        FileShare.create(tmp_path / "share", (10, 4))


@pytest.mark.parametrize(("platform", "unit"), [("darwin", 1), ("freebsd14", 1024)])
def test_peak_memory_is_getrusages_in_its_unit_where_there_is_no_proc(monkeypatch, tmp_path, platform, unit):
    monkeypatch.setattr(system, "_STATUS", tmp_path / "none")
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(resource, "getrusage", lambda who: resource.struct_rusage([0, 0, 5_000_000, *[0] * 13]))
    assert system.peak_rss_mb() == 5 * unit


@on_linux
def test_peak_memory_is_that_of_proc_on_linux(monkeypatch, tmp_path):
    (tmp_path / "status").write_text("Name:\tpython\nVmHWM:\t   3000 kB\n")
    monkeypatch.setattr(system, "_STATUS", tmp_path / "status")
    assert system.peak_rss_mb() == 3000 * 1024 / 1e6


def test_bytes_are_not_counted_twice_where_the_kernel_does_not_tell(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server, CountingSocket() as link:
        link.connect(server.getsockname())
        monkeypatch.delattr(socket, "TCP_INFO", raising=False)
        assert kernel_count(link) is None
        assert link.send(b"abc") == link.count.sent == 3


@on_linux
def test_a_pair_of_sockets_says_who_made_it(monkeypatch):
    one, other = socket.socketpair()
    with one, other:
        assert system.maker_of(other) == (os.getpid(), os.getuid())
        monkeypatch.delattr(socket, "SO_PEERCRED")
        assert system.maker_of(other) is None


def test_cores_are_counted_where_there_is_no_affinity(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert system.usable_cores() == 7
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert system.usable_cores() == 1


@on_linux
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the allocator is another one")
def test_arrays_take_the_memory_that_earlier_ones_left():
    """In a thread, where steps of a release run: ten times 16 MB are cleared again, unless what was freed is kept."""
    program = """
import resource
import sys
import threading
import numpy as np
from dpmpc.base.system import keep_freed_memory

def fill():
    for part in [np.zeros(1 << 21, np.uint8) for _ in range(8)]:
        part.fill(1)

def measure():
    fill()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        fill()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)

if sys.argv[1] == "kept":
    keep_freed_memory()
thread = threading.Thread(target=measure)
thread.start()
thread.join()
"""
    command = [sys.executable, "-c", program]
    faults = {
        way: int(subprocess.run([*command, way], capture_output=True, text=True, check=True).stdout)
        for way in ("kept", "returned")
    }
    assert 10 * faults["kept"] < faults["returned"]


def test_nothing_else_in_the_package_calls_what_only_some_systems_have():
    pattern = re.compile(r"os\.posix_f|SO_PEERCRED|sched_getaffinity|VmHWM|/proc/")
    sources = Path(system.__file__).parent.rglob("*.py")
    assert [source.name for source in sources if pattern.search(source.read_text())] == ["system.py"]

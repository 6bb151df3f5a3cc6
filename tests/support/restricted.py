"""Run a program under those restrictions of a systemd unit that the kernel lets anybody take upon himself.

    python restricted.py UNIT PROGRAM ARGUMENT ..

These are the system calls of SystemCallFilter, which systemd-analyze lists, MemoryDenyWriteExecute and NoNewPrivileges.
What needs root or systemd itself, such as mounts, is left out.
"""

import ctypes
import os
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

HEADER = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
SYSTEMD = shutil.which("systemd-analyze")
_NO_NEW_PRIVS, _SECCOMP, _FILTER, _MDWE, _NO_EXEC_GAIN = 38, 22, 2, 65, 1  # of prctl
_X86_64, _EPERM = 0xC000003E, 0x00050001  # AUDIT_ARCH; SECCOMP_RET_ERRNO | EPERM
_ALLOW, _KILL = 0x7FFF0000, 0x80000000
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06  # of BPF


def missing():
    """Say what this machine lacks; nothing if a unit's restrictions can be taken."""
    if SYSTEMD is None:
        return "systemd-analyze is not installed"
    if os.uname().machine != "x86_64" or not HEADER.exists():
        return "the numbers of system calls are known for x86_64 with the headers of Linux only"
    return ""


def allowed(unit):
    """Return the system calls that a unit allows, by name."""
    found = set()
    for line in re.findall(r"^SystemCallFilter=(.*)$", Path(unit).read_text(), re.MULTILINE):
        denied = line.startswith("~")
        named = set().union(*map(_members, line.removeprefix("~").split()))
        found = found - named if denied else found | named
    return found


def _members(name):
    if not name.startswith("@"):
        return {name}
    told = subprocess.run([SYSTEMD, "syscall-filter", name], capture_output=True, text=True, check=True).stdout
    lines = [line.strip() for line in told.splitlines()[1:]]
    return set().union(*(_members(line) for line in lines if line and not line.startswith("#")))


def restrict(unit):
    """Take the restrictions of a unit upon this process and all that it becomes."""
    numbers = dict(re.findall(r"^#define __NR_(\w+) (\d+)$", HEADER.read_text(), re.MULTILINE))
    chosen = sorted(int(numbers[name]) for name in allowed(unit) if name in numbers)
    words = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, _X86_64), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, 0)]
    for number in chosen:
        words += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ALLOW)]
    words.append((_RETURN, 0, 0, _EPERM))
    code = b"".join(struct.pack("HBBI", *word) for word in words)
    kept = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("HxxxxxxP", len(words), ctypes.addressof(kept))
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in ((_NO_NEW_PRIVS, 1), (_MDWE, _NO_EXEC_GAIN), (_SECCOMP, _FILTER, program)):
        option, *values = arguments
        words = [ctypes.c_char_p(value) if isinstance(value, bytes) else ctypes.c_ulong(value) for value in values]
        words += [ctypes.c_ulong(0)] * (4 - len(words))
        if libc.prctl(option, *words):
            raise OSError(ctypes.get_errno(), f"prctl {option}")


if __name__ == "__main__":
    restrict(sys.argv[1])
    os.execvp(sys.argv[2], sys.argv[2:])

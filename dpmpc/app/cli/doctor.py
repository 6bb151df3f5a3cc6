"""`dpmpc doctor`: whether this machine can build, run and serve dpmpc, a line for each known difficulty.

Every finding is ok, a warning (slower, or a part cannot be used) or a problem (results cannot be had), with what to do
about the last two. Something that is broken or missing becomes a problem and never ends the examination. Nothing is
left behind; nothing is sent beyond the loopback.

Not promised: speed, which benches measure, or that other machines can be reached.

Exit status: 0, warnings included; 1 on a problem.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.metadata
import json
import os
import platform
import re
import shutil
import socket
import statistics
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from typing import Any, Literal

from dpmpc.base.errors import DpmpcError, MachineUnfit


def add_commands(commands: Any) -> None:
    """Add the command to the parser."""
    doctor = commands.add_parser("doctor", help="whether this machine can build, run and serve dpmpc")
    doctor.add_argument("--network", action="store_true", help="also run three servers and an analyst: some seconds")
    doctor.add_argument("--json", action="store_true", help="print one JSON object")
    doctor.set_defaults(run=_doctor)


def _doctor(options: argparse.Namespace) -> None:
    findings = examine(network=options.network)
    problems = [finding.subject for finding in findings if finding.state == "problem"]
    if options.json:
        print(json.dumps({"ok": not problems, "findings": [dataclasses.asdict(finding) for finding in findings]}))
    else:
        for finding in findings:
            print(f"{finding.state:<8} {finding.subject:<10} {finding.found}")
            if finding.advice:
                print(f"{'':<19} -> {finding.advice}")
    if problems:
        raise MachineUnfit(f"doctor: {len(problems)} of {len(findings)} are a problem: {', '.join(problems)}")


State = Literal["ok", "warning", "problem"]

OLDEST_PYTHON = (3, 11)
PORTS = 4  # three servers and an analyst
SLOW_AES = 0.5e9  # bytes a second; a core with AES instructions makes several times that, one without a fifth
SLOW_SYNC_S = 0.05
CLOCK_SLACK_S = 300
LEAST_FREE_BYTES = 1 << 30
LEAST_FILES = 1024  # each upload and each peer holds one
_FEW_BYTES = bytes(4096)
_MANY_KEYS = {
    "used": "many keys by the processor's AES instructions",
    "missing": "many keys one by one: no AES instructions that this build can use",
    "wrong": "many keys one by one: the kernel for AES instructions would give another key stream than OpenSSL",
}


@dataclasses.dataclass(frozen=True)
class Finding:
    """What was found."""

    subject: str  # what was looked at
    state: State  # how it is
    found: str  # what there is
    advice: str = ""  # what to do; empty where nothing needs to be done


def examine(*, network: bool = False) -> list[Finding]:
    """Run every check; with `network`, also run three servers and an analyst on the loopback."""
    return [_careful(subject, check) for subject, check in {**CHECKS, **(NETWORK if network else {})}.items()]


def _careful(subject: str, check: Callable[[], tuple[State, str, str]]) -> Finding:
    try:
        return Finding(subject, *check())
    except (ImportError, OSError, AttributeError, DpmpcError) as error:
        advice = "install dpmpc again for this Python" if isinstance(error, ImportError | AttributeError) else ""
        return Finding(subject, "problem", f"{type(error).__name__}: {error}", advice or "see the error")


def python() -> tuple[State, str, str]:
    """Check the version and kind of the interpreter."""
    found = f"{platform.python_implementation()} {platform.python_version()} on {platform.platform()}"
    if sys.version_info < OLDEST_PYTHON or platform.python_implementation() != "CPython":
        return "problem", found, "use CPython 3.11 or later"
    if sys.byteorder != "little" or sys.maxsize < 1 << 32:
        return "problem", found, "use a 64-bit little-endian machine: files and kernels are specified for these"
    return "ok", found, ""


def packages() -> tuple[State, str, str]:
    """Check the packages that are always needed, and list their versions."""
    needed = [requirement for requirement in _requirements() if "extra ==" not in requirement]
    bad = [requirement for requirement in needed if not _met(requirement)]
    names = ["dpmpc", *(_name(requirement) for requirement in needed if requirement not in bad)]
    found = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)
    if bad:
        return "problem", f"{found}; not as needed: {', '.join(bad)}", f"pip install {_quoted(bad)}"
    return "ok", found, ""


def extras() -> tuple[State, str, str]:
    """List the optional packages, by the extra that asks for them."""
    told = []
    for extra in importlib.metadata.metadata("dpmpc").get_all("Provides-Extra") or []:
        wanted = [one for one in _requirements() if f'extra == "{extra}"' in one and _name(one) != "dpmpc"]
        there = all(_met(one) for one in wanted)
        told.append(f"{extra} present" if there else f"{extra} missing (pip install '.[{extra}]' in its source folder)")
    return "ok", "; ".join(told), ""


def kernels() -> tuple[State, str, str]:
    """List the kernels' instruction sets: the chosen one and those available."""
    from dpmpc._kernels import arithmetic, dense, samplers, sketch

    bodies = {kernel.__name__.rpartition(".")[2]: kernel.instruction_sets() for kernel in (sketch, dense)}
    told = [f"{name} {sets[-1]} (of {', '.join(sets)})" for name, sets in bodies.items()]
    loops = arithmetic.instruction_set()
    found = "; ".join([*told, f"arithmetic {loops}", f"{samplers.__name__.rpartition('.')[2]} portable"])
    if platform.machine() in ("x86_64", "AMD64") and "portable" in (loops, *(sets[-1] for sets in bodies.values())):
        return "warning", found, "same results, but slower: build without -DDPMPC_GENERIC"
    return "ok", found, ""


def answers() -> tuple[State, str, str]:
    """Check the kernels against known answers, with every instruction set."""
    from dpmpc.app.cli.self_test import wrong_answers

    compared, wrong = wrong_answers()
    if wrong:
        return "problem", f"wrong: {', '.join(wrong)}", "do not use this build: install again, and report it"
    return "ok", f"{compared} known answers of kernels, noise, encoding and shares", ""


def compiler() -> tuple[State, str, str]:
    """Find the compiler that a build from source would use."""
    named = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    found = next((path for name in (named, "gcc", "clang", "cc") if (path := shutil.which(name))), None)
    return "ok", found or "none; only a build from source needs one", ""


def system() -> tuple[State, str, str]:
    """List what the operating system does not offer."""
    from dpmpc.base.system import lacking

    lacks = lacking()
    if lacks:
        return "warning", f"{platform.system()} lacks {'; '.join(lacks)}", "real servers are best run on Linux"
    return "ok", f"{platform.system()} {platform.release()}", ""


def tls() -> tuple[State, str, str]:
    """Check Python's OpenSSL, whose TLS 1.3 the links use, and name that of the package cryptography."""
    import ssl

    from cryptography.hazmat.backends.openssl import backend

    found = f"{ssl.OPENSSL_VERSION}; cryptography's {backend.openssl_version_text()}"
    if not ssl.HAS_TLSv1_3:
        return "problem", f"{found}, no TLS 1.3", "use a Python that is built with OpenSSL 1.1.1 or later"
    return "ok", f"TLS 1.3; {found}", ""


def aes() -> tuple[State, str, str]:
    """Measure how fast noise and shares are expanded, and say how many keys are."""
    import numpy as np

    from dpmpc.base.randomness import Stream, aes_kernel

    words, stream = np.empty(1 << 20, np.uint64), Stream.from_os()
    speed = max(words.nbytes / _seconds(lambda: stream.fill(words)) for _ in range(3))
    found = f"{speed / 1e9:.1f} GB/s of AES-128-CTR, {_MANY_KEYS[aes_kernel()]}"
    if aes_kernel() == "wrong":
        return "warning", found, "same results, but slower: install dpmpc again, and report it"
    if aes_kernel() == "missing":
        return "warning", found, "same results, but a server that expands a key for each client takes longer"
    if speed < SLOW_AES:
        return "warning", found, "AES instructions seem to be missing or hidden by virtualisation: clients are slower"
    return "ok", found, ""


def ports() -> tuple[State, str, str]:
    """Check that ports of the loopback can be bound and reached."""
    listeners = []
    try:
        for _ in range(PORTS):
            listeners.append(socket.create_server(("127.0.0.1", 0)))
        for listener in listeners:
            socket.create_connection(listener.getsockname(), timeout=5).close()
    except OSError as error:
        advice = "let programs listen on 127.0.0.1 and reach it: the parties of one machine meet there"
        return "problem", f"loopback: {error}", advice
    finally:
        for listener in listeners:
            listener.close()
    return "ok", f"{PORTS} of the loopback were bound and reached", ""


def clock() -> tuple[State, str, str]:
    """Check the clock, by which certificates are valid."""
    found = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    if time.time() < os.stat(__file__).st_mtime - CLOCK_SLACK_S:
        return "problem", f"{found}, before this program was installed", "set the clock: certificates go by it"
    return "ok", f"{found}, resolution {time.get_clock_info('perf_counter').resolution:.0e} s", ""


def entropy() -> tuple[State, str, str]:
    """Check that the operating system gives keys without waiting."""
    if not hasattr(os, "getrandom"):
        os.urandom(32)
        return "ok", "os.urandom", ""
    try:
        os.getrandom(32, os.GRND_NONBLOCK)
    except BlockingIOError:
        return "warning", "not yet ready", "wait until the system has gathered some: keys are drawn only then"
    return "ok", "ready", ""


def temporary() -> tuple[State, str, str]:
    """Check the room where the parties of one machine keep their shares."""
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        file.write(_FEW_BYTES)
    found = f"{folder}, {free / 1e9:.1f} GB free"
    if free < LEAST_FREE_BYTES:
        return "warning", found, "free some, or set TMPDIR to a larger disk: shares of a simulation lie there"
    return "ok", found, ""


def disk() -> tuple[State, str, str]:
    """Measure how long a small write takes until it is safe, in the working directory if it can be written to."""
    folder = "." if os.access(".", os.W_OK) else tempfile.gettempdir()
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:

        def write() -> None:
            file.write(_FEW_BYTES)
            os.fsync(file.fileno())

        seconds = statistics.median(_seconds(write) for _ in range(5))
    found = f"fsync in {seconds * 1e3:.1f} ms"
    if seconds > SLOW_SYNC_S:
        return "warning", found, "a server waits this long for each batch of uploads: use a faster disk"
    return "ok", found, ""


def limits() -> tuple[State, str, str]:
    """Check the number of cores, and of files that may be open."""
    import resource

    from dpmpc.base.system import usable_cores

    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    unlimited = files == resource.RLIM_INFINITY
    found = f"{usable_cores()} of {os.cpu_count()} cores, {'any number of' if unlimited else files} open files"
    if not unlimited and files < LEAST_FILES:
        return "warning", found, f"ulimit -n {LEAST_FILES}: a server that takes uploads has many files open"
    return "ok", found, ""


def parties() -> tuple[State, str, str]:
    """Run three servers and an analyst over TLS."""
    from dpmpc.app.cli.self_test import CLIENTS, SERVERS, network_seconds

    seconds = network_seconds()
    return "ok", f"{SERVERS} servers and an analyst released a sum of {CLIENTS:,} rows over TLS in {seconds:.1f} s", ""


CHECKS: dict[str, Callable[[], tuple[State, str, str]]] = {
    "python": python,
    "packages": packages,
    "extras": extras,
    "kernels": kernels,
    "answers": answers,
    "compiler": compiler,
    "system": system,
    "tls": tls,
    "aes": aes,
    "ports": ports,
    "clock": clock,
    "entropy": entropy,
    "temporary": temporary,
    "disk": disk,
    "limits": limits,
}
NETWORK: dict[str, Callable[[], tuple[State, str, str]]] = {"network": parties}


def _requirements() -> list[str]:
    return importlib.metadata.requires("dpmpc") or []


def _name(requirement: str) -> str:
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert match is not None
    return match[0]


def _met(requirement: str) -> bool:
    """Return whether a requirement of ours, at least or exactly a version, is met."""
    try:
        there = _numbers(importlib.metadata.version(_name(requirement)))
    except importlib.metadata.PackageNotFoundError:
        return False
    bounds = re.findall(r"(==|>=)\s*([0-9.]+)", requirement.partition(";")[0])
    return all(there == _numbers(to) if kind == "==" else there >= _numbers(to) for kind, to in bounds)


def _numbers(version: str) -> tuple[int, ...]:
    """Return the numbers that a version begins with, without zeros at the end: 1.20.0 and 1.20 are one version."""
    begin = re.match(r"[0-9]+(\.[0-9]+)*", version)
    numbers = [int(number) for number in begin[0].split(".")] if begin else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def _quoted(requirements: list[str]) -> str:
    return " ".join(f"'{requirement}'" for requirement in requirements)


def _seconds(job: Callable[[], Any]) -> float:
    began = time.perf_counter()
    job()
    return time.perf_counter() - began

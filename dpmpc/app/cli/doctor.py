"""`dpmpc doctor`: whether this machine computes and serves as it should, where no other program would show it.

Every finding is ok, a warning (slower, or a part cannot be used) or a problem (results cannot be had), with what to do
about the last two. What `pip check` shows, or an error of the first command, is left out. Something that is broken
becomes a problem and never ends the examination. Nothing is left behind; nothing is sent beyond the loopback.

Not promised: speed, which benches measure, or that other machines can be reached.

Exit status: 0, warnings included; 1 on a problem.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any, Literal

from dpmpc.base.errors import DpmpcError, MachineUnfit


def add_commands(commands: Any) -> None:
    """Add the command to the parser."""
    doctor = commands.add_parser("doctor", help="whether kernels, disk and network of this machine are fit for dpmpc")
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
            print(f"{finding.state:<8} {finding.subject:<10} {finding.result}")
            if finding.advice:
                print(f"{'':<19} -> {finding.advice}")
    if problems:
        raise MachineUnfit("doctor", f"{len(problems)} of {len(findings)} are a problem: {', '.join(problems)}")


State = Literal["ok", "warning", "problem"]

SLOW_AES = 0.5e9  # bytes a second; a core with AES instructions makes several times that, one without a fifth
SLOW_SYNC_S = 0.05
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
    result: str  # what there is
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


def kernels() -> tuple[State, str, str]:
    """List the kernels' instruction sets: the chosen one and those available."""
    from dpmpc._kernels import arithmetic, dense, samplers, sketch

    bodies = {kernel.__name__.rpartition(".")[2]: kernel.instruction_sets() for kernel in (sketch, dense)}
    levels = [f"{name} {sets[-1]} (of {', '.join(sets)})" for name, sets in bodies.items()]
    loops = arithmetic.instruction_set()
    message = "; ".join([*levels, f"arithmetic {loops}", f"{samplers.__name__.rpartition('.')[2]} portable"])
    if platform.machine() in ("x86_64", "AMD64") and "portable" in (loops, *(sets[-1] for sets in bodies.values())):
        return "warning", message, "same results, but slower: build without -DDPMPC_GENERIC"
    return "ok", message, ""


def answers() -> tuple[State, str, str]:
    """Check the kernels against known answers, with every instruction set."""
    from dpmpc.app.cli.self_test import wrong_answers

    compared, wrong = wrong_answers()
    if wrong:
        return "problem", f"wrong: {', '.join(wrong)}", "do not use this build: install again, and report it"
    return "ok", f"{compared} known answers of kernels, noise, encoding and shares", ""


def system() -> tuple[State, str, str]:
    """List what the operating system does not offer."""
    from dpmpc.base.system import lacking

    lacks = lacking()
    if lacks:
        return "warning", f"{platform.system()} lacks {'; '.join(lacks)}", "real servers are best run on Linux"
    return "ok", f"{platform.system()} {platform.release()}", ""


def aes() -> tuple[State, str, str]:
    """Measure how fast noise and shares are expanded, and state how many keys are."""
    import numpy as np

    from dpmpc.base.randomness import Stream, aes_kernel

    words, stream = np.empty(1 << 20, np.uint64), Stream.from_os()
    speed = max(words.nbytes / _seconds(lambda: stream.fill(words)) for _ in range(3))
    message = f"{speed / 1e9:.1f} GB/s of AES-128-CTR, {_MANY_KEYS[aes_kernel()]}"
    if aes_kernel() == "wrong":
        return "warning", message, "same results, but slower: install dpmpc again, and report it"
    if aes_kernel() == "missing":
        return "warning", message, "same results, but a server that expands a key for each client takes longer"
    if speed < SLOW_AES:
        return "warning", message, "AES instructions seem to be missing or hidden by virtualisation: clients are slower"
    return "ok", message, ""


def disk() -> tuple[State, str, str]:
    """Measure how long a small write takes until it is safe, in the working directory if it can be written to."""
    folder = "." if os.access(".", os.W_OK) else tempfile.gettempdir()
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:

        def write() -> None:
            file.write(_FEW_BYTES)
            os.fsync(file.fileno())

        seconds = statistics.median(_seconds(write) for _ in range(5))
    message = f"fsync in {seconds * 1e3:.1f} ms"
    if seconds > SLOW_SYNC_S:
        return "warning", message, "a server waits this long for each batch of uploads: use a faster disk"
    return "ok", message, ""


def limits() -> tuple[State, str, str]:
    """Check the number of cores, and of files that may be open."""
    import resource

    from dpmpc.base.system import usable_cores

    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    unlimited = files == resource.RLIM_INFINITY
    message = f"{usable_cores()} of {os.cpu_count()} cores, {'any number of' if unlimited else files} open files"
    if not unlimited and files < LEAST_FILES:
        return "warning", message, f"ulimit -n {LEAST_FILES}: a server that takes uploads has many files open"
    return "ok", message, ""


def parties() -> tuple[State, str, str]:
    """Run three servers and an analyst over TLS."""
    from dpmpc.app.cli.self_test import CLIENTS, SERVERS, network_seconds

    seconds = network_seconds()
    return "ok", f"{SERVERS} servers and an analyst released a sum of {CLIENTS:,} rows over TLS in {seconds:.1f} s", ""


CHECKS: dict[str, Callable[[], tuple[State, str, str]]] = {
    "kernels": kernels,
    "answers": answers,
    "system": system,
    "aes": aes,
    "disk": disk,
    "limits": limits,
}
NETWORK: dict[str, Callable[[], tuple[State, str, str]]] = {"network": parties}


def _seconds(job: Callable[[], Any]) -> float:
    began = time.perf_counter()
    job()
    return time.perf_counter() - began

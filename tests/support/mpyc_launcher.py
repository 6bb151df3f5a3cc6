"""Start programs as users of MPyC do: by MPyC's own launcher, or each party by hand."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

from bench.system.ports import free_ports

TESTS = Path(__file__).parents[1]
MPYC_PROGRAMS = TESTS / "mpyc_programs"
PROTOCOLS = TESTS.parent / "protocols"
SECONDS = 200


def by_launcher(program, *arguments, parties=3, cwd=None):
    """Run all parties with -M; return what party 0, which starts the others, has printed and how it ended."""
    command = [sys.executable, str(program), *map(str, arguments), f"-M{parties}", "-B", str(free_ports(parties)[0])]
    [done] = finish([start(command, cwd)])
    return done


def by_hand(program, *arguments, parties=3, cwd=None):
    """Run each party with -I and everybody's -P, as in shells of their own; return how each ended."""
    ports = free_ports(parties)
    addresses = [f"-P127.0.0.1:{port}" for port in ports]
    commands = [
        [sys.executable, str(program), *map(str, arguments), *addresses, f"-I{party}"] for party in range(parties)
    ]
    return finish([start(command, cwd) for command in commands])


def start(command, cwd):
    """Start one process, in a group of its own."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env=environment,
        start_new_session=True,  # a group of its own, with all that MPyC starts
    )


def finish(processes):
    """Return how processes ended; end what they have left behind."""
    try:
        outputs = [process.communicate(timeout=SECONDS) for process in processes]
        return [
            subprocess.CompletedProcess(process.args, process.returncode, *output)
            for process, output in zip(processes, outputs, strict=True)
        ]
    finally:
        for process in processes:  # MPyC leaves the other parties behind where one fails
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

"""Parties that are prepared in one place and started by hand in others, as `dpmpc mix` and `dpmpc owners` do.

Not promised: secrecy of keys from whoever prepares, who makes the certificates of all parties; organisations that mind
put those of their own authority in their place.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from dpmpc.errors import DpmpcError, InputError
from dpmpc.untrusted import printable

if TYPE_CHECKING:
    from dpmpc.network.settings import Outcome

START_SECONDS = 600.0  # parties are started by hand


def address_of(text: str) -> tuple[str, int]:
    """Return host and port, or refuse a text that is not both."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise InputError(f"addresses: {text!r} given, HOST:PORT expected")
    return host, int(port)


def prepare_folders(
    target: Path,
    called: str,
    program: str,
    arguments: Mapping[str, Any],
    addresses: Sequence[tuple[str, int]],  # (host, port)
    *,
    deadline: float,
) -> None:
    """Write a folder of settings and identity for each party, all or none."""
    from dpmpc.network.identity import Authority
    from dpmpc.network.settings import PartySettings, digest_of, write_settings

    authority = Authority()
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as temporary:
        partial = Path(temporary) / "prepared"
        for number in range(len(addresses)):
            settings = PartySettings(
                party=number,
                servers=len(addresses),
                addresses=list(addresses),
                program=program,
                arguments=dict(arguments),
                task=digest_of(program, dict(arguments)),
                deadline=deadline,
                connect_deadline=START_SECONDS,
            )
            folder = partial / f"{called}-{number}"
            folder.mkdir(mode=0o700, parents=True)
            authority.issue(folder, number)
            write_settings(folder, settings)
        partial.rename(target)


def expect_party(folder: Path, number: int, program: str) -> None:
    """Refuse a folder of another party or program, one whose settings say more than an agreement, and any simulation.

    Whoever prepared the folder wrote its settings; `number` and `program` are what this command was given.
    """
    from dpmpc.network.settings import is_simulation, read_settings

    settings = read_settings(folder)
    settings.refuse_simulation(is_simulation(settings.arguments))
    if (settings.party, settings.program) != (number, program):
        raise InputError(
            f"folder: {str(folder)!r} given, of party {settings.party} of {printable(settings.program, 100)}, one of "
            f"party {number} of {program} expected"
        )


def run_party(folder: Path, number: int, program: str) -> tuple[Outcome | None, DpmpcError | None]:
    """Run a party to its end in a process of its own, since MPyC takes over argument list and event loop.

    `expect_party` has compared the folder with number and program, which are what this command was given.

    Returns
    -------
    Outcome or None, DpmpcError or None
        What it left, and why it failed.
    """
    from dpmpc.network.launch import Ending, root_cause
    from dpmpc.network.settings import LOG_FILE, OUTCOME_FILE, read_outcome

    for name in (OUTCOME_FILE, LOG_FILE):  # also where whoever prepared the folder has put a link
        (folder / name).unlink(missing_ok=True)
    with open(os.open(folder / LOG_FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as log:
        command = [sys.executable, "-P", "-m", "dpmpc.network.party", str(folder), program]
        status = _run_to_its_end(command, log)
    outcome = read_outcome(folder)
    return outcome, root_cause([Ending(number, status, outcome, last_words=f"see {folder / LOG_FILE}")])


def _run_to_its_end(command: Sequence[str], log: IO[bytes]) -> int:
    """Run a process and return its status; who ends us ends it too, and is told how far it had come."""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log) as child:
        before = signal.signal(signal.SIGTERM, lambda *_: child.terminate())
        try:
            return child.wait()
        except BaseException:
            child.kill()
            raise
        finally:
            signal.signal(signal.SIGTERM, before)

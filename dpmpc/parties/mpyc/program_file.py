"""Run a file that is an MPyC program in the process of a party of `dpmpc.parties.network`.

``from mpyc.runtime import mpc`` in the file gives the party's runtime, which is linked already; ``mpc.run`` drives it.
What the file prints goes to the launcher, line by line, or to standard error where the party was started by hand.

Promised: the file is the one that all parties have agreed on, and it is run only if its SHA-256 is theirs. Not
promised: anything about other files that it imports or reads.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from dpmpc.base.errors import InputError
from dpmpc.base.untrusted import read_bytes
from dpmpc.parties.network import backend
from dpmpc.parties.network.party import Party
from dpmpc.parties.network.settings import read_source

MODULE = "dpmpc.parties.mpyc.program_file"
LARGEST_PROGRAM = 1 << 24  # bytes


class ProgramFile(msgspec.Struct, frozen=True):
    """Where a party finds the program."""

    path: str


def arguments_of(path: Path, options: list[str]) -> dict[str, Any]:
    """Return what all parties of a program agree on: its content, and the options of MPyC and of its own."""
    return {"sha256": _digest(path), "options": options}


def run_script(party: Party) -> dict[str, Any]:
    """Run the file, as Python runs a script."""
    party.runtime.settings.require_own_digest()
    path = Path(read_source(party.folder, ProgramFile).path)
    if _digest(path) != party.arguments["sha256"]:
        raise InputError("program", path, f"a file with the SHA-256 {party.arguments['sha256']}")
    options, rest = backend.read_options(party.arguments["options"])
    party.runtime.take_options(options)
    sys.argv = [str(path), *rest]
    sys.path.insert(0, str(path.parent))
    launched = party.runtime.settings.launched is not None
    with contextlib.redirect_stdout(_Lines(party.report_progress)) if launched else contextlib.nullcontext():
        try:
            runpy.run_path(str(path), run_name="__main__")
        except SystemExit as end:
            if end.code not in (None, 0):
                raise InputError("program", f"{path.name} ended with status {end.code}") from end
    return {}


class _Lines(io.TextIOBase):
    """Hands each whole line on."""

    def __init__(self, hand_on: Callable[[str], None]):
        self._hand_on, self._rest = hand_on, ""

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._hand_on(line)
        return len(text)


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(read_bytes(path, largest=LARGEST_PROGRAM)).hexdigest()
    except OSError as error:
        raise InputError("program", path, "the file of an MPyC program", error.strerror) from error

"""Write and read what a party is told before a run, and what it leaves behind, outcome.json.

It is told what all parties agree on, party.json, and where its own rows are, source.json, if its program asks for that.
All lie in its private folder. None holds a secret. The private key lies beside them, and so do whatever rows or shares
the program reads.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from dpmpc.arguments import require_positive, require_whole
from dpmpc.errors import InputError, SimulationOnly
from dpmpc.network.frames import TASK_BYTES
from dpmpc.network.meter import RunStatistics
from dpmpc.storage import write_private
from dpmpc.untrusted import ReadError, read_bytes, read_json

Record = TypeVar("Record", bound=msgspec.Struct)

SETTINGS_FILE, SOURCE_FILE, OUTCOME_FILE, LOG_FILE = "party.json", "source.json", "outcome.json", "party.log"
FRAME_LIMIT = 1 << 28
LARGEST_RECORD = 1 << 26  # bytes of party.json and outcome.json
FRAME_HEADER = 1 << 10  # bytes; more than a message needs besides its words
GO = b"\n"  # what a launcher writes to a party's standard input once everything is in its folder


class PartySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one party needs to know to take part.

    Parameters
    ----------
    party : int
        This party's number. The servers are 0 to ``servers - 1``; the analyst, if any, comes after them.
    servers : int
        How many servers there are.
    addresses : list of (host, port)
        Where each party listens, in party order. A party connects to all that come after it, so the first port
        is never used.
    program : str
        The module whose coroutine ``main(party)`` this party runs.
    arguments : dict
        What the program is to do; the same for every party.
    task : str
        Digest of what the parties agreed on, 64 hexadecimal digits; it is in every frame.
    deadline : float
        Seconds that another party may keep this one waiting.
    connect_deadline : float
        Seconds until every party has to be there.
    frame_limit : int
        Most bytes of a peer's messages that are kept unread, and so the length of the longest message.
    listener : int, optional
        File descriptor of a listening socket that the launcher hands over.
    supervised : bool
        Whether a launcher holds standard input. The party gets ready, and waits for `GO` before it links itself to
        others; the end of standard input means that the launcher is gone: the party then removes its folder and ends.
    without : tuple of int
        Servers that all the others have agreed to go on without. They are not called or waited for, and turned away.
    """

    party: int
    servers: int
    addresses: list[tuple[str, int]]
    program: str
    arguments: dict[str, Any]
    task: str
    deadline: float = 30.0
    connect_deadline: float = 30.0
    frame_limit: int = FRAME_LIMIT
    listener: int | None = None
    supervised: bool = False
    without: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        parties = len(self.addresses)
        require_whole("servers", self.servers, 2)
        _require(
            parties in (self.servers, self.servers + 1), "addresses", parties, "one for each server, and the analyst's"
        )
        require_whole("party", self.party, 0, parties - 1)
        require_positive("deadline", self.deadline)
        require_positive("connect_deadline", self.connect_deadline)
        require_whole("frame_limit", self.frame_limit, 1)
        names = self.program.split(".")
        _require(all(name.isidentifier() for name in names), "program", self.program, "the dotted name of a module")
        others = set(range(self.servers)) - {self.party}
        _require(set(self.without) <= others, "without", self.without, "numbers of other servers")
        _require(len(self.present) >= 2, "without", self.without, "at least 2 servers to remain")
        digits = len(self.task) == 2 * TASK_BYTES and set(self.task) <= set("0123456789abcdef")
        _require(digits, "task", self.task, f"{2 * TASK_BYTES} hexadecimal digits")

    def require_secret_noise(self, seed: object) -> None:
        """Refuse a seed of noise in a party that was started by hand: whoever has prepared it would know its noise.

        A launcher's parties are those of a simulation on one machine.

        Raises
        ------
        SimulationOnly
            If there is a seed and no launcher.
        """
        if seed is not None and not self.supervised:
            raise SimulationOnly(
                f"simulation_seed: one given to party {self.party}, which was started by hand; none expected outside "
                "of a simulation on one machine"
            )

    @property
    def analyst(self) -> int | None:
        """The analyst's number, where there is an analyst."""
        return self.servers if len(self.addresses) > self.servers else None

    @property
    def present(self) -> list[int]:
        """The numbers of the servers that take part."""
        return [server for server in range(self.servers) if server not in self.without]

    @property
    def members(self) -> list[int]:
        """The numbers of all parties that take part, this one included."""
        return self.present if self.analyst is None else [*self.present, self.analyst]

    @property
    def task_digest(self) -> bytes:
        """The digest as bytes."""
        return bytes.fromhex(self.task)


class ErrorRecord(msgspec.Struct, frozen=True):
    """A typed error of `dpmpc.errors`, as it travels from a party to its launcher."""

    type: str
    message: str
    party: int | None


class Outcome(msgspec.Struct, frozen=True):
    """How the run ended for one party: what its program returned, or why it failed."""

    party: int
    ok: bool
    result: dict[str, Any] = {}
    statistics: RunStatistics | None = msgspec.field(name="report", default=None)
    error: ErrorRecord | None = None


def digest_of(program: str, arguments: dict[str, Any]) -> str:
    """Return a digest of what all parties are about to do, for programs that have none of their own."""
    try:
        canonical = msgspec.json.encode([program, arguments], order="sorted")
    except (TypeError, UnicodeEncodeError) as error:  # of an object, or of half a surrogate pair
        raise InputError(f"arguments: {sorted(arguments)} given, plain data expected: {error}") from error
    return hashlib.sha256(canonical).hexdigest()


def write_settings(folder: Path, settings: PartySettings) -> None:
    """Write party.json."""
    write_private(folder / SETTINGS_FILE, msgspec.json.encode(settings))


def read_settings(folder: Path) -> PartySettings:
    """Read party.json, checked field by field."""
    return _read_record(folder / SETTINGS_FILE, PartySettings, "the settings of a party")


def write_source(folder: Path, source: msgspec.Struct) -> None:
    """Write source.json: tell a party where its rows are."""
    write_private(folder / SOURCE_FILE, msgspec.json.encode(source))


def read_source(folder: Path, kind: type[Record]) -> Record:
    """Read source.json, which says where a party's rows are, checked field by field."""
    return _read_record(folder / SOURCE_FILE, kind, "where the rows of a party are")


def _read_record(path: Path, kind: type[Record], expected: str) -> Record:
    """Read a JSON file as a record of this type, or say in the error what was expected."""
    try:
        return read_json(read_bytes(path, largest=LARGEST_RECORD), kind, largest=LARGEST_RECORD)
    except (OSError, ReadError) as error:
        raise InputError(f"{path}: {expected} expected: {error}") from error


def write_outcome(folder: Path, outcome: Outcome) -> None:
    """Write outcome.json in a single step: whoever finds it finds all of it."""
    write_private(folder / OUTCOME_FILE, msgspec.json.encode(outcome))


def read_outcome(folder: Path) -> Outcome | None:
    """Read outcome.json, or return None where the party left none."""
    try:
        return read_json(read_bytes(folder / OUTCOME_FILE, largest=LARGEST_RECORD), Outcome, largest=LARGEST_RECORD)
    except (FileNotFoundError, ReadError):
        return None


def _require(condition: bool, name: str, given: object, expected: str) -> None:
    if not condition:
        raise InputError(f"{name}: {given!r} given, {expected} expected")

"""Write and read what a party is given before a run, and what it leaves behind, outcome.json.

It is given what all parties agree on and where they listen, party.json, and where its own rows are, source.json, if its
program requires that. All lie in its private folder. None holds a secret. The private key lies beside them, and so do
whatever rows or shares the program reads.

Another party may have written party.json: it states nothing that its reader must be sure of. Any field but those of
`AgreedSettings` is refused by its name, and so are seeds in the arguments; what a launcher knows comes from the
launcher itself (`dpmpc.parties.network.launched`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from dpmpc.base.arguments import require_positive, require_whole
from dpmpc.base.errors import InputError, SimulationOnly
from dpmpc.base.storage.files import write_private
from dpmpc.base.untrusted import ReadError, read_bytes, read_json
from dpmpc.parties.network.frames import TASK_BYTES
from dpmpc.parties.network.launched import Launched
from dpmpc.parties.network.meter import RunStatistics

Record = TypeVar("Record")

SETTINGS_FILE, SOURCE_FILE, OUTCOME_FILE, LOG_FILE = "party.json", "source.json", "outcome.json", "party.log"
FRAME_LIMIT = 1 << 28
LARGEST_RECORD = 1 << 26  # bytes of party.json and outcome.json
FRAME_HEADER = 1 << 10  # bytes; more than a message needs besides its words
SEEDS = ("simulation_seed", "simulation_keys")


class AgreedSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What party.json states."""

    party: int  # this party's number. The servers are 0 to ``servers - 1``; the analyst, if any, comes after them
    servers: int  # how many servers there are
    # (host, port): where each party listens, in party order. A party connects to all that come after it, so the first
    # port is never used
    addresses: list[tuple[str, int]]
    program: str  # the module whose coroutine ``main(party)`` this party runs
    arguments: dict[str, Any]  # what the program is to do; the same for every party
    task: str  # digest of what the parties agreed on, 64 hexadecimal digits; it is in every frame
    deadline: float = 30.0  # seconds that another party may keep this one waiting
    connect_deadline: float = 30.0  # seconds until every party has to be there

    def __post_init__(self) -> None:
        parties = len(self.addresses)
        require_whole("servers", self.servers, 2)
        _require(
            parties in (self.servers, self.servers + 1), "addresses", parties, "one for each server, and the analyst's"
        )
        require_whole("party", self.party, 0, parties - 1)
        require_positive("deadline", self.deadline)
        require_positive("connect_deadline", self.connect_deadline)
        names = self.program.split(".")
        _require(all(name.isidentifier() for name in names), "program", self.program, "the dotted name of a module")
        digits = len(self.task) == 2 * TASK_BYTES and set(self.task) <= set("0123456789abcdef")
        _require(digits, "task", self.task, f"{2 * TASK_BYTES} hexadecimal digits")


class PartySettings(AgreedSettings, frozen=True, forbid_unknown_fields=True):
    """What one party needs to know to take part: what was agreed on, and what its own process adds."""

    # most bytes of a peer's messages that are kept unread, and so the length of the longest message
    frame_limit: int = FRAME_LIMIT
    # servers that all the others have agreed to go on without. They are not called or waited for, and turned away
    without: tuple[int, ...] = ()
    launched: Launched | None = None  # what the launcher has said, if one has started this process

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole("frame_limit", self.frame_limit, 1)
        others = set(range(self.servers)) - {self.party}
        _require(set(self.without) <= others, "without", self.without, "numbers of other servers")
        _require(len(self.present) >= 2, "without", self.without, "at least 2 servers to remain")

    @property
    def simulation(self) -> Mapping[str, Any]:
        """Seeds and keys of a simulation, by name: none but those that a launcher has handed over."""
        return {} if self.launched is None else self.launched.simulation

    def refuse_simulation(self, simulated: bool) -> None:
        """Refuse a simulation in a party that was started by hand: anyone who has prepared it may know its noise."""
        if simulated and self.launched is None:
            raise SimulationOnly(
                "simulation",
                f"one given to party {self.party}, which was started by hand; none expected outside of a "
                "simulation on one machine",
            )

    def require_own_digest(self) -> None:
        """Refuse arguments whose digest is not the one of every frame, which all parties compare."""
        if self.task != digest_of(self.program, self.arguments):
            raise InputError("task", f"{self.task[:16]}...", "the digest of this party's own arguments")

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
    """A typed error of `dpmpc.base.errors`, as it travels from a party to its launcher."""

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
        raise InputError("arguments", f"{sorted(arguments)}", "plain data", error) from error
    return hashlib.sha256(canonical).hexdigest()


def write_settings(folder: Path, settings: AgreedSettings) -> None:
    """Write party.json: of the settings, what the parties agree on."""
    refuse_seeds(settings)
    agreed = {name: getattr(settings, name) for name in AgreedSettings.__struct_fields__}
    write_private(folder / SETTINGS_FILE, msgspec.json.encode(agreed))


def read_settings(folder: Path, launched: Launched | None = None) -> PartySettings:
    """Read party.json, checked field by field, as the settings of a party."""
    path, called = folder / SETTINGS_FILE, "the settings of a party"
    agreed = _read_record(path, AgreedSettings, called)
    refuse_seeds(agreed)
    without = () if launched is None else launched.without
    return PartySettings(**msgspec.structs.asdict(agreed), without=without, launched=launched)


def refuse_seeds(settings: AgreedSettings) -> None:
    """Refuse seeds of noise, wherever they stand among the arguments: whoever wrote them there knows the noise."""
    for name in _seeds_in(settings.arguments):
        raise SimulationOnly(
            f"arguments.{name}",
            f"one given to party {settings.party}, none expected where somebody else may "
            "have written it: a launcher hands seeds over by itself",
        )


def is_simulation(arguments: Any) -> bool:
    """Return whether arguments state anywhere that they are of a simulation: ``"simulation": true``."""
    if isinstance(arguments, Mapping):
        return arguments.get("simulation", False) is not False or any(map(is_simulation, arguments.values()))
    return isinstance(arguments, list) and any(map(is_simulation, arguments))


def _seeds_in(value: Any) -> Iterator[str]:
    """Yield the names of seeds that have a value."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            if name in SEEDS and any(one is not None for one in (part if isinstance(part, list) else [part])):
                yield name
            yield from _seeds_in(part)
    elif isinstance(value, list):
        for part in value:
            yield from _seeds_in(part)


def write_source(folder: Path, source: msgspec.Struct) -> None:
    """Write source.json: tell a party where its rows are."""
    write_private(folder / SOURCE_FILE, msgspec.json.encode(source))


def read_source(folder: Path, kind: type[Record]) -> Record:
    """Read source.json, which states where a party's rows are, checked field by field."""
    return _read_record(folder / SOURCE_FILE, kind, "where the rows of a party are")


def _read_record(path: Path, kind: type[Record], expected: str) -> Record:
    """Read a JSON file as a record of this type, or state in the error what was expected."""
    try:
        return read_json(read_bytes(path, largest=LARGEST_RECORD), kind, largest=LARGEST_RECORD)
    except (OSError, ReadError) as error:
        raise InputError(path, f"{expected} expected: {error}") from error


def write_outcome(folder: Path, outcome: Outcome) -> None:
    """Write outcome.json in a single step: anyone who finds it finds all of it."""
    write_private(folder / OUTCOME_FILE, msgspec.json.encode(outcome))


def read_outcome(folder: Path) -> Outcome | None:
    """Read outcome.json, or return None where the party left none."""
    try:
        return read_json(read_bytes(folder / OUTCOME_FILE, largest=LARGEST_RECORD), Outcome, largest=LARGEST_RECORD)
    except (FileNotFoundError, ReadError):
        return None


def _require(condition: bool, name: str, given: object, expected: str) -> None:
    if not condition:
        raise InputError(name, f"{given!r}", expected)

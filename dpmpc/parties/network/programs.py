"""Start a program among parties: all of them here, prepared for elsewhere, or one of a run that a party prepared.

Whatever is run, an `Agreement` states what all its parties agree on: their party.json states that, and nothing else.

`here` runs all parties as processes of this machine, for trying out, testing and measuring: they share its operating
system. `LocalParties` does so for several runs. Each party gets a private folder and an identity; the listening sockets
are bound before any party starts (no port is ever raced for); everything is removed again. Seeds of a simulation are
handed over (`dpmpc.parties.network.launched`) and stand in no file. `prepare` writes such a folder for each party of a
run between machines, all or none, and starts no party. `join` takes part in a prepared run, with the rows that its own
user names; before that, `require_prepared` refuses a folder that was prepared for anything else.

A server of a collection has its own folder, which no other party has written: it makes its settings from the
collection (`Agreement.settings`) and takes part in the process of its command.

Not promised: secrecy of keys from anyone who prepares, who makes the keys of all parties unless each has sent its
certificate; organisations that mind put those of their own authority in their place.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Self

import msgspec

from dpmpc.base.errors import InputError
from dpmpc.base.storage.files import whole_directory, write_private
from dpmpc.base.untrusted import printable, read_bytes
from dpmpc.parties.network.identity import CERTIFICATE_FILE, KEY_FILE, Authority, pin
from dpmpc.parties.network.launched import Launched
from dpmpc.parties.network.processes import Ending, PartyProcess, ProgressCallback, root_cause, running, watch
from dpmpc.parties.network.settings import (
    LOG_FILE,
    OUTCOME_FILE,
    Outcome,
    PartySettings,
    digest_of,
    is_simulation,
    read_outcome,
    read_settings,
    write_settings,
    write_source,
)

LOOPBACK = "127.0.0.1"
BY_HAND_SECONDS = 600.0  # from the start of the first party to that of the last, where people start them
LONGEST_RUN = 3600.0  # seconds
FAREWELL_SECONDS = 5.0  # that parties have to take leave when there is no further run

Address = tuple[str, int]  # host, port
FolderCallback = Callable[[int, Path], None]


@dataclasses.dataclass(frozen=True)
class Agreement:
    """What all parties of a run agree on."""

    program: str  # a module with a coroutine ``main(party)`` that returns a dict of plain data, or None
    servers: int  # M, the parties 0 to M - 1
    arguments: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # plain data for the program
    _: dataclasses.KW_ONLY
    analyst: bool = True  # whether there is an analyst, party M, who holds no share
    task: bytes | None = None  # 32 bytes, the digest of the task; that of program and arguments by default
    deadline: float = 30.0  # seconds that one party may keep another waiting
    connect_deadline: float = 30.0  # seconds until all parties are linked

    @property
    def parties(self) -> int:
        """How many there are."""
        return self.servers + self.analyst

    def settings(self, party: int, addresses: Sequence[Address], **own: Any) -> PartySettings:
        """Return what one party needs to know; `own` is what its own process adds."""
        arguments = dict(self.arguments)
        return PartySettings(
            party=party,
            servers=self.servers,
            addresses=list(addresses),
            program=self.program,
            arguments=arguments,
            task=digest_of(self.program, arguments) if self.task is None else self.task.hex(),
            deadline=self.deadline,
            connect_deadline=self.connect_deadline,
            **own,
        )


@dataclasses.dataclass(frozen=True)
class Callbacks:
    """What is done in the course of a run on this machine."""

    # ``set_up(party, folder)`` may put files into a party's private folder before any party starts, for all its runs
    set_up: FolderCallback | None = None
    # ``meanwhile(folders)`` may put more files there while the parties start: they wait for its end before they link
    # themselves to one another. No deadline is running
    meanwhile: Callable[[Sequence[Path]], None] | None = None
    # ``collect(party, folder)`` may read what a party left there, after all have succeeded
    collect: FolderCallback | None = None
    # ``on_progress(party, progress)`` is called with the fractions or words that a party reports
    on_progress: ProgressCallback | None = None


class LocalParties:
    """The parties of this machine, each a process with a private folder: they live until the context is left.

    They take part in one run after another, over the links that they made for the first one.

    Parameters
    ----------
    lasting : bool
        Whether there may be several runs. Otherwise the parties end with the first, as parties on other machines do.
    without : collection of int
        Servers that all the others know to go on without; nothing is done for them.
    absent : collection of int
        Parties that are not started, to see what the others make of it.
    """

    def __init__(self, *, lasting: bool = True, without: Collection[int] = (), absent: Collection[int] = ()):
        self._lasting, self._without, self._absent = lasting, tuple(sorted(without)), absent
        self._stack = contextlib.ExitStack()
        self._first: Agreement | None = None
        self._addresses: list[Address] = []
        self._folders: list[Path] = []
        self._members: dict[int, set[str]] = {}  # the names of the files that a party has for all its runs
        self._processes: list[PartyProcess] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        with self._stack:  # ends the processes that are left, and removes their folders
            if kind is None and all(process.ended for process in self._processes):
                for process in self._processes:
                    process.dismiss()
                watch(self._processes, FAREWELL_SECONDS, None)

    def run(
        self,
        agreement: Agreement,
        *,
        sources: Sequence[msgspec.Struct] | None = None,
        simulation: Mapping[str, Any] | None = None,
        callbacks: Callbacks = Callbacks(),
        longest: float = LONGEST_RUN,
    ) -> list[Outcome]:
        """Run a program among the parties; parameters, result and errors are those of `here`.

        The first call starts the parties and gives them their sources. Later ones must be of the same program among
        as many parties. After a failure there is no further run.
        """
        handed_over = dict(simulation or {})
        if self._first is None:
            self._start(agreement, sources, handed_over, callbacks.set_up)
        else:
            self._prepare_next(self._first, agreement, handed_over)
        if callbacks.meanwhile is not None:
            callbacks.meanwhile(self._folders)
        for process in self._processes:
            process.go_on()
        watch(self._processes, longest, callbacks.on_progress)
        if not self._lasting or not all(process.ended for process in self._processes):
            for process in self._processes:
                process.end()
        endings = [process.ending() for process in self._processes]
        error = root_cause([*endings, *(Ending(party, None) for party in self._absent)])
        if error is not None:
            raise error
        for party in self._members:
            if callbacks.collect is not None:
                callbacks.collect(party, self._folders[party])
        return [ending.outcome for ending in endings if ending.outcome is not None]

    def _start(
        self,
        agreement: Agreement,
        sources: Sequence[msgspec.Struct] | None,
        simulation: dict[str, Any],
        set_up: FolderCallback | None,
    ) -> None:
        """Bind the sockets, write the folders and start the processes, which wait until they may go on."""
        if sources is not None and len(sources) != agreement.parties:
            raise InputError("sources", f"{len(sources)}", agreement.parties, "one for each party")
        enter = self._stack.enter_context
        listeners = [enter(socket.create_server((LOOPBACK, 0))) for _ in range(agreement.parties)]
        self._addresses = [listener.getsockname() for listener in listeners]
        root = Path(enter(tempfile.TemporaryDirectory(prefix="dpmpc-", ignore_cleanup_errors=True)))
        self._folders = [root / f"party-{party}" for party in range(agreement.parties)]
        members = {party: folder for party, folder in enumerate(self._folders) if party not in self._without}
        _write_folders(agreement, members, self._addresses, without=self._without)
        for party, folder in members.items():
            if sources is not None:
                write_source(folder, sources[party])
            if set_up is not None:
                set_up(party, folder)
            self._members[party] = {LOG_FILE, *(path.name for path in folder.iterdir())}
        present = {
            party: self._facts(party, simulation, listeners[party].fileno())
            for party in members
            if party not in self._absent
        }
        self._processes = enter(running(present, listeners))
        self._first = agreement

    def _prepare_next(self, first: Agreement, agreement: Agreement, simulation: dict[str, Any]) -> None:
        """Clear the folders of what the last run has left, and give the parties the settings of the next one."""
        kind = (agreement.program, agreement.servers, agreement.analyst)
        if kind != (first.program, first.servers, first.analyst):
            raise InputError("agreement", f"on {kind}", f"{(first.program, first.servers, first.analyst)}")
        if not all(process.ended for process in self._processes):
            raise InputError("parties", "those of a run that has failed", "parties that wait for a run")
        for party, names in self._members.items():
            folder = self._folders[party]
            for path in folder.iterdir():
                if path.name not in names:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            write_settings(folder, agreement.settings(party, self._addresses, without=self._without))
        for process in self._processes:
            process.give_facts(self._facts(process.party, simulation))

    def _facts(self, party: int, simulation: dict[str, Any], listener: int | None = None) -> Launched:
        return Launched(str(self._folders[party]), listener, self._without, simulation, lasting=self._lasting)


def here(
    agreement: Agreement,
    *,
    sources: Sequence[msgspec.Struct] | None = None,
    simulation: Mapping[str, Any] | None = None,
    callbacks: Callbacks = Callbacks(),
    without: Collection[int] = (),
    absent: Collection[int] = (),
    longest: float = LONGEST_RUN,
) -> list[Outcome]:
    """Run all parties on this machine, and return how the run ended for each.

    Parameters
    ----------
    agreement : Agreement
        What they agree on.
    sources : sequence of Struct, optional
        Where the rows of each party are, which is given to that party alone.
    simulation : mapping, optional
        Seeds and keys of a simulation, by name: handed over to the parties and written into no file.
    callbacks : Callbacks
        What is done with the parties' folders, and with what they report.
    without, absent : collection of int
        See `LocalParties`.
    longest : float
        Seconds that the whole run may take.

    Returns
    -------
    list of Outcome
        In party order, of those that take part.

    Raises
    ------
    InputError
        If an argument is not what it must be, or a party says so of its own input.
    ProtocolFailure
        The cause of the failure, if any party failed; it names the party at fault.
    """
    with LocalParties(lasting=False, without=without, absent=absent) as parties:
        return parties.run(agreement, sources=sources, simulation=simulation, callbacks=callbacks, longest=longest)


def prepare(
    agreement: Agreement,
    target: Path,
    addresses: Sequence[Address],
    *,
    called: str = "party",
    certificates: Sequence[bytes] | None = None,
    place: Callable[[Sequence[Path]], None] = lambda folders: None,
) -> list[Path]:
    """Write a folder for each party of a run between machines, all or none; people have `BY_HAND_SECONDS` to start it.

    Parameters
    ----------
    agreement : Agreement
        What they agree on.
    target : Path
        A new directory, for ``party-0``, ``party-1`` and so on; the last is the analyst's, if there is one.
    addresses : sequence of (host, port)
        Where each party listens.
    called : str
        What the folders are called in the place of ``party``.
    certificates : sequence of bytes, optional
        The parties' own certificates (PEM), in party order, which all folders then pin, and no key is made: each party
        adds its party.crt and party.key. By default an authority of this process makes all keys, for a day.
    place : callable
        ``place(folders)`` puts in what else the parties need, such as their shares.
    """
    for name, given in (("addresses", addresses), ("certificates", certificates)):
        if given is not None and len(given) != agreement.parties:
            raise InputError(name, f"{len(given)}", agreement.parties, "one for each party")
    agreement = dataclasses.replace(agreement, connect_deadline=BY_HAND_SECONDS)
    names = [f"{called}-{party}" for party in range(agreement.parties)]
    with whole_directory(target) as partial:
        folders = [partial / name for name in names]
        _write_folders(agreement, dict(enumerate(folders)), addresses, certificates)
        place(folders)
    return [target / name for name in names]


def _write_folders(
    agreement: Agreement,
    folders: Mapping[int, Path],
    addresses: Sequence[Address],
    certificates: Sequence[bytes] | None = None,
    **own: Any,
) -> None:
    """Make a private folder for each party, with its settings and its identity."""
    authority = Authority()
    for party, folder in folders.items():
        settings = agreement.settings(party, addresses, **own)
        folder.mkdir(mode=0o700)
        if certificates is None:
            authority.issue(folder, party)
        else:
            pin(folder, certificates)
        write_settings(folder, settings)


def require_prepared(folder: Path, number: int | None, program: str) -> PartySettings:
    """Return the settings of a prepared folder; refuse one for another party or program, and any simulation.

    Whoever prepared the folder wrote its settings; `number` and `program` are what this process was given itself. None
    stands for any number, where no party takes part in anything.
    """
    settings = read_settings(folder)
    settings.refuse_simulation(is_simulation(settings.arguments))
    expected = settings.party if number is None else number
    if (settings.party, settings.program) != (expected, program):
        raise InputError(
            "folder",
            f"{str(folder)!r} given, of party {settings.party} of {printable(settings.program, 100)}, one "
            f"of party {expected} of {program} expected",
        )
    return settings


def join(folder: Path, number: int, program: str, source: msgspec.Struct) -> Outcome | None:
    """Take part in a prepared run in its own process, since MPyC takes over argument list and event loop.

    Parameters
    ----------
    folder : Path
        What `require_prepared` has accepted for this number and this program.
    number, program : int, str
        What the user's own command names.
    source : Struct
        Where the party's rows are, which the folder's preparer does not learn.

    Raises
    ------
    DpmpcError
        Why this party failed.
    """
    for name in (OUTCOME_FILE, LOG_FILE):  # also where whoever prepared the folder has put a link
        (folder / name).unlink(missing_ok=True)
    with open(os.open(folder / LOG_FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as log:
        return _take_part(folder, number, program, source, log)


def join_alone(
    agreement: Agreement,
    folder: Path,
    number: int,
    addresses: Sequence[Address],
    identity: Path,
    certificates: Sequence[bytes],
    source: msgspec.Struct,
) -> None:
    """Take part in a run that no party has prepared: each party has its own identity, and the same certificates.

    Parameters
    ----------
    agreement : Agreement
        The same at all parties.
    folder : Path
        A new folder, for the time of the run.
    number : int
        Of this party.
    addresses : sequence of (host, port)
        Where each party listens.
    identity : Path
        A folder with this party's own party.key and party.crt.
    certificates : sequence of bytes
        Of all parties (PEM), in their order.
    source : Struct
        What this party alone reads.

    Raises
    ------
    DpmpcError
        Why this party failed.
    """
    agreement = dataclasses.replace(agreement, connect_deadline=BY_HAND_SECONDS)
    _write_folders(agreement, {number: folder}, addresses, certificates)
    for name in (CERTIFICATE_FILE, KEY_FILE):
        write_private(folder / name, read_bytes(identity / name, largest=1 << 16))
    _take_part(folder, number, agreement.program, source, None)


def _take_part(
    folder: Path, number: int, program: str, source: msgspec.Struct, log: IO[bytes] | None
) -> Outcome | None:
    """Run the process of a party; its messages go to a log, or to standard error where there is none."""
    write_source(folder, source)
    status = _run_to_its_end([sys.executable, "-P", "-m", "dpmpc.parties.network.party", str(folder), program], log)
    outcome = read_outcome(folder)
    last_words = "" if log is None else f"see {folder / LOG_FILE}"
    error = root_cause([Ending(number, status, outcome, last_words=last_words)])
    if error is not None:
        raise error
    return outcome


def _run_to_its_end(command: Sequence[str], log: IO[bytes] | None) -> int:
    """Run a process and return its status; who ends this process ends it too, and reads how far it had come."""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log) as child:
        before = signal.signal(signal.SIGTERM, lambda *_: child.terminate())
        try:
            return child.wait()
        except BaseException:
            child.kill()
            raise
        finally:
            signal.signal(signal.SIGTERM, before)

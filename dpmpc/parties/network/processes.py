"""Run the parties of one machine as processes, and state why a run among them failed.

A party ends by itself if whoever started it dies: it watches the connection over which it received what no file states
(`dpmpc.parties.network.launched`). `watch` waits for all with a bound, and `running` ends those that are still there
when one has failed.

When one party fails, the others lose it, or are lost themselves, and each reports another error. `root_cause` chooses
the first that applies: a party that ended without an outcome; one that blames itself; one that another has evidence
against (a wrong certificate, a bad frame, another task, a wrong share); one that kept others waiting; one whose link
failed.

Not promised: to know which of two parties is wrong when each trusts an authority that the other does not know. The
message then names both.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from dpmpc.base import errors
from dpmpc.base.errors import DpmpcError, InputError, PartyLost, PartyMissing, ProtocolFailure
from dpmpc.parties.network.launched import OPTION, End, Go, Launched, Lifeline
from dpmpc.parties.network.settings import LOG_FILE, ErrorRecord, Outcome, read_outcome

_EVIDENCE = ("PartyImpersonated", "MalformedFrame", "BatchMismatch", "Equivocation", "InconsistentShares")
_BY_WEIGHT = (_EVIDENCE, ("PartyMissing",), ("ProtocolFailure",), ("PartyLost",))  # last what follows from others


@dataclasses.dataclass(frozen=True)
class Ending:
    """How the process of one party ended."""

    party: int
    status: int | None  # exit status, negative for a signal, 0 if it waits for a run; None if the process never ran
    outcome: Outcome | None = None  # what it wrote down
    stopped: bool = False  # whether whoever started it ended it
    last_words: str = ""  # the last line of its log


def root_cause(endings: Sequence[Ending]) -> DpmpcError | None:
    """Return the error to raise for a run, or None if every party succeeded."""
    for ending in endings:
        error = _unexplained(ending)
        if error is not None:
            return error
    accusations = {
        ending.party: ending.outcome.error
        for ending in endings
        if ending.outcome is not None and ending.outcome.error is not None
    }
    for party, record in accusations.items():
        if record.party == party:
            return _typed(record)
    for types in _BY_WEIGHT:
        weighty = {party: record for party, record in accusations.items() if record.type in types}
        if weighty:
            return _typed(_most_credible(weighty))
    stopped = [ending.party for ending in endings if ending.stopped]
    if stopped:
        names = ", ".join(f"party {party}" for party in stopped)
        return PartyMissing(f"{names} did not end in time", stopped[0])
    return None


def _unexplained(ending: Ending) -> ProtocolFailure | None:
    """Return the error of a party that ended by itself and left no outcome."""
    if ending.status is None:
        return PartyMissing(f"party {ending.party} was never started", ending.party)
    if ending.outcome is not None or ending.stopped:
        return None
    if ending.status < 0:
        how = f"was killed by {signal.Signals(-ending.status).name}"
    else:
        how = f"ended with status {ending.status} and no outcome: {ending.last_words}"
    return PartyLost(f"party {ending.party} {how}", ending.party)


def _most_credible(accusations: dict[int, ErrorRecord]) -> ErrorRecord:
    """Choose the error that blames whom most others blame; parties that are blamed count only if all are."""
    accused = {record.party for record in accusations.values()}
    unblemished = [record for party, record in accusations.items() if party not in accused]
    candidates = unblemished or list(accusations.values())
    guilty, _ = Counter(record.party for record in candidates).most_common(1)[0]
    return next(record for record in candidates if record.party == guilty)


def _typed(record: ErrorRecord) -> DpmpcError:
    kind = getattr(errors, record.type, None)
    if not isinstance(kind, type) or not issubclass(kind, DpmpcError):
        kind = ProtocolFailure
    if issubclass(kind, ProtocolFailure):
        return kind(record.message, record.party)
    if issubclass(kind, InputError):
        return kind(f"party {record.party}", record.message)
    return ProtocolFailure(record.message, record.party)


GRACE_SECONDS = 1.5
ENDING_SECONDS = 1.0
# Of the linear algebra in every party: on one machine they would otherwise wait for one another's spinning threads.
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")

ProgressCallback = Callable[[int, float | str], None]
_logger = logging.getLogger(__name__)


class PartyProcess:
    """The process of one party."""

    def __init__(self, party: int, facts: Launched, listener: socket.socket, environment: dict[str, str]):
        self.party = party
        self.stopped = False
        self.ended = False  # whether it has reported the end of its run, and waits for the next one
        self._folder = folder = Path(facts.folder)
        self._lifeline = Lifeline()
        self._unfinished_line = b""
        with open(folder / LOG_FILE, "wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "dpmpc.parties.network.party", OPTION, str(self._lifeline.descriptor)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
                pass_fds=[listener.fileno(), self._lifeline.descriptor],
                start_new_session=True,  # an interrupt at the terminal is for the launcher, which then ends the parties
            )
        assert self._process.stdout is not None
        self.output = self._process.stdout
        self._lifeline.send(facts)

    @property
    def status(self) -> int | None:
        """The exit status, once there is one."""
        return self._process.poll()

    def read_progress(self) -> list[float | str] | None:
        """Return what the party has reported since the last call, or None after the end of its output."""
        data = os.read(self.output.fileno(), 1 << 16)
        if not data:
            return None
        *lines, self._unfinished_line = (self._unfinished_line + data).split(b"\n")
        reports = [msgspec.json.decode(line) for line in lines]
        self.ended = self.ended or any("ended" in report for report in reports)
        return [report["progress"] for report in reports if "progress" in report]

    def give_facts(self, facts: Launched) -> None:
        """Tell a party that lives on about its next run, whose settings are in its folder."""
        self.ended = False
        self._lifeline.send(facts)

    def go_on(self) -> None:
        """Let the party take part: link itself to the others, where it is not; one that has ended is noticed later."""
        self._lifeline.send(Go())

    def dismiss(self) -> None:
        """Tell a party that lives on that there is no further run."""
        self.ended = False
        self._lifeline.send(End())

    def end(self) -> None:
        """End the process, if it is still there."""
        for end in (self._process.terminate, self._process.kill):
            if self.status is None:
                self.stopped = True
                end()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(ENDING_SECONDS)
        self._process.wait()
        self._lifeline.close()
        self.output.close()

    def ending(self) -> Ending:
        """Return how the process ended."""
        log = (self._folder / LOG_FILE).read_text(errors="replace").strip()
        if log:
            _logger.debug("log of party %d:\n%s", self.party, log)
        last_words = log.rpartition("\n")[2]
        return Ending(
            self.party, 0 if self.ended else self.status, read_outcome(self._folder), self.stopped, last_words
        )


@contextlib.contextmanager
def running(parties: Mapping[int, Launched], listeners: list[socket.socket]) -> Iterator[list[PartyProcess]]:
    """Start the parties, and end those that still run when the body is left."""
    search_path = [os.path.abspath(entry) for entry in sys.path]
    environment = ONE_THREAD | os.environ | {"PYTHONPATH": os.pathsep.join(search_path)}
    children: list[PartyProcess] = []
    try:
        for party, facts in parties.items():
            children.append(PartyProcess(party, facts, listeners[party], environment))
        for listener in listeners:
            listener.close()
        yield children
    finally:
        for child in children:
            child.end()


def watch(children: list[PartyProcess], longest: float, on_progress: ProgressCallback | None) -> None:
    """Pass progress on until all have ended the run, one has failed and the others had their time, or time is up."""
    end = time.monotonic() + longest
    with selectors.DefaultSelector() as selector:
        for child in children:
            selector.register(child.output, selectors.EVENT_READ, child)
        while any(child.status is None and not child.ended for child in children) or selector.get_map():
            if time.monotonic() >= end:
                return
            for key, _ in selector.select(timeout=0.05):
                child = key.data
                steps = child.read_progress()
                if steps is None or child.ended:
                    selector.unregister(key.fileobj)
                if on_progress is not None:
                    for progress in steps or ():
                        on_progress(child.party, progress)
            if any(child.status not in (None, 0) for child in children):
                end = min(end, time.monotonic() + GRACE_SECONDS)

"""Run the process of one party: ``python -m dpmpc.parties.network.party FOLDER [PROGRAM]``.

The private folder holds party.json, the party's identity, and whatever the program reads. The process verifies the task
of the run, where there is one (`dpmpc.parties.network.verified_task`), and imports the program, which may get ready in
a function ``prepare(settings)``. If it has a launcher, it then waits until everything that the program reads is there.
It links itself to the other parties, runs the program, says goodbye to the others, and writes outcome.json: what the
program returned and what the run cost, or a typed error. The exit status is 0, 2 for an `InputError`, 3 for anything
else. A launcher may have the party live on after a run (`dpmpc.parties.network.launched`): it then keeps its links and
runs the program again, on the task that party.json holds by then.

A program is a module with a coroutine ``main(party)``, or one written for MPyC with a coroutine ``main()``. In both
``from mpyc.runtime import mpc`` gives the runtime of this party, which is linked already; ``mpc.party`` is the party.

Whoever prepared the folder has written party.json. So a party that is started by hand runs one of `dpmpc.protocols`, or
the program that its own command line names and no other; it takes part in no simulation; and it removes nothing.
Where source.json lies in the folder, it names files of this machine whose rows are sent: the command line then has to
name the program, as `dpmpc mix` and `dpmpc owners` do, which write that file themselves. Start it as ``python -P -m``
unless the program is a module of the current folder: without ``-P`` Python imports what lies there first. A launcher
starts the process with ``--launched DESCRIPTOR`` instead of a folder (`dpmpc.parties.network.launched`).

Progress goes to standard output, one JSON object a line; everything else that is printed, and every traceback, goes
to standard error, which a launcher keeps as the party's log.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import logging
import os
import sys
from pathlib import Path
from typing import Any, TextIO

import msgspec

from dpmpc.base.errors import DpmpcError, InputError, ProtocolFailure
from dpmpc.base.untrusted import printable
from dpmpc.parties.network.launched import OPTION, End, Launched, Launcher
from dpmpc.parties.network.meter import Meter
from dpmpc.parties.network.naming import called
from dpmpc.parties.network.runtime import PartyRuntime
from dpmpc.parties.network.settings import (
    SOURCE_FILE,
    ErrorRecord,
    Outcome,
    PartySettings,
    is_simulation,
    read_settings,
    write_outcome,
)
from dpmpc.parties.network.verified_task import NO_TASK, TASK, verified_task
from dpmpc.privacy.task import VerifiedTask

PROGRAMS = "dpmpc.protocols"  # what any folder may name
_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Party:
    """What a program sees of the run that it takes part in.

    Parameters
    ----------
    runtime : PartyRuntime
        The links to the other parties.
    folder : Path
        This party's private folder.
    """

    runtime: PartyRuntime
    folder: Path
    _progress: TextIO
    _task: VerifiedTask | None = None

    @property
    def has_task(self) -> bool:
        """Whether the run is that of a task."""
        return self._task is not None

    @property
    def task(self) -> VerifiedTask:
        """The task of the run, which this party has verified; an `InputError` if the run has none."""
        if self._task is None:
            raise InputError(*NO_TASK)
        return self._task

    @property
    def pid(self) -> int:
        """The number of this party."""
        return self.runtime.settings.party

    @property
    def servers(self) -> int:
        """The number of servers, M; they are the parties 0 to M - 1."""
        return self.runtime.settings.servers

    @property
    def present(self) -> list[int]:
        """The numbers of the servers that take part: all but those that this run goes on without."""
        return self.runtime.settings.present

    @property
    def analyst(self) -> int | None:
        """The analyst's number, M, where there is an analyst."""
        return self.runtime.settings.analyst

    @property
    def arguments(self) -> dict[str, Any]:
        """What the program is to do; the same for every party."""
        return self.runtime.settings.arguments

    @property
    def meter(self) -> Meter:
        """Measures this party; programs name their phases."""
        return self.runtime.meter

    def report_progress(self, progress: float | str) -> None:
        """Report to the launcher how far this party is: a fraction in [0, 1], or a few words."""
        self._report({"progress": progress})

    def report_end(self) -> None:
        """Report to the launcher that a run has ended, and its outcome is written; the party waits for the next."""
        self._report({"ended": True})

    def _report(self, line: dict[str, Any]) -> None:
        self._progress.write(msgspec.json.encode(line).decode() + "\n")
        self._progress.flush()


def run_party(settings: PartySettings, folder: Path, progress: TextIO, launcher: Launcher | None = None) -> int:
    """Take part in a run, or in several; write the outcome of each and return the exit status.

    Parameters
    ----------
    settings : PartySettings
        Who takes part and what is to be done.
    folder : Path
        The party's private folder.
    progress : text file
        Where progress is reported.
    launcher : Launcher, optional
        What has started this process: the party waits for its message before it contacts any other.
    """
    try:
        runtime = PartyRuntime(settings, folder)  # first: a program that imports MPyC's `mpc` gets this runtime
        try:
            _take_part(runtime, folder, progress, launcher)
        finally:
            runtime.end()
        return 0
    except DpmpcError as error:
        _logger.exception("the run failed")
        failure = error
    except Exception as error:
        _logger.exception("the run failed")
        why = f"{called(settings.party)} failed: {type(error).__name__}: {error}"
        failure = ProtocolFailure(why, settings.party)
    guilty = failure.party if isinstance(failure, ProtocolFailure) else settings.party
    record = ErrorRecord(type(failure).__name__, str(failure), guilty)
    write_outcome(folder, Outcome(settings.party, ok=False, error=record))
    return failure.exit_status


def _take_part(runtime: PartyRuntime, folder: Path, progress: TextIO, launcher: Launcher | None) -> None:
    """Take part in all runs that there are; the first failure ends them."""
    settings = runtime.settings
    while True:
        task = verified_task(settings) if TASK in settings.arguments else None
        if task is not None and task.sharing == "shamir":
            runtime.threshold = task.trust.colluding_servers  # the degree of the clients' shares
        runtime.party = party = Party(runtime, folder, progress, task)
        program = _program(settings)
        if launcher is not None and isinstance(launcher.wait(), End):
            return
        write_outcome(folder, _run(program, party, settings))
        if launcher is None or not launcher.facts.lasting:
            return
        party.report_end()
        facts = launcher.wait()
        if not isinstance(facts, Launched):
            runtime.run_step(runtime.leave())
            return
        settings = read_settings(folder, facts)


def _program(settings: PartySettings) -> Any:
    """Import the program and call its `prepare`, if it has one."""
    program = importlib.import_module(settings.program)
    if not hasattr(program, "main") and not hasattr(program, "run_script"):
        raise InputError("program", settings.program, "a module with a coroutine main")
    if hasattr(program, "prepare"):
        program.prepare(settings)
    return program


def _run(program: Any, party: Party, settings: PartySettings) -> Outcome:
    runtime = party.runtime
    if hasattr(program, "run_script"):  # it runs a script, which drives the loop (`dpmpc.parties.mpyc.program_file`)
        result, statistics = runtime.run_script(lambda: program.run_script(party))
        return Outcome(party.pid, ok=True, result=result, statistics=statistics)

    async def take_part() -> Outcome:
        await (runtime.start_again(settings) if runtime.links else runtime.start())
        arguments = (party,) if inspect.signature(program.main).parameters else ()
        result = await program.main(*arguments)
        await runtime.shutdown()
        return Outcome(party.pid, ok=True, result=result or {}, statistics=runtime.meter.statistics())

    return runtime.run_step(take_part())


def _progress_channel() -> TextIO:
    """Reserve standard output for progress, and redirect everything else that is printed to standard error."""
    channel = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return channel


def main() -> int:
    """Run the party of a launcher, or the one whose folder the command line gives."""
    arguments = sys.argv[1:]
    del sys.argv[1:]
    logging.basicConfig(format="%(asctime)s %(name)s %(message)s", force=True)
    logging.getLogger("dpmpc").setLevel(logging.DEBUG)
    launcher: Launcher | None = None
    try:
        if len(arguments) == 2 and arguments[0] == OPTION and arguments[1].isdecimal():
            launcher = Launcher(int(arguments[1]))
            launcher.follow()
            folder = Path(launcher.facts.folder)
            settings = read_settings(folder, launcher.facts)
        elif len(arguments) in (1, 2) and Path(arguments[0]).is_dir():
            folder = Path(arguments[0]).resolve()
            settings = read_settings(folder)
            require_by_hand(folder, settings, *arguments[1:])
        else:
            print("usage: python -m dpmpc.parties.network.party FOLDER [PROGRAM]", file=sys.stderr)
            return InputError.exit_status
    except InputError as error:
        print(error, file=sys.stderr)
        return error.exit_status
    with _progress_channel() as progress:
        return run_party(settings, folder, progress, launcher)


def require_by_hand(folder: Path, settings: PartySettings, program: str | None = None) -> None:
    """Refuse what no party does that was started by hand: a program that no party here has named, or a simulation.

    Parameters
    ----------
    folder : Path
        The party's.
    settings : PartySettings
        Of party.json.
    program : str, optional
        What the command line names.

    Raises
    ------
    InputError
        If the program is another, or none of `dpmpc.protocols` where none is named; or if none is named, and the folder
        states which rows of this machine to read.
    SimulationOnly
        If what was agreed on states that it is a simulation.
    """
    ours = settings.program.rpartition(".")[0] == PROGRAMS
    if settings.program != program and (program is not None or not ours):
        expected = f"one of {PROGRAMS}, or the one that the command line names," if program is None else f"{program}"
        raise InputError("program", f"{printable(settings.program, 100)}", expected)
    if program is None and os.path.lexists(folder / SOURCE_FILE):
        raise InputError(
            folder / SOURCE_FILE,
            "given, which names files of this machine to read, none expected where whoever prepared the "
            "folder may have written it: start `dpmpc mix` or `dpmpc owners`, which write it, or name "
            f"{printable(settings.program, 100)} on the command line if you wrote it",
        )
    settings.refuse_simulation(is_simulation(settings.arguments))


if __name__ == "__main__":
    sys.exit(main())

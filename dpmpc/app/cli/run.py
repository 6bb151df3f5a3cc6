"""`dpmpc run`: any MPyC program on authenticated links, all parties on this machine or one of several hosts.

The file is an MPyC program as it stands. MPyC's options choose the parties: ``-M3`` starts three here, ``-P`` for each
party and ``-I`` make this process one of them. Messages of peers are never unpickled, each peer is the party whose
certificate it holds, every wait ends, and the first failure ends all parties with one error.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dpmpc.app.cli.options import address, seconds
from dpmpc.base.errors import InputError
from dpmpc.base.untrusted import harmless, read_bytes

DEADLINE = 600.0  # seconds: what a program computes between two messages may take long
LONGEST_RUN = 3600.0  # seconds, so that no run on one machine is left behind
ELSEWHERE = {"ssl": "--ssl", "config": "-C", "base_port": "-B", "output_windows": "--output-windows"}


def add_commands(commands: Any) -> None:
    """Add the command to the parser."""
    run = commands.add_parser("run", help="run an MPyC program on authenticated links")
    run.add_argument(
        "--deadline",
        type=seconds,
        default=DEADLINE,
        help=f"seconds that a party may keep others waiting ({DEADLINE:g})",
    )
    run.add_argument(
        "--longest",
        type=seconds,
        default=LONGEST_RUN,
        help=f"with -M: seconds after which the run is ended ({LONGEST_RUN:g})",
    )
    run.add_argument("--identity", metavar="DIR", help="with -I: this party's own key and certificate (dpmpc identity)")
    run.add_argument(
        "--certificate", action="append", metavar="FILE", help="with -I: the party.crt of each party, in their order"
    )
    run.add_argument("file", metavar="FILE", help="the program")
    run.add_argument(
        "arguments",
        nargs=argparse.REMAINDER,
        metavar="...",
        help="-M, or -P and -I, and options of MPyC and the program",
    )
    run.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    from dpmpc.parties.mpyc.program_file import MODULE, ProgramFile, arguments_of
    from dpmpc.parties.network import backend
    from dpmpc.parties.network.programs import Agreement

    path = Path(options.file).resolve()
    chosen, rest = backend.read_options(options.arguments)
    for name, flag in ELSEWHERE.items():
        if getattr(chosen, name):
            raise InputError(flag, "given, none expected: it is of MPyC's own links, and these are others")
    parties = len(chosen.parties) if chosen.parties else chosen.M
    if parties is None or parties < 2:
        raise InputError("-M", parties or "none", "at least 2 parties", condition="(-M3, or -P for each and -I)")
    agreed = arguments_of(path, [*backend.shared_options(chosen), *rest])
    agreement = Agreement(MODULE, parties, agreed, analyst=False, deadline=options.deadline)
    program = ProgramFile(str(path))
    if chosen.parties:
        _join(options, chosen, agreement, program)
    else:
        _all_here(chosen, agreement, program, options.longest)


def _all_here(chosen: Any, agreement: Any, program: Any, longest: float) -> None:
    """Start all parties as processes of this machine; party 0 prints here, the others to files if asked to."""
    from dpmpc.parties.network.programs import Callbacks, here

    if chosen.index is not None:
        raise InputError(
            "-I", f"{chosen.index} given with -M, none expected: all parties are started (-P for one of them)"
        )
    with _outputs(agreement.servers, to_files=chosen.output_file) as outputs:

        def print_line(party: int, line: float | str) -> None:
            if party in outputs and isinstance(line, str):  # numbers say how far a kernel is
                print(harmless(str(line)), file=outputs[party], flush=True)

        callbacks = Callbacks(on_progress=print_line)
        here(agreement, sources=[program] * agreement.servers, callbacks=callbacks, longest=longest)


@contextlib.contextmanager
def _outputs(parties: int, *, to_files: bool) -> Iterator[dict[int, Any]]:
    """Yield where parties print."""
    with contextlib.ExitStack() as stack:
        outputs: dict[int, Any] = {0: sys.stdout}
        for party in range(1, parties) if to_files else ():
            outputs[party] = stack.enter_context(open(f"party{parties}_{party}.log", "a"))
        yield outputs


def _join(options: argparse.Namespace, chosen: Any, agreement: Any, program: Any) -> None:
    """Take part as one party of several hosts, with this party's own identity."""
    from dpmpc.parties.network.programs import join_alone

    if chosen.index is None or not 0 <= chosen.index < agreement.servers:
        raise InputError("-I", chosen.index, f"a party from 0 to {agreement.servers - 1}")
    if options.identity is None or len(options.certificate or ()) != agreement.servers:
        raise InputError(
            "identity, certificate",
            f"{options.identity}, {len(options.certificate or ())}",
            f"this party's folder of `dpmpc identity` and the certificates of all {agreement.servers} parties",
        )
    certificates = [read_bytes(Path(name), largest=1 << 16) for name in options.certificate]
    try:
        addresses = [address(place) for place in chosen.parties]
    except argparse.ArgumentTypeError as error:
        raise InputError("-P", error) from error
    with tempfile.TemporaryDirectory(prefix="dpmpc-") as folder:
        join_alone(
            agreement, Path(folder) / "party", chosen.index, addresses, Path(options.identity), certificates, program
        )

"""Commands of organisations that each run their own party: `dpmpc mix` and `dpmpc owners`.

Such a command has three forms: all parties as processes of this machine (``--simulate``); the folders of parties that
run on their own machines (``--prepare``); one of these (``--party I``, or what the command calls a party). A command
may have further ones. Each option is declared once, with the forms that need it and those that use it. What a form does
not use is refused, so that nobody believes an option to have had an effect.

Not promised: secrecy of keys from anyone who prepares (`dpmpc.parties.network.programs`).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dpmpc.app.cli.options import add_simulation_seed, address, seconds
from dpmpc.app.cli.output import new_path
from dpmpc.app.cli.parsing import Parser
from dpmpc.base.errors import DpmpcError, InputError
from dpmpc.privacy.specification import DELTA_IS, option_of

if TYPE_CHECKING:
    import msgspec

    from dpmpc.parties.network.programs import Agreement
    from dpmpc.parties.network.settings import Outcome

SIMULATE, PREPARE = "simulate", "prepare"
PLANNED = (SIMULATE, PREPARE)  # forms whose command says what is going to be done


class Forms:
    """The forms of a command, with the options of each, which are added to the command's parser.

    `more` are forms of this command alone, that take a folder, with their help.
    """

    def __init__(self, command: Parser, called: str, plural: str, more: Mapping[str, str] = MappingProxyType({})):
        # what the command calls a party, and several; the form that runs one has this name
        self.called, self.plural = called, plural
        self._names = (SIMULATE, PREPARE, called, *more)
        self._needed: dict[str, tuple[str, ...]] = {}
        self._used: dict[str, tuple[str, ...]] = {}
        self._defaults: dict[str, Any] = {}
        form = command.exclusive(required=True)
        form.add_argument(
            "--simulate", nargs="+", metavar="DATA", help=f"all {plural} on this machine, a file for each"
        )
        form.add_argument("--prepare", metavar="DIR", help=f"write a folder of settings and identity for each {called}")
        form.add_argument(
            f"--{called}", type=int, metavar="I", help=f"run {called} I of a prepared run on this machine"
        )
        for name, text in more.items():
            form.add_argument(f"--{name}", metavar="DIR", help=text)
        command.add_argument("--json", action="store_true", help="print one JSON object")
        self._groups: Mapping[tuple[str, ...], Any] = {
            (called,): command.section(f"--{called}"),
            (PREPARE,): command.section("--prepare"),
            PLANNED: command.section("--simulate and --prepare"),
        }
        self._command = command

    def add(
        self,
        flag: str,
        *,
        needed: tuple[str, ...] = (),
        used: tuple[str, ...] = (),
        default: Any = None,
        **keywords: Any,
    ) -> None:
        """Add an option, with the forms that need it and those that use it if it is given."""
        name = flag.removeprefix("--").replace("-", "_")
        self._needed[name], self._used[name], self._defaults[name] = needed, used, default
        forms = tuple(form for form in self._names if form in (*needed, *used))
        if default is not None:
            shown = f"{default:g}" if isinstance(default, float) else default
            keywords["help"] = f"{keywords['help']} (default {shown})"
        self._groups.get(forms, self._command).add_argument(flag, default=None, **keywords)

    def add_common(self) -> None:
        """Add what every such command has: a party's file and folder, addresses, the budget, names and limits."""
        called = self.called
        self.add("--data", needed=(called,), metavar="FILE", help=f"CSV or Parquet with the rows of this {called}")
        self.add("--folder", needed=(called,), metavar="DIR", help=f"this {called}'s folder of --prepare")
        self.add("--addresses", needed=(PREPARE,), nargs="+", metavar="HOST:PORT", help=f"where each {called} listens")
        self.add("--epsilon", needed=PLANNED, **option_of("epsilon"))
        self.add("--delta", needed=PLANNED, **option_of("delta", help=f"{DELTA_IS}: well below 1/N"))
        self.add(
            "--names", rare=True, used=PLANNED, nargs="+", metavar="NAME", help=f"what the {self.plural} are called"
        )
        self.add("--threads", rare=True, used=PLANNED, default=1, type=int, help="threads of each process")
        self.add(
            "--deadline",
            rare=True,
            used=PLANNED,
            default=30.0,
            type=seconds,
            help=f"seconds that {'an' if called[0] in 'aeiou' else 'a'} {called} may keep others waiting",
        )
        self._used["simulation_seed"] = (SIMULATE,)
        self._needed["simulation_seed"] = ()
        add_simulation_seed(self._groups[PLANNED])

    def run(self, options: argparse.Namespace, forms: Mapping[str, Callable[[argparse.Namespace], None]]) -> None:
        """Run the form that was given, once it has what it needs and nothing else; defaults are filled in."""
        form = next(name for name in self._names if getattr(options, name) is not None)
        for name in sorted(self._used):
            given = getattr(options, name)
            if given is None and form in self._needed[name]:
                raise InputError(name, "none", "one", condition=f"with --{form}")
            if given is not None and form not in (*self._needed[name], *self._used[name]):
                raise InputError(name, f"{given!r} given, but --{form} does not use it")
            if given is None:
                setattr(options, name, self._defaults.get(name))
        forms[form](options)


def addresses_of(options: argparse.Namespace) -> list[tuple[str, int]]:
    """Return where the parties listen, as given to --prepare."""
    try:
        return [address(text, least=1) for text in options.addresses]
    except argparse.ArgumentTypeError as error:
        raise InputError("addresses", error) from None


def write_folders(options: argparse.Namespace, agreement: Agreement, called: str, plural: str) -> None:
    """Write the folder of each party, and state what is to be done with it."""
    from dpmpc.parties.network.programs import prepare

    target = new_path(PREPARE, options.prepare)
    prepare(agreement, target, addresses_of(options), called=called)
    print(f"{target}: a folder for each of {agreement.parties} {plural}; send each its own by a private channel")


def take_part(
    options: argparse.Namespace, number: int, program: str, source: msgspec.Struct, has_sent: Callable[[Path], bool]
) -> Outcome | None:
    """Run a party of a prepared run; where it fails after it has sent something of its rows, state what to do."""
    from dpmpc.parties.network.programs import join

    folder = Path(options.folder)
    try:
        return join(folder, number, program, source)
    except DpmpcError:
        if has_sent(folder):
            print(
                f"dpmpc {options.command}: this folder has sent what it computed of its rows, and others may have it; "
                "run again in the same folder, which sends the same bytes: a new --prepare would spend further budget",
                file=sys.stderr,
            )
        raise

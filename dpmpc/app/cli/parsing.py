"""The parser of the command: groups and examples in its help, what was probably meant, counts such as 1e6.

Every parser of the command is a `Parser`, those of its subcommands too, so that all of this is written once: a module
of a command says `type=int`, and its users may say ``1e6``. An option that is added as `rare` is printed by
``--help-all`` alone, so that ``--help`` stays short.
"""

from __future__ import annotations

import argparse
import decimal
import difflib
import functools
import itertools
import shutil
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NoReturn

from dpmpc.base.errors import InputError

MOST_DIGITS = 100  # of a number such as 1e6: what it stands for is written out

#: What the help lists together. A command that is in no group stands under `REMAINING`.
GROUPS: dict[str, tuple[str, ...]] = {
    "analyse a table": ("fit", "describe", "plan", "bounds", "read", "predict"),
    "try it": ("demo", "doctor"),
    "collect from many people": (
        "identity",
        "collection",
        "inspect",
        "roster",
        "serve",
        "status",
        "submit",
        "withdraw",
        "release",
        "verify",
    ),
    "join what several owners have": ("mix", "owners", "run"),
}
REMAINING = "more"

#: For each command one that works as it stands, but for names of files. The first of a group stands in `dpmpc --help`.
EXAMPLES: dict[str, str] = {
    "fit": "dpmpc fit people.csv --model ridge --target score --bounds bounds.toml --epsilon 1 --delta 1e-6 "
    "--out result",
    "describe": "dpmpc describe people.csv --bounds bounds.toml --by outcome --epsilon 1 --delta 1e-6 --out table-1",
    "plan": "dpmpc plan --clients 1e6 --columns 10 --epsilon 1 --delta 1e-8",
    "bounds": "dpmpc bounds people.csv > bounds.toml",
    "read": "dpmpc read result/release.dpmpc --target score",
    "predict": "dpmpc predict result new-people.csv",
    "run": "dpmpc run protocols/linear_transform.py -M3 --rows 500 --sparsity 4",
    "demo": "dpmpc demo --clients 1e5 --delta 1e-6",
    "doctor": "dpmpc doctor --network",
    "identity": "dpmpc identity server-0/identity --server 0 --days 400",
    "collection": "dpmpc collection survey.json --name Survey --bounds bounds.toml "
    "--server https://a.example a.example:7443 a.example:7444 a.crt --seal a.pub "
    "--server https://b.example b.example:7443 b.example:7444 b.crt --seal b.pub "
    "--opens 2027-01-31T08:00+01:00 --closes 2027-03-01T00:00+01:00 --expires 2027-04-01T00:00+02:00 "
    "--minimum-batch 2e4 --largest-batch 1e6 --epsilon 1 --delta 1e-7",
    "inspect": "dpmpc inspect survey.json",
    "roster": "dpmpc roster survey.json --names names.txt --out tickets",
    "serve": "dpmpc serve survey.json --server 0 --folder server-0 --listen 0.0.0.0:7443 --web 0.0.0.0:443",
    "status": "dpmpc status survey.json",
    "submit": "dpmpc submit survey.json people.csv --state people.state --batch 10",
    "withdraw": "dpmpc withdraw survey.json --state people.state",
    "release": "dpmpc release survey.json --server 0 --folder server-0 --out release.dpmpc",
    "verify": "dpmpc verify release.dpmpc --collection survey.json",
    "mix": "dpmpc mix --simulate hospital.csv registry.csv --key id --epsilon 1 --delta 1e-6 --out mixed.dpmpc",
    "owners": "dpmpc owners --simulate north.csv south.csv --target ill --model logistic --bounds bounds.toml "
    "--epsilon 1 --delta 1e-6 --out result",
}


def whole(text: str) -> int:
    """Parse a whole number, written out or as 1e6.

    Parameters
    ----------
    text : str
        Such as ``20000``, ``20_000``, ``2e4`` or ``1.5e6``.

    Raises
    ------
    argparse.ArgumentTypeError
        If it is not a whole number, or one of more than `MOST_DIGITS` digits.
    """
    try:
        return int(text)
    except ValueError:
        pass
    try:
        value = decimal.Decimal(text)
    except decimal.InvalidOperation:
        value = decimal.Decimal("NaN")
    if not value.is_finite() or abs(value.adjusted()) > MOST_DIGITS or len(value.as_tuple().digits) > MOST_DIGITS:
        raise argparse.ArgumentTypeError(f"{text!r} given, a whole number such as 20000 or 2e4 expected")
    if value != value.to_integral_value():
        raise argparse.ArgumentTypeError(f"{text!r} given, a whole number expected")
    return int(value)


def nearest(wrong: str, known: Sequence[str]) -> str:
    """Return ``; did you mean X?`` with what is spelt like it, or nothing."""
    close = difflib.get_close_matches(wrong, known, n=2, cutoff=0.6)
    return f"; did you mean {' or '.join(close)}?" if close else ""


def one_of(options: Sequence[str]) -> Callable[[str], str]:
    """Return what reads one of a few texts, and states of a wrong one which was probably meant."""

    def read(text: str) -> str:
        if text not in options:
            expected = f"one of {', '.join(options)} expected{nearest(text, options)}"
            raise argparse.ArgumentTypeError(f"{text!r} given, {expected}")
        return text

    return read


def _reading(keywords: dict[str, Any]) -> dict[str, Any]:
    """Have counts read by `whole`, few choices by `one_of`, and print the `InputError` of any other reader."""
    if keywords.get("choices"):
        return {**keywords, "type": one_of(keywords["choices"])}
    read = keywords.get("type")
    if read is None or read is float:
        return keywords
    return {**keywords, "type": whole if read is int else _printed(read)}


def _printed(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return a reader whose `InputError` is what the parser prints."""

    @functools.wraps(read)
    def parse(text: str) -> Any:
        try:
            return read(text)
        except InputError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parse


class Section:
    """Arguments that the help of a command shows together, or that exclude each other."""

    def __init__(self, parser: Parser, group: Any, arguments: list[argparse.Action]):
        self._parser, self._group, self._arguments = parser, group, arguments

    def add_argument(self, *names: str, rare: bool = False, **keywords: Any) -> argparse.Action:
        """Add an argument, as `Parser.add_argument` does."""
        added: argparse.Action = self._group.add_argument(*names, **_reading(keywords))
        self._arguments.append(added)
        return self._parser.hidden(added) if rare else added


class _HelpAll(argparse.Action):
    """Print the help with rare options, and exit."""

    def __call__(self, parser: Any, *_: Any) -> None:
        print(parser.format_help_all(), end="")
        parser.exit()


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, which names the command's help and what was probably meant."""

    def __init__(self, *arguments: Any, **keywords: Any):
        self.sections: dict[str, list[argparse.Action]] = {"": []}  # what was added, by title; most has none
        self.rare: list[argparse.Action] = []  # what the short help leaves out
        #: Adds the options that depend on what arguments choose, and tells of an option which choice has it.
        self.extend: Callable[[Sequence[str]], None] = lambda arguments: None
        self.belongs: Callable[[str], str] = lambda option: ""
        super().__init__(*arguments, **keywords)

    @property
    def arguments(self) -> list[argparse.Action]:
        """All that were added, in sections too."""
        return [action for actions in self.sections.values() for action in actions]

    def add_argument(self, *names: str, rare: bool = False, **keywords: Any) -> argparse.Action:
        """Add an argument; one that is rare is left out of the short help, and comes with ``--help-all``."""
        added = super().add_argument(*names, **_reading(keywords))
        self.sections[""].append(added)
        return self.hidden(added) if rare else added

    def hidden(self, added: argparse.Action) -> argparse.Action:
        """Leave an argument out of the short help."""
        if not self.rare:
            self.add_argument("--help-all", action=_HelpAll, nargs=0, help="print this message with all options")
        self.rare.append(added)
        return added

    def format_help(self) -> str:
        """Return the help without rare options."""
        texts = [action.help for action in self.rare]
        for action in self.rare:
            action.help = argparse.SUPPRESS
        try:
            return self.format_help_all()
        finally:
            for action, text in zip(self.rare, texts, strict=True):
                action.help = text

    def format_help_all(self) -> str:
        """Return the help with all options."""
        return super().format_help()

    def section(self, title: str) -> Section:
        """Return a section of the help."""
        return Section(self, self.add_argument_group(title), self.sections.setdefault(title, []))

    def exclusive(self, *, required: bool = False) -> Section:
        """Return what takes options that exclude each other."""
        return Section(self, self.add_mutually_exclusive_group(required=required), self.sections[""])

    def error(self, message: str) -> NoReturn:
        """Exit with status 2 after one line."""
        joint = " " if message.endswith("?") else "; "
        self.exit(2, f"{self.prog}: {message}{joint}{self.prog} --help has more\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Refuse unknown options before anything else is found to be missing, such as the one that was misspelt."""
        self.extend(args or ())
        known = [name for action in self.arguments for name in action.option_strings if name.startswith("--")]
        for option in self._own_options(args or ()):
            name = option.partition("=")[0]
            if not any(one.startswith(name) for one in known):
                self.error(f"{name!r} is not an option{self.belongs(name) or nearest(name, known)}")
        parsed, left = super().parse_known_args(args, namespace)
        if left:
            self.error(f"unexpected: {' '.join(map(repr, left))}")
        return parsed, left

    def _own_options(self, arguments: Iterable[str]) -> Iterator[str]:
        """Yield the long options that stand before ``--``; none where a command passes arguments on to a program."""
        if any(action.nargs == argparse.REMAINDER for action in self.arguments):
            return
        for argument in itertools.takewhile(lambda argument: argument != "--", arguments):
            if argument.startswith("--") and " " not in argument.partition("=")[0]:
                yield argument


class TopParser(Parser):
    """The parser of ``dpmpc`` itself, whose help shows its commands in `GROUPS`."""

    def __init__(self, *arguments: Any, **keywords: Any):
        super().__init__(*arguments, **keywords)
        self.commands = self.add_subparsers(required=True, metavar="COMMAND", dest="command", parser_class=Parser)
        self._shown: dict[str, tuple[str, str]] = {}

    def add_parser(self, name: str, *, help: str, **keywords: Any) -> Parser:
        """Add a command."""
        self._shown[name] = (name, help)
        command: Parser = self.commands.add_parser(name, help=help, **keywords)
        if name in EXAMPLES:
            command.epilog = f"example: {EXAMPLES[name]}"
        return command

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Say of a wrong command which one was probably meant."""
        command = next((argument for argument in args or () if not argument.startswith("-")), None)
        if command is not None and command not in self.commands.choices and not list(self._own_options(args)):
            self.error(f"{command!r} is not a command{nearest(command, list(self.commands.choices))}")
        return super().parse_known_args(args, namespace)

    def _own_options(self, arguments: Iterable[str]) -> Iterator[str]:
        """Yield the long options that stand before the command, whose own come after it."""
        return super()._own_options(itertools.takewhile(lambda argument: argument.startswith("-"), arguments))

    def grouped(self) -> dict[str, list[tuple[str, str]]]:
        """Return for each group its commands, each with what it is for."""
        left = dict(self._shown)
        groups = {title: [left.pop(name) for name in names if name in left] for title, names in GROUPS.items()}
        groups[REMAINING] = list(left.values())
        return {title: commands for title, commands in groups.items() if commands}

    def format_help(self) -> str:
        """Return usage, commands in groups with an example each, and options."""
        width = shutil.get_terminal_size().columns - 2
        options = [(", ".join(action.option_strings), action.help or "") for action in self.arguments]
        sections = {**self.grouped(), "options": options}
        column = 4 + max(len(label) for rows in sections.values() for label, _ in rows)

        def shown(label: str, text: str) -> str:
            return textwrap.fill(
                text, max(width, column + 20), initial_indent=f"  {label:{column - 2}}", subsequent_indent=" " * column
            )

        parts = [self.format_usage(), f"{self.description}\n"]
        for title, rows in sections.items():
            parts.append("\n".join([f"{title}:", *(shown(label, text) for label, text in rows), ""]))
            example = EXAMPLES.get(rows[0][0].partition(" ")[0])
            if example is not None:
                parts.append(f"example: {example}\n")
        parts.append("dpmpc COMMAND --help prints what a command takes, with an example.\n")
        return "\n".join(parts)

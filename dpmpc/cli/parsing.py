"""The parser of the command: groups and examples in its help, what was probably meant, counts such as 1e6.

Every parser of the command is a `Parser`, those of its subcommands too, so that all of this is written once: a module
of a command says `type=int`, and its users may say ``1e6``.
"""

from __future__ import annotations

import argparse
import decimal
import difflib
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

MOST_DIGITS = 100  # of a number such as 1e6: what it stands for is written out

#: What the help lists together. A command that is in no group stands under `REMAINING`.
GROUPS: dict[str, tuple[str, ...]] = {
    "analyse a table": ("fit", "plan", "bounds", "read", "predict"),
    "try it": ("demo", "doctor", "audit", "completion"),
    "collect from many people": (
        "identity",
        "collection",
        "inspect",
        "roster",
        "serve",
        "status",
        "submit",
        "release",
        "verify",
    ),
    "join what several owners have": ("mix", "owners", "parties"),
}
REMAINING = "more"

#: For each command one that works as it stands, but for names of files. The first of a group stands in `dpmpc --help`.
EXAMPLES: dict[str, str] = {
    "fit": "dpmpc fit people.csv --target score --bounds bounds.toml --epsilon 1 --delta 1e-6 --out result",
    "plan": "dpmpc plan --clients 1e6 --columns 10 --epsilon 1 --delta 1e-8",
    "bounds": "dpmpc bounds people.csv > bounds.toml",
    "read": "dpmpc read result/release.dpmpc --target score",
    "predict": "dpmpc predict result new-people.csv",
    "demo": "dpmpc demo --clients 1e5 --delta 1e-6",
    "doctor": "dpmpc doctor --network",
    "audit": "dpmpc audit --mechanism one-copy --releases 1e5",
    "completion": "dpmpc completion bash > ~/.local/share/bash-completion/completions/dpmpc",
    "identity": "dpmpc identity server-0/identity --server 0 --days 400",
    "collection": "dpmpc collection survey.toml --name Survey --bounds bounds.toml "
    "--server https://a.example:7443 a.example:7444 a.crt --server https://b.example:7443 b.example:7444 b.crt "
    "--opens 2027-01-31T08:00+01:00 --closes 2027-03-01T00:00+01:00 --expires 2027-04-01T00:00+02:00 "
    "--minimum-batch 2e4 --largest-batch 1e6 --epsilon 1 --delta 1e-7",
    "inspect": "dpmpc inspect survey.toml",
    "roster": "dpmpc roster survey.toml --names names.txt --out tickets",
    "serve": "dpmpc serve survey.toml --server 0 --folder server-0 --listen 0.0.0.0:7443",
    "status": "dpmpc status survey.toml",
    "submit": "dpmpc submit survey.toml people.csv --state people.state --batch 10",
    "release": "dpmpc release survey.toml --server 0 --folder server-0 --out release.dpmpc",
    "verify": "dpmpc verify release.dpmpc --collection survey.toml",
    "mix": "dpmpc mix --simulate hospital.csv registry.csv --key id --epsilon 1 --delta 1e-6 --out mixed.dpmpc",
    "owners": "dpmpc owners --simulate north.csv south.csv --target ill --model logistic --bounds bounds.toml "
    "--epsilon 1 --delta 1e-6 --out result",
    "parties": "dpmpc parties parties --party a.example:7443 --party b.example:7443 --party c.example:7443",
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


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, which names the command's help and what was probably meant."""

    def __init__(self, *arguments: Any, **keywords: Any):
        super().__init__(*arguments, **keywords)
        self.register("type", int, whole)  # what every option with `type=int` is read by

    def error(self, message: str) -> NoReturn:
        """Exit with status 2 after one line."""
        joint = " " if message.endswith("?") else "; "
        self.exit(2, f"{self.prog}: {message}{joint}{self.prog} --help tells more\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Refuse unknown options before anything else is found to be missing, such as the one that was misspelt."""
        for option in self._options_of(args or ()):
            name = option.partition("=")[0]
            if not any(known.startswith(name) for known in self._option_string_actions):
                self.error(f"{name!r} is not an option{nearest(name, self._long_options())}")
        parsed, left = super().parse_known_args(args, namespace)
        if left:
            self.error(f"unexpected: {' '.join(map(repr, left))}")
        return parsed, left

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Say of a wrong choice which one was probably meant."""
        if action.choices is None or value in action.choices:
            return
        known = [str(choice) for choice in action.choices]
        meant = nearest(str(value), known)
        if isinstance(action, argparse._SubParsersAction):
            raise argparse.ArgumentError(None, f"{value!r} is not a command{meant}")
        raise argparse.ArgumentError(action, f"{value!r} given, one of {', '.join(known)} expected{meant}")

    def _options_of(self, arguments: Sequence[str]) -> Iterator[str]:
        """Yield the long options that are for this parser, and not for that of a subcommand, or after ``--``."""
        nested = any(isinstance(action, argparse._SubParsersAction) for action in self._actions)
        for argument in arguments:
            if argument == "--" or (nested and not argument.startswith("-")):
                return
            if argument.startswith("--") and " " not in argument.partition("=")[0]:
                yield argument

    def _long_options(self) -> list[str]:
        return [name for name in self._option_string_actions if name.startswith("--")]


class TopParser(Parser):
    """The parser of ``dpmpc`` itself, whose help shows its commands in `GROUPS`."""

    def __init__(self, *arguments: Any, **keywords: Any):
        super().__init__(*arguments, **keywords)
        self.commands = self.add_subparsers(
            title="commands", required=True, metavar="COMMAND", dest="command", parser_class=Parser
        )

    def add_examples(self) -> None:
        """Have the help of every command end with its example; to be called when all commands are added."""
        for name, command in self.commands.choices.items():
            if name in EXAMPLES and command.epilog is None:
                command.epilog = f"example: {EXAMPLES[name]}"

    def grouped(self) -> dict[str, list[tuple[str, str]]]:
        """Return for each group its commands, each with what it is for."""
        told = {str(action.metavar or action.dest): action.help or "" for action in self.commands._get_subactions()}
        # "read (learn)" is what argparse calls a command that has another name
        left = {label.partition(" ")[0]: (label, text) for label, text in told.items()}
        groups = {title: [left.pop(name) for name in names if name in left] for title, names in GROUPS.items()}
        groups[REMAINING] = list(left.values())
        return {title: commands for title, commands in groups.items() if commands}

    def format_help(self) -> str:
        """Return usage, commands in groups with an example each, and options."""
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        for title, commands in self.grouped().items():
            formatter.start_section(title)
            for label, text in commands:
                formatter.add_argument(argparse.Action([], label, help=text, metavar=label, nargs=None))
            formatter.end_section()
            example = EXAMPLES.get(commands[0][0].partition(" ")[0])
            if example is not None:
                formatter.add_text(f"  example: {example}")
        formatter.start_section("options")
        formatter.add_arguments([action for action in self._actions if action.option_strings])
        formatter.end_section()
        formatter.add_text("dpmpc COMMAND --help tells what a command takes, with an example.")
        return formatter.format_help()

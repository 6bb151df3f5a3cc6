"""`dpmpc completion`: a script that has a shell complete commands, options, choices and files."""

from __future__ import annotations

import argparse
from typing import Any

from dpmpc.app.cli.fit import FITTED
from dpmpc.app.cli.model_options import options_by_model
from dpmpc.app.cli.parsing import Parser, TopParser
from dpmpc.base.errors import InputError

SHELLS = ("bash", "zsh")
#: What an argument stands for, by its name in the help.
_FILES = ("FILE", "DATA", "COLLECTION")
_FOLDERS = ("DIR",)


def add_commands(commands: Any) -> None:
    """Add the command to the parser."""
    completion = commands.add_parser("completion", help="a script that has your shell complete commands and options")
    completion.add_argument("shell", choices=SHELLS, help=f"one of {', '.join(SHELLS)}")
    completion.set_defaults(run=_completion)


def _completion(options: argparse.Namespace) -> None:
    print(script(options.parser, options.shell))


def script(top: TopParser, shell: str) -> str:
    """Return the script for a shell."""
    try:
        import shtab
    except ImportError as error:
        raise InputError("completion needs shtab: pip install '.[completion]' in its source folder") from error
    for kind, commands in ((FITTED, "fit"), (("table-one",), "describe")):
        command = top.commands.choices[commands]
        for action in (one for actions in options_by_model(kind).values() for one in actions):
            if not set(action.option_strings) & set(command._option_string_actions):
                command._add_action(action)
    for command in top.commands.choices.values():
        _mark_paths(command, shtab.FILE, shtab.DIRECTORY)
    return str(shtab.complete(top, shell=shell))


def _mark_paths(parser: Parser, file: Any, folder: Any) -> None:
    """Mark the arguments of a command that are names of files or folders, as shtab expects it."""
    for action in parser.arguments:
        if action.metavar in _FILES:
            action.complete = file  # type: ignore[attr-defined]
        elif action.metavar in _FOLDERS:
            action.complete = folder  # type: ignore[attr-defined]

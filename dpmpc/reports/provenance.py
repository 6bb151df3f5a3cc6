"""How a result came about, without a path of the machine that wrote it: the command, and the versions."""

from __future__ import annotations

import importlib.metadata
import platform
import shlex
from collections.abc import Sequence
from pathlib import Path

import dpmpc

_PACKAGES = ("numpy", "scipy", "scikit-learn", "mpyc", "cryptography")


def command_line(arguments: Sequence[str], paths: Sequence[str | None]) -> str:
    """Return the command that has these arguments, with the names alone of the files and folders among them.

    Parameters
    ----------
    arguments : sequence of str
        What came after ``dpmpc``.
    paths : sequence of str
        Those arguments, or ends of arguments such as ``--out=DIR``, that are paths.
    """
    return shlex.join(
        ["dpmpc", *(_without_folders(argument, [path for path in paths if path]) for argument in arguments)]
    )


def versions() -> dict[str, str]:
    """Return the versions of what computed a result, by name."""
    found = {name: importlib.metadata.version(name) for name in _PACKAGES}
    return {"dpmpc": dpmpc.__version__, "Python": platform.python_version(), **found}


def _without_folders(argument: str, paths: Sequence[str]) -> str:
    option, equals, value = argument.partition("=")
    for path in paths:
        if argument == path:
            return Path(path).name
        if option.startswith("--") and equals and value == path:
            return f"{option}={Path(path).name}"
    return argument

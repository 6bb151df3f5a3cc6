"""How a program ends: its exit status, and errors as one line on standard error."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping

from dpmpc.base.errors import DpmpcError, InputError
from dpmpc.base.untrusted import harmless


def exit_status(job: Callable[[], None], options: Mapping[str, str] | None = None) -> int:
    """Run a job and report its errors on standard error; return the exit status.

    Parameters
    ----------
    job : callable
        What to run.
    options : mapping, optional
        The options of a command by the names of the arguments that they become, as errors call them.
    """
    try:
        job()
        sys.stdout.flush()
    except DpmpcError as error:
        known = options or {}
        option = known.get(error.argument or "")
        text = str(error) if option is None else error.text(option)
        # What a message advises, in the words of the command.
        text = re.sub(r"\b(\w+)=True\b", lambda advice: known.get(advice[1], advice[0]), text)
        print(f"dpmpc: {type(error).__name__}: {harmless(text)}", file=sys.stderr)
        return error.exit_status
    except BrokenPipeError:  # the reader of the output has closed it
        _discard_what_cannot_be_written()
        return 141
    except OSError as error:  # a disk that is full, a folder that may not be written
        _discard_what_cannot_be_written()
        where = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
        print(f"dpmpc: {where}{error.strerror or error}", file=sys.stderr)
        return InputError.exit_status
    except KeyboardInterrupt:
        print("dpmpc: interrupted", file=sys.stderr)
        return 130
    return 0


def _discard_what_cannot_be_written() -> None:
    """Discard what standard output still holds if writing fails: the interpreter would try again at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

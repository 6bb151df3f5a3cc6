"""Import a copy of MPyC of our own, without side effects, and make one party's runtime the one that it computes on.

At its first import MPyC parses `sys.argv` and takes its options out of it, sets up logging on standard output, sets
environment variables, may replace the event loop by uvloop, makes a default runtime, and starts the other parties where
it finds -M. None of this may happen because a program imports dpmpc, and all of it has to happen as ever where a
program imports ``mpyc.runtime`` itself, before or after. So MPyC is loaded here under the switch that it has for
builders of documentation, which leaves all of it out, and is taken out of `sys.modules` again: a program that imports
MPyC gets its own copy, as if dpmpc were not there.

The process of a party is ours. There `become_the_runtime` puts our copy back under its name, so that ``from
mpyc.runtime import mpc`` in a party's program is that party's runtime. The loop is asyncio's own: uvloop would pass the
bytes by itself, uncounted.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
import warnings
from collections.abc import Sequence
from types import ModuleType
from typing import Any

_IMPORT_ONLY = "READTHEDOCS"  # MPyC parses, sets up and starts nothing where this variable is "True"
_USERS = ("sectypes", "asyncoro", "mpctools", "seclists", "secpols", "secgroups", "random", "statistics")


def _withdrawn() -> dict[str, ModuleType]:
    """Take MPyC's modules out of `sys.modules` and return them by name."""
    names = [name for name in sys.modules if name.partition(".")[0] == "mpyc"]
    return {name: sys.modules.pop(name) for name in names}


def _load_own_copy() -> dict[str, ModuleType]:
    """Import MPyC anew, and leave modules, environment and logging as they were."""
    programs, switch = _withdrawn(), os.environ.get(_IMPORT_ONLY)
    os.environ[_IMPORT_ONLY] = "True"
    silent = logging.NullHandler()
    logging.getLogger().addHandler(silent)  # a message of MPyC's would else set up logging, before the program does
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # MPyC 0.11 imports numpy.core
            importlib.import_module("mpyc.runtime")
    finally:
        logging.getLogger().removeHandler(silent)
        ours = _withdrawn()
        sys.modules.update(programs)
        del os.environ[_IMPORT_ONLY]
        if switch is not None:
            os.environ[_IMPORT_ONLY] = switch
    return ours


_modules = _load_own_copy()
mpyc_runtime: Any = _modules["mpyc.runtime"]
asyncoro: Any = _modules["mpyc.asyncoro"]


def default_options(servers: int) -> Any:
    """Return MPyC's options for a computation among `servers` parties.

    Without pseudorandom secret sharing no keys are exchanged at set-up. `mix32_64bit` makes MPyC send field elements as
    fixed-width bytes where it would otherwise send pickles. The threshold is the largest with an honest majority.
    """
    parser: Any = vars(_modules["mpyc"])["_get_arg_parser"]()
    options = parser.parse_args(["--no-log", "--no-prss", "--no-uvloop"])
    options.no_async = False
    options.mix32_64bit = True
    options.threshold = (servers - 1) // 2
    return options


def read_options(arguments: Sequence[str]) -> tuple[Any, list[str]]:
    """Read MPyC's own options; return them, and what they leave of the arguments."""
    parser: Any = vars(_modules["mpyc"])["_get_arg_parser"]()
    options, rest = parser.parse_known_args(list(arguments))
    return options, rest


def shared_options(options: Any) -> list[str]:
    """Return those of MPyC's options that all parties of a program have to share, as arguments."""
    threshold = [] if options.threshold is None else ["-T", str(options.threshold)]
    return [*threshold, "-L", str(options.bit_length), "-K", str(options.sec_param)]


def become_the_runtime(runtime: object, pickle: object) -> None:
    """Make `runtime` the one that secure types of this process compute on; MPyC takes `pickle` for that module.

    From here on ``from mpyc.runtime import mpc`` gives `runtime`.
    """
    for name in _USERS:
        vars(_modules[f"mpyc.{name}"])["runtime"] = runtime
    mpyc_runtime.mpc, mpyc_runtime.pickle = runtime, pickle
    os.environ.setdefault("MPYC_MAXWORKERS", "0")  # read where MPyC takes square roots of arrays
    sys.modules.update(_modules)

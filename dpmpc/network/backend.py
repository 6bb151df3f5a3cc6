"""Import MPyC once and without side effects.

At its first import MPyC parses `sys.argv`, sets up logging on standard output, makes a default runtime and may
replace the event loop by uvloop. Here it sees an argument list that turns all of this off, so that a party's command
line is never read as MPyC's. The loop has to be asyncio's own: uvloop would pass the bytes by itself, uncounted.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
import warnings
from typing import Any

_QUIET = ["--no-log", "--no-prss", "--no-uvloop"]


def _import_quietly() -> Any:
    arguments, sys.argv = sys.argv, ["dpmpc", *_QUIET]
    try:
        if "mpyc.runtime" not in sys.modules:
            asyncio.set_event_loop(asyncio.SelectorEventLoop())
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # MPyC 0.11 imports numpy.core
                importlib.import_module("mpyc.runtime")
        return sys.modules["mpyc"]
    finally:
        sys.argv = arguments


_mpyc = _import_quietly()
mpyc_runtime, asyncoro = _mpyc.runtime, _mpyc.asyncoro


def default_options(servers: int) -> Any:
    """Return MPyC's options for a computation among `servers` parties.

    Without pseudorandom secret sharing no keys are exchanged at set-up. `mix32_64bit` makes MPyC send field elements as
    fixed-width bytes where it would otherwise send pickles. The threshold is the largest with an honest majority.
    """
    options = _mpyc._get_arg_parser().parse_known_args(_QUIET)[0]
    options.no_async = False
    options.mix32_64bit = True
    options.threshold = (servers - 1) // 2
    return options


def become_the_runtime(runtime: object, pickle: object) -> None:
    """Make `runtime` the one that MPyC's secure types compute on, and `pickle` what MPyC takes for that module."""
    default = mpyc_runtime.mpc
    users = ("sectypes", "asyncoro", "mpctools", "seclists", "secpols", "secgroups", "random", "statistics")
    for name in users:
        getattr(_mpyc, name).runtime = runtime
    mpyc_runtime.mpc, mpyc_runtime.pickle = runtime, pickle
    default._loop.close()

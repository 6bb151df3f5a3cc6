"""Parties that `dpmpc.network.processes` starts as forks of the process of the tests, which has everything imported.

An interpreter of its own costs each party about a third of a second of CPU time. A fork has the same file descriptors,
environment, command line and parent as a process that was started anew, and does what `python -m` does with them. What
a test has patched in this process is patched in its forks too; tests of how processes start use real ones.
"""

import asyncio
import contextlib
import gc
import logging
import os
import signal
import subprocess
import sys
import traceback
import warnings
from unittest import mock

from dpmpc.network import party, processes

MODULE = "dpmpc.network.party"
PROGRAMS = ("network_programs", "dpmpc.protocols", "mpyc")  # what a party has to import by itself
_STANDARD = (0, 1, 2)


class ForkedParty(subprocess.Popen):
    """A process of a party: a fork instead of a new interpreter, otherwise as the standard library has it."""

    def _execute_child(self, *given):
        (args, _, _, _, pass_fds, cwd, env, _, _, _, *ends, _, _, _, _, _, start_new_session, _) = given
        stdin, _, _, stdout, _, stderr = ends
        assert args[1:4] == ["-P", "-m", MODULE], args
        assert cwd is None
        assert start_new_session
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # a worker of the suite has threads: they hold no lock
            self.pid = os.fork()
        if self.pid == 0:
            _become_a_party(args[4:], env, (stdin, stdout, stderr), pass_fds)
        self._child_created = True
        self._close_pipe_fds(*ends)


def _become_a_party(arguments, environment, standard, kept):
    """Run a party in this fork, and end the process; nothing of the test goes on here."""
    status = 70
    try:
        gc.disable()  # what is collected would close descriptors that have another meaning here
        os.setsid()
        for number in (signal.SIGALRM, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for target, source in zip(_STANDARD, standard, strict=True):
            os.dup2(source, target)
        _close_all_but({*_STANDARD, *kept})
        os.environ.clear()
        os.environ.update(environment)
        sys.stdin, sys.stdout, sys.stderr = (os.fdopen(end, mode) for end, mode in zip(_STANDARD, "rww", strict=True))
        sys.argv = [MODULE, *arguments]
        sys.path[:0] = [entry for entry in environment["PYTHONPATH"].split(os.pathsep) if entry not in sys.path]
        warnings.resetwarnings()
        warnings.simplefilter("error" if environment.get("PYTHONWARNINGS") == "error" else "ignore")
        for name in [name for name in sys.modules if name.startswith(PROGRAMS)]:
            del sys.modules[name]
        logging.getLogger().handlers.clear()  # those of pytest, whose files are closed here
        asyncio.set_event_loop_policy(None)
        status = party.main()
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(status)


def _close_all_but(kept):
    for number in map(int, os.listdir("/dev/fd")):
        if number not in kept:
            try:
                os.close(number)
            except OSError:
                continue  # that of the list itself


class _Subprocess:
    """The module `subprocess` as `dpmpc.network.processes` sees it."""

    Popen = ForkedParty

    def __getattr__(self, name):
        return getattr(subprocess, name)


@contextlib.contextmanager
def forked():
    """Let a run of this machine fork its parties in the body."""
    with mock.patch.object(processes, "subprocess", _Subprocess()):
        yield


@contextlib.contextmanager
def not_forked():
    """Let a run of this machine start an interpreter for each party in the body, as it does outside of these tests."""
    with mock.patch.object(processes, "subprocess", subprocess):
        yield

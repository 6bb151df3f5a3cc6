"""Parties and commands as forks of a process that has everything imported.

An interpreter of its own costs a party a third of a second of CPU time, and a command up to two. A fork has the same
descriptors, environment, command line, folder and parent as a process that was started anew, and does what ``python
-m`` does with them. What a test has patched in this process is patched in its forks too. Tests of how processes start
have new interpreters (`not_forked`).
"""

import asyncio
import contextlib
import gc
import json
import logging
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from unittest import mock

from dpmpc.app.cli import main as cli
from dpmpc.parties.network import party, processes, programs
from support.processes import begin
from support.waiting import PATIENCE, wait_for

MAINS = {"dpmpc.parties.network.party": party.main, "dpmpc": cli.main}
PARTIES = (processes, programs)  # where they are started
OWN = ("network_programs", "dpmpc.protocols", "mpyc")  # what a party has to import by itself
CRASHED = 70  # exit status
_STANDARD = (0, 1, 2)


class Fork(subprocess.Popen):
    """A process of a file or of one of `MAINS`: a fork, otherwise as the standard library has it."""

    def _execute_child(self, *given):
        (args, _, _, _, pass_fds, cwd, env, _, _, _, *ends, _, _, _, _, _, new_session, _) = given
        stdin, _, _, stdout, _, stderr = ends
        program, *arguments = args[1 + args.index("-m") :] if "-m" in args else args[1:]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # a worker of the suite has threads: they hold no lock
            self.pid = os.fork()
        if self.pid == 0:
            _become(program, arguments, env, cwd, (stdin, stdout, stderr), pass_fds, new_session)
        self._child_created = True
        self._close_pipe_fds(*ends)


def start(*arguments, program=("-m", "dpmpc"), **options):
    """Start a command ``dpmpc ...`` or another program, as `subprocess.Popen` would."""
    return Fork([sys.executable, *map(str, [*program, *arguments])], **options)


def run(*arguments, input=None, seconds=PATIENCE, **options):
    """Start and wait; return exit status and what was printed, as `subprocess.run` would."""
    given = subprocess.DEVNULL if input is None else subprocess.PIPE
    printed = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with start(*arguments, stdin=given, **printed, **options) as process:
        try:
            output = process.communicate(input, seconds)
        finally:
            process.kill()
    return subprocess.CompletedProcess(process.args, process.returncode, *output)


def _become(program, arguments, environment, folder, standard, kept, new_session):
    """Run a program in this fork, and end the process; nothing of what it was forked from goes on here."""
    status = CRASHED
    try:
        gc.disable()  # what is collected would close descriptors that have another meaning here
        if new_session:
            os.setsid()
        for number in (signal.SIGALRM, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for target, source in zip(_STANDARD, standard, strict=True):
            if source != -1:
                os.dup2(source, target)
        _close_all_but({*_STANDARD, *kept})
        if environment is not None:
            os.environ.clear()
            os.environ.update(environment)
        if folder is not None:
            os.chdir(folder)
        sys.stdin, sys.stdout, sys.stderr = map(_opened, _STANDARD, "rww")
        sys.argv = [program, *arguments]
        own_path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        sys.path[:0] = [entry for entry in own_path if entry and entry not in sys.path]
        warnings.resetwarnings()
        warnings.simplefilter("error" if os.environ.get("PYTHONWARNINGS") == "error" else "ignore")
        logging.getLogger().handlers.clear()  # those of pytest, whose files are closed here
        asyncio.set_event_loop_policy(None)
        for name in [name for name in sys.modules if name.startswith(OWN)]:
            del sys.modules[name]
        with forked():
            status = MAINS[program]() if program in MAINS else runpy.run_path(program, run_name="__main__") and 0
    except SystemExit as ended:
        status = ended.code
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError):
                stream.flush()
        os._exit(status)


def _opened(end, mode):
    return os.fdopen(end, mode, closefd=False)  # a fork of this fork lets go of it


def _close_all_but(kept):
    for number in map(int, os.listdir("/dev/fd")):
        if number not in kept:
            with contextlib.suppress(OSError):  # that of the list itself
                os.close(number)


class _Subprocess:
    """The module `subprocess` as what starts parties sees it."""

    Popen = Fork

    def __getattr__(self, name):
        return getattr(subprocess, name)


@contextlib.contextmanager
def _started_by(module, starters):
    with contextlib.ExitStack() as stack:
        for starter in starters:
            stack.enter_context(mock.patch.object(starter, "subprocess", module))
        yield


def forked(*starters):
    """Let what these modules start be forks in the body: by default the parties of this machine."""
    return _started_by(_Subprocess(), starters or PARTIES)


def not_forked():
    """Let each party of this machine have a new interpreter in the body, as outside of these tests."""
    return _started_by(subprocess, PARTIES)


# `dpmpc` for programs that are none of Python's

_COMMAND = """#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({path!r})
    socket.send_fds(server, [b"!"], [0, 1, 2])
    server.sendall(json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode() + b"\\n")
    status = server.recv(16)
sys.exit(int(status) if status else {crashed})
"""


@contextlib.contextmanager
def command_folder():
    """Give a folder with a command `dpmpc` whose processes are forks of one that has everything imported."""
    with tempfile.TemporaryDirectory() as root:
        path, command = f"{root}/calls", Path(root, "dpmpc")
        command.write_text(_COMMAND.format(python=sys.executable, path=path, crashed=CRASHED))
        command.chmod(0o700)
        server = begin(_answer, path)
        try:
            wait_for(lambda: os.path.exists(path), "the process that forks commands")
            yield root
        finally:
            server.kill()
            server.join()


def _answer(path):
    """Fork a process for every command that calls."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{path}-new")
        listener.listen()
        os.rename(f"{path}-new", path)
        while True:
            select.select([listener], [], [], 0.5)
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG) != (0, 0):
                    continue
            if select.select([listener], [], [], 0)[0]:
                call, _ = listener.accept()
                with call:
                    if os.fork() == 0:
                        _take(call)


def _take(call):
    """Start the command as a fork of this one, tell how it ended, and end; who calls may end it by ending itself."""
    try:
        _, descriptors, _, _ = socket.recv_fds(call, 1, len(_STANDARD))
        with call.makefile("rb") as said:
            arguments, folder, environment = json.loads(said.readline())
        ends = dict(zip(("stdin", "stdout", "stderr"), descriptors, strict=True))
        command = start(*arguments, cwd=folder, env=environment, **ends)
        for end in descriptors:  # whoever reads the output waits for its end
            os.close(end)
        if call in select.select([call, os.pidfd_open(command.pid)], [], [])[0]:
            command.terminate()
        call.sendall(str(command.wait()).encode())
    finally:
        os._exit(0)

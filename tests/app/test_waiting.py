"""Whoever waits is told now and then, and nobody else."""

import subprocess
import sys
import threading

import pytest

from dpmpc.app.cli import output, waiting


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(waiting, "FIRST_SECONDS", 0.02)
    monkeypatch.setattr(waiting, "NEXT_SECONDS", 0.02)


def test_lines_come_with_the_stage_and_how_much_is_done():
    lines, enough = [], threading.Event()

    def write(line):
        lines.append(line)
        if len(lines) == 2:
            waiting.note("server 1", 0.25)
        if len(lines) == 4:
            enough.set()

    with waiting.told_while_waiting("dpmpc fit", write):
        assert enough.wait(20)
    assert lines[0] == "dpmpc fit: at work, 0 s"
    assert lines[3].startswith("dpmpc fit: server 1, 25% done, ")
    told = len(lines)
    threading.Event().wait(0.1)
    assert len(lines) == told  # the thread has ended


def test_a_short_command_is_silent(monkeypatch):
    monkeypatch.setattr(waiting, "FIRST_SECONDS", 60.0)
    lines = []
    with waiting.told_while_waiting("dpmpc fit", lines.append):
        pass
    assert lines == []


def test_whoever_draws_a_display_is_not_disturbed():
    lines = []
    with waiting.quiet(), waiting.told_while_waiting("dpmpc fit", lines.append):
        threading.Event().wait(0.2)
    assert lines == []


def test_an_error_ends_the_lines_too():
    with pytest.raises(KeyError), waiting.told_while_waiting("dpmpc fit", lambda line: None):
        raise KeyError
    assert not [thread for thread in threading.enumerate() if thread._target is waiting._tell]


def test_stages_are_noted_where_there_is_no_terminal(capsys):
    with output.progress() as on_progress:
        on_progress("clients", 0.5)
    assert waiting.line("dpmpc fit", 3.2) == "dpmpc fit: clients, 50% done, 3 s"
    assert capsys.readouterr().err == ""


def test_a_piped_command_that_takes_long_says_so_and_a_closed_pipe_does_not_end_it():
    code = (
        "import time; from dpmpc.app.cli import waiting; waiting.FIRST_SECONDS = 0.05\n"
        "with waiting.told_while_waiting('dpmpc demo'):\n    time.sleep(0.4)\nprint('done')"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert (ran.stderr, ran.stdout) == ("dpmpc demo: at work, 0 s\n", "done\n")
    closed = subprocess.run(["bash", "-c", '"$0" -c "$1" 2>&-', sys.executable, code], capture_output=True, timeout=30)
    assert closed.returncode == 0

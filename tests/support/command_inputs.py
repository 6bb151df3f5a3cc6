"""How the tests of commands run one."""

from dpmpc.app.cli.main import main
from dpmpc.data import Schema

NAMES = ("height", "weight", "score")

BOUNDS = Schema.from_pair(NAMES, (-2.0, 2.0))

BUDGET = ["--epsilon", "1", "--delta", "1e-6"]


def status_of(words):
    """Run a command; return its status, also where its parser has ended it."""
    try:
        return main([str(word) for word in words])
    except SystemExit as stop:
        return stop.code


def run(capsys, *arguments):
    status = status_of(arguments)
    captured = capsys.readouterr()
    return status, captured.out, captured.err

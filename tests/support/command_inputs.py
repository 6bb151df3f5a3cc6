"""How the tests of commands run one."""

from dpmpc.app.cli.main import main
from dpmpc.data import Schema

NAMES = ("height", "weight", "score")

BOUNDS = Schema.from_pair(NAMES, (-2.0, 2.0))

BUDGET = ["--epsilon", "1", "--delta", "1e-6"]


def run(capsys, *arguments):
    status = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err

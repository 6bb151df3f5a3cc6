"""What the README shows is what runs."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from dpmpc.app.cli.main import parser

README = (Path(__file__).parent.parent / "README.md").read_text()
LINES = 125  # what is longer belongs on the site


def test_the_python_example_runs(capsys):
    code, _ = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    scope = {}
    exec(compile(code, "README.md", "exec"), scope)
    assert np.linalg.norm(scope["model"].coef_ - [0.4, -0.2, 0.1]) < 0.05
    printed = capsys.readouterr().out.splitlines()
    (shown,) = re.findall(r"```text\n(.*?)```", README, re.DOTALL)
    assert [line for line in shown.splitlines() if line.strip() != "..." and line not in printed] == []


def test_algorithm_1_is_that_of_the_program():
    _, code = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert code in (Path(__file__).parents[1] / "protocols" / "linear_transform.py").read_text()


def test_it_stays_short():
    assert len(README.splitlines()) <= LINES


@pytest.mark.parametrize("line", re.findall(r"^dpmpc [^|\n]*", README, re.MULTILINE))
def test_the_commands_exist(line):
    words = shlex.split(line, comments=True)
    command = words[1 : words.index(">")] if ">" in words else words[1:]
    assert parser().parse_args(command).run is not None

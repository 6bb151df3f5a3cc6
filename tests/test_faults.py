"""Faults made on purpose still fit the code, and are judged as `tests/faults/` describes.

That the tests notice them takes minutes and is for `make faults`.
"""

import ast
import json
import os
import subprocess
import sys

import pytest
from cosmic_ray.mutating import mutate_code
from faults import named, operators
from faults.judging import NOTICED, UNNOTICED, Verdict, first_failure
from faults.named import NamedFault, places_of, spliced
from faults.operators import OPERATORS, OperatorFault
from faults.reach import MOST_SECONDS, Reach
from faults.source import ROOT, Function, function_at, functions_of, text_of
from faults.verdicts import Verdicts

from support.lints import check_each

NAMED = named.read()


def digest(text):
    return Function("f", ast.parse(text)).digest


def check_named(fault):
    assert fault.why
    assert named.exists(fault.noticed_by), f"{fault.noticed_by} does not exist"
    mutated = fault.mutated()
    assert mutated != text_of(fault.file)
    if fault.file.endswith(".py"):
        assert ast.dump(ast.parse(mutated)) != ast.dump(ast.parse(text_of(fault.file)))


def test_every_named_fault_can_be_made():
    check_each(check_named, NAMED, name=lambda fault: fault.name)
    assert len({fault.name for fault in NAMED}) == len(NAMED) >= 200


def test_no_operator_makes_a_named_fault_of_one_line():
    """What an operator makes needs no entry."""

    def check(fault):
        begins = next(number for number, (old, new) in enumerate(lines(fault), start=1) if old != new)
        near = [other for other in operators.faults_of(fault.file) if other.line == begins]
        tree = ast.dump(ast.parse(fault.mutated()))
        assert [other.name for other in near if ast.dump(ast.parse(other.mutated())) == tree] == []

    def lines(fault):
        return zip(text_of(fault.file).splitlines(), fault.mutated().splitlines(), strict=False)

    check_each(check, [one for one in NAMED if one.file.startswith("dpmpc/privacy")], name=lambda fault: fault.name)


def test_layout_and_the_name_of_a_local_variable_do_not_matter():
    renamed = "def f(x):\n    spread = (x *\n        x)\n    return spread / 2  # why\n"
    ((nodes, names),) = places_of("return scale / 2", ast.parse(renamed).body[0])
    assert names == {"scale": "spread"}
    assert "    return spread * 3 + x  # why\n" in spliced(renamed, nodes, names, "return scale * 3 + x")
    assert list(places_of("x * x", ast.parse(renamed).body[0]))
    refusing = ast.parse("def f(x):\n    if x:\n        raise E('a', x)\n").body[0]
    assert list(places_of("if x:\n    raise E('another message')", refusing))
    assert not list(places_of("if x:\n    raise F('a', x)", refusing))
    assert not list(places_of("return x / 2", ast.parse(renamed).body[0])), "another variable of the function"
    assert not list(places_of("return math.pi / 2", ast.parse(renamed).body[0]))


def test_statements_are_left_out_with_their_lines():
    text = "def f(x):\n    check(x)\n    if x:\n        keep(x)\n        send(x)\n"
    ((nodes, names),) = places_of("keep(x)\nsend(x)", ast.parse(text).body[0])
    assert spliced(text, nodes, names, "send(x)\nkeep(x)").endswith("        send(x)\n        keep(x)\n")
    ((nodes, names),) = places_of("check(x)\nif x:\n    keep(x)\n    send(x)", ast.parse(text).body[0])
    assert spliced(text, nodes, names, "") == "def f(x):\n    pass\n"


@pytest.mark.parametrize(
    ("function", "old"),
    [("Privacy", "1"), ("mu_of_budget", "no_such_name + 1"), ("mu_of_budget", "epsilon")],
    ids=["no such function", "no such code", "many places"],
)
def test_a_fault_that_fits_no_place_or_several_cannot_be_made(function, old):
    with pytest.raises(ValueError, match=r"mu_of_budget|Privacy"):
        NamedFault("dpmpc/privacy/gaussian.py", function, old, "0", "why", "").mutated()


@pytest.mark.parametrize(
    ("operator", "before", "after"),
    [
        ("drop check", "if a > b:\n    raise E\n", "if False:\n    raise E\n"),
        ("drop check", "if a > b: raise E\n", "if False: raise E\n"),
        ("drop check", "if a > b:\n    return 1\n", None),
        ("drop call", "def f():\n    require(a)\n    return 1\n", "def f():\n    pass\n    return 1\n"),
        ("drop call", "async def f():\n    await a.close()\n", "async def f():\n    pass\n"),
        ("drop call", "x = require(a)\n", None),
        ("compare Lt_LtE", "a < b\n", "a <= b\n"),
        ("sign Add_Sub", "a + b\n", "a - b\n"),
        ("constant", "x = 2\n", "x = 3\n"),
    ],
)
def test_operators(operator, before, after):
    mutated = mutate_code(before, OPERATORS[operator], 0)
    assert mutated == after or ast.dump(ast.parse(mutated)) == ast.dump(ast.parse(after))


def test_the_sample_is_fixed_and_every_fault_of_it_is_a_program():
    few, many = operators.sample(15), operators.sample(60)
    assert len(many) == len(set(many)) == 60
    assert set(few) <= set(many), "a larger sample goes on"
    assert few == operators.sample(15)
    for fault in few:
        assert ast.dump(ast.parse(fault.mutated())) != ast.dump(ast.parse(text_of(fault.file)))
        assert fault.function in functions_of(fault.file)
    assert {fault.operator for fault in operators.all_faults()} == set(OPERATORS)


def test_messages_have_no_faults():
    file = "dpmpc/privacy/gaussian.py"
    raised = [node.lineno for node in ast.walk(ast.parse(text_of(file))) if isinstance(node, ast.Raise)]
    assert raised
    assert not {fault.line for fault in operators.faults_of(file)} & set(raised)


def test_a_digest_follows_the_code_alone():
    assert digest("def f(x):\n    return x + 1\n") == digest('def f(x):\n    """Doc."""\n    return (x  # why\n+ 1)\n')
    assert digest("def f(x):\n    return x + 1\n") != digest("def f(x):\n    return x + 2\n")
    assert digest("def f():\n    raise E('a')\n") == digest("def f():\n    raise E(f'b {c}')\n")
    assert digest("def f():\n    raise E('a')\n") != digest("def f():\n    raise F('a')\n")
    assert function_at("tests/faults/reach.py", 1).name == ""


def test_a_verdict_holds_as_long_as_the_function(tmp_path):
    fault, other = operators.sample(2)
    verdicts = Verdicts.read([fault, other], tmp_path)
    assert not verdicts.holds(fault)
    verdicts.keep(fault, Verdict(NOTICED, "tests/test_size.py::test_y[1]", 2.0))
    verdicts.keep(other, Verdict(UNNOTICED, "", 3.0))
    verdicts.write()
    again = Verdicts.read([fault, other], tmp_path)
    assert again.holds(fault)
    assert (again.last_test(fault), again.last_test(other)) == ("tests/test_size.py::test_y", "")
    again.records[fault.name]["digest"] = "of other code"
    assert not again.holds(fault)
    assert again.last_test(fault), "the test is still the first to run"
    page = (tmp_path / "faults.md").read_text()
    assert other.change in page
    assert fault.name not in page
    Verdicts([other], tmp_path, again.records).write()
    assert set(json.loads((tmp_path / "faults.json").read_text())["faults"]) == {other.name}, (
        "what is gone is forgotten"
    )


def test_the_fastest_tests_of_a_line_come_first_and_time_is_bounded():
    file = "tests/faults/reach.py"
    line = next(number for number, text in enumerate(text_of(file).splitlines(), start=1) if "chosen: list" in text)
    seconds = {"a": 2.0, "b": 0.1, "c": MOST_SECONDS, "d": 0.2}
    reach = Reach(seconds, {file: {line: {"a", "b", "c"}, line + 1: {"d"}}})
    assert reach.tests_of(file, line) == ["b", "a"]
    assert reach.tests_of(file, line + 2) == ["b", "d", "a"], "those of the function"
    cases = {"x[1]": 0.1, "x[2]": 0.2, "y": 0.3}
    assert Reach(cases, {file: {line: set(cases)}}).tests_of(file, line) == ["x[1]", "y", "x[2]"], (
        "all before any again"
    )
    assert Reach(seconds, {file: {1: {"c"}}}).tests_of(file, line) == ["c"], "one at least"
    assert Reach(seconds, {}).tests_of(file, line) == []


def test_a_fault_is_judged_in_a_copy(tmp_path):
    """The whole way, of one named fault: the copy has it, its test fails there, and the checkout is as it was."""
    fault = next(fault for fault in NAMED if fault.function == "rho_of_sum")
    before = (ROOT / fault.file).read_bytes()
    command = [sys.executable, "-m", "faults", "--only", fault.name, "--results", str(tmp_path), "--jobs", "1"]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (record,) = json.loads((tmp_path / "faults.json").read_text())["faults"].values()
    assert record["outcome"] == NOTICED
    assert record["by"].partition("[")[0] == fault.noticed_by.partition("[")[0]
    assert (ROOT / fault.file).read_bytes() == before


def test_no_test_notices_nothing(tmp_path):
    """pytest would run all tests of the checkout."""
    assert first_failure(tmp_path, []) is None


def test_an_operator_fault_names_its_place():
    fault = next(fault for fault in operators.all_faults() if fault.operator == "drop check")
    assert isinstance(fault, OperatorFault)
    assert fault.change.endswith("becomes `if False:`")

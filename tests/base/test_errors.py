"""Errors of input have their parts as fields, and a command calls arguments by its options."""

import pickle

import pytest

from dpmpc import design
from dpmpc.app.cli import main as cli
from dpmpc.base.arguments import require_positive
from dpmpc.base.errors import GuaranteeError, InputError
from dpmpc.base.exits import exit_status
from dpmpc.data import Schema
from dpmpc.privacy.specification import ReleaseSpec


def test_an_error_has_its_parts_as_fields():
    error = InputError("rows", 0, "at least 1", "take more")
    assert str(error) == "rows: 0 given, at least 1 expected: take more"
    assert (error.argument, error.given, error.expected, error.remedy) == ("rows", "0", "at least 1", "take more")
    assert error.text("--rows") == "--rows: 0 given, at least 1 expected: take more"
    assert str(InputError("rows", None, "a number")) == "rows: None given, a number expected"
    problem = InputError("rows", "one occurs twice")
    assert (problem.text("--rows"), problem.given, problem.expected) == (
        "--rows: one occurs twice",
        problem.given,
        None,
    )


def test_a_sentence_has_no_parts():
    error = GuaranteeError("nothing is proven of this")
    assert str(error) == "nothing is proven of this"
    assert error.argument is error.given is error.expected is error.remedy is None


def test_a_copy_of_an_error_in_another_process_has_its_fields():
    error = pickle.loads(pickle.dumps(GuaranteeError("delta", 0.5, "less than 1 / n")))
    assert type(error) is GuaranteeError
    assert str(error) == "delta: 0.5 given, less than 1 / n expected"
    assert (error.argument, error.given, error.remedy) == ("delta", "0.5", None)


def test_checks_of_arguments_and_of_guarantees_fill_the_fields():
    with pytest.raises(InputError) as refused:
        require_positive("radius", -1)
    assert (refused.value.argument, float(refused.value.given)) == ("radius", -1)
    with pytest.raises(InputError) as refused:
        design(ReleaseSpec.of(Schema.unit(["x"]), 100, -1.0, 1e-6))
    assert refused.value.argument == "epsilon"


def test_a_command_calls_an_argument_by_its_option(capsys):
    assert cli.main(["plan", "--epsilon", "-1", "--clients", "1000", "--columns", "3", "--delta", "1e-6"]) == 2
    assert capsys.readouterr().err.startswith("dpmpc: InputError: --epsilon: ")


@pytest.mark.parametrize(("argument", "name"), [("rank", "--components"), ("rows", "rows")])
def test_names_that_are_no_options_stay(argument, name, capsys):
    def fail():
        raise InputError(argument, 0, "more")

    assert exit_status(fail, {"rank": "--components"}) == 2
    assert capsys.readouterr().err == f"dpmpc: InputError: {name}: 0 given, more expected\n"


def test_a_command_advises_an_option_where_a_message_advises_an_argument(capsys):
    def fail():
        raise InputError("collection", "open; close=True closes it, other=True does not")

    assert exit_status(fail, {"close": "--close"}) == 2
    assert capsys.readouterr().err == "dpmpc: InputError: collection: open; --close closes it, other=True does not\n"

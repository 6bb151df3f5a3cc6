"""Help in groups, examples that parse, what was probably meant, counts such as 1e6."""

import argparse
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpmpc.app.cli.main import main, parser
from dpmpc.app.cli.parsing import EXAMPLES, GROUPS, REMAINING, Parser, whole
from support.rejections import exits


def test_every_command_is_in_a_group_and_has_an_example_that_parses():
    top = parser()
    assert REMAINING not in top.grouped(), "give it a place in GROUPS"
    named = {name for commands in top.grouped().values() for name, _ in commands}
    assert named <= EXAMPLES.keys()
    assert named == set(top.commands.choices)
    for name in named:
        words = shlex.split(EXAMPLES[name].partition(" > ")[0])
        assert words[:2] == ["dpmpc", name]
        assert parser().parse_args(words[1:]).command == name


def test_the_help_shows_groups_with_an_example_each(capsys):
    with exits(0):
        main(["--help"])
    shown = capsys.readouterr().out
    for title, commands in parser().grouped().items():
        assert f"\n{title}:\n" in shown
        first = commands[0][0].partition(" ")[0]
        assert f"example: dpmpc {first}" in shown
    assert set(parser().grouped()) <= set(GROUPS)


def test_the_help_of_a_command_ends_with_its_example(capsys):
    with exits(0):
        main(["bounds", "--help"])
    assert capsys.readouterr().out.endswith("example: dpmpc bounds people.csv > bounds.toml\n")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("fti people.csv", "dpmpc: 'fti' is not a command; did you mean fit? dpmpc --help has more"),
        ("zebra", "dpmpc: 'zebra' is not a command; dpmpc --help has more"),
        ("--verson", "dpmpc: '--verson' is not an option; did you mean --version? dpmpc --help has more"),
        (
            "fit x.csv --epsilno=1 --delta 1e-6",  # --epsilon is required, and its lack is not what is told
            "dpmpc fit: '--epsilno' is not an option; did you mean --epsilon? dpmpc fit --help has more",
        ),
        ("bounds x.csv --zebra", "dpmpc bounds: '--zebra' is not an option; dpmpc bounds --help has more"),
        ("inspect a.toml b.toml", "dpmpc inspect: unexpected: 'b.toml'; dpmpc inspect --help has more"),
        (
            "plan --sketch countskech --model ridge --delta 1",
            "dpmpc plan: argument --sketch: 'countskech' given, one of auto, osnap, countsketch, rademacher, sum "
            "expected; did you mean countsketch? dpmpc plan --help has more",
        ),
    ],
)
def test_what_is_misspelt_is_told_with_what_was_probably_meant(arguments, told, capsys):
    with exits(2):
        main(arguments.split())
    assert capsys.readouterr().err == f"{told}\n"


def test_beginnings_of_options_and_what_follows_two_dashes_stay_what_they_were():
    options = parser().parse_args(["plan", "--cli", "5000", "--columns", "3", "--eps", "1", "--delta", "1e-7"])
    assert (options.clients, options.epsilon) == (5000, 1.0)
    assert parser().parse_args(["inspect", "--", "--odd-name.toml"]).collection == "--odd-name.toml"


@pytest.mark.parametrize(
    ("text", "number"),
    [("20000", 20000), ("20_000", 20000), ("2e4", 20000), ("1.5E6", 1_500_000), ("-1e0", -1), ("3.0", 3), ("0e5", 0)],
)
def test_whole_numbers(text, number):
    assert whole(text) == number


@pytest.mark.parametrize("text", ["1.5", "1e-3", "5,000", "", "nan", "inf", "1e101", "1e999999999", "many", "0x10"])
def test_what_is_not_a_whole_number_is_refused_with_its_value(text):
    with pytest.raises(argparse.ArgumentTypeError, match="given, a whole number"):
        whole(text)


@given(st.integers(-(10**18), 10**18), st.integers(0, 12))
def test_a_number_and_its_powers_of_ten(number, power):
    assert whole(str(number)) == number
    assert whole(f"{number}e{power}") == number * 10**power


def test_every_count_may_be_written_with_an_exponent():
    """All parsers read whole numbers alike: whoever adds an option says `type=int` and no more."""
    top = parser()
    found = 0
    for one in (top, *top.commands.choices.values()):
        assert isinstance(one, Parser)
        declared = [action for action in one._actions if action is not top.commands]
        assert sorted(map(id, declared)) == sorted(map(id, one.arguments)), "one was not declared"
        assert not [action.dest for action in one.arguments if action.type is int]
        found += sum(action.type is whole for action in one.arguments)
    assert found > 20

"""Epsilon and delta in words: true to the last digit, and one sentence on every page, form and help text."""

import math
import re
from pathlib import Path

import mpmath
import pytest

from dpmpc.app.cli.main import parser
from dpmpc.privacy import bound_in_words
from dpmpc.privacy.gaussian import mu_of_budget
from dpmpc.privacy.in_words import best_guess

ROOT = Path(__file__).parents[2]
BUDGETS = [
    (math.log(3), 0.0),
    (1e-3, 1e-12),
    (0.5, 1e-6),
    (0.7, 1e-7),
    (1.0, 0.01),
    (1.0, 0.3),
    (1.28, 1e-9),
    (3.0, 1e-9),
    (10.0, 3e-7),
    (19.99, 1e-5),
    (50.0, 0.0),
    (800.123, 1e-8),
]


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_numbers_in_the_sentence_are_at_least_the_exact_ones(epsilon, delta):
    """And the guess is that of randomised response: e^eps of 1 + e^eps, and delta of the rest in the clear."""
    said = bound_in_words(epsilon, delta)
    factor, percent = re.search(r"at most (\S+) times", said)[1], re.search(r"above (\S+) %", said)[1]
    with mpmath.workdps(50):
        odds = mpmath.exp(mpmath.mpf(epsilon))
        shown = mpmath.exp(mpmath.mpf(factor[2:])) if factor.startswith("e^") else mpmath.mpf(factor.replace(",", ""))
        assert odds <= shown <= odds * 1.011
        guess = 100 * (odds + delta) / (1 + odds)
        assert guess - mpmath.mpf("1e-9") <= float(percent) <= guess + mpmath.mpf("0.1001")
    assert best_guess(epsilon, delta) == float(percent)
    plus = re.search(r", plus 1 in ([\d,]+)\. So", said)
    assert bool(plus) == bool(delta)
    if plus:
        shown = 1 / int(plus[1].replace(",", ""))
        assert delta * (1 - 1e-12) <= shown <= delta * 1.5


def test_delta_is_not_the_probability_that_the_likelihood_ratio_exceeds_the_factor():
    """As the page on choosing epsilon says: 20 and 36 delta."""
    page = (ROOT / "docs/how-to/plan.md").read_text()
    for epsilon, times in ((1.0, 20), (0.5, 36)):
        mu = mpmath.mpf(mu_of_budget(epsilon, 1e-6))
        assert int(mpmath.ncdf(mu / 2 - epsilon / mu) / mpmath.mpf("1e-6")) == times
        assert f"{times} δ at" in " ".join(page.split())


# Sentences that were false, and their kin.
FORBIDDEN = (
    r"(probability|chance) that (the|this|its) (\S+ ){0,4}(bound|promise)( by \S+)? (fails|does not hold)",
    r"but for a chance of at most 1 in",
    r"more or less likely",
    r"odds are at most e\^",
    r"odds (of \S+ \S+ )?(are )?chang\w+ by (at most|less than|a factor|exp)",
    r"change the odds of",
    r"extra probability",
    r"except with (a )?probability (of )?(δ|delta)",
)


def everything_said():
    """Yield what people read: pages, notebooks, and the sources of texts, forms and templates."""
    for path in ("README.md", "SECURITY.md", "CITATION.cff"):
        yield path, (ROOT / path).read_text()
    for folder, kinds in (("docs", {".md", ".svg", ".rst"}), ("examples", {".py", ".ipynb"})):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in kinds:
                yield str(path.relative_to(ROOT)), path.read_text()
    for path in (ROOT / "dpmpc").rglob("*"):
        if path.suffix in {".py", ".mjs", ".ts", ".html"}:
            yield str(path.relative_to(ROOT)), path.read_text()


def helps(command=None, name="dpmpc"):
    """Yield the help of every command."""
    command = command or parser()
    yield name, command.format_help()
    for action in command._actions:
        for called, one in (action.choices or {}).items() if isinstance(action.choices, dict) else ():
            yield from helps(one, f"{name} {called}")


@pytest.mark.parametrize("pattern", FORBIDDEN)
def test_nobody_says_that_delta_is_the_chance_that_the_bound_fails(pattern):
    for name, text in (*everything_said(), *helps()):
        joined = " ".join(re.sub(r'["\']\s*\n\s*f?["\']', "", text).split())
        found = re.search(pattern, joined, re.IGNORECASE)
        assert found is None, f"{name}: {joined[max(0, found.start() - 80) : found.end() + 40]!r}"


def test_the_patterns_find_the_sentences_that_stood_there():
    for said in (
        "delta is, roughly, the probability that the epsilon bound fails",
        "δ is, roughly, the probability that the bound by ε fails",
        "the odds change by a factor of at most e^ε = 2.7. δ is the probability that this bound fails",
        "at most 2.72 times more or less likely, but for a chance of at most 1 in 1,000,000",
        "After the release the odds are at most e^ε to 1, except with probability δ.",
        "Below 1 an attacker's odds change by less than a factor of 2.7",
    ):
        assert any(re.search(pattern, said) for pattern in FORBIDDEN), said


def test_every_help_of_delta_says_the_bound():
    for name in ("fit", "describe", "plan", "collection", "mix", "owners"):
        done = dict(helps())[f"dpmpc {name}"]
        assert "P <= e^epsilon P' + delta" in " ".join(done.split()), name

"""The constants in the statements that Coq checks (proofs/) are those of the code; Coq itself is not needed here."""

import ast
import inspect
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dpmpc.linear.contributions import clipped_scores, contribution, scores
from dpmpc.linear.contributions.contribution import require_few_bits
from dpmpc.linear.contributions.scores import Logistic, sensitivity_of_scores
from dpmpc.linear.encoding.fixed_point import FixedPoint
from dpmpc.linear.proving import circuit, statements
from dpmpc.linear.proving.decide import fewest_present
from dpmpc.linear.sharing import ShamirSharing
from support.rejections import rejects

ROOT = Path(__file__).parents[2]
SOURCES = {path.stem: path.read_text() for path in sorted((ROOT / "proofs").glob("*.v"))}
TEXT = "\n".join(SOURCES.values())
STATEMENTS = {
    name: " ".join(statement.split())
    for name, statement in re.findall(r"^(?:Lemma|Theorem) (\w+) : (.*?)\nProof\.", TEXT, re.MULTILINE | re.DOTALL)
}


def test_nothing_is_assumed_in_place_of_a_proof():
    assert not re.search(r"\b(Admitted|Axiom|Parameter|admit|Conjecture|Hypothesis|Variable)\b", TEXT)
    assert len(STATEMENTS) == len(re.findall(r"\bQed\.", TEXT))


def test_the_page_on_limitations_counts_them():
    lemmas, theorems = (
        re.findall(rf"^{kind} (\w+)", text, re.MULTILINE)
        for kind, text in (("Lemma", SOURCES["Integers"]), ("Theorem", SOURCES["Rounding"]))
    )
    assert (len(lemmas), theorems) == (8, ["rounding_distance"])
    page = (ROOT / "docs" / "limitations.md").read_text()
    assert "**Coq checks eight lemmas in integers and the theorem on rounding**" in page


def test_weights_of_proved_moments():
    diagonal, other, again = map(int, re.findall(r"(\d+)\^2", STATEMENTS["proved_weights"]))
    assert (diagonal, other, again) == (statements.DIAGONAL, statements.OFF_DIAGONAL, statements.DIAGONAL)


def test_the_weight_of_a_length():
    assert STATEMENTS["length_is_free"].endswith("(s + t)^2 + 3 * (s - t)^2 <= 4 * R^2.")
    assert pytest.approx(3) == clipped_scores.LENGTH_WEIGHT**2
    encoding = FixedPoint(20)
    assert sensitivity_of_scores(2.0, 1, 1 << 20, encoding).l2 == 2 * 2**20 + 2  # sqrt(4) units, sqrt(1) and 1


def test_the_weight_of_outer_products():
    """The statement is (s + t)^2 + w^2 (s^2 - t^2)^2 <= 4 times 2 R^4, in units of 1/R."""
    assert STATEMENTS["outer_products_are_free"].endswith("2 * R^2 * (s + t)^2 + (s^2 - t^2)^2 <= 8 * R^4.")
    assert pytest.approx(1 / 2) == scores.OUTER_WEIGHT**2
    assert Logistic().squared_sensitivity == 4


def test_the_weight_of_a_logistic_curvature():
    """4 - (1 + x)^2 - w x^2 (1 - x)^2 - (1 - x^2)^2 / 2, divided by 1 - x and doubled, is the polynomial."""
    weight = round(Logistic().curvature_weight ** 2)
    assert Logistic().curvature_weight ** 2 == pytest.approx(weight)
    one, x = np.polynomial.Polynomial([Fraction(1)]), np.polynomial.Polynomial([Fraction(0), Fraction(1)])
    left = 4 * one - (one + x) ** 2 - weight * x**2 * (one - x) ** 2 - (one - x**2) ** 2 * Fraction(1, 2)
    quotient, rest = divmod(left, one - x)
    assert not any(rest.coef)
    expected = [int(2 * number) for number in quotient.coef]
    polynomial = re.search(
        r"0 <= 5 \* R\^3 \+ x \* R\^2 - (\d+) \* x\^2 \* R \+ (\d+) \* x\^3\.$", STATEMENTS["curvature_is_free"]
    )
    assert [5, 1, -int(polynomial[1]), int(polynomial[2])] == expected


def test_a_difference_of_rank_one():
    assert STATEMENTS["rank_one_difference"].endswith("a^2 + b^2 - 2 * c^2 <= 2 * B^2.")
    assert contribution.moment_sensitivity(3.0) ** 2 == pytest.approx(2 * 3.0**2)


def test_a_digit_of_a_grid():
    (largest,) = set(re.findall(r"(\d+) \* K", STATEMENTS["one_cell"]))
    assert int(largest) == circuit.BASE - 1


@pytest.mark.parametrize("threshold", range(1, 6))
def test_any_two_sets_that_may_decide_have_an_honest_server_in_common(threshold):
    assert "M + t < 2 * a" in STATEMENTS["quorums_share_an_honest_server"]
    for servers in range(2 * threshold + 1, 20):
        assert 2 * fewest_present(ShamirSharing(servers, threshold)) > servers + threshold


def test_what_rounding_adds():
    assert STATEMENTS["rounding_distance"].endswith("<= (D + (s + 1)) * (D + (s + 1)).")
    assert sensitivity_of_scores(0.0, 4096, 1 << 20, FixedPoint(20)).l2 == 64 + 1


def test_bits_and_widths_are_those_for_which_the_errors_of_floats_are_counted():
    widest = int(re.search(r"Definition widest := (\d+)\.", TEXT)[1])
    bits = re.findall(r"(\d+) \* 2 \^ (\d+) / 2 \^ 53", STATEMENTS["few_roundoffs"])
    assert widest == contribution.WIDEST
    assert [int(bit) for _, bit in bits] == [contribution.MOST_FRACTIONAL_BITS, scores._MOST_BITS]
    for roundoffs, bit in bits:
        most = int(bit)
        for fewer in range(4):
            widths = (widest * 4**fewer, widest * 4 ** (fewer - 1) + 1 if fewer else 1)
            for width in widths:
                assert 2 * int(roundoffs) * 2.0 ** (most - fewer - 53) * width**0.5 <= 1
                require_few_bits(FixedPoint(most - fewer), width, most)
                with rejects("fractional_bits", expected=f"at most {most - fewer}"):
                    require_few_bits(FixedPoint(most - fewer + 1), width, most)


def functions_that_state_a_sensitivity():
    """Yield the place and the docstring of each `sensitivity` of what clients contribute."""
    for path in sorted((ROOT / "dpmpc" / "linear").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            abstract = isinstance(node, ast.FunctionDef) and any(
                "abstract" in ast.unparse(one) for one in node.decorator_list
            )
            if isinstance(node, ast.FunctionDef) and node.name == "sensitivity" and not abstract:
                yield f"{path.name}:{node.lineno}", inspect.cleandoc(ast.get_docstring(node) or "")


def test_each_sensitivity_names_its_lemma():
    places = dict(functions_that_state_a_sensitivity())
    assert len(places) >= 15
    for place, text in places.items():
        assert re.search(r"\b[Ll]emmas?\b", text), place
        named = re.findall(r"\b[a-z]+(?:_[a-z]+)+\b", text.partition("emma")[2].partition(".")[0])
        assert set(named) <= set(STATEMENTS), place

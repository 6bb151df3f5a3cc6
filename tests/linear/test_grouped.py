"""Second moments by group: sensitivity by brute force over all pairs of rows, what is encoded, and how it is read.

The theorem is grouped-moments of the report.
"""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpmpc.base.errors import InputError
from dpmpc.data import Codebook, Schema
from dpmpc.data.codebook import Weight
from dpmpc.data.variables import Variable
from dpmpc.linear.contributions import SecondMoments, contribution_from
from dpmpc.linear.contributions.contribution import WeightedMoments
from dpmpc.linear.contributions.grouped_moments import GroupedMoments
from dpmpc.linear.encoding.fixed_point import FixedPoint
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.privacy.task import Task
from dpmpc.release.planning import design
from support.rejections import rejects

BITS = 12
ENCODING = FixedPoint(BITS)


def category(name, count):
    return Variable(name, values=tuple("abcdefghij"[:count]))


NUMBERS = tuple(Variable(name, 0, 1) for name in "xyu")
BOOKS = {
    "a number": (NUMBERS[0], category("g", 2)),
    "a number, the group in front": (category("g", 4), NUMBERS[0]),
    "two numbers about the group": (NUMBERS[0], category("g", 3), NUMBERS[1]),
    "three numbers": (*NUMBERS, category("g", 3)),
    "a number and another category": (NUMBERS[0], category("h", 4), category("g", 3)),
    "a category alone": (category("h", 3), category("g", 3)),
    "yes or no, or missing": (NUMBERS[0], Variable("g", yes=("y",), no=("n",), if_missing="indicator")),
}


def grouped(variables, *, weighted=False):
    """Return the task's schema and contribution, as `design` makes them."""
    public = Schema.of_codebook(Codebook(tuple(variables), incomplete="zeros" if weighted else "refuse"))
    return public, design(ReleaseSpec.of(public, 1000, 1.0, 1e-6, by="g")).statistic


def rows_of(public):
    """Return every row at the corners and the middle of numbers and weights, and in every category; normalised."""
    choices = []
    for variable in public.codebook.variables:
        width = len(variable.term.columns)
        if variable.kind == "category" and width > 1:
            choices.append([np.zeros(width), *np.eye(width)])
        elif variable.kind == "yes-no" and width > 1:
            choices.append([np.array(pair) for pair in ((-1.0, 0.0), (1.0, 0.0), (0.0, 1.0))])
        else:
            choices.append([np.array([value]) for value in (-1.0, 0.0, 1.0)])
    if public.weighted:
        choices.append([np.array([value]) for value in (-1.0, 0.0, 1.0)])
    return np.array([np.concatenate(parts) for parts in itertools.product(*choices)])


def distances(encoded):
    """Return all pairs' L2 distances in units of 2^-f."""
    encoded = encoded.astype(np.float64)
    squares = np.sum(encoded**2, axis=1)
    return np.sqrt(np.maximum(squares[:, None] + squares[None, :] - 2 * encoded @ encoded.T, 0)) / 2**BITS


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", BOOKS)
def test_sensitivity_by_brute_force(name, weighted):
    """All pairs of rows: never above the bound of one block, and at it wherever two groups differ."""
    public, contribution = grouped(BOOKS[name], weighted=weighted)
    rows = rows_of(public)
    encoded = contribution.encode(rows, ENCODING)
    apart, groups = distances(encoded), contribution.group_of(rows)
    limits = contribution.sensitivity(len(public), ENCODING)
    terms = len(public.codebook.variables) - 1
    bound = math.sqrt(2) * (1 + terms)
    rounding = (math.sqrt(contribution.block_width(len(public))) + 2) / 2**BITS
    assert apart.max() <= limits.l2 / 2**BITS <= bound + rounding
    assert apart[groups[:, None] != groups].max() == pytest.approx(bound, abs=rounding)
    assert apart[groups[:, None] == groups].max() <= bound + rounding
    taxicab = max(np.abs(encoded - one).sum(axis=1).max() for one in encoded)
    assert taxicab <= limits.l1
    assert max(np.abs(encoded - one).max() for one in encoded) <= limits.linf
    assert np.abs(encoded).max() <= contribution.largest_entry(ENCODING)


@pytest.mark.parametrize("name", BOOKS)
def test_the_bound_is_that_of_one_block(name):
    """The noise of a release by group is that of a release of the same columns without groups."""
    public, contribution = grouped(BOOKS[name])
    rest = public.codebook.without("g")
    one = WeightedMoments(rest.radius).sensitivity(len(rest.columns) + 1, ENCODING)  # one block, corner and all
    limits = contribution.sensitivity(len(public), ENCODING)
    assert (limits.l2, limits.linf) == (one.l2, one.linf)
    assert limits.l1 == pytest.approx(math.sqrt(2) * one.l1)  # not in this norm: two blocks move
    tasks = [
        design(ReleaseSpec.of(schema, 1000, 1.0, 1e-6, fractional_bits=24, **choices))
        for schema, choices in ((public, {"by": "g"}), (Schema.of_codebook(rest), {}))
    ]
    deviations = [math.sqrt(task.noise.variance) * task.unit for task in tasks]
    assert deviations[0] == pytest.approx(deviations[1], rel=1e-5)


def test_an_even_number_of_numbers_alone_has_a_smaller_exact_sensitivity_in_one_block():
    """Where the sentence "as one block" is not exact: 4 for two numbers, and 3 sqrt(2) in two blocks."""
    public, contribution = grouped(BOOKS["two numbers about the group"])
    rows = rows_of(public)
    apart, groups = distances(contribution.encode(rows, ENCODING)), contribution.group_of(rows)
    assert apart[groups[:, None] == groups].max() == pytest.approx(4.0, abs=1e-2)
    assert apart.max() == pytest.approx(3 * math.sqrt(2), abs=1e-2)


def test_in_the_l1_norm_two_blocks_move_further_than_one():
    """So pure epsilon takes more noise by group: what one block is given would not do."""
    public, contribution = grouped(BOOKS["three numbers"])
    encoded = contribution.encode(rows_of(public), ENCODING)
    moved = max(np.abs(encoded - one).sum(axis=1).max() for one in encoded)
    assert moved > SecondMoments().sensitivity(3, ENCODING).l1
    assert moved <= contribution.sensitivity(len(public), ENCODING).l1


@pytest.mark.parametrize("name", BOOKS)
def test_whoever_is_added_or_removed_moves_one_block_by_its_norm(name):
    """Not the relation that is promised; under it the guarantee of one block would hold to the letter."""
    public, contribution = grouped(BOOKS[name])
    norms = np.linalg.norm(contribution.encode(rows_of(public), ENCODING).astype(float), axis=1) / 2**BITS
    assert norms.max() == pytest.approx(len(public.codebook.variables), abs=1e-2)  # 1 + T


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", BOOKS)
def test_one_block_is_filled_as_a_release_without_groups_and_others_are_zero(name, weighted):
    public, contribution = grouped(BOOKS[name], weighted=weighted)
    rows = rows_of(public)
    blocks = contribution.encode(rows, ENCODING).reshape(len(rows), contribution.groups, -1)
    names = list(public.codebook.without("g").columns)
    places = [public.index(column.name) for column in names]
    plain = rows[:, places] if weighted else np.column_stack([rows[:, places], np.ones(len(rows))])
    expected = WeightedMoments(contribution.radius).encode(plain, ENCODING)
    own = contribution.group_of(rows)
    assert set(own) == set(range(contribution.groups))
    for group in range(contribution.groups):
        assert np.array_equal(blocks[own == group, group], expected[own == group])
        assert not blocks[own != group, group].any()


wild = st.lists(st.floats(-1, 1), min_size=6, max_size=6)


@given(wild, wild, st.sampled_from([None, 0.7, math.sqrt(2)]), st.booleans())
def test_no_two_rows_are_farther_apart_than_claimed(one, other, radius, weighted):
    """Also rows that no table has, with indicators of several groups: one block is filled, whatever a client says."""
    contribution = GroupedMoments(1, 3, radius, weighted)
    encoded = contribution.encode(np.array([one, other]), ENCODING)
    filled = encoded.reshape(2, 4, -1).any(axis=2).sum(axis=1)
    assert (filled <= 1).all()
    assert weighted or (filled == 1).all()
    assert distances(encoded).max() <= contribution.sensitivity(6, ENCODING).l2 / 2**BITS


def test_groups_by_values_of_a_table():
    public, contribution = grouped(BOOKS["two numbers about the group"])
    table = public.codebook.encode(frame({"x": [0.5] * 3, "g": ["b", "a", "c"], "y": [0.1] * 3}))
    assert contribution.group_of(public.normalise(table.values)).tolist() == [1, 0, 2]
    assert contribution.analysed(public).names == ("x", "y")
    missing = grouped(BOOKS["yes or no, or missing"])
    table = missing[0].codebook.encode(frame({"x": [0.5] * 3, "g": ["y", "", "n"]}))
    assert missing[1].group_of(missing[0].normalise(table.values)).tolist() == [1, 2, 0]
    assert missing[0].codebook.variable("g").categories == ("no", "yes", "missing")


def test_the_groups_are_those_of_the_category_that_clients_look_at():
    """A file may claim another place: its groups would get the names of other values."""
    public, contribution = grouped((NUMBERS[0], category("h", 3), category("g", 3), NUMBERS[1]))
    assert (contribution.first, contribution.variable(public).name) == (3, "g")
    assert GroupedMoments(1, 2).variable(public).name == "h"
    for wrong in (GroupedMoments(0, 2), GroupedMoments(2, 2), GroupedMoments(3, 1), GroupedMoments(5, 1)):
        with pytest.raises(InputError, match="bounds: no category given whose columns are "):
            wrong.variable(public)
    with rejects("bounds", given="no category given whose columns are g=b, g=c, as grouped-second-moments expects"):
        contribution.variable(Schema(public.columns))


def test_grams():
    rng = np.random.default_rng(0)
    rows, own, weights = rng.uniform(-1, 1, (300, 3)), rng.integers(0, 4, 300), rng.uniform(0, 1, 300)
    shown = np.eye(4)[own][:, 1:]
    contribution = GroupedMoments(1, 3, weighted=True)
    sent = np.column_stack([rows[:, :1], shown, rows[:, 1:], 2 * weights - 1])
    grams = contribution.grams(contribution.encode(sent, ENCODING).sum(axis=0) / 2**BITS, 7)
    for group in range(4):
        extended = np.column_stack([np.ones(300), rows])[own == group]
        assert np.allclose(grams[group], extended.T @ (extended * weights[own == group, None]), atol=0.05)
    assert contribution.grams(np.full(40, -5.0), 7)[2, 0, 0] == -5.0  # as released


def test_it_is_described_and_made_again():
    contribution = GroupedMoments(2, 5, 1.5, True)
    assert contribution_from(contribution.describe()) == contribution
    assert contribution != GroupedMoments(2, 5, 1.5, False)
    public, _ = grouped(BOOKS["three numbers"])
    task = design(ReleaseSpec.of(public, 1000, 1.0, 1e-6, by="g"))
    again = Task.from_dict(task.to_dict())
    assert (again.digest, again.statistic) == (task.digest, task.statistic)
    assert again.verify().guarantee.neighbouring == "replace-one"


@pytest.mark.parametrize(
    ("facts", "rejection"),
    [
        ({"first": -1}, {"argument": "first", "given": "-1"}),
        ({"indicators": 0}, {"argument": "indicators", "given": "0", "expected": "a whole number from 1 to 49"}),
        ({"indicators": 50}, {"argument": "indicators", "given": "50"}),
        ({"radius": math.nan}, {"argument": "radius", "given": "nan"}),
        ({"weighted": 1}, {"argument": "weighted", "given": "1", "expected": "true or false"}),
    ],
)
def test_facts_are_checked(facts, rejection):
    with rejects(**rejection):
        contribution_from({"name": GroupedMoments.name, "first": 0, "indicators": 2, **facts})


@pytest.mark.parametrize(("first", "columns"), [(2, 3), (0, 2), (5, 6)])
def test_indicators_have_to_be_among_the_columns(first, columns):
    with pytest.raises(InputError, match=rf"columns: {columns} given"):
        GroupedMoments(first, 2).width(columns)
    with rejects("columns", expected="4 or more, with one at least beside the 2 indicators of a group,"):
        GroupedMoments(1, 2, weighted=True).sensitivity(3, ENCODING)


@pytest.mark.parametrize(
    ("variables", "choices", "said"),
    [
        ((), {"by": "x"}, "by: 'x' given, a number, a column expected whose values the bounds list"),
        ((), {"by": "z"}, "by: 'z' given, no category of the bounds"),
        ((), {"sketch": "osnap"}, "sketch: 'osnap' given, 'auto' or 'sum' expected where second moments are summed"),
        ((), {"rows": 7}, "rows, sparsity: 7, None given"),
        ((), {"contribution": SecondMoments()}, "by: 'g' given, none expected with second-moments"),
        ((), {"proved": True, "noise_by": "servers"}, "proved: true given with grouped-second-moments"),
        (tuple(Variable(f"v{n}", 0, 1) for n in range(80)), {}, "10,[0-9]+ words a client, at most 8,192 expected"),
    ],
)
def test_what_is_refused(variables, choices, said):
    public = Schema.of_codebook(Codebook((*NUMBERS, *variables, category("g", 3))))
    with pytest.raises(InputError, match=said):
        design(ReleaseSpec.of(public, 1000, 1.0, 1e-6, **{"by": "g", **choices}))


def test_groups_that_are_refused():
    many = Variable("g", values=tuple(f"g{number}" for number in range(51)))
    filled = Variable("g", yes=("y",), no=("n",), if_missing="middle")
    twice = Variable("g", values=("missing", "a"), if_missing="indicator")
    for book, said in [
        (Codebook((NUMBERS[0], many)), "with 51 values, at most 50 expected"),
        (Codebook((NUMBERS[0], filled)), "would be counted as 'no'"),
        (Codebook((NUMBERS[0], twice)), "one called 'missing' beside the group of rows that lack a value"),
        (Codebook((*NUMBERS, category("g", 2)), products=(("x", "g"),)), r"products: x \* g given, none expected"),
        (Codebook((category("g", 2),)), "columns: 'g' is the only one"),
    ]:
        with pytest.raises(InputError, match=said):
            design(ReleaseSpec.of(Schema.of_codebook(book), 1000, 1.0, 1e-6, by="g"))
    with rejects("by", expected="no category of the bounds, a column"):
        design(ReleaseSpec.of(Schema.unit(("x", "g")), 1000, 1.0, 1e-6, by="g"))
    large = Schema.of_codebook(Codebook((*(Variable(f"v{n}", 0, 1) for n in range(80)), category("g", 3))))
    assert design(ReleaseSpec.of(large, 1000, 1.0, 1e-6, by="g", sketch="sum")).width == 3 * 81 * 82 // 2
    fifty = Variable("g", values=tuple(f"g{number}" for number in range(50)))
    book = Codebook((NUMBERS[0], fifty), weight=Weight("w", 3))
    assert design(ReleaseSpec.of(Schema.of_codebook(book), 1000, 1.0, 1e-6, by="g")).statistic.groups == 50


def frame(columns):
    """Return what the package takes for a data frame."""
    kind = type("Frame", (dict,), {"columns": property(list), "to_numpy": None})
    return kind(columns)

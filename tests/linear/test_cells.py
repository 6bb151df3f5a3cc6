"""Cells: known strategies, sensitivity by brute force over all pairs of rows, what is encoded, and what is refused."""

import hashlib
import itertools
import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpmpc.base.errors import InputError
from dpmpc.data import Codebook, Schema
from dpmpc.data.codebook import Weight
from dpmpc.data.variables import Variable
from dpmpc.linear.contributions import contribution_from
from dpmpc.linear.contributions.cells import BITS, CellCounts, CellGrid, strategy_matrix
from dpmpc.linear.encoding.fixed_point import FixedPoint
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.privacy.task import Task
from dpmpc.release.planning import design
from support.rejections import rejects

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "cells.json").read_text())
ENCODING = FixedPoint(BITS)

AGE = Variable("age", 0, 11, step=1)
GAP = Variable("gap", 0, 10, cells=10, if_missing="indicator")
FEW = Variable("few", 0, 1, edges=(0.2, 0.5))
WARD = Variable("ward", values=("north", "south", "east"))
SEX = Variable("sex", values=("f", "m"), if_missing="indicator")
SICK = Variable("sick", yes=("y",), no=("n",))
BOOKS = {
    "a number": ((AGE,), None),
    "a number that may be missing": ((GAP,), None),
    "few cells": ((FEW,), None),
    "a category": ((WARD,), None),
    "a category that may be missing": ((SEX,), None),
    "numbers by an answer": ((AGE, GAP, SICK), "sick"),
    "a number by a group that may be missing": ((AGE, SEX), "sex"),
    "a number by two categories": ((FEW, SICK, WARD), ("ward", "sick")),
    "all of them by ward": ((AGE, FEW, SEX, SICK, WARD), "ward"),
}


def cells(name):
    """Return the schema of a book and the contribution that counts its variables."""
    variables, by = BOOKS[name]
    public = Schema.of_codebook(Codebook(variables))
    return public, CellCounts.of(public, by=by)


def rows_of(public):
    """Return every combination of ends, inner values, categories and missing values; normalised."""
    choices = []
    for variable in public.codebook.variables:
        width = len(variable.term.columns)
        if variable.kind == "category":
            choices.append([np.full(width, 0.0 if width > 1 else -1.0), *np.eye(width)])
            continue
        values = (-1.0, 1.0) if variable.kind == "yes-no" else np.linspace(-1, 1, 12)
        choices.append([np.append(np.full(1, value), np.zeros(width - 1)) for value in values])
        if width > 1:
            choices[-1].append(np.array([0.0, 1.0]))
    return np.array([np.concatenate(parts) for parts in itertools.product(*choices)])


@pytest.mark.parametrize("case", VECTORS["strategies"], ids=lambda case: f"{case['strategy']} {case['cells']}")
def test_strategies_are_the_known_integers(case):
    found = strategy_matrix(case["strategy"], case["cells"])
    assert found[:, 0].tolist() == case["first_column"]
    assert hashlib.sha256(found.astype("<i8").tobytes()).hexdigest() == case["sha256"]
    assert "matrix" not in case or found.tolist() == case["matrix"]


@pytest.mark.parametrize("case", VECTORS["reaches"], ids=lambda case: "-".join(str(fact) for fact in case.values()))
def test_the_reach_is_that_of_all_pairs_of_cells(case):
    """To the integer: the slow reference looks at every pair of columns, missing cells and other groups included."""
    grid = CellGrid(
        strategy=case["strategy"],
        column=0,
        edges=tuple(np.linspace(-0.9, 0.9, case["cells"] - 1)),
        missing=1 if case["missing"] else None,
        groups=((2, case["groups"] - 1),) if case["groups"] > 1 else (),
    )
    limits = CellCounts([grid]).sensitivity(9, ENCODING)
    assert (limits.l1, limits.linf) == (case["l1"], case["linf"])
    assert math.isqrt(case["squared"]) <= limits.l2
    assert case["squared"] <= limits.l2**2 <= case["squared"] + 1e-6


def test_the_root_squared_is_the_prefix_sums():
    real = strategy_matrix("root", 64) / 2**BITS
    assert real @ real == pytest.approx(np.tril(np.ones((64, 64))), abs=0.02)


@pytest.mark.parametrize("name", BOOKS)
def test_sensitivity_by_brute_force(name):
    """All pairs of rows: never above what is promised, and at it in L2 but for what is rounded."""
    public, contribution = cells(name)
    encoded = np.unique(contribution.encode(rows_of(public), ENCODING), axis=0)
    limits = contribution.sensitivity(len(public), ENCODING)
    squared = max(int(((encoded - one) ** 2).sum(axis=1).max()) for one in encoded)
    taxicab = max(int(np.abs(encoded - one).sum(axis=1).max()) for one in encoded)
    assert squared <= limits.l2**2
    assert taxicab <= limits.l1
    assert max(int(np.abs(encoded - one).max()) for one in encoded) == limits.linf
    assert int(np.abs(encoded).max()) == contribution.largest_entry(ENCODING)
    assert squared == pytest.approx(limits.l2**2, rel=1e-3)  # norms of cells differ by what is rounded
    assert limits.columns == encoded.shape[1] == contribution.width(len(public))


def test_a_finer_encoding_multiplies_everything():
    public, contribution = cells("numbers by an answer")
    rows, finer = rows_of(public), FixedPoint(BITS + 6)
    assert (contribution.encode(rows, finer) == contribution.encode(rows, ENCODING) << 6).all()
    coarse, fine = (contribution.sensitivity(len(public), one) for one in (ENCODING, finer))
    assert (fine.l1, fine.linf) == (64 * coarse.l1, 64 * coarse.linf)
    assert fine.l2 == pytest.approx(64 * coarse.l2, rel=1e-15)
    with rejects("fractional_bits", expected="at least 10"):
        contribution.encode(rows, FixedPoint(9))


@pytest.mark.parametrize("name", BOOKS)
def test_every_row_is_in_one_cell_of_each_grid(name):
    """What is added is the strategy's column of that cell, in the client's own group and nowhere else."""
    public, contribution = cells(name)
    rows = rows_of(public)
    encoded, starts = contribution.encode(rows, ENCODING), contribution.starts()
    for grid, start, end in zip(contribution.grids, starts, starts[1:], strict=False):
        matrix, count = strategy_matrix(grid.strategy, grid.cells), grid.group_count * grid.cells
        whole = np.zeros((grid.words, grid.words), np.int64)
        whole[:count, :count] = np.kron(np.eye(grid.group_count, dtype=np.int64), matrix)
        whole[count:, count:] = np.eye(grid.words - count, dtype=np.int64) << BITS
        assert (encoded[:, start:end] == whole[:, grid.place_of(rows)].T).all()


@given(st.lists(st.floats(-1, 1), min_size=6, max_size=6))
def test_whatever_a_row_holds_it_is_in_one_cell(values):
    """Indicators that contradict each other too: the bound holds for every row of the box."""
    public, contribution = cells("all of them by ward")
    row = np.resize(np.array(values), (1, len(public)))
    found = contribution.encode(row, ENCODING)
    limits = contribution.sensitivity(len(public), ENCODING)
    other = contribution.encode(-row, ENCODING)
    assert ((found - other) ** 2).sum() <= limits.l2**2


def test_a_step_makes_each_value_a_cell_of_its_own():
    public, contribution = cells("a number")
    z = public.normalise(np.arange(-2.0, 14.0)[:, None])
    assert contribution.grids[0].cell_of(z).tolist() == [0, 0, *range(12), 11, 11]


def test_a_cell_holds_its_upper_end_as_clients_round_it():
    public = Schema.of_codebook(Codebook((Variable("x", 0.1, 0.7, edges=(0.2, 0.3, 0.6)),)))
    grid = CellCounts.of(public).grids[0]
    assert grid.cell_of(public.normalise([[0.1], [0.2], [0.2000001], [0.3], [0.6], [0.7]])).tolist() == [
        0,
        0,
        1,
        1,
        2,
        3,
    ]


def test_cells_of_a_logarithm_are_equally_wide_in_it():
    public = Schema.of_codebook(Codebook((Variable("x", 1, 100, transform="log", cells=2),)))
    coded = np.log([[5.0], [10.0], [10.1], [80.0]])
    assert CellCounts.of(public).grids[0].cell_of(public.normalise(coded)).tolist() == [1, 1, 2, 2]  # 0: the bound


def test_it_travels_in_a_task():
    public, contribution = cells("all of them by ward")
    again = contribution_from(json.loads(json.dumps(contribution.describe())))
    assert again == contribution
    assert again.parameters() == contribution.parameters()
    task = design(ReleaseSpec.of(public, 1000, 1.0, 1e-6, contribution=contribution))
    assert Task.from_dict(json.loads(json.dumps(task.to_dict()))).digest == task.digest
    assert (task.sketch.family, task.width) == ("sum", contribution.width(len(public)))
    assert [(one.name, *(group.name for group in by)) for one, by in contribution.counted(public)] == [
        ("age", "ward"),
        ("few", "ward"),
        ("sex", "ward"),
        ("sick", "ward"),
    ]


def test_people_are_counted_by_the_groups_of_several_variables_together():
    """A place is the age, then who is sick, then the ward: the last variable's values stand next to each other."""
    public = Schema.of_codebook(Codebook((AGE, SICK, WARD)))
    contribution = CellCounts.of(public, by=("ward", "sick"))
    (grid,) = contribution.grids
    assert grid.group_count == len(WARD.categories) * len(SICK.categories)
    assert [group.name for group in contribution.counted(public)[0][1]] == ["ward", "sick"]
    columns = Codebook((AGE, SICK, WARD)).encode(
        pd.DataFrame({"age": [AGE.lower] * 2, "sick": list(SICK.yes + SICK.no), "ward": [WARD.categories[1]] * 2})
    )
    assert grid.group_of(public.normalise(columns.values)).tolist() == [3, 2]


def test_other_integers_of_a_strategy_are_refused():
    _, contribution = cells("a number")
    with rejects("digest", given="'00'"):
        CellCounts(contribution.grids, "00")


@pytest.mark.parametrize("digest", [None, 7, "left out"])
def test_a_task_without_the_digest_of_its_strategies_is_refused(digest):
    facts = cells("a number")[1].describe() | {"digest": digest}
    if digest == "left out":
        del facts["digest"]
    with rejects("digest", expected="the SHA-256 of the strategies"):
        contribution_from(facts)


def test_grids_of_other_bounds_are_refused():
    _, contribution = cells("a number")
    other = Schema.of_codebook(Codebook((Variable("age", 0, 11, cells=12),)))
    with rejects("grid of cells", condition="by the bounds"):
        contribution.counted(other)
    with rejects("columns", expected="2 or more"):
        CellCounts([CellGrid(strategy="identity", column=1, edges=(0.0,))]).width(1)


@pytest.mark.parametrize(
    ("facts", "rejection"),
    [
        ({"strategy": "tree"}, {"argument": "strategy", "given": "'tree'"}),
        ({"strategy": "identity"}, {"argument": "grid of cells", "given": "one cell", "expected": "at least two"}),
        (
            {"strategy": "root"},
            {"argument": "strategy", "expected": "'identity'", "condition": "of a grid without ordered cells"},
        ),
        (
            {"strategy": "root", "column": 0, "edges": (0.0,), "groups": ((1, 1),)},
            {"argument": "strategy", "condition": "of a grid with groups"},
        ),
        ({"strategy": "identity", "edges": (0.0,)}, {"argument": "column", "given": "none"}),
        (
            {"strategy": "identity", "column": 0, "edges": (0.5, 0.5)},
            {"argument": "edges", "expected": "at most 513 rising numbers"},
        ),
        (
            {"strategy": "identity", "column": 0, "edges": (math.nan,)},
            {"argument": "edges", "expected": "at most 513 rising numbers"},
        ),
        (
            {"strategy": "identity", "column": 0, "edges": tuple(range(1024))},
            {"argument": "edges", "expected": "at most 513 rising numbers"},
        ),
        ({"strategy": "identity", "column": -1, "edges": (0.5,)}, {"argument": "column", "given": "-1"}),
        ({"strategy": "identity", "groups": ((0, 0),)}, {"argument": "groups: indicators", "given": "0"}),
        (
            {"strategy": "identity", "groups": ((1, 2), (1, 2))},
            {"argument": "groups", "expected": "variables with indicators of their own"},
        ),
        (
            {"strategy": "identity", "groups": ((4, 1), (3, 2))},
            {"argument": "groups", "expected": "variables with indicators of their own"},
        ),
    ],
)
def test_grids_that_make_no_sense_are_refused(facts, rejection):
    with rejects(**rejection):
        CellGrid(**facts)


@pytest.mark.parametrize(
    ("variables", "options", "message"),
    [
        ((AGE,), {"by": "ward"}, r"by: 'ward' given, a column of the bounds expected: there are age"),
        ((AGE, WARD), {"by": "age"}, r"by: 'age' given, a number, a column expected whose values"),
        ((WARD,), {"by": "ward"}, r"columns: none given with 'ward', at least one expected"),
        ((Variable("x", 0, 1, transform="spline", knots=(0.5,)),), {}, r"column 'x': a spline given"),
        ((Variable("x", 0, 1, if_missing="middle"),), {}, r"if_missing = 'middle' given, .* 'indicator' expected"),
        ((Variable("x", values=("missing", "a"), if_missing="indicator"),), {}, r"a value called 'missing' given"),
        ((*(Variable(f"x{n}", 0, 1, cells=512) for n in range(17)),), {}, r"cells: 8,738 given in 17 grids, at most"),
    ],
)
def test_variables_that_cannot_be_counted_are_refused(variables, options, message):
    with pytest.raises(InputError, match=message):
        CellCounts.of(Schema.of_codebook(Codebook(variables)), **options)


def test_weights_and_rows_of_zeros_are_refused():
    for book in (Codebook((AGE,), incomplete="zeros"), Codebook((AGE,), weight=Weight("w", 2.0))):
        with rejects("bounds", expected="neither"):
            CellCounts.of(Schema.of_codebook(book))


@pytest.mark.parametrize(
    ("fields", "rejection"),
    [
        ({"cells": 1}, {"argument": "column 'x': cells", "given": "1", "expected": "a whole number from 2 to 512"}),
        (
            {"cells": 4, "step": 1},
            {
                "argument": "column 'x'",
                "given": "cells, step given, one of cells, edges and step expected, and no spline",
            },
        ),
        ({"edges": (0.5, 0.2)}, {"argument": "column 'x'", "expected": "1 to 511 rising numbers between 0.0 and 10.0"}),
        ({"edges": (0.0, 5.0)}, {"argument": "column 'x'", "expected": "1 to 511 rising numbers between 0.0 and 10.0"}),
        ({"edges": ()}, {"argument": "column 'x'", "expected": "1 to 511 rising numbers between 0.0 and 10.0"}),
        ({"step": 0}, {"argument": "column 'x'", "given": "step = 0"}),
        (
            {"step": 3},
            {
                "argument": "column 'x'",
                "condition": "that divides the width of the bounds into 1 to 511 steps, and no transform",
            },
        ),
        (
            {"step": 0.001},
            {
                "argument": "column 'x'",
                "condition": "that divides the width of the bounds into 1 to 511 steps, and no transform",
            },
        ),
        ({"step": math.nan}, {"argument": "step of column 'x'", "given": "nan"}),
        (
            {"cells": 4, "transform": "spline", "knots": (5.0,)},
            {
                "argument": "column 'x'",
                "given": "cells and transform = 'spline' given, one of cells, edges and step expected, and no spline",
            },
        ),
    ],
)
def test_cells_of_a_variable_are_checked(fields, rejection):
    with rejects(**rejection):
        Variable("x", 0, 10, **fields)


def test_a_bounds_file_says_how_cells_are_cut(tmp_path):
    path = tmp_path / "b.toml"
    path.write_text(
        "[columns.age]\nlower = 18\nupper = 90\nstep = 1\n[columns.months]\nlower = 0\nupper = 60\ncells = 60\n"
        '[columns.day]\ndate = "%Y-%m-%d"\nlower = "2020-01-01"\nupper = "2020-01-31"\nstep = 1\n'
    )
    public = Schema.from_toml(path)
    assert [grid.cells for grid in CellCounts.of(public).grids] == [
        73,
        62,
        31,
    ]  # a bound has a cell of its own, unless a step or edges say what cells there are
    assert Schema.from_toml(path).to_toml() == public.to_toml()
    path.write_text(public.to_toml())
    assert Schema.from_toml(path) == public
    path.write_text("[columns.age]\nlower = 18\nupper = 90\n")
    assert [grid.cells for grid in CellCounts.of(Schema.from_toml(path)).grids] == [130]

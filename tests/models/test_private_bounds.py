"""Private bounds: what they are of known cells, what they cost, when they are refused, and fits within them."""

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.secure_sketching.simulation import exact_sums, noiseless, opened
from dpmpc import LogisticRegression, RidgeRegression
from dpmpc.base.errors import InputError
from dpmpc.data import Column, Schema
from dpmpc.data.codebook import Codebook
from dpmpc.data.variables import Variable
from dpmpc.models.common.releases import Releases
from dpmpc.models.rounds import SavedReleases, outlook
from dpmpc.models.rounds.fit import fit_in_rounds, shares_of
from dpmpc.models.rounds.models import LeastSquares
from dpmpc.models.rounds.private_bounds import SHARE, bounds_table, counts_of, narrow, private_bounds
from dpmpc.privacy.specification import ReleaseSpec
from support.rejections import rejects

CELLS = 256
WIDE = Schema((Column("a", -100.0, 100.0), Column("b", 0.0, 10.0), Column("y", -100.0, 100.0)))


def releases(rows, schema=WIDE, *, answer=None, epsilon=1.0, seed=0):
    """Answer tasks from rows in units."""
    asked = iter(range(100 * seed, 100 * seed + 100))
    spec = ReleaseSpec.of(schema, len(rows), epsilon, 1e-6, simulation_seed=seed)
    answer = answer or (lambda task, sums: opened(task, sums, next(asked)))
    return Releases(spec, lambda task: answer(task, exact_sums(task, rows)))


def people(clients, seed=0):
    """Columns of spread 5 in (-100, 100) and of few values, and a target of spread 5."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(0, 5, clients), 10.0 * (rng.random(clients) < 0.1)
    return np.column_stack([a, b, 0.8 * a + 0.1 * b + rng.normal(0, 2, clients)])


def expected(values, column):
    """The rule, from the values themselves: the quartiles of cells, as people are spread evenly in each."""
    width = (column.upper - column.lower) / CELLS
    cells = np.clip(np.ceil((values - column.lower) / width) - 1, 0, CELLS - 1).astype(int)
    below = np.append(0, np.cumsum(np.bincount(cells, minlength=CELLS)))
    low, middle, high = np.interp(len(values) * np.array([0.25, 0.5, 0.75]), below, np.arange(CELLS + 1))
    reach = 6 * (high - low) / 1.349
    return (
        column.lower + max(math.floor(middle - reach), 0) * width,
        column.lower + min(math.ceil(middle + reach), CELLS) * width,
    )


def test_bounds_without_noise_are_six_deviations_around_the_median():
    rows = people(5000)
    rows[:50, 0], rows[50:80, 0] = 80, -90
    made = releases(rows, msgspec.structs.replace(WIDE, outside="refuse"), answer=noiseless)
    a, b, y = narrow(made, SHARE, target=True)
    for bound, values in ((a, rows[:, 0]), (y, rows[:, 2])):
        assert (bound.column.lower, bound.column.upper) == pytest.approx(expected(values, bound.declared))
        outside = np.mean((values < bound.column.lower) | (values > bound.column.upper))
        assert bound.clipped == pytest.approx(outside, abs=1e-9)
        assert bound.narrower
    assert a.clipped == pytest.approx(80 / 5000)
    assert b.column == b.declared, "quartiles within one cell show no spread"
    assert made.schema.columns == (a.column, b.column, y.column)
    assert (made.schema.outside, len(made.made)) == ("clip", 1)


@given(st.integers(0, 1000), st.floats(0.01, 0.4), st.floats(-60, 60))
def test_bounds_lie_within_the_declared_ones(seed, spread, middle):
    rng = np.random.default_rng(seed)
    rows = np.column_stack([rng.normal(middle, 100 * spread, 2000).clip(-100, 100), np.ones(2000), np.zeros(2000)])
    for bound in narrow(releases(rows, epsilon=8.0, seed=seed), SHARE, target=True):
        assert bound.declared.lower <= bound.column.lower < bound.column.upper <= bound.declared.upper


def test_the_clipped_share_is_off_by_its_standard_error():
    """Over 60 draws, standard deviation and mean within 4 of their own errors: a chance of 1e-4 for either."""
    rows = people(20_000)
    errors = []
    for seed in range(60):
        bound = narrow(releases(rows, seed=seed), SHARE, target=True)[0]
        outside = np.mean((rows[:, 0] < bound.column.lower) | (rows[:, 0] > bound.column.upper))
        errors.append((bound.clipped - outside) / bound.clipped_error)
    assert abs(np.mean(errors)) < 4 / math.sqrt(60)
    assert np.std(errors) == pytest.approx(1, abs=4 / math.sqrt(120))


def test_intervals_are_many_times_shorter_and_cover_the_clipped_fit():
    """24 intervals, of which fewer than 20 hold with a chance of 1e-3 where each has 95%."""
    population = people(400_000, seed=99)
    held, widths = [], {True: [], False: []}
    for seed in range(12):
        for narrower in (True, False):
            made = releases(people(20_000, seed), seed=seed)
            fit = fit_in_rounds(LeastSquares(), made, private_bounds=narrower)
            public = made.schema
            linear = public.slope[-1] / public.slope[0]
            half = 1.96 * fit.estimate.deviations[1] * linear
            widths[narrower].append(half)
            if narrower:
                assert len(fit.bounds) == 3
                Z = public.normalise(population)
                x = np.column_stack([np.ones(len(Z)), Z[:, :-1]])
                truth = np.linalg.lstsq(x, Z[:, -1], rcond=None)[0]
                reach = 1.96 * fit.estimate.deviations
                held += (np.abs(fit.estimate.coefficients - truth) < reach)[1:].tolist()
    assert np.median(widths[False]) > 5 * np.median(widths[True])
    assert sum(held) >= 20


def test_all_sums_are_one_budget_and_are_read_again():
    rows = people(20_000)
    made = releases(rows)
    fit = fit_in_rounds(LeastSquares(), made, 2, private_bounds=True)
    shares = shares_of(LeastSquares(), 2, intervals=True, private_bounds=True)
    assert math.fsum(shares.all) == pytest.approx(1)
    assert len(fit.releases) == len(shares.all) == 5
    parts = [(float(release.task.guarantee.mu) / made.mu) ** 2 for release in fit.releases]
    assert parts == pytest.approx(shares.all, rel=1e-3)
    assert fit.guarantee.achieved_epsilon <= 1.0
    assert fit.releases[0].schema == WIDE
    assert all(release.schema == made.schema != WIDE for release in fit.releases[1:])
    assert fit.first is fit.releases[1]
    again = fit_in_rounds(LeastSquares(), SavedReleases(fit.releases, 1.0), 2, private_bounds=True)
    assert np.array_equal(again.coefficients, fit.coefficients)
    assert again.bounds == fit.bounds
    with rejects("releases"):
        fit_in_rounds(LeastSquares(), SavedReleases(fit.releases, 1.0), 2)
    stopped = fit_in_rounds(LeastSquares(), SavedReleases(fit.releases[:3], 1.0), 2, private_bounds=True)
    assert (stopped.rounds, stopped.stopped) == (1, "the rounds ended after 3 of 5 sums")


def test_a_table_of_other_bounds_among_saved_releases_is_refused():
    fit = fit_in_rounds(LeastSquares(), releases(people(20_000)), 2, private_bounds=True)
    other = msgspec.structs.replace(fit.releases[-1].task, schema=WIDE)
    changed = [*fit.releases[:-1], type(fit.releases[-1])(other, fit.releases[-1].sums)]
    with pytest.raises(InputError):
        fit_in_rounds(LeastSquares(), SavedReleases(changed, 1.0), 2, private_bounds=True)


def test_too_few_people_are_refused_before_anything_is_spent():
    made = releases(people(300))
    with rejects("private_bounds"):
        fit_in_rounds(LeastSquares(), made, private_bounds=True)
    assert made.made == []
    spec = ReleaseSpec.of(WIDE, 300, 1.0, 1e-6)
    with rejects("private_bounds"):
        outlook("ridge", spec, private_bounds=True)


BOOK = Codebook(
    (
        Variable("income", 1.0, 1e6, transform="log", if_missing="indicator"),
        Variable("city", values=("A", "B", "C")),
        Variable("cost", 0.0, 1e4),
    )
)


def test_numbers_of_a_codebook_are_counted_without_those_who_lack_them():
    public = Schema.of_codebook(BOOK)
    counts = counts_of(public, target=True)
    assert [public.names[grid.column] for grid in counts.grids] == ["log(income)", "cost"]
    assert [grid.missing for grid in counts.grids] == [public.index("income=missing"), None]
    alone = counts_of(public.select(["log(income)", "cost"]), target=False)
    assert [(grid.column, grid.missing) for grid in alone.grids] == [(0, None)]
    with rejects("private_bounds", given="given, but none of city=B, city=C is a number or a date"):
        counts_of(public.select(["city=B", "city=C"]), target=True)
    rng = np.random.default_rng(4)
    lacks = rng.random(8000) < 0.6
    values = np.where(lacks, public.offset[0], rng.normal(10, 0.5, 8000))
    cities = np.eye(3)[rng.integers(0, 3, 8000)][:, 1:]
    rows = np.column_stack([values, lacks, cities, 300 + rng.normal(0, 40, 8000)])
    release = noiseless(
        releases(rows, public).task(SHARE, counts), exact_sums(releases(rows, public).task(SHARE, counts), rows)
    )
    income, _ = private_bounds(release)
    assert (income.column.lower, income.column.upper) == pytest.approx((10 - 3, 10 + 3), abs=0.2)


def test_numbers_of_a_codebook_may_be_narrower_and_nothing_else():
    public = Schema.of_codebook(BOOK)
    inner = Column("cost", 10.0, 500.0)
    narrowed = msgspec.structs.replace(public, columns=(*public.columns[:-1], inner))
    assert narrowed.columns[-1] == inner
    assert Schema.from_dict(narrowed.to_dict()) == narrowed
    for column in (Column("cost", -1.0, 500.0), Column("cost", 0.0, 10_001.0)):
        with rejects("codebook"):
            msgspec.structs.replace(public, columns=(*public.columns[:-1], column))
    place = public.index("city=B")
    columns = list(public.columns)
    columns[place] = Column("city=B", columns[place].lower / 2, columns[place].upper)
    with rejects("codebook"):
        msgspec.structs.replace(public, columns=tuple(columns))


def test_estimators_have_them_and_print_them():
    rows = people(20_000)
    bounds = {"a": (-100, 100), "b": (0, 10), "y": (-100, 100)}
    frame = {"a": rows[:, 0], "b": rows[:, 1]}
    pandas = pytest.importorskip("pandas")
    model = RidgeRegression(rounds=2, private_bounds=True, bounds=bounds, noise_by="servers", simulation_seed=3)
    model.fit(pandas.DataFrame(frame), rows[:, 2])
    result = model.result()
    assert [entry["column"] for entry in result.data["private_bounds"]] == ["a", "b", "y"]
    assert result.tables[0].title.endswith("values clipped at private bounds")
    assert list(result.tables[1].names) == ["a", "y"]
    assert result.parameters["private_bounds"] is True
    assert model.coef_[0] == pytest.approx(0.8, abs=0.2)
    logistic = LogisticRegression(
        rounds=2, private_bounds=True, bounds={"a": (-100, 100), "b": (0, 10)}, noise_by="servers", simulation_seed=3
    )
    logistic.fit(pandas.DataFrame(frame), (rows[:, 2] > 0).astype(int))
    assert [bound.column.name for bound in logistic.private_bounds_] == ["a", "b"], "a 0/1 target has its bounds"
    with rejects("private_bounds", expected="False"):
        RidgeRegression(private_bounds=True, bounds=bounds, sketch="sum").fit(pandas.DataFrame(frame), rows[:, 2])


def test_the_table_lists_what_is_narrower():
    bounds = narrow(releases(people(20_000)), SHARE, target=True)
    table = bounds_table(bounds, 0.95)
    assert list(table.names) == ["a", "y"]
    assert table.notes[-1] == "As declared: b."
    for low, value, high in zip(table.columns["% from"], table.columns["% clipped"], table.columns["to"], strict=True):
        assert 0 <= low <= value <= high <= 100

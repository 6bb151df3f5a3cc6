"""Rows of nobody, drawn from the two-way tables of a release: to try code on, to teach with, and for a first plot.

Second moments hold a table of each two categories, cells one of each column by the groups. Tables in which two columns
do not depend on each other as far as the noise tells are left out; of the others a tree is kept in which the columns
depend on each other most (Chow and Liu 1968), and rows are drawn along it. Noise may have made counts negative: each
table is replaced by the nearest one of people.

Promised: a function of the release, so that rows cost no privacy and none is that of a person; the file says what it is
before anything else. Not promised: anything but single columns and the tables of the tree. Three columns at once,
standard errors, p-values, rare combinations and models that are judged on such rows are wrong.
"""

from __future__ import annotations

import csv
import dataclasses
import datetime
import io
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError
from dpmpc.base.storage.files import whole
from dpmpc.base.untrusted import harmless
from dpmpc.data import Codebook
from dpmpc.data.variables import Variable
from dpmpc.linear.contributions import SecondMoments
from dpmpc.linear.contributions.cells import CellCounts
from dpmpc.linear.contributions.grouped_moments import GroupedMoments
from dpmpc.models.tables.cross_table import CrossTable
from dpmpc.models.tables.independence import Independence
from dpmpc.models.tables.quantiles import Distribution
from dpmpc.models.tables.table_one import TableOne
from dpmpc.release.release import Release
from dpmpc.release.results.number_tables import SPREADSHEET_FORMULA

SUFFIX = ".synthetic.csv"
MOST_ROWS = 1_000_000
_SURE = 0.05  # of all edges together: two columns that are independent are joined in one of twenty releases
_SEED = 20_240_301  # rows are drawn from the release alone; the seed only makes a reading repeatable
_AT_ONCE = 1 << 14


@dataclasses.dataclass(frozen=True)
class _Law:
    """How often each value of a column is, (V,), or (P, V) by the values of the column that it is drawn by."""

    parent: str | None
    shares: Reals


@dataclasses.dataclass(frozen=True)
class SyntheticRows:
    """Rows that are drawn along a tree, each column after the one that it depends on."""

    release: Release
    laws: Mapping[str, _Law]  # in the order in which columns are drawn
    words: Mapping[str, Callable[[NDArray[np.intp], np.random.Generator], list[str]]]  # what the values are called
    columns: Sequence[str]  # in the order of the bounds
    left_out: Sequence[str]  # columns of which the release has no table

    @classmethod
    def of(cls, release: Release) -> SyntheticRows:
        """Read the tables of a release of second moments of categories, or of cells."""
        if isinstance(release.task.statistic, CellCounts):
            return cls._of_cells(release)
        book = release.task.schema.codebook
        known = book.variables if isinstance(book, Codebook) else ()
        listed = [one for one in known if one.categories and one.if_missing != "middle"]
        if not isinstance(release.task.statistic, SecondMoments | GroupedMoments):
            given = release.task.statistic.name
            raise InputError(f"synthetic: given with a release of {given}, one of second moments or of cells expected")
        if len(listed) < 2:
            raise InputError("synthetic: given, but this release has no table of two columns with listed values")
        tables = {
            (one.name, other.name): CrossTable.of(release, one.name, other.name)
            for one, other in itertools.combinations(listed, 2)
        }
        strength = {}
        for pair, table in tables.items():
            joined = table.joined()
            departure = joined.departure()
            if not isinstance(departure, str) and departure.test().p_value < _SURE / len(tables):
                strength[pair] = departure.cramers_v(joined.counts) ** 2 * (min(joined.counts.shape) - 1)
        margins: dict[str, Reals] = {}
        for (one, other), table in tables.items():
            margins |= {one: table.counts.sum(axis=1), other: table.counts.sum(axis=0)}
        laws: dict[str, _Law] = {}
        for name, parent in _tree([one.name for one in listed], strength):
            own = nearest(margins[name])
            if parent is None:
                laws[name] = _Law(None, own)
                continue
            table = tables[name, parent].transposed() if (name, parent) in tables else tables[parent, name]
            laws[name] = _Law(parent, _by_row(nearest(table.counts), own))
        names = [one.name for one in listed]
        words = {one.name: _labels(one) for one in listed}
        return cls(release, laws, words, names, [one.name for one in known if one.name not in names])

    @classmethod
    def _of_cells(cls, release: Release) -> SyntheticRows:
        """Draw the group first, and each other column by it where it depends on it."""
        fit = TableOne().fit_release(release)
        known = {one.name: one for one in release.task.schema.variables}
        listed = [name for name in known if name in fit.variables_ or name == fit.by_]
        laws: dict[str, _Law] = {}
        if fit.by_ is not None:
            sizes = fit.table_.columns["people"][1:]
            laws[fit.by_] = _Law(None, nearest(np.array(sizes)))
        for name, (grid, variable) in fit.variables_.items():
            tested: Independence | str = "no groups"
            if variable.categories:
                counts = fit.estimates_.counts[grid].reshape(len(variable.categories), -1)
                own = nearest(counts.sum(axis=1))
                by_group = _by_row(nearest(counts.T), own)
                tested = fit.crosstab(name).independence() if fit.by_ is not None else tested
            else:
                own = _of_number(fit.distribution(name))
                by_group = np.stack([_of_number(fit.distribution(name, group)) for group in fit.groups_ or (None,)])
                tested = fit.rank_test(name) if fit.by_ is not None else tested
            depends = isinstance(tested, Independence) and tested.p_value < _SURE / len(fit.variables_)
            laws[name] = _Law(fit.by_, by_group) if depends else _Law(None, own)
        words = {}
        for name in listed:
            variable = known[name]
            words[name] = _labels(variable) if variable.categories else _numbers(fit.distribution(name))
        return cls(release, laws, words, listed, [name for name in known if name not in listed])

    @property
    def edges(self) -> list[tuple[str, str]]:
        """Which columns are drawn by which others."""
        return [(law.parent, name) for name, law in self.laws.items() if law.parent is not None]

    @property
    def label(self) -> str:
        """What stands on the file's first line: what the rows are, and what they are good for."""
        budget = self.release.task.guarantee
        tables = ", ".join(f"{one} by {other}" for one, other in self.edges) or "none"
        return harmless(
            f"# Synthetic rows: nobody's. Drawn from the noisy sums of a release, epsilon = {budget.epsilon:g}, "
            f"delta = {budget.delta:g}. Valid: to try code, to teach, a first plot, single columns, and these two-way "
            f"tables: {tables}. Not valid: standard errors, p-values, rare combinations, three columns at once, a "
            "model that will be judged on them. Tests come from the release: dpmpc read --crosstab."
        ).replace("\n", " ")

    def rows(self) -> Iterator[list[str]]:
        """Yield as many rows as people took part, a million at most."""
        rng = np.random.default_rng(_SEED)
        left = min(self.release.clients, MOST_ROWS)
        while left > 0:
            count = min(left, _AT_ONCE)
            drawn: dict[str, NDArray[np.intp]] = {}
            texts: dict[str, list[str]] = {}
            for name, law in self.laws.items():
                shares = law.shares[None, :] if law.parent is None else law.shares
                given = np.zeros(count, np.intp) if law.parent is None else drawn[law.parent]
                up_to = np.cumsum(shares, axis=1)[given]
                drawn[name] = (up_to[:, :-1] < rng.random(count)[:, None]).sum(axis=1)
                texts[name] = self.words[name](drawn[name], rng)
            yield from map(list, zip(*(texts[name] for name in self.columns), strict=True))
            left -= count

    def write(self, path: Path) -> None:
        """Write the file, whole or not at all; its name says what it holds."""
        if not path.name.endswith(SUFFIX):
            raise InputError(f"synthetic: {str(path)!r} given, a name expected that ends in {SUFFIX}")
        with whole(path) as raw:
            text = io.TextIOWrapper(raw, encoding="utf-8", newline="")
            text.write(f"{self.label}\n")
            writer = csv.writer(text, lineterminator="\n")
            writer.writerow(map(_harmless, self.columns))
            writer.writerows(self.rows())
            text.flush()
            text.detach()


def nearest(counts: Reals) -> Reals:
    """Return the nearest shares that are at least 0 and add up to 1 (Duchi et al. 2008)."""
    shares = counts / max(float(counts.sum()), 1.0)
    falling = np.sort(shares.ravel())[::-1]
    excess = (np.cumsum(falling) - 1) / np.arange(1, falling.size + 1)
    kept = int(np.flatnonzero(falling > excess)[-1])
    return np.asarray(np.maximum(shares - excess[kept], 0.0))


def _by_row(table: Reals, otherwise: Reals) -> Reals:
    """Return shares of each row (P, V); a row without people gets those of all."""
    totals = table.sum(axis=1, keepdims=True)
    return np.where(totals > 0, table / np.where(totals > 0, totals, 1.0), otherwise)


def _of_number(found: Distribution) -> Reals:
    """Return the shares of a number's cells, and last of those that lack it."""
    missing = min(max(found.missing[0] / max(found.people + found.missing[0], 1.0), 0.0), 1.0)
    return np.append((1 - missing) * found.shares, missing)


def _tree(names: Sequence[str], strength: Mapping[tuple[str, str], float]) -> Iterator[tuple[str, str | None]]:
    """Yield each column with the one that it is drawn by: the spanning forest of the greatest strength."""
    component = {name: name for name in names}
    near: dict[str, list[str]] = {name: [] for name in names}
    for one, other in sorted(strength, key=lambda pair: -strength[pair]):
        if component[one] != component[other]:
            near[one].append(other)
            near[other].append(one)
            joined = component[other]
            component = {name: component[one] if at == joined else at for name, at in component.items()}
    seen: set[str] = set()
    for root in names:
        waiting: list[tuple[str, str | None]] = [] if root in seen else [(root, None)]
        while waiting:
            name, parent = waiting.pop()
            seen.add(name)
            yield name, parent
            waiting += [(other, name) for other in near[name] if other not in seen]


def _labels(variable: Variable) -> Callable[[NDArray[np.intp], np.random.Generator], list[str]]:
    """Return what writes values of a category or an answer, as the bounds file reads them; nothing for missing ones."""
    words = [_harmless(value) for value in variable.categories]
    if variable.kind == "yes-no":
        words[:2] = [(variable.no or words)[0], (variable.yes or words)[0]]
    if variable.if_missing == "indicator":
        words[-1] = ""
    return lambda places, _: [words[place] for place in places.tolist()]


def _numbers(found: Distribution) -> Callable[[NDArray[np.intp], np.random.Generator], list[str]]:
    """Return what writes a number or a date somewhere in its cell; nothing for those that lack it."""
    variable, ends = found.variable, found.ends

    def write(places: NDArray[np.intp], rng: np.random.Generator) -> list[str]:
        inside = np.minimum(places, len(ends) - 2)
        values = ends[inside] + rng.random(len(places)) * (ends[inside + 1] - ends[inside])
        if variable.step is not None:
            values = found.middles[inside]
        return [
            "" if place == len(ends) - 1 else told(value)
            for place, value in zip(places.tolist(), values.tolist(), strict=True)
        ]

    def told(value: float) -> str:
        if variable.date is None:
            return f"{value:.6g}"
        first = datetime.datetime.strptime(str(variable.lower), variable.date)
        return (first + datetime.timedelta(days=int(value))).strftime(variable.date)

    return write


def _harmless(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula."""
    return f"'{text}" if SPREADSHEET_FORMULA.match(text) else text

"""A release: the opened noisy sums with everything public about them.

What is in a `Release` may be published. Whatever is computed from it is post-processing and costs no further
privacy. The file form (`dpmpc.release.release_file`) holds the task and the sums, int64; loading recomputes the
guarantee from the task, so that a file cannot claim more than its noise gives.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import os
from collections.abc import Mapping, Sequence

import numpy as np

from dpmpc.base.arrays import Integers, Reals
from dpmpc.base.errors import InputError
from dpmpc.base.storage.files import whole
from dpmpc.data import Schema
from dpmpc.linear.contributions import Rows
from dpmpc.linear.contributions.noisy_gram import NoisyGram
from dpmpc.privacy import Guarantee
from dpmpc.privacy.task import LONGEST_CHECK, Task
from dpmpc.release import release_file
from dpmpc.release.results.description import Description, describe_moments

RELEASE_FILE = "release.dpmpc"


class GramSource(abc.ABC):
    """What estimators of second moments read of a task, in whichever form it was opened."""

    task: Task
    opened: bool = True  # whether the servers opened what is read, and not only products of it

    @property
    def guarantee(self) -> Guarantee:
        """What is promised to each client."""
        return self.task.guarantee

    @functools.cached_property
    def schema(self) -> Schema:
        """Public bounds of the columns, without a weight."""
        return self.task.statistic.analysed(self.task.schema)

    @property
    def weighted(self) -> bool:
        """Whether rows have weights, or lack values and weigh nothing: then the sum of the weights is noisy."""
        return self.task.statistic.noisy_total

    @property
    def summed(self) -> bool:
        """Whether second moments were summed, and not rows sketched."""
        return self.task.statistic.summed

    @functools.cached_property
    def total(self) -> float:
        """What sums are divided by: n, or the noisy sum of the weights in units of the largest, and at least 1."""
        return float(self.gram().matrix[0, 0]) if self.weighted else float(self.clients)

    @property
    def total_variance(self) -> float:
        """Variance of the noise in `total`: 0 where it is n."""
        return float(self.noise_variance[0]) if self.weighted else 0.0

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return self.schema.names

    @property
    def clients(self) -> int:
        """Number of clients, public and exact: of all rows, whether complete or not."""
        return self.task.clients

    @property
    def noise_variance(self) -> Reals:
        """Variance of the noise in each row's entries, float64 (k,), in the units of the scaled, normalised sketch."""
        return self.task.noise_variance

    @abc.abstractmethod
    def gram(self) -> NoisyGram:
        """Return the noisy Gram matrix of (1, z), in normalised units."""

    def noisy(self, matrix: Reals, columns: tuple[str, ...]) -> NoisyGram:
        """Return a part of the Gram matrix, which belongs to (1, some columns), with the size of its noise."""
        return self.task.statistic.noisy_gram(matrix, self.noise_variance, columns)

    def describe(self, *, of: str = "population") -> Description:
        """Return means, standard deviations and correlations with standard errors; costs no privacy.

        Parameters
        ----------
        of : {"population", "sample"}
            What standard errors cover: sampling and noise, or the noise alone.

        Raises
        ------
        InputError
            If something else than second moments was released.
        """
        if not self.summed:
            raise InputError(
                "release", f"of {self.task.statistic.name} given, of second moments expected (sketch='sum')"
            )
        variance = float(self.noise_variance[0])
        return describe_moments(
            self.gram().matrix, variance, self.schema, self.clients, of, total_variance=self.total_variance
        )

    def select(self, columns: Sequence[str]) -> GramSource:
        """Return some of the columns, in the order given, as estimators read them: post-processing."""
        return self if tuple(columns) == self.columns else SelectedColumns(self, self.schema.select(columns))


@dataclasses.dataclass(frozen=True, eq=False)
class Release(GramSource):
    """A noisy linear sketch of the clients' contributions.

    Parameters
    ----------
    task : Task
        The public facts.
    sums : ndarray of int64, shape (k, width)
        The opened sums: the unscaled public matrix applied to the encoded contributions, plus noise. Exact integers.

    Examples
    --------
    >>> import numpy as np
    >>> from dpmpc import Budget, ReleaseSpec, Schema, design, simulate
    >>> rows = np.random.default_rng(0).uniform(0, 100, (20_000, 2))
    >>> spec = ReleaseSpec(
    ...     schema=Schema.from_pair(["age", "hours"], (0, 100)), clients=len(rows), budget=Budget(1.0, 1e-6)
    ... )
    >>> release = simulate(design(spec), rows)
    >>> release.columns, release.clients
    (('age', 'hours'), 20000)
    >>> print(str(release.guarantee).splitlines()[0])
    (1, 1e-06)-differential privacy for each of 20,000 clients
    """

    task: Task
    sums: Integers

    def __post_init__(self) -> None:
        expected = (self.task.sketch.rows, self.task.width)
        if self.sums.shape != expected or self.sums.dtype != np.int64:
            raise InputError("sums", f"{self.sums.dtype} {self.sums.shape}", f"int64 {expected}")

    @property
    def unit(self) -> float:
        """Value of one integer unit of `sums` in the scaled, normalised sketch: scale / 2^f."""
        return self.task.unit

    @functools.cached_property
    def sketch(self) -> Reals:
        """S Z + noise, float64 (k, width), scaled by 1/sqrt(s), in normalised units (columns mapped to [-1, 1])."""
        return np.asarray(self.sums * self.task.units, dtype=np.float64)

    @functools.cached_property
    def ones(self) -> Reals:
        """S applied to the all-ones column, float64 (k,): the intercept's column, public and free of noise."""
        return self.task.sketch.column_sums()

    def gram(self) -> NoisyGram:
        """Return the noisy Gram matrix of (1, z) that every estimator of second moments reads.

        Raises
        ------
        InputError
            If neither rows nor second moments were released.
        """
        matrix = self.task.statistic.gram(self.sketch, self.ones, self.clients)
        return self.noisy(matrix, self.columns)

    def save(self, path: str | os.PathLike[str], beside: Mapping[str, bytes] | None = None) -> None:
        """Write the release to a file, whole or not at all; `beside` are further members of the zip, by name."""
        header = release_file.Header(release_file.FORMAT, self.task.to_dict(), self.guarantee.to_dict())
        with whole(path) as file:
            release_file.write(file, header, self.sums, beside)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, longest: float = LONGEST_CHECK) -> Release:
        """Read a release from a file and recompute its guarantee.

        Parameters
        ----------
        path : path
            The file.
        longest : float
            Seconds that the recomputation may take, by the estimate of `Task.check_seconds`.

        Raises
        ------
        InputError
            If the file is not a release, claims another guarantee than its public facts give, or would take longer.
        GuaranteeError
            If its noise does not give the guarantee that it claims.
        """

        def build(header: release_file.Header, sums: release_file.SumsReader) -> Release:
            task = Task.from_dict(header.task)
            opened = sums((task.sketch.rows, task.width), np.int64)
            return cls(task.require_checkable(longest).verify(), opened)

        return release_file.read(path, "release file", build)

    def __repr__(self) -> str:
        rows, width = self.sums.shape
        guarantee = self.guarantee
        return (
            f"<Release of {self.clients:,} clients: {self.task.sketch.family} {rows} x {width} of "
            f"{self.task.statistic.name}, epsilon={guarantee.epsilon:g}, delta={guarantee.delta:g}"
            f"{', SIMULATION' if guarantee.simulation else ''}>"
        )


@dataclasses.dataclass(frozen=True, eq=False)
class GramRelease(GramSource):
    """The Gram matrix of a noisy sketch of rows that was never opened.

    Estimators that read `gram` fit it like a `Release`. It was computed from what a `Release` of the same task would
    have shown, so the task's guarantee holds for it, if all servers followed the protocol.

    Parameters
    ----------
    task : Task
        The public facts; rows are sketched.
    products : ndarray of int64, shape (p + 1, p + 1)
        A^T A for A = [S 1, S Z + noise], unscaled: exact integers.
    """

    task: Task
    products: Integers
    opened = False

    @property
    def guarantee(self) -> Guarantee:
        """What is promised to each client by servers that multiplied inside MPyC."""
        return self.task.unopened_guarantee

    def __post_init__(self) -> None:
        side = len(self.task.schema) + 1
        if self.products.shape != (side, side) or self.products.dtype != np.int64:
            actual = f"{self.products.dtype} {self.products.shape}"
            raise InputError("products", actual, f"int64 {(side, side)}")

    def gram(self) -> NoisyGram:
        """Return the noisy Gram matrix of (1, z), in normalised units."""
        units = np.array([self.task.sketch.scale, *[self.task.unit] * len(self.columns)])
        return self.noisy(self.products.astype(np.float64) * np.outer(units, units), self.columns)


class SelectedColumns(GramSource):
    """Some columns of a release, as estimators read them.

    Parameters
    ----------
    source : GramSource
        The whole release, whose task and guarantee hold.
    chosen : Schema
        The bounds of the chosen columns.
    """

    def __init__(self, source: GramSource, chosen: Schema):
        self.task = source.task
        self.source = source
        self.opened = source.opened
        self._chosen = chosen

    @functools.cached_property
    def schema(self) -> Schema:
        """Public bounds of the chosen columns."""
        return self._chosen

    @property
    def guarantee(self) -> Guarantee:
        """What is promised to each client, by the whole release."""
        return self.source.guarantee

    @property
    def ones(self) -> Reals:
        """S applied to the all-ones column; of opened rows."""
        return self._opened.ones

    @property
    def sketch(self) -> Reals:
        """The chosen columns of the noisy sketch; of opened rows."""
        return self._opened.sketch[:, self._places]

    def gram(self) -> NoisyGram:
        """Return the part of the noisy Gram matrix that belongs to (1, the chosen columns)."""
        used = [0, *(place + 1 for place in self._places)]
        return self.noisy(self.source.gram().matrix[np.ix_(used, used)], self.columns)

    @property
    def summed(self) -> bool:
        """Whether second moments were summed, and not rows sketched."""
        return self.source.summed

    @property
    def weighted(self) -> bool:
        """Whether the sum that others are divided by is noisy."""
        return self.source.weighted

    @property
    def noise_variance(self) -> Reals:
        """Variance of the noise in each row's entries, float64 (k,)."""
        return self.source.noise_variance

    @property
    def _opened(self) -> Release:
        if not isinstance(self.source, Release) or not isinstance(self.source.task.statistic, Rows):
            raise InputError("release", f"{self.source!r}", "opened rows")
        return self.source

    @property
    def _places(self) -> list[int]:
        return [self.source.schema.index(name) for name in self.columns]

"""Main directions and frequency moments from a release.

Sources: Burkhardt et al. 2025, section 5.2, and section 4.1 (docs/mathematics.md, section 5.2).
"""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar, Self

import numpy as np

from dpmpc.base.arguments import require_bool, require_choice
from dpmpc.base.errors import InputError
from dpmpc.data import Column
from dpmpc.linear.contributions import SecondMoments
from dpmpc.linear.contributions.powers_and_items import ItemSketch, PowerSum
from dpmpc.models.common.inference import normal_quantile
from dpmpc.models.common.linear_algebra import check_rank, top_components
from dpmpc.models.common.release_parts import column_index
from dpmpc.models.common.scikit import OfRelease, name_features
from dpmpc.release.release import GramRelease, Release
from dpmpc.release.results import NumberTable, Result
from dpmpc.release.results.number_tables import short
from dpmpc.release.results.plot_data import PlotData


@dataclasses.dataclass(eq=False, repr=False)
class LowRankFit(OfRelease):
    """Main directions as they are read from a release; `dpmpc.LowRankApproximation` says what attributes are."""

    kind: ClassVar[str] = "low-rank"  # as in `dpmpc fit --model`
    python_name: ClassVar[str] = "LowRankApproximation"

    n_components: int = 3
    center: bool = False

    def fit_release(self, release: Release | GramRelease) -> Self:
        """Fit a release of rows or of second moments: pure post-processing."""
        self.check_parameters(len(release.columns))
        gram = release.gram().matrix
        # E (M_0j + N_0j)(M_0k + N_0k) / n = M_0j M_0k / n + a multiple of the identity, which turns no eigenvector
        mean = gram[0, 1:] / gram[0, 0] if self.center else np.zeros(len(release.columns))
        self.components_ = top_components(gram[1:, 1:] - gram[0, 0] * np.outer(mean, mean), self.n_components)
        self.origin_ = release.schema.offset + release.schema.slope * mean
        self.release_ = release
        self.feature_names_ = release.columns
        name_features(self, release.columns)
        return self

    def result(self, level: float = 0.95) -> Result:
        """Return the directions, as `dpmpc fit` and `dpmpc read` show them; they have no intervals of any level."""
        rows = [dict(zip(self.feature_names_, row, strict=True)) for row in self.components_.tolist()]
        through = "their means" if self.center else "the middle of their bounds"
        return Result(
            model=self.kind,
            title=f"Low-rank approximation of {len(self.feature_names_)} columns about {through}",
            tables=[
                NumberTable(
                    "Components",
                    {f"component {number}": list(row.values()) for number, row in enumerate(rows, 1)},
                    self.feature_names_,
                    notes=["Entries of directions of length 1, in normalised columns: no unit."],
                )
            ],
            plots={"components": lambda: PlotData("components", {"rows": rows})},
            data={
                "components": rows,
                "origin": dict(zip(self.feature_names_, self.origin_.tolist(), strict=True)),
            },
            parameters=self.parameters,
            estimator=self.python_name,
        )

    @property
    def parameters(self) -> dict[str, object]:
        """What the estimator was given, so that it can be made again."""
        return {"n_components": self.n_components, "center": self.center}

    def check_parameters(self, columns: int) -> None:
        """Refuse a rank that data with so many columns cannot have, before any data is read."""
        require_bool("center", self.center)
        check_rank(self.n_components, columns)


OF = ("values", "items")


@dataclasses.dataclass(eq=False, repr=False)
class MomentFit(OfRelease):
    """A moment as it is read from a release; `dpmpc.FrequencyMoment` says what parameters and attributes are."""

    kind: ClassVar[str] = "moment"  # as in `dpmpc fit --model`
    python_name: ClassVar[str] = "FrequencyMoment"

    order: int = 2
    _: dataclasses.KW_ONLY
    of: str = "values"

    def fit_release(self, release: Release, column: str | int = -1) -> Self:
        """Fit a release of the same order and kind, or for order 1 and 2 of second moments: pure post-processing.

        Parameters
        ----------
        release : Release
            Of a power of one number, of items, or of second moments.
        column : str or int
            What to measure, of a release of second moments; the last column by default.
        """
        self.check_parameters()
        contribution = release.task.statistic
        noise_variance = float(release.noise_variance[0])
        measured = release.schema.columns[column_index(release.columns, column)]
        if self.of == "values" and isinstance(contribution, SecondMoments) and self.order <= 2:
            self.moment_, self.noise_sd_ = _of_second_moments(release, measured, self.order)
            self.standard_error_ = self.noise_sd_
        elif self.of == "values" and isinstance(contribution, PowerSum) and contribution.order == self.order:
            unit = max(abs(measured.lower), abs(measured.upper)) ** self.order
            self.moment_ = unit * float(release.sketch[0, 0])
            self.noise_sd_ = unit * math.sqrt(noise_variance)
            self.standard_error_ = self.noise_sd_
        elif self.of == "items" and isinstance(contribution, ItemSketch):
            sketch = release.sketch[0]
            self.moment_, self.standard_error_ = item_moment(float(sketch @ sketch), len(sketch), noise_variance)
            self.noise_sd_ = math.sqrt(noise_variance)
        else:
            expected = f"of {self.of} and order {self.order}"
            more = " (second moments would do too)" if self.of == "values" and self.order <= 2 else ""
            raise InputError(f"release: of {contribution!r} given, {expected} expected{more}")
        self.column_ = measured.name
        self.release_ = release
        return self

    def result(self, level: float = 0.95) -> Result:
        """Return the moment with its standard error and interval, as `dpmpc fit` and `dpmpc read` show it."""
        items, value, error = self.of == "items", self.moment_, self.standard_error_
        power = "" if self.order == 1 else f" to the power {self.order}"
        unit = "people squared" if items else f"units of {short(self.column_)}{power}"
        reach = normal_quantile((1 + level) / 2) * error
        ends = (f"{level:.0%} from", "to")
        columns = {"estimate": value, "std. error": error, ends[0]: value - reach, ends[1]: value + reach}
        table = NumberTable(
            "Estimate",
            {heading: [number] for heading, number in columns.items()},
            [f"sum of squared counts of {self.column_}" if items else f"sum of {self.column_}{power}"],
            label="what",
            notes=[f"In {unit}. The error is that of {'the noise and the sketch' if items else 'the noise'}."],
            errors={"estimate": "std. error"},
            intervals={f"{level:.0%} interval": ends},
        )
        return Result(
            model=self.kind,
            title=f"Sum of squared counts of {self.column_}" if items else f"Sum of {self.column_}{power}",
            tables=[table],
            plots={"estimate": lambda: PlotData("estimate", {"value": value, "error": error, "unit": unit})},
            data={
                "column": self.column_,
                "of": self.of,
                "order": self.order,
                "moment": value,
                "standard_error": error,
                "noise_sd": self.noise_sd_,
            },
            parameters=self.parameters,
            estimator=self.python_name,
        )

    @property
    def parameters(self) -> dict[str, object]:
        """What the estimator was given, so that it can be made again."""
        return {"order": self.order, "of": self.of}

    def check_parameters(self) -> None:
        """Refuse parameters that no fit can use, before any data is read."""
        require_choice("of", self.of, OF)
        if self.of == "items" and self.order != 2:
            raise InputError(f"order: {self.order!r} given, 2 expected for items: their sketch shows F_2 only")
        if self.of == "values":
            PowerSum(self.order)


def _of_second_moments(release: Release, column: Column, order: int) -> tuple[float, float]:
    """Return the sum of x or x^2, x = offset + slope z, and the standard deviation of its noise.

    Of M_0j, with noise of variance v/2, and M_jj, with v (`SecondMoments`); n is exact, or M_00 with noise of variance
    v where rows have weights or lack values.
    """
    place = release.columns.index(column.name) + 1
    matrix, v = release.gram().matrix, float(release.noise_variance[0])
    n, corner = float(matrix[0, 0]), release.total_variance
    offset, slope = column.middle, column.half_width
    if order == 1:
        return n * offset + slope * float(matrix[0, place]), math.sqrt(slope**2 * v / 2 + offset**2 * corner)
    linear = 2 * offset * slope
    moment = n * offset**2 + linear * float(matrix[0, place]) + slope**2 * float(matrix[place, place])
    return moment, math.sqrt(linear**2 * v / 2 + slope**4 * v + offset**4 * corner)


def item_moment(squared_norm: float, rows: int, noise_variance: float) -> tuple[float, float]:
    """Return F2^ = ||z||^2 - k sigma_z^2 (docs/mathematics.md, section 5.2) and its standard error with F_4 = 0."""
    estimate = squared_norm - rows * noise_variance
    return estimate, math.sqrt(item_moment_variance(max(estimate, 0.0), rows, noise_variance))


def item_moment_variance(f2: float, rows: int, noise_variance: float, f4: float = 0.0) -> float:
    """Return the variance of F2^ = ||z||^2 - k sigma_z^2: (2/k)(F_2^2 - F_4) + 4 sigma_z^2 F_2 + 2 k sigma_z^4."""
    return 2 / rows * (f2**2 - f4) + 4 * noise_variance * f2 + 2 * rows * noise_variance**2

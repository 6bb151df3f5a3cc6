"""Low-rank approximation from a release (Burkhardt et al. 2025, section 5.2)."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpmpc.base.arguments import require_bool
from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError
from dpmpc.data import Schema, Table
from dpmpc.models.common.commanded import NotPrivate, option
from dpmpc.models.common.linear_algebra import check_rank, excess_risk, random_excess_risk, top_components
from dpmpc.models.common.people import codebook_in, people_table
from dpmpc.models.common.private_estimator import PrivateLinearModel
from dpmpc.models.common.release_forecast import forecast_release
from dpmpc.models.common.scikit import name_features, remember_features, require_fitted, rows_like_fitted
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release.planning import design
from dpmpc.release.planning.forecast import Assumptions, Forecast
from dpmpc.release.planning.prediction import LowRank, Population
from dpmpc.release.release import GramRelease, Release
from dpmpc.release.results import NumberTable, Result
from dpmpc.release.results.plot_data import PlotData


@dataclasses.dataclass(eq=False, repr=False)
class LowRankApproximation(PrivateLinearModel):
    """Differentially private low-rank approximation by secure sketching.

    The r directions that keep most of the rows' squared norm: the top right singular vectors of the noisy sketch, or
    the top eigenvectors of the noisy second moments. Columns are mapped from their bounds to [-1, 1]. As in the paper,
    nothing is centred unless `center` is given: directions go through the middle of the bounds. The clients' noise adds
    a multiple of the identity to the second moments, in expectation; taking it off would move no eigenvector, so there
    is nothing to correct.

    `fit` simulates clients and servers in this process and then calls `fit_release`; `fit_release` alone is
    post-processing of a release that came from anywhere.

    Parameters
    ----------
    n_components : int
        r, at most the number of columns.
    center : bool
        Whether directions go through the mean, as in principal component analysis: the released sums hold it, so that
        one release serves both. Where the mean is far from the middle of the bounds, the first direction without
        centring is little else than the direction of the mean.
    epsilon, delta : float
        Budget of the release that `fit` makes; delta = 0 with ``noise="discrete-laplace"``.
    bounds : Schema, pair, dict, path or None
        Public bounds of the columns, target included; None where the data is already in [-1, 1]. A dict has a pair
        (lower, upper) for each name: a data frame's columns keep their names, an array's are called "x0", "x1", ...,
        and the target "y", or as the Series that holds it. A path is that of a bounds file (how-to/prepare-data.md).
    noise : {"discrete-gaussian", "skellam", "discrete-laplace"}
        Family of the noise; all are drawn exactly, in whole numbers.
    servers : int
        Number of servers, at least 2.
    sharing : {"additive", "shamir"}
        How a contribution is split: with additive shares all servers are needed and all but one may collude; with
        Shamir's fewer than half may collude and some may be missing.
    noise_by : {"clients", "servers"}
        Who adds the noise.
    copies : {"auto", "one", "each"}
        Noisy copies of its row that a client sends, with noise by clients: one, or one for each row of the sketch that
        it hits. 'auto' is one where that is proven and costs at most a quarter more variance.
    corrupt_clients : int
        Most clients that may reveal their noise to the servers.
    dropouts : int
        Most clients from whom anything may be missing in the end.
    coalition : {"adaptive", "static"}
        Whether corrupt clients may be chosen after the public matrix is known, or were fixed before.
    calibration : {"joint", "paper"}
        Noise for the whole release at once, or by the paper's bound, which takes more.
    threads : int
        Threads of the kernels.
    simulation_seed : int, optional
        Simulations only: repeats sketch, noise and shares; the guarantee then states that no one is protected.
    sketch : {"auto", "osnap", "countsketch", "rademacher", "sum"}
        What is released: 'sum' adds up products of columns, the others are sketches by a public matrix. 'auto' is 'sum'
        while a client sends at most 8192 words, then 'osnap'.
    rows : int, optional
        Rows k of the sketch; by default what suits the purpose.
    sparsity : int, optional
        Rows s of the sketch that each client hits, with 'osnap'; 4 by default.
    radius : float, optional
        Clip rows, scaled by their bounds, to this L2 norm; no such limit by default.

    Attributes
    ----------
    components_ : ndarray of float64, shape (r, d)
        Orthonormal rows, in normalised units; the most important first.
    origin_ : ndarray of float64, shape (d,)
        What directions go through, in the columns' units: the middle of the bounds, or the mean with its noise.
    feature_names_ : tuple of str
        The columns that the entries of a component belong to.
    n_features_in_ : int
        Their number.
    feature_names_in_ : ndarray of str, shape (d,)
        The same names, where the columns of X or of the release had their own names.
    release_ : Release or GramRelease
        What the servers opened; any other rank can be had from it at no cost.

    Examples
    --------
    >>> import numpy as np
    >>> from dpmpc import LowRankApproximation
    >>> rng = np.random.default_rng(0)
    >>> X = np.outer(rng.uniform(-1, 1, 50_000), [1.0, 0.5, -0.2])  # all rows lie on one line
    >>> fit = LowRankApproximation(n_components=1, epsilon=1.0, delta=1e-6, bounds=(-1, 1)).fit(X)
    >>> np.abs(fit.components_).round(1)
    array([[0.9, 0.4, 0.2]])
    """

    kind: ClassVar[str] = "low-rank"  # as in `dpmpc fit --model`
    example = "--components 3"
    assumes = ("spread", "explained")
    estimator_type = "transformer"
    _sklearn_auto_wrap_output_keys: ClassVar[set[str]] = {"transform"}
    n_components: int = option(3, "rank of the approximation (default 3)", flag="--components", type=int, metavar="R")
    center: bool = option(
        False,
        "directions go through the mean, as in principal component analysis, not through the middle of the bounds",
    )

    def fit(self, X: ArrayLike, y: object = None) -> LowRankApproximation:
        """Make a release of X under the estimator's budget and fit it.

        Parameters
        ----------
        X : array-like of shape (n, d), or a data frame
            One row per client.
        y : object
            Not used.

        Raises
        ------
        InputError
            If a value is not within bounds that refuse it. That depends on the data and no guarantee covers it: the
            message is for the holder of all rows.
        """
        table = people_table(codebook_in(self.bounds), X)
        self.check_parameters(len(table.names))
        self.fit_release(self.release(table))
        remember_features(self, X)
        return self

    def task_choices(self, public: Schema) -> dict[str, Any]:
        """Return the public matrix, with the default number of rows that suits a low-rank approximation."""
        return {**super().task_choices(public), "purpose": "low-rank"}

    def transform(self, X: ArrayLike) -> Any:
        """Return the coordinates (m, r) of rows (m, d), which are normalised and clipped as the clients do."""
        coordinates = (self.normalised(rows_like_fitted(self, X)) - self._origin()) @ self.components_.T
        from sklearn.utils._set_output import _wrap_data_with_container  # what its own transformers are wrapped by

        return _wrap_data_with_container("transform", coordinates, X, self)

    def fit_transform(self, X: ArrayLike, y: object = None) -> Any:
        """Fit, and return the coordinates of the same rows: not private."""
        return self.fit(X, y).transform(X)

    def inverse_transform(self, T: ArrayLike) -> Reals:
        """Return the rows (m, d), in the columns' units, that have the coordinates (m, r)."""
        require_fitted(self)
        coordinates = np.asarray(T, dtype=np.float64)
        if coordinates.ndim != 2 or coordinates.shape[1] != len(self.components_):
            raise InputError("T", f"shape {coordinates.shape}", f"(m, {len(self.components_)})")
        return self.release_.schema.denormalise(coordinates @ self.components_ + self._origin())

    def command_choices(self, asked: dict[str, Any], public: Schema) -> dict[str, Any]:
        """Add what the default number of rows depends on."""
        return {**asked, "purpose": "low-rank"}

    def check_rows(self, table: Table, public: Schema, column: str | None, *, filled: bool) -> None:
        """Refuse a rank above the number of columns."""
        self.check_parameters(len(table.names))
        super().check_rows(table, public, column, filled=filled)

    def forecast(self, spec: ReleaseSpec, assumed: Assumptions | None = None) -> Forecast:
        """Return what a fit is expected to show; see `Commanded.forecast`."""
        columns, given = len(spec.schema), assumed or Assumptions()
        self.check_parameters(columns)
        if self.n_components == columns:
            raise InputError("components", columns, f"1 to {columns - 1}", condition=f"with {columns} columns")
        explained = (1 + self.n_components / columns) / 2 if given.explained is None else given.explained
        population = Population(given.spread, given.spread, explained)
        return forecast_release(design(spec), LowRank(self.n_components), population)

    def compare_with(self, table: Table) -> NotPrivate:
        """Compare psi with that of a random projection."""
        own, random = self.excess_risk(table.values), self.random_excess_risk(table.values)
        return NotPrivate.of(
            {"psi": own, "random_psi": random},
            self.release_.task.schema,
            table,
            [],
            f"excess risk (psi, 0 = optimal): private {own:.4g}, a random projection {random:.4g}; in normalised "
            "units, as the components are",
        )

    def excess_risk(self, X: ArrayLike) -> float:
        """Return psi of this projection, 0 if optimal; not private (Burkhardt et al. 2025, section 6.2).

        With `center` the optimum is that of projections about the mean of X, and the distance of `origin_` from that
        mean counts as far as it lies outside of the components.
        """
        Z = self.normalised(X)
        if not self.center:
            return excess_risk(self.components_, Z)
        mean = Z.mean(axis=0)
        missed = (mean - self._origin()) - (mean - self._origin()) @ self.components_.T @ self.components_
        return excess_risk(self.components_, Z - mean) + float(missed @ missed)

    def random_excess_risk(self, X: ArrayLike) -> float:
        """Return the expected psi of a random projection of the same rank: what a release has to beat."""
        Z = self.normalised(X)
        return random_excess_risk(len(self.components_), Z - Z.mean(axis=0) if self.center else Z)

    def _origin(self) -> Reals:
        """Return what directions go through, in normalised units; noise may have moved a mean out of its bounds."""
        public = self.release_.schema
        return np.asarray((self.origin_ - public.offset) / public.slope)

    def normalised(self, X: ArrayLike) -> Reals:
        """Return rows (n, d) mapped to [-1, 1] by the release's public bounds, and clipped to them."""
        return self.release_.schema.normalise(np.asarray(X, dtype=np.float64))

    def get_feature_names_out(self, input_features: object = None) -> NDArray[Any]:
        """Return the names of the columns of `transform`, whatever those of the rows are."""
        require_fitted(self)
        return np.array([f"lowrankapproximation{place}" for place in range(len(self.components_))], dtype=object)

    def set_output(self, *, transform: Literal["default", "pandas", "polars"] | None = None) -> Self:
        """Choose what `transform` returns: arrays, or data frames with the columns' names.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"}, optional
            None leaves it as it is.
        """
        if transform is not None:
            self._sklearn_output_config = {"transform": transform}
        return self

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
            estimator=type(self).__name__,
            level=level,
            guarantee=self.release_.guarantee,
        )

    @property
    def parameters(self) -> dict[str, object]:
        """What the estimator was given, so that it can be made again."""
        return {"n_components": self.n_components, "center": self.center}

    def check_parameters(self, columns: int) -> None:
        """Refuse a rank that data with so many columns cannot have, before any data is read."""
        require_bool("center", self.center)
        check_rank(self.n_components, columns)

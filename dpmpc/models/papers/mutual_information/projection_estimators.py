"""Least squares on noisy rows, and on a secret Gaussian projection of them (Showkatbakhsh et al. 2018, section III).

A trusted curator releases rows to anyone who fits a model; `coef_` is computed from that release alone, and belongs to
normalised columns without an intercept, as in the paper.

Promised: what `guarantee_` says. Not promised: privacy of y. Neither mechanism adds noise to it: `AdditiveNoise` hands
it out as it is, `RandomProjection` as Sy. Noise is floating-point, hence for simulations only.
"""

from __future__ import annotations

import abc
import math
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from dpmpc.base.arguments import require_choice, require_finite, require_whole
from dpmpc.base.arrays import Reals
from dpmpc.base.errors import GuaranteeError, InputError
from dpmpc.base.randomness import SEED_BYTES, Stream, stream_for
from dpmpc.data import Table
from dpmpc.data.schemas import Bounds, schema
from dpmpc.linear.noise.floating import Gaussian
from dpmpc.linear.sketching.dense import GaussianProjection
from dpmpc.models.common.estimator import Regressor
from dpmpc.models.common.scikit import remember_features, rows_like_fitted, target_of
from dpmpc.models.papers.mutual_information.information import (
    CALIBRATIONS,
    MutualInformationGuarantee,
    additive_variance,
    check_bits,
    hidden_variance,
    paper_variance,
    smallest_spread,
    sound_variance,
)


class NoisyRegression(Regressor, abc.ABC):
    """Base of the two mechanisms: least squares without an intercept on released rows.

    Attributes
    ----------
    released_X_, released_y_ : ndarray of float64
        The release, rows of normalised columns and targets.
    coef_ : ndarray of float64, shape (d,)
        Least squares of `released_y_` on `released_X_`.
    sigma_ : float
        Standard deviation of the noise.
    guarantee_ : MutualInformationGuarantee
        What is promised.
    """

    leakage_bits: float
    bounds: Bounds
    simulation_seed: int | None

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Release the rows X (n, d) within their bounds, with targets y (n,), and fit the release.

        Raises
        ------
        InputError
            If an argument is not as described, or a value without bounds lies outside [-1, 1].
        GuaranteeError
            If the data are outside the class that a public floor stands for.
        """
        self._warn_if_copied()
        check_bits(self.leakage_bits)
        table = Table.from_any(X).require_public_count()
        self._schema = schema(self.bounds, table.names)
        rows = self._schema.normalise(table.values)
        self.released_X_, self.released_y_ = self._release(
            rows, target_of(self, y, len(rows)), stream_for(self.simulation_seed)
        )
        self.coef_ = np.asarray(np.linalg.lstsq(self.released_X_, self.released_y_, rcond=None)[0])
        remember_features(self, X)
        return self

    def predict(self, X: ArrayLike) -> Reals:
        """Predict the targets of rows (m, d), in the units of X that `fit` has seen."""
        rows = rows_like_fitted(self, X)
        return self._schema.normalise(rows) @ self.coef_

    @abc.abstractmethod
    def _release(self, X: Reals, y: Reals, stream: Stream) -> tuple[Reals, Reals]:
        """Return what is released of normalised rows; set `sigma_` and `guarantee_`."""


class AdditiveNoise(NoisyRegression):
    """X + sigma_AN N: independent Gaussian noise on every entry (Equations 8 to 10).

    Parameters
    ----------
    leakage_bits : float
        Most that the release may reveal about one entry of X, the paper's epsilon.
    bounds : None, pair, dict, Schema, str or Path
        Public bounds of the columns of X, see `dpmpc.data.schemas.schema`; None: X is in [-1, 1].
    simulation_seed : int, optional
        Simulations only: repeats the noise, which then protects no one.

    Notes
    -----
    See `NoisyRegression` for the attributes.
    """

    def __init__(self, leakage_bits: float = 1.0, *, bounds: Bounds = None, simulation_seed: int | None = None):
        self.leakage_bits = leakage_bits
        self.bounds = bounds
        self.simulation_seed = simulation_seed

    def _release(self, X: Reals, y: Reals, stream: Stream) -> tuple[Reals, Reals]:
        self.sigma_ = math.sqrt(additive_variance(self.leakage_bits))
        self.guarantee_ = MutualInformationGuarantee(
            self.leakage_bits,
            self.sigma_,
            "sound",
            proven=True,
            rows=len(X),
            assumptions=("known-target",),
            sources=("additive-bits",),
        )
        return X + Gaussian(self.sigma_).sample(X.shape, stream=stream), y


class RandomProjection(NoisyRegression):
    """(SX + sigma_RP N, Sy) with a secret Gaussian matrix S of n' rows (Equations 12 to 14).

    Parameters
    ----------
    leakage_bits : float
        Most that the release may reveal about one entry of X, the paper's epsilon.
    rows : int
        n', at least d.
    calibration : {"sound", "paper"}
        "sound": sigma^2 = n'/(2^(2 epsilon) - 1) - floor, proven. "paper": Equation 13, whose proof is wrong from two
        columns on, and from one where y is released (`dpmpc.models.papers.mutual_information.information`).
    floor : float, "data" or None
        The variance that mixing is counted on for, a public lower bound on v - sigma^2 ("sound") or on f^2 ("paper").
        None stands for 0 with "sound", which any data satisfy, and for "data" with "paper". "data" computes it from
        the data: sigma then depends on the entries that it protects, which no theorem covers.
    bounds : None, pair, dict, Schema, str or Path
        Public bounds of the columns of X, see `dpmpc.data.schemas.schema`; None: X is in [-1, 1].
    simulation_seed : int, optional
        Simulations only: repeats S and the noise; S is then not secret, and nobody is protected.

    Notes
    -----
    See `NoisyRegression` for the attributes. Where `floor` is "data", `sigma_` is a secret of the curator. That `fit`
    refuses a floor depends on the data too: anyone who sees the refusal learns that the data do not reach it.
    """

    def __init__(
        self,
        leakage_bits: float = 1.0,
        *,
        rows: int,
        calibration: Literal["sound", "paper"] = "sound",
        floor: float | Literal["data"] | None = None,
        bounds: Bounds = None,
        simulation_seed: int | None = None,
    ):
        self.leakage_bits = leakage_bits
        self.rows = rows
        self.calibration = calibration
        self.floor = floor
        self.bounds = bounds
        self.simulation_seed = simulation_seed

    def _release(self, X: Reals, y: Reals, stream: Stream) -> tuple[Reals, Reals]:
        if require_whole("rows", self.rows, 1) < X.shape[1]:
            raise InputError("rows", self.rows, f"at least {X.shape[1]}", "one for each column of X")
        floor = self._checked_floor()
        self.sigma_ = math.sqrt(self._variance(X, y, floor))
        self.guarantee_ = self._guarantee(floor)
        secret = GaussianProjection(self.rows, len(X), stream.bytes(SEED_BYTES))
        projected = secret.apply(np.column_stack([X, y]))
        if self.sigma_ > 0:
            projected[:, :-1] += Gaussian(self.sigma_).sample((self.rows, X.shape[1]), stream=stream)
        return projected[:, :-1], projected[:, -1]

    def _checked_floor(self) -> float | Literal["data"]:
        require_choice("calibration", self.calibration, CALIBRATIONS)
        if self.floor is None:
            return "data" if self.calibration == "paper" else 0.0
        if self.floor == "data":
            return "data"
        return require_finite("floor", self.floor, 0)

    def _variance(self, X: Reals, y: Reals, floor: float | Literal["data"]) -> float:
        """Return sigma^2; refuse data that do not meet the public floor."""
        sound = self.calibration == "sound"
        if floor == "data":
            if sound:
                return sound_variance(X, y, self.rows, self.leakage_bits)
            return paper_variance(self.rows, self.leakage_bits, smallest_spread(X))
        variance = paper_variance(self.rows, self.leakage_bits, floor)
        if floor > 0:
            reached = hidden_variance(X, y, variance) - variance if sound else smallest_spread(X)
            needed = min(floor, paper_variance(self.rows, self.leakage_bits))
            if reached < needed:
                raise GuaranteeError(  # how much is reached is a secret of the curator
                    f"floor: {floor:g} given, but in these data mixing hides an entry behind less variance than the "
                    f"{needed:g} that are counted on; a smaller floor, 0 at least, expected"
                )
        return variance

    def _guarantee(self, floor: float | Literal["data"]) -> MutualInformationGuarantee:
        assumptions = ["known-target", "secret-projection"]
        if floor == "data":
            assumptions.append("uninformative-sigma")
        elif floor > 0:
            assumptions.append("public-floor")
        source = "fixed-sigma-bits" if floor == "data" else "projected-bits"
        if self.calibration == "paper" and floor != 0:
            assumptions.append("independent-columns")
            source = "printed-bits"
        return MutualInformationGuarantee(
            self.leakage_bits,
            None if floor == "data" else self.sigma_,
            self.calibration,
            proven=floor == 0 or (floor != "data" and self.calibration == "sound"),
            rows=self.rows,
            projected=True,
            floor=0.0 if floor == "data" else floor,
            assumptions=tuple(assumptions),
            sources=(source,),
        )

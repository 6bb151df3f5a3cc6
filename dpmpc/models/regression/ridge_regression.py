"""Ridge regression as scikit-learn has estimators: parameters, `fit` on rows, `predict`.

All that is read from a release is `dpmpc.models.regression.ridge`; what `fit` adds is a release, simulated in this
process.
"""

from __future__ import annotations

import dataclasses

from numpy.typing import ArrayLike

from dpmpc.data.data_checks import check_table
from dpmpc.data.schemas import schema
from dpmpc.models.common.private_estimator import LinearPredictor, PrivateLinearModel, table_of, target_name
from dpmpc.models.common.scikit import remember_features
from dpmpc.models.regression.ridge import RidgeFit


@dataclasses.dataclass(eq=False, repr=False)
class RidgeRegression(RidgeFit, LinearPredictor, PrivateLinearModel):
    """Differentially private ridge regression, from one release or in rounds of sums.

    `fit` simulates clients and servers in this process and then calls `fit_release`; `fit_release` alone is
    post-processing of a release that came from anywhere.

    Parameters
    ----------
    alpha : float or "auto", optional
        Of one release: penalty on the squared coefficients of the normalised columns (each mapped from its bounds to
        [-1, 1]), by default 1. "auto" averages over penalties as the release suggests or, of a sketch of rows, chooses
        one (`dpmpc.models.regression.ridge`). Rounds shrink by themselves.
    epsilon, delta : float
        Budget of the release that `fit` makes; delta = 0 with ``noise="discrete-laplace"``.
    bounds : Schema, pair, dict, path or None
        Public bounds of the columns, target included; None where the data is already in [-1, 1]. A dict has a pair
        (lower, upper) for each name: a data frame's columns keep their names, an array's are called "x0", "x1", ...,
        and the target "y", or as the Series that holds it. A path is that of a bounds file (docs/how-to/own-csv.md).
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
        Most clients that may tell the servers their noise.
    dropouts : int
        Most clients from whom anything may be missing in the end.
    coalition : {"adaptive", "static"}
        Whether corrupt clients may be chosen after the public matrix is known, or were fixed before.
    calibration : {"joint", "paper"}
        Noise for the whole release at once, or by the paper's bound, which takes more.
    threads : int
        Threads of the kernels.
    simulation_seed : int, optional
        Simulations only: repeats sketch, noise and shares; the guarantee then says that nobody is protected.
    sketch : {"auto", "osnap", "countsketch", "rademacher", "sum"}
        What is released: 'sum' adds up products of columns, the others are sketches by a public matrix. 'auto' is 'sum'
        while a client sends at most 8192 words, then 'osnap'.
    rows : int, optional
        Rows k of the sketch; by default what suits the purpose.
    sparsity : int, optional
        Rows s of the sketch that each client hits, with 'osnap'; 4 by default.
    radius : float, optional
        Clip rows, scaled by their bounds, to this L2 norm; no such limit by default.
    fit_intercept : bool
        Whether to fit an intercept. It costs no privacy: its column of the sketch is public.
    debias : {"guarded", "never"}
        Clients' noise adds B = sum of the rows' noise variances to the Gram diagonal, in expectation, and shrinks the
        fit. "guarded" takes B off where the smallest eigenvalue clearly exceeds the noise's fluctuation, and never
        elsewhere: an unguarded correction explodes (docs/mathematics.md, section 4).
    rounds : int or "auto"
        With 0, the default, all of the budget goes into one release, from which any other column can be fitted too; its
        intervals assume errors of an even spread. With 1 to 64 as many steering rounds follow the second moments, whose
        coefficients predict, and a second sum, for errors and intervals that assume no spread (docs/mathematics.md,
        section 12.4). "auto" takes 8, or 32 for at most 100,000 rows without intervals. It takes one release where only
        that has what is required: a penalty, a fit without an intercept, a named sketch, a radius, Shamir shares,
        weights, other noise, or more columns than a round has room for.
    intervals : bool
        Of a fit in rounds: whether there is the second sum. Without it most of the budget goes into prediction.
    private_bounds : bool
        Of a fit in rounds: whether 5% of the budget goes into counts that narrow the bounds of columns which use little
        of them (`dpmpc.models.rounds.private_bounds`). Values outside count as the new bounds.

    Attributes
    ----------
    coef_ : ndarray of float64, shape (d,)
        In the units of the columns.
    intercept_ : float
        In the target's units.
    feature_names_ : tuple of str
        The columns that `coef_` belongs to.
    n_features_in_ : int
        Their number.
    feature_names_in_ : ndarray of str, shape (d,)
        The same names, where the columns of X or of the release had names of their own.
    guarantee_ : Guarantee
        Of all that was released.
    releases_ : tuple of Release or GramRelease
        What the servers opened: one release, or the second moments and the rounds in their order, of which each has
        the guarantee of a part.
    release_ : Release or GramRelease
        The one release; any other target and features can be fitted from it at no cost. There is none after a fit in
        rounds.
    selected_ : GramSource
        Its columns that were used: all, or the features in the order given and then the target.
    debiased_ : bool
        Whether B was taken off.
    alpha_ : float
        The penalty used: the chosen one, or one larger than `alpha` where the noise left the Gram matrix without a
        safe inverse. Where penalties were averaged, the one that shrinks the median direction as much.
    model_ : LinearModel
        The fit in normalised units.
    rounds_ : int
        After a fit in rounds: the steering rounds.
    verdict_ : str or None
        After a fit in rounds: why nothing was learned; the released mean is predicted then.
    no_interval_ : str or None
        After a fit in rounds: why there are no intervals.
    noise_part_ : float
        After a fit in rounds: the part of what the features may explain that noise hides. Clipping may hide more.
    private_bounds_ : tuple of PrivateBound
        After a fit in rounds: the bounds of each column that was counted, empty without `private_bounds`.

    Examples
    --------
    >>> import numpy as np
    >>> from dpmpc import RidgeRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, (50_000, 2))
    >>> y = 3 * X[:, 0] - X[:, 1] + rng.standard_normal(50_000)
    >>> bounds = {"x0": (0, 10), "x1": (0, 10), "y": (-15, 35)}  # publicly known, not read off the data
    >>> model = RidgeRegression(epsilon=1.0, delta=1e-6, bounds=bounds).fit(X, y)
    >>> model.coef_.round(0)
    array([ 3., -1.])
    """

    _allowed_in_rounds = (
        ("sketch", ("auto", "sum")),
        ("rows", (None, 1)),
        ("sparsity", (None, 1)),
        ("radius", (None,)),
        *RidgeFit._allowed_in_rounds,
    )

    def fit(self, X: ArrayLike, y: ArrayLike) -> RidgeRegression:
        """Make a release of (X, y) under the estimator's budget and fit it.

        Parameters
        ----------
        X : array-like of shape (n, d), or a data frame
            One row per client.
        y : array-like of shape (n,)
            The target. In `bounds` it is called "y", or by its own name where it is a Series.

        Raises
        ------
        InputError
            If a value is not within bounds that refuse it. That depends on the data and no guarantee covers it: the
            message is for whoever holds all rows.
        """
        self.check_parameters()
        table = table_of(self, X, y, target_name(self.bounds, y))
        public = schema(self.bounds, table.names)
        if not self.rounds_for(self.specification(public, len(table))):
            self.fit_release(self.release(table), target=table.names[-1])
        else:
            check_table(table, public=public)
            self._take_rounds(self.releases(table, public, self.bounds))
        self.warn_of_probabilities(table.values[:, -1])
        remember_features(self, X)
        return self

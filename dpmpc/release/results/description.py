"""Means, standard deviations and correlations, with standard errors, from noisy second moments.

The released matrix is M + N, for M the Gram matrix of (1, z) and N symmetric noise with variance v on the diagonal,
v/2 off it and 0 in the corner, so that E <A, N> <B, N> = v tr(A B) for symmetric A and B without a corner. Everything
here is a smooth function of the matrix; its error due to the noise is that of its linear part (the delta method), for
which each function has its gradient A.

Promised: functions of the release alone. The error of a mean is exact; where the noise is small compared with the
variance of the columns, those of standard deviations and correlations are nearly exact. Not promised: the same where
noise dominates; what cannot be distinguished from noise is NaN. Sampling errors of standard deviations and correlations
are those of normal data. The values are those that clients encode: clipped to their public bounds.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import numpy as np

from dpmpc.base.arguments import require_choice
from dpmpc.base.arrays import Reals
from dpmpc.data import Schema
from dpmpc.release.results.number_tables import NumberTable, number_text

#: What the standard errors are about: the population that the clients were drawn from, or these clients.
OF = ("population", "sample")
_CLEARLY = 2.0  # a variance of fewer standard errors (due to the noise) than these counts as not distinguishable from 0


@dataclasses.dataclass(frozen=True)
class Description:
    """What a release of second moments shows about each column and each pair of columns.

    Attributes
    ----------
    names : tuple of str
        The columns.
    clients : int
        n, public and exact.
    means, mean_errors : ndarray of float64, shape (p,)
        In the columns' units, and their standard errors.
    deviations, deviation_errors : ndarray of float64, shape (p,)
        Standard deviations, and their standard errors; NaN where the variance does not stand out of the noise.
    correlations, correlation_errors : ndarray of float64, shape (p, p)
        NaN where a standard deviation is. Neither is forced into [-1, 1].
    of : {"population", "sample"}
        What the errors are for.
    total, total_error : float, optional
        Noisy number of complete rows, or sum of the weights in units of the largest, and its standard error.
    """

    names: tuple[str, ...]
    clients: int
    means: Reals
    mean_errors: Reals
    deviations: Reals
    deviation_errors: Reals
    correlations: Reals
    correlation_errors: Reals
    of: str
    total: float | None = None
    total_error: float | None = None
    outside: tuple[str, ...] = ()

    @functools.cached_property
    def columns(self) -> NumberTable:
        """Means and standard deviations, a row for each column."""
        covered = "noise and sampling" if self.of == "population" else "the noise alone"
        notes = [f"n = {self.clients:,}, exact. Standard errors cover {covered}. Values are clipped to the bounds."]
        if self.total is not None and self.total_error is not None:
            notes.append(
                f"Rows that count: {number_text(self.total)}, standard error {number_text(self.total_error)}, in units "
                "of the largest weight."
            )
        if self.outside:
            notes.append(
                f"OUTSIDE OF THE PUBLIC BOUNDS, where no such mean can be: {', '.join(self.outside)}. The noise is "
                "larger than what it hides: do not use these estimates."
            )
        if unknown := [name for name, value in zip(self.names, self.deviations, strict=True) if math.isnan(value)]:
            notes.append(f"The spread of {', '.join(unknown)} does not stand out of the noise.")
        return NumberTable(
            "Columns",
            {
                "mean": self.means.tolist(),
                "standard error": self.mean_errors.tolist(),
                "standard deviation": self.deviations.tolist(),
                "its standard error": self.deviation_errors.tolist(),
            },
            self.names,
            notes=notes,
            errors={"mean": "standard error", "standard deviation": "its standard error"},
        )

    @functools.cached_property
    def pairs(self) -> NumberTable:
        """Correlations, a row for each pair of columns."""
        rows, columns = np.triu_indices(len(self.names), 1)
        return NumberTable(
            "Correlations",
            {
                "correlation": self.correlations[rows, columns].tolist(),
                "standard error": self.correlation_errors[rows, columns].tolist(),
            },
            [f"{self.names[row]}, {self.names[column]}" for row, column in zip(rows, columns, strict=True)],
            label="pair",
            errors={"correlation": "standard error"},
        )

    @property
    def tables(self) -> tuple[NumberTable, ...]:
        """The table of columns, and that of pairs where there are any."""
        return (self.columns, self.pairs) if len(self.names) > 1 else (self.columns,)

    def __str__(self) -> str:
        """Return the tables as text."""
        return "\n\n".join(map(str, self.tables))

    def to_latex(self) -> str:
        """Return the tables for LaTeX."""
        return "\n".join(table.to_latex() for table in self.tables)

    def to_frame(self) -> Any:
        """Return means and standard deviations as a data frame of pandas."""
        return self.columns.to_frame()

    def _repr_html_(self) -> str:
        return "".join(table.to_html() for table in self.tables)


def describe_moments(
    gram: Reals, noise_variance: float, public: Schema, clients: int, of: str, *, total_variance: float = 0.0
) -> Description:
    """Describe the columns of a noisy Gram matrix.

    Parameters
    ----------
    gram : ndarray of float64, shape (p + 1, p + 1)
        M + N, of (1, z) in normalised units, as `NoisyGram.matrix` has it.
    noise_variance : float
        v.
    public : Schema
        The columns' bounds.
    clients : int
        n.
    of : {"population", "sample"}
        What standard errors cover: sampling and noise, or the noise alone.
    total_variance : float
        Variance of the noise in the corner of the matrix: 0 where it is n; else v, and n is the noisy sum of weights.
    """
    require_choice("of", of, OF)
    n = float(gram[0, 0]) if total_variance else float(clients)
    v = noise_variance / n**2  # the noise's variance in the matrix over n
    corner = total_variance / n**2
    m, Q = gram[0, 1:] / n, gram[1:, 1:] / n
    # E m^_j m^_k = m_j m_k for j != k, and E m^_j^2 = m_j^2 + v/2.
    C = Q - np.outer(m, m) + np.diag(np.full(len(m), v / 2))
    sampling = 1.0 / n if of == "population" else 0.0
    if of == "population":
        C = C * (n / max(n - 1, 1))
    variance = np.diag(C)
    # d(q_jj - m_j^2): v + 4 m_j^2 v/2; normal data add 2 variance^2 / n.
    # A noisy corner N_00 adds -(q_jj - 2 m_j^2) N_00 to it, and -m_j N_00 to the error of the mean.
    noise_of_variance = v * (1 + 2 * m**2) + corner * (np.diag(Q) - 2 * m**2) ** 2
    known = variance > _CLEARLY * np.sqrt(noise_of_variance)
    a = np.where(known, variance, np.nan)
    spread = np.sqrt(a)
    spread_error = np.sqrt(noise_of_variance + sampling * 2 * a**2) / (2 * spread)
    R = C / np.outer(spread, spread)
    errors = np.sqrt(_noise_of_correlations(R, m, a, corner / v) * v + sampling * np.maximum(1 - R**2, 0.0) ** 2)
    R[np.diag_indices_from(R)] = np.where(known, 1.0, np.nan)
    errors[np.diag_indices_from(errors)] = np.where(known, 0.0, np.nan)
    outside = tuple(name for name, mean in zip(public.names, m.tolist(), strict=True) if abs(mean) > 1.0)
    return Description(
        public.names,
        clients,
        public.offset + public.slope * m,
        public.slope * np.sqrt(v / 2 + corner * m**2 + sampling * np.maximum(variance, 0.0)),
        public.slope * spread,
        public.slope * spread_error,
        R,
        errors,
        of,
        n if total_variance else None,
        math.sqrt(total_variance) if total_variance else None,
        outside,
    )


def _noise_of_correlations(R: Reals, m: Reals, a: Reals, corner: float) -> Reals:
    """Return the variance of r_jk due to the noise, in units of v; `corner` is that of N_00, 0 or 1.

    dr = dq_jk / s_j s_k - (m_k / s_j s_k - r m_j / a_j) dm_j - (m_j / s_j s_k - r m_k / a_k) dm_k
    - r dq_jj / 2 a_j - r dq_kk / 2 a_k, for s^2 = a. The corner adds (m_j m_k / s_j s_k - r m_j^2 / 2 a_j
    - r m_k^2 / 2 a_k) N_00: scaling all of the matrix changes no correlation but by the corner.
    """
    product = np.sqrt(np.outer(a, a))
    by_first = m[None, :] / product - R * (m / a)[:, None]
    by_second = m[:, None] / product - R * (m / a)[None, :]
    by_corner = np.outer(m, m) / product - R / 2 * ((m**2 / a)[:, None] + (m**2 / a)[None, :])
    squares = (R / (2 * a)[:, None]) ** 2 + (R / (2 * a)[None, :]) ** 2
    return np.asarray(0.5 / product**2 + 0.5 * by_first**2 + 0.5 * by_second**2 + squares + corner * by_corner**2)

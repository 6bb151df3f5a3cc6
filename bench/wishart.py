"""Gram matrices of Gaussian rows, drawn by their law: no row is made."""

from __future__ import annotations

import numpy as np

from dpmpc.base.arrays import Reals


def wishart_factor(rows: int, columns: int, generator: np.random.Generator) -> Reals:
    """Draw T for which T^T T has the law of Z^T Z, Z of `rows` x `columns` independent N(0, 1) entries.

    Bartlett's triangle, or Z itself where it has fewer rows than columns.
    """
    if rows < columns:
        return generator.standard_normal((rows, columns))
    triangle = np.triu(generator.standard_normal((columns, columns)), 1)
    np.fill_diagonal(triangle, np.sqrt(generator.chisquare(rows - np.arange(columns))))
    return triangle

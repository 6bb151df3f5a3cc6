"""Histograms of all variables of a release of cells, and how far off any function of one is: the only place for noise.

Grids are solved for together: every grid has the same number of people, and those that count by the same variable the
same people in each of its groups.
With h the histograms that the grids give by themselves, Sigma their covariance and A h = b these constraints, the
estimate is h - Sigma A^T (A Sigma A^T)^-1 (A h - b). A function with the gradient g by counts, and w the variance of
the noise in g . h, has the variance

    max(sum h_c g_c^2 - ((g . h)^2 - w) / n, 0) + w:

that of people drawn at random, from which the noise in a square is taken off, and the noise's own, which is exact where
the function is linear.

Promised: the noise of a linear function of a histogram is exact, and its sampling
error that of people drawn at random. Not promised: that an estimate lies in its
range; noise can make a number of people negative.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence

import numpy as np

from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError
from dpmpc.linear.contributions.cells import BITS, CellCounts, CellGrid, strategy_matrix
from dpmpc.release.release import Release


@functools.lru_cache(maxsize=64)
def _inverse(strategy: str, cells: int) -> Reals:
    """Return the inverse (N, N) of a strategy of a group."""
    return np.asarray(np.linalg.inv(strategy_matrix(strategy, cells) / 2**BITS))


class CellEstimates:
    """Least squares of all grids, from noisy sums in people and the variance of the noise in each; n is exact."""

    def __init__(self, contribution: CellCounts, sums: Reals, variance: float, people: int):
        self.grids, self.people, self._variance = contribution.grids, people, variance
        starts = contribution.starts()
        blocks = [sums[start:end] for start, end in itertools.pairwise(starts)]
        solved = [_solved(grid, block) for grid, block in zip(self.grids, blocks, strict=True)]
        rows, expected = _constraints(self.grids, people)
        self._spread = [_noised(grid, one) for grid, one in zip(self.grids, rows, strict=True)]  # Sigma A^T, by grid
        inner = sum(_inner(one, other) for one, other in zip(rows, self._spread, strict=True))
        self._inner = np.linalg.inv(np.asarray(inner))
        off = np.sum([np.tensordot(one, h, 2) for one, h in zip(rows, solved, strict=True)], axis=0) - expected
        shift = self._inner @ off
        #: The histogram (G, N) of each grid, with the number of those who lack the value as a last column.
        self.counts = [h - np.tensordot(shift, one, 1) for h, one in zip(solved, self._spread, strict=True)]

    @classmethod
    def of(cls, release: Release) -> CellEstimates:
        """Return the histograms of a release, or refuse one of something else."""
        contribution = release.task.statistic
        if not isinstance(contribution, CellCounts):
            raise InputError("release", f"of {contribution.name} given, of cell-counts expected (dpmpc describe)")
        return cls(contribution, release.sketch[0], float(release.noise_variance[0]), release.clients)

    def noise_covariance(self, grid: int, gradients: Reals) -> Reals:
        """Return that of the noise in linear functions of a grid's histogram, (K, K) for gradients (K, G, C)."""
        spread = _noised(self.grids[grid], gradients)
        shared = _inner(gradients, self._spread[grid])
        return np.asarray(self._variance * (_inner(gradients, spread) - shared @ self._inner @ shared.T))

    def noise_variance(self, grid: int, gradients: Reals) -> Reals:
        """Return the diagonal of `noise_covariance`, (K,)."""
        own = np.einsum("kgc,kgc->k", gradients, _noised(self.grids[grid], gradients))
        shared = _inner(gradients, self._spread[grid])
        found = own - np.einsum("kr,rs,ks->k", shared, self._inner, shared)
        return np.asarray(self._variance * np.maximum(found, 0.0))

    def covariance(self, grid: int, gradients: Reals) -> Reals:
        """Return that of functions with these gradients (K, G, C) by the counts, (K, K): sampling and noise.

        The multinomial part is estimated without bias, as the square of a noisy sum exceeds that of the sum by the
        noise's variance; its diagonal is floored at 0.
        """
        flat, h = gradients.reshape(len(gradients), -1), self.counts[grid].ravel()
        noise, totals = self.noise_covariance(grid, gradients), flat @ h
        sampling = (flat * h) @ flat.T - (np.outer(totals, totals) - noise) / self.people
        np.fill_diagonal(sampling, np.maximum(np.diag(sampling), 0.0))
        return np.asarray(sampling + noise)

    def variance(self, grid: int, gradient: Reals) -> float:
        """Return the variance of one function, the diagonal of `covariance`."""
        return float(self.covariance(grid, gradient[None])[0, 0])

    def total(self, grid: int, gradient: Reals) -> tuple[float, float]:
        """Return a linear function of the histogram, and the standard error that its noise alone has."""
        noise = float(self.noise_variance(grid, gradient[None])[0])
        return float(np.sum(self.counts[grid] * gradient)), math.sqrt(noise)


def _solved(grid: CellGrid, block: Reals) -> Reals:
    """Return a grid's histogram (G, C) by itself."""
    ordered = grid.group_count * grid.cells
    cells = block[:ordered].reshape(grid.group_count, grid.cells) @ _inverse(grid.strategy, grid.cells).T
    return np.column_stack([cells, block[ordered:]]) if grid.missing is not None else cells


def _noised(grid: CellGrid, gradients: Reals) -> Reals:
    """Multiply gradients (.., G, C) by the covariance of what `_solved` returns, for noise of variance 1."""
    inverse = _inverse(grid.strategy, grid.cells)
    found = gradients.copy()
    found[..., : grid.cells] = (gradients[..., : grid.cells] @ inverse) @ inverse.T
    return found


def _inner(one: Reals, other: Reals) -> Reals:
    return one.reshape(len(one), -1) @ other.reshape(len(other), -1).T


def _constraints(grids: Sequence[CellGrid], people: int) -> tuple[list[Reals], Reals]:
    """Return what all histograms fulfil: rows (R, G, C) of each grid, and what their sums over all grids are.

    Everybody is in each grid; and grids with a variable in common agree on the people of all its values but the last,
    which follow from the total.
    """
    found: list[tuple[dict[int, Reals], float]] = []
    shapes = [(grid.group_count, grid.cells + (grid.missing is not None)) for grid in grids]
    first: dict[tuple[int, int], list[Reals]] = {}
    owner: dict[tuple[int, int], int] = {}
    for place, (grid, shape) in enumerate(zip(grids, shapes, strict=True)):
        found.append(({place: np.ones(shape)}, float(people)))
        sizes = [count + 1 for _, count in grid.groups]
        values = np.indices(sizes).reshape(len(sizes), shape[0])
        for axis, variable in enumerate(grid.groups):
            shown = [np.outer(values[axis] == value, np.ones(shape[1])) for value in range(variable[1])]
            if variable in first:
                found += [
                    ({owner[variable]: one, place: -other}, 0.0)
                    for one, other in zip(first[variable], shown, strict=True)
                ]
            else:
                first[variable], owner[variable] = shown, place
    rows = [np.zeros((len(found), *shape)) for shape in shapes]
    for number, (terms, _) in enumerate(found):
        for place, term in terms.items():
            rows[place][number] = term
    return rows, np.array([total for _, total in found])

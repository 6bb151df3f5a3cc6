"""Polynomials over a prime field through a few points: their values elsewhere, and points that are off them.

Numbers are Python's: there is one point for each server, so this is never the slow part.
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def lagrange(points: Sequence[int], at: int, modulus: int) -> list[int]:
    """Weights w with f(at) = sum_j w_j f(points[j]) for every polynomial f of degree below the number of points."""
    weights = []
    for point in points:
        others = [other for other in points if other != point]
        numerator = math.prod(at - other for other in others)
        denominator = math.prod(point - other for other in others)
        weights.append(numerator * pow(denominator, -1, modulus) % modulus)
    return weights


def outliers(points: Sequence[int], values: Sequence[int], degree: int, modulus: int) -> list[int] | None:
    """Find the points that have to go for the others to lie on one polynomial (Berlekamp and Welch, US 4633470).

    With m points and at most e = floor((m - degree - 1) / 2) outliers there is one such polynomial f: two of them would
    agree in m - 2 e > degree points. Let E be the monic polynomial of degree e that is zero at the outliers, and at
    any other points where there are fewer. Then N = f E solves

        N(x_i) = y_i E(x_i) for all i,    deg N <= degree + e,

    which is linear in the coefficients of N and E. For every solution N - f E has degree at most degree + e and is zero
    at the m - e points where y_i = f(x_i), so it is zero: E is zero at all outliers.

    Parameters
    ----------
    points, values : sequence of int
        x_i, distinct, and y_i.
    degree : int
        Of the polynomial, at most; there are more points than that.
    modulus : int
        A prime.

    Returns
    -------
    list of int or None
        Indices of the outliers; None if there are more than e of them.
    """
    most = (len(points) - degree - 1) // 2
    equations = []
    for x, y in zip(points, values, strict=True):
        powers = [pow(x, exponent, modulus) for exponent in range(degree + most + 1)]
        equations.append([*powers, *(-y * power % modulus for power in powers[:most]), y * powers[most] % modulus])
    solution = _solve(equations, modulus)
    if solution is None:
        return None
    locator = [*solution[degree + most + 1 :], 1]
    pairs = list(zip(points, values, strict=True))
    known = [(x, y) for x, y in pairs if _value(locator, x, modulus)][: degree + 1]
    xs, ys = [x for x, _ in known], [y for _, y in known]
    found = [index for index, (x, y) in enumerate(pairs) if _dot(lagrange(xs, x, modulus), ys, modulus) != y]
    return found if len(found) <= most else None


def _dot(left: Sequence[int], right: Sequence[int], modulus: int) -> int:
    return sum(a * b for a, b in zip(left, right, strict=True)) % modulus


def _value(coefficients: Sequence[int], x: int, modulus: int) -> int:
    return _dot(coefficients, [pow(x, exponent, modulus) for exponent in range(len(coefficients))], modulus)


def _solve(equations: list[list[int]], modulus: int) -> list[int] | None:
    """Return a solution of the linear equations, right-hand sides last, or None where there is none."""
    unknowns = len(equations[0]) - 1
    rows: list[list[int]] = [list(row) for row in equations]
    pivots: list[int] = []
    for column in range(unknowns):
        done = len(pivots)
        pivot = next((index for index in range(done, len(rows)) if rows[index][column]), None)
        if pivot is None:
            continue
        rows[done], rows[pivot] = rows[pivot], rows[done]
        inverse = pow(rows[done][column], -1, modulus)
        rows[done] = [entry * inverse % modulus for entry in rows[done]]
        for index, row in enumerate(rows):
            if index != done and row[column]:
                rows[index] = [(a - row[column] * b) % modulus for a, b in zip(row, rows[done], strict=True)]
        pivots.append(column)
    if any(row[-1] for row in rows[len(pivots) :]):
        return None
    solution = [0] * unknowns
    for column, row in zip(pivots, rows, strict=False):
        solution[column] = row[-1]
    return solution

"""How the columns of a sparse public matrix overlap: products of its signs, added up over pieces of clients.

Promised: sums of signs are exact integers (float64 holds them below 2^53); memory of one (k, k) array and of a piece
of clients, never of S. Not promised: speed where a client hits many rows; dense families bring their own products.

A piece is what `PublicMatrix.entries` returns: the rows, int64 (m, s), and the signs, int8 (m, s), of m clients.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from dpmpc.base.arrays import Integers, Reals
from dpmpc.base.errors import InputError

Piece = tuple[Integers, NDArray[np.int8]]

MOST_OVERLAPPING_ROWS = 1 << 14  # a (k, k) array of 2 GB


def check_rows(rows: int) -> None:
    """Refuse a matrix whose (k, k) overlaps nobody can hold."""
    if rows > MOST_OVERLAPPING_ROWS:
        raise InputError("rows", rows, f"at most {MOST_OVERLAPPING_ROWS}", condition="for overlaps of its rows")


def signed_overlaps(pieces: Iterable[Piece], rows: int) -> Reals:
    """Return S S^T off its diagonal, float64 (k, k), for the S of entries +-1."""
    check_rows(rows)
    half = np.zeros((rows, rows))
    for hit, signs in pieces:
        real = signs.astype(np.float64)
        for a, b in combinations(range(hit.shape[1]), 2):
            np.add.at(half.reshape(-1), hit[:, a] * rows + hit[:, b], real[:, a] * real[:, b])
    half += half.T.copy()
    return half


def quadratic_forms(pieces: Iterable[Piece], K: Reals) -> Iterator[Reals]:
    """Return s_i^T K s_i of the clients of each piece, for symmetric K (k, k)."""
    flat, diagonal = K.reshape(-1), K.diagonal()
    for hit, signs in pieces:
        forms = diagonal[hit].sum(axis=1)
        for a, b in combinations(range(hit.shape[1]), 2):
            forms += (2 * signs[:, a] * signs[:, b]) * flat[hit[:, a] * len(K) + hit[:, b]]
        yield forms


def pair_counts(pieces: Iterable[Piece], rows: int) -> Integers:
    """Return how many clients hit both row a and row b, for a < b: int64 (k k,), at a k + b."""
    check_rows(rows)
    counts = np.zeros(rows * rows, np.int64)
    for hit, _ in pieces:
        for pair in row_pairs(hit, rows):
            np.add.at(counts, pair, 1)
    return counts


def row_pairs(hit: Integers, rows: int) -> Iterator[Integers]:
    """Return every client's first pair of rows a < b as a k + b, then its second, and so on."""
    ordered = np.sort(hit, axis=1)
    for a, b in combinations(range(hit.shape[1]), 2):
        yield ordered[:, a] * rows + ordered[:, b]
